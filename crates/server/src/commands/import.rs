//! `pleach import`: fills an index of a running server from a folder of files, from lines of JSON or from another server.
//!
//! It is a client like any other: bulk requests over HTTP. Not here: what a line means (`lines`), reading another server
//! (`remote`), watching a folder.

mod lines;
mod modern_mapping;
mod remote;

use crate::client::{Answer, Client, JSON, RawAnswer, ServerFlags, segment};
use crate::console::say;
use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};
use lines::{Form, Operation, Rules};
use model::{Error, ErrorKind, Result, units};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The largest bulk body. A single document may be larger.
const BATCH_MAX_BYTES: usize = 5 << 20;
/// A server that is too busy is asked again so many times, waiting longer each time.
const TRIES: u32 = 8;
/// Failures that are printed one by one; the others are counted.
const PRINTED_FAILURES: usize = 10;
/// So many documents refused in a row stop the import: what refuses them will refuse the rest.
const REFUSED_IN_A_ROW_MAX: u64 = 1000;

/// The flags of `import`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The exit code is 0 if every document was taken, 1 if one was refused or the import stopped, 2 if a flag cannot be read."
)]
pub(crate) struct Flags {
    /// Lines of JSON: documents, the lines of a bulk request, or a dump of hits; `.gz` is unpacked.
    #[arg(value_name = "FILE", conflicts_with = "files", required_unless_present_any = ["files", "from"])]
    file: Option<PathBuf>,
    /// Import the files of this folder and of all folders in it.
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Index to fill, whatever index the lines name [default: the index of each line; with --files: fs; with --from: of the same name].
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// What the lines are [default: what the first line looks like].
    #[arg(long, value_name = "FORM", requires = "file")]
    form: Option<Form>,
    /// Field (dotted) that holds each document's id [default: `_id`, if the line has one].
    #[arg(long, value_name = "FIELD", requires = "file")]
    id: Option<String>,
    /// Field (dotted) that holds each document's routing [default: `_routing`, if the line has one].
    #[arg(long, value_name = "FIELD", requires = "file")]
    routing: Option<String>,
    /// Import hidden files and folders too.
    #[arg(long, requires = "files")]
    hidden: bool,
    /// Import binary files too, without contents.
    #[arg(long, requires = "files")]
    binary: bool,
    /// Skip files larger than this.
    #[arg(long, value_name = "SIZE", default_value = "10mb", requires = "files")]
    max_size: String,
    /// Read everything, send nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    from: remote::SourceFlags,
    #[command(flatten)]
    server: ServerFlags,
}

