//! `geo_bounds` and `geo_centroid`: the box around places, and their middle.
//!
//! Places are told as precisely as Lucene keeps them: as whole steps of 32 bits.

use super::super::values::refuse_no_places;
use super::super::{AggregationContext, At, Collector, Finish};
use crate::fields::column::Column;
use crate::fields::target::Target;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use tantivy::DocId;

/// The places of documents.
struct Places {
    field: String,
    missing: Option<(f64, f64)>,
    column: Option<Column>,
}

impl Places {
    fn new(field: &str, missing: Option<(f64, f64)>, kind: &str, cx: &AggregationContext<'_>) -> Result<Places> {
        refuse_no_places(field, kind, cx)?;
        Ok(Places {
            field: field.to_owned(),
            missing,
            column: None,
        })
    }
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.column = Target::of(at.view, &self.field)
            .map(|target| Column::open(at.segment, &target))
            .transpose()?
            .flatten();
        Ok(())
    }
    fn each(&self, doc: DocId, mut f: impl FnMut(f64, f64)) {
        let mut any = false;
        if let Some(Column::Geo(lat, lon)) = &self.column {
            for (lat, lon) in lat.values_for_doc(doc).zip(lon.values_for_doc(doc)) {
                any = true;
                f(round_to_grid(lat, 180.0), round_to_grid(lon, 360.0));
            }
        }
        if let (false, Some((lat, lon))) = (any, self.missing) {
            f(round_to_grid(lat, 180.0), round_to_grid(lon, 360.0));
        }
    }
}

/// A coordinate as one of 2^32 steps of its circle.
fn round_to_grid(degrees: f64, circle: f64) -> f64 {
    let step = circle / 4_294_967_296.0;
    (degrees / step).floor().min(2_147_483_647.0) * step
}

fn place(lat: f64, lon: f64) -> Value {
    json!({ "lat": lat, "lon": lon })
}

/// Ends of latitudes, and of longitudes east and west of Greenwich.
#[derive(Clone, Copy)]
struct Ends {
    bottom: f64,
    top: f64,
    west: (f64, f64),
    east: (f64, f64),
}

const NO_ENDS: Ends = Ends {
    bottom: f64::INFINITY,
    top: f64::NEG_INFINITY,
    west: (f64::INFINITY, f64::NEG_INFINITY),
    east: (f64::INFINITY, f64::NEG_INFINITY),
};

impl Ends {
    fn add(&mut self, lat: f64, lon: f64) {
        self.bottom = self.bottom.min(lat);
        self.top = self.top.max(lat);
        let half = if lon >= 0.0 { &mut self.east } else { &mut self.west };
        half.0 = half.0.min(lon);
        half.1 = half.1.max(lon);
    }
    /// Left and right: across the antimeridian where that is narrower.
    fn sides(&self, wrap: bool) -> (f64, f64) {
        if self.east.0.is_infinite() {
            return self.west;
        }
        if self.west.0.is_infinite() {
            return self.east;
        }
        let across = (180.0 - self.east.0) - (-180.0 - self.west.1);
        if wrap && across < self.east.1 - self.west.0 {
            (self.east.0, self.west.1)
        } else {
            (self.west.0, self.east.1)
        }
    }
}

/// Collects boxes.
pub(in crate::aggs) struct Bounds {
    places: Places,
    wrap: bool,
    ends: Vec<Ends>,
}

impl Bounds {
    pub(in crate::aggs) fn new(
        field: &str,
        missing: Option<(f64, f64)>,
        wrap: bool,
        cx: &AggregationContext<'_>,
    ) -> Result<Bounds> {
        Ok(Bounds {
            places: Places::new(field, missing, "geo_bounds", cx)?,
            wrap,
            ends: Vec::new(),
        })
    }
}

