//! Reads by id: one document, or several as they were at one instant.
//!
//! Several are read without a lock and looked at again: stamps only grow, so documents that all have the same stamp in two
//! passes had it at every instant between the passes. Between them the reader takes the sequencer's lock once, so that a
//! record that was being placed document by document is either placed whole or not at all. (Afek et al., "Atomic snapshots
//! of shared memory", 1993: a clean double collect.) What has moved is read again, the last time under that lock, where a
//! look costs a lookup in the version map for each document and no record is placed.
//!
//! One document whose newest state is on its way to the disk is waited for, but not longer than `durability` says: then the
//! newest durable state is the answer. It holds every acknowledged write (write-path.md 1.3), because those are durable.
//!
//! Not here: what one document's newest state is (`evaluate`), waiting for the disk (`lib`).

use crate::catalog::{Catalog, IndexEntry};
use crate::document_key::Key;
use crate::evaluate::visible;
use crate::store::Store;
use engine::{Document, Found, Read};
use model::{DocAddress, Result, blocks, settings};
use segment::searchable::{IndexView, Searchable};
use segment::stored_document::{load_document, locate};
use std::sync::Arc;
use std::time::Instant;

/// How a document is looked for.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Look {
    /// Its newest state.
    Once,
    /// The same; it may be asked whether it is still as it was found.
    Again,
    /// Its newest state that is durable.
    Durable,
}

/// Passes without the sequencer's lock; after them the reader holds it.
const FREE_PASSES: usize = 4;

/// One document that was read.
pub(crate) struct Looked {
    /// The document as plain or other readers see it, as was asked.
    pub(crate) document: Option<Document>,
    /// Durable from here on, also where there is none.
    pub(crate) position: u64,
    /// Where it was found; `None`: among what searches see, or nobody asks again.
    place: Option<Lookup>,
}

/// Where a document was looked for, and what was there.
struct Lookup {
    entry: Arc<IndexEntry>,
    at: DocAddress,
    uid: String,
    key: Key,
    found: Found,
    /// The built set at that time or before it.
    built: Arc<IndexView>,
}

impl Store {
    /// The newest state of one document; `searchable_only`: what searches see of it.
    pub(crate) fn read_newest(&self, read: &Read) -> Result<Looked> {
        self.look_in(&self.catalog.now(), &self.publication.load(), read, Look::Once)
    }

    /// The newest durable state of one document. `None`: there may be a newer one that is acknowledged, because writes of its
    /// index are acknowledged before they are durable, or were until an alteration that is not durable.
    pub(crate) fn read_durable(&self, read: &Read) -> Result<Option<Looked>> {
        let catalog = self.catalog.now();
        let entry = catalog.read_index(read.at.index.as_str(), self.env.wall_ms())?;
        let is_async = settings::text(&entry.settings, settings::TRANSLOG_DURABILITY) == "async";
        if is_async || self.rests_on([read.at.index.as_str()]) > 0 {
            return Ok(None);
        }
        self.look_in(&catalog, &self.publication.load(), read, Look::Durable)
            .map(Some)
    }

    fn look_in(&self, catalog: &Catalog, searchable: &Searchable, read: &Read, look: Look) -> Result<Looked> {
        let entry = catalog.read_index(read.at.index.as_str(), self.env.wall_ms())?;
        if !entry.open {
            return Err(engine::catalog::index_closed(&entry.name, &entry.uuid));
        }
        entry.check_routing(&read.at.id, read.routing.as_deref())?;
        blocks::check(&entry.settings, entry.name.as_str(), blocks::Level::Read)?;
        let at = DocAddress {
            index: entry.name.clone(),
            id: entry.identity(&read.at.id)?,
        };
        let uid = at.id.uid();
        let state = self.state(&entry)?;
        let begun = Instant::now();
        let looked = if read.searchable_only {
            let document = match searchable.indices.get(&entry.no) {
                None => None,
                Some(set) => locate(set, &uid)?
                    .map(|location| load_document(set, &location, &at))
                    .transpose()?,
            };
            Looked {
                document,
                position: 0,
                place: None,
            }
        } else {
            let built = (look == Look::Again).then(|| state.built_view());
            let key = self.versions.key(entry.no, &uid);
            let here = match look {
                Look::Once | Look::Again => self.newest(&entry, &at, &uid, key)?,
                Look::Durable => self.newest_durable(&entry, &at, &uid, key)?,
            };
            let place = built.map(|built| Lookup {
                found: here.found,
                uid: uid.to_string(),
                entry: entry.clone(),
                at: at.clone(),
                key,
                built,
            });
            Looked {
                document: here.document,
                position: here.position,
                place,
            }
        };
        debug_assert!(
            looked.document.as_ref().is_none_or(|document| document.at.id == at.id),
            "a document that is found by the hash of an id has that id: {at:?}"
        );
        let document = looked.document.filter(|document| visible(document, read.see));
        if read.counted {
            state.counts().read(document.is_some(), begun.elapsed());
        }
        Ok(Looked { document, ..looked })
    }

