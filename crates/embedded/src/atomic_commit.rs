//! Decisions: a plan that reads and writes several documents in one critical section, as one record.
//!
//! Order of locks: gate → stripes of the documents touched (ascending) → catalog (if an index is made or a mapping
//! grows) → sequencer. The plan runs under the stripes; what it touched beyond them is locked too and it runs
//! again, so that in the end everything it rests on is held from its first read to the record's place in the log.
//!
//! Not here: what is planned (`relations`), waiting for the disk (`lib`), stamps (`evaluate`).

use crate::catalog::alter::{Moment, alter};
use crate::catalog::{Catalog, IndexEntry};
use crate::commit::{PreparedWrite, SideEffects, WaitFor};
use crate::counts::share;
use crate::document_key::Key;
use crate::durability::is_of_the_moment;
use crate::evaluate::{Judged, check_write, visible};
use crate::index_state::IndexState;
use crate::store::Store;
use crate::versions::Versions;
use crate::write_path::{GateGuard, STRIPES};
use engine::{
    Alteration, Decision, Document, Gate, Looker, Newest, Outcome, Plan, See, TxnBody, TxnOptions, Write, WriteIndex, WriteOp,
};
use model::{DocAddress, DocId, Error, Result, Stamp};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// After so many runs of a plan that always touches something else, everything is locked.
const RUNS_MAX: usize = 3;

/// What a decision came to before the disk has it.
pub(crate) struct AtomicCommit {
    /// One for each write.
    pub(crate) outcomes: Result<Vec<Outcome>>,
    /// What the answer waits for.
    pub(crate) after: WaitFor,
    /// Indices written to.
    pub(crate) numbers: Vec<u32>,
    /// Where the record stands, if there is one.
    pub(crate) place: Option<u64>,
}

impl Store {
    /// All of the plan's writes or none.
    pub(crate) fn decide(&self, plan: &mut TxnBody<'_>, how: &TxnOptions) -> AtomicCommit {
        let gate = self.write_path.pass_gate(how.gate);
        let mut settled = AtomicCommit {
            outcomes: Ok(Vec::new()),
            after: WaitFor::default(),
            numbers: Vec::new(),
            place: None,
        };
        if how.gate != Gate::None {
            // What was altered in memory before rests on a record that may not be durable yet.
            settled.after.durable = self.write_path.gate_altered_to();
        }
        settled.outcomes = self.plan_and_commit(&gate, plan, how, &mut settled.after, &mut settled.numbers, &mut settled.place);
        settled
    }

    /// Reads for somebody who holds nothing.
    pub(crate) fn look(&self, look: &mut Looker<'_>) {
        look(&mut Reading {
            store: self,
            after: WaitFor::default(),
            touched: BTreeSet::new(),
            keys: &mut Keys::default(),
        });
    }

    fn plan_and_commit(
        &self,
        gate: &GateGuard<'_>,
        plan: &mut TxnBody<'_>,
        how: &TxnOptions,
        after: &mut WaitFor,
        numbers: &mut Vec<u32>,
        place: &mut Option<u64>,
    ) -> Result<Vec<Outcome>> {
        let mut keys = Keys::default();
        let mut wanted: BTreeSet<usize> = how.touches.iter().filter_map(|at| self.stripe_at(at, &mut keys)).collect();
        for run in 0.. {
            if run >= RUNS_MAX {
                wanted = (0..STRIPES).collect();
            }
            let _held = self.write_path.lock_stripes(&wanted);
            keys.rewind();
            let mut reader = Reading {
                store: self,
                after: *after,
                touched: BTreeSet::new(),
                keys: &mut keys,
            };
            let planned = plan(&mut reader);
            *after = reader.after;
            let mut touched = reader.touched;
            keys.rewind();
            if let Ok(planned) = &planned {
                let writes = planned.writes.iter();
                touched.extend(writes.filter_map(|write| self.stripe_at(&write.at, &mut keys)));
            }
            if !touched.is_subset(&wanted) {
                wanted.extend(touched);
                continue;
            }
            let planned = planned?;
            if planned.writes.is_empty() && planned.alterations.is_empty() {
                if planned.numbered {
                    *place = Some(self.place_of_nothing()?);
                }
                if let Some(then) = planned.then {
                    let commit_seq = place.unwrap_or_else(|| self.log.end_position());
                    then(&Decision { commit_seq, stamps: &[] });
                }
                if planned.reveals_nothing {
                    *after = WaitFor::default();
                }
                return Ok(Vec::new());
            }
            keys.rewind();
            match self.commit_atomically(gate, planned, &wanted, &mut keys, how, after, numbers)? {
                Carried::Out(outcomes, at) => {
                    *place = at;
                    return Ok(outcomes);
                }
                Carried::Missing(stripes) => wanted.extend(stripes),
            }
        }
        unreachable!("with every stripe held none is missing")
    }

