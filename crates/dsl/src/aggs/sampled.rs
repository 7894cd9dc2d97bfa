//! `sampler`, `diversified_sampler` and `variable_width_histogram`: buckets of the documents that were seen.

use super::options::source_body;
use super::value_source::option;
use super::{AggKind, ValueSource};
use crate::json::{Fields, Json, Node};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct DiversifiedAgg {
    pub source: ValueSource,
    pub shard_size: usize,
    pub max_docs_per_value: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct VariableWidthAgg {
    pub source: ValueSource,
    pub buckets: usize,
    /// Buckets that are kept before the nearest of them are merged.
    pub shard_size: usize,
    /// Values that wait before they are put into buckets.
    pub initial_buffer: usize,
}

/// Reads `diversified_sampler`.
pub(super) fn parse_diversified(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "diversified_sampler";
    let source = ValueSource::take(fields, dialect)?;
    let at_least = |what: &'static str, option: &'static str, least: i64, node: &Node| {
        let number = node.i64(option)?;
        usize::try_from(number).ok().filter(|_| number >= least).ok_or_else(|| {
            Error::illegal(format!(
                "[{what}] must be greater than or equal to {least}. Found [{number}] in [{name}]"
            ))
        })
    };
    let shard_size = option(fields, KIND, "shard_size", |n| at_least("shardSize", "shard_size", 0, n))?;
    let max = option(fields, KIND, "max_docs_per_value", |n| {
        at_least("maxDocsPerValue", "max_docs_per_value", 0, n)
    })?;
    // How values are looked up; we have one way.
    if let Some(hint) = fields.take_string("execution_hint")?
        && !["map", "global_ordinals", "bytes_hash"].contains(&hint.as_str())
    {
        return Err(Error::illegal(format!(
            "Unknown `execution_hint`: [{hint}], expected any of [map, global_ordinals, bytes_hash]"
        )));
    }
    Ok(AggKind::DiversifiedSampler(Box::new(DiversifiedAgg {
        source,
        shard_size: shard_size.unwrap_or(100),
        max_docs_per_value: max.unwrap_or(1),
    })))
}

/// Reads `sampler`.
pub(super) fn sampler(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    // In 2015 one aggregation was both.
    if dialect.rules.sampler_diversifies && (fields.has("field") || fields.has("script")) {
        return parse_diversified(fields, name, dialect);
    }
    if dialect.rules.sampler_diversifies && fields.take("max_docs_per_value").is_some() {
        return Err(Error::new(
            ErrorKind::SearchParse,
            format!(
                "Sampler aggregation has max_docs_per_value setting but no \"field\" or \"script\" setting to provide values for aggregation \"{name}\""
            ),
        ));
    }
    if dialect.rules.takes_former_options {
        fields.take("execution_hint");
    }
    let given = fields.take("shard_size");
    let number = |node: &Node| matches!(node.value, Json::Number(_));
    let unfit = given
        .iter()
        .find(|node| !dialect.rules.tolerates_value_types && !number(node))
        .map(|node| ("shard_size".to_owned(), node.clone()));
    if let Some((option, node)) = unfit.or_else(|| fields.next_field().filter(|_| !dialect.rules.skips_unknown_keys)) {
        return Err(node.error(format!("Unsupported property \"{option}\" for aggregation \"{name}")));
    }
    Ok(AggKind::Sampler {
        shard_size: given.map(|node| node.usize("shard_size")).transpose()?.unwrap_or(100),
    })
}

/// Buckets that are kept before the nearest are merged, for each that is shown.
const SHARD_FACTOR: usize = 50;
/// The most values that wait before they are put into buckets.
const BUFFER_MOST: usize = 50_000;

/// Reads `variable_width_histogram`.
pub(super) fn variable_width(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "variable_width_histogram";
    let source = ValueSource::take(fields, dialect)?;
    let above = |option: &'static str, bound: i64, node: &Node| {
        let number = node.i64(option)?;
        usize::try_from(number)
            .ok()
            .filter(|_| number > bound)
            .ok_or_else(|| Error::illegal(format!("{option} must be greater than [{bound}] for [{name}]")))
    };
    let buckets = option(fields, KIND, "buckets", |n| above("buckets", 0, n))?.unwrap_or(10);
    let shard_size = option(fields, KIND, "shard_size", |n| above("shard_size", 1, n))?;
    let initial_buffer = option(fields, KIND, "initial_buffer", |n| above("initial_buffer", 0, n))?;
    let shard_size = shard_size.unwrap_or(buckets.saturating_mul(SHARD_FACTOR));
    let initial_buffer = initial_buffer.unwrap_or(shard_size.saturating_mul(10).min(BUFFER_MOST));
    let refused = |reason: String| Err(shape::all_shards_failed(Error::illegal(reason)));
    let merged = shard_size / 4 * 3 + shard_size % 4 * 3 / 4;
    if merged < buckets {
        return refused(format!(
            "3/4 of shard_size must be at least buckets but was [{merged}<{buckets}] for [{name}]"
        ));
    }
    if initial_buffer < merged {
        return refused(format!(
            "initial_buffer must be at least buckets but was [{initial_buffer}<{merged}] for [{name}]"
        ));
    }
    Ok(AggKind::VariableWidth(Box::new(VariableWidthAgg {
        source,
        buckets,
        shard_size,
        initial_buffer,
    })))
}

impl DiversifiedAgg {
    /// Its body as a request writes it.
    pub(super) fn render(&self) -> Map<String, Value> {
        let mut body = source_body(&self.source);
        body.insert("shard_size".into(), self.shard_size.into());
        body.insert("max_docs_per_value".into(), self.max_docs_per_value.into());
        body
    }
}

impl VariableWidthAgg {
    /// Its body as a request writes it.
    pub(super) fn render(&self) -> Map<String, Value> {
        let mut body = source_body(&self.source);
        body.insert("buckets".into(), self.buckets.into());
        body.insert("shard_size".into(), self.shard_size.into());
        body.insert("initial_buffer".into(), self.initial_buffer.into());
        body
    }
}
