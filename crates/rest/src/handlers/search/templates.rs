//! Searches whose body is a template: by the template itself, or by the name it is kept under.
//!
//! Templates are kept among the scripts, under `mustache#NAME`. Not here: rendering, which is `dsl::template`'s.

use crate::actions::search::{body_from, many, run_body};
use crate::call::Call;
use crate::es2_errors;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::json::Node;
use dsl::search::SearchRequest;
use engine::{Alteration, Inspected, Inspection};
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// A template and its parameters, as a request names them.
struct TemplateRequest {
    text: Option<String>,
    id: Option<String>,
    params: Map<String, Value>,
}

/// JSON as the text of a template.
fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Reads what a request asks for, by its body and by the name in its URL.
fn parse_request(body: Option<Node>, id: Option<&str>, dialect: Dialect) -> Result<TemplateRequest> {
    let body = body.map_or_else(|| json!({}), Node::into_value);
    let Value::Object(mut body) = body else {
        return Err(Error::new(ErrorKind::Parse, "request body must be an object"));
    };
    let mut out = TemplateRequest {
        text: None,
        id: id.map(str::to_owned),
        params: Map::new(),
    };
    let mut given = body
        .remove("template")
        .or_else(|| body.remove("inline"))
        .or_else(|| body.remove("source"));
    // `{"template": {"id": …}}` of 2015 names one, `{"template": {"inline": …}}` is one.
    if let Some(Value::Object(inner)) = &mut given {
        let known = ["id", "file", "inline", "params"];
        if !inner.is_empty() && inner.keys().all(|k| known.contains(&k.as_str())) {
            let mut inner = std::mem::take(inner);
            if let Some(Value::Object(params)) = inner.remove("params") {
                out.params = params;
            }
            given = inner.remove("inline");
            body.extend(inner);
        }
    }
    if let Some(file) = body.remove("file") {
        return Err(no_file(&text_of(file)));
    }
    match body.remove("params") {
        Some(Value::Object(params)) => out.params = params,
        None | Some(Value::Null) => {}
        Some(_) => return Err(Error::illegal("[params] must be an object")),
    }
    out.id = body.remove("id").map(text_of).or(out.id);
    out.text = given.map(text_of);
    for name in ["explain", "profile"] {
        body.remove(name);
    }
    if let Some(name) = body.keys().next()
        && !dialect.rules.skips_unknown_keys
    {
        return Err(Error::illegal(format!("[search_template] unknown field [{name}]")));
    }
    Ok(out)
}

fn no_file(name: &str) -> Error {
    Error::illegal(format!("Unable to find on disk file script [{name}] using lang [mustache]"))
}

fn key(id: &str) -> String {
    format!("mustache#{id}")
}

async fn find_template(call: &Call, id: &str) -> Result<Option<Value>> {
    for name in [key(id), id.to_owned()] {
        if let Inspected::Script(Some(body)) = call.rest.engine.inspect(Inspection::Script(name)).await?
            && body["lang"] == "mustache"
        {
            return Ok(Some(body));
        }
    }
    Ok(None)
}

/// The text that a template comes to.
async fn render_text(call: &mut Call) -> Result<String> {
    // The parameters are those of the search that it becomes.
    call.params.set_api("search");
    let body = call.json()?;
    text_for(call, parse_request(body, call.arg("id"), call.dialect)?).await
}

/// The text that what was asked for comes to.
async fn text_for(call: &Call, asked: TemplateRequest) -> Result<String> {
    let text = match (asked.text, &asked.id) {
        (Some(text), _) if call.dialect.rules.takes_former_options && !text.contains('{') => return Err(no_file(&text)),
        (Some(text), _) => text,
        (None, Some(id)) => match find_template(call, id).await? {
            Some(body) => body["source"].as_str().unwrap_or_default().to_owned(),
            None => {
                return Err(Error::new(
                    ErrorKind::ScriptMissing,
                    format!("unable to find script [{id}] in cluster state"),
                ));
            }
        },
        (None, None) if call.dialect.rules.script_parse_exceptions => {
            let sentence = "expected one of [inline], [file] or [id] fields, but found none";
            return Err(Error::new(ErrorKind::ScriptParse, sentence));
        }
        (None, None) => {
            return Err(Error::new(
                ErrorKind::ActionRequestValidation,
                "Validation Failed: 1: template is missing;",
            ));
        }
    };
    dsl::template::render(&text, &asked.params)
}

