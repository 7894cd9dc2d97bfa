//! A cache within a budget of bytes: stored documents, sets of documents.
//!
//! Keys name a segment, which is never used twice in a folder, and something in it; what they stand for never changes,
//! so nothing is ever taken back. What belongs to segments that are gone makes room when it is wanted. What leaves is
//! chosen by the clock algorithm: whoever was not asked for since the hand came by last.
//!
//! Not here: what the values mean.

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tantivy::DocId;

/// Parts with a lock of their own, where values are small.
const PARTS: usize = 8;
/// Bytes of an entry beside its value.
pub(crate) const ENTRY_BYTES: usize = 96;
/// A value may take this part of a part, not more.
const LARGEST: usize = 8;

/// Values by key, the least recently used of which make room for others.
#[derive(Debug)]
pub struct Cache<K, V> {
    parts: Vec<Mutex<CacheShard<K, V>>>,
    part_max_bytes: usize,
}

/// The stored bytes of documents, by segment and number.
pub type DocumentCache = Cache<(u64, DocId), Arc<[u8]>>;

#[derive(Debug)]
struct CacheShard<K, V> {
    places: FxHashMap<K, usize>,
    slots: Vec<CacheSlot<K, V>>,
    hand: usize,
    bytes: usize,
}

#[derive(Debug)]
struct CacheSlot<K, V> {
    key: K,
    value: V,
    bytes: usize,
    used: bool,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// Empty, for values of so many bytes in all.
    pub fn new(max_bytes: usize) -> Cache<K, V> {
        Cache::in_parts(max_bytes, PARTS)
    }

    /// The same with one lock, so that a value may take an eighth of all.
    pub fn of_large_values(max_bytes: usize) -> Cache<K, V> {
        Cache::in_parts(max_bytes, 1)
    }

    fn in_parts(max_bytes: usize, parts: usize) -> Cache<K, V> {
        let part = || {
            Mutex::new(CacheShard {
                places: FxHashMap::default(),
                slots: Vec::new(),
                hand: 0,
                bytes: 0,
            })
        };
        Cache {
            parts: (0..parts).map(|_| part()).collect(),
            part_max_bytes: max_bytes / parts,
        }
    }

    fn part(&self, key: &K) -> &Mutex<CacheShard<K, V>> {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        // The highest bits: the maps use the others.
        &self.parts[(hasher.finish() >> 61) as usize % self.parts.len()]
    }

    /// Bytes of what is kept.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.lock().bytes as u64).sum()
    }

    /// Drops values until all take so many bytes at most; says how many bytes went.
    pub fn shrink_to(&self, max_bytes: usize) -> usize {
        let each = max_bytes / self.parts.len();
        let shrink = |part: &Mutex<CacheShard<K, V>>| {
            let mut part = part.lock();
            let before = part.bytes;
            while part.bytes > each {
                part.drop_one();
            }
            if part.slots.is_empty() {
                debug_assert_eq!(part.bytes, 0, "search.md S18: an empty cache counts no bytes");
                // Their places are bytes, too.
                (part.slots, part.places) = (Vec::new(), FxHashMap::default());
            }
            before - part.bytes
        };
        self.parts.iter().map(shrink).sum()
    }

    /// The value of a key, if it is there.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut part = self.part(key).lock();
        let place = *part.places.get(key)?;
        let slot = part.slots.get_mut(place)?;
        slot.used = true;
        Some(slot.value.clone())
    }

    /// Whether a value of so many bytes is kept at all.
    pub fn fits(&self, bytes: usize) -> bool {
        bytes + ENTRY_BYTES <= self.part_max_bytes / LARGEST
    }

    /// Keeps a value of so many bytes, unless it would take the room of many. What is there already stays.
    pub fn put(&self, key: K, bytes: usize, value: impl FnOnce() -> V) {
        let size = bytes + ENTRY_BYTES;
        if !self.fits(bytes) {
            return;
        }
        let mut part = self.part(&key).lock();
        if part.places.contains_key(&key) {
            return;
        }
        while part.bytes + size > self.part_max_bytes {
            part.drop_one();
        }
        part.bytes += size;
        let place = part.slots.len();
        part.places.insert(key.clone(), place);
        part.slots.push(CacheSlot {
            key,
            value: value(),
            bytes: size,
            used: false,
        });
        debug_assert!(
            part.bytes <= self.part_max_bytes,
            "a part stays within its share of the budget"
        );
    }

    /// The same, but in place of what is there.
    pub fn replace(&self, key: K, bytes: usize, value: impl FnOnce() -> V) {
        {
            let mut part = self.part(&key).lock();
            if let Some(place) = part.places.get(&key).copied() {
                part.take_out(place);
            }
        }
        self.put(key, bytes, value);
    }
}

