//! Documents and fields of a role: what a user may not see is in no answer. Each request is compared with the same request to an
//! index that holds only what the user may see.
//!
//! Not here: rights on whole indices (`security.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use tests::Answer;
use tests::secured::Secured;

/// Numbers from a seed: a failure names the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }
}

const WORDS: &[&str] = &["red", "green", "blue", "fox", "dog", "cat", "sun", "sea"];
const TAGS: &[&str] = &["a", "b", "c", "d"];

fn mapping() -> Value {
    json!({ "mappings": { "properties": {
        "tag": { "type": "keyword" }, "text": { "type": "text", "fields": { "raw": { "type": "keyword" } } }, "n": { "type": "long" },
        "day": { "type": "date" }, "secret": { "type": "keyword" },
        "user": { "properties": { "name": { "type": "keyword" }, "mail": { "type": "keyword" } } },
        "item": { "type": "nested", "properties": { "kind": { "type": "keyword" }, "price": { "type": "long" } } },
        "say": { "type": "completion" },
    }}})
}

fn document(random: &mut Random) -> Value {
    let words = (0..1 + random.below(5))
        .map(|_| *random.of(WORDS))
        .collect::<Vec<_>>()
        .join(" ");
    let items: Vec<Value> = (0..random.below(3))
        .map(|_| json!({ "kind": random.of(TAGS), "price": random.below(5) }))
        .collect();
    let mut out = json!({
        "tag": random.of(TAGS), "text": words, "n": random.below(20), "secret": random.of(WORDS),
        "day": format!("2026-01-{:02}", 1 + random.below(28)),
        "user": { "name": random.of(WORDS), "mail": random.of(WORDS) }, "item": items,
        "say": format!("{} {}", random.of(WORDS), random.of(WORDS)),
    });
    if random.below(4) == 0 {
        out.as_object_mut().unwrap().remove("n");
    }
    out
}

/// A role's query, and the same as a question to a document.
type Sees = (Value, fn(&Value) -> bool);

fn queries() -> Vec<Sees> {
    vec![
        (json!({ "term": { "tag": "a" } }), |doc| doc["tag"] == "a"),
        (json!({ "range": { "n": { "gte": 10 } } }), |doc| {
            doc["n"].as_u64().is_some_and(|n| n >= 10)
        }),
        (json!({ "bool": { "must_not": { "term": { "tag": "b" } } } }), |doc| {
            doc["tag"] != "b"
        }),
        (json!({ "match_all": {} }), |_| true),
        (json!({ "match_none": {} }), |_| false),
        (json!({ "exists": { "field": "n" } }), |doc| doc["n"].is_u64()),
        (
            json!({ "nested": { "path": "item", "query": { "term": { "item.kind": "c" } } } }),
            |doc| doc["item"].as_array().unwrap().iter().any(|item| item["kind"] == "c"),
        ),
    ]
}

/// What is granted, and the granted part of a document.
type Shows = (Value, fn(&mut Value));

fn without(doc: &mut Value, names: &[&str]) {
    // What is left keeps its order, as that of fields is the order in which they are searched.
    doc.as_object_mut().unwrap().retain(|name, _| !names.contains(&name.as_str()));
}

fn fields() -> Vec<Shows> {
    vec![
        (Value::Null, |_| {}),
        (json!({ "grant": ["*"], "except": ["secret"] }), |doc| {
            without(doc, &["secret"])
        }),
        (json!({ "grant": ["*"], "except": ["text", "user.mail"] }), |doc| {
            without(doc, &["text"]);
            without(&mut doc["user"], &["mail"]);
        }),
        (json!({ "grant": ["tag", "n", "text"] }), |doc| {
            without(doc, &["day", "secret", "user", "item", "say"])
        }),
        (json!({ "grant": ["*"], "except": ["item", "n", "say"] }), |doc| {
            without(doc, &["item", "n", "say"])
        }),
    ]
}

