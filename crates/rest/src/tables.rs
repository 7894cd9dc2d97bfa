//! The `_cat` format: columns with names, aliases and descriptions; `h`, `s`, `v`, `help`, `format`.

use crate::params::Params;
use crate::respond::Answer;
use model::path;
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

/// How the client wants the table.
#[derive(Debug)]
pub(crate) struct Layout {
    help: bool,
    verbose: bool,
    headers: Option<Vec<String>>,
    sort: Vec<String>,
    json: bool,
}

impl Layout {
    /// Takes `help`, `v`, `h`, `s`, `format` and the parameters that tables accept without effect.
    ///
    /// # Errors
    /// Values that are not booleans.
    pub(crate) fn take(params: &mut Params, accept_json: bool) -> Result<Layout> {
        params.accept(&[
            "local",
            "master_timeout",
            "cluster_manager_timeout",
            "bytes",
            "time",
            "size",
            "ts",
            "timeout",
        ]);
        let format = params.take("format");
        Ok(Layout {
            help: params.flag("help")?,
            verbose: params.flag("v")?,
            headers: params.take_list("h"),
            sort: params.take_list("s").unwrap_or_default(),
            json: format
                .as_deref()
                .map_or(accept_json, |f| f == "json" || f == "yaml" || f == "smile" || f == "cbor"),
        })
    }

    /// Writes the rows. A row has one cell for each column, `None` where there is nothing.
    ///
    /// # Errors
    /// A sort key that is no column.
    pub(crate) fn write(&self, columns: &[Column], mut rows: Vec<Vec<Option<String>>>) -> Result<Answer> {
        if self.help {
            return Ok(Answer::text(help(columns)));
        }
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
                let order = compare(a[i].as_deref(), b[i].as_deref());
                if descending { order.reverse() } else { order }
            });
        }
        let chosen = self.chosen(columns);
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

    /// Labels and positions of the columns to show.
    fn chosen(&self, columns: &[Column]) -> Vec<(String, usize)> {
        let Some(headers) = &self.headers else {
            return columns
                .iter()
                .enumerate()
                .filter(|(_, c)| c.shown)
                .map(|(i, c)| (c.name.to_owned(), i))
                .collect();
        };
        let mut out = Vec::new();
        for header in headers {
            if header.contains('*') {
                let found = columns.iter().enumerate().filter(|(_, c)| path::matches(header, c.name));
                out.extend(found.map(|(i, c)| (c.name.to_owned(), i)));
            } else if let Some(i) = find(columns, header) {
                out.push((header.clone(), i));
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
                    if k + 1 < cells.len() || !pad.is_empty() {
                        out.push_str(&pad);
                    }
                }
                if k + 1 < cells.len() {
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
fn compare(a: Option<&str>, b: Option<&str>) -> std::cmp::Ordering {
    match (a, b) {
        (Some(a), Some(b)) => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(x), Ok(y)) => x.total_cmp(&y),
            _ => a.cmp(b),
        },
        (a, b) => a.cmp(&b),
    }
}

fn help(columns: &[Column]) -> String {
    let names = columns.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let aliases: Vec<String> = columns
        .iter()
        .map(|c| {
            if c.aliases.is_empty() {
                "-".into()
            } else {
                c.aliases.join(",")
            }
        })
        .collect();
    let width = aliases.iter().map(String::len).max().unwrap_or(0);
    columns
        .iter()
        .zip(&aliases)
        .map(|(c, a)| format!("{:names$} | {a:width$} | {}\n", c.name, c.about))
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
        let mut params = Params::parse("/_cat/x", query).expect("well formed");
        let layout = Layout::take(&mut params, false).expect("well formed");
        let rows = vec![
            vec![Some("b".into()), Some("10".into()), Some("7".into())],
            vec![Some("aa".into()), Some("9".into()), None],
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
        check("h=i&s=index:desc", "b \naa\n");
        check(
            "h=d,size&format=json",
            "[{\"d\":\"10\",\"size\":\"7\"},{\"d\":\"9\",\"size\":null}]",
        );
        check("help", "index | i | name\ndocs  | d | count\nsize  | - | bytes\n");
    }
}
