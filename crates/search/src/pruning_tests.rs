//! Every search that may leave documents out answers as one that looks at all of them: scores, order, ties, totals.
//!
//! Random requests over a few random indices, some of whose segments are large enough for bounds of blocks. The exhaustive
//! answer comes from the same request with a `terminate_after` that is never reached, which turns off all pruning.

use crate::tests::{search_again, search_side_by_side, view_of};
use dsl::search::SearchResponse;
use model::random::random;
use segment::searchable::IndexView;
use serde_json::{Value, json};
use std::sync::Arc;

/// Requests in all; `PLEACH_PRUNING_CASES` asks for another number.
const CASES: usize = 10_000;
const INDICES: u64 = 4;
const WORDS: u64 = 24;

/// A word; the first ones are frequent.
fn word(random: &mut dyn FnMut(u64) -> u64) -> String {
    let below = 1 + random(WORDS);
    format!("w{}", random(below))
}

fn index(seed: u64) -> Arc<IndexView> {
    let mut random = random(seed);
    let mapping = json!({"properties": {
        "text": {"type": "text"}, "group": {"type": "keyword"}, "id": {"type": "keyword"}, "n": {"type": "integer"},
        "price": {"type": "double"}, "day": {"type": "date", "format": "epoch_second"}
    }});
    let large = 9_000 + random(3_000) as usize;
    let sizes = [large, 300, 1 + random(40) as usize];
    let all = sizes.iter().sum::<usize>();
    let docs: Vec<Value> = (0..all as u64)
        .map(|no| {
            let words: Vec<String> = (0..1 + random(9)).map(|_| word(&mut random)).collect();
            let mut doc = json!({ "text": words.join(" "), "id": format!("{:05}", random(100_000)) });
            if random(20) > 0 {
                doc["group"] = format!("g{}", random(30)).into();
            }
            // In the order of documents, with some disorder.
            doc["day"] = (1_000 * no + random(20_000)).into();
            match random(12) {
                0 => {}
                1 => doc["n"] = json!([random(1_000), random(1_000)]),
                _ => doc["n"] = (no / 7 + random(50)).into(),
            }
            if random(3) > 0 {
                doc["price"] = (random(5_000) as f64 / 7.0 - 100.0).into();
            }
            doc
        })
        .collect();
    let deleted = random(3);
    let is_deleted = move |segment: usize, doc: u32| match deleted {
        0 => false,
        1 => doc % 5 == segment as u32,
        _ => !doc.is_multiple_of(3),
    };
    Arc::new(view_of(&mapping, &docs, &sizes, &is_deleted))
}

fn random_scored_clause(random: &mut dyn FnMut(u64) -> u64) -> Value {
    let words: Vec<String> = (0..1 + random(4)).map(|_| word(random)).collect();
    match random(6) {
        0 => json!({"match": {"text": {"query": words.join(" "), "operator": "and"}}}),
        1 => json!({"match": {"text": {"query": words.join(" "), "minimum_should_match": 1 + random(3)}}}),
        2 => json!({"match": {"text": word(random)}}),
        3 => json!({"match_phrase": {"text": format!("{} {}", word(random), word(random))}}),
        4 => json!({"match_all": {}}),
        _ => json!({"match": {"text": words.join(" ")}}),
    }
}

fn filter(random: &mut dyn FnMut(u64) -> u64) -> Value {
    let low = random(10_000);
    match random(6) {
        0 => json!({"term": {"group": format!("g{}", random(31))}}),
        1 => json!({"range": {"n": {"gte": random(900), "lt": random(1_800)}}}),
        2 => json!({"range": {"day": {"gte": low * 1_000, "lte": (low + random(4_000)) * 1_000}}}),
        3 => json!({"range": {"price": {"gt": random(600) as f64 - 100.0}}}),
        4 => json!({"exists": {"field": "price"}}),
        _ => json!({"match": {"text": word(random)}}),
    }
}

fn query(random: &mut dyn FnMut(u64) -> u64) -> Value {
    let mut clauses = json!({ "must": [random_scored_clause(random)] });
    if random(3) > 0 {
        clauses["must_not"] = json!([{"term": {"group": format!("g{}", random(60))}}]);
    }
    if random(2) > 0 {
        clauses["filter"] = (0..1 + random(2)).map(|_| filter(random)).collect();
    }
    match random(5) {
        0 => random_scored_clause(random),
        1 => {
            let should: Vec<Value> = (0..1 + random(3)).map(|_| json!({"match": {"text": word(random)}})).collect();
            clauses["should"] = should.into();
            clauses["minimum_should_match"] = random(2).into();
            if random(2) == 0 {
                clauses["must"] = json!([]);
            }
            json!({ "bool": clauses })
        }
        2 => json!({"bool": {"must": [{"bool": clauses}], "filter": [filter(random)]}}),
        _ => json!({ "bool": clauses }),
    }
}

