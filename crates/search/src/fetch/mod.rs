//! Fetches hits: address, source, fields, stamps.

pub(crate) mod collapse;
pub(crate) mod inner_hits;
pub(crate) mod top_hits;

use crate::context::Context;
use crate::document_reader::{DocumentReader, Stored};
use crate::fields::column::Column;
use crate::fields::field_data::{fielddata_disabled, refuse_without_values};
use crate::fields::target::{Target, setting};
use crate::interrupt::Interrupt;
use crate::scripts::Script;
use dsl::search::{FieldAndFormat, Hit, SearchRequest, SourceSpec};
use mapping::FieldValue;
use model::date::{DateFormat, PatternSyntax};
use model::path::SourceFilter;
use model::{Error, ErrorKind, Result};
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use tantivy::DocId as Doc;

/// One step from a document to a nested one in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// The nested field, relative to the level above.
    pub field: String,
    /// The position among the objects of that field.
    pub offset: usize,
}

/// The document that nested hits are in.
pub struct RootDocument {
    stored: Stored,
    value: Option<Value>,
}

impl RootDocument {
    /// Reads it.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn read(shelf: &DocumentReader<'_>, doc: Doc) -> Result<RootDocument> {
        Ok(RootDocument {
            stored: shelf.read(doc)?,
            value: None,
        })
    }
    fn value(&mut self) -> Result<Option<&Value>> {
        if let (None, Some(bytes)) = (&self.value, self.stored.payload.source()) {
            self.value = Some(parse_source(bytes)?);
        }
        Ok(self.value.as_ref())
    }
    fn fields(&self) -> Result<Option<Value>> {
        self.stored.payload.fields().map(parse_source).transpose()
    }
}

/// The way from a root document to a nested one of `path` in it.
///
/// # Errors
/// Unreadable files.
pub fn lineage(view: &IndexView, segment: &SegmentView, path: &str, doc: Doc) -> Result<Vec<Level>> {
    let offsets = segment.core.once("nested offsets", || {
        segment.reader.fast_fields().u64("_offset").map_err(broken)
    })?;
    let mut out = Vec::new();
    let (mut path, mut at) = (Some(path), doc);
    while let Some(inner) = path {
        let outer = view.mapping.nested_path_of(inner);
        let field = outer.map_or(inner, |outer| &inner[outer.len() + 1..]);
        let offset = offsets.first(at).unwrap_or(0);
        out.push(Level {
            field: field.to_owned(),
            offset: usize::try_from(offset).unwrap_or(0),
        });
        if let Some(outer) = outer {
            let around = crate::scorers::nested::enclosing(segment, &view.schema, Some(outer))?.next(at);
            debug_assert!(
                around > at && around < segment.reader.max_doc(),
                "search.md S6: document {at} of [{inner}] stands before the one of [{outer}] that encloses it"
            );
            at = around;
        }
        path = outer;
    }
    out.reverse();
    Ok(out)
}

/// `_nested` of a hit.
fn identity(lineage: &[Level]) -> Option<Value> {
    lineage.iter().rev().fold(None, |inner, level| {
        let mut out = json!({ "field": level.field, "offset": level.offset });
        if let Some(inner) = inner {
            out["_nested"] = inner;
        }
        Some(out)
    })
}

/// The source with nothing in it but one nested object, at its full path: so filters, highlighting and
/// `fields` read it as they read the whole.
fn isolate(source: &Value, lineage: &[Level]) -> Value {
    let mut at = Some(source);
    for level in lineage {
        let objects = at.map(|object| model::path::read(object, &level.field)).unwrap_or_default();
        at = objects.into_iter().filter(|found| found.is_object()).nth(level.offset);
    }
    let mut out = at.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    for part in lineage.iter().rev().flat_map(|level| level.field.rsplit('.')) {
        out = json!({ part: out });
    }
    out
}

fn parse_source(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|e| {
        Error::new(
            ErrorKind::Corruption,
            format!("stored source is not JSON: {}", model::text::no_json(&e)),
        )
    })
}

/// How a docvalue field is written.
#[derive(Clone)]
enum ShownAs {
    Date(DateFormat),
    /// A pattern of Java's `DecimalFormat`.
    Number(String),
}

