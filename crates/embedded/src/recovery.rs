//! A start: the manifest's sets, then the records of the log beyond them.
//!
//! Every part above its index's `flushed` position goes to the version map and the pending list again, in log
//! order; parts of deleted indices are skipped. Damage stops the indices it touches; damage of the catalog (or
//! of nobody knows whom) stops the folder. A repair goes on without what is damaged.
//!
//! Not here: classifying bad frames (`log`), what damage of the manifest costs (`damage`).

use crate::catalog::system::{OLD_TERM_BITS, OLD_TERMS_ALL};
use crate::catalog::{Catalog, IndexEntry};
use crate::checkpoint::{Reached, files_of, read_set, read_tree, without_damage};
use crate::checkpoint_state::CheckpointState;
use crate::damage::{Damages, FOLDER, FolderContent, OpenMode, check_manifest};
use crate::environment::{Environment, Limits};
use crate::index_state::IndexState;
use crate::lock_order::Mutex;
use crate::log::{FolderLock, Log, LogOptions, Manifest, Part, Recovered, Replayed, Verdict};
use crate::pending::{Extras, Kind, PendingOp, Put, read_extras};
use crate::publish::PartBytes;
use crate::restored_set::{RESTORED, RestoredSet};
use crate::store::Store;
use crate::versions::Newest;
use disk::Disk;
use engine::Clock;
use model::{Error, ErrorKind, Result, Stamp};
use segment::directory::DataFile;
use segment::hidden_mark::mark_bytes;
use segment::searchable::{IndexView, Searchable};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// While replaying, an index is built when so much of it is pending.
const BUILD_AT_BYTES: u64 = 11 << 20;

impl Store {
    /// Opens a folder; one that is not there is made.
    ///
    /// # Errors
    /// A folder in use, damage that concerns all of it, a failing disk.
    pub(crate) fn open(
        dir: &Path,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        limits: Limits,
        exclusive: bool,
        mode: OpenMode,
    ) -> Result<Store> {
        disk::show_relative_to(dir);
        disk.create_dir(dir).map_err(|e| disk::refusal("making", dir, &e))?;
        let lock = if exclusive { Some(FolderLock::acquire(dir)?) } else { None };
        check_manifest(dir, disk.as_ref())?;
        let mut damages = Damages::new(mode);
        let (manifest, entries) = Manifest::open(dir, disk.clone())?;
        let FolderContent {
            folder,
            indices,
            lost,
            writes,
        } = damages.read_manifest(&entries)?;
        let flushed = folder["flushed"].as_u64().unwrap_or(0);
        let checkpointed = folder["checkpointed"].as_u64().unwrap_or(0);
        let (log, recovered) = Log::open(&dir.join("log"), disk.clone(), log_options(&manifest, &folder, &limits))?;
        let first = folder.is_null();
        let unclean = folder["unclean"].as_u64().unwrap_or(0) + u64::from(!first && folder["clean"] != true);
        let (catalog, bodies) = catalog_of(&folder, indices, &lost);
        let env = Environment::new(dir.to_owned(), disk, clock, limits);
        let mut store = Store::assemble(env, log, manifest, catalog, unclean, lock);
        store
            .env
            .disk()
            .create_dir(store.env.segments_dir())
            .map_err(|e| disk::refusal("making", store.env.segments_dir(), &e))?;
        store
            .segments
            .begin_at(folder["next_segment"].as_u64().unwrap_or(1) + 1_000_000);
        store.deleted_indices.read_json(&folder["deleted"]);
        store.consumers.read_json(&folder["consumers"]);
        let (positions, unnamed) = store.open_sets(bodies, &lost, flushed, &folder, &mut damages)?;
        tell_log(&mut damages, &recovered.verdict, recovered.torn_bytes);
        let stopped = store.weigh(&recovered.verdict, &positions, checkpointed, &mut damages)?;
        store.replay_log(&recovered, &folder, positions, stopped, &mut damages)?;
        store.remove_unreplayed(&unnamed);
        if damages.is_repair() {
            store.put_aside(&recovered.unreadable, &mut damages);
        }
        store.begin_run(&folder, &recovered, writes)?;
        store.keep_unread();
        // Files of which nothing was replayed.
        store.log.truncate_below(flushed)?;
        store.found_damage = damages.told;
        Ok(store)
    }

