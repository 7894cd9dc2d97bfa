//! The caches of a folder, each within its budget, and the empty view of an index that uses them.
//!
//! Not here: what a cache keeps (each has a module of its own).

use crate::catalog::IndexEntry;
use crate::environment::Limits;
use crate::get_cache::GetCache;
use crate::index_caches::IndexCaches;
use crate::lock_order::{LockRank, RwLock};
use crate::request_cache::RequestCache;
use rustc_hash::FxHashMap;
use segment::cache::DocumentCache;
use segment::derived::{Budget, Derived};
use segment::filter_cache::FilterCache;
use segment::searchable::IndexView;
use std::sync::Arc;

/// Everything that is kept only to answer sooner.
pub(crate) struct Caches {
    answers: RequestCache,
    by_id: GetCache,
    documents: Arc<DocumentCache>,
    filters: Arc<FilterCache>,
    derived: Arc<Budget>,
    join_memory: Arc<search::joins::Budget>,
    /// The part of each index in `answers`, `filters` and `derived`.
    by_index: RwLock<FxHashMap<u32, Arc<IndexCaches>>>,
}

impl Caches {
    pub(crate) fn new(limits: &Limits) -> Caches {
        Caches {
            answers: RequestCache::new(limits.answers_bytes),
            // Half for documents that are read by id, half for those that searches show.
            by_id: GetCache::new(limits.documents_bytes / 2),
            documents: Arc::new(DocumentCache::new(limits.documents_bytes / 2)),
            filters: FilterCache::new(limits.filters_bytes),
            derived: Budget::new(limits.derived_bytes),
            join_memory: Arc::default(),
            by_index: RwLock::new(LockRank::Leaf, FxHashMap::default()),
        }
    }
    /// Answers to searches.
    pub(crate) fn answers(&self) -> &RequestCache {
        &self.answers
    }
    /// Documents that were read by id.
    pub(crate) fn by_id(&self) -> &GetCache {
        &self.by_id
    }
    /// Stored documents that searches showed.
    pub(crate) fn documents(&self) -> &DocumentCache {
        &self.documents
    }
    /// Document sets of frequent filters.
    pub(crate) fn filters(&self) -> &FilterCache {
        &self.filters
    }
    /// Bytes of values that are derived from segments.
    pub(crate) fn derived_bytes(&self) -> u64 {
        self.derived.used_bytes() as u64
    }
    /// The budget of the key sets of joins.
    pub(crate) fn join_memory(&self) -> &Arc<search::joins::Budget> {
        &self.join_memory
    }
    /// The part of an index in the caches of all. It is made at first use.
    pub(crate) fn of_index(&self, no: u32) -> Arc<IndexCaches> {
        if let Some(known) = self.by_index.read().get(&no) {
            return known.clone();
        }
        let mut all = self.by_index.write();
        all.entry(no)
            .or_insert_with(|| Arc::new(IndexCaches::new(&self.derived, &self.filters)))
            .clone()
    }
    /// Forgets the part of an index that is deleted.
    pub(crate) fn forget_index(&self, no: u32) {
        self.by_index.write().remove(&no);
    }
    /// Gives up about so many bytes of what is kept only to answer sooner, the cheapest to read again first; says how many.
    pub(crate) fn give_up(&self, bytes: u64) -> u64 {
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut given_up = 0;
        let mut shrink = |held: usize, shrink: &dyn Fn(usize) -> usize| {
            if given_up < wanted && held > 0 {
                given_up += shrink(held.saturating_sub(wanted - given_up));
            }
        };
        shrink(self.documents.bytes() as usize, &|to| self.documents.shrink_to(to));
        shrink(self.by_id.bytes() as usize, &|to| self.by_id.shrink_to(to));
        shrink(self.answers.bytes() as usize, &|to| self.answers.shrink_to(to));
        shrink(self.filters.bytes() as usize, &|to| self.filters.shrink_to(to));
        shrink(self.derived.used_bytes(), &|to| self.derived.shrink_to(to));
        given_up as u64
    }
    /// An empty view of an index, without its directories (`Store::blank_view`).
    pub(crate) fn blank_view(&self, entry: &IndexEntry, position: u64) -> IndexView {
        let own = self.of_index(entry.no);
        IndexView {
            no: entry.no,
            name: entry.name.clone(),
            typed: entry.has_types(),
            types: entry.types(),
            parents: entry.parents(),
            mapping: entry.mapping.clone(),
            registry: entry.registry.clone(),
            settings: entry.settings.clone(),
            schema: entry.schema.clone(),
            segments: Vec::new(),
            position,
            derived: Derived::new(&own.derived),
            documents: self.documents.clone(),
            filters: own.filters.clone(),
            mappings: entry.mappings.clone(),
            tree: Arc::default(),
            granted: None,
        }
    }
}
