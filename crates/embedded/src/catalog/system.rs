//! System indices: which alterations of them are refused, that users and keys are no documents to read, and how those of old folders are put right at a start.
//!
//! Old versions let clients close, block, alias and map the control index. Not here: the names and the refusal
//! (`model::system_index`), resolving names (`resolve`: wildcards and aliases never lead to a system index).

use super::alter::{Moment, Next};
use super::{Catalog, IndexEntry, templates};
use engine::{AliasAction, Alteration};
use model::system_index::{CONTROL_INDEX, SECURITY_INDEX, forbidden, is_system, unreadable};
use model::{Result, Target, date_name};
use serde_json::Map;
use std::borrow::Cow;
use std::sync::Arc;

/// Refuses what would alter a system index: all but making one as the server makes it, and deleting one of
/// another name. An old version let clients make them, who read and delete them by their names.
///
/// # Errors
/// `security_exception` that names the index.
pub fn check(wish: &Alteration, now_ms: i64) -> Result<()> {
    match wish {
        Alteration::CreateIndex { name, .. } if *wish != engine::control_index() && *wish != engine::security_index() => {
            check_name(name, now_ms)
        }
        Alteration::DeleteIndices(target) => check_deleted(target, now_ms),
        Alteration::OpenIndices(target)
        | Alteration::CloseIndices(target)
        | Alteration::PutMapping { target, .. }
        | Alteration::PutSettings { target, .. }
        | Alteration::ForceMerge { target, .. } => check_target(target, now_ms),
        Alteration::UpdateAliases(actions) => actions.iter().try_for_each(|action| match action {
            AliasAction::Add { target, .. } | AliasAction::Remove { target, .. } => check_target(target, now_ms),
            AliasAction::RemoveIndex { target } => check_deleted(target, now_ms),
        }),
        // A template on `*` passes system indices by; one that is for them alone would be for nothing.
        Alteration::PutTemplate { body, .. } => match templates::patterns(body).iter().find(|pattern| is_system(pattern)) {
            Some(pattern) => Err(forbidden(pattern)),
            None => Ok(()),
        },
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
    names(target).try_for_each(|name| check_name(name, now_ms))
}

/// A target that names an index that the server makes.
fn check_deleted(target: &Target, now_ms: i64) -> Result<()> {
    names(target).try_for_each(|name| match date_name::resolve(name, now_ms)? {
        name if *name == *CONTROL_INDEX || *name == *SECURITY_INDEX => Err(forbidden(&name)),
        _ => Ok(()),
    })
}

fn names(target: &Target) -> impl Iterator<Item = &str> {
    let expressions = target.expressions.iter().map(String::as_str);
    expressions.filter(|expression| !expression.contains('*'))
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

/// Refuses a reader of the index of users and keys, whose records are no documents for clients.
///
/// # Errors
/// `security_exception` that names the index.
pub fn check_reader(name: &str, internal: bool) -> Result<()> {
    if name == SECURITY_INDEX && !internal {
        return Err(unreadable(name));
    }
    Ok(())
}

/// Puts the control index right that an old version let clients close, block or alias: open, with the settings and without
/// the aliases that the server gives it. `None`: it is right, or there is none. Its documents and its mapping stay.
pub fn repair_control_index(catalog: &Catalog) -> Option<Next> {
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

/// Without the control index, and how far its turns had come; `None`: there is none.
pub fn without_control(catalog: &Catalog) -> Option<(Next, u64)> {
    let entry = catalog.indices.get(CONTROL_INDEX)?.clone();
    let mut next = Next::of(catalog);
    next.remove(&entry);
    Some((next, entry.turns))
}

/// An old version numbered the commits and locks of a control index by term × 2^40 + sequence number. Terms that had come
/// farther than 2^12 had half of all numbers behind them; the other half stays for what comes.
const OLD_TERMS_MAX: u64 = 1 << 12;
/// The weight of a term in that version.
pub const OLD_TERM_BITS: u32 = 40;
/// The last term whose numbers of that version leave room for others below 2^53.
pub const OLD_TERMS_ALL: u64 = (1 << 13) - 2;
/// More writes than the log can hold of an index that could not be replayed.
const UNREAD_WRITES: u64 = 1 << 32;

/// Where the sequence numbers of a new system index begin, the `no`th index of a folder after so many unclean starts: behind the
/// numbers that an old version may have given for one that it let be deleted. Beside the first index there was none.
pub fn first_seq_no(no: u32, unclean: u64) -> u64 {
    match no {
        0 | 1 => 0,
        _ => (1 + unclean).min(OLD_TERMS_MAX) << OLD_TERM_BITS,
    }
}

/// With a new control index, whose terms are above those of one that had come so many turns far, and its sequence numbers
/// above `next_seq_no`, as far as those could be read.
///
/// # Errors
/// An index that cannot be made.
pub fn control_after(catalog: &Catalog, moment: &Moment, turns: u64, next_seq_no: Option<u64>) -> Result<Next> {
    let mut next = super::alter::alter(catalog, &engine::control_index(), moment)?;
    if let Some(entry) = next.catalog.indices.get(CONTROL_INDEX).cloned() {
        assert!(entry.unclean_before == 0, "every unclean start of the folder counts");
        next.put(IndexEntry {
            turns: turns + 1,
            first_seq_no: match next_seq_no {
                Some(next) => Some(next + UNREAD_WRITES),
                None => entry.first_seq_no,
            },
            revision: entry.revision + 1,
            ..(*entry).clone()
        });
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn moment(unclean: u64) -> Moment {
        Moment {
            now_ms: 0,
            uuid: "u".into(),
            unclean,
        }
    }

    fn with_control(unclean: u64) -> Catalog {
        let other = Alteration::index_if_missing("other", false);
        let catalog = super::super::alter::alter(&Catalog::default(), &other, &moment(unclean))
            .expect("an index")
            .catalog;
        let control = engine::control_index();
        super::super::alter::alter(&catalog, &control, &moment(unclean))
            .expect("it is ours")
            .catalog
    }

    fn term(catalog: &Catalog, unclean: u64) -> u64 {
        let entry = &catalog.indices[CONTROL_INDEX];
        1 + unclean - entry.unclean_before + entry.turns
    }

    #[test]
    fn nobody_alters_it() {
        let names = |text: &str| Target::of(text.split(',').map(str::to_owned).collect());
        let catalog = with_control(0);
        let all = |target: Target| {
            [
                Alteration::DeleteIndices(target.clone()),
                Alteration::CloseIndices(target.clone()),
                Alteration::OpenIndices(target.clone()),
                Alteration::PutSettings {
                    target: target.clone(),
                    settings: json!({"index.blocks.write": true}).as_object().cloned().unwrap_or_default(),
                    preserve_existing: false,
                },
                Alteration::PutMapping {
                    target: target.clone(),
                    doc_type: None,
                    body: json!({"properties": {"a": {"type": "long"}}}),
                },
                Alteration::ForceMerge {
                    target: target.clone(),
                    max_num_segments: 1,
                    only_expunge_deletes: false,
                },
                Alteration::UpdateAliases(vec![AliasAction::RemoveIndex { target: target.clone() }]),
                Alteration::UpdateAliases(vec![AliasAction::Add {
                    target,
                    alias: "a".into(),
                    body: Map::new(),
                }]),
            ]
        };
        for named in [
            ".pleach-control",
            "other,.pleach-control",
            "<.pleach-control>",
            ".pleach-other",
        ] {
            let deletes = |wish: &Alteration| match wish {
                Alteration::DeleteIndices(_) => true,
                Alteration::UpdateAliases(actions) => matches!(actions.as_slice(), [AliasAction::RemoveIndex { .. }]),
                _ => false,
            };
            for wish in all(names(named)) {
                if named == ".pleach-other" && deletes(&wish) {
                    let missing = super::super::alter::alter(&catalog, &wish, &moment(0)).expect_err("it is not there");
                    assert_eq!(missing.status(), 404, "{wish:?}: {missing}");
                    continue;
                }
                let refused = super::super::alter::alter(&catalog, &wish, &moment(0)).expect_err("it is refused");
                assert_eq!(
                    (refused.status(), refused.details()["index"] != "other"),
                    (403, true),
                    "{wish:?}: {refused}"
                );
            }
        }
        for wild in ["*", "_all", "", ".*", ".pleach-*", "*,-other", "*,.pleach*"] {
            for mut target in [names(wild)] {
                (target.expand_closed, target.expand_hidden) = (true, true);
                for wish in all(target) {
                    let next = super::super::alter::alter(&catalog, &wish, &moment(0));
                    let kept = next.as_ref().map_or(&catalog, |next| &next.catalog);
                    let (before, after) = (&catalog.indices[CONTROL_INDEX], kept.indices.get(CONTROL_INDEX));
                    assert!(after.is_some_and(|after| after.to_json() == before.to_json()), "{wish:?}");
                }
            }
        }
    }

    /// An old version let clients make indices with such names: they are found and deleted by name, and altered by nobody.
    #[test]
    fn indices_of_clients_with_such_a_name_can_be_read_and_deleted() {
        let mut catalog = with_control(0);
        let other = catalog.indices["other"].clone();
        catalog.put(IndexEntry {
            no: 77,
            name: model::IndexName::new(".pleach-old"),
            uuid: "old".into(),
            ..(*other).clone()
        });
        let old = || Target::index(".pleach-old");
        let found = catalog.resolve(&old(), 0).expect("it is read by its name");
        assert_eq!(found.len(), 1);
        let alter = |wish: &Alteration| super::super::alter::alter(&catalog, wish, &moment(0));
        let closed = alter(&Alteration::CloseIndices(old())).expect_err("nobody alters it");
        assert_eq!(closed.status(), 403);
        let again = alter(&Alteration::index_if_missing(".pleach-new", false)).expect_err("nobody makes another");
        assert_eq!(again.status(), 403);
        for wild in ["*", ".pleach-*"] {
            let mut target = Target::index(wild);
            (target.expand_closed, target.expand_hidden) = (true, true);
            let kept = alter(&Alteration::DeleteIndices(target));
            let kept = kept.as_ref().map_or(&catalog, |next| &next.catalog);
            assert!(kept.indices.contains_key(".pleach-old"), "{wild}");
        }
        for wish in [
            Alteration::DeleteIndices(old()),
            Alteration::UpdateAliases(vec![AliasAction::RemoveIndex { target: old() }]),
        ] {
            let next = alter(&wish).expect("it is deleted");
            assert!(!next.catalog.indices.contains_key(".pleach-old"), "{wish:?}");
            assert!(next.catalog.indices.contains_key(CONTROL_INDEX), "{wish:?}");
        }
    }

    #[test]
    fn what_old_versions_let_happen_is_mended() {
        let catalog = with_control(3);
        assert!(repair_control_index(&catalog).is_none(), "it is right");
        let mut old = catalog.clone();
        let entry = catalog.indices[CONTROL_INDEX].clone();
        let mut settings = (*entry.settings).clone();
        settings.insert("index.blocks.write".into(), "true".into());
        old.put(IndexEntry {
            open: false,
            settings: Arc::new(settings),
            aliases: json!({"a": {}}).as_object().cloned().unwrap_or_default(),
            ..(*entry).clone()
        });
        let next = repair_control_index(&old).expect("it is closed");
        let is = &next.catalog.indices[CONTROL_INDEX];
        assert!(is.open && is.aliases.is_empty() && is.settings == entry.settings);
        assert!(!next.deltas.is_empty() && term(&next.catalog, 3) > term(&old, 3));
    }

    /// However many unclean starts are behind a control index when it is made, and made anew, its numbers stay below 2^53.
    #[test]
    fn numbers_stay_whole_numbers_of_json() {
        const TERM: u64 = 1 << 20;
        for unclean in [0, 1, 8_191, 8_192, 1 << 20, 1 << 30] {
            let mut catalog = with_control(unclean);
            let number = |catalog: &Catalog, writes: u64| {
                let first = catalog.indices[CONTROL_INDEX].first_seq_no.expect("this version made it");
                term(catalog, unclean) * TERM + first + writes
            };
            for _ in 0..100 {
                let next = catalog.indices[CONTROL_INDEX].first_seq_no.map(|first| first + 1_000_000);
                let (gone, turns) = without_control(&catalog).expect("it is there");
                let again = control_after(&gone.catalog, &moment(unclean), turns, next).expect("it can be made");
                assert!(number(&again.catalog, 0) > number(&catalog, 1_000_000));
                catalog = again.catalog;
            }
            assert!(number(&catalog, 1 << 50) < 1 << 53, "after {unclean} unclean starts");
        }
    }

    #[test]
    fn terms_only_rise() {
        for unclean in [0, 7] {
            let catalog = with_control(unclean);
            let (gone, turns) = without_control(&catalog).expect("it is there");
            let again = control_after(&gone.catalog, &moment(unclean), turns, Some(5))
                .expect("it can be made")
                .catalog;
            assert!(term(&again, unclean) > term(&catalog, unclean));
            assert!(again.indices[CONTROL_INDEX].first_seq_no > Some(5));
            // An old version let it be deleted, and made it with terms that began anew.
            let made = super::super::alter::alter(&gone.catalog, &engine::control_index(), &moment(unclean)).expect("made");
            assert!(
                term(&made.catalog, unclean) > 1 + unclean,
                "above every term that it can have had"
            );
        }
    }
}
