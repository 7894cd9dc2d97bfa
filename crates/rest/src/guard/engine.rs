//! Single calls of a guarded engine.

use super::scope::Scope;
use ::engine::changes::ChangeFeed;
use ::engine::snapshots::Snapshots;
use ::engine::{
    Alteration, Altered, AtomicWrites, Barrier, Document, Engine, Extent, Inspected, Inspection, JoinKeys, KeysOf, Numbered,
    Outcome, Part, Read, Refresh, See, Staging, View, ViewPromise, Write, WriteOp,
};
use async_trait::async_trait;
use dsl::query::{Clause, Query};
use dsl::search::{SearchRequest, SearchResponse};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use model::{Cancellation, CommitSeq, DocId, Error, ErrorKind, Result, Target, Visibility};
use security::IndexRights;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The server's engine as one request of one principal may use it.
#[derive(Clone, Debug)]
pub(crate) struct GuardedEngine {
    pub(crate) scope: Arc<Scope>,
}

impl GuardedEngine {
    pub(super) fn inner(&self) -> &dyn Engine {
        self.scope.own_engine().as_ref()
    }

    async fn reading<'a>(&self, target: &'a Target) -> Result<Cow<'a, Target>> {
        self.scope.narrow(target, self.scope.reading()).await
    }

    /// One read, checked; `Some`: it was answered from what the principal sees.
    async fn read_shown(&self, read: &Read) -> Result<Option<Option<Document>>> {
        let name = read.at.index.as_str();
        self.check_by_id(name).await?;
        if self.scope.is_unbounded() || self.scope.visibility().is_none() {
            return Ok(None);
        }
        let target = Target {
            visibility: self.scope.visibility(),
            ..Target::index(name)
        };
        // What is withheld is told by queries, so a document is read as searches see it.
        let mut found = self
            .inner()
            .scan(&target, by_id(&read.at.id), read.see, Barrier::None)
            .await?;
        found.next().await.transpose().map(Some)
    }

    /// # Errors
    /// `security_exception`: documents of the index may not be read by id, or not by this endpoint.
    pub(super) async fn check_by_id(&self, name: &str) -> Result<()> {
        let rights = self.scope.reading_by_id();
        self.scope.check(name, rights).await?;
        self.scope.check_shown(name, rights).await
    }

    /// # Errors
    /// `security_exception`: a write without its right; an update of what is seen in part.
    pub(super) async fn check_write(&self, write: &Write) -> Result<()> {
        let name = write.at.index.as_str();
        for any_of in self.scope.rights_for_write(write) {
            self.scope.check(name, any_of).await?;
        }
        match write.op {
            WriteOp::Update(_) => self.scope.check_updated_whole(name),
            WriteOp::Put(_) | WriteOp::Delete => Ok(()),
        }
    }

    /// The items whose writes are allowed, and for each item its refusal, if it has one.
    pub(super) async fn allowed_writes<T: Send + Sync>(
        &self,
        items: Vec<T>,
        write_of: impl Fn(&T) -> &Write + Send + Sync,
    ) -> (Vec<T>, Vec<Option<Error>>) {
        let mut refusals = Vec::with_capacity(items.len());
        for item in &items {
            refusals.push(self.check_write(write_of(item)).await.err());
        }
        let allowed = std::iter::zip(items, &refusals).filter(|(_, refusal)| refusal.is_none());
        (allowed.map(|(item, _)| item).collect(), refusals)
    }
}

/// One document, as a query.
pub(super) fn by_id(id: &DocId) -> Query {
    let by_id = Clause::Ids {
        values: vec![id.id.to_string()],
        types: id.doc_type.iter().map(|doc_type| doc_type.to_string()).collect(),
    };
    by_id.into()
}

/// Outcomes in the places of the writes that were sent.
pub(super) fn merge_refusals(refusals: Vec<Option<Error>>, done: Vec<Outcome>) -> Vec<Outcome> {
    debug_assert_eq!(
        refusals.iter().filter(|refusal| refusal.is_none()).count(),
        done.len(),
        "security.md S5: each write that was let through has its outcome, and no other one"
    );
    let mut done = done.into_iter();
    let outcome = |refusal: Option<Error>| match refusal {
        Some(refusal) => Outcome::Refused(refusal),
        None => done.next().unwrap_or(Outcome::Unknown),
    };
    refusals.into_iter().map(outcome).collect()
}

