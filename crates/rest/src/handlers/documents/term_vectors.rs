//! `_termvectors` and `_mtermvectors`: the terms of documents, of indices or of the request.
//!
//! The documents of one request are read as they were at one instant; how common their terms are is counted afterwards, in
//! the segments that are published by then.
//!
//! Not here: reading of bodies (`dsl::document`), which terms there are (the engine).

use crate::actions::read::{ReadOptions, check_version, fetch_together};
use crate::actions::visibility::Visibility;
use crate::actions::writes::head;
use crate::answer_room::AnswerRoom;
use crate::call::Call;
use crate::envelope;
use crate::query_params::ExpectParts;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::document::{TermVectors, parse_term_vectors};
use dsl::search::SourceSpec;
use engine::{Document, Expect, Inspected, Inspection, Read, See, VectorsOf};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// The options of the URL for all documents.
fn from_url(call: &mut Call) -> Result<(TermVectors, bool)> {
    let all = TermVectors::default();
    let params = &mut call.params;
    let base = TermVectors {
        doc_type: call.args.get("type").filter(|t| *t != "_doc").map(str::to_owned),
        index: call.args.get("index").map(str::to_owned),
        id: call.args.get("id").map(str::to_owned),
        fields: params.take_list("fields").unwrap_or_default(),
        positions: params.take_bool("positions")?.unwrap_or(all.positions),
        offsets: params.take_bool("offsets")?.unwrap_or(all.offsets),
        field_statistics: params.take_bool("field_statistics")?.unwrap_or(all.field_statistics),
        term_statistics: params.take_bool("term_statistics")?.unwrap_or(all.term_statistics),
        routing: params.take("routing"),
        version: params.take_number("version")?,
        version_type: params.take("version_type"),
        ..all
    };
    params.check_bool("payloads")?;
    let realtime = params.take_bool("realtime")? != Some(false);
    Ok((base, realtime))
}

/// `GET /i/_termvectors/1`, or with a document in the body.
#[boxed]
pub(crate) async fn one(mut call: Call) -> Result<Answer> {
    let (base, realtime) = from_url(&mut call)?;
    let content = call.json()?;
    call.params.finish()?;
    let spec = match content {
        Some(node) => base.parse(node)?,
        None => base,
    };
    if spec.id.is_none() && spec.doc.is_none() {
        return Err(invalid("id or doc is missing;"));
    }
    let target = Target::index(spec.index.as_deref().unwrap_or_default());
    let look = Visibility::default().look(&call, &target, None).await?;
    let answer = async {
        let mut found = vectors_together(&call, vec![spec], realtime).await?;
        let missing = || Err(Error::new(ErrorKind::Internal, "one document has no answer"));
        found
            .pop()
            .unwrap_or_else(missing)
            .map(|found| Answer::ok(Value::Object(found)))
    };
    let answer = answer.await;
    look.over(&call, answer).await
}

/// `_mtermvectors`: each document with what it asks for.
#[boxed]
pub(crate) async fn many(mut call: Call) -> Result<Answer> {
    let (base, realtime) = from_url(&mut call)?;
    let ids = call.params.take_list("ids").unwrap_or_default();
    let content = call.json()?;
    call.params.finish()?;
    let mut all: Vec<TermVectors> = Vec::new();
    for id in ids {
        all.push(TermVectors {
            id: Some(id),
            ..base.clone()
        });
    }
    if let Some(node) = content {
        all.extend(parse_term_vectors(node, &base)?);
    }
    if all.is_empty() {
        return Err(invalid("multi term vectors: no documents requested;"));
    }
    for (at, spec) in all.iter().enumerate() {
        let missing = match (&spec.index, &spec.id, &spec.doc) {
            (None, ..) => "index is missing",
            (_, None, None) => "id or doc is missing",
            _ => continue,
        };
        return Err(invalid(&format!("{missing};2: at multi term vectors for doc {at};")));
    }
    let named: Vec<(String, Option<String>)> = all
        .iter()
        .map(|spec| (spec.index.clone().unwrap_or_default(), spec.id.clone()))
        .collect();
    let mut indices: Vec<String> = named.iter().map(|(index, _)| index.clone()).collect();
    indices.sort_unstable();
    indices.dedup();
    let look = Visibility::default().look(&call, &Target::of(indices), None).await?;
    let answer = async {
        let mut docs = Vec::with_capacity(all.len());
        let vectors = vectors_together(&call, all, realtime).await?;
        assert_eq!(vectors.len(), named.len(), "each document that is asked for has its answer");
        for ((index, id), found) in named.into_iter().zip(vectors) {
            docs.push(match found {
                Ok(found) => Value::Object(found),
                Err(error) => refusal_item(&call, &index, id.as_deref(), &error).await,
            });
        }
        Ok(Answer::ok(json!({ "docs": docs })))
    };
    let answer = answer.await;
    look.over(&call, answer).await
}

/// The item of a document whose terms cannot be told.
async fn refusal_item(call: &Call, index: &str, id: Option<&str>, error: &Error) -> Value {
    let mut object = Value::Object(envelope::object(error, call.dialect));
    envelope::with_uuids(&call.rest, &mut object, call.dialect).await;
    let object = object.as_object().cloned().unwrap_or_default();
    let mut inner = Map::new();
    inner.insert("root_cause".into(), json!([object.clone()]));
    inner.extend(object);
    json!({ "_index": index, "_id": id, "error": inner })
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::ActionRequestValidation, format!("Validation Failed: 1: {what}"))
}

