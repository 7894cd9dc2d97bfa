//! The table of settings, walked: each limit refuses beyond it and names its setting, each choice changes an answer.
//! A row of the table that has no row here fails.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use model::settings::ALL;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::{Answer, Server};

/// One request: method, path, body.
type Ask = (&'static str, &'static str, String);

enum Row {
    /// Started with these settings, after these requests, the last is refused with a status, and its answer names the
    /// setting.
    Refused(&'static [&'static str], Vec<Ask>, Ask, u16),
    /// The same for what only many clients at once can reach: one of them is.
    Crowded(&'static [&'static str], Vec<Ask>, Ask, u16),
    /// It chooses something: after these requests, the last answer holds.
    Chosen(&'static [&'static str], Vec<Ask>, Ask, fn(&Answer) -> bool),
    /// What it bounds is not reached by a request or two; the test that reaches it.
    Elsewhere(&'static str),
}

fn get(path: &'static str) -> Ask {
    ("GET", path, String::new())
}
fn put(path: &'static str, body: Value) -> Ask {
    ("PUT", path, body.to_string())
}
fn post(path: &'static str, body: Value) -> Ask {
    ("POST", path, body.to_string())
}
/// An index with one setting.
fn made(setting: &str, value: Value, mappings: Value) -> Vec<Ask> {
    vec![put("/i", json!({ "settings": { setting: value }, "mappings": mappings }))]
}
/// The same with a document.
fn filled(setting: &str, value: Value) -> Vec<Ask> {
    let mut all = made(setting, value, json!({}));
    all.push(put(
        "/i/_doc/1?refresh=true",
        json!({ "n": 1, "text": "some words of text", "tag": "a b c" }),
    ));
    all
}
/// A cluster setting.
fn cluster(setting: &str, value: Value) -> Vec<Ask> {
    vec![
        put("/i/_doc/1?refresh=true", json!({ "n": 1, "text": "some words of text" })),
        put("/i/_doc/2?refresh=true", json!({ "n": 2, "text": "more words of text" })),
        put("/_cluster/settings", json!({ "persistent": { setting: value } })),
    ]
}
/// A repository of snapshots.
fn repository(path: &'static str) -> Ask {
    put(path, json!({ "type": "fs", "settings": { "location": "r" } }))
}
/// Two documents in a directory.
fn directories() -> Vec<Ask> {
    vec![
        put(
            "/fs",
            json!({ "mappings": { "properties": { "p": { "type": "tree_path" } } } }),
        ),
        put("/fs/_doc/1?refresh=true", json!({ "p": "/a/one" })),
        put("/fs/_doc/2?refresh=true", json!({ "p": "/a/two" })),
    ]
}
fn nested(depth: usize, open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}
fn search(body: Value) -> Ask {
    post("/i/_search", body)
}
fn looping(script: &str) -> Ask {
    post("/i/_update/1", json!({ "script": { "source": script } }))
}

/// Two indices, a policy between them, a source and two documents that refer to it.
fn linked(mode: &str) -> Vec<Ask> {
    vec![
        put(
            "/user",
            json!({ "mappings": { "properties": { "name": { "type": "keyword" } } } }),
        ),
        put(
            "/post",
            json!({ "mappings": { "properties": { "user": { "properties": { "id": { "type": "keyword" }, "name": { "type": "keyword" } } } } } }),
        ),
        put("/_link/policy/a", link("user", "name", "post", "user.id", mode)),
        put("/user/_doc/1", json!({ "name": "Ann" })),
        put("/post/_doc/1", json!({ "user": { "id": "1" } })),
        put("/post/_doc/2", json!({ "user": { "id": "1" } })),
    ]
}
fn link(source: &str, field: &str, target: &str, on: &str, mode: &str) -> Value {
    json!({
        "source": { "index": source, "fields": [field] }, "target": { "index": target, "on": { on: "_id" }, "into": source }, "mode": mode,
    })
}

