//! Documents to segments, in memory.
//!
//! Building cannot refuse: a document that tantivy will not take is indexed by identity, stamp and source only
//! (write-path.md 3), so that one bad document never keeps others from being searchable.
//!
//! Not here: which documents (`publish`), clearing what they replace.

use super::schema::IndexSchema;
use super::segment::{Place, SegmentData, failed, handle};
use model::Result;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tantivy::TantivyDocument;
use tantivy::indexer::{AddOperation, SegmentWriter};
use tantivy::tokenizer::TokenizerManager;

/// Less than this `SegmentWriter` refuses or thrashes.
const BUDGET_MIN_BYTES: usize = 100 << 10;
const BUDGET_MAX_BYTES: usize = 30 << 20;

/// A block to build, and what stays of it if tantivy refuses it.
pub struct Block {
    /// Nested documents, then the root.
    pub docs: Vec<TantivyDocument>,
    /// The root with identity, stamp and source only.
    pub bare: TantivyDocument,
}

/// What a build made.
pub struct Built {
    /// Segments, usually one; none for no blocks.
    pub segments: Vec<Arc<SegmentData>>,
    /// Which blocks are bare now, and why.
    pub poisoned: Vec<(usize, String)>,
}

/// Builds segments of these blocks, in order. `bytes` is a guess at their size.
///
/// # Errors
/// Not for a document's sake; only where no segment can be made at all.
pub fn build(
    schema: &IndexSchema,
    tokenizers: &TokenizerManager,
    blocks: &[Block],
    bytes: usize,
    fresh_id: &mut dyn FnMut() -> u64,
) -> Result<Built> {
    let mut built = Built {
        segments: Vec::new(),
        poisoned: Vec::new(),
    };
    if !blocks.is_empty() {
        part(schema, tokenizers, blocks, 0, bytes, fresh_id, &mut built)?;
    }
    Ok(built)
}

fn part(
    schema: &IndexSchema,
    tokenizers: &TokenizerManager,
    blocks: &[Block],
    first: usize,
    bytes: usize,
    fresh_id: &mut dyn FnMut() -> u64,
    built: &mut Built,
) -> Result<()> {
    let mut bare: Vec<usize> = Vec::new();
    loop {
        // Only what this call has found can be bare here.
        match attempt(schema, tokenizers, blocks, &bare, bytes, fresh_id) {
            Ok(data) => {
                built.segments.push(data);
                return Ok(());
            }
            Err((Some(culprit), why)) if !bare.contains(&culprit) => {
                built.poisoned.push((first + culprit, why));
                bare.push(culprit);
            }
            // No culprit is known: halve, until it is alone.
            Err((_, why)) if blocks.len() == 1 => {
                if bare.is_empty() {
                    built.poisoned.push((first, why));
                    bare.push(0);
                } else {
                    return Err(model::Error::new(
                        model::ErrorKind::Internal,
                        format!("building a segment failed: {why}"),
                    ));
                }
            }
            Err(_) => {
                let (a, b) = blocks.split_at(blocks.len() / 2);
                part(schema, tokenizers, a, first, bytes / 2, fresh_id, built)?;
                return part(schema, tokenizers, b, first + a.len(), bytes / 2, fresh_id, built);
            }
        }
    }
}

/// One segment of all blocks; else the block that was at fault, if it is known. After any error the writer is
/// dropped: its next call might panic.
fn attempt(
    schema: &IndexSchema,
    tokenizers: &TokenizerManager,
    blocks: &[Block],
    bare: &[usize],
    bytes: usize,
    fresh_id: &mut dyn FnMut() -> u64,
) -> Result<Arc<SegmentData>, (Option<usize>, String)> {
    let whole = |e: model::Error| (None, e.reason().to_owned());
    let (index, dir) = handle(schema, Some(tokenizers), &[]).map_err(whole)?;
    let segment = index.new_segment();
    let budget = (bytes * 2).clamp(BUDGET_MIN_BYTES, BUDGET_MAX_BYTES);
    let mut writer = SegmentWriter::for_segment(budget, segment.clone()).map_err(|e| whole(failed(e)))?;
    let mut max_doc = 0;
    for (n, block) in blocks.iter().enumerate() {
        let bare_docs = std::slice::from_ref(&block.bare);
        for document in if bare.contains(&n) { bare_docs } else { &block.docs } {
            let operation = AddOperation {
                opstamp: u64::from(max_doc),
                document: document.clone(),
            };
            match catch_unwind(AssertUnwindSafe(|| writer.add_document(operation))) {
                Ok(Ok(())) => max_doc += 1,
                Ok(Err(e)) => return Err((Some(n), e.to_string())),
                Err(_) => return Err((Some(n), "indexing it panicked".to_owned())),
            }
        }
    }
    match catch_unwind(AssertUnwindSafe(|| writer.finalize())) {
        Ok(Ok(_)) => {}
        Ok(Err(e)) => return Err((None, e.to_string())),
        Err(_) => return Err((None, "finishing the segment panicked".to_owned())),
    }
    let uuid = segment.id();
    Ok(Arc::new(SegmentData {
        id: fresh_id(),
        uuid,
        max_doc,
        place: Place::Memory(Arc::new(dir.written(uuid))),
    }))
}
