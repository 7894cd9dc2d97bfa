//! Lookups and joins: each becomes a set of keys before the engine sees the query.
//!
//! One pass a clause, innermost first: the other side is scanned, the values of its field become a
//! [`KeySet`] (or `Terms` for a lookup). The clauses of one request see one after the other, not one
//! moment: alignment of views (write-path.md 6) is not built yet, and docs/relations/joins.md says so.

use dsl::aggs::{Agg, AggKind};
use dsl::query::{BoolQuery, Clause, JoinKind, JoinQuery, KeySet, Query, TermsLookup, TermsQuery};
use dsl::search::SearchRequest;
use engine::{Barrier, Engine, Read, See};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target, path};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys of one join, `search.max_join_keys`.
const KEYS_MAX: usize = 1_000_000;

/// The request with every lookup and join resolved.
pub(crate) async fn resolve(engine: &dyn Engine, mut request: SearchRequest) -> Result<SearchRequest> {
    if let Some(query) = request.query.take() {
        request.query = Some(resolve_query(engine, query).await?);
    }
    if let Some(query) = request.post_filter.take() {
        request.post_filter = Some(resolve_query(engine, query).await?);
    }
    for agg in &mut request.aggs {
        resolve_agg(engine, agg).await?;
    }
    Ok(request)
}

/// Aggregations' filters; their depth is bounded by the parser.
fn resolve_agg<'a>(engine: &'a dyn Engine, agg: &'a mut Agg) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        match &mut agg.kind {
            AggKind::Filter(query) => **query = resolve_query(engine, std::mem::replace(query, Query::all())).await?,
            AggKind::Filters { filters, .. } => {
                for (_, query) in filters {
                    *query = resolve_query(engine, std::mem::replace(query, Query::all())).await?;
                }
            }
            _ => {}
        }
        for sub in &mut agg.subs {
            resolve_agg(engine, sub).await?;
        }
        Ok(())
    })
}

/// A query with every lookup and join resolved; its depth is bounded by the parser.
pub(crate) fn resolve_query(engine: &dyn Engine, mut query: Query) -> BoxFuture<'_, Result<Query>> {
    Box::pin(async move {
        let mut children = Vec::new();
        query.children_mut(&mut |child| {
            children.push(std::mem::replace(child, Query::all()));
            Ok(())
        })?;
        let mut resolved = Vec::with_capacity(children.len());
        for child in children {
            resolved.push(resolve_query(engine, child).await?);
        }
        let mut next = resolved.into_iter();
        query.children_mut(&mut |child| {
            *child = next.next().unwrap_or_else(Query::all);
            Ok(())
        })?;
        let clause = match query.clause {
            Clause::TermsLookup(lookup) => terms(engine, lookup).await?,
            Clause::Join(join) => self::join(engine, join).await?,
            other => other,
        };
        Ok(Query { clause, ..query })
    })
}

/// A lookup as plain terms.
async fn terms(engine: &dyn Engine, lookup: TermsLookup) -> Result<Clause> {
    let index = lookup.index.clone().ok_or_else(|| {
        Error::new(
            ErrorKind::Parsing,
            "[terms] query lookup element requires specifying the index",
        )
    })?;
    let values = match (&lookup.id, lookup.query) {
        (Some(id), _) => {
            let id = match &lookup.doc_type {
                Some(doc_type) => DocId::typed(doc_type.as_str(), id.as_str()),
                None => DocId::plain(id.as_str()),
            };
            let mut read = Read::whole(DocAddress {
                index: IndexName::new(index),
                id,
            });
            read.routing = lookup.routing.clone();
            match engine.read(vec![read]).await?.pop().flatten() {
                Some(document) => values_at(&document.source.parse()?, &lookup.path),
                None => Vec::new(),
            }
        }
        (None, Some(query)) => collect(engine, &Target::index(&index), *query, &lookup.path).await?,
        (None, None) => {
            return Err(Error::new(
                ErrorKind::Parsing,
                "[terms] query lookup element requires specifying the id",
            ));
        }
    };
    Ok(Clause::Terms(TermsQuery {
        field: lookup.field,
        values,
        minimum_should_match: None,
    }))
}

/// A join as a key set.
async fn join(engine: &dyn Engine, join: JoinQuery) -> Result<Clause> {
    if join.inner_hits.is_some() {
        return Err(Error::illegal("[join] inner_hits are not supported yet"));
    }
    let target = Target::of(join.index.clone());
    let keys = collect(engine, &target, *join.query, &join.on.1).await?;
    let set = Clause::KeySet(KeySet {
        field: join.on.0,
        keys: Arc::new(keys),
        scores: None,
    });
    Ok(match join.kind {
        JoinKind::Semi => set,
        JoinKind::Anti => Clause::Bool(BoolQuery {
            must_not: vec![set.into()],
            ..BoolQuery::default()
        }),
        JoinKind::Left => Clause::MatchAll,
    })
}

/// Every value of `field` among the documents that match, without duplicates.
async fn collect(engine: &dyn Engine, target: &Target, query: Query, field: &str) -> Result<Vec<Value>> {
    let mut found = engine.scan(target, query, See::Plain, Barrier::None).await?;
    let mut seen = BTreeSet::new();
    let mut keys = Vec::new();
    while let Some(document) = found.next().await {
        let document = document?;
        let values = if field == "_id" {
            vec![Value::from(&*document.at.id.id)]
        } else {
            values_at(&document.source.parse()?, field)
        };
        for value in values {
            if seen.insert(value.to_string()) {
                keys.push(value);
            }
        }
        if keys.len() > KEYS_MAX {
            return Err(Error::new(
                ErrorKind::TooManyJoinKeys,
                format!("the join on [{field}] has more than [{KEYS_MAX}] keys, the limit of [search.max_join_keys]"),
            ));
        }
    }
    Ok(keys)
}

/// The scalar values at a path.
fn values_at(source: &Value, field: &str) -> Vec<Value> {
    path::read(source, field)
        .into_iter()
        .filter(|v| !v.is_null())
        .cloned()
        .collect()
}
