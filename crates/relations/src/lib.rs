//! Everything that spans documents: lookups, joins, by-query jobs, locks.
//!
//! Made of the engine's per-document calls alone. Not here: HTTP, tantivy, a runtime.

use dsl::search::{SearchRequest, SearchResponse};
use engine::tasks::Tasks;
use engine::{Clock, Engine, See};
use model::{Result, Target};
use std::sync::Arc;

pub mod jobs;
mod joins;
pub mod locks;
pub mod schema;

/// The façade that `rest` calls.
#[derive(Clone, Debug)]
pub struct Relations {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    tasks: Arc<Tasks>,
}

impl Relations {
    /// Over an engine.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, tasks: Arc<Tasks>) -> Relations {
        Relations { engine, clock, tasks }
    }

    /// A search with its lookups and joins.
    ///
    /// # Errors
    /// The engine's; a lookup's; too many join keys.
    pub async fn search(&self, target: &Target, request: SearchRequest) -> Result<SearchResponse> {
        let request = joins::resolve(self.engine.as_ref(), request).await?;
        self.engine.search(target, request, See::Plain).await
    }

    /// A query with its lookups and joins resolved, for requests that are no searches.
    ///
    /// # Errors
    /// As [`Relations::search`].
    pub async fn query(&self, query: dsl::query::Query) -> Result<dsl::query::Query> {
        joins::resolve_query(self.engine.as_ref(), query).await
    }
}
