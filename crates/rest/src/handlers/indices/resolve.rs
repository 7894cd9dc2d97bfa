//! `_resolve/index`: what names and patterns lead to.

use crate::call::Call;
use crate::missing_index;
use crate::query_params::split_list;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::{Persona, Result, Target, path};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// `GET /_resolve/index/i*`.
#[boxed]
pub(crate) async fn resolve(mut call: Call) -> Result<Answer> {
    let names = split_list(&call.path_part("name")?);
    let mut wanted = call.params.take_target(None, Target::of(Vec::new()))?;
    call.params.finish()?;
    let every = names.iter().any(|n| n == "_all");
    wanted.expressions.clear();
    let mut all = Target::of(Vec::new());
    (all.expand_closed, all.expand_hidden, all.forbid_closed) = (true, true, false);
    let infos = call.rest.indices(&all).await?;
    let wild = |name: &str| every || names.iter().any(|n| n.contains('*') && path::matches(n, name));
    let mut indices = Vec::new();
    let mut aliases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for info in &infos {
        let name = info.name.as_str();
        let hidden = model::settings::text(&info.settings, HIDDEN) == "true" || name.starts_with('.');
        let state = if info.open { wanted.expand_open } else { wanted.expand_closed };
        let by_wildcard = wild(name) && state && (!hidden || wanted.expand_hidden);
        if by_wildcard || names.iter().any(|n| n == name) {
            let mut attributes = vec![if info.open { "open" } else { "closed" }];
            if hidden {
                attributes.push("hidden");
            }
            let mut entry = Map::new();
            entry.insert("name".into(), name.into());
            let own: Vec<&String> = info.aliases.keys().collect();
            if !own.is_empty() {
                entry.insert("aliases".into(), json!(own));
            }
            entry.insert("attributes".into(), json!(attributes));
            indices.push(Value::Object(entry));
        }
        for alias in info.aliases.keys().filter(|a| wild(a) || names.contains(a)) {
            aliases.entry(alias).or_default().push(name);
        }
    }
    let known = |n: &&String| {
        n.contains('*') || *n == "_all" || aliases.contains_key(n.as_str()) || infos.iter().any(|i| i.name.as_str() == n.as_str())
    };
    let strict = matches!(call.dialect.persona, Persona::Es8 | Persona::Es9) && !wanted.ignore_unavailable;
    if let Some(missing) = names.iter().find(|n| !known(n)).filter(|_| strict) {
        return Err(missing_index(missing));
    }
    if indices.is_empty() && aliases.is_empty() && !wanted.allow_no_indices {
        return Err(missing_index(&names.join(",")));
    }
    let aliases: Vec<Value> = aliases
        .into_iter()
        .map(|(name, indices)| json!({ "name": name, "indices": indices }))
        .collect();
    Ok(Answer::ok(
        json!({ "indices": indices, "aliases": aliases, "data_streams": [] }),
    ))
}

const HIDDEN: model::settings::Setting = model::settings::Setting {
    name: "index.hidden",
    default: "false",
    scope: model::settings::Scope::IndexDynamic,
    about: "Wildcards pass it by.",
};
