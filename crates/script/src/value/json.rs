//! The JSON form of a value, in both directions.

use super::{Entries, Lit, MAX_NEST, MapCell, Value};
use model::{Error, ErrorKind};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::rc::Rc;

/// How many values one conversion to JSON may write.
const MAX_NODES: usize = 1 << 20;

impl Value {
    /// The value of a JSON value: whole numbers are ints where they fit, as Java reads them.
    pub fn from_json(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => number(n).value(),
            Json::String(s) => Value::Str(s.as_str().into()),
            Json::Array(a) => Value::list(a.iter().map(Value::from_json).collect()),
            Json::Object(o) => {
                let mut all = Entries::default();
                all.replace(
                    o.iter()
                        .map(|(k, v)| (Value::Str(k.as_str().into()), Value::from_json(v)))
                        .collect(),
                );
                Value::Map(Rc::new(MapCell(RefCell::new(all))))
            }
        }
    }

    /// As JSON; an error for what JSON has no form for and for what nests too deep.
    pub fn to_json(&self) -> model::Result<Json> {
        let mut left = MAX_NODES;
        write(self, 0, &mut left).map_err(|why| Error::new(ErrorKind::IllegalArgument, why))
    }
}

pub(super) fn number(n: &serde_json::Number) -> Lit {
    match n.as_i64() {
        Some(i) => i32::try_from(i).map_or(Lit::Long(i), Lit::Int),
        None => Lit::Double(n.as_f64().unwrap_or(0.0)),
    }
}

fn write(value: &Value, depth: usize, left: &mut usize) -> Result<Json, String> {
    if depth > MAX_NEST {
        return Err("Iterable object is self-referencing itself or nests too deep".into());
    }
    *left = left.checked_sub(1).ok_or("the script's value is too large to be written")?;
    let real = |n: f64, json: Option<serde_json::Number>| json.map(Json::Number).ok_or(format!("cannot write [{n}] as JSON"));
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(n) => Json::from(*n),
        Value::Long(n) => Json::from(*n),
        Value::Float(n) => real(
            f64::from(*n),
            serde_json::Number::from_f64(n.to_string().parse().unwrap_or(f64::from(*n))),
        )?,
        Value::Double(n) => real(*n, serde_json::Number::from_f64(*n))?,
        Value::Str(s) => Json::String(s.to_string()),
        Value::List(l) => Json::Array(
            l.0.borrow()
                .iter()
                .map(|v| write(v, depth + 1, left))
                .collect::<Result<_, _>>()?,
        ),
        Value::Set(s) => Json::Array(
            s.0.borrow()
                .items()
                .iter()
                .map(|e| write(&e.0, depth + 1, left))
                .collect::<Result<_, _>>()?,
        ),
        Value::Map(m) => {
            let m = m.0.borrow();
            let mut out = serde_json::Map::with_capacity(m.len());
            for (k, v) in m.items() {
                let name = match k {
                    Value::Str(s) => s.to_string(),
                    k => k.text(),
                };
                out.insert(name, write(v, depth + 1, left)?);
            }
            Json::Object(out)
        }
        Value::Geo(lat, lon) => serde_json::json!({ "lat": lat, "lon": lon }),
        Value::Char(_) | Value::Date(_) | Value::Builder(_) | Value::Tag(_) => Json::String(value.text()),
        other => {
            return Err(format!(
                "cannot write xcontent for unknown value of type class {}",
                other.class()
            ));
        }
    })
}
