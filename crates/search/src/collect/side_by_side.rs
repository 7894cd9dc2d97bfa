//! The segments of one index, searched by several threads side by side.
//!
//! Each thread takes the next segment that nobody has taken and keeps its own best; at the end they are put together. Threads share
//! the score of the worst hit that can still be among the best, so that none looks at what another has made hopeless (search.md S26).
//!
//! Not here: how a segment is searched (`top`).

use super::{Best, Order, Ranked};
use crate::helpers::Helpers;
use model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The score that a hit must exceed by what any thread knows; it only rises.
#[derive(Debug)]
pub(crate) struct SharedBound(AtomicU32);

impl Default for SharedBound {
    fn default() -> SharedBound {
        SharedBound(AtomicU32::new(sortable_bits(f32::MIN)))
    }
}

impl SharedBound {
    /// So many hits have this score or more. A hit of an earlier segment with the same score comes first, so the bound is just below.
    pub(crate) fn raise(&self, score: f32) {
        debug_assert!(!score.is_nan(), "scores have a total order");
        self.0.fetch_max(sortable_bits(score.next_down()), Ordering::Relaxed);
    }
    /// A hit must score more than this.
    pub(crate) fn floor(&self) -> f32 {
        score_of(self.0.load(Ordering::Relaxed))
    }
}

/// Bits in the order of the numbers.
fn sortable_bits(score: f32) -> u32 {
    let bits = score.to_bits();
    if score.is_sign_negative() { !bits } else { bits | 1 << 31 }
}

fn score_of(sortable: u32) -> f32 {
    f32::from_bits(if sortable >> 31 == 0 {
        !sortable
    } else {
        sortable & !(1 << 31)
    })
}

/// A pass over the segments of an index, each by itself.
pub(crate) trait SegmentPass: Send + Sync + 'static {
    /// How many segments there are.
    fn segments(&self) -> usize;
    /// How many hits are kept.
    fn limit(&self) -> usize;
    /// Adds the hits and the count of one segment. A thread takes segments in ascending order.
    ///
    /// # Errors
    /// Unreadable files, scripts, cancellation.
    fn segment(&self, no: usize, best: &mut Best<'_>, count: &mut u64) -> Result<()>;
}

/// The result of one helper.
struct HelperResult {
    hits: Vec<Ranked>,
    count: u64,
}

/// A pass that threads take segments from.
struct Division<P> {
    pass: P,
    /// The count before this index.
    before: u64,
    next: AtomicUsize,
    state: Mutex<DivisionState>,
    ended: Condvar,
}

#[derive(Default)]
struct DivisionState {
    /// The search goes on without helpers that have not begun.
    is_closed: bool,
    running: usize,
    parts: Vec<Result<HelperResult>>,
}

impl<P: SegmentPass> Division<P> {
    fn take_segments(&self, best: &mut Best<'_>, count: &mut u64) -> Result<()> {
        loop {
            let no = self.next.fetch_add(1, Ordering::Relaxed);
            if no >= self.pass.segments() {
                return Ok(());
            }
            self.pass.segment(no, best, count)?;
        }
    }

    fn part(&self) -> Result<HelperResult> {
        let (order, mut count) = (Order::default(), self.before);
        let mut best = Best::new(&order, self.pass.limit());
        self.take_segments(&mut best, &mut count)?;
        Ok(HelperResult {
            hits: best.into_sorted(),
            count: count - self.before,
        })
    }

    /// Takes segments until none is left, on a thread of a helper.
    fn help(&self) {
        {
            let mut state = self.state.lock();
            if state.is_closed {
                return;
            }
            state.running += 1;
        }
        let part = catch_unwind(AssertUnwindSafe(|| self.part()));
        let part = part.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a search's helper panicked")));
        let mut state = self.state.lock();
        debug_assert!(state.running > 0, "a helper that ends has begun");
        state.running -= 1;
        state.parts.push(part);
        self.ended.notify_all();
    }

    /// Waits for the helpers that have begun; the others do nothing any more.
    fn close(&self) -> Vec<Result<HelperResult>> {
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

/// Goes through all segments on this thread, and on helpers where processors have nothing to do.
///
/// # Errors
/// As [`SegmentPass::segment`]; what this thread had found by then is kept.
pub(crate) fn run<P: SegmentPass>(pass: P, helpers: &dyn Helpers, best: &mut Best<'_>, count: &mut u64) -> Result<()> {
    let others = pass.segments().saturating_sub(1);
    let division = Arc::new(Division {
        pass,
        before: *count,
        next: AtomicUsize::new(0),
        state: Mutex::default(),
        ended: Condvar::new(),
    });
    for _ in 0..others {
        let shared = division.clone();
        if !helpers.offer(Box::new(move || shared.help())) {
            break;
        }
    }
    let own = division.take_segments(best, count);
    for part in division.close() {
        let part = part?;
        debug_assert!(
            part.hits.len() <= best.limit(),
            "search.md S26: a helper keeps no more than the best k"
        );
        *count += part.count;
        part.hits.into_iter().for_each(|hit| best.push(hit));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise_and_stay_below_the_score() {
        let bound = SharedBound::default();
        assert_eq!(bound.floor(), f32::MIN);
        for (score, floor) in [(-2.0, -2.0f32), (-3.0, -2.0), (0.0, 0.0), (1.5, 1.5), (1.25, 1.5), (7.0, 7.0)] {
            bound.raise(score);
            assert_eq!(bound.floor(), floor.next_down(), "after {score}");
        }
    }
}
