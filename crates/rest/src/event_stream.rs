//! An answer without an end: pieces that a task sends as they come, until the client is gone.
//!
//! Not here: what is sent (the handler), how long a client may take none of it (`read_timeout`).

use bytes::Bytes;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Pieces that wait for the client; then the sender waits.
const PIECES: usize = 4;

/// The receiving end. Its clones share it: one of them is sent.
#[derive(Clone)]
pub struct EventStream(Arc<Mutex<Receiver<Bytes>>>);

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStream")
    }
}

impl EventStream {
    /// A stream and the end that fills it.
    pub(crate) fn open() -> (EventStream, Sender<Bytes>) {
        let (sender, receiver) = channel(PIECES);
        (EventStream(Arc::new(Mutex::new(receiver))), sender)
    }

    /// The next piece; `None`: the stream has ended.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_recv(cx)
    }
}
