//! `_snapshot/{repository}/{snapshot}`: taking, cloning and deleting snapshots.

use crate::actions::snapshots::body::Fields;
use crate::actions::snapshots::names::{check_snapshot, resolve_date_math};
use crate::actions::snapshots::work::{begin_snapshot, global_of, outcome};
use crate::actions::snapshots::{choice, snapshots_of};
use crate::call::Call;
use crate::query_params::split_list;
use crate::render::snapshots::snapshot;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::snapshots::{CloneOrder, SnapshotOrder, missing_snapshot};
use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};

/// The reference takes no larger metadata.
const METADATA_MAX_BYTES: usize = 1024;

/// `PUT /_snapshot/{repository}/{snapshot}`
#[boxed]
pub(crate) async fn create(mut call: Call) -> Result<Answer> {
    let repository = call.path_part("repository")?;
    let given = call.path_part("snapshot")?;
    let wait = call.params.flag("wait_for_completion")?;
    let body = call.json()?.map(|node| node.into_value());
    call.params.finish()?;
    let mut fields = Fields::of(body)?;
    let target = fields.target()?;
    let include_global = fields.flag("include_global_state", true)?;
    let partial = fields.flag("partial", false)?;
    let metadata = fields
        .object("metadata", "malformed metadata, should be an object")?
        .map(Value::Object);
    no_settings(&mut fields)?;
    fields.no_features("locks, idempotency keys and tasks are never in a snapshot")?;
    fields.finish()?;
    check_metadata(metadata.as_ref())?;
    let name = resolve_date_math(&given, call.rest.clock.wall_ms())?;
    check_snapshot(&repository, &name)?;
    let order = SnapshotOrder {
        repository: repository.clone(),
        name,
        target,
        global: include_global.then(|| global_of(&call.rest)),
        partial,
        metadata,
    };
    let handle = begin_snapshot(&call, order).await?;
    if !wait {
        return Ok(Answer::ok(json!({ "accepted": true })));
    }
    let summary = outcome(handle).await?;
    let shown = snapshot(&summary, &repository, call.dialect.persona, true);
    Ok(Answer::ok(json!({ "snapshot": shown })))
}

/// A snapshot has no settings of its own in any version that is spoken here.
fn no_settings(fields: &mut Fields) -> Result<()> {
    let settings = fields.object("settings", "malformed settings section")?;
    match settings.as_ref().and_then(|map| map.keys().next()) {
        None => Ok(()),
        Some(name) => Err(Error::illegal(format!("setting [{name}] of a snapshot is not supported"))),
    }
}

fn check_metadata(metadata: Option<&Value>) -> Result<()> {
    let bytes = metadata.map_or(0, |metadata| metadata.to_string().len());
    if bytes <= METADATA_MAX_BYTES {
        return Ok(());
    }
    let reason = format!("Validation Failed: 1: metadata must be smaller than {METADATA_MAX_BYTES} bytes, but was [{bytes}];");
    Err(Error::new(ErrorKind::ActionRequestValidation, reason))
}

/// `PUT /_snapshot/{repository}/{snapshot}/_clone/{target}`
#[boxed]
pub(crate) async fn clone(mut call: Call) -> Result<Answer> {
    let repository = call.path_part("repository")?;
    let source = call.path_part("snapshot")?;
    let target = call.path_part("target")?;
    let body = call.json_needed()?.into_value();
    call.params.finish()?;
    let mut fields = Fields::of(Some(body))?;
    let wanted = fields.names("indices")?;
    let lenient = fields.flag("ignore_unavailable", false)?;
    fields.finish()?;
    let target = resolve_date_math(&target, call.rest.clock.wall_ms())?;
    check_snapshot(&repository, &target)?;
    let engine = snapshots_of(&call.rest)?;
    let all = engine.list(&repository).await?;
    if all.iter().any(|one| one.name == target) {
        return Err(snapshot::name_taken(&repository, &target));
    }
    let from = all.iter().find(|one| one.name == source);
    let from = from.ok_or_else(|| missing_snapshot(&repository, &source))?;
    let indices = choice::indices(&from.indices, &wanted, lenient)?;
    let order = CloneOrder {
        repository,
        source,
        target,
        indices,
    };
    engine.clone_snapshot(order).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `DELETE /_snapshot/{repository}/{snapshot}`
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let repository = call.path_part("repository")?;
    let wanted = split_list(&call.path_part("snapshot")?);
    call.params.finish()?;
    let engine = snapshots_of(&call.rest)?;
    let all = engine.list(&repository).await?;
    let mut names = Vec::new();
    for name in &wanted {
        let is_pattern = name.contains('*');
        let found = all.iter().filter(|one| match is_pattern {
            true => model::path::matches(name, &one.name),
            false => one.name == *name,
        });
        let before = names.len();
        names.extend(found.map(|one| one.name.clone()));
        if names.len() == before && !is_pattern {
            return Err(missing_snapshot(&repository, name));
        }
    }
    if !names.is_empty() {
        engine.delete(&repository, names).await?;
    }
    Ok(Answer::ok(json!({ "acknowledged": true })))
}
