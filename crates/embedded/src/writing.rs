//! The way of a write up to its acknowledgement (write-path.md 3, steps 1–5 and 7).
//!
//! Everything that can be refused is refused before the stamp; the stamp and the place in the log are given
//! together by the sequencer, so that sequence numbers follow the log without holes.
//!
//! Not here: waiting for the disk (the async side, `lib`), building (`publish`).

use crate::catalog::{Catalog, IndexEntry, growth_delta};
use crate::index::segment::Held;
use crate::log::{Durability, Part, Participant, Record, Reservation};
use crate::store::{IndexState, Store, locate};
use crate::versions::{Key, Newest};
use engine::{Alteration, Applied, Document, Effect, Expect, Found, Hidden, Hide, Outcome, See, Source, Write, WriteOp, Written};
use mapping::{Mapping, Parsed, ReadOptions};
use model::routing::lead_together;
use model::{DocAddress, Error, ErrorKind, Result, Stamp, Target, settings};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The longest id, in bytes: a longer token would never be indexed.
const ID_MAX_BYTES: usize = 512;

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
    /// What it does.
    pub(crate) kind: Kind,
}

/// What a pending operation does.
#[derive(Debug)]
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

impl Put {
    /// What was read of the source, for whoever comes first.
    pub(crate) fn take_parsed(&self) -> Option<Parsed> {
        self.parsed.lock().take().map(|kept| kept.parsed)
    }
}

impl PendingOp {
    /// What it weighs in memory.
    pub(crate) fn bytes(&self) -> u64 {
        let source = match &self.kind {
            Kind::Put(put) => put.source.len(),
            Kind::Delete => 0,
        };
        (source + self.uid.len() + 200) as u64
    }
}

/// A mark in its stored form.
pub(crate) fn mark_bytes(hidden: &Hidden) -> Vec<u8> {
    json!({ "body": hidden.body, "visible": hidden.visible, "held": hidden.held })
        .to_string()
        .into_bytes()
}

/// A mark from its stored form.
pub(crate) fn read_mark(bytes: &[u8]) -> Option<Hidden> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    Some(Hidden {
        visible: value["visible"] == true,
        held: value["held"] == true,
        body: value["body"].clone(),
    })
}

/// What the log keeps beside the source: the parent and the mark.
pub(crate) fn extras(parent: Option<&str>, hidden: Option<&Hidden>) -> Option<Vec<u8>> {
    if parent.is_none() && hidden.is_none() {
        return None;
    }
    let mark = hidden.map(|h| json!({ "body": h.body, "visible": h.visible, "held": h.held }));
    Some(json!({ "parent": parent, "mark": mark }).to_string().into_bytes())
}

/// The other way.
pub(crate) fn read_extras(bytes: Option<&[u8]>) -> (Option<Box<str>>, Option<Hidden>) {
    let Some(value) = bytes.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok()) else {
        return (None, None);
    };
    let mark = value
        .get("mark")
        .filter(|mark| mark.is_object())
        .and_then(|mark| read_mark(mark.to_string().as_bytes()));
    (value["parent"].as_str().map(Into::into), mark)
}

/// Where an answer may leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct After {
    /// Once durable up to here.
    pub(crate) durable: u64,
    /// Once written up to here (`async`).
    pub(crate) written: u64,
}

impl After {
    pub(crate) fn also(&mut self, other: After) {
        self.durable = self.durable.max(other.durable);
        self.written = self.written.max(other.written);
    }
}

/// The newest state of one document.
pub(crate) struct Here {
    pub(crate) found: Found,
    pub(crate) document: Option<Document>,
    pub(crate) position: u64,
}

impl Here {
    /// Nothing was ever there.
    pub(crate) fn nothing() -> Here {
        Here {
            found: Found::Nothing,
            document: None,
            position: 0,
        }
    }
}

