//! What commands that ask a server print: tables for people at a terminal, a line of JSON a row for programs, and exit codes.
//!
//! Not here: the requests (`documents`, `tasks`).

use crate::client::{Answer, Client};
use crate::console::{self, complain};
use crate::server_flags::ServerFlags;
use model::Result;
use serde_json::{Map, Value};
use std::io::IsTerminal as _;
use std::process::ExitCode;

/// There is no such document or index.
pub(super) const NOT_FOUND: u8 = 3;
/// Another version, or a lock, is in the way.
const CONFLICT: u8 = 4;
/// Exit codes, for `--help`.
pub(super) const CODES: &str = "The exit code is 0 if it was done, 1 if the server refused or could not be reached, 2 if a flag cannot be read, \
                     3 if there is no such document or index, 4 if a version or a lock was in the way.";
/// Characters of a cell of a table.
const CELL_CHARS: usize = 80;

/// The form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Output {
    /// A table.
    Table,
    /// A line of JSON for each row.
    Ndjson,
}

/// Where the server is, and what the answer looks like.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Common {
    #[command(flatten)]
    server: ServerFlags,
    /// What to print [default: a table at a terminal, else lines of JSON].
    #[arg(long, value_name = "FORM")]
    output: Option<Output>,
}

impl Common {
    pub(super) fn output(&self) -> Output {
        let by_itself = || match std::io::stdout().is_terminal() {
            true => Output::Table,
            false => Output::Ndjson,
        };
        self.output.unwrap_or_else(by_itself)
    }

    pub(super) fn client(&self) -> Result<Client> {
        self.server.client()
    }
}

/// The exit code of a refusal, which is printed; `None` of an answer that is none.
pub(super) fn failure(answer: &Answer) -> Option<ExitCode> {
    if answer.status < 400 {
        return None;
    }
    let reason = answer.reason().unwrap_or("the server gave no reason");
    complain(&format!("answered {}: {reason}", answer.status));
    Some(ExitCode::from(match answer.status {
        404 => NOT_FOUND,
        409 => CONFLICT,
        _ => 1,
    }))
}

/// These members of an object, where it has them, in this order.
pub(super) fn pick(value: &Value, names: &[&str]) -> Map<String, Value> {
    let found = names
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), value.get(*name)?.clone())));
    found.collect()
}

pub(super) fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// Prints rows as the flags say.
pub(super) fn table(common: &Common, columns: &[&str], rows: &[Map<String, Value>]) -> Result<ExitCode> {
    match common.output() {
        Output::Ndjson => print(&lines(&rows.iter().cloned().map(Value::Object).collect::<Vec<_>>())),
        Output::Table => print(&render(columns, rows)),
    }
}

/// Rows with a head, in columns as wide as their longest cell.
pub(super) fn render(columns: &[&str], rows: &[Map<String, Value>]) -> String {
    let cell = |value: Option<&Value>| {
        let text = match value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let mut text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Some((end, _)) = text.char_indices().nth(CELL_CHARS) {
            text.truncate(end);
            text.push('…');
        }
        text
    };
    let mut all: Vec<Vec<String>> = vec![columns.iter().map(|column| (*column).to_owned()).collect()];
    all.extend(
        rows.iter()
            .map(|row| columns.iter().map(|column| cell(row.get(*column))).collect()),
    );
    let width = |at: usize| all.iter().map(|row: &Vec<String>| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    all.iter().map(line).collect()
}

/// To standard output; who reads no further has enough.
pub(super) fn print(text: &str) -> Result<ExitCode> {
    console::print(text).map(|_| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_are_as_wide_as_their_cells() {
        let rows = [json!({ "a": "ä\nb", "b": 1 }), json!({ "a": "x".repeat(100) })];
        let rows: Vec<Map<String, Value>> = rows.iter().filter_map(|row| row.as_object().cloned()).collect();
        let text = render(&["a", "b"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("a{}  b", " ".repeat(80)));
        assert_eq!(lines[1], format!("ä b{}  1", " ".repeat(78)));
        assert_eq!(lines[2], format!("{}…", "x".repeat(80)));
    }
}
