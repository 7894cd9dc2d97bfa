//! Hits inside aggregations: the fetch phase for `top_hits`, with what its aggregation says of it.

use super::inner_hits::root_of;
use super::{Fetch, Level, RootDocument, lineage};
use crate::aggs;
use crate::context::Context;
use crate::document_reader::DocumentReader;
use dsl::aggs::TopHitsAgg;
use dsl::query::Query;
use dsl::search::{Hit, SearchRequest};
use model::{Dialect, Result};

/// Fetches for one request.
pub(crate) struct TopHitsFetch<'a> {
    pub(crate) cx: &'a Context<'a>,
    /// The query of the request: what is highlighted.
    pub(crate) query: Option<&'a Query>,
    pub(crate) dialect: Dialect,
    /// Some clause of the query has a name.
    pub(crate) named: bool,
}

impl aggs::FetchHit for TopHitsFetch<'_> {
    fn hit(&self, found: &aggs::Found, spec: &TopHitsAgg) -> Result<Hit> {
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
        let shelf = DocumentReader::of(&found.view, &found.segment);
        let mut hit = if found.segment.is_root(found.doc) {
            fetch.hit(&found.segment, &shelf, found.doc, Some(found.score))?.0
        } else {
            let root = root_of(&found.view, &found.segment, found.doc)?;
            let way = nested_way(found)?;
            fetch.nested_hit(
                &found.segment,
                &mut RootDocument::read(&shelf, root)?,
                found.doc,
                &way,
                Some(found.score),
            )?
        };
        if let Some(query) = self.query.filter(|_| spec.explain || self.named) {
            let compile = || crate::clauses::plan(&found.view, Some(query), None, self.cx);
            let planned = self.cx.explaining(spec.explain, compile)?;
            if spec.explain {
                hit.explanation = Some(planned.explain(&found.segment, found.doc)?.to_json());
            }
            if self.named {
                hit.matched_queries = planned.matched_names(&found.segment, found.doc)?;
            }
        }
        Ok(hit)
    }
}

/// The way to a nested document: the path is the one that has it.
fn nested_way(found: &aggs::Found) -> Result<Vec<Level>> {
    for path in found.view.mapping.nested_paths() {
        if crate::scorers::nested::enclosing(&found.segment, &found.view.schema, Some(path))?.contains(found.doc) {
            return lineage(&found.view, &found.segment, path, found.doc);
        }
    }
    Ok(Vec::new())
}
