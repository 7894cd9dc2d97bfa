//! Beginning, reading in, writing in and ending a transaction.

use super::registry::{Began, Facts, OpenTransaction, ShownTransaction, TransactionState};
use crate::intents::origin;
use crate::leases::guard::Guard;
use crate::leases::{OnExpire, place_fields};
use crate::locks::LockPath;
use crate::schema::{forbidden, is_system};
use crate::transactions::Key;
use async_recursion::async_recursion as boxed;
use engine::{Document, Effect, EngineExt as _, Outcome, Read, Stage, Staging, Write, WriteOp};
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Target, settings};
use serde_json::Map;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A transaction that is asked for.
#[derive(Clone, Debug)]
pub struct Begin {
    /// How long it lives after its last use.
    pub keep_alive: Duration,
    /// Locks that it runs under.
    pub locks: Vec<String>,
    /// Under which its outcome is kept as well.
    pub key: Option<Key>,
}

/// One that has begun.
#[derive(Clone, Debug)]
pub struct BegunTransaction {
    /// Names its server.
    pub id: String,
    /// Everything up to here is seen.
    pub read_seq: CommitSeq,
}

/// A write for a transaction.
#[derive(Clone, Debug)]
pub struct HeldWrite {
    /// `index`, `create`, `update`, `delete`: for the answer.
    pub label: &'static str,
    /// The writes.
    pub write: Write,
    /// Makes a missing index; `Some(true)`: a typed one.
    pub creates: Option<bool>,
    /// Locks under which it is done: one of them covers the document.
    pub locks: Vec<String>,
}

impl crate::Relations {
    /// Begins a transaction: it reads everything that was acknowledged before.
    ///
    /// # Errors
    /// Too many are open; a lock that is not alive; an engine that cannot.
    #[boxed]
    pub async fn begin_held(&self, begin: &Begin) -> Result<BegunTransaction> {
        self.check_control()?;
        let locks = self.attached_leases(&begin.locks)?;
        let staging = self.staging()?;
        let (view, read_seq) = match &self.portable {
            None => {
                let view = staging.begin().await?;
                let read_seq = view.as_of.unwrap_or(0);
                (view, read_seq)
            }
            // A moment in which no change is half applied.
            Some(portable) => {
                let barrier = self.hold_all_changes().await?;
                let read_seq = portable.newest();
                let view = staging.begin().await?;
                debug_assert!(
                    self.locks.table().running().is_empty(),
                    "T23: a moment while a transaction is applied"
                );
                drop(barrier);
                (view, read_seq)
            }
        };
        let now = self.clock.monotonic();
        let id = self.held.next_id(|| self.clock.random());
        self.held.begin(OpenTransaction {
            id: id.clone(),
            view: view.id,
            read_seq,
            key: begin.key.clone(),
            opened: now,
            opened_ms: self.clock.wall_ms(),
            turn: futures::lock::Mutex::new(()),
            facts: Mutex::new(Facts {
                keep_alive: begin.keep_alive,
                used: now,
                committing: false,
                locks,
                reads: HashMap::new(),
                written: HashMap::new(),
                operations: 0,
            }),
        });
        Ok(BegunTransaction {
            id: id.to_string(),
            read_seq,
        })
    }

    /// The view that searches of a transaction name, and up to where it reads.
    ///
    /// # Errors
    /// It is not open.
    #[boxed]
    pub async fn view_in(&self, id: &str) -> Result<(String, CommitSeq)> {
        let transaction = self.open_transaction(id).await?;
        Ok((transaction.view.clone(), transaction.read_seq))
    }

    /// A document as a transaction sees it; at its commit it must be as it was.
    ///
    /// # Errors
    /// It is not open; it has read too many; as reads outside.
    #[boxed]
    pub async fn read_in(&self, id: &str, read: Read) -> Result<Option<Document>> {
        let transaction = self.open_transaction(id).await?;
        let _turn = transaction.turn.lock().await;
        self.check_open(&transaction)?;
        let seen = self.read_and_note(&transaction, read).await;
        transaction.facts().used = self.clock.monotonic();
        seen
    }

    /// Reads, and remembers what was read.
    async fn read_and_note(&self, transaction: &OpenTransaction, read: Read) -> Result<Option<Document>> {
        let most = self.engine.cluster_number(settings::TRANSACTIONS_MAX_READS).await?;
        if transaction.facts().reads.len() as u64 >= most {
            let name = settings::TRANSACTIONS_MAX_READS.name;
            let reason = format!("a transaction has read [{most}] documents by id; the limit is the setting [{name}]");
            return Err(Error::illegal(reason).with("setting", name));
        }
        let at = read.at.clone();
        let seen = self.staging()?.read(&transaction.view, vec![read]).await?.pop();
        match seen {
            Some(Ok(seen)) => {
                if !seen.own && !seen.withheld {
                    // Marks of changes may go over it before the commit, and be there already.
                    let stamp = seen.document.as_ref().map(origin).transpose()?;
                    let uuid = seen.index_uuid;
                    transaction.facts().reads.insert(seen.at, Began { uuid, stamp });
                }
                Ok(seen.document)
            }
            Some(Err(e)) => {
                // That there is no such index has been read as well.
                if e.kind() == ErrorKind::IndexNotFound {
                    let nothing = Began { uuid: None, stamp: None };
                    transaction.facts().reads.insert(at, nothing);
                }
                Err(e)
            }
            None => Err(Error::new(ErrorKind::Internal, "a read has no answer")),
        }
    }

