//! The `_cat` format: columns with names, aliases and descriptions; `h`, `s`, `v`, `help`, `format`, `bytes`, `time`.

use crate::query_params::Params;
use crate::respond::Answer;
use model::path;
use model::units::render_bytes;
use model::{Error, Result};
use serde_json::{Map, Value};

/// One column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) about: &'static str,
    /// Shown unless `h` says otherwise.
    pub(crate) shown: bool,
    /// Numbers are right-aligned.
    pub(crate) right: bool,
}

/// A column that is shown.
pub(crate) const fn col(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> Column {
    Column {
        name,
        aliases,
        about,
        shown: true,
        right: false,
    }
}
/// A right-aligned column that is shown.
pub(crate) const fn num(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> Column {
    Column {
        name,
        aliases,
        about,
        shown: true,
        right: true,
    }
}
/// A column that must be asked for.
pub(crate) const fn extra(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> Column {
    Column {
        name,
        aliases,
        about,
        shown: false,
        right: true,
    }
}

/// A left-aligned column that must be asked for.
pub(crate) const fn extra_text(name: &'static str, aliases: &'static [&'static str], about: &'static str) -> Column {
    Column {
        name,
        aliases,
        about,
        shown: false,
        right: false,
    }
}

/// A cell in its own unit: the client may ask for another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Empty; `null` in JSON.
    Nothing,
    Text(String),
    Bytes(u64),
    Millis(u64),
}

impl Cell {
    /// A word or a number.
    pub(crate) fn of(value: impl ToString) -> Cell {
        Cell::Text(value.to_string())
    }
    /// That, or nothing.
    pub(crate) fn if_any(value: Option<impl ToString>) -> Cell {
        value.map_or(Cell::Nothing, Cell::of)
    }
}

/// Units of `bytes` with their size.
const BYTE_UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("p", 1 << 50),
    ("pb", 1 << 50),
];
/// Units of `time` with their nanoseconds.
const TIME_UNITS: &[(&str, u64)] = &[
    ("nanos", 1),
    ("micros", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

model::assert_words_differ!(BYTE_UNITS; 0, "each unit of sizes has one size");
model::assert_words_differ!(TIME_UNITS; 0, "each unit of durations has one length");

const _: () = {
    let mut at = 0;
    while at < BYTE_UNITS.len() {
        assert!(BYTE_UNITS[at].1 > 0, "sizes are divided by their unit");
        at += 1;
    }
    at = 0;
    while at < TIME_UNITS.len() {
        assert!(TIME_UNITS[at].1 > 0, "durations are divided by their unit");
        at += 1;
    }
};

/// How the client wants the table.
#[derive(Debug)]
pub(crate) struct Layout {
    help: bool,
    verbose: bool,
    headers: Option<Vec<String>>,
    sort: Vec<String>,
    json: bool,
    /// Size of the unit that sizes are counted in, without naming it.
    bytes: Option<u64>,
    /// The same of durations, in nanoseconds.
    time: Option<u64>,
    /// As the servers of 2015 wrote: every cell is filled up, and a space follows the last.
    filled: bool,
}

impl Layout {
    /// The request names columns to show or to sort by, or wants to know which there are.
    pub(crate) fn names_columns(&self) -> bool {
        self.help || self.headers.is_some() || !self.sort.is_empty()
    }
    /// Only the columns are asked for.
    pub(crate) fn is_help(&self) -> bool {
        self.help
    }
    /// Takes `help`, `v`, `h`, `s`, `format`, and `bytes` and `time` where the table has such columns.
    ///
    /// # Errors
    /// Values that are not theirs.
    pub(crate) fn take(params: &mut Params, accept_json: bool) -> Result<Layout> {
        let format = params.take("format");
        Ok(Layout {
            filled: params.is_lenient(),
            bytes: take_unit(params, "bytes", BYTE_UNITS)?,
            time: take_unit(params, "time", TIME_UNITS)?,
            help: params.flag("help")?,
            verbose: params.flag("v")?,
            headers: params.take_list("h"),
            sort: params.take_list("s").unwrap_or_default(),
            json: match format.as_deref() {
                None => accept_json,
                Some("text" | "txt") => false,
                Some("json" | "yaml") => true,
                Some(other) => {
                    return Err(Error::illegal(format!(
                        "format [{other}] is not supported: use text, json or yaml"
                    )));
                }
            },
        })
    }

    /// Writes the rows. A row has one cell for each column.
    ///
    /// # Errors
    /// A sort key that is no column.
    pub(crate) fn write(&self, columns: &[Column], mut rows: Vec<Vec<Cell>>) -> Result<Answer> {
        if self.help {
            return Ok(Answer::text(help(columns)));
        }
        debug_assert!(
            rows.iter().all(|row| row.len() == columns.len()),
            "a row has one cell for each column"
        );
        for key in self.sort.iter().rev() {
            let (name, descending) = match key.rsplit_once(':') {
                Some((name, order)) => (name, order == "desc"),
                None => (key.as_str(), false),
            };
            let i = find(columns, name).ok_or_else(|| {
                Error::new(
                    model::ErrorKind::UnsupportedOperation,
                    format!("Unable to sort by unknown sort key `{name}`"),
                )
            })?;
            rows.sort_by(|a, b| {
                let order = compare(&a[i], &b[i]);
                if descending { order.reverse() } else { order }
            });
        }
        let chosen = self.choose_columns(columns);
        let rows: Vec<Vec<Option<String>>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| self.format_cell(cell)).collect())
            .collect();
        if self.json {
            let list = rows
                .iter()
                .map(|row| {
                    let object: Map<String, Value> = chosen
                        .iter()
                        .map(|(label, i)| (label.clone(), row[*i].clone().map_or(Value::Null, Value::String)))
                        .collect();
                    Value::Object(object)
                })
                .collect();
            return Ok(Answer::ok(Value::Array(list)));
        }
        Ok(Answer::text(self.text(columns, &chosen, &rows)))
    }

    /// A cell in the unit asked for, else with the unit that suits it.
    fn format_cell(&self, cell: &Cell) -> Option<String> {
        match (cell, self.bytes, self.time) {
            (Cell::Nothing, ..) => None,
            (Cell::Text(text), ..) => Some(text.clone()),
            (Cell::Bytes(n), Some(unit), _) => Some((n / unit).to_string()),
            (Cell::Bytes(n), None, _) => Some(render_bytes(*n)),
            (Cell::Millis(n), _, Some(unit)) => Some((u128::from(*n) * 1_000_000 / u128::from(unit)).to_string()),
            (Cell::Millis(n), _, None) => Some(model::units::render_duration(std::time::Duration::from_millis(*n))),
        }
    }

    /// Labels and positions of the columns to show.
    fn choose_columns(&self, columns: &[Column]) -> Vec<(String, usize)> {
        let Some(headers) = &self.headers else {
            let shown = columns.iter().enumerate().filter(|(_, c)| c.shown);
            return shown.map(|(i, c)| (c.name.to_owned(), i)).collect();
        };
        let mut out: Vec<(String, usize)> = Vec::new();
        let mut show = |label: &str, i: usize| {
            if !out.iter().any(|(shown, _)| shown == label) {
                out.push((label.to_owned(), i));
            }
        };
        for header in headers {
            if header.contains('*') {
                let fits = |c: &Column| path::matches(header, c.name) || c.aliases.iter().any(|a| path::matches(header, a));
                for (i, c) in columns.iter().enumerate().filter(|(_, c)| fits(c)) {
                    show(c.name, i);
                }
            } else {
                // An unknown column is left out, as by the original: a client asks several versions for their columns.
                if let Some(i) = find(columns, header) {
                    show(header, i);
                }
            }
        }
        out
    }

    fn text(&self, columns: &[Column], chosen: &[(String, usize)], rows: &[Vec<Option<String>>]) -> String {
        let cell = |row: &[Option<String>], i: usize| row[i].clone().unwrap_or_default();
        let widths: Vec<usize> = chosen
            .iter()
            .map(|(label, i)| {
                let header = if self.verbose { label.chars().count() } else { 0 };
                rows.iter()
                    .map(|r| cell(r, *i).chars().count())
                    .max()
                    .unwrap_or(0)
                    .max(header)
            })
            .collect();
        let mut out = String::new();
        let mut line = |cells: Vec<String>| {
            for (k, text) in cells.iter().enumerate() {
                let right = columns[chosen[k].1].right;
                let pad = " ".repeat(widths[k].saturating_sub(text.chars().count()));
                if right {
                    out.push_str(&pad);
                    out.push_str(text);
                } else {
                    out.push_str(text);
                    if k + 1 < cells.len() || self.filled {
                        out.push_str(&pad);
                    }
                }
                if k + 1 < cells.len() || self.filled {
                    out.push(' ');
                }
            }
            out.push('\n');
        };
        if self.verbose {
            line(chosen.iter().map(|(label, _)| label.clone()).collect());
        }
        for row in rows {
            line(chosen.iter().map(|(_, i)| cell(row, *i)).collect());
        }
        out
    }
}

fn find(columns: &[Column], name: &str) -> Option<usize> {
    columns.iter().position(|c| c.name == name || c.aliases.contains(&name))
}

/// Numbers by value, the rest as text, nothing first.
fn compare(a: &Cell, b: &Cell) -> std::cmp::Ordering {
    match (a, b) {
        (Cell::Bytes(a), Cell::Bytes(b)) | (Cell::Millis(a), Cell::Millis(b)) => a.cmp(b),
        (Cell::Text(a), Cell::Text(b)) => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(x), Ok(y)) => x.total_cmp(&y),
            _ => a.cmp(b),
        },
        (a, b) => (*a != Cell::Nothing).cmp(&(*b != Cell::Nothing)),
    }
}

