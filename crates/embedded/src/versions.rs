//! The version map: the newest state of documents that no segment shows yet, and of deleted ones.
//!
//! Invariant: an entry leaves after the built set with its effect is stored, so that a lookup that misses here
//! and then loads the set finds it there (write-path.md 1.5).
//!
//! An entry also remembers the states before it, back to the newest that was durable when it came. A read that does not
//! wait for the log is answered with the newest of them that is durable.
//!
//! Not here: who locks documents against each other (the stripes), segments.

use crate::document_key::{DocumentKeys, Key};
use crate::lock_order::Mutex;
use crate::pending::{Kind, MAP_ENTRY_BYTES, PendingOp};
use model::Stamp;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

const SHARDS: usize = 64;
/// A table that has just grown is half empty.
const _: () = assert!(
    2 * size_of::<(Key, VersionEntry)>() <= MAP_ENTRY_BYTES,
    "the map's part is counted"
);
/// `Deleted` entries kept in all; beyond, the oldest go.
const TOMBSTONES_MAX: u64 = 1 << 20;

/// The newest state of a document.
#[derive(Clone, Debug)]
pub(crate) enum Newest {
    /// Pending.
    Put(Arc<PendingOp>),
    /// Deleted at a monotonic time (in ms); pending or a tombstone.
    Deleted {
        /// Its stamp.
        stamp: Stamp,
        /// Durable from here on.
        position: u64,
        /// When it was built, if it was.
        since_ms: Option<u64>,
    },
}

impl Newest {
    /// The state that a pending operation leaves.
    pub(crate) fn of(op: &Arc<PendingOp>) -> Newest {
        match op.kind {
            Kind::Put(_) => Newest::Put(op.clone()),
            Kind::Delete => Newest::Deleted {
                stamp: op.stamp,
                position: op.position,
                since_ms: None,
            },
        }
    }
    /// Its stamp.
    pub(crate) fn stamp(&self) -> Stamp {
        match self {
            Newest::Put(op) => op.stamp,
            Newest::Deleted { stamp, .. } => *stamp,
        }
    }

    /// Durable from here on; the end of its record.
    fn position(&self) -> u64 {
        match self {
            Newest::Put(op) => op.position,
            Newest::Deleted { position, .. } => *position,
        }
    }
}

/// A state before the newest. A pending operation is held by its queue, so none keeps memory here.
#[derive(Debug)]
enum Earlier {
    /// Gone once it is built: then the built set has it.
    Put {
        position: u64,
        op: Weak<PendingOp>,
    },
    Deleted {
        stamp: Stamp,
        position: u64,
    },
}

impl Earlier {
    fn of(newest: &Newest) -> Earlier {
        match newest {
            Newest::Put(op) => Earlier::Put {
                position: op.position,
                op: Arc::downgrade(op),
            },
            Newest::Deleted { stamp, position, .. } => Earlier::Deleted {
                stamp: *stamp,
                position: *position,
            },
        }
    }

    fn position(&self) -> u64 {
        match self {
            Earlier::Put { position, .. } | Earlier::Deleted { position, .. } => *position,
        }
    }

    /// `None`: it is built.
    fn state(&self) -> Option<Newest> {
        match self {
            Earlier::Put { op, .. } => op.upgrade().map(Newest::Put),
            Earlier::Deleted { stamp, position } => Some(Newest::Deleted {
                stamp: *stamp,
                position: *position,
                since_ms: None,
            }),
        }
    }
}

/// The entry of one document.
#[derive(Debug)]
struct VersionEntry {
    no: u32,
    newest: Newest,
    /// Oldest first; at most the first was durable when the newest came. Most documents have none.
    #[expect(clippy::box_collection, reason = "most entries have none: a box is 24 bytes less in each")]
    earlier: Option<Box<VecDeque<Earlier>>>,
}

impl VersionEntry {
    /// `durable`: everything below is.
    fn replace(&mut self, newest: Newest, durable: u64) {
        let old = std::mem::replace(&mut self.newest, newest);
        if self.newest.position() <= durable {
            self.earlier = None;
            return;
        }
        let earlier = self.earlier.get_or_insert_default();
        earlier.push_back(Earlier::of(&old));
        // Nobody asks for states older than a durable one.
        while earlier.get(1).is_some_and(|next| next.position() <= durable) {
            earlier.pop_front();
        }
        debug_assert!(
            earlier
                .iter()
                .zip(earlier.iter().skip(1))
                .all(|(one, next)| one.position() <= next.position()),
            "write-path.md 1.1: states of a document are in the order of the log"
        );
    }

