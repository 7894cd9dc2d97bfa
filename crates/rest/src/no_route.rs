//! Answers to paths and methods that no endpoint has, in the words of each dialect.

use crate::body::Request;
use crate::envelope;
use crate::respond::Answer;
use crate::routes::{Matched, find};
use model::{Dialect, Error, ErrorKind, Persona};
use serde_json::json;

/// Paths and methods that no row has, in the words of each dialect.
pub(crate) fn no_route(request: &Request, matched: Matched, dialect: Dialect) -> Answer {
    let uri = if request.query.is_empty() {
        request.path.clone()
    } else {
        format!("{}?{}", request.path, request.query)
    };
    match matched {
        Matched::Method(allowed) if request.method == "OPTIONS" => {
            let answer = if dialect.rules.former_unknown_paths {
                Answer::text(String::new())
            } else {
                Answer::empty(200)
            };
            answer.header("allow", allowed.join(","))
        }
        _ if dialect.rules.former_unknown_paths => {
            let last = request.path.rsplit('/').next().unwrap_or_default();
            let segments = request.path.split('/').filter(|s| !s.is_empty()).count();
            let name = request.path.trim_matches('/');
            if segments == 1 && matches!(request.method.as_str(), "PUT" | "POST") {
                let reason = format!("Invalid index name [{name}], must not start with '_'");
                let error = Error::new(ErrorKind::InvalidIndexName, reason).with("index", name);
                Answer::of(400, envelope::render(&error, dialect))
            } else if segments == 1 && request.method == "DELETE" {
                let error = crate::missing_index(name);
                Answer::of(404, envelope::render(&error, dialect))
            } else if request.method == "HEAD" {
                Answer::empty(404)
            } else if request.method == "GET" && (segments == 1 || segments == 2 && name.starts_with('_')) {
                let error = Error::illegal(format!("No feature for name [{last}]"));
                Answer::of(400, envelope::render(&error, dialect))
            } else {
                let mut answer = Answer::text(format!("No handler found for uri [{uri}] and method [{}]", request.method));
                answer.status = 400;
                answer
            }
        }
        Matched::Method(allowed) => {
            let methods = allowed.join(", ");
            let reason = format!(
                "Incorrect HTTP method for uri [{uri}] and method [{}], allowed: [{methods}]",
                request.method
            );
            Answer::of(405, json!({ "error": reason, "status": 405 })).header("allow", allowed.join(","))
        }
        Matched::Nothing if request.path.starts_with("/_") => named_so(request, &uri, dialect),
        _ => no_handler(request, &uri),
    }
}

fn no_handler(request: &Request, uri: &str) -> Answer {
    let hint = meant_api(&request.path);
    Answer::of(
        400,
        json!({ "error": format!("no handler found for uri [{uri}] and method [{}]{hint}", request.method) }),
    )
}

/// ` did you mean [_search]?` for the first part of a path that begins as the name of an API does, and is none.
fn meant_api(path: &str) -> String {
    let known = crate::routes::literals();
    let unknown = path
        .split('/')
        .find(|part| part.starts_with('_') && !known.contains(*part))
        .unwrap_or_default();
    model::nearest::question(unknown, known.iter().copied())
}

/// A path that begins with an underscore and is none of ours: where an index of that name would have it, the name is refused.
fn named_so(request: &Request, uri: &str, dialect: Dialect) -> Answer {
    let name = request.path.split('/').nth(1).unwrap_or_default();
    let rest = request.path.get(name.len() + 1..).unwrap_or_default().trim_end_matches('/');
    if !rest.is_empty() && !rest.starts_with("/_") {
        return no_handler(request, uri);
    }
    match find(request.method.as_str(), &format!("/i{rest}"), Persona::Es2) {
        Matched::Found(..) => {
            let hint = meant_api(&request.path);
            let reason = format!("Invalid index name [{name}], must not start with '_'.{hint}");
            let error = Error::new(ErrorKind::InvalidIndexName, reason).with("index", name);
            Answer::of(400, envelope::render(&error, dialect))
        }
        Matched::Method(allowed) => no_route(request, Matched::Method(allowed), dialect),
        Matched::Nothing => no_handler(request, uri),
    }
}
