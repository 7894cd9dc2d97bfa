//! `top_hits` and `top_metrics`: documents, or values, of the first in an order.

use super::AggKind;
use super::options::{one, put};
use crate::json::{Fields, Node};
use crate::query::hits::{FieldAndFormat, Highlight, ScriptField, Sort, SourceSpec, parse_script_fields};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct TopHitsAgg {
    pub from: usize,
    pub size: usize,
    pub sort: Vec<Sort>,
    pub source: SourceSpec,
    pub highlight: Option<Highlight>,
    pub explain: bool,
    pub version: bool,
    pub seq_no_primary_term: bool,
    pub track_scores: bool,
    pub docvalue_fields: Vec<FieldAndFormat>,
    pub fields: Vec<FieldAndFormat>,
    pub stored_fields: Option<Vec<String>>,
    pub script_fields: Vec<crate::query::hits::ScriptField>,
}

pub(super) fn parse_top_hits(fields: Fields, dialect: Dialect) -> Result<TopHitsAgg> {
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
            "fields" if dialect.rules.fields_are_stored_fields => out.stored_fields = Some(shape::strings(value, &key)?),
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

pub(super) fn parse_top_metrics(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let list = fields.take("metrics").ok_or_else(|| shape::missing_required("metrics"))?;
    let mut metrics = Vec::new();
    for item in list.items() {
        let mut inner = item.fields("metrics")?;
        metrics.push(inner.take_string("field")?.ok_or_else(|| shape::missing_required("field"))?);
        inner.finish()?;
    }
    let sort = fields.take("sort").ok_or_else(|| shape::missing_required("sort"))?;
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

pub(super) fn render_hits(hits: &TopHitsAgg) -> Map<String, Value> {
    let mut body = one("size", hits.size);
    body.insert("from".into(), hits.from.into());
    if !hits.sort.is_empty() {
        body.insert("sort".into(), hits.sort.iter().map(Sort::render).collect());
    }
    put(&mut body, "_source", hits.source.render());
    put(
        &mut body,
        "highlight",
        hits.highlight.as_ref().map(|highlight| highlight.render()),
    );
    let flags = [
        ("explain", hits.explain),
        ("version", hits.version),
        ("seq_no_primary_term", hits.seq_no_primary_term),
        ("track_scores", hits.track_scores),
    ];
    for (name, _) in flags.into_iter().filter(|(_, on)| *on) {
        body.insert(name.into(), true.into());
    }
    for (name, list) in [("docvalue_fields", &hits.docvalue_fields), ("fields", &hits.fields)] {
        if !list.is_empty() {
            body.insert(name.into(), list.iter().map(FieldAndFormat::render).collect());
        }
    }
    put(
        &mut body,
        "stored_fields",
        hits.stored_fields.as_ref().map(|fields| json!(fields)),
    );
    if !hits.script_fields.is_empty() {
        let scripts: Map<String, Value> = hits.script_fields.iter().map(ScriptField::render).collect();
        body.insert("script_fields".into(), Value::Object(scripts));
    }
    body
}

pub(super) fn render_metrics(metrics: &[String], sort: &[Sort], size: usize) -> Map<String, Value> {
    let mut body = one("size", size);
    body.insert(
        "metrics".into(),
        metrics.iter().map(|field| json!({ "field": field })).collect(),
    );
    body.insert("sort".into(), sort.iter().map(Sort::render).collect());
    body
}
