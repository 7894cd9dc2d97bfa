//! Where an aggregation's values come from: columns, scripts, stand-ins for missing ones.
//!
//! Not here: what stands for a value in buckets (`codes`), the values of many documents at once (`block_values`), how a value is
//! shown (`format`), what scripts read (`scripts`).

use super::At;
use super::codes::{Interner, code_double, code_long, double_code, long_code};
use super::format::{Format, ip_text, number, parse_ip};
use super::scripts::{AggregationScript, as_number};
use crate::fields::column::Column;
use crate::fields::field_data::{refuse_text, refuse_without_values};
use crate::fields::target::Target;
use dsl::aggs::ValueSource;
use mapping::{FieldType, FieldValue, Kind};
use model::compat::IndexRules;
use model::date::DateFormat;
use model::{Error, ErrorKind, Result};
use segment::open_columns;
use segment::searchable::IndexView;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::net::Ipv6Addr;
use tantivy::DocId;
use tantivy::columnar::StrColumn;

/// The kind of a source's values, in all indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Whole numbers.
    Long,
    /// `unsigned_long`.
    Unsigned,
    /// Numbers with a fraction.
    Double,
    /// Booleans.
    Bool,
    /// Epoch milliseconds.
    Date,
    /// Addresses.
    Ip,
    /// Strings.
    Str,
}

impl Class {
    pub(super) fn of(kind: Kind) -> Class {
        match kind {
            Kind::Date | Kind::DateNanos => Class::Date,
            Kind::UnsignedLong => Class::Unsigned,
            Kind::Boolean => Class::Bool,
            Kind::Ip => Class::Ip,
            kind if kind.is_integer() => Class::Long,
            kind if kind.is_float() => Class::Double,
            _ => Class::Str,
        }
    }
    /// Can be added up.
    pub(crate) fn is_number(self) -> bool {
        !matches!(self, Class::Ip | Class::Str)
    }
}

/// The values that an aggregation can work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// Anything with a column.
    Any,
    /// Numbers, dates, booleans.
    Numbers,
    /// Addresses.
    Ips,
}

/// Words and addresses are shown as they are, and are no numbers whatever is said of them.
fn check_shown(target: &Target<'_>, path: &str, formatted: bool, named: Option<Class>) -> Result<()> {
    let class = Class::of(target.kind.kind);
    let plain = matches!(class, Class::Str | Class::Ip | Class::Bool) && target.kind.kind.range_of().is_none();
    let wire = target.kind.wire();
    if formatted && plain {
        return Err(Error::illegal(format!(
            "Field [{path}] of type [{wire}] does not support custom formats"
        )));
    }
    if named.is_some_and(Class::is_number) && class == Class::Str {
        return Err(Error::illegal(format!(
            "Expected numeric type on field [{path}], but got [{wire}]"
        )));
    }
    Ok(())
}

pub(super) enum Reader {
    Nothing,
    Column(Column),
    /// The lower and the upper ends of ranges.
    Ranges(tantivy::columnar::Column<Ipv6Addr>, tantivy::columnar::Column<Ipv6Addr>),
    /// One string for every document: `_index`.
    Constant(u64),
}

/// Values of documents.
pub(crate) struct ValuesSource {
    pub(super) field: Option<String>,
    pub(super) script: Option<AggregationScript>,
    pub(super) missing_code: Option<u64>,
    pub(super) missing_number: Option<f64>,
    /// The kind of all values.
    pub(crate) class: Class,
    /// Some index has the field, or there is a script.
    pub(crate) mapped: bool,
    /// How values are shown.
    pub(crate) format: Format,
    pub(super) reader: Reader,
    /// The name of the column that is read, if a segment keeps it as it is.
    column_name: Option<String>,
    pub(super) interner: Interner,
    nanos: bool,
    spare: Vec<f64>,
    /// The values are ranges with ends of this kind.
    pub(crate) ranges: Option<Kind>,
    /// The values are distances of places from one.
    distance: Option<Distance>,
}