/// A write that has been checked and only lacks its stamp.
pub(crate) struct Ready {
    pub(crate) entry: Arc<IndexEntry>,
    state: Arc<IndexState>,
    at: DocAddress,
    uid: Box<str>,
    key: Key,
    version: u64,
    effect: Effect,
    fresh: bool,
    pub(crate) put: Option<Put>,
    show: Option<Source>,
    pub(crate) growth: Option<(Option<Arc<str>>, Mapping)>,
}

/// What a record holds and does beside its writes.
#[derive(Default)]
pub(crate) struct Beside {
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
}

/// Which write is sealed, and how.
pub(crate) type Sealing = (usize, Box<dyn FnOnce(u64, &[Stamp]) -> Source + Send>);
/// What happens once the record has its place.
pub(crate) type Settling = Box<dyn FnOnce(u64, &[Stamp]) + Send>;

pub(crate) enum Judged {
    Ready(Box<Ready>),
    Done(Outcome),
}

impl Store {
    /// The newest state of a document; the caller holds its stripe or only wants to read.
    pub(crate) fn newest(&self, entry: &IndexEntry, at: &DocAddress, uid: &str, key: Key) -> Result<Here> {
        let state = self.state(entry)?;
        match self.versions.get(key) {
            Some(Newest::Put(op)) => {
                let document = match &op.kind {
                    Kind::Put(put) => Some(Document {
                        at: at.clone(),
                        stamp: op.stamp,
                        source: Source(put.source.clone()),
                        routing: put.routing.as_deref().map(str::to_owned),
                        parent: put.parent.as_deref().map(str::to_owned),
                        hidden: put.hidden.as_ref().map(|(hidden, _)| hidden.clone()),
                    }),
                    Kind::Delete => None,
                };
                Ok(Here {
                    found: Found::Here(op.stamp),
                    document,
                    position: op.position,
                })
            }
            Some(Newest::Deleted { stamp, position, .. }) => Ok(Here {
                found: Found::Deleted(stamp),
                document: None,
                position,
            }),
            None => {
                let set = state.built.load_full();
                let Some(location) = locate(&set, uid)? else {
                    return Ok(Here::nothing());
                };
                let document = stored(&set, &location, at)?;
                Ok(Here {
                    found: Found::Here(location.stamp()),
                    document: Some(document),
                    position: 0,
                })
            }
        }
    }

    /// Each write on its own. Gives outcomes in order and what they wait for; `at_once`: this thread goes on to wait.
    pub(crate) fn write(&self, writes: Vec<Write>, at_once: bool) -> Vec<(Outcome, After, Option<u32>)> {
        writes
            .into_iter()
            .map(|write| match self.write_one(write, at_once) {
                Ok(done) => done,
                Err(e) => (
                    Outcome::Refused(self.settle(e)),
                    After {
                        durable: self.altered_at.load(Ordering::Acquire),
                        written: 0,
                    },
                    None,
                ),
            })
            .collect()
    }

    fn write_one(&self, mut write: Write, at_once: bool) -> Result<(Outcome, After, Option<u32>)> {
        self.check_writable()?;
        let catalog = self.catalog.load_full();
        let entry = catalog.write_index(write.at.index.as_str(), write.require_alias, self.clock.wall_ms())?;
        check_write(&entry, &write)?;
        write.at.id = entry.identity(&write.at.id)?;
        write.routing = entry.routing_through(write.at.index.as_str(), write.routing)?;
        let routing = write.routing.as_deref().or(write.parent.as_deref());
        entry.check_routing(&write.at.id, routing)?;
        let bytes = 512
            + write.at.id.id.len()
            + match &write.op {
                WriteOp::Put(source) => source.0.len() * 2,
                _ => 0,
            };
        let mut room = match write.op {
            WriteOp::Delete => self.log.reserve_delete(bytes as u64)?,
            _ => self.log.reserve(bytes as u64)?,
        };
        if at_once {
            room = room.waited_for();
        }
        let uid = write.at.id.uid();
        let key = self.versions.key(entry.no, &uid);
        // Nothing that is locked here is changed before the last step that can fail.
        let _stripe = self.stripe(self.stripe_of(key));
        let mut after = After::default();
        let (mut ready, after) = match self.judge(&entry, write, &mut after, None)? {
            Judged::Done(outcome) => return Ok((outcome, after, None)),
            Judged::Ready(ready) => (ready, after),
        };
        let no = entry.no;
        let growing = ready.growth.is_some();
        let _altering = growing.then(|| self.altering.lock());
        if growing {
            self.settle_growth(&mut ready)?;
        }
        let (mut outcomes, mut waits, _) = self.commit(vec![*ready], Beside::default(), &mut room)?;
        waits.also(after);
        Ok((outcomes.pop().unwrap_or(Outcome::Unknown), waits, Some(no)))
    }

