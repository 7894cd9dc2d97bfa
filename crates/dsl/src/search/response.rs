//! The answer of a search: hits, total, aggregations; and how each dialect writes it.

use crate::json::{self, Reading};
use crate::search::{SearchRequest, TrackTotal};
use model::{Dialect, DocId, IndexName, Stamp};
use serde::de::DeserializeOwned;
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
    /// `_timestamp` of 2015, in milliseconds since 1970.
    pub timestamp: Option<i64>,
    /// `_ttl` of 2015: the milliseconds that are left.
    pub ttl: Option<i64>,
    /// The text of JSON, filtered already; `None` if it was not asked for.
    pub source: Option<Arc<str>>,
    /// `fields`, docvalue, stored and script fields.
    pub fields: Map<String, Value>,
    pub ignored: Vec<String>,
    pub sort: Vec<Value>,
    pub highlight: Map<String, Value>,
    pub matched_queries: Vec<String>,
    /// Their scores, where they were asked for.
    pub matched_scores: Vec<f32>,
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
            timestamp: None,
            ttl: None,
            source: None,
            fields: Map::new(),
            ignored: Vec::new(),
            sort: Vec::new(),
            highlight: Map::new(),
            matched_queries: Vec::new(),
            matched_scores: Vec::new(),
            explanation: None,
            inner_hits: Vec::new(),
            nested: None,
            join_values: Vec::new(),
            show_id: true,
        }
    }

    /// As JSON.
    pub fn render(&self, dialect: Dialect) -> Value {
        let mut out = Vec::new();
        self.write(dialect, Sources::Checked, &mut out);
        read_again(&out)
    }

    fn write(&self, dialect: Dialect, sources: Sources, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        if self.explanation.is_some() {
            object.text("_shard", &format!("[{}][0]", self.index));
            object.text("_node", "pleach");
        }
        object.text("_index", self.index.as_str());
        if let Some(doc_type) = &self.id.doc_type {
            object.text("_type", doc_type);
        } else if dialect.rules.shows_doc_type && (self.show_id || dialect.rules.has_types) {
            object.text("_type", "_doc");
        }
        if self.show_id {
            object.text("_id", &self.id.id);
        }
        if let Some(nested) = &self.nested {
            object.value("_nested", nested);
        }
        if let Some(stamp) = self.stamp {
            if self.show_version {
                object.value("_version", &stamp.version);
            }
            // A staged write has no sequence number yet.
            if self.show_seq_no && !stamp.is_staged() {
                object.value("_seq_no", &stamp.seq_no);
                object.value("_primary_term", &stamp.primary_term);
            }
        }
        object.score("_score", self.score);
        if let Some(routing) = &self.routing {
            object.text("_routing", routing);
        }
        if let Some(parent) = &self.parent {
            object.text("_parent", parent);
        }
        for (name, time) in [("_timestamp", self.timestamp), ("_ttl", self.ttl)] {
            if let Some(time) = time {
                object.value(name, &time);
            }
        }
        if !self.ignored.is_empty() && !dialect.rules.omits_later_members {
            object.value("_ignored", &self.ignored);
        }
        if let Some(source) = &self.source {
            let unreadable = sources == Sources::Checked && read_deep::<Value>(source.as_bytes()).is_none();
            object.raw("_source", if unreadable { "null" } else { source });
        }
        if !self.fields.is_empty() {
            object.value("fields", &self.fields);
        }
        if !self.highlight.is_empty() {
            object.value("highlight", &self.highlight);
        }
        if !self.sort.is_empty() {
            object.value("sort", &self.sort);
        }
        if !self.matched_queries.is_empty() {
            self.write_matched_queries(&mut object);
        }
        if let Some(explanation) = &self.explanation {
            object.value("_explanation", explanation);
        }
        if !self.inner_hits.is_empty() {
            let mut all = Object::begin(object.key("inner_hits"));
            for (name, hits) in &self.inner_hits {
                let mut one = Object::begin(all.key(name));
                hits.write(dialect, sources, one.key("hits"));
                one.end();
            }
            all.end();
        }
        object.end();
    }

    /// The names of the clauses that matched, or where the request asks for them their scores.
    fn write_matched_queries(&self, object: &mut Object<'_>) {
        if self.matched_scores.is_empty() {
            return object.value("matched_queries", &self.matched_queries);
        }
        debug_assert_eq!(
            self.matched_queries.len(),
            self.matched_scores.len(),
            "each clause that matched has a score"
        );
        let mut scores = Object::begin(object.key("matched_queries"));
        for (name, one) in self.matched_queries.iter().zip(&self.matched_scores) {
            scores.score(name, Some(*one));
        }
        scores.end();
    }
}

/// Parses an answer that was written into a tree.
fn read_again<T: DeserializeOwned + Default>(written: &[u8]) -> T {
    let read = read_deep(written);
    debug_assert!(read.is_some(), "an answer that is written is JSON");
    read.unwrap_or_default()
}

