//! `pleach import --from`: indices of another server, through the real binary. The source is a listener of each persona; what it
//! says is what servers of its version say.
//!
//! Not here: files (`import.rs`), the mappings of older servers (`crates/server/src/commands/import/modern_mapping.rs`).

use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tests::fake::{self, FakeRequest};
use tests::{Server, command};

/// A server that is read, by all its personas, and one that is filled.
struct Bench {
    _folder: TempDir,
    source: Server,
    target: Server,
}

/// The exit code, what was printed as the result, and what as an error.
struct Done {
    code: Option<i32>,
    out: String,
    errors: String,
}

fn run(args: &[&str], target: &str, variables: &[(&str, &str)]) -> Done {
    let mut command = command();
    command
        .args(["import", "--url", target])
        .args(args)
        .envs(variables.iter().copied());
    let done = command.output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done {
        code: done.status.code(),
        out: text(&done.stdout),
        errors: text(&done.stderr),
    }
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let source = Server::start(&folder.path().join("source"), &["es8", "es2", "es7", "opensearch2"]);
        let target = Server::start(&folder.path().join("target"), &["es8", "es2"]);
        Bench {
            _folder: folder,
            source,
            target,
        }
    }

    fn import(&self, persona: &str, args: &[&str]) -> Done {
        let from = format!("http://{}", self.source.address(persona));
        let url = format!("http://{}", self.target.address(""));
        let args: Vec<&str> = ["--from", &from].into_iter().chain(args.iter().copied()).collect();
        run(&args, &url, &[])
    }

    /// Into the listener that keeps types, from this URL.
    fn import_types(&self, from: &str, args: &[&str]) -> Done {
        let url = format!("http://{}", self.target.address("es2"));
        let args: Vec<&str> = ["--from", from].into_iter().chain(args.iter().copied()).collect();
        run(&args, &url, &[])
    }

    /// Asks a listener of the persona es2.
    fn ask_2015(server: &Server, method: &str, path: &str, body: &Value) -> Value {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = tests::send(server.address("es2"), method, path, &[], text.as_bytes()).expect("an answer");
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        answer.body
    }

    fn imported(&self, persona: &str, args: &[&str], expected: &str) -> Done {
        let done = self.import(persona, args);
        assert!(
            done.code == Some(0) && done.out.contains(expected),
            "{persona} {args:?}: {:?} {}{}",
            done.code,
            done.out,
            done.errors
        );
        done
    }

    fn refused(&self, persona: &str, args: &[&str], expected: &str) {
        let done = self.import(persona, args);
        assert!(
            done.code == Some(1) && done.errors.contains(expected),
            "{persona} {args:?}: {:?} {}{}",
            done.code,
            done.out,
            done.errors
        );
    }

    fn found(&self, index: &str, query: &Value) -> Value {
        let body = json!({ "query": query, "sort": ["n"], "_source": false, "size": 100 });
        let answer = self.target.ok("POST", &format!("/{index}/_search"), &body);
        let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
        hits.map(|hit| hit["_id"].clone()).collect()
    }
}

