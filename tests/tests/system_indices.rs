//! Wipes by wildcards and requests by name: nothing that a client sends alters the control index. After each, locks are held;
//! at the end keys are remembered, tokens rise, and a restart finds all of it.
//!
//! Not here: damage of the control index (package `server`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use tests::{Server, send};

const PERSONAS: &[&str] = &["es8", "es2", "opensearch2"];

/// Every request that destroys or alters indices, with `{}` for what it names.
fn destructive() -> Vec<(&'static str, &'static str, Value)> {
    let blocks = json!({ "index.blocks.write": true });
    let by_query = json!({ "query": { "match_all": {} } });
    let script = json!({ "script": { "source": "ctx._source.n = 1" } });
    vec![
        ("PUT", "/{}/_block/write", Value::Null),
        ("PUT", "/{}/_block/read_only", Value::Null),
        ("PUT", "/{}/_settings", blocks),
        ("PUT", "/{}/_settings", json!({ "index": { "pleach.locks": "enforced" } })),
        ("PUT", "/{}/_mapping", json!({ "properties": { "new": { "type": "long" } } })),
        ("PUT", "/{}/_alias/everything", Value::Null),
        ("POST", "/{}/_forcemerge?max_num_segments=1", Value::Null),
        ("POST", "/{}/_update_by_query", script),
        ("POST", "/{}/_delete_by_query", by_query.clone()),
        ("DELETE", "/{}/_query", by_query),
        ("PUT", "/{}/_warmer/w", json!({ "query": { "match_all": {} } })),
        ("DELETE", "/{}/_alias/*", Value::Null),
        ("POST", "/{}/_close", Value::Null),
        ("POST", "/{}/_open", Value::Null),
        ("DELETE", "/{}", Value::Null),
    ]
}

struct Held {
    server: Server,
    id: String,
    token: u64,
}

impl Held {
    fn call(&self, persona: &str, method: &str, path: &str, body: &Value) -> tests::Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        send(self.server.address(persona), method, path, &[], text.as_bytes()).unwrap()
    }
    /// The lock still protects.
    fn check(&self, after: &str) {
        let other = self.call("es8", "POST", "/_lock", &lock());
        assert_eq!(other.status, 409, "after {after}: {other:?}");
    }
    /// The key is remembered, by what the first answer was.
    fn check_key(&self, after: &str) {
        let again = self.call("es8", "POST", "/_transaction?idempotency_key=once", &change());
        assert_eq!(
            (again.status, &again.body["replayed"]),
            (200, &json!(true)),
            "after {after}: {again:?}"
        );
    }
    fn next_token(&self) -> u64 {
        let body = json!({ "targets": [{ "name": "another" }], "keep_alive": "1h" });
        let lock = self.call("es8", "POST", "/_lock", &body);
        self.call(
            "es8",
            "DELETE",
            &format!("/_lock/{}", lock.body["id"].as_str().unwrap()),
            &Value::Null,
        );
        lock.body["fencing_token"].as_u64().unwrap()
    }
}

fn lock() -> Value {
    json!({ "targets": [{ "name": "gate" }], "keep_alive": "1h" })
}

fn change() -> Value {
    json!({ "operations": [{ "index": { "_index": "once", "_id": "1", "doc": { "n": 1 } } }] })
}

fn held(data: &std::path::Path) -> Held {
    let server = Server::start_with(data, PERSONAS, &["action.destructive_requires_name=false"]);
    server.ok("POST", "/_transaction?idempotency_key=once", &change());
    let lock = server.ok("POST", "/_lock", &lock());
    Held {
        id: lock["id"].as_str().unwrap().to_owned(),
        token: lock["fencing_token"].as_u64().unwrap(),
        server,
    }
}

