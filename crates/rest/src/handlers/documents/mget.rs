//! `_mget`: several documents by their ids, all as they were at one instant.

use crate::actions::read::{
    ReadOptions, as_indexed, check_version, concrete, fetch_together, kept_parts, render_found, source_params,
};
use crate::actions::visibility::Visibility;
use crate::actions::writes::head;
use crate::answer_room::AnswerRoom;
use crate::call::Call;
use crate::envelope;
use crate::es2_errors;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::document::{MgetBody, MgetItem};
use dsl::search::SourceSpec;
use engine::{Document, Expect, Read};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result};
use serde_json::{Map, Value, json};

/// Memory of an item beside its document: its options, its result, its part of the answer. Measured with a million.
const ITEM_BYTES: usize = 2560;

/// `_mget`.
#[boxed]
pub(crate) async fn mget(mut call: Call) -> Result<Answer> {
    let default_spec = source_params(&mut call)?;
    let default_stored = call.params.take_list(if call.dialect.rules.documents_show_fields {
        "fields"
    } else {
        "stored_fields"
    });
    let routing = call.params.take("routing");
    let realtime = call.params.take_bool("realtime")?;
    let refresh = call.params.flag("refresh")?;
    let visibility = Visibility::take(&mut call)?;
    let node = call.json()?;
    call.book(node.as_ref().map_or(0, MgetBody::count).saturating_mul(ITEM_BYTES))?;
    let body = node.map(|node| MgetBody::parse(node, call.dialect)).transpose()?;
    call.params.finish()?;
    let Some(body) = body.filter(|body| !body.docs.is_empty()) else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no documents to get;",
        ));
    };
    let target = target_of(&body, call.arg("index"));
    // A change that nobody knows is the request's mistake, a missing index that of a document.
    let there = model::Target {
        ignore_unavailable: true,
        allow_no_indices: true,
        forbid_closed: false,
        ..target.clone()
    };
    visibility.reach(&call, &there).await?;
    let look = visibility.look(&call, &target, None).await?;
    let answer = async {
        let mut wanted = Vec::with_capacity(body.docs.len());
        for item in &body.docs {
            wanted.push(self::parse_item(&call, item, wanted.len(), routing.as_deref(), realtime, refresh, &visibility).await?);
        }
        // All of them as they were at one instant.
        let mut room = AnswerRoom::new(&call.rest);
        let found = fetch_together(&call, &wanted, room.left()).await?;
        assert_eq!(found.len(), wanted.len(), "each document that is wanted has its answer");
        let mut docs = Vec::with_capacity(wanted.len());
        for ((item, wanted), found) in body.docs.iter().zip(&wanted).zip(found) {
            let spec = match item.source {
                SourceSpec::Default => &default_spec,
                ref own => own,
            };
            let stored = item.stored_fields.as_deref().or(default_stored.as_deref());
            let found = match room.check() {
                Ok(()) => found.unwrap_or_else(|| Err(AnswerRoom::none())),
                Err(full) => Err(full),
            };
            // As text at once: a tree takes several times as much.
            let text = one(&call, item, wanted, found, spec, stored).await?.to_string();
            room.take(text.len());
            docs.push(text);
        }
        call.raw_answer(format!("{{\"docs\":[{}]}}", docs.join(",")))
    }
    .await;
    look.over(&call, answer).await
}

/// The indices that the items name, or that the URL names for them.
fn target_of(body: &MgetBody, default: Option<&str>) -> model::Target {
    let names = body.docs.iter().filter_map(|item| item.index.as_deref().or(default));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    model::Target::of(names)
}

