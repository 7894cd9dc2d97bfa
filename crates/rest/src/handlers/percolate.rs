//! Percolation of 2015: queries kept as documents of the type `.percolator`, and the documents that are held against them.
//!
//! Not here: how queries are tried (`relations::percolation`).

use crate::call::Call;
use crate::envelope;
use crate::params::split_list;
use crate::respond::Answer;
use crate::{answers_of_2015, words_2015};
use dsl::json::{Fields, Node};
use dsl::query::{Parsing, Query};
use dsl::search::{Highlight, SearchRequest};
use engine::{Alteration, Read, Source};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use relations::percolation::{Percolated, Percolation, TYPE, unreadable};
use serde_json::{Map, Value, json};

/// Before a document that keeps a query is written: the query is one, and the index has the type for it.
///
/// # Errors
/// A query that cannot be read; an index that cannot be made.
pub(super) async fn prepare(call: &Call, at: &DocAddress, source: &[u8]) -> Result<()> {
    if at.id.doc_type.as_deref() != Some(TYPE) || !answers_of_2015(call.dialect) {
        return Ok(());
    }
    let body = dsl::json::read(source, call.reading())?.into_value();
    if let Some(query) = body.get("query").filter(|query| !query.is_null()) {
        let parsed = Query::parse(Node::from_value(query.clone()), &mut Parsing::new(call.dialect));
        parsed.map_err(|cause| unreadable(&at.id.id, cause))?;
    }
    let target = Target::index(at.index.as_str());
    let infos = match call.rest.indices(&target).await {
        Err(error) if error.kind() == ErrorKind::IndexNotFound => {
            call.rest.auto_create(&at.index, call.dialect).await?;
            call.rest.indices(&target).await?
        }
        found => found?,
    };
    if infos.iter().any(|info| info.typed && info.mappings.get(TYPE).is_none()) {
        let alteration = Alteration::PutMapping {
            target,
            doc_type: Some(TYPE.to_owned()),
            body: json!({ "properties": { "query": { "type": "object", "enabled": false } } }),
        };
        call.rest.alter(alteration).await?;
    }
    Ok(())
}

/// What a request says besides its document.
struct Asked {
    percolation: Percolation,
    /// Matches that are shown; none: all.
    size: Option<usize>,
    only_count: bool,
    /// `percolate_format=ids`
    ids: bool,
    scored: bool,
}

/// Where a document and its queries are.
struct Place {
    target: Target,
    doc_type: String,
    /// The document is there already.
    existing: Option<DocAddress>,
    routing: Option<String>,
}

/// `GET /i/t/_percolate`.
pub(crate) async fn percolate(call: Call) -> Result<Answer> {
    one(call, false).await
}

/// `GET /i/t/_percolate/count`.
pub(crate) async fn count(call: Call) -> Result<Answer> {
    one(call, true).await
}

async fn one(mut call: Call, only_count: bool) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    let mut target = call.target()?;
    let doc_type = call.needed("type")?;
    let existing = match call.arg("id") {
        Some(id) => Some(DocAddress {
            index: IndexName::new(call.needed("index")?),
            id: DocId::typed(doc_type.as_str(), id),
        }),
        None => None,
    };
    target.types = Vec::new();
    if let Some(index) = call.params.take("percolate_index") {
        target.expressions = split_list(&index);
    }
    let place = Place {
        target,
        doc_type: call.params.take("percolate_type").unwrap_or(doc_type),
        existing,
        routing: call.params.take("routing"),
    };
    let ids = call.params.take("percolate_format").as_deref() == Some("ids");
    let size = call.params.take_number("size")?;
    let content = call.content();
    call.params.finish()?;
    let mut asked = read(&call, place, &content).await?;
    (asked.ids, asked.only_count) = (ids, only_count);
    asked.size = size.or(asked.size);
    let done = call.rest.relations.percolate(&asked.percolation).await?;
    let took = (call.rest.clock.monotonic() - start).as_millis();
    Ok(Answer::ok(answer(&call, &asked, done, took).await?))
}

/// The body of a percolation.
async fn read(call: &Call, place: Place, content: &[u8]) -> Result<Asked> {
    let mut queries = SearchRequest::new(call.dialect);
    let (mut doc, mut size, mut highlight, mut scored) = (None, None, None, false);
    if !content.iter().all(u8::is_ascii_whitespace) {
        let node = dsl::json::read(content, call.reading()).map_err(|e| words_2015::unread_if(e, content, call.dialect))?;
        let mut rest = Map::new();
        for (name, value) in fields(node)?.remaining() {
            match name.as_str() {
                "doc" => doc = Some(value.into_value()),
                "size" => size = usize::try_from(value.i64("size")?).ok(),
                "highlight" => highlight = Some(Highlight::parse(value, call.dialect)?),
                "track_scores" => scored = value.boolean("track_scores")?,
                "sort" => {
                    scored = true;
                    rest.insert(name, value.into_value());
                }
                "query" | "filter" | "aggs" | "aggregations" => {
                    rest.insert(if name == "filter" { "query".into() } else { name }, value.into_value());
                }
                "facets" => return Err(Error::illegal("[facets] of a percolation are not supported: use [aggs]")),
                other => return Err(Error::illegal(format!("unknown element [{other}] of a percolation"))),
            }
        }
        queries = SearchRequest::parse(Node::from_value(Value::Object(rest)), call.dialect)?;
        queries.track_scores |= scored;
    }
    let doc = match (doc, &place.existing) {
        (Some(doc), _) if doc.is_object() => doc,
        (_, Some(at)) => existing(call, at, place.routing.clone()).await?,
        (Some(_), None) => return Err(Error::illegal("[doc] of a percolation must be an object")),
        (None, None) => return Err(Error::illegal("Nothing to percolate")),
    };
    Ok(Asked {
        percolation: Percolation {
            target: place.target,
            doc_type: place.doc_type,
            source: Source::from_value(&doc),
            queries,
            highlight,
        },
        size,
        only_count: false,
        ids: false,
        scored,
    })
}

