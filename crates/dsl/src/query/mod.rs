//! Query clauses as values.

use script_source::ScriptSource;
use serde_json::{Map, Value};

pub use crate::search::InnerHits;

mod bool_query;
mod boosting;
mod common_terms;
mod constant_score;
mod dis_max;
mod distance_feature;
mod exists;
mod function_score;
mod fuzzy;
pub(crate) mod geo;
mod geo_2015;
mod has_child;
mod has_parent;
mod ids;
mod intervals;
mod join;
mod match_all;
mod match_phrase;
mod match_query;
mod more_like_this;
mod multi_match;
mod nested;
mod parse;
mod pattern;
mod place;
mod query_string;
mod range;
mod render;
mod rewrite;
mod script;
pub mod script_source;
mod simple_query_string;
mod span;
mod term;
mod terms;
mod terms_set;
#[cfg(test)]
mod tests;
mod typed;
mod words;
mod wrapper;

pub use distance_feature::DistanceFeatureQuery;
pub use geo::{Bound, GeoArea, GeoPlace, GeoQuery, GeoValidation, bounding_box, metres, parse_place};
pub use intervals::{IntervalFilter, IntervalMode, IntervalRelation, IntervalRule, IntervalShape, IntervalSource};
pub use more_like_this::{Like, MoreLikeThisQuery};
pub use parse::{Parsing, is_clause, parse_query_bytes, too_many_clauses, too_many_filters};
pub use place::Place;
pub use rewrite::Rewrite;
pub use span::SpanQuery;
pub use terms_set::TermsSetQuery;

/// One clause with what every clause may carry.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What it asks.
    pub clause: Clause,
    /// Multiplies the score; 1.0 unless told.
    pub boost: f32,
    /// `_name`: reported in `matched_queries`.
    pub name: Option<String>,
    /// Where it stands in the request, for messages.
    pub at: Place,
}

impl From<Clause> for Query {
    fn from(clause: Clause) -> Query {
        Query {
            clause,
            boost: 1.0,
            name: None,
            at: Place::default(),
        }
    }
}

