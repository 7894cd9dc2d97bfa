//! Blocks: documents of one segment that aggregations collect at once, and where their values lie in a column.
//!
//! Not here: what the values are (`block_values`), which documents match (`collect`).

use crate::fields::column::{is_run, read_rows};
use crate::scorers::fill::BLOCK_DOCS;
use model::Result;
use tantivy::DocId;
use tantivy::columnar::{ColumnIndex, ColumnValues, RowId};

/// Values that a block's documents may have together; those of more are read document by document.
pub(super) const BLOCK_VALUES: usize = 8 * BLOCK_DOCS;

/// Documents of one segment in ascending order. Each stands in a block once for each bucket that it falls into.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    /// The documents.
    pub(crate) docs: &'a [DocId],
    /// The score of each; empty where nobody reads scores.
    pub(crate) scores: &'a [f32],
    /// The buckets of the aggregation above that they fall into.
    pub(crate) buckets: Buckets<'a>,
    /// Each document follows the one before it without a gap.
    pub(crate) is_run: bool,
}

/// The buckets of a block's documents.
#[derive(Clone, Copy)]
pub(crate) enum Buckets<'a> {
    /// All fall into one.
    Same(u32),
    /// One for each document.
    Each(&'a [u32]),
}

impl<'a> Block<'a> {
    /// Different documents that all fall into one bucket.
    pub(crate) fn of(docs: &'a [DocId], scores: &'a [f32], bucket: u32) -> Block<'a> {
        debug_assert!(docs.is_sorted_by(|a, b| a < b), "search.md S24: documents of a block ascend");
        debug_assert!(
            scores.is_empty() || scores.len() == docs.len(),
            "search.md S24: where scores are read each document has one"
        );
        Block {
            docs,
            scores,
            buckets: Buckets::Same(bucket),
            is_run: is_run(docs),
        }
    }

    /// Documents with the bucket of each.
    pub(crate) fn among(docs: &'a [DocId], scores: &'a [f32], buckets: &'a [u32]) -> Block<'a> {
        debug_assert!(docs.is_sorted(), "search.md S24: documents of a block ascend");
        debug_assert_eq!(docs.len(), buckets.len(), "search.md S24: each document has its bucket");
        debug_assert!(
            scores.is_empty() || scores.len() == docs.len(),
            "search.md S24: where scores are read each document has one"
        );
        Block {
            docs,
            scores,
            buckets: Buckets::Each(buckets),
            is_run: false,
        }
    }

    /// The score of a document by its place.
    #[inline]
    pub(crate) fn score(&self, place: usize) -> f32 {
        self.scores.get(place).copied().unwrap_or(0.0)
    }

    /// The bucket of a document by its place.
    #[inline]
    pub(crate) fn bucket(&self, place: usize) -> u32 {
        match self.buckets {
            Buckets::Same(bucket) => bucket,
            Buckets::Each(buckets) => buckets[place],
        }
    }

    /// One more than the greatest bucket.
    pub(crate) fn buckets_end(&self) -> usize {
        match self.buckets {
            Buckets::Same(bucket) => bucket as usize + 1,
            Buckets::Each(buckets) => buckets.iter().max().map_or(0, |most| *most as usize + 1),
        }
    }

    /// Calls `f` with each document, its score and its bucket.
    ///
    /// # Errors
    /// Those of `f`.
    pub(crate) fn each(&self, mut f: impl FnMut(DocId, f32, u32) -> Result<()>) -> Result<()> {
        for (place, doc) in self.docs.iter().enumerate() {
            f(*doc, self.score(place), self.bucket(place))?;
        }
        Ok(())
    }
}

/// The documents and scores of a block that is made of another one.
#[derive(Default)]
pub(super) struct Gathered {
    docs: Vec<DocId>,
    scores: Vec<f32>,
}

