//! The documents of directories that were removed: a build clears them like deleted ones, and readers by id do not find them
//! meanwhile (docs/internals/trees.md, D10).
//!
//! Not here: the removal itself (`mapping::tree`, `tree_record`), when searches see it (`tree_moves`).

use mapping::tree::{DirId, Tree};
use model::Result;
use segment::searchable::IndexView;
use segment::segment_view::{self, SegmentView};
use segment::stored_document::Location;
use segment::tree_columns::directories;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet, TERMINATED, Term};

/// More directories than this are looked for in the column, fewer by their postings.
const POSTINGS_MAX: usize = 1024;

/// The live documents of a segment without those in these directories, by rising number. `bits`: what is live so far, if that
/// is less than the segment says. `None`: all that it says.
pub(crate) fn clear(
    segment: &SegmentView,
    view: &IndexView,
    removed: &[DirId],
    mut bits: Option<BitSet>,
) -> Result<Option<BitSet>> {
    if removed.is_empty() {
        return Ok(bits);
    }
    debug_assert!(
        removed.is_sorted_by(|a, b| a < b),
        "trees.md D10: directories are looked up by bisection, so they rise"
    );
    for slot in view.schema.trees() {
        if removed.len() <= POSTINGS_MAX {
            for dir in removed {
                let term = Term::from_field_u64(slot.field, u64::from(*dir));
                let mut postings = segment_view::postings(segment, &term, IndexRecordOption::Basic)?;
                while let Some(postings) = postings.as_mut().filter(|postings| postings.doc() != TERMINATED) {
                    clear_block(segment, postings.doc(), &mut bits);
                    postings.advance();
                }
            }
        } else if let Some(column) = directories(segment, slot)? {
            for doc in 0..segment.reader.max_doc() {
                let is_in = |dir: u64| removed.binary_search(&(dir as DirId)).is_ok();
                if column.values_for_doc(doc).any(is_in) {
                    clear_block(segment, doc, &mut bits);
                }
            }
        }
    }
    Ok(bits)
}

/// Clears a root document and the nested ones before it, which are its block (search.md S7).
fn clear_block(segment: &SegmentView, root: DocId, bits: &mut Option<BitSet>) {
    debug_assert!(segment.is_root(root), "search.md S6: directories are those of root documents");
    if !segment.is_alive(root) {
        return;
    }
    let bits = bits.get_or_insert_with(|| segment.alive_bits());
    bits.remove(root);
    let nested = (0..root).rev().take_while(|doc| !segment.is_root(*doc));
    nested.for_each(|doc| bits.remove(doc));
}

/// Whether a tree that may be newer than a set removed a directory of a document in it.
pub(crate) fn is_removed(view: &IndexView, location: &Location, tree: &Tree) -> Result<bool> {
    if tree.last_removal_seq() <= view.tree.last_removal_seq() {
        return Ok(false);
    }
    for slot in view.schema.trees() {
        if let Some(column) = directories(&location.segment, slot)?
            && column
                .values_for_doc(location.root())
                .any(|dir| tree.find(dir as DirId).is_none())
        {
            return Ok(true);
        }
    }
    Ok(false)
}
