//! `histogram`, `date_histogram` and `auto_date_histogram`: buckets of one width.

use super::options::{by_key, order, put, source_body, take_min_doc_count, take_order};
use super::value_source::option;
use super::{AggKind, BucketOrder, ValueSource};
use crate::json::{Fields, Node};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Persona, Result, Topic};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct HistogramAgg {
    pub source: ValueSource,
    pub interval: f64,
    pub offset: f64,
    pub min_doc_count: u64,
    pub extended_bounds: Option<(Option<f64>, Option<f64>)>,
    pub hard_bounds: Option<(Option<f64>, Option<f64>)>,
    pub order: Vec<BucketOrder>,
    pub keyed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DateInterval {
    /// "month", "1M", "quarter", ...
    Calendar(String),
    /// "30s", "12h", "7d".
    Fixed(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct DateHistogramAgg {
    pub source: ValueSource,
    pub interval: DateInterval,
    pub time_zone: Option<String>,
    /// "+6h", "-1d".
    pub offset: Option<String>,
    pub min_doc_count: u64,
    /// Dates, or date math, as text or numbers.
    pub extended_bounds: Option<(Option<Value>, Option<Value>)>,
    pub hard_bounds: Option<(Option<Value>, Option<Value>)>,
    pub order: Vec<BucketOrder>,
    pub keyed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AutoDateAgg {
    pub source: ValueSource,
    pub buckets: usize,
    pub time_zone: Option<String>,
    pub minimum_interval: Option<String>,
}

pub(super) fn parse_histogram(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<HistogramAgg> {
    let source = ValueSource::take(fields, dialect)?;
    let interval = option(fields, "histogram", "interval", |n| match n.f64("interval")? {
        interval if dialect.rules.histograms_have_whole_keys && interval < 1.0 => Err(Error::illegal(format!(
            "Missing required field [interval] for histogram aggregation [{name}]"
        ))),
        interval if interval > 0.0 => Ok(interval),
        interval => Err(Error::illegal(format!(
            "[interval] must be >0 for histogram aggregation [{name}], got [{interval}]"
        ))),
    })?;
    let bounds = |node: &Node| -> Result<(Option<f64>, Option<f64>)> {
        let mut inner = node.clone().fields("bounds")?;
        let bounds = (inner.take_f64("min")?, inner.take_f64("max")?);
        inner.finish()?;
        Ok(bounds)
    };
    Ok(HistogramAgg {
        source,
        interval: interval.ok_or_else(|| shape::all_shards_failed(Error::illegal("interval must be positive, got: 0.0")))?,
        offset: option(fields, "histogram", "offset", |n| n.f64("offset"))?.unwrap_or(0.0),
        min_doc_count: take_min_doc_count(fields, "histogram", name)?.unwrap_or(0),
        extended_bounds: option(fields, "histogram", "extended_bounds", bounds)?,
        hard_bounds: option(fields, "histogram", "hard_bounds", bounds)?,
        order: take_order(fields, "histogram")?.unwrap_or_else(by_key),
        keyed: fields.take_bool("keyed")?.unwrap_or(false),
    })
}

pub(super) fn parse_date_histogram(fields: &mut Fields, dialect: Dialect) -> Result<DateHistogramAgg> {
    const KIND: &str = "date_histogram";
    let source = ValueSource::take(fields, dialect)?;
    let interval = take_date_interval(fields, dialect)?;
    let bounds = |node: &Node| -> Result<(Option<Value>, Option<Value>)> {
        let mut inner = node.clone().fields("bounds")?;
        let bound = |inner: &mut Fields, name: &str| inner.take_value(name).filter(|value| !value.is_null());
        let bounds = (bound(&mut inner, "min"), bound(&mut inner, "max"));
        inner.finish()?;
        Ok(bounds)
    };
    let time_zone = match dialect.rules.takes_former_options.then(|| fields.take("timeZone")).flatten() {
        Some(node) => Some(node.string("time_zone")?),
        None => option(fields, KIND, "time_zone", |n| {
            let zone = n.string("time_zone")?;
            if !dialect.rules.tolerates_unknown_words {
                model::date::parse_zone(&zone)?;
            }
            Ok(zone)
        })?,
    };
    Ok(DateHistogramAgg {
        source,
        time_zone,
        offset: fields.take_string("offset")?,
        min_doc_count: take_min_doc_count(fields, KIND, KIND)?.unwrap_or(0),
        extended_bounds: option(fields, KIND, "extended_bounds", bounds)?,
        hard_bounds: option(fields, KIND, "hard_bounds", bounds)?,
        order: take_order(fields, KIND)?.unwrap_or_else(by_key),
        keyed: fields.take_bool("keyed")?.unwrap_or(false),
        interval: match interval {
            Some(interval) => interval,
            // An unknown option is refused before a missing one.
            None => return Err(fields.clone().finish().err().unwrap_or_else(|| no_interval(dialect))),
        },
    })
}

/// Units of the calendar, in words and as `1x`.
const CALENDAR: &[&str] = &[
    "second", "1s", "minute", "1m", "hour", "1h", "day", "1d", "week", "1w", "month", "1M", "quarter", "1q", "year", "1y",
];

fn take_date_interval(fields: &mut Fields, dialect: Dialect) -> Result<Option<DateInterval>> {
    const KIND: &str = "date_histogram";
    let old = option(fields, KIND, "interval", |n| {
        let text = n.string("interval")?;
        if CALENDAR.contains(&text.as_str()) {
            Ok(DateInterval::Calendar(text))
        } else {
            parse_fixed(&text, dialect).map(DateInterval::Fixed)
        }
    });
    let old = old.map_err(|error| error.about(Topic::DateInterval))?;
    if dialect.persona == Persona::Es2 {
        // There was one interval, and the others were unknown.
        return Ok(old);
    }
    let calendar = option(fields, KIND, "calendar_interval", |n| {
        let text = n.string("calendar_interval")?;
        if CALENDAR.contains(&text.as_str()) {
            Ok(DateInterval::Calendar(text))
        } else {
            Err(Error::illegal(format!(
                "The supplied interval [{text}] could not be parsed as a calendar interval."
            )))
        }
    })?;
    let taken = old.is_some() || calendar.is_some();
    let fixed = option(fields, KIND, "fixed_interval", |n| {
        if taken {
            return Err(Error::illegal(
                "Cannot use [fixed_interval] with [interval] or [calendar_interval] configuration options.",
            ));
        }
        parse_fixed(&n.string("fixed_interval")?, dialect).map(DateInterval::Fixed)
    })?;
    if old.is_some() && calendar.is_some() {
        let cause = Error::illegal("Cannot use [interval] with [fixed_interval] or [calendar_interval] configuration options.");
        return Err(shape::failed_field(KIND, "interval", (1, 1), cause));
    }
    Ok(old.or(calendar).or(fixed))
}

fn no_interval(dialect: Dialect) -> Error {
    let kind = if dialect.rules.search_parse_exceptions {
        ErrorKind::SearchParse
    } else {
        ErrorKind::IllegalArgument
    };
    Error::new(kind, "Invalid interval specified, must be non-null and non-empty")
}

/// A length of time with a unit; 2015 also had weeks, fractions and bare milliseconds.
fn parse_fixed(text: &str, dialect: Dialect) -> Result<String> {
    let bad = || {
        Error::illegal(format!(
            "failed to parse setting [date_histogram.fixedInterval] with value [{text}] as a time value: unit is missing or unrecognized"
        ))
    };
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let amount: f64 = number.parse().map_err(|_| bad())?;
    let millis = match unit.trim() {
        "ms" => 1.0,
        "" if dialect.rules.takes_former_times => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "d" => 86_400_000.0,
        "w" if dialect.rules.takes_former_times => 604_800_000.0,
        _ => return Err(bad()),
    };
    if amount < 0.0 {
        return Err(shape::all_shards_failed(Error::illegal(
            "Zero or negative time interval not supported",
        )));
    }
    let whole = number.bytes().all(|b| b.is_ascii_digit());
    match unit.trim() {
        "" | "w" => Ok(format!("{:.0}ms", amount * millis)),
        _ if whole => Ok(text.to_owned()),
        _ if dialect.rules.takes_former_times => Ok(format!("{:.0}ms", amount * millis)),
        _ => Err(bad()),
    }
}

/// The default of `search.max_buckets` over the widest step of `auto_date_histogram`.
const AUTO_DATE_BUCKETS: usize = 2184;

pub(super) fn parse_auto(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    let source = ValueSource::take(fields, dialect)?;
    let buckets = option(fields, "auto_date_histogram", "buckets", |n| match n.i64("buckets")? {
        number if number > 0 => n.usize("buckets"),
        _ => Err(Error::illegal(format!("buckets must be greater than 0 for [{name}]"))),
    })?;
    let buckets = buckets.unwrap_or(10);
    if buckets > AUTO_DATE_BUCKETS {
        return Err(Error::illegal(format!("buckets must be less than {AUTO_DATE_BUCKETS}")));
    }
    Ok(AggKind::AutoDateHistogram(AutoDateAgg {
        source,
        buckets,
        time_zone: fields.take_string("time_zone")?,
        minimum_interval: fields.take_string("minimum_interval")?,
    }))
}

fn bounds<T: Clone + Into<Value>>(bounds: &(Option<T>, Option<T>)) -> Value {
    let mut out = Map::new();
    put(&mut out, "min", bounds.0.clone());
    put(&mut out, "max", bounds.1.clone());
    Value::Object(out)
}

pub(super) fn render(histogram: &HistogramAgg) -> Map<String, Value> {
    let mut body = source_body(&histogram.source);
    body.insert("interval".into(), json!(histogram.interval));
    if histogram.offset != 0.0 {
        body.insert("offset".into(), json!(histogram.offset));
    }
    body.insert("min_doc_count".into(), histogram.min_doc_count.into());
    put(&mut body, "extended_bounds", histogram.extended_bounds.as_ref().map(bounds));
    put(&mut body, "hard_bounds", histogram.hard_bounds.as_ref().map(bounds));
    body.insert("order".into(), order(&histogram.order));
    if histogram.keyed {
        body.insert("keyed".into(), true.into());
    }
    body
}

pub(super) fn render_date(histogram: &DateHistogramAgg) -> Map<String, Value> {
    let mut body = source_body(&histogram.source);
    match &histogram.interval {
        DateInterval::Calendar(unit) => body.insert("calendar_interval".into(), unit.as_str().into()),
        DateInterval::Fixed(length) => body.insert("fixed_interval".into(), length.as_str().into()),
    };
    put(&mut body, "time_zone", histogram.time_zone.as_deref());
    put(&mut body, "offset", histogram.offset.as_deref());
    body.insert("min_doc_count".into(), histogram.min_doc_count.into());
    put(&mut body, "extended_bounds", histogram.extended_bounds.as_ref().map(bounds));
    put(&mut body, "hard_bounds", histogram.hard_bounds.as_ref().map(bounds));
    body.insert("order".into(), order(&histogram.order));
    if histogram.keyed {
        body.insert("keyed".into(), true.into());
    }
    body
}

pub(super) fn render_auto(auto: &AutoDateAgg) -> Map<String, Value> {
    let mut body = source_body(&auto.source);
    body.insert("buckets".into(), auto.buckets.into());
    put(&mut body, "time_zone", auto.time_zone.as_deref());
    put(&mut body, "minimum_interval", auto.minimum_interval.as_deref());
    body
}
