//! The feed of changes of the store: the records of the log as changes of documents and indices.
//!
//! A `commit_seq` is where a record begins in the log. Position N of the feed is position N + 1 of the log: what begins there or
//! later is behind it. Records are read
//! from the log's files, also those that replay does not need any more, as long as the retention keeps them.
//!
//! Not here: the files (`log::follow`), how clients ask.

use crate::catalog::{Catalog, IndexEntry};
use crate::log::{Part, Replayed};
use crate::pending::read_extras;
use crate::store::Store;
use engine::changes::{Change, Changes, IndexState, Operation, Retained, gone};
use engine::{Document, Source};
use model::system_index::is_system;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::Value;
use std::collections::BTreeMap;
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
        let Retained { oldest, newest } = self.retained_changes();
        if since > newest {
            let reason = format!("position [{since}] is beyond the newest change [{newest}]");
            return Err(Error::illegal(reason).with("newest", newest));
        }
        let Some(followed) = self.log.read_after(since + 1, bytes_max)? else {
            return Err(gone(since, oldest.max(self.retained_changes().oldest)));
        };
        debug_assert!(
            followed.next > since && followed.next <= self.log.durable_position(),
            "1.3: a part of the feed from {since} to {} is durable",
            followed.next
        );
        let mut reader = Reader {
            store: self,
            catalog: self.catalog.now(),
            made: BTreeMap::new(),
        };
        let mut changes = Vec::new();
        for replayed in followed.records {
            changes.extend(reader.change(replayed)?);
        }
        Ok(Changes {
            changes,
            next: followed.next - 1,
        })
    }
}

/// The name of an index, and whether its ids have types.
#[derive(Clone)]
struct Named {
    name: IndexName,
    typed: bool,
}

struct Reader<'a> {
    store: &'a Store,
    catalog: Arc<Catalog>,
    /// Indices that records of this part made.
    made: BTreeMap<u32, Named>,
}

impl Reader<'_> {
    /// One record as a change; `None` if it concerns the server's own indices alone.
    fn change(&mut self, replayed: Replayed) -> Result<Option<Change>> {
        let mut operations = Vec::new();
        for part in replayed.record.parts {
            let operation = match part {
                Part::Alter { index_no, delta } => self.alteration(index_no, &delta)?,
                part => self.write(part),
            };
            operations.extend(operation.filter(|operation| !is_system(operation.index().as_str())));
        }
        let change = Change {
            commit_seq: replayed.start,
            operations,
        };
        Ok(Some(change).filter(|change| !change.operations.is_empty()))
    }

    /// The index of a number. `None`: its name was forgotten, so it was deleted long ago, and its deletion stands later in
    /// the feed.
    fn named(&self, no: u32) -> Option<Named> {
        let of_entry = |entry: &Arc<IndexEntry>| Named {
            name: entry.name.clone(),
            typed: entry.typed(),
        };
        let deleted = || {
            let deleted = self.store.deleted_indices.get(no)?;
            Some(Named {
                name: deleted.name,
                typed: deleted.typed,
            })
        };
        let made = || self.made.get(&no).cloned();
        self.catalog.by_no(no).map(of_entry).or_else(made).or_else(deleted)
    }

    fn write(&self, part: Part) -> Option<Operation> {
        match part {
            Part::Put {
                index_no,
                seq_no,
                version,
                term,
                uid,
                routing,
                hidden,
                source,
                ..
            } => {
                let named = self.named(index_no)?;
                let extras = read_extras(hidden.as_deref());
                let document = Document {
                    at: DocAddress {
                        id: DocId::from_uid(&uid, named.typed),
                        index: named.name,
                    },
                    stamp: Stamp {
                        seq_no,
                        primary_term: term,
                        version,
                    },
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
                    false => Operation::Delete {
                        at: document.at,
                        stamp: document.stamp,
                    },
                })
            }
            Part::Delete {
                index_no,
                seq_no,
                version,
                term,
                uid,
                ..
            } => {
                let named = self.named(index_no)?;
                Some(Operation::Delete {
                    at: DocAddress {
                        id: DocId::from_uid(&uid, named.typed),
                        index: named.name,
                    },
                    stamp: Stamp {
                        seq_no,
                        primary_term: term,
                        version,
                    },
                })
            }
            Part::Alter { .. } => None,
        }
    }

    /// The alteration of an index; `None`: of templates, scripts and cluster settings, which are no part of the feed.
    fn alteration(&mut self, no: u32, delta: &[u8]) -> Result<Option<Operation>> {
        let delta: Value = serde_json::from_slice(delta)
            .map_err(|cause| Error::new(ErrorKind::Corruption, format!("a logged alteration cannot be read: {cause}")))?;
        if let Some(entry) = delta.get("index") {
            let entry = IndexEntry::from_json(entry)?;
            let named = Named {
                name: entry.name.clone(),
                typed: entry.typed(),
            };
            self.made.insert(entry.no, named);
            let state = state_of(&entry);
            return Ok(Some(match entry.revision {
                1 => Operation::CreateIndex(state),
                _ => Operation::AlterIndex(state),
            }));
        }
        if let Some(grow) = delta.get("grow") {
            return Ok(self.named(no).map(|named| Operation::PutMapping {
                index: named.name,
                mapping: grow["mapping"].clone(),
            }));
        }
        if delta.get("delete").is_some() {
            return Ok(self.named(no).map(|named| Operation::DeleteIndex(named.name)));
        }
        Ok(None)
    }
}

fn state_of(entry: &IndexEntry) -> IndexState {
    IndexState {
        index: entry.name.clone(),
        uuid: entry.uuid.clone(),
        settings: Value::Object((*entry.settings).clone()),
        mappings: entry.render_mappings(),
        aliases: Value::Object(entry.aliases.clone()),
        open: entry.open,
    }
}
