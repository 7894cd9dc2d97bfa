//! Scripts over the columns of a segment: scores, filters, fields, sorts.

use crate::context::Context;
use crate::fields::column::Column;
use crate::fields::field_data::fielddata_disabled;
use crate::fields::target::{Owned, Target};
use crate::interrupt::Interrupt;
use dsl::query::script_source::ScriptSource;
use mapping::tree::Placed;
use mapping::{FieldValue, Kind};
use model::Result;
use model::compat::IndexRules;
use parking_lot::Mutex;
use script::{Budget, DocValues, Env, Host, Program, Value};
use segment::open_columns;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tantivy::DocId;

/// The first error of a script that ran inside a scorer, which cannot answer one itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    error: Mutex<Option<model::Error>>,
    /// There is one.
    failed: AtomicBool,
}

impl Failure {
    /// Keeps the first one.
    pub(crate) fn note(&self, error: model::Error) {
        self.0.error.lock().get_or_insert(error);
        self.0.failed.store(true, Ordering::Relaxed);
    }
    /// The result of `run`; its error is noted. After an error nothing is run: a script that uses up its
    /// budget does so for one document, not for each.
    pub(crate) fn run<T>(&self, run: impl FnOnce() -> Result<Option<T>>) -> Option<T> {
        if self.0.failed.load(Ordering::Relaxed) {
            return None;
        }
        run().unwrap_or_else(|error| {
            self.note(error);
            None
        })
    }
    /// Answers it.
    ///
    /// # Errors
    /// The first one noted.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.0.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.0.error.lock().clone() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// A compiled script with its parameters and where its fields lie.
#[derive(Clone)]
pub(crate) struct Script {
    program: Program,
    params: script::Params,
    fields: Vec<(String, ValueLocation)>,
    now_ms: i64,
    interrupt: Interrupt,
    /// For fields that are named while the script runs.
    of: Fields,
    rules: &'static IndexRules,
    /// The index has part in random scores.
    salt: u32,
}

/// The fields of an index.
#[derive(Clone)]
struct Fields {
    mapping: mapping::Mapping,
    schema: Arc<segment::schema::IndexSchema>,
    tree: Arc<mapping::tree::Tree>,
    granted: Option<Arc<model::FieldRights>>,
}

/// Where the values of a field lie.
#[derive(Clone)]
enum ValueLocation {
    Nowhere,
    Field(Box<Owned>),
    /// A column of strings of the envelope, by its name.
    Envelope(&'static str),
    /// The numbers of writes.
    SeqNo,
}

impl ValueLocation {
    fn of(of: &Fields, rules: &IndexRules, path: &str) -> ValueLocation {
        match path {
            "_id" if !rules.has_type_fields => return ValueLocation::Envelope("_id"),
            "_seq_no" if !rules.lacks_seq_no => return ValueLocation::SeqNo,
            "_uid" if rules.has_type_fields => return ValueLocation::Envelope("_id"),
            "_type" if rules.has_type_fields => return ValueLocation::Envelope("_type"),
            "_parent" if rules.has_type_fields => return ValueLocation::Envelope("_parent"),
            _ => {}
        }
        match Target::value_in(&of.mapping, &of.schema, &of.tree, path) {
            Some(target) => ValueLocation::Field(Box::new(Owned::of(&target))),
            None => ValueLocation::Nowhere,
        }
    }

    fn open(&self, segment: &SegmentView) -> Result<Opened> {
        Ok(match self {
            ValueLocation::Nowhere => None,
            ValueLocation::Field(field) => {
                let (kind, column) = (&field.kind, field.open(segment)?);
                Some((kind.kind, kind.doc_values && !kind.kind.is_text() || kind.fielddata, column))
            }
            ValueLocation::SeqNo => Some((Kind::Long, true, Some(Column::U64(segment.core.seq_no().clone())))),
            ValueLocation::Envelope(name) => {
                let column = open_columns::strings(segment, name)?;
                Some((Kind::Keyword, true, column.map(Column::Str)))
            }
        })
    }
}

/// A field's kind, whether it has values for scripts, and its column.
type Opened = Option<(Kind, bool, Option<Column>)>;

impl Script {
    /// Compiles and looks its fields up.
    ///
    /// # Errors
    /// Scripts that do not compile or are not stored.
    pub(crate) fn new(view: &IndexView, source: &ScriptSource, cx: &Context<'_>) -> Result<Script> {
        let program = cx.compile(source)?;
        let of = Fields {
            mapping: view.mapping.clone(),
            schema: view.schema.clone(),
            tree: view.tree.clone(),
            granted: view.granted.clone(),
        };
        let fields = program.doc_fields().iter();
        let fields = fields.map(|path| (path.clone(), ValueLocation::of(&of, view.rules(), path)));
        let fields = fields.collect();
        Ok(Script {
            params: script::Params::from_json(&source.params),
            fields,
            program,
            now_ms: cx.now_ms,
            interrupt: cx.interrupt.clone(),
            of,
            rules: view.rules(),
            salt: model::text::java_hash(view.name.as_str()) << 10,
        })
    }

