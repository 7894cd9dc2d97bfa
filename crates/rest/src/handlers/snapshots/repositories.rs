//! `_snapshot/{repository}`: registering, showing, verifying, cleaning and forgetting repositories.

use crate::actions::snapshots::body::Fields;
use crate::actions::snapshots::names::check_repository;
use crate::actions::snapshots::{choice, repositories_of, snapshots_of};
use crate::call::Call;
use crate::query_params::split_list;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::snapshots::{Repository, missing_repository};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `PUT /_snapshot/{repository}`
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let name = call.path_part("repository")?;
    let verify = call.params.take_bool("verify")?.unwrap_or(true);
    let body = call.json_needed()?.into_value();
    call.params.finish()?;
    let mut fields = Fields::of(Some(body))?;
    let kind = fields.text("type")?;
    let settings = fields.object("settings", "Malformed settings section, should include an inner object")?;
    fields.finish()?;
    let kind = kind.ok_or_else(|| {
        let reason = "Validation Failed: 1: type is missing;";
        Error::new(ErrorKind::ActionRequestValidation, reason)
    })?;
    check_repository(&name)?;
    let repository = Repository {
        name,
        kind,
        settings: as_text(settings.unwrap_or_default())?,
    };
    snapshots_of(&call.rest)?.put_repository(repository, verify).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// Settings with values as text, as the reference keeps them.
fn as_text(settings: Map<String, Value>) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for (name, value) in settings {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            _ => {
                return Err(Error::illegal(format!(
                    "setting [{name}] of a repository must be a single value"
                )));
            }
        };
        out.insert(name, Value::String(text));
    }
    Ok(out)
}

/// `GET /_snapshot`, `GET /_snapshot/{repository}`
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let names = call.arg("repository").map(split_list).unwrap_or_default();
    let found = choice::repositories(repositories_of(&call.rest), &names, false)?;
    let out: Map<String, Value> = found
        .into_iter()
        .map(|one| (one.name, json!({ "type": one.kind, "settings": one.settings })))
        .collect();
    Ok(Answer::ok(Value::Object(out)))
}

/// `DELETE /_snapshot/{repository}`
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let named = call.path_part("repository")?;
    call.params.finish()?;
    let engine = snapshots_of(&call.rest)?;
    let found = choice::repositories(engine.repositories(), &split_list(&named), false)?;
    if found.is_empty() && named != "*" && named != "_all" {
        return Err(missing_repository(&named));
    }
    let names = found.into_iter().map(|one| one.name).collect();
    engine.delete_repositories(names).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `POST /_snapshot/{repository}/_verify`
#[boxed]
pub(crate) async fn verify(call: Call) -> Result<Answer> {
    let name = call.path_part("repository")?;
    call.params.finish()?;
    snapshots_of(&call.rest)?.verify_repository(&name).await?;
    let names = &call.rest.names;
    Ok(Answer::ok(
        json!({ "nodes": { names.node_id.clone(): { "name": names.node } } }),
    ))
}

/// `POST /_snapshot/{repository}/_cleanup`
#[boxed]
pub(crate) async fn cleanup(call: Call) -> Result<Answer> {
    let name = call.path_part("repository")?;
    call.params.finish()?;
    let removed = snapshots_of(&call.rest)?.clean_repository(&name).await?;
    Ok(Answer::ok(
        json!({ "results": { "deleted_bytes": removed.bytes, "deleted_blobs": removed.files } }),
    ))
}
