//! Plain writes beside link policies: those to linked indices are decisions, so that their copies go with them.
//!
//! Not here: what policies add to a decision (`links::upkeep`).

use super::request::{Change, Kind, Operation};
use super::{NotDone, Verdict};
use crate::Relations;
use engine::{Outcome, Refresh, Write, WriteOp};
use futures::StreamExt as _;
use model::{Error, ErrorKind, Result};

/// Decisions that are made at once, to share the wait for the disk.
const AT_ONCE: usize = 256;

impl Relations {
    /// Writes, each on its own; answers in order, once durable.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) async fn write_beside_links(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        // Held until the writes have their places: a policy that is put waits for them (links.md K5).
        let policies = self.links.table();
        if policies.is_empty() || !writes.iter().any(|write| policies.has(write.at.index.as_str())) {
            let done = self.engine.write(writes, refresh).await;
            drop(policies);
            return done;
        }
        drop(policies);
        let mut outcomes = Vec::with_capacity(writes.len());
        for run in engine::runs(writes, |write| &write.at) {
            let run: Vec<_> = run.into_iter().map(|write| self.write_decided(write, refresh)).collect();
            let done: Vec<Outcome> = futures::stream::iter(run).buffered(AT_ONCE).collect().await;
            outcomes.extend(done);
        }
        Ok(outcomes)
    }

    async fn write_decided(&self, write: Write, refresh: Refresh) -> Outcome {
        let operation = Operation {
            wants_source: matches!(write.op, WriteOp::Update(_)),
            ..Operation::of("index", write)
        };
        let change = Change {
            kind: Kind::Plain,
            refresh,
            ..Change::of(vec![operation])
        };
        match self.change(&change).await {
            Ok(Verdict::Committed(mut done)) => {
                let written = done.items.pop().map(|item| Outcome::Written(item.written));
                written.unwrap_or(Outcome::Unknown)
            }
            Ok(Verdict::Failed(failures)) => match failures.operations.into_iter().next() {
                Some(NotDone::Conflict(conflict)) => Outcome::Conflict(conflict),
                Some(NotDone::Refused(error)) => Outcome::Refused(error),
                _ => Outcome::Unknown,
            },
            Ok(Verdict::Waits(..)) => Outcome::Refused(Error::new(ErrorKind::Internal, "a plain write waits for nothing")),
            Err(error) => Outcome::Refused(error),
        }
    }
}
