//! An engine over a cluster that speaks Elasticsearch's REST API (OpenSearch 1 to 3): the thinnest slice on which changes by
//! the portable path run. Reads, writes with expectations, refresh, scans, simple searches, rehearsals on a mirror of
//! the mapping, and the few alterations that these need.
//!
//! A write that a cluster may not have done is never called done, nor undone: a request that was sent and not answered comes to
//! [`Outcome::Unknown`], one that was not sent to a refusal that may be tried again.
//!
//! Not here, and refused by name: views, typed indices, external versions, templates and scripts of the cluster, what a
//! search answers beside hits and aggregations; TLS.

mod answers;
mod catalog;
mod compose;
mod http;
mod join_terms;
mod marks;
mod scan;
mod search;
mod url;
mod write;

use async_trait::async_trait;
use dsl::query::Query;
use dsl::search::{SearchRequest, SearchResponse};
use engine::{
    Alteration, Altered, Barrier, Document, Engine, Inspected, Inspection, Outcome, Read, Refresh, See, View, ViewPromise, Write,
};
use futures::stream::BoxStream;
use http::Http;
use model::{CommitSeq, Error, ErrorKind, Result, Target};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use url::Url;

/// How a cluster is spoken to. Every one of them bounds something.
#[derive(Clone, Debug)]
pub struct Options {
    /// For a connection to be made or to become free.
    pub connect_timeout: Duration,
    /// For one request, from its first byte to the last of its answer. Writes that take longer are `Unknown`.
    pub timeout: Duration,
    /// Connections at once; further requests wait for one.
    pub connections_max: usize,
    /// Bytes of one answer.
    pub response_max_bytes: usize,
    /// Bytes of one bulk request; a single larger write is sent alone.
    pub bulk_max_bytes: usize,
    /// Documents of one bulk, of one multi-get and of one page of a scan.
    pub batch_max: usize,
    /// Keys of one join, which go as terms; a cluster takes no more ([index.max_terms_count]).
    pub terms_max: usize,
    /// How often a plain write is tried that others keep overtaking.
    pub overtaken_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            connections_max: 32,
            response_max_bytes: 100 << 20,
            bulk_max_bytes: 10 << 20,
            batch_max: 500,
            terms_max: 65_536,
            overtaken_max: 16,
        }
    }
}

/// The engine.
#[derive(Debug)]
pub struct RemoteEngine {
    shared: Arc<Shared>,
}

/// The state that scans keep after the call that began them.
#[derive(Debug)]
struct Shared {
    http: Http,
    options: Options,
    /// Reads are answered by primaries; the cluster knows how to.
    from_primary: bool,
    /// Names of indices whose mappings have the field of marks.
    marked: Mutex<BTreeSet<String>>,
}

impl RemoteEngine {
    /// Over the cluster at `[http://][user:password@]host[:port]`; with a user every request is authorized as basic.
    ///
    /// # Errors
    /// An address that is none, `https` among them; a cluster that does not answer, or that makes an index for whoever writes to a missing one: an operation of a
    /// change on an index that was deleted would bring it back.
    pub async fn connect(address: &str, options: Options) -> Result<RemoteEngine> {
        let url = Url::parse(address)?;
        let address = url.address.clone();
        let http = Http::new(url, &options)?;
        let about = http.json("GET", "/", None).await?;
        let from_primary = about["version"]["distribution"] == "opensearch";
        let path = "/_cluster/settings?include_defaults=true&flat_settings=true";
        let settings = http.json("GET", path, None).await?;
        let name = "action.auto_create_index";
        let of = |scope: &str| settings[scope].get(name).cloned();
        let creates = of("transient").or_else(|| of("persistent")).or_else(|| of("defaults"));
        if creates.as_ref().is_none_or(|value| value != "false" && value != false) {
            let shown = creates.unwrap_or_else(|| json!("true"));
            return Err(Error::new(
                ErrorKind::IllegalState,
                format!(
                    "the cluster at [{address}] has [{name}: {shown}]; changes need [false], or a late write makes an index anew"
                ),
            ));
        }
        let shared = Shared {
            http,
            options,
            from_primary,
            marked: Mutex::default(),
        };
        Ok(RemoteEngine {
            shared: Arc::new(shared),
        })
    }
}

