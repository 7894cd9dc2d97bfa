//! ARCHITECTURE.md's table "Where would I change …" is enough to add a clause and an endpoint: a copy of the sources gets a
//! toy of each, in the files that the table names and in no others, and compiles.
//!
//! `PLEACH_TEST_TOY=run` builds the copy and asks it as well, which takes minutes:
//! `PLEACH_TEST_TOY=run cargo test -p tests --test newcomer`.

#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::{Server, root};

/// One insertion behind the first place that an anchor has in a file, or a new file.
struct Edit {
    /// The row of the page by which the file is found.
    row: &'static str,
    file: &'static str,
    /// `None`: the file is new and stands beside one that the row names.
    anchor: Option<&'static str>,
    text: &'static str,
}

const CLAUSE: &str = "a query clause";
const ENDPOINT: &str = "an endpoint";

/// `{"first_letter": {"FIELD": {"value": "LETTER"}}}` matches documents whose keyword begins with a letter.
/// `GET /_toy/{name}` greets.
const EDITS: &[Edit] = &[
    Edit {
        row: CLAUSE,
        file: "dsl/src/query/mod.rs",
        anchor: Some("    MatchNone,\n"),
        text: "    FirstLetter(PatternQuery),\n",
    },
    Edit {
        row: CLAUSE,
        file: "dsl/src/query/mod.rs",
        anchor: Some("mod fuzzy;\n"),
        text: "mod first_letter;\n",
    },
    Edit {
        row: CLAUSE,
        file: "dsl/src/query/clauses.rs",
        anchor: Some("const CLAUSES: &[ClauseSpec] = &[\n"),
        text: "    clause(\"first_letter\", super::first_letter::parse),\n",
    },
    Edit {
        row: CLAUSE,
        file: "dsl/src/query/first_letter.rs",
        anchor: None,
        text: "//! `first_letter`: a keyword begins with a letter.

use super::{Clause, Parsing, Query, pattern};
use crate::json::Node;
use model::{Error, Result};

pub(super) fn parse(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let mut query = pattern::parse(\"prefix\", body, cx)?;
    if let Clause::Prefix(prefix) = query.clause {
        if prefix.value.chars().count() != 1 {
            return Err(Error::illegal(\"[first_letter] takes one letter\"));
        }
        query.clause = Clause::FirstLetter(prefix);
    }
    Ok(query)
}
",
    },
    Edit {
        row: CLAUSE,
        file: "dsl/src/query/render.rs",
        anchor: Some("Clause::MatchNone => (\"match_none\", Map::new()),\n"),
        text: "            Clause::FirstLetter(q) => return self.of_field(\"first_letter\", &q.field, pattern::render(q)),\n",
    },
    Edit {
        row: CLAUSE,
        file: "search/src/clauses/mod.rs",
        anchor: Some("            Clause::Prefix(q) => self.prefix(q, boost),\n"),
        text: "            Clause::FirstLetter(q) => self.prefix(q, boost),\n",
    },
    Edit {
        row: ENDPOINT,
        file: "rest/src/routes.rs",
        anchor: Some("endpoints! {\n"),
        text: "    \"toy\" [\"GET\"] [\"/_toy/{name}\"] ANY_USER => crate::handlers::toy::greet;\n",
    },
    Edit {
        row: ENDPOINT,
        file: "rest/src/handlers/mod.rs",
        anchor: Some("pub(crate) mod stubs;\n"),
        text: "pub(crate) mod toy;\n",
    },
    Edit {
        row: ENDPOINT,
        file: "rest/src/handlers/toy.rs",
        anchor: None,
        text: "//! `GET /_toy/{name}` greets.

use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::Result;
use serde_json::json;

#[boxed]
pub(crate) async fn greet(call: Call) -> Result<Answer> {
    let name = call.path_part(\"name\")?;
    Ok(Answer::ok(json!({\"greeting\": format!(\"hello {name}\")})))
}
",
    },
];

/// The files of a row of the table: all that is between backquotes in its second column.
fn files_of_row<'a>(page: &'a str, row: &str) -> Vec<&'a str> {
    let begin = format!("| {row} |");
    let line = page.lines().find(|line| line.starts_with(&begin));
    let files = line.unwrap_or_else(|| panic!("ARCHITECTURE.md has a row [{row}]"));
    files.split('`').skip(1).step_by(2).collect()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        // `Cargo.lock` is copied, too: the same versions are there already.
        if matches!(name.to_str(), Some("target" | ".git")) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy(&path, &to.join(name));
        } else {
            std::fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

/// Gives the packages of the copy another version. Cargo names what it builds of a workspace's package by name and version, not by
/// the folder: libraries of the copy would stand in the target folder in place of those of this checkout.
fn set_own_version(copied: &Path) {
    let path = copied.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let version = concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"\n");
    assert!(text.contains(version), "the workspace states its version");
    let own = concat!("version = \"", env!("CARGO_PKG_VERSION"), "-copy\"\n");
    std::fs::write(path, text.replacen(version, own, 1)).unwrap();
}

fn insert(crates: &Path, edit: &Edit) {
    let path = crates.join(edit.file);
    let Some(anchor) = edit.anchor else {
        assert!(!path.exists(), "{} is new", edit.file);
        return std::fs::write(path, edit.text).unwrap();
    };
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.find(anchor);
    let end = at.unwrap_or_else(|| panic!("{} has a line {anchor:?}", edit.file)) + anchor.len();
    std::fs::write(path, format!("{}{}{}", &text[..end], edit.text, &text[end..])).unwrap();
}

/// The target folder that this test was built in: the libraries that the copy depends on are there already.
fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(3).unwrap().to_owned()
}

fn cargo(folder: &Path, target: &Path, arguments: &[&str]) {
    let mut cargo = tests::cargo();
    cargo.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", target);
    assert!(
        cargo.status().unwrap().success(),
        "cargo {arguments:?} works on the changed copy"
    );
}

#[test]
fn a_clause_and_an_endpoint_are_added_by_the_map() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    // Always at the same place: cargo keeps what it built of another one beside this.
    let copied = target().join("newcomer");
    drop(std::fs::remove_dir_all(&copied));
    copy(root(), &copied);
    set_own_version(&copied);
    for edit in EDITS {
        let named = files_of_row(&page, edit.row);
        let folder = Path::new(edit.file).parent();
        let is_named = match edit.anchor {
            Some(_) => named.contains(&edit.file),
            None => named.iter().any(|file| Path::new(file).parent() == folder),
        };
        assert!(
            is_named,
            "the row [{}] of ARCHITECTURE.md leads to {}: {named:?}",
            edit.row, edit.file
        );
        insert(&copied.join("crates"), edit);
    }
    if std::env::var("PLEACH_TEST_TOY").is_ok_and(|mode| mode == "run") {
        // Elsewhere: other tests start the binary without toys.
        let built = target().join("newcomer-build");
        cargo(&copied, &built, &["build", "--offline", "-p", "server"]);
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "the_toys_answer", "--ignored"]);
        again.env("PLEACH_TEST_BINARY", built.join("debug/pleach"));
        assert!(again.status().unwrap().success(), "the toys answer");
    } else {
        // The whole workspace is selected, as in every stage of CI: a package alone would have other features.
        cargo(&copied, &target(), &["check", "--offline", "--workspace"]);
    }
}

/// Run by [`a_clause_and_an_endpoint_are_added_by_the_map`] with the binary of the copy.
#[test]
#[ignore = "it takes the binary with the toys: PLEACH_TEST_TOY=run"]
fn the_toys_answer() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["opensearch2"]);
    let toy = server.send("GET", "/_toy/world", "").unwrap();
    assert_eq!((toy.status, &toy.body["greeting"]), (200, &json!("hello world")));
    let mapping = json!({"mappings": {"properties": {"name": {"type": "keyword"}}}});
    assert_eq!(server.send("PUT", "/toys", &mapping.to_string()).unwrap().status, 200);
    for name in ["ball", "bear", "car"] {
        let path = format!("/toys/_doc/{name}?refresh=true");
        assert_eq!(
            server.send("PUT", &path, &json!({"name": name}).to_string()).unwrap().status,
            201
        );
    }
    let check = |letter: &str, status: u16, total: Option<u64>| {
        let body = json!({"query": {"first_letter": {"name": {"value": letter}}}});
        let found = server.send("POST", "/toys/_search", &body.to_string()).unwrap();
        assert_eq!(found.status, status, "{}", found.body);
        assert_eq!(found.body["hits"]["total"]["value"].as_u64(), total, "{}", found.body);
    };
    check("b", 200, Some(2));
    check("c", 200, Some(1));
    check("x", 200, Some(0));
    check("ba", 400, None);
}
