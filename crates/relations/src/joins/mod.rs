//! Lookups and joins: each becomes a set of keys before the engine sees the query.
//!
//! A request with joins or lookups reads one moment of all the indices it names ([`Engine::align`]): the other sides are
//! asked for their keys, innermost first, and looked up documents are read, in the same view in which the query then runs.
//! The `inner_hits` of a join are looked up for the hits of the page, again in that view. A lookup means the document
//! as it is when the request comes, so what is newer than searches see is made searchable before the moment.
//!
//! Not here: the walk through a query (`engine::joins`), how keys are collected and compared, limits of memory (the engine's).

mod inner_hits;

pub(crate) use inner_hits::{attach, fields};

use async_trait::async_trait;
use dsl::query::{Clause, InnerHits, JoinKind, Keys, Query, ScoreMode, TermsLookup};
use dsl::search::{QueriesMut, Role, SearchRequest};
use engine::joins::{JoinSides, ResolvedJoin, ResolvedLookup, lookup_address, resolve};
use engine::{Clock, Document, Engine, EngineExt as _, KeysOf, Read, View, is_staging};
use futures::StreamExt as _;
use model::{Cancellation, DocAddress, Error, Result, Target, settings};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The cost of one join.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    index: String,
    on: (String, String),
    keys: u64,
    bytes: u64,
    strategy: &'static str,
    took: Duration,
}

impl Profile {
    /// As `profile` shows it.
    pub(crate) fn render(&self) -> Value {
        let mut on = Map::new();
        on.insert(self.on.0.clone(), self.on.1.clone().into());
        json!({
            "index": self.index,
            "on": on,
            "keys": self.keys,
            "keys_in_bytes": self.bytes,
            "strategy": self.strategy,
            "took_in_millis": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "took_in_nanos": u64::try_from(self.took.as_nanos()).unwrap_or(u64::MAX),
        })
    }
}

/// A join whose partners are shown with each hit.
#[derive(Clone, Debug)]
pub(crate) struct Partners {
    pub(crate) name: String,
    /// Our field and theirs.
    pub(crate) on: (String, String),
    pub(crate) target: Target,
    /// The query of partners, resolved.
    pub(crate) query: Query,
    pub(crate) spec: InnerHits,
    /// Joins inside the query, as partners show them.
    pub(crate) inner: Vec<Shown>,
}

/// Joins that the hits of a level show.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// Partners in another index.
    Partners(Box<Partners>),
    /// Joins that inner hits of the engine (nested documents, children, parents) show.
    Inside { name: String, shown: Vec<Shown> },
}

impl Shown {
    fn name(&self) -> &str {
        match self {
            Shown::Partners(one) => &one.name,
            Shown::Inside { name, .. } => name,
        }
    }
}

/// Whether anything in a request is read from other indices, and from which.
pub(crate) fn targets(request: &mut dyn QueriesMut) -> Option<Vec<Target>> {
    let mut out = None;
    // Nothing fails here.
    let _ = request.queries_mut(&mut |_, query| {
        gather(query, &mut out);
        Ok(())
    });
    out
}

/// The indices that a query's joins name.
pub(crate) fn targets_of(query: &Query) -> Option<Vec<Target>> {
    let mut out = None;
    gather(query, &mut out);
    out
}

/// The documents whose terms a request over this target looks up.
pub(crate) fn lookups(target: &Target, request: &mut dyn QueriesMut) -> Vec<Read> {
    let mut out = Vec::new();
    // Nothing fails here.
    let _ = request.queries_mut(&mut |_, query| {
        gather_lookups(target, query, &mut out);
        Ok(())
    });
    out
}

/// The documents whose terms a query looks up.
pub(crate) fn lookups_of(target: &Target, query: &Query) -> Vec<Read> {
    let mut out = Vec::new();
    gather_lookups(target, query, &mut out);
    out
}

fn gather_lookups(target: &Target, query: &Query, out: &mut Vec<Read>) {
    query.visit(&mut |query| {
        if let Clause::TermsLookup(lookup) = &query.clause {
            out.extend(read_of(target, lookup));
        }
        if let Some((_, spec)) = query.inner_hits() {
            out.extend(lookups(target, &mut spec.page.clone()));
        }
    });
}

/// The read of a lookup by id; `None`: it is by query, or does not say where.
fn read_of(target: &Target, lookup: &TermsLookup) -> Option<Read> {
    Some(Read {
        routing: lookup.routing.clone(),
        ..Read::whole(lookup_address(target, lookup)?)
    })
}

/// The index of a looked up document, to be in a moment if it is there: a missing one is refused where the query names it.
pub(crate) fn lookup_target(read: &Read) -> Target {
    Target {
        ignore_unavailable: true,
        allow_no_indices: true,
        ..Target::index(read.at.index.as_str())
    }
}

