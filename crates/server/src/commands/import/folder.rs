//! The files of a folder as documents.
//!
//! Not here: sending them (`sender`).

use super::counts::Counts;
use super::progress::{InputPosition, Progress};
use super::sender::{Sender, sentence};
use super::{ImportFlags, bar};
use crate::client::{JSON, segment};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use model::{Error, Result, units};
use serde_json::{Value, json};
use std::fs::{DirEntry, File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The name of files of patterns that say which files beside and below them are left out.
const IGNORE_FILE: &str = ".gitignore";

/// One file that is to be imported.
struct Found {
    path: PathBuf,
    /// From the folder on, `/`-separated, beginning with `/`.
    name: String,
    bytes: u64,
}

/// Imports the files of a folder and of all folders in it.
///
/// # Errors
/// A folder that is none, a pattern that cannot be read, what the server refuses for all documents.
pub(super) fn import(flags: &ImportFlags, folder: &Path, counts: &mut Counts) -> Result<()> {
    let index = flags.index.as_deref().unwrap_or("fs");
    let max_bytes = units::parse_bytes(&flags.max_size, "max-size")?;
    // Patterns of folders above it are about its whole path.
    let root = folder.canonicalize().ok().filter(|root| root.is_dir());
    let root = root.ok_or_else(|| Error::illegal(format!("[{}] is not a folder", folder.display())))?;
    let progress = Progress::open(flags.resume.as_deref(), &root.display().to_string())?;
    let found = Walk::new(flags, &root, max_bytes)?.run(counts);
    let done = match progress.place() {
        // One that is gone is no place to go on from; importing a file again replaces it.
        InputPosition::File(last) => found.iter().position(|file| file.name == last).map_or(0, |at| at + 1),
        _ => 0,
    };
    counts.resumed = done as u64;
    let mut sender = Sender::open(flags, Some(index), progress)?;
    sender.greet()?;
    create_index(&mut sender, index)?;
    let progress = bar(found.iter().map(|f| f.bytes).sum());
    for file in &found[done..] {
        match describe(file, flags.binary) {
            Ok(Some(source)) => {
                let action = json!({ "index": { "_id": file.name } });
                let place = InputPosition::File(file.name.clone());
                sender.put(file.name.clone(), place, &action, Some(source.to_string().as_bytes()), counts)?;
            }
            Ok(None) => counts.binary += 1,
            Err(cause) => counts.fail(format!("{}: {cause}", file.name)),
        }
        progress.inc(file.bytes);
    }
    progress.finish_and_clear();
    sender.finish(counts)
}

/// The index as the file system wants it; one that is there is kept as it is.
fn create_index(sender: &mut Sender, index: &str) -> Result<()> {
    let Some(client) = &mut sender.client else { return Ok(()) };
    let path = format!("/{}", segment(index));
    if client.send("HEAD", &path, "", &[])?.status == 200 {
        return Ok(());
    }
    let body = json!({
        "settings": {
            "analysis": {
                "tokenizer": { "paths": { "type": "path_hierarchy" } },
                "analyzer": { "paths": { "type": "custom", "tokenizer": "paths" } }
            },
            // A file is at its folder and its name: trees and files can be locked by path.
            "index.pleach.lock_path": ["path", "name"]
        },
        "mappings": { "properties": {
            "name": { "type": "keyword" },
            "path": { "type": "keyword", "fields": { "tree": { "type": "text", "analyzer": "paths", "search_analyzer": "keyword" } } },
            "contents": { "type": "text" },
            "size": { "type": "long" },
            "mtime": { "type": "date" }
        } }
    });
    let answer = client.send("PUT", &path, JSON, body.to_string().as_bytes())?;
    match answer.status {
        200 | 201 => Ok(()),
        _ => Err(Error::illegal(format!(
            "creating the index [{index}] failed: {}",
            sentence(&answer.body)
        ))),
    }
}

/// A folder that is to be looked through, and the patterns that hold in it, those of the outermost folder first.
struct Folder {
    path: PathBuf,
    name: String,
    patterns: Vec<Gitignore>,
}

/// What is looked for in a folder.
struct Walk<'a> {
    flags: &'a ImportFlags,
    max_bytes: u64,
    excluded: Gitignore,
    /// Those that are still to be looked through, the next one last.
    folders: Vec<Folder>,
    found: Vec<Found>,
}

