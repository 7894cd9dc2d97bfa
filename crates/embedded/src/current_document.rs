//! The newest state of documents, as writes and reads by id find it (write-path.md 1.5).
//!
//! Not here: what searches see (`publication`), what a write makes of it (`evaluate`).

use crate::catalog::IndexEntry;
use crate::document_key::Key;
use crate::get_cache;
use crate::pending::Kind;
use crate::store::Store;
use crate::versions::Newest;
use engine::{Document, Found};
use mapping::tree::Tree;
use model::{DocAddress, Result};
use std::cell::Cell;
use std::sync::Arc;

/// The newest state of one document.
pub(crate) struct CurrentDocument {
    pub(crate) found: Found,
    pub(crate) document: Option<Document>,
    /// The end of the record that made it so; 0: it is in a segment.
    pub(crate) position: u64,
    /// In a view with staged writes: the state that the view began with, which conditions on stamps mean.
    pub(crate) began: Option<Found>,
    /// The tree of directories that its source shows the paths of.
    pub(crate) tree: Option<Arc<Tree>>,
}

impl CurrentDocument {
    /// No document was ever there.
    pub(crate) fn nothing() -> CurrentDocument {
        CurrentDocument {
            found: Found::Nothing,
            document: None,
            position: 0,
            began: None,
            tree: None,
        }
    }
}

/// Where a write finds its document and, for its routing, the parents of it.
pub(crate) trait CurrentDocuments {
    /// The state of one document. `uid` and `key` are those of `at`.
    ///
    /// # Errors
    /// A stopped index, unreadable files.
    fn current(&self, entry: &IndexEntry, at: &DocAddress, uid: &str, key: Key) -> Result<CurrentDocument>;
    /// A parent of a document that is written.
    ///
    /// # Errors
    /// As [`CurrentDocuments::current`].
    fn parent(&self, entry: &IndexEntry, at: &DocAddress) -> Result<Option<Document>>;
}

/// The newest documents of the store. Notes the position that an answer rests on (write-path.md 1.3).
pub(crate) struct NewestDocuments<'a> {
    store: &'a Store,
    position: Cell<u64>,
}

impl<'a> NewestDocuments<'a> {
    pub(crate) fn of(store: &'a Store) -> NewestDocuments<'a> {
        NewestDocuments {
            store,
            position: Cell::new(0),
        }
    }
    /// The end of the newest record that was read.
    pub(crate) fn position(&self) -> u64 {
        self.position.get()
    }
}

impl CurrentDocuments for NewestDocuments<'_> {
    fn current(&self, entry: &IndexEntry, at: &DocAddress, uid: &str, key: Key) -> Result<CurrentDocument> {
        let current = self.store.newest(entry, at, uid, key)?;
        self.position.set(self.position.get().max(current.position));
        Ok(current)
    }
    fn parent(&self, entry: &IndexEntry, at: &DocAddress) -> Result<Option<Document>> {
        let uid = at.id.uid();
        let key = self.store.versions.key(entry.no, &uid);
        self.current(entry, at, &uid, key).map(|current| current.document)
    }
}

/// As the store has them, without the marks of changes that are under way: a rehearsal does not wait for these.
pub(crate) struct UnheldDocuments<'a>(pub(crate) &'a Store);

impl CurrentDocuments for UnheldDocuments<'_> {
    fn current(&self, entry: &IndexEntry, at: &DocAddress, uid: &str, key: Key) -> Result<CurrentDocument> {
        let mut current = self.0.newest(entry, at, uid, key)?;
        if let Some(mark) = current.document.as_mut().and_then(|document| document.hidden.as_mut()) {
            mark.held = false;
        }
        Ok(current)
    }
    fn parent(&self, entry: &IndexEntry, at: &DocAddress) -> Result<Option<Document>> {
        NewestDocuments::of(self.0).parent(entry, at)
    }
}

/// The documents of an index that nobody knows yet: there are none.
pub(crate) struct NoDocuments;

impl CurrentDocuments for NoDocuments {
    fn current(&self, _: &IndexEntry, _: &DocAddress, _: &str, _: Key) -> Result<CurrentDocument> {
        Ok(CurrentDocument::nothing())
    }
    fn parent(&self, _: &IndexEntry, _: &DocAddress) -> Result<Option<Document>> {
        Ok(None)
    }
}

impl Store {
    /// The newest state of a document; the caller holds its stripe or only wants to read.
    pub(crate) fn newest(&self, entry: &IndexEntry, at: &DocAddress, uid: &str, key: Key) -> Result<CurrentDocument> {
        // Before the document: one that is written after this is in directories that the tree has, or is shown as it was written.
        let (tree, rests_on) = self.trees.newest(entry.no);
        let current = self.state_of(entry, at, uid, key, (self.versions.get(key), tree))?;
        Ok(CurrentDocument {
            position: current.position.max(rests_on),
            ..current
        })
    }

    /// The newest state of a document that is durable, also where a newer one is on its way to the disk.
    pub(crate) fn newest_durable(&self, entry: &IndexEntry, at: &DocAddress, uid: &str, key: Key) -> Result<CurrentDocument> {
        let newest = self.versions.newest_durable(key, || self.log.durable_position());
        let tree = self.trees.at(entry.no, self.log.durable_position());
        self.state_of(entry, at, uid, key, (newest, tree))
    }

    /// `newest`: what the version map has of it. The built set is loaded after that (write-path.md 1.5).
    fn state_of(
        &self,
        entry: &IndexEntry,
        at: &DocAddress,
        uid: &str,
        key: Key,
        (newest, tree): (Option<Newest>, Option<Arc<Tree>>),
    ) -> Result<CurrentDocument> {
        debug_assert_eq!(key, self.versions.key(entry.no, uid), "4: a key is that of its index and uid");
        let state = self.state(entry)?;
        let (found, document, position) = match newest {
            // It went with its directory; the next build leaves it out.
            Some(Newest::Put(op)) if op.is_removed(tree.as_deref()) => (Found::Nothing, None, op.position),
            Some(Newest::Put(op)) => {
                let document = match &op.kind {
                    Kind::Put(put) => Some(Document {
                        at: at.clone(),
                        stamp: op.stamp,
                        source: put.source_as_of(tree.as_ref()),
                        stored_fields: None,
                        routing: put.routing.as_deref().map(str::to_owned),
                        parent: put.parent.as_deref().map(str::to_owned),
                        times: put.times,
                        tree: tree.clone(),
                        hidden: put.hidden.as_ref().map(|(hidden, _)| hidden.clone()),
                    }),
                    Kind::Delete => None,
                };
                (Found::Here(op.stamp), document, op.position)
            }
            Some(Newest::Deleted { stamp, position, .. }) => (Found::Deleted(stamp), None, position),
            None => {
                // Loaded after the miss: what left the map is in this set (write-path.md 1.5).
                let set = state.built_view();
                match get_cache::read(self.caches.by_id(), &set, tree.as_ref(), at, (uid, key))? {
                    Some(document) => (Found::Here(document.stamp), Some(document), 0),
                    None => (Found::Nothing, None, 0),
                }
            }
        };
        Ok(CurrentDocument {
            found,
            document,
            position,
            began: None,
            tree,
        })
    }
}