/// A document as a view shows it.
pub(crate) async fn read_in_view(engine: &dyn Engine, at: DocAddress, view: &str) -> Result<Option<Document>> {
    let by_id = Clause::Ids {
        values: vec![at.id.id.to_string()],
        types: at.id.doc_type.iter().map(|doc_type| doc_type.to_string()).collect(),
    };
    let target = lookup_target(&Read::whole(at));
    engine.scan_view(&target, by_id.into(), view).await?.next().await.transpose()
}

fn gather(query: &Query, out: &mut Option<Vec<Target>>) {
    query.visit(&mut |query| {
        match &query.clause {
            Clause::Join(join) => out.get_or_insert_default().push(Target::of(join.index.clone())),
            Clause::TermsLookup(lookup) => {
                let list = out.get_or_insert_default();
                if let (Some(_), Some(index)) = (&lookup.query, &lookup.index) {
                    list.push(Target::index(index));
                }
            }
            _ => {}
        }
        // Inner hits have queries of their own, in sorts and highlights.
        if let Some((_, spec)) = query.inner_hits() {
            let inside = targets(&mut spec.page.clone());
            if let Some(inside) = inside {
                out.get_or_insert_default().extend(inside);
            }
        }
    });
}

/// Resolves the joins and lookups of one request.
pub(crate) struct Resolver<'a> {
    engine: &'a dyn Engine,
    clock: &'a dyn Clock,
    /// The view that everything is read in.
    view: Option<&'a str>,
    deepest: u64,
    /// The cancellation of the request that is resolved.
    cancellation: Cancellation,
    pub(crate) profiles: Vec<Profile>,
}

