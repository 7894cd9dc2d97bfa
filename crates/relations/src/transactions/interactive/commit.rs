//! Deciding a transaction: has anything moved, do the locks hold, then one record with all of it and its outcome.

use super::registry::{Began, OpenTransaction, TransactionState, Wrote};
use crate::atomically::{Refused, Step, TIMEOUT, Transaction as Decided};
use crate::intents::{Token, origin};
use crate::leases::guard::{Guard, check_linked};
use crate::leases::place_fields;
use crate::links::States;
use crate::locks::LockPath;
use crate::schema;
use crate::transactions::{Committed, Item, Key, NotDone};
use async_recursion::async_recursion as boxed;
use engine::{
    Alteration, Decision, Document, Effect, Gate, Newest, Outcome, Plan, Read, Refresh, See, Source, Staged, StagedIndex,
    TxnOptions, Write, WriteIndex, WriteOp, Written,
};
use model::lock_index::LockIndex;
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Stamp};
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The result of a commit.
#[derive(Debug)]
pub enum Finished {
    /// All of it is done and durable: one item for each document that was written.
    Committed(Committed),
    /// Nothing is, because of these; the transaction is over.
    Moved(Vec<Moved>),
    /// Nothing is, because these cannot be written any more; the transaction is as it was.
    Failed(Vec<(DocAddress, NotDone)>),
}

/// A document that is not as the transaction began with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Which.
    pub at: DocAddress,
    /// The transaction writes it; else it read it.
    pub written: bool,
    /// The state that it began with.
    pub began: Option<Stamp>,
    /// The newest state.
    pub found: Option<Stamp>,
    /// Its index is not the one that it was.
    pub index: bool,
}

impl crate::Relations {
    /// Commits a transaction. What is committed is answered again for a day, also after a restart.
    ///
    /// # Errors
    /// It is not open and was not committed; a lock that is not alive or a foreign one; an engine that cannot.
    #[boxed]
    pub async fn commit_held(&self, id: &str, refresh: Refresh) -> Result<Finished> {
        let transaction = match self.open_transaction(id).await {
            Ok(transaction) => transaction,
            Err(e) => return self.again(id, e).await,
        };
        let _turn = transaction.turn.lock().await;
        if let Err(e) = self.check_open(&transaction) {
            return self.again(id, e).await;
        }
        let staged = self.staging()?.staged_documents(&transaction.view).await?;
        let done = {
            let _committing = CommittingNow::begin(&transaction);
            self.commit_staged(&transaction, staged, refresh).await
        };
        transaction.facts().used = self.clock.monotonic();
        let done = done?;
        match &done {
            Finished::Committed(committed) => {
                self.end_held(&transaction, TransactionState::Committed(committed.commit_seq))
                    .await?;
            }
            Finished::Moved(moved) => {
                let why = format!("[{}] documents had moved when it was to be committed", moved.len());
                self.end_held(&transaction, TransactionState::Aborted(why)).await?;
            }
            Finished::Failed(_) => {}
        }
        Ok(done)
    }

    /// The answer of a commit that was done before.
    async fn again(&self, id: &str, refusal: Error) -> Result<Finished> {
        match self.kept_outcome(&Key::of_transaction(id)).await? {
            Some(committed) => Ok(Finished::Committed(committed)),
            None => Err(refusal),
        }
    }

    /// The outcome that is kept under a key, whatever request it was of.
    pub(super) async fn kept_outcome(&self, key: &Key) -> Result<Option<Committed>> {
        let mut at = key.at();
        // A reference is not referred to.
        for _ in 0..2 {
            let read = Read {
                see: See::Everything,
                ..Read::whole(at)
            };
            let found = match self.engine.read(vec![read]).await {
                Err(e) if e.kind() == ErrorKind::IndexNotFound => return Ok(None),
                found => found?.pop().flatten(),
            };
            let Some(document) = found else { return Ok(None) };
            match Key::reference_of(&document.source)? {
                Some(other) => at = other,
                None => return Key::outcome(&document.source, self.kept_now()),
            }
        }
        Ok(None)
    }

