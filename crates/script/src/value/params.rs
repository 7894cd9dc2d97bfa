//! The `params` of a request, converted once and shared by its threads.

use super::json::number;
use super::{Lit, Value};
use serde_json::Value as Json;
use std::sync::Arc;

/// A parameter, frozen so that threads may share it.
#[derive(Debug)]
pub(crate) enum Frozen {
    Scalar(Lit),
    List(Vec<Frozen>),
    Map(Vec<(Arc<str>, Frozen)>),
}

impl Frozen {
    fn new(json: &Json) -> Frozen {
        match json {
            Json::Null => Frozen::Scalar(Lit::Null),
            Json::Bool(b) => Frozen::Scalar(Lit::Bool(*b)),
            Json::Number(n) => Frozen::Scalar(number(n)),
            Json::String(s) => Frozen::Scalar(Lit::Str(s.as_str().into())),
            Json::Array(a) => Frozen::List(a.iter().map(Frozen::new).collect()),
            Json::Object(o) => Frozen::Map(o.iter().map(|(k, v)| (k.as_str().into(), Frozen::new(v))).collect()),
        }
    }
    pub(crate) fn value(&self) -> Value {
        match self {
            Frozen::Scalar(lit) => lit.value(),
            Frozen::List(l) => Value::list(l.iter().map(Frozen::value).collect()),
            Frozen::Map(m) => Value::map(m.iter().map(|(k, v)| (Value::Str(k.clone()), v.value()))),
        }
    }
}

/// A script's `params`, converted once and shared.
#[derive(Clone, Debug, Default)]
pub struct Params(Arc<Vec<(Arc<str>, Frozen)>>);

impl Params {
    /// From the request's `params`.
    pub fn from_json(json: &serde_json::Map<String, Json>) -> Params {
        Params(Arc::new(
            json.iter().map(|(k, v)| (k.as_str().into(), Frozen::new(v))).collect(),
        ))
    }
    pub(crate) fn get(&self, name: &str) -> Option<&Frozen> {
        self.0.iter().find(|(k, _)| &**k == name).map(|(_, v)| v)
    }
    /// A parameter that is a text, a number or a truth value, as text.
    pub fn word(&self, name: &str) -> Option<String> {
        match self.get(name)?.value() {
            Value::Str(text) => Some(text.to_string()),
            Value::Bool(b) => Some(b.to_string()),
            other => other
                .as_i64()
                .map(|n| n.to_string())
                .or_else(|| other.as_f64().map(|n| n.to_string())),
        }
    }
    pub(crate) fn all(&self) -> Value {
        Value::map(self.0.iter().map(|(k, v)| (Value::Str(k.clone()), v.value())))
    }
}
