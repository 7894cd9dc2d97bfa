//! Locks: documents that say who may change what. All of this is pure: modes, targets and what they cost, one step
//! of one lock document, the same step over all targets of a request, and the graph of who waits for whom.
//!
//! A lock document holds *named* owners, never a count: a repeated or lost request to add or remove a name changes
//! nothing, while a repeated or lost increment cannot be told from another client's.
//!
//! A lease may run out while its holder still believes in it. That is safe: a lock is only taken over from a change
//! that has been decided, and every write carries an expectation.
//!
//! Not here: waiting, leases (`sessions`), reading and writing lock documents.

mod all;
mod lock;
mod mode;
mod path;
mod step;
mod target;
mod waits;

pub use all::{AllAnswer, acquire_all, look_all, queue_all};
pub use lock::{Age, Holder, Holders, Lock, Owner, Waiter};
pub use mode::Mode;
pub use path::{LockPath, PlaceFields, path_depth_max};
pub use step::{Answer, Blocker, LockAction, Request, step, waiters_max};
pub use target::{Claim, LockKey, LockTarget, check_text, do_cover, plan, targets_max, write_claims};
pub use waits::{cycle, waits};
