//! Mustache, as far as search templates use it: values, escaped for JSON or raw, sections, inverted sections, comments,
//! and the functions `toJson` and `join`. After mustache(5).
//!
//! Not here: partials, which read other templates, and set delimiters; both are refused by name.

use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// Sections inside sections.
const DEPTH_MAX: usize = 16;
/// Bytes that a rendered template may have.
const RENDERED_MAX_BYTES: usize = 10 << 20;

/// A part of a template.
#[derive(Debug)]
enum Part {
    Text(String),
    /// `{{name}}`, or raw: `{{{name}}}`, `{{&name}}`.
    Value {
        name: String,
        raw: bool,
    },
    /// `{{#name}}…{{/name}}`, or inverted: `{{^name}}…{{/name}}`.
    Section {
        name: String,
        inverted: bool,
        parts: Vec<Part>,
        text: String,
    },
}

/// The text of a template with its parameters put in.
///
/// # Errors
/// A tag or section that is not closed, a partial, more text than a rendered template may have.
pub fn render(template: &str, params: &Map<String, Value>) -> Result<String> {
    let mut rest = template;
    let parts = parse(&mut rest, None, 0)?;
    assert!(rest.is_empty(), "a template is read to its end: only a section ends before");
    let mut out = String::new();
    let root = Value::Object(params.clone());
    let mut around = vec![&root];
    write(&parts, &mut around, &mut out)?;
    assert_eq!(around.len(), 1, "a template leaves every section that it entered");
    Ok(out)
}

fn malformed_template(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::IllegalArgument, reason)
}

/// Reads up to the end of the section, or of the text.
fn parse(rest: &mut &str, section: Option<&str>, depth: usize) -> Result<Vec<Part>> {
    if depth > DEPTH_MAX {
        return Err(malformed_template(format!(
            "a template has more than [{DEPTH_MAX}] sections inside each other"
        )));
    }
    let mut parts = Vec::new();
    loop {
        let Some(at) = rest.find("{{") else {
            if let Some(name) = section {
                return Err(malformed_template(format!(
                    "Failed to close section [{name}] in query-template"
                )));
            }
            parts.push(Part::Text((*rest).to_owned()));
            *rest = "";
            return Ok(parts);
        };
        parts.push(Part::Text(rest[..at].to_owned()));
        let after = &rest[at + 2..];
        let (close, skip) = if after.starts_with('{') { ("}}}", 1) } else { ("}}", 0) };
        // The first two braces end it; what began with three has to end with three.
        let Some(end) = after.find("}}").filter(|end| after[*end..].starts_with(close)) else {
            return Err(malformed_template("Improperly closed variable in query-template"));
        };
        let tag = after[skip..end].trim();
        *rest = &after[end + close.len()..];
        if skip == 1 {
            parts.push(Part::Value {
                name: tag.to_owned(),
                raw: true,
            });
            continue;
        }
        let (sign, name) = match tag.chars().next() {
            Some(sign @ ('#' | '^' | '/' | '&' | '!' | '>' | '=')) => (sign, tag[1..].trim()),
            _ => (' ', tag),
        };
        match sign {
            '!' => {}
            '&' | ' ' => parts.push(Part::Value {
                name: name.to_owned(),
                raw: sign == '&',
            }),
            '#' | '^' => {
                let before = *rest;
                let inner = parse(rest, Some(name), depth + 1)?;
                let length = before.len() - rest.len();
                let whole = &before[..length];
                let text = whole.rfind("{{").map_or(whole, |at| &whole[..at]).to_owned();
                parts.push(Part::Section {
                    name: name.to_owned(),
                    inverted: sign == '^',
                    parts: inner,
                    text,
                });
            }
            '/' if section == Some(name) => return Ok(parts),
            '/' => {
                return Err(malformed_template(format!(
                    "Mismatched end of section [{name}] in query-template"
                )));
            }
            other => return Err(malformed_template(format!("[{other}{name}] in a template is not supported"))),
        }
    }
}

