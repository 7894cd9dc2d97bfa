//! A write with its index, its identity and its routing: the first step of each write's way (write-path.md 3, step 1).
//!
//! Plain writes, decisions, staged writes and rehearsals all begin here and go on in `evaluate`. Not here: any look at
//! documents.

use crate::catalog::{Catalog, IndexEntry};
use engine::{Expect, Judge, Write, WriteOp};
use model::{DocAddress, Error, ErrorKind, ID_MAX_BYTES, Result, blocks};
use std::sync::Arc;

/// A write whose checks that need no document have passed.
pub(crate) struct ResolvedWrite {
    pub(crate) entry: Arc<IndexEntry>,
    /// Its document, by the index' own name.
    pub(crate) at: DocAddress,
    pub(crate) uid: Box<str>,
    /// Its id and routing are those of the index; its index is as the client named it.
    pub(crate) write: Write,
}

impl ResolvedWrite {
    /// A write in the index that its name means in this catalog.
    ///
    /// # Errors
    /// No such index, or several; then as [`ResolvedWrite::within`].
    pub(crate) fn find(catalog: &Catalog, write: Write, now_ms: i64) -> Result<ResolvedWrite> {
        let entry = catalog.write_index(write.at.index.as_str(), write.require_alias, now_ms)?;
        ResolvedWrite::within(entry, write)
    }

    /// A write in this index.
    ///
    /// # Errors
    /// A closed, blocked or replaced index; an id, a type, a routing or an expectation that no document can have there.
    pub(crate) fn within(entry: Arc<IndexEntry>, mut write: Write) -> Result<ResolvedWrite> {
        check(&entry, &write)?;
        write.at.id = entry.identity(&write.at.id)?;
        write.routing = entry.routing_through(write.at.index.as_str(), write.routing)?;
        entry.check_routing(&write.at.id, write.routing.as_deref().or(write.parent.as_deref()))?;
        let at = DocAddress {
            index: entry.name.clone(),
            id: write.at.id.clone(),
        };
        let uid = at.id.uid().into();
        Ok(ResolvedWrite { entry, at, uid, write })
    }
}

/// Bytes to reserve in the log for a document, with room for the growth that it brings.
pub(crate) fn log_bytes(id: &str, source: Option<&[u8]>) -> u64 {
    const BESIDE_SOURCE: usize = 512;
    (BESIDE_SOURCE + id.len() + source.map_or(0, |source| 2 * source.len())) as u64
}

/// Limits that do not need the document's state.
fn check(entry: &IndexEntry, write: &Write) -> Result<()> {
    if let Some(uuid) = write.index_uuid.as_deref().filter(|uuid| *uuid != entry.uuid) {
        return Err(engine::catalog::index_replaced(entry.name.as_str(), uuid));
    }
    if !entry.open {
        return Err(engine::catalog::index_closed(&entry.name, &entry.uuid));
    }
    let id = &write.at.id.id;
    if id.is_empty() {
        return Err(Error::illegal("if _id is specified it must not be empty"));
    }
    if id.len() > ID_MAX_BYTES {
        let reason = format!(
            "id [{id}] is too long, must be no longer than {ID_MAX_BYTES} bytes but was: {}",
            id.len()
        );
        let reason = format!("Validation Failed: 1: {reason};");
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    if id.len() + 1 + write.at.id.doc_type.as_ref().map_or(0, |t| t.len()) > 2 * ID_MAX_BYTES {
        return Err(Error::illegal("type and id are too long together"));
    }
    if write.judge != Judge::Unseen {
        let level = match write.op {
            WriteOp::Delete => blocks::Level::DeleteDocument,
            WriteOp::Put(_) | WriteOp::Update(_) => blocks::Level::Write,
        };
        blocks::check(&entry.settings, entry.name.as_str(), level)?;
    }
    if let (WriteOp::Put(_), Some(_), true) = (&write.op, &write.parent, entry.has_types())
        && entry.mapping_for(write.at.id.doc_type.as_deref())?.parent_type().is_none()
    {
        return Err(Error::illegal("Can't specify parent if no parent field has been configured"));
    }
    if let Expect::Version(0) = write.expect {
        return Err(Error::illegal("illegal version value [0] for version type [INTERNAL]"));
    }
    // A deletion too: replay asks for the mapping of its type.
    entry.mapping_for(write.at.id.doc_type.as_deref()).map(drop)
}
