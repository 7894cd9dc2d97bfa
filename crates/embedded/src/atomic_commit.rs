//! Decisions: a plan that reads and writes several documents in one critical section, as one record.
//!
//! Order of locks: gate → stripes of the documents touched (ascending) → catalog (if an index is made or a mapping
//! grows) → sequencer. The plan runs under the stripes; what it touched beyond them is locked too and it runs
//! again, so that in the end everything it rests on is held from its first read to the record's place in the log.
//!
//! Not here: making the plan (`relations`), waiting for the disk (`lib`), evaluating one write (`evaluate`), stamps (`commit`).

use crate::catalog::alter::{Moment, alter};
use crate::catalog::{Catalog, IndexEntry};
use crate::commit::{SideEffects, Uncommitted};
use crate::counts::share;
use crate::current_document::{CurrentDocument, CurrentDocuments};
use crate::document_key::Key;
use crate::durability::is_of_the_moment;
use crate::evaluate::{Evaluated, evaluate, visible};
use crate::index_state::IndexState;
use crate::lock_order::{LockRank, is_held};
use crate::log::{Reservation, WriteStart};
use crate::prepared_write::CommitItem;
use crate::resolved_write::{ResolvedWrite, log_bytes};
use crate::store::Store;
use crate::tree_record::MOVE_BYTES;
use crate::trees::Trees;
use crate::versions::Versions;
use crate::wait_for::WaitFor;
use crate::write_path::{GateGuard, STRIPES};
use engine::{
    Alteration, Decision, DirectoryAt, DirectoryNow, Document, Expect, Gate, Looker, Newest, Outcome, Plan, See, TreeChange,
    TxnBody, TxnOptions, Write, WriteIndex, WriteOp,
};
use model::{DocAddress, DocId, Error, IndexName, Result, Stamp};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

/// After so many runs of a plan that always touches something else, everything is locked.
const RUNS_MAX: usize = 3;

/// The state of a decision before the disk has it.
pub(crate) struct AtomicCommit {
    /// One for each write.
    pub(crate) outcomes: Result<Vec<Outcome>>,
    /// The answer waits for it.
    pub(crate) after: WaitFor,
    /// Indices written to.
    pub(crate) numbers: Vec<u32>,
    /// Indices whose directories moved.
    pub(crate) moved: Vec<u32>,
    /// The place of the record, if there is one.
    pub(crate) place: Option<u64>,
}

impl Store {
    /// All of the plan's writes or none.
    pub(crate) fn decide(&self, plan: &mut TxnBody<'_>, how: &TxnOptions) -> AtomicCommit {
        let gate = self.write_path.pass_gate(how.gate);
        let mut run = DecisionRun {
            store: self,
            gate: &gate,
            how,
            keys: Keys::default(),
            after: WaitFor::default(),
            numbers: Vec::new(),
            moved: Vec::new(),
            place: None,
        };
        if how.gate != Gate::None {
            // Tables that were altered in memory before rest on a record that may not be durable yet.
            run.after.durable = self.write_path.gate_altered_to();
        }
        let outcomes = run.plan_and_commit(plan);
        AtomicCommit {
            outcomes,
            after: run.after,
            numbers: run.numbers,
            moved: run.moved,
            place: run.place,
        }
    }

    /// Reads for a caller who holds nothing.
    pub(crate) fn look(&self, look: &mut Looker<'_>) {
        look(&mut Reading {
            store: self,
            after: WaitFor::default(),
            touched: BTreeSet::new(),
            keys: &mut Keys::default(),
        });
    }

