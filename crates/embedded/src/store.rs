//! The parts of the engine and how they hang together: one [`Store`] a folder.
//!
//! Lock order: gate → stripes (ascending) → catalog → sequencer; apart from these, an index's build lock → publish.
//! The shards of the version map are leaves.
//!
//! Not here: what is done with them (`evaluate`, `publish`, `merging`, `checkpoint`, `recovery`).

use crate::background_failures::Work;
use crate::caches::Caches;
use crate::catalog::{Catalog, IndexEntry};
use crate::catalog_cell::CatalogCell;
use crate::consumers::Consumers;
use crate::deleted_indices::DeletedIndices;
use crate::environment::Environment;
use crate::feed_tail::FeedTail;
use crate::index_state::{IndexState, IndexTable};
use crate::log::{FolderLock, Log, Manifest};
use crate::maintenance::Maintenance;
use crate::open_views::OpenViews;
use crate::publication::Publication;
use crate::segment_account::SegmentAccount;
use crate::snapshot_work::SnapshotWork;
use crate::staged_view::StagingViews;
use crate::trees::Trees;
use crate::versions::Versions;
use crate::write_path::WritePath;
use model::{Error, ErrorKind, Result, settings};
use segment::directory::Place;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// One folder, open.
pub(crate) struct Store {
    pub(crate) env: Environment,
    pub(crate) log: Log,
    pub(crate) manifest: Manifest,
    pub(crate) catalog: CatalogCell,
    pub(crate) write_path: WritePath,
    pub(crate) versions: Versions,
    pub(crate) indices: IndexTable,
    pub(crate) publication: Publication,
    pub(crate) views: OpenViews,
    /// Views in which writes are staged.
    pub(crate) stagings: StagingViews,
    pub(crate) caches: Caches,
    /// The directories of `tree_path` fields.
    pub(crate) trees: Trees,
    pub(crate) segments: SegmentAccount,
    pub(crate) maintenance: Maintenance,
    /// Names of deleted indices, for the feed of changes.
    pub(crate) deleted_indices: DeletedIndices,
    pub(crate) feed_tail: FeedTail,
    /// Named readers of the feed.
    pub(crate) consumers: Consumers,
    /// Snapshots that are being written.
    pub(crate) snapshots: SnapshotWork,
    /// Starts after an end that was not clean.
    pub(crate) unclean: u64,
    /// Damage that the start found, in words.
    pub(crate) found_damage: Vec<String>,
    /// Scripts that were compiled since the process began.
    pub(crate) script_compilations: Arc<AtomicU64>,
    pub(crate) _lock: Option<FolderLock>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.env.dir().display())
    }
}

/// Is it the refusal of a bound that builds, checkpoints and the log move away from?
pub(crate) fn lacks_room(refusal: &Error) -> bool {
    let bounds = [settings::PENDING, settings::LOG_MAX, settings::LOG_QUEUE];
    let setting = refusal.details().get("setting").and_then(|setting| setting.as_str());
    refusal.kind() == ErrorKind::RejectedExecution && bounds.iter().any(|bound| Some(bound.name) == setting)
}

