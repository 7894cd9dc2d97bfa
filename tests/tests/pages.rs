//! Requests that a web page could send from a browser on this machine: a foreign origin, a foreign name for our address, and
//! the media types that need no leave. None of them changes anything, on any endpoint of the table that writes.
//!
//! Not here: which hosts and origins are recognized (package `rest`, `access`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use tests::{Server, send};

/// The path of an endpoint with names that are there.
fn filled(pattern: &str) -> String {
    let part = |part: &str| match part {
        "{index}" => "data".to_owned(),
        "{type}" => "_doc".to_owned(),
        "{block}" => "write".to_owned(),
        part if part.starts_with('{') => "1".to_owned(),
        part => part.to_owned(),
    };
    pattern.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// What a page could have changed.
fn state(server: &Server) -> Vec<Value> {
    let ask = |path: &str| server.ok("GET", path, &Value::Null);
    server.ok("POST", "/data/_refresh", &Value::Null);
    vec![
        ask("/_cat/indices?format=json&expand_wildcards=all&h=index,status,docs.count&s=index"),
        ask("/data"),
        ask("/data/_search?seq_no_primary_term=true&version=true&filter_path=hits"),
        ask("/_index_template"),
        ask("/_template"),
        ask("/_cluster/settings"),
        ask("/_cluster/state/metadata?filter_path=metadata.indices,metadata.templates"),
        ask("/_cat/locks?format=json&h=id,token"),
        ask("/_cat/transactions?format=json"),
    ]
}

/// One request with this `Host`, which the harness sets itself; its status.
fn with_host(address: &str, host: &str, method: &str, path: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n");
    let _ = stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap()
}

#[test]
fn a_page_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let personas = ["es8", "es2", "opensearch2"];
    let server = Server::start(&folder.path().join("data"), &personas);
    server.ok("PUT", "/data/_doc/1", &json!({ "a": 1 }));
    server.ok("POST", "/_lock", &json!({ "targets": [{ "name": "x" }], "keep_alive": "1h" }));
    let before = state(&server);
    let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let mut sent = 0;
    for endpoint in rest::ENDPOINTS {
        for method in endpoint.methods.iter().filter(|method| !matches!(**method, "GET" | "HEAD")) {
            let path = filled(endpoint.paths[0]);
            for persona in personas {
                let address = server.address(persona);
                for origin in ["https://evil.example", "null", "http://localhost:1"] {
                    let answer = send(address, method, &path, &header("origin", origin), b"{}").unwrap();
                    assert_eq!(answer.status, 403, "{persona} {method} {path} of {origin}: {answer:?}");
                }
                assert_eq!(
                    with_host(address, "evil.example:9200", method, &path, "{}"),
                    403,
                    "{persona} {method} {path}"
                );
                for media in [
                    "text/plain",
                    "text/plain;charset=UTF-8",
                    "application/x-www-form-urlencoded",
                    "multipart/form-data; boundary=x",
                ] {
                    let mut headers = header("content-type", media);
                    if persona == "es2" {
                        // A page of its own would need no leave either.
                        headers.extend(header("origin", &format!("http://{address}")));
                    }
                    let answer = send(address, method, &path, &headers, b"{}").unwrap();
                    assert_eq!(answer.status, 406, "{persona} {method} {path} as {media}: {answer:?}");
                    assert!(
                        answer
                            .text
                            .contains(&format!("Content-Type header [{}] is not supported", media.to_lowercase())),
                        "{answer:?}"
                    );
                    sent += 1;
                }
            }
        }
    }
    assert!(sent > 500, "{sent}");
    assert_eq!(state(&server), before);
    for method in ["GET", "HEAD", "OPTIONS"] {
        let answer = send(
            server.address("es8"),
            method,
            "/data/_search",
            &header("origin", "https://evil.example"),
            b"",
        )
        .unwrap();
        assert_eq!(answer.status, 403, "{method}: reading is a page's business as little");
    }
    // Clients of 2015 sent forms, as curl does.
    let form = header("content-type", "application/x-www-form-urlencoded");
    let old = send(server.address("es2"), "PUT", "/old/t/1", &form, br#"{"a":1}"#).unwrap();
    assert_eq!(old.status, 201, "{old:?}");
    // Without a body the type of none is no matter.
    assert_eq!(
        send(server.address("es8"), "POST", "/data/_refresh", &form, b"")
            .unwrap()
            .status,
        200
    );
}

#[test]
fn hosts_and_origins_can_be_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        "http.allowed_hosts=search.example",
        "http.cors.enabled=true",
        "http.cors.allow-origin=https://app.example",
    ];
    let server = Server::start_with(&folder.path().join("data"), &["es8"], &settings);
    let address = server.address("");
    for (host, status) in [
        ("search.example", 200),
        ("Search.Example:443", 200),
        ("localhost", 200),
        (address, 200),
        ("search.example.evil.example", 403),
        ("10.1.2.3:9200", 403),
    ] {
        assert_eq!(with_host(address, host, "GET", "/", ""), status, "{host}");
    }
    let from = |origin: &str, method: &str, more: &[(&str, &str)]| {
        let mut headers = vec![("origin".to_owned(), origin.to_owned())];
        headers.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let body: &[u8] = if method == "PUT" { b"{}" } else { b"" };
        send(address, method, "/i/_doc/1", &headers, body).unwrap()
    };
    let told =
        |answer: &tests::Answer, name: &str| answer.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
    let asked = from("https://app.example", "OPTIONS", &[("access-control-request-method", "PUT")]);
    assert_eq!(asked.status, 200);
    assert_eq!(
        told(&asked, "access-control-allow-origin").as_deref(),
        Some("https://app.example")
    );
    assert!(told(&asked, "access-control-allow-methods").is_some_and(|methods| methods.contains("PUT")));
    let written = from("https://app.example", "PUT", &[]);
    assert_eq!(written.status, 201);
    assert_eq!(
        told(&written, "access-control-allow-origin").as_deref(),
        Some("https://app.example")
    );
    assert_eq!(
        from("https://app.example", "PUT", &[("content-type", "text/plain")]).status,
        406
    );
    let other = from("https://other.example", "PUT", &[]);
    assert_eq!((other.status, told(&other, "access-control-allow-origin")), (403, None));
    assert_eq!(
        from(
            "https://other.example",
            "OPTIONS",
            &[("access-control-request-method", "PUT")]
        )
        .status,
        403
    );
}

