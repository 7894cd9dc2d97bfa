//! `distance_feature`: documents by their nearness to a place or a moment.

use super::explain::Explained;
use super::live_docs::LiveLevel;
use super::node::Node;
use super::rescored::rescore;
use crate::fields::column::Column;
use crate::fields::geo_distance;
use crate::fields::target::Owned;
use model::Result;
use segment::segment_view::SegmentView;
use tantivy::DocId;
use tantivy::query::Scorer;

/// Documents by how near they are.
pub(crate) struct NearNode {
    pub(crate) field: Owned,
    pub(crate) origin: (f64, f64),
    pub(crate) pivot: f64,
    pub(crate) boost: f32,
    pub(crate) level: LiveLevel,
}

impl NearNode {
    fn distance(column: &Column, origin: (f64, f64), doc: DocId, buffer: &mut Vec<f64>) -> Option<f64> {
        match column {
            Column::Geo(lat, lon) => lat
                .values_for_doc(doc)
                .zip(lon.values_for_doc(doc))
                .map(|at| geo_distance::arc(origin, at))
                .reduce(f64::min),
            column => {
                column.numbers(doc, buffer);
                buffer.iter().map(|v| (v - origin.0).abs()).reduce(f64::min)
            }
        }
    }
}

impl Node for NearNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let Some(column) = self.field.open(segment)? else {
            return Ok(Box::new(crate::scorers::constant::NoScorer));
        };
        let (origin, pivot, boost) = (self.origin, self.pivot, f64::from(self.boost));
        let mut buffer = Vec::new();
        let set = self.level.restrict(segment, crate::scorers::constant::every(segment))?;
        Ok(rescore(set, move |doc, _| {
            let distance = NearNode::distance(&column, origin, doc, &mut buffer)?;
            Some((boost * (pivot / (pivot + distance))) as f32)
        }))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let column = self.field.open(segment)?;
        let found = column
            .as_ref()
            .and_then(|column| NearNode::distance(column, self.origin, doc, &mut Vec::new()));
        let (Some(distance), Some(column)) = (found, column) else {
            return Ok(Explained::no_match(format!(
                "Document {} doesn't have a value for field {}",
                segment.shown_number(doc),
                self.field.path
            )));
        };
        let value = f64::from(self.boost) * (self.pivot / (self.pivot + distance));
        let weight = Explained::new(self.boost, "weight");
        if let Column::Geo(..) = column {
            let what = "Distance score, computed as weight * pivotDistance / (pivotDistance + distance) from:";
            return Ok(Explained::new(value as f32, what).of(vec![
                weight,
                Explained::new(self.pivot as f32, "pivotDistance"),
                Explained::new(distance as f32, "distance"),
            ]));
        }
        // Moments are whole numbers that a float cannot hold.
        let mut moments = Vec::new();
        column.numbers(doc, &mut moments);
        let nearest = moments
            .into_iter()
            .min_by(|a, b| (a - self.origin.0).abs().total_cmp(&(b - self.origin.0).abs()));
        let what = "Distance score, computed as weight * pivotDistance / (pivotDistance + abs(value - origin)) from:";
        Ok(Explained::new(value as f32, what).of(vec![
            weight,
            Explained::whole(self.pivot as i64, "pivotDistance"),
            Explained::whole(self.origin.0 as i64, "origin"),
            Explained::whole(nearest.unwrap_or(self.origin.0) as i64, "current value"),
        ]))
    }
}
