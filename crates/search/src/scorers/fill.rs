//! The next documents of a set, many at once: one call for 64 of them.
//!
//! Not here: what is done with them (`collect`, `aggs`).

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
