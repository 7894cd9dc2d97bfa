//! The changes of trees in one record: planned under the sequencer, logged before the documents of the record, and then applied.
//!
//! Not here: the trees themselves (`trees`), when searches see a change (`tree_moves`).

use crate::catalog::IndexEntry;
use crate::index_state::IndexState;
use crate::lock_order::{LockRank, MutexGuard, is_held};
use crate::log::Part;
use crate::pending::Put;
use crate::prepared_write::CommitItem;
use crate::trees::{TreeCell, TreeState};
use engine::{TreeAct, TreeChange, TreeMoved};
use mapping::tree::{DirId, Operation, PathSyntax, Placed, Tree, collect};
use model::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Room in the log for a move: its two names, and those of the directories that it makes.
pub(crate) const MOVE_BYTES: u64 = 16 << 10;

/// A change of a directory whose index is known.
pub(crate) struct TreeMove {
    pub(crate) entry: Arc<IndexEntry>,
    pub(crate) state: Arc<IndexState>,
    pub(crate) field: Arc<str>,
    pub(crate) syntax: PathSyntax,
    pub(crate) change: TreeChange,
}

/// The changes of trees in one record, not yet to be seen. While it lives nobody makes directories there.
pub(crate) struct TreeRecord<'c> {
    trees: Vec<TreeOfRecord<'c>>,
    /// The result of each change, in order.
    pub(crate) moved: Vec<TreeMoved>,
}

struct TreeOfRecord<'c> {
    no: u32,
    state: MutexGuard<'c, TreeState>,
    /// The tree after the operations beyond those that were unlogged.
    next: Option<Tree>,
    operations: Vec<Operation>,
    /// The changes as the feed shows them.
    told: Vec<Value>,
    removes: bool,
}

impl<'c> TreeRecord<'c> {
    /// With the directories that no record has yet. The caller holds the sequencer.
    pub(crate) fn begin(cells: &'c [(u32, Arc<TreeCell>)]) -> TreeRecord<'c> {
        debug_assert!(
            is_held(LockRank::Sequencer),
            "trees.md D8: a tree is changed in the order of the log"
        );
        let of_cell = |(no, cell): &'c (u32, Arc<TreeCell>)| {
            let state = cell.lock();
            TreeOfRecord {
                no: *no,
                operations: state.unlogged.clone(),
                next: None,
                told: Vec::new(),
                removes: false,
                state,
            }
        };
        TreeRecord {
            trees: cells.iter().map(of_cell).collect(),
            moved: Vec::new(),
        }
    }

    /// Has a directory moved since the plan of the record looked at these trees? Then it is to run again.
    pub(crate) fn has_moved_since(&self, rests_on: &[(u32, u64)]) -> bool {
        rests_on.iter().any(|(no, moved)| {
            let own = self.trees.iter().find(|tree| tree.no == *no);
            own.is_none_or(|own| own.state.newest.last_move_seq() != *moved)
        })
    }

    /// Brings documents that were evaluated before a change up to it: their sources have the paths of this moment, and a
    /// directory that was removed is made anew (trees.md D5, D11).
    pub(crate) fn settle(&mut self, all: &mut [CommitItem]) -> Result<()> {
        for item in all {
            let no = item.write.entry.no;
            let Some(put) = item.write.put.as_mut().filter(|put| !put.placed.is_empty()) else {
                continue;
            };
            if let Some(own) = self.trees.iter_mut().find(|tree| tree.no == no) {
                own.settle(put)?;
                debug_assert!(
                    own.shows(put),
                    "trees.md D11: a document whose record is behind a change has the paths that the change left: {:?}",
                    put.placed
                );
            }
        }
        Ok(())
    }

    /// Plans the changes, in their order.
    ///
    /// # Errors
    /// `tree_missing_exception`, `tree_exists_exception`, `tree_cycle_exception`, paths that are none.
    pub(crate) fn plan(&mut self, moves: &[TreeMove]) -> Result<()> {
        for one in moves {
            if let Some(own) = self.trees.iter_mut().find(|tree| tree.no == one.entry.no) {
                self.moved.push(own.plan(one)?);
            }
        }
        debug_assert_eq!(self.moved.len(), moves.len(), "trees.md D8: each change has its result");
        Ok(())
    }

    /// The parts of the record, which come before its documents (trees.md D4).
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        let changed = self.trees.iter().filter(|tree| !tree.operations.is_empty());
        changed.map(|tree| {
            let before = tree.state.newest.seq() - tree.state.unlogged.len() as u64;
            let delta = Delta {
                tree: TreeDelta {
                    no: tree.no,
                    seq: before,
                    operations: &tree.operations,
                    changes: &tree.told,
                },
            };
            Part::Alter {
                index_no: tree.no,
                delta: delta.to_bytes(),
            }
        })
    }

    /// The record has its place. `has_documents`: it also writes some.
    pub(crate) fn apply(self, end: u64, has_documents: bool) {
        for mut tree in self.trees {
            debug_assert!(
                tree.operations.len() >= tree.state.unlogged.len(),
                "trees.md D4: a record has every directory that none has yet"
            );
            tree.state.unlogged.clear();
            if let Some(next) = tree.next {
                tree.state.advance(next, end, has_documents || tree.removes);
            }
        }
    }
}