    /// Judges the writes of a plan, and commits them if all are good. The stripes are held.
    #[expect(clippy::too_many_arguments, reason = "the state of one decision")]
    fn commit_atomically(
        &self,
        gate: &GateGuard<'_>,
        plan: Plan,
        held: &BTreeSet<usize>,
        keys: &mut Keys,
        how: &TxnOptions,
        after: &mut WaitFor,
        numbers: &mut Vec<u32>,
    ) -> Result<Carried> {
        // What only reads is answered also while nothing can be written.
        let deletes = plan.alterations.is_empty() && plan.writes.iter().all(|write| matches!(write.op, WriteOp::Delete));
        match how.makes_room || deletes {
            true => self.check_deletable()?,
            false => self.check_writable()?,
        }
        let begun = Instant::now();
        let making = !plan.alterations.is_empty();
        let _altering = making.then(|| self.catalog.alter_alone());
        let now = self.env.wall_ms();
        let mut beside = SideEffects {
            is_change: !how.plain,
            ..SideEffects::default()
        };
        let mut catalog: Arc<Catalog> = self.catalog.now();
        if making {
            catalog = match self.with_indices(catalog, &plan.alterations, &mut beside) {
                Ok(catalog) => catalog,
                // Who writes there is told.
                Err((index, error)) if plan.writes.iter().any(|write| write.at.index.as_str() == index) => {
                    after.durable = after.durable.max(self.catalog.altered_at());
                    let outcome = |write: &Write| match write.at.index.as_str() == index {
                        true => Outcome::Refused(error.clone()),
                        false => Outcome::Unknown,
                    };
                    return Ok(Carried::Out(plan.writes.iter().map(outcome).collect(), None));
                }
                Err((_, error)) => {
                    after.durable = after.durable.max(self.catalog.altered_at());
                    return Err(error);
                }
            };
        }
        let mut missing = Vec::new();
        let mut seen: FxHashSet<(u32, Key)> = FxHashSet::default();
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(plan.writes.len());
        let mut ready: Vec<(usize, PreparedWrite)> = Vec::with_capacity(plan.writes.len());
        let mut bytes = 512;
        for (n, mut write) in plan.writes.into_iter().enumerate() {
            bytes += match &write.op {
                WriteOp::Put(source) => source.0.len() * 2 + 512,
                _ => 512,
            };
            let judged = catalog
                .write_index(write.at.index.as_str(), write.require_alias, now)
                .and_then(|entry| {
                    check_write(&entry, &write)?;
                    write.at.id = entry.identity(&write.at.id)?;
                    write.routing = entry.routing_through(write.at.index.as_str(), write.routing.take())?;
                    let routing = write.routing.as_deref().or(write.parent.as_deref());
                    entry.check_routing(&write.at.id, routing)?;
                    let key = keys.of(&self.versions, entry.no, &write.at.id);
                    let made = beside
                        .made
                        .iter()
                        .find(|(made, _)| made.no == entry.no)
                        .map(|(_, s)| s.clone());
                    let stripe = self.write_path.stripe_of(key);
                    // Of an index that nobody knows yet nothing needs to be held.
                    if made.is_none() && !held.contains(&stripe) {
                        missing.push(stripe);
                    }
                    if !seen.insert((entry.no, key)) {
                        let id = &write.at.id.id;
                        return Err(Error::illegal(format!("an atomic write has two operations on [{id}]")));
                    }
                    self.judge(&entry, key, write, after, made)
                });
            match judged {
                Ok(Judged::PreparedWrite(one)) => {
                    // A place until it is known that all may be written.
                    outcomes.push(Outcome::Unknown);
                    ready.push((n, *one));
                }
                Ok(Judged::Done(outcome)) => outcomes.push(outcome),
                Err(e) => {
                    if !is_of_the_moment(e.kind()) {
                        after.durable = after.durable.max(self.catalog.altered_at());
                    }
                    outcomes.push(Outcome::Refused(e));
                }
            }
        }
        if !missing.is_empty() {
            return Ok(Carried::Missing(missing));
        }
        let failed = outcomes.iter().any(|o| !matches!(o, Outcome::Unknown | Outcome::Written(_)));
        if failed || (ready.is_empty() && !making) {
            let place = match plan.numbered && !failed {
                true => Some(self.place_of_nothing()?),
                false => None,
            };
            if let (false, Some(then)) = (failed, plan.then) {
                let commit_seq = place.unwrap_or_else(|| self.log.end_position());
                then(&Decision {
                    commit_seq,
                    stamps: &stamps_of(&outcomes, &[], &[]),
                });
            }
            return Ok(Carried::Out(outcomes, place));
        }
        let room = match how.makes_room || deletes {
            true => self.log.reserve_delete(bytes as u64),
            false => self.log.reserve(bytes as u64),
        };
        let mut room = room?.waited_for();
        let growing = !making && ready.iter().any(|(_, ready)| ready.growth.is_some());
        let _growing = growing.then(|| self.catalog.alter_alone());
        if growing {
            for (_, one) in &mut ready {
                self.settle_growth(one)?;
            }
        }
        let unfit = self.settle_together(&mut ready);
        if !unfit.is_empty() {
            unfit.into_iter().for_each(|(n, error)| outcomes[n] = Outcome::Refused(error));
            return Ok(Carried::Out(outcomes, None));
        }
        let (places, all): (Vec<usize>, Vec<PreparedWrite>) = ready.into_iter().unzip();
        numbers.extend(all.iter().map(|ready| ready.entry.no));
        // Only who is told the stamps needs to know what stands where.
        let told = plan.seal.is_some() || plan.then.is_some();
        let known: Arc<[Outcome]> = if told { outcomes.clone().into() } else { Arc::default() };
        let at: Arc<[usize]> = if told { places.clone().into() } else { Arc::default() };
        if let Some((n, seal)) = plan.seal
            && let Some(sealed) = places.iter().position(|place| *place == n)
        {
            let (known, at) = (known.clone(), at.clone());
            let told = move |commit_seq: u64, stamps: &[Stamp]| {
                let stamps = stamps_of(&known, &at, stamps);
                seal(&Decision {
                    commit_seq,
                    stamps: &stamps,
                })
            };
            beside.seal = Some((sealed, Box::new(told)));
        }
        if let Some(then) = plan.then {
            beside.then = Some(Box::new(move |commit_seq, stamps| {
                let stamps = stamps_of(&known, &at, stamps);
                then(&Decision {
                    commit_seq,
                    stamps: &stamps,
                });
            }));
        }
        let working: Vec<(Arc<IndexState>, bool)> = all.iter().map(|one| (one.state.clone(), one.put.is_none())).collect();
        let (written, waits, place) = self.commit(all, beside, &mut room)?;
        let took = share(begun.elapsed(), working.len());
        working.iter().for_each(|(state, deletes)| state.counts.wrote(*deletes, took));
        if how.gate == Gate::Exclusive {
            self.write_path.note_gate_alteration(gate, waits.durable.max(waits.written));
        }
        for (place, outcome) in places.into_iter().zip(written) {
            outcomes[place] = outcome;
        }
        after.also(waits);
        Ok(Carried::Out(outcomes, Some(place)))
    }