fn row(name: &str) -> Option<Row> {
    use Row::{Chosen, Crowded, Elsewhere, Refused};
    let number = json!({ "properties": { "n": { "type": "long" } } });
    Some(match name {
        "http.max_content_length" => Refused(
            &["http.max_content_length=1kb"],
            vec![],
            put("/i/_doc/1", json!({ "a": "x".repeat(2000) })),
            413,
        ),
        "http.max_answer_bytes" => Chosen(
            &["http.max_answer_bytes=1kb"],
            vec![put("/i/_doc/1?refresh=true", json!({ "a": "x".repeat(2000) }))],
            post("/i/_mget", json!({ "ids": ["1", "1"] })),
            |answer| {
                let docs = &answer.body["docs"];
                let reason = docs[1]["error"]["reason"].as_str().unwrap_or_default();
                answer.status == 200 && docs[0]["found"] == true && reason.contains("http.max_answer_bytes")
            },
        ),
        "http.max_connections" => Elsewhere("connections_are_bounded"),
        "http.read_timeout" => Elsewhere("requests_come_in_time"),
        "http.write_timeout" => Elsewhere("rest: an_answer_is_taken_in_time_or_late"),
        "indices.breaker.total.limit" => Refused(
            &["indices.breaker.total.limit=1mb"],
            vec![],
            put("/i/_doc/1", json!({ "a": "x".repeat(200_000) })),
            429,
        ),
        "indices.breaker.request.limit" => Refused(
            &["indices.breaker.request.limit=1kb"],
            vec![],
            post(
                "/i/_delete_by_query",
                json!({ "query": { "terms": { "a": ["one", "two", "three", "four", "five"] } } }),
            ),
            429,
        ),
        "locks.max_bytes" => Refused(
            &["locks.max_bytes=10b"],
            vec![post("/_lock", json!({ "targets": [{ "name": "a" }] }))],
            post("/_lock", json!({ "targets": [{ "name": "more-than-ten" }] })),
            429,
        ),
        "security.login.max_waiting" => Elsewhere("rest: waiting_logins_are_bounded"),
        "security.credentials_cache.size" | "security.credentials_cache.ttl" => Elsewhere("rest: what_was_compared_is_bounded"),
        "security.max_records" => Elsewhere("security: records_are_bounded"),
        "security.audit.max_bytes" => Elsewhere("server: another_file_is_begun"),
        "http.http2.max_concurrent_streams" | "http.http2.max_header_list_size" | "http.http2.max_resets" => {
            Elsewhere("network: http2_is_bounded")
        }
        "threads.preemption_tick" => Elsewhere("server: it_ticks_while_long_work_runs"),
        "http.busy_poll" => Elsewhere("rest: nothing_is_lost_between_looking_and_sleeping"),
        name if name.starts_with("cluster.routing.allocation.disk.") || name == "cluster.info.update.interval" => {
            Elsewhere("watermarks")
        }
        "indices.ttl.interval" | "index.ttl.disable_purge" => Elsewhere("scenarios: typed_times_2015"),
        "index.pleach.warmers" => Elsewhere("scenarios: typed_warmers_2015"),
        "http.max_in_flight_bytes" => Refused(
            &["http.max_in_flight_bytes=1kb"],
            vec![],
            put("/i/_doc/1", json!({ "a": "x".repeat(2000) })),
            429,
        ),
        "json.max_depth" => {
            let body = nested(12, "{\"a\":", "1", "}");
            Refused(
                &["json.max_depth=10"],
                filled("index.max_result_window", json!(10)),
                ("POST", "/i/_search", body),
                400,
            )
        }
        "indices.query.max_nested_depth" => {
            let body = format!(
                "{{\"query\":{}}}",
                nested(7, "{\"bool\":{\"must\":", "{\"match_all\":{}}", "}}")
            );
            Refused(
                &["indices.query.max_nested_depth=5"],
                filled("index.max_result_window", json!(10)),
                ("POST", "/i/_search", body),
                400,
            )
        }
        "search.max_aggregation_depth" => {
            let filter = "\"filter\":{\"match_all\":{}}";
            let levels = nested(
                4,
                &format!("{{\"a\":{{{filter},\"aggs\":"),
                &format!("{{\"a\":{{{filter}}}}}"),
                "}}",
            );
            let body = format!("{{\"aggs\":{levels}}}");
            Refused(
                &["search.max_aggregation_depth=2"],
                filled("index.max_result_window", json!(10)),
                ("POST", "/i/_search", body),
                400,
            )
        }
        "indices.query.bool.max_clause_count" => {
            let should: Vec<Value> = (0..4).map(|n| json!({ "term": { "n": n } })).collect();
            Refused(
                &[],
                cluster(name, json!(3)),
                search(json!({ "query": { "bool": { "should": should } } })),
                400,
            )
        }
        "search.max_buckets" => Refused(
            &[],
            cluster(name, json!(1)),
            search(json!({ "aggs": { "a": { "terms": { "field": "n" } } } })),
            400,
        ),
        "search.max_phrase_suggest_ways" => Refused(
            &[],
            cluster(name, json!(1)),
            search(json!({ "suggest": { "text": "some wrds", "s": { "phrase": { "field": "text" } } } })),
            400,
        ),
        "search.allow_expensive_queries" => Refused(
            &[],
            cluster(name, json!(false)),
            search(json!({ "query": { "script": { "script": "true" } } })),
            400,
        ),
        "search.max_open_scroll_context" => {
            let mut before = cluster(name, json!(1));
            before.push(post("/i/_search?scroll=1m", json!({})));
            Refused(&[], before, post("/i/_search?scroll=1m", json!({})), 429)
        }
        "search.max_keep_alive" => Refused(&[], cluster(name, json!("1m")), post("/i/_search?scroll=2m", json!({})), 400),
        "search.max_concurrent" => {
            let slow = json!({ "query": { "script_score": { "query": { "match_all": {} }, "script": { "source": "double s = 0; for (int i = 0; i < 50000; i++) { s += i } return s" } } } });
            Crowded(
                &["search.max_concurrent=1"],
                cluster("search.max_buckets", json!(10)),
                search(slow),
                429,
            )
        }
        "search.max_join_keys" | "search.join_memory" | "search.max_join_depth" => Elsewhere("scenarios of joins"),
        "script.max_size_in_bytes" => Refused(
            &["script.max_size_in_bytes=50"],
            filled("index.max_result_window", json!(10)),
            looping(&" ".repeat(60)),
            400,
        ),
        "script.max_steps" => Refused(
            &["script.max_steps=1000"],
            filled("index.max_result_window", json!(10)),
            looping("for (int i = 0; i < 100000; i++) { ctx._source.n = i }"),
            400,
        ),
        "script.max_memory" => Refused(
            &["script.max_memory=2kb"],
            filled("index.max_result_window", json!(10)),
            looping("String s = 'x'; for (int i = 0; i < 100; i++) { s = s + s }"),
            400,
        ),
        "indices.analysis.max_token_bytes" => {
            let path = json!({ "settings": { "analysis": { "analyzer": { "path": { "tokenizer": "path_hierarchy" } } } },
                "mappings": { "properties": { "path": { "type": "text", "analyzer": "path" } } } });
            let long = json!({ "path": "/a".repeat(200) });
            Refused(
                &["indices.analysis.max_token_bytes=32kb"],
                vec![put("/i", path)],
                put("/i/_doc/1", long),
                400,
            )
        }
        "log.queue_max_bytes" => Crowded(
            &["log.queue_max_bytes=8kb"],
            vec![],
            post("/i/_doc", json!({ "a": "x".repeat(3000) })),
            429,
        ),
        "changes.retention.bytes" => Elsewhere("feed: old_changes_are_given_up"),
        "changes.retention.age" => Elsewhere("embedded: log::tests::files_stay_within_the_retention"),
        "changes.feed.max_operations" => Refused(
            &["changes.feed.max_operations=5"],
            vec![],
            get("/_changes?since=0&limit=6"),
            400,
        ),
        "changes.feed.max_bytes" => Elsewhere("feed: an_answer_has_bounded_bytes_and_whole_changes"),
        "changes.feed.linger" => Elsewhere("feed: a_follower_of_a_busy_server_gets_several_changes_at_a_time"),
        "changes.feed.keep_alive" => Elsewhere("feed: positions_and_bounds_are_refused_by_name"),
        "changes.consumers.max" => Elsewhere("feed: consumers_keep_their_position_and_their_changes"),
        "changes.consumers.max_bytes" => Elsewhere("embedded: log::tests::unread_files_stay_within_their_own_bound"),
        "changes.feed.max_wait" => Refused(
            &["changes.feed.max_wait=1s"],
            vec![],
            get("/_changes?since=0&timeout=2s"),
            400,
        ),
        "index.pleach.tree.max_nodes" => Refused(
            &[],
            vec![put(
                "/fs",
                json!({ "settings": { "index.pleach.tree.max_nodes": 3 }, "mappings": { "properties": { "p": { "type": "tree_path" } } } }),
            )],
            put("/fs/_doc/1", json!({ "p": "/a/b/c/d/e" })),
            400,
        ),
        "tree.max_listed" => Refused(
            &["tree.max_listed=5"],
            vec![put(
                "/fs",
                json!({ "mappings": { "properties": { "p": { "type": "tree_path" } } } }),
            )],
            get("/fs/_tree?size=6"),
            400,
        ),
        "tree.max_documents" => Refused(
            &["tree.max_documents=1"],
            directories(),
            post("/fs/_tree/_copy", json!({ "from": "/a", "to": "/b" })),
            400,
        ),
        "tree.max_bytes" => Refused(
            &["tree.max_bytes=10b"],
            directories(),
            post("/fs/_tree/_copy", json!({ "from": "/a", "to": "/b" })),
            413,
        ),
        "links.max_sync" => Refused(
            &["links.max_sync=1"],
            linked("sync"),
            put("/user/_doc/1", json!({ "name": "Bea" })),
            400,
        ),
        "links.max_pending" => Refused(
            &["links.max_pending=0"],
            linked("async")[..3].to_vec(),
            put("/user/_doc/1", json!({ "name": "Bea" })),
            429,
        ),
        "links.max_policies" => Refused(
            &["links.max_policies=1"],
            linked("sync"),
            put("/_link/policy/b", link("user", "name", "post", "user.id", "sync")),
            400,
        ),
        "links.max_depth" => {
            let mut before = linked("sync");
            before.push(put(
                "/note",
                json!({ "mappings": { "properties": { "post_id": { "type": "keyword" } } } }),
            ));
            Refused(
                &["links.max_depth=1"],
                before,
                put("/_link/policy/b", link("post", "user.name", "note", "post_id", "sync")),
                400,
            )
        }
        "log.checkpoint_bytes" => Elsewhere("embedded: write_path bounds::a_cold_index_does_not_pin_the_log"),
        "log.checkpoint_ops" => Elsewhere("embedded: write_path bounds::operations_start_a_checkpoint_too"),
        "log.max_bytes" => Elsewhere("embedded: write_path bounds::a_log_without_checkpoints_stops_writers_by_name"),
        "indexing.ram_segments_max_bytes" => Elsewhere("embedded: write_path bounds::segments_in_memory_have_their_fill"),
        "indexing.pending_max_bytes" => Elsewhere("embedded: write_path bounds::more_pending_than_allowed_is_refused_by_name"),
        "action.auto_create_index" => Refused(&[], cluster(name, json!("false")), put("/other/_doc/1", json!({})), 404),
        "action.destructive_requires_name" => Chosen(
            &[],
            cluster(name, json!("false")),
            ("DELETE", "/*", String::new()),
            |answer| answer.status == 200,
        ),
        "tasks.max_running" => Refused(
            &["tasks.max_running=0"],
            vec![put("/i/_doc/1?refresh=true", json!({ "n": 1 }))],
            post("/i/_update_by_query", json!({})),
            429,
        ),
        "tasks.max_kept" => Elsewhere("finished_tasks_are_forgotten"),
        "repositories.max" => Refused(
            &["repositories.max=1"],
            vec![repository("/_snapshot/one")],
            repository("/_snapshot/two"),
            400,
        ),
        "repositories.max_description_bytes" => Refused(
            &["repositories.max_description_bytes=300b"],
            vec![put("/i/_doc/1", json!({ "n": 1 })), repository("/_snapshot/one")],
            put("/_snapshot/one/s?wait_for_completion=true", json!({})),
            400,
        ),
        "snapshot.max_concurrent_operations" => {
            let mut before = cluster(name, json!(0));
            before.push(repository("/_snapshot/one"));
            Refused(&[], before, put("/_snapshot/one/s", json!({})), 503)
        }
        "cluster.max_indices" => Refused(&[], cluster(name, json!(1)), put("/other", json!({})), 400),
        "index.refresh_interval" => Elsewhere("engine: contract laws::refresh_visibility"),
        "index.number_of_shards" => Chosen(&[], made(name, json!(3), json!({})), get("/_cluster/health"), |answer| {
            answer.body["active_primary_shards"] == 3
        }),
        "index.number_of_replicas" => Chosen(&[], made(name, json!(2), json!({})), get("/_cat/indices/i?h=rep"), |answer| {
            answer.text.trim() == "2"
        }),
        "index.max_result_window" => Refused(&[], filled(name, json!(5)), search(json!({ "size": 6 })), 400),
        "index.max_inner_result_window" => Refused(
            &[],
            filled(name, json!(2)),
            search(json!({ "aggs": { "a": { "top_hits": { "size": 3 } } } })),
            400,
        ),
        "index.max_terms_count" => Refused(
            &[],
            filled(name, json!(2)),
            search(json!({ "query": { "terms": { "n": [1, 2, 3] } } })),
            400,
        ),
        "index.max_docvalue_fields_search" => Refused(
            &[],
            filled(name, json!(1)),
            search(json!({ "docvalue_fields": ["n", "tag.keyword"] })),
            400,
        ),
        "index.max_script_fields" => {
            let fields = json!({ "a": { "script": { "source": "1" } }, "b": { "script": { "source": "2" } } });
            Refused(&[], filled(name, json!(1)), search(json!({ "script_fields": fields })), 400)
        }
        "index.max_ngram_diff" => Refused(
            &[],
            vec![],
            put(
                "/i",
                json!({ "settings": { name: 2, "analysis": { "tokenizer": { "t": { "type": "ngram", "min_gram": 1, "max_gram": 5 } }, "analyzer": { "a": { "tokenizer": "t" } } } } }),
            ),
            400,
        ),
        "index.max_shingle_diff" => Refused(
            &[],
            vec![],
            put(
                "/i",
                json!({ "settings": { name: 2, "analysis": { "filter": { "f": { "type": "shingle", "min_shingle_size": 2, "max_shingle_size": 9 } }, "analyzer": { "a": { "tokenizer": "standard", "filter": ["f"] } } } } }),
            ),
            400,
        ),
        "index.max_regex_length" => Refused(
            &[],
            filled(name, json!(3)),
            search(json!({ "query": { "regexp": { "tag.keyword": "abcd" } } })),
            400,
        ),
        "index.highlight.max_analyzed_offset" => Refused(
            &[],
            filled(name, json!(5)),
            search(json!({ "query": { "match": { "text": "words" } }, "highlight": { "fields": { "text": {} } } })),
            400,
        ),
        "index.analyze.max_token_count" => Refused(
            &[],
            filled(name, json!(2)),
            post("/i/_analyze", json!({ "text": "one two three" })),
            400,
        ),
        "index.mapping.total_fields.limit" => Refused(
            &[],
            made(name, json!(2), number),
            put("/i/_doc/1", json!({ "a": 1, "b": 2 })),
            400,
        ),
        "index.mapping.depth.limit" => Refused(
            &[],
            made(name, json!(2), number),
            put("/i/_doc/1", json!({ "a": { "b": { "c": { "d": 1 } } } })),
            400,
        ),
        "index.mapping.nested_fields.limit" => Refused(
            &[],
            made(name, json!(1), number),
            put(
                "/i/_mapping",
                json!({ "properties": { "a": { "type": "nested" }, "b": { "type": "nested" } } }),
            ),
            400,
        ),
        "index.mapping.nested_objects.limit" => Refused(
            &[],
            made(name, json!(2), json!({ "properties": { "a": { "type": "nested" } } })),
            put("/i/_doc/1", json!({ "a": [{}, {}, {}] })),
            400,
        ),
        "index.mapping.field_name_length.limit" => Refused(
            &[],
            made(name, json!(5), number),
            put("/i/_mapping", json!({ "properties": { "abcdef": { "type": "long" } } })),
            400,
        ),
        "index.gc_deletes" => {
            let mut before = filled(name, json!("1ms"));
            before.push(("DELETE", "/i/_doc/1?refresh=true", String::new()));
            before.push(("WAIT", "", "12s".into()));
            Chosen(&[], before, put("/i/_doc/1", json!({ "n": 2 })), |answer| {
                answer.body["_version"] == 1
            })
        }
        "index.default_pipeline" => Refused(&[], vec![], put("/i", json!({ "settings": { name: "mine" } })), 400),
        "index.translog.durability" => Refused(&[], vec![], put("/i", json!({ "settings": { name: "sometimes" } })), 400),
        "index.query_string.lenient" => {
            let body = json!({ "query": { "query_string": { "fields": ["n"], "query": "words" } } });
            Chosen(&[], filled(name, json!(true)), search(body), |answer| {
                answer.status == 200 && answer.body["hits"]["total"]["value"] == 0
            })
        }
        "index.query.default_field" => {
            let body = json!({ "query": { "query_string": { "query": "words" } } });
            Chosen(&[], filled(name, json!("tag")), search(body), |answer| {
                answer.body["hits"]["total"]["value"] == 0
            })
        }
        "index.similarity.default.type" => {
            let body = json!({ "query": { "match": { "text": "words" } } });
            // idf of one document of one, and a length that is the mean: ln(1 + 0.5 / 1.5) / 2.2.
            Chosen(&[], filled(name, json!("BM25")), search(body), |answer| {
                let score = answer.body["hits"]["max_score"].as_f64().unwrap_or(0.0);
                (score - (4.0_f64 / 3.0).ln() / 2.2).abs() < 1e-5
            })
        }
        "index.merge.policy.deletes_pct_allowed" | "index.merge.policy.segments_per_tier" => {
            Elsewhere("embedded: merging::tests::policy_of_an_index")
        }
        "index.pleach.locks"
        | "index.pleach.lock_path"
        | "index.pleach.lock_index"
        | "index.pleach.lock_ttl"
        | "index.pleach.lock_strict" => Elsewhere("scenarios of locks"),
        "indices.requests.cache.size" => Elsewhere("kept answers of aggregations"),
        "indices.fielddata.cache.size" | "indices.documents.cache.size" | "indices.queries.cache.size" => {
            Elsewhere("the engine's own tests: it changes no answer")
        }
        "locks.max_targets" => Refused(
            &["locks.max_targets=1"],
            vec![],
            post("/_lock", json!({ "targets": [{ "name": "a" }, { "name": "b" }] })),
            400,
        ),
        "locks.max" => Refused(
            &["locks.max=1"],
            vec![post("/_lock", json!({ "targets": [{ "name": "a" }] }))],
            post("/_lock", json!({ "targets": [{ "name": "b" }] })),
            429,
        ),
        "locks.max_waiters" => Crowded(
            &["locks.max_waiters=1"],
            vec![post("/_lock", json!({ "targets": [{ "name": "a" }] }))],
            post("/_lock?timeout=1s", json!({ "targets": [{ "name": "a" }] })),
            429,
        ),
        "locks.max_text_bytes" => Refused(
            &["locks.max_text_bytes=4"],
            vec![],
            post("/_lock", json!({ "targets": [{ "name": "abcde" }] })),
            400,
        ),
        "locks.max_path_depth" => Refused(
            &["locks.max_path_depth=2"],
            vec![put("/i", json!({ "settings": { "index.pleach.lock_path": "path" } }))],
            post("/_lock", json!({ "targets": [{ "index": "i", "path": "/a/b/c" }] })),
            400,
        ),
        "locks.max_places" => Refused(
            &["locks.max_places=1"],
            vec![
                put(
                    "/p",
                    json!({ "settings": { "index.pleach.locks": "enforced", "index.pleach.lock_path": "path" } }),
                ),
                post("/_lock", json!({ "targets": [{ "index": "p", "path": "/x" }] })),
            ],
            put("/p/_doc/1", json!({ "path": ["/a", "/b"] })),
            400,
        ),
        "transactions.max_open" => Refused(
            &[],
            vec![
                put("/_cluster/settings", json!({ "persistent": { name: 1 } })),
                post("/_transaction/_begin", json!({})),
            ],
            post("/_transaction/_begin", json!({})),
            429,
        ),
        "transactions.max_bytes" | "transactions.max_reads" => Elsewhere("scenario contract_12_staging"),
        "transactions.keep_alive" => Chosen(
            &[],
            cluster(name, json!("20s")),
            post("/_transaction/_begin", json!({})),
            |answer| answer.body["expires_in_millis"] == 20_000,
        ),
        "transactions.max_keep_alive" => Refused(
            &[],
            cluster(name, json!("40s")),
            post("/_transaction/_begin?keep_alive=41s", json!({})),
            400,
        ),
        "changes.path" => Elsewhere("contract_34 and contract_35"),
        "changes.max_operations" => Refused(
            &[],
            cluster("changes.max_operations", json!(1)),
            post(
                "/_transaction",
                json!({ "operations": [{ "delete": { "_index": "i", "_id": "1" } }, { "delete": { "_index": "i", "_id": "2" } }] }),
            ),
            400,
        ),
        "changes.max_bytes" => Refused(
            &[],
            cluster("changes.max_bytes", json!("1kb")),
            post(
                "/_transaction",
                json!({ "operations": [{ "index": { "_index": "i", "_id": "1", "doc": { "text": "x".repeat(2000) } } }] }),
            ),
            413,
        ),
        "index.max_slices_per_scroll" => Elsewhere("scenarios of slices"),
        _ => return None,
    })
}

