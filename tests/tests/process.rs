//! The process as such: signals, a second process on the same folder, addresses, import.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};
use tests::{Server, command};

#[test]
fn both_signals_end_it_in_order() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut server = Server::start(&data, &["es8"]);
        assert_eq!(server.send("PUT", "/i/_doc/1", r#"{"a":1}"#).unwrap().status, 201);
        // An idle kept connection must not hold it up.
        let idle = std::net::TcpStream::connect(server.address("")).unwrap();
        let asked = Instant::now();
        server.signal(signal);
        let status = server.wait(Duration::from_secs(10)).expect("it ends");
        assert_eq!(status.code(), Some(0), "after signal {signal}");
        assert!(asked.elapsed() < Duration::from_secs(3), "took {:?}", asked.elapsed());
        drop(idle);
        let again = Server::start(&data, &["es8"]);
        assert_eq!(again.send("GET", "/i/_doc/1", "").unwrap().body["_source"]["a"], 1);
    }
}

#[test]
fn a_closed_terminal_does_not_end_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(&folder.path().join("data"), &["es8"]);
    for _ in 0..3 {
        server.signal(libc::SIGHUP);
    }
    assert!(server.wait(Duration::from_millis(300)).is_none(), "it goes on");
    assert_eq!(server.send("GET", "/", "").unwrap().status, 200);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait(Duration::from_secs(10)).expect("it ends").code(), Some(0));
}

