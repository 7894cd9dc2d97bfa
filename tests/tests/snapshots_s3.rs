//! Repositories of type `s3` over HTTP: what servers of S3 refuse, stores that write at once, files in parts, settings of files.
//! The server is moto, from PyPI; where it cannot be installed these tests are skipped and say so.
//!
//! Not here: what folders have too (`snapshots.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use tests::Server;
use tests::repository_place::{BUCKET, ObjectServer, Place};

fn server_at(place: &Place, folder: &Path, data: &str, settings: &[&str]) -> Server {
    let own = place.server_settings();
    let settings: Vec<&str> = own.iter().map(String::as_str).chain(settings.iter().copied()).collect();
    Server::start_with(&folder.join(data), &["es8"], &settings)
}

/// Documents that no compression makes small.
fn fill(server: &Server, index: &str, kilobytes: u64) {
    for batch in 0..kilobytes.div_ceil(1024) {
        let lines: String = (0..64.min(kilobytes / 16))
            .map(|m| {
                let words: String = (0..1024)
                    .map(|w| format!("{:016x}", RandomState::new().hash_one((batch, m, w))))
                    .collect();
                format!("{{\"index\":{{}}}}\n{{\"t\":\"{words}\"}}\n")
            })
            .collect();
        assert_eq!(server.send("POST", &format!("/{index}/_bulk"), &lines).unwrap().status, 200);
    }
    server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
}

/// An index whose documents are kept and not searched.
fn make(server: &Server, index: &str) {
    let field = json!({ "type": "keyword", "index": false, "doc_values": false });
    server.ok(
        "PUT",
        &format!("/{index}"),
        &json!({ "mappings": { "properties": { "t": field } } }),
    );
}

fn take(server: &Server, name: &str) {
    let path = format!("/_snapshot/r/{name}?wait_for_completion=true");
    let answer = server.ok("PUT", &path, &Value::Null);
    assert_eq!(answer["snapshot"]["state"], "SUCCESS", "{answer}");
}

fn names(server: &Server) -> Vec<String> {
    let listed = server.ok("GET", "/_snapshot/r/_all", &Value::Null);
    let all = listed["snapshots"].as_array().unwrap();
    all.iter().map(|one| one["snapshot"].as_str().unwrap().to_owned()).collect()
}

/// Accepts connections, and answers none.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// A repository in the usual bucket, with these settings.
fn definition(settings: &Value) -> Value {
    let mut all = json!({ "bucket": BUCKET });
    for (name, value) in settings.as_object().unwrap() {
        all[name] = value.clone();
    }
    json!({ "type": "s3", "settings": all })
}

/// Sends a request that is refused with a status, a type of error and words. What was said goes to `said`.
fn check_refusal(
    server: &Server,
    (method, path): (&str, &str),
    body: &Value,
    (status, kind, words): (u16, &str, &str),
    said: &mut String,
) {
    let answer = server.call(method, path, body);
    assert_eq!(
        (answer.status, &answer.body["error"]["type"]),
        (status, &json!(kind)),
        "{body}: {answer:?}"
    );
    assert!(answer.text.contains(words), "{body}: {answer:?}");
    said.push_str(&answer.text);
}

/// A repository that cannot be used is refused when it is registered, read and verified.
fn check_unusable(server: &Server, settings: &Value, words: &str, said: &mut String) {
    let body = definition(settings);
    let verification = (500, "repository_verification_exception", words);
    check_refusal(server, ("PUT", "/_snapshot/r"), &body, verification, said);
    server.ok("PUT", "/_snapshot/r?verify=false", &body);
    let reading = (500, "repository_exception", words);
    check_refusal(server, ("GET", "/_snapshot/r/_all"), &Value::Null, reading, said);
    check_refusal(server, ("POST", "/_snapshot/r/_verify"), &Value::Null, verification, said);
}