/// The answers for the documents of a request, in order, each with its own refusal.
async fn vectors_together(call: &Call, specs: Vec<TermVectors>, realtime: bool) -> Result<Vec<Result<Map<String, Value>>>> {
    let started = Instant::now();
    let mut places = Vec::with_capacity(specs.len());
    let mut reads = Vec::new();
    for spec in &specs {
        let at = address(call, spec).await;
        let read = match spec.doc {
            None => read_of(spec, &at, realtime).map(|wanted| reads.push(wanted)),
            Some(_) => Ok(()),
        };
        places.push((at, read));
    }
    let mut room = AnswerRoom::new(&call.rest);
    let found = fetch_together(call, &reads, room.left()).await?;
    assert_eq!(found.len(), reads.len(), "each document that is read has its answer");
    let mut found = found.into_iter().zip(&reads);
    let mut out = Vec::with_capacity(specs.len());
    for (spec, (at, read)) in specs.into_iter().zip(places) {
        let one = async {
            read?;
            let document = match spec.doc {
                Some(_) => None,
                None => match found.next() {
                    Some((Some(document), wanted)) => existing(call, wanted, document?).await?,
                    _ => return Err(AnswerRoom::none()),
                },
            };
            room.check()?;
            vectors(call, at, spec, document, started).await
        };
        let one = one.await;
        if let Ok(one) = &one {
            room.take(serde_json::to_vec(one).map_or(0, |text| text.len()));
        }
        out.push(one);
    }
    assert!(
        found.next().is_none(),
        "each document that was read belongs to one that was asked for"
    );
    Ok(out)
}

/// The document that was read, if it is of the version that is asked for.
async fn existing(call: &Call, wanted: &ReadOptions, found: Option<Document>) -> Result<Option<Document>> {
    if let Some(document) = &found {
        check_version(wanted, document, call).await?;
    }
    Ok(found)
}

/// Where the document is, or would be.
async fn address(call: &Call, spec: &TermVectors) -> DocAddress {
    let index = spec.index.clone().unwrap_or_default();
    let typed = call.rest.index_facts(&index).await.is_some_and(|known| known.typed);
    let id = spec.id.clone().unwrap_or_default();
    let id = match (&spec.doc_type, typed) {
        (Some(doc_type), true) => DocId::with_type(doc_type.as_str(), id.as_str()),
        (None, true) => DocId::with_type("_all", id.as_str()),
        _ => DocId::plain(id.as_str()),
    };
    DocAddress {
        index: IndexName::new(index),
        id,
    }
}

/// The read of one indexed document.
fn read_of(spec: &TermVectors, at: &DocAddress, realtime: bool) -> Result<ReadOptions> {
    let parts = ExpectParts {
        version: spec.version.filter(|version| *version >= 0),
        version_type: spec.version_type.clone(),
        ..ExpectParts::default()
    };
    Ok(ReadOptions {
        source: SourceSpec::Default,
        stored: None,
        expect: match parts.version.map(|_| parts.expect(true)).transpose()? {
            None | Some(Expect::Forced(_)) => Expect::Anything,
            Some(other) => other,
        },
        refresh: false,
        read: Read {
            at: at.clone(),
            routing: spec.routing.clone(),
            see: See::Plain,
            searchable_only: !realtime,
            counted: true,
        },
        visibility: Visibility::default(),
    })
}

/// The answer for one document, of the request or as it was read.
async fn vectors(
    call: &Call,
    at: DocAddress,
    spec: TermVectors,
    document: Option<Document>,
    started: Instant,
) -> Result<Map<String, Value>> {
    let mut out = head(&at, call.dialect);
    let took = |out: &mut Map<String, Value>| {
        let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        out.insert("took".into(), took.into());
    };
    let (index, source, artificial) = if let Some(doc) = &spec.doc {
        if !doc.is_object() {
            return Err(Error::new(
                ErrorKind::MapperParsing,
                "failed to parse: [doc] must be an object",
            ));
        }
        out.remove("_id");
        out.insert("_version".into(), 0.into());
        (at.index.clone(), doc.clone(), true)
    } else {
        let Some(document) = document else {
            out.insert("_version".into(), 0.into());
            out.insert("found".into(), false.into());
            took(&mut out);
            return Ok(out);
        };
        out.insert("_index".into(), document.at.index.as_str().into());
        if let Some(doc_type) = document.at.id.doc_type.as_deref().filter(|_| out.contains_key("_type")) {
            out.insert("_type".into(), doc_type.into());
        }
        out.insert("_version".into(), document.stamp.version.into());
        (document.at.index.clone(), document.source.parse()?, false)
    };
    out.insert("found".into(), true.into());
    let of = VectorsOf {
        index,
        source,
        artificial,
        spec,
        visibility: None,
    };
    let found = match call.rest.engine.inspect(Inspection::TermVectors(Box::new(of))).await? {
        Inspected::TermVectors(found) => found,
        other => return Err(Error::new(ErrorKind::Internal, format!("{other:?} is no term vectors"))),
    };
    took(&mut out);
    out.insert("term_vectors".into(), Value::Object(found));
    Ok(out)
}