fn write(parts: &[Part], around: &mut Vec<&Value>, out: &mut String) -> Result<()> {
    for part in parts {
        if out.len() > RENDERED_MAX_BYTES {
            return Err(malformed_template(format!(
                "a rendered template has more than [{RENDERED_MAX_BYTES}] bytes"
            )));
        }
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Value { name, raw } => {
                if let Some(value) = find(around, name) {
                    out.push_str(&value_text(value, *raw));
                }
            }
            Part::Section {
                name,
                inverted: false,
                text,
                ..
            } if name == "toJson" => {
                if let Some(value) = find(around, text.trim()) {
                    out.push_str(&value.to_string());
                }
            }
            Part::Section {
                name,
                inverted: false,
                text,
                ..
            } if name == "join" => {
                if let Some(Value::Array(items)) = find(around, text.trim()) {
                    let words: Vec<String> = items.iter().map(|item| value_text(item, false)).collect();
                    out.push_str(&words.join(","));
                }
            }
            Part::Section {
                name, inverted, parts, ..
            } => {
                let value = find(around, name);
                let holds = !matches!(value, None | Some(Value::Null | Value::Bool(false)))
                    && !value.and_then(Value::as_array).is_some_and(Vec::is_empty)
                    && value.and_then(Value::as_str) != Some("");
                match (holds, inverted, value) {
                    (true, false, Some(Value::Array(items))) => {
                        for item in items {
                            around.push(item);
                            write(parts, around, out)?;
                            around.pop();
                        }
                    }
                    (true, false, Some(value)) => {
                        around.push(value);
                        write(parts, around, out)?;
                        around.pop();
                    }
                    (false, true, _) => write(parts, around, out)?,
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// A name in the nearest object that has it; `.` is the nearest value itself.
fn find<'a>(around: &[&'a Value], name: &str) -> Option<&'a Value> {
    if name == "." {
        return around.last().copied();
    }
    around.iter().rev().find_map(|value| {
        let mut at = *value;
        for part in name.split('.') {
            at = match at {
                Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                other => other.get(part)?,
            };
        }
        Some(at)
    })
}

fn value_text(value: &Value, raw: bool) -> String {
    match value {
        Value::Null => String::new(),
        value if raw => in_java(value),
        value => model::text::to_json_escapes(&in_java(value)),
    }
}

/// A value as Java's collections write themselves: `{a=1, b=[x, y]}`. The depth is the reader's.
fn in_java(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(in_java).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let each = map.iter().map(|(name, value)| format!("{name}={}", in_java(value)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(template: &str, expected: &str) {
        let params = json!({ "a": "x\"y", "n": 3, "list": [1, 2], "o": { "in": "deep" }, "no": false, "empty": [] });
        let params = params.as_object().expect("an object");
        let found = render(template, params).unwrap_or_else(|error| error.reason().to_owned());
        assert_eq!(found, expected, "{template}");
    }

    #[test]
    fn templates() {
        check("{{a}} {{{a}}} {{&a}}", "x\\\"y x\"y x\"y");
        check("{{n}}{{absent}}.{{o.in}}{{list.1}}", "3.deep2");
        check("{{#list}}<{{.}}>{{/list}}{{^empty}}none{{/empty}}", "<1><2>none");
        check("{{#no}}a{{/no}}{{^no}}b{{/no}}{{#n}}c{{/n}}", "bc");
        check("{{#o}}{{in}}{{n}}{{/o}}{{! a comment }}", "deep3");
        check("{{#toJson}}list{{/toJson}} {{#join}}list{{/join}}", "[1,2] 1,2");
        check("{{{a}}", "Improperly closed variable in query-template");
        check("{{#a}}", "Failed to close section [a] in query-template");
        check("{{>a}}", "[>a] in a template is not supported");
    }
}
