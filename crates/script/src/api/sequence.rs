//! Methods that lists, sets, streams (which are lists here) and document values have in common.

use super::list::position;
use super::ops::{order, sort};
use crate::ast::Op;
use crate::runtime::{R, Run};
use crate::value::Value;
use std::mem::take;

/// A method of a sequence of values.
pub(crate) fn call(run: &mut Run<'_, '_>, mut items: Vec<Value>, name: &str, args: &[Value]) -> R<Option<Value>> {
    run.step(items.len() as u64 / 8)?;
    if let Some(value) = search(run, &items, name, args)? {
        return Ok(Some(value));
    }
    if let Some(value) = convert(run, &mut items, name, args)? {
        return Ok(Some(value));
    }
    if let Some(value) = apply(run, &mut items, name, args)? {
        return Ok(Some(value));
    }
    if let Some(value) = aggregate(run, &items, name, args)? {
        return Ok(Some(value));
    }
    arrange(run, items, name, args)
}

/// Methods that look for values.
fn search(run: &mut Run<'_, '_>, items: &[Value], name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("size" | "count", []) => Value::Int(items.len() as i32),
        ("isEmpty", []) => Value::Bool(items.is_empty()),
        ("contains", [v]) => Value::Bool(position(run, items, v)?.is_some()),
        ("containsAll", [all]) => {
            for v in super::iterate(run, all)? {
                if position(run, items, &v)?.is_none() {
                    return Ok(Some(Value::Bool(false)));
                }
            }
            Value::Bool(true)
        }
        ("indexOf", [v]) => Value::Int(position(run, items, v)?.map_or(-1, |i| i as i32)),
        ("lastIndexOf", [v]) => {
            let mut back = items.to_vec();
            back.reverse();
            Value::Int(position(run, &back, v)?.map_or(-1, |i| (items.len() - 1 - i) as i32))
        }
        _ => return Ok(None),
    }))
}

/// Methods that give the same values in another form.
fn convert(run: &mut Run<'_, '_>, items: &mut Vec<Value>, name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("stream" | "boxed" | "toList" | "iterator" | "asList" | "toArray" | "mapToObj" | "parallelStream", []) => {
            run.list(take(items))?
        }
        ("collect", [Value::Tag("toSet")]) | ("toSet", []) => {
            run.alloc(items.len() * 48)?;
            Value::set(take(items))
        }
        ("collect", [Value::Tag("joining")]) => return join(run, items, "").map(Some),
        ("collect", [Value::Tag(_)]) => run.list(take(items))?,
        ("collect", [Value::Str(separator)]) | ("join", [Value::Str(separator)]) => {
            return join(run, items, separator).map(Some);
        }
        ("join", []) => return join(run, items, "").map(Some),
        _ => return Ok(None),
    }))
}

/// Methods that call a closure for each value.
fn apply(run: &mut Run<'_, '_>, items: &mut Vec<Value>, name: &str, args: &[Value]) -> R<Option<Value>> {
    let one = std::slice::from_ref::<Value>;
    Ok(Some(match (name, args) {
        ("each" | "forEach" | "eachWithIndex", [f]) => {
            for (i, v) in items.iter().enumerate() {
                run.step(1)?;
                if name == "eachWithIndex" {
                    run.call_value(f, &[v.clone(), Value::Int(i as i32)])?;
                } else {
                    run.call_value(f, one(v))?;
                }
            }
            if name == "forEach" {
                Value::Null
            } else {
                run.list(take(items))?
            }
        }
        ("collect" | "map" | "mapToInt" | "mapToLong" | "mapToDouble" | "mapToObj", [f]) => {
            let mut out = Vec::with_capacity(items.len());
            for v in items.iter() {
                out.push(run.call_value(f, one(v))?);
            }
            run.list(out)?
        }
        ("flatMap" | "collectMany", [f]) => {
            let mut out = Vec::new();
            for v in items.iter() {
                let inner = run.call_value(f, one(v))?;
                out.extend(super::iterate(run, &inner)?);
            }
            run.list(out)?
        }
        ("findAll" | "filter", [f]) => {
            let mut out = Vec::new();
            for v in items.iter() {
                let hit = run.call_value(f, one(v))?;
                if run.holds(&hit) {
                    out.push(v.clone());
                }
            }
            run.list(out)?
        }
        ("find" | "any" | "every" | "anyMatch" | "allMatch" | "noneMatch" | "findIndexOf" | "count", [f]) => {
            look_for(run, items, name, f)?
        }
        ("inject" | "reduce", [first, f]) => {
            let mut sum = first.clone();
            for v in items.iter() {
                sum = run.call_value(f, &[sum, v.clone()])?;
            }
            sum
        }
        _ => return Ok(None),
    }))
}

/// Methods that look for values that a closure holds for, or that equal one. All but `count` stop as soon as they can.
fn look_for(run: &mut Run<'_, '_>, items: &[Value], name: &str, f: &Value) -> R<Value> {
    let mut hits = 0;
    for (i, v) in items.iter().enumerate() {
        let answer = if matches!(f, Value::Lambda(_)) {
            run.call_value(f, std::slice::from_ref(v))?
        } else {
            Value::Bool(run.equal(f, v)?)
        };
        match (name, run.holds(&answer)) {
            ("find", true) => return Ok(v.clone()),
            ("findIndexOf", true) => return Ok(Value::Int(i as i32)),
            ("any" | "anyMatch", true) => return Ok(Value::Bool(true)),
            ("every" | "allMatch", false) | ("noneMatch", true) => return Ok(Value::Bool(false)),
            (_, hit) => hits += i32::from(hit),
        }
    }
    Ok(match name {
        "find" => Value::Null,
        "findIndexOf" => Value::Int(-1),
        "count" => Value::Int(hits),
        _ => Value::Bool(matches!(name, "every" | "allMatch" | "noneMatch")),
    })
}

/// Methods that make one value of all.
fn aggregate(run: &mut Run<'_, '_>, items: &[Value], name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("sum", []) => {
            let mut sum = Value::Int(0);
            for (i, v) in items.iter().enumerate() {
                sum = if i == 0 { v.clone() } else { run.apply(Op::Add, &sum, v)? };
            }
            sum
        }
        ("average", []) => Value::Double(items.iter().filter_map(Value::as_f64).sum::<f64>() / items.len().max(1) as f64),
        ("getAsInt" | "getAsLong" | "getAsDouble", []) => items.first().cloned().unwrap_or_default(),
        ("max" | "min", []) => {
            let mut best = None;
            for v in items {
                best = Some(match best {
                    Some(b) if (order(v, b)?).is_gt() != (name == "max") || order(v, b)?.is_eq() => b,
                    _ => v,
                });
            }
            best.cloned().unwrap_or_default()
        }
        _ => return Ok(None),
    }))
}

/// Methods that order, select or group values.
fn arrange(run: &mut Run<'_, '_>, items: Vec<Value>, name: &str, args: &[Value]) -> R<Option<Value>> {
    let groovy = run.groovy();
    let one = std::slice::from_ref::<Value>;
    Ok(Some(match (name, args) {
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
