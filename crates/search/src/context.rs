//! The surroundings of a search: clock, limits, scripts, cancellation.

use crate::helpers::Helpers;
use crate::interrupt::Interrupt;
use dsl::query::script_source::ScriptSource;
use model::Result;
use std::cell::Cell;
use std::sync::Arc;

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
    pub types: &'a [String],
    /// Times and counts are kept of each clause.
    pub profile: Cell<bool>,
    /// Filters compute scores too, for explanations and named scores.
    pub filters_score: Cell<bool>,
}

impl Context<'_> {
    /// Refuses to go on once the request is cancelled, or its time is over.
    ///
    /// # Errors
    /// As [`Interrupt::check`].
    pub fn check_cancelled(&self) -> Result<()> {
        self.interrupt.check()
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
        let around = self.filters_score.replace(self.filters_score.get() || explained);
        let made = f();
        self.filters_score.set(around);
        made
    }
}