    /// Would the mapping take it, and what would grow? Expectations are not looked at.
    pub(crate) fn rehearse(&self, write: &Write) -> Result<Option<Alteration>> {
        let catalog = self.catalog.load_full();
        let entry = catalog.write_index(write.at.index.as_str(), write.require_alias, self.clock.wall_ms())?;
        check_write(&entry, write)?;
        let at = DocAddress {
            index: entry.name.clone(),
            id: write.at.id.clone(),
        };
        let mut routing = write.routing.clone();
        let source = match &write.op {
            WriteOp::Delete => return Ok(None),
            WriteOp::Put(source) => source.parse()?,
            WriteOp::Update(update) => {
                let uid = at.id.uid();
                let here = self.newest(&entry, &at, &uid, self.versions.key(entry.no, &uid))?;
                let old = here.document.filter(|document| visible(document, sees(&write.hide)));
                routing = routing.or_else(|| old.as_ref().and_then(|document| document.routing.clone()));
                let value = old
                    .as_ref()
                    .map(|document| document.source.parse_to_update(&at))
                    .transpose()?;
                let newest = value.as_ref().zip(old.as_ref().map(|document| document.stamp));
                match update.apply(&at, newest, routing.as_deref())? {
                    Applied::Put(value) => value,
                    Applied::Delete | Applied::Noop => return Ok(None),
                }
            }
        };
        let doc_type = at.id.doc_type.as_deref();
        let options = ReadOptions {
            id: &at.id.id,
            type_name: doc_type.unwrap_or(""),
            routing: routing.as_deref(),
        };
        let growth = entry.mapping_for(doc_type)?.read(&source, &options)?.growth;
        Ok(growth.map(|growth| Alteration::PutMapping {
            target: Target::index(entry.name.as_str()),
            doc_type: doc_type.map(str::to_owned),
            body: growth.render(),
        }))
    }

    /// Everything about one write that may fail. `made`: the state of an index that this very record makes.
    pub(crate) fn judge(
        &self,
        entry: &Arc<IndexEntry>,
        write: Write,
        after: &mut After,
        made: Option<Arc<IndexState>>,
    ) -> Result<Judged> {
        let at = DocAddress {
            index: entry.name.clone(),
            id: write.at.id.clone(),
        };
        let uid = at.id.uid();
        let key = self.versions.key(entry.no, &uid);
        let (state, here) = match made {
            Some(state) => (state, Here::nothing()),
            None => (self.state(entry)?, self.newest(entry, &at, &uid, key)?),
        };
        after.durable = after.durable.max(here.position);
        let fresh = matches!(here.found, Found::Nothing);
        let family = |at: &DocAddress| {
            let uid = at.id.uid();
            let key = self.versions.key(entry.no, &uid);
            self.newest(entry, at, &uid, key).map(|here| here.document)
        };
        match work_out(entry, write, here, None, &family)? {
            WorkedOut::Done(outcome) => {
                if matches!(&outcome, Outcome::Written(written) if written.effect == Effect::Noop) {
                    state.counts.noop.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Judged::Done(outcome))
            }
            WorkedOut::Out(mut worked) => {
                if let (Some(put), Some(parsed)) = (&mut worked.put, worked.parsed) {
                    put.parsed = Mutex::new(self.kept_parsed(parsed));
                }
                Ok(Judged::Ready(Box::new(Ready {
                    entry: entry.clone(),
                    state,
                    at: worked.at,
                    uid: uid.into(),
                    key,
                    version: worked.version,
                    effect: worked.effect,
                    fresh,
                    put: worked.put,
                    show: worked.show,
                    growth: worked.growth,
                })))
            }
        }
    }

