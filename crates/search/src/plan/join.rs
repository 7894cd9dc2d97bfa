//! Joins across indices: the keys of one side, collected once, and the documents of the other that have one.
//!
//! A key is made of a value in its plainest form, so `1`, `1.0` and `"1"` are one key and `_id` joins numbers. Keys
//! are collected from columns: no document is read for them.
//!
//! Not here: where a join stands in a request (`relations`), parents and children (`parent_child`).

use super::child_score::Totals;
use super::field::{Target, query_shard};
use super::node::{NoScorer, Node, broken};
use super::term::any_of;
use super::{Context, Planner};
use crate::plan::boolean::Shared;
use dsl::query::{JoinValues, KeySet, ScoreMode};
use mapping::Kind;
use model::{Error, ErrorKind, Result};
use segment::key_columns::{ByKey, Key, Keys};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tantivy::columnar::Column;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The memory that all key sets of a process may have together.
#[derive(Debug, Default)]
pub struct Budget {
    used: AtomicU64,
    refused: AtomicU64,
}

impl Budget {
    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// How often more was wanted than there is.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
    fn take(&self, bytes: u64, most: u64) -> Result<()> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= most)
        });
        if taken.is_ok() {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Error::new(
            ErrorKind::CircuitBreaking,
            format!(
                "[join] Data too large: the key sets of joins have [{}] bytes and [{bytes}] more are wanted, \
                 which is larger than the limit of [{most}], the setting [search.join_memory]",
                self.used()
            ),
        )
        .with("bytes_wanted", bytes)
        .with("bytes_limit", most)
        .with("durability", "TRANSIENT"))
    }
    fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The keys of one side of a join. Their memory is given back when the last holder drops them.
#[derive(Debug)]
pub struct Joined {
    kind: Found,
    /// Of few keys: as texts, to be looked up instead of looked for.
    texts: Option<Vec<String>>,
    budget: Arc<Budget>,
    reserved: u64,
}

#[derive(Debug)]
enum Found {
    Plain(ByKey<()>),
    Scored(ByKey<Totals>),
}

impl JoinValues for Joined {
    /// Many keys are kept as hashes alone, and scores are no terms.
    fn terms(&self) -> Option<Vec<serde_json::Value>> {
        match (&self.kind, &self.texts) {
            (Found::Plain(_), Some(texts)) => Some(texts.iter().map(|text| text.as_str().into()).collect()),
            _ => None,
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.budget.give(self.reserved);
    }
}

impl Joined {
    /// No keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// How many.
    pub fn len(&self) -> usize {
        match &self.kind {
            Found::Plain(keys) => keys.len(),
            Found::Scored(keys) => keys.len(),
        }
    }
    /// How documents with them are looked for.
    pub fn strategy(&self) -> &'static str {
        match (&self.texts, self.len()) {
            (_, 0) => "empty",
            (Some(_), _) => "lookup",
            (None, _) => "key_set",
        }
    }
    /// What they take.
    pub fn bytes(&self) -> u64 {
        self.reserved
    }
    fn get(&self, key: Key) -> Option<Totals> {
        match &self.kind {
            Found::Plain(keys) => keys.contains_key(&key).then_some(Totals::NONE),
            Found::Scored(keys) => keys.get(&key).copied(),
        }
    }
    /// Makes room for one more key, within the limits.
    fn room(&mut self, limits: &KeyLimits, field: &str) -> Result<()> {
        let (len, capacity, each) = match &self.kind {
            Found::Plain(keys) => (keys.len(), keys.capacity(), std::mem::size_of::<Key>()),
            Found::Scored(keys) => (keys.len(), keys.capacity(), std::mem::size_of::<(Key, Totals)>()),
        };
        if len >= limits.keys {
            return Err(Error::new(
                ErrorKind::TooManyJoinKeys,
                format!(
                    "the join on [{field}] has more than [{}] keys, the limit of [search.max_join_keys]",
                    limits.keys
                ),
            )
            .with("max_join_keys", limits.keys));
        }
        if len < capacity {
            return Ok(());
        }
        // A table holds 7 keys in 8 places, and a power of two of places; while it grows there are two.
        let more = (len + 1).max(capacity * 2).min(limits.keys.max(1));
        let places = (more * 8).div_ceil(7).next_power_of_two().max(4);
        let wanted = (places * (each + 1)) as u64;
        self.budget.take(wanted, limits.bytes)?;
        match &mut self.kind {
            Found::Plain(keys) => keys.reserve(more - len),
            Found::Scored(keys) => keys.reserve(more - len),
        }
        self.budget.give(self.reserved);
        self.reserved = wanted;
        Ok(())
    }
}