fn clause(random: &mut Random, depth: u32) -> Value {
    let (word, tag, n) = (*random.of(WORDS), *random.of(TAGS), random.below(20));
    match random.below(if depth > 2 { 25 } else { 28 }) {
        0 => json!({ "match_all": {} }),
        1 => json!({ "term": { "tag": tag } }),
        2 => json!({ "terms": { "tag": [tag, "a"] } }),
        3 => json!({ "match": { "text": word } }),
        4 => json!({ "match": { "text": { "query": format!("{word} fox"), "operator": "and" } } }),
        5 => json!({ "match_phrase": { "text": format!("{word} dog") } }),
        6 => json!({ "range": { "n": { "gte": n, "lt": n + 8 } } }),
        7 => json!({ "range": { "day": { "gte": format!("2026-01-{:02}", 1 + n) } } }),
        8 => json!({ "exists": { "field": random.of(&["n", "secret", "text", "user.mail", "item"]) } }),
        9 => json!({ "prefix": { "text.raw": &word[..1] } }),
        10 => json!({ "wildcard": { "secret": format!("*{}", &word[1..]) } }),
        11 => json!({ "term": { "secret": word } }),
        12 => json!({ "ids": { "values": [n.to_string(), "3"] } }),
        13 => json!({ "query_string": { "query": word } }),
        14 => json!({ "simple_query_string": { "query": format!("{word} | {tag}"), "fields": ["text", "tag"] } }),
        15 => json!({ "term": { "user.mail": word } }),
        16 => json!({ "multi_match": { "query": word, "fields": ["text", "secret", "user.*"] } }),
        17 => json!({ "fuzzy": { "text": { "value": word, "fuzziness": 1 } } }),
        18 => json!({ "match_phrase_prefix": { "text": format!("{word} {}", &tag[..1]) } }),
        19 => json!({ "regexp": { "user.mail": format!("{}.*", &word[..1]) } }),
        20 => json!({ "match": { "text": { "query": word, "fuzziness": "AUTO" } } }),
        21 => {
            json!({ "more_like_this": { "fields": ["text"], "like": format!("{word} fox"), "min_term_freq": 1, "min_doc_freq": 1 } })
        }
        22 => {
            json!({ "script": { "script": { "source": "doc['tag'].size() > 0 && doc['tag'].value == params.t", "params": { "t": tag } } } })
        }
        23 => json!({ "match_bool_prefix": { "text": format!("{word} {}", &word[..1]) } }),
        24 => {
            json!({ "dis_max": { "queries": [{ "term": { "tag": tag } }, { "match": { "text": word } }], "tie_breaker": 0.3 } })
        }
        25 => json!({ "nested": { "path": "item", "ignore_unmapped": true, "query": { "term": { "item.kind": tag } } } }),
        26 => json!({ "bool": { "must": [clause(random, depth + 1)], "should": [clause(random, depth + 1)],
                               "must_not": [clause(random, depth + 1)] } }),
        _ => json!({ "constant_score": { "filter": clause(random, depth + 1) } }),
    }
}

fn aggregation(random: &mut Random) -> Value {
    let field = *random.of(&["tag", "secret", "user.name", "user.mail", "text.raw"]);
    match random.below(20) {
        16 => json!({ "terms": { "field": field, "min_doc_count": 0, "size": 50, "order": { "_key": "asc" } } }),
        17 => json!({ "significant_terms": { "field": field, "min_doc_count": 1 } }),
        18 => json!({ "significant_text": { "field": random.of(&["text", "secret"]), "min_doc_count": 1 } }),
        11 => json!({ "top_hits": { "size": 2, "sort": [{ "_id": "asc" }], "_source": ["secret", "n", "user"] } }),
        12 => {
            json!({ "nested": { "path": "item" }, "aggs": { "k": { "terms": { "field": "item.kind", "order": { "_key": "asc" } } } } })
        }
        13 => json!({ "terms": { "field": field, "order": { "_key": "desc" } }, "aggs": { "m": { "max": { "field": "n" } } } }),
        14 => json!({ "rare_terms": { "field": field, "max_doc_count": 3 } }),
        15 => json!({ "percentiles": { "field": "n" } }),
        0 => json!({ "terms": { "field": field, "order": { "_key": "asc" } } }),
        1 => json!({ "avg": { "field": "n" } }),
        2 => json!({ "stats": { "field": "n" } }),
        3 => json!({ "histogram": { "field": "n", "interval": 5 } }),
        4 => json!({ "date_histogram": { "field": "day", "calendar_interval": "week" } }),
        5 => json!({ "filter": clause(random, 2) }),
        6 => json!({ "missing": { "field": "n" } }),
        7 => json!({ "cardinality": { "field": field } }),
        8 => json!({ "value_count": { "field": field } }),
        9 => json!({ "range": { "field": "n", "ranges": [{ "to": 5 }, { "from": 5 }] } }),
        10 => json!({ "composite": { "sources": [{ "t": { "terms": { "field": "tag" } } }] } }),
        _ => json!({ "global": {} }),
    }
}

