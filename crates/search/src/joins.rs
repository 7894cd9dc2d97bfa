//! Joins across indices: the keys of one side, and where the keys of a field lie.
//!
//! A key is made of a value in its plainest form, so `1`, `1.0` and `"1"` are one key and `_id` joins numbers. Keys
//! are collected from columns: no document is read for them.
//!
//! Not here: where a join stands in a request (`relations`), collecting keys (`collect::join_keys`), parents and children
//! (`scorers::parent_child`).

use crate::child_score::Totals;
use crate::fields::target::{Target, query_shard};
use dsl::query::JoinValues;
use mapping::tree::{Tree, TreePart};
use mapping::{Kind, TreeField};
use model::{Error, ErrorKind, Result};
use segment::key_columns::{ByKey, Key, Keys};
use segment::keyed_rows::{KeyedRows, NamedColumn};
use segment::open_columns;
use segment::schema::Slot;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use segment::tree_columns::{self, depths};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tantivy::DocId;
use tantivy::columnar::Column;

/// The memory that all key sets of a process may have together.
#[derive(Debug, Default)]
pub struct Budget {
    used: AtomicU64,
    refused: AtomicU64,
}

impl Budget {
    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
    /// How often more was wanted than there is.
    pub fn refusals(&self) -> u64 {
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
                self.used_bytes()
            ),
        )
        .with("bytes_wanted", bytes)
        .with("bytes_limit", most)
        .with("durability", "TRANSIENT"))
    }
    fn give(&self, bytes: u64) {
        let used = self.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(used >= bytes, "search.md S22: no more is released than was booked");
    }
}

/// The keys of one side of a join. Their memory is given back when the last holder drops them.
#[derive(Debug)]
pub struct Joined {
    pub(crate) kind: JoinedKeys,
    /// The keys as texts, where there are few: they are looked up as terms.
    pub(crate) texts: Option<Vec<String>>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) reserved: u64,
}

#[derive(Debug)]
pub(crate) enum JoinedKeys {
    Plain(ByKey<()>),
    Scored(ByKey<Totals>),
}

