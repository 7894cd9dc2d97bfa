//! The body of a search.
//!
//! Not here: what depends on other keys, on the URL or on the index (`from` with a scroll, windows, types).

use super::suggest::{self, Suggestion};
use super::{Collapse, FieldAndFormat, FreeInnerHits, Highlight, Page, Rescore, ScriptField, Slice, Sort, SourceSpec};
use crate::aggs::{self, Agg};
use crate::json::{self, Json, Node};
use crate::query::hits::{check_bounds, parse_flag};
use crate::query::{BoolQuery, Clause, Parsing, Query};
use crate::shape;
use model::units::{parse_duration, parse_duration_or_never};
use model::{Cancellation, Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::mem::take;
use std::time::Duration;

/// Everything a search may ask of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest {
    pub query: Option<Query>,
    pub post_filter: Option<Query>,
    pub from: usize,
    pub size: usize,
    pub sort: Vec<Sort>,
    pub search_after: Option<Vec<Value>>,
    pub source: SourceSpec,
    pub fields: Vec<FieldAndFormat>,
    pub docvalue_fields: Vec<FieldAndFormat>,
    /// `stored_fields`, or `fields` in the typed dialect (there they also read the source). `["_none_"]` turns metadata off.
    pub stored_fields: Option<Vec<String>>,
    pub script_fields: Vec<ScriptField>,
    pub highlight: Option<Highlight>,
    pub aggs: Vec<Agg>,
    pub collapse: Option<Collapse>,
    /// `inner_hits` beside the query, as 2015 had them.
    pub inner_hits: Vec<FreeInnerHits>,
    pub rescore: Vec<Rescore>,
    pub min_score: Option<f32>,
    pub track_total_hits: TrackTotal,
    pub track_scores: bool,
    pub explain: bool,
    /// The query that is explained for the hits instead of the own one: not in a body.
    pub explained: Option<Query>,
    pub version: bool,
    pub seq_no_primary_term: bool,
    pub timeout: Option<Duration>,
    pub terminate_after: usize,
    /// A negative `terminate_after`: over before the first document.
    pub collects_nothing: bool,
    pub profile: bool,
    /// Names of matching clauses come with their scores.
    pub named_scores: bool,
    /// Indices that cannot be read are left out and reported.
    pub allow_partial: bool,
    pub indices_boost: Vec<(String, f32)>,
    pub stats: Vec<String>,
    pub suggest: Vec<Suggestion>,
    /// Reads this view instead of the newest searchable state (scroll, point in time, join).
    pub view: Option<String>,
    /// `pit`: the point in time to read.
    pub pit: Option<Pit>,
    /// A slice of a scroll or point in time.
    pub slice: Option<Slice>,
    /// Types of the typed dialect; empty for all.
    pub types: Vec<String>,
    /// Fields whose values `relations` wants with each hit, by which it finds partners; never in a body.
    pub join_fields: Vec<String>,
    pub dialect: Dialect,
    /// Cancels the search; its deadline is that of `timeout`, counted from when the request came.
    pub cancellation: Cancellation,
    /// A hash of the words that it was read from, by which an equal request is found quickly; 0 if it was made otherwise.
    pub fingerprint: u64,
}

impl Default for SearchRequest {
    fn default() -> Self {
        SearchRequest {
            query: None,
            post_filter: None,
            from: 0,
            size: 10,
            sort: Vec::new(),
            search_after: None,
            source: SourceSpec::default(),
            fields: Vec::new(),
            docvalue_fields: Vec::new(),
            stored_fields: None,
            script_fields: Vec::new(),
            highlight: None,
            aggs: Vec::new(),
            collapse: None,
            inner_hits: Vec::new(),
            rescore: Vec::new(),
            min_score: None,
            track_total_hits: TrackTotal::UpTo(10_000),
            track_scores: false,
            explain: false,
            explained: None,
            version: false,
            seq_no_primary_term: false,
            timeout: None,
            terminate_after: 0,
            collects_nothing: false,
            profile: false,
            named_scores: false,
            allow_partial: true,
            indices_boost: Vec::new(),
            stats: Vec::new(),
            suggest: Vec::new(),
            view: None,
            pit: None,
            slice: None,
            types: Vec::new(),
            join_fields: Vec::new(),
            dialect: Dialect::default(),
            cancellation: Cancellation::default(),
            fingerprint: 0,
        }
    }
}