impl Walk<'_> {
    fn new<'a>(flags: &'a ImportFlags, folder: &Path, max_bytes: u64) -> Result<Walk<'a>> {
        let mut excluded = GitignoreBuilder::new(folder);
        for pattern in &flags.exclude {
            let added = excluded.add_line(None, pattern);
            added.map_err(|cause| Error::illegal(format!("--exclude [{pattern}] is no pattern: {cause}")))?;
        }
        let excluded = excluded.build();
        Ok(Walk {
            flags,
            max_bytes,
            excluded: excluded.map_err(|cause| Error::illegal(format!("--exclude: {cause}")))?,
            folders: vec![Folder {
                path: folder.to_owned(),
                name: String::new(),
                patterns: match flags.ignored {
                    true => Vec::new(),
                    false => patterns_above(folder),
                },
            }],
            found: Vec::new(),
        })
    }

    /// Every file to import, folder by folder, in the order of names. Links are not followed: they may lead in circles.
    fn run(mut self, counts: &mut Counts) -> Vec<Found> {
        while let Some(folder) = self.folders.pop() {
            self.look_through(folder, counts);
        }
        self.found
            .sort_by(|one, other| one.name.split('/').cmp(other.name.split('/')));
        self.found
    }

    fn look_through(&mut self, mut folder: Folder, counts: &mut Counts) {
        let listing = std::fs::read_dir(&folder.path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let entries = match listing {
            Ok(entries) => entries,
            Err(cause) => return counts.fail(format!("{}/: {cause}", folder.name)),
        };
        if !self.flags.ignored {
            folder.patterns.extend(patterns_of(&folder.path));
        }
        for entry in entries {
            let own = entry.file_name().to_string_lossy().into_owned();
            let name = format!("{}/{own}", folder.name);
            match entry.metadata() {
                Ok(facts) => self.add(&folder, &entry, &facts, name, counts),
                Err(cause) => counts.fail(format!("{name}: {cause}")),
            }
        }
    }

    fn add(&mut self, folder: &Folder, entry: &DirEntry, facts: &Metadata, name: String, counts: &mut Counts) {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") && !self.flags.hidden {
            counts.hidden += 1;
        } else if self.excluded.matched(&path, facts.is_dir()).is_ignore() || is_ignored(&folder.patterns, &path, facts.is_dir())
        {
            counts.excluded += 1;
        } else if facts.is_dir() {
            self.folders.push(Folder {
                path,
                name,
                patterns: folder.patterns.clone(),
            });
        } else if facts.is_file() && facts.len() > self.max_bytes {
            counts.too_large += 1;
        } else if facts.is_file() {
            self.found.push(Found {
                path,
                name,
                bytes: facts.len(),
            });
        }
    }
}

/// The innermost pattern decides.
fn is_ignored(patterns: &[Gitignore], path: &Path, is_folder: bool) -> bool {
    let decided = patterns.iter().rev().map(|of_folder| of_folder.matched(path, is_folder));
    let mut decided = decided.filter(|decided| !matches!(decided, Match::None));
    decided.next().is_some_and(|decided| decided.is_ignore())
}

/// The patterns of a folder. A line that is no pattern is passed over, as `git` does.
fn patterns_of(folder: &Path) -> Option<Gitignore> {
    let file = folder.join(IGNORE_FILE);
    file.is_file().then(|| Gitignore::new(file).0)
}

/// The patterns of the folders above one in its repository, the outermost first; none where it is in no repository.
fn patterns_above(folder: &Path) -> Vec<Gitignore> {
    let Some(depth) = folder.ancestors().position(|above| above.join(".git").exists()) else {
        return Vec::new();
    };
    let mut above: Vec<Gitignore> = folder.ancestors().take(depth + 1).skip(1).filter_map(patterns_of).collect();
    above.reverse();
    above
}

/// The document of a file; `None` for a binary one that is not wanted.
fn describe(file: &Found, binary: bool) -> std::io::Result<Option<Value>> {
    let mut bytes = Vec::new();
    let mut open = File::open(&file.path)?;
    open.read_to_end(&mut bytes)?;
    let facts = open.metadata()?;
    let (folder, name) = file.name.rsplit_once('/').unwrap_or(("", &file.name));
    let folder = if folder.is_empty() { "/" } else { folder };
    let mtime = facts
        .modified()
        .ok()
        .and_then(|t| t.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    let mut source = json!({ "name": name, "path": folder, "size": bytes.len(), "mtime": mtime });
    match text_of(bytes) {
        Some(contents) => source["contents"] = contents.into(),
        None if binary => {}
        None => return Ok(None),
    }
    Ok(Some(source))
}

/// The text of a file, `None` if it is none: a NUL among its first 8 kB, or not UTF-8.
fn text_of(bytes: Vec<u8>) -> Option<String> {
    if bytes.iter().take(8192).any(|b| *b == 0) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(text_of(b"plain".to_vec()).as_deref(), Some("plain"));
        assert_eq!(text_of(b"a\0b".to_vec()), None);
        assert_eq!(text_of(vec![0xff, 0xfe]), None);
    }
}
