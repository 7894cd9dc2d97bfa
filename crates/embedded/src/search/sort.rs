//! Sort keys: how each is read for a document, compared, and shown.

use super::nested_sort::{Children, Levels};
use crate::plan::columns::Column;
use crate::plan::scripts::{Bound, Script};
use crate::plan::{Context, Target};
use crate::searchable::{IndexView, SegmentView};
use dsl::query::MultiValueMode;
use dsl::search::{FieldSort, ScriptSortKind, Sort, SortBy};
use mapping::FieldValue;
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tantivy::DocId;
use tantivy::columnar::StrColumn;

/// One key of one document.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// No string there; always last, or first if so asked.
    None {
        /// Before everything.
        first: bool,
    },
    /// Whole numbers, dates, positions.
    Int(i64),
    /// Whole numbers of `unsigned_long`.
    Unsigned(u64),
    /// Fractions.
    Float(f64),
    /// Scores.
    Score(f32),
    /// Strings.
    Text(Arc<str>),
    /// Addresses.
    Ip(Ipv6Addr),
}

/// Compares two keys of one sort.
pub fn compare(a: &Key, b: &Key, ascending: bool) -> Ordering {
    let order = match (a, b) {
        (Key::None { first: x }, Key::None { .. }) if *x => Ordering::Equal,
        (Key::None { .. }, Key::None { .. }) => Ordering::Equal,
        (Key::None { first }, _) => return if *first { Ordering::Less } else { Ordering::Greater },
        (_, Key::None { first }) => return if *first { Ordering::Greater } else { Ordering::Less },
        (Key::Text(a), Key::Text(b)) => a.cmp(b),
        (Key::Ip(a), Key::Ip(b)) => a.cmp(b),
        (Key::Int(a), Key::Int(b)) => a.cmp(b),
        (Key::Unsigned(a), Key::Unsigned(b)) => a.cmp(b),
        (a, b) => number(a).total_cmp(&number(b)),
    };
    if ascending { order } else { order.reverse() }
}

fn number(key: &Key) -> f64 {
    match key {
        Key::Int(n) => *n as f64,
        Key::Unsigned(n) => *n as f64,
        Key::Float(n) => *n,
        Key::Score(n) => f64::from(*n),
        Key::None { .. } | Key::Text(_) | Key::Ip(_) => 0.0,
    }
}

impl Key {
    /// As `sort` of a hit shows it.
    pub fn render(&self) -> Value {
        match self {
            Key::None { .. } => Value::Null,
            Key::Int(n) => (*n).into(),
            Key::Unsigned(n) => (*n).into(),
            Key::Float(n) if n.is_infinite() => if *n > 0.0 { "Infinity" } else { "-Infinity" }.into(),
            Key::Float(n) => (*n).into(),
            Key::Score(n) => n.to_string().parse::<f64>().map_or(Value::Null, Value::from),
            Key::Text(text) => (**text).into(),
            Key::Ip(ip) => ip.to_ipv4_mapped().map_or_else(|| ip.to_string(), |v4| v4.to_string()).into(),
        }
    }
}

/// A sort compiled for one index.
pub struct Plan {
    by: By,
    /// Smallest first.
    pub ascending: bool,
}

enum By {
    Score,
    /// The place in its index.
    Doc,
    /// The place among those of all indices of the search.
    ShardDoc,
    Field(Box<FieldKey>),
    /// The same for all documents of an index.
    Constant(Key),
    Script {
        script: Script,
        text: bool,
        mode: MultiValueMode,
        nested: Option<Levels>,
    },
    Geo {
        path: String,
        distance: Distance,
        nested: Option<Levels>,
    },
    Type,
    SeqNo,
}

/// How far places are from points.
#[derive(Clone)]
struct Distance {
    points: Vec<(f64, f64)>,
    unit: f64,
    mode: MultiValueMode,
    arc: bool,
}

impl Distance {
    /// Of one document's places, or those of its nested documents.
    fn of(&self, places: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
        let far = |at: (f64, f64), from: &(f64, f64)| {
            if self.arc {
                crate::plan::haversine(*from, at)
            } else {
                plane(*from, at)
            }
        };
        let mut all: Vec<f64> = places
            .flat_map(|at| self.points.iter().map(move |from| far(at, from)))
            .collect();
        crate::plan::pick(self.mode, &mut all).map(|metres| metres / self.unit)
    }
}

/// As if the world were flat around the two, with the mean radius of the earth.
fn plane(a: (f64, f64), b: (f64, f64)) -> f64 {
    let x = (b.1 - a.1).to_radians() * ((a.0 + b.0) / 2.0).to_radians().cos();
    let y = (b.0 - a.0).to_radians();
    x.hypot(y) * 6_371_008.771_4
}

