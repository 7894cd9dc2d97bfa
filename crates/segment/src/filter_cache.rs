//! Sets of documents of terms that filters ask for again and again, a bit a document.
//!
//! A term's set is made when it was asked for a few times, and only where the segment and the term are large enough for
//! that to pay: a rare term is read faster from its list. Within the budget of `indices.queries.cache.size`.
//!
//! Not here: which clauses are filters (`boolean`).

use crate::cache::Cache;
use crate::doc_bits::DocBits;
use crate::segment_view::{SegmentView, postings};
use model::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED, Term};

/// Smaller segments are read as they are.
const SEGMENT_MIN_DOCS: u32 = 4096;
/// A term has at least one of so many documents.
const TERM_MIN_PART: u32 = 200;
/// A set is made when it is asked for the third time.
const MADE_AT: u32 = 2;

/// The sets.
#[derive(Debug)]
pub struct Filters {
    /// How often each was asked for.
    asked: Cache<(u64, Term), Arc<AtomicU32>>,
    /// Those that were made, or found not to be worth it.
    made: Cache<(u64, Term), Option<Arc<DocBits>>>,
    /// Of sets: how often one was there, and how often it was not.
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Filters {
    /// None yet, for so many bytes.
    pub fn new(max_bytes: usize) -> Filters {
        Filters {
            asked: Cache::new(max_bytes / 16),
            made: Cache::new(max_bytes - max_bytes / 16),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// How often a set was there, and how often it was not.
    pub fn lookups(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
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

    /// The documents of a term in a segment, deleted ones too, if their set is there or is worth making now.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn of(&self, segment: &SegmentView, term: &Term) -> Result<Option<Arc<DocBits>>> {
        let max_doc = segment.reader.max_doc();
        if max_doc < SEGMENT_MIN_DOCS {
            return Ok(None);
        }
        let key = (segment.id, term.clone());
        if let Some(made) = self.made.get(&key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(made);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let Some(asked) = self.asked.get(&key) else {
            self.asked.put(key, 0, Arc::default);
            return Ok(None);
        };
        if asked.fetch_add(1, Ordering::Relaxed) + 1 < MADE_AT {
            return Ok(None);
        }
        let list = postings(segment, term, IndexRecordOption::Basic)?;
        let bits = list
            .filter(|list| list.size_hint() >= max_doc / TERM_MIN_PART)
            .map(|mut list| {
                let mut bits = DocBits::new(max_doc);
                while list.doc() != TERMINATED {
                    bits.insert(list.doc());
                    list.advance();
                }
                Arc::new(bits)
            });
        let bytes = if bits.is_some() { max_doc as usize / 8 } else { 0 };
        self.made.put(key, bytes, || bits.clone());
        Ok(bits)
    }
}