impl<'a> Resolver<'a> {
    pub(crate) async fn new(engine: &'a dyn Engine, clock: &'a dyn Clock, view: Option<&'a str>) -> Result<Resolver<'a>> {
        Ok(Resolver {
            engine,
            clock,
            view,
            deepest: engine.cluster_number(settings::MAX_JOIN_DEPTH).await?,
            cancellation: Cancellation::default(),
            profiles: Vec::new(),
        })
    }

    /// The request with every lookup and join resolved, and what its hits are to show of them.
    ///
    /// # Errors
    /// A lookup's, a join's.
    pub(crate) async fn request(&mut self, target: &Target, mut request: SearchRequest) -> Result<(SearchRequest, Vec<Shown>)> {
        self.cancellation = request.cancellation.clone();
        let shown = self.parts(target, &mut request, 0).await?;
        // The engine looks at its own inner hits alone.
        let mut own = Vec::new();
        request
            .query
            .iter()
            .chain(&request.post_filter)
            .for_each(|q| own_names(q, &mut own));
        let of_joins = shown.iter().filter(|one| matches!(one, Shown::Partners(_)));
        let mut names = own;
        for name in of_joins.map(Shown::name) {
            if names.iter().any(|known| known == name) {
                return Err(Error::illegal(format!(
                    "[inner_hits] already contains an entry for key [{name}]"
                )));
            }
            names.push(name.to_owned());
        }
        request.join_fields = fields(&shown);
        Ok((request, shown))
    }

    /// Resolves every query of a request, `depth` joins deep.
    async fn parts(&mut self, target: &Target, request: &mut (dyn QueriesMut + Send), depth: u64) -> Result<Vec<Shown>> {
        let mut taken = Vec::new();
        request.queries_mut(&mut |role, query| {
            taken.push((role, std::mem::replace(query, Query::all())));
            Ok(())
        })?;
        let mut shown = Vec::new();
        let mut resolved = Vec::with_capacity(taken.len());
        for (role, query) in taken {
            let (query, found) = resolve(self, target, query, depth).await?;
            if role == Role::Finds {
                shown.extend(found);
            } else {
                refuse_unseen(&found)?;
            }
            resolved.push(query);
        }
        let mut next = resolved.into_iter();
        request.queries_mut(&mut |_, query| {
            *query = next.next().unwrap_or_else(Query::all);
            Ok(())
        })?;
        assert!(
            next.next().is_none(),
            "each query that was taken out of a request is put back"
        );
        Ok(shown)
    }

    /// A query whose partners nobody would see: asking for them is a mistake.
    pub(crate) async fn silent(&mut self, target: &Target, query: Query) -> Result<Query> {
        let (query, shown) = resolve(self, target, query, 0).await?;
        refuse_unseen(&shown)?;
        Ok(query)
    }

    /// A document as the moment of the request shows it; without a moment, or where its index is not in it, the newest.
    async fn look_up(&self, read: Read) -> Result<Option<Document>> {
        if let Some((view, staging)) = self.view.filter(|view| is_staging(view)).zip(self.engine.staging()) {
            // Writes of a transaction are found as well.
            let seen = staging.read(view, vec![read]).await?.pop().transpose()?;
            return Ok(seen.and_then(|seen| seen.document));
        }
        // An unreadable document is refused so, and an alias is brought to its index.
        let newest = self.engine.read(vec![read.clone()]).await?.pop().flatten();
        let Some(view) = self.view else { return Ok(newest) };
        let at = newest.as_ref().map_or(&read.at, |document| &document.at);
        if let Some(shown) = read_in_view(self.engine, at.clone(), view).await? {
            return Ok(Some(shown));
        }
        let open = self.engine.views().await?;
        let is_in = |open: &View| open.indices.contains(&at.index);
        match open.iter().find(|open| open.id == view) {
            Some(open) if !is_in(open) => Ok(newest),
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl JoinSides for Resolver<'_> {
    type Shown = Shown;

    fn check_depth(&self, depth: u64) -> Result<()> {
        if depth < self.deepest {
            return Ok(());
        }
        Err(Error::illegal(format!(
            "[join] joins are more than [{}] deep, the limit of [search.max_join_depth]",
            self.deepest
        )))
    }

    fn scores(&self) -> bool {
        true
    }

    async fn keys(&mut self, ours: &Target, join: &ResolvedJoin) -> Result<Keys> {
        let started = self.clock.monotonic();
        let of = KeysOf {
            query: join.query.clone(),
            field: join.on.1.clone(),
            scores: join.score_mode != ScoreMode::None,
            view: self.view.map(str::to_owned),
            joined_with: Some((ours.clone(), join.on.0.clone())),
            types: Vec::new(),
            cancellation: self.cancellation.clone(),
        };
        let found = self.engine.keys(&join.theirs, of).await?;
        self.profiles.push(Profile {
            index: join.index.join(","),
            on: join.on.clone(),
            keys: found.count,
            bytes: found.bytes,
            strategy: found.strategy,
            took: self.clock.monotonic().saturating_sub(started),
        });
        Ok(found.keys)
    }

    async fn document(&mut self, lookup: ResolvedLookup) -> Result<Option<Document>> {
        self.look_up(Read {
            routing: lookup.routing,
            ..Read::whole(lookup.at)
        })
        .await
    }

    async fn show(&mut self, join: ResolvedJoin, inner_hits: Option<Box<InnerHits>>, inner: Vec<Shown>) -> Result<Vec<Shown>> {
        match (inner_hits, inner.first()) {
            (Some(_), _) if join.kind == JoinKind::Anti => Err(Error::illegal(
                "[join] of type [anti] has no inner_hits: its hits have no partners",
            )),
            (Some(mut spec), _) => {
                self.parts(&join.theirs, &mut spec.page, join.depth + 1).await?;
                Ok(vec![Shown::Partners(Box::new(Partners {
                    name: spec.name.clone().unwrap_or_else(|| join.index.join(",")),
                    on: join.on,
                    target: join.theirs,
                    query: join.query,
                    spec: *spec,
                    inner,
                }))])
            }
            (None, Some(lost)) => Err(Error::illegal(format!(
                "[join] inner_hits [{}] are inside a join without inner_hits; ask for them there too",
                lost.name()
            ))),
            (None, None) => Ok(Vec::new()),
        }
    }

    async fn enclose(&mut self, ours: &Target, query: &mut Query, depth: u64, shown: Vec<Shown>) -> Result<Vec<Shown>> {
        if let Some(spec) = query.inner_hits_mut() {
            self.parts(ours, &mut spec.page, depth).await?;
        }
        // Hits of nested documents, children and parents show the joins inside.
        let is_own = matches!(query.clause, Clause::Nested(_) | Clause::HasChild(_) | Clause::HasParent(_));
        let (true, Some(lost)) = (is_own, shown.first()) else {
            return Ok(shown);
        };
        let Some((name, _)) = query.inner_hits() else {
            return Err(Error::illegal(format!(
                "[join] inner_hits [{}] are inside [nested], [has_child] or [has_parent] without inner_hits; \
                 ask for them there too",
                lost.name()
            )));
        };
        if let Some(spec) = query.inner_hits_mut() {
            spec.page.join_fields = fields(&shown);
        }
        Ok(vec![Shown::Inside { name, shown }])
    }
}

/// Inner hits of joins have no place where no hit shows them.
fn refuse_unseen(shown: &[Shown]) -> Result<()> {
    fn innermost(shown: &[Shown]) -> Option<&str> {
        match shown.first()? {
            Shown::Inside { shown, .. } => innermost(shown),
            Shown::Partners(one) => Some(&one.name),
        }
    }
    innermost(shown).map_or(Ok(()), |name| {
        Err(Error::illegal(format!(
            "[join] inner_hits [{name}] belong to a query or a post_filter; nothing shows them here"
        )))
    })
}

/// The names of inner hits that the engine gives the hits of a query.
fn own_names(query: &Query, out: &mut Vec<String>) {
    if let Clause::Nested(_) | Clause::HasChild(_) | Clause::HasParent(_) = query.clause {
        out.extend(query.inner_hits().map(|(name, _)| name));
        return;
    }
    // Nothing fails here.
    let _ = query.children(&mut |child| {
        own_names(child, out);
        Ok(())
    });
}
