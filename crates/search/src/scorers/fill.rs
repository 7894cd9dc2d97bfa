//! The next documents of a set, many at once: one call for 64 of them.
//!
//! Not here: what is done with them (`collect`, `aggs`).

use model::Result;
use tantivy::query::Scorer;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, TERMINATED};

/// Documents of a block at most.
pub(crate) const BLOCK_DOCS: usize = 512;

/// The next documents of a set, as many as there is room for; fewer at its end alone.
pub(crate) fn fill(set: &mut dyn Scorer, docs: &mut [DocId; BLOCK_DOCS]) -> usize {
    let (parts, rest) = docs.as_chunks_mut::<COLLECT_BLOCK_BUFFER_LEN>();
    debug_assert!(rest.is_empty(), "a block has whole parts");
    let mut len = 0;
    for part in parts {
        let filled = set.fill_buffer(part);
        len += filled;
        if filled < part.len() {
            break;
        }
    }
    len
}

/// The same with the score of each.
pub(crate) fn fill_scored(set: &mut dyn Scorer, docs: &mut [DocId; BLOCK_DOCS], scores: &mut [f32; BLOCK_DOCS]) -> usize {
    let mut doc = set.doc();
    for (len, (place, score)) in docs.iter_mut().zip(scores).enumerate() {
        if doc == TERMINATED {
            return len;
        }
        (*place, *score) = (doc, set.score());
        doc = set.advance();
    }
    BLOCK_DOCS
}

/// Documents that are gone through at a time by [`each_length`].
const LENGTH_DOCS: usize = 2 * BLOCK_DOCS;

/// Goes through the rest of a set, and shows for each [`LENGTH_DOCS`] documents that they were so many. `false` ends it.
///
/// # Errors
/// Those of `show`.
pub(crate) fn each_length(set: &mut dyn Scorer, show: &mut dyn FnMut(u64) -> Result<bool>) -> Result<()> {
    let mut docs = [0; BLOCK_DOCS];
    while set.doc() != TERMINATED {
        let mut len = fill(set, &mut docs);
        if len == docs.len() {
            len += fill(set, &mut docs);
        }
        debug_assert!(
            len == LENGTH_DOCS || set.doc() == TERMINATED,
            "fewer are at the end of a set alone"
        );
        if !show(len as u64)? {
            break;
        }
    }
    Ok(())
}