/// What a join may take.
#[derive(Clone, Copy, Debug)]
pub struct KeyLimits {
    /// `search.max_join_keys`.
    pub keys: usize,
    /// `search.join_memory`.
    pub bytes: u64,
}

/// Keys up to this many are kept as texts too.
const FEW: usize = 64;
/// A lookup by text costs about as much as this many looks at a column.
const LOOKUP: u64 = 2000;

/// Where the keys of a field lie in an index.
#[derive(Clone, Debug)]
pub enum Place {
    /// `_id`; with a type before it in typed indices.
    Id { typed: bool },
    /// A column.
    Column { name: String, kind: Kind },
}

impl Place {
    /// Of a field; `None` if the index has no such field.
    ///
    /// # Errors
    /// Text, and fields without a column.
    pub fn of(view: &IndexView, field: &str) -> Result<Option<Place>> {
        if field == "_id" {
            return Ok(Some(Place::Id { typed: view.typed }));
        }
        let Some(target) = Target::of(view, field) else {
            return Ok(None);
        };
        let kind = target.kind.kind;
        if kind.is_text() {
            let whole = view
                .mapping
                .multi_fields(target.path)
                .find(|(_, kind)| kind.kind.is_keyword());
            let hint = whole.map_or_else(String::new, |(path, _)| format!(", did you mean [{path}]?"));
            return Err(query_shard(
                view,
                format!("[join] cannot join on the text field [{field}], whose values are analyzed{hint}"),
            ));
        }
        match &target.slot.column {
            Some(name) if kind != Kind::GeoPoint => Ok(Some(Place::Column {
                name: name.clone(),
                kind,
            })),
            _ => Err(query_shard(
                view,
                format!(
                    "[join] cannot join on the field [{field}] of type [{}], which has no doc values",
                    target.kind.wire()
                ),
            )),
        }
    }
}

/// A field's keys in one segment.
enum Reader {
    Text(Keys),
    Whole(Column<i64>),
    Nanos(Column<i64>),
    Unsigned(Column<u64>),
    Fraction(Column<f64>),
    Bool(Column<bool>),
    Ip(Column<Ipv6Addr>),
}

impl Reader {
    fn open(segment: &SegmentView, place: &Place) -> Result<Option<Reader>> {
        let (name, kind) = match place {
            Place::Id { typed } => return Ok(Keys::open(segment, "_id", *typed)?.map(Reader::Text)),
            Place::Column { name, kind } => (name.as_str(), *kind),
        };
        let fast = segment.reader.fast_fields();
        Ok(match kind {
            Kind::DateNanos => fast.column_opt(name).map_err(broken)?.map(Reader::Nanos),
            Kind::Date => fast.column_opt(name).map_err(broken)?.map(Reader::Whole),
            Kind::UnsignedLong => fast.column_opt(name).map_err(broken)?.map(Reader::Unsigned),
            kind if kind.is_integer() => fast.column_opt(name).map_err(broken)?.map(Reader::Whole),
            kind if kind.is_float() => fast.column_opt(name).map_err(broken)?.map(Reader::Fraction),
            Kind::Boolean => fast.column_opt(name).map_err(broken)?.map(Reader::Bool),
            Kind::Ip => fast.column_opt(name).map_err(broken)?.map(Reader::Ip),
            _ => Keys::open(segment, name, false)?.map(Reader::Text),
        })
    }

    /// Calls `f` with each key of a document.
    #[inline]
    fn each(&self, doc: DocId, mut f: impl FnMut(Key)) {
        match self {
            Reader::Text(keys) => keys.each(doc, |_, key| f(key)),
            Reader::Whole(column) => column.values_for_doc(doc).for_each(|n| f(Key::of_int(n))),
            // The same moment in a `date` is a number of milliseconds.
            Reader::Nanos(column) => column.values_for_doc(doc).for_each(|n| {
                f(match n % 1_000_000 {
                    0 => Key::of_int(n / 1_000_000),
                    _ => Key::of(format!("{n}ns").as_bytes()),
                });
            }),
            Reader::Unsigned(column) => column.values_for_doc(doc).for_each(|n| {
                f(match i64::try_from(n) {
                    Ok(n) => Key::of_int(n),
                    Err(_) => Key::of(n.to_string().as_bytes()),
                });
            }),
            Reader::Fraction(column) => column.values_for_doc(doc).for_each(|n| f(fraction(n))),
            Reader::Bool(column) => column
                .values_for_doc(doc)
                .for_each(|b| f(Key::of(if b { b"true" } else { b"false" }))),
            Reader::Ip(column) => column.values_for_doc(doc).for_each(|ip| f(Key::of(address(ip).as_bytes()))),
        }
    }

    /// The keys of a document, each once: a value that is written twice is one.
    fn distinct(&self, doc: DocId, out: &mut Vec<Key>) {
        out.clear();
        self.each(doc, |key| out.push(key));
        if out.len() > 1 {
            out.sort_unstable();
            out.dedup();
        }
    }