struct FieldKey {
    path: String,
    mode: MultiValueMode,
    missing: Option<Value>,
    as_float: bool,
    as_date: bool,
    /// Its numbers have 32 bits: so do the ends that missing values are sorted to.
    narrow: bool,
    /// Whole numbers up to 2^64 - 1.
    unsigned: bool,
    /// Milliseconds that are to be shown and compared as nanoseconds.
    to_nanos: bool,
    /// Nothing stands for missing values.
    bare: bool,
    format: Option<model::date::DateFormat>,
    nested: Option<Levels>,
}

/// A key's reader in one segment.
pub struct Reader {
    by: ReadBy,
    ascending: bool,
}

enum ReadBy {
    Score,
    Doc(i64),
    Constant(Key),
    Column {
        column: Option<Column>,
        mode: MultiValueMode,
        missing: Key,
        float: bool,
        children: Option<Children>,
        id: bool,
        to_nanos: bool,
    },
    Script {
        bound: Bound,
        text: bool,
        /// What is no string is refused.
        strict: bool,
        mode: MultiValueMode,
        children: Option<Children>,
        missing: Key,
    },
    Geo {
        column: Option<Column>,
        distance: Distance,
        children: Option<Children>,
    },
}

impl Plan {
    /// Compiles one key for root documents.
    ///
    /// # Errors
    /// Fields that are not mapped or cannot be sorted by.
    pub fn new(view: &IndexView, sort: &Sort, cx: &Context<'_>) -> Result<Plan> {
        Plan::within(view, sort, cx, None)
    }

    /// Compiles one key for the documents of a nested path (or roots).
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn within(view: &IndexView, sort: &Sort, cx: &Context<'_>, scope: Option<&str>) -> Result<Plan> {
        let ascending = sort.ascending;
        let by = match &sort.by {
            SortBy::Score => By::Score,
            SortBy::Doc => By::Doc,
            SortBy::ShardDoc => By::ShardDoc,
            SortBy::Field(field) if field.field == "_doc" => By::Doc,
            SortBy::Field(field) if field.field == "_score" => By::Score,
            SortBy::Field(field) if field.field == "_type" => By::Type,
            SortBy::Field(field) if field.field == "_index" => {
                check_mode(view, field)?;
                By::Constant(Key::Text(view.name.as_str().into()))
            }
            SortBy::Field(field) if field.field == "_seq_no" => By::SeqNo,
            SortBy::Field(field) => field_key(view, field, ascending, cx, scope)?,
            SortBy::Script {
                script,
                kind,
                mode,
                nested,
            } => By::Script {
                script: Script::new(view, script, cx)?,
                text: *kind == ScriptSortKind::String,
                mode: mode.unwrap_or(if ascending { MultiValueMode::Min } else { MultiValueMode::Max }),
                nested: Levels::named(view, nested.as_ref(), scope, cx)?,
            },
            SortBy::GeoDistance {
                field,
                points,
                unit,
                mode,
                arc,
                ignore_unmapped,
                nested,
            } => {
                if let Some((lat, lon)) = points
                    .iter()
                    .find(|(lat, lon)| !view.typed && (lat.abs() > 90.0 || lon.abs() > 180.0))
                {
                    let (what, value) = if lat.abs() > 90.0 {
                        ("latitude", lat)
                    } else {
                        ("longitude", lon)
                    };
                    return Err(Error::illegal(format!(
                        "illegal {what} value [{value:?}] for [GeoDistanceSort] for field [{field}]."
                    )));
                }
                let Some(target) = Target::of(view, field) else {
                    if *ignore_unmapped {
                        return Ok(Plan {
                            by: By::Constant(Key::Float(f64::INFINITY)),
                            ascending,
                        });
                    }
                    return Err(Error::illegal(format!(
                        "failed to find mapper for [{field}] for geo distance based sort"
                    )));
                };
                if target.kind.kind != mapping::Kind::GeoPoint && !view.typed {
                    return Err(Error::illegal(format!(
                        "field [{field}] of type [{}] has no places that a distance could be measured to",
                        target.kind.wire()
                    )));
                }
                if nested.is_some() && *mode == Some(MultiValueMode::Median) && !view.typed {
                    return Err(Error::illegal("Unsupported sort mode: MEDIAN"));
                }
                // The way of Lucene that serves the plain case knows no plane.
                let plain = points.len() == 1
                    && ascending
                    && unit == "m"
                    && nested.is_none()
                    && mode.is_none_or(|mode| mode == MultiValueMode::Min);
                By::Geo {
                    path: target.path.to_owned(),
                    distance: Distance {
                        points: points.clone(),
                        unit: unit_metres(unit),
                        mode: mode.unwrap_or(if ascending { MultiValueMode::Min } else { MultiValueMode::Max }),
                        arc: *arc || plain,
                    },
                    nested: Levels::named(view, nested.as_ref(), scope, cx)?,
                }
            }
        };
        Ok(Plan { by, ascending })
    }

