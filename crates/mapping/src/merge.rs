//! Two mappings into one: what may be added, what may change, and the refusals of the rest.

use crate::build::build;
use crate::mapping::{Mapping, Node, ObjectNode, Root};
use crate::parameters;
use crate::wording::java;
use model::compat::IndexRules;
use model::{Error, Result};
use rustc_hash::FxHashMap;
use serde_json::Value;
use std::sync::Arc;

impl Mapping {
    /// This mapping with an update laid over it. Fields keep their order; new ones come last.
    pub fn merge(&self, update: &Mapping) -> Result<Mapping> {
        self.laid_over(update, top(&self.0.top, &update.0.top, self.0.rules())?)
    }

    /// A type's first mapping, with this one as its default: what it says itself counts.
    pub(crate) fn begin(&self, own: &Mapping) -> Result<Mapping> {
        let mut root = self.0.top.clone();
        root.extend(own.0.top.iter().map(|(key, value)| (key.clone(), value.clone())));
        self.laid_over(own, root)
    }

    /// A default that takes the place of this one; what this said of `_all` stays.
    pub(crate) fn replace(&self, by: &Mapping) -> Result<Mapping> {
        let Some(all) = self
            .0
            .top
            .get(crate::names::ALL)
            .filter(|_| !by.0.top.contains_key(crate::names::ALL))
        else {
            return Ok(by.clone());
        };
        let (own, mut top) = (&*by.0, by.0.top.clone());
        top.insert(crate::names::ALL.into(), all.clone());
        let inner = build(own.root.clone(), top, own.registry.clone(), own.limits.clone(), own.typed)?;
        Ok(Mapping(Arc::new(inner)))
    }

    /// This mapping, its fields as the first of the others that has them.
    pub(crate) fn adopting(&self, others: &[&Mapping]) -> Result<Mapping> {
        let mut root = self.0.root.clone();
        adopt(&mut root, "", others);
        let own = &*self.0;
        let inner = build(root, own.top.clone(), own.registry.clone(), own.limits.clone(), own.typed)?;
        Ok(Mapping(Arc::new(inner)))
    }

    fn laid_over(&self, update: &Mapping, root_options: Root) -> Result<Mapping> {
        let (old, new) = (&*self.0, &*update.0);
        let root = object("", &old.root, &new.root, old.rules())?;
        let inner = build(root, root_options, old.registry.clone(), old.limits.clone(), old.typed)?;
        inner.check_references()?;
        debug_assert!(
            old.leaves.iter().all(|leaf| {
                let now = inner.leaf(&leaf.path);
                now.is_some_and(|now| now.field.kind == leaf.field.kind)
            }),
            "write-path.md 3: a field keeps its place and its type as its mapping grows"
        );
        Ok(Mapping(Arc::new(inner)))
    }
}

/// The depth is the mapping's, which is limited.
fn adopt(object: &mut ObjectNode, prefix: &str, others: &[&Mapping]) {
    for (name, node) in &mut object.properties {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        match node {
            Node::Object(inner) => adopt(inner, &path, others),
            Node::Field(field) => {
                if let Some(known) = others.iter().find_map(|other| other.0.leaf(&path)) {
                    *field = known.field.clone();
                }
            }
        }
    }
}

fn top(old: &Root, new: &Root, rules: &IndexRules) -> Result<Root> {
    let mut merged = old.clone();
    for (key, value) in new {
        match (key.as_str(), old.get(key)) {
            ("_source", before) if !rules.former_merges => check_fixed(
                key,
                before,
                value,
                &[("enabled", "true"), ("includes", "[]"), ("excludes", "[]")],
            )?,
            // In 2015 only the templates and formats of dates could change.
            ("date_detection" | "numeric_detection" | "include_in_all", _) if rules.former_merges => continue,
            ("_routing", before) if !rules.former_merges => check_fixed(key, before, value, &[("required", "false")])?,
            ("_parent", Some(before)) if before != value => {
                return Err(Error::illegal("The _parent field's type option can't be changed"));
            }
            ("dynamic_templates", Some(Value::Array(before))) => {
                let mut templates = before.clone();
                let name = |template: &Value| template.as_object().and_then(|t| t.keys().next().cloned());
                for template in value.as_array().into_iter().flatten() {
                    match templates.iter_mut().find(|known| name(known) == name(template)) {
                        Some(known) => *known = template.clone(),
                        None => templates.push(template.clone()),
                    }
                }
                merged.insert(key.clone(), Value::Array(templates));
                continue;
            }
            _ => {}
        }
        merged.insert(key.clone(), value.clone());
    }
    Ok(merged)
}

