//! The embedded engine: [`EmbeddedEngine`] implements `engine::Engine` over one data folder.
//!
//! tantivy's segments under our own log; see write-path.md. This file and `snapshot_calls` are the only async ones: they wait for
//! the disk and hand long work to a few threads, all else is plain calls on a `store::Store`.
//!
//! Not here: HTTP, joins over several indices (`relations`).

mod accepted;
mod alias_filters;
mod apply_alteration;
mod atomic_commit;
mod background_failures;
mod blocking;
mod caches;
pub mod catalog;
mod catalog_cell;
mod change_feed;
mod checkpoint;
mod checkpoint_state;
mod commit;
mod consumer_moves;
mod consumers;
mod counts;
mod current_document;
mod damage;
mod deleted_indices;
mod directory_state;
mod document_key;
mod durability;
mod environment;
mod evaluate;
mod family_routing;
mod feed_tail;
mod get_cache;
mod group_commit;
mod growth;
mod index_caches;
mod index_state;
mod initial_copy;
mod joining;
mod lanes;
mod lock_order;
pub mod log;
mod maintenance;
mod merging;
mod open_views;
mod pending;
mod pending_queue;
mod plain_writes;
mod prepared_write;
mod publication;
mod publish;
mod query_latency;
mod reading;
mod reading_memory;
mod recovery;
mod removed_documents;
mod request_cache;
mod resolved_write;
mod restored_set;
mod restricted_views;
mod scan;
mod scheduler;
mod search_helpers;
mod searching;
mod segment_account;
mod seq_no_scan;
mod snapshot_calls;
mod snapshot_work;
mod snapshots;
mod staged_view;
mod staging;
mod store;
mod term_vectors;
pub mod thread_priority;
mod tree_listing;
mod tree_moves;
mod tree_record;
mod trees;
mod unrefreshed;
mod versions;
mod wait_for;
mod workers;
mod write_path;

pub use environment::Limits;
pub use log::Retention;

use crate::damage::OpenMode;
use crate::durability::{is_of_the_moment, names_of};
use crate::index_state::IndexState;
use crate::lanes::{Lanes, Turn};
use crate::plain_writes::{WriteDone, WrittenInPart};
use crate::scan::DocumentScan;
use crate::scheduler::Upkeep;
use crate::store::{Store, lacks_room};
use crate::thread_priority::{REQUESTS, SNAPSHOTS, WRITES};
use crate::wait_for::WaitFor;
use crate::workers::{Pool, Workers};
use async_trait::async_trait;
use disk::{Disk, RealDisk};
use dsl::query::Query;
use dsl::search::{SearchRequest, SearchResponse};
use engine::changes::{ChangeFeed, Changes, Consumer, InitialCopy, Retained};
use engine::client_activity::ClientActivity;
use engine::{
    Alteration, Altered, AtomicWrites, Barrier, BreakerStats, Clock, Document, Effect, Engine, Extent, IndexInfo, IndexStats,
    Inspected, Inspection, JoinKeys, KeysOf, Looker, NodeStats, Numbered, Outcome, Part, Read, Refresh, See, Seen, Stage, Staged,
    Staging, TxnBody, TxnOptions, TxnResult, Unrefreshed, View, ViewPromise, Write, WriteOp,
};
use futures::stream::BoxStream;
use model::{Cancellation, CommitSeq, Error, ErrorKind, IndexName, Result, Target};
use parking_lot::Mutex;
use search::interrupt::Interrupt;
use search::scorers::live_docs::LiveDocs;
use segment::schema::IndexSchema;
use segment::segment_view::SegmentView;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a write waits for room before it is refused.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);
/// How often a write looks again at a log whose queue is taken by changes that are still being decided.
const QUEUE_EACH: Duration = Duration::from_millis(1);
/// Writes of more operations, of more bytes or with scripts are worked on by other threads than those that answer
/// requests.
const INLINE_WRITES: usize = 16;
const INLINE_BYTES: usize = 64 << 10;
/// Changes of no more bytes of the log are read on the thread that asks.
const CHANGES_INLINE_BYTES: u64 = 64 << 10;
/// Snapshots and restores that run at once; others wait.
const COPIERS: usize = 2;
/// Requests that wait for the servers of repositories at once; others wait for them.
const REPOSITORY_REQUESTS: usize = 8;

/// An engine over one data folder. Dropping it ends it as a crash would, but with everything acknowledged on
/// disk; [`EmbeddedEngine::close`] ends it cleanly.
pub struct EmbeddedEngine {
    store: Arc<Store>,
    workers: Arc<Workers>,
    /// Threads of their own, so that writes do not wait behind searches.
    writers: Workers,
    /// Snapshots and restores, which take long.
    copiers: Workers,
    /// Requests that wait for the servers of repositories.
    repository_requests: tokio::sync::Semaphore,
    lanes: Lanes,
    clients: Arc<ClientActivity>,
    upkeep: Mutex<Option<Upkeep>>,
}

impl std::fmt::Debug for EmbeddedEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EmbeddedEngine({:?})", self.store)
    }
}

