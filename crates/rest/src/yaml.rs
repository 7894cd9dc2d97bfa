//! An answer as YAML, as Elasticsearch writes it: texts in double quotes, two spaces a level, lists at the level of their name.
//!
//! Not here: when an answer is YAML (`respond`).

use serde_json::Value;

/// The first line of a document, unless a value stands in it.
pub(crate) const BEGIN: &str = "---\n";

/// An item of a list at the level of the document, on lines of its own.
pub(crate) fn item(value: &Value) -> String {
    let mut out = String::new();
    entry(value, 0, &mut out);
    out
}

/// A member of the document, on lines of its own.
pub(crate) fn member(key: &str, value: &Value) -> String {
    let mut out = String::new();
    name(key, &mut out);
    out.push(':');
    below(value, 2, 0, &mut out);
    out
}

/// A document with its first line. The depth is that of an answer, which is limited.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::from("---");
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, 0, &mut out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, 0, &mut out);
        }
        _ => {
            out.push(' ');
            scalar(value, &mut out);
            out.push('\n');
        }
    }
    out
}

/// The entries of an object or a list, each on lines of its own.
fn block(value: &Value, indent: usize, out: &mut String) {
    debug_assert!(
        value
            .as_object()
            .map(|members| members.len())
            .or(value.as_array().map(Vec::len))
            > Some(0),
        "what is empty stands in the line of its name"
    );
    match value {
        Value::Object(map) => {
            for (n, (key, value)) in map.iter().enumerate() {
                // The first stands where its list or document begins.
                if n > 0 || !out.ends_with("- ") {
                    out.push_str(&" ".repeat(indent));
                }
                name(key, out);
                out.push(':');
                below(value, indent + 2, indent, out);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                if n > 0 || !out.ends_with("- ") {
                    out.push_str(&" ".repeat(indent));
                }
                entry(item, indent, out);
            }
        }
        _ => {}
    }
}

/// An item behind its dash.
fn entry(item: &Value, indent: usize, out: &mut String) {
    out.push('-');
    match item {
        Value::Object(map) if !map.is_empty() => {
            out.push(' ');
            block(item, indent + 2, out);
        }
        Value::Array(inner) if !inner.is_empty() => {
            out.push(' ');
            block(item, indent + 2, out);
        }
        _ => below(item, indent, indent, out),
    }
}

/// The value behind a colon.
fn below(value: &Value, object: usize, list: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, object, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, list, out);
        }
        _ => {
            out.push(' ');
            scalar(value, out);
            out.push('\n');
        }
    }
}

fn scalar(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(&quote(text)),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => out.push_str(&other.to_string()),
    }
}

/// A text of JSON is one of YAML.
fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// A key, in quotes where it could be read as something else.
fn name(key: &str, out: &mut String) {
    let first = key.chars().next();
    let plain = first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '/' || c == '.')
        && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-./#$+".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&key.to_ascii_lowercase().as_str());
    if plain {
        out.push_str(key);
    } else {
        out.push_str(&quote(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(value: Value, expected: &str) {
        assert_eq!(text(&value), expected, "{value}");
        let read: Value = serde_yaml_ng::from_str(expected).expect("YAML");
        assert_eq!(read, value, "what was written reads back");
    }

    #[test]
    fn as_elasticsearch_writes() {
        check(json!({}), "--- {}\n");
        check(
            json!({"_id": "1", "_version": 1, "found": true, "_source": {"k": "c", "n": null}}),
            "---\n_id: \"1\"\n_version: 1\nfound: true\n_source:\n  k: \"c\"\n  \"n\": null\n",
        );
        check(
            json!({"hits": [{"a": [1, "x"], "b": {}}, {"a": []}], "1": {"é": "\"\n"}}),
            "---\nhits:\n- a:\n  - 1\n  - \"x\"\n  b: {}\n- a: []\n\"1\":\n  \"é\": \"\\\"\\n\"\n",
        );
        check(json!([[1, 2], {"a": 1}]), "---\n- - 1\n  - 2\n- a: 1\n");
    }
}
