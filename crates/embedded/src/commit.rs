//! The end of a write's way: prepared writes get their stamps and one record, and are there for all (write-path.md 1.1,
//! 1.2; 3, step 5).
//!
//! Everything that can be refused is refused before the stamps; stamps and the place in the log are given together, under
//! the sequencer's lock, so that sequence numbers follow the log without holes.
//!
//! Not here: evaluating a write (`evaluate`), deciding several (`atomic_commit`), waiting for the disk (`lib`).

use crate::catalog::{Catalog, IndexEntry};
use crate::growth::grow;
use crate::index_state::IndexState;
use crate::lock_order::{LockRank, Mutex, is_held, is_held_at};
use crate::log::{Durability, Part, Participant, Record, Reservation, Ticket};
use crate::pending::{Kind, PendingOp, extras};
use crate::prepared_write::{CommitItem, PreparedWrite};
use crate::store::Store;
use crate::tree_record::{TreeMove, TreeRecord};
use crate::versions::Newest;
use crate::wait_for::WaitFor;
use engine::{Outcome, Source, TreeMoved, Written};
use model::{Error, ErrorKind, Result, Stamp, settings};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The parts and effects of a record beside its writes.
#[derive(Default)]
pub(crate) struct SideEffects {
    /// The catalog with the indices that the record makes; the caller holds the catalog lock.
    pub(crate) catalog: Option<Arc<Catalog>>,
    /// Their alterations, as they are logged.
    pub(crate) deltas: Vec<(u32, Value)>,
    /// These indices, not yet known to anybody.
    pub(crate) made: Vec<(Arc<IndexEntry>, Arc<IndexState>)>,
    /// Told the place of the record and the stamps before it is encoded; may give the source of one of the writes.
    pub(crate) seal: Option<Sealing>,
    /// Told the same once the record has its place.
    pub(crate) then: Option<Settling>,
    /// Directories that move or go.
    pub(crate) moves: Vec<TreeMove>,
    /// Trees that the record rests on: the number of an index, and of the newest move of its tree.
    pub(crate) rests_on: Vec<(u32, u64)>,
    /// It is a change: acknowledged once it is synced, whatever the settings of its indices say.
    pub(crate) is_change: bool,
}

/// The number of the write that is sealed, and how.
pub(crate) type Sealing = (usize, Box<dyn FnOnce(u64, &[Stamp]) -> Source + Send>);
/// The step that follows once the record has its place.
pub(crate) type Settling = Box<dyn FnOnce(u64, &[Stamp], &[TreeMoved]) + Send>;

/// A record that has its place in the log.
pub(crate) struct Committed {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) after: WaitFor,
    /// The first position of the record.
    pub(crate) position: u64,
}

/// Why a record was not written.
pub(crate) enum Uncommitted {
    /// A directory has moved since its plan looked at it: the plan is to run again.
    HasMoved,
    Failed(Error),
}

impl From<Error> for Uncommitted {
    fn from(error: Error) -> Uncommitted {
        Uncommitted::Failed(error)
    }
}

/// For records that rest on no directory.
impl From<Uncommitted> for Error {
    fn from(why: Uncommitted) -> Error {
        match why {
            Uncommitted::Failed(error) => error,
            Uncommitted::HasMoved => {
                let reason = "directories have moved since they were looked at";
                Error::new(ErrorKind::TransactionConflict, reason)
            }
        }
    }
}

impl Store {
    /// A place among all changes for one that writes nothing: a record without parts. Nobody waits for it: if it is lost,
    /// the next start begins behind it all the same.
    pub(crate) fn place_of_nothing(&self) -> Result<u64> {
        let record = Record {
            participants: Vec::new(),
            parts: Vec::new(),
            idempotency_key: None,
        };
        let bytes = record.log_bytes();
        let mut room = self.log.reserve_delete(bytes)?;
        let ticket = {
            let _sequencer = self.write_path.sequence();
            self.log.enqueue(&mut room, record, Durability::Async)?
        };
        self.maintenance.unflushed_log().add(bytes, 0, self.env.monotonic());
        Ok(ticket.position)
    }

