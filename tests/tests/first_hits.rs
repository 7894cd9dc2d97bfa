//! What is shown of many is the beginning of a longer list: completions, pages of composites, scrolls, sorted hits.
//!
//! Documents are random and are changed and deleted; each list is asked for in whole, in the order that keys alone give, and in part.
//! `PLEACH_TEST_CASES` says how many rounds are played, `PLEACH_TEST_SEED` which.
//!
//! Not here: which documents match (`composed_queries`), what each answer looks like (`scenarios`, `golden`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tests::Server;

const ROUNDS: usize = 3;
const DOCS: u64 = 600;

/// A bound for the next random number, and that number.
type Random<'a> = &'a mut dyn FnMut(u64) -> u64;

fn one_of(random: Random<'_>, all: &[&'static str]) -> &'static str {
    all[random(all.len() as u64) as usize]
}

fn mapping() -> Value {
    json!({ "mappings": { "properties": {
        "sug": { "type": "completion" }, "id": { "type": "integer" }, "kw": { "type": "keyword" }, "many": { "type": "keyword" }, "n": { "type": "integer" },
        "price": { "type": "double" }, "flag": { "type": "boolean" }, "at": { "type": "geo_point" }, "span": { "type": "integer_range" },
        "files": { "type": "nested", "properties": { "size": { "type": "integer" }, "ext": { "type": "keyword" } } }
    } } })
}

/// A document that lacks some of its fields.
fn document(id: u64, random: Random<'_>) -> Value {
    let mut all = Map::from_iter([("id".to_owned(), json!(id))]);
    let mut put = |name: &str, value: Value, random: Random<'_>| {
        if random(8) > 0 {
            all.insert(name.to_owned(), value);
        }
    };
    let word = |random: Random<'_>| {
        let length = 1 + random(3);
        (0..length).map(|_| one_of(random, &["a", "b", "c", "A"])).collect::<String>()
    };
    let inputs: Vec<String> = (0..=random(2)).map(|_| word(random)).collect();
    put("sug", json!({ "input": inputs, "weight": random(4) }), random);
    put("kw", json!(word(random)), random);
    put(
        "many",
        json!((0..=random(3)).map(|_| word(random)).collect::<Vec<_>>()),
        random,
    );
    put("n", json!(random(20)), random);
    put("price", json!(random(50) as f64 / 8.0), random);
    put("flag", json!(random(2) == 0), random);
    let (lat, lon) = (random(1_800) as f64 / 10.0 - 90.0, random(3_600) as f64 / 10.0 - 180.0);
    put("at", json!({ "lat": lat, "lon": lon }), random);
    let low = random(30);
    put("span", json!({ "gte": low, "lte": low + random(10) }), random);
    let files: Vec<Value> = (0..random(4))
        .map(|_| json!({ "size": random(40), "ext": one_of(random, &["rs", "md"]) }))
        .collect();
    put("files", json!(files), random);
    Value::Object(all)
}

/// Writes some documents anew, deletes others.
fn change(server: &Server, random: Random<'_>) {
    let mut lines = String::new();
    for id in 0..DOCS {
        let (action, source) = match random(5) {
            0 => ("delete", None),
            1 | 2 => ("index", Some(document(id, random))),
            _ => continue,
        };
        lines += &json!({ action: { "_id": id.to_string() } }).to_string();
        lines += "\n";
        if let Some(source) = source {
            lines += &source.to_string();
            lines += "\n";
        }
    }
    let answer = server.send("POST", "/data/_bulk?refresh=true", &lines).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
}

fn search(server: &Server, body: &Value) -> Value {
    server.ok("POST", "/data/_search", body)
}

