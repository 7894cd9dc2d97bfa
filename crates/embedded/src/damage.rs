//! The cost of damage at a start: the part that it touches stops, everything else opens. A repair gives that part up and
//! says what it cost.
//!
//! The name of an index has a manifest entry of its own. An index whose entry is lost in both files therefore keeps its
//! name, and is stopped. Three kinds of damage refuse the start and name the way out: the folder's own entry, entries
//! without a name, and stretches of the log that may concern any index.
//!
//! Not here: finding damage in files (`log`, `disk::blockfile`).

use crate::background_failures::tell;
use crate::catalog::IndexEntry;
use crate::log::{Damage, Manifest, ManifestEntries};
use disk::Disk;
use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::Path;

/// How a folder is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Damage stops what it touches; what concerns the whole folder refuses the start.
    Serve,
    /// Damaged parts are given up.
    Repair,
}

/// The folder's entry in the manifest.
pub(crate) const FOLDER: &str = "folder";
/// Terms of a folder whose count of unclean starts is lost go on above those that may have been given.
const LOST_STARTS: u64 = 1_000;

/// The key of an index' entry.
pub(crate) fn index_key(no: u32) -> String {
    format!("index/{no}")
}

/// The key of an index' name: small, and apart from its entry.
fn name_key(no: u32) -> String {
    format!("name/{no}")
}

/// An entry of the manifest and its new bytes; `None` removes it.
pub(crate) type ManifestWrite = (String, Option<Vec<u8>>);

/// The entry of an index' name.
pub(crate) fn name_entry(entry: &IndexEntry) -> ManifestWrite {
    (name_key(entry.no), Some(entry.name.as_str().as_bytes().to_vec()))
}

/// Takes an index out of the manifest.
pub(crate) fn removals(no: u32) -> [ManifestWrite; 2] {
    [(index_key(no), None), (name_key(no), None)]
}

fn number_in(key: &str, prefix: &str) -> Option<u32> {
    key.strip_prefix(prefix)?.parse().ok()
}

/// The content of the folder, by its manifest.
pub(crate) struct FolderContent {
    /// `null` in a folder that was never opened.
    pub(crate) folder: Value,
    /// Each index and its entry.
    pub(crate) indices: Vec<(IndexEntry, Value)>,
    /// Indices of which only the name is left, and why.
    pub(crate) lost: Vec<(IndexEntry, Error)>,
    /// To be written with the next change of the manifest.
    pub(crate) writes: Vec<ManifestWrite>,
}

/// Damage as a start meets it.
pub(crate) struct Damages {
    mode: OpenMode,
    /// Damage that was found or given up, in words.
    pub(crate) told: Vec<String>,
}

impl Damages {
    pub(crate) fn new(mode: OpenMode) -> Damages {
        Damages { mode, told: Vec::new() }
    }

    pub(crate) fn is_repair(&self) -> bool {
        self.mode == OpenMode::Repair
    }

    /// For whoever runs the server, and for `pleach check`.
    pub(crate) fn tell(&mut self, line: String) {
        tell(&line);
        self.told.push(line);
    }

    /// A repair goes on without it; a start does not.
    pub(crate) fn give_up(&mut self, damage: Error, cost: &str) -> Result<()> {
        if !self.is_repair() {
            let way_out = "stop the server and run [pleach check DIR --repair] on its data folder, which says what it costs";
            let reason = format!("{}; {way_out}", damage.reason());
            return Err(Error::new(damage.kind(), reason));
        }
        self.tell(format!("{}: {cost}", damage.reason()));
        Ok(())
    }

    /// Reads the entries of the manifest.
    ///
    /// # Errors
    /// Corruption of what the folder cannot be read without.
    pub(crate) fn read_manifest(&mut self, entries: &ManifestEntries) -> Result<FolderContent> {
        for what in &entries.mended {
            self.tell(format!(
                "{what}; nothing is lost, the other manifest has it and this one is written again"
            ));
        }
        if let Some(damage) = &entries.unknown {
            self.give_up(damage.clone(), "indices and settings of which nothing else is left are lost")?;
        }
        let mut content = FolderContent {
            folder: Value::Null,
            indices: Vec::new(),
            lost: Vec::new(),
            writes: Vec::new(),
        };
        for (key, bytes) in entries.live.iter().filter(|(key, _)| key.starts_with("index/")) {
            if let Err(damage) = read_index(&mut content, bytes) {
                self.index_lost(&mut content, entries, key, &damage)?;
            }
        }
        for (key, damage) in &entries.damaged {
            if key.starts_with("index/") {
                self.index_lost(&mut content, entries, key, damage)?;
            } else if key != FOLDER {
                // A name stands in the index' entry as well, the identity in a file of its own.
                self.tell(damage.reason().to_owned());
                content.writes.push((key.clone(), None));
            }
        }
        let known = entries.live.get(FOLDER).map(|bytes| serde_json::from_slice::<Value>(bytes));
        match (known, entries.damaged.get(FOLDER)) {
            (Some(Ok(folder)), _) => content.folder = folder,
            (None, None) if content.indices.is_empty() && content.lost.is_empty() => {}
            (_, damage) => {
                let nothing = || Error::new(ErrorKind::Corruption, "the manifest's entry of the folder is not sound");
                let damage = damage.cloned().unwrap_or_else(nothing);
                self.give_up(damage, "templates, stored scripts and cluster settings are lost")?;
                content.folder = folder_of(&content.indices);
            }
        }
        for (entry, _) in &content.indices {
            if !entries.live.contains_key(&name_key(entry.no)) {
                content.writes.push(name_entry(entry));
            }
        }
        Ok(content)
    }

