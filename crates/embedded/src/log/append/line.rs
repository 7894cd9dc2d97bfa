//! Waiters for a position, served in order.

use crate::lock_order::{Condvar, Mutex};
use model::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Notify, oneshot};

/// A position that only grows, and who waits for it. Reaching it wakes those it serves, no others.
pub(super) struct Line {
    pub(super) reached: AtomicU64,
    pub(super) waiting: Mutex<BTreeMap<u64, Vec<Waiter>>>,
    /// Notified whenever the position grows, and when it will not any more.
    pub(super) advanced: Notify,
}

pub(super) enum Waiter {
    Thread(Arc<Parked>),
    Task(oneshot::Sender<Result<()>>),
}

#[derive(Default)]
pub(super) struct Parked {
    pub(super) outcome: Mutex<Option<Result<()>>>,
    pub(super) told: Condvar,
}

/// A wait that has begun.
pub(super) enum Waiting {
    Over(Result<()>),
    For(oneshot::Receiver<Result<()>>),
}

impl Waiting {
    pub(super) async fn finish(self) -> Result<()> {
        match self {
            Waiting::Over(outcome) => outcome,
            Waiting::For(receiver) => match receiver.await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::new(ErrorKind::LogFailed, "the log went away; the outcome is unknown")),
            },
        }
    }
}

impl Line {
    pub(super) fn new(reached: u64) -> Line {
        Line {
            reached: AtomicU64::new(reached),
            waiting: Mutex::leaf(BTreeMap::new()),
            advanced: Notify::new(),
        }
    }

    pub(super) fn reach(&self, position: u64) {
        let before = self.reached.load(Ordering::Acquire);
        assert!(position >= before, "1.3: a position falls back from {before} to {position}");
        // Stored before the lock: whoever joins after it sees it, whoever joined before is woken.
        self.reached.store(position, Ordering::Release);
        self.advanced.notify_waiters();
        let mut waiting = self.waiting.lock();
        if waiting.first_key_value().is_none_or(|(first, _)| *first > position) {
            return;
        }
        let later = waiting.split_off(&(position + 1));
        let served = std::mem::replace(&mut *waiting, later);
        drop(waiting);
        tell(served, &Ok(()));
    }

    pub(super) fn fail(&self, failed: &Error) {
        let served = std::mem::take(&mut *self.waiting.lock());
        tell(served, &Err(failed.clone()));
        self.advanced.notify_waiters();
    }

    /// The outcome if it is known already, else joins the line.
    pub(super) fn join(&self, position: u64, failed: &OnceLock<Error>, waiter: impl FnOnce() -> Waiter) -> Option<Result<()>> {
        if self.reached.load(Ordering::Acquire) >= position {
            return Some(Ok(()));
        }
        let mut waiting = self.waiting.lock();
        if self.reached.load(Ordering::Acquire) >= position {
            return Some(Ok(()));
        }
        if let Some(failed) = failed.get() {
            return Some(Err(failed.clone()));
        }
        waiting.entry(position).or_default().push(waiter());
        None
    }

    pub(super) fn wait(&self, position: u64, failed: &OnceLock<Error>) -> Result<()> {
        let parked = Arc::<Parked>::default();
        if let Some(outcome) = self.join(position, failed, || Waiter::Thread(parked.clone())) {
            return outcome;
        }
        let mut outcome = parked.outcome.lock();
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => parked.told.wait(&mut outcome),
            }
        }
    }

    pub(super) fn enter(&self, position: u64, failed: &OnceLock<Error>) -> Waiting {
        let (sender, receiver) = oneshot::channel();
        match self.join(position, failed, || Waiter::Task(sender)) {
            Some(outcome) => Waiting::Over(outcome),
            None => Waiting::For(receiver),
        }
    }
}

/// Tells waiters the outcome.
pub(super) fn tell(served: BTreeMap<u64, Vec<Waiter>>, outcome: &Result<()>) {
    for waiter in served.into_values().flatten() {
        match waiter {
            Waiter::Thread(parked) => {
                let before = parked.outcome.lock().replace(outcome.clone());
                debug_assert!(before.is_none(), "1.3: a waiter hears one outcome");
                parked.told.notify_one();
            }
            // Whoever stopped waiting need not hear.
            Waiter::Task(sender) => drop(sender.send(outcome.clone())),
        }
    }
}