    /// Grows mappings, gives stamps, enqueues one record, tells the map and the pending lists. After the stamp nothing fails
    /// (write-path.md 1.2). With growth among them the caller holds the catalog lock.
    pub(crate) fn commit(
        &self,
        mut all: Vec<CommitItem>,
        mut beside: SideEffects,
        room: &mut Reservation,
    ) -> Result<Committed, Uncommitted> {
        let (grown, growth) = grow(&mut all)?;
        self.assert_locked(&all, &beside, !growth.is_empty());
        let mut parts = Vec::with_capacity(all.len() + beside.deltas.len() + growth.len());
        parts.extend(beside.deltas.iter().chain(&growth).map(|(no, delta)| alter(*no, delta)));
        let durability = match beside.is_change {
            true => Durability::Request,
            false => durability(&all),
        };
        for CommitItem { write, .. } in &all {
            // A write that replay would refuse is not logged.
            write.entry.replayed_mapping(&write.uid)?;
        }

        let sequencer = self.write_path.sequence();
        let catalog = beside.catalog.take().unwrap_or_else(|| self.catalog.now());
        check_open(&catalog, &all)?;
        let (participants, stamps) = number_record(&all, &beside);
        let promised = beside.seal.take().map(|sealing| self.seal(sealing, &mut all, &stamps));
        let changed = beside.moves.iter().map(|one| one.entry.no);
        let rested_on = beside.rests_on.iter().map(|(no, _)| *no);
        let cells = self.trees_of(changed.chain(rested_on).chain(directory_indices(&all)));
        let mut trees = TreeRecord::begin(&cells);
        if trees.has_moved_since(&beside.rests_on) {
            return Err(Uncommitted::HasMoved);
        }
        trees.settle(&mut all)?;
        trees.plan(&beside.moves)?;
        parts.extend(trees.parts());
        assert_eq!(all.len(), stamps.len(), "1.2: each write of a record has its stamp");
        parts.extend(all.iter().zip(&stamps).map(|(item, stamp)| part_of(&item.write, *stamp)));
        let next: Vec<(u32, u64)> = participants.iter().map(|p| (p.index_no, p.next_seq_no())).collect();
        let record = Record {
            participants,
            parts,
            idempotency_key: None,
        };
        debug_assert!(
            record.is_numbered(),
            "1.1: the header of a record has the numbers of its writes, which a start takes for lost where the record is"
        );
        let ticket = self.log.enqueue(room, record, durability)?;

        // From here on nothing fails (write-path.md 1.2).
        assert!(
            promised.is_none_or(|promised| promised == ticket.position),
            "1.1: a sealed record stands at {} and was promised {promised:?}",
            ticket.position
        );
        let moved = trees.moved.clone();
        trees.apply(ticket.end, !all.is_empty());
        for (entry, state) in &beside.made {
            assert_eq!(entry.no, state.no(), "1.1: a state counts for the index that is made");
            self.admit(state.clone());
        }
        self.take_numbers(&all, &next, &ticket);
        let given = if beside.then.is_some() { stamps.clone() } else { Vec::new() };
        let placed = all.into_iter().zip(stamps);
        let outcomes = placed.map(|(item, stamp)| self.place(item, stamp, ticket.end)).collect();
        // Last: who finds an index or a field in the catalog also finds the documents that came with it.
        if !grown.is_empty() || !beside.made.is_empty() {
            self.show_grown(&catalog, grown.into_values(), ticket.end);
        }
        if let Some(then) = beside.then {
            then(ticket.position, &given, &moved);
        }
        drop(sequencer);
        Ok(Committed {
            outcomes,
            after: WaitFor::of(durability, ticket.end),
            position: ticket.position,
        })
    }

    /// Documents, and the catalog where it is altered, are locked from what was read of them to their place in the log.
    fn assert_locked(&self, all: &[CommitItem], beside: &SideEffects, grows: bool) {
        debug_assert!(
            !grows && beside.deltas.is_empty() || is_held(LockRank::Catalog),
            "3: whoever alters the catalog holds its lock from the catalog that was read to the one that is shown"
        );
        let is_locked = |write: &PreparedWrite| {
            // Nobody else knows an index that is made.
            beside.made.iter().any(|(made, _)| made.no == write.entry.no)
                || is_held_at(LockRank::Stripe, self.write_path.stripe_of(write.key))
        };
        debug_assert!(
            all.iter().all(|item| is_locked(&item.write)),
            "3: a document is locked from its evaluation to its place in the log"
        );
    }

