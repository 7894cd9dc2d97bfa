//! Isolation levels of reads beside changes by intents, which are applied document by document.
//!
//! Between the decision of a change and its end a read may find some of its documents new and some old. A plain read is
//! told which changes it may have met so; a settled one finishes them first; a snapshot is made while none is running,
//! and none begins. By one record of the log there is nothing of all this: a change is seen whole.
//!
//! Not here: the words of answers, moments (`engine::View`).

use super::by_intents::Portable;
use crate::intents::RecordState;
use crate::joins;
use crate::leases::table::Table;
use crate::locks::{Claim, LockTarget, Mode, Owner};
use async_recursion::async_recursion as boxed;
use dsl::search::SearchRequest;
use engine::{EngineExt as _, ViewPromise};
use model::{Error, ErrorKind, IndexName, Result, Target};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a read waits for changes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The level of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadLevel {
    /// The documents as they are.
    #[default]
    Plain,
    /// All of what was decided before.
    Settled,
    /// One moment, in which no change is half applied.
    Snapshot,
}

/// A read while it looks.
#[derive(Debug)]
pub struct ReadScope {
    /// Notes the changes that run while it looks; only of plain reads.
    watch: Option<Watch>,
    /// Changes that ran when it began.
    ran: Vec<Owner>,
    names: BTreeSet<String>,
    /// No change begins as long as it lives.
    barrier: Option<ChangeBarrier>,
    /// The moment that is searched.
    pub view: Option<String>,
}

/// Keeps changes from beginning.
#[derive(Debug)]
pub(super) struct ChangeBarrier {
    table: Arc<Mutex<Table>>,
    number: u64,
}

/// Notes every change that runs in the indices of a read while it looks.
#[derive(Debug)]
struct Watch {
    table: Arc<Mutex<Table>>,
    /// `None`: it has ended.
    number: Option<u64>,
}

