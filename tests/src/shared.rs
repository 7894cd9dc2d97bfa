//! What lies beside the repository and is not in it: recorded answers, third-party suites; the lists of what passes, which
//! only grow, and the table that is made of them.
//!
//! Not here: how any of it is played (`tests/golden.rs`, `tests/suites.rs`).

use crate::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder beside the repository, or the one that `PLEACH_SHARED` names, if it is there and Python with PyYAML too.
///
/// With `PLEACH_REQUIRE_SHARED=1` their absence fails the test.
pub fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("PLEACH_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from);
    let python = Command::new("python3").args(["-c", "import yaml"]).output();
    let python = python.is_ok_and(|o| o.status.success());
    if folder.is_dir() && python {
        return Some(folder);
    }
    let missing = if python {
        folder.display().to_string()
    } else {
        "python3 with yaml".to_owned()
    };
    assert!(
        !std::env::var("PLEACH_REQUIRE_SHARED").is_ok_and(|v| v == "1"),
        "PLEACH_REQUIRE_SHARED=1, but {missing} is not there"
    );
    None
}

/// Are lists and tables to be written?
pub fn recording() -> bool {
    std::env::var_os("PLEACH_GOLDEN_RECORD").is_some()
}

/// A pass list by its name.
pub fn list(name: &str) -> PathBuf {
    root().join("tests/passlists").join(name)
}

/// The lines of a list that are no comments.
pub fn read(list: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(list).unwrap_or_default();
    text.lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Writes a list with its heading.
///
/// # Panics
/// A folder that cannot be written.
pub fn write<'a>(list: &Path, heading: &str, lines: impl IntoIterator<Item = &'a String>) {
    let mut text = format!("# {heading} May only grow.\n");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    std::fs::write(list, text).expect("the list can be written");
}

/// Puts a section into `docs/compatibility.md`, in place of the one of that name.
///
/// # Panics
/// A folder that cannot be written.
pub fn write_section(name: &str, body: &str) {
    let file = root().join("docs/compatibility.md");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| HEAD.to_owned());
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let section = format!("{begin}{body}{end}");
    let text = match (text.find(&begin), text.find(&end)) {
        (Some(from), Some(to)) => format!("{}{section}{}", &text[..from], &text[to + end.len()..]),
        _ => format!("{text}\n{section}"),
    };
    std::fs::write(file, text).expect("the table can be written");
}

const HEAD: &str = "# Compatibility

What passes of answers recorded from real servers, and of third-party test suites. Written by the tests when
`PLEACH_GOLDEN_RECORD=1`; what has passed once must pass from then on.
";
