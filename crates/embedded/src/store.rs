//! The parts of the engine and how they hang together: one [`Store`] a folder.
//!
//! Lock order: gate → stripes (ascending) → catalog → sequencer; apart from these, an index's build lock → publish.
//! The shards of the version map are leaves.
//!
//! Not here: what is done with them (`evaluate`, `publish`, `merging`, `checkpoint`, `recovery`).

use crate::background_failures::{Troubles, Work};
use crate::blocking::lock_patiently;
use crate::catalog::{Catalog, IndexEntry};
use crate::catalog_cell::CatalogCell;
use crate::counts::Counts;
use crate::environment::Environment;
use crate::get_cache::GetCache;
use crate::index_caches::IndexCaches;
use crate::lock_order::{Condvar, LockRank, Mutex, MutexGuard, RwLock};
use crate::log::{FolderLock, Log, Manifest};
use crate::open_views::OpenViews;
use crate::pending::PendingOp;
use crate::request_cache::RequestCache;
use crate::staged_view::StagingViews;
use crate::versions::Versions;
use arc_swap::ArcSwap;
use model::{Error, ErrorKind, Result, settings};
use rustc_hash::{FxHashMap, FxHashSet};
use segment::cache::DocumentCache;
use segment::derived::{Budget, Derived};
use segment::directory::{DataFile, Place};
use segment::filter_cache::FilterCache;
use segment::searchable::{IndexView, Searchable};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Id stripes in all.
pub(crate) const STRIPES: usize = 4096;
/// One folder, open.
pub(crate) struct Store {
    pub(crate) env: Environment,
    pub(crate) log: Log,
    pub(crate) manifest: Manifest,
    pub(crate) catalog: CatalogCell,
    /// The start replayed records: a checkpoint is due, so that their files go.
    pub(crate) replayed: AtomicBool,
    stripes: Vec<Mutex<()>>,
    /// Decisions that alter tables in memory against those that rest on them (`engine::Gate`).
    pub(crate) gate: RwLock<()>,
    /// The end of the newest record that altered one.
    pub(crate) gate_at: AtomicU64,
    /// Gives stamps and places in the log together.
    pub(crate) sequencer: Mutex<()>,
    pub(crate) indices: RwLock<FxHashMap<u32, Arc<IndexState>>>,
    pub(crate) versions: Versions,
    pub(crate) searchable: ArcSwap<Searchable>,
    pub(crate) answers: RequestCache,
    /// Documents that were read by their ids lately.
    pub(crate) lately: GetCache,
    /// Stored documents that searches showed lately.
    pub(crate) documents: Arc<DocumentCache>,
    /// Sets of terms that filters ask for often.
    pub(crate) filters: Arc<FilterCache>,
    pub(crate) publishing: Mutex<()>,
    /// Records with several indices that are not wholly published: end → indices.
    pub(crate) shared: Mutex<VecDeque<(u64, Vec<u32>)>>,
    pub(crate) published: tokio::sync::watch::Sender<u64>,
    /// Indices with something unbuilt or unpublished.
    pub(crate) dirty: Mutex<FxHashSet<u32>>,
    pub(crate) pending_bytes: AtomicU64,
    /// What pending documents take as their mappings read them.
    pub(crate) parsed_bytes: Arc<AtomicU64>,
    pub(crate) next_segment: AtomicU64,
    pub(crate) files: Mutex<HashMap<String, Weak<DataFile>>>,
    pub(crate) unclean: u64,
    pub(crate) checkpointing: Mutex<CheckpointState>,
    pub(crate) wake: (Mutex<bool>, Condvar),
    pub(crate) stopping: AtomicBool,
    /// Why nothing may be written until a restart.
    pub(crate) refusing: Mutex<Option<Error>>,
    /// Bytes of segments in memory.
    pub(crate) ram_bytes: Arc<AtomicU64>,
    /// What the next checkpoint is for.
    pub(crate) unflushed: Unflushed,
    /// Room was made: by a build or a checkpoint.
    pub(crate) progress: tokio::sync::watch::Sender<()>,
    pub(crate) troubles: Troubles,
    pub(crate) views: OpenViews,
    /// Views in which writes are staged.
    pub(crate) stagings: StagingViews,
    /// What is derived from all segments and kept.
    pub(crate) derived: Arc<Budget>,
    /// The part of each index in them and in the caches of answers and filters.
    pub(crate) caches: RwLock<FxHashMap<u32, Arc<IndexCaches>>>,
    /// Scripts that were compiled since the process began.
    pub(crate) script_compilations: AtomicU64,
    /// What the key sets of joins take together.
    pub(crate) join_memory: Arc<search::plan::join::Budget>,
    /// What the start found damaged, in words.
    pub(crate) told: Mutex<Vec<String>>,
    pub(crate) _lock: Option<FolderLock>,
}