    /// Whether it sorts by `unsigned_long`; `None` where there is no field.
    pub(super) fn is_unsigned(&self) -> Option<bool> {
        match &self.by {
            By::Field(key) => Some(key.unsigned),
            _ => None,
        }
    }

    /// Whether the key needs scores.
    pub fn needs_scores(&self) -> bool {
        matches!(self.by, By::Score)
    }

    /// Sorting by score.
    pub fn is_score(&self) -> bool {
        matches!(self.by, By::Score)
    }

    /// The same, with no key where a document has no value.
    pub(super) fn bare(mut self) -> Plan {
        if let By::Field(key) = &mut self.by {
            key.bare = true;
        }
        self
    }

    /// The column of a relation's ids in a segment, if that is what is sorted by: its name and itself.
    ///
    /// # Errors
    /// Unreadable files.
    pub(super) fn relation(&self, view: &IndexView, segment: &SegmentView) -> Result<Option<(&str, Option<StrColumn>)>> {
        let By::Field(key) = &self.by else { return Ok(None) };
        let Some(target) = Target::valued(view, &key.path).filter(Target::is_relation) else {
            return Ok(None);
        };
        let column = match Column::open(segment, &target)? {
            Some(Column::Str(strings)) => Some(strings),
            _ => None,
        };
        Ok(Some((key.path.as_str(), column)))
    }

