//! `pleach replicate` against targets that are slow, busy, or refuse: what is noted meanwhile, what is asked again, what ends it.
//!
//! Not here: that the target gets everything (`replicate.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tests::fake::{self, FakeRequest};
use tests::secured::{PASSWORD, Secured};
use tests::{Server, command};

/// What anything here may take.
const LATE: Duration = Duration::from_secs(60);

fn url(server: &Server) -> String {
    format!("http://{}", server.address("es8"))
}

fn replicate(source: &str, target: &[&str], more: &[&str]) -> Command {
    let mut replicate = command();
    replicate.args(["replicate", "--url", source]).args(target).args(more);
    replicate.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    replicate
}

/// How a target of a test answers.
#[derive(Default)]
struct Behavior {
    /// Ids whose requests wait.
    held: HashSet<String>,
    /// Ids that it has.
    stored: HashSet<String>,
    /// Statuses of the next bulk requests; 0: an item is busy.
    refusals: Vec<u16>,
    /// Requests that came packed.
    packed: u64,
}

/// A server that says it is Elasticsearch 8 and takes everything.
struct FakeTarget {
    url: String,
    behavior: Arc<(Mutex<Behavior>, Condvar)>,
}

impl FakeTarget {
    fn start(behavior: Behavior) -> FakeTarget {
        let behavior = Arc::new((Mutex::new(behavior), Condvar::new()));
        let shared = behavior.clone();
        let answering = move |request: &FakeRequest| match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") => (200, r#"{"version":{"number":"8.17.0"}}"#.to_owned()),
            ("POST", "/_bulk") => bulk(request, &shared),
            ("PUT", _) => (200, "{}".to_owned()),
            _ => (404, "{}".to_owned()),
        };
        FakeTarget {
            url: fake::start(Arc::new(answering)),
            behavior,
        }
    }

    fn alter<T>(&self, alter: impl FnOnce(&mut Behavior) -> T) -> T {
        let altered = alter(&mut self.behavior.0.lock().unwrap());
        self.behavior.1.notify_all();
        altered
    }
}

/// Answers a bulk request, once nothing in it is held.
fn bulk(request: &FakeRequest, (behavior, changed): &(Mutex<Behavior>, Condvar)) -> (u16, String) {
    let mut lines = String::new();
    let is_packed = request.header("content-encoding") == Some("gzip");
    let mut body = request.body.as_slice();
    match is_packed {
        true => GzDecoder::new(body).read_to_string(&mut lines).unwrap(),
        false => body.read_to_string(&mut lines).unwrap(),
    };
    let actions = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ids: Vec<String> = actions
        .filter_map(|action| action["index"]["_id"].as_str().map(str::to_owned))
        .collect();
    let mut behavior = behavior.lock().unwrap();
    behavior.packed += u64::from(is_packed);
    match behavior.refusals.pop() {
        None => {}
        Some(0) => {
            let busy = json!({ "errors": true, "items": [{ "index": { "_index": "a", "_id": "1", "status": 429, "error": { "reason": "full" } } }] });
            return (200, busy.to_string());
        }
        Some(status) => return (status, r#"{"error":{"reason":"not now"}}"#.to_owned()),
    }
    while ids.iter().any(|id| behavior.held.contains(id)) {
        behavior = changed.wait(behavior).unwrap();
    }
    behavior.stored.extend(ids);
    (200, r#"{"errors":false,"items":[]}"#.to_owned())
}

/// Kills the command at the end of a test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LATE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn position(source: &Server) -> Option<u64> {
    let answer = source.call("GET", "/_changes/consumer/replicate", &Value::Null);
    answer.body["position"].as_u64()
}

/// The `commit_seq` of the newest document of the index.
fn newest_change(source: &Server, since: u64) -> u64 {
    let part = source.ok("GET", &format!("/_changes?since={since}&index=a"), &Value::Null);
    part["changes"].as_array().unwrap().last().unwrap()["commit_seq"]
        .as_u64()
        .unwrap()
}

#[test]
fn the_position_does_not_pass_what_the_target_has_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let source = Server::start(&folder.path().join("source"), &["es8"]);
    let target = FakeTarget::start(Behavior::default());
    source.ok("PUT", "/a/_doc/first", &json!({ "n": 1 }));
    let more = ["--connections", "4", "--in-flight", "64kb"];
    let running = replicate(&url(&source), &["--to", &target.url], &more).spawn().unwrap();
    let _running = Running(running);
    until("the copy is whole", || position(&source).is_some());
    let copied = position(&source).unwrap();
    target.alter(|behavior| behavior.held.insert("held".to_owned()));
    source.ok("PUT", "/a/_doc/held", &json!({ "n": 2 }));
    let held = newest_change(&source, copied);
    // Other lanes go on meanwhile, and the position comes as near as it may.
    for n in 0..200 {
        source.ok("PUT", &format!("/a/_doc/other-{n}"), &json!({ "n": n }));
    }
    let others = |behavior: &mut Behavior| behavior.stored.iter().filter(|id| id.starts_with("other")).count();
    until("documents of other lanes are stored", || target.alter(others) > 20);
    until("the position is noted", || {
        let position = position(&source).unwrap();
        assert!(position < held, "{position} was noted, and {held} is not acknowledged");
        position == held - 1
    });
    assert!(!target.alter(|behavior| behavior.stored.contains("held")));
    let last = newest_change(&source, held);
    target.alter(|behavior| behavior.held.clear());
    until("the position is noted", || position(&source).unwrap() >= last);
    let stored = target.alter(|behavior| behavior.stored.len());
    assert_eq!(stored, 202);
}

