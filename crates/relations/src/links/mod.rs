//! Links: copies of fields of one document in others, kept equal to their source (docs/internals/links.md).
//!
//! `policy` is what a client asks for, `references` the places of copies inside one document. `upkeep` adds to the plan of a
//! decision what policies ask for: copies filled in, copies that follow, documents that go with their source. `carriers`
//! looks for the documents that refer to a source while `latches` keep others from adding references to it, and `pending` has the copies
//! that follow later. Not here: decisions (`atomically`), putting policies (`link_policies`), work that follows later (`link_jobs`).

pub(crate) mod carriers;
mod latches;
mod pending;
mod policy;
pub(crate) mod references;
mod table;
mod upkeep;

pub use carriers::body_of_all;
pub use pending::Propagated;
pub use policy::{End, KeyField, Mode, OnDelete, OnMissing, Policy};

pub(crate) use latches::Latches;
pub(crate) use pending::{JobId, LinkJob, Pending, job_at, recall_job};
pub(crate) use table::PolicyTable;
pub(crate) use upkeep::{ExpansionEnd, LockCheck, Origin, States, Upkeep, states_of};

use model::{Error, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The policies of a server, and the work that they leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Links {
    table: Arc<RwLock<Arc<PolicyTable>>>,
    /// The version of the newest table of which a client was told: nothing is written by an older one.
    announced: Arc<AtomicU64>,
    pub(crate) latches: Latches,
    pub(crate) pending: Pending,
    /// One policy is put or deleted at a time.
    pub(crate) altering: Arc<futures::lock::Mutex<()>>,
}

impl Links {
    /// The policies of now. Whoever writes by them holds it until the write has its place: a policy that is put waits for those.
    pub(crate) fn table(&self) -> Arc<PolicyTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Other policies from now on; the former ones.
    pub(crate) fn replace(&self, table: PolicyTable) -> Arc<PolicyTable> {
        let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let next = Arc::new(table.with_version(current.version() + 1));
        std::mem::replace(&mut *current, next)
    }

    /// Nobody writes by these policies any more, and clients are told so.
    pub(crate) fn announce_after(&self, former: &PolicyTable) {
        let next = former.version() + 1;
        assert!(
            self.table().version() == next,
            "links.md K5: policies are replaced one at a time"
        );
        self.announced.store(next, Ordering::Release);
    }

    /// May a write that is made by these policies get its place now?
    pub(crate) fn is_current(&self, table: &PolicyTable) -> bool {
        table.version() >= self.announced.load(Ordering::Acquire)
    }
}

/// `resource_not_found_exception`: no policy of that name.
pub(crate) fn no_policy(name: &str, known: &PolicyTable) -> Error {
    let meant = model::nearest::question(name, known.policies().map(|policy| policy.name.as_str()));
    Error::new(ErrorKind::ResourceNotFound, format!("no link policy [{name}]{meant}")).with("policy", name)
}