/// Words that are nearly those of documents, for suggestions.
fn misspelt(random: &mut Random) -> String {
    let word = *random.of(WORDS);
    match random.below(3) {
        0 => format!("{word}x"),
        1 => word[1..].to_owned(),
        _ => word.to_owned(),
    }
}

fn suggestion(random: &mut Random) -> Value {
    let text = format!("{} {}", misspelt(random), misspelt(random));
    let field = *random.of(&["text", "text.raw", "secret"]);
    match random.below(3) {
        0 => json!({ "text": text, "term": { "field": field, "suggest_mode": random.of(&["always", "missing", "popular"]),
                     "min_word_length": 2, "prefix_length": 0 } }),
        1 => json!({ "text": text, "phrase": { "field": "text", "confidence": 0, "max_errors": 2,
                     "direct_generator": [{ "field": "text", "suggest_mode": "always", "min_word_length": 2, "prefix_length": 0 }] } }),
        _ => json!({ "prefix": &random.of(WORDS)[..1], "completion": { "field": "say", "size": 20 } }),
    }
}

fn search(random: &mut Random) -> Value {
    let mut body = json!({ "query": clause(random, 0), "size": 5 + random.below(20), "track_total_hits": true });
    if random.below(2) == 0 {
        body["aggs"] = json!({ "x": aggregation(random), "y": aggregation(random) });
    }
    match random.below(5) {
        0 => body["sort"] = json!([{ "n": { "order": "asc", "unmapped_type": "long" } }, { "_id": "asc" }]),
        1 => body["sort"] = json!([{ "tag": { "order": "desc", "unmapped_type": "keyword" } }, { "_id": "asc" }]),
        _ => {}
    }
    match random.below(13) {
        10 => body["suggest"] = json!({ "s": suggestion(random) }),
        11 => body["profile"] = true.into(),
        12 => body["explain"] = true.into(),
        5 => {
            body["script_fields"] =
                json!({ "s": { "script": "params._source.secret" }, "u": { "script": "params._source.user" } })
        }
        6 => body["collapse"] = json!({ "field": "tag", "inner_hits": { "name": "g", "size": 2, "sort": [{ "_id": "asc" }] } }),
        7 => {
            let query =
                json!({ "nested": { "path": "item", "ignore_unmapped": true, "query": { "match_all": {} }, "inner_hits": {} } });
            body["query"] = json!({ "bool": { "must": [query, body["query"].clone()] } });
        }
        8 => body["rescore"] = json!({ "window_size": 5, "query": { "rescore_query": clause(random, 2) } }),
        0 => body["highlight"] = json!({ "fields": { "*": {} } }),
        1 => body["fields"] = json!(["*"]),
        2 => body["docvalue_fields"] = json!(["secret", "n", "user.*"]),
        3 => body["_source"] = json!(["secret", "user", "n"]),
        4 => body["post_filter"] = clause(random, 2),
        _ => {}
    }
    body
}

