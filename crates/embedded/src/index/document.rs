//! From a document read through its mapping to tantivy documents: nested ones first, the root last.
//!
//! Not here: reading (`mapping`), stamps (they come from the sequencer), segments (`build`).

use super::schema::{IndexSchema, Slot, YES};
use engine::Hidden;
use mapping::{FieldValue, Fields, Parsed};
use model::{DocId, Stamp};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use tantivy::TantivyDocument;

/// A document with everything that is stored of it.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    /// Its identity.
    pub id: &'a DocId,
    /// The stored form of it.
    pub uid: &'a str,
    /// Its stamp.
    pub stamp: Stamp,
    /// The source that is kept; empty if none is.
    pub source: &'a [u8],
    /// The stored fields that the source does not keep; empty if there are none.
    pub fields: &'a [u8],
    /// `_routing`.
    pub routing: Option<&'a str>,
    /// `_parent`.
    pub parent: Option<&'a str>,
    /// Its mark, and the mark's stored form.
    pub hidden: Option<(&'a Hidden, &'a [u8])>,
}

/// The block of a document, root last. `parsed` is `None` for a document that cannot be indexed: it keeps its
/// identity, stamp and source, and no query on fields finds it.
pub fn block(schema: &IndexSchema, parsed: Option<&Parsed>, of: Envelope<'_>) -> Vec<TantivyDocument> {
    let mut out = Vec::with_capacity(1 + parsed.map_or(0, |p| p.nested.len()));
    for nested in parsed.map_or(&[][..], |p| &p.nested) {
        let mut doc = TantivyDocument::new();
        doc.add_text(schema.id, of.uid);
        doc.add_text(schema.nested_path, &nested.path);
        doc.add_u64(schema.offset, u64::from(nested.offset));
        fields(schema, &nested.fields, &mut doc);
        out.push(doc);
    }
    let mut doc = TantivyDocument::new();
    doc.add_text(schema.id, of.uid);
    doc.add_text(schema.root, YES);
    doc.add_u64(schema.seq_no, of.stamp.seq_no);
    doc.add_u64(schema.version, of.stamp.version);
    doc.add_u64(schema.term, of.stamp.primary_term);
    if !of.source.is_empty() {
        doc.add_bytes(schema.source, of.source);
    }
    if !of.fields.is_empty() {
        doc.add_bytes(schema.source, of.fields);
    }
    if let Some(routing) = of.routing {
        doc.add_text(schema.routing, routing);
    }
    if let Some(parent) = of.parent {
        doc.add_text(schema.parent, parent);
    }
    if let Some(doc_type) = &of.id.doc_type {
        doc.add_text(schema.doc_type, doc_type);
    }
    if let Some((hidden, bytes)) = of.hidden {
        doc.add_bytes(schema.hidden, bytes);
        if !hidden.visible {
            doc.add_text(schema.invisible, YES);
        }
    }
    if let Some(parsed) = parsed {
        for path in &parsed.ignored {
            doc.add_text(schema.ignored, path);
        }
        fields(schema, &parsed.root, &mut doc);
    }
    out.push(doc);
    out
}

fn fields(schema: &IndexSchema, fields: &Fields, doc: &mut TantivyDocument) {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (path, value) in &fields.0 {
        let Some(slot) = schema.slot(path) else {
            debug_assert!(false, "the schema covers every path of the mapping: {path}");
            continue;
        };
        if add(slot, value, doc) {
            names.insert(path);
        }
    }
    let mut all = names.clone();
    for name in &names {
        let mut rest = *name;
        while let Some((object, _)) = rest.rsplit_once('.') {
            all.insert(object);
            rest = object;
        }
    }
    for name in all {
        doc.add_text(schema.field_names, name);
    }
}

/// Adds a value; false if nothing of it can be asked for.
fn add(slot: &Slot, value: &FieldValue, doc: &mut TantivyDocument) -> bool {
    let field = slot.field;
    match value {
        FieldValue::Text(text) | FieldValue::Keyword(text) => doc.add_text(field, text),
        FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n) => doc.add_i64(field, *n),
        FieldValue::UnsignedLong(n) => doc.add_u64(field, *n),
        FieldValue::Double(n) => doc.add_f64(field, *n),
        FieldValue::Bool(b) => doc.add_bool(field, *b),
        FieldValue::Ip(bytes) => doc.add_ip_addr(field, Ipv6Addr::from(*bytes)),
        FieldValue::Geo { lat, lon } => {
            let (lat, lon) = super::grid::on((*lat, *lon));
            doc.add_f64(field, lat);
            if let Some((longitude, _)) = &slot.second {
                doc.add_f64(*longitude, lon);
            }
        }
        FieldValue::Range { low, high } => {
            doc.add_ip_addr(field, Ipv6Addr::from(*low));
            if let Some((upper, _)) = &slot.second {
                doc.add_ip_addr(*upper, Ipv6Addr::from(*high));
            }
        }
        FieldValue::Completion(entries) => {
            for entry in entries {
                doc.add_text(field, entry);
            }
        }
        FieldValue::Binary(_) => {}
        FieldValue::Join { name, parent } => {
            doc.add_text(field, name);
            if let (Some((field, _)), Some(parent)) = (&slot.second, parent) {
                doc.add_text(*field, parent);
            }
        }
    }
    true
}
