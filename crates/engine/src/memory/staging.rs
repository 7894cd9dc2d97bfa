//! Views in which writes are staged: a copy of the state of one moment, to which the writes of a transaction are applied.
//!
//! A view holds the state that it began with and the state with its writes. Both share documents with the engine, so a view costs
//! what is written in it. Searches and reads in the view look at the second, expectations of stamps at the first.
//!
//! Not here: when a view ends and whether what it read still holds (`relations`), limits on views and on their bytes.

use super::catalog::Moment;
use super::search::Snapshot;
use super::{MemoryEngine, Slot, State, Stored};
use crate::clock::uuid;
use crate::*;
use model::ErrorKind;
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

/// One view.
#[derive(Debug)]
pub(super) struct StagingView {
    began: State,
    now: State,
    /// Documents that were written, in the order of their first writes.
    written: Vec<DocAddress>,
    /// Indices that were made in the view, by uuid; true: a typed one.
    made: BTreeMap<String, bool>,
}

fn missing(view: &str) -> Error {
    let reason = format!("No search context found for id [{view}]");
    Error::new(ErrorKind::SearchContextMissing, reason)
}

impl State {
    /// The newest document of an address, as plain readers see it.
    fn plain(&self, entry_uuid: &str, id: &DocId) -> Option<&Arc<Stored>> {
        self.stores.get(entry_uuid)?.slots.get(id)?.visible(See::Plain)
    }

    /// The same state in which no document is held by a mark, and everything is searchable.
    fn as_moment(&self) -> State {
        let mut moment = self.clone();
        for store in moment.stores.values_mut() {
            let is_held = |slot: &Slot| matches!(slot, Slot::There(doc) if doc.hidden.as_ref().is_some_and(|mark| mark.held));
            if store.slots.values().any(is_held) {
                let slots = &mut Arc::make_mut(store).slots;
                for slot in slots.values_mut().filter(|slot| is_held(slot)) {
                    if let Slot::There(doc) = slot {
                        *slot = Slot::There(Arc::new(doc.unheld()));
                    }
                }
                Arc::make_mut(store).pending = true;
            }
        }
        moment.refresh_all();
        moment
    }

    fn refresh_all(&mut self) {
        let now = self.commit_seq;
        for store in self.stores.values_mut().filter(|store| store.pending) {
            Arc::make_mut(store).refresh(now);
        }
    }
}

impl StagingView {
    /// The state that searches in the view see.
    pub(super) fn snapshot(&mut self, target: &Target) -> Result<Snapshot> {
        self.now.refresh_all();
        self.now.snapshot(target)
    }

    fn read(&self, read: &Read) -> Result<Seen> {
        let entry = self.now.catalog.read_index(read.at.index.as_str())?;
        let at = DocAddress {
            index: entry.name.clone(),
            id: entry.identity(&read.at.id)?,
        };
        let own = self.written.contains(&at);
        let document = self.now.read(read)?.map(|document| match own {
            true => Document {
                stamp: Stamp::provisional(document.stamp.version),
                ..document
            },
            false => document,
        });
        let index_uuid = (!self.made.contains_key(&entry.uuid)).then(|| entry.uuid.clone());
        Ok(Seen {
            at,
            index_uuid,
            document,
            own,
            withheld: false,
        })
    }