    /// Its language: Groovy's truth differs.
    pub(crate) fn lang(&self) -> script::Lang {
        self.program.lang()
    }

    /// Its columns in a segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn open(&self, segment: &SegmentView) -> Result<Bound> {
        let mut columns = Vec::with_capacity(self.fields.len());
        for (_, place) in &self.fields {
            columns.push(place.open(segment)?);
        }
        Ok(Bound {
            script: Box::new(self.clone()),
            columns,
            segment: Box::new(segment.clone()),
        })
    }
}

/// A script in one segment.
pub(crate) struct Bound {
    script: Box<Script>,
    columns: Vec<Opened>,
    segment: Box<SegmentView>,
}

struct AtDoc<'a> {
    bound: &'a Bound,
    doc: DocId,
    score: f32,
    source: Option<&'a serde_json::Value>,
}

/// Reads the values of a document's field, in order, as the type of the field gives them to scripts.
///
/// # Errors
/// Unreadable dictionaries.
fn read_values(kind: Kind, column: &Column, doc: DocId, out: &mut DocValues) -> Result<()> {
    match column {
        Column::I64(c) if kind.is_integer() => fill_sorted(out.longs(), c.values_for_doc(doc), Ord::cmp),
        Column::U64(c) if kind.is_integer() => {
            let longs = c.values_for_doc(doc).map(|n| i64::try_from(n).unwrap_or(i64::MAX));
            fill_sorted(out.longs(), longs, Ord::cmp);
        }
        Column::Date(c) => fill_sorted(out.dates(), c.values_for_doc(doc), Ord::cmp),
        Column::DateNanos(c) => {
            let millis = c.values_for_doc(doc).map(|nanos| nanos.div_euclid(1_000_000));
            fill_sorted(out.dates(), millis, Ord::cmp);
        }
        Column::F64(c) => fill_sorted(out.doubles(), c.values_for_doc(doc), f64::total_cmp),
        Column::Bool(c) => fill_sorted(out.bools(), c.values_for_doc(doc), Ord::cmp),
        Column::Geo(lat, lon) => {
            let places = lat.values_for_doc(doc).zip(lon.values_for_doc(doc));
            out.geo_points().extend(places);
        }
        column => out
            .strings()
            .extend(column.values(doc)?.into_iter().filter_map(text_of_value)),
    }
    Ok(())
}

/// Appends values in ascending order.
fn fill_sorted<T>(to: &mut Vec<T>, values: impl Iterator<Item = T>, compare: impl FnMut(&T, &T) -> std::cmp::Ordering) {
    to.extend(values);
    if to.len() > 1 {
        to.sort_unstable_by(compare);
    }
}

/// A string, or an address as a text.
fn text_of_value(value: FieldValue) -> Option<String> {
    match value {
        FieldValue::Keyword(text) => Some(text),
        FieldValue::Ip(bytes) => {
            let v6 = std::net::Ipv6Addr::from(bytes);
            Some(v6.to_ipv4_mapped().map_or_else(|| v6.to_string(), |v4| v4.to_string()))
        }
        _ => None,
    }
}

/// Says that a field of a kind has no values.
fn be_empty(kind: Kind, out: &mut DocValues) {
    match kind {
        kind if kind.is_date() => out.dates().clear(),
        kind if kind.is_integer() => out.longs().clear(),
        kind if kind.is_float() => out.doubles().clear(),
        Kind::Boolean => out.bools().clear(),
        Kind::GeoPoint => out.geo_points().clear(),
        _ => out.strings().clear(),
    }
}

