//! Scripts kept by name.

use crate::call::Call;
use crate::respond::Answer;
use engine::{Alteration, Inspected, Inspection};
use model::{Error, Result};
use serde_json::{Value, json};

/// `PUT /_scripts/{id}`. In 2015 the first part of the path is the language.
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let mut id = call.needed("id")?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let body = node.into_value();
    let script = body.get("script").cloned().unwrap_or_else(|| body.clone());
    let (lang, source) = match &script {
        Value::String(text) => {
            let lang = id.clone();
            id = call.arg("context").unwrap_or(&id).to_owned();
            (lang, text.clone())
        }
        Value::Object(script) => {
            let field = |name: &str| script.get(name).and_then(Value::as_str).map(str::to_owned);
            let source = match script.get("source") {
                Some(Value::Object(template)) => Some(Value::Object(template.clone()).to_string()),
                _ => field("source").or_else(|| field("inline")).or_else(|| field("code")),
            };
            (
                field("lang").unwrap_or_else(|| "painless".into()),
                source.ok_or_else(|| Error::illegal("must specify <source> for stored script"))?,
            )
        }
        _ => return Err(Error::illegal("unexpected token [VALUE], expected [{, <source>]")),
    };
    let body = json!({ "lang": lang, "source": source });
    call.rest.alter(Alteration::PutScript { id, body }).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `GET /_scripts/{id}`.
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    call.params.finish()?;
    match call.rest.engine.inspect(Inspection::Script(id.clone())).await? {
        Inspected::Script(Some(body)) => Ok(Answer::ok(json!({ "_id": id, "found": true, "script": body }))),
        _ => Ok(Answer::of(404, json!({ "_id": id, "found": false }))),
    }
}

/// `DELETE /_scripts/{id}`.
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    call.params.finish()?;
    call.rest.alter(Alteration::DeleteScript { id }).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// Where scripts run, and what each answers.
const CONTEXTS: &[(&str, &str)] = &[
    ("aggs", "java.lang.Object"),
    ("field", "java.lang.Object"),
    ("filter", "boolean"),
    ("number_sort", "double"),
    ("score", "double"),
    ("string_sort", "java.lang.String"),
    ("update", "void"),
];

/// `GET /_script_context`.
pub(crate) async fn contexts(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let list: Vec<Value> = CONTEXTS
        .iter()
        .map(|(name, answer)| json!({ "name": name, "methods": [{ "name": "execute", "return_type": answer, "params": [] }] }))
        .collect();
    Ok(Answer::ok(json!({ "contexts": list })))
}

/// `GET /_script_language`.
pub(crate) async fn languages(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let contexts: Vec<&str> = CONTEXTS.iter().map(|(name, _)| *name).collect();
    Ok(Answer::ok(json!({
        "types_allowed": ["inline", "stored"],
        "language_contexts": [{ "language": "painless", "contexts": contexts }] })))
}
