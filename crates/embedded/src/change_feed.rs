//! The feed of changes of the store: the records of the log as changes of documents and indices.
//!
//! A `commit_seq` is where a record begins in the log. Position N of the feed is position N + 1 of the log: what begins there or
//! later is behind it. Records are read from the log's files, also from those that replay does not need any more, as long as
//! the retention keeps them.
//!
//! Not here: the files (`log::follow`), how clients ask.

use crate::catalog::{Catalog, IndexEntry, growth_type};
use crate::deleted_indices::IndexIdentity;
use crate::log::{Part, Replayed};
use crate::pending::read_extras;
use crate::store::Store;
use engine::changes::{Change, Changes, IndexState, Operation, Retained, changes_gone};
use engine::{Document, Source, TreeAct};
use model::system_index::is_system;
use model::{DocAddress, DocId, Error, ErrorKind, Result};
use serde_json::Value;
use std::sync::Arc;

impl Store {
    /// The positions between which changes are kept.
    pub(crate) fn retained_changes(&self) -> Retained {
        Retained {
            oldest: self.log.oldest_position().saturating_sub(1),
            newest: self.log.durable_position().saturating_sub(1),
        }
    }

    /// Durable changes behind `since`.
    ///
    /// # Errors
    /// As `engine::changes::ChangeFeed::changes`.
    pub(crate) fn changes(&self, since: u64, bytes_max: u64) -> Result<Changes> {
        let newest = self.retained_changes().newest;
        if since > newest {
            return Err(beyond(since, newest));
        }
        // A position below the retention is refused even if the tail has its changes, so no answer depends on other readers.
        let oldest = self.retained_changes().oldest;
        if since >= oldest
            && let Some(shared) = self.feed_tail.after(since, bytes_max)
        {
            return Ok(shared);
        }
        let Some(followed) = self.log.read_after(since + 1, bytes_max)? else {
            return Err(changes_gone(since, self.retained_changes().oldest));
        };
        debug_assert!(
            followed.next > since && followed.next <= self.log.durable_position(),
            "1.3: a part of the feed from {since} to {} is durable",
            followed.next
        );
        let reader = Reader {
            store: self,
            catalog: self.catalog.now(),
        };
        let mut changes = Vec::new();
        for replayed in followed.records {
            changes.extend(reader.change(replayed)?.map(Arc::new));
        }
        debug_assert!(
            changes.windows(2).all(|two| two[0].commit_seq < two[1].commit_seq)
                && changes
                    .iter()
                    .all(|change| (since + 1..followed.next).contains(&change.commit_seq)),
            "1.1: changes of the feed behind {since} rise, up to {}",
            followed.next
        );
        let read = Changes {
            changes,
            next: followed.next - 1,
        };
        self.feed_tail.extend(since, &read);
        Ok(read)
    }
}

struct Reader<'a> {
    store: &'a Store,
    /// Newer than the records: an index that it lacks was deleted.
    catalog: Arc<Catalog>,
}