/// What is in the log and in no segment that the manifest names.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    bytes: AtomicU64,
    ops: AtomicU64,
    /// When the oldest came, in monotonic milliseconds + 1; 0: there is none.
    since_ms: AtomicU64,
}

impl Unflushed {
    /// A record came.
    pub(crate) fn add(&self, bytes: u64, ops: u64, now: Duration) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ops.fetch_add(ops, Ordering::Relaxed);
        if self.since_ms.load(Ordering::Relaxed) == 0 {
            self.since_ms.store(millis(now) + 1, Ordering::Relaxed);
        }
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
    pub(crate) fn ops(&self) -> u64 {
        self.ops.load(Ordering::Relaxed)
    }
    /// How long the oldest has waited.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        match self.since_ms.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => now.saturating_sub(Duration::from_millis(since - 1)),
        }
    }
    /// A checkpoint takes care of it: what comes from here on counts anew.
    pub(crate) fn take(&self, _now: Duration) -> (u64, u64, u64) {
        let since = self.since_ms.swap(0, Ordering::Relaxed);
        (
            self.bytes.swap(0, Ordering::Relaxed),
            self.ops.swap(0, Ordering::Relaxed),
            since,
        )
    }
    /// The checkpoint failed.
    pub(crate) fn give_back(&self, (bytes, ops, since): (u64, u64, u64)) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ops.fetch_add(ops, Ordering::Relaxed);
        if since > 0 {
            self.since_ms.store(since, Ordering::Relaxed);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What checkpoints know of each other.
#[derive(Default)]
pub(crate) struct CheckpointState {
    /// Everything below is in segments that the manifest names.
    pub(crate) flushed: u64,
    /// When it was made.
    pub(crate) at: Duration,
    /// Indices that the manifest knows.
    pub(crate) named: FxHashSet<u32>,
    /// Files that the manifest names.
    pub(crate) files: Vec<Arc<DataFile>>,
    /// Counts checkpoint files.
    pub(crate) next_file: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.env.dir().display())
    }
}

/// What an index has beside its catalog entry.
pub(crate) struct IndexState {
    /// Its number.
    pub(crate) no: u32,
    pub(crate) term: u64,
    pub(crate) queue: Mutex<Queue>,
    /// One build or merge flip at a time.
    pub(crate) build: Mutex<()>,
    /// One merge at a time; taken before `build`.
    pub(crate) merging: Mutex<()>,
    /// Everything built; published or not.
    pub(crate) built: ArcSwap<IndexView>,
    /// When it was last searched, in monotonic milliseconds; 0 never.
    pub(crate) searched_ms: AtomicU64,
    /// When something was built last, in monotonic milliseconds.
    pub(crate) built_ms: AtomicU64,
    pub(crate) waiters: AtomicU64,
    pub(crate) counts: Counts,
    /// The set and the catalog's revision that the manifest has.
    pub(crate) flushed: Mutex<Option<(Arc<IndexView>, u64)>>,
    /// The manifest has it up to here: replaying it begins here.
    pub(crate) flushed_to: AtomicU64,
    /// Corrupt: why nothing may be asked of it.
    pub(crate) stopped: Mutex<Option<Error>>,
}

