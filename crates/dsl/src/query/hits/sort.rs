//! `sort`: the keys that order hits.
//!
//! Not here: comparing values, which is the engine's.

use super::fields::ScriptSiblings;
use crate::json::{Json, Node};
use crate::query::{MultiValueMode, Parsing, Query, script_source::ScriptSource};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Persona, Result};
use serde_json::{Map, Value, json};

/// One sort key.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// The value that is compared.
    pub by: SortBy,
    /// Smallest first.
    pub ascending: bool,
}

/// The value that a sort key compares.
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
        /// Which nested documents it runs on.
        nested: Option<NestedSort>,
    },
    /// `_geo_distance`; points are latitude and longitude.
    GeoDistance {
        field: String,
        points: Vec<(f64, f64)>,
        unit: String,
        mode: Option<MultiValueMode>,
        arc: bool,
        ignore_unmapped: bool,
        /// Which nested documents' places count.
        nested: Option<NestedSort>,
    },
}

/// The type of a sort script's value.
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
    /// The mode for several values.
    pub mode: Option<MultiValueMode>,
    /// The type to take it for where it is not mapped.
    pub unmapped_type: Option<String>,
    /// `long`, `double`, `date` or `date_nanos`.
    pub numeric_type: Option<String>,
    /// The format of dates in the answer.
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
        let listed = node.is_array();
        for item in node.items() {
            match &item.value {
                Json::Object(_) => {
                    for (field, options) in shape::object(item, "sort")? {
                        out.push(parse_key(field, options, dialect)?);
                    }
                }
                Json::String(_) => out.push(by_field(item.string("sort")?, None)),
                Json::Number(_) | Json::Bool(_) if !dialect.rules.refuses_scalar_sorts && !listed => {
                    out.push(by_field(item.string("sort")?, None))
                }
                _ if listed && !dialect.rules.sort_refusal_words => {
                    return Err(Error::illegal(
                        "malformed sort format, within the sort array, an object, or an actual string are allowed",
                    ));
                }
                _ => {
                    return Err(Error::illegal(
                        "malformed sort format, either start with array, object, or an actual string",
                    ));
                }
            }
        }
        Ok(out)
    }
    /// Reads the parameter `sort`: `f:desc,_score`. A key whose order is neither `asc` nor `desc` is left out, as it always was.
    pub fn parse_url(text: &str) -> Vec<Sort> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts
            .filter_map(|part| match part.rsplit_once(':') {
                None => Some(by_field(part.to_owned(), None)),
                Some((field, order)) if order.eq_ignore_ascii_case("asc") || order.eq_ignore_ascii_case("desc") => {
                    Some(by_field(field.to_owned(), Some(order.eq_ignore_ascii_case("asc"))))
                }
                Some(_) => None,
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
                sort.render_into(&mut options);
                &sort.field
            }
            SortBy::Script {
                script,
                kind,
                mode,
                nested,
            } => {
                if let Some(nested) = nested {
                    options.insert("nested".into(), nested.render());
                }
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
                nested,
            } => {
                if let Some(nested) = nested {
                    options.insert("nested".into(), nested.render());
                }
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

impl FieldSort {
    fn render_into(&self, options: &mut Map<String, Value>) {
        let texts = [
            ("unmapped_type", &self.unmapped_type),
            ("numeric_type", &self.numeric_type),
            ("format", &self.format),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                options.insert(key.into(), text.as_str().into());
            }
        }
        if let Some(missing) = &self.missing {
            options.insert("missing".into(), missing.clone());
        }
        if let Some(mode) = self.mode {
            options.insert("mode".into(), mode_name(mode).into());
        }
        if let Some(nested) = &self.nested {
            options.insert("nested".into(), nested.render());
        }
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
fn by_field(field: String, ascending: Option<bool>) -> Sort {
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
        return Ok(by_field(field, Some(order)));
    }
    if !options.is_object() && dialect.rules.sort_refusal_words {
        let reason = format!("sort option [{field}] not supported");
        return Err(Error::new(ErrorKind::SearchParse, reason));
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
    let mut old = NestedOptions::default();
    for (key, value) in shape::object(options, "field_sort")? {
        let at = (value.line, value.col);
        if sort.field == "_score" && !matches!(key.as_str(), "order" | "reverse") && !dialect.rules.tolerates_conflicting_options
        {
            return Err(shape::unknown_field("_score", &key, &value, &["order"]));
        }
        match key.as_str() {
            // 2015 passed over a value that is no text.
            "order" if dialect.rules.tolerates_value_types && value.as_str().is_none() => {}
            "order" => ascending = Some(direction_option("field_sort", &sort.field, &value, dialect)?),
            "reverse" if dialect.rules.takes_former_options => ascending = Some(!value.boolean("reverse")?),
            "mode" => sort.mode = Some(mode("field_sort", &value, dialect)?),
            "missing" => sort.missing = if value.is_null() { None } else { Some(value.into_value()) },
            "unmapped_type" | "unmappedType" => sort.unmapped_type = Some(value.string("unmapped_type")?),
            "ignore_unmapped" | "ignoreUnmapped" if dialect.rules.takes_former_options => {
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
            // OpenSearch has none.
            "format" if !matches!(dialect.persona, Persona::Opensearch2 | Persona::Opensearch3) => {
                sort.format = Some(value.string("format")?);
            }
            _ if old.take(&key, &value, "field_sort", dialect)? => {}
            _ if dialect.rules.sort_refusal_words => return Err(Error::illegal(format!("sort option [{key}] not supported"))),
            _ => return Err(shape::unknown_field("field_sort", &key, &value, FIELD_OPTIONS)),
        }
    }
    sort.nested = old.finish();
    let plain = by_field(sort.field.clone(), ascending);
    Ok(if matches!(plain.by, SortBy::Field(_)) {
        Sort {
            by: SortBy::Field(sort),
            ..plain
        }
    } else {
        plain
    })
}

/// `nested`, or the `nested_path` and `nested_filter` that were before it.
#[derive(Default)]
struct NestedOptions {
    nested: Option<NestedSort>,
    path: Option<String>,
    filter: Option<Query>,
}

impl NestedOptions {
    /// Takes an option if it is one of these.
    fn take(&mut self, key: &str, value: &Node, owner: &str, dialect: Dialect) -> Result<bool> {
        match key {
            "nested" => self.nested = Some(parse_nested(value.clone(), dialect)?),
            "nested_path" | "nestedPath" => self.path = Some(value.clone().string("nested_path")?),
            "nested_filter" | "nestedFilter" => {
                self.filter = Some(Query::parse(value.clone(), &mut Parsing::of_filter(dialect))?)
            }
            _ => return Ok(false),
        }
        if self.nested.is_some() && (self.path.is_some() || self.filter.is_some()) {
            let cause = Error::illegal("Setting both nested_path/nested_filter and nested not allowed");
            return Err(shape::failed_field(owner, key, (value.line, value.col), cause));
        }
        Ok(true)
    }

    /// The sort that they make. A filter without a path restricts nothing.
    fn finish(self) -> Option<NestedSort> {
        self.nested.filter(|nested| !nested.path.is_empty()).or_else(|| {
            self.path.map(|path| NestedSort {
                path,
                filter: self.filter,
                max_children: None,
                nested: None,
            })
        })
    }
}

/// `nested` of a key; one without a path is none.
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
            "filter" => out.filter = Some(Query::parse(value, &mut Parsing::of_filter(dialect))?),
            "max_children" => out.max_children = Some(value.u32("max_children")?),
            "nested" => out.nested = Some(Box::new(parse_nested(value, dialect)?)),
            _ => {
                let known = ["path", "filter", "max_children", "nested"];
                return Err(shape::unknown_field("nested_sort", &key, &value, &known));
            }
        }
    }
    Ok(out)
}

fn refuse_script_sort(reason: &str, dialect: Dialect) -> Error {
    let kind = if dialect.rules.search_parse_exceptions {
        ErrorKind::SearchParse
    } else {
        ErrorKind::IllegalArgument
    };
    Error::new(kind, reason)
}

fn script_sort_kind(value: &Node, dialect: Dialect) -> Result<ScriptSortKind> {
    let text = value.string("type")?;
    match text.as_str() {
        "number" => Ok(ScriptSortKind::Number),
        "string" => Ok(ScriptSortKind::String),
        _ if dialect.rules.sort_refusal_words => {
            let reason = format!("custom script sort type [{text}] not supported");
            Err(refuse_script_sort(&reason, dialect))
        }
        _ => {
            let cause = refuse_script_sort(&format!("Unknown ScriptSortType [{text}]"), dialect);
            Err(shape::failed_field("_script", "type", (value.line, value.col), cause))
        }
    }
}

fn parse_script(node: Node, dialect: Dialect) -> Result<Sort> {
    let (mut script, mut kind, mut sort_mode, mut ascending) = (None, None, None, true);
    let mut old = NestedOptions::default();
    let mut mode_at = (0, 0);
    let mut siblings = ScriptSiblings::default();
    for (key, value) in shape::object(node, "_script")? {
        let at = (value.line, value.col);
        match key.as_str() {
            "script" => script = Some(ScriptSource::parse(value, dialect)?),
            "type" => kind = Some(script_sort_kind(&value, dialect)?),
            "order" => ascending = direction_option("_script", "_script", &value, dialect)?,
            "reverse" if dialect.rules.takes_former_options => ascending = !value.boolean("reverse")?,
            "mode" => {
                sort_mode = Some(mode("_script", &value, dialect)?);
                mode_at = at;
            }
            _ if old.take(&key, &value, "_script", dialect)? => {}
            "script_id" | "script_file" if dialect.rules.takes_former_options => {
                script = Some(ScriptSource::from_stored_id(value.string(&key)?))
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
    let lacks = |then: &str, today: &str| {
        let reason = if dialect.rules.sort_refusal_words { then } else { today };
        refuse_script_sort(reason, dialect)
    };
    let mut script =
        script.ok_or_else(|| lacks("_script sorting requires setting the script to sort by", "Required [script]"))?;
    siblings.apply(&mut script);
    let kind = kind.ok_or_else(|| lacks("_script sorting requires setting the type of the script", "Required [type]"))?;
    let middling = |mode| matches!(mode, MultiValueMode::Sum | MultiValueMode::Avg | MultiValueMode::Median);
    if kind == ScriptSortKind::String && sort_mode.is_some_and(middling) && !dialect.rules.tolerates_conflicting_options {
        let cause = Error::illegal("script sort of type [string] doesn't support mode [sum], [avg] or [median]");
        return Err(shape::failed_field("_script", "mode", mode_at, cause));
    }
    Ok(Sort {
        by: SortBy::Script {
            script,
            kind,
            mode: sort_mode,
            nested: old.finish(),
        },
        ascending,
    })
}

fn parse_geo_distance(node: Node, dialect: Dialect) -> Result<Sort> {
    let (mut target, mut unit, mut sort_mode) = (None, "m".to_owned(), None);
    let (mut arc, mut ignore_unmapped, mut ascending) = (true, false, true);
    let mut wraps = false;
    let mut old = NestedOptions::default();
    for (key, value) in shape::object(node, "_geo_distance")? {
        match key.as_str() {
            "order" => ascending = direction_option("_geo_distance", "_geo_distance", &value, dialect)?,
            "reverse" if dialect.rules.takes_former_options => ascending = !value.boolean("reverse")?,
            "unit" => {
                unit = value.string("unit")?;
                if crate::query::metres(&format!("1{unit}"), "m").is_err() {
                    return Err(Error::illegal(format!("No distance unit match [{unit}]")));
                }
            }
            "distance_type" => arc = value.string("distance_type")? != "plane",
            "mode" | "sort_mode" => {
                let mode = mode("_geo_distance", &value, dialect)?;
                if mode == MultiValueMode::Sum && !dialect.rules.tolerates_conflicting_options {
                    return Err(Error::illegal("sort_mode [sum] isn't supported for sorting by geo distance"));
                }
                sort_mode = Some(mode);
            }
            "ignore_unmapped" => ignore_unmapped = value.boolean("ignore_unmapped")?,
            "validation_method" => match value.string("validation_method")?.to_ascii_lowercase().as_str() {
                // A point outside the world is refused either way: nothing is at any distance from it.
                "strict" | "ignore_malformed" => {}
                "coerce" => wraps = true,
                other => {
                    return Err(Error::illegal(format!(
                        "No enum constant GeoValidationMethod [{other}]: it is one of [COERCE, IGNORE_MALFORMED, STRICT]"
                    )));
                }
            },
            "ignore_malformed" if dialect.rules.takes_former_options => drop(value.boolean("ignore_malformed")?),
            "coerce" | "normalize" if dialect.rules.takes_former_options => wraps |= value.boolean("coerce")?,
            _ if old.take(&key, &value, "_geo_distance", dialect)? => {}
            _ => target = Some((key, parse_points(value)?)),
        }
    }
    let (field, mut points) = target
        .filter(|(_, points)| !points.is_empty())
        .ok_or_else(|| Error::illegal("Geo distance sorting needs at least one point."))?;
    if wraps {
        points.iter_mut().for_each(|point| *point = onto_the_world(*point));
    }
    Ok(Sort {
        by: SortBy::GeoDistance {
            field,
            points,
            unit,
            mode: sort_mode,
            arc,
            ignore_unmapped,
            nested: old.finish(),
        },
        ascending,
    })
}

/// A latitude beyond a pole goes down the other side, a longitude around.
fn onto_the_world((lat, lon): (f64, f64)) -> (f64, f64) {
    let around = |degrees: f64| (degrees + 180.0).rem_euclid(360.0) - 180.0;
    let lat = around(lat);
    if lat.abs() > 90.0 {
        (lat.signum() * 180.0 - lat, around(lon + 180.0))
    } else if (-180.0..=180.0).contains(&lon) {
        (lat, lon)
    } else {
        (lat, around(lon))
    }
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
            match point {
                Some(point) => Ok(vec![point]),
                None => {
                    // The corner that all points of the cell begin with.
                    let (lat, lon) = crate::query::geo::geohash_cell(text.trim())?;
                    Ok(vec![(lat.0, lon.0)])
                }
            }
        }
    }
}

/// `order` among the options of a key.
fn direction_option(owner: &str, field: &str, value: &Node, dialect: Dialect) -> Result<bool> {
    direction(&value.string("order")?, field, dialect).map_err(|cause| {
        if dialect.rules.refusals_are_unwrapped {
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
        _ if dialect.rules.sort_refusal_words => Err(Error::illegal(format!("sort direction [{field}] not supported"))),
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
        _ if dialect.rules.sort_refusal_words => Err(Error::illegal(format!("Illegal sort mode: {text}"))),
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