impl Host for AtDoc<'_> {
    fn score(&mut self) -> Option<f64> {
        Some(f64::from(self.score))
    }
    fn doc(&mut self, slot: usize, field: &str, out: &mut DocValues) -> Result<bool> {
        let late;
        let opened = match self.bound.columns.get(slot) {
            Some(opened) => opened,
            None => {
                let script = &self.bound.script;
                late = ValueLocation::of(&script.of, script.rules, field).open(&self.bound.segment)?;
                &late
            }
        };
        let Some((kind, has_values, column)) = opened else {
            return Ok(false);
        };
        if !has_values {
            return Err(fielddata_disabled(field));
        }
        match column {
            Some(column) => read_values(*kind, column, self.doc, out)?,
            None => be_empty(*kind, out),
        }
        Ok(true)
    }
    fn variable(&mut self, name: &str) -> Option<Value> {
        match name {
            "_source" | "params._source" => self.source.map(Value::from_json),
            _ => None,
        }
    }
    fn seeded_hash(&self, seed: i64, text: &str) -> Option<u32> {
        // A seed is an int there.
        let seed = crate::hashes::mix32(seed as u32 ^ self.bound.script.salt);
        Some(crate::hashes::murmur3(text.as_bytes(), seed))
    }
    fn now_millis(&self) -> i64 {
        self.bound.script.now_ms
    }
    fn check_interrupt(&self) -> Result<()> {
        self.bound.script.interrupt.check()
    }
}

impl Bound {
    /// The source of a document, where the script reads it and nobody gave it.
    fn own_source(&self, doc: DocId, given: Option<&serde_json::Value>) -> Result<Option<serde_json::Value>> {
        if given.is_some() || !self.script.program.uses_source() {
            return Ok(None);
        }
        let store = self.segment.core.store_reader(&self.segment.reader)?;
        let bytes = store.get_document_bytes(doc).map_err(segment::error::broken)?;
        let of = &self.script.of;
        let (mut source, mut placed) = (Vec::new(), Vec::new());
        segment::stored::each_value(&bytes, doc, |field, value| {
            if field == of.schema.source && segment::stored_source::stored_fields(value).is_none() {
                source = value.to_vec();
            } else if let Some(field) = of.schema.tree_of(field) {
                placed.extend(Placed::from_bytes(field.clone(), value));
            }
        })?;
        let todays = segment::searchable::todays_source(&of.mapping, &of.tree, &source, &placed);
        let source = todays.as_deref().unwrap_or(&source);
        let shown = of.granted.as_ref().and_then(|granted| granted.filter_source_bytes(source));
        Ok(serde_json::from_slice(shown.as_deref().unwrap_or(source)).ok())
    }

    /// The script's number for a document.
    ///
    /// # Errors
    /// The script fails.
    pub(crate) fn number(&self, doc: DocId, score: f32) -> Result<f64> {
        self.script.interrupt.check_run()?;
        let own = self.own_source(doc, None)?;
        let mut host = AtDoc {
            bound: self,
            doc,
            score,
            source: own.as_ref(),
        };
        self.script.program.run_f64(&mut Env {
            params: &self.script.params,
            host: &mut host,
            budget: Budget::default(),
        })
    }

    /// The script's value for a document.
    ///
    /// # Errors
    /// The script fails.
    pub(crate) fn value(&self, doc: DocId, score: f32, source: Option<&serde_json::Value>) -> Result<Value> {
        self.script.interrupt.check_run()?;
        let own = self.own_source(doc, source)?;
        let mut host = AtDoc {
            bound: self,
            doc,
            score,
            source: source.or(own.as_ref()),
        };
        self.script.program.run(&mut Env {
            params: &self.script.params,
            host: &mut host,
            budget: Budget::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;
    use model::Error;

    #[test]
    fn nothing_is_run_after_the_first_error() {
        let failure = Failure::default();
        let mut runs = 0;
        let mut try_one = |result: Result<Option<i32>, Error>| {
            failure.run(|| {
                runs += 1;
                result
            })
        };
        assert_eq!(try_one(Ok(Some(1))), Some(1));
        assert_eq!(try_one(Ok(None)), None);
        assert_eq!(try_one(Err(Error::illegal("first"))), None);
        assert_eq!(try_one(Err(Error::illegal("second"))), None);
        assert_eq!(try_one(Ok(Some(2))), None);
        assert_eq!(runs, 3);
        assert_eq!(failure.check().map_err(|e| e.reason().to_owned()), Err("first".to_owned()));
    }
}
