//! Lookups and joins: each becomes a set of keys before the engine sees the query.
//!
//! A request with joins reads one moment of all the indices it names ([`Engine::align`]): the other sides are
//! asked for their keys, innermost first, in the same view in which the query then runs. What a join's
//! `inner_hits` want is looked up for the hits of the page, again in that view.
//!
//! Not here: how keys are collected and compared (the engine's), limits of memory (the engine's).

mod inner_hits;

pub(crate) use inner_hits::{attach, fields};

use dsl::aggs::{Agg, AggKind};
use dsl::query::{BoolQuery, Clause, InnerHits, JoinKind, JoinQuery, KeySet, Place, Query, ScoreMode, TermsLookup, TermsQuery};
use dsl::search::SearchRequest;
use engine::{Clock, Engine, EngineExt as _, KeysOf, Read};
use futures::future::BoxFuture;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target, path, settings};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// What one join took.
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
    /// What partners match, resolved.
    pub(crate) query: Query,
    pub(crate) spec: InnerHits,
    /// Joins inside the query, with inner hits of their own.
    pub(crate) inner: Vec<Partners>,
}

/// Whether anything in a request is read from other indices, and from which.
pub(crate) fn targets(request: &SearchRequest) -> Option<Vec<Target>> {
    let mut out = None;
    let mut look = |query: &Query| gather(query, &mut out);
    request.query.iter().chain(&request.post_filter).for_each(&mut look);
    request.rescore.iter().for_each(|rescore| look(&rescore.query));
    let mut aggs: Vec<&Agg> = request.aggs.iter().collect();
    while let Some(agg) = aggs.pop() {
        match &agg.kind {
            AggKind::Filter(query) => look(query),
            AggKind::Filters { filters, .. } => filters.iter().for_each(|(_, query)| look(query)),
            _ => {}
        }
        aggs.extend(&agg.subs);
    }
    out
}

/// The indices that a query's joins name.
pub(crate) fn targets_of(query: &Query) -> Option<Vec<Target>> {
    let mut out = None;
    gather(query, &mut out);
    out
}

fn gather(query: &Query, out: &mut Option<Vec<Target>>) {
    query.visit(&mut |query| match &query.clause {
        Clause::Join(join) => out.get_or_insert_default().push(Target::of(join.index.clone())),
        Clause::TermsLookup(lookup) => {
            let list = out.get_or_insert_default();
            if let (Some(_), Some(index)) = (&lookup.query, &lookup.index) {
                list.push(Target::index(index));
            }
        }
        _ => {}
    });
}

/// Resolves the joins and lookups of one request.
pub(crate) struct Resolver<'a> {
    engine: &'a dyn Engine,
    clock: &'a dyn Clock,
    /// The view that everything is read in.
    view: Option<&'a str>,
    deepest: u64,
    pub(crate) profiles: Vec<Profile>,
}

