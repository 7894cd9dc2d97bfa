//! The surroundings of a search: clock, limits, scripts, cancellation.

use crate::helpers::Helpers;
use crate::interrupt::Interrupt;
use dsl::query::script_source::ScriptSource;
use model::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Looks stored scripts up and compiles, with a cache.
pub type Scripts = Arc<dyn Fn(&ScriptSource) -> Result<script::Program> + Send + Sync>;

/// The surroundings of a search: clock, limits, scripts, cancellation.
pub struct Context<'a> {
    /// Durations of phases.
    pub phases: crate::phases::Phases,
    /// The clock, for `now`.
    pub now_ms: i64,
    /// `indices.query.bool.max_clause_count`.
    pub max_clause_count: usize,
    /// `search.max_buckets`.
    pub max_buckets: usize,
    /// `search.max_phrase_suggest_ways`.
    pub max_phrase_ways: usize,
    /// The scripts of the request.
    pub scripts: Scripts,
    /// Hidden documents too?
    pub see: engine::See,
    /// Whether the request is to go on.
    pub interrupt: Interrupt,
    /// Other threads for searches that take long.
    pub helpers: Option<&'a dyn Helpers>,
    /// k1 + 1 stands in scores (all but OpenSearch 3).
    pub bm25_factor: f32,
    /// Missing values of small integers are sorted to ends of 32 bits (OpenSearch from 2 on).
    pub opensearch: bool,
    /// Fields of nested objects may be sorted by without `nested`: there is nothing to sort by (OpenSearch, Elasticsearch 7).
    pub lost_sorts: bool,
    /// `search.allow_expensive_queries`.
    pub expensive: bool,
    /// Types of the typed dialect that the request names; empty for all.
    pub types: Vec<String>,
    /// Times and counts are kept of each clause.
    pub profile: AtomicBool,
    /// Filters compute scores too, for explanations and named scores.
    pub filters_score: AtomicBool,
}

impl Context<'_> {
    /// Refuses to go on once the request is cancelled, or its time is over.
    ///
    /// # Errors
    /// As [`Interrupt::check`].
    pub fn check_cancelled(&self) -> Result<()> {
        self.interrupt.check()
    }

    /// Whether times and counts are kept of each clause.
    pub(crate) fn is_profiled(&self) -> bool {
        self.profile.load(Ordering::Relaxed)
    }

    /// The same without borrowed parts, as for another thread: without helpers, profiles and scores of filters.
    pub fn detach(&self) -> Context<'static> {
        Context {
            phases: crate::phases::Phases::default(),
            now_ms: self.now_ms,
            max_clause_count: self.max_clause_count,
            max_buckets: self.max_buckets,
            max_phrase_ways: self.max_phrase_ways,
            scripts: self.scripts.clone(),
            see: self.see,
            interrupt: self.interrupt.clone(),
            helpers: None,
            bm25_factor: self.bm25_factor,
            opensearch: self.opensearch,
            lost_sorts: self.lost_sorts,
            expensive: self.expensive,
            types: self.types.clone(),
            profile: AtomicBool::new(false),
            filters_score: AtomicBool::new(false),
        }
    }

    /// Compiles a script of the request.
    ///
    /// # Errors
    /// There is no such stored script; it does not compile.
    pub(crate) fn compile(&self, source: &ScriptSource) -> Result<script::Program> {
        (*self.scripts)(source)
    }

    /// Calls `f`; what it compiles is explained, if `explained`.
    pub(crate) fn explaining<T>(&self, explained: bool, f: impl FnOnce() -> T) -> T {
        let around = self.filters_score.fetch_or(explained, Ordering::Relaxed);
        let made = f();
        self.filters_score.store(around, Ordering::Relaxed);
        made
    }
}
