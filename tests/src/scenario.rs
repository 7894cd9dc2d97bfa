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
//! A step that shows what a parameter of the URL does has `with` instead of `expect`: each entry is a query string and what the
//! answer holds with it, and does not hold without it.
//!
//! ```yaml
//! - api: search                      # whose parameters, by the name in the table of endpoints
//!   do: GET /i/_search               # or each: { search: GET /i/_search, count: { do: GET /i/_count, body: .. } }
//!   before: [ PUT /i${n} ]           # played ahead of every attempt; ${n} is a number that no other attempt has
//!   then: GET /i/_doc/${n}           # its answer is the one that is judged
//!   with: { size=1: { hits.hits: { $len: 1 } }, size=x: { $status: 400 } }   # $text: the answer as it came
//! ```
//!
//! `# server: NAME=VALUE` as a line of a file is a setting of its server. Where that is `security.enabled=true`, steps without an
//! `authorization` of their own are the administrator's.
//!
//! Values match if equal (numbers by value), or by one operator: `$any`, `$absent`, `$gt`, `$gte`, `$lt`, `$len`,
//! `$match` (a regular expression), `$not`, `$has` (an array holds each of these).

use crate::{Answer, Server};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The listeners that scenarios may name.
pub const PERSONAS: &[&str] = &["es8", "es2", "es7", "opensearch2"];

const KEYS: &[&str] = &[
    "do", "persona", "headers", "body", "ndjson", "raw", "repeat", "status", "expect", "save", "api", "each", "before", "then",
    "with",
];

/// Every scenario below a folder.
pub fn collect(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "yaml") {
            files.push(path);
        }
    }
}

/// Runs one file on a server of its own; the failures, each in words.
pub fn run(file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let settings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# server: ")).collect();
    run_with(file, &settings)
}

/// What the administrator of a server's first start sends as `Authorization`.
///
/// # Panics
/// The server does not tell how to log in.
pub fn administrator(data: &Path) -> String {
    let text = std::fs::read_to_string(data.join("first-login")).expect("the first start tells how to log in");
    format!("Basic {}", STANDARD.encode(text.trim()))
}

/// The same with node settings, each `NAME=VALUE`.
pub fn run_with(file: &Path, settings: &[&str]) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let steps: Vec<Map<String, Value>> = serde_yaml_ng::from_str(&text).map_err(|e| format!("not a list of steps: {e}"))?;
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let server = Server::start_with(&folder.path().join("data"), PERSONAS, settings);
    let mut saved = BTreeMap::new();
    if settings.contains(&"security.enabled=true") {
        saved.insert("authorization".to_owned(), administrator(&folder.path().join("data")).into());
    }
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
    if let Some(with) = step.get("with") {
        let with = with.as_object().ok_or("[with] is a map")?;
        return compare(server, step, with, saved);
    }
    let answer = ask(server, step, "", saved)?;
    check(step, &answer, saved).map_err(|why| told(why, &answer))
}

fn told(why: String, answer: &Answer) -> String {
    format!("{why}\n    answer {}: {}", answer.status, shorten(&answer.body.to_string()))
}

