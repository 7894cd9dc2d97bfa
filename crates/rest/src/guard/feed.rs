//! The feed of changes of a guarded engine: changes of indices that the principal may follow.

use super::engine::GuardedEngine;
use ::engine::changes::{ChangeFeed, Changes, Consumer, IndexState, InitialCopy, Retained};
use async_trait::async_trait;
use model::{CommitSeq, IndexName, Result};
use security::IndexRights;
use std::time::Duration;

impl GuardedEngine {
    fn feed(&self) -> Result<&dyn ChangeFeed> {
        Self::part(self.scope.engine.change_feed())
    }

    fn follows(&self, index: &IndexName) -> bool {
        let rights = &self.scope.principal.rights;
        rights.on(index.as_str()).shares(IndexRights::FOLLOW_CHANGES)
    }

    /// # Errors
    /// `security_exception`: a change would tell of documents and fields that are withheld.
    fn check_followed(&self) -> Result<()> {
        match self.scope.principal.rights.withholds() {
            true => Err(self.scope.withheld("the feed of changes", "_all")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl ChangeFeed for GuardedEngine {
    fn retained_range(&self) -> Retained {
        let none = Retained { oldest: 0, newest: 0 };
        self.feed().map_or(none, ChangeFeed::retained_range)
    }

    async fn changes(&self, since: CommitSeq, bytes_max: u64) -> Result<Changes> {
        self.check_followed()?;
        let mut found = self.feed()?.changes(since, bytes_max).await?;
        for change in &mut found.changes {
            change.operations.retain(|operation| self.follows(operation.index()));
        }
        found.changes.retain(|change| !change.operations.is_empty());
        Ok(found)
    }

    async fn wait_for_changes(&self, position: CommitSeq) -> Result<()> {
        self.feed()?.wait_for_changes(position).await
    }

    async fn open_copy(&self, patterns: &[String], keep_alive: Duration) -> Result<InitialCopy> {
        self.check_followed()?;
        self.feed()?.open_copy(patterns, keep_alive).await
    }

    fn copied_index(&self, copy: &str, after: Option<&IndexName>) -> Result<Option<IndexState>> {
        self.check_followed()?;
        let mut after = after.cloned();
        loop {
            let Some(state) = self.feed()?.copied_index(copy, after.as_ref())? else {
                return Ok(None);
            };
            if self.follows(&state.index) {
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
