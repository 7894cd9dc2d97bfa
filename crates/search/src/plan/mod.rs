//! From clauses to scorers: one file a family of clauses, over the segments of one index.
//!
//! A [`Planner`] compiles a `dsl::Query` against one [`IndexView`]: fields are resolved, texts analyzed, terms
//! counted. What comes out is a tree of [`node::Node`]s that only need a segment. Nested objects are documents
//! of their own in the segments; [`Planned`] keeps what a request may see: roots, alive, not hidden.
//!
//! Not here: collecting, sorting, fetching (`search`), aggregations (`aggs`).

use crate::interrupt::Interrupt;
use boolean::{AllNode, BoolNode, BoostingNode, ConstantNode, DisMaxNode, NoneNode, Shared};
use dsl::query::script_source::ScriptSource;
use dsl::query::{BoolQuery, Clause, Query};
use expand::Fuzz;
use model::{Error, ErrorKind, Result};
use node::AllScorer;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use tantivy::query::Scorer;

pub mod boolean;
mod by_column;
mod child_score;
pub mod columns;
pub mod combine;
mod common_terms;
mod coord;
mod exists;
mod expand;
pub mod explain;
mod field;
pub(crate) mod field_data;
mod full_text;
mod function_score;
mod geo;
pub(crate) mod geo_distance;
pub(crate) mod hashes;
pub mod join;
pub(crate) mod levenshtein;
pub mod live_docs;
mod lucene_string;
mod meta;
mod minimum_should_match;
mod more_like_this;
mod multi_match;
mod nested;
pub mod node;
pub mod parent_child;
pub(crate) mod parent_child_ordinals;
mod parent_ids;
mod phrase;
mod positional;
mod positions;
pub(crate) mod profile;
pub mod prune;
mod query_norm;
mod range;
pub(crate) mod rare_term_topk;
mod regexp;
mod rewrite;
pub(crate) mod routed;
pub mod scripts;
mod similarity;
mod slice;
mod small_disjunction;
mod statistics;
pub mod term;
mod terms;
mod text_query;
mod tfidf;

pub use explain::Explained;
pub(crate) use field::query_shard;
pub use field::{Target, setting, text_of};
pub(crate) use function_score::pick;
pub(crate) use nested::{enclosing, no_nested};
pub use regexp::Pattern;

/// What a search needs besides its request.
pub struct Context<'a> {
    /// What parts of the search took.
    pub phases: crate::phases::Phases,
    /// The clock, for `now`.
    pub now_ms: i64,
    /// `indices.query.bool.max_clause_count`.
    pub max_clause_count: usize,
    /// `search.max_buckets`.
    pub max_buckets: usize,
    /// `search.max_phrase_suggest_ways`.
    pub max_phrase_ways: usize,
    /// Looks stored scripts up and compiles, with a cache.
    pub scripts: &'a dyn Fn(&ScriptSource) -> Result<script::Program>,
    /// Hidden documents too?
    pub see: engine::See,
    /// Whether the request is to go on.
    pub interrupt: Interrupt,
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
    /// What clauses that only filter would score is told: by explanations, with names.
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

    /// Calls `f`; what it compiles is explained, if `explained`.
    pub(crate) fn explained<T>(&self, explained: bool, f: impl FnOnce() -> T) -> T {
        let around = self.filters_score.replace(self.filters_score.get() || explained);
        let made = f();
        self.filters_score.set(around);
        made
    }
}

/// A query compiled for one index, restricted to what the request may see.
pub struct Planned {
    node: Shared,
    types: Vec<tantivy::Term>,
    see: engine::See,
    schema: Arc<segment::schema::IndexSchema>,
    named: Vec<(String, Shared)>,
    failure: scripts::Failure,
    profile: Vec<Arc<profile::ProfiledNode>>,
}

impl Planned {
    /// What its clauses took, where that is kept.
    pub fn profile(&self) -> Vec<serde_json::Value> {
        self.profile.iter().map(|node| node.render()).collect()
    }

