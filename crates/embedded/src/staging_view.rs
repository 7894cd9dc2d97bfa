//! Views in which writes are staged: their contents, and the table of those that are open.
//!
//! Not here: reading and staging in them (`staging`).

use crate::catalog::Catalog;
use crate::pending::PendingOp;
use engine::View;
use model::{DocAddress, Stamp};
use parking_lot::Mutex;
use segment::searchable::{IndexView, Searchable};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The open views, and the bytes that are staged in all of them.
#[derive(Debug, Default)]
pub(crate) struct Stagings {
    open: Mutex<HashMap<String, Arc<StagingView>>>,
    bytes: AtomicU64,
}

impl Stagings {
    /// The number of open views.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Adds a view to the table.
    ///
    /// # Errors
    /// The number of open views, if it is `max` already.
    pub(crate) fn open(&self, id: &str, view: StagingView, max: u64) -> Result<(), usize> {
        let mut open = self.open.lock();
        if open.len() as u64 >= max {
            return Err(open.len());
        }
        open.insert(id.to_owned(), Arc::new(view));
        Ok(())
    }

    /// An open view.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<StagingView>> {
        self.open.lock().get(id).cloned()
    }

    /// Whether a view is open.
    pub(crate) fn is_open(&self, id: &str) -> bool {
        self.open.lock().contains_key(id)
    }

    /// Closes a view and gives its bytes back; false if it was not open. A request that still uses it stages bytes that
    /// nobody counts.
    pub(crate) fn close(&self, id: &str) -> bool {
        let Some(staging) = self.open.lock().remove(id) else {
            return false;
        };
        let inner = staging.inner.lock();
        self.subtract_bytes(inner.bytes.swap(0, Ordering::Relaxed));
        true
    }

    /// Counts bytes that are about to be staged.
    ///
    /// # Errors
    /// The bytes of all views with these, if they are more than `max`; then they are not counted.
    pub(crate) fn add_bytes(&self, bytes: u64, max: u64) -> Result<(), u64> {
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if all > max {
            self.subtract_bytes(bytes);
            return Err(all);
        }
        Ok(())
    }

    /// Gives back bytes that were counted.
    pub(crate) fn subtract_bytes(&self, bytes: u64) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "only bytes that were counted are given back");
    }
}

/// One view.
pub(crate) struct StagingView {
    pub(crate) view: View,
    pub(crate) base: Arc<Searchable>,
    pub(crate) inner: Mutex<StagedState>,
    /// The counter of `inner`: lists of transactions read it while scripts of this one run.
    pub(crate) bytes: Arc<AtomicU64>,
}

/// What was staged.
pub(crate) struct StagedState {
    /// As it was, with what staged writes made and grew.
    pub(crate) catalog: Arc<Catalog>,
    /// Indices that were made, and whether they are typed.
    pub(crate) made: BTreeMap<u32, bool>,
    pub(crate) documents: Vec<StagedDocument>,
    pub(crate) places: HashMap<(u32, Box<str>), usize>,
    pub(crate) overlays: HashMap<u32, Overlay>,
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

impl StagingView {
    /// The set of an index with which the view began.
    pub(crate) fn base_of(&self, no: u32) -> Option<&Arc<IndexView>> {
        self.base.indices.get(&no)
    }
}

impl std::fmt::Debug for StagingView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StagingView({} at {:?})", self.view.id, self.view.as_of)
    }
}