    /// The catalog with these indices, or the name of one that cannot be, and why. The caller holds the catalog lock.
    fn with_indices(
        &self,
        catalog: Arc<Catalog>,
        wishes: &[Alteration],
        beside: &mut SideEffects,
    ) -> Result<Arc<Catalog>, (String, Error)> {
        let mut next = catalog.clone();
        for wish in wishes {
            let Alteration::CreateIndex { name, .. } = wish else {
                let error = Error::illegal("a decision may make indices and alter nothing else");
                return Err((String::new(), error));
            };
            let moment = Moment {
                now_ms: self.env.wall_ms(),
                uuid: engine::clock::uuid(self.env.clock()),
                unclean: self.unclean,
            };
            let altered = alter(&next, wish, &moment).map_err(|error| (name.clone(), error))?;
            beside.deltas.extend(altered.deltas);
            next = Arc::new(altered.catalog);
        }
        let end = self.log.end_position();
        for entry in next.indices.values().filter(|entry| catalog.by_no(entry.no).is_none()) {
            beside.made.push((entry.clone(), self.new_state(entry, end, end)));
        }
        beside.catalog = Some(next.clone());
        Ok(next)
    }

    /// The stripe of a document; `None` if there is no such index (yet).
    fn stripe_at(&self, at: &DocAddress, keys: &mut Keys) -> Option<usize> {
        let catalog = self.catalog.load();
        let now = self.env.wall_ms();
        let entry = catalog
            .write_index(at.index.as_str(), false, now)
            .or_else(|_| catalog.read_index(at.index.as_str(), now))
            .ok()?;
        let id = entry.identity(&at.id).ok()?;
        Some(self.write_path.stripe_of(keys.of(&self.versions, entry.no, &id)))
    }
}

enum Carried {
    /// Done or refused; with the place of the record.
    Out(Vec<Outcome>, Option<u64>),
    /// An index appeared meanwhile: these stripes were not held.
    Missing(Vec<usize>),
}

