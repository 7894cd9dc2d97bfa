//! `histogram` and `date_histogram`: buckets of a width, also where nothing falls into them.

use super::{Keyed, no_order};
use crate::aggs::codes::{code_double, code_long, double_code, long_code};
use crate::aggs::format::{Format, number};
use crate::aggs::values::{Source, Wants};
use crate::aggs::{At, Collector, Context, EMPTY, Finish, Subs, order_path};
use dsl::aggs::{BucketOrder, DateHistogramAgg, DateInterval, HistogramAgg};
use model::date::{CalendarUnit, DateFormat, Interval, Rounding, TimeZone};
use model::{Error, Result};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use tantivy::DocId;

/// How values become keys.
pub(super) enum Steps {
    Number { interval: f64, offset: f64 },
    Date(Rounding),
}

impl Steps {
    /// A date histogram's steps.
    pub(super) fn dates(interval: &DateInterval, zone: Option<&str>, offset: Option<&str>) -> Result<Steps> {
        let tz = zone.map(model::date::parse_zone).transpose()?.unwrap_or(TimeZone::UTC);
        let interval = match interval {
            DateInterval::Calendar(name) => Interval::Calendar(CalendarUnit::from_name(name).ok_or_else(|| {
                Error::illegal(format!(
                    "The supplied interval [{name}] could not be parsed as a calendar interval."
                ))
            })?),
            DateInterval::Fixed(text) => match length(text)? {
                0 => return Err(Error::illegal("Zero or negative time interval not supported")),
                length => Interval::Fixed(length),
            },
        };
        let offset = match offset {
            Some(text) => match text.strip_prefix('-') {
                Some(rest) => -length(rest)?,
                None => length(text.strip_prefix('+').unwrap_or(text))?,
            },
            None => 0,
        };
        Ok(Steps::Date(Rounding { interval, tz, offset }))
    }
    /// The code of the key of a value.
    pub(super) fn code(&self, value: f64) -> u64 {
        match self {
            Steps::Number { interval, offset } => double_code(((value - offset) / interval).floor() * interval + offset),
            Steps::Date(rounding) => long_code(rounding.round(value as i64)),
        }
    }
    pub(super) fn value(&self, code: u64) -> f64 {
        match self {
            Steps::Number { .. } => code_double(code),
            Steps::Date(_) => code_long(code) as f64,
        }
    }
    fn next(&self, code: u64) -> u64 {
        match self {
            Steps::Number { interval, offset } => {
                let step = ((code_double(code) - offset) / interval).round() + 1.0;
                double_code(step * interval + offset)
            }
            Steps::Date(rounding) => long_code(rounding.next(code_long(code))),
        }
    }
    fn json(&self, code: u64) -> Value {
        match self {
            Steps::Number { .. } => number(code_double(code)),
            Steps::Date(_) => json!(code_long(code)),
        }
    }
}

/// A length of time with a unit, in milliseconds.
fn length(text: &str) -> Result<i64> {
    let bad = || {
        Error::illegal(format!(
            "failed to parse [{text}] as a time value: unit is missing or unrecognized"
        ))
    };
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let amount: i64 = if split == 0 {
        0
    } else {
        text[..split].parse().map_err(|_| bad())?
    };
    let unit = match &text[split..] {
        "ms" | "" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" | "H" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(bad()),
    };
    amount.checked_mul(unit).ok_or_else(bad)
}

/// Both histograms.
pub(in crate::aggs) struct Histogram {
    source: Source,
    steps: Steps,
    least: u64,
    extended: Option<(Option<f64>, Option<f64>)>,
    hard: Option<(Option<f64>, Option<f64>)>,
    order: Vec<BucketOrder>,
    keyed: bool,
    buckets: Keyed,
    subs: Subs,
    values: Vec<f64>,
    spans: Vec<(f64, f64)>,
    /// No more buckets than these are made of one range.
    most: usize,
}

impl Histogram {
    pub(in crate::aggs) fn numbers(spec: &HistogramAgg, subs: Subs, cx: &Context<'_>) -> Result<Histogram> {
        if let Some((Some(min), Some(max))) = spec.extended_bounds
            && max < min
        {
            return Err(Error::illegal(format!(
                "max bound [{max}] must be greater than min bound [{min}]"
            )));
        }
        let steps = Steps::Number {
            interval: spec.interval,
            offset: spec.offset.rem_euclid(spec.interval),
        };
        Ok(Histogram {
            source: Source::new(&spec.source, Wants::Numbers, "histogram", cx)?,
            steps,
            least: spec.min_doc_count,
            extended: spec.extended_bounds,
            hard: spec.hard_bounds,
            order: spec.order.clone(),
            keyed: spec.keyed,
            buckets: Keyed::new(cx),
            subs,
            values: Vec::new(),
            spans: Vec::new(),
            most: cx.plan.max_buckets,
        })
    }

