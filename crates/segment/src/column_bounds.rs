//! The least and the greatest value of each block of documents in a column, so that a range or a sort passes over blocks
//! that cannot matter.
//!
//! Made at first use of a column in a segment, 16 bytes for each 512 documents, and kept with what is derived from it.

use crate::derived::Footprint;
use crate::segment_view::SegmentView;
use model::Result;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::columnar::{Column, ColumnIndex, MonotonicallyMappableToU64};

/// Documents of one block.
pub const BLOCK_DOCS: u32 = 512;
/// Smaller segments are read as they are.
const SEGMENT_MIN_DOCS: u32 = 16 * BLOCK_DOCS;

/// The bounds of a column's blocks. Values are numbers of 64 bits in the order of the column's own.
#[derive(Debug)]
pub struct ColumnBounds {
    blocks: Vec<Block>,
}

/// The bounds of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The least value; more than `greatest` where no document has one.
    pub least: u64,
    /// The greatest value.
    pub greatest: u64,
    /// Some document has no value.
    pub has_missing: bool,
}

impl Footprint for ColumnBounds {
    fn heap_bytes(&self) -> usize {
        self.blocks.heap_bytes()
    }
}

impl ColumnBounds {
    /// The bounds of the column of that name; `None` for a segment that is too small for them to pay.
    ///
    /// # Errors
    /// None of its own: columns are read from mapped files.
    pub fn of<T>(segment: &SegmentView, name: &str, column: &Column<T>) -> Result<Option<Arc<ColumnBounds>>>
    where
        T: MonotonicallyMappableToU64 + PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
    {
        if segment.reader.max_doc() < SEGMENT_MIN_DOCS {
            return Ok(None);
        }
        let name = format!("bounds:{name}");
        segment.core.once(&name, || Ok(ColumnBounds::read(column))).map(Some)
    }

    /// The bounds of values that ascend with the documents, each of which has one.
    pub fn of_ascending(max_doc: DocId, value: impl Fn(DocId) -> u64) -> ColumnBounds {
        let starts = (0..max_doc).step_by(BLOCK_DOCS as usize);
        let blocks = starts.map(|start| Block {
            least: value(start),
            greatest: value(max_doc.min(start + BLOCK_DOCS) - 1),
            has_missing: false,
        });
        ColumnBounds {
            blocks: blocks.collect(),
        }
    }

    /// Reads every value of a column once.
    pub fn read<T>(column: &Column<T>) -> ColumnBounds
    where
        T: MonotonicallyMappableToU64 + PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
    {
        let max_doc = column.num_docs();
        let starts = (0..max_doc).step_by(BLOCK_DOCS as usize);
        let blocks = starts.map(|start| read_block(column, start, max_doc.min(start + BLOCK_DOCS)));
        let blocks: Vec<Block> = blocks.collect();
        debug_assert!(
            max_doc == 0 || blocks.len() == ColumnBounds::block_of(max_doc - 1) + 1,
            "search.md S10: every document is in a block whose bounds are known"
        );
        debug_assert!(
            blocks.iter().all(|block| block.least <= block.greatest || block.has_missing),
            "search.md S10: a block without bounds has no values"
        );
        ColumnBounds {
            blocks: blocks.into_iter().collect(),
        }
    }

    /// The bounds of each block, in the order of documents.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The block of a document.
    pub fn block_of(doc: DocId) -> usize {
        (doc / BLOCK_DOCS) as usize
    }

    /// The first document of a block.
    pub fn first_doc(block: usize) -> DocId {
        u32::try_from(block).unwrap_or(u32::MAX).saturating_mul(BLOCK_DOCS)
    }
}

fn read_block<T>(column: &Column<T>, start: DocId, end: DocId) -> Block
where
    T: MonotonicallyMappableToU64 + PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
{
    let mut block = Block {
        least: u64::MAX,
        greatest: 0,
        has_missing: false,
    };
    let mut add = |value: T| {
        let value = value.to_u64();
        block.least = block.least.min(value);
        block.greatest = block.greatest.max(value);
    };
    if matches!(column.index, ColumnIndex::Full) {
        (start..end).for_each(|doc| add(column.values.get_val(doc)));
        return block;
    }
    let mut has_missing = false;
    for doc in start..end {
        let mut values = column.values_for_doc(doc).peekable();
        has_missing |= values.peek().is_none();
        values.for_each(&mut add);
    }
    block.has_missing = has_missing;
    block
}
