//! The feed of changes of a guarded engine: changes of indices that the principal may follow, with the fields that are granted.

use super::engine::GuardedEngine;
use ::engine::changes::{Change, ChangeFeed, Changes, Consumer, IndexState, InitialCopy, Operation, Retained};
use ::engine::{EngineExt as _, Source};
use async_trait::async_trait;
use mapping::{granted_body, granted_mappings, has_type_level};
use model::{CommitSeq, DocumentRights, IndexName, Result, Target};
use security::IndexRights;
use std::sync::Arc;
use std::time::Duration;

impl GuardedEngine {
    fn feed(&self) -> Result<&dyn ChangeFeed> {
        Self::part(self.scope.own_engine().change_feed())
    }

    fn follows(&self, index: &IndexName) -> bool {
        let rights = &self.scope.principal.rights;
        rights.on(index.as_str()).shares(IndexRights::FOLLOW_CHANGES)
    }

    /// # Errors
    /// `security_exception`: an index that is followed has documents that are withheld. A change of one does not say whether
    /// the principal saw the document before, so it cannot be told as what it is to them.
    async fn check_followed(&self) -> Result<()> {
        if self.scope.visibility().is_none() {
            return Ok(());
        }
        let all = Target {
            expand_closed: true,
            expand_hidden: true,
            forbid_closed: false,
            allow_no_indices: true,
            ..Target::of(Vec::new())
        };
        for info in self.inner().indices(&all).await? {
            let seen = self.document_rights(&info.name);
            let restricted = !seen.queries.is_empty() || !seen.fields.is_all() && info.typed;
            if self.follows(&info.name) && restricted {
                return Err(self.scope.withheld("the feed of changes", info.name.as_str()));
            }
        }
        Ok(())
    }

    /// What is seen of an index that is followed.
    fn document_rights(&self, index: &IndexName) -> DocumentRights {
        let visibility = self.scope.visibility();
        visibility
            .map(|visibility| visibility.of(&[index.as_str()]))
            .unwrap_or_default()
    }

    /// An operation without the fields that are withheld; `None`: the principal does not follow its index.
    fn restrict(&self, mut operation: Operation) -> Option<Operation> {
        if !self.follows(operation.index()) {
            return None;
        }
        let seen = self.document_rights(operation.index());
        if seen.is_all() {
            return Some(operation);
        }
        // Of an index that is gone: those that are there are refused.
        if !seen.queries.is_empty() {
            return None;
        }
        match &mut operation {
            Operation::Index(document) => {
                let shown = |source: &Source| seen.fields.filter_source_bytes(&source.0).map(|bytes| Source(bytes.into()));
                if let Some(source) = shown(&document.source) {
                    document.source = source;
                }
                if let Some(stored) = document.stored_fields.as_ref().and_then(shown) {
                    document.stored_fields = Some(stored);
                }
            }
            Operation::CreateIndex(state) | Operation::RestoreIndex(state) | Operation::AlterIndex(state) => {
                state.mappings = granted_mappings(&seen.fields, &state.mappings, has_type_level(&state.mappings));
            }
            Operation::PutMapping { mapping, .. } => *mapping = granted_body(&seen.fields, mapping),
            Operation::Directory { field, .. } if !seen.fields.grants(field) => return None,
            Operation::Directory { .. } | Operation::Delete { .. } | Operation::DeleteIndex(_) => {}
        }
        Some(operation)
    }
}

#[async_trait]
impl ChangeFeed for GuardedEngine {
    fn retained_range(&self) -> Retained {
        let none = Retained { oldest: 0, newest: 0 };
        self.feed().map_or(none, ChangeFeed::retained_range)
    }

    async fn changes(&self, since: CommitSeq, bytes_max: u64) -> Result<Changes> {
        self.check_followed().await?;
        let mut found = self.feed()?.changes(since, bytes_max).await?;
        let restrict = |change: Arc<Change>| {
            let change = Arc::unwrap_or_clone(change);
            let operations = change.operations.into_iter();
            let operations: Vec<_> = operations.filter_map(|operation| self.restrict(operation)).collect();
            let commit_seq = change.commit_seq;
            (!operations.is_empty()).then(|| Arc::new(Change { commit_seq, operations }))
        };
        found.changes = found.changes.into_iter().filter_map(restrict).collect();
        Ok(found)
    }

    async fn wait_for_changes(&self, position: CommitSeq) -> Result<()> {
        self.feed()?.wait_for_changes(position).await
    }

    async fn open_copy(&self, patterns: &[String], keep_alive: Duration) -> Result<InitialCopy> {
        self.check_followed().await?;
        self.feed()?.open_copy(patterns, keep_alive).await
    }

    fn copied_index(&self, copy: &str, after: Option<&IndexName>) -> Result<Option<IndexState>> {
        let mut after = after.cloned();
        loop {
            let Some(mut state) = self.feed()?.copied_index(copy, after.as_ref())? else {
                return Ok(None);
            };
            assert!(
                after.as_ref().is_none_or(|after| *after < state.index),
                "the indices of a copy come in the order of their names, or a reader goes round and round: {:?}",
                state.index
            );
            let seen = self.document_rights(&state.index);
            if self.follows(&state.index) && seen.queries.is_empty() {
                state.mappings = granted_mappings(&seen.fields, &state.mappings, has_type_level(&state.mappings));
                return Ok(Some(state));
            }
            after = Some(state.index);
        }
    }

    fn consumers(&self) -> Vec<Consumer> {
        self.feed().map_or_else(|_| Vec::new(), ChangeFeed::consumers)
    }

    async fn put_consumer(&self, name: &str, position: CommitSeq, consumers_max: usize) -> Result<()> {
        self.feed()?.put_consumer(name, position, consumers_max).await
    }

    async fn delete_consumer(&self, name: &str) -> Result<bool> {
        self.feed()?.delete_consumer(name).await
    }
}
