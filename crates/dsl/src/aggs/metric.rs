//! Metrics: one number, or a few, of all documents of a bucket.

use super::value_source::option;
use super::{AggKind, Metric, ScriptedAgg, TopHitsAgg, ValueSource};
use crate::json::{Fields, Node};
use crate::query::hits::{FieldAndFormat, Highlight, Sort, SourceSpec, parse_script_fields};
use crate::query::script_source::ScriptSource;
use crate::shape;
use model::{Dialect, Error, Result};

/// The metrics that are told by nothing but their source.
pub(crate) const PLAIN: &[(&str, Metric)] = &[
    ("avg", Metric::Avg),
    ("sum", Metric::Sum),
    ("min", Metric::Min),
    ("max", Metric::Max),
    ("stats", Metric::Stats),
    ("value_count", Metric::ValueCount),
    ("median_absolute_deviation", Metric::MedianAbsoluteDeviation),
];

/// Those that are read here.
pub(super) const KINDS: &[&str] = &[
    "avg",
    "sum",
    "min",
    "max",
    "stats",
    "value_count",
    "median_absolute_deviation",
    "extended_stats",
    "cardinality",
    "percentiles",
    "percentile_ranks",
    "weighted_avg",
    "top_hits",
    "top_metrics",
    "scripted_metric",
    "matrix_stats",
    "geo_bounds",
    "geo_centroid",
];

/// Reads a metric; `None` if `kind` is none.
pub(crate) fn parse(name: &str, kind: &str, body: Node, dialect: Dialect) -> Result<Option<AggKind>> {
    let mut fields = body
        .fields(kind)?
        .of_object(!dialect.typed && !matches!(kind, "top_hits" | "matrix_stats"));
    let out = match kind {
        "extended_stats" => {
            let source = required_source(&mut fields, dialect)?;
            let sigma = option(&mut fields, kind, "sigma", |n| not_negative(n.f64("sigma")?, "sigma"))?.unwrap_or(2.0);
            AggKind::ExtendedStats { source, sigma }
        }
        "cardinality" => {
            let source = required_source(&mut fields, dialect)?;
            fields.take("rehash");
            fields.take("execution_hint");
            let threshold = option(&mut fields, kind, "precision_threshold", |n| {
                let number = n.i64("precision_threshold")?;
                u64::try_from(number).map_err(|_| {
                    Error::illegal(format!(
                        "[precisionThreshold] must be greater than or equal to 0. Found [{number}] in [{name}]"
                    ))
                })
            })?;
            if source.format.is_some() && !dialect.typed {
                let reason = "[cardinality] unknown field [format]";
                return Err(Error::new(model::ErrorKind::XContentParse, reason));
            }
            AggKind::Cardinality {
                source,
                precision_threshold: threshold,
            }
        }
        "percentiles" => {
            let source = required_source(&mut fields, dialect)?;
            let percents = option(&mut fields, kind, "percents", |n| numbers(n, "percents"))?;
            let hdr = check_digest(&mut fields, name, dialect)?;
            let percents = percents.unwrap_or_else(|| vec![1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0]);
            if let Some(bad) = percents.iter().find(|p| !(0.0..=100.0).contains(*p)) {
                let cause = Error::illegal(format!("percent must be in [0,100], got [{bad}]"));
                return Err(unbuilt(kind, cause, dialect));
            }
            AggKind::Percentiles {
                source,
                percents,
                keyed: fields.take_bool("keyed")?.unwrap_or(true),
                hdr,
            }
        }
        "percentile_ranks" => {
            let source = required_source(&mut fields, dialect)?;
            let values = option(&mut fields, kind, "values", |n| numbers(n, "values"))?
                .ok_or_else(|| unbuilt(kind, shape::required("values"), dialect))?;
            let hdr = check_digest(&mut fields, name, dialect)?;
            AggKind::PercentileRanks {
                source,
                values,
                keyed: fields.take_bool("keyed")?.unwrap_or(true),
                hdr,
            }
        }
        "weighted_avg" => {
            let value = part(&mut fields, "value", dialect)?;
            let weight = part(&mut fields, "weight", dialect)?;
            let format = fields.take_string("format")?;
            fields.take("value_type");
            AggKind::WeightedAvg {
                value: ValueSource { format, ..value },
                weight,
            }
        }
        "top_hits" => return parse_top_hits(fields, dialect).map(|hits| Some(AggKind::TopHits(Box::new(hits)))),
        "matrix_stats" => return super::combined::matrix_stats(fields, name).map(Some),
        "geo_bounds" => super::places::bounds(&mut fields)?,
        "geo_centroid" => super::places::centroid(&mut fields)?,
        "top_metrics" => parse_top_metrics(&mut fields, dialect)?,
        "scripted_metric" => {
            let mut take = |name: &str| {
                fields.read(name, &["VALUE_STRING", "START_OBJECT"], |node| {
                    ScriptSource::parse(node.clone(), dialect)
                })
            };
            let init = take("init_script")?;
            let (map, combine, reduce) = (take("map_script")?, take("combine_script")?, take("reduce_script")?);
            let params = fields.take_map("params")?.unwrap_or_default();
            if !dialect.typed {
                // What is too much is told before what is missing.
                fields.clone().finish()?;
            }
            let needed = |found: Option<ScriptSource>, part: &str| match found {
                None if !dialect.typed => {
                    let cause = Error::illegal(format!("[{part}] must not be null: [{name}]"));
                    Err(shape::all_shards_failed(cause))
                }
                found => Ok(found),
            };
            AggKind::ScriptedMetric(Box::new(ScriptedAgg {
                init,
                map: map.ok_or_else(|| Error::illegal("[map_script] must not be null: [scripted_metric]"))?,
                combine: needed(combine, "combine_script")?,
                reduce: needed(reduce, "reduce_script")?,
                params,
            }))
        }
        _ => {
            let Some((_, metric)) = PLAIN.iter().find(|(name, _)| *name == kind) else {
                return Ok(None);
            };
            let source = required_source(&mut fields, dialect)?;
            if dialect.typed {
                fields.take("compression");
            } else if *metric == Metric::MedianAbsoluteDeviation {
                // How precisely the reference estimates; we count.
                fields.take_f64("compression")?;
            }
            AggKind::Metric(*metric, source)
        }
    };
    if dialect.typed {
        super::of_2015::leftovers(&mut fields, kind);
    }
    fields.finish()?;
    super::value_source::named(&out, dialect)?;
    Ok(Some(out))
}