#[test]
fn refusals_name_their_cause_and_no_key() {
    let Some(mut objects) = ObjectServer::start() else { return };
    objects.secure();
    let (name, key) = (objects.key().0.to_owned(), objects.key().1.to_owned());
    let (_listener, unanswering) = silent();
    let mut settings = objects.client_settings("default", &name, &key);
    settings.extend(objects.client_settings("wrong", &name, "a-wrong-secret-key"));
    settings.extend(objects.client_settings("unknown", "AKIANOBODY", "another-secret-key"));
    settings.extend([
        "s3.client.gone.endpoint=http://127.0.0.1:1".to_owned(),
        "s3.client.gone.access_key=a".to_owned(),
        "s3.client.gone.secret_key=hidden-secret-key".to_owned(),
        "s3.client.gone.max_retries=1".to_owned(),
        format!("s3.client.silent.endpoint=http://{unanswering}"),
        "s3.client.silent.access_key=a".to_owned(),
        "s3.client.silent.secret_key=hidden-secret-key".to_owned(),
        "s3.client.silent.max_retries=1".to_owned(),
        "s3.client.silent.read_timeout=200ms".to_owned(),
        "s3.client.keyless.region=eu-central-1".to_owned(),
        "log.level=debug".to_owned(),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = tests::command();
    command.stderr(std::fs::File::create(&log).unwrap());
    let given: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = Server::start_by(command, &folder.path().join("data"), &["es8"], &given, &[]);
    let mut said = String::new();
    server.ok("PUT", "/_snapshot/r", &definition(&json!({})));
    for (settings, words) in [
        (json!({ "bucket": "missing-bucket" }), "NoSuchBucket"),
        (json!({ "client": "wrong" }), "403 SignatureDoesNotMatch"),
        (json!({ "client": "unknown" }), "403 InvalidAccessKeyId"),
        (json!({ "client": "gone" }), "connecting to [http://127.0.0.1:1] failed"),
        (json!({ "client": "silent" }), "no answer within 200ms"),
    ] {
        check_unusable(&server, &settings, words, &mut said);
    }
    for (settings, words) in [
        (json!({ "client": "nobody" }), "Unknown s3 client name [nobody]"),
        (json!({ "client": "keyless" }), "[s3.client.keyless.access_key]"),
        (json!({ "endpoint": "http://127.0.0.1:1" }), "repositories.s3.allow_endpoint"),
        (json!({ "bucket": "x/../y" }), "is no name of a bucket"),
        (json!({ "bukcet": "x" }), "unknown setting [bukcet], did you mean [bucket]?"),
        (json!({ "canned_acl": "public-read" }), "[canned_acl]"),
        (json!({ "storage_class": "glacier" }), "[glacier] is not supported"),
        (json!({ "buffer_size": "1mb" }), "must be >= [5mb]"),
        (json!({ "access_key": "a" }), "unknown setting [access_key]"),
    ] {
        let refusal = (400, "repository_exception", words);
        check_refusal(&server, ("PUT", "/_snapshot/r"), &definition(&settings), refusal, &mut said);
    }
    for path in [
        "/_snapshot",
        "/_cat/repositories",
        "/_nodes",
        "/_nodes/stats",
        "/_cluster/settings?include_defaults=true",
        "/_tasks",
    ] {
        said.push_str(&server.call("GET", path, &Value::Null).text);
    }
    drop(server);
    said.push_str(&std::fs::read_to_string(&log).unwrap());
    let mut print = tests::command();
    print.arg("--print-config").current_dir(folder.path());
    print.args(given.iter().flat_map(|setting| ["-E", *setting]));
    said.push_str(&String::from_utf8_lossy(&print.output().unwrap().stdout));
    assert!(said.contains("s3.client.default.secret_key is given and not shown"), "{said}");
    for secret in [
        key.as_str(),
        "a-wrong-secret-key",
        "another-secret-key",
        "hidden-secret-key",
        "Signature=",
    ] {
        assert!(!said.contains(secret), "[{secret}] is told");
    }
}

#[test]
fn a_key_comes_from_the_variables_of_aws() {
    let Some(mut objects) = ObjectServer::start() else { return };
    objects.secure();
    let folder = tempfile::tempdir().unwrap();
    let endpoint = format!("s3.client.default.endpoint=http://{}", objects.address());
    let (name, key) = objects.key();
    let variables = [("AWS_ACCESS_KEY_ID", name), ("AWS_SECRET_ACCESS_KEY", key)];
    let server = Server::start_among(&folder.path().join("data"), &["es8"], &[&endpoint], &variables);
    let body = json!({ "type": "s3", "settings": { "bucket": BUCKET } });
    server.ok("PUT", "/_snapshot/r", &body);
    server.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    take(&server, "s");
    assert_eq!(names(&server), ["s"]);
    // A repository may name the server where the process allows it.
    drop(server);
    let allowed = ["repositories.s3.allow_endpoint=true"];
    let server = Server::start_among(&folder.path().join("data"), &["es8"], &allowed, &variables);
    let endpoint = format!("http://{}", objects.address());
    let body = json!({ "type": "s3", "settings": { "bucket": BUCKET, "endpoint": endpoint } });
    server.ok("PUT", "/_snapshot/r", &body);
    assert_eq!(names(&server), ["s"]);
}

/// Two stores on one bucket: what one has stored and not committed yet, the other does not remove unless it wins.
#[test]
fn stores_that_write_at_once_lose_nothing() {
    let Some(place) = Place::bucket() else { return };
    let folder = tempfile::tempdir().unwrap();
    let one = server_at(&place, folder.path(), "one", &[]);
    let two = server_at(&place, folder.path(), "two", &[]);
    let slowly = json!({ "max_snapshot_bytes_per_sec": "200kb" });
    for (server, index) in [(&one, "a"), (&two, "b")] {
        make(server, index);
        fill(server, index, 600);
    }
    // The slow one has begun when the fast one takes, deletes and cleans: its root is not written.
    place.register(&one, &slowly);
    place.register(&two, &json!({}));
    let begun = begin_slowly(&one, &place, "lost");
    take(&two, "won");
    two.ok("POST", "/_snapshot/r/_cleanup", &Value::Null);
    two.ok("PUT", "/_snapshot/r/gone?wait_for_completion=true", &Value::Null);
    two.ok("DELETE", "/_snapshot/r/gone", &Value::Null);
    assert!(begun.elapsed() < Duration::from_secs(2), "the slow snapshot is still written");
    settle(&one);
    assert_eq!(names(&one), ["won"]);
    let answer = one.call("PUT", "/_snapshot/r/again?wait_for_completion=true", &Value::Null);
    assert_eq!(
        (answer.status, &answer.body["error"]["type"]),
        (409, &json!("repository_changed_exception")),
        "{answer:?}"
    );
    // The slow one comes to its end while the fast one only looks: then the fast one is told.
    place.register(&one, &slowly);
    begin_slowly(&one, &place, "slow");
    place.register(&two, &json!({ "readonly": true }));
    assert!(names(&two).contains(&"won".to_owned()));
    settle(&one);
    assert_eq!(names(&one), ["won", "slow"]);
    place.register(&two, &json!({}));
    take(&two, "after");
    two.ok("POST", "/_snapshot/r/_cleanup", &Value::Null);
    // Everything that is listed can be read.
    for (snapshot, index) in [("won", "b"), ("slow", "a"), ("after", "b")] {
        let body = json!({ "indices": index, "rename_pattern": "(.+)", "rename_replacement": format!("{snapshot}-$1") });
        let path = format!("/_snapshot/r/{snapshot}/_restore?wait_for_completion=true");
        let answer = two.ok("POST", &path, &body);
        assert_eq!(answer["snapshot"]["shards"]["failed"], 0, "{answer}");
        let count = two.ok("GET", &format!("/{snapshot}-{index}/_count"), &Value::Null);
        assert_eq!(count["count"], 37, "{snapshot}: {count}");
    }
    assert_eq!(place.files("writing").len(), 0);
}

/// Begins a snapshot, and waits until it has the mark of a writer.
fn begin_slowly(server: &Server, place: &Place, name: &str) -> Instant {
    let answer = server.ok("PUT", &format!("/_snapshot/r/{name}"), &Value::Null);
    assert_eq!(answer["accepted"], true);
    let begun = Instant::now();
    while place.files("writing").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the snapshot does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun
}

/// Waits until no snapshot runs.
fn settle(server: &Server) {
    let begun = Instant::now();
    while server.ok("GET", "/_snapshot/_status", &Value::Null)["snapshots"] != json!([]) {
        assert!(begun.elapsed() < Duration::from_secs(60), "a snapshot does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Passes requests on to a server, and answers 501 to conditional writes, as servers do that know none.
fn unconditional(server: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            std::thread::spawn(move || drop(pass_on(stream, &server)));
        }
    });
    address
}

/// One request of a connection.
fn pass_on(mut stream: TcpStream, server: &str) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 64 << 10];
    let (head, length) = loop {
        let read = stream.read(&mut piece)?;
        request.extend_from_slice(&piece[..read]);
        let end = request.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            break (head, end + 4 + length.unwrap_or(0));
        }
        if read == 0 {
            return Ok(());
        }
    };
    while request.len() < length {
        let read = stream.read(&mut piece)?;
        request.extend_from_slice(&piece[..read]);
    }
    if head.starts_with("put ") && (head.contains("\nif-match:") || head.contains("\nif-none-match:")) {
        let body = "<Error><Code>NotImplemented</Code><Message>no conditions</Message></Error>";
        let answer = format!(
            "HTTP/1.1 501 Not Implemented\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        return stream.write_all(answer.as_bytes());
    }
    let mut onward = TcpStream::connect(server)?;
    onward.write_all(&request)?;
    let mut answer = Vec::new();
    onward.read_to_end(&mut answer)?;
    stream.write_all(&answer)
}

