//! Methods of lists, of streams (which are lists here), and Groovy's on both.

use super::ops::{order, sort};
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
        ("removeIf", [f]) => {
            let items = l.0.borrow().clone();
            let mut kept = Vec::new();
            for v in items {
                let gone = run.call_value(f, std::slice::from_ref(&v))?;
                if !run.holds(&gone) {
                    kept.push(v);
                }
            }
            let gone = kept.len() != len;
            *l.0.borrow_mut() = kept;
            Value::Bool(gone)
        }
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
        ("removeAll" | "retainAll", [f @ Value::Lambda(_)]) => {
            let mut kept = Vec::new();
            for v in l.0.borrow().clone() {
                let hit = run.call_value(f, std::slice::from_ref(&v))?;
                if run.holds(&hit) == (name == "retainAll") {
                    kept.push(v);
                }
            }
            let changed = kept.len() != len;
            *l.0.borrow_mut() = kept;
            Value::Bool(changed)
        }
        ("removeAll" | "retainAll", [other]) => {
            let others = super::iterate(run, other)?;
            let mut kept = Vec::new();
            for v in l.0.borrow().clone() {
                if position(run, &others, &v)?.is_some() == (name == "retainAll") {
                    kept.push(v);
                }
            }
            let changed = kept.len() != len;
            *l.0.borrow_mut() = kept;
            Value::Bool(changed)
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
            let items = l.0.borrow().clone();
            return collection(run, items, name, args);
        }
    }))
}

