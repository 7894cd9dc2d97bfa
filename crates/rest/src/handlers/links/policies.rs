//! `_link/policy`: putting, listing and deleting policies.
//!
//! Not here: their work and its figures (`upkeep`), what they do to writes (`relations::links`).

use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::Result;
use relations::links::Policy;
use serde_json::{Value, json};

/// `PUT /_link/policy/{name}`
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    let body = call.json_needed()?;
    call.params.finish()?;
    let is_new = call.rest.relations.put_link_policy(&name, body).await?;
    let answer = json!({ "acknowledged": true, "name": name });
    Ok(Answer::of(if is_new { 201 } else { 200 }, answer))
}

/// `GET /_link/policy`, `GET /_link/policy/{name}`
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let policies = match call.arg("name") {
        Some(name) => vec![call.rest.relations.link_policy(name)?],
        None => call.rest.relations.link_policies(),
    };
    let all: Vec<Value> = policies.iter().map(|policy| render(policy)).collect();
    Ok(Answer::ok(json!({ "policies": all })))
}

/// `DELETE /_link/policy/{name}`
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    call.params.finish()?;
    call.rest.relations.delete_link_policy(&name).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

fn render(policy: &Policy) -> Value {
    let mut out = json!({ "name": policy.name });
    if let (Some(out), Some(body)) = (out.as_object_mut(), policy.render().as_object()) {
        out.extend(body.clone());
    }
    out
}