impl EmbeddedEngine {
    /// Opens a folder on the machine's disk.
    ///
    /// # Errors
    /// The folder is in use or damaged, the disk fails.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>, limits: Limits) -> Result<EmbeddedEngine> {
        RealDisk.create_dir(dir).map_err(|e| disk::refusal("making", dir, &e))?;
        EmbeddedEngine::start(Store::open(dir, Arc::new(RealDisk), clock, limits, true, OpenMode::Serve)?)
    }

    /// As [`EmbeddedEngine::open`], but gives up what is damaged: [`EmbeddedEngine::found_damage`] says what that cost. After
    /// [`EmbeddedEngine::close`] the folder is sound.
    ///
    /// # Errors
    /// The folder is in use, has no manifest that can be read, or the disk fails.
    pub fn open_and_repair(dir: &Path, clock: Arc<dyn Clock>, limits: Limits) -> Result<EmbeddedEngine> {
        EmbeddedEngine::start(Store::open(dir, Arc::new(RealDisk), clock, limits, true, OpenMode::Repair)?)
    }

    /// As [`EmbeddedEngine::open_and_repair`], on another disk.
    ///
    /// # Errors
    /// As [`EmbeddedEngine::open_and_repair`].
    pub fn repair_on(disk: Arc<dyn Disk>, dir: &Path, clock: Arc<dyn Clock>, limits: Limits) -> Result<EmbeddedEngine> {
        EmbeddedEngine::start(Store::open(dir, disk, clock, limits, false, OpenMode::Repair)?)
    }

    /// The damage that the start found or cut off, in words, each with file and byte.
    pub fn found_damage(&self) -> Vec<String> {
        self.store.found_damage.clone()
    }

    /// Reads every byte of every segment file. Damage stops its index, as if it had been touched by a search.
    pub fn check_segments(&self) {
        self.store.check_segments();
    }

    /// Opens a folder on another disk, without the lock of the operating system.
    ///
    /// # Errors
    /// As [`EmbeddedEngine::open`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, clock: Arc<dyn Clock>, limits: Limits) -> Result<EmbeddedEngine> {
        EmbeddedEngine::start(Store::open(dir, disk, clock, limits, false, OpenMode::Serve)?)
    }

    fn start(store: Store) -> Result<EmbeddedEngine> {
        let store = Arc::new(store);
        let caches = Arc::downgrade(&store);
        let give_up = move |bytes| caches.upgrade().map_or(0, |store| store.caches.give_up(bytes));
        store.env.breakers().give_up_first(Box::new(give_up));
        // Without it locks and changes are refused, and say why; everything else works.
        if let Err(error) = store.mend_system_indices() {
            background_failures::tell(&format!("opening the control index again failed: {}", error.reason()));
        }
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 16);
        let limits = store.env.limits();
        let workers = Workers::start(
            &Pool {
                name: "work",
                nice: REQUESTS,
                threads,
                limited_max: limits.concurrent_searches,
            },
            limits,
        )?;
        let lanes = Lanes::start(threads, limits)?;
        let writers = Workers::start(
            &Pool {
                name: "write",
                nice: WRITES,
                threads: threads.min(4),
                limited_max: usize::MAX,
            },
            limits,
        )?;
        let copiers = Workers::start(
            &Pool {
                name: "snapshot",
                nice: SNAPSHOTS,
                threads: COPIERS,
                limited_max: usize::MAX,
            },
            limits,
        )?;
        let upkeep = Upkeep::start(&store)?;
        Ok(EmbeddedEngine {
            store,
            workers: Arc::new(workers),
            writers,
            copiers,
            repository_requests: tokio::sync::Semaphore::new(REPOSITORY_REQUESTS),
            lanes,
            clients: Arc::default(),
            upkeep: Mutex::new(Some(upkeep)),
        })
    }

    /// Ends cleanly: a last checkpoint, so that the next start replays nothing.
    ///
    /// # Errors
    /// A failing disk; what was acknowledged is safe all the same.
    pub fn close(&self) -> Result<()> {
        self.stop();
        self.store.checkpoint(true)?;
        self.store.log.close()
    }

    /// Something small that belongs to the folder and not to an index, as [`EmbeddedEngine::set_property`] left it.
    pub fn property(&self, name: &str) -> Option<Vec<u8>> {
        self.store.manifest.read(&format!("property/{name}"))
    }

    /// Keeps it in the manifest; durable when this returns.
    ///
    /// # Errors
    /// A full or failing disk.
    pub fn set_property(&self, name: &str, value: Vec<u8>) -> Result<()> {
        self.store.manifest.write(vec![(format!("property/{name}"), Some(value))])
    }

    /// There is no index: nothing depends yet on how the folder is used.
    pub fn is_blank(&self) -> bool {
        self.store.catalog.now().indices.is_empty()
    }

    /// Makes the control index anew, empty: for one that cannot be read. Its terms go on above those of the old one, so that
    /// fencing tokens do.
    ///
    /// # Errors
    /// A failing disk.
    pub async fn remake_control(&self) -> Result<()> {
        let store = self.store.clone();
        let end = self.workers.run(move || store.remake_control()).await?;
        self.wait(WaitFor {
            durable: end,
            written: 0,
        })
        .await
    }

    /// The activity of clients, for whoever else asks whether one is alone. Each call of the engine notes its task.
    pub fn client_activity(&self) -> Arc<ClientActivity> {
        self.clients.clone()
    }

    pub(crate) fn note_client(&self) {
        if let Some(client) = group_commit::current_client() {
            self.clients.note(client);
        }
    }

    fn stop(&self) {
        self.store.maintenance.stop();
        self.store.env.limits().s3_clients.stop();
        let upkeep = self.upkeep.lock().take();
        if let Some(upkeep) = upkeep {
            upkeep.join();
        }
    }

    /// Waits a while for room, as long as builds, checkpoints and the log make some; true if there is.
    async fn room(&self) -> bool {
        if self.store.has_room() {
            return true;
        }
        let mut progress = self.store.maintenance.subscribe_to_room();
        let waiting = async {
            while !self.store.has_room() {
                if self.store.maintenance.refusal().is_some() {
                    return false;
                }
                if self.store.overfull().is_none() {
                    // The log writes what waits before this.
                    let durable = self.store.log.end_position();
                    if self.wait(WaitFor { durable, written: 0 }).await.is_err() {
                        return false;
                    }
                    tokio::time::sleep(QUEUE_EACH).await;
                    continue;
                }
                self.store.maintenance.wake();
                if progress.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(ROOM_PATIENCE, waiting).await.unwrap_or(false)
    }

    /// Works on writes. Where the room for pending writes ends among them, the rest waits for room: other writers may have
    /// taken what was there at the beginning. After
    /// [`ROOM_PATIENCE`] without room each remaining write is refused, with the bound that it meets.
    async fn run_writes(&self, mut writes: Vec<Write>) -> Vec<WriteDone> {
        let count = writes.len();
        let mut done = Vec::new();
        while !writes.is_empty() {
            let waits = self.room().await;
            let mut part = self.run_writes_with_room(writes, waits).await;
            writes = std::mem::take(&mut part.left);
            if done.is_empty() {
                done = part.done;
            } else {
                done.append(&mut part.done);
            }
        }
        assert_eq!(done.len(), count, "1.2: each write has an outcome");
        done
    }

    /// Few and small writes here and now, others on threads that may take their time. `waits`: the first write without room and
    /// those behind it are given back.
    async fn run_writes_with_room(&self, writes: Vec<Write>, waits: bool) -> WrittenInPart {
        let bytes: usize = writes.iter().map(weight).sum();
        if writes.len() <= INLINE_WRITES && bytes <= INLINE_BYTES {
            return self.writers.run_other_here(|| self.store.write(writes, true, waits));
        }
        let (store, count) = (self.store.clone(), writes.len());
        match self.writers.run(move || Ok(store.write(writes, false, waits))).await {
            Ok(part) => part,
            // How far it came is unknown.
            Err(_) => WrittenInPart {
                done: (0..count).map(|_| (Outcome::Unknown, WaitFor::default(), None)).collect(),
                left: Vec::new(),
            },
        }
    }

    /// Makes writes searchable as asked. True if that forced a refresh.
    async fn make_searchable(&self, numbers: Vec<u32>, position: u64, refresh: Refresh) -> Result<bool> {
        match refresh {
            Refresh::No => Ok(false),
            Refresh::Now => {
                let store = self.store.clone();
                self.workers
                    .run(move || store.publish(&numbers, position))
                    .await
                    .map(|()| true)
            }
            Refresh::WaitFor => {
                let states = self.store.indices.each_of(numbers.iter().copied());
                let _waiting: Vec<_> = states.iter().map(IndexState::wait_for_refresh).collect();
                let forced = states.iter().any(|state| state.waiters() >= scheduler::FORCED_AT_WAITERS);
                for state in &states {
                    state.note_search(self.store.env.now_ms());
                }
                let mut published = self.store.publication.subscribe();
                loop {
                    published.mark_unchanged();
                    let there = {
                        let searchable = self.store.publication.load();
                        // An index that was deleted meanwhile is not waited for.
                        let gone = |no: &u32| !self.store.indices.contains(*no);
                        numbers.iter().all(|no| {
                            searchable
                                .indices
                                .get(no)
                                .map_or_else(|| gone(no), |view| view.position >= position)
                        })
                    };
                    if there {
                        return Ok(forced);
                    }
                    if forced {
                        self.store.maintenance.wake();
                    }
                    if published.changed().await.is_err() {
                        return Err(Error::new(ErrorKind::Internal, "the engine is closing"));
                    }
                }
            }
        }
    }

    /// Publishes what a search would, so that statistics count it: an index that nobody searches is not refreshed by the
    /// timer. An index that cannot be published is counted as it was; its failure is told by whoever needs it.
    async fn publish_for_stats(&self, found: &[catalog::resolve::Resolved]) {
        let due = self.store.overdue(found);
        if due.is_empty() {
            return;
        }
        let store = self.store.clone();
        let published = self.workers.run(move || {
            for no in due {
                drop(store.publish(&[no], 0));
            }
            Ok(())
        });
        drop(published.await);
    }

    fn info(&self, entry: &catalog::IndexEntry) -> IndexInfo {
        let state = self.store.indices.get(entry.no);
        let stopped = state.and_then(|state| state.check().err());
        IndexInfo {
            name: entry.name.clone(),
            uuid: entry.uuid.clone(),
            created_ms: entry.created_ms,
            open: entry.open,
            typed: entry.has_types(),
            settings: (*entry.settings).clone(),
            mappings: entry.render_mappings(),
            mapping: entry.mapping.clone(),
            registry: entry.registry.clone(),
            aliases: entry.aliases.clone(),
            stopped: stopped.map(|e| e.reason().to_owned()),
            troubled: [0, entry.no]
                .iter()
                .any(|no| !self.store.maintenance.failures().of(*no).is_empty()),
            restored_from: entry.restored_from.clone(),
        }
    }

    fn stats(&self, entry: &catalog::IndexEntry) -> IndexStats {
        let Ok(state) = self.store.state(entry) else {
            return IndexStats {
                troubles: self.store.maintenance.failures().of(entry.no),
                ..IndexStats::default()
            };
        };
        let shown = self.store.publication.set_of(entry.no);
        let built = state.built_view();
        let view = shown.unwrap_or_else(|| built.clone());
        let mut stats = IndexStats {
            segments: view.segments.len() as u64,
            troubles: self.store.maintenance.failures().of(entry.no),
            ..IndexStats::default()
        };
        for segment in &view.segments {
            // Documents that only changes see are gone to everybody else.
            let hidden = segment.hidden_docs();
            stats.docs += count_shown(segment, &view.schema);
            stats.lucene_docs += u64::from(segment.reader.num_docs()) - hidden;
            stats.deleted += u64::from(segment.reader.num_deleted_docs()) + hidden;
            stats.size_bytes += segment.data.bytes();
            stats.segment_list.push(engine::SegmentStats {
                docs: u64::from(segment.reader.num_docs()),
                deleted: u64::from(segment.reader.num_deleted_docs()),
                size_bytes: segment.data.bytes(),
                committed: segment.data.is_on_disk(),
            });
            if entry.has_types() {
                count_types(segment, &mut stats.docs_by_type);
            }
        }
        let pending = state.pending();
        stats.max_seq_no = pending.next_seq_no().checked_sub(1);
        stats.translog_ops = pending.len() as u64;
        stats.translog_bytes = pending.bytes();
        drop(pending);
        state.counts().fill(&mut stats);
        self.store.caches.of_index(entry.no).fill(&mut stats);
        stats.open_contexts = self.store.views.count_over(entry.no);
        stats
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The bounds on memory that refuse, and those that drop what is kept.
fn breakers(store: &Store, catalog: &catalog::Catalog) -> Vec<BreakerStats> {
    vec![
        BreakerStats {
            name: "join",
            limit_bytes: catalog.cluster_bytes(model::settings::JOIN_MEMORY),
            used_bytes: store.caches.join_memory().used_bytes(),
            tripped: store.caches.join_memory().refusals(),
        },
        BreakerStats {
            name: "fielddata",
            limit_bytes: store.env.limits().derived_bytes as u64,
            used_bytes: store.caches.derived_bytes(),
            tripped: 0,
        },
        BreakerStats {
            name: "accounting",
            limit_bytes: store.env.limits().ram_segment_bytes,
            used_bytes: store.segments.ram_bytes(),
            tripped: 0,
        },
    ]
}

/// The weight of a write before it is evaluated: a script may take as long as a large document.
fn weight(write: &Write) -> usize {
    match &write.op {
        WriteOp::Put(source) => source.0.len(),
        WriteOp::Update(update) if update.script.is_some() => INLINE_BYTES / 4,
        WriteOp::Update(_) => 1 << 10,
        WriteOp::Delete => 64,
    }
}

/// How many documents of a segment are shown: 64 at a time.
fn count_shown(segment: &SegmentView, schema: &IndexSchema) -> u64 {
    // The sets are open with the segment.
    LiveDocs::open(segment, schema, See::Plain).map_or(0, |shown| shown.count())
}

/// Adds the live documents of each type in a segment.
fn count_types(segment: &SegmentView, out: &mut Vec<(String, u64)>) {
    let Ok(Some(column)) = segment.reader.fast_fields().str("_type") else {
        return;
    };
    let mut by_ord: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    for doc in (0..segment.reader.max_doc()).filter(|doc| segment.is_shown(*doc)) {
        if let Some(ord) = column.term_ords(doc).next() {
            *by_ord.entry(ord).or_default() += 1;
        }
    }
    for (ord, count) in by_ord {
        let mut name = String::new();
        if column.ord_to_str(ord, &mut name).unwrap_or(false) {
            match out.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => out.push((name, count)),
            }
        }
    }
}

/// Does a target name this index, and not only by a wildcard?
fn is_named(target: &Target, entry: &catalog::IndexEntry) -> bool {
    let names = |expression: &String| expression == entry.name.as_str() || entry.aliases.contains_key(expression);
    target.expressions.iter().any(names)
}

/// Answers before they are known to be durable.
impl EmbeddedEngine {
    async fn refresh_now(&self, target: &Target, at_least: Option<CommitSeq>) -> Result<u32> {
        let found = self.store.catalog.now().resolve(target, self.store.env.wall_ms())?;
        let numbers: Vec<u32> = found.iter().map(|r| r.entry.no).collect();
        let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let dirty = self.store.maintenance.is_any_dirty(&numbers);
        if dirty || at_least.is_some() {
            // Everything acknowledged, also what was only written (`async`).
            let end = self.store.log.end_position().max(at_least.unwrap_or(0));
            self.store.log.durable(end).await?;
            let store = self.store.clone();
            let numbers: Vec<u32> = numbers.into_iter().filter(|no| store.is_sound(*no)).collect();
            let (publishing, sound) = (store.clone(), numbers.clone());
            let done = self.workers.run(move || publishing.publish(&sound, end)).await;
            if let Err(e) = done {
                let error = store.settle(e);
                // An index that was found damaged just now is left out by the second attempt.
                let rest: Vec<u32> = numbers.iter().copied().filter(|no| store.is_sound(*no)).collect();
                if error.kind() != ErrorKind::Corruption || rest.len() == numbers.len() {
                    return Err(error);
                }
                self.workers.run(move || store.publish(&rest, end)).await?;
            }
        }
        // The others are refreshed; who named a damaged one hears of it, a wildcard leaves it out.
        let mut left_out = 0;
        for r in &found {
            match self.store.state(&r.entry) {
                Err(e) if e.kind() != ErrorKind::Corruption || is_named(target, &r.entry) => return Err(e),
                Err(_) => left_out += 1,
                Ok(_) => {}
            }
        }
        Ok(count - left_out)
    }

    async fn search_now(&self, target: &Target, mut request: SearchRequest, see: See) -> Result<SearchResponse> {
        self.note_client();
        if let (Some(timeout), None) = (request.timeout, request.cancellation.deadline()) {
            let deadline = Instant::now().checked_add(timeout);
            request.cancellation = request.cancellation.with_deadline(deadline);
        }
        let shape = query_latency::shape(target, &request);
        let inline = self.lanes.is_quick(shape) && self.store.is_quiet(target);
        let (store, target, cancellation) = (self.store.clone(), target.clone(), request.cancellation.clone());
        let search = move |turn: Turn<'_>| store.search(&target, &request, see, turn);
        let done = self.lanes.run(&self.workers, shape, inline, cancellation, search).await;
        done.map_err(|e| self.store.settle(e))
    }

    async fn keys_now(&self, target: &Target, of: KeysOf) -> Result<JoinKeys> {
        self.note_client();
        let shape = query_latency::shape_of_keys(target, &of);
        let inline = self.lanes.is_quick(shape) && self.store.is_quiet(target);
        let (store, target, cancellation) = (self.store.clone(), target.clone(), of.cancellation.clone());
        let keys = move |turn: Turn<'_>| store.keys(&target, &of, turn.interrupt);
        self.lanes.run(&self.workers, shape, inline, cancellation, keys).await
    }

    async fn inspect_now(&self, inspection: Inspection) -> Result<Inspected> {
        let store = &self.store;
        let catalog = store.catalog.now();
        let now = store.env.wall_ms();
        Ok(match inspection {
            Inspection::Indices(target) => {
                Inspected::Indices(catalog.resolve(&target, now)?.iter().map(|r| self.info(&r.entry)).collect())
            }
            Inspection::Stats(target) => {
                let found = catalog.resolve(&target, now)?;
                self.publish_for_stats(&found).await;
                let stats = found.iter().map(|r| (self.info(&r.entry), self.stats(&r.entry)));
                Inspected::Stats(stats.collect())
            }
            Inspection::Directories(of) => {
                let store = self.store.clone();
                Inspected::Directories(self.workers.run(move || store.directories(&of)).await?)
            }
            Inspection::Templates(kind) => {
                let prefix = catalog::templates::key(kind, "");
                let of_kind = catalog
                    .templates
                    .iter()
                    .filter_map(|(key, body)| Some((key.strip_prefix(&prefix)?.to_owned(), body.clone())));
                Inspected::Templates(of_kind.collect())
            }
            Inspection::Script(id) => Inspected::Script(catalog.scripts.get(&id).cloned()),
            Inspection::ClusterSettings => Inspected::ClusterSettings {
                persistent: catalog.persistent.clone(),
                transient: catalog.transient.clone(),
            },
            Inspection::Validate { target, query } => {
                let store = store.clone();
                Inspected::Validated(self.workers.run_limited(move || store.validate(&target, &query)).await?)
            }
            Inspection::TermVectors(of) => {
                let store = store.clone();
                Inspected::TermVectors(self.workers.run_limited(move || store.term_vectors(&of)).await?)
            }
            Inspection::Node => Inspected::Node(Box::new(self.node_stats(&catalog))),
        })
    }

    fn node_stats(&self, catalog: &catalog::Catalog) -> NodeStats {
        let store = &self.store;
        let (disk, dir) = (store.env.disk(), store.env.dir());
        let published = store.publication.load();
        NodeStats {
            data_path: ".".to_owned(),
            pending_bytes: store.write_path.pending_bytes(),
            log_bytes: store.log.kept_bytes(),
            log_syncs: store.log.syncs(),
            log_written_bytes: store.log.written_bytes(),
            open_views: store.views.len() as u64,
            segments: published.indices.values().map(|view| view.segments.len() as u64).sum(),
            disk_available_bytes: disk.free_bytes(dir).unwrap_or(0),
            disk_free_bytes: disk.unused_bytes(dir).unwrap_or(0),
            disk_total_bytes: disk.total_bytes(dir).unwrap_or(0),
            pools: vec![
                self.workers.stats("generic"),
                self.workers.limited_stats("search"),
                self.writers.stats("write"),
            ],
            breakers: breakers(store, catalog),
            pending_max_bytes: store.env.limits().pending_bytes,
            request_cache_bytes: store.caches.answers().bytes(),
            documents_bytes: store.caches.documents().bytes(),
            filters_bytes: store.caches.filters().bytes(),
            script_compilations: store.script_compilations.load(Ordering::Relaxed),
            read_only: store
                .log
                .failure()
                .or_else(|| store.maintenance.refusal())
                .map(|e| e.reason().to_owned()),
            ram_segment_bytes: store.segments.ram_bytes(),
            troubles: store.maintenance.failures().of(0),
        }
    }

    /// Every matching document, part by part, from one moment.
    async fn scan_in(
        &self,
        target: &Target,
        query: Query,
        see: See,
        view: Option<String>,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        let target = target.clone();
        let open = move |store: &Store| {
            Ok(DocumentScan {
                views: store.views_of(&target, view.as_deref())?,
                query,
                see,
                types: target.types,
                reads_again: view.is_none(),
            })
        };
        scan::documents(self.store.clone(), self.workers.clone(), open).await
    }
}

#[async_trait]
impl Engine for EmbeddedEngine {
    async fn read(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        let mut out = Vec::with_capacity(reads.len());
        let mut position = 0;
        let mut refused = None;
        for read in &reads {
            match self.store.read_newest(read) {
                Ok(looked) => {
                    position = position.max(looked.position);
                    out.push(looked.document);
                }
                Err(e) => {
                    refused = Some(self.store.settle(e));
                    break;
                }
            }
        }
        // An undurable write might be gone after a crash: it is not told, and neither is a refusal for its sake.
        let catalog = self.store.rests_on(reads.iter().map(|read| read.at.index.as_str()));
        if let ([read], [document], true) = (&reads[..], &mut out[..], catalog < position) {
            return Ok(vec![self.once_durable(read, document.take(), position).await?]);
        }
        self.wait(WaitFor {
            durable: position.max(catalog),
            written: 0,
        })
        .await?;
        refused.map_or(Ok(out), Err)
    }

    async fn read_together(&self, reads: Vec<Read>, bytes_max: usize) -> Result<Vec<Result<Option<Document>>>> {
        let looked = self.store.read_newest_together(&reads, bytes_max);
        let positions = looked.iter().flatten().map(|looked| looked.position);
        // Refusals and absences rest on the catalog.
        let catalog = self.store.rests_on(reads.iter().map(|read| read.at.index.as_str()));
        let durable = positions.max().unwrap_or(0).max(catalog);
        self.wait(WaitFor { durable, written: 0 }).await?;
        let told = |one: Result<reading::Looked>| one.map(|looked| looked.document).map_err(|e| self.store.settle(e));
        Ok(looked.into_iter().map(told).collect())
    }

    async fn write_together(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        if writes.len() < 2 {
            return self.write(writes, refresh).await;
        }
        let how = TxnOptions {
            touches: writes.iter().map(|write| write.at.clone()).collect(),
            refresh,
            ..TxnOptions::default()
        };
        let mut plan = |_: &mut dyn engine::Newest| Ok(engine::Plan::of(writes.clone()));
        Ok(self.decide(&mut plan, how).await?.outcomes)
    }

    fn writes_show_together(&self) -> bool {
        true
    }

    async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        let done = self.run_writes(writes).await;
        let mut after = WaitFor::default();
        let mut numbers: Vec<u32> = Vec::new();
        for (_, wait, no) in &done {
            after.also(*wait);
            numbers.extend(no);
        }
        numbers.sort_unstable();
        numbers.dedup();
        if let Err(e) = self.wait(after).await {
            if e.kind() != ErrorKind::LogFailed {
                return Err(e);
            }
            return Ok(self.known_outcomes(done));
        }
        let mut outcomes: Vec<Outcome> = done.into_iter().map(|(outcome, _, _)| outcome).collect();
        if !numbers.is_empty() {
            let forced = self
                .make_searchable(numbers, after.durable.max(after.written), refresh)
                .await?;
            for outcome in &mut outcomes {
                if let Outcome::Written(written) = outcome
                    && written.effect != Effect::Noop
                {
                    written.forced_refresh = forced;
                }
            }
        }
        Ok(outcomes)
    }

    async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>> {
        let settled = |e| self.store.settle(e);
        Ok(writes
            .iter()
            .map(|write| self.store.rehearse(write).map_err(settled))
            .collect())
    }

    async fn refresh(&self, target: &Target, at_least: Option<CommitSeq>) -> Result<u32> {
        let done = self.refresh_now(target, at_least).await;
        self.answer_when_durable(names_of(target), done).await
    }

    async fn open_view(&self, target: &Target, keep_alive: Duration, _promise: ViewPromise) -> Result<View> {
        let (store, aim) = (self.store.clone(), target.clone());
        let opened = self.workers.run(move || store.open_view(&aim, keep_alive)).await;
        self.answer_when_durable(names_of(target), opened).await
    }

    async fn renew_view(&self, view: &str, keep_alive: Duration) -> Result<()> {
        self.store.check_keep_alive(&self.store.catalog.now(), keep_alive)?;
        self.store.expire_views();
        self.store.views.renew(view, keep_alive, self.store.env.monotonic())
    }

    async fn close_view(&self, view: &str) -> Result<bool> {
        if engine::is_staging(view) {
            return Ok(self.store.end_staging(view));
        }
        Ok(self.store.views.close(view))
    }

    async fn views(&self) -> Result<Vec<View>> {
        self.store.expire_views();
        Ok(self.store.views.list())
    }

    async fn search(&self, target: &Target, request: SearchRequest, see: See) -> Result<SearchResponse> {
        let found = self.search_now(target, request, see).await;
        self.answer_when_durable(names_of(target), found).await
    }

    async fn scan(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        // One process, one moment: the view itself proves that everything before it is there.
        drop(barrier);
        let found = self.scan_in(target, query, see, None).await;
        self.answer_when_durable(names_of(target), found).await
    }

    async fn scan_view(&self, target: &Target, query: Query, view: &str) -> Result<BoxStream<'static, Result<Document>>> {
        self.scan_in(target, query, See::Plain, Some(view.to_owned())).await
    }

    async fn extents(&self, target: &Target, query: Query, view: &str, cancellation: Cancellation) -> Result<Vec<Extent>> {
        let (store, aim, view) = (self.store.clone(), target.clone(), view.to_owned());
        let interrupt = Interrupt::new(cancellation, None, Some(self.store.env.breakers().clone()));
        let count = move || store.extents(&aim, &query, &view, &interrupt);
        let done = self.lanes.long().run(count).await;
        let done = done.map_err(|e| self.store.settle(e));
        self.answer_when_durable(names_of(target), done).await
    }

    async fn scan_by_seq_no(&self, target: &Target, query: Query, view: &str, part: Part) -> Result<Vec<Numbered>> {
        let (store, aim, view) = (self.store.clone(), target.clone(), view.to_owned());
        let interrupt = Interrupt::new(part.cancellation.clone(), None, Some(self.store.env.breakers().clone()));
        let read = move || store.scan_by_seq_no(&aim, &query, &view, &part, &interrupt);
        let done = self.lanes.long().run(read).await;
        let done = done.map_err(|e| self.store.settle(e));
        self.answer_when_durable(names_of(target), done).await
    }

    async fn align(&self, targets: &[Target], _promise: ViewPromise) -> Result<View> {
        let aligned = if targets.iter().all(|target| self.store.is_quiet(target)) {
            self.store.align(targets)
        } else {
            let (store, targets) = (self.store.clone(), targets.to_vec());
            self.workers.run(move || store.align(&targets)).await
        };
        self.answer_when_durable(targets.iter().flat_map(names_of), aligned).await
    }

    async fn keys(&self, target: &Target, of: KeysOf) -> Result<JoinKeys> {
        let found = self.keys_now(target, of).await;
        self.answer_when_durable(names_of(target), found).await
    }

    async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        let store = self.store.clone();
        let done = self
            .workers
            .run(move || {
                let (mut altered, end) = store.alter(&alteration)?;
                match &alteration {
                    Alteration::Flush(target) => {
                        altered.indices = store
                            .catalog
                            .now()
                            .resolve(target, store.env.wall_ms())?
                            .into_iter()
                            .map(|r| r.entry.name.clone())
                            .collect();
                        store.checkpoint(false)?;
                    }
                    Alteration::ForceMerge {
                        target,
                        max_num_segments,
                        only_expunge_deletes,
                    } => {
                        for found in store.catalog.now().resolve(target, store.env.wall_ms())? {
                            let state = store.state(&found.entry)?;
                            store.publish(&[found.entry.no], 0)?;
                            store.force_merge(&state, *max_num_segments, *only_expunge_deletes)?;
                            altered.indices.push(found.entry.name.clone());
                        }
                    }
                    _ => {}
                }
                Ok((altered, end))
            })
            .await;
        let (altered, end) = match done {
            Ok(done) => done,
            Err(e) if is_of_the_moment(e.kind()) => return Err(e),
            // That an index is there, or is not, may rest on an alteration before.
            Err(e) => {
                let durable = self.store.catalog.alteration_end();
                self.wait(WaitFor { durable, written: 0 }).await?;
                return Err(e);
            }
        };
        self.wait(WaitFor {
            durable: end,
            written: 0,
        })
        .await?;
        Ok(altered)
    }

    async fn inspect(&self, inspection: Inspection) -> Result<Inspected> {
        let is_node = matches!(inspection, Inspection::Node);
        let answer = self.inspect_now(inspection).await;
        // An answer that rests on the catalog leaves once that is durable.
        let durable = match is_node {
            true => 0,
            false => self.store.catalog.alteration_end(),
        };
        self.wait(WaitFor { durable, written: 0 }).await?;
        answer
    }

    fn atomic(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }

    fn staging(&self) -> Option<&dyn Staging> {
        Some(self)
    }

    fn change_feed(&self) -> Option<&dyn ChangeFeed> {
        Some(self)
    }

    fn snapshots(&self) -> Option<&dyn engine::snapshots::Snapshots> {
        Some(self)
    }
}

