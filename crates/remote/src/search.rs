//! Simple searches: the request is rendered with what is hidden left out, and hits and aggregations are read back.
//!
//! Other parts of an answer are refused by name: nothing that was asked for is dropped.

use crate::answers::{self, Got};
use crate::http::Failure;
use crate::join_terms::with_terms;
use crate::marks::{self, HIDDEN_FIELD};
use crate::{Shared, target_path, unsupported_error};
use dsl::query::Query;
use dsl::search::{Aggregations, Hit, Hits, QueriesMut, SearchRequest, SearchResponse, Total};
use engine::See;
use model::{Result, Target};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

#[derive(Deserialize)]
pub(crate) struct Found<'a> {
    #[serde(default)]
    took: u64,
    #[serde(default)]
    timed_out: bool,
    terminated_early: Option<bool>,
    #[serde(default)]
    pub(crate) _shards: Value,
    #[serde(borrow)]
    pub(crate) hits: FoundHits<'a>,
    #[serde(default)]
    aggregations: Option<Map<String, Value>>,
    #[serde(borrow, default)]
    pub(crate) _scroll_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(crate) struct FoundHits<'a> {
    #[serde(default)]
    total: Option<FoundTotal>,
    #[serde(default)]
    max_score: Value,
    #[serde(borrow)]
    pub(crate) hits: Vec<Got<'a>>,
}

#[derive(Deserialize)]
struct FoundTotal {
    value: u64,
    relation: String,
}

/// A query without what plain readers do not see. Scores stay.
pub(crate) fn visible_query(query: Option<Value>, see: See) -> Value {
    let query = query.unwrap_or_else(|| json!({ "match_all": {} }));
    match see {
        See::Everything => query,
        See::Plain => json!({ "bool": { "must": [query], "must_not": [{ "term": { HIDDEN_FIELD: true } }] } }),
    }
}

/// The first thing asked for that the slice does not carry.
fn beyond(request: &SearchRequest) -> Option<&'static str> {
    let rows = [
        ("a view or point in time", request.view.is_some() || request.pit.is_some()),
        (
            "naming mapping types",
            !request.types.is_empty() || request.dialect.rules.has_types,
        ),
        ("values for joins", !request.join_fields.is_empty()),
        ("[slice]", request.slice.is_some()),
        ("[highlight]", request.highlight.is_some()),
        ("[explain]", request.explain),
        ("[profile]", request.profile),
        ("[suggest]", !request.suggest.is_empty()),
        ("[rescore]", !request.rescore.is_empty()),
        ("[collapse]", request.collapse.is_some()),
        ("[stored_fields]", request.stored_fields.is_some()),
        ("[docvalue_fields]", !request.docvalue_fields.is_empty()),
        ("[script_fields]", !request.script_fields.is_empty()),
    ];
    rows.into_iter().find(|(_, asked)| *asked).map(|(what, _)| what)
}

impl Shared {
    pub(crate) async fn search(&self, target: &Target, mut request: SearchRequest, see: See) -> Result<SearchResponse> {
        if let Some(what) = beyond(&request) {
            return Err(unsupported_error(what));
        }
        let terms_max = self.options.terms_max;
        request.queries_mut(&mut |_, query| {
            let taken = std::mem::replace(query, Query::all());
            *query = with_terms(taken, terms_max)?;
            Ok(())
        })?;
        let mut body = request.render();
        if body["aggs"].to_string().contains("\"global\":") {
            // It looks past the query, and so past what hides.
            return Err(unsupported_error("the aggregation [global]"));
        }
        body["query"] = visible_query(request.query.as_ref().map(Query::render), see);
        let (names, parameters) = target_path(target)?;
        let path = format!("/{names}/_search?allow_partial_search_results=false&{parameters}");
        let asked = self
            .http
            .ask("POST", &path, "application/json", body.to_string().into())
            .await;
        let answer = asked.map_err(Failure::into_error)?;
        if answer.status >= 300 {
            return Err(answers::refusal(&answer));
        }
        let found: Found<'_> = serde_json::from_slice(&answer.body).map_err(|e| answers::strange(&e))?;
        let shards = crate::all_shards(&json!({ "_shards": found._shards }))?;
        Ok(SearchResponse {
            took_ms: found.took,
            timed_out: found.timed_out,
            terminated_early: found.terminated_early,
            shards,
            hits: Hits {
                total: found.hits.total.as_ref().map(|total| Total {
                    value: total.value,
                    exact: total.relation == "eq",
                }),
                max_score: score(&found.hits.max_score),
                hits: found.hits.hits.iter().map(|got| hit(got, &request)).collect::<Result<_>>()?,
            },
            aggregations: found.aggregations.map(Aggregations::Tree),
            ..SearchResponse::default()
        })
    }
}

#[allow(clippy::cast_possible_truncation, reason = "scores are 32-bit numbers")]
fn score(value: &Value) -> Option<f32> {
    value.as_f64().map(|score| score as f32)
}

fn hit(got: &Got<'_>, request: &SearchRequest) -> Result<Hit> {
    let at = got.at();
    let mut hit = Hit::new(at.index, at.id);
    hit.score = score(&got._score);
    hit.stamp = got.stamp();
    hit.show_version = request.version;
    hit.show_seq_no = request.seq_no_primary_term;
    hit.routing = got.routing();
    hit.sort = got.sort.clone();
    hit.fields = got.fields.clone();
    if let Some(source) = got._source {
        let (source, _) = marks::take(source.get().as_bytes())?;
        hit.source = Some(String::from_utf8_lossy(&source.0).into());
    }
    Ok(hit)
}