    /// By either path it is one decision, for the engine that stages has a critical section. By the portable path it waits until
    /// no change has a mark on what it read and writes, and is numbered as changes are: by the control index, where the
    /// document that keeps its outcome has its place.
    async fn commit_staged(&self, transaction: &OpenTransaction, staged: Vec<Staged>, refresh: Refresh) -> Result<Finished> {
        let own = Key::of_transaction(&transaction.id);
        let mut committing = {
            let facts = transaction.facts();
            Committing {
                relations: self,
                locks: facts.locks.iter().map(|(id, _)| id.to_string()).collect(),
                reads: facts.reads.iter().map(|(at, began)| (at.clone(), began.clone())).collect(),
                written: facts.written.clone(),
                staged,
                own: &own,
                key: transaction.key.as_ref(),
                kept_now: self.kept_now(),
                refresh,
            }
        };
        let done = self.atomically(&mut committing).await?;
        if let Some(finished) = done.answer {
            return Ok(finished);
        }
        let net: Vec<Net> = committing.net().collect();
        let mut items = items(&net, &done.stamps);
        for item in &mut items {
            item.written.forced_refresh = refresh == Refresh::Now;
        }
        let commit_seq = match &self.portable {
            None => done.commit_seq,
            Some(portable) => {
                let commit_seq = commit_seq_of(&done.stamps);
                portable.note_commit(commit_seq);
                commit_seq
            }
        };
        Ok(Finished::Committed(Committed {
            commit_seq,
            otherwise: false,
            moved: Vec::new(),
            items,
            replayed: false,
            warnings: Vec::new(),
        }))
    }
}

/// While it lives the transaction does not end by itself.
struct CommittingNow<'a>(&'a OpenTransaction);

impl<'a> CommittingNow<'a> {
    fn begin(transaction: &'a OpenTransaction) -> CommittingNow<'a> {
        transaction.facts().committing = true;
        CommittingNow(transaction)
    }
}

impl Drop for CommittingNow<'_> {
    fn drop(&mut self) {
        self.0.facts().committing = false;
    }
}

/// One commit, as its plan needs it.
struct Committing<'a> {
    relations: &'a crate::Relations,
    locks: Vec<String>,
    reads: Vec<(DocAddress, Began)>,
    written: HashMap<DocAddress, Wrote>,
    staged: Vec<Staged>,
    own: &'a Key,
    key: Option<&'a Key>,
    /// By the time of kept outcomes.
    kept_now: i64,
    refresh: Refresh,
}

/// A document that the commit writes.
#[derive(Clone)]
struct Net<'a> {
    staged: &'a Staged,
    label: &'static str,
    effect: Effect,
}

/// An index that was looked up; `None`: there is none.
type Index = Option<WriteIndex>;

impl Decided for Committing<'_> {
    /// `None`: all that is staged is written.
    type Answer = Option<Finished>;

    fn options(&self) -> TxnOptions {
        TxnOptions {
            touches: self.touches(),
            gate: Gate::Shared,
            refresh: self.refresh,
            plain: false,
            makes_room: false,
        }
    }

    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<Option<Finished>>> {
        self.plan(newest)
    }

    fn on_refusal(&mut self, outcomes: &[Outcome]) -> Result<Refused<Option<Finished>>> {
        if self.relations.portable.is_some() && outcomes.iter().any(|outcome| matches!(outcome, Outcome::Held(_))) {
            return Err(held_for_too_long());
        }
        let net: Vec<Net> = self.net().collect();
        assert!(net.len() <= outcomes.len(), "T2: each write of the transaction was tried");
        let tried = net.iter().zip(outcomes);
        let failed: Vec<_> = tried
            .filter_map(|(net, outcome)| Some((net.staged.at.clone(), NotDone::of(outcome)?)))
            .collect();
        if !failed.is_empty() {
            return Ok(Refused::Reply(Some(Finished::Failed(failed))));
        }
        for outcome in outcomes.iter().skip(net.len()) {
            if let Outcome::Refused(error) = outcome {
                return Err(error.clone());
            }
        }
        Err(self.unknown())
    }

    fn unknown(&self) -> Error {
        let reason = "the outcome of the transaction is unknown: the log failed; ask for it once more after a restart";
        Error::new(ErrorKind::LogFailed, reason).with("outcome", "unknown")
    }

    fn check_linked(&self, index: &WriteIndex, at: &DocAddress, states: &States<'_>) -> Result<()> {
        let guard = Guard::new(&self.relations.locks, &self.relations.clock, &self.locks, true)?;
        check_linked(guard, index, at, states)
    }
}

