//! Answers of a cluster: documents, outcomes of bulk items, error bodies.

use crate::http::{Answer, Failure, Http};
use crate::marks;
use bytes::Bytes;
use engine::{Document, See};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

impl Http {
    /// One request with a JSON body, for those who need no more than an answer or an error.
    pub(crate) async fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let answer = self
            .ask(method, path, "application/json", body)
            .await
            .map_err(Failure::into_error)?;
        if answer.status >= 300 {
            return Err(refusal(&answer));
        }
        parse_json(&answer.body)
    }
}

/// A body.
///
/// # Errors
/// An unexpected answer: another kind of server answers there.
pub(crate) fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|e| strange(&e))
}

pub(crate) fn strange(why: &serde_json::Error) -> Error {
    Error::new(
        ErrorKind::RemoteTransport,
        format!("the cluster's answer cannot be read: {}", model::text::no_json(why)),
    )
}

/// The error of an answer that is no success.
pub(crate) fn refusal(answer: &Answer) -> Error {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    let text = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
    error(&body["error"], answer.status, text)
}

/// An error object of the cluster, told as our own error of its type. Status 0: it has none of its own.
pub(crate) fn error(body: &Value, status: u16, otherwise: impl Fn() -> String) -> Error {
    // A failed search hides what was wrong in its root cause.
    let root = body["root_cause"]
        .get(0)
        .filter(|_| body["type"] == "search_phase_execution_exception");
    let body = root.unwrap_or(body);
    let Some(wire) = body["type"].as_str() else {
        let out = Error::new(
            transport_kind(status),
            format!("the cluster answered {status}: {}", otherwise()),
        );
        return if status == 0 { out } else { out.status_of(status) };
    };
    let reason = body["reason"].as_str().unwrap_or_default();
    let known = ErrorKind::ALL.iter().find(|kind| kind.wire() == wire);
    let mut out = match known {
        Some(kind) => Error::new(*kind, reason),
        None => Error::new(transport_kind(status), format!("{wire}: {reason}")),
    };
    for (name, value) in body.as_object().into_iter().flatten() {
        if !matches!(
            name.as_str(),
            "type" | "reason" | "root_cause" | "caused_by" | "failed_shards"
        ) {
            out = out.with(name, value.clone());
        }
    }
    if body["caused_by"].is_object() {
        out = out.with_cause(error(&body["caused_by"], 0, String::new));
    }
    if status == 0 { out } else { out.status_of(status) }
}

fn transport_kind(status: u16) -> ErrorKind {
    match status {
        429 => ErrorKind::RejectedExecution,
        503 => ErrorKind::Unavailable,
        _ => ErrorKind::RemoteTransport,
    }
}

/// An entry of a multi-get, or a hit.
#[derive(Deserialize)]
pub(crate) struct Got<'a> {
    #[serde(borrow)]
    pub(crate) _index: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) _id: Cow<'a, str>,
    #[serde(default)]
    found: Option<bool>,
    _version: Option<u64>,
    _seq_no: Option<u64>,
    _primary_term: Option<u64>,
    #[serde(borrow)]
    _routing: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) _source: Option<&'a RawValue>,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    pub(crate) _score: Value,
    #[serde(default)]
    pub(crate) sort: Vec<Value>,
    #[serde(default)]
    pub(crate) fields: serde_json::Map<String, Value>,
}

