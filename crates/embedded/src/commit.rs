//! The end of a write's way: writes that were worked out get their stamps and one record, and are there for all.
//!
//! Everything that can be refused is refused before the stamps; stamps and the place in the log are given together, under
//! the sequencer's lock, so that sequence numbers follow the log without holes.
//!
//! Not here: working a write out (`evaluate`), deciding several (`atomic_commit`), waiting for the disk (`lib`).

use crate::accepted::{Accepted, Growth};
use crate::catalog::{Catalog, IndexEntry, growth_delta};
use crate::document_key::Key;
use crate::index_state::IndexState;
use crate::lock_order::Mutex;
use crate::log::{Durability, Part, Participant, Record, Reservation, Ticket};
use crate::pending::{Kind, PendingOp, Put, extras};
use crate::store::Store;
use crate::versions::Newest;
use engine::{Effect, Judge, Outcome, Source, Written};
use model::{DocAddress, Error, Result, Stamp, settings};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where an answer may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitFor {
    /// Once durable up to here.
    pub(crate) durable: u64,
    /// Once written up to here (`async`).
    pub(crate) written: u64,
}

impl WaitFor {
    fn of(durability: Durability, end: u64) -> WaitFor {
        WaitFor {
            durable: match durability {
                Durability::Async => 0,
                Durability::Request => end,
            },
            written: end,
        }
    }
    pub(crate) fn also(&mut self, other: WaitFor) {
        self.durable = self.durable.max(other.durable);
        self.written = self.written.max(other.written);
    }
}

/// A write that has been checked and only lacks its stamp.
pub(crate) struct PreparedWrite {
    pub(crate) entry: Arc<IndexEntry>,
    pub(crate) state: Arc<IndexState>,
    pub(crate) at: DocAddress,
    pub(crate) uid: Box<str>,
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) effect: Effect,
    pub(crate) fresh: bool,
    pub(crate) put: Option<Put>,
    pub(crate) show: Option<Source>,
    pub(crate) growth: Option<Growth>,
}

/// What a record holds and does beside its writes.
#[derive(Default)]
pub(crate) struct SideEffects {
    /// The catalog with the indices that the record makes; the caller holds the catalog lock.
    pub(crate) catalog: Option<Arc<Catalog>>,
    /// How these are logged.
    pub(crate) deltas: Vec<(u32, Value)>,
    /// These indices, not yet known to anybody.
    pub(crate) made: Vec<(Arc<IndexEntry>, Arc<IndexState>)>,
    /// Told the place of the record and the stamps before it is encoded; may give the source of one of the writes.
    pub(crate) seal: Option<Sealing>,
    /// Told the same once the record has its place.
    pub(crate) then: Option<Settling>,
    /// It is a change: acknowledged once it is synced, whatever the settings of its indices say.
    pub(crate) is_change: bool,
}

/// Which write is sealed, and how.
pub(crate) type Sealing = (usize, Box<dyn FnOnce(u64, &[Stamp]) -> Source + Send>);
/// What happens once the record has its place.
pub(crate) type Settling = Box<dyn FnOnce(u64, &[Stamp]) + Send>;

/// Entries of the catalog whose mappings grew.
type Grown = HashMap<u32, Arc<IndexEntry>>;
/// What an index grows by, for comparing.
type Brought = (u32, Option<Arc<str>>, String);

/// What earlier writes of a record leave to later ones.
#[derive(Default)]
struct Left {
    grown: Grown,
    known: HashSet<Brought>,
}

