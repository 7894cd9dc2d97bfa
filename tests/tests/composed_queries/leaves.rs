//! Clauses that are asked alone, drawn by chance.
//!
//! Not here: queries of several of them (`composed`).

use crate::Random;
use crate::composed::Dialect;
use crate::store::DOCS_OF_SEGMENTS;
use serde_json::{Value, json};

pub(crate) fn word(random: Random<'_>) -> String {
    let below = 1 + random(20);
    format!("w{}", random(below))
}

pub(crate) fn words(random: Random<'_>, most: u64) -> String {
    (0..1 + random(most)).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

/// The clauses that 2015 has in the same form.
const CLAUSES_OF_2015: &[&str] = &[
    "term",
    "terms",
    "match",
    "match_phrase",
    "prefix",
    "wildcard",
    "range",
    "exists",
    "ids",
    "nested",
    "query_string",
    "fuzzy",
    "match_all",
    "span_near",
    "multi_match",
    "simple_query_string",
    "match_phrase_prefix",
    "regexp",
];

pub(crate) fn leaf(random: Random<'_>, dialect: Dialect) -> Value {
    loop {
        let leaf = any_leaf(random);
        let is_known = |leaf: &Value| CLAUSES_OF_2015.iter().any(|name| !leaf[name].is_null());
        if dialect == Dialect::Todays || is_known(&leaf) {
            return leaf;
        }
    }
}

fn any_leaf(random: Random<'_>) -> Value {
    let low = random(1_000);
    match random(33) {
        0 => json!({ "term": { "group": format!("g{}", random(12)) } }),
        1 => json!({ "terms": { "tags": [format!("t{}", random(8)), format!("t{}", random(8))] } }),
        2 => json!({ "match": { "text": words(random, 3) } }),
        3 => json!({ "match": { "text": { "query": words(random, 3), "operator": "and" } } }),
        4 => json!({ "match_phrase": { "text": { "query": format!("{} {}", word(random), word(random)), "slop": random(3) } } }),
        5 => json!({ "prefix": { "tags": format!("t{}", random(3)) } }),
        6 => json!({ "wildcard": { "group": format!("*{}", random(10)) } }),
        7 => json!({ "range": { "n": { "gte": low, "lt": low + random(600) } } }),
        8 => json!({ "range": { "price": { "gt": low as f64 / 7.0, "lte": (low + random(900)) as f64 / 7.0 } } }),
        9 => json!({ "range": { "day": { "gte": low * 3_000, "lt": (low + random(900)) * 3_000 } } }),
        10 => json!({ "range": { "group": { "gte": format!("g{}", random(5)), "lte": format!("g{}", 4 + random(5)) } } }),
        11 => {
            let field = ["n", "price", "tags", "text"][random(4) as usize];
            json!({ "exists": { "field": field } })
        }
        12 => json!({ "ids": { "values": (0..random(40)).map(|_| random(DOCS_OF_SEGMENTS).to_string()).collect::<Vec<_>>() } }),
        13 => {
            let mode = ["avg", "sum", "max", "min", "none"][random(5) as usize];
            let query = match random(4) {
                0 => json!({ "term": { "parts.name": format!("p{}", random(8)) } }),
                1 => json!({ "match": { "parts.note": words(random, 2) } }),
                2 => {
                    json!({ "bool": { "must": { "match": { "parts.note": word(random) } }, "filter": { "range": { "parts.size": { "gte": random(9) } } } } })
                }
                _ => json!({ "bool": { "must_not": { "term": { "parts.name": format!("p{}", random(8)) } } } }),
            };
            json!({ "nested": { "path": "parts", "score_mode": mode, "query": query } })
        }
        14 => {
            json!({ "query_string": { "query": format!("{} AND NOT {}", word(random), word(random)), "default_field": "text" } })
        }
        15 => json!({ "fuzzy": { "text": { "value": format!("w{}x", random(20)), "fuzziness": 1 } } }),
        16 => json!({ "match_all": {} }),
        17 => {
            json!({ "script": { "script": { "source": "doc['no'].value % params.by == 0", "params": { "by": 2 + random(5) } } } })
        }
        18 => {
            let mode = ["none", "max", "sum", "avg"][random(4) as usize];
            let query = json!({ "match": { "said": words(random, 2) } });
            json!({ "has_child": { "type": "remark", "score_mode": mode, "query": query } })
        }
        19 => {
            json!({ "has_parent": { "parent_type": "entry", "score": random(2) == 0, "query": { "match": { "text": word(random) } } } })
        }
        20 => json!({ "distance_feature": { "field": "day", "origin": low * 3_000, "pivot": "1000s" } }),
        21 => {
            json!({ "intervals": { "text": { "match": { "query": words(random, 3), "max_gaps": random(4), "ordered": random(2) == 0 } } } })
        }
        22 => {
            let clauses: Vec<Value> = (0..2).map(|_| json!({ "span_term": { "text": word(random) } })).collect();
            json!({ "span_near": { "clauses": clauses, "slop": random(4), "in_order": random(2) == 0 } })
        }
        23 => {
            let kind = ["best_fields", "most_fields", "cross_fields"][random(3) as usize];
            json!({ "multi_match": { "query": words(random, 3), "fields": ["text", "said^2"], "type": kind } })
        }
        24 => {
            json!({ "simple_query_string": { "query": format!("{} +{} -{}", word(random), word(random), word(random)), "fields": ["text"] } })
        }
        25 => json!({ "match_phrase_prefix": { "text": format!("{} w1", word(random)) } }),
        26 => {
            let terms: Vec<String> = (0..1 + random(4)).map(|_| format!("t{}", random(7))).collect();
            json!({ "terms_set": { "tags": { "terms": terms, "minimum_should_match_script": { "source": "2" } } } })
        }
        27 => {
            let query = json!({ "match": { "text": words(random, 2) } });
            json!({ "script_score": { "query": query, "script": { "source": "_score * 2 + doc['no'].value % 3" } } })
        }
        28 => {
            let factor = json!({ "field": "n", "missing": 1, "modifier": "ln2p" });
            json!({ "function_score": { "query": { "match": { "text": words(random, 2) } }, "field_value_factor": factor } })
        }
        29 => {
            let kind = ["semi", "anti"][random(2) as usize];
            let query = json!({ "term": { "group": format!("g{}", random(12)) } });
            json!({ "join": { "index": "docs", "on": { "n": "no" }, "type": kind, "query": query } })
        }
        30 => json!({ "match_bool_prefix": { "text": format!("{} w1", word(random)) } }),
        31 => json!({ "match": { "text": { "query": words(random, 4), "minimum_should_match": 1 + random(3) } } }),
        _ => json!({ "regexp": { "group": format!("g[0-{}]", random(10)) } }),
    }
}