#[async_trait]
impl Engine for GuardedEngine {
    async fn read(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        let mut out = Vec::with_capacity(reads.len());
        let mut plain = Vec::new();
        for read in reads {
            out.push(self.read_shown(&read).await?);
            if matches!(out.last(), Some(None)) {
                plain.push(read);
            }
        }
        let count = plain.len();
        let read = match plain.is_empty() {
            true => Vec::new(),
            false => self.inner().read(plain).await?,
        };
        debug_assert_eq!(
            read.len(),
            count,
            "security.md S6: documents that are read as they are stand in the places of their reads"
        );
        let mut read = read.into_iter();
        Ok(out
            .into_iter()
            .map(|one| one.unwrap_or_else(|| read.next().flatten()))
            .collect())
    }

    async fn read_together(&self, reads: Vec<Read>, bytes_max: usize) -> Result<Vec<Result<Option<Document>>>> {
        let mut shown = Vec::with_capacity(reads.len());
        let mut plain = Vec::new();
        for read in reads {
            let one = self.read_shown(&read).await;
            if matches!(one, Ok(None)) {
                plain.push(read);
            }
            shown.push(one);
        }
        let count = plain.len();
        let read = match plain.is_empty() {
            true => Vec::new(),
            false => self.inner().read_together(plain, bytes_max).await?,
        };
        assert!(
            read.len() <= count,
            "security.md S6: no more documents are answered than reads were let through"
        );
        let mut read = read.into_iter();
        let (mut out, mut bytes) = (Vec::with_capacity(shown.len()), 0);
        for one in shown {
            if bytes > bytes_max {
                break;
            }
            let found = match one.transpose() {
                Some(found) => found,
                None => match read.next() {
                    Some(found) => found,
                    // The engine stopped at the bound.
                    None => break,
                },
            };
            bytes += found
                .as_ref()
                .map_or(0, |found| found.as_ref().map_or(0, |d| d.source.0.len()));
            out.push(found);
        }
        Ok(out)
    }