/// From where, and in what, distances are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distance {
    /// Latitude and longitude.
    pub(crate) origin: (f64, f64),
    /// The unit.
    pub(crate) metres: f64,
    /// Along the sphere, not the plane.
    pub(crate) arc: bool,
}

impl Distance {
    fn to(self, place: (f64, f64)) -> f64 {
        crate::fields::geo_distance::far(self.arc, IndexRules::of(false))(self.origin, place) / self.metres
    }
}

/// Fields that are no leaves of the mapping but have a column of strings.
fn metadata_column(view: &IndexView, field: &str) -> Option<&'static str> {
    match field {
        "_id" => Some("_id"),
        "_type" if view.rules().has_type_fields => Some("_type"),
        "_parent" if view.rules().has_type_fields => Some("_parent"),
        _ => None,
    }
}

/// # Errors
/// No `value_type` has this name.
fn class_named(value_type: Option<&str>) -> Result<Option<Class>> {
    Ok(Some(match value_type {
        None => return Ok(None),
        Some("long" | "integer" | "short" | "byte") => Class::Long,
        Some("unsigned_long") => Class::Unsigned,
        Some("double" | "float" | "number" | "numeric") => Class::Double,
        Some("date") => Class::Date,
        Some("boolean") => Class::Bool,
        Some("ip") => Class::Ip,
        Some("string") => Class::Str,
        Some(other) => return Err(Error::illegal(format!("Unknown value type [{other}]"))),
    }))
}

/// The class of values that no field decides: by what stands for a missing value, and by what is wanted.
fn class_of_missing(spec: &ValueSource, wants: Wants) -> Class {
    match (&spec.missing, wants) {
        (_, Wants::Numbers) => Class::Double,
        (_, Wants::Ips) => Class::Ip,
        (Some(Value::Number(n)), Wants::Any) if spec.script.is_none() && n.is_f64() => Class::Double,
        (Some(Value::Number(_)), Wants::Any) if spec.script.is_none() => Class::Long,
        _ => Class::Str,
    }
}

/// The class of a field's values over all indices of a search.
#[derive(Default)]
struct MappedClass {
    /// `None`: no index has the field.
    class: Option<Class>,
    /// The field in the last index that has it, until one has a format.
    value: Option<FieldType>,
    /// The kind of the bounds of a range field.
    ranges: Option<Kind>,
}

impl MappedClass {
    /// # Errors
    /// An index has the field with a type that the aggregation cannot use, or two indices have it with types that do not mix.
    fn of(
        path: &str,
        wants: Wants,
        kind: &str,
        (formatted, named): (bool, Option<Class>),
        cx: &super::AggregationContext<'_>,
    ) -> Result<MappedClass> {
        let mut out = MappedClass::default();
        for view in cx.views {
            let lenient = view.rules().tolerates_unfit_fields;
            let found = match Target::with_values(view, path) {
                Some(target) => {
                    refuse_text(&target, path)?;
                    if !lenient {
                        check_shown(&target, path, formatted, named)?;
                    }
                    check(&target, path, wants, kind)?;
                    if out.value.as_ref().is_none_or(|value| value.format.is_none()) {
                        out.value = Some(target.kind.clone());
                    }
                    let range = target.kind.kind.range_of();
                    out.ranges = out.ranges.or(range);
                    match range {
                        Some(Kind::Date) => Class::Date,
                        Some(_) if wants == Wants::Numbers => Class::Double,
                        _ => Class::of(target.kind.kind),
                    }
                }
                None if path == "_index" || metadata_column(view, path).is_some() => {
                    if wants != Wants::Any && !lenient {
                        return Err(Error::illegal(format!(
                            "Field [{path}] of type [{path}] is not supported for aggregation [{kind}]"
                        )));
                    }
                    Class::Str
                }
                None if path == "_seq_no" && !view.rules().lacks_seq_no => Class::Unsigned,
                None => {
                    refuse_without_values(view, path)?;
                    continue;
                }
            };
            out.class = Some(out.class.map_or(Ok(found), |before| before.with(found, kind))?);
        }
        Ok(out)
    }
}

