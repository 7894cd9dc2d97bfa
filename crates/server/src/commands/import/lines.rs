//! Lines of JSON as operations of a bulk request: documents, the lines of a bulk request, or dumps of hits.
//!
//! All of it is decided from the lines alone. Not here: reading the file, sending requests.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The operations of a bulk request.
const OPERATIONS: &[&str] = &["index", "create", "update", "delete"];
/// Keys that an operation may give about its document, beside the names that begin with `_`.
const METADATA: &[&str] = &[
    "routing",
    "parent",
    "version",
    "version_type",
    "retry_on_conflict",
    "if_seq_no",
    "if_primary_term",
    "require_alias",
    "pipeline",
    "dynamic_templates",
    "lock",
];

/// The form of the lines of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Form {
    /// A document a line. `_id`, `_routing` and `_index` beside its fields say where it goes.
    Documents,
    /// An operation (`{"index": {…}}`) and its document, by turns, as `_bulk` takes them.
    Bulk,
    /// A hit a line, `{"_index", "_id", "_source"}`, as elasticdump writes them.
    Dump,
    /// A row a line with commas between its cells, below a row of names.
    Csv,
    /// The same with tabs.
    Tsv,
}

/// The flags that concern every line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    pub(super) form: Form,
    /// Wins over the index that a line names.
    pub(super) index: Option<&'a str>,
    /// The field (dotted) that holds the id.
    pub(super) id: Option<&'a str>,
    /// The field (dotted) that holds the routing.
    pub(super) routing: Option<&'a str>,
}

/// One operation of a bulk request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BulkOperation {
    /// Its line: `{"index":{"_id":"1"}}`.
    pub(super) action: Value,
    /// Does a line with a source follow it?
    pub(super) has_source: bool,
    /// The index that it names, if it names one.
    pub(super) index: Option<String>,
    /// Did the line name a type, which is left out?
    pub(super) typed: bool,
}

impl BulkOperation {
    /// Gives its document this id, unless it has one.
    pub(super) fn name_document(&mut self, id: String) {
        let metadata = self.action.as_object_mut().and_then(|action| action.values_mut().next());
        if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
            metadata.entry("_id").or_insert_with(|| id.into());
        }
    }
}

/// The members of an object, each as it was written, in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Members<'a>, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;
            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Reader)
    }
}

impl<'a> Members<'a> {
    fn read(line: &'a [u8]) -> Result<Members<'a>, String> {
        serde_json::from_slice(line).map_err(|cause| match line.first() {
            Some(b'{') if cause.is_eof() => "the JSON object does not end on this line".to_owned(),
            Some(b'{') => format!("not JSON: it breaks at column {}", cause.column()),
            _ => "not a JSON object".to_owned(),
        })
    }

    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }

    /// The operation's name and what it says about its document, if that is all there is.
    fn operation(&self) -> Option<(&str, Map<String, Value>)> {
        let [(name, value)] = self.0.as_slice() else { return None };
        let name = OPERATIONS.iter().find(|known| *known == name)?;
        let metadata: Map<String, Value> = serde_json::from_str(value.get()).ok()?;
        let fits = |key: &String| key.starts_with('_') || METADATA.contains(&key.as_str());
        metadata.keys().all(fits).then_some((*name, metadata))
    }

    fn is_hit(&self) -> bool {
        let source = self.get("_source").is_some_and(|source| source.get().starts_with('{'));
        source && (self.get("_id").is_some() || self.get("_index").is_some())
    }
}

/// The form of a file's lines, by the first of them that is not empty.
///
/// # Errors
/// It is none of them; the reason says what to do.
pub(super) fn form_of(first: &[u8]) -> Result<Form, String> {
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        return Err("the file is UTF-16; convert it to UTF-8".to_owned());
    }
    let members = Members::read(first).map_err(|why| format!("{why}; write one object a line (jq -c . FILE does)"))?;
    Ok(if members.operation().is_some() {
        Form::Bulk
    } else if members.is_hit() {
        Form::Dump
    } else {
        Form::Documents
    })
}

/// The operation of a line, and its source if the line itself holds it.
///
/// # Errors
/// A line of another form, without an id where one is asked for, or without an index.
pub(super) fn read_line(line: &[u8], rules: Rules<'_>) -> Result<(BulkOperation, Option<Vec<u8>>), String> {
    let members = Members::read(line)?;
    match rules.form {
        Form::Bulk => {
            let (name, metadata) = members
                .operation()
                .ok_or("not an operation: a line such as {\"index\":{\"_id\":\"1\"}} is expected here")?;
            Ok((operation(name, metadata, rules)?, None))
        }
        Form::Dump => {
            let source = members.get("_source").filter(|source| source.get().starts_with('{'));
            let source = source.ok_or("no object in [_source]")?.get().as_bytes().to_vec();
            let action = operation("index", destination(&members, &source, rules)?, rules)?;
            Ok((action, Some(source)))
        }
        // The rows of a table are objects by now.
        Form::Documents | Form::Csv | Form::Tsv => {
            let metadata = destination(&members, line, rules)?;
            let lifted = |name: &str| ["_id", "_routing", "_index", "_type", "_parent"].contains(&name);
            let source = if members.0.iter().any(|(name, _)| lifted(name)) {
                let kept = members.0.iter().filter(|(name, _)| !lifted(name));
                let kept: Vec<String> = kept.map(|(name, value)| format!("{}:{}", json!(name), value.get())).collect();
                format!("{{{}}}", kept.join(",")).into_bytes()
            } else {
                line.to_vec()
            };
            Ok((operation("index", metadata, rules)?, Some(source)))
        }
    }
}

