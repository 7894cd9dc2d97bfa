//! `POST /_snapshot/{repository}/{snapshot}/_restore`

use crate::actions::snapshots::body::Fields;
use crate::actions::snapshots::renaming::Renaming;
use crate::actions::snapshots::work::{begin_restore, outcome};
use crate::actions::snapshots::{choice, snapshots_of};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::snapshots::{RestoreOrder, missing_snapshot};
use model::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The wishes of a request.
struct Wishes {
    indices: Vec<String>,
    lenient: bool,
    renaming: Renaming,
    alias_renaming: Renaming,
    order: RestoreOrder,
}

/// `POST /_snapshot/{repository}/{snapshot}/_restore`
#[boxed]
pub(crate) async fn restore(mut call: Call) -> Result<Answer> {
    let wait = call.params.flag("wait_for_completion")?;
    let body = call.json()?.map(|node| node.into_value());
    call.params.finish()?;
    let Wishes {
        indices,
        lenient,
        renaming,
        alias_renaming,
        mut order,
    } = wishes(&call, body)?;
    let engine = snapshots_of(&call.rest)?;
    let all = engine.list(&order.repository).await?;
    let from = all.iter().find(|one| one.name == order.snapshot);
    let from = from.ok_or_else(|| missing_snapshot(&order.repository, &order.snapshot))?;
    let mut known = from.indices.clone();
    known.extend(from.failures.iter().map(|failure| failure.index.clone()));
    known.sort();
    let chosen = choice::indices(&known, &indices, lenient)?;
    order.indices = chosen.into_iter().map(|name| (name.clone(), renaming.apply(&name))).collect();
    if alias_renaming.is_set() && order.include_aliases {
        let contents = engine.contents(&order.repository, &order.snapshot).await?;
        let parts = contents.indices.iter().filter_map(|part| part.entry["aliases"].as_object());
        let aliases: BTreeSet<&String> = parts.flat_map(|aliases| aliases.keys()).collect();
        order.renamed_aliases = aliases
            .into_iter()
            .map(|alias| (alias.clone(), alias_renaming.apply(alias)))
            .collect();
    }
    engine.check_restore(&order).await?;
    let name = order.snapshot.clone();
    let handle = begin_restore(&call, order);
    if !wait {
        return Ok(Answer::ok(json!({ "accepted": true })));
    }
    let (restored, refused) = outcome(handle).await?;
    let failed = restored.failures.len() as u64;
    let total = restored.shards + failed;
    let names: Vec<&str> = restored.indices.iter().map(|name| name.as_str()).collect();
    let mut out = json!({ "snapshot": { "snapshot": name, "indices": names,
        "shards": { "total": total, "failed": failed, "successful": restored.shards } } });
    if !refused.is_empty() {
        out["link_policies"] = json!({ "refused": refused });
    }
    Ok(Answer::ok(out))
}

fn wishes(call: &Call, body: Option<Value>) -> Result<Wishes> {
    let mut fields = Fields::of(body)?;
    let target = fields.target()?;
    let storage = fields.text("storage_type")?;
    check_storage(storage.as_deref())?;
    let texts = |fields: &mut Fields, pattern: &str, replacement: &str| -> Result<Renaming> {
        let (pattern, replacement) = (fields.text(pattern)?, fields.text(replacement)?);
        Renaming::new(pattern.as_deref(), replacement.as_deref())
    };
    let renaming = texts(&mut fields, "rename_pattern", "rename_replacement")?;
    let alias_renaming = texts(&mut fields, "rename_alias_pattern", "rename_alias_replacement")?;
    let order = RestoreOrder {
        repository: call.path_part("repository")?,
        snapshot: call.path_part("snapshot")?,
        indices: Vec::new(),
        include_aliases: fields.flag("include_aliases", true)?,
        renamed_aliases: Vec::new(),
        index_settings: fields
            .object("index_settings", "malformed index_settings section")?
            .unwrap_or_default(),
        ignore_index_settings: fields.names("ignore_index_settings")?,
        include_global_state: fields.flag("include_global_state", false)?,
        partial: fields.flag("partial", false)?,
    };
    fields.no_features("no snapshot has it")?;
    fields.finish()?;
    Ok(Wishes {
        indices: target.expressions,
        lenient: target.ignore_unavailable,
        renaming,
        alias_renaming,
        order,
    })
}

fn check_storage(storage: Option<&str>) -> Result<()> {
    match storage.map(str::to_lowercase).as_deref() {
        None | Some("local") => Ok(()),
        Some("remote_snapshot") => Err(Error::illegal(
            "storage_type [remote_snapshot] is not supported: restored indices are copied to the data folder",
        )),
        Some(_) => Err(Error::illegal(format!(
            "Invalid storage_type: {}",
            storage.unwrap_or_default()
        ))),
    }
}
