//! A few threads for what takes long: searches, builds, alterations.
//!
//! The queue is bounded by whoever submits: searches by `search.max_concurrent`, the rest by the requests in
//! flight. Not here: what is run.

use model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// The threads and what waits for them.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    limited: Arc<AtomicUsize>,
    limited_max: usize,
}

struct Shared {
    queue: Mutex<(VecDeque<Job>, bool)>,
    more: Condvar,
}

impl Workers {
    /// Starts the threads, named after what they do. `limited_max`: how many limited jobs may run or wait.
    pub(crate) fn start(name: &str, count: usize, limited_max: usize) -> Result<Workers> {
        let shared = Arc::new(Shared {
            queue: Mutex::new((VecDeque::new(), false)),
            more: Condvar::new(),
        });
        let mut threads = Vec::new();
        // The long ones leave the processors to the others.
        let low = name == "long";
        for n in 0..count {
            let shared = shared.clone();
            let thread = std::thread::Builder::new()
                .name(format!("pleach-{name}-{n}"))
                .spawn(move || {
                    if low {
                        // SAFETY: `setpriority` changes this thread's priority alone; that it fails does not matter.
                        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
                    }
                    shared.work();
                })
                .map_err(|e| Error::new(ErrorKind::Internal, format!("starting a thread failed: {e}")))?;
            threads.push(thread);
        }
        Ok(Workers {
            shared,
            threads,
            limited: Arc::default(),
            limited_max,
        })
    }

    /// Runs a job and gives its result. A job that panics is an internal error.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let job: Job = Box::new(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            // Nobody waits any more: the request was dropped.
            drop(tell.send(result.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a worker panicked")))));
        });
        self.shared.queue.lock().0.push_back(job);
        self.shared.more.notify_one();
        told.await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the engine is closing")))
    }

    /// As [`Workers::run`], refused when too many run or wait.
    pub(crate) async fn run_limited<T: Send + 'static>(&self, job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        struct Place(Arc<AtomicUsize>);
        impl Drop for Place {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::AcqRel);
            }
        }
        let before = self.limited.fetch_add(1, Ordering::AcqRel);
        let place = Place(self.limited.clone());
        if before >= self.limited_max {
            let reason = format!("[{before}] searches run or wait; the limit is the setting [search.max_concurrent]");
            return Err(Error::new(ErrorKind::RejectedExecution, reason));
        }
        self.run(move || {
            let _place = place;
            job()
        })
        .await
    }
}

/// A thread that had nothing to do for so long rests.
const RESTS_AFTER: Duration = Duration::from_millis(200);

static AT_REST: OnceLock<fn()> = OnceLock::new();

/// What a thread does once when it has worked and now rests: an allocator may have memory to give back that only this
/// thread can reach. Said once a process, by whoever chose the allocator.
pub fn at_rest(f: fn()) {
    let _ = AT_REST.set(f);
}

impl Shared {
    fn work(&self) {
        let mut rested = true;
        loop {
            let job = {
                let mut queue = self.queue.lock();
                loop {
                    if let Some(job) = queue.0.pop_front() {
                        break Some(job);
                    }
                    if queue.1 {
                        return;
                    }
                    if rested {
                        self.more.wait(&mut queue);
                    } else if self.more.wait_for(&mut queue, RESTS_AFTER).timed_out() {
                        break None;
                    }
                }
            };
            rested = job.is_none();
            match (job, AT_REST.get()) {
                (Some(job), _) => job(),
                (None, Some(at_rest)) => at_rest(),
                (None, None) => {}
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.queue.lock().1 = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // A worker may be the last to hold the engine: it cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() {
                drop(thread.join());
            }
        }
    }
}
