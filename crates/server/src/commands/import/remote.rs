//! `pleach import --from URL`: the indices of another server, with mappings, settings and aliases, and all their documents by
//! scrolling. Elasticsearch 1 to 9, OpenSearch and Pleach answer the requests that it sends.
//!
//! What is written to the source while it is read may be missing: `pleach replicate` follows a Pleach, and this command takes one
//! moment of each index, that of its scroll. Not here: bulk requests (`super`), old mappings in today's words (`modern_mapping`).

use super::counts::Counts;
use super::lines::{self, Form, Rules};
use super::modern_mapping::Modern;
use super::progress::{Place, Progress};
use super::sender::{Sender, sentence};
use super::{Flags, bar_of};
use crate::client::{Answer, Client, JSON, RawAnswer, segment, targets};
use crate::console::{complain, say};
use crate::index_definition::{PORTABLE_SETTINGS, settings_that, types_of};
use model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Documents of a page. One of a server of version 1 has so many of each shard.
const PAGE: usize = 500;
/// How long the source keeps its moment between two pages.
const KEEP: &str = "5m";

/// The flags of a source that is a server.
#[derive(clap::Args, Debug)]
pub(super) struct SourceFlags {
    /// Import indices of this server: `http://HOST:PORT` or `https://HOST:PORT`.
    #[arg(long, value_name = "URL", conflicts_with_all = ["file", "files"])]
    pub(super) from: Option<String>,
    /// Which of its indices, with commas and `*` [default: all whose names do not begin with a dot].
    #[arg(long, value_name = "NAMES", requires = "from")]
    source: Option<String>,
    /// Only the documents of this type, of an index with several.
    #[arg(long = "type", value_name = "NAME", requires = "from")]
    doc_type: Option<String>,
    /// Only the documents that this query finds, as JSON: `{"term": {"user": "ann"}}`.
    #[arg(long, value_name = "JSON", requires = "from")]
    query: Option<String>,
    /// The user of the source; the password is in the variable PLEACH_FROM_PASSWORD.
    #[arg(long, value_name = "NAME", requires = "from")]
    from_user: Option<String>,
    /// PEM file of the authority of an https source [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "from")]
    from_ca: Option<PathBuf>,
}

/// The server that is read.
struct Source {
    client: Client,
    /// The first number of its version; that of OpenSearch counts as 7.
    major: u32,
}

/// An index of the source.
struct SourceIndex {
    name: String,
    settings: Map<String, Value>,
    mappings: Map<String, Value>,
    aliases: Value,
    /// The type whose documents are read, of a server that has types.
    doc_type: Option<String>,
}

/// A page of hits.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(rename = "_scroll_id")]
    scroll_id: Option<String>,
    #[serde(borrow)]
    hits: Hits<'a>,
    #[serde(rename = "_shards")]
    shards: Option<Value>,
}

#[derive(Deserialize)]
struct Hits<'a> {
    total: Value,
    #[serde(borrow)]
    hits: Vec<Hit<'a>>,
}

/// A hit; servers of version 1 put routing and parent among its fields.
#[derive(Deserialize)]
struct Hit<'a> {
    #[serde(rename = "_id")]
    id: String,
    #[serde(borrow, rename = "_source")]
    source: Option<&'a RawValue>,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_parent")]
    parent: Option<String>,
    #[serde(default)]
    fields: Map<String, Value>,
}

