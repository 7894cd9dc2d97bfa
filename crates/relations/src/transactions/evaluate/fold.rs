//! Folds the operations of a change: each sees the effect of the earlier ones, each document is written once (T2).
//!
//! Pure but for reading: run inside the engine's critical section, on the newest state. Expectations of versions
//! mean the state before the change; `create`, updates and deletes see the state inside it.
//!
//! Not here: committing, keys.

use super::updates::{Subject, UpdateEffect, UpdateId, UpdateOutcome, Updates};
use crate::leases::guard::Guard;
use crate::leases::place_fields;
use crate::lock_documents::format::LockWrite;
use crate::locks::{LockPath, PlaceFields};
use crate::transactions::NotDone;
use crate::transactions::request::{Change, Condition, Kind, Operation};
use engine::{Alteration, Document, Effect, Expect, Found, Newest, Outcome, See, Source, Write, WriteIndex, WriteOp};
use mapping::tree::Tree;
use mapping::{Times, Timing};
use model::lock_index::LockIndex;
use model::{DocAddress, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The result of folding.
#[derive(Clone, Debug, Default)]
pub(in crate::transactions) struct Folded {
    /// Indices to make.
    pub(in crate::transactions) alterations: Vec<Alteration>,
    /// One for each document that is written.
    pub(in crate::transactions) writes: Vec<Write>,
    /// One for each operation.
    pub(in crate::transactions) steps: Vec<Step>,
    /// One for each operation; empty if all are possible.
    pub(in crate::transactions) failures: Vec<NotDone>,
    /// For each write the last operation that wrote the document.
    pub(in crate::transactions) writers: Vec<usize>,
    /// Writes that later operations made anew: never written, but each must have been possible. With the operation.
    pub(in crate::transactions) superseded: Vec<(usize, Write)>,
    /// Documents among them that are locks, those too that stay as they are.
    pub(in crate::transactions) locks: Vec<LockWrite>,
    /// It has such documents in an index that it makes: that must be there first, for whose lock it is to be known.
    pub(in crate::transactions) locks_to_be: bool,
    /// An update would take too long where it runs: nothing was found out.
    pub(in crate::transactions) too_long: bool,
}

/// The effect of one operation.
#[derive(Clone, Debug)]
pub(in crate::transactions) struct Step {
    pub(in crate::transactions) label: &'static str,
    pub(in crate::transactions) at: DocAddress,
    pub(in crate::transactions) effect: Effect,
    /// The write of its document; `None`: nothing writes it.
    pub(in crate::transactions) place: Option<usize>,
    /// The stamp of a document that is not written.
    pub(in crate::transactions) stamp: Stamp,
    /// If wanted.
    pub(in crate::transactions) source: Option<Source>,
}

/// Does every condition hold? The first that does not, in words. Notes the trees that the answer rests on.
pub(in crate::transactions) fn unmet(
    newest: &mut dyn Newest,
    change: &Change,
    trees: &mut Vec<(IndexName, u64)>,
) -> Result<Option<String>> {
    let directories = change.directories.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    let all = 0..change.conditions.len() + directories.len();
    let numbers = all.filter(|n| !directories.contains(n));
    if let Some(reason) = unmet_of_documents(newest, numbers.zip(&change.conditions))? {
        return Ok(Some(reason));
    }
    for (n, condition) in &change.directories {
        if let Some(reason) = condition.unmet(newest, trees)? {
            return Ok(Some(format!("if[{n}]: {reason}")));
        }
    }
    Ok(None)
}

fn unmet_of_documents<'c>(
    newest: &mut dyn Newest,
    conditions: impl Iterator<Item = (usize, &'c Condition)>,
) -> Result<Option<String>> {
    for (n, condition) in conditions {
        let index = condition.at.index.as_str();
        if crate::schema::is_system(index) {
            let reason = format!("index [{index}] is kept by the server; no change may rest on it");
            return Err(Error::new(ErrorKind::Security, reason));
        }
        let found = match newest.read(&condition.at, See::Plain) {
            Ok(found) => found.map(|document| document.stamp),
            Err(e) if e.kind() == ErrorKind::IndexNotFound => None,
            Err(e) => return Err(e),
        };
        let named = format!("if[{n}]: [{}][{}]", condition.at.index, condition.at.id.id);
        if let Some(wanted) = condition.exists.filter(|wanted| *wanted != found.is_some()) {
            let is = if wanted { "does not exist" } else { "exists" };
            return Ok(Some(format!("{named} {is}")));
        }
        let state = found.map_or(Found::Nothing, Found::Here);
        if condition.expect.check(&condition.at, state).is_err() {
            return Ok(Some(match (condition.expect, found) {
                (_, None) => format!("{named} does not exist"),
                (Expect::Unchanged { seq_no, primary_term }, Some(is)) if is.seq_no == seq_no => {
                    format!("{named} is at primary term [{}], not [{primary_term}]", is.primary_term)
                }
                (Expect::Unchanged { seq_no, .. }, Some(is)) => format!("{named} is at seqNo [{}], not [{seq_no}]", is.seq_no),
                (Expect::Version(version), Some(is)) => format!("{named} is at version [{}], not [{version}]", is.version),
                _ => format!("{named} is not as expected"),
            }));
        }
    }
    Ok(None)
}

/// Folds operations over the newest state.
///
/// # Errors
/// An engine that cannot read. What is wrong with an operation is among the failures.
pub(in crate::transactions) fn fold(
    newest: &mut dyn Newest,
    (operations, otherwise): (&[Operation], bool),
    change: &Change,
    guard: &mut Guard<'_>,
    updates: &mut Updates,
) -> Result<Folded> {
    let mut folding = Folding {
        newest,
        kind: change.kind,
        guard,
        updates,
        otherwise,
        indices: HashMap::new(),
        made: HashMap::new(),
        places: HashMap::with_capacity(operations.len()),
        docs: Vec::with_capacity(operations.len()),
        out: Folded::default(),
    };
    let mut failures: Vec<NotDone> = Vec::with_capacity(operations.len());
    let mut steps: Vec<(usize, Step)> = Vec::with_capacity(operations.len());
    for (n, operation) in operations.iter().enumerate() {
        failures.push(NotDone::NotApplied);
        match folding.one(n, operation)? {
            Ok(step) => steps.push(step),
            Err(failure) => failures[n] = failure,
        }
        if folding.out.too_long {
            return Ok(folding.out);
        }
    }
    // Where documents will be is known only now.
    if steps.len() == operations.len() {
        folding.check_moves(&mut failures)?;
    }
    for (n, write) in &folding.out.superseded {
        match folding.newest.rehearse(write) {
            Err(e) if e.kind() != ErrorKind::IndexNotFound => failures[*n] = NotDone::Refused(e),
            _ => {}
        }
    }
    let failed = failures.iter().any(|failure| !matches!(failure, NotDone::NotApplied));
    if failed || steps.len() < operations.len() {
        let mut out = folding.out;
        out.failures = failures;
        return Ok(out);
    }
    let out = folding.finish(steps, change);
    debug_assert_eq!(out.steps.len(), operations.len(), "each operation has its step");
    Ok(out)
}

/// Assigns what the engine refused to the operations that asked for it.
pub(in crate::transactions) fn refusals(folded: &Folded, outcomes: &[Outcome]) -> Option<Vec<NotDone>> {
    let mut failures: Vec<NotDone> = folded.steps.iter().map(|_| NotDone::NotApplied).collect();
    let mut any = false;
    debug_assert!(
        folded.writers.iter().all(|writer| *writer < failures.len()),
        "each write is of an operation of the change"
    );
    for (outcome, writer) in outcomes.iter().zip(&folded.writers) {
        if let Some(failure) = NotDone::of(outcome) {
            failures[*writer] = failure;
            any = true;
        }
    }
    any.then_some(failures)
}

struct Folding<'a, 'g, 't> {
    newest: &'a mut dyn Newest,
    kind: Kind,
    guard: &'g mut Guard<'t>,
    updates: &'g mut Updates,
    /// It folds the operations of `else`.
    otherwise: bool,
    /// By the name that was used; `None`: missing.
    indices: HashMap<String, Option<(WriteIndex, PlaceFields, LockIndex)>>,
    /// Indices that it makes, by name: their settings, and where their documents are.
    made: HashMap<String, (Arc<Map<String, Value>>, PlaceFields)>,
    places: HashMap<DocAddress, usize>,
    docs: Vec<FoldedDocument>,
    out: Folded,
}

