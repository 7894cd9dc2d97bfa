//! Classes: constants, static methods, constructors, and the names of exceptions.

use super::ops::order;
use crate::runtime::{R, Run, fault, illegal, null, number_format};
use crate::value::{Lit, Value};
use model::ErrorKind;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Classes known by nothing but static methods.
pub(crate) fn is_class(name: &str) -> bool {
    matches!(
        name,
        "Math" | "Collections" | "Arrays" | "Objects" | "System" | "Collectors" | "Comparator"
    )
}

/// A constant of a class.
pub(crate) fn constant(class: &str, name: &str) -> Option<Lit> {
    Some(match (class, name) {
        ("Integer", "MAX_VALUE") => Lit::Int(i32::MAX),
        ("Integer", "MIN_VALUE") => Lit::Int(i32::MIN),
        ("Long", "MAX_VALUE") => Lit::Long(i64::MAX),
        ("Long", "MIN_VALUE") => Lit::Long(i64::MIN),
        ("Double", "MAX_VALUE") => Lit::Double(f64::MAX),
        ("Double", "MIN_VALUE") => Lit::Double(5e-324),
        ("Double", "NaN") => Lit::Double(f64::NAN),
        ("Double", "POSITIVE_INFINITY") => Lit::Double(f64::INFINITY),
        ("Double", "NEGATIVE_INFINITY") => Lit::Double(f64::NEG_INFINITY),
        ("Float", "MAX_VALUE") => Lit::Float(f32::MAX),
        ("Math" | "StrictMath", "PI") => Lit::Double(std::f64::consts::PI),
        ("Math" | "StrictMath", "E") => Lit::Double(std::f64::consts::E),
        ("Boolean", "TRUE") => Lit::Bool(true),
        ("Boolean", "FALSE") => Lit::Bool(false),
        _ => return None,
    })
}

pub(crate) fn parse_int(s: &str) -> R {
    s.parse().map(Value::Int).or_else(|_| number_format(s))
}
pub(crate) fn parse_long(s: &str) -> R {
    s.parse().map(Value::Long).or_else(|_| number_format(s))
}
pub(crate) fn parse_double(s: &str) -> R {
    s.trim().parse().map(Value::Double).or_else(|_| number_format(s))
}

/// `Class.name(args)`, or `Class.NAME`.
pub(crate) fn call(run: &mut Run<'_, '_>, class: &str, name: &str, args: &[Value]) -> R {
    for methods in [call_scalar, call_collection, call_other] {
        if let Some(value) = methods(run, class, name, args)? {
            return Ok(value);
        }
    }
    illegal(format!("static method [{class}, {name}/{}] not found", args.len()))
}

/// The first argument as text.
fn first_text(run: &mut Run<'_, '_>, name: &str, first: Option<&Value>) -> R<String> {
    match first {
        None | Some(Value::Null) if name != "valueOf" => null("Cannot parse null string"),
        Some(v) => run.show(v),
        None => Ok(String::new()),
    }
}

