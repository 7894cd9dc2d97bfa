//! Third-party YAML REST suites, each against a server of its own under the persona of its version, all at once.
//!
//! They lie beside the repository, not in it; without them, or without Python, this is skipped. Which tests pass is in
//! `passlists/`; with `PLEACH_GOLDEN_RECORD=1` the lists are extended and the table in `docs/compatibility.md` is written.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use tests::{Server, shared};

struct Suite {
    name: &'static str,
    persona: &'static str,
    /// How the runner is told whose versions the tests mean.
    options: &'static [&'static str],
}

const SUITES: &[Suite] = &[
    Suite {
        name: "opensearch-2.19.0",
        persona: "opensearch2",
        options: &["--version", "2.19.5", "--versions", "opensearch"],
    },
    Suite {
        name: "es-7.10.2",
        persona: "es7",
        options: &["--version", "7.10.2", "--versions", "elasticsearch"],
    },
    Suite {
        name: "es-2.4.6",
        persona: "es2",
        options: &["--typed", "--version", "2.4.6", "--versions", "elasticsearch"],
    },
];

/// A file of a suite, as `files.tsv` has it.
struct File {
    tests: u64,
    core: bool,
    group: String,
}

#[test]
fn suites() {
    let Some(folder) = shared::folder().map(|f| f.join("suites")).filter(|f| f.is_dir()) else {
        let listed: usize = SUITES
            .iter()
            .map(|s| shared::read(&shared::list(&format!("{}.txt", s.name))).len())
            .sum();
        println!("skipped: {listed}");
        return;
    };
    tests::binary();
    let outcomes: Vec<(BTreeSet<String>, Vec<String>)> = std::thread::scope(|scope| {
        let running: Vec<_> = SUITES.iter().map(|suite| scope.spawn(|| run(&folder, suite))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (mut lost, mut table) = (Vec::new(), String::from("## Third-party REST suites\n\n"));
    table.push_str("| suite | group | passed | of |\n|---|---|---:|---:|\n");
    for (suite, (passed, gone)) in SUITES.iter().zip(outcomes) {
        let (core, all) = rows(&folder, suite, &passed, &mut table);
        println!("{:20} core {}/{}, all {}/{}", suite.name, core.0, core.1, all.0, all.1);
        lost.extend(gone);
    }
    table.push_str("\nCore: what this server is for; the rest is of parts that it does not have or of a node's inside.\n");
    if shared::recording() {
        shared::write_section("suites", &table);
    }
    assert!(lost.is_empty(), "these passed before:\n{}", lost.join("\n"));
}

/// Plays a suite: what passed, and what is on its list and did not.
fn run(folder: &Path, suite: &Suite) -> (BTreeSet<String>, Vec<String>) {
    let list = shared::list(&format!("{}.txt", suite.name));
    let before = shared::read(&list);
    let mut passed = play(folder, suite, &[]);
    let mut lost: Vec<String> = before.difference(&passed).cloned().collect();
    if !lost.is_empty() {
        // A busy machine may have been too slow for one: those files have a second try, alone.
        let files: BTreeSet<&str> = lost.iter().filter_map(|name| name.split(" :: ").next()).collect();
        passed.extend(play(folder, suite, &files.into_iter().collect::<Vec<_>>()));
        lost = before.difference(&passed).cloned().collect();
    }
    if shared::recording() {
        let heading = format!("Tests of {} that pass.", suite.name);
        shared::write(&list, &heading, before.union(&passed));
    }
    (
        passed,
        lost.into_iter().map(|name| format!("{}: {name}", suite.name)).collect(),
    )
}

/// The names of the tests that pass, of all files or some.
fn play(folder: &Path, suite: &Suite, files: &[&str]) -> BTreeSet<String> {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::start(&scratch.path().join("data"), &[suite.persona]);
    let (own, list) = (folder.join(suite.name), scratch.path().join("list.tsv"));
    let mut runner = Command::new("python3");
    runner
        .arg(folder.join("runner/run.py"))
        .args(["--base", &format!("http://{}", server.address(suite.persona))])
        .args(suite.options)
        .arg("--spec")
        .arg(own.join("api"))
        .arg("--list")
        .arg(&list);
    if !files.is_empty() {
        runner.args(["--only", &files.join(",")]);
    }
    runner
        .arg(own.join("test"))
        .stdout(Stdio::null())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    runner.status().expect("python3 runs");
    let text = std::fs::read_to_string(&list).unwrap();
    let mut cells = text.lines().map(|line| line.split('\t'));
    let passed = cells
        .by_ref()
        .filter_map(|mut cells| (cells.next()? == "pass").then(|| cells.next())?.map(str::to_owned));
    passed.collect()
}

/// The rows of a suite, and its sums: passed and total, of the core and of all.
fn rows(folder: &Path, suite: &Suite, passed: &BTreeSet<String>, table: &mut String) -> ((u64, u64), (u64, u64)) {
    let mut by_file: BTreeMap<&str, u64> = BTreeMap::new();
    for name in passed {
        *by_file.entry(name.split(" :: ").next().unwrap_or_default()).or_default() += 1;
    }
    let mut groups: BTreeMap<(bool, String), (u64, u64)> = BTreeMap::new();
    for (name, file) in files(folder, suite) {
        let sums = groups.entry((!file.core, file.group)).or_default();
        sums.0 += by_file.get(name.as_str()).copied().unwrap_or(0);
        sums.1 += file.tests;
    }
    let sum = |core: Option<bool>| {
        let chosen = groups.iter().filter(|((other, _), _)| core.is_none_or(|core| core != *other));
        chosen.fold((0, 0), |(p, t), (_, (passed, total))| (p + passed, t + total))
    };
    let (core, all) = (sum(Some(true)), sum(None));
    table.push_str(&format!(
        "| **{}** | **core** | **{}** | **{}** |\n",
        suite.name, core.0, core.1
    ));
    for ((other, group), (passed, total)) in &groups {
        let mark = if *other { " (not core)" } else { "" };
        table.push_str(&format!("| | {group}{mark} | {passed} | {total} |\n"));
    }
    (core, all)
}

fn files(folder: &Path, suite: &Suite) -> Vec<(String, File)> {
    let text = std::fs::read_to_string(folder.join("files.tsv")).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    rows.filter(|cells| cells[0] == suite.name)
        .map(|cells| {
            let file = File {
                tests: cells[2].parse().unwrap_or(0),
                core: cells[3] == "yes",
                group: cells[7].to_owned(),
            };
            (cells[1].to_owned(), file)
        })
        .collect()
}
