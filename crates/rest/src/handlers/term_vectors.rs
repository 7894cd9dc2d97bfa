//! `_termvectors` and `_mtermvectors`: the terms of documents, of indices or of the request.
//!
//! Not here: reading of bodies (`dsl::document`), which terms there are (the engine).

use super::get::read_one;
use super::writes::head;
use crate::call::Call;
use crate::envelope;
use crate::params::ExpectParts;
use crate::respond::Answer;
use dsl::document::{TermVectors, parse_term_vectors};
use engine::{Expect, Inspected, Inspection, VectorsOf};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// What the URL asks of all documents.
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
    Ok(Answer::ok(Value::Object(vectors(&call, spec, realtime).await?)))
}

/// `_mtermvectors`: each document with what it asks for.
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
    let mut docs = Vec::with_capacity(all.len());
    for spec in all {
        let (index, id) = (spec.index.clone().unwrap_or_default(), spec.id.clone());
        match vectors(&call, spec, realtime).await {
            Ok(found) => docs.push(Value::Object(found)),
            Err(error) => {
                let mut object = Value::Object(envelope::object(&error, call.dialect));
                envelope::with_uuids(&call.rest, &mut object, call.dialect).await;
                let object = object.as_object().cloned().unwrap_or_default();
                let mut inner = Map::new();
                inner.insert("root_cause".into(), json!([object.clone()]));
                inner.extend(object);
                docs.push(json!({ "_index": index, "_id": id, "error": inner }));
            }
        }
    }
    Ok(Answer::ok(json!({ "docs": docs })))
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::ActionRequestValidation, format!("Validation Failed: 1: {what}"))
}

/// The answer for one document.
async fn vectors(call: &Call, spec: TermVectors, realtime: bool) -> Result<Map<String, Value>> {
    let started = Instant::now();
    let index = spec.index.clone().unwrap_or_default();
    let known = call.rest.known(&index).await;
    let typed = known.is_some_and(|known| known.typed);
    let id = spec.id.clone().unwrap_or_default();
    let id = match (&spec.doc_type, typed) {
        (Some(doc_type), true) => DocId::typed(doc_type.as_str(), id.as_str()),
        (None, true) => DocId::typed("_all", id.as_str()),
        _ => DocId::plain(id.as_str()),
    };
    let at = DocAddress {
        index: IndexName::new(index),
        id,
    };
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
        let parts = ExpectParts {
            version: spec.version.filter(|version| *version >= 0),
            version_type: spec.version_type.clone(),
            ..ExpectParts::default()
        };
        let expect = match parts.version.map(|_| parts.expect(true)).transpose()? {
            None | Some(Expect::Forced(_)) => Expect::Anything,
            Some(other) => other,
        };
        let Some(document) = read_one(call, at, spec.routing.clone(), realtime, expect).await? else {
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
    };
    let found = match call.rest.engine.inspect(Inspection::TermVectors(Box::new(of))).await? {
        Inspected::TermVectors(found) => found,
        other => return Err(Error::new(ErrorKind::Internal, format!("{other:?} is no term vectors"))),
    };
    took(&mut out);
    out.insert("term_vectors".into(), Value::Object(found));
    Ok(out)
}