/// A text of JSON as a tree. A source is as deep as `json.max_depth` allows, and hits around it make it deeper than the usual
/// reader goes.
fn read_deep<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let deep = || {
        let how = Reading {
            depth_max: usize::MAX,
            duplicates: true,
            ..Reading::default()
        };
        serde_json::from_value(json::read(text, how).ok()?.into_value()).ok()
    };
    serde_json::from_slice(text).ok().or_else(deep)
}

/// How sources are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sources {
    /// Byte for byte.
    Raw,
    /// As `null` where they cannot be read again: numbers may be larger than any that we read.
    Checked,
}

/// An object of JSON while it is written.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Object<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        Object { out, first: true }
    }
    fn end(self) {
        self.out.push(b'}');
    }
    /// A key; its value is to be written to what is given.
    fn key(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        text(name, self.out);
        self.out.push(b':');
        self.out
    }
    fn value<T: serde::Serialize>(&mut self, name: &str, value: &T) {
        // Memory takes whatever is JSON.
        let _ = serde_json::to_writer(self.key(name), value);
    }
    fn text(&mut self, name: &str, value: &str) {
        text(value, self.key(name));
    }
    fn raw(&mut self, name: &str, value: &str) {
        self.key(name).extend_from_slice(value.as_bytes());
    }
    fn score(&mut self, name: &str, score: Option<f32>) {
        // Within these bounds both widths have the same shortest form.
        match score {
            Some(s) if (1e-3..1e7).contains(&s) => self.value(name, &s),
            other => self.value(name, &self::score(other)),
        }
    }
}

fn text(text: &str, out: &mut Vec<u8>) {
    let plain = text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\');
    if plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        let _ = serde_json::to_writer(out, text);
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
    /// The sum of a measure of the sources that hits show, inner ones too. They are as deep as a request is.
    fn sources(&self, measure: fn(&[u8]) -> usize) -> usize {
        let of_hit = |hit: &Hit| {
            let own = hit.source.as_ref().map_or(0, |source| measure(source.as_bytes()));
            hit.inner_hits
                .iter()
                .fold(own, |sum, (_, hits)| sum.saturating_add(hits.sources(measure)))
        };
        self.hits.iter().map(of_hit).fold(0, usize::saturating_add)
    }

    /// The object `hits`.
    pub fn render(&self, dialect: Dialect) -> Value {
        let mut out = Vec::new();
        self.write(dialect, Sources::Checked, &mut out);
        read_again(&out)
    }

    fn write(&self, dialect: Dialect, sources: Sources, out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        if self.total.is_none() && dialect.total_as_int && !dialect.rules.counts_all_hits {
            object.value("total", &-1);
        }
        if let Some(total) = self.total {
            if dialect.rules.hits_total_is_number || dialect.total_as_int {
                object.value("total", &total.value);
            } else {
                let mut own = Object::begin(object.key("total"));
                own.value("value", &total.value);
                own.text("relation", if total.exact { "eq" } else { "gte" });
                own.end();
            }
        }
        object.score("max_score", self.max_score);
        let out = object.key("hits");
        out.push(b'[');
        for (n, hit) in self.hits.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            hit.write(dialect, sources, out);
        }
        out.push(b']');
        object.end();
    }
}

/// An index that a search left out.
#[derive(Clone, Debug)]
pub struct ShardFailure {
    /// Its name.
    pub index: String,
    /// Shards it says it has.
    pub shards: u32,
    /// Why.
    pub error: model::Error,
}

/// The answer of one search.
#[derive(Clone, Debug, Default)]
pub struct SearchResponse {
    pub took_ms: u64,
    /// Reading the hits that are shown, out of the whole time. No part of the answer.
    pub fetch: std::time::Duration,
    pub timed_out: bool,
    pub terminated_early: Option<bool>,
    /// Shards (one an index) searched, and indices skipped.
    pub shards: u32,
    /// Indices that could not be read, and why.
    pub failures: Vec<ShardFailure>,
    pub hits: Hits,
    pub aggregations: Option<Aggregations>,
    pub profile: Option<Value>,
    pub suggest: Option<Value>,
    pub num_reduce_phases: Option<u32>,
}

/// Bytes of a hit's text beside its source: address, score, sort values. More makes the text grow once.
const HIT_BYTES: usize = 512;

impl SearchResponse {
    /// The answer of a search whose time was over before anything was found.
    pub fn late(request: &SearchRequest) -> SearchResponse {
        let total = Total { value: 0, exact: true };
        SearchResponse {
            timed_out: true,
            hits: Hits {
                total: (request.track_total_hits != TrackTotal::No).then_some(total),
                ..Hits::default()
            },
            aggregations: (!request.aggs.is_empty()).then(|| Aggregations::Tree(Map::new())),
            ..SearchResponse::default()
        }
    }

    /// About how much memory its text takes beside it, without what is small.
    pub fn text_bytes(&self) -> usize {
        let aggregations = self.aggregations.as_ref().map_or(0, Aggregations::text_bytes);
        self.hits.sources(<[u8]>::len) + aggregations
    }

