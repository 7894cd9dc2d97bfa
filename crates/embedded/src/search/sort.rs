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
use std::sync::Arc;
use tantivy::DocId;

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
    /// Fractions.
    Float(f64),
    /// Scores.
    Score(f32),
    /// Strings.
    Text(Arc<str>),
}

/// Compares two keys of one sort.
pub fn compare(a: &Key, b: &Key, ascending: bool) -> Ordering {
    let order = match (a, b) {
        (Key::None { first: x }, Key::None { .. }) if *x => Ordering::Equal,
        (Key::None { .. }, Key::None { .. }) => Ordering::Equal,
        (Key::None { first }, _) => return if *first { Ordering::Less } else { Ordering::Greater },
        (_, Key::None { first }) => return if *first { Ordering::Greater } else { Ordering::Less },
        (Key::Text(a), Key::Text(b)) => a.cmp(b),
        (Key::Int(a), Key::Int(b)) => a.cmp(b),
        (a, b) => number(a).total_cmp(&number(b)),
    };
    if ascending { order } else { order.reverse() }
}

fn number(key: &Key) -> f64 {
    match key {
        Key::Int(n) => *n as f64,
        Key::Float(n) => *n,
        Key::Score(n) => f64::from(*n),
        Key::None { .. } | Key::Text(_) => 0.0,
    }
}

impl Key {
    /// As `sort` of a hit shows it.
    pub fn render(&self) -> Value {
        match self {
            Key::None { .. } => Value::Null,
            Key::Int(n) => (*n).into(),
            Key::Float(n) if n.is_infinite() => if *n > 0.0 { "Infinity" } else { "-Infinity" }.into(),
            Key::Float(n) => (*n).into(),
            Key::Score(n) => n.to_string().parse::<f64>().map_or(Value::Null, Value::from),
            Key::Text(text) => (**text).into(),
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
    Unmapped {
        missing_first: bool,
        ascending: bool,
        text: bool,
    },
    Script {
        script: Script,
        text: bool,
    },
    Geo {
        path: String,
        points: Vec<(f64, f64)>,
        unit: f64,
        mode: MultiValueMode,
    },
    Type,
}

struct FieldKey {
    path: String,
    mode: MultiValueMode,
    missing: Option<Value>,
    as_float: bool,
    as_date: bool,
    /// Its numbers have 32 bits: so do the ends that missing values are sorted to.
    narrow: bool,
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
    },
    Script {
        bound: Bound,
        text: bool,
    },
    Geo {
        column: Option<Column>,
        points: Vec<(f64, f64)>,
        unit: f64,
        mode: MultiValueMode,
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
            SortBy::Field(field) => field_key(view, field, ascending, cx, scope)?,
            SortBy::Script { script, kind, .. } => By::Script {
                script: Script::new(view, script, cx)?,
                text: *kind == ScriptSortKind::String,
            },
            SortBy::GeoDistance {
                field,
                points,
                unit,
                mode,
                ignore_unmapped,
                ..
            } => {
                let Some(target) = Target::of(view, field) else {
                    if *ignore_unmapped {
                        return Ok(Plan {
                            by: By::Unmapped {
                                missing_first: false,
                                ascending,
                                text: false,
                            },
                            ascending,
                        });
                    }
                    return Err(Error::illegal(format!(
                        "failed to find mapper for [{field}] for geo distance based sort"
                    )));
                };
                By::Geo {
                    path: target.path.to_owned(),
                    points: points.clone(),
                    unit: unit_metres(unit),
                    mode: mode.unwrap_or(if ascending { MultiValueMode::Min } else { MultiValueMode::Max }),
                }
            }
        };
        Ok(Plan { by, ascending })
    }

    /// Whether the key needs scores.
    pub fn needs_scores(&self) -> bool {
        matches!(self.by, By::Score)
    }

