//! `percentiles`, `percentile_ranks`, `median_absolute_deviation`: exact, from all values of a bucket.

use super::super::fork::same_kind;
use super::super::format::number;
use super::super::values::{ValuesSource, Wants};
use super::super::{AggregationContext, At, Collector, Finish};
use super::hdr::Hdr;
use super::ranks::RankRule;
use super::{one, unnamed_metric};
use dsl::aggs::{AggKind, Metric};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use tantivy::DocId;

/// How many values all buckets may keep.
const MOST_VALUES: usize = 1 << 26;

/// The percents or values of a request.
pub(in crate::aggs) enum Ask {
    /// Values at these percents.
    Values(Vec<f64>),
    /// Percents below these values.
    Ranks(Vec<f64>),
    /// The median of distances from the median.
    Deviation,
}

/// Collects all values.
pub(in crate::aggs) struct Percentiles {
    /// How ranks between few values are told.
    ranks: RankRule,
    source: ValuesSource,
    ask: Ask,
    keyed: bool,
    /// Between values, and for none, as in 2015.
    former: bool,
    /// Values are told apart by so many digits.
    hdr: Option<u8>,
    all: Vec<(Vec<f64>, bool)>,
    kept: usize,
    values: Vec<f64>,
}

/// The collector of an aggregation of this family; `None` if it is none.
pub(super) fn build(kind: &AggKind, cx: &AggregationContext<'_>) -> Result<Option<Percentiles>> {
    let numeric = |spec, kind: &str| ValuesSource::new(spec, Wants::Numbers, kind, cx);
    let asked = |spec, name: &str, ask, (keyed, hdr): (&bool, &Option<u8>)| -> Result<Percentiles> {
        Ok(Percentiles {
            former: cx.dialect.rules.former_percentiles,
            keyed: *keyed,
            hdr: *hdr,
            ..Percentiles::new(numeric(spec, name)?, ask)
        })
    };
    Ok(Some(match kind {
        AggKind::Metric(Metric::MedianAbsoluteDeviation, spec) => {
            Percentiles::new(numeric(spec, "median_absolute_deviation")?, Ask::Deviation)
        }
        AggKind::Percentiles {
            source,
            percents,
            keyed,
            hdr,
        } => asked(source, "percentiles", Ask::Values(percents.clone()), (keyed, hdr))?,
        AggKind::PercentileRanks {
            source,
            values,
            keyed,
            hdr,
        } => Percentiles {
            ranks: RankRule::of(cx.dialect),
            ..asked(source, "percentile_ranks", Ask::Ranks(values.clone()), (keyed, hdr))?
        },
        _ => return Ok(None),
    }))
}

impl Percentiles {
    fn new(source: ValuesSource, ask: Ask) -> Percentiles {
        Percentiles {
            source,
            ask,
            keyed: false,
            former: false,
            hdr: None,
            ranks: RankRule::default(),
            all: Vec::new(),
            kept: 0,
            values: Vec::new(),
        }
    }
    /// Counts values that are kept.
    fn keep(&mut self, more: usize) -> Result<()> {
        self.kept += more;
        if self.kept > MOST_VALUES {
            let reason = format!("[request] Data too large, data for [percentiles] would be more than [{MOST_VALUES}] values");
            return Err(Error::new(ErrorKind::CircuitBreaking, reason));
        }
        Ok(())
    }
    fn at(&mut self, bucket: u32) -> &[f64] {
        match self.all.get_mut(bucket as usize) {
            Some((values, sorted)) => {
                if !*sorted {
                    values.sort_by(f64::total_cmp);
                    *sorted = true;
                }
                values
            }
            None => &[],
        }
    }
}

