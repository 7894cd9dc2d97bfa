//! The commands that ask a running server: what they print, and how they end.
//!
//! Not here: `import` (`import`), `serve` and `check` (`process`, `control`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::{Server, command};

fn server(folder: &Path) -> Server {
    Server::start(&folder.join("data"), &["es8"])
}

/// The binary with a command and the server's URL behind its words.
fn client(server: &Server, words: &[&str]) -> Command {
    let mut command = command();
    let (own, rest) = words.split_at(if words[0] == "lock" { 2 } else { 1 });
    command
        .args(own)
        .arg("--url")
        .arg(format!("http://{}", server.address("es8")))
        .args(rest);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(server: &Server, words: &[&str], input: &str) -> (i32, String, String) {
    let mut child = client(server, words).stdin(Stdio::piped()).spawn().unwrap();
    // Who does not read it closes it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    told(child.wait_with_output().unwrap())
}

fn told(done: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

#[test]
fn documents_are_written_read_searched_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let check = |words: &[&str], input: &str, code: i32, out: &str, error: &str| {
        let (got, stdout, stderr) = run(&server, words, input);
        assert_eq!(got, code, "{words:?}: {stdout}{stderr}");
        assert!(stdout.contains(out), "{words:?}: {stdout}");
        assert!(stderr.contains(error), "{words:?}: {stderr}");
        stdout
    };
    let created = r#"{"_index":"books","_id":"a/1","result":"created","_version":1,"_seq_no":0,"_primary_term":1}"#;
    check(
        &["put", "books", "a/1", "--refresh"],
        r#"{"title":"quick fox","n":1}"#,
        0,
        created,
        "",
    );
    check(&["get", "books", "a/1"], "", 0, "{\"title\":\"quick fox\",\"n\":1}\n", "");
    check(&["get", "books", "a/1", "--meta"], "", 0, r#""_seq_no":0"#, "");
    check(
        &["get", "books", "a/1", "--output", "table"],
        "",
        0,
        "{\n  \"title\": \"quick fox\"",
        "",
    );
    check(&["get", "books", "2"], "", 3, "", "there is no document [2] in [books]");
    check(&["get", "nothing", "2"], "", 3, "", "no such index [nothing]");
    check(&["put", "books", "a/1", "--create"], "{}", 4, "", "version conflict");
    check(&["put", "books", "2"], "{", 1, "", "answered 400");
    check(
        &["put", "books", "2", "/no/such/file"],
        "",
        1,
        "",
        "[/no/such/file] cannot be read",
    );
    check(&["search", "books", "title:fox"], "", 0, r#""_id":"a/1""#, "");
    let table = check(
        &["search", "books", "title:fox", "--fields", "n", "--output", "table"],
        "",
        0,
        "",
        "1 of 1 hits",
    );
    assert!(
        table.starts_with("_index  _id  _score") && table.lines().nth(1).unwrap().ends_with("  1"),
        "{table}"
    );
    check(
        &["search", "books", "--body", "-"],
        r#"{"query":{"term":{"n":2}}}"#,
        0,
        "",
        "",
    );
    check(
        &["search", "books", "--body", "-"],
        r#"{"query":{"tem":{"n":2}}}"#,
        1,
        "",
        "unknown query [tem]",
    );
    check(&["count", "books", "n:1"], "", 0, "{\"count\":1}\n", "");
    check(&["count", "b*", "--output", "table"], "", 0, "1\n", "");
    check(
        &["indices"],
        "",
        0,
        r#"{"index":"books","health":"green","status":"open","docs.count":"1""#,
        "",
    );
    check(&["indices", "x*", "--output", "table"], "", 0, "index  health  status", "");
    let bulk = "{\"index\":{\"_id\":\"2\"}}\n{\"n\":2}\n{\"create\":{\"_id\":\"a/1\"}}\n{\"n\":3}";
    check(
        &["bulk", "-", "--index", "books"],
        bulk,
        1,
        r#""type":"version_conflict_engine_exception""#,
        "1 done, 1 failed",
    );
    check(&["bulk", "-", "--index", "books", "--atomic"], bulk, 4, "", "answered 409");
    check(
        &["bulk", "-"],
        "{\"index\":{\"_index\":\"books\",\"_id\":\"3\"}}\n{\"n\":3}\n",
        0,
        "",
        "1 done, 0 failed",
    );
    server.ok("POST", "/_refresh", &Value::Null);
    let exported = check(
        &["export", "books"],
        "",
        0,
        r#"{"_index":"books","_id":"a/1","_source":{"title":"quick fox","n":1}}"#,
        "3 documents",
    );
    assert_eq!(exported.lines().count(), 3);
    check(&["export", "books", "--query", "n:2"], "", 0, r#""_id":"2""#, "1 documents");
    check(&["export", "missing"], "", 3, "", "no such index [missing]");
    // What was exported is imported.
    let file = folder.path().join("books.ndjson");
    std::fs::write(&file, &exported).unwrap();
    let (code, _, errors) = run(&server, &["import", file.to_str().unwrap(), "--index", "again"], "");
    assert_eq!(code, 0, "{errors}");
    server.ok("POST", "/_refresh", &Value::Null);
    check(&["count", "again"], "", 0, "{\"count\":3}\n", "");
    // Scrolls are closed behind an export.
    let stats = server.ok("GET", "/_nodes/stats/indices/search", &Value::Null);
    assert!(stats.to_string().contains(r#""open_contexts":0"#), "{stats}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let done = command()
        .args(["count", "x", "--url", "http://127.0.0.1:1"])
        .output()
        .unwrap();
    let (code, _, errors) = told(done);
    assert_eq!(code, 1);
    assert!(
        errors.contains("no answer from the server at [127.0.0.1:1]") && errors.contains("--url"),
        "{errors}"
    );
    let done = command().args(["cuont", "x"]).output().unwrap();
    let (code, _, errors) = told(done);
    assert_eq!(code, 2);
    assert!(errors.contains("'count'"), "{errors}");
}

/// Waits for a file, and reads it.
fn file(path: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(text) = std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n')) {
            return text.trim().to_owned();
        }
        assert!(Instant::now() < until, "no {}", path.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command under the lock `x` that writes a file, then sleeps.
fn holder(server: &Server, path: &Path, flags: &[&str]) -> Child {
    let script = format!(
        "echo $$ $PLEACH_FENCING_TOKEN $PLEACH_LOCK_ID > {0}.part; mv {0}.part {0}; sleep 60",
        path.display()
    );
    let words = [&["lock", "run", "--name", "x"], flags, &["--", "sh", "-c", script.as_str()]].concat();
    client(server, &words).spawn().unwrap()
}

/// Whether a process has ended; one that nobody has waited for counts.
fn has_ended(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    status.map_or(true, |text| {
        text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
    })
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn locks(server: &Server) -> usize {
    server.ok("GET", "/_lock", &Value::Null)["locks"].as_array().unwrap().len()
}

#[test]
fn a_command_runs_while_a_lock_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let (code, out, _) = run(
        &server,
        &[
            "lock",
            "run",
            "--name",
            "x",
            "--",
            "sh",
            "-c",
            "echo $PLEACH_FENCING_TOKEN; exit 7",
        ],
        "",
    );
    assert_eq!(code, 7, "the command's own code");
    let first: u64 = out.trim().parse().unwrap();
    assert_eq!(locks(&server), 0, "the lock is given back");
    let (code, _, _) = run(&server, &["lock", "run", "--name", "x", "--", "sh", "-c", "kill -9 $$"], "");
    assert_eq!(code, 128 + 9);
    let (code, _, errors) = run(&server, &["lock", "run", "--name", "x", "--", "/no/such/command"], "");
    assert_eq!((code, locks(&server)), (1, 0));
    assert!(errors.contains("[/no/such/command] cannot be started"), "{errors}");
    let path = folder.path().join("held");
    let mut held = holder(&server, &path, &["--keep-alive", "2s", "--owner", "nightly"]);
    let words = file(&path);
    let words: Vec<&str> = words.split(' ').collect();
    assert!(words[1].parse::<u64>().unwrap() > first, "tokens rise: {words:?}");
    // Nobody else has it, also after its time, because it is renewed.
    for _ in 0..2 {
        let (code, _, errors) = run(
            &server,
            &["lock", "run", "--name", "x", "--timeout", "1500ms", "--", "true"],
            "",
        );
        assert_eq!(code, 75, "{errors}");
        assert!(errors.contains("nightly"), "{errors}");
    }
    // A signal goes to the command, and the lock is given back.
    let pid = i32::try_from(held.id()).unwrap();
    // SAFETY: it touches no memory.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    assert_eq!(held.wait().unwrap().code(), Some(128 + libc::SIGTERM));
    wait_until("the command ends", || has_ended(words[0]));
    assert_eq!(locks(&server), 0);
}

#[test]
fn a_command_ends_when_its_lock_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    // Somebody breaks the lock.
    let path = folder.path().join("broken");
    let held = holder(&server, &path, &["--keep-alive", "1s"]);
    let words = file(&path);
    let words: Vec<&str> = words.split(' ').collect();
    server.ok("POST", &format!("/_lock/{}/_break", words[2]), &Value::Null);
    let (code, _, errors) = told(held.wait_with_output().unwrap());
    assert_eq!(code, 76, "{errors}");
    assert!(errors.contains("was lost and the command was ended"), "{errors}");
    wait_until("the command ends", || has_ended(words[0]));
    // The holder is killed.
    let path = folder.path().join("killed");
    let mut held = holder(&server, &path, &["--keep-alive", "1s"]);
    let words = file(&path);
    held.kill().unwrap();
    held.wait().unwrap();
    wait_until("the command ends with who holds its lock", || {
        has_ended(words.split(' ').next().unwrap())
    });
    // The server stands still: the command ends before the lock could be somebody else's.
    let path = folder.path().join("silent");
    let (code, _, _) = run(&server, &["lock", "run", "--name", "x", "--timeout", "5s", "--", "true"], "");
    assert_eq!(code, 0, "the lock of the killed one ends by itself");
    let begun = Instant::now();
    let held = holder(&server, &path, &["--keep-alive", "3s", "--grace", "200ms"]);
    file(&path);
    server.signal(libc::SIGSTOP);
    let (code, _, errors) = told(held.wait_with_output().unwrap());
    let took = begun.elapsed();
    server.signal(libc::SIGCONT);
    assert_eq!(code, 76, "{errors}");
    assert!(
        errors.contains("does not answer") && took < Duration::from_secs(8),
        "{took:?}: {errors}"
    );
}

#[test]
fn shells_and_man_know_every_command() {
    let print = |words: &[&str]| {
        let done = command().args(words).output().unwrap();
        assert!(done.status.success(), "{words:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let page = print(&["man"]);
    let commands = [
        "cert",
        "serve",
        "import",
        "check",
        "get",
        "put",
        "search",
        "count",
        "indices",
        "tasks",
        "top",
        "bulk",
        "export",
        "changes",
        "replicate",
        "lock run",
    ];
    for command in commands {
        let section = format!(".SH \"PLEACH {}\"", command.to_uppercase());
        assert!(page.contains(&section), "no {section} in {page}");
    }
    assert!(
        page.contains(".TH pleach 1") && page.contains("FENCING") && page.contains("pleach lock\n"),
        "{page}"
    );
    for shell in ["bash", "zsh", "fish"] {
        let script = print(&["completions", shell]);
        assert!(
            ["export", "indices", "keep-alive", "log-level"]
                .iter()
                .all(|word| script.contains(word)),
            "{shell}"
        );
    }
    let version = print(&["--version"]);
    assert!(
        version.starts_with(concat!("pleach ", env!("CARGO_PKG_VERSION"), " (")),
        "{version}"
    );
    let table = print(&["--help"]);
    assert!(commands[..15].iter().all(|command| table.contains(command)), "{table}");
}

#[test]
fn tasks_are_listed_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let lines: String = (0..2000).map(|n| format!("{{\"index\":{{}}}}\n{{\"n\":{n}}}\n")).collect();
    let answer = server.send("POST", "/numbers/_bulk?refresh=true", &lines).unwrap();
    assert_eq!(answer.body["errors"], false);
    let address = server.address("es8").to_owned();
    // Longer than the test takes: it ends because it is told to.
    let script = "long x = 0; for (int i = 0; i < 100000; i++) { x += i } return x > 0";
    let body = serde_json::json!({ "query": { "script": { "script": { "source": script } } } }).to_string();
    let search = std::thread::spawn(move || {
        let headers = [("x-opaque-id".to_owned(), "nightly".to_owned())];
        tests::send(&address, "POST", "/numbers/_search", &headers, body.as_bytes())
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    let task = loop {
        let (code, out, errors) = run(&server, &["tasks", "--actions", "*search"], "");
        assert_eq!(code, 0, "{errors}");
        let rows = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        if let Some(row) = rows.into_iter().find(|row| row["x_opaque_id"] == "nightly") {
            assert_eq!(
                (&row["action"], &row["cancellable"]),
                (&"indices:data/read/search".into(), &true.into()),
                "{row}"
            );
            break row["task"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < deadline, "the search is a task: {out}");
    };
    let (code, out, errors) = run(&server, &["tasks", "--output", "table"], "");
    assert!(code == 0 && out.starts_with("task") && out.contains(&task), "{out}{errors}");
    let (code, out, errors) = run(&server, &["tasks", "--cancel", &task], "");
    assert!(code == 0 && out == format!("[{task}] ends\n"), "{out}{errors}");
    let answer = search.join().unwrap().unwrap();
    assert!(answer.text.contains("task_cancelled_exception"), "{}", answer.text);
    for (id, code, reason) in [
        ("nonsense", 1, "malformed task id"),
        ("nowhere:1", 3, "No such node [nowhere]"),
        ("-Xu5:1", 3, "No such node [-Xu5]"),
    ] {
        let (got, out, errors) = run(&server, &["tasks", "--cancel", id], "");
        assert!(got == code && errors.contains(reason), "{id}: {got} {out}{errors}");
    }
}

#[test]
fn top_shows_rates_and_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    server.ok("PUT", "/busy/_doc/1?refresh=true", &serde_json::json!({ "n": 1 }));
    let (over, address) = (Arc::new(AtomicBool::new(false)), server.address("es8").to_owned());
    let stop = over.clone();
    let writer = std::thread::spawn(move || {
        while !stop.load(Ordering::Acquire) {
            tests::send(&address, "PUT", "/busy/_doc/1", &[], br#"{"n":2}"#).unwrap();
            tests::send(&address, "GET", "/busy/_search", &[], b"").unwrap();
        }
    });
    let (code, out, errors) = run(&server, &["top", "--rounds", "2", "--interval", "300ms"], "");
    let (table_code, table, _) = run(
        &server,
        &["top", "--rounds", "1", "--interval", "300ms", "--output", "table"],
        "",
    );
    over.store(true, Ordering::Release);
    writer.join().unwrap();
    assert_eq!((code, out.lines().count()), (0, 2), "{out}{errors}");
    for line in out.lines() {
        let round: Value = serde_json::from_str(line).unwrap();
        let busy = &round["indices"][0];
        assert_eq!(busy["index"], "busy", "{line}");
        for rate in ["writes/s", "searches/s"] {
            assert!(busy[rate].as_f64().is_some_and(|rate| rate > 0.0), "{rate}: {line}");
        }
        assert!(
            round["memory_in_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20),
            "{line}"
        );
    }
    assert!(
        table_code == 0 && table.contains("index  docs  writes/s") && table.contains("busy"),
        "{table}"
    );
    for (flags, code, reason) in [
        (["--interval", "1ms"], 1, "the least is [100ms]"),
        (["--interval", "soon"], 1, "[soon]"),
        (["--rounds", "many"], 2, "invalid value 'many'"),
    ] {
        let (got, out, errors) = run(&server, &[&["top"], &flags[..]].concat(), "");
        assert!(got == code && errors.contains(reason), "{flags:?}: {got} {out}{errors}");
    }
}

#[test]
fn profiles_name_servers() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let url = format!("http://{}", server.address("es8"));
    let file = folder.path().join("profiles.toml");
    std::fs::write(
        &file,
        format!("[default]\nurl = \"{url}\"\n[other]\nurl = \"http://127.0.0.1:1\"\n"),
    )
    .unwrap();
    let check = |words: &[&str], variables: &[(&str, &str)], code: i32, expected: &str| {
        let mut command = command();
        command
            .args(words)
            .env("PLEACH_PROFILES", &file)
            .envs(variables.iter().copied());
        let (got, out, errors) = told(command.output().unwrap());
        assert!(
            got == code && format!("{out}{errors}").contains(expected),
            "{words:?}: {got} {out}{errors}"
        );
    };
    check(&["indices"], &[], 0, "");
    check(&["indices", "--profile", "default"], &[], 0, "");
    check(&["indices", "--profile", "other"], &[], 1, "127.0.0.1:1");
    check(&["indices"], &[("PLEACH_PROFILE", "other")], 1, "127.0.0.1:1");
    check(&["indices", "--profile", "other", "--url", &url], &[], 0, "");
    check(&["indices", "--profile", "othr"], &[], 1, "did you mean [other]?");
    check(
        &["indices"],
        &[("PLEACH_PROFILES", "/no/such/file"), ("PLEACH_PROFILE", "a")],
        1,
        "/no/such/file",
    );
    std::fs::write(&file, "[default]\npassword = \"x\"\n").unwrap();
    check(&["indices"], &[], 1, "unknown field `password`");
    check(&["indices", "--url", &url], &[], 0, "");
}
