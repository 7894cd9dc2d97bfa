//! Index settings: flattened, known, readable.
//!
//! Not here: the tables themselves (`model::settings`, `model::accepted_settings`), what settings do.

use model::lock_index::{LockIndex, parse_lock_ttl};
use model::nearest::nearest;
use model::settings::{self, Scope};
use model::{Error, ErrorKind, Result, Topic, accepted_settings};
use serde_json::{Map, Value};

/// The form of values of settings that do nothing here, as far as names tell.
enum Shape {
    Flag,
    /// A whole number from there up.
    Whole(i64),
    /// `true`, `false` or a whole number.
    FlagOrWhole,
    Duration,
    Bytes,
    Word(&'static [&'static str]),
}

const SHAPES: &[(&str, Shape)] = &[
    ("index.hidden", Shape::Flag),
    ("index.codec", Shape::Word(&["default", "lz4", "best_compression", "zlib"])),
    ("index.number_of_routing_shards", Shape::Whole(1)),
    ("index.routing_partition_size", Shape::Whole(1)),
    ("index.replication.type", Shape::Word(&["DOCUMENT", "SEGMENT"])),
    (
        "index.shard.check_on_startup",
        Shape::Word(&["false", "true", "checksum", "fix"]),
    ),
    ("index.search.idle.after", Shape::Duration),
    ("index.max_rescore_window", Shape::Whole(1)),
    ("index.max_refresh_listeners", Shape::Whole(0)),
    ("index.priority", Shape::Whole(0)),
    ("index.format", Shape::Whole(0)),
    ("index.load_fixed_bitset_filters_eagerly", Shape::Flag),
    ("index.mapping.coerce", Shape::Flag),
    ("index.mapping.ignore_malformed", Shape::Flag),
    ("index.blocks.", Shape::Flag),
    ("index.translog.sync_interval", Shape::Duration),
    ("index.translog.flush_threshold_size", Shape::Bytes),
    ("index.translog.retention.age", Shape::Duration),
    ("index.translog.retention.size", Shape::Bytes),
    ("index.merge.policy.max_merged_segment", Shape::Bytes),
    ("index.merge.policy.floor_segment", Shape::Bytes),
    ("index.merge.scheduler.max_thread_count", Shape::Whole(1)),
    ("index.merge.scheduler.max_merge_count", Shape::Whole(1)),
    ("index.merge.scheduler.auto_throttle", Shape::Flag),
    ("index.unassigned.node_left.delayed_timeout", Shape::Duration),
    (
        "index.routing.allocation.enable",
        Shape::Word(&["all", "primaries", "new_primaries", "none"]),
    ),
    (
        "index.routing.rebalance.enable",
        Shape::Word(&["all", "primaries", "replicas", "none"]),
    ),
    ("index.routing.allocation.total_shards_per_node", Shape::Whole(-1)),
    ("index.search.slowlog.threshold.", Shape::Duration),
    ("index.search.slowlog.level", Shape::Word(&["trace", "debug", "info", "warn"])),
    ("index.indexing.slowlog.threshold.", Shape::Duration),
    (
        "index.indexing.slowlog.level",
        Shape::Word(&["trace", "debug", "info", "warn"]),
    ),
    ("index.indexing.slowlog.source", Shape::FlagOrWhole),
    ("index.soft_deletes.enabled", Shape::Flag),
    ("index.soft_deletes.retention_lease.period", Shape::Duration),
    ("index.queries.cache.enabled", Shape::Flag),
    ("index.requests.cache.enable", Shape::Flag),
    ("index.warmer.enabled", Shape::Flag),
];

impl Shape {
    /// Refuses a value that does not look so.
    fn check(&self, name: &str, text: &str) -> Result<()> {
        let refuse = |why: &str| Err(unfit(name, text, why));
        match self {
            Shape::Flag if !["true", "false"].contains(&text) => Err(Error::no_boolean(text)),
            Shape::Whole(least) => match text.parse::<i64>() {
                Err(_) => Err(unreadable(name, text)),
                Ok(number) if number < *least => Err(out_of_bounds(name, text, ">=", least)),
                Ok(_) => Ok(()),
            },
            Shape::FlagOrWhole if text == "true" || text == "false" || text.parse::<u32>().is_ok() => Ok(()),
            Shape::FlagOrWhole => refuse(" must be [true], [false] or a number of characters"),
            Shape::Duration => model::units::parse_duration_or_never(text, name).map(drop),
            Shape::Bytes => model::units::parse_bytes(text, name).map(drop),
            Shape::Word(words) if !words.iter().any(|word| word.eq_ignore_ascii_case(text)) => {
                refuse(&format!(" must be one of [{}]", words.join(", ")))
            }
            Shape::Flag | Shape::Word(_) => Ok(()),
        }
    }
}