/// The refusal of a request that this engine does not know.
fn unsupported_error(what: &str) -> Error {
    Error::new(
        ErrorKind::UnsupportedOperation,
        format!("{what} over a cluster is not supported"),
    )
}

/// A member of a path or a list in one, percent-encoded.
fn percent_encode(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'_')
        .remove(b'.')
        .remove(b'*')
        .remove(b',');
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}

/// The indices of a target as the first part of a path, and its options as parameters.
fn target_path(target: &Target) -> Result<(String, String)> {
    if !target.types.is_empty() {
        return Err(unsupported_error("naming mapping types"));
    }
    let names: Vec<&str> = target
        .expressions
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    let path = if names.is_empty() {
        "_all".to_owned()
    } else {
        percent_encode(&names.join(","))
    };
    let states = [
        ("open", target.expand_open),
        ("closed", target.expand_closed),
        ("hidden", target.expand_hidden),
    ];
    let mut wildcards: Vec<&str> = states.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
    if wildcards.is_empty() {
        wildcards.push("none");
    }
    let parameters = format!(
        "ignore_unavailable={}&allow_no_indices={}&expand_wildcards={}",
        target.ignore_unavailable,
        target.allow_no_indices,
        wildcards.join(",")
    );
    Ok((path, parameters))
}

/// Every shard must have done it.
fn all_shards(answer: &Value) -> Result<u32> {
    let failed = answer["_shards"]["failed"].as_u64().unwrap_or(0);
    if failed > 0 {
        let reason = format!("{failed} shards failed: {}", answer["_shards"]["failures"]);
        return Err(Error::new(ErrorKind::Unavailable, reason));
    }
    Ok(u32::try_from(answer["_shards"]["successful"].as_u64().unwrap_or(0)).unwrap_or(u32::MAX))
}

#[async_trait]
impl Engine for RemoteEngine {
    async fn read(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        let found = self.shared.read_each(&reads).await?;
        found.into_iter().collect()
    }

    async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.shared.write(&writes, refresh).await
    }

    async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>> {
        self.shared.rehearse(writes).await
    }

    /// Everything that was acknowledged, so `at_least` asks for nothing more.
    async fn refresh(&self, target: &Target, _at_least: Option<CommitSeq>) -> Result<u32> {
        let (path, parameters) = target_path(target)?;
        let answer = self
            .shared
            .http
            .json("POST", &format!("/{path}/_refresh?{parameters}"), None)
            .await?;
        all_shards(&answer)
    }

    async fn open_view(&self, _target: &Target, _keep_alive: Duration, _promise: ViewPromise) -> Result<View> {
        Err(unsupported_error("a view"))
    }

    async fn renew_view(&self, _view: &str, _keep_alive: Duration) -> Result<()> {
        Err(unsupported_error("a view"))
    }

    async fn close_view(&self, _view: &str) -> Result<bool> {
        Err(unsupported_error("a view"))
    }

    async fn views(&self) -> Result<Vec<View>> {
        Ok(Vec::new())
    }

    async fn search(&self, target: &Target, request: SearchRequest, see: See) -> Result<SearchResponse> {
        self.shared.search(target, request, see).await
    }

    async fn scan(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        scan::scan(self.shared.clone(), target, query, see, barrier).await
    }

    async fn scan_view(&self, _target: &Target, _query: Query, _view: &str) -> Result<BoxStream<'static, Result<Document>>> {
        Err(unsupported_error("a view"))
    }

    async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        self.shared.alter(alteration).await
    }

    async fn inspect(&self, inspection: Inspection) -> Result<Inspected> {
        self.shared.inspect(inspection).await
    }
}
