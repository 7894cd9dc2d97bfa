//! `fuzzy`: words a few edits away.

use super::{Clause, Parsing, Query, Rewrite, parse::take_fuzziness, words};
use crate::json::Node;
use model::{Error, Result};
use serde_json::{Map, Value};

/// `fuzziness`: a number of edits or AUTO with its two lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fuzziness {
    Edits(u8),
    Auto { low: u32, high: u32 },
}

#[derive(Clone, Debug, PartialEq)]
pub struct FuzzyQuery {
    pub field: String,
    pub value: Value,
    pub fuzziness: Fuzziness,
    pub prefix_length: u32,
    pub max_expansions: u32,
    pub transpositions: bool,
    pub rewrite: Option<Rewrite>,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, "fuzzy")?;
    if body.is_array() {
        return Err(body.error("[fuzzy] query does not support array of values"));
    }
    let mut q = FuzzyQuery {
        field,
        value: Value::Null,
        fuzziness: Fuzziness::AUTO,
        prefix_length: 0,
        max_expansions: 50,
        transpositions: true,
        rewrite: None,
    };
    let fields = if body.is_object() {
        let mut fields = cx.options(body, "fuzzy")?;
        q.value = fields.take_any(&["value", "term"]).map_or(Value::Null, Node::into_value);
        q.fuzziness = take_fuzziness(&mut fields)?.unwrap_or(Fuzziness::AUTO);
        if cx.dialect.rules.takes_former_options
            && let Some(node) = fields.take_any(&["min_similarity", "min_sim"])
        {
            q.fuzziness = Fuzziness::parse(&node)?;
        }
        let prefix = fields.take_i64("prefix_length")?.unwrap_or(0);
        q.prefix_length = u32::try_from(prefix).map_err(|_| words::not_created("prefixLength cannot be negative."))?;
        let most = fields.take_i64("max_expansions")?.unwrap_or(50);
        q.max_expansions = u32::try_from(most)
            .ok()
            .filter(|most| *most > 0)
            .ok_or_else(|| words::not_created("maxExpansions must be positive."))?;
        q.transpositions = fields.take_bool("transpositions")?.unwrap_or(true);
        q.rewrite = words::take_rewrite(&mut fields, "rewrite", cx.dialect)?;
        fields.with_missing(beside)
    } else {
        q.value = body.into_value();
        beside
    };
    if q.value.is_null() {
        return Err(Error::illegal("query value cannot be null"));
    }
    cx.finish(fields, "fuzzy", Clause::Fuzzy(q))
}

pub(super) fn render(q: &FuzzyQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("value".into(), q.value.clone());
    if q.fuzziness != Fuzziness::AUTO {
        body.insert("fuzziness".into(), q.fuzziness.render());
    }
    if q.prefix_length != 0 {
        body.insert("prefix_length".into(), q.prefix_length.into());
    }
    if q.max_expansions != 50 {
        body.insert("max_expansions".into(), q.max_expansions.into());
    }
    if !q.transpositions {
        body.insert("transpositions".into(), false.into());
    }
    if let Some(rewrite) = q.rewrite {
        body.insert("rewrite".into(), rewrite.name().into());
    }
    body
}
