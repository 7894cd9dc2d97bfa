//! Pipelines inside an aggregation: something for each of its buckets, in their order.

use super::moving_average::{MovingAverage, linear_weighted};
use super::path;
use crate::aggs::AggregationContext;
use crate::aggs::format::{Format, number};
use crate::interrupt::Interrupt;
use dsl::aggs::{Agg, AggKind, DateInterval};
use dsl::json::{Reading, read};
use dsl::query::script_source::ScriptSource;
use model::{Error, ErrorKind, Result};
use script::{Budget, Env, Host, Params};
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::VecDeque;

struct Job<'a> {
    name: &'a str,
    kind: &'a str,
    paths: &'a Value,
    body: &'a Map<String, Value>,
    meta: Option<&'a Map<String, Value>>,
}

/// Works out the parent pipelines of an aggregation over its buckets; one that reads another comes after it.
pub(super) fn run(agg: &Agg, list: &mut Vec<Value>, cx: &AggregationContext<'_>) -> Result<()> {
    let mut jobs: Vec<Job<'_>> = agg
        .subs
        .iter()
        .filter_map(|sub| match &sub.kind {
            AggKind::Pipeline {
                kind,
                buckets_path,
                body,
            } if !kind.ends_with("_bucket") => Some(Job {
                name: &sub.name,
                kind,
                paths: buckets_path,
                body,
                meta: sub.meta.as_ref(),
            }),
            _ => None,
        })
        .collect();
    while !jobs.is_empty() {
        let ready = jobs
            .iter()
            .position(|job| !jobs.iter().any(|other| other.name != job.name && reads(job, other.name)));
        let Some(ready) = ready else {
            return Err(Error::illegal(format!(
                "Cyclical dependency found with aggregation [{}]",
                jobs[0].name
            )));
        };
        let job = jobs.remove(ready);
        one(&job, agg, list, cx)?;
    }
    Ok(())
}

