//! Documents that were read by their ids lately: where they are, unpacked.
//!
//! What is kept of a document never changes while it lives where it was: another version of it lies elsewhere, and then
//! this one is dead. So nothing is ever taken back; whoever asks looks whether it still lives in the set that he reads.
//!
//! Not here: what is in no segment yet (`versions`), documents that searches show (`index/cache`).

use crate::index::cache::Cache;
use crate::searchable::IndexView;
use crate::store::locate;
use crate::versions::Key;
use crate::writing::stored;
use engine::Document;
use model::{DocAddress, Result};
use std::sync::Arc;
use tantivy::DocId;

/// By the key of the document.
pub(crate) type Lately = Cache<Key, Arc<Kept>>;

/// A document and where it lies.
#[derive(Debug)]
pub(crate) struct Kept {
    segment: u64,
    root: DocId,
    document: Document,
}

impl Kept {
    /// Is it alive in this set?
    fn lives_in(&self, view: &IndexView) -> bool {
        let own = view.segments.iter().find(|segment| segment.id == self.segment);
        own.is_some_and(|segment| segment.is_alive(self.root))
    }

    fn bytes(&self) -> usize {
        let Document {
            source, stored_fields, ..
        } = &self.document;
        size_of::<Kept>() + source.0.len() + stored_fields.as_ref().map_or(0, |fields| fields.0.len())
    }
}

/// A document of a set.
///
/// # Errors
/// Unreadable files.
pub(crate) fn read(lately: &Lately, view: &IndexView, at: &DocAddress, uid: &str, key: Key) -> Result<Option<Document>> {
    if let Some(kept) = lately.get(&key).filter(|kept| kept.lives_in(view)) {
        debug_assert_eq!(kept.document.at, *at, "keys tell documents apart");
        return Ok(Some(kept.document.clone()));
    }
    let Some(location) = locate(view, uid)? else {
        return Ok(None);
    };
    let document = stored(view, &location, at)?;
    let kept = Arc::new(Kept {
        segment: location.segment.id,
        root: location.root(),
        document,
    });
    lately.replace(key, kept.bytes(), || kept.clone());
    Ok(Some(kept.document.clone()))
}