/// Imports; the exit code is 1 if any document failed.
///
/// # Errors
/// Sources that cannot be read, a server that cannot be reached, a refusal that concerns every document.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    let started = Instant::now();
    let mut counts = Counts::default();
    let done = match (&flags.files, &flags.file, &flags.from.from) {
        (Some(folder), ..) => import_files(flags, folder, &mut counts),
        (None, Some(file), _) => import_lines(flags, file, &mut counts),
        (None, None, Some(url)) => remote::import(flags, url, &mut counts),
        (None, None, None) => Err(Error::illegal(
            "give a FILE of JSON lines, a folder with --files, or a server with --from",
        )),
    };
    // An import that stopped also says what it has done.
    if done.is_ok() || counts.accepted() > 0 {
        say(&counts.report(flags.dry_run, started.elapsed()));
    }
    done?;
    Ok(if counts.failed > 0 {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// Counts of the documents by outcome.
#[derive(Debug, Default)]
struct Counts {
    read: u64,
    bytes: u64,
    created: u64,
    updated: u64,
    deleted: u64,
    /// Updates that changed nothing.
    unchanged: u64,
    /// Deletions of what was not there.
    not_found: u64,
    failed: u64,
    hidden: u64,
    binary: u64,
    too_large: u64,
    /// Lines whose type was left out.
    typed: u64,
    failures: Vec<String>,
    /// Documents that the server refused since the last that it took, and the first of them.
    refused_in_a_row: u64,
    first_in_a_row: String,
}

impl Counts {
    fn fail(&mut self, what: String) {
        self.failed += 1;
        if self.failures.len() < PRINTED_FAILURES {
            self.failures.push(what);
        }
    }

    /// Documents that the server accepted.
    fn accepted(&self) -> u64 {
        self.created + self.updated + self.deleted + self.unchanged + self.not_found
    }

    /// Counts the outcome of one operation.
    fn count(&mut self, name: &str, item: Option<&Value>) {
        let status = item.and_then(|i| i.get("status")).and_then(Value::as_u64);
        let result = item.and_then(|i| i.get("result")).and_then(Value::as_str);
        match (status, result) {
            (Some(200 | 201), Some("deleted")) => self.deleted += 1,
            (Some(200 | 201), Some("noop")) => self.unchanged += 1,
            (Some(404), Some("not_found")) => self.not_found += 1,
            (Some(201), _) => self.created += 1,
            (Some(200), _) => self.updated += 1,
            _ => {
                let reason = item.map_or_else(|| "no answer for it".to_owned(), sentence);
                let failure = format!("{name}: {reason}");
                if self.refused_in_a_row == 0 {
                    self.first_in_a_row.clone_from(&failure);
                }
                self.refused_in_a_row += 1;
                return self.fail(failure);
            }
        }
        self.refused_in_a_row = 0;
    }

    fn report(&self, dry: bool, took: Duration) -> String {
        let mut out = String::new();
        for failure in &self.failures {
            out.push_str(&format!("failed: {failure}\n"));
        }
        if self.failed > self.failures.len() as u64 && !self.failures.is_empty() {
            out.push_str(&format!("… and {} more failures\n", self.failed - self.failures.len() as u64));
        }
        let size = units::render_bytes(self.bytes);
        let took = units::render_duration(Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)));
        out.push_str(&if dry {
            format!(
                "would import {} documents ({size}), {} failed; nothing was sent\n",
                self.read, self.failed
            )
        } else {
            format!(
                "{} created, {} updated, {} failed ({size} in {took})\n",
                self.created, self.updated, self.failed
            )
        });
        for (what, counted) in [
            (
                "",
                [
                    ("deleted", self.deleted),
                    ("not found", self.not_found),
                    ("unchanged", self.unchanged),
                ]
                .as_slice(),
            ),
            (
                "skipped: ",
                &[
                    ("hidden", self.hidden),
                    ("binary", self.binary),
                    ("too large", self.too_large),
                ],
            ),
            ("left out: ", &[("types: an index has no types today", self.typed)]),
        ] {
            let counted = counted.iter().filter(|(_, n)| *n > 0);
            let counted: Vec<String> = counted.map(|(name, n)| format!("{n} {name}")).collect();
            if !counted.is_empty() {
                out.push_str(&format!("{what}{}\n", counted.join(", ")));
            }
        }
        out
    }
}

/// Documents on their way: collected into bulk bodies, sent when one is full.
struct Sender {
    /// `None` in a dry run.
    client: Option<Client>,
    path: String,
    body: Vec<u8>,
    names: Vec<String>,
    /// May the operations that were collected be applied twice?
    repeatable: bool,
    /// The indices that are filled.
    indices: BTreeSet<String>,
}

impl Sender {
    /// `index` is that of operations that name none.
    fn open(flags: &Flags, index: Option<&str>) -> Result<Sender> {
        let client = if flags.dry_run { None } else { Some(flags.server.client()?) };
        Ok(Sender {
            client,
            path: index.map_or_else(|| "/_bulk".to_owned(), |index| format!("/{}/_bulk", segment(index))),
            body: Vec::new(),
            names: Vec::new(),
            repeatable: true,
            indices: index.map(str::to_owned).into_iter().collect(),
        })
    }

