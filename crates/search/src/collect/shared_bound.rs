//! The bound of competition that the threads of one search share.
//!
//! Not here: the threads (`side_by_side`), what is skipped by the bound (`top`).

use std::sync::atomic::{AtomicU32, Ordering};

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
