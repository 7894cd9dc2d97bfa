//! Methods that Groovy gave to texts, lists, maps, numbers and dates beyond those of Java: what scripts of 2015 used of them.
//!
//! Not here: what Painless has too (`string`, `list`, `map`, `math`, `date`), which is asked first.

use crate::ast::Op;
use crate::runtime::{R, Run, illegal};
use crate::value::Value;
use model::date::{DateFormat, PatternSyntax};

/// A method of a value; `None` if Groovy has none of that name.
pub(crate) fn call(run: &mut Run<'_, '_>, of: &Value, name: &str, args: &[Value]) -> R<Option<Value>> {
    let done = match of {
        Value::Str(text) => of_text(run, of, text, name, args)?,
        Value::Date(ms) => of_date(run, *ms, name, args)?,
        Value::Map(_) => of_map(run, of, name, args)?,
        _ if of.as_f64().is_some() => of_number(run, of, name, args)?,
        _ => match of.items() {
            Some(items) => of_list(run, items, name, args)?,
            None => None,
        },
    };
    match (done, name, args) {
        (Some(value), ..) => Ok(Some(value)),
        (None, "plus", [other]) => run.apply(Op::Add, of, other).map(Some),
        (None, "minus", [other]) => run.apply(Op::Sub, of, other).map(Some),
        (None, "multiply", [other]) => run.apply(Op::Mul, of, other).map(Some),
        (None, "getAt", [key]) => super::index(run, of, key).map(Some),
        _ => Ok(None),
    }
}

fn whole(value: Option<&Value>) -> i64 {
    value.and_then(Value::as_i64).unwrap_or(0)
}

fn of_text(run: &mut Run<'_, '_>, of: &Value, text: &str, name: &str, args: &[Value]) -> R<Option<Value>> {
    let chars = || text.chars().map(|c| Value::str(c.encode_utf8(&mut [0; 4])));
    Ok(Some(match (name, args) {
        ("take", [n]) => run.text(
            text.chars()
                .take(usize::try_from(whole(Some(n))).unwrap_or(0))
                .collect::<String>(),
        )?,
        ("drop", [n]) => run.text(
            text.chars()
                .skip(usize::try_from(whole(Some(n))).unwrap_or(0))
                .collect::<String>(),
        )?,
        ("padLeft" | "padRight" | "center", [width]) => pad(run, text, name, whole(Some(width)), " ")?,
        ("padLeft" | "padRight" | "center", [width, Value::Str(with)]) => pad(run, text, name, whole(Some(width)), with)?,
        ("isInteger" | "isLong" | "isBigInteger", []) => Value::Bool(text.trim().parse::<i64>().is_ok()),
        ("isNumber" | "isDouble" | "isFloat" | "isBigDecimal", []) => {
            Value::Bool(text.trim().parse::<f64>().is_ok_and(f64::is_finite))
        }
        ("toBigDecimal", []) => super::statics::parse_double(text)?,
        ("toBoolean", []) => Value::Bool(matches!(text.trim().to_lowercase().as_str(), "true" | "y" | "1")),
        ("multiply", [n]) => {
            let n = usize::try_from(whole(Some(n))).unwrap_or(0);
            run.alloc(text.len().saturating_mul(n))?;
            run.text(text.repeat(n))?
        }
        ("count", [Value::Str(part)]) if !part.is_empty() => Value::Int(text.matches(&**part).count() as i32),
        ("uncapitalize", []) => {
            let mut rest = text.chars();
            let first: String = rest.next().into_iter().flat_map(char::to_lowercase).collect();
            run.text(first + rest.as_str())?
        }
        ("readLines", []) => {
            let lines: Vec<Value> = text.lines().map(Value::str).collect();
            run.alloc(text.len())?;
            run.list(lines)?
        }
        ("find", [Value::Str(part)]) => match regex::Regex::new(part) {
            Ok(found) => found.find(text).map_or(Value::Null, |m| Value::str(m.as_str())),
            Err(_) => return illegal(format!("cannot read the pattern [{part}]")),
        },
        ("each", [f]) => {
            for c in chars() {
                run.step(1)?;
                run.call_value(f, &[c])?;
            }
            of.clone()
        }
        ("toList" | "collect" | "findAll" | "any" | "every" | "eachWithIndex" | "inject" | "find", _) => {
            run.alloc(text.len() * 24)?;
            let items: Vec<Value> = chars().collect();
            return super::sequence::call(run, items, name, args);
        }
        _ => return Ok(None),
    }))
}