    async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        let (allowed, refusals) = self.allowed_writes(writes, |write| write).await;
        let done = match allowed.is_empty() {
            true => Vec::new(),
            false => self.inner().write(allowed, refresh).await?,
        };
        Ok(merge_refusals(refusals, done))
    }

    async fn write_together(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        for write in &writes {
            self.check_write(write).await?;
        }
        self.inner().write_together(writes, refresh).await
    }

    fn writes_show_together(&self) -> bool {
        self.inner().writes_show_together()
    }

    async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>> {
        for write in writes {
            self.check_write(write).await?;
        }
        self.inner().rehearse(writes).await
    }

    async fn refresh(&self, target: &Target, at_least: Option<CommitSeq>) -> Result<u32> {
        let rights = self.scope.right.on_indices().unwrap_or(IndexRights::MAINTENANCE);
        let target = self.scope.narrow(target, rights | IndexRights::READ).await?;
        self.inner().refresh(&target, at_least).await
    }

    async fn open_view(&self, target: &Target, keep_alive: Duration, promise: ViewPromise) -> Result<View> {
        let target = self.reading(target).await?;
        self.inner().open_view(&target, keep_alive, promise).await
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
        let narrowed = self.reading(target).await?;
        for (name, _) in &request.indices_boost {
            if !name.contains('*') && !self.scope.is_unbounded() {
                self.scope.check(name, self.scope.reading()).await?;
            }
        }
        self.inner().search(&narrowed, request, see).await
    }

    async fn scan(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        let target = self.reading(target).await?;
        self.inner().scan(&target, query, see, barrier).await
    }

    async fn scan_view(&self, target: &Target, query: Query, view: &str) -> Result<BoxStream<'static, Result<Document>>> {
        let target = self.reading(target).await?;
        self.check_job(&target).await?;
        self.inner().scan_view(&target, query, view).await
    }

    async fn extents(&self, target: &Target, query: Query, view: &str, cancellation: Cancellation) -> Result<Vec<Extent>> {
        let target = self.reading(target).await?;
        self.check_job(&target).await?;
        self.inner().extents(&target, query, view, cancellation).await
    }

    async fn scan_by_seq_no(&self, target: &Target, query: Query, view: &str, part: Part) -> Result<Vec<Numbered>> {
        let target = self.reading(target).await?;
        self.inner().scan_by_seq_no(&target, query, view, part).await
    }

    async fn align(&self, targets: &[Target], promise: ViewPromise) -> Result<View> {
        let mut narrowed = Vec::with_capacity(targets.len());
        for target in targets {
            narrowed.push(self.reading(target).await?.into_owned());
        }
        self.inner().align(&narrowed, promise).await
    }

    async fn keys(&self, target: &Target, of: KeysOf) -> Result<JoinKeys> {
        let target = self.reading(target).await?;
        let joined_with = match of.joined_with {
            Some((other, field)) => Some((self.reading(&other).await?.into_owned(), field)),
            None => None,
        };
        self.inner().keys(&target, KeysOf { joined_with, ..of }).await
    }

    async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        let alteration = match self.scope.is_unbounded() {
            true => alteration,
            false => self.scope.restrict(alteration).await?,
        };
        self.inner().alter(alteration).await
    }

    async fn inspect(&self, inspection: Inspection) -> Result<Inspected> {
        let inspection = match inspection {
            Inspection::Indices(target) => {
                let target = self.narrow_listing(target).await?;
                return self.indices_shown(target).await;
            }
            Inspection::Stats(target) => {
                let target = self.narrow_listing(target).await?;
                return self.figures_shown(target).await;
            }
            Inspection::Validate { target, query } => Inspection::Validate {
                target: self
                    .scope
                    .narrow(&target, IndexRights::READ | IndexRights::VIEW_METADATA | IndexRights::MANAGE)
                    .await?
                    .into_owned(),
                query,
            },
            Inspection::TermVectors(mut of) => {
                of.visibility = self.visibility_of(of.index.as_str(), IndexRights::READ).await?;
                Inspection::TermVectors(of)
            }
            Inspection::Directories(mut of) => {
                let any_of = IndexRights::READ | IndexRights::MOVE;
                of.visibility = self.visibility_of(of.index.as_str(), any_of).await?;
                Inspection::Directories(of)
            }
            // Who may see these is asked at their endpoints; others work with them.
            open @ (Inspection::Templates(_) | Inspection::Script(_) | Inspection::ClusterSettings | Inspection::Node) => open,
        };
        self.inner().inspect(inspection).await
    }

    fn atomic(&self) -> Option<&dyn AtomicWrites> {
        self.inner().atomic().map(|_| self as &dyn AtomicWrites)
    }

    fn staging(&self) -> Option<&dyn Staging> {
        self.inner().staging().map(|_| self as &dyn Staging)
    }

    fn change_feed(&self) -> Option<&dyn ChangeFeed> {
        self.inner().change_feed().map(|_| self as &dyn ChangeFeed)
    }

    /// Snapshots take and make whole indices, so they belong to endpoints with a right on the cluster alone.
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        match self.scope.right.on_indices() {
            None => self.inner().snapshots(),
            Some(_) => None,
        }
    }
}

impl GuardedEngine {
    /// The indices of the catalog that a request is told of: all of them where its right is one on the cluster.
    async fn narrow_listing(&self, target: Target) -> Result<Target> {
        let Some(rights) = self.scope.right.on_indices() else {
            return Ok(target);
        };
        // What is named has been checked by what is done with it; any right lets the server look at it.
        let narrowed = self
            .scope
            .narrow_by(&target, IndexRights::ALL, rights | IndexRights::READ)
            .await?;
        Ok(narrowed.into_owned())
    }

    /// What is seen of one index; `None`: all.
    ///
    /// # Errors
    /// `security_exception`: without the right, or with documents or fields withheld that the endpoint does not keep to.
    async fn visibility_of(&self, name: &str, any_of: IndexRights) -> Result<Option<Visibility>> {
        if self.scope.is_unbounded() {
            return Ok(None);
        }
        self.scope.check(name, any_of).await?;
        self.scope.check_shown(name, any_of).await?;
        Ok(self.scope.visibility())
    }

    /// The inner engine's part that it was asked for before.
    pub(super) fn part<T>(part: Option<T>) -> Result<T> {
        part.ok_or_else(|| Error::new(ErrorKind::Internal, "an engine has lost a part of itself"))
    }
}
