//! `pleach import --from URL`: the indices of another server, with mappings, settings and aliases, and all their documents by
//! scrolling. Elasticsearch 1 to 9, OpenSearch and Pleach answer the requests that it sends.
//!
//! What is written to the source while it is read may be missing: `pleach replicate` follows a Pleach, and this command takes one
//! moment of each index, that of its scroll. Not here: bulk requests (`super`), old mappings in today's words (`modern_mapping`),
//! indices that keep their types (`typed`).

use super::counts::Counts;
use super::lines::{self, Form, Rules};
use super::modern_mapping::Modern;
use super::progress::{InputPosition, Progress};
use super::sender::{Sender, sentence, takes_types};
use super::typed::{Carried, Metadata, TypedMappings};
use super::{ImportFlags, bar_of};
use crate::client::{Answer, Client, JSON, RawAnswer, Side, segment, targets};
use crate::console::{complain, say};
use crate::index_definition::{PORTABLE_SETTINGS, settings_that, types_of};
use crate::server_flags::Access;
use model::text::one_line;
use model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Documents of a page. One of a server of version 1 has so many of each shard.
const PAGE: usize = 500;
/// How long the source keeps its moment between two pages.
const KEEP: &str = "5m";

/// The advice of refusals: how an import keeps types and parents.
const KEEPS_TYPES: &str = "import through a listener that answers as Elasticsearch 2, which keeps types and parents \
                           (pleach --listen 127.0.0.1:9200 --listen 127.0.0.1:9202=es2 has both)";

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
    /// The user of the source; the password is in the variable PLEACH_FROM_PASSWORD, or in --from-password-file.
    #[arg(long, value_name = "NAME", requires = "from", conflicts_with = "from_api_key_file")]
    from_user: Option<String>,
    /// File whose first line is the password at the source.
    #[arg(long, value_name = "FILE", requires = "from_user")]
    from_password_file: Option<PathBuf>,
    /// File whose first line is an API key of the source in its encoded form; else the variable PLEACH_FROM_API_KEY has it.
    #[arg(long, value_name = "FILE", requires = "from")]
    from_api_key_file: Option<PathBuf>,
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
    /// Each entry is read by one scroll: the documents of a type, or all documents (`None`).
    reads: Vec<Option<String>>,
    /// The target keeps the types: the mappings are these.
    typed: Option<TypedMappings>,
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
    #[serde(rename = "_type", default)]
    doc_type: String,
    #[serde(borrow, rename = "_source")]
    source: Option<&'a RawValue>,
    #[serde(rename = "_routing")]
    routing: Option<String>,
    #[serde(rename = "_parent")]
    parent: Option<String>,
    #[serde(rename = "_timestamp")]
    timestamp: Option<i64>,
    #[serde(rename = "_ttl")]
    ttl: Option<i64>,
    #[serde(default)]
    fields: Map<String, Value>,
}

impl Hit<'_> {
    fn text<'a>(&'a self, own: Option<&'a String>, name: &str) -> Option<&'a str> {
        own.map(String::as_str)
            .or_else(|| self.fields.get(name).and_then(Value::as_str))
    }

    fn number(&self, own: Option<i64>, name: &str) -> Option<i64> {
        own.or_else(|| self.fields.get(name).and_then(Value::as_i64))
    }

    /// Everything that it says beside its source.
    fn metadata(&self) -> Metadata<'_> {
        Metadata {
            id: &self.id,
            doc_type: &self.doc_type,
            routing: self.text(self.routing.as_ref(), "_routing"),
            parent: self.text(self.parent.as_ref(), "_parent"),
            timestamp: self.number(self.timestamp, "_timestamp"),
            ttl: self.number(self.ttl, "_ttl"),
        }
    }
}

