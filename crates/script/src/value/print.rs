//! The text of a value, as Java's `toString` writes it.

use super::{MAX_NEST, Value};
use model::date::civil_from_days;
use std::fmt::Write as _;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Java's text of a value; stops growing past `limit` bytes.
pub(crate) fn print(value: &Value, out: &mut String, depth: usize, limit: usize) {
    if depth > MAX_NEST || out.len() > limit {
        out.push('…');
        return;
    }
    let items = |out: &mut String, all: &mut dyn Iterator<Item = &Value>| {
        out.push('[');
        for (i, v) in all.enumerate() {
            if out.len() > limit {
                break;
            }
            if i > 0 {
                out.push_str(", ");
            }
            print(v, out, depth + 1, limit);
        }
        out.push(']');
    };
    // Writing to a string can't fail.
    let _ = match value {
        Value::Null => out.write_str("null"),
        Value::Bool(b) => write!(out, "{b}"),
        Value::Int(n) => write!(out, "{n}"),
        Value::Long(n) => write!(out, "{n}"),
        Value::Float(n) => out.write_str(&java_float(f64::from(*n), &format!("{n:e}"))),
        Value::Double(n) => out.write_str(&java_float(*n, &format!("{n:e}"))),
        Value::Char(c) => write!(out, "{c}"),
        Value::Str(s) => out.write_str(s),
        Value::List(l) => {
            items(out, &mut l.0.borrow().iter());
            Ok(())
        }
        Value::Set(s) => {
            items(out, &mut s.0.borrow().items().iter().map(|e| &e.0));
            Ok(())
        }
        Value::Map(m) => {
            out.push('{');
            for (i, (k, v)) in m.0.borrow().items().iter().enumerate() {
                if out.len() > limit {
                    break;
                }
                if i > 0 {
                    out.push_str(", ");
                }
                print(k, out, depth + 1, limit);
                out.push('=');
                print(v, out, depth + 1, limit);
            }
            out.push('}');
            Ok(())
        }
        Value::Date(ms) => out.write_str(&iso(*ms)),
        Value::Geo(lat, lon) => write!(out, "{lat}, {lon}"),
        Value::Regex(p) => out.write_str(&p.source),
        Value::Exception(e) => match &e.1 {
            Some(message) => write!(out, "{}: {message}", e.0),
            None => out.write_str(&e.0),
        },
        Value::Builder(b) => out.write_str(&b.borrow()),
        Value::Entry(e) => {
            print(&e.1, out, depth + 1, limit);
            out.push('=');
            if let Value::Map(m) = &e.0 {
                print(&m.0.borrow().get(&e.1).cloned().unwrap_or_default(), out, depth + 1, limit);
            }
            Ok(())
        }
        Value::Tag(t) => out.write_str(t),
        other => write!(out, "{}@1", other.class()),
    };
}

/// `Double.toString`: always a fraction, an exponent outside 0.001..10^7. `science` is Rust's `{:e}`.
fn java_float(n: f64, science: &str) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    if n == 0.0 {
        return if n.is_sign_negative() { "-0.0".into() } else { "0.0".into() };
    }
    let (digits, exponent) = science.split_once('e').unwrap_or((science, "0"));
    if (1e-3..1e7).contains(&n.abs()) {
        // Shortest digits, moved by the exponent.
        let sign = if digits.starts_with('-') { "-" } else { "" };
        let plain: String = digits.chars().filter(char::is_ascii_digit).collect();
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if exponent < 0 {
            return format!("{sign}0.{}{plain}", "0".repeat((-exponent - 1) as usize));
        }
        let whole = exponent as usize + 1;
        if plain.len() <= whole {
            return format!("{sign}{plain}{}.0", "0".repeat(whole - plain.len()));
        }
        return format!("{sign}{}.{}", &plain[..whole], &plain[whole..]);
    }
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// `2016-01-31T10:20:30.000Z`
pub(crate) fn iso(ms: i64) -> String {
    let (y, m, d) = civil_from_days(ms.div_euclid(DAY));
    let t = ms.rem_euclid(DAY);
    format!(
        "{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}.{:03}Z",
        t / 3_600_000,
        t / 60_000 % 60,
        t / 1000 % 60,
        t % 1000
    )
}
