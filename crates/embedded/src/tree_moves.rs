//! Changes of directories on their way to a record, and the flip by which searches see them (docs/internals/trees.md 4).
//!
//! Not here: the trees (`trees`), their part of a record (`tree_record`), deciding a change (`atomic_commit`), the documents of
//! a directory that was removed (`removed_documents`).

use crate::catalog::{Catalog, IndexEntry};
use crate::store::Store;
use crate::tree_record::TreeMove;
use crate::trees::{TreeCell, tree_field};
use engine::TreeChange;
use model::{Result, blocks};
use segment::searchable::IndexView;
use std::sync::Arc;

impl Store {
    /// An empty view of an index, with its tree as of a position.
    pub(crate) fn blank_view(&self, entry: &IndexEntry, position: u64) -> IndexView {
        IndexView {
            tree: self.trees.at(entry.no, position).unwrap_or_default(),
            ..self.caches.blank_view(entry, position)
        }
    }

    /// A set with the tree that searches see by now. The caller holds the publish lock, or shows the set to itself only.
    pub(crate) fn with_shown_tree(&self, set: Arc<IndexView>) -> Arc<IndexView> {
        let Some(tree) = self.trees.at(set.no, set.position) else {
            return set;
        };
        assert!(
            tree.last_move_seq() >= set.tree.last_move_seq(),
            "trees.md D8: searches over index {} went back from the tree of {} to that of {}",
            set.no,
            set.tree.last_move_seq(),
            tree.last_move_seq()
        );
        debug_assert_eq!(
            tree.last_removal_seq(),
            set.tree.last_removal_seq(),
            "trees.md D10: a set of index {} that searches see has no document of a directory that is gone",
            set.no
        );
        match tree.last_move_seq() == set.tree.last_move_seq() {
            true => set,
            false => Arc::new(set.with_tree(tree)),
        }
    }

    /// A move on its way to its record.
    ///
    /// # Errors
    /// An index that is missing, closed, stopped or read-only; no such field.
    pub(crate) fn resolve_move(&self, catalog: &Catalog, change: TreeChange) -> Result<TreeMove> {
        let entry = catalog.write_index(&change.index, false, self.env.wall_ms())?;
        if !entry.open {
            return Err(engine::catalog::index_closed(&entry.name, &entry.uuid));
        }
        let level = match change.removes() {
            true => blocks::Level::DeleteDocument,
            false => blocks::Level::Write,
        };
        blocks::check(&entry.settings, entry.name.as_str(), level)?;
        let state = self.state(&entry)?;
        let (field, syntax) = tree_field(&entry, change.field.as_deref())?;
        Ok(TreeMove {
            entry,
            state,
            field,
            syntax,
            change,
        })
    }

    /// The trees of the indices whose directories a record changes, rests on, or may have to make.
    pub(crate) fn trees_of(&self, numbers: impl Iterator<Item = u32>) -> Vec<(u32, Arc<TreeCell>)> {
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|no| (no, self.trees.get_or_make(no))).collect()
    }

    /// Shows a durable record that changed directories of `moved`: at once where no documents come or go with it, else with these.
    pub(crate) fn show_record(&self, moved: &[u32], written: &[u32], end: u64) -> Result<()> {
        if !written.is_empty() || moved.iter().any(|no| self.trees.is_mixed(*no)) {
            let all: Vec<u32> = moved.iter().chain(written).copied().collect();
            return self.publish(&all, end);
        }
        moved.iter().for_each(|no| self.show_moves(*no, end));
        Ok(())
    }

    /// At a start: shows the tree of an index as the log left it, without the documents of directories that are gone.
    pub(crate) fn show_replayed(&self, no: u32) -> Result<()> {
        let Some(state) = self.indices.get(no).filter(|state| !state.is_stopped()) else {
            return Ok(());
        };
        if !self.trees.removes_beyond(&state.load_built(), 0) {
            self.show_moves(no, 0);
            return Ok(());
        }
        match self.publish(&[no], 0) {
            Err(e) => {
                let error = self.settle(e);
                // A damaged index is stopped, the others go on.
                if state.is_stopped() { Ok(()) } else { Err(error) }
            }
            shown => shown,
        }
    }

    /// Shows the moves of an index whose records are durable up to here: its published set with another tree, and nothing else.
    pub(crate) fn show_moves(&self, no: u32, durable: u64) {
        let publishing = self.publication.lock();
        self.trees.show_to(no, durable);
        if let Some(set) = self.publication.set_of(no) {
            let shown = self.with_shown_tree(set.clone());
            if !Arc::ptr_eq(&shown, &set) {
                self.publication.replace(&publishing, &shown);
            }
        }
    }
}