    /// Gives the sealed write its source, which knows the place of its record. Gives that place.
    fn seal(&self, (n, seal): Sealing, all: &mut [CommitItem], stamps: &[Stamp]) -> u64 {
        debug_assert!(
            is_held(LockRank::Sequencer),
            "1.1: a place is promised under the sequencer, so no other record gets it"
        );
        let position = self.log.next_position();
        if let Some(put) = all[n].write.put.as_mut() {
            put.source = seal(position, stamps).0;
            put.parsed = Mutex::default();
        }
        position
    }

    /// Shows the catalog with the mappings that a record has grown, and the indices that it makes.
    fn show_grown(&self, catalog: &Catalog, grown: impl Iterator<Item = Arc<IndexEntry>>, end: u64) {
        let mut next: Catalog = catalog.clone();
        for entry in grown {
            debug_assert!(
                catalog
                    .by_no(entry.no)
                    .is_some_and(|before| before.uuid == entry.uuid && before.revision < entry.revision),
                "3: a mapping that grows is a later revision of the index that the catalog has"
            );
            next.put((*entry).clone());
        }
        self.catalog.show(next, end, self.log.durable_position());
    }

    /// The indices of a record go on counting behind it, and have something to be flushed. `next`: each index and its
    /// next sequence number.
    fn take_numbers(&self, all: &[CommitItem], next: &[(u32, u64)], ticket: &Ticket) {
        debug_assert!(is_held(LockRank::Sequencer), "1.1: numbers are taken under the sequencer");
        let now = self.env.monotonic();
        self.maintenance
            .unflushed_log()
            .add(ticket.end - ticket.position, all.len() as u64, now);
        for (no, next) in next {
            if let Some(item) = all.iter().find(|item| item.write.entry.no == *no) {
                item.state.pending().take_numbers(*next, ticket.end, now);
            }
        }
        let numbers: Vec<u32> = next.iter().map(|(no, _)| *no).collect();
        if numbers.len() > 1 {
            self.publication.add_shared(ticket.end, numbers.clone());
        }
        self.maintenance.mark_dirty(numbers);
    }

    /// From here on it is the newest of its document, and waits to be built.
    fn place(&self, item: CommitItem, stamp: Stamp, end: u64) -> Outcome {
        debug_assert!(
            is_held(LockRank::Sequencer),
            "1.1: documents get their places under the sequencer"
        );
        let CommitItem { write, state } = item;
        debug_assert_eq!(
            write.key,
            self.versions.key(write.entry.no, &write.uid),
            "4: a document is found by the key of its uid"
        );
        debug_assert!(
            stamp.seq_no < state.pending().next_seq_no(),
            "1.1: a document is placed with a number that its index has taken"
        );
        let deleted = write.put.is_none();
        let op = Arc::new(PendingOp {
            uid: write.uid,
            key: write.key,
            fresh: write.fresh,
            stamp,
            position: end,
            kind: write.put.map_or(Kind::Delete, Kind::Put),
        });
        let newest = Newest::of(&op);
        self.versions
            .set(write.key, write.entry.no, newest, self.log.durable_position());
        // Counted before it is in the queue: a build that takes it from there subtracts it.
        self.write_path.add_pending(op.bytes());
        state.pending().push(op);
        let counts = state.counts();
        let counter = if deleted { &counts.delete } else { &counts.index };
        counter.fetch_add(1, Ordering::Relaxed);
        if let (Some(doc_type), false) = (&write.at.id.doc_type, deleted) {
            *counts.by_type.lock().entry(doc_type.clone()).or_default() += 1;
        }
        Outcome::Written(Written {
            effect: write.effect,
            at: write.at,
            stamp,
            source: write.show,
            forced_refresh: false,
        })
    }
}

fn alter(index_no: u32, delta: &Value) -> Part {
    Part::Alter {
        index_no,
        delta: delta.to_string().into_bytes(),
    }
}

