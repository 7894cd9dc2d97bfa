//! `_rollover`: when an index behind an alias is old or full, writes go to the next one.

use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{AliasAction, Alteration, IndexInfo, IndexStats, Inspected, Inspection};
use model::{Error, ErrorKind, Result, Target, units};
use serde_json::{Map, Value, json};

/// One condition, as it is shown and whether it holds.
type Condition = (String, bool);

/// `POST /alias/_rollover`.
#[boxed]
pub(crate) async fn rollover(mut call: Call) -> Result<Answer> {
    let dry_run = call.params.flag("dry_run")?;
    let include_type_name = call.params.take_bool("include_type_name")?;
    let alias = call.path_part("index")?;
    let locks = call.take_locks()?;
    let content = call.json()?;
    call.params.finish()?;
    let mut body = match content.map(dsl::json::Node::into_value) {
        Some(Value::Object(map)) => map,
        Some(_) => return Err(Error::new(ErrorKind::Parse, "request body must be an object")),
        None => Map::new(),
    };
    let mut part = |name: &str| match body.remove(name) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(_) => Err(Error::new(ErrorKind::Parse, format!("[{name}] must be an object"))),
    };
    let (conditions, settings, mappings, aliases) = (part("conditions")?, part("settings")?, part("mappings")?, part("aliases")?);
    if let Some(other) = body.keys().next() {
        return Err(Error::new(
            ErrorKind::XContentParse,
            format!("[rollover] unknown field [{other}]"),
        ));
    }
    let mappings = if mappings.is_empty() {
        None
    } else {
        Some(Value::Object(mappings))
    };
    let mappings = match mappings {
        Some(Value::Object(mut map)) if include_type_name == Some(true) && map.len() == 1 && map.contains_key("_doc") => {
            map.remove("_doc")
        }
        other => other,
    };
    let typed = mappings.as_ref().is_some_and(mapping::has_type_level);
    if typed && include_type_name != Some(true) && !call.dialect.rules.has_types {
        let cause = Error::illegal(
            "The mapping definition cannot be nested under a type [_doc] unless include_type_name is set to true.",
        );
        return Err(Error::illegal("[rollover] failed to parse field [mappings]").with_cause(cause));
    }
    let (old, stats) = write_index(&call, &alias).await?;
    let new = match call.arg("new_index") {
        Some(name) => name.to_owned(),
        None => next_name(old.name.as_str())?,
    };
    let now = call.rest.clock.wall_ms();
    let found = conditions
        .iter()
        .map(|(name, value)| condition(name, value, &old, &stats, now))
        .collect::<Result<Vec<Condition>>>()?;
    let due = found.is_empty() || found.iter().any(|(_, holds)| *holds);
    if due && !dry_run {
        // The alias moves off it.
        let mut target = Target::index(old.name.as_str());
        target.forbid_closed = false;
        crate::actions::locks::check_alter(&call.rest, &target, &locks).await?;
        roll(&call, &alias, &old, &new, (settings, mappings, aliases, typed)).await?;
    }
    let done = due && !dry_run;
    let shown: Map<String, Value> = found.into_iter().map(|(name, holds)| (name, holds.into())).collect();
    Ok(Answer::ok(json!({
        "acknowledged": done, "shards_acknowledged": done, "old_index": old.name.as_str(), "new_index": new, "rolled_over": done,
        "dry_run": dry_run, "conditions": shown })))
}

/// The index behind an alias that writes go to.
async fn write_index(call: &Call, alias: &str) -> Result<(IndexInfo, IndexStats)> {
    let mut target = Target::index(alias);
    target.forbid_closed = false;
    let Inspected::Stats(behind) = call.rest.engine.inspect(Inspection::Stats(target)).await? else {
        return Err(Error::new(ErrorKind::Internal, "the engine does not answer stats"));
    };
    if behind.iter().any(|(info, _)| info.name.as_str() == alias) {
        return Err(Error::illegal(
            "rollover target is a [concrete index] but one of [alias,data_stream] was expected",
        ));
    }
    let single = behind.len() == 1;
    let writes = |info: &IndexInfo| info.aliases.get(alias).and_then(|a| a["is_write_index"].as_bool());
    let mut found = behind.into_iter().filter(|(info, _)| writes(info).unwrap_or(single));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(Error::illegal(format!(
            "rollover target [{alias}] does not point to a write index"
        ))),
    }
}

/// `logs-1` → `logs-000002`.
fn next_name(name: &str) -> Result<String> {
    let counted = name.rsplit_once('-').and_then(|(stem, n)| {
        let digits = !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
        if digits {
            Some((stem, n.parse::<u64>().ok()?.checked_add(1)?))
        } else {
            None
        }
    });
    match counted {
        Some((stem, n)) => Ok(format!("{stem}-{n:06}")),
        None => Err(Error::illegal(format!(
            "index name [{name}] does not match pattern '^.*-\\d+$'"
        ))),
    }
}

fn condition(name: &str, value: &Value, old: &IndexInfo, stats: &IndexStats, now_ms: i64) -> Result<Condition> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let holds = match name {
        "max_docs" => {
            let max: u64 = text
                .parse()
                .map_err(|_| Error::illegal(format!("[max_docs] is a whole number, not [{text}]")))?;
            stats.docs >= max
        }
        "max_age" => {
            let age = now_ms.saturating_sub(old.created_ms);
            u128::try_from(age).unwrap_or(0) >= units::parse_duration(&text, name)?.as_millis()
        }
        "max_size" | "max_primary_shard_size" => stats.size_bytes >= units::parse_bytes(&text, name)?,
        other => {
            return Err(Error::new(
                ErrorKind::XContentParse,
                format!("[conditions] unknown field [{other}]"),
            ));
        }
    };
    Ok((format!("[{name}: {text}]"), holds))
}

/// Makes the new index, then moves the alias in one alteration.
async fn roll(
    call: &Call,
    alias: &str,
    old: &IndexInfo,
    new: &str,
    (settings, mappings, aliases, typed): (Map<String, Value>, Option<Value>, Map<String, Value>, bool),
) -> Result<()> {
    call.rest
        .alter(Alteration::CreateIndex {
            name: new.to_owned(),
            settings,
            mappings,
            aliases,
            typed: typed || old.typed,
            if_absent: false,
        })
        .await?;
    let body = old.aliases.get(alias).and_then(Value::as_object).cloned().unwrap_or_default();
    let (from, to) = (Target::index(old.name.as_str()), Target::index(new));
    let add = |target: Target, body: Map<String, Value>| AliasAction::Add {
        target,
        alias: alias.to_owned(),
        body,
    };
    let actions = if body.get("is_write_index") == Some(&Value::Bool(true)) {
        let mut reading = body.clone();
        reading.insert("is_write_index".into(), false.into());
        vec![add(from, reading), add(to, body)]
    } else {
        let remove = AliasAction::Remove {
            target: from,
            alias: alias.to_owned(),
            must_exist: true,
        };
        vec![remove, add(to, body)]
    };
    call.rest.alter(Alteration::UpdateAliases(actions)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(next_name(name).ok().as_deref(), expected, "{name}");
    }

    #[test]
    fn names_count_up() {
        check("logs-1", Some("logs-000002"));
        check("logs-a-000009", Some("logs-a-000010"));
        check("logs", None);
        check("logs-", None);
        check("logs-x1", None);
    }
}