fn all_paths(paths: &Value) -> Vec<&str> {
    match paths {
        Value::String(path) => vec![path],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::Object(map) => map.values().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn reads(job: &Job<'_>, name: &str) -> bool {
    let hits = |path: &str| path.split(['>', '.', '[']).next() == Some(name);
    let sorts = job.kind == "bucket_sort" && sort_keys(job.body).iter().any(|(path, _)| hits(path));
    sorts || all_paths(job.paths).into_iter().any(hits)
}

fn sort_keys(body: &Map<String, Value>) -> Vec<(String, bool)> {
    let one = |value: &Value| -> Vec<(String, bool)> {
        match value {
            Value::String(path) => vec![(path.clone(), true)],
            Value::Object(map) => map
                .iter()
                .map(|(path, how)| {
                    let text = how
                        .as_str()
                        .or_else(|| how.get("order").and_then(Value::as_str))
                        .unwrap_or("asc");
                    (path.clone(), !text.eq_ignore_ascii_case("desc"))
                })
                .collect(),
            _ => Vec::new(),
        }
    };
    match body.get("sort") {
        Some(Value::Array(list)) => list.iter().flat_map(one).collect(),
        Some(value) => one(value),
        None => Vec::new(),
    }
}

/// The number of a bucket; a gap is NaN, or zero where that was asked for.
fn at(bucket: &Value, path: &str, body: &Map<String, Value>) -> f64 {
    let Some(object) = bucket.as_object() else { return f64::NAN };
    let value = path::value(object, path);
    let empty = object.get("doc_count").and_then(Value::as_u64) == Some(0) && path != "_count";
    let policy = body.get("gap_policy").and_then(Value::as_str);
    match policy {
        Some("insert_zeros") if value.is_nan() || empty => 0.0,
        Some("keep_values") => value,
        _ if empty => f64::NAN,
        _ => value,
    }
}

fn put(bucket: &mut Value, job: &Job<'_>, value: Option<f64>, more: Option<(&str, f64)>) {
    let mut out = Map::new();
    if let Some(meta) = job.meta {
        out.insert("meta".into(), Value::Object(meta.clone()));
    }
    out.insert("value".into(), value.map_or(Value::Null, number));
    let format = job
        .body
        .get("format")
        .and_then(Value::as_str)
        .map(|pattern| Format::Decimal(pattern.to_owned()));
    if let Some(text) = format.zip(value).and_then(|(format, value)| format.text(value)) {
        out.insert("value_as_string".into(), text.into());
    }
    if let Some((name, value)) = more {
        out.insert(name.into(), number(value));
    }
    if let Some(bucket) = bucket.as_object_mut() {
        bucket.insert(job.name.to_owned(), Value::Object(out));
    }
}

fn one(job: &Job<'_>, agg: &Agg, list: &mut Vec<Value>, cx: &AggregationContext<'_>) -> Result<()> {
    let first = all_paths(job.paths).first().copied().unwrap_or("_count").to_owned();
    let values = |list: &[Value]| -> Vec<f64> { list.iter().map(|bucket| at(bucket, &first, job.body)).collect() };
    match job.kind {
        "cumulative_sum" => {
            let mut sum = 0.0;
            for bucket in list {
                let value = at(bucket, &first, job.body);
                if !value.is_nan() {
                    sum += value;
                }
                put(bucket, job, Some(sum), None);
            }
        }
        "derivative" => {
            let unit = job.body.get("unit").and_then(Value::as_str).map(unit_ms).transpose()?;
            let mut last: Option<(f64, f64)> = None;
            let name = first.split(['>', '.', '[']).next().unwrap_or_default().to_owned();
            for bucket in list {
                // Where there is nothing to read there is no difference, and none for the next one.
                if !name.starts_with('_') && bucket.get(&name).is_none() {
                    last = None;
                    continue;
                }
                let value = at(bucket, &first, job.body);
                let key = bucket.get("key").and_then(Value::as_f64).unwrap_or(f64::NAN);
                // Beside a gap there is no difference: it is shown as null.
                if let Some((last_key, before)) = last {
                    let more = unit.map(|unit| ("normalized_value", (value - before) / ((key - last_key) / unit)));
                    put(bucket, job, Some(value - before), more);
                }
                last = Some((key, value));
            }
        }
        "serial_diff" => {
            let lag = whole(job.body, "lag").map_or(1, |n| usize::try_from(n).unwrap_or(1)).max(1);
            let values = values(list);
            for place in lag..list.len() {
                let (now, before) = (values[place], values[place - lag]);
                if !now.is_nan() && !before.is_nan() {
                    put(&mut list[place], job, Some(now - before), None);
                }
            }
        }
        "moving_fn" => {
            let seen = values(list);
            moving(job, list, &seen, cx)?;
        }
        "moving_avg" => {
            let seen = values(list);
            moving_avg(job, list, &seen)?;
        }
        "bucket_script" | "bucket_selector" => run_script(job, list, cx)?,
        "bucket_sort" => sort(job, list)?,
        other => {
            let _ = agg;
            return Err(Error::illegal(format!("pipeline aggregation [{other}] is not supported")));
        }
    }
    Ok(())
}

fn unit_ms(text: &str) -> Result<f64> {
    use model::date::{CalendarUnit, Interval};
    let steps = crate::aggs::bucket::interval_of(&DateInterval::Calendar(text.to_owned()))
        .or_else(|_| crate::aggs::bucket::interval_of(&DateInterval::Fixed(text.to_owned())))?;
    Ok(match steps {
        Interval::Fixed(ms) => ms as f64,
        Interval::Calendar(unit) => match unit {
            CalendarUnit::Second => 1e3,
            CalendarUnit::Minute => 6e4,
            CalendarUnit::Hour => 36e5,
            CalendarUnit::Day => 864e5,
            CalendarUnit::Week => 6048e5,
            CalendarUnit::Month => 2_629_746e3,
            CalendarUnit::Quarter => 7_889_238e3,
            CalendarUnit::Year => 31_556_952e3,
        },
    })
}

fn compile(job: &Job<'_>, cx: &AggregationContext<'_>) -> Result<(script::Program, Map<String, Value>)> {
    let spec = job.body.get("script").cloned().unwrap_or(Value::Null);
    let node = read(spec.to_string().as_bytes(), Reading::default())?;
    let source = ScriptSource::parse(node, cx.dialect)?;
    Ok((cx.plan.compile(&source)?, source.params))
}

/// Scripts of pipelines reach nothing outside; they end with their search.
struct Nothing<'a>(&'a Interrupt);
impl Host for Nothing<'_> {
    fn check_interrupt(&self) -> Result<()> {
        self.0.check()
    }
}

