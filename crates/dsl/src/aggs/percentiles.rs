//! `percentiles` and `percentile_ranks`.

use super::metric::required_source;
use super::options::{put, source_body};
use super::value_source::option;
use super::{AggKind, ValueSource};
use crate::json::{Fields, Node};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value, json};

pub(super) fn percentiles(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "percentiles";
    let source = required_source(fields, dialect)?;
    let percents = option(fields, KIND, "percents", |n| numbers(n, "percents"))?;
    let hdr = check_digest(fields, name, dialect)?;
    let percents = percents.unwrap_or_else(|| vec![1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0]);
    if let Some(bad) = percents.iter().find(|p| !(0.0..=100.0).contains(*p)) {
        let cause = Error::illegal(format!("percent must be in [0,100], got [{bad}]"));
        return Err(unbuilt(KIND, cause, dialect));
    }
    Ok(AggKind::Percentiles {
        source,
        percents,
        keyed: fields.take_bool("keyed")?.unwrap_or(true),
        hdr,
    })
}

pub(super) fn ranks(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "percentile_ranks";
    let source = required_source(fields, dialect)?;
    let values = option(fields, KIND, "values", |n| numbers(n, "values"))?
        .ok_or_else(|| unbuilt(KIND, shape::missing_required("values"), dialect))?;
    let hdr = check_digest(fields, name, dialect)?;
    Ok(AggKind::PercentileRanks {
        source,
        values,
        keyed: fields.take_bool("keyed")?.unwrap_or(true),
        hdr,
    })
}

/// The refusal of a value that is built of all fields at once.
fn unbuilt(kind: &str, cause: Error, dialect: Dialect) -> Error {
    if dialect.rules.refusals_are_unwrapped {
        return cause;
    }
    let reason = format!("Failed to build [{kind}] after last required field arrived");
    Error::new(model::ErrorKind::XContentParse, reason).with_cause(cause)
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
    if dialect.rules.refuses_percentile_options_of_1 {
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

/// The body of either, `name` being the option that has its numbers.
pub(super) fn render(source: &ValueSource, name: &str, numbers: &[f64], keyed: bool, hdr: Option<u8>) -> Map<String, Value> {
    let mut body = source_body(source);
    body.insert(name.into(), json!(numbers));
    body.insert("keyed".into(), keyed.into());
    let digits = |digits: u8| json!({ "number_of_significant_value_digits": digits });
    put(&mut body, "hdr", hdr.map(digits));
    body
}
