//! Index settings: get and put.

use super::indices::{admin_target, must_exist};
use crate::call::Call;
use crate::es2_errors;
use crate::query_params::split_list;
use crate::respond::Answer;
use engine::{Alteration, IndexInfo};
use model::settings::{ALL, Scope};
use model::{Dialect, Error, ErrorKind, Result, path};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Settings of an index as `GET` shows them: strings, nested or flat, those that match a pattern.
pub(super) fn render(info: &IndexInfo, dialect: Dialect, flat: bool, patterns: &[String]) -> Value {
    let mut all: Map<String, Value> = info
        .settings
        .iter()
        // What it is about is shown by `_warmer`.
        .filter(|(k, v)| !v.is_null() && *k != model::settings::WARMERS.name)
        .map(|(k, v)| (k.clone(), text(v)))
        .collect();
    all.insert("index.creation_date".into(), info.created_ms.to_string().into());
    all.insert("index.uuid".into(), info.uuid.as_str().into());
    all.insert("index.version.created".into(), version(dialect).into());
    if !dialect.rules.omits_later_members {
        all.insert("index.provided_name".into(), info.name.as_str().into());
    }
    for row in [model::settings::NUMBER_OF_SHARDS, model::settings::NUMBER_OF_REPLICAS] {
        all.entry(row.name).or_insert_with(|| row.default.into());
    }
    all.retain(|name, _| patterns.is_empty() || patterns.iter().any(|p| p == "_all" || path::matches(p, name)));
    shape(all, flat)
}

/// Version ids as the servers number them.
fn version(dialect: Dialect) -> String {
    let mut parts = dialect.persona.version().split('.').filter_map(|p| p.parse::<u64>().ok());
    let (a, b, c) = (
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
    );
    let id = a * 1_000_000 + b * 10_000 + c * 100 + 99;
    (if dialect.persona.is_opensearch() {
        id ^ 0x0800_0000
    } else {
        id
    })
    .to_string()
}

fn text(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        Value::Array(items) => Value::Array(items.iter().map(text).collect()),
        other => Value::String(other.to_string()),
    }
}

/// The settings of a template, as they were given, in the form in which indices show theirs.
pub(super) fn of_template(given: &Value, flat: bool) -> Value {
    let given = given.as_object().map(flatten).unwrap_or_default();
    let mut found: Map<String, Value> = given.into_iter().map(|(name, value)| (name, text(value))).collect();
    found.sort_keys();
    shape(found, flat)
}

/// Settings of an index by their full flat names, whichever way they were given.
pub(super) fn flatten(given: &Map<String, Value>) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(String, &Value)> = given.iter().map(|(name, value)| (name.clone(), value)).collect();
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(inner) => open.extend(inner.iter().map(|(key, value)| (format!("{name}.{key}"), value))),
            value if name.starts_with("index.") => drop(found.insert(name, value)),
            value => drop(found.insert(format!("index.{name}"), value)),
        }
    }
    found
}

/// Flat names as they are, or as a tree.
fn shape(flat_map: Map<String, Value>, flat: bool) -> Value {
    if flat {
        return Value::Object(flat_map);
    }
    let mut out = Value::Object(Map::new());
    for (name, value) in flat_map {
        let mut at = &mut out;
        let parts: Vec<&str> = name.split('.').collect();
        for (i, part) in parts.iter().enumerate() {
            let Some(map) = at.as_object_mut() else { break };
            if i + 1 == parts.len() {
                map.insert((*part).to_owned(), value.clone());
                break;
            }
            let next = map.entry((*part).to_owned()).or_insert_with(|| json!({}));
            if !next.is_object() {
                *next = json!({});
            }
            at = next;
        }
    }
    out
}

/// Defaults of every index setting that an index does not set itself and that a pattern is for.
pub(super) fn defaults(info: &IndexInfo, flat: bool, patterns: &[String]) -> Value {
    let own = |name: &str| {
        let always = [model::settings::NUMBER_OF_SHARDS, model::settings::NUMBER_OF_REPLICAS];
        info.settings.contains_key(name) || always.iter().any(|row| row.name == name)
    };
    let wanted = |name: &str| patterns.is_empty() || patterns.iter().any(|p| p == "_all" || path::matches(p, name));
    let rows = ALL
        .iter()
        .filter(|s| matches!(s.scope, Scope::IndexStatic | Scope::IndexDynamic))
        .filter(|s| !own(s.name) && wanted(s.name));
    shape(rows.map(|s| (s.name.to_owned(), s.default.into())).collect(), flat)
}

