//! `significant_terms` and `significant_text`: terms that are more frequent here than elsewhere, and by which measure.

use super::terms::{self, TermsAgg, parse_terms};
use super::value_source::option;
use super::{AggKind, IncludeExclude, options};
use crate::json::{Fields, Node};
use crate::query::script_source::ScriptSource;
use crate::query::{Parsing, Query};
use crate::shape;
use model::{Dialect, Result};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct SignificantAgg {
    pub terms: TermsAgg,
    pub measure: Significance,
    /// The documents that terms are compared with; all without.
    pub background: Option<Query>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SignificantTextAgg {
    pub field: String,
    /// Where in the source its text stands; at the field without.
    pub source_fields: Option<Vec<String>>,
    /// Sequences of words that were seen before do not count.
    pub filter_duplicate_text: bool,
    pub size: usize,
    pub shard_size: Option<usize>,
    pub min_doc_count: u64,
    pub shard_min_doc_count: u64,
    pub include: Option<IncludeExclude>,
    pub exclude: Option<IncludeExclude>,
    pub measure: Significance,
    pub background: Option<Query>,
}

/// How it is measured that a term is more frequent here than elsewhere. `negatives`: terms that are rarer count too;
/// `superset`: the documents here are among those they are compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Significance {
    /// The change of the share, absolute times relative.
    Jlh,
    MutualInformation {
        negatives: bool,
        superset: bool,
    },
    ChiSquare {
        negatives: bool,
        superset: bool,
    },
    /// Google's normalized distance.
    Gnd {
        superset: bool,
    },
    /// The share of a term's documents that are here.
    Percentage,
    /// A script of the four counts.
    Script(ScriptSource),
}

/// The measures, each by the name of its option.
const MEASURES: &[&str] = &[
    "jlh",
    "mutual_information",
    "chi_square",
    "gnd",
    "percentage",
    "script_heuristic",
];

/// Reads `significant_terms`.
pub(super) fn terms(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "significant_terms";
    let measure = take_measure(fields, dialect)?;
    let background = take_background(fields, dialect)?;
    Ok(AggKind::SignificantTerms(Box::new(SignificantAgg {
        terms: parse_terms(fields, KIND, name, dialect)?,
        measure,
        background,
    })))
}

/// Reads `significant_text`.
pub(super) fn text(fields: &mut Fields, name: &str, dialect: Dialect) -> Result<AggKind> {
    const KIND: &str = "significant_text";
    let measure = take_measure(fields, dialect)?;
    let background = take_background(fields, dialect)?;
    let size = option(fields, KIND, "size", |n| options::positive("size", n, name))?.unwrap_or(10);
    let shard_size = option(fields, KIND, "shard_size", |n| options::positive("shard_size", n, name))?;
    let min_doc_count = options::take_min_doc_count(fields, KIND, name)?.unwrap_or(3);
    let shard_min_doc_count = options::take_shard_min_doc_count(fields, KIND, name)?;
    let kinds = ["VALUE_STRING", "START_ARRAY", "START_OBJECT"];
    Ok(AggKind::SignificantText(Box::new(SignificantTextAgg {
        include: fields.read("include", &kinds, |node| options::parse_include(node.clone()))?,
        exclude: fields.read("exclude", &kinds[..2], |node| options::parse_include(node.clone()))?,
        source_fields: fields.take_strings("source_fields")?,
        filter_duplicate_text: fields.take_bool("filter_duplicate_text")?.unwrap_or(false),
        field: fields.take_string("field")?.ok_or_else(|| shape::missing_required("field"))?,
        size,
        shard_size,
        min_doc_count,
        shard_min_doc_count,
        measure,
        background,
    })))
}

fn take_background(fields: &mut Fields, dialect: Dialect) -> Result<Option<Query>> {
    fields.read("background_filter", &["START_OBJECT"], |node| {
        Query::parse(node.clone(), &mut Parsing::of_filter(dialect))
    })
}