impl Class {
    /// The class of values of two indices, in an aggregation of a kind.
    ///
    /// # Errors
    /// Their values do not mix.
    fn with(self, other: Class, kind: &str) -> Result<Class> {
        match self {
            before if before == other => Ok(before),
            before if before.is_number() && other.is_number() => Ok(Class::Double),
            _ => {
                let reason = format!(
                    "Merging/Reducing the aggregations failed when computing the aggregation [{kind}] because the field you gave in the aggregation query existed as two different types in two different indices"
                );
                Err(Error::new(ErrorKind::AggregationExecution, reason))
            }
        }
    }
}

impl ValuesSource {
    /// Whole strings.
    pub(crate) fn is_text(&self) -> bool {
        self.class == Class::Str
    }

    /// The source `spec` of an aggregation of type `kind` over these indices.
    pub(crate) fn new(spec: &ValueSource, wants: Wants, kind: &str, cx: &super::AggregationContext<'_>) -> Result<ValuesSource> {
        ValuesSource::of_value_type(spec, wants, kind, None, cx)
    }

    /// Takes `execution_hint`.
    pub(super) fn hint(&mut self, hint: Option<&str>) {
        self.interner.by_map = hint == Some("map");
    }

    /// As [`ValuesSource::new`], with the type that values of no mapped field have (`value_type`).
    pub(crate) fn of_value_type(
        spec: &ValueSource,
        wants: Wants,
        kind: &str,
        value_type: Option<&str>,
        cx: &super::AggregationContext<'_>,
    ) -> Result<ValuesSource> {
        let named = class_named(value_type)?;
        let found = match &spec.field {
            Some(path) => MappedClass::of(path, wants, kind, (spec.format.is_some(), named), cx)?,
            None => MappedClass::default(),
        };
        let class = found
            .class
            .or(named.filter(|_| wants == Wants::Any))
            .unwrap_or_else(|| class_of_missing(spec, wants));
        let format = found.value.as_ref().and_then(|kind| kind.format.clone());
        let format = match (class, &spec.format) {
            (Class::Date, Some(text)) => Format::Date(DateFormat::parse_pattern_of(text, cx.pattern_syntax())?, None),
            (Class::Date, None) => Format::Date(format.unwrap_or_default(), None),
            (Class::Bool, None) => Format::Bool,
            (Class::Str | Class::Ip, _) | (_, None) => Format::Raw,
            (_, Some(text)) => Format::Decimal(text.clone()),
        };
        let script = spec
            .script
            .as_ref()
            .map(|script| AggregationScript::new(script, cx))
            .transpose()?;
        let mut source = ValuesSource {
            field: spec.field.clone(),
            script,
            missing_code: None,
            missing_number: None,
            class,
            mapped: spec.script.is_some() || found.class.is_some(),
            format,
            reader: Reader::Nothing,
            column_name: None,
            interner: Interner::default(),
            nanos: false,
            spare: Vec::new(),
            ranges: found.ranges,
            distance: None,
        };
        if found.ranges.is_some() && (spec.missing.is_some() || spec.script.is_some()) {
            let path = spec.field.as_deref().unwrap_or_default();
            return Err(Error::illegal(format!(
                "Can't apply missing values or scripts on ranges: [{path}] is a field of ranges"
            )));
        }
        if let Some(missing) = &spec.missing {
            if class.is_number() {
                source.missing_number = Some(source.read_number(missing, found.value.as_ref(), cx.plan.now_ms)?);
            }
            source.missing_code = Some(source.code_of_value(missing, cx.plan.now_ms)?);
        }
        Ok(source)
    }

