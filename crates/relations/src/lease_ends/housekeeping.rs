//! Forgets kept outcomes and ended locks after a day.

use crate::kept_time::KEPT_MS;
use crate::schema;
use async_recursion::async_recursion as boxed;
use dsl::json::Node;
use dsl::search::SearchRequest;
use engine::{See, Write, WriteOp};
use model::{Dialect, ErrorKind, Result, Target};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl crate::Relations {
    /// Forgets outcomes and ended locks that are older than a day. To be called now and then.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn forget_old(&self) -> Result<u64> {
        self.collect().await?;
        let Some(documents) = self
            .control_documents(&["key", "lease_expired", "lease_broken", "task", "task_done"])
            .await?
        else {
            return Ok(0);
        };
        let (before, keys_before) = (self.clock.wall_ms() - KEPT_MS, self.kept_now() - KEPT_MS);
        // A lock that ended and the outcome of a task grow old from the end on, and a task's key with it. Documents of older
        // versions have a wall clock's time alone.
        let is_past = |source: &Value| match source["kept"].as_i64() {
            Some(kept) => kept < keys_before,
            None => source["at"].as_i64().is_some_and(|at| at < before),
        };
        let mut stays: BTreeSet<u64> = BTreeSet::new();
        for document in &documents {
            let source = document.source.parse()?;
            let (kind, number) = (source["kind"].as_str().unwrap_or_default(), source["n"].as_u64());
            if kind == "task" || kind == "task_done" && !is_past(&source) {
                stays.extend(number);
            }
        }
        let mut old = Vec::new();
        for document in documents {
            if document.hidden.as_ref().is_some_and(|mark| mark.held) {
                continue;
            }
            let source = document.source.parse()?;
            let goes = match source["kind"].as_str() {
                Some("key") => {
                    let is_old = source["at"].as_i64().is_some_and(|at| at < keys_before);
                    is_old && source["task"].as_u64().is_none_or(|task| !stays.contains(&task))
                }
                Some("task") => false,
                _ => is_past(&source),
            };
            if goes {
                // Nothing is kept of a mark: what it was for is over.
                let mut write = Write::new(document.at, WriteOp::Delete);
                write.hide = engine::Hide::Drop;
                write.expect = engine::Expect::Unchanged {
                    seq_no: document.stamp.seq_no,
                    primary_term: document.stamp.primary_term,
                };
                old.push(write);
            }
        }
        let count = old.len() as u64;
        if !old.is_empty() {
            self.engine.write(old, engine::Refresh::No).await?;
        }
        Ok(count)
    }

    /// When the newest outcome was kept or the last lock or task ended, by the time of kept outcomes; `None` if there is none.
    pub(super) async fn newest_kept(&self) -> Result<Option<i64>> {
        let mut newest = self.newest_key().await?;
        let ended = self
            .control_documents(&["lease_expired", "lease_broken", "task_done"])
            .await?;
        for document in ended.into_iter().flatten() {
            newest = newest.max(document.source.parse()?["kept"].as_i64());
        }
        Ok(newest)
    }

    async fn newest_key(&self) -> Result<Option<i64>> {
        let target = Target::index(schema::CONTROL);
        match self.engine.refresh(&target, None).await {
            Err(e) if e.kind() == ErrorKind::IndexNotFound => return Ok(None),
            other => other?,
        };
        let body = json!({ "size": 1, "query": { "term": { "kind": "key" } }, "sort": [{ "at": "desc" }] });
        let request = SearchRequest::parse(Node::from_value(body), Dialect::default())?;
        let found = self.engine.search(&target, request, See::Everything).await?;
        let newest = found.hits.hits.first().and_then(|hit| hit.source.as_deref());
        let newest: Option<Value> = newest.and_then(|source| serde_json::from_str(source).ok());
        Ok(newest.and_then(|source| source["at"].as_i64()))
    }
}