    /// Keeps what was read of a document for its build, as long as what is kept so takes at most half of what may be
    /// pending: beyond that, a build reads the source again.
    fn kept_parsed(&self, parsed: Parsed) -> Option<Box<KeptParsed>> {
        let bytes = parsed.weight() as u64;
        if self.parsed_bytes.load(Ordering::Relaxed) + bytes > self.limits.pending_bytes / 2 {
            return None;
        }
        Some(Box::new(KeptParsed {
            parsed,
            _held: Held::new(&self.parsed_bytes, bytes),
        }))
    }

    /// Under the catalog lock: reads the document again if the mapping has moved, so that what grows is
    /// measured against the newest.
    pub(crate) fn settle_growth(&self, ready: &mut Ready) -> Result<()> {
        let Some(entry) = self.catalog.load().by_no(ready.entry.no).cloned() else {
            return Err(engine::catalog::missing(ready.entry.name.as_str()));
        };
        if entry.revision == ready.entry.revision {
            return Ok(());
        }
        if let Some(put) = &mut ready.put {
            let value: Value =
                serde_json::from_slice(&put.source).map_err(|e| Error::new(ErrorKind::MapperParsing, e.to_string()))?;
            let doc_type = ready.at.id.doc_type.clone();
            put.mapping = entry.mapping_for(doc_type.as_deref())?;
            put.parsed = Mutex::default();
            let options = ReadOptions {
                id: &ready.at.id.id,
                type_name: doc_type.as_deref().unwrap_or(""),
                routing: put.routing.as_deref(),
            };
            ready.growth = put.mapping.read(&value, &options)?.growth.map(|growth| (doc_type, growth));
        }
        ready.entry = entry;
        Ok(())
    }

