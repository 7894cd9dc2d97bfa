//! Sort keys: how each is read for a document, compared, and shown.

use crate::context::Context;
use crate::fields::column::Column;
use crate::fields::geo_distance::LEAST_RADIUS;
use crate::fields::target::Target;
use crate::scripts::{Bound, Script};
use crate::sort::nested::{Children, Levels};
use dsl::query::MultiValueMode;
use dsl::search::{FieldSort, ScriptSortKind, Sort, SortBy};
use mapping::FieldValue;
use model::{Error, ErrorKind, Result};
use segment::open_columns;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use tantivy::DocId;
use tantivy::columnar::StrColumn;

mod field;
mod nested;
mod ranks;
mod reader;

use field::{address, check_mode, extreme, field_key, missing_key, unit_metres};
pub(crate) use ranks::{KeyRank, Ranks};
pub use reader::SortReader;
pub(crate) use reader::quick_order;
use reader::{ColumnReader, ReadBy};

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
        distance: SortDistance,
        nested: Option<Levels>,
    },
    Type,
    SeqNo,
}

/// How far places are from points.
#[derive(Clone)]
struct SortDistance {
    points: Vec<(f64, f64)>,
    unit: f64,
    mode: MultiValueMode,
    far: crate::fields::geo_distance::Far,
}

impl SortDistance {
    /// The distance of one document's places, or of those of its nested documents.
    fn of(&self, places: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
        let mut all: Vec<f64> = places
            .flat_map(|at| self.points.iter().map(move |from| (self.far)(*from, at)))
            .collect();
        crate::fields::multi_value::pick(self.mode, &mut all).map(|metres| metres / self.unit)
    }

