//! The percent of values up to a value, by the rule of each server: they differ where values are few.
//!
//! The rules are those of the t-digests in Elasticsearch 2.4 (t-digest 3.0), 7.10 (3.2) and OpenSearch 2 (3.3), each
//! value being a centroid of its own, and of Elasticsearch 8's digest of few values. Not here: values at percents (`percentiles`).

use model::{Dialect, Persona};

/// Whose rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::aggs) enum RankRule {
    /// t-digest 3.0: as 3.2, but the last range lies around the last value.
    Elasticsearch2,
    /// t-digest 3.2: linear between the middles of neighbours.
    Elasticsearch7,
    /// t-digest 3.3 and Elasticsearch 8: the values below, and half of the equal ones.
    #[default]
    Exact,
}

impl RankRule {
    /// The rule of the server that a request speaks to.
    pub(in crate::aggs) fn of(dialect: Dialect) -> RankRule {
        match dialect.persona {
            _ if dialect.rules.former_percentiles => RankRule::Elasticsearch2,
            Persona::Es2 => RankRule::Elasticsearch2,
            Persona::Es7 => RankRule::Elasticsearch7,
            _ => RankRule::Exact,
        }
    }

    /// From 0 to 100; `None` where there are no values. `sorted` ascends.
    pub(in crate::aggs) fn percent(self, sorted: &[f64], value: f64) -> Option<f64> {
        debug_assert!(
            sorted.is_sorted_by(|a, b| a.total_cmp(b).is_le()),
            "values of a bucket ascend"
        );
        let share = match (self, sorted) {
            (_, []) => return None,
            (RankRule::Elasticsearch2 | RankRule::Elasticsearch7, [only]) => f64::from(u8::from(value >= *only)),
            (RankRule::Elasticsearch2 | RankRule::Elasticsearch7, _) => self.interpolate(sorted, value),
            (RankRule::Exact, _) => {
                let below = sorted.partition_point(|other| *other < value);
                let not_above = sorted.partition_point(|other| *other <= value);
                (below + not_above) as f64 / 2.0 / sorted.len() as f64
            }
        };
        Some(share.clamp(0.0, 1.0) * 100.0)
    }

    /// The share below a value among at least two, each with a range that ends in the middles to its neighbours. It may lie
    /// outside of 0 and 1.
    fn interpolate(self, sorted: &[f64], value: f64) -> f64 {
        let count = sorted.len();
        let share = |below: usize, from: f64, to: f64| (below as f64 + (value - from) / (to - from)) / count as f64;
        let mut right = (sorted[1] - sorted[0]) / 2.0;
        let mut left = right;
        for at in 0..count - 2 {
            if value < sorted[at] + right {
                return share(at, sorted[at] - left, sorted[at] + right);
            }
            left = right;
            right = (sorted[at + 2] - sorted[at + 1]) / 2.0;
        }
        // 3.0 takes the last value with the range of the one before it; 3.2 takes that one itself.
        let (last, left) = match self {
            RankRule::Elasticsearch2 => (sorted[count - 1], right),
            _ => (sorted[count - 2], left),
        };
        if value < last + right {
            share(count - 2, last - left, last + right)
        } else {
            1.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: values, what is asked, and the answers of t-digest 3.0, 3.2 and 3.3.
    #[test]
    fn ranks_of_few_values_are_those_of_the_original() {
        use RankRule::*;
        let rows: &[(&[f64], f64, [f64; 3])] = &[
            (&[441.0], 50.0, [0.0, 0.0, 0.0]),
            (&[441.0], 441.0, [100.0, 100.0, 50.0]),
            (&[441.0], 450.0, [100.0, 100.0, 100.0]),
            (&[441.0, 489.0], 50.0, [0.0, 0.0, 0.0]),
            (&[441.0, 489.0], 400.0, [0.0, 0.0, 0.0]),
            (&[441.0, 489.0], 450.0, [0.0, 34.375, 50.0]),
            (&[441.0, 489.0], 489.0, [25.0, 100.0, 75.0]),
            (&[441.0, 489.0], 600.0, [100.0, 100.0, 100.0]),
            (&[5.0, 5.0], 4.0, [0.0, 0.0, 0.0]),
            (&[5.0, 5.0], 5.0, [100.0, 100.0, 50.0]),
            (&[5.0, 5.0, 5.0], 4.0, [0.0, 0.0, 0.0]),
            (&[5.0, 5.0, 5.0], 6.0, [100.0, 100.0, 100.0]),
            (&[1.0, 1.0, 3.0, 5.0, 9.0], 4.0, [45.0, 60.0, 60.0]),
            (&[1.0, 1.0, 3.0, 5.0, 9.0], 5.0, [50.0, 200.0 / 3.0, 70.0]),
            (&[0.0, 10.0, 20.0, 30.0], 12.0, [42.5, 42.5, 50.0]),
        ];
        for (values, asked, expected) in rows {
            for (rule, expected) in [Elasticsearch2, Elasticsearch7, Exact].into_iter().zip(expected) {
                let found = rule.percent(values, *asked).expect("there are values");
                assert!(
                    (found - expected).abs() < 1e-9,
                    "{rule:?}: {asked} among {values:?}: {found}, not {expected}"
                );
            }
        }
        assert_eq!(Elasticsearch7.percent(&[], 1.0), None);
    }
}
