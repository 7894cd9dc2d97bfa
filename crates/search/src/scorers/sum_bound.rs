//! The most that scores come to which are added up in another order.
//!
//! Scorers add `f64` and round the sum to `f32` once, at each level of a query. Scores that are not too far apart are added without an
//! error, so their sum is the same in any order: documents with the same score as the threshold are passed over. Otherwise the sum of n
//! scores differs by n·2⁻⁵³ of itself at most. Rounding keeps the order of what is rounded, so a bound that is raised by a little more than
//! that before it is rounded is no less than the score.
//!
//! Not here: which scores are added (`block_max`).

/// More than the error of a sum of 1,024 scores in any order, as a part of it.
const ANY_ORDER: f64 = 1e-12;
/// More than what one rounding to `f32` adds, as a part of the sum.
const ROUNDING: f64 = 1.0 / (1 << 23) as f64;
/// A score is a multiple of the last place of the unit, and `f64` holds 2⁵³ of these. The unit has up to 2²⁴ of them.
const EXACT_TIMES: f64 = (1 << 29) as f64;

/// Bounds of sums of scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SumBound {
    raised: f64,
}

impl SumBound {
    /// `roundings`: how deep sums are inside of sums, each rounded by itself. Each score is a multiple of the last place of `unit`, as
    /// it is where none is less; no sum is more than `most`.
    pub(crate) fn new(roundings: u32, unit: f32, most: f64) -> SumBound {
        let is_exact = unit.is_normal() && most < f64::from(unit) * EXACT_TIMES;
        let any_order = if is_exact { 0.0 } else { ANY_ORDER };
        SumBound {
            raised: 1.0 + any_order + ROUNDING * f64::from(roundings),
        }
    }

    /// No scorer that adds these scores gives more.
    #[inline]
    pub(crate) fn of(self, sum: f64) -> f32 {
        (sum * self.raised) as f32
    }

    /// The sum is what every scorer gives.
    pub(crate) fn is_exact(self) -> bool {
        self.raised == 1.0
    }

    /// A score that together with `others` does not exceed the threshold, nor does a lower one.
    pub(crate) fn floor(self, threshold: f32, others: f64) -> f32 {
        let mut floor = (f64::from(threshold) - others) as f32;
        while floor > f32::MIN && self.of(others + f64::from(floor)) > threshold {
            floor = floor.next_down();
        }
        floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::random::random;

    fn sum_of<'a>(scores: impl IntoIterator<Item = &'a f32>) -> f64 {
        scores.into_iter().map(|score| f64::from(*score)).sum()
    }

    /// Scores in another order, and in groups that are rounded by themselves. `spread`: the greatest is so many times the least.
    fn check(spread: u64, is_exact: bool) {
        let mut next = random(spread);
        for _ in 0..20_000 {
            let scores: Vec<f32> = (0..1 + next(20)).map(|_| (1 + next(spread)) as f32 / 1_000_000.0).collect();
            let (sum, least) = (sum_of(&scores), scores.iter().copied().fold(f32::MAX, f32::min));
            let mut order = scores.clone();
            order.sort_by(|a, b| b.total_cmp(a));
            let (flat, bound) = (sum_of(&order) as f32, SumBound::new(0, least, sum).of(sum));
            assert!(flat <= bound, "{scores:?}: {flat} is above {bound}");
            let says_exact = SumBound::new(0, least, sum).is_exact();
            assert!(says_exact || !is_exact, "{scores:?} are close to each other");
            assert!(!says_exact || flat == bound, "{scores:?}: {flat} is not {bound}");
            let groups: Vec<f32> = scores.chunks(1 + next(4) as usize).map(|some| sum_of(some) as f32).collect();
            let nested = sum_of(&groups) as f32;
            assert!(
                nested <= SumBound::new(1, least, sum).of(sum),
                "{scores:?} in groups {groups:?}: {nested}"
            );
        }
    }

    #[test]
    fn bounds_are_no_less_than_sums_in_any_order() {
        check(1 << 8, true);
        check(1 << 24, true);
        check(1 << 31, false);
    }

    #[test]
    fn a_floor_does_not_exceed_the_threshold() {
        let check = |roundings: u32, threshold: f32, others: f64| {
            let bound = SumBound::new(roundings, 0.01, 100.0);
            let floor = bound.floor(threshold, others);
            assert!(
                bound.of(others + f64::from(floor)) <= threshold,
                "{roundings} {threshold} {others}: {floor}"
            );
            floor
        };
        // One score alone: those that equal the threshold are passed over.
        assert_eq!(check(0, 4.858_974_5, 0.0), 4.858_974_5);
        for roundings in [0, 1, 3] {
            for (threshold, others) in [
                (f32::MIN, 0.0),
                (f32::MIN, 3.5),
                (1.0, 0.3),
                (7.25, 7.25),
                (7.25, 9.0),
                (1e-30, 0.1),
            ] {
                check(roundings, threshold, others);
            }
        }
    }
}
