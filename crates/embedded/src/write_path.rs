//! The locks that order writes, and the account of what waits to be built (write-path.md 1 and 3).
//!
//! Not here: evaluating a write (`evaluate`), the record (`commit`), the log itself (`log`).

use crate::blocking::{aside, lock_patiently};
use crate::document_key::Key;
use crate::lock_order::{LockRank, Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard};
use crate::log::Log;
use crate::pending::KeptParsed;
use engine::Gate;
use mapping::Parsed;
use segment::directory::Held;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Id stripes in all.
pub(crate) const STRIPES: usize = 4096;

/// Gate, stripes and sequencer, in this order; and the bytes of pending operations.
pub(crate) struct WritePath {
    /// Decisions that alter tables in memory against those that rest on them (`engine::Gate`).
    gate: RwLock<()>,
    /// The end of the newest record that altered one.
    gate_altered_to: AtomicU64,
    stripes: Vec<Mutex<()>>,
    /// Gives stamps and places in the log together.
    sequencer: Mutex<()>,
    pending_bytes: AtomicU64,
    /// Bytes of pending documents as their mappings read them.
    parsed_bytes: Arc<AtomicU64>,
}

/// A gate that was passed.
pub(crate) struct GateGuard<'a> {
    _shared: Option<ReadGuard<'a, ()>>,
    _exclusive: Option<WriteGuard<'a, ()>>,
}

impl Default for WritePath {
    fn default() -> WritePath {
        WritePath {
            gate: RwLock::new(LockRank::Gate, ()),
            gate_altered_to: AtomicU64::new(0),
            stripes: (0..STRIPES).map(|n| Mutex::with_number(LockRank::Stripe, n, ())).collect(),
            sequencer: Mutex::new(LockRank::Sequencer, ()),
            pending_bytes: AtomicU64::new(0),
            parsed_bytes: Arc::default(),
        }
    }
}

impl WritePath {
    /// Passes the gate as a decision asks.
    pub(crate) fn pass_gate(&self, how: Gate) -> GateGuard<'_> {
        let gate = &self.gate;
        let shared = || spin(|| gate.try_read()).unwrap_or_else(|| aside(|| gate.read()));
        let exclusive = || spin(|| gate.try_write()).unwrap_or_else(|| aside(|| gate.write()));
        GateGuard {
            _shared: (how == Gate::Shared).then(shared),
            _exclusive: (how == Gate::Exclusive).then(exclusive),
        }
    }
    /// The end of the newest record of an exclusive decision.
    pub(crate) fn gate_altered_to(&self) -> u64 {
        self.gate_altered_to.load(Ordering::Acquire)
    }
    /// The record of an exclusive decision ends at `end`; the caller holds the gate.
    pub(crate) fn note_gate_alteration(&self, gate: &GateGuard<'_>, end: u64) {
        assert!(
            gate._exclusive.is_some(),
            "transactions.md T15: only an exclusive decision alters a table in memory"
        );
        self.gate_altered_to.fetch_max(end, Ordering::AcqRel);
    }
    pub(crate) fn stripe_of(&self, key: Key) -> usize {
        (key >> 64) as usize % STRIPES
    }
    /// Locks the stripe of one document.
    pub(crate) fn lock_document(&self, key: Key) -> MutexGuard<'_, ()> {
        lock_patiently(&self.stripes[self.stripe_of(key)])
    }
    /// Locks stripes, ascending.
    pub(crate) fn lock_stripes(&self, numbers: &BTreeSet<usize>) -> Vec<MutexGuard<'_, ()>> {
        numbers.iter().map(|n| lock_patiently(&self.stripes[*n])).collect()
    }
    /// Nobody else gives stamps or places in the log while the guard lives.
    pub(crate) fn sequence(&self) -> MutexGuard<'_, ()> {
        self.sequencer.lock()
    }
    /// Everything below is durable, and its operations are in the pending lists.
    pub(crate) fn durable_now(&self, log: &Log) -> u64 {
        let _sequencer = self.sequencer.lock();
        log.durable_position()
    }
    /// Bytes of operations that are in no segment.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes.load(Ordering::Relaxed)
    }
    /// Counts an operation, before it is in the queue of its index.
    pub(crate) fn add_pending(&self, bytes: u64) {
        self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
    /// Operations left the queue of their index.
    pub(crate) fn subtract_pending(&self, bytes: u64) {
        let before = self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "3: [{bytes}] pending bytes leave, [{before}] were counted");
    }
    /// Keeps a parsed document for its build, while all that are kept so take at most `max_bytes`: beyond that, a build
    /// reads the source again.
    pub(crate) fn keep_parsed(&self, parsed: Parsed, max_bytes: u64) -> Option<Box<KeptParsed>> {
        let bytes = parsed.weight() as u64;
        if self.parsed_bytes.load(Ordering::Relaxed) + bytes > max_bytes {
            return None;
        }
        Some(Box::new(KeptParsed::new(parsed, Held::new(&self.parsed_bytes, bytes))))
    }
}

/// Most hold the gate for 10 to 20 µs, which is what putting a thread to sleep and waking it costs: for as long it is tried
/// again.
fn spin<T>(try_it: impl Fn() -> Option<T>) -> Option<T> {
    const AWAKE: Duration = Duration::from_micros(30);
    const PAUSES: usize = 16;
    if let Some(held) = try_it() {
        return Some(held);
    }
    let begun = Instant::now();
    while begun.elapsed() < AWAKE {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        if let Some(held) = try_it() {
            return Some(held);
        }
    }
    None
}
