//! Checkpoints: built sets go to files that the manifest names, so that the log can be cut.
//!
//! Order: files synced → folder synced → manifest written → log cut → files that nobody names removed.
//! An index's `flushed` position is an exact prefix of the log.
//!
//! Not here: reading it again (`recovery`).

use crate::background_failures::Work;
use crate::catalog::{Catalog, IndexEntry};
use crate::checkpoint_state::CheckpointState;
use crate::counts::share;
use crate::damage::{Damages, FOLDER, ManifestWrite, index_key, name_entry, removals};
use crate::index_state::IndexState;
use crate::publish::PartBytes;
use crate::store::Store;
use mapping::tree::Tree;
use model::{Error, ErrorKind, Result};
use segment::derived::Account;
use segment::directory::{self, DataFile, Place, SegmentData};
use segment::searchable::IndexView;
use segment::segment_view;
use segment::segment_view::SegmentView;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tantivy::directory::OwnedBytes;
use tantivy::fastfield::write_alive_bitset;

impl Store {
    /// Makes everything durable now part of segments that the manifest names. `clean`: the process ends.
    pub(crate) fn checkpoint(&self, clean: bool) -> Result<()> {
        let mut last = self.maintenance.lock_checkpoint();
        let unflushed = self.maintenance.unflushed_log().take(self.env.monotonic());
        let mut done = self.flush(&mut last, clean);
        // Deleted indices give their files back before others need room.
        if done.as_ref().is_err_and(|e| e.kind() == ErrorKind::DiskFull) && self.drop_deleted(&mut last).unwrap_or(false) {
            done = self.flush(&mut last, clean);
        }
        match &done {
            // The records that were counted are still not flushed.
            Err(_) => self.maintenance.unflushed_log().give_back(unflushed),
            Ok(()) => {
                self.maintenance.set_replayed(false);
                self.maintenance.announce_room();
            }
        }
        if let Err(e) = &done
            && e.kind() == ErrorKind::LogFailed
        {
            self.maintenance.refuse_writes(e);
        }
        done
    }

    /// Takes deleted indices out of the manifest, which has room written ahead, and removes their files. True if there
    /// were any.
    fn drop_deleted(&self, last: &mut CheckpointState) -> Result<bool> {
        let catalog = self.catalog.now();
        self.log.wait_durable(self.catalog.alteration_end())?;
        let gone = last.deleted_indices(&catalog);
        if gone.is_empty() {
            return Ok(false);
        }
        self.manifest.write(entries_of_gone(&gone))?;
        last.name_indices([], &gone);
        let kept = last.restored_files(&catalog);
        self.name_files(last, kept, &self.indices.all());
        Ok(true)
    }

