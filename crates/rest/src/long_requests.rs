//! Requests with long bodies, on threads of their own.
//!
//! A request whose body is longer than [`LONG_BODY_BYTES`] is parsed, planned and answered by a runtime whose threads the
//! server makes. Its connection is another task, and so notices a client that hangs up while the body is parsed.
//!
//! Not here: where the connection runs (`home_runtime`); long searches, which have threads by how long they take
//! (`embedded::lanes`); single steps (`blocking`).

use crate::blocking::{Through, beside_requests};
use engine::long_work::LongWork;
use model::{Cancellation, Error, ErrorKind, Result};
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// A request body from which on its request runs beside short ones. Less takes about a millisecond; handing a request
/// over to another thread costs about 20 µs.
pub(crate) const LONG_BODY_BYTES: usize = 64 << 10;

/// The work of a request, until its answer.
type Work<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// The threads of requests with long bodies.
#[derive(Clone, Debug, Default)]
pub(crate) struct LongRequests {
    /// `None`: the runtime of the connections, whose other tasks move to another thread.
    pub(crate) threads: Option<Handle>,
    /// Each step of them counts itself here.
    pub(crate) long_work: LongWork,
}

impl LongRequests {
    /// Does something beside the requests that nobody waits for.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        match &self.threads {
            Some(threads) => drop(threads.spawn(work)),
            None => drop(tokio::spawn(work)),
        }
    }

    fn steps<T>(&self, work: Work<T>) -> StepsBesideRequests<T> {
        StepsBesideRequests {
            work,
            long_work: self.long_work.clone(),
        }
    }

    /// Runs a request with a body of so many bytes to its end. When this is dropped before, because the client is gone, a
    /// request that `is_carried_through` goes on; any other ends, and `client_gone` says so to what does not return to the
    /// runtime.
    ///
    /// # Errors
    /// The request's.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        is_carried_through: bool,
        client_gone: &Cancellation,
        work: Work<T>,
    ) -> Result<T> {
        let is_long = bytes > LONG_BODY_BYTES;
        match &self.threads {
            Some(threads) if is_long => {
                let task = threads.spawn(self.steps(work));
                let _ends = (!is_carried_through).then(|| EndsWithClient {
                    client_gone: client_gone.clone(),
                    task: task.abort_handle(),
                });
                match task.await {
                    Ok(done) => done,
                    Err(fault) if fault.is_panic() => resume_unwind(fault.into_panic()),
                    Err(_) => Err(Error::new(
                        ErrorKind::Internal,
                        "the server stops; the request was not answered",
                    )),
                }
            }
            _ => {
                let work: Work<T> = match is_long {
                    true => Box::pin(self.steps(work)),
                    false => work,
                };
                match is_carried_through {
                    true => Through::from_boxed(work).await,
                    false => work.await,
                }
            }
        }
    }
}

/// Ends a request when its client is gone. After the request's own end it does nothing.
struct EndsWithClient {
    client_gone: Cancellation,
    task: AbortHandle,
}

impl Drop for EndsWithClient {
    fn drop(&mut self) {
        self.client_gone.cancel();
        self.task.abort();
    }
}

/// Work whose steps each hand the other tasks of their thread over to another one.
struct StepsBesideRequests<T> {
    work: Work<T>,
    long_work: LongWork,
}

impl<T> Future for StepsBesideRequests<T> {
    type Output = Result<T>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let _running = self.long_work.begin();
        let work = self.work.as_mut();
        beside_requests(|| work.poll(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;
    use tokio::sync::oneshot;

    const LATE: Duration = Duration::from_secs(20);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_long_body_leaves_its_thread_to_others() {
        let (go, gone) = mpsc::channel::<()>();
        let blocks = Box::pin(async move { Ok(gone.recv_timeout(LATE).is_ok()) });
        let long = tokio::spawn(async move {
            let requests = LongRequests::default();
            requests
                .run(LONG_BODY_BYTES + 1, false, &Cancellation::default(), blocks)
                .await
        });
        // There is one thread for tasks, and the work above has it until this has run.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let other = tokio::spawn(async move { go.send(()) });
        assert!(other.await.is_ok_and(|sent| sent.is_ok()));
        assert!(long.await.is_ok_and(|done| matches!(done, Ok(true))));
    }

    /// Where a request of a length runs: on a thread of the other runtime, or where it was called.
    async fn check_thread(bytes: usize, is_beside: bool) {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("long")
            .build()
            .expect("a runtime");
        let requests = LongRequests {
            threads: Some(threads.handle().clone()),
            ..LongRequests::default()
        };
        let name = Box::pin(async { Ok(std::thread::current().name().map(str::to_owned)) });
        let name = requests
            .run(bytes, false, &Cancellation::default(), name)
            .await
            .expect("a name");
        assert_eq!(name.as_deref() == Some("long"), is_beside, "{bytes} bytes: {name:?}");
        threads.shutdown_background();
    }

    #[tokio::test]
    async fn long_requests_have_threads_of_their_own() {
        check_thread(0, false).await;
        check_thread(LONG_BODY_BYTES, false).await;
        check_thread(LONG_BODY_BYTES + 1, true).await;
    }

    /// A request whose client goes away while a step of it runs: does it end, or is it carried through?
    async fn check_gone(is_carried_through: bool) {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .expect("a runtime");
        let requests = LongRequests {
            threads: Some(threads.handle().clone()),
            ..LongRequests::default()
        };
        let client_gone = Cancellation::default();
        let seen = client_gone.clone();
        let (begun, begins) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel::<bool>();
        let (go, gone) = mpsc::channel::<()>();
        let work: Work<()> = Box::pin(async move {
            let _ = begun.send(());
            // One step that does not return to the runtime.
            let _ = gone.recv_timeout(LATE);
            let cancelled = seen.is_cancelled();
            tokio::task::yield_now().await;
            // Not reached by a request that ended.
            let _ = tell.send(cancelled);
            Ok(())
        });
        let serving = tokio::spawn(async move {
            let cancellation = client_gone.clone();
            requests
                .run(LONG_BODY_BYTES + 1, is_carried_through, &cancellation, work)
                .await
        });
        assert!(begins.await.is_ok());
        serving.abort();
        assert!(serving.await.is_err_and(|error| error.is_cancelled()));
        let _ = go.send(());
        let told = tokio::time::timeout(LATE, told).await.expect("it ended");
        assert_eq!(told.ok(), is_carried_through.then_some(false));
        threads.shutdown_background();
    }

    #[tokio::test]
    async fn a_long_request_ends_with_its_client_unless_it_is_carried_through() {
        check_gone(false).await;
        check_gone(true).await;
    }

    #[tokio::test]
    async fn a_fault_is_the_callers() {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .expect("a runtime");
        let requests = LongRequests {
            threads: Some(threads.handle().clone()),
            ..LongRequests::default()
        };
        let gone = Cancellation::default();
        let work: Work<()> = Box::pin(async { panic!("a fault") });
        let run = requests.run(LONG_BODY_BYTES + 1, false, &gone, work);
        let caught = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(run)).await;
        assert!(caught.is_err());
        threads.shutdown_background();
    }
}
