//! How leases go on and end: renewal, release, breaking, expiry, lost connections, a restart.

use super::ending::all_written;
use super::handover::{self, End, Untold, asking};
use super::lease::{Ending, KEEP_ALIVE, Lease};
use super::literal::released;
use crate::locks::{AllAnswer, Owner};
use crate::schema;
use crate::transactions::KEPT_MS;
use dsl::json::Node;
use dsl::query::{Clause, Query, TermsQuery};
use dsl::search::SearchRequest;
use engine::{Barrier, Decision, Document, Gate, Newest, Outcome, Plan, See, TxnOptions, Write, WriteOp};
use futures::StreamExt as _;
use model::{Dialect, Error, ErrorKind, Result, Target};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

impl crate::Relations {
    /// Every lock, by id.
    pub fn leases(&self) -> Vec<(Lease, usize)> {
        let (table, _) = self.locks.now(&self.clock);
        table.leases().map(|lease| (lease.clone(), table.waiters_of(lease))).collect()
    }

    /// One lock that is alive.
    ///
    /// # Errors
    /// `lock_missing_exception`, `lock_expired_exception`, `lock_broken_exception`.
    pub fn lease(&self, id: &str) -> Result<(Lease, usize)> {
        self.check_control()?;
        let (table, _) = self.locks.now(&self.clock);
        let lease = table.alive(id)?;
        Ok((lease.clone(), table.waiters_of(lease)))
    }