    /// The column of a field of strings, where its values are the keys as they stand.
    pub(super) fn strings<'v>(&self, view: &'v IndexView) -> Option<&'v str> {
        let By::Field(key) = &self.by else { return None };
        let (path, kind) = view.mapping.resolve(&key.path)?;
        let slot = view.schema.slot(path)?;
        if kind.kind.is_keyword() && key.nested.is_none() && key.missing.is_none() {
            slot.column.as_deref()
        } else {
            None
        }
    }

    /// Where a segment begins that has `first` documents before it in the `no`th index of the search: a place among those
    /// of all indices, where the key is to tell them apart.
    pub fn base(&self, no: usize, first: u64) -> u64 {
        match self.by {
            By::ShardDoc => (no as u64) << 32 | first,
            _ => first,
        }
    }

    /// The key's reader in a segment whose first document is the `base`th of the index.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn open(&self, view: &IndexView, segment: &SegmentView, base: u64) -> Result<Reader> {
        let by = match &self.by {
            By::Score => ReadBy::Score,
            By::Doc | By::ShardDoc => ReadBy::Doc(i64::try_from(base).unwrap_or(0)),
            By::Type => {
                let column = segment.reader.fast_fields().str("_type").map_err(crate::plan::node::broken)?;
                ReadBy::Column {
                    column: column.map(Column::Str),
                    mode: MultiValueMode::Min,
                    missing: Key::Text("_doc".into()),
                    float: false,
                    children: None,
                    id: false,
                    to_nanos: false,
                }
            }
            By::Constant(key) => ReadBy::Constant(key.clone()),
            By::SeqNo => {
                let column = segment
                    .reader
                    .fast_fields()
                    .u64("_seq_no")
                    .map_err(crate::plan::node::broken)?;
                ReadBy::Column {
                    column: Some(Column::U64(column)),
                    mode: MultiValueMode::Min,
                    missing: Key::Int(-1),
                    float: false,
                    children: None,
                    id: false,
                    to_nanos: false,
                }
            }
            By::Script {
                script,
                text,
                mode,
                nested,
            } => ReadBy::Script {
                bound: script.open(segment)?,
                text: *text,
                strict: !view.typed,
                mode: *mode,
                children: nested.as_ref().map(|levels| levels.open(view, segment)).transpose()?,
                missing: if *text {
                    Key::None { first: false }
                } else {
                    Key::Float(if self.ascending { f64::MAX } else { f64::MIN })
                },
            },
            By::Geo { path, distance, nested } => ReadBy::Geo {
                column: Target::of(view, path)
                    .map(|t| Column::open(segment, &t))
                    .transpose()?
                    .flatten(),
                distance: distance.clone(),
                children: nested.as_ref().map(|levels| levels.open(view, segment)).transpose()?,
            },
            // 2015 indexed no id by itself: a sort by it found nothing.
            By::Field(key) if key.path == "_id" && view.typed => ReadBy::Column {
                column: None,
                mode: MultiValueMode::Min,
                missing: Key::None { first: false },
                float: false,
                children: None,
                id: false,
                to_nanos: false,
            },
            By::Field(key) if key.path == "_id" || key.path == "_uid" => {
                let column = segment.reader.fast_fields().str("_id").map_err(crate::plan::node::broken)?;
                ReadBy::Column {
                    column: column.map(Column::Str),
                    mode: MultiValueMode::Min,
                    missing: Key::None { first: false },
                    float: false,
                    children: None,
                    id: false,
                    to_nanos: false,
                }
            }
            By::Field(key) => {
                let target = Target::valued(view, &key.path);
                let column = target.map(|t| Column::open(segment, &t)).transpose()?.flatten();
                let text = target.is_some_and(|t| t.has_string_terms() || t.kind.kind == mapping::Kind::Ip);
                let ip = target.is_some_and(|t| t.kind.kind == mapping::Kind::Ip);
                let children = key.nested.as_ref().map(|levels| levels.open(view, segment)).transpose()?;
                let float = key.as_float || target.is_some_and(|t| t.kind.kind.is_float()) && !key.as_date;
                ReadBy::Column {
                    column,
                    mode: key.mode,
                    missing: match self.missing(key, text, float)? {
                        _ if key.bare => Key::None { first: false },
                        Key::Text(text) if ip => Key::Ip(address(&text)?),
                        missing => missing,
                    },
                    float,
                    children,
                    id: false,
                    to_nanos: key.to_nanos,
                }
            }
        };
        Ok(Reader {
            by,
            ascending: self.ascending,
        })
    }

    fn missing(&self, key: &FieldKey, text: bool, float: bool) -> Result<Key> {
        let first = match key.missing.as_ref().and_then(Value::as_str) {
            Some("_first") => true,
            Some("_last") | None => match &key.missing {
                Some(Value::Null) | None => false,
                Some(Value::String(_)) => false,
                Some(value) => return given(value, key, text, float),
            },
            Some(other) => return given(&Value::from(other), key, text, float),
        };
        Ok(if text {
            Key::None { first }
        } else if float {
            Key::Float(if extreme(first, self.ascending) > 0 {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            })
        } else if key.unsigned {
            Key::Unsigned(if extreme(first, self.ascending) > 0 { u64::MAX } else { 0 })
        } else if key.narrow {
            Key::Int(if extreme(first, self.ascending) > 0 {
                i64::from(i32::MAX)
            } else {
                i64::from(i32::MIN)
            })
        } else {
            Key::Int(extreme(first, self.ascending))
        })
    }

    /// A value of `search_after` as a key.
    ///
    /// # Errors
    /// Values that the sort cannot have.
    pub fn after(&self, view: &IndexView, value: &Value, cx: &Context<'_>) -> Result<Key> {
        let number = |value: &Value| -> Result<f64> {
            match value {
                Value::Number(n) => Ok(n.as_f64().unwrap_or(0.0)),
                Value::String(s) if s == "Infinity" => Ok(f64::INFINITY),
                Value::String(s) if s == "-Infinity" => Ok(f64::NEG_INFINITY),
                other => other.as_str().and_then(|s| s.parse().ok()).ok_or_else(|| {
                    let name = match &self.by {
                        By::Field(key) => key.path.clone(),
                        _ => other.to_string(),
                    };
                    Error::illegal(format!("Failed to parse search_after value for field [{name}]."))
                }),
            }
        };
        Ok(match &self.by {
            By::Score => Key::Score(number(value)? as f32),
            By::Doc | By::ShardDoc => Key::Int(number(value)? as i64),
            By::Constant(_) | By::Type => match value {
                Value::Null => Key::None { first: false },
                Value::String(s) => Key::Text(s.as_str().into()),
                value => Key::Int(number(value)? as i64),
            },
            By::Script { text: true, .. } => Key::Text(value.as_str().unwrap_or_default().into()),
            By::Script { .. } | By::Geo { .. } => Key::Float(number(value)?),
            By::SeqNo => Key::Int(number(value)? as i64),
            By::Field(key) => {
                let Some(target) = Target::valued(view, &key.path) else {
                    return Ok(match value {
                        Value::Null => Key::None { first: false },
                        value => Key::Text(value.as_str().map_or_else(|| value.to_string(), str::to_owned).into()),
                    });
                };
                let first = key.missing.as_ref().and_then(Value::as_str) == Some("_first");
                if target.has_string_terms() || target.kind.kind == mapping::Kind::Ip {
                    match value {
                        Value::Null => Key::None { first },
                        Value::String(s) if target.kind.kind == mapping::Kind::Ip => Key::Ip(address(s)?),
                        Value::String(s) => Key::Text(s.as_str().into()),
                        other => Key::Text(other.to_string().into()),
                    }
                } else if target.kind.kind.is_float() || key.as_float {
                    if value.is_null() {
                        self.missing(key, false, true)?
                    } else {
                        Key::Float(number(value)?)
                    }
                } else if value.is_null() {
                    self.missing(key, false, false)?
                } else if key.unsigned {
                    match value.as_u64().or_else(|| value.as_str()?.parse().ok()) {
                        Some(n) => Key::Unsigned(n),
                        None => Key::Unsigned(number(value)? as u64),
                    }
                } else if let Some(n) = value.as_i64() {
                    Key::Int(n)
                } else if let (Some(text), true) = (value.as_str(), target.kind.kind.is_date()) {
                    let default = model::date::DateFormat::default();
                    let format = key.format.as_ref().or(target.kind.format.as_ref()).unwrap_or(&default);
                    let nanos = target.kind.kind == mapping::Kind::DateNanos || key.to_nanos;
                    Key::Int(match text.parse::<i64>() {
                        Ok(n) => n,
                        Err(_) if nanos => {
                            let (ms, below) = format.parse_nanos(text, None)?;
                            ms.saturating_mul(1_000_000).saturating_add(below)
                        }
                        Err(_) => model::date::parse_math(text, format, None, cx.now_ms, false)?,
                    })
                } else if let (Some(b), true) = (value.as_bool(), view.typed) {
                    Key::Int(i64::from(b))
                } else {
                    Key::Int(number(value)? as i64)
                }
            }
        })
    }

    /// A key as the answer shows it: formatted, if a format was asked for.
    pub fn render(&self, key: &Key) -> Value {
        if let (By::Field(field), Key::Int(ms)) = (&self.by, key)
            && let Some(format) = &field.format
        {
            return format.render(*ms, None).into();
        }
        key.render()
    }
}

