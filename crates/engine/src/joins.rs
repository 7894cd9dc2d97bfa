//! The one resolution of joins and lookups: each becomes a set of keys, or plain terms, innermost first.
//!
//! [`resolve`] walks a query and asks [`JoinSides`] for what is on the other sides. Joins of requests read through an engine, and
//! wait for it; joins in the filters of aliases read the sets of one moment, and wait for nothing (search.md S17).
//!
//! Not here: how keys are collected and compared, which moment is read, what hits show of their partners.

use crate::{Document, Source};
use async_trait::async_trait;
use dsl::query::{BoolQuery, Clause, InnerHits, JoinKind, JoinQuery, KeySet, Keys, Query, ScoreMode, TermsLookup, TermsQuery};
use futures::future::BoxFuture;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target, path};
use serde_json::Value;

/// A join whose own query has no joins any more.
#[derive(Debug)]
pub struct ResolvedJoin {
    /// The indices of the other side, as the join names them.
    pub index: Vec<String>,
    /// The same as a target.
    pub theirs: Target,
    /// Our field and theirs.
    pub on: (String, String),
    /// Which documents it keeps.
    pub kind: JoinKind,
    /// How partners score. `None`: not at all.
    pub score_mode: ScoreMode,
    /// The partners match it.
    pub query: Query,
    /// So many joins are around it.
    pub depth: u64,
}

/// A lookup by id.
#[derive(Debug)]
pub struct ResolvedLookup {
    /// The document.
    pub at: DocAddress,
    /// Its routing, if the lookup names one.
    pub routing: Option<String>,
    /// So many joins are around it.
    pub depth: u64,
}

/// The other sides of joins and lookups.
#[async_trait]
pub trait JoinSides: Send {
    /// The joins of a query that its hits show.
    type Shown: Send;
    /// May a join stand so many joins deep?
    ///
    /// # Errors
    /// The limit, by its setting.
    fn check_depth(&self, depth: u64) -> Result<()>;
    /// Do the documents of this query score? A filter's do not.
    fn scores(&self) -> bool;
    /// The keys that the documents of the other side have. `ours`: the indices of this side.
    ///
    /// # Errors
    /// A missing index, a field that cannot join, limits of memory.
    async fn keys(&mut self, ours: &Target, join: &ResolvedJoin) -> Result<Keys>;
    /// The document that a lookup names.
    ///
    /// # Errors
    /// A missing index.
    async fn document(&mut self, lookup: ResolvedLookup) -> Result<Option<Document>>;
    /// A join as hits show it. `inner`: the joins that its partners show.
    ///
    /// # Errors
    /// Inner hits where no hit shows them.
    async fn show(
        &mut self,
        join: ResolvedJoin,
        inner_hits: Option<Box<InnerHits>>,
        inner: Vec<Self::Shown>,
    ) -> Result<Vec<Self::Shown>>;
    /// A clause that is no join, as hits show it. `shown`: the same of the clauses inside it.
    ///
    /// # Errors
    /// As [`JoinSides::show`].
    async fn enclose(
        &mut self,
        ours: &Target,
        query: &mut Query,
        depth: u64,
        shown: Vec<Self::Shown>,
    ) -> Result<Vec<Self::Shown>>;
}

/// A query with every lookup and join resolved, and what its hits show of them. `ours`: the indices that it is asked of. The
/// parser bounds the depth of a query.
pub fn resolve<'s, S: JoinSides>(
    sides: &'s mut S,
    ours: &'s Target,
    mut query: Query,
    depth: u64,
) -> BoxFuture<'s, Result<(Query, Vec<S::Shown>)>> {
    Box::pin(async move {
        match query.clause {
            Clause::Join(join) => {
                let (clause, shown) = resolve_join(sides, ours, join, depth)
                    .await
                    .map_err(|error| query.at.mark(error))?;
                return Ok((Query { clause, ..query }, shown));
            }
            Clause::TermsLookup(lookup) => {
                let clause = resolve_lookup(sides, ours, lookup, depth)
                    .await
                    .map_err(|error| query.at.mark(error))?;
                return Ok((Query { clause, ..query }, Vec::new()));
            }
            clause => query.clause = clause,
        }
        let mut children = Vec::new();
        query.children_mut(&mut |child| {
            children.push(std::mem::replace(child, Query::all()));
            Ok(())
        })?;
        let mut shown = Vec::new();
        let mut resolved = Vec::with_capacity(children.len());
        for child in children {
            let (child, of_child) = resolve(sides, ours, child, depth).await?;
            resolved.push(child);
            shown.extend(of_child);
        }
        let mut next = resolved.into_iter();
        query.children_mut(&mut |child| {
            *child = next.next().unwrap_or_else(Query::all);
            Ok(())
        })?;
        assert!(next.next().is_none(), "each query that was taken out of another is put back");
        let shown = sides.enclose(ours, &mut query, depth, shown).await?;
        Ok((query, shown))
    })
}

