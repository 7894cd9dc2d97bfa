//! Sessions of servers: documents of the control index that say whether a server is alive.
//!
//! A record of a change names the session of the server that runs it. A server opens a session when it starts. Where one process
//! has the store, it ends the sessions of all servers before it; where several have it, each ends those of its own earlier starts,
//! beats, and ends those that beat no more. A sweeper resolves the changes of sessions that have ended.
//!
//! Not here: leases of locks (`leases`), what becomes of a change (`intents`).

mod name;
mod observed;
mod session;

pub use name::SessionName;
pub use observed::Observed;
pub use session::{Session, SessionState};