    /// The distances of a field's places.
    pub(crate) fn distances(
        field: &str,
        distance: Distance,
        kind: &str,
        cx: &super::AggregationContext<'_>,
    ) -> Result<ValuesSource> {
        refuse_no_places(field, kind, cx)?;
        let nothing = ValueSource::default();
        let mut source = ValuesSource::new(&nothing, Wants::Numbers, kind, cx)?;
        source.field = Some(field.to_owned());
        source.mapped = cx.views.iter().any(|view| Target::of(view, field).is_some());
        source.distance = Some(distance);
        Ok(source)
    }

    /// The ranges of a document: lower and upper ends as numbers, both included.
    pub(crate) fn ranges(&self, doc: DocId, out: &mut Vec<(f64, f64)>) {
        out.clear();
        let Reader::Ranges(lows, highs) = &self.reader else { return };
        let number = |key: Ipv6Addr| {
            let code = u128::from(key) as u64;
            match self.ranges {
                Some(kind) if kind.is_float() => code_double(code),
                _ => code_long(code) as f64,
            }
        };
        out.extend(
            lows.values_for_doc(doc)
                .zip(highs.values_for_doc(doc))
                .map(|(low, high)| (number(low), number(high))),
        );
    }

    /// The addresses of a document, in any order, some perhaps twice. `codes` is a buffer.
    ///
    /// # Errors
    /// As [`ValuesSource::codes`].
    pub(super) fn addresses(&mut self, doc: DocId, score: f32, codes: &mut Vec<u64>, out: &mut Vec<Ipv6Addr>) -> Result<()> {
        out.clear();
        if self.script.is_none()
            && self.missing_code.is_none()
            && let Reader::Column(Column::Ip(column)) = &self.reader
        {
            out.extend(column.values_for_doc(doc));
            return Ok(());
        }
        self.codes(doc, score, codes, false)?;
        for code in codes {
            out.push(parse_ip(&self.text(*code)?)?);
        }
        Ok(())
    }

    /// Whether documents of the current segment may have several values; `None` where it has none.
    pub(crate) fn is_multivalued(&self) -> Option<bool> {
        match &self.reader {
            Reader::Column(column) => Some(column.is_multivalued()),
            Reader::Constant(_) => Some(false),
            Reader::Ranges(lows, _) => Some(lows.index.get_cardinality() == tantivy::columnar::Cardinality::Multivalued),
            Reader::Nothing => None,
        }
    }

    /// Reads values off a script.
    pub(crate) fn is_scripted(&self) -> bool {
        self.script.is_some()
    }

    /// Needs scores.
    pub(crate) fn wants_scores(&self) -> bool {
        self.script.as_ref().is_some_and(AggregationScript::uses_score)
    }

    /// A number of a request in the terms of this source.
    fn read_number(&self, value: &Value, _field: Option<&FieldType>, now_ms: i64) -> Result<f64> {
        match value {
            Value::Number(n) => Ok(n.as_f64().unwrap_or(f64::NAN)),
            Value::Bool(b) => Ok(f64::from(u8::from(*b))),
            Value::String(text) => match &self.format {
                Format::Date(format, zone) => {
                    model::date::parse_math(text, format, zone.as_ref(), now_ms, false).map(|ms| ms as f64)
                }
                _ if self.class == Class::Bool => Ok(f64::from(u8::from(text == "true"))),
                _ => text.trim().parse().map_err(|_| Error::no_number(text)),
            },
            other => Err(Error::illegal(format!("[{other}] is no value"))),
        }
    }

    /// The code of a value of a request.
    pub(crate) fn code_of_value(&mut self, value: &Value, now_ms: i64) -> Result<u64> {
        Ok(match self.class {
            Class::Double => double_code(self.read_number(value, None, now_ms)?),
            Class::Unsigned => value.as_u64().unwrap_or(self.read_number(value, None, now_ms)? as u64),
            Class::Long => match value.as_i64() {
                Some(n) => long_code(n),
                None => long_code(self.read_number(value, None, now_ms)? as i64),
            },
            Class::Date | Class::Bool => long_code(self.read_number(value, None, now_ms)? as i64),
            Class::Ip => {
                let ip = parse_ip(value.as_str().unwrap_or_default())?;
                self.interner.ip(ip)
            }
            Class::Str => {
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                self.interner.leave_direct()?;
                self.interner.intern(&text)
            }
        })
    }

