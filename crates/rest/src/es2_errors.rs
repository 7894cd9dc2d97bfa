//! Refusals in the words of 2015, where they differ from today's: one function a place in which they arise. They go by the
//! kind of a refusal and by its topic (`model::Topic`), never by the text of its reason.
//!
//! Not here: what is refused. The kinds and sentences of today come from below; these translate.

use model::{Dialect, Error, ErrorKind, Topic};
use serde_json::{Value, json};

/// The same refusal with another kind and sentence; its facts and cause stay. It has no topic: nothing words it again.
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
    let (kind, index) = (error.kind(), index_of(error));
    let say = |reason: String| again(error, kind, reason);
    match (kind, error.topic()) {
        (ErrorKind::IndexNotFound, _) => say("no such index".to_owned()),
        (ErrorKind::IndexAlreadyExists, _) => Error::new(ErrorKind::IndexAlreadyExistsOld, "already exists").with("index", index),
        (ErrorKind::IndexClosed, _) => Error::new(ErrorKind::IndexClosed, "closed")
            .with("index", index)
            .status_of(403),
        (ErrorKind::InvalidIndexName, Some(Topic::NameCharacters)) => say(format!(
            "Invalid index name [{index}], must not contain the following characters [\\, /, *, ?, \", <, >, |,  , ,]"
        )),
        (ErrorKind::InvalidIndexName, Some(Topic::NameStart)) => {
            say(format!("Invalid index name [{index}], must not start with '_'"))
        }
        (ErrorKind::InvalidAliasName, Some(Topic::AliasIsIndex { alias })) => say(format!(
            "Invalid alias name [{alias}], an index exists with the same name as the alias"
        )),
        // Every refusal named an index, if only that of the alias.
        (ErrorKind::InvalidAliasName, Some(Topic::AliasName { alias })) if index.is_empty() => {
            say(error.reason().to_owned()).with("index", alias.as_str())
        }
        (ErrorKind::ClusterBlock, Some(Topic::IndexBlock { block })) => say(format!("blocked by: [{block}];")),
        (ErrorKind::InvalidIndexName | ErrorKind::InvalidAliasName | ErrorKind::ClusterBlock, _) => {
            say(error.reason().to_owned())
        }
        (_, Some(Topic::AliasOfSeveral { alias, indices })) => say(format!(
            "Alias [{alias}] has more than one indices associated with it [[{}]], can't execute a single index op",
            indices.join(", ")
        )),
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
    let failed = match (error.kind(), error.topic()) {
        (_, Some(Topic::ScriptFailure)) => error,
        (ErrorKind::Script | ErrorKind::ScriptMissing, _) | (_, Some(Topic::ScriptLanguage)) => engine::script_failure(error),
        _ => return error,
    };
    remote(failed, "indices:data/write/update[s]")
}

/// A part of an analyzer that `_analyze` does not find, on another node.
pub(crate) fn in_analysis(error: Error) -> Error {
    let reason = match (error.kind(), error.topic()) {
        (ErrorKind::IndexNotFound, _) => return as_expression(error),
        (ErrorKind::IllegalArgument, Some(Topic::AnalysisPart { part, name, needs })) => {
            let part = match *part {
                "filter" => "token filter",
                "char_filter" => "char filter",
                part => part,
            };
            match needs {
                None => format!("failed to find {part} under [{name}]"),
                // The last bracket is one too many; the answer is as it always was.
                Some(needs) => format!("failed to find {part} under [{name}]: {needs}]"),
            }
        }
        (ErrorKind::IllegalArgument, _) => error.reason().to_owned(),
        _ => return error,
    };
    remote(Error::illegal(reason), "indices:admin/analyze[s]")
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
            Error::new(ErrorKind::QueryParsing, "Failed to parse").with_cause(error)
        }
        _ => of_shard(error),
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