    pub(in crate::aggs) fn dates(spec: &DateHistogramAgg, subs: Subs, cx: &Context<'_>) -> Result<Histogram> {
        let mut source = Source::new(&spec.source, Wants::Numbers, "date_histogram", cx)?;
        let zone = spec.time_zone.as_deref().map(model::date::parse_zone).transpose()?;
        let format = match &source.format {
            Format::Date(format, _) => format.clone(),
            _ => spec
                .source
                .format
                .as_deref()
                .map(|text| DateFormat::parse_pattern_of(text, cx.pattern_syntax()))
                .transpose()?
                .unwrap_or_default(),
        };
        let bound = |value: &Option<Value>| -> Result<Option<f64>> {
            Ok(match value {
                None => None,
                Some(Value::Number(n)) => n.as_f64(),
                Some(Value::String(text)) => {
                    Some(model::date::parse_math(text, &format, zone.as_ref(), cx.plan.now_ms, false)? as f64)
                }
                Some(other) => return Err(Error::illegal(format!("[{other}] is no date"))),
            })
        };
        let bounds = |pair: &Option<(Option<Value>, Option<Value>)>| {
            pair.as_ref().map(|(min, max)| Ok((bound(min)?, bound(max)?))).transpose()
        };
        let (extended, hard) = (bounds(&spec.extended_bounds)?, bounds(&spec.hard_bounds)?);
        source.format = Format::Date(format.clone(), zone);
        Ok(Histogram {
            source,
            steps: Steps::dates(&spec.interval, spec.time_zone.as_deref(), spec.offset.as_deref())?,
            least: spec.min_doc_count,
            extended,
            hard,
            order: spec.order.clone(),
            keyed: spec.keyed,
            buckets: Keyed::new(cx),
            subs,
            values: Vec::new(),
            spans: Vec::new(),
            most: cx.plan.max_buckets,
        })
    }

    /// A document with ranges is in each bucket that one of them meets.
    fn collect_ranges(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut spans = std::mem::take(&mut self.spans);
        self.source.ranges(doc, &mut spans);
        spans.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut before = None;
        for (from, to) in &spans {
            let (low, high) = self.hard.unwrap_or((None, None));
            let (from, to) = (low.map_or(*from, |low| from.max(low)), high.map_or(*to, |high| to.min(high)));
            let (mut at, last) = (self.steps.code(from), self.steps.code(to));
            let mut made = 0;
            while at <= last {
                if before.is_none_or(|before| at > before) {
                    made += 1;
                    if made > self.most {
                        return Err(too_wide(self.most));
                    }
                    before = Some(at);
                    let own = self.buckets.bucket(bucket, at)?;
                    self.buckets.add(own);
                    self.subs.collect(doc, score, own)?;
                }
                let next = self.steps.next(at);
                if next <= at {
                    return Err(too_wide(self.most));
                }
                at = next;
            }
        }
        self.spans = spans;
        Ok(())
    }

    fn is_date(&self) -> bool {
        matches!(self.steps, Steps::Date(_))
    }

    /// All buckets to show, by key: code, own bucket, count.
    fn rows(&mut self, above: u32, to: &mut Finish<'_>) -> Result<Vec<(u64, u32, u64)>> {
        let mut rows: Vec<(u64, u32, u64)> = if above == EMPTY {
            Vec::new()
        } else {
            let buckets = &mut self.buckets;
            buckets
                .of(above)
                .into_iter()
                .map(|own| (buckets.code(own), own, buckets.count(own)))
                .collect()
        };
        rows.sort_unstable();
        if self.least > 0 {
            rows.retain(|row| row.2 >= self.least);
            to.count(rows.len())?;
            return Ok(rows);
        }
        let (low, high) = self.extended.unwrap_or((None, None));
        let first = rows
            .first()
            .map(|row| row.0)
            .into_iter()
            .chain(low.map(|low| self.steps.code(low)))
            .min();
        let last = rows
            .last()
            .map(|row| row.0)
            .into_iter()
            .chain(high.map(|high| self.steps.code(high)))
            .max();
        let (Some(mut at), Some(last)) = (first, last) else {
            return Ok(rows);
        };
        if rows.is_empty() && (low.is_none() || high.is_none()) {
            return Ok(rows);
        }
        let mut out = Vec::with_capacity(rows.len());
        let mut have = rows.into_iter().peekable();
        loop {
            // Rounding may miss a key by a bit: what is there counts.
            match have.peek() {
                Some(row) if row.0 <= at || same(self.steps.value(row.0), self.steps.value(at)) => {
                    at = row.0;
                    out.extend(have.next());
                }
                _ => out.push((at, EMPTY, 0)),
            }
            to.count(1)?;
            if at >= last && have.peek().is_none() {
                return Ok(out);
            }
            let next = self.steps.next(at);
            if next <= at {
                return Ok(out);
            }
            at = next;
            if at > last && have.peek().is_none() {
                return Ok(out);
            }
        }
    }
}