/// An answer without what no two requests share, with hits of one score in the order of their ids.
fn comparable(answer: &Answer, index: &str) -> Value {
    let text = answer.text.replace(index, "INDEX");
    let mut body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    if answer.status >= 400 && body["error"].is_object() {
        // The uuid of an index stands where it is named.
        let root = &body["error"]["root_cause"][0];
        return json!([root["type"], root["reason"]]);
    }
    if !body.is_object() {
        return body;
    }
    if let Some(members) = body.as_object_mut() {
        [
            "took",
            "_shards",
            "_seq_no",
            "_primary_term",
            "_version",
            "pit_id",
            "_scroll_id",
        ]
        .iter()
        .for_each(|name| drop(members.remove(*name)));
    }
    if let Some(docs) = body["docs"].as_array_mut() {
        docs.iter_mut()
            .for_each(|doc| without(doc, &["_seq_no", "_primary_term", "_version", "took"]));
    }
    if let Some(hits) = body["hits"]["hits"].as_array_mut() {
        hits.iter_mut().for_each(|hit| without(hit, &["_shard", "_node"]));
    }
    without_times(&mut body);
    // Only the test's own index forbids new fields.
    if let Some(mappings) = body["INDEX"]["mappings"].as_object_mut() {
        mappings.remove("dynamic");
    }
    body
}

/// Takes out of a profile what no two searches share, and the counts, which are not told to who does not see everything.
fn without_times(body: &mut Value) {
    let mut left = vec![&mut body["profile"]];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(members) => {
                members.retain(|name, _| !matches!(name.as_str(), "breakdown" | "time_in_nanos" | "debug" | "id"));
                left.extend(members.values_mut());
            }
            _ => {}
        }
    }
    if body["profile"].is_null() {
        body.as_object_mut().map(|members| members.remove("profile"));
    }
}