/// One document on its way through the operations.
struct FoldedDocument {
    at: DocAddress,
    before: Option<Stamp>,
    now: Option<Now>,
    /// The last operation that wrote it.
    writer: Option<usize>,
    /// The index by the name that was used.
    index: String,
    /// The only index that the operation is meant for, if it says so.
    index_uuid: Option<Arc<str>>,
    /// Where it was.
    places: Vec<LockPath>,
    /// An external version, for the engine to compare.
    external: Expect,
    /// An operation on it failed: what later ones would see is unknown.
    failed: bool,
    require_alias: bool,
    routing: Option<String>,
    parent: Option<String>,
    /// It is a lock: no other lock guards it, and what becomes of it is looked at in the end.
    lock: Option<LockWrite>,
}

#[derive(Clone)]
struct Now {
    source: Source,
    routing: Option<String>,
    parent: Option<String>,
    timing: Timing,
    /// The stamp of a document that was there before.
    times: Times,
    /// The directories that the paths of its source are those of.
    tree: Option<Arc<Tree>>,
}

impl FoldedDocument {
    fn stamp(&self) -> Stamp {
        self.before.unwrap_or_default()
    }

    /// The one write that its operations come to.
    fn into_write(self) -> Write {
        let mut write = Write::new(self.at, WriteOp::Delete);
        write.require_alias = self.require_alias;
        write.index_uuid = self.index_uuid;
        write.expect = self.external;
        match self.now {
            Some(now) => {
                write.op = WriteOp::Put(now.source);
                write.tree = now.tree;
                (write.routing, write.parent, write.timing) = (now.routing, now.parent, now.timing);
            }
            None => (write.routing, write.parent) = (self.routing, self.parent),
        }
        write
    }
}