/// Takes the name of a unit, if the table has a column for it.
fn take_unit(params: &mut Params, name: &'static str, units: &[(&str, u64)]) -> Result<Option<u64>> {
    if !params.has_row(name) {
        return Ok(None);
    }
    let Some(given) = params.take(name) else { return Ok(None) };
    match units.iter().find(|(unit, _)| *unit == given.to_lowercase()) {
        Some((_, size)) => Ok(Some(*size)),
        None => {
            let names: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
            Err(Error::illegal(format!(
                "[{name}] is one of [{}], not [{given}]",
                names.join(", ")
            )))
        }
    }
}

fn help(columns: &[Column]) -> String {
    let aliases: Vec<String> = columns.iter().map(|c| c.aliases.join(",")).collect();
    let names = columns.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let others = aliases.iter().map(String::len).max().unwrap_or(0);
    let abouts = columns.iter().map(|c| c.about.len()).max().unwrap_or(0);
    columns
        .iter()
        .zip(&aliases)
        .map(|(c, a)| format!("{:names$} | {a:others$} | {:abouts$}\n", c.name, c.about))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond::Body;

    const COLUMNS: &[Column] = &[
        col("index", &["i"], "name"),
        num("docs", &["d"], "count"),
        extra("size", &[], "bytes"),
    ];

    fn check(query: &str, expected: &str) {
        let mut params = Params::parse("/_cat/indices", query).expect("well formed");
        params.set_api("cat.indices");
        let layout = Layout::take(&mut params, false).expect("well formed");
        let rows = vec![
            vec![Cell::of("b"), Cell::of(10), Cell::Bytes(2048)],
            vec![Cell::of("aa"), Cell::of(9), Cell::Nothing],
        ];
        match layout.write(COLUMNS, rows).expect("columns exist").body {
            Body::Text(text) => assert_eq!(text, expected, "{query}"),
            Body::Json(value) => assert_eq!(value.to_string(), expected, "{query}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn tables() {
        check("", "b  10\naa  9\n");
        check("v=true&s=docs", "index docs\naa       9\nb       10\n");
        check("h=i&s=index:desc", "b\naa\n");
        check(
            "h=d,size&format=json",
            "[{\"d\":\"10\",\"size\":\"2kb\"},{\"d\":\"9\",\"size\":null}]",
        );
        check("h=size&s=size&bytes=k", " \n2\n");
        check("help", "index | i | name \ndocs  | d | count\nsize  |   | bytes\n");
        check("h=index,dosc", "b\naa\n");
        check("h=dosc&format=json", "[{},{}]");
        check("h=nothing*,index", "b\naa\n");
        check("h=index,i,index,d*&v", "index i  docs\nb     b    10\naa    aa    9\n");
    }
}