#[test]
fn what_is_withheld_is_in_no_answer() {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = given("PLEACH_TEST_SEED").unwrap_or(0x5eed_1234);
    let cases = given("PLEACH_TEST_CASES").unwrap_or(10_000);
    // What failed late in a long run: stores before this one only draw their numbers.
    let first_store = given("PLEACH_TEST_STORE").unwrap_or(0);
    let mut secured = Secured::start(&["es8"], &[]);
    let mut random = Random(seed);
    let stores = 1 + cases / 500;
    let mut asked = 0;
    for store in 0..stores {
        let skipped = store < first_store;
        // Each store has three indices and a user more: a long run goes on with a server that has few.
        if store > first_store && store.is_multiple_of(40) {
            secured = Secured::start(&["es8"], &[]);
        }
        let (all, part, user) = (format!("all-{store}"), format!("part-{store}"), format!("user-{store}"));
        let (first, second) = (random.of(&queries()).clone(), random.of(&queries()).clone());
        let several = random.below(3) == 0;
        let shown = random.of(&fields()).clone();
        let grant = |query: &Value| {
            let mut grant = json!({ "names": [all], "privileges": ["read", "view_index_metadata", "write"], "query": query });
            if !shown.0.is_null() {
                grant["field_security"] = shown.0.clone();
            }
            grant
        };
        let own = json!({ "names": [format!("copy-{all}")], "privileges": ["all"] });
        let mut grants = vec![grant(&first.0), own];
        if several {
            grants.push(grant(&second.0));
        }
        let admin = |method: &str, path: &str, body: Value| {
            if !skipped {
                secured.admin(method, path, body);
            }
        };
        if !skipped {
            secured.user(&user, &json!({ "indices": grants }));
        }
        let mut full = mapping();
        full["settings"] = json!({ "number_of_replicas": 0 });
        admin("PUT", &format!("/{all}"), full.clone());
        // The same fields are mapped but those that are withheld.
        let mut properties = full["mappings"]["properties"].clone();
        (shown.1)(&mut properties);
        if shown.0["except"] == json!(["text", "user.mail"]) {
            without(&mut properties["user"]["properties"], &["mail"]);
        }
        full["mappings"] = json!({ "dynamic": false, "properties": properties });
        admin("PUT", &format!("/{part}"), full);
        let (mut lines, mut seen) = (String::new(), String::new());
        for id in 0..60 {
            let doc = document(&mut random);
            lines.push_str(&format!(
                "{}\n{doc}\n",
                json!({ "index": { "_index": all, "_id": id.to_string() } })
            ));
            if (first.1)(&doc) || several && (second.1)(&doc) {
                let mut doc = doc;
                (shown.1)(&mut doc);
                seen.push_str(&format!(
                    "{}\n{doc}\n",
                    json!({ "index": { "_index": part, "_id": id.to_string() } })
                ));
            }
            // Several segments, the same ones on both sides: phrases are scored by how many there are.
            if id % 25 == 24 || id == 59 {
                for lines in [&mut lines, &mut seen].into_iter().filter(|lines| !lines.is_empty()) {
                    admin("POST", "/_bulk?refresh=true", Value::String(std::mem::take(lines)));
                }
            }
        }
        for _ in 0..cases / stores {
            asked += u64::from(!skipped);
            let (method, path, body) = match random.below(16) {
                10 => ("GET", "/{}/_mapping", Value::Null),
                11 => {
                    let path = random.of(&[
                        "/{}/_mapping/field/*",
                        "/{}/_field_caps?fields=*",
                        "/_cat/count/{}?h=count&format=json",
                    ]);
                    ("GET", *path, Value::Null)
                }
                12 => ("POST", "/{}/_explain/{id}", json!({ "query": clause(&mut random, 0) })),
                13 => ("GET", "/{}/_termvectors/{id}?fields=*&term_statistics=true", Value::Null),
                14 => (
                    "POST",
                    "/{}/_mtermvectors?term_statistics=true&fields=text,secret",
                    json!({ "ids": [random.below(70).to_string(), random.below(70).to_string()] }),
                ),
                15 => (
                    "POST",
                    "/{}/_validate/query?explain=true",
                    json!({ "query": clause(&mut random, 0) }),
                ),
                0 => ("POST", "/{}/_count", json!({ "query": clause(&mut random, 0) })),
                1 => ("GET", "/{}/_doc/{id}", Value::Null),
                2 => (
                    "POST",
                    "/{}/_mget",
                    json!({ "ids": [random.below(70).to_string(), random.below(70).to_string()] }),
                ),
                3 => ("GET", "/{}/_source/{id}", Value::Null),
                _ => ("POST", "/{}/_search", search(&mut random)),
            };
            let id = random.below(70).to_string();
            if skipped {
                continue;
            }
            let ask = |user: &str, index: &str| {
                let path = path.replace("{}", index).replace("{id}", &id);
                let answer = secured.call(user, method, &path, &body);
                (answer.status, comparable(&answer, index))
            };
            let (found, expected) = (ask(&user, &all), ask("admin", &part));
            assert_eq!(
                found, expected,
                "seed {seed}, store {store}: {method} {path} {body} with {grants:?}"
            );
        }
        let (updated, deleted) = (clause(&mut random, 1), clause(&mut random, 1));
        if !skipped {
            jobs_reach_what_is_seen(&secured, (&updated, &deleted), (&all, &part), (&user, shown.0.is_null()));
        }
    }
    assert!(first_store > 0 || asked + 500 > cases, "{asked}");
}

