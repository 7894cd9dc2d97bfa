//! `diversified_sampler` and `variable_width_histogram`: buckets that are made of what documents were seen.

use super::value_source::option;
use super::{AggKind, DiversifiedAgg, ValueSource, VariableWidthAgg};
use crate::json::Fields;
use crate::shape;
use model::{Dialect, Error, Result};

/// Reads `diversified_sampler`.
pub(super) fn diversified(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "diversified_sampler";
    let source = ValueSource::take(fields, dialect)?;
    let at_least = |what: &'static str, option: &'static str, least: i64, node: &crate::json::Node| {
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

/// Buckets that are kept before the nearest are merged, for each that is shown.
const SHARD_FACTOR: usize = 50;
/// The most values that wait before they are put into buckets.
const BUFFER_MOST: usize = 50_000;

/// Reads `variable_width_histogram`.
pub(super) fn variable_width(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "variable_width_histogram";
    let source = ValueSource::take(fields, dialect)?;
    let above = |option: &'static str, bound: i64, node: &crate::json::Node| {
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
