//! `distance_feature`: the nearer a date or place, the higher the score.

use super::{Clause, Parsing, Query};
use crate::json::Node;
use model::Result;
use serde_json::{Map, Value};

/// The clause.
#[derive(Clone, Debug, PartialEq)]
pub struct DistanceFeatureQuery {
    pub field: String,
    /// From where.
    pub origin: Value,
    /// At this distance the score is half of the boost.
    pub pivot: String,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx.options(node, "distance_feature")?;
    let field = fields.require("field")?.string("field")?;
    let origin = fields.require("origin")?.into_value();
    let pivot = fields.require("pivot")?.string("pivot")?;
    let clause = Clause::DistanceFeature(DistanceFeatureQuery { field, origin, pivot });
    cx.finish(fields, "distance_feature", clause)
}

pub(super) fn render(q: &DistanceFeatureQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("field".into(), q.field.clone().into());
    body.insert("origin".into(), q.origin.clone());
    body.insert("pivot".into(), q.pivot.clone().into());
    body
}
