//! Values of a running script: shared lists and maps, JSON in and out, text as Java prints it,
//! equality. Operators are in `run`, methods in `api`.

use model::{Error, ErrorKind};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// How deep values may nest when they are written, compared or printed.
const MAX_NEST: usize = 100;
/// How many values one conversion to JSON may write.
const MAX_NODES: usize = 1 << 20;
/// From how many entries a map keeps an index.
const INDEX_FROM: usize = 16;

/// A value written in the script, shareable between threads.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lit {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Str(Arc<str>),
}

impl Lit {
    pub(crate) fn value(&self) -> Value {
        match self {
            Lit::Null => Value::Null,
            Lit::Bool(b) => Value::Bool(*b),
            Lit::Int(n) => Value::Int(*n),
            Lit::Long(n) => Value::Long(*n),
            Lit::Float(n) => Value::Float(*n),
            Lit::Double(n) => Value::Double(*n),
            Lit::Str(s) => Value::Str(s.clone()),
        }
    }
}

/// A compiled pattern: for finding, and anchored for matching whole texts.
#[derive(Debug)]
pub struct Pattern {
    pub(crate) source: Arc<str>,
    pub(crate) find: regex::Regex,
    pub(crate) full: regex::Regex,
}

impl Pattern {
    pub(crate) fn new(source: &str, flags: &str) -> Result<Pattern, String> {
        let build = |text: &str| {
            regex::RegexBuilder::new(text)
                .case_insensitive(flags.contains('i'))
                .multi_line(flags.contains('m'))
                .dot_matches_new_line(flags.contains('s'))
                .ignore_whitespace(flags.contains('x'))
                .size_limit(1 << 18)
                .nest_limit(64)
                .build()
                .map_err(|e| format!("Error compiling regex: {e}"))
        };
        Ok(Pattern {
            source: source.into(),
            find: build(source)?,
            full: build(&format!("^(?:{source})$"))?,
        })
    }
}

/// The items of a list, shared by whoever holds the list.
#[derive(Debug, Default)]
pub struct ListCell(pub(crate) RefCell<Vec<Value>>);

/// The entries of a map, in the order they came.
#[derive(Debug, Default)]
pub struct MapCell(pub(crate) RefCell<Entries>);

/// Entries with an index once there are many.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    items: Vec<(Value, Value)>,
    index: Option<HashMap<Key, usize>>,
}

/// What of a key decides.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Whole(i64),
    Bits(u64),
    Str(Arc<str>),
}

fn key_of(v: &Value) -> Option<Key> {
    Some(match v {
        Value::Null => Key::Null,
        Value::Bool(b) => Key::Bool(*b),
        Value::Int(n) => Key::Whole(i64::from(*n)),
        Value::Long(n) | Value::Date(n) => Key::Whole(*n),
        Value::Float(n) => Key::Bits(f64::from(*n).to_bits()),
        Value::Double(n) => Key::Bits(n.to_bits()),
        Value::Char(c) => Key::Str(c.to_string().into()),
        Value::Str(s) => Key::Str(s.clone()),
        _ => return None,
    })
}

fn same_key(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => a == b,
        _ => key_of(a).is_some_and(|a| key_of(b) == Some(a)),
    }
}

impl Entries {
    pub(crate) fn items(&self) -> &[(Value, Value)] {
        &self.items
    }
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
    fn find(&self, key: &Value) -> Option<usize> {
        if let Value::Str(s) = key {
            return self.find_str(s);
        }
        match &self.index {
            Some(index) => index.get(&key_of(key)?).copied(),
            None => self.items.iter().position(|(k, _)| same_key(k, key)),
        }
    }
    fn find_str(&self, key: &Arc<str>) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&Key::Str(key.clone())).copied(),
            None => self.items.iter().position(|(k, _)| matches!(k, Value::Str(k) if k == key)),
        }
    }
    pub(crate) fn get(&self, key: &Value) -> Option<&Value> {
        self.items.get(self.find(key)?).map(|e| &e.1)
    }
    pub(crate) fn get_str(&self, key: &Arc<str>) -> Option<&Value> {
        self.items.get(self.find_str(key)?).map(|e| &e.1)
    }
    /// The old value, if there was one. A key that is no scalar is not stored.
    pub(crate) fn put(&mut self, key: Value, value: Value) -> Option<Value> {
        if let Some(entry) = self.find(&key).and_then(|i| self.items.get_mut(i)) {
            return Some(std::mem::replace(&mut entry.1, value));
        }
        let hash = key_of(&key)?;
        if let Some(index) = &mut self.index {
            index.insert(hash, self.items.len());
        }
        self.items.push((key, value));
        if self.index.is_none() && self.items.len() > INDEX_FROM {
            self.reindex();
        }
        None
    }
    fn reindex(&mut self) {
        self.index = (self.items.len() > INDEX_FROM).then(|| {
            self.items
                .iter()
                .enumerate()
                .filter_map(|(i, (k, _))| Some((key_of(k)?, i)))
                .collect()
        });
    }
    pub(crate) fn remove(&mut self, key: &Value) -> Option<Value> {
        let i = self.find(key)?;
        let (_, value) = self.items.remove(i);
        if self.index.is_some() {
            self.reindex();
        }
        Some(value)
    }
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.index = None;
    }
    pub(crate) fn replace(&mut self, items: Vec<(Value, Value)>) {
        self.items = items;
        self.reindex();
    }
}