    /// Applies the records of the log beyond the manifest's sets. Stops the indices that lost records (`stopped`), and those
    /// whose records cannot be applied.
    fn replay_log(
        &self,
        recovered: &Recovered,
        folder: &Value,
        positions: HashMap<u32, u64>,
        stopped: HashMap<u32, Error>,
        damages: &mut Damages,
    ) -> Result<()> {
        let stop = |no: u32, error: &Error| {
            if let Some(state) = self.indices.get(no) {
                state.stop(error);
            }
        };
        stopped.iter().for_each(|(no, error)| stop(*no, error));
        let flushed = folder["flushed"].as_u64().unwrap_or(0);
        let mut replay = Replay {
            store: self,
            flushed,
            positions,
            failed: stopped,
            unread: Vec::new(),
            gone: HashSet::new(),
            damages,
            end: flushed,
        };
        recovered.replay(flushed, |replayed| replay.apply(replayed))?;
        let (mut failed, gone, damages) = (replay.failed, replay.gone, replay.damages);
        for (no, error) in replay.unread {
            if let Some(entry) = self.catalog.entry(no) {
                damages.tell(format!("index [{}] is stopped: {}", entry.name, error.reason()));
                failed.insert(no, error);
            }
        }
        let first_new = folder["common"]["next_no"].as_u64().unwrap_or(1);
        for (no, error) in &failed {
            // Nobody knows its name, so nobody could tell it from one that was never there.
            if u64::from(*no) >= first_new && !gone.contains(no) && self.catalog.now().by_no(*no).is_none() {
                damages.give_up(error.clone(), "an index that was made there is lost")?;
            }
        }
        self.numbers_go_on();
        for no in self.trees.numbers() {
            self.show_replayed(no)?;
        }
        for entry in self.catalog.now().indices.values() {
            let state = self.indices.get(entry.no);
            if state.is_some_and(|state| {
                let built = state.load_built();
                !Arc::ptr_eq(&built.settings, &entry.settings) || !Arc::ptr_eq(&built.schema, &entry.schema)
            }) {
                self.realign(entry)?;
            }
        }
        failed.iter().for_each(|(no, error)| stop(*no, error));
        Ok(())
    }

    /// From here on the folder counts as open: an end without a clean checkpoint is an unclean one.
    fn begin_run(&self, folder: &Value, recovered: &Recovered, writes: Vec<(String, Option<Vec<u8>>)>) -> Result<()> {
        let number = |name: &str| folder[name].as_u64().unwrap_or(0);
        let reached = Reached {
            flushed: number("flushed"),
            checkpointed: number("checkpointed"),
            log_end: number("log_end").max(recovered.end),
        };
        let next_file = self.maintenance.lock_checkpoint().next_file();
        let body = self.folder_json(&reached, next_file, false).to_string().into_bytes();
        let mut entries = vec![(FOLDER.to_owned(), Some(body))];
        entries.extend(writes);
        match self.manifest.write(entries) {
            // It is said with the next checkpoint: reads and deletes come before.
            Err(e) if e.kind() == ErrorKind::DiskFull => {
                crate::background_failures::tell(e.reason());
                Ok(())
            }
            written => written,
        }
    }

    /// Log files that cannot be read are kept for whoever wants to look at them, under names that no start reads.
    fn put_aside(&self, unreadable: &[PathBuf], damages: &mut Damages) {
        for path in unreadable {
            let mut aside = path.clone().into_os_string();
            aside.push(".damaged");
            let aside = PathBuf::from(aside);
            let (from, to) = (disk::display_path(path), disk::display_path(&aside));
            match self.env.disk().rename(path, &aside) {
                Ok(()) => damages.tell(format!("[{from}] is now [{to}]")),
                Err(cause) => damages.tell(format!("[{from}] could not be renamed to [{to}]: {cause}; remove it by hand")),
            }
        }
    }

