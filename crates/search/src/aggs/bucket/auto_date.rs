//! `auto_date_histogram`: at most so many buckets of a length that suits the dates.
//!
//! Which length is known once every date is seen; documents are kept until then and shown to what is below after it.

use super::no_order;
use crate::aggs::deferred::Segments;
use crate::aggs::format::Format;
use crate::aggs::values::{ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs, check_collected};
use dsl::aggs::AutoDateAgg;
use model::date::{CalendarUnit, Interval, Rounding, TimeZone};
use model::{Error, Result};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tantivy::DocId;

/// A unit of time, its letter, about how long it is, and how many of it may make one bucket.
struct TimeUnit {
    name: &'static str,
    unit: CalendarUnit,
    letter: &'static str,
    millis: i64,
    steps: &'static [usize],
}

const UNITS: &[TimeUnit] = &[
    TimeUnit {
        name: "second",
        unit: CalendarUnit::Second,
        letter: "s",
        millis: 1_000,
        steps: &[1, 5, 10, 30],
    },
    TimeUnit {
        name: "minute",
        unit: CalendarUnit::Minute,
        letter: "m",
        millis: 60_000,
        steps: &[1, 5, 10, 30],
    },
    TimeUnit {
        name: "hour",
        unit: CalendarUnit::Hour,
        letter: "h",
        millis: 3_600_000,
        steps: &[1, 3, 12],
    },
    TimeUnit {
        name: "day",
        unit: CalendarUnit::Day,
        letter: "d",
        millis: 86_400_000,
        steps: &[1, 7],
    },
    TimeUnit {
        name: "month",
        unit: CalendarUnit::Month,
        letter: "M",
        millis: 2_592_000_000,
        steps: &[1, 3],
    },
    TimeUnit {
        name: "year",
        unit: CalendarUnit::Year,
        letter: "y",
        millis: 31_536_000_000,
        steps: &[1, 5, 10, 20, 50, 100],
    },
];

impl TimeUnit {
    fn most(&self) -> usize {
        self.steps.last().copied().unwrap_or(1)
    }
    fn rounding(&self, tz: &TimeZone) -> Rounding {
        Rounding {
            interval: Interval::Calendar(self.unit),
            tz: tz.clone(),
            offset: 0,
        }
    }
}

/// The buckets of one answer: starts, and which unit and step they have.
struct BucketPlan {
    starts: Vec<i64>,
    interval: String,
}

/// Chooses buckets for dates in order.
fn plan(dates: &[i64], target: usize, first_unit: usize, tz: &TimeZone) -> BucketPlan {
    let (Some(first), Some(last)) = (dates.first(), dates.last()) else {
        return BucketPlan {
            starts: Vec::new(),
            interval: format!("1{}", UNITS[first_unit].letter),
        };
    };
    debug_assert!(dates.is_sorted(), "dates of a bucket ascend");
    let needed = |unit: &TimeUnit| {
        let rounding = unit.rounding(tz);
        // An estimate first: counting seconds of centuries takes long.
        let rough = (last - first) / unit.millis;
        if rough > (target * unit.most()) as i64 * 2 + 2 {
            return usize::MAX;
        }
        let (mut key, end) = (rounding.round(*first), rounding.round(*last));
        let mut count = 1;
        while key < end {
            key = rounding.next(key);
            count += 1;
        }
        count
    };
    let mut at = first_unit;
    while at + 1 < UNITS.len() && needed(&UNITS[at]) > target * UNITS[at].most() {
        at += 1;
    }
    let unit = &UNITS[at];
    let rounding = unit.rounding(tz);
    let (mut key, end) = (rounding.round(*first), rounding.round(*last));
    let mut all = vec![key];
    while key < end {
        key = rounding.next(key);
        all.push(key);
    }
    debug_assert!(all.is_sorted_by(|a, b| a < b), "each bucket begins after the one before");
    let mut step = 1;
    if all.len() > target {
        let fits = unit.steps.iter().find(|step| all.len().div_ceil(**step) <= target);
        step = fits.copied().unwrap_or(1);
    }
    BucketPlan {
        starts: all.into_iter().step_by(step).collect(),
        interval: format!("{step}{}", unit.letter),
    }
}

/// A document that waits: segment, document, score, its dates.
type Kept = (u32, DocId, f32, Vec<i64>);

/// Collects dates.
pub(in crate::aggs) struct AutoDates {
    source: ValuesSource,
    target: usize,
    first_unit: usize,
    tz: TimeZone,
    kept: Vec<Vec<Kept>>,
    total: usize,
    segments: Segments,
    plans: Vec<(BucketPlan, Vec<u32>, Vec<u64>)>,
    values: Vec<f64>,
    subs: Subs,
}

