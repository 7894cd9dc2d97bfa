//! Refusals in the words of 2015, where they differ from today's: one function a place in which they arise.
//!
//! Not here: what is refused. The kinds and sentences of today come from below; these translate.

use model::{Dialect, Error, ErrorKind};
use serde_json::{Value, json};

/// The same refusal with another kind and sentence; its facts and cause stay.
fn again(error: &Error, kind: ErrorKind, reason: impl Into<String>) -> Error {
    let mut out = Error::new(kind, reason);
    for (name, value) in error.details() {
        if name != "index_uuid" {
            out = out.with(name, value.clone());
        }
    }
    match error.cause() {
        Some(cause) => out.with_cause(cause.clone()),
        None => out,
    }
}

fn index_of(error: &Error) -> &str {
    error.details().get("index").and_then(Value::as_str).unwrap_or_default()
}

/// Refusals with other words in Elasticsearch 2, wherever they arise.
pub(crate) fn reword(error: &Error) -> Error {
    let index = index_of(error);
    let reason = error.reason();
    match error.kind() {
        ErrorKind::IndexNotFound => again(error, ErrorKind::IndexNotFound, "no such index"),
        ErrorKind::IndexAlreadyExists => Error::new(ErrorKind::IndexAlreadyExistsOld, "already exists").with("index", index),
        ErrorKind::IndexClosed => Error::new(ErrorKind::IndexClosed, "closed")
            .with("index", index)
            .status_of(403),
        ErrorKind::InvalidIndexName => again(
            error,
            error.kind(),
            reason
                .replace("[ , \", *, \\, <, |, ,, >, /, ?]", "[\\, /, *, ?, \", <, >, |,  , ,]")
                .replace("must not start with '_', '-', or '+'", "must not start with '_'"),
        ),
        ErrorKind::InvalidAliasName => {
            let said = reason.replace(
                ": an index or data stream exists with the same name as the alias",
                ", an index exists with the same name as the alias",
            );
            let told = again(error, error.kind(), said);
            // Every refusal named an index, if only that of the alias.
            let alias = reason.split_once('[').and_then(|(_, rest)| rest.split_once("]: "));
            match alias.filter(|_| index.is_empty()) {
                Some((alias, _)) => told.with("index", alias),
                None => told,
            }
        }
        ErrorKind::IllegalArgument
            if reason.starts_with("alias [") && reason.contains("has more than one index associated with it [") =>
        {
            let said = reason
                .replacen("alias [", "Alias [", 1)
                .replace(
                    "more than one index associated with it [",
                    "more than one indices associated with it [[",
                )
                .replace("], can't execute", "]], can't execute");
            again(error, error.kind(), said)
        }
        ErrorKind::ClusterBlock => {
            let said = reason.find("blocked by: ").map_or(reason, |at| &reason[at..]);
            again(error, error.kind(), said)
        }
        _ => error.clone(),
    }
}

/// A name that single documents and expressions could not resolve.
pub(crate) fn as_expression(error: Error) -> Error {
    if error.kind() == ErrorKind::IndexNotFound && error.details().contains_key("resource.type") {
        return error.with("resource.type", "index_expression");
    }
    error
}

/// A refusal that came over the transport of 2015, even inside one node: the root cause is the journey.
pub(crate) fn remote(error: Error, action: &str) -> Error {
    let root = Error::new(ErrorKind::RemoteTransport, format!("[pleach-1][127.0.0.1:9300][{action}]"));
    error.with_root_cause(root)
}

/// A script that failed in an update.
pub(crate) fn in_update(error: Error) -> Error {
    match error.kind() {
        ErrorKind::IllegalArgument if error.reason() == "failed to execute script" => {
            remote(error, "indices:data/write/update[s]")
        }
        ErrorKind::Script | ErrorKind::ScriptMissing | ErrorKind::IllegalArgument
            if error.kind() != ErrorKind::IllegalArgument || error.reason().starts_with("script_lang not supported") =>
        {
            let outer = Error::illegal("failed to execute script").with_cause(error);
            remote(outer, "indices:data/write/update[s]")
        }
        _ => error,
    }
}

