//! Aggregations over places: `geo_bounds`, `geo_centroid`, `geo_distance`.

use super::AggKind;
use super::options::{one, put};
use super::ranges::{RangeBucket, no_ranges};
use super::value_source::{no_value_source, option};
use crate::json::{Fields, Node};
use crate::query::{GeoPlace, parse_place};
use crate::shape;
use model::{Error, Result};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct GeoDistanceAgg {
    pub field: String,
    pub origin: GeoPlace,
    /// The unit of bounds.
    pub unit: String,
    /// One of them.
    pub metres: f64,
    /// Along the sphere, not the plane; along the sphere without.
    pub arc: Option<bool>,
    pub ranges: Vec<RangeBucket>,
    pub keyed: bool,
}

fn require_field(field: Option<String>, what: &str) -> Result<String> {
    field.ok_or_else(|| no_value_source(what))
}

/// A stand-in for places that are missing: only ever a text.
fn missing(fields: &mut Fields) -> Result<Option<GeoPlace>> {
    let kinds = ["VALUE_STRING", "VALUE_NUMBER", "VALUE_BOOLEAN"];
    fields.read("missing", &kinds, |node| {
        parse_place(&Node::from_value(node.string("missing")?.into())).map_err(shape::all_shards_failed)
    })
}

/// Reads `geo_bounds`.
pub(super) fn bounds(fields: &mut Fields) -> Result<AggKind> {
    Ok(AggKind::GeoBounds {
        missing: missing(fields)?,
        wrap_longitude: fields.take_bool("wrap_longitude")?.unwrap_or(true),
        field: require_field(fields.take_string("field")?, "[field]")?,
    })
}

/// Reads `geo_centroid`.
pub(super) fn centroid(fields: &mut Fields) -> Result<AggKind> {
    Ok(AggKind::GeoCentroid {
        missing: missing(fields)?,
        field: require_field(fields.take_string("field")?, "[field, script]")?,
    })
}

/// Reads `geo_distance`.
pub(super) fn distance(fields: &mut Fields, name: &str) -> Result<AggKind> {
    const KIND: &str = "geo_distance";
    let origin = option(fields, KIND, "origin", parse_place)?;
    let unit = option(fields, KIND, "unit", |node| {
        let unit = node.string("unit")?;
        match crate::query::metres(&format!("1{unit}"), "m") {
            Ok(metres) if unit.chars().all(|c| !c.is_ascii_digit()) => Ok((unit, metres)),
            _ => Err(Error::illegal(format!("No distance unit match [{unit}]"))),
        }
    })?;
    let arc = option(fields, KIND, "distance_type", |node| {
        match node.string("distance_type")?.as_str() {
            "arc" => Ok(true),
            "plane" => Ok(false),
            other => Err(Error::illegal(format!("No geo distance for [{other}]"))),
        }
    })?;
    let keyed = fields.take_bool("keyed")?.unwrap_or(false);
    let ranges = option(fields, KIND, "ranges", |node| {
        node.clone().items().into_iter().map(range).collect::<Result<Vec<_>>>()
    })?;
    let field = require_field(fields.take_string("field")?, "[field, script]")?;
    let origin = origin.ok_or_else(|| Error::illegal(format!("Aggregation [{name}] must define an [origin].")))?;
    let ranges = ranges.unwrap_or_default();
    if ranges.is_empty() {
        return Err(no_ranges(name));
    }
    let (unit, metres) = unit.unwrap_or_else(|| ("m".to_owned(), 1.0));
    Ok(AggKind::GeoDistance(Box::new(GeoDistanceAgg {
        field,
        origin,
        unit,
        metres,
        arc,
        ranges,
        keyed,
    })))
}

fn range(node: Node) -> Result<RangeBucket> {
    let mut out = RangeBucket {
        key: None,
        from: None,
        to: None,
        mask: None,
    };
    for (key, value) in shape::object(node, "ranges")? {
        match key.as_str() {
            "key" => out.key = Some(value.string("key")?),
            "from" if value.is_null() => {}
            "to" if value.is_null() => {}
            "from" => out.from = Some(json!(value.f64("from")?)),
            "to" => out.to = Some(json!(value.f64("to")?)),
            other => return Err(value.error(format!("Failed to parse object: unknown field [{other}] found"))),
        }
    }
    Ok(out)
}

impl GeoDistanceAgg {
    /// Its body as a request writes it.
    pub(super) fn render(&self) -> Map<String, Value> {
        let one = |range: &RangeBucket| {
            let mut out = Map::new();
            for (name, value) in [("from", &range.from), ("to", &range.to)] {
                if let Some(value) = value {
                    out.insert(name.into(), value.clone());
                }
            }
            if let Some(key) = &range.key {
                out.insert("key".into(), key.as_str().into());
            }
            Value::Object(out)
        };
        let mut out = Map::new();
        out.insert("field".into(), self.field.as_str().into());
        out.insert("origin".into(), json!({ "lat": self.origin.0, "lon": self.origin.1 }));
        out.insert("unit".into(), self.unit.as_str().into());
        if let Some(arc) = self.arc {
            out.insert("distance_type".into(), if arc { "arc" } else { "plane" }.into());
        }
        out.insert("ranges".into(), self.ranges.iter().map(one).collect());
        out.insert("keyed".into(), self.keyed.into());
        out
    }
}

pub(super) fn render_bounds(field: &str, missing: Option<GeoPlace>, wrap_longitude: bool) -> Map<String, Value> {
    let mut body = render_centroid(field, missing);
    body.insert("wrap_longitude".into(), wrap_longitude.into());
    body
}

pub(super) fn render_centroid(field: &str, missing: Option<GeoPlace>) -> Map<String, Value> {
    let mut body = one("field", field);
    put(&mut body, "missing", missing.map(|(lat, lon)| format!("{lat},{lon}")));
    body
}
