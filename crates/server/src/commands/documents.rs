//! `pleach get`, `put`, `search`, `count`, `indices`, `bulk` and `export`: the requests that people make most, without curl.
//!
//! Not here: the form of what is printed (`rows`), filling an index from files of any form (`import`), locks (`lock`).

use super::rows::{CODES, Common, NOT_FOUND, Output, failure, lines, pick, print, table};
use crate::client::{JSON, segment, targets};
use crate::console::complain;
use crate::server_flags::ServerFlags;
use model::{Error, Result};
use serde_json::{Map, Value, json};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Hits of one page of an export.
const PAGE: usize = 1000;
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct GetFlags {
    /// The index.
    index: String,
    /// The id of the document.
    id: String,
    /// Print the whole answer, with version and sequence number.
    #[arg(long)]
    meta: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct PutFlags {
    /// The index; it is made if it is missing.
    index: String,
    /// The id of the document.
    id: String,
    /// File with the document [default: standard input].
    file: Option<PathBuf>,
    /// Do not replace a document that is there.
    #[arg(long)]
    create: bool,
    /// Write under this lock; may be repeated.
    #[arg(long, value_name = "ID")]
    lock: Vec<String>,
    /// Let searches see it before this ends.
    #[arg(long)]
    refresh: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct SearchFlags {
    /// The index, a pattern, or several separated by commas.
    index: String,
    /// The query as Lucene writes it, such as `title:quick AND year:>2000` [default: everything].
    query: Option<String>,
    /// File with the body of a search, `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    body: Option<PathBuf>,
    /// Hits at most.
    #[arg(long, value_name = "N")]
    size: Option<usize>,
    /// Sort by `FIELD` or `FIELD:desc`.
    #[arg(long, value_name = "SORT")]
    sort: Option<String>,
    /// Fields to show, separated by commas [default: the whole source].
    #[arg(long, value_name = "FIELDS")]
    fields: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct CountFlags {
    /// The index, a pattern, or several separated by commas.
    index: String,
    /// The query as Lucene writes it [default: everything].
    query: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct IndicesFlags {
    /// A pattern [default: all of them].
    pattern: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct BulkFlags {
    /// File with the lines of one bulk request, `-` for standard input.
    file: PathBuf,
    /// The index of lines that name none.
    #[arg(long, value_name = "NAME")]
    index: Option<String>,
    /// All of it or nothing.
    #[arg(long)]
    atomic: bool,
    /// Let searches see it before this ends.
    #[arg(long)]
    refresh: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct ExportFlags {
    /// The index, a pattern, or several separated by commas.
    index: String,
    /// Documents of this query only, as Lucene writes it.
    #[arg(long, value_name = "QUERY")]
    query: Option<String>,
    #[command(flatten)]
    server: ServerFlags,
}

/// `pleach get`: the source of a document.
///
/// # Errors
/// A server that cannot be reached or refuses.
pub(crate) fn get(flags: &GetFlags) -> Result<ExitCode> {
    let path = format!("/{}/_doc/{}", segment(&flags.index), segment(&flags.id));
    let answer = flags.common.client()?.send("GET", &path, JSON, b"")?;
    if answer.status == 404 && answer.body["found"] == Value::Bool(false) {
        complain(&format!("there is no document [{}] in [{}]", flags.id, flags.index));
        return Ok(ExitCode::from(NOT_FOUND));
    }
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let shown = if flags.meta { &answer.body } else { &answer.body["_source"] };
    match flags.common.output() {
        Output::Table => print(&format!("{shown:#}\n")),
        Output::Ndjson => print(&format!("{shown}\n")),
    }
}

/// `pleach put`: writes one document.
///
/// # Errors
/// A file that cannot be read; a server that cannot be reached or refuses.
pub(crate) fn put(flags: &PutFlags) -> Result<ExitCode> {
    let body = contents(flags.file.as_deref())?;
    let word = if flags.create { "_create" } else { "_doc" };
    let mut path = format!(
        "/{}/{word}/{}?refresh={}",
        segment(&flags.index),
        segment(&flags.id),
        flags.refresh
    );
    if !flags.lock.is_empty() {
        path.push_str(&format!("&lock={}", segment(&flags.lock.join(","))));
    }
    let answer = flags.common.client()?.send_once("PUT", &path, JSON, &body)?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let columns = ["_index", "_id", "result", "_version", "_seq_no", "_primary_term"];
    table(&flags.common, &columns, &[pick(&answer.body, &columns)])
}

/// `pleach search`: the hits of a query.
///
/// # Errors
/// A file that cannot be read; a server that cannot be reached or refuses.
pub(crate) fn search(flags: &SearchFlags) -> Result<ExitCode> {
    let mut path = format!("/{}/_search?", targets(&flags.index));
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            path.push_str(&format!("{name}={}&", segment(&value)));
        }
    };
    add("q", flags.query.clone());
    add("size", flags.size.map(|size| size.to_string()));
    add("sort", flags.sort.clone());
    add("_source", flags.fields.clone());
    let path = path.trim_end_matches(['&', '?']).to_owned();
    let body = match &flags.body {
        Some(file) => contents(Some(file))?,
        None => Vec::new(),
    };
    let answer = flags.common.client()?.send("POST", &path, JSON, &body)?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let hits = answer.body["hits"]["hits"].as_array().cloned().unwrap_or_default();
    match flags.common.output() {
        Output::Ndjson => print(&lines(&hits)),
        Output::Table => {
            let fields: Vec<&str> = flags
                .fields
                .as_deref()
                .map_or_else(|| vec!["_source"], |list| list.split(',').collect());
            let columns: Vec<&str> = ["_index", "_id", "_score"]
                .into_iter()
                .chain(fields.iter().copied())
                .collect();
            let row = |hit: &Value| {
                let mut row = pick(hit, &columns);
                for field in fields.iter().filter(|field| **field != "_source") {
                    let value = match model::path::read(&hit["_source"], field)[..] {
                        [] => Value::Null,
                        [one] => one.clone(),
                        ref several => several.iter().map(|value| (*value).clone()).collect(),
                    };
                    row.insert((*field).to_owned(), value);
                }
                row
            };
            let rows: Vec<Map<String, Value>> = hits.iter().map(row).collect();
            table(&flags.common, &columns, &rows)?;
            let total = &answer.body["hits"]["total"];
            let count = total["value"]
                .as_u64()
                .or_else(|| total.as_u64())
                .unwrap_or(hits.len() as u64);
            complain(&format!("{} of {count} hits in {} ms", hits.len(), answer.body["took"]));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// `pleach count`: how many documents a query finds.
///
/// # Errors
/// A server that cannot be reached or refuses.
pub(crate) fn count(flags: &CountFlags) -> Result<ExitCode> {
    let mut path = format!("/{}/_count", targets(&flags.index));
    if let Some(query) = &flags.query {
        path.push_str(&format!("?q={}", segment(query)));
    }
    let answer = flags.common.client()?.send("GET", &path, JSON, b"")?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    match flags.common.output() {
        Output::Table => print(&format!("{}\n", answer.body["count"])),
        Output::Ndjson => print(&format!("{}\n", json!({ "count": answer.body["count"] }))),
    }
}

/// `pleach indices`: the indices with their documents and bytes.
///
/// # Errors
/// A server that cannot be reached or refuses.
pub(crate) fn indices(flags: &IndicesFlags) -> Result<ExitCode> {
    let columns = ["index", "health", "status", "docs.count", "docs.deleted", "store.size"];
    let pattern = flags
        .pattern
        .as_deref()
        .map_or_else(String::new, |pattern| format!("/{}", targets(pattern)));
    let path = format!("/_cat/indices{pattern}?format=json&h={}&s=index", columns.join(","));
    let answer = flags.common.client()?.send("GET", &path, JSON, b"")?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let rows: Vec<Map<String, Value>> = answer
        .body
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| pick(row, &columns))
        .collect();
    table(&flags.common, &columns, &rows)
}

/// `pleach bulk`: sends one bulk request as it stands; what fails is printed.
///
/// # Errors
/// A file that cannot be read; a server that cannot be reached or refuses.
pub(crate) fn bulk(flags: &BulkFlags) -> Result<ExitCode> {
    let mut body = contents(Some(&flags.file))?;
    if body.last().is_some_and(|last| *last != b'\n') {
        body.push(b'\n');
    }
    let index = flags
        .index
        .as_deref()
        .map_or_else(String::new, |index| format!("/{}", segment(index)));
    let path = format!("{index}/_bulk?atomic={}&refresh={}", flags.atomic, flags.refresh);
    let answer = flags
        .common
        .client()?
        .send_once("POST", &path, "application/x-ndjson", &body)?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let items = answer.body["items"].as_array().cloned().unwrap_or_default();
    let outcomes: Vec<&Value> = items.iter().filter_map(|item| item.as_object()?.values().next()).collect();
    let failed: Vec<Map<String, Value>> = outcomes
        .iter()
        .filter(|outcome| !outcome["error"].is_null())
        .map(|outcome| {
            let mut row = pick(outcome, &["_index", "_id", "status"]);
            row.insert("type".into(), outcome["error"]["type"].clone());
            row.insert("reason".into(), outcome["error"]["reason"].clone());
            row
        })
        .collect();
    if !failed.is_empty() {
        table(&flags.common, &["_index", "_id", "status", "type", "reason"], &failed)?;
    }
    complain(&format!("{} done, {} failed", outcomes.len() - failed.len(), failed.len()));
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// `pleach export`: every document as a line that `pleach import` takes.
///
/// # Errors
/// A server that cannot be reached or refuses, or that stops in between.
pub(crate) fn export(flags: &ExportFlags) -> Result<ExitCode> {
    let mut client = flags.server.client()?;
    let mut path = format!("/{}/_search?scroll=5m&size={PAGE}&sort=_doc", targets(&flags.index));
    if let Some(query) = &flags.query {
        path.push_str(&format!("&q={}", segment(query)));
    }
    let mut answer = client.send_once("GET", &path, JSON, b"")?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written: u64 = 0;
    let done = loop {
        if let Some(code) = failure(&answer) {
            break Ok(code);
        }
        let hits = answer.body["hits"]["hits"].as_array().cloned().unwrap_or_default();
        if hits.is_empty() {
            break Ok(ExitCode::SUCCESS);
        }
        for hit in &hits {
            let kept = pick(hit, &["_index", "_type", "_id", "_routing", "_source"]);
            // Who reads no further has enough.
            if writeln!(out, "{}", Value::Object(kept)).is_err() {
                return Ok(ExitCode::SUCCESS);
            }
            written += 1;
        }
        let next = json!({ "scroll": "5m", "scroll_id": answer.body["_scroll_id"] }).to_string();
        // A page that is asked for twice is passed over.
        answer = match client.send_alive("POST", "/_search/scroll", JSON, next.as_bytes()) {
            Ok(answer) => answer.parse(),
            Err(error) => break Err(error),
        };
    };
    let _ = out.flush();
    let scroll = json!({ "scroll_id": answer.body["_scroll_id"] }).to_string();
    // One that is not closed ends by itself.
    let _ = client.send_once("DELETE", "/_search/scroll", JSON, scroll.as_bytes());
    complain(&format!("{written} documents"));
    done
}

/// The bytes of a file, or of standard input.
fn contents(file: Option<&Path>) -> Result<Vec<u8>> {
    let stdin = || {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    };
    match file.filter(|file| file.as_os_str() != "-") {
        Some(file) => {
            std::fs::read(file).map_err(|cause| Error::illegal(format!("[{}] cannot be read: {cause}", file.display())))
        }
        None => stdin().map_err(|cause| Error::illegal(format!("standard input cannot be read: {cause}"))),
    }
}