impl Collector for Bounds {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.places.segment(at)
    }
    fn collect(&mut self, doc: DocId, _score: f32, bucket: u32) -> Result<()> {
        let at = bucket as usize;
        if at >= self.ends.len() {
            self.ends.resize(at + 1, NO_ENDS);
        }
        let ends = &mut self.ends[at];
        self.places.each(doc, |lat, lon| ends.add(lat, lon));
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        let mut out = Map::new();
        if let Some(ends) = self.ends.get(bucket as usize).filter(|ends| ends.top.is_finite()) {
            let (left, right) = ends.sides(self.wrap);
            let bounds = json!({ "top_left": place(ends.top, left), "bottom_right": place(ends.bottom, right) });
            out.insert("bounds".into(), bounds);
        }
        Ok(Value::Object(out))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_number("geo_bounds"))
    }
    fn wire_type(&self) -> &'static str {
        "geo_bounds"
    }
}

/// Collects means, with what rounding lost.
pub(in crate::aggs) struct Centroid {
    places: Places,
    sums: Vec<(KahanSum, KahanSum, u64)>,
}

#[derive(Clone, Copy, Default)]
struct KahanSum {
    value: f64,
    lost: f64,
}

impl KahanSum {
    fn add(&mut self, more: f64) {
        let corrected = more + self.lost;
        let next = self.value + corrected;
        self.lost = corrected - (next - self.value);
        self.value = next;
    }
}

impl Centroid {
    pub(in crate::aggs) fn new(field: &str, missing: Option<(f64, f64)>, cx: &AggregationContext<'_>) -> Result<Centroid> {
        Ok(Centroid {
            places: Places::new(field, missing, "geo_centroid", cx)?,
            sums: Vec::new(),
        })
    }
}

impl Collector for Centroid {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.places.segment(at)
    }
    fn collect(&mut self, doc: DocId, _score: f32, bucket: u32) -> Result<()> {
        let at = bucket as usize;
        if at >= self.sums.len() {
            self.sums.resize(at + 1, Default::default());
        }
        let (lats, lons, count) = &mut self.sums[at];
        self.places.each(doc, |lat, lon| {
            lats.add(lat);
            lons.add(lon);
            *count += 1;
        });
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        let (lat, lon, count) = self.sums.get(bucket as usize).copied().unwrap_or_default();
        let mut out = Map::new();
        if count > 0 {
            // The reference hands the middle over in the steps that places are kept in.
            let (lat, lon) = (lat.value / count as f64, lon.value / count as f64);
            out.insert("location".into(), place(round_to_grid(lat, 180.0), round_to_grid(lon, 360.0)));
        }
        out.insert("count".into(), count.into());
        Ok(Value::Object(out))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_number("geo_centroid"))
    }
    fn wire_type(&self) -> &'static str {
        "geo_centroid"
    }
}

fn no_number(kind: &str) -> Error {
    let reason = format!(
        "Invalid aggregation order path. Buckets can only be sorted on a sub-aggregator path that is built out of zero or more \
         single-bucket aggregations within the path and a final single-bucket or a metrics aggregation at the path end; \
         [{kind}] is no number."
    );
    Error::new(ErrorKind::AggregationExecution, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(places: &[(f64, f64)], wrap: bool, expected: (f64, f64)) {
        let mut ends = NO_ENDS;
        places.iter().for_each(|(lat, lon)| ends.add(*lat, *lon));
        assert_eq!(ends.sides(wrap), expected, "{places:?}");
    }

    #[test]
    fn sides() {
        check(&[(0.0, 10.0), (0.0, -10.0)], true, (-10.0, 10.0));
        check(&[(0.0, 170.0), (0.0, -170.0)], true, (170.0, -170.0));
        check(&[(0.0, 170.0), (0.0, -170.0)], false, (-170.0, 170.0));
        check(&[(0.0, -20.0), (0.0, -10.0)], true, (-20.0, -10.0));
    }

    #[test]
    fn steps() {
        assert_eq!(round_to_grid(-170.0, 360.0), -170.000_000_009_313_23);
        assert_eq!(round_to_grid(63.9, 180.0), 63.899_999_996_647_24);
    }
}
