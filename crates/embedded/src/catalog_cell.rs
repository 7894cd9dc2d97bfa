//! The catalog of now, the lock of its alterations, and the catalogs that are not durable yet.
//!
//! An answer about a name waits for an alteration only if the alteration changes what that name means.
//!
//! Not here: working an alteration out (`catalog::alter`), logging it (`apply_alteration`).

use crate::blocking::lock_patiently;
use crate::catalog::{Catalog, IndexEntry};
use crate::lock_order::{LockRank, Mutex, MutexGuard, is_held};
use arc_swap::{ArcSwap, Guard};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The catalog of an open folder.
pub(crate) struct CatalogCell {
    newest: ArcSwap<Catalog>,
    /// Alterations, one after the other.
    altering: Mutex<()>,
    /// The end of the newest alteration's record: answers that rest on the catalog wait for it.
    altered_at: AtomicU64,
    /// The newest catalog that is durable, then those that are not yet, each with the end of its record.
    undurable: Mutex<VecDeque<(u64, Arc<Catalog>)>>,
}

impl CatalogCell {
    pub(crate) fn new(catalog: Catalog) -> CatalogCell {
        CatalogCell {
            newest: ArcSwap::from_pointee(catalog),
            altering: Mutex::new(LockRank::Catalog, ()),
            altered_at: AtomicU64::new(0),
            undurable: Mutex::default(),
        }
    }
    /// The catalog of now.
    pub(crate) fn now(&self) -> Arc<Catalog> {
        self.newest.load_full()
    }
    /// The catalog of now, for a short look.
    pub(crate) fn load(&self) -> Guard<Arc<Catalog>> {
        self.newest.load()
    }
    /// The entry of an index.
    pub(crate) fn entry(&self, no: u32) -> Option<Arc<IndexEntry>> {
        self.newest.load().by_no(no).cloned()
    }
    /// Nobody else alters the catalog while the guard lives.
    pub(crate) fn alter_alone(&self) -> MutexGuard<'_, ()> {
        lock_patiently(&self.altering)
    }
    /// The end of the record of the newest alteration.
    pub(crate) fn alteration_end(&self) -> u64 {
        self.altered_at.load(Ordering::Acquire)
    }
    /// Shows the next catalog, of a record that ends at `end`. The caller holds the sequencer, so that catalogs follow the
    /// log.
    pub(crate) fn show(&self, next: Catalog, end: u64, durable: u64) {
        debug_assert!(
            is_held(LockRank::Catalog) && is_held(LockRank::Sequencer),
            "1.1: a catalog is shown in the order of its records"
        );
        let next = Arc::new(next);
        let mut undurable = self.undurable.lock();
        if undurable.is_empty() {
            undurable.push_back((0, self.newest.load_full()));
        }
        assert!(
            undurable.back().is_none_or(|(last, _)| *last < end),
            "1.1: the catalog of a record that ends at {end} comes after a later one"
        );
        undurable.push_back((end, next.clone()));
        forget_older(&mut undurable, durable);
        drop(undurable);
        // Before the catalog: who sees it knows what to wait for.
        let before = self.altered_at.fetch_max(end, Ordering::AcqRel);
        assert!(
            before < end,
            "1.1: the catalog was altered at {before}, and is altered again at {end}"
        );
        self.newest.store(next);
    }
    /// Shows a catalog that was replayed: it is durable.
    pub(crate) fn show_replayed(&self, next: Catalog) {
        self.newest.store(Arc::new(next));
    }
    /// The position that an answer about these names or patterns waits for, as far as the catalog is concerned; 0: none.
    pub(crate) fn rests_on<'n>(&self, names: impl IntoIterator<Item = &'n str>, durable: impl Fn() -> u64) -> u64 {
        let altered = self.alteration_end();
        if altered <= durable() {
            return 0;
        }
        let mut undurable = self.undurable.lock();
        forget_older(&mut undurable, durable());
        let (Some((_, oldest)), Some((end, newest))) = (undurable.front().cloned(), undurable.back().cloned()) else {
            return 0;
        };
        drop(undurable);
        let differs = names.into_iter().any(|name| !means_the_same(&oldest, &newest, name));
        if differs { end } else { 0 }
    }
}

fn forget_older(catalogs: &mut VecDeque<(u64, Arc<Catalog>)>, durable: u64) {
    debug_assert!(
        catalogs
            .iter()
            .zip(catalogs.iter().skip(1))
            .all(|((one, _), (next, _))| one < next),
        "1.1: catalogs wait for their records in the order of the log"
    );
    while catalogs.get(1).is_some_and(|(end, _)| *end <= durable) {
        catalogs.pop_front();
    }
}

/// Does a name or pattern mean the same indices, in the same state, in both?
fn means_the_same(one: &Catalog, other: &Catalog, name: &str) -> bool {
    let (mut left, mut right) = (meaning(one, name), meaning(other, name));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(left), Some(right)) if is_same(left, right) => {}
            _ => return false,
        }
    }
}

/// A pattern may mean any index; a name its index or those of its alias.
fn meaning<'c>(catalog: &'c Catalog, name: &str) -> impl Iterator<Item = &'c Arc<IndexEntry>> {
    let is_pattern = name.is_empty() || name == "_all" || name.contains(['*', '<', ',']) || name.starts_with('-');
    let name = name.to_owned();
    catalog
        .indices
        .values()
        .filter(move |entry| is_pattern || entry.name.as_str() == name || entry.aliases.contains_key(&name))
}

/// For whoever reads or writes documents.
fn is_same(one: &Arc<IndexEntry>, other: &Arc<IndexEntry>) -> bool {
    let aliases = |entry: &IndexEntry| -> Value { entry.aliases.clone().into() };
    Arc::ptr_eq(one, other)
        || one.no == other.no
            && one.open == other.open
            && (Arc::ptr_eq(&one.settings, &other.settings) || one.settings == other.settings)
            && aliases(one) == aliases(other)
}
