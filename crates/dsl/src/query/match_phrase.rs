//! `match_phrase` and `match_phrase_prefix`: words in their order.

use super::{Clause, Parsing, Query, ZeroTerms, match_query};
use crate::json::Node;
use model::{Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct MatchPhraseQuery {
    pub field: String,
    pub query: Value,
    pub slop: u32,
    pub analyzer: Option<String>,
    pub zero_terms_query: ZeroTerms,
    /// `match_phrase_prefix` only.
    pub max_expansions: u32,
}

pub(super) fn parse(name: &str, node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, name)?;
    let mut q = MatchPhraseQuery {
        field,
        query: Value::Null,
        slop: 0,
        analyzer: None,
        zero_terms_query: ZeroTerms::None,
        max_expansions: 50,
    };
    let mut nothing = body.error("No text specified for text query");
    let fields = if body.is_object() {
        let mut fields = cx.options(body, name)?.with_missing(beside);
        if !cx.dialect.rules.query_parsing_exceptions && !fields.has("query") {
            nothing = Error::illegal(format!("[{name}] requires query value"));
        }
        if let Some(node) = fields.container("query").filter(|_| !cx.dialect.rules.tolerates_value_types) {
            let found = node.kind_name();
            return Err(node.error(format!("[{name}] unknown token [{found}] after [query]")));
        }
        q.query = fields.take_value("query").unwrap_or(Value::Null);
        if let Some(slop) = fields.take_i64("slop")? {
            q.slop = u32::try_from(slop).map_err(|_| Error::illegal("No negative slop allowed."))?;
        }
        q.analyzer = fields.take_string("analyzer")?;
        if let Some(word) = fields.take_string("zero_terms_query")? {
            q.zero_terms_query = match_query::zero_terms(&word)?;
        }
        if name == "match_phrase_prefix" || cx.dialect.rules.takes_former_options {
            q.max_expansions = fields.take_u32("max_expansions")?.unwrap_or(50);
        }
        fields
    } else {
        q.query = body.into_value();
        beside
    };
    let empty = !matches!(q.query, Value::String(_) | Value::Number(_) | Value::Bool(_));
    let clause = if name == "match_phrase" {
        Clause::MatchPhrase(plain(q))
    } else {
        Clause::MatchPhrasePrefix(q)
    };
    let query = cx.finish(fields, name, clause)?;
    if empty { Err(nothing) } else { Ok(query) }
}

/// A phrase has nothing to expand.
pub(super) fn plain(q: MatchPhraseQuery) -> MatchPhraseQuery {
    MatchPhraseQuery { max_expansions: 50, ..q }
}

pub(super) fn render(q: &MatchPhraseQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("query".into(), q.query.clone());
    if q.slop != 0 {
        body.insert("slop".into(), q.slop.into());
    }
    if let Some(analyzer) = &q.analyzer {
        body.insert("analyzer".into(), analyzer.clone().into());
    }
    if q.zero_terms_query != ZeroTerms::None {
        body.insert("zero_terms_query".into(), q.zero_terms_query.word().into());
    }
    if q.max_expansions != 50 {
        body.insert("max_expansions".into(), q.max_expansions.into());
    }
    body
}
