//! The page docs/verification.md: what was verified, with the tests that show it. It is generated from `tests/verification/*.toml`.
//!
//! A file holds rows `[[row]]` with `number` (`"17.8"`), `claim` (one sentence) and `tests`. A test is named `path.rs::function`, or
//! is the path of a scenario. Every path is relative to the repository. `PLEACH_GOLDEN_RECORD=1` writes the page.
//!
//! Not here: that the tests pass; they run on their own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One claim with its tests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// Both parts of the number, for its order.
    order: (u32, u32),
    number: String,
    claim: String,
    tests: Vec<String>,
}

#[test]
fn each_claim_names_tests_that_exist() {
    let (rows, mut wrong) = rows_of_all_files();
    let mut claims = BTreeSet::new();
    for row in &rows {
        if !claims.insert((&row.number, &row.claim)) {
            wrong.push(format!("{}: the claim [{}] stands twice", row.number, row.claim));
        }
        let missing = row.tests.iter().filter_map(|test| missing(tests::root(), test).err());
        wrong.extend(missing.map(|why| format!("{}: {why}", row.number)));
    }
    assert!(!rows.is_empty(), "tests/verification holds no row");
    assert!(wrong.is_empty(), "{} mistakes:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_page_is_what_the_rows_say() {
    let (rows, _) = rows_of_all_files();
    let file = tests::root().join("docs/verification.md");
    let page = render(&rows);
    if tests::shared::recording() {
        std::fs::write(&file, &page).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page,
        "docs/verification.md is not what tests/verification/*.toml says; PLEACH_GOLDEN_RECORD=1 writes it"
    );
}

/// The rows of every file, sorted by number, and what is wrong with the files.
fn rows_of_all_files() -> (Vec<Row>, Vec<String>) {
    let folder = tests::root().join("tests/verification");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        match read(&text) {
            Ok(read) => rows.extend(read),
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    // Stable: rows of one number keep the order of files and of rows in a file.
    rows.sort_by_key(|row: &Row| row.order);
    (rows, wrong)
}

/// The rows of one file.
fn read(text: &str) -> Result<Vec<Row>, String> {
    let table: toml::Table = text.parse().map_err(|cause| format!("not TOML: {cause}"))?;
    if let Some(other) = table.keys().find(|key| *key != "row") {
        return Err(format!("unknown key [{other}]: rows begin with [[row]]"));
    }
    let rows = table.get("row").and_then(toml::Value::as_array).ok_or("it has no [[row]]")?;
    rows.iter()
        .enumerate()
        .map(|(i, row)| read_row(row).map_err(|why| format!("row {}: {why}", i + 1)))
        .collect()
}

fn read_row(row: &toml::Value) -> Result<Row, String> {
    let row = row.as_table().ok_or("a row is a table")?;
    if let Some(other) = row.keys().find(|key| !["number", "claim", "tests"].contains(&key.as_str())) {
        return Err(format!("unknown key [{other}]"));
    }
    let text = |key: &str| {
        let value = row.get(key).and_then(toml::Value::as_str);
        value
            .map(str::to_owned)
            .ok_or_else(|| format!("[{key}] is missing, or no text"))
    };
    let (number, claim) = (text("number")?, text("claim")?);
    let order = number
        .split_once('.')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let order = order.ok_or_else(|| format!("the number [{number}] is not of the form 17.8"))?;
    if !claim.ends_with('.') || claim.contains(['|', '\n']) {
        return Err(format!("the claim [{claim}] is not one sentence that ends with a full stop"));
    }
    let tests = row.get("tests").and_then(toml::Value::as_array).ok_or("[tests] is a list")?;
    let tests: Option<Vec<String>> = tests.iter().map(|test| test.as_str().map(str::to_owned)).collect();
    let tests = tests.ok_or("[tests] is a list of texts")?;
    if tests.is_empty() {
        return Err(format!("the claim [{claim}] has no test"));
    }
    Ok(Row {
        order,
        number,
        claim,
        tests,
    })
}

/// Is the test there? The error says what is missing.
fn missing(root: &Path, test: &str) -> Result<(), String> {
    let (path, function) = test
        .split_once("::")
        .map_or((test, None), |(path, function)| (path, Some(function)));
    let text = std::fs::read_to_string(root.join(path)).map_err(|_| format!("the file [{path}] does not exist"))?;
    match function {
        None if path.ends_with(".rs") => Err(format!("[{test}] names no function: write {test}::NAME")),
        None => Ok(()),
        Some(function) => {
            // `module::name` is allowed; the function is the last part.
            let name = function.rsplit("::").next().unwrap_or(function);
            let begins = |line: &str| {
                let rest = line.trim_start().trim_start_matches("pub(super) ").trim_start_matches("pub ");
                let rest = rest.trim_start_matches("async ");
                let rest = rest.strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| rest.starts_with(['(', '<']))
            };
            let found = text.lines().any(begins);
            found
                .then_some(())
                .ok_or_else(|| format!("[{path}] has no function [{name}]"))
        }
    }
}

/// The page.
fn render(rows: &[Row]) -> String {
    let mut page = String::from(
        "# What was verified\n\n\
         Each row is a claim that users can rely on, and the tests that fail when it does not hold. The numbers are those of the\n\
         verification reports. Generated from `tests/verification/*.toml` by\n\
         `PLEACH_GOLDEN_RECORD=1 cargo test -p tests --test verification`; the same test compares.\n\n\
         | number | what holds | tests |\n|---:|---|---|\n",
    );
    for row in rows {
        let links: Vec<String> = row.tests.iter().map(|test| link(test)).collect();
        let _ = writeln!(page, "| {} | {} | {} |", row.number, row.claim, links.join(", "));
    }
    page
}

/// A link to a test, shown by the function's name or the scenario's.
fn link(test: &str) -> String {
    let (path, function) = test.split_once("::").unwrap_or((test, ""));
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let shown = function
        .rsplit("::")
        .next()
        .filter(|name| !name.is_empty())
        .map_or(stem, str::to_owned);
    format!("[{shown}](../{path})")
}

#[test]
fn mistakes_in_rows_are_named() {
    let row = |body: &str| read(&format!("[[row]]\n{body}"));
    let check = |body: &str, expected: &str| {
        let got = row(body).expect_err("it is a mistake");
        assert!(got.contains(expected), "{body}: {got}");
    };
    check("number = \"17\"\nclaim = \"A.\"\ntests = [\"a.yaml\"]", "not of the form");
    check("number = \"17.1\"\nclaim = \"A\"\ntests = [\"a.yaml\"]", "full stop");
    check("number = \"17.1\"\nclaim = \"A.\"\ntests = []", "has no test");
    check("number = \"17.1\"\nclaim = \"A.\"\ntest = []", "unknown key [test]");
    assert_eq!(
        row("number = \"17.1\"\nclaim = \"A.\"\ntests = [\"a.yaml\"]").map(|r| r.len()),
        Ok(1)
    );
    let here = "tests/tests/verification.rs";
    for (test, expected) in [
        ("tests/none.rs::x".to_owned(), "does not exist"),
        (format!("{here}::no_such_test"), "has no function"),
        (here.to_owned(), "names no function"),
    ] {
        let got = missing(tests::root(), &test).expect_err("it is not there");
        assert!(got.contains(expected), "{test}: {got}");
    }
    assert_eq!(missing(tests::root(), &format!("{here}::mistakes_in_rows_are_named")), Ok(()));
}