    /// Documents as they were at one instant, in the order asked for. Fewer than asked for: the sources of these have more
    /// than `bytes_max` bytes.
    pub(crate) fn read_newest_together(&self, reads: &[Read], bytes_max: usize) -> Vec<Result<Looked>> {
        let mut catalog = self.catalog.now();
        let mut pass = self.look_at_each(&catalog, reads, bytes_max);
        debug_assert!(
            !pass.is_empty() || reads.is_empty(),
            "a reader that asks again for what is left comes to an end"
        );
        if pass.len() < 2 {
            return pass;
        }
        for _ in 0..FREE_PASSES {
            drop(self.write_path.sequence());
            if !self.look_again(&mut catalog, reads, bytes_max, &mut pass) {
                return pass;
            }
        }
        let _nothing_is_placed = self.write_path.sequence();
        self.look_again(&mut catalog, reads, bytes_max, &mut pass);
        pass
    }

    fn look_at_each(&self, catalog: &Catalog, reads: &[Read], bytes_max: usize) -> Vec<Result<Looked>> {
        // One flip shows all of a record: of one value everything is of one instant.
        let searchable = self.publication.now();
        let (mut out, mut bytes) = (Vec::with_capacity(reads.len()), 0);
        for read in reads {
            if bytes > bytes_max {
                break;
            }
            let looked = self.look_in(catalog, &searchable, read, Look::Again);
            let source = looked.as_ref().ok().and_then(|looked| looked.document.as_ref());
            bytes += source.map_or(0, |document| document.source.0.len());
            out.push(looked);
        }
        out
    }

    /// Reads again what is not as it was found; true if there was something.
    fn look_again(&self, catalog: &mut Arc<Catalog>, reads: &[Read], bytes_max: usize, pass: &mut Vec<Result<Looked>>) -> bool {
        let now = self.catalog.now();
        if !Arc::ptr_eq(catalog, &now) {
            // A name may mean another index, and one that was missing may be there.
            *catalog = now;
            *pass = self.look_at_each(catalog, reads, bytes_max);
            return true;
        }
        let mut moved = false;
        for (read, looked) in reads.iter().zip(pass) {
            let is_as_found = match looked {
                Ok(Looked { place: Some(place), .. }) => self.is_as_found(place).unwrap_or(false),
                _ => true,
            };
            if !is_as_found {
                *looked = self.look_in(catalog, &self.publication.load(), read, Look::Again);
                moved = true;
            }
        }
        moved
    }

    /// Is nothing newer there than what was found?
    fn is_as_found(&self, place: &Lookup) -> Result<bool> {
        if let Some(newest) = self.versions.get(place.key) {
            return Ok(place.found.stamp() == Some(newest.stamp()));
        }
        let built = self.state(&place.entry)?.built_view();
        if Arc::ptr_eq(&built, &place.built) {
            // Its entry would still be in the map if it had been written since.
            return Ok(!matches!(place.found, Found::Deleted(_)));
        }
        // It may have come and gone in between.
        let Found::Here(stamp) = place.found else {
            return Ok(false);
        };
        let document = crate::get_cache::read(self.caches.by_id(), &built, None, &place.at, (&place.uid, place.key))?;
        Ok(document.is_some_and(|document| document.stamp == stamp))
    }
}