impl Got<'_> {
    pub(crate) fn at(&self) -> DocAddress {
        DocAddress {
            index: IndexName::new(&*self._index),
            id: DocId::plain(&*self._id),
        }
    }

    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Some(Stamp {
            seq_no: self._seq_no?,
            primary_term: self._primary_term?,
            version: self._version?,
        })
    }

    pub(crate) fn routing(&self) -> Option<String> {
        self._routing.as_deref().map(str::to_owned)
    }

    /// The document, if there is one to be seen.
    pub(crate) fn document(&self, see: See) -> Result<Option<Document>> {
        if !self.error.is_null() {
            return Err(error(&self.error, 0, || self.error.to_string()));
        }
        if self.found == Some(false) {
            return Ok(None);
        }
        let (Some(stamp), Some(source)) = (self.stamp(), self._source) else {
            let at = self.at();
            let reason = format!("[{}][{}] has no stamp or no source", at.index, at.id.id);
            return Err(Error::new(ErrorKind::RemoteTransport, reason));
        };
        let (source, hidden) = marks::take(source.get().as_bytes())?;
        let seen = see == See::Everything || hidden.as_ref().is_none_or(|mark| mark.visible);
        Ok(seen.then(|| Document {
            at: self.at(),
            stamp,
            source,
            stored_fields: None,
            routing: self.routing(),
            parent: None,
            times: mapping::Times::default(),
            tree: None,
            hidden,
        }))
    }
}

/// An answer of a multi-get.
#[derive(Deserialize)]
pub(crate) struct Gots<'a> {
    #[serde(borrow)]
    pub(crate) docs: Vec<Got<'a>>,
}

/// The result of one line of a bulk.
#[derive(Deserialize)]
pub(crate) struct Line {
    pub(crate) _index: String,
    #[serde(default)]
    pub(crate) result: String,
    pub(crate) _version: Option<u64>,
    pub(crate) _seq_no: Option<u64>,
    pub(crate) _primary_term: Option<u64>,
    pub(crate) status: u16,
    #[serde(default)]
    pub(crate) forced_refresh: bool,
    #[serde(default)]
    pub(crate) error: Value,
}

impl Line {
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Some(Stamp {
            seq_no: self._seq_no?,
            primary_term: self._primary_term?,
            version: self._version?,
        })
    }
}

/// An answer of a bulk: each line under the name of its action.
#[derive(Deserialize)]
pub(crate) struct Lines {
    pub(crate) items: Vec<std::collections::BTreeMap<String, Line>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_keep_their_type() {
        let missing = json!({ "type": "index_not_found_exception", "reason": "no such index [x]", "index": "x" });
        let told = error(&missing, 404, String::new);
        assert_eq!(
            (told.kind(), told.status(), &told.details()["index"]),
            (ErrorKind::IndexNotFound, 404, &json!("x"))
        );
        let wrapped =
            json!({ "type": "search_phase_execution_exception", "reason": "all shards failed", "root_cause": [missing] });
        assert_eq!(error(&wrapped, 404, String::new).kind(), ErrorKind::IndexNotFound);
        let unknown = error(&json!({ "type": "node_closed_exception", "reason": "bye" }), 503, String::new);
        assert_eq!(
            (unknown.kind(), unknown.reason()),
            (ErrorKind::Unavailable, "node_closed_exception: bye")
        );
        let none = refusal(&Answer {
            status: 502,
            body: "<html>".into(),
        });
        assert_eq!((none.status(), none.reason()), (502, "the cluster answered 502: <html>"));
    }

    #[test]
    fn documents() {
        let text = r#"{"docs":[{"_index":"i","_id":"a","found":true,"_version":3,"_seq_no":2,"_primary_term":1,"_source":{ "a": 1.0 }},
            {"_index":"i","_id":"b","found":false},{"_index":"x","_id":"c","error":{"type":"index_not_found_exception","reason":"no"}}]}"#;
        let gots: Gots<'_> = serde_json::from_str(text).expect("a multi-get");
        let first = gots.docs[0].document(See::Plain).expect("no error").expect("found");
        assert_eq!((&*first.source.0, first.stamp.version), (br#"{ "a": 1.0 }"#.as_slice(), 3));
        assert!(gots.docs[1].document(See::Plain).expect("no error").is_none());
        assert_eq!(
            gots.docs[2].document(See::Plain).expect_err("missing").kind(),
            ErrorKind::IndexNotFound
        );
    }
}
