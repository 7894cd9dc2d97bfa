//! From a JSON value to bytes: `filter_path`, `pretty`, `format=yaml`, gzip.

use crate::body::Request;
use crate::event_stream::EventStream;
use crate::human::humane;
use crate::packed_text::PackedText;
use bytes::Bytes;
use model::path;
use serde_json::Value;
use std::borrow::Cow;
use std::io::Write as _;

/// An answer before it is bytes.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: Body,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
}

/// The forms of a body.
#[derive(Clone, Debug)]
pub enum Body {
    Json(Value),
    /// JSON bytes that need no touch unless the request wants them otherwise.
    Raw(Bytes),
    /// The same, packed, and as the request wants it unless that is YAML.
    Packed(PackedText),
    Text(String),
    /// A JSON value a line.
    Lines(String),
    /// Server-sent events, as they come.
    Events(EventStream),
    Empty,
}

impl Body {
    /// Bytes of the text, where it is known before it is written: a tree has none yet.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Body::Raw(bytes) => bytes.len(),
            Body::Packed(text) => text.bytes(),
            Body::Text(text) | Body::Lines(text) => text.len(),
            Body::Json(_) | Body::Events(_) | Body::Empty => 0,
        }
    }
}

impl Answer {
    /// 200 with JSON.
    pub fn ok(value: Value) -> Answer {
        Answer::of(200, value)
    }
    /// A status with JSON.
    pub fn of(status: u16, value: Value) -> Answer {
        Answer {
            status,
            body: Body::Json(value),
            headers: Vec::new(),
        }
    }
    /// 200 with the text of JSON.
    pub fn raw(text: impl Into<Bytes>) -> Answer {
        Answer {
            body: Body::Raw(text.into()),
            ..Answer::empty(200)
        }
    }
    /// 200 with a packed text, which is laid out already.
    pub(crate) fn from_packed(text: PackedText) -> Answer {
        Answer {
            body: Body::Packed(text),
            ..Answer::empty(200)
        }
    }
    /// 200 with text (`_cat`).
    pub fn text(text: String) -> Answer {
        Answer {
            status: 200,
            body: Body::Text(text),
            headers: Vec::new(),
        }
    }
    /// 200 with lines of JSON.
    pub(crate) fn lines(text: String) -> Answer {
        Answer {
            body: Body::Lines(text),
            ..Answer::empty(200)
        }
    }
    /// 200 with server-sent events.
    pub(crate) fn events(events: EventStream) -> Answer {
        Answer {
            body: Body::Events(events),
            ..Answer::empty(200)
        }
    }
    /// A status alone.
    pub fn empty(status: u16) -> Answer {
        Answer {
            status,
            body: Body::Empty,
            headers: Vec::new(),
        }
    }
    /// With a deprecation warning, as the servers that we follow word the header.
    pub(crate) fn warning(self, dialect: model::Dialect, text: &str) -> Answer {
        let product = if dialect.persona.is_opensearch() {
            "OpenSearch"
        } else {
            "Elasticsearch"
        };
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        self.header("warning", format!("299 {product}-{} \"{quoted}\"", dialect.persona.version()))
    }
    /// With a header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }
}

/// How the client wants it written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Style {
    pub(crate) pretty: bool,
    pub(crate) yaml: bool,
    /// Sizes and durations also with their units.
    pub(crate) human: bool,
    /// Errors with what caused them as a text.
    pub(crate) trace: bool,
    pub(crate) filter_path: Vec<String>,
}

impl Style {
    /// Nothing of an answer is chosen, added or laid out.
    pub(crate) fn is_plain(&self) -> bool {
        !self.pretty && !self.yaml && !self.human && self.filter_path.is_empty()
    }
}

/// Trees of an answer that lie beside each other while it is filtered, units are added and it is laid out.
pub(crate) const TREES: usize = 2;

const YAML: &str = "application/yaml";