fn run_script(job: &Job<'_>, list: &mut Vec<Value>, cx: &AggregationContext<'_>) -> Result<()> {
    let (program, base) = compile(job, cx)?;
    let named: Vec<(String, String)> = match job.paths {
        Value::Object(map) => map
            .iter()
            .filter_map(|(name, path)| Some((name.clone(), path.as_str()?.to_owned())))
            .collect(),
        paths => all_paths(paths)
            .into_iter()
            .enumerate()
            .map(|(at, path)| (format!("_value{at}"), path.to_owned()))
            .collect(),
    };
    let mut kept = Vec::with_capacity(list.len());
    for mut bucket in std::mem::take(list) {
        let mut params = base.clone();
        let mut gap = false;
        for (name, path) in &named {
            let value = at(&bucket, path, job.body);
            gap |= value.is_nan();
            params.insert(name.clone(), number(value));
        }
        if gap {
            // A script has nothing to work on: no value, and a selector keeps nothing it cannot ask.
            if job.kind == "bucket_script" {
                kept.push(bucket);
            }
            continue;
        }
        let params = Params::from_json(&params);
        let result = program.run(&mut Env {
            params: &params,
            host: &mut Nothing(&cx.plan.interrupt),
            budget: Budget::default(),
        })?;
        if job.kind == "bucket_script" {
            match result.as_f64() {
                Some(value) => put(&mut bucket, job, Some(value), None),
                None if matches!(result, script::Value::Null) => {}
                None => {
                    return Err(Error::new(
                        ErrorKind::AggregationExecution,
                        format!("series_arithmetic script for reducer [{}] must return a Number", job.name),
                    ));
                }
            }
            kept.push(bucket);
        } else if matches!(result, script::Value::Bool(true)) || result.as_f64() == Some(1.0) {
            kept.push(bucket);
        }
    }
    *list = kept;
    Ok(())
}

/// A whole number among the options: its text does too, and what is behind the point goes.
pub(super) fn whole(body: &serde_json::Map<String, Value>, name: &str) -> Option<i64> {
    match body.get(name)? {
        Value::Number(n) => n.as_i64().or_else(|| n.as_f64().map(|n| n as i64)),
        Value::String(text) => text.trim().parse::<f64>().ok().map(|n| n as i64),
        _ => None,
    }
}

fn sort(job: &Job<'_>, list: &mut Vec<Value>) -> Result<()> {
    let keys = sort_keys(job.body);
    let whole = |name: &str| whole(job.body, name).and_then(|n| usize::try_from(n).ok());
    if !keys.is_empty() {
        let read = |bucket: &Value, path: &str| -> Value {
            if path == "_key" {
                return bucket.get("key").cloned().unwrap_or(Value::Null);
            }
            number(at(bucket, path, job.body))
        };
        let mut rows: Vec<(Vec<Value>, Value)> = std::mem::take(list)
            .into_iter()
            .map(|bucket| (keys.iter().map(|(path, _)| read(&bucket, path)).collect(), bucket))
            .collect();
        rows.retain(|(values, _)| values.iter().any(|value| !value.is_null()));
        rows.sort_by(|(a, _), (b, _)| {
            for (place, (_, ascending)) in keys.iter().enumerate() {
                let found = match (&a[place], &b[place]) {
                    (Value::String(a), Value::String(b)) => a.cmp(b),
                    (Value::Null, Value::Null) => Ordering::Equal,
                    (Value::Null, _) => return Ordering::Greater,
                    (_, Value::Null) => return Ordering::Less,
                    (a, b) => a.as_f64().unwrap_or(f64::NAN).total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
                };
                let found = if *ascending { found } else { found.reverse() };
                if found != Ordering::Equal {
                    return found;
                }
            }
            Ordering::Equal
        });
        *list = rows.into_iter().map(|(_, bucket)| bucket).collect();
    }
    let from = whole("from").unwrap_or(0).min(list.len());
    list.drain(..from);
    if let Some(size) = whole("size") {
        list.truncate(size);
    }
    Ok(())
}