    /// Grows mappings, gives stamps, enqueues one record, tells the map and the pending lists. After the stamp
    /// nothing fails. With growth among them the caller holds the catalog lock.
    pub(crate) fn commit(
        &self,
        mut all: Vec<Ready>,
        beside: Beside,
        room: &mut Reservation,
    ) -> Result<(Vec<Outcome>, After, u64)> {
        let mut parts = Vec::with_capacity(all.len() + 1);
        for (no, delta) in &beside.deltas {
            parts.push(Part::Alter {
                index_no: *no,
                delta: delta.to_string().into_bytes(),
            });
        }
        let mut grown: HashMap<u32, Arc<IndexEntry>> = HashMap::new();
        // Many documents of one record bring the same fields: they grow the mapping once.
        let mut known: HashMap<(u32, Option<Arc<str>>), HashSet<String>> = HashMap::new();
        for ready in &mut all {
            let entry = grown.get(&ready.entry.no).cloned().unwrap_or_else(|| ready.entry.clone());
            let Some((doc_type, growth)) = &ready.growth else { continue };
            let seen = known.entry((entry.no, doc_type.clone())).or_default();
            let entry = if seen.insert(growth.render().to_string()) {
                let next = Arc::new(entry.grown(doc_type.as_deref(), growth)?);
                let delta = growth_delta(&entry, &next, doc_type.as_deref(), growth);
                parts.push(Part::Alter {
                    index_no: entry.no,
                    delta: delta.to_string().into_bytes(),
                });
                grown.insert(entry.no, next.clone());
                next
            } else {
                entry
            };
            if let Some(put) = &mut ready.put {
                put.mapping = entry.mapping_for(doc_type.as_deref())?;
            }
        }
        let durability = if all
            .iter()
            .all(|ready| settings::text(&ready.entry.settings, settings::TRANSLOG_DURABILITY) == "async")
        {
            Durability::Async
        } else {
            Durability::Request
        };
        let sequencer = self.sequencer.lock();
        let catalog = beside.catalog.unwrap_or_else(|| self.catalog.load_full());
        for ready in &all {
            // It may have been closed or deleted since it was looked up.
            match catalog.by_no(ready.entry.no) {
                None => return Err(engine::catalog::missing(ready.entry.name.as_str())),
                Some(entry) if !entry.open => return Err(engine::catalog::closed(&entry.name, &entry.uuid)),
                Some(_) => {}
            }
        }
        let mut participants: Vec<Participant> = Vec::new();
        let mut stamps = Vec::with_capacity(all.len());
        for ready in &all {
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
            let seq_no = participant.first_seq_no + u64::from(participant.count);
            participant.count += 1;
            stamps.push(Stamp {
                seq_no,
                primary_term: ready.state.term,
                version: ready.version,
            });
        }
        for (entry, _) in &beside.made {
            // An index is made for the documents in it, but nothing depends on there being any.
            if !participants.iter().any(|p| p.index_no == entry.no) {
                participants.push(Participant {
                    index_no: entry.no,
                    first_seq_no: 0,
                    count: 0,
                });
            }
        }
        let place = if beside.seal.is_some() { self.log.next_position() } else { 0 };
        if let Some((n, seal)) = beside.seal
            && let Some(put) = all[n].put.as_mut()
        {
            put.source = seal(place, &stamps).0;
            put.parsed = Mutex::default();
        }
        for (ready, stamp) in all.iter().zip(&stamps) {
            parts.push(part_of(ready, *stamp));
        }
        let numbers: Vec<u32> = participants.iter().map(|p| p.index_no).collect();
        let counts: Vec<(u32, u64)> = participants
            .iter()
            .map(|p| (p.index_no, p.first_seq_no + u64::from(p.count)))
            .collect();
        let ticket = self.log.enqueue(
            room,
            Record {
                participants,
                parts,
                idempotency_key: None,
            },
            durability,
        )?;
        // From here on nothing fails.
        assert!(
            place == 0 || place == ticket.position,
            "a sealed record stands where the sequencer said"
        );
        for (entry, state) in &beside.made {
            self.admit(state.clone());
            debug_assert_eq!(entry.no, state.no);
        }
        let now = self.clock.monotonic();
        self.unflushed.add(ticket.end - ticket.position, all.len() as u64, now);
        let mut outcomes = Vec::with_capacity(all.len());
        for (no, next) in counts {
            if let Some(ready) = all.iter().find(|ready| ready.entry.no == no) {
                let mut queue = ready.state.queue.lock();
                queue.next_seq_no = next;
                queue.last = ticket.end;
                queue.oldest.get_or_insert(now);
            }
        }
        if numbers.len() > 1 {
            self.shared.lock().push_back((ticket.end, numbers.clone()));
        }
        self.dirty.lock().extend(numbers);
        let given = if beside.then.is_some() { stamps.clone() } else { Vec::new() };
        for (ready, stamp) in all.into_iter().zip(stamps) {
            let deleted = ready.put.is_none();
            let kind = ready.put.map_or(Kind::Delete, Kind::Put);
            let op = Arc::new(PendingOp {
                uid: ready.uid,
                key: ready.key,
                fresh: ready.fresh,
                stamp,
                position: ticket.end,
                kind,
            });
            let newest = match deleted {
                true => Newest::Deleted {
                    stamp,
                    position: ticket.end,
                    since_ms: None,
                },
                false => Newest::Put(op.clone()),
            };
            self.versions.set(ready.key, ready.entry.no, newest);
            let bytes = op.bytes();
            {
                let mut queue = ready.state.queue.lock();
                queue.bytes += bytes;
                queue.ops.push_back(op);
            }
            self.pending_bytes.fetch_add(bytes, Ordering::Relaxed);
            let counter = if deleted {
                &ready.state.counts.delete
            } else {
                &ready.state.counts.index
            };
            counter.fetch_add(1, Ordering::Relaxed);
            if let (Some(doc_type), false) = (&ready.at.id.doc_type, deleted) {
                *ready.state.counts.by_type.lock().entry(doc_type.clone()).or_default() += 1;
            }
            outcomes.push(Outcome::Written(Written {
                effect: ready.effect,
                at: ready.at,
                stamp,
                source: ready.show,
                forced_refresh: false,
            }));
        }
        // Last: who finds an index or a field in the catalog also finds the documents that came with it.
        if !grown.is_empty() || !beside.made.is_empty() {
            let mut next: Catalog = (*catalog).clone();
            for entry in grown.into_values() {
                next.put((*entry).clone());
            }
            self.catalog.store(Arc::new(next));
            self.altered_at.fetch_max(ticket.end, Ordering::AcqRel);
        }
        if let Some(then) = beside.then {
            then(ticket.position, &given);
        }
        drop(sequencer);
        Ok((
            outcomes,
            match durability {
                Durability::Async => After {
                    durable: 0,
                    written: ticket.end,
                },
                Durability::Request => After {
                    durable: ticket.end,
                    written: ticket.end,
                },
            },
            ticket.position,
        ))
    }
}

