//! Transactions, directories and the feed for who sees only some documents or fields.
//!
//! Not here: searches and jobs by query, which are compared by property (`document_rights.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use tests::Answer;
use tests::secured::Secured;

/// The number of the document that `u` does not see. It is longer than any number in an answer of its own, such as the 8
/// digits of a transaction's identifier.
const HIDDEN: u64 = 777_777_777_777;

/// A user `u` with all rights on `i`, of which only documents with the tag `a` are seen.
fn with_some_documents() -> Secured {
    let secured = Secured::start(&["es8"], &[]);
    secured.admin(
        "PUT",
        "/i",
        json!({ "mappings": { "properties": { "tag": { "type": "keyword" }, "n": { "type": "long" } } } }),
    );
    secured.admin("PUT", "/i/_doc/seen?refresh=true", json!({ "tag": "a", "n": 1 }));
    secured.admin("PUT", "/i/_doc/hidden?refresh=true", json!({ "tag": "b", "n": HIDDEN }));
    let grant = json!({ "names": ["i"], "privileges": ["all"], "query": { "term": { "tag": "a" } } });
    secured.user("u", &json!({ "indices": [grant] }));
    secured
}

fn ids(answer: &Answer) -> Vec<&str> {
    let hits = answer.body["hits"]["hits"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    hits.iter().map(|hit| hit["_id"].as_str().unwrap()).collect()
}

#[test]
fn a_held_transaction_reads_what_is_seen() {
    let secured = with_some_documents();
    let call = |method: &str, path: &str, body: Value| secured.call("u", method, path, &body);
    let begun = call("POST", "/_transaction/_begin", Value::Null);
    let tx = begun.body["transaction_id"].as_str().or(begun.body["id"].as_str());
    let tx = tx.unwrap_or_else(|| panic!("{begun:?}")).to_owned();
    let check = |method: &str, path: &str, body: Value, status: u16| {
        let answer = call(method, &path.replace("TX", &format!("transaction={tx}")), body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(!answer.text.contains(&HIDDEN.to_string()), "{method} {path}: {answer:?}");
        answer
    };
    check("GET", "/i/_doc/seen?TX", Value::Null, 200);
    check("GET", "/i/_doc/hidden?TX", Value::Null, 404);
    check("GET", "/i/_doc/none?TX", Value::Null, 404);
    let found = check("GET", "/i/_search?TX&sort=_id", Value::Null, 200);
    assert_eq!(ids(&found), ["seen"]);
    // What is staged is seen by the same query.
    check("PUT", "/i/_doc/mine?TX", json!({ "tag": "a", "n": 2 }), 201);
    check("PUT", "/i/_doc/other?TX", json!({ "tag": "b", "n": 3 }), 201);
    check("GET", "/i/_doc/mine?TX", Value::Null, 200);
    check("GET", "/i/_doc/other?TX", Value::Null, 404);
    let found = check("GET", "/i/_search?TX&sort=_id", Value::Null, 200);
    assert_eq!(ids(&found), ["mine", "seen"]);
    check("POST", "/i/_update/seen?TX", json!({ "doc": { "n": 9 } }), 403);
    let all = json!({ "query": { "match_all": {} } });
    let deleted = check("POST", "/i/_delete_by_query?TX", all, 200);
    assert_eq!(deleted.body["deleted"], 2, "{deleted:?}");
    // That it has asked for a document that it does not see changes nothing.
    secured.admin(
        "PUT",
        "/i/_doc/hidden?refresh=true",
        json!({ "tag": "b", "n": HIDDEN, "again": true }),
    );
    let done = call("POST", &format!("/_transaction/{tx}/_commit"), Value::Null);
    assert_eq!(done.status, 200, "{done:?}");
    secured.admin("POST", "/i/_refresh", Value::Null);
    let left = secured.call("admin", "GET", "/i/_search?sort=n", &Value::Null);
    assert_eq!(ids(&left), ["other", "hidden"]);
}

#[test]
fn a_change_writes_whole_documents() {
    let secured = with_some_documents();
    let operations = json!([
        { "index": { "_index": "i", "_id": "new", "doc": { "tag": "a" } } }, { "delete": { "_index": "i", "_id": "seen" } },
    ]);
    let done = secured.call("u", "POST", "/_transaction", &json!({ "operations": operations }));
    assert_eq!(done.status, 200, "{done:?}");
    let bulk = "{\"index\":{\"_index\":\"i\",\"_id\":\"bulk\"}}\n{\"tag\":\"a\"}\n";
    let done = secured.call("u", "POST", "/_bulk?atomic=true&refresh=true", &Value::String(bulk.into()));
    assert_eq!(done.status, 200, "{done:?}");
    let found = secured.call("u", "GET", "/i/_search?sort=_id", &Value::Null);
    assert_eq!(ids(&found), ["bulk", "new"]);
    // A condition would tell what is there, also to who may not read the index at all.
    secured.user("w", &json!({ "indices": [{ "names": ["w"], "privileges": ["all"] }] }));
    for (user, index) in [("u", "i"), ("w", "i")] {
        let condition = json!({ "index": index, "id": "hidden", "exists": true });
        let write = json!({ "index": { "_index": if user == "u" { "i" } else { "w" }, "_id": "x", "doc": {} } });
        let body = json!({ "if": [condition], "operations": [write] });
        let answer = secured.call(user, "POST", "/_transaction", &body);
        assert_eq!(answer.status, 403, "{user}: {answer:?}");
    }
}

#[test]
fn directories_are_those_with_a_document_that_is_seen() {
    let secured = Secured::start(&["es8"], &[]);
    let properties = json!({ "path": { "type": "tree_path" }, "tag": { "type": "keyword" } });
    secured.admin("PUT", "/fs", json!({ "mappings": { "properties": properties } }));
    for (id, path, tag) in [
        ("1", "/a/x", "a"),
        ("2", "/a/y", "b"),
        ("3", "/a/z", "a"),
        ("4", "/b/x", "b"),
        ("5", "/c/d/e", "a"),
        ("6", "/c/f", "b"),
    ] {
        secured.admin(
            "PUT",
            &format!("/fs/_doc/{id}?refresh=true"),
            json!({ "path": path, "tag": tag }),
        );
    }
    let privileges = json!(["all"]);
    let some = json!({ "names": ["fs"], "privileges": privileges, "query": { "term": { "tag": "a" } } });
    let fields = json!({ "names": ["fs"], "privileges": privileges, "field_security": { "grant": ["tag"] } });
    secured.user("some", &json!({ "indices": [some] }));
    secured.user("fields", &json!({ "indices": [fields] }));
    let list = |path: &str| {
        let answer = secured.call("some", "GET", &format!("/fs/_tree?{path}"), &Value::Null);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let child = |child: &Value| {
            let (count, directories) = (child["count"].as_u64().unwrap(), child["directories"].as_u64().unwrap());
            (child["path"].as_str().unwrap().to_owned(), count, directories)
        };
        let children: Vec<(String, u64, u64)> = answer.body["children"].as_array().unwrap().iter().map(child).collect();
        (
            answer.body["total"].as_u64().unwrap(),
            children,
            answer.body["after"].as_str().map(str::to_owned),
        )
    };
    let expect = |list: &[(&str, u64, u64)]| -> Vec<(String, u64, u64)> {
        list.iter()
            .map(|(path, count, directories)| ((*path).to_owned(), *count, *directories))
            .collect()
    };
    let (total, children, _) = list("path=/");
    assert_eq!((total, children), (3, expect(&[("/a", 2, 2), ("/c", 1, 1)])));
    let (total, children, _) = list("path=/a");
    assert_eq!((total, children), (2, expect(&[("/a/x", 1, 0), ("/a/z", 1, 0)])));
    // By pages, of which none is short by what is withheld.
    let (_, first, after) = list("path=/a&size=1");
    assert_eq!((first, after.as_deref()), (expect(&[("/a/x", 1, 0)]), Some("x")));
    let (_, second, after) = list("path=/a&size=1&after=x");
    assert_eq!((second, after), (expect(&[("/a/z", 1, 0)]), None));
    for (user, method, path, body, status) in [
        // As a directory that is not there, and a field that is not.
        ("some", "GET", "/fs/_tree?path=/b", Value::Null, 404),
        ("some", "GET", "/fs/_tree?path=/none", Value::Null, 404),
        ("fields", "GET", "/fs/_tree", Value::Null, 400),
        // They would take along what is withheld.
        ("some", "POST", "/fs/_tree/_move", json!({ "from": "/a", "to": "/q" }), 403),
        ("some", "POST", "/fs/_tree/_copy", json!({ "from": "/a", "to": "/q" }), 403),
        ("some", "DELETE", "/fs/_tree?path=/a", Value::Null, 403),
        (
            "some",
            "POST",
            "/_transaction",
            json!({ "operations": [{ "move": { "_index": "fs", "from": "/a", "to": "/q" } }] }),
            403,
        ),
        (
            "some",
            "POST",
            "/_transaction",
            json!({ "if": [{ "index": "fs", "directory": "/b", "exists": true }],
                    "operations": [{ "delete": { "_index": "fs", "_id": "1" } }] }),
            403,
        ),
    ] {
        let answer = secured.call(user, method, path, &body);
        assert_eq!(answer.status, status, "{user} {method} {path}: {answer:?}");
    }
    let rows = secured.call("some", "GET", "/_cat/tree/fs?h=path,docs.count&format=json", &Value::Null);
    let paths: Vec<&str> = rows
        .body
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["/a", "/a/x", "/a/z", "/c", "/c/d", "/c/d/e"]);
}

#[test]
fn the_feed_shows_granted_fields_and_no_index_with_withheld_documents() {
    let secured = Secured::start(&["es8"], &[]);
    let mapping = json!({ "mappings": { "properties": { "tag": { "type": "keyword" }, "secret": { "type": "keyword" } } } });
    for index in ["fields", "some", "gone"] {
        secured.admin("PUT", &format!("/{index}"), mapping.clone());
        secured.admin(
            "PUT",
            &format!("/{index}/_doc/1?refresh=true"),
            json!({ "tag": "a", "secret": "hidden", "more-secret": 1 }),
        );
    }
    secured.admin("DELETE", "/gone", Value::Null);
    let follows = json!(["follow_changes"]);
    let except = json!({ "grant": ["*"], "except": ["*secret"] });
    let fields = json!({ "names": ["fields", "gone"], "privileges": follows, "field_security": except });
    let unfollowed = json!({ "names": ["some"], "privileges": ["read"], "query": { "term": { "tag": "a" } } });
    let followed = json!({ "names": ["some"], "privileges": ["all"], "query": { "term": { "tag": "a" } } });
    secured.user("u", &json!({ "indices": [fields, unfollowed] }));
    secured.user("w", &json!({ "indices": [fields, followed] }));
    for path in ["/_changes?since=0", "/_changes?since=0&initial=true"] {
        let answer = secured.call("u", "GET", path, &Value::Null);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(
            !answer.text.contains("secret") && !answer.text.contains("hidden"),
            "{path}: {answer:?}"
        );
        assert!(
            answer.text.contains("\"tag\":\"a\"") && !answer.text.contains("\"some\""),
            "{path}: {answer:?}"
        );
        // A change of a document does not tell what somebody saw of it before.
        let answer = secured.call("w", "GET", path, &Value::Null);
        assert!(answer.status == 403 && answer.text.contains("[some]"), "{path}: {answer:?}");
    }
}

#[test]
fn a_deletion_by_query_does_not_pass_locks_by_fields_that_are_withheld() {
    let secured = Secured::start(&["es8"], &[]);
    let mappings = json!({ "properties": { "path": { "type": "keyword" }, "tag": { "type": "keyword" } } });
    secured.admin(
        "PUT",
        "/i",
        json!({ "settings": { "index.pleach.lock_path": "path" }, "mappings": mappings }),
    );
    secured.admin("PUT", "/j", json!({ "mappings": mappings }));
    for index in ["i", "j"] {
        secured.admin(
            "PUT",
            &format!("/{index}/_doc/1?refresh=true"),
            json!({ "path": "/a", "tag": "a" }),
        );
    }
    let grant = json!({ "names": ["i", "j"], "privileges": ["all"], "field_security": { "grant": ["tag"] } });
    secured.user("u", &json!({ "indices": [grant] }));
    let query = json!({ "query": { "term": { "tag": "a" } } });
    for (index, status) in [("i", 403), ("j", 200)] {
        let answer = secured.call("u", "POST", &format!("/{index}/_delete_by_query"), &query);
        assert_eq!(answer.status, status, "{index}: {answer:?}");
    }
}