async fn resolve_join<S: JoinSides>(
    sides: &mut S,
    ours: &Target,
    join: JoinQuery,
    depth: u64,
) -> Result<(Clause, Vec<S::Shown>)> {
    sides.check_depth(depth)?;
    let theirs = Target::of(join.index.clone());
    let (query, inner) = resolve(sides, &theirs, *join.query, depth + 1).await?;
    debug_assert!(!has_joins(&query), "search.md S17: keys are asked for innermost first");
    let resolved = ResolvedJoin {
        index: join.index,
        theirs,
        on: join.on,
        kind: join.kind,
        score_mode: if sides.scores() { join.score_mode } else { ScoreMode::None },
        query,
        depth,
    };
    let keys = sides.keys(ours, &resolved).await?;
    let set = KeySet {
        field: resolved.on.0.clone(),
        keys,
        score_mode: resolved.score_mode,
    };
    let clause = clause_of(resolved.kind, set);
    let shown = sides.show(resolved, join.inner_hits, inner).await?;
    Ok((clause, shown))
}

/// A lookup as plain terms, or as the keys of the documents that its query finds.
async fn resolve_lookup<S: JoinSides>(sides: &mut S, ours: &Target, lookup: TermsLookup, depth: u64) -> Result<Clause> {
    let missing = |what: &str| {
        let reason = format!("[terms] query lookup element requires specifying the {what}");
        Error::new(ErrorKind::Parsing, reason)
    };
    let index = lookup
        .index
        .clone()
        .or_else(|| own_index(ours))
        .ok_or_else(|| missing("index"))?;
    let Some(at) = lookup_address(ours, &lookup) else {
        let join = JoinQuery {
            index: vec![index],
            on: (lookup.field, lookup.path),
            query: lookup.query.ok_or_else(|| missing("id"))?,
            kind: JoinKind::Semi,
            score_mode: ScoreMode::None,
            inner_hits: None,
        };
        return Ok(resolve_join(sides, ours, join, depth).await?.0);
    };
    let document = sides.document(ResolvedLookup {
        at,
        routing: lookup.routing,
        depth,
    });
    let values = match document.await? {
        Some(document) => values_at(&document.source, &lookup.path)?,
        None => Vec::new(),
    };
    Ok(Clause::Terms(TermsQuery {
        field: lookup.field,
        values,
        minimum_should_match: None,
        disable_coord: false,
    }))
}

/// The clause that stands for a join.
fn clause_of(kind: JoinKind, set: KeySet) -> Clause {
    let set = Clause::KeySet(set);
    match kind {
        JoinKind::Semi => set,
        JoinKind::Anti => Clause::Bool(BoolQuery {
            must_not: vec![set.into()],
            ..BoolQuery::default()
        }),
        // Everything stays; a document with a partner scores by it.
        JoinKind::Left => Clause::Bool(BoolQuery {
            filter: vec![Query::all()],
            should: vec![set.into()],
            ..BoolQuery::default()
        }),
    }
}

/// The document of a lookup by id; `None`: it is by query, or does not say where.
pub fn lookup_address(ours: &Target, lookup: &TermsLookup) -> Option<DocAddress> {
    let id = lookup.id.as_ref()?;
    let id = match &lookup.doc_type {
        Some(doc_type) => DocId::with_type(doc_type.as_str(), id.as_str()),
        None => DocId::plain(id.as_str()),
    };
    let index = lookup.index.clone().or_else(|| own_index(ours))?;
    Some(DocAddress {
        index: IndexName::new(index),
        id,
    })
}

/// The typed dialect leaves the index of a lookup out where the document is in the index that is searched.
fn own_index(ours: &Target) -> Option<String> {
    match ours.expressions.as_slice() {
        [own] if !own.contains('*') && own != "_all" => Some(own.clone()),
        _ => None,
    }
}

/// Does a query have joins or lookups?
pub fn has_joins(query: &Query) -> bool {
    let mut found = false;
    query.visit(&mut |query| found |= matches!(query.clause, Clause::Join(_) | Clause::TermsLookup(_)));
    found
}

/// The scalar values at a path.
fn values_at(source: &Source, field: &str) -> Result<Vec<Value>> {
    let source = source.parse()?;
    let values = path::read(&source, field).into_iter();
    Ok(values.filter(|value| !value.is_null()).cloned().collect())
}
