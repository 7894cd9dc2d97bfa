//! Work on one index that several threads do side by side.
//!
//! It has units. Each thread takes the next unit that nobody has taken and keeps what it finds; at the end the parts of all threads are
//! put together by the thread of the search.
//!
//! Not here: what a unit is, a segment (`top`) or documents of one (`divided_sink`); the threads themselves (`helpers`).

use crate::helpers::Helpers;
use model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The units that one thread takes, in ascending order. Each unit is taken by one thread.
pub(crate) struct Units<'a> {
    next: &'a AtomicUsize,
    end: usize,
}

impl Iterator for Units<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let no = self.next.fetch_add(1, Ordering::Relaxed);
        (no < self.end).then_some(no)
    }
}

/// Work that threads take units of.
pub(crate) trait DividedWork: Send + Sync + 'static {
    /// What a helper finds.
    type Part: Send;
    /// How many units there are.
    fn units(&self) -> usize;
    /// What a helper finds in the units that it takes.
    ///
    /// # Errors
    /// Unreadable files, scripts, cancellation.
    fn help(&self, units: Units<'_>) -> Result<Self::Part>;
}

/// Work while it is done.
struct Division<W: DividedWork> {
    work: W,
    next: AtomicUsize,
    state: Mutex<DivisionState<W::Part>>,
    ended: Condvar,
}

struct DivisionState<P> {
    /// The search goes on without helpers that have not begun.
    is_closed: bool,
    running: usize,
    parts: Vec<Result<P>>,
}

impl<W: DividedWork> Division<W> {
    fn units(&self) -> Units<'_> {
        Units {
            next: &self.next,
            end: self.work.units(),
        }
    }

    /// Takes units until none is left, on a thread of a helper.
    fn help(&self) {
        {
            let mut state = self.state.lock();
            if state.is_closed {
                return;
            }
            state.running += 1;
        }
        let part = catch_unwind(AssertUnwindSafe(|| self.work.help(self.units())));
        let part = part.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a search's helper panicked")));
        let mut state = self.state.lock();
        debug_assert!(state.running > 0, "a helper that ends has begun");
        state.running -= 1;
        state.parts.push(part);
        self.ended.notify_all();
    }

    /// Waits for the helpers that have begun; the others do nothing any more.
    fn close(&self) -> Vec<Result<W::Part>> {
        let mut state = self.state.lock();
        state.is_closed = true;
        while state.running > 0 {
            self.ended.wait(&mut state);
        }
        debug_assert_eq!(
            state.running, 0,
            "search.md S26: no helper adds to the answer once it is put together"
        );
        std::mem::take(&mut state.parts)
    }
}

/// Does all units on this thread by `own`, and on helpers where processors have nothing to do. The answer is that of `own`, and the parts
/// of the helpers, whatever `own` answers.
pub(crate) fn run<W: DividedWork>(
    work: W,
    helpers: &dyn Helpers,
    own: impl FnOnce(&W, Units<'_>) -> Result<()>,
) -> (Result<()>, Vec<Result<W::Part>>) {
    let others = work.units().saturating_sub(1);
    let division = Arc::new(Division {
        work,
        next: AtomicUsize::new(0),
        state: Mutex::new(DivisionState {
            is_closed: false,
            running: 0,
            parts: Vec::new(),
        }),
        ended: Condvar::new(),
    });
    for _ in 0..others {
        let shared = division.clone();
        if !helpers.offer(Box::new(move || shared.help())) {
            break;
        }
    }
    let done = own(&division.work, division.units());
    (done, division.close())
}