/// Numbers, texts, booleans and characters.
fn call_scalar(run: &mut Run<'_, '_>, class: &str, name: &str, args: &[Value]) -> R<Option<Value>> {
    let first = args.first();
    Ok(Some(match (class, name, args.len()) {
        ("Integer", "parseInt" | "valueOf", 1) => parse_int(&first_text(run, name, first)?)?,
        ("Long", "parseLong" | "valueOf", 1) => parse_long(&first_text(run, name, first)?)?,
        ("Double" | "Float", "parseDouble" | "parseFloat" | "valueOf", 1) => parse_double(&first_text(run, name, first)?)?,
        ("Boolean", "parseBoolean" | "valueOf", 1) => Value::Bool(first_text(run, name, first)?.eq_ignore_ascii_case("true")),
        ("String", "valueOf" | "copyValueOf", 1) | ("Integer" | "Long" | "Double" | "Boolean" | "Objects", "toString", 1) => {
            let s = first_text(run, name, first)?;
            run.text(s)?
        }
        ("String", "join", _) => {
            let separator = args.first().cloned().unwrap_or_default();
            let items = match args {
                [_, list @ (Value::List(_) | Value::Set(_))] => list.items().unwrap_or_default(),
                _ => args.get(1..).unwrap_or(&[]).to_vec(),
            };
            let list = run.list(items)?;
            return super::call(run, &list, "join", &[separator]).map(Some);
        }
        ("String", "format", 1..) => {
            let s = format(run, args)?;
            run.text(s)?
        }
        ("Integer" | "Long" | "Double" | "String" | "Boolean" | "Character", "compare", 2) => {
            Value::Int(order(&args[0], &args[1])? as i32)
        }
        ("Integer" | "Long" | "Double", "sum", 2) => run.apply(crate::ast::Op::Add, &args[0], &args[1])?,
        ("Integer" | "Long" | "Double", "max" | "min", 2) => {
            let bigger = order(&args[0], &args[1])?.is_gt();
            args[usize::from(bigger != (name == "max"))].clone()
        }
        ("Double", "isNaN", 1) => Value::Bool(first.and_then(Value::as_f64).is_some_and(f64::is_nan)),
        ("Character", "isDigit" | "isLetter" | "isUpperCase" | "isLowerCase" | "isWhitespace" | "isLetterOrDigit", 1) => {
            let c = first_text(run, name, first)?.chars().next().unwrap_or(' ');
            Value::Bool(match name {
                "isDigit" => c.is_numeric(),
                "isLetter" => c.is_alphabetic(),
                "isUpperCase" => c.is_uppercase(),
                "isLowerCase" => c.is_lowercase(),
                "isWhitespace" => c.is_whitespace(),
                _ => c.is_alphanumeric(),
            })
        }
        _ => return Ok(None),
    }))
}

/// Lists, comparators, collectors and `Objects`.
fn call_collection(run: &mut Run<'_, '_>, class: &str, name: &str, args: &[Value]) -> R<Option<Value>> {
    let first = args.first();
    Ok(Some(match (class, name, args.len()) {
        ("Collections", "sort" | "max" | "min" | "reverse", 1..) => {
            let Some(list) = first else {
                return illegal("a list is needed");
            };
            if name == "reverse" {
                if let Value::List(l) = list {
                    l.0.borrow_mut().reverse();
                }
                return Ok(Some(Value::Null));
            }
            return super::call(run, list, name, args.get(1..).unwrap_or(&[])).map(Some);
        }
        ("Collections", "emptyList", 0) => Value::list(Vec::new()),
        ("Collections", "emptyMap", 0) => Value::map([]),
        ("Collections", "singletonList", 1) | ("Arrays" | "List", "asList" | "of", _) => match args {
            [list @ Value::List(_)] => list.clone(),
            _ => run.list(args.to_vec())?,
        },
        ("Collections" | "Comparator", "reverseOrder", 0) => Value::Tag("reverseOrder"),
        ("Comparator", "naturalOrder", 0) => Value::Null,
        ("Comparator", "comparing" | "comparingInt" | "comparingLong" | "comparingDouble", 1) => args[0].clone(),
        ("Objects", "equals", 2) => Value::Bool(run.equal(&args[0], &args[1])?),
        ("Objects", "isNull", 1) => Value::Bool(matches!(first, Some(Value::Null))),
        ("Objects", "nonNull", 1) => Value::Bool(!matches!(first, Some(Value::Null))),
        ("Objects", "hash", _) => {
            let mut h = 1i32;
            for v in args {
                let n = super::call(run, v, "hashCode", &[])?.as_i64().unwrap_or(0);
                h = h.wrapping_mul(31).wrapping_add(n as i32);
            }
            Value::Int(h)
        }
        ("Objects", "requireNonNull", 1..) => match first {
            Some(Value::Null) | None => return null("null"),
            Some(v) => v.clone(),
        },
        ("Collectors", "toList", 0) => Value::Tag("toList"),
        ("Collectors", "toSet", 0) => Value::Tag("toSet"),
        ("Collectors", "joining", 0) => Value::Tag("joining"),
        ("Collectors", "joining", 1) => args[0].clone(),
        _ => return Ok(None),
    }))
}