/// Every clause we know. Parsed and rendered in one file a clause beside this one.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    MatchAll,
    MatchNone,
    Term(TermQuery),
    Terms(TermsQuery),
    /// Terms read from another document (or a query's hits); rewritten to `Terms` by `relations`.
    TermsLookup(TermsLookup),
    Range(RangeQuery),
    Exists {
        field: String,
    },
    Prefix(PatternQuery),
    Wildcard(PatternQuery),
    Regexp(PatternQuery),
    Fuzzy(FuzzyQuery),
    Ids {
        values: Vec<String>,
        types: Vec<String>,
    },
    /// The typed dialect's `type` filter.
    Type {
        value: String,
    },
    Match(MatchQuery),
    MatchPhrase(MatchPhraseQuery),
    MatchPhrasePrefix(MatchPhraseQuery),
    MatchBoolPrefix(MatchQuery),
    MultiMatch(MultiMatchQuery),
    Bool(BoolQuery),
    Boosting {
        positive: Box<Query>,
        negative: Box<Query>,
        negative_boost: f32,
    },
    /// Filter whose score is the boost.
    ConstantScore {
        filter: Box<Query>,
    },
    DisMax {
        queries: Vec<Query>,
        tie_breaker: f32,
    },
    FunctionScore(FunctionScoreQuery),
    ScriptScore {
        query: Box<Query>,
        script: ScriptSource,
        min_score: Option<f32>,
    },
    /// Script as a filter.
    Script {
        script: ScriptSource,
    },
    QueryString(QueryStringQuery),
    SimpleQueryString(QueryStringQuery),
    /// `span_*`.
    Span(SpanQuery),
    Intervals {
        field: String,
        rule: IntervalRule,
    },
    TermsSet(TermsSetQuery),
    MoreLikeThis(Box<MoreLikeThisQuery>),
    /// `geo_distance`, `geo_bounding_box`, `geo_polygon`.
    Geo(GeoQuery),
    DistanceFeature(DistanceFeatureQuery),
    Nested(NestedQuery),
    HasChild(HasChildQuery),
    HasParent(HasParentQuery),
    ParentId {
        child_type: String,
        id: String,
        ignore_unmapped: bool,
    },
    /// The 2015 `filtered`: query scores, filter restricts.
    Join(JoinQuery),
    /// Made by `relations` only: the keys of a join, a lookup.
    KeySet(KeySet),
    /// Made from the `slice` of a search: one of several parts of the documents.
    Slice(crate::search::Slice),
    /// Made from the `routing` of a search: the documents in the shards that these lead to.
    Routed {
        routings: Vec<String>,
    },
    /// A clause that we do not read; an engine that does not know it refuses it by name.
    Opaque {
        name: String,
        body: Value,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct TermQuery {
    pub field: String,
    pub value: Value,
    pub case_insensitive: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TermsQuery {
    pub field: String,
    pub values: Vec<Value>,
    /// 2015: `minimum_should_match`/`execution` on `terms`.
    pub minimum_should_match: Option<String>,
    /// 2015: how many of them match changes no score.
    pub disable_coord: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TermsLookup {
    pub field: String,
    pub index: Option<String>,
    pub doc_type: Option<String>,
    /// The document to read from; absent with `query`.
    pub id: Option<String>,
    pub path: String,
    pub routing: Option<String>,
    /// All values of `path` in the hits of this query instead of one document.
    pub query: Option<Box<Query>>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct RangeQuery {
    pub field: String,
    pub gt: Option<Value>,
    pub gte: Option<Value>,
    pub lt: Option<Value>,
    pub lte: Option<Value>,
    pub format: Option<String>,
    pub time_zone: Option<String>,
    pub relation: Option<String>,
}

/// `prefix`, `wildcard`, `regexp`.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternQuery {
    pub field: String,
    pub value: String,
    pub case_insensitive: bool,
    pub rewrite: Option<Rewrite>,
    /// `regexp` only.
    pub flags: Option<String>,
    /// `regexp` only.
    pub max_determinized_states: u32,
}

/// `fuzziness`: a number of edits or AUTO with its two lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fuzziness {
    Edits(u8),
    Auto { low: u32, high: u32 },
}

#[derive(Clone, Debug, PartialEq)]
pub struct FuzzyQuery {
    pub field: String,
    pub value: Value,
    pub fuzziness: Fuzziness,
    pub prefix_length: u32,
    pub max_expansions: u32,
    pub transpositions: bool,
    pub rewrite: Option<Rewrite>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Operator {
    #[default]
    Or,
    And,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZeroTerms {
    #[default]
    None,
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MatchQuery {
    pub field: String,
    pub query: Value,
    pub operator: Operator,
    pub minimum_should_match: Option<String>,
    pub fuzziness: Option<Fuzziness>,
    pub prefix_length: u32,
    pub max_expansions: u32,
    pub fuzzy_transpositions: bool,
    pub fuzzy_rewrite: Option<Rewrite>,
    pub analyzer: Option<String>,
    pub lenient: bool,
    pub zero_terms_query: ZeroTerms,
    pub auto_generate_synonyms_phrase_query: bool,
    /// Words that are in more documents (than this share of them, or than so many) only add to the score.
    pub cutoff_frequency: Option<f32>,
    /// How those count; as the others, if nothing is said.
    pub high_frequency: Option<HighFrequency>,
}

/// How the frequent words of a `common` query count.
#[derive(Clone, Debug, PartialEq)]
pub struct HighFrequency {
    pub operator: Operator,
    pub minimum_should_match: Option<String>,
}

impl Default for HighFrequency {
    fn default() -> HighFrequency {
        HighFrequency {
            operator: Operator::Or,
            minimum_should_match: None,
        }
    }
}

impl MatchQuery {
    /// The defaults of Elasticsearch.
    pub fn new(field: impl Into<String>, query: Value) -> MatchQuery {
        MatchQuery {
            field: field.into(),
            query,
            operator: Operator::Or,
            minimum_should_match: None,
            fuzziness: None,
            prefix_length: 0,
            max_expansions: 50,
            fuzzy_transpositions: true,
            fuzzy_rewrite: None,
            analyzer: None,
            lenient: false,
            zero_terms_query: ZeroTerms::None,
            auto_generate_synonyms_phrase_query: true,
            cutoff_frequency: None,
            high_frequency: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct MatchPhraseQuery {
    pub field: String,
    pub query: Value,
    pub slop: u32,
    pub analyzer: Option<String>,
    pub zero_terms_query: ZeroTerms,
    /// `match_phrase_prefix` only.
    pub max_expansions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiMatchType {
    #[default]
    BestFields,
    MostFields,
    CrossFields,
    Phrase,
    PhrasePrefix,
    BoolPrefix,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MultiMatchQuery {
    /// Field patterns with boosts. Empty: `index.query.default_field`.
    pub fields: Vec<(String, f32)>,
    pub kind: MultiMatchType,
    pub tie_breaker: Option<f32>,
    pub slop: u32,
    /// Everything that a `match` of one field has; its `field` is empty.
    pub options: MatchQuery,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct BoolQuery {
    pub must: Vec<Query>,
    pub should: Vec<Query>,
    pub filter: Vec<Query>,
    pub must_not: Vec<Query>,
    pub minimum_should_match: Option<String>,
    /// `adjust_pure_negative: false`: exclusions alone find nothing.
    pub nothing_of_exclusions: bool,
    /// 2015: how many clauses match changes no score.
    pub disable_coord: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FunctionScoreQuery {
    pub query: Box<Query>,
    pub functions: Vec<ScoreFunction>,
    pub score_mode: ScoreMode,
    pub boost_mode: BoostMode,
    pub max_boost: Option<f32>,
    pub min_score: Option<f32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScoreFunction {
    pub filter: Option<Query>,
    pub weight: Option<f32>,
    pub function: Function,
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// `weight` alone.
    Weight,
    Script(ScriptSource),
    FieldValueFactor {
        field: String,
        factor: f32,
        modifier: Modifier,
        missing: Option<f64>,
    },
    RandomScore {
        seed: Option<Value>,
        field: Option<String>,
    },
    Decay {
        kind: DecayKind,
        field: String,
        origin: Option<Value>,
        scale: Value,
        offset: Option<Value>,
        decay: f64,
        multi_value_mode: MultiValueMode,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Modifier {
    #[default]
    None,
    Log,
    Log1p,
    Log2p,
    Ln,
    Ln1p,
    Ln2p,
    Square,
    Sqrt,
    Reciprocal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecayKind {
    Linear,
    Exp,
    Gauss,
}

/// How several values of a field, several functions, several children become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ScoreMode {
    #[default]
    Multiply,
    Sum,
    Avg,
    First,
    Max,
    Min,
    /// Children only: their scores do not count.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BoostMode {
    #[default]
    Multiply,
    Replace,
    Sum,
    Avg,
    Max,
    Min,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiValueMode {
    #[default]
    Min,
    Max,
    Avg,
    Sum,
    Median,
}

/// `query_string` and `simple_query_string`: text and options; the grammar is in `query_string/`.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryStringQuery {
    pub query: String,
    /// Empty: `default_field`, or `index.query.default_field` (all fields).
    pub fields: Vec<(String, f32)>,
    pub default_operator: Operator,
    pub analyzer: Option<String>,
    pub quote_analyzer: Option<String>,
    pub quote_field_suffix: Option<String>,
    pub allow_leading_wildcard: bool,
    pub analyze_wildcard: bool,
    /// `lowercase_expanded_terms` of 2015, true there unless told: patterns, fuzzy words and ends of ranges
    /// of fields that hold no numbers are put in lower case.
    pub lowercase_expanded: bool,
    pub auto_generate_synonyms_phrase_query: bool,
    pub enable_position_increments: bool,
    pub fuzziness: Fuzziness,
    pub fuzzy_max_expansions: u32,
    pub fuzzy_prefix_length: u32,
    pub fuzzy_transpositions: bool,
    pub lenient: Option<bool>,
    pub minimum_should_match: Option<String>,
    pub phrase_slop: u32,
    pub tie_breaker: Option<f32>,
    pub kind: MultiMatchType,
    pub time_zone: Option<String>,
    pub max_determinized_states: u32,
    /// Of patterns.
    pub rewrite: Option<Rewrite>,
    /// 2015: each word of the text is a clause of its own.
    pub split_on_whitespace: bool,
    /// 2015: a word of the text that becomes several is a phrase.
    pub phrases_of_words: bool,
    /// `simple_query_string` only: enabled operators, `None` for all.
    pub flags: Option<Vec<String>>,
}

impl QueryStringQuery {
    /// The defaults of Elasticsearch.
    pub fn new(query: impl Into<String>) -> QueryStringQuery {
        QueryStringQuery {
            query: query.into(),
            fields: Vec::new(),
            default_operator: Operator::Or,
            analyzer: None,
            quote_analyzer: None,
            quote_field_suffix: None,
            allow_leading_wildcard: true,
            analyze_wildcard: false,
            lowercase_expanded: false,
            auto_generate_synonyms_phrase_query: true,
            enable_position_increments: true,
            fuzziness: Fuzziness::Auto { low: 3, high: 6 },
            fuzzy_max_expansions: 50,
            fuzzy_prefix_length: 0,
            fuzzy_transpositions: true,
            lenient: None,
            minimum_should_match: None,
            phrase_slop: 0,
            tie_breaker: None,
            kind: MultiMatchType::BestFields,
            time_zone: None,
            max_determinized_states: 10_000,
            rewrite: None,
            split_on_whitespace: false,
            phrases_of_words: false,
            flags: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct NestedQuery {
    pub path: String,
    pub query: Box<Query>,
    pub score_mode: ScoreMode,
    pub ignore_unmapped: bool,
    pub inner_hits: Option<Box<InnerHits>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HasChildQuery {
    pub child_type: String,
    pub query: Box<Query>,
    pub score_mode: ScoreMode,
    pub min_children: u32,
    pub max_children: Option<u32>,
    pub ignore_unmapped: bool,
    pub inner_hits: Option<Box<InnerHits>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HasParentQuery {
    pub parent_type: String,
    pub query: Box<Query>,
    pub score: bool,
    pub ignore_unmapped: bool,
    pub inner_hits: Option<Box<InnerHits>>,
}

/// The clause `join` (docs/relations.md).
#[derive(Clone, Debug, PartialEq)]
pub struct JoinQuery {
    pub index: Vec<String>,
    /// Our field and theirs.
    pub on: (String, String),
    pub query: Box<Query>,
    pub kind: JoinKind,
    pub score_mode: ScoreMode,
    pub inner_hits: Option<Box<InnerHits>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum JoinKind {
    #[default]
    Semi,
    Anti,
    Left,
}

/// Documents whose `field` has one of `keys`; they score by the documents that the keys are of.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySet {
    pub field: String,
    pub keys: Keys,
    pub score_mode: ScoreMode,
}

/// The keys of a join, in a form that only the engine reads that made them.
#[derive(Clone)]
pub struct Keys(pub std::sync::Arc<dyn std::any::Any + Send + Sync>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The one list of what stands inside a clause, for readers and for those who change it.
macro_rules! each_child {
    ($clause:expr, $f:ident, $iter:ident, $as:ident) => {{
        match $clause {
            Clause::Bool(b) => {
                for q in b.must.$iter() {
                    $f(q)?;
                }
                for q in b.should.$iter() {
                    $f(q)?;
                }
                for q in b.filter.$iter() {
                    $f(q)?;
                }
                for q in b.must_not.$iter() {
                    $f(q)?;
                }
            }
            Clause::Boosting { positive, negative, .. } => {
                $f(positive)?;
                $f(negative)?;
            }
            Clause::ConstantScore { filter } => $f(filter)?,
            Clause::DisMax { queries, .. } => {
                for q in queries.$iter() {
                    $f(q)?;
                }
            }
            Clause::FunctionScore(fs) => {
                $f(fs.query.$as())?;
                for function in fs.functions.$iter() {
                    if let Some(q) = function.filter.$as() {
                        $f(q)?;
                    }
                }
            }
            Clause::ScriptScore { query, .. } => $f(query)?,
            Clause::Nested(n) => $f(n.query.$as())?,
            Clause::HasChild(h) => $f(h.query.$as())?,
            Clause::HasParent(h) => $f(h.query.$as())?,
            Clause::Join(j) => $f(j.query.$as())?,
            Clause::TermsLookup(t) => {
                if let Some(q) = t.query.$as() {
                    $f(q)?;
                }
            }
            _ => {}
        }
        Ok(())
    }};
}

impl Query {
    /// A match_all of score 1.
    pub fn all() -> Query {
        Clause::MatchAll.into()
    }
    /// The same tree with `f` applied to every clause, children first.
    ///
    /// # Errors
    /// What `f` answers.
    pub fn rewrite(mut self, f: &mut dyn FnMut(Query) -> model::Result<Query>) -> model::Result<Query> {
        self.children_mut(&mut |child| {
            let taken = std::mem::replace(child, Query::all());
            *child = taken.rewrite(f)?;
            Ok(())
        })?;
        f(self)
    }
    /// Calls `f` with every direct child.
    ///
    /// # Errors
    /// What `f` answers.
    pub fn children_mut(&mut self, f: &mut dyn FnMut(&mut Query) -> model::Result<()>) -> model::Result<()> {
        each_child!(&mut self.clause, f, iter_mut, as_mut)
    }
    /// Calls `f` with every direct child.
    ///
    /// # Errors
    /// What `f` answers.
    pub fn children<'q>(&'q self, f: &mut dyn FnMut(&'q Query) -> model::Result<()>) -> model::Result<()> {
        each_child!(&self.clause, f, iter, as_ref)
    }
    /// Calls `f` with this clause and every one below it.
    pub fn visit<'q>(&'q self, f: &mut dyn FnMut(&'q Query)) {
        f(self);
        // Nothing fails here.
        let _ = self.children(&mut |child| {
            child.visit(f);
            Ok(())
        });
    }
    /// The `inner_hits` of this clause itself, with the name that they have in the answer.
    pub fn inner_hits(&self) -> Option<(String, &InnerHits)> {
        let (usual, spec) = match &self.clause {
            Clause::Nested(q) => (q.path.clone(), &q.inner_hits),
            Clause::HasChild(q) => (q.child_type.clone(), &q.inner_hits),
            Clause::HasParent(q) => (q.parent_type.clone(), &q.inner_hits),
            Clause::Join(q) => (q.index.join(","), &q.inner_hits),
            _ => return None,
        };
        let spec = spec.as_deref()?;
        Some((spec.name.clone().unwrap_or(usual), spec))
    }
    /// The same to be changed.
    pub fn inner_hits_mut(&mut self) -> Option<&mut InnerHits> {
        match &mut self.clause {
            Clause::Nested(q) => q.inner_hits.as_deref_mut(),
            Clause::HasChild(q) => q.inner_hits.as_deref_mut(),
            Clause::HasParent(q) => q.inner_hits.as_deref_mut(),
            Clause::Join(q) => q.inner_hits.as_deref_mut(),
            _ => None,
        }
    }
}

/// A named value bag, as scripts and metadata carry it.
pub type Params = Map<String, Value>;

/// A query as its JSON.
fn query_of(query: &Query) -> Value {
    query.render()
}

/// A parsing error at the place of another one.
fn placed_as(at: &model::Error, sentence: String) -> model::Error {
    let mut error = model::Error::new(model::ErrorKind::Parsing, sentence);
    for (name, value) in at.details() {
        error = error.with(name, value.clone());
    }
    error
}
