//! `match` and `match_bool_prefix`: analyzed text.

use super::{Clause, Fuzziness, MatchPhraseQuery, Parsing, Query, Rewrite, match_phrase, parse::take_fuzziness, words};
use crate::json::{Fields, Node};
use model::{Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Operator {
    #[default]
    Or,
    And,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ZeroTerms {
    #[default]
    None,
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MatchQuery {
    pub field: String,
    pub query: Value,
    pub operator: Operator,
    pub minimum_should_match: Option<String>,
    pub fuzziness: Option<Fuzziness>,
    pub prefix_length: u32,
    pub max_expansions: u32,
    pub fuzzy_transpositions: bool,
    pub fuzzy_rewrite: Option<Rewrite>,
    pub analyzer: Option<String>,
    pub lenient: bool,
    pub zero_terms_query: ZeroTerms,
    pub auto_generate_synonyms_phrase_query: bool,
    /// Words that are in more documents (than this share of them, or than so many) only add to the score.
    pub cutoff_frequency: Option<f32>,
    /// How those count; as the others, if nothing is said.
    pub high_frequency: Option<HighFrequency>,
}

/// How the frequent words of a `common` query count.
#[derive(Clone, Debug, PartialEq)]
pub struct HighFrequency {
    pub operator: Operator,
    pub minimum_should_match: Option<String>,
}

impl Default for HighFrequency {
    fn default() -> HighFrequency {
        HighFrequency {
            operator: Operator::Or,
            minimum_should_match: None,
        }
    }
}

impl MatchQuery {
    /// The defaults of Elasticsearch.
    pub fn new(field: impl Into<String>, query: Value) -> MatchQuery {
        MatchQuery {
            field: field.into(),
            query,
            operator: Operator::Or,
            minimum_should_match: None,
            fuzziness: None,
            prefix_length: 0,
            max_expansions: 50,
            fuzzy_transpositions: true,
            fuzzy_rewrite: None,
            analyzer: None,
            lenient: false,
            zero_terms_query: ZeroTerms::None,
            auto_generate_synonyms_phrase_query: true,
            cutoff_frequency: None,
            high_frequency: None,
        }
    }
}

pub(super) fn parse(name: &str, node: Node, cx: &mut Parsing) -> Result<Query> {
    let today = name == "match" && !cx.dialect.rules.query_parsing_exceptions;
    let (field, body, beside) = cx.one_field_or(node, name, || match today {
        true => Error::parsing("No text specified for text query", 1, 1),
        false => Error::illegal(format!("[{name}] requires fieldName")),
    })?;
    if body.is_null() {
        return Err(if today {
            body.error("No text specified for text query")
        } else {
            Error::illegal(format!("[{name}] requires query value"))
        });
    }
    if body.is_array() {
        return Err(body.error(format!("unknown token [START_ARRAY] after [{field}]")));
    }
    let mut q = MatchQuery::new(field, Value::Null);
    if !body.is_object() {
        q.query = body.into_value();
        return cx.finish(beside, name, of_name(name, q));
    }
    let mut nothing = body.error("No text specified for text query");
    let mut fields = cx.options(body, name)?.with_missing(beside);
    if !cx.dialect.rules.query_parsing_exceptions && name != "match" && !fields.has("query") {
        nothing = Error::illegal(format!("[{name}] requires query value"));
    }
    q.query = fields.take_value("query").unwrap_or(Value::Null);
    // Before 6.0 `type` made a phrase of it.
    let kind = if cx.dialect.rules.takes_former_options {
        fields.take_string("type")?
    } else {
        None
    };
    let slop = if cx.dialect.rules.takes_former_options {
        fields.take_u32("slop")?
    } else {
        None
    };
    if !q.query.is_object() && !q.query.is_array() && !q.query.is_null() {
        options(&mut q, &mut fields, cx)?;
        let clause = match kind.as_deref() {
            Some("phrase" | "phrase_prefix" | "phrasePrefix") => {
                let phrase = MatchPhraseQuery {
                    field: q.field,
                    query: q.query,
                    slop: slop.unwrap_or(0),
                    analyzer: q.analyzer,
                    zero_terms_query: q.zero_terms_query,
                    max_expansions: q.max_expansions,
                };
                if kind.as_deref() == Some("phrase") {
                    Clause::MatchPhrase(match_phrase::plain(phrase))
                } else {
                    Clause::MatchPhrasePrefix(phrase)
                }
            }
            _ => of_name(name, q),
        };
        return cx.finish(fields, name, clause);
    }
    options(&mut q, &mut fields, cx)?;
    cx.finish(fields, name, of_name(name, q))?;
    Err(nothing)
}

fn of_name(name: &str, q: MatchQuery) -> Clause {
    if name == "match" {
        Clause::Match(q)
    } else {
        Clause::MatchBoolPrefix(q)
    }
}

/// The options that `multi_match` shares.
pub(super) fn options(q: &mut MatchQuery, fields: &mut Fields, cx: &Parsing) -> Result<()> {
    if let Some(node) = fields.take("operator") {
        q.operator = words::operator(&node, "operator")?;
    }
    if let Some(node) = fields.take_any(&["minimum_should_match", "min_should_match"]) {
        q.minimum_should_match = words::minimum(&node)?;
    }
    q.fuzziness = take_fuzziness(fields)?;
    q.prefix_length = fields.take_u32("prefix_length")?.unwrap_or(0);
    q.max_expansions = match fields.take_u32("max_expansions")? {
        Some(0) => {
            return Err(Error::illegal("[match] requires maxExpansions to be positive."));
        }
        n => n.unwrap_or(50),
    };
    q.fuzzy_transpositions = fields.take_bool("fuzzy_transpositions")?.unwrap_or(true);
    q.fuzzy_rewrite = words::take_rewrite(fields, "fuzzy_rewrite", cx.dialect)?;
    q.analyzer = fields.take_string("analyzer")?;
    q.lenient = fields.take_bool("lenient")?.unwrap_or(false);
    if let Some(word) = fields.take_string("zero_terms_query")? {
        q.zero_terms_query = zero_terms(&word)?;
    }
    q.auto_generate_synonyms_phrase_query = fields.take_bool("auto_generate_synonyms_phrase_query")?.unwrap_or(true);
    q.cutoff_frequency = fields.take_f32("cutoff_frequency")?;
    if cx.dialect.rules.takes_former_options {
        fields.take("rewrite");
    }
    Ok(())
}

/// `none` or `all`.
pub(super) fn zero_terms(word: &str) -> Result<ZeroTerms> {
    ZeroTerms::from_word(word).ok_or_else(|| Error::parsing(format!("Unsupported zero_terms_query value [{word}]"), 1, 1))
}

pub(super) fn render(q: &MatchQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("query".into(), q.query.clone());
    render_options(q, &mut body);
    body
}

pub(super) fn render_options(q: &MatchQuery, body: &mut Map<String, Value>) {
    let plain = MatchQuery::new("", Value::Null);
    if q.operator != plain.operator {
        body.insert("operator".into(), q.operator.word().into());
    }
    for (name, value) in [("minimum_should_match", &q.minimum_should_match), ("analyzer", &q.analyzer)] {
        if let Some(value) = value {
            body.insert(name.into(), value.clone().into());
        }
    }
    if let Some(fuzziness) = q.fuzziness {
        body.insert("fuzziness".into(), Fuzziness::render(fuzziness));
    }
    if q.prefix_length != 0 {
        body.insert("prefix_length".into(), q.prefix_length.into());
    }
    if q.max_expansions != plain.max_expansions {
        body.insert("max_expansions".into(), q.max_expansions.into());
    }
    if !q.fuzzy_transpositions {
        body.insert("fuzzy_transpositions".into(), false.into());
    }
    if let Some(rewrite) = q.fuzzy_rewrite {
        body.insert("fuzzy_rewrite".into(), rewrite.name().into());
    }
    if q.lenient {
        body.insert("lenient".into(), true.into());
    }
    if q.zero_terms_query != ZeroTerms::None {
        body.insert("zero_terms_query".into(), q.zero_terms_query.word().into());
    }
    if !q.auto_generate_synonyms_phrase_query {
        body.insert("auto_generate_synonyms_phrase_query".into(), false.into());
    }
    if let Some(cutoff) = q.cutoff_frequency {
        body.insert("cutoff_frequency".into(), super::render::number(cutoff));
    }
}
