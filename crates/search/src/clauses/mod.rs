//! Plans clauses: from a parsed query to the scorers that run it, one file a clause.
//!
//! A [`Planner`] compiles a `dsl::Query` against one [`IndexView`]: it resolves fields, analyzes texts and counts terms. The
//! result is a tree of `Node`s (`scorers/node.rs`) that need only a segment. [`Planned`] restricts it to the documents
//! that the request may see.
//!
//! Not here: walking postings and scoring (`scorers`), collecting (`collect`), aggregations (`aggs`).

mod analyzed_text;
mod bool;
mod by_column;
mod common_terms;
mod distance_feature;
mod doc_type;
mod exists;
mod family_relatives;
mod field_value;
mod function_score;
mod geo;
mod has_child;
mod has_parent;
mod ids;
mod intervals;
mod key_set;
mod match_phrase;
mod match_query;
mod metadata_fields;
mod minimum_should_match;
mod more_like_this;
mod multi_match;
mod multi_term;
pub(crate) mod nested;
mod null_value;
mod parent_child;
mod parent_id;
mod query_norm;
mod query_string;
mod range;
mod rewrite;
pub(crate) mod routed;
mod script;
mod script_score;
mod similarity;
mod slice;
mod span;
mod term;
mod terms;
mod terms_set;
mod tree_path;

use crate::context::Context;
use crate::fields::target::Target;
use crate::scorers::bool::BoolNode;
use crate::scorers::boosting::BoostingNode;
use crate::scorers::constant_score::ConstantNode;
use crate::scorers::dis_max::dis_max;
use crate::scorers::match_all::{AllNode, NoneNode};
use crate::scorers::node::Shared;
use crate::scorers::planned::{Part, Planned};
use crate::scorers::{live_docs, lucene_string, profile, statistics};
use crate::scripts;
use dsl::query::{Clause, Query};
use model::{Error, ErrorKind, Result};
use segment::searchable::IndexView;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Compiles a query for a view, with what is in an alias' filter added.
///
/// # Errors
/// Clauses that make no sense for the mapping.
pub fn plan(view: &IndexView, query: Option<&Query>, filter: Option<&Query>, cx: &Context<'_>) -> Result<Planned> {
    let planner = Planner::new(view, cx);
    let mut node = match query {
        Some(query) => planner.whole(query)?,
        None if cx.is_profiled() => planner.compile(&Query::all(), 1.0)?,
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

/// A query in Lucene's words, as it is for an index and behind the filter of an alias; in those of the request where
/// Lucene has none.
///
/// # Errors
/// As [`plan`].
pub fn describe(view: &IndexView, query: &Query, filter: Option<&Query>, cx: &Context<'_>) -> Result<String> {
    let planner = Planner::new(view, cx);
    let mut node = planner.compile(query, 1.0)?;
    if let Some(filter) = filter {
        node = Arc::new(BoolNode {
            must: vec![node],
            filter: vec![planner.compile(filter, 1.0)?],
            ..BoolNode::default()
        });
    }
    let types: &[String] = if view.typed { &cx.types } else { &[] };
    let text = if node.is_none() && !view.rules().explains_empty_queries {
        None
    } else {
        lucene_string::of_types(&node, types)
    };
    Ok(text.unwrap_or_else(|| match node.is_none() {
        true => "MatchNoDocsQuery".to_owned(),
        false => query.render().to_string(),
    }))
}

/// A clause that is not restricted to visible roots, for who asks only which documents match, of a nested path or of roots: for filters
/// inside aggregations and sorts.
///
/// # Errors
/// As [`plan`].
pub fn filter_part(view: &IndexView, query: &Query, cx: &Context<'_>, nested_path: Option<&str>) -> Result<Part> {
    let planner = Planner::within(view, cx, nested_path);
    let node = planner.filtering(query)?;
    Ok(planner.into_part(node))
}

/// A clause with scores that is not restricted to visible roots: of inner hits, asked of the documents of a nested path or of roots, and
/// of rescoring.
///
/// # Errors
/// As [`plan`].
pub fn part(view: &IndexView, query: Option<&Query>, cx: &Context<'_>, nested_path: Option<&str>) -> Result<Part> {
    let planner = Planner::within(view, cx, nested_path);
    let node = match query {
        Some(query) => planner.whole(query)?,
        None => Arc::new(AllNode(1.0)),
    };
    Ok(planner.into_part(node))
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
    /// The query norm of the similarity of 2015, which boosts are multiplied with.
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

    /// A planner for the documents of a nested path, or for root documents.
    fn within(view: &'a IndexView, cx: &'a Context<'a>, nested_path: Option<&str>) -> Planner<'a> {
        Planner {
            path: nested_path.map(str::to_owned),
            ..Planner::new(view, cx)
        }
    }

    /// A clause with what it says of itself.
    fn into_part(self, node: Shared) -> Part {
        Part {
            node,
            named: self.named.into_inner(),
            failure: self.failure,
        }
    }

    fn finish(self, node: Shared) -> Planned {
        // Where all are asked for, none is looked at.
        let asked = |name: &String| self.cx.types.contains(name);
        let types = match self.view.typed && !self.view.types.is_empty() && self.view.types.iter().all(asked) {
            true => Vec::new(),
            false => doc_type::type_terms(self.view, &self.cx.types),
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
        let (mut before, after) = (self.clauses.borrow_mut(), *inner.clauses.borrow());
        assert!(*before <= after, "clauses of a nested query count beside those around it");
        *before = after;
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
    fn level(&self) -> live_docs::LiveLevel {
        live_docs::LiveLevel {
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
        let node = if self.cx.is_profiled() {
            self.compile_profiled(query, boost)?
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
        let around = self
            .statistics
            .need(self.statistics.is_needed() && self.cx.filters_score.load(Ordering::Relaxed));
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

    fn compile_profiled(&self, query: &Query, boost: f32) -> Result<Shared> {
        let started = std::time::Instant::now();
        let around = self.profile.take();
        let node = self.clause(&query.clause, boost * query.boost);
        let mut below = self.profile.replace(around);
        let node = node.map_err(|error| query.at.mark(error))?;
        // A query string is shown as the query that its text stands for.
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
                let kind = Target::of(self.view, &q.field).map(|target| target.kind.kind);
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
            Clause::Routed { routings } => Ok(self.routing(routings, boost)),
            Clause::Range(q) => self.range(q, boost),
            Clause::Exists { field } => self.exists(field, boost),
            Clause::NullValue { field, existence } => self.null_value(field, *existence, boost),
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
}
