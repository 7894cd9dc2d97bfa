//! `pleach import`: fills an index of a running server from a folder of files or from lines of JSON.
//!
//! It is a client like any other: bulk requests over HTTP. Not here: watching a folder, other formats.

use crate::client::{Client, segment};
use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};
use model::{Error, ErrorKind, Result, units};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The largest bulk body. A single document may be larger.
const BATCH_MAX_BYTES: usize = 5 << 20;
/// A server that is too busy is asked again so many times, waiting longer each time.
const TRIES: u32 = 8;
/// Failures that are told one by one; the others are counted.
const TOLD: usize = 10;

/// The flags of `import`.
#[derive(clap::Args, Debug)]
pub(crate) struct Flags {
    /// Lines of JSON, one document each; `.gz` is unpacked.
    #[arg(value_name = "FILE", conflicts_with = "files", required_unless_present = "files")]
    file: Option<PathBuf>,
    /// Import the files of this folder and of all folders in it.
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Index to fill [default with --files: fs].
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// Field (dotted) that holds each document's id.
    #[arg(long, value_name = "FIELD", requires = "file")]
    id: Option<String>,
    /// Field (dotted) that holds each document's routing.
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
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9200")]
    url: String,
}

/// Imports; the exit code is 1 if any document failed.
///
/// # Errors
/// Sources that cannot be read, a server that cannot be reached.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    let started = Instant::now();
    let mut counts = Counts::default();
    match (&flags.files, &flags.file) {
        (Some(folder), _) => import_files(flags, folder, &mut counts)?,
        (None, Some(file)) => import_lines(flags, file, &mut counts)?,
        (None, None) => return Err(Error::illegal("give a FILE of JSON lines, or a folder with --files")),
    }
    say(&counts.report(flags.dry_run, started.elapsed()));
    Ok(if counts.failed > 0 {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// What became of the documents.
#[derive(Debug, Default)]
struct Counts {
    read: u64,
    bytes: u64,
    created: u64,
    updated: u64,
    failed: u64,
    hidden: u64,
    binary: u64,
    too_large: u64,
    failures: Vec<String>,
}

impl Counts {
    fn fail(&mut self, what: String) {
        self.failed += 1;
        if self.failures.len() < TOLD {
            self.failures.push(what);
        }
    }

    fn report(&self, dry: bool, took: Duration) -> String {
        let mut out = String::new();
        for failure in &self.failures {
            out.push_str(&format!("failed: {failure}\n"));
        }
        if self.failed > self.failures.len() as u64 {
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
        let skipped = [
            ("hidden", self.hidden),
            ("binary", self.binary),
            ("too large", self.too_large),
        ];
        let skipped: Vec<String> = skipped
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(why, n)| format!("{n} {why}"))
            .collect();
        if !skipped.is_empty() {
            out.push_str(&format!("skipped: {}\n", skipped.join(", ")));
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
}

impl Sender {
    fn open(flags: &Flags, index: &str) -> Result<Sender> {
        let client = if flags.dry_run { None } else { Some(Client::new(&flags.url)?) };
        Ok(Sender {
            client,
            path: format!("/{}/_bulk", segment(index)),
            body: Vec::new(),
            names: Vec::new(),
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

    /// One document. `name` is how a failure is told.
    fn put(&mut self, name: String, action: &Value, source: &[u8], counts: &mut Counts) -> Result<()> {
        let action = action.to_string();
        if !self.body.is_empty() && self.body.len() + action.len() + source.len() + 2 > BATCH_MAX_BYTES {
            self.flush(counts)?;
        }
        counts.read += 1;
        counts.bytes += source.len() as u64;
        self.body.extend_from_slice(action.as_bytes());
        self.body.push(b'\n');
        self.body.extend_from_slice(source);
        self.body.push(b'\n');
        self.names.push(name);
        Ok(())
    }

    fn flush(&mut self, counts: &mut Counts) -> Result<()> {
        let body = std::mem::take(&mut self.body);
        let names = std::mem::take(&mut self.names);
        let Some(client) = &mut self.client else { return Ok(()) };
        if names.is_empty() {
            return Ok(());
        }
        let mut pause = Duration::from_millis(100);
        let mut answer = client.send("POST", &self.path, "application/x-ndjson", &body)?;
        for _ in 1..TRIES {
            if answer.status != 429 {
                break;
            }
            std::thread::sleep(pause);
            pause *= 2;
            answer = client.send("POST", &self.path, "application/x-ndjson", &body)?;
        }
        let Some(items) = answer.body.get("items").and_then(Value::as_array) else {
            let reason = sentence(&answer.body);
            for name in names {
                counts.fail(format!("{name}: {reason}"));
            }
            return Ok(());
        };
        for (i, name) in names.iter().enumerate() {
            let item = items.get(i).and_then(Value::as_object).and_then(|o| o.values().next());
            match item.and_then(|i| i.get("status")).and_then(Value::as_u64) {
                Some(201) => counts.created += 1,
                Some(200) => counts.updated += 1,
                _ => counts.fail(format!(
                    "{name}: {}",
                    item.map_or_else(|| "no answer for it".to_owned(), sentence)
                )),
            }
        }
        Ok(())
    }

    /// Sends the rest and makes it searchable.
    fn finish(mut self, index: &str, counts: &mut Counts) -> Result<()> {
        self.flush(counts)?;
        if let Some(client) = &mut self.client {
            let refreshed = client.send("POST", &format!("/{}/_refresh", segment(index)), "", &[])?;
            if refreshed.status >= 400 && counts.created + counts.updated > 0 {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("refreshing [{index}] failed: {}", sentence(&refreshed.body)),
                ));
            }
        }
        Ok(())
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
    let mut sender = Sender::open(flags, index)?;
    sender.greet()?;
    create_index(&mut sender, index)?;
    let mut found = Vec::new();
    walk(folder, "", flags, max_bytes, counts, &mut found);
    let progress = bar(found.iter().map(|f| f.bytes).sum());
    for file in &found {
        match describe(file, flags.binary) {
            Ok(Some(source)) => {
                let action = json!({ "index": { "_id": file.name } });
                sender.put(file.name.clone(), &action, source.to_string().as_bytes(), counts)?;
            }
            Ok(None) => counts.binary += 1,
            Err(cause) => counts.fail(format!("{}: {cause}", file.name)),
        }
        progress.inc(file.bytes);
    }
    progress.finish_and_clear();
    sender.finish(index, counts)
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
    let answer = client.send("PUT", &path, "application/json", body.to_string().as_bytes())?;
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
    let index = flags
        .index
        .as_deref()
        .ok_or_else(|| Error::illegal("name the index to fill: --index NAME"))?;
    let failed = |cause: std::io::Error| Error::illegal(format!("cannot read [{}]: {cause}", file.display()));
    let open = File::open(file).map_err(failed)?;
    let progress = bar(open.metadata().map_or(0, |m| m.len()));
    let counted = progress.wrap_read(open);
    let mut lines: Box<dyn BufRead> = if file.extension().is_some_and(|e| e == "gz") {
        Box::new(BufReader::new(MultiGzDecoder::new(counted)))
    } else {
        Box::new(BufReader::new(counted))
    };
    let mut sender = Sender::open(flags, index)?;
    sender.greet()?;
    let mut line = Vec::new();
    let mut number = 0_u64;
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        number += 1;
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() {
            continue;
        }
        match action(trimmed, flags) {
            Ok(action) => sender.put(format!("line {number}"), &action, trimmed, counts)?,
            Err(reason) => counts.fail(format!("line {number}: {reason}")),
        }
    }
    progress.finish_and_clear();
    sender.finish(index, counts)
}

/// The bulk action of a line.
fn action(line: &[u8], flags: &Flags) -> Result<Value, String> {
    let source: Value = serde_json::from_slice(line).map_err(|cause| format!("not JSON: {cause}"))?;
    if !source.is_object() {
        return Err("not a JSON object".to_owned());
    }
    let mut meta = serde_json::Map::new();
    for (key, field) in [("_id", &flags.id), ("routing", &flags.routing)] {
        let Some(field) = field else { continue };
        let value = field
            .split('.')
            .try_fold(&source, |at, step| at.get(step))
            .or_else(|| source.get(field));
        let text = match value {
            Some(Value::String(s)) if !s.is_empty() => s.clone(),
            Some(Value::Number(n)) => n.to_string(),
            _ => return Err(format!("no string or number in the field [{field}]")),
        };
        meta.insert(key.to_owned(), text.into());
    }
    Ok(json!({ "index": meta }))
}

/// A bar of bytes with rate and remaining time, on a terminal only.
fn bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} eta {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}

fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, id: Option<&str>, expected: Result<&str, &str>) {
        let flags = Flags {
            file: None,
            files: None,
            index: None,
            id: id.map(str::to_owned),
            routing: None,
            hidden: false,
            binary: false,
            max_size: String::new(),
            dry_run: true,
            url: String::new(),
        };
        match (action(line.as_bytes(), &flags), expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got.to_string(), expected, "{line}"),
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{line}: {got}"),
            (got, _) => panic!("{line}: {got:?}"),
        }
    }

    #[test]
    fn actions() {
        check(r#"{"a":1}"#, None, Ok(r#"{"index":{}}"#));
        check(r#"{"a":1}"#, Some("a"), Ok(r#"{"index":{"_id":"1"}}"#));
        check(r#"{"a":{"b":"x"}}"#, Some("a.b"), Ok(r#"{"index":{"_id":"x"}}"#));
        check(r#"{"a.b":"x"}"#, Some("a.b"), Ok(r#"{"index":{"_id":"x"}}"#));
        check(r#"{"a":null}"#, Some("a"), Err("no string or number"));
        check("[1]", None, Err("not a JSON object"));
        check("{", None, Err("not JSON"));
    }

    #[test]
    fn texts() {
        assert_eq!(text_of(b"plain".to_vec()).as_deref(), Some("plain"));
        assert_eq!(text_of(b"a\0b".to_vec()), None);
        assert_eq!(text_of(vec![0xff, 0xfe]), None);
    }
}
