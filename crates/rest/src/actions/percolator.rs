//! Kept queries of Elasticsearch 2: checked when they are written.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::call::Call;
use crate::envelope;
use crate::es2_errors;
use crate::query_params::split_list;
use crate::respond::Answer;
use dsl::json::{Fields, Node};
use dsl::query::{Parsing, Query};
use dsl::search::{Highlight, SearchRequest};
use engine::{Alteration, Applied, Expect, IndexInfo, Inspected, Inspection, Read, Source, Write, WriteOp};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use relations::percolation::{Moment, Percolated, Percolation, TYPE, unreadable};
use serde_json::{Map, Value, json};

/// Before a document that keeps a query is written: the query is one, and the index has the type for it.
///
/// # Errors
/// A query that cannot be read; an index that cannot be made.
pub(crate) async fn prepare(call: &Call, at: &DocAddress, source: &[u8]) -> Result<()> {
    if at.id.doc_type.as_deref() != Some(TYPE) || !call.dialect.rules.has_percolator_type {
        return Ok(());
    }
    let body = dsl::json::read(source, call.reading())?.into_value();
    let unreadable = |cause: Option<Error>| unreadable(Some(&at.index), &at.id.id, cause);
    let Some(query) = body.get("query").filter(|query| query.is_object()) else {
        return Err(unreadable(None));
    };
    let query = Query::parse(Node::from_value(query.clone()), &mut Parsing::new(call.dialect));
    let query = query.map_err(|cause| unreadable(Some(cause)))?;
    let target = Target::index(at.index.as_str());
    let infos = match call.rest.indices(&target).await {
        Err(error) if error.kind() == ErrorKind::IndexNotFound => {
            call.rest.auto_create(&at.index, call.dialect).await?;
            call.rest.indices(&target).await?
        }
        found => found?,
    };
    check_fields(&infos, &query).map_err(|cause| unreadable(Some(cause)))?;
    let lacks = |info: &IndexInfo| {
        info.typed
            && info
                .mappings
                .get(TYPE)
                .and_then(|own| own.pointer("/properties/query"))
                .is_none()
    };
    if infos.iter().any(lacks) {
        let alteration = Alteration::PutMapping {
            target,
            doc_type: Some(TYPE.to_owned()),
            body: crate::percolator_type::kept_mapping(),
        };
        call.rest.alter(alteration).await?;
    }
    let target = Target::index(at.index.as_str());
    let query = Box::new(query);
    if let Inspected::Validated(found) = call.rest.engine.inspect(Inspection::Validate { target, query }).await?
        && let Some((_, Err(cause))) = found.into_iter().find(|(_, valid)| valid.is_err())
    {
        return Err(unreadable(Some(cause)));
    }
    Ok(())
}

/// Before an update of a document that keeps a query: what it makes of the document is checked as one that is written whole
/// is. `Some`: what the write is to expect, so that the update is of what was looked at; who meets a conflict looks again.
///
/// # Errors
/// As [`prepare`].
pub(crate) async fn prepare_update(call: &Call, write: &Write) -> Result<Option<Expect>> {
    let WriteOp::Update(update) = &write.op else { return Ok(None) };
    if write.at.id.doc_type.as_deref() != Some(TYPE) || !call.dialect.rules.has_percolator_type {
        return Ok(None);
    }
    let read = Read {
        routing: write.routing.clone().or_else(|| write.parent.clone()),
        ..Read::whole(write.at.clone())
    };
    let found = match call.rest.engine.read(vec![read]).await {
        Ok(found) => found.into_iter().next().flatten(),
        Err(error) if error.kind() == ErrorKind::IndexNotFound => None,
        Err(error) => return Err(error),
    };
    let value = found
        .as_ref()
        .map(|found| found.source.parse_to_update(&write.at))
        .transpose()?;
    let there = value.as_ref().zip(found.as_ref().map(|found| found.stamp));
    let times = found.as_ref().map(|found| found.times).unwrap_or_default();
    let applied = update.apply_timed(&write.at, there, write.routing.as_deref(), times, &mut write.timing.clone());
    // The writer refuses an update that cannot be applied.
    if let Ok(Applied::Put(after)) = applied {
        prepare(call, &write.at, after.to_string().as_bytes()).await?;
        let looked_at = found.map_or(Expect::Absent, |found| Expect::Unchanged {
            seq_no: found.stamp.seq_no,
            primary_term: found.stamp.primary_term,
        });
        return Ok((write.expect == Expect::Anything).then_some(looked_at));
    }
    Ok(None)
}

