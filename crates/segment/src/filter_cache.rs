//! Document sets of terms and ranges that filters use repeatedly, one bit a document.
//!
//! A set of a term is made at the third use in a segment, where both are large enough: a rare term is read faster from its list. That
//! of a range costs a walk over its column, so it is made at the tenth; a search asks about three times.
//! The budget is `indices.queries.cache.size`. A set may take an eighth of it, that of 15,000,000 documents by default.
//!
//! Not here: which clauses are filters (`scorers::bool` of `search`).

use crate::cache::{Cache, ENTRY_BYTES};
use crate::cache_figures::CacheFigures;
use crate::doc_bits::DocBits;
use crate::segment_view::{SegmentView, postings};
use model::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED, Term};

/// Smaller segments are read as they are.
const SEGMENT_MIN_DOCS: u32 = 4096;
/// A term has at least one of so many documents.
const TERM_MIN_PART: u32 = 200;
/// The set of a term is made when it is asked for the third time.
const TERM_MADE_AT: u32 = 2;
/// That of a range is made when it is asked for the tenth time.
const RANGE_MADE_AT: u32 = 9;

/// A filter: it tells the documents of any segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FilterKey {
    /// The documents of a term.
    Term(Term),
    /// Those with a value between two in a column, both included, in the order of the column.
    Range {
        /// The name of the column.
        column: Arc<str>,
        /// The lower value.
        low: u64,
        /// The upper value.
        high: u64,
    },
}

/// The sets of all indices.
#[derive(Debug)]
pub struct FilterCache {
    /// How often each was asked for.
    asked: Cache<(u64, FilterKey), Arc<AtomicU32>>,
    /// The sets that were made, and the terms whose sets are not worth it.
    made: Cache<(u64, FilterKey), Arc<FilterSet>>,
}

/// The sets of one index, counted as its own.
#[derive(Debug)]
pub struct Filters {
    cache: Arc<FilterCache>,
    figures: Arc<CacheFigures>,
}

/// A set in the cache.
#[derive(Debug)]
struct FilterSet {
    /// `None`: not worth it.
    bits: Option<Arc<DocBits>>,
    bytes: usize,
    figures: Arc<CacheFigures>,
}

impl Drop for FilterSet {
    fn drop(&mut self) {
        if self.bits.is_some() {
            self.figures.evict(self.bytes);
        }
    }
}

impl FilterCache {
    /// None yet, for so many bytes.
    pub fn new(max_bytes: usize) -> Arc<FilterCache> {
        Arc::new(FilterCache {
            asked: Cache::new(max_bytes / 16),
            made: Cache::of_large_values(max_bytes - max_bytes / 16),
        })
    }

    /// The filters of a new index, with its counters at zero.
    pub fn of_index(self: &Arc<FilterCache>) -> Filters {
        Filters {
            cache: self.clone(),
            figures: Arc::default(),
        }
    }

    /// Bytes of what is kept.
    pub fn bytes(&self) -> u64 {
        self.asked.bytes() + self.made.bytes()
    }

    /// Drops sets until all take so many bytes at most; says how many bytes went.
    pub fn shrink_to(&self, max_bytes: usize) -> usize {
        let asked = self.asked.bytes() as usize;
        self.made.shrink_to(max_bytes.saturating_sub(asked))
    }
}

impl Filters {
    /// The counters of the index.
    pub fn figures(&self) -> &CacheFigures {
        &self.figures
    }

    /// The documents of a term in a segment, deleted ones too (search.md S19), if their set is there or is worth making now.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn of(&self, segment: &SegmentView, term: &Term) -> Result<Option<Arc<DocBits>>> {
        let max_doc = segment.reader.max_doc();
        self.of_key(
            segment,
            || FilterKey::Term(term.clone()),
            || {
                let list = postings(segment, term, IndexRecordOption::Basic)?;
                Ok(list
                    .filter(|list| list.size_hint() >= max_doc / TERM_MIN_PART)
                    .map(|mut list| {
                        let mut bits = DocBits::new(max_doc);
                        while list.doc() != TERMINATED {
                            debug_assert!(list.doc() < max_doc, "search.md S19: a set has documents of its segment");
                            bits.insert(list.doc());
                            list.advance();
                        }
                        bits
                    }))
            },
        )
    }

    /// The same of any filter. `make` has `None` for a set that is not worth it.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn of_key(
        &self,
        segment: &SegmentView,
        key: impl FnOnce() -> FilterKey,
        make: impl FnOnce() -> Result<Option<DocBits>>,
    ) -> Result<Option<Arc<DocBits>>> {
        let max_doc = segment.reader.max_doc();
        let set_bytes = max_doc as usize / 8;
        if max_doc < SEGMENT_MIN_DOCS || !self.cache.made.fits(set_bytes) {
            return Ok(None);
        }
        let key = (segment.id, key());
        let made = self.cache.made.get(&key);
        self.figures.look_up(made.as_ref().is_some_and(|made| made.bits.is_some()));
        if let Some(made) = made {
            debug_assert!(
                made.bits.as_ref().is_none_or(|bits| bits.is_sized_for(max_doc)),
                "a cached set is one of the segment in its key"
            );
            return Ok(made.bits.clone());
        }
        let Some(asked) = self.cache.asked.get(&key) else {
            self.cache.asked.put(key, 0, Arc::default);
            return Ok(None);
        };
        let made_at = match key.1 {
            FilterKey::Term(_) => TERM_MADE_AT,
            FilterKey::Range { .. } => RANGE_MADE_AT,
        };
        if asked.fetch_add(1, Ordering::Relaxed) + 1 < made_at {
            return Ok(None);
        }
        let bits = make()?.map(Arc::new);
        let bytes = if bits.is_some() { set_bytes } else { 0 };
        self.cache.made.put(key, bytes, || {
            let bytes = bytes + ENTRY_BYTES;
            if bits.is_some() {
                self.figures.add(bytes);
            }
            Arc::new(FilterSet {
                bits: bits.clone(),
                bytes,
                figures: self.figures.clone(),
            })
        });
        Ok(bits)
    }
}