impl<K: Hash + Eq + Clone, V> CacheShard<K, V> {
    /// Drops the first entry under the hand that was not used since it came by. There is one.
    fn drop_one(&mut self) {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &mut self.slots[self.hand];
            if std::mem::take(&mut slot.used) {
                self.hand += 1;
                continue;
            }
            return self.take_out(self.hand);
        }
    }

    /// Takes the entry out of a slot; the last one comes there.
    fn take_out(&mut self, place: usize) {
        let gone = self.slots.swap_remove(place);
        self.places.remove(&gone.key);
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.key.clone(), place);
        }
        debug_assert_eq!(self.places.len(), self.slots.len(), "each slot is found by its key");
        debug_assert!(
            self.bytes >= gone.bytes,
            "[{}] of [{}] cached bytes leave",
            gone.bytes,
            self.bytes
        );
        self.bytes -= gone.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &DocumentCache, segment: u64, doc: DocId, bytes: &[u8]) {
        cache.put((segment, doc), bytes.len(), || bytes.into());
    }

    #[test]
    fn what_is_used_stays() {
        let each = 1000 - ENTRY_BYTES;
        let cache = DocumentCache::new(20_000 * PARTS);
        let bytes = |doc: DocId| vec![doc as u8; each];
        for doc in 0..2000 {
            put(&cache, 1, doc, &bytes(doc));
            assert!(
                cache.get(&(1, 0)).is_some(),
                "asked for each time: it stays while {doc} comes"
            );
        }
        let there: Vec<DocId> = (0..2000).filter(|doc| cache.get(&(1, *doc)).is_some()).collect();
        assert_eq!(there.len(), 20 * PARTS, "as many as there is room for: {there:?}");
        for doc in there {
            assert_eq!(*cache.get(&(1, doc)).unwrap(), *bytes(doc), "{doc}");
            assert!(cache.get(&(2, doc)).is_none(), "another segment");
        }
        put(&cache, 3, 8, &vec![0; 20_000]);
        assert!(cache.get(&(3, 8)).is_none(), "too large to keep");
    }

    #[test]
    fn what_is_replaced_weighs_once() {
        let cache = DocumentCache::new(4000 * PARTS);
        for n in 0..100 {
            let bytes = vec![n; 100 + usize::from(n)];
            cache.replace((1, 1), bytes.len(), || bytes.as_slice().into());
            assert_eq!(*cache.get(&(1, 1)).unwrap(), *bytes, "the newest");
        }
        put(&cache, 1, 1, b"x");
        assert_eq!(
            cache.get(&(1, 1)).unwrap().len(),
            199,
            "what is put stays behind what is there"
        );
        let held: usize = cache.parts.iter().map(|part| part.lock().bytes).sum();
        assert_eq!(held, 199 + ENTRY_BYTES);
    }

    #[test]
    fn what_is_given_up_is_gone() {
        let cache = DocumentCache::new(10_000 * PARTS);
        for doc in 0..200 {
            put(&cache, 1, doc, &[1; 100]);
        }
        let before = cache.bytes() as usize;
        let gone = cache.shrink_to(before / 2);
        assert_eq!(cache.bytes() as usize, before - gone);
        assert!(gone >= before / 2 && gone < before, "{gone} of {before}");
        assert_eq!(cache.shrink_to(0), before - gone);
        assert!((0..200).all(|doc| cache.get(&(1, doc)).is_none()));
        put(&cache, 1, 7, b"x");
        assert!(cache.get(&(1, 7)).is_some(), "it keeps others afterwards");
    }

    #[test]
    fn a_large_value_takes_an_eighth_of_all() {
        let is_kept = |cache: DocumentCache, bytes: usize| {
            put(&cache, 1, 1, &vec![0; bytes]);
            cache.get(&(1, 1)).is_some()
        };
        let largest = 80_000 / LARGEST - ENTRY_BYTES;
        assert!(is_kept(DocumentCache::of_large_values(80_000), largest));
        assert!(!is_kept(DocumentCache::of_large_values(80_000), largest + 1));
        assert!(
            !is_kept(DocumentCache::new(80_000), largest),
            "its part is an eighth as large"
        );
    }

    #[test]
    fn no_room_at_all() {
        let cache = DocumentCache::new(0);
        put(&cache, 1, 1, b"x");
        assert!(cache.get(&(1, 1)).is_none());
    }
}
