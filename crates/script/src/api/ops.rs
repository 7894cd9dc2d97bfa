//! Binary operators: promotion, text, collections, Groovy's own.

use crate::Lang;
use crate::ast::Op;
use crate::runtime::{Fault, R, Run, arithmetic, cast, null};
use crate::value::{Pattern, Value};
use std::cmp::Ordering;
use std::rc::Rc;

impl Run<'_, '_> {
    /// An operator, the short way first.
    pub(crate) fn apply(&mut self, op: Op, a: &Value, b: &Value) -> R {
        match fast(op, a, b) {
            Some(v) => Ok(v),
            None => binary(self, op, a, b),
        }
    }
}

/// The commonest operators on the commonest numbers.
#[inline]
pub(crate) fn fast(op: Op, a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(match op {
            Op::Add => Value::Int(a.wrapping_add(*b)),
            Op::Sub => Value::Int(a.wrapping_sub(*b)),
            Op::Mul => Value::Int(a.wrapping_mul(*b)),
            Op::Eq => Value::Bool(a == b),
            Op::Ne => Value::Bool(a != b),
            Op::Lt => Value::Bool(a < b),
            Op::Le => Value::Bool(a <= b),
            Op::Gt => Value::Bool(a > b),
            Op::Ge => Value::Bool(a >= b),
            _ => return None,
        }),
        _ => {
            let (a, b) = match (a, b) {
                (Value::Double(a), Value::Double(b)) => (*a, *b),
                (Value::Double(a), Value::Int(b)) => (*a, f64::from(*b)),
                (Value::Int(a), Value::Double(b)) => (f64::from(*a), *b),
                (Value::Double(a), Value::Long(b)) => (*a, *b as f64),
                (Value::Long(a), Value::Double(b)) => (*a as f64, *b),
                _ => return None,
            };
            Some(match op {
                Op::Add => Value::Double(a + b),
                Op::Sub => Value::Double(a - b),
                Op::Mul => Value::Double(a * b),
                Op::Div => Value::Double(a / b),
                Op::Lt => Value::Bool(a < b),
                Op::Gt => Value::Bool(a > b),
                _ => return None,
            })
        }
    }
}

/// `a op b`
pub(crate) fn binary(run: &mut Run<'_, '_>, op: Op, a: &Value, b: &Value) -> R {
    match op {
        Op::Eq => return Ok(Value::Bool(run.equal(a, b)?)),
        Op::Ne => return Ok(Value::Bool(!run.equal(a, b)?)),
        Op::Same | Op::NotSame => {
            let same = match (a, b) {
                (Value::List(a), Value::List(b)) => Rc::ptr_eq(a, b),
                (Value::Map(a), Value::Map(b)) | (Value::Set(a), Value::Set(b)) => Rc::ptr_eq(a, b),
                _ => run.equal(a, b)?,
            };
            return Ok(Value::Bool(same == (op == Op::Same)));
        }
        Op::Find | Op::Match => {
            let text = run.show(a)?;
            let hit = |p: &Pattern| {
                if op == Op::Find {
                    p.find.is_match(&text)
                } else {
                    p.full.is_match(&text)
                }
            };
            if let Value::Regex(p) = b {
                return Ok(Value::Bool(hit(p)));
            }
            let source = run.show(b)?;
            let p = super::string::pattern(run, &source)?;
            return Ok(Value::Bool(hit(&p)));
        }
        Op::In => {
            return match b {
                Value::List(_) | Value::Set(_) | Value::Map(_) | Value::Doc(_) => {
                    let name = if matches!(b, Value::Map(_)) {
                        "containsKey"
                    } else {
                        "contains"
                    };
                    super::call(run, b, name, std::slice::from_ref(a))
                }
                Value::Null => Ok(Value::Bool(false)),
                b => Ok(Value::Bool(run.equal(a, b)?)),
            };
        }
        Op::Compare => return Ok(Value::Int(order(a, b)? as i32)),
        _ => {}
    }
    if op == Op::Add && (matches!(a, Value::Str(_)) || matches!(b, Value::Str(_)) && !(run.groovy() && a.is_container())) {
        let mut text = run.show(a)?;
        text.push_str(&run.show(b)?);
        return run.text(text);
    }
    if run.groovy()
        && let Some(v) = groovy(run, op, a, b)?
    {
        return Ok(v);
    }
    if run.lang == Lang::Expression {
        let n = |v: &Value| match v {
            Value::Bool(b) => Value::Double(f64::from(u8::from(*b))),
            v => v.clone(),
        };
        return numbers(run, op, &n(a), &n(b));
    }
    numbers(run, op, a, b)
}

