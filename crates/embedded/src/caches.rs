//! The caches of a folder, each within its budget, and the empty view of an index that uses them.
//!
//! Not here: what a cache keeps (each has a module of its own).

use crate::catalog::IndexEntry;
use crate::environment::Limits;
use crate::get_cache::GetCache;
use crate::request_cache::RequestCache;
use segment::cache::DocumentCache;
use segment::derived::{Budget, Derived};
use segment::filter_cache::Filters;
use segment::searchable::IndexView;
use std::sync::Arc;

/// Everything that is kept only to answer sooner.
pub(crate) struct Caches {
    answers: RequestCache,
    by_id: GetCache,
    documents: Arc<DocumentCache>,
    filters: Arc<Filters>,
    derived: Arc<Budget>,
    join_memory: Arc<search::plan::join::Budget>,
}

impl Caches {
    pub(crate) fn new(limits: &Limits) -> Caches {
        Caches {
            answers: RequestCache::new(limits.answers_bytes),
            // Half for documents that are read by id, half for those that searches show.
            by_id: GetCache::new(limits.documents_bytes / 2),
            documents: Arc::new(DocumentCache::new(limits.documents_bytes / 2)),
            filters: Arc::new(Filters::new(limits.filters_bytes)),
            derived: Budget::new(limits.derived_bytes),
            join_memory: Arc::default(),
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
    pub(crate) fn filters(&self) -> &Filters {
        &self.filters
    }
    /// The budget of values that are derived from segments.
    pub(crate) fn derived(&self) -> &Arc<Budget> {
        &self.derived
    }
    /// The budget of the key sets of joins.
    pub(crate) fn join_memory(&self) -> &Arc<search::plan::join::Budget> {
        &self.join_memory
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
    /// An empty view of an index.
    pub(crate) fn blank_view(&self, entry: &IndexEntry, position: u64) -> IndexView {
        IndexView {
            no: entry.no,
            name: entry.name.clone(),
            typed: entry.typed(),
            types: entry.types(),
            parents: entry.parents(),
            mapping: entry.mapping.clone(),
            registry: entry.registry.clone(),
            settings: entry.settings.clone(),
            schema: entry.schema.clone(),
            segments: Vec::new(),
            position,
            derived: Derived::new(&self.derived),
            documents: self.documents.clone(),
            filters: self.filters.clone(),
            mappings: entry.mappings.clone(),
        }
    }
}
