//! Sessions of servers: documents of the control index that say whether a server is alive.
//!
//! A record of a change names the session of the server that runs it. A server opens a session when it starts, and ends
//! the sessions of all servers before it. A sweeper resolves the changes of sessions that have ended.
//!
//! Not here: leases of locks (`leases`), what becomes of a change (`intents`).

mod session;

pub use session::{Session, SessionState};