impl Store {
    /// The state of an index that the catalog knows.
    pub(crate) fn state(&self, entry: &IndexEntry) -> Result<Arc<IndexState>> {
        let state = self
            .indices
            .get(entry.no)
            .ok_or_else(|| engine::catalog::missing(entry.name.as_str()))?;
        state.check()?;
        Ok(state)
    }
    /// Is an index there, and not stopped for damage?
    pub(crate) fn is_sound(&self, no: u32) -> bool {
        self.indices.get(no).is_some_and(|state| state.check().is_ok())
    }
    /// May anything be written at all?
    pub(crate) fn check_writable(&self) -> Result<()> {
        if let Some(why) = self.maintenance.refusal() {
            return Err(why);
        }
        match self.overfull() {
            None => Ok(()),
            Some((setting, have, limit)) => {
                self.maintenance.wake();
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
                if let Some(full) = self.maintenance.failures().want_of_room() {
                    return Err(Error::new(ErrorKind::DiskFull, format!("{reason}: {}", full.reason())));
                }
                Err(Error::new(ErrorKind::RejectedExecution, reason).with("setting", setting.name))
            }
        }
    }
    /// May a document be deleted? Deletes make room, so that a full disk does not refuse them; the log bounds them.
    pub(crate) fn check_deletable(&self) -> Result<()> {
        match self.check_writable() {
            Err(full) if full.kind() == ErrorKind::DiskFull && self.maintenance.refusal().is_none() => Ok(()),
            checked => checked,
        }
    }
    /// May writes be taken that can wait? A bulk stops here before it reaches the bounds that refuse.
    pub(crate) fn has_room(&self) -> bool {
        self.overfull().is_none() && !self.log.is_crowded()
    }
    /// The bound that writes have reached, with what there is and how much there may be.
    pub(crate) fn overfull(&self) -> Option<(settings::Setting, u64, u64)> {
        let rows = [
            (
                settings::PENDING,
                self.write_path.pending_bytes(),
                self.env.limits().pending_bytes,
            ),
            (
                settings::LOG_MAX,
                self.maintenance.unflushed_log().bytes(),
                self.env.limits().log_max_bytes,
            ),
        ];
        rows.into_iter().find(|(_, have, limit)| have > limit)
    }
    /// Work behind the scenes failed: kept, told, tried again later. Damage stops its index.
    pub(crate) fn trouble(&self, work: Work, no: u32, error: Error) {
        let error = self.settle(error);
        if error.kind() == ErrorKind::DiskFull {
            self.log.give_up_retained();
        }
        let entry = self.catalog.entry(no);
        let name = entry.as_ref().map(|entry| &entry.name);
        self.maintenance
            .failures()
            .record_failure(work, no, name, error, self.env.monotonic(), self.env.wall_ms());
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
        let states: Vec<Arc<IndexState>> = self.indices.all();
        let mut first = None;
        for state in states {
            let built = state.load_built();
            let Some(damage) = built.segments.iter().find_map(|segment| segment.data.damage()) else {
                continue;
            };
            let damage = damage.with("index", built.name.as_str());
            if state.stop(&damage) {
                crate::background_failures::tell(&format!("index [{}] is stopped: {}", built.name, damage.reason()));
                self.shelve(&state);
                first.get_or_insert(damage);
            }
        }
        first
    }
    /// Reads every byte of every segment; damage stops its index. What is in memory was never on a disk.
    pub(crate) fn check_segments(&self) {
        let states: Vec<Arc<IndexState>> = self.indices.all();
        for segment in states.iter().flat_map(|state| state.built_view().segments.clone()) {
            if let Place::File(file, prefix) = &segment.data.place {
                // It is noted in the file, where it is looked for next.
                drop(file.check(prefix));
            }
        }
        self.find_damage();
    }
    /// The pending operations of a stopped index leave memory; the log keeps them.
    fn shelve(&self, state: &IndexState) {
        self.write_path.subtract_pending(state.pending().clear());
        self.maintenance.mark_clean(state.no());
        self.versions.drop_index(state.no());
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
        Store {
            versions: Versions::new(manifest.folder_id()),
            caches: Caches::new(env.limits()),
            env,
            log,
            manifest,
            catalog: CatalogCell::new(catalog),
            write_path: WritePath::default(),
            indices: IndexTable::default(),
            publication: Publication::default(),
            views: OpenViews::default(),
            stagings: StagingViews::default(),
            trees: Trees::default(),
            segments: SegmentAccount::default(),
            maintenance: Maintenance::default(),
            deleted_indices: DeletedIndices::default(),
            feed_tail: FeedTail::default(),
            consumers: Consumers::default(),
            snapshots: SnapshotWork::default(),
            unclean,
            found_damage: Vec::new(),
            script_compilations: Arc::default(),
            _lock: lock,
        }
    }
    /// The position that an answer about these names or patterns waits for, as far as the catalog is concerned; 0: none.
    pub(crate) fn rests_on<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> u64 {
        self.catalog.rests_on(names, || self.log.durable_position())
    }
    /// Everything below is durable, and its operations are in the pending lists.
    pub(crate) fn durable_now(&self) -> u64 {
        self.write_path.durable_now(&self.log)
    }
    /// Views that nobody used for their keep alive are closed.
    pub(crate) fn expire_views(&self) {
        self.views.expire(self.env.monotonic());
    }
}
