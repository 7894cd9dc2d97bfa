//! Unmodified clients from their registries against the real binary: each program in `clients/` does what programs do with its
//! client, and fails at the first answer that the client does not take.
//!
//! Each client is installed into the target folder, once for what its lock file says; the package managers are found on the
//! path. Where one cannot be had its test is skipped, and says so; with `PLEACH_REQUIRE_CLIENTS=1` that is a failure, with 0 none
//! is tried.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tests::installed::{INSTALL_MAX, cache, install_once, python, run};
use tests::{Server, root};

/// How long a program may take.
const RUN_MAX: Duration = Duration::from_secs(180);

/// The folder of the programs.
fn sources() -> PathBuf {
    root().join("tests/clients")
}

/// A server with one listener, in a folder of its own.
fn served(persona: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[persona]);
    (server, folder)
}

/// A program must end well, and say what it was.
fn succeeds(command: &mut Command) {
    match run(command, RUN_MAX) {
        Ok(out) => eprintln!("{}", String::from_utf8_lossy(&out.stdout).trim()),
        Err(why) => panic!("{why}"),
    }
}

fn check_python(client: &str, persona: &str, program: &str) {
    let folder = sources().join("python");
    let Some(home) = python(&format!("python-{client}"), &folder.join(format!("{client}.txt"))) else {
        return;
    };
    let (server, _folder) = served(persona);
    let mut program_of = Command::new(home.join("bin/python"));
    program_of.args(["-W", "ignore"]).arg(folder.join(program));
    succeeds(program_of.arg(format!("http://{}", server.address(""))));
}

#[test]
fn elasticsearch_py_2_4() {
    check_python("elasticsearch-2.4", "es2", "flow_2.py");
}

#[test]
fn elasticsearch_py_7_17() {
    check_python("elasticsearch-7.17", "es7", "flow.py");
}

#[test]
fn elasticsearch_py_8() {
    check_python("elasticsearch-8", "es8", "flow.py");
}

#[test]
fn elasticsearch_py_9() {
    check_python("elasticsearch-9", "es9", "flow.py");
}

#[test]
fn opensearch_py_3() {
    check_python("opensearch-3", "opensearch3", "flow.py");
}

/// The packages of a `package-lock.json`, and the files of the program beside them.
fn node(name: &str) -> Option<PathBuf> {
    let folder = sources().join(name);
    let home = install_once(name, &folder.join("package-lock.json"), |home| {
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(folder.join(file), home.join(file)).map_err(|e| e.to_string())?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(home);
        run(&mut npm, INSTALL_MAX).map(drop)
    })?;
    Some(home)
}

#[test]
fn elasticsearch_js_8() {
    let Some(home) = node("elasticsearch-js-8") else { return };
    std::fs::copy(sources().join("elasticsearch-js-8/flow.js"), home.join("flow.js")).unwrap();
    let (server, _folder) = served("es8");
    succeeds(
        Command::new("node")
            .arg(home.join("flow.js"))
            .arg(format!("http://{}", server.address(""))),
    );
}

#[test]
fn elasticdump_there_and_back() {
    let Some(home) = node("elasticdump") else { return };
    let (server, folder) = served("es7");
    let bulk: String = (0..500)
        .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"text\":\"document {n}\"}}\n"))
        .collect();
    let mapping = r#"{"mappings":{"properties":{"n":{"type":"long"},"text":{"type":"keyword"}}}}"#;
    assert_eq!(server.send("PUT", "/there", mapping).unwrap().status, 200);
    assert_eq!(server.send("POST", "/there/_bulk?refresh=true", &bulk).unwrap().status, 200);
    let address = format!("http://{}", server.address(""));
    for (from, to) in [("there", ""), ("", "back")] {
        for kind in ["mapping", "data"] {
            let file = folder.path().join(format!("{kind}.json")).display().to_string();
            let place = |index: &str| match index {
                "" => file.clone(),
                index => format!("{address}/{index}"),
            };
            let mut dump = Command::new("node");
            dump.arg(home.join("node_modules/elasticdump/bin/elasticdump"))
                .args([format!("--input={}", place(from)), format!("--output={}", place(to))])
                .args([format!("--type={kind}"), "--limit=200".to_owned(), "--quiet".to_owned()]);
            succeeds(&mut dump);
        }
    }
    assert_eq!(server.send("POST", "/back/_refresh", "").unwrap().status, 200);
    let [there, back] = ["there", "back"].map(|index| {
        let all = server
            .send(
                "POST",
                &format!("/{index}/_search"),
                r#"{"size":1000,"sort":"n","_source":true}"#,
            )
            .unwrap()
            .body;
        let hits = all["hits"]["hits"].as_array().unwrap().clone();
        let mapping = server.send("GET", &format!("/{index}/_mapping"), "").unwrap().body[index].clone();
        let documents: Vec<_> = hits.iter().map(|hit| (hit["_id"].clone(), hit["_source"].clone())).collect();
        (documents, mapping)
    });
    assert_eq!(there.0.len(), 500);
    assert_eq!(there, back);
}

