//! Scenarios: YAML files with requests and what their answers must hold.
//!
//! A file is a list of steps:
//!
//! ```yaml
//! - do: PUT /i/_doc/1?refresh=true   # ${name} stands for a saved value
//!   persona: es2                     # which listener; es8 if absent
//!   headers: { accept: application/yaml }
//!   body: { a: 1 }                   # or ndjson: [..], raw: text, repeat: { text: "[", times: 9 }
//!   status: 201                      # absent: any 2xx
//!   expect:                          # path in the answer (a.b.0 or /a/b/0; "" is all of it): value
//!     _version: 1
//!     _seq_no: { $gte: 0 }
//!   save: { seq: _seq_no }
//! ```
//!
//! Values match if equal (numbers by value), or by one operator: `$any`, `$absent`, `$gt`, `$gte`, `$lt`, `$len`,
//! `$match` (a regular expression), `$not`, `$has` (an array holds each of these).

use crate::{Answer, Server};
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The listeners that scenarios may name.
pub const PERSONAS: &[&str] = &["es8", "es2", "opensearch2"];

const KEYS: &[&str] = &[
    "do", "persona", "headers", "body", "ndjson", "raw", "repeat", "status", "expect", "save",
];

/// Runs one file on a server of its own; the failures, each in words.
pub fn run(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let steps: Vec<Map<String, Value>> = serde_yaml_ng::from_str(&text).map_err(|e| format!("not a list of steps: {e}"))?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let server = Server::start(&folder.path().join("data"), PERSONAS);
    let mut saved = BTreeMap::new();
    for (i, step) in steps.iter().enumerate() {
        play(&server, step, &mut saved).map_err(|why| {
            let request = step.get("do").and_then(Value::as_str).unwrap_or("?");
            format!("step {} [{request}]: {why}", i + 1)
        })?;
    }
    Ok(())
}

fn play(server: &Server, step: &Map<String, Value>, saved: &mut BTreeMap<String, Value>) -> Result<(), String> {
    if let Some(unknown) = step.keys().find(|k| !KEYS.contains(&k.as_str())) {
        return Err(format!("unknown key [{unknown}]"));
    }
    let request = step.get("do").and_then(Value::as_str).ok_or("no [do]")?;
    let (method, path) = request.split_once(' ').ok_or("[do] is METHOD PATH")?;
    let path = fill(&Value::from(path), saved);
    let persona = step.get("persona").and_then(Value::as_str).unwrap_or("es8");
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in step.get("headers").and_then(Value::as_object).into_iter().flatten() {
        headers.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    if step.contains_key("ndjson") && headers.is_empty() {
        headers.push(("content-type".into(), "application/x-ndjson".into()));
    }
    let body = body_of(step, saved)?;
    let path = path.as_str().unwrap_or_default();
    let answer =
        crate::send(server.address(persona), method, path, &headers, body.as_bytes()).map_err(|e| format!("no answer: {e}"))?;
    check(step, &answer, saved)
        .map_err(|why| format!("{why}\n    answer {}: {}", answer.status, shorten(&answer.body.to_string())))
}

fn body_of(step: &Map<String, Value>, saved: &BTreeMap<String, Value>) -> Result<String, String> {
    if let Some(body) = step.get("body") {
        return Ok(fill(body, saved).to_string());
    }
    if let Some(lines) = step.get("ndjson") {
        let lines = lines.as_array().ok_or("[ndjson] is a list")?;
        return Ok(lines.iter().map(|l| format!("{}\n", fill(l, saved))).collect());
    }
    if let Some(raw) = step.get("raw") {
        return Ok(fill(raw, saved).as_str().unwrap_or_default().to_owned());
    }
    if let Some(repeat) = step.get("repeat") {
        let text = repeat["text"].as_str().ok_or("[repeat] has a text")?;
        let times = repeat["times"]
            .as_u64()
            .and_then(|t| usize::try_from(t).ok())
            .ok_or("[repeat] has times")?;
        return Ok(text.repeat(times));
    }
    Ok(String::new())
}

fn check(step: &Map<String, Value>, answer: &Answer, saved: &mut BTreeMap<String, Value>) -> Result<(), String> {
    match step.get("status").and_then(Value::as_u64) {
        Some(status) if status != u64::from(answer.status) => return Err(format!("status is not {status}")),
        None if !(200..300).contains(&answer.status) => return Err("status is not 2xx".into()),
        _ => {}
    }
    for (path, expected) in step.get("expect").and_then(Value::as_object).into_iter().flatten() {
        let expected = fill(expected, saved);
        let found = at(&answer.body, path);
        matches(found, &expected).map_err(|why| format!("[{path}] {why}"))?;
    }
    for (name, path) in step.get("save").and_then(Value::as_object).into_iter().flatten() {
        let path = path.as_str().unwrap_or_default();
        let value = at(&answer.body, path).ok_or_else(|| format!("nothing at [{path}] to save"))?;
        saved.insert(name.clone(), value.clone());
    }
    Ok(())
}

/// `a.b.0`, `/a/b/0`, or "" for the whole.
fn at<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() || path.starts_with('/') {
        return body.pointer(path);
    }
    path.split('.').try_fold(body, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        other => other.get(step),
    })
}

