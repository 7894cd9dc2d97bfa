//! `equals` of Java and Groovy: numbers by value, containers by content, up to a depth and a count.

use super::{MAX_NEST, Value};
use std::rc::Rc;

/// `equals` with numbers compared by value. `left` counts down the comparisons allowed.
pub(crate) fn equal(a: &Value, b: &Value, depth: usize, left: &mut u64) -> bool {
    if depth > MAX_NEST || *left == 0 {
        return false;
    }
    *left -= 1;
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Str(s), Value::Char(c)) | (Value::Char(c), Value::Str(s)) => s.chars().eq([*c]),
        (Value::List(a), Value::List(b)) => {
            Rc::ptr_eq(a, b) || {
                let (a, b) = (a.0.borrow(), b.0.borrow());
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b, depth + 1, left))
            }
        }
        (Value::Map(a), Value::Map(b)) | (Value::Set(a), Value::Set(b)) => {
            Rc::ptr_eq(a, b) || {
                let (a, b) = (a.0.borrow(), b.0.borrow());
                a.len() == b.len()
                    && a.items()
                        .iter()
                        .all(|(k, v)| b.get(k).is_some_and(|w| equal(v, w, depth + 1, left)))
            }
        }
        (Value::Date(a), Value::Date(b)) => a == b,
        (Value::Geo(a, b), Value::Geo(c, d)) => a == c && b == d,
        (Value::Lambda(a), Value::Lambda(b)) => Rc::ptr_eq(a, b),
        (Value::Tag(a), Value::Tag(b)) => a == b,
        (Value::Builder(a), Value::Builder(b)) => Rc::ptr_eq(a, b),
        _ => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ => matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a == b),
        },
    }
}
