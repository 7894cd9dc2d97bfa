//! The body of `_aliases`.

use crate::json::{Json, Node, unsupported_value};
use crate::shape;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::Value;

/// `_aliases`: actions in their order.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct AliasActions(pub Vec<AliasAction>);

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AliasVerb {
    #[default]
    Add,
    Remove,
    RemoveIndex,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct AliasAction {
    pub verb: AliasVerb,
    pub indices: Vec<String>,
    pub aliases: Vec<String>,
    pub filter: Option<Value>,
    pub index_routing: Option<String>,
    pub search_routing: Option<String>,
    pub is_write_index: Option<bool>,
    pub is_hidden: Option<bool>,
    pub must_exist: Option<bool>,
}

/// The options of an alias.
pub const ALIAS_OPTIONS: [&str; 6] = [
    "filter",
    "routing",
    "index_routing",
    "search_routing",
    "is_write_index",
    "is_hidden",
];
/// The indices and aliases of an action.
const NAMES: [&str; 4] = ["index", "indices", "alias", "aliases"];

impl AliasActions {
    /// Reads the body.
    ///
    /// # Errors
    /// An action or an option that does not exist; no index, no alias.
    pub fn parse(node: Node, dialect: Dialect) -> Result<AliasActions> {
        let mut fields = node.fields("aliases")?;
        let Some(list) = fields.take("actions") else {
            if !dialect.rules.validates_missing_parts {
                fields.finish()?;
                return Err(Error::illegal("No action specified"));
            }
            return Err(shape::validation_failed(&[
                "Must specify at least one alias action".to_owned()
            ]));
        };
        fields.finish()?;
        let at = (list.line, list.col);
        let failed = |cause: Error| match dialect.rules.refusals_are_unwrapped {
            true => cause,
            false => shape::failed_field("aliases", "actions", at, cause),
        };
        if list.is_object() && !dialect.rules.tolerates_value_types {
            return Err(failed(Error::illegal("[actions] must be a list")));
        }
        let mut actions = Vec::new();
        for item in list.items() {
            let members = shape::object(item, "alias_action").map_err(failed)?;
            if let (Some((name, second)), false) = (members.get(1), dialect.rules.tolerates_conflicting_options) {
                let cause = Error::illegal("too many operations declared in an alias action");
                let place = (second.line, second.col);
                return Err(failed(shape::failed_field("alias_action", name, place, cause)));
            }
            if members.is_empty() && !dialect.rules.tolerates_missing_options {
                return Err(failed(Error::illegal("an alias action adds or removes something")));
            }
            for (name, body) in members {
                let verb = match name.as_str() {
                    "add" => AliasVerb::Add,
                    "remove" => AliasVerb::Remove,
                    "remove_index" => AliasVerb::RemoveIndex,
                    _ => {
                        let cause = shape::unknown_field("alias_action", &name, &body, &["add", "remove", "remove_index"]);
                        return Err(shape::failed_field("aliases", "actions", at, cause));
                    }
                };
                let place = (body.line, body.col);
                let within = |cause: Error| match dialect.rules.refusals_are_unwrapped || cause.kind() == ErrorKind::JsonParse {
                    true => cause,
                    false => failed(shape::failed_field("alias_action", &name, place, cause)),
                };
                actions.push(AliasAction::parse(verb, body, &name, dialect).map_err(within)?);
            }
        }
        if actions.is_empty() && !dialect.rules.tolerates_missing_options {
            return Err(Error::illegal("No action specified"));
        }
        Ok(AliasActions(actions))
    }
}

impl AliasAction {
    fn parse(verb: AliasVerb, body: Node, owner: &str, dialect: Dialect) -> Result<AliasAction> {
        if let (Json::Object(members), false) = (&body.value, dialect.rules.skips_unknown_keys) {
            check_members(verb, members, owner)?;
        }
        let mut fields = body.fields(owner)?;
        let mut both = |one: &'static str, many: &'static str| -> Result<Vec<String>> {
            let (single, several) = (fields.take_strings(one)?, fields.take_strings(many)?);
            if several.as_ref().is_some_and(Vec::is_empty) {
                return Err(Error::illegal(format!("[{many}] can't be empty")));
            }
            Ok(single.or(several).unwrap_or_default())
        };
        let (indices, aliases) = (both("index", "indices")?, both("alias", "aliases")?);
        let routing = fields.take_string("routing")?;
        let out = AliasAction {
            verb,
            indices,
            aliases,
            // Today one without a clause is none.
            filter: fields.take_value("filter").filter(|filter| {
                !filter.is_null() && (dialect.rules.allows_empty_clauses || filter.as_object().is_none_or(|it| !it.is_empty()))
            }),
            index_routing: fields.take_string("index_routing")?.or_else(|| routing.clone()),
            search_routing: fields.take_string("search_routing")?.or(routing),
            is_write_index: fields.take_bool("is_write_index")?,
            is_hidden: fields.take_bool("is_hidden")?,
            must_exist: fields.take_bool("must_exist")?,
        };
        fields.finish()?;
        if out.indices.is_empty() {
            return Err(Error::illegal("One of [index] or [indices] is required"));
        }
        if out.aliases.is_empty() && verb != AliasVerb::RemoveIndex {
            return Err(Error::illegal("One of [alias] or [aliases] is required"));
        }
        Ok(out)
    }
}

/// The kind of value that an option of an action has.
fn check_members(verb: AliasVerb, members: &[(String, Node)], owner: &str) -> Result<()> {
    let known = match verb {
        AliasVerb::Add => [&NAMES[..], &ALIAS_OPTIONS].concat(),
        AliasVerb::Remove => [&NAMES[..], &["must_exist"]].concat(),
        AliasVerb::RemoveIndex => NAMES[..2].to_vec(),
    };
    for (key, value) in members {
        let failed = |cause: Error| shape::failed_field(owner, key, (value.line, value.col), cause);
        let empty = |what: &str| Err(failed(Error::illegal(format!("[{key}] can't be empty{what}"))));
        match (key.as_str(), &value.value) {
            (key, _) if !known.contains(&key) => return Err(shape::unknown_field(owner, key, value, &known)),
            // One is a text; several have a name of their own.
            ("index" | "alias", Json::String(text)) if text.is_empty() => return empty(" string"),
            ("index" | "alias", Json::String(_)) => {}
            ("indices" | "aliases", Json::Array(list)) if list.is_empty() => return empty(""),
            ("index" | "alias", _) => return Err(unsupported_value(owner, key, value)),
            ("filter", Json::Object(_)) => {}
            ("filter", _) | (_, Json::Null) => return Err(unsupported_value(owner, key, value)),
            ("is_write_index" | "is_hidden" | "must_exist", _) => drop(value.boolean(key).map_err(failed)?),
            _ => {}
        }
    }
    for (one, many) in [("index", "indices"), ("alias", "aliases")] {
        let given = |name: &str| members.iter().find(|(key, _)| key == name);
        if let (Some(_), Some((_, second))) = (given(one), given(many)) {
            let cause = Error::illegal(format!("Only one of [{one}] and [{many}] is supported"));
            return Err(shape::failed_field(owner, many, (second.line, second.col), cause));
        }
    }
    Ok(())
}
