//! Explaining the score of one document, and whether a query is valid.

use super::search::{found, query_only, take_query};
use super::writes::head;
use crate::call::Call;
use crate::respond::Answer;
use dsl::query::{BoolQuery, Clause, Query};
use dsl::search::{SearchRequest, SourceSpec};
use engine::{Inspected, Inspection};
use model::{Error, ErrorKind, Result, Target};
use serde_json::{Value, json};

/// `GET /i/_explain/1`.
pub(crate) async fn explain(mut call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    let at = call.address(&id)?;
    let from_url = take_query(&mut call.params)?;
    let spec = super::get::source_params(&mut call)?;
    let content = call.json();
    call.params.finish()?;
    let query = match content {
        Ok(Some(node)) => query_only(node, call.dialect, "explain"),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    let query = query.map_err(|error| super::search::failed_to_parse(error, call.dialect))?;
    let Some(query) = from_url.or(query) else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: query is missing;",
        ));
    };
    let target = Target::index(at.index.as_str());
    // What is not searchable yet matches nothing.
    let exists = super::get::read_one(&call, at.clone(), None, false, engine::Expect::Anything).await?;
    let mut body = head(&at, call.dialect);
    let Some(document) = exists else {
        body.insert("matched".into(), false.into());
        return Ok(Answer::of(404, Value::Object(body)));
    };
    body.insert("_index".into(), document.at.index.as_str().into());
    let ids = Clause::Ids {
        values: vec![at.id.id.to_string()],
        types: at.id.doc_type.iter().map(ToString::to_string).collect(),
    };
    let asked = query.clone();
    let only = Clause::Bool(BoolQuery {
        must: vec![query],
        filter: vec![ids.clone().into()],
        ..BoolQuery::default()
    });
    let request = SearchRequest {
        query: Some(Query::from(only)),
        size: 1,
        explain: true,
        source: SourceSpec::None,
        ..SearchRequest::new(call.dialect)
    };
    let response = found(&call, &target, request).await.map_err(|error| {
        if crate::answers_of_2015(call.dialect) {
            crate::words_2015::alone(error)
        } else {
            // One shard was asked, and its refusal is the answer.
            crate::envelope::of_one_shard(error)
        }
    })?;
    match response.hits.hits.first().and_then(|h| h.explanation.clone()) {
        Some(explanation) => {
            body.insert("matched".into(), true.into());
            body.insert("explanation".into(), inner(explanation));
        }
        None => {
            body.insert("matched".into(), false.into());
            // The document by itself, and what the query says of it.
            let request = SearchRequest {
                query: Some(Query::from(ids)),
                size: 1,
                explain: true,
                explained: Some(call.rest.relations.query(&target, asked).await?),
                source: SourceSpec::None,
                ..SearchRequest::new(call.dialect)
            };
            let response = found(&call, &target, request).await?;
            let explanation = response.hits.hits.into_iter().next().and_then(|hit| hit.explanation);
            let none = || json!({ "value": 0.0, "description": "no matching term", "details": [] });
            body.insert("explanation".into(), explanation.unwrap_or_else(none));
        }
    }
    if !matches!(spec, SourceSpec::Default | SourceSpec::None) {
        let source = super::get::filtered(&document.source.parse()?, &spec);
        let mut get = json!({ "_seq_no": document.stamp.seq_no, "_primary_term": document.stamp.primary_term, "found": true, "_source": source });
        if let (true, Some(get)) = (call.dialect.typed, get.as_object_mut()) {
            get.remove("_seq_no");
            get.remove("_primary_term");
        }
        body.insert("get".into(), get);
    }
    Ok(Answer::ok(Value::Object(body)))
}

/// The explanation of the query itself, without the filter that chose the document.
fn inner(explanation: Value) -> Value {
    match explanation.get("details").and_then(Value::as_array).map(Vec::as_slice) {
        Some([first, second]) if second.get("value").and_then(Value::as_f64) == Some(0.0) => first.clone(),
        _ => explanation,
    }
}

/// `_validate/query`.
pub(crate) async fn validate(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let explain = call.params.flag("explain")?;
    let rewrite = call.params.flag("rewrite")?;
    let from_url = take_query(&mut call.params)?;
    let content = call.json();
    call.params.finish()?;
    let dialect = call.dialect;
    let parsed = match content {
        Ok(Some(node)) if !dialect.typed && node.is_empty_object() => {
            return Err(Error::new(
                ErrorKind::ActionRequestValidation,
                "Validation Failed: 1: query cannot be null;",
            ));
        }
        Ok(Some(node)) => query_only(node, dialect, "validate"),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    let shards = json!({ "total": 1, "successful": 1, "failed": 0 });
    let query = match parsed {
        Ok(query) => from_url.or(query).unwrap_or_else(Query::all),
        Err(error) => {
            let mut body = json!({ "valid": false, "_shards": shards });
            if explain && dialect.typed {
                let query = Box::new(Query::all());
                if let Inspected::Validated(list) = call.rest.engine.inspect(Inspection::Validate { target, query }).await? {
                    let why = format!("org.elasticsearch.index.query.QueryParsingException: {}", error.reason());
                    let one = |index: &model::IndexName| json!({ "index": index.as_str(), "valid": false, "error": why });
                    body["explanations"] = list.iter().map(|(index, _)| one(index)).collect();
                }
            } else if explain {
                body["error"] = format!("org.elasticsearch.common.ParsingException: {}", error.reason()).into();
            }
            return Ok(Answer::ok(body));
        }
    };
    let query = call.rest.relations.query(&target, query).await?;
    let answers = match call
        .rest
        .engine
        .inspect(Inspection::Validate {
            target,
            query: Box::new(query),
        })
        .await?
    {
        Inspected::Validated(list) => list,
        other => {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("{other:?} does not answer a validation"),
            ));
        }
    };
    let valid = answers.iter().all(|(_, answer)| answer.is_ok());
    let mut body = json!({ "valid": valid, "_shards": shards });
    if explain || rewrite {
        let list: Vec<Value> = answers
            .iter()
            .map(|(index, answer)| match answer {
                Ok(text) => json!({ "index": index.as_str(), "valid": true, "explanation": text }),
                Err(error) => json!({ "index": index.as_str(), "valid": false, "error": error.to_string() }),
            })
            .collect();
        body["explanations"] = list.into();
    }
    Ok(Answer::ok(body))
}
