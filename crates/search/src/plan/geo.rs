//! Places and nearness: `geo_distance`, `geo_bounding_box`, `geo_polygon`, `distance_feature`; and `terms_set`.

use super::Planner;
use super::boolean::Shared;
use super::columns::Column;
use super::combine::{Sum, or, rescored, seek_to};
use super::explain::Explained;
use super::field::{Target, query_shard, text_of};
use super::geo_distance::{self, Far};
use super::live_docs::Level;
use super::node::{Node, score_at};
use super::scripts::{Failure, Script};
use super::term::FilterNode;
use dsl::query::{DistanceFeatureQuery, GeoArea, GeoQuery, GeoValidation, TermsSetQuery};
use mapping::{FieldType, Kind};
use model::{Error, Result};
use segment::schema::Slot;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::Scorer;

/// A field that outlives its view's borrow.
#[derive(Clone)]
struct Owned {
    path: String,
    kind: FieldType,
    slot: Slot,
}

impl Owned {
    fn of(target: &Target<'_>) -> Owned {
        Owned {
            path: target.path.to_owned(),
            kind: target.kind.clone(),
            slot: target.slot.clone(),
        }
    }
    fn open(&self, segment: &SegmentView) -> Result<Option<Column>> {
        Column::open(
            segment,
            &Target {
                path: &self.path,
                kind: &self.kind,
                slot: &self.slot,
            },
        )
    }
}

/// An area as documents are held against it.
#[derive(Clone)]
enum Area {
    Asked(GeoArea),
    /// Southern, northern, western and eastern end of a cell.
    Cell(f64, f64, f64, f64),
}

/// Whether a place is in an area.
fn inside(area: &Area, at: (f64, f64), far: Far) -> bool {
    let area = match area {
        Area::Asked(area) => area,
        Area::Cell(south, north, west, east) => {
            // The map goes on at its edge.
            let (lat, lon) = at;
            let along = [lon, lon - 360.0, lon + 360.0];
            return *south <= lat && lat < *north && along.iter().any(|lon| west <= lon && lon < east);
        }
    };
    match area {
        GeoArea::Distance { from, metres } => far(*from, at) <= *metres,
        GeoArea::Box {
            top,
            left,
            bottom,
            right,
        } => {
            let (lat, lon) = at;
            let east = if left <= right {
                *left <= lon && lon <= *right
            } else {
                lon >= *left || lon <= *right
            };
            *bottom <= lat && lat <= *top && east
        }
        GeoArea::Ring { from, least, most } => {
            let far = far(*from, at);
            least.is_none_or(|b| far > b.metres || b.included && far == b.metres)
                && most.is_none_or(|b| far < b.metres || b.included && far == b.metres)
        }
        // Worked out before the first document.
        GeoArea::Cell { .. } => false,
        GeoArea::Polygon(ring) => {
            let mut odd = false;
            for pair in ring.windows(2) {
                let ((a, x), (b, y)) = (pair[0], pair[1]);
                if (a > at.0) != (b > at.0) && at.1 < (y - x) * (at.0 - a) / (b - a) + x {
                    odd = !odd;
                }
            }
            odd
        }
    }
}