impl Folding<'_, '_, '_> {
    /// The result of operations that are all possible: one write for each document that they change. `steps`: each with the
    /// number of its document.
    fn finish(self, steps: Vec<(usize, Step)>, change: &Change) -> Folded {
        let mut out = self.out;
        let mut places = vec![None; self.docs.len()];
        for (n, mut doc) in self.docs.into_iter().enumerate() {
            if let Some(mut lock) = doc.lock.take() {
                lock.noop = doc.writer.is_none();
                lock.after = doc.now.as_ref().map(|now| now.source.clone());
                // A change has locks for many documents; a plain write's are for its own.
                lock.under = match self.kind {
                    Kind::Plain => change.guards.clone(),
                    _ => Vec::new(),
                };
                out.locks.push(lock);
            }
            let Some(writer) = doc.writer else { continue };
            places[n] = Some(out.writes.len());
            out.writes.push(doc.into_write());
            out.writers.push(writer);
        }
        let placed = steps.into_iter().map(|(doc, step)| Step {
            place: places[doc],
            ..step
        });
        out.steps = placed.collect();
        debug_assert_eq!(
            out.writes.len(),
            out.writers.len(),
            "T2: each write has the last operation that made it"
        );
        debug_assert!(
            out.steps
                .iter()
                .all(|step| step.place.is_some() || matches!(step.effect, Effect::Noop)),
            "an operation with an effect is in a write: {:?}",
            out.steps
        );
        out
    }

    fn one(&mut self, n: usize, operation: &Operation) -> Result<Result<(usize, Step), NotDone>> {
        if let Some(error) = &operation.error {
            return Ok(Err(NotDone::Refused(error.clone())));
        }
        let doc = match self.doc(operation)? {
            Ok(doc) => doc,
            Err(error) => return Ok(Err(NotDone::Refused(error))),
        };
        if self.docs[doc].failed {
            return Ok(Err(NotDone::NotApplied));
        }
        let done = self.apply(n, doc, operation);
        self.docs[doc].failed = done.is_err();
        Ok(done.map(|step| (doc, step)))
    }

    /// The document of an operation, read the first time.
    fn doc(&mut self, operation: &Operation) -> Result<Result<usize, Error>> {
        let name = operation.write.at.index.as_str();
        if crate::schema::is_system(name) {
            return Ok(Err(crate::schema::forbidden(name)));
        }
        if !self.indices.contains_key(name) {
            let found = match self.newest.index(name) {
                Ok(index) => match place_fields(&index.settings).and_then(|fields| Ok((fields, LockIndex::of(&index.settings)?)))
                {
                    Ok((fields, locks)) => Some((index, fields, locks)),
                    Err(e) => return Ok(Err(e)),
                },
                Err(e) if e.kind() == ErrorKind::IndexNotFound => None,
                Err(e) => return Ok(Err(e)),
            };
            self.indices.insert(name.to_owned(), found);
        }
        let (at, is_there) = match self.address(operation)? {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let index = self.indices.get(name).and_then(Option::as_ref);
        let place = self.docs.len();
        let first = match self.places.entry(at) {
            Entry::Occupied(earlier) => return Ok(Ok(*earlier.get())),
            Entry::Vacant(first) => first,
        };
        let at = first.key().clone();
        let before = match is_there.then(|| self.newest.read(&at, See::Plain)) {
            Some(Err(error)) if error.kind() == ErrorKind::IndexClosed => return Ok(Err(error)),
            read => read.transpose()?.flatten(),
        };
        first.insert(place);
        let mut doc = FoldedDocument::new(name, at, before);
        doc.index_uuid.clone_from(&operation.write.index_uuid);
        if let Some((index, _, locks)) = index
            && locks.has(doc.at.id.doc_type.as_deref())
        {
            doc.lock = Some(LockWrite::new(&doc.at, index, doc.now.as_ref().map(|now| &now.source)));
        } else if let Err(error) = self.check_place(&mut doc)? {
            doc.failed = true;
            self.docs.push(doc);
            return Ok(Err(error));
        }
        self.docs.push(doc);
        Ok(Ok(place))
    }

    /// The address of an operation's document in the index that its name stands for, and whether that index is there.
    fn address(&mut self, operation: &Operation) -> Result<Result<(DocAddress, bool), Error>> {
        let name = operation.write.at.index.as_str();
        let index = self.indices.get(name).and_then(Option::as_ref);
        if let Some(uuid) = &operation.write.index_uuid
            && index.is_none_or(|(index, ..)| *index.uuid != **uuid)
        {
            return Ok(Err(engine::catalog::index_replaced(name, uuid)));
        }
        let mut at = operation.write.at.clone();
        let is_there = match (index, operation.creates) {
            (Some((index, _, _)), _) => {
                at.index = index.name.clone();
                at.id = match self.newest.identity(&at) {
                    Ok(id) => id,
                    Err(e) => return Ok(Err(e)),
                };
                true
            }
            (None, Some(typed)) if !operation.write.require_alias => {
                if let Err(error) = self.make(name, typed).and_then(|()| self.is_lock_to_be(&at)) {
                    return Ok(Err(error));
                }
                false
            }
            // An earlier operation makes it.
            (None, None) if !operation.write.require_alias && Alteration::makes(&self.out.alterations, name) => {
                if let Err(error) = self.is_lock_to_be(&at) {
                    return Ok(Err(error));
                }
                false
            }
            (None, _) => {
                let reason = if operation.write.require_alias {
                    format!("no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an alias")
                } else {
                    format!("no such index [{name}]")
                };
                let error = Error::new(ErrorKind::IndexNotFound, reason);
                return Ok(Err(error.with("index", name).with("index_uuid", "_na_")));
            }
        };
        Ok(Ok((at, is_there)))
    }

    /// Locks of others refuse a document where it is. One that is to be made has no place yet: whether it is covered shows in the end.
    fn check_place(&mut self, doc: &mut FoldedDocument) -> Result<Result<(), Error>> {
        if self.guard.is_open() {
            return Ok(Ok(()));
        }
        let index = self.indices.get(&doc.index).and_then(Option::as_ref);
        if let Some(((_, fields, _), now)) = index.zip(doc.now.as_ref())
            && !fields.is_unset()
        {
            doc.places = fields.places(&now.source.parse()?)?;
        }
        let settings = match index {
            Some((index, _, _)) => Some(&*index.settings),
            None => self.made.get(&doc.index).map(|(settings, _)| &**settings),
        };
        let covered_later = doc.now.is_none();
        let checked = self.guard.check(settings, &doc.at, &doc.places);
        let refused = checked
            .err()
            .filter(|e| !(covered_later && e.kind() == ErrorKind::LockTarget));
        Ok(refused.map_or(Ok(()), Err))
    }

    /// It makes an index: what its templates say of locks counts already.
    fn make(&mut self, name: &str, typed: bool) -> Result<()> {
        Alteration::make(&mut self.out.alterations, name, typed);
        if !self.made.contains_key(name) {
            let settings = self.newest.template_settings(name)?;
            let fields = place_fields(&settings)?;
            self.made.insert(name.to_owned(), (settings, fields));
        }
        Ok(())
    }

    /// Is it a lock in an index that is only to be made?
    fn is_lock_to_be(&mut self, at: &DocAddress) -> Result<()> {
        let name = at.index.as_str();
        if let Some((settings, _)) = self.made.get(name) {
            self.out.locks_to_be |= LockIndex::of(settings)?.has(at.id.doc_type.as_deref());
        }
        Ok(())
    }

    /// Documents that are somewhere else now: their new places must be allowed as well.
    fn check_moves(&mut self, failures: &mut [NotDone]) -> Result<()> {
        if self.guard.is_open() {
            return Ok(());
        }
        for doc in self.docs.iter().filter(|doc| doc.lock.is_none()) {
            let Some(writer) = doc.writer else { continue };
            let known = match self.indices.get(&doc.index).and_then(Option::as_ref) {
                Some((index, fields, _)) => Some((&*index.settings, fields)),
                None => self.made.get(&doc.index).map(|(settings, fields)| (&**settings, fields)),
            };
            let after = match known.filter(|(_, fields)| !fields.is_unset()).zip(doc.now.as_ref()) {
                Some(((_, fields), now)) => match now.source.parse().and_then(|source| fields.places(&source)) {
                    Ok(after) => after,
                    Err(error) => {
                        failures[writer] = NotDone::Refused(error);
                        continue;
                    }
                },
                None => Vec::new(),
            };
            let moved = !after.is_empty() && after != doc.places;
            if !moved && doc.before.is_some() {
                continue;
            }
            let places: Vec<LockPath> = doc.places.iter().cloned().chain(after).collect();
            let settings = known.map(|(settings, _)| settings);
            if let Err(error) = self.guard.check(settings, &doc.at, &places) {
                failures[writer] = NotDone::Refused(error);
            }
        }
        Ok(())
    }

    fn apply(&mut self, n: usize, place: usize, operation: &Operation) -> Result<Step, NotDone> {
        let write = &operation.write;
        let doc = &mut self.docs[place];
        doc.require_alias |= write.require_alias;
        if let Some(lock) = &mut doc.lock {
            lock.operation = n;
            lock.steps += 1;
            lock.proved |= LockWrite::is_unchanged(write.expect);
            lock.process_id = LockWrite::process_of(&write.op).or_else(|| lock.process_id.take());
        }
        let found = doc.compared_document(self.kind, write.expect).map_err(NotDone::Refused)?;
        write.expect.check(&doc.at, found).map_err(NotDone::Conflict)?;
        let mut step = Step {
            label: operation.label,
            at: doc.at.clone(),
            effect: Effect::Noop,
            place: None,
            stamp: doc.stamp(),
            source: None,
        };
        let next = match &write.op {
            WriteOp::Put(source) => NextState::Now(Now {
                source: source.clone(),
                routing: write.routing.clone(),
                parent: write.parent.clone(),
                timing: write.timing.clone(),
                times: Times::default(),
                tree: None,
            }),
            WriteOp::Delete => {
                (doc.routing, doc.parent) = (write.routing.clone(), write.parent.clone());
                NextState::Gone
            }
            WriteOp::Update(update) => self.update(n, place, write, update)?,
        };
        let doc = &mut self.docs[place];
        let (effect, superseded) = doc.replace(n, next);
        step.effect = effect;
        self.out.superseded.extend(superseded);
        if operation.wants_source {
            step.source = doc.now.as_ref().map(|now| now.source.clone());
        }
        Ok(step)
    }

    /// The state of a document after an update.
    fn update(&mut self, n: usize, place: usize, write: &Write, update: &engine::Update) -> Result<NextState, NotDone> {
        let doc = &self.docs[place];
        let now = doc.now.as_ref();
        let routing = write.routing.clone().or_else(|| now?.routing.clone());
        let parent = write.parent.clone().or_else(|| now?.parent.clone());
        let uuid = self.indices.get(&doc.index).and_then(Option::as_ref);
        let which = UpdateId {
            otherwise: self.otherwise,
            operation: n,
            at: doc.at.clone(),
            uuid: uuid.map(|(index, _, _)| index.uuid.to_string()),
            before: doc.before.map(|stamp| (stamp.seq_no, stamp.primary_term)),
            moved: now.and_then(|now| now.tree.as_ref()).map_or(0, |tree| tree.last_move_seq()),
        };
        let times = now.map_or_else(Times::default, |now| now.times);
        let subject = Subject {
            source: now.map(|now| &now.source),
            stamp: doc.stamp(),
            routing: routing.as_deref(),
            times,
            timing: write.timing.clone(),
        };
        let UpdateOutcome::Done(evaluated) = self.updates.evaluate(which, update, subject) else {
            self.out.too_long = true;
            return Err(NotDone::NotApplied);
        };
        Ok(match evaluated.map_err(NotDone::Refused)? {
            (UpdateEffect::Put(source), timing) => NextState::Now(Now {
                source,
                routing,
                parent,
                timing,
                times,
                tree: now.and_then(|now| now.tree.clone()),
            }),
            (UpdateEffect::Delete, _) => NextState::Gone,
            (UpdateEffect::Noop, _) => NextState::Same,
        })
    }
}