/// The value at a percent: the nearest, between two the mean of both.
fn quantile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = (percent / 100.0 * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// The value at a percent as 2015 had it: values stand at whole places from first to last.
fn quantile_of_2015(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = (percent / 100.0 * last as f64).clamp(0.0, last as f64);
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

fn deviation(sorted: &[f64]) -> Option<f64> {
    let median = quantile(sorted, 50.0)?;
    let mut distances: Vec<f64> = sorted.iter().map(|value| (value - median).abs()).collect();
    distances.sort_by(f64::total_cmp);
    quantile(&distances, 50.0)
}

/// A percent as a key: `50.0`.
pub(in crate::aggs) fn key(percent: f64) -> String {
    script::Value::Double(percent).text()
}

impl Collector for Percentiles {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.source.numbers(doc, score, &mut self.values)?;
        let at = bucket as usize;
        if at >= self.all.len() {
            self.all.resize_with(at + 1, Default::default);
        }
        if self.hdr.is_some() && self.values.iter().any(|value| *value < 0.0) {
            let reason = "The value is out of bounds for an HDR histogram: it must be >= 0.0";
            return Err(Error::illegal(reason));
        }
        self.all[at].0.extend_from_slice(&self.values);
        self.keep(self.values.len())
    }
    fn is_divisible(&self) -> bool {
        true
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: Percentiles = same_kind(other)?;
        self.keep(other.kept)?;
        for ((values, _), bucket) in other.all.into_iter().zip(buckets) {
            let at = *bucket as usize;
            if at >= self.all.len() {
                self.all.resize_with(at + 1, Default::default);
            }
            self.all[at].0.extend(values);
        }
        Ok(())
    }
    fn finish(&mut self, bucket: u32, _to: &mut Finish<'_>) -> Result<Value> {
        let (keyed, former, ranks) = (self.keyed, self.former, self.ranks);
        let hdr = self.hdr;
        let quantile = |sorted: &[f64], percent: f64| match hdr {
            Some(digits) => Hdr::new(digits, sorted).quantile(sorted, percent),
            None if former => quantile_of_2015(sorted, percent),
            None => quantile(sorted, percent),
        };
        let rank = |sorted: &[f64], value: f64| match hdr {
            Some(digits) => Hdr::new(digits, sorted).rank(sorted, value),
            None => ranks.percent(sorted, value),
        };
        let none = || if former { Value::from("NaN") } else { Value::Null };
        let pairs: Vec<(f64, Option<f64>)> = match &self.ask {
            Ask::Values(list) => {
                let list = list.clone();
                let sorted = self.at(bucket);
                list.into_iter().map(|percent| (percent, quantile(sorted, percent))).collect()
            }
            Ask::Ranks(list) => {
                let list = list.clone();
                let sorted = self.at(bucket);
                list.into_iter().map(|value| (value, rank(sorted, value))).collect()
            }
            Ask::Deviation => {
                let found = deviation(self.at(bucket));
                return Ok(one(found, &self.source));
            }
        };
        let asks_ranks = matches!(self.ask, Ask::Ranks(_));
        let format = &self.source.format;
        let text = |value: Option<f64>| value.and_then(|value| format.text(value)).filter(|_| !asks_ranks || !former);
        let values = if keyed {
            let mut out = Map::new();
            for (percent, value) in &pairs {
                let name = match asks_ranks && former {
                    true => format.text(*percent).unwrap_or_else(|| key(*percent)),
                    false => key(*percent),
                };
                out.insert(name.clone(), value.map_or_else(none, number));
                if let Some(text) = text(*value) {
                    out.insert(format!("{name}_as_string"), text.into());
                }
            }
            Value::Object(out)
        } else {
            let one = |(percent, value): &(f64, Option<f64>)| {
                let mut out = Map::new();
                out.insert("key".into(), number(*percent));
                out.insert("value".into(), value.map_or_else(none, number));
                if let Some(text) = text(*value) {
                    out.insert("value_as_string".into(), text.into());
                }
                Value::Object(out)
            };
            Value::Array(pairs.iter().map(one).collect())
        };
        Ok(json!({ "values": values }))
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        let wanted: Option<f64> = rest.first().and_then(|text| text.parse().ok());
        let hdr = self.hdr;
        let found = match (&self.ask, wanted) {
            (Ask::Values(_), Some(percent)) if let Some(digits) = hdr => {
                let sorted = self.at(bucket);
                Hdr::new(digits, sorted).quantile(sorted, percent)
            }
            (Ask::Ranks(_), Some(value)) if let Some(digits) = hdr => {
                let sorted = self.at(bucket);
                Hdr::new(digits, sorted).rank(sorted, value)
            }
            (Ask::Deviation, _) => deviation(self.at(bucket)),
            (Ask::Values(_), Some(percent)) => quantile(self.at(bucket), percent),
            (Ask::Ranks(_), Some(value)) => {
                let ranks = self.ranks;
                ranks.percent(self.at(bucket), value)
            }
            _ => {
                return Err(unnamed_metric());
            }
        };
        Ok(found.unwrap_or(f64::NAN))
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        match self.ask {
            Ask::Values(_) if self.hdr.is_some() => "hdr_percentiles",
            Ask::Ranks(_) if self.hdr.is_some() => "hdr_percentile_ranks",
            Ask::Values(_) => "tdigest_percentiles",
            Ask::Ranks(_) => "tdigest_percentile_ranks",
            Ask::Deviation => "median_absolute_deviation",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let rows: [(&[f64], f64, Option<f64>); 3] = [
            (&[], 50.0, None),
            (&[1.0, 2.0, 3.0, 4.0], 50.0, Some(2.5)),
            (&[1.0], 99.0, Some(1.0)),
        ];
        for (values, percent, expected) in rows {
            assert_eq!(quantile(values, percent), expected, "{percent} of {values:?}");
        }
        let five = [1.0, 1.0, 3.0, 5.0, 9.0];
        assert_eq!(quantile_of_2015(&five, 75.0), Some(5.0));
        assert_eq!(deviation(&[1.0, 2.0, 3.0, 4.0, 100.0]), Some(1.0));
    }
}