    /// The visible root documents of a segment that match, with their scores.
    ///
    /// # Errors
    /// Unreadable files; scripts that fail at once.
    pub fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let set = self.node.scorer(segment)?;
        self.failure.check()?;
        let mut sets = vec![(set, true)];
        if !self.types.is_empty() {
            sets.push((term::any_of(segment, &self.types)?, false));
        }
        let set = if sets.len() == 1 {
            sets.remove(0).0
        } else {
            combine::and(sets)
        };
        Ok(live_docs::Visible::of(set, self.sight(segment)?))
    }

    /// The error of a script that failed while documents were collected.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<()> {
        self.failure.check()
    }

    /// Why a document has its score.
    ///
    /// # Errors
    /// As [`Planned::scorer`].
    pub fn explain(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Explained> {
        self.node.explain(segment, doc)
    }

    /// The names of the clauses that match a document.
    ///
    /// # Errors
    /// As [`Planned::scorer`].
    pub fn matched(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<String>> {
        names_at(&self.named, segment, doc)
    }

    /// The same with their scores.
    ///
    /// # Errors
    /// As [`Planned::scorer`].
    pub fn matched_scores(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<f32>> {
        let names = self.matched(segment, doc)?;
        let mut scores = Vec::with_capacity(names.len());
        for name in names {
            let mut of_name = None;
            for (_, node) in self.named.iter().filter(|(own, _)| *own == name) {
                of_name = of_name.or(node::score_at(node.scorer(segment)?, doc));
            }
            scores.push(of_name.unwrap_or_default());
        }
        Ok(scores)
    }

    /// Whether any clause has a name.
    pub fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// Every visible document matches, with one score.
    pub fn all_score(&self, segment: &SegmentView) -> Option<f32> {
        if !self.node.is_all() || !self.types.is_empty() {
            return None;
        }
        self.node.scorer(segment).ok().map(|mut scorer| scorer.score())
    }

    /// The same as a query that prunes, if there is one and there is enough to prune.
    ///
    /// # Errors
    /// tantivy's.
    pub fn pruning(&self) -> Result<Option<prune::Pruning>> {
        if !self.types.is_empty() {
            return Ok(None);
        }
        let mut numbers = prune::Numbers::default();
        match self.node.prunable(&mut numbers) {
            Some(query) if numbers.docs() > prune::FEW => prune::Pruning::new(query.as_ref(), &numbers, &self.schema).map(Some),
            _ => Ok(None),
        }
    }

    /// How many visible documents of a segment match, where that is known quickly; beyond `most` any larger number
    /// will do.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn quick_count(&self, segment: &SegmentView, sight: &live_docs::LiveDocs, most: u64) -> Result<Option<u64>> {
        if !self.types.is_empty() {
            return Ok(None);
        }
        if self.node.is_all() {
            return Ok(Some(sight.count()));
        }
        self.node.quick_count(segment, sight, most)
    }

    /// What of a segment the request may see.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn sight(&self, segment: &SegmentView) -> Result<live_docs::LiveDocs> {
        live_docs::LiveDocs::open(segment, &self.schema, self.see)
    }

    /// The query matches nothing.
    pub fn is_none(&self) -> bool {
        self.node.is_none()
    }

    /// The compiled clause without the restriction, for parts of queries (function filters, aggregations).
    pub fn node(&self) -> &Shared {
        &self.node
    }
}

/// Compiles a query for a view, with what is in an alias' filter added.
///
/// # Errors
/// Clauses that make no sense for the mapping.
pub fn plan(view: &IndexView, query: Option<&Query>, filter: Option<&Query>, cx: &Context<'_>) -> Result<Planned> {
    let planner = Planner::new(view, cx);
    let mut node = match query {
        Some(query) => planner.whole(query)?,
        None if cx.profile.get() => planner.compile(&Query::all(), 1.0)?,
        None => Arc::new(AllNode(1.0)),
    };
    if let Some(filter) = filter {
        let filter = planner.filtering(filter)?;
        node = Arc::new(BoolNode {
            must: vec![node],
            filter: vec![filter],
            ..BoolNode::default()
        });
    }
    Ok(planner.finish(node))
}

/// A compiled clause that is not restricted to visible roots: for rescoring.
///
/// # Errors
/// As [`plan`].
pub fn compile(view: &IndexView, query: &Query, cx: &Context<'_>) -> Result<Shared> {
    Planner::new(view, cx).whole(query)
}