fn sent(server: &Server, (method, path, body): &Ask) -> Answer {
    if *method == "WAIT" {
        std::thread::sleep(Duration::from_secs(body.trim_end_matches('s').parse().unwrap()));
        return server.send("GET", "/", "").unwrap();
    }
    server.send(method, path, body).unwrap()
}

fn started(settings: &[&str], before: &[Ask]) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(&folder.path().join("data"), &["es8"], settings);
    for ask in before {
        let answer = sent(&server, ask);
        assert!(matches!(answer.status, 200 | 201), "{ask:?}: {answer:?}");
    }
    (folder, server)
}

/// What is wrong with a row, in words.
fn check(name: &str) -> Option<String> {
    let names = |answer: &Answer| answer.body.to_string().contains(name);
    match row(name) {
        None => Some(format!("[{name}] has no row in this test")),
        Some(Row::Elsewhere(test)) => test.is_empty().then(|| format!("[{name}] is tested nowhere")),
        Some(Row::Refused(settings, before, ask, status)) => {
            let (_folder, server) = started(settings, &before);
            let answer = sent(&server, &ask);
            let good = answer.status == status && names(&answer);
            let goes_on = sent(&server, &get("/")).status == 200;
            (!good || !goes_on).then(|| format!("[{name}] should refuse with {status} and its name: {answer:?}"))
        }
        Some(Row::Crowded(settings, before, ask, status)) => {
            let (_folder, server) = started(settings, &before);
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(20) {
                let answers: Vec<Answer> = std::thread::scope(|scope| {
                    let clients: Vec<_> = (0..12).map(|_| scope.spawn(|| sent(&server, &ask))).collect();
                    clients.into_iter().map(|client| client.join().unwrap()).collect()
                });
                if answers.iter().any(|answer| answer.status == status && names(answer)) {
                    return (sent(&server, &get("/")).status != 200).then(|| format!("[{name}] ends the server"));
                }
            }
            Some(format!("[{name}] should refuse one of many with {status} and its name"))
        }
        Some(Row::Chosen(settings, before, ask, holds)) => {
            let (_folder, server) = started(settings, &before);
            let answer = sent(&server, &ask);
            (!holds(&answer)).then(|| format!("[{name}] should change the answer: {answer:?}"))
        }
    }
}

