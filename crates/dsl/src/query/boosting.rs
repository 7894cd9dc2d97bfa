//! `boosting`: less score for what is unwanted.

use super::{Clause, Parsing, Query, render::number, render::object};
use crate::json::Node;
use model::Result;
use serde_json::{Map, Value, json};

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let no_positive = node.error("[boosting] query requires 'positive' query to be set'");
    let no_negative = node.error("[boosting] query requires 'negative' query to be set'");
    let no_boost = node.error("[boosting] query requires 'negative_boost' to be set to be a positive value'");
    let mut fields = cx.options(node, "boosting")?;
    let positive = fields.take("positive").map(|n| cx.inner(n)).transpose()?.map(Box::new);
    let negative = fields.take("negative").map(|n| cx.inner(n)).transpose()?.map(Box::new);
    let negative_boost = fields.take_f32("negative_boost")?.unwrap_or(-1.0);
    let query = cx.common(&mut fields, "boosting", Clause::MatchAll)?;
    fields.finish()?;
    let positive = positive.ok_or(no_positive)?;
    let negative = negative.ok_or(no_negative)?;
    if negative_boost < 0.0 {
        return Err(no_boost);
    }
    Ok(Query {
        clause: Clause::Boosting {
            positive,
            negative,
            negative_boost,
        },
        ..query
    })
}

pub(super) fn render(positive: &Query, negative: &Query, negative_boost: f32) -> Map<String, Value> {
    object(json!({
        "positive": positive.render(),
        "negative": negative.render(),
        "negative_boost": number(negative_boost),
    }))
}