    /// Opens what it needs of a segment.
    pub(crate) fn segment(&mut self, at: &At<'_>) -> Result<()> {
        if let Some(script) = &mut self.script {
            script.segment(at)?;
        }
        self.reader = Reader::Nothing;
        let Some(path) = &self.field else { return Ok(()) };
        let mut name = None;
        let column = match Target::with_values(at.view, path) {
            Some(target) => {
                self.nanos = target.kind.kind == Kind::DateNanos;
                if target.kind.kind.is_range() {
                    let column = |name: &str| open_columns::values::<Ipv6Addr>(at.segment, name);
                    let lows = target.slot.column.as_deref().map(column).transpose()?.flatten();
                    let highs = target
                        .slot
                        .second
                        .as_ref()
                        .map(|(_, name)| column(name))
                        .transpose()?
                        .flatten();
                    if let Some((lows, highs)) = lows.zip(highs) {
                        self.reader = Reader::Ranges(lows, highs);
                    }
                    return Ok(());
                }
                // The column of a relation's ids belongs to no field that ordinals are kept of.
                name = target.own_column().map(str::to_owned);
                Column::open(at.segment, &target)?
            }
            None if path == "_seq_no" && !at.view.rules().lacks_seq_no => Some(Column::U64(at.segment.core.seq_no().clone())),
            None if path == "_index" => {
                self.interner.leave_direct()?;
                self.reader = Reader::Constant(self.interner.intern(at.view.name.as_str()));
                return Ok(());
            }
            None => match metadata_column(at.view, path) {
                Some(own) => {
                    name = Some(own.to_owned());
                    open_columns::strings(at.segment, own)?.map(Column::Str)
                }
                None => None,
            },
        };
        if let Some(Column::Str(strings)) = &column {
            if self.missing_code.is_some() && self.interner.list.is_empty() {
                self.interner.leave_direct()?;
            }
            self.interner.enter(strings, name.as_deref(), at)?;
        }
        self.column_name = name;
        if let Some(column) = column {
            self.reader = Reader::Column(column);
        }
        Ok(())
    }

    /// The column of strings that is read, and its name, where a segment keeps it as it is and nothing stands for missing values.
    pub(super) fn strings(&self) -> Option<(&StrColumn, &str)> {
        match (&self.reader, &self.column_name) {
            (Reader::Column(Column::Str(column)), Some(name)) if self.script.is_none() && self.missing_code.is_none() => {
                Some((column, name))
            }
            _ => None,
        }
    }

    /// The code of a string of that column by its ordinal.
    pub(super) fn code_of_ordinal(&self, ordinal: usize) -> Option<usize> {
        match &self.interner.table {
            None => Some(ordinal),
            Some(table) => table.get(ordinal).map(|code| *code as usize),
        }
    }

    /// Does a document have a value?
    pub(crate) fn has(&self, doc: DocId) -> bool {
        match &self.reader {
            Reader::Nothing => false,
            Reader::Constant(_) => true,
            Reader::Column(column) => column.has(doc),
            Reader::Ranges(lows, _) => lows.index.has_value(doc),
        }
    }