/// Operations that no segment has.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) next_seq_no: u64,
    pub(crate) ops: VecDeque<Arc<PendingOp>>,
    pub(crate) bytes: u64,
    /// When the oldest that is not published was acknowledged (monotonic).
    pub(crate) oldest: Option<Duration>,
    /// What was replayed at the start was acknowledged long ago: the first search publishes it, whatever the interval.
    pub(crate) overdue: bool,
    /// Position of the newest operation.
    pub(crate) last: u64,
}

impl IndexState {
    /// `flushed_to`: where replaying it begins.
    pub(crate) fn new(no: u32, term: u64, built: IndexView, flushed_to: u64) -> IndexState {
        IndexState {
            no,
            flushed_to: AtomicU64::new(flushed_to),
            term,
            queue: Mutex::new(LockRank::Queue, Queue::default()),
            build: Mutex::new(LockRank::Build, ()),
            merging: Mutex::new(LockRank::Merge, ()),
            built: ArcSwap::from_pointee(built),
            searched_ms: AtomicU64::new(0),
            built_ms: AtomicU64::new(0),
            waiters: AtomicU64::new(0),
            counts: Counts::default(),
            flushed: Mutex::default(),
            stopped: Mutex::default(),
        }
    }
    pub(crate) fn check(&self) -> Result<()> {
        self.stopped.lock().as_ref().map_or(Ok(()), |e| Err(e.clone()))
    }
}

