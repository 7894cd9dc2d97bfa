//! `inner_hits` of joins: for each hit of a page the documents of the other index that it is joined with.
//!
//! Not here: which hits there are.

use super::Partners;
use dsl::query::{BoolQuery, Clause, Query, TermsQuery};
use dsl::search::{Hits, SearchRequest};
use engine::{Engine, See};
use futures::future::BoxFuture;
use model::Result;

/// The fields of hits that partners are found by.
pub(crate) fn fields(partners: &[Partners]) -> Vec<String> {
    let mut out: Vec<String> = partners.iter().map(|one| one.on.0.clone()).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Adds partners to hits; joins in joins are bounded in depth.
pub(crate) fn attach<'a>(
    engine: &'a dyn Engine,
    view: Option<&'a str>,
    partners: &'a [Partners],
    hits: &'a mut Hits,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        for one in partners {
            for hit in &mut hits.hits {
                let own = hit.join_values.iter().find(|(field, _)| *field == one.on.0);
                let values = own.map(|(_, values)| values.clone()).unwrap_or_default();
                let mut found = if values.is_empty() {
                    Hits {
                        total: Some(dsl::search::Total { value: 0, exact: true }),
                        ..Hits::default()
                    }
                } else {
                    let joined = Clause::Terms(TermsQuery {
                        field: one.on.1.clone(),
                        values,
                        minimum_should_match: None,
                    });
                    let query: Query = Clause::Bool(BoolQuery {
                        must: vec![one.query.clone()],
                        filter: vec![joined.into()],
                        ..BoolQuery::default()
                    })
                    .into();
                    let request = SearchRequest {
                        query: Some(query),
                        view: view.map(str::to_owned),
                        join_fields: fields(&one.inner),
                        ..one.spec.request.clone()
                    };
                    engine.search(&one.target, request, See::Plain).await?.hits
                };
                attach(engine, view, &one.inner, &mut found).await?;
                hit.inner_hits.push((one.name.clone(), found));
            }
        }
        for hit in &mut hits.hits {
            hit.join_values.clear();
        }
        Ok(())
    })
}
