//! Mappings and figures of indices, as a principal is shown them: with the fields that are granted, of the documents that are seen.
//!
//! Not here: whether an index is listed at all (`targets`).

use super::engine::GuardedEngine;
use ::engine::{IndexInfo, IndexStats, Inspected, Inspection, See};
use dsl::search::{SearchRequest, TrackTotal};
use mapping::granted_mappings;
use model::{Dialect, DocumentRights, Result, Target, Visibility};

impl GuardedEngine {
    /// Indices with the fields that the principal may know of.
    pub(super) async fn indices_shown(&self, target: Target) -> Result<Inspected> {
        let visibility = self.scope.visibility_of_descriptions();
        let expressions = visibility.as_ref().map(|_| target.expressions.clone()).unwrap_or_default();
        let mut found = self.inner().inspect(Inspection::Indices(target)).await?;
        if let (Some(visibility), Inspected::Indices(infos)) = (&visibility, &mut found) {
            for info in infos {
                show_fields(info, &visibility.through(&expressions, info.name.as_str(), &info.aliases));
            }
        }
        Ok(found)
    }

    /// Figures of indices. Where documents are withheld, they are those of the documents that are seen, and no others.
    pub(super) async fn figures_shown(&self, target: Target) -> Result<Inspected> {
        let visibility = self.scope.visibility_of_descriptions();
        let expressions = visibility.as_ref().map(|_| target.expressions.clone()).unwrap_or_default();
        let mut found = self.inner().inspect(Inspection::Stats(target)).await?;
        if let (Some(visibility), Inspected::Stats(list)) = (visibility, &mut found) {
            for (info, figures) in list {
                let seen = visibility.through(&expressions, info.name.as_str(), &info.aliases);
                show_fields(info, &seen);
                if !seen.queries.is_empty() {
                    let docs = self.count_seen(info, seen).await?;
                    *figures = IndexStats {
                        docs,
                        lucene_docs: docs,
                        ..IndexStats::default()
                    };
                }
            }
        }
        Ok(found)
    }

    /// The documents of an index that are seen; of one that cannot be read none.
    async fn count_seen(&self, info: &IndexInfo, seen: DocumentRights) -> Result<u64> {
        if !info.open || info.stopped.is_some() {
            return Ok(0);
        }
        let target = Target {
            visibility: Some(Visibility::new(move |_| seen.clone())),
            ..Target::index(info.name.as_str())
        };
        let request = SearchRequest {
            size: 0,
            track_total_hits: TrackTotal::Exact,
            ..SearchRequest::new(Dialect::default())
        };
        match self.inner().search(&target, request, See::Plain).await {
            // A block forbids reads.
            Err(error) if error.status() == 403 => Ok(0),
            found => Ok(found?.hits.total.map_or(0, |total| total.value)),
        }
    }
}

/// Leaves the fields in that are granted.
fn show_fields(info: &mut IndexInfo, seen: &DocumentRights) {
    if seen.fields.is_all() {
        return;
    }
    info.mapping = info.mapping.restrict_to(&seen.fields);
    info.mappings = granted_mappings(&seen.fields, &info.mappings, info.typed);
}
