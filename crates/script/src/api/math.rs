//! The values of `java.lang.Math` and of the functions of Lucene expressions; methods of numbers.

use crate::functions::MathFn;
use crate::runtime::{R, Run, arithmetic, illegal, missing_method};
use crate::value::Value;

impl MathFn {
    /// Calls it; the arguments are numbers already.
    pub(crate) fn call(self, args: &[Value; 3]) -> R {
        let [a, b, _] = args;
        let (x, y) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
        let whole = |a: &Value, b: &Value| a.as_i64().zip(b.as_i64());
        let sized = |n: i64, a: &Value, b: &Value| {
            if matches!(a, Value::Long(_)) || matches!(b, Value::Long(_)) {
                Value::Long(n)
            } else {
                Value::Int(n as i32)
            }
        };
        let real = |n: f64, a: &Value, b: &Value| {
            if matches!(a, Value::Double(_)) || matches!(b, Value::Double(_)) {
                Value::Double(n)
            } else {
                Value::Float(n as f32)
            }
        };
        Ok(match self {
            MathFn::One(f) => Value::Double(f(x)),
            MathFn::Two(f) => Value::Double(f(x, y)),
            MathFn::Zero(f) => Value::Double(f()),
            MathFn::Abs => match a {
                Value::Int(n) => Value::Int(n.wrapping_abs()),
                Value::Long(n) => Value::Long(n.wrapping_abs()),
                Value::Float(n) => Value::Float(n.abs()),
                _ => Value::Double(x.abs()),
            },
            MathFn::Max => match whole(a, b) {
                Some((i, j)) => sized(i.max(j), a, b),
                None => real(if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }, a, b),
            },
            MathFn::Min => match whole(a, b) {
                Some((i, j)) => sized(i.min(j), a, b),
                None => real(if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }, a, b),
            },
            MathFn::Round => match a {
                Value::Float(n) => Value::Int((n + 0.5).floor() as i32),
                Value::Int(_) | Value::Long(_) => a.clone(),
                _ => Value::Long((x + 0.5).floor() as i64),
            },
            MathFn::FloorDiv | MathFn::FloorMod => {
                let (i, j) = whole(a, b).unwrap_or((x as i64, y as i64));
                if j == 0 {
                    return arithmetic("/ by zero");
                }
                let (div, rem) = (i.wrapping_div(j), i.wrapping_rem(j));
                let down = rem != 0 && (rem < 0) != (j < 0);
                let n = match self {
                    MathFn::FloorDiv => div - i64::from(down),
                    _ => {
                        if down {
                            rem + j
                        } else {
                            rem
                        }
                    }
                };
                sized(n, a, b)
            }
            MathFn::ToInt => match i32::try_from(a.as_i64().unwrap_or(0)) {
                Ok(n) => Value::Int(n),
                Err(_) => return arithmetic("integer overflow"),
            },
            MathFn::Haversin => return illegal("haversin needs four arguments"),
        })
    }
}

/// Methods of numbers and characters.
pub(crate) fn call(run: &mut Run<'_, '_>, of: &Value, name: &str, args: &[Value]) -> R<Option<Value>> {
    let (x, i) = (of.as_f64().unwrap_or(0.0), of.as_i64());
    Ok(Some(match (name, args) {
        ("intValue", []) => Value::Int(i.map_or(x as i32, |n| n as i32)),
        ("longValue", []) => Value::Long(i.unwrap_or(x as i64)),
        ("doubleValue", []) => Value::Double(x),
        ("floatValue", []) => Value::Float(x as f32),
        ("compareTo", [b]) => Value::Int(super::ops::order(of, b)? as i32),
        ("isNaN", []) => Value::Bool(x.is_nan()),
        ("isInfinite", []) => Value::Bool(x.is_infinite()),
        ("hashCode", []) => Value::Int(match of {
            Value::Double(n) => ((n.to_bits() >> 32) ^ n.to_bits()) as i32,
            Value::Long(n) => ((n >> 32) ^ n) as i32,
            Value::Float(n) => n.to_bits() as i32,
            _ => i.unwrap_or(0) as i32,
        }),
        ("abs", []) if run.groovy() => MathFn::Abs.call(&[of.clone(), Value::Null, Value::Null])?,
        ("round", []) if run.groovy() => MathFn::Round.call(&[of.clone(), Value::Null, Value::Null])?,
        ("intdiv", [b]) => match (i, b.as_i64()) {
            (Some(_), Some(0)) => return arithmetic("Division by zero"),
            (Some(a), Some(b)) => Value::Int(a.wrapping_div(b) as i32),
            _ => return missing_method(of.class(), name, args),
        },
        ("times", [f]) if run.groovy() => {
            for n in 0..i.unwrap_or(0) {
                run.step(1)?;
                run.call_value(f, &[Value::Int(n as i32)])?;
            }
            Value::Null
        }
        _ => return Ok(None),
    }))
}
