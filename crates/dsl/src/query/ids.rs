//! `ids`, and the typed dialect's `type`.

use super::{Clause, Parsing, Query, match_all::as_parsing};
use crate::json::Node;
use model::{Persona, Result};
use serde_json::{Map, Value};

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let empty = node.error("[ids] query, no ids values provided");
    let rules = cx.dialect.rules;
    let mut fields = node.fields("ids")?.lenient(rules.skips_unknown_keys);
    let types = if rules.takes_former_options || cx.dialect.persona == Persona::Es7 {
        let types = fields.take_strings("types")?;
        fields.take_strings("type")?.or(types)
    } else {
        None
    };
    let values = match fields.take("values") {
        Some(node) if rules.ids_need_values && !node.is_array() => {
            return Err(node.error("[ids] query does not support [values]"));
        }
        Some(node) => Some(node.items().iter().map(|n| n.string("values")).collect::<Result<Vec<_>>>()?),
        None => None,
    };
    if rules.ids_need_values && values.is_none() {
        return Err(empty);
    }
    let clause = Clause::Ids {
        values: values.unwrap_or_default(),
        types: types.unwrap_or_default(),
    };
    let query = cx.common(&mut fields, "ids", clause)?;
    fields.finish().map_err(as_parsing)?;
    Ok(query)
}

pub(super) fn render(values: &[String], types: &[String]) -> Map<String, Value> {
    let mut body = Map::new();
    if !types.is_empty() {
        body.insert("type".into(), types.to_vec().into());
    }
    body.insert("values".into(), values.to_vec().into());
    body
}

pub(super) fn parse_type(node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error("[type] must be provided with a [value]");
    let mut fields = cx.options(node, "type")?;
    let value = fields.take_string("value")?.ok_or(missing)?;
    cx.finish(fields, "type", Clause::Type { value })
}