/// A write that has been worked out on what is there.
pub(crate) struct Worked {
    pub(crate) at: DocAddress,
    pub(crate) version: u64,
    pub(crate) effect: Effect,
    /// `None`: the document goes.
    pub(crate) put: Option<Put>,
    /// What was read of its source, if it is to be indexed under the mapping that there is.
    pub(crate) parsed: Option<Parsed>,
    pub(crate) show: Option<Source>,
    pub(crate) growth: Option<(Option<Arc<str>>, Mapping)>,
}

/// What a write comes to.
pub(crate) enum WorkedOut {
    Out(Box<Worked>),
    /// Nothing is to be written.
    Done(Outcome),
}

/// Would the routing of this deletion or update look for the document in another shard than its own leads to? What has
/// a document to write all the same, or a condition, goes by the id alone: an id is there once.
fn is_elsewhere(write: &Write, document: &Document) -> bool {
    let plain = match &write.op {
        WriteOp::Put(_) => false,
        WriteOp::Delete => true,
        WriteOp::Update(update) => update.upsert.is_none() && !update.doc_as_upsert && !update.scripted_upsert,
    };
    let wanted = write.routing.as_deref().or(write.parent.as_deref());
    plain
        && write.expect == Expect::Anything
        && !lead_together(&write.at.id.id, wanted, document.routing.as_deref(), write.routed_among)
}

