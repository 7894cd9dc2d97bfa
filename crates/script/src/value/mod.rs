//! The values of a running script. Operators and methods are in `api`.

mod collections;
mod doc_values;
mod equality;
mod json;
mod params;
mod print;

pub(crate) use collections::Entries;
pub use collections::{ListCell, MapCell};
pub use doc_values::DocValues;
pub(crate) use equality::equal;
pub use params::Params;
pub(crate) use print::{iso, print};

use collections::entries;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// How deep values may nest when they are written, compared or printed.
const MAX_NEST: usize = 100;

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
            Value::Set(s) => Some(s.0.borrow().items().iter().map(|e| e.0.clone()).collect()),
            _ => None,
        }
    }

    /// As Java prints it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        print(self, &mut out, 0, 1 << 20);
        out
    }

    /// The value of an entry: its key, read in its map.
    pub(crate) fn of_entry(entry: &(Value, Value)) -> Value {
        match &entry.0 {
            Value::Map(m) => m.0.borrow().get(&entry.1).cloned().unwrap_or_default(),
            _ => Value::Null,
        }
    }
    /// Groovy's truth.
    pub(crate) fn is_truthy(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(b) => *b,
            Value::Str(s) => !s.is_empty(),
            Value::List(l) => !l.0.borrow().is_empty(),
            Value::Map(m) | Value::Set(m) => m.0.borrow().len() > 0,
            v => v.as_f64().is_none_or(|n| n != 0.0),
        }
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
