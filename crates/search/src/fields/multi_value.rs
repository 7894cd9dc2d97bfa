//! One number of several, as `mode` chooses.

use dsl::query::MultiValueMode;

/// One of several values.
pub(crate) fn pick(mode: MultiValueMode, values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let count = values.len();
    Some(match mode {
        MultiValueMode::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        MultiValueMode::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        MultiValueMode::Sum => values.iter().sum(),
        MultiValueMode::Avg => values.iter().sum::<f64>() / count as f64,
        MultiValueMode::Median => {
            values.sort_by(f64::total_cmp);
            if count % 2 == 1 {
                values[count / 2]
            } else {
                (values[count / 2 - 1] + values[count / 2]) / 2.0
            }
        }
    })
}