fn held_for_too_long() -> Error {
    let reason =
        format!("changes of the same documents did not end within {TIMEOUT:?}; nothing was changed, and the transaction is open");
    Error::new(ErrorKind::Timeout, reason)
}

/// The write of a staged document over the one that is there.
fn write_of(staged: &Staged, there: Option<&Document>) -> Write {
    let mut write = Write::new(staged.at.clone(), WriteOp::Delete);
    if let StagedIndex::Known { uuid } = &staged.index {
        write.index_uuid = Some(Arc::from(uuid.as_str()));
    }
    match &staged.put {
        Some(put) => {
            (write.routing, write.parent) = (put.routing.clone(), put.parent.clone());
            write.timing = mapping::Timing::keep(put.times);
            write.op = WriteOp::Put(put.source.clone());
            write.tree = put.tree.clone();
        }
        None => write.routing = there.and_then(|document| document.routing.clone()),
    }
    write
}

/// What a transaction wrote and read, as it is now.
#[derive(Default)]
struct Compared<'s> {
    indices: HashMap<String, Index>,
    /// Documents that it wrote and that are there.
    there: HashMap<&'s DocAddress, Document>,
    /// Documents that are not as they were at its beginning.
    moved: Vec<Moved>,
}

impl Committing<'_> {
    fn touches(&self) -> Vec<DocAddress> {
        let read = self.reads.iter().map(|(at, _)| at.clone());
        let written = self.staged.iter().map(|staged| staged.at.clone());
        read.chain(written)
            .chain([self.own.at()])
            .chain(self.key.map(Key::at))
            .collect()
    }

    /// The written documents: one that was not there and is not to be there is nothing but read.
    fn net(&self) -> impl Iterator<Item = Net<'_>> {
        self.staged.iter().filter_map(|staged| {
            let effect = match (staged.before.is_some(), staged.put.is_some()) {
                (true, true) => Effect::Updated,
                (false, true) => Effect::Created,
                (true, false) => Effect::Deleted,
                (false, false) => return None,
            };
            let label = self.written.get(&staged.at).map(|wrote| wrote.label);
            let otherwise = if staged.put.is_some() { "index" } else { "delete" };
            Some(Net {
                staged,
                label: label.unwrap_or(otherwise),
                effect,
            })
        })
    }

    fn plan(&self, newest: &mut dyn Newest) -> Result<Step<Option<Finished>>> {
        let mut plan = Plan::default();
        match newest.index(schema::CONTROL) {
            Err(e) if e.kind() == ErrorKind::IndexNotFound => plan.alterations.push(schema::make_control()),
            other => drop(other?),
        }
        if let (Some(key), true) = (self.key, plan.alterations.is_empty())
            && let Some(document) = newest.read(&key.at(), See::Everything)?
            && let Some(done) = key.recall(&document.source, self.kept_now)?
        {
            // Its own id is answered with the same from now on.
            plan.writes
                .push(Write::new(self.own.at(), WriteOp::Put(self.own.refer(key, self.kept_now))));
            return Ok(Step::Commit(plan, Some(Finished::Committed(done))));
        }
        if self.relations.portable.is_some() && self.is_held(newest)? {
            return Ok(Step::Busy(held_for_too_long()));
        }
        let Compared { indices, there, moved } = self.compare_all(newest)?;
        if !moved.is_empty() {
            return Ok(Step::Reply(Some(Finished::Moved(moved))));
        }
        // Templates of an index that is only to be made count already.
        let mut template_settings: HashMap<String, Arc<Map<String, Value>>> = HashMap::new();
        for (name, _) in indices.iter().filter(|(_, index)| index.is_none()) {
            template_settings.insert(name.clone(), newest.template_settings(name)?);
        }
        let settings = |name: &str| match indices.get(name).and_then(Option::as_ref) {
            Some(index) => Some(&*index.settings),
            None => template_settings.get(name).map(|settings| &**settings),
        };
        self.check_no_lock(settings)?;
        self.check_locks(settings, &there)?;
        for net in self.net() {
            let staged = net.staged;
            // Somebody may have made it meanwhile.
            if let (StagedIndex::Made { name, typed }, None) = (&staged.index, &indices[staged.at.index.as_str()]) {
                Alteration::make(&mut plan.alterations, name.as_str(), *typed);
            }
            plan.writes.push(write_of(staged, there.get(&staged.at)));
        }
        debug_assert_eq!(
            plan.writes.iter().map(|write| &write.at).collect::<BTreeSet<_>>().len(),
            plan.writes.len(),
            "T2: a transaction writes a document at most once"
        );
        self.keep(&mut plan);
        Ok(Step::Commit(plan, None))
    }

    /// Compares everything that was written, and everything that was read by id, with what is there (T24).
    fn compare_all(&self, newest: &mut dyn Newest) -> Result<Compared<'_>> {
        let mut out = Compared::default();
        for staged in &self.staged {
            let uuid = match &staged.index {
                StagedIndex::Known { uuid } => Some(uuid.clone()),
                StagedIndex::Made { .. } => None,
            };
            let began = Began {
                uuid,
                stamp: staged.before,
            };
            match compare(newest, &mut out.indices, &staged.at, &began, true)? {
                Ok(Some(document)) => {
                    let twice = out.there.insert(&staged.at, document);
                    debug_assert!(twice.is_none(), "T24: a document is staged once: {:?}", staged.at);
                }
                Ok(None) => {}
                Err(one) => out.moved.push(one),
            }
        }
        for (at, began) in &self.reads {
            if let Err(one) = compare(newest, &mut out.indices, at, began, false)? {
                out.moved.push(one);
            }
        }
        Ok(out)
    }

    /// Has a change that is not finished a mark on what it read or writes, on what is only to be made as well?
    fn is_held(&self, newest: &mut dyn Newest) -> Result<bool> {
        for at in self.touches() {
            match newest.read(&at, See::Everything) {
                Ok(found) if found.as_ref().and_then(|d| d.hidden.as_ref()).is_some_and(|mark| mark.held) => return Ok(true),
                Ok(_) => {}
                // A missing or closed index has its own refusal.
                Err(e) if matches!(e.kind(), ErrorKind::IndexNotFound | ErrorKind::IndexClosed) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    /// A lock document is taken and given back at once: none is written here.
    fn check_no_lock<'s>(&self, settings: impl Fn(&str) -> Option<&'s Map<String, Value>>) -> Result<()> {
        for net in self.net() {
            let at = &net.staged.at;
            let locks = settings(at.index.as_str()).map_or(Ok(LockIndex::None), LockIndex::of)?;
            if locks.has(at.id.doc_type.as_deref()) {
                return Err(crate::lock_documents::not_staged(at));
            }
        }
        Ok(())
    }

    /// Its locks are alive, those of a write cover its document, and nobody else's is in the way.
    fn check_locks<'s>(
        &self,
        settings: impl Fn(&str) -> Option<&'s Map<String, Value>>,
        there: &HashMap<&DocAddress, Document>,
    ) -> Result<()> {
        let (locks, clock) = (&self.relations.locks, &self.relations.clock);
        let mut guard = Guard::new(locks, clock, &self.locks, true)?;
        if guard.is_open() {
            return Ok(());
        }
        for net in self.net() {
            let at = &net.staged.at;
            let none = Map::new();
            let settings = settings(at.index.as_str()).unwrap_or(&none);
            let fields = place_fields(settings)?;
            let mut places: Vec<LockPath> = Vec::new();
            if !fields.is_unset() {
                let before = there.get(at).map(|document| &document.source);
                let after = net.staged.put.as_ref().map(|put| &put.source);
                for source in before.into_iter().chain(after) {
                    places.extend(fields.places(&source.parse()?)?);
                }
            }
            guard.respects(Some(settings), at, &places)?;
            let under = self.written.get(at).map_or(&[][..], |wrote| &wrote.locks);
            if !under.is_empty() {
                Guard::new(locks, clock, under, true)?.check_covered(at, &places, true)?;
            }
        }
        Ok(())
    }

    /// Adds the document that keeps the outcome: under the key if there is one, and under the transaction's id.
    fn keep(&self, plan: &mut Plan) {
        let under = self.key.unwrap_or(self.own).clone();
        if self.key.is_some() {
            let reference = self.own.refer(&under, self.kept_now);
            plan.writes.push(Write::new(self.own.at(), WriteOp::Put(reference)));
        }
        let now_ms = self.kept_now;
        let place = Source::from_value(&json!({ "kind": "key", "at": now_ms }));
        let write = Write::new(under.at(), WriteOp::Put(place));
        let net: Vec<(DocAddress, &'static str, Effect)> =
            self.net().map(|net| (net.staged.at.clone(), net.label, net.effect)).collect();
        let portable = self.relations.portable.is_some();
        let seal = move |decision: &Decision<'_>| {
            let item = |((at, label, effect), stamp): (&(DocAddress, &'static str, Effect), &Stamp)| {
                item(at.clone(), label, *effect, *stamp)
            };
            let outcome = Committed {
                commit_seq: if portable {
                    commit_seq_of(decision.stamps)
                } else {
                    decision.commit_seq
                },
                otherwise: false,
                moved: Vec::new(),
                items: net.iter().zip(decision.stamps).map(item).collect(),
                replayed: false,
                warnings: Vec::new(),
            };
            under.keep(&outcome, now_ms)
        };
        plan.seal = Some((plan.writes.len(), Box::new(seal)));
        plan.writes.push(write);
    }
}

/// Is a document as it was? Then it, if there is one.
fn compare(
    newest: &mut dyn Newest,
    indices: &mut HashMap<String, Index>,
    at: &DocAddress,
    began: &Began,
    written: bool,
) -> Result<Result<Option<Document>, Moved>> {
    let name = at.index.as_str();
    if !indices.contains_key(name) {
        let found = match newest.index(name) {
            Ok(index) => Some(index),
            Err(e) if e.kind() == ErrorKind::IndexNotFound => None,
            Err(e) => return Err(e),
        };
        indices.insert(name.to_owned(), found);
    }
    let moved = |found: Option<Stamp>, index: bool| Moved {
        at: at.clone(),
        written,
        began: began.stamp,
        found,
        index,
    };
    let same_index = match (&began.uuid, &indices[name]) {
        (Some(uuid), Some(index)) => **uuid == *index.uuid,
        (Some(_), None) => false,
        // It was not there: whoever made it since, a document that is not there still is not.
        (None, _) => true,
    };
    if !same_index && (written || began.stamp.is_some()) {
        return Ok(Err(moved(None, true)));
    }
    let found = match &indices[name] {
        Some(_) => newest.read(at, See::Plain)?,
        None => None,
    };
    let stamp = found.as_ref().map(|document| document.stamp);
    // Marks alone may have gone over it.
    let since = found.as_ref().map(origin).transpose()?;
    let place = |stamp: Stamp| (stamp.seq_no, stamp.primary_term);
    let is_as = |stamp: Option<Stamp>| stamp.map(place) == began.stamp.map(place);
    if is_as(stamp) || is_as(since) {
        Ok(Ok(found))
    } else {
        Ok(Err(moved(stamp, false)))
    }
}

/// The place of a commit among changes by the portable path: that of the document that keeps its outcome, which is the last.
fn commit_seq_of(stamps: &[Stamp]) -> CommitSeq {
    stamps.last().map_or(0, |stamp| Token::of(*stamp).commit_seq())
}

fn items(net: &[Net<'_>], stamps: &[Stamp]) -> Vec<Item> {
    assert!(net.len() <= stamps.len(), "T2: each write of the transaction has its stamp");
    let one = |(net, stamp): (&Net<'_>, &Stamp)| item(net.staged.at.clone(), net.label, net.effect, *stamp);
    net.iter().zip(stamps).map(one).collect()
}

fn item(at: DocAddress, label: &'static str, effect: Effect, stamp: Stamp) -> Item {
    Item {
        label,
        written: Written {
            effect,
            at,
            stamp,
            source: None,
            forced_refresh: false,
        },
    }
}
