//! Deletes documents whose `_ttl` is over, in rounds.
//!
//! A document goes only as it was found: who writes it meanwhile keeps it. Documents of an index whose documents are locks
//! have their own time (`index.pleach.lock_ttl`) and are left alone. Not here: when a document's life ends (`mapping::Times`).

use crate::Relations;
use dsl::json::Node;
use dsl::query::{Parsing, Query};
use engine::{Barrier, EngineExt as _, Expect, IndexInfo, Inspected, Inspection, Refresh, See, Write, WriteOp};
use futures::StreamExt as _;
use model::lock_index::LockIndex;
use model::units::parse_duration;
use model::{Dialect, Persona, Result, Target, settings};
use serde_json::json;
use std::time::Duration;

/// Documents that one request deletes.
const BATCH: usize = 500;

impl Relations {
    /// How long to wait between rounds.
    ///
    /// # Errors
    /// Settings that cannot be read.
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
            loop {
                let mut writes = Vec::new();
                while let Some(document) = found.next().await {
                    let document = document?;
                    let mut write = Write::new(document.at, WriteOp::Delete);
                    (write.routing, write.parent) = (document.routing, document.parent);
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
                let done = self.engine.write(writes, Refresh::No).await?;
                deleted += done.iter().filter(|one| matches!(one, engine::Outcome::Written(_))).count() as u64;
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