/// Everything about one write that may fail and rests on the document alone. `began`: what conditions on stamps mean, if
/// that is not what is here. `family` finds a parent.
pub(crate) fn work_out(
    entry: &IndexEntry,
    write: Write,
    here: Here,
    began: Option<Found>,
    family: &dyn Fn(&DocAddress) -> Result<Option<Document>>,
) -> Result<WorkedOut> {
    let at = DocAddress {
        index: entry.name.clone(),
        id: write.at.id.clone(),
    };
    let mark = here.document.as_ref().and_then(|document| document.hidden.clone());
    if let (Some(mark), Hide::Keep) = (&mark, &write.hide)
        && mark.held
    {
        return Ok(WorkedOut::Done(Outcome::Held(mark.body.clone())));
    }
    // Plain writers do not know of marks: to them what a mark hides is deleted.
    let see = sees(&write.hide);
    let before_document = here.document.filter(|document| visible(document, see));
    let found = match here.found {
        Found::Here(stamp) if before_document.is_none() => Found::Deleted(stamp),
        found => found,
    };
    let elsewhere = before_document
        .as_ref()
        .is_some_and(|document| is_elsewhere(&write, document));
    if let (true, WriteOp::Delete) = (elsewhere, &write.op) {
        let stamp = Stamp {
            version: 1,
            ..found.stamp().unwrap_or_default()
        };
        return Ok(WorkedOut::Done(Outcome::Written(Written {
            effect: Effect::NotFound,
            at,
            stamp,
            source: None,
            forced_refresh: false,
        })));
    }
    if let Err(conflict) = write.expect.check(&at, found) {
        let stamped = matches!(write.expect, Expect::Unchanged { .. } | Expect::Version(_));
        if !began.is_some_and(|began| stamped && write.expect.check(&at, began).is_ok()) {
            return Ok(WorkedOut::Done(Outcome::Conflict(conflict)));
        }
    }
    let hidden = match write.hide {
        // What was deleted under its mark and is written again is seen again.
        Hide::Keep => mark.map(|mark| Hidden { visible: true, ..mark }),
        Hide::Set(hidden) => Some(hidden),
        Hide::Drop => None,
    };
    let version = found.next_version(write.expect);
    let mut routing = write.routing;
    let mut parent = write.parent;
    let (source, show) = match write.op {
        WriteOp::Put(source) => (Some(source), None),
        WriteOp::Delete => (None, None),
        WriteOp::Update(update) => {
            let kept = before_document.as_ref();
            let value = kept.map(|document| document.source.parse_to_update(&at)).transpose()?;
            let newest = value.as_ref().zip(found.stamp().filter(|_| found.is_here() && !elsewhere));
            if let Some(document) = &before_document {
                // An update keeps what only a whole write could change.
                routing = routing.or_else(|| document.routing.clone());
                parent = parent.or_else(|| document.parent.clone());
            }
            match update.apply(&at, newest, routing.as_deref())? {
                Applied::Put(value) => {
                    let source = Source::from_value(&value);
                    (Some(source.clone()), Some(source))
                }
                Applied::Delete => (None, None),
                Applied::Noop => {
                    let stamp = found.stamp().unwrap_or_default();
                    let source = before_document.map(|document| document.source);
                    let written = Written {
                        effect: Effect::Noop,
                        at,
                        stamp,
                        source,
                        forced_refresh: false,
                    };
                    return Ok(WorkedOut::Done(Outcome::Written(written)));
                }
            }
        }
    };
    let effect = match (&source, found.is_here()) {
        (Some(_), true) => Effect::Updated,
        (Some(_), false) => Effect::Created,
        (None, true) => Effect::Deleted,
        (None, false) => Effect::NotFound,
    };
    let mut growth = None;
    let mut kept = None;
    let put = match source {
        // The mark outlives the document, hidden.
        None => hidden.map(|mark| {
            let mark = Hidden { visible: false, ..mark };
            let bytes = mark_bytes(&mark);
            Put {
                mapping: Mapping::empty(&entry.registry, &mapping::settings::limits(&entry.settings)),
                source: (*b"{}").into(),
                routing: routing.map(Into::into),
                parent: parent.map(Into::into),
                hidden: Some((mark, bytes)),
                parsed: Mutex::default(),
            }
        }),
        Some(source) => {
            let value = serde_json::from_slice::<Value>(&source.0).map_err(|e| {
                Error::new(ErrorKind::MapperParsing, "failed to parse").caused_by(Error::new(ErrorKind::JsonParse, e.to_string()))
            })?;
            let doc_type = at.id.doc_type.clone();
            let mapping = entry.mapping_for(doc_type.as_deref())?;
            if routing.is_none() {
                routing = crate::family_routing::routing_of_family(entry, &mapping, &value, family)?;
            }
            let options = ReadOptions {
                id: &at.id.id,
                type_name: doc_type.as_deref().unwrap_or(""),
                routing: routing.as_deref(),
            };
            let mut parsed = mapping.read(&value, &options)?;
            // A field that another type has is as that type has it: the document must be readable so.
            if let (Some(growth), crate::catalog::Mappings::Typed(types)) = (&parsed.growth, &entry.mappings) {
                let adopted = types.adopted(doc_type.as_deref().unwrap_or("_doc"), growth)?;
                mapping.merge(&adopted)?.read(&value, &options)?;
            }
            let new_type = entry.typed() && !entry.types().iter().any(|t| Some(t.as_str()) == doc_type.as_deref());
            if parsed.growth.is_some() || new_type {
                let empty = Mapping::empty(&entry.registry, &mapping::settings::limits(&entry.settings));
                growth = Some((doc_type, parsed.growth.take().unwrap_or(empty)));
            } else {
                kept = Some(parsed);
            }
            let hidden = hidden.map(|hidden| {
                let bytes = mark_bytes(&hidden);
                (hidden, bytes)
            });
            Some(Put {
                mapping,
                source: source.0,
                routing: routing.map(Into::into),
                parent: parent.map(Into::into),
                hidden,
                parsed: Mutex::default(),
            })
        }
    };
    Ok(WorkedOut::Out(Box::new(Worked {
        at,
        version,
        effect,
        put,
        parsed: kept,
        show,
        growth,
    })))
}

