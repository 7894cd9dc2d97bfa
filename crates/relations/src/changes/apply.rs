//! W6 and W7: the outcomes of a committed change reach their documents, by the marks.
//!
//! Not here: the commit (`runner`), who else may come to apply it (`resolve`).

use super::attempt::Resolved;
use super::decide::{Apply, RecordState, apply};
use super::marked::{Marked, applied, rewrite, unchanged};
use super::record::{Effects, Mark, Record, Token, Touched};
use super::runner::Runner;
use crate::locks::Owner;
use engine::{Expect, Outcome, Refresh};
use model::{DocAddress, Error, ErrorKind, Result, Stamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Writes of one batch while applying.
const BATCH: usize = 1_000;

/// May it be possible later? An index that is closed or blocked may be opened again.
pub(crate) fn is_for_now(error: &Error) -> bool {
    error.is_transient() || matches!(error.kind(), ErrorKind::IndexClosed | ErrorKind::ClusterBlock)
}

impl Runner {
    /// W6 and W7: every outcome reaches its document, by the marks. `at_hand` are documents as this process has just
    /// written them; the others, and those that have moved, are read.
    pub(super) async fn apply_all(
        &self,
        change: &Owner,
        record: &Record,
        token: Token,
        mut at_hand: BTreeMap<DocAddress, Marked>,
        stamped: &mut BTreeMap<DocAddress, Stamp>,
    ) -> Result<Resolved> {
        let mut open: Vec<&Touched> = record.documents.iter().collect();
        let mut turn = 0;
        while !open.is_empty() {
            let batch: Vec<&Touched> = open.iter().copied().take(BATCH).collect();
            let addresses: BTreeSet<DocAddress> = batch
                .iter()
                .map(|touched| touched.at.clone())
                .filter(|at| !at_hand.contains_key(at))
                .collect();
            let gone = self.gone(&batch).await?;
            let missing = addresses.into_iter().filter(|at| !gone.contains(at.index.as_str())).collect();
            let mut read = self.read_marked(&missing).await?;
            // The second guard: what was read before this is not written after somebody else has finished.
            if turn > 0 && !self.still_committed(change).await? {
                return Ok(Resolved::Done);
            }
            let mut writes = Vec::new();
            let mut written = Vec::new();
            let mut acknowledged: BTreeSet<&DocAddress> = BTreeSet::new();
            for touched in batch {
                let at = &touched.at;
                if gone.contains(at.index.as_str()) {
                    acknowledged.insert(at);
                    continue;
                }
                let Some(marked) = at_hand.remove(at).or_else(|| read.remove(at)) else {
                    continue;
                };
                debug_assert!(touched.effect.is_some(), "a whole record says what becomes of {at:?}");
                let effect = touched.effect.as_ref().unwrap_or(&Effects::Check);
                let found = marked.document.as_ref().map(|_| marked.mark.intent.as_ref());
                let confirm = Mark {
                    tombstone: true,
                    token: Some(token),
                    ..Mark::default()
                };
                writes.push(match apply(found, change) {
                    Apply::Write => applied(at, &marked, effect, token),
                    Apply::Confirm => rewrite(at, &marked, &marked.mark),
                    Apply::ConfirmAbsence => rewrite(at, &marked, &confirm),
                });
                written.push(at);
            }
            for (at, outcome) in written.into_iter().zip(self.engine.write(writes, Refresh::No).await?) {
                match outcome {
                    Outcome::Written(written) => {
                        stamped.insert(at.clone(), written.stamp);
                        acknowledged.insert(at);
                    }
                    // Somebody else goes on, or we do later: it is committed.
                    Outcome::Refused(error) if is_for_now(&error) => return Err(error),
                    Outcome::Refused(error) => return self.stick(change, &error).await,
                    Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => {}
                }
            }
            open.retain(|touched| !acknowledged.contains(&touched.at));
            turn += 1;
            if !open.is_empty() {
                self.rest(turn).await;
            }
        }
        self.finish(change, RecordState::Done).await
    }

    /// W7, and the end of any resolution: writes the state over a committed record, or confirms it.
    pub(super) async fn finish(&self, change: &Owner, state: RecordState) -> Result<Resolved> {
        let mut turn = 1;
        loop {
            let Some((found, stamp)) = self.read_record(change).await? else {
                // Collected, or a stale read; it was committed, so it cannot be absent otherwise.
                return Ok(Resolved::Done);
            };
            if matches!(found.state, RecordState::Committed | RecordState::Done) {
                let next = found.touched(stamp, state.max(found.state), self.nonce());
                if self.write_record(change, &next, unchanged(stamp)).await?.is_some() {
                    return Ok(Resolved::Done);
                }
            } else if found.state == RecordState::Stuck {
                return Ok(Resolved::Stuck);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// An outcome that can never be applied.
    pub(super) async fn stick(&self, change: &Owner, why: &Error) -> Result<Resolved> {
        if let Some((found, stamp)) = self.read_record(change).await?
            && found.state == RecordState::Committed
        {
            let mut next = found.touched(stamp, RecordState::Stuck, self.nonce());
            next.result = Value::Object(why.to_json());
            self.write_record(change, &next, unchanged(stamp)).await?;
        }
        Ok(Resolved::Stuck)
    }

    /// Touches the record: acknowledged, it is still committed. Where there is none it may be collected, or an isolated primary
    /// has none yet: that nothing was there is acknowledged as well, by what is put there.
    pub(super) async fn still_committed(&self, change: &Owner) -> Result<bool> {
        let mut turn = 1;
        loop {
            let (state, next, expect) = match self.read_record(change).await? {
                Some((found, stamp)) => (found.state, found.touched(stamp, found.state, self.nonce()), unchanged(stamp)),
                None => (RecordState::Aborted, self.negation(), Expect::Absent),
            };
            if self.write_record(change, &next, expect).await?.is_some() {
                return Ok(state == RecordState::Committed);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }
}