    /// Refuses a listener that would not understand a mapping without types.
    fn greet(&mut self) -> Result<()> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let answer = client.send("GET", "/", "", &[])?;
        let number = answer
            .body
            .pointer("/version/number")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if number.starts_with("1.") || number.starts_with("2.") {
            let reason = "this listener answers as Elasticsearch 2, with types; import through a listener of another persona (pleach --listen 127.0.0.1:9200 --listen 127.0.0.1:9202=es2 has both)";
            return Err(Error::illegal(reason));
        }
        Ok(())
    }

    /// One operation; a deletion has no source. `name` is what a failure is printed with.
    fn put(&mut self, name: String, action: &Value, source: Option<&[u8]>, counts: &mut Counts) -> Result<()> {
        let line = action.to_string();
        let bytes = source.map_or(0, <[u8]>::len);
        if !self.body.is_empty() && self.body.len() + line.len() + bytes + 2 > BATCH_MAX_BYTES {
            self.flush(counts)?;
        }
        counts.read += 1;
        counts.bytes += bytes as u64;
        self.repeatable &= lines::is_repeatable(action);
        for line in std::iter::once(line.as_bytes()).chain(source) {
            self.body.extend_from_slice(line);
            self.body.push(b'\n');
        }
        self.names.push(name);
        Ok(())
    }

    /// Sends what was collected and counts the outcomes.
    ///
    /// # Errors
    /// A refusal that concerns what comes next as well: of the whole request, or of each of its documents before any was taken.
    fn flush(&mut self, counts: &mut Counts) -> Result<()> {
        let body = std::mem::take(&mut self.body);
        let names = std::mem::take(&mut self.names);
        let (Some(client), Some(first)) = (&mut self.client, names.first()) else {
            return Ok(());
        };
        let repeatable = std::mem::replace(&mut self.repeatable, true);
        let mut pause = Duration::from_millis(100);
        let unanswered = |cause: Error| {
            let again = match repeatable {
                true => "run the command again, which writes them once",
                false => "those of them that are there are written twice if the command is run again",
            };
            Error::new(
                cause.kind(),
                format!(
                    "{}. The request of {} documents from [{first}] on was not answered: nobody knows whether it was applied; \
                     {again}. The import stopped there",
                    cause.reason(),
                    names.len()
                ),
            )
        };
        let mut answer = post(client, &self.path, &body, repeatable).map_err(unanswered)?;
        for _ in 1..TRIES {
            if answer.status != 429 {
                break;
            }
            std::thread::sleep(pause);
            pause *= 2;
            answer = post(client, &self.path, &body, repeatable).map_err(unanswered)?;
        }
        let Some(items) = answer.body.get("items").and_then(Value::as_array) else {
            let reason = sentence(&answer.body);
            if answer.status == 413 && names.len() == 1 {
                counts.fail(format!("{first}: {reason}"));
                return Ok(());
            }
            return Err(Error::illegal(format!(
                "{first}: the server refused the request of {} documents with {}: {reason}. \
                 The import stopped there; mend the cause and run the command again",
                names.len(),
                answer.status
            )));
        };
        for (i, name) in names.iter().enumerate() {
            let item = items.get(i).and_then(Value::as_object).and_then(|o| o.values().next());
            counts.count(name, item);
        }
        let refused = counts.refused_in_a_row;
        if refused > 0 && (counts.accepted() == 0 || refused >= REFUSED_IN_A_ROW_MAX) {
            // One message stands for all of them.
            counts.failures.clear();
            return Err(Error::illegal(format!(
                "{}. The server refused {refused} of {refused} documents, so the import stopped; \
                 mend the cause and run the command again",
                counts.first_in_a_row
            )));
        }
        Ok(())
    }

    /// Sends the rest and makes it searchable.
    fn finish(mut self, counts: &mut Counts) -> Result<()> {
        self.flush(counts)?;
        let Some(client) = &mut self.client else { return Ok(()) };
        if counts.accepted() == 0 {
            return Ok(());
        }
        for index in &self.indices {
            let refreshed = client.send("POST", &format!("/{}/_refresh", segment(index)), "", &[])?;
            // An index that only refused has not been made.
            if refreshed.status >= 400 && refreshed.status != 404 {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("refreshing [{index}] failed: {}", sentence(&refreshed.body)),
                ));
            }
        }
        Ok(())
    }
}

/// Sends a bulk request.
fn post(client: &mut Client, path: &str, body: &[u8], repeatable: bool) -> Result<Answer> {
    let media = "application/x-ndjson";
    match repeatable {
        true => client.send("POST", path, media, body),
        false => client.send_alive("POST", path, media, body).map(RawAnswer::parse),
    }
}

/// The reason in an answer or a bulk item.
fn sentence(body: &Value) -> String {
    let error = body.get("error").unwrap_or(body);
    let reason = error.get("reason").and_then(Value::as_str).or_else(|| error.as_str());
    let cause = error.pointer("/caused_by/reason").and_then(Value::as_str);
    match (reason, cause) {
        (Some(reason), Some(cause)) => format!("{reason}: {cause}"),
        (Some(reason), None) => reason.to_owned(),
        _ => body.to_string(),
    }
}

/// One file that is to be imported.
struct Found {
    path: PathBuf,
    /// From the folder on, `/`-separated, beginning with `/`.
    name: String,
    bytes: u64,
}

