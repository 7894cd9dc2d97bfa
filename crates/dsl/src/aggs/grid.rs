//! `geotile_grid` and `geohash_grid`: a bucket for each cell of a grid.

use super::AggKind;
use super::options::{one, put};
use super::value_source::{no_value_source, option};
use crate::json::{Fields, Node};
use model::{Error, Result};
use serde_json::{Map, Value, json};

/// `geotile_grid` and `geohash_grid`.
#[derive(Clone, Debug, PartialEq)]
pub struct GridAgg {
    pub tiles: bool,
    pub field: String,
    pub precision: u32,
    pub size: usize,
    pub shard_size: Option<usize>,
    /// top, left, bottom, right.
    pub bounds: Option<[f64; 4]>,
}

pub(super) fn parse_grid(fields: &mut Fields, tiles: bool) -> Result<AggKind> {
    let kind = if tiles { "geotile_grid" } else { "geohash_grid" };
    let most = if tiles { 29 } else { 12 };
    let precision = option(fields, kind, "precision", |n| {
        let number = n.i64("precision")?;
        match u32::try_from(number) {
            Ok(precision) if precision <= most && (tiles || precision >= 1) => Ok(precision),
            _ if tiles => Err(Error::illegal(format!(
                "Invalid geotile_grid precision of {number}. Must be between 0 and 29."
            ))),
            _ => Err(Error::illegal(format!(
                "Invalid geohash aggregation precision of {number}. Must be between 1 and 12."
            ))),
        }
    })?;
    let positive = |name: &str, n: &Node| {
        let number = n.i64(name)?;
        usize::try_from(number)
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| Error::illegal(format!("[{name}] must be greater than 0. Found [{number}] in [{kind}]")))
    };
    let size = option(fields, kind, "size", |n| positive("size", n))?.unwrap_or(10_000);
    let shard_size = option(fields, kind, "shard_size", |n| match n.i64("shard_size")? {
        -1 => Ok(None),
        _ => positive("shard_size", n).map(Some),
    })?;
    let bounds = match fields.take("bounds") {
        None => None,
        Some(node) => match crate::query::bounding_box(node, crate::query::GeoValidation::Strict)? {
            crate::query::GeoArea::Box {
                top,
                left,
                bottom,
                right,
            } => Some([top, left, bottom, right]),
            _ => None,
        },
    };
    let field = fields.take_string("field")?.ok_or_else(|| no_value_source("[field]"))?;
    Ok(AggKind::Grid(GridAgg {
        tiles,
        field,
        precision: precision.unwrap_or(if tiles { 7 } else { 5 }),
        size,
        shard_size: shard_size.flatten(),
        bounds,
    }))
}

pub(super) fn render(grid: &GridAgg) -> Map<String, Value> {
    let mut body = one("field", grid.field.as_str());
    body.insert("precision".into(), grid.precision.into());
    body.insert("size".into(), grid.size.into());
    put(&mut body, "shard_size", grid.shard_size);
    if let Some([top, left, bottom, right]) = grid.bounds {
        body.insert(
            "bounds".into(),
            json!({ "top": top, "left": left, "bottom": bottom, "right": right }),
        );
    }
    body
}