    /// Whether a document whose places have these latitudes is farther than `most`, by the way along a meridian alone. Without a
    /// place it is infinitely far.
    fn is_beyond(&self, latitudes: impl Iterator<Item = f64>, most: f64) -> bool {
        let least = most * self.unit / LEAST_RADIUS;
        self.mode == MultiValueMode::Min
            && least.is_finite()
            && latitudes
                .into_iter()
                .all(|lat| self.points.iter().all(|from| (lat - from.0).abs().to_radians() > least))
    }
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

impl FieldKey {
    /// A date of `search_after`: a number as the column has it, or a text in the format of the sort or of the field.
    fn date_after(&self, target: &Target<'_>, text: &str, now_ms: i64) -> Result<i64> {
        let default = model::date::DateFormat::default();
        let format = self.format.as_ref().or(target.kind.format.as_ref()).unwrap_or(&default);
        let nanos = target.kind.kind == mapping::Kind::DateNanos || self.to_nanos;
        match text.parse::<i64>() {
            Ok(n) => Ok(n),
            Err(_) if nanos => {
                let (ms, below) = format.parse_nanos(text, None)?;
                Ok(ms.saturating_mul(1_000_000).saturating_add(below))
            }
            Err(_) => model::date::parse_math(text, format, None, now_ms, false),
        }
    }
}

/// # Errors
/// A point outside of the world, where the dialect does not take it.
fn check_points(view: &IndexView, field: &str, points: &[(f64, f64)]) -> Result<()> {
    let is_outside = |(lat, lon): &&(f64, f64)| lat.abs() > 90.0 || lon.abs() > 180.0;
    let Some((lat, lon)) = points
        .iter()
        .find(is_outside)
        .filter(|_| !view.rules().tolerates_query_bounds)
    else {
        return Ok(());
    };
    let (what, value) = if lat.abs() > 90.0 {
        ("latitude", lat)
    } else {
        ("longitude", lon)
    };
    Err(Error::illegal(format!(
        "illegal {what} value [{value:?}] for [GeoDistanceSort] for field [{field}]."
    )))
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
            SortBy::Field(field) if field.field == "_type" && view.rules().has_type_fields => By::Type,
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
                nested: Levels::of_path(view, nested.as_ref(), scope, cx)?,
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
                check_points(view, field, points)?;
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
                if target.kind.kind != mapping::Kind::GeoPoint && !view.rules().tolerates_sort_options {
                    return Err(Error::illegal(format!(
                        "field [{field}] of type [{}] has no places that a distance could be measured to",
                        target.kind.wire()
                    )));
                }
                if nested.is_some() && *mode == Some(MultiValueMode::Median) && !view.rules().tolerates_sort_options {
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
                    distance: SortDistance {
                        points: points.clone(),
                        unit: unit_metres(unit),
                        mode: mode.unwrap_or(if ascending { MultiValueMode::Min } else { MultiValueMode::Max }),
                        far: crate::fields::geo_distance::far(*arc || plain && !view.rules().planar_geo_distance, view.rules()),
                    },
                    nested: Levels::of_path(view, nested.as_ref(), scope, cx)?,
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

    /// Whether keys may have ranks in segments ([`Ranks`]): positions have them, and those of fields outside nested documents may.
    pub(crate) fn may_have_ranks(&self) -> bool {
        match &self.by {
            By::Doc | By::ShardDoc => true,
            By::Field(key) => key.nested.is_none(),
            _ => false,
        }
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
        let Some(target) = Target::with_values(view, &key.path).filter(Target::is_relation) else {
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
        if kind.kind.is_keyword() && kind.tree.is_none() && key.nested.is_none() && key.missing.is_none() {
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
    pub fn open(&self, view: &IndexView, segment: &SegmentView, base: u64) -> Result<SortReader> {
        let by = match &self.by {
            By::Score => ReadBy::Score,
            By::Doc | By::ShardDoc => ReadBy::Doc {
                first: i64::try_from(base).unwrap_or(0),
                max_doc: segment.reader.max_doc(),
            },
            By::Type => {
                let column = open_columns::strings(segment, "_type")?;
                ReadBy::Column(ColumnReader::least(column.map(Column::Str), Key::Text("_doc".into())))
            }
            By::Constant(key) => ReadBy::Constant(key.clone()),
            By::SeqNo => {
                let column = segment.core.seq_no().clone();
                ReadBy::Column(ColumnReader::least(Some(Column::U64(column)), Key::Int(-1)))
            }
            By::Script {
                script,
                text,
                mode,
                nested,
            } => ReadBy::Script {
                bound: script.open(segment)?,
                text: *text,
                strict: !view.rules().tolerates_sort_options,
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
            By::Field(key) if key.path == "_id" || key.path == "_uid" => {
                let column = match view.rules().ids_have_no_order && key.path == "_id" {
                    true => None,
                    false => open_columns::strings(segment, "_id")?,
                };
                ReadBy::Column(ColumnReader::least(column.map(Column::Str), Key::None { first: false }))
            }
            By::Field(key) => ReadBy::Column(self.open_field(key, view, segment)?),
        };
        Ok(SortReader {
            by,
            ascending: self.ascending,
        })
    }

    fn open_field(&self, key: &FieldKey, view: &IndexView, segment: &SegmentView) -> Result<ColumnReader> {
        let target = Target::with_values(view, &key.path);
        let text = target.is_some_and(|t| t.has_string_terms() || t.kind.kind == mapping::Kind::Ip);
        let ip = target.is_some_and(|t| t.kind.kind == mapping::Kind::Ip);
        let float = key.as_float || target.is_some_and(|t| t.kind.kind.is_float()) && !key.as_date;
        Ok(ColumnReader {
            column: target.map(|t| Column::open(segment, &t)).transpose()?.flatten(),
            mode: key.mode,
            children: key.nested.as_ref().map(|levels| levels.open(view, segment)).transpose()?,
            missing: match self.missing(key, text, float)? {
                _ if key.bare => Key::None { first: false },
                Key::Text(text) if ip => Key::Ip(address(&text)?),
                missing => missing,
            },
            float,
            to_nanos: key.to_nanos,
            name: target.and_then(|target| target.own_column()).map(Arc::from),
        })
    }

    fn missing(&self, key: &FieldKey, text: bool, float: bool) -> Result<Key> {
        let first = match key.missing.as_ref().and_then(Value::as_str) {
            Some("_first") => true,
            Some("_last") | None => match &key.missing {
                Some(Value::Null) | None => false,
                Some(Value::String(_)) => false,
                Some(value) => return missing_key(value, key, text, float),
            },
            Some(other) => return missing_key(&Value::from(other), key, text, float),
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
                let Some(target) = Target::with_values(view, &key.path) else {
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
                    Key::Int(key.date_after(&target, text, cx.now_ms)?)
                } else if let (Some(b), true) = (value.as_bool(), view.rules().coerces_query_values) {
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

/// A value of a column as the answer shows it.
pub fn render_value(kind: &mapping::FieldType, value: &FieldValue) -> Value {
    kind.render_value(value)
}
