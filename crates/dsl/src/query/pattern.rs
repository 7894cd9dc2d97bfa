//! `prefix`, `wildcard`, `regexp`: words of a shape.

use super::{Clause, Parsing, Query, Rewrite, words};
use crate::json::Node;
use model::{Error, Result};
use serde_json::{Map, Value};

/// `prefix`, `wildcard`, `regexp`.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternQuery {
    pub field: String,
    pub value: String,
    pub case_insensitive: bool,
    pub rewrite: Option<Rewrite>,
    /// `regexp` only.
    pub flags: Option<String>,
    /// `regexp` only.
    pub max_determinized_states: u32,
}

/// The default of `max_determinized_states`.
pub(super) const STATES: u32 = 10_000;

pub(super) fn parse(name: &str, node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, name)?;
    let mut q = PatternQuery {
        field,
        value: String::new(),
        case_insensitive: false,
        rewrite: None,
        flags: None,
        max_determinized_states: STATES,
    };
    let (value, fields) = if body.is_object() {
        let mut fields = cx.options(body, name)?;
        let value = match name {
            "wildcard" => fields.take_any(&["value", "wildcard"]),
            "prefix" if cx.dialect.rules.takes_former_options => fields.take_any(&["value", "prefix"]),
            _ => fields.take("value"),
        };
        q.case_insensitive = fields.take_bool("case_insensitive")?.unwrap_or(false);
        q.rewrite = words::take_rewrite(&mut fields, "rewrite", cx.dialect)?;
        if name == "regexp" {
            q.flags = fields.take_string("flags")?;
            if let (Some(flags), false) = (&q.flags, cx.dialect.rules.tolerates_unknown_words) {
                known_flags(flags)?;
            }
            if let Some(flags) = fields.take_string("flags_value")? {
                q.flags.get_or_insert(flags);
            }
            q.max_determinized_states = fields.take_u32("max_determinized_states")?.unwrap_or(STATES);
        }
        (value, fields.with_missing(beside))
    } else {
        (Some(body), beside)
    };
    let value = value.filter(|node| !node.is_null());
    let missing = value.is_none();
    if let Some(node) = value {
        q.value = node.string(name)?;
    }
    let clause = match name {
        "prefix" => Clause::Prefix(q),
        "wildcard" => Clause::Wildcard(q),
        _ => Clause::Regexp(q),
    };
    // An unknown option is refused before a missing one.
    let query = cx.finish(fields, name, clause)?;
    if missing {
        return Err(Error::illegal("value cannot be null"));
    }
    Ok(query)
}

/// Lucene's names of the optional operators.
fn known_flags(flags: &str) -> Result<()> {
    let known = ["ALL", "NONE", "INTERSECTION", "COMPLEMENT", "EMPTY", "ANYSTRING", "INTERVAL"];
    let number = |flag: &str| flag.parse::<i32>().is_ok();
    for flag in flags.split('|').map(str::trim).filter(|flag| !flag.is_empty()) {
        if number(flag) || !known.contains(&flag.to_uppercase().as_str()) {
            return Err(Error::illegal(format!("Unknown regexp flag [{flag}]")));
        }
    }
    Ok(())
}

pub(super) fn render(q: &PatternQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("value".into(), q.value.clone().into());
    if q.case_insensitive {
        body.insert("case_insensitive".into(), true.into());
    }
    if let Some(rewrite) = q.rewrite {
        body.insert("rewrite".into(), rewrite.name().into());
    }
    if let Some(flags) = &q.flags {
        body.insert("flags".into(), flags.clone().into());
    }
    if q.max_determinized_states != STATES {
        body.insert("max_determinized_states".into(), q.max_determinized_states.into());
    }
    body
}
