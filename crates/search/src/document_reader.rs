//! Reading stored documents of a segment, each into its address, source and metadata.
//!
//! Not here: the cache that they are read through (`segment::cache`), what a hit shows of them (`fetch`).

use mapping::tree::Placed;
use model::{DocId, Result};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use segment::stored::each_place;
use segment::stored_source::stored_fields;
use std::ops::Range;
use std::sync::Arc;
use tantivy::DocId as Doc;

/// A stored document as it was read.
pub struct Stored {
    /// Its identity.
    pub id: DocId,
    /// The parts that may be large.
    pub payload: Payload,
    /// `_routing`.
    pub routing: Option<String>,
    /// `_parent`.
    pub parent: Option<String>,
    /// `_ignored`.
    pub ignored: Vec<String>,
    /// The mark, as bytes.
    pub hidden: Option<Vec<u8>>,
}

/// The large stored parts of a document: they stay in the block that was read.
pub struct Payload {
    bytes: Arc<[u8]>,
    source: Option<Range<usize>>,
    /// The source with today's paths, where they differ.
    todays: Option<Vec<u8>>,
    fields: Option<Range<usize>>,
    /// The granted part of the fields, where something is withheld.
    shown_fields: Option<Vec<u8>>,
}

impl Payload {
    /// The client's bytes, with today's paths.
    pub fn source(&self) -> Option<&[u8]> {
        if let Some(todays) = &self.todays {
            return Some(todays);
        }
        self.bytes.get(self.source.clone()?)
    }
    /// The stored fields that the source does not keep, as JSON.
    pub fn fields(&self) -> Option<&[u8]> {
        if let Some(shown) = &self.shown_fields {
            return Some(shown);
        }
        self.bytes.get(self.fields.clone()?)
    }
}

/// Reads documents of one segment.
pub struct DocumentReader<'a> {
    view: &'a IndexView,
    segment: &'a SegmentView,
}

impl<'a> DocumentReader<'a> {
    /// A segment's documents.
    pub fn of(view: &'a IndexView, segment: &'a SegmentView) -> DocumentReader<'a> {
        DocumentReader { view, segment }
    }

    /// One document.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn read(&self, doc: Doc) -> Result<Stored> {
        let schema = &self.view.schema;
        let bytes = self.view.stored_bytes(self.segment, doc)?;
        let mut out = Stored {
            id: DocId::plain(""),
            payload: Payload {
                bytes: bytes.clone(),
                source: None,
                todays: None,
                fields: None,
                shown_fields: None,
            },
            routing: None,
            parent: None,
            ignored: Vec::new(),
            hidden: None,
        };
        let mut placed = Vec::new();
        each_place(&bytes, doc, |field, place| {
            let value = &bytes[place.clone()];
            let text = || String::from_utf8_lossy(value).into_owned();
            if field == schema.id {
                out.id = DocId::from_uid(&String::from_utf8_lossy(value), self.view.typed);
            } else if field == schema.source {
                match stored_fields(value) {
                    Some(fields) => out.payload.fields = Some(place.end - fields.len()..place.end),
                    None => out.payload.source = Some(place),
                }
            } else if field == schema.routing {
                out.routing = Some(text());
            } else if field == schema.parent {
                out.parent = Some(text());
            } else if field == schema.ignored {
                out.ignored.push(text());
            } else if field == schema.hidden {
                out.hidden = Some(value.to_vec());
            } else if let Some(field) = schema.tree_of(field) {
                placed.extend(Placed::from_bytes(field.clone(), value));
            }
        })?;
        if let (Some(source), true) = (out.payload.source(), !placed.is_empty() || self.view.is_restricted()) {
            out.payload.todays = self.view.todays_source(&self.view.tree, source, &placed);
        }
        if let Some(granted) = &self.view.granted {
            let shown = out.payload.fields().and_then(|fields| granted.filter_source_bytes(fields));
            out.payload.shown_fields = shown;
            out.ignored.retain(|path| granted.grants(path));
        }
        Ok(out)
    }
}
