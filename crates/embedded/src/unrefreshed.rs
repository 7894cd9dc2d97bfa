//! The documents that the published set of an index does not show as they are: those of its pending operations.
//!
//! Not here: making them searchable (`publish`).

use crate::pending::Kind;
use crate::publish::newest_of;
use crate::store::Store;
use engine::Unrefreshed;
use model::{DocAddress, DocId, IndexName, Result};

impl Store {
    /// As `engine::AtomicWrites::unrefreshed_documents`, of what is durable. `None` too where a set was built and is not published yet.
    ///
    /// # Errors
    /// A missing index, an alias of several, Corruption.
    pub(crate) fn unrefreshed_documents(&self, index: &IndexName, most: usize) -> Result<Option<Vec<Unrefreshed>>> {
        let entry = self.catalog.now().read_index(index.as_str(), self.env.wall_ms())?;
        let state = self.state(&entry)?;
        let Some(ops) = state.pending().all_up_to(most) else {
            return Ok(None);
        };
        // Read in this order: what has left the queue is in the built set, and the published set must have all of that.
        let built = state.built_view().position;
        if self.publication.set_of(entry.no).is_none_or(|shown| shown.position < built) {
            return Ok(None);
        }
        let (tree, _) = self.trees.newest(entry.no);
        let newest = newest_of(&ops);
        let unrefreshed = newest.into_iter().map(|(uid, number)| Unrefreshed {
            at: DocAddress {
                index: entry.name.clone(),
                id: DocId::from_uid(uid, entry.has_types()),
            },
            source: match &ops[number].kind {
                Kind::Put(put) if !ops[number].is_removed(tree.as_deref()) => Some(put.source_as_of(tree.as_ref())),
                _ => None,
            },
        });
        Ok(Some(unrefreshed.collect()))
    }
}
