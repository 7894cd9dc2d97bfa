//! The one way in which answers wait for what they rest on (write-path.md 1.3).
//!
//! An answer that rests on a record leaves once that record is durable: the document that is shown, the conflict with
//! it, the refusal because an index is not there, the outcome that is repeated under a key. Positions come from the
//! documents that were read and, here, from the catalog: `CatalogCell::rests_on` compares what a name means in the newest
//! catalog with what it means in the newest that is durable, so that an alteration of one index holds up nobody else,
//! also when the log has failed and it never becomes durable.
//!
//! Growth of a mapping by a document counts only with that document: searches find documents in segments, and these
//! hold nothing that is not durable.
//!
//! Not here: waiting for a position (`log`), which document was read at which position (`evaluate`, `atomic_commit`).

use crate::EmbeddedEngine;
use crate::group_commit;
use crate::wait_for::WaitFor;
use engine::{Document, Outcome, Read};
use model::{ErrorKind, Result};
use std::time::Duration;

/// How long a read of one document waits for the log. A sync takes 0.1 to 10 ms, and a read that answers an older state makes
/// a conflict of the write that rests on it; so most reads wait.
const DURABLE_PATIENCE: Duration = Duration::from_millis(20);

/// Refusals that say what the server can do now, whatever was written before.
pub(crate) fn is_of_the_moment(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::RejectedExecution | ErrorKind::DiskFull | ErrorKind::LogFailed | ErrorKind::ContentTooLong
    )
}

impl EmbeddedEngine {
    /// Waits until everything that an answer rests on is as durable as it has to be.
    ///
    /// # Errors
    /// LogFailed: it never will be before a restart, and nobody knows whether it is.
    pub(crate) async fn wait(&self, after: WaitFor) -> Result<()> {
        self.note_client();
        if after.durable > self.store.log.durable_position() {
            group_commit::lead(&self.store.log, &self.clients);
            self.store.log.durable(after.durable).await?;
        }
        if after.written > self.store.log.written_position() {
            self.store.log.until_written(after.written).await?;
        }
        debug_assert!(
            after.durable <= self.store.log.durable_position() && after.written <= self.store.log.written_position(),
            "1.3: an answer leaves once what it rests on is durable"
        );
        Ok(())
    }

    /// A document that was read, once its state is durable. If that takes longer than a read waits, its newest durable state.
    ///
    /// # Errors
    /// LogFailed, as [`EmbeddedEngine::wait`]; what reading it again is refused for.
    pub(crate) async fn once_durable(&self, read: &Read, document: Option<Document>, position: u64) -> Result<Option<Document>> {
        let log = &self.store.log;
        let after = WaitFor {
            durable: position,
            written: 0,
        };
        let client = group_commit::current_client();
        client.into_iter().for_each(|client| self.clients.note(client));
        // A client that is alone waits for a write of its own, and syncs it itself.
        let is_alone = client.is_some_and(|client| self.clients.is_alone(client));
        if position <= log.durable_position() || is_alone || tokio::runtime::Handle::try_current().is_err() {
            return self.wait(after).await.map(|()| document);
        }
        match tokio::time::timeout(DURABLE_PATIENCE, log.durable(position)).await {
            Ok(waited) => return waited.map(|()| document),
            Err(_) if log.durable_position() >= position => return Ok(document),
            Err(_) => {}
        }
        // It is one read, also in the statistics.
        let again = Read {
            counted: false,
            ..read.clone()
        };
        match self.store.read_durable(&again).map_err(|e| self.store.settle(e))? {
            Some(older) => Ok(older.document),
            None => self.wait(after).await.map(|()| document),
        }
    }

    /// An answer or a refusal about these names, once what they mean is durable.
    pub(crate) async fn answer_when_durable<'n, T>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        done: Result<T>,
    ) -> Result<T> {
        if done.as_ref().is_err_and(|e| is_of_the_moment(e.kind())) {
            return done;
        }
        let durable = self.store.rests_on(names);
        if durable > 0 {
            self.wait(WaitFor { durable, written: 0 }).await?;
        }
        done
    }

    /// After the log failed, an answer that rests on nothing that was lost keeps its result; the outcome
    /// of every other write is unknown.
    pub(crate) fn known_outcomes(&self, done: Vec<(Outcome, WaitFor, Option<u32>)>) -> Vec<Outcome> {
        let log = &self.store.log;
        let is_known = |after: WaitFor| after.durable <= log.durable_position() && after.written <= log.written_position();
        done.into_iter()
            .map(|(outcome, after, _)| if is_known(after) { outcome } else { Outcome::Unknown })
            .collect()
    }
}

/// The names in a target; without expressions everything.
pub(crate) fn names_of(target: &model::Target) -> impl Iterator<Item = &str> {
    let all = target.expressions.is_empty().then_some("*");
    target.expressions.iter().map(String::as_str).chain(all)
}
