//! The content of a view in which writes are staged, and the table of those views.
//!
//! Not here: staging, reading and searching (`staging`).

use crate::catalog::{Catalog, IndexEntry};
use crate::lock_order::Mutex;
use crate::open_views::missing_view;
use crate::pending::PendingOp;
use crate::trees::Trees;
use engine::View;
use mapping::tree::Tree;
use model::{DocAddress, Result, Stamp};
use segment::searchable::{IndexView, Searchable};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One view.
pub(crate) struct StagingView {
    pub(crate) view: View,
    pub(crate) base: Arc<Searchable>,
    pub(crate) inner: Mutex<StagedWrites>,
    /// The bytes of `inner`, for who lists transactions while scripts of this one run.
    pub(crate) bytes: Arc<AtomicU64>,
}

/// The staged writes of a view.
pub(crate) struct StagedWrites {
    /// As it was, with what staged writes made and grew.
    pub(crate) catalog: Arc<Catalog>,
    /// Indices that were made, and whether they are typed.
    pub(crate) made: BTreeMap<u32, bool>,
    pub(crate) documents: Vec<StagedDocument>,
    pub(crate) places: HashMap<(u32, Box<str>), usize>,
    pub(crate) overlays: HashMap<u32, Overlay>,
    /// Directories that staged documents made beyond those of the view; the commit makes its own.
    pub(crate) trees: Trees,
    pub(crate) operations: u64,
    pub(crate) bytes: Arc<AtomicU64>,
}

/// One document that was written.
pub(crate) struct StagedDocument {
    pub(crate) no: u32,
    pub(crate) at: DocAddress,
    pub(crate) before: Option<Stamp>,
    pub(crate) op: Arc<PendingOp>,
}

/// One index that was written to.
#[derive(Default)]
pub(crate) struct Overlay {
    pub(crate) set: Option<Arc<IndexView>>,
    pub(crate) layers: usize,
    /// Not yet in the set.
    pub(crate) waiting: Vec<Arc<PendingOp>>,
}

impl StagedWrites {
    /// Keeps a catalog with an index that was made, and an index whose mapping grew.
    pub(crate) fn keep_catalog(&mut self, made: Option<Catalog>, grown: Option<IndexEntry>) {
        let mut next = made;
        if let Some(grown) = grown {
            next.get_or_insert_with(|| (*self.catalog).clone()).put(grown);
        }
        if let Some(next) = next {
            self.catalog = Arc::new(next);
        }
    }

    /// Keeps a document. One that was staged before gets the new write, and stays what it was at first.
    pub(crate) fn keep(&mut self, uid: Box<str>, document: StagedDocument) {
        let waiting = &mut self.overlays.entry(document.no).or_default().waiting;
        waiting.push(document.op.clone());
        match self.places.entry((document.no, uid)) {
            Entry::Occupied(place) => {
                let staged = &mut self.documents[*place.get()];
                debug_assert!(
                    staged.no == document.no && staged.op.key == document.op.key && staged.before == document.before,
                    "transactions.md T24: a document that is staged again is the same one, and began as it did: {:?}",
                    document.at
                );
                staged.op = document.op;
            }
            Entry::Vacant(place) => {
                place.insert(self.documents.len());
                self.documents.push(document);
            }
        }
        debug_assert_eq!(
            self.places.len(),
            self.documents.len(),
            "transactions.md T2: a document is staged once, however often it is written"
        );
    }

    /// The trees in which a write to this index finds and makes its directories.
    pub(crate) fn trees_beyond(&self, base: &Tree, no: u32) -> &Trees {
        if self.trees.get(no).is_none() {
            self.trees.put(no, base.clone());
        }
        &self.trees
    }
    /// The tree of an index with what staged documents made.
    pub(crate) fn tree_beyond(&self, base: Arc<Tree>, no: u32) -> Arc<Tree> {
        self.trees.newest(no).0.unwrap_or(base)
    }
}

impl StagingView {
    /// The tree of directories of the view's moment.
    pub(crate) fn tree_of(&self, no: u32) -> Arc<Tree> {
        self.base_of(no).map(|set| set.tree.clone()).unwrap_or_default()
    }
    pub(crate) fn base_of(&self, no: u32) -> Option<&Arc<IndexView>> {
        self.base.indices.get(&no)
    }
}

impl std::fmt::Debug for StagingView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StagingView({} at {:?})", self.view.id, self.view.as_of)
    }
}

/// Open views with staged writes, by id, and the bytes that are staged in all of them.
#[derive(Default)]
pub(crate) struct StagingViews {
    open: Mutex<HashMap<String, Arc<StagingView>>>,
    bytes: AtomicU64,
}

impl StagingViews {
    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }
    /// Adds a view unless `refuse`, called with the number of views, says why not.
    ///
    /// # Errors
    /// The refusal of `refuse`.
    pub(crate) fn insert(
        &self,
        id: String,
        view: Arc<StagingView>,
        refuse: impl Fn(usize) -> Option<model::Error>,
    ) -> Result<()> {
        let mut open = self.open.lock();
        match refuse(open.len()) {
            Some(refused) => Err(refused),
            None => {
                let before = open.insert(id, view);
                debug_assert!(before.is_none(), "6: the id of a view is given once");
                Ok(())
            }
        }
    }
    /// A view.
    ///
    /// # Errors
    /// No view has the id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<StagingView>> {
        self.open.lock().get(id).cloned().ok_or_else(|| missing_view(id))
    }
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.open.lock().contains_key(id)
    }
    pub(crate) fn remove(&self, id: &str) -> Option<Arc<StagingView>> {
        self.open.lock().remove(id)
    }
    /// Counts bytes of some view; gives the sum over all views.
    pub(crate) fn add_bytes(&self, bytes: u64) -> u64 {
        self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }
    /// Bytes of all views.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
    pub(crate) fn subtract_bytes(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "no more staged bytes are given back than were counted");
    }
}
