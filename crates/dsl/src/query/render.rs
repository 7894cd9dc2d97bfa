//! From a clause to JSON: the inverse of parsing.

use super::{
    Clause, InnerHits, Query, bool_query, boosting, common_terms, dis_max, distance_feature, function_score, fuzzy, geo,
    has_child, has_parent, ids, intervals, join, match_phrase, match_query, more_like_this, multi_match, nested, pattern,
    query_string, range, script, span, term, terms, terms_set,
};
use serde_json::{Map, Number, Value, json};

/// A float in its shortest form.
pub(super) fn number(n: f32) -> Value {
    let double: f64 = n.to_string().parse().unwrap_or(0.0);
    // A whole number stays one: 2, not 2.0.
    #[allow(clippy::cast_possible_truncation, reason = "whole and small")]
    if double.fract() == 0.0 && double.abs() < 1e9 {
        return (double as i64).into();
    }
    Number::from_f64(double).map_or(Value::Null, Value::Number)
}

impl Query {
    /// The JSON that a request would have.
    pub fn render(&self) -> Value {
        let (name, mut body) = match &self.clause {
            Clause::MatchAll => ("match_all", Map::new()),
            Clause::MatchNone => ("match_none", Map::new()),
            Clause::Term(q) => return self.of_field("term", &q.field, term::render(q)),
            Clause::Terms(q) => ("terms", terms::render(q)),
            Clause::TermsLookup(q) => ("terms", terms::render_lookup(q)),
            Clause::Range(q) => return self.of_field("range", &q.field, range::render(q)),
            Clause::Exists { field } => ("exists", object(json!({"field": field}))),
            Clause::NullValue { field, existence } => {
                let body = json!({ "field": field, "existence": existence, "null_value": true });
                ("missing", object(body))
            }
            Clause::Prefix(q) => return self.of_field("prefix", &q.field, pattern::render(q)),
            Clause::Wildcard(q) => return self.of_field("wildcard", &q.field, pattern::render(q)),
            Clause::Regexp(q) => return self.of_field("regexp", &q.field, pattern::render(q)),
            Clause::Fuzzy(q) => return self.of_field("fuzzy", &q.field, fuzzy::render(q)),
            Clause::Ids { values, types } => ("ids", ids::render(values, types)),
            Clause::Type { value } => ("type", object(json!({"value": value}))),
            Clause::Match(q) if let Some(high) = &q.high_frequency => {
                return self.of_field("common", &q.field, common_terms::render(q, high));
            }
            Clause::Match(q) => return self.of_field("match", &q.field, match_query::render(q)),
            Clause::MatchBoolPrefix(q) => {
                return self.of_field("match_bool_prefix", &q.field, match_query::render(q));
            }
            Clause::MatchPhrase(q) => {
                return self.of_field("match_phrase", &q.field, match_phrase::render(q));
            }
            Clause::MatchPhrasePrefix(q) => {
                return self.of_field("match_phrase_prefix", &q.field, match_phrase::render(q));
            }
            Clause::MultiMatch(q) => ("multi_match", multi_match::render(q)),
            Clause::Bool(q) => ("bool", bool_query::render(q)),
            Clause::Boosting {
                positive,
                negative,
                negative_boost,
            } => ("boosting", boosting::render(positive, negative, *negative_boost)),
            Clause::ConstantScore { filter } => ("constant_score", object(json!({"filter": filter.render()}))),
            Clause::DisMax { queries, tie_breaker } => ("dis_max", dis_max::render(queries, *tie_breaker)),
            Clause::FunctionScore(q) => ("function_score", function_score::render(q)),
            Clause::ScriptScore {
                query,
                script,
                min_score,
            } => ("script_score", script::render_score(query, script, *min_score)),
            Clause::Script { script } => ("script", object(json!({"script": script.render()}))),
            Clause::QueryString(q) => ("query_string", query_string::render(q)),
            Clause::SimpleQueryString(q) => ("simple_query_string", query_string::render(q)),
            Clause::Span(q) => span::render(q),
            Clause::Intervals { field, rule } => return self.of_field("intervals", field, intervals::render(rule)),
            Clause::TermsSet(q) => return self.of_field("terms_set", &q.field, terms_set::render(q)),
            Clause::Geo(q) => geo::render(q),
            Clause::MoreLikeThis(q) => ("more_like_this", more_like_this::render(q)),
            Clause::DistanceFeature(q) => ("distance_feature", distance_feature::render(q)),
            Clause::Nested(q) => ("nested", nested::render(q)),
            Clause::HasChild(q) => ("has_child", has_child::render(q)),
            Clause::HasParent(q) => ("has_parent", has_parent::render(q)),
            Clause::ParentId {
                child_type,
                id,
                ignore_unmapped,
            } => ("parent_id", has_child::render_parent_id(child_type, id, *ignore_unmapped)),
            Clause::Join(q) => ("join", join::render(q)),
            // Never part of a request: logs and explanations show it.
            Clause::KeySet(q) => ("terms", object(json!({ q.field.as_str(): "the keys of a join" }))),
            Clause::Slice(slice) => ("slice", object(slice.render())),
            Clause::Routed { routings } => ("routed", object(json!({ "routings": routings }))),
            Clause::Opaque { name, body } => return json!({ name.as_str(): body }),
        };
        self.add_boost(&mut body);
        json!({ name: body })
    }

    fn of_field(&self, name: &str, field: &str, mut body: Map<String, Value>) -> Value {
        self.add_boost(&mut body);
        json!({ name: { field: body } })
    }

    fn add_boost(&self, body: &mut Map<String, Value>) {
        #[allow(clippy::float_cmp, reason = "the exact default")]
        if self.boost != 1.0 {
            body.insert("boost".into(), number(self.boost));
        }
        if let Some(name) = &self.name {
            body.insert("_name".into(), name.clone().into());
        }
    }
}

/// The members of an object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Adds the options of clauses about related documents.
pub(super) fn add_related(body: &mut Map<String, Value>, ignore_unmapped: bool, hits: Option<&InnerHits>) {
    if ignore_unmapped {
        body.insert("ignore_unmapped".into(), true.into());
    }
    if let Some(hits) = hits {
        body.insert("inner_hits".into(), hits.render());
    }
}