impl Planner<'_> {
    pub(super) fn geo(&self, q: &GeoQuery, boost: f32) -> Result<Shared> {
        let Some(target) = Target::of(self.view, &q.field) else {
            if q.ignore_unmapped {
                return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
            }
            return Err(query_shard(self.view, format!("failed to find geo field [{}]", q.field)));
        };
        if target.kind.kind != Kind::GeoPoint {
            return Err(query_shard(
                self.view,
                format!("field [{}] is of unsupported type [{}]", q.field, target.kind.wire()),
            ));
        }
        let mut area = q.area.clone();
        // Stored places lie on a grid; ends that lie on it too must still hold them.
        if let GeoArea::Box {
            top,
            left,
            bottom,
            right,
        } = &mut area
        {
            (*bottom, *left) = segment::grid::below((*bottom, *left));
            let _ = (&top, &right);
        }
        debug_assert!(q.validation != GeoValidation::Strict || !matches!(area, GeoArea::Polygon(ref r) if r.is_empty()));
        let area = match area {
            GeoArea::Cell { hash, neighbors } => {
                let (south, north, west, east) = GeoArea::cell(&hash, neighbors)?;
                Area::Cell(south, north, west, east)
            }
            area => Area::Asked(area),
        };
        let field = Owned::of(&target);
        let level = self.level();
        let far = geo_distance::far(true, self.view.typed);
        Ok(Arc::new(FilterNode {
            boost,
            what: format!("places of {}", q.field),
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let Some(Column::Geo(lat, lon)) = field.open(segment)? else {
                    return Ok(Box::new(super::node::NoScorer));
                };
                let area = area.clone();
                let set = level.restrict(segment, super::every(segment))?;
                Ok(rescored(set, move |doc, _| {
                    let mut places = lat.values_for_doc(doc).zip(lon.values_for_doc(doc));
                    places.any(|at| inside(&area, at, far)).then_some(1.0)
                }))
            },
        }))
    }

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

    pub(super) fn terms_set(&self, q: &TermsSetQuery, boost: f32) -> Result<Shared> {
        if q.terms.is_empty() {
            return Ok(self.nothing("No terms supplied for \"terms_set\" query."));
        }
        self.count_clauses(q.terms.len())?;
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let least = match (&q.minimum_field, &q.minimum_script) {
            (None, None) => {
                return Err(query_shard(
                    self.view,
                    "failed to create query: No minimum should match has been specified",
                ));
            }
            (Some(field), _) => match Target::of(self.view, field) {
                Some(target) if target.kind.kind.is_numeric() => Some(Least::Field(Box::new(Owned::of(&target)))),
                Some(target) => {
                    return Err(query_shard(
                        self.view,
                        format!(
                            "failed to create query: [{field}] of type [{}] cannot say how many terms must match",
                            target.kind.wire()
                        ),
                    ));
                }
                None => None,
            },
            (None, Some(source)) => {
                let mut source = source.clone();
                source.params.insert("num_terms".into(), q.terms.len().into());
                Some(Least::Script(Script::new(self.view, &source, self.cx)?))
            }
        };
        let Some(least) = least else {
            return Err(query_shard(
                self.view,
                format!(
                    "failed to find minimum_should_match field [{}]",
                    q.minimum_field.as_deref().unwrap_or_default()
                ),
            ));
        };
        let mut nodes = Vec::new();
        for value in &q.terms {
            nodes.push(self.term_value(&target, value, boost)?);
        }
        Ok(Arc::new(CoveringNode {
            nodes,
            least,
            failure: self.failure(),
            level: self.level(),
        }))
    }
}

/// Documents by how near they are.
struct NearNode {
    field: Owned,
    origin: (f64, f64),
    pivot: f64,
    boost: f32,
    level: Level,
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
            return Ok(Box::new(super::node::NoScorer));
        };
        let (origin, pivot, boost) = (self.origin, self.pivot, f64::from(self.boost));
        let mut buffer = Vec::new();
        let set = self.level.restrict(segment, super::every(segment))?;
        Ok(rescored(set, move |doc, _| {
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
                "Document {doc} doesn't have a value for field {}",
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

/// How many terms a document must have.
enum Least {
    Field(Box<Owned>),
    Script(Script),
}

/// `terms_set`.
struct CoveringNode {
    nodes: Vec<Shared>,
    least: Least,
    failure: Failure,
    level: Level,
}

impl Node for CoveringNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut any = Vec::new();
        let mut each = Vec::new();
        for node in &self.nodes {
            any.push(node.scorer(segment)?);
            each.push(node.scorer(segment)?);
        }
        let set = self.level.restrict(segment, or(any, 1, Sum::Sum))?;
        let failure = self.failure.clone();
        let mut wanted: Box<dyn FnMut(DocId) -> Result<Option<f64>> + Send> = match &self.least {
            Least::Field(field) => {
                let column = field.open(segment)?;
                let mut buffer = Vec::new();
                Box::new(move |doc| {
                    let Some(column) = &column else { return Ok(None) };
                    column.numbers(doc, &mut buffer);
                    Ok(buffer.iter().copied().reduce(f64::min))
                })
            }
            Least::Script(script) => {
                let bound = script.open(segment)?;
                Box::new(move |doc| bound.number(doc, 0.0).map(Some))
            }
        };
        Ok(rescored(set, move |doc, _| {
            let least = failure.tried(|| wanted(doc))?.trunc().max(1.0);
            let (mut found, mut sum) = (0u32, 0f64);
            for set in &mut each {
                if seek_to(set.as_mut(), doc) == doc {
                    found += 1;
                    sum += f64::from(set.score());
                }
            }
            (f64::from(found) >= least).then_some(sum as f32)
        }))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let Some(score) = score_at(self.scorer(segment)?, doc) else {
            return Ok(Explained::no_match("too few matching terms"));
        };
        let mut details = Vec::new();
        for node in &self.nodes {
            let one = node.explain(segment, doc)?;
            if one.matched {
                details.push(one);
            }
        }
        Ok(Explained::new(score, "sum of:").of(details))
    }
}
