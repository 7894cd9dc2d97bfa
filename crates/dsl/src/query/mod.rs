//! Query clauses as values.

use script_source::ScriptSource;
use serde_json::{Map, Value};

pub use hits::InnerHits;

mod bool_query;
mod boosting;
mod children;
mod clauses;
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
pub mod hits;
mod ids;
mod intervals;
mod join;
mod keys;
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
mod score_function;
mod script;
pub mod script_source;
mod simple_query_string;
mod slice;
mod span;
mod term;
mod terms;
mod terms_set;
#[cfg(test)]
mod tests;
mod typed;
mod words;
mod wrapper;

pub use bool_query::BoolQuery;
pub use distance_feature::DistanceFeatureQuery;
pub use fuzzy::{Fuzziness, FuzzyQuery};
pub use geo::{Bound, GeoArea, GeoPlace, GeoQuery, GeoValidation, bounding_box, metres, parse_place};
pub use has_child::HasChildQuery;
pub use has_parent::HasParentQuery;
pub use intervals::{IntervalFilter, IntervalMode, IntervalRelation, IntervalRule, IntervalShape, IntervalSource};
pub use join::{JoinKind, JoinQuery};
pub use keys::{JoinValues, KeySet, Keys};
pub use match_phrase::MatchPhraseQuery;
pub use match_query::{HighFrequency, MatchQuery, Operator, ZeroTerms};
pub use more_like_this::{Like, MoreLikeThisQuery};
pub use multi_match::{MultiMatchQuery, MultiMatchType};
pub use nested::NestedQuery;
pub use parse::{Parsing, is_clause, parse_filter_bytes, parse_query_bytes, too_many_clauses, too_many_filters};
pub use pattern::PatternQuery;
pub use place::Place;
pub use query_string::QueryStringQuery;
pub use range::RangeQuery;
pub use rewrite::Rewrite;
pub use score_function::{
    BoostMode, DecayKind, Function, FunctionScoreQuery, Modifier, MultiValueMode, ScoreFunction, ScoreMode,
};
pub use slice::Slice;
pub use span::SpanQuery;
pub use term::TermQuery;
pub use terms::{TermsLookup, TermsQuery};
pub use terms_set::TermsSetQuery;

/// One clause with what every clause may carry.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The condition.
    pub clause: Clause,
    /// Multiplies the score; 1.0 by default.
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
    /// `missing` of 2015 with `null_value`: the value that stands for null in a field, or with `existence` no value. Without `existence` it
    /// restricts nothing where the field has no such value.
    NullValue {
        field: String,
        existence: bool,
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
    /// Documents whose field equals a field of other documents (docs/relations.md).
    Join(JoinQuery),
    /// Made by `relations` only: the keys of a join, a lookup.
    KeySet(KeySet),
    /// Made from the `slice` of a search: one of several parts of the documents.
    Slice(Slice),
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

/// A named value bag, as scripts and metadata carry it.
pub type Params = Map<String, Value>;

/// A query as its JSON.
fn query_of(query: &Query) -> Value {
    query.render()
}

/// A parsing error at the place of another one.
fn parsing_error_at(at: &model::Error, sentence: String) -> model::Error {
    let mut error = model::Error::new(model::ErrorKind::Parsing, sentence);
    for (name, value) in at.details() {
        error = error.with(name, value.clone());
    }
    error
}