#[test]
fn each_setting_bounds_or_chooses_what_it_says() {
    let wrong: Vec<String> = std::thread::scope(|scope| {
        // Two at a time: most of them wait for a server to start.
        let half = ALL.len() / 2;
        let parts: Vec<_> = [&ALL[..half], &ALL[half..]]
            .into_iter()
            .map(|part| scope.spawn(move || part.iter().filter_map(|setting| check(setting.name)).collect::<Vec<_>>()))
            .collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of five finished tasks the newest is still told of, the first is not.
#[test]
fn finished_tasks_are_forgotten() {
    let (_folder, server) = started(&["tasks.max_kept=2"], &[put("/i/_doc/1?refresh=true", json!({ "n": 1 }))]);
    let begin = |_: i32| {
        let answer = sent(&server, &post("/i/_update_by_query?wait_for_completion=false", json!({})));
        answer.body["task"].as_str().unwrap().to_owned()
    };
    let told = |task: &str| {
        server
            .send("GET", &format!("/_tasks/{task}?wait_for_completion=true&timeout=10s"), "")
            .unwrap()
    };
    let tasks: Vec<String> = (0..5).map(begin).inspect(|task| drop(told(task))).collect();
    assert_eq!(told(&tasks[4]).status, 200);
    assert_eq!(told(&tasks[0]).status, 404);
}

/// Searches of one request are answered until there is no room, and then refused each.
#[test]
fn searches_of_one_request_share_the_room_of_its_answer() {
    let doc = put("/i/_doc/1?refresh=true", json!({ "a": "x".repeat(2000) }));
    let (_folder, server) = started(&["http.max_answer_bytes=1kb"], &[doc]);
    let answer = sent(&server, &("POST", "/i/_msearch", "{}\n{}\n{}\n{}\n".to_owned()));
    let responses = &answer.body["responses"];
    assert_eq!(
        (
            answer.status,
            &responses[0]["hits"]["total"]["value"],
            &responses[1]["status"]
        ),
        (200, &json!(1), &json!(429)),
        "{answer:?}"
    );
    assert!(responses[1].to_string().contains("http.max_answer_bytes"), "{answer:?}");
}

/// A term that no index takes is refused where it is made, as the reference refuses it; tokenizers that cut make none.
#[test]
fn immense_terms_are_refused() {
    let whole = json!({ "type": "custom", "tokenizer": "keyword" });
    let made = json!({
        "settings": { "analysis": { "analyzer": { "whole": whole } } },
        "mappings": { "properties": { "t": { "type": "text", "analyzer": "whole" }, "s": { "type": "text" } } }
    });
    let (_folder, server) = started(&[], &[put("/i", made)]);
    let refused = sent(&server, &put("/i/_doc/1", json!({ "t": "x".repeat(32_767) })));
    let reason = refused.body["error"]["reason"].as_str().unwrap_or_default();
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        reason.starts_with("Document contains at least one immense term in field=\"t\""),
        "{reason}"
    );
    let longest = json!({ "t": "x".repeat(32_766), "s": "x".repeat(40_000) });
    assert_eq!(sent(&server, &put("/i/_doc/1", longest)).status, 201);
}

/// Who comes beyond the most connections is told so, and finds room when others have gone.
#[test]
fn connections_are_bounded() {
    use std::io::Read as _;
    let (_folder, server) = started(&["http.max_connections=4"], &[]);
    let connect = || std::net::TcpStream::connect(server.address("")).unwrap();
    // A connection that says nothing yet holds its place as well.
    let held: Vec<_> = (0..4).map(|_| connect()).collect();
    let begun = Instant::now();
    let mut told = String::new();
    while !told.contains("http.max_connections") {
        assert!(begun.elapsed() < Duration::from_secs(10), "{told}");
        told.clear();
        let mut late = connect();
        late.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let _ = late.read_to_string(&mut told);
    }
    assert!(told.starts_with("HTTP/1.1 503"), "{told}");
    drop(held);
    while server.send("GET", "/", "").map_or(0, |answer| answer.status) != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "there is room again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A request that does not come to its end is told so; connections between requests, and answers that take their time, stay.
#[test]
fn requests_come_in_time() {
    use std::io::{Read as _, Write as _};
    let (_folder, server) = started(&["http.read_timeout=600ms"], &[put("/i/_doc/1", json!({ "n": 1 }))]);
    let connect = || {
        let connection = std::net::TcpStream::connect(server.address("")).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        connection
    };
    let whole = "GET /i/_doc/1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let half = "PUT /i/_doc/2 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{";
    // What is sent at first, and then each 100 ms.
    for (first, then) in [
        ("GET /i", ""),
        (whole.trim_end(), ""),
        (half, ""),
        ("GET /", "a"),
        (half, " "),
    ] {
        let mut connection = connect();
        let begun = Instant::now();
        connection.write_all(first.as_bytes()).unwrap();
        let mut told = String::new();
        std::thread::scope(|scope| {
            let mut dribble = connection.try_clone().unwrap();
            scope.spawn(move || {
                while !then.is_empty() && begun.elapsed() < Duration::from_millis(550) {
                    std::thread::sleep(Duration::from_millis(100));
                    let _ = dribble.write_all(then.as_bytes());
                }
            });
            // In one piece; who sends on meanwhile is cut off after it.
            let mut answer = [0; 4096];
            let length = connection.read(&mut answer).unwrap();
            told.push_str(&String::from_utf8_lossy(&answer[..length]));
        });
        assert!(told.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{first}: {told}");
        assert!(
            told.contains("receive_timeout_exception") && told.contains("[http.read_timeout]"),
            "{told}"
        );
        assert!(begun.elapsed() >= Duration::from_millis(600), "{first}: too early");
    }
    // The same connection, idle in between for longer than a request may take.
    let mut connection = connect();
    for _ in 0..3 {
        connection.write_all(whole.as_bytes()).unwrap();
        let mut answer = [0; 4096];
        let length = connection.read(&mut answer).unwrap();
        assert!(
            answer[..length].starts_with(b"HTTP/1.1 200 OK"),
            "{:?}",
            String::from_utf8_lossy(&answer[..length])
        );
        std::thread::sleep(Duration::from_millis(900));
    }
    // An answer may take longer than its request.
    let held = json!({ "targets": [{ "name": "one" }] }).to_string();
    assert_eq!(server.send("POST", "/_lock", &held).unwrap().status, 201);
    let begun = Instant::now();
    assert_eq!(server.send("POST", "/_lock?timeout=1500ms", &held).unwrap().status, 409);
    assert!(begun.elapsed() >= Duration::from_millis(1400));
}

/// What a client that left had sent is no longer counted, wherever it was: read in part, or worked on.
#[test]
fn bodies_of_clients_that_left_are_forgotten() {
    use std::io::Write as _;
    let (_folder, server) = started(
        &["http.max_in_flight_bytes=2mb"],
        &[
            put("/i/_doc/1?refresh=true", json!({ "n": 1 })),
            put("/i/_doc/2?refresh=true", json!({ "n": 2 })),
        ],
    );
    let slow = json!({ "query": { "script_score": { "query": { "match_all": {} },
        "script": { "source": "double s = 0; for (int i = 0; i < 90000; i++) { s += i } return s" } } } });
    let padding = " ".repeat(1 << 20);
    for sent in [format!("{slow}{padding}"), slow.to_string() + &padding[1..]] {
        for whole in [true, false, true, false] {
            let mut connection = std::net::TcpStream::connect(server.address("")).unwrap();
            let length = sent.len() + usize::from(!whole);
            let head = format!(
                "POST /i/_search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            );
            connection.write_all(head.as_bytes()).unwrap();
            connection.write_all(sent.as_bytes()).unwrap();
            connection.flush().unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let begun = Instant::now();
    loop {
        let answer = sent(&server, &("PUT", "/i/_doc/3", format!("{}{}", "{}", " ".repeat(1800 << 10))));
        if answer.status == 201 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A small body that becomes a large one counts as what it becomes.
#[test]
fn compressed_bodies_count_as_what_they_become() {
    use std::io::Write as _;
    let (_folder, server) = started(&["http.max_in_flight_bytes=1mb"], &[]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(format!("{}{}", "{}", " ".repeat(4 << 20)).as_bytes()).unwrap();
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let answer = tests::send(server.address(""), "PUT", "/i/_doc/1", &headers, &gzip.finish().unwrap()).unwrap();
    assert_eq!(answer.status, 429, "{answer:?}");
    assert!(answer.body.to_string().contains("http.max_in_flight_bytes"), "{answer:?}");
    assert_eq!(sent(&server, &put("/i/_doc/1", json!({}))).status, 201);
}

/// Caches that are too small for what is asked of them count what they give up, of each index and of the node.
#[test]
fn evictions_of_small_caches_are_counted() {
    let mappings = json!({ "mappings": { "properties": { "k": { "type": "keyword" }, "n": { "type": "long" } } } });
    let settings = [
        "indices.requests.cache.size=64kb",
        "indices.queries.cache.size=128kb",
        "indices.fielddata.cache.size=1kb",
    ];
    let (_folder, server) = started(&settings, &[put("/i", mappings.clone()), put("/other", mappings)]);
    let lines: String = (0..6000)
        .map(|n| format!("{{\"index\":{{}}}}\n{{\"k\":\"v{}\",\"n\":{n}}}\n", n % 190))
        .collect();
    assert_eq!(sent(&server, &("POST", "/i/_bulk?refresh=true", lines)).status, 200);
    assert_eq!(
        sent(&server, &post("/i/_forcemerge?max_num_segments=1", json!({}))).status,
        200
    );
    // The set of a term is made at its third use; room is for some 145.
    let filter = |v: u32| json!({ "size": 0, "query": { "bool": { "filter": { "term": { "k": format!("v{v}") } } } } });
    let filters: String = (0..190)
        .flat_map(|v| [v; 4])
        .map(|v| format!("{{}}\n{}\n", filter(v)))
        .collect();
    assert_eq!(sent(&server, &("POST", "/i/_msearch", filters)).status, 200);
    for n in 0..200 {
        let body =
            json!({ "size": 0, "query": { "range": { "n": { "gte": n } } }, "aggs": { "a": { "terms": { "field": "k" } } } });
        assert_eq!(sent(&server, &post("/i/_search", body)).status, 200);
    }
    let figure = |url: &str, at: &str| {
        let answer = server.send("GET", url, "").unwrap();
        let found = answer.body.pointer(at).unwrap_or_else(|| panic!("{url} {at}: {answer:?}"));
        found.as_u64().or_else(|| found.as_str()?.parse().ok()).unwrap()
    };
    let nodes = server.send("GET", "/_nodes/stats", "").unwrap();
    let node = nodes.body["nodes"].as_object().unwrap().values().next().unwrap();
    for cache in ["query_cache", "request_cache", "fielddata"] {
        let total = format!("/indices/i/total/{cache}/evictions");
        let evictions = figure("/i/_stats", &total);
        assert!(evictions > 0, "{cache}");
        assert_eq!(
            figure("/other/_stats", &format!("/indices/other/total/{cache}/evictions")),
            0,
            "{cache}"
        );
        assert_eq!(node["indices"][cache]["evictions"], evictions, "{cache}");
        for table in ["indices/i", "shards/i", "nodes"] {
            let url = format!("/_cat/{table}?format=json&h={cache}.evictions");
            assert_eq!(figure(&url, &format!("/0/{cache}.evictions")), evictions, "{url}");
        }
    }
    let query = server.send("GET", "/i/_stats/query_cache", "").unwrap();
    let query = &query.body["_all"]["total"]["query_cache"];
    let count = |name: &str| query[name].as_u64().unwrap();
    assert!(count("hit_count") > 0 && count("memory_size_in_bytes") > 0, "{query}");
    assert_eq!(count("cache_count") - count("evictions"), count("cache_size"), "{query}");
    assert_eq!(count("total_count"), count("hit_count") + count("miss_count"), "{query}");
}
