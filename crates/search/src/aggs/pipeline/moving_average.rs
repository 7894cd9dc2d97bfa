//! The models of `moving_avg`: what the values before a bucket say its own will be.
//!
//! As in Elasticsearch 2 to 7. Not here: which values those are (`parent`); predictions beyond the last bucket and the
//! choice of parameters by `minimize`, which are refused.

use model::{Error, Result};
use serde_json::{Map, Value};

/// Values before a bucket that count if `window` does not say.
const WINDOW_DEFAULT: usize = 5;
const ALPHA_DEFAULT: f64 = 0.3;
const BETA_DEFAULT: f64 = 0.1;

/// The options of one `moving_avg`.
#[derive(Debug, PartialEq)]
pub(super) struct MovingAverage {
    model: Model,
    window: usize,
}

#[derive(Debug, PartialEq)]
enum Model {
    /// The mean.
    Simple,
    /// The last value weighs most, the first least.
    Linear,
    /// Exponentially weighted.
    Ewma { alpha: f64 },
    /// Exponentially weighted, with a trend.
    Holt { alpha: f64, beta: f64 },
}

impl MovingAverage {
    /// Reads the options of an aggregation called `name`.
    ///
    /// # Errors
    /// A model that is none or is not supported, parameters out of bounds, `predict`, `minimize`.
    pub(super) fn parse(name: &str, body: &Map<String, Value>) -> Result<MovingAverage> {
        if body.get("predict").is_some_and(|predict| !predict.is_null()) {
            return Err(Error::illegal(format!(
                "[predict] of [moving_avg] is not supported in [{name}]"
            )));
        }
        if body.get("minimize").and_then(Value::as_bool) == Some(true) {
            return Err(Error::illegal(format!(
                "[minimize] of [moving_avg] is not supported in [{name}]"
            )));
        }
        let window = match body.get("window").filter(|given| !given.is_null()) {
            None => WINDOW_DEFAULT,
            Some(given) => super::parent::whole(body, "window")
                .and_then(|window| usize::try_from(window).ok())
                .filter(|window| *window > 0)
                .ok_or_else(|| {
                    let reason = "value must be a positive, non-zero integer.  Value supplied was";
                    Error::illegal(format!("[window] {reason} [{given}] in [{name}]."))
                })?,
        };
        let parameter = |key: &str, default: f64| -> Result<f64> {
            let Some(given) = body.get("settings").and_then(|settings| settings.get(key)) else {
                return Ok(default);
            };
            let number = given.as_f64().or_else(|| given.as_str()?.parse().ok());
            number.filter(|number| (0.0..=1.0).contains(number)).ok_or_else(|| {
                Error::illegal(format!(
                    "Parameter [{key}] must be between 0-1 inclusive.  Provided value was [{given}]"
                ))
            })
        };
        let model = match body.get("model").and_then(Value::as_str) {
            None | Some("simple") => Model::Simple,
            Some("linear") => Model::Linear,
            Some("ewma") => Model::Ewma {
                alpha: parameter("alpha", ALPHA_DEFAULT)?,
            },
            Some("holt") => Model::Holt {
                alpha: parameter("alpha", ALPHA_DEFAULT)?,
                beta: parameter("beta", BETA_DEFAULT)?,
            },
            Some("holt_winters") => {
                let reason = "model [holt_winters] is not supported: [simple, linear, ewma, holt] are";
                return Err(Error::illegal(format!("{reason}, in [{name}]")));
            }
            Some(other) => {
                return Err(Error::illegal(format!(
                    "Unknown model [{other}] specified.  Valid options are:[linear, holt_winters, ewma, simple, holt]"
                )));
            }
        };
        Ok(MovingAverage { model, window })
    }

    /// How many values before a bucket count.
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// The prediction after these values; none after none.
    pub(super) fn next(&self, values: &[f64]) -> Option<f64> {
        debug_assert!(values.len() <= self.window, "no more values than the window has");
        match self.model {
            Model::Simple if values.is_empty() => None,
            Model::Simple => Some(values.iter().sum::<f64>() / values.len() as f64),
            Model::Linear => linear_weighted(values),
            Model::Ewma { alpha } => values
                .iter()
                .copied()
                .reduce(|last, value| value * alpha + last * (1.0 - alpha)),
            Model::Holt { alpha, beta } => holt(values, alpha, beta),
        }
    }
}

/// The mean with weights from one up, over one more than their sum.
pub(super) fn linear_weighted(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let (sum, weights) = values.iter().zip(1..).fold((0.0, 1.0), |(sum, all), (value, weight)| {
        (sum + value * f64::from(weight), all + f64::from(weight))
    });
    Some(sum / weights)
}

/// Holt's level; the second value is taken for the level, without a trend, as the original does.
fn holt(values: &[f64], alpha: f64, beta: f64) -> Option<f64> {
    let (mut level, mut trend) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let last = level;
        if at == 1 {
            (level, trend) = (*value, 0.0);
        } else {
            level = alpha * value + (1.0 - alpha) * (last + trend);
            trend = beta * (level - last) + (1.0 - beta) * trend;
        }
    }
    (!values.is_empty()).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Answers of Elasticsearch 2.4.6 for the squares of 1 to 5 and of 7.
    #[test]
    fn models_say_what_the_original_says() {
        let squares = [1.0, 4.0, 9.0, 16.0, 25.0, 49.0];
        let rows = [
            (json!({"window": 2}), [1.0, 2.5, 6.5, 12.5, 20.5, 37.0]),
            (json!({}), [1.0, 2.5, 14.0 / 3.0, 7.5, 11.0, 20.6]),
            (
                json!({"window": 3, "model": "linear"}),
                [0.5, 2.25, 36.0 / 7.0, 10.0, 116.0 / 7.0, 213.0 / 7.0],
            ),
            (
                json!({"window": 3, "model": "ewma", "settings": {"alpha": 0.5}}),
                [1.0, 2.5, 5.75, 11.25, 18.75, 34.75],
            ),
            (json!({"model": "ewma"}), [1.0, 1.9, 4.03, 7.621, 12.8347, 24.1885]),
            (
                json!({"window": 3, "model": "holt", "settings": {"alpha": 0.5, "beta": 0.5}}),
                [0.5, 4.0, 6.5, 12.5, 20.5, 37.0],
            ),
            (json!({"model": "holt"}), [0.3, 4.0, 5.5, 8.755, 13.95085, 25.92639]),
        ];
        for (body, expected) in rows {
            let average = MovingAverage::parse("x", body.as_object().expect("an object")).expect("options");
            for (at, expected) in expected.into_iter().enumerate() {
                let seen = &squares[(at + 1).saturating_sub(average.window())..=at];
                let found = average.next(seen).expect("a value");
                assert!(
                    (found - expected).abs() < 1e-3,
                    "{body} after {seen:?}: {found}, not {expected}"
                );
            }
            assert_eq!(average.next(&[]), None, "{body}");
        }
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        for (body, words) in [
            (json!({"model": "holt_winters"}), "not supported"),
            (json!({"model": "nope"}), "Unknown model [nope]"),
            (json!({"predict": 2}), "[predict]"),
            (json!({"minimize": true}), "[minimize]"),
            (json!({"window": 0}), "[window]"),
            (json!({"model": "ewma", "settings": {"alpha": 2}}), "[alpha]"),
        ] {
            let error = MovingAverage::parse("x", body.as_object().expect("an object")).expect_err("refused");
            assert!(error.reason().contains(words), "{body}: {}", error.reason());
        }
    }
}
