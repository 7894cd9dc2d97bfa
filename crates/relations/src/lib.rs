//! Everything that spans documents: lookups, joins, by-query jobs, locks, sessions, changes, links.
//!
//! Made of the engine's per-document calls alone. Not here: HTTP, tantivy, a runtime.

use async_recursion::async_recursion as boxed;
use dsl::search::{SearchRequest, SearchResponse};
use engine::tasks::Tasks;
use engine::{Clock, Document, Engine, Read, See, ViewPromise};
use model::{DocAddress, Result, Target};
use std::ops::Deref;
use std::sync::Arc;

mod atomically;
mod control;
mod digest;
pub mod expiry;
pub mod intents;
pub mod jobs;
mod joins;
mod kept_time;
mod lease_ends;
pub mod leases;
mod link_jobs;
pub mod link_policies;
pub mod links;
pub mod lock_documents;
pub mod locks;
mod outcomes;
pub mod percolation;
pub mod repair;
pub mod schema;
pub mod script_execution;
pub mod sessions;
pub mod transactions;
pub mod trees;

/// The façade that `rest` calls.
#[derive(Clone, Debug)]
pub struct Relations {
    engine: Arc<dyn Engine>,
    /// The same for every principal.
    shared: Arc<Shared>,
}

/// The state behind every [`Relations`] of one server, whoever asks.
#[derive(Clone, Debug)]
pub struct Shared {
    clock: Arc<dyn Clock>,
    tasks: Arc<Tasks>,
    locks: leases::Locks,
    portable: Option<Arc<transactions::by_intents::Portable>>,
    held: transactions::interactive::Registry,
    kept_time: Arc<kept_time::KeptTime>,
    control: control::Control,
    links: links::Links,
    /// The name of this server, by which the ids that it gives out begin.
    server: Arc<str>,
}

impl Deref for Relations {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Relations {
    /// Over an engine, in a server of this name. No two servers over one store have the same: ids of locks, transactions and
    /// sessions begin with it.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, tasks: Arc<Tasks>, server: &str) -> Relations {
        let server: Arc<str> = Arc::from(server);
        let shared = Shared {
            kept_time: Arc::new(kept_time::KeptTime::new(clock.as_ref())),
            clock,
            tasks,
            locks: leases::Locks::default(),
            held: transactions::interactive::Registry::of(server.clone()),
            control: control::Control::default(),
            links: links::Links::default(),
            portable: None,
            server,
        };
        Relations {
            engine,
            shared: Arc::new(shared),
        }
    }

    /// The same locks, links and transactions over the engine as somebody else may use it.
    #[must_use]
    pub fn acting_on(&self, engine: Arc<dyn Engine>) -> Relations {
        Relations {
            engine,
            shared: self.shared.clone(),
        }
    }

    /// Changes by the portable path: compare-and-set of single documents, on any engine. Waiting comes from outside.
    #[must_use]
    pub fn by_portable_path(self, pause: Arc<dyn intents::Pause>) -> Relations {
        let session = Arc::from(format!("{}.{:013x}", self.server, self.clock.random() >> 12));
        self.by_portable_path_in(pause, session, intents::Room::default())
    }

    /// The same for a server with a session of this name, and with this much room in a record. [`Relations::recover`] opens
    /// the session.
    #[must_use]
    pub fn by_portable_path_in(self, pause: Arc<dyn intents::Pause>, session: Arc<str>, room: intents::Room) -> Relations {
        let kept_time = self.kept_time.clone();
        let portable = transactions::by_intents::Portable::new(&self.engine, &self.clock, pause, kept_time, session, room);
        let shared = Shared {
            portable: Some(Arc::new(portable)),
            ..Arc::unwrap_or_clone(self.shared)
        };
        Relations {
            engine: self.engine,
            shared: Arc::new(shared),
        }
    }

    /// The time by which kept outcomes grow old.
    pub(crate) fn kept_now(&self) -> i64 {
        self.kept_time.now_ms(self.clock.as_ref())
    }

    /// When a lease ends that ends now.
    pub(crate) fn ends_now(&self) -> leases::EndedAt {
        leases::EndedAt {
            wall_ms: self.clock.wall_ms(),
            kept_ms: self.kept_now(),
        }
    }

    /// Everything that is answered from the table of locks is durable.
    ///
    /// # Errors
    /// The log failed: some of it may be taken back by a restart.
    #[boxed]
    pub async fn locks_settled(&self) -> Result<()> {
        match self.engine.atomic() {
            Some(atomic) => atomic.wait_exclusive_durable().await,
            None => Ok(()),
        }
    }

    /// An id that no restart gives out again, and that names its server.
    fn new_id(&self, kind: &str) -> String {
        format!("{}:{kind}{:013x}", self.server, self.clock.random() >> 12)
    }

    /// An id with a place in every queue.
    fn new_place(&self, kind: &str) -> leases::Place {
        leases::Place {
            owner: locks::Owner::new(self.new_id(kind)),
            age: self.locks.table().next_age(),
        }
    }

    /// A search with its lookups and joins.
    ///
    /// # Errors
    /// The engine's; a lookup's; too many join keys.
    #[boxed]
    pub async fn search(&self, target: &Target, mut request: SearchRequest) -> Result<SearchResponse> {
        let Some(mut others) = joins::targets(&mut request) else {
            return self.engine.search(target, request, See::Plain).await;
        };
        if request.view.is_some() {
            return Box::pin(self.search_in_view(target, request)).await;
        }
        others.extend(self.refresh_lookups(joins::lookups(target, &mut request)).await?);
        let moment = self.moment(target, others, ViewPromise::MomentPerShard).await?;
        let request = SearchRequest {
            view: Some(moment.clone()),
            ..request
        };
        let answer = Box::pin(self.search_in_view(target, request)).await;
        self.engine.close_view(&moment).await?;
        answer
    }

