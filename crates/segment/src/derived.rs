//! Values that readers derive from a segment or a view: parents of children, keys of joins, columns made of
//! terms, numbers of strings. Each is worked out once and kept with what it was made of, all of them within one budget.
//!
//! The clock algorithm evicts entries that were not read since the hand came by last. A reader that
//! holds what leaves goes on with it; the next one works it out anew, so that an answer never depends on it.
//!
//! Not here: what was read and is kept by key (`cache`), which takes copies, not the place of a segment.

use crate::cache_figures::CacheFigures;
use model::Result;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Bytes of an entry beside its value and its name.
const ENTRY_BYTES: usize = 160;
/// Places of the ring are looked through for owners that are gone when it has so many, or twice those that were left.
const SWEEP_AT: usize = 256;

/// How much memory a value takes, in bytes, in which what lies in segments' files is not counted.
pub trait Footprint: Any + Send + Sync {
    /// Bytes outside the value itself.
    fn heap_bytes(&self) -> usize;
}

impl Footprint for u64 {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl<T: Copy + Send + Sync + 'static> Footprint for Option<T> {
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// A column of a segment's files: it reads them.
impl Footprint for tantivy::columnar::Column<u64> {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl<T: Copy + Send + Sync + 'static> Footprint for Vec<T> {
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

impl<K: Copy + Send + Sync + 'static, V: Copy + Send + Sync + 'static, S: Send + Sync + 'static> Footprint for HashMap<K, V, S> {
    fn heap_bytes(&self) -> usize {
        // A byte of control beside each place.
        self.capacity() * 8 / 7 * (size_of::<(K, V)>() + 1)
    }
}

/// The budget of everything derived in a store.
#[derive(Debug)]
pub struct Budget {
    max_bytes: usize,
    used_bytes: AtomicUsize,
    ring: Mutex<Ring>,
}

/// The values of one index: they share the budget, and those that are fielddata are counted as its own.
#[derive(Debug)]
pub struct Account {
    budget: Arc<Budget>,
    figures: CacheFigures,
}

impl Account {
    /// The counters of the index.
    pub fn figures(&self) -> &CacheFigures {
        &self.figures
    }
}

#[derive(Debug)]
struct Ring {
    places: VecDeque<(Weak<Entries>, Arc<str>)>,
    sweep_at: usize,
}

/// Values by name. Two threads may work one out at the same time; the first to finish is kept.
pub struct Derived(Arc<Entries>);

struct Entries {
    by_name: Mutex<FxHashMap<Arc<str>, Entry>>,
    account: Arc<Account>,
}

struct Entry {
    value: Arc<dyn Any + Send + Sync>,
    bytes: usize,
    used: bool,
    kind: Kind,
}

/// How a value is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// As fielddata of its index: global ordinals, columns made of terms.
    Fielddata,
    /// In the budget alone: the reference has no such figure.
    Other,
}

impl Budget {
    /// For values of so many bytes in all.
    pub fn new(max_bytes: usize) -> Arc<Budget> {
        Arc::new(Budget {
            max_bytes,
            used_bytes: AtomicUsize::new(0),
            ring: Mutex::new(Ring {
                places: VecDeque::new(),
                sweep_at: SWEEP_AT,
            }),
        })
    }

    /// An index of which nothing is kept yet.
    pub fn account(self: &Arc<Budget>) -> Arc<Account> {
        Arc::new(Account {
            budget: self.clone(),
            figures: CacheFigures::default(),
        })
    }

    /// Bytes of what is kept now.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Drops what was not asked for lately, then the rest, until all take so many bytes at most; says how many bytes went.
    pub fn shrink_to(&self, max_bytes: usize) -> usize {
        let mut ring = self.ring.lock();
        let before = self.used_bytes();
        self.drop_to(&mut ring, max_bytes);
        before.saturating_sub(self.used_bytes())
    }

    fn drop_to(&self, ring: &mut Ring, max_bytes: usize) {
        while self.used_bytes() > max_bytes {
            let Some((owner, name)) = ring.places.pop_front() else { break };
            let Some(entries) = owner.upgrade() else { continue };
            if entries.drop_unless_used(&name) {
                ring.places.push_back((owner, name));
            }
        }
    }