/// The measure that is asked for; of several the last in the list of measures.
fn take_measure(fields: &mut Fields, dialect: Dialect) -> Result<Significance> {
    let mut found = Significance::Jlh;
    for name in MEASURES {
        let Some(node) = fields.take(name) else { continue };
        let empty = |node: Node, measure: Significance| match &node.value {
            crate::json::Json::Object(members) if members.is_empty() => Ok(measure),
            _ => Err(node.error(format!(
                "failed to parse [{name}] significance heuristic. expected an empty object, but got [{}] instead",
                node.clone().into_value()
            ))),
        };
        found = match *name {
            "jlh" => empty(node, Significance::Jlh)?,
            "percentage" => empty(node, Significance::Percentage)?,
            "script_heuristic" => {
                let mut inner = node.fields(name)?.of_object(!dialect.rules.tolerates_value_types);
                let kinds = ["VALUE_STRING", "START_OBJECT"];
                let script = inner.read("script", &kinds, |node| ScriptSource::parse(node.clone(), dialect))?;
                let mut script = script.ok_or_else(|| shape::missing_required("script"))?;
                if dialect.rules.script_options_beside_script
                    && let Some(params) = inner.take_map("params")?
                {
                    script.params.extend(params);
                }
                inner.finish()?;
                Significance::Script(script)
            }
            _ => {
                let mut inner = node.fields(name)?.of_object(!dialect.rules.tolerates_value_types);
                let superset = inner.take_bool("background_is_superset")?.unwrap_or(true);
                let measure = if *name == "gnd" {
                    Significance::Gnd { superset }
                } else {
                    let negatives = inner.take_bool("include_negatives")?.unwrap_or(false);
                    if *name == "chi_square" {
                        Significance::ChiSquare { negatives, superset }
                    } else {
                        Significance::MutualInformation { negatives, superset }
                    }
                };
                inner.finish()?;
                measure
            }
        };
    }
    Ok(found)
}

impl Significance {
    /// The option that asks for it.
    pub(super) fn render(&self) -> (&'static str, Value) {
        let counted =
            |negatives: bool, superset: bool| json!({ "include_negatives": negatives, "background_is_superset": superset });
        match self {
            Significance::Jlh => ("jlh", json!({})),
            Significance::MutualInformation { negatives, superset } => ("mutual_information", counted(*negatives, *superset)),
            Significance::ChiSquare { negatives, superset } => ("chi_square", counted(*negatives, *superset)),
            Significance::Gnd { superset } => ("gnd", json!({ "background_is_superset": superset })),
            Significance::Percentage => ("percentage", json!({})),
            Significance::Script(script) => ("script_heuristic", json!({ "script": script.render() })),
        }
    }
}

impl SignificantTextAgg {
    /// Its body as a request writes it.
    pub(super) fn render(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
        put("field", self.field.as_str().into());
        put("size", self.size.into());
        if let Some(size) = self.shard_size {
            put("shard_size", size.into());
        }
        put("min_doc_count", self.min_doc_count.into());
        put("shard_min_doc_count", self.shard_min_doc_count.into());
        put("filter_duplicate_text", self.filter_duplicate_text.into());
        if let Some(fields) = &self.source_fields {
            put("source_fields", json!(fields));
        }
        for (name, which) in [("include", &self.include), ("exclude", &self.exclude)] {
            if let Some(which) = which {
                put(name, options::include(which));
            }
        }
        if let Some(query) = &self.background {
            put("background_filter", query.render());
        }
        let (name, value) = self.measure.render();
        put(name, value);
        body
    }
}

impl SignificantAgg {
    /// Its body as a request writes it.
    pub(super) fn render(&self) -> Map<String, Value> {
        let mut body = terms::render(&self.terms);
        body.remove("order");
        let (name, measure) = self.measure.render();
        body.insert(name.into(), measure);
        options::put(&mut body, "background_filter", self.background.as_ref().map(Query::render));
        body
    }
}