#[async_trait]
impl ChangeFeed for EmbeddedEngine {
    fn retained_range(&self) -> Retained {
        self.store.retained_changes()
    }

    async fn changes(&self, since: CommitSeq, bytes_max: u64) -> Result<Changes> {
        let store = self.store.clone();
        // Who follows reads what was just written, which takes less time than to hand it to another thread and back.
        let behind = store.retained_changes().newest.saturating_sub(since);
        if behind.min(bytes_max) <= CHANGES_INLINE_BYTES {
            return store.changes(since, bytes_max);
        }
        self.workers.run(move || store.changes(since, bytes_max)).await
    }

    async fn wait_for_changes(&self, position: CommitSeq) -> Result<()> {
        self.store.log.durable_behind(position + 1).await
    }

    async fn open_copy(&self, patterns: &[String], keep_alive: Duration) -> Result<InitialCopy> {
        // Everything acknowledged, also what was only written (`async`).
        let end = self.store.log.end_position();
        self.store.log.durable(end).await?;
        let (store, patterns) = (self.store.clone(), patterns.to_vec());
        let opened = self.workers.run(move || store.open_copy(&patterns, keep_alive)).await;
        opened.map_err(|e| self.store.settle(e))
    }

    fn copied_index(&self, copy: &str, after: Option<&model::IndexName>) -> Result<Option<engine::changes::IndexState>> {
        self.store.copied_index(copy, after)
    }