/// `padLeft`, `padRight`, `center`: to a width, with a text over and over.
fn pad(run: &mut Run<'_, '_>, text: &str, how: &str, width: i64, with: &str) -> R {
    let have = text.chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(have);
    run.alloc(missing.saturating_mul(with.len().max(1)))?;
    let fill = |n: usize| with.chars().cycle().take(n).collect::<String>();
    run.text(match how {
        "padLeft" => fill(missing) + text,
        "padRight" => text.to_owned() + &fill(missing),
        _ => fill(missing / 2) + text + &fill(missing - missing / 2),
    })
}

fn of_list(run: &mut Run<'_, '_>, items: Vec<Value>, name: &str, args: &[Value]) -> R<Option<Value>> {
    let one = std::slice::from_ref::<Value>;
    run.step(items.len() as u64 / 8)?;
    Ok(Some(match (name, args) {
        ("tail", []) => run.list(items.into_iter().skip(1).collect())?,
        ("init", []) => {
            let most = items.len().saturating_sub(1);
            run.list(items.into_iter().take(most).collect())?
        }
        ("intersect", [other]) => {
            let other = super::iterate(run, other)?;
            let mut out = Vec::new();
            for item in items {
                if contains(run, &other, &item)? {
                    out.push(item);
                }
            }
            run.list(out)?
        }
        ("disjoint", [other]) => {
            let other = super::iterate(run, other)?;
            for item in &items {
                if contains(run, &other, item)? {
                    return Ok(Some(Value::Bool(false)));
                }
            }
            Value::Bool(true)
        }
        ("multiply", [times]) => {
            let times = usize::try_from(whole(Some(times))).unwrap_or(0);
            run.alloc(items.len().saturating_mul(times).saturating_mul(32))?;
            let many = std::iter::repeat_n(items, times).flatten().collect();
            run.list(many)?
        }
        ("withIndex" | "indexed", []) => {
            let mut out = Vec::with_capacity(items.len());
            for (at, item) in items.into_iter().enumerate() {
                out.push(run.list(vec![item, Value::Int(at as i32)])?);
            }
            run.list(out)?
        }
        ("collate", [size]) => {
            let size = usize::try_from(whole(Some(size))).unwrap_or(0).max(1);
            let mut out = Vec::new();
            for part in items.chunks(size) {
                out.push(run.list(part.to_vec())?);
            }
            run.list(out)?
        }
        ("collectEntries", [f]) => {
            let out = Value::map([]);
            for item in &items {
                let entry = run.call_value(f, one(item))?;
                put_entry(run, &out, &entry)?;
            }
            out
        }
        ("countBy", [f]) => {
            let out = Value::map([]);
            for item in &items {
                let key = run.call_value(f, one(item))?;
                let before = super::index(run, &out, &key)?.as_i64().unwrap_or(0);
                super::put_index(run, &out, &key, Value::Int(before as i32 + 1))?;
            }
            out
        }
        ("grep", [f @ Value::Lambda(_)]) => return super::sequence::call(run, items, "findAll", one(f)),
        ("findResult", [f]) => {
            for item in &items {
                let found = run.call_value(f, one(item))?;
                if !matches!(found, Value::Null) {
                    return Ok(Some(found));
                }
            }
            Value::Null
        }
        ("asImmutable", []) => run.list(items)?,
        _ => return aggregate(run, &items, name, args),
    }))
}

/// Sums and extremes of a list.
fn aggregate(run: &mut Run<'_, '_>, items: &[Value], name: &str, args: &[Value]) -> R<Option<Value>> {
    let one = std::slice::from_ref::<Value>;
    Ok(Some(match (name, args) {
        ("sum", [f @ Value::Lambda(_)]) => {
            let mut sum: Option<Value> = None;
            for item in items {
                let value = run.call_value(f, one(item))?;
                sum = Some(match sum {
                    None => value,
                    Some(sum) => run.apply(Op::Add, &sum, &value)?,
                });
            }
            sum.unwrap_or_default()
        }
        ("sum", [first]) => {
            let mut sum = first.clone();
            for item in items {
                sum = run.apply(Op::Add, &sum, item)?;
            }
            sum
        }
        ("max" | "min", [f @ Value::Lambda(_)]) => {
            let mut best: Option<(Value, Value)> = None;
            for item in items {
                let key = run.call_value(f, one(item))?;
                let better = match &best {
                    None => true,
                    Some((_, known)) => {
                        let order = super::ops::order(&key, known)?;
                        if name == "max" { order.is_gt() } else { order.is_lt() }
                    }
                };
                if better {
                    best = Some((item.clone(), key));
                }
            }
            best.map_or(Value::Null, |(item, _)| item)
        }
        _ => return Ok(None),
    }))
}