/// The parts of a hit that a request shows, prepared once a search and index.
pub struct Fetch<'a> {
    view: &'a IndexView,
    request: &'a SearchRequest,
    filter: Option<SourceFilter>,
    show_source: bool,
    show_id: bool,
    docvalues: Vec<(String, Option<ShownAs>)>,
    /// Why no values of columns can be shown: told where there is a hit to show them of.
    refused: Option<Error>,
    join_fields: Vec<(String, crate::joins::Place)>,
    /// Name, script, whether a failure leaves the field out.
    scripts: Vec<(String, Script, bool)>,
    /// The time that a `_ttl` is counted from.
    now_ms: i64,
    /// Books the sources that hits hold.
    interrupt: Interrupt,
}

fn names_stored_field(request: &SearchRequest, name: &str) -> bool {
    let mut names = request.stored_fields.iter().flatten();
    names.any(|field| field == name)
}

/// Whether hits show their source, and which paths of it.
fn shown_source(request: &SearchRequest) -> (bool, Option<SourceFilter>) {
    match &request.source {
        SourceSpec::None => (false, None),
        SourceSpec::All => (true, None),
        SourceSpec::Filtered { includes, excludes } => (
            true,
            Some(SourceFilter {
                includes: includes.clone(),
                excludes: excludes.clone(),
            }),
        ),
        SourceSpec::Default => {
            let by_default = request.stored_fields.is_none() && request.script_fields.is_empty();
            (by_default || names_stored_field(request, "_source"), None)
        }
    }
}

/// # Errors
/// More doc value fields or script fields than the settings of the index allow.
fn check_counts(view: &IndexView, request: &SearchRequest) -> Result<()> {
    let limit = |name: &str, default: usize, count: usize, what: &str| {
        let max = setting(view, name, default);
        if count > max {
            return Err(Error::illegal(format!(
                "Trying to retrieve too many {what}. Must be less than or equal to: [{max}] but was [{count}]. \
                 This limit can be set by changing the [{name}] index level setting."
            )));
        }
        Ok(())
    };
    limit(
        "index.max_docvalue_fields_search",
        100,
        request.docvalue_fields.len(),
        "docvalue_fields",
    )?;
    limit("index.max_script_fields", 32, request.script_fields.len(), "script_fields")
}

/// The paths of `docvalue_fields` with their formats, and the refusal that a first hit gets: without hits there is none.
///
/// # Errors
/// A date pattern that cannot be read.
fn doc_value_formats(view: &IndexView, request: &SearchRequest) -> Result<(Vec<(String, Option<ShownAs>)>, Option<Error>)> {
    let mut out = Vec::new();
    let mut refused = None;
    for field in &request.docvalue_fields {
        if let Err(refusal) = refuse_without_values(view, &field.field) {
            refused = refused.or(Some(refusal));
        }
        let mut paths = view.mapping.expand(&field.field);
        if paths.is_empty() && Target::with_values(view, &field.field).is_some() {
            paths.push(field.field.clone());
        }
        for path in paths {
            let kind = view.mapping.resolve(&path).map(|(_, kind)| kind);
            let format = match (field.format.as_deref(), kind) {
                (None | Some("use_field_mapping"), _) => None,
                (Some(format), Some(kind)) if kind.kind.is_date() => Some(ShownAs::Date(DateFormat::parse_pattern_of(
                    format,
                    PatternSyntax::of(view.rules().joda_patterns),
                )?)),
                (Some(format), Some(kind)) if kind.kind.is_numeric() => Some(ShownAs::Number(format.to_owned())),
                (Some(_), Some(kind)) => {
                    let refusal = Error::illegal(format!(
                        "Field [{path}] of type [{}] does not support custom formats",
                        kind.wire()
                    ));
                    refused = refused.or(Some(refusal));
                    None
                }
                (Some(_), None) => None,
            };
            out.push((path, format));
        }
    }
    Ok((out, refused))
}

/// # Errors
/// A format of `fields` that its field cannot have.
fn check_field_formats(view: &IndexView, request: &SearchRequest) -> Result<()> {
    for field in &request.fields {
        let Some(format) = &field.format else { continue };
        for path in view.mapping.expand(&field.field) {
            let Some((_, kind)) = view.mapping.resolve(&path) else {
                continue;
            };
            if kind.kind.is_date() {
                DateFormat::parse_pattern_of(format, PatternSyntax::of(view.rules().joda_patterns))?;
            } else if !field.field.contains('*') && kind.kind != mapping::Kind::GeoPoint {
                return Err(Error::illegal(format!(
                    "Field [{path}] of type [{}] doesn't support formats.",
                    kind.wire()
                )));
            }
        }
    }
    Ok(())
}