/// Clocks, dates, patterns and `Debug`.
fn call_other(run: &mut Run<'_, '_>, class: &str, name: &str, args: &[Value]) -> R<Option<Value>> {
    let first = args.first();
    Ok(Some(match (class, name, args.len()) {
        ("System", "currentTimeMillis", 0) if run.groovy() => Value::Long(run.host.now_millis()),
        ("System", "nanoTime", 0) if run.groovy() => Value::Long(run.host.now_millis().wrapping_mul(1_000_000)),
        ("ZonedDateTime" | "Instant" | "LocalDate" | "LocalDateTime", "parse", 1..) => {
            let s = first_text(run, name, first)?;
            match super::date::parse(&s) {
                Some(ms) => Value::Date(ms),
                None => return illegal(format!("Text '{s}' could not be parsed")),
            }
        }
        ("Instant", "ofEpochMilli", 1) | ("ZonedDateTime" | "LocalDateTime", "ofInstant", 2) => match first {
            Some(Value::Date(ms)) => Value::Date(*ms),
            Some(v) => Value::Date(v.as_i64().unwrap_or(0)),
            None => Value::Null,
        },
        ("Instant" | "ZonedDateTime", "now", _) if run.groovy() => Value::Date(run.host.now_millis()),
        ("ZoneId" | "ZoneOffset" | "DateTimeFormatter", _, _) => Value::Tag("UTC"),
        ("ChronoUnit", unit, 0) => match unit {
            "MILLIS" => Value::Tag("MILLIS"),
            "SECONDS" => Value::Tag("SECONDS"),
            "MINUTES" => Value::Tag("MINUTES"),
            "HOURS" => Value::Tag("HOURS"),
            "DAYS" => Value::Tag("DAYS"),
            "WEEKS" => Value::Tag("WEEKS"),
            _ => {
                return illegal(format!("static field [java.time.temporal.ChronoUnit, {unit}] not found"));
            }
        },
        ("Pattern", "compile", 1) => {
            let s = first_text(run, name, first)?;
            Value::Regex(super::string::pattern(run, &s)?)
        }
        ("Debug", "explain", 1) => {
            let s = first_text(run, name, first)?;
            return fault("painless_explain_error", ErrorKind::IllegalArgument, s);
        }
        _ => return Ok(None),
    }))
}

/// `new Class(args)`
pub(crate) fn construct(run: &mut Run<'_, '_>, class: &str, args: &[Value]) -> R {
    run.alloc(64)?;
    if let Some(item) = class.strip_suffix("[]") {
        return array(run, item, args.first());
    }
    Ok(match (class, args) {
        ("ArrayList" | "LinkedList" | "List", []) => Value::list(Vec::new()),
        ("ArrayList" | "LinkedList", [Value::Int(_)]) => Value::list(Vec::new()),
        ("ArrayList" | "LinkedList", [all]) => {
            let items = super::iterate(run, all)?;
            run.list(items)?
        }
        ("HashMap" | "LinkedHashMap" | "TreeMap" | "Map", [] | [Value::Int(_)]) => Value::map([]),
        ("HashMap" | "LinkedHashMap" | "TreeMap", [Value::Map(m)]) => {
            let items = m.0.borrow().items().to_vec();
            run.alloc(items.len() * 48)?;
            Value::map(items)
        }
        ("HashSet" | "LinkedHashSet" | "TreeSet" | "Set", [] | [Value::Int(_)]) => Value::set([]),
        ("HashSet" | "LinkedHashSet" | "TreeSet", [all]) => {
            let items = super::iterate(run, all)?;
            run.alloc(items.len() * 48)?;
            Value::set(items)
        }
        ("StringBuilder" | "StringBuffer", _) => {
            let s = match args.first() {
                Some(v @ Value::Str(_)) => run.show(v)?,
                _ => String::new(),
            };
            Value::Builder(Rc::new(RefCell::new(s)))
        }
        ("String", _) => {
            let s = match args.first() {
                Some(v) => run.show(v)?,
                None => String::new(),
            };
            run.text(s)?
        }
        ("Date", []) => Value::Date(run.host.now_millis()),
        ("Date", [v]) => Value::Date(v.as_i64().unwrap_or(0)),
        ("Integer" | "Long" | "Double" | "Float" | "BigDecimal" | "BigInteger", [Value::Str(s)]) => match class {
            "Integer" => parse_int(s)?,
            "Long" | "BigInteger" => parse_long(s)?,
            _ => parse_double(s)?,
        },
        ("Integer" | "Long" | "Double" | "Float" | "BigDecimal" | "BigInteger", [v]) => v.clone(),
        ("GeoPoint", [a, b]) => Value::Geo(a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0)),
        _ if class.ends_with("Exception") || class.ends_with("Error") || class == "Throwable" => {
            exception(run, class, args.first())?
        }
        _ => {
            return illegal(format!("constructor [{class}, <init>/{}] not found", args.len()));
        }
    })
}

