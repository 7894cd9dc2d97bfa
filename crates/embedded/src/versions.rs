//! The version map: the newest state of documents that no segment shows yet, and of deleted ones.
//!
//! Invariant: an entry leaves after the built set with its effect is stored, so that a lookup that misses here
//! and then loads the set finds it there (write-path.md 1.5).
//!
//! Not here: who locks documents against each other (the stripes), segments.

use crate::document_key::{DocumentKeys, Key};
use crate::lock_order::Mutex;
use crate::pending::{Kind, PendingOp};
use model::Stamp;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: usize = 64;
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
}

/// The map.
#[derive(Debug)]
pub(crate) struct Versions {
    keys: DocumentKeys,
    shards: Vec<Mutex<FxHashMap<Key, (u32, Newest)>>>,
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
    /// The state that a start finds in the manifest or in the log, whose operations may be older than a tombstone.
    pub(crate) fn replay(&self, key: Key, no: u32, newest: Newest) {
        self.shard(key).lock().insert(key, (no, newest));
    }
    /// A newer state. The caller has the sequencer.
    pub(crate) fn set(&self, key: Key, no: u32, newest: Newest) {
        let seq_no = newest.stamp().seq_no;
        let before = self.shard(key).lock().insert(key, (no, newest));
        if let Some((of, before)) = before {
            assert_eq!(of, no, "4: a key is that of one index");
            assert!(
                before.stamp().seq_no < seq_no,
                "1.1: operation {seq_no} on a document replaces operation {}",
                before.stamp().seq_no
            );
        }
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