#[test]
fn an_index_of_today_with_all_that_belongs_to_it() {
    let bench = Bench::new();
    let source = &bench.source;
    let definition = json!({
        "settings": { "number_of_shards": 2, "analysis": { "analyzer": { "paths": { "tokenizer": "path_hierarchy" } } } },
        "mappings": { "dynamic": "strict", "properties": {
            "n": { "type": "integer" }, "path": { "type": "text", "analyzer": "paths", "search_analyzer": "keyword" },
            "lines": { "type": "nested", "properties": { "sku": { "type": "keyword" } } },
        } },
        "aliases": { "current": {} },
    });
    source.ok("PUT", "/orders", &definition);
    source.ok("PUT", "/.hidden", &Value::Null);
    source.ok("PUT", "/empty", &Value::Null);
    let mut bulk = String::new();
    for n in 0..1203 {
        let routing = if n % 3 == 0 {
            json!({ "_id": n.to_string(), "routing": "r" })
        } else {
            json!({ "_id": n.to_string() })
        };
        bulk.push_str(&format!("{}\n", json!({ "index": routing })));
        bulk.push_str(&format!(
            "{{\"n\": {n}, \"path\": \"/a/b{}\", \"lines\": [{{\"sku\": \"s{}\"}}]}}\n",
            n % 5,
            n % 7
        ));
    }
    let answer = source.send("POST", "/orders/_bulk?refresh=true", &bulk).expect("an answer");
    assert_eq!(answer.body["errors"], false, "{answer:?}");
    for (persona, extra) in [
        ("es8", None),
        ("es7", Some("--index=orders7")),
        ("opensearch2", Some("--index=ordersos")),
    ] {
        let mut args = vec!["--source", "orders"];
        args.extend(extra);
        bench.imported(persona, &args, "1203 created, 0 updated, 0 failed");
        let index = extra.map_or("orders", |extra| &extra["--index=".len()..]);
        let count = bench.target.ok("GET", &format!("/{index}/_count"), &Value::Null)["count"].clone();
        assert_eq!(count, 1203, "{persona}");
        let one = bench.target.ok("GET", &format!("/{index}/_doc/3?routing=r"), &Value::Null);
        assert_eq!(
            (&one["_routing"], &one["_source"]["n"]),
            (&json!("r"), &json!(3)),
            "{persona}"
        );
        let nested = json!({ "nested": { "path": "lines", "query": { "term": { "lines.sku": "s6" } } } });
        let both =
            json!({ "bool": { "filter": [nested, { "term": { "path": "/a/b1" } }, { "range": { "n": { "lt": 100 } } }] } });
        assert_eq!(bench.found(index, &both), json!(["6", "41", "76"]), "{persona}");
    }
    let settings = bench.target.ok("GET", "/orders/_settings?flat_settings=true", &Value::Null);
    assert_eq!(settings["orders"]["settings"]["index.number_of_shards"], "2");
    assert_eq!(bench.found("current", &json!({ "term": { "n": 7 } })), json!(["7"]));
    // A second time replaces, says that the index was there, and takes what a query finds.
    let again = bench.imported(
        "es8",
        &["--source", "ord*", "--query", r#"{"range": {"n": {"lt": 10}}}"#],
        "0 created, 10 updated, 0 failed",
    );
    assert!(again.errors.contains("index [orders] is there already"), "{}", again.errors);
    let all = bench.imported("es8", &[], "0 created, 1203 updated");
    assert!(all.out.contains("[empty] is done"), "{}", all.out);
    let hidden = bench.target.call("HEAD", "/.hidden", &Value::Null);
    assert_eq!(hidden.status, 404, "indices whose names begin with a dot are left");
    assert_eq!(bench.target.call("HEAD", "/empty", &Value::Null).status, 200);
}

#[test]
fn an_index_of_2015() {
    let bench = Bench::new();
    let mapping = json!({ "mappings": { "post": { "_all": { "enabled": false }, "properties": {
        "title": { "type": "string" }, "tag": { "type": "string", "index": "not_analyzed" }, "n": { "type": "long" },
        "day": { "type": "date", "format": "dateOptionalTime" },
    } } } });
    let put = |path: &str, body: &Value| {
        let answer = tests::send(bench.source.address("es2"), "PUT", path, &[], body.to_string().as_bytes());
        let answer = answer.expect("an answer");
        assert!(answer.status < 300, "{path}: {answer:?}");
    };
    put("/blog", &mapping);
    for n in 0..5 {
        put(
            &format!("/blog/post/{n}?refresh=true"),
            &json!({ "title": "Old Hedges", "tag": "A-B", "n": n, "day": "2015-02-03" }),
        );
    }
    let done = bench.imported("es2", &[], "5 created, 0 updated, 0 failed");
    assert!(done.errors.contains("left out of the mapping: _all"), "{}", done.errors);
    assert_eq!(
        bench.found("blog", &json!({ "match": { "title": "hedges" } })),
        json!(["0", "1", "2", "3", "4"])
    );
    let both = json!({ "bool": { "filter": [{ "term": { "tag": "A-B" } }, { "range": { "day": { "gte": "2015-02" } } }] } });
    assert_eq!(bench.found("blog", &both), json!(["0", "1", "2", "3", "4"]));
    // An index with several types.
    put(
        "/mixed",
        &json!({ "mappings": { "post": {}, "user": { "properties": { "n": { "type": "long" } } } } }),
    );
    put("/mixed/user/1?refresh=true", &json!({ "n": 1 }));
    put("/mixed/post/2?refresh=true", &json!({ "n": 2 }));
    bench.refused("es2", &["--source", "mixed"], "--source mixed --type post --index mixed-post");
    bench.refused("es2", &["--source", "mixed", "--type", "pots"], "it has no type [pots]");
    bench.imported(
        "es2",
        &["--source", "mixed", "--type", "user", "--index", "users"],
        "1 created",
    );
    assert_eq!(bench.found("users", &json!({ "match_all": {} })), json!(["1"]));
}

/// A blog and its comments: two types, one of them with parents, a time and an end.
fn blog_of_2015() -> Value {
    json!({ "mappings": {
        "post": { "properties": { "title": { "type": "string" }, "tag": { "type": "string", "index": "not_analyzed" } } },
        "comment": {
            "_parent": { "type": "post" }, "_timestamp": { "enabled": true, "format": "yyyy-MM-dd" }, "_ttl": { "enabled": true },
            "properties": { "text": { "type": "string" }, "n": { "type": "long" } },
        },
    }, "aliases": { "diary": {} } })
}

/// The comment 7 of post 2 as the target has it.
fn check_comment(target: &Server, timestamp: i64) {
    let got = Bench::ask_2015(
        target,
        "GET",
        "/blog/comment/7?parent=2&fields=_source,_parent,_routing,_timestamp,_ttl",
        &Value::Null,
    );
    let of = |name: &str| match &got["fields"][name] {
        Value::Null => got[name].clone(),
        value => value.clone(),
    };
    assert_eq!((of("_parent"), of("_timestamp")), (json!("2"), json!(timestamp)), "{got}");
    let left = of("_ttl").as_i64().unwrap_or_else(|| panic!("{got}"));
    // Some of its ten days have passed, and not much.
    assert!(left <= 10 * 86_400_000 && left > 9 * 86_400_000, "{left}");
    let parents = json!({ "query": { "has_child": { "type": "comment", "query": { "match": { "text": "hedges" } } } } });
    let found = Bench::ask_2015(target, "POST", "/diary/post/_search", &parents);
    assert_eq!(
        (&found["hits"]["total"], &found["hits"]["hits"][0]["_id"]),
        (&json!(1), &json!("2")),
        "{found}"
    );
}

#[test]
fn types_and_parents_stay_where_the_target_has_types() {
    let bench = Bench::new();
    let put = |path: &str, body: &Value| Bench::ask_2015(&bench.source, "PUT", path, body);
    put("/blog", &blog_of_2015());
    for n in 1..5 {
        put(
            &format!("/blog/post/{n}"),
            &json!({ "title": format!("Post {n}"), "tag": "A-B" }),
        );
    }
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("it is later");
    let day = 86_400_000;
    // Yesterday, for eleven days.
    let timestamp = i64::try_from(now.as_millis()).expect("it fits") / day * day - day;
    let of_2 = json!({ "text": "Old hedges", "n": 1 });
    let written = format!("/blog/comment/7?parent=2&timestamp={}&ttl=11d", date_of(timestamp));
    put(&written, &of_2);
    put("/blog/comment/8?parent=3", &json!({ "text": "New lawns", "n": 2 }));
    Bench::ask_2015(&bench.source, "POST", "/blog/_refresh", &Value::Null);
    let from = format!("http://{}", bench.source.address("es2"));
    let done = bench.import_types(&from, &["--source", "blog"]);
    assert!(
        done.code == Some(0) && done.out.contains("6 created, 0 updated, 0 failed"),
        "{}{}",
        done.out,
        done.errors
    );
    check_comment(&bench.target, timestamp);
    let mapping = Bench::ask_2015(&bench.target, "GET", "/blog/_mapping", &Value::Null);
    let mappings = &mapping["blog"]["mappings"];
    assert_eq!(mappings["comment"]["_parent"]["type"], "post", "{mapping}");
    assert_eq!(mappings["post"]["properties"]["tag"]["index"], "not_analyzed", "{mapping}");
    // One type alone, again, and into an index of today.
    let one = bench.import_types(&from, &["--source", "blog", "--type", "post", "--index", "posts"]);
    assert!(one.out.contains("4 created"), "{}{}", one.out, one.errors);
    let again = bench.import_types(&from, &["--source", "blog"]);
    assert!(again.out.contains("0 created, 6 updated"), "{}{}", again.out, again.errors);
    bench.refused(
        "es2",
        &["--source", "blog", "--type", "comment", "--index", "comments"],
        "have parents of type [post]",
    );
    bench.refused("es2", &["--source", "blog"], "which keeps types and parents");
    // A newer source has nothing to keep.
    let newer = bench.import_types(&format!("http://{}", bench.source.address("es8")), &[]);
    assert!(
        newer.code == Some(1) && newer.errors.contains("the source is a newer server"),
        "{}",
        newer.errors
    );
}

/// `yyyy-MM-dd` of milliseconds since 1970.
fn date_of(ms: i64) -> String {
    let (year, month, day) = model::date::civil_from_days(ms.div_euclid(86_400_000));
    format!("{year}-{month:02}-{day:02}")
}

#[test]
fn a_source_of_version_1_with_types_and_parents() {
    let bench = Bench::new();
    let mut definition = blog_of_2015();
    let comment = &mut definition["mappings"]["comment"];
    comment["_timestamp"]["path"] = json!("day");
    comment["properties"]["text"]["index_analyzer"] = json!("standard");
    definition["warmers"] = json!({ "warm": {} });
    let index = json!({ "blog": definition }).to_string();
    let timestamp = 1_420_070_400_000_i64;
    let page = |hits: Value| {
        json!({ "_scroll_id": "second", "_shards": { "failed": 0 }, "hits": { "total": 4, "hits": hits } }).to_string()
    };
    let posts = page(json!([{ "_index": "blog", "_type": "post", "_id": "2", "_source": { "title": "Post" } }]));
    // A server gives a source as it was written, here on several lines.
    let posts = posts.replace("{\"title\":\"Post\"}", "{\n  \"title\":\r\n \"Post\"\n}");
    assert!(posts.contains('\n'), "{posts}");
    let comments = page(json!([
        { "_index": "blog", "_type": "comment", "_id": "7", "_source": { "text": "Old hedges" },
            "fields": { "_parent": "2", "_routing": "2", "_timestamp": timestamp, "_ttl": 10 * 86_400_000_i64 } },
        { "_index": "blog", "_type": "comment", "_id": "8", "_source": { "text": "Lawns" }, "fields": { "_parent": "2", "_ttl": -5 } },
        { "_index": "blog", "_type": "comment", "_id": "9", "_source": { "text": "Lawns" }, "fields": { "_parent": "2" } },
    ]));
    let begun = |doc_type: &str| {
        json!({ "_scroll_id": doc_type, "_shards": { "failed": 0 }, "hits": { "total": 4, "hits": [] } }).to_string()
    };
    let answering = move |request: &FakeRequest| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let path = request.path.split('?').next().unwrap_or_default();
        match (request.method.as_str(), path, body.as_str()) {
            ("GET" | "HEAD", "/", _) => (200, r#"{"version":{"number":"1.7.6"}}"#.to_owned()),
            ("GET", "/blog", _) => (200, index.clone()),
            // Of two types at once it would not give the times of one of them.
            ("POST", "/blog/post/_search", _) if request.path.contains("_timestamp,_ttl") => (200, begun("post")),
            ("POST", "/blog/comment/_search", _) if request.path.contains("_timestamp,_ttl") => (200, begun("comment")),
            ("POST", "/_search/scroll", "post") => (200, posts.clone()),
            ("POST", "/_search/scroll", "comment") => (200, comments.clone()),
            ("POST", "/_search/scroll", "second") => (200, begun("second")),
            ("DELETE", "/_search/scroll", _) => (200, "{}".to_owned()),
            _ => (404, r#"{"error":"no such thing"}"#.to_owned()),
        }
    };
    let from = fake::start(Arc::new(answering));
    let done = bench.import_types(&from, &["--source", "blog"]);
    assert!(
        done.code == Some(0) && done.out.contains("3 created, 0 updated, 0 failed"),
        "{}{}",
        done.out,
        done.errors
    );
    for told in [
        "left out of the mapping: _timestamp.path",
        "the warmers warm",
        "1 documents have a _timestamp that the source does not store",
        "1 documents were left out, for their _ttl is over",
    ] {
        assert!(done.errors.contains(told), "{told}: {}", done.errors);
    }
    check_comment(&bench.target, timestamp);
}

#[test]
fn refusals_say_what_to_do() {
    let bench = Bench::new();
    for index in ["a", "b"] {
        bench
            .source
            .ok("PUT", &format!("/{index}/_doc/1?refresh=true"), &json!({ "n": 1 }));
    }
    bench.refused("es8", &["--source", "absent"], "no such index [absent]");
    bench.refused("es8", &["--source", "absent*"], "the source has no index [absent*]");
    bench.refused(
        "es8",
        &["--index", "one"],
        "the source has several: [a, b]; choose one with --source",
    );
    bench.refused("es8", &["--source", "a", "--query", "{"], "--query is no JSON");
    bench.refused("es8", &["--source", "a", "--query", r#"{"tern": {"n": 1}}"#], "tern");
    bench.target.ok(
        "PUT",
        "/b",
        &json!({ "mappings": { "properties": { "n": { "type": "boolean" } } } }),
    );
    bench.refused("es8", &["--source", "b"], "The server refused 1 of 1 documents");
    let count = bench.target.ok("GET", "/b/_count", &Value::Null)["count"].clone();
    assert_eq!(count, 0);
    let dry = bench.imported("es8", &["--source", "a", "--dry-run"], "would import 1 documents");
    assert_eq!(dry.errors, "");
    assert_eq!(
        bench.target.call("HEAD", "/a", &Value::Null).status,
        404,
        "a dry run makes nothing"
    );
    let url = format!("http://{}", bench.target.address(""));
    for (args, expected) in [
        (&["--from", "ftp://here"][..], "is no URL of a server"),
        (&["--from", "http://127.0.0.1:9"], "no answer from the source"),
    ] {
        let done = run(args, &url, &[]);
        assert!(
            done.code == Some(1) && done.errors.contains(expected),
            "{args:?}: {}",
            done.errors
        );
    }
    let both = run(&["--from", &url, "lines.ndjson"], &url, &[]);
    assert_eq!(both.code, Some(2), "{}", both.errors);
}

#[test]
fn credentials_go_to_the_source_alone() {
    let seen: Arc<Mutex<Option<String>>> = Arc::default();
    let noted = seen.clone();
    let from = fake::start(Arc::new(move |request| {
        *noted.lock().expect("no panic") = request.header("authorization").map(str::to_owned);
        (401, r#"{"error":"unable to authenticate user [ann]"}"#.to_owned())
    }));
    let args = ["--from", &from, "--from-user", "ann"];
    let without = run(&args, "http://127.0.0.1:9", &[]);
    assert!(without.errors.contains("PLEACH_FROM_PASSWORD"), "{}", without.errors);
    let done = run(&args, "http://127.0.0.1:9", &[("PLEACH_FROM_PASSWORD", "pass")]);
    assert!(
        done.code == Some(1) && done.errors.contains("401: unable to authenticate user [ann]"),
        "{}",
        done.errors
    );
    let seen = seen.lock().expect("no panic").clone();
    assert_eq!(seen.as_deref(), Some("Basic YW5uOnBhc3M="));
}
