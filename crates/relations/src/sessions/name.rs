//! The name of a server's own session, shared by all that write it down. A server whose session was ended opens another one.

use std::sync::{Arc, Mutex, PoisonError};

/// The name, as it is now.
#[derive(Clone, Debug)]
pub struct SessionName(Arc<Mutex<Arc<str>>>);

impl SessionName {
    /// The name of the first session.
    pub fn new(name: Arc<str>) -> SessionName {
        SessionName(Arc::new(Mutex::new(name)))
    }
    /// The name.
    pub fn get(&self) -> Arc<str> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Another session is open. Names are never used twice (T19).
    pub fn replace(&self, name: Arc<str>) {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(*own != name, "T19: session [{name}] is opened once more");
        *own = name;
    }
}
