//! Making indices out of a snapshot: their files are copied and checked, then one record of the log makes all of them.
//!
//! Invariants (docs/internals/snapshots.md):
//! - **R1** The files of a restored index are durable before the record that makes it.
//! - **R2** Files of a restore that no record names are removed: by the restore that failed, or by the next start.
//! - **R3** The files of a record stay until the manifest has the index, or until its deletion is durable.
//!
//! Not here: names, aliases and settings (`catalog::restored`), opening the set (`restored_set`).

use crate::catalog::restored::{Wanted, refusal, restore};
use crate::checkpoint::check_live_documents;
use crate::restored_set::{RESTORED, RestoredSet, check_segment_size};
use crate::snapshots::pace::CopyPace;
use crate::snapshots::repositories::OpenRepository;
use crate::store::Store;
use engine::snapshots::{RestoreOrder, Restored, missing_snapshot};
use engine::tasks::Task;
use model::settings::SNAPSHOT_MAX_CONCURRENT;
use model::{Error, ErrorKind, IndexName, Result};
use segment::directory::DataFile;
use serde_json::{Value, json};
use snapshot::{Blob, Contents, IndexFailure, IndexPart, Summary};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// The copied files of an index.
struct Copied<'a> {
    part: &'a IndexPart,
    name: &'a str,
    /// In the order of its segments.
    segments: Vec<Arc<DataFile>>,
    beside: Option<Arc<DataFile>>,
}

impl Store {
    /// Makes indices out of a snapshot; gives the position to wait for.
    ///
    /// # Errors
    /// As `engine::snapshots::Snapshots::restore`.
    pub(crate) fn restore_snapshot(&self, order: &RestoreOrder, task: &Task) -> Result<(Restored, u64)> {
        let most = self.catalog.now().cluster_number(SNAPSHOT_MAX_CONCURRENT);
        let _restoring = self.snapshots.begin_restore(most, &order.repository, &order.snapshot)?;
        let opened = self.open_repository(&order.repository)?;
        let (summary, contents) = self.contents_to_restore(&opened, order)?;
        let wanted = select_parts(order, &summary, &contents)?;
        self.check_restored(order, &wanted, &contents)?;
        self.check_room(&wanted)?;
        let copied_bytes = AtomicU64::new(0);
        let pace = CopyPace {
            task,
            maintenance: &self.maintenance,
            given_up: None,
            rate: opened.restore_rate,
            begun: Instant::now(),
            moved: AtomicU64::new(0),
            told: Some(&copied_bytes),
        };
        let mut copied = Vec::new();
        for (part, name) in &wanted {
            task.progress(
                json!({ "snapshot": order.snapshot, "repository": order.repository, "index": part.name,
                "indices_done": copied.len(), "indices": wanted.len() }),
            );
            copied.push(self.copy_index(&opened, part, name, &pace)?);
        }
        let end = self.make_restored(order, &contents, &copied)?;
        let failures = wanted_failures(order, &summary);
        let restored = Restored {
            indices: wanted.iter().map(|(_, name)| IndexName::new(*name)).collect(),
            shards: wanted.iter().map(|(part, _)| part.shards).sum(),
            failures,
            global: contents
                .global
                .as_ref()
                .filter(|_| order.include_global_state)
                .map(|global| global["beside"].clone()),
            bytes: copied_bytes.into_inner(),
        };
        Ok((restored, end))
    }

    /// # Errors
    /// As `engine::snapshots::Snapshots::check_restore`.
    pub(crate) fn check_restore(&self, order: &RestoreOrder) -> Result<()> {
        let opened = self.open_repository(&order.repository)?;
        let (summary, contents) = self.contents_to_restore(&opened, order)?;
        let wanted = select_parts(order, &summary, &contents)?;
        self.check_restored(order, &wanted, &contents)?;
        self.check_room(&wanted)
    }