    /// Opens the manifest's sets; gives each index's `flushed` position, and the files of restored indices that the manifest does
    /// not name. A damaged index is stopped.
    fn open_sets(
        &self,
        bodies: Vec<(IndexEntry, Value)>,
        lost: &[(IndexEntry, Error)],
        flushed: u64,
        folder: &Value,
        damages: &mut Damages,
    ) -> Result<(HashMap<u32, u64>, Vec<String>)> {
        let mut files = OpenFiles::default();
        let mut positions = HashMap::new();
        let mut indices = HashMap::new();
        for (entry, body) in &bodies {
            let position = body["flushed"].as_u64().unwrap_or(0).max(flushed);
            positions.insert(entry.no, position);
            let state = self.open_set(entry, body, position, &mut files, damages);
            indices.insert(entry.no, state.built_view());
            self.indices.insert(state);
        }
        for (entry, error) in lost {
            let state = IndexState::new(entry.no, 1 + self.unclean, self.blank_view(entry, flushed), flushed);
            state.stop(error);
            indices.insert(entry.no, state.built_view());
            positions.insert(entry.no, flushed);
            self.indices.insert(Arc::new(state));
        }
        debug_assert!(
            indices
                .values()
                .all(|set| set.segments.iter().all(|segment| segment.id < self.segments.next_number())),
            "search.md S19: new segments get numbers that the manifest does not have"
        );
        self.publication.open(Searchable {
            indices,
            position: flushed,
        });
        // Nobody knows which files an index has whose entry is lost.
        let mut unnamed = Vec::new();
        if lost.is_empty() {
            let named: HashSet<&str> = bodies.iter().flat_map(|(_, body)| files_of(body)).collect();
            unnamed = self.remove_unnamed(&named)?;
        }
        *self.maintenance.lock_checkpoint() = CheckpointState::of_manifest(
            flushed,
            self.env.monotonic(),
            positions.keys().copied().collect(),
            files.0.into_values().collect(),
            folder["next_file"].as_u64().unwrap_or(0),
        );
        Ok((positions, unnamed))
    }

    /// Removes the files that the manifest does not name: a process ended before it named them. Those of restored indices are
    /// given back: a record of the log may name them.
    fn remove_unnamed(&self, named: &HashSet<&str>) -> Result<Vec<String>> {
        let dir = self.env.segments_dir();
        let there = self.env.disk().list(dir).map_err(|e| disk::refusal("listing", dir, &e))?;
        let unnamed = there.into_iter().filter(|name| !named.contains(name.as_str()));
        let (restored, others): (Vec<String>, Vec<String>) = unnamed.partition(|name| name.starts_with(RESTORED));
        for name in others {
            // If it cannot be removed now, the next start tries again.
            drop(self.env.disk().remove(&dir.join(name)));
        }
        Ok(restored)
    }

    /// Removes the files that no record of the log named either: a restore did not come to its end, or its index is gone.
    fn remove_unreplayed(&self, unnamed: &[String]) {
        let kept = self.maintenance.lock_checkpoint().restored_files(&self.catalog.now());
        for name in unnamed.iter().filter(|name| !kept.iter().any(|file| file.name == **name)) {
            // If it cannot be removed now, the next start tries again.
            drop(self.env.disk().remove(&self.env.segments_dir().join(name)));
        }
    }