impl Store {
    pub(crate) fn stripe_of(&self, key: crate::document_key::Key) -> usize {
        (key >> 64) as usize % STRIPES
    }
    pub(crate) fn stripe(&self, n: usize) -> MutexGuard<'_, ()> {
        lock_patiently(&self.stripes[n])
    }
    /// The state of an index that the catalog knows.
    pub(crate) fn state(&self, entry: &IndexEntry) -> Result<Arc<IndexState>> {
        let state = self
            .indices
            .read()
            .get(&entry.no)
            .cloned()
            .ok_or_else(|| engine::catalog::missing(entry.name.as_str()))?;
        state.check()?;
        Ok(state)
    }
    /// Is an index there, and not stopped for damage?
    pub(crate) fn is_sound(&self, no: u32) -> bool {
        self.indices.read().get(&no).is_some_and(|state| state.check().is_ok())
    }
    pub(crate) fn wake(&self) {
        *self.wake.0.lock() = true;
        self.wake.1.notify_all();
    }
    /// May anything be written at all?
    pub(crate) fn check_writable(&self) -> Result<()> {
        if let Some(why) = self.refusing.lock().as_ref() {
            return Err(why.clone());
        }
        match self.overfull() {
            None => Ok(()),
            Some((setting, have, limit)) => {
                self.wake();
                let what = if setting == settings::PENDING {
                    "acknowledged writes are not yet in segments"
                } else {
                    "the log are not yet in a checkpoint"
                };
                let reason = format!(
                    "[{have}] bytes of {what}; the limit is the setting [{}] of [{limit}]",
                    setting.name
                );
                // Waiting does not help a client while the disk is full.
                if let Some(full) = self.troubles.want_of_room() {
                    return Err(Error::new(ErrorKind::DiskFull, format!("{reason}: {}", full.reason())));
                }
                Err(Error::new(ErrorKind::RejectedExecution, reason).with("setting", setting.name))
            }
        }
    }
    /// May a document be deleted? Deletes make room, so that a full disk does not refuse them; the log bounds them.
    pub(crate) fn check_deletable(&self) -> Result<()> {
        match self.check_writable() {
            Err(full) if full.kind() == ErrorKind::DiskFull && self.refusing.lock().is_none() => Ok(()),
            checked => checked,
        }
    }
    /// The bound that writes have reached, with what there is and how much there may be.
    pub(crate) fn overfull(&self) -> Option<(settings::Setting, u64, u64)> {
        let rows = [
            (
                settings::PENDING,
                self.pending_bytes.load(Ordering::Relaxed),
                self.env.limits().pending_bytes,
            ),
            (settings::LOG_MAX, self.unflushed.bytes(), self.env.limits().log_max_bytes),
        ];
        rows.into_iter().find(|(_, have, limit)| have > limit)
    }
    /// Work behind the scenes failed: kept, told, tried again later. Damage stops its index.
    pub(crate) fn trouble(&self, work: Work, no: u32, error: Error) {
        let error = self.settle(error);
        let entry = self.catalog.entry(no);
        let name = entry.as_ref().map(|entry| &entry.name);
        self.troubles
            .failed(work, no, name, error, self.env.monotonic(), self.env.wall_ms());
    }
    /// A call failed. If that was for damage, its index stops, and the damage is what is told.
    pub(crate) fn settle(&self, error: Error) -> Error {
        if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Internal) {
            return error;
        }
        self.find_damage().unwrap_or(error)
    }
    /// Stops every index in whose files damage was found; gives the first that was not stopped before.
    pub(crate) fn find_damage(&self) -> Option<Error> {
        let states: Vec<Arc<IndexState>> = self.indices.read().values().cloned().collect();
        let mut first = None;
        for state in states {
            let built = state.built.load();
            let Some(damage) = built.segments.iter().find_map(|segment| segment.data.damage()) else {
                continue;
            };
            let damage = damage.with("index", built.name.as_str());
            let new = {
                let mut stopped = state.stopped.lock();
                let new = stopped.is_none();
                stopped.get_or_insert_with(|| damage.clone());
                new
            };
            if new {
                crate::background_failures::tell(&format!("index [{}] is stopped: {}", built.name, damage.reason()));
                self.shelve(&state);
                first.get_or_insert(damage);
            }
        }
        first
    }
    /// Reads every byte of every segment; damage stops its index. What is in memory was never on a disk.
    pub(crate) fn check_segments(&self) {
        let states: Vec<Arc<IndexState>> = self.indices.read().values().cloned().collect();
        for segment in states.iter().flat_map(|state| state.built.load_full().segments.clone()) {
            if let Place::File(file, prefix) = &segment.data.place {
                // It is noted in the file, where it is looked for next.
                drop(file.check(prefix));
            }
        }
        self.find_damage();
    }
    /// What is pending of a stopped index leaves memory; the log keeps it.
    fn shelve(&self, state: &IndexState) {
        let mut queue = state.queue.lock();
        self.pending_bytes.fetch_sub(queue.bytes, Ordering::Relaxed);
        queue.ops.clear();
        queue.bytes = 0;
        queue.oldest = None;
        queue.overdue = false;
        drop(queue);
        self.dirty.lock().remove(&state.no);
        self.versions.drop_index(state.no);
    }
    #[allow(clippy::too_many_arguments, reason = "the parts of an open folder")]
    pub(crate) fn assemble(
        env: Environment,
        log: Log,
        manifest: Manifest,
        catalog: Catalog,
        unclean: u64,
        lock: Option<FolderLock>,
    ) -> Store {
        let versions = Versions::new(manifest.folder_id());
        let limits = env.limits();
        let answers = RequestCache::new(limits.answers_bytes);
        let filters = FilterCache::new(limits.filters_bytes);
        // Half for those that are read by id, half for those that searches show.
        let lately = GetCache::new(limits.documents_bytes / 2);
        let documents = Arc::new(DocumentCache::new(limits.documents_bytes / 2));
        let derived = Budget::new(limits.derived_bytes);
        Store {
            env,
            log,
            manifest,
            catalog: CatalogCell::new(catalog),
            replayed: AtomicBool::new(false),
            stripes: (0..STRIPES).map(|n| Mutex::numbered(LockRank::Stripe, n, ())).collect(),
            gate: RwLock::new(LockRank::Gate, ()),
            gate_at: AtomicU64::new(0),
            sequencer: Mutex::new(LockRank::Sequencer, ()),
            indices: RwLock::new(LockRank::Indices, FxHashMap::default()),
            versions,
            searchable: ArcSwap::from_pointee(Searchable::default()),
            answers,
            lately,
            documents,
            filters,
            publishing: Mutex::new(LockRank::Publish, ()),
            shared: Mutex::default(),
            published: tokio::sync::watch::Sender::new(0),
            dirty: Mutex::default(),
            pending_bytes: AtomicU64::new(0),
            parsed_bytes: Arc::default(),
            next_segment: AtomicU64::new(1),
            files: Mutex::default(),
            unclean,
            checkpointing: Mutex::new(LockRank::Checkpoint, CheckpointState::default()),
            wake: (Mutex::default(), Condvar::default()),
            stopping: AtomicBool::new(false),
            refusing: Mutex::default(),
            ram_bytes: Arc::default(),
            unflushed: Unflushed::default(),
            progress: tokio::sync::watch::Sender::new(()),
            troubles: Troubles::default(),
            views: OpenViews::default(),
            stagings: StagingViews::default(),
            join_memory: Arc::default(),
            derived,
            caches: RwLock::new(LockRank::Leaf, FxHashMap::default()),
            script_compilations: AtomicU64::new(0),
            told: Mutex::default(),
            _lock: lock,
        }
    }
    /// Gives up about so many bytes of what is kept only to answer sooner, the cheapest to read again first; says how many.
    pub(crate) fn give_up(&self, bytes: u64) -> u64 {
        let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut given_up = 0;
        let mut shrink = |held: usize, shrink: &dyn Fn(usize) -> usize| {
            if given_up < wanted && held > 0 {
                given_up += shrink(held.saturating_sub(wanted - given_up));
            }
        };
        shrink(self.documents.bytes() as usize, &|to| self.documents.shrink_to(to));
        shrink(self.lately.bytes() as usize, &|to| self.lately.shrink_to(to));
        shrink(self.answers.bytes() as usize, &|to| self.answers.shrink_to(to));
        shrink(self.filters.bytes() as usize, &|to| self.filters.shrink_to(to));
        shrink(self.derived.used_bytes(), &|to| self.derived.shrink_to(to));
        given_up as u64
    }
    /// The position that an answer about these names or patterns waits for, as far as the catalog is concerned; 0: none.
    pub(crate) fn rests_on<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> u64 {
        self.catalog.rests_on(names, || self.log.durable_position())
    }
    /// Everything below is durable, and its operations are in the pending lists.
    pub(crate) fn durable_now(&self) -> u64 {
        let _sequencer = self.sequencer.lock();
        self.log.durable_position()
    }
    /// Views that nobody used for their keep alive are closed.
    pub(crate) fn expire_views(&self) {
        self.views.expire(self.env.monotonic());
    }
    pub(crate) fn fresh_segment(&self) -> u64 {
        self.next_segment.fetch_add(1, Ordering::Relaxed)
    }
    /// The part of an index in the caches of all. It is made at first use.
    pub(crate) fn caches_of(&self, no: u32) -> Arc<IndexCaches> {
        if let Some(known) = self.caches.read().get(&no) {
            return known.clone();
        }
        let mut all = self.caches.write();
        all.entry(no)
            .or_insert_with(|| Arc::new(IndexCaches::new(&self.derived, &self.filters)))
            .clone()
    }
    /// An empty view of an index.
    pub(crate) fn blank_view(&self, entry: &IndexEntry, position: u64) -> IndexView {
        let caches = self.caches_of(entry.no);
        IndexView {
            no: entry.no,
            name: entry.name.clone(),
            typed: entry.typed(),
            types: entry.types(),
            parents: entry.parents(),
            mapping: entry.mapping.clone(),
            registry: entry.registry.clone(),
            settings: entry.settings.clone(),
            schema: entry.schema.clone(),
            segments: Vec::new(),
            position,
            derived: Derived::new(&caches.derived),
            documents: self.documents.clone(),
            filters: caches.filters.clone(),
            mappings: entry.mappings.clone(),
        }
    }
}