/// `PLEACH_TEST_WIPES=1` sends every form to every persona; else each persona has its share.
#[test]
fn wildcards_pass_the_control_index_by() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let held = held(&data);
    let every = std::env::var_os("PLEACH_TEST_WIPES").is_some();
    let wild = ["*", "_all", ".*", ".pleach*", "*control", "*,-data", "data,*"];
    let expand = ["all", "open,closed,hidden", "open,hidden", "closed"];
    let mut sent = 0;
    for (method, path, body) in destructive() {
        for (n, wild) in wild.iter().enumerate() {
            for (m, expand) in expand.iter().enumerate() {
                for (p, persona) in PERSONAS.iter().enumerate() {
                    if !every && (n + m) % PERSONAS.len() != p {
                        continue;
                    }
                    held.call(persona, "PUT", "/data", &Value::Null);
                    let mark = if path.contains('?') { '&' } else { '?' };
                    let path = format!(
                        "{}{mark}expand_wildcards={expand}&ignore_unavailable=true",
                        path.replace("{}", wild)
                    );
                    let answer = held.call(persona, method, &path, &body);
                    assert!(answer.status < 500 || *persona == "es2", "{method} {path}: {answer:?}");
                    held.check(&format!("{persona} {method} {path}"));
                    sent += 1;
                }
            }
        }
    }
    assert!(sent >= 400, "{sent}");
    for (persona, path) in [
        ("es2", "/_close?expand_wildcards=all"),
        ("es8", "/_all/_close?expand_wildcards=all"),
    ] {
        held.call(persona, "POST", path, &Value::Null);
    }
    // Templates and aliases with wildcards.
    for (path, body) in [
        (
            "/_index_template/all",
            json!({ "index_patterns": ["*"], "priority": 900, "template": { "settings": { "index.blocks.write": true, "number_of_replicas": 7 }, "aliases": { "all": {} } } }),
        ),
        (
            "/_template/all",
            json!({ "index_patterns": [".*"], "order": 9, "settings": { "index.blocks.read_only": true } }),
        ),
    ] {
        assert_eq!(held.call("es8", "PUT", path, &body).status, 200, "{path}");
    }
    let actions = json!({ "actions": [{ "add": { "index": "*", "alias": "w", "is_hidden": true } }, { "remove_index": { "index": "*" } }] });
    held.call("es8", "POST", "/_aliases", &actions);
    held.check("aliases");
    let control = held.call("es8", "GET", "/.pleach-control", &Value::Null);
    assert_eq!(control.body[".pleach-control"]["aliases"], json!({}), "{control:?}");
    assert!(
        control.body[".pleach-control"]["settings"]["index"]["blocks"].is_null(),
        "{control:?}"
    );
    held.check_key("all of it");
    let before = held.next_token();
    assert!(before > held.token);
    let Held { server, id, token } = held;
    drop(server);
    let server = Server::start(&data, PERSONAS);
    let held = Held { server, id, token };
    held.check("a restart");
    held.check_key("a restart");
    assert!(held.next_token() > before, "tokens never go back");
    assert_eq!(
        held.call("es8", "DELETE", &format!("/_lock/{}", held.id), &Value::Null)
            .status,
        200
    );
}

/// An index that a template on `*` would have blocked is made before the first lock: the control index takes nothing of it.
#[test]
fn templates_are_not_for_system_indices() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let body = json!({ "index_patterns": ["*"], "template": { "settings": { "index.blocks.write": true }, "mappings": { "properties": { "kind": { "type": "long" } } } } });
    server.ok("PUT", "/_index_template/all", &body);
    server.ok("POST", "/_lock", &json!({ "targets": [{ "name": "x" }] }));
    let refused = server.call(
        "PUT",
        "/_index_template/ours",
        &json!({ "index_patterns": [".pleach-*"], "template": {} }),
    );
    assert_eq!(refused.status, 403, "{refused:?}");
}