fn contains(run: &mut Run<'_, '_>, items: &[Value], wanted: &Value) -> R<bool> {
    for item in items {
        run.step(1)?;
        if run.equal(item, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Puts the result of a function of `collectEntries`: a pair, or a map of entries.
fn put_entry(run: &mut Run<'_, '_>, to: &Value, entry: &Value) -> R<()> {
    if let Value::Map(more) = entry {
        let pairs: Vec<(Value, Value)> = more.0.borrow().items().iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        for (key, value) in pairs {
            super::put_index(run, to, &key, value)?;
        }
        return Ok(());
    }
    match entry.items().as_deref() {
        Some([key, value]) => super::put_index(run, to, key, value.clone()).map(|_| ()),
        _ => illegal("collectEntries needs a pair or a map"),
    }
}

fn of_map(run: &mut Run<'_, '_>, of: &Value, name: &str, args: &[Value]) -> R<Option<Value>> {
    match (name, args) {
        ("collectEntries" | "groupBy" | "countBy" | "sum" | "max" | "min", [Value::Lambda(_)]) => {
            let entries = super::iterate(run, of)?;
            match of_list(run, entries.clone(), name, args)? {
                Some(value) => Ok(Some(value)),
                None => super::sequence::call(run, entries, name, args),
            }
        }
        _ => Ok(None),
    }
}

fn of_number(run: &mut Run<'_, '_>, of: &Value, name: &str, args: &[Value]) -> R<Option<Value>> {
    let (i, x) = (of.as_i64(), of.as_f64().unwrap_or(0.0));
    Ok(Some(match (name, args) {
        ("toInteger", []) => Value::Int(i.map_or(x as i32, |n| n as i32)),
        ("toLong", []) => Value::Long(i.unwrap_or(x as i64)),
        ("toDouble" | "toFloat" | "toBigDecimal", []) => Value::Double(x),
        ("upto" | "downto", [to, f]) => {
            let (mut at, to) = (i.unwrap_or(x as i64), whole(Some(to)));
            while if name == "upto" { at <= to } else { at >= to } {
                run.step(1)?;
                run.call_value(f, &[Value::Int(at as i32)])?;
                at += if name == "upto" { 1 } else { -1 };
            }
            Value::Null
        }
        ("step", [to, by, f]) => {
            let (mut at, to, by) = (i.unwrap_or(x as i64), whole(Some(to)), whole(Some(by)));
            while by != 0 && if by > 0 { at < to } else { at > to } {
                run.step(1)?;
                run.call_value(f, &[Value::Int(at as i32)])?;
                at = at.saturating_add(by);
            }
            Value::Null
        }
        ("div", [by]) => run.apply(Op::Div, of, by)?,
        ("mod", [by]) => run.apply(Op::Rem, of, by)?,
        _ => return Ok(None),
    }))
}

fn of_date(run: &mut Run<'_, '_>, ms: i64, name: &str, args: &[Value]) -> R<Option<Value>> {
    match (name, args) {
        ("format" | "toString", [Value::Str(pattern)]) => {
            // `format` is of Java's dates, `toString` of Joda's.
            let syntax = PatternSyntax::of(name == "toString");
            match DateFormat::parse_pattern_of(pattern, syntax) {
                Ok(format) => run.text(format.render(ms, None)).map(Some),
                Err(error) => illegal(error.reason().to_owned()),
            }
        }
        ("plus", [days]) => Ok(Some(Value::Date(ms + whole(Some(days)) * 86_400_000))),
        ("minus", [days]) if days.as_i64().is_some() => Ok(Some(Value::Date(ms - whole(Some(days)) * 86_400_000))),
        _ => Ok(None),
    }
}