/// The stamp of every write: of those in the record (`at`) what they got, of the others what they have.
fn stamps_of(outcomes: &[Outcome], at: &[usize], given: &[Stamp]) -> Vec<Stamp> {
    let mut out: Vec<Stamp> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Written(written) => written.stamp,
            _ => Stamp::default(),
        })
        .collect();
    for (place, stamp) in at.iter().zip(given) {
        out[*place] = *stamp;
    }
    out
}

/// The keys of the documents of a decision, which are asked for in the same order again and again: what is said to be
/// touched, what is read, what is written.
#[derive(Default)]
struct Keys {
    known: Vec<(u32, DocId, Key)>,
    next: usize,
}

impl Keys {
    /// From here on they are asked for from the first again.
    fn rewind(&mut self) {
        self.next = 0;
    }

    fn of(&mut self, versions: &Versions, no: u32, id: &DocId) -> Key {
        /// A document that comes several times is read and written once.
        const LOOKED_AT: usize = 4;
        let mut ahead = self.known.iter().skip(self.next).take(LOOKED_AT);
        if let Some(at) = ahead.position(|(n, known, _)| *n == no && known == id) {
            self.next += at + 1;
            return self.known[self.next - 1].2;
        }
        let key = versions.key(no, &id.uid());
        if self.next == self.known.len() {
            self.known.push((no, id.clone(), key));
            self.next += 1;
        }
        key
    }
}

struct Reading<'a> {
    store: &'a Store,
    after: WaitFor,
    touched: BTreeSet<usize>,
    keys: &'a mut Keys,
}

impl Newest for Reading<'_> {
    fn read(&mut self, at: &DocAddress, see: See) -> Result<Option<Document>> {
        let catalog = self.store.catalog.now();
        self.rests_on(at.index.as_str());
        let entry = catalog.read_index(at.index.as_str(), self.store.env.wall_ms())?;
        if !entry.open {
            return Err(engine::catalog::closed(&entry.name, &entry.uuid));
        }
        let at = DocAddress {
            index: entry.name.clone(),
            id: entry.identity(&at.id)?,
        };
        let key = self.keys.of(&self.store.versions, entry.no, &at.id);
        self.touched.insert(self.store.write_path.stripe_of(key));
        let here = self.store.newest(&entry, &at, &at.id.uid(), key)?;
        self.after.durable = self.after.durable.max(here.position);
        Ok(here.document.filter(|document| visible(document, see)))
    }

    fn index(&mut self, name: &str) -> Result<WriteIndex> {
        let catalog = self.store.catalog.now();
        self.rests_on(name);
        let entry: Arc<IndexEntry> = catalog.write_index(name, false, self.store.env.wall_ms())?;
        Ok(WriteIndex {
            name: entry.name.clone(),
            uuid: entry.uuid.clone(),
            typed: entry.typed(),
            settings: entry.settings.clone(),
        })
    }

    fn template_settings(&mut self, name: &str) -> Result<Arc<Map<String, Value>>> {
        let catalog = self.store.catalog.now();
        self.rests_on_catalog();
        Ok(Arc::new(crate::catalog::templates::for_index(&catalog, name)?.settings))
    }

    fn identity(&mut self, at: &DocAddress) -> Result<DocId> {
        let catalog = self.store.catalog.now();
        self.rests_on(at.index.as_str());
        catalog
            .write_index(at.index.as_str(), false, self.store.env.wall_ms())?
            .identity(&at.id)
    }

    fn rehearse(&mut self, write: &Write) -> Result<()> {
        let catalog = self.store.catalog.now();
        self.rests_on_catalog();
        let entry = catalog.write_index(write.at.index.as_str(), write.require_alias, self.store.env.wall_ms())?;
        check_write(&entry, write)?;
        let WriteOp::Put(source) = &write.op else { return Ok(()) };
        let doc_type = write.at.id.doc_type.as_deref();
        let options = mapping::ReadOptions {
            id: &write.at.id.id,
            type_name: doc_type.unwrap_or(""),
            routing: write.routing.as_deref(),
            ..mapping::ReadOptions::default()
        };
        entry.mapping_for(doc_type)?.read(&source.parse()?, &options).map(|_| ())
    }
}

impl Reading<'_> {
    /// On what this name means.
    fn rests_on(&mut self, name: &str) {
        self.after.durable = self.after.durable.max(self.store.rests_on([name]));
    }
    /// On templates and mappings as well.
    fn rests_on_catalog(&mut self) {
        self.after.durable = self.after.durable.max(self.store.catalog.altered_at());
    }
}