impl Watch {
    /// It ends: the changes that ran meanwhile.
    fn end(&mut self) -> BTreeSet<Owner> {
        let Some(number) = self.number.take() else {
            return BTreeSet::new();
        };
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.unwatch(number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for ChangeBarrier {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.lift_barrier(self.number);
    }
}

impl crate::Relations {
    /// A read of these indices begins. A search gives its request, and searches the scope's view if there is one; what
    /// reads documents one by one reads them before the scope ends. `None`: every read sees changes whole.
    ///
    /// # Errors
    /// Changes that do not end in time; missing indices.
    #[boxed]
    pub async fn begin_read(
        &self,
        target: &Target,
        level: ReadLevel,
        search: Option<&SearchRequest>,
    ) -> Result<Option<ReadScope>> {
        let Some(portable) = &self.portable else { return Ok(None) };
        let others = search.map_or_else(Vec::new, |request| {
            let mut request = request.clone();
            let mut others = joins::targets(&mut request).unwrap_or_default();
            others.extend(joins::lookups(target, &mut request).iter().map(joins::lookup_target));
            others
        });
        let mut names: BTreeSet<String> = BTreeSet::new();
        for target in std::iter::once(target).chain(&others) {
            let target = Target {
                ignore_unavailable: true,
                allow_no_indices: true,
                ..target.clone()
            };
            // A missing or closed index is refused by the read itself.
            let found = self.engine.indices(&target).await.unwrap_or_default();
            names.extend(found.into_iter().map(|info| info.name.to_string()));
        }
        let mut scope = ReadScope {
            watch: None,
            ran: Vec::new(),
            names,
            barrier: None,
            view: None,
        };
        match level {
            ReadLevel::Plain => {
                let number = {
                    let mut table = self.locks.table();
                    scope.ran = table.running_in(&scope.names);
                    table.watch(&scope.names)
                };
                let table = self.locks.table.clone();
                scope.watch = Some(Watch {
                    table,
                    number: Some(number),
                });
            }
            ReadLevel::Settled => {
                self.finish(portable, &scope.names).await?;
                if search.is_some() {
                    self.searchable(&scope.names).await?;
                }
            }
            ReadLevel::Snapshot => {
                scope.barrier = Some(self.hold_changes(&scope.names).await?);
                if search.is_some() {
                    self.searchable(&scope.names).await?;
                    scope.view = Some(self.moment(target, others, ViewPromise::OneMoment).await?);
                    // The moment stays as it is.
                    scope.barrier = None;
                }
            }
        }
        Ok(Some(scope))
    }

    /// The read has ended: the changes that it may have seen half applied.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn end_read(&self, scope: ReadScope) -> Result<Vec<String>> {
        if let Some(view) = &scope.view {
            self.engine.close_view(view).await?;
        }
        let (Some(portable), Some(mut watch)) = (&self.portable, scope.watch) else {
            return Ok(Vec::new());
        };
        let mut met = Vec::new();
        for change in watch.end() {
            let told = match portable.state_of(&change).await? {
                Some(RecordState::Committed | RecordState::Stuck) => true,
                // Done by now, it may have been in the middle of it: where an engine shows a change document by document, or
                // where an index kept some of it waiting.
                Some(RecordState::Done) => !self.engine.writes_show_together() || scope.ran.contains(&change),
                _ => false,
            };
            if told {
                met.push(change.to_string());
            }
        }
        Ok(met)
    }

    /// Finishes changes that are decided in these indices.
    async fn finish(&self, portable: &Portable, names: &BTreeSet<String>) -> Result<()> {
        let running = self.locks.table().running_in(names);
        for change in running {
            let state = portable.state_of(&change).await?;
            if state == Some(RecordState::Stuck) {
                let reason = format!("change [{change}] is committed and stuck; see GET /_transaction/{change}");
                return Err(Error::new(ErrorKind::Timeout, reason).with("transaction", change.as_str()));
            }
            if state == Some(RecordState::Committed) {
                portable.finish(&change).await.map_err(|error| match error.is_transient() {
                    true => error,
                    // Nothing is wrong with the read: it is to be tried again.
                    false => {
                        let reason = format!(
                            "change [{change}] is committed and cannot be finished now: {}",
                            error.reason()
                        );
                        Error::new(ErrorKind::Timeout, reason).with_cause(error)
                    }
                })?;
            }
        }
        Ok(())
    }

    /// No change is running in these indices, and none begins.
    async fn hold_changes(&self, names: &BTreeSet<String>) -> Result<ChangeBarrier> {
        let targets = names.iter().map(|name| LockTarget::Index(IndexName::new(name.as_str())));
        self.hold_changes_on(targets).await
    }

    /// No change is running anywhere, and none begins.
    pub(super) async fn hold_all_changes(&self) -> Result<ChangeBarrier> {
        self.hold_changes_on([LockTarget::All].into_iter()).await
    }

    async fn hold_changes_on(&self, targets: impl Iterator<Item = LockTarget>) -> Result<ChangeBarrier> {
        let claims: Vec<Claim> = targets
            .map(|target| Claim {
                key: target.key(),
                mode: Mode::Shared,
                implied: false,
            })
            .collect();
        let barrier = ChangeBarrier {
            number: self.locks.table().raise_barrier(claims.clone()),
            table: self.locks.table.clone(),
        };
        let deadline = self.clock.monotonic() + PATIENCE;
        loop {
            let running = self.locks.table().running_on(&claims);
            if running.is_empty() {
                return Ok(barrier);
            }
            if let Some(why) = self.why_held_up(&running) {
                return Err(why);
            }
            if self.clock.monotonic() > deadline {
                let reason = format!("changes of these indices did not end within {PATIENCE:?}");
                return Err(Error::new(ErrorKind::Timeout, reason));
            }
            self.breathe().await;
        }
    }

    async fn searchable(&self, names: &BTreeSet<String>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let target = Target::of(names.iter().cloned().collect());
        self.engine.refresh(&target, None).await.map(|_| ())
    }
}
