//! Finding work: changes that nobody finishes, and those that are long finished.
//!
//! A search finds them; what is there is decided by comparing (`resolve`).

use super::apply::is_for_now;
use super::attempt::Resolved;
use super::chunks;
use super::decide::RecordState;
use super::intent::{Marked, expect_unchanged};
use super::record::{CONTROL_INDEX, Record, Token, Touched, record_address};
use super::runner::Runner;
use crate::locks::Owner;
use async_recursion::async_recursion as boxed;
use dsl::query::Query;
use engine::{Barrier, EngineExt as _, Hide, Outcome, Refresh, See, Write, WriteOp};
use futures::StreamExt as _;
use model::{DocAddress, ErrorKind, Result, Stamp, Target};
use std::collections::{BTreeMap, BTreeSet};

impl Runner {
    /// One round of a sweeper: finishes what is committed, and aborts what is pending under a session that has ended.
    /// The scan only finds work; what is there is decided by comparing.
    ///
    /// Changes whose index is closed or blocked wait for it: `None`. Stuck ones are told, and left so.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn sweep(&self) -> Result<Vec<(Owner, Option<Resolved>)>> {
        let (mut open, mut resolved) = (Vec::new(), Vec::new());
        for (change, record, _) in self.scan_control().await?.records {
            match record.state {
                RecordState::Pending | RecordState::Committed => open.push((change, record)),
                RecordState::Stuck => resolved.push((change, Some(Resolved::Stuck))),
                RecordState::Aborted | RecordState::Done => {}
            }
        }
        for (change, record) in open {
            if self.is_dead(&record.session).await? {
                let came = match self.resolve(&change).await {
                    Ok(came) => Some(came),
                    Err(error) if is_for_now(&error) => None,
                    Err(error) => return Err(error),
                };
                resolved.push((change, came));
            }
        }
        Ok(resolved)
    }

    /// The records of all changes that are not forgotten, whatever became of them.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) async fn records(&self) -> Result<Vec<(Owner, Record)>> {
        let found = self.scan_control().await?.records.into_iter();
        Ok(found.map(|(change, record, _)| (change, record)).collect())
    }

    /// Every change that is committed when this begins is applied, whoever made it.
    ///
    /// # Errors
    /// The engine's; one that is stuck.
    pub(crate) async fn finish_committed(&self) -> Result<()> {
        for (change, record, _) in self.scan_control().await?.records {
            if record.state == RecordState::Stuck
                || record.state == RecordState::Committed && self.resolve(&change).await? == Resolved::Stuck
            {
                return Err(self.why_stuck(&change).await?);
            }
        }
        Ok(())
    }

    /// W9: forgets changes that were finished longer ago than `kept_ms`, by the time in which servers ran: the
    /// tombstones they left, then the records. What comes even later is taken off by whoever meets it.
    ///
    /// # Errors
    /// The engine's; what is left is for the next call.
    #[boxed]
    pub async fn collect(&self, kept_ms: i64) -> Result<u64> {
        let before = self.kept_time.now_ms(self.clock.as_ref()).saturating_sub(kept_ms);
        let mut collected = 0;
        let ControlScan {
            records,
            mut chunks,
            tombstones,
        } = self.scan_control().await?;
        // A document that a change made and that was deleted after the change was forgotten: nobody else comes for it.
        let token = |(_, record, stamp): &(Owner, Record, Stamp)| record.token.unwrap_or(Token::of(*stamp));
        let known: BTreeSet<Option<Token>> = records.iter().map(|one| Some(token(one))).collect();
        let nobodys = tombstones.into_iter().filter(|(_, token)| !known.contains(token));
        self.engine
            .write(nobodys.map(|(write, _)| write).collect(), Refresh::No)
            .await?;
        for (change, record, stamp) in records {
            let chunks = chunks.remove(&change).unwrap_or_default();
            let finished = matches!(record.state, RecordState::Aborted | RecordState::Done);
            if !finished || record.kept_ms > before {
                continue;
            }
            let touched: Vec<&Touched> = record.documents.iter().collect();
            let gone = self.replaced_indices(&touched).await?;
            let here = touched
                .iter()
                .map(|t| t.at.clone())
                .filter(|at| !gone.contains(at.index.as_str()));
            let mut writes = Vec::new();
            for (at, marked) in self.read_marked(&here.collect()).await? {
                // Its own: a later change's tombstone is that one's to collect.
                if marked.mark.tombstone && marked.mark.intent.is_none() && marked.mark.token == record.token {
                    writes.push(record.uuids().address(Write {
                        expect: marked.expect(),
                        hide: Hide::Drop,
                        ..Write::new(at, WriteOp::Delete)
                    }));
                }
            }
            // Chunks of plans that came to nothing go too. The record goes last: it says what may still be looked for.
            writes.extend(chunks.iter().map(Chunk::deletion));
            let outcomes = self.engine.write(writes, Refresh::No).await?;
            if !outcomes
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Written(_) | Outcome::Conflict(_)))
            {
                continue;
            }
            let write = Write {
                expect: expect_unchanged(stamp),
                hide: Hide::Drop,
                ..Write::new(record_address(&change), WriteOp::Delete)
            };
            if let Outcome::Written(_) = self.engine.write_one(write, Refresh::No).await? {
                collected += 1;
            }
        }
        // Chunks that arrived when their change was forgotten.
        for (change, chunks) in chunks {
            if self.read_record(&change).await?.is_none() {
                let late = chunks.iter().filter(|chunk| chunk.written_ms <= before);
                self.engine.write(late.map(Chunk::deletion).collect(), Refresh::No).await?;
            }
        }
        Ok(collected)
    }

    /// When the newest record was written, by the time in which servers ran; `None` if there is none.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn newest_kept(&self) -> Result<Option<i64>> {
        Ok(self
            .scan_control()
            .await?
            .records
            .iter()
            .map(|(_, record, _)| record.kept_ms)
            .max())
    }

    /// Every record and chunk, as a search finds them: to look for work, not to act on.
    #[boxed]
    async fn scan_control(&self) -> Result<ControlScan> {
        let mut out = ControlScan::default();
        let target = Target::index(CONTROL_INDEX);
        match self.engine.refresh(&target, None).await {
            Err(error) if error.kind() == ErrorKind::IndexNotFound => return Ok(out),
            other => other?,
        };
        let mut found = self
            .engine
            .scan(&target, Query::all(), See::Everything, Barrier::None)
            .await?;
        while let Some(document) = found.next().await {
            let marked = Marked::of(Some(document?))?;
            if marked.mark.tombstone
                && marked.mark.intent.is_none()
                && let Some(document) = &marked.document
            {
                let write = Write {
                    expect: marked.expect(),
                    hide: Hide::Drop,
                    ..Write::new(document.at.clone(), WriteOp::Delete)
                };
                out.tombstones.push((write, marked.mark.token));
            }
            let Some(document) = marked.document.filter(|_| !marked.mark.tombstone && !marked.mark.stub) else {
                continue;
            };
            let source = document.source.parse()?;
            match (source["kind"].as_str(), source["change"].as_str()) {
                (Some("change"), _) => {
                    let change = Owner::new(document.at.id.id);
                    out.records.push((change, Record::parse(&source)?, document.stamp));
                }
                (Some(chunks::KIND), Some(change)) => out.chunks.entry(Owner::new(change)).or_default().push(Chunk {
                    at: document.at,
                    stamp: document.stamp,
                    written_ms: source["at"].as_i64().unwrap_or(i64::MAX),
                }),
                _ => {}
            }
        }
        Ok(out)
    }
}

/// Records, chunks and tombstones that a scan of the control index finds.
#[derive(Default)]
struct ControlScan {
    records: Vec<(Owner, Record, Stamp)>,
    chunks: BTreeMap<Owner, Vec<Chunk>>,
    /// Tombstones in the control index, with the writes that take them away and the changes that they are of.
    tombstones: Vec<(Write, Option<Token>)>,
}

struct Chunk {
    at: DocAddress,
    stamp: Stamp,
    written_ms: i64,
}

impl Chunk {
    fn deletion(&self) -> Write {
        Write {
            expect: expect_unchanged(self.stamp),
            hide: Hide::Drop,
            ..Write::new(self.at.clone(), WriteOp::Delete)
        }
    }
}
