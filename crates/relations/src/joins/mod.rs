//! Lookups and joins: each becomes a set of keys before the engine sees the query.
//!
//! A request with joins or lookups reads one moment of all the indices it names ([`Engine::align`]): the other sides are
//! asked for their keys, innermost first, and looked up documents are read, in the same view in which the query then runs.
//! What a join's `inner_hits` want is looked up for the hits of the page, again in that view. A lookup means the document
//! as it is when the request comes, so what is newer than searches see is made searchable before the moment.
//!
//! Not here: how keys are collected and compared (the engine's), limits of memory (the engine's).

mod inner_hits;

pub(crate) use inner_hits::{attach, fields};

use dsl::query::{BoolQuery, Clause, InnerHits, JoinKind, JoinQuery, KeySet, Query, ScoreMode, TermsLookup, TermsQuery};
use dsl::search::{QueriesMut, Role, SearchRequest};
use engine::{Clock, Document, Engine, EngineExt as _, KeysOf, Read, View, is_staging};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use model::{Cancellation, DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target, path, settings};
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

/// The document of a lookup by id; `None`: it is by query, or does not say where.
fn read_of(target: &Target, lookup: &TermsLookup) -> Option<Read> {
    let id = lookup.id.as_ref()?;
    let id = match &lookup.doc_type {
        Some(doc_type) => DocId::typed(doc_type.as_str(), id.as_str()),
        None => DocId::plain(id.as_str()),
    };
    let index = lookup.index.clone().or_else(|| own_index(target))?;
    let index = IndexName::new(index);
    Some(Read {
        routing: lookup.routing.clone(),
        ..Read::whole(DocAddress { index, id })
    })
}