    /// The catalog with these indices, or the name of one that cannot be, and why. The caller holds the catalog lock.
    fn with_indices(
        &self,
        catalog: Arc<Catalog>,
        alterations: &[Alteration],
        beside: &mut SideEffects,
    ) -> Result<Arc<Catalog>, (String, Error)> {
        let mut next = catalog.clone();
        for alteration in alterations {
            let Alteration::CreateIndex { name, .. } = alteration else {
                let error = Error::illegal("a decision may make indices and alter nothing else");
                return Err((String::new(), error));
            };
            let moment = Moment {
                now_ms: self.env.wall_ms(),
                uuid: engine::clock::uuid(self.env.clock()),
                unclean: self.unclean,
            };
            let altered = alter(&next, alteration, &moment).map_err(|error| (name.clone(), error))?;
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

    /// The directories that a plan changes, and the trees that it rests on, by the numbers of their indices.
    fn resolve_trees(
        &self,
        moves: Vec<TreeChange>,
        rests_on: &[(IndexName, u64)],
        catalog: &Catalog,
        beside: &mut SideEffects,
    ) -> Result<()> {
        let moves = moves.into_iter().map(|change| self.resolve_move(catalog, change));
        beside.moves = moves.collect::<Result<_>>()?;
        let number = |(index, moved): &(IndexName, u64)| -> Result<(u32, u64)> {
            let entry = catalog.write_index(index.as_str(), false, self.env.wall_ms())?;
            Ok((entry.no, *moved))
        };
        beside.rests_on = rests_on.iter().map(number).collect::<Result<_>>()?;
        Ok(())
    }

    /// Room in the log for a record. One that makes room may take what is kept for deletes.
    fn reserve_room(&self, bytes: u64, makes_room: bool) -> Result<Reservation> {
        let reservation = match makes_room {
            true => self.log.reserve_delete(bytes),
            false => self.log.reserve(bytes),
        }?;
        Ok(reservation.with_start(WriteStart::Waiter))
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

/// One decision under way.
struct DecisionRun<'a> {
    store: &'a Store,
    gate: &'a GateGuard<'a>,
    how: &'a TxnOptions,
    keys: Keys,
    after: WaitFor,
    numbers: Vec<u32>,
    moved: Vec<u32>,
    place: Option<u64>,
}

/// The writes of a plan as they were evaluated.
struct EvaluatedPlan {
    /// One for each write; `Unknown` stands for one that is to be written.
    outcomes: Vec<Outcome>,
    /// Writes that go into the record, by their number in the plan.
    items: Vec<(usize, CommitItem)>,
    /// Stripes of documents that are not held: an index appeared meanwhile.
    missing: Vec<usize>,
    log_bytes: u64,
}

enum Attempt {
    /// Done or refused.
    Over(Vec<Outcome>),
    /// These stripes were not held, or a directory has moved since the plan looked.
    Missing(Vec<usize>),
}

impl DecisionRun<'_> {
    fn plan_and_commit(&mut self, plan: &mut TxnBody<'_>) -> Result<Vec<Outcome>> {
        let (store, how) = (self.store, self.how);
        let touches = how.touches.iter();
        let mut wanted: BTreeSet<usize> = touches.filter_map(|at| store.stripe_at(at, &mut self.keys)).collect();
        for run in 0.. {
            if run >= RUNS_MAX {
                wanted = (0..STRIPES).collect();
            }
            let _held = store.write_path.lock_stripes(&wanted);
            self.keys.rewind();
            let mut reader = Reading {
                store,
                after: self.after,
                touched: BTreeSet::new(),
                keys: &mut self.keys,
            };
            let planned = plan(&mut reader);
            self.after = reader.after;
            let mut touched = reader.touched;
            self.keys.rewind();
            if let Ok(planned) = &planned {
                let writes = planned.writes.iter();
                touched.extend(writes.filter_map(|write| store.stripe_at(&write.at, &mut self.keys)));
            }
            if !touched.is_subset(&wanted) {
                wanted.extend(touched);
                continue;
            }
            let planned = planned?;
            if planned.writes.is_empty() && planned.alterations.is_empty() && planned.moves.is_empty() {
                return self.reply(planned);
            }
            self.keys.rewind();
            match self.commit(planned, &wanted)? {
                Attempt::Over(outcomes) => return Ok(outcomes),
                Attempt::Missing(stripes) => wanted.extend(stripes),
            }
        }
        unreachable!("with every stripe held none is missing")
    }

    /// A plan that writes nothing.
    fn reply(&mut self, plan: Plan) -> Result<Vec<Outcome>> {
        let reveals_nothing = plan.reveals_nothing;
        self.end_without_record(plan.numbered, plan.then, &[])?;
        if reveals_nothing {
            self.after = WaitFor::default();
        }
        Ok(Vec::new())
    }

    /// Tells a plan without a record its place among all changes.
    fn end_without_record(&mut self, numbered: bool, then: Option<engine::Then>, outcomes: &[Outcome]) -> Result<()> {
        if numbered {
            self.place = Some(self.store.place_of_nothing()?);
        }
        if let Some(then) = then {
            let commit_seq = self.place.unwrap_or_else(|| self.store.log.end_position());
            then(&Decision {
                commit_seq,
                stamps: &stamps_of(outcomes, &[], &[]),
                moves: &[],
            });
        }
        Ok(())
    }

    /// Evaluates the writes of a plan, and commits them if all are good. The stripes are held.
    fn commit(&mut self, plan: Plan, held: &BTreeSet<usize>) -> Result<Attempt> {
        let store = self.store;
        debug_assert!(
            self.how.gate == Gate::None || is_held(LockRank::Gate),
            "transactions.md T16: the gate is held from the check of the locks to the place in the log"
        );
        // Plans that only read are answered also while nothing can be written.
        let makes_room = self.check_room(&plan)?;
        let begun = Instant::now();
        let making = !plan.alterations.is_empty();
        let _altering = making.then(|| store.catalog.alter_alone());
        let mut beside = SideEffects {
            is_change: !self.how.plain,
            ..SideEffects::default()
        };
        let mut catalog: Arc<Catalog> = store.catalog.now();
        if making {
            catalog = match store.with_indices(catalog, &plan.alterations, &mut beside) {
                Ok(catalog) => catalog,
                Err((index, error)) => return self.refuse_writes_to(&plan.writes, &index, error),
            };
        }
        let count = plan.writes.len();
        let EvaluatedPlan {
            mut outcomes,
            mut items,
            missing,
            log_bytes,
        } = self.evaluate_all(plan.writes, &catalog, &beside.made, held);
        assert_eq!(
            outcomes.len(),
            count,
            "transactions.md T2: each write of a plan has its outcome, in order"
        );
        debug_assert!(
            items.is_sorted_by(|(one, _), (next, _)| one < next),
            "transactions.md T2: the writes of a record stand in the order of the plan"
        );
        if !missing.is_empty() {
            return Ok(Attempt::Missing(missing));
        }
        if outcomes.iter().any(|o| !matches!(o, Outcome::Unknown | Outcome::Written(_))) {
            return Ok(Attempt::Over(outcomes));
        }
        store.resolve_trees(plan.moves, &plan.trees, &catalog, &mut beside)?;
        if items.is_empty() && !making && beside.moves.is_empty() {
            self.end_without_record(plan.numbered, plan.then, &outcomes)?;
            return Ok(Attempt::Over(outcomes));
        }
        let log_bytes = log_bytes + MOVE_BYTES * beside.moves.len() as u64;
        let mut room = store.reserve_room(log_bytes, makes_room)?;
        let growing = !making && items.iter().any(|(_, item)| item.write.growth.is_some());
        let _growing = growing.then(|| store.catalog.alter_alone());
        if growing {
            for (_, item) in &mut items {
                store.settle_growth(&mut item.write)?;
            }
        }
        let unfit = store.settle_together(&mut items);
        if !unfit.is_empty() {
            unfit.into_iter().for_each(|(n, error)| outcomes[n] = Outcome::Refused(error));
            return Ok(Attempt::Over(outcomes));
        }
        debug_assert!(
            items.iter().all(|(n, _)| matches!(outcomes[*n], Outcome::Unknown)),
            "transactions.md T2: a write is placed once, and has no outcome before"
        );
        let (places, items): (Vec<usize>, Vec<CommitItem>) = items.into_iter().unzip();
        self.numbers.extend(items.iter().map(|item| item.write.entry.no));
        self.moved = beside.moves.iter().map(|one| one.entry.no).collect();
        tell_stamps(&mut beside, plan.seal, plan.then, &outcomes, &places);
        let Some(written) = self.commit_items(items, beside, &mut room, begun)? else {
            return Ok(Attempt::Missing(Vec::new()));
        };
        assert_eq!(
            written.len(),
            places.len(),
            "1.2: each write that has its stamp has its outcome"
        );
        for (place, outcome) in places.into_iter().zip(written) {
            outcomes[place] = outcome;
        }
        Ok(Attempt::Over(outcomes))
    }

    /// Checks that the plan may be written now. True: it makes room, so it may where nothing else can.
    fn check_room(&self, plan: &Plan) -> Result<bool> {
        let deletes = plan.alterations.is_empty()
            && plan.moves.iter().all(TreeChange::removes)
            && plan.writes.iter().all(|write| matches!(write.op, WriteOp::Delete));
        let makes_room = self.how.makes_room || deletes;
        match makes_room {
            true => self.store.check_deletable()?,
            false => self.store.check_writable()?,
        }
        Ok(makes_room)
    }

    /// An index that a plan makes cannot be: the writes to it are refused. Without such a write the whole plan is.
    fn refuse_writes_to(&mut self, writes: &[Write], index: &str, error: Error) -> Result<Attempt> {
        // The refusal rests on names that may not be durable yet.
        self.after.durable = self.after.durable.max(self.store.catalog.alteration_end());
        let is_there = |write: &Write| write.at.index.as_str() == index;
        if !writes.iter().any(is_there) {
            return Err(error);
        }
        let outcome = |write: &Write| match is_there(write) {
            true => Outcome::Refused(error.clone()),
            false => Outcome::Unknown,
        };
        Ok(Attempt::Over(writes.iter().map(outcome).collect()))
    }

    /// Writes the record. The outcomes of the items, in their order; `None`: a directory that the plan rests on has moved.
    fn commit_items(
        &mut self,
        items: Vec<CommitItem>,
        beside: SideEffects,
        room: &mut Reservation,
        begun: Instant,
    ) -> Result<Option<Vec<Outcome>>> {
        let store = self.store;
        let working: Vec<(Arc<IndexState>, bool)> = items
            .iter()
            .map(|item| (item.state.clone(), item.write.put.is_none()))
            .collect();
        let committed = match store.commit(items, beside, room) {
            Err(Uncommitted::HasMoved) => {
                (self.numbers, self.moved) = (Vec::new(), Vec::new());
                return Ok(None);
            }
            Err(Uncommitted::Failed(error)) => return Err(error),
            Ok(committed) => committed,
        };
        let took = share(begun.elapsed(), working.len());
        working
            .iter()
            .for_each(|(state, deletes)| state.counts().wrote(*deletes, took));
        let waits = committed.after;
        if self.how.gate == Gate::Exclusive {
            store
                .write_path
                .note_gate_alteration(self.gate, waits.durable.max(waits.written));
        }
        self.after.also(waits);
        self.place = Some(committed.position);
        Ok(Some(committed.outcomes))
    }

    /// Evaluates each write on the newest documents. Nothing changes. `made`: indices that this very record makes.
    fn evaluate_all(
        &mut self,
        writes: Vec<Write>,
        catalog: &Catalog,
        made: &[(Arc<IndexEntry>, Arc<IndexState>)],
        held: &BTreeSet<usize>,
    ) -> EvaluatedPlan {
        let (store, now) = (self.store, self.store.env.wall_ms());
        let mut seen: FxHashSet<(u32, Key)> = FxHashSet::default();
        let mut out = EvaluatedPlan {
            outcomes: Vec::with_capacity(writes.len()),
            items: Vec::with_capacity(writes.len()),
            missing: Vec::new(),
            log_bytes: 512,
        };
        for (n, write) in writes.into_iter().enumerate() {
            let evaluated = ResolvedWrite::find(catalog, write, now).and_then(|resolved| {
                let no = resolved.entry.no;
                let key = self.keys.of(&store.versions, no, &resolved.at.id);
                let made = made.iter().find(|(made, _)| made.no == no).map(|(_, state)| state.clone());
                let stripe = store.write_path.stripe_of(key);
                // In an index that nobody knows yet nothing needs to be held.
                if made.is_none() && !held.contains(&stripe) {
                    out.missing.push(stripe);
                }
                if !seen.insert((no, key)) {
                    let id = &resolved.at.id.id;
                    return Err(Error::illegal(format!("an atomic write has two operations on [{id}]")));
                }
                store.prepare_write(resolved, key, made, &mut self.after)
            });
            out.outcomes.push(match evaluated {
                Ok((state, Evaluated::Write(write))) => {
                    // Counted when it is evaluated: an update may make a large document of a small one.
                    out.log_bytes += log_bytes(&write.uid, write.put.as_ref().map(|put| &*put.source));
                    out.items.push((n, CommitItem { write: *write, state }));
                    // Until it is known that all may be written.
                    Outcome::Unknown
                }
                Ok((_, Evaluated::Done(outcome))) => outcome,
                Err(e) => {
                    if !is_of_the_moment(e.kind()) {
                        self.after.durable = self.after.durable.max(store.catalog.alteration_end());
                    }
                    Outcome::Refused(e)
                }
            });
        }
        out
    }
}

/// Has the plan's own steps told the stamps of all its writes. `places`: the numbers of those in the record.
fn tell_stamps(
    beside: &mut SideEffects,
    seal: Option<(usize, engine::Seal)>,
    then: Option<engine::Then>,
    outcomes: &[Outcome],
    places: &[usize],
) {
    // Only who is told the stamps needs to know what stands where.
    if seal.is_none() && then.is_none() {
        return;
    }
    let (known, at): (Arc<[Outcome]>, Arc<[usize]>) = (outcomes.into(), places.into());
    if let Some((n, seal)) = seal
        && let Some(sealed) = places.iter().position(|place| *place == n)
    {
        let (known, at) = (known.clone(), at.clone());
        let source = move |commit_seq: u64, stamps: &[Stamp]| {
            let stamps = &stamps_of(&known, &at, stamps);
            seal(&Decision {
                commit_seq,
                stamps,
                moves: &[],
            })
        };
        beside.seal = Some((sealed, Box::new(source)));
    }
    if let Some(then) = then {
        beside.then = Some(Box::new(move |commit_seq, stamps, moves| {
            let stamps = &stamps_of(&known, &at, stamps);
            then(&Decision {
                commit_seq,
                stamps,
                moves,
            });
        }));
    }
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
    debug_assert!(
        given.is_empty() || given.len() == at.len(),
        "1.2: each write that is placed has its stamp"
    );
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
            return Err(engine::catalog::index_closed(&entry.name, &entry.uuid));
        }
        let at = DocAddress {
            index: entry.name.clone(),
            id: entry.identity(&at.id)?,
        };
        let document = self.document(&entry, &at)?;
        Ok(document.filter(|document| visible(document, see)))
    }

