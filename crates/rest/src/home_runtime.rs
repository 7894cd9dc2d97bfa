//! The runtime that polls the task of a connection: the one of short requests, or the one of long ones while a long body comes
//! or a long answer goes.
//!
//! To copy a long body out of the kernel takes a thread more than its share of the processor. The scheduler lets such a thread
//! wait for others, some 10 ms under load, and with it each short request that it is to read.
//!
//! Not here: the handlers of long requests (`long_requests`), the threads (the server makes them).

use crate::long_requests::{LONG_BODY_BYTES, LongRequests};
use engine::long_work::LongWork;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use tokio::runtime::Handle;

/// The task of a connection.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The choice for one connection. The connection makes it, and its task moves at the end of the poll.
#[derive(Debug, Default)]
pub(crate) struct HomeRuntime {
    is_long: AtomicBool,
}

impl HomeRuntime {
    /// Moves to the runtime of long requests if work on so many bytes is long, and stays until the end of the request.
    pub(crate) async fn prolong(&self, bytes: usize) {
        if bytes > LONG_BODY_BYTES {
            self.choose(bytes as u64).await;
        }
    }

    /// Chooses by the bytes that are to be read or sent: more than [`LONG_BODY_BYTES`] are long.
    ///
    /// The task moves where it next waits; a long body is waited for at once.
    pub(crate) async fn choose(&self, bytes: u64) {
        let is_long = bytes > LONG_BODY_BYTES as u64;
        if self.is_long.swap(is_long, Ordering::Relaxed) != is_long {
            tokio::task::yield_now().await;
        }
    }
}

/// Runs the task of a connection to its end, by the runtime that `home` says; it begins by that of the caller.
pub(crate) fn spawn(task: Task, home: Arc<HomeRuntime>, long: &LongRequests) {
    match &long.threads {
        Some(threads) => {
            let short = Handle::current();
            let place = Place {
                runtimes: [short.clone(), threads.clone()],
                long_work: long.long_work.clone(),
                home,
            };
            short.spawn(place.stay(false, task));
        }
        None => drop(tokio::spawn(task)),
    }
}

/// The two runtimes of a connection, and the choice between them.
struct Place {
    runtimes: [Handle; 2],
    long_work: LongWork,
    home: Arc<HomeRuntime>,
}

impl Place {
    /// Polls the task for as long as its home is here, then has the other runtime do so.
    fn stay(self, is_long: bool, mut task: Task) -> Task {
        Box::pin(async move {
            let is_over = poll_fn(|cx| {
                let _running = is_long.then(|| self.long_work.begin());
                match task.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(true),
                    Poll::Pending if self.home.is_long.load(Ordering::Relaxed) == is_long => Poll::Pending,
                    Poll::Pending => Poll::Ready(false),
                }
            });
            if !is_over.await {
                let other = self.runtimes[usize::from(!is_long)].clone();
                other.spawn(self.stay(!is_long, task));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::mpsc;

    fn runtime(name: &'static str) -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder
            .worker_threads(1)
            .thread_name(name)
            .enable_all()
            .build()
            .expect("threads start")
    }

    fn here() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    /// A call of the connection, with its bytes.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Choose(u64),
        Prolong(usize),
    }
    use Step::{Choose, Prolong};

    /// A task that asks for these, one after the other: where it goes on after each.
    fn check(steps: &[Step], expected: &[&str]) {
        let asked = steps.to_vec();
        let (short, long) = (runtime("short"), runtime("long"));
        let requests = LongRequests {
            threads: Some(long.handle().clone()),
            ..LongRequests::default()
        };
        let (tell, mut told) = mpsc::unbounded_channel();
        let home = Arc::<HomeRuntime>::default();
        let chosen = home.clone();
        let task = async move {
            for step in asked {
                match step {
                    Choose(bytes) => chosen.choose(bytes).await,
                    Prolong(bytes) => chosen.prolong(bytes).await,
                }
                // Whatever wakes it finds it where it is.
                tokio::time::sleep(Duration::from_millis(1)).await;
                tell.send(here()).expect("somebody listens");
            }
        };
        let found = short.block_on(async move {
            spawn(Box::pin(task), home, &requests);
            let mut found = Vec::new();
            while let Some(at) = told.recv().await {
                found.push(at);
            }
            found
        });
        assert_eq!(found, expected, "{steps:?}");
    }

    #[test]
    fn a_long_answer_moves_a_connection_and_a_short_one_leaves_it() {
        check(
            &[Prolong(LONG_BODY_BYTES), Prolong(LONG_BODY_BYTES + 1), Prolong(0), Choose(0)],
            &["short", "long", "long", "short"],
        );
    }

    #[test]
    fn a_connection_moves_with_the_length_of_its_bodies() {
        const LONG: u64 = LONG_BODY_BYTES as u64 + 1;
        check(&[Choose(0), Choose(LONG - 1)], &["short", "short"]);
        check(&[Choose(LONG)], &["long"]);
        check(
            &[0, LONG, LONG, 0, LONG, 0].map(Choose),
            &["short", "long", "long", "short", "long", "short"],
        );
    }
}
