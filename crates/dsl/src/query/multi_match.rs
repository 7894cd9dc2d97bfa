//! `multi_match`: one text in several fields.

use super::{Clause, MatchQuery, Parsing, Query, match_query, render::number, words};
use crate::json::Node;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiMatchType {
    #[default]
    BestFields,
    MostFields,
    CrossFields,
    Phrase,
    PhrasePrefix,
    BoolPrefix,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MultiMatchQuery {
    /// Field patterns with boosts. Empty: `index.query.default_field`.
    pub fields: Vec<(String, f32)>,
    pub kind: MultiMatchType,
    pub tie_breaker: Option<f32>,
    pub slop: u32,
    /// Everything that a `match` of one field has; its `field` is empty.
    pub options: MatchQuery,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let nothing = node.error("No text specified for multi_match query");
    let (line, col) = (node.line as usize, node.col as usize);
    let refuse = |reason: String| Error::parsing(reason, line, col);
    let no_fields = node.error("No fields specified for multi_match query");
    let mut fields = cx.options(node, "multi_match")?;
    let mut options = MatchQuery::new("", fields.take_value("query").unwrap_or(Value::Null));
    let names = fields
        .take("fields")
        .map(words::fields_with_boosts)
        .transpose()?
        .unwrap_or_default();
    if names.is_empty() && cx.dialect.rules.multi_match_needs_fields {
        return Err(no_fields);
    }
    let mut kind = match fields.take_string("type")? {
        Some(word) => kind_of(&word, "multi_match")?,
        None => MultiMatchType::BestFields,
    };
    match_query::options(&mut options, &mut fields, cx)?;
    let slop = match fields.take_i64("slop")? {
        Some(slop) => u32::try_from(slop).map_err(|_| Error::illegal("No negative slop allowed."))?,
        None => 0,
    };
    let mut tie_breaker = fields.take_f32("tie_breaker")?;
    if let Some(use_dis_max) = fields.take_bool("use_dis_max")?
        && !use_dis_max
    {
        kind = MultiMatchType::MostFields;
        tie_breaker = tie_breaker.or(Some(1.0));
    }
    let fuzzy = options.fuzziness.is_some();
    if kind == MultiMatchType::BoolPrefix && !cx.dialect.rules.tolerates_conflicting_options {
        for (name, given) in [("slop", slop != 0), ("cutoff_frequency", options.cutoff_frequency.is_some())] {
            if given {
                return Err(refuse(format!("[{name}] not allowed for type [bool_prefix]")));
            }
        }
    }
    if names.iter().any(|(_, boost)| *boost < 0.0) && !cx.dialect.rules.tolerates_value_bounds {
        return Err(Error::illegal(
            "negative [boost] are not allowed in [multi_match], use a value between 0 and 1 to deboost",
        ));
    }
    let empty = !matches!(options.query, Value::String(_) | Value::Number(_) | Value::Bool(_));
    let clause = Clause::MultiMatch(MultiMatchQuery {
        fields: names,
        kind,
        tie_breaker,
        slop,
        options,
    });
    let query = cx.finish(fields, "multi_match", clause)?;
    if empty {
        return Err(nothing);
    }
    if fuzzy
        && matches!(
            kind,
            MultiMatchType::CrossFields | MultiMatchType::Phrase | MultiMatchType::PhrasePrefix
        )
    {
        return Err(refuse(format!("Fuzziness not allowed for type [{}]", kind.word())));
    }
    Ok(query)
}

/// The `type` of `multi_match` and of the query strings.
pub(super) fn kind_of(word: &str, owner: &str) -> Result<MultiMatchType> {
    MultiMatchType::from_word(word).ok_or_else(|| {
        Error::new(
            ErrorKind::Parse,
            format!("failed to parse [{owner}] query type [{word}]. unknown type."),
        )
    })
}

pub(super) fn render(q: &MultiMatchQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("query".into(), q.options.query.clone());
    if !q.fields.is_empty() {
        body.insert("fields".into(), words::render_fields(&q.fields));
    }
    if q.kind != MultiMatchType::BestFields {
        body.insert("type".into(), q.kind.word().into());
    }
    if let Some(tie_breaker) = q.tie_breaker {
        body.insert("tie_breaker".into(), number(tie_breaker));
    }
    if q.slop != 0 {
        body.insert("slop".into(), q.slop.into());
    }
    match_query::render_options(&q.options, &mut body);
    body
}
