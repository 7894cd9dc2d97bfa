//! Metrics of one number, or a few: `avg` and its kin, `extended_stats`, `cardinality`, `weighted_avg`.

use super::options::{one, put, source_body};
use super::value_source::{no_value_source, option};
use super::{AggKind, ValueSource};
use crate::json::Fields;
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Avg,
    Sum,
    Min,
    Max,
    Stats,
    ValueCount,
    MedianAbsoluteDeviation,
}

impl Metric {
    /// Its type in requests.
    pub(super) fn name(self) -> &'static str {
        match self {
            Metric::Avg => "avg",
            Metric::Sum => "sum",
            Metric::Min => "min",
            Metric::Max => "max",
            Metric::Stats => "stats",
            Metric::ValueCount => "value_count",
            Metric::MedianAbsoluteDeviation => "median_absolute_deviation",
        }
    }
}

/// A metric that has no options beside its source.
pub(super) fn plain(fields: &mut Fields, metric: Metric, dialect: Dialect) -> Result<AggKind> {
    let source = required_source(fields, dialect)?;
    if dialect.rules.takes_former_options {
        fields.take("compression");
    } else if metric == Metric::MedianAbsoluteDeviation {
        // How precisely the reference estimates; we count.
        fields.take_f64("compression")?;
    }
    Ok(AggKind::Metric(metric, source))
}

pub(super) fn extended_stats(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let source = required_source(fields, dialect)?;
    let sigma = option(fields, "extended_stats", "sigma", |n| not_negative(n.f64("sigma")?, "sigma"))?;
    Ok(AggKind::ExtendedStats {
        source,
        sigma: sigma.unwrap_or(2.0),
    })
}

pub(super) fn cardinality(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    let source = required_source(fields, dialect)?;
    fields.take("rehash");
    fields.take("execution_hint");
    let precision_threshold = option(fields, "cardinality", "precision_threshold", |n| {
        let number = n.i64("precision_threshold")?;
        u64::try_from(number).map_err(|_| {
            Error::illegal(format!(
                "[precisionThreshold] must be greater than or equal to 0. Found [{number}] in [{name}]"
            ))
        })
    })?;
    if source.format.is_some() && !dialect.rules.takes_former_options {
        let reason = "[cardinality] unknown field [format]";
        return Err(Error::new(model::ErrorKind::XContentParse, reason));
    }
    Ok(AggKind::Cardinality {
        source,
        precision_threshold,
    })
}

pub(super) fn weighted_avg(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let value = part(fields, "value", dialect)?;
    let weight = part(fields, "weight", dialect)?;
    let format = fields.take_string("format")?;
    fields.take("value_type");
    Ok(AggKind::WeightedAvg {
        value: ValueSource { format, ..value },
        weight,
    })
}

/// A field or a script must be named; the typed dialect finds out later.
pub(super) fn required_source(fields: &mut Fields, dialect: Dialect) -> Result<ValueSource> {
    let source = ValueSource::take(fields, dialect)?;
    fields.take("value_type");
    fields.take("valueType");
    if source.field.is_none() && source.script.is_none() && dialect.rules.aggregations_fail_at_run && fields.is_empty() {
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
    let mut inner = node.fields(name)?.of_object(!dialect.rules.tolerates_value_types);
    let source = required_source(&mut inner, dialect)?;
    if source.field.as_deref().is_none_or(str::is_empty) && source.script.is_none() && !dialect.rules.tolerates_missing_options {
        let cause = no_value_source("[field, script]");
        return Err(shape::failed_field("weighted_avg", name, at, cause));
    }
    inner.finish()?;
    Ok(source)
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

pub(super) fn render_weighted_avg(value: &ValueSource, weight: &ValueSource) -> Map<String, Value> {
    let mut inner = source_body(value);
    let format = inner.remove("format");
    let mut body = one("value", inner);
    body.insert("weight".into(), Value::Object(source_body(weight)));
    put(&mut body, "format", format);
    body
}

pub(super) fn render_extended_stats(source: &ValueSource, sigma: f64) -> Map<String, Value> {
    let mut body = source_body(source);
    body.insert("sigma".into(), sigma.into());
    body
}

pub(super) fn render_cardinality(source: &ValueSource, precision_threshold: Option<u64>) -> Map<String, Value> {
    let mut body = source_body(source);
    put(&mut body, "precision_threshold", precision_threshold);
    body
}