    fn flush(&self, last: &mut CheckpointState, clean: bool) -> Result<()> {
        let begun = Instant::now();
        let limit = self.durable_now();
        // The catalog of the flush's beginning: an index that is deleted meanwhile stays until the next checkpoint.
        let catalog = self.catalog.now();
        self.log.wait_durable(self.catalog.alteration_end())?;
        let states: Vec<Arc<IndexState>> = self.indices.all();
        let (changed, keep) = self.build_all(&states, &catalog, limit, last.needed_position())?;
        let gone = last.deleted_indices(&catalog);
        if changed.is_empty() && gone.is_empty() && last.flushed_position() >= limit && !clean {
            return Ok(());
        }
        // No file is left behind for a manifest that takes nothing any more.
        if let Some(failed) = self.manifest.failure() {
            return Err(failed);
        }
        let name = format!(
            "checkpoint-{:012}-{:08x}",
            last.take_file_number(),
            self.env.clock().random() as u32
        );
        let file = self.write_file(&name, &changed)?;
        assert!(
            changed.iter().all(|one| one.has_its_parts_in(file.as_deref())),
            "7: file [{name}] lacks live documents or a tree that the manifest is to find there"
        );
        let mut new_files: Vec<Arc<DataFile>> = file.iter().cloned().collect();
        let mut entries = entries_of_gone(&gone);
        entries.extend(self.manifest_entries(last, &changed, &name, &mut new_files)?);
        let reached = Reached {
            flushed: keep,
            checkpointed: limit,
            log_end: limit,
        };
        let folder = self.folder_json(&reached, last.next_file(), clean);
        entries.push((FOLDER.into(), Some(folder.to_string().into_bytes())));
        self.env
            .disk()
            .sync_dir(self.env.segments_dir())
            .map_err(|e| disk::refusal("syncing", self.env.segments_dir(), &e))?;
        self.write_manifest(entries, &last.unnamed_files(&new_files))?;
        last.name_indices(changed.iter().map(|one| one.state.no()), &gone);
        let took = share(begun.elapsed(), changed.len());
        assert!(
            file.is_some()
                || changed
                    .iter()
                    .all(|one| one.set.segments.iter().all(|view| view.data.memory().is_none())),
            "7: the manifest names a file for every segment that was in memory"
        );
        changed.iter().for_each(|one| self.note_flushed(one, took));
        let cut = self.log.truncate_below(keep);
        // Also where the log could not be cut: the manifest names these files.
        new_files.extend(last.restored_files(&catalog));
        self.name_files(last, new_files, &states);
        cut?;
        last.reach(limit, keep, self.env.monotonic());
        // Segments that were in memory are read from the file from now on.
        if let Some(file) = &file {
            for one in &changed {
                self.move_to_file(one, file)?;
            }
        }
        Ok(())
    }

