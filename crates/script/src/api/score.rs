//! The functions score scripts have: saturation, sigmoid, decay, a seeded random.

use super::{date, doc};
use crate::functions::{Over, ScoreFn, Shape};
use crate::runtime::{R, Run, cast, illegal, null};
use crate::value::Value;

fn number(v: Option<&Value>) -> R<f64> {
    match v {
        Some(Value::Null) | None => null("a score function needs numbers, not null"),
        Some(v) => v
            .as_f64()
            .map_or_else(|| cast(format!("Cannot cast [{}] to [double].", v.class())), Ok),
    }
}

impl ScoreFn {
    /// Calls it.
    pub(crate) fn call(self, run: &mut Run<'_, '_>, args: &[Value]) -> R {
        let n = |i: usize| number(args.get(i));
        Ok(Value::Double(match self {
            ScoreFn::Saturation => n(0)? / (n(1)? + n(0)?),
            ScoreFn::Sigmoid => {
                let (v, k, a) = (n(0)?, n(1)?, n(2)?);
                v.powf(a) / (k.powf(a) + v.powf(a))
            }
            ScoreFn::Random => {
                let mut seed = n(0)? as i64 as u64 ^ 0x9e37_79b9_7f4a_7c15;
                if let Some(Value::Str(field)) = args.get(1) {
                    let slot = run.doc_slot(field)?;
                    for v in doc::all(run, slot)? {
                        let text = run.show(&v)?;
                        if let Some(hash) = run.host.seeded_hash(n(0)? as i64, &text) {
                            return Ok(Value::Double(f64::from(hash & 0x00ff_ffff) / f64::from(1u32 << 24)));
                        }
                        seed = seed.rotate_left(17) ^ super::string::hash(&text) as u64;
                    }
                }
                for _ in 0..2 {
                    seed = (seed ^ (seed >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    seed ^= seed >> 27;
                }
                (seed >> 40) as f64 / (1u64 << 24) as f64
            }
            ScoreFn::Decay(shape, over) => {
                let decay = n(3)?;
                let (scale, distance) = match over {
                    Over::Numeric => (n(1)?, ((n(4)? - n(0)?).abs() - n(2)?).max(0.0)),
                    Over::Date | Over::Geo => {
                        let text = |i: usize| args.get(i).map(Value::text).unwrap_or_default();
                        let unit = |t: &str| match over {
                            Over::Date => date::duration(t),
                            _ => doc::distance(t),
                        };
                        let (Some(scale), Some(offset)) = (unit(&text(1)), unit(&text(2))) else {
                            return illegal("a decay needs a scale and an offset with units");
                        };
                        let far = match (over, args.get(4)) {
                            (Over::Date, Some(Value::Date(at) | Value::Long(at))) => match date::parse(&text(0)) {
                                Some(origin) => at.abs_diff(origin) as f64,
                                None => {
                                    return illegal(format!("failed to parse date field [{}]", text(0)));
                                }
                            },
                            (Over::Geo, Some(Value::Geo(lat, lon))) => match doc::point(&text(0)) {
                                Some(origin) => doc::meters((*lat, *lon), origin),
                                None => {
                                    return illegal(format!("failed to parse [{}] as a point", text(0)));
                                }
                            },
                            _ => return cast("a decay needs a document's value"),
                        };
                        (scale, (far - offset).max(0.0))
                    }
                };
                match shape {
                    Shape::Linear => {
                        let reach = scale / (1.0 - decay);
                        ((reach - distance) / reach).max(0.0)
                    }
                    Shape::Exp => (decay.ln() / scale * distance).exp(),
                    Shape::Gauss => (0.5 * distance.powi(2) / (0.5 * scale.powi(2) / decay.ln())).exp(),
                }
            }
        }))
    }
}
