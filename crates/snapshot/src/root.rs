//! The root of a repository: its identity, how often it was changed, and a row for each snapshot.
//!
//! Not here: reading and writing it (`repository`, `writer`).

use crate::blob::{Blob, unsound};
use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::sync::Arc;

/// The version that this program writes.
const FORMAT: u64 = 1;

/// The root.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Root {
    /// Made with the repository; another folder has another one.
    pub id: String,
    /// Counts the changes of the root.
    pub generation: u64,
    /// Oldest first.
    pub snapshots: Vec<Arc<Summary>>,
}

/// The outcome of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being written.
    InProgress,
    /// Everything is in it.
    Success,
    /// Indices that could not be read are left out.
    Partial,
}

impl State {
    /// As clients read it.
    pub fn wire(self) -> &'static str {
        match self {
            State::InProgress => "IN_PROGRESS",
            State::Success => "SUCCESS",
            State::Partial => "PARTIAL",
        }
    }
}

/// An index that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFailure {
    /// Its name.
    pub index: String,
    /// In words.
    pub reason: String,
}

/// One snapshot without its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Unique in its repository.
    pub name: String,
    /// Unique.
    pub uuid: String,
    pub state: State,
    /// Milliseconds since 1970.
    pub start_ms: i64,
    pub end_ms: i64,
    /// Names, sorted; those that failed are not in it.
    pub indices: Vec<String>,
    pub include_global_state: bool,
    /// The client's own.
    pub metadata: Option<Value>,
    pub failures: Vec<IndexFailure>,
    /// Shards as they are reported, those of failed indices too.
    pub shards: u64,
    pub failed_shards: u64,
    /// The position of the newest change that is in it.
    pub commit_seq: u64,
    /// It was made of another one.
    pub is_clone: bool,
    /// The version of the program that wrote it.
    pub version: String,
    /// The file of its contents.
    pub contents: Option<Blob>,
}

impl Summary {
    fn to_json(&self) -> Value {
        let failures: Vec<Value> = self.failures.iter().map(|one| json!([one.index, one.reason])).collect();
        json!({
            "name": self.name, "uuid": self.uuid, "state": self.state.wire(), "start": self.start_ms, "end": self.end_ms,
            "indices": self.indices, "global": self.include_global_state, "metadata": self.metadata, "failures": failures,
            "shards": self.shards, "failed_shards": self.failed_shards, "commit_seq": self.commit_seq, "clone": self.is_clone,
            "version": self.version, "contents": self.contents.map(Blob::to_json),
        })
    }

    fn from_json(value: &Value) -> Result<Summary> {
        let what = || unsound("a snapshot");
        let text = |field: &str| value[field].as_str().map(str::to_owned).ok_or_else(what);
        let number = |field: &str| value[field].as_u64().ok_or_else(what);
        let state = match value["state"].as_str() {
            Some("SUCCESS") => State::Success,
            Some("PARTIAL") => State::Partial,
            _ => return Err(what()),
        };
        let names = value["indices"].as_array().ok_or_else(what)?;
        let failures = value["failures"].as_array().ok_or_else(what)?.iter().map(|row| {
            Ok(IndexFailure {
                index: row[0].as_str().ok_or_else(what)?.to_owned(),
                reason: row[1].as_str().ok_or_else(what)?.to_owned(),
            })
        });
        let uuid = text("uuid")?;
        // It is the name of a file.
        if uuid.is_empty() || uuid.len() > 64 || !uuid.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            return Err(what());
        }
        Ok(Summary {
            name: text("name")?,
            uuid,
            state,
            start_ms: value["start"].as_i64().ok_or_else(what)?,
            end_ms: value["end"].as_i64().ok_or_else(what)?,
            indices: names
                .iter()
                .map(|name| name.as_str().map(str::to_owned).ok_or_else(what))
                .collect::<Result<_>>()?,
            include_global_state: value["global"] == true,
            metadata: Some(value["metadata"].clone()).filter(|metadata| !metadata.is_null()),
            failures: failures.collect::<Result<_>>()?,
            shards: number("shards")?,
            failed_shards: number("failed_shards")?,
            commit_seq: number("commit_seq")?,
            is_clone: value["clone"] == true,
            version: text("version")?,
            contents: Some(Blob::from_json(&value["contents"])?),
        })
    }
}

/// The refusal of a snapshot's name that is taken.
pub fn name_taken(repository: &str, name: &str) -> Error {
    let reason = format!("[{repository}:{name}] Invalid snapshot name [{name}], snapshot with the same name already exists");
    Error::new(ErrorKind::InvalidSnapshotName, reason)
}

impl Root {
    /// Is a name free in this repository, which is called so?
    ///
    /// # Errors
    /// InvalidSnapshotName.
    pub fn check_free(&self, repository: &str, name: &str) -> Result<()> {
        match self.snapshot(name) {
            None => Ok(()),
            Some(_) => Err(name_taken(repository, name)),
        }
    }
    /// The snapshot of that name.
    pub fn snapshot(&self, name: &str) -> Option<&Arc<Summary>> {
        self.snapshots.iter().find(|one| one.name == name)
    }
    pub(crate) fn to_json(&self) -> Value {
        let snapshots: Vec<Value> = self.snapshots.iter().map(|one| one.to_json()).collect();
        json!({ "pleach_repository": FORMAT, "id": self.id, "generation": self.generation, "snapshots": snapshots })
    }
    /// # Errors
    /// IllegalState: a later version wrote it. Corruption: nobody of ours did.
    pub(crate) fn from_json(value: &Value) -> Result<Root> {
        let what = || unsound("itself");
        match value["pleach_repository"].as_u64() {
            Some(FORMAT) => {}
            Some(other) => {
                let reason = format!("format version [{other}] of the repository is unknown, this program writes [{FORMAT}]");
                return Err(Error::new(ErrorKind::IllegalState, reason));
            }
            None => return Err(what()),
        }
        let snapshots = value["snapshots"].as_array().ok_or_else(what)?;
        Ok(Root {
            id: value["id"].as_str().ok_or_else(what)?.to_owned(),
            generation: value["generation"].as_u64().ok_or_else(what)?,
            snapshots: snapshots
                .iter()
                .map(|one| Summary::from_json(one).map(Arc::new))
                .collect::<Result<_>>()?,
        })
    }
}