fn fields(node: Node) -> Result<Fields> {
    node.fields("percolate")
}

/// The source of a document that is there.
async fn existing(call: &Call, at: &DocAddress, routing: Option<String>) -> Result<Value> {
    let read = Read {
        routing,
        ..Read::whole(at.clone())
    };
    let missing = || {
        let doc_type = at.id.doc_type.as_deref().unwrap_or("_doc");
        let reason = format!("[{doc_type}][{}]: document missing", at.id.id);
        Error::new(ErrorKind::DocumentMissing, reason).with("index", at.index.as_str())
    };
    let found = call.rest.engine.read(vec![read]).await?.pop().flatten().ok_or_else(missing)?;
    found.source.parse()
}

async fn answer(call: &Call, asked: &Asked, done: Percolated, took: u128) -> Result<Value> {
    let infos = call.rest.indices(&asked.percolation.target).await?;
    let mut out = json!({ "took": u64::try_from(took).unwrap_or(0), "_shards": super::indices::shards_of(&infos, false),
        "total": done.matches.len() });
    if !asked.only_count {
        let shown = done.matches.iter().take(asked.size.unwrap_or(usize::MAX));
        let one = |found: &relations::percolation::Match| {
            if asked.ids {
                return Value::from(found.id.as_str());
            }
            let mut one = json!({ "_index": found.index.as_str(), "_id": found.id });
            if let Some(score) = found.score.filter(|_| asked.scored) {
                one["_score"] = json!(score);
            }
            if !found.highlight.is_empty() {
                one["highlight"] = Value::Object(found.highlight.clone());
            }
            one
        };
        out["matches"] = shown.map(one).collect();
    }
    if let Some(aggregations) = done.aggregations {
        out["aggregations"] = aggregations;
    }
    Ok(out)
}

/// `POST /_mpercolate`: lines that say where, each with a line that says what.
pub(crate) async fn several(mut call: Call) -> Result<Answer> {
    let content = call.content();
    call.params.finish()?;
    let lines: Vec<&[u8]> = content
        .split(|b| *b == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .collect();
    if lines.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no requests added;",
        ));
    }
    let mut responses = Vec::new();
    for pair in lines.chunks(2) {
        let &[header, body] = pair else {
            return Err(Error::illegal("a percolation of several wants two lines: where, and what"));
        };
        let start = call.rest.clock.monotonic();
        let done = match one_of_several(&call, header, body).await {
            Ok(asked) => match call.rest.relations.percolate(&asked.percolation).await {
                Ok(done) => {
                    let took = (call.rest.clock.monotonic() - start).as_millis();
                    answer(&call, &asked, done, took).await
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        responses.push(done.unwrap_or_else(|error| {
            let mut body = envelope::render(&error, call.dialect);
            if let Some(map) = body.as_object_mut() {
                map.remove("status");
            }
            body
        }));
    }
    Ok(Answer::ok(json!({ "responses": responses })))
}

async fn one_of_several(call: &Call, header: &[u8], body: &[u8]) -> Result<Asked> {
    let header = dsl::json::read(header, call.reading())?.into_value();
    let named = header.as_object().and_then(|header| header.iter().next());
    let (only_count, meta) = match named {
        Some((name, meta)) if name == "percolate" => (false, meta),
        Some((name, meta)) if name == "count" => (true, meta),
        Some((name, _)) => return Err(Error::illegal(format!("[{name}] isn't a supported percolate operation"))),
        None => return Err(Error::illegal("a percolation of several begins with [percolate] or [count]")),
    };
    let text = |name: &str| match meta.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let index = match meta.get("indices").or_else(|| meta.get("index")) {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(one)) => split_list(one),
        _ => call.arg("index").map(split_list).unwrap_or_default(),
    };
    let doc_type = text("type").or_else(|| call.arg("type").map(str::to_owned));
    let (Some(first), Some(doc_type)) = (index.first().cloned(), doc_type) else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: index and type are needed;",
        ));
    };
    let existing = text("id").map(|id| DocAddress {
        index: IndexName::new(first),
        id: DocId::typed(doc_type.as_str(), id),
    });
    let place = Place {
        target: Target::of(text("percolate_index").map_or(index, |index| split_list(&index))),
        doc_type: text("percolate_type").unwrap_or(doc_type),
        existing,
        routing: text("routing"),
    };
    // A document that is there goes before one that is sent.
    let sent = match &place.existing {
        Some(_) => {
            let mut body = dsl::json::read(body, call.reading())?.into_value();
            if let Some(map) = body.as_object_mut() {
                map.remove("doc");
            }
            body.to_string().into_bytes()
        }
        None => body.to_vec(),
    };
    let mut asked = read(call, place, &sent).await?;
    asked.only_count = only_count;
    asked.ids = text("percolate_format").as_deref() == Some("ids");
    Ok(asked)
}