fn sort(random: &mut dyn FnMut(u64) -> u64) -> Option<Value> {
    if random(2) == 0 {
        return None;
    }
    let keys = (0..1 + random(3)).map(|_| {
        let field = ["n", "price", "day", "group", "id"][random(5) as usize];
        let order = ["asc", "desc"][random(2) as usize];
        let mut how = json!({ "order": order });
        if random(4) == 0 {
            how["missing"] = ["_first", "_last"][random(2) as usize].into();
        }
        if random(6) == 0 && field != "group" && field != "id" {
            how["mode"] = ["min", "max"][random(2) as usize].into();
        }
        json!({ field: how })
    });
    Some(keys.collect())
}

/// The ids with their scores and sort values.
fn hits(answer: &SearchResponse) -> Vec<(String, Option<f32>, String)> {
    let hits = answer.hits.hits.iter();
    hits.map(|hit| (hit.id.id.to_string(), hit.score, format!("{:?}", hit.sort)))
        .collect()
}

/// The first inner hits of each hit: their number, their best score, and their ids and scores.
fn members(answer: &SearchResponse) -> Vec<String> {
    let inner = answer.hits.hits.iter().map(|hit| &hit.inner_hits[0].1);
    inner
        .map(|hits| {
            let shown: Vec<_> = hits.hits.iter().map(|hit| (hit.id.id.to_string(), hit.score)).collect();
            format!("{:?} {:?} {shown:?}", hits.total, hits.max_score)
        })
        .collect()
}

/// Begins a sorted search behind one of its own hits.
fn after_some_hit(view: &Arc<IndexView>, body: &mut Value, nth: u64) {
    let mut before = body.clone();
    (before["from"], before["size"]) = (nth.into(), 1.into());
    let answer = search_again(view, &before).unwrap();
    if let Some(hit) = answer.hits.hits.first() {
        body["search_after"] = hit.sort.clone().into();
        body["from"] = 0.into();
    }
}

#[test]
fn the_best_without_looking_at_all_are_the_best() {
    let cases = std::env::var("PLEACH_PRUNING_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let indices: Vec<Arc<IndexView>> = (0..INDICES).map(|seed| index(90 + seed)).collect();
    for case in 0..cases {
        let random = &mut random(case as u64 * 7_919 + 1);
        let view = &indices[random(INDICES) as usize];
        let size = [1, 3, 10, 40][random(4) as usize];
        let mut body = json!({ "query": query(random), "size": size, "from": random(3) * random(20) });
        if let Some(sort) = sort(random) {
            body["sort"] = sort;
        }
        if body.get("sort").is_none() && random(5) == 0 {
            let field = ["group", "id", "n"][random(3) as usize];
            body["collapse"] = json!({ "field": field });
            if random(2) == 0 {
                let members = json!({ "name": "members", "size": random(4), "from": random(3) });
                body["collapse"]["inner_hits"] = json!([members]);
            }
        }
        let most = [0, 5, 100, 10_000][random(4) as usize];
        body["track_total_hits"] = match random(6) {
            0 => true.into(),
            1 => false.into(),
            _ => most.into(),
        };
        if body.get("sort").is_some() && random(2) == 0 {
            after_some_hit(view, &mut body, random(30));
        }
        let pruned = search_again(view, &body).unwrap_or_else(|e| panic!("{case}: {body}: {e}"));
        // Searches by score divide their segments; whichever thread takes which, the answer is one (S26).
        if body.get("sort").is_none() {
            let divided = search_side_by_side(view, &body).unwrap_or_else(|e| panic!("{case}: {body}: {e}"));
            assert_eq!(hits(&divided), hits(&pruned), "{case}, side by side: {body}");
            assert_eq!(divided.hits.total, pruned.hits.total, "{case}, side by side: {body}");
            if body["collapse"]["inner_hits"].is_array() {
                // Members in two orders are looked at one by one.
                let mut ordered = body.clone();
                let others = json!({ "name": "others", "size": 1, "sort": ["n"] });
                ordered["collapse"]["inner_hits"].as_array_mut().unwrap().push(others);
                let ordered = members(&search_again(view, &ordered).unwrap());
                assert_eq!(members(&pruned), ordered, "{case}: {body}");
                assert_eq!(members(&divided), ordered, "{case}, side by side: {body}");
            }
        }
        let mut all = body.clone();
        all["terminate_after"] = i32::MAX.into();
        all["track_total_hits"] = true.into();
        let exhaustive = search_again(view, &all).unwrap_or_else(|e| panic!("{case}: {all}: {e}"));
        assert_eq!(hits(&pruned), hits(&exhaustive), "{case}: {body}");
        let count = exhaustive.hits.total.unwrap().value;
        let total = pruned.hits.total.map(|total| (total.value, total.exact));
        let expected = match &body["track_total_hits"] {
            Value::Bool(true) => Some((count, true)),
            Value::Bool(false) => None,
            most => {
                let most = most.as_u64().unwrap();
                Some(if count > most { (most, false) } else { (count, true) })
            }
        };
        assert_eq!(total, expected, "{case}: {body}");
    }
}
