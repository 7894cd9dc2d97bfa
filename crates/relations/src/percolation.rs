//! Percolation: which of the queries that an index keeps as documents match one document.
//!
//! The document is staged in a view of its own, an overlay in memory over the index as it is, so that every query that a
//! search can run is run as a search would run it, with the mapping that the document would bring, and nothing is written.
//! Queries are read in the same moment. Not here: how queries are kept and checked (`rest`), answers.

use crate::Relations;
use dsl::json::Node;
use dsl::query::{BoolQuery, Parsing, Query};
use dsl::search::{Highlight, SearchRequest, SearchResponse, SourceSpec, TrackTotal};
use engine::{EngineExt as _, Outcome, See, Source, Stage, Write, WriteOp};
use mapping::Times;
use model::settings::{MAX_RESULT_WINDOW, number};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Map, Value, json};

/// The type that keeps queries.
pub const TYPE: &str = ".percolator";

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
    /// What of the document is marked for each query.
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

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Percolated {
    /// In the order of the search over queries.
    pub matches: Vec<Match>,
    /// Aggregations over the queries that matched, of one index.
    pub aggregations: Option<Value>,
}

impl Relations {
    /// Tries the queries.
    ///
    /// # Errors
    /// A missing index; a document that its mapping refuses; a query that cannot be run; more queries than
    /// `index.max_result_window`; an engine that stages nothing.
    pub async fn percolate(&self, percolation: &Percolation) -> Result<Percolated> {
        let staging = self.engine.staging().ok_or_else(|| {
            let reason = "this engine has no views in which a document can be staged";
            Error::new(ErrorKind::UnsupportedOperation, reason)
        })?;
        let infos = self.engine.indices(&percolation.target).await?;
        let view = staging.begin().await?.id;
        let mut out = Percolated::default();
        let mut done = Ok(());
        for info in infos.iter().filter(|info| info.typed) {
            let at = DocAddress {
                index: info.name.clone(),
                id: DocId::typed(percolation.doc_type.as_str(), self.new_id("percolated:")),
            };
            let most = number(&info.settings, MAX_RESULT_WINDOW);
            done = self.percolate_one(percolation, &view, &at, most, &mut out).await;
            if done.is_err() {
                break;
            }
        }
        self.engine.close_view(&view).await?;
        done.map(|()| out)
    }

    async fn percolate_one(
        &self,
        percolation: &Percolation,
        view: &str,
        at: &DocAddress,
        most: u64,
        out: &mut Percolated,
    ) -> Result<()> {
        let own = Target::index(at.index.as_str());
        let mut queries = percolation.queries.clone();
        queries.types = vec![TYPE.to_owned()];
        queries.view = Some(view.to_owned());
        queries.size = usize::try_from(most).unwrap_or(usize::MAX);
        queries.source = SourceSpec::All;
        queries.track_total_hits = TrackTotal::Exact;
        let aggs = std::mem::take(&mut queries.aggs);
        let mut kept = own.clone();
        kept.types = vec![TYPE.to_owned()];
        let found = self.found_in_view(&kept, queries.clone()).await?;
        let total = found.hits.total.map_or(0, |total| total.value);
        if total > most {
            let name = MAX_RESULT_WINDOW.name;
            let reason = format!(
                "[{}] keeps [{total}] queries that are to be tried, and at most [{most}] are: [{name}]",
                at.index
            );
            return Err(Error::illegal(reason).with("setting", name));
        }
        if found.hits.hits.is_empty() {
            return Ok(());
        }
        self.stage_document(percolation, view, at).await?;
        let mut matched = Vec::new();
        for hit in found.hits.hits {
            let Some(query) = kept_query(hit.source.as_deref(), &hit.id.id, percolation)? else {
                continue;
            };
            let only = Query::parse(
                Node::from_value(json!({ "ids": { "type": percolation.doc_type, "values": [&*at.id.id] } })),
                &mut Parsing::new(percolation.queries.dialect),
            )?;
            let both = BoolQuery {
                must: vec![query],
                filter: vec![only],
                ..BoolQuery::default()
            };
            let request = SearchRequest {
                query: Some(dsl::query::Clause::Bool(both).into()),
                size: 1,
                source: SourceSpec::None,
                highlight: percolation.highlight.clone(),
                view: Some(view.to_owned()),
                ..SearchRequest::new(percolation.queries.dialect)
            };
            let mut answer = self.found_in_view(&own, request).await?;
            if let Some(marked) = answer.hits.hits.pop() {
                matched.push(hit.id.id.to_string());
                out.matches.push(Match {
                    index: at.index.clone(),
                    id: hit.id.id.to_string(),
                    score: hit.score,
                    highlight: marked.highlight,
                });
            }
        }
        if !aggs.is_empty() {
            let only = json!({ "ids": { "type": TYPE, "values": matched } });
            let request = SearchRequest {
                query: Some(Query::parse(
                    Node::from_value(only),
                    &mut Parsing::new(percolation.queries.dialect),
                )?),
                aggs,
                size: 0,
                types: vec![TYPE.to_owned()],
                view: Some(view.to_owned()),
                ..SearchRequest::new(percolation.queries.dialect)
            };
            let answer = self.found_in_view(&kept, request).await?;
            out.aggregations = answer.render(percolation.queries.dialect).remove("aggregations");
        }
        Ok(())
    }

    /// A search in a view, joins and lookups in it too.
    async fn found_in_view(&self, target: &Target, request: SearchRequest) -> Result<SearchResponse> {
        match &request.query {
            Some(query) if crate::joins::targets_of(query).is_some() => self.joined(target, request).await,
            _ => self.engine.search(target, request, See::Plain).await,
        }
    }

    async fn stage_document(&self, percolation: &Percolation, view: &str, at: &DocAddress) -> Result<()> {
        let staging = self
            .engine
            .staging()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "there was staging a moment ago"))?;
        let mut write = Write::new(at.clone(), WriteOp::Put(percolation.source.clone()));
        // Where the type wants a routing any will do: nobody reads the document by it.
        write.routing = Some(at.id.id.to_string());
        write.timing = mapping::Timing::kept(Times::default());
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

/// The query of a document that keeps one; `None`: it keeps none.
fn kept_query(source: Option<&str>, id: &str, percolation: &Percolation) -> Result<Option<Query>> {
    let source: Value = source.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    match source.get("query") {
        None | Some(Value::Null) => Ok(None),
        Some(query) => {
            let parsed = Query::parse(
                Node::from_value(query.clone()),
                &mut Parsing::new(percolation.queries.dialect),
            );
            parsed.map(Some).map_err(|cause| unreadable(None, id, Some(cause)))
        }
    }
}

/// The refusal of a query that is none, or of a document that keeps none.
pub fn unreadable(index: Option<&IndexName>, id: &str, cause: Option<Error>) -> Error {
    let mut error = Error::new(ErrorKind::Percolator, format!("failed to parse query [{id}]"));
    if let Some(index) = index {
        error = error.with("index", index.as_str());
    }
    match cause {
        Some(cause) => {
            // What could not be read was a query, whatever its parser calls it.
            let cause = match cause.kind() {
                ErrorKind::Parsing | ErrorKind::XContentParse | ErrorKind::QueryShard => {
                    Error::new(ErrorKind::QueryParsing, cause.reason())
                }
                _ => cause,
            };
            let cause = index
                .into_iter()
                .fold(cause, |cause, index| cause.with("index", index.as_str()));
            error.rooted_in(cause.clone()).caused_by(cause)
        }
        None => error,
    }
}