/// May a setting of this name be given, and may it change later?
fn is_dynamic(name: &str) -> Option<bool> {
    if let Some(setting) = settings::find(name) {
        return match setting.scope {
            Scope::IndexDynamic => Some(true),
            Scope::IndexStatic => Some(false),
            Scope::Node | Scope::Cluster => None,
        };
    }
    match accepted_settings::find(name)?.scope {
        Scope::IndexDynamic => Some(true),
        Scope::IndexStatic => Some(false),
        Scope::Node | Scope::Cluster => None,
    }
}

/// Refuses what is unknown or unreadable.
///
/// # Errors
/// `illegal_argument_exception` naming the setting, and the nearest one that exists.
pub fn check(flat: &Map<String, Value>) -> Result<()> {
    for (name, value) in flat {
        if is_dynamic(name).is_none() {
            let names = settings::ALL
                .iter()
                .map(|s| s.name)
                .chain(accepted_settings::ALL.iter().map(|s| s.name))
                .filter(|n| n.starts_with("index.") && !n.ends_with('.'));
            let hint = nearest(name, names).map(|near| format!(" did you mean [{near}]?"));
            let rest = " please check that any required plugins are installed, or check the breaking changes documentation for removed settings";
            let reason = format!("unknown setting [{name}]{}", hint.unwrap_or_else(|| rest.to_owned()));
            return Err(Error::illegal(reason).about(Topic::UnknownSetting { name: name.clone() }));
        }
        accepted_settings::check(name, value)?;
        check_value(name, value)?;
    }
    mapping::similarity::check(flat)
}

/// The most of `index.mapping.total_fields.limit`: each field has a dictionary of its own in each segment, which takes a
/// millisecond or two and a megabyte to lay out. Indices that were made with more keep it.
const TOTAL_FIELDS_MOST: u64 = 100_000;

fn check_value(name: &str, value: &Value) -> Result<()> {
    if name == settings::PLEACH_LOCK_INDEX.name {
        return LockIndex::parse(value).map(drop);
    }
    let Some(text) = value.as_str() else { return Ok(()) };
    let Some(setting) = settings::find(name) else {
        let fits = |known: &str| name == known || known.ends_with('.') && name.starts_with(known);
        let shape = SHAPES.iter().find(|(known, _)| fits(known));
        return shape.map_or(Ok(()), |(_, shape)| shape.check(name, text));
    };
    match name {
        "index.refresh_interval" | "index.gc_deletes" => drop(model::units::parse_duration_or_never(text, name)?),
        "index.number_of_shards" | "index.number_of_replicas" => {
            let number: i64 = text.parse().map_err(|_| unreadable(name, text))?;
            match name {
                "index.number_of_shards" if number < 1 => return Err(out_of_bounds(name, text, ">=", 1)),
                "index.number_of_shards" if number > 1024 => return Err(out_of_bounds(name, text, "<=", 1024)),
                _ if number < 0 => return Err(out_of_bounds(name, text, ">=", 0)),
                _ => {}
            }
        }
        "index.mapping.total_fields.limit" if text.parse::<u64>().is_ok_and(|number| number > TOTAL_FIELDS_MOST) => {
            return Err(out_of_bounds(name, text, "<=", TOTAL_FIELDS_MOST));
        }
        "index.translog.durability" if !matches!(text.to_ascii_lowercase().as_str(), "request" | "async") => {
            return Err(Error::illegal(format!(
                "unknown value for [{name}] must be one of [request, async] but was: {text}"
            )));
        }
        "index.default_pipeline" if text != "_none" => {
            return Err(Error::new(
                ErrorKind::UnsupportedOperation,
                format!("[{name}] can only be [_none]: ingest pipelines are not supported"),
            ));
        }
        "index.pleach.locks" if !matches!(text, "off" | "advisory" | "enforced") => {
            return Err(Error::illegal(format!(
                "unknown value for [{name}] must be one of [off, advisory, enforced] but was: {text}"
            )));
        }
        "index.pleach.lock_ttl" => drop(parse_lock_ttl(text)?),
        "index.pleach.lock_strict" | "index.query_string.lenient" if !matches!(text, "true" | "false") => {
            return Err(unfit(name, text, " as only [true] or [false] are allowed."));
        }
        "index.merge.policy.deletes_pct_allowed" | "index.merge.policy.segments_per_tier" => {
            let (least, most) = if name.ends_with("tier") {
                (2.0, f64::MAX)
            } else {
                (5.0, 50.0)
            };
            let number: f64 = text.parse().map_err(|_| unreadable(name, text))?;
            let (bound, word) = if number < least { (least, ">=") } else { (most, "<=") };
            if !(least..=most).contains(&number) {
                return Err(out_of_bounds(name, text, word, format_args!("{bound:.1}")));
            }
        }
        "index.max_result_window" | "index.max_inner_result_window" | "index.max_rescore_window" if text == "0" => {
            return Err(out_of_bounds(name, text, ">=", 1));
        }
        _ if setting.default.parse::<u64>().is_ok() && text.parse::<u64>().is_err() => return Err(unreadable(name, text)),
        _ => {}
    }
    Ok(())
}

