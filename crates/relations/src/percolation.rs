//! Percolation: which of the queries that an index keeps as documents match one document.
//!
//! The document is staged in a view of its own, an overlay in memory over the index as it is, so that every query that a
//! search can run is run as a search would run it, with the mapping that the document would bring, and nothing is written.
//! Queries are read in the same moment. Not here: how queries are kept and checked (`rest`), answers.

use crate::Relations;
use async_recursion::async_recursion as boxed;
use dsl::json::Node;
use dsl::query::{BoolQuery, Parsing, Query};
use dsl::search::{Highlight, Hit, SearchRequest, SearchResponse, SourceSpec, TrackTotal};
use engine::{Document, EngineExt as _, Outcome, Read, See, Source, Stage, Write, WriteOp};
use mapping::Times;
use model::settings::{MAX_RESULT_WINDOW, number};
use model::{Dialect, DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The type that keeps queries.
pub const TYPE: &str = ".percolator";

/// The view of one percolation.
#[derive(Debug)]
pub struct Moment {
    view: String,
}

/// A document, and the queries that are tried on it.
#[derive(Clone, Debug)]
pub struct Percolation {
    /// The indices whose queries are tried; each has the document by its own mapping.
    pub target: Target,
    /// The type of the document.
    pub doc_type: String,
    /// The document.
    pub source: Source,
    /// Which queries, in which order, with scores and aggregations: a search over them.
    pub queries: SearchRequest,
    /// The highlight of the document for each query.
    pub highlight: Option<Highlight>,
}

/// A query that matched.
#[derive(Clone, Debug)]
pub struct Match {
    /// The index that keeps it.
    pub index: IndexName,
    /// Its id.
    pub id: String,
    /// The score that the search over queries gave it.
    pub score: Option<f32>,
    /// Marked texts by field.
    pub highlight: Map<String, Value>,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Percolated {
    /// In the order of the search over queries.
    pub matches: Vec<Match>,
    /// Aggregations over the queries that matched, of one index.
    pub aggregations: Option<Value>,
}

impl Relations {
    /// The moment of one percolation: the document, if it is there already, and the queries are read in it. To be ended by
    /// [`Relations::end_percolation`].
    ///
    /// # Errors
    /// An engine that stages nothing; too many such views.
    #[boxed]
    pub async fn begin_percolation(&self) -> Result<Moment> {
        let view = self.percolation_staging()?.begin().await?.id;
        Ok(Moment { view })
    }

    /// A document that is percolated as it is in that moment.
    ///
    /// # Errors
    /// A missing index.
    #[boxed]
    pub async fn read_percolated(&self, moment: &Moment, read: Read) -> Result<Option<Document>> {
        let seen = self.percolation_staging()?.read(&moment.view, vec![read]).await?.pop();
        let missing = || Err(Error::new(ErrorKind::Internal, "one read has no answer"));
        Ok(seen.unwrap_or_else(missing)?.document)
    }

    /// Tries the queries of that moment.
    ///
    /// # Errors
    /// A missing index; a document that its mapping refuses; a query that cannot be run; more queries than
    /// `index.max_result_window`.
    #[boxed]
    pub async fn percolate(&self, moment: &Moment, percolation: &Percolation) -> Result<Percolated> {
        self.percolate_in(percolation, &moment.view).await
    }

    /// Gives the moment back.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn end_percolation(&self, moment: Moment) -> Result<()> {
        self.engine.close_view(&moment.view).await.map(|_| ())
    }

    fn percolation_staging(&self) -> Result<&dyn engine::Staging> {
        self.engine.staging().ok_or_else(|| {
            let reason = "this engine has no views in which a document can be staged";
            Error::new(ErrorKind::UnsupportedOperation, reason)
        })
    }

    async fn percolate_in(&self, percolation: &Percolation, view: &str) -> Result<Percolated> {
        let dialect = percolation.queries.dialect;
        let infos = self.engine.indices(&percolation.target).await?;
        let most = infos
            .iter()
            .map(|info| number(&info.settings, MAX_RESULT_WINDOW))
            .min()
            .unwrap_or(0);
        // By the names that were asked for: the filter of an alias says which queries are meant.
        let kept = Target {
            types: vec![TYPE.to_owned()],
            ..percolation.target.clone()
        };
        let mut queries = percolation.queries.clone();
        queries.types = kept.types.clone();
        queries.view = Some(view.to_owned());
        queries.size = usize::try_from(most).unwrap_or(usize::MAX);
        queries.source = SourceSpec::All;
        queries.track_total_hits = TrackTotal::Exact;
        let aggs = std::mem::take(&mut queries.aggs);
        let found = self.found_in_view(&kept, queries).await?;
        let total = found.hits.total.map_or(0, |total| total.value);
        if total > most {
            let name = MAX_RESULT_WINDOW.name;
            let reason = format!("[{total}] queries are kept that are to be tried, and at most [{most}] are: [{name}]");
            return Err(Error::illegal(reason).with("setting", name));
        }
        let mut out = Percolated::default();
        let mut staged: BTreeMap<IndexName, DocAddress> = BTreeMap::new();
        for hit in found.hits.hits {
            if !staged.contains_key(&hit.index) {
                let at = DocAddress {
                    index: hit.index.clone(),
                    id: DocId::with_type(percolation.doc_type.as_str(), self.new_id("percolated:")),
                };
                self.stage_document(percolation, view, &at).await?;
                staged.insert(hit.index.clone(), at);
            }
            let (Some(at), Some(query)) = (staged.get(&hit.index), kept_query(hit.source.as_deref(), dialect)) else {
                continue;
            };
            if let Some(marked) = self.try_query(percolation, view, at, query).await? {
                out.matches.push(Match {
                    index: hit.index,
                    id: hit.id.id.to_string(),
                    score: hit.score,
                    highlight: marked.highlight,
                });
            }
        }
        if !aggs.is_empty() {
            let matched: Vec<&str> = out.matches.iter().map(|found| found.id.as_str()).collect();
            let only = json!({ "ids": { "type": TYPE, "values": matched } });
            let request = SearchRequest {
                query: Some(Query::parse(Node::from_value(only), &mut Parsing::new(dialect))?),
                aggs,
                size: 0,
                types: kept.types.clone(),
                view: Some(view.to_owned()),
                ..SearchRequest::new(dialect)
            };
            let answer = self.found_in_view(&kept, request).await?;
            out.aggregations = answer.render(dialect).remove("aggregations");
        }
        Ok(out)
    }

    /// The staged document as a hit of a query that is kept; `None`: it does not match.
    async fn try_query(&self, percolation: &Percolation, view: &str, at: &DocAddress, query: Query) -> Result<Option<Hit>> {
        let dialect = percolation.queries.dialect;
        let only = json!({ "ids": { "type": percolation.doc_type, "values": [&*at.id.id] } });
        let both = BoolQuery {
            must: vec![query],
            filter: vec![Query::parse(Node::from_value(only), &mut Parsing::new(dialect))?],
            ..BoolQuery::default()
        };
        let request = SearchRequest {
            query: Some(dsl::query::Clause::Bool(both).into()),
            size: 1,
            source: SourceSpec::None,
            highlight: percolation.highlight.clone(),
            view: Some(view.to_owned()),
            ..SearchRequest::new(dialect)
        };
        let mut answer = self.found_in_view(&Target::index(at.index.as_str()), request).await?;
        Ok(answer.hits.hits.pop())
    }

    /// A search in a view, joins and lookups in it too.
    async fn found_in_view(&self, target: &Target, request: SearchRequest) -> Result<SearchResponse> {
        match &request.query {
            Some(query) if crate::joins::targets_of(query).is_some() => self.search_in_view(target, request).await,
            _ => self.engine.search(target, request, See::Plain).await,
        }
    }

    async fn stage_document(&self, percolation: &Percolation, view: &str, at: &DocAddress) -> Result<()> {
        let staging = self.percolation_staging()?;
        let mut write = Write::new(at.clone(), WriteOp::Put(percolation.source.clone()));
        // Where the type wants a routing any will do: nobody reads the document by it.
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

/// The query of a document that keeps one; `None`: it keeps none. It was one when it was put; what an update in part has
/// made of it may be none, and matches nothing.
fn kept_query(source: Option<&str>, dialect: Dialect) -> Option<Query> {
    let source: Value = serde_json::from_str(source?).ok()?;
    let query = source.get("query")?.clone();
    Query::parse(Node::from_value(query), &mut Parsing::new(dialect)).ok()
}

/// The refusal of a query that is none, or of a document that keeps none.
pub fn unreadable(index: Option<&IndexName>, id: &str, cause: Option<Error>) -> Error {
    let mut error = Error::new(ErrorKind::Percolator, format!("failed to parse query [{id}]"));
    if let Some(index) = index {
        error = error.with("index", index.as_str());
    }
    match cause {
        Some(cause) => {
            // An unreadable one was a query, whatever its parser calls it.
            let cause = match cause.kind() {
                ErrorKind::Parsing | ErrorKind::XContentParse | ErrorKind::QueryShard => {
                    Error::new(ErrorKind::QueryParsing, cause.reason())
                }
                _ => cause,
            };
            let cause = index
                .into_iter()
                .fold(cause, |cause, index| cause.with("index", index.as_str()));
            error.with_root_cause(cause.clone()).with_cause(cause)
        }
        None => error,
    }
}
