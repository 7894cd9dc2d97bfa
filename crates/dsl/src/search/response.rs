//! The answer of a search: hits, total, aggregations; and how each dialect writes it.

use model::{Dialect, DocId, IndexName, Persona, Stamp};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// How many matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub value: u64,
    /// False: at least `value` (`"relation": "gte"`).
    pub exact: bool,
}

/// One document of an answer.
#[derive(Clone, Debug)]
pub struct Hit {
    pub index: IndexName,
    pub id: DocId,
    pub score: Option<f32>,
    pub stamp: Option<Stamp>,
    pub show_version: bool,
    pub show_seq_no: bool,
    pub routing: Option<String>,
    pub parent: Option<String>,
    /// Filtered already; `None` if it was not asked for.
    pub source: Option<Arc<RawValue>>,
    /// `fields`, docvalue, stored and script fields.
    pub fields: Map<String, Value>,
    pub ignored: Vec<String>,
    pub sort: Vec<Value>,
    pub highlight: Map<String, Value>,
    pub matched_queries: Vec<String>,
    pub explanation: Option<Value>,
    pub inner_hits: Vec<(String, Hits)>,
    /// `_nested` of an inner hit: field, offset, and so on inwards.
    pub nested: Option<Value>,
    /// Values of the request's `join_fields`, for `relations`; never shown.
    pub join_values: Vec<(String, Vec<Value>)>,
    /// Metadata (`_id`, `_type`) is shown unless `stored_fields: _none_`.
    pub show_id: bool,
}

impl Hit {
    /// A hit with nothing but its address.
    pub fn new(index: IndexName, id: DocId) -> Hit {
        Hit {
            index,
            id,
            score: None,
            stamp: None,
            show_version: false,
            show_seq_no: false,
            routing: None,
            parent: None,
            source: None,
            fields: Map::new(),
            ignored: Vec::new(),
            sort: Vec::new(),
            highlight: Map::new(),
            matched_queries: Vec::new(),
            explanation: None,
            inner_hits: Vec::new(),
            nested: None,
            join_values: Vec::new(),
            show_id: true,
        }
    }

    /// As JSON.
    pub fn render(&self, dialect: Dialect) -> Value {
        let mut out = Map::new();
        if self.explanation.is_some() {
            out.insert("_shard".into(), json!(format!("[{}][0]", self.index)));
            out.insert("_node".into(), json!("pleach"));
        }
        out.insert("_index".into(), self.index.as_str().into());
        if let Some(doc_type) = &self.id.doc_type {
            out.insert("_type".into(), (&**doc_type).into());
        } else if self.show_id && matches!(dialect.persona, Persona::Es7 | Persona::Opensearch1) || dialect.typed {
            out.insert("_type".into(), "_doc".into());
        }
        if self.show_id {
            out.insert("_id".into(), (&*self.id.id).into());
        }
        if let Some(nested) = &self.nested {
            out.insert("_nested".into(), nested.clone());
        }
        if let Some(stamp) = self.stamp {
            if self.show_version {
                out.insert("_version".into(), stamp.version.into());
            }
            if self.show_seq_no {
                out.insert("_seq_no".into(), stamp.seq_no.into());
                out.insert("_primary_term".into(), stamp.primary_term.into());
            }
        }
        out.insert("_score".into(), score(self.score));
        if let Some(routing) = &self.routing {
            out.insert("_routing".into(), routing.as_str().into());
        }
        if let Some(parent) = &self.parent {
            out.insert("_parent".into(), parent.as_str().into());
        }
        if !self.ignored.is_empty() && !dialect.typed {
            out.insert("_ignored".into(), json!(self.ignored));
        }
        if let Some(source) = &self.source {
            out.insert("_source".into(), serde_json::from_str(source.get()).unwrap_or(Value::Null));
        }
        if !self.fields.is_empty() {
            out.insert("fields".into(), Value::Object(self.fields.clone()));
        }
        if !self.highlight.is_empty() {
            out.insert("highlight".into(), Value::Object(self.highlight.clone()));
        }
        if !self.sort.is_empty() {
            out.insert("sort".into(), Value::Array(self.sort.clone()));
        }
        if !self.matched_queries.is_empty() {
            out.insert("matched_queries".into(), json!(self.matched_queries));
        }
        if let Some(explanation) = &self.explanation {
            out.insert("_explanation".into(), explanation.clone());
        }
        if !self.inner_hits.is_empty() {
            let inner: Map<String, Value> = self
                .inner_hits
                .iter()
                .map(|(name, hits)| (name.clone(), json!({ "hits": hits.render(dialect) })))
                .collect();
            out.insert("inner_hits".into(), Value::Object(inner));
        }
        Value::Object(out)
    }
}

/// A score as JSON: the shortest decimal that reads back as the same 32-bit number.
pub(crate) fn score(score: Option<f32>) -> Value {
    match score {
        Some(s) if s.is_finite() => s.to_string().parse::<f64>().map_or(Value::Null, Value::from),
        _ => Value::Null,
    }
}

/// A page of hits.
#[derive(Clone, Debug, Default)]
pub struct Hits {
    pub total: Option<Total>,
    pub max_score: Option<f32>,
    pub hits: Vec<Hit>,
}

impl Hits {
    /// The object `hits`.
    pub fn render(&self, dialect: Dialect) -> Value {
        let mut out = Map::new();
        if let Some(total) = self.total {
            let number = dialect.typed || dialect.total_as_int || dialect.persona == Persona::Es2;
            let value = if number {
                json!(total.value)
            } else {
                json!({ "value": total.value, "relation": if total.exact { "eq" } else { "gte" } })
            };
            out.insert("total".into(), value);
        }
        out.insert("max_score".into(), score(self.max_score));
        out.insert(
            "hits".into(),
            Value::Array(self.hits.iter().map(|h| h.render(dialect)).collect()),
        );
        Value::Object(out)
    }
}

/// The answer of one search.
#[derive(Clone, Debug, Default)]
pub struct SearchResponse {
    pub took_ms: u64,
    pub timed_out: bool,
    pub terminated_early: Option<bool>,
    /// Shards (one an index) searched, and indices skipped.
    pub shards: u32,
    pub hits: Hits,
    /// Aggregations by name, in Elasticsearch's shapes.
    pub aggregations: Option<Map<String, Value>>,
    pub profile: Option<Value>,
    pub suggest: Option<Value>,
    pub num_reduce_phases: Option<u32>,
}

impl SearchResponse {
    /// As JSON, without scroll or point-in-time ids.
    pub fn render(&self, dialect: Dialect) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("took".into(), self.took_ms.into());
        out.insert("timed_out".into(), self.timed_out.into());
        if let Some(early) = self.terminated_early {
            out.insert("terminated_early".into(), early.into());
        }
        let mut shards = json!({ "total": self.shards, "successful": self.shards, "failed": 0 });
        if !dialect.typed {
            shards = json!({ "total": self.shards, "successful": self.shards, "skipped": 0, "failed": 0 });
        }
        out.insert("_shards".into(), shards);
        out.insert("hits".into(), self.hits.render(dialect));
        if let Some(aggs) = &self.aggregations {
            out.insert("aggregations".into(), Value::Object(aggs.clone()));
        }
        if let Some(suggest) = &self.suggest {
            out.insert("suggest".into(), suggest.clone());
        }
        if let Some(profile) = &self.profile {
            out.insert("profile".into(), profile.clone());
        }
        out
    }
}
