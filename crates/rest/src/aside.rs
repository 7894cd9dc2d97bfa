//! Work that may take long, beside the threads that serve requests.

use model::{Error, ErrorKind, Result};
use std::future::Future;
use tokio::runtime::Handle;

/// Runs `work` here if it is short, else on a thread of its own. A lost request does not stop what runs there.
///
/// # Errors
/// The work's; its fault.
pub(crate) async fn aside<T: Send + 'static>(long: bool, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    if !long {
        return work.await;
    }
    let runtime = Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.unwrap_or_else(|e| {
        Err(Error::new(
            ErrorKind::Internal,
            format!("the request ended by a fault of the server: {e}"),
        ))
    })
}

/// Does it run a script? One may take as many steps as a thousand plain writes.
pub(crate) fn is_scripted(write: &engine::Write) -> bool {
    matches!(&write.op, engine::WriteOp::Update(update) if update.script.is_some())
}
