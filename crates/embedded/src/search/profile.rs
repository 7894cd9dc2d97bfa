//! `profile`: what a search took, index by index.
//!
//! One pass collects hits and aggregations together, so there is one time for both. Not here: joins, which
//! `relations` adds.

use super::Searched;
use dsl::search::SearchRequest;
use serde_json::{Value, json};
use std::time::Duration;

/// The `profile` of an answer; `took` has the time of each index that was reached.
pub(super) fn render(views: &[Searched], request: &SearchRequest, took: &[Duration]) -> Value {
    let query = request.query.clone().unwrap_or_else(dsl::query::Query::all).render();
    let kind = query.as_object().and_then(|clause| clause.keys().next().cloned());
    let shards = views.iter().zip(took).map(|((view, _), took)| {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        json!({
            "id": format!("[pleach][{}][0]", view.name),
            "searches": [{
                "query": [{ "type": kind, "description": query.to_string(), "time_in_nanos": nanos, "breakdown": {} }],
                "rewrite_time": 0,
                "collector": [{ "name": "OnePass", "reason": "search_top_hits", "time_in_nanos": nanos }],
            }],
            "aggregations": [],
        })
    });
    json!({ "shards": shards.collect::<Vec<Value>>() })
}