/// The read of an item.
async fn parse_item(
    call: &Call,
    item: &MgetItem,
    number: usize,
    routing: Option<&str>,
    realtime: Option<bool>,
    refresh: bool,
    visibility: &Visibility,
) -> Result<ReadOptions> {
    let Some(index) = item.index.as_deref().or(call.arg("index")) else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            format!("Validation Failed: 1: index is missing for doc {number};"),
        ));
    };
    let typed = call
        .rest
        .index_facts(index)
        .await
        .map_or(call.dialect.rules.has_types, |k| k.typed);
    let id = match (doc_type_of(call, item), typed) {
        (Some(doc_type), true) => DocId::with_type(doc_type, item.id.as_str()),
        (None, true) => DocId::with_type("_all", item.id.as_str()),
        _ => DocId::plain(item.id.as_str()),
    };
    let version = item.version.filter(|version| *version >= 0);
    let version_type = item
        .version_type
        .clone()
        .map(crate::query_params::known_version_type)
        .transpose()?;
    let expect = crate::query_params::ExpectParts {
        version,
        // Without a version (-3 stands for any) there is nothing to compare, whatever the type.
        version_type: version_type.filter(|_| version.is_some()),
        ..crate::query_params::ExpectParts::default()
    };
    Ok(ReadOptions {
        source: SourceSpec::Default,
        stored: None,
        expect: match expect.expect(true)? {
            Expect::Forced(_) => Expect::Anything,
            other => other,
        },
        refresh,
        read: Read {
            routing: item.routing.as_deref().or(routing).map(str::to_owned),
            searchable_only: realtime == Some(false),
            ..Read::whole(DocAddress {
                index: IndexName::new(index),
                id,
            })
        },
        visibility: visibility.clone(),
    })
}

fn doc_type_of<'a>(call: &'a Call, item: &'a MgetItem) -> Option<&'a str> {
    item.doc_type.as_deref().or(call.arg("type"))
}

/// One item of the answer.
async fn one(
    call: &Call,
    item: &MgetItem,
    wanted: &ReadOptions,
    found: Result<Option<Document>>,
    spec: &SourceSpec,
    stored: Option<&[String]>,
) -> Result<Value> {
    let at = &wanted.read.at;
    let doc_type = doc_type_of(call, item);
    let found = match found {
        Ok(Some(document)) => check_version(wanted, &document, call).await.map(|()| Some(document)),
        found => found,
    };
    let mut out;
    match found {
        Ok(Some(document)) => {
            let kept = kept_parts(call, &document, stored).await?;
            let spec = if kept.source { spec } else { &SourceSpec::None };
            out = render_found(&document, spec, stored, &kept.fields, call)?;
            as_indexed(call, &document, &mut out).await?;
            if document.at.id.doc_type.is_none() {
                repeat_type(&mut out, doc_type);
            }
        }
        Ok(None) => {
            out = head(&concrete(call, at).await, call.dialect);
            if let (Some(doc_type), true) = (doc_type, call.dialect.rules.has_types) {
                out.insert("_type".into(), doc_type.into());
            } else if at.id.doc_type.is_none() {
                repeat_type(&mut out, doc_type);
            } else if at.id.doc_type.as_deref() == Some("_all") {
                out.insert("_type".into(), Value::Null);
            }
            out.insert("found".into(), false.into());
        }
        Err(error) => {
            out = head(at, call.dialect);
            // Elasticsearch 7 repeats the type of the request, or that there was none.
            if let Some(shown) = out.get_mut("_type") {
                *shown = doc_type.into();
            }
            let mut inner = Map::new();
            let error = if call.dialect.rules.former_document_answers {
                es2_errors::in_mget(error)
            } else {
                error
            };
            let mut object = Value::Object(envelope::object(&error, call.dialect));
            envelope::with_uuids(&call.rest, &mut object, call.dialect).await;
            let object = object.as_object().cloned().unwrap_or_default();
            inner.insert("root_cause".into(), json!([object.clone()]));
            inner.extend(object);
            out.insert("error".into(), Value::Object(inner));
        }
    }
    Ok(Value::Object(out))
}

/// An untyped index keeps no name of a type: Elasticsearch 7 shows the one that the request gave.
fn repeat_type(out: &mut Map<String, Value>, doc_type: Option<&str>) {
    if let (Some(shown), Some(doc_type)) = (out.get_mut("_type"), doc_type) {
        *shown = doc_type.into();
    }
}