/// A search that shows a page of inner hits, and counts them all.
impl From<Page> for SearchRequest {
    fn from(page: Page) -> SearchRequest {
        let mut out = SearchRequest {
            track_total_hits: TrackTotal::Exact,
            ..SearchRequest::default()
        };
        out.set_page(page);
        out
    }
}

/// `track_total_hits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackTotal {
    Exact,
    UpTo(usize),
    No,
}

/// `pit`: a point in time to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pit {
    /// As it was given out.
    pub id: String,
    /// Prolongs it.
    pub keep_alive: Option<Duration>,
}

/// Every key of a search that we read, for "did you mean".
const KEYS: &[&str] = &[
    "query",
    "post_filter",
    "from",
    "size",
    "sort",
    "search_after",
    "_source",
    "fields",
    "docvalue_fields",
    "stored_fields",
    "script_fields",
    "highlight",
    "aggs",
    "aggregations",
    "collapse",
    "rescore",
    "min_score",
    "track_total_hits",
    "track_scores",
    "explain",
    "version",
    "seq_no_primary_term",
    "timeout",
    "terminate_after",
    "profile",
    "indices_boost",
    "stats",
    "suggest",
    "slice",
    "pit",
];

/// Keys of the servers we stand in for whose work we do not do.
const NOT_SUPPORTED: &[&str] = &[
    "runtime_mappings",
    "ext",
    "knn",
    "search_pipeline",
    "verbose_pipeline",
    "rank",
    "retriever",
    "sub_searches",
    "derived",
    "partial_fields",
    "facets",
    "min_compatible_shard_node",
    "point_in_time",
];