impl<'a> Fetch<'a> {
    /// Checks the limits and compiles scripts.
    ///
    /// # Errors
    /// Too many fields, bad formats, bad scripts.
    pub fn new(view: &'a IndexView, request: &'a SearchRequest, cx: &Context<'_>) -> Result<Fetch<'a>> {
        check_counts(view, request)?;
        let (docvalues, refused) = doc_value_formats(view, request)?;
        check_field_formats(view, request)?;
        let none = names_stored_field(request, "_none_");
        let (show_source, filter) = shown_source(request);
        let scripts = request
            .script_fields
            .iter()
            .map(|f| Ok((f.name.clone(), Script::new(view, &f.script, cx)?, f.ignore_failure)));
        let scripts = scripts.collect::<Result<Vec<_>>>()?;
        Ok(Fetch {
            view,
            request,
            filter,
            show_source: show_source && !none,
            show_id: !none,
            docvalues,
            refused,
            join_fields: request
                .join_fields
                .iter()
                .filter_map(|field| Some((field.clone(), crate::joins::Place::of(view, field).ok()??)))
                .collect(),
            scripts,
            now_ms: cx.now_ms,
            interrupt: cx.interrupt.clone(),
        })
    }

    /// One hit.
    ///
    /// # Errors
    /// Unreadable files, scripts that fail.
    pub fn hit(
        &self,
        segment: &SegmentView,
        shelf: &DocumentReader<'_>,
        doc: Doc,
        score: Option<f32>,
    ) -> Result<(Hit, Option<Value>)> {
        let stored = shelf.read(doc)?;
        let mut hit = Hit::new(self.view.name.clone(), stored.id);
        hit.score = score;
        hit.show_id = self.show_id;
        hit.routing = stored.routing.filter(|_| self.show_id);
        hit.parent = stored.parent;
        let times = segment::times::times_of(self.view, segment, doc)?;
        (hit.timestamp, hit.ttl) = (times.timestamp, times.left(self.now_ms));
        hit.ignored = stored.ignored;
        hit.show_version = self.request.version;
        hit.show_seq_no = self.request.seq_no_primary_term;
        hit.stamp = (hit.show_version || hit.show_seq_no).then(|| segment.core.stamp(doc));
        if self.filter.is_some() && !self.view.mapping.source_enabled() {
            return Err(Error::illegal(format!(
                "unable to fetch fields from _source field: _source is disabled in the mappings for index [{}]",
                self.view.name
            )));
        }
        let value: Option<Value> = match stored.payload.source() {
            Some(bytes) if self.filter.is_some() || self.reads_source() => Some(parse_source(bytes)?),
            _ => None,
        };
        let kept = self.view.mapping_of(hit.id.doc_type.as_deref());
        if self.show_source && kept.source_enabled() {
            let own = kept.source_filter();
            let cut = !(own.includes.is_empty() && own.excludes.is_empty());
            let parsed: Option<Value> = match (&value, stored.payload.source()) {
                (None, Some(bytes)) if cut => serde_json::from_slice(bytes).ok(),
                _ => None,
            };
            hit.source = match (&self.filter, value.as_ref().or(parsed.as_ref()), stored.payload.source()) {
                (Some(filter), Some(value), _) if cut => Some(filter.apply(&own.apply(value)).to_string().into()),
                (None, Some(value), _) if cut => Some(own.apply(value).to_string().into()),
                (Some(filter), Some(value), _) => Some(filter.apply(value).to_string().into()),
                (_, _, Some(bytes)) => {
                    self.interrupt.reserve(bytes.len())?;
                    Some(String::from_utf8_lossy(bytes).into())
                }
                _ => None,
            };
        }
        let fields = stored.payload.fields().filter(|_| self.reads_source());
        let fields = fields.map(parse_source).transpose()?;
        self.parts(segment, doc, score, value.as_ref(), fields.as_ref(), &mut hit)?;
        Ok((hit, value))
    }

    /// A nested document as a hit. `root` is the document that it is in; it is parsed once for all of its own.
    ///
    /// # Errors
    /// As [`Fetch::hit`].
    pub fn nested_hit(
        &self,
        segment: &SegmentView,
        root: &mut RootDocument,
        doc: Doc,
        lineage: &[Level],
        score: Option<f32>,
    ) -> Result<Hit> {
        let mut hit = Hit::new(self.view.name.clone(), root.stored.id.clone());
        hit.score = score;
        // It tells which document the object is of, whatever else is left out.
        hit.show_id = true;
        hit.show_version = self.request.version;
        // Nested documents have no stamp of their own; Elasticsearch gives them the version 1.
        hit.stamp = Some(model::Stamp {
            version: 1,
            ..segment.core.stamp(doc)
        });
        hit.nested = identity(lineage);
        let value = if self.show_source || self.reads_source() {
            root.value()?.map(|source| isolate(source, lineage))
        } else {
            None
        };
        if let (true, Some(value)) = (self.show_source, &value) {
            // In 2015 the paths began at the object, not at its document.
            let relative = self.request.dialect.rules.nested_sources_are_relative;
            let inside = own_of(value, lineage).filter(|_| relative);
            let filtered = self.filter.as_ref().map(|filter| filter.apply(inside.unwrap_or(value)));
            let own = match &filtered {
                Some(filtered) if relative => Some(filtered),
                Some(filtered) => own_of(filtered, lineage),
                None => own_of(value, lineage),
            };
            hit.source = Some(own.map_or_else(|| "{}".into(), |own| own.to_string().into()));
        }
        let fields = if self.reads_source() { root.fields()? } else { None };
        let fields = fields.map(|fields| isolate(&fields, lineage));
        self.parts(segment, doc, score, value.as_ref(), fields.as_ref(), &mut hit)?;
        Ok(hit)
    }

    /// Something besides `_source` needs the source as a value.
    fn reads_source(&self) -> bool {
        !self.request.fields.is_empty()
            || self.request.stored_fields.as_ref().is_some_and(|f| !f.is_empty())
            || self.request.highlight.is_some()
            || !self.scripts.is_empty()
    }

    /// Everything that a hit shows beside its address and source. `fields` are the stored ones where the source
    /// does not keep them all.
    fn parts(
        &self,
        segment: &SegmentView,
        doc: Doc,
        score: Option<f32>,
        value: Option<&Value>,
        fields: Option<&Value>,
        hit: &mut Hit,
    ) -> Result<()> {
        for (field, place) in &self.join_fields {
            let values = crate::joins::texts(segment, place, doc)?;
            hit.join_values
                .push((field.clone(), values.into_iter().map(Value::from).collect()));
        }
        if !self.request.fields.is_empty() && !self.view.mapping.source_enabled() {
            return Err(Error::illegal(format!(
                "Unable to retrieve the requested [fields] since _source is disabled in the mappings for index [{}]",
                self.view.name
            )));
        }
        self.show_doc_values(segment, doc, hit)?;
        for field in &self.request.fields {
            if let Some(value) = value {
                self.field(field, value, &mut hit.fields);
            }
            self.counts(field, segment, doc, &mut hit.fields)?;
        }
        if value.or(fields).is_some() {
            self.show_stored_fields(value, fields, hit);
        }
        self.show_script_fields(segment, doc, score, value, hit)?;
        if let (Some(wanted), Some(value)) = (&self.request.highlight, value.or(fields)) {
            let query = self.request.query.clone().unwrap_or_else(dsl::query::Query::all);
            let analyzed_max = self.view.number("index.highlight.max_analyzed_offset").unwrap_or(usize::MAX);
            let (mapping, registry) = (&self.view.mapping, &self.view.registry);
            hit.highlight = crate::highlight::highlight(value, fields, wanted, &query, mapping, registry, analyzed_max)?;
        }
        Ok(())
    }

    /// `docvalue_fields`.
    fn show_doc_values(&self, segment: &SegmentView, doc: Doc, hit: &mut Hit) -> Result<()> {
        for field in &self.request.docvalue_fields {
            let value: Value = match field.field.as_str() {
                _ if self.request.dialect.rules.shows_raw_doc_values => continue,
                "_index" => self.view.name.as_str().into(),
                "_seq_no" => segment.core.stamp(doc).seq_no.into(),
                _ => continue,
            };
            hit.fields.insert(field.field.clone(), vec![value].into());
        }
        if let Some(refusal) = &self.refused {
            return Err(refusal.clone());
        }
        for (path, format) in &self.docvalues {
            let Some(target) = Target::with_values(self.view, path) else {
                continue;
            };
            if target.kind.kind.is_text() && !target.kind.fielddata {
                return Err(fielddata_disabled(path));
            }
            let hidden = target.slot.column.is_none()
                && target.kind.kind.is_keyword()
                && !self.request.dialect.rules.skips_missing_columns;
            if hidden && !target.kind.fielddata {
                return Err(Error::illegal(format!(
                    "Can't load fielddata on [{path}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
                    target.kind.wire()
                )));
            }
            let Some(column) = Column::open(segment, &target)? else {
                continue;
            };
            let values: Vec<Value> = column
                .values(doc)?
                .iter()
                .map(|v| match v {
                    // In 2015 what fields hold inside: milliseconds, 1 and 0.
                    FieldValue::Date(ms) if self.request.dialect.rules.shows_raw_doc_values && format.is_none() => (*ms).into(),
                    FieldValue::Bool(flag) if self.request.dialect.rules.shows_raw_doc_values => u8::from(*flag).into(),
                    v => show(&target, v, format.as_ref()),
                })
                .collect();
            // The same field in several formats is shown in each.
            match hit.fields.get_mut(path) {
                Some(Value::Array(known)) => known.extend(values),
                _ if values.is_empty() => {}
                _ => drop(hit.fields.insert(path.clone(), Value::Array(values))),
            }
        }
        Ok(())
    }

    /// `stored_fields`: from the stored fields of the document, or from its source.
    fn show_stored_fields(&self, value: Option<&Value>, fields: Option<&Value>, hit: &mut Hit) {
        // In Elasticsearch 2 the paths of a nested object lead to no stored field.
        let outside = hit.nested.is_some() && self.request.dialect.rules.nested_sources_are_relative;
        for name in self.request.stored_fields.iter().flatten().filter(|_| !outside) {
            let from_source = self.request.dialect.rules.fields_are_stored_fields;
            for path in self.view.mapping.expand(name) {
                let stored = self.view.mapping.field(&path).is_some_and(|f| f.store);
                let from = if stored { fields.or(value) } else { value };
                // Patterns name stored fields only.
                if let (Some(from), true) = (from, stored || from_source && !name.contains('*')) {
                    let mut found = model::path::read(from, &path);
                    if found.is_empty()
                        && let Some((parent, _)) = path.rsplit_once('.')
                        && self.view.mapping.field(parent).is_some()
                    {
                        found = model::path::read(from, parent);
                    }
                    let values: Vec<Value> = found.into_iter().filter(|v| !from_source || !v.is_null()).cloned().collect();
                    if !values.is_empty() {
                        hit.fields.insert(path, Value::Array(values));
                    }
                }
            }
        }
    }

    /// `script_fields`.
    fn show_script_fields(
        &self,
        segment: &SegmentView,
        doc: Doc,
        score: Option<f32>,
        value: Option<&Value>,
        hit: &mut Hit,
    ) -> Result<()> {
        for (name, script, ignore_failure) in &self.scripts {
            let bound = script.open(segment)?;
            let result = match bound.value(doc, score.unwrap_or(0.0), value).and_then(|v| v.to_json()) {
                Err(_) if *ignore_failure => continue,
                result => result?,
            };
            let list = match result {
                Value::Null if self.request.dialect.rules.omits_null_script_fields => continue,
                Value::Array(list) => list,
                one => vec![one],
            };
            hit.fields.insert(name.clone(), Value::Array(list));
        }
        Ok(())
    }

    /// `fields` of `token_count` and of the sub-fields of a `tree_path`: the source has the text, only the column the values.
    fn counts(&self, field: &FieldAndFormat, segment: &SegmentView, doc: Doc, out: &mut Map<String, Value>) -> Result<()> {
        for path in self.view.mapping.expand(&field.field) {
            let is_worked_out = |t: &Target<'_>| t.kind.kind == mapping::Kind::TokenCount || t.kind.is_tree_sub_field();
            let Some(target) = Target::of(self.view, &path).filter(is_worked_out) else {
                continue;
            };
            out.remove(&path);
            if let Some(column) = Column::open(segment, &target)? {
                let values: Vec<Value> = column.values(doc)?.iter().map(|v| show(&target, v, None)).collect();
                if !values.is_empty() {
                    out.insert(path, Value::Array(values));
                }
            }
        }
        Ok(())
    }

    /// `fields`: values of the source as their fields read them.
    fn field(&self, field: &FieldAndFormat, source: &Value, out: &mut Map<String, Value>) {
        let syntax = PatternSyntax::of(self.view.rules().joda_patterns);
        let format = field.format.as_deref();
        let format = format.and_then(|f| DateFormat::parse_pattern_of(f, syntax).ok());
        for path in self.view.mapping.expand(&field.field) {
            let Some((own, kind)) = self.view.mapping.resolve(&path) else {
                continue;
            };
            if kind.kind == mapping::Kind::GeoPoint {
                let mut places = Vec::new();
                points(source, own, kind, &mut places);
                if !places.is_empty() {
                    out.insert(path, Value::Array(places));
                }
                continue;
            }
            // A multi-field's values are its parent's.
            let mut values = model::path::read(source, own);
            if values.is_empty()
                && let Some((parent, _)) = own.rsplit_once('.')
                && self.view.mapping.field(parent).is_some()
            {
                values = model::path::read(source, parent);
            }
            let mut shown = Vec::new();
            for value in values {
                let value = match (value, &kind.null_value) {
                    (Value::Null, None) => continue,
                    (Value::Null, Some(null_value)) => null_value,
                    (value, _) => value,
                };
                if kind
                    .ignore_above
                    .is_some_and(|max| value.as_str().is_some_and(|s| s.chars().count() > max))
                {
                    continue;
                }
                if (kind.kind == mapping::Kind::Join || kind.kind.is_range()) && value.is_object() {
                    shown.push(value.clone());
                } else if let Ok(Some(parsed)) = kind.parse_term(value) {
                    shown.push(match (&format, &parsed) {
                        (Some(format), FieldValue::Date(ms)) => format.render(*ms, None).into(),
                        (Some(format), FieldValue::DateNanos(n)) => format.render_nanos(*n, None).into(),
                        _ if kind.kind.is_text() => value.clone(),
                        // As the number was sent, with the digits of 32 bits.
                        _ if matches!(kind.kind, mapping::Kind::Float | mapping::Kind::HalfFloat) => {
                            let sent = value.as_f64().or_else(|| value.as_str()?.parse().ok());
                            let short = sent.and_then(|n| (n as f32).to_string().parse::<f64>().ok());
                            short.map_or_else(|| kind.render_value(&parsed), Value::from)
                        }
                        _ => kind.render_value(&parsed),
                    })
                }
            }
            if !shown.is_empty() {
                out.insert(path, Value::Array(shown));
            }
        }
    }
}

/// The points of a field of a source as GeoJSON: lists of two numbers are points themselves. The depth is that of the
/// source, which is limited.
fn points(source: &Value, path: &str, kind: &mapping::FieldType, out: &mut Vec<Value>) {
    match source {
        Value::Object(object) if !path.is_empty() => {
            for (key, value) in object {
                match path.strip_prefix(key.as_str()) {
                    Some("") => points(value, "", kind, out),
                    Some(rest) if rest.starts_with('.') => points(value, &rest[1..], kind, out),
                    _ => {}
                }
            }
        }
        Value::Array(items) if !path.is_empty() || !items.first().is_some_and(Value::is_number) => {
            items.iter().for_each(|item| points(item, path, kind, out));
        }
        value if path.is_empty() => {
            if let Some((lat, lon)) = kind.parse_point(value) {
                out.push(json!({ "coordinates": [lon, lat], "type": "Point" }));
            }
        }
        _ => {}
    }
}

/// A value of a column, formatted.
fn show(target: &Target<'_>, value: &FieldValue, format: Option<&ShownAs>) -> Value {
    match (format, value) {
        (Some(ShownAs::Date(format)), FieldValue::Date(ms)) => format.render(*ms, None).into(),
        (Some(ShownAs::Date(format)), FieldValue::DateNanos(n)) => format.render_nanos(*n, None).into(),
        (Some(ShownAs::Number(pattern)), FieldValue::Long(n)) => crate::decimal_format::decimal(pattern, *n as f64).into(),
        (Some(ShownAs::Number(pattern)), FieldValue::UnsignedLong(n)) => {
            crate::decimal_format::decimal(pattern, *n as f64).into()
        }
        (Some(ShownAs::Number(pattern)), FieldValue::Double(n)) => crate::decimal_format::decimal(pattern, *n).into(),
        _ => target.kind.render_value(value),
    }
}

/// The object at the end of a way into a source.
fn own_of<'a>(source: &'a Value, lineage: &[Level]) -> Option<&'a Value> {
    let mut parts = lineage.iter().flat_map(|level| level.field.split('.'));
    parts.try_fold(source, |object, part| object.get(part))
}