    /// Stages one write; one that is not done leaves nothing.
    fn stage(&mut self, stage: Stage, moment: Moment) -> Result<Outcome> {
        let Stage { mut write, creates } = stage;
        let now_ms = moment.now_ms;
        if matches!(
            write.expect,
            Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_)
        ) {
            let reason = "external versions are not supported inside a transaction: use [if_seq_no] and [if_primary_term]";
            return Err(Error::illegal(reason));
        }
        let name = write.at.index.as_str();
        let mut next = self.now.clone();
        let mut made = None;
        let found = next.catalog.write_index(name, write.require_alias);
        let is_missing = matches!(&found, Err(e) if e.kind() == ErrorKind::IndexNotFound);
        if let Some(typed) = creates.filter(|_| is_missing && !write.require_alias) {
            let wish = Alteration::index_if_missing(name, typed);
            next.catalog = next.catalog.apply(&wish, moment)?.0;
            made = Some(typed);
        }
        let entry = next.catalog.write_index(name, write.require_alias)?;
        let at = DocAddress {
            index: entry.name.clone(),
            id: entry.identity(&write.at.id)?,
        };
        if matches!(write.expect, Expect::Unchanged { .. } | Expect::Version(_)) {
            let began = self.began.plain(&entry.uuid, &at.id).map(|doc| doc.stamp);
            if let Err(conflict) = write.expect.check(&at, began.map_or(Found::Nothing, Found::Here)) {
                return Ok(Outcome::Conflict(conflict));
            }
            write.expect = Expect::Anything;
        }
        let outcome = next.write(&write, now_ms);
        let Outcome::Written(written) = outcome else {
            return Ok(outcome);
        };
        if written.effect == Effect::Noop {
            return Ok(Outcome::Written(written));
        }
        self.now = next;
        if let Some(typed) = made {
            self.made.insert(entry.uuid.clone(), typed);
        }
        if !self.written.contains(&written.at) {
            self.written.push(written.at.clone());
        }
        let stamp = Stamp::provisional(written.stamp.version);
        Ok(Outcome::Written(Written { stamp, ..written }))
    }

    fn staged_documents(&self) -> Result<Vec<Staged>> {
        let one = |at: &DocAddress| {
            let entry = self.now.catalog.write_index(at.index.as_str(), false)?;
            let put = self.now.plain(&entry.uuid, &at.id).map(|doc| StagedPut {
                source: doc.source.clone(),
                routing: doc.routing.clone(),
                parent: doc.parent.clone(),
                times: doc.times,
                tree: None,
            });
            let index = match self.made.get(&entry.uuid) {
                Some(typed) => StagedIndex::Made {
                    name: entry.name.clone(),
                    typed: *typed,
                },
                None => StagedIndex::Known {
                    uuid: entry.uuid.clone(),
                },
            };
            Ok(Staged {
                at: at.clone(),
                index,
                before: self.began.plain(&entry.uuid, &at.id).map(|doc| doc.stamp),
                put,
            })
        };
        self.written.iter().map(one).collect()
    }

    fn bytes(&self) -> Result<u64> {
        let puts = self.staged_documents()?.into_iter().filter_map(|staged| staged.put);
        Ok(puts.map(|put| put.source.0.len() as u64).sum())
    }
}

impl MemoryEngine {
    fn stagings(&self) -> MutexGuard<'_, BTreeMap<String, StagingView>> {
        self.stagings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks into a view in which writes are staged; `None`: this is the id of no such view.
    pub(super) fn in_staging<T>(&self, id: &str, look: impl FnOnce(&mut StagingView) -> Result<T>) -> Option<Result<T>> {
        if !is_staging(id) {
            return None;
        }
        let mut stagings = self.stagings();
        Some(stagings.get_mut(id).ok_or_else(|| missing(id)).and_then(look))
    }

    /// Gives a view back; false if there was none.
    pub(super) fn end_staging(&self, id: &str) -> bool {
        self.stagings().remove(id).is_some()
    }
}

#[async_trait]
impl Staging for MemoryEngine {
    async fn begin(&self) -> Result<View> {
        let began = self.state().as_moment();
        let view = View {
            id: format!("{STAGING}{}", uuid(&*self.clock)),
            as_of: Some(began.commit_seq),
            indices: began.catalog.0.values().map(|entry| entry.name.clone()).collect(),
            promise: ViewPromise::OneMoment,
            created_ms: self.clock.wall_ms(),
            keep_alive: Duration::MAX,
        };
        let staging = StagingView {
            now: began.clone(),
            began,
            written: Vec::new(),
            made: BTreeMap::new(),
        };
        self.stagings().insert(view.id.clone(), staging);
        Ok(view)
    }

    async fn read(&self, view: &str, reads: Vec<Read>) -> Result<Vec<Result<Seen>>> {
        let stagings = self.stagings();
        let staging = stagings.get(view).ok_or_else(|| missing(view))?;
        Ok(reads.iter().map(|read| staging.read(read)).collect())
    }

    async fn stage(&self, view: &str, writes: Vec<Stage>) -> Result<Vec<Outcome>> {
        let mut stagings = self.stagings();
        let staging = stagings.get_mut(view).ok_or_else(|| missing(view))?;
        let mut one = |stage| {
            let moment = Moment {
                now_ms: self.clock.wall_ms(),
                uuid: uuid(&*self.clock),
            };
            staging.stage(stage, moment).unwrap_or_else(Outcome::Refused)
        };
        Ok(writes.into_iter().map(&mut one).collect())
    }

    async fn staged_documents(&self, view: &str) -> Result<Vec<Staged>> {
        let stagings = self.stagings();
        stagings.get(view).ok_or_else(|| missing(view))?.staged_documents()
    }

    async fn staged_bytes(&self, view: &str) -> Result<u64> {
        let stagings = self.stagings();
        stagings.get(view).ok_or_else(|| missing(view))?.bytes()
    }
}