/// The request of a step, with more in its query string.
fn ask(server: &Server, step: &Map<String, Value>, query: &str, saved: &BTreeMap<String, Value>) -> Result<Answer, String> {
    let request = step.get("do").and_then(Value::as_str).ok_or("no [do]")?;
    let (method, path) = request.split_once(' ').ok_or("[do] is METHOD PATH")?;
    let path = fill(&Value::from(path), saved);
    let persona = step.get("persona").and_then(Value::as_str).unwrap_or("es8");
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in step.get("headers").and_then(Value::as_object).into_iter().flatten() {
        headers.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    if let (Some(Value::String(own)), false) = (
        saved.get("authorization"),
        headers.iter().any(|(name, _)| name == "authorization"),
    ) {
        headers.push(("authorization".into(), own.clone()));
    }
    if step.contains_key("ndjson") && !headers.iter().any(|(name, _)| name == "content-type") {
        headers.push(("content-type".into(), "application/x-ndjson".into()));
    }
    let body = body_of(step, saved)?;
    let path = path.as_str().unwrap_or_default();
    let path = match (query.is_empty(), path.contains('?')) {
        (true, _) => path.to_owned(),
        (false, true) => format!("{path}&{query}"),
        (false, false) => format!("{path}?{query}"),
    };
    crate::send(server.address(persona), method, &path, &headers, body.as_bytes()).map_err(|e| format!("no answer: {e}"))
}

/// The APIs that a step with `with` is about, each with its own step.
fn about(step: &Map<String, Value>) -> Result<Vec<(String, Map<String, Value>)>, String> {
    let Some(each) = step.get("each") else {
        let api = step
            .get("api")
            .and_then(Value::as_str)
            .ok_or("[with] needs [api] or [each]")?;
        return Ok(vec![(api.to_owned(), step.clone())]);
    };
    let each = each.as_object().ok_or("[each] is a map")?;
    let own = |request: &Value| {
        let mut own = step.clone();
        match request {
            Value::Object(more) => own.extend(more.clone()),
            request => drop(own.insert("do".into(), request.clone())),
        }
        own
    };
    Ok(each.iter().map(|(api, request)| (api.clone(), own(request))).collect())
}

/// Plays each entry of `with` twice, with and without the parameter: what is expected holds only with it.
fn compare(
    server: &Server,
    step: &Map<String, Value>,
    with: &Map<String, Value>,
    saved: &mut BTreeMap<String, Value>,
) -> Result<(), String> {
    for (api, step) in about(step)? {
        for (query, expected) in with {
            let failed = |why: String| format!("{api}, {query}: {why}");
            let query = encoded(&filled(query, saved));
            let mut judged = |query: &str| -> Result<(Result<(), String>, Answer), String> {
                let n = saved.get("n").and_then(Value::as_u64).unwrap_or(0) + 1;
                saved.insert("n".into(), n.into());
                for before in step.get("before").and_then(Value::as_array).into_iter().flatten() {
                    ask(server, &as_step(before, &step), "", saved)?;
                }
                let mut answer = ask(server, &step, query, saved)?;
                if let Some(then) = step.get("then") {
                    answer = ask(server, &as_step(then, &step), "", saved)?;
                }
                let mut expected = expected.as_object().cloned().ok_or("what is expected is a map")?;
                let (status, text) = (expected.remove("$status"), expected.remove("$text"));
                let mut wanted = Map::from_iter([("expect".to_owned(), Value::Object(expected))]);
                let mut holds = Ok(());
                if let Some(status) = status {
                    let found = Value::from(answer.status);
                    holds = matches(Some(&found), &status).map_err(|why| format!("[$status] {why}"));
                    wanted.insert("status".into(), found);
                }
                if let Some(text) = text {
                    let found = Value::from(answer.text.as_str());
                    holds = holds.and_then(|()| matches(Some(&found), &text).map_err(|why| format!("[$text] {why}")));
                }
                Ok((holds.and_then(|()| check(&wanted, &answer, &mut saved.clone())), answer))
            };
            let (with, answer) = judged(&query).map_err(failed)?;
            with.map_err(|why| failed(told(why, &answer)))?;
            let (without, answer) = judged("").map_err(failed)?;
            if without.is_ok() {
                return Err(failed(told("the answer holds it without the parameter too".into(), &answer)));
            }
        }
    }
    Ok(())
}

/// A request in one line, or a step; with the persona of the step around it.
fn as_step(request: &Value, around: &Map<String, Value>) -> Map<String, Value> {
    let mut step = match request {
        Value::Object(step) => step.clone(),
        request => Map::from_iter([("do".to_owned(), request.clone())]),
    };
    if let Some(persona) = around.get("persona") {
        step.entry("persona").or_insert_with(|| persona.clone());
    }
    step
}

/// Values of a query string as a client sends them.
fn encoded(query: &str) -> String {
    let value = |text: &str| -> String {
        text.bytes()
            .map(|b| match b {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b',' | b'*' | b':' => {
                    char::from(b).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect()
    };
    let pairs: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, text)) => format!("{name}={}", value(text)),
            None => pair.to_owned(),
        })
        .collect();
    pairs.join("&")
}

/// The parameters that the scenarios of a file show having an effect: API and name.
///
/// # Errors
/// A file that is no scenario.
pub fn parameters(file: &Path) -> Result<Vec<(String, String)>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let steps: Vec<Map<String, Value>> = serde_yaml_ng::from_str(&text).map_err(|e| format!("not a list of steps: {e}"))?;
    let mut out = Vec::new();
    for step in &steps {
        let Some(with) = step.get("with").and_then(Value::as_object) else {
            continue;
        };
        for (api, _) in about(step)? {
            let names = with
                .keys()
                .flat_map(|query| query.split('&'))
                .map(|pair| pair.split('=').next().unwrap_or(pair));
            out.extend(names.map(|name| (api.clone(), name.to_owned())));
        }
    }
    Ok(out)
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
        let around = |at: &str| repeat[at].as_str().unwrap_or_default();
        return Ok(format!("{}{}{}", around("before"), text.repeat(times), around("after")));
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
            Value::String(filled(text, saved))
        }
        Value::Array(items) => items.iter().map(|i| fill(i, saved)).collect(),
        Value::Object(fields) => fields.iter().map(|(k, v)| (filled(k, saved), fill(v, saved))).collect(),
        other => other.clone(),
    }
}

fn filled(text: &str, saved: &BTreeMap<String, Value>) -> String {
    let mut text = text.to_owned();
    for (name, value) in saved {
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text = text.replace(&format!("${{{name}}}"), &plain);
    }
    text
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