impl SearchRequest {
    /// The search without a body, in a dialect.
    pub fn new(dialect: Dialect) -> SearchRequest {
        let track_total_hits = if dialect.rules.counts_all_hits {
            TrackTotal::Exact
        } else {
            TrackTotal::UpTo(10_000)
        };
        SearchRequest {
            dialect,
            track_total_hits,
            ..SearchRequest::default()
        }
    }
    /// Reads the body of a search from its bytes.
    ///
    /// # Errors
    /// It is no JSON, and as [`SearchRequest::parse`].
    pub fn read(content: &[u8], how: json::Reading, dialect: Dialect) -> Result<SearchRequest> {
        let mut out = SearchRequest::parse(json::read(content, how)?, dialect)?;
        out.distinguish(content);
        Ok(out)
    }
    /// Mixes words beside the body into the fingerprint.
    pub fn distinguish(&mut self, words: impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.fingerprint, words).hash(&mut hasher);
        self.fingerprint = hasher.finish();
    }
    /// Reads the body of a search.
    ///
    /// # Errors
    /// Elasticsearch refuses it, in its words; a key that we do not support, by name.
    pub fn parse(node: Node, dialect: Dialect) -> Result<SearchRequest> {
        let found = node.kind_name();
        if !node.is_object() {
            return Err(if dialect.rules.fails_to_derive_content {
                shape::all_shards_failed(Error::new(ErrorKind::Parse, "Failed to derive xcontent"))
            } else {
                node.error(format!("Expected [START_OBJECT] but found [{found}]"))
            });
        }
        let mut out = SearchRequest::new(dialect);
        for (key, value) in shape::object(node, "search")? {
            take_key(&mut out, &key, value).map_err(|cause| {
                let wrapped = !dialect.rules.shards_parse_bodies || cause.kind() == ErrorKind::SearchPhaseExecution;
                if wrapped { cause } else { shape::all_shards_failed(cause) }
            })?;
        }
        if out.collects_nothing {
            let nothing = BoolQuery {
                must: out.query.take().into_iter().collect(),
                filter: vec![Query::from(Clause::MatchNone)],
                ..BoolQuery::default()
            };
            out.query = Some(Query::from(Clause::Bool(nothing)));
        }
        Ok(out)
    }
    /// Moves out the hits that it shows.
    fn take_page(&mut self) -> Page {
        Page {
            from: self.from,
            size: self.size,
            sort: take(&mut self.sort),
            source: take(&mut self.source),
            fields: take(&mut self.fields),
            docvalue_fields: take(&mut self.docvalue_fields),
            stored_fields: self.stored_fields.take(),
            script_fields: take(&mut self.script_fields),
            highlight: self.highlight.take(),
            explain: self.explain,
            version: self.version,
            seq_no_primary_term: self.seq_no_primary_term,
            track_scores: self.track_scores,
            join_fields: take(&mut self.join_fields),
            dialect: self.dialect,
        }
    }
    /// Makes it show these hits.
    fn set_page(&mut self, page: Page) {
        self.from = page.from;
        self.size = page.size;
        self.sort = page.sort;
        self.source = page.source;
        self.fields = page.fields;
        self.docvalue_fields = page.docvalue_fields;
        self.stored_fields = page.stored_fields;
        self.script_fields = page.script_fields;
        self.highlight = page.highlight;
        self.explain = page.explain;
        self.version = page.version;
        self.seq_no_primary_term = page.seq_no_primary_term;
        self.track_scores = page.track_scores;
        self.join_fields = page.join_fields;
        self.dialect = page.dialect;
    }
    /// As the body of a search: everything that differs from its defaults.
    pub fn render(&self) -> Value {
        let mut out = Map::new();
        self.clone().take_page().render(10, &mut out);
        let mut put = |name: &str, value: Value| {
            out.insert(name.to_owned(), value);
        };
        let usual = SearchRequest::new(self.dialect);
        if let Some(query) = &self.query {
            put("query", query.render());
        }
        if let Some(filter) = &self.post_filter {
            put("post_filter", filter.render());
        }
        if self.terminate_after != 0 {
            put("terminate_after", self.terminate_after.into());
        }
        if self.profile {
            put("profile", true.into());
        }
        if let Some(after) = &self.search_after {
            put("search_after", json!(after));
        }
        if !self.aggs.is_empty() {
            put("aggs", aggs::render(&self.aggs));
        }
        if let Some(collapse) = &self.collapse {
            put("collapse", collapse.render());
        }
        if !self.inner_hits.is_empty() {
            put("inner_hits", FreeInnerHits::render(&self.inner_hits));
        }
        if !self.rescore.is_empty() {
            put("rescore", self.rescore.iter().map(Rescore::render).collect());
        }
        if let Some(score) = self.min_score {
            put("min_score", json!(score));
        }
        if self.track_total_hits != usual.track_total_hits {
            put("track_total_hits", self.track_total_hits.render());
        }
        if let Some(timeout) = self.timeout {
            put("timeout", format!("{}ms", timeout.as_millis()).into());
        }
        if !self.indices_boost.is_empty() {
            put(
                "indices_boost",
                self.indices_boost
                    .iter()
                    .map(|(index, boost)| json!({ index.as_str(): boost }))
                    .collect(),
            );
        }
        if !self.stats.is_empty() {
            put("stats", json!(self.stats));
        }
        if !self.suggest.is_empty() {
            put("suggest", suggest::render(&self.suggest));
        }
        if let Some(slice) = &self.slice {
            put("slice", slice.render());
        }
        if let Some(pit) = &self.pit {
            put("pit", pit.render());
        }
        Value::Object(out)
    }
}

/// Reads one key of a search into `out`.
pub(crate) fn take_key(out: &mut SearchRequest, key: &str, value: Node) -> Result<()> {
    let mut page = out.take_page();
    let rest = page.take_key(key, value);
    out.set_page(page);
    match rest? {
        Some(value) => take_own_key(out, key, value),
        None => Ok(()),
    }
}