    /// The values of a document as numbers.
    #[inline]
    pub(crate) fn numbers(&mut self, doc: DocId, score: f32, out: &mut Vec<f64>) -> Result<()> {
        out.clear();
        if let Reader::Column(column) = &self.reader {
            match column {
                Column::Geo(lat, lon) => {
                    if let Some(distance) = self.distance {
                        let places = lat.values_for_doc(doc).zip(lon.values_for_doc(doc));
                        out.extend(places.map(|place| distance.to(place)));
                    }
                }
                Column::Str(_) | Column::Ip(_) => {}
                Column::DateNanos(c) => out.extend(c.values_for_doc(doc).map(|v| v.div_euclid(1_000_000) as f64)),
                Column::I64(c) | Column::Date(c) => out.extend(c.values_for_doc(doc).map(|v| v as f64)),
                Column::F64(c) => out.extend(c.values_for_doc(doc)),
                other => other.numbers(doc, out),
            }
        }
        if let Some(script) = &self.script {
            if self.field.is_some() {
                for value in out.iter_mut() {
                    *value = as_number(&script.run(doc, score, Some(script::Value::from_json(&number(*value))))?);
                }
            } else {
                let value = script.run(doc, score, None)?;
                match value.items() {
                    Some(items) => out.extend(items.iter().map(as_number)),
                    None if matches!(value, script::Value::Null) => {}
                    None => out.push(as_number(&value)),
                }
            }
        }
        if out.is_empty()
            && let Some(missing) = self.missing_number
        {
            out.push(missing);
        }
        Ok(())
    }

    /// How many values a document has (`value_count`).
    pub(crate) fn count(&mut self, doc: DocId, score: f32, out: &mut Vec<u64>) -> Result<usize> {
        if matches!(self.reader, Reader::Ranges(..)) {
            // All ranges of a document are kept as one value.
            return Ok(usize::from(self.has(doc)));
        }
        if let (Reader::Column(Column::Geo(lat, _)), None) = (&self.reader, &self.script) {
            return Ok(lat.values_for_doc(doc).count());
        }
        self.codes(doc, score, out, false)?;
        Ok(out.len())
    }

    /// The values of a document as codes; with `once`, in order and each once, as terms are.
    #[inline]
    pub(crate) fn codes(&mut self, doc: DocId, score: f32, out: &mut Vec<u64>, once: bool) -> Result<()> {
        out.clear();
        if self.script.is_some() {
            self.script_codes(doc, score, out)?;
        } else {
            match &self.reader {
                Reader::Nothing => {}
                Reader::Constant(code) => out.push(*code),
                Reader::Ranges(lows, highs) => {
                    let mut ends = lows.values_for_doc(doc).zip(highs.values_for_doc(doc)).peekable();
                    if ends.peek().is_some() {
                        let mut all: Vec<_> = ends.collect();
                        all.sort_unstable();
                        let text = format!("{all:?}");
                        self.interner.leave_direct()?;
                        out.push(self.interner.intern(&text));
                    }
                }
                Reader::Column(column) => match (column, self.class) {
                    (Column::Str(c), _) => match &self.interner.table {
                        None => out.extend(c.term_ords(doc)),
                        Some(table) => {
                            debug_assert_eq!(
                                table.len(),
                                c.num_terms(),
                                "search.md S14: a code for each string of the dictionary"
                            );
                            out.extend(
                                c.term_ords(doc)
                                    .filter_map(|ord| table.get(ord as usize).map(|n| u64::from(*n))),
                            );
                        }
                    },
                    (Column::I64(c), Class::Long) | (Column::Date(c), _) => out.extend(c.values_for_doc(doc).map(long_code)),
                    (Column::DateNanos(c), _) => {
                        out.extend(c.values_for_doc(doc).map(|v| long_code(v.div_euclid(1_000_000))));
                    }
                    (Column::Bool(c), Class::Bool) => out.extend(c.values_for_doc(doc).map(|b| long_code(i64::from(b)))),
                    (Column::U64(c), Class::Unsigned) => out.extend(c.values_for_doc(doc)),
                    (Column::Ip(c), _) => {
                        let interner = &mut self.interner;
                        out.extend(c.values_for_doc(doc).map(|ip| interner.ip(ip)));
                    }
                    (Column::Geo(..), _) => {}
                    (column, _) => {
                        let mut spare = std::mem::take(&mut self.spare);
                        column.numbers(doc, &mut spare);
                        out.extend(spare.iter().map(|n| double_code(*n)));
                        self.spare = spare;
                    }
                },
            }
        }
        if out.is_empty() {
            out.extend(self.missing_code);
        } else if once && out.len() > 1 {
            out.sort_unstable();
            out.dedup();
        }
        Ok(())
    }

