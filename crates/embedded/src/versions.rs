//! The version map: the newest state of documents that no segment shows yet, and of deleted ones.
//!
//! Invariant: an entry leaves after the built set with its effect is stored, so that a lookup that misses here
//! and then loads the set finds it there (write-path.md 1.5).
//!
//! Not here: who locks documents against each other (the stripes), segments.

use crate::lock_order::Mutex;
use crate::pending::PendingOp;
use model::Stamp;
use rustc_hash::FxHashMap;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 64;
/// `Deleted` entries kept in all; beyond, the oldest go.
const TOMBSTONES_MAX: u64 = 1 << 20;

/// A document's identity as 128 bits.
pub(crate) type Key = u128;

/// What is newest.
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
    /// Its stamp.
    pub(crate) fn stamp(&self) -> Stamp {
        match self {
            Newest::Put(op) => op.stamp,
            Newest::Deleted { stamp, .. } => *stamp,
        }
    }
}

/// The map.
#[derive(Debug)]
pub(crate) struct Versions {
    /// Of the folder: tombstones are kept by key.
    seeds: (u64, u64),
    shards: Vec<Mutex<FxHashMap<Key, (u32, Newest)>>>,
    tombstones: AtomicU64,
}

impl Versions {
    /// An empty map with the folder's keys.
    pub(crate) fn new(folder_id: u128) -> Versions {
        Versions {
            seeds: ((folder_id >> 64) as u64, folder_id as u64),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            tombstones: AtomicU64::new(0),
        }
    }
    /// The key of a document. Keyed hashes: nobody can choose ids that collide.
    #[allow(
        deprecated,
        reason = "the only hasher of the standard library that takes its keys, and they must outlive the process"
    )]
    pub(crate) fn key(&self, no: u32, uid: &str) -> Key {
        let half = |salt: u64| {
            let mut hasher = std::hash::SipHasher::new_with_keys(self.seeds.0 ^ salt, self.seeds.1);
            hasher.write_u32(no);
            hasher.write(uid.as_bytes());
            hasher.finish()
        };
        u128::from(half(0)) << 64 | u128::from(half(0x9E37_79B9_7F4A_7C15))
    }
    /// The tombstones of an index.
    pub(crate) fn tombstones(&self, no: u32) -> Vec<(Key, Stamp)> {
        let mut out = Vec::new();
        for shard in &self.shards {
            for (key, (n, newest)) in &*shard.lock() {
                if let Newest::Deleted {
                    stamp,
                    since_ms: Some(_),
                    ..
                } = newest
                    && *n == no
                {
                    out.push((*key, *stamp));
                }
            }
        }
        out
    }
    fn shard(&self, key: Key) -> &Mutex<FxHashMap<Key, (u32, Newest)>> {
        &self.shards[key as usize % SHARDS]
    }
    /// The newest, if it is here.
    pub(crate) fn get(&self, key: Key) -> Option<Newest> {
        self.shard(key).lock().get(&key).map(|(_, newest)| newest.clone())
    }
    /// A newer state.
    pub(crate) fn set(&self, key: Key, no: u32, newest: Newest) {
        self.shard(key).lock().insert(key, (no, newest));
    }
    /// A build has stored the effect of the operation with this sequence number: puts go, deletes become
    /// tombstones. A newer entry stays as it is.
    pub(crate) fn built(&self, key: Key, seq_no: u64, now_ms: u64) {
        let mut shard = self.shard(key).lock();
        let Some((_, newest)) = shard.get_mut(&key).filter(|(_, newest)| newest.stamp().seq_no <= seq_no) else {
            return;
        };
        match newest {
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
            shard.lock().retain(|_, (no, newest)| match newest {
                Newest::Deleted {
                    since_ms: Some(since), ..
                } => {
                    let keep = if crowded { keep_ms(*no) / 4 } else { keep_ms(*no) };
                    let stays = now_ms.saturating_sub(*since) < keep;
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
            shard.lock().retain(|_, (n, _)| *n != no);
        }
    }
}
