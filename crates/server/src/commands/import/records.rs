//! Operations and documents from a file or from standard input: lines of JSON, the elements of an array, the rows of a table.
//!
//! Not here: what a line means (`lines`), sending (`sender`).

use super::array::Array;
use super::counts::Counts;
use super::lines::{self, Form, Rules};
use super::progress::{InputPosition, Progress};
use super::sender::{REFUSED_IN_A_ROW_MAX, Sender};
use super::table::Table;
use super::{ImportFlags, bar};
use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use model::{Error, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The name of standard input.
const STDIN: &str = "-";
/// The byte order mark of UTF-8, which some editors write at the beginning of a file.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// How a file begins that `gzip` made.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A record that could not be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// Of this record alone.
    Record(String),
    /// Of the file: nothing behind it can be read.
    File(String),
}

impl Fault {
    pub(super) fn of_file(cause: &dyn std::error::Error) -> Fault {
        Fault::File(cause.to_string())
    }

    fn reason(&self) -> &str {
        let (Fault::Record(why) | Fault::File(why)) = self;
        why
    }
}

/// The records of a file, one after the other.
enum Records {
    Lines(Lines),
    Array(Array<Box<dyn BufRead>>),
    Table(Table<Box<dyn BufRead>>),
}

impl Records {
    /// Those of a file that was read in no part yet, by its flags and its first bytes.
    fn open(flags: &ImportFlags, file: &Path, mut from: Box<dyn BufRead>) -> Result<Records, Fault> {
        let first = from.fill_buf().map_err(|cause| Fault::of_file(&cause))?;
        if first.starts_with(MARK) {
            from.consume(MARK.len());
        }
        if let Some(delimiter) = delimiter(flags, file) {
            return Ok(Records::Table(Table::open(from, delimiter, flags.texts)?));
        }
        let first = from.fill_buf().map_err(|cause| Fault::of_file(&cause))?;
        Ok(match first.trim_ascii_start().starts_with(b"[") {
            true => Records::Array(Array::new(from)),
            false => Records::Lines(Lines { from, number: 0 }),
        })
    }

    /// The next record; `None` behind the last one.
    fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let read = match self {
            Records::Lines(lines) => lines.next(),
            Records::Array(array) => array.next(),
            Records::Table(table) => return table.next(),
        };
        read.map_err(|cause| Fault::of_file(&cause))
    }

    /// Its number: lines are counted with those that are empty.
    fn number(&self) -> u64 {
        match self {
            Records::Lines(lines) => lines.number,
            Records::Array(array) => array.number,
            Records::Table(table) => table.number,
        }
    }

    /// How a failure of the record names it.
    fn name(&self) -> String {
        match self {
            Records::Lines(lines) => format!("line {}", lines.number),
            Records::Array(array) => format!("element {}", array.number),
            Records::Table(table) => format!("line {}", table.line),
        }
    }
}

/// What is between the cells, if the file is a table.
fn delimiter(flags: &ImportFlags, file: &Path) -> Option<u8> {
    let form = flags.form.or_else(|| {
        let name = file.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Form::Csv),
            "tsv" => Some(Form::Tsv),
            _ => None,
        }
    });
    match (form, flags.delimiter) {
        (Some(Form::Csv | Form::Tsv), Some(given)) => Some(given),
        (Some(Form::Csv), None) => Some(b','),
        (Some(Form::Tsv), None) => Some(b'\t'),
        _ => None,
    }
}

/// Reads the value of `--delimiter`.
///
/// # Errors
/// It is not one character of ASCII.
pub(super) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [one] if one.is_ascii() && !matches!(one, b'"' | b'\n' | b'\r') => Ok(*one),
        _ if text == "\\t" => Ok(b'\t'),
        _ => Err("write one character, such as [;]".to_owned()),
    }
}

/// The bytes of a file, unpacked, and a bar that shows how many of them were read.
fn open(file: &Path) -> std::io::Result<(Box<dyn BufRead>, ProgressBar)> {
    let (plain, progress): (Box<dyn Read>, ProgressBar) = if file.as_os_str() == STDIN {
        (Box::new(std::io::stdin()), ProgressBar::hidden())
    } else {
        let open = File::open(file)?;
        let progress = bar(open.metadata().map_or(0, |m| m.len()));
        (Box::new(progress.wrap_read(open)), progress)
    };
    let mut plain = BufReader::new(plain);
    let unpacked: Box<dyn BufRead> = match plain.fill_buf()?.starts_with(GZIP) {
        true => Box::new(BufReader::new(MultiGzDecoder::new(plain))),
        false => Box::new(plain),
    };
    Ok((unpacked, progress))
}

