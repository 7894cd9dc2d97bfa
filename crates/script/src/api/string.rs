//! Methods of `String`, `StringBuilder` and `Pattern`. Indexes count UTF-16 units, as Java's do.

use crate::runtime::{R, Run, bounds, illegal};
use crate::value::{Pattern, Value};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// `length()`
pub(crate) fn length(s: &str) -> i32 {
    if s.is_ascii() {
        s.len() as i32
    } else {
        s.encode_utf16().count() as i32
    }
}

/// `hashCode()`
pub(crate) fn hash(s: &str) -> i32 {
    model::text::java_hash(s).cast_signed()
}

/// Compiles a pattern made at run time; that is dear.
pub(crate) fn pattern(run: &mut Run<'_, '_>, source: &str) -> R<Arc<Pattern>> {
    run.step(2_000)?;
    run.alloc(1024)?;
    Pattern::new(source, "").map(Arc::new).or_else(illegal)
}

fn cut(run: &mut Run<'_, '_>, s: &str, from: i64, to: i64) -> R {
    let len = i64::from(length(s));
    if from < 0 || to > len || from > to {
        return bounds(if from < 0 { from } else { to.max(from) }, len as usize);
    }
    if s.is_ascii() {
        return run.text(s.get(from as usize..to as usize).unwrap_or(""));
    }
    let units: Vec<u16> = s.encode_utf16().skip(from as usize).take((to - from) as usize).collect();
    run.text(String::from_utf16_lossy(&units))
}

fn units_before(s: &str, at: Option<usize>) -> Value {
    Value::Int(at.map_or(-1, |at| length(s.get(..at).unwrap_or(""))))
}

/// Methods of a text.
pub(crate) fn call(run: &mut Run<'_, '_>, s: &Arc<str>, name: &str, args: &[Value]) -> R<Option<Value>> {
    run.step(s.len() as u64 / 64)?;
    let texts: Vec<String> = match (name, args) {
        (_, []) | ("substring" | "charAt" | "equals" | "eachMatch" | "padLeft", _) => Vec::new(),
        _ => args.iter().map(|a| run.show(a)).collect::<R<_>>()?,
    };
    let a = texts.first().map_or("", String::as_str);
    let b = texts.get(1).map_or("", String::as_str);
    let int = |i: usize| args.get(i).and_then(Value::as_i64).unwrap_or(0);
    Ok(Some(match (name, args.len()) {
        ("length" | "size", 0) => Value::Int(length(s)),
        ("isEmpty", 0) => Value::Bool(s.is_empty()),
        ("substring", 1) => cut(run, s, int(0), i64::from(length(s)))?,
        ("substring", 2) => cut(run, s, int(0), int(1))?,
        ("charAt", 1) => match usize::try_from(int(0)).ok().and_then(|i| s.chars().nth(i)) {
            Some(c) => Value::Char(c),
            None => return bounds(int(0), s.len()),
        },
        ("indexOf", 1) => units_before(s, s.find(a)),
        ("indexOf", 2) => {
            let from = usize::try_from(int(1)).unwrap_or(0);
            let from = s.char_indices().nth(from).map_or(s.len(), |c| c.0);
            units_before(s, s.get(from..).and_then(|t| t.find(a)).map(|i| i + from))
        }
        ("lastIndexOf", 1) => units_before(s, s.rfind(a)),
        ("contains", 1) => Value::Bool(s.contains(a)),
        ("startsWith", 1) => Value::Bool(s.starts_with(a)),
        ("endsWith", 1) => Value::Bool(s.ends_with(a)),
        ("equals", 1) => Value::Bool(args.first().and_then(Value::as_str) == Some(&**s)),
        ("equalsIgnoreCase", 1) => Value::Bool(s.to_lowercase() == a.to_lowercase()),
        ("compareTo", 1) => Value::Int(super::ops::order(&Value::Str(s.clone()), &Value::str(a))? as i32),
        ("compareToIgnoreCase", 1) => Value::Int(s.to_lowercase().cmp(&a.to_lowercase()) as i32),
        ("hashCode", 0) => Value::Int(hash(s)),
        ("toLowerCase", 0) => run.text(s.to_lowercase())?,
        ("toUpperCase", 0) => run.text(s.to_uppercase())?,
        ("capitalize", 0) if run.groovy() => {
            let mut chars = s.chars();
            let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
            run.text(first + chars.as_str())?
        }
        ("reverse", 0) if run.groovy() => run.text(s.chars().rev().collect::<String>())?,
        ("trim" | "strip", 0) => run.text(s.trim_matches(|c: char| c <= ' '))?,
        ("toString" | "intern", 0) => Value::Str(s.clone()),
        ("concat", 1) => run.text(format!("{s}{a}"))?,
        ("repeat", 1) => {
            let n = usize::try_from(int(0)).unwrap_or(0);
            run.alloc(s.len().saturating_mul(n))?;
            run.text(s.repeat(n))?
        }
        ("toInteger", 0) if run.groovy() => super::statics::parse_int(s)?,
        ("toLong", 0) if run.groovy() => super::statics::parse_long(s)?,
        ("toDouble" | "toFloat", 0) if run.groovy() => super::statics::parse_double(s)?,
        ("chars" | "toCharArray", 0) => {
            run.alloc(s.len() * 24)?;
            Value::list(s.chars().map(Value::Char).collect())
        }
        _ => return replace_or_split(run, s, name, args, a, b),
    }))
}

