//! Explaining the score of one document, and whether a query is valid.

use crate::actions::search::{query_only, query_without_body, run_search, take_query};
use crate::actions::visibility::Visibility;
use crate::actions::writes::head;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::query::{BoolQuery, Clause, Query};
use dsl::search::{SearchRequest, SourceSpec};
use engine::{Inspected, Inspection};
use model::{DocAddress, Error, ErrorKind, Result, Target};
use serde_json::{Value, json};

/// `GET /i/_explain/1`.
#[boxed]
pub(crate) async fn explain(mut call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    let at = call.address(&id)?;
    let spec = crate::actions::read::source_params(&mut call)?;
    let content = call.json();
    let mut from_url = None;
    if call.dialect.rules.takes_query_beside_body || matches!(content, Ok(None)) {
        from_url = take_query(&mut call.params)?;
    } else {
        // Looked at only where no body says what is asked.
        call.params.take("q");
    }
    call.params.finish()?;
    let query = match content {
        Ok(Some(node)) => query_only(node, call.dialect, "explain"),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    let query = query.map_err(|error| crate::actions::search::failed_to_parse(error, call.dialect))?;
    let Some(query) = from_url.or(query) else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: query is missing;",
        ));
    };
    let target = Target::index(at.index.as_str());
    // It refuses what cannot be read by this address; the document itself is read in the moment of the query.
    crate::actions::read::read_one(&call, at.clone(), None, false, engine::Expect::Anything).await?;
    let request = SearchRequest {
        query: Some(query),
        source: SourceSpec::None,
        ..SearchRequest::new(call.dialect)
    };
    let look = Visibility::default().look(&call, &target, Some(&request)).await?;
    let answer = in_one_moment(&call, &at, &target, request, &spec).await;
    look.over(&call, answer).await
}

/// Reads the document, explains the query and ends the moment of both.
async fn in_one_moment(
    call: &Call,
    at: &DocAddress,
    target: &Target,
    request: SearchRequest,
    spec: &SourceSpec,
) -> Result<Answer> {
    let relations = &call.rest.relations;
    let moment = relations
        .open_moment(target, &request)
        .await
        .map_err(|error| refusal_of_shard(call, error))?;
    let answer = explain_in(call, at, target, &moment, request, spec).await;
    relations.close_moment(&moment).await?;
    answer
}

/// One shard is asked, and its refusal is the answer.
fn refusal_of_shard(call: &Call, error: Error) -> Error {
    match call.dialect.rules.one_shard_words {
        true => crate::es2_errors::alone(error),
        false => crate::envelope::of_one_shard(error),
    }
}