/// What is built of all fields at once could not be.
fn unbuilt(kind: &str, cause: Error, dialect: Dialect) -> Error {
    if dialect.typed {
        return cause;
    }
    let reason = format!("Failed to build [{kind}] after last required field arrived");
    Error::new(model::ErrorKind::XContentParse, reason).caused_by(cause)
}

/// A field or a script must be named; the typed dialect finds out later.
fn required_source(fields: &mut Fields, dialect: Dialect) -> Result<ValueSource> {
    let source = ValueSource::take(fields, dialect)?;
    fields.take("value_type");
    fields.take("valueType");
    if source.field.is_none() && source.script.is_none() && dialect.typed && fields.is_empty() {
        return Err(super::of_2015::nothing_to_read());
    }
    Ok(source)
}

fn part(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<ValueSource> {
    let node = fields.take(name).ok_or_else(|| {
        shape::all_shards_failed(Error::illegal(format!(
            "Could not find field name [{name}] in multiValuesSource"
        )))
    })?;
    let at = (node.line, node.col);
    let mut inner = node.fields(name)?.of_object(!dialect.typed);
    let source = required_source(&mut inner, dialect)?;
    if source.field.as_deref().is_none_or(str::is_empty) && source.script.is_none() && !dialect.typed {
        let cause = Error::illegal("Required one of fields [field, script], but none were specified. ");
        return Err(shape::failed_field("weighted_avg", name, at, cause));
    }
    inner.finish()?;
    Ok(source)
}

/// How precisely percentiles are wanted: so many digits of an HDR histogram; otherwise ours are exact, so any precision is
/// kept. What is none is refused.
fn check_digest(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<Option<u8>> {
    let compression = |node: Node| -> Result<()> {
        let number = node.f64("compression")?;
        if number < 0.0 {
            let reason = format!("[compression] must be greater than or equal to 0. Found [{number:?}] in [{name}]");
            return Err(Error::illegal(reason));
        }
        Ok(())
    };
    let digits = |node: Node| -> Result<u8> {
        let number = node.i64("number_of_significant_value_digits")?;
        match u8::try_from(number) {
            Ok(digits) if digits <= 5 => Ok(digits),
            _ => {
                let reason = format!("[numberOfSignificantValueDigits] must be between 0 and 5: [{name}]");
                Err(Error::illegal(reason))
            }
        }
    };
    let strict = fields.is_of_object();
    let refused = |key: &str, cause: Error| {
        if strict {
            shape::failed_field("percentiles", key, (1, 1), cause)
        } else {
            cause
        }
    };
    let (tdigest, hdr) = (fields.take("tdigest"), fields.take("hdr"));
    if tdigest.is_some() && hdr.is_some() {
        return Err(Error::new(
            model::ErrorKind::IllegalState,
            "Only one percentiles method should be declared.",
        )
        .status_of(400));
    }
    if let Some(node) = tdigest {
        let mut options = node.fields("tdigest")?;
        let read = options.take("compression").map(compression).transpose();
        read.map_err(|cause| refused("tdigest", cause))?;
        options.finish()?;
    }
    let mut wanted = None;
    if let Some(node) = hdr {
        let mut options = node.fields("hdr")?;
        let read = options.take("number_of_significant_value_digits").map(digits).transpose();
        wanted = Some(read.map_err(|cause| refused("hdr", cause))?.unwrap_or(3));
        options.finish()?;
    }
    if dialect.typed {
        return Ok(wanted);
    }
    // As they were written before 2.
    fields.take("compression").map(compression).transpose()?;
    let old = fields.take("number_of_significant_value_digits").map(digits).transpose()?;
    if let Some(node) = fields.take("method") {
        let method = node.string("method")?;
        if !matches!(method.as_str(), "tdigest" | "hdr") {
            return Err(node.error(format!("Unknown percentiles method [{method}] in [{name}]")));
        }
        if method == "hdr" {
            wanted = Some(old.unwrap_or(3));
        }
    }
    Ok(wanted)
}

fn numbers(node: &Node, name: &str) -> Result<Vec<f64>> {
    if !node.is_array() {
        return Err(Error::illegal(format!(
            "[{name}] doesn't support values of type: {}",
            node.kind_name()
        )));
    }
    let list: Vec<f64> = node
        .clone()
        .items()
        .into_iter()
        .map(|item| item.f64(name))
        .collect::<Result<_>>()?;
    if list.is_empty() {
        Err(Error::illegal(format!("[{name}] must not be an empty array")))
    } else {
        Ok(list)
    }
}

fn not_negative(number: f64, name: &str) -> Result<f64> {
    if number >= 0.0 {
        Ok(number)
    } else {
        Err(Error::illegal(format!(
            "[{name}] must be greater than or equal to 0. Found [{number}]"
        )))
    }
}

fn parse_top_metrics(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let list = fields.take("metrics").ok_or_else(|| shape::required("metrics"))?;
    let mut metrics = Vec::new();
    for item in list.items() {
        let mut inner = item.fields("metrics")?;
        metrics.push(inner.take_string("field")?.ok_or_else(|| shape::required("field"))?);
        inner.finish()?;
    }
    let sort = fields.take("sort").ok_or_else(|| shape::required("sort"))?;
    let size = fields.take_usize("size")?.unwrap_or(1);
    if size == 0 {
        return Err(Error::illegal("[size] must be more than 0 but was [0]"));
    }
    Ok(AggKind::TopMetrics {
        metrics,
        sort: Sort::parse(sort, dialect)?,
        size,
    })
}

fn parse_top_hits(fields: Fields, dialect: Dialect) -> Result<TopHitsAgg> {
    let mut out = TopHitsAgg {
        from: 0,
        size: 3,
        sort: Vec::new(),
        source: SourceSpec::Default,
        highlight: None,
        explain: false,
        version: false,
        seq_no_primary_term: false,
        track_scores: false,
        docvalue_fields: Vec::new(),
        fields: Vec::new(),
        stored_fields: None,
        script_fields: Vec::new(),
    };
    for (key, value) in fields.remaining() {
        match key.as_str() {
            "from" => out.from = page(&value, &key)?,
            "size" => out.size = page(&value, &key)?,
            "sort" => out.sort = Sort::parse(value, dialect)?,
            "_source" => out.source = SourceSpec::parse(value)?,
            "highlight" => out.highlight = Some(Highlight::parse(value, dialect)?),
            "explain" => out.explain = value.boolean(&key)?,
            "version" => out.version = value.boolean(&key)?,
            "seq_no_primary_term" => out.seq_no_primary_term = value.boolean(&key)?,
            "track_scores" => out.track_scores = value.boolean(&key)?,
            "docvalue_fields" | "fielddata_fields" => out.docvalue_fields = FieldAndFormat::parse_list(value, &key, dialect)?,
            "fields" if dialect.typed => out.stored_fields = Some(shape::strings(value, &key)?),
            "fields" => out.fields = FieldAndFormat::parse_list(value, &key, dialect)?,
            "stored_fields" => out.stored_fields = Some(shape::strings(value, &key)?),
            "script_fields" => out.script_fields = parse_script_fields(value, dialect)?,
            _ => {
                return Err(value.error(format!("Unknown key for a {} in [top_hits]: [{key}].", value.kind_name())));
            }
        }
    }
    Ok(out)
}

fn page(value: &Node, name: &str) -> Result<usize> {
    let number = value.i64(name)?;
    usize::try_from(number).map_err(|_| Error::illegal(format!("[{name}] must be greater than or equal to 0. Found [{number}]")))
}