/// A search whose lookup found no index to look in. The servers of 2015 answered 503, which says "try again".
pub(crate) fn lookup_failed(error: Error) -> Error {
    Error::new(ErrorKind::SearchPhaseExecution, "all shards failed")
        .status_of(error.status())
        .with("phase", "query")
        .with("grouped", true)
        .with_cause(error)
}

/// A refusal of a search's shards as one shard alone said it.
pub(crate) fn alone(error: Error) -> Error {
    if error.kind() != ErrorKind::SearchPhaseExecution {
        return error;
    }
    let root = error.root().clone();
    match root.kind() {
        ErrorKind::NumberFormat => Error::new(ErrorKind::QueryParsing, "Failed to parse").with_cause(root),
        _ => root,
    }
}

/// A document of several that cannot be read.
pub(crate) fn in_mget(error: Error) -> Error {
    match error.kind() {
        ErrorKind::RoutingMissing => Error::illegal(error.reason()),
        _ => error,
    }
}

/// A body that is no JSON, where nothing wrapped what the parser said. The servers of 2015 answered 500; here a client's
/// mistake is a 400.
pub(crate) fn unread(error: Error, body: &[u8]) -> Error {
    if !matches!(error.kind(), ErrorKind::JsonParse | ErrorKind::JsonEof) {
        return error;
    }
    if !looks_like_content(body) {
        return underivable();
    }
    error
}

/// [`unread`], in the typed dialect.
pub(crate) fn unread_if(error: Error, body: &[u8], dialect: Dialect) -> Error {
    if dialect.rules.fails_to_derive_content {
        unread(error, body)
    } else {
        error
    }
}

/// `Failed to derive xcontent`.
pub(crate) fn underivable() -> Error {
    Error::new(ErrorKind::Parse, "Failed to derive xcontent")
}

/// JSON was known by its first brace.
pub(crate) fn looks_like_content(body: &[u8]) -> bool {
    body.iter().take(20).any(|b| *b == b'{')
}

/// Whether what could not be read stood inside a query, whose parser caught everything.
fn inside_query(error: &Error, body: &[u8]) -> bool {
    let number = |name: &str| usize::try_from(error.details().get(name)?.as_u64()?).ok();
    let end = match (error.kind(), number("line"), number("col")) {
        (ErrorKind::JsonParse, Some(line), Some(column)) => {
            let before: usize = body
                .split(|b| *b == b'\n')
                .take(line.saturating_sub(1))
                .map(|l| l.len() + 1)
                .sum();
            (before + column).saturating_sub(1).min(body.len())
        }
        _ => body.len(),
    };
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let (mut word, mut name) = (Vec::new(), Vec::new());
    for byte in &body[..end] {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => {
                quoted = !quoted;
                if quoted {
                    word.clear();
                }
            }
            _ if quoted => word.push(*byte),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => name.clone_from(&word),
            b if b.is_ascii_alphanumeric() || *b == b'_' => word.push(*b),
            b',' | b' ' => word.clear(),
            _ => {}
        }
    }
    depth > 1 && [&b"query"[..], b"post_filter", b"filter"].contains(&name.as_slice())
}

