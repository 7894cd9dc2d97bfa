//! `terms` and `rare_terms`: a bucket for each value.

use super::options::{
    by_count, include, order, parse_include, positive, put, source_body, take_collect_mode, take_min_doc_count, take_order,
    take_shard_min_doc_count, take_value_type,
};
use super::value_source::option;
use super::{BucketOrder, IncludeExclude, ValueSource};
use crate::json::{Fields, Node};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct TermsAgg {
    pub source: ValueSource,
    pub size: usize,
    pub shard_size: Option<usize>,
    pub min_doc_count: u64,
    /// Rarer terms are dropped before the rest is sorted.
    pub shard_min_doc_count: u64,
    pub order: Vec<BucketOrder>,
    pub include: Option<IncludeExclude>,
    pub exclude: Option<IncludeExclude>,
    pub show_term_doc_count_error: bool,
    pub collect_mode: Option<String>,
    pub execution_hint: Option<String>,
    pub value_type: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RareTermsAgg {
    pub source: ValueSource,
    /// No more documents than these.
    pub max_doc_count: u64,
    pub include: Option<IncludeExclude>,
    pub exclude: Option<IncludeExclude>,
    pub value_type: Option<String>,
}

pub(super) fn parse_terms(fields: &mut Fields, kind: &str, name: &str, dialect: Dialect) -> Result<TermsAgg> {
    let source = ValueSource::take(fields, dialect)?;
    let unlimited = |option: &str, node: &Node| match node.i64(option)? {
        0 if dialect.rules.zero_size_is_unlimited => Ok(usize::MAX),
        _ => positive(option, node, name),
    };
    let size = option(fields, kind, "size", |n| unlimited("size", n))?.unwrap_or(10);
    let shard_size = option(fields, kind, "shard_size", |n| match n.i64("shard_size")? {
        -1 if dialect.rules.zero_size_is_unlimited => Ok(None),
        _ => unlimited("shard_size", n).map(Some),
    })?;
    let shard_min_doc_count = take_shard_min_doc_count(fields, kind, name)?;
    let least = if kind == "terms" { 1 } else { 3 };
    let min_doc_count = take_min_doc_count(fields, kind, name)?.unwrap_or(least);
    let order = take_order(fields, kind)?.unwrap_or_else(by_count);
    let kinds = ["VALUE_STRING", "START_ARRAY", "START_OBJECT"];
    let include = fields.read("include", &kinds, |node| parse_include(node.clone()))?;
    let kinds: &[&str] = if dialect.rules.tolerates_value_types {
        &kinds
    } else {
        &kinds[..2]
    };
    let exclude = fields.read("exclude", kinds, |node| parse_include(node.clone()))?;
    if let (false, Some(include), Some(exclude)) = (dialect.rules.tolerates_conflicting_options, &include, &exclude)
        && matches!(include, IncludeExclude::Values(_)) != matches!(exclude, IncludeExclude::Values(_))
    {
        let cause = Error::illegal("Cannot mix a set-based and a regular expression-based include and exclude");
        return Err(shape::failed_field(kind, "exclude", (1, 1), cause));
    }
    let collect_mode = take_collect_mode(fields, kind)?;
    Ok(TermsAgg {
        source,
        size,
        shard_size: shard_size.flatten(),
        min_doc_count,
        shard_min_doc_count,
        order,
        include,
        exclude,
        show_term_doc_count_error: fields.take_bool("show_term_doc_count_error")?.unwrap_or(false),
        collect_mode,
        execution_hint: match fields.take_string("execution_hint")? {
            Some(hint) if !dialect.rules.tolerates_unknown_words && !matches!(hint.as_str(), "map" | "global_ordinals") => {
                return Err(shape::all_shards_failed(Error::illegal(format!(
                    "Unknown `execution_hint`: [{hint}], expected any of [map, global_ordinals]"
                ))));
            }
            hint => hint,
        },
        value_type: match dialect.rules.takes_former_options.then(|| fields.take("valueType")).flatten() {
            Some(node) => Some(node.string("value_type")?),
            None => take_value_type(fields, kind, dialect)?,
        },
    })
}

/// `rare_terms`: few options, and no order but its own.
pub(super) fn parse_rare_terms(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<RareTermsAgg> {
    const KIND: &str = "rare_terms";
    let source = ValueSource::take(fields, dialect)?;
    let max_doc_count = option(fields, KIND, "max_doc_count", |n| match n.i64("max_doc_count")? {
        number if number <= 0 => Err(Error::illegal(format!(
            "[max_doc_count] must be greater than 0. Found [{number}] in [{name}]"
        ))),
        number if number > 100 => Err(Error::illegal(format!("[max_doc_count] must be smallerthan 100in [{name}]"))),
        number => Ok(number as u64),
    })?;
    // How often the reference may be wrong; we count.
    option(fields, KIND, "precision", |n| match n.f64("precision")? {
        number if number < 0.00001 => Err(Error::illegal("[precision] must be greater than 0.00001")),
        _ => Ok(()),
    })?;
    let kinds = ["VALUE_STRING", "START_ARRAY", "START_OBJECT"];
    let include = fields.read("include", &kinds, |node| parse_include(node.clone()))?;
    let exclude = fields.read("exclude", &kinds[..2], |node| parse_include(node.clone()))?;
    Ok(RareTermsAgg {
        source,
        max_doc_count: max_doc_count.unwrap_or(1),
        include,
        exclude,
        value_type: take_value_type(fields, KIND, dialect)?,
    })
}

pub(super) fn render(terms: &TermsAgg) -> Map<String, Value> {
    let mut body = source_body(&terms.source);
    // The size 0 of a typed request, no limit, is the largest number elsewhere.
    body.insert("size".into(), terms.size.min(i32::MAX as usize).into());
    put(
        &mut body,
        "shard_size",
        terms.shard_size.map(|size| size.min(i32::MAX as usize)),
    );
    body.insert("min_doc_count".into(), terms.min_doc_count.into());
    body.insert("order".into(), order(&terms.order));
    put(&mut body, "include", terms.include.as_ref().map(include));
    put(&mut body, "exclude", terms.exclude.as_ref().map(include));
    if terms.show_term_doc_count_error {
        body.insert("show_term_doc_count_error".into(), true.into());
    }
    put(&mut body, "collect_mode", terms.collect_mode.as_deref());
    put(&mut body, "execution_hint", terms.execution_hint.as_deref());
    if terms.shard_min_doc_count > 0 {
        body.insert("shard_min_doc_count".into(), terms.shard_min_doc_count.into());
    }
    put(&mut body, "value_type", terms.value_type.as_deref());
    body
}

pub(super) fn render_rare(rare: &RareTermsAgg) -> Map<String, Value> {
    let mut body = source_body(&rare.source);
    body.insert("max_doc_count".into(), rare.max_doc_count.into());
    put(&mut body, "include", rare.include.as_ref().map(include));
    put(&mut body, "exclude", rare.exclude.as_ref().map(include));
    put(&mut body, "value_type", rare.value_type.as_deref());
    body
}
