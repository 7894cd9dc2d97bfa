//! Aggregations over several fields of a document together: `multi_terms`, `matrix_stats`.

use super::value_source::option;
use super::{AggKind, BucketOrder, ValueSource, options};
use crate::json::{Fields, Node};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct MultiTermsAgg {
    /// At least two, each with the type of its values where the field is not mapped.
    pub sources: Vec<(ValueSource, Option<String>)>,
    pub size: usize,
    pub shard_size: Option<usize>,
    pub min_doc_count: u64,
    pub shard_min_doc_count: u64,
    pub order: Vec<BucketOrder>,
    pub show_term_doc_count_error: bool,
    pub collect_mode: Option<String>,
}

/// Which of several values of a document counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixMode {
    Avg,
    Min,
    Max,
    Sum,
    Median,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MatrixAgg {
    pub fields: Vec<String>,
    /// The values of fields that a document lacks.
    pub missing: BTreeMap<String, f64>,
    pub mode: MatrixMode,
}

/// Reads `multi_terms`.
pub(super) fn multi_terms(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "multi_terms";
    let positive = |option: &str, node: &Node| {
        let number = node.i64(option)?;
        let fits = usize::try_from(number).ok().filter(|n| *n > 0);
        fits.ok_or_else(|| Error::illegal(format!("[{option}] must be greater than 0. Found [{number}] in [{name}]")))
    };
    let sources = fields.read("terms", &["START_ARRAY"], |node| {
        let mut out = Vec::new();
        for item in node.clone().items() {
            out.push(config(item, dialect)?);
        }
        match out.len() {
            0 => Err(Error::illegal(format!(
                "multi term aggregation must has at least 2 terms. Found [0] in [{name}]"
            ))),
            1 => Err(Error::illegal(format!(
                "multi term aggregation must has at least 2 terms. Found [1] in [{name}] Use terms aggregation for single term aggregation"
            ))),
            _ => Ok(out),
        }
    })?;
    let size = option(fields, KIND, "size", |n| positive("size", n))?.unwrap_or(10);
    let shard_size = option(fields, KIND, "shard_size", |n| positive("shard_size", n))?;
    let shard_min_doc_count = option(fields, KIND, "shard_min_doc_count", |n| {
        let number = n.i64("shard_min_doc_count")?;
        u64::try_from(number).map_err(|_| {
            Error::illegal(format!(
                "[shard_min_doc_count] must be greater than or equal to 0. Found [{number}] in [{name}]"
            ))
        })
    })?;
    Ok(AggKind::MultiTerms(Box::new(MultiTermsAgg {
        sources: sources.ok_or_else(|| shape::missing_required("terms"))?,
        size,
        shard_size,
        min_doc_count: options::take_min_doc_count(fields, KIND, name)?.unwrap_or(1),
        shard_min_doc_count: shard_min_doc_count.unwrap_or(0),
        order: options::take_order(fields, KIND)?.unwrap_or_else(options::by_count),
        show_term_doc_count_error: fields.take_bool("show_term_doc_count_error")?.unwrap_or(false),
        collect_mode: options::take_collect_mode(fields, KIND)?,
    })))
}

/// One of the fields of `multi_terms`, with the type that its values have where it is not mapped.
fn config(node: Node, dialect: Dialect) -> Result<(ValueSource, Option<String>)> {
    let mut fields = node.fields("field_config")?.of_object(true);
    let source = ValueSource::take(&mut fields, dialect)?;
    let value_type = fields.take_string("value_type")?;
    for unused in ["time_zone", "userValueTypeHint"] {
        if fields.has(unused) {
            return Err(Error::illegal(format!("[{unused}] of [multi_terms] is not supported")));
        }
    }
    fields.finish()?;
    if source.field.is_none() && source.script.is_none() {
        return Err(Error::illegal(
            "[field] and [script] cannot both be null.  Please specify one or the other.",
        ));
    }
    Ok((source, value_type))
}

/// Reads `matrix_stats`, which is read by hand elsewhere too: what it does not know is an unexpected token.
pub(super) fn matrix_stats(fields: Fields, name: &str) -> Result<AggKind> {
    let mut out = MatrixAgg {
        fields: Vec::new(),
        missing: BTreeMap::new(),
        mode: MatrixMode::Avg,
    };
    for (key, value) in fields.remaining() {
        match key.as_str() {
            "fields" => out.fields = shape::strings(value, &key)?,
            "missing" => {
                for (field, node) in shape::object(value, "missing")? {
                    out.missing.insert(field, node.f64("missing")?);
                }
            }
            "mode" => {
                let text = value.string("mode")?;
                out.mode = match text.to_ascii_lowercase().as_str() {
                    "avg" => MatrixMode::Avg,
                    "min" => MatrixMode::Min,
                    "max" => MatrixMode::Max,
                    "sum" => MatrixMode::Sum,
                    "median" => MatrixMode::Median,
                    _ => return Err(Error::illegal(format!("Illegal sort mode: {text}"))),
                };
            }
            // Results are not written in a format by the reference either.
            "format" => drop(value.string("format")?),
            _ => {
                let kind = value.kind_name();
                return Err(value.error(format!("Unexpected token {kind} [{key}] in [{name}].")));
            }
        }
    }
    out.fields.sort_unstable();
    out.fields.dedup();
    Ok(AggKind::MatrixStats(Box::new(out)))
}

impl MultiTermsAgg {
    /// Its body as a request writes it.
    pub(super) fn render(&self) -> serde_json::Map<String, Value> {
        let mut out = serde_json::Map::new();
        let one = |(source, value_type): &(ValueSource, Option<String>)| {
            let mut body = serde_json::Map::new();
            source.render_into(&mut body);
            if let Some(kind) = value_type {
                body.insert("value_type".into(), kind.as_str().into());
            }
            Value::Object(body)
        };
        out.insert("terms".into(), self.sources.iter().map(one).collect());
        out.insert("size".into(), self.size.into());
        if let Some(size) = self.shard_size {
            out.insert("shard_size".into(), size.into());
        }
        out.insert("min_doc_count".into(), self.min_doc_count.into());
        if self.shard_min_doc_count > 0 {
            out.insert("shard_min_doc_count".into(), self.shard_min_doc_count.into());
        }
        out.insert("order".into(), options::order(&self.order));
        if self.show_term_doc_count_error {
            out.insert("show_term_doc_count_error".into(), true.into());
        }
        if let Some(mode) = &self.collect_mode {
            out.insert("collect_mode".into(), mode.as_str().into());
        }
        out
    }
}

impl MatrixAgg {
    /// Its body as a request writes it.
    pub(super) fn render(&self) -> serde_json::Map<String, Value> {
        let mut out = serde_json::Map::new();
        out.insert("fields".into(), self.fields.clone().into());
        if !self.missing.is_empty() {
            let missing = self.missing.iter().map(|(name, value)| (name.clone(), Value::from(*value)));
            out.insert("missing".into(), Value::Object(missing.collect()));
        }
        out.insert("mode".into(), format!("{:?}", self.mode).to_lowercase().into());
        out
    }
}
