//! Every matching document, page by page of a scroll: one moment of each shard, index after index.
//!
//! A barrier is a hidden document in every shard of every index, written and acknowledged before the scroll is opened:
//! the primaries that took it were real, and a copy that shows it has everything before it. The scan itself must bring
//! every one of them back; if it does not, its last item is an error.

use crate::answers;
use crate::http::Failure;
use crate::join_terms::with_terms;
use crate::search::{Found, visible_query};
use crate::{Shared, all_shards, percent_encode, target_path};
use dsl::query::Query;
use engine::{Barrier, Document, Expect, Hidden, Hide, Outcome, Refresh, See, Source, Write, WriteOp};
use futures::stream::BoxStream;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long the cluster keeps a scroll between two pages.
const KEEP_ALIVE: &str = "1m";
/// Shards of one index that a barrier is written to.
const SHARDS_MAX: u64 = 1024;

struct Pages {
    shared: Arc<Shared>,
    scroll: Option<String>,
    see: See,
    page: std::vec::IntoIter<Result<Document>>,
    /// Barriers that have not come back yet, with the stamps they were acknowledged with.
    awaited: BTreeMap<DocAddress, Write>,
    /// Barriers that have come back: to be taken away.
    back: Vec<Write>,
}

pub(crate) async fn scan(
    shared: Arc<Shared>,
    target: &Target,
    query: Query,
    see: See,
    barrier: Barrier,
) -> Result<BoxStream<'static, Result<Document>>> {
    let query = with_terms(query, shared.options.terms_max)?;
    let mut query = visible_query(Some(query.render()), see);
    let mut awaited = BTreeMap::new();
    if let Barrier::Proof { id } = &barrier {
        awaited = shared.raise(target, id).await?;
        let ids: Vec<&str> = awaited.keys().map(|at| &*at.id.id).collect();
        query = json!({ "bool": { "should": [query, { "ids": { "values": ids } }], "minimum_should_match": 1 } });
    }
    let (names, parameters) = target_path(target)?;
    let path = format!("/{names}/_search?scroll={KEEP_ALIVE}&allow_partial_search_results=false&{parameters}");
    let body = json!({
        "query": query, "size": shared.options.batch_max, "sort": ["_index", "_doc"],
        "version": true, "seq_no_primary_term": true,
    });
    let mut pages = Pages {
        shared,
        scroll: None,
        see,
        page: Vec::new().into_iter(),
        awaited,
        back: Vec::new(),
    };
    pages.turn(&path, &body).await?;
    Ok(Box::pin(futures::stream::unfold(Some(pages), next)))
}

async fn next(state: Option<Pages>) -> Option<(Result<Document>, Option<Pages>)> {
    let mut pages = state?;
    loop {
        if let Some(document) = pages.page.next() {
            return Some((document, Some(pages)));
        }
        let Some(scroll) = pages.scroll.take() else { break };
        let body = json!({ "scroll": KEEP_ALIVE, "scroll_id": scroll });
        if let Err(error) = pages.turn("/_search/scroll", &body).await {
            return Some((Err(error), None));
        }
    }
    // A barrier that is left is hidden and in nobody's way, so nobody waits for its end to be certain.
    drop(pages.shared.write(&pages.back, Refresh::No).await);
    let (lost, _) = pages.awaited.pop_first()?;
    let reason = format!(
        "a barrier did not come back from [{}]: the scan is not of everything",
        lost.index
    );
    Some((Err(Error::new(ErrorKind::IllegalState, reason)), None))
}

