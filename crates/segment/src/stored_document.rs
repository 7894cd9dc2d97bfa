//! Documents by their ids: where one lies in the segments of an index, and how it is read from there.
//!
//! Not here: documents that no segment has yet (the write path), caches.

use crate::absent_ids;
use crate::error::broken;
use crate::hidden_mark::read_mark;
use crate::id_filter::IdHash;
use crate::searchable::IndexView;
use crate::segment_view::SegmentView;
use engine::{Document, Source};
use mapping::tree::{Placed, Tree};
use model::{DocAddress, Result, Stamp};
use std::sync::Arc;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// Where a live document lies.
#[derive(Clone, Debug)]
pub struct Location {
    /// Its segment.
    pub segment: Arc<SegmentView>,
    /// Every document of its block, root last.
    pub block: Vec<u32>,
}

impl Location {
    /// The root.
    pub fn root(&self) -> u32 {
        self.block.last().copied().unwrap_or(0)
    }
    /// Its stamp.
    pub fn stamp(&self) -> Stamp {
        self.segment.core.stamp(self.root())
    }
}

/// The live block of a uid in a set.
///
/// # Errors
/// Unreadable files.
pub fn locate(view: &IndexView, uid: &str) -> Result<Option<Location>> {
    let term = Term::from_field_text(view.schema.id, uid);
    let hash = IdHash::of(uid.as_bytes());
    for segment in view.segments.iter().rev() {
        let may_contain = absent_ids::may_contain(segment, hash);
        if !may_contain && !cfg!(debug_assertions) {
            continue;
        }
        let index = segment.reader.inverted_index(view.schema.id).map_err(broken)?;
        let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic).map_err(broken)? else {
            segment.core.id_lookups().note_absent();
            continue;
        };
        debug_assert!(
            may_contain,
            "search.md S27: the filter of segment {} passes each of its ids: {uid}",
            segment.id
        );
        let mut block = Vec::new();
        while postings.doc() != TERMINATED {
            if segment.is_alive(postings.doc()) {
                block.push(postings.doc());
            }
            postings.advance();
        }
        if let Some(root) = block.last() {
            debug_assert!(segment.is_root(*root), "search.md S6: the root is the last of its block");
            debug_assert!(
                block.windows(2).all(|two| two[0] + 1 == two[1]),
                "search.md S7: a block lies side by side, and is alive as a whole"
            );
            return Ok(Some(Location {
                segment: segment.clone(),
                block,
            }));
        }
    }
    Ok(None)
}

/// A document out of a segment, as the view shows it.
///
/// # Errors
/// Unreadable files.
pub fn load_document(view: &IndexView, location: &Location, at: &DocAddress) -> Result<Document> {
    load_document_as_of(view, &view.tree, location, at)
}

/// The same with the paths of a tree that may be newer than the view.
///
/// # Errors
/// Unreadable files.
pub fn load_document_as_of(view: &IndexView, tree: &Arc<Tree>, location: &Location, at: &DocAddress) -> Result<Document> {
    read(view, tree, &location.segment, location.root(), Some(at))
}

/// A root document of a segment, whose id is read with the rest.
///
/// # Errors
/// Unreadable files.
pub fn root_document(view: &IndexView, segment: &SegmentView, root: DocId) -> Result<Document> {
    read(view, &view.tree, segment, root, None)
}

/// Reads a document in one pass over its stored fields. `at`: its address, if the caller knows it.
fn read(view: &IndexView, tree: &Arc<Tree>, segment: &SegmentView, root: DocId, at: Option<&DocAddress>) -> Result<Document> {
    let schema = &view.schema;
    let mut document = Document {
        at: at.cloned().unwrap_or_else(|| DocAddress {
            index: view.name.clone(),
            id: model::DocId::plain(""),
        }),
        stamp: segment.core.stamp(root),
        source: Source(Arc::from([])),
        stored_fields: None,
        routing: None,
        parent: None,
        times: crate::times::times_of(view, segment, root)?,
        tree: (!tree.is_empty()).then(|| tree.clone()),
        hidden: None,
    };
    let mut placed = Vec::new();
    view.each_stored_once(segment, root, |field, value| {
        if field == schema.id && at.is_none() {
            document.at.id = model::DocId::from_uid(&String::from_utf8_lossy(value), view.typed);
        } else if field == schema.source {
            match crate::stored_source::stored_fields(value) {
                Some(fields) => document.stored_fields = Some(Source(fields.into())),
                None => document.source = Source(value.into()),
            }
        } else if field == schema.routing {
            document.routing = Some(String::from_utf8_lossy(value).into_owned());
        } else if field == schema.parent {
            document.parent = Some(String::from_utf8_lossy(value).into_owned());
        } else if field == schema.hidden {
            document.hidden = read_mark(value);
        } else if let Some(field) = schema.tree_of(field) {
            placed.extend(Placed::from_bytes(field.clone(), value));
        }
    })?;
    debug_assert!(
        placed
            .iter()
            .all(|placed| placed.dirs.iter().all(|dir| (*dir as usize) < tree.len())),
        "trees.md D8: the directories of a document are in the tree that it is shown by: {placed:?}"
    );
    if let Some(source) = view.todays_source(tree, &document.source.0, &placed) {
        document.source = Source(source.into());
    }
    if let (Some(granted), Some(fields)) = (&view.granted, &document.stored_fields)
        && let Some(shown) = granted.filter_source_bytes(&fields.0)
    {
        document.stored_fields = Some(Source(shown.into()));
    }
    Ok(document)
}