/// Takes nested containers apart with a stack of its own: scripts may nest very deep.
fn dismantle(mut stack: Vec<Value>) {
    while let Some(value) = stack.pop() {
        match value {
            Value::List(list) => {
                if let Ok(mut cell) = Rc::try_unwrap(list) {
                    stack.append(cell.0.get_mut());
                }
            }
            Value::Map(map) | Value::Set(map) => {
                if let Ok(mut cell) = Rc::try_unwrap(map) {
                    stack.extend(cell.0.get_mut().items.drain(..).map(|(_, v)| v));
                }
            }
            _ => {}
        }
    }
}

impl Drop for ListCell {
    fn drop(&mut self) {
        let items = self.0.get_mut();
        if items.iter().any(Value::is_container) {
            dismantle(std::mem::take(items));
        }
    }
}

impl Drop for MapCell {
    fn drop(&mut self) {
        let entries = self.0.get_mut();
        if entries.items.iter().any(|(_, v)| v.is_container()) {
            dismantle(std::mem::take(&mut entries.items).into_iter().map(|(_, v)| v).collect());
        }
    }
}

/// A value as scripts see it. Lists and maps are shared: a clone is the same list.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true`, `false`
    Bool(bool),
    /// 32 bits
    Int(i32),
    /// 64 bits
    Long(i64),
    /// 32-bit float
    Float(f32),
    /// 64-bit float
    Double(f64),
    /// A character
    Char(char),
    /// Text
    Str(Arc<str>),
    /// `java.util.List`
    List(Rc<ListCell>),
    /// `java.util.Map`, ordered
    Map(Rc<MapCell>),
    /// `java.util.Set`, ordered
    Set(Rc<MapCell>),
    /// A UTC date-time in milliseconds since 1970
    Date(i64),
    /// Latitude and longitude
    Geo(f64, f64),
    /// `doc['f']`, by slot
    Doc(u32),
    /// `doc`
    DocAll,
    /// A compiled pattern
    Regex(Arc<Pattern>),
    /// A closure of the running script
    Lambda(Rc<Closure>),
    /// A caught or constructed exception: class and message
    Exception(Rc<(Arc<str>, Option<Arc<str>>)>),
    /// `StringBuilder`
    Builder(Rc<RefCell<String>>),
    /// `Map.Entry`: the map and the key
    Entry(Rc<(Value, Value)>),
    /// A named constant of Java's (`ChronoUnit.DAYS`, a collector)
    Tag(&'static str),
}

/// A closure: its code, and the frame it was made in.
#[derive(Debug)]
pub struct Closure {
    pub(crate) lambda: u32,
    pub(crate) base: usize,
    pub(crate) frame: u64,
}

