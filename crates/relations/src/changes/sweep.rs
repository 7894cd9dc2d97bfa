//! Finding work: changes that nobody finishes, and those that are long finished.
//!
//! A search finds them; what is there is decided by comparing (`resolve`).

use super::attempt::Resolved;
use super::decide::RecordState;
use super::marked::unchanged;
use super::record::{CONTROL_INDEX, Record, Touched, record_address};
use super::runner::Runner;
use crate::locks::Owner;
use dsl::query::Query;
use engine::{Barrier, EngineExt as _, Hide, Outcome, Refresh, See, Write, WriteOp};
use futures::StreamExt as _;
use model::{ErrorKind, Result, Stamp, Target};

impl Runner {
    /// One round of a sweeper: finishes what is committed, and aborts what is pending under a session that has ended.
    /// The scan only finds work; what is there is decided by comparing.
    ///
    /// # Errors
    /// The engine's.
    pub async fn sweep(&self) -> Result<Vec<(Owner, Resolved)>> {
        let mut open = Vec::new();
        for (change, record, _) in self.records().await? {
            if matches!(record.state, RecordState::Pending | RecordState::Committed) {
                open.push((change, record));
            }
        }
        let mut resolved = Vec::new();
        for (change, record) in open {
            if self.is_dead(&record.session).await? {
                resolved.push((change.clone(), self.resolve(&change).await?));
            }
        }
        Ok(resolved)
    }

    /// W9: forgets changes that were finished longer ago than `kept_ms`, by the wall clock of who wrote their records:
    /// the tombstones they left, then the records. What comes even later is taken off by whoever meets it.
    ///
    /// # Errors
    /// The engine's; what is left is for the next call.
    pub async fn collect(&self, kept_ms: i64) -> Result<u64> {
        let before = self.clock.wall_ms() - kept_ms;
        let mut collected = 0;
        for (change, record, stamp) in self.records().await? {
            let finished = matches!(record.state, RecordState::Aborted | RecordState::Done);
            if !finished || record.written_ms > before {
                continue;
            }
            let touched: Vec<&Touched> = record.documents.iter().collect();
            let gone = self.gone(&touched).await?;
            let here = touched
                .iter()
                .map(|t| t.at.clone())
                .filter(|at| !gone.contains(at.index.as_str()));
            let mut writes = Vec::new();
            for (at, marked) in self.read_marked(&here.collect()).await? {
                // Its own: a later change's tombstone is that one's to collect.
                if marked.mark.tombstone && marked.mark.intent.is_none() && marked.mark.token == record.token {
                    writes.push(Write {
                        expect: marked.expect(),
                        hide: Hide::Drop,
                        ..Write::new(at, WriteOp::Delete)
                    });
                }
            }
            let outcomes = self.engine.write(writes, Refresh::No).await?;
            if !outcomes
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Written(_) | Outcome::Conflict(_)))
            {
                continue;
            }
            let write = Write {
                expect: unchanged(stamp),
                hide: Hide::Drop,
                ..Write::new(record_address(&change), WriteOp::Delete)
            };
            if let Outcome::Written(_) = self.engine.write_one(write, Refresh::No).await? {
                collected += 1;
            }
        }
        Ok(collected)
    }

    /// Every record, as a search finds it: to look for work, not to act on.
    async fn records(&self) -> Result<Vec<(Owner, Record, Stamp)>> {
        let target = Target::index(CONTROL_INDEX);
        match self.engine.refresh(&target, None).await {
            Err(error) if error.kind() == ErrorKind::IndexNotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = self.engine.scan(&target, Query::all(), See::Plain, Barrier::None).await?;
        let mut out = Vec::new();
        while let Some(document) = found.next().await {
            let document = document?;
            let source = document.source.parse()?;
            if source["kind"] == "change" {
                out.push((Owner::new(document.at.id.id), Record::parse(&source)?, document.stamp));
            }
        }
        Ok(out)
    }
}
