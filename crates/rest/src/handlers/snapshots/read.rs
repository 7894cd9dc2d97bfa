//! `GET` of snapshots and of their state.

use crate::actions::snapshots::{choice, snapshots_of};
use crate::call::Call;
use crate::query_params::split_list;
use crate::render::snapshots::{running, snapshot, status as render_status};
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::snapshots::missing_snapshot;
use model::Result;
use serde_json::{Value, json};
use snapshot::{State, Summary};

/// `GET /_snapshot/{repository}/{snapshot}`
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let repository = call.path_part("repository")?;
    let wanted = split_list(&call.path_part("snapshot")?);
    let lenient = call.params.flag("ignore_unavailable")?;
    let verbose = call.params.take_bool("verbose")?.unwrap_or(true);
    let with_commit_seq = call.params.flag("commit_seq")?;
    call.params.finish()?;
    let all = snapshots_of(&call.rest)?.list(&repository).await?;
    let found = choice::snapshots(&repository, &all, &wanted, lenient)?;
    let persona = call.dialect.persona;
    let show = |one: &Summary| {
        let mut shown = snapshot(one, &repository, persona, verbose);
        if with_commit_seq && one.state != State::InProgress {
            shown["commit_seq"] = one.commit_seq.into();
        }
        shown
    };
    let shown: Vec<Value> = found.iter().map(|one| show(one)).collect();
    let mut out = json!({ "snapshots": shown });
    if matches!(persona, model::Persona::Es8 | model::Persona::Es9) {
        out["total"] = found.len().into();
        out["remaining"] = 0.into();
    }
    Ok(Answer::ok(out))
}

/// `GET /_snapshot/_status`, `GET /_snapshot/{repository}/_status`, `GET /_snapshot/{repository}/{snapshot}/_status`
#[boxed]
pub(crate) async fn status(mut call: Call) -> Result<Answer> {
    let lenient = call.params.flag("ignore_unavailable")?;
    call.params.finish()?;
    let now = call.rest.clock.wall_ms();
    let Some(engine) = call.rest.engine.snapshots() else {
        return Ok(Answer::ok(json!({ "snapshots": [] })));
    };
    let repository = call.arg("repository").filter(|name| *name != "_all");
    let mut shown = Vec::new();
    let (Some(repository), Some(wanted)) = (repository, call.arg("snapshot").map(split_list)) else {
        if let Some(name) = repository {
            engine.list(name).await?;
        }
        let is_meant = |one: &&engine::snapshots::Running| repository.is_none_or(|name| one.repository == name);
        shown.extend(engine.running().iter().filter(is_meant).map(|one| running(one, now)));
        return Ok(Answer::ok(json!({ "snapshots": shown })));
    };
    let all = engine.list(repository).await?;
    for name in &wanted {
        let Some(one) = all.iter().find(|one| one.name == *name) else {
            match lenient {
                true => continue,
                false => return Err(missing_snapshot(repository, name)),
            }
        };
        if one.state == State::InProgress {
            let still = engine.running();
            shown.extend(
                still
                    .iter()
                    .filter(|running| running.summary.uuid == one.uuid)
                    .map(|one| running(one, now)),
            );
            continue;
        }
        let contents = engine.contents(repository, name).await?;
        shown.push(render_status(one, repository, &contents.indices));
    }
    Ok(Answer::ok(json!({ "snapshots": shown })))
}