/// The options of a completion.
fn completion_options(server: &Server, index: &str, completion: &Value, size: usize) -> Vec<Value> {
    let mut completion = completion.clone();
    completion["completion"]["size"] = size.into();
    let body = json!({ "_source": false, "suggest": { "s": completion } });
    let found = server.ok("POST", &format!("/{index}/_search"), &body);
    let options = found["suggest"]["s"][0]["options"].as_array().unwrap().clone();
    assert!(options.len() <= size, "{size} of {completion}");
    options
}

fn check_completions(server: &Server, random: Random<'_>) {
    let prefix = one_of(random, &["a", "b", "ab", "ca", "aab"]);
    let mut spec = json!({ "field": "sug", "skip_duplicates": random(2) == 0 });
    if random(3) == 0 {
        spec["fuzzy"] = json!({ "fuzziness": 1, "min_length": 1, "prefix_length": 0 });
    }
    check_completion(server, "data", &json!({ "prefix": prefix, "completion": spec }));
}

fn check_completion(server: &Server, index: &str, completion: &Value) {
    let all = completion_options(server, index, completion, 10_000);
    let order = |one: &Value| (-one["_score"].as_f64().unwrap(), one["text"].as_str().unwrap().to_owned());
    assert!(all.is_sorted_by(|a, b| order(a) <= order(b)), "{completion}: {all:#?}");
    for size in [1, 2, 7, 40] {
        let some = completion_options(server, index, completion, size);
        assert_eq!(some, all[..size.min(all.len())], "{size} of {completion}");
    }
}

/// Completions of which so many begin alike that their weights are kept.
#[test]
fn the_heaviest_of_many_completions() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["opensearch2"]);
    server.ok(
        "PUT",
        "/many",
        &json!({ "mappings": { "properties": { "sug": { "type": "completion" } } } }),
    );
    let mut random = model::random::random(39);
    let random: Random<'_> = &mut random;
    let bulk = |lines: &str| {
        let answer = server.send("POST", "/many/_bulk?refresh=true", lines).unwrap();
        assert!(answer.text.contains(r#""errors":false"#), "{}", answer.text);
    };
    let mut lines = String::new();
    for id in 0..9_000 {
        let input: String = std::iter::once("a")
            .chain((0..7).map(|_| one_of(random, &["a", "b", "c"])))
            .collect();
        // Of those that begin with `ab` many have the same weight.
        let weight = random(if input.starts_with("ab") { 3 } else { 2_000 });
        lines += &format!(
            "{}\n{}\n",
            json!({ "index": { "_id": id.to_string() } }),
            json!({ "sug": { "input": [input], "weight": weight } })
        );
    }
    bulk(&lines);
    server.ok("POST", "/many/_forcemerge?max_num_segments=1", &Value::Null);
    for _ in 0..3 {
        for prefix in ["a", "aa", "ab", "ac"] {
            for skip_duplicates in [false, true] {
                let mut spec = json!({ "field": "sug", "skip_duplicates": skip_duplicates });
                check_completion(&server, "many", &json!({ "prefix": prefix, "completion": spec }));
                spec["fuzzy"] = json!({ "fuzziness": 1 + random(2), "min_length": 1 + random(3) });
                let prefix = format!("{prefix}{}", one_of(random, &["", "b", "ca", "bac"]));
                check_completion(&server, "many", &json!({ "prefix": prefix, "completion": spec }));
            }
        }
        // Some of the heaviest go.
        let heaviest = completion_options(
            &server,
            "many",
            &json!({ "prefix": "a", "completion": { "field": "sug" } }),
            60,
        );
        let gone = heaviest.iter().step_by(2);
        let lines: String = gone
            .map(|one| format!("{}\n", json!({ "delete": { "_id": one["_id"] } })))
            .collect();
        bulk(&lines);
    }
}

fn check_composite(server: &Server, random: Random<'_>) {
    let source = |name: &str, random: Random<'_>| {
        let order = one_of(random, &["asc", "desc"]);
        let missing = random(2) == 0;
        let of = match name {
            "n" => json!({ "histogram": { "field": "n", "interval": 3, "order": order, "missing_bucket": missing } }),
            name => json!({ "terms": { "field": name, "order": order, "missing_bucket": missing } }),
        };
        json!({ name: of })
    };
    let names = ["kw", "many", "n", "flag", "price"];
    let first = names[random(5) as usize];
    let second = names[random(5) as usize];
    let mut sources = vec![source(first, random)];
    if second != first {
        sources.push(source(second, random));
    }
    let page = |size: usize, after: &Value| {
        let mut composite = json!({ "size": size, "sources": sources });
        if !after.is_null() {
            composite["after"] = after.clone();
        }
        let sum = json!({ "s": { "sum": { "field": "n" } } });
        let found = search(
            server,
            &json!({ "size": 0, "aggs": { "c": { "composite": composite, "aggs": sum } } }),
        );
        found["aggregations"]["c"].clone()
    };
    let all = page(10_000, &Value::Null)["buckets"].as_array().unwrap().clone();
    let (mut paged, mut after) = (Vec::new(), Value::Null);
    loop {
        let next = page(1 + random(30) as usize, &after);
        let buckets = next["buckets"].as_array().unwrap();
        if buckets.is_empty() {
            break;
        }
        paged.extend(buckets.iter().cloned());
        after = next["after_key"].clone();
    }
    assert_eq!(paged, all, "{sources:?}");
}