impl<'a> Resolver<'a> {
    pub(crate) async fn new(engine: &'a dyn Engine, clock: &'a dyn Clock, view: Option<&'a str>) -> Result<Resolver<'a>> {
        Ok(Resolver {
            engine,
            clock,
            view,
            deepest: engine.cluster_number(settings::MAX_JOIN_DEPTH).await?,
            profiles: Vec::new(),
        })
    }

    /// The request with every lookup and join resolved, and the partners that its hits are to show.
    ///
    /// # Errors
    /// A lookup's, a join's.
    pub(crate) async fn request(
        &mut self,
        target: &Target,
        mut request: SearchRequest,
    ) -> Result<(SearchRequest, Vec<Partners>)> {
        let mut partners = Vec::new();
        for slot in [&mut request.query, &mut request.post_filter] {
            if let Some(query) = slot.take() {
                let (query, found) = self.query(target, query, 0).await?;
                *slot = Some(query);
                partners.extend(found);
            }
        }
        for rescore in &mut request.rescore {
            rescore.query = self
                .silent(target, std::mem::replace(&mut rescore.query, Query::all()))
                .await?;
        }
        for agg in &mut request.aggs {
            self.agg(target, agg).await?;
        }
        for (n, one) in partners.iter().enumerate() {
            if partners[..n].iter().any(|known| known.name == one.name) {
                return Err(Error::illegal(format!(
                    "[inner_hits] already contains an entry for key [{}]",
                    one.name
                )));
            }
        }
        Ok((request, partners))
    }

    /// Aggregations' filters; their depth is bounded by the parser.
    fn agg<'s>(&'s mut self, target: &'s Target, agg: &'s mut Agg) -> BoxFuture<'s, Result<()>> {
        Box::pin(async move {
            match &mut agg.kind {
                AggKind::Filter(query) => {
                    **query = self.silent(target, std::mem::replace(query, Query::all())).await?;
                }
                AggKind::Filters { filters, .. } => {
                    for (_, query) in filters {
                        *query = self.silent(target, std::mem::replace(query, Query::all())).await?;
                    }
                }
                _ => {}
            }
            for sub in &mut agg.subs {
                self.agg(target, sub).await?;
            }
            Ok(())
        })
    }

    /// A query whose partners nobody would see: asking for them is a mistake.
    pub(crate) async fn silent(&mut self, target: &Target, query: Query) -> Result<Query> {
        let (query, partners) = self.query(target, query, 0).await?;
        match partners.first() {
            None => Ok(query),
            Some(one) => Err(Error::illegal(format!(
                "[join] inner_hits [{}] belong to a query or a post_filter; nothing shows them here",
                one.name
            ))),
        }
    }

    /// A query with every lookup and join resolved; its depth is bounded by the parser. `target` is what it is
    /// asked of, `depth` how many joins it is in.
    fn query<'s>(
        &'s mut self,
        target: &'s Target,
        mut query: Query,
        depth: u64,
    ) -> BoxFuture<'s, Result<(Query, Vec<Partners>)>> {
        Box::pin(async move {
            if let Clause::Join(join) = query.clause {
                let (clause, partners) = self.join(target, join, depth).await?;
                return Ok((Query { clause, ..query }, partners));
            }
            if let Clause::TermsLookup(lookup) = query.clause {
                let clause = self.lookup(target, lookup, depth).await?;
                return Ok((Query { clause, ..query }, Vec::new()));
            }
            // Hits inside nested documents and families are the engine's: their partners have no place there.
            let inside = matches!(query.clause, Clause::Nested(_) | Clause::HasChild(_) | Clause::HasParent(_));
            let mut children = Vec::new();
            query.children_mut(&mut |child| {
                children.push(std::mem::replace(child, Query::all()));
                Ok(())
            })?;
            let mut partners = Vec::new();
            let mut resolved = Vec::with_capacity(children.len());
            for child in children {
                let (child, found) = self.query(target, child, depth).await?;
                resolved.push(child);
                partners.extend(found);
            }
            if inside && let Some(one) = partners.first() {
                return Err(Error::illegal(format!(
                    "[join] inner_hits [{}] inside [nested], [has_child] or [has_parent] are not supported",
                    one.name
                )));
            }
            let mut next = resolved.into_iter();
            query.children_mut(&mut |child| {
                *child = next.next().unwrap_or_else(Query::all);
                Ok(())
            })?;
            Ok((query, partners))
        })
    }

    /// A lookup as plain terms, or as the keys of what its query finds.
    async fn lookup(&mut self, target: &Target, lookup: TermsLookup, depth: u64) -> Result<Clause> {
        let index = lookup.index.clone().ok_or_else(|| {
            Error::new(
                ErrorKind::Parsing,
                "[terms] query lookup element requires specifying the index",
            )
        })?;
        let Some(id) = &lookup.id else {
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
                at: Place::default(),
            };
            return Ok(self.join(target, join, depth).await?.0);
        };
        let id = match &lookup.doc_type {
            Some(doc_type) => DocId::typed(doc_type.as_str(), id.as_str()),
            None => DocId::plain(id.as_str()),
        };
        let mut read = Read::whole(DocAddress {
            index: IndexName::new(index),
            id,
        });
        read.routing = lookup.routing.clone();
        let values = match self.engine.read(vec![read]).await?.pop().flatten() {
            Some(document) => values_at(&document.source.parse()?, &lookup.path),
            None => Vec::new(),
        };
        Ok(Clause::Terms(TermsQuery {
            field: lookup.field,
            values,
            minimum_should_match: None,
        }))
    }

    /// A join as a key set.
    async fn join(&mut self, ours: &Target, join: JoinQuery, depth: u64) -> Result<(Clause, Vec<Partners>)> {
        let at = join.at;
        self.join_at(ours, join, depth).await.map_err(|error| {
            // Lookups of 2015 and tests make clauses that stand nowhere.
            if at.line > 0 && error.status() == 400 && error.details().get("line").is_none() {
                error.with("line", at.line).with("col", at.col)
            } else {
                error
            }
        })
    }

    async fn join_at(&mut self, ours: &Target, join: JoinQuery, depth: u64) -> Result<(Clause, Vec<Partners>)> {
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
        let mut partners = Vec::new();
        match (join.inner_hits, inner.first()) {
            (Some(_), _) if join.kind == JoinKind::Anti => {
                return Err(Error::illegal(
                    "[join] of type [anti] has no inner_hits: its hits have no partners",
                ));
            }
            (Some(spec), _) => partners.push(Partners {
                name: spec.name.clone().unwrap_or_else(|| join.index.join(",")),
                on: join.on,
                target: theirs,
                query,
                spec: *spec,
                inner,
            }),
            (None, Some(lost)) => {
                return Err(Error::illegal(format!(
                    "[join] inner_hits [{}] are inside a join without inner_hits; ask for them there too",
                    lost.name
                )));
            }
            (None, None) => {}
        }
        Ok((clause, partners))
    }
}

/// The scalar values at a path.
fn values_at(source: &Value, field: &str) -> Vec<Value> {
    path::read(source, field)
        .into_iter()
        .filter(|v| !v.is_null())
        .cloned()
        .collect()
}