    /// Writes the manifest, which names these files. They are marked before: after a failed sync nobody knows whether it names
    /// them, so they stay.
    fn write_manifest(&self, entries: Vec<ManifestWrite>, unnamed: &[&Arc<DataFile>]) -> Result<()> {
        unnamed.iter().for_each(|file| file.set_named(true));
        let written = self.manifest.write(entries);
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull) {
            // Nothing has changed.
            unnamed.iter().for_each(|file| file.set_named(false));
        }
        written
    }

    /// Builds every index up to `limit`. Gives those whose set or entry the manifest has not, and the lowest position from
    /// which records are needed again: those of indices that are damaged, or that could not be built. No index needs one below
    /// `needed`: the log may be cut there.
    fn build_all(&self, states: &[Arc<IndexState>], catalog: &Catalog, limit: u64, needed: u64) -> Result<(Vec<Changed>, u64)> {
        let (mut changed, mut keep) = (Vec::new(), limit);
        // An index that was idle when the log was cut was flushed long before.
        let flushed = |state: &IndexState| state.flushed_position().max(needed);
        for state in states {
            if state.is_stopped() {
                keep = keep.min(flushed(state));
                continue;
            }
            let has_pending = state.pending().first_position().is_some_and(|first| first <= limit);
            // A tree that the manifest has removed its documents in the sets of the manifest, too (trees.md D10).
            let is_due = has_pending || self.trees.removes_beyond(&state.load_built(), limit);
            if is_due && let Err(e) = self.build_to(state, limit, PartBytes::Unhurried) {
                // One index that cannot be built must not hold up the others; a full disk holds up all.
                if e.kind() == ErrorKind::DiskFull {
                    return Err(e);
                }
                self.trouble(Work::Checkpoint, state.no(), e);
                keep = keep.min(flushed(state));
                if state.is_stopped() {
                    continue;
                }
            } else {
                self.maintenance.failures().record_success(Work::Checkpoint, state.no());
            }
            let Some(entry) = catalog.by_no(state.no()) else { continue };
            assert!(
                keep < limit
                    || self.catalog.entry(state.no()).is_none()
                    || state.pending().first_position().is_none_or(|first| first > limit),
                "1.9: the log may be cut below {limit}, and index {} has a pending operation from there",
                state.no()
            );
            let set = state.built_view();
            let tree = self.trees.unflushed_tree(state.no(), limit);
            if !state.is_flushed(&set, entry.revision) || tree.is_some() {
                changed.push(Changed {
                    state: state.clone(),
                    set,
                    entry: entry.clone(),
                    tree,
                });
            }
        }
        assert!(
            keep <= limit,
            "1.9: a checkpoint up to {limit} lets the log be cut below {keep}"
        );
        Ok((changed, keep))
    }

    /// The manifest has the set and the tree of the index.
    fn note_flushed(&self, one: &Changed, took: Duration) {
        let (state, counts) = (&one.state, one.state.counts());
        counts.flush.fetch_add(1, Ordering::Relaxed);
        counts.flush_time.add(took);
        state.set_flushed(&one.set, one.entry.revision);
        state.set_flushed_to(one.set.position);
        if let Some(tree) = &one.tree {
            self.trees.note_flushed(state.no(), tree.seq());
        }
    }

    /// The manifest's entries of these indices, with the names of those that it does not know yet. See
    /// [`Store::manifest_entry`].
    fn manifest_entries(
        &self,
        last: &CheckpointState,
        changed: &[Changed],
        name: &str,
        files: &mut Vec<Arc<DataFile>>,
    ) -> Result<Vec<ManifestWrite>> {
        let mut entries = Vec::with_capacity(changed.len());
        for one in changed {
            let no = one.state.no();
            entries.push((index_key(no), Some(self.manifest_entry(one, name, files)?)));
            if !last.names(no) {
                entries.push(name_entry(&one.entry));
            }
        }
        Ok(entries)
    }

    /// The manifest's entry of an index whose segments in memory are in the checkpoint file `name`. Adds the other files of
    /// its segments, synced, to `files`.
    fn manifest_entry(&self, one: &Changed, name: &str, files: &mut Vec<Arc<DataFile>>) -> Result<Vec<u8>> {
        let Changed { state, set, entry, tree } = one;
        let next_seq_no = state.pending().next_seq_no_behind(set.position);
        assert!(
            set.last_seq_no().is_none_or(|last| last < next_seq_no),
            "1.1: operation {:?} of index {} is in the manifest, and a start would give its number again",
            set.last_seq_no(),
            state.no()
        );
        let mut segments = Vec::new();
        for view in &set.segments {
            let (place, prefix) = match &view.data.place {
                Place::Memory(_) => (name.to_owned(), view.id.to_string()),
                Place::File(file, prefix) => {
                    file.sync()?;
                    files.push(file.clone());
                    (file.name.clone(), prefix.to_string())
                }
            };
            let live = (view.reader.num_docs() < view.reader.max_doc()).then(|| live_component(state.no(), view.id));
            segments.push(json!({
                "id": view.id, "uuid": view.data.uuid.uuid_string(), "max_doc": view.data.max_doc,
                "file": place, "prefix": prefix, "live": live.map(|component| json!([name, component])),
            }));
        }
        let tombstones: Vec<Value> = self
            .versions
            .tombstones(state.no())
            .into_iter()
            .map(|(key, stamp)| json!([format!("{key:032x}"), stamp.seq_no, stamp.version, stamp.primary_term]))
            .collect();
        let mut body = json!({
            "entry": entry.to_json(), "flushed": set.position, "next_seq_no": next_seq_no, "segments": segments, "tombstones": tombstones,
        });
        let place = match tree {
            Some(_) => Some(json!([name, tree_component(state.no())])),
            None if self.trees.get(state.no()).is_some() => self.tree_place(state.no()),
            None => None,
        };
        if let Some(place) = place {
            body["tree"] = place;
        }
        Ok(body.to_string().into_bytes())
    }

    /// The file and the component of the tree that the manifest has of an index.
    fn tree_place(&self, no: u32) -> Option<Value> {
        let bytes = self.manifest.read(&index_key(no))?;
        let body: Value = serde_json::from_slice(&bytes).ok()?;
        body.get("tree").cloned()
    }

    pub(crate) fn folder_json(&self, reached: &Reached, next_file: u64, clean: bool) -> Value {
        json!({
            "common": self.catalog.load().common_to_json(), "flushed": reached.flushed,
            "checkpointed": reached.checkpointed, "log_end": reached.log_end, "log_file": self.log.file_number(), "next_segment": self.segments.next_number(),
            "next_file": next_file, "unclean": self.unclean, "clean": clean,
            "consumers": self.consumers.to_json(), "deleted": self.deleted_indices.to_json(self.log.oldest_position()),
        })
    }

    /// Segments in memory and live documents of these sets, in one file; `None` if there is nothing to write.
    fn write_file(&self, name: &str, changed: &[Changed]) -> Result<Option<Arc<DataFile>>> {
        let mut live: Vec<(String, Vec<u8>)> = Vec::new();
        let mut components: Vec<(String, &[u8])> = Vec::new();
        for Changed { state, set, tree, .. } in changed {
            if let Some(tree) = tree {
                live.push((tree_component(state.no()), tree.to_bytes()));
            }
            for view in &set.segments {
                if let Some(parts) = view.data.memory() {
                    components.extend(
                        parts
                            .iter()
                            .map(|(ext, bytes)| (format!("{}/{ext}", view.id), bytes.as_slice())),
                    );
                }
                if view.reader.num_docs() < view.reader.max_doc() {
                    live.push((live_component(state.no(), view.id), live_bytes(view)));
                }
            }
        }
        components.extend(live.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())));
        if components.is_empty() {
            return Ok(None);
        }
        disk::blockfile::write_segment(self.env.disk().as_ref(), &self.env.segments_dir().join(name), &components)?;
        let file = DataFile::open(self.env.disk(), self.env.segments_dir(), name, false)?;
        file.sync()?;
        Ok(Some(file))
    }

    /// Opens what a checkpoint wrote from its file, in both sets, so that its memory goes.
    fn move_to_file(&self, one: &Changed, file: &Arc<DataFile>) -> Result<()> {
        let (state, written) = (&one.state, &one.set);
        let moved: HashMap<u64, Arc<SegmentData>> = written
            .segments
            .iter()
            .filter(|view| view.data.memory().is_some())
            .map(|view| {
                let place = Place::File(file.clone(), view.id.to_string().into());
                (
                    view.id,
                    Arc::new(SegmentData {
                        place,
                        held: None,
                        ..(*view.data).clone()
                    }),
                )
            })
            .collect();
        if moved.is_empty() {
            return Ok(());
        }
        let building = state.lock_build();
        let Some(entry) = self.catalog.entry(state.no()) else {
            return Ok(());
        };
        let built = state.built_view();
        let publishing = self.publication.lock();
        let again = |old: &Arc<IndexView>| -> Result<Arc<IndexView>> {
            let mut segments: Vec<Arc<SegmentView>> = Vec::with_capacity(old.segments.len());
            let all: Vec<_> = moved.values().cloned().collect();
            let (index, _) = directory::handle(&entry.schema, None, &all)?;
            for view in self.reopen(&entry, old, |_| Ok(None))? {
                segments.push(match moved.get(&view.id) {
                    Some(data) => segment_view::open(
                        &entry.schema,
                        &index,
                        data,
                        view.reader.alive_bitset().cloned(),
                        None,
                        &self.caches.of_index(entry.no).derived,
                    )?,
                    None => view,
                });
            }
            Ok(Arc::new(IndexView {
                segments,
                ..self.blank_view(&entry, old.position)
            }))
        };
        let next = again(&built)?;
        if Arc::ptr_eq(&built, written) {
            state.set_flushed(&next, one.entry.revision);
        }
        self.replace(&building, &publishing, state, &built, &next, again)
    }

    /// Tells files whether the manifest names them; those it no longer does go with their last reader.
    fn name_files(&self, last: &mut CheckpointState, new: Vec<Arc<DataFile>>, states: &[Arc<IndexState>]) {
        let mut still: HashMap<String, Arc<DataFile>> = HashMap::new();
        for file in new {
            still.insert(file.name.clone(), file);
        }
        // The files of every flushed set, with the live documents that lie in checkpoints' files.
        for key in states.iter().map(|state| index_key(state.no())) {
            let Some(body) = self
                .manifest
                .read(&key)
                .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
            else {
                continue;
            };
            for name in files_of(&body) {
                debug_assert!(
                    still.contains_key(name)
                        || last.files().iter().any(|file| file.name == name)
                        || states.iter().any(|state| state.is_stopped() && index_key(state.no()) == key),
                    "7: the manifest names file [{name}], and nobody keeps it"
                );
                if let Some(file) = last.files().iter().find(|file| file.name == name) {
                    still.entry(name.to_owned()).or_insert_with(|| file.clone());
                }
            }
        }
        still.values().for_each(|file| file.set_named(true));
        let names: HashSet<String> = still.keys().cloned().collect();
        let before = last.name_files(still.into_values().collect());
        for file in before.iter().filter(|file| !names.contains(&file.name)) {
            file.set_named(false);
        }
    }
}

