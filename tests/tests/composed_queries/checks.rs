//! One way of asking each, and what the answer must be.
//!
//! Not here: which queries are asked (`main`), what they find (`composed`).

use crate::Random;
use crate::composed::{Dialect, Found};
use crate::store::{Store, id_of};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Scores are sums of single precision, in some order.
fn is_same(ours: f64, expected: f64) -> bool {
    (ours - expected).abs() <= 2e-5 * expected.abs().max(1.0)
}

pub(crate) fn check_whole(store: &Store<'_>, query: &Value, expected: &Found) {
    let (found, order) = store.whole(query);
    let ids = |found: &Found| found.keys().cloned().collect::<BTreeSet<_>>();
    let (ours, theirs) = (ids(&found), ids(expected));
    let surplus: Vec<_> = ours.difference(&theirs).take(5).collect();
    let lacking: Vec<_> = theirs.difference(&ours).take(5).collect();
    assert!(
        surplus.is_empty() && lacking.is_empty(),
        "{query}: found {surplus:?}, not found {lacking:?}"
    );
    for (id, score) in found.iter().filter(|_| store.dialect == Dialect::Todays) {
        assert!(
            is_same(*score, expected[id]),
            "{query}: [{id}] has {score}, not {}",
            expected[id]
        );
    }
    let falls = order.windows(2).all(|two| found[&two[0]] >= found[&two[1]]);
    assert!(falls, "{query}: best first");
}

pub(crate) fn check_pruned(store: &Store<'_>, query: &Value, expected: &Found, random: Random<'_>) {
    let (size, from) = (1 + random(20), random(2) * random(30));
    let mut body = json!({ "query": query, "size": size, "from": from, "_source": false });
    let counted = [json!(null), json!(true), json!(false), json!(random(300))][random(4) as usize].clone();
    if !counted.is_null() {
        body["track_total_hits"] = counted.clone();
    }
    let answer = store.search(&body);
    let total = answer["hits"]["total"]["value"].as_u64();
    match (&counted, answer["hits"]["total"]["relation"].as_str()) {
        (Value::Bool(false), _) => assert_eq!(total, None, "{body}"),
        (Value::Number(most), Some("gte")) => {
            assert_eq!(total, most.as_u64(), "{body}");
            assert!(expected.len() as u64 >= most.as_u64().unwrap(), "{body}: {}", expected.len());
        }
        _ => assert_eq!(total, Some(expected.len() as u64), "{body}"),
    }
    let hits = answer["hits"]["hits"].as_array().unwrap();
    let mut scores: Vec<f64> = expected.values().copied().collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    let page: Vec<f64> = scores.into_iter().skip(from as usize).take(size as usize).collect();
    assert_eq!(hits.len(), page.len(), "{body}");
    for (hit, score) in hits.iter().zip(page) {
        let (id, own) = (id_of(hit), hit["_score"].as_f64().unwrap());
        assert!(is_same(own, score), "{body}: [{id}] has {own} where {score} is due");
        let known = expected.get(&id);
        assert!(
            known.is_some_and(|known| is_same(own, *known)),
            "{body}: [{id}] {own}, {known:?}"
        );
    }
}

/// `filtered`: what the query finds as a filter.
pub(crate) fn check_sorted(store: &Store<'_>, query: &Value, expected: &Found, filtered: &Found, random: Random<'_>) {
    let is_filter = random(2) == 0;
    let expected = if is_filter { filtered } else { expected };
    let mut ids = store.by_number(expected);
    let order = ["asc", "desc"][random(2) as usize];
    if order == "desc" {
        ids.reverse();
    }
    let mut body = json!({ "query": query, "size": 1 + random(30), "sort": [{ "no": order }], "_source": false });
    // Its set may be kept.
    if is_filter {
        body["query"] = json!({ "bool": { "filter": [query] } });
    }
    let mut rest = ids.as_slice();
    if random(2) == 0 && !ids.is_empty() && store.dialect == Dialect::Todays {
        let at = random(ids.len() as u64) as usize;
        body["search_after"] = json!([store.docs[ids[at]].no]);
        rest = &ids[at + 1..];
    }
    let answer = store.search(&body);
    let hits: Vec<String> = answer["hits"]["hits"].as_array().unwrap().iter().map(id_of).collect();
    let size = body["size"].as_u64().unwrap() as usize;
    assert!(
        hits.iter().eq(rest.iter().take(size).copied()),
        "{body}: {hits:?}, not {rest:?}"
    );
    let total = &answer["hits"]["total"];
    let total = total.as_u64().or_else(|| total["value"].as_u64());
    assert_eq!(total, Some(expected.len() as u64), "{body}");
}

