//! Templates: read, checked and listed.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::call::Call;
use crate::query_params::split_list;
use engine::{Inspected, Inspection, TemplateKind};
use model::{Error, ErrorKind, Result, path};
use serde_json::{Map, Value, json};

/// Parts that a template of each kind may have.
pub(crate) fn parts(kind: TemplateKind) -> &'static [&'static str] {
    match kind {
        TemplateKind::Legacy => &[
            "index_patterns",
            "template",
            "order",
            "version",
            "settings",
            "mappings",
            "aliases",
        ],
        TemplateKind::Index => &[
            "index_patterns",
            "template",
            "composed_of",
            "priority",
            "version",
            "_meta",
            "data_stream",
            "allow_auto_create",
            "context",
            "ignore_missing_component_templates",
            "deprecated",
        ],
        TemplateKind::Component => &["template", "version", "_meta", "deprecated"],
    }
}

/// A template that 2015 did not take.
pub(crate) fn invalid_2015(name: &str, problem: &str) -> Error {
    Error::new(
        ErrorKind::InvalidTemplateOld,
        format!("index_template [{name}] invalid, cause [Validation Failed: 1: {problem};]"),
    )
}

/// Refuses what is no template, and brings one into the form in which it is kept: a list of patterns, aliases with
/// their routing split in two.
pub(crate) fn check(name: &str, kind: TemplateKind, body: &mut Map<String, Value>, former: bool) -> Result<()> {
    let mut known = parts(kind).to_vec();
    if former && kind == TemplateKind::Legacy {
        known.push("warmers");
        if let Some(problem) = former_name_problem(name) {
            return Err(invalid_2015(name, problem));
        }
    }
    if let Some(unknown) = body.keys().find(|key| !known.contains(&key.as_str())) {
        let hint = model::nearest::question(unknown, known.iter().copied());
        let reason = match kind {
            TemplateKind::Legacy => format!("unknown key [{unknown}] in the template {hint}"),
            _ => format!("unknown field [{unknown}]{hint}"),
        };
        return Err(Error::new(
            if kind == TemplateKind::Legacy {
                ErrorKind::Parse
            } else {
                ErrorKind::XContentParse
            },
            reason.trim_end().to_owned(),
        ));
    }
    if name.is_empty() || name.contains([' ', ',', '#', '*']) || name.starts_with('_') || name.to_lowercase() != name {
        return Err(Error::new(
            ErrorKind::InvalidIndexName,
            format!("index_template [{name}] invalid, cause [name must be lower case and have no space, comma, # or *, and not begin with _]"),
        )
        .status_of(400));
    }
    if body.contains_key("data_stream") {
        return Err(Error::illegal("[data_stream] is not supported yet"));
    }
    if kind != TemplateKind::Component {
        check_patterns(kind, body, former)?;
    } else if !body.get("template").is_some_and(Value::is_object) {
        return Err(Error::illegal("Required [template]"));
    }
    let inner = if kind == TemplateKind::Legacy {
        Some(body)
    } else {
        body.get_mut("template").and_then(Value::as_object_mut)
    };
    let aliases = inner
        .and_then(|inner| inner.get_mut("aliases"))
        .and_then(Value::as_object_mut);
    if let Some(aliases) = aliases {
        split_routings(aliases);
    }
    Ok(())
}

/// Refuses a template without patterns, and makes a list of what it has: one text, or `template` of before 6.
fn check_patterns(kind: TemplateKind, body: &mut Map<String, Value>, former: bool) -> Result<()> {
    if let Some(Value::String(one)) = body.get("index_patterns") {
        let list = json!([one]);
        body.insert("index_patterns".into(), list);
    }
    let has = |key: &str| match body.get(key) {
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        _ => false,
    };
    if has("index_patterns") {
        return Ok(());
    }
    if kind == TemplateKind::Index {
        return Err(Error::illegal(match body.contains_key("index_patterns") {
            true => "There must be at least one pattern, zero given",
            false => "Required [index_patterns]",
        }));
    }
    if !has("template") {
        let problem = if former {
            "template is missing"
        } else {
            "index patterns are missing"
        };
        let reason = format!("Validation Failed: 1: {problem};");
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    if !former {
        let one = body.remove("template").unwrap_or_default();
        body.insert("index_patterns".into(), json!([one]));
    }
    Ok(())
}

/// The rule that a template's name breaks, in the words of Elasticsearch 2.
fn former_name_problem(name: &str) -> Option<&'static str> {
    if name.contains(' ') {
        Some("name must not contain a space")
    } else if name.contains(',') {
        Some("name must not contain a ','")
    } else if name.contains('#') {
        Some("name must not contain a '#'")
    } else if name.starts_with('_') {
        Some("name must not start with '_'")
    } else if name.to_lowercase() != name {
        Some("name must be lower cased")
    } else {
        None
    }
}

/// Puts the `routing` of each alias under the two names that it stands for.
fn split_routings(aliases: &mut Map<String, Value>) {
    for options in aliases.values_mut().filter_map(Value::as_object_mut) {
        if let Some(routing) = options.remove("routing") {
            options.entry("index_routing").or_insert_with(|| routing.clone());
            options.entry("search_routing").or_insert(routing);
        }
    }
}

pub(crate) async fn list(call: &Call, kind: TemplateKind) -> Result<Vec<(String, Value)>> {
    let patterns = call.arg("name").map(split_list).unwrap_or_default();
    let mut all = list_of(call, kind).await?;
    all.retain(|(name, _)| patterns.is_empty() || patterns.iter().any(|p| path::matches(p, name)));
    Ok(all)
}

/// All templates of a kind, by name.
pub(crate) async fn list_of(call: &Call, kind: TemplateKind) -> Result<Vec<(String, Value)>> {
    match call.rest.engine.inspect(Inspection::Templates(kind)).await? {
        Inspected::Templates(all) => Ok(all),
        other => Err(Error::new(ErrorKind::Internal, format!("{other:?} does not list templates"))),
    }
}