#[test]
fn go_elasticsearch_8() {
    let folder = sources().join("go-elasticsearch-8");
    // What the module proxy gives stays with the binary that is built of it.
    let built = install_once("go-elasticsearch-8", &folder.join("main.go"), |home| {
        for file in ["go.mod", "go.sum", "main.go"] {
            std::fs::copy(folder.join(file), home.join(file)).map_err(|e| e.to_string())?;
        }
        let mut go = Command::new("go");
        go.args(["build", "-mod=mod", "-p", "2", "-o", "flow", "."])
            .current_dir(home)
            .env("GOPATH", cache().join("go"))
            .env("GOFLAGS", "-modcacherw")
            .env("CGO_ENABLED", "0");
        run(&mut go, INSTALL_MAX).map(drop)
    });
    let Some(home) = built else { return };
    let (server, _folder) = served("es8");
    succeeds(Command::new(home.join("flow")).arg(format!("http://{}", server.address(""))));
}

#[test]
fn elasticsearch_java_7_17() {
    let folder = sources().join("elasticsearch-java-7.17");
    let jars = install_once("elasticsearch-java-7.17", &folder.join("pom.xml"), |home| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f"]).arg(folder.join("pom.xml"));
        maven.arg("org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies");
        maven
            .arg("-DincludeScope=runtime")
            .arg(format!("-DoutputDirectory={}", home.join("lib").display()));
        run(&mut maven, INSTALL_MAX).map(drop)
    });
    let Some(home) = jars else { return };
    let classes = tempfile::tempdir().unwrap();
    let path = format!("{}:{}/lib/*", classes.path().display(), home.display());
    let mut javac = Command::new("javac");
    javac.args(["-nowarn", "-proc:none", "-cp", &path, "-d"]).arg(classes.path());
    run(javac.arg(folder.join("Flow.java")), INSTALL_MAX).unwrap_or_else(|why| panic!("{why}"));
    let (server, _folder) = served("es7");
    let (host, port) = server.address("").rsplit_once(':').unwrap();
    let mut java = Command::new("java");
    java.args([
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        &path,
        "Flow",
    ]);
    succeeds(java.args([host, port]));
}

#[test]
fn rally_runs_a_track() {
    let folder = sources().join("rally");
    let Some(home) = python("rally", &folder.join("requirements.txt")) else {
        return;
    };
    let (server, data) = served("es8");
    // It keeps its settings and results below the home of whoever starts it.
    let rally_home = data.path().join("home");
    std::fs::create_dir_all(&rally_home).unwrap();
    let mut rally = Command::new(home.join("bin/esrally"));
    rally
        .args([
            "race",
            "--pipeline=benchmark-only",
            "--offline",
            "--quiet",
            "--on-error=abort",
            "--kill-running-processes",
        ])
        .arg(format!("--track-path={}", folder.join("track").display()))
        .arg(format!("--target-hosts={}", server.address("")))
        .env("HOME", &rally_home)
        .env("RALLY_HOME", &rally_home)
        .current_dir(data.path());
    succeeds(&mut rally);
    let count = server.send("GET", "/rally/_count", "").unwrap().body;
    assert_eq!(count["count"], 200, "{count}");
}