/// A query that is kept may name no field that no type has: it would be of one kind now and of another later.
pub(crate) fn check_fields(infos: &[IndexInfo], query: &Query) -> Result<()> {
    for info in infos {
        for field in named_fields(&query.render()) {
            let known = field.starts_with('_')
                || field.contains('*')
                || info.mapping.is_object(&field)
                || info.mapping.field(&field).is_some();
            if !known {
                let reason =
                    format!("Strict field resolution and no field mapping can be found for the field with name [{field}]");
                return Err(Error::new(ErrorKind::QueryParsing, reason));
            }
        }
    }
    Ok(())
}

/// The fields that the clauses of a query name which have their field as a key. The depth is that of a query, which is limited.
pub(crate) fn named_fields(query: &Value) -> Vec<String> {
    const BY_KEY: &[&str] = &[
        "match",
        "term",
        "terms",
        "range",
        "prefix",
        "wildcard",
        "regexp",
        "fuzzy",
        "match_phrase",
        "match_phrase_prefix",
    ];
    const OPTIONS: &[&str] = &["boost", "_name"];
    let mut out = Vec::new();
    let mut open = vec![query];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                for (name, inner) in map {
                    match inner.as_object().filter(|_| BY_KEY.contains(&name.as_str())) {
                        Some(clause) => out.extend(clause.keys().filter(|key| !OPTIONS.contains(&key.as_str())).cloned()),
                        None => open.push(inner),
                    }
                }
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    out
}

/// The options of a request beside its document.
pub(crate) struct PercolateOptions {
    pub(crate) percolation: Percolation,
    /// Matches that are shown; none: all.
    pub(crate) size: Option<usize>,
    pub(crate) scored: bool,
}

/// How an answer is to look, as the URL or the first of two lines says.
#[derive(Clone, Copy, Default)]
pub(crate) struct MatchesForm {
    /// `percolate_format=ids`
    pub(crate) ids: bool,
    pub(crate) only_count: bool,
    pub(crate) size: Option<usize>,
}

/// Where a document and its queries are.
pub(crate) struct PercolateTarget {
    pub(crate) target: Target,
    pub(crate) doc_type: String,
    /// The document is there already.
    pub(crate) existing: Option<DocAddress>,
    pub(crate) routing: Option<String>,
    /// The document must be of this version.
    pub(crate) version: Option<u64>,
}

pub(crate) async fn one(mut call: Call, only_count: bool) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    let mut target = call.target()?;
    let doc_type = call.path_part("type")?;
    let existing = match call.arg("id") {
        Some(id) => Some(DocAddress {
            index: IndexName::new(call.path_part("index")?),
            id: DocId::with_type(doc_type.as_str(), id),
        }),
        None => None,
    };
    target.types = Vec::new();
    if let Some(index) = call.params.take("percolate_index") {
        target.expressions = split_list(&index);
    }
    let place = PercolateTarget {
        target,
        doc_type: call.params.take("percolate_type").unwrap_or(doc_type),
        existing,
        routing: call.params.take("routing"),
        version: call.params.take_number("version")?,
    };
    let (mut ids, mut size) = (false, None);
    if !only_count {
        ids = call.params.take("percolate_format").as_deref() == Some("ids");
        size = call.params.take_number("size")?;
    }
    let content = call.content()?;
    call.params.finish()?;
    let shape = MatchesForm { ids, only_count, size };
    run_percolation(&call, place, &content, shape, start).await.map(Answer::ok)
}

