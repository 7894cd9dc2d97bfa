//! `sort`: the keys that order hits.
//!
//! Not here: comparing values, which is the engine's.

use super::fields::ScriptSiblings;
use super::shape;
use crate::json::{Json, Node};
use crate::query::{MultiValueMode, Query, script_source::ScriptSource};
use crate::search::parsing;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// One sort key.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// What is compared.
    pub by: SortBy,
    /// Smallest first.
    pub ascending: bool,
}

/// What a sort key compares.
#[allow(clippy::large_enum_variant, reason = "a search has few of them")]
#[derive(Clone, Debug, PartialEq)]
pub enum SortBy {
    /// `_score`
    Score,
    /// `_doc`
    Doc,
    /// `_shard_doc`
    ShardDoc,
    /// A field's value.
    Field(FieldSort),
    /// `_script`
    Script {
        script: ScriptSource,
        kind: ScriptSortKind,
        mode: Option<MultiValueMode>,
    },
    /// `_geo_distance`; points are latitude and longitude.
    GeoDistance {
        field: String,
        points: Vec<(f64, f64)>,
        unit: String,
        mode: Option<MultiValueMode>,
        arc: bool,
        ignore_unmapped: bool,
    },
}

/// What a sort script yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptSortKind {
    /// `number`
    Number,
    /// `string`
    String,
}

/// A field to sort by.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSort {
    /// Its name.
    pub field: String,
    /// `_first`, `_last` or a value.
    pub missing: Option<Value>,
    /// Of several values.
    pub mode: Option<MultiValueMode>,
    /// The type to take it for where it is not mapped.
    pub unmapped_type: Option<String>,
    /// `long`, `double`, `date` or `date_nanos`.
    pub numeric_type: Option<String>,
    /// Of dates in the answer.
    pub format: Option<String>,
    /// Where it is inside nested documents.
    pub nested: Option<NestedSort>,
}

impl FieldSort {
    /// A field with no options.
    pub fn new(field: impl Into<String>) -> FieldSort {
        FieldSort {
            field: field.into(),
            missing: None,
            mode: None,
            unmapped_type: None,
            numeric_type: None,
            format: None,
            nested: None,
        }
    }
}

/// Which nested documents a sort key looks into.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedSort {
    /// The nested field.
    pub path: String,
    /// Only these.
    pub filter: Option<Query>,
    /// At most so many a document.
    pub max_children: Option<u32>,
    /// One level further in.
    pub nested: Option<Box<NestedSort>>,
}

const FIELD_OPTIONS: &[&str] = &[
    "order",
    "mode",
    "missing",
    "unmapped_type",
    "numeric_type",
    "format",
    "nested",
    "nested_path",
    "nested_filter",
];

impl Sort {
    /// Reads `sort`: one key or a list of keys.
    ///
    /// # Errors
    /// An order, a mode or an option that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<Vec<Sort>> {
        let mut out = Vec::new();
        for item in node.items() {
            match &item.value {
                Json::Object(_) => {
                    for (field, options) in shape::object(item, "sort")? {
                        out.push(parse_key(field, options, dialect)?);
                    }
                }
                Json::String(_) => out.push(named(item.string("sort")?, None)),
                Json::Number(_) | Json::Bool(_) if !dialect.typed => out.push(named(item.string("sort")?, None)),
                _ => {
                    return Err(Error::illegal(
                        "malformed sort format, either start with array, object, or an actual string",
                    ));
                }
            }
        }
        Ok(out)
    }
    /// Reads the parameter `sort`: `f:desc,_score`.
    ///
    /// # Errors
    /// A direction that is neither `asc` nor `desc`.
    pub fn parse_url(text: &str) -> Result<Vec<Sort>> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| match part.rsplit_once(':') {
                None => Ok(named(part.to_owned(), None)),
                Some((field, order)) if order.eq_ignore_ascii_case("asc") || order.eq_ignore_ascii_case("desc") => {
                    Ok(named(field.to_owned(), Some(order.eq_ignore_ascii_case("asc"))))
                }
                Some((_, order)) => Err(Error::illegal(format!(
                    "Unknown sort order [{order}] in [sort], expected [asc] or [desc]"
                ))),
            })
            .collect()
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        let order = if self.ascending { "asc" } else { "desc" };
        let mut options = Map::new();
        options.insert("order".into(), order.into());
        let name = match &self.by {
            SortBy::Score => "_score",
            SortBy::Doc => "_doc",
            SortBy::ShardDoc => "_shard_doc",
            SortBy::Field(sort) => {
                let texts = [
                    ("unmapped_type", &sort.unmapped_type),
                    ("numeric_type", &sort.numeric_type),
                    ("format", &sort.format),
                ];
                for (key, text) in texts {
                    if let Some(text) = text {
                        options.insert(key.into(), text.as_str().into());
                    }
                }
                if let Some(missing) = &sort.missing {
                    options.insert("missing".into(), missing.clone());
                }
                if let Some(mode) = sort.mode {
                    options.insert("mode".into(), mode_name(mode).into());
                }
                if let Some(nested) = &sort.nested {
                    options.insert("nested".into(), nested.render());
                }
                &sort.field
            }
            SortBy::Script { script, kind, mode } => {
                options.insert(
                    "type".into(),
                    if *kind == ScriptSortKind::Number { "number" } else { "string" }.into(),
                );
                options.insert("script".into(), script.render());
                if let Some(mode) = mode {
                    options.insert("mode".into(), mode_name(*mode).into());
                }
                "_script"
            }
            SortBy::GeoDistance {
                field,
                points,
                unit,
                mode,
                arc,
                ignore_unmapped,
            } => {
                let points: Vec<Value> = points.iter().map(|(lat, lon)| json!({ "lat": lat, "lon": lon })).collect();
                options.insert(field.clone(), Value::Array(points));
                options.insert("unit".into(), unit.as_str().into());
                options.insert("distance_type".into(), if *arc { "arc" } else { "plane" }.into());
                options.insert("ignore_unmapped".into(), (*ignore_unmapped).into());
                if let Some(mode) = mode {
                    options.insert("mode".into(), mode_name(*mode).into());
                }
                "_geo_distance"
            }
        };
        json!({ name: options })
    }
}