fn extreme(first: bool, ascending: bool) -> i64 {
    if first == ascending { i64::MIN } else { i64::MAX }
}

fn unit_metres(unit: &str) -> f64 {
    dsl::query::metres(&format!("1{unit}"), "m").unwrap_or(1.0)
}

/// What a script of strings gives for a document. Since 2015 it gives nothing else.
fn string(bound: &Bound, doc: DocId, score: f32, strict: bool) -> Result<String> {
    use script::Value::{Bool, Double, Float, Int, Long};
    let value = bound.value(doc, score, None)?;
    match value {
        Int(_) | Long(_) | Float(_) | Double(_) | Bool(_) if strict => {
            let cause = format!("cannot cast [{}] to java.lang.String", value.text());
            Err(Error::new(ErrorKind::Script, "runtime error").caused_by(Error::illegal(cause)))
        }
        value => Ok(value.text()),
    }
}

/// Where documents without a value go: to one end of all.
fn is_end(missing: &Value) -> bool {
    missing.is_null() || matches!(missing.as_str(), Some("_first" | "_last"))
}

/// What a request says stands for a missing value.
fn given(value: &Value, key: &FieldKey, text: bool, float: bool) -> Result<Key> {
    let shown = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text {
        return Ok(Key::Text(shown.into()));
    }
    if key.unsigned && !float {
        let refuse = |_| Error::new(ErrorKind::NumberFormat, format!("For input string: \"{shown}\""));
        return shown.parse().map(Key::Unsigned).map_err(refuse);
    }
    if let Ok(n) = shown.parse::<i64>()
        && !float
    {
        return Ok(Key::Int(n));
    }
    if let Some(format) = &key.format
        && let Ok(ms) = format.parse(&shown, None)
    {
        return Ok(Key::Int(ms));
    }
    match shown.parse::<f64>() {
        Ok(n) if float => Ok(Key::Float(n)),
        Ok(n) => Ok(Key::Int(n as i64)),
        Err(_) => Err(Error::new(ErrorKind::NumberFormat, format!("For input string: \"{shown}\""))),
    }
}

/// An address as it is written.
fn address(text: &str) -> Result<Ipv6Addr> {
    let refuse = |_| Error::illegal(format!("'{text}' is not an IP string literal."));
    let address: IpAddr = text.parse().map_err(refuse)?;
    Ok(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    })
}