/// Methods that look for a part or a pattern, and replace it or split the text at it; `a` and `b` are the arguments as texts.
fn replace_or_split(run: &mut Run<'_, '_>, s: &str, name: &str, args: &[Value], a: &str, b: &str) -> R<Option<Value>> {
    let int = |i: usize| args.get(i).and_then(Value::as_i64).unwrap_or(0);
    Ok(Some(match (name, args.len()) {
        ("replace", 2) => {
            let hits = if a.is_empty() { s.len() + 1 } else { s.matches(a).count() };
            run.alloc(s.len() + hits.saturating_mul(b.len()))?;
            run.text(s.replace(a, b))?
        }
        ("replaceAll" | "replaceFirst", 2) => {
            let p = match args.first() {
                Some(Value::Regex(p)) => p.clone(),
                _ => pattern(run, a)?,
            };
            if matches!(args.get(1), Some(Value::Lambda(_))) {
                return illegal("replaceAll with a function is not supported");
            }
            let hits = p.find.find_iter(s).count();
            run.alloc(s.len() + hits.saturating_mul(b.len() + s.len() / 4))?;
            let n = usize::from(name == "replaceFirst");
            run.text(p.find.replacen(s, n, b))?
        }
        ("matches", 1) => {
            let p = match args.first() {
                Some(Value::Regex(p)) => p.clone(),
                _ => pattern(run, a)?,
            };
            Value::Bool(p.full.is_match(s))
        }
        ("split", 1 | 2) | ("tokenize", 1) => {
            let plain = !a.contains(|c: char| "\\[](){}.*+?^$|".contains(c));
            let mut parts: Vec<String> = if name == "tokenize" {
                s.split(|c| a.contains(c))
                    .filter(|p| !p.is_empty())
                    .map(str::to_owned)
                    .collect()
            } else if plain && !a.is_empty() {
                s.split(a).map(str::to_owned).collect()
            } else {
                pattern(run, a)?.find.split(s).map(str::to_owned).collect()
            };
            if name == "split" {
                while parts.len() > 1 && parts.last().is_some_and(String::is_empty) {
                    parts.pop();
                }
            }
            strings(run, parts)?
        }
        ("splitOnToken", 1 | 2) if !a.is_empty() => {
            let parts = match int(1) {
                n if n > 0 => s.splitn(n as usize, a).map(str::to_owned).collect(),
                _ => s.split(a).map(str::to_owned).collect(),
            };
            strings(run, parts)?
        }
        _ => return Ok(None),
    }))
}

fn strings(run: &mut Run<'_, '_>, parts: Vec<String>) -> R {
    run.alloc(parts.iter().map(|p| p.len() + 16).sum())?;
    run.list(parts.iter().map(|p| Value::str(p)).collect())
}

/// Methods of a builder.
pub(crate) fn call_builder(
    run: &mut Run<'_, '_>,
    b: &Rc<RefCell<String>>,
    of: &Value,
    name: &str,
    args: &[Value],
) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("append", [v]) => {
            let text = run.show(v)?;
            b.borrow_mut().push_str(&text);
            of.clone()
        }
        ("length", []) => Value::Int(length(&b.borrow())),
        ("reverse", []) => {
            let text: String = b.borrow().chars().rev().collect();
            *b.borrow_mut() = text;
            of.clone()
        }
        ("setLength", [Value::Int(n)]) => {
            let text: String = b.borrow().chars().take(usize::try_from(*n).unwrap_or(0)).collect();
            *b.borrow_mut() = text;
            Value::Null
        }
        ("toString", []) => {
            let text = b.borrow().clone();
            run.text(text)?
        }
        _ => return Ok(None),
    }))
}

/// Methods of a pattern.
pub(crate) fn call_regex(run: &mut Run<'_, '_>, p: &Arc<Pattern>, name: &str, args: &[Value]) -> R<Option<Value>> {
    let [text] = args else {
        return Ok((name == "pattern").then(|| Value::Str(p.source.clone())));
    };
    let text = run.show(text)?;
    Ok(Some(match name {
        "split" => strings(run, p.find.split(&text).map(str::to_owned).collect())?,
        "matches" | "test" => Value::Bool(p.find.is_match(&text)),
        "asPredicate" => Value::Regex(p.clone()),
        _ => return Ok(None),
    }))
}