/// Is it the source of an operation?
///
/// # Errors
/// It is no JSON object.
pub(super) fn check_source(line: &[u8]) -> Result<(), String> {
    Members::read(line).map(drop)
}

/// Is the outcome of the operation the same when it is applied twice? A document without an id would be there twice.
pub(super) fn is_repeatable(action: &Value) -> bool {
    let Some((name, metadata)) = action.as_object().and_then(|action| action.iter().next()) else {
        return false;
    };
    let known = ["_index", "_type", "_id", "routing", "parent", "_timestamp", "_ttl"];
    let plain = |key: &String| known.contains(&key.as_str());
    let metadata = metadata.as_object().filter(|metadata| metadata.contains_key("_id"));
    ["index", "delete"].contains(&name.as_str()) && metadata.is_some_and(|metadata| metadata.keys().all(plain))
}

/// Where a document goes, by the members of its line that begin with `_` and by the fields that the flags name.
fn destination(members: &Members<'_>, source: &[u8], rules: Rules<'_>) -> Result<Map<String, Value>, String> {
    let mut metadata = Map::new();
    for name in ["_index", "_type", "_id", "_routing", "_parent"] {
        let Some(value) = members.get(name) else { continue };
        let value = serde_json::from_str(value.get()).unwrap_or(Value::Null);
        let text = text_of(&value).ok_or_else(|| format!("no string or number in [{name}]"))?;
        metadata.insert(name.to_owned(), text.into());
    }
    for (key, field) in [("_id", rules.id), ("_routing", rules.routing)] {
        let Some(field) = field else { continue };
        let source: Value = serde_json::from_slice(source).map_err(|cause| format!("not JSON: {cause}"))?;
        let nested = field.split('.').try_fold(&source, |at, step| at.get(step));
        let value = nested.or_else(|| source.get(field)).and_then(text_of);
        let text = value.ok_or_else(|| format!("no string or number in the field [{field}]"))?;
        metadata.insert(key.to_owned(), text.into());
    }
    Ok(metadata)
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The operation in the words of today's servers: no type, `routing` without an underscore.
pub(super) fn operation(name: &str, mut metadata: Map<String, Value>, rules: Rules<'_>) -> Result<BulkOperation, String> {
    if metadata.contains_key("_parent") || metadata.contains_key("parent") {
        return Err(
            "[_parent] is of servers with types; give the document a join field, and the parent's id as its routing".to_owned(),
        );
    }
    let typed = metadata.shift_remove("_type").is_some();
    if rules.index.is_some() {
        metadata.shift_remove("_index");
    }
    let index = metadata.get("_index").and_then(Value::as_str).map(str::to_owned);
    if index.is_none() && rules.index.is_none() {
        return Err("it names no index; name the index to fill: --index NAME".to_owned());
    }
    for (old, new) in [
        ("_routing", "routing"),
        ("_version", "version"),
        ("_version_type", "version_type"),
        ("_retry_on_conflict", "retry_on_conflict"),
    ] {
        if let Some(value) = metadata.shift_remove(old) {
            metadata.insert(new.to_owned(), value);
        }
    }
    Ok(BulkOperation {
        action: json!({ name: metadata }),
        has_source: name != "delete",
        index,
        typed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: the action, and the source if the line holds it.
    fn check(form: Form, id: Option<&str>, line: &str, expected: Result<(&str, &str), &str>) {
        let rules = Rules {
            form,
            index: Some("i"),
            id,
            routing: None,
        };
        let got = read_line(line.as_bytes(), rules);
        match (got, expected) {
            (Ok((got, source)), Ok((action, expected))) => {
                assert_eq!(got.action.to_string(), action, "{line}");
                assert_eq!(
                    source.map(|s| String::from_utf8_lossy(&s).into_owned()).unwrap_or_default(),
                    expected,
                    "{line}"
                );
            }
            (Err(got), Err(expected)) => assert!(got.contains(expected), "{line}: {got}"),
            (got, _) => panic!("{line}: {got:?}"),
        }
    }

    #[test]
    fn documents() {
        let check = |line, id, expected| check(Form::Documents, id, line, expected);
        check(r#"{"a":1}"#, None, Ok((r#"{"index":{}}"#, r#"{"a":1}"#)));
        check(r#"{"a":1}"#, Some("a"), Ok((r#"{"index":{"_id":"1"}}"#, r#"{"a":1}"#)));
        check(
            r#"{"a":{"b":"x"}}"#,
            Some("a.b"),
            Ok((r#"{"index":{"_id":"x"}}"#, r#"{"a":{"b":"x"}}"#)),
        );
        check(
            r#"{"a.b":"x"}"#,
            Some("a.b"),
            Ok((r#"{"index":{"_id":"x"}}"#, r#"{"a.b":"x"}"#)),
        );
        check(r#"{"a":null}"#, Some("a"), Err("no string or number in the field [a]"));
        // Numbers stay as they were written.
        check(
            r#"{"_id":7,"n":1.50,"_routing":"r","_index":"other","_type":"t"}"#,
            None,
            Ok((r#"{"index":{"_id":"7","routing":"r"}}"#, r#"{"n":1.50}"#)),
        );
        check(r#"{"_id":"1"}"#, None, Ok((r#"{"index":{"_id":"1"}}"#, "{}")));
        check(r#"{"_id":{"$oid":"1"}}"#, None, Err("no string or number in [_id]"));
        check(r#"{"_id":"1","_parent":"2"}"#, None, Err("[_parent]"));
        check("[1]", None, Err("not a JSON object"));
        check("7", None, Err("not a JSON object"));
        check("{", None, Err("does not end"));
        check(r#"{"a":}"#, None, Err("column 6"));
    }

    #[test]
    fn bulks_and_dumps() {
        let bulk = |line, expected| check(Form::Bulk, None, line, expected);
        bulk(r#"{"index":{}}"#, Ok((r#"{"index":{}}"#, "")));
        bulk(
            r#"{"create":{"_index":"other","_id":"1","_type":"t"}}"#,
            Ok((r#"{"create":{"_id":"1"}}"#, "")),
        );
        bulk(
            r#"{"update":{"_id":1,"_retry_on_conflict":3}}"#,
            Ok((r#"{"update":{"_id":1,"retry_on_conflict":3}}"#, "")),
        );
        bulk(
            r#"{"delete":{"_id":"1","_routing":"r"}}"#,
            Ok((r#"{"delete":{"_id":"1","routing":"r"}}"#, "")),
        );
        bulk(r#"{"title":"x"}"#, Err("not an operation"));
        let dump = |line, expected| check(Form::Dump, None, line, expected);
        dump(
            r#"{"_index":"a","_type":"t","_id":"1","_score":1,"_source":{"n":1e400}}"#,
            Ok((r#"{"index":{"_id":"1"}}"#, r#"{"n":1e400}"#)),
        );
        dump(r#"{"_index":"a","_id":"1"}"#, Err("no object in [_source]"));
        check(
            Form::Dump,
            Some("n"),
            r#"{"_id":"1","_source":{"n":2}}"#,
            Ok((r#"{"index":{"_id":"2"}}"#, r#"{"n":2}"#)),
        );
    }

    #[test]
    fn the_first_line_tells_the_form() {
        for (line, expected) in [
            (r#"{"a":1}"#, Ok(Form::Documents)),
            (r#"{"_id":"1","a":1}"#, Ok(Form::Documents)),
            (r#"{"index":{}}"#, Ok(Form::Bulk)),
            (r#"{"delete":{"_id":"1"}}"#, Ok(Form::Bulk)),
            (r#"{"index":{"name":"x"}}"#, Ok(Form::Documents)),
            (r#"{"index":"x"}"#, Ok(Form::Documents)),
            (r#"{"_id":"1","_source":{}}"#, Ok(Form::Dump)),
            (r#"{"_source":{}}"#, Ok(Form::Documents)),
            ("{", Err("does not end on this line")),
            ("key,value", Err("not a JSON object")),
        ] {
            match (form_of(line.as_bytes()), expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{line}"),
                (Err(got), Err(expected)) => assert!(got.contains(expected), "{line}: {got}"),
                (got, _) => panic!("{line}: {got:?}"),
            }
        }
        assert!(form_of(b"\xff\xfe{\0").is_err_and(|why| why.contains("UTF-16")));
    }

    #[test]
    fn what_may_be_sent_twice() {
        for (action, expected) in [
            (json!({ "index": { "_id": "1", "routing": "r" } }), true),
            (json!({ "delete": { "_id": "1" } }), true),
            (
                json!({ "index": { "_type": "t", "_id": "1", "parent": "p", "_timestamp": "1" } }),
                true,
            ),
            (json!({ "index": {} }), false),
            (json!({ "index": { "_id": "1", "version": 3 } }), false),
            (json!({ "create": { "_id": "1" } }), false),
            (json!({ "update": { "_id": "1" } }), false),
        ] {
            assert_eq!(is_repeatable(&action), expected, "{action}");
        }
    }

    #[test]
    fn an_index_is_needed() {
        let rules = Rules {
            form: Form::Documents,
            index: None,
            id: None,
            routing: None,
        };
        assert!(read_line(br#"{"a":1}"#, rules).is_err_and(|why| why.contains("--index NAME")));
        let (operation, _) = read_line(br#"{"_index":"a","n":1}"#, rules).expect("it names its index");
        assert_eq!(operation.index.as_deref(), Some("a"));
        assert_eq!(operation.action.to_string(), r#"{"index":{"_index":"a"}}"#);
    }
}