impl NestedSort {
    /// As in a request.
    pub fn render(&self) -> Value {
        let mut out = Map::new();
        out.insert("path".into(), self.path.as_str().into());
        if let Some(filter) = &self.filter {
            out.insert("filter".into(), filter.render());
        }
        if let Some(most) = self.max_children {
            out.insert("max_children".into(), most.into());
        }
        if let Some(inner) = &self.nested {
            out.insert("nested".into(), inner.render());
        }
        Value::Object(out)
    }
}

/// A key without options. Scores are best first, all else smallest first.
fn named(field: String, ascending: Option<bool>) -> Sort {
    let by = match field.as_str() {
        "_score" => SortBy::Score,
        "_doc" | "_scan" => SortBy::Doc,
        "_shard_doc" => SortBy::ShardDoc,
        _ => SortBy::Field(FieldSort::new(field)),
    };
    let ascending = ascending.unwrap_or(by != SortBy::Score);
    Sort { by, ascending }
}

fn parse_key(field: String, options: Node, dialect: Dialect) -> Result<Sort> {
    if let Json::String(_) = options.value {
        let order = direction(&options.string("order")?, &field, dialect)?;
        return Ok(named(field, Some(order)));
    }
    match field.as_str() {
        "_script" => parse_script(options, dialect),
        "_geo_distance" | "_geoDistance" => parse_geo_distance(options, dialect),
        _ => parse_field(field, options, dialect),
    }
}

fn parse_field(field: String, options: Node, dialect: Dialect) -> Result<Sort> {
    let mut sort = FieldSort::new(field);
    let mut ascending = None;
    let (mut path, mut filter) = (None, None);
    for (key, value) in shape::object(options, "field_sort")? {
        let at = (value.line, value.col);
        match key.as_str() {
            "order" => ascending = Some(direction_option("field_sort", &sort.field, &value, dialect)?),
            "reverse" if dialect.typed => ascending = Some(!value.boolean("reverse")?),
            "mode" => sort.mode = Some(mode("field_sort", &value, dialect)?),
            "missing" => sort.missing = if value.is_null() { None } else { Some(value.into_value()) },
            "unmapped_type" | "unmappedType" => sort.unmapped_type = Some(value.string("unmapped_type")?),
            "ignore_unmapped" | "ignoreUnmapped" if dialect.typed => {
                if value.boolean("ignore_unmapped")? && sort.unmapped_type.is_none() {
                    sort.unmapped_type = Some("long".into());
                }
            }
            "numeric_type" => {
                let text = value.string("numeric_type")?;
                if !["long", "double", "date", "date_nanos"].contains(&text.as_str()) {
                    let cause = Error::illegal(format!(
                        "invalid value for [numeric_type], must be [long, double, date, date_nanos], got {text}"
                    ));
                    return Err(shape::failed_field("field_sort", "numeric_type", at, cause));
                }
                sort.numeric_type = Some(text);
            }
            "format" => sort.format = Some(value.string("format")?),
            "nested" => sort.nested = Some(parse_nested(value, dialect)?),
            "nested_path" | "nestedPath" => path = Some(value.string("nested_path")?),
            "nested_filter" | "nestedFilter" => filter = Some(Query::parse(value, &mut parsing(dialect))?),
            _ if dialect.typed => return Err(Error::illegal(format!("sort option [{key}] not supported"))),
            _ => return Err(shape::unknown_field("field_sort", &key, &value, FIELD_OPTIONS)),
        }
    }
    if let Some(path) = path {
        sort.nested = Some(NestedSort {
            path,
            filter,
            max_children: None,
            nested: None,
        });
    }
    let plain = named(sort.field.clone(), ascending);
    Ok(if matches!(plain.by, SortBy::Field(_)) {
        Sort {
            by: SortBy::Field(sort),
            ..plain
        }
    } else {
        plain
    })
}