#[test]
fn a_server_without_conditional_writes_has_one_store() {
    let Some(place) = Place::bucket() else { return };
    let Place::Bucket(objects) = &place else { unreachable!() };
    let endpoint = format!("s3.client.default.endpoint=http://{}", unconditional(objects.address()));
    let folder = tempfile::tempdir().unwrap();
    let one = server_at(&place, folder.path(), "one", &[&endpoint]);
    let two = server_at(&place, folder.path(), "two", &[&endpoint]);
    one.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    place.register(&one, &json!({}));
    place.register(&two, &json!({}));
    take(&one, "s1");
    take(&one, "s2");
    one.ok("DELETE", "/_snapshot/r/s1", &Value::Null);
    take(&two, "s3");
    let answer = one.call("PUT", "/_snapshot/r/s4?wait_for_completion=true", &Value::Null);
    assert_eq!(answer.body["error"]["type"], "repository_changed_exception", "{answer:?}");
    assert_eq!(names(&one), ["s2", "s3"]);
}

#[test]
fn large_files_go_in_parts_and_leave_none() {
    let Some(place) = Place::bucket() else { return };
    let Place::Bucket(objects) = &place else { unreachable!() };
    let folder = tempfile::tempdir().unwrap();
    let server = server_at(&place, folder.path(), "data", &["indexing.ram_segments_max_bytes=1mb"]);
    make(&server, "a");
    fill(&server, "a", 13 << 10);
    server.ok("POST", "/a/_forcemerge?max_num_segments=1", &Value::Null);
    let options = json!({ "buffer_size": "5mb", "chunk_size": "1gb", "storage_class": "STANDARD_IA", "server_side_encryption": true,
        "canned_acl": "private", "compress": true });
    place.register(&server, &options);
    take(&server, "s");
    let (_, listed) = objects.ask("GET", &format!("/{BUCKET}?list-type=2"), b"");
    let listed = String::from_utf8_lossy(&listed).into_owned();
    // The tag of a file in parts ends with their number.
    assert!(
        listed.contains("-3\"</ETag>") || listed.contains("-3&quot;</ETag>"),
        "{listed}"
    );
    assert!(!listed.contains("<StorageClass>STANDARD</StorageClass>"), "{listed}");
    let blob = place.files("blobs").into_keys().next().unwrap();
    let head = head(
        objects.address(),
        &format!("/{BUCKET}/{}/{blob}", tests::repository_place::BASE_PATH),
    );
    assert!(head.contains("x-amz-server-side-encryption: aes256"), "{head}");
    server.ok("DELETE", "/a", &Value::Null);
    let answer = server.ok("POST", "/_snapshot/r/s/_restore?wait_for_completion=true", &Value::Null);
    assert_eq!(answer["snapshot"]["shards"]["failed"], 0, "{answer}");
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], 13 * 64);
    // One that is given up takes its parts back.
    server.ok("DELETE", "/_snapshot/r/s", &Value::Null);
    let mut slowly = options;
    slowly["max_snapshot_bytes_per_sec"] = "6mb".into();
    place.register(&server, &slowly);
    server.ok("PUT", "/_snapshot/r/given-up", &Value::Null);
    let uploads = || String::from_utf8_lossy(&objects.ask("GET", &format!("/{BUCKET}?uploads"), b"").1).into_owned();
    let begun = Instant::now();
    while !uploads().contains("<UploadId>") {
        assert!(begun.elapsed() < Duration::from_secs(20), "no upload begins");
    }
    server.ok("DELETE", "/_snapshot/r/given-up", &Value::Null);
    assert!(!uploads().contains("<UploadId>"), "{}", uploads());
    assert_eq!(place.files("blobs").len(), 0);
}