    /// Writes in a transaction, in order, each on its own: one that is refused leaves the others.
    ///
    /// # Errors
    /// It is not open.
    #[boxed]
    pub async fn stage_held(&self, id: &str, writes: Vec<HeldWrite>) -> Result<Vec<Outcome>> {
        let transaction = self.open_transaction(id).await?;
        let _turn = transaction.turn.lock().await;
        self.check_open(&transaction)?;
        let outcomes = self.staged_in_turn(&transaction, writes).await;
        transaction.facts().used = self.clock.monotonic();
        outcomes
    }

    pub(super) async fn staged_in_turn(&self, transaction: &OpenTransaction, writes: Vec<HeldWrite>) -> Result<Vec<Outcome>> {
        let staging = self.staging()?;
        let mut outcomes: Vec<Option<Outcome>> = vec![None; writes.len()];
        let mut ready = Vec::with_capacity(writes.len());
        for (n, mut held) in writes.into_iter().enumerate() {
            // A child lies where its parent lies, unless told otherwise.
            held.write.routing = held.write.routing.or_else(|| held.write.parent.clone());
            match self.check_stage(staging, transaction, &held).await {
                Ok(()) => ready.push((n, held)),
                Err(e) => outcomes[n] = Some(Outcome::Refused(e)),
            }
        }
        let stages = ready.iter().map(|(_, held)| Stage {
            write: held.write.clone(),
            creates: held.creates,
        });
        let done = staging.stage(&transaction.view, stages.collect()).await?;
        assert_eq!(done.len(), ready.len(), "each write that is staged has its outcome");
        for ((n, held), outcome) in ready.into_iter().zip(done) {
            match &outcome {
                Outcome::Written(written) if written.effect != Effect::Noop => {
                    let mut facts = transaction.facts();
                    facts.operations += 1;
                    facts.reads.remove(&written.at);
                    let wrote = facts.written.entry(written.at.clone()).or_default();
                    wrote.label = held.label;
                    wrote.locks.extend(held.locks);
                }
                // A found document was told: it counts as read.
                Outcome::Written(engine::Written { at, .. }) => {
                    self.read_and_note(transaction, Read::whole(at.clone())).await?;
                }
                Outcome::Conflict(conflict) => {
                    self.read_and_note(transaction, Read::whole(conflict.at.clone())).await?;
                }
                Outcome::Refused(_) | Outcome::Held(_) | Outcome::Unknown => {}
            }
            outcomes[n] = Some(outcome);
        }
        Ok(outcomes.into_iter().map(|o| o.unwrap_or(Outcome::Unknown)).collect())
    }

    /// May this be staged at all? Whether its locks still hold is asked again at the commit.
    async fn check_stage(&self, staging: &dyn Staging, transaction: &OpenTransaction, held: &HeldWrite) -> Result<()> {
        let name = held.write.at.index.as_str();
        if is_system(name) {
            return Err(forbidden(name));
        }
        if held.locks.is_empty() {
            return Ok(());
        }
        let attached = self.attached_leases(&held.locks)?;
        let target = Target {
            ignore_unavailable: true,
            ..Target::index(name)
        };
        let info = self.engine.indices(&target).await?.pop();
        let (index, of) = info.map_or((held.write.at.index.clone(), Map::new()), |info| (info.name, info.settings));
        let at = DocAddress {
            index,
            id: held.write.at.id.clone(),
        };
        let fields = place_fields(&of)?;
        let mut places: Vec<LockPath> = Vec::new();
        if !fields.is_unset() {
            let mut read = Read::whole(held.write.at.clone());
            read.routing.clone_from(&held.write.routing);
            if let Some(Ok(seen)) = staging.read(&transaction.view, vec![read]).await?.pop()
                && let Some(document) = seen.document
            {
                places.extend(fields.places(&document.source.parse()?)?);
            }
            if let WriteOp::Put(source) = &held.write.op {
                places.extend(fields.places(&source.parse()?)?);
            }
        }
        Guard::new(&self.locks, &self.clock, &held.locks, false)?.check_covered(&at, &places, true)?;
        let mut facts = transaction.facts();
        for lock in attached {
            if !facts.locks.contains(&lock) {
                facts.locks.push(lock);
            }
        }
        Ok(())
    }