/// A query in Lucene's words, as it is for an index and behind the filter of an alias; in those of the request where
/// Lucene has none.
///
/// # Errors
/// As [`plan`].
pub fn said(view: &IndexView, query: &Query, filter: Option<&Query>, cx: &Context<'_>) -> Result<String> {
    let planner = Planner::new(view, cx);
    let mut node = planner.compile(query, 1.0)?;
    if let Some(filter) = filter {
        node = Arc::new(BoolNode {
            must: vec![node],
            filter: vec![planner.compile(filter, 1.0)?],
            ..BoolNode::default()
        });
    }
    let types: &[String] = if view.typed { cx.types } else { &[] };
    let text = if node.is_none() && !view.typed {
        None
    } else {
        lucene_string::of_types(&node, types)
    };
    Ok(text.unwrap_or_else(|| match node.is_none() {
        true => "MatchNoDocsQuery".to_owned(),
        false => query.render().to_string(),
    }))
}

/// The same for who asks only which documents match, of a nested path or of roots: for filters inside aggregations and sorts.
///
/// # Errors
/// As [`plan`].
pub fn compile_filter(view: &IndexView, query: &Query, cx: &Context<'_>, nested_path: Option<&str>) -> Result<Shared> {
    let mut planner = Planner::new(view, cx);
    planner.path = nested_path.map(str::to_owned);
    planner.filtering(query)
}

/// A clause compiled with what it says of itself: names, failures of scripts.
pub struct Part {
    /// The clause, not restricted to what is visible.
    pub node: Shared,
    named: Vec<(String, Shared)>,
    failure: scripts::Failure,
}

impl Part {
    /// The error of a script that failed while documents were looked at.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<()> {
        self.failure.check()
    }
    /// The names of the clauses that match a document.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn matched(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<String>> {
        names_at(&self.named, segment, doc)
    }
}

/// The clause of inner hits: asked of the documents of a nested path, or of roots.
///
/// # Errors
/// As [`plan`].
pub fn part(view: &IndexView, query: Option<&Query>, cx: &Context<'_>, nested_path: Option<&str>) -> Result<Part> {
    let mut planner = Planner::new(view, cx);
    planner.path = nested_path.map(str::to_owned);
    let node = match query {
        Some(query) => planner.whole(query)?,
        None => Arc::new(AllNode(1.0)),
    };
    Ok(Part {
        node,
        named: planner.named.into_inner(),
        failure: planner.failure,
    })
}

fn names_at(named: &[(String, Shared)], segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (name, node) in named {
        if !names.contains(name) && node::score_at(node.scorer(segment)?, doc).is_some() {
            names.push(name.clone());
        }
    }
    Ok(names)
}

/// Compiles clauses for one index.
pub struct Planner<'a> {
    pub(crate) view: &'a IndexView,
    pub(crate) cx: &'a Context<'a>,
    /// The nested path whose documents are being asked, `None` for roots.
    pub(crate) path: Option<String>,
    statistics: statistics::Statistics<'a>,
    named: RefCell<Vec<(String, Shared)>>,
    clauses: RefCell<usize>,
    failure: scripts::Failure,
    /// Inside `query_string`: words that analysis drops leave no clause behind.
    absent: Cell<bool>,
    /// What typed indices multiply the boosts of the query with that is compiled.
    query_norm: Cell<f32>,
    /// Inside a filter.
    only_filters: Cell<bool>,
    /// The profiled clauses of the clause that is being compiled.
    profile: RefCell<Vec<Arc<profile::ProfiledNode>>>,
}