/// A refusal of a search as one of its shards said it.
fn of_shard(error: Error) -> Error {
    let as_kind = |kind| again(&error, kind, error.reason());
    match (error.kind(), error.topic()) {
        (ErrorKind::XContentParse, Some(Topic::UnknownField { name })) => Error::new(
            ErrorKind::SearchParse,
            format!("failed to parse search source. unknown search element [{name}]"),
        ),
        (ErrorKind::XContentParse | ErrorKind::Parsing, _) | (ErrorKind::QueryShard, Some(Topic::UnmappedSort)) => {
            as_kind(ErrorKind::SearchParse)
        }
        (ErrorKind::QueryShard, _) => match no_number(&error) {
            // A value that is no number was the parser's own exception.
            Some(cause) => Error::new(ErrorKind::NumberFormat, cause.reason()),
            None => as_kind(ErrorKind::QueryParsing),
        },
        (ErrorKind::IllegalArgument, Some(Topic::ResultWindow)) => as_kind(ErrorKind::QueryPhaseExecution),
        (ErrorKind::IllegalArgument, Some(Topic::FielddataDisabled { field })) => Error::new(
            ErrorKind::IllegalState,
            format!("Field data loading is forbidden on [{field}]"),
        )
        .status_of(400),
        // Found out when the aggregation ran.
        (ErrorKind::IllegalArgument, Some(Topic::UnnamedMetric | Topic::ValueSource)) => as_kind(ErrorKind::AggregationExecution),
        _ => error,
    }
}

/// The refusal of a text that is no number, if that is why.
fn no_number(error: &Error) -> Option<&Error> {
    std::iter::successors(Some(error), |error| error.cause()).find(|error| error.kind() == ErrorKind::NumberFormat)
}

/// An index that could not be created.
pub(crate) fn at_creation(error: Error) -> Error {
    if error.kind() != ErrorKind::IllegalArgument {
        return error;
    }
    let root = || Error::new(ErrorKind::IndexCreation, "failed to create index");
    let validation =
        |what: &str| Error::new(ErrorKind::Validation, format!("Validation Failed: 1: {what};")).with_root_cause(root());
    let no_integer = |name: &str, value: &str| {
        let reason = format!("Failed to parse int setting [{name}] with value [{value}]");
        Error::new(ErrorKind::SettingsOld, reason)
    };
    let said = |reason: String| again(&error, error.kind(), reason).with_root_cause(root());
    match error.topic() {
        Some(Topic::SettingMinimum { name, value }) => match name.as_str() {
            "index.number_of_shards" => validation("index must have 1 or more primary shards"),
            "index.number_of_replicas" => validation("index must have 0 or more replica shards"),
            name => no_integer(name, value),
        },
        Some(Topic::SettingValue { name, value }) => no_integer(name, value),
        Some(Topic::Boolean { value }) => no_integer(NAME_OF_A_FLAG, value),
        Some(Topic::AnalysisType { part, kind, name, hint }) => {
            let part = match *part {
                "analyzer" => "Analyzer",
                "tokenizer" => "Tokenizer",
                "filter" => "TokenFilter",
                "char_filter" => "CharFilter",
                part => part,
            };
            said(format!("Unknown {part} type [{kind}] for [{name}]{hint}"))
        }
        _ => said(error.reason().to_owned()),
    }
}

/// The name that answers show for a setting which is neither `true` nor `false`: its refusal does not name it.
const NAME_OF_A_FLAG: &str = "true";