    /// Ends a transaction; nothing of it is done. Once more is no mistake.
    ///
    /// # Errors
    /// It is committed, or never was.
    #[boxed]
    pub async fn abort_held(&self, id: &str) -> Result<()> {
        match self.open_transaction(id).await {
            Ok(transaction) => {
                let _turn = transaction.turn.lock().await;
                if self.check_open(&transaction).is_ok() {
                    self.end_held(&transaction, TransactionState::Aborted("its client aborted it".into()))
                        .await?;
                }
                match self.held.find(id)? {
                    Err(state @ TransactionState::Committed(_)) => Err(state.refusal(id)),
                    _ => Ok(()),
                }
            }
            Err(e) if e.kind() == ErrorKind::TransactionAborted => Ok(()),
            Err(e) => Err(e),
        }
    }

    /// One transaction, whatever became of it.
    ///
    /// # Errors
    /// There never was one.
    #[boxed]
    pub async fn transaction(&self, id: &str) -> Result<ShownTransaction> {
        self.expire().await?;
        let state = match self.held.find(id)? {
            Ok(transaction) => {
                let bytes = self.staging()?.staged_bytes(&transaction.view).await.unwrap_or(0);
                return Ok(transaction.show(self.clock.monotonic(), bytes));
            }
            Err(state) => self.became(id, state).await?,
        };
        Ok(ShownTransaction {
            id: id.to_owned(),
            state,
            open: None,
        })
    }

    /// Every open one, oldest first.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn transactions(&self) -> Result<Vec<ShownTransaction>> {
        self.expire().await?;
        let mut out = Vec::new();
        for transaction in self.held.open() {
            let bytes = self.staging()?.staged_bytes(&transaction.view).await.unwrap_or(0);
            out.push((transaction.opened, transaction.show(self.clock.monotonic(), bytes)));
        }
        out.sort_by_key(|(opened, _)| *opened);
        Ok(out.into_iter().map(|(_, shown)| shown).collect())
    }

    /// Ends those whose time is over, and those whose lock ended and takes them along.
    pub(crate) async fn expire(&self) -> Result<()> {
        let now = self.clock.monotonic();
        for transaction in self.held.open() {
            if let Some(why) = self.over(&transaction, now) {
                self.end_held(&transaction, TransactionState::Aborted(why)).await?;
            }
        }
        Ok(())
    }

    fn over(&self, transaction: &OpenTransaction, now: Duration) -> Option<String> {
        // Whoever has the turn uses it.
        transaction.turn.try_lock()?;
        let facts = transaction.facts();
        if facts.committing {
            return None;
        }
        if facts.is_over(now) {
            let alive = model::units::render_duration(facts.keep_alive);
            return Some(format!("it was not used for its keep alive of [{alive}]"));
        }
        let (table, _) = self.locks.now(&self.clock);
        let takes_along = facts.locks.iter().filter(|(_, on_expire)| *on_expire == OnExpire::Abort);
        let mut gone = takes_along.filter_map(|(id, _)| table.alive(id).err());
        gone.next().map(|e| e.reason().to_owned())
    }

    /// One that is open, now used.
    pub(super) async fn open_transaction(&self, id: &str) -> Result<Arc<OpenTransaction>> {
        let transaction = match self.held.find(id)? {
            Ok(transaction) => transaction,
            Err(state) => return Err(self.became(id, state).await?.refusal(id)),
        };
        let now = self.clock.monotonic();
        if let Some(why) = self.over(&transaction, now) {
            let state = TransactionState::Aborted(why);
            self.end_held(&transaction, state.clone()).await?;
            return Err(state.refusal(id));
        }
        transaction.facts().used = now;
        Ok(transaction)
    }

    /// It is still open, now that it is one's turn.
    pub(super) fn check_open(&self, transaction: &OpenTransaction) -> Result<()> {
        match self.held.find(&transaction.id)? {
            Ok(_) => {
                transaction.facts().used = self.clock.monotonic();
                Ok(())
            }
            Err(state) => Err(state.refusal(&transaction.id)),
        }
    }

    /// The outcome of one that is not known any more may be kept.
    async fn became(&self, id: &str, state: TransactionState) -> Result<TransactionState> {
        match self.kept_outcome(&Key::of_transaction(id)).await? {
            Some(committed) => Ok(TransactionState::Committed(committed.commit_seq)),
            None => Ok(state),
        }
    }

    pub(super) async fn end_held(&self, transaction: &OpenTransaction, how: TransactionState) -> Result<()> {
        if self.held.end(&transaction.id, how) {
            self.engine.close_view(&transaction.view).await?;
        }
        Ok(())
    }

    /// These locks, if they are alive.
    fn attached_leases(&self, ids: &[String]) -> Result<Vec<(Arc<str>, OnExpire)>> {
        let (table, _) = self.locks.now(&self.clock);
        let lease = |id: &String| table.alive(id).map(|lease| (lease.id.clone(), lease.on_expire));
        ids.iter().map(lease).collect()
    }

    pub(super) fn staging(&self) -> Result<&dyn Staging> {
        self.engine.staging().ok_or_else(|| {
            let reason = "this engine keeps no transactions open; send all operations at once, to [_transaction]";
            Error::new(ErrorKind::UnsupportedOperation, reason)
        })
    }
}
