//! Sessions and leases: "dead" is a fact written down, not an opinion.
//!
//! A session is a document whose `beat` its owner raises. Who watches it looks only at whether the beat moves, timed
//! by its own monotonic clock: no time stamp of another machine is ever compared. Suspicion costs nothing and proves
//! nothing; the death is a compare-and-set of the document from open to expired, at the very version that was
//! watched. If the owner has renewed meanwhile, that write fails and it lives. One write kills everything that the
//! session keeps alive.
//!
//! The lease of a lock is a session of its own (one lock = one lease). It names the changes that are made under it, so
//! that who ends it resolves those before the lock passes on.
//!
//! Not here: reading and writing session documents, waiting.

mod lease;
mod observer;

pub use lease::{Ended, Session, SessionKind, SessionState};
pub use observer::{Observer, Sample, Verdict};
