//! From a clause to JSON: the inverse of parsing.

use super::{Clause, InnerHits, Query, ScoreMode, bool_query, function_score, fuzzy, ids, join, match_phrase, match_query};
use super::{distance_feature, geo, intervals, more_like_this, span, terms_set};
use super::{multi_match, pattern, query_string, range, term, terms};
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
            Clause::Prefix(q) => return self.of_field("prefix", &q.field, pattern::render(q)),
            Clause::Wildcard(q) => return self.of_field("wildcard", &q.field, pattern::render(q)),
            Clause::Regexp(q) => return self.of_field("regexp", &q.field, pattern::render(q)),
            Clause::Fuzzy(q) => return self.of_field("fuzzy", &q.field, fuzzy::render(q)),
            Clause::Ids { values, types } => ("ids", ids::render(values, types)),
            Clause::Type { value } => ("type", object(json!({"value": value}))),
            Clause::Match(q) if let Some(high) = &q.high_frequency => {
                return self.of_field("common", &q.field, super::common_terms::render(q, high));
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
            } => {
                let body = json!({"positive": positive.render(), "negative": negative.render(), "negative_boost": number(*negative_boost)});
                ("boosting", object(body))
            }
            Clause::ConstantScore { filter } => ("constant_score", object(json!({"filter": filter.render()}))),
            Clause::DisMax { queries, tie_breaker } => {
                let mut body = Map::new();
                body.insert("queries".into(), queries.iter().map(Query::render).collect());
                if *tie_breaker != 0.0 {
                    body.insert("tie_breaker".into(), number(*tie_breaker));
                }
                ("dis_max", body)
            }
            Clause::FunctionScore(q) => ("function_score", function_score::render(q)),
            Clause::ScriptScore {
                query,
                script,
                min_score,
            } => {
                let mut body = object(json!({"query": query.render(), "script": script.render()}));
                if let Some(min_score) = min_score {
                    body.insert("min_score".into(), number(*min_score));
                }
                ("script_score", body)
            }
            Clause::Script { script } => ("script", object(json!({"script": script.render()}))),
            Clause::QueryString(q) => ("query_string", query_string::render(q)),
            Clause::SimpleQueryString(q) => ("simple_query_string", query_string::render(q)),
            Clause::Span(q) => span::render(q),
            Clause::Intervals { field, rule } => return self.of_field("intervals", field, intervals::render(rule)),
            Clause::TermsSet(q) => return self.of_field("terms_set", &q.field, terms_set::render(q)),
            Clause::Geo(q) => geo::render(q),
            Clause::MoreLikeThis(q) => ("more_like_this", more_like_this::render(q)),
            Clause::DistanceFeature(q) => ("distance_feature", distance_feature::render(q)),
            Clause::Nested(q) => {
                let mut body = object(json!({"path": q.path, "query": q.query.render()}));
                if q.score_mode != ScoreMode::Avg {
                    body.insert("score_mode".into(), q.score_mode.word().into());
                }
                add_common(&mut body, q.ignore_unmapped, q.inner_hits.as_deref());
                ("nested", body)
            }
            Clause::HasChild(q) => {
                let mut body = object(json!({"type": q.child_type, "query": q.query.render()}));
                if q.score_mode != ScoreMode::None {
                    body.insert("score_mode".into(), q.score_mode.word().into());
                }
                if q.min_children != 1 {
                    body.insert("min_children".into(), q.min_children.into());
                }
                if let Some(max) = q.max_children {
                    body.insert("max_children".into(), max.into());
                }
                add_common(&mut body, q.ignore_unmapped, q.inner_hits.as_deref());
                ("has_child", body)
            }
            Clause::HasParent(q) => {
                let mut body = object(json!({"parent_type": q.parent_type, "query": q.query.render()}));
                if q.score {
                    body.insert("score".into(), true.into());
                }
                add_common(&mut body, q.ignore_unmapped, q.inner_hits.as_deref());
                ("has_parent", body)
            }
            Clause::ParentId {
                child_type,
                id,
                ignore_unmapped,
            } => {
                let mut body = object(json!({"type": child_type, "id": id}));
                add_common(&mut body, *ignore_unmapped, None);
                ("parent_id", body)
            }
            Clause::Join(q) => {
                let mut body = join::render(q);
                add_common(&mut body, false, q.inner_hits.as_deref());
                ("join", body)
            }
            // Never part of a request: it is told for logs and explanations.
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

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn add_common(body: &mut Map<String, Value>, ignore_unmapped: bool, hits: Option<&InnerHits>) {
    if ignore_unmapped {
        body.insert("ignore_unmapped".into(), true.into());
    }
    if let Some(hits) = hits {
        body.insert("inner_hits".into(), hits.render());
    }
}