pub(crate) fn check_counted(store: &Store<'_>, query: &Value, expected: &Found, filtered: &Found) {
    let count = |query: &Value| {
        let answer = store.server.ok("POST", &store.path("_count"), &json!({ "query": query }));
        answer["count"].as_u64()
    };
    assert_eq!(count(query), Some(expected.len() as u64), "{query}");
    let (all, found) = (store.docs.len() as u64, filtered.len() as u64);
    let excluded = json!({ "bool": { "must_not": [query] } });
    assert_eq!(count(&excluded), Some(all - found), "{excluded}");
    let both = json!({ "bool": { "must": [{ "match_all": {} }, { "bool": { "must": [{ "range": { "no": { "gte": 0 } } }], "must_not": [query] } }] } });
    assert_eq!(count(&both), Some(all - found), "{both}");
}

pub(crate) fn check_aggregated(store: &Store<'_>, query: &Value, expected: &Found, filtered: &Found) {
    let aggs = json!({
        "tags": { "terms": { "field": "tags", "size": 100 } }, "no": { "sum": { "field": "no" } },
        "others": { "filter": { "bool": { "must_not": [query] } } }
    });
    let others = expected.keys().filter(|id| !filtered.contains_key(*id)).count();
    let answer = store.search(&json!({ "query": query, "size": 0, "aggs": aggs }));
    let mut tags: BTreeMap<&str, u64> = BTreeMap::new();
    let mut sum = 0;
    for id in expected.keys() {
        let doc = &store.docs[id];
        sum += doc.no;
        for tag in &doc.tags {
            *tags.entry(tag).or_default() += 1;
        }
    }
    let buckets = answer["aggregations"]["tags"]["buckets"].as_array().unwrap().iter();
    let ours: BTreeMap<&str, u64> = buckets
        .map(|bucket| (bucket["key"].as_str().unwrap(), bucket["doc_count"].as_u64().unwrap()))
        .collect();
    assert_eq!(ours, tags, "{query}");
    assert_eq!(answer["aggregations"]["no"]["value"].as_f64(), Some(sum as f64), "{query}");
    assert_eq!(answer["aggregations"]["others"]["doc_count"], others, "{query}");
    let all = store.search(&json!({ "size": 0, "aggs": { "own": { "filter": query } } }));
    assert_eq!(
        all["aggregations"]["own"]["doc_count"].as_u64(),
        Some(filtered.len() as u64),
        "{query}"
    );
}

pub(crate) fn check_collapsed(store: &Store<'_>, query: &Value, expected: &Found) {
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for (id, score) in expected {
        let group = best.entry(&store.docs[id].group).or_insert(f64::MIN);
        *group = group.max(*score);
    }
    let body = json!({ "query": query, "size": 100, "collapse": { "field": "group" }, "_source": false });
    let answer = store.search(&body);
    let hits = answer["hits"]["hits"].as_array().unwrap();
    assert_eq!(hits.len(), best.len(), "{body}");
    for hit in hits {
        let (group, score) = (hit["fields"]["group"][0].as_str().unwrap(), hit["_score"].as_f64().unwrap());
        assert!(
            is_same(score, best[group]),
            "{body}: the best of [{group}] has {}, not {score}",
            best[group]
        );
    }
}

pub(crate) fn check_explained(store: &Store<'_>, query: &Value, expected: &Found, random: Random<'_>) {
    let ids: Vec<&String> = store
        .docs
        .iter()
        .filter(|(_, doc)| doc.no % 10 != 9)
        .map(|(id, _)| id)
        .collect();
    let id = ids[random(ids.len() as u64) as usize];
    let path = match store.dialect {
        Dialect::Todays => format!("/docs/_explain/{id}"),
        Dialect::Of2015 => format!("/docs/entry/{id}/_explain"),
    };
    let answer = store.server.call("POST", &path, &json!({ "query": query }));
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    assert_eq!(answer.body["matched"], expected.contains_key(id), "{query}: [{id}]");
    if let Some(score) = expected.get(id).filter(|_| store.dialect == Dialect::Todays) {
        let value = answer.body["explanation"]["value"].as_f64().unwrap();
        assert!(
            is_same(value, *score),
            "{query}: [{id}] is explained with {value}, not {score}"
        );
    }
}