/// `_render/template`.
#[boxed]
pub(crate) async fn render(mut call: Call) -> Result<Answer> {
    let text = render_text(&mut call).await?;
    call.params.finish()?;
    let output = dsl::json::read(text.as_bytes(), call.reading())?.into_value();
    Ok(Answer::ok(json!({ "template_output": output })))
}

/// `_search/template`.
#[boxed]
pub(crate) async fn search(mut call: Call) -> Result<Answer> {
    let text = match render_text(&mut call).await {
        Err(error) if call.dialect.rules.shards_parse_bodies => return Err(es2_errors::at_shards(error, None, "_all")),
        other => other?,
    };
    let request = body_from(&call, text.as_bytes())?;
    run_body(call, Box::new(request)).await
}

/// `_msearch/template`: each line a template; one that comes to nothing fails alone.
#[boxed]
pub(crate) async fn msearch(call: Call) -> Result<Answer> {
    many(call, async |call, content| {
        let mut out = Vec::new();
        for (mut item, body) in dsl::document::split_msearch(content, call.dialect)? {
            out.push(search_of_line(call, body).await.map(|request| {
                item.request = request;
                item
            }));
        }
        Ok(out)
    })
    .await
}

/// The search that one line comes to.
async fn search_of_line(call: &Call, line: &[u8]) -> Result<SearchRequest> {
    let body = dsl::json::read(line, call.reading())?;
    let text = text_for(call, parse_request(Some(body), None, call.dialect)?).await?;
    SearchRequest::read(text.as_bytes(), call.reading(), call.dialect)
}

/// `PUT /_search/template/{id}` of 2015.
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    call.params.set_api("put_script");
    let node = call.json_needed()?;
    call.params.finish()?;
    let body = node.into_value();
    let text = match body.get("template").or_else(|| body.get("script")) {
        Some(template) => text_of(template.clone()),
        None => text_of(body),
    };
    if let Err(error) = dsl::template::render(&text, &Map::new()) {
        let reason = format!("Unable to parse [{text}] lang [mustache] : {}", error.reason());
        return Err(Error::illegal(reason).with_cause(error));
    }
    if text.contains("{{}}") {
        let reason = format!("Unable to parse [{text}] lang [mustache] : an empty name");
        return Err(Error::illegal(reason));
    }
    let before = find_template(&call, &id)
        .await?
        .and_then(|b| b["version"].as_u64())
        .unwrap_or(0);
    let body = json!({ "lang": "mustache", "source": text, "version": before + 1 });
    call.rest.alter(Alteration::PutScript { id: key(&id), body }).await?;
    let status = if before == 0 { 201 } else { 200 };
    Ok(Answer::of(
        status,
        json!({ "_id": id, "_version": before + 1, "created": before == 0 }),
    ))
}

/// `GET /_search/template/{id}` of 2015.
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    call.params.finish()?;
    Ok(match find_template(&call, &id).await? {
        Some(body) => Answer::ok(
            json!({ "lang": "mustache", "_id": id, "found": true, "_version": body["version"].as_u64().unwrap_or(1), "template": body["source"] }),
        ),
        None => Answer::of(404, json!({ "lang": "mustache", "_id": id, "found": false })),
    })
}

/// `DELETE /_search/template/{id}` of 2015.
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    call.params.finish()?;
    let Some(body) = find_template(&call, &id).await? else {
        return Ok(Answer::of(
            404,
            json!({ "found": false, "_index": ".scripts", "_type": "mustache", "_id": id, "_version": 1 }),
        ));
    };
    call.rest.alter(Alteration::DeleteScript { id: key(&id) }).await?;
    let version = body["version"].as_u64().unwrap_or(1) + 1;
    Ok(Answer::ok(
        json!({ "found": true, "_index": ".scripts", "_type": "mustache", "_id": id, "_version": version }),
    ))
}