/// The files that an entry of the manifest names.
pub(crate) fn files_of(body: &Value) -> impl Iterator<Item = &str> {
    let segments = body["segments"].as_array().into_iter().flatten();
    let of_segments = segments.flat_map(|segment| [segment["file"].as_str(), segment["live"][0].as_str()]);
    of_segments.chain([body["tree"][0].as_str()]).flatten()
}

/// The component of a checkpoint's file that has the directories of an index.
fn tree_component(no: u32) -> String {
    format!("tree-{no}")
}

/// The directories of an index as a checkpoint described them; `None`: it has none.
///
/// # Errors
/// Damage.
pub(crate) fn read_tree(body: &Value, open_file: &mut dyn FnMut(&str) -> Result<Arc<DataFile>>) -> Result<Option<Tree>> {
    let (Some(file), Some(component)) = (body["tree"][0].as_str(), body["tree"][1].as_str()) else {
        return Ok(None);
    };
    let bytes = open_file(file)?.bytes.read_whole(component)?;
    Tree::from_bytes(&bytes).map(Some)
}

/// How far a folder has come, in positions of the log.
pub(crate) struct Reached {
    /// Everything below is in segments.
    pub(crate) flushed: u64,
    /// The manifest has the catalog of here, and every index that was not stopped.
    pub(crate) checkpointed: u64,
    /// The log reaches here at least.
    pub(crate) log_end: u64,
}

