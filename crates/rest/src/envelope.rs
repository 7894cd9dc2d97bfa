//! Errors as JSON, in the shapes of each dialect.

use crate::{Rest, es2_errors};
use model::{Dialect, Error, ErrorKind, Persona};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The body of an error answer.
pub(crate) fn render(error: &Error, dialect: Dialect) -> Value {
    let error = in_dialect(error, dialect);
    let mut body = object(&error, dialect);
    let mut root = error.root().to_json();
    root.remove("caused_by");
    for name in ["phase", "grouped", "failed_shards"] {
        root.remove(name);
    }
    let mut entry = Map::new();
    // Where no shard failed there is no root.
    let shards = error.details().get("failed_shards").and_then(Value::as_array);
    let roots = match shards.is_some_and(Vec::is_empty) {
        true => json!([]),
        false => json!([root]),
    };
    entry.insert("root_cause".into(), roots);
    entry.append(&mut body);
    json!({ "error": entry, "status": error.status() })
}

/// Errors that name an index also say its uuid, `_na_` of one that is not there: decoders of clients in Java build an index
/// from both. An error's causes, roots and failed shards are looked at, too. 2015 had none.
pub(crate) async fn with_uuids(rest: &Rest, error: &mut Value, dialect: Dialect) {
    if dialect.rules.omits_index_uuids {
        return;
    }
    let mut names = BTreeMap::new();
    each_error(error, DEPTH_MAX, &mut |error| {
        if let (Some(Value::String(name)), None) = (error.get("index"), error.get("index_uuid")) {
            names.insert(name.clone(), None);
        }
    });
    if names.is_empty() {
        return;
    }
    for (name, uuid) in &mut names {
        *uuid = rest.index_facts(name).await.map(|known| known.uuid.clone());
    }
    each_error(error, DEPTH_MAX, &mut |error| {
        let named = error.get("index").and_then(Value::as_str).and_then(|name| names.get(name));
        if let (Some(uuid), false) = (named, error.contains_key("index_uuid")) {
            error.insert("index_uuid".into(), uuid.as_deref().unwrap_or("_na_").into());
        }
    });
}

/// Causes of causes that are looked at.
const DEPTH_MAX: usize = 16;

/// Calls `f` with an error object and every one in it.
fn each_error(error: &mut Value, depth: usize, f: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Some(error) = error.as_object_mut().filter(|_| depth > 0) else {
        return;
    };
    f(error);
    for name in ["caused_by", "cause", "reason"] {
        if let Some(inner) = error.get_mut(name).filter(|inner| inner.is_object()) {
            each_error(inner, depth - 1, f);
        }
    }
    for root in error
        .get_mut("root_cause")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        each_error(root, depth - 1, f);
    }
    for shard in error
        .get_mut("failed_shards")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        each_error(&mut shard["reason"], depth - 1, f);
    }
}

/// The status that goes with it in this dialect.
pub(crate) fn status(error: &Error, dialect: Dialect) -> u16 {
    in_dialect(error, dialect).status()
}

/// The error and what caused it, one a line: what `error_trace` asks for.
pub(crate) fn trace(error: &Error) -> String {
    let line = |error: &Error| format!("{}: {}", error.kind().wire(), error.reason());
    let causes = std::iter::successors(error.cause(), |error| error.cause());
    causes.fold(line(error), |text, cause| format!("{text}\nCaused by: {}", line(cause)))
}

/// One error without the envelope, as bulk items carry it.
pub(crate) fn object(error: &Error, dialect: Dialect) -> Map<String, Value> {
    in_dialect(error, dialect).to_json()
}

/// The same refusal in the words of 2015, where they differ.
fn in_dialect(error: &Error, dialect: Dialect) -> Error {
    if !dialect.rules.former_words {
        return error.clone();
    }
    es2_errors::reword(error)
}

/// A refusal of a search's shards where one shard was asked: without the envelope.
pub(crate) fn of_one_shard(error: Error) -> Error {
    match error.cause() {
        Some(refused) if error.kind() == ErrorKind::SearchPhaseExecution => refused.clone(),
        _ => error,
    }
}

/// An error of a search at its shards, as Elasticsearch wraps it.
pub(crate) fn all_shards_failed(error: Error, index: &str, dialect: Dialect) -> Error {
    // Blocks refuse before any shard is asked.
    if error.kind() == ErrorKind::ClusterBlock {
        return error;
    }
    if dialect.rules.shards_parse_bodies {
        return es2_errors::at_shards(error, None, index);
    }
    let persona = dialect.persona;
    if error.kind() == ErrorKind::TooManyBuckets && (persona.is_opensearch() || persona == Persona::Es7) {
        // Shards count none: where their answers are put together there are too many.
        return Error::new(ErrorKind::SearchPhaseExecution, "")
            .status_of(503)
            .with("phase", "fetch")
            .with("grouped", true)
            .with("failed_shards", json!([]))
            .with_cause(error);
    }
    let wrapped = match error.kind() {
        ErrorKind::IndexNotFound
        | ErrorKind::IndexClosed
        | ErrorKind::SearchPhaseExecution
        | ErrorKind::RejectedExecution
        | ErrorKind::CircuitBreaking
        | ErrorKind::TooManyScrolls
        | ErrorKind::TooManyJoinKeys
        | ErrorKind::TooManyBuckets
        | ErrorKind::Parsing
        | ErrorKind::AggregationInit
        | ErrorKind::ResourceNotFound
        | ErrorKind::ActionRequestValidation => return error,
        _ => error,
    };
    let mut reason = wrapped.to_json();
    // An alias is none: the index itself refused.
    let index = wrapped
        .details()
        .get("index")
        .and_then(Value::as_str)
        .unwrap_or(index)
        .to_owned();
    let index = index.as_str();
    reason.entry("index").or_insert_with(|| index.into());
    Error::new(ErrorKind::SearchPhaseExecution, "all shards failed")
        .status_of(wrapped.status())
        .with("phase", "query")
        .with("grouped", true)
        .with(
            "failed_shards",
            json!([{ "shard": 0, "index": index, "node": "pleach", "reason": reason }]),
        )
        .with_root_cause(wrapped.clone())
        .with_cause(twice(wrapped))
}

/// An exception that is not the server's own is shown with itself as its cause.
fn twice(error: Error) -> Error {
    let foreign = matches!(
        error.kind(),
        ErrorKind::IllegalArgument
            | ErrorKind::IllegalState
            | ErrorKind::NumberFormat
            | ErrorKind::NullPointer
            | ErrorKind::ArrayIndexOutOfBounds
            | ErrorKind::ClassCast
            | ErrorKind::Arithmetic
            | ErrorKind::UnsupportedOperation
            | ErrorKind::Security
    );
    if foreign {
        Error::new(error.kind(), error.reason()).with_cause(error)
    } else {
        error
    }
}
