//! An engine around another, to change some of its calls and pass the others on: for tests that stop, watch or delay.
//!
//! Required calls go to the inner engine; provided ones are worked out from them, as for any engine.
//! Not here: what is changed.

use crate::{
    Alteration, Altered, AtomicWrites, Barrier, Document, Engine, Inspected, Inspection, Outcome, Read, Refresh, See, Staging,
    View, ViewPromise, Write,
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
    /// [`Engine::scan`], after [`Around::before`].
    async fn scans(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        self.inner().scan(target, query, see, barrier).await
    }
    /// The most that views promise.
    fn view_promise(&self) -> ViewPromise {
        ViewPromise::OneMoment
    }
    /// [`Engine::atomic`]: not the inner one's, whose writes would pass by.
    fn section(&self) -> Option<&dyn AtomicWrites> {
        None
    }
    /// [`Engine::staging`]: nor is this, unless it is passed on.
    fn inner_staging(&self) -> Option<&dyn Staging> {
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
    async fn open_view(&self, target: &Target, keep_alive: Duration, promise: ViewPromise) -> Result<View> {
        let most = self.view_promise();
        most.check(promise)?;
        let view = self.inner().open_view(target, keep_alive, promise).await?;
        let promise = view.promise.min(most);
        Ok(View { promise, ..view })
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
        self.scans(target, query, see, barrier).await
    }
    async fn scan_view(&self, target: &Target, query: Query, view: &str) -> Result<BoxStream<'static, Result<Document>>> {
        self.before().await;
        self.inner().scan_view(target, query, view).await
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
        self.inner_staging()
    }
}
