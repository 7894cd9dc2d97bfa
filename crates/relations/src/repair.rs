//! Looking through the documents of the control index, and taking out those that cannot be read.
//!
//! To be called on a store that nobody else uses, instead of [`crate::Relations::recover`]. Not here: an index that cannot be
//! read at all (`embedded` makes it anew), the command (`server::commands::check`).

use crate::leases::table::Table;
use crate::leases::{Lease, asking};
use crate::locks::{AllAnswer, Owner};
use crate::sessions::Session;
use async_recursion::async_recursion as boxed;
use engine::{Document, Hide, Outcome, Refresh, Write, WriteOp};
use model::{Error, ErrorKind, Result};

/// Kinds that a start reads, and the keys.
const KINDS: &[&str] = &[
    "lease",
    "lease_expired",
    "lease_broken",
    "server",
    "task",
    "task_at",
    "task_done",
    "task_stop",
    "key",
    "link_policy",
    "link_job",
];

/// The documents of the control index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlContents {
    /// Locks that are held.
    pub locks: usize,
    /// Idempotency keys.
    pub keys: usize,
    /// Tasks, finished or not.
    pub tasks: usize,
    /// Id and reason of each document that cannot be read.
    pub unsound: Vec<(String, String)>,
}

impl crate::Relations {
    /// Reads every document that a start reads. `None`: there is no control index, as nobody took a lock yet.
    ///
    /// # Errors
    /// The index cannot be read at all.
    #[boxed]
    pub async fn control_contents(&self) -> Result<Option<ControlContents>> {
        let Some(documents) = self.control_documents(KINDS).await? else {
            return Ok(None);
        };
        let mut table = Table::default();
        let mut contents = ControlContents::default();
        for document in documents {
            if let Err(cause) = self.look_at(&document, &mut table, &mut contents) {
                let reason = cause.reason().to_owned();
                contents.unsound.push((document.at.id.id.to_string(), reason));
            }
        }
        Ok(Some(contents))
    }

    fn look_at(&self, document: &Document, table: &mut Table, contents: &mut ControlContents) -> Result<()> {
        // A document that went with a change may leave a tombstone.
        if document.hidden.as_ref().is_some_and(|mark| !mark.visible) {
            return Ok(());
        }
        let source = document.source.parse()?;
        match source["kind"].as_str().unwrap_or_default() {
            "key" => contents.keys += 1,
            "server" => drop(Session::parse(&source)?),
            "link_policy" | "link_job" => crate::link_policies::check_kept(&source)?,
            kind if kind.starts_with("task") => {
                if !crate::jobs::is_sound(&source) {
                    return Err(Error::new(ErrorKind::Corruption, "no sound record of a task"));
                }
                contents.tasks += usize::from(matches!(kind, "task" | "task_done"));
            }
            _ => {
                let (lease, ended) = Lease::read(&document.source, document.stamp, self.clock.monotonic())?;
                if ended.is_some() {
                    return Ok(());
                }
                let request = asking(Owner::new(lease.id.clone()), table.next_age(), false);
                let lock_document = lease.lock_document.is_some();
                if table.look(&lease.claims, &request, &[]) == AllAnswer::Granted {
                    contents.locks += 1;
                    table.grant(lease, &request);
                } else if !lock_document {
                    let reason = format!("lock [{}] is not compatible with the others that are stored", lease.id);
                    return Err(Error::new(ErrorKind::Corruption, reason));
                }
            }
        }
        Ok(())
    }

    /// Takes out the documents that cannot be read; gives what was found. The others stay, and numbers go on rising.
    ///
    /// # Errors
    /// The index cannot be read or written at all.
    #[boxed]
    pub async fn remove_unsound(&self) -> Result<Option<ControlContents>> {
        let Some(contents) = self.control_contents().await? else {
            return Ok(None);
        };
        let at = |id: &String| engine::address(crate::schema::CONTROL, model::DocId::plain(id.as_str()));
        let removal = |(id, _): &(String, String)| Write {
            hide: Hide::Drop,
            ..Write::new(at(id), WriteOp::Delete)
        };
        let removals: Vec<Write> = contents.unsound.iter().map(removal).collect();
        for outcome in self.engine.write(removals, Refresh::Now).await? {
            match outcome {
                Outcome::Written(_) => {}
                Outcome::Refused(error) => return Err(error),
                other => {
                    return Err(Error::new(
                        ErrorKind::Internal,
                        format!("removing a document came to {other:?}"),
                    ));
                }
            }
        }
        Ok(Some(contents))
    }
}