impl Gathered {
    /// The documents of `block` at these places, with the bucket of each.
    pub(super) fn at<'a>(
        &'a mut self,
        block: &Block<'_>,
        places: impl Iterator<Item = usize> + Clone,
        buckets: &'a [u32],
    ) -> Block<'a> {
        self.docs.clear();
        self.scores.clear();
        self.docs.extend(places.clone().map(|place| block.docs[place]));
        if !block.scores.is_empty() {
            self.scores.extend(places.map(|place| block.scores[place]));
        }
        Block::among(&self.docs, &self.scores, buckets)
    }
}

/// The rows of a column that a block's documents have, in the order of documents.
#[derive(Default)]
pub(super) struct BlockRows {
    rows: Vec<RowId>,
    docs: Vec<DocId>,
    places: Vec<u32>,
    /// Each document has one row, whose number is the document's. No other list is filled then.
    one_each: bool,
    /// Some document has several rows.
    some_have_several: bool,
}

impl BlockRows {
    /// Finds the rows of a block; `false` if there are too many of them.
    pub(super) fn find(&mut self, index: &ColumnIndex, block: &Block<'_>) -> bool {
        self.clear();
        match index {
            ColumnIndex::Full => self.one_each = true,
            ColumnIndex::Empty { .. } => {}
            ColumnIndex::Optional(_) => {
                index.docids_to_rowids(block.docs, &mut self.docs, &mut self.rows);
                let mut place = 0;
                for doc in &self.docs {
                    while block.docs[place] != *doc {
                        place += 1;
                    }
                    self.places.push(place as u32);
                    place += 1;
                }
            }
            ColumnIndex::Multivalued(_) => {
                for (place, doc) in (0..).zip(block.docs) {
                    let rows = index.value_row_ids(*doc);
                    self.some_have_several |= rows.len() > 1;
                    if self.rows.len() + rows.len() > BLOCK_VALUES {
                        return false;
                    }
                    self.places.extend(rows.clone().map(|_| place));
                    self.rows.extend(rows);
                }
            }
        }
        debug_assert_eq!(self.places.len(), self.rows.len(), "search.md S24: each row has its document");
        true
    }

    pub(super) fn clear(&mut self) {
        self.one_each = false;
        self.some_have_several = false;
        self.rows.clear();
        self.docs.clear();
        self.places.clear();
    }

    /// Says that each document has one value.
    pub(super) fn be_one_each(&mut self) {
        self.clear();
        self.one_each = true;
    }

    /// One more value of the document at a place.
    pub(super) fn push_place(&mut self, place: usize) {
        debug_assert!(!self.one_each, "search.md S24: each document has one row");
        self.places.push(place as u32);
    }

    /// Reads the values of the rows.
    pub(super) fn read<T: Copy + Default + PartialOrd + 'static>(
        &self,
        values: &dyn ColumnValues<T>,
        block: &Block<'_>,
        out: &mut Vec<T>,
    ) {
        let (rows, is_run) = match self.one_each {
            true => (block.docs, block.is_run),
            false => (self.rows.as_slice(), false),
        };
        out.clear();
        out.resize(rows.len(), T::default());
        read_rows(values, rows, is_run, out);
    }

    /// Whether so many values are those of the rows: one for each row, or for each document.
    pub(super) fn has_values(&self, values: usize, block: &Block<'_>) -> bool {
        values == if self.one_each { block.docs.len() } else { self.places.len() }
    }

    pub(super) fn one_each(&self) -> bool {
        self.one_each
    }

    pub(super) fn some_have_several(&self) -> bool {
        self.some_have_several
    }

    /// The place in the block of the document that a value is of.
    #[inline]
    pub(super) fn place(&self, value: usize) -> usize {
        if self.one_each { value } else { self.places[value] as usize }
    }

    /// Takes the places of values that were chosen.
    pub(super) fn put(&mut self, places: Vec<u32>) {
        self.clear();
        self.places = places;
    }
}