    fn consumers(&self) -> Vec<Consumer> {
        self.store.consumers.list()
    }

    async fn put_consumer(&self, name: &str, position: CommitSeq, consumers_max: usize) -> Result<()> {
        let (store, name) = (self.store.clone(), name.to_owned());
        let put = move || store.put_consumer(&name, position, consumers_max);
        let durable = self.workers.run(put).await?;
        self.wait(WaitFor { durable, written: 0 }).await
    }

    async fn delete_consumer(&self, name: &str) -> Result<bool> {
        let (store, name) = (self.store.clone(), name.to_owned());
        let Some(durable) = self.workers.run(move || store.delete_consumer(&name)).await? else {
            return Ok(false);
        };
        self.wait(WaitFor { durable, written: 0 }).await?;
        Ok(true)
    }
}

#[async_trait]
impl Staging for EmbeddedEngine {
    async fn begin(&self) -> Result<View> {
        // Everything acknowledged, also what was only written (`async`).
        let end = self.store.log.end_position();
        self.store.log.durable(end).await?;
        let store = self.store.clone();
        let begun = self.workers.run(move || store.begin_staging()).await;
        begun.map_err(|e| self.store.settle(e))
    }

    async fn read(&self, view: &str, reads: Vec<Read>) -> Result<Vec<Result<Seen>>> {
        let names: Vec<String> = reads.iter().map(|read| read.at.index.to_string()).collect();
        let (store, view) = (self.store.clone(), view.to_owned());
        let read = self.workers.run(move || store.read_staged(&view, &reads)).await;
        self.answer_when_durable(names.iter().map(String::as_str), read).await
    }