impl JoinValues for Joined {
    /// Many keys are kept as hashes alone, and scores are no terms.
    fn terms(&self) -> Option<Vec<serde_json::Value>> {
        match (&self.kind, &self.texts) {
            (JoinedKeys::Plain(_), Some(texts)) => Some(texts.iter().map(|text| text.as_str().into()).collect()),
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
            JoinedKeys::Plain(keys) => keys.len(),
            JoinedKeys::Scored(keys) => keys.len(),
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
    /// Bytes of memory that they take.
    pub fn bytes(&self) -> u64 {
        self.reserved
    }
    pub(crate) fn get(&self, key: Key) -> Option<Totals> {
        match &self.kind {
            JoinedKeys::Plain(keys) => keys.contains_key(&key).then_some(Totals::NONE),
            JoinedKeys::Scored(keys) => keys.get(&key).copied(),
        }
    }
    /// Adds a key of a document with a score; `true`: it is new.
    ///
    /// # Errors
    /// Too many keys, no memory for them.
    pub(crate) fn add(&mut self, key: Key, score: f32, limits: &KeyLimits, field: &str) -> Result<bool> {
        let before = self.len();
        // Most keys find room: these are looked for once.
        if before >= self.capacity().min(limits.keys) && !self.contains(key) {
            self.room(limits, field)?;
        }
        match &mut self.kind {
            JoinedKeys::Plain(keys) => drop(keys.insert(key, ())),
            JoinedKeys::Scored(keys) => keys.entry(key).or_insert(Totals::NONE).add(&Totals::one(score)),
        }
        Ok(self.len() > before)
    }
    /// Whether a key is there.
    fn contains(&self, key: Key) -> bool {
        match &self.kind {
            JoinedKeys::Plain(keys) => keys.contains_key(&key),
            JoinedKeys::Scored(keys) => keys.contains_key(&key),
        }
    }
    /// So many keys find room.
    fn capacity(&self) -> usize {
        match &self.kind {
            JoinedKeys::Plain(keys) => keys.capacity(),
            JoinedKeys::Scored(keys) => keys.capacity(),
        }
    }
    /// Makes room for one more key, within the limits.
    fn room(&mut self, limits: &KeyLimits, field: &str) -> Result<()> {
        let (len, capacity) = (self.len(), self.capacity());
        let each = match &self.kind {
            JoinedKeys::Plain(_) => std::mem::size_of::<Key>(),
            JoinedKeys::Scored(_) => std::mem::size_of::<(Key, Totals)>(),
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
            JoinedKeys::Plain(keys) => keys.reserve(more - len),
            JoinedKeys::Scored(keys) => keys.reserve(more - len),
        }
        let capacity = self.capacity();
        assert!(
            len < capacity && capacity <= places,
            "search.md S22: a table of keys takes the room that was booked for it"
        );
        self.budget.give(self.reserved);
        self.reserved = wanted;
        Ok(())
    }
}

/// Limits of one join.
#[derive(Clone, Copy, Debug)]
pub struct KeyLimits {
    /// `search.max_join_keys`.
    pub keys: usize,
    /// `search.join_memory`.
    pub bytes: u64,
}

/// Keys up to this many are kept as texts too.
pub(crate) const FEW: usize = 64;

/// Where the keys of a field lie in an index.
#[derive(Clone, Debug)]
pub enum Place {
    /// `_id`; with a type before it in typed indices.
    Id { typed: bool },
    /// A column.
    Column { name: String, kind: Kind },
    /// The tree of directories of the view.
    Tree {
        slot: Box<Slot>,
        field: TreeField,
        tree: Arc<Tree>,
    },
}

impl Place {
    /// The place of a field's keys; `None` if the index has no such field.
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
        if let Some(tree) = target.kind.tree {
            return Ok(Some(Place::Tree {
                slot: Box::new(target.slot.clone()),
                field: tree,
                tree: view.tree.clone(),
            }));
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

impl Place {
    /// The stored column of a segment that has the keys; the directories of a tree have none that stays as it is.
    pub(crate) fn column(&self, segment: &SegmentView) -> Option<NamedColumn> {
        let name = match self {
            Place::Id { .. } => "_id",
            Place::Column { name, .. } => name,
            Place::Tree { .. } => return None,
        };
        Some(NamedColumn {
            core: segment.core.clone(),
            name: name.into(),
        })
    }
}

/// A field's keys in one segment.
pub(crate) enum KeyReader {
    Text(Keys),
    Whole(Column<i64>),
    Nanos(Column<i64>),
    Unsigned(Column<u64>),
    Fraction(Column<f64>),
    Bool(Column<bool>),
    Ip(Column<Ipv6Addr>),
}

impl KeyReader {
    pub(crate) fn open(segment: &SegmentView, place: &Place) -> Result<Option<KeyReader>> {
        let (name, kind) = match place {
            Place::Id { typed } => return Ok(Keys::open(segment, "_id", *typed)?.map(KeyReader::Text)),
            Place::Column { name, kind } => (name.as_str(), *kind),
            Place::Tree { slot, field, tree } if field.part == TreePart::Depth => {
                return Ok(depths(segment, slot, *field, tree)?.map(KeyReader::Whole));
            }
            Place::Tree { slot, field, tree } => {
                return Ok(tree_columns::keys(segment, slot, *field, tree)?.map(KeyReader::Text));
            }
        };
        Ok(match kind {
            Kind::DateNanos => open_columns::values(segment, name)?.map(KeyReader::Nanos),
            Kind::Date => open_columns::values(segment, name)?.map(KeyReader::Whole),
            Kind::UnsignedLong => open_columns::values(segment, name)?.map(KeyReader::Unsigned),
            kind if kind.is_integer() => open_columns::values(segment, name)?.map(KeyReader::Whole),
            kind if kind.is_float() => open_columns::values(segment, name)?.map(KeyReader::Fraction),
            Kind::Boolean => open_columns::values(segment, name)?.map(KeyReader::Bool),
            Kind::Ip => open_columns::values(segment, name)?.map(KeyReader::Ip),
            _ => Keys::open(segment, name, false)?.map(KeyReader::Text),
        })
    }

    /// The rows of documents that may have a key of a set; `None`: they are looked at one by one. `column` has the strings of texts.
    pub(crate) fn rows<V>(&self, set: &ByKey<V>, column: Option<&NamedColumn>) -> Option<KeyedRows> {
        match self {
            KeyReader::Text(keys) => Some(KeyedRows::of_text(keys.clone(), set, column)),
            KeyReader::Whole(column) => Some(KeyedRows::of_whole(column.clone(), set)),
            KeyReader::Unsigned(column) => Some(KeyedRows::of_unsigned(column.clone(), set)),
            KeyReader::Nanos(_) | KeyReader::Fraction(_) | KeyReader::Bool(_) | KeyReader::Ip(_) => None,
        }
    }

    /// Calls `f` with each key of a document.
    #[inline]
    fn each(&self, doc: DocId, mut f: impl FnMut(Key)) {
        match self {
            KeyReader::Text(keys) => keys.each(doc, |_, key| f(key)),
            KeyReader::Whole(column) => column.values_for_doc(doc).for_each(|n| f(Key::of_int(n))),
            // The same moment in a `date` is a number of milliseconds.
            KeyReader::Nanos(column) => column.values_for_doc(doc).for_each(|n| {
                f(match n % 1_000_000 {
                    0 => Key::of_int(n / 1_000_000),
                    _ => Key::of(format!("{n}ns").as_bytes()),
                });
            }),
            KeyReader::Unsigned(column) => column.values_for_doc(doc).for_each(|n| {
                f(match i64::try_from(n) {
                    Ok(n) => Key::of_int(n),
                    Err(_) => Key::of(n.to_string().as_bytes()),
                });
            }),
            KeyReader::Fraction(column) => column.values_for_doc(doc).for_each(|n| f(fraction(n))),
            KeyReader::Bool(column) => column
                .values_for_doc(doc)
                .for_each(|b| f(Key::of(if b { b"true" } else { b"false" }))),
            KeyReader::Ip(column) => column.values_for_doc(doc).for_each(|ip| f(Key::of(address(ip).as_bytes()))),
        }
    }

    /// The keys of a document, each once: a value that is written twice is one.
    pub(crate) fn distinct(&self, doc: DocId, out: &mut Vec<Key>) {
        out.clear();
        self.each(doc, |key| out.push(key));
        if out.len() > 1 {
            out.sort_unstable();
            out.dedup();
        }
    }

    /// The keys of a document as texts; false where they have none that a lookup could use.
    pub(crate) fn texts(&self, doc: DocId, typed_ids: bool, out: &mut Vec<String>) -> Result<bool> {
        match self {
            KeyReader::Text(keys) => {
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
            KeyReader::Whole(column) => out.extend(column.values_for_doc(doc).map(|n| n.to_string())),
            KeyReader::Unsigned(column) => out.extend(column.values_for_doc(doc).map(|n| n.to_string())),
            KeyReader::Fraction(column) => out.extend(column.values_for_doc(doc).map(plain)),
            KeyReader::Bool(column) => out.extend(column.values_for_doc(doc).map(|b| b.to_string())),
            KeyReader::Ip(column) => out.extend(column.values_for_doc(doc).map(address)),
            KeyReader::Nanos(_) => return Ok(false),
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

/// The keys of a document as texts.
///
/// # Errors
/// Unreadable files.
pub(crate) fn texts(segment: &SegmentView, place: &Place, doc: DocId) -> Result<Vec<String>> {
    let mut out = Vec::new();
    if let Some(reader) = KeyReader::open(segment, place)? {
        reader.texts(doc, matches!(place, Place::Id { typed: true }), &mut out)?;
    }
    Ok(out)
}