/// The binary under a limit of open files, soft and hard.
fn with_open_files(soft: u64, hard: u64) -> std::process::Command {
    use std::os::unix::process::CommandExt as _;
    let mut command = command();
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` is a valid `rlimit`; the call only reads it.
    let set = move || match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: between fork and exec only `setrlimit` is called, which is async-signal-safe.
    unsafe { command.pre_exec(set) };
    command
}

/// Clients that hold as many connections as there may be take no descriptor from the log and the segments.
#[test]
fn idle_connections_do_not_stop_writes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start_by(with_open_files(1024, 1024), &data, &["es8"], &["log.checkpoint_ops=50"], &[]);
    // One client that was there before; its connection stays open.
    let (mut writer, mut n) = (std::net::TcpStream::connect(server.address("")).unwrap(), 0);
    let mut write = |count: usize| {
        for _ in 0..count {
            n += 1;
            let body = format!("{{\"n\":{n},\"text\":\"{}\"}}", "word ".repeat(10_000));
            let head = "host: localhost\r\ncontent-type: application/json";
            let path = format!("/i/_doc/{n}?refresh=true");
            write!(
                writer,
                "PUT {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            let mut answer = [0; 4096];
            let read = writer.read(&mut answer).unwrap();
            let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
            assert!(answer.starts_with("HTTP/1.1 201"), "write {n}: {answer}");
        }
    };
    write(1);
    let idle: Vec<_> = (0..1000)
        .filter_map(|_| std::net::TcpStream::connect(server.address("")).ok())
        .collect();
    assert_eq!(idle.len(), 1000, "this machine lets a test hold a thousand connections");
    std::thread::sleep(Duration::from_millis(300));
    // Enough for checkpoints, merges and a new file of the log.
    write(120);
    drop(idle);
    write(1);
    let begun = Instant::now();
    while server.send("GET", "/i/_doc/1", "").map_or(0, |answer| answer.status) != 200 {
        assert!(begun.elapsed() < Duration::from_secs(10), "others are let in again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The soft limit is raised to the hard one, and the bound on connections follows.
#[test]
fn connections_follow_the_limit_of_open_files() {
    let folder = tempfile::tempdir().unwrap();
    for (n, (soft, hard, connections)) in [(256, 1024, 768), (64, 400, 300)].into_iter().enumerate() {
        let data = folder.path().join(n.to_string());
        let mut command = with_open_files(soft, hard);
        command
            .arg("serve")
            .arg("--print-config")
            .arg("--data")
            .arg(&data)
            .current_dir(folder.path());
        let printed = command.output().unwrap();
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        let line = format!("http.max_connections = \"{connections}\"");
        assert!(printed.contains(&line), "no [{line}] in\n{printed}");
    }
}

/// Everything below a folder that lets others in.
fn open_to_others(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut open = Vec::new();
    let is_open = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o077 != 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            open.extend(open_to_others(&path));
        } else if is_open(&path) {
            open.push(path);
        }
    }
    if is_open(folder) {
        open.push(folder.to_owned());
    }
    open
}

/// Also a folder that an older version left open is closed by a start; what is not ours there stays as it is.
#[test]
fn nobody_else_reads_the_data() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for round in 0..2 {
        let server = Server::start(&data, &["es8"]);
        assert_eq!(
            server.send("PUT", "/i/_doc/1?refresh=true", r#"{"a":1}"#).unwrap().status / 100,
            2
        );
        assert_eq!(server.send("POST", "/i/_flush", "").unwrap().status, 200);
        let others = data.join("notes.txt");
        let open = open_to_others(&data);
        assert!(open.iter().all(|path| *path == others), "round {round}: {open:?}");
        assert_eq!(open.len(), round);
        drop(server);
        std::fs::write(&others, "somebody's").unwrap();
        let mut all = vec![data.clone(), others];
        for below in ["log", "segments"] {
            all.push(data.join(below));
            all.extend(
                std::fs::read_dir(data.join(below))
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        all.extend(["manifest", "identity.json", "pleach.lock"].map(|name| data.join(name)));
        for path in all {
            let mode = if path.is_dir() { 0o755 } else { 0o644 };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

#[test]
fn a_second_process_is_refused_with_the_pid_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &["es8"]);
    let second = command()
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{words}");
    assert!(words.contains(&server.pid().to_string()), "{words}");
    assert!(words.starts_with("pleach: ") && words.lines().count() == 1, "{words}");
    assert_eq!(server.send("GET", "/", "").unwrap().status, 200);
}

fn check_refused(arguments: &[&str], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let done = command().args(arguments).current_dir(folder.path()).output().unwrap();
    let words = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{arguments:?}: {words}");
    assert!(words.contains(expected), "{arguments:?}: {words}");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "{arguments:?}: nothing is left behind"
    );
}

#[test]
fn what_cannot_be_served_is_refused_in_words() {
    check_refused(&["--listen", "0.0.0.0:0"], "refusing to listen");
    check_refused(&["--persona", "es4"], "did you mean");
    check_refused(&["-E", "clustr.name=x"], "did you mean [cluster.name]");
    check_refused(&["--config", "missing.toml"], "missing.toml");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    check_refused(
        &["--listen", &taken.local_addr().unwrap().to_string()],
        "in use by another process",
    );
}

#[test]
fn the_configuration_can_be_printed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pleach.toml"), "cluster.name = 'blue'\nhttp.port = 9301\n").unwrap();
    let done = command()
        .args(["--print-config"])
        .env("PLEACH_PERSONA", "es9")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(
        out.contains(r#"listen = ["127.0.0.1:9301=es9"]"#) && out.contains("(pleach.toml)\ncluster_name = \"blue\""),
        "{out}"
    );
}

#[test]
fn a_folder_is_imported_and_found() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("garden/beds")).unwrap();
    for (name, contents) in [
        ("garden/plan.txt", "hedge of hornbeam"),
        ("garden/beds/list.txt", "roses, hornbeam"),
        (".secret", "hornbeam"),
        ("pixel.bin", "a\0b"),
    ] {
        std::fs::write(tree.join(name), contents).unwrap();
    }
    let url = format!("http://{}", server.address(""));
    let import = |extra: &[&str]| {
        let done = command().args(["import", "--url", &url]).args(extra).output().unwrap();
        (
            done.status.code(),
            format!(
                "{}{}",
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            ),
        )
    };
    let tree = tree.to_str().unwrap();
    let (code, said) = import(&["--files", tree, "--dry-run"]);
    assert!(code == Some(0) && said.contains("would import 2 documents"), "{said}");
    assert_eq!(server.send("HEAD", "/fs", "").unwrap().status, 404, "a dry run sends nothing");
    let (code, said) = import(&["--files", tree]);
    assert!(
        code == Some(0) && said.contains("2 created, 0 updated, 0 failed") && said.contains("1 hidden, 1 binary"),
        "{said}"
    );
    let hits = |filter: &str| {
        let body = format!(
            r#"{{"query":{{"bool":{{"must":{{"match":{{"contents":"hornbeam"}}}},"filter":{{"term":{{{filter}}}}}}}}}}}"#
        );
        server.send("POST", "/fs/_search", &body).unwrap().body["hits"]["total"]["value"].clone()
    };
    assert_eq!(
        (hits(r#""path":"/garden""#), hits(r#""path.tree":"/garden""#)),
        (1.into(), 2.into())
    );
    // Trees and files can be locked by path.
    let locked = server.ok(
        "POST",
        "/_lock",
        &json!({ "targets": [{ "index": "fs", "path": "/garden" }] }),
    );
    let touch = |query: &str| {
        let update = json!({ "update": { "_index": "fs", "_id": "/garden/plan.txt", "doc": { "size": 1 } } });
        let change = json!({ "operations": [update] });
        server.call("POST", &format!("/_transaction{query}"), &change).status
    };
    let id = locked["id"].as_str().unwrap();
    assert_eq!(touch(""), 409, "somebody has locked its folder");
    assert_eq!(touch(&format!("?lock={id}")), 200);
    server.ok("DELETE", &format!("/_lock/{id}"), &Value::Null);
    let (code, said) = import(&["--files", tree, "--hidden", "--binary"]);
    assert!(code == Some(0) && said.contains("2 created, 2 updated"), "{said}");

    let lines = folder.path().join("lines.ndjson");
    std::fs::write(&lines, "{\"key\":\"a\",\"n\":1}\n\n{\"key\":\"b\",\"n\":2}\nnot json\n").unwrap();
    let (code, said) = import(&[lines.to_str().unwrap(), "--index", "lines", "--id", "key"]);
    assert!(
        code == Some(1) && said.contains("2 created, 0 updated, 1 failed") && said.contains("line 4"),
        "{said}"
    );
    assert_eq!(server.send("GET", "/lines/_doc/b", "").unwrap().body["_source"]["n"], 2);
}
