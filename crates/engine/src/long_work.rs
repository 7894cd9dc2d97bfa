//! How many threads do work that takes longer than a short request.
//!
//! Pools of threads, long requests and maintenance count themselves. While some of it runs, the server makes the kernel choose between
//! threads more often (`server::preemption_tick`).
//!
//! Not here: which work is long (`embedded::lanes`, `rest::long_requests`).

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The count of one process; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct LongWork(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    running: AtomicUsize,
    /// Somebody waits for the first to begin. It is read at each beginning, the lock is taken only where it is set.
    is_awaited: AtomicBool,
    lock: Mutex<()>,
    begun: Condvar,
}

/// One piece of work, until it is dropped.
#[derive(Debug)]
#[must_use = "the work is over when it is dropped"]
pub struct RunningWork(Arc<Count>);

impl LongWork {
    /// Counts work on this thread.
    pub fn begin(&self) -> RunningWork {
        self.0.running.fetch_add(1, Ordering::SeqCst);
        if self.0.is_awaited.load(Ordering::SeqCst) {
            let _lock = self.0.lock.lock();
            self.0.begun.notify_all();
        }
        RunningWork(self.0.clone())
    }

    /// How many pieces of it run now.
    pub fn running(&self) -> usize {
        self.0.running.load(Ordering::SeqCst)
    }

    /// Waits until there is some.
    pub fn wait_until_begun(&self) {
        let mut lock = self.0.lock.lock();
        // Set before the count is read: who begins after the read sees it and takes the lock.
        self.0.is_awaited.store(true, Ordering::SeqCst);
        while self.running() == 0 {
            self.0.begun.wait(&mut lock);
        }
        self.0.is_awaited.store(false, Ordering::SeqCst);
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        let before = self.0.running.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "work ends once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn work_counts_while_it_runs() {
        let work = LongWork::default();
        let first = work.begin();
        let second = work.clone().begin();
        assert_eq!(work.running(), 2);
        drop(first);
        assert_eq!(work.running(), 1);
        drop(second);
        assert_eq!(work.running(), 0);
    }

    #[test]
    fn who_waits_goes_on_when_work_begins() {
        let work = LongWork::default();
        for _ in 0..100 {
            let waiting = work.clone();
            let waiter = std::thread::spawn(move || waiting.wait_until_begun());
            std::thread::sleep(Duration::from_micros(50));
            let running = work.begin();
            waiter.join().expect("it ends");
            drop(running);
        }
        let running = work.begin();
        work.wait_until_begun();
        assert_eq!(work.running(), 1, "there was some already");
        drop(running);
    }
}
