//! `range`, `date_range` and `ip_range`: a bucket for each range of values.

use super::options::{put, source_body};
use super::{AggKind, ValueSource};
use crate::json::{Fields, Node};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct RangeBucket {
    pub key: Option<String>,
    pub from: Option<Value>,
    pub to: Option<Value>,
    /// `ip_range` only.
    pub mask: Option<String>,
}

pub(super) fn range(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let (source, ranges, keyed) = parse_ranges(fields, "range", dialect)?;
    Ok(AggKind::Range { source, ranges, keyed })
}

pub(super) fn date_range(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let time_zone = fields.take_string("time_zone")?;
    let (source, ranges, keyed) = parse_ranges(fields, "date_range", dialect)?;
    Ok(AggKind::DateRange {
        source,
        ranges,
        keyed,
        time_zone,
    })
}

pub(super) fn ip_range(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let (source, ranges, keyed) = parse_ranges(fields, "ip_range", dialect)?;
    Ok(AggKind::IpRange { source, ranges, keyed })
}

/// The refusal of an aggregation without ranges.
pub(super) fn no_ranges(name: &str) -> Error {
    shape::all_shards_failed(Error::illegal(format!("No [ranges] specified for the [{name}] aggregation")))
}

type Ranges = (ValueSource, Vec<RangeBucket>, bool);

fn parse_ranges(fields: &mut Fields, kind: &str, dialect: Dialect) -> Result<Ranges> {
    let source = ValueSource::take(fields, dialect)?;
    let keyed = fields.take_bool("keyed")?.unwrap_or(false);
    let mut ranges = Vec::new();
    for item in fields.take("ranges").map(Node::items).unwrap_or_default() {
        let mut inner = item.fields(kind)?;
        let mask = if kind == "ip_range" {
            inner.take_string("mask")?
        } else {
            None
        };
        let bound = |inner: &mut Fields, bound: &str| -> Result<Option<Value>> {
            let Some(node) = inner.take(bound).filter(|node| !node.is_null()) else {
                return Ok(None);
            };
            Ok(Some(if kind == "range" {
                number_value(node.f64(bound)?)
            } else {
                node.into_value()
            }))
        };
        ranges.push(RangeBucket {
            key: inner.take_string("key")?,
            from: bound(&mut inner, "from")?,
            to: bound(&mut inner, "to")?,
            mask,
        });
        if !dialect.rules.skips_unknown_keys {
            inner.finish()?;
        }
    }
    Ok((source, ranges, keyed))
}

fn number_value(number: f64) -> Value {
    serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number)
}

pub(super) fn render(source: &ValueSource, ranges: &[RangeBucket], keyed: bool) -> Map<String, Value> {
    let mut body = source_body(source);
    let ranges = ranges.iter().map(|range| {
        let mut out = Map::new();
        put(&mut out, "key", range.key.as_deref());
        put(&mut out, "from", range.from.clone());
        put(&mut out, "to", range.to.clone());
        put(&mut out, "mask", range.mask.as_deref());
        Value::Object(out)
    });
    body.insert("ranges".into(), ranges.collect());
    body.insert("keyed".into(), keyed.into());
    body
}

pub(super) fn render_date(
    source: &ValueSource,
    ranges: &[RangeBucket],
    keyed: bool,
    time_zone: Option<&str>,
) -> Map<String, Value> {
    let mut body = render(source, ranges, keyed);
    put(&mut body, "time_zone", time_zone);
    body
}