/// `moving_fn`: a script over a window of values before each bucket, `shift` further on.
fn moving(job: &Job<'_>, list: &mut [Value], values: &[f64], cx: &AggregationContext<'_>) -> Result<()> {
    let window = whole(job.body, "window")
        .map_or(5, |n| usize::try_from(n).unwrap_or(1))
        .max(1);
    let shift = whole(job.body, "shift").unwrap_or(0);
    let script = match job.body.get("script") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(map)) => map.get("source").and_then(Value::as_str).unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let name = script
        .trim()
        .strip_prefix("MovingFunctions.")
        .and_then(|rest| rest.split('(').next())
        .map(str::to_owned);
    let custom = if name.is_none() { Some(compile(job, cx)?) } else { None };
    let numbers: Vec<(usize, f64)> = values
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, value)| !value.is_nan())
        .collect();
    for (order, (place, _)) in numbers.iter().enumerate() {
        let end = (order as i64 + shift).clamp(0, numbers.len() as i64) as usize;
        let start = end.saturating_sub(window);
        let seen: Vec<f64> = numbers[start..end].iter().map(|(_, value)| *value).collect();
        let result = match (&name, &custom) {
            (Some(name), _) => moving_function(name, &seen, &script)?,
            (None, Some((program, base))) => {
                let mut params = base.clone();
                params.insert("values".into(), seen.iter().map(|value| number(*value)).collect());
                let params = Params::from_json(&params);
                program.run_f64(&mut Env {
                    params: &params,
                    host: &mut Nothing(&cx.plan.interrupt),
                    budget: Budget::default(),
                })?
            }
            (None, None) => f64::NAN,
        };
        put(&mut list[*place], job, Some(result).filter(|value| !value.is_nan()), None);
    }
    Ok(())
}

/// `moving_avg`: a model of the values before each bucket, of which the bucket's own is none. Where there are too few for
/// the model the bucket has no average.
fn moving_avg(job: &Job<'_>, list: &mut [Value], values: &[f64]) -> Result<()> {
    let average = MovingAverage::parse(job.name, job.body)?;
    let numbers = values.iter().copied().enumerate().filter(|(_, value)| !value.is_nan());
    let mut before: VecDeque<f64> = VecDeque::new();
    for (place, value) in numbers {
        if let Some(found) = average.next(before.make_contiguous()) {
            put(&mut list[place], job, Some(found), None);
        }
        before.push_back(value);
        if before.len() > average.window() {
            before.pop_front();
        }
    }
    Ok(())
}

fn moving_function(name: &str, values: &[f64], script: &str) -> Result<f64> {
    let n = values.len() as f64;
    let arguments: Vec<f64> = script
        .split_once(',')
        .map(|(_, rest)| {
            rest.trim_end_matches(')')
                .split(',')
                .filter_map(|text| text.trim().parse().ok())
                .collect()
        })
        .unwrap_or_default();
    let avg = if values.is_empty() {
        f64::NAN
    } else {
        values.iter().sum::<f64>() / n
    };
    Ok(match name {
        "max" => values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN),
        "min" => values.iter().copied().reduce(f64::min).unwrap_or(f64::NAN),
        "sum" => values.iter().sum(),
        "unweightedAvg" => avg,
        "stdDev" => (values.iter().map(|value| (value - avg).powi(2)).sum::<f64>() / n).sqrt(),
        "linearWeightedAvg" => linear_weighted(values).unwrap_or(f64::NAN),
        "ewma" => {
            let alpha = arguments.first().copied().unwrap_or(0.3);
            values
                .iter()
                .copied()
                .reduce(|last, value| value * alpha + last * (1.0 - alpha))
                .unwrap_or(f64::NAN)
        }
        other => return Err(Error::illegal(format!("MovingFunctions.{other} is not supported"))),
    })
}