fn groovy(run: &mut Run<'_, '_>, op: Op, a: &Value, b: &Value) -> R<Option<Value>> {
    Ok(Some(match (op, a) {
        (Op::Add, Value::List(_)) => {
            let mut items = a.items().unwrap_or_default();
            match b.items() {
                Some(more) => items.extend(more),
                None => items.push(b.clone()),
            }
            run.list(items)?
        }
        (Op::Add, Value::Map(m)) => {
            let mut all = m.0.borrow().items().to_vec();
            if let Value::Map(n) = b {
                all.extend(n.0.borrow().items().iter().cloned());
            }
            run.alloc(all.len() * 48)?;
            Value::map(all)
        }
        (Op::Sub, Value::List(_) | Value::Set(_)) => {
            let gone = b.items().unwrap_or_else(|| vec![b.clone()]);
            let mut kept = Vec::new();
            for item in a.items().unwrap_or_default() {
                let mut hit = false;
                for g in &gone {
                    run.step(1)?;
                    hit |= run.equal(&item, g)?;
                }
                if !hit {
                    kept.push(item);
                }
            }
            run.list(kept)?
        }
        (Op::Sub, Value::Str(s)) => {
            let b = run.show(b)?;
            run.text(s.replacen(&b, "", 1))?
        }
        (Op::Mul, Value::Str(s)) => {
            let n = b.as_i64().unwrap_or(0).max(0) as usize;
            run.alloc(s.len().saturating_mul(n))?;
            run.text(s.repeat(n))?
        }
        (Op::Shl, Value::List(_) | Value::Set(_)) => {
            super::call(run, a, "add", std::slice::from_ref(b))?;
            a.clone()
        }
        (Op::Lt | Op::Le | Op::Gt | Op::Ge, Value::Str(_) | Value::Null | Value::Date(_)) => comparison(op, order(a, b)?),
        (Op::Div, _) => match (a.as_i64(), b.as_i64()) {
            (Some(_), Some(0)) => return arithmetic("Division by zero"),
            (Some(a), Some(b)) => Value::Double(a as f64 / b as f64),
            _ => return Ok(None),
        },
        (Op::Pow, _) => match (a.as_f64(), b.as_f64()) {
            (Some(x), Some(y)) => {
                let n = x.powf(y);
                let whole = a.as_i64().is_some() && b.as_i64().is_some_and(|b| b >= 0) && n.abs() < 9e15;
                match i32::try_from(n as i64) {
                    Ok(n) if whole => Value::Int(n),
                    _ if whole => Value::Long(n as i64),
                    _ => Value::Double(n),
                }
            }
            _ => return Ok(None),
        },
        (Op::BitAnd | Op::BitOr, Value::Bool(x)) => {
            let y = b.is_truthy();
            Value::Bool(if op == Op::BitAnd { *x && y } else { *x || y })
        }
        _ => return Ok(None),
    }))
}

fn comparison(op: Op, order: Ordering) -> Value {
    Value::Bool(match op {
        Op::Lt => order.is_lt(),
        Op::Le => order.is_le(),
        Op::Gt => order.is_gt(),
        _ => order.is_ge(),
    })
}

/// Arithmetic of one width, which wraps as Java's does.
macro_rules! wrapped {
    ($op:expr, $i:expr, $j:expr, $signed:ty, $unsigned:ty) => {{
        let (i, j): ($signed, $signed) = ($i, $j);
        match $op {
            Op::Add => i.wrapping_add(j),
            Op::Sub => i.wrapping_sub(j),
            Op::Mul => i.wrapping_mul(j),
            Op::Div => i.wrapping_div(j),
            Op::Rem => i.wrapping_rem(j),
            Op::BitAnd => i & j,
            Op::BitOr => i | j,
            Op::BitXor => i ^ j,
            Op::Shl => i.wrapping_shl(j as u32),
            Op::Shr => i.wrapping_shr(j as u32),
            Op::Ushr => (i as $unsigned).wrapping_shr(j as u32) as $signed,
            _ => i.wrapping_pow(j as u32),
        }
    }};
}