/// What a writer knows of: those who set or take marks see all that is there.
fn sees(hide: &Hide) -> See {
    match hide {
        Hide::Keep => See::Plain,
        _ => See::Everything,
    }
}

/// May this reader see it?
pub(crate) fn visible(document: &Document, see: See) -> bool {
    see == See::Everything || document.hidden.as_ref().is_none_or(|hidden| hidden.visible)
}

fn part_of(ready: &Ready, stamp: Stamp) -> Part {
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
            hidden: extras(put.parent.as_deref(), put.hidden.as_ref().map(|(hidden, _)| hidden)),
            source: put.source.clone(),
        },
    }
}

/// Limits that do not need the document's state.
pub(crate) fn check_write(entry: &IndexEntry, write: &Write) -> Result<()> {
    if !entry.open {
        return Err(engine::catalog::closed(&entry.name, &entry.uuid));
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
    if write.at.id.uid().len() > 2 * ID_MAX_BYTES {
        return Err(Error::illegal("type and id are too long together"));
    }
    let blocked = |name: &str| entry.settings.get(name).and_then(Value::as_str) == Some("true");
    let forbidden = |id: u8, what: &str| {
        Err(Error::new(
            ErrorKind::ClusterBlock,
            format!("index [{}] blocked by: [FORBIDDEN/{id}/{what}];", entry.name),
        )
        .with("index", entry.name.as_str()))
    };
    if blocked("index.blocks.write") {
        return forbidden(8, "index write (api)");
    }
    if blocked("index.blocks.read_only") {
        return forbidden(5, "index read-only (api)");
    }
    if let (WriteOp::Put(_), Some(_), true) = (&write.op, &write.parent, entry.typed())
        && entry.mapping_for(write.at.id.doc_type.as_deref())?.parent_type().is_none()
    {
        return Err(Error::illegal("Can't specify parent if no parent field has been configured"));
    }
    if let Expect::Version(0) = write.expect {
        return Err(Error::illegal("illegal version value [0] for version type [INTERNAL]"));
    }
    Ok(())
}

/// A document out of a segment.
///
/// # Errors
/// Unreadable files.
pub(crate) fn stored(
    view: &crate::searchable::IndexView,
    location: &crate::store::Location,
    at: &DocAddress,
) -> Result<Document> {
    let schema = &view.schema;
    let mut document = Document {
        at: at.clone(),
        stamp: location.stamp(),
        source: Source(Arc::from([])),
        routing: None,
        parent: None,
        hidden: None,
    };
    view.each_stored(&location.segment, location.root(), |field, value| {
        if field == schema.source && crate::index::kept::stored_fields(value).is_none() {
            document.source = Source(value.into());
        } else if field == schema.routing {
            document.routing = Some(String::from_utf8_lossy(value).into_owned());
        } else if field == schema.parent {
            document.parent = Some(String::from_utf8_lossy(value).into_owned());
        } else if field == schema.hidden {
            document.hidden = read_mark(value);
        }
    })?;
    Ok(document)
}