    /// Makes documents that are looked up searchable as they are now, so that a moment shows them so. Where they are, to be
    /// in that moment.
    pub(crate) async fn refresh_lookups(&self, reads: Vec<Read>) -> Result<Vec<Target>> {
        let mut targets = Vec::with_capacity(reads.len());
        for read in reads {
            let newest = Read { counted: false, ..read };
            let of_searches = Read {
                searchable_only: true,
                ..newest.clone()
            };
            // An unreadable document is refused where the query names it.
            if let (Ok(found), Ok(shown)) = (
                self.engine.read(vec![newest.clone()]).await,
                self.engine.read(vec![of_searches]).await,
            ) {
                let stamp = |found: Vec<Option<Document>>| found.into_iter().flatten().next().map(|document| document.stamp);
                if stamp(found) != stamp(shown) {
                    self.engine.refresh(&joins::lookup_target(&newest), None).await?;
                }
            }
            targets.push(joins::lookup_target(&newest));
        }
        Ok(targets)
    }

    /// A view of a target and of everything joined with it; the caller closes it.
    ///
    /// # Errors
    /// The engine's views promise less than is asked for.
    pub(crate) async fn moment(&self, target: &Target, mut others: Vec<Target>, promise: ViewPromise) -> Result<String> {
        others.insert(0, target.clone());
        let view = self.engine.align(&others, promise).await?;
        debug_assert!(view.promise >= promise, "a view promises what was asked for");
        Ok(view.id)
    }

    /// A search with joins, in the view that it names.
    async fn search_in_view(&self, target: &Target, request: SearchRequest) -> Result<SearchResponse> {
        let view = request.view.clone();
        let profile = request.profile;
        let mut resolver = joins::Resolver::new(self.engine.as_ref(), self.clock.as_ref(), view.as_deref()).await?;
        let (request, shown) = resolver.request(target, request).await?;
        let profiles = resolver.profiles;
        let mut response = self.engine.search(target, request, See::Plain).await?;
        joins::attach(self.engine.as_ref(), view.as_deref(), &shown, &mut response.hits).await?;
        if profile {
            let shown = response.profile.get_or_insert_with(|| serde_json::json!({ "shards": [] }));
            shown["join"] = profiles.iter().map(joins::Profile::render).collect();
        }
        Ok(response)
    }

    /// One moment of a target and of what a request reads beside it, for requests that read more than once. Searches and
    /// [`Relations::query_in`] name it as their view; [`Relations::close_moment`] ends it.
    ///
    /// # Errors
    /// A missing index; too many views.
    #[boxed]
    pub async fn open_moment(&self, target: &Target, request: &SearchRequest) -> Result<String> {
        let mut request = request.clone();
        let mut others = joins::targets(&mut request).unwrap_or_default();
        others.extend(self.refresh_lookups(joins::lookups(target, &mut request)).await?);
        self.moment(target, others, ViewPromise::MomentPerShard).await
    }

    /// Ends a moment.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn close_moment(&self, moment: &str) -> Result<()> {
        self.engine.close_view(moment).await.map(|_| ())
    }

    /// A document as a moment shows it, by the name of its index, not of an alias.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn read_in_moment(&self, at: DocAddress, moment: &str) -> Result<Option<Document>> {
        joins::read_in_view(self.engine.as_ref(), at, moment).await
    }

    /// As [`Relations::query`], read in a moment.
    ///
    /// # Errors
    /// As [`Relations::search`].
    #[boxed]
    pub async fn query_in(&self, target: &Target, query: dsl::query::Query, moment: &str) -> Result<dsl::query::Query> {
        self.resolve_in_view(target, query, Some(moment)).await
    }

    /// A query with its lookups and joins resolved, for requests that are no searches.
    ///
    /// # Errors
    /// As [`Relations::search`].
    #[boxed]
    pub async fn query(&self, target: &Target, query: dsl::query::Query) -> Result<dsl::query::Query> {
        if joins::targets_of(&query).is_none() {
            return Ok(query);
        }
        self.resolve_in_view(target, query, None).await
    }

    /// As [`Relations::query`], read in a view.
    pub(crate) async fn resolve_in_view(
        &self,
        target: &Target,
        query: dsl::query::Query,
        view: Option<&str>,
    ) -> Result<dsl::query::Query> {
        let mut resolver = joins::Resolver::new(self.engine.as_ref(), self.clock.as_ref(), view).await?;
        resolver.silent(target, query).await
    }

    /// A view for a client, with what the joins of a request read in it too.
    ///
    /// # Errors
    /// Too many views are open; missing indices.
    #[boxed]
    pub async fn open_view(
        &self,
        target: &Target,
        request: &SearchRequest,
        keep_alive: std::time::Duration,
    ) -> Result<engine::View> {
        let mut request = request.clone();
        let mut others = joins::targets(&mut request).unwrap_or_default();
        others.extend(self.refresh_lookups(joins::lookups(target, &mut request)).await?);
        if others.is_empty() {
            return self.engine.open_view(target, keep_alive, ViewPromise::MomentPerShard).await;
        }
        // Names, not patterns: what a pattern takes out for one must stay in for the other.
        use engine::EngineExt as _;
        let mut names = Vec::new();
        for target in std::iter::once(target).chain(&others) {
            names.extend(
                self.engine
                    .indices(target)
                    .await?
                    .into_iter()
                    .map(|info| info.name.to_string()),
            );
        }
        names.sort_unstable();
        names.dedup();
        self.engine
            .open_view(&Target::of(names), keep_alive, ViewPromise::MomentPerShard)
            .await
    }
}