/// Methods that lists, sets, streams and document values have in common.
pub(crate) fn collection(run: &mut Run<'_, '_>, items: Vec<Value>, name: &str, args: &[Value]) -> R<Option<Value>> {
    run.step(items.len() as u64 / 8)?;
    let groovy = run.groovy();
    let one = std::slice::from_ref::<Value>;
    Ok(Some(match (name, args) {
        ("size" | "count", []) => Value::Int(items.len() as i32),
        ("isEmpty", []) => Value::Bool(items.is_empty()),
        ("contains", [v]) => Value::Bool(position(run, &items, v)?.is_some()),
        ("containsAll", [all]) => {
            for v in super::iterate(run, all)? {
                if position(run, &items, &v)?.is_none() {
                    return Ok(Some(Value::Bool(false)));
                }
            }
            Value::Bool(true)
        }
        ("indexOf", [v]) => Value::Int(position(run, &items, v)?.map_or(-1, |i| i as i32)),
        ("lastIndexOf", [v]) => {
            let mut back = items.clone();
            back.reverse();
            Value::Int(position(run, &back, v)?.map_or(-1, |i| (items.len() - 1 - i) as i32))
        }
        ("stream" | "boxed" | "toList" | "iterator" | "asList" | "toArray" | "mapToObj" | "parallelStream", []) => {
            run.list(items)?
        }
        ("collect", [Value::Tag("toSet")]) | ("toSet", []) => {
            run.alloc(items.len() * 48)?;
            Value::set(items)
        }
        ("collect", [Value::Tag("joining")]) => return join(run, &items, "").map(Some),
        ("collect", [Value::Tag(_)]) => run.list(items)?,
        ("collect", [Value::Str(separator)]) | ("join", [Value::Str(separator)]) => {
            return join(run, &items, separator).map(Some);
        }
        ("join", []) => return join(run, &items, "").map(Some),
        ("each" | "forEach" | "eachWithIndex", [f]) => {
            for (i, v) in items.iter().enumerate() {
                run.step(1)?;
                if name == "eachWithIndex" {
                    run.call_value(f, &[v.clone(), Value::Int(i as i32)])?;
                } else {
                    run.call_value(f, one(v))?;
                }
            }
            if name == "forEach" { Value::Null } else { run.list(items)? }
        }
        ("collect" | "map" | "mapToInt" | "mapToLong" | "mapToDouble" | "mapToObj", [f]) => {
            let mut out = Vec::with_capacity(items.len());
            for v in &items {
                out.push(run.call_value(f, one(v))?);
            }
            run.list(out)?
        }
        ("flatMap" | "collectMany", [f]) => {
            let mut out = Vec::new();
            for v in &items {
                let inner = run.call_value(f, one(v))?;
                out.extend(super::iterate(run, &inner)?);
            }
            run.list(out)?
        }
        ("findAll" | "filter", [f]) => {
            let mut out = Vec::new();
            for v in &items {
                let hit = run.call_value(f, one(v))?;
                if run.holds(&hit) {
                    out.push(v.clone());
                }
            }
            run.list(out)?
        }
        ("find" | "any" | "every" | "anyMatch" | "allMatch" | "noneMatch" | "findIndexOf" | "count", [f]) => {
            let mut hits = 0;
            for (i, v) in items.iter().enumerate() {
                let answer = if matches!(f, Value::Lambda(_)) {
                    run.call_value(f, one(v))?
                } else {
                    Value::Bool(run.equal(f, v)?)
                };
                match (name, run.holds(&answer)) {
                    ("find", true) => return Ok(Some(v.clone())),
                    ("findIndexOf", true) => return Ok(Some(Value::Int(i as i32))),
                    ("any" | "anyMatch", true) => return Ok(Some(Value::Bool(true))),
                    ("every" | "allMatch", false) | ("noneMatch", true) => {
                        return Ok(Some(Value::Bool(false)));
                    }
                    (_, hit) => hits += i32::from(hit),
                }
            }
            match name {
                "find" => Value::Null,
                "findIndexOf" => Value::Int(-1),
                "count" => Value::Int(hits),
                _ => Value::Bool(matches!(name, "every" | "allMatch" | "noneMatch")),
            }
        }
        ("inject" | "reduce", [first, f]) => {
            let mut sum = first.clone();
            for v in &items {
                sum = run.call_value(f, &[sum, v.clone()])?;
            }
            sum
        }
        ("sum", []) => {
            let mut sum = Value::Int(0);
            for (i, v) in items.iter().enumerate() {
                sum = if i == 0 {
                    v.clone()
                } else {
                    run.apply(crate::ast::Op::Add, &sum, v)?
                };
            }
            sum
        }
        ("average", []) => Value::Double(items.iter().filter_map(Value::as_f64).sum::<f64>() / items.len().max(1) as f64),
        ("getAsInt" | "getAsLong" | "getAsDouble", []) => items.first().cloned().unwrap_or_default(),
        ("max" | "min", []) => {
            let mut best = None;
            for v in &items {
                best = Some(match best {
                    Some(b) if (order(v, b)?).is_gt() != (name == "max") || order(v, b)?.is_eq() => b,
                    _ => v,
                });
            }
            best.cloned().unwrap_or_default()
        }
        ("sorted", []) => {
            let items = sort(run, items, None)?;
            run.list(items)?
        }
        ("sorted" | "toSorted", [f]) => {
            let items = sort(run, items, Some(f))?;
            run.list(items)?
        }
        ("distinct", []) | ("unique", []) => {
            let mut out: Vec<Value> = Vec::new();
            for v in items {
                if position(run, &out, &v)?.is_none() {
                    out.push(v);
                }
            }
            run.list(out)?
        }
        ("limit" | "take", [n]) => run.list(items.into_iter().take(n.as_i64().unwrap_or(0).max(0) as usize).collect())?,
        ("skip" | "drop", [n]) => run.list(items.into_iter().skip(n.as_i64().unwrap_or(0).max(0) as usize).collect())?,
        ("findFirst", []) => items.first().cloned().unwrap_or_default(),
        ("first" | "head", []) if groovy => items.first().cloned().unwrap_or_default(),
        ("last", []) if groovy => items.last().cloned().unwrap_or_default(),
        ("reverse", []) if groovy => run.list(items.into_iter().rev().collect())?,
        ("flatten", []) if groovy => {
            let mut out = Vec::new();
            let mut stack: Vec<Value> = items.into_iter().rev().collect();
            while let Some(v) = stack.pop() {
                run.step(1)?;
                match v.items() {
                    Some(inner) => stack.extend(inner.into_iter().rev()),
                    None => out.push(v),
                }
            }
            run.list(out)?
        }
        ("groupBy", [f]) => {
            let groups = Value::map([]);
            for v in &items {
                let key = run.call_value(f, one(v))?;
                super::map::key(&key)?;
                let group = super::index(run, &groups, &key)?;
                if matches!(group, Value::Null) {
                    let list = run.list(vec![v.clone()])?;
                    super::put_index(run, &groups, &key, list)?;
                } else {
                    super::call(run, &group, "add", one(v))?;
                }
            }
            groups
        }
        _ => return Ok(None),
    }))
}

fn join(run: &mut Run<'_, '_>, items: &[Value], separator: &str) -> R {
    let mut out = String::new();
    for (i, v) in items.iter().enumerate() {
        if i > 0 {
            run.alloc(separator.len())?;
            out.push_str(separator);
        }
        out.push_str(&run.show(v)?);
    }
    run.text(out)
}
