//! Mappings that grow by the documents of a record (write-path.md 3, step 4).
//!
//! Growth is measured against the newest mapping, under the lock of the catalog, and within a record each write against
//! what the earlier ones leave. Not here: reading a document (`accepted`), logging the growth (`commit`).

use crate::accepted::{Accepted, Growth};
use crate::catalog::{IndexEntry, growth_delta};
use crate::current_document::{CurrentDocuments as _, NewestDocuments};
use crate::lock_order::Mutex;
use crate::prepared_write::{CommitItem, PreparedWrite};
use crate::store::Store;
use engine::{Judge, Source};
use model::{DocAddress, Error, Result};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Entries of the catalog whose mappings grew, by index number.
pub(crate) type Grown = HashMap<u32, Arc<IndexEntry>>;
/// Index, type and rendered fields that a document brings: equal growth counts once a record.
type GrowthKey = (u32, Option<Arc<str>>, String);

fn growth_key(no: u32, growth: &Growth) -> GrowthKey {
    (no, growth.0.clone(), growth.1.render().to_string())
}

/// The growth that earlier writes of a record leave to later ones.
#[derive(Default)]
struct EarlierGrowth {
    grown: Grown,
    known: HashSet<GrowthKey>,
}

impl Store {
    /// Under the catalog lock: reads the document again if the mapping has moved, so that its growth is measured against
    /// the newest.
    pub(crate) fn settle_growth(&self, write: &mut PreparedWrite) -> Result<()> {
        let Some(entry) = self.catalog.entry(write.entry.no) else {
            return Err(engine::catalog::missing(write.entry.name.as_str()));
        };
        if entry.revision == write.entry.revision {
            return Ok(());
        }
        assert!(
            entry.revision > write.entry.revision,
            "3: the mapping of revision {} comes after that of {}",
            entry.revision,
            write.entry.revision
        );
        self.read_again(write, &entry)?;
        write.entry = entry;
        Ok(())
    }

    /// Under the catalog lock, for the writes of one record: each is measured against the mapping that the earlier ones
    /// leave. Gives those that do not fit any more, and why.
    pub(crate) fn settle_together(&self, all: &mut [(usize, CommitItem)]) -> Vec<(usize, Error)> {
        let mut earlier = EarlierGrowth::default();
        let settled = all
            .iter_mut()
            .map(|(n, item)| (*n, self.settle_behind(&mut item.write, &mut earlier)));
        settled.filter_map(|(n, settled)| Some((n, settled.err()?))).collect()
    }

    fn settle_behind(&self, write: &mut PreparedWrite, earlier: &mut EarlierGrowth) -> Result<()> {
        let no = write.entry.no;
        // Many of one record bring the same.
        let known = |growth: &Growth| earlier.known.contains(&growth_key(no, growth));
        if write.growth.as_ref().is_none_or(known) {
            return Ok(());
        }
        if let Some(entry) = earlier.grown.get(&no) {
            self.read_again(write, entry)?;
        }
        let Some(growth) = &write.growth else { return Ok(()) };
        let entry = earlier.grown.get(&no).unwrap_or(&write.entry);
        let next = entry.grown(growth.0.as_deref(), &growth.1)?;
        earlier.known.insert(growth_key(no, growth));
        earlier.grown.insert(no, Arc::new(next));
        Ok(())
    }

    /// Reads the document as the mapping of this entry says.
    fn read_again(&self, write: &mut PreparedWrite, entry: &IndexEntry) -> Result<()> {
        assert_eq!(
            write.entry.no, entry.no,
            "3: a document is read again by the mapping of its own index"
        );
        let Some(put) = &mut write.put else { return Ok(()) };
        let newest = NewestDocuments::of(self);
        let parents = |at: &DocAddress| newest.parent(entry, at);
        let mut routing = put.routing.as_deref().map(str::to_owned);
        let source = Source(put.source.clone());
        let _reading = crate::reading_memory::book(self.env.breakers(), &source.0)?;
        let read = Accepted::read(entry, &write.at, &source, &mut routing, put.times, Judge::Fully, &parents)?;
        put.mapping = read.mapping;
        put.parsed = Mutex::default();
        write.growth = read.growth;
        Ok(())
    }
}

/// Grows the mappings by the fields that the documents of a record bring. Gives the grown entries, and the delta of each
/// growth with the number of its index.
pub(crate) fn grow(all: &mut [CommitItem]) -> Result<(Grown, Vec<(u32, Value)>)> {
    let (mut grown, mut deltas) = (Grown::new(), Vec::new());
    let mut known: HashSet<GrowthKey> = HashSet::new();
    for CommitItem { write, .. } in all {
        let Some(growth) = &write.growth else { continue };
        let mut entry = grown.get(&write.entry.no).unwrap_or(&write.entry).clone();
        let is_new = known.insert(growth_key(entry.no, growth));
        let (doc_type, growth) = growth;
        if is_new {
            let next = Arc::new(entry.grown(doc_type.as_deref(), growth)?);
            assert!(
                next.no == entry.no && next.revision > entry.revision,
                "3: a mapping that grows is a later revision of the same index"
            );
            deltas.push((entry.no, growth_delta(&entry, &next, doc_type.as_deref(), growth)));
            grown.insert(entry.no, next.clone());
            entry = next;
        }
        if let Some(put) = &mut write.put {
            put.mapping = entry.mapping_for(doc_type.as_deref())?;
        }
    }
    Ok((grown, deltas))
}
