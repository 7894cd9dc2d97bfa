//! Methods of lists that change them or read one place.

use super::ops::sort;
use super::sequence;
use crate::runtime::{R, Run, bounds, illegal};
use crate::value::{ListCell, Value};
use std::rc::Rc;

fn at(n: &Value, len: usize) -> R<usize> {
    let n = n.as_i64().unwrap_or(-1);
    match usize::try_from(n) {
        Ok(i) if i < len => Ok(i),
        _ => bounds(n, len),
    }
}

/// Where an item stands.
pub(crate) fn position(run: &mut Run<'_, '_>, items: &[Value], v: &Value) -> R<Option<usize>> {
    run.step(items.len() as u64 / 8)?;
    for (i, item) in items.iter().enumerate() {
        if run.equal(item, v)? {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// Methods of a list.
pub(crate) fn call(run: &mut Run<'_, '_>, of: &Value, l: &Rc<ListCell>, name: &str, args: &[Value]) -> R<Option<Value>> {
    let len = l.0.borrow().len();
    Ok(Some(match (name, args) {
        ("add", [v]) => {
            run.adopt(of, v)?;
            l.0.borrow_mut().push(v.clone());
            Value::Bool(true)
        }
        ("add", [i, v]) => {
            let i = at(i, len + 1)?;
            run.adopt(of, v)?;
            run.step(len as u64 / 64)?;
            l.0.borrow_mut().insert(i, v.clone());
            Value::Null
        }
        ("get" | "getAt", [i]) => {
            let i = at(i, len)?;
            l.0.borrow().get(i).cloned().unwrap_or_default()
        }
        ("set", [i, v]) => {
            let i = at(i, len)?;
            run.adopt(of, v)?;
            l.0.borrow_mut()
                .get_mut(i)
                .map(|cell| std::mem::replace(cell, v.clone()))
                .unwrap_or_default()
        }
        ("remove" | "removeAt", [Value::Int(_)]) => {
            let i = at(&args[0], len)?;
            run.step(len as u64 / 64)?;
            l.0.borrow_mut().remove(i)
        }
        ("remove", [v]) => {
            let items = l.0.borrow().clone();
            let found = position(run, &items, v)?;
            if let Some(i) = found {
                l.0.borrow_mut().remove(i);
            }
            Value::Bool(found.is_some())
        }
        ("addAll", [more]) => {
            let items = super::iterate(run, more)?;
            for v in items {
                run.adopt(of, &v)?;
                l.0.borrow_mut().push(v);
            }
            Value::Bool(true)
        }
        ("addAll", [place, more]) if run.groovy() => {
            let place = usize::try_from(place.as_i64().unwrap_or(0)).unwrap_or(0).min(len);
            for (i, v) in super::iterate(run, more)?.into_iter().enumerate() {
                run.adopt(of, &v)?;
                l.0.borrow_mut().insert(place + i, v);
            }
            Value::Bool(true)
        }
        ("subList", [a, b]) => {
            let (a, b) = (at(a, len + 1)?, at(b, len + 1)?);
            let items = l.0.borrow().get(a..b).map(<[Value]>::to_vec);
            match items {
                Some(items) => run.list(items)?,
                None => return illegal(format!("fromIndex({a}) > toIndex({b})")),
            }
        }
        ("getLength", []) => Value::Int(len as i32),
        ("push", [v]) if run.groovy() => {
            run.adopt(of, v)?;
            l.0.borrow_mut().push(v.clone());
            Value::Bool(true)
        }
        ("pop", []) => l.0.borrow_mut().pop().unwrap_or_default(),
        _ => {
            if let Some(done) = change_all(run, of, l, name, args)? {
                return Ok(Some(done));
            }
            let items = l.0.borrow().clone();
            return sequence::call(run, items, name, args);
        }
    }))
}

/// Methods that change the whole list: sorts, removals, replacements.
fn change_all(run: &mut Run<'_, '_>, of: &Value, l: &Rc<ListCell>, name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("sort", [Value::Bool(own)]) if run.groovy() => {
            let items = sort(run, l.0.borrow().clone(), None)?;
            if *own {
                *l.0.borrow_mut() = items;
                return Ok(Some(of.clone()));
            }
            run.list(items)?
        }
        ("clear", []) => {
            let gone = std::mem::take(&mut *l.0.borrow_mut());
            drop(gone);
            Value::Null
        }
        ("sort", []) => {
            let items = sort(run, l.0.borrow().clone(), None)?;
            *l.0.borrow_mut() = items;
            of.clone()
        }
        ("sort", [f]) => {
            let f = (!matches!(f, Value::Null | Value::Tag(_))).then_some(f);
            let reverse = matches!(args, [Value::Tag("reverseOrder")]);
            let copy = l.0.borrow().clone();
            let mut items = sort(run, copy, f)?;
            if reverse {
                items.reverse();
            }
            *l.0.borrow_mut() = items;
            of.clone()
        }
        ("removeIf", [f]) => retain(run, l, |run, v| {
            let gone = run.call_value(f, std::slice::from_ref(v))?;
            Ok(!run.holds(&gone))
        })?,
        ("replaceAll", [f]) => {
            let items = l.0.borrow().clone();
            for (i, v) in items.iter().enumerate() {
                let v = run.call_value(f, std::slice::from_ref(v))?;
                run.adopt(of, &v)?;
                if let Some(cell) = l.0.borrow_mut().get_mut(i) {
                    *cell = v;
                }
            }
            Value::Null
        }
        ("removeAll" | "retainAll", [f @ Value::Lambda(_)]) => retain(run, l, |run, v| {
            let hit = run.call_value(f, std::slice::from_ref(v))?;
            Ok(run.holds(&hit) == (name == "retainAll"))
        })?,
        ("removeAll" | "retainAll", [other]) => {
            let others = super::iterate(run, other)?;
            retain(run, l, |run, v| {
                Ok(position(run, &others, v)?.is_some() == (name == "retainAll"))
            })?
        }
        _ => return Ok(None),
    }))
}

/// Keeps some items of a list. Tells whether one went. A closure that looks at the list meanwhile sees all of it.
fn retain(run: &mut Run<'_, '_>, l: &Rc<ListCell>, mut keeps: impl FnMut(&mut Run<'_, '_>, &Value) -> R<bool>) -> R<Value> {
    let len = l.0.borrow().len();
    let items = l.0.borrow().clone();
    let mut kept = Vec::new();
    for v in items {
        if keeps(run, &v)? {
            kept.push(v);
        }
    }
    let changed = kept.len() != len;
    *l.0.borrow_mut() = kept;
    Ok(Value::Bool(changed))
}
