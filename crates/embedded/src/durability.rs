//! What answers rest on, and the one way in which they wait for it.
//!
//! An answer that rests on a record leaves once that record is durable: the document that is shown, the conflict with
//! it, the refusal because an index is not there, the outcome that is repeated under a key. Positions come from the
//! documents that were read and, here, from the catalog: [`Store::rests_on`] compares what a name means in the newest
//! catalog with what it means in the newest that is durable, so that an alteration of one index holds up nobody else,
//! also when the log has failed and it never becomes durable.
//!
//! Growth of a mapping by a document counts only with that document: searches find documents in segments, and these
//! hold nothing that is not durable.
//!
//! Not here: waiting for a position (`log`), which document was read at which position (`evaluate`, `atomic_commit`).

use crate::EmbeddedEngine;
use crate::catalog::{Catalog, IndexEntry};
use crate::commit::WaitFor;
use crate::group_commit;
use crate::store::Store;
use engine::Outcome;
use model::{ErrorKind, Result};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Refusals that say what the server can do now, whatever was written before.
pub(crate) fn is_of_the_moment(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::RejectedExecution | ErrorKind::DiskFull | ErrorKind::LogFailed | ErrorKind::ContentTooLong
    )
}

impl Store {
    /// The catalog from here on; `end`: of the record that says so. The caller holds the sequencer.
    pub(crate) fn altered_to(&self, next: Catalog, end: u64) {
        let next = Arc::new(next);
        let mut catalogs = self.catalogs.lock();
        if catalogs.is_empty() {
            catalogs.push_back((0, self.catalog.load_full()));
        }
        catalogs.push_back((end, next.clone()));
        self.forget_older(&mut catalogs);
        drop(catalogs);
        // Before the catalog: who sees it knows what to wait for.
        self.altered_at.fetch_max(end, Ordering::AcqRel);
        self.catalog.store(next);
    }

    fn forget_older(&self, catalogs: &mut std::collections::VecDeque<(u64, Arc<Catalog>)>) {
        let durable = self.log.durable_position();
        while catalogs.get(1).is_some_and(|(end, _)| *end <= durable) {
            catalogs.pop_front();
        }
    }

    /// The position that an answer about these names or patterns waits for, as far as the catalog is concerned; 0: none.
    pub(crate) fn rests_on<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> u64 {
        let altered = self.altered_at.load(Ordering::Acquire);
        if altered <= self.log.durable_position() {
            return 0;
        }
        let mut catalogs = self.catalogs.lock();
        self.forget_older(&mut catalogs);
        let (Some((_, durable)), Some((end, newest))) = (catalogs.front().cloned(), catalogs.back().cloned()) else {
            return 0;
        };
        drop(catalogs);
        let differs = names.into_iter().any(|name| !means_the_same(&durable, &newest, name));
        if differs { end } else { 0 }
    }
}

/// Does a name or pattern mean the same indices, in the same state, in both?
fn means_the_same(one: &Catalog, other: &Catalog, name: &str) -> bool {
    let (mut left, mut right) = (meant(one, name), meant(other, name));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(left), Some(right)) if is_same(left, right) => {}
            _ => return false,
        }
    }
}

/// A pattern may mean any index; a name its index or those of its alias.
fn meant<'c>(catalog: &'c Catalog, name: &str) -> impl Iterator<Item = &'c Arc<IndexEntry>> {
    let is_pattern = name.is_empty() || name == "_all" || name.contains(['*', '<', ',']) || name.starts_with('-');
    let name = name.to_owned();
    catalog
        .indices
        .values()
        .filter(move |entry| is_pattern || entry.name.as_str() == name || entry.aliases.contains_key(&name))
}

/// For whoever reads or writes documents.
fn is_same(one: &Arc<IndexEntry>, other: &Arc<IndexEntry>) -> bool {
    let aliases = |entry: &IndexEntry| -> Value { entry.aliases.clone().into() };
    Arc::ptr_eq(one, other)
        || one.no == other.no
            && one.open == other.open
            && (Arc::ptr_eq(&one.settings, &other.settings) || one.settings == other.settings)
            && aliases(one) == aliases(other)
}

impl EmbeddedEngine {
    /// Waits until everything that an answer rests on is as durable as it has to be.
    ///
    /// # Errors
    /// LogFailed: it never will be before a restart, and nobody knows whether it is.
    pub(crate) async fn wait(&self, after: WaitFor) -> Result<()> {
        self.company.seen();
        if after.durable > self.store.log.durable_position() {
            group_commit::lead(&self.store.log, &self.company);
            self.store.log.durable(after.durable).await?;
        }
        if after.written > self.store.log.written_position() {
            self.store.log.written(after.written).await?;
        }
        Ok(())
    }

    /// An answer or a refusal about these names, once what they mean is durable.
    pub(crate) async fn answered<'n, T>(&self, names: impl IntoIterator<Item = &'n str>, done: Result<T>) -> Result<T> {
        if done.as_ref().is_err_and(|e| is_of_the_moment(e.kind())) {
            return done;
        }
        let durable = self.store.rests_on(names);
        if durable > 0 {
            self.wait(WaitFor { durable, written: 0 }).await?;
        }
        done
    }

    /// After the log failed, an answer that rests on nothing that was lost keeps its result; the outcome
    /// of every other write is unknown.
    pub(crate) fn known(&self, done: Vec<(Outcome, WaitFor, Option<u32>)>) -> Vec<Outcome> {
        let log = &self.store.log;
        let is_known = |after: WaitFor| after.durable <= log.durable_position() && after.written <= log.written_position();
        done.into_iter()
            .map(|(outcome, after, _)| if is_known(after) { outcome } else { Outcome::Unknown })
            .collect()
    }
}

/// What a target asks for; without expressions everything.
pub(crate) fn names_of(target: &model::Target) -> impl Iterator<Item = &str> {
    let all = target.expressions.is_empty().then_some("*");
    target.expressions.iter().map(String::as_str).chain(all)
}
