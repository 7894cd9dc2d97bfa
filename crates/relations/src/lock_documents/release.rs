//! The writes of lock documents whose leases end other than by a write of the document.
//!
//! Not here: writes of lock documents (`apply`), when leases end (`lease_ends`).

use super::format::LockState;
use crate::leases::{Lease, LockDocument};
use engine::{Document, Newest, See, Source, Write, WriteOp};
use model::{DocAddress, ErrorKind, Result};
use std::collections::BTreeMap;

/// The writes of their documents when these leases end other than by a write of the document.
///
/// # Errors
/// An index that cannot be read or written now.
pub(crate) fn release(newest: &mut dyn Newest, leases: &[Lease]) -> Result<Vec<Write>> {
    let mut documents: BTreeMap<&DocAddress, (&LockDocument, u64)> = BTreeMap::new();
    for lock_document in leases.iter().filter_map(|lease| lease.lock_document.as_deref()) {
        documents.entry(&lock_document.at).or_insert((lock_document, 0)).1 += 1;
    }
    let mut writes = Vec::with_capacity(documents.len());
    for (at, (lock_document, ended)) in documents {
        let index = match newest.index(at.index.as_str()) {
            Ok(index) => index,
            Err(e) if e.kind() == ErrorKind::IndexNotFound => continue,
            Err(e) => return Err(e),
        };
        if *index.uuid != *lock_document.uuid || index.name != at.index {
            continue;
        }
        let Some(document) = newest.read(at, See::Plain)? else {
            continue;
        };
        let Document { routing, parent, .. } = document;
        let op = match LockState::of_stored(&document.source)? {
            LockState::Shared(count) if count > ended => {
                let mut source = document.source.parse()?;
                source["lock_count"] = (count - ended).into();
                WriteOp::Put(Source::from_value(&source))
            }
            LockState::Shared(_) | LockState::Exclusive => WriteOp::Delete,
        };
        let mut write = Write::new(at.clone(), op);
        (write.routing, write.parent) = (routing, parent);
        writes.push(write);
    }
    Ok(writes)
}
