//! `simple_query_string`: the text and its options; the grammar is in [`crate::query_string::simple`].

use super::{Clause, Parsing, Query, QueryStringQuery, query_string};
use crate::json::{Json, Node};
use model::{Error, Result};

/// The names that `flags` may have.
const FLAGS: &[&str] = &[
    "ALL",
    "NONE",
    "AND",
    "NOT",
    "OR",
    "PREFIX",
    "PHRASE",
    "PRECEDENCE",
    "ESCAPE",
    "WHITESPACE",
    "FUZZY",
    "NEAR",
    "SLOP",
];
/// Their bits, for flags given as a number.
const BITS: &[(i64, &str)] = &[
    (1, "AND"),
    (2, "NOT"),
    (4, "OR"),
    (8, "PREFIX"),
    (16, "PHRASE"),
    (32, "PRECEDENCE"),
    (64, "ESCAPE"),
    (128, "WHITESPACE"),
    (256, "FUZZY"),
    (512, "NEAR"),
];

model::assert_words_differ!(FLAGS, "each flag has one name");

const _: () = {
    let mut at = 0;
    while at < BITS.len() {
        assert!(
            BITS[at].0 == 1 << at,
            "each flag has a bit of its own, none of which is left out"
        );
        at += 1;
    }
};

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error("[simple_query_string] query text missing");
    let mut fields = cx.options(node, "simple_query_string")?;
    let text = fields.take_string("query")?;
    let absent = text.is_none();
    let mut q = QueryStringQuery::new(text.unwrap_or_default());
    let no_list = "[simple_query_string] unsupported field [fields]";
    query_string::common(&mut q, &mut fields, no_list, cx.dialect.rules.tolerates_value_types)?;
    q.flags = match fields.take("flags") {
        None => None,
        Some(node) => flags(&node)?,
    };
    if cx.dialect.rules.lowercases_expanded_terms {
        q.lowercase_expanded = fields.take_bool("lowercase_expanded_terms")?.unwrap_or(true);
    }
    for without_effect in ["lowercase_expanded_terms", "locale", "all_fields"] {
        fields.take(without_effect);
    }
    let query = cx.finish(fields, "simple_query_string", Clause::SimpleQueryString(q))?;
    if absent { Err(missing) } else { Ok(query) }
}

fn flags(node: &Node) -> Result<Option<Vec<String>>> {
    if let Json::Number(_) = node.value {
        let bits = node.i64("flags")?;
        if bits < 0 {
            return Ok(None);
        }
        return Ok(Some(
            BITS.iter()
                .filter(|(bit, _)| bits & bit != 0)
                .map(|(_, name)| (*name).to_owned())
                .collect(),
        ));
    }
    let text = node.string("flags")?.to_uppercase();
    let mut names = Vec::new();
    for name in text.split('|').map(str::trim).filter(|n| !n.is_empty()) {
        if !FLAGS.contains(&name) {
            return Err(Error::illegal(format!("Unknown simple_query_string flag [{name}]")));
        }
        names.push(name.to_owned());
    }
    Ok(if names.is_empty() || names.iter().any(|n| n == "ALL") {
        None
    } else {
        Some(names)
    })
}