impl AutoDates {
    pub(in crate::aggs) fn new(spec: &AutoDateAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<AutoDates> {
        let mut source = ValuesSource::new(&spec.source, Wants::Numbers, "auto_date_histogram", cx)?;
        let tz = spec
            .time_zone
            .as_deref()
            .map(model::date::parse_zone)
            .transpose()?
            .unwrap_or(TimeZone::UTC);
        if let (Format::Date(format, _), Some(_)) = (&source.format, &spec.time_zone) {
            source.format = Format::Date(format.clone(), Some(tz.clone()));
        }
        let first_unit = match spec.minimum_interval.as_deref() {
            None => 0,
            Some(name) => UNITS.iter().position(|u| u.name == name).ok_or_else(|| {
                Error::illegal(format!(
                    "minimum_interval must be one of [year, month, day, hour, minute, second], not [{name}]"
                ))
            })?,
        };
        Ok(AutoDates {
            source,
            target: spec.buckets,
            first_unit,
            tz,
            kept: Vec::new(),
            total: 0,
            segments: Segments::default(),
            plans: Vec::new(),
            values: Vec::new(),
            subs,
        })
    }
}

impl Collector for AutoDates {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.segments.begin(at);
        self.source.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.source.numbers(doc, score, &mut self.values)?;
        if self.values.is_empty() {
            return Ok(());
        }
        self.total += 1;
        check_collected(self.total)?;
        let at = bucket as usize;
        if at >= self.kept.len() {
            self.kept.resize_with(at + 1, Vec::new);
        }
        let dates = self.values.iter().map(|v| *v as i64).collect();
        self.kept[at].push((self.segments.current(), doc, score, dates));
        Ok(())
    }
    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        let mut all: BTreeMap<(u32, DocId, u32), f32> = BTreeMap::new();
        let mut next = 0u32;
        for kept in std::mem::take(&mut self.kept) {
            let mut dates: Vec<i64> = kept.iter().flat_map(|k| k.3.iter().copied()).collect();
            dates.sort_unstable();
            let plan = plan(&dates, self.target, self.first_unit, &self.tz);
            let own: Vec<u32> = (0..plan.starts.len() as u32).map(|n| next + n).collect();
            next += plan.starts.len() as u32;
            check_collected(next as usize)?;
            let mut counts = vec![0u64; own.len()];
            for (segment, doc, score, dates) in kept {
                let mut places: Vec<usize> = dates
                    .iter()
                    .filter_map(|date| plan.starts.partition_point(|start| start <= date).checked_sub(1))
                    .collect();
                places.dedup();
                for place in places {
                    counts[place] += 1;
                    all.insert((segment, doc, own[place]), score);
                }
            }
            self.plans.push((plan, own, counts));
        }
        let waiting = all
            .into_iter()
            .map(|((segment, doc, bucket), score)| (segment, doc, bucket, score));
        self.segments.show(waiting, &mut self.subs, cx)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let known = (bucket != EMPTY).then(|| self.plans.get(bucket as usize)).flatten();
        let Some((plan, own, counts)) = known else {
            let interval = format!("1{}", UNITS[self.first_unit].letter);
            return Ok(json!({ "buckets": [], "interval": interval }));
        };
        assert!(
            own.len() == plan.starts.len() && counts.len() == own.len(),
            "each span of dates has its bucket and its count"
        );
        to.count(own.len())?;
        let mut list = Vec::with_capacity(own.len());
        for ((start, own), count) in plan.starts.iter().zip(own).zip(counts) {
            let mut out = Map::new();
            if let Some(text) = self.source.format.text(*start as f64) {
                out.insert("key_as_string".into(), text.into());
            }
            out.insert("key".into(), json!(start));
            out.insert("doc_count".into(), json!(count));
            self.subs.finish(if *count == 0 { EMPTY } else { *own }, &mut out, to)?;
            list.push(Value::Object(out));
        }
        Ok(json!({ "buckets": list, "interval": plan.interval }))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("auto_date_histogram"))
    }
    fn wire_type(&self) -> &'static str {
        "auto_date_histogram"
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
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

    fn check(dates: &[i64], target: usize, interval: &str, buckets: usize) {
        let plan = plan(dates, target, 0, &TimeZone::UTC);
        assert_eq!((plan.interval.as_str(), plan.starts.len()), (interval, buckets));
    }

    #[test]
    fn lengths() {
        const DAY: i64 = 86_400_000;
        check(&[0], 10, "1s", 1);
        check(&[0, 25 * DAY], 10, "7d", 4);
        check(&[0, 5 * DAY], 10, "1d", 6);
        check(&[1_483_228_800_000, 1_637_000_000_000], 10, "1y", 5);
        check(&[0, 365 * DAY], 5, "3M", 5);
    }
}