/// A document that is not searchable yet matches nothing.
async fn explain_in(
    call: &Call,
    at: &DocAddress,
    target: &Target,
    moment: &str,
    request: SearchRequest,
    spec: &SourceSpec,
) -> Result<Answer> {
    let mut body = head(at, call.dialect);
    let concrete = crate::actions::read::concrete(call, at).await;
    let Some(document) = call.rest.relations.read_in_moment(concrete.clone(), moment).await? else {
        body.insert("_index".into(), concrete.index.as_str().into());
        body.insert("matched".into(), false.into());
        return Ok(Answer::of(404, Value::Object(body)));
    };
    body.insert("_index".into(), document.at.index.as_str().into());
    let ids = Clause::Ids {
        values: vec![at.id.id.to_string()],
        types: at.id.doc_type.iter().map(ToString::to_string).collect(),
    };
    let asked = request.query.clone().unwrap_or_else(Query::all);
    let only = Clause::Bool(BoolQuery {
        must: vec![asked.clone()],
        filter: vec![ids.clone().into()],
        ..BoolQuery::default()
    });
    let request = SearchRequest {
        size: 1,
        explain: true,
        view: Some(moment.to_owned()),
        ..request
    };
    let matching = SearchRequest {
        query: Some(Query::from(only)),
        ..request.clone()
    };
    let response = run_search(call, target, matching)
        .await
        .map_err(|error| refusal_of_shard(call, error))?;
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
                explained: Some(call.rest.relations.query_in(target, asked, moment).await?),
                ..request
            };
            let response = run_search(call, target, request).await?;
            let explanation = response.hits.hits.into_iter().next().and_then(|hit| hit.explanation);
            let none = || json!({ "value": 0.0, "description": "no matching term", "details": [] });
            body.insert("explanation".into(), explanation.unwrap_or_else(none));
        }
    }
    if !matches!(spec, SourceSpec::Default | SourceSpec::None) {
        let source = crate::actions::read::filter_source(&document.source.parse()?, spec);
        let mut get = json!({ "_seq_no": document.stamp.seq_no, "_primary_term": document.stamp.primary_term, "found": true, "_source": source });
        if let (true, Some(get)) = (call.dialect.rules.omits_later_members, get.as_object_mut()) {
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
#[boxed]
pub(crate) async fn validate(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let explain = call.params.flag("explain")?;
    let rewrite = call.params.flag("rewrite")?;
    let every = call.params.flag("all_shards")?;
    let content = call.json();
    let from_url = query_without_body(&mut call, matches!(content, Ok(None)))?;
    call.params.finish()?;
    let dialect = call.dialect;
    let parsed = match content {
        Ok(Some(node)) if !dialect.rules.tolerates_missing_options && node.is_empty_object() => {
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
            if !dialect.rules.shards_parse_bodies {
                // No shard was asked.
                let mut body = json!({ "valid": false });
                if explain {
                    body["error"] = said_in_detail(&crate::actions::search::failed_to_parse(error, dialect)).into();
                }
                return Ok(Answer::ok(body));
            }
            let mut body = json!({ "valid": false, "_shards": shards });
            if explain {
                let why = format!("org.elasticsearch.index.query.QueryParsingException: {}", error.reason());
                let one = |index: &model::IndexName| json!({ "index": index.as_str(), "valid": false, "error": why });
                let answers = validations(&call, target, Query::all()).await?;
                body["explanations"] = answers.iter().map(|(index, _)| one(index)).collect();
            }
            return Ok(Answer::ok(body));
        }
    };
    let query = call.rest.relations.query(&target, query).await?;
    let answers = validations(&call, target, query).await?;
    let valid = answers.iter().all(|(_, answer)| answer.is_ok());
    let mut body = json!({ "valid": valid, "_shards": shards });
    let every = every && !dialect.rules.validation_asks_once;
    if explain || rewrite || every {
        let list: Vec<Value> = answers
            .iter()
            .map(|(index, answer)| {
                let mut one = match answer {
                    Ok(text) => json!({ "index": index.as_str(), "valid": true, "explanation": text }),
                    Err(error) if dialect.rules.validation_asks_once => {
                        json!({ "index": index.as_str(), "valid": false, "error": error.to_string() })
                    }
                    Err(error) => json!({ "index": index.as_str(), "valid": false, "error": said_in_detail(error) }),
                };
                if every {
                    one["shard"] = 0.into();
                }
                one
            })
            .collect();
        body["explanations"] = list.into();
    }
    Ok(Answer::ok(body))
}

/// For each index the query as it would run, or why it cannot.
async fn validations(call: &Call, target: Target, query: Query) -> Result<Vec<(model::IndexName, Result<String>)>> {
    let query = Box::new(query);
    match call.rest.engine.inspect(Inspection::Validate { target, query }).await? {
        Inspected::Validated(list) => Ok(list),
        other => Err(Error::new(
            ErrorKind::Internal,
            format!("{other:?} does not answer a validation"),
        )),
    }
}

/// A refusal with what caused it in one line, as a server in Java puts it:
/// `QueryShardException[no]; nested: NumberFormatException[x];; java.lang.NumberFormatException: x`.
fn said_in_detail(error: &Error) -> String {
    let chain: Vec<&Error> = std::iter::successors(Some(error), |error| error.cause()).collect();
    let mut out = Vec::with_capacity(chain.len());
    for one in &chain {
        let (_, class) = java_class(one.kind());
        let whose = ["index", "index_uuid"].map(|name| one.details().get(name).and_then(Value::as_str));
        let whose = match whose {
            [Some(index), Some(uuid)] => format!("[{index}/{uuid}] "),
            [Some(index), None] => format!("[{index}] "),
            _ => String::new(),
        };
        out.push(format!("{whose}{class}[{}]", one.reason()));
    }
    let mut text = out.join("; nested: ");
    if let [_, .., last] = chain.as_slice() {
        let (package, class) = java_class(last.kind());
        text.push_str(&format!(";; {package}{class}: {}", last.reason()));
    }
    text
}

/// The package and the name of the class that a kind of error stands for.
fn java_class(kind: ErrorKind) -> (&'static str, String) {
    let package = match kind {
        ErrorKind::IllegalArgument | ErrorKind::NumberFormat | ErrorKind::IllegalState => "java.lang.",
        ErrorKind::NamedObjectNotFound | ErrorKind::XContentParse => "org.opensearch.core.xcontent.",
        _ => "",
    };
    let class = match kind {
        ErrorKind::Parse => "OpenSearchParseException".to_owned(),
        kind => kind.wire().split('_').map(capitalize).collect(),
    };
    (package, class)
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_in_detail() {
        let check = |error: Error, said: &str| assert_eq!(said_in_detail(&error), said);
        check(Error::parsing("no", 1, 1), "ParsingException[no]");
        check(
            Error::new(ErrorKind::QueryShard, "no")
                .with("index", "i")
                .with("index_uuid", "u")
                .with_cause(Error::no_number("x")),
            "[i/u] QueryShardException[no]; nested: NumberFormatException[For input string: \"x\"];; \
             java.lang.NumberFormatException: For input string: \"x\"",
        );
    }
}
