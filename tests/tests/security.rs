//! Users, roles, API keys and rights over HTTP: who is let in, what they may do, and that a refusal tells nothing of what is there.
//!
//! Not here: documents and fields of a role (`document_rights.rs`), privileges by name (package `security`).

use rest::Right;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use tests::secured::{PASSWORD, Secured, basic};
use tests::{Answer, Server, send};

fn on(names: &str, privileges: &[&str]) -> Value {
    json!({ "indices": [{ "names": names.split(',').collect::<Vec<_>>(), "privileges": privileges }] })
}

fn challenges(answer: &Answer) -> Vec<&str> {
    let headers = answer.headers.iter().filter(|(name, _)| name == "www-authenticate");
    headers.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn the_first_start_makes_an_administrator_and_nobody_else_is_let_in() {
    let secured = Secured::start(&["es8"], &[]);
    let file = secured.folder.path().join("data/first-login");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let check = |authorization: &str, reason: &str| {
        let answer = secured.with(authorization, "GET", "/_cluster/health", &Value::Null);
        assert_eq!(answer.status, 401, "{authorization}: {answer:?}");
        assert_eq!(answer.body["error"]["type"], "security_exception", "{answer:?}");
        assert_eq!(answer.body["error"]["reason"], reason, "{authorization}");
        let offered = challenges(&answer);
        assert!(
            offered.iter().any(|one| one.starts_with("Basic realm=")) && offered.contains(&"ApiKey"),
            "{answer:?}"
        );
        assert_eq!(
            answer.body["error"]["header"]["WWW-Authenticate"].as_array().unwrap().len(),
            offered.len()
        );
    };
    check("", "missing authentication credentials for REST request [/_cluster/health]");
    let wrong = "unable to authenticate user [admin] for REST request [/_cluster/health]";
    check(&basic("admin", "wrong"), wrong);
    check(&basic("admin", ""), wrong);
    check(
        &basic("nobody", "x"),
        "unable to authenticate user [nobody] for REST request [/_cluster/health]",
    );
    check(
        "Basic !!",
        "unable to authenticate with provided credentials for REST request [/_cluster/health]",
    );
    check(
        "Digest x",
        "unable to authenticate with provided credentials for REST request [/_cluster/health]",
    );
    for probe in ["/livez", "/readyz"] {
        assert_eq!(secured.with("", "GET", probe, &Value::Null).status, 200, "{probe}");
    }
    // What there is and what there is not is told to nobody.
    for path in ["/i/_search", "/_nosuch", "/i/_nosuch/x", "/_security/_authenticate"] {
        assert_eq!(secured.with("", "GET", path, &Value::Null).status, 401, "{path}");
    }
    let own = secured.admin("GET", "/_security/_authenticate", Value::Null);
    assert_eq!(
        (
            &own["username"],
            &own["roles"],
            &own["authentication_realm"]["type"],
            &own["authentication_type"]
        ),
        (&json!("admin"), &json!(["superuser"]), &json!("native"), &json!("realm"))
    );
}

#[test]
fn users_and_roles_are_made_altered_and_deleted() {
    let secured = Secured::start(&["es8"], &[]);
    let check = |method: &str, path: &str, body: Value, status: u16, expected: Value| {
        let answer = secured.call("admin", method, path, &body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        let (members, of) = (expected.as_object().unwrap(), &answer.body);
        for (name, value) in members {
            assert_eq!(
                of.pointer(name).unwrap_or(&Value::Null),
                value,
                "{method} {path} {name}: {}",
                answer.text
            );
        }
    };
    let role = json!({ "cluster": ["monitor"], "indices": [{ "names": ["logs-*"], "privileges": ["read"] }] });
    check(
        "PUT",
        "/_security/role/r",
        role.clone(),
        200,
        json!({ "/role/created": true }),
    );
    check(
        "POST",
        "/_security/role/r?refresh=true",
        role,
        200,
        json!({ "/role/created": false }),
    );
    check(
        "GET",
        "/_security/role/r",
        Value::Null,
        200,
        json!({ "/r/cluster": ["monitor"], "/r/indices/0/names": ["logs-*"] }),
    );
    check(
        "GET",
        "/_security/role",
        Value::Null,
        200,
        json!({ "/superuser/cluster": ["all"] }),
    );
    check("GET", "/_security/role/none", Value::Null, 404, json!({}));
    check(
        "PUT",
        "/_security/role/superuser",
        json!({}),
        400,
        json!({ "/error/type": "action_request_validation_exception" }),
    );
    check("PUT", "/_security/role/x", json!({ "cluster": ["moniter"] }), 400, json!({}));
    check(
        "PUT",
        "/_security/role/x",
        json!({ "indices": [{ "names": "a", "privileges": ["read"], "query": "{\"nosuch\":{}}" }] }),
        400,
        json!({}),
    );
    let user = json!({ "password": PASSWORD, "roles": ["r"], "full_name": "A B", "metadata": { "k": 1 } });
    check("PUT", "/_security/user/u", user, 200, json!({ "/created": true }));
    check(
        "PUT",
        "/_security/user/u",
        json!({ "roles": ["r"] }),
        200,
        json!({ "/created": false }),
    );
    check("PUT", "/_security/user/v", json!({ "roles": [] }), 400, json!({}));
    check(
        "PUT",
        "/_security/user/v",
        json!({ "roles": [], "password": "short" }),
        400,
        json!({}),
    );
    check(
        "PUT",
        "/_security/user/v",
        json!({ "rolls": [], "password": PASSWORD }),
        400,
        json!({}),
    );
    check(
        "GET",
        "/_security/user/u",
        Value::Null,
        200,
        json!({ "/u/username": "u", "/u/enabled": true, "/u/password_hash": null }),
    );
    check("GET", "/_security/user/w", Value::Null, 404, json!({}));
    let status = |user: &str| secured.call(user, "GET", "/_cluster/health", &Value::Null).status;
    assert_eq!(status("u"), 200);
    check("PUT", "/_security/user/u/_disable", Value::Null, 200, json!({}));
    assert_eq!(status("u"), 401);
    check("PUT", "/_security/user/u/_enable", Value::Null, 200, json!({}));
    assert_eq!(status("u"), 200);
    check(
        "POST",
        "/_security/user/u/_password",
        json!({ "password": "another one" }),
        200,
        json!({}),
    );
    assert_eq!(status("u"), 401, "the kept credentials are the old ones");
    let own = secured.with(
        &basic("u", "another one"),
        "PUT",
        "/_security/user/_password",
        &json!({ "password": PASSWORD }),
    );
    assert_eq!((own.status, status("u")), (200, 200), "{own:?}");
    check("DELETE", "/_security/user/u", Value::Null, 200, json!({ "/found": true }));
    check("DELETE", "/_security/user/u", Value::Null, 404, json!({ "/found": false }));
    assert_eq!(status("u"), 401);
    // Somebody stays who may alter users.
    for (method, path, body) in [
        ("DELETE", "/_security/user/admin", Value::Null),
        ("PUT", "/_security/user/admin/_disable", Value::Null),
        ("PUT", "/_security/user/admin", json!({ "roles": ["r"] })),
    ] {
        check(method, path, body, 400, json!({}));
    }
    check("DELETE", "/_security/role/r", Value::Null, 200, json!({ "/found": true }));
}

#[test]
fn keys_do_what_their_roles_and_their_owners_allow() {
    let secured = Secured::start(&["es8"], &[]);
    secured.admin("PUT", "/logs-1/_doc/1?refresh=true", json!({ "a": 1 }));
    let mut role = on("logs-*", &["read", "write"]);
    role["cluster"] = json!(["manage_own_api_key"]);
    secured.user("u", &role);
    let make = |body: Value| {
        let made = secured.call("u", "POST", "/_security/api_key", &body);
        assert_eq!(made.status, 200, "{made:?}");
        made.body
    };
    let key = |made: &Value| format!("ApiKey {}", made["encoded"].as_str().unwrap());
    let whole = make(json!({ "name": "whole" }));
    let reader = make(json!({ "name": "reader", "expiration": "1h", "role_descriptors": { "r": on("*", &["read"]) } }));
    assert!(reader["expiration"].is_i64() && reader["api_key"].is_string());
    let status = |authorization: &str, method: &str, path: &str| {
        let body = if method == "PUT" { json!({ "a": 2 }) } else { Value::Null };
        secured.with(authorization, method, path, &body).status
    };
    let check = |authorization: &str, expected: [u16; 4]| {
        let found = [
            ("GET", "/logs-1/_doc/1"),
            ("PUT", "/logs-1/_doc/2"),
            ("GET", "/other/_doc/1"),
            ("GET", "/_cluster/health"),
        ]
        .map(|(method, path)| status(authorization, method, path));
        assert_eq!(found, expected, "{authorization}");
    };
    check(&key(&whole), [200, 201, 403, 403]);
    check(&key(&reader), [200, 403, 403, 403]);
    check(&key(&reader).replace("ApiKey", "Bearer"), [200, 403, 403, 403]);
    check(&key(&reader).replace("ApiKey ", "ApiKey x"), [401; 4]);
    let own = secured
        .with(&key(&reader), "GET", "/_security/_authenticate", &Value::Null)
        .body;
    assert_eq!(
        (&own["username"], &own["authentication_type"], &own["api_key"]["name"]),
        (&json!("u"), &json!("api_key"), &json!("reader"))
    );
    let derived = secured.with(&key(&whole), "POST", "/_security/api_key", &json!({ "name": "x" }));
    assert_eq!(derived.status, 400, "{derived:?}");
    // One's own keys, and no secrets.
    secured.admin("POST", "/_security/api_key", json!({ "name": "of admin" }));
    let listed = secured.call("u", "GET", "/_security/api_key", &Value::Null);
    let names: Vec<&str> = listed.body["api_keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(!listed.text.contains("hash") && !listed.text.contains(whole["api_key"].as_str().unwrap()));
    assert_eq!(
        secured.admin("GET", "/_security/api_key", Value::Null)["api_keys"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let ended = secured.call("u", "DELETE", "/_security/api_key", &json!({ "ids": [whole["id"]] }));
    assert_eq!(ended.body["invalidated_api_keys"], json!([whole["id"]]), "{ended:?}");
    check(&key(&whole), [401; 4]);
    let dead = make(json!({ "name": "dead", "expiration": "0s" }));
    check(&key(&dead), [401; 4]);
    // Of its owner's rights it has what they have now.
    secured.admin("PUT", "/_security/role/u", json!({ "cluster": ["monitor"] }));
    check(&key(&reader), [403; 4]);
    secured.admin("PUT", "/_security/user/u/_disable", Value::Null);
    check(&key(&reader), [401; 4]);
}

/// What an API needs beside the right of its row.
fn more(api: &str) -> &'static [&'static str] {
    match api {
        "delete_by_query" | "delete_by_query_2015" | "update_by_query" => &["read"],
        "tree.remove" | "tree.move" | "tree.copy" => &["read", "write"],
        // A plain write may be over another one; `create_doc` is asked for what it allows by `create`.
        "index" | "bulk" => &["index", "auto_configure"],
        "create" | "update" => &["auto_configure"],
        "reindex" => &["write", "auto_configure"],
        "transaction" | "transaction.commit" => &["write", "auto_configure"],
        "indices.put_alias" | "indices.update_aliases" | "indices.delete_alias" => &["manage"],
        _ => &[],
    }
}

/// The path of an endpoint with names that are there.
fn filled(pattern: &str) -> String {
    let part = |part: &str| match part {
        "{index}" => "data".to_owned(),
        "{type}" => "t".to_owned(),
        "{block}" => "write".to_owned(),
        "{metric}" => "_all".to_owned(),
        part if part.starts_with('{') => "1".to_owned(),
        part => part.to_owned(),
    };
    pattern.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[test]
fn each_endpoint_is_for_those_with_its_right() {
    let secured = Secured::start(&["es8", "es2"], &[]);
    secured.admin("PUT", "/data/_doc/1?refresh=true", json!({ "a": 1 }));
    secured.user("nobody", &json!({}));
    let mut asked = 0;
    for endpoint in rest::ENDPOINTS {
        let name = format!("may-{}", endpoint.api.replace('.', "-"));
        let mut role = json!({ "cluster": [], "indices": [] });
        if let Some(rights) = endpoint.right.on_cluster() {
            role["cluster"] = json!([security::privileges::granting_cluster(rights)[0]]);
        }
        if let Some(rights) = endpoint.right.on_indices() {
            let own = security::privileges::granting(rights)[0];
            let privileges: Vec<&str> = std::iter::once(own).chain(more(endpoint.api).iter().copied()).collect();
            role["indices"] = json!([{ "names": ["*"], "privileges": privileges }]);
        }
        secured.user(&name, &role);
        for method in endpoint.methods {
            // Of these the first path alone: the others are for the same handler.
            let path = filled(endpoint.paths[0]);
            let body = match (*method, endpoint.api) {
                ("GET" | "HEAD", _) | (_, "indices.delete") => Value::Null,
                _ => json!({}),
            };
            // Today a path with `_doc` and something behind it is one of a document.
            let persona = if endpoint.paths[0].contains("{type}") { "es2" } else { "es8" };
            let ask = |user: &str| secured.with_as(persona, &basic(user, PASSWORD), method, &path, &body);
            let (without, with) = (ask("nobody"), ask(&name));
            asked += 1;
            match endpoint.right {
                Right::Probe | Right::AnyUser => assert_ne!(without.status, 403, "{} {method} {path}: {without:?}", endpoint.api),
                _ => assert_eq!(without.status, 403, "{} {method} {path}: {without:?}", endpoint.api),
            }
            assert!(
                !matches!(with.status, 401 | 403),
                "{} {method} {path} with {role}: {with:?}",
                endpoint.api
            );
            if endpoint.api == "indices.delete" || endpoint.api == "indices.close" || endpoint.api == "indices.add_block" {
                let _ = secured.call("admin", "DELETE", "/data", &Value::Null);
                secured.admin("PUT", "/data/_doc/1?refresh=true", json!({ "a": 1 }));
            }
        }
    }
    assert!(asked > 200, "{asked}");
}

#[test]
fn the_page_of_rights_is_the_table() {
    let mut page = String::from(
        "# Rights of endpoints\n\nEach endpoint with the privileges of which one lets it be asked, where security is on ([users and rights](operations/security.md)). \
         An index privilege is asked\nfor on each index that is named, in the path or in the body; a wildcard is what one may see. `all` grants everything.\n\n\
         Generated from the table of endpoints.\n\n| API | methods | path | privilege |\n|---|---|---|---|\n",
    );
    for endpoint in rest::ENDPOINTS {
        let (methods, path) = (endpoint.methods.join(", "), endpoint.paths[0]);
        page.push_str(&format!(
            "| `{}` | {methods} | `{path}` | {} |\n",
            endpoint.api, endpoint.right
        ));
    }
    let file = tests::root().join("docs/rights.md");
    if tests::shared::recording() {
        std::fs::write(&file, &page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page,
        "docs/rights.md is not what the table of endpoints says; PLEACH_GOLDEN_RECORD=1 writes it"
    );
}

#[test]
fn names_are_looked_at_wherever_they_stand() {
    let secured = Secured::start(&["es8"], &[]);
    for index in ["mine-1", "mine-2", "theirs"] {
        secured.admin(
            "PUT",
            &format!("/{index}/_doc/1?refresh=true"),
            json!({ "a": index, "k": "x" }),
        );
    }
    secured.admin(
        "POST",
        "/_aliases",
        json!({ "actions": [
            { "add": { "index": "mine-1", "alias": "all-of-it" } }, { "add": { "index": "theirs", "alias": "all-of-it" } },
            { "add": { "index": "theirs", "alias": "part", "filter": { "term": { "k": "y" } } } },
        ]}),
    );
    secured.user("u", &on("mine-*", &["all"]));
    secured.user("w", &on("mine-*", &["write"]));
    secured.user("c", &on("mine-*", &["create_doc"]));
    secured.user("p", &on("part", &["read"]));
    let all = json!({ "match_all": {} });
    let lines = |body: &str| Value::String(body.to_owned());
    let check = |user: &str, method: &str, path: &str, body: Value, status: u16, words: &str| {
        let answer = match &body {
            Value::String(text) => {
                let headers = [("authorization".to_owned(), basic(user, PASSWORD))];
                send(secured.server.address(""), method, path, &headers, text.as_bytes()).unwrap()
            }
            body => secured.call(user, method, path, body),
        };
        assert_eq!(answer.status, status, "{user} {method} {path} {body}: {answer:?}");
        assert!(
            answer.text.contains(words),
            "{user} {method} {path} {body}: no [{words}] in {}",
            answer.text
        );
        assert!(
            !answer.text.contains("\"a\":\"theirs\""),
            "{user} {method} {path}: {}",
            answer.text
        );
    };
    let denied = "is unauthorized for user [u] with effective roles [u] on indices [theirs]";
    check(
        "u",
        "GET",
        "/theirs/_search",
        Value::Null,
        403,
        "action [indices:data/read/search] is unauthorized",
    );
    for path in [
        "/theirs/_search",
        "/theirs/_doc/1",
        "/theirs/_count",
        "/theirs/_mapping",
        "/theirs",
        "/mine-1,theirs/_search",
    ] {
        check("u", "GET", path, Value::Null, 403, denied);
    }
    // Wildcards are what one may see.
    check("u", "GET", "/_search", Value::Null, 200, "\"value\":2");
    check("u", "GET", "/*/_count", Value::Null, 200, "\"count\":2");
    check("u", "GET", "/the*/_search", Value::Null, 200, "\"value\":0");
    check("u", "GET", "/the*/_search?allow_no_indices=false", Value::Null, 404, "the*");
    check(
        "u",
        "GET",
        "/mine-1,theirs/_search?ignore_unavailable=true",
        Value::Null,
        200,
        "\"value\":1",
    );
    check("u", "GET", "/*,-mine-2/_search", Value::Null, 200, "\"value\":1");
    check("u", "GET", "/_mapping", Value::Null, 200, "mine-2");
    check("u", "GET", "/all-of-it/_search", Value::Null, 403, "all-of-it");
    // An alias with a filter opens what it lets through, and nothing by the index's own name.
    check("p", "GET", "/part/_search", Value::Null, 200, "\"value\":0");
    check("p", "GET", "/theirs/_search", Value::Null, 403, "on indices [theirs]");
    // Bodies.
    check(
        "u",
        "POST",
        "/_mget",
        json!({ "docs": [{ "_index": "mine-1", "_id": "1" }, { "_index": "theirs", "_id": "1" }] }),
        200,
        "is unauthorized",
    );
    check(
        "u",
        "POST",
        "/_msearch",
        lines("{\"index\":\"theirs\"}\n{}\n{\"index\":\"mine-1\"}\n{}\n"),
        200,
        "is unauthorized",
    );
    check(
        "u",
        "POST",
        "/_bulk",
        lines("{\"index\":{\"_index\":\"theirs\"}}\n{}\n{\"index\":{\"_index\":\"mine-1\"}}\n{}\n"),
        200,
        "is unauthorized",
    );
    check(
        "u",
        "POST",
        "/_bulk",
        lines("{\"delete\":{\"_index\":\"theirs\",\"_id\":\"1\"}}\n"),
        200,
        "indices:data/write",
    );
    check(
        "u",
        "POST",
        "/_bulk?atomic=true",
        lines("{\"index\":{\"_index\":\"theirs\",\"_id\":\"1\"}}\n{}\n"),
        403,
        "is unauthorized",
    );
    let transaction = |index: &str| json!({ "operations": [{ "index": { "_index": index, "_id": "9" }, "source": {} }] });
    check("w", "POST", "/_transaction", transaction("mine-1"), 403, "is unauthorized");
    let moved = json!({ "source": { "index": "theirs" }, "dest": { "index": "mine-1" } });
    check("u", "POST", "/_reindex", moved, 403, "theirs");
    let moved = json!({ "source": { "index": "mine-1" }, "dest": { "index": "theirs" } });
    check("u", "POST", "/_reindex", moved, 403, "on indices [theirs]");
    let lookup = json!({ "query": { "terms": { "k": { "index": "theirs", "id": "1", "path": "k" } } } });
    check("u", "POST", "/mine-1/_search", lookup, 403, "is unauthorized");
    let join = json!({ "query": { "join": { "index": "theirs", "on": { "k.keyword": "k.keyword" }, "query": all } } });
    check("u", "POST", "/mine-1/_search", join, 403, "is unauthorized");
    check(
        "u",
        "POST",
        "/_aliases",
        json!({ "actions": [{ "add": { "index": "theirs", "alias": "mine-3" } }] }),
        403,
        "theirs",
    );
    check(
        "u",
        "POST",
        "/_aliases",
        json!({ "actions": [{ "add": { "index": "mine-1", "alias": "other" } }] }),
        403,
        "other",
    );
    check(
        "u",
        "POST",
        "/_aliases",
        json!({ "actions": [{ "add": { "index": "mine-1", "alias": "mine-3" } }] }),
        200,
        "true",
    );
    check("u", "DELETE", "/theirs", Value::Null, 403, "theirs");
    check("u", "PUT", "/new", Value::Null, 403, "new");
    check(
        "u",
        "POST",
        "/_lock",
        json!({ "targets": [{ "index": "theirs" }] }),
        403,
        "lock",
    );
    check(
        "u",
        "POST",
        "/_lock",
        json!({ "targets": [{ "index": "mine-1", "id": "1" }] }),
        201,
        "mine-1",
    );
    check("w", "GET", "/_lock", Value::Null, 403, "lock");
    // Writing is not reading, and making is not writing over.
    check("w", "PUT", "/mine-1/_doc/2", json!({}), 201, "created");
    check("w", "GET", "/mine-1/_doc/2", Value::Null, 403, "is unauthorized");
    check(
        "w",
        "POST",
        "/mine-1/_delete_by_query",
        json!({ "query": all }),
        403,
        "is unauthorized",
    );
    check("c", "PUT", "/mine-1/_create/3", json!({}), 201, "created");
    check("c", "PUT", "/mine-1/_doc/3", json!({}), 403, "is unauthorized");
    check("c", "DELETE", "/mine-1/_doc/3", Value::Null, 403, "is unauthorized");
    // A write makes no index without the right to.
    check("w", "PUT", "/mine-9/_doc/1", json!({}), 403, "is unauthorized");
    check("u", "PUT", "/mine-9/_doc/1", json!({}), 201, "created");
    // Changes of others are not told.
    check("u", "GET", "/_changes?since=0", Value::Null, 200, "mine-1");
    assert!(
        !secured
            .call("u", "GET", "/_changes?since=0", &Value::Null)
            .text
            .contains("theirs")
    );
}

#[test]
fn a_refusal_does_not_tell_what_is_there() {
    let secured = Secured::start(&["es8"], &[]);
    secured.admin("PUT", "/there/_doc/1?refresh=true", json!({ "a": 1 }));
    secured.admin("PUT", "/mine/_doc/1?refresh=true", json!({ "a": 1 }));
    secured.user("u", &on("mine", &["all"]));
    for (method, path, body) in [
        ("GET", "/{}/_search", Value::Null),
        ("GET", "/{}/_doc/1", Value::Null),
        ("HEAD", "/{}", Value::Null),
        ("GET", "/{}/_mapping", Value::Null),
        ("PUT", "/{}/_doc/1", json!({})),
        ("POST", "/{}/_update/1", json!({ "doc": {} })),
        ("DELETE", "/{}/_doc/1", Value::Null),
        ("DELETE", "/{}", Value::Null),
        ("PUT", "/{}", Value::Null),
        ("POST", "/{}/_close", Value::Null),
        ("POST", "/{}/_pit?keep_alive=1m", Value::Null),
        (
            "POST",
            "/_bulk",
            Value::String("{\"index\":{\"_index\":\"{}\",\"_id\":\"7\"}}\n{}\n".into()),
        ),
        ("POST", "/_mget", json!({ "docs": [{ "_index": "{}", "_id": "1" }] })),
        ("POST", "/mine/_search", json!({ "indices_boost": [{ "{}": 2 }] })),
        (
            "POST",
            "/mine/_search",
            json!({ "query": { "terms": { "a": { "index": "{}", "id": "1", "path": "a" } } } }),
        ),
        (
            "POST",
            "/_reindex",
            json!({ "source": { "index": "{}" }, "dest": { "index": "mine" } }),
        ),
    ] {
        let ask = |name: &str| {
            let path = path.replace("{}", name);
            let text = match &body {
                Value::Null => String::new(),
                Value::String(text) => text.replacen("{}", name, 1),
                body => body.to_string().replacen("{}", name, 1),
            };
            let headers = [("authorization".to_owned(), basic("u", PASSWORD))];
            let answer = send(secured.server.address(""), method, &path, &headers, text.as_bytes()).unwrap();
            let took = |text: String| {
                text.split("\"took\":")
                    .map(|part| part.trim_start_matches(char::is_numeric).to_owned())
                    .collect::<String>()
            };
            (answer.status, took(answer.text.replace(name, "NAME")))
        };
        assert_eq!(ask("there"), ask("gone"), "{method} {path} {body}");
    }
}

#[test]
fn users_and_keys_are_no_documents() {
    let check = |secured: &Secured, user: Option<&str>| {
        let name = ".pleach-security";
        for (method, path, body) in [
            ("GET", "/{}/_search", Value::Null),
            ("GET", "/{}/_doc/user-admin", Value::Null),
            ("GET", "/{}/_count", Value::Null),
            ("GET", "/{}/_source/user-admin", Value::Null),
            ("GET", "/{}/_explain/user-admin?q=*", Value::Null),
            ("GET", "/{}/_termvectors/user-admin", Value::Null),
            ("GET", "/{}/_mapping", Value::Null),
            ("POST", "/{}/_pit?keep_alive=1m", Value::Null),
            ("PUT", "/{}/_doc/user-x", json!({})),
            ("POST", "/{}/_update/user-admin", json!({ "doc": {} })),
            ("DELETE", "/{}/_doc/user-admin", Value::Null),
            ("DELETE", "/{}", Value::Null),
            ("POST", "/{}/_delete_by_query", json!({ "query": { "match_all": {} } })),
            ("POST", "/_mget", json!({ "docs": [{ "_index": "{}", "_id": "user-admin" }] })),
            (
                "POST",
                "/_reindex",
                json!({ "source": { "index": "{}" }, "dest": { "index": "x" } }),
            ),
            (
                "POST",
                "/x/_search",
                json!({ "query": { "terms": { "a": { "index": "{}", "id": "user-admin", "path": "user.password_hash" } } } }),
            ),
        ] {
            let (path, body) = (
                path.replace("{}", name),
                body.to_string().replace("\"{}\"", &format!("\"{name}\"")),
            );
            let body: Value = serde_json::from_str(&body).unwrap();
            let answer = match user {
                Some(user) => secured.call(user, method, &path, &body),
                None => secured.server.call(method, &path, &body),
            };
            assert!(
                !answer.text.contains("argon2") && !answer.text.contains("\"found\":true"),
                "{method} {path}: {answer:?}"
            );
            assert!(
                answer.status == 403 || path.starts_with("/_mget"),
                "{method} {path}: {answer:?}"
            );
        }
    };
    let secured = Secured::start(&["es8"], &[]);
    secured.admin("PUT", "/x/_doc/1?refresh=true", json!({ "a": 1 }));
    check(&secured, Some("admin"));
    for path in [
        "/_search",
        "/*/_search?expand_wildcards=all",
        "/_cat/indices?expand_wildcards=all",
        "/_changes?since=0",
        "/_stats",
    ] {
        let answer = secured.call("admin", "GET", path, &Value::Null);
        assert!(
            !answer.text.contains("argon2") && !answer.text.contains(".pleach-security"),
            "{path}: {}",
            answer.text
        );
    }
    // A start without security reads them as little.
    let Secured { server, admin, folder } = secured;
    drop(server);
    let open = Secured {
        server: Server::start(&folder.path().join("data"), &["es8"]),
        admin,
        folder,
    };
    check(&open, None);
    let off = open.server.call("GET", "/_security/user", &Value::Null);
    assert_eq!(off.status, 400, "{off:?}");
    let Secured { server, admin, folder } = open;
    drop(server);
    let again = Secured {
        server: Server::start_with(&folder.path().join("data"), &["es8"], &["security.enabled=true"]),
        admin,
        folder,
    };
    again.admin("GET", "/_security/_authenticate", Value::Null);
}

#[test]
fn rights_hold_from_the_next_request() {
    let secured = Secured::start(&["es8"], &[]);
    secured.admin("PUT", "/i/_doc/1?refresh=true", json!({ "a": 1 }));
    secured.user("u", &on("i", &["read"]));
    let scroll = secured.call("u", "POST", "/i/_search?scroll=1m", &json!({ "size": 1 }));
    let id = json!({ "scroll_id": scroll.body["_scroll_id"] });
    let point = secured.call("u", "POST", "/i/_pit?keep_alive=1m", &Value::Null);
    let in_point = json!({ "pit": { "id": point.body["id"] } });
    let check = |search: u16, point: usize, role: Value| {
        secured.admin("PUT", "/_security/role/u", role);
        assert_eq!(secured.call("u", "GET", "/i/_search", &Value::Null).status, search);
        assert_eq!(secured.call("u", "POST", "/_search/scroll", &id).status, search);
        let found = secured.call("u", "POST", "/_search", &in_point);
        assert_eq!(found.body["hits"]["hits"].as_array().map_or(0, Vec::len), point, "{found:?}");
    };
    check(200, 1, on("i", &["read"]));
    check(403, 0, on("j", &["read"]));
    check(200, 1, on("*", &["read"]));
    secured.admin("DELETE", "/_security/role/u", Value::Null);
    assert_eq!(secured.call("u", "GET", "/i/_search", &Value::Null).status, 403);
}

#[test]
fn decisions_are_told_in_the_audit() {
    let secured = Secured::start(
        &["es8"],
        &[
            "security.audit.enabled=true",
            "security.audit.events=access_granted,access_denied,authentication_failed",
        ],
    );
    secured.user("u", &on("i", &["read"]));
    let _ = secured.call("u", "GET", "/j/_search", &Value::Null);
    let _ = secured.with(&basic("u", "wrong password"), "GET", "/i/_search", &Value::Null);
    let path = secured.folder.path().join("data/audit.log");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |event: &str, member: &str, value: &str| {
        let found = lines.iter().any(|line| line["event"] == event && line[member] == value);
        assert!(found, "no {event} with {member} [{value}] in {text}");
    };
    has("access_granted", "action", "cluster:admin/xpack/security/put_role");
    has("access_denied", "action", "indices:data/read/search");
    has("access_denied", "user", "u");
    has("authentication_failed", "user", "u");
    assert!(
        !text.contains(PASSWORD) && !text.contains("wrong password") && !text.contains(&secured.admin),
        "{text}"
    );
}

#[test]
fn failed_logins_are_slowed() {
    let secured = Secured::start(&["es8"], &[]);
    let wrong = || secured.with(&basic("admin", "wrong"), "GET", "/", &Value::Null).status;
    for _ in 0..4 {
        assert_eq!(wrong(), 401);
    }
    let begun = std::time::Instant::now();
    for _ in 0..3 {
        assert_eq!(wrong(), 401);
    }
    // 100, 200 and 400 ms.
    assert!(
        begun.elapsed() >= std::time::Duration::from_millis(700),
        "{:?}",
        begun.elapsed()
    );
    secured.admin("GET", "/", Value::Null);
}

#[test]
fn records_are_bounded() {
    let secured = Secured::start(&["es8"], &["security.max_records=2"]);
    secured.admin("PUT", "/_security/role/r", json!({}));
    let refused = secured.call("admin", "PUT", "/_security/role/s", &json!({}));
    assert_eq!(
        (refused.status, &refused.body["error"]["setting"]),
        (400, &json!("security.max_records")),
        "{refused:?}"
    );
    secured.admin("DELETE", "/_security/role/r", Value::Null);
    secured.admin("PUT", "/_security/role/s", json!({}));
}