/// `compareTo`; null is least.
pub(crate) fn order(a: &Value, b: &Value) -> R<Ordering> {
    Ok(match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => Ordering::Less,
        (_, Value::Null) => Ordering::Greater,
        (Value::Str(a), Value::Str(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        _ => match (a.as_i64(), b.as_i64(), a.as_f64(), b.as_f64()) {
            (Some(a), Some(b), ..) => a.cmp(&b),
            (_, _, Some(a), Some(b)) => a.total_cmp(&b),
            _ => {
                return cast(format!("class {} cannot be cast to class {}", b.class(), a.class()));
            }
        },
    })
}

fn numbers(run: &Run<'_, '_>, op: Op, a: &Value, b: &Value) -> R {
    if let (Value::Bool(x), Value::Bool(y)) = (a, b) {
        match op {
            Op::BitAnd => return Ok(Value::Bool(x & y)),
            Op::BitOr => return Ok(Value::Bool(x | y)),
            Op::BitXor => return Ok(Value::Bool(x ^ y)),
            _ => {}
        }
    }
    let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else {
        if matches!(a, Value::Null) || matches!(b, Value::Null) {
            return null(format!("Cannot apply [{}] operation to null", op.text()));
        }
        return cast(format!(
            "Cannot apply [{}] operation to types [{}] and [{}].",
            op.text(),
            a.class(),
            b.class()
        ));
    };
    let float = |x: f64, y: f64| {
        Some(match op {
            Op::Add => x + y,
            Op::Sub => x - y,
            Op::Mul => x * y,
            Op::Div => x / y,
            Op::Rem => x % y,
            Op::Pow => x.powf(y),
            _ => return None,
        })
    };
    let (Some(i), Some(j)) = (a.as_i64(), b.as_i64()) else {
        if matches!(op, Op::Lt | Op::Le | Op::Gt | Op::Ge) {
            return Ok(Value::Bool(match op {
                Op::Lt => x < y,
                Op::Le => x <= y,
                Op::Gt => x > y,
                _ => x >= y,
            }));
        }
        return match float(x, y) {
            Some(n) if matches!(a, Value::Double(_)) || matches!(b, Value::Double(_)) => Ok(Value::Double(n)),
            Some(n) => Ok(Value::Float(n as f32)),
            None if run.lang == Lang::Expression => Ok(Value::Double(match op {
                Op::BitAnd => (x as i64 & y as i64) as f64,
                Op::BitOr => (x as i64 | y as i64) as f64,
                Op::BitXor => (x as i64 ^ y as i64) as f64,
                Op::Shl => (x as i64).wrapping_shl(y as u32) as f64,
                _ => (x as i64).wrapping_shr(y as u32) as f64,
            })),
            None => cast(format!(
                "Cannot apply [{}] operation to types [{}] and [{}].",
                op.text(),
                a.class(),
                b.class()
            )),
        };
    };
    if matches!(op, Op::Lt | Op::Le | Op::Gt | Op::Ge) {
        return Ok(comparison(op, i.cmp(&j)));
    }
    if matches!(op, Op::Div | Op::Rem) && j == 0 {
        return arithmetic("/ by zero");
    }
    let shift = matches!(op, Op::Shl | Op::Shr | Op::Ushr);
    let long = matches!(a, Value::Long(_)) || (!shift && matches!(b, Value::Long(_)));
    Ok(if long {
        Value::Long(wrapped!(op, i, j, i64, u64))
    } else {
        Value::Int(wrapped!(op, i as i32, j as i32, i32, u32))
    })
}

/// Sorts; by a comparator (two parameters), a key (one), or the natural order.
pub(crate) fn sort(run: &mut Run<'_, '_>, mut items: Vec<Value>, by: Option<&Value>) -> R<Vec<Value>> {
    let n = items.len() as u64;
    run.step(n * u64::from(64 - n.leading_zeros()) / 4)?;
    let mut failed = None;
    let two = by.is_some_and(|f| run.arity(f) == 2);
    if let Some(f) = by.filter(|_| !two) {
        let mut keyed = Vec::new();
        for item in items {
            keyed.push((run.call_value(f, std::slice::from_ref(&item))?, item));
        }
        merge(&mut keyed, &mut |a, b| order(&a.0, &b.0), &mut failed);
        items = keyed.into_iter().map(|k| k.1).collect();
    } else if let Some(f) = by {
        let mut compare = |a: &Value, b: &Value| {
            let v = run.call_value(f, &[a.clone(), b.clone()])?;
            Ok(v.as_f64().unwrap_or(0.0).total_cmp(&0.0))
        };
        merge(&mut items, &mut compare, &mut failed);
    } else {
        merge(&mut items, &mut |a, b| order(a, b), &mut failed);
    }
    match failed {
        Some(f) => Err(f),
        None => Ok(items),
    }
}

type Failed = Option<Box<Fault>>;

/// A merge sort: a comparator that contradicts itself may not panic here.
fn merge<T: Clone>(items: &mut Vec<T>, compare: &mut dyn FnMut(&T, &T) -> R<Ordering>, failed: &mut Failed) {
    let mut width = 1;
    while width < items.len() {
        let mut out = Vec::with_capacity(items.len());
        for chunk in items.chunks(width * 2) {
            let (left, right) = chunk.split_at(width.min(chunk.len()));
            let (mut i, mut j) = (0, 0);
            while let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
                match compare(a, b) {
                    Ok(Ordering::Greater) => {
                        out.push(b.clone());
                        j += 1;
                    }
                    Ok(_) => {
                        out.push(a.clone());
                        i += 1;
                    }
                    Err(f) => {
                        *failed = Some(f);
                        return;
                    }
                }
            }
            out.extend_from_slice(left.get(i..).unwrap_or(&[]));
            out.extend_from_slice(right.get(j..).unwrap_or(&[]));
        }
        *items = out;
        width *= 2;
    }
}

/// The keys of a map or set.
pub(crate) fn keys_of(v: &Value) -> Vec<Value> {
    match v {
        Value::Map(m) | Value::Set(m) => m.0.borrow().items().iter().map(|e| e.0.clone()).collect(),
        _ => Vec::new(),
    }
}