fn parse_nested(node: Node, dialect: Dialect) -> Result<NestedSort> {
    let mut out = NestedSort {
        path: String::new(),
        filter: None,
        max_children: None,
        nested: None,
    };
    for (key, value) in shape::object(node, "nested_sort")? {
        match key.as_str() {
            "path" => out.path = value.string("path")?,
            "filter" => out.filter = Some(Query::parse(value, &mut parsing(dialect))?),
            "max_children" => out.max_children = Some(value.u32("max_children")?),
            "nested" => out.nested = Some(Box::new(parse_nested(value, dialect)?)),
            _ => {
                return Err(Error::illegal(format!(
                    "malformed nested sort format, unknown field name [{key}]"
                )));
            }
        }
    }
    if out.path.is_empty() {
        Err(shape::required("path"))
    } else {
        Ok(out)
    }
}

fn parse_script(node: Node, dialect: Dialect) -> Result<Sort> {
    let refuse = |reason: &str| {
        let kind = if dialect.typed {
            ErrorKind::SearchParse
        } else {
            ErrorKind::IllegalArgument
        };
        Error::new(kind, reason)
    };
    let (mut script, mut kind, mut sort_mode, mut ascending) = (None, None, None, true);
    let mut siblings = ScriptSiblings::default();
    for (key, value) in shape::object(node, "_script")? {
        match key.as_str() {
            "script" => script = Some(ScriptSource::parse(value, dialect)?),
            "type" => {
                let text = value.string("type")?;
                kind = Some(match text.as_str() {
                    "number" => ScriptSortKind::Number,
                    "string" => ScriptSortKind::String,
                    _ if dialect.typed => return Err(refuse(&format!("custom script sort type [{text}] not supported"))),
                    _ => return Err(refuse(&format!("Unknown ScriptSortType [{text}]"))),
                });
            }
            "order" => ascending = direction_option("_script", "_script", &value, dialect)?,
            "reverse" if dialect.typed => ascending = !value.boolean("reverse")?,
            "mode" => sort_mode = Some(mode("_script", &value, dialect)?),
            "nested" | "nested_path" | "nested_filter" => {
                return Err(Error::illegal(format!("[{key}] of a [_script] sort is not supported")));
            }
            _ if siblings.take(&key, &value, dialect)? => {}
            _ => {
                return Err(shape::unknown_field(
                    "_script",
                    &key,
                    &value,
                    &["script", "type", "order", "mode"],
                ));
            }
        }
    }
    let mut script = script.ok_or_else(|| {
        refuse(if dialect.typed {
            "_script sorting requires setting the script to sort by"
        } else {
            "Required [script]"
        })
    })?;
    siblings.apply(&mut script);
    let kind = kind.ok_or_else(|| {
        refuse(if dialect.typed {
            "_script sorting requires setting the type of the script"
        } else {
            "Required [type]"
        })
    })?;
    Ok(Sort {
        by: SortBy::Script {
            script,
            kind,
            mode: sort_mode,
        },
        ascending,
    })
}

