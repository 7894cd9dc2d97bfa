//! Alterations of the catalog: logged, then visible; what they mean for sets that are open.
//!
//! Not here: working them out (`catalog::alter`), the segments of a restored index (`snapshots::restore`).

use crate::catalog::alter::{Moment, Next, alter};
use crate::catalog::{Catalog, IndexEntry, system};
use crate::index_state::IndexState;
use crate::lock_order::{LockRank, is_held};
use crate::log::{Durability, Part, Participant, Record};
use crate::restored_set::RestoredSet;
use crate::store::Store;
use engine::{Alteration, Altered};
use model::Result;
use model::system_index::CONTROL_INDEX;
use segment::searchable::IndexView;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Store {
    /// Alters the catalog. Gives what came of it and the position to wait for.
    pub(crate) fn alter(&self, wish: &Alteration) -> Result<(Altered, u64)> {
        let _altering = self.catalog.alter_alone();
        let catalog = self.catalog.now();
        let next = alter(&catalog, wish, &self.alteration_moment())?;
        self.log_alteration(&catalog, next, Vec::new())
    }

    /// At a start: system indices that an old version let clients close or block are open again.
    ///
    /// # Errors
    /// A failing disk, a log without room.
    pub(crate) fn mend_system_indices(&self) -> Result<()> {
        let _altering = self.catalog.alter_alone();
        let catalog = self.catalog.now();
        let Some(next) = system::repair_control_index(&catalog) else {
            return Ok(());
        };
        for name in &next.altered.indices {
            crate::background_failures::tell(&format!(
                "index [{name}] was closed, blocked or altered by a client of an older version; it is open again"
            ));
        }
        let (_, end) = self.log_alteration(&catalog, next, Vec::new())?;
        self.log.wait_durable(end)
    }

    /// Makes the control index anew; gives the position to wait for.
    ///
    /// # Errors
    /// A failing disk, a log without room.
    pub(crate) fn remake_control(&self) -> Result<u64> {
        let _altering = self.catalog.alter_alone();
        let catalog = self.catalog.now();
        let gone = system::without_control(&catalog);
        let next_seq_no = catalog
            .indices
            .get(CONTROL_INDEX)
            .and_then(|entry| self.indices.get(entry.no).map(|state| state.pending().next_seq_no()));
        let turns = gone.as_ref().map_or(0, |(_, turns)| *turns);
        if let Some((next, _)) = gone {
            self.log_alteration(&catalog, next, Vec::new())?;
        }
        let catalog = self.catalog.now();
        let made = system::control_after(&catalog, &self.alteration_moment(), turns, next_seq_no)?;
        self.log_alteration(&catalog, made, Vec::new()).map(|(_, end)| end)
    }

    /// The values that an alteration takes from outside the catalog.
    pub(crate) fn alteration_moment(&self) -> Moment {
        Moment {
            now_ms: self.env.wall_ms(),
            uuid: engine::clock::uuid(self.env.clock()),
            unclean: self.unclean,
        }
    }

    /// Logs what alters the catalog, and makes it visible. New indices begin with these sets, else empty. The caller holds the lock
    /// of alterations.
    pub(crate) fn log_alteration(
        &self,
        catalog: &Catalog,
        next: Next,
        mut sets: Vec<(u32, RestoredSet)>,
    ) -> Result<(Altered, u64)> {
        debug_assert!(is_held(LockRank::Catalog), "3: one alteration of the catalog at a time");
        if next.deltas.is_empty() {
            return Ok((next.altered, self.catalog.alteration_end()));
        }
        let mut record = record_of(&next.deltas);
        // Who deletes an index makes room.
        let mut room = match next.removed.is_empty() {
            true => self.log.reserve(record.log_bytes())?,
            false => self.log.reserve_delete(record.log_bytes())?,
        };
        // An index that is made and altered in one record has two deltas, and begins once.
        let numbers: BTreeSet<u32> = next.deltas.iter().map(|(no, _)| *no).collect();
        let changed: Vec<Arc<IndexEntry>> = numbers
            .into_iter()
            .filter_map(|no| next.catalog.by_no(no).cloned())
            .filter(|entry| catalog.by_no(entry.no).is_none_or(|old| old.revision != entry.revision))
            .collect();
        let end = {
            let _sequencer = self.write_path.sequence();
            for participant in &mut record.participants {
                let state = self.indices.get(participant.index_no);
                participant.first_seq_no = state.map_or(0, |state| state.pending().next_seq_no());
            }
            let ticket = self.log.enqueue(&mut room, record, Durability::Request)?;
            for entry in changed.iter().filter(|entry| catalog.by_no(entry.no).is_none()) {
                match sets.iter().position(|(no, _)| *no == entry.no) {
                    Some(n) => self.begin_restored(entry, sets.swap_remove(n).1, ticket.position, ticket.end),
                    None => self.begin_index(entry, ticket.position, ticket.end),
                }
            }
            // Before the catalog loses it: a reader of the feed finds the name in one of both.
            for entry in next.removed.iter().filter_map(|no| catalog.by_no(*no)) {
                self.deleted_indices.add(entry, ticket.end);
            }
            self.catalog.show(next.catalog, ticket.end, self.log.durable_position());
            ticket.end
        };
        for entry in &changed {
            self.realign(entry)?;
        }
        for no in next.removed {
            self.end_index(no);
        }
        Ok((next.altered, end))
    }

    /// An index without documents.
    /// `from`: where the record that makes it begins.
    pub(crate) fn begin_index(&self, entry: &IndexEntry, from: u64, position: u64) {
        self.admit(self.new_state(entry, from, position));
    }

    /// An index with the documents of a snapshot.
    pub(crate) fn begin_restored(&self, entry: &IndexEntry, set: RestoredSet, from: u64, position: u64) {
        if let Some(tree) = set.tree {
            self.trees.put_restored(entry.no, tree);
        }
        let view = IndexView {
            segments: set.segments,
            ..self.blank_view(entry, position)
        };
        self.admit(self.state_of_view(entry, view, from));
    }

    /// The state of an index that nobody knows yet.
    pub(crate) fn new_state(&self, entry: &IndexEntry, from: u64, position: u64) -> Arc<IndexState> {
        self.state_of_view(entry, self.blank_view(entry, position), from)
    }

    fn state_of_view(&self, entry: &IndexEntry, view: IndexView, from: u64) -> Arc<IndexState> {
        let term = 1 + self.unclean - entry.unclean_before.min(self.unclean);
        let next_seq_no = entry.first_seq_no.unwrap_or(0);
        assert!(
            view.last_seq_no().is_none_or(|last| last < next_seq_no),
            "snapshots.md M3: operation {:?} is restored, and the next one would get number {next_seq_no}",
            view.last_seq_no()
        );
        let state = IndexState::new(entry.no, term, view, from);
        state.pending().begin_at(next_seq_no);
        Arc::new(state)
    }

    /// From here on it is known; searches see it empty.
    pub(crate) fn admit(&self, state: Arc<IndexState>) {
        let built = state.built_view();
        self.indices.insert(state);
        self.publication.replace(&self.publication.lock(), &built);
    }

    /// While replaying: the index was deleted.
    pub(crate) fn forget_index(&self, no: u32) {
        self.end_index(no);
    }

    fn end_index(&self, no: u32) {
        let state = self.indices.remove(no);
        self.caches.forget_index(no);
        self.trees.forget(no);
        self.publication.remove(&self.publication.lock(), no);
        self.versions.drop_index(no);
        self.maintenance.failures().forget(no);
        self.maintenance.mark_clean(no);
        if let Some(state) = state {
            self.write_path.subtract_pending(state.pending().clear());
        }
    }

    /// Opens the sets of an index under its newest entry, so that searches go by the new mapping and settings.
    pub(crate) fn realign(&self, entry: &IndexEntry) -> Result<()> {
        let Some(state) = self.indices.get(entry.no) else {
            return Ok(());
        };
        let building = state.lock_build();
        let built = state.built_view();
        let again = |old: &Arc<IndexView>| -> Result<Arc<IndexView>> {
            let segments = self.reopen(entry, old, |_| Ok(None))?;
            Ok(Arc::new(IndexView {
                segments,
                ..self.blank_view(entry, old.position)
            }))
        };
        let publishing = self.publication.lock();
        let next = again(&built)?;
        self.replace(&building, &publishing, &state, &built, &next, again)
    }
}

/// The record of an alteration. Its indices take no sequence number.
fn record_of(deltas: &[(u32, Value)]) -> Record {
    let mut participants: Vec<Participant> = Vec::new();
    for (no, _) in deltas {
        if !participants.iter().any(|p| p.index_no == *no) {
            participants.push(Participant {
                index_no: *no,
                first_seq_no: 0,
                count: 0,
            });
        }
    }
    let part = |(no, delta): &(u32, Value)| Part::Alter {
        index_no: *no,
        delta: delta.to_string().into_bytes(),
    };
    Record {
        participants,
        parts: deltas.iter().map(part).collect(),
        idempotency_key: None,
    }
}
