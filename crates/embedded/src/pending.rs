//! Operations that are in the log and in no segment yet, and their stored form beside the source.
//!
//! Not here: how they come to be (`evaluate`, `commit`, `recovery`), building segments of them (`publish`).

use crate::document_key::Key;
use crate::lock_order::Mutex;
use engine::{Hidden, Source};
use mapping::tree::{Placed, Tree};
use mapping::{Mapping, Parsed, Times};
use model::Stamp;
use segment::directory::Held;
use segment::hidden_mark::read_mark;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// An operation that is in the log and in no segment.
#[derive(Debug)]
pub(crate) struct PendingOp {
    /// Its document.
    pub(crate) uid: Box<str>,
    /// Its key in the version map.
    pub(crate) key: Key,
    /// There was nothing of it before, in no segment and no other operation.
    pub(crate) fresh: bool,
    /// Its stamp.
    pub(crate) stamp: Stamp,
    /// Durable from here on; the end of its record.
    pub(crate) position: u64,
    /// A document, or its deletion.
    pub(crate) kind: Kind,
}

/// The effect of a pending operation.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every operation is a document")]
pub(crate) enum Kind {
    /// A document.
    Put(Put),
    /// It goes.
    Delete,
}

/// A document as written.
#[derive(Debug)]
pub(crate) struct Put {
    /// The mapping under which it was accepted.
    pub(crate) mapping: Mapping,
    /// As the client wrote it.
    pub(crate) source: Arc<[u8]>,
    /// `_routing`.
    pub(crate) routing: Option<Box<str>>,
    /// `_parent`.
    pub(crate) parent: Option<Box<str>>,
    /// `_timestamp` and `_ttl`.
    pub(crate) times: Times,
    /// Its directories, by `tree_path` field.
    pub(crate) placed: Box<[Placed]>,
    /// Its mark, and the mark's stored form.
    pub(crate) hidden: Option<(Hidden, Vec<u8>)>,
    /// Its source as the mapping reads it, until a build takes it; not kept where many wait.
    pub(crate) parsed: Mutex<Option<Box<KeptParsed>>>,
}

/// A document that was read through its mapping, counted for as long as it is here.
#[derive(Debug)]
pub(crate) struct KeptParsed {
    parsed: Parsed,
    /// Counts until it is dropped.
    _held: Arc<Held>,
}

impl KeptParsed {
    pub(crate) fn new(parsed: Parsed, held: Arc<Held>) -> KeptParsed {
        KeptParsed { parsed, _held: held }
    }
}

impl Put {
    /// The source with the paths of a tree.
    pub(crate) fn source_as_of(&self, tree: Option<&Arc<Tree>>) -> Source {
        let todays = tree.and_then(|tree| segment::searchable::todays_source(&self.mapping, tree, &self.source, &self.placed));
        Source(todays.map_or_else(|| self.source.clone(), Into::into))
    }
    /// The source as it was read, for whoever comes first.
    pub(crate) fn take_parsed(&self) -> Option<Parsed> {
        self.parsed.lock().take().map(|kept| kept.parsed)
    }
}

/// Bytes of the version map for a document in it.
pub(crate) const MAP_ENTRY_BYTES: usize = 208;
/// Overhead of an allocation: bytes are rounded up, and a shared one has two counts.
const ALLOCATION_BYTES: usize = 24;

impl PendingOp {
    /// Whether a tree removed a directory of its document (trees.md D10).
    pub(crate) fn is_removed(&self, tree: Option<&Tree>) -> bool {
        match (&self.kind, tree) {
            (Kind::Put(put), Some(tree)) => put.placed.iter().any(|placed| placed.is_removed(tree)),
            _ => false,
        }
    }

    /// Its bytes in memory: itself, its texts, its entry in the version map, and its place in the queue. The document read from
    /// its source is counted by who keeps it.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = match &self.kind {
            Kind::Put(put) => {
                let optional = put
                    .routing
                    .iter()
                    .chain(&put.parent)
                    .map(|text| text.len() + ALLOCATION_BYTES);
                put.source.len() + ALLOCATION_BYTES + optional.sum::<usize>()
            }
            Kind::Delete => 0,
        };
        let own = size_of::<PendingOp>() + self.uid.len() + 2 * ALLOCATION_BYTES;
        (own + texts + MAP_ENTRY_BYTES + 2 * size_of::<Arc<PendingOp>>()) as u64
    }
}

impl PendingOp {
    /// Its text and a little more: what a transaction's limits of bytes count.
    pub(crate) fn text_bytes(&self) -> u64 {
        let source = match &self.kind {
            Kind::Put(put) => put.source.len(),
            Kind::Delete => 0,
        };
        (source + self.uid.len() + 200) as u64
    }
}

/// The bytes that the log keeps beside the source: the parent, the mark, the times and the directories.
pub(crate) fn extras(parent: Option<&str>, hidden: Option<&Hidden>, times: Times, placed: &[Placed]) -> Option<Vec<u8>> {
    if parent.is_none() && hidden.is_none() && times.is_none() && placed.is_empty() {
        return None;
    }
    let logged = LoggedExtras {
        parent,
        mark: hidden.map(|hidden| LoggedMark {
            body: &hidden.body,
            visible: hidden.visible,
            held: hidden.held,
        }),
        timestamp: times.timestamp,
        expires: times.expires,
        placed,
    };
    let out = serde_json::to_vec(&logged).unwrap_or_else(|e| unreachable!("numbers and texts are JSON: {e}"));
    debug_assert!(
        {
            let read = read_extras(Some(&out));
            (read.parent, read.hidden, read.times) == (parent.map(Into::into), hidden.cloned(), times) && *read.placed == *placed
        },
        "2: what a start reads beside a source is what was written"
    );
    Some(out)
}

/// The form in the log. It is written for each document of some indices, so it is not built as a tree first.
#[derive(Serialize)]
struct LoggedExtras<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<LoggedMark<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
    #[serde(skip_serializing_if = "<[Placed]>::is_empty")]
    placed: &'a [Placed],
}

#[derive(Serialize)]
struct LoggedMark<'a> {
    body: &'a Value,
    visible: bool,
    held: bool,
}

/// The facts about a document that the log keeps beside its source.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) parent: Option<Box<str>>,
    pub(crate) hidden: Option<Hidden>,
    pub(crate) times: Times,
    pub(crate) placed: Box<[Placed]>,
}

/// The other way.
pub(crate) fn read_extras(bytes: Option<&[u8]>) -> Extras {
    let Some(value) = bytes.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok()) else {
        return Extras::default();
    };
    let mark = value
        .get("mark")
        .filter(|mark| mark.is_object())
        .and_then(|mark| read_mark(mark.to_string().as_bytes()));
    let times = Times {
        timestamp: value["timestamp"].as_i64(),
        expires: value["expires"].as_i64(),
    };
    let placed = value["placed"].as_array().into_iter().flatten();
    Extras {
        parent: value["parent"].as_str().map(Into::into),
        hidden: mark,
        times,
        placed: placed.filter_map(Placed::from_json).collect(),
    }
}