    /// The state of one index as its entry in the manifest says. It is stopped if its segments cannot be read.
    fn open_set(
        &self,
        entry: &IndexEntry,
        body: &Value,
        position: u64,
        files: &mut OpenFiles,
        damages: &mut Damages,
    ) -> Arc<IndexState> {
        let mut open_file = |name: &str| files.open(self, name);
        let repaired = damages
            .is_repair()
            .then(|| without_damage(body, entry, &mut open_file, damages));
        let count = |body: &Value| body["segments"].as_array().map(Vec::len);
        // Segments that a repair took out leave the manifest with the next checkpoint.
        let is_whole = repaired.as_ref().is_none_or(|repaired| count(repaired) == count(body));
        let body = repaired.as_ref().unwrap_or(body);
        let set = read_tree(body, &mut open_file).and_then(|tree| {
            tree.into_iter().for_each(|tree| self.trees.put(entry.no, tree));
            read_set(body, entry, &mut open_file, &self.caches.of_index(entry.no).derived)
        });
        let (segments, problem) = match set {
            Ok(segments) => (segments, None),
            Err(e) => {
                let e = files.damage_of(body).unwrap_or(e);
                damages.tell(format!("index [{}] is stopped: {}", entry.name, e.reason()));
                (Vec::new(), Some(e))
            }
        };
        let view = IndexView {
            segments,
            ..self.blank_view(entry, position)
        };
        let term = 1 + self.unclean - entry.unclean_before.min(self.unclean);
        let state = IndexState::new(entry.no, term, view, position);
        if let Some(problem) = &problem {
            state.stop(problem);
        }
        if is_whole {
            state.set_flushed(&state.built_view(), entry.revision);
        }
        let buried = self.replay_tombstones(entry.no, body);
        // Tombstones may be newer than the set: where a repair leaves out the log, their numbers are not given again.
        let next_seq_no = body["next_seq_no"].as_u64().max(entry.first_seq_no).max(buried);
        state.pending().begin_at(next_seq_no.unwrap_or(0));
        Arc::new(state)
    }

    /// Puts the tombstones of an index into the version map; gives the sequence number behind the newest.
    fn replay_tombstones(&self, no: u32, body: &Value) -> Option<u64> {
        let now = self.env.now_ms();
        let mut behind = None;
        for tombstone in body["tombstones"].as_array().into_iter().flatten() {
            let number = |n: usize| tombstone[n].as_u64().unwrap_or(0);
            let Some(key) = tombstone[0].as_str().and_then(|hex| u128::from_str_radix(hex, 16).ok()) else {
                continue;
            };
            let stamp = Stamp {
                seq_no: number(1),
                version: number(2),
                primary_term: number(3),
            };
            let deleted = Newest::Deleted {
                stamp,
                position: 0,
                since_ms: Some(now),
            };
            self.versions.replay(key, no, deleted);
            behind = behind.max(stamp.seq_no.checked_add(1));
        }
        behind
    }

    /// The numbers of commits and locks are made of sequence numbers of the indices that the server keeps itself. Folders
    /// of before numbered by term × 2^40 + sequence number, which reached 2^53 after 8,000 unclean starts; now a
    /// term counts for 2^20. Once a folder, the sequence numbers of such an index that an old version made begin behind all
    /// numbers of before; one that this version made knows where its own begin.
    fn numbers_go_on(&self) {
        let catalog = self.catalog.now();
        let own = catalog
            .indices
            .values()
            .filter(|entry| entry.name.as_str().starts_with(".pleach-"));
        for entry in own {
            let Some(state) = self.indices.get(entry.no) else {
                continue;
            };
            let mut pending = state.pending();
            let next = pending.next_seq_no();
            if entry.first_seq_no.is_none() && next < 1 << OLD_TERM_BITS {
                pending.begin_at(next + ((state.term() + entry.turns).min(OLD_TERMS_ALL) << OLD_TERM_BITS));
            }
        }
    }

