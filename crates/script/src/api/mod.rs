//! The methods of values: dispatch by the receiver's type. A type's methods are in its own file;
//! operators are in `ops`, classes in `statics`.

pub(crate) mod date;
pub(crate) mod doc;
mod groovy;
pub(crate) mod list;
pub(crate) mod map;
pub(crate) mod math;
pub(crate) mod ops;
pub(crate) mod score;
pub(crate) mod sequence;
pub(crate) mod statics;
pub(crate) mod string;

use crate::runtime::{R, Run, bounds, illegal, missing_method, null};
use crate::value::Value;
use std::sync::Arc;

/// Calls a method.
pub(crate) fn call(run: &mut Run<'_, '_>, of: &Value, name: &str, args: &[Value]) -> R {
    let done = match of {
        Value::Str(s) => string::call(run, s, name, args)?,
        Value::List(l) => list::call(run, of, l, name, args)?,
        Value::Map(m) => map::call(run, of, m, name, args)?,
        Value::Set(m) => map::call_set(run, of, m, name, args)?,
        Value::Doc(slot) => doc::call(run, *slot, name, args)?,
        Value::DocAll => doc::call_all(run, name, args)?,
        Value::Date(ms) => date::call(run, *ms, name, args)?,
        Value::Geo(lat, lon) => doc::call_geo((*lat, *lon), name, args),
        Value::Builder(b) => string::call_builder(run, b, of, name, args)?,
        Value::Entry(e) => map::call_entry(run, e, name, args)?,
        Value::Regex(p) => string::call_regex(run, p, name, args)?,
        Value::Lambda(_) if matches!(name, "call" | "apply" | "test" | "accept" | "get" | "applyAsInt" | "compare") => {
            Some(run.call_value(of, args)?)
        }
        Value::Exception(e) if matches!(name, "getMessage" | "getLocalizedMessage") => {
            Some(e.1.clone().map_or(Value::Null, Value::Str))
        }
        Value::Null if run.groovy() => {
            return null(format!("Cannot invoke method {name}() on null object"));
        }
        Value::Null => {
            return null(format!("cannot access method/field [{name}] from a null def reference"));
        }
        v if v.as_f64().is_some() => math::call(run, of, name, args)?,
        _ => None,
    };
    if let Some(v) = done {
        return Ok(v);
    }
    match (name, args) {
        ("equals", [other]) => Ok(Value::Bool(run.equal(of, other)?)),
        ("toString", []) => {
            let text = run.show(of)?;
            run.text(text)
        }
        ("hashCode", []) => {
            let text = run.show(of)?;
            Ok(Value::Int(string::hash(&text)))
        }
        ("booleanValue", []) if matches!(of, Value::Bool(_)) => Ok(of.clone()),
        ("with", [f]) => run.call_value(f, std::slice::from_ref(of)),
        _ if run.groovy() => match groovy::call(run, of, name, args)? {
            Some(value) => Ok(value),
            None => missing_method(of.class(), name, args),
        },
        _ => illegal(format!("dynamic method [{}, {name}/{}] not found", of.class(), args.len())),
    }
}

/// Reads a property.
pub(crate) fn get(run: &mut Run<'_, '_>, of: &Value, name: &Arc<str>) -> R {
    let groovy = run.groovy();
    let missing = || illegal(format!("dynamic getter [{}, {name}] not found", of.class()));
    match of {
        Value::Map(m) => Ok(m.0.borrow().get_str(name).cloned().unwrap_or_default()),
        Value::Null if groovy => null(format!("Cannot get property '{name}' on null object")),
        Value::Null => null(format!("cannot access method/field [{name}] from a null def reference")),
        Value::List(l) => match &**name {
            "length" | "size" => Ok(Value::Int(l.0.borrow().len() as i32)),
            "empty" => Ok(Value::Bool(l.0.borrow().is_empty())),
            n if n.parse::<usize>().is_ok() => {
                let i = n.parse::<usize>().unwrap_or(0);
                let found = l.0.borrow().get(i).cloned();
                found.map_or_else(|| bounds(i as i64, l.0.borrow().len()), Ok)
            }
            _ if groovy => {
                let items = of.items().unwrap_or_default();
                run.step(items.len() as u64)?;
                let mut out = Vec::new();
                for item in items {
                    out.push(get(run, &item, name)?);
                }
                run.list(out)
            }
            _ => missing(),
        },
        Value::Doc(slot) => doc::get(run, *slot, name),
        Value::DocAll => {
            let slot = run.doc_slot(name)?;
            run.doc(slot)?;
            Ok(Value::Doc(slot))
        }
        Value::Geo(lat, lon) => match &**name {
            "lat" => Ok(Value::Double(*lat)),
            "lon" => Ok(Value::Double(*lon)),
            _ => missing(),
        },
        Value::Exception(e) if &**name == "message" => Ok(e.1.clone().map_or(Value::Null, Value::Str)),
        Value::Str(s) if matches!(&**name, "length" | "size") => Ok(Value::Int(string::length(s))),
        _ => {
            // `x.year` is `x.getYear()`.
            let mut getter = String::from("get");
            let mut chars = name.chars();
            if let Some(c) = chars.next() {
                getter.extend(c.to_uppercase());
            }
            getter.push_str(chars.as_str());
            match call(run, of, &getter, &[]) {
                Err(e) if !e.fatal => missing(),
                other => other,
            }
        }
    }
}