fn import_files(flags: &Flags, folder: &Path, counts: &mut Counts) -> Result<()> {
    let index = flags.index.as_deref().unwrap_or("fs");
    let max_bytes = units::parse_bytes(&flags.max_size, "max-size")?;
    if !folder.is_dir() {
        return Err(Error::illegal(format!("[{}] is not a folder", folder.display())));
    }
    let mut sender = Sender::open(flags, Some(index))?;
    sender.greet()?;
    create_index(&mut sender, index)?;
    let mut found = Vec::new();
    walk(folder, "", flags, max_bytes, counts, &mut found);
    let progress = bar(found.iter().map(|f| f.bytes).sum());
    for file in &found {
        match describe(file, flags.binary) {
            Ok(Some(source)) => {
                let action = json!({ "index": { "_id": file.name } });
                sender.put(file.name.clone(), &action, Some(source.to_string().as_bytes()), counts)?;
            }
            Ok(None) => counts.binary += 1,
            Err(cause) => counts.fail(format!("{}: {cause}", file.name)),
        }
        progress.inc(file.bytes);
    }
    progress.finish_and_clear();
    sender.finish(counts)
}

/// The index as the file system wants it; one that is there is kept as it is.
fn create_index(sender: &mut Sender, index: &str) -> Result<()> {
    let Some(client) = &mut sender.client else { return Ok(()) };
    let path = format!("/{}", segment(index));
    if client.send("HEAD", &path, "", &[])?.status == 200 {
        return Ok(());
    }
    let body = json!({
        "settings": {
            "analysis": {
                "tokenizer": { "paths": { "type": "path_hierarchy" } },
                "analyzer": { "paths": { "type": "custom", "tokenizer": "paths" } }
            },
            // A file is at its folder and its name: trees and files can be locked by path.
            "index.pleach.lock_path": ["path", "name"]
        },
        "mappings": { "properties": {
            "name": { "type": "keyword" },
            "path": { "type": "keyword", "fields": { "tree": { "type": "text", "analyzer": "paths", "search_analyzer": "keyword" } } },
            "contents": { "type": "text" },
            "size": { "type": "long" },
            "mtime": { "type": "date" }
        } }
    });
    let answer = client.send("PUT", &path, JSON, body.to_string().as_bytes())?;
    match answer.status {
        200 | 201 => Ok(()),
        _ => Err(Error::illegal(format!(
            "creating the index [{index}] failed: {}",
            sentence(&answer.body)
        ))),
    }
}

/// Every file to import, folder by folder, in the order of names. Links are not followed: they may lead in circles.
fn walk(folder: &Path, name: &str, flags: &Flags, max_bytes: u64, counts: &mut Counts, found: &mut Vec<Found>) {
    let listing = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut entries = match listing {
        Ok(entries) => entries,
        Err(cause) => return counts.fail(format!("{name}/: {cause}")),
    };
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let own = entry.file_name().to_string_lossy().into_owned();
        if own.starts_with('.') && !flags.hidden {
            counts.hidden += 1;
            continue;
        }
        let full = format!("{name}/{own}");
        match entry.metadata() {
            Ok(facts) if facts.is_dir() => walk(&entry.path(), &full, flags, max_bytes, counts, found),
            Ok(facts) if facts.is_file() && facts.len() > max_bytes => counts.too_large += 1,
            Ok(facts) if facts.is_file() => found.push(Found {
                path: entry.path(),
                name: full,
                bytes: facts.len(),
            }),
            Ok(_) => {}
            Err(cause) => counts.fail(format!("{full}: {cause}")),
        }
    }
}

/// The document of a file; `None` for a binary one that is not wanted.
fn describe(file: &Found, binary: bool) -> std::io::Result<Option<Value>> {
    let mut bytes = Vec::new();
    let mut open = File::open(&file.path)?;
    open.read_to_end(&mut bytes)?;
    let facts = open.metadata()?;
    let (folder, name) = file.name.rsplit_once('/').unwrap_or(("", &file.name));
    let folder = if folder.is_empty() { "/" } else { folder };
    let mtime = facts
        .modified()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    let mut source = json!({ "name": name, "path": folder, "size": bytes.len(), "mtime": mtime });
    match text_of(bytes) {
        Some(contents) => source["contents"] = contents.into(),
        None if binary => {}
        None => return Ok(None),
    }
    Ok(Some(source))
}