/// An index whose set or catalog entry the manifest does not have.
struct Changed {
    state: Arc<IndexState>,
    set: Arc<IndexView>,
    entry: Arc<IndexEntry>,
    /// Its directories, if the manifest has not all of them.
    tree: Option<Arc<Tree>>,
}

impl Changed {
    /// Are its live documents and its tree in a checkpoint's file?
    fn has_its_parts_in(&self, file: Option<&DataFile>) -> bool {
        let is_there = |component: &str| file.is_some_and(|file| file.bytes.layout().contains_key(component));
        let no = self.state.no();
        let mut with_dead = self
            .set
            .segments
            .iter()
            .filter(|view| view.reader.num_docs() < view.reader.max_doc());
        with_dead.all(|view| is_there(&live_component(no, view.id))) && (self.tree.is_none() || is_there(&tree_component(no)))
    }
}

/// The component of a checkpoint's file that has the live documents of a segment.
fn live_component(no: u32, segment: u64) -> String {
    format!("live-{no}-{segment}")
}

/// Indices that were deleted leave the manifest.
fn entries_of_gone(gone: &[u32]) -> Vec<ManifestWrite> {
    gone.iter().flat_map(|no| removals(*no)).collect()
}

/// An index' entry without the segments in which anything is damaged: a repair goes on without them.
pub(crate) fn without_damage(
    body: &Value,
    entry: &crate::catalog::IndexEntry,
    open_file: &mut dyn FnMut(&str) -> Result<Arc<DataFile>>,
    damages: &mut Damages,
) -> Value {
    let mut sound = Vec::new();
    for segment in body["segments"].as_array().into_iter().flatten() {
        match check_segment(segment, open_file) {
            Ok(()) => sound.push(segment.clone()),
            Err(damage) => damages.tell(format!(
                "{}: index [{}] loses a segment with at most [{}] documents",
                damage.reason(),
                entry.name,
                segment["max_doc"]
            )),
        }
    }
    let mut body = body.clone();
    body["segments"] = sound.into();
    body
}

