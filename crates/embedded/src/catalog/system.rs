//! System indices: which alterations of them are refused, and how those of old folders are put right at a start.
//!
//! Old versions let clients close, block, alias and map the control index. Not here: the names and the refusal
//! (`model::system_index`), resolving names (`resolve`: wildcards and aliases never lead to a system index).

use super::alter::Next;
use super::{Catalog, IndexEntry, date_name, templates};
use engine::{AliasAction, Alteration};
use model::system_index::{CONTROL_INDEX, forbidden, is_system};
use model::{Result, Target};
use serde_json::Map;
use std::borrow::Cow;
use std::sync::Arc;

/// Refuses what would alter a system index: all but making the control index as the server makes it.
///
/// # Errors
/// `security_exception` that names the index.
pub fn check(wish: &Alteration, now_ms: i64) -> Result<()> {
    match wish {
        Alteration::CreateIndex { name, .. } if *wish != engine::control_index() => check_name(name, now_ms),
        Alteration::DeleteIndices(target)
        | Alteration::OpenIndices(target)
        | Alteration::CloseIndices(target)
        | Alteration::PutMapping { target, .. }
        | Alteration::PutSettings { target, .. }
        | Alteration::ForceMerge { target, .. } => check_target(target, now_ms),
        Alteration::UpdateAliases(actions) => actions.iter().try_for_each(|action| match action {
            AliasAction::Add { target, .. } | AliasAction::Remove { target, .. } | AliasAction::RemoveIndex { target } => {
                check_target(target, now_ms)
            }
        }),
        // A template on `*` passes system indices by; one that is for them alone would be for nothing.
        Alteration::PutTemplate { body, .. } => templates::patterns(body)
            .iter()
            .try_for_each(|pattern| check_name(pattern, now_ms)),
        Alteration::CreateIndex { .. }
        | Alteration::DeleteTemplate { .. }
        | Alteration::PutScript { .. }
        | Alteration::DeleteScript { .. }
        | Alteration::ClusterSettings { .. }
        | Alteration::Flush(_) => Ok(()),
    }
}

/// A target that names a system index. Wildcards never lead there, and `-name` takes one away.
fn check_target(target: &Target, now_ms: i64) -> Result<()> {
    let mut named = target.expressions.iter().filter(|expression| !expression.contains('*'));
    named.try_for_each(|expression| check_name(expression, now_ms))
}

fn check_name(name: &str, now_ms: i64) -> Result<()> {
    let name = date_name::resolve(name, now_ms)?;
    if is_system(&name) { Err(forbidden(&name)) } else { Ok(()) }
}

/// The name that a write goes to. Who may write to a system index by its own name is decided by who takes the name from a
/// client; a name with date math is no detour around that.
///
/// # Errors
/// Date math that cannot be read, or that makes the name of a system index.
pub fn written_name(name: &str, now_ms: i64) -> Result<Cow<'_, str>> {
    let resolved = date_name::resolve(name, now_ms)?;
    if *resolved != *name && is_system(&resolved) {
        return Err(forbidden(&resolved));
    }
    Ok(resolved)
}

/// Puts the control index right that an old version let clients close, block or alias: open, with the settings and without
/// the aliases that the server gives it. `None`: it is right, or there is none. Its documents and its mapping stay.
pub fn mended(catalog: &Catalog) -> Option<Next> {
    let Alteration::CreateIndex { settings, .. } = engine::control_index() else {
        return None;
    };
    let wrong = |entry: &&Arc<IndexEntry>| {
        let control = entry.name.as_str() == CONTROL_INDEX;
        control && (!entry.open || *entry.settings != settings || !entry.aliases.is_empty())
    };
    let entries: Vec<Arc<IndexEntry>> = catalog.indices.values().filter(wrong).cloned().collect();
    if entries.is_empty() {
        return None;
    }
    let mut next = Next::of(catalog);
    for entry in entries {
        next.put(IndexEntry {
            open: true,
            turns: entry.turns + u64::from(!entry.open),
            settings: Arc::new(settings.clone()),
            aliases: Map::new(),
            revision: entry.revision + 1,
            ..(*entry).clone()
        });
    }
    Some(next)
}
