//! Templates: legacy, composable, components.

use crate::call::Call;
use crate::params::split_list;
use crate::respond::Answer;
use engine::{Alteration, Inspected, Inspection, TemplateKind};
use model::{Error, ErrorKind, Result, path};
use serde_json::{Map, Value, json};

async fn put(mut call: Call, kind: TemplateKind) -> Result<Answer> {
    call.params.accept(&[
        "timeout",
        "master_timeout",
        "cluster_manager_timeout",
        "include_type_name",
        "cause",
        "flat_settings",
    ]);
    let create = call.params.flag("create")?;
    let order: Option<i64> = call.params.take_number("order")?;
    let name = call.needed("name")?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let mut body = node.into_value();
    if let (Some(order), Some(map)) = (order, body.as_object_mut()) {
        map.entry("order").or_insert_with(|| order.into());
    }
    call.rest
        .alter(Alteration::PutTemplate {
            name,
            kind,
            body,
            create,
        })
        .await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

async fn list(call: &Call, kind: TemplateKind) -> Result<Vec<(String, Value)>> {
    let patterns = call.arg("name").map(split_list).unwrap_or_default();
    match call.rest.engine.inspect(Inspection::Templates(kind)).await? {
        Inspected::Templates(all) => Ok(all
            .into_iter()
            .filter(|(name, _)| patterns.is_empty() || patterns.iter().any(|p| path::matches(p, name)))
            .collect()),
        other => Err(Error::new(ErrorKind::Internal, format!("{other:?} does not list templates"))),
    }
}

/// Name of the list, and of an entry, in the answers of the composable kinds.
fn words(kind: TemplateKind) -> (&'static str, &'static str) {
    match kind {
        TemplateKind::Component => ("component_templates", "component_template"),
        _ => ("index_templates", "index_template"),
    }
}

async fn get(mut call: Call, kind: TemplateKind) -> Result<Answer> {
    call.params.accept(&[
        "local",
        "master_timeout",
        "cluster_manager_timeout",
        "include_type_name",
        "flat_settings",
        "include_defaults",
    ]);
    call.params.finish()?;
    let found = list(&call, kind).await?;
    let exact = call.arg("name").is_some_and(|n| !n.contains('*'));
    if kind == TemplateKind::Legacy {
        let status = if found.is_empty() && exact { 404 } else { 200 };
        let out: Map<String, Value> = found
            .into_iter()
            .map(|(name, body)| (name, legacy(body, call.dialect.typed)))
            .collect();
        return Ok(Answer::of(status, Value::Object(out)));
    }
    let (plural, singular) = words(kind);
    if found.is_empty() && exact {
        let reason = format!(
            "{} matching [{}] not found",
            singular.replace('_', " template").replace(" templatetemplate", " template"),
            call.arg("name").unwrap_or_default()
        );
        return Err(Error::new(ErrorKind::ResourceNotFound, reason));
    }
    let entries: Vec<Value> = found
        .into_iter()
        .map(|(name, body)| json!({ "name": name, singular: body }))
        .collect();
    Ok(Answer::ok(json!({ plural: entries })))
}

/// A legacy template with every part it has by default.
fn legacy(body: Value, typed: bool) -> Value {
    let mut out = Map::new();
    out.insert("order".into(), body.get("order").cloned().unwrap_or(json!(0)));
    if typed {
        let pattern = body
            .get("template")
            .cloned()
            .or_else(|| body.get("index_patterns").and_then(|p| p.get(0)).cloned());
        out.insert("template".into(), pattern.unwrap_or_default());
    } else {
        if let Some(version) = body.get("version") {
            out.insert("version".into(), version.clone());
        }
        let patterns = match body.get("index_patterns").or_else(|| body.get("template")) {
            Some(Value::Array(list)) => Value::Array(list.clone()),
            Some(one) => json!([one]),
            None => json!([]),
        };
        out.insert("index_patterns".into(), patterns);
    }
    for part in ["settings", "mappings", "aliases"] {
        out.insert(part.into(), body.get(part).cloned().unwrap_or(json!({})));
    }
    Value::Object(out)
}

async fn exists(call: Call, kind: TemplateKind) -> Result<Answer> {
    let found = !list(&call, kind).await?.is_empty();
    Ok(Answer::empty(if found { 200 } else { 404 }))
}

async fn delete(mut call: Call, kind: TemplateKind) -> Result<Answer> {
    call.params.accept(&["timeout", "master_timeout", "cluster_manager_timeout"]);
    let name = call.needed("name")?;
    call.params.finish()?;
    let found = list(&call, kind).await?;
    if found.is_empty() && name != "*" {
        let missing = match kind {
            TemplateKind::Component => format!("component_template [{name}] missing"),
            _ => format!("index_template [{name}] missing"),
        };
        return Err(Error::new(ErrorKind::IndexTemplateMissing, missing));
    }
    for (name, _) in found {
        call.rest.alter(Alteration::DeleteTemplate { name, kind }).await?;
    }
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

macro_rules! of_kind {
    ($($name:ident $verb:ident $kind:ident;)*) => {
        $(/// One API of one kind of template.
        pub(crate) async fn $name(call: Call) -> Result<Answer> { $verb(call, TemplateKind::$kind).await })*
    };
}

of_kind! {
    put_legacy put Legacy;
    get_legacy get Legacy;
    exists_legacy exists Legacy;
    delete_legacy delete Legacy;
    put_index put Index;
    get_index get Index;
    exists_index exists Index;
    delete_index delete Index;
    put_component put Component;
    get_component get Component;
    exists_component exists Component;
    delete_component delete Component;
}