/// Imports indices of a server.
///
/// # Errors
/// A source that cannot be reached or read whole, an index that cannot be made, what the target refuses for all documents.
pub(super) fn import(flags: &ImportFlags, url: &str, counts: &mut Counts) -> Result<()> {
    let query = match &flags.from.query {
        Some(text) => serde_json::from_str(text).map_err(|cause| Error::illegal(format!("--query is no JSON: {cause}")))?,
        None => json!({ "match_all": {} }),
    };
    let mut source = Source::connect(url, &flags.from)?;
    let keeps_types = target_keeps_types(flags, source.major)?;
    let indices = source.indices(&flags.from, keeps_types)?;
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
        InputPosition::Indices(done) => done,
        _ => Vec::new(),
    };
    for index in &indices {
        if done.contains(&index.name) {
            say(&format!("[{}] was done before\n", index.name));
            continue;
        }
        let target = flags.index.as_deref().unwrap_or(&index.name);
        let mut sender = Sender::open(flags, Some(target), Progress::none())?;
        // The first page before the index is made: a query that is refused leaves nothing behind.
        let mut is_made = false;
        for doc_type in &index.reads {
            let mut carried = Carried::at_moment(now_ms());
            // The first page before the index is made: a query that is refused leaves nothing behind.
            let first = source.first_page(index, doc_type.as_deref(), &query)?;
            if !std::mem::replace(&mut is_made, true) {
                make(&mut sender, index, target)?;
            }
            source.copy(index, target, first, &mut carried, &mut sender, counts)?;
            carried.report(&index.name).iter().for_each(|told| complain(told));
        }
        sender.finish(counts)?;
        if indices.len() > 1 {
            say(&format!("[{}] is done: {} documents so far\n", index.name, counts.read));
        }
        done.push(index.name.clone());
        progress.advance(&InputPosition::Indices(done.clone()))?;
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
        let access = Access {
            side: Side::SOURCE,
            url: Some(url.to_owned()),
            ca: flags.from_ca.clone(),
            user: flags.from_user.clone(),
            password_file: flags.from_password_file.clone(),
            api_key_file: flags.from_api_key_file.clone(),
            ..Access::default()
        };
        let mut client = access.client()?;
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
    fn indices(&mut self, flags: &SourceFlags, keeps_types: bool) -> Result<Vec<SourceIndex>> {
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
            let wanted = flags.doc_type.as_deref();
            found.push(match keeps_types {
                true => typed_index(name, definition, wanted, self.major)?,
                false => modern_index(name, definition, wanted)?,
            });
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
        carried: &mut Carried,
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
                send_hit(hit, index, rules, carried, sender, counts)?;
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

    fn first_page(&mut self, index: &SourceIndex, doc_type: Option<&str>, query: &Value) -> Result<Vec<u8>> {
        let name = segment(&index.name);
        let at = match doc_type {
            Some(doc_type) if self.major < 7 => format!("/{name}/{}/_search", segment(doc_type)),
            _ => format!("/{name}/_search"),
        };
        let mut body = json!({ "size": PAGE, "query": query });
        let fields = match index.typed {
            Some(_) => ["_source", "_routing", "_parent", "_timestamp", "_ttl"].as_slice(),
            None => &["_source", "_routing", "_parent"],
        };
        let how = match self.major {
            0 | 1 => format!("search_type=scan&fields={}", fields.join(",")),
            2..7 => String::new(),
            _ => "track_total_hits=true".to_owned(),
        };
        if self.major == 2 && index.typed.is_some() {
            body["fields"] = json!(fields);
        }
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

/// Does the target keep the types of the source?
///
/// # Errors
/// It wants types, and the source has none that it could keep.
fn target_keeps_types(flags: &ImportFlags, major: u32) -> Result<bool> {
    let asked = flags.server.client().and_then(|mut client| takes_types(&mut client));
    let takes_types = match asked {
        Ok(takes_types) => takes_types,
        // A dry run needs no target.
        Err(_) if flags.dry_run => false,
        Err(error) => return Err(error),
    };
    if takes_types && major > 2 {
        let reason = "the target answers as Elasticsearch 2, with types, and the source is a newer server; import through a listener of \
                      another persona (pleach --listen 127.0.0.1:9200 --listen 127.0.0.1:9202=es2 has both)";
        return Err(Error::illegal(reason));
    }
    Ok(takes_types)
}

/// An index whose types are kept, by its definition.
fn typed_index(name: &str, definition: &Value, wanted: Option<&str>, major: u32) -> Result<SourceIndex> {
    let types = definition["mappings"].as_object().into_iter().flatten();
    let is_wanted = |doc_type: &str| wanted.is_none_or(|wanted| doc_type == wanted || doc_type == "_default_");
    let typed = TypedMappings::of(types.filter(|(doc_type, _)| is_wanted(doc_type)), major);
    let mut typed = typed.map_err(|reason| unfit(name, &reason))?;
    if let Some(wanted) = wanted.filter(|wanted| !typed.mappings.contains_key(*wanted)) {
        return Err(unfit(name, &format!("it has no type [{wanted}]")));
    }
    let mappings = std::mem::take(&mut typed.mappings);
    tell_left_out(name, definition, &typed.left_out);
    // Version 1 gives `_timestamp` of documents by the mapping of one type, so it is asked type by type.
    let by_type = mappings.keys().filter(|doc_type| major < 2 && *doc_type != "_default_");
    let by_type: Vec<Option<String>> = by_type.map(|doc_type| Some(doc_type.clone())).collect();
    Ok(SourceIndex {
        reads: match by_type.is_empty() {
            true => vec![wanted.map(str::to_owned)],
            false => by_type,
        },
        typed: Some(typed),
        ..index_with(name, definition, mappings)
    })
}

/// An index with the one mapping that it has today, by its definition.
fn modern_index(name: &str, definition: &Value, wanted: Option<&str>) -> Result<SourceIndex> {
    let mappings = &definition["mappings"];
    let (doc_type, mapping) = match types_of(mappings) {
        None => (None, mappings),
        Some(types) => {
            let own: Vec<&String> = types.keys().filter(|one| *one != "_default_").collect();
            match (wanted, own.as_slice()) {
                (Some(wanted), own) if own.iter().any(|one| *one == wanted) => (Some(wanted.to_owned()), &types[wanted]),
                (Some(wanted), _) => return Err(unfit(name, &format!("it has no type [{wanted}]"))),
                (None, []) => (None, &Value::Null),
                (None, [one]) => (Some((*one).clone()), &types[*one]),
                (None, several) => {
                    let names: Vec<&str> = several.iter().map(|one| one.as_str()).collect();
                    let reason = format!(
                        "it has the types [{}], and an index has one mapping today; import each into an index of its own: \
                         --source {name} --type {} --index {name}-{}; or {KEEPS_TYPES}",
                        names.join(", "),
                        names[0],
                        names[0]
                    );
                    return Err(unfit(name, &reason));
                }
            }
        }
    };
    if let Some(parent) = mapping["_parent"]["type"].as_str() {
        let doc_type = doc_type.as_deref().unwrap_or_default();
        let reason = format!(
            "documents of its type [{doc_type}] have parents of type [{parent}], and an index of today has no [_parent]; {KEEPS_TYPES}, or \
             give the documents a join field and the parent's id as their routing"
        );
        return Err(unfit(name, &reason));
    }
    let modern = Modern::of(mapping).map_err(|reason| unfit(name, &reason))?;
    tell_left_out(name, definition, &modern.left_out);
    Ok(SourceIndex {
        reads: vec![doc_type],
        ..index_with(name, definition, modern.mapping)
    })
}

/// An index of this name and these mappings, all of whose documents are read at once.
fn index_with(name: &str, definition: &Value, mappings: Map<String, Value>) -> SourceIndex {
    let is_portable = |setting: &str| PORTABLE_SETTINGS.iter().any(|known| setting.starts_with(known));
    SourceIndex {
        name: name.to_owned(),
        settings: settings_that(&definition["settings"], &is_portable),
        mappings,
        aliases: definition["aliases"].clone(),
        reads: vec![None],
        typed: None,
    }
}

fn unfit(name: &str, reason: &str) -> Error {
    Error::illegal(format!("index [{name}] of the source: {reason}"))
}

/// Names the parts of a definition that are not carried over.
fn tell_left_out(name: &str, definition: &Value, of_mapping: &BTreeSet<String>) {
    if !of_mapping.is_empty() {
        let names: Vec<&str> = of_mapping.iter().map(String::as_str).collect();
        complain(&format!("[{name}]: left out of the mapping: {}", names.join(", ")));
    }
    let warmers = definition["warmers"].as_object().into_iter().flatten();
    let warmers: Vec<&str> = warmers.map(|(warmer, _)| warmer.as_str()).collect();
    if !warmers.is_empty() {
        complain(&format!(
            "[{name}]: left out, for nothing is warmed: the warmers {}",
            warmers.join(", ")
        ));
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn send_hit(
    hit: &Hit<'_>,
    index: &SourceIndex,
    rules: Rules<'_>,
    carried: &mut Carried,
    sender: &mut Sender,
    counts: &mut Counts,
) -> Result<()> {
    let name = match &index.typed {
        Some(_) => format!("[{}][{}][{}]", index.name, hit.doc_type, hit.id),
        None => format!("[{}][{}]", index.name, hit.id),
    };
    let Some(source) = hit.source else {
        let reason = format!("{name} has no _source: the documents of this index cannot be read");
        return Err(Error::illegal(reason));
    };
    let of = hit.metadata();
    let action = match &index.typed {
        Some(typed) => Ok(carried.action(of, typed)),
        None => {
            let mut metadata = Map::new();
            metadata.insert("_id".into(), of.id.into());
            for (key, value) in [("_routing", of.routing), ("_parent", of.parent)] {
                if let Some(value) = value {
                    metadata.insert(key.into(), value.into());
                }
            }
            lines::operation("index", metadata, rules).map(|operation| Some(operation.action))
        }
    };
    match action {
        Ok(Some(action)) => {
            // A server answers with the source as it was written, which may have several lines.
            let source = one_line(source.get());
            sender.put(name, InputPosition::Beginning, &action, Some(source.as_bytes()), counts)
        }
        Ok(None) => Ok(()),
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