    /// The newest state at or below `durable`. `None`: the built set has it.
    fn durable(&self, durable: u64) -> Option<Newest> {
        if self.newest.position() <= durable {
            return Some(self.newest.clone());
        }
        let earlier = self.earlier.iter().flat_map(|earlier| earlier.iter().rev());
        earlier.into_iter().find(|state| state.position() <= durable)?.state()
    }
}

/// The map.
#[derive(Debug)]
pub(crate) struct Versions {
    keys: DocumentKeys,
    shards: Vec<Mutex<FxHashMap<Key, VersionEntry>>>,
    tombstones: AtomicU64,
}

impl Versions {
    /// An empty map with the folder's keys.
    pub(crate) fn new(folder_id: u128) -> Versions {
        Versions {
            keys: DocumentKeys::new(folder_id),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            tombstones: AtomicU64::new(0),
        }
    }
    /// The key of a document.
    pub(crate) fn key(&self, no: u32, uid: &str) -> Key {
        self.keys.key(no, uid)
    }
    /// The tombstones of an index.
    pub(crate) fn tombstones(&self, no: u32) -> Vec<(Key, Stamp)> {
        let mut out = Vec::new();
        for shard in &self.shards {
            for (key, entry) in &*shard.lock() {
                if let Newest::Deleted {
                    stamp,
                    since_ms: Some(_),
                    ..
                } = &entry.newest
                    && entry.no == no
                {
                    out.push((*key, *stamp));
                }
            }
        }
        out
    }
    fn shard(&self, key: Key) -> &Mutex<FxHashMap<Key, VersionEntry>> {
        &self.shards[key as usize % SHARDS]
    }
    /// The newest, if it is here.
    pub(crate) fn get(&self, key: Key) -> Option<Newest> {
        self.shard(key).lock().get(&key).map(|entry| entry.newest.clone())
    }
    /// The newest that is durable, if it is here; else the built set has it. `durable` says below which position everything
    /// is durable. It is asked under the lock, so that it says no less than it said to whoever forgot older states.
    pub(crate) fn newest_durable(&self, key: Key, durable: impl FnOnce() -> u64) -> Option<Newest> {
        let shard = self.shard(key).lock();
        shard.get(&key)?.durable(durable())
    }
    /// The state that a start finds in the manifest or in the log, whose operations may be older than a tombstone. It is durable.
    pub(crate) fn replay(&self, key: Key, no: u32, newest: Newest) {
        let earlier = None;
        let before = self.shard(key).lock().insert(key, VersionEntry { no, newest, earlier });
        assert!(
            before.is_none_or(|before| before.no == no),
            "4: a key is that of one index, and is replayed for index {no}"
        );
    }
    /// A newer state. The caller has the sequencer. `durable`: everything below is.
    pub(crate) fn set(&self, key: Key, no: u32, newest: Newest, durable: u64) {
        let mut shard = self.shard(key).lock();
        let Some(entry) = shard.get_mut(&key) else {
            let earlier = None;
            shard.insert(key, VersionEntry { no, newest, earlier });
            return;
        };
        assert_eq!(entry.no, no, "4: a key is that of one index");
        let (before, after) = (entry.newest.stamp().seq_no, newest.stamp().seq_no);
        assert!(
            before < after,
            "1.1: operation {after} on a document replaces operation {before}"
        );
        assert!(
            entry.newest.position() <= newest.position(),
            "1.1: a document's state of position {} replaces one of {}",
            newest.position(),
            entry.newest.position()
        );
        entry.replace(newest, durable);
    }
    /// A build has stored the effect of the operation with this sequence number: puts go, deletes become
    /// tombstones. A newer entry stays as it is.
    pub(crate) fn mark_built(&self, key: Key, seq_no: u64, now_ms: u64) {
        let mut shard = self.shard(key).lock();
        let Some(entry) = shard.get_mut(&key).filter(|entry| entry.newest.stamp().seq_no <= seq_no) else {
            return;
        };
        // Built operations are durable (write-path.md 1.4).
        entry.earlier = None;
        debug_assert!(
            !matches!(&entry.newest, Newest::Deleted { since_ms: Some(since), .. } if *since > now_ms),
            "4: a tombstone is kept from its first build on"
        );
        match &mut entry.newest {
            Newest::Put(_) => drop(shard.remove(&key)),
            Newest::Deleted { since_ms, .. } => {
                if since_ms.is_none() {
                    *since_ms = Some(now_ms);
                    self.tombstones.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
    /// Forgets tombstones older than `keep_ms` says for their index, and all when there are too many.
    pub(crate) fn forget(&self, now_ms: u64, keep_ms: impl Fn(u32) -> u64) {
        let crowded = self.tombstones.load(Ordering::Relaxed) > TOMBSTONES_MAX;
        let mut left = 0;
        for shard in &self.shards {
            shard.lock().retain(|_, entry| match entry.newest {
                Newest::Deleted {
                    since_ms: Some(since), ..
                } => {
                    let keep = if crowded { keep_ms(entry.no) / 4 } else { keep_ms(entry.no) };
                    let stays = now_ms.saturating_sub(since) < keep;
                    left += u64::from(stays);
                    stays
                }
                _ => true,
            });
        }
        self.tombstones.store(left, Ordering::Relaxed);
    }
    /// Forgets an index.
    pub(crate) fn drop_index(&self, no: u32) {
        for shard in &self.shards {
            shard.lock().retain(|_, entry| entry.no != no);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::Kind;

    const KEY: Key = 7;

    fn op(position: u64) -> Arc<PendingOp> {
        Arc::new(PendingOp {
            uid: "1".into(),
            key: KEY,
            fresh: false,
            stamp: Stamp {
                seq_no: position,
                version: position,
                primary_term: 1,
            },
            position,
            kind: Kind::Delete,
        })
    }

    fn deleted(position: u64) -> Newest {
        Newest::Deleted {
            stamp: op(position).stamp,
            position,
            since_ms: None,
        }
    }

    fn durable_at(versions: &Versions, durable: u64) -> Option<u64> {
        versions.newest_durable(KEY, || durable).map(|newest| newest.position())
    }

    /// Whatever is durable when a read comes, it finds the newest state at or below.
    #[test]
    fn the_newest_durable_state_is_found() {
        let versions = Versions::new(1);
        assert_eq!(durable_at(&versions, 100), None, "the built set is asked");
        let ops: Vec<_> = [10, 20, 40].map(op).into();
        versions.set(KEY, 1, Newest::Put(ops[0].clone()), 0);
        versions.set(KEY, 1, Newest::Put(ops[1].clone()), 0);
        versions.set(KEY, 1, deleted(30), 0);
        versions.set(KEY, 1, Newest::Put(ops[2].clone()), 0);
        let states = [
            (9, None),
            (10, Some(10)),
            (25, Some(20)),
            (30, Some(30)),
            (39, Some(30)),
            (40, Some(40)),
        ];
        for (durable, expected) in states {
            assert_eq!(durable_at(&versions, durable), expected, "at {durable}");
        }
        assert_eq!(
            versions.get(KEY).map(|newest| newest.position()),
            Some(40),
            "the newest is the newest"
        );
        // States before the newest durable one are forgotten when another comes.
        versions.set(KEY, 1, deleted(50), 35);
        assert_eq!(durable_at(&versions, 39), Some(30));
        assert_eq!(
            versions.shard(KEY).lock()[&KEY].earlier.as_ref().map(|all| all.len()),
            Some(2)
        );
        // A state that is durable when it comes has nothing before it.
        versions.set(KEY, 1, deleted(60), 60);
        assert!(versions.shard(KEY).lock()[&KEY].earlier.is_none());
    }

    /// A pending operation that was built is in the built set, and is not kept here for a newer one's sake.
    #[test]
    fn what_is_built_is_not_kept() {
        let versions = Versions::new(1);
        let first = op(10);
        versions.set(KEY, 1, Newest::Put(first.clone()), 0);
        versions.set(KEY, 1, Newest::Put(op(20)), 10);
        assert_eq!(durable_at(&versions, 15), Some(10));
        versions.mark_built(KEY, 10, 0);
        assert_eq!(Arc::strong_count(&first), 1);
        drop(first);
        assert_eq!(durable_at(&versions, 15), None, "the built set is asked");
        versions.set(KEY, 1, deleted(30), 20);
        versions.mark_built(KEY, 30, 0);
        assert!(versions.shard(KEY).lock()[&KEY].earlier.is_none());
        assert_eq!(durable_at(&versions, 30), Some(30), "a tombstone stays");
    }
}