/// Imports indices of a server.
///
/// # Errors
/// A source that cannot be reached or read whole, an index that cannot be made, what the target refuses for all documents.
pub(super) fn import(flags: &Flags, url: &str, counts: &mut Counts) -> Result<()> {
    let query = match &flags.from.query {
        Some(text) => serde_json::from_str(text).map_err(|cause| Error::illegal(format!("--query is no JSON: {cause}")))?,
        None => json!({ "match_all": {} }),
    };
    let mut source = Source::connect(url, &flags.from)?;
    let indices = source.indices(&flags.from)?;
    if let (Some(name), true) = (&flags.index, indices.len() > 1) {
        let names: Vec<&str> = indices.iter().map(|index| index.name.as_str()).collect();
        let reason = format!(
            "--index [{name}] is one index, and the source has several: [{}]; choose one with --source",
            names.join(", ")
        );
        return Err(Error::illegal(reason));
    }
    let mut progress = Progress::open(flags.resume.as_deref(), url)?;
    let mut done = match progress.place() {
        Place::Indices(done) => done,
        _ => Vec::new(),
    };
    for index in &indices {
        if done.contains(&index.name) {
            say(&format!("[{}] was done before\n", index.name));
            continue;
        }
        let target = flags.index.as_deref().unwrap_or(&index.name);
        let mut sender = Sender::open(flags, Some(target), Progress::none())?;
        sender.greet()?;
        // The first page before the index is made: a query that is refused leaves nothing behind.
        let first = source.first_page(index, &query)?;
        make(&mut sender, index, target)?;
        source.copy(index, target, first, &mut sender, counts)?;
        sender.finish(counts)?;
        if indices.len() > 1 {
            say(&format!("[{}] is done: {} documents so far\n", index.name, counts.read));
        }
        done.push(index.name.clone());
        progress.advance(&Place::Indices(done.clone()))?;
    }
    progress.finish()
}

/// Makes the index at the target. One that is there is filled as it is.
fn make(sender: &mut Sender, index: &SourceIndex, target: &str) -> Result<()> {
    let Some(client) = &mut sender.client else { return Ok(()) };
    let path = format!("/{}", segment(target));
    if client.send("HEAD", &path, "", &[])?.status == 200 {
        complain(&format!("index [{target}] is there already and keeps its mapping"));
        return Ok(());
    }
    let mut body = json!({ "settings": index.settings, "mappings": index.mappings });
    if target == index.name {
        body["aliases"] = index.aliases.clone();
    }
    let answer = client.send("PUT", &path, JSON, body.to_string().as_bytes())?;
    if answer.status < 300 {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "creating the index [{target}] as the source has it failed: {}; create it by hand, then run the command again: an index that is \
         there is filled as it is",
        sentence(&answer.body)
    )))
}

impl Source {
    fn connect(url: &str, flags: &SourceFlags) -> Result<Source> {
        let mut client = Client::new(url, || crate::tls::client_config(flags.from_ca.as_deref(), None))?;
        if let Some(user) = &flags.from_user {
            let password = std::env::var("PLEACH_FROM_PASSWORD").map_err(|_| {
                Error::illegal(format!(
                    "the password of [{user}] at the source is missing: give it in the variable PLEACH_FROM_PASSWORD"
                ))
            })?;
            client.log_in(user, &password);
        }
        let answer = client.send("GET", "/", JSON, b"")?;
        if answer.status >= 400 {
            return Err(refusal("GET", "/", &answer));
        }
        let version = &answer.body["version"];
        let number = version["number"].as_str().unwrap_or_default();
        let Some(major) = number.split('.').next().and_then(|major| major.parse::<u32>().ok()) else {
            let reason = format!("[{url}] does not tell its version: it is no Elasticsearch, OpenSearch or Pleach");
            return Err(Error::illegal(reason));
        };
        let major = if version["distribution"] == "opensearch" { 7 } else { major };
        Ok(Source { client, major })
    }

