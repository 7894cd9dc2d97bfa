//! From a document read through its mapping to documents as tantivy takes them: nested ones first, the root last.
//!
//! Values are moved out of what was read, never copied, and what several documents share they share.
//!
//! Not here: reading (`mapping`), stamps (they come from the sequencer), segments (`build`).

use super::schema::{IndexSchema, Slot, YES};
use engine::Hidden;
use mapping::tree::Placed;
use mapping::{FieldValue, Fields, Kind, Parsed};
use model::{DocId, Stamp};
use std::net::Ipv6Addr;
use std::sync::Arc;
use tantivy::schema::Field;
use tantivy::schema::document::{Document, ReferenceValue, ReferenceValueLeaf, Value};

/// A document with everything that is stored of it.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// Its identity.
    pub id: &'a DocId,
    /// The stored form of it.
    pub uid: &'a Arc<str>,
    /// Its stamp.
    pub stamp: Stamp,
    /// The source that is kept; empty if none is.
    pub source: &'a Arc<[u8]>,
    /// The stored fields that the source does not keep; empty if there are none.
    pub fields: &'a [u8],
    /// `_routing`.
    pub routing: Option<&'a str>,
    /// `_parent`.
    pub parent: Option<&'a str>,
    /// Its directories, by `tree_path` field.
    pub placed: &'a [Placed],
    /// Its mark, and the mark's stored form.
    pub hidden: Option<(&'a Hidden, &'a [u8])>,
}

/// One document of a block, as tantivy takes it.
#[derive(Clone, Debug)]
pub struct Indexed {
    schema: Arc<IndexSchema>,
    values: Vec<(Field, Cell)>,
}

/// A value of a field.
#[derive(Clone, Debug)]
pub enum Cell {
    /// A text that is this document's own.
    Text(String),
    /// A text that others of its block have too.
    Shared(Arc<str>),
    /// One of the schema's names: threads that build would contend for a count of those who share it.
    Name(u32),
    /// [`YES`].
    Yes,
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A number.
    U64(u64),
    /// A number.
    I64(i64),
    /// A number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// An address, or another key of 128 bits.
    Ip(Ipv6Addr),
}

impl Document for Indexed {
    type Value<'a> = CellOf<'a>;
    type FieldsValuesIter<'a> = Values<'a>;
    fn iter_fields_and_values(&self) -> Values<'_> {
        Values(&self.schema, self.values.iter())
    }
}

/// Goes through the values of an [`Indexed`].
#[derive(Debug)]
pub struct Values<'a>(&'a IndexSchema, std::slice::Iter<'a, (Field, Cell)>);

impl<'a> Iterator for Values<'a> {
    type Item = (Field, CellOf<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        let (field, cell) = self.1.next()?;
        Some((*field, CellOf(self.0, cell)))
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.1.size_hint()
    }
}

/// A value, and the schema that has its text if it is a name.
#[derive(Clone, Copy, Debug)]
pub struct CellOf<'a>(&'a IndexSchema, &'a Cell);

impl<'a> Value<'a> for CellOf<'a> {
    type ArrayIter = std::iter::Empty<Self>;
    type ObjectIter = std::iter::Empty<(&'a str, Self)>;
    fn as_value(&self) -> ReferenceValue<'a, Self> {
        ReferenceValue::Leaf(match self.1 {
            Cell::Text(text) => ReferenceValueLeaf::Str(text),
            Cell::Shared(text) => ReferenceValueLeaf::Str(text),
            Cell::Name(name) => ReferenceValueLeaf::Str(self.0.name(*name)),
            Cell::Yes => ReferenceValueLeaf::Str(YES),
            Cell::Bytes(bytes) => ReferenceValueLeaf::Bytes(bytes),
            Cell::U64(n) => ReferenceValueLeaf::U64(*n),
            Cell::I64(n) => ReferenceValueLeaf::I64(*n),
            Cell::F64(n) => ReferenceValueLeaf::F64(*n),
            Cell::Bool(b) => ReferenceValueLeaf::Bool(*b),
            Cell::Ip(address) => ReferenceValueLeaf::IpAddr(*address),
        })
    }
}

