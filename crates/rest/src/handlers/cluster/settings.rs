//! `_cluster/settings`: what is set while the server runs, for as long as it does or for good.

use crate::call::Call;
use crate::render::cluster_settings::shape;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{Alteration, Inspected, Inspection};
use model::accepted_settings;
use model::settings::{ALL, Scope, Setting, find};
use model::watermarks::{self, Watermarks};
use model::{Error, ErrorKind, Result, nearest};
use serde_json::{Map, Value, json};

/// `GET /_cluster/settings`.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    // 2015 had no place for them.
    let defaults = call.params.flag("include_defaults")? && !call.dialect.rules.former_cluster_answers;
    call.params.finish()?;
    let (persistent, transient) = current(&call).await?;
    let mut out = json!({ "persistent": shape(persistent, flat), "transient": shape(transient, flat) });
    if defaults {
        let (given, reach) = (&call.rest.cluster_defaults, call.rest.reach);
        let value = |s: &Setting| given.get(s.name).cloned().unwrap_or_else(|| reach.default_of(*s).into());
        let rows = ALL
            .iter()
            .filter(|s| s.scope == Scope::Cluster)
            .map(|s| (s.name.to_owned(), value(s)))
            .collect();
        out["defaults"] = shape(rows, flat);
    }
    Ok(Answer::ok(out))
}

async fn current(call: &Call) -> Result<(Map<String, Value>, Map<String, Value>)> {
    match call.rest.engine.inspect(Inspection::ClusterSettings).await? {
        Inspected::ClusterSettings { persistent, transient } => Ok((persistent, transient)),
        other => Err(Error::new(ErrorKind::Internal, format!("{other:?} does not tell settings"))),
    }
}

/// `PUT /_cluster/settings`.
#[boxed]
pub(crate) async fn put(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    let node = match call.json_needed() {
        Err(error) if call.dialect.rules.fails_to_derive_content => {
            return Err(match error.kind() {
                ErrorKind::Parse => crate::es2_errors::underivable(),
                _ => crate::es2_errors::unread(error, &call.body),
            });
        }
        node => node?,
    };
    call.params.finish()?;
    let Value::Object(mut body) = node.into_value() else {
        return Err(Error::new(ErrorKind::Parse, "request body must be an object"));
    };
    let mut part = |name: &str| -> Result<Map<String, Value>> {
        match body.remove(name) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(flatten(map)),
            Some(_) => Err(Error::new(ErrorKind::Parse, format!("[{name}] must be an object"))),
        }
    };
    let (mut persistent, mut transient) = (part("persistent")?, part("transient")?);
    if let Some(other) = body.keys().next() {
        if call.dialect.rules.validates_missing_parts {
            return Err(Error::new(
                ErrorKind::ActionRequestValidation,
                "Validation Failed: 1: no settings to update;",
            ));
        }
        return Err(Error::illegal(format!(
            "unknown key [{other}] in cluster settings: use persistent or transient"
        )));
    }
    if persistent.is_empty() && transient.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no settings to update;",
        ));
    }
    for (kind, map) in [("persistent", &mut persistent), ("transient", &mut transient)] {
        let unknown: Vec<String> = map.keys().filter(|n| !is_known(n)).cloned().collect();
        for name in unknown {
            if !call.dialect.rules.skips_unknown_settings {
                let near = nearest::hint(&name, ALL.iter().map(|s| s.name));
                return Err(Error::illegal(format!("{kind} setting [{name}], not recognized{near}")));
            }
            map.remove(&name);
        }
    }
    check_watermarks(&call, &persistent, &transient).await?;
    let answered = (strings(&persistent), strings(&transient));
    call.rest.alter(Alteration::ClusterSettings { persistent, transient }).await?;
    Ok(Answer::ok(
        json!({ "acknowledged": true, "persistent": shape(answered.0, flat), "transient": shape(answered.1, flat) }),
    ))
}

/// Watermarks of the disk go together: those that would hold afterwards are checked.
async fn check_watermarks(call: &Call, persistent: &Map<String, Value>, transient: &Map<String, Value>) -> Result<()> {
    let about = |name: &String| watermarks::SETTINGS.iter().any(|s| s.name == name) || name.contains('*');
    if !persistent.keys().chain(transient.keys()).any(about) {
        return Ok(());
    }
    let (mut below, mut above) = current(call).await?;
    for (map, changes) in [(&mut below, persistent), (&mut above, transient)] {
        for (name, value) in changes {
            match value {
                Value::Null => map.retain(|key, _| !model::path::matches(name, key)),
                value => drop(map.insert(name.clone(), value.clone())),
            }
        }
    }
    Watermarks::of(&call.rest.over_defaults(below, above), call.rest.reach).map(drop)
}

/// Settings of ours, and families that real clusters have and that change nothing here.
fn is_known(name: &str) -> bool {
    find(name).is_some_and(|s| s.scope == Scope::Cluster)
        || accepted_settings::find(name).is_some_and(|row| row.scope == Scope::Cluster)
        || name.contains('*')
}

fn strings(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(_, v)| !v.is_null())
        .map(|(k, v)| (k.clone(), if v.is_string() { v.clone() } else { v.to_string().into() }))
        .collect()
}

/// Nested names as dotted ones. The depth is the reader's.
fn flatten(map: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    let mut open: Vec<(String, Value)> = map.into_iter().collect();
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(inner) => open.extend(inner.into_iter().map(|(k, v)| (format!("{name}.{k}"), v))),
            value => {
                out.insert(name, value);
            }
        }
    }
    out
}