/// `a[i]`
pub(crate) fn index(run: &mut Run<'_, '_>, of: &Value, i: &Value) -> R {
    match (of, i) {
        (Value::Map(m), key) => Ok(m.0.borrow().get(key).cloned().unwrap_or_default()),
        (Value::List(l), Value::Int(_) | Value::Long(_)) => {
            let n = i.as_i64().unwrap_or(0);
            let l = l.0.borrow();
            match place(n, l.len()).and_then(|at| l.get(at)) {
                Some(v) => Ok(v.clone()),
                None if run.groovy() => Ok(Value::Null),
                None => bounds(n, l.len()),
            }
        }
        (Value::List(_) | Value::Str(_), Value::List(at)) => {
            let mut out = Vec::new();
            for i in at.0.borrow().clone() {
                run.step(1)?;
                out.push(index(run, of, &i)?);
            }
            if matches!(of, Value::Str(_)) {
                return run.text(out.iter().map(Value::text).collect::<String>());
            }
            run.list(out)
        }
        (Value::Str(s), Value::Int(n)) => {
            let len = s.chars().count();
            run.step(len as u64 / 64)?;
            match place(i64::from(*n), len).and_then(|at| s.chars().nth(at)) {
                Some(c) => Ok(Value::str(c.encode_utf8(&mut [0; 4]))),
                None => bounds(i64::from(*n), len),
            }
        }
        (Value::Doc(slot), Value::Int(n)) => doc::at(run, *slot, i64::from(*n)),
        (Value::DocAll, Value::Str(name)) => {
            let slot = run.doc_slot(name)?;
            run.doc(slot)?;
            Ok(Value::Doc(slot))
        }
        (Value::Null, _) => null("cannot access an element of null"),
        (of, Value::Str(name)) if run.groovy() => get(run, of, name),
        (of, i) => illegal(format!(
            "Attempting to address a non-array-like type [{}] with [{}] as an array.",
            of.class(),
            i.class()
        )),
    }
}

/// An index, counted from the end if negative.
pub(crate) fn place(n: i64, len: usize) -> Option<usize> {
    let n = if n < 0 { n + len as i64 } else { n };
    usize::try_from(n).ok().filter(|n| *n < len)
}

/// `a[i] = v`
pub(crate) fn put_index(run: &mut Run<'_, '_>, of: &Value, i: &Value, v: Value) -> R<()> {
    match of {
        Value::Map(m) => {
            run.adopt(of, &v)?;
            map::key(i)?;
            m.0.borrow_mut().put(i.clone(), v);
            Ok(())
        }
        Value::List(l) => {
            let Some(n) = i.as_i64() else {
                return illegal(format!("a list has no place [{}]", i.class()));
            };
            run.adopt(of, &v)?;
            let len = l.0.borrow().len();
            let at = match place(n, len) {
                Some(at) => at,
                None if run.groovy() && n >= 0 => {
                    let n = n as usize;
                    run.alloc((n - len + 1).saturating_mul(24))?;
                    l.0.borrow_mut().resize(n + 1, Value::Null);
                    n
                }
                None => return bounds(n, len),
            };
            if let Some(cell) = l.0.borrow_mut().get_mut(at) {
                *cell = v;
            }
            Ok(())
        }
        Value::Null => null("cannot assign an element of null"),
        _ => illegal(format!(
            "Attempting to address a non-array-like type [{}] as an array.",
            of.class()
        )),
    }
}

/// The values that a `for` goes over.
pub(crate) fn iterate(run: &mut Run<'_, '_>, of: &Value) -> R<Vec<Value>> {
    let items = match of {
        Value::List(_) | Value::Set(_) => of.items().unwrap_or_default(),
        Value::Map(_) if run.groovy() => map::entries(run, of)?,
        Value::Doc(slot) => doc::all(run, *slot)?,
        Value::Str(s) if run.groovy() => s.chars().map(|c| Value::str(c.encode_utf8(&mut [0; 4]))).collect(),
        Value::Null if run.groovy() => Vec::new(),
        Value::Null => return null("Cannot iterate over null"),
        _ => return illegal(format!("Cannot iterate over [{}]", of.class())),
    };
    run.step(items.len() as u64 / 8)?;
    Ok(items)
}
