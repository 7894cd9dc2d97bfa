//! An HDR histogram of values: it keeps so many digits of each value, and percentiles are
//! upper ends of its cells.
//!
//! Sizes are powers of two; each is cut into 2^n / 2 cells, where 2^n is the first power of two that is at least
//! twice 10^digits. The finest cell is that of the least value that is not 0.

/// The cells for some values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hdr {
    /// Cells of one size.
    cells: f64,
    /// The width of the finest cell.
    finest: f64,
}

impl Hdr {
    /// `sorted`: the values, none below 0.
    pub(super) fn new(digits: u8, sorted: &[f64]) -> Hdr {
        debug_assert!(
            sorted.is_sorted_by(|a, b| a <= b) && sorted.first().is_none_or(|least| *least >= 0.0),
            "values of a histogram ascend from 0"
        );
        let cells = (2 * 10u32.pow(u32::from(digits))).next_power_of_two() as f64 / 2.0;
        let least = sorted
            .get(sorted.partition_point(|value| *value <= 0.0))
            .copied()
            .unwrap_or(1.0);
        Hdr {
            cells,
            finest: size(least) / cells,
        }
    }
    /// The lower end and the width of a value's cell.
    fn cell(self, value: f64) -> (f64, f64) {
        if value < self.finest {
            return (0.0, self.finest);
        }
        let width = (size(value) / self.cells).max(self.finest);
        ((value / width).floor() * width, width)
    }
    /// The value at a percent.
    pub(super) fn quantile(self, sorted: &[f64], percent: f64) -> Option<f64> {
        let count = sorted.len();
        if count == 0 {
            return None;
        }
        let place = (percent.clamp(0.0, 100.0).next_down().max(0.0) * count as f64 / 100.0).ceil();
        let value = sorted[(place as usize).clamp(1, count) - 1];
        let (low, width) = self.cell(value);
        Some(if percent == 0.0 { low } else { low + width - self.finest })
    }
    /// The percent of values up to the cell of a value.
    pub(super) fn rank(self, sorted: &[f64], value: f64) -> Option<f64> {
        if sorted.is_empty() {
            return None;
        }
        let (low, _) = self.cell(value.max(0.0));
        let up_to = sorted.partition_point(|other| self.cell(*other).0 <= low);
        Some(up_to as f64 * 100.0 / sorted.len() as f64)
    }
}

/// The power of two at or below a positive value.
fn size(value: f64) -> f64 {
    let power = value.log2().floor();
    let size = power.exp2();
    // The logarithm may be off by one at the borders.
    if size > value {
        size / 2.0
    } else if size * 2.0 <= value {
        size * 2.0
    } else {
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_hdr_histograms_say() {
        let values = [1.0, 51.0, 101.0, 151.0];
        let hdr = Hdr::new(3, &values);
        for (percent, expected) in [
            (25.0, 1.0),
            (50.0, 51.030_273_437_5),
            (75.0, 101.061_523_437_5),
            (100.0, 151.124_023_437_5),
        ] {
            assert_eq!(hdr.quantile(&values, percent), Some(expected), "{percent}");
        }
        assert_eq!(hdr.rank(&values, 51.0), Some(50.0));
        assert_eq!(hdr.rank(&values, 0.5), Some(0.0));
        assert_eq!(Hdr::new(3, &[]).quantile(&[], 50.0), None);
    }
}