/// Reads a key that inner hits do not have.
fn take_own_key(out: &mut SearchRequest, key: &str, value: Node) -> Result<()> {
    let dialect = out.dialect;
    let flag = |value: &Node| parse_flag(value, key, dialect);
    if !dialect.rules.tolerates_value_types && !accepts(key, value.kind_name()) {
        return Err(shape::unknown_key(key, &value, &[]));
    }
    match key {
        "query" => out.query = Some(Query::parse(value, &mut Parsing::new(dialect))?),
        "post_filter" => out.post_filter = Some(Query::parse(value, &mut Parsing::of_filter(dialect))?),
        "filter" | "postFilter" if dialect.rules.takes_former_options => {
            out.post_filter = Some(Query::parse(value, &mut Parsing::of_filter(dialect))?)
        }
        "search_after" => out.search_after = Some(parse_search_after(value)?),
        "aggs" | "aggregations" => out.aggs = aggs::parse(value, dialect)?,
        "collapse" => out.collapse = Some(Collapse::parse(value, dialect)?),
        "inner_hits" if dialect.rules.has_free_inner_hits => out.inner_hits = FreeInnerHits::parse(value, dialect)?,
        "rescore" => out.rescore = Rescore::parse(value, dialect)?,
        "min_score" => out.min_score = Some(value.f32(key)?),
        "track_total_hits" => out.track_total_hits = TrackTotal::parse(&value)?,
        "profile" => out.profile = flag(&value)?,
        "include_named_queries_score" if dialect.persona.is_opensearch() => out.named_scores = flag(&value)?,
        "timeout" => out.timeout = parse_timeout(&value, dialect)?,
        "terminate_after" => {
            check_bounds(&value, dialect)?;
            match usize::try_from(value.i64(key)?) {
                Ok(most) => (out.terminate_after, out.collects_nothing) = (most, false),
                Err(_) => (out.terminate_after, out.collects_nothing) = (0, !dialect.rules.tolerates_value_bounds),
            }
        }
        "indices_boost" | "indicesBoost" => out.indices_boost = parse_indices_boost(value, dialect)?,
        "stats" if dialect.rules.tolerates_value_types => out.stats = shape::strings(value, key)?,
        "stats" => out.stats = shape::texts(value, key)?,
        "suggest" => out.suggest = suggest::parse(value)?,
        "slice" => out.slice = Some(Slice::parse(value)?),
        "pit" => out.pit = Some(Pit::parse(value)?),
        "ext" | "runtime_mappings" if matches!(&value.value, Json::Object(members) if members.is_empty()) => {}
        _ if NOT_SUPPORTED.contains(&key) && !dialect.rules.search_parse_exceptions => {
            return Err(value.error(format!("[{key}] in a search is not supported")));
        }
        _ if dialect.rules.search_parse_exceptions => {
            let reason = format!("failed to parse search source. unknown search element [{key}]");
            return Err(Error::new(ErrorKind::SearchParse, reason)
                .with("line", value.line)
                .with("col", value.col));
        }
        _ if crate::query::is_clause(key) => {
            let reason = format!(
                "Unknown key for a {} in [{key}]. [{key}] is a query: it belongs in [query]",
                value.kind_name()
            );
            return Err(value.error(reason));
        }
        _ => return Err(shape::unknown_key(key, &value, KEYS)),
    }
    Ok(())
}

/// Whether a key of today's searches has a meaning for a value that begins so; nothing is said of other keys.
fn accepts(key: &str, kind: &str) -> bool {
    match key {
        "query" | "post_filter" | "aggs" | "aggregations" | "suggest" | "slice" | "collapse" | "pit" | "ext" => {
            kind == "START_OBJECT"
        }
        "indices_boost" | "rescore" => matches!(kind, "START_OBJECT" | "START_ARRAY"),
        "stats" | "search_after" => kind == "START_ARRAY",
        "min_score" | "profile" | "timeout" | "terminate_after" => kind.starts_with("VALUE_") && kind != "VALUE_NULL",
        _ => true,
    }
}

fn parse_search_after(node: Node) -> Result<Vec<Value>> {
    match node.value {
        Json::Array(items) if items.is_empty() => Err(Error::illegal("Values must contains at least one value.")),
        Json::Array(items) => items
            .into_iter()
            .map(|item| match item.value {
                Json::Array(_) | Json::Object(_) => {
                    Err(item.error(format!("Expected [VALUE_STRING] or [VALUE_NUMBER] or [VALUE_BOOLEAN] or [VALUE_NULL] but found [{}] inside search_after.", item.kind_name())))
                }
                _ => Ok(item.into_value()),
            })
            .collect(),
        _ => Err(shape::unknown_key("search_after", &node, &[])),
    }
}