#[test]
fn pages_of_allowed_origins_have_the_rights_that_are_set() {
    let ask = |settings: &[&str], method: &str, origin: &str| {
        let folder = tempfile::tempdir().unwrap();
        let all = [&["http.cors.enabled=true"], settings].concat();
        let server = Server::start_with(&folder.path().join("data"), &["es8"], &all);
        let mut headers = vec![("origin".to_owned(), origin.to_owned())];
        if method == "OPTIONS" {
            headers.push(("access-control-request-method".to_owned(), "PUT".to_owned()));
        }
        let answer = send(server.address(""), method, "/", &headers, b"").unwrap();
        let of_cors = answer
            .headers
            .into_iter()
            .filter(|(name, _)| name.starts_with("access-control-") || name == "vary");
        (answer.status, of_cors.collect::<std::collections::BTreeMap<_, _>>())
    };
    let pairs = |pairs: &[(&str, &str)]| {
        let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect::<std::collections::BTreeMap<_, _>>()
    };
    let expression = "http.cors.allow-origin=/https?:\\/\\/([a-z]+\\.)?app\\.example(:[0-9]+)?/";
    let set = [
        expression,
        "http.cors.allow-methods=GET, put",
        "http.cors.allow-headers=X-One,X-Two",
        "http.cors.expose-headers=X-Three",
        "http.cors.allow-credentials=true",
        "http.cors.max-age=5",
    ];
    let of_all = [
        ("access-control-allow-origin", "https://a.app.example:8443"),
        ("access-control-allow-credentials", "true"),
        ("access-control-expose-headers", "X-Three"),
        ("vary", "Origin"),
    ];
    assert_eq!(ask(&set, "GET", "https://a.app.example:8443"), (200, pairs(&of_all)));
    let of_asking = [
        ("access-control-allow-methods", "GET,PUT"),
        ("access-control-allow-headers", "X-One,X-Two"),
        ("access-control-max-age", "5"),
    ];
    let of_asking = [&of_all[..], &of_asking[..]].concat();
    assert_eq!(ask(&set, "OPTIONS", "https://a.app.example:8443"), (200, pairs(&of_asking)));
    assert_eq!(ask(&set, "GET", "https://app.example.evil.example"), (403, pairs(&[])));
    let of_default = [
        ("access-control-allow-origin", "null"),
        ("access-control-allow-methods", "OPTIONS,HEAD,GET,POST,PUT,DELETE"),
        (
            "access-control-allow-headers",
            "X-Requested-With,Content-Type,Content-Length,Authorization,Accept,User-Agent,X-Elastic-Client-Meta,X-Opaque-Id",
        ),
        ("access-control-expose-headers", "X-Elastic-Product"),
        ("access-control-max-age", "1728000"),
        ("vary", "Origin"),
    ];
    assert_eq!(
        ask(&["http.cors.allow-origin=*"], "OPTIONS", "null"),
        (200, pairs(&of_default))
    );
}

#[test]
fn encodings_and_paths() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8", "es2"]);
    for encoding in ["br", "deflate", "zstd", "gzip, br"] {
        let headers = [("content-encoding".to_owned(), encoding.to_owned())];
        for persona in ["es8", "es2"] {
            let answer = send(server.address(persona), "PUT", "/i/_doc/1", &headers, b"{}").unwrap();
            assert_eq!(answer.status, 415, "{persona} {encoding}: {answer:?}");
        }
    }
    let headers = [("content-encoding".to_owned(), "identity".to_owned())];
    assert_eq!(
        send(server.address(""), "PUT", "/i/_doc/1", &headers, b"{}").unwrap().status,
        201
    );
    for name in ["a%07b", "a%0Ab", "a%E2%80%AEb", "a%E2%80%8Fb"] {
        let answer = server.call("PUT", &format!("/{name}"), &Value::Null);
        assert_eq!(
            (answer.status, &answer.body["error"]["type"]),
            (400, &json!("invalid_index_name_exception")),
            "{answer:?}"
        );
    }
    // Where the folder lies is told to nobody.
    let place = folder.path().to_str().unwrap();
    for path in [
        "/_nodes",
        "/_nodes/stats",
        "/_cluster/stats",
        "/_cluster/state",
        "/_cat/nodes?h=*",
        "/_stats",
        "/_cat/allocation",
    ] {
        let answer = server.call("GET", path, &Value::Null);
        assert!(
            answer.status == 200 && !answer.text.contains(place),
            "{path}: {}",
            answer.text
        );
    }
}
