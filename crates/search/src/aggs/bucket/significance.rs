//! By how much a term is more frequent in a bucket than elsewhere.
//!
//! Not here: how terms are counted (`terms`, `significant_text`).

use crate::aggs::AggregationContext;
use crate::aggs::scripts::AggregationScript;
use dsl::aggs::Significance;
use model::{Error, Result};
use script::Params;
use serde_json::{Map, Value};

/// How often a term is where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frequencies {
    /// Documents of the bucket that have it.
    pub(super) here: u64,
    /// Documents of the bucket.
    pub(super) subset: u64,
    /// Documents of the background that have it.
    pub(super) all: u64,
    /// Documents of the background.
    pub(super) superset: u64,
}

/// A measure, ready to run.
pub(super) enum Measure {
    Known(Significance),
    Script(Box<AggregationScript>, Map<String, Value>),
}

impl Measure {
    pub(super) fn new(spec: &Significance, cx: &AggregationContext<'_>) -> Result<Measure> {
        Ok(match spec {
            Significance::Script(script) => Measure::Script(Box::new(AggregationScript::new(script, cx)?), script.params.clone()),
            known => Measure::Known(known.clone()),
        })
    }

    /// The score of a term; what is not above 0 is not significant.
    pub(super) fn score(&self, f: Frequencies) -> Result<f64> {
        debug_assert!(f.here <= f.subset, "a document of the bucket has a term once");
        debug_assert!(f.all <= f.superset, "a document of the background has a term once");
        Ok(match self {
            Measure::Known(Significance::Jlh) | Measure::Known(Significance::Script(_)) => jlh(f),
            Measure::Known(Significance::Percentage) if f.all == 0 => 0.0,
            Measure::Known(Significance::Percentage) => f.here as f64 / f.all as f64,
            Measure::Known(Significance::Gnd { superset }) => gnd(&Table::new(f, *superset)?),
            Measure::Known(Significance::ChiSquare { negatives, superset }) => {
                let table = Table::new(f, *superset)?;
                if !negatives && table.is_rarer() {
                    0.0
                } else {
                    chi_square(&table)
                }
            }
            Measure::Known(Significance::MutualInformation { negatives, superset }) => {
                let table = Table::new(f, *superset)?;
                if !negatives && table.is_rarer() {
                    0.0
                } else {
                    mutual_information(&table)
                }
            }
            Measure::Script(script, params) => {
                let mut params = params.clone();
                let counts = [
                    ("_subset_freq", f.here),
                    ("_subset_size", f.subset),
                    ("_superset_freq", f.all),
                    ("_superset_size", f.superset),
                ];
                params.extend(counts.map(|(name, count)| (name.to_owned(), count.into())));
                script.run_given(&Params::from_json(&params))?.as_f64().unwrap_or(0.0)
            }
        })
    }
}

/// The change of the share, absolute times relative. A term that the background lacks is taken to be there once.
fn jlh(f: Frequencies) -> f64 {
    if f.subset == 0 || f.superset == 0 {
        return 0.0;
    }
    let here = f.here as f64 / f.subset as f64;
    let there = f.all.max(1) as f64 / f.superset as f64;
    if here <= there { 0.0 } else { (here - there) * (here / there) }
}

/// Documents by whether they have the term and whether they are in the bucket. `with_in`: both.
struct Table {
    with_in: f64,
    with_out: f64,
    without_in: f64,
    without_out: f64,
    with: f64,
    without: f64,
    inside: f64,
    outside: f64,
    all: f64,
}

