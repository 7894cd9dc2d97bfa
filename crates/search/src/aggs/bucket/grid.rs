//! `geotile_grid` and `geohash_grid`: a bucket for each cell of a map.

use super::{Keyed, no_order};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs};
use crate::fields::column::Column;
use crate::fields::target::Target;
use mapping::Kind;
use model::{Error, Result, geohash};
use serde_json::{Map, Value, json};
use tantivy::DocId;

/// How the map is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::aggs) enum Cells {
    /// Squares of the web's maps, by zoom.
    Tile,
    /// Geohashes, by length.
    Hash,
}

/// Collects cells.
pub(in crate::aggs) struct Grid {
    field: String,
    cells: Cells,
    precision: u32,
    size: usize,
    shard_size: usize,
    /// top, left, bottom, right.
    bounds: Option<[f64; 4]>,
    column: Option<Column>,
    buckets: Keyed,
    subs: Subs,
}

/// Where the web's maps end.
const LATITUDE_MOST: f64 = 85.051_128_779_806_59;

impl Cells {
    fn code(self, precision: u32, (lat, lon): (f64, f64)) -> u64 {
        match self {
            Cells::Tile => {
                let tiles = 2f64.powi(precision as i32);
                let most = (1u64 << precision) - 1;
                let x = ((lon + 180.0) / 360.0 * tiles).floor().max(0.0) as u64;
                let sin = lat.clamp(-LATITUDE_MOST, LATITUDE_MOST).to_radians().sin();
                let y = (0.5 - ((1.0 + sin) / (1.0 - sin)).ln() / (4.0 * std::f64::consts::PI)) * tiles;
                x.min(most) << 29 | (y.floor().max(0.0) as u64).min(most)
            }
            Cells::Hash => geohash::code(lat, lon, precision as usize),
        }
    }
    fn key(self, precision: u32, code: u64) -> String {
        match self {
            Cells::Tile => format!("{precision}/{}/{}", code >> 29, code & ((1 << 29) - 1)),
            Cells::Hash => geohash::text(code, precision as usize),
        }
    }
}

impl Grid {
    pub(in crate::aggs) fn new(spec: &dsl::aggs::GridAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<Grid> {
        for view in cx.views {
            if let Some(target) = Target::of(view, &spec.field)
                && target.kind.kind != Kind::GeoPoint
            {
                return Err(Error::illegal(format!(
                    "Field [{}] of type [{}] is not supported for aggregation [{}]",
                    spec.field,
                    target.kind.wire(),
                    if spec.tiles { "geotile_grid" } else { "geohash_grid" }
                )));
            }
        }
        Ok(Grid {
            field: spec.field.clone(),
            cells: if spec.tiles { Cells::Tile } else { Cells::Hash },
            precision: spec.precision,
            size: spec.size,
            shard_size: spec.shard_size.unwrap_or(usize::MAX).max(spec.size),
            bounds: spec.bounds,
            column: None,
            buckets: Keyed::new(cx),
            subs,
        })
    }
}

impl Collector for Grid {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.column = Target::of(at.view, &self.field)
            .map(|target| Column::open(at.segment, &target))
            .transpose()?
            .flatten();
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let Some(Column::Geo(lat, lon)) = &self.column else {
            return Ok(());
        };
        let mut codes: Vec<u64> = lat
            .values_for_doc(doc)
            .zip(lon.values_for_doc(doc))
            .filter(|(lat, lon)| {
                self.bounds.is_none_or(|[top, left, bottom, right]| {
                    let across = if left <= right {
                        left <= *lon && *lon <= right
                    } else {
                        *lon >= left || *lon <= right
                    };
                    bottom <= *lat && *lat <= top && across
                })
            })
            .map(|at| self.cells.code(self.precision, at))
            .collect();
        codes.sort_unstable();
        codes.dedup();
        for code in codes {
            let own = self.buckets.bucket(bucket, code)?;
            self.buckets.add(own);
            self.subs.collect(doc, score, own)?;
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let mut rows: Vec<(u64, u64, u32)> = match bucket {
            EMPTY => Vec::new(),
            bucket => self
                .buckets
                .of(bucket)
                .into_iter()
                .map(|own| (self.buckets.count(own), self.buckets.code(own), own))
                .collect(),
        };
        // The fullest first; of equals the one with the greater code.
        rows.sort_by(|a, b| b.cmp(a));
        rows.truncate(self.shard_size.min(self.size));
        to.count(rows.len())?;
        let mut list = Vec::with_capacity(rows.len());
        for (count, code, own) in rows {
            let mut out = Map::new();
            out.insert("key".into(), self.cells.key(self.precision, code).into());
            out.insert("doc_count".into(), count.into());
            self.subs.finish(own, &mut out, to)?;
            list.push(Value::Object(out));
        }
        Ok(json!({ "buckets": list }))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("geo_grid"))
    }
    fn wire_type(&self) -> &'static str {
        match self.cells {
            Cells::Tile => "geotile_grid",
            Cells::Hash => "geohash_grid",
        }
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}

#[cfg(test)]
mod tests {
    use super::Cells;

    #[test]
    fn keys() {
        let place = (57.649_11, 10.407_44);
        let hash = Cells::Hash;
        assert_eq!(hash.key(11, hash.code(11, place)), "u4pruydqqvj");
        let tile = Cells::Tile;
        assert_eq!(tile.key(2, tile.code(2, (0.5, 0.5))), "2/2/1");
        assert_eq!(tile.key(0, tile.code(0, (-89.0, 179.0))), "0/0/0");
    }
}
