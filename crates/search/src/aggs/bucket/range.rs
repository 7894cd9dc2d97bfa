//! `range`, `date_range`, `ip_range`, `geo_distance`: buckets with bounds, which may overlap.

use super::{Counts, no_order, place_below, places_below};
use crate::aggs::fork::same_kind;
use crate::aggs::format::{Format, ip_text, number, parse_ip};
use crate::aggs::values::{Distance, ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, Finish, Subs, check_collected};
use dsl::aggs::{RangeBucket, ValueSource};
use model::date::DateFormat;
use model::{Error, Result};
use serde_json::{Map, Value};
use std::net::Ipv6Addr;
use tantivy::DocId;

struct Range {
    key: Option<String>,
    from: f64,
    to: f64,
}

/// `range` and `date_range`.
pub(in crate::aggs) struct Ranges {
    source: ValuesSource,
    ranges: Vec<Range>,
    keyed: bool,
    typed: &'static str,
    /// Bounds are written as texts too: in the typed dialect.
    as_texts: bool,
    counts: Counts,
    subs: Subs,
    values: Vec<f64>,
}

impl Ranges {
    pub(in crate::aggs) fn numbers(
        spec: &ValueSource,
        ranges: &[RangeBucket],
        keyed: bool,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<Ranges> {
        let source = ValuesSource::new(spec, Wants::Numbers, "range", cx)?;
        let bound = |value: &Option<Value>, otherwise: f64| value.as_ref().and_then(Value::as_f64).unwrap_or(otherwise);
        let ranges = ranges
            .iter()
            .map(|range| Range {
                key: range.key.clone(),
                from: bound(&range.from, f64::NEG_INFINITY),
                to: bound(&range.to, f64::INFINITY),
            })
            .collect();
        let mut made = Ranges::new(source, ranges, keyed, "range", subs);
        made.as_texts = cx.dialect.rules.range_bounds_have_texts;
        Ok(made)
    }

    pub(in crate::aggs) fn dates(
        spec: &ValueSource,
        ranges: &[RangeBucket],
        keyed: bool,
        zone: Option<&str>,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<Ranges> {
        let mut source = ValuesSource::new(spec, Wants::Numbers, "date_range", cx)?;
        let zone = zone.map(model::date::parse_zone).transpose()?;
        let format = match &source.format {
            Format::Date(format, _) => format.clone(),
            _ => spec
                .format
                .as_deref()
                .map(|text| DateFormat::parse_pattern_of(text, cx.pattern_syntax()))
                .transpose()?
                .unwrap_or_default(),
        };
        source.format = Format::Date(format.clone(), zone.clone());
        let bound = |value: &Option<Value>, otherwise: f64| match value {
            None => Ok(otherwise),
            Some(Value::Number(n)) => {
                // A number is read in the field's format: seconds, where that says so.
                let text = n.to_string();
                Ok(match format.parse(&text, zone.as_ref()) {
                    Ok(ms) if format.as_str().contains("epoch_second") => ms as f64,
                    _ => n.as_f64().unwrap_or(otherwise),
                })
            }
            Some(Value::String(text)) => {
                model::date::parse_math(text, &format, zone.as_ref(), cx.plan.now_ms, false).map(|ms| ms as f64)
            }
            Some(other) => Err(Error::illegal(format!("[{other}] is no date"))),
        };
        let ranges = ranges
            .iter()
            .map(|range| {
                let (from, to) = (bound(&range.from, f64::NEG_INFINITY)?, bound(&range.to, f64::INFINITY)?);
                Ok(Range {
                    key: range.key.clone(),
                    from,
                    to,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Ranges::new(source, ranges, keyed, "date_range", subs))
    }

    /// `geo_distance`: of the distances from a place; none is less than 0.
    pub(in crate::aggs) fn distances(
        spec: &dsl::aggs::GeoDistanceAgg,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<Ranges> {
        let distance = Distance {
            origin: spec.origin,
            metres: spec.metres,
            arc: spec.arc.unwrap_or(true),
        };
        let source = ValuesSource::distances(&spec.field, distance, "geo_distance", cx)?;
        let bound = |value: &Option<Value>, otherwise: f64| value.as_ref().and_then(Value::as_f64).unwrap_or(otherwise);
        let ranges = spec.ranges.iter().map(|range| {
            let (from, to) = (bound(&range.from, 0.0), bound(&range.to, f64::INFINITY));
            let bound_text = |bound: f64, open: bool| if open { "*".to_owned() } else { java(bound) };
            let key = || format!("{}-{}", bound_text(from, from == 0.0), bound_text(to, to.is_infinite()));
            Range {
                key: Some(range.key.clone().unwrap_or_else(key)),
                from,
                to,
            }
        });
        Ok(Ranges::new(source, ranges.collect(), spec.keyed, "geo_distance", subs))
    }

    fn new(source: ValuesSource, mut ranges: Vec<Range>, keyed: bool, typed: &'static str, subs: Subs) -> Ranges {
        ranges.sort_by(|a, b| a.from.total_cmp(&b.from).then(a.to.total_cmp(&b.to)));
        Ranges {
            source,
            ranges,
            keyed,
            typed,
            as_texts: false,
            counts: Counts::default(),
            subs,
            values: Vec::new(),
        }
    }

    fn bound_text(&self, bound: f64) -> String {
        if bound.is_infinite() {
            "*".to_owned()
        } else {
            self.source.format.text(bound).unwrap_or_else(|| java(bound))
        }
    }
}

/// A number as Java writes a double.
pub(super) fn java(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{value:?}");
    }
    let text = format!("{value:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

/// Buckets as a list, or by their keys.
fn buckets(parts: Vec<(String, Map<String, Value>)>, keyed: bool) -> Value {
    let buckets = if keyed {
        Value::Object(parts.into_iter().map(|(key, bucket)| (key, Value::Object(bucket))).collect())
    } else {
        let with_key = |(key, bucket): (String, Map<String, Value>)| {
            let mut out = Map::new();
            out.insert("key".into(), key.into());
            out.extend(bucket);
            Value::Object(out)
        };
        Value::Array(parts.into_iter().map(with_key).collect())
    };
    Value::Object(Map::from_iter([("buckets".to_owned(), buckets)]))
}

impl Collector for Ranges {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)?;
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut values = std::mem::take(&mut self.values);
        self.source.numbers(doc, score, &mut values)?;
        for (at, range) in self.ranges.iter().enumerate() {
            if values.iter().any(|value| *value >= range.from && *value < range.to) {
                let own = place_below(bucket, self.ranges.len(), at);
                check_collected(own as usize + 1)?;
                self.counts.add(own as usize);
                self.subs.collect(doc, score, own)?;
            }
        }
        self.values = values;
        Ok(())
    }
    fn is_divisible(&self) -> bool {
        self.subs.are_divisible()
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: Ranges = same_kind(other)?;
        let own = places_below(buckets, self.ranges.len())?;
        self.counts.absorb(&other.counts, &own);
        self.subs.absorb(other.subs, &own)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        to.count(self.ranges.len())?;
        let mut parts = Vec::new();
        for (at, range) in self.ranges.iter().enumerate() {
            let own = place_below(bucket, self.ranges.len(), at);
            let key = range
                .key
                .clone()
                .unwrap_or_else(|| format!("{}-{}", self.bound_text(range.from), self.bound_text(range.to)));
            let mut out = Map::new();
            for (name, bound) in [("from", range.from), ("to", range.to)] {
                if bound.is_finite() {
                    out.insert(name.into(), number(bound));
                    if let Some(text) = self.source.format.text(bound) {
                        out.insert(format!("{name}_as_string"), text.into());
                    } else if self.as_texts {
                        out.insert(format!("{name}_as_string"), java(bound).into());
                    }
                }
            }
            out.insert("doc_count".into(), self.counts.get(own as usize).into());
            self.subs.finish(own, &mut out, to)?;
            parts.push((key, out));
        }
        Ok(buckets(parts, self.keyed))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order(self.typed))
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        self.typed
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}

struct IpRange {
    key: Option<String>,
    from: Option<Ipv6Addr>,
    to: Option<Ipv6Addr>,
}

/// `ip_range`.
pub(in crate::aggs) struct IpRanges {
    source: ValuesSource,
    ranges: Vec<IpRange>,
    keyed: bool,
    /// Bounds are numbers with a text beside them: in the typed dialect.
    as_numbers: bool,
    counts: Counts,
    subs: Subs,
    codes: Vec<u64>,
    addresses: Vec<Ipv6Addr>,
}

impl IpRanges {
    pub(in crate::aggs) fn new(
        spec: &ValueSource,
        ranges: &[RangeBucket],
        keyed: bool,
        subs: Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<IpRanges> {
        let source = ValuesSource::new(spec, Wants::Ips, "ip_range", cx)?;
        let bound = |value: &Option<Value>| value.as_ref().and_then(Value::as_str).map(parse_ip).transpose();
        let mut out = Vec::new();
        for range in ranges {
            out.push(match &range.mask {
                Some(mask) => {
                    let (from, to) = mask_bounds(mask)?;
                    IpRange {
                        key: Some(range.key.clone().unwrap_or_else(|| mask.clone())),
                        from,
                        to,
                    }
                }
                None => IpRange {
                    key: range.key.clone(),
                    from: bound(&range.from)?,
                    to: bound(&range.to)?,
                },
            });
        }
        out.sort_by_key(|a| (a.from, a.to.is_none(), a.to));
        Ok(IpRanges {
            source,
            ranges: out,
            keyed,
            as_numbers: cx.dialect.rules.range_bounds_have_texts,
            counts: Counts::default(),
            subs,
            codes: Vec::new(),
            addresses: Vec::new(),
        })
    }
}

type Bounds = (Option<Ipv6Addr>, Option<Ipv6Addr>);

/// The addresses of a CIDR block: the first, and the first one behind.
fn mask_bounds(text: &str) -> Result<Bounds> {
    let bad = || Error::illegal(format!("Expected [ip/prefix] but was [{text}]"));
    let (ip, prefix) = text.split_once('/').ok_or_else(bad)?;
    let address = parse_ip(ip)?;
    let prefix: u32 = prefix.parse().map_err(|_| bad())?;
    let (prefix, most) = if ip.contains(':') {
        (prefix, 128)
    } else {
        (prefix.saturating_add(96), 128)
    };
    if prefix > most {
        return Err(bad());
    }
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    let first = address.to_bits() & mask;
    let behind = (first | !mask).checked_add(1);
    Ok((Some(Ipv6Addr::from_bits(first)), behind.map(Ipv6Addr::from_bits)))
}

impl Collector for IpRanges {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)?;
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.source.addresses(doc, score, &mut self.codes, &mut self.addresses)?;
        for (at, range) in self.ranges.iter().enumerate() {
            if self
                .addresses
                .iter()
                .any(|ip| range.from.is_none_or(|from| *ip >= from) && range.to.is_none_or(|to| *ip < to))
            {
                let own = place_below(bucket, self.ranges.len(), at);
                check_collected(own as usize + 1)?;
                self.counts.add(own as usize);
                self.subs.collect(doc, score, own)?;
            }
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        to.count(self.ranges.len())?;
        let mut parts = Vec::new();
        let bound_text = |ip: Option<Ipv6Addr>| ip.map_or("*".to_owned(), ip_text);
        for (at, range) in self.ranges.iter().enumerate() {
            let own = place_below(bucket, self.ranges.len(), at);
            let key = range
                .key
                .clone()
                .unwrap_or_else(|| format!("{}-{}", bound_text(range.from), bound_text(range.to)));
            let mut out = Map::new();
            for (name, bound) in [("from", range.from), ("to", range.to)] {
                if let (Some(ip), Some(v4), true) = (bound, bound.and_then(|ip| ip.to_ipv4_mapped()), self.as_numbers) {
                    out.insert(name.into(), number(f64::from(v4.to_bits())));
                    out.insert(format!("{name}_as_string"), ip_text(ip).into());
                } else if let Some(ip) = bound {
                    out.insert(name.into(), ip_text(ip).into());
                }
            }
            out.insert("doc_count".into(), self.counts.get(own as usize).into());
            self.subs.finish(own, &mut out, to)?;
            parts.push((key, out));
        }
        Ok(buckets(parts, self.keyed))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("ip_range"))
    }
    fn wire_type(&self) -> &'static str {
        "ip_range"
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
    use super::*;

    #[test]
    fn numbers_of_java() {
        for (value, expected) in [
            (15.0, "15.0"),
            (0.25, "0.25"),
            (1e7, "1.0E7"),
            (-1.5e10, "-1.5E10"),
            (0.0, "0.0"),
        ] {
            assert_eq!(java(value), expected);
        }
    }

    #[test]
    fn masks() {
        for (mask, from, to) in [
            ("10.0.0.0/25", "10.0.0.0", "10.0.0.128"),
            ("10.0.0.77/24", "10.0.0.0", "10.0.1.0"),
        ] {
            let bounds = mask_bounds(mask).expect("a mask");
            assert_eq!(
                (bounds.0.map(ip_text).as_deref(), bounds.1.map(ip_text).as_deref()),
                (Some(from), Some(to)),
                "{mask}"
            );
        }
    }
}
