//! Deletes documents whose `_ttl` is over, in rounds.
//!
//! A document goes only as it was found: who writes it meanwhile keeps it, and so does who holds a lock on it where locks
//! are enforced. Documents of an index whose documents are locks have their own time (`index.pleach.lock_ttl`) and are left
//! alone. Not here: when a document's life ends (`mapping::Times`).

use crate::Relations;
use crate::transactions::{Change, Kind, Operation, Verdict};
use async_recursion::async_recursion as boxed;
use dsl::json::Node;
use dsl::query::{Parsing, Query};
use engine::{Barrier, EngineExt as _, Expect, IndexInfo, Inspected, Inspection, Outcome, Refresh, See, Write, WriteOp};
use futures::StreamExt as _;
use model::lock_index::LockIndex;
use model::units::parse_duration;
use model::{Dialect, ErrorKind, Persona, Result, Target, settings};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Documents that one request deletes.
const BATCH: usize = 500;

impl Relations {
    /// How long to wait between rounds.
    ///
    /// # Errors
    /// Settings that cannot be read.
    #[boxed]
    pub async fn expiry_interval(&self) -> Result<Duration> {
        let Inspected::ClusterSettings {
            mut persistent,
            transient,
        } = self.engine.inspect(Inspection::ClusterSettings).await?
        else {
            return Ok(Duration::from_secs(60));
        };
        persistent.extend(transient);
        parse_duration(
            &settings::text(&persistent, settings::TTL_INTERVAL),
            settings::TTL_INTERVAL.name,
        )
    }

    /// Deletes what is over now, as far as searches see it; how many documents.
    ///
    /// # Errors
    /// The engine's. What was not deleted is found again by the next round.
    #[boxed]
    pub async fn delete_expired(&self) -> Result<u64> {
        let mut all = Target::of(Vec::new());
        (all.expand_hidden, all.forbid_closed) = (true, false);
        let now_ms = self.clock.wall_ms();
        let mut deleted = 0;
        for info in self.engine.indices(&all).await?.iter().filter(|info| has_lives(info)) {
            let target = Target::index(info.name.as_str());
            let body = json!({ "range": { mapping::TTL: { "lte": now_ms } } });
            let query = Query::parse(Node::from_value(body), &mut Parsing::new(Dialect::of(Persona::Es2)))?;
            let mut found = self.engine.scan(&target, query, See::Plain, Barrier::None).await?;
            let uuid: Arc<str> = Arc::from(info.uuid.as_str());
            loop {
                let mut writes = Vec::new();
                while let Some(document) = found.next().await {
                    let document = document?;
                    let mut write = Write::new(document.at, WriteOp::Delete);
                    (write.routing, write.parent) = (document.routing, document.parent);
                    write.index_uuid = Some(uuid.clone());
                    write.expect = Expect::Unchanged {
                        seq_no: document.stamp.seq_no,
                        primary_term: document.stamp.primary_term,
                    };
                    writes.push(write);
                    if writes.len() == BATCH {
                        break;
                    }
                }
                if writes.is_empty() {
                    break;
                }
                deleted += self.delete_found(info, writes).await?;
            }
        }
        Ok(deleted)
    }

    /// How many of these went.
    async fn delete_found(&self, info: &IndexInfo, writes: Vec<Write>) -> Result<u64> {
        if settings::text(&info.settings, settings::PLEACH_LOCKS) == "off" {
            let done = self.engine.write(writes, Refresh::No).await?;
            return Ok(done.iter().filter(|one| matches!(one, Outcome::Written(_))).count() as u64);
        }
        let mut deleted = 0;
        for write in writes {
            let change = Change {
                kind: Kind::Plain,
                ..Change::of(vec![Operation {
                    label: "delete",
                    write,
                    creates: None,
                    wants_source: false,
                    error: None,
                }])
            };
            match self.change(&change).await {
                Ok(Verdict::Committed(_)) => deleted += 1,
                Ok(_) => {}
                // Somebody's lock: the next round looks again.
                Err(error) if error.kind() == ErrorKind::LockConflict => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }
}

/// May documents of it end by themselves?
fn has_lives(info: &IndexInfo) -> bool {
    let locks = LockIndex::of(&info.settings).is_ok_and(|locks| !locks.is_none());
    info.open
        && info.typed
        && !locks
        && info.mapping.field(mapping::TTL).is_some()
        && settings::text(&info.settings, settings::TTL_DISABLE_PURGE) != "true"
}