/// The documents of one document.
#[derive(Clone, Debug, Default)]
pub struct DocumentBlock {
    /// Nested documents, then the root.
    pub docs: Vec<Indexed>,
    /// The root begins with so many values that are its identity, stamp and source.
    envelope: usize,
}

impl DocumentBlock {
    /// The root alone, with identity, stamp and source only: what stays of a document that tantivy refuses.
    #[must_use]
    pub fn bare(mut self) -> DocumentBlock {
        if let Some(root) = self.docs.last_mut() {
            root.values.truncate(self.envelope);
        }
        self.docs.drain(..self.docs.len().saturating_sub(1));
        self
    }
}

/// Room for names that is made before they are known.
const NAMES_AT_ONCE: usize = 256;

/// The block of a document. `parsed` is `None` for a document that cannot be indexed: it keeps its identity, stamp
/// and source, and no query on fields finds it.
pub fn block(schema: &Arc<IndexSchema>, parsed: Option<Parsed>, of: Envelope<'_>) -> DocumentBlock {
    let (root, nested, ignored) = match parsed {
        Some(parsed) => (parsed.root, parsed.nested, parsed.ignored),
        None => (Fields::default(), Vec::new(), Vec::new()),
    };
    let size = 1 + nested.len();
    let mut docs = Vec::with_capacity(size);
    let mut names = Vec::new();
    let indexed = |values| Indexed {
        schema: schema.clone(),
        values,
    };
    for nested in nested {
        let mut doc = Vec::with_capacity(4 + 2 * nested.fields.0.len());
        doc.push((schema.id, Cell::Shared(of.uid.clone())));
        doc.push((schema.nested_path, Cell::Text(nested.path)));
        doc.push((schema.offset, Cell::U64(u64::from(nested.offset))));
        fields(schema, nested.fields, &mut names, &mut doc);
        docs.push(indexed(doc));
    }
    // As many names as fields, of which there are fewer than values where there are many.
    let mut doc = Vec::with_capacity(12 + root.0.len() + root.0.len().min(NAMES_AT_ONCE));
    doc.push((schema.id, Cell::Shared(of.uid.clone())));
    doc.push((schema.root, Cell::Yes));
    doc.push((schema.seq_no, Cell::U64(of.stamp.seq_no)));
    doc.push((schema.version, Cell::U64(of.stamp.version)));
    doc.push((schema.term, Cell::U64(of.stamp.primary_term)));
    if !of.source.is_empty() {
        doc.push((schema.source, Cell::Bytes(of.source.clone())));
    }
    if !of.fields.is_empty() {
        doc.push((schema.source, Cell::Bytes(of.fields.into())));
    }
    let text = |text: &str| Cell::Text(text.to_owned());
    doc.extend(of.routing.map(|routing| (schema.routing, text(routing))));
    doc.extend(of.parent.map(|parent| (schema.parent, text(parent))));
    if let Some(doc_type) = &of.id.doc_type {
        doc.push((schema.doc_type, Cell::Shared(doc_type.clone())));
    }
    if let Some((hidden, bytes)) = of.hidden {
        doc.push((schema.hidden, Cell::Bytes(bytes.into())));
        if !hidden.visible {
            doc.push((schema.invisible, Cell::Yes));
        }
    }
    for (placed, slot) in directory_slots(schema, of.placed) {
        if let Some((stored, _)) = &slot.second {
            doc.push((*stored, Cell::Bytes(placed.to_bytes().into())));
        }
    }
    let envelope = doc.len();
    for (placed, slot) in directory_slots(schema, of.placed) {
        doc.extend(placed.dirs.iter().map(|dir| (slot.field, Cell::U64(u64::from(*dir)))));
    }
    doc.extend(ignored.into_iter().map(|path| (schema.ignored, Cell::Text(path))));
    fields(schema, root, &mut names, &mut doc);
    docs.push(indexed(doc));
    debug_assert_eq!(docs.len(), size, "a block is its nested documents and then its root");
    DocumentBlock { docs, envelope }
}