/// The typed dialect leaves the index of a lookup out where the document is in the index that is searched.
fn own_index(target: &Target) -> Option<String> {
    match target.expressions.as_slice() {
        [own] if !own.contains('*') && own != "_all" => Some(own.clone()),
        _ => None,
    }
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
            let (query, found) = self.query(target, query, depth).await?;
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
        Ok(shown)
    }

    /// A query whose partners nobody would see: asking for them is a mistake.
    pub(crate) async fn silent(&mut self, target: &Target, query: Query) -> Result<Query> {
        let (query, shown) = self.query(target, query, 0).await?;
        refuse_unseen(&shown)?;
        Ok(query)
    }

    /// A query with every lookup and join resolved; its depth is bounded by the parser. `target` is what it is
    /// asked of, `depth` how many joins it is in.
    fn query<'s>(&'s mut self, target: &'s Target, mut query: Query, depth: u64) -> BoxFuture<'s, Result<(Query, Vec<Shown>)>> {
        Box::pin(async move {
            if let Clause::Join(join) = query.clause {
                let found = self.join(target, join, depth).await;
                let (clause, shown) = found.map_err(|error| query.at.mark(error))?;
                return Ok((Query { clause, ..query }, shown));
            }
            if let Clause::TermsLookup(lookup) = query.clause {
                let found = self.lookup(target, lookup, depth).await;
                let clause = found.map_err(|error| query.at.mark(error))?;
                return Ok((Query { clause, ..query }, Vec::new()));
            }
            let mut children = Vec::new();
            query.children_mut(&mut |child| {
                children.push(std::mem::replace(child, Query::all()));
                Ok(())
            })?;
            let mut shown = Vec::new();
            let mut resolved = Vec::with_capacity(children.len());
            for child in children {
                let (child, found) = self.query(target, child, depth).await?;
                resolved.push(child);
                shown.extend(found);
            }
            let mut next = resolved.into_iter();
            query.children_mut(&mut |child| {
                *child = next.next().unwrap_or_else(Query::all);
                Ok(())
            })?;
            if let Some(spec) = query.inner_hits_mut() {
                self.parts(target, &mut spec.page, depth).await?;
            }
            // Joins with nested documents, children and parents are shown by them.
            if let (Clause::Nested(_) | Clause::HasChild(_) | Clause::HasParent(_), Some(lost)) = (&query.clause, shown.first()) {
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
                shown = vec![Shown::Inside { name, shown }];
            }
            Ok((query, shown))
        })
    }

    /// A lookup as plain terms, or as the keys of what its query finds.
    async fn lookup(&mut self, target: &Target, lookup: TermsLookup, depth: u64) -> Result<Clause> {
        let index = lookup.index.clone().or_else(|| own_index(target)).ok_or_else(|| {
            Error::new(
                ErrorKind::Parsing,
                "[terms] query lookup element requires specifying the index",
            )
        })?;
        let Some(read) = read_of(target, &lookup) else {
            let query = lookup
                .query
                .ok_or_else(|| Error::new(ErrorKind::Parsing, "[terms] query lookup element requires specifying the id"))?;
            let join = JoinQuery {
                index: vec![index],
                on: (lookup.field, lookup.path),
                query,
                kind: JoinKind::Semi,
                score_mode: ScoreMode::None,
                inner_hits: None,
            };
            return Ok(self.join(target, join, depth).await?.0);
        };
        let found = self.look_up(read).await?;
        let values = match found {
            Some(document) => values_at(&document.source.parse()?, &lookup.path),
            None => Vec::new(),
        };
        Ok(Clause::Terms(TermsQuery {
            field: lookup.field,
            values,
            minimum_should_match: None,
            disable_coord: false,
        }))
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

    /// A join as a key set.
    async fn join(&mut self, ours: &Target, join: JoinQuery, depth: u64) -> Result<(Clause, Vec<Shown>)> {
        if depth >= self.deepest {
            return Err(Error::illegal(format!(
                "[join] joins are more than [{}] deep, the limit of [search.max_join_depth]",
                self.deepest
            )));
        }
        let theirs = Target::of(join.index.clone());
        let (query, inner) = self.query(&theirs, *join.query, depth + 1).await?;
        let started = self.clock.monotonic();
        let found = self
            .engine
            .keys(
                &theirs,
                KeysOf {
                    query: query.clone(),
                    field: join.on.1.clone(),
                    scores: join.score_mode != ScoreMode::None,
                    view: self.view.map(str::to_owned),
                    joined_with: Some((ours.clone(), join.on.0.clone())),
                    types: Vec::new(),
                    cancellation: self.cancellation.clone(),
                },
            )
            .await?;
        self.profiles.push(Profile {
            index: join.index.join(","),
            on: join.on.clone(),
            keys: found.count,
            bytes: found.bytes,
            strategy: found.strategy,
            took: self.clock.monotonic().saturating_sub(started),
        });
        let set = Clause::KeySet(KeySet {
            field: join.on.0.clone(),
            keys: found.keys,
            score_mode: join.score_mode,
        });
        let clause = match join.kind {
            JoinKind::Semi => set,
            JoinKind::Anti => Clause::Bool(BoolQuery {
                must_not: vec![set.into()],
                ..BoolQuery::default()
            }),
            // Everything stays; what has a partner scores by it.
            JoinKind::Left => Clause::Bool(BoolQuery {
                filter: vec![Query::all()],
                should: vec![set.into()],
                ..BoolQuery::default()
            }),
        };
        let mut shown = Vec::new();
        match (join.inner_hits, inner.first()) {
            (Some(_), _) if join.kind == JoinKind::Anti => {
                return Err(Error::illegal(
                    "[join] of type [anti] has no inner_hits: its hits have no partners",
                ));
            }
            (Some(mut spec), _) => {
                self.parts(&theirs, &mut spec.page, depth + 1).await?;
                shown.push(Shown::Partners(Box::new(Partners {
                    name: spec.name.clone().unwrap_or_else(|| join.index.join(",")),
                    on: join.on,
                    target: theirs,
                    query,
                    spec: *spec,
                    inner,
                })));
            }
            (None, Some(lost)) => {
                return Err(Error::illegal(format!(
                    "[join] inner_hits [{}] are inside a join without inner_hits; ask for them there too",
                    lost.name()
                )));
            }
            (None, None) => {}
        }
        Ok((clause, shown))
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

/// The scalar values at a path.
fn values_at(source: &Value, field: &str) -> Vec<Value> {
    path::read(source, field)
        .into_iter()
        .filter(|v| !v.is_null())
        .cloned()
        .collect()
}