    /// About how much memory [`SearchResponse::render`] takes.
    pub fn tree_bytes(&self) -> usize {
        // A value of a tree takes about twelve times its text.
        let aggregations = self.aggregations.as_ref().map_or(0, Aggregations::text_bytes);
        self.hits.sources(crate::json::tree_bytes) + aggregations.saturating_mul(12)
    }

    /// As JSON, without scroll or point-in-time ids.
    pub fn render(&self, dialect: Dialect) -> Map<String, Value> {
        let mut out = Vec::new();
        self.write(dialect, Sources::Checked, &[], &mut out);
        read_again(&out)
    }

    /// As the text of JSON, sources byte for byte; the members of `before` come first.
    pub fn text(&self, dialect: Dialect, before: &[(&str, &str)]) -> Vec<u8> {
        // At once: growing by doubling would hold it twice.
        let mut out = Vec::with_capacity(1024 + self.text_bytes() + self.hits.hits.len() * HIT_BYTES);
        self.write(dialect, Sources::Raw, before, &mut out);
        out
    }

    fn write(&self, dialect: Dialect, sources: Sources, before: &[(&str, &str)], out: &mut Vec<u8>) {
        let mut object = Object::begin(out);
        for (name, text) in before {
            object.text(name, text);
        }
        object.value("took", &self.took_ms);
        object.value("timed_out", &self.timed_out);
        if let Some(early) = self.terminated_early {
            object.value("terminated_early", &early);
        }
        let mut shards = Object::begin(object.key("_shards"));
        let failed: u32 = self.failures.iter().map(|failure| failure.shards).sum();
        shards.value("total", &(self.shards + failed));
        shards.value("successful", &self.shards);
        if !dialect.rules.omits_later_members {
            shards.value("skipped", &0);
        }
        shards.value("failed", &failed);
        if !self.failures.is_empty() {
            let told: Vec<Value> = self
                .failures
                .iter()
                .map(|one| json!({ "shard": 0, "index": one.index, "node": "pleach", "reason": one.error.to_json() }))
                .collect();
            shards.value("failures", &told);
        }
        shards.end();
        self.hits.write(dialect, sources, object.key("hits"));
        match &self.aggregations {
            None => {}
            Some(Aggregations::Tree(tree)) => object.value("aggregations", tree),
            Some(Aggregations::Text(text)) => object.raw("aggregations", text),
        }
        if let Some(suggest) = &self.suggest {
            object.value("suggest", suggest);
        }
        if let Some(profile) = &self.profile {
            object.value("profile", profile);
        }
        object.end();
    }
}

/// Aggregations by name, in Elasticsearch's shapes.
#[derive(Clone, Debug)]
pub enum Aggregations {
    /// As they were worked out.
    Tree(Map<String, Value>),
    /// As the text of JSON, kept from an earlier answer.
    Text(Arc<str>),
}

impl Aggregations {
    /// As JSON.
    pub fn tree(&self) -> Map<String, Value> {
        match self {
            Aggregations::Tree(tree) => tree.clone(),
            Aggregations::Text(text) => serde_json::from_str(text).unwrap_or_default(),
        }
    }
    /// About how long the text is, at most by a little.
    pub fn text_bytes(&self) -> usize {
        match self {
            Aggregations::Tree(tree) => members_bytes(tree),
            Aggregations::Text(text) => text.len(),
        }
    }
    /// As the text of JSON.
    pub fn text(&self) -> Arc<str> {
        match self {
            Aggregations::Tree(tree) => serde_json::to_string(tree).unwrap_or_default().into(),
            Aggregations::Text(text) => text.clone(),
        }
    }
}

fn members_bytes(members: &Map<String, Value>) -> usize {
    let each = members.iter().map(|(name, value)| name.len() + 4 + value_bytes(value));
    2 + each.sum::<usize>()
}

/// About how long the text of a value is.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(number) => match number.as_u64() {
            Some(n) => 1 + n.checked_ilog10().unwrap_or(0) as usize,
            // A sign and seventeen digits, a point and an exponent.
            None => 22,
        },
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + value_bytes(item)).sum::<usize>(),
        Value::Object(members) => members_bytes(members),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};

    /// A source of so many objects in each other is shown in hits, and in inner hits of hits.
    fn check_depth(depth: usize) {
        let source = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let mut hit = Hit::new(IndexName::new("i"), DocId::plain("1"));
        hit.source = Some(source.as_str().into());
        let inner = Hits {
            hits: vec![hit.clone()],
            ..Hits::default()
        };
        hit.inner_hits = vec![("inner".to_owned(), inner)];
        let mut response = SearchResponse::default();
        response.hits.hits.push(hit);
        let shown = response.render(Dialect::default());
        for place in ["/hits/0/_source", "/hits/0/inner_hits/inner/hits/hits/0/_source"] {
            let shown = shown["hits"].pointer(place).map(Value::to_string);
            assert_eq!(shown.as_ref(), Some(&source), "{depth} objects");
        }
    }

    #[test]
    fn sources_of_any_depth_are_shown() {
        [1, 110, 124, 127, 128].into_iter().for_each(check_depth);
    }
}