/// Jobs by query over all documents by who sees some, and over those by an administrator, come to the same.
fn jobs_reach_what_is_seen(
    secured: &Secured,
    (updated_query, deleted_query): (&Value, &Value),
    (all, part): (&str, &str),
    (user, sees_fields): (&str, bool),
) {
    let documents = |user: &str, index: &str| {
        let body = json!({ "size": 100, "sort": ["_id"], "track_total_hits": true });
        let found = secured.call(
            user,
            "POST",
            &format!("/{index}/_search?filter_path=hits.total,hits.hits._id,hits.hits._source"),
            &body,
        );
        assert_eq!(found.status, 200, "{found:?}");
        found.body["hits"].clone()
    };
    let withheld = |all: &Value, part: &Value| all["total"]["value"].as_u64().unwrap() - part["total"]["value"].as_u64().unwrap();
    let before = withheld(&documents("admin", all), &documents("admin", part));
    let copied = |user: &str, from: &str| {
        let body = json!({ "source": { "index": from }, "dest": { "index": format!("copy-{from}") } });
        let done = secured.call(user, "POST", "/_reindex?refresh=true", &body);
        assert_eq!(done.status, 200, "{done:?}");
        documents("admin", &format!("copy-{from}"))
    };
    assert_eq!(copied(user, all), copied("admin", part));
    let query = updated_query;
    // 77 is in each range of `queries`: an update moves no document out of sight.
    let script = json!({ "source": "ctx._source.n = 77" });
    let update = json!({ "query": query, "script": script });
    let updated =
        |user: &str, index: &str| secured.call(user, "POST", &format!("/{index}/_update_by_query?refresh=true"), &update);
    if sees_fields {
        let (found, expected) = (updated(user, all), updated("admin", part));
        assert_eq!(
            found.body["updated"], expected.body["updated"],
            "{query}: {found:?} but {expected:?}"
        );
    } else {
        assert_eq!(updated(user, all).status, 403);
    }
    let query = json!({ "query": deleted_query });
    let deleted =
        |user: &str, index: &str| secured.call(user, "POST", &format!("/{index}/_delete_by_query?refresh=true"), &query);
    let (found, expected) = (deleted(user, all), deleted("admin", part));
    assert_eq!(
        found.body["deleted"], expected.body["deleted"],
        "{query}: {found:?} but {expected:?}"
    );
    let after = withheld(&documents("admin", all), &documents("admin", part));
    assert_eq!(before, after, "{query} has deleted what {user} does not see");
}

#[test]
fn what_cannot_honour_it_is_refused() {
    let secured = Secured::start(&["es8"], &[]);
    secured.admin("PUT", "/i", mapping());
    secured.admin("PUT", "/i/_doc/1?refresh=true", json!({ "tag": "a", "secret": "x" }));
    secured.admin("PUT", "/i/_doc/2?refresh=true", json!({ "tag": "b", "secret": "y" }));
    let grant = json!({ "names": ["i"], "privileges": ["all"], "query": { "term": { "tag": "a" } },
                        "field_security": { "grant": ["*"], "except": ["secret"] } });
    secured.user(
        "u",
        &json!({ "cluster": ["monitor"], "indices": [grant, { "names": ["j"], "privileges": ["all"] }] }),
    );
    let all = json!({ "match_all": {} });
    let update = json!({ "update": { "_index": "i", "_id": "2" } });
    let doc = json!({ "doc": { "n": 1 }, "_source": true });
    for (method, path, body) in [
        ("POST", "/i/_update/1", json!({ "doc": { "n": 1 } })),
        ("POST", "/i/_update_by_query", json!({ "query": all })),
        (
            "PUT",
            "/i/_mapping",
            json!({ "properties": { "secret": { "type": "long" } } }),
        ),
        ("PUT", "/i/_alias/j", Value::Null),
        ("GET", "/_changes?since=0", Value::Null),
        ("GET", "/i/_segments", Value::Null),
        (
            "POST",
            "/_transaction",
            json!({ "operations": [{ "update": { "_index": "i", "_id": "2", "doc": { "n": 1 } } }] }),
        ),
        (
            "POST",
            "/_transaction",
            json!({ "if": [{ "index": "i", "id": "2", "exists": true }],
                    "operations": [{ "index": { "_index": "j", "_id": "1", "doc": {} } }] }),
        ),
    ] {
        let answer = secured.call("u", method, path, &body);
        assert!(
            answer.text.contains("security_exception"),
            "{method} {path} {body}: {answer:?}"
        );
        assert!(
            answer.status == 403 && !answer.text.contains("\"y\""),
            "{method} {path} {body}: {answer:?}"
        );
    }
    for path in ["/_bulk", "/_bulk?atomic=true"] {
        let answer = secured.call("u", "POST", path, &Value::String(format!("{update}\n{doc}\n")));
        let item = &answer.body["items"][0]["update"];
        assert_eq!(item["status"], 403, "{path}: {answer:?}");
        assert!(!answer.text.contains("\"y\""), "{answer:?}");
    }
    let state = secured.call("u", "GET", "/_cluster/state", &Value::Null);
    assert!(state.status == 200 && !state.text.contains("secret"), "{state:?}");
    assert!(state.text.contains("\"tag\""), "{state:?}");
    // What it may write it writes, and sees as little of it.
    assert_eq!(secured.call("u", "PUT", "/i/_doc/3", &json!({ "tag": "b" })).status, 201);
    assert_eq!(secured.call("u", "GET", "/i/_doc/3", &Value::Null).status, 404);
}

