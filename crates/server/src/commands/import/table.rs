//! The rows of a table (CSV, RFC 4180) as objects: the first row names the fields.
//!
//! A cell that is written as a number or as `true` or `false` becomes one, since a mapping made of it is to have numbers; a cell that is
//! empty is left out.

use super::records::Fault;
use csv::{ByteRecord, Reader, ReaderBuilder};
use serde_json::Value;
use std::io::Read;

/// A file that is a table.
pub(super) struct Table<R> {
    reader: Reader<R>,
    fields: Vec<String>,
    /// Every cell is a string.
    texts: bool,
    row: ByteRecord,
    /// The number of the row that was read last, from 1, without the head.
    pub(super) number: u64,
    /// The line that it begins on, from 1.
    pub(super) line: u64,
}

impl<R: Read> Table<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// A file that cannot be read; a column without a name, or with that of another one.
    pub(super) fn open(from: R, delimiter: u8, texts: bool) -> Result<Table<R>, Fault> {
        let mut reader = ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(from);
        let head = reader.byte_headers().map_err(|cause| Fault::of_file(&cause))?;
        let mut fields: Vec<String> = Vec::new();
        for (at, name) in head.iter().enumerate() {
            let refuse = |what: &str| Fault::File(format!("line 1: column {} {what}", at + 1));
            let name = std::str::from_utf8(name).map_err(|_| refuse("is not UTF-8"))?.trim();
            if name.is_empty() {
                return Err(refuse("has no name"));
            }
            if let Some(before) = fields.iter().position(|field| field == name) {
                return Err(refuse(&format!("has the name [{name}], as column {} has", before + 1)));
            }
            fields.push(name.to_owned());
        }
        Ok(Table {
            reader,
            fields,
            texts,
            row: ByteRecord::new(),
            number: 0,
            line: 1,
        })
    }

    /// The next row as an object; `None` behind the last one.
    ///
    /// # Errors
    /// A row of another length, or that is not UTF-8; a file that cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let found = self.reader.read_byte_record(&mut self.row);
        if !found.map_err(|cause| Fault::of_file(&cause))? {
            return Ok(None);
        }
        self.number += 1;
        self.line = self.row.position().map_or(0, csv::Position::line);
        if self.row.len() != self.fields.len() {
            let reason = format!(
                "it has [{}] cells, and the head names [{}]",
                self.row.len(),
                self.fields.len()
            );
            return Err(Fault::Record(reason));
        }
        let mut members = Vec::new();
        for (field, cell) in self.fields.iter().zip(&self.row) {
            let cell = std::str::from_utf8(cell).map_err(|_| Fault::Record(format!("[{field}] is not UTF-8")))?;
            if !cell.is_empty() {
                let value = if !self.texts && is_literal(cell) {
                    cell.to_owned()
                } else {
                    Value::from(cell).to_string()
                };
                members.push(format!("{}:{value}", Value::from(field.as_str())));
            }
        }
        Ok(Some(format!("{{{}}}", members.join(",")).into_bytes()))
    }
}

/// Is it written as JSON writes a number or a boolean? `007` and `1,5` are not.
fn is_literal(cell: &str) -> bool {
    let begins = cell.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && cell.ends_with(|c: char| c.is_ascii_digit());
    matches!(cell, "true" | "false") || begins && serde_json::from_str::<serde_json::Number>(cell).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, texts: bool, expected: &[Result<&str, &str>]) {
        let mut table = Table::open(text.as_bytes(), b',', texts).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        for expected in expected {
            match (table.next(), expected) {
                (Ok(Some(row)), Ok(expected)) => assert_eq!(String::from_utf8_lossy(&row), *expected, "{text}"),
                (Err(Fault::Record(reason)), Err(expected)) => assert!(reason.contains(expected), "{text}: {reason}"),
                (found, _) => panic!("{text}: {found:?} is not {expected:?}"),
            }
        }
        assert!(matches!(table.next(), Ok(None)), "{text}");
    }

    #[test]
    fn rows_are_objects() {
        check("a,b\n", false, &[]);
        check(
            "a,b\n1,x\n-1.5e3,true\n",
            false,
            &[Ok(r#"{"a":1,"b":"x"}"#), Ok(r#"{"a":-1.5e3,"b":true}"#)],
        );
        check("zip,n\n007,1.\n,\n", false, &[Ok(r#"{"zip":"007","n":"1."}"#), Ok("{}")]);
        check("a\n1\ntrue\n", true, &[Ok(r#"{"a":"1"}"#), Ok(r#"{"a":"true"}"#)]);
        check(
            "a,\"b c\"\n\"x, \"\"y\"\"\nz\",2\r\n",
            false,
            &[Ok(r#"{"a":"x, \"y\"\nz","b c":2}"#)],
        );
        check(
            "a,b\n1\n1,2\n",
            false,
            &[Err("[1] cells, and the head names [2]"), Ok(r#"{"a":1,"b":2}"#)],
        );
    }

    #[test]
    fn heads_are_names() {
        for (head, expected) in [
            ("a,,c\n", "column 2 has no name"),
            ("a,b,a\n", "column 3 has the name [a], as column 1 has"),
        ] {
            match Table::open(head.as_bytes(), b',', false).map(|_| ()) {
                Err(Fault::File(reason)) => assert!(reason.contains(expected), "{head}: {reason}"),
                other => panic!("{head}: {other:?}"),
            }
        }
    }
}
