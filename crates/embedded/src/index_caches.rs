//! The part of one index in caches that all indices share, and its figures for `_stats`.

use engine::IndexStats;
use segment::cache_figures::CacheFigures;
use segment::derived::{Account, Budget};
use segment::filter_cache::{FilterCache, Filters};
use std::sync::Arc;

/// Kept from the first use of an index to its deletion.
#[derive(Debug)]
pub(crate) struct IndexCaches {
    /// Values derived from its segments.
    pub(crate) derived: Arc<Account>,
    /// Sets of documents of its filters.
    pub(crate) filters: Arc<Filters>,
    /// Answers of searches over it.
    pub(crate) answers: Arc<CacheFigures>,
}

impl IndexCaches {
    /// Nothing yet.
    pub(crate) fn new(derived: &Arc<Budget>, filters: &Arc<FilterCache>) -> IndexCaches {
        IndexCaches {
            derived: derived.account(),
            filters: Arc::new(filters.of_index()),
            answers: Arc::default(),
        }
    }

    /// Puts the figures where they are told.
    pub(crate) fn fill(&self, stats: &mut IndexStats) {
        stats.query_cache = self.filters.figures().stats();
        stats.request_cache = self.answers.stats();
        stats.fielddata = self.derived.figures().stats();
    }
}