/// A clause that restricts by what has blocks or parts in columns, or none.
fn any_query(random: Random<'_>) -> Value {
    let (lat, lon) = (random(140) as f64 - 70.0, random(300) as f64 - 150.0);
    match random(6) {
        0 => json!({ "geo_distance": { "distance": format!("{}km", 500 + random(6_000)), "at": { "lat": lat, "lon": lon } } }),
        1 => json!({ "geo_bounding_box": { "at": {
            "top_left": { "lat": lat + 20.0, "lon": lon - 30.0 }, "bottom_right": { "lat": lat - 20.0, "lon": lon + 30.0 } } } }),
        2 => json!({ "range": { "span": {
            "gte": random(30), "lte": 30 + random(5), "relation": one_of(random, &["intersects", "within", "contains"]) } } }),
        3 => json!({ "wildcard": { "kw": one_of(random, &["*a*", "*ab", "?b*", "*c?"]) } }),
        4 => json!({ "bool": { "must_not": { "term": { "flag": true } } } }),
        _ => json!({ "match_all": {} }),
    }
}

fn any_sort(random: Random<'_>) -> Vec<Value> {
    let keys = 1 + random(3);
    let order = |random: Random<'_>| one_of(random, &["asc", "desc"]);
    let mut sort: Vec<Value> = (0..keys)
        .map(|_| match random(8) {
            0 => json!({ "flag": { "order": order(random), "missing": one_of(random, &["_first", "_last"]) } }),
            1 => json!({ "price": order(random) }),
            2 => json!({ "kw": order(random) }),
            3 => json!({ "many": { "order": order(random), "mode": one_of(random, &["min", "max"]) } }),
            4 => json!({ "_geo_distance": { "at": { "lat": 10, "lon": 20 }, "order": order(random), "unit": "km" } }),
            5 => json!({ "files.size": { "order": order(random), "mode": one_of(random, &["min", "max", "avg"]), "nested": { "path": "files" } } }),
            6 => json!({ "files.size": { "order": order(random), "nested": {
                "path": "files", "filter": { "term": { "files.ext": "rs" } }, "max_children": 2 } } }),
            _ => json!({ "n": order(random) }),
        })
        .collect();
    // No two documents are equal, so that a merge changes no order.
    sort.push(json!({ "id": order(random) }));
    sort
}

