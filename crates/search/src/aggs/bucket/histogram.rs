//! `histogram` and `date_histogram`: buckets of a width, also where nothing falls into them.

use super::{Keyed, no_order};
use crate::aggs::block_values::BlockNumbers;
use crate::aggs::blocks::{Block, Buckets, Gathered};
use crate::aggs::codes::{code_double, code_long, double_code, long_code};
use crate::aggs::fork::same_kind;
use crate::aggs::format::{Format, number};
use crate::aggs::values::{ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs, order_path};
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

/// Spans of time whose moments have one key, by their beginnings. Rounding by a calendar costs more than to look for the span.
#[derive(Default)]
struct RoundedSpans {
    list: Vec<DateSpan>,
    /// The one that was found last.
    last: usize,
}

/// The moments from `from` on and before `to`.
#[derive(Clone, Copy)]
struct DateSpan {
    from: i64,
    to: i64,
    code: u64,
    /// The bucket of the key below the first bucket above.
    bucket: Option<u32>,
}

impl RoundedSpans {
    /// Spans that are kept; more keys are rounded one by one.
    const MOST: usize = 4096;

    /// The span of a moment, where it has one: clocks of the zone never change, so later moments have no lesser keys.
    #[inline]
    fn find(&mut self, value: i64, rounding: &Rounding) -> Option<&mut DateSpan> {
        let is_in = |span: &DateSpan| span.from <= value && value < span.to;
        if !self.list.get(self.last).is_some_and(is_in) {
            let after = self.list.partition_point(|span| span.from <= value);
            self.last = match after.checked_sub(1) {
                Some(at) if is_in(&self.list[at]) => at,
                _ => self.make(after, value, rounding)?,
            };
        }
        self.list.get_mut(self.last)
    }

    /// Makes the span of a moment at a place, if it is as long as its key says.
    #[cold]
    fn make(&mut self, at: usize, value: i64, rounding: &Rounding) -> Option<usize> {
        if self.list.len() >= RoundedSpans::MOST || rounding.tz.to_fixed_offset().is_err() {
            return None;
        }
        let from = rounding.round(value);
        let to = rounding.next(from);
        let whole = from <= value && value < to && rounding.round(from) == from && rounding.round(to - 1) == from;
        let apart = self.list.get(at).is_none_or(|next| to <= next.from)
            && at.checked_sub(1).is_none_or(|before| self.list[before].to <= from);
        if !whole || !apart {
            return None;
        }
        let span = DateSpan {
            from,
            to,
            code: long_code(from),
            bucket: None,
        };
        self.list.insert(at, span);
        debug_assert!(
            self.list.is_sorted_by(|a, b| a.to <= b.from),
            "search.md S25: no two spans have a moment in common"
        );
        Some(at)
    }
}

/// Lists that are filled for each block of documents.
#[derive(Default)]
struct HistogramScratch {
    numbers: BlockNumbers,
    /// The bucket of each value, and the place of its document.
    own: Vec<u32>,
    places: Vec<u32>,
    gathered: Gathered,
}

/// Both histograms.
pub(in crate::aggs) struct Histogram {
    source: ValuesSource,
    steps: Steps,
    least: u64,
    extended: Option<(Option<f64>, Option<f64>)>,
    hard: Option<(Option<f64>, Option<f64>)>,
    order: Vec<BucketOrder>,
    keyed: bool,
    buckets: Keyed,
    subs: Subs,
    values: Vec<f64>,
    block: HistogramScratch,
    rounded: RoundedSpans,
    spans: Vec<(f64, f64)>,
    /// No more buckets than these are made of one range.
    most: usize,
}

impl Histogram {
    pub(in crate::aggs) fn numbers(spec: &HistogramAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<Histogram> {
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
            source: ValuesSource::new(&spec.source, Wants::Numbers, "histogram", cx)?,
            steps,
            least: spec.min_doc_count,
            extended: spec.extended_bounds,
            hard: spec.hard_bounds,
            order: spec.order.clone(),
            keyed: spec.keyed,
            buckets: Keyed::new(cx),
            subs,
            values: Vec::new(),
            block: HistogramScratch::default(),
            rounded: RoundedSpans::default(),
            spans: Vec::new(),
            most: cx.plan.max_buckets,
        })
    }

    pub(in crate::aggs) fn dates(spec: &DateHistogramAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<Histogram> {
        let mut source = ValuesSource::new(&spec.source, Wants::Numbers, "date_histogram", cx)?;
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
            block: HistogramScratch::default(),
            rounded: RoundedSpans::default(),
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

    /// Counts the values of a block, which were read, and shows its documents to what is below. Documents have one value at most.
    fn count_block(&mut self, block: &Block<'_>, spare: &mut HistogramScratch) -> Result<()> {
        let HistogramScratch {
            numbers,
            own,
            places,
            gathered,
        } = spare;
        own.clear();
        places.clear();
        match &self.steps {
            Steps::Date(rounding) if numbers.whole_most.is_some() => {
                for (value, number) in numbers.whole.iter().enumerate() {
                    let above = block.bucket(numbers.rows.place(value));
                    let bucket = match self.rounded.find(*number, rounding) {
                        Some(span) if above == 0 => match span.bucket {
                            Some(bucket) => bucket,
                            None => *span.bucket.insert(self.buckets.bucket(above, span.code)?),
                        },
                        Some(span) => self.buckets.bucket(above, span.code)?,
                        None => self.buckets.bucket(above, self.steps.code(*number as f64))?,
                    };
                    self.buckets.add(bucket);
                    own.push(bucket);
                }
            }
            steps => {
                let mut last: Option<(u32, u64, u32)> = None;
                for (value, number) in numbers.list.iter().enumerate() {
                    if number.is_nan() {
                        continue;
                    }
                    let place = numbers.rows.place(value);
                    let (above, code) = (block.bucket(place), steps.code(*number));
                    let bucket = match last {
                        Some((before, known, bucket)) if (before, known) == (above, code) => bucket,
                        _ => self.buckets.bucket(above, code)?,
                    };
                    last = Some((above, code, bucket));
                    self.buckets.add(bucket);
                    own.push(bucket);
                    places.push(place as u32);
                }
            }
        }
        if self.subs.is_empty() {
            return Ok(());
        }
        let one_each = numbers.rows.one_each() && own.len() == block.docs.len();
        if one_each {
            return self.subs.collect_block(&Block {
                buckets: Buckets::Each(own),
                ..*block
            });
        }
        if places.is_empty() {
            places.extend((0..own.len()).map(|value| numbers.rows.place(value) as u32));
        }
        assert_eq!(
            places.len(),
            own.len(),
            "search.md S24: each value has its document and its bucket"
        );
        let places = places.iter().map(|place| *place as usize);
        self.subs.collect_block(&gathered.at(block, places, own))
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
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        let mut spare = std::mem::take(&mut self.block);
        let readable = self.source.ranges.is_none() && self.hard.is_none();
        let read = readable && self.source.numbers_of_block(block, &mut spare.numbers) && !spare.numbers.rows.some_have_several();
        let done = if read {
            self.count_block(block, &mut spare)
        } else {
            block.each(|doc, score, bucket| self.collect(doc, score, bucket))
        };
        self.block = spare;
        done
    }
    fn is_divisible(&self) -> bool {
        self.subs.are_divisible()
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: Histogram = same_kind(other)?;
        // The code of a key is the same for all threads.
        let own = self.buckets.absorb(&other.buckets, buckets, Ok)?;
        self.subs.absorb(other.subs, &own)
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