/// One percolation: what came of it, or what its shards said.
pub(crate) async fn run_percolation(
    call: &Call,
    place: PercolateTarget,
    content: &[u8],
    shape: MatchesForm,
    start: std::time::Duration,
) -> Result<Value> {
    let target = place.target.clone();
    // Who is not there is told before anything is read.
    let infos = call.rest.indices(&target).await.map_err(|error| match &place.existing {
        Some(_) => es2_errors::as_expression(error),
        None => error,
    })?;
    // The document and the queries are of one moment.
    let moment = call.rest.relations.begin_percolation().await?;
    let tried = async {
        let doc = match &place.existing {
            Some(at) => Some(existing(call, &moment, at, &place).await?),
            None => None,
        };
        let asked = match read(call, place, content, doc) {
            Ok(mut asked) => {
                asked.size = shape.size.or(asked.size);
                let done = call.rest.relations.percolate(&moment, &asked.percolation).await;
                done.map(|done| (asked, done))
            }
            Err(error) => Err(error),
        };
        Ok(asked)
    };
    let tried: Result<Result<(PercolateOptions, Percolated)>> = tried.await;
    call.rest.relations.end_percolation(moment).await?;
    let asked = tried?;
    let took = (call.rest.clock.monotonic() - start).as_nanos().div_ceil(1_000_000);
    let took = u64::try_from(took).unwrap_or(0);
    let mut shards = crate::render::indices::shards_of(&infos, false);
    match asked {
        Ok((asked, done)) => {
            let mut out = json!({ "took": took, "_shards": shards, "total": done.matches.len() });
            if !shape.only_count {
                out["matches"] = render(&asked, &done, shape);
            }
            if let Some(aggregations) = done.aggregations {
                out["aggregations"] = aggregations;
            }
            Ok(out)
        }
        Err(error) => {
            let error = match error.kind() {
                ErrorKind::MapperParsing => Error::new(ErrorKind::Parse, "failed to parse request").with_cause(error),
                _ => error,
            };
            let index = infos.first().map_or("_all", |info| info.name.as_str());
            let status = if error.status() < 500 {
                "BAD_REQUEST"
            } else {
                "INTERNAL_SERVER_ERROR"
            };
            shards["failed"] = shards["total"].clone();
            shards["successful"] = 0.into();
            shards["failures"] =
                json!([{ "shard": 0, "index": index, "status": status, "reason": envelope::object(&error, call.dialect) }]);
            let mut out = json!({ "took": took, "_shards": shards, "total": 0 });
            if !shape.only_count {
                out["matches"] = json!([]);
            }
            Ok(out)
        }
    }
}

pub(crate) fn render(asked: &PercolateOptions, done: &Percolated, shape: MatchesForm) -> Value {
    let marks = asked.percolation.highlight.is_some();
    let one = |found: &relations::percolation::Match| {
        if shape.ids {
            return Value::from(found.id.as_str());
        }
        let mut one = json!({ "_index": found.index.as_str(), "_id": found.id });
        if let Some(score) = found.score.filter(|_| asked.scored) {
            one["_score"] = json!(score);
        }
        if marks {
            one["highlight"] = Value::Object(found.highlight.clone());
        }
        one
    };
    done.matches.iter().take(asked.size.unwrap_or(usize::MAX)).map(one).collect()
}