/// The state of a document after an operation.
enum NextState {
    Same,
    Gone,
    Now(Now),
}

impl FoldedDocument {
    /// The document that the condition of an operation is compared with.
    fn compared_document(&mut self, kind: Kind, expect: Expect) -> Result<Found> {
        Ok(match expect {
            Expect::NewerThan { .. } | Expect::AbsentAt { .. } if kind == Kind::Plain => {
                self.external = expect;
                Found::Nothing
            }
            Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_) => {
                let reason = "external versions are not supported inside a change: use [if_seq_no] and [if_primary_term]";
                return Err(Error::illegal(reason));
            }
            Expect::Version(0) => return Err(Error::illegal("illegal version value [0] for version type [INTERNAL]")),
            // Inside: what earlier operations left counts.
            Expect::Absent | Expect::Present | Expect::Anything if self.now.is_some() => Found::Here(self.stamp()),
            Expect::Absent | Expect::Present | Expect::Anything => Found::Nothing,
            Expect::Unchanged { .. } | Expect::Version(_) => self.before.map_or(Found::Nothing, Found::Here),
        })
    }

    /// Operation `n` puts `next` in the place of the document. The effect, and the write of an earlier operation that counts no more.
    fn replace(&mut self, n: usize, next: NextState) -> (Effect, Option<(usize, Write)>) {
        let next = match next {
            NextState::Same => return (Effect::Noop, None),
            NextState::Gone => None,
            NextState::Now(now) => Some(now),
        };
        let effect = match (self.now.is_some(), next.is_some()) {
            (true, true) => Effect::Updated,
            (false, true) => Effect::Created,
            (true, false) => Effect::Deleted,
            (false, false) => Effect::NotFound,
        };
        let superseded = self.writer.zip(self.now.take()).map(|(earlier, old)| {
            let mut rehearsed = Write::new(self.at.clone(), WriteOp::Put(old.source));
            (rehearsed.routing, rehearsed.parent, rehearsed.timing) = (old.routing, old.parent, old.timing);
            (earlier, rehearsed)
        });
        self.now = next;
        self.writer = Some(n);
        (effect, superseded)
    }

    fn new(index: &str, at: DocAddress, before: Option<Document>) -> FoldedDocument {
        FoldedDocument {
            index: index.to_owned(),
            index_uuid: None,
            places: Vec::new(),
            external: Expect::Anything,
            at,
            before: before.as_ref().map(|document| document.stamp),
            now: before.map(|document| Now {
                source: document.source,
                routing: document.routing,
                parent: document.parent,
                timing: Timing::keep(document.times),
                times: document.times,
                tree: document.tree,
            }),
            writer: None,
            failed: false,
            require_alias: false,
            routing: None,
            parent: None,
            lock: None,
        }
    }
}
