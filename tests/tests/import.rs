//! `pleach import` of lines: documents, bulk requests and dumps, through the real binary.
//!
//! Not here: folders of files (`process.rs`), the reading of single lines (`crates/server/src/commands/import/lines.rs`).

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use tempfile::TempDir;
use tests::{Server, command};

/// A server, and a folder for files.
struct Bench {
    folder: TempDir,
    server: Server,
}

/// The exit code, what was printed as the result, and what as an error.
struct Done {
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start(&folder.path().join("data"), &["es8"]);
        Bench { folder, server }
    }

    /// Imports a file of this text.
    fn import(&self, text: impl AsRef<[u8]>, flags: &[&str]) -> Done {
        self.import_to(self.server.address(""), text, flags)
    }

    /// The same over another address.
    fn import_to(&self, address: &str, text: impl AsRef<[u8]>, flags: &[&str]) -> Done {
        let file: PathBuf = self.folder.path().join("lines.ndjson");
        std::fs::write(&file, text).expect("the file can be written");
        let url = format!("http://{address}");
        let mut command = command();
        command.args(["import", "--url", &url]).args(flags).arg(&file);
        let done = command.output().expect("the binary runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Done {
            code: done.status.code(),
            out: text(&done.stdout),
            errors: text(&done.stderr),
        }
    }

    /// The same; it is to be a success whose report holds this.
    fn imported(&self, text: impl AsRef<[u8]>, flags: &[&str], expected: &str) -> String {
        let done = self.import(text, flags);
        assert!(
            done.code == Some(0) && done.out.contains(expected),
            "{:?} {}{}",
            done.code,
            done.out,
            done.errors
        );
        done.out
    }

    fn source(&self, path: &str) -> Value {
        self.server.ok("GET", path, &Value::Null)["_source"].clone()
    }

    fn count(&self, index: &str) -> Value {
        self.server.ok("GET", &format!("/{index}/_count"), &Value::Null)["count"].clone()
    }
}

#[test]
fn operations_of_a_bulk_file() {
    let bench = Bench::new();
    // A byte order mark, ends of lines as on Windows, an empty line, no end of the last line.
    let text = "\u{feff}{\"index\":{\"_index\":\"other\",\"_type\":\"t\",\"_id\":\"1\"}}\r\n{\"n\":1}\r\n\r\n\
                {\"create\":{\"_id\":\"2\",\"_routing\":\"r\"}}\r\n{\"n\":2}\r\n\
                {\"index\":{}}\r\n{\"n\":3}\r\n\
                {\"update\":{\"_id\":\"1\"}}\r\n{\"doc\":{\"n\":10}}\r\n\
                {\"delete\":{\"_id\":\"2\",\"routing\":\"r\"}}\r\n\
                {\"delete\":{\"_id\":\"none\"}}";
    let said = bench.imported(text, &["--index", "bulk"], "3 created, 1 updated, 0 failed");
    assert!(
        said.contains("1 deleted, 1 not found") && said.contains("left out: 1 types"),
        "{said}"
    );
    assert_eq!(bench.source("/bulk/_doc/1"), json!({ "n": 10 }));
    assert_eq!(bench.count("bulk"), 2);
    assert_eq!(bench.server.call("HEAD", "/other", &Value::Null).status, 404, "--index wins");
    // `create` a second time is a refusal of that line alone.
    let done = bench.import(
        "{\"index\":{\"_id\":\"9\"}}\n{\"n\":9}\n{\"create\":{\"_id\":\"9\"}}\n{\"n\":9}\n",
        &["--index", "bulk"],
    );
    assert!(
        done.code == Some(1) && done.out.contains("failed: line 3: ") && done.out.contains("1 created, 0 updated, 1 failed"),
        "{}{}",
        done.out,
        done.errors
    );
    let done = bench.import("{\"index\":{\"_id\":\"9\"}}\n{\"n\":9}\n", &["--index", "bulk", "--id", "n"]);
    assert!(
        done.code == Some(1) && done.errors.contains("leave out --id"),
        "{}",
        done.errors
    );
    // The first line can be a document that only looks like an operation.
    bench.imported(
        "{\"index\":{}}\n{\"index\":{}}\n",
        &["--index", "odd", "--form", "documents"],
        "2 created",
    );
}