    fn contents_to_restore(&self, opened: &OpenRepository, order: &RestoreOrder) -> Result<(Arc<Summary>, Contents)> {
        let root = self.root_of(opened)?;
        let summary = root
            .snapshot(&order.snapshot)
            .ok_or_else(|| missing_snapshot(&order.repository, &order.snapshot))?;
        Ok((summary.clone(), opened.files.contents(summary)?))
    }

    /// Would the catalog take it as it is now?
    fn check_restored(&self, order: &RestoreOrder, wanted: &[Wanted<'_>], contents: &Contents) -> Result<()> {
        let global = self.global_to_restore(order, contents)?;
        let moment = self.alteration_moment();
        let mut uuid = || moment.uuid.clone();
        restore(&self.catalog.now(), order, wanted, global, &moment, &mut uuid).map(drop)
    }

    fn global_to_restore<'c>(&self, order: &RestoreOrder, contents: &'c Contents) -> Result<Option<&'c Value>> {
        match (&contents.global, order.include_global_state) {
            (_, false) => Ok(None),
            (Some(global), true) => Ok(Some(global)),
            (None, true) => Err(refusal(
                order,
                "cannot restore global state since the snapshot was created without global state",
            )),
        }
    }

    /// Is there room for the files?
    fn check_room(&self, wanted: &[Wanted<'_>]) -> Result<()> {
        let bytes = wanted.iter().fold(0u64, |sum, (part, _)| sum.saturating_add(part.bytes()));
        let dir = self.env.segments_dir();
        // A disk that cannot say how much room it has is asked by writing.
        match self.env.disk().free_bytes(dir) {
            Ok(free) if free < bytes => Err(Error::new(
                ErrorKind::DiskFull,
                format!("the snapshot's indices have [{bytes}] bytes, and [{free}] are free on the disk of the data"),
            )),
            _ => Ok(()),
        }
    }

    /// Copies the files of an index, and makes them durable.
    fn copy_index<'a>(
        &self,
        opened: &OpenRepository,
        part: &'a IndexPart,
        name: &'a str,
        pace: &CopyPace<'_>,
    ) -> Result<Copied<'a>> {
        let mut segments = Vec::new();
        for segment in &part.segments {
            check_segment_size(&part.name, segment.max_doc, segment.blob.bytes)?;
            segments.push(self.copy_file(opened, &segment.blob, pace)?);
        }
        let beside = part
            .beside
            .as_ref()
            .map(|blob| self.copy_file(opened, blob, pace))
            .transpose()?;
        for (n, segment) in part.segments.iter().enumerate().filter(|(_, segment)| segment.has_deletions) {
            let bytes = beside
                .as_ref()
                .map(|file| file.bytes.read_whole(&IndexPart::live(n)))
                .transpose()?;
            check_live_documents(&part.name, segment.max_doc, bytes.as_deref().unwrap_or_default())?;
        }
        Ok(Copied {
            part,
            name,
            segments,
            beside,
        })
    }

    fn copy_file(&self, opened: &OpenRepository, blob: &Blob, pace: &CopyPace<'_>) -> Result<Arc<DataFile>> {
        let name = format!(
            "{RESTORED}{:012}-{:08x}",
            self.segments.fresh_number(),
            self.env.clock().random() as u32
        );
        let path = self.env.segments_dir().join(&name);
        let (disk, dir) = (self.env.disk(), self.env.segments_dir());
        let file = disk.create(&path).map_err(|e| disk::refusal("writing", &path, &e))?;
        let copied = opened
            .files
            .copy(blob, file.as_ref(), pace)
            .and_then(|()| DataFile::open(disk, dir, &name, false));
        let copied = copied.inspect_err(|_| drop(disk.remove(&path)))?;
        // If it fails, the file goes with its last reader, which is this one.
        copied.sync()?;
        Ok(copied)
    }

    /// One record makes all of them.
    fn make_restored(&self, order: &RestoreOrder, contents: &Contents, copied: &[Copied<'_>]) -> Result<u64> {
        let dir = self.env.segments_dir();
        self.env.disk().sync_dir(dir).map_err(|e| disk::refusal("syncing", dir, &e))?;
        let wanted: Vec<Wanted<'_>> = copied.iter().map(|one| (one.part, one.name)).collect();
        // No checkpoint comes between the record and the note that its files stay.
        let mut last = self.maintenance.lock_checkpoint();
        let _altering = self.catalog.alter_alone();
        let catalog = self.catalog.now();
        let moment = self.alteration_moment();
        let global = self.global_to_restore(order, contents)?;
        let mut uuid = || engine::clock::uuid(self.env.clock());
        let (mut next, numbers) = restore(&catalog, order, &wanted, global, &moment, &mut uuid)?;
        let (mut sets, mut files) = (Vec::new(), Vec::new());
        assert_eq!(
            numbers.len(),
            copied.len(),
            "snapshots.md R1: each index that is restored has its files"
        );
        for (no, one) in numbers.iter().zip(copied) {
            let body = self.body_of(one);
            let unknown = || {
                Error::new(
                    ErrorKind::Internal,
                    format!("index [{}] is not in the catalog that makes it", one.name),
                )
            };
            let entry = next.catalog.by_no(*no).ok_or_else(unknown)?;
            let (set, own) = RestoredSet::read(self, entry, &body)?;
            sets.push((*no, set));
            files.push((*no, own));
            let delta = next
                .deltas
                .iter_mut()
                .find(|(of, delta)| of == no && delta.get("index").is_some());
            delta.ok_or_else(unknown)?.1["restored"] = body;
        }
        let made = self.log_alteration(&catalog, next, sets);
        let is_made = |no: &u32| self.catalog.load().by_no(*no).is_some();
        // Also where a later step failed: the record names these files. Else they go with their last reader.
        if numbers.iter().all(is_made) {
            for (no, own) in files {
                last.keep_restored(no, own);
            }
            let copies = copied.iter().flat_map(|one| one.segments.iter().chain(&one.beside));
            copies.for_each(|file| file.set_named(true));
        }
        made.map(|(_, end)| end)
    }

    /// The set of an index in the manifest's form.
    fn body_of(&self, one: &Copied<'_>) -> Value {
        let beside = one.beside.as_ref().map(|file| file.name.clone());
        assert_eq!(
            one.part.segments.len(),
            one.segments.len(),
            "snapshots.md R1: each segment of the snapshot has its copy"
        );
        let segments = one.part.segments.iter().zip(&one.segments).enumerate();
        let segments: Vec<Value> = segments
            .map(|(n, (segment, file))| {
                json!({
                    "id": self.segments.fresh_number(), "uuid": segment.uuid, "max_doc": segment.max_doc, "file": file.name,
                    "prefix": IndexPart::PREFIX, "live": segment.has_deletions.then(|| json!([beside, IndexPart::live(n)])),
                })
            })
            .collect();
        let mut body = json!({ "segments": segments });
        if one.part.has_tree {
            body["tree"] = json!([beside, IndexPart::TREE]);
        }
        body
    }
}

/// The parts of the snapshot that an order means.
fn select_parts<'a>(order: &'a RestoreOrder, summary: &Summary, contents: &'a Contents) -> Result<Vec<Wanted<'a>>> {
    let mut out = Vec::new();
    for (from, to) in &order.indices {
        match contents.index(from) {
            Some(part) => out.push((part, to.as_str())),
            None if has_failed(summary, from) && order.partial => {}
            None if has_failed(summary, from) => {
                return Err(refusal(
                    order,
                    &format!("index [{from}] wasn't fully snapshotted - cannot restore"),
                ));
            }
            None => return Err(engine::catalog::missing(from)),
        }
    }
    Ok(out)
}

fn has_failed(summary: &Summary, index: &str) -> bool {
    summary.failures.iter().any(|failure| failure.index == index)
}

/// The indices of an order that were passed over.
fn wanted_failures(order: &RestoreOrder, summary: &Summary) -> Vec<IndexFailure> {
    let is_wanted = |failure: &&IndexFailure| order.indices.iter().any(|(from, _)| *from == failure.index);
    summary.failures.iter().filter(is_wanted).cloned().collect()
}
