//! `inner_hits` of joins: for each hit of a page the documents of the other index that it is joined with; of hits
//! inside hits likewise.
//!
//! Not here: which hits there are.

use super::{Partners, Shown};
use dsl::query::{BoolQuery, Clause, Query, TermsQuery};
use dsl::search::{Collapse, Hit, Hits, SearchRequest};
use engine::{Engine, See};
use futures::future::BoxFuture;
use model::Result;

/// The fields of hits that partners are found by.
pub(crate) fn fields(shown: &[Shown]) -> Vec<String> {
    let mut out: Vec<String> = shown
        .iter()
        .filter_map(|one| match one {
            Shown::Partners(one) => Some(one.on.0.clone()),
            Shown::Inside { .. } => None,
        })
        .collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// Adds partners to hits; joins in joins are bounded in depth.
pub(crate) fn attach<'a>(
    engine: &'a dyn Engine,
    view: Option<&'a str>,
    shown: &'a [Shown],
    hits: &'a mut Hits,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        for hit in &mut hits.hits {
            for one in shown {
                match one {
                    Shown::Partners(one) => {
                        let found = partners(engine, view, one, hit).await?;
                        hit.inner_hits.push((one.name.clone(), found));
                    }
                    Shown::Inside { name, shown } => {
                        for (_, inside) in hit.inner_hits.iter_mut().filter(|(known, _)| known == name) {
                            attach(engine, view, shown, inside).await?;
                        }
                    }
                }
            }
            hit.join_values.clear();
        }
        Ok(())
    })
}

/// The partners of one hit.
async fn partners(engine: &dyn Engine, view: Option<&str>, one: &Partners, hit: &Hit) -> Result<Hits> {
    let own = hit.join_values.iter().find(|(field, _)| *field == one.on.0);
    let values = own.map(|(_, values)| values.clone()).unwrap_or_default();
    if values.is_empty() {
        return Ok(Hits {
            total: Some(dsl::search::Total { value: 0, exact: true }),
            ..Hits::default()
        });
    }
    let joined = Clause::Terms(TermsQuery {
        field: one.on.1.clone(),
        values,
        minimum_should_match: None,
        disable_coord: false,
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
        collapse: one.spec.collapse.clone().map(|field| Collapse {
            field,
            inner_hits: Vec::new(),
            max_concurrent_group_searches: None,
        }),
        ..SearchRequest::from(one.spec.page.clone())
    };
    let mut found = engine.search(&one.target, request, See::Plain).await?.hits;
    attach(engine, view, &one.inner, &mut found).await?;
    Ok(found)
}