    /// Restarts its time; its token stays. Nothing is written.
    ///
    /// # Errors
    /// It is over: a renewal never revives.
    pub fn renew(&self, id: &str, keep_alive: Option<Duration>, connection: Option<u64>) -> Result<Lease> {
        if keep_alive.is_some_and(|wanted| wanted < KEEP_ALIVE.0 || wanted > KEEP_ALIVE.1) {
            return Err(Error::illegal("[keep_alive] must be between [1s] and [1h]"));
        }
        self.check_control()?;
        let (mut table, now) = self.locks.now(&self.clock);
        table.alive(id)?;
        let lease = table.renew(id, now, keep_alive, connection);
        lease
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::LockMissing, format!("no lock [{id}]")))
    }

    /// Its owner gives it back.
    ///
    /// # Errors
    /// There is none, or it is over.
    pub async fn release(&self, id: &str) -> Result<()> {
        self.end(id, None).await
    }

    /// Somebody ends it.
    ///
    /// # Errors
    /// There is none, or it is over.
    pub async fn break_lock(&self, id: &str) -> Result<Lease> {
        let lease = self.lease(id)?.0;
        self.end(id, Some(Ending::Broken)).await?;
        Ok(lease)
    }

    async fn end(&self, id: &str, how: Option<Ending>) -> Result<()> {
        self.check_control()?;
        let (document, expected) = {
            let table = self.locks.table();
            let lease = table.lease(id);
            let literal = lease.and_then(|lease| lease.literal.as_ref());
            let expected = lease.map(|lease| handover::expected(&table, lease));
            (literal.map(|literal| literal.at.clone()), expected.unwrap_or_default())
        };
        let deciding = TxnOptions {
            touches: document.into_iter().chain([Lease::at(id)]).chain(expected).collect(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let under = [Arc::from(id)];
        let met = AtomicBool::new(false);
        let untold = Untold::default();
        // Nothing about those who come next keeps it from ending.
        let mut alone = false;
        loop {
            let followed = AtomicBool::new(false);
            let mut planner = |newest: &mut dyn Newest| {
                let (table, now) = self.locks.now(&self.clock);
                if !table.runs_under(&under).is_empty() {
                    met.store(true, Ordering::Relaxed);
                    return Err(Error::new(ErrorKind::LockConflict, "a change under the lock is not finished"));
                }
                let lease = table.alive(id)?;
                let wall_ms = self.clock.wall_ms();
                let mut writes = released(newest, std::slice::from_ref(lease))?;
                let op = match how {
                    None => WriteOp::Delete,
                    Some(how) => WriteOp::Put(lease.document(Some((how, wall_ms)))),
                };
                writes.push(Write::new(Lease::at(id), op));
                let heirs = match alone {
                    true => Vec::new(),
                    false => handover::heirs(&table, newest, lease, wall_ms),
                };
                followed.store(!heirs.is_empty(), Ordering::Relaxed);
                let first = writes.len();
                writes.extend(handover::documents(&heirs));
                let (shared, id, untold) = (self.locks.clone(), id.to_owned(), untold.clone());
                Ok(Plan {
                    writes,
                    then: Some(Box::new(move |decision: &Decision<'_>| {
                        let how = how.map(|how| (how, Some(now)));
                        let end = End { id: &id, how, now };
                        untold.settle(&shared, end, heirs, decision.stamps.get(first..).unwrap_or_default());
                    })),
                    ..Plan::default()
                })
            };
            self.settled(&under, false).await?;
            let decided = match self.atomic()?.decide(&mut planner, deciding.clone()).await {
                Err(_) if met.swap(false, Ordering::Relaxed) => continue,
                decided => decided?,
            };
            let refused = decided.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refused(_)));
            if refused && followed.load(Ordering::Relaxed) {
                alone = true;
                continue;
            }
            all_written(&decided.outcomes)?;
            if !untold.is_empty() {
                untold.tell();
                handover::step_back().await;
            }
            return Ok(());
        }
    }

    /// Ends what is over. To be called often: who waits is woken by it.
    ///
    /// # Errors
    /// The engine's; then nothing has ended, and the next call tries again.
    pub async fn sweep(&self) -> Result<()> {
        self.finish_left().await;
        self.expire().await?;
        let overdue = {
            let (mut table, _) = self.locks.now(&self.clock);
            table.take_overdue()
        };
        let (literal, overdue): (Vec<Lease>, Vec<Lease>) = overdue.into_iter().partition(|lease| lease.literal.is_some());
        self.expire_literal(&literal).await;
        // They guard nothing any more; what was begun under them is decided and finished before they pass on. One whose change
        // cannot be finished stays, over as it is, and keeps no other from its end.
        let ids: Vec<Arc<str>> = overdue.iter().map(|lease| lease.id.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        if !self.control.may_end(self.clock.monotonic()) {
            self.locks.table().not_ended(&ids);
            return Ok(());
        }
        let (ids, open) = self.settled_of(ids).await;
        self.locks.table().not_ended(&open);
        let (overdue, unfinished): (Vec<Lease>, Vec<Lease>) = overdue.into_iter().partition(|lease| ids.contains(&lease.id));
        let unfinished: Vec<Lease> = unfinished.into_iter().filter(|lease| !lease.over_is_written).collect();
        if !unfinished.is_empty() {
            self.write_over(&unfinished).await?;
        }
        if overdue.is_empty() {
            return Ok(());
        }
        let mut done = self.write_expired(&overdue).await;
        if done.is_err() && overdue.len() > 1 {
            // One of them may be in the way of the others.
            done = Ok(());
            for lease in &overdue {
                done = done.and(self.write_expired(std::slice::from_ref(lease)).await);
            }
        }
        self.control.ended(&done, self.clock.monotonic(), self.clock.wall_ms());
        done
    }

    /// Every one of these locks is.
    pub fn are_alive(&self, ids: &[String]) -> bool {
        ids.is_empty() || {
            let (table, _) = self.locks.now(&self.clock);
            ids.iter().all(|id| table.alive(id).is_ok())
        }
    }

    /// Which of these locks are over while that is not written yet. A refusal that says of a lock that it is over waits for its
    /// end, since a start gives every lease that has no end written a fresh keep alive; what is written is durable after
    /// [`crate::Relations::locks_settled`]. To be asked again until none are left.
    ///
    /// # Errors
    /// The end cannot be written now: nobody may be told of it.
    pub async fn unwritten_ends(&self, ids: &[String]) -> Result<Vec<String>> {
        let unwritten = || -> Vec<String> {
            let (table, now) = self.locks.now(&self.clock);
            let is_unwritten = |lease: &Lease| lease.is_over(now) && !lease.over_is_written;
            let over = |id: &&String| table.lease(id).is_some_and(is_unwritten);
            ids.iter().filter(over).cloned().collect()
        };
        let refused = |id: &str, reason: &str| {
            let reason = format!("the time of lock [{id}] is over, and its end cannot be written: {reason}");
            Error::new(ErrorKind::Unavailable, reason).with("lock", id)
        };
        let before = unwritten();
        let Some(first) = before.first() else { return Ok(before) };
        if let Err(cause) = self.sweep().await {
            return Err(match cause.kind() {
                ErrorKind::LogFailed => cause,
                _ => refused(first, cause.reason()),
            });
        }
        let after = unwritten();
        if let (Some(id), Some(trouble)) = (
            after.first(),
            self.troubles().into_iter().find(|trouble| trouble.work == "leases"),
        ) {
            return Err(refused(id, &trouble.reason));
        }
        Ok(after)
    }

    /// Writes that the time of leases is over which cannot end yet, since changes under them are not finished: their owners
    /// may be refused then, also after a start.
    ///
    /// # Errors
    /// The engine's; a control index that takes no writes.
    async fn write_over(&self, leases: &[Lease]) -> Result<()> {
        let options = TxnOptions {
            touches: leases.iter().map(|lease| Lease::at(&lease.id)).collect(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let mut body = |_: &mut dyn Newest| {
            let over = |lease: &Lease| Lease {
                over_is_written: true,
                ..lease.clone()
            };
            let writes = leases
                .iter()
                .map(|lease| Write::new(Lease::at(&lease.id), WriteOp::Put(over(lease).document(None))));
            let (shared, ids) = (
                self.locks.clone(),
                leases.iter().map(|lease| lease.id.clone()).collect::<Vec<_>>(),
            );
            Ok(Plan {
                writes: writes.collect(),
                then: Some(Box::new(move |_: &Decision<'_>| shared.table().over_is_written(&ids))),
                ..Plan::default()
            })
        };
        all_written(&self.atomic()?.decide(&mut body, options).await?.outcomes)
    }

    /// Ends leases whose time is over, in one record. If that is refused they stay: over for their owners, held for others
    /// until it is written.
    ///
    /// # Errors
    /// The engine's; a control index that takes no writes.
    async fn write_expired(&self, overdue: &[Lease]) -> Result<()> {
        let deciding = TxnOptions {
            touches: overdue.iter().map(|lease| Lease::at(&lease.id)).collect(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let ended_ms = self.clock.wall_ms();
        let mut planner = |_: &mut dyn Newest| {
            let document = |lease: &Lease| WriteOp::Put(lease.document(Some((Ending::Expired, ended_ms))));
            let writes = overdue.iter().map(|lease| Write::new(Lease::at(&lease.id), document(lease)));
            let (shared, gone) = (self.locks.clone(), overdue.to_vec());
            Ok(Plan {
                writes: writes.collect(),
                then: Some(Box::new(move |_: &Decision<'_>| {
                    let mut table = shared.table();
                    for lease in gone {
                        table.end(&lease.id, Some((Ending::Expired, Some(lease.deadline))));
                    }
                })),
                ..Plan::default()
            })
        };
        let decided = match self.atomic() {
            Ok(atomic) => atomic.decide(&mut planner, deciding).await,
            Err(e) => Err(e),
        };
        // A refusal is an outcome, not an error of the decision.
        let done = decided.and_then(|decided| all_written(&decided.outcomes));
        if done.is_err() {
            let ids: Vec<Arc<str>> = overdue.iter().map(|lease| lease.id.clone()).collect();
            self.locks.table().not_ended(&ids);
        }
        done
    }

    /// A connection is gone: locks that asked for it end at once.
    ///
    /// # Errors
    /// The engine's.
    pub async fn disconnected(&self, connection: u64) -> Result<()> {
        let any = {
            let (mut table, now) = self.locks.now(&self.clock);
            table.hung_up(connection);
            let ids: Vec<Arc<str>> = table
                .leases()
                .filter(|lease| lease.on_disconnect_release && lease.connection == Some(connection))
                .map(|lease| lease.id.clone())
                .collect();
            ids.iter().for_each(|id| table.cut(id, now));
            !ids.is_empty()
        };
        if any { self.sweep().await } else { Ok(()) }
    }

    /// What the control index says cannot be relied on: nothing that rests on it is done from here on.
    pub fn refuse(&self, cause: &Error) {
        self.control.fail(cause);
        *self.locks.table() = super::table::Table::default();
    }

    /// After a start: locks that were held are held, each with one fresh keep alive.
    ///
    /// # Errors
    /// A control index that cannot be read.
    pub async fn recover(&self) -> Result<()> {
        // Before a change is finished, which may keep an outcome.
        let of_changes = match &self.portable {
            Some(portable) => portable.newest_kept().await?,
            None => None,
        };
        if let Some(newest_ms) = self.newest_kept().await?.max(of_changes) {
            self.kept_time.go_on_from(newest_ms);
        }
        self.finish_all().await?;
        let Some(documents) = self.control_documents(&["lease", "lease_expired", "lease_broken"]).await? else {
            return Ok(());
        };
        // Of indices that went while nobody could write it down.
        let gone = self.restored(documents)?;
        self.forget_leases(&gone).await?;
        self.forget_gone().await
    }

    /// The table as the documents of the leases say; which of them are lock documents' that are in the way of others.
    fn restored(&self, documents: Vec<Document>) -> Result<Vec<Arc<str>>> {
        let (mut table, now) = self.locks.now(&self.clock);
        let mut gone = Vec::new();
        // Of a lease that went with a change a tombstone may be left.
        let hidden = |document: &Document| document.hidden.as_ref().is_some_and(|mark| !mark.visible);
        for document in documents.into_iter().filter(|document| !hidden(document)) {
            let (lease, ending) = Lease::read(&document.source, document.stamp, now)?;
            if let Some(how) = ending {
                table.remember(lease.id.clone(), (how, None));
                continue;
            }
            let request = asking(Owner::new(lease.id.clone()), table.next_age(), false);
            if table.look(&lease.claims, &request, &[]) != AllAnswer::Granted {
                if lease.literal.is_some() {
                    gone.push(lease.id.clone());
                    continue;
                }
                let reason = format!("lock [{}] is not compatible with the others that are stored", lease.id);
                return Err(Error::new(ErrorKind::Corruption, reason));
            }
            table.grant(lease, &request);
        }
        Ok(gone)
    }

    /// Forgets outcomes and ended locks that are older than a day. To be called now and then.
    ///
    /// # Errors
    /// The engine's.
    pub async fn forget_old(&self) -> Result<u64> {
        self.collect().await?;
        let Some(documents) = self
            .control_documents(&["key", "lease_expired", "lease_broken", "task", "task_done"])
            .await?
        else {
            return Ok(0);
        };
        let (before, keys_before) = (self.clock.wall_ms() - KEPT_MS, self.kept_now() - KEPT_MS);
        // An outcome of a task grows old from its end on, and its key with it.
        let is_past = |source: &Value| match source["kept"].as_i64() {
            Some(kept) => kept < keys_before,
            None => source["at"].as_i64().is_some_and(|at| at < before),
        };
        let mut stays: BTreeSet<u64> = BTreeSet::new();
        for document in &documents {
            let source = document.source.parse()?;
            let (kind, number) = (source["kind"].as_str().unwrap_or_default(), source["n"].as_u64());
            if kind == "task" || kind == "task_done" && !is_past(&source) {
                stays.extend(number);
            }
        }
        let mut old = Vec::new();
        for document in documents {
            if document.hidden.as_ref().is_some_and(|mark| mark.held) {
                continue;
            }
            let source = document.source.parse()?;
            let goes = match source["kind"].as_str() {
                Some("key") => {
                    let is_old = source["at"].as_i64().is_some_and(|at| at < keys_before);
                    is_old && source["task"].as_u64().is_none_or(|task| !stays.contains(&task))
                }
                Some("task") => false,
                _ => is_past(&source),
            };
            if goes {
                // Of a mark nothing is kept: what it was for is over.
                let mut write = Write::new(document.at, WriteOp::Delete);
                write.hide = engine::Hide::Drop;
                write.expect = engine::Expect::Unchanged {
                    seq_no: document.stamp.seq_no,
                    primary_term: document.stamp.primary_term,
                };
                old.push(write);
            }
        }
        let count = old.len() as u64;
        if !old.is_empty() {
            self.engine.write(old, engine::Refresh::No).await?;
        }
        Ok(count)
    }

    /// When the newest outcome was kept, by the time of kept outcomes; `None` if there is none.
    async fn newest_kept(&self) -> Result<Option<i64>> {
        let target = Target::index(schema::CONTROL);
        match self.engine.refresh(&target, None).await {
            Err(e) if e.kind() == ErrorKind::IndexNotFound => return Ok(None),
            other => other?,
        };
        let body = json!({ "size": 1, "query": { "term": { "kind": "key" } }, "sort": [{ "at": "desc" }] });
        let request = SearchRequest::parse(Node::from_value(body), Dialect::default())?;
        let found = self.engine.search(&target, request, See::Everything).await?;
        let newest = found.hits.hits.first().and_then(|hit| hit.source.as_deref());
        let newest: Option<Value> = newest.and_then(|source| serde_json::from_str(source).ok());
        Ok(newest.and_then(|source| source["at"].as_i64()))
    }

    /// Documents of these kinds, oldest grant first; `None` if there is no control index.
    pub(crate) async fn control_documents(&self, kinds: &[&str]) -> Result<Option<Vec<Document>>> {
        let target = Target::index(schema::CONTROL);
        match self.engine.refresh(&target, None).await {
            Err(e) if e.kind() == ErrorKind::IndexNotFound => return Ok(None),
            other => other?,
        };
        let terms = Clause::Terms(TermsQuery {
            field: "kind".into(),
            values: kinds.iter().map(|kind| json!(kind)).collect(),
            minimum_should_match: None,
            disable_coord: false,
        });
        let query: Query = terms.into();
        let mut found = self.engine.scan(&target, query, See::Everything, Barrier::None).await?;
        let mut documents = Vec::new();
        while let Some(document) = found.next().await {
            documents.push(document?);
        }
        documents.sort_by_key(|document| (document.stamp.primary_term, document.stamp.seq_no));
        Ok(Some(documents))
    }
}