/// The directories of a document, with where they lie.
fn directory_slots<'a>(schema: &'a IndexSchema, all: &'a [Placed]) -> impl Iterator<Item = (&'a Placed, &'a Slot)> {
    all.iter()
        .filter_map(|placed| Some((placed, schema.slot(&placed.field).filter(|slot| slot.kind == Kind::TreePath)?)))
}

/// Adds values, and the name of each path that has one. `names` is room that is used again.
fn fields(schema: &IndexSchema, fields: Fields, names: &mut Vec<u32>, doc: &mut Vec<(Field, Cell)>) {
    names.clear();
    let mut last: Option<Arc<str>> = None;
    for (path, value) in fields.0 {
        let Some(slot) = schema.slot(&path) else {
            debug_assert!(false, "the schema covers every path of the mapping: {path}");
            continue;
        };
        // Values of a field follow each other more often than not.
        if last.as_ref() != Some(&path) {
            names.extend_from_slice(&slot.names);
        }
        last = Some(path);
        add(slot, value, doc);
    }
    // Names are numbered in their order.
    names.sort_unstable();
    names.dedup();
    doc.extend(names.drain(..).map(|name| (schema.field_names, Cell::Name(name))));
}

/// Adds what can be asked for of a value.
fn add(slot: &Slot, value: FieldValue, doc: &mut Vec<(Field, Cell)>) {
    let field = slot.field;
    match value {
        // Its number comes with the envelope: what was read is the text of its writing.
        FieldValue::Keyword(_) if slot.kind == Kind::TreePath => {}
        FieldValue::Text(text) | FieldValue::Keyword(text) => doc.push((field, Cell::Text(text))),
        FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n) => doc.push((field, Cell::I64(n))),
        FieldValue::UnsignedLong(n) => doc.push((field, Cell::U64(n))),
        FieldValue::Double(n) => {
            debug_assert!(n.is_finite(), "a number of a field is finite: the mapping refuses others");
            doc.push((field, Cell::F64(n)));
        }
        FieldValue::Bool(b) => doc.push((field, Cell::Bool(b))),
        FieldValue::Ip(bytes) => doc.push((field, Cell::Ip(Ipv6Addr::from(bytes)))),
        FieldValue::Geo { lat, lon } => {
            debug_assert!(
                lat.abs() <= 90.0 && lon.abs() <= 180.0 && slot.second.is_some(),
                "a place lies on the globe, and its field has two columns"
            );
            let (lat, lon) = super::grid::on((lat, lon));
            doc.push((field, Cell::F64(lat)));
            if let Some((longitude, _)) = &slot.second {
                doc.push((*longitude, Cell::F64(lon)));
            }
        }
        FieldValue::Range { low, high } => {
            debug_assert!(
                low <= high && slot.second.is_some(),
                "a range begins before it ends, and its field has two columns"
            );
            doc.push((field, Cell::Ip(Ipv6Addr::from(low))));
            if let Some((upper, _)) = &slot.second {
                doc.push((*upper, Cell::Ip(Ipv6Addr::from(high))));
            }
        }
        FieldValue::Completion(entries) => doc.extend(entries.into_iter().map(|entry| (field, Cell::Text(entry)))),
        FieldValue::Binary(_) => {}
        FieldValue::Join { name, parent } => {
            doc.push((field, Cell::Text(name)));
            if let (Some((field, _)), Some(parent)) = (&slot.second, parent) {
                doc.push((*field, Cell::Text(parent)));
            }
        }
    }
}