/// A refusal of a search at its shards: there even bodies were parsed.
pub(crate) fn at_shards(error: Error, body: Option<&[u8]>, index: &str) -> Error {
    let reason = error.reason();
    let inner = match error.kind() {
        ErrorKind::IndexNotFound
        | ErrorKind::IndexClosed
        | ErrorKind::SearchPhaseExecution
        | ErrorKind::RejectedExecution
        | ErrorKind::TooManyScrolls
        | ErrorKind::ContentTooLong
        | ErrorKind::Internal
        | ErrorKind::ActionRequestValidation => return error,
        ErrorKind::JsonParse | ErrorKind::JsonEof if !body.is_none_or(looks_like_content) => underivable(),
        ErrorKind::JsonParse | ErrorKind::JsonEof if inside_query(&error, body.unwrap_or_default()) => {
            Error::new(ErrorKind::QueryParsing, "Failed to parse").with_cause(error.clone())
        }
        ErrorKind::JsonParse | ErrorKind::JsonEof => error.clone(),
        ErrorKind::XContentParse if reason.contains("unknown field") => {
            let name = reason.rsplit('[').next().unwrap_or_default().trim_end_matches(']');
            Error::new(
                ErrorKind::SearchParse,
                format!("failed to parse search source. unknown search element [{name}]"),
            )
        }
        ErrorKind::XContentParse | ErrorKind::Parsing => again(&error, ErrorKind::SearchParse, reason),
        ErrorKind::QueryShard if reason.starts_with("No mapping found for [") => again(&error, ErrorKind::SearchParse, reason),
        // A value that is no number was the parser's own exception.
        ErrorKind::QueryShard if number_of(&error).is_some() => {
            Error::new(ErrorKind::NumberFormat, number_of(&error).unwrap_or_default())
        }
        ErrorKind::QueryShard => again(&error, ErrorKind::QueryParsing, reason),
        ErrorKind::IllegalArgument if reason.starts_with("Result window is too large") => {
            again(&error, ErrorKind::QueryPhaseExecution, reason)
        }
        ErrorKind::IllegalArgument if reason.starts_with("Text fields are not optimised") => {
            let name = reason
                .rsplit_once("fielddata=true on [")
                .and_then(|(_, rest)| rest.split(']').next());
            Error::new(
                ErrorKind::IllegalState,
                format!("Field data loading is forbidden on [{}]", name.unwrap_or_default()),
            )
            .status_of(400)
        }
        // Found out when the aggregation ran.
        ErrorKind::IllegalArgument
            if reason.starts_with("When ordering on a multi-value metrics aggregation")
                || reason.starts_with("Required one of fields [field, script]") =>
        {
            again(&error, ErrorKind::AggregationExecution, reason)
        }
        _ => error.clone(),
    };
    let mut shown = inner.to_json();
    shown.entry("index").or_insert_with(|| index.into());
    Error::new(ErrorKind::SearchPhaseExecution, "all shards failed")
        .status_of(inner.status())
        .with("phase", "query")
        .with("grouped", true)
        .with(
            "failed_shards",
            json!([{ "shard": 0, "index": index, "node": "pleach", "reason": shown }]),
        )
        .with_root_cause(inner)
}

/// `For input string: "x"`, if that is why.
fn number_of(error: &Error) -> Option<String> {
    let mut at = Some(error);
    while let Some(e) = at {
        if e.kind() == ErrorKind::NumberFormat {
            // Where it stands was not told then.
            let told = e.reason().find(" in [").map_or(e.reason(), |end| &e.reason()[..end]);
            return Some(told.to_owned());
        }
        at = e.cause();
    }
    error
        .reason()
        .find("For input string: ")
        .map(|at| error.reason()[at..].to_owned())
}

