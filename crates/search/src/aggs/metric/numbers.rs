//! `avg`, `sum`, `min`, `max`, `stats`, `extended_stats`: what can be told from running sums.

use super::super::block_values::{BlockNumbers, EXACT_MAX};
use super::super::blocks::Block;
use super::super::fork::same_kind;
use super::super::format::{Format, number};
use super::super::values::ValuesSource;
use super::super::{At, Collector, Finish};
use super::{one, unnamed_metric};
use model::{Error, Result};
use serde_json::{Map, Value};
use tantivy::DocId;

/// Running sums; sums carry what rounding lost (Kahan), as Elasticsearch's do.
#[derive(Clone, Copy, Debug)]
pub(in crate::aggs) struct Moments {
    pub(in crate::aggs) count: u64,
    pub(in crate::aggs) sum: f64,
    lost: f64,
    squares: f64,
    squares_lost: f64,
    pub(in crate::aggs) min: f64,
    pub(in crate::aggs) max: f64,
}

impl Default for Moments {
    fn default() -> Moments {
        Moments {
            count: 0,
            sum: 0.0,
            lost: 0.0,
            squares: 0.0,
            squares_lost: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

fn kahan(sum: &mut f64, lost: &mut f64, value: f64) {
    if !value.is_finite() {
        *sum += value;
    }
    if sum.is_finite() {
        let corrected = value - *lost;
        let next = *sum + corrected;
        *lost = (next - *sum) - corrected;
        *sum = next;
    }
}

impl Moments {
    /// One more value.
    #[inline]
    pub(in crate::aggs) fn add(&mut self, value: f64) {
        self.count += 1;
        kahan(&mut self.sum, &mut self.lost, value);
        kahan(&mut self.squares, &mut self.squares_lost, value * value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
    /// One more value, whose square nobody asks for.
    #[inline]
    fn add_without_square(&mut self, value: f64) {
        self.count += 1;
        kahan(&mut self.sum, &mut self.lost, value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
    /// More whole values, whose squares nobody asks for and whose sum is exact.
    #[inline]
    fn add_whole(&mut self, values: &[i64]) {
        let (mut sum, mut min, mut max) = (0i64, i64::MAX, i64::MIN);
        for value in values {
            sum += value;
            min = min.min(*value);
            max = max.max(*value);
        }
        self.count += values.len() as u64;
        kahan(&mut self.sum, &mut self.lost, sum as f64);
        self.min = self.min.min(min as f64);
        self.max = self.max.max(max as f64);
    }
    /// The values of both.
    fn absorb(&mut self, other: &Moments) {
        self.count += other.count;
        for part in [other.sum, -other.lost] {
            kahan(&mut self.sum, &mut self.lost, part);
        }
        for part in [other.squares, -other.squares_lost] {
            kahan(&mut self.squares, &mut self.squares_lost, part);
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
    /// The mean, if there is any value.
    pub(in crate::aggs) fn avg(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
    fn some(&self, value: f64) -> Option<f64> {
        (self.count > 0).then_some(value)
    }
    fn variance(&self) -> Option<f64> {
        let n = self.count as f64;
        self.some((self.squares - self.sum * self.sum / n) / n)
            .map(|v| if v < 0.0 { 0.0 } else { v })
    }
    fn variance_sampling(&self) -> Option<f64> {
        let n = self.count as f64;
        self.some((self.squares - self.sum * self.sum / n) / (n - 1.0))
            .map(|v| if v < 0.0 { 0.0 } else { v })
    }
    fn get(&self, name: &str, sigma: f64) -> Option<f64> {
        let avg = self.avg();
        let deviation = self.variance().map(f64::sqrt);
        let sampling = self.variance_sampling().map(f64::sqrt);
        let bound = |deviation: Option<f64>, sign: f64| Some(avg? + sign * sigma * deviation?);
        match name {
            "count" => Some(self.count as f64),
            "sum" => Some(self.sum),
            "min" => self.some(self.min),
            "max" => self.some(self.max),
            "avg" | "value" => avg,
            "sum_of_squares" => self.some(self.squares),
            "variance" | "variance_population" => self.variance(),
            "variance_sampling" => self.variance_sampling(),
            "std_deviation" | "std_deviation_population" => deviation,
            "std_deviation_sampling" => sampling,
            "upper" | "upper_population" | "std_upper" => bound(deviation, 1.0),
            "lower" | "lower_population" | "std_lower" => bound(deviation, -1.0),
            "upper_sampling" => bound(sampling, 1.0),
            "lower_sampling" => bound(sampling, -1.0),
            _ => None,
        }
    }
}

/// The answer of `stats`.
pub(in crate::aggs) fn stats(moments: &Moments, format: &Format) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("count".into(), moments.count.into());
    const NAMES: [&str; 4] = ["min", "max", "avg", "sum"];
    let values = NAMES.map(|name| (name, moments.get(name, 0.0)));
    for (name, value) in values {
        out.insert(name.into(), value.map_or(Value::Null, number));
    }
    if moments.count > 0 {
        for (name, value) in values {
            if let Some(text) = value.and_then(|value| format_value(format, value)) {
                out.insert(format!("{name}_as_string"), text);
            }
        }
    }
    out
}

/// A formatted value; booleans stay what they are.
fn format_value(format: &Format, value: f64) -> Option<Value> {
    match format {
        Format::Bool => Some((value != 0.0).into()),
        format => format.text(value).map(Value::from),
    }
}

/// A deviation is text, be it that of flags.
fn in_words(shown: Value) -> Value {
    match shown {
        Value::Bool(flag) => flag.to_string().into(),
        other => other,
    }
}

/// The answer of `extended_stats`; `first_members`: without those that later versions added.
pub(in crate::aggs) fn extended_stats(moments: &Moments, sigma: f64, format: &Format, first_members: bool) -> Map<String, Value> {
    let number_of = |name: &str| moments.get(name, sigma).map_or(Value::Null, number);
    let mut out = stats(moments, &Format::Raw);
    let names: &[&str] = if first_members {
        &["sum_of_squares", "variance", "std_deviation"]
    } else {
        &[
            "sum_of_squares",
            "variance",
            "variance_population",
            "variance_sampling",
            "std_deviation",
            "std_deviation_population",
            "std_deviation_sampling",
        ]
    };
    for name in names {
        out.insert((*name).into(), number_of(name));
    }
    let bounds: &[&str] = if first_members {
        &["upper", "lower"]
    } else {
        &[
            "upper",
            "lower",
            "upper_population",
            "lower_population",
            "upper_sampling",
            "lower_sampling",
        ]
    };
    let texts = bounds.iter().filter_map(|name| {
        let value = moments.get(name, sigma)?;
        Some(((*name).to_owned(), in_words(format_value(format, value)?)))
    });
    let texts: Map<String, Value> = if moments.count > 0 { texts.collect() } else { Map::new() };
    let bounds: Map<String, Value> = bounds.iter().map(|name| ((*name).to_owned(), number_of(name))).collect();
    out.insert("std_deviation_bounds".into(), Value::Object(bounds));
    if !texts.is_empty() && !first_members {
        out.insert("std_deviation_bounds_as_string".into(), Value::Object(texts));
    }
    if moments.count > 0 {
        for name in ["min", "max", "avg", "sum"].iter().chain(names) {
            if let Some(text) = moments.get(name, sigma).and_then(|value| format_value(format, value)) {
                let text = if name.starts_with("std_") { in_words(text) } else { text };
                out.insert(format!("{name}_as_string"), text);
            }
        }
    }
    out
}

/// Collects sums.
pub(in crate::aggs) struct Numbers {
    source: ValuesSource,
    kind: &'static str,
    sigma: f64,
    all: Vec<Moments>,
    values: Vec<f64>,
    block: BlockNumbers,
    /// No sum of all values so far is further from 0.
    sum_most: u64,
}

impl Numbers {
    pub(in crate::aggs) fn new(source: ValuesSource, kind: &'static str, sigma: f64) -> Numbers {
        Numbers {
            source,
            kind,
            sigma,
            all: Vec::new(),
            values: Vec::new(),
            block: BlockNumbers::default(),
            sum_most: 0,
        }
    }
    /// Adds the values of a block, which were read.
    fn add_block(&mut self, block: &Block<'_>, numbers: &BlockNumbers) {
        let end = block.buckets_end();
        if end > self.all.len() && !numbers.list.is_empty() {
            self.all.resize_with(end, Moments::default);
        }
        let bucket = |value: usize| block.bucket(numbers.rows.place(value)) as usize;
        let squares = matches!(self.kind, "stats" | "extended_stats");
        let most = numbers.whole_most.unwrap_or(u64::MAX);
        self.sum_most = self.sum_most.saturating_add(most.saturating_mul(numbers.list.len() as u64));
        if squares || self.sum_most > EXACT_MAX {
            for (value, number) in numbers.list.iter().enumerate() {
                let moments = &mut self.all[bucket(value)];
                if squares {
                    moments.add(*number);
                } else {
                    moments.add_without_square(*number);
                }
            }
            return;
        }
        // Neighbours often fall into one bucket: their sum is exact, so it does not matter how it is added up.
        let mut from = 0;
        while from < numbers.whole.len() {
            let own = bucket(from);
            let mut to = from + 1;
            while to < numbers.whole.len() && bucket(to) == own {
                to += 1;
            }
            self.all[own].add_whole(&numbers.whole[from..to]);
            from = to;
        }
    }
    fn at(&self, bucket: u32) -> Moments {
        self.all.get(bucket as usize).copied().unwrap_or_default()
    }
}

impl Collector for Numbers {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.source.segment(at)
    }
    #[inline]
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        self.sum_most = u64::MAX;
        let mut values = std::mem::take(&mut self.values);
        self.source.numbers(doc, score, &mut values)?;
        if !values.is_empty() {
            let at = bucket as usize;
            if at >= self.all.len() {
                self.all.resize_with(at + 1, Moments::default);
            }
            let moments = &mut self.all[at];
            values.iter().for_each(|value| moments.add(*value));
        }
        self.values = values;
        Ok(())
    }
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        let mut numbers = std::mem::take(&mut self.block);
        if self.source.numbers_of_block(block, &mut numbers) {
            self.add_block(block, &numbers);
            self.block = numbers;
            return Ok(());
        }
        self.block = numbers;
        block.each(|doc, score, bucket| self.collect(doc, score, bucket))
    }
    /// A variance is the difference of two large sums, so the order of its values shows.
    fn is_divisible(&self) -> bool {
        self.kind != "extended_stats"
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: Numbers = same_kind(other)?;
        for (moments, bucket) in other.all.iter().zip(buckets).filter(|(moments, _)| moments.count > 0) {
            let bucket = *bucket as usize;
            if bucket >= self.all.len() {
                self.all.resize_with(bucket + 1, Moments::default);
            }
            self.all[bucket].absorb(moments);
        }
        self.sum_most = self.sum_most.saturating_add(other.sum_most);
        Ok(())
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let moments = self.at(bucket);
        Ok(match self.kind {
            "stats" | "extended_stats" if moments.count == 0 && to.cx.dialect.rules.sum_of_nothing_is_null => {
                let mut out = match self.kind {
                    "stats" => stats(&moments, &self.source.format),
                    _ => extended_stats(&moments, self.sigma, &self.source.format, true),
                };
                // In 2015 the sum of nothing was nothing.
                out.insert("sum".into(), Value::Null);
                Value::Object(out)
            }
            "stats" => Value::Object(stats(&moments, &self.source.format)),
            "extended_stats" => Value::Object(extended_stats(
                &moments,
                self.sigma,
                &self.source.format,
                to.cx.dialect.rules.omits_later_members,
            )),
            kind => one(moments.get(kind, 0.0), &self.source),
        })
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        let many = matches!(self.kind, "stats" | "extended_stats");
        let name = match (rest, many) {
            ([], false) | (["value"], false) => self.kind,
            ([name], true) => name,
            ([], true) => {
                return Err(unnamed_metric());
            }
            _ => {
                return Err(Error::illegal(format!(
                    "Unknown value key [{}] for single-value metric aggregation [{}]. Either use [value] as key or drop the key all together.",
                    rest.join("."),
                    self.kind
                )));
            }
        };
        let moments = self.at(bucket);
        let empty = match name {
            "min" => f64::INFINITY,
            "max" => f64::NEG_INFINITY,
            _ => f64::NAN,
        };
        Ok(moments.get(name, self.sigma).unwrap_or(empty))
    }
    fn wants_scores(&self) -> bool {
        self.source.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        self.kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sums() {
        let rows: [(&[f64], &str, Value); 5] = [
            (&[], "avg", json!(null)),
            (&[], "sum", json!(0.0)),
            (&[1.0, 2.0, 3.0, 4.0], "variance", json!(1.25)),
            (&[1.0, 2.0, 3.0, 4.0], "upper", json!(2.5 + 2.0 * 1.25_f64.sqrt())),
            (&[7.0], "min", json!(7.0)),
        ];
        for (values, name, expected) in rows {
            let mut moments = Moments::default();
            values.iter().for_each(|value| moments.add(*value));
            assert_eq!(
                moments.get(name, 2.0).map_or(Value::Null, number),
                expected,
                "{name} of {values:?}"
            );
        }
    }
}