/// Strings and addresses have a least and a greatest, and no sum.
fn check_mode(view: &IndexView, field: &FieldSort) -> Result<()> {
    use MultiValueMode::{Avg, Median, Sum};
    // 2015 took the least or the greatest instead.
    if view.typed || !matches!(field.mode, Some(Sum | Avg | Median)) {
        return Ok(());
    }
    let reason = "we only support AVG, MEDIAN and SUM on number based fields";
    Err(Error::new(ErrorKind::QueryShard, reason).with("index", view.name.as_str()))
}

fn field_key(view: &IndexView, field: &FieldSort, ascending: bool, cx: &Context<'_>, scope: Option<&str>) -> Result<By> {
    let first = field.missing.as_ref().and_then(Value::as_str) == Some("_first");
    let mode = field
        .mode
        .unwrap_or(if ascending { MultiValueMode::Min } else { MultiValueMode::Max });
    let mut key = FieldKey {
        path: field.field.clone(),
        mode,
        missing: field.missing.clone(),
        as_float: field.numeric_type.as_deref() == Some("double"),
        as_date: matches!(field.numeric_type.as_deref(), Some("date" | "long" | "date_nanos")),
        narrow: false,
        unsigned: false,
        to_nanos: false,
        bare: false,
        format: field
            .format
            .as_deref()
            .map(model::date::DateFormat::parse_pattern)
            .transpose()?,
        nested: None,
    };
    if field.field == "_id" || field.field == "_uid" && view.typed {
        check_mode(view, field)?;
        return Ok(By::Field(Box::new(key)));
    }
    let Some(target) = Target::valued(view, &field.field) else {
        return match field.unmapped_type.as_deref() {
            Some(name) => {
                let kind = match name {
                    "string" => mapping::Kind::Keyword,
                    name => mapping::Kind::from_name(name)
                        .ok_or_else(|| Error::illegal(format!("No mapper found for type [{name}]")))?,
                };
                let text = kind.is_keyword() || kind.is_text() || kind == mapping::Kind::Ip;
                if text {
                    check_mode(view, field)?;
                }
                if let Some(value) = field.missing.as_ref().filter(|value| !text && !is_end(value))
                    && !view.typed
                {
                    key.unsigned = kind == mapping::Kind::UnsignedLong;
                    return Ok(By::Constant(given(value, &key, false, key.as_float || kind.is_float())?));
                }
                Ok(By::Constant(
                    if kind.is_keyword() || kind.is_text() || kind == mapping::Kind::Ip {
                        Key::None { first }
                    } else if kind.is_float() {
                        Key::Float(if extreme(first, ascending) > 0 {
                            f64::INFINITY
                        } else {
                            f64::NEG_INFINITY
                        })
                    } else if kind == mapping::Kind::UnsignedLong {
                        Key::Unsigned(if first == ascending { 0 } else { u64::MAX })
                    } else {
                        let low = first == ascending;
                        Key::Int(match (narrow(kind, field, cx), low) {
                            (true, true) => i64::from(i32::MIN),
                            (true, false) => i64::from(i32::MAX),
                            (false, _) => extreme(first, ascending),
                        })
                    },
                ))
            }
            None => Err(Error::new(
                ErrorKind::QueryShard,
                format!("No mapping found for [{}] in order to sort on", field.field),
            )
            .with("index", view.name.as_str())),
        };
    };
    if target.kind.kind == mapping::Kind::GeoPoint && !view.typed {
        return Err(Error::illegal(
            "can't sort on geo_point field without using specific sorting feature, like geo_distance",
        ));
    }
    if let (Some(_), true) = (
        &field.numeric_type,
        !target.kind.kind.is_numeric() && !target.kind.kind.is_date() && target.kind.kind != mapping::Kind::Boolean,
    ) {
        let reason = format!(
            "[numeric_type] option cannot be set on a non-numeric field, got {}",
            target.kind.wire()
        );
        return Err(Error::new(ErrorKind::QueryShard, reason).with("index", view.name.as_str()));
    }
    if field.numeric_type.as_deref() == Some("date_nanos") && !target.kind.kind.is_date() {
        return Err(Error::illegal(
            "trying to convert a known date time formatter to a nanosecond one, wrong field used?",
        ));
    }
    if (target.kind.kind.is_text() || target.slot.column.is_none()) && !target.kind.fielddata {
        let reason = if target.kind.kind.is_text() {
            format!(
                "Text fields are not optimised for operations that require per-document field data like aggregations and sorting, \
                 so these operations are disabled by default. Please use a keyword field instead. Alternatively, set fielddata=true \
                 on [{}] in order to load field data by uninverting the inverted index. Note that this can use significant memory.",
                field.field
            )
        } else {
            format!(
                "Can't load fielddata on [{}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
                field.field,
                target.kind.wire()
            )
        };
        return Err(Error::illegal(reason));
    }
    key.nested = Levels::of(view, field, target.path, scope, cx)?;
    let text = target.kind.kind.is_keyword() || target.kind.kind.is_text() || target.kind.kind == mapping::Kind::Ip;
    if text {
        check_mode(view, field)?;
    }
    use mapping::Kind;
    if key.nested.is_some() && field.mode == Some(MultiValueMode::Median) && !view.typed {
        return Err(Error::illegal("Unsupported sort mode: MEDIAN"));
    }
    key.unsigned = target.kind.kind == Kind::UnsignedLong && !key.as_float;
    key.narrow = narrow(target.kind.kind, field, cx);
    key.to_nanos = field.numeric_type.as_deref() == Some("date_nanos") && target.kind.kind == Kind::Date;
    key.path = target.path.to_owned();
    Ok(By::Field(Box::new(key)))
}