fn check_fixed(section: &str, old: Option<&Value>, new: &Value, keys: &[(&str, &str)]) -> Result<()> {
    for (key, default) in keys {
        let shown = |section: Option<&Value>| section.and_then(|s| s.get(key)).map_or_else(|| (*default).to_owned(), java);
        let (before, after) = (shown(old), shown(Some(new)));
        if before != after {
            return Err(Error::illegal(format!(
                "Mapper for [{section}] conflicts with existing mapper:\n\tCannot update parameter [{key}] from [{before}] to [{after}]"
            )));
        }
    }
    Ok(())
}

pub(crate) fn node(path: &str, old: &Node, new: &Node, rules: &IndexRules) -> Result<Node> {
    match (old, new) {
        (Node::Object(old), Node::Object(new)) => object(path, old, new, rules).map(Node::Object),
        (Node::Field(old), Node::Field(new)) => {
            parameters::merge(path, old, new, rules).map(|merged| Node::Field(Arc::new(merged)))
        }
        (Node::Field(old), Node::Object(_)) if rules.mapping_refusal_words => Err(Error::illegal(format!(
            "mapper [{path}] of different type, current_type [{}], merged_type [ObjectMapper]",
            old.wire()
        ))),
        (Node::Object(_), Node::Field(_)) if rules.mapping_refusal_words => Err(Error::illegal(format!(
            "Can't merge a non object mapping [{path}] with an object mapping [{path}]"
        ))),
        (Node::Field(_), Node::Object(_)) => Err(Error::illegal(format!(
            "can't merge a non object mapping [{path}] with an object mapping"
        ))),
        (Node::Object(_), Node::Field(_)) => Err(Error::illegal(format!(
            "can't merge a non object mapping [{path}] with an object mapping"
        ))),
    }
}

/// New properties that are looked for one by one among the old; more are looked up by hash.
const WALKED_MOST: usize = 8;

fn object(path: &str, old: &ObjectNode, new: &ObjectNode, rules: &IndexRules) -> Result<ObjectNode> {
    match (old.nested, new.nested) {
        (true, false) => {
            return Err(Error::illegal(format!(
                "object mapping [{path}] can't be changed from nested to non-nested"
            )));
        }
        (false, true) => {
            return Err(Error::illegal(format!(
                "object mapping [{path}] can't be changed from non-nested to nested"
            )));
        }
        _ => {}
    }
    // 2015 passed over it.
    if !rules.former_merges && new.enabled.is_some_and(|enabled| enabled != old.enabled.unwrap_or(true)) {
        return Err(Error::illegal(format!(
            "the [enabled] parameter can't be updated for the object mapping [{}]",
            if path.is_empty() { "_doc" } else { path }
        )));
    }
    let mut merged = old.clone();
    merged.dynamic = new.dynamic.or(old.dynamic);
    merged
        .extras
        .extend(new.extras.iter().map(|(key, value)| (key.clone(), value.clone())));
    // Many are looked up by hash: a growing mapping takes as many steps as it has fields.
    let mut places: FxHashMap<&str, usize> = FxHashMap::default();
    if new.properties.len() > WALKED_MOST {
        places.extend(old.properties.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)));
    }
    for (name, update) in &new.properties {
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let place = match new.properties.len() > WALKED_MOST {
            true => places.get(name.as_str()).copied(),
            false => old.properties.iter().position(|(known, _)| known == name),
        };
        match place {
            Some(at) => {
                let known = &mut merged.properties[at].1;
                *known = node(&below, known, update, rules)?;
            }
            None => merged.properties.push((name.clone(), update.clone())),
        }
    }
    Ok(merged)
}
