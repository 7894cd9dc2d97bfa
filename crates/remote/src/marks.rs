//! Marks of changes inside the source, where a cluster keeps nothing beside it: one member `_pleach`, always the last.
//!
//! `{"a":1}` with a mark is `{"a":1,"_pleach":{"b":"…","hidden":false,"held":true}}`. The mark's body is text, so that no
//! mapping grows with it; `hidden` is indexed, so that searches leave out what is hidden. Taken off again, the source has
//! the very bytes that were written. Documents may not bring a member of that name.

use engine::{Hidden, Source};
use model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// The member's name.
pub(crate) const FIELD: &str = "_pleach";
/// Searches leave out documents where it is true.
pub(crate) const HIDDEN_FIELD: &str = "_pleach.hidden";

/// The field of marks in the mapping of an index.
pub(crate) fn properties() -> Value {
    json!({ FIELD: { "type": "object", "dynamic": "false", "properties": { "hidden": { "type": "boolean" } } } })
}

#[derive(Deserialize)]
struct Outer {
    #[serde(rename = "_pleach")]
    mark: Option<Inner>,
}

#[derive(Deserialize)]
struct Inner {
    b: String,
    hidden: bool,
    held: bool,
}

/// The source with a mark, or without one; in one line.
///
/// # Errors
/// A source that is no object, or that has a member of our name.
pub(crate) fn put(source: &Source, mark: Option<&Hidden>) -> Result<Vec<u8>> {
    // A line break outside of strings is white space; inside, JSON has none.
    let mut bytes: Vec<u8> = source
        .0
        .iter()
        .map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b })
        .collect();
    if is_there(&bytes)
        && serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).is_ok_and(|map| map.contains_key(FIELD))
    {
        return Err(Error::new(
            ErrorKind::MapperParsing,
            format!("field [{FIELD}] is kept by the server"),
        ));
    }
    let Some(mark) = mark else { return Ok(bytes) };
    let end = bytes.iter().rposition(|b| !b.is_ascii_whitespace());
    let Some(end) = end.filter(|end| bytes[*end] == b'}') else {
        let cause = Error::new(ErrorKind::Parse, "request body is required to be an object");
        return Err(Error::new(ErrorKind::MapperParsing, "failed to parse").with_cause(cause));
    };
    let after = bytes.split_off(end);
    let begin = bytes.iter().rposition(|b| !b.is_ascii_whitespace());
    if begin.is_some_and(|begin| bytes[begin] != b'{') {
        bytes.push(b',');
    }
    let body = json!({ "b": mark.body.to_string(), "hidden": !mark.visible, "held": mark.held });
    bytes.extend_from_slice(format!("\"{FIELD}\":{body}").as_bytes());
    bytes.extend_from_slice(&after);
    Ok(bytes)
}

/// The source as it was written, and its mark.
///
/// # Errors
/// A member of our name that is not ours.
pub(crate) fn take(bytes: &[u8]) -> Result<(Source, Option<Hidden>)> {
    let plain = || Ok((Source(bytes.into()), None));
    if !is_there(bytes) {
        return plain();
    }
    let foreign = |why: String| {
        Error::new(
            ErrorKind::Corruption,
            format!("a document has a [{FIELD}] that is no mark: {why}"),
        )
    };
    let outer: Outer = serde_json::from_slice(bytes).map_err(|e| foreign(e.to_string()))?;
    let Some(inner) = outer.mark else { return plain() };
    let body = serde_json::from_str(&inner.b).map_err(|e| foreign(e.to_string()))?;
    // Its text holds no quote that is not escaped, so the last place of the name is its own.
    let name = format!("\"{FIELD}\":");
    let at = memchr::memmem::rfind(bytes, name.as_bytes()).ok_or_else(|| foreign("it is not the last".to_owned()))?;
    let from = at - usize::from(at > 0 && bytes[at - 1] == b',');
    let rest = &bytes[at + name.len()..];
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<serde::de::IgnoredAny>();
    if !matches!(values.next(), Some(Ok(_))) {
        return Err(foreign("it is not the last".to_owned()));
    }
    let source = [&bytes[..from], &rest[values.byte_offset()..]].concat();
    let hidden = Hidden {
        body,
        visible: !inner.hidden,
        held: inner.held,
    };
    Ok((Source(source.into()), Some(hidden)))
}

fn is_there(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"\"_pleach\"").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, body: Value) {
        let mark = Hidden {
            body,
            visible: false,
            held: true,
        };
        let marked = put(&Source(source.as_bytes().into()), Some(&mark)).expect("an object");
        let value: Value = serde_json::from_slice(&marked).expect("JSON");
        assert_eq!((&value[FIELD]["hidden"], &value[FIELD]["held"]), (&json!(true), &json!(true)));
        let (taken, hidden) = take(&marked).expect("ours");
        assert_eq!(
            (String::from_utf8_lossy(&taken.0), hidden),
            (source.into(), Some(mark)),
            "{source}"
        );
    }

    #[test]
    fn a_mark_comes_off_without_a_trace() {
        for source in [
            "{}",
            " { } ",
            r#"{"a":1}"#,
            r#"{ "a" : [1, {"b": "}"}] } "#,
            r#"{"a":{"x":1,"_pleach":{"b":1}}}"#,
            r#"{"a":"\"_pleach\":"}"#,
        ] {
            check(source, json!({ "i": "c-1" }));
            check(source, json!({ "i": "\",\"_pleach\":{" }));
        }
    }

    #[test]
    fn what_is_not_ours() {
        let none = br#"{"a":{"_pleach":1}}"#;
        assert_eq!(take(none).expect("no mark"), (Source(none.as_slice().into()), None));
        assert!(take(br#"{"_pleach":{"b":1}}"#).is_err());
        assert!(put(&Source(br#"{"_pleach":1}"#.as_slice().into()), None).is_err());
        assert!(
            put(
                &Source(b"[]".as_slice().into()),
                Some(&Hidden {
                    body: json!(1),
                    visible: true,
                    held: true
                })
            )
            .is_err()
        );
        let lines = put(&Source(b"{\n\"a\":\r\n1}".as_slice().into()), None).expect("an object");
        assert_eq!(lines, b"{ \"a\":  1}");
    }
}