/// The bytes of an answer and their media type.
pub(crate) fn write(body: &Body, style: &Style, compatible_with: Option<u8>) -> (Bytes, Cow<'static, str>) {
    let json_type = match compatible_with {
        Some(n) => format!("application/vnd.elasticsearch+json;compatible-with={n}").into(),
        None => "application/json; charset=UTF-8".into(),
    };
    match body {
        Body::Empty => (Bytes::new(), json_type),
        Body::Lines(text) => (Bytes::from(text.clone()), "application/x-ndjson".into()),
        // The pieces are sent beside the headers.
        Body::Events(_) => (Bytes::new(), "text/event-stream".into()),
        Body::Text(text) => (Bytes::from(text.clone()), "text/plain; charset=UTF-8".into()),
        // It was laid out as it was made.
        Body::Packed(text) if style.yaml => (text.whole(), YAML.into()),
        Body::Packed(text) => (text.whole(), json_type),
        Body::Raw(bytes) if !style.pretty && !style.yaml && style.filter_path.is_empty() => (bytes.clone(), json_type),
        // Nothing is added to a stored source.
        Body::Raw(bytes) if style.human => {
            let value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
            let style = Style {
                human: false,
                ..style.clone()
            };
            write(&Body::Json(value), &style, compatible_with)
        }
        Body::Json(value) if style.human => {
            let style = Style {
                human: false,
                ..style.clone()
            };
            write(&Body::Json(humane(value)), &style, compatible_with)
        }
        Body::Raw(bytes) => {
            let value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
            write(&Body::Json(value), style, compatible_with)
        }
        Body::Json(value) => {
            let filtered;
            let value = if style.filter_path.is_empty() {
                value
            } else {
                filtered = filter(value, &style.filter_path);
                &filtered
            };
            if style.yaml {
                return (Bytes::from(crate::yaml::text(value)), YAML.into());
            }
            let text = if style.pretty { pretty(value) } else { value.to_string() };
            (Bytes::from(text), json_type)
        }
    }
}

/// Two spaces, `"key" : value`, as Elasticsearch prints.
pub(crate) fn pretty(value: &Value) -> String {
    use serde::Serialize as _;
    struct Spaced<'a>(serde_json::ser::PrettyFormatter<'a>);
    impl serde_json::ser::Formatter for Spaced<'_> {
        fn begin_array<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
            self.0.begin_array(w)
        }
        fn end_array<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
            self.0.end_array(w)
        }
        fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W, first: bool) -> std::io::Result<()> {
            self.0.begin_array_value(w, first)
        }
        fn end_array_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
            self.0.end_array_value(w)
        }
        fn begin_object<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
            self.0.begin_object(w)
        }
        fn end_object<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
            self.0.end_object(w)
        }
        fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, w: &mut W, first: bool) -> std::io::Result<()> {
            self.0.begin_object_key(w, first)
        }
        fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
            w.write_all(b" : ")
        }
        fn end_object_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
            self.0.end_object_value(w)
        }
    }
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Spaced(serde_json::ser::PrettyFormatter::new()));
    // Writing a `Value` to memory cannot fail.
    let _ = value.serialize(&mut serializer);
    out.push(b'\n');
    let text = String::from_utf8(out);
    debug_assert!(text.is_ok(), "JSON is text");
    text.unwrap_or_default()
}

/// `filter_path`: patterns with `*` and `**`; a leading `-` excludes.
pub(crate) fn filter(value: &Value, patterns: &[String]) -> Value {
    let (excludes, includes): (Vec<_>, Vec<_>) = patterns.iter().partition(|p| p.starts_with('-'));
    let mut out = if includes.is_empty() {
        value.clone()
    } else {
        let split: Vec<Vec<String>> = includes.iter().map(|p| parts(p)).collect();
        let split: Vec<Vec<&str>> = split.iter().map(|p| p.iter().map(String::as_str).collect()).collect();
        keep(value, &split).unwrap_or_else(|| Value::Object(serde_json::Map::new()))
    };
    for pattern in excludes {
        let parts = parts(&pattern[1..]);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        drop_at(&mut out, &parts);
    }
    out
}

/// The names of a path: parted by dots, but not by `\\.`.
fn parts(pattern: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'.') => {
                chars.next();
                if let Some(last) = out.last_mut() {
                    last.push('.');
                }
            }
            '.' => out.push(String::new()),
            c => {
                if let Some(last) = out.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    out
}