/// The text of a file, `None` if it is none: a NUL among its first 8 kB, or not UTF-8.
fn text_of(bytes: Vec<u8>) -> Option<String> {
    if bytes.iter().take(8192).any(|b| *b == 0) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

fn import_lines(flags: &Flags, file: &Path, counts: &mut Counts) -> Result<()> {
    let failed = |cause: std::io::Error| Error::illegal(format!("cannot read [{}]: {cause}", file.display()));
    let open = File::open(file).map_err(failed)?;
    let progress = bar(open.metadata().map_or(0, |m| m.len()));
    let counted = progress.wrap_read(open);
    let from: Box<dyn BufRead> = if file.extension().is_some_and(|e| e == "gz") {
        Box::new(BufReader::new(MultiGzDecoder::new(counted)))
    } else {
        Box::new(BufReader::new(counted))
    };
    let mut lines = Lines { from, number: 0 };
    let Some(first) = lines.next().map_err(failed)? else {
        progress.finish_and_clear();
        return Ok(());
    };
    let rules = rules(flags, &first).map_err(|why| stopped(lines.number, &why))?;
    // An error in the first line concerns the form of the file: the lines after it are refused for the same reason.
    lines::read_line(&first, rules).map_err(|why| stopped(lines.number, &why))?;
    let mut sender = Sender::open(flags, rules.index)?;
    sender.greet()?;
    let mut line = Some(first);
    let mut unreadable_in_a_row = 0;
    while let Some(text) = line {
        let name = format!("line {}", lines.number);
        let read = lines::read_line(&text, rules);
        unreadable_in_a_row = if read.is_ok() { 0 } else { unreadable_in_a_row + 1 };
        match read {
            Ok((operation, Some(source))) => send_line(&mut sender, name, &operation, Some(&source), counts)?,
            Ok((operation, None)) if !operation.has_source => send_line(&mut sender, name, &operation, None, counts)?,
            Ok((operation, None)) => match lines.next().map_err(failed)? {
                None => counts.fail(format!("{name}: the file ends where its document should stand")),
                Some(source) => match lines::check_source(&source) {
                    Ok(()) => send_line(&mut sender, name, &operation, Some(&source), counts)?,
                    Err(reason) => counts.fail(format!("line {}: {reason}", lines.number)),
                },
            },
            Err(reason) => {
                counts.fail(format!("{name}: {reason}"));
                if unreadable_in_a_row >= REFUSED_IN_A_ROW_MAX {
                    counts.failures.clear();
                    let why = format!("{reason}; so it was with the {} lines before it", REFUSED_IN_A_ROW_MAX - 1);
                    return Err(stopped(lines.number, &why));
                }
            }
        }
        line = lines.next().map_err(failed)?;
    }
    progress.finish_and_clear();
    sender.finish(counts)
}

fn send_line(sender: &mut Sender, name: String, operation: &Operation, source: Option<&[u8]>, counts: &mut Counts) -> Result<()> {
    counts.typed += u64::from(operation.typed);
    sender.indices.extend(operation.index.clone());
    sender.put(name, &operation.action, source, counts)
}

/// The rules for every line, by the flags and by the first line.
fn rules<'a>(flags: &'a Flags, first: &[u8]) -> Result<Rules<'a>, String> {
    let form = match flags.form {
        Some(form) => form,
        None => lines::form_of(first)?,
    };
    if form == Form::Bulk && (flags.id.is_some() || flags.routing.is_some()) {
        return Err("it is an operation of a bulk request, which names its own id and routing; leave out --id and --routing, or say --form documents".to_owned());
    }
    Ok(Rules {
        form,
        index: flags.index.as_deref(),
        id: flags.id.as_deref(),
        routing: flags.routing.as_deref(),
    })
}

/// A refusal that concerns every line.
fn stopped(line: u64, why: &str) -> Error {
    Error::illegal(format!("line {line}: {why}. The import stopped there"))
}

/// The lines of a file that are not empty, without white space around them and without the file's byte order mark.
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
            let text = if self.number == 1 { lines::without_mark(&line) } else { &line };
            let text = text.trim_ascii();
            if !text.is_empty() {
                return Ok(Some(text.to_vec()));
            }
            line.clear();
        }
        Ok(None)
    }
}

/// A bar of bytes with rate and remaining time, on a terminal only.
fn bar(bytes: u64) -> ProgressBar {
    bar_of(bytes, "{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} eta {eta}")
}

/// A bar in this form.
fn bar_of(length: u64, form: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(text_of(b"plain".to_vec()).as_deref(), Some("plain"));
        assert_eq!(text_of(b"a\0b".to_vec()), None);
        assert_eq!(text_of(vec![0xff, 0xfe]), None);
    }
}