/// A value that its setting cannot have; `why` is the end of the reason.
fn unfit(name: &str, text: &str, why: &str) -> Error {
    let reason = format!("Failed to parse value [{text}] for setting [{name}]{why}");
    Error::illegal(reason).about(Topic::SettingValue {
        name: name.to_owned(),
        value: text.to_owned(),
    })
}

/// A value that is no number of its setting's type.
fn unreadable(name: &str, text: &str) -> Error {
    unfit(name, text, "")
}

/// A number on the wrong side of its bound: `relation` is the one that it must have.
fn out_of_bounds(name: &str, text: &str, relation: &str, bound: impl std::fmt::Display) -> Error {
    let error = unfit(name, text, &format!(" must be {relation} {bound}"));
    if relation != ">=" {
        return error;
    }
    error.about(Topic::SettingMinimum {
        name: name.to_owned(),
        value: text.to_owned(),
    })
}

/// Refuses to sort an index by a field that its mapping has not.
///
/// # Errors
/// `illegal_argument_exception` naming the field, and the nearest one that exists.
pub fn check_sort(flat: &Map<String, Value>, mapping: &mapping::Mapping) -> Result<()> {
    let fields: Vec<&str> = match flat.get("index.sort.field") {
        Some(Value::String(list)) => list.split(',').map(str::trim).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => return Ok(()),
    };
    for field in fields.into_iter().filter(|field| !field.is_empty()) {
        if mapping.resolve(field).is_none() {
            let hint = model::nearest::question(field, mapping.fields().map(|(path, _)| path));
            return Err(Error::illegal(format!("unknown index sort field:[{field}]{hint}")));
        }
    }
    Ok(())
}

/// Refuses changes of what is fixed at creation.
///
/// # Errors
/// `illegal_argument_exception`.
pub fn check_update(index: &crate::catalog::IndexEntry, flat: &Map<String, Value>) -> Result<()> {
    check(flat)?;
    for name in flat.keys() {
        let full = || format!("[[{}/{}]]", index.name, index.uuid);
        if name == "index.number_of_shards" || name == settings::PLEACH_LOCK_INDEX.name {
            let reason = format!("final {} setting [{name}], not updateable", index.name);
            return Err(Error::illegal(reason).about(Topic::FinalSetting));
        }
        if is_dynamic(name) == Some(false) && index.open {
            let reason = format!("Can't update non dynamic settings [[{name}]] for open indices {}", full());
            return Err(Error::illegal(reason).about(Topic::StaticSetting { name: name.clone() }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_topic(name: &str, value: &str, expected: Topic) {
        let settings = json!({ name: value });
        let refused = check(settings.as_object().expect("an object")).expect_err(name);
        assert_eq!(refused.topic(), Some(&expected), "{name}: {}", refused.reason());
    }

    fn unfit(name: &str, value: &str) -> Topic {
        Topic::SettingValue {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    fn too_low(name: &str, value: &str) -> Topic {
        Topic::SettingMinimum {
            name: name.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn refusals_have_topics() {
        let unknown = Topic::UnknownSetting {
            name: "index.bogus".to_owned(),
        };
        check_topic("index.bogus", "1", unknown);
        let (shards, slots) = ("index.number_of_shards", "index.merge.scheduler.max_merge_count");
        check_topic(shards, "x", unfit(shards, "x"));
        check_topic(shards, "0", too_low(shards, "0"));
        check_topic(shards, "5000", unfit(shards, "5000"));
        check_topic(slots, "x", unfit(slots, "x"));
        check_topic(slots, "0", too_low(slots, "0"));
        let value = "maybe".to_owned();
        check_topic("index.soft_deletes.enabled", "maybe", Topic::Boolean { value });
    }
}
