//! Index settings: get and put.

use crate::call::Call;
use crate::es2_errors;
use crate::query_params::split_list;
use crate::render::settings::{defaults, render};
use crate::respond::Answer;
use crate::targets::administration::{admin_target, must_exist};
use async_recursion::async_recursion as boxed;
use engine::Alteration;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `GET /i/_settings`.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    let with_defaults = call.params.flag("include_defaults")?;
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    let patterns = call.arg("name").map(split_list).unwrap_or_default();
    let infos = call.rest.indices(&target).await?;
    must_exist(&infos, &target)?;
    crate::targets::administration::readable(&infos)?;
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
#[boxed]
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
    crate::actions::locks::check_settings(&call.rest, &target, (&settings, preserve_existing), &locks).await?;
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
#[boxed]
pub(crate) async fn block(mut call: Call) -> Result<Answer> {
    let target = admin_target(&mut call)?;
    let name = call.path_part("block")?;
    call.params.finish()?;
    crate::targets::destructive::check_named(&call, &target).await?;
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