#[test]
fn a_busy_target_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = Server::start(&folder.path().join("source"), &["es8"]);
    let long = "word ".repeat(400);
    for n in 0..20 {
        source.ok("PUT", &format!("/a/_doc/{n}"), &json!({ "text": long }));
    }
    let target = FakeTarget::start(Behavior {
        refusals: vec![0, 429, 0, 503, 429],
        ..Behavior::default()
    });
    let done = replicate(&url(&source), &["--to", &target.url], &["--once", "--gzip"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && told.contains("trying again"), "{told}");
    let (stored, left, packed) = target.alter(|b| (b.stored.len(), b.refusals.len(), b.packed));
    assert_eq!((stored, left), (20, 0), "{told}");
    assert!(packed > 0);
}

/// What a command says that ends at once.
/// Runs a replication that is refused, and finds these words in what it says.
fn check_refusal(mut replicate: Command, words: &[&str]) {
    let begun = Instant::now();
    let done = replicate.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{told}");
    // It would ask a minute long.
    assert!(begun.elapsed() < Duration::from_secs(30), "{told}");
    assert!(words.iter().all(|word| told.contains(word)), "{words:?}: {told}");
}

fn write_profiles(file: &Path, target: &Secured) {
    let folder = file.parent().unwrap();
    std::fs::write(folder.join("password"), PASSWORD).unwrap();
    let text = format!(
        "[copy]\nurl = \"http://{}\"\nuser = \"copier\"\npassword-file = \"password\"\n",
        target.server.address("")
    );
    std::fs::write(file, text).unwrap();
}

#[test]
fn credentials_are_of_one_side_each_and_a_refusal_names_the_side() {
    let (source, target) = (Secured::start(&["es8"], &[]), Secured::start(&["es8"], &[]));
    source.user(
        "follower",
        &json!({ "cluster": ["monitor", "manage"], "indices": [{ "names": ["a"], "privileges": ["follow_changes", "monitor", "view_index_metadata"] }] }),
    );
    target.user(
        "copier",
        &json!({ "indices": [{ "names": ["a"], "privileges": ["manage", "write"] }] }),
    );
    target.user("maker", &json!({ "indices": [{ "names": ["a"], "privileges": ["manage"] }] }));
    source.admin("PUT", "/a/_doc/1", json!({ "n": 1 }));
    let (from, to) = (url(&source.server), url(&target.server));
    let run = |target: &[&str], variables: &[(&str, &str)]| {
        let mut replicate = replicate(&from, target, &["--once", "--index", "a", "--restart"]);
        replicate.envs([("PLEACH_USER", "follower"), ("PLEACH_PASSWORD", PASSWORD)]);
        replicate.envs(variables.iter().copied());
        replicate
    };
    let password = ("PLEACH_TO_PASSWORD", PASSWORD);
    let of_target = ["--to", &to, "--to-user", "copier"];
    let flags_of_target = "--to-user, --to-api-key-file or --to-profile";
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 5] = [
        // The password of the source does not go to the target.
        (&of_target, &[], &["give it in PLEACH_TO_PASSWORD or with --to-password-file"]),
        (&of_target[..2], &[], &["the target answered [GET /] with 401"]),
        (
            &of_target,
            &[("PLEACH_TO_PASSWORD", "wrong")],
            &["the target answered [GET /] with 401", flags_of_target],
        ),
        (
            &of_target,
            &[password, ("PLEACH_PASSWORD", "wrong")],
            &["the source answered [", "with 401", "--user, --api-key-file"],
        ),
        // The right to write documents is missing.
        (
            &of_target[..2],
            &[("PLEACH_TO_USER", "maker"), password],
            &["the target answered [POST /_bulk] with 403", "lack this right"],
        ),
    ];
    for (target, variables, words) in cases {
        check_refusal(run(target, variables), words);
    }
    // The right to make the index is missing.
    target.admin("DELETE", "/a", Value::Null);
    source.admin("PUT", "/b/_doc/1", json!({ "n": 1 }));
    let mut of_b = replicate(&from, &of_target, &["--once", "--index", "b"]);
    of_b.envs([("PLEACH_USER", "admin"), ("PLEACH_PASSWORD", &source.admin), password]);
    check_refusal(of_b, &["the target answered [", "with 403"]);
    // A profile of the target has all of it.
    let profiles = target.folder.path().join("profiles.toml");
    write_profiles(&profiles, &target);
    let mut by_profile = run(&["--to-profile", "copy"], &[("PLEACH_PROFILES", profiles.to_str().unwrap())]);
    let done = by_profile.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    assert_eq!(target.admin("GET", "/a/_doc/1", Value::Null)["_source"], json!({ "n": 1 }));
}