impl Value {
    /// A new list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Rc::new(ListCell(RefCell::new(items))))
    }
    /// A new map.
    pub fn map(items: impl IntoIterator<Item = (Value, Value)>) -> Value {
        Value::Map(Rc::new(MapCell(RefCell::new(entries(items)))))
    }
    /// A new set.
    pub fn set(items: impl IntoIterator<Item = Value>) -> Value {
        Value::Set(Rc::new(MapCell(RefCell::new(entries(
            items.into_iter().map(|v| (v, Value::Null)),
        )))))
    }
    /// Text.
    pub fn str(text: &str) -> Value {
        Value::Str(text.into())
    }
    /// Holds other values?
    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Value::List(_) | Value::Map(_) | Value::Set(_))
    }
    /// The number it is, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        Some(match self {
            Value::Int(n) => f64::from(*n),
            Value::Long(n) => *n as f64,
            Value::Float(n) => f64::from(*n),
            Value::Double(n) => *n,
            Value::Char(c) => f64::from(*c as u32),
            _ => return None,
        })
    }
    /// The whole number it is, if it is one.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match self {
            Value::Int(n) => i64::from(*n),
            Value::Long(n) => *n,
            Value::Char(c) => i64::from(*c as u32),
            _ => return None,
        })
    }
    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }
    /// The items of a list or set.
    pub fn items(&self) -> Option<Vec<Value>> {
        match self {
            Value::List(l) => Some(l.0.borrow().clone()),
            Value::Set(s) => Some(s.0.borrow().items.iter().map(|e| e.0.clone()).collect()),
            _ => None,
        }
    }

    /// The value of a JSON value: whole numbers are ints where they fit, as Java reads them.
    pub fn from_json(json: &Json) -> Value {
        match json {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => number(n).value(),
            Json::String(s) => Value::Str(s.as_str().into()),
            Json::Array(a) => Value::list(a.iter().map(Value::from_json).collect()),
            Json::Object(o) => {
                let mut all = Entries {
                    items: o
                        .iter()
                        .map(|(k, v)| (Value::Str(k.as_str().into()), Value::from_json(v)))
                        .collect(),
                    index: None,
                };
                all.reindex();
                Value::Map(Rc::new(MapCell(RefCell::new(all))))
            }
        }
    }

    /// As JSON; an error for what JSON has no form for and for what nests too deep.
    pub fn to_json(&self) -> model::Result<Json> {
        let mut left = MAX_NODES;
        write(self, 0, &mut left).map_err(|why| Error::new(ErrorKind::IllegalArgument, why))
    }

    /// As Java prints it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        print(self, &mut out, 0, 1 << 20);
        out
    }

    /// Java's class of the value, as error messages name it.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "java.lang.Boolean",
            Value::Int(_) => "java.lang.Integer",
            Value::Long(_) => "java.lang.Long",
            Value::Float(_) => "java.lang.Float",
            Value::Double(_) => "java.lang.Double",
            Value::Char(_) => "java.lang.Character",
            Value::Str(_) => "java.lang.String",
            Value::List(_) => "java.util.ArrayList",
            Value::Map(_) => "java.util.HashMap",
            Value::Set(_) => "java.util.HashSet",
            Value::Date(_) => "java.time.ZonedDateTime",
            Value::Geo(..) => "org.elasticsearch.common.geo.GeoPoint",
            Value::Doc(_) => "org.elasticsearch.index.fielddata.ScriptDocValues",
            Value::DocAll => "org.elasticsearch.search.lookup.LeafDocLookup",
            Value::Regex(_) => "java.util.regex.Pattern",
            Value::Lambda(_) => "java.util.function.Function",
            Value::Exception(_) => "java.lang.Exception",
            Value::Builder(_) => "java.lang.StringBuilder",
            Value::Entry(_) => "java.util.Map.Entry",
            Value::Tag(_) => "java.lang.Object",
        }
    }
}

fn entries(items: impl IntoIterator<Item = (Value, Value)>) -> Entries {
    let mut all = Entries::default();
    for (k, v) in items {
        all.put(k, v);
    }
    all
}

