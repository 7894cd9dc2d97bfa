//! Warmers of 2015: searches that an index keeps by name, listed, and taken away again.
//!
//! They are kept in a setting of the index. A warmer runs once, when it is put, which shows that it can run and loads
//! what it reads; segments of ours are made ready before anybody searches them, so nothing runs it after a refresh.
//! Not here: features of an index by list (`apis`).

use crate::call::Call;
use crate::es2_errors;
use crate::query_params::split_list;
use crate::render::warmers::of_index;
use crate::respond::Answer;
use crate::targets::administration::admin_target;
use async_recursion::async_recursion as boxed;
use dsl::search::SearchRequest;
use engine::{Alteration, IndexInfo};
use model::settings::WARMERS;
use model::{Error, ErrorKind, Result, Target, path};
use serde_json::{Map, Value, json};

async fn keep(call: &Call, info: &IndexInfo, warmers: Map<String, Value>) -> Result<()> {
    let value = if warmers.is_empty() {
        Value::Null
    } else {
        Value::Object(warmers).to_string().into()
    };
    let alteration = Alteration::PutSettings {
        target: Target::index(info.name.as_str()),
        settings: Map::from_iter([(WARMERS.name.to_owned(), value)]),
        preserve_existing: false,
    };
    call.rest.alter(alteration).await.map(drop)
}

/// `PUT /i/_warmer/w`.
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    let target = call.target()?;
    let content = call.content()?;
    call.params.finish()?;
    let index = target.expressions.first().map_or("_all", String::as_str).to_owned();
    let mut source = json!({});
    if !content.iter().all(u8::is_ascii_whitespace) {
        let read = dsl::json::read(&content, call.reading()).and_then(|node| {
            source = node.clone().into_value();
            SearchRequest::parse(node, call.dialect)
        });
        let mut request = match read {
            Err(error) if call.dialect.rules.shards_parse_bodies => {
                return Err(es2_errors::at_shards(error, Some(&content), &index));
            }
            other => other?,
        };
        request.types = target.types.clone();
        crate::actions::search::run_search(&call, &target, request).await?;
    }
    for info in call.rest.indices(&target).await? {
        let mut warmers = of_index(&info);
        warmers.insert(name.clone(), json!({ "types": target.types, "source": source }));
        keep(&call, &info, warmers).await?;
    }
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// Does a list of names or patterns name it? No list names all.
fn is_named(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|wanted| wanted == "_all" || path::matches(wanted, name))
}

/// `GET /i/_warmer/w`.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let names = call.arg("name").map(split_list).unwrap_or_default();
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    let mut out = Map::new();
    for info in call.rest.indices(&target).await? {
        let fits = |warmer: &Value| {
            let own = warmer["types"].as_array().map_or(&[][..], Vec::as_slice);
            let any = |wanted: &String| own.iter().any(|t| t.as_str().is_some_and(|t| path::matches(wanted, t)));
            own.is_empty() || target.types.is_empty() || target.types.iter().any(any)
        };
        let warmers: Map<String, Value> = of_index(&info)
            .into_iter()
            .filter(|(name, warmer)| is_named(&names, name) && fits(warmer))
            .collect();
        if !warmers.is_empty() || names.is_empty() {
            out.insert(info.name.to_string(), json!({ "warmers": warmers }));
        }
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `DELETE /i/_warmer/w`.
#[boxed]
pub(crate) async fn delete(mut call: Call) -> Result<Answer> {
    let mut names = call.arg("name").map(split_list).unwrap_or_default();
    names.extend(call.params.take_list("name").unwrap_or_default());
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    if names.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: warmer names are missing;",
        ));
    }
    let mut any = false;
    for info in call.rest.indices(&target).await? {
        let mut warmers = of_index(&info);
        let before = warmers.len();
        warmers.retain(|name, _| !is_named(&names, name));
        if warmers.len() < before {
            any = true;
            keep(&call, &info, warmers).await?;
        }
    }
    if !any {
        let reason = format!("index_warmer [{}] missing", names.join(", "));
        return Err(Error::new(ErrorKind::WarmerMissing, reason));
    }
    Ok(Answer::ok(json!({ "acknowledged": true })))
}