/// The headers of a file, in lower case.
fn head(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "HEAD {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: AWS4-HMAC-SHA256 \
         Credential=test/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.to_lowercase()
}

/// Snapshots go to a bucket by TLS, where the server's certificate is of an authority that the process trusts, and nowhere else.
#[test]
fn a_bucket_by_https_needs_an_authority_that_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = folder.path().join("certs");
    let made = tests::command().arg("cert").arg(&certificates).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let Some(objects) = ObjectServer::start_tls(&certificates) else {
        return;
    };
    let place = Place::Bucket(objects);
    let settings = place.server_settings();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let authority = certificates.join("ca.crt");
    let trusting = [("SSL_CERT_FILE", authority.to_str().unwrap())];
    {
        let server = Server::start_among(&folder.path().join("data"), &["es8"], &settings, &trusting);
        make(&server, "i");
        fill(&server, "i", 64);
        let count = server.ok("GET", "/i/_count", &Value::Null)["count"].clone();
        assert_ne!(count, 0);
        place.register(&server, &json!({}));
        take(&server, "one");
        assert!(!place.files("").is_empty(), "the bucket has the snapshot");
        server.ok("DELETE", "/i", &Value::Null);
        server.ok(
            "POST",
            "/_snapshot/r/one/_restore?wait_for_completion=true",
            &json!({ "indices": "i" }),
        );
        assert_eq!(server.ok("GET", "/i/_count", &Value::Null)["count"], count);
    }
    // The authorities of the machine have not signed it.
    let server = Server::start_with(&folder.path().join("other"), &["es8"], &settings);
    let mut said = String::new();
    check_unusable(&server, &json!({ "base_path": "deep/r" }), "certificate", &mut said);
    assert!(!said.contains("secret"), "{said}");
}