/// A range without an end, or one that is too long for its steps.
fn too_wide(most: usize) -> Error {
    let reason = format!(
        "Trying to create too many buckets. Must be less than or equal to: [{most}] but was [{}]: a range meets more. Give \
         [hard_bounds], or raise the [search.max_buckets] cluster level setting.",
        most.saturating_add(1)
    );
    Error::new(model::ErrorKind::TooManyBuckets, reason).with("max_buckets", most)
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

impl Collector for Histogram {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)?;
        self.subs.segment(at)
    }
    #[inline]
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        if self.source.ranges.is_some() {
            return self.collect_ranges(doc, score, bucket);
        }
        let mut values = std::mem::take(&mut self.values);
        self.source.numbers(doc, score, &mut values)?;
        if values.len() > 1 {
            values.sort_by(f64::total_cmp);
        }
        let mut last = None;
        for value in &values {
            let code = self.steps.code(*value);
            if last == Some(code) || value.is_nan() {
                continue;
            }
            last = Some(code);
            if let Some((low, high)) = self.hard {
                // A date bound admits the bucket that it lies in; for numbers the bucket without its offset counts.
                let (key, low) = match &self.steps {
                    Steps::Number { offset, .. } => (self.steps.value(code) - offset, low),
                    Steps::Date(_) => (self.steps.value(code), low.map(|low| self.steps.value(self.steps.code(low)))),
                };
                if low.is_some_and(|low| key < low) || high.is_some_and(|high| key > high) {
                    continue;
                }
            }
            let own = self.buckets.bucket(bucket, code)?;
            self.buckets.add(own);
            self.subs.collect(doc, score, own)?;
        }
        self.values = values;
        Ok(())
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let mut rows = self.rows(bucket, to)?;
        let mut orders: Vec<Vec<f64>> = Vec::new();
        for order in &self.order {
            let path = order_path(&order.path, &self.subs);
            let mut values = Vec::new();
            if !matches!(order.path.as_str(), "_key" | "_count") {
                for row in &rows {
                    values.push(self.subs.order(row.1, &path)?);
                }
            }
            orders.push(values);
        }
        let mut places: Vec<usize> = (0..rows.len()).collect();
        places.sort_by(|a, b| {
            for (order, values) in self.order.iter().zip(&orders) {
                let found = match order.path.as_str() {
                    "_key" => rows[*a].0.cmp(&rows[*b].0),
                    "_count" => rows[*a].2.cmp(&rows[*b].2),
                    _ => values[*a].total_cmp(&values[*b]),
                };
                let found = if order.ascending { found } else { found.reverse() };
                if found != Ordering::Equal {
                    return found;
                }
            }
            rows[*a].0.cmp(&rows[*b].0)
        });
        rows = places.into_iter().map(|place| rows[place]).collect();
        let mut list = Vec::with_capacity(rows.len());
        let mut by_key = Map::new();
        for (code, own, count) in rows {
            let mut out = Map::new();
            let text = self
                .source
                .format
                .text(self.steps.value(code))
                .filter(|_| !matches!(self.source.format, Format::Bool));
            if let Some(text) = &text {
                out.insert("key_as_string".into(), text.as_str().into());
            }
            let key = self.steps.value(code);
            // In 2015 the keys of numbers were whole.
            if to.cx.dialect.rules.histograms_have_whole_keys && key.fract() == 0.0 && key.abs() < 1e15 {
                out.insert("key".into(), (key as i64).into());
            } else {
                out.insert("key".into(), self.steps.json(code));
            }
            out.insert("doc_count".into(), count.into());
            self.subs.finish(own, &mut out, to)?;
            if self.keyed {
                let name = text.unwrap_or_else(|| match self.steps.json(code) {
                    // In 2015 the keys of numbers were whole.
                    _ if to.cx.dialect.rules.histograms_have_whole_keys && self.steps.value(code).fract() == 0.0 => {
                        format!("{}", self.steps.value(code) as i64)
                    }
                    _ => format!("{:?}", self.steps.value(code)),
                });
                by_key.insert(name, Value::Object(out));
            } else {
                list.push(Value::Object(out));
            }
        }
        let buckets = if self.keyed {
            Value::Object(by_key)
        } else {
            Value::Array(list)
        };
        Ok(Value::Object(Map::from_iter([("buckets".to_owned(), buckets)])))
    }
    fn order(&mut self, _bucket: u32, _rest: &[&str]) -> Result<f64> {
        Err(no_order("histogram"))
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        if self.is_date() { "date_histogram" } else { "histogram" }
    }
    fn debug(&self) -> Map<String, Value> {
        Map::from_iter([("total_buckets".to_owned(), self.buckets.len().into())])
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
    fn steps() {
        let rows = [
            (5.0, 0.0, 12.0, 10.0, 15.0),
            (12.5, 0.0, -7.0, -12.5, 0.0),
            (1.0, 0.25, 0.1, -0.75, 0.25),
        ];
        for (interval, offset, value, key, next) in rows {
            let steps = Steps::Number { interval, offset };
            let code = steps.code(value);
            assert_eq!(
                (steps.value(code), steps.value(steps.next(code))),
                (key, next),
                "{value} in steps of {interval}"
            );
        }
    }
}
