//! Aggregations that collect blocks answer as they do document by document, and on several threads as on one.
//!
//! Random trees of aggregations over random segments with deletes, several values and none. The expected answer is that of the same
//! request where each level is shown one document at a time, and on one thread.

use crate::tests::{search_again, search_side_by_side, view_of};
use dsl::search::{Aggregations, SearchResponse};
use model::random::random;
use segment::searchable::IndexView;
use serde_json::{Value, json};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Levels show their documents one by one.
    pub(super) static ONE_BY_ONE: Cell<bool> = const { Cell::new(false) };
}

/// Requests in all; `PLEACH_BLOCKS_CASES` asks for another number.
const CASES: usize = 600;
const INDICES: u64 = 3;

type Random<'a> = &'a mut dyn FnMut(u64) -> u64;

fn one_of<T: Clone>(random: Random<'_>, list: &[T]) -> T {
    list[random(list.len() as u64) as usize].clone()
}

fn index(seed: u64) -> Arc<IndexView> {
    let mut random = random(seed);
    let mapping = json!({"properties": {
        "text": {"type": "text"}, "one": {"type": "keyword"}, "some": {"type": "keyword"}, "many": {"type": "keyword"},
        "whole": {"type": "integer"}, "numbers": {"type": "long"}, "price": {"type": "double"}, "rates": {"type": "float"},
        "day": {"type": "date"}, "days": {"type": "date"}, "nanos": {"type": "date_nanos"}, "on": {"type": "boolean"},
        "ip": {"type": "ip"}
    }});
    let sizes = [1_100 + random(400) as usize, 90, 1 + random(5) as usize];
    let docs: Vec<Value> = (0..sizes.iter().sum::<usize>() as i64)
        .map(|no| {
            let mut pick = |below: u64| random(below);
            let day = |pick: Random<'_>| 1_500_000_000_000 + no * 40_000_000 + pick(3_000_000_000) as i64 - 1_000_000_000;
            let mut doc = json!({
                "text": format!("w{} w{}", pick(3), pick(6)), "one": format!("k{}", pick(9) * pick(9)),
                "whole": pick(2_000) as i64 - 700, "day": day(&mut pick),
            });
            let several = pick(4);
            doc["many"] = (0..several).map(|_| format!("m{}", pick(12))).collect();
            doc["numbers"] = (0..pick(3)).map(|_| Value::from(pick(50) as i64 - 20)).collect();
            doc["rates"] = (0..pick(3)).map(|_| Value::from(pick(9) as f64 / 8.0)).collect();
            doc["days"] = (0..pick(3)).map(|_| Value::from(day(&mut pick))).collect();
            if pick(3) > 0 {
                doc["some"] = format!("s{}", pick(40)).into();
                doc["price"] = (pick(900) as f64 / 7.0 - 30.0).into();
                doc["nanos"] = format!("20{:02}-03-01T00:00:00.000000123Z", 10 + pick(20)).into();
            }
            if pick(5) > 0 {
                doc["on"] = (pick(2) == 0).into();
                doc["ip"] = format!("10.0.0.{}", pick(20)).into();
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

const NUMBERS: [&str; 8] = ["whole", "numbers", "price", "rates", "day", "days", "nanos", "on"];

fn metric(random: Random<'_>) -> Value {
    let any = ["one", "some", "many", "ip"];
    let number = one_of(random, &NUMBERS);
    let kind = one_of(random, &["avg", "sum", "min", "max", "stats", "extended_stats"]);
    match random(11) {
        9 => json!({"percentiles": {"field": number, "percents": [5, 50, 99]}}),
        10 => {
            json!({"top_metrics": {"metrics": {"field": one_of(random, &["whole", "one"])}, "sort": {"day": "desc"}, "size": 2}})
        }
        0 => json!({"max": {"script": {"source": "_score"}}}),
        1 => json!({"cardinality": {"field": one_of(random, &any)}}),
        2 => json!({"cardinality": {"field": number}}),
        3 => json!({"value_count": {"field": one_of(random, &any)}}),
        4 => json!({"top_hits": {"size": 1 + random(3), "_source": false}}),
        5 => json!({"top_hits": {"size": 2, "_source": false, "sort": [{"whole": "desc"}]}}),
        6 if kind.contains("stats") => json!({"value_count": {"field": number}}),
        6 => json!({kind: {"field": number, "missing": random(5)}}),
        _ => json!({kind: {"field": number}}),
    }
}

fn terms(random: Random<'_>) -> Value {
    let field = one_of(
        random,
        &[
            "one", "some", "many", "one", "some", "whole", "numbers", "price", "on", "day", "ip",
        ],
    );
    let mut terms = json!({"field": field, "size": one_of(random, &[1, 5, 100])});
    match random(6) {
        0 if ["one", "some", "many"].contains(&field) => terms["missing"] = "none".into(),
        1 if ["one", "some", "many"].contains(&field) => terms["include"] = ".*[0-4]".into(),
        2 => terms["min_doc_count"] = (random(2) * 3).into(),
        3 => terms["order"] = json!({"_key": one_of(random, &["asc", "desc"])}),
        4 => terms["collect_mode"] = "breadth_first".into(),
        _ => {}
    }
    json!({ "terms": terms })
}

fn dates(random: Random<'_>) -> Value {
    let mut dates = json!({"field": one_of(random, &["day", "day", "days", "nanos"])});
    match random(4) {
        0 => dates["fixed_interval"] = one_of(random, &["12h", "5d", "90d"]).into(),
        _ => dates["calendar_interval"] = one_of(random, &["day", "week", "month", "quarter", "year"]).into(),
    }
    match random(8) {
        0 => dates["time_zone"] = "+02:00".into(),
        1 => dates["time_zone"] = "Europe/Berlin".into(),
        2 => dates["offset"] = "-6h".into(),
        3 => dates["missing"] = "2018-01-01".into(),
        4 => dates["hard_bounds"] = json!({"min": "2017-08-01", "max": "2018-06-01"}),
        _ => {}
    }
    dates["min_doc_count"] = 1.into();
    json!({ "date_histogram": dates })
}

fn aggregation(random: Random<'_>, depth: u64) -> Value {
    if depth == 0 || random(3) == 0 {
        return metric(random);
    }
    let mut agg = match random(9) {
        7 => json!({"missing": {"field": one_of(random, &["some", "price", "ip"])}}),
        8 => json!({"filters": {"other_bucket": true, "filters": {
            "few": {"term": {"some": "s3"}}, "many": {"script": {"script": "doc['whole'].value > 100"}}}}}),
        0..3 => terms(random),
        3 => dates(random),
        4 => json!({"histogram": {"field": one_of(random, &NUMBERS[..4]), "interval": 7.5, "min_doc_count": 1}}),
        5 => json!({"filter": {"range": {"whole": {"gte": random(400)}}}}),
        _ => json!({"range": {"field": "whole", "ranges": [{"to": 300}, {"from": 100}]}}),
    };
    let below = random(3);
    if below > 0 {
        agg["aggs"] = (0..below)
            .map(|no| (format!("b{no}"), aggregation(random, depth - 1)))
            .collect();
    }
    agg
}

fn body(random: Random<'_>) -> Value {
    let query = match random(5) {
        0 => json!({"match_all": {}}),
        1 => json!({"term": {"one": "k6"}}),
        2 => json!({"bool": {"must": {"match": {"text": "w1"}}, "filter": {"range": {"whole": {"lt": 900}}}}}),
        _ => json!({"match": {"text": format!("w{}", random(6))}}),
    };
    let aggs: Value = (0..1 + random(2))
        .map(|no| (format!("a{no}"), aggregation(random, 3)))
        .collect();
    let mut body = json!({ "query": query, "aggs": aggs, "size": random(3) * 2 });
    match random(9) {
        0 => body["post_filter"] = json!({"term": {"on": true}}),
        1 => body["terminate_after"] = (1 + random(700)).into(),
        2 => body["min_score"] = 0.5.into(),
        3 => body["sort"] = json!([{"whole": "asc"}]),
        4 => body["collapse"] = json!({"field": "one"}),
        _ => {}
    }
    body
}

fn tree(answer: SearchResponse) -> Value {
    match answer.aggregations {
        Some(Aggregations::Tree(tree)) => tree.into(),
        other => panic!("no tree of aggregations: {other:?}"),
    }
}

#[test]
fn blocks_answer_as_documents_do() {
    let cases = std::env::var("PLEACH_BLOCKS_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let indices: Vec<Arc<IndexView>> = (0..INDICES).map(|seed| index(40 + seed)).collect();
    for case in 0..cases {
        let random = &mut random(case as u64 * 6_151 + 3);
        let view = &indices[random(INDICES) as usize];
        let body = body(random);
        let blocks = search_again(view, &body).unwrap_or_else(|e| panic!("{case}: {body}: {e}"));
        ONE_BY_ONE.set(true);
        let documents = search_again(view, &body).unwrap_or_else(|e| panic!("{case}: {body}: {e}"));
        ONE_BY_ONE.set(false);
        assert_eq!(blocks.hits.total, documents.hits.total, "{case}: {body}");
        assert_eq!(tree(blocks), tree(documents), "{case}: {body}");
    }
}

/// Where two answers differ by more than rounding, as threads add fractions up in another order.
fn difference(a: &Value, b: &Value, at: &str) -> Option<String> {
    let parts = |pairs: Vec<(String, &Value, &Value)>| {
        pairs
            .into_iter()
            .find_map(|(name, a, b)| difference(a, b, &format!("{at}.{name}")))
    };
    match (a, b) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            parts(a.iter().zip(b.values()).map(|((name, a), b)| (name.clone(), a, b)).collect())
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => parts(
            a.iter()
                .zip(b)
                .enumerate()
                .map(|(no, (a, b))| (no.to_string(), a, b))
                .collect(),
        ),
        (Value::Number(x), Value::Number(y)) if x.is_f64() && y.is_f64() => {
            let (x, y) = (x.as_f64().unwrap(), y.as_f64().unwrap());
            ((x - y).abs() > 1e-12 * x.abs().max(1.0)).then(|| format!("{at}: {x} and {y}"))
        }
        (a, b) => (a != b).then(|| format!("{at}: {a} and {b}")),
    }
}

#[test]
fn threads_answer_together_as_one_does() {
    let cases = std::env::var("PLEACH_BLOCKS_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let indices: Vec<Arc<IndexView>> = (0..INDICES).map(|seed| index(70 + seed)).collect();
    for case in 0..cases {
        let random = &mut random(case as u64 * 7_919 + 5);
        let view = &indices[random(INDICES) as usize];
        let mut body = body(random);
        for member in ["post_filter", "terminate_after", "min_score", "sort", "collapse"] {
            body.as_object_mut().unwrap().remove(member);
        }
        body["size"] = 0.into();
        let alone = search_again(view, &body).unwrap_or_else(|e| panic!("{case}: {body}: {e}"));
        let together = search_side_by_side(view, &body).unwrap_or_else(|e| panic!("{case}: {body}: {e}"));
        assert_eq!(alone.hits.total, together.hits.total, "{case}: {body}");
        let differs = difference(&tree(alone), &tree(together), "");
        assert_eq!(differs, None, "{case}: {body}");
    }
}

#[test]
fn hits_beside_aggregations_are_those_without() {
    let cases = std::env::var("PLEACH_BLOCKS_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let indices: Vec<Arc<IndexView>> = (0..INDICES).map(|seed| index(90 + seed)).collect();
    for case in 0..cases {
        let random = &mut random(case as u64 * 4_093 + 11);
        let view = &indices[random(INDICES) as usize];
        let mut body = body(random);
        body["size"] = (1 + random(20)).into();
        body["from"] = (random(3) * 5).into();
        if random(2) == 0 {
            body["track_total_hits"] = one_of(random, &[json!(true), json!(false), json!(30)]);
        }
        if random(3) == 0 {
            body["sort"] = one_of(
                random,
                &[json!(["_score", "day"]), json!([{"day": "desc"}]), json!(["one", "whole"])],
            );
        }
        let mut plain = body.clone();
        plain.as_object_mut().unwrap().remove("aggs");
        let beside = search_side_by_side(view, &body).unwrap_or_else(|e| panic!("{case}: {body}: {e}"));
        let without = search_again(view, &plain).unwrap_or_else(|e| panic!("{case}: {plain}: {e}"));
        let shown = |answer: &SearchResponse| {
            let hits = answer.hits.hits.iter();
            let hits: Vec<_> = hits.map(|hit| (hit.id.id.clone(), hit.score, hit.sort.clone())).collect();
            (hits, answer.hits.max_score, answer.terminated_early)
        };
        assert_eq!(shown(&beside), shown(&without), "{case}: {body}");
        let totals = (&beside.hits.total, &without.hits.total);
        // Beyond what is tracked a total is a bound.
        assert_eq!(totals.0, totals.1, "{case}: {body}");
    }
}