#[test]
fn figures_are_of_what_is_seen() {
    let secured = Secured::start(&["es8"], &[]);
    secured.admin("PUT", "/i", mapping());
    for id in 0..5 {
        let tag = if id < 2 { "a" } else { "b" };
        secured.admin(
            "PUT",
            &format!("/i/_doc/{id}?refresh=true"),
            json!({ "tag": tag, "secret": "x" }),
        );
    }
    let privileges = json!(["read", "monitor", "view_index_metadata"]);
    let some = json!({ "names": ["i"], "privileges": privileges, "query": { "term": { "tag": "a" } } });
    let fields = json!({ "names": ["i"], "privileges": privileges, "field_security": { "grant": ["tag"] } });
    secured.user("some", &json!({ "cluster": ["monitor"], "indices": [some] }));
    secured.user("fields", &json!({ "cluster": ["monitor"], "indices": [fields] }));
    let text = |user: &str, path: &str| {
        let answer = secured.call(user, "GET", path, &Value::Null);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer
    };
    for (user, docs) in [("some", 2), ("fields", 5)] {
        for path in ["/_cat/indices", "/_cat/indices/i", "/_cat/indices/*"] {
            let answer = text(user, &format!("{path}?format=json&h=index,docs.count,docs.deleted"));
            let expected = json!([{ "index": "i", "docs.count": docs.to_string(), "docs.deleted": "0" }]);
            assert_eq!(answer.body, expected, "{user} {path}");
        }
        let count = text(user, "/_cat/count?format=json&h=count");
        assert_eq!(count.body, json!([{ "count": docs.to_string() }]), "{user}");
        let stats = text(user, "/i/_stats");
        let total = &stats.body["_all"]["primaries"];
        assert_eq!(total["docs"]["count"], docs, "{user}: {stats:?}");
        // How often documents were written tells how many there are.
        let written = if user == "some" { 0 } else { 5 };
        assert_eq!(total["indexing"]["index_total"], written, "{user}: {stats:?}");
    }
    let mapped = text("fields", "/i/_mapping");
    assert_eq!(
        mapped.body["i"]["mappings"]["properties"],
        json!({ "tag": { "type": "keyword" } })
    );
    let one = text("fields", "/i");
    assert!(
        !one.text.contains("secret") && one.body["i"]["settings"]["index"]["uuid"].is_string(),
        "{one:?}"
    );
    let analyzed = secured.call("fields", "GET", "/i/_analyze", &json!({ "field": "secret", "text": "A b" }));
    let unmapped = secured.call("admin", "GET", "/i/_analyze", &json!({ "field": "none", "text": "A b" }));
    assert_eq!(analyzed.body, unmapped.body);
}

