//! `distance_feature`: origin and pivot of a place or a moment.

use super::Planner;
use crate::fields::target::{Owned, Target, text_of};
use crate::scorers::distance_feature::NearNode;
use crate::scorers::node::Shared;
use dsl::query::DistanceFeatureQuery;
use mapping::Kind;
use model::{Error, Result};
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn distance_feature(&self, q: &DistanceFeatureQuery, boost: f32) -> Result<Shared> {
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!(
                "Can't run [distance_feature] query on unmapped fields! [{}]",
                q.field
            )));
        };
        let (origin, pivot) = match target.kind.kind {
            Kind::GeoPoint => {
                let node = dsl::json::Node::from_value(q.origin.clone());
                (dsl::query::parse_place(&node)?, dsl::query::metres(&q.pivot, "m")?)
            }
            kind if kind.is_date() => {
                // Rounded up, as the servers do: a day means its last moment.
                let at = match self.date(target.kind, &text_of(&q.origin), true, None, None)? {
                    mapping::FieldValue::Date(n) | mapping::FieldValue::DateNanos(n) => n as f64,
                    _ => 0.0,
                };
                let pivot = model::units::parse_duration(&q.pivot, "pivot")?;
                let unit = if kind == Kind::DateNanos { 1e9 } else { 1e3 };
                ((at, 0.0), pivot.as_secs_f64() * unit)
            }
            _ => {
                return Err(Error::illegal(format!(
                    "Illegal data type of [{}]![distance_feature] query can only be run on a date, date_nanos or geo_point field type!",
                    target.kind.wire()
                )));
            }
        };
        if pivot <= 0.0 {
            return Err(Error::illegal("pivot must be > 0"));
        }
        Ok(Arc::new(NearNode {
            field: Owned::of(&target),
            origin,
            pivot,
            boost,
            level: self.level(),
        }))
    }
}
