//! Changes of several documents: all of it or nothing, finished by anybody.
//!
//! One document decides. A change has a record in the control index; moving it from pending to committed (with the
//! outcome of every operation inside) or to aborted is a compare-and-set, so whoever comes first decides and
//! everybody learns the same. docs/internals/change-protocol.md tells the whole protocol.
//!
//! Not here: locks and leases that clients hold (`locks`, `sessions`).

mod apply;
mod attempt;
mod chunks;
mod decide;
mod intent;
mod preflight;
mod record;
mod resolve;
mod runner;
mod sweep;

pub(crate) use apply::{is_for_now, is_of_an_index};
pub use attempt::{Attempt, Before, Ended, Pause, Planned, Planning, Resolved};
pub use chunks::{Chunks, Room};
pub use decide::{Apply, Meet, Purge, RecordState, ResolverStep, Then, apply, decide, meet, purge};
pub(crate) use preflight::rehearse_and_grow;
pub use record::{CONTROL_INDEX, Effects, Mark, NotApplied, Record, Since, Token, Touched, origin, record_address};
pub use runner::{Runner, session_address};