fn brought(no: u32, growth: &Growth) -> Brought {
    (no, growth.0.clone(), growth.1.render().to_string())
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
        self.maintenance.unflushed().add(bytes, 0, self.env.monotonic());
        Ok(ticket.position)
    }

    /// Under the catalog lock: reads the document again if the mapping has moved, so that what grows is
    /// measured against the newest.
    pub(crate) fn settle_growth(&self, ready: &mut PreparedWrite) -> Result<()> {
        let Some(entry) = self.catalog.entry(ready.entry.no) else {
            return Err(engine::catalog::missing(ready.entry.name.as_str()));
        };
        if entry.revision == ready.entry.revision {
            return Ok(());
        }
        self.read_again(ready, &entry)?;
        ready.entry = entry;
        Ok(())
    }

    /// Under the catalog lock, for the writes of one record: what a later one brings is measured against what the earlier
    /// ones leave. Those that do not fit any more, and why.
    pub(crate) fn settle_together(&self, all: &mut [(usize, PreparedWrite)]) -> Vec<(usize, Error)> {
        let mut left = Left::default();
        let settled = all.iter_mut().map(|(n, ready)| (*n, self.settle_behind(ready, &mut left)));
        settled.filter_map(|(n, settled)| Some((n, settled.err()?))).collect()
    }

    fn settle_behind(&self, ready: &mut PreparedWrite, left: &mut Left) -> Result<()> {
        let no = ready.entry.no;
        // Many of one record bring the same.
        if ready
            .growth
            .as_ref()
            .is_none_or(|growth| left.known.contains(&brought(no, growth)))
        {
            return Ok(());
        }
        if let Some(entry) = left.grown.get(&no) {
            self.read_again(ready, entry)?;
        }
        let Some(growth) = &ready.growth else { return Ok(()) };
        let entry = left.grown.get(&no).unwrap_or(&ready.entry);
        let next = entry.grown(growth.0.as_deref(), &growth.1)?;
        left.known.insert(brought(no, growth));
        left.grown.insert(no, Arc::new(next));
        Ok(())
    }

    /// Reads the document as the mapping of this entry says.
    fn read_again(&self, ready: &mut PreparedWrite, entry: &IndexEntry) -> Result<()> {
        let Some(put) = &mut ready.put else { return Ok(()) };
        let family = |at: &DocAddress| {
            let uid = at.id.uid();
            let key = self.versions.key(entry.no, &uid);
            self.newest(entry, at, &uid, key).map(|here| here.document)
        };
        let mut routing = put.routing.as_deref().map(str::to_owned);
        let source = Source(put.source.clone());
        let _reading = crate::reading_memory::book(self.env.breakers(), &source.0)?;
        let read = Accepted::read(entry, &ready.at, &source, &mut routing, put.times, Judge::Fully, &family)?;
        put.mapping = read.mapping;
        put.parsed = Mutex::default();
        ready.growth = read.growth;
        Ok(())
    }

    /// Grows mappings, gives stamps, enqueues one record, tells the map and the pending lists. After the stamp
    /// nothing fails. With growth among them the caller holds the catalog lock. Answers the place of the record as well.
    pub(crate) fn commit(
        &self,
        mut all: Vec<PreparedWrite>,
        beside: SideEffects,
        room: &mut Reservation,
    ) -> Result<(Vec<Outcome>, WaitFor, u64)> {
        let SideEffects {
            catalog,
            deltas,
            made,
            seal,
            then,
            is_change,
        } = beside;
        let mut parts = Vec::with_capacity(all.len() + deltas.len() + 1);
        parts.extend(deltas.iter().map(|(no, delta)| alter(*no, delta)));
        let grown = grow(&mut all, &mut parts)?;
        let durability = match is_change {
            true => Durability::Request,
            false => durability(&all),
        };
        for ready in &all {
            // What replay would refuse is not logged.
            ready.entry.replayed_mapping(&ready.uid)?;
        }

        let sequencer = self.write_path.sequence();
        let catalog = catalog.unwrap_or_else(|| self.catalog.now());
        check_open(&catalog, &all)?;
        let (participants, stamps) = numbered(&all, &made);
        let place = if seal.is_some() { self.log.next_position() } else { 0 };
        if let Some((n, seal)) = seal
            && let Some(put) = all[n].put.as_mut()
        {
            put.source = seal(place, &stamps).0;
            put.parsed = Mutex::default();
        }
        parts.extend(all.iter().zip(&stamps).map(|(ready, stamp)| part_of(ready, *stamp)));
        let next: Vec<(u32, u64)> = participants.iter().map(|p| (p.index_no, p.next_seq_no())).collect();
        let record = Record {
            participants,
            parts,
            idempotency_key: None,
        };
        let ticket = self.log.enqueue(room, record, durability)?;

        // From here on nothing fails.
        assert!(
            place == 0 || place == ticket.position,
            "a sealed record stands where the sequencer said"
        );
        for (entry, state) in &made {
            debug_assert_eq!(entry.no, state.no);
            self.admit(state.clone());
        }
        self.number(&all, &next, &ticket);
        let given = if then.is_some() { stamps.clone() } else { Vec::new() };
        let placed = all.into_iter().zip(stamps);
        let outcomes = placed.map(|(ready, stamp)| self.place(ready, stamp, ticket.end)).collect();
        // Last: who finds an index or a field in the catalog also finds the documents that came with it.
        if !grown.is_empty() || !made.is_empty() {
            let mut next: Catalog = (*catalog).clone();
            for entry in grown.into_values() {
                next.put((*entry).clone());
            }
            self.catalog.show(next, ticket.end, self.log.durable_position());
        }
        if let Some(then) = then {
            then(ticket.position, &given);
        }
        drop(sequencer);
        Ok((outcomes, WaitFor::of(durability, ticket.end), ticket.position))
    }

    /// The indices of a record go on counting behind it, and have something to be flushed. `next`: each index and its
    /// next sequence number.
    fn number(&self, all: &[PreparedWrite], next: &[(u32, u64)], ticket: &Ticket) {
        let now = self.env.monotonic();
        self.maintenance
            .unflushed()
            .add(ticket.end - ticket.position, all.len() as u64, now);
        for (no, next) in next {
            if let Some(ready) = all.iter().find(|ready| ready.entry.no == *no) {
                let mut queue = ready.state.queue.lock();
                queue.next_seq_no = *next;
                queue.last = ticket.end;
                queue.oldest.get_or_insert(now);
            }
        }
        let numbers: Vec<u32> = next.iter().map(|(no, _)| *no).collect();
        if numbers.len() > 1 {
            self.publication.add_shared(ticket.end, numbers.clone());
        }
        self.maintenance.mark_dirty(numbers);
    }

    /// From here on it is the newest of its document, and waits to be built.
    fn place(&self, ready: PreparedWrite, stamp: Stamp, end: u64) -> Outcome {
        let deleted = ready.put.is_none();
        let op = Arc::new(PendingOp {
            uid: ready.uid,
            key: ready.key,
            fresh: ready.fresh,
            stamp,
            position: end,
            kind: ready.put.map_or(Kind::Delete, Kind::Put),
        });
        let newest = match deleted {
            true => Newest::Deleted {
                stamp,
                position: end,
                since_ms: None,
            },
            false => Newest::Put(op.clone()),
        };
        self.versions
            .set(ready.key, ready.entry.no, newest, self.log.durable_position());
        let bytes = op.bytes();
        self.write_path.add_pending(bytes);
        {
            let mut queue = ready.state.queue.lock();
            debug_assert!(
                queue.ops.back().is_none_or(|last| last.position <= op.position),
                "write-path.md 1.1: pending operations are in the order of the log"
            );
            queue.bytes += bytes;
            queue.ops.push_back(op);
        }
        let counts = &ready.state.counts;
        let counter = if deleted { &counts.delete } else { &counts.index };
        counter.fetch_add(1, Ordering::Relaxed);
        if let (Some(doc_type), false) = (&ready.at.id.doc_type, deleted) {
            *counts.by_type.lock().entry(doc_type.clone()).or_default() += 1;
        }
        Outcome::Written(Written {
            effect: ready.effect,
            at: ready.at,
            stamp,
            source: ready.show,
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

/// Grows the mappings by what the documents bring: many of one record bring the same fields, which count once.
fn grow(all: &mut [PreparedWrite], parts: &mut Vec<Part>) -> Result<Grown> {
    let mut grown = Grown::new();
    let mut known: HashSet<Brought> = HashSet::new();
    for ready in all {
        let Some(growth) = &ready.growth else { continue };
        let mut entry = grown.get(&ready.entry.no).unwrap_or(&ready.entry).clone();
        let is_new = known.insert(brought(entry.no, growth));
        let (doc_type, growth) = growth;
        if is_new {
            let next = Arc::new(entry.grown(doc_type.as_deref(), growth)?);
            parts.push(alter(entry.no, &growth_delta(&entry, &next, doc_type.as_deref(), growth)));
            grown.insert(entry.no, next.clone());
            entry = next;
        }
        if let Some(put) = &mut ready.put {
            put.mapping = entry.mapping_for(doc_type.as_deref())?;
        }
    }
    Ok(grown)
}

/// The request waits for the disk unless all its indices say otherwise.
fn durability(all: &[PreparedWrite]) -> Durability {
    let waits = |ready: &PreparedWrite| settings::text(&ready.entry.settings, settings::TRANSLOG_DURABILITY) != "async";
    if all.iter().any(waits) {
        Durability::Request
    } else {
        Durability::Async
    }
}

/// An index may have been closed or deleted since it was looked up.
fn check_open(catalog: &Catalog, all: &[PreparedWrite]) -> Result<()> {
    for ready in all {
        match catalog.by_no(ready.entry.no) {
            None => return Err(engine::catalog::missing(ready.entry.name.as_str())),
            Some(entry) if !entry.open => return Err(engine::catalog::closed(&entry.name, &entry.uuid)),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The sequence numbers that a record takes of each index, and the stamps of its writes.
fn numbered(all: &[PreparedWrite], made: &[(Arc<IndexEntry>, Arc<IndexState>)]) -> (Vec<Participant>, Vec<Stamp>) {
    let mut participants: Vec<Participant> = Vec::new();
    let mut stamps = Vec::with_capacity(all.len());
    for ready in all {
        let no = ready.entry.no;
        let at = match participants.iter().position(|p| p.index_no == no) {
            Some(at) => at,
            None => {
                participants.push(Participant {
                    index_no: no,
                    first_seq_no: ready.state.queue.lock().next_seq_no,
                    count: 0,
                });
                participants.len() - 1
            }
        };
        let participant = &mut participants[at];
        stamps.push(Stamp {
            seq_no: participant.next_seq_no(),
            primary_term: ready.state.term + ready.entry.turns,
            version: ready.version,
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

/// How a write stands in the log.
fn part_of(ready: &PreparedWrite, stamp: Stamp) -> Part {
    let index_no = ready.entry.no;
    let Stamp {
        seq_no,
        primary_term: term,
        version,
    } = stamp;
    match &ready.put {
        None => Part::Delete {
            index_no,
            seq_no,
            version,
            term,
            uid: ready.uid.clone(),
            hidden: None,
        },
        Some(put) => Part::Put {
            index_no,
            seq_no,
            version,
            term,
            mapping_version: ready.entry.revision,
            uid: ready.uid.clone(),
            routing: put.routing.clone(),
            hidden: extras(
                put.parent.as_deref(),
                put.hidden.as_ref().map(|(hidden, _)| hidden),
                put.times,
            ),
            source: put.source.clone(),
        },
    }
}
