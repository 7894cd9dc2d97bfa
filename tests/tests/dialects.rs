//! docs/dialects.md has every dialect rule: it is written from the table in the code with `PLEACH_GOLDEN_RECORD=1`.
//!
//! Not here: what a rule does; scenarios and recorded answers of real servers show that.

use model::compat::{Holds, IndexRules, Rule, Rules};
use std::collections::BTreeSet;
use std::fmt::Write as _;

#[test]
fn the_page_is_the_table() {
    let file = tests::root().join("docs/dialects.md");
    let text = page();
    if tests::shared::recording() {
        std::fs::write(&file, &text).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{} is not what the table of rules says; PLEACH_GOLDEN_RECORD=1 writes it",
        file.display()
    );
}

/// A rule has one name, and code asks for it.
#[test]
fn every_rule_is_asked_for() {
    let mut sources = String::new();
    let mut folders = vec![tests::root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("compat.rs") {
                sources.push_str(&std::fs::read_to_string(&path).expect("a source can be read"));
            }
        }
    }
    let mut names = BTreeSet::new();
    for rule in rows() {
        assert!(names.insert(rule.name), "two rules have the name [{}]", rule.name);
        assert!(
            sources.contains(&format!(".{}", rule.name)),
            "no code asks for the rule [{}]",
            rule.name
        );
    }
}

fn rows() -> impl Iterator<Item = &'static Rule> {
    Rules::ROWS.iter().chain(IndexRules::ROWS)
}

fn page() -> String {
    let mut out = String::from(
        "# Dialects\n\n\
         Elasticsearch 2 reads, runs and answers some requests otherwise than today's servers. This page lists each such rule. A test\n\
         writes it from the table in the code (`crates/model/src/compat.rs`); the code asks each rule by the name in its first column.\n\n\
         A request is **typed** in three cases: the listener has the persona `es2`, the URL has a type other than `_doc`, or every index\n\
         that the URL names is typed. An index is typed if it was made by a typed request. Rules of requests hold for typed requests;\n\
         rules of indices hold for typed indices, whoever asks. A rule with another reach says so.\n",
    );
    let mut area = "";
    for rule in rows() {
        if rule.area != area {
            area = rule.area;
            let _ = write!(
                out,
                "\n## {area}\n\n| rule | subject | Elasticsearch 2 | today's servers |\n|---|---|---|---|\n"
            );
        }
        let reach = reach(rule.holds);
        let _ = writeln!(
            out,
            "| `{}` | {}{reach} | {} | {} |",
            rule.name, rule.about, rule.es2, rule.today
        );
    }
    out
}

fn reach(holds: Holds) -> &'static str {
    match holds {
        Holds::Typed | Holds::TypedIndex => "",
        Holds::TypedNotEs7 => " (not under `es7`)",
        Holds::TypedOrEs2 => " (all requests of `es2`)",
        Holds::TypedEs2 => " (under `es2` alone)",
        Holds::TypesShown => " (all requests of `es7` and `opensearch1`, too)",
    }
}
