//! An engine around another, to change some of its calls and pass the others on: for tests that stop, watch or delay.
//!
//! What an engine must have goes to the inner one; what [`Engine`] provides is worked out by that, as for any engine.
//! Not here: what is changed.

use crate::{
    Alteration, Altered, AtomicWrites, Barrier, Document, Engine, Inspected, Inspection, Outcome, Read, Refresh, See, Staging,
    View, Write,
};
use async_trait::async_trait;
use dsl::query::Query;
use dsl::search::{SearchRequest, SearchResponse};
use futures::stream::BoxStream;
use model::{CommitSeq, Result, Target};
use std::fmt;
use std::time::Duration;

/// Which calls differ. Whoever is this is an [`Engine`].
#[async_trait]
pub trait Around: fmt::Debug + Send + Sync + 'static {
    /// Where calls go.
    fn inner(&self) -> &dyn Engine;
    /// Comes before what is rehearsed, refreshed, searched or scanned.
    async fn before(&self) {}
    /// [`Engine::read`].
    async fn reads(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        self.inner().read(reads).await
    }
    /// [`Engine::write`].
    async fn writes(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.inner().write(writes, refresh).await
    }
    /// [`Engine::atomic`]: not the inner one's, whose writes would pass by.
    fn section(&self) -> Option<&dyn AtomicWrites> {
        None
    }
    /// [`Engine::staging`]: nor is this, unless it is passed on.
    fn staged(&self) -> Option<&dyn Staging> {
        None
    }
}

#[async_trait]
impl<A: Around> Engine for A {
    async fn read(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        self.reads(reads).await
    }
    async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.writes(writes, refresh).await
    }
    async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>> {
        self.before().await;
        self.inner().rehearse(writes).await
    }
    async fn refresh(&self, target: &Target, at_least: Option<CommitSeq>) -> Result<u32> {
        self.before().await;
        self.inner().refresh(target, at_least).await
    }
    async fn open_view(&self, target: &Target, keep_alive: Duration) -> Result<View> {
        self.inner().open_view(target, keep_alive).await
    }
    async fn renew_view(&self, view: &str, keep_alive: Duration) -> Result<()> {
        self.inner().renew_view(view, keep_alive).await
    }
    async fn close_view(&self, view: &str) -> Result<bool> {
        self.inner().close_view(view).await
    }
    async fn views(&self) -> Result<Vec<View>> {
        self.inner().views().await
    }
    async fn search(&self, target: &Target, request: SearchRequest, see: See) -> Result<SearchResponse> {
        self.before().await;
        self.inner().search(target, request, see).await
    }
    async fn scan(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        self.before().await;
        self.inner().scan(target, query, see, barrier).await
    }
    async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        self.inner().alter(alteration).await
    }
    async fn inspect(&self, inspection: Inspection) -> Result<Inspected> {
        self.inner().inspect(inspection).await
    }
    fn atomic(&self) -> Option<&dyn AtomicWrites> {
        self.section()
    }
    fn staging(&self) -> Option<&dyn Staging> {
        self.staged()
    }
}