/// The body of a percolation.
pub(crate) fn read(call: &Call, place: PercolateTarget, content: &[u8], existing: Option<Value>) -> Result<PercolateOptions> {
    let unread = |cause: Error| Error::new(ErrorKind::Parse, "failed to parse request").with_cause(cause);
    let parse = |reason: &str| unread(Error::new(ErrorKind::Parse, reason));
    let mut queries = SearchRequest::new(call.dialect);
    let (mut doc, mut size, mut highlight, mut scored, mut sorted) = (None, None, None, false, false);
    if !content.iter().all(u8::is_ascii_whitespace) {
        let node = dsl::json::read(content, call.reading()).map_err(unread)?;
        let mut rest = Map::new();
        for (name, value) in fields(node)?.remaining() {
            match name.as_str() {
                "doc" => doc = Some(value.into_value()),
                "size" => {
                    let given = value.i64("size")?;
                    let refused = || {
                        parse(&format!(
                            "size is set to [{given}] and is expected to be higher or equal to 0"
                        ))
                    };
                    size = Some(usize::try_from(given).map_err(|_| refused())?);
                }
                "highlight" => highlight = Some(Highlight::parse(value, call.dialect).map_err(unread)?),
                "track_scores" => scored |= value.boolean("track_scores")?,
                "sort" => {
                    let by = value.into_value().to_string();
                    if !by.contains("_score") || by.contains("asc") {
                        return Err(parse("Only _score desc is supported"));
                    }
                    (scored, sorted) = (true, true);
                }
                "query" | "filter" if rest.contains_key("query") => {
                    return Err(parse("Either specify query or filter, not both"));
                }
                "query" => drop(rest.insert("query".into(), value.into_value())),
                "filter" => {
                    let constant = json!({ "constant_score": { "filter": value.into_value() } });
                    rest.insert("query".into(), constant);
                }
                "aggs" | "aggregations" => drop(rest.insert(name, value.into_value())),
                // 2015 passed over what it did not know.
                _ => {}
            }
        }
        queries =
            SearchRequest::parse(Node::from_value(Value::Object(rest)), call.dialect).map_err(|cause| match cause.kind() {
                ErrorKind::Parsing => unread(Error::new(ErrorKind::QueryParsing, cause.reason())),
                _ => unread(cause),
            })?;
        queries.track_scores |= scored;
    }
    let doc = match (existing, doc) {
        (Some(doc), _) => doc,
        (None, Some(doc)) if doc.is_object() => doc,
        (None, Some(_)) => {
            let reason = "Malformed content, must start with an object";
            return Err(unread(Error::new(ErrorKind::MapperParsing, reason)));
        }
        (None, None) => return Err(Error::illegal("Nothing to percolate")),
    };
    for (wanted, what) in [(sorted, "sort"), (highlight.is_some(), "highlight")] {
        if wanted && size.is_none() {
            return Err(Error::illegal(format!("Can't {what} if size isn't specified")));
        }
    }
    Ok(PercolateOptions {
        percolation: Percolation {
            target: place.target,
            doc_type: place.doc_type,
            source: Source::from_value(&doc),
            queries,
            highlight,
        },
        size,
        scored,
    })
}

pub(crate) fn fields(node: Node) -> Result<Fields> {
    node.fields("percolate")
}

/// The source of a document that is there.
pub(crate) async fn existing(call: &Call, moment: &Moment, at: &DocAddress, place: &PercolateTarget) -> Result<Value> {
    let read = Read {
        routing: place.routing.clone(),
        ..Read::whole(at.clone())
    };
    let missing = || {
        let doc_type = at.id.doc_type.as_deref().unwrap_or("_doc");
        Error::new(
            ErrorKind::DocumentMissing,
            format!("[{doc_type}][{}]: document missing", at.id.id),
        )
    };
    let found = call.rest.relations.read_percolated(moment, read).await?.ok_or_else(missing)?;
    if let Some(version) = place.version.filter(|version| *version != found.stamp.version) {
        let conflict = engine::Conflict {
            at: at.clone(),
            expect: engine::Expect::Version(version),
            found: engine::Found::Here(found.stamp),
        };
        return Err(crate::actions::writes::conflict_error(&conflict, call.dialect));
    }
    found.source.parse()
}