/// Settings of an index that could not be changed.
pub(crate) fn at_settings(error: Error, indices: &[String]) -> Error {
    if error.kind() != ErrorKind::IllegalArgument {
        return error;
    }
    let fixed = |name: &str| {
        let list: Vec<String> = indices.iter().map(|i| format!("[{i}]")).collect();
        format!(
            "Can't update non dynamic settings[[{name}]] for open indices [{}]",
            list.join(", ")
        )
    };
    let unfit = |name: &str, problem: String| format!("can't process the settings: [[{name}] - {problem}]");
    let no_integer = |name: &str, value: &str| unfit(name, format!("cannot parse value [{value}] as an integer"));
    Error::illegal(match error.topic() {
        Some(Topic::FinalSetting) => "can't change the number of shards for an index".to_owned(),
        Some(Topic::UnknownSetting { name } | Topic::StaticSetting { name }) => fixed(name),
        Some(Topic::SettingValue { name, value } | Topic::SettingMinimum { name, value }) => no_integer(name, value),
        Some(Topic::Boolean { value }) => no_integer(NAME_OF_A_FLAG, value),
        Some(Topic::Duration { name, value, problem }) => unfit(
            name,
            format!("Failed to parse setting [{name}] with value [{value}] as a time value: {problem}"),
        ),
        _ => return error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::{AnalyzeParts, Registry};
    use model::blocks::{self, Level};

    fn check(found: Error, status: u16, kind: ErrorKind, reason: &str) {
        assert_eq!((found.status(), found.kind(), found.reason()), (status, kind, reason));
    }

    fn about(kind: ErrorKind, topic: Topic) -> Error {
        Error::new(kind, "today's words").about(topic)
    }

    fn illegal(topic: Topic) -> Error {
        about(ErrorKind::IllegalArgument, topic)
    }

    fn setting(name: &str, value: &str, is_low: bool) -> Error {
        let (name, value) = (name.to_owned(), value.to_owned());
        illegal(match is_low {
            true => Topic::SettingMinimum { name, value },
            false => Topic::SettingValue { name, value },
        })
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
    fn names() {
        let index = |topic| {
            about(ErrorKind::InvalidIndexName, topic)
                .with("index_uuid", "_na_")
                .with("index", "I")
        };
        let alias = |topic| about(ErrorKind::InvalidAliasName, topic);
        let name = || "a".to_owned();
        let characters = "Invalid index name [I], must not contain the following characters [\\, /, *, ?, \", <, >, |,  , ,]";
        for (error, of, reason) in [
            (index(Topic::NameCharacters), "I", characters),
            (
                index(Topic::NameStart),
                "I",
                "Invalid index name [I], must not start with '_'",
            ),
            (alias(Topic::AliasName { alias: name() }), "a", "today's words"),
            (
                alias(Topic::AliasIsIndex { alias: name() }).with("index", "I"),
                "I",
                "Invalid alias name [a], an index exists with the same name as the alias",
            ),
        ] {
            let (kind, found) = (error.kind(), reword(&error));
            assert_eq!((index_of(&found), found.details().get("index_uuid")), (of, None));
            check(found, 400, kind, reason);
        }
    }

    #[test]
    fn aliases_of_several_indices() {
        let none = Value::Null;
        let several = [("i", &none, &1), ("j", &none, &2)];
        let error = engine::catalog::reader("a", &several).expect_err("two indices");
        check(
            reword(&error),
            400,
            ErrorKind::IllegalArgument,
            "Alias [a] has more than one indices associated with it [[i, j]], can't execute a single index op",
        );
    }

    #[test]
    fn blocks_of_indices() {
        let settings = json!({ "index.blocks.write": "true" });
        let error = blocks::check(settings.as_object().expect("an object"), "i", Level::Write).expect_err("a block");
        check(
            reword(&error),
            403,
            ErrorKind::ClusterBlock,
            "blocked by: [FORBIDDEN/8/index write (api)];",
        );
    }

    #[test]
    fn scripts_of_updates() {
        let unknown = script::Lang::parse("cobol").expect_err("no language of scripts");
        let failed = engine::script_failure(Error::new(ErrorKind::Script, "x"));
        let missing = Error::new(ErrorKind::ScriptMissing, "x");
        for error in [unknown, failed, missing] {
            let found = in_update(error);
            assert_eq!(found.root().kind(), ErrorKind::RemoteTransport);
            assert_ne!(found.cause().map(Error::kind), None);
            check(found, 400, ErrorKind::IllegalArgument, "failed to execute script");
        }
        check(in_update(Error::illegal("x")), 400, ErrorKind::IllegalArgument, "x");
    }

    #[test]
    fn parts_of_analyzers() {
        let filter = |name: &str| AnalyzeParts {
            filters: vec![name.into()],
            ..AnalyzeParts::default()
        };
        let char_filter = AnalyzeParts {
            char_filters: vec!["htmlstrip".into()],
            ..AnalyzeParts::default()
        };
        let needs = "it takes parameters, and is defined in the settings of an index or as an object";
        for (parts, reason) in [
            (filter("lowrcase"), "failed to find token filter under [lowrcase]".to_owned()),
            (
                filter("synonym"),
                format!("failed to find token filter under [synonym]: {needs}]"),
            ),
            (char_filter, "failed to find char filter under [htmlstrip]".to_owned()),
        ] {
            let error = Registry::default_registry().custom(&parts).expect_err("an unknown part");
            let found = in_analysis(error);
            assert_eq!(found.root().kind(), ErrorKind::RemoteTransport);
            check(found, 400, ErrorKind::IllegalArgument, &reason);
        }
        let found = in_analysis(Error::illegal("no default analyzer"));
        check(found, 400, ErrorKind::IllegalArgument, "no default analyzer");
    }

    #[test]
    fn searches() {
        let number = Error::new(ErrorKind::QueryShard, "failed to create query").with_cause(Error::no_number("x"));
        let field = Topic::FielddataDisabled { field: "f".to_owned() };
        let member = Topic::UnknownField { name: "m".to_owned() };
        let unknown = "failed to parse search source. unknown search element [m]";
        let said = "today's words";
        for (error, kind, reason) in [
            (
                about(ErrorKind::QueryShard, Topic::UnmappedSort),
                ErrorKind::SearchParse,
                said,
            ),
            (Error::new(ErrorKind::QueryShard, said), ErrorKind::QueryParsing, said),
            (number, ErrorKind::NumberFormat, "For input string: \"x\""),
            (about(ErrorKind::XContentParse, member), ErrorKind::SearchParse, unknown),
            (Error::new(ErrorKind::XContentParse, said), ErrorKind::SearchParse, said),
            (Error::new(ErrorKind::Parsing, said), ErrorKind::SearchParse, said),
            (illegal(Topic::ResultWindow), ErrorKind::QueryPhaseExecution, said),
            (
                illegal(field),
                ErrorKind::IllegalState,
                "Field data loading is forbidden on [f]",
            ),
            (illegal(Topic::UnnamedMetric), ErrorKind::AggregationExecution, said),
            (illegal(Topic::ValueSource), ErrorKind::AggregationExecution, said),
            (Error::illegal(said), ErrorKind::IllegalArgument, said),
            (Error::new(ErrorKind::Script, said), ErrorKind::Script, said),
        ] {
            let found = at_shards(error, None, "i");
            assert_eq!((found.root().kind(), found.root().reason()), (kind, reason));
            check(found, 400, ErrorKind::SearchPhaseExecution, "all shards failed");
        }
        let source = dsl::aggs::no_value_source("[field, script]");
        assert_eq!(at_shards(source, None, "i").root().kind(), ErrorKind::AggregationExecution);
    }

    #[test]
    fn settings() {
        let name = || "index.n".to_owned();
        let duration = model::units::parse_duration("1", "index.n").expect_err("no unit");
        for (error, reason) in [
            (illegal(Topic::FinalSetting), "can't change the number of shards for an index"),
            (
                illegal(Topic::UnknownSetting { name: name() }),
                "Can't update non dynamic settings[[index.n]] for open indices [[i], [j]]",
            ),
            (
                illegal(Topic::StaticSetting { name: name() }),
                "Can't update non dynamic settings[[index.n]] for open indices [[i], [j]]",
            ),
            (
                setting("index.n", "x", false),
                "can't process the settings: [[index.n] - cannot parse value [x] as an integer]",
            ),
            (
                setting("index.n", "-1", true),
                "can't process the settings: [[index.n] - cannot parse value [-1] as an integer]",
            ),
            (
                Error::no_boolean("x"),
                "can't process the settings: [[true] - cannot parse value [x] as an integer]",
            ),
            (
                duration,
                "can't process the settings: [[index.n] - Failed to parse setting [index.n] with value [1] as a time value: \
                 unit is missing or unrecognized]",
            ),
            (Error::illegal("today's words"), "today's words"),
        ] {
            let found = at_settings(error, &["i".to_owned(), "j".to_owned()]);
            check(found, 400, ErrorKind::IllegalArgument, reason);
        }
    }

    #[test]
    fn creations() {
        let analysis = json!({ "tokenizer": { "t": { "type": "standrd" } } });
        let analysis = Registry::from_settings(&analysis).expect_err("an unknown type");
        for (error, kind, reason) in [
            (
                setting("index.number_of_shards", "0", true),
                ErrorKind::Validation,
                "Validation Failed: 1: index must have 1 or more primary shards;",
            ),
            (
                setting("index.number_of_replicas", "-1", true),
                ErrorKind::Validation,
                "Validation Failed: 1: index must have 0 or more replica shards;",
            ),
            (
                setting("index.number_of_shards", "x", false),
                ErrorKind::SettingsOld,
                "Failed to parse int setting [index.number_of_shards] with value [x]",
            ),
            (
                setting("index.max_result_window", "0", true),
                ErrorKind::SettingsOld,
                "Failed to parse int setting [index.max_result_window] with value [0]",
            ),
            (
                Error::no_boolean("x"),
                ErrorKind::SettingsOld,
                "Failed to parse int setting [true] with value [x]",
            ),
            (
                analysis,
                ErrorKind::IllegalArgument,
                "Unknown Tokenizer type [standrd] for [t], did you mean [standard]?",
            ),
            (Error::illegal("today's words"), ErrorKind::IllegalArgument, "today's words"),
        ] {
            let root = match kind {
                ErrorKind::SettingsOld => kind,
                _ => ErrorKind::IndexCreation,
            };
            let found = at_creation(error);
            assert_eq!(found.root().kind(), root, "{reason}");
            check(found, 400, kind, reason);
        }
    }
}