    /// The errors that damage of the log means for some indices, or for all.
    fn weigh(
        &self,
        verdict: &Verdict,
        positions: &HashMap<u32, u64>,
        checkpointed: u64,
        damages: &mut Damages,
    ) -> Result<HashMap<u32, Error>> {
        let mut stopped = HashMap::new();
        let Verdict::Corrupt(found) = verdict else {
            return Ok(stopped);
        };
        for damage in found {
            // At the last checkpoint the manifest had the whole catalog and every index but those that were stopped.
            let is_anyones = damage.whole_folder && damage.end > checkpointed;
            if is_anyones {
                damages.log_lost(damage)?;
                continue;
            }
            let error = Error::new(ErrorKind::Corruption, damage.reason.clone())
                .with("path", disk::display_path(&damage.path))
                .with("offset", damage.offset);
            let mut touched: Vec<u32> = damage.indices.iter().copied().collect();
            if damage.whole_folder {
                touched = positions.keys().copied().collect();
            }
            for no in touched {
                if positions.get(&no).is_some_and(|flushed| *flushed >= damage.end) {
                    continue;
                }
                let name = self.catalog.now().by_no(no).map(|entry| entry.name.clone());
                let what = name.map_or_else(|| format!("index number {no}"), |name| format!("index [{name}]"));
                if damages.is_repair() {
                    damages.give_up(error.clone(), &format!("what was written to {what} there is lost"))?;
                    continue;
                }
                damages.tell(format!("{what} is stopped: {}", error.reason()));
                stopped.insert(no, error.clone());
            }
        }
        Ok(stopped)
    }
}

/// The catalog of the manifest, and the entry of each index with its body.
fn catalog_of(
    folder: &Value,
    indices: Vec<(IndexEntry, Value)>,
    lost: &[(IndexEntry, Error)],
) -> (Catalog, Vec<(IndexEntry, Value)>) {
    let mut catalog = Catalog::default();
    catalog.take_common(&folder["common"]);
    let mut bodies: Vec<(IndexEntry, Value)> = Vec::new();
    for (entry, body) in indices {
        let no = entry.no;
        catalog.put(entry);
        bodies.extend(catalog.by_no(no).map(|entry| ((**entry).clone(), body)));
    }
    for (entry, _) in lost {
        catalog.put(entry.clone());
    }
    (catalog, bodies)
}

/// The segment files that a start has opened, by name.
#[derive(Default)]
struct OpenFiles(HashMap<String, Arc<DataFile>>);

impl OpenFiles {
    fn open(&mut self, store: &Store, name: &str) -> Result<Arc<DataFile>> {
        if let Some(file) = self.0.get(name) {
            return Ok(file.clone());
        }
        let file = DataFile::open(store.env.disk(), store.env.segments_dir(), name, true)?;
        self.0.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    /// The damage itself, if it was found under a reader that only says that it failed.
    fn damage_of(&self, body: &Value) -> Option<Error> {
        let segments = body["segments"].as_array().into_iter().flatten();
        let mut places = segments.filter_map(|segment| Some((segment["file"].as_str()?, segment["prefix"].as_str()?)));
        places.find_map(|(file, prefix)| self.0.get(file)?.damage(prefix))
    }
}

/// The options of the log, by the manifest.
fn log_options(manifest: &Manifest, folder: &Value, limits: &Limits) -> LogOptions {
    let mut options = LogOptions::new(manifest.folder_id(), folder["flushed"].as_u64().unwrap_or(0));
    options.least_end = folder["log_end"].as_u64().unwrap_or(0);
    options.least_file = folder["log_file"].as_u64().unwrap_or(0);
    options.is_closed = folder["clean"] == true && options.least_end > 0;
    options.file_bytes = limits.log_file_bytes;
    options.queue_max_bytes = limits.queue_bytes.min(limits.log_file_bytes / 2);
    options.retention = limits.retention;
    options
}

/// Tells whoever runs the server how a start found the log.
fn tell_log(damages: &mut Damages, verdict: &Verdict, torn_bytes: u64) {
    if torn_bytes > 0 {
        damages.tell(format!(
            "the log's torn tail of [{torn_bytes}] bytes was cut: it was being written when the last process ended, and was \
             not acknowledged"
        ));
    }
    if let Verdict::Corrupt(found) = verdict {
        for damage in found {
            damages.tell(format!("the log is damaged: {}", damage.reason));
        }
    }
}

struct Replay<'a> {
    store: &'a Store,
    flushed: u64,
    positions: HashMap<u32, u64>,
    failed: HashMap<u32, Error>,
    /// Restored indices whose files cannot be read, unless the log deletes them later.
    unread: Vec<(u32, Error)>,
    /// Indices that the log deletes.
    gone: HashSet<u32>,
    damages: &'a mut Damages,
    /// The position after the last record.
    end: u64,
}