    /// The keys of a document as texts; false where they have none that a lookup could use.
    fn texts(&self, doc: DocId, typed_ids: bool, out: &mut Vec<String>) -> Result<bool> {
        match self {
            Reader::Text(keys) => {
                let mut ords = Vec::new();
                keys.each(doc, |ord, _| ords.push(ord));
                for ord in ords {
                    let text = keys.text(ord)?;
                    out.push(match text.split_once('#') {
                        Some((_, id)) if typed_ids => id.to_owned(),
                        _ => text,
                    });
                }
            }
            Reader::Whole(column) => out.extend(column.values_for_doc(doc).map(|n| n.to_string())),
            Reader::Unsigned(column) => out.extend(column.values_for_doc(doc).map(|n| n.to_string())),
            Reader::Fraction(column) => out.extend(column.values_for_doc(doc).map(plain)),
            Reader::Bool(column) => out.extend(column.values_for_doc(doc).map(|b| b.to_string())),
            Reader::Ip(column) => out.extend(column.values_for_doc(doc).map(address)),
            Reader::Nanos(_) => return Ok(false),
        }
        Ok(true)
    }
}

/// A number without a fraction is the whole number.
fn fraction(n: f64) -> Key {
    if n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0 {
        Key::of_int(n as i64)
    } else {
        Key::of(n.to_string().as_bytes())
    }
}

fn plain(n: f64) -> String {
    if n.fract() == 0.0 && n.abs() < 9_007_199_254_740_992.0 {
        (n as i64).to_string()
    } else {
        n.to_string()
    }
}

fn address(ip: Ipv6Addr) -> String {
    ip.to_ipv4_mapped().map_or_else(|| ip.to_string(), |v4| v4.to_string())
}

/// Collects the keys of what a query finds.
pub struct Collector<'a> {
    pub(crate) field: &'a str,
    pub(crate) limits: KeyLimits,
    pub(crate) found: Joined,
    /// Where the first few keys were seen: index, segment, document.
    seen: Vec<(usize, usize, DocId)>,
    /// The keys of one document.
    own: Vec<Key>,
}

impl<'a> Collector<'a> {
    pub fn new(field: &'a str, scored: bool, limits: KeyLimits, budget: Arc<Budget>) -> Collector<'a> {
        Collector {
            field,
            limits,
            found: Joined {
                kind: if scored {
                    Found::Scored(ByKey::default())
                } else {
                    Found::Plain(ByKey::default())
                },
                texts: None,
                budget,
                reserved: 0,
            },
            seen: Vec::new(),
            own: Vec::new(),
        }
    }

    /// One document with a score.
    fn add(&mut self, reader: &Reader, at: (usize, usize, DocId), score: f32) -> Result<()> {
        let mut fresh = false;
        let mut own = std::mem::take(&mut self.own);
        reader.distinct(at.2, &mut own);
        for key in &own {
            let key = *key;
            let known = match &self.found.kind {
                Found::Plain(keys) => keys.contains_key(&key),
                Found::Scored(keys) => keys.contains_key(&key),
            };
            if !known {
                fresh = true;
                self.found.room(&self.limits, self.field)?;
            }
            match &mut self.found.kind {
                Found::Plain(keys) => {
                    keys.insert(key, ());
                }
                Found::Scored(keys) => keys.entry(key).or_insert(Totals::NONE).add(&Totals::one(score)),
            }
        }
        self.own = own;
        if fresh && self.seen.len() <= FEW {
            self.seen.push(at);
        }
        Ok(())
    }

    /// Everything that matches in an index.
    ///
    /// # Errors
    /// Too many keys, no memory for them, unreadable files, scripts that fail.
    pub fn collect(
        &mut self,
        no: usize,
        view: &IndexView,
        place: &Place,
        planned: &super::Planned,
        cx: &Context<'_>,
    ) -> Result<()> {
        let scored = matches!(self.found.kind, Found::Scored(_));
        for (segment_no, segment) in view.segments.iter().enumerate() {
            cx.check_cancelled()?;
            let Some(reader) = Reader::open(segment, place)? else {
                continue;
            };
            let mut set = planned.scorer(segment)?;
            while set.doc() != TERMINATED {
                let score = if scored { set.score() } else { 1.0 };
                self.add(&reader, (no, segment_no, set.doc()), score)?;
                set.advance();
            }
        }
        planned.check()
    }

    /// The keys.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn finish(mut self, views: &[(&IndexView, Option<Place>)]) -> Result<Joined> {
        if self.found.len() > FEW {
            return Ok(self.found);
        }
        let mut texts = Vec::new();
        for (no, segment, doc) in &self.seen {
            let (view, Some(place)) = &views[*no] else { continue };
            let Some(reader) = Reader::open(&view.segments[*segment], place)? else {
                continue;
            };
            if !reader.texts(*doc, matches!(place, Place::Id { typed: true }), &mut texts)? {
                return Ok(self.found);
            }
        }
        texts.sort_unstable();
        texts.dedup();
        self.found.texts = Some(texts);
        Ok(self.found)
    }
}

