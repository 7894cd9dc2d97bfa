//! Taking a snapshot: one moment of its indices, then their files, each once.
//!
//! Most of what is not in segments yet is built before the moment. At the moment the catalog stands still, and what came since is
//! built; then writes go on while files are copied out of sets that never change.
//!
//! Not here: the order in which a repository is written (`snapshot::Writer`).

use crate::catalog::restored::global_of;
use crate::catalog::{Catalog, IndexEntry};
use crate::checkpoint::live_bytes;
use crate::index_state::IndexState;
use crate::publish::FrozenSet;
use crate::snapshot_work::RunningSnapshot;
use crate::snapshots::pace::CopyPace;
use crate::snapshots::repositories::in_repository;
use crate::store::Store;
use engine::snapshots::SnapshotOrder;
use engine::tasks::Task;
use mapping::tree::Tree;
use model::settings::{NUMBER_OF_SHARDS, SNAPSHOT_MAX_CONCURRENT, number};
use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use snapshot::{Blob, Contents, IndexFailure, IndexPart, SegmentPart, State, Summary, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// An index at the moment of a snapshot.
struct FrozenIndex {
    entry: Arc<IndexEntry>,
    frozen: FrozenSet,
    tree: Option<Arc<Tree>>,
    /// The primary term of its last operation at most.
    term: u64,
}

/// The indices of a snapshot, all up to one position.
struct SnapshotMoment {
    position: u64,
    catalog: Arc<Catalog>,
    indices: Vec<FrozenIndex>,
    /// Those that cannot be read, with their shards.
    failures: Vec<(IndexFailure, u64)>,
}

impl Store {
    /// Checks an order and notes that it runs.
    ///
    /// # Errors
    /// As `engine::snapshots::Snapshots::begin`.
    pub(crate) fn begin_snapshot(&self, order: SnapshotOrder) -> Result<String> {
        let opened = self.open_repository(&order.repository)?;
        opened.check_writable("create snapshot in")?;
        self.root_of(&opened)?.check_free(&order.repository, &order.name)?;
        let catalog = self.catalog.now();
        let found = catalog.resolve(&order.target, self.env.wall_ms())?;
        if let Some(own) = found.iter().find(|one| one.entry.is_system()) {
            return Err(model::system_index::forbidden(own.entry.name.as_str()));
        }
        let most = catalog.cluster_number(SNAPSHOT_MAX_CONCURRENT);
        let snapshot = RunningSnapshot {
            uuid: engine::clock::uuid(self.env.clock()),
            start_ms: self.env.wall_ms(),
            given_up: AtomicBool::new(false),
            indices: found.iter().map(|one| one.entry.name.to_string()).collect(),
            shards: found.iter().map(|one| shards_of(&one.entry)).sum(),
            indices_done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
            order,
        };
        Ok(self.snapshots.begin(snapshot, most)?.uuid.clone())
    }

    /// Takes a snapshot that was begun.
    ///
    /// # Errors
    /// As `engine::snapshots::Snapshots::run`.
    pub(crate) fn run_snapshot(&self, uuid: &str, task: &Task) -> Result<Arc<Summary>> {
        let gone = || {
            Error::new(
                ErrorKind::SnapshotMissing,
                format!("no snapshot with uuid [{uuid}] was begun"),
            )
        };
        let running = self.snapshots.find(uuid).ok_or_else(gone)?;
        let (repository, name) = (&running.order.repository, &running.order.name);
        let taken = self.take_snapshot(&running, task).map_err(|e| match e.kind() {
            ErrorKind::SnapshotFailed => {
                Error::new(e.kind(), format!("[{repository}:{name}] {}", e.reason())).status_of(e.status())
            }
            _ => self.settle(e),
        });
        self.snapshots.end(uuid);
        taken
    }

    fn take_snapshot(&self, running: &RunningSnapshot, task: &Task) -> Result<Arc<Summary>> {
        let order = &running.order;
        let opened = self.open_repository(&order.repository)?;
        let lock = self.snapshots.writer_of(opened.files.place());
        let _alone = lock.lock();
        let pace = CopyPace {
            task,
            maintenance: &self.maintenance,
            given_up: Some(&running.given_up),
            rate: opened.snapshot_rate,
            begun: Instant::now(),
            moved: AtomicU64::new(0),
            told: Some(&running.bytes),
        };
        pace.check()?;
        let mut writer = self.writer(&opened, "create snapshot in")?;
        writer.root().check_free(&order.repository, &order.name)?;
        writer.begin_snapshot()?;
        let mut moment = self.snapshot_moment(order)?;
        let mut contents = Contents::default();
        for index in std::mem::take(&mut moment.indices) {
            pace.check()?;
            let told = json!({ "snapshot": order.name, "repository": order.repository, "index": index.entry.name.as_str(),
                "indices_done": contents.indices.len(), "indices": running.indices.len() });
            task.progress(told);
            match store_index(&mut writer, &index, &pace, running) {
                Ok(part) => contents.indices.push(part),
                Err(cause) if cause.kind() == ErrorKind::Corruption && order.partial => {
                    self.find_damage();
                    moment.failures.push(failure(&index.entry, &cause));
                }
                Err(cause) => return Err(cause),
            }
            running.indices_done.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(own) = &order.global {
            let mut global = global_of(&moment.catalog);
            global.insert("beside".to_owned(), Value::Object(own.clone()));
            contents.global = Some(Value::Object(global));
        }
        let summary = self.summary_of(running, &contents, &moment);
        let committed = writer.commit(summary, &contents);
        let (root, summary) = committed.map_err(|e| in_repository(&order.repository, e))?;
        self.snapshots.see(&order.repository, &root);
        Ok(summary)
    }

    fn summary_of(&self, running: &RunningSnapshot, contents: &Contents, moment: &SnapshotMoment) -> Summary {
        let shards: u64 = contents.indices.iter().map(|index| index.shards).sum();
        let failed: u64 = moment.failures.iter().map(|(_, shards)| shards).sum();
        Summary {
            state: if moment.failures.is_empty() {
                State::Success
            } else {
                State::Partial
            },
            end_ms: self.env.wall_ms().max(running.start_ms),
            indices: contents.indices.iter().map(|index| index.name.clone()).collect(),
            failures: moment.failures.iter().map(|(failure, _)| failure.clone()).collect(),
            shards: shards + failed,
            failed_shards: failed,
            // Records that begin there or later are not in it.
            commit_seq: moment.position.saturating_sub(1),
            ..running.summary()
        }
    }

    /// The indices of an order at one moment: everything durable now is in them.
    fn snapshot_moment(&self, order: &SnapshotOrder) -> Result<SnapshotMoment> {
        // Before anybody waits for the catalog.
        let early = self.catalog.now().resolve(&order.target, self.env.wall_ms())?;
        let states: Vec<Arc<IndexState>> = early.iter().filter_map(|one| self.state(&one.entry).ok()).collect();
        self.sets_at_once(|| sound(&states))?;
        let _altering = self.catalog.alter_alone();
        let catalog = self.catalog.now();
        self.log.wait_durable(self.catalog.alteration_end())?;
        let found = catalog.resolve(&order.target, self.env.wall_ms())?;
        let (mut entries, mut states, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for one in found {
            match self.state(&one.entry) {
                Ok(state) => {
                    entries.push(one.entry.clone());
                    states.push(state);
                }
                Err(cause) => failures.push(failure(&one.entry, &cause)),
            }
        }
        if !order.partial && !failures.is_empty() {
            let names: Vec<&str> = failures.iter().map(|(failure, _)| failure.index.as_str()).collect();
            let reason = format!("Indices don't have primary shards [{}]", names.join(", "));
            return Err(Error::new(ErrorKind::SnapshotFailed, reason));
        }
        let (frozen, position) = self.sets_at_once(|| states.clone())?;
        assert!(
            frozen.iter().all(|one| one.set.position <= position),
            "snapshots.md M1: a snapshot up to {position} has nothing of a later record"
        );
        assert!(
            frozen.len() == states.len() && entries.len() == states.len(),
            "snapshots.md M1: each index of a snapshot has its set"
        );
        assert!(
            !frozen.iter().any(|one| self.trees.removes_beyond(&one.set, position)),
            "snapshots.md M2: the tree of {position} removed a directory whose documents are in a set"
        );
        let indices = frozen.into_iter().zip(entries).zip(&states);
        let indices = indices.map(|((frozen, entry), state)| FrozenIndex {
            tree: self.trees.at(entry.no, position),
            term: state.term() + entry.turns,
            frozen,
            entry,
        });
        Ok(SnapshotMoment {
            position,
            indices: indices.collect(),
            catalog,
            failures,
        })
    }
}

/// Those that were not stopped meanwhile.
fn sound(states: &[Arc<IndexState>]) -> Vec<Arc<IndexState>> {
    states.iter().filter(|state| !state.is_stopped()).cloned().collect()
}

fn shards_of(entry: &IndexEntry) -> u64 {
    number(&entry.settings, NUMBER_OF_SHARDS)
}

fn failure(entry: &IndexEntry, cause: &Error) -> (IndexFailure, u64) {
    let failure = IndexFailure {
        index: entry.name.to_string(),
        reason: cause.reason().to_owned(),
    };
    (failure, shards_of(entry))
}

/// Stores the files of an index that are not stored yet.
fn store_index(writer: &mut Writer, index: &FrozenIndex, pace: &CopyPace<'_>, running: &RunningSnapshot) -> Result<IndexPart> {
    let FrozenIndex {
        entry,
        frozen,
        tree,
        term,
    } = index;
    let (mut new_files, mut new_bytes) = (0, 0);
    let mut note = |(blob, is_new): (Blob, bool)| {
        if is_new {
            new_files += 1;
            new_bytes += blob.bytes;
            running.files.fetch_add(1, Ordering::Relaxed);
        }
        blob
    };
    let (mut segments, mut beside) = (Vec::new(), Vec::new());
    for (n, view) in frozen.set.segments.iter().enumerate() {
        let uuid = view.data.uuid.uuid_string();
        let blob = match writer.find_blob(&uuid) {
            Some(blob) => blob,
            None => {
                let parts = view.data.components()?;
                let named = |ext: &String| format!("{}/{ext}", IndexPart::PREFIX);
                let components: Vec<(String, &[u8])> = parts.iter().map(|(ext, bytes)| (named(ext), &**bytes)).collect();
                note(writer.put(&components, pace)?)
            }
        };
        let has_deletions = view.reader.num_docs() < view.reader.max_doc();
        if has_deletions {
            beside.push((IndexPart::live(n), live_bytes(view)));
        }
        segments.push(SegmentPart {
            uuid,
            max_doc: view.data.max_doc,
            blob,
            has_deletions,
        });
    }
    let tree = tree.as_ref().filter(|tree| tree.seq() > 0);
    if let Some(tree) = tree {
        beside.push((IndexPart::TREE.to_owned(), tree.to_bytes()));
    }
    let components: Vec<(String, &[u8])> = beside.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
    let beside = match components.is_empty() {
        true => None,
        false => Some(note(writer.put(&components, pace)?)),
    };
    Ok(IndexPart {
        name: entry.name.to_string(),
        entry: entry.to_json(),
        next_seq_no: frozen.next_seq_no,
        term: *term,
        shards: shards_of(entry),
        segments,
        beside,
        has_tree: tree.is_some(),
        new_files,
        new_bytes,
    })
}