/// The request waits for the disk unless all its indices say otherwise.
fn durability(all: &[CommitItem]) -> Durability {
    let waits = |item: &CommitItem| settings::text(&item.write.entry.settings, settings::TRANSLOG_DURABILITY) != "async";
    if all.iter().any(waits) {
        Durability::Request
    } else {
        Durability::Async
    }
}

/// An index may have been closed or deleted since it was looked up.
fn check_open(catalog: &Catalog, all: &[CommitItem]) -> Result<()> {
    for CommitItem { write, .. } in all {
        match catalog.by_no(write.entry.no) {
            None => return Err(engine::catalog::missing(write.entry.name.as_str())),
            Some(entry) if !entry.open => return Err(engine::catalog::index_closed(&entry.name, &entry.uuid)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The indices that take part in a record, with the numbers that it takes of each, and the stamps of its writes.
fn number_record(all: &[CommitItem], beside: &SideEffects) -> (Vec<Participant>, Vec<Stamp>) {
    let (mut participants, stamps) = number_writes(all, &beside.made);
    add_moved(&mut participants, &beside.moves);
    let taken: u64 = participants.iter().map(|p| u64::from(p.count)).sum();
    assert_eq!(
        taken,
        all.len() as u64,
        "1.1: a record takes a sequence number for each of its writes"
    );
    (participants, stamps)
}

/// The sequence numbers that a record takes of each index, and the stamps of its writes.
fn number_writes(all: &[CommitItem], made: &[(Arc<IndexEntry>, Arc<IndexState>)]) -> (Vec<Participant>, Vec<Stamp>) {
    let mut participants: Vec<Participant> = Vec::new();
    let mut stamps = Vec::with_capacity(all.len());
    for CommitItem { write, state } in all {
        let no = write.entry.no;
        assert_eq!(no, state.no(), "1.1: a write is numbered by its own index");
        let at = match participants.iter().position(|p| p.index_no == no) {
            Some(at) => at,
            None => {
                participants.push(Participant {
                    index_no: no,
                    first_seq_no: state.pending().next_seq_no(),
                    count: 0,
                });
                participants.len() - 1
            }
        };
        let participant = &mut participants[at];
        stamps.push(Stamp {
            seq_no: participant.next_seq_no(),
            primary_term: state.term() + write.entry.turns,
            version: write.version,
        });
        participant.count += 1;
    }
    for (entry, _) in made {
        // An index is made for the documents in it, but nothing depends on there being any.
        if !participants.iter().any(|p| p.index_no == entry.no) {
            participants.push(Participant {
                index_no: entry.no,
                first_seq_no: 0,
                count: 0,
            });
        }
    }
    (participants, stamps)
}

/// An index whose directories move takes part without a sequence number.
fn add_moved(participants: &mut Vec<Participant>, moves: &[TreeMove]) {
    for one in moves {
        if !participants.iter().any(|p| p.index_no == one.entry.no) {
            participants.push(Participant {
                index_no: one.entry.no,
                first_seq_no: one.state.pending().next_seq_no(),
                count: 0,
            });
        }
    }
}

/// The indices of documents that are in directories.
fn directory_indices(all: &[CommitItem]) -> impl Iterator<Item = u32> {
    let is_placed = |item: &&CommitItem| item.write.put.as_ref().is_some_and(|put| !put.placed.is_empty());
    all.iter().filter(is_placed).map(|item| item.write.entry.no)
}

/// The part of the log's record for a write.
fn part_of(write: &PreparedWrite, stamp: Stamp) -> Part {
    let index_no = write.entry.no;
    let Stamp {
        seq_no,
        primary_term: term,
        version,
    } = stamp;
    match &write.put {
        None => Part::Delete {
            index_no,
            seq_no,
            version,
            term,
            uid: write.uid.clone(),
            hidden: None,
        },
        Some(put) => Part::Put {
            index_no,
            seq_no,
            version,
            term,
            mapping_version: write.entry.revision,
            uid: write.uid.clone(),
            routing: put.routing.clone(),
            hidden: extras(
                put.parent.as_deref(),
                put.hidden.as_ref().map(|(hidden, _)| hidden),
                put.times,
                &put.placed,
            ),
            source: put.source.clone(),
        },
    }
}