#[test]
fn both_sides_of_a_join_keep_to_it() {
    let secured = Secured::start(&["es8"], &[]);
    for (index, id, doc) in [
        ("owner", "1", json!({ "k": "x", "tag": "a" })),
        ("owner", "2", json!({ "k": "y", "tag": "b" })),
        ("thing", "1", json!({ "k": "x" })),
        ("thing", "2", json!({ "k": "y" })),
    ] {
        secured.admin("PUT", &format!("/{index}/_doc/{id}?refresh=true"), doc);
    }
    let owner = json!({ "names": ["owner"], "privileges": ["read"], "query": { "term": { "tag.keyword": "a" } } });
    let thing = json!({ "names": ["thing"], "privileges": ["read"] });
    secured.user("u", &json!({ "indices": [owner, thing] }));
    let check = |index: &str, query: Value, expected: &[&str]| {
        let found = secured.call("u", "POST", &format!("/{index}/_search"), &json!({ "query": query }));
        let ids: Vec<&str> = found.body["hits"]["hits"]
            .as_array()
            .unwrap_or_else(|| panic!("{found:?}"))
            .iter()
            .map(|hit| hit["_id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, expected, "{query}: {found:?}");
    };
    let join =
        |index: &str| json!({ "join": { "index": index, "on": { "k.keyword": "k.keyword" }, "query": { "match_all": {} } } });
    check("thing", join("owner"), &["1"]);
    check("owner", join("thing"), &["1"]);
    check(
        "thing",
        json!({ "terms": { "k.keyword": { "index": "owner", "id": "1", "path": "k" } } }),
        &["1"],
    );
    check(
        "thing",
        json!({ "terms": { "k.keyword": { "index": "owner", "id": "2", "path": "k" } } }),
        &[],
    );
}

#[test]
fn no_clause_reaches_a_withheld_field() {
    let secured = Secured::start(&["es8"], &[]);
    let keyword = json!({ "type": "keyword" });
    let owner = json!({ "mappings": { "properties": { "k": keyword, "secret": keyword } } });
    secured.admin("PUT", "/owner", owner);
    secured.admin("PUT", "/thing", json!({ "mappings": { "properties": { "k": keyword } } }));
    secured.admin("PUT", "/owner/_doc/1?refresh=true", json!({ "k": "x", "secret": "hidden" }));
    secured.admin("PUT", "/thing/_doc/1?refresh=true", json!({ "k": "hidden" }));
    let fields = json!({ "grant": ["*"], "except": ["secret"] });
    secured.user(
        "u",
        &json!({ "indices": [
            { "names": ["owner"], "privileges": ["read"], "field_security": fields },
            { "names": ["thing"], "privileges": ["read"] },
        ] }),
    );
    let all = json!({ "match_all": {} });
    let collects = json!({ "scripted_metric": {
        "init_script": "state.l = []", "map_script": "state.l.add(params._source.toString())",
        "combine_script": "return state.l.toString()", "reduce_script": "return states.toString()",
    }});
    for (index, body) in [
        (
            "thing",
            json!({ "query": { "join": { "index": "owner", "on": { "k": "secret" }, "query": all } } }),
        ),
        (
            "owner",
            json!({ "query": { "join": { "index": "thing", "on": { "secret": "k" }, "query": all } } }),
        ),
        (
            "thing",
            json!({ "query": { "terms": { "k": { "index": "owner", "id": "1", "path": "secret" } } } }),
        ),
        ("owner", json!({ "query": { "term": { "_field_names": "secret" } } })),
        (
            "owner",
            json!({ "query": { "query_string": { "query": "_exists_:secret" } } }),
        ),
        ("owner", json!({ "query": { "query_string": { "query": "hidden" } } })),
        ("owner", json!({ "sort": ["secret"] })),
        (
            "owner",
            json!({ "query": { "script": { "script": "doc['secret'].size() > 0" } } }),
        ),
        ("owner", json!({ "size": 0, "aggs": { "a": collects } })),
        (
            "owner",
            json!({ "query": { "more_like_this": { "fields": ["secret"], "like": [{ "_index": "owner", "_id": "1" }],
                          "min_term_freq": 1, "min_doc_freq": 1 } } }),
        ),
    ] {
        let found = secured.call("u", "POST", &format!("/{index}/_search"), &body);
        let hits = found.body["hits"]["hits"].as_array().map_or(0, Vec::len);
        assert!(hits == 0 && !found.text.contains("hidden"), "{index} {body}: {found:?}");
    }
}