#[test]
fn hits_of_a_dump() {
    let bench = Bench::new();
    let text = "{\"_index\":\"posts\",\"_type\":\"post\",\"_id\":\"a\",\"_score\":1,\"_source\":{\"title\":\"x\"}}\n\
                {\"_index\":\"users\",\"_type\":\"user\",\"_id\":\"b\",\"_routing\":\"r\",\"_source\":{\"name\":\"y\"}}\n";
    let said = bench.imported(text, &[], "2 created, 0 updated, 0 failed");
    assert!(said.contains("left out: 2 types"), "{said}");
    assert_eq!(bench.source("/posts/_doc/a"), json!({ "title": "x" }));
    let user = bench.server.ok("GET", "/users/_doc/b?routing=r", &Value::Null);
    assert_eq!((&user["_routing"], &user["_source"]), (&json!("r"), &json!({ "name": "y" })));
    assert_eq!(bench.count("posts,users"), 2, "both are refreshed");
    bench.imported(text, &["--index", "both"], "2 created");
    assert_eq!(bench.count("both"), 2);
    bench.imported(text, &["--index", "both", "--dry-run"], "would import 2 documents");
}

#[test]
fn documents_with_ids_of_their_own() {
    let bench = Bench::new();
    let text = "\u{feff}{\"_id\":\"1\",\"_routing\":\"r\",\"title\":\"x\",\"price\":1.50}\r\n{\"_id\":2,\"title\":\"y\"}\r\n";
    bench.imported(text, &["--index", "docs"], "2 created, 0 updated, 0 failed");
    bench.imported(text, &["--index", "docs"], "0 created, 2 updated, 0 failed");
    let one = bench.server.ok("GET", "/docs/_doc/1?routing=r", &Value::Null);
    assert_eq!(one["_source"], json!({ "title": "x", "price": 1.5 }));
    assert_eq!(bench.source("/docs/_doc/2"), json!({ "title": "y" }));
}

/// One refusal, in one line, and nothing else.
fn check_stopped(done: &Done, expected: &[&str]) {
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.errors);
    assert_eq!((done.out.as_str(), done.errors.lines().count()), ("", 1), "{}", done.errors);
    for expected in expected {
        assert!(done.errors.contains(expected), "[{expected}]: {}", done.errors);
    }
}

#[test]
fn what_concerns_every_line_stops_at_the_first() {
    let bench = Bench::new();
    let stopped = |text: &str, flags: &[&str], expected: &[&str]| check_stopped(&bench.import(text, flags), expected);
    stopped("[\n7\n]\n", &["--index", "i"], &["element 1: not a JSON object"]);
    stopped(
        "[{\"a\":1}]",
        &["--index", "i", "--form", "bulk"],
        &["element 1: operations of a bulk request stand on lines"],
    );
    stopped(
        "a,,b\n",
        &["--index", "i", "--form", "csv"],
        &["line 1: column 2 has no name"],
    );
    stopped(
        "a,b\n1\n",
        &["--index", "i", "--form", "csv"],
        &["line 2: it has [1] cells, and the head names [2]"],
    );
    stopped(
        "\n{\n \"a\": 1\n}\n",
        &["--index", "i"],
        &["line 2: the JSON object does not end", "jq -c ."],
    );
    stopped("a,b\n1,2\n", &["--index", "i"], &["line 1: not a JSON object"]);
    stopped("{\"a\":1}\n", &[], &["line 1: it names no index", "--index NAME"]);
    stopped(
        "{\"a\":1}\n{\"a\":2}\n",
        &["--index", "i", "--id", "b"],
        &["line 1: no string or number in the field [b]"],
    );
    assert_eq!(bench.server.call("HEAD", "/i", &Value::Null).status, 404, "nothing was sent");
    // The server refuses each document for the same reason: one message, not 5,000.
    bench
        .server
        .ok("PUT", "/blocked", &json!({ "settings": { "index.blocks.write": true } }));
    let many: String = (0..5000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    stopped(
        &many,
        &["--index", "blocked"],
        &["line 1: ", "blocked", "5000 of 5000 documents", "run the command again"],
    );
    stopped(&many, &["--index", "_bad"], &["line 1: ", "_bad"]);
}

#[test]
fn other_refusals_are_bounded_in_print() {
    let bench = Bench::new();
    let mut text = String::from("{\"n\":0}\n");
    text.extend((1..=50).map(|n| format!("{{\"n\":\"word{n}\"}}\n")));
    text.push_str("{\"n\":51}\nnot json\n{\"n\":52}\n");
    let done = bench.import(&text, &["--index", "mixed"]);
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.errors);
    assert_eq!(
        done.out.lines().filter(|l| l.starts_with("failed: ")).count(),
        10,
        "{}",
        done.out
    );
    assert!(done.out.contains("… and 41 more failures"), "{}", done.out);
    assert!(done.out.contains("3 created, 0 updated, 51 failed"), "{}", done.out);
    assert!(done.out.contains("line 53: not a JSON object"), "{}", done.out);
}