impl Table {
    fn new(f: Frequencies, superset: bool) -> Result<Table> {
        let hint = ", does your background filter not include all documents in the bucket? If so and it is intentional, set \"background_is_superset\": false";
        if superset && f.here > f.all {
            return Err(Error::illegal(format!("subsetFreq > supersetFreq{hint}")));
        }
        if superset && f.subset > f.superset {
            return Err(Error::illegal(format!("subsetSize > supersetSize{hint}")));
        }
        if superset && f.superset - f.all < f.subset.saturating_sub(f.here) {
            return Err(Error::illegal(format!(
                "supersetSize - supersetFreq > subsetSize - subsetFreq{hint}"
            )));
        }
        let [here, subset, all, total] = [f.here, f.subset, f.all, f.superset].map(|count| count as f64);
        Ok(if superset {
            Table {
                with_in: here,
                with_out: all - here,
                without_in: subset - here,
                without_out: total - all - (subset - here),
                with: all,
                without: total - all,
                inside: subset,
                outside: total - subset,
                all: total,
            }
        } else {
            Table {
                with_in: here,
                with_out: all,
                without_in: subset - here,
                without_out: total - all,
                with: all + here,
                without: total - all + subset - here,
                inside: subset,
                outside: total,
                all: total + subset,
            }
        })
    }
    /// The term is less frequent in the bucket than outside.
    fn is_rarer(&self) -> bool {
        self.with_in / self.inside < self.with_out / self.outside
    }
}

fn mutual_information(t: &Table) -> f64 {
    let term = |both: f64, row: f64, column: f64| {
        let (numerator, factor) = ((t.all * both).abs(), (both / t.all).abs());
        if numerator < 1e-7 && factor < 1e-7 {
            0.0
        } else {
            factor * (numerator / (row * column).abs()).ln()
        }
    };
    let sum = term(t.without_out, t.without, t.outside)
        + term(t.without_in, t.without, t.inside)
        + term(t.with_out, t.with, t.outside)
        + term(t.with_in, t.with, t.inside);
    let score = sum / std::f64::consts::LN_2;
    if score.is_nan() { 0.0 } else { score }
}

fn chi_square(t: &Table) -> f64 {
    let difference = t.with_in * t.without_out - t.without_in * t.with_out;
    t.all * difference.powi(2) / (t.inside * t.with * t.without * t.outside)
}

fn gnd(t: &Table) -> f64 {
    if t.with_in == 0.0 {
        return 0.0;
    }
    if t.with == t.inside && t.with == t.with_in {
        return 1.0;
    }
    let (with, inside) = (t.with.ln(), t.inside.ln());
    let distance = (with.max(inside) - t.with_in.ln()) / (t.all.ln() - with.min(inside));
    (-distance).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(measure: Significance, [here, subset, all, superset]: [u64; 4], expected: f64) {
        let f = Frequencies {
            here,
            subset,
            all,
            superset,
        };
        let score = Measure::Known(measure.clone()).score(f).unwrap();
        assert!((score - expected).abs() < 1e-12, "{measure:?} of {f:?}: {score}");
    }

    #[test]
    fn scores() {
        check(Significance::Jlh, [1, 10, 1, 10], 0.0);
        check(Significance::Jlh, [5, 10, 5, 100], 4.5);
        check(Significance::Jlh, [0, 0, 0, 0], 0.0);
        check(Significance::Percentage, [4, 20, 12, 180], 1.0 / 3.0);
        check(Significance::Gnd { superset: true }, [20, 20, 28, 180], 0.858_013_784_114_465);
        let chi = |superset| Significance::ChiSquare {
            negatives: false,
            superset,
        };
        check(chi(true), [20, 20, 28, 180], 122.142_857_142_857_14);
        check(chi(true), [1, 20, 90, 180], 0.0);
        check(chi(false), [20, 20, 28, 180], 70.370_370_370_370_37);
        let mutual = Significance::MutualInformation {
            negatives: false,
            superset: true,
        };
        check(mutual, [4, 20, 12, 180], 0.018_570_029_264_197_794);
    }

    #[test]
    fn bucket_outside_its_background() {
        let f = Frequencies {
            here: 4,
            subset: 20,
            all: 3,
            superset: 100,
        };
        let measure = Measure::Known(Significance::Gnd { superset: true });
        assert!(
            measure
                .score(f)
                .unwrap_err()
                .reason()
                .starts_with("subsetFreq > supersetFreq")
        );
    }
}