/// The form in the log; [`super::trees::Trees::replay`] reads it.
#[derive(Serialize)]
struct Delta<'a> {
    tree: TreeDelta<'a>,
}

#[derive(Serialize)]
struct TreeDelta<'a> {
    no: u32,
    seq: u64,
    operations: &'a [Operation],
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    changes: &'a [Value],
}

impl Delta<'_> {
    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|e| unreachable!("numbers and texts are JSON: {e}"))
    }
}

impl TreeOfRecord<'_> {
    /// The tree with everything so far.
    fn tree(&self) -> &Tree {
        self.next.as_ref().unwrap_or(&self.state.newest)
    }

    fn apply(&mut self, operations: Vec<Operation>) -> Result<()> {
        if operations.is_empty() {
            return Ok(());
        }
        let mut tree = self.next.take().unwrap_or_else(|| (*self.state.newest).clone());
        for operation in &operations {
            tree.apply(operation)?;
        }
        self.operations.extend(operations);
        self.next = Some(tree);
        Ok(())
    }

    /// Does the source of a document have the paths of its directories in this tree, which has all of them?
    fn shows(&self, put: &Put) -> bool {
        let tree = self.tree();
        let is_there = |placed: &Placed| placed.seq <= tree.seq() && placed.dirs.iter().all(|dir| tree.find(*dir).is_some());
        put.placed.iter().all(is_there)
            && mapping::tree::has_paths_of(&put.source, &put.placed, tree, &|field| put.mapping.tree_syntax(field))
    }

    fn settle(&mut self, put: &mut Put) -> Result<()> {
        let changed = self.tree().last_move_seq();
        if put.placed.iter().all(|placed| placed.seq >= changed) {
            return Ok(());
        }
        for placed in &mut put.placed {
            if placed.is_removed(self.tree()) {
                self.make_anew(&put.source, &put.mapping, placed)?;
            }
        }
        let todays = segment::searchable::todays_source(&put.mapping, self.tree(), &put.source, &put.placed);
        if let Some(source) = todays {
            put.source = source.into();
        }
        let seq = self.tree().seq();
        put.placed.iter_mut().for_each(|placed| placed.seq = seq);
        Ok(())
    }

    /// Makes the directories of a document that are gone, at the paths of its source.
    fn make_anew(&mut self, source: &[u8], mapping: &mapping::Mapping, placed: &mut Placed) -> Result<()> {
        let corrupt =
            |cause: serde_json::Error| Error::new(ErrorKind::Internal, format!("a source that was read is none: {cause}"));
        let texts = collect(&serde_json::from_slice(source).map_err(corrupt)?, &placed.field);
        debug_assert_eq!(
            texts.len(),
            placed.dirs.len(),
            "trees.md D6: each value of [{}] has its number",
            placed.field
        );
        let syntax = mapping.tree_syntax(&placed.field);
        for (dir, text) in placed.dirs.iter_mut().zip(&texts) {
            if self.tree().find(*dir).is_none() {
                let made = self
                    .tree()
                    .make_path(self.tree(), &placed.field, syntax, &syntax.components(text)?);
                *dir = made.dir;
                self.apply(made.operations)?;
            }
        }
        Ok(())
    }

    fn plan(&mut self, one: &TreeMove) -> Result<TreeMoved> {
        let (operations, mut told) = match &one.change.act {
            TreeAct::Move { from, to, merge } => {
                // A directory that no record has is as good as free: what is written into it goes along.
                let logged = self.state.logged_directories();
                let planned = self
                    .tree()
                    .plan_move(&one.field, one.syntax, from, to, &|there| *merge || there as usize >= logged)?;
                let is_merge = planned.merged_into.is_some();
                let shown = |dir: Option<DirId>, given: &str| {
                    let there = dir.and_then(|dir| self.tree().components(dir));
                    there.map_or_else(|| one.syntax.canonical(given).to_owned(), |there| one.syntax.join(there))
                };
                let (from, to) = (shown(Some(planned.dir), from), shown(planned.merged_into, to));
                (
                    planned.operations,
                    json!({ "op": "move", "from": from, "to": to, "merge": is_merge }),
                )
            }
            TreeAct::Remove { path } => {
                let (dir, operation) = self.tree().plan_removal(&one.field, one.syntax, path)?;
                let there = self.tree().components(dir).unwrap_or_default();
                let told = json!({ "op": "remove", "path": one.syntax.join(there) });
                self.removes = true;
                (vec![operation], told)
            }
        };
        let changed = !operations.is_empty();
        self.apply(operations)?;
        let tree_seq = self.tree().seq();
        if changed {
            told["field"] = (*one.field).into();
            told["tree_seq"] = tree_seq.into();
            self.told.push(told);
        }
        Ok(TreeMoved { changed, tree_seq })
    }
}

/// The numbers of directories that `newer` removed and that `older` has.
pub(crate) fn removed_between(older: &Tree, newer: &Tree) -> Vec<DirId> {
    match newer.last_removal_seq() > older.last_removal_seq() {
        true => newer.removed_since(older.last_removal_seq()),
        false => Vec::new(),
    }
}
