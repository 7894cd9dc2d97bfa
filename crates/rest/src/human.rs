//! `?human`: sizes, times, dates and versions as people read them.

use serde_json::Value;

/// Beside each `x_in_bytes` and `x_in_millis` an `x` with a unit. The depth is that of an answer, which is limited;
/// a document in it is left alone.
pub(crate) fn humane(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut out = serde_json::Map::new();
            for (key, value) in map {
                let spoken = match (key.strip_suffix("_in_bytes"), key.strip_suffix("_in_millis"), value.as_u64()) {
                    (Some(name), _, Some(n)) => Some((name, model::units::render_bytes(n))),
                    (_, Some(name), Some(n)) if !name.starts_with("start_") && !name.ends_with("timestamp") => {
                        Some((name, model::units::render_duration(std::time::Duration::from_millis(n))))
                    }
                    _ => None,
                };
                // Two settings that are no texts for people.
                let settled = match (key.as_str(), value.as_str().and_then(|text| text.parse::<i64>().ok())) {
                    ("creation_date", Some(ms)) => Some(date_text(ms)),
                    ("created", Some(id)) if id > 999_999 => Some(version_of(id)),
                    _ => None,
                };
                if let Some(text) = settled {
                    out.insert(format!("{key}_string"), text.into());
                }
                if let Some((name, text)) = spoken {
                    out.entry(name.to_owned()).or_insert_with(|| text.into());
                }
                out.insert(key.clone(), if key == "_source" { value.clone() } else { humane(value) });
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(humane).collect()),
        other => other.clone(),
    }
}

/// The version that an id of it means.
fn version_of(id: i64) -> String {
    let id = id & !0x0800_0000;
    format!("{}.{}.{}", id / 1_000_000, id / 10_000 % 100, id / 100 % 100)
}

/// Milliseconds since 1970 as `2026-11-21T12:00:00.000Z`.
pub(crate) fn date_text(ms: i64) -> String {
    model::date::DateFormat::parse_pattern("strict_date_time").map_or_else(|_| ms.to_string(), |format| format.render(ms, None))
}
