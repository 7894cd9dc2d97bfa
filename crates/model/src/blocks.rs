//! `index.blocks.*`: what an index refuses, in the reference's words.
//!
//! Not here: who asks; each request names its level.

use crate::{Error, ErrorKind, Result, Topic};
use serde_json::{Map, Value};

/// The kind of access that a request has to an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Search, count or get documents.
    Read,
    /// Write documents.
    Write,
    /// Delete documents.
    DeleteDocument,
    /// Tell mappings and settings.
    MetadataRead,
    /// Change mappings, settings or aliases, open or close.
    MetadataWrite,
    /// Delete the whole index.
    Delete,
}

/// A block.
struct Block {
    setting: &'static str,
    number: u8,
    words: &'static str,
    status: u16,
    stops: &'static [Level],
}

/// The block that the disk's flood stage sets.
pub const READ_ONLY_ALLOW_DELETE: &str = "index.blocks.read_only_allow_delete";

/// How the names of their settings begin.
const PREFIX: &str = "index.blocks.";

const BLOCKS: &[Block] = &[
    Block {
        setting: "index.blocks.read_only",
        number: 5,
        words: "index read-only (api)",
        status: 403,
        stops: &[Level::Write, Level::DeleteDocument, Level::MetadataWrite, Level::Delete],
    },
    Block {
        setting: "index.blocks.read",
        number: 7,
        words: "index read (api)",
        status: 403,
        stops: &[Level::Read],
    },
    Block {
        setting: "index.blocks.write",
        number: 8,
        words: "index write (api)",
        status: 403,
        stops: &[Level::Write, Level::DeleteDocument],
    },
    Block {
        setting: "index.blocks.metadata",
        number: 9,
        words: "index metadata (api)",
        status: 403,
        stops: &[Level::MetadataRead, Level::MetadataWrite, Level::Delete],
    },
    // Deleted documents make room, so that a full disk refuses no deletion: neither here nor in the engine (507).
    Block {
        setting: READ_ONLY_ALLOW_DELETE,
        number: 12,
        words: "disk usage exceeded flood-stage watermark, index has read-only-allow-delete block",
        status: 429,
        stops: &[Level::Write, Level::MetadataWrite],
    },
];

/// The setting of the block of a name: `write` is `index.blocks.write`.
pub fn setting(name: &str) -> Option<&'static str> {
    let mut settings = BLOCKS.iter().map(|block| block.setting);
    settings.find(|setting| setting.strip_prefix(PREFIX) == Some(name))
}

/// Do the settings of an index have this block?
pub fn is_on(settings: &Map<String, Value>, setting: &str) -> bool {
    match settings.get(setting) {
        Some(Value::String(text)) => text == "true",
        Some(value) => value == &Value::Bool(true),
        None => false,
    }
}

/// Refuses what the settings of an index block.
///
/// # Errors
/// `cluster_block_exception`: 403, and 429 where deleting the index would help.
pub fn check(settings: &Map<String, Value>, index: &str, level: Level) -> Result<()> {
    // Most have none, and this is asked for each write.
    if !settings.keys().any(|name| name.starts_with(PREFIX)) {
        return Ok(());
    }
    let Some(block) = BLOCKS
        .iter()
        .find(|block| block.stops.contains(&level) && is_on(settings, block.setting))
    else {
        return Ok(());
    };
    let Block {
        number, words, status, ..
    } = block;
    let word = if *status == 429 { "TOO_MANY_REQUESTS" } else { "FORBIDDEN" };
    let block = format!("{word}/{number}/{words}");
    let reason = format!("index [{index}] blocked by: [{block}];");
    Err(Error::new(ErrorKind::ClusterBlock, reason)
        .status_of(*status)
        .with("index", index)
        .about(Topic::IndexBlock { block }))
}

/// Does a change of settings do nothing but set one of the blocks that would stop it? That way they are lifted.
pub fn lifts(changes: &Map<String, Value>) -> bool {
    let is_lifted = |name: &String| {
        let block = BLOCKS.iter().find(|block| block.setting == name);
        block.is_some_and(|block| block.stops.contains(&Level::MetadataWrite))
    };
    changes.len() == 1 && changes.keys().all(is_lifted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(name: &str, level: Level) -> Option<(u16, String)> {
        let settings = json!({ format!("index.blocks.{name}"): "true" });
        let error = check(settings.as_object().unwrap(), "i", level).err()?;
        Some((error.status(), error.reason().to_owned()))
    }

    #[test]
    fn levels() {
        let reason = |text: &str| format!("index [i] blocked by: [{text}];");
        assert_eq!(
            refusal("write", Level::Write),
            Some((403, reason("FORBIDDEN/8/index write (api)")))
        );
        assert_eq!(refusal("write", Level::Read), None);
        assert_eq!(
            refusal("read", Level::Read),
            Some((403, reason("FORBIDDEN/7/index read (api)")))
        );
        assert_eq!(
            refusal("read_only", Level::Delete),
            Some((403, reason("FORBIDDEN/5/index read-only (api)")))
        );
        assert_eq!(
            refusal("metadata", Level::MetadataWrite),
            Some((403, reason("FORBIDDEN/9/index metadata (api)")))
        );
        assert!(refusal("metadata", Level::MetadataRead).is_some());
        assert_eq!(refusal("read_only", Level::MetadataRead), None);
        assert_eq!(refusal("read_only_allow_delete", Level::Delete), None);
        assert_eq!(refusal("read_only_allow_delete", Level::Write).unwrap().0, 429);
        assert_eq!(refusal("read_only_allow_delete", Level::DeleteDocument), None);
        assert_eq!(refusal("write", Level::DeleteDocument).unwrap().0, 403);
        assert_eq!(refusal("read_only", Level::DeleteDocument).unwrap().0, 403);
    }
}
