//! What a read is promised to see: `?after=`, `?read_level=`, `?transaction=`, and under which locks it is done.
//!
//! On one process every level is the same: a change is visible whole, once it is durable. Not here: `?lock=` of
//! single documents, which must be covered.

use crate::call::Call;
use engine::{Document, Read};
use model::{CommitSeq, Error, Result, Target};

/// What a read asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Visibility {
    /// Everything up to this change is seen.
    after: Option<u64>,
    /// Locks that must be alive.
    pub(super) locks: Vec<String>,
    /// It is done in this transaction.
    pub(super) transaction: Option<String>,
}

impl Visibility {
    /// Takes the parameters.
    ///
    /// # Errors
    /// Values that are not theirs.
    pub(super) fn take(call: &mut Call) -> Result<Visibility> {
        match call.params.take("read_level").as_deref() {
            None | Some("plain" | "settled" | "snapshot") => {}
            Some(other) => {
                return Err(Error::illegal(format!(
                    "[read_level] must be one of [plain, settled, snapshot] but was [{other}]"
                )));
            }
        }
        Ok(Visibility {
            after: call.params.take_number("after")?,
            locks: call.take_locks(),
            transaction: call.params.take("transaction"),
        })
    }

    /// Whether there is a change to wait for.
    pub(super) fn waits(&self) -> bool {
        self.after.is_some()
    }

    /// Waits until the change is there, and seen by searches of these indices.
    ///
    /// # Errors
    /// A change that nobody knows, or that the transaction does not see; a missing index.
    pub(super) async fn reach(&self, call: &Call, target: &Target) -> Result<()> {
        match (self.after, &self.transaction) {
            (None, _) => {}
            (Some(after), None) => call.rest.relations.reach(target, after).await?,
            (Some(after), Some(id)) => sees(after, call.rest.relations.view_in(id).await?.1)?,
        }
        Ok(())
    }

    /// The same for searches, which only need their locks to be alive. Gives the view that is to be searched.
    ///
    /// # Errors
    /// One is not; the transaction is not open.
    pub(super) async fn before_search(&self, call: &Call, target: &Target) -> Result<Option<String>> {
        super::locks::check_alive(call, &self.locks)?;
        self.reach(call, target).await?;
        match &self.transaction {
            None => Ok(None),
            Some(id) => Ok(Some(call.rest.relations.view_in(id).await?.0)),
        }
    }

    /// Reads a document, in the transaction if there is one.
    ///
    /// # Errors
    /// As the engine's.
    pub(super) async fn read(&self, call: &Call, read: Read) -> Result<Option<Document>> {
        match &self.transaction {
            None => Ok(call.rest.engine.read(vec![read]).await?.pop().flatten()),
            Some(id) => call.rest.relations.read_in(id, read).await,
        }
    }
}

fn sees(after: CommitSeq, read_seq: CommitSeq) -> Result<()> {
    if after <= read_seq {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "[after] [{after}] is later than [read_seq] [{read_seq}] of the transaction, which reads nothing newer"
    )))
}
