//! The calls of `engine::snapshots::Snapshots`: each goes to the store on a thread that may take its time, and is answered once it is
//! durable. A repository in a folder answers as fast as the disk; where a server is asked, the workers of searches do not wait for it.

use crate::EmbeddedEngine;
use crate::catalog::repositories;
use crate::wait_for::WaitFor;
use async_trait::async_trait;
use engine::snapshots::{CloneOrder, Repository, RestoreOrder, Restored, Running, SnapshotOrder, Snapshots};
use engine::tasks::Task;
use model::Result;
use snapshot::{Contents, Removed, Summary};
use std::sync::Arc;

impl EmbeddedEngine {
    async fn durable(&self, position: u64) -> Result<()> {
        self.wait(WaitFor {
            durable: position,
            ..WaitFor::default()
        })
        .await
    }

    /// Runs what asks a repository of this kind and is over soon.
    async fn ask_repository<T: Send + 'static>(
        &self,
        kind: &str,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if kind == "fs" {
            return self.workers.run(work).await;
        }
        let _permit = self.repository_requests.acquire().await.map_err(|cause| fault(&cause))?;
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|cause| Err(fault(&cause)))
    }

    /// The kind of a repository that is registered.
    fn kind_of(&self, repository: &str) -> String {
        let found = repositories::find(&self.store.catalog.now(), repository);
        // Who asks next is told that it is missing.
        found.map_or_else(|_| "fs".to_owned(), |found| found.kind)
    }
}

#[async_trait]
impl Snapshots for EmbeddedEngine {
    fn repositories(&self) -> Vec<Repository> {
        repositories::all(&self.store.catalog.now())
    }

    async fn put_repository(&self, repository: Repository, verify: bool) -> Result<()> {
        let store = self.store.clone();
        let kind = repository.kind.clone();
        let put = move || store.put_repository(&repository, verify);
        let end = self.ask_repository(&kind, put).await?;
        self.durable(end).await
    }

    async fn delete_repositories(&self, names: Vec<String>) -> Result<()> {
        let store = self.store.clone();
        let end = self.workers.run(move || store.delete_repositories(&names)).await?;
        self.durable(end).await
    }

    async fn verify_repository(&self, name: &str) -> Result<()> {
        let (store, name) = (self.store.clone(), name.to_owned());
        self.copiers.run(move || store.verify_repository(&name)).await
    }

    async fn clean_repository(&self, name: &str) -> Result<Removed> {
        let (store, name) = (self.store.clone(), name.to_owned());
        self.copiers.run(move || store.clean_repository(&name)).await
    }

    async fn list(&self, repository: &str) -> Result<Vec<Arc<Summary>>> {
        let (store, kind, repository) = (self.store.clone(), self.kind_of(repository), repository.to_owned());
        self.ask_repository(&kind, move || store.list_snapshots(&repository)).await
    }

    async fn contents(&self, repository: &str, snapshot: &str) -> Result<Contents> {
        let (store, kind, snapshot) = (self.store.clone(), self.kind_of(repository), snapshot.to_owned());
        let repository = repository.to_owned();
        let read = move || store.snapshot_contents(&repository, &snapshot);
        self.ask_repository(&kind, read).await.map(|(_, contents)| contents)
    }

    fn running(&self) -> Vec<Running> {
        let running = self.store.snapshots.running();
        running.iter().map(|one| one.status()).collect()
    }

    async fn begin(&self, order: SnapshotOrder) -> Result<String> {
        let (store, kind) = (self.store.clone(), self.kind_of(&order.repository));
        self.ask_repository(&kind, move || store.begin_snapshot(order)).await
    }

    async fn run(&self, uuid: &str, task: Arc<Task>) -> Result<Arc<Summary>> {
        // Everything acknowledged, also what was only written (`async`).
        let end = self.store.log.end_position();
        let written = self.store.log.durable(end).await;
        let (store, own) = (self.store.clone(), uuid.to_owned());
        let taken = match written {
            Ok(()) => self.copiers.run(move || store.run_snapshot(&own, &task)).await,
            Err(error) => Err(error),
        };
        // Also one that did not get so far.
        self.store.snapshots.end(uuid);
        taken
    }

    async fn delete(&self, repository: &str, names: Vec<String>) -> Result<()> {
        let (store, repository) = (self.store.clone(), repository.to_owned());
        // Not behind the snapshot that it gives up.
        let done = tokio::task::spawn_blocking(move || store.delete_snapshots(&repository, &names)).await;
        done.unwrap_or_else(|cause| Err(fault(&cause)))
    }

    async fn clone_snapshot(&self, order: CloneOrder) -> Result<()> {
        let store = self.store.clone();
        self.copiers.run(move || store.clone_snapshot(&order)).await
    }

    async fn check_restore(&self, order: &RestoreOrder) -> Result<()> {
        let (store, kind, order) = (self.store.clone(), self.kind_of(&order.repository), order.clone());
        self.ask_repository(&kind, move || store.check_restore(&order)).await
    }

    async fn restore(&self, order: RestoreOrder, task: Arc<Task>) -> Result<Restored> {
        let store = self.store.clone();
        let (restored, end) = self.copiers.run(move || store.restore_snapshot(&order, &task)).await?;
        self.durable(end).await?;
        Ok(restored)
    }
}

fn fault(cause: &impl std::fmt::Display) -> model::Error {
    model::Error::new(
        model::ErrorKind::Internal,
        format!("the work ended by a fault of the server: {cause}"),
    )
}