#[test]
fn arrays_tables_and_standard_input() {
    let bench = Bench::new();
    let mapped = |index: &str, field: &str| {
        let answer = bench.server.ok("GET", &format!("/{index}/_mapping"), &Value::Null);
        answer[index]["mappings"]["properties"][field]["type"].clone()
    };
    bench.imported(
        "\u{feff}[ {\"_id\":\"a\",\n \"n\": 1}, {\"_id\":\"b\"} ]\n",
        &["--index", "array"],
        "2 created",
    );
    assert_eq!(bench.source("/array/_doc/a"), json!({ "n": 1 }));
    let table = "_id,name,zip,n\n1,\"Hedges, \"\"tall\"\"\",01234,7\n2,,x,8\n3,short\n";
    let done = bench.import(table, &["--index", "table", "--form", "csv"]);
    assert_eq!(done.code, Some(1), "{}", done.errors);
    assert!(
        done.out.contains("failed: line 4: it has [2] cells, and the head names [4]"),
        "{}",
        done.out
    );
    assert_eq!(
        bench.source("/table/_doc/1"),
        json!({ "name": "Hedges, \"tall\"", "zip": "01234", "n": 7 })
    );
    assert_eq!(bench.source("/table/_doc/2"), json!({ "zip": "x", "n": 8 }));
    assert_eq!((mapped("table", "n"), mapped("table", "zip")), (json!("long"), json!("text")));
    bench.imported(
        "a;b\n1;2\n",
        &["--index", "texts", "--form", "csv", "--delimiter", ";", "--texts"],
        "1 created",
    );
    assert_eq!(mapped("texts", "b"), "text");
    let bad = bench.import("a\n", &["--index", "i", "--form", "csv", "--delimiter", ";;"]);
    assert_eq!(bad.code, Some(2), "{}", bad.errors);
    // A packed table on standard input.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"a\tb\n1\t2\n").expect("memory takes it");
    let packed = packed.finish().expect("memory takes it");
    let url = format!("http://{}", bench.server.address(""));
    let mut child = command()
        .args(["import", "--url", &url, "--index", "stdin", "--form", "tsv", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child
        .stdin
        .take()
        .expect("it is piped")
        .write_all(&packed)
        .expect("it is read");
    let done = child.wait_with_output().expect("it ends");
    assert!(
        done.status.success() && String::from_utf8_lossy(&done.stdout).contains("1 created"),
        "{done:?}"
    );
    assert_eq!(mapped("stdin", "b"), "long");
}

#[test]
fn an_import_goes_on_where_it_was_interrupted() {
    let bench = Bench::new();
    let pad = "x".repeat(900);
    let progress = bench.folder.path().join("progress");
    let progress = progress.to_str().expect("it is text");
    for (index, head) in [("lines", ""), ("operations", "{\"index\":{}}\n")] {
        let line = |n: u64| format!("{head}{}\n", json!({ "n": n, "pad": pad }));
        let text: String = (0..15_000).map(line).collect();
        let flags = ["--index", index, "--resume", progress];
        let address = breaking_after(bench.server.address(""), 12 << 20);
        let broken = bench.import_to(&address, &text, &flags);
        assert_eq!(broken.code, Some(1), "{}{}", broken.out, broken.errors);
        // What was answered is known; one request may be sent again, under the same ids.
        let other = bench.import_to(
            bench.server.address(""),
            &text,
            &["--index", index, "--resume", "/no/folder/progress"],
        );
        assert!(
            other.code == Some(1) && other.errors.contains("/no/folder/progress"),
            "{}",
            other.errors
        );
        let report = bench.imported(&text, &flags, "done before");
        let created = |report: &str| -> u64 {
            let number = report
                .split(" created")
                .next()
                .and_then(|text| text.rsplit(['\n', ' ']).next());
            number
                .and_then(|number| number.parse().ok())
                .unwrap_or_else(|| panic!("{report}"))
        };
        assert!(
            created(&broken.out) > 5000 && created(&report) < 10_000,
            "{}{report}",
            broken.out
        );
        assert_eq!(bench.count(index), 15_000, "no document is missing, and none is there twice");
        assert!(
            !std::path::Path::new(progress).exists(),
            "an import that is done leaves nothing"
        );
    }
    std::fs::write(progress, "{\"source\":\"other\",\"import\":\"1\",\"place\":\"beginning\"}").expect("it is written");
    let other = bench.import("{\"n\":1}\n", &["--index", "i", "--resume", progress]);
    assert!(other.code == Some(1) && other.errors.contains("[other]"), "{}", other.errors);
}

#[test]
fn files_that_patterns_leave_out() {
    let bench = Bench::new();
    let folder = bench.folder.path().join("repository");
    for (file, text) in [
        (".gitignore", "*.log\n/target\n"),
        ("a.txt", "a"),
        ("a.log", "l"),
        ("target/b.txt", "b"),
        ("sub/.gitignore", "!kept.log\n"),
        ("sub/kept.log", "k"),
        ("sub/c.log", "c"),
        ("sub/target/d.txt", "d"),
        ("sub/e.rst", "e"),
    ] {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    std::fs::create_dir(folder.join(".git")).expect("a folder");
    let check = |of: &str, flags: &[&str], expected: &[&str]| {
        let url = format!("http://{}", bench.server.address(""));
        bench.server.call("DELETE", "/fs", &Value::Null);
        let mut command = command();
        command
            .args(["import", "--url", &url, "--files"])
            .arg(folder.join(of))
            .args(flags);
        let done = command.output().expect("the binary runs");
        assert!(done.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&done.stderr));
        let found = bench.server.ok("GET", "/fs/_search?size=100", &Value::Null);
        let mut ids: Vec<&str> = found["hits"]["hits"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|hit| hit["_id"].as_str())
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, expected, "{of} {flags:?}");
    };
    check("", &[], &["/a.txt", "/sub/e.rst", "/sub/kept.log", "/sub/target/d.txt"]);
    check("", &["--exclude", "*.txt", "--exclude", "/sub/kept.*"], &["/sub/e.rst"]);
    check(
        "",
        &["--ignored"],
        &[
            "/a.log",
            "/a.txt",
            "/sub/c.log",
            "/sub/e.rst",
            "/sub/kept.log",
            "/sub/target/d.txt",
            "/target/b.txt",
        ],
    );
    // The patterns of the folders above it hold, too.
    check("sub", &[], &["/e.rst", "/kept.log", "/target/d.txt"]);
    let url = format!("http://{}", bench.server.address(""));
    let bad = command()
        .args(["import", "--url", &url, "--files"])
        .arg(&folder)
        .args(["--exclude", "a{b"])
        .output()
        .expect("it runs");
    assert!(
        String::from_utf8_lossy(&bad.stderr).contains("[a{b] is no pattern"),
        "{bad:?}"
    );
}

/// A way to the server that breaks, for good, once the client has sent so many bytes.
fn breaking_after(server: &str, bytes: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let server = server.to_owned();
    std::thread::spawn(move || {
        let mut left = bytes;
        while let Ok((client, _)) = listener.accept() {
            let there = TcpStream::connect(&server).expect("the server listens");
            let (mut answers, mut back) = (there.try_clone().expect("a handle"), client.try_clone().expect("a handle"));
            let answering = std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            let sent = std::io::copy(&mut (&client).take(left as u64), &mut &there).unwrap_or(0);
            left -= usize::try_from(sent).expect("it fits");
            for stream in [&client, &there] {
                let _ = stream.shutdown(Shutdown::Both);
            }
            let _ = answering.join();
            if left == 0 {
                return;
            }
        }
    });
    address
}

/// A connection that breaks in the middle ends the import with 1; it says where, how many documents are there, and what is
/// not known.
#[test]
fn a_connection_that_breaks_is_told_with_what_is_there() {
    let bench = Bench::new();
    let pad = "x".repeat(900);
    for (index, with_ids, hint) in [("ids", true, "writes them once"), ("none", false, "written twice")] {
        let line = |n: u64| match with_ids {
            true => json!({ "_id": n.to_string(), "n": n, "pad": pad }).to_string(),
            false => json!({ "n": n, "pad": pad }).to_string(),
        };
        // Some 14 MB: two requests are answered, the third breaks.
        let text: String = (0..15_000).map(|n| line(n) + "\n").collect();
        let address = breaking_after(bench.server.address(""), 12 << 20);
        let done = bench.import_to(&address, &text, &["--index", index]);
        assert_eq!(done.code, Some(1), "{}{}", done.out, done.errors);
        for expected in [&address, "documents from [", "was not answered", hint] {
            assert!(done.errors.contains(expected), "no [{expected}]: {}", done.errors);
        }
        bench.server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
        let there = bench.count(index).as_u64().expect("a count");
        assert!(there > 5000, "{there}");
        assert!(done.out.contains(&format!("{there} created")), "{there}: {}", done.out);
    }
}

#[test]
fn help_and_exit_codes() {
    let help = command().args(["import", "--help"]).output().expect("the binary runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for expected in [
        "documents",
        "bulk",
        "dump",
        "--form",
        "The exit code is 0",
        "2 if a flag cannot be read",
    ] {
        assert!(help.contains(expected), "[{expected}]: {help}");
    }
    let unknown = command().args(["import", "--indx", "i"]).output().expect("the binary runs");
    assert_eq!(unknown.status.code(), Some(2));
    let page = std::fs::read_to_string(tests::root().join("docs/import.md")).expect("the page is there");
    let first = help.lines().filter_map(|line| line.split_whitespace().next());
    let flags = first.filter(|word| word.starts_with("--"));
    for flag in flags.filter(|flag| !["--help", "--version"].contains(flag)) {
        assert!(page.contains(flag), "docs/import.md does not name [{flag}]");
    }
}