/// A logged document, under the mapping of its place in the log.
fn put_of(mapping: mapping::Mapping, source: Arc<[u8]>, routing: Option<Box<str>>, extras: Extras) -> Put {
    let hidden = extras.hidden.map(|mark| {
        let bytes = mark_bytes(&mark);
        (mark, bytes)
    });
    Put {
        mapping,
        source,
        routing,
        parent: extras.parent,
        times: extras.times,
        placed: extras.placed,
        hidden,
        parsed: Mutex::default(),
    }
}

impl Replay<'_> {
    fn apply(&mut self, replayed: Replayed) -> Result<()> {
        let end = replayed.end;
        assert!(
            self.end <= replayed.start && replayed.start < end,
            "1.1: a record at {} is replayed after one that ends at {}",
            replayed.start,
            self.end
        );
        self.end = end;
        let mut touched: Vec<u32> = Vec::new();
        self.store.maintenance.set_replayed(true);
        for part in replayed.record.parts {
            match part {
                Part::Alter { index_no, delta } => self.alter(index_no, &delta, replayed.start)?,
                Part::Put {
                    index_no,
                    seq_no,
                    version,
                    term,
                    uid,
                    routing,
                    hidden,
                    source,
                    ..
                } => {
                    let stamp = Stamp {
                        seq_no,
                        primary_term: term,
                        version,
                    };
                    let extras = read_extras(hidden.as_deref());
                    let put = |mapping| Kind::Put(put_of(mapping, source, routing, extras));
                    self.operation(index_no, uid, stamp, end, &mut touched, put)?;
                }
                Part::Delete {
                    index_no,
                    seq_no,
                    version,
                    term,
                    uid,
                    ..
                } => {
                    let stamp = Stamp {
                        seq_no,
                        primary_term: term,
                        version,
                    };
                    self.operation(index_no, uid, stamp, end, &mut touched, |_| Kind::Delete)?;
                }
            }
        }
        if touched.len() > 1 {
            self.store.publication.add_shared(end, touched);
        }
        Ok(())
    }

    fn alter(&mut self, index_no: u32, delta: &[u8], start: u64) -> Result<()> {
        let delta: Value =
            serde_json::from_slice(delta).map_err(|e| Error::new(ErrorKind::Corruption, format!("a logged delta: {e}")))?;
        if self.store.consumers.replay(&delta) {
            return Ok(());
        }
        if let Some(tree) = delta.get("tree") {
            if !self.store.indices.contains(index_no) {
                return Ok(());
            }
            let replayed = self.store.trees.replay(index_no, tree);
            if let (Err(cause), Some(entry)) = (replayed, self.store.catalog.entry(index_no)) {
                self.stop(index_no, &entry.name, "its directories", &cause);
            }
            return Ok(());
        }
        let mut catalog = (*self.store.catalog.now()).clone();
        let before = catalog.by_no(index_no).cloned();
        let gone = match catalog.apply(&delta) {
            Ok(gone) => gone,
            // No alteration of names and aliases can be left out.
            Err(cause) if index_no == 0 => return Err(cause),
            Err(cause) => {
                let name = self.store.catalog.now().by_no(index_no).map(|entry| entry.name.clone());
                let name = name.unwrap_or_else(|| model::IndexName::new(format!("index {index_no}")));
                self.stop(index_no, &name, "its mapping or settings", &cause);
                return Ok(());
            }
        };
        let new: Vec<Arc<IndexEntry>> = catalog
            .indices
            .values()
            .filter(|entry| !self.store.indices.contains(entry.no))
            .cloned()
            .collect();
        self.store.catalog.show_replayed(catalog);
        for entry in new {
            match delta.get("restored").filter(|_| entry.no == index_no) {
                Some(body) => self.begin_restored(&entry, body, start),
                // Documents of the same record are still to be built.
                None => self.store.begin_index(&entry, start, start),
            }
            self.positions.insert(entry.no, self.flushed);
        }
        if let Some(no) = gone {
            if let Some(entry) = &before {
                self.store.deleted_indices.add(entry, self.end);
            }
            self.gone.insert(no);
            self.store.forget_index(no);
        }
        Ok(())
    }

    /// An index that was made out of a snapshot: its record names its files.
    fn begin_restored(&mut self, entry: &IndexEntry, body: &Value, start: u64) {
        let store = self.store;
        match RestoredSet::read(store, entry, body) {
            Ok((set, files)) => {
                store.begin_restored(entry, set, start, start);
                store.maintenance.lock_checkpoint().keep_restored(entry.no, files);
                store.maintenance.set_replayed(true);
            }
            Err(error) => {
                store.begin_index(entry, start, start);
                self.unread.push((entry.no, error.with("index", entry.name.as_str())));
            }
        }
    }

    /// A record of this index cannot be applied: it stops, the others go on, and the log keeps what it needs.
    fn stop(&mut self, no: u32, name: &model::IndexName, uid: &str, cause: &Error) {
        let reason = format!("a logged operation on [{name}][{uid}] cannot be applied: {}", cause.reason());
        if self.damages.is_repair() {
            self.damages.tell(format!("{reason}: it is left out"));
            return;
        }
        self.damages.tell(format!("index [{name}] is stopped: {reason}"));
        let error = Error::new(ErrorKind::Corruption, reason).with("index", name.as_str());
        if let Some(state) = self.store.indices.get(no) {
            state.stop(&error);
        }
        self.failed.entry(no).or_insert(error);
    }

    fn operation(
        &mut self,
        no: u32,
        uid: Box<str>,
        stamp: Stamp,
        end: u64,
        touched: &mut Vec<u32>,
        kind: impl FnOnce(mapping::Mapping) -> Kind,
    ) -> Result<()> {
        let store = self.store;
        let Some(state) = store.indices.get(no) else {
            return Ok(());
        };
        // The log keeps the operations of a damaged index: once its files are sound again they are replayed.
        if self.positions.get(&no).is_some_and(|flushed| end <= *flushed) || state.is_stopped() {
            return Ok(());
        }
        let Some(entry) = store.catalog.entry(no) else {
            return Ok(());
        };
        let mapping = match entry.replayed_mapping(&uid) {
            Ok(mapping) => mapping,
            Err(cause) => {
                self.stop(no, &entry.name, &uid, &cause);
                return Ok(());
            }
        };
        if !touched.contains(&no) {
            touched.push(no);
        }
        let kind = kind(mapping);
        let key = store.versions.key(no, &uid);
        let op = Arc::new(PendingOp {
            uid,
            key,
            fresh: false,
            stamp,
            position: end,
            kind,
        });
        store.versions.replay(key, no, Newest::of(&op));
        let bytes = op.bytes();
        let due = {
            let mut pending = state.pending();
            pending.replay(op);
            pending.bytes() > BUILD_AT_BYTES
        };
        store.write_path.add_pending(bytes);
        store.maintenance.unflushed_log().add(bytes, 1, store.env.monotonic());
        store.maintenance.mark_dirty([no]);
        // The record may go on; what is built is what came before it.
        if due && let Err(e) = store.build_to(&state, end.saturating_sub(1), PartBytes::Waited) {
            let error = store.settle(e);
            if state.check().is_ok() {
                return Err(error);
            }
        }
        Ok(())
    }
}