/// `new int[n]`: zeros of the type.
fn array(run: &mut Run<'_, '_>, item: &str, length: Option<&Value>) -> R {
    let length = length.and_then(Value::as_i64).and_then(|n| usize::try_from(n).ok());
    let length = length.unwrap_or(0);
    run.alloc(length.saturating_mul(24))?;
    let zero = match item {
        "int" | "short" | "byte" => Value::Int(0),
        "long" => Value::Long(0),
        "float" => Value::Float(0.0),
        "double" => Value::Double(0.0),
        "boolean" => Value::Bool(false),
        _ => Value::Null,
    };
    Ok(Value::list(vec![zero; length]))
}

/// `new IllegalArgumentException(message)`, and others by their names.
fn exception(run: &mut Run<'_, '_>, class: &str, message: Option<&Value>) -> R {
    let package = if class == "NoSuchElementException" {
        "java.util"
    } else {
        "java.lang"
    };
    let message = match message {
        Some(Value::Null) | None => None,
        Some(v) => Some(Arc::from(run.show(v)?)),
    };
    Ok(Value::Exception(Rc::new((format!("{package}.{class}").into(), message))))
}

/// `%s`, `%d`, `%5.2f`, `%05d`, `%x`, `%%`.
fn format(run: &mut Run<'_, '_>, args: &[Value]) -> R<String> {
    let Some((Value::Str(pattern), mut rest)) = args.split_first() else {
        return illegal("a format is needed");
    };
    let spread;
    if let [Value::List(l)] = rest {
        spread = l.0.borrow().clone();
        rest = &spread;
    }
    let mut rest = rest.iter();
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = String::new();
        while let Some(c) = chars.next_if(|c| "0123456789.-+,".contains(*c)) {
            spec.push(c);
        }
        let kind = chars.next().unwrap_or('%');
        if matches!(kind, '%' | 'n') {
            out.push(if kind == 'n' { '\n' } else { '%' });
            continue;
        }
        let Some(v) = rest.next() else {
            return illegal(format!("Format specifier '%{spec}{kind}'"));
        };
        let (width, digits) = spec.split_once('.').unwrap_or((&spec, ""));
        let left = width.contains('-');
        let zero = width.trim_start_matches('-').starts_with('0');
        let width: usize = width.trim_matches(['-', '+', ',']).parse().unwrap_or(0).min(1000);
        let body = match (kind, v.as_f64(), v.as_i64()) {
            ('d', _, Some(n)) => n.to_string(),
            ('x', _, Some(n)) => format!("{n:x}"),
            ('f', Some(n), _) => format!("{n:.*}", digits.parse().unwrap_or(6usize).min(100)),
            ('s' | 'b' | 'c' | 'S', ..) => run.show(v)?,
            _ => return illegal(format!("{kind} != {}", v.class())),
        };
        run.alloc(width + body.len())?;
        out.push_str(&match (left, zero) {
            (true, _) => format!("{body:<width$}"),
            (_, true) => format!("{body:0>width$}"),
            _ => format!("{body:>width$}"),
        });
    }
    Ok(out)
}
