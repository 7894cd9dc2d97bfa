//! Transactions that are held open: one moment to read, writes that wait, one decision in the end.
//!
//! Optimistic: nothing is locked. What was written or read by id must be at the commit as it was at the beginning; searches
//! are of the moment and are not compared. Everything but a committed outcome lives in this process: a restart aborts.
//!
//! `registry` knows which are open and how others ended, `session` begins, reads, stages and ends them, `by_query` stages
//! what a query finds, `commit` decides.
//!
//! Not here: views and what is staged in them (the engine), HTTP.

mod by_query;
mod commit;
mod registry;
mod session;

pub use by_query::{ByQuery, ByQueryCounts};
pub use commit::{Finished, Moved};
pub(crate) use registry::Registry;
pub use registry::{ShownTransaction, TransactionState};
pub use session::{Begin, BegunTransaction, HeldWrite};