impl Reader<'_> {
    /// One record as a change; `None` if it concerns the server's own indices alone.
    fn change(&self, replayed: Replayed) -> Result<Option<Change>> {
        let (mut operations, mut directories) = (Vec::new(), Vec::new());
        for part in replayed.record.parts {
            match part {
                Part::Alter { index_no, delta } => {
                    let delta = read(&delta)?;
                    match delta.get("tree") {
                        Some(tree) => directories.extend(self.directories(index_no, tree)?),
                        None => operations.extend(self.alteration(index_no, &delta)?),
                    }
                }
                part => operations.extend(self.write(part)),
            }
        }
        // The paths of documents are those before the moves of the same record.
        operations.append(&mut directories);
        operations.retain(|operation| !is_system(operation.index().as_str()));
        let change = Change {
            commit_seq: replayed.start,
            operations,
        };
        Ok(Some(change).filter(|change| !change.operations.is_empty()))
    }

    /// The index of a number. `None`: its name was forgotten, so it was deleted long ago, and its deletion stands later in
    /// the feed.
    fn identity(&self, no: u32) -> Option<IndexIdentity> {
        let known = self.catalog.by_no(no).map(|entry| IndexIdentity::of(entry));
        known.or_else(|| self.store.deleted_indices.get(no))
    }

    fn write(&self, part: Part) -> Option<Operation> {
        let (uid, stamp) = part.write()?;
        let index = self.identity(part.index_no())?;
        let at = DocAddress {
            id: DocId::from_uid(uid, index.typed),
            index: index.name,
        };
        let Part::Put {
            routing, hidden, source, ..
        } = part
        else {
            return Some(Operation::Delete { at, stamp });
        };
        let extras = read_extras(hidden.as_deref());
        let document = Document {
            at,
            stamp,
            source: Source(source),
            stored_fields: None,
            routing: routing.map(Into::into),
            parent: extras.parent.map(Into::into),
            times: extras.times,
            tree: None,
            hidden: extras.hidden,
        };
        // By the portable path a deletion leaves a document that no plain reader sees.
        Some(match crate::evaluate::visible(&document, engine::See::Plain) {
            true => Operation::Index(Box::new(document)),
            false => Operation::Delete { at: document.at, stamp },
        })
    }

    /// The changes of directories that somebody asked for; those that documents made are theirs.
    fn directories(&self, no: u32, tree: &Value) -> Result<Vec<Operation>> {
        let Some(index) = self.identity(no) else {
            return Ok(Vec::new());
        };
        let corrupt = || Error::new(ErrorKind::Corruption, "a logged change of a directory is not sound");
        let operation = |told: &Value| {
            let text = |name: &str| told[name].as_str().map(str::to_owned).ok_or_else(corrupt);
            let act = match told["op"].as_str() {
                Some("move") => TreeAct::Move {
                    from: text("from")?,
                    to: text("to")?,
                    merge: told["merge"] == true,
                },
                Some("remove") => TreeAct::Remove { path: text("path")? },
                _ => return Err(corrupt()),
            };
            Ok(Operation::Directory {
                index: index.name.clone(),
                field: text("field")?,
                act,
                tree_seq: told["tree_seq"].as_u64().ok_or_else(corrupt)?,
            })
        };
        let told = tree["changes"].as_array().into_iter().flatten();
        told.map(operation).collect()
    }

    /// The alteration of an index; `None`: of templates, scripts and cluster settings, which are no part of the feed.
    fn alteration(&self, no: u32, delta: &Value) -> Result<Option<Operation>> {
        if let Some(entry) = delta.get("index") {
            let entry = IndexEntry::from_json(entry)?;
            let state = state_of(&entry);
            return Ok(Some(match entry.revision {
                _ if delta.get("restored").is_some() => Operation::RestoreIndex(state),
                1 => Operation::CreateIndex(state),
                _ => Operation::AlterIndex(state),
            }));
        }
        if let Some(grow) = delta.get("grow") {
            return Ok(self.identity(no).map(|index| Operation::PutMapping {
                index: index.name,
                doc_type: index.typed.then(|| growth_type(grow)),
                mapping: grow["mapping"].clone(),
            }));
        }
        if delta.get("delete").is_some() {
            return Ok(self.identity(no).map(|index| Operation::DeleteIndex(index.name)));
        }
        Ok(None)
    }
}

/// The refusal of a position that nothing has reached.
pub(crate) fn beyond(position: u64, newest: u64) -> Error {
    let reason = format!("position [{position}] is beyond the newest change [{newest}]");
    Error::illegal(reason).with("newest", newest)
}

fn read(delta: &[u8]) -> Result<Value> {
    let corrupt = |cause| Error::new(ErrorKind::Corruption, format!("a logged alteration cannot be read: {cause}"));
    serde_json::from_slice(delta).map_err(corrupt)
}

/// An index as the catalog has it.
pub(crate) fn state_of(entry: &IndexEntry) -> IndexState {
    IndexState {
        index: entry.name.clone(),
        uuid: entry.uuid.clone(),
        settings: Value::Object((*entry.settings).clone()),
        mappings: entry.render_mappings(),
        aliases: Value::Object(entry.aliases.clone()),
        open: entry.open,
    }
}
