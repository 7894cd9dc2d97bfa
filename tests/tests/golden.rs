//! Recorded answers of real servers, played against ours. The counts of what passes may only grow.
//!
//! They lie beside the repository, not in it; without them, or without python3, this is skipped. With
//! `PLEACH_GOLDEN_RECORD=1` better counts are written into `passlists/golden.txt`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test's functions are tests too")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{Server, shared};

#[test]
fn golden_answers() {
    let list = shared::list("golden.txt");
    let mut before = read(&list);
    let Some(shared) = shared::folder() else {
        println!("skipped: {}", before.values().sum::<u64>());
        return;
    };
    let mut modern = recorded(&shared.join("golden"), ".ndjson.gz");
    modern.extend(recorded(&shared.join("golden-2"), ".ndjson.gz"));
    let typed = recorded(&shared.join("golden-2015"), ".ndjson");
    assert!(
        !modern.is_empty() && !typed.is_empty(),
        "no recorded answers in {}",
        shared.display()
    );
    let folder = tempfile::tempdir().unwrap();
    let repositories = folder.path().join("repositories");
    let settings = format!("path.repo={}", repositories.display());
    let server = Server::start_with(&folder.path().join("data"), &["opensearch2", "es2"], &[&settings]);
    let url = |persona: &str| format!("http://{}", server.address(persona));
    let mut passed = BTreeMap::new();
    let golden = shared.join("golden/golden.py");
    let loaded = Command::new("python3")
        .arg(&golden)
        .args(["load", "--url", &url("opensearch2"), "--data"])
        .arg(shared.join("data"))
        .status();
    if loaded.is_ok_and(|s| s.success()) {
        for file in &modern {
            play(&golden, &url("opensearch2"), &repositories, file, &mut passed);
        }
    } else {
        println!("golden documents could not be loaded");
    }
    for file in &typed {
        play(
            &shared.join("golden-2015/golden24.py"),
            &url("es2"),
            &repositories,
            file,
            &mut passed,
        );
    }
    // A busy machine may have been too slow for one: those categories have a second try.
    let again: Vec<_> = modern.iter().filter(|file| lacks(&before, &passed, file)).collect();
    for file in again {
        play(&golden, &url("opensearch2"), &repositories, file, &mut passed);
    }
    let again: Vec<_> = typed.iter().filter(|file| lacks(&before, &passed, file)).collect();
    for file in again {
        play(
            &shared.join("golden-2015/golden24.py"),
            &url("es2"),
            &repositories,
            file,
            &mut passed,
        );
    }
    let lost: Vec<String> = before
        .iter()
        .filter_map(|(category, was)| {
            let is = passed.get(category).map_or(0, |(count, _)| *count);
            (is < *was).then(|| format!("{category}: {was} passed before, {is} now"))
        })
        .collect();
    if shared::recording() {
        let mut table = String::from("## Recorded answers\n\n| category | passed | of |\n|---|---:|---:|\n");
        for (category, (count, all)) in &passed {
            table.push_str(&format!("| {category} | {count} | {all} |\n"));
            let kept = before.entry(category.clone()).or_default();
            *kept = *count.max(kept);
        }
        shared::write_section("golden", &table);
        let lines: Vec<String> = before.iter().map(|(category, count)| format!("{category} {count}")).collect();
        shared::write(&list, "Recorded answers that we give alike: category, requests.", &lines);
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// Files of recorded answers, by name.
fn recorded(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|e| e.path())
        .filter(|p| p.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// Did fewer of a file pass than before?
fn lacks(before: &BTreeMap<String, u64>, passed: &BTreeMap<String, (u64, u64)>, file: &Path) -> bool {
    let category = category(file);
    passed.get(&category).map_or(0, |(count, _)| *count) < before.get(&category).copied().unwrap_or(0)
}

/// What a file holds: its name up to the first point.
fn category(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Plays one file; its last line tells `12/34` or `12 of 34`.
fn play(tool: &Path, url: &str, repositories: &Path, file: &Path, passed: &mut BTreeMap<String, (u64, u64)>) {
    let category = category(file);
    let Ok(done) = Command::new("python3")
        .arg(tool)
        .args(["check", "--url", url])
        .env("GOLDEN_REPO", repositories)
        .arg(file)
        .output()
    else {
        return;
    };
    let out = String::from_utf8_lossy(&done.stdout);
    let counts = regex::Regex::new(r"(\d+)(?:/| of )(\d+)").unwrap();
    let found = out.lines().rev().find_map(|line| counts.captures(line));
    let (count, all) = found.map_or((0, 0), |c| (c[1].parse().unwrap_or(0), c[2].parse().unwrap_or(0)));
    println!("{category:32} {count}/{all}");
    passed.insert(category, (count, all));
}

/// `category passed` lines.
fn read(list: &Path) -> BTreeMap<String, u64> {
    let lines = shared::read(list);
    lines
        .iter()
        .filter_map(|l| l.split_once(' '))
        .filter_map(|(c, n)| Some((c.to_owned(), n.trim().parse().ok()?)))
        .collect()
}