impl Pages {
    async fn turn(&mut self, path: &str, body: &Value) -> Result<()> {
        let asked = self
            .shared
            .http
            .ask("POST", path, "application/json", body.to_string().into())
            .await;
        let answer = asked.map_err(Failure::into_error)?;
        if answer.status >= 300 {
            return Err(answers::refusal(&answer));
        }
        let found: Found<'_> = serde_json::from_slice(&answer.body).map_err(|e| answers::strange(&e))?;
        // A page that lacks a shard is no page.
        all_shards(&json!({ "_shards": found._shards }))?;
        let see = self.see;
        let mut page: Vec<Result<Document>> = Vec::with_capacity(found.hits.hits.len());
        for got in &found.hits.hits {
            match self.awaited.remove(&got.at()) {
                Some(clean) => self.back.push(clean),
                None => page.extend(got.document(see).transpose()),
            }
        }
        let last = found.hits.hits.is_empty();
        let scroll = found._scroll_id.map(|id| id.into_owned());
        if last {
            // It would end by itself; that it ends now is a courtesy.
            drop(
                self.shared
                    .http
                    .json("DELETE", "/_search/scroll", Some(&json!({ "scroll_id": scroll })))
                    .await,
            );
        } else {
            self.scroll = scroll;
        }
        self.page = page.into_iter();
        Ok(())
    }
}

impl Shared {
    /// A barrier in each shard, acknowledged and refreshed; with each the write that takes it away again.
    async fn raise(&self, target: &Target, id: &str) -> Result<BTreeMap<DocAddress, Write>> {
        let mut writes = Vec::new();
        for info in self.indices(target).await? {
            let shards = model::settings::number(&info.settings, model::settings::NUMBER_OF_SHARDS);
            for (shard, routing) in self.routings(info.name.as_str(), shards, id).await? {
                let at = DocAddress {
                    index: IndexName::new(info.name.as_str()),
                    id: DocId::plain(format!("pleach-barrier-{id}-{shard}")),
                };
                writes.push(Write {
                    routing: Some(routing),
                    hide: Hide::Set(Hidden {
                        body: json!({ "barrier": id }),
                        visible: false,
                        held: false,
                    }),
                    ..Write::new(at, WriteOp::Put(Source((*b"{}").into())))
                });
            }
        }
        let mut raised = BTreeMap::new();
        for (write, outcome) in writes.iter().zip(self.write(&writes, Refresh::No).await?) {
            let Outcome::Written(written) = outcome else {
                let reason = format!("the barrier [{id}] was not acknowledged by [{}]: {outcome:?}", write.at.index);
                return Err(Error::new(ErrorKind::IllegalState, reason));
            };
            let clean = Write {
                expect: Expect::Unchanged {
                    seq_no: written.stamp.seq_no,
                    primary_term: written.stamp.primary_term,
                },
                op: WriteOp::Delete,
                hide: Hide::Drop,
                ..write.clone()
            };
            raised.insert(write.at.clone(), clean);
        }
        let (names, parameters) = target_path(target)?;
        all_shards(
            &self
                .http
                .json("POST", &format!("/{names}/_refresh?{parameters}"), None)
                .await?,
        )?;
        Ok(raised)
    }

    /// A routing value for each shard. The cluster is asked where it leads: how it is worked out differs.
    async fn routings(&self, index: &str, shards: u64, id: &str) -> Result<BTreeMap<u64, String>> {
        if shards > SHARDS_MAX {
            return Err(Error::illegal(format!(
                "[{index}] has {shards} shards, a barrier reaches {SHARDS_MAX}"
            )));
        }
        let mut found = BTreeMap::new();
        for n in 0..shards * 64 {
            let routing = format!("{id}.{n}");
            let path = format!(
                "/{}/_search_shards?routing={}",
                percent_encode(index),
                percent_encode(&routing)
            );
            let answer = self.http.json("GET", &path, None).await?;
            if let Some(shard) = answer["shards"][0][0]["shard"].as_u64() {
                found.entry(shard).or_insert(routing);
            }
            if found.len() as u64 == shards {
                return Ok(found);
            }
        }
        let reason = format!("no routing was found to some shards of [{index}]");
        Err(Error::new(ErrorKind::IllegalState, reason))
    }
}