    fn script_codes(&mut self, doc: DocId, score: f32, out: &mut Vec<u64>) -> Result<()> {
        let mut results = Vec::new();
        if let Some(script) = &self.script {
            match (&self.field, &self.reader) {
                (Some(_), Reader::Column(column)) => {
                    for value in column.values(doc)? {
                        let value = match value {
                            FieldValue::Keyword(text) => json!(text),
                            FieldValue::Long(n) | FieldValue::Date(n) => json!(n),
                            FieldValue::DateNanos(n) => json!(n.div_euclid(1_000_000)),
                            FieldValue::UnsignedLong(n) => json!(n),
                            FieldValue::Double(n) => number(n),
                            FieldValue::Bool(b) => json!(b),
                            FieldValue::Ip(octets) => json!(ip_text(Ipv6Addr::from(octets))),
                            _ => continue,
                        };
                        results.push(script.run(doc, score, Some(script::Value::from_json(&value)))?);
                    }
                }
                (Some(_), _) => {}
                (None, _) => {
                    let value = script.run(doc, score, None)?;
                    match value.items() {
                        Some(items) => results = items,
                        None if matches!(value, script::Value::Null) => {}
                        None => results.push(value),
                    }
                }
            }
        }
        for value in results {
            let code = match self.class {
                Class::Str => {
                    self.interner.leave_direct()?;
                    self.interner.intern(&value.text())
                }
                Class::Ip => {
                    let ip = parse_ip(&value.text())?;
                    self.interner.ip(ip)
                }
                Class::Double => double_code(as_number(&value)),
                Class::Unsigned => as_number(&value) as u64,
                _ => long_code(value.as_i64().unwrap_or(as_number(&value) as i64)),
            };
            out.push(code);
        }
        Ok(())
    }

    /// Every value in a segment's column (`min_doc_count: 0`).
    pub(crate) fn all_codes(&mut self, at: &At<'_>, mut f: impl FnMut(u64)) -> Result<()> {
        // A dictionary has the terms of documents that are withheld, too (security.md S6).
        if let Reader::Column(Column::Str(column)) = &self.reader
            && !at.view.is_restricted()
        {
            for ord in 0..column.num_terms() {
                match &self.interner.table {
                    None => f(ord as u64),
                    Some(table) => f(table.get(ord).map(|n| u64::from(*n)).unwrap_or_default()),
                }
            }
            return Ok(());
        }
        let mut codes = Vec::new();
        for doc in 0..at.segment.reader.max_doc() {
            if self.has(doc) && at.segment.is_alive(doc) {
                self.codes(doc, 0.0, &mut codes, true)?;
                codes.iter().for_each(|code| f(*code));
            }
        }
        Ok(())
    }

    /// The code here of what has a code in another source of the same aggregation.
    pub(super) fn adopt(&mut self, other: &ValuesSource, code: u64) -> Result<u64> {
        debug_assert_eq!(
            self.class, other.class,
            "search.md S28: the threads of a search read the same values"
        );
        match self.class {
            Class::Str => self.interner.adopt(&other.interner, code),
            Class::Ip => Ok(self.interner.ip(other.interner.ips[code as usize])),
            _ => Ok(code),
        }
    }

    /// The code of the least value there is, for what has none: of strings the first, of numbers 0.
    pub(crate) fn least_code(&self) -> u64 {
        match self.class {
            Class::Str if self.interner.direct.is_some() => 0,
            // By order of value there is no first here: nothing shares it.
            Class::Str | Class::Ip => u64::MAX,
            Class::Double => double_code(0.0),
            Class::Unsigned => 0,
            Class::Bool | Class::Long | Class::Date => long_code(0),
        }
    }

