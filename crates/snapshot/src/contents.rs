//! The contents of one snapshot: its indices, with the files that they consist of.
//!
//! Not here: what the catalog says of an index, which is the engine's JSON and is kept as it is.

use crate::blob::{Blob, unsound};
use model::Result;
use serde_json::{Value, json};

/// All of a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// By name.
    pub indices: Vec<IndexPart>,
    /// Templates, stored scripts, settings of the cluster and the like, if they are in it.
    pub global: Option<Value>,
}

/// One index at the moment of the snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexPart {
    /// Its name then.
    pub name: String,
    /// Its entry in the catalog.
    pub entry: Value,
    /// The sequence number of its next operation.
    pub next_seq_no: u64,
    /// The primary term of its last operation at most.
    pub term: u64,
    /// Reported.
    pub shards: u64,
    /// Oldest first.
    pub segments: Vec<SegmentPart>,
    /// A file with the live documents of segments (`live-N`) and the directories (`tree`).
    pub beside: Option<Blob>,
    /// That file has the directories.
    pub has_tree: bool,
    /// Files that this snapshot brought, and their bytes.
    pub new_files: u64,
    pub new_bytes: u64,
}

/// One segment.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentPart {
    /// tantivy's id; no other segment has it.
    pub uuid: String,
    /// Documents, nested and dead ones too.
    pub max_doc: u32,
    /// Its components, as `s/EXTENSION`.
    pub blob: Blob,
    /// The file beside has its live documents; else all are.
    pub has_deletions: bool,
}

impl IndexPart {
    /// The prefix of components in a segment's file.
    pub const PREFIX: &str = "s";
    /// The component of the directories.
    pub const TREE: &str = "tree";
    /// The component with the live documents of a segment.
    pub fn live(segment: usize) -> String {
        format!("live-{segment}")
    }
    /// Its files.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.segments.iter().map(|segment| &segment.blob).chain(&self.beside)
    }
    /// The bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.blobs().fold(0, |sum, blob| sum.saturating_add(blob.bytes))
    }

    fn to_json(&self) -> Value {
        let segments = self.segments.iter().map(|segment| {
            json!({ "uuid": segment.uuid, "max_doc": segment.max_doc, "file": segment.blob.to_json(), "deletions": segment.has_deletions })
        });
        json!({
            "name": self.name, "entry": self.entry, "next_seq_no": self.next_seq_no, "term": self.term, "shards": self.shards,
            "segments": segments.collect::<Vec<_>>(), "beside": self.beside.map(Blob::to_json), "tree": self.has_tree,
            "new_files": self.new_files, "new_bytes": self.new_bytes,
        })
    }

    fn from_json(value: &Value) -> Result<IndexPart> {
        let name = value["name"].as_str().ok_or_else(|| unsound("an index"))?;
        let what = || unsound(&format!("index [{name}]"));
        let number = |field: &str| value[field].as_u64().ok_or_else(what);
        let segments = value["segments"].as_array().ok_or_else(what)?.iter().map(|segment| {
            Ok(SegmentPart {
                uuid: segment["uuid"].as_str().ok_or_else(what)?.to_owned(),
                max_doc: segment["max_doc"]
                    .as_u64()
                    .and_then(|n| u32::try_from(n).ok())
                    .ok_or_else(what)?,
                blob: Blob::from_json(&segment["file"])?,
                has_deletions: segment["deletions"].as_bool().ok_or_else(what)?,
            })
        });
        let segments: Vec<SegmentPart> = segments.collect::<Result<_>>()?;
        let beside = match &value["beside"] {
            Value::Null => None,
            blob => Some(Blob::from_json(blob)?),
        };
        let has_tree = value["tree"] == true;
        if beside.is_none() && (has_tree || segments.iter().any(|segment| segment.has_deletions)) {
            return Err(what());
        }
        Ok(IndexPart {
            name: name.to_owned(),
            entry: value["entry"].clone(),
            next_seq_no: number("next_seq_no")?,
            term: number("term")?,
            shards: number("shards")?,
            segments,
            beside,
            has_tree,
            new_files: number("new_files")?,
            new_bytes: number("new_bytes")?,
        })
    }
}

impl Contents {
    /// The index of that name.
    pub fn index(&self, name: &str) -> Option<&IndexPart> {
        self.indices.iter().find(|index| index.name == name)
    }
    pub(crate) fn to_json(&self) -> Value {
        let indices: Vec<Value> = self.indices.iter().map(IndexPart::to_json).collect();
        json!({ "indices": indices, "global": self.global })
    }
    pub(crate) fn from_json(value: &Value) -> Result<Contents> {
        let indices = value["indices"].as_array().ok_or_else(|| unsound("a snapshot"))?;
        Ok(Contents {
            indices: indices.iter().map(IndexPart::from_json).collect::<Result<_>>()?,
            global: Some(value["global"].clone()).filter(Value::is_object),
        })
    }
}