    fn index_lost(&mut self, content: &mut FolderContent, entries: &ManifestEntries, key: &str, damage: &Error) -> Result<()> {
        let Some(no) = number_in(key, "index/") else { return Ok(()) };
        let name = entries
            .live
            .get(&name_key(no))
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        let what = name.map_or_else(
            || format!("an index without a name (number {no})"),
            |name| format!("index [{name}]"),
        );
        if self.is_repair() {
            self.give_up(
                damage.clone(),
                &format!("{what} is lost with all its documents, its mapping and its aliases"),
            )?;
            content.writes.extend(removals(no));
            return Ok(());
        }
        let Some(name) = name else {
            return self.give_up(damage.clone(), &format!("{what} is lost"));
        };
        self.tell(format!("index [{name}] is stopped: {}", damage.reason()));
        content
            .lost
            .push((placeholder(no, name)?, damage.clone().with("index", name)));
        Ok(())
    }

    /// A stretch of the log is lost that may concern any index.
    pub(crate) fn log_lost(&mut self, damage: &Damage) -> Result<()> {
        let error = Error::new(ErrorKind::Corruption, format!("the log is damaged: {}", damage.reason))
            .with("path", disk::display_path(&damage.path))
            .with("offset", damage.offset);
        let cost = "writes and changes of any index that stood there are lost, also acknowledged ones";
        self.give_up(error, cost)
    }
}

fn read_index(content: &mut FolderContent, bytes: &[u8]) -> Result<()> {
    let body: Value = serde_json::from_slice(bytes)
        .map_err(|cause| Error::new(ErrorKind::Corruption, format!("an entry of the manifest is no JSON: {cause}")))?;
    content.indices.push((IndexEntry::from_json(&body["entry"])?, body));
    Ok(())
}

/// Stands for an index of which only the name is left.
fn placeholder(no: u32, name: &str) -> Result<IndexEntry> {
    IndexEntry::from_json(&json!({
        "no": no, "name": name, "uuid": "_damaged_", "settings": {}, "mappings": {}, "shapes": [], "aliases": {},
        "revision": 0, "unclean_before": 0,
    }))
}

/// The folder's entry, as far as those of the indices say it.
fn folder_of(indices: &[(IndexEntry, Value)]) -> Value {
    let flushed = indices.iter().filter_map(|(_, body)| body["flushed"].as_u64()).min();
    let segments = indices
        .iter()
        .flat_map(|(_, body)| body["segments"].as_array().into_iter().flatten());
    let next_segment = segments.filter_map(|segment| segment["id"].as_u64()).max().unwrap_or(0) + 1;
    let unclean = indices.iter().map(|(entry, _)| entry.unclean_before).max().unwrap_or(0) + LOST_STARTS;
    let next_no = indices.iter().map(|(entry, _)| entry.no + 1).max().unwrap_or(1);
    json!({
        "common": { "next_no": next_no }, "flushed": flushed.unwrap_or(0), "next_segment": next_segment, "next_file": 0,
        "unclean": unclean, "clean": false,
    })
}

/// A folder with data and without a manifest is not taken for an empty one.
///
/// # Errors
/// Corruption.
pub(crate) fn check_manifest(dir: &Path, disk: &dyn Disk) -> Result<()> {
    if Manifest::is_in(dir, disk) {
        return Ok(());
    }
    let has_files = |folder: &str| {
        disk.list(&dir.join(folder))
            .is_ok_and(|names| names.iter().any(|name| is_data(name)))
    };
    if has_files("log") || has_files("segments") {
        let reason = "[manifest] and [manifest-2] are missing, and the folder has data: without one of them nobody knows what its \
                      files are. Put one back from a backup of the folder, with its log";
        return Err(Error::new(ErrorKind::Corruption, reason));
    }
    Ok(())
}

fn is_data(name: &str) -> bool {
    name.ends_with(".log") || name.starts_with("checkpoint-") || name.ends_with(".seg")
}