    /// The order of two codes by their values.
    pub(crate) fn compare(&self, a: u64, b: u64) -> Ordering {
        match self.class {
            Class::Str if self.interner.direct.is_none() => {
                self.interner.list.get(a as usize).cmp(&self.interner.list.get(b as usize))
            }
            Class::Ip => self.interner.ips.get(a as usize).cmp(&self.interner.ips.get(b as usize)),
            _ => a.cmp(&b),
        }
    }

    /// A code as text: what regular expressions and lists are compared with.
    pub(crate) fn text(&self, code: u64) -> Result<String> {
        Ok(match self.class {
            Class::Str => self.interner.text(code)?,
            Class::Ip => self
                .interner
                .ips
                .get(code as usize)
                .map(|ip| ip_text(*ip))
                .unwrap_or_default(),
            Class::Double => code_double(code).to_string(),
            Class::Unsigned => code.to_string(),
            Class::Bool => (code_long(code) != 0).to_string(),
            Class::Date => self.format.text(code_long(code) as f64).unwrap_or_default(),
            Class::Long => code_long(code).to_string(),
        })
    }

    /// A code's number as a doc value has it; strings and addresses have none.
    pub(crate) fn bits(&self, code: u64) -> Option<u64> {
        match self.class {
            Class::Str | Class::Ip => None,
            Class::Unsigned => Some(code),
            Class::Double => Some(code ^ (1 << 63)),
            _ => Some(code_long(code).cast_unsigned()),
        }
    }

    /// A code as the key of a bucket, and its text if that is shown too.
    pub(crate) fn key(&self, code: u64) -> Result<(Value, Option<String>)> {
        Ok(match self.class {
            Class::Str | Class::Ip => (Value::String(self.text(code)?), None),
            Class::Double => {
                let value = code_double(code);
                (number(value), self.format.text(value))
            }
            Class::Unsigned => (json!(code), self.format.text(code as f64)),
            Class::Bool | Class::Long | Class::Date => {
                let value = code_long(code);
                (json!(value), self.format.text(value as f64))
            }
        })
    }

    /// The name of a code's value in `typed_keys`.
    pub(crate) fn wire_type(&self) -> &'static str {
        match self.class {
            Class::Str | Class::Ip => "sterms",
            Class::Double => "dterms",
            Class::Unsigned => "ulterms",
            _ => "lterms",
        }
    }
}

/// Refuses a field that has no places.
pub(crate) fn refuse_no_places(field: &str, kind: &str, cx: &super::AggregationContext<'_>) -> Result<()> {
    for view in cx.views {
        if let Some(target) = Target::of(view, field)
            && target.kind.kind != Kind::GeoPoint
        {
            return Err(Error::illegal(format!(
                "Field [{field}] of type [{}] is not supported for aggregation [{kind}]",
                target.kind.wire()
            )));
        }
    }
    Ok(())
}

fn check(target: &Target<'_>, path: &str, wants: Wants, kind: &str) -> Result<()> {
    let class = Class::of(target.kind.kind);
    let ends = target.kind.kind.range_of();
    let fits = match wants {
        // The bounds that a query can have.
        _ if ends.is_some() => match kind {
            "histogram" => ends.is_some_and(|ends| !matches!(ends, Kind::Date | Kind::Ip)),
            "date_histogram" => ends == Some(Kind::Date),
            kind => matches!(kind, "value_count" | "cardinality" | "missing"),
        },
        Wants::Any => target.kind.kind != Kind::GeoPoint || matches!(kind, "missing" | "value_count"),
        Wants::Numbers => class.is_number(),
        Wants::Ips => class == Class::Ip,
    };
    if !fits {
        let wire = target.kind.wire();
        return Err(Error::illegal(format!(
            "Field [{path}] of type [{wire}] is not supported for aggregation [{kind}]"
        )));
    }
    if target.slot.column.is_none() && !target.kind.fielddata {
        return Err(Error::illegal(format!(
            "Can't load fielddata on [{path}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
            target.kind.wire()
        )));
    }
    Ok(())
}
