//! Scores of several documents that count as one: children of a parent, documents of a joined key.

use dsl::query::ScoreMode;

/// How many there were, and what any mode needs of their scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    /// Saturates.
    pub(crate) count: u32,
    sum: f64,
    low: f32,
    high: f32,
}

impl Totals {
    pub(crate) const NONE: Totals = Totals {
        count: 0,
        sum: 0.0,
        low: f32::INFINITY,
        high: f32::NEG_INFINITY,
    };

    /// The scores of one document.
    pub(crate) fn one(score: f32) -> Totals {
        Totals {
            count: 1,
            sum: f64::from(score),
            low: score,
            high: score,
        }
    }

    pub(crate) fn add(&mut self, other: &Totals) {
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
    }

    /// The score of all; 1 where scores do not count.
    pub(crate) fn score(&self, mode: ScoreMode) -> f32 {
        match mode {
            ScoreMode::None => 1.0,
            ScoreMode::Sum => self.sum as f32,
            ScoreMode::Min => self.low,
            ScoreMode::Max => self.high,
            _ => (self.sum / f64::from(self.count.max(1))) as f32,
        }
    }
}
