//! Hits inside aggregations: the fetch phase for `top_hits`, with what its aggregation says of it.

use super::fetch::{Fetch, Shelf};
use crate::aggs;
use crate::plan::Context;
use dsl::aggs::TopHitsAgg;
use dsl::query::Query;
use dsl::search::{Hit, SearchRequest};
use model::{Dialect, Error, Result};

/// Fetches for one request.
pub(crate) struct TopHits<'a> {
    pub(crate) cx: &'a Context<'a>,
    /// The query of the request: what is highlighted.
    pub(crate) query: Option<&'a Query>,
    pub(crate) dialect: Dialect,
}

impl aggs::Fetch for TopHits<'_> {
    fn hit(&self, found: &aggs::Found, spec: &TopHitsAgg) -> Result<Hit> {
        if !found.segment.is_root(found.doc) {
            return Err(Error::illegal("[top_hits] below [nested] is not supported yet"));
        }
        let request = SearchRequest {
            query: self.query.cloned(),
            source: spec.source.clone(),
            highlight: spec.highlight.clone(),
            version: spec.version,
            seq_no_primary_term: spec.seq_no_primary_term,
            docvalue_fields: spec.docvalue_fields.clone(),
            fields: spec.fields.clone(),
            stored_fields: spec.stored_fields.clone(),
            script_fields: spec.script_fields.clone(),
            dialect: self.dialect,
            ..SearchRequest::default()
        };
        let fetch = Fetch::new(&found.view, &request, self.cx)?;
        let shelf = Shelf::open(&found.view, &found.segment)?;
        let (mut hit, _) = fetch.hit(&found.segment, &shelf, found.doc, Some(found.score))?;
        if spec.explain
            && let Some(query) = self.query
        {
            let planned = crate::plan::plan(&found.view, Some(query), None, self.cx)?;
            hit.explanation = Some(planned.explain(&found.segment, found.doc)?.to_json());
        }
        Ok(hit)
    }
}
