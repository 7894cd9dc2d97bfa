//! How leases end: by a request, by time, with a connection; and what a start makes of those that did not.
//!
//! A lease ends only after the transactions made under it are finished (T18).

mod expire;
mod housekeeping;
mod lock_documents;
mod recovery;
mod release;