/// Imports the records of a file.
///
/// # Errors
/// A file that cannot be read, a form that its first record does not have, what the server refuses for all documents.
pub(super) fn import(flags: &ImportFlags, file: &Path, counts: &mut Counts) -> Result<()> {
    let shown = file.display();
    let failed = |why: &str| Error::illegal(format!("cannot read [{shown}]: {why}"));
    let (from, bar) = open(file).map_err(|cause| failed(&cause.to_string()))?;
    let progress = Progress::open(flags.resume.as_deref(), &shown.to_string())?;
    let mut records = Records::open(flags, file, from).map_err(|fault| failed(fault.reason()))?;
    counts.resumed = progress.records();
    while records.number() < counts.resumed {
        match records.next() {
            Ok(None) => break,
            Ok(Some(_)) | Err(Fault::Record(_)) => {}
            Err(Fault::File(why)) => return Err(failed(&why)),
        }
    }
    let first = match records.next() {
        Ok(Some(first)) => first,
        Ok(None) => {
            bar.finish_and_clear();
            return progress.finish();
        }
        Err(Fault::File(why)) => return Err(failed(&why)),
        Err(Fault::Record(why)) => return Err(stop_error(&records.name(), &why)),
    };
    let rules = rules(flags, &records, &first).map_err(|why| stop_error(&records.name(), &why))?;
    // An error in the first record concerns the form of the file: those behind it are refused for the same reason.
    lines::read_line(&first, rules).map_err(|why| stop_error(&records.name(), &why))?;
    let mut sender = Sender::open(flags, rules.index, progress)?;
    sender.greet()?;
    let mut record = Ok(Some(first));
    let mut unreadable_in_a_row = 0;
    loop {
        let sent = match record {
            Ok(None) => break,
            Ok(Some(record)) => send(&record, rules, &mut records, &mut sender, counts)?,
            Err(fault) => Err(fault),
        };
        match sent {
            Ok(()) => unreadable_in_a_row = 0,
            Err(Fault::File(why)) => return Err(failed(&why)),
            Err(Fault::Record(why)) => {
                unreadable_in_a_row += 1;
                counts.fail(format!("{}: {why}", records.name()));
                if unreadable_in_a_row >= REFUSED_IN_A_ROW_MAX {
                    counts.failures.clear();
                    let why = format!("{why}; so it was with the {} before it", REFUSED_IN_A_ROW_MAX - 1);
                    return Err(stop_error(&records.name(), &why));
                }
            }
        }
        record = records.next();
    }
    bar.finish_and_clear();
    sender.finish(counts)
}

/// Sends one operation. A line of a bulk request takes the next one with it, where its document stands.
///
/// # Errors
/// What stops the import. A record that cannot be read does not.
fn send(
    record: &[u8],
    rules: Rules<'_>,
    records: &mut Records,
    sender: &mut Sender,
    counts: &mut Counts,
) -> Result<std::result::Result<(), Fault>> {
    let (name, number) = (records.name(), records.number());
    let (mut operation, source) = match lines::read_line(record, rules) {
        Ok(read) => read,
        Err(why) => return Ok(Err(Fault::Record(why))),
    };
    let source = match source {
        None if operation.has_source => match records.next() {
            Ok(Some(source)) => match lines::check_source(&source) {
                Ok(()) => Some(source),
                Err(why) => return Ok(Err(Fault::Record(why))),
            },
            Ok(None) => {
                let why = "the file ends where its document should stand".to_owned();
                return Ok(Err(Fault::Record(why)));
            }
            Err(fault) => return Ok(Err(fault)),
        },
        held => held,
    };
    if let Some(id) = sender.id_of_record(number) {
        operation.name_document(id);
    }
    counts.typed += u64::from(operation.typed);
    sender.indices.extend(operation.index.clone());
    let place = InputPosition::Records(records.number());
    sender.put(name, place, &operation.action, source.as_deref(), counts).map(Ok)
}

/// The rules for every record, by the flags and by the first record.
fn rules<'a>(flags: &'a ImportFlags, records: &Records, first: &[u8]) -> std::result::Result<Rules<'a>, String> {
    let form = match (flags.form, records) {
        (_, Records::Table(_)) => Form::Documents,
        (Some(form), _) => form,
        (None, _) => lines::form_of(first)?,
    };
    match records {
        Records::Array(_) if form == Form::Bulk => {
            return Err("operations of a bulk request stand on lines, not in an array".to_owned());
        }
        _ if form == Form::Bulk && (flags.id.is_some() || flags.routing.is_some()) => {
            return Err("it is an operation of a bulk request, which names its own id and routing; leave out --id and --routing, or say --form documents".to_owned());
        }
        _ => {}
    }
    Ok(Rules {
        form,
        index: flags.index.as_deref(),
        id: flags.id.as_deref(),
        routing: flags.routing.as_deref(),
    })
}

/// A refusal that concerns every record.
fn stop_error(record: &str, why: &str) -> Error {
    Error::illegal(format!("{record}: {why}. The import stopped there"))
}

/// The lines of a file that are not empty, without white space around them.
struct Lines {
    from: Box<dyn BufRead>,
    /// The number of the line that was read last, from 1.
    number: u64,
}

impl Lines {
    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        while self.from.read_until(b'\n', &mut line)? > 0 {
            self.number += 1;
            let text = line.trim_ascii();
            if !text.is_empty() {
                return Ok(Some(text.to_vec()));
            }
            line.clear();
        }
        Ok(None)
    }
}
