//! A directory as the newest documents have it, for decisions that rest on it.
//!
//! Not here: pages of directories as searches see them (`tree_listing`).

use crate::catalog::IndexEntry;
use crate::index_state::IndexState;
use crate::pending::Kind;
use crate::store::Store;
use crate::trees::tree_field;
use engine::{DirectoryAt, DirectoryNow};
use mapping::tree::DirId;
use model::Result;
use segment::searchable::IndexView;
use segment::segment_view;
use segment::stored_document::root_document;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED, Term};

impl Store {
    /// A directory by its path in the newest tree, and the position that the answer rests on. `with_documents`: the caller holds
    /// every stripe, and is told whether documents are in it.
    ///
    /// # Errors
    /// No such field, a path that is none, unreadable files.
    pub(crate) fn directory_now(
        &self,
        entry: &IndexEntry,
        of: &DirectoryAt,
        with_documents: bool,
    ) -> Result<(DirectoryNow, u64)> {
        let (field, syntax) = tree_field(entry, of.field.as_deref())?;
        let components = syntax.components(&of.path)?;
        let (tree, mut position) = self.trees.newest(entry.no);
        let tree = tree.unwrap_or_default();
        // One that no record has belongs to a write that is not decided, or that was refused.
        let logged = self.trees.logged_directories(entry.no);
        let dir = tree.resolve(&field, &components).filter(|dir| (*dir as usize) < logged);
        let mut has_documents = false;
        if let (Some(dir), true) = (dir, with_documents) {
            let state = self.state(entry)?;
            position = position.max(state.pending().last());
            has_documents = self.has_documents(&state, &field, &tree.numbers_of(dir))?;
        }
        let now = DirectoryNow {
            index: entry.name.clone(),
            field,
            tree,
            dir,
            has_documents,
        };
        Ok((now, position))
    }

    /// Whether a newest document is in one of these directories of a field.
    fn has_documents(&self, state: &IndexState, field: &str, dirs: &[DirId]) -> Result<bool> {
        let pending = state.pending().up_to(u64::MAX);
        let is_newest = |key, seq_no| self.versions.get(key).is_some_and(|newest| newest.stamp().seq_no == seq_no);
        for op in &pending {
            if let Kind::Put(put) = &op.kind {
                let mut own = put.placed.iter().filter(|placed| *placed.field == *field);
                if own.any(|placed| placed.dirs.iter().any(|dir| dirs.contains(dir))) && is_newest(op.key, op.stamp.seq_no) {
                    return Ok(true);
                }
            }
        }
        self.has_built_documents(&state.built_view(), field, dirs)
    }

    /// The same among the documents of the built set that nothing newer replaces.
    fn has_built_documents(&self, set: &IndexView, field: &str, dirs: &[DirId]) -> Result<bool> {
        let Some(slot) = set.schema.slot(field) else {
            return Ok(false);
        };
        for segment in &set.segments {
            for dir in dirs {
                let term = Term::from_field_u64(slot.field, u64::from(*dir));
                let mut postings = segment_view::postings(segment, &term, IndexRecordOption::Basic)?;
                while let Some(postings) = postings.as_mut().filter(|postings| postings.doc() != TERMINATED) {
                    if segment.is_alive(postings.doc()) {
                        let document = root_document(set, segment, postings.doc())?;
                        let key = self.versions.key(set.no, &document.at.id.uid());
                        if self.versions.get(key).is_none() {
                            return Ok(true);
                        }
                    }
                    postings.advance();
                }
            }
        }
        Ok(false)
    }
}