/// Whether missing values of a field are sorted to the ends of 32 bits.
fn narrow(kind: mapping::Kind, field: &FieldSort, cx: &Context<'_>) -> bool {
    use mapping::Kind;
    cx.opensearch && field.numeric_type.is_none() && matches!(kind, Kind::Integer | Kind::Short | Kind::Byte | Kind::Boolean)
}

impl Reader {
    /// The key of a document where that is cheap, for a look before anything is kept.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn quick(&self, doc: DocId, score: f32) -> Option<Key> {
        match &self.by {
            ReadBy::Score => Some(Key::Score(score)),
            ReadBy::Doc(base) => Some(Key::Int(base + i64::from(doc))),
            ReadBy::Constant(key) => Some(key.clone()),
            ReadBy::Column {
                column: Some(Column::I64(c) | Column::Date(c) | Column::DateNanos(c)),
                mode: mode @ (MultiValueMode::Min | MultiValueMode::Max),
                missing,
                float: false,
                children: None,
                to_nanos: false,
                ..
            } => {
                let mut all = c.values_for_doc(doc);
                let one = if *mode == MultiValueMode::Max {
                    all.max()
                } else {
                    all.next().map(|first| all.fold(first, i64::min))
                };
                Some(one.map_or_else(|| missing.clone(), Key::Int))
            }
            _ => None,
        }
    }

    /// Whether [`Reader::rank`] orders documents of this segment.
    pub fn ranks(&self) -> bool {
        matches!(
            &self.by,
            ReadBy::Column {
                column: Some(Column::Str(_)),
                missing: Key::None { .. },
                children: None,
                id: false,
                ..
            } | ReadBy::Column {
                column: Some(Column::I64(_) | Column::Date(_) | Column::DateNanos(_)),
                missing: Key::Int(_),
                mode: MultiValueMode::Min | MultiValueMode::Max,
                float: false,
                children: None,
                to_nanos: false,
                ..
            }
        )
    }

    /// The place of a document's value among those of the segment, in the direction of the sort: smallest first.
    pub fn rank(&self, doc: DocId) -> u64 {
        if let Some(Key::Int(n)) = self.quick(doc, 0.0) {
            let place = (n as u64) ^ (1 << 63);
            return if self.ascending { place } else { !place };
        }
        let ReadBy::Column {
            column: Some(Column::Str(strings)),
            mode,
            missing,
            ..
        } = &self.by
        else {
            return 0;
        };
        let ords = strings.term_ords(doc);
        let ord = if *mode == MultiValueMode::Max {
            ords.max()
        } else {
            ords.min()
        };
        match (ord, missing) {
            (None, Key::None { first: true }) => 0,
            (None, _) => u64::MAX,
            (Some(ord), _) if self.ascending => ord + 1,
            (Some(ord), _) => u64::MAX - 1 - ord,
        }
    }

    /// The key of a document.
    ///
    /// # Errors
    /// Scripts that fail, unreadable files.
    pub fn read(&self, doc: DocId, score: f32) -> Result<Key> {
        Ok(match &self.by {
            ReadBy::Score => Key::Score(score),
            ReadBy::Doc(base) => Key::Int(base + i64::from(doc)),
            ReadBy::Constant(key) => key.clone(),
            ReadBy::Script {
                bound,
                text: false,
                strict: _,
                mode,
                children,
                missing,
            } => match children {
                None => Key::Float(bound.number(doc, score)?),
                Some(children) => {
                    let mut all = children
                        .list(doc)
                        .into_iter()
                        .map(|child| bound.number(child, score))
                        .collect::<Result<Vec<f64>>>()?;
                    crate::plan::pick(*mode, &mut all).map_or_else(|| missing.clone(), Key::Float)
                }
            },
            ReadBy::Script {
                bound,
                text: true,
                strict,
                mode,
                children,
                missing,
            } => match children {
                None => Key::Text(string(bound, doc, score, *strict)?.into()),
                Some(children) => {
                    let all = children
                        .list(doc)
                        .into_iter()
                        .map(|child| string(bound, child, score, *strict))
                        .collect::<Result<Vec<_>>>()?;
                    let one = if *mode == MultiValueMode::Max {
                        all.into_iter().max()
                    } else {
                        all.into_iter().min()
                    };
                    one.map_or_else(|| missing.clone(), |text| Key::Text(text.into()))
                }
            },
            ReadBy::Geo {
                column,
                distance,
                children,
            } => {
                let docs = children.as_ref().map_or_else(|| vec![doc], |children| children.list(doc));
                let found = match column {
                    Some(Column::Geo(lat, lon)) => distance.of(docs
                        .into_iter()
                        .flat_map(|doc| lat.values_for_doc(doc).zip(lon.values_for_doc(doc)))),
                    _ => None,
                };
                Key::Float(found.unwrap_or(f64::INFINITY))
            }
            ReadBy::Column {
                column,
                mode,
                missing,
                float,
                children,
                id,
                to_nanos,
            } => {
                let Some(column) = column else { return Ok(missing.clone()) };
                let mut docs = vec![doc];
                if let Some(children) = children {
                    docs.clear();
                    children.of(doc, |child| {
                        let has = column.has(child);
                        if has {
                            docs.push(child);
                        }
                        has
                    });
                }
                match column {
                    Column::Str(strings) => {
                        let ords = docs.iter().flat_map(|d| strings.term_ords(*d));
                        let ord = if *mode == MultiValueMode::Max {
                            ords.max()
                        } else {
                            ords.min()
                        };
                        let Some(ord) = ord else { return Ok(missing.clone()) };
                        let mut text = String::new();
                        strings.ord_to_str(ord, &mut text).map_err(crate::plan::node::broken)?;
                        if *id && let Some((_, bare)) = text.split_once('#') {
                            text = bare.to_owned();
                        }
                        Key::Text(text.into())
                    }
                    Column::Ip(addresses) => {
                        let all = docs.iter().flat_map(|d| addresses.values_for_doc(*d));
                        let one = if *mode == MultiValueMode::Max { all.max() } else { all.min() };
                        match one {
                            Some(ip) => Key::Ip(ip),
                            None => missing.clone(),
                        }
                    }
                    Column::U64(c) if matches!(missing, Key::Unsigned(_) | Key::None { .. }) => {
                        let mut all: Vec<u64> = docs.iter().flat_map(|d| c.values_for_doc(*d)).collect();
                        let one = match mode {
                            MultiValueMode::Min => all.iter().copied().min(),
                            MultiValueMode::Max => all.iter().copied().max(),
                            MultiValueMode::Sum => all.iter().copied().reduce(u64::wrapping_add),
                            MultiValueMode::Avg | MultiValueMode::Median => {
                                all.sort_unstable();
                                let mut all: Vec<f64> = all.iter().map(|n| *n as f64).collect();
                                crate::plan::pick(*mode, &mut all).map(|n| n.round() as u64)
                            }
                        };
                        one.map_or_else(|| missing.clone(), Key::Unsigned)
                    }
                    Column::I64(c) | Column::Date(c) | Column::DateNanos(c)
                        if !*float && matches!(mode, MultiValueMode::Min | MultiValueMode::Max | MultiValueMode::Sum) =>
                    {
                        let all = docs.iter().flat_map(|d| c.values_for_doc(*d));
                        let one = match mode {
                            MultiValueMode::Min => all.min(),
                            MultiValueMode::Max => all.max(),
                            _ => all.reduce(i64::wrapping_add),
                        };
                        let scale = if *to_nanos { 1_000_000 } else { 1 };
                        one.map_or_else(|| missing.clone(), |one| Key::Int(one.saturating_mul(scale)))
                    }
                    column => {
                        let (mut all, mut buffer) = (Vec::new(), Vec::new());
                        for doc in docs {
                            column.numbers(doc, &mut buffer);
                            all.extend_from_slice(&buffer);
                        }
                        match crate::plan::pick(*mode, &mut all) {
                            None => missing.clone(),
                            Some(n) if *float => Key::Float(n),
                            Some(n) => Key::Int(n.round() as i64),
                        }
                    }
                }
            }
        })
    }

    /// Smallest first.
    pub fn ascending(&self) -> bool {
        self.ascending
    }
}

/// A value of a column as the answer shows it.
pub fn shown(kind: &mapping::FieldType, value: &FieldValue) -> Value {
    kind.render_value(value)
}
