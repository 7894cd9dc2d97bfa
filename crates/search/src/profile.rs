//! `profile`: what a search took, index by index.
//!
//! Clauses keep their own times (`scorers::profile`), aggregations theirs (`aggs::profile`). One pass collects hits and
//! aggregations together, so there is one collector and its time has both in it. Not here: joins, which `relations` adds.

use crate::Searched;
use dsl::search::{SearchRequest, Sort, SortBy};
use serde_json::{Value, json};
use std::time::Duration;

/// The `profile` of an answer; `took` has the time of each index that was reached, `clauses` those of each index.
pub(super) fn render(views: &[Searched], request: &SearchRequest, clauses: Vec<Vec<Value>>, took: &[Duration]) -> Value {
    let shards = views.iter().zip(clauses).zip(took).map(|(((view, _), clauses), took)| {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        json!({
            "id": format!("[pleach][{}][0]", view.name),
            "inbound_network_time_in_millis": 0,
            "outbound_network_time_in_millis": 0,
            "searches": [{ "query": clauses, "rewrite_time": 0, "collector": [collector(request, nanos)] }],
            "aggregations": [],
        })
    });
    json!({ "shards": shards.collect::<Vec<Value>>() })
}

/// Times alone for indices of which documents are withheld: how often a clause went on tells how many of those have its terms.
pub(super) fn hide_counts(views: &[Searched], profile: &mut Value) {
    let mut left: Vec<&mut Value> = Vec::new();
    for ((view, _), shard) in views.iter().zip(profile["shards"].as_array_mut().into_iter().flatten()) {
        if view.is_restricted() {
            left.push(shard);
        }
    }
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(members) => {
                members.remove("debug");
                for (name, member) in members {
                    if name.ends_with("_count") && member.is_u64() {
                        *member = 0.into();
                    } else {
                        left.push(member);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The one collector, by the names that tell what it does.
fn collector(request: &SearchRequest, nanos: u64) -> Value {
    let by_score = request.sort.iter().all(|sort| {
        matches!(
            sort,
            Sort {
                by: SortBy::Score,
                ascending: false
            }
        )
    });
    let one = |name: &str, reason: &str| json!({ "name": name, "reason": reason, "time_in_nanos": nanos });
    let hits = if request.size == 0 {
        one("EarlyTerminatingCollector", "search_count")
    } else if by_score {
        one("SimpleTopScoreDocCollector", "search_top_hits")
    } else {
        one("SimpleFieldCollector", "search_top_hits")
    };
    let around = |name: &str, reason: &str, below: Value| {
        let mut out = one(name, reason);
        out["children"] = json!([below]);
        out
    };
    let mut out = hits;
    if request.post_filter.is_some() {
        out = around("FilteredCollector", "search_post_filter", out);
    }
    if request.min_score.is_some() {
        out = around("MinimumScoreCollector", "search_min_score", out);
    }
    if request.terminate_after > 0 {
        out = around("MultiCollector", "search_terminate_after_count", out);
    }
    if !request.aggs.is_empty() {
        let mut both = one("MultiCollector", "search_multi");
        both["children"] = json!([out, one("AggregationCollector", "aggregation")]);
        out = both;
    }
    out
}
