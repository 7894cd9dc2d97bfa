//! A script that is run on one document which no index keeps: as a filter, or for a score.
//!
//! The document is staged in a view of its own, as percolation does it, so that the script sees the values that a search
//! would show it. Not here: scripts without a document, how requests and answers look (`rest`).

use crate::Relations;
use async_recursion::async_recursion as boxed;
use dsl::query::script_source::ScriptSource;
use dsl::query::{BoolQuery, Clause, Query};
use dsl::search::{ScriptSortKind, SearchRequest, Sort, SortBy, SourceSpec};
use engine::{EngineExt as _, Outcome, See, Source, Stage, Write, WriteOp};
use mapping::Times;
use model::{Dialect, DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Value, json};

/// A script and its document.
#[derive(Clone, Debug)]
pub struct ScriptExecution {
    /// Whose mapping reads the document.
    pub index: IndexName,
    /// The document.
    pub source: Source,
    /// The script.
    pub script: ScriptSource,
    /// How it is run.
    pub role: ScriptRole,
    /// The dialect of the request.
    pub dialect: Dialect,
}

/// The context of a script.
#[derive(Clone, Debug)]
pub enum ScriptRole {
    /// It says whether the document matches.
    Filter,
    /// It says a number; `_score` is what the query gives the document, 0 without one.
    Score(Option<Box<Query>>),
}

impl Relations {
    /// Runs it: a boolean of a filter, a number of a score. Nothing is written.
    ///
    /// # Errors
    /// A missing index; a document that its mapping refuses; a script that cannot be run; a query that does not match; an
    /// engine that stages nothing.
    #[boxed]
    pub async fn execute_script(&self, execution: ScriptExecution) -> Result<Value> {
        let staging = self.engine.staging().ok_or_else(|| {
            let reason = "this engine has no views in which a document can be staged";
            Error::new(ErrorKind::UnsupportedOperation, reason)
        })?;
        let view = staging.begin().await?.id;
        let done = self.execute_in(execution, &view).await;
        self.engine.close_view(&view).await?;
        done
    }

    async fn execute_in(&self, execution: ScriptExecution, view: &str) -> Result<Value> {
        let target = Target::index(execution.index.as_str());
        let infos = self.engine.indices(&target).await?;
        let typed = infos.iter().any(|info| info.typed);
        let id = self.new_id("executed:");
        let at = DocAddress {
            index: execution.index,
            id: if typed {
                DocId::with_type("_doc", id)
            } else {
                DocId::plain(id)
            },
        };
        self.stage_source(execution.source, view, &at).await?;
        let only = Query::from(Clause::Ids {
            values: vec![at.id.id.to_string()],
            types: Vec::new(),
        });
        let mut request = SearchRequest {
            size: 1,
            source: SourceSpec::None,
            view: Some(view.to_owned()),
            allow_partial: false,
            // A sort alone needs no scores, but the script may read them.
            track_scores: true,
            ..SearchRequest::new(execution.dialect)
        };
        let scores = matches!(execution.role, ScriptRole::Score(_));
        let matched = match execution.role {
            ScriptRole::Filter => BoolQuery {
                filter: vec![
                    only,
                    Clause::Script {
                        script: execution.script,
                    }
                    .into(),
                ],
                ..BoolQuery::default()
            },
            ScriptRole::Score(query) => {
                request.sort = vec![Sort {
                    by: SortBy::Script {
                        script: execution.script,
                        kind: ScriptSortKind::Number,
                        mode: None,
                        nested: None,
                    },
                    ascending: false,
                }];
                BoolQuery {
                    must: query.map(|query| *query).into_iter().collect(),
                    filter: vec![only],
                    ..BoolQuery::default()
                }
            }
        };
        request.query = Some(Clause::Bool(matched).into());
        let found = self.engine.search(&target, request, See::Plain).await?;
        let hit = found.hits.hits.first();
        match (scores, hit) {
            (false, hit) => Ok(json!(hit.is_some())),
            (true, Some(hit)) => Ok(hit.sort.first().cloned().unwrap_or(Value::Null)),
            (true, None) => Err(Error::illegal(
                "[context_setup.query] does not match [context_setup.document]: there is no score",
            )),
        }
    }

    async fn stage_source(&self, source: Source, view: &str, at: &DocAddress) -> Result<()> {
        let staging = self
            .engine
            .staging()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "there was staging a moment ago"))?;
        let mut write = Write::new(at.clone(), WriteOp::Put(source));
        // Where the mapping wants a routing any will do: nobody reads the document by it.
        write.routing = Some(at.id.id.to_string());
        write.timing = mapping::Timing::keep(Times::default());
        let stage = Stage { write, creates: None };
        match staging.stage(view, vec![stage]).await?.pop() {
            Some(Outcome::Written(_)) => Ok(()),
            Some(Outcome::Refused(error)) => Err(error),
            other => Err(Error::new(
                ErrorKind::Internal,
                format!("staging a new document came to {other:?}"),
            )),
        }
    }
}