    /// Takes in a new entry, whose bytes are counted already, and drops others until all fit; itself, if it is too
    /// large for all of it.
    fn admit(&self, owner: &Arc<Entries>, name: Arc<str>) {
        let mut ring = self.ring.lock();
        if ring.places.len() >= ring.sweep_at {
            ring.places.retain(|(owner, _)| owner.strong_count() > 0);
            ring.sweep_at = SWEEP_AT.max(2 * ring.places.len());
        }
        ring.places.push_back((Arc::downgrade(owner), name));
        self.drop_to(&mut ring, self.max_bytes);
    }
}

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entries({})", self.by_name.lock().len())
    }
}

impl Entries {
    /// Whether it was asked for since the last call, and stays.
    fn drop_unless_used(&self, name: &str) -> bool {
        let mut all = self.by_name.lock();
        let Some(entry) = all.get_mut(name) else { return false };
        if std::mem::take(&mut entry.used) {
            return true;
        }
        let gone = all.remove(name);
        drop(all);
        if let Some(gone) = gone {
            let before = self.account.budget.used_bytes.fetch_sub(gone.bytes, Ordering::Relaxed);
            debug_assert!(
                before >= gone.bytes,
                "search.md S18: [{}] of [{before}] derived bytes leave",
                gone.bytes
            );
            if gone.kind == Kind::Fielddata {
                self.account.figures.evict(gone.bytes);
            }
        }
        false
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        for entry in self.by_name.get_mut().values() {
            let before = self.account.budget.used_bytes.fetch_sub(entry.bytes, Ordering::Relaxed);
            debug_assert!(
                before >= entry.bytes,
                "search.md S20: [{}] of [{before}] derived bytes leave",
                entry.bytes
            );
            if entry.kind == Kind::Fielddata {
                self.account.figures.invalidate(entry.bytes);
            }
        }
    }
}

impl Derived {
    /// Nothing yet.
    pub fn new(account: &Arc<Account>) -> Derived {
        Derived(Arc::new(Entries {
            by_name: Mutex::default(),
            account: account.clone(),
        }))
    }

    /// Nothing yet, for the same account.
    #[must_use]
    pub fn anew(&self) -> Derived {
        Derived::new(&self.0.account)
    }

    /// The value of a name, which has one type.
    ///
    /// # Errors
    /// `build` fails.
    pub fn once<T: Footprint>(&self, name: &str, build: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.once_as(Kind::Other, name, build)
    }

    /// The same, counted as fielddata of the index from here on.
    ///
    /// # Errors
    /// `build` fails.
    pub fn once_as_fielddata<T: Footprint>(&self, name: &str, build: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.once_as(Kind::Fielddata, name, build)
    }

    fn once_as<T: Footprint>(&self, kind: Kind, name: &str, build: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        if let Some(found) = self.get(kind, name) {
            return Ok(found);
        }
        let built = Arc::new(build()?);
        let bytes = built.heap_bytes() + size_of::<T>() + name.len() + ENTRY_BYTES;
        let key: Arc<str> = name.into();
        {
            let mut all = self.0.by_name.lock();
            // Two threads made it: the first to finish is kept (search.md S18).
            if let Some(first) = all.get(name) {
                return Ok(first.value.clone().downcast().unwrap_or(built));
            }
            self.0.account.budget.used_bytes.fetch_add(bytes, Ordering::Relaxed);
            if kind == Kind::Fielddata {
                self.0.account.figures.add(bytes);
            }
            let entry = Entry {
                value: built.clone(),
                bytes,
                // Whoever is asked for again proves it then: what is asked for once does not drive out the others.
                used: false,
                kind,
            };
            all.insert(key.clone(), entry);
        }
        self.0.account.budget.admit(&self.0, key);
        Ok(built)
    }

    fn get<T: Footprint>(&self, kind: Kind, name: &str) -> Option<Arc<T>> {
        let mut all = self.0.by_name.lock();
        let entry = all.get_mut(name)?;
        entry.used = true;
        if kind == Kind::Fielddata && entry.kind == Kind::Other {
            entry.kind = kind;
            self.0.account.figures.add(entry.bytes);
        }
        entry.value.clone().downcast().ok()
    }

    /// The value of a name, if it is kept.
    pub fn find<T: Footprint>(&self, name: &str) -> Option<Arc<T>> {
        self.get(Kind::Other, name)
    }

