//! Methods of maps, their entries, and sets.

use super::ops::keys_of;
use crate::runtime::{R, Run, illegal};
use crate::value::{MapCell, Value};
use std::rc::Rc;

/// Only scalars are keys here.
pub(crate) fn key(k: &Value) -> R<()> {
    match k {
        Value::Null | Value::Bool(_) | Value::Str(_) | Value::Char(_) | Value::Date(_) => Ok(()),
        v if v.as_f64().is_some() => Ok(()),
        v => illegal(format!("a key can't be of type [{}]", v.class())),
    }
}

/// The entries of a map.
pub(crate) fn entries(run: &mut Run<'_, '_>, of: &Value) -> R<Vec<Value>> {
    let keys = keys_of(of);
    run.alloc(keys.len() * 64)?;
    run.step(keys.len() as u64 / 8)?;
    Ok(keys.into_iter().map(|k| Value::Entry(Rc::new((of.clone(), k)))).collect())
}

/// Methods of an entry.
pub(crate) fn call_entry(run: &mut Run<'_, '_>, e: &Rc<(Value, Value)>, name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("getKey", []) => e.1.clone(),
        ("getValue", []) => Value::of_entry(e),
        ("setValue", [v]) => {
            super::put_index(run, &e.0, &e.1, v.clone())?;
            Value::Null
        }
        _ => return Ok(None),
    }))
}

/// Methods of a map.
pub(crate) fn call(run: &mut Run<'_, '_>, of: &Value, m: &Rc<MapCell>, name: &str, args: &[Value]) -> R<Option<Value>> {
    let get = |k: &Value| m.0.borrow().get(k).cloned();
    Ok(Some(match (name, args) {
        ("get" | "getAt", [k]) => get(k).unwrap_or_default(),
        ("getOrDefault", [k, d]) => get(k).unwrap_or_else(|| d.clone()),
        ("get", [k, d]) if run.groovy() => get(k).unwrap_or_else(|| d.clone()),
        ("put" | "putAt", [k, v]) => {
            key(k)?;
            run.adopt(of, v)?;
            m.0.borrow_mut().put(k.clone(), v.clone()).unwrap_or_default()
        }
        ("putIfAbsent", [k, v]) => match get(k) {
            Some(old) if !matches!(old, Value::Null) => old,
            _ => {
                super::put_index(run, of, k, v.clone())?;
                Value::Null
            }
        },
        ("computeIfAbsent", [k, f]) => match get(k) {
            Some(old) if !matches!(old, Value::Null) => old,
            _ => {
                let v = run.call_value(f, std::slice::from_ref(k))?;
                super::put_index(run, of, k, v.clone())?;
                v
            }
        },
        ("computeIfPresent" | "compute", [k, f]) => {
            let old = get(k).unwrap_or_default();
            if name == "computeIfPresent" && matches!(old, Value::Null) {
                return Ok(Some(Value::Null));
            }
            let v = run.call_value(f, &[k.clone(), old])?;
            super::put_index(run, of, k, v.clone())?;
            v
        }
        ("merge", [k, v, f]) => {
            let v = match get(k) {
                Some(old) if !matches!(old, Value::Null) => run.call_value(f, &[old, v.clone()])?,
                _ => v.clone(),
            };
            super::put_index(run, of, k, v.clone())?;
            v
        }
        ("putAll", [more]) => {
            let Value::Map(n) = more else {
                return illegal("putAll needs a map");
            };
            let items = n.0.borrow().items().to_vec();
            for (k, v) in items {
                run.adopt(of, &v)?;
                m.0.borrow_mut().put(k, v);
            }
            Value::Null
        }
        ("remove", [k]) => {
            run.step(m.0.borrow().len() as u64 / 16)?;
            let gone = m.0.borrow_mut().remove(k);
            gone.unwrap_or_default()
        }
        ("containsKey", [k]) => Value::Bool(m.0.borrow().get(k).is_some()),
        ("containsValue", [v]) => {
            let values: Vec<Value> = m.0.borrow().items().iter().map(|e| e.1.clone()).collect();
            Value::Bool(super::list::position(run, &values, v)?.is_some())
        }
        ("size", []) => Value::Int(m.0.borrow().len() as i32),
        ("isEmpty", []) => Value::Bool(m.0.borrow().len() == 0),
        ("clear", []) => {
            m.0.borrow_mut().clear();
            Value::Null
        }
        _ => return walk(run, of, m, name, args),
    }))
}

/// Methods that go over all entries of a map.
fn walk(run: &mut Run<'_, '_>, of: &Value, m: &Rc<MapCell>, name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("keySet", []) => {
            let keys = keys_of(of);
            run.alloc(keys.len() * 48)?;
            Value::set(keys)
        }
        ("values", []) => {
            let values = m.0.borrow().items().iter().map(|e| e.1.clone()).collect();
            run.list(values)?
        }
        ("entrySet", []) => {
            let entries = entries(run, of)?;
            run.list(entries)?
        }
        ("forEach" | "each", [f]) if run.arity(f) == 2 => {
            let items = m.0.borrow().items().to_vec();
            for (k, v) in items {
                run.call_value(f, &[k, v])?;
            }
            of.clone()
        }
        ("findAll", [f]) => {
            let mut kept = Vec::new();
            for e in entries(run, of)? {
                let hit = run.call_value(f, std::slice::from_ref(&e))?;
                if let (true, Value::Entry(e)) = (run.holds(&hit), &e) {
                    kept.push((e.1.clone(), Value::of_entry(e)));
                }
            }
            run.alloc(kept.len() * 48)?;
            Value::map(kept)
        }
        ("each" | "collect" | "find" | "any" | "every" | "sum" | "inject" | "count", _) => {
            let entries = entries(run, of)?;
            return super::sequence::call(run, entries, name, args);
        }
        _ => return Ok(None),
    }))
}

/// Methods of a set.
pub(crate) fn call_set(run: &mut Run<'_, '_>, of: &Value, m: &Rc<MapCell>, name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("add", [k]) => {
            key(k)?;
            run.alloc(48)?;
            Value::Bool(m.0.borrow_mut().put(k.clone(), Value::Null).is_none())
        }
        ("addAll", [more]) => {
            for k in super::iterate(run, more)? {
                key(&k)?;
                run.alloc(48)?;
                m.0.borrow_mut().put(k, Value::Null);
            }
            Value::Bool(true)
        }
        ("remove", [k]) => {
            run.step(m.0.borrow().len() as u64 / 16)?;
            Value::Bool(m.0.borrow_mut().remove(k).is_some())
        }
        ("contains", [k]) => Value::Bool(m.0.borrow().get(k).is_some()),
        ("clear", []) => {
            m.0.borrow_mut().clear();
            Value::Null
        }
        ("removeIf", [f]) => {
            let before = m.0.borrow().len();
            let mut kept = Vec::new();
            for k in keys_of(of) {
                let gone = run.call_value(f, std::slice::from_ref(&k))?;
                if !run.holds(&gone) {
                    kept.push((k, Value::Null));
                }
            }
            let changed = kept.len() != before;
            m.0.borrow_mut().replace(kept);
            Value::Bool(changed)
        }
        _ => return super::sequence::call(run, keys_of(of), name, args),
    }))
}
