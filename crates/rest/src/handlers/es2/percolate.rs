//! Percolation of 2015: queries kept as documents of the type `.percolator`, and the documents that are held against them.
//!
//! Not here: how queries are tried (`relations::percolation`).

use crate::actions::percolator::{MatchesForm, PercolateTarget, one, run_percolation};
use crate::call::Call;
use crate::envelope;
use crate::es2_errors;
use crate::query_params::split_list;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Value, json};

/// `GET /i/t/_percolate`.
#[boxed]
pub(crate) async fn percolate(call: Call) -> Result<Answer> {
    one(call, false).await
}

/// `GET /i/t/_percolate/count`.
#[boxed]
pub(crate) async fn count(call: Call) -> Result<Answer> {
    one(call, true).await
}

/// `POST /_mpercolate`: lines that say where, each with a line that says what.
#[boxed]
pub(crate) async fn several(mut call: Call) -> Result<Answer> {
    let content = call.content()?;
    call.params.finish()?;
    let lines: Vec<&[u8]> = content
        .split(|b| *b == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .collect();
    if lines.is_empty() {
        return Err(es2_errors::underivable());
    }
    let mut responses = Vec::new();
    for pair in lines.chunks(2) {
        let &[header, body] = pair else {
            return Err(Error::illegal("a percolation of several wants two lines: where, and what"));
        };
        let start = call.rest.clock.monotonic();
        let (place, sent, shape) = one_of_several(&call, header, body)?;
        let done = run_percolation(&call, place, &sent, shape, start).await;
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

fn one_of_several(call: &Call, header: &[u8], body: &[u8]) -> Result<(PercolateTarget, Vec<u8>, MatchesForm)> {
    let header = dsl::json::read(header, call.reading())?.into_value();
    let named = header.as_object().and_then(|header| header.iter().next());
    let (only_count, meta) = match named {
        Some((name, meta)) if name == "percolate" => (false, meta),
        Some((name, meta)) if name == "count" => (true, meta),
        Some((name, _)) => {
            let reason = format!("[{name}] isn't a supported percolate operation");
            return Err(Error::new(ErrorKind::Parse, reason));
        }
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
    let Some(doc_type) = doc_type else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: type is missing;",
        ));
    };
    let first = index.first().cloned().unwrap_or_default();
    let existing = text("id").map(|id| DocAddress {
        index: IndexName::new(first),
        id: DocId::with_type(doc_type.as_str(), id),
    });
    let place = PercolateTarget {
        target: Target::of(text("percolate_index").map_or(index, |index| split_list(&index))),
        doc_type: text("percolate_type").unwrap_or(doc_type),
        existing,
        routing: text("routing"),
        version: text("version").and_then(|version| version.parse().ok()),
    };
    let shape = MatchesForm {
        ids: text("percolate_format").as_deref() == Some("ids"),
        only_count,
        size: None,
    };
    Ok((place, body.to_vec(), shape))
}
