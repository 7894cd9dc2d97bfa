//! Scripts kept by name.

use crate::Rest;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{Alteration, Inspected, Inspection};
use model::{Error, Result};
use serde_json::{Value, json};

/// `PUT /_scripts/{id}`. In 2015 the first part of the path is the language.
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let mut id = call.path_part("id")?;
    let node = call.json_needed()?;
    let context = call.params.take("context").or_else(|| call.arg("context").map(str::to_owned));
    call.params.finish()?;
    if let Some(name) = context.as_deref().filter(|name| name.starts_with('_'))
        && !call.dialect.rules.has_script_languages
    {
        // An endpoint below this path, with a method that it does not have, is no name of a script.
        return Err(unknown_context(name));
    }
    let body = node.into_value();
    if call.dialect.rules.has_script_languages
        && let Some(name) = call.arg("context").map(str::to_owned)
    {
        return put_2015(call, id, name, &body).await;
    }
    let script = body.get("script").cloned().unwrap_or_else(|| body.clone());
    let (lang, source) = match &script {
        Value::String(text) => {
            let lang = id.clone();
            id = call.arg("context").unwrap_or(&id).to_owned();
            known_language(&lang)?;
            (lang, text.clone())
        }
        Value::Object(script) => {
            let field = |name: &str| script.get(name).and_then(Value::as_str).map(str::to_owned);
            let source = match script.get("source") {
                Some(Value::Object(template)) => Some(Value::Object(template.clone()).to_string()),
                _ => field("source").or_else(|| field("inline")).or_else(|| field("code")),
            };
            let lang = field("lang").unwrap_or_else(|| "painless".into());
            let source = source.ok_or_else(|| Error::illegal("must specify <source> for stored script"))?;
            let compiler = known_language(&lang)?;
            if let Some(context) = &context {
                check_in(&call.rest, context, &id, &lang, &source, compiler)?;
            }
            (lang, source)
        }
        _ => return Err(Error::illegal("unexpected token [VALUE], expected [{, <source>]")),
    };
    let body = json!({ "lang": lang, "source": source });
    call.rest.alter(Alteration::PutScript { id, body }).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// The compiler of a language; `mustache` has none.
fn known_language(name: &str) -> Result<Option<script::Lang>> {
    match name {
        "mustache" => Ok(None),
        name => script::Lang::parse(name).map(Some),
    }
}

fn unknown_context(name: &str) -> Error {
    let hint = model::nearest::question(name, CONTEXTS.iter().map(|(known, _)| *known));
    Error::illegal(format!("Unknown context [{name}]{hint}"))
}

/// A script that is put for a context must compile; without one it is compiled where it is used.
fn check_in(rest: &Rest, context: &str, id: &str, lang: &str, source: &str, compiler: Option<script::Lang>) -> Result<()> {
    if !CONTEXTS.iter().any(|(name, _)| *name == context) {
        return Err(unknown_context(context));
    }
    if let Some(compiler) = compiler {
        rest.compile_script(source, compiler).map_err(|error| {
            Error::illegal(format!("Failed to compile stored script [{id}] using lang [{lang}]")).with_cause(error)
        })?;
    }
    Ok(())
}

/// Scripts of 2015 had versions, like documents, and stood under their language.
async fn put_2015(call: Call, lang: String, id: String, body: &Value) -> Result<Answer> {
    if let Some((other, _)) = body.as_object().and_then(|members| {
        members
            .iter()
            .find(|(name, _)| !matches!(name.as_str(), "script" | "template" | "inline"))
    }) && lang != "mustache"
    {
        return Err(Error::new(
            model::ErrorKind::ScriptParse,
            format!("unexpected field [{other}]"),
        ));
    }
    let text = body
        .get("script")
        .or_else(|| body.get("template"))
        .cloned()
        .unwrap_or_else(|| body.clone());
    let source = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
    call.rest
        .compile_script(&source, script::Lang::parse(&lang)?)
        .map_err(|error| Error::illegal(format!("Unable to parse [{source}] lang [{lang}]")).with_cause(error))?;
    let before = find_script(&call, &id)
        .await?
        .and_then(|b| b["version"].as_u64())
        .unwrap_or(0);
    let body = json!({ "lang": lang, "source": source, "version": before + 1 });
    call.rest.alter(Alteration::PutScript { id: id.clone(), body }).await?;
    Ok(Answer::of(
        if before == 0 { 201 } else { 200 },
        json!({ "_id": id, "_version": before + 1, "created": before == 0 }),
    ))
}

async fn find_script(call: &Call, id: &str) -> Result<Option<Value>> {
    match call.rest.engine.inspect(Inspection::Script(id.to_owned())).await? {
        Inspected::Script(found) => Ok(found),
        _ => Ok(None),
    }
}

/// `GET /_scripts/{id}`.
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    if let Some(name) = call.arg("context").filter(|_| call.dialect.rules.has_script_languages) {
        let found = find_script(&call, name).await?.filter(|body| body["lang"] == id.as_str());
        return Ok(match found {
            Some(body) => Answer::ok(
                json!({ "lang": id, "_id": name, "found": true, "_version": body["version"].as_u64().unwrap_or(1), "script": body["source"] }),
            ),
            None => Answer::of(404, json!({ "lang": id, "_id": name, "found": false })),
        });
    }
    call.params.finish()?;
    match call.rest.engine.inspect(Inspection::Script(id.clone())).await? {
        Inspected::Script(Some(body)) => Ok(Answer::ok(json!({ "_id": id, "found": true, "script": body }))),
        _ => Ok(Answer::of(404, json!({ "_id": id, "found": false }))),
    }
}

/// `DELETE /_scripts/{id}`.
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    call.params.finish()?;
    if let Some(name) = call
        .arg("context")
        .filter(|_| call.dialect.rules.has_script_languages)
        .map(str::to_owned)
    {
        let found = find_script(&call, &name).await?.filter(|body| body["lang"] == id.as_str());
        let version = found.as_ref().map_or(1, |body| body["version"].as_u64().unwrap_or(1) + 1);
        if found.is_some() {
            call.rest.alter(Alteration::DeleteScript { id: name.clone() }).await?;
        }
        let answer = json!({ "found": found.is_some(), "_index": ".scripts", "_type": id, "_id": name, "_version": version });
        return Ok(Answer::of(if found.is_some() { 200 } else { 404 }, answer));
    }
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
#[boxed]
pub(crate) async fn contexts(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let list: Vec<Value> = CONTEXTS
        .iter()
        .map(|(name, answer)| json!({ "name": name, "methods": [{ "name": "execute", "return_type": answer, "params": [] }] }))
        .collect();
    Ok(Answer::ok(json!({ "contexts": list })))
}

/// `GET /_script_language`.
#[boxed]
pub(crate) async fn languages(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let contexts: Vec<&str> = CONTEXTS.iter().map(|(name, _)| *name).collect();
    Ok(Answer::ok(json!({
        "types_allowed": ["inline", "stored"],
        "language_contexts": [{ "language": "painless", "contexts": contexts }] })))
}