    async fn stage(&self, view: &str, writes: Vec<Stage>) -> Result<Vec<Outcome>> {
        let (store, view) = (self.store.clone(), view.to_owned());
        self.writers.run(move || store.stage(&view, writes)).await
    }

    async fn staged_documents(&self, view: &str) -> Result<Vec<Staged>> {
        let (store, view) = (self.store.clone(), view.to_owned());
        self.workers.run(move || store.staged_documents(&view)).await
    }

    async fn staged_bytes(&self, view: &str) -> Result<u64> {
        let (store, view) = (self.store.clone(), view.to_owned());
        self.workers.run(move || store.bytes_of_staging(&view)).await
    }
}

#[async_trait]
impl AtomicWrites for EmbeddedEngine {
    async fn unrefreshed_documents(
        &self,
        index: &IndexName,
        position: CommitSeq,
        most: usize,
    ) -> Result<Option<Vec<Unrefreshed>>> {
        // Every durable operation is pending or in a built set.
        self.store.log.durable(position).await?;
        self.store
            .unrefreshed_documents(index, most)
            .map_err(|e| self.store.settle(e))
    }

    async fn wait_exclusive_durable(&self) -> Result<()> {
        let durable = self.store.write_path.gate_altered_to();
        self.wait(WaitFor { durable, written: 0 }).await
    }

    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        let settled = loop {
            let waits = self.room().await;
            // Reading and judging many documents takes long enough for others to wait for this thread.
            let settled = match how.touches.len() > INLINE_WRITES {
                true => blocking::aside(|| self.store.decide(plan, &how)),
                false => self.store.decide(plan, &how),
            };
            // Others may have taken the room that was there at the beginning.
            if !(waits && settled.outcomes.as_ref().is_err_and(lacks_room)) {
                break settled;
            }
        };
        // The record's own place, else that of the newest.
        let commit_seq = settled.place.unwrap_or_else(|| self.store.log.end_position());
        let waited = self.wait(settled.after).await;
        let outcomes = match (settled.outcomes, &waited) {
            // A refusal, or an answer out of what was read, rests on it as a write does.
            (Err(refused), Err(_)) if is_of_the_moment(refused.kind()) => return Err(refused),
            (Err(_), Err(e)) => return Err(e.clone()),
            (outcomes, _) => outcomes?,
        };
        if let Err(e) = waited {
            if e.kind() != ErrorKind::LogFailed || outcomes.is_empty() {
                return Err(e);
            }
            let outcomes = outcomes.iter().map(|_| Outcome::Unknown).collect();
            return Ok(TxnResult { commit_seq, outcomes });
        }
        if !settled.moved.is_empty() {
            let (store, end) = (self.store.clone(), settled.after.durable);
            let (moved, numbers) = (settled.moved, settled.numbers.clone());
            self.workers.run(move || store.show_record(&moved, &numbers, end)).await?;
        }
        if !settled.numbers.is_empty() {
            let mut numbers = settled.numbers;
            numbers.sort_unstable();
            numbers.dedup();
            let end = settled.after.durable.max(settled.after.written);
            self.make_searchable(numbers, end, how.refresh).await?;
        }
        Ok(TxnResult { commit_seq, outcomes })
    }

    async fn look(&self, look: &mut Looker<'_>) {
        blocking::aside(|| self.store.look(look));
    }
}
