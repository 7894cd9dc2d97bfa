//! `_mget`: several documents by their ids.

use super::get::{Wanted, as_indexed, concrete, expected, fetch, kept, shown, source_params};
use super::visibility::Visibility;
use super::writes::head;
use crate::answer_room::AnswerRoom;
use crate::answers_of_2015;
use crate::call::Call;
use crate::envelope;
use crate::respond::Answer;
use crate::words_2015;
use dsl::document::MgetBody;
use dsl::search::SourceSpec;
use engine::{Expect, Read, See};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result};
use serde_json::{Map, Value, json};

/// `_mget`.
pub(crate) async fn mget(mut call: Call) -> Result<Answer> {
    let default_spec = source_params(&mut call)?;
    let default_stored = call.params.take_list(if answers_of_2015(call.dialect) {
        "fields"
    } else {
        "stored_fields"
    });
    let routing = call.params.take("routing");
    let realtime = call.params.take_bool("realtime")?;
    let refresh = call.params.flag("refresh")?;
    let visibility = Visibility::take(&mut call)?;
    let body = call.json()?.map(|node| MgetBody::parse(node, call.dialect)).transpose()?;
    call.params.finish()?;
    let Some(body) = body else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no documents to get;",
        ));
    };
    if body.docs.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no documents to get;",
        ));
    }
    let names = body
        .docs
        .iter()
        .filter_map(|item| item.index.as_deref().or(call.arg("index")));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    let target = model::Target::of(names);
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
        let (mut docs, mut room) = (Vec::new(), AnswerRoom::new(&call.rest));
        for item in body.docs {
            let index = item.index.or_else(|| call.arg("index").map(str::to_owned));
            let Some(index) = index else {
                return Err(Error::new(
                    ErrorKind::ActionRequestValidation,
                    format!("Validation Failed: 1: index is missing for doc {};", docs.len()),
                ));
            };
            let doc_type = item.doc_type.or_else(|| call.arg("type").map(str::to_owned));
            let typed = call.rest.known(&index).await.map_or(call.dialect.typed, |k| k.typed);
            let id = match (&doc_type, typed) {
                (Some(doc_type), true) => DocId::typed(doc_type.as_str(), item.id.as_str()),
                (None, true) => DocId::typed("_all", item.id.as_str()),
                _ => DocId::plain(item.id.as_str()),
            };
            let at = DocAddress {
                index: IndexName::new(index),
                id,
            };
            let read = Read {
                at: at.clone(),
                routing: item.routing.or_else(|| routing.clone()),
                see: See::Plain,
                searchable_only: realtime == Some(false),
            };
            let expect = crate::params::ExpectParts {
                version: item.version.filter(|version| *version >= 0),
                version_type: item.version_type.clone(),
                ..crate::params::ExpectParts::default()
            };
            let wanted = Wanted {
                source: SourceSpec::Default,
                stored: None,
                expect: match expect.expect(true)? {
                    Expect::Forced(_) => Expect::Anything,
                    other => other,
                },
                refresh,
                read,
                visibility: visibility.clone(),
            };
            let spec = if item.source == SourceSpec::Default {
                &default_spec
            } else {
                &item.source
            };
            let stored = item.stored_fields.as_ref().or(default_stored.as_ref());
            let found = match room.check() {
                Ok(()) => fetch(&call, &wanted).await,
                Err(full) => Err(full),
            };
            let found = match found {
                Ok(Some(document)) => expected(&wanted, &document, &call).await.map(|()| Some(document)),
                found => found,
            };
            let doc = match found {
                Ok(Some(document)) => {
                    let stored = stored.map(Vec::as_slice);
                    let kept = kept(&call, &document, stored).await?;
                    let spec = if kept.source { spec } else { &SourceSpec::None };
                    let mut out = shown(&document, spec, stored, &kept.fields, &call)?;
                    as_indexed(&call, &document, &mut out).await?;
                    Value::Object(out)
                }
                Ok(None) => {
                    let mut out = head(&concrete(&call, &at).await, call.dialect);
                    if let (Some(doc_type), true) = (&doc_type, call.dialect.typed) {
                        out.insert("_type".into(), doc_type.as_str().into());
                    } else if at.id.doc_type.as_deref() == Some("_all") {
                        out.insert("_type".into(), Value::Null);
                    }
                    out.insert("found".into(), false.into());
                    Value::Object(out)
                }
                Err(error) => {
                    let mut out = head(&at, call.dialect);
                    // Elasticsearch 7 repeats the type of the request, or that there was none.
                    if let (Some(shown), None) = (out.get_mut("_type"), &doc_type) {
                        *shown = Value::Null;
                    }
                    let mut inner = Map::new();
                    let error = if answers_of_2015(call.dialect) {
                        words_2015::in_mget(error)
                    } else {
                        error
                    };
                    let object = envelope::object(&error, call.dialect);
                    inner.insert("root_cause".into(), json!([object.clone()]));
                    inner.extend(object);
                    out.insert("error".into(), Value::Object(inner));
                    Value::Object(out)
                }
            };
            // As text at once: a tree takes several times as much.
            let text = doc.to_string();
            room.take(text.len());
            docs.push(text);
        }
        Ok(Answer::raw(format!("{{\"docs\":[{}]}}", docs.join(","))))
    }
    .await;
    look.over(&call, answer).await
}