fn number(n: &serde_json::Number) -> Lit {
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
                .items
                .iter()
                .map(|e| write(&e.0, depth + 1, left))
                .collect::<Result<_, _>>()?,
        ),
        Value::Map(m) => {
            let m = m.0.borrow();
            let mut out = serde_json::Map::with_capacity(m.items.len());
            for (k, v) in &m.items {
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

/// Java's text of a value; stops growing past `limit` bytes.
pub(crate) fn print(value: &Value, out: &mut String, depth: usize, limit: usize) {
    use std::fmt::Write as _;
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
            items(out, &mut s.0.borrow().items.iter().map(|e| &e.0));
            Ok(())
        }
        Value::Map(m) => {
            out.push('{');
            for (i, (k, v)) in m.0.borrow().items.iter().enumerate() {
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
        Value::Date(ms) => out.write_str(&crate::api::date::iso(*ms)),
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

/// `equals` with numbers compared by value. `left` counts down the comparisons allowed.
pub(crate) fn equal(a: &Value, b: &Value, depth: usize, left: &mut u64) -> bool {
    if depth > MAX_NEST || *left == 0 {
        return false;
    }
    *left -= 1;
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Str(s), Value::Char(c)) | (Value::Char(c), Value::Str(s)) => s.chars().eq([*c]),
        (Value::List(a), Value::List(b)) => {
            Rc::ptr_eq(a, b) || {
                let (a, b) = (a.0.borrow(), b.0.borrow());
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b, depth + 1, left))
            }
        }
        (Value::Map(a), Value::Map(b)) | (Value::Set(a), Value::Set(b)) => {
            Rc::ptr_eq(a, b) || {
                let (a, b) = (a.0.borrow(), b.0.borrow());
                a.len() == b.len()
                    && a.items
                        .iter()
                        .all(|(k, v)| b.get(k).is_some_and(|w| equal(v, w, depth + 1, left)))
            }
        }
        (Value::Date(a), Value::Date(b)) => a == b,
        (Value::Geo(a, b), Value::Geo(c, d)) => a == c && b == d,
        (Value::Lambda(a), Value::Lambda(b)) => Rc::ptr_eq(a, b),
        (Value::Tag(a), Value::Tag(b)) => a == b,
        (Value::Builder(a), Value::Builder(b)) => Rc::ptr_eq(a, b),
        _ => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ => matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a == b),
        },
    }
}

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

/// The values a document has in one field. Hosts fill it; the buffers are kept from document to
/// document. A field without values is best given its typed empty form: Groovy reads a missing
/// number as 0 and a missing string as null.
#[derive(Debug, Default)]
pub enum DocValues {
    /// No values, of no known type.
    #[default]
    Empty,
    /// Whole numbers.
    Longs(Vec<i64>),
    /// Floats.
    Doubles(Vec<f64>),
    /// Booleans.
    Bools(Vec<bool>),
    /// Dates as epoch milliseconds.
    Dates(Vec<i64>),
    /// Keywords.
    Strings(Vec<String>),
    /// Latitude and longitude.
    GeoPoints(Vec<(f64, f64)>),
}

macro_rules! buffers {
    ($($(#[$doc:meta])* $name:ident: $variant:ident = $item:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self) -> &mut Vec<$item> {
            if let DocValues::$variant(all) = self {
                all.clear();
            } else {
                *self = DocValues::$variant(Vec::new());
            }
            match self {
                DocValues::$variant(all) => all,
                _ => unreachable!("just set"),
            }
        }
    )*};
}

impl DocValues {
    buffers! {
        /// Becomes `Longs`, empty, and gives its buffer.
        longs: Longs = i64;
        /// Becomes `Doubles`, empty, and gives its buffer.
        doubles: Doubles = f64;
        /// Becomes `Bools`, empty, and gives its buffer.
        bools: Bools = bool;
        /// Becomes `Dates`, empty, and gives its buffer.
        dates: Dates = i64;
        /// Becomes `Strings`, empty, and gives its buffer.
        strings: Strings = String;
        /// Becomes `GeoPoints`, empty, and gives its buffer.
        geo_points: GeoPoints = (f64, f64);
    }
    /// No values, the buffer kept.
    pub fn clear(&mut self) {
        match self {
            DocValues::Empty => {}
            DocValues::Longs(v) | DocValues::Dates(v) => v.clear(),
            DocValues::Doubles(v) => v.clear(),
            DocValues::Bools(v) => v.clear(),
            DocValues::Strings(v) => v.clear(),
            DocValues::GeoPoints(v) => v.clear(),
        }
    }
    /// How many values.
    pub fn len(&self) -> usize {
        match self {
            DocValues::Empty => 0,
            DocValues::Longs(v) | DocValues::Dates(v) => v.len(),
            DocValues::Doubles(v) => v.len(),
            DocValues::Bools(v) => v.len(),
            DocValues::Strings(v) => v.len(),
            DocValues::GeoPoints(v) => v.len(),
        }
    }
    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// One value.
    pub fn get(&self, i: usize) -> Option<Value> {
        match self {
            DocValues::Empty => None,
            DocValues::Longs(v) => v.get(i).copied().map(Value::Long),
            DocValues::Dates(v) => v.get(i).copied().map(Value::Date),
            DocValues::Doubles(v) => v.get(i).copied().map(Value::Double),
            DocValues::Bools(v) => v.get(i).copied().map(Value::Bool),
            DocValues::Strings(v) => v.get(i).map(|s| Value::str(s)),
            DocValues::GeoPoints(v) => v.get(i).map(|p| Value::Geo(p.0, p.1)),
        }
    }
}