    /// The names that begin so.
    pub fn names(&self, beginning: &str) -> Vec<String> {
        let all = self.0.by_name.lock();
        let found = all.keys().filter(|name| name.starts_with(beginning));
        found.map(|name| name.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(value: &[u64], name: &str) -> usize {
        value.len() * 8 + size_of::<Vec<u64>>() + name.len() + ENTRY_BYTES
    }

    /// Asks for a vector of 100 numbers; whether it had to be made.
    fn ask(derived: &Derived, name: &str) -> bool {
        let mut made = false;
        let value = derived.once_as_fielddata(name, || {
            made = true;
            Ok(vec![7u64; 100])
        });
        assert_eq!(value.unwrap().len(), 100);
        made
    }

    #[test]
    fn each_is_made_once_and_leaves_with_its_owner() {
        let budget = Budget::new(1 << 20);
        let account = budget.account();
        let derived = Derived::new(&account);
        assert!(ask(&derived, "a"));
        assert!(!ask(&derived, "a"));
        assert_eq!(budget.used_bytes(), bytes_of(&[7; 100], "a"));
        assert_eq!(derived.names("a"), ["a"]);
        assert_eq!(account.figures().stats().bytes, bytes_of(&[7; 100], "a") as u64);
        drop(derived);
        assert_eq!(budget.used_bytes(), 0);
        let stats = account.figures().stats();
        assert_eq!((stats.added, stats.entries, stats.evictions, stats.bytes), (1, 0, 0, 0));
    }

    #[test]
    fn fielddata_is_what_was_asked_for_as_such() {
        let account = Budget::new(1 << 20).account();
        let derived = Derived::new(&account);
        let entries = || account.figures().stats().entries;
        let plain = derived.once("a", || Ok(1u64)).unwrap();
        assert_eq!((*plain, entries()), (1, 0));
        for _ in 0..2 {
            let same = derived.once_as_fielddata("a", || Ok(2u64)).unwrap();
            assert_eq!((*same, entries()), (1, 1));
        }
        drop(derived);
        assert_eq!(entries(), 0);
    }

    #[test]
    fn the_budget_holds_and_what_is_asked_for_stays() {
        let one = bytes_of(&[7; 100], "0");
        let budget = Budget::new(3 * one);
        let accounts = [budget.account(), budget.account()];
        let (first, second) = (Derived::new(&accounts[0]), Derived::new(&accounts[1]));
        for name in ["0", "1"] {
            ask(&first, name);
        }
        ask(&second, "2");
        assert_eq!(budget.used_bytes(), 3 * one);
        for round in 0..50 {
            assert!(ask(&second, &(round % 7 + 3).to_string()));
            assert!(budget.used_bytes() <= 3 * one);
            assert!(
                round == 0 || !ask(&first, "0"),
                "asked for each time, and gone in round {round}"
            );
            ask(&first, "0");
        }
        let evictions = accounts.map(|account| account.figures().stats().evictions);
        assert!(evictions[1] > 40, "{evictions:?}");
    }

    #[test]
    fn what_is_too_large_is_used_and_not_kept() {
        let budget = Budget::new(100);
        let derived = Derived::new(&budget.account());
        assert!(ask(&derived, "a"));
        assert_eq!(budget.used_bytes(), 0);
        assert!(ask(&derived, "a"));
    }

    #[test]
    fn owners_that_are_gone_leave_the_ring() {
        let budget = Budget::new(1 << 20);
        for _ in 0..10 * SWEEP_AT {
            ask(&Derived::new(&budget.account()), "a");
        }
        assert!(budget.ring.lock().places.len() <= SWEEP_AT);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn threads_share_one_budget() {
        let budget = Budget::new(20 * bytes_of(&[7; 100], "00"));
        let owners: Vec<Derived> = (0..4).map(|_| Derived::new(&budget.account())).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let owners = &owners;
                scope.spawn(move || {
                    for i in 0..2_000 {
                        ask(&owners[(i + thread) % 4], &(i * 7 % 13).to_string());
                    }
                });
            }
        });
        assert!(budget.used_bytes() <= budget.max_bytes);
        drop(owners);
        assert_eq!(budget.used_bytes(), 0);
    }
}