impl<'a> Planner<'a> {
    /// A planner for root documents.
    pub fn new(view: &'a IndexView, cx: &'a Context<'a>) -> Planner<'a> {
        Planner {
            view,
            cx,
            path: None,
            statistics: statistics::Statistics::new(view),
            named: RefCell::default(),
            clauses: RefCell::default(),
            failure: scripts::Failure::default(),
            absent: Cell::new(false),
            query_norm: Cell::new(1.0),
            only_filters: Cell::new(false),
            profile: RefCell::default(),
        }
    }

    fn finish(self, node: Shared) -> Planned {
        // Where all are asked for, none is looked at.
        let asked = |name: &String| self.cx.types.contains(name);
        let types = match self.view.typed && !self.view.types.is_empty() && self.view.types.iter().all(asked) {
            true => Vec::new(),
            false => meta::type_terms(self.view, self.cx.types),
        };
        let schema = self.view.schema.clone();
        Planned {
            node,
            types,
            see: self.cx.see,
            schema,
            named: self.named.into_inner(),
            failure: self.failure,
            profile: self.profile.into_inner(),
        }
    }

    /// A planner for the documents of a nested path, with the same counters.
    fn inside<T>(&self, path: &str, f: impl FnOnce(&Planner<'a>) -> Result<T>) -> Result<T> {
        let inner = Planner {
            view: self.view,
            cx: self.cx,
            path: Some(path.to_owned()),
            statistics: self.statistics.beginning(),
            named: RefCell::default(),
            clauses: RefCell::new(*self.clauses.borrow()),
            failure: self.failure.clone(),
            absent: self.absent.clone(),
            query_norm: self.query_norm.clone(),
            only_filters: self.only_filters.clone(),
            profile: RefCell::default(),
        };
        let result = f(&inner)?;
        self.profile.borrow_mut().append(&mut inner.profile.borrow_mut());
        *self.clauses.borrow_mut() = *inner.clauses.borrow();
        Ok(result)
    }

    fn count_clauses(&self, more: usize) -> Result<()> {
        let mut clauses = self.clauses.borrow_mut();
        *clauses = clauses.saturating_add(more);
        if *clauses > self.cx.max_clause_count {
            return Err(self.too_many_clauses());
        }
        Ok(())
    }

    fn too_many_clauses(&self) -> Error {
        dsl::query::too_many_clauses(self.cx.max_clause_count)
    }

    /// The documents that clauses here are about.
    fn level(&self) -> live_docs::Level {
        live_docs::Level {
            schema: self.view.schema.clone(),
            path: self.path.clone(),
            see: self.cx.see,
        }
    }

    fn nothing(&self, why: impl Into<String>) -> Shared {
        Arc::new(NoneNode(why.into()))
    }

    /// Compiles a clause; `boost` is what the clauses around it multiply with.
    ///
    /// # Errors
    /// Clauses that make no sense for the mapping.
    pub fn compile(&self, query: &Query, boost: f32) -> Result<Shared> {
        self.cx.check_cancelled()?;
        let node = if self.cx.profile.get() {
            self.profiled(query, boost)?
        } else {
            self.clause(&query.clause, boost * query.boost)
                .map_err(|error| query.at.mark(error))?
        };
        if let Some(name) = &query.name {
            self.named.borrow_mut().push((name.clone(), node.clone()));
        }
        Ok(node)
    }

    /// Whether scores of the clause that is compiled reach anyone.
    fn scores_matter(&self) -> bool {
        !self.only_filters.get()
    }

    /// Compiles a clause whose scores nobody asks for: nothing is counted for them.
    fn filtering(&self, query: &Query) -> Result<Shared> {
        let filters = self.only_filters.replace(true);
        let around = self.statistics.need(self.statistics.needed() && self.cx.filters_score.get());
        let node = self.compile(query, 1.0);
        self.statistics.need(around);
        self.only_filters.set(filters);
        node
    }

    /// Compiles a clause whose scores decide what matches, whoever asks.
    fn scoring(&self, query: &Query, boost: f32) -> Result<Shared> {
        let around = self.statistics.need(true);
        let filters = self.only_filters.replace(false);
        let node = self.compile(query, boost);
        self.statistics.need(around);
        self.only_filters.set(filters);
        node
    }

    fn profiled(&self, query: &Query, boost: f32) -> Result<Shared> {
        let started = std::time::Instant::now();
        let around = self.profile.take();
        let node = self.clause(&query.clause, boost * query.boost);
        let mut below = self.profile.replace(around);
        let node = node.map_err(|error| query.at.mark(error))?;
        // What is read off a text is the query that it says.
        let read = matches!(query.clause, Clause::QueryString(_) | Clause::SimpleQueryString(_));
        let node = match below.pop() {
            Some(only) if read && below.is_empty() => only,
            last => {
                below.extend(last);
                profile::ProfiledNode::new(query, node, below, started.elapsed())
            }
        };
        self.profile.borrow_mut().push(node.clone());
        Ok(node)
    }

    /// Refuses what `search.allow_expensive_queries` stops.
    fn check_cheap(&self, clause: &Clause) -> Result<()> {
        let (what, more) = match clause {
            Clause::Prefix(_) => (
                "[prefix] queries",
                " For optimised prefix queries on text fields please enable [index_prefixes].",
            ),
            Clause::Fuzzy(_) => ("[fuzzy] queries", ""),
            Clause::Regexp(_) => ("[regexp] queries", ""),
            Clause::Wildcard(_) => ("[wildcard] queries", ""),
            Clause::Range(q) => {
                let kind = field::Target::of(self.view, &q.field).map(|target| target.kind.kind);
                if !kind.is_some_and(|kind| kind.is_text() || kind.is_keyword()) {
                    return Ok(());
                }
                ("[range] queries on [text] or [keyword] fields", "")
            }
            Clause::Nested(_) | Clause::HasChild(_) | Clause::HasParent(_) | Clause::ParentId { .. } => ("[joining] queries", ""),
            Clause::ScriptScore { .. } => ("[script score] queries", ""),
            Clause::Script { .. } => ("[script] queries", ""),
            _ => return Ok(()),
        };
        let setting = model::settings::ALLOW_EXPENSIVE_QUERIES.name;
        let reason = format!("failed to create query: {what} cannot be executed when '{setting}' is set to false.{more}");
        Err(Error::new(ErrorKind::QueryShard, reason).with("index", self.view.name.as_str()))
    }

    fn clause(&self, clause: &Clause, boost: f32) -> Result<Shared> {
        if !self.cx.expensive {
            self.check_cheap(clause)?;
        }
        match clause {
            Clause::MatchAll => Ok(Arc::new(AllNode(boost))),
            Clause::MatchNone => Ok(self.nothing("MatchNoDocsQuery")),
            Clause::Term(q) => self.term(q, boost),
            Clause::Terms(q) => self.terms(q, boost),
            Clause::KeySet(q) => self.key_set(q, boost),
            Clause::Slice(slice) => self.slice(slice, boost),
            Clause::Routed { routings } => Ok(self.routed(routings, boost)),
            Clause::Range(q) => self.range(q, boost),
            Clause::Exists { field } => self.exists(field, boost),
            Clause::Prefix(q) => self.prefix(q, boost),
            Clause::Wildcard(q) => self.wildcard(q, boost),
            Clause::Regexp(q) => self.regexp(q, boost),
            Clause::Fuzzy(q) => self.fuzzy(q, boost),
            Clause::Ids { values, types } => Ok(self.ids(values, types, boost)),
            Clause::Type { value } => Ok(self.doc_type(value, boost)),
            Clause::Match(q) => self.match_query(q, boost),
            Clause::MatchPhrase(q) => self.match_phrase(q, boost),
            Clause::MatchPhrasePrefix(q) => self.match_phrase_prefix(q, boost),
            Clause::MatchBoolPrefix(q) => self.match_bool_prefix(q, boost),
            Clause::MultiMatch(q) => self.multi_match(q, boost),
            Clause::Bool(q) => self.bool(q, boost),
            Clause::Boosting {
                positive,
                negative,
                negative_boost,
            } => Ok(Arc::new(BoostingNode {
                positive: self.compile(positive, boost)?,
                negative: self.compile(negative, 1.0)?,
                negative_boost: *negative_boost,
            })),
            Clause::ConstantScore { filter } => Ok(Arc::new(ConstantNode {
                filter: self.filtering(filter)?,
                boost,
            })),
            Clause::DisMax { queries, tie_breaker } => {
                self.count_clauses(queries.len())?;
                let mut nodes = queries.iter().map(|q| self.compile(q, boost)).collect::<Result<Vec<_>>>()?;
                let all = nodes.len();
                nodes.retain(|node| !node.is_absent());
                if nodes.is_empty() && all > 0 {
                    return Ok(Arc::new(NoneNode::absent()));
                }
                Ok(dis_max(nodes, *tie_breaker))
            }
            Clause::FunctionScore(q) => self.function_score(q, boost),
            Clause::ScriptScore {
                query,
                script,
                min_score,
            } => self.script_score(query, script, *min_score, boost),
            Clause::Script { script } => self.script_filter(script, boost),
            Clause::QueryString(q) => self.query_string(q, boost),
            Clause::SimpleQueryString(q) => self.simple_query_string(q, boost),
            Clause::Span(q) => self.span(q, boost),
            Clause::Intervals { field, rule } => self.intervals(field, rule, boost),
            Clause::TermsSet(q) => self.terms_set(q, boost),
            Clause::MoreLikeThis(q) => self.more_like_this(q, boost),
            Clause::Geo(q) => self.geo(q, boost),
            Clause::DistanceFeature(q) => self.distance_feature(q, boost),
            Clause::Nested(q) => self.nested(q, boost),
            Clause::HasChild(q) => self.has_child(q, boost),
            Clause::HasParent(q) => self.has_parent(q, boost),
            Clause::ParentId {
                child_type,
                id,
                ignore_unmapped,
            } => self.parent_id(child_type, id, *ignore_unmapped, boost),
            // `relations` resolves them wherever a request has queries; the filters of aliases are no request.
            Clause::TermsLookup(_) | Clause::Join(_) => Err(Error::illegal(
                "[join] and lookups of [terms] read other documents and can be used in requests only",
            )),
            Clause::Opaque { name, .. } => Err(Error::parsing(format!("query [{name}] is not supported"), 1, 1)),
        }
    }

    fn bool(&self, q: &BoolQuery, boost: f32) -> Result<Shared> {
        let scored = |list: &[Query]| -> Result<Vec<Shared>> {
            self.count_clauses(list.len())?;
            list.iter().map(|q| self.compile(q, boost)).collect()
        };
        let filters = |list: &[Query]| -> Result<Vec<Shared>> {
            self.count_clauses(list.len())?;
            list.iter().map(|q| self.filtering(q)).collect()
        };
        let mut node = BoolNode {
            must: scored(&q.must)?,
            filter: filters(&q.filter)?,
            should: scored(&q.should)?,
            must_not: filters(&q.must_not)?,
            least: 0,
            coordinated: self.classic() && !q.disable_coord,
        };
        let empty = |node: &BoolNode| {
            node.must.is_empty() && node.filter.is_empty() && node.should.is_empty() && node.must_not.is_empty()
        };
        if self.absent.get() && !empty(&node) {
            for list in [&mut node.must, &mut node.filter, &mut node.should, &mut node.must_not] {
                list.retain(|n| !n.is_absent());
            }
            if empty(&node) {
                return Ok(Arc::new(NoneNode::absent()));
            }
        }
        if empty(&node) {
            return Ok(Arc::new(AllNode(boost)));
        }
        let excludes = node.must.is_empty() && node.filter.is_empty() && node.should.is_empty();
        if q.nothing_of_exclusions && excludes {
            return Ok(self.nothing("No matching clauses"));
        }
        node.least = match &q.minimum_should_match {
            Some(text) => minimum_should_match::minimum_should_match(text, node.should.len())?,
            None => usize::from(node.must.is_empty() && node.filter.is_empty() && !node.should.is_empty()),
        };
        if node.least == 0 && node.must.is_empty() && node.filter.is_empty() && !node.should.is_empty() {
            // Lucene needs one of the options where nothing else is required.
            node.least = 1;
        }
        if node.least > node.should.len() {
            return Ok(self.nothing("No matching clauses"));
        }
        if node.must.iter().chain(&node.filter).any(|n| n.is_none()) {
            return Ok(self.nothing("No matching clauses"));
        }
        Ok(Arc::new(node))
    }
}

/// The best of several clauses.
pub(crate) fn dis_max(mut nodes: Vec<Shared>, tie_breaker: f32) -> Shared {
    match nodes.len() {
        0 => Arc::new(NoneNode("empty dis_max".into())),
        1 => nodes.remove(0),
        _ => Arc::new(DisMaxNode {
            nodes,
            tie_breaker,
            what: None,
        }),
    }
}

/// Every document of a segment.
pub(crate) fn every(segment: &SegmentView) -> Box<dyn Scorer> {
    Box::new(AllScorer::new(segment.reader.max_doc(), 1.0))
}