fn parse_geo_distance(node: Node, dialect: Dialect) -> Result<Sort> {
    let (mut target, mut unit, mut sort_mode) = (None, "m".to_owned(), None);
    let (mut arc, mut ignore_unmapped, mut ascending) = (true, false, true);
    for (key, value) in shape::object(node, "_geo_distance")? {
        match key.as_str() {
            "order" => ascending = direction_option("_geo_distance", "_geo_distance", &value, dialect)?,
            "reverse" if dialect.typed => ascending = !value.boolean("reverse")?,
            "unit" => unit = value.string("unit")?,
            "distance_type" => arc = value.string("distance_type")? != "plane",
            "mode" | "sort_mode" => sort_mode = Some(mode("_geo_distance", &value, dialect)?),
            "ignore_unmapped" => ignore_unmapped = value.boolean("ignore_unmapped")?,
            "validation_method" | "ignore_malformed" | "coerce" | "normalize" => {}
            "nested" | "nested_path" | "nested_filter" => {
                return Err(Error::illegal(format!("[{key}] of a [_geo_distance] sort is not supported")));
            }
            _ => target = Some((key, parse_points(value)?)),
        }
    }
    let (field, points) = target
        .filter(|(_, points)| !points.is_empty())
        .ok_or_else(|| Error::illegal("must provide at least one point"))?;
    Ok(Sort {
        by: SortBy::GeoDistance {
            field,
            points,
            unit,
            mode: sort_mode,
            arc,
            ignore_unmapped,
        },
        ascending,
    })
}

/// `[lon, lat]`, `"lat,lon"`, `{lat, lon}`, or a list of them.
fn parse_points(node: Node) -> Result<Vec<(f64, f64)>> {
    match node.value {
        Json::Array(items) if items.first().is_some_and(|i| matches!(i.value, Json::Number(_))) => {
            let numbers: Vec<f64> = items.into_iter().map(|i| i.f64("lon")).collect::<Result<_>>()?;
            match numbers.as_slice() {
                [lon, lat] | [lon, lat, _] => Ok(vec![(*lat, *lon)]),
                _ => Err(Error::new(
                    ErrorKind::Parse,
                    "[geo_point] field type does not accept more than 3 values",
                )),
            }
        }
        Json::Array(items) => {
            let lists: Vec<Vec<(f64, f64)>> = items.into_iter().map(parse_points).collect::<Result<_>>()?;
            Ok(lists.concat())
        }
        Json::Object(members) => {
            let (mut lat, mut lon) = (None, None);
            for (key, value) in members {
                match key.as_str() {
                    "lat" => lat = Some(value.f64("lat")?),
                    "lon" => lon = Some(value.f64("lon")?),
                    _ => return Err(Error::new(ErrorKind::Parse, "field must be either [lat], [lon] or [geohash]")),
                }
            }
            lat.zip(lon)
                .map(|point| vec![point])
                .ok_or_else(|| Error::new(ErrorKind::Parse, "field [lat] or [lon] missing"))
        }
        _ => {
            let text = node.string("point")?;
            let point = text
                .split_once(',')
                .and_then(|(lat, lon)| Some((lat.trim().parse().ok()?, lon.trim().parse().ok()?)));
            point
                .map(|p| vec![p])
                .ok_or_else(|| Error::new(ErrorKind::Parse, format!("unsupported point [{text}], expected [lat,lon]")))
        }
    }
}

/// `order` among the options of a key.
fn direction_option(owner: &str, field: &str, value: &Node, dialect: Dialect) -> Result<bool> {
    direction(&value.string("order")?, field, dialect).map_err(|cause| {
        if dialect.typed {
            cause
        } else {
            shape::failed_field(owner, "order", (value.line, value.col), cause)
        }
    })
}

fn direction(text: &str, field: &str, dialect: Dialect) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "asc" => Ok(true),
        "desc" => Ok(false),
        _ if dialect.typed => Err(Error::illegal(format!("sort direction [{field}] not supported"))),
        _ => Err(Error::illegal(format!(
            "Unknown sort order [{text}], expected [asc] or [desc]"
        ))),
    }
}

fn mode(owner: &str, value: &Node, dialect: Dialect) -> Result<MultiValueMode> {
    let text = value.string("mode")?;
    match text.to_ascii_lowercase().as_str() {
        "min" => Ok(MultiValueMode::Min),
        "max" => Ok(MultiValueMode::Max),
        "avg" => Ok(MultiValueMode::Avg),
        "sum" => Ok(MultiValueMode::Sum),
        "median" => Ok(MultiValueMode::Median),
        _ if dialect.typed => Err(Error::illegal(format!("Illegal sort mode: {text}"))),
        _ => {
            let cause = Error::illegal(format!("Unknown SortMode [{text}]"));
            Err(shape::failed_field(owner, "mode", (value.line, value.col), cause))
        }
    }
}

fn mode_name(mode: MultiValueMode) -> &'static str {
    match mode {
        MultiValueMode::Min => "min",
        MultiValueMode::Max => "max",
        MultiValueMode::Avg => "avg",
        MultiValueMode::Sum => "sum",
        MultiValueMode::Median => "median",
    }
}
