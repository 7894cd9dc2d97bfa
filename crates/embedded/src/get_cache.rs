//! LRU cache of documents read by id: location, stamp and decoded source.
//!
//! An entry never changes while its document lives where it was: another version of it lies elsewhere, and then
//! this one is dead. So nothing is ever taken back; whoever asks looks whether it still lives in the set that he reads.
//!
//! Not here: what is in no segment yet (`versions`), documents that searches show (`index/cache`).

use crate::document_key::Key;
use crate::removed_documents::is_removed;
use engine::{Document, Hidden, Source};
use mapping::Times;
use mapping::tree::Tree;
use model::{DocAddress, Result, Stamp};
use segment::cache::Cache;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use segment::stored_document::{load_document_as_of, locate};
use std::sync::Arc;
use tantivy::DocId;

/// By the key of the document.
pub(crate) type GetCache = Cache<Key, Arc<CachedDocument>>;

/// A document and where it lies. As small as can be: there are many.
#[derive(Debug)]
pub(crate) struct CachedDocument {
    segment: u64,
    root: DocId,
    stamp: Stamp,
    source: Source,
    /// The number of moves that the tree of its paths had.
    moved: u64,
    rest: Option<Box<Rest>>,
}

/// The parts that few documents have.
#[derive(Debug)]
struct Rest {
    stored_fields: Option<Source>,
    routing: Option<String>,
    parent: Option<String>,
    times: Times,
    hidden: Option<Hidden>,
}

impl CachedDocument {
    fn of(segment: &SegmentView, root: DocId, document: &Document, moved: u64) -> CachedDocument {
        debug_assert!(
            segment.is_root(root),
            "search.md S6: a document is read by the root of its block"
        );
        let rest = Rest {
            stored_fields: document.stored_fields.clone(),
            routing: document.routing.clone(),
            parent: document.parent.clone(),
            times: document.times,
            hidden: document.hidden.clone(),
        };
        CachedDocument {
            segment: segment.id,
            root,
            stamp: document.stamp,
            source: document.source.clone(),
            moved,
            rest: (!rest.is_nothing()).then(|| Box::new(rest)),
        }
    }

    fn document(&self, at: &DocAddress, tree: &Arc<Tree>) -> Document {
        let rest = self.rest.as_deref();
        Document {
            at: at.clone(),
            stamp: self.stamp,
            source: self.source.clone(),
            stored_fields: rest.and_then(|rest| rest.stored_fields.clone()),
            routing: rest.and_then(|rest| rest.routing.clone()),
            parent: rest.and_then(|rest| rest.parent.clone()),
            times: rest.map(|rest| rest.times).unwrap_or_default(),
            tree: (!tree.is_empty()).then(|| tree.clone()),
            hidden: rest.and_then(|rest| rest.hidden.clone()),
        }
    }

    /// Is it alive in this set?
    fn lives_in(&self, view: &IndexView) -> bool {
        let own = view.segments.iter().find(|segment| segment.id == self.segment);
        debug_assert!(
            own.is_none_or(|segment| segment.core.stamp(self.root) == self.stamp),
            "search.md S19: segment {} has the document that was read from it",
            self.segment
        );
        own.is_some_and(|segment| segment.is_alive(self.root))
    }

    fn bytes(&self) -> usize {
        size_of::<CachedDocument>() + self.source.0.len() + self.rest.as_ref().map_or(0, |rest| rest.bytes())
    }
}

impl Rest {
    fn is_nothing(&self) -> bool {
        let Rest {
            stored_fields,
            routing,
            parent,
            times,
            hidden,
        } = self;
        stored_fields.is_none() && routing.is_none() && parent.is_none() && times.is_none() && hidden.is_none()
    }

    fn bytes(&self) -> usize {
        let texts = self.routing.iter().chain(&self.parent).map(String::len).sum::<usize>();
        let mark = self.hidden.as_ref().map_or(0, |hidden| hidden.body.to_string().len());
        size_of::<Rest>() + texts + mark + self.stored_fields.as_ref().map_or(0, |fields| fields.0.len())
    }
}

/// A document of a set, with the paths of a tree, unless the tree removed its directory.
///
/// # Errors
/// Unreadable files.
pub(crate) fn read(
    lately: &GetCache,
    view: &IndexView,
    tree: Option<&Arc<Tree>>,
    at: &DocAddress,
    (uid, key): (&str, Key),
) -> Result<Option<Document>> {
    let tree = tree.unwrap_or(&view.tree);
    let is_good = |kept: &Arc<CachedDocument>| kept.moved == tree.last_move_seq() && kept.lives_in(view);
    if let Some(kept) = lately.get(&key).filter(is_good) {
        return Ok(Some(kept.document(at, tree)));
    }
    let Some(location) = locate(view, uid)? else {
        return Ok(None);
    };
    if is_removed(view, &location, tree)? {
        return Ok(None);
    }
    let document = load_document_as_of(view, tree, &location, at)?;
    put(lately, key, (&location.segment, location.root()), &document, tree);
    Ok(Some(document))
}

/// Keeps a document as it lies in a segment, whole, with the paths of a tree.
pub(crate) fn put(lately: &GetCache, key: Key, (segment, root): (&SegmentView, DocId), document: &Document, tree: &Tree) {
    let kept = CachedDocument::of(segment, root, document, tree.last_move_seq());
    lately.replace(key, kept.bytes(), || Arc::new(kept));
}