/// Reads every byte of a segment as the manifest describes it, and which of its documents live.
fn check_segment(segment: &Value, open_file: &mut dyn FnMut(&str) -> Result<Arc<DataFile>>) -> Result<()> {
    if let (Some(file), Some(prefix)) = (segment["file"].as_str(), segment["prefix"].as_str()) {
        open_file(file)?.check(prefix)?;
    }
    if let (Some(file), Some(component)) = (segment["live"][0].as_str(), segment["live"][1].as_str()) {
        open_file(file)?.bytes.read_whole(component)?;
    }
    Ok(())
}

/// The live documents of a segment, as files have them.
pub(crate) fn live_bytes(view: &SegmentView) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing into memory does not fail.
    drop(write_alive_bitset(&view.alive_bits(), &mut bytes));
    debug_assert!(
        check_live_documents("", view.data.max_doc, &bytes).is_ok(),
        "snapshots.md R1: the live documents of segment {} are written as a restore checks them",
        view.id
    );
    bytes
}

/// Refuses live documents that are not those of a segment.
///
/// # Errors
/// Corruption.
pub(crate) fn check_live_documents(index: &str, max_doc: u32, bytes: &[u8]) -> Result<()> {
    let words = u64::from(max_doc).div_ceil(64);
    let begins_right = bytes.get(..4) == Some(&max_doc.to_le_bytes());
    if begins_right && bytes.len() as u64 == 4 + 8 * words {
        return Ok(());
    }
    let reason = format!("the live documents of index [{index}] are not those of a segment with [{max_doc}] documents");
    Err(Error::new(ErrorKind::Corruption, reason))
}

/// Opens the set of an index as a checkpoint described it. Gives the set and the files that it rests on.
pub(crate) fn read_set(
    body: &Value,
    entry: &crate::catalog::IndexEntry,
    open_file: &mut dyn FnMut(&str) -> Result<Arc<DataFile>>,
    account: &Arc<Account>,
) -> Result<Vec<Arc<SegmentView>>> {
    let corrupt = || {
        Error::new(
            ErrorKind::Corruption,
            format!("the manifest's entry of [{}] is not sound", entry.name),
        )
    };
    let mut datas = Vec::new();
    let mut lives = Vec::new();
    for segment in body["segments"].as_array().into_iter().flatten() {
        let text = |name: &str| segment[name].as_str().ok_or_else(corrupt);
        let file = open_file(text("file")?)?;
        let uuid = tantivy::index::SegmentId::from_uuid_string(text("uuid")?).map_err(|_| corrupt())?;
        let max_doc = segment["max_doc"]
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(corrupt)?;
        let place = Place::File(file, text("prefix")?.into());
        datas.push(Arc::new(SegmentData {
            id: segment["id"].as_u64().ok_or_else(corrupt)?,
            uuid,
            max_doc,
            place,
            held: None,
        }));
        lives.push(match (segment["live"][0].as_str(), segment["live"][1].as_str()) {
            (Some(file), Some(component)) => {
                let bytes = open_file(file)?.bytes.read_whole(component)?;
                Some(tantivy::fastfield::AliveBitSet::open(OwnedBytes::new(bytes.to_vec())))
            }
            _ => None,
        });
    }
    if datas.is_empty() {
        return Ok(Vec::new());
    }
    assert_eq!(
        datas.len(),
        lives.len(),
        "1.6: of each segment it is known which documents live"
    );
    let (index, _) = directory::handle(&entry.schema, None, &datas)?;
    datas
        .iter()
        .zip(lives)
        .map(|(data, alive)| segment_view::open(&entry.schema, &index, data, alive, None, account))
        .collect()
}
