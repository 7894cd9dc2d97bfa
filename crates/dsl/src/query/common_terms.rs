//! `common`: text whose frequent words only add to the score of what has the rare ones.

use super::{Clause, HighFrequency, MatchQuery, Parsing, Query, words};
use crate::json::Node;
use model::Result;
use serde_json::{Map, Value};

/// Words in more documents than this share of them are frequent.
const CUTOFF: f32 = 0.01;

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, "common")?;
    let at = (body.line, body.col);
    let mut q = MatchQuery::new(field, Value::Null);
    q.cutoff_frequency = Some(CUTOFF);
    let mut high = HighFrequency::default();
    if !body.is_object() {
        q.query = body.into_value();
        q.high_frequency = Some(high);
        return cx.finish(beside, "common", Clause::Match(q));
    }
    let mut fields = cx.options(body, "common")?.with_missing(beside);
    q.query = fields.take_value("query").unwrap_or(Value::Null);
    q.analyzer = fields.take_string("analyzer")?;
    fields.take_bool("disable_coord")?;
    if let Some(cutoff) = fields.take_f32("cutoff_frequency")? {
        q.cutoff_frequency = Some(cutoff);
    }
    if let Some(node) = fields.take("low_freq_operator") {
        q.operator = words::operator(&node, "low_freq_operator")?;
    }
    if let Some(node) = fields.take("high_freq_operator") {
        high.operator = words::operator(&node, "high_freq_operator")?;
    }
    if let Some(node) = fields.take("minimum_should_match") {
        if node.is_object() {
            let mut each = node.fields("common")?.of_query().strict();
            q.minimum_should_match = each.take("low_freq").map(|n| words::minimum(&n)).transpose()?.flatten();
            high.minimum_should_match = each.take("high_freq").map(|n| words::minimum(&n)).transpose()?.flatten();
            each.finish()?;
        } else {
            q.minimum_should_match = words::minimum(&node)?;
        }
    }
    q.high_frequency = Some(high);
    let missing = q.query.is_null();
    let query = cx.finish(fields, "common", Clause::Match(q))?;
    if missing {
        let said = "No text specified for text query";
        return Err(cx.lacks(at, said, said));
    }
    Ok(query)
}

/// The body of a `match` that was a `common`.
pub(super) fn render(q: &MatchQuery, high: &HighFrequency) -> Map<String, Value> {
    let mut inside = Map::new();
    inside.insert("query".into(), q.query.clone());
    if let Some(analyzer) = &q.analyzer {
        inside.insert("analyzer".into(), analyzer.as_str().into());
    }
    inside.insert("low_freq_operator".into(), q.operator.word().into());
    inside.insert("high_freq_operator".into(), high.operator.word().into());
    if let Some(cutoff) = q.cutoff_frequency {
        inside.insert("cutoff_frequency".into(), super::render::number(cutoff));
    }
    let least = [
        ("low_freq", &q.minimum_should_match),
        ("high_freq", &high.minimum_should_match),
    ];
    let least: Map<String, Value> = least
        .into_iter()
        .filter_map(|(name, spec)| Some((name.to_owned(), spec.clone()?.into())))
        .collect();
    if !least.is_empty() {
        inside.insert("minimum_should_match".into(), least.into());
    }
    inside
}