#[test]
fn by_its_name_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let held = held(&folder.path().join("data"));
    held.call("es8", "PUT", "/data", &json!({ "aliases": { "rolled": {} } }));
    let mut refused: Vec<(&str, String, Value)> = destructive()
        .into_iter()
        .filter(|(method, path, _)| !(path.contains("_warmer") || *method == "DELETE" && path.contains("_query")))
        .flat_map(|(method, path, body)| {
            [".pleach-control", "%3C.pleach-control%3E", "data,.pleach-control"]
                .map(|name| (method, path.replace("{}", name), body.clone()))
        })
        // Several names are looked for together first; no alias of that pattern is there.
        .filter(|(_, path, _)| !path.ends_with("_alias/*"))
        .collect();
    let doc = || json!({ "a": 1 });
    refused.extend([
        ("PUT", "/.pleach-control/_doc/1".to_owned(), doc()),
        ("PUT", "/%3C.pleach-control%3E/_doc/1".to_owned(), doc()),
        ("POST", "/.pleach-control/_doc".to_owned(), doc()),
        ("PUT", "/.pleach-control/_create/1".to_owned(), doc()),
        ("DELETE", "/.pleach-control/_doc/1".to_owned(), Value::Null),
        (
            "POST",
            "/.pleach-control/_update/1".to_owned(),
            json!({ "doc": {}, "doc_as_upsert": true }),
        ),
        // Also where nothing matches.
        (
            "POST",
            "/.pleach-control/_update_by_query".to_owned(),
            json!({ "query": { "match_none": {} } }),
        ),
        (
            "POST",
            "/data,%3C.pleach-control%3E/_delete_by_query".to_owned(),
            json!({ "query": { "match_none": {} } }),
        ),
        ("PUT", "/.pleach-control".to_owned(), Value::Null),
        ("PUT", "/.pleach-new".to_owned(), Value::Null),
        ("PUT", "/.pleach-new/_doc/1".to_owned(), doc()),
        ("PUT", "/other".to_owned(), json!({ "aliases": { ".pleach-control": {} } })),
        ("PUT", "/data/_alias/.pleach-next".to_owned(), Value::Null),
        ("POST", "/rolled/_rollover/.pleach-new".to_owned(), json!({})),
        (
            "POST",
            "/_reindex".to_owned(),
            json!({ "source": { "index": "once" }, "dest": { "index": ".pleach-control" } }),
        ),
        (
            "POST",
            "/_reindex".to_owned(),
            json!({ "source": { "index": "once" }, "dest": { "index": "<.pleach-control>" } }),
        ),
    ]);
    for (method, path, body) in refused {
        let answer = held.call("es8", method, &path, &body);
        assert!(
            answer.status == 403 || answer.status == 400 && path.contains("_reindex"),
            "{method} {path}: {answer:?}"
        );
        assert!(answer.text.contains("kept by the server"), "{method} {path}: {answer:?}");
        held.check(&path);
    }
    let lines = "{\"index\":{\"_index\":\".pleach-control\",\"_id\":\"1\"}}\n{}\n{\"delete\":{\"_index\":\"<.pleach-control>\",\"_id\":\"1\"}}\n";
    let headers = [("content-type".to_owned(), "application/x-ndjson".to_owned())];
    let bulk = send(held.server.address("es8"), "POST", "/_bulk", &headers, lines.as_bytes()).unwrap();
    assert_eq!(
        (
            &bulk.body["items"][0]["index"]["status"],
            &bulk.body["items"][1]["delete"]["status"]
        ),
        (&json!(403), &json!(403)),
        "{bulk:?}"
    );
    // It can be read, by its name.
    assert_eq!(held.call("es8", "GET", "/.pleach-control/_count", &Value::Null).status, 200);
    held.check_key("all of it");
}

/// Wildcards delete, close, open and block on es8 and es9 only where a setting says so.
#[test]
fn destructive_requests_require_names() {
    let folder = tempfile::tempdir().unwrap();
    let personas = ["es9", "es8", "es7", "es2", "opensearch2"];
    let server = Server::start(&folder.path().join("data"), &personas);
    let call = |persona: &str, method: &str, path: &str| send(server.address(persona), method, path, &[], b"").unwrap();
    for persona in personas {
        call(persona, "PUT", "/own");
        let required = matches!(persona, "es8" | "es9");
        for (method, path) in [
            ("POST", "/ow*/_close"),
            ("POST", "/_all/_open"),
            ("PUT", "/*,-none/_block/metadata"),
            ("DELETE", "/_all"),
            ("DELETE", "/*"),
            ("DELETE", "/own,o*"),
        ] {
            if !required && path.contains("_block") {
                continue;
            }
            let answer = call(persona, method, path);
            if required {
                assert_eq!(answer.status, 400, "{persona} {method} {path}: {answer:?}");
                assert_eq!(
                    answer.body["error"]["reason"], "Wildcard expressions or all indices are not allowed",
                    "{persona} {method} {path}"
                );
            } else {
                assert_ne!(answer.status, 400, "{persona} {method} {path}: {answer:?}");
            }
        }
        assert_eq!(
            call(persona, "HEAD", "/own").status,
            if required { 200 } else { 404 },
            "{persona}"
        );
        call(persona, "DELETE", "/own");
    }
    // A header for an older version's answers asks for no older default.
    call("es8", "PUT", "/own");
    let older = [(
        "accept".to_owned(),
        "application/vnd.elasticsearch+json;compatible-with=7".to_owned(),
    )];
    assert_eq!(send(server.address("es8"), "DELETE", "/*", &older, b"").unwrap().status, 400);
    let setting = |value: Value| {
        server.call(
            "PUT",
            "/_cluster/settings",
            &json!({ "persistent": { "action.destructive_requires_name": value } }),
        )
    };
    assert_eq!(setting(json!(false)).status, 200);
    assert_eq!(call("es8", "DELETE", "/*").status, 200);
    assert_eq!(setting(json!("true")).status, 200);
    assert_eq!(call("es7", "DELETE", "/*").status, 400);
    drop(server);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(
        &folder.path().join("data"),
        &["es7"],
        &["action.destructive_requires_name=true"],
    );
    assert_eq!(server.call("DELETE", "/*", &Value::Null).status, 400, "the node's setting");
    let allowed = json!({ "transient": { "action.destructive_requires_name": false } });
    assert_eq!(server.call("PUT", "/_cluster/settings", &allowed).status, 200);
    assert_eq!(
        server.call("DELETE", "/*", &Value::Null).status,
        200,
        "the cluster's setting wins"
    );
}