/// The part of `value` that the patterns keep; `None` if nothing.
fn keep(value: &Value, patterns: &[Vec<&str>]) -> Option<Value> {
    if patterns.iter().any(|p| p.is_empty() || p.as_slice() == ["**"]) {
        return Some(value.clone());
    }
    match value {
        Value::Object(map) => {
            let kept: serde_json::Map<String, Value> = map
                .iter()
                .filter_map(|(key, child)| {
                    let below: Vec<Vec<&str>> = patterns.iter().flat_map(|p| step(p, key)).collect();
                    if below.is_empty() {
                        None
                    } else {
                        keep(child, &below).map(|v| (key.clone(), v))
                    }
                })
                .collect();
            if kept.is_empty() { None } else { Some(Value::Object(kept)) }
        }
        Value::Array(items) => {
            let kept: Vec<Value> = items.iter().filter_map(|item| keep(item, patterns)).collect();
            if kept.is_empty() { None } else { Some(Value::Array(kept)) }
        }
        _ => None,
    }
}

/// The patterns that remain below `key`.
fn step<'a>(pattern: &[&'a str], key: &str) -> Vec<Vec<&'a str>> {
    match pattern.split_first() {
        None => vec![Vec::new()],
        Some((&"**", rest)) => {
            let mut out = step(rest, key);
            out.push(pattern.to_vec());
            out
        }
        Some((first, rest)) if path::matches(first, key) => vec![rest.to_vec()],
        Some(_) => Vec::new(),
    }
}

/// Drops what the pattern names.
fn drop_at(value: &mut Value, pattern: &[&str]) {
    match value {
        Value::Object(map) => {
            map.retain(|key, child| {
                for below in step(pattern, key) {
                    if below.is_empty() {
                        return false;
                    }
                    drop_at(child, &below);
                }
                true
            });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_at(item, pattern)),
        _ => {}
    }
}

/// Shorter answers are not compressed.
const COMPRESSED_FROM_BYTES: usize = 1024;

/// Gzip, for clients that accept it and answers that are worth it.
pub(crate) fn compress(bytes: &Bytes, request: &Request) -> Option<Bytes> {
    if bytes.len() < COMPRESSED_FROM_BYTES || !request.accepts_gzip {
        return None;
    }
    gzip(std::iter::once(bytes.clone()))
}

/// The same for a packed text, which is let go piece by piece.
pub(crate) fn compress_packed(text: &mut PackedText, request: &Request) -> Option<Bytes> {
    if text.bytes() < COMPRESSED_FROM_BYTES || !request.accepts_gzip {
        return None;
    }
    gzip(std::iter::from_fn(|| text.next_piece()))
}

fn gzip(pieces: impl Iterator<Item = Bytes>) -> Option<Bytes> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for piece in pieces {
        // Writing to memory does not fail.
        encoder.write_all(&piece).ok()?;
    }
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(patterns: &[&str], expected: Value) {
        let value = json!({"took": 1, "hits": {"total": {"value": 2}, "hits": [{"_id": "1", "_source": {"a": 1, "b": 2}}, {"_id": "2", "_source": {"a": 3}}]}});
        let patterns: Vec<String> = patterns.iter().map(|s| (*s).to_owned()).collect();
        assert_eq!(filter(&value, &patterns), expected, "{patterns:?}");
    }

    #[test]
    fn filter_paths() {
        check(&["took"], json!({"took": 1}));
        check(&["hits.hits._id"], json!({"hits": {"hits": [{"_id": "1"}, {"_id": "2"}]}}));
        check(&["hits.hits._source.b"], json!({"hits": {"hits": [{"_source": {"b": 2}}]}}));
        check(
            &["**.a"],
            json!({"hits": {"hits": [{"_source": {"a": 1}}, {"_source": {"a": 3}}]}}),
        );
        check(&["h*.total"], json!({"hits": {"total": {"value": 2}}}));
        check(&["-hits"], json!({"took": 1}));
        check(&["absent"], json!({}));
    }

    #[test]
    fn human_adds_units() {
        assert_eq!(
            humane(&json!({"size_in_bytes": 2048, "t": [{"time_in_millis": 1500}], "_source": {"a_in_bytes": 1}})),
            json!({"size": "2kb", "size_in_bytes": 2048, "t": [{"time": "1.5s", "time_in_millis": 1500}], "_source": {"a_in_bytes": 1}})
        );
    }

    #[test]
    fn pretty_is_elasticsearchs() {
        assert_eq!(
            pretty(&json!({"a": [1], "b": {}})),
            "{\n  \"a\" : [\n    1\n  ],\n  \"b\" : {}\n}\n"
        );
    }
}