fn parse_timeout(value: &Node, dialect: Dialect) -> Result<Option<Duration>> {
    let text = value.string("timeout")?;
    match text.parse::<u64>() {
        Ok(millis) if dialect.rules.takes_former_times => Ok(Some(Duration::from_millis(millis))),
        _ => parse_duration_or_never(&text, "timeout"),
    }
}

/// A list of objects, or 2015's one object.
fn parse_indices_boost(node: Node, dialect: Dialect) -> Result<Vec<(String, f32)>> {
    let mut out = Vec::new();
    let one = node.is_object();
    for part in node.items() {
        if !part.is_object() && !dialect.rules.tolerates_value_types {
            return Err(part.error(format!(
                "Expected [START_OBJECT] in [indices_boost] but found [{}]",
                part.kind_name()
            )));
        }
        let more = part.error("Expected [END_OBJECT] in [indices_boost] but found [FIELD_NAME]");
        let pairs = shape::object(part, "indices_boost")?;
        if !one && pairs.len() > 1 && !dialect.rules.tolerates_value_types {
            return Err(more);
        }
        for (index, boost) in pairs {
            if !matches!(boost.value, Json::Number(_)) && !dialect.rules.tolerates_value_types {
                let found = boost.kind_name();
                return Err(boost.error(format!("Expected [VALUE_NUMBER] in [indices_boost] but found [{found}]")));
            }
            let boost = boost.f32(&index)?;
            if boost < 0.0 && !dialect.rules.tolerates_value_bounds {
                let cause = Error::illegal(format!("boost must be a positive float, got {boost:?}"));
                return Err(shape::all_shards_failed(cause));
            }
            out.push((index, boost));
        }
    }
    Ok(out)
}

impl Pit {
    /// Reads `pit`.
    ///
    /// # Errors
    /// No `id`, or an option that does not exist.
    pub fn parse(node: Node) -> Result<Pit> {
        let mut fields = node.fields("pit")?.of_object(true);
        let id = fields.take_string("id")?;
        let keep_alive = fields
            .take_string("keep_alive")?
            .map(|text| parse_duration(&text, "keep_alive"))
            .transpose()?;
        fields.finish()?;
        let id = id.ok_or_else(|| Error::illegal("point int time id is not provided"))?;
        Ok(Pit { id, keep_alive })
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        let mut out = Map::new();
        out.insert("id".into(), self.id.as_str().into());
        if let Some(keep) = self.keep_alive {
            out.insert("keep_alive".into(), format!("{}ms", keep.as_millis()).into());
        }
        Value::Object(out)
    }
}

impl TrackTotal {
    /// Reads a boolean or a number; -1 is false.
    ///
    /// # Errors
    /// Another negative number, or no number.
    pub fn parse(node: &Node) -> Result<TrackTotal> {
        match &node.value {
            Json::Array(_) | Json::Object(_) | Json::Null => Err(shape::unknown_key("track_total_hits", node, &[])),
            _ => TrackTotal::read(&node.string("track_total_hits")?, &|number| {
                shape::all_shards_failed(Error::illegal(format!("totalHitsThreshold must be >= 0, got {number}")))
            }),
        }
    }
    /// As [`TrackTotal::parse`], from a parameter of the URL.
    ///
    /// # Errors
    /// The same, in other words.
    pub fn parse_text(text: &str) -> Result<TrackTotal> {
        TrackTotal::read(text, &|number| {
            Error::illegal(format!(
                "[track_total_hits] parameter must be positive or equals to -1, got {number}"
            ))
        })
    }
    fn read(text: &str, negative: &dyn Fn(i64) -> Error) -> Result<TrackTotal> {
        match text {
            "true" => return Ok(TrackTotal::Exact),
            "false" | "-1" => return Ok(TrackTotal::No),
            _ => {}
        }
        let number: i64 = text.parse().map_err(|_| Error::no_number(text))?;
        usize::try_from(number).map(TrackTotal::UpTo).map_err(|_| negative(number))
    }
    /// As in a request.
    pub fn render(self) -> Value {
        match self {
            TrackTotal::Exact => true.into(),
            TrackTotal::No => false.into(),
            TrackTotal::UpTo(most) => most.into(),
        }
    }
}
