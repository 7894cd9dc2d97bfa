//! The set of an index that a record of the log makes out of the files of a snapshot.
//!
//! The record has the set in the manifest's form, so that a start opens it before any checkpoint does. Its files are durable before
//! the record is (snapshots.md R1).
//!
//! Not here: copying the files (`snapshots::restore`), keeping them (`checkpoint_state`).

use crate::catalog::IndexEntry;
use crate::checkpoint::{files_of, read_set, read_tree};
use crate::store::Store;
use mapping::tree::Tree;
use model::{Error, ErrorKind, Result};
use segment::directory::DataFile;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How the names of files begin that a restore makes.
pub(crate) const RESTORED: &str = "restored-";

/// The segments and the directories of an index.
pub(crate) struct RestoredSet {
    pub(crate) segments: Vec<Arc<SegmentView>>,
    pub(crate) tree: Option<Tree>,
}

impl RestoredSet {
    /// Opens a set by its description; gives its files.
    ///
    /// # Errors
    /// Corruption: a file is missing or damaged, or the files do not fit the index.
    pub(crate) fn read(store: &Store, entry: &IndexEntry, body: &Value) -> Result<(RestoredSet, Vec<Arc<DataFile>>)> {
        let mut files: BTreeMap<String, Arc<DataFile>> = BTreeMap::new();
        for name in files_of(body) {
            if !name.starts_with(RESTORED) || name.contains('/') {
                return Err(Error::new(
                    ErrorKind::Corruption,
                    format!("[{name}] is no file of a restored index"),
                ));
            }
            if !files.contains_key(name) {
                let file = DataFile::open(store.env.disk(), store.env.segments_dir(), name, true)?;
                files.insert(name.to_owned(), file);
            }
        }
        let mut open_file = |name: &str| {
            let file = files.get(name).cloned();
            file.ok_or_else(|| Error::new(ErrorKind::Corruption, format!("[{name}] is missing")))
        };
        let account = store.caches.of_index(entry.no).derived.clone();
        // A file that somebody else wrote may be no segment, which readers of segments do not expect.
        let read = catch_unwind(AssertUnwindSafe(|| {
            let tree = read_tree(body, &mut open_file)?;
            let segments = read_set(body, entry, &mut open_file, &account)?;
            Ok::<_, Error>(RestoredSet { segments, tree })
        }));
        let unsound = || {
            let reason = format!(
                "the files of index [{}] do not hold the segments that they should",
                entry.name
            );
            Error::new(ErrorKind::Corruption, reason)
        };
        let set = read.map_err(|_| unsound())??;
        // Numbers go on behind those of the set, or one would be given twice (snapshots.md M3).
        let next_seq_no = entry.first_seq_no.unwrap_or(0);
        let has_documents = |segment: &Arc<SegmentView>| {
            let is_behind = || segment.reader.max_doc() == 0 || segment.core.seq_no().max_value() < next_seq_no;
            segment.core.has_stamps_of(segment.reader.max_doc()) && is_behind()
        };
        match set.segments.iter().all(has_documents) {
            true => Ok((set, files.into_values().collect())),
            false => Err(unsound()),
        }
    }
}

/// Refuses a segment that would take more memory than its file has bytes: whoever wrote its description made that up.
///
/// # Errors
/// Corruption.
pub(crate) fn check_segment_size(index: &str, max_doc: u32, bytes: u64) -> Result<()> {
    // A document has an id, stamps and an entry among the stored ones; several are packed into one byte at the very most.
    const DOCUMENTS_IN_BYTE: u64 = 64;
    if u64::from(max_doc) <= bytes.saturating_mul(DOCUMENTS_IN_BYTE) {
        return Ok(());
    }
    let reason =
        format!("a segment of index [{index}] has [{bytes}] bytes, too few for the [{max_doc}] documents of its description");
    Err(Error::new(ErrorKind::Corruption, reason))
}
