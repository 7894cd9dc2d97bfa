//! Plain writes beside link policies: those to linked indices are decisions, so that their copies go with them.
//!
//! Not here: what policies add to a decision (`links::upkeep`).

use super::Verdict;
use super::request::{Change, Kind, Operation};
use crate::Relations;
use engine::{Outcome, Refresh, Write, WriteOp};
use futures::StreamExt as _;
use model::Result;

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
            debug_assert!(
                self.links.is_current(&policies),
                "links.md K5: a policy was announced while a write by the policies before had no place"
            );
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
        // Whoever writes this way has no answer for warnings to stand in.
        Verdict::of_plain_write(self.change(&change).await).0
    }
}