    /// Sorting by score.
    pub fn is_score(&self) -> bool {
        matches!(self.by, By::Score)
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
                }
            }
            By::Unmapped {
                missing_first,
                ascending,
                text,
            } => ReadBy::Constant(if *text {
                Key::None { first: *missing_first }
            } else {
                Key::Int(extreme(*missing_first, *ascending))
            }),
            By::Script { script, text } => ReadBy::Script {
                bound: script.open(segment)?,
                text: *text,
            },
            By::Geo {
                path,
                points,
                unit,
                mode,
            } => ReadBy::Geo {
                column: Target::of(view, path)
                    .map(|t| Column::open(segment, &t))
                    .transpose()?
                    .flatten(),
                points: points.clone(),
                unit: *unit,
                mode: *mode,
            },
            By::Field(key) if key.path == "_id" || key.path == "_uid" => {
                let column = segment.reader.fast_fields().str("_id").map_err(crate::plan::node::broken)?;
                ReadBy::Column {
                    column: column.map(Column::Str),
                    mode: MultiValueMode::Min,
                    missing: Key::None { first: false },
                    float: false,
                    children: None,
                    // `_uid` shows the type too.
                    id: view.typed && key.path == "_id",
                }
            }
            By::Field(key) => {
                let target = Target::of(view, &key.path);
                let column = target.map(|t| Column::open(segment, &t)).transpose()?.flatten();
                let text = target.is_some_and(|t| t.has_string_terms() || t.kind.kind == mapping::Kind::Ip);
                let children = key.nested.as_ref().map(|levels| levels.open(view, segment)).transpose()?;
                let float = key.as_float || target.is_some_and(|t| t.kind.kind.is_float()) && !key.as_date;
                ReadBy::Column {
                    column,
                    mode: key.mode,
                    missing: self.missing(key, text, float)?,
                    float,
                    children,
                    id: false,
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
                Some(value) => return self.given(value, key, text, float),
            },
            Some(other) => return self.given(&Value::from(other), key, text, float),
        };
        Ok(if text {
            Key::None { first }
        } else if float {
            Key::Float(if extreme(first, self.ascending) > 0 {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            })
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

    fn given(&self, value: &Value, key: &FieldKey, text: bool, float: bool) -> Result<Key> {
        let shown = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if text {
            return Ok(Key::Text(shown.into()));
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
            By::Unmapped { .. } | By::Type => match value {
                Value::Null => Key::None { first: false },
                Value::String(s) => Key::Text(s.as_str().into()),
                value => Key::Int(number(value)? as i64),
            },
            By::Script { text: true, .. } => Key::Text(value.as_str().unwrap_or_default().into()),
            By::Script { .. } | By::Geo { .. } => Key::Float(number(value)?),
            By::Field(key) => {
                let Some(target) = Target::of(view, &key.path) else {
                    return Ok(match value {
                        Value::Null => Key::None { first: false },
                        value => Key::Text(value.as_str().map_or_else(|| value.to_string(), str::to_owned).into()),
                    });
                };
                let first = key.missing.as_ref().and_then(Value::as_str) == Some("_first");
                if target.has_string_terms() || target.kind.kind == mapping::Kind::Ip {
                    match value {
                        Value::Null => Key::None { first },
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
                } else if let Some(n) = value.as_i64() {
                    Key::Int(n)
                } else if let (Some(text), true) = (value.as_str(), target.kind.kind.is_date()) {
                    let default = model::date::DateFormat::default();
                    let format = key.format.as_ref().or(target.kind.format.as_ref()).unwrap_or(&default);
                    Key::Int(match text.parse::<i64>() {
                        Ok(n) => n,
                        Err(_) => model::date::parse_math(text, format, None, cx.now_ms, false)?,
                    })
                } else if let Some(b) = value.as_bool() {
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
        format: field
            .format
            .as_deref()
            .map(model::date::DateFormat::parse_pattern)
            .transpose()?,
        nested: None,
    };
    if field.field == "_id" || field.field == "_uid" && view.typed {
        return Ok(By::Field(Box::new(key)));
    }
    let Some(target) = Target::of(view, &field.field) else {
        return match field.unmapped_type.as_deref() {
            Some(kind) => Ok(By::Unmapped {
                missing_first: first,
                ascending,
                text: matches!(kind, "keyword" | "string" | "text" | "ip"),
            }),
            None => Err(Error::new(
                ErrorKind::QueryShard,
                format!("No mapping found for [{}] in order to sort on", field.field),
            )
            .with("index", view.name.as_str())),
        };
    };
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
    if text
        && matches!(
            field.mode,
            Some(MultiValueMode::Sum | MultiValueMode::Avg | MultiValueMode::Median)
        )
    {
        return Err(Error::new(
            ErrorKind::QueryShard,
            "we only support AVG, MEDIAN and SUM on number based fields",
        )
        .with("index", view.name.as_str()));
    }
    use mapping::Kind;
    key.narrow = cx.narrow_integers
        && field.numeric_type.is_none()
        && matches!(target.kind.kind, Kind::Integer | Kind::Short | Kind::Byte | Kind::Boolean);
    key.path = target.path.to_owned();
    Ok(By::Field(Box::new(key)))
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
            ReadBy::Script { bound, text: false } => Key::Float(bound.number(doc, score)?),
            ReadBy::Script { bound, text: true } => Key::Text(bound.value(doc, score, None)?.text().into()),
            ReadBy::Geo {
                column,
                points,
                unit,
                mode,
            } => {
                let mut all: Vec<f64> = match column {
                    Some(Column::Geo(lat, lon)) => lat
                        .values_for_doc(doc)
                        .zip(lon.values_for_doc(doc))
                        .flat_map(|at| points.iter().map(move |p| crate::plan::haversine(*p, at)))
                        .collect(),
                    _ => Vec::new(),
                };
                Key::Float(crate::plan::pick(*mode, &mut all).map_or(f64::INFINITY, |m| m / unit))
            }
            ReadBy::Column {
                column,
                mode,
                missing,
                float,
                children,
                id,
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
                            Some(ip) => Key::Text(ip.to_ipv4_mapped().map_or_else(|| ip.to_string(), |v4| v4.to_string()).into()),
                            None => missing.clone(),
                        }
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
                        one.map_or_else(|| missing.clone(), Key::Int)
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