fn matches(found: Option<&Value>, expected: &Value) -> Result<(), String> {
    let operator = expected
        .as_object()
        .filter(|o| o.len() == 1)
        .and_then(|o| o.iter().next())
        .filter(|(name, _)| name.starts_with('$'));
    let told = || shorten(&found.map_or_else(|| "nothing".to_owned(), Value::to_string));
    let Some((name, operand)) = operator else {
        return match found {
            _ if expected == "$any" => found.map(|_| ()).ok_or_else(|| "is not there".to_owned()),
            Some(found) if same(found, expected) => Ok(()),
            _ => Err(format!("is {}, not {expected}", told())),
        };
    };
    let number = || Some((found?.as_f64()?, operand.as_f64()?));
    let good = match name.as_str() {
        "$any" => found.is_some(),
        "$absent" => found.is_none(),
        "$gt" => number().is_some_and(|(a, b)| a > b),
        "$gte" => number().is_some_and(|(a, b)| a >= b),
        "$lt" => number().is_some_and(|(a, b)| a < b),
        "$not" => matches(found, operand).is_err(),
        "$len" => {
            let length = found.map(|f| {
                f.as_array()
                    .map(Vec::len)
                    .or_else(|| f.as_object().map(Map::len))
                    .or_else(|| f.as_str().map(str::len))
            });
            length.flatten().is_some_and(|l| operand.as_u64() == Some(l as u64))
        }
        "$match" => {
            let pattern = Regex::new(operand.as_str().unwrap_or_default()).map_err(|e| e.to_string())?;
            found.is_some_and(|f| pattern.is_match(f.as_str().unwrap_or(&f.to_string())))
        }
        "$has" => {
            let items = found.and_then(Value::as_array);
            items.is_some_and(|items| {
                operand
                    .as_array()
                    .is_some_and(|wanted| wanted.iter().all(|w| items.iter().any(|i| same(i, w))))
            })
        }
        other => return Err(format!("unknown operator [{other}]")),
    };
    if good {
        Ok(())
    } else {
        Err(format!("is {}, not {name} {operand}", told()))
    }
}

/// Equal; numbers by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w))),
        _ => a == b,
    }
}

/// Puts saved values where `${name}` stands; a string that is only that becomes the value itself.
fn fill(value: &Value, saved: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let whole = text
                .strip_prefix("${")
                .and_then(|t| t.strip_suffix('}'))
                .and_then(|name| saved.get(name));
            if let Some(value) = whole {
                return value.clone();
            }
            let mut text = text.clone();
            for (name, value) in saved {
                let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text = text.replace(&format!("${{{name}}}"), &plain);
            }
            Value::String(text)
        }
        Value::Array(items) => items.iter().map(|i| fill(i, saved)).collect(),
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), fill(v, saved))).collect(),
        other => other.clone(),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(1500) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(found: Value, expected: Value, good: bool) {
        assert_eq!(
            super::matches(Some(&found), &expected).is_ok(),
            good,
            "{found} against {expected}"
        );
    }

    #[test]
    fn matching() {
        check(json!(1), json!(1.0), true);
        check(json!([1, 2]), json!([1, 3]), false);
        check(json!({"a": 1}), json!({"a": 1, "b": 2}), false);
        check(json!(5), json!({"$gt": 4}), true);
        check(json!("text"), json!({"$match": "^te"}), true);
        check(json!([1, 2]), json!({"$len": 2}), true);
        check(json!([1, 2]), json!({"$has": [2]}), true);
        check(json!(null), json!("$any"), true);
        check(json!(1), json!({"$absent": true}), false);
        check(json!(1), json!({"$not": 1}), false);
        assert_eq!(at(&json!({"a": [{"b": 7}]}), "a.0.b"), Some(&json!(7)));
        assert_eq!(at(&json!({"a.b": 7}), "/a.b"), Some(&json!(7)));
        let saved = BTreeMap::from([("n".to_owned(), json!(3))]);
        assert_eq!(fill(&json!(["${n}", "x${n}"]), &saved), json!([3, "x3"]));
    }
}
