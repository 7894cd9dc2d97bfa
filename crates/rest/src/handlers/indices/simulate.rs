//! The index that templates would make, without making it.

use crate::actions::template_overlap::{overlap, patterns, refuse_equals};
use crate::actions::templates::{check, list_of};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::TemplateKind;
use model::{Error, ErrorKind, Result, path};
use serde_json::{Map, Value, json};

/// The name of the request's own template.
const OWN: &str = "simulate_index_template";

/// `POST /_index_template/_simulate_index/i`: the template of that index, beside one of the request.
#[boxed]
pub(crate) async fn index(mut call: Call) -> Result<Answer> {
    let name = call.path_part("name")?;
    let own = template_of(&mut call, OWN)?;
    call.params.finish()?;
    let known = KnownTemplates::of(&call).await?;
    let mut all = known.index.clone();
    if let Some(own) = own {
        known.admits(OWN, &own)?;
        all.push((OWN.to_owned(), own));
    }
    let fitting = all.iter().filter(|(_, body)| patterns(body).any(|p| path::matches(p, &name)));
    match fitting.max_by_key(|(_, body)| body["priority"].as_i64().unwrap_or(0)) {
        Some((winner, body)) => known.answer(winner, body),
        None => Ok(Answer::ok(json!({}))),
    }
}

/// `POST /_index_template/_simulate/t`: a template that is there, or one of the request in its place.
#[boxed]
pub(crate) async fn template(mut call: Call) -> Result<Answer> {
    let name = call.arg("name").map(str::to_owned);
    let create = call.params.flag("create")?;
    let own = template_of(&mut call, name.as_deref().unwrap_or(OWN))?;
    call.params.finish()?;
    let known = KnownTemplates::of(&call).await?;
    let there = name
        .as_ref()
        .and_then(|name| known.index.iter().find(|(known, _)| known == name));
    match (own, &name, there) {
        (Some(_), Some(name), Some(_)) if create => Err(Error::illegal(format!("index template [{name}] already exists"))),
        (Some(own), name, _) => {
            let name = name.as_deref().unwrap_or(OWN);
            known.admits(name, &own)?;
            known.answer(name, &own)
        }
        (None, Some(name), Some((_, body))) => known.answer(name, body),
        (None, Some(name), None) => Err(Error::illegal(format!(
            "unable to simulate template [{name}] that does not exist"
        ))),
        (None, None, _) => Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: either index name or index template body must be specified for simulation;",
        )),
    }
}

/// The template of the request, if it has one.
fn template_of(call: &mut Call, name: &str) -> Result<Option<Value>> {
    let Some(node) = call.json()? else { return Ok(None) };
    let Value::Object(mut body) = node.into_value() else {
        return Err(Error::new(ErrorKind::Parse, "request body must be an object"));
    };
    check(name, TemplateKind::Index, &mut body, false)?;
    Ok(Some(Value::Object(body)))
}

/// The templates that are there.
struct KnownTemplates {
    index: Vec<(String, Value)>,
    components: Vec<(String, Value)>,
    legacy: Vec<(String, Value)>,
}

impl KnownTemplates {
    async fn of(call: &Call) -> Result<KnownTemplates> {
        Ok(KnownTemplates {
            index: list_of(call, TemplateKind::Index).await?,
            components: list_of(call, TemplateKind::Component).await?,
            legacy: list_of(call, TemplateKind::Legacy).await?,
        })
    }

    /// Refuses a template that could not be put.
    fn admits(&self, name: &str, body: &Value) -> Result<()> {
        let composed = || body["composed_of"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<&str> = composed()
            .filter(|one| !self.components.iter().any(|(known, _)| known == one))
            .collect();
        if !missing.is_empty() {
            let reason = format!(
                "index_template [{name}] invalid, cause [index template [{name}] specifies component templates [{}] that do not exist]",
                missing.join(", ")
            );
            return Err(Error::new(ErrorKind::InvalidTemplateOld, reason));
        }
        refuse_equals(name, body, &self.index)
    }

    /// A template with its components, and other templates that overlap it.
    fn answer(&self, name: &str, body: &Value) -> Result<Answer> {
        let mut parts: Vec<&Value> = Vec::new();
        for component in body["composed_of"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            parts.extend(
                self.components
                    .iter()
                    .find(|(known, _)| known == component)
                    .map(|(_, body)| &body["template"]),
            );
        }
        parts.push(&body["template"]);
        let (mut settings, mut aliases) = (Map::new(), Map::new());
        let mut mappings: Option<mapping::Mapping> = None;
        for part in &parts {
            settings.extend(part["settings"].as_object().map(engine::catalog::flatten).unwrap_or_default());
            aliases.extend(part["aliases"].as_object().cloned().unwrap_or_default());
        }
        let (registry, limits) = (mapping::settings::registry(&settings)?, mapping::settings::limits(&settings));
        for part in parts.iter().filter(|part| part["mappings"].is_object()) {
            let one = mapping::Mapping::parse_update(&part["mappings"], &registry, &limits)?;
            mappings = Some(match mappings {
                Some(before) => before.merge(&one)?,
                None => one,
            });
        }
        let mut template = Map::new();
        template.insert(
            "settings".into(),
            crate::render::settings::of_template(&Value::Object(settings), false),
        );
        if let Some(mappings) = mappings {
            template.insert("mappings".into(), mappings.render());
        }
        template.insert("aliases".into(), Value::Object(aliases));
        let others = self.legacy.iter().chain(self.index.iter().filter(|(known, _)| known != name));
        let overlapping: Vec<Value> = others
            .filter(|(_, other)| overlap(body, other))
            .map(|(known, other)| json!({ "name": known, "index_patterns": patterns(other).collect::<Vec<_>>() }))
            .collect();
        Ok(Answer::ok(json!({ "template": template, "overlapping": overlapping })))
    }
}