    /// The indices that are wanted, by name.
    fn indices(&mut self, flags: &SourceFlags) -> Result<Vec<SourceIndex>> {
        let pattern = flags.source.as_deref().unwrap_or("*");
        let path = format!("/{}?flat_settings=true", targets(pattern));
        let answer = self.client.send_raw("GET", &path, JSON, b"")?;
        let body = accepted_body("GET", &path, answer)?;
        let body: Value = serde_json::from_slice(&body).map_err(|cause| unreadable(&path, &cause))?;
        let mut found = Vec::new();
        for (name, definition) in body.as_object().into_iter().flatten() {
            if name.starts_with('.') && flags.source.is_none() {
                continue;
            }
            found.push(index_of(name, definition, flags.doc_type.as_deref())?);
        }
        if found.is_empty() {
            return Err(Error::new(
                ErrorKind::IndexNotFound,
                format!("the source has no index [{pattern}] to import"),
            ));
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Sends every document of a first page and of those behind it.
    fn copy(
        &mut self,
        index: &SourceIndex,
        target: &str,
        first: Vec<u8>,
        sender: &mut Sender,
        counts: &mut Counts,
    ) -> Result<()> {
        let rules = Rules {
            form: Form::Dump,
            index: Some(target),
            id: None,
            routing: None,
        };
        let progress = bar_of(0, "{wide_bar} {pos}/{len} documents {per_sec} eta {eta}");
        let mut answer = first;
        let mut read = 0;
        loop {
            let page: Page<'_> = serde_json::from_slice(&answer).map_err(|cause| unreadable(&index.name, &cause))?;
            check_whole(&page, &index.name)?;
            let total = page.hits.total["value"].as_u64().or_else(|| page.hits.total.as_u64());
            progress.set_length(total.unwrap_or_default());
            for hit in &page.hits.hits {
                send_hit(hit, index, rules, sender, counts)?;
            }
            read += page.hits.hits.len() as u64;
            progress.set_position(read);
            let Some(id) = page.scroll_id else { break };
            if page.hits.hits.is_empty() {
                self.end_scroll(&id);
                break;
            }
            answer = self.next_page(&id)?;
        }
        progress.finish_and_clear();
        Ok(())
    }

    fn first_page(&mut self, index: &SourceIndex, query: &Value) -> Result<Vec<u8>> {
        let name = segment(&index.name);
        let at = match &index.doc_type {
            Some(doc_type) if self.major < 7 => format!("/{name}/{}/_search", segment(doc_type)),
            _ => format!("/{name}/_search"),
        };
        let mut body = json!({ "size": PAGE, "query": query });
        let how = match self.major {
            0 | 1 => "search_type=scan&fields=_source,_routing,_parent",
            2..7 => "",
            _ => "track_total_hits=true",
        };
        if self.major >= 2 {
            body["sort"] = json!(["_doc"]);
        }
        let path = format!("{at}?scroll={KEEP}&{how}");
        let answer = self
            .client
            .send_raw("POST", path.trim_end_matches('&'), JSON, body.to_string().as_bytes())?;
        let first = accepted_body("POST", &at, answer)?;
        if self.major >= 2 {
            return Ok(first);
        }
        // A search of type scan has its first hits on the second page.
        let begun: Page<'_> = serde_json::from_slice(&first).map_err(|cause| unreadable(&index.name, &cause))?;
        match begun.scroll_id {
            Some(id) => self.next_page(&id),
            None => Ok(first),
        }
    }

    /// A page that is asked for twice is passed over, so it is asked for once.
    fn next_page(&mut self, id: &str) -> Result<Vec<u8>> {
        let body = json!({ "scroll": KEEP, "scroll_id": id }).to_string();
        let at = "/_search/scroll";
        let answer = match self.major {
            0 | 1 => self
                .client
                .send_alive("POST", &format!("{at}?scroll={KEEP}"), "text/plain", id.as_bytes())?,
            _ => self.client.send_alive("POST", at, JSON, body.as_bytes())?,
        };
        accepted_body("POST", at, answer)
    }

    /// Gives the moment back. One that stays ends by its time.
    fn end_scroll(&mut self, id: &str) {
        let body = match self.major {
            0 | 1 => id.to_owned(),
            _ => json!({ "scroll_id": [id] }).to_string(),
        };
        drop(self.client.send("DELETE", "/_search/scroll", JSON, body.as_bytes()));
    }
}

/// The bytes of an answer that is no refusal.
fn accepted_body(method: &str, path: &str, answer: RawAnswer) -> Result<Vec<u8>> {
    match answer.status {
        status if status < 400 => Ok(answer.body),
        _ => Err(refusal(method, path, &answer.parse())),
    }
}

/// An index by its definition.
fn index_of(name: &str, definition: &Value, wanted: Option<&str>) -> Result<SourceIndex> {
    let mappings = &definition["mappings"];
    let refuse = |reason: String| Error::illegal(format!("index [{name}] of the source: {reason}"));
    let (doc_type, mapping) = match types_of(mappings) {
        None => (None, mappings),
        Some(types) => {
            let own: Vec<&String> = types.keys().filter(|one| *one != "_default_").collect();
            match (wanted, own.as_slice()) {
                (Some(wanted), own) if own.iter().any(|one| *one == wanted) => (Some(wanted.to_owned()), &types[wanted]),
                (Some(wanted), _) => return Err(refuse(format!("it has no type [{wanted}]"))),
                (None, []) => (None, &Value::Null),
                (None, [one]) => (Some((*one).clone()), &types[*one]),
                (None, several) => {
                    let names: Vec<&str> = several.iter().map(|one| one.as_str()).collect();
                    let reason = format!(
                        "it has the types [{}], and an index has one mapping today; import each into an index of its own: \
                         --source {name} --type {} --index {name}-{}",
                        names.join(", "),
                        names[0],
                        names[0]
                    );
                    return Err(refuse(reason));
                }
            }
        }
    };
    let modern = Modern::of(mapping).map_err(refuse)?;
    if !modern.left_out.is_empty() {
        let names: Vec<&str> = modern.left_out.iter().map(String::as_str).collect();
        complain(&format!("[{name}]: left out of the mapping: {}", names.join(", ")));
    }
    let is_portable = |setting: &str| PORTABLE_SETTINGS.iter().any(|known| setting.starts_with(known));
    Ok(SourceIndex {
        name: name.to_owned(),
        settings: settings_that(&definition["settings"], &is_portable),
        mappings: modern.mapping,
        aliases: definition["aliases"].clone(),
        doc_type,
    })
}

fn send_hit(hit: &Hit<'_>, index: &SourceIndex, rules: Rules<'_>, sender: &mut Sender, counts: &mut Counts) -> Result<()> {
    let name = format!("[{}][{}]", index.name, hit.id);
    let Some(source) = hit.source else {
        let reason = format!("{name} has no _source: the documents of this index cannot be read");
        return Err(Error::illegal(reason));
    };
    let mut metadata = Map::new();
    metadata.insert("_id".into(), hit.id.as_str().into());
    for (key, value) in [("_routing", &hit.routing), ("_parent", &hit.parent)] {
        let value = value.as_deref().or_else(|| hit.fields.get(key).and_then(Value::as_str));
        if let Some(value) = value {
            metadata.insert(key.into(), value.into());
        }
    }
    match lines::operation("index", metadata, rules) {
        Ok(operation) => sender.put(
            name,
            Place::Beginning,
            &operation.action,
            Some(source.get().as_bytes()),
            counts,
        ),
        Err(reason) => {
            counts.fail(format!("{name}: {reason}"));
            Ok(())
        }
    }
}

/// Did every shard answer? A copy without one would look whole.
fn check_whole(page: &Page<'_>, index: &str) -> Result<()> {
    let failed = page
        .shards
        .as_ref()
        .and_then(|shards| shards["failed"].as_u64())
        .unwrap_or_default();
    if failed == 0 {
        return Ok(());
    }
    let reason = format!(
        "[{failed}] shards of index [{index}] of the source did not answer: the copy would not be whole. The import stopped there"
    );
    Err(Error::new(ErrorKind::Internal, reason))
}

fn refusal(method: &str, path: &str, answer: &Answer) -> Error {
    let reason = format!(
        "the source answered [{method} {path}] with {}: {}",
        answer.status,
        sentence(&answer.body)
    );
    Error::new(ErrorKind::Internal, reason)
}

fn unreadable(what: &str, cause: &serde_json::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("the answer of the source for [{what}] cannot be read: {cause}"),
    )
}