    fn index(&mut self, name: &str) -> Result<WriteIndex> {
        let catalog = self.store.catalog.now();
        self.rests_on(name);
        let entry: Arc<IndexEntry> = catalog.write_index(name, false, self.store.env.wall_ms())?;
        Ok(WriteIndex {
            name: entry.name.clone(),
            uuid: entry.uuid.as_str().into(),
            typed: entry.has_types(),
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

    fn directory(&mut self, of: &DirectoryAt, alone: bool) -> Result<DirectoryNow> {
        let catalog = self.store.catalog.now();
        self.rests_on(&of.index);
        let entry = catalog.write_index(&of.index, false, self.store.env.wall_ms())?;
        if alone {
            self.touched.extend(0..STRIPES);
        }
        let (now, position) = self.store.directory_now(&entry, of, alone)?;
        self.after.durable = self.after.durable.max(position);
        Ok(now)
    }

    fn rehearse(&mut self, write: &Write) -> Result<()> {
        let catalog = self.store.catalog.now();
        self.rests_on_catalog();
        let write = Write {
            expect: Expect::Anything,
            ..write.clone()
        };
        let resolved = ResolvedWrite::find(&catalog, write, self.store.env.wall_ms())?;
        if !matches!(resolved.write.op, WriteOp::Put(_)) {
            return Ok(());
        }
        let key = self.keys.of(&self.store.versions, resolved.entry.no, &resolved.at.id);
        let store = self.store;
        evaluate(
            resolved,
            key,
            &WithoutItself(RefCell::new(self)),
            (&store.env, &Trees::default()),
        )
        .map(drop)
    }
}

/// The documents of a decision for a write that a later one of the same decision replaces: its own document is not the one
/// that the store has.
struct WithoutItself<'a, 'r>(RefCell<&'a mut Reading<'r>>);

impl CurrentDocuments for WithoutItself<'_, '_> {
    fn current(&self, _: &IndexEntry, _: &DocAddress, _: &str, _: Key) -> Result<CurrentDocument> {
        Ok(CurrentDocument::nothing())
    }
    fn parent(&self, entry: &IndexEntry, at: &DocAddress) -> Result<Option<Document>> {
        self.0.borrow_mut().document(entry, at)
    }
}

impl Reading<'_> {
    /// The newest document, whoever may see it. Its stripe is to be held, and the answer rests on it.
    fn document(&mut self, entry: &IndexEntry, at: &DocAddress) -> Result<Option<Document>> {
        let key = self.keys.of(&self.store.versions, entry.no, &at.id);
        self.touched.insert(self.store.write_path.stripe_of(key));
        let current = self.store.newest(entry, at, &at.id.uid(), key)?;
        self.after.durable = self.after.durable.max(current.position);
        Ok(current.document)
    }
    /// On what this name means.
    fn rests_on(&mut self, name: &str) {
        self.after.durable = self.after.durable.max(self.store.rests_on([name]));
    }
    /// On templates and mappings as well.
    fn rests_on_catalog(&mut self) {
        self.after.durable = self.after.durable.max(self.store.catalog.alteration_end());
    }
}
