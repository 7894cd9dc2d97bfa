//! A few threads for what takes long: searches, builds, alterations.
//!
//! The queue is bounded by whoever submits: searches by `search.max_concurrent`, the rest by the requests in
//! flight. Not here: what is run.

use crate::environment::Limits;
use crate::thread_priority;
use engine::PoolStats;
use engine::long_work::LongWork;
use model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// The threads and what waits for them.
pub(crate) struct Workers {
    shared: Arc<WorkerQueue>,
    threads: Vec<JoinHandle<()>>,
    limited: Arc<Load>,
    limited_max: usize,
    others: Arc<Load>,
}

/// The name, the priority and the bounds of a pool of threads.
pub(crate) struct Pool {
    /// Its work, for the names of its threads.
    pub(crate) name: &'static str,
    /// The priority of its threads ([`thread_priority`]).
    pub(crate) nice: i32,
    pub(crate) threads: usize,
    /// How many limited jobs may run or wait.
    pub(crate) limited_max: usize,
}

/// Jobs of one kind: how many there are, and were.
#[derive(Debug, Default)]
struct Load {
    /// They wait or run.
    there: AtomicUsize,
    active: AtomicU64,
    largest: AtomicU64,
    rejected: AtomicU64,
    completed: AtomicU64,
}

impl Load {
    fn stats(&self, name: &'static str, threads: usize, queue_max: Option<usize>) -> PoolStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (there, active) = (self.there.load(Ordering::Relaxed) as u64, of(&self.active));
        PoolStats {
            name,
            threads: threads as u64,
            active,
            largest: of(&self.largest),
            queue: there.saturating_sub(active),
            queue_max: queue_max.map(|max| max as u64),
            rejected: of(&self.rejected),
            completed: of(&self.completed),
        }
    }
    fn begin(&self) {
        let active = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        self.largest.fetch_max(active, Ordering::Relaxed);
    }
    fn end(&self) {
        let active = self.active.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(active > 0, "as many jobs end as have begun");
        self.completed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A job of a kind, from when it is asked for until it has ended or nobody runs it any more.
struct LoadSlot(Arc<Load>);

impl LoadSlot {
    fn run<T>(self, job: impl FnOnce() -> T) -> T {
        /// Ends however the job ends.
        struct Active<'a>(&'a Load);
        impl Drop for Active<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        self.0.begin();
        let _active = Active(&self.0);
        job()
    }
}

impl Drop for LoadSlot {
    fn drop(&mut self) {
        let there = self.0.there.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(there > 0, "each job gives back the one place that it took");
    }
}

struct WorkerQueue {
    queue: Mutex<(VecDeque<Job>, bool)>,
    more: Condvar,
}

impl Workers {
    /// Starts the threads of a pool. They use `at_rest` and `long_work` of the limits.
    pub(crate) fn start(pool: &Pool, limits: &Limits) -> Result<Workers> {
        let Pool {
            name,
            nice,
            threads: count,
            limited_max,
        } = *pool;
        let shared = Arc::new(WorkerQueue {
            queue: Mutex::new((VecDeque::new(), false)),
            more: Condvar::new(),
        });
        let mut threads = Vec::new();
        for n in 0..count {
            let shared = shared.clone();
            let (at_rest, long_work) = (limits.at_rest, limits.long_work.clone());
            let thread = std::thread::Builder::new()
                .name(format!("pleach-{name}-{n}"))
                .spawn(move || {
                    thread_priority::lower(nice);
                    shared.work(at_rest, &long_work);
                })
                .map_err(|e| Error::new(ErrorKind::Internal, format!("starting a thread failed: {e}")))?;
            threads.push(thread);
        }
        Ok(Workers {
            shared,
            threads,
            limited: Arc::default(),
            limited_max,
            others: Arc::default(),
        })
    }

    /// Runs a job and gives its result. A job that panics is an internal error.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        self.begin(job).await
    }

    /// As [`Workers::run`], but the job waits for a thread from now on, also before its result is awaited.
    pub(crate) fn begin<T: Send + 'static, J: FnOnce() -> Result<T> + Send + 'static>(
        &self,
        job: J,
    ) -> impl Future<Output = Result<T>> + Send + use<T, J> {
        self.others.there.fetch_add(1, Ordering::AcqRel);
        self.send(LoadSlot(self.others.clone()), job)
    }

    /// As [`Workers::run`], refused when too many run or wait.
    pub(crate) async fn run_limited<T: Send + 'static>(&self, job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let before = self.limited.there.fetch_add(1, Ordering::AcqRel);
        let place = LoadSlot(self.limited.clone());
        if before >= self.limited_max {
            self.limited.rejected.fetch_add(1, Ordering::Relaxed);
            let reason = format!("[{before}] searches run or wait; the limit is the setting [search.max_concurrent]");
            return Err(Error::new(ErrorKind::RejectedExecution, reason));
        }
        self.send(place, job).await
    }

    /// Runs a job that nobody waits for. One that panics is counted and forgotten.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.others.there.fetch_add(1, Ordering::AcqRel);
        let place = LoadSlot(self.others.clone());
        self.push(Box::new(move || {
            drop(place.run(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(job))));
        }));
    }

    /// Runs a limited job that is known to be quick on this thread, and counts it with the others.
    pub(crate) fn run_here<T>(&self, job: impl FnOnce() -> T) -> T {
        self.limited.there.fetch_add(1, Ordering::Relaxed);
        LoadSlot(self.limited.clone()).run(job)
    }

    /// The same of a job that is not limited.
    pub(crate) fn run_other_here<T>(&self, job: impl FnOnce() -> T) -> T {
        self.others.there.fetch_add(1, Ordering::Relaxed);
        LoadSlot(self.others.clone()).run(job)
    }

    /// Counts of limited jobs on these threads and elsewhere.
    pub(crate) fn limited_stats(&self, name: &'static str) -> PoolStats {
        self.limited.stats(name, self.threads.len(), Some(self.limited_max))
    }

    /// Counts of the other jobs.
    pub(crate) fn stats(&self, name: &'static str) -> PoolStats {
        self.others.stats(name, self.threads.len(), None)
    }

    fn send<T: Send + 'static, J: FnOnce() -> Result<T> + Send + 'static>(
        &self,
        place: LoadSlot,
        job: J,
    ) -> impl Future<Output = Result<T>> + Send + use<T, J> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let job: Job = Box::new(move || {
            let result = place.run(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)));
            // Nobody waits any more: the request was dropped.
            drop(tell.send(result.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a worker panicked")))));
        });
        self.push(job);
        async move {
            let result = told.await;
            result.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "the engine is closing")))
        }
    }

    fn push(&self, job: Job) {
        self.shared.queue.lock().0.push_back(job);
        self.shared.more.notify_one();
    }
}

/// A thread that had nothing to do for so long rests.
const RESTS_AFTER: Duration = Duration::from_millis(200);

impl WorkerQueue {
    fn work(&self, at_rest: Option<fn()>, long_work: &LongWork) {
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
            match (job, at_rest) {
                (Some(job), _) => {
                    let _running = long_work.begin();
                    job();
                }
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