/// Compares a list with the beginning of a longer one; shows where they part.
fn check_begins(part: &[(Value, Value)], all: &[(Value, Value)], what: &Value) {
    let parts = part.iter().zip(all).position(|(one, other)| one != other);
    let at = parts.unwrap_or(part.len().min(all.len()));
    let next = |list: &[(Value, Value)]| list.get(at).cloned();
    assert!(
        parts.is_none() && part.len() <= all.len(),
        "{what}: hit {at} is {:?}, not {:?}",
        next(part),
        next(all)
    );
}

/// The addresses and keys of hits.
fn hit_keys(hits: &Value) -> Vec<(Value, Value)> {
    let hits = hits["hits"]["hits"].as_array().unwrap();
    hits.iter().map(|hit| (hit["_id"].clone(), hit["sort"].clone())).collect()
}

fn check_sorted(server: &Server, random: Random<'_>) {
    let (query, sort) = (any_query(random), any_sort(random));
    // Scores, too, so that every match is looked at by its keys.
    let whole = json!({ "query": query, "sort": sort, "size": DOCS, "track_scores": true, "_source": false });
    let all = hit_keys(&search(server, &whole));
    let count = server.ok("POST", "/data/_count", &json!({ "query": query }))["count"].as_u64();
    assert_eq!(count, Some(all.len() as u64), "{query}");
    for size in [1, 10, 100] {
        let total = [json!(true), json!(false), json!(5)][random(3) as usize].clone();
        let body = json!({ "query": query, "sort": sort, "size": size, "track_total_hits": total, "_source": false });
        let found = search(server, &body);
        check_begins(&hit_keys(&found), &all[..size.min(all.len())], &body);
        assert_eq!(hit_keys(&found).len(), size.min(all.len()), "{body}");
    }
}

fn check_scrolled(server: &Server, random: Random<'_>) {
    let (query, sort) = (any_query(random), any_sort(random));
    let body = json!({ "query": query, "sort": sort, "size": DOCS, "track_scores": true, "_source": false });
    let all = hit_keys(&search(server, &body));
    // By position, which a merge may change, as many are found.
    let by_position = random(2) == 0;
    let sort = if by_position { vec![json!("_doc")] } else { sort };
    let body = json!({ "query": query, "sort": sort, "size": 1 + random(100), "_source": false });
    let mut page = server.ok("POST", "/data/_search?scroll=1m", &body);
    let mut scrolled = Vec::new();
    loop {
        assert_eq!(
            page["hits"]["total"],
            json!({ "value": all.len(), "relation": "eq" }),
            "{body}"
        );
        let hits = hit_keys(&page);
        if hits.is_empty() {
            break;
        }
        scrolled.extend(hits);
        let next = json!({ "scroll": "1m", "scroll_id": page["_scroll_id"] });
        page = server.ok("POST", "/_search/scroll", &next);
    }
    assert_eq!(scrolled.len(), all.len(), "{body}");
    if by_position {
        let ids = |hits: Vec<(Value, Value)>| hits.into_iter().map(|(id, _)| id.to_string()).collect::<BTreeSet<String>>();
        assert_eq!(ids(scrolled), ids(all), "{body}");
    } else {
        check_begins(&scrolled, &all, &body);
    }
    server.ok("DELETE", "/_search/scroll", &json!({ "scroll_id": page["_scroll_id"] }));
}

#[test]
fn a_page_is_the_beginning_of_a_longer_one() {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = given("PLEACH_TEST_CASES").map_or(ROUNDS, |cases| cases as usize);
    let mut random = model::random::random(given("PLEACH_TEST_SEED").unwrap_or(38));
    let random: Random<'_> = &mut random;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["opensearch2"]);
    server.ok("PUT", "/data", &mapping());
    for round in 0..rounds {
        change(&server, random);
        if round % 2 == 1 {
            server.ok("POST", "/data/_forcemerge?max_num_segments=1", &Value::Null);
        }
        for _ in 0..20 {
            check_completions(&server, random);
            check_composite(&server, random);
            check_sorted(&server, random);
            check_scrolled(&server, random);
        }
    }
}
