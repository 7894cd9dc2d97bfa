//! Templates: legacy, composable, components.

use crate::actions::templates::{check, invalid_2015, list, list_of};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{Alteration, TemplateKind};
use model::{Error, ErrorKind, Result, Topic};
use serde_json::{Map, Value, json};

async fn put(mut call: Call, kind: TemplateKind) -> Result<Answer> {
    let create = call.params.flag("create")?;
    let order: Option<i64> = if kind == TemplateKind::Legacy {
        call.params.take_number("order")?
    } else {
        None
    };
    let name = call.path_part("name")?;
    let former = call.dialect.rules.has_former_templates && kind == TemplateKind::Legacy;
    let node = match call.json_needed() {
        Err(error) if former => {
            return Err(match error.kind() {
                ErrorKind::JsonEof | ErrorKind::JsonParse => Error::illegal("failed to parse template source"),
                ErrorKind::Parse => crate::es2_errors::underivable(),
                _ => error,
            });
        }
        node if kind == TemplateKind::Legacy => node.map_err(crate::render::indices::no_map)?,
        node => node?,
    };
    call.params.finish()?;
    let Value::Object(mut body) = node.into_value() else {
        return Err(Error::new(ErrorKind::Parse, "request body must be an object"));
    };
    if let Some(order) = order {
        body.entry("order").or_insert_with(|| order.into());
    }
    check(&name, kind, &mut body, call.dialect.rules.has_former_templates)?;
    if former {
        check_2015(&name, &body)?;
        if let Some(warmers) = body.get_mut("warmers") {
            *warmers = Value::Object(crate::render::warmers::check(warmers)?);
        }
    }
    let body = Value::Object(body);
    if kind == TemplateKind::Index {
        crate::actions::template_overlap::refuse_equals(&name, &body, &list_of(&call, kind).await?)?;
    }
    let shown = name.clone();
    call.rest
        .alter(Alteration::PutTemplate {
            name,
            kind,
            body,
            create,
        })
        .await
        .map_err(|error| match error.topic() {
            Some(Topic::TemplateExists) if former => Error::new(
                ErrorKind::TemplateAlreadyExists,
                format!("index_template [{}] already exists", shown.as_str()),
            ),
            _ => error,
        })?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// Checks mappings and numbers of shards when a template is put, as Elasticsearch 2 does.
fn check_2015(name: &str, body: &Map<String, Value>) -> Result<()> {
    if body.get("template").is_none() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: template is missing;",
        ));
    }
    if let Some(Value::String(order)) = body.get("order")
        && order.parse::<i64>().is_err()
    {
        return Err(Error::no_number(order));
    }
    let settings = body.get("settings").cloned().unwrap_or_else(|| json!({}));
    let flat = crate::render::settings::of_template(&settings, true);
    for key in ["index.number_of_shards", "index.number_of_replicas"] {
        if let Some(text) = flat.get(key).and_then(Value::as_str)
            && text.parse::<i64>().is_err()
        {
            let reason = format!("Failed to parse int setting [{key}] with value [{text}]");
            return Err(Error::new(ErrorKind::SettingsOld, reason));
        }
    }
    let number = |key: &str| {
        let value = flat.get(key).or_else(|| flat.get(key.trim_start_matches("index.")))?;
        value.as_str().map_or_else(|| value.as_i64(), |text| text.parse().ok())
    };
    if number("index.number_of_shards").is_some_and(|n| n < 1) {
        return Err(invalid_2015(name, "index must have 1 or more primary shards"));
    }
    if number("index.number_of_replicas").is_some_and(|n| n < 0) {
        return Err(invalid_2015(name, "index must have 0 or more replica shards"));
    }
    let nested = settings.pointer("/index/analysis").or_else(|| settings.get("analysis"));
    let spelled = flat
        .as_object()
        .is_some_and(|f| f.keys().any(|key| key.contains("analysis.")));
    let registry = match nested {
        Some(analysis) => mapping::Registry::from_settings(analysis).ok(),
        // Names with points are put together when an index is made, and are checked then.
        None if spelled => None,
        None => Some(mapping::Registry::default_registry()),
    };
    if let (Some(mappings), Some(registry)) = (body.get("mappings"), registry) {
        mapping::TypedMappings::parse(mappings, &registry, &mapping::MappingLimits::default())?;
    }
    Ok(())
}

/// Name of the list, and of an entry, in the answers of the composable kinds.
fn words(kind: TemplateKind) -> (&'static str, &'static str) {
    match kind {
        TemplateKind::Component => ("component_templates", "component_template"),
        _ => ("index_templates", "index_template"),
    }
}

async fn get(mut call: Call, kind: TemplateKind) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    let include_type_name = match kind {
        TemplateKind::Legacy => call.params.take_bool("include_type_name")?,
        _ => None,
    };
    call.params.finish()?;
    let found = list(&call, kind).await?;
    let exact = call.arg("name").is_some_and(|n| !n.contains('*'));
    if kind == TemplateKind::Legacy {
        let status = if found.is_empty() && exact { 404 } else { 200 };
        let out: Map<String, Value> = found
            .into_iter()
            .map(|(name, body)| {
                (
                    name,
                    legacy(body, call.dialect.rules.has_former_templates, flat, include_type_name),
                )
            })
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
        .map(|(name, mut body)| {
            if let Some(settings) = body.pointer_mut("/template/settings") {
                *settings = crate::render::settings::of_template(settings, flat);
            }
            if kind == TemplateKind::Index && body.get("composed_of").is_none() {
                body["composed_of"] = json!([]);
            }
            json!({ "name": name, singular: body })
        })
        .collect();
    Ok(Answer::ok(json!({ plural: entries })))
}

/// A legacy template with every part it has by default.
fn legacy(body: Value, former: bool, flat: bool, include_type_name: Option<bool>) -> Value {
    let mut out = Map::new();
    out.insert("order".into(), body.get("order").cloned().unwrap_or(json!(0)));
    if former {
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
    let part = |name: &str| body.get(name).cloned().unwrap_or(json!({}));
    out.insert(
        "settings".into(),
        crate::render::settings::of_template(&part("settings"), flat),
    );
    out.insert(
        "mappings".into(),
        crate::render::indices::type_level(part("mappings"), include_type_name),
    );
    if let Some(warmers) = body.get("warmers").filter(|_| former) {
        out.insert("warmers".into(), warmers.clone());
    }
    out.insert("aliases".into(), part("aliases"));
    Value::Object(out)
}

async fn exists(call: Call, kind: TemplateKind) -> Result<Answer> {
    let found = !list(&call, kind).await?.is_empty();
    Ok(Answer::empty(if found { 200 } else { 404 }))
}

async fn delete(call: Call, kind: TemplateKind) -> Result<Answer> {
    let name = call.path_part("name")?;
    call.params.finish()?;
    let several = name.contains(',') && call.dialect.rules.has_former_templates;
    let found = if several { Vec::new() } else { list(&call, kind).await? };
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
        #[boxed]
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