/// Documents with a key.
struct JoinNode {
    place: Place,
    keys: Arc<Joined>,
    mode: ScoreMode,
    boost: f32,
    /// Of few keys: the terms of the field.
    terms: Option<Vec<Term>>,
}

struct JoinScorer {
    candidates: Box<dyn Scorer>,
    reader: Reader,
    keys: Arc<Joined>,
    mode: ScoreMode,
    boost: f32,
    score: f32,
    own: Vec<Key>,
}

impl JoinScorer {
    fn settle(&mut self) -> DocId {
        let mut doc = self.candidates.doc();
        while doc != TERMINATED {
            let mut totals: Option<Totals> = None;
            self.reader.distinct(doc, &mut self.own);
            for key in &self.own {
                if let Some(found) = self.keys.get(*key) {
                    match &mut totals {
                        Some(totals) => totals.add(&found),
                        None => totals = Some(found),
                    }
                }
            }
            if let Some(totals) = totals {
                self.score = totals.score(self.mode) * self.boost;
                break;
            }
            doc = self.candidates.advance();
        }
        doc
    }
}

impl DocSet for JoinScorer {
    fn advance(&mut self) -> DocId {
        self.candidates.advance();
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.candidates.doc() < target {
            self.candidates.seek(target);
        }
        self.settle()
    }
    fn doc(&self) -> DocId {
        self.candidates.doc()
    }
    fn size_hint(&self) -> u32 {
        self.candidates.size_hint()
    }
    fn cost(&self) -> u64 {
        // Each look costs more than a step of a list of documents.
        self.candidates.cost().saturating_mul(2)
    }
}

impl Scorer for JoinScorer {
    fn score(&mut self) -> f32 {
        self.score
    }
}

impl Node for JoinNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let Some(reader) = Reader::open(segment, &self.place)? else {
            return Ok(Box::new(NoScorer));
        };
        let max_doc = segment.reader.max_doc();
        let candidates: Box<dyn Scorer> = match &self.terms {
            Some(terms) if terms.len() as u64 * LOOKUP < u64::from(max_doc) => any_of(segment, terms)?,
            _ => super::every(segment),
        };
        let mut join = JoinScorer {
            candidates,
            reader,
            keys: self.keys.clone(),
            mode: self.mode,
            boost: self.boost,
            score: 0.0,
            own: Vec::new(),
        };
        join.settle();
        Ok(Box::new(join))
    }
}

impl Planner<'_> {
    pub(super) fn key_set(&self, q: &KeySet, boost: f32) -> Result<Shared> {
        let Some(keys) = q.keys.of::<Joined>() else {
            return Err(Error::new(ErrorKind::Internal, "keys of another engine reached an index"));
        };
        if keys.is_empty() {
            return Ok(self.nothing("a join without keys"));
        }
        let Some(place) = Place::of(self.view, &q.field)? else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let terms = match &keys.texts {
            Some(texts) => self.texts_as_terms(&q.field, texts),
            None => None,
        };
        Ok(Arc::new(JoinNode {
            place,
            keys,
            mode: q.score_mode,
            boost,
            terms,
        }))
    }

    /// Terms of a field for keys that are texts; `None` where the field has no terms for them.
    fn texts_as_terms(&self, field: &str, texts: &[String]) -> Option<Vec<Term>> {
        if field == "_id" {
            if self.view.typed {
                return None;
            }
            return Some(texts.iter().map(|t| Term::from_field_text(self.view.schema.id, t)).collect());
        }
        let target = Target::of(self.view, field)?;
        if !target.kind.index || target.kind.kind == Kind::Ip || target.kind.kind.is_date() {
            return None;
        }
        // What is no value of the field is no key of it either.
        let term = |text: &String| {
            let value = target.kind.parse_term(&serde_json::Value::from(text.as_str())).ok()??;
            target.term(&value)
        };
        Some(texts.iter().filter_map(term).collect())
    }
}

/// The keys of a document as texts.
///
/// # Errors
/// Unreadable files.
pub(crate) fn texts(segment: &SegmentView, place: &Place, doc: DocId) -> Result<Vec<String>> {
    let mut out = Vec::new();
    if let Some(reader) = Reader::open(segment, place)? {
        reader.texts(doc, matches!(place, Place::Id { typed: true }), &mut out)?;
    }
    Ok(out)
}