/// `GET /i/_settings`.
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    let with_defaults = call.params.flag("include_defaults")?;
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    let patterns = call.arg("name").map(split_list).unwrap_or_default();
    let infos = call.rest.indices(&target).await?;
    must_exist(&infos, &target)?;
    super::indices::readable(&infos)?;
    let mut out = Map::new();
    for info in &infos {
        let settings = render(info, call.dialect, flat, &patterns);
        let defaults = with_defaults.then(|| defaults(info, flat, &patterns));
        let nothing = |shown: &Value| shown.as_object().is_some_and(Map::is_empty);
        if nothing(&settings) && defaults.as_ref().is_none_or(nothing) {
            continue;
        }
        let mut entry = json!({ "settings": settings });
        if let Some(defaults) = defaults {
            entry["defaults"] = defaults;
        }
        out.insert(info.name.to_string(), entry);
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `PUT /i/_settings`.
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let preserve_existing = call.params.flag("preserve_existing")?;
    let locks = call.take_locks()?;
    let target = admin_target(&mut call)?;
    let content = call.json()?;
    let mut settings = match content.map(dsl::json::Node::into_value) {
        Some(Value::Object(mut body)) => match body.remove("settings") {
            Some(Value::Object(inner)) if body.is_empty() => inner,
            Some(other) => {
                body.insert("settings".into(), other);
                body
            }
            None => body,
        },
        Some(_) => return Err(Error::new(ErrorKind::Parse, "request body must be an object")),
        None => Map::new(),
    };
    if call.dialect.rules.takes_settings_in_url
        && let Some(interval) = call.params.take("refresh_interval")
    {
        settings.insert("index.refresh_interval".into(), interval.into());
    }
    if call.dialect.rules.takes_settings_in_url {
        // The URL of 2015 could carry settings.
        for (name, value) in call.params.take_prefixed("index.") {
            settings.insert(name, value.into());
        }
    }
    call.params.finish()?;
    if settings.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no settings to update;",
        ));
    }
    super::locks::check_settings(&call.rest, &target, (&settings, preserve_existing), &locks).await?;
    let names = target.clone();
    let alteration = Alteration::PutSettings {
        target,
        settings,
        preserve_existing,
    };
    match call.rest.alter(alteration).await {
        Err(error) if call.dialect.rules.settings_refusal_words => {
            let infos = call.rest.indices(&names).await?;
            let names: Vec<String> = infos.iter().map(|i| i.name.to_string()).collect();
            return Err(es2_errors::at_settings(error, &names));
        }
        other => drop(other?),
    }
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `PUT /i/_block/write`: a block by its name.
pub(crate) async fn block(mut call: Call) -> Result<Answer> {
    let target = admin_target(&mut call)?;
    let name = call.needed("block")?;
    call.params.finish()?;
    super::destructive::check_named(&call, &target).await?;
    let setting = match name.as_str() {
        "read_only_allow_delete" => {
            let reason = "Validation Failed: 1: read_only_allow_delete block is for internal use only;";
            return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
        }
        name => model::blocks::setting(name).ok_or_else(|| Error::illegal(format!("No block found with name {name}")))?,
    };
    let infos = call.rest.indices(&target).await?;
    must_exist(&infos, &target)?;
    let blocked: Vec<Value> = infos
        .iter()
        .map(|info| json!({ "name": info.name.as_str(), "blocked": true }))
        .collect();
    if !infos.is_empty() {
        let settings = [(setting.to_owned(), true.into())].into_iter().collect();
        let alteration = Alteration::PutSettings {
            target,
            settings,
            preserve_existing: false,
        };
        call.rest.alter(alteration).await?;
    }
    Ok(Answer::ok(
        json!({ "acknowledged": true, "shards_acknowledged": !infos.is_empty(), "indices": blocked }),
    ))
}