/// An index that could not be created.
pub(crate) fn at_creation(error: Error) -> Error {
    let reason = error.reason().to_owned();
    let root = || Error::new(ErrorKind::IndexCreation, "failed to create index");
    let validation =
        |what: &str| Error::new(ErrorKind::Validation, format!("Validation Failed: 1: {what};")).with_root_cause(root());
    match error.kind() {
        ErrorKind::IllegalArgument if reason.contains("[index.number_of_shards]") && reason.contains("must be >=") => {
            validation("index must have 1 or more primary shards")
        }
        ErrorKind::IllegalArgument if reason.contains("[index.number_of_replicas]") && reason.contains("must be >=") => {
            validation("index must have 0 or more replica shards")
        }
        ErrorKind::IllegalArgument if reason.starts_with("Failed to parse value [") => {
            let mut parts = reason.split(['[', ']']).skip(1).step_by(2);
            let (value, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let said = format!("Failed to parse int setting [{name}] with value [{value}]");
            Error::new(ErrorKind::SettingsOld, said)
        }
        ErrorKind::IllegalArgument => again(
            &error,
            error.kind(),
            reason
                .replace("Unknown analyzer type", "Unknown Analyzer type")
                .replace("Unknown tokenizer type", "Unknown Tokenizer type")
                .replace("Unknown filter type", "Unknown TokenFilter type")
                .replace("Unknown char_filter type", "Unknown CharFilter type"),
        )
        .with_root_cause(root()),
        _ => error,
    }
}

/// Settings of an index that could not be changed.
pub(crate) fn at_settings(error: Error, indices: &[String]) -> Error {
    if error.kind() != ErrorKind::IllegalArgument {
        return error;
    }
    let reason = error.reason();
    let bracketed = || reason.split(['[', ']']).map(str::to_owned);
    let parts: Vec<String> = bracketed().skip(1).step_by(2).collect();
    let fixed = |names: &str| {
        let list: Vec<String> = indices.iter().map(|i| format!("[{i}]")).collect();
        Error::illegal(format!(
            "Can't update non dynamic settings[[{names}]] for open indices [{}]",
            list.join(", ")
        ))
    };
    if reason.starts_with("final ") {
        return Error::illegal("can't change the number of shards for an index");
    }
    if reason.starts_with("unknown setting [") {
        return fixed(parts.first().map_or("", String::as_str));
    }
    if let Some(rest) = reason.strip_prefix("Can't update non dynamic settings [[") {
        return fixed(rest.split(']').next().unwrap_or_default());
    }
    if reason.starts_with("Failed to parse value [") {
        let (value, name) = (parts.first().cloned(), parts.get(1).cloned());
        let (value, name) = (value.unwrap_or_default(), name.unwrap_or_default());
        return Error::illegal(format!(
            "can't process the settings: [[{name}] - cannot parse value [{value}] as an integer]"
        ));
    }
    if let Some(rest) = reason.strip_prefix("failed to parse setting [") {
        let name = rest.split(']').next().unwrap_or_default();
        return Error::illegal(format!(
            "can't process the settings: [[{name}] - Failed to parse setting [{rest}]"
        ));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: Error, status: u16, kind: ErrorKind, reason: &str) {
        assert_eq!((found.status(), found.kind(), found.reason()), (status, kind, reason));
    }

    #[test]
    fn bodies_that_are_no_json() {
        let eof = Error::new(ErrorKind::JsonEof, "[1:2] unexpected end of the body");
        check(
            unread(eof.clone(), b"{"),
            400,
            ErrorKind::JsonEof,
            "[1:2] unexpected end of the body",
        );
        check(unread(eof, b"text"), 400, ErrorKind::Parse, "Failed to derive xcontent");
    }

    #[test]
    fn searches() {
        let unmapped = Error::new(ErrorKind::QueryShard, "No mapping found for [x] in order to sort on");
        let found = at_shards(unmapped, None, "i");
        assert_eq!(found.root().kind(), ErrorKind::SearchParse);
        check(found, 400, ErrorKind::SearchPhaseExecution, "all shards failed");
        let script = at_shards(Error::new(ErrorKind::Script, "x"), None, "i");
        check(script, 400, ErrorKind::SearchPhaseExecution, "all shards failed");
    }

    #[test]
    fn settings() {
        let names = ["i".to_owned()];
        check(
            at_settings(Error::illegal("unknown setting [index.bogus] did you mean"), &names),
            400,
            ErrorKind::IllegalArgument,
            "Can't update non dynamic settings[[index.bogus]] for open indices [[i]]",
        );
        check(
            at_creation(Error::illegal(
                "Failed to parse value [x] for setting [index.number_of_shards]",
            )),
            400,
            ErrorKind::SettingsOld,
            "Failed to parse int setting [index.number_of_shards] with value [x]",
        );
    }
}
