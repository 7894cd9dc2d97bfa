//! What a read is promised to see: `?after=`, `?read_level=`, and under which locks it is done.
//!
//! On one process every level is the same: a change is visible whole, once it is durable. Not here: `?lock=` of
//! single documents, which must be covered.

use crate::call::Call;
use model::{Error, Result, Target};

/// What a read asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Visibility {
    /// Everything up to this change is seen.
    after: Option<u64>,
    /// Locks that must be alive.
    pub(super) locks: Vec<String>,
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
        })
    }

    /// Whether there is a change to wait for.
    pub(super) fn waits(&self) -> bool {
        self.after.is_some()
    }

    /// Waits until the change is there, and seen by searches of these indices.
    ///
    /// # Errors
    /// A change that nobody knows; a missing index.
    pub(super) async fn reach(&self, call: &Call, target: &Target) -> Result<()> {
        if let Some(after) = self.after {
            call.rest.relations.reach(target, after).await?;
        }
        Ok(())
    }

    /// The same for searches, which only need their locks to be alive.
    ///
    /// # Errors
    /// One is not.
    pub(super) async fn before_search(&self, call: &Call, target: &Target) -> Result<()> {
        super::locks::check_alive(call, &self.locks)?;
        self.reach(call, target).await
    }
}
