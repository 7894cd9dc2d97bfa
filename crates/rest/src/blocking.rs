//! Work that may take long, beside the threads that serve requests.
//!
//! Not here: searches, which have threads of their own by how long they take (`embedded::lanes`); requests with long bodies
//! (`long_requests`).

use model::{Error, ErrorKind, Result};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};

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

/// Does work here that is not short: the other tasks of this thread go to another one first.
pub(crate) fn beside_requests<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Does it run a script? One may take as many steps as a thousand plain writes.
pub(crate) fn is_scripted(write: &engine::Write) -> bool {
    matches!(&write.op, engine::WriteOp::Update(update) if update.script.is_some())
}

/// Work that is carried through once it was begun: in the task of its request as long as there is one, on a task of its
/// own from there on. A task from the beginning would cost each request another turn of the runtime, and a thread woken.
pub(crate) struct Through<T: Send + 'static>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T: Send + 'static> Through<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Through<T> {
        Through(Some(Box::pin(work)))
    }
    /// The same, of work that has its place already.
    pub(crate) fn from_boxed(work: Pin<Box<dyn Future<Output = T> + Send>>) -> Through<T> {
        Through(Some(work))
    }
}

/// APIs that write in several steps: a client that hangs up between two of them must not leave what only this process could
/// end (a pending change, a task that nobody runs, a committed transaction that is still open). Not among them: what waits for
/// a lock, which gives its place in the queue up with its client; and reads.
const CARRIED_THROUGH: &[&str] = &[
    "index",
    "create",
    "delete",
    "update",
    "bulk",
    "transaction",
    "transaction.begin",
    "transaction.commit",
    "transaction.abort",
    "transaction.resolve",
    "lock.release",
    "lock.renew",
    "lock.break",
    "delete_by_query",
    "delete_by_query_2015",
    "update_by_query",
    "reindex",
    "tasks.cancel",
];

/// Is a request to this API carried through without its client?
pub(crate) fn is_carried_through(api: &str) -> bool {
    CARRIED_THROUGH.contains(&api)
}

impl<T: Send + 'static> Future for Through<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Taken out, so that nobody goes on with what has ended by a panic.
        let Some(mut work) = self.0.take() else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.0 = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Through<T> {
    fn drop(&mut self) {
        // Where the runtime is gone, so is the process.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            drop(runtime.spawn(async move { drop(work.await) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn what_was_begun_is_carried_through() {
        let (go, gone) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel::<u8>();
        let work = Through::new(async move {
            let _ = gone.await;
            tell.send(7)
        });
        let cut = tokio::time::timeout(Duration::from_millis(20), work).await;
        assert!(cut.is_err(), "its request ended before it did");
        let _ = go.send(());
        let told = tokio::time::timeout(Duration::from_secs(10), told).await;
        assert_eq!(told.expect("it went on"), Ok(7));
    }

    #[test]
    fn every_api_that_is_carried_through_is_an_endpoint() {
        let known = |api: &&str| crate::routes::ENDPOINTS.iter().any(|endpoint| endpoint.api == *api);
        assert_eq!(CARRIED_THROUGH.iter().find(|api| !known(api)), None);
    }

    #[tokio::test]
    async fn it_ends_once() {
        assert_eq!(Through::new(async { 5 }).await, 5);
        let panics = Through::<()>::new(async { panic!("a fault") });
        let caught = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(panics)).await;
        assert!(caught.is_err());
    }
}
