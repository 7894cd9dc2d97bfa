//! `query_string`: the text and its options; the grammar is in [`crate::query_string`].

use super::render::number;
use super::{Clause, Fuzziness, MultiMatchType, Operator, Parsing, Query, Rewrite, multi_match, parse::take_fuzziness, words};
use crate::json::{Fields, Node};
use model::Result;
use serde_json::{Map, Value};

/// `query_string` and `simple_query_string`: text and options; the grammar is in `query_string/`.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryStringQuery {
    pub query: String,
    /// Empty: `default_field`, or `index.query.default_field` (all fields).
    pub fields: Vec<(String, f32)>,
    pub default_operator: Operator,
    pub analyzer: Option<String>,
    pub quote_analyzer: Option<String>,
    pub quote_field_suffix: Option<String>,
    pub allow_leading_wildcard: bool,
    pub analyze_wildcard: bool,
    /// `lowercase_expanded_terms` of 2015, there true by default: patterns, fuzzy words and ends of ranges are put in lower
    /// case, but for ranges of numbers.
    pub lowercase_expanded: bool,
    pub auto_generate_synonyms_phrase_query: bool,
    pub enable_position_increments: bool,
    pub fuzziness: Fuzziness,
    pub fuzzy_max_expansions: u32,
    pub fuzzy_prefix_length: u32,
    pub fuzzy_transpositions: bool,
    pub lenient: Option<bool>,
    pub minimum_should_match: Option<String>,
    pub phrase_slop: u32,
    pub tie_breaker: Option<f32>,
    pub kind: MultiMatchType,
    pub time_zone: Option<String>,
    pub max_determinized_states: u32,
    /// The rewrite of patterns.
    pub rewrite: Option<Rewrite>,
    /// 2015: each word of the text is a clause of its own.
    pub split_on_whitespace: bool,
    /// 2015: a word of the text that becomes several is a phrase.
    pub phrases_of_words: bool,
    /// `simple_query_string` only: enabled operators, `None` for all.
    pub flags: Option<Vec<String>>,
}

impl QueryStringQuery {
    /// The defaults of Elasticsearch.
    pub fn new(query: impl Into<String>) -> QueryStringQuery {
        QueryStringQuery {
            query: query.into(),
            fields: Vec::new(),
            default_operator: Operator::Or,
            analyzer: None,
            quote_analyzer: None,
            quote_field_suffix: None,
            allow_leading_wildcard: true,
            analyze_wildcard: false,
            lowercase_expanded: false,
            auto_generate_synonyms_phrase_query: true,
            enable_position_increments: true,
            fuzziness: Fuzziness::Auto { low: 3, high: 6 },
            fuzzy_max_expansions: 50,
            fuzzy_prefix_length: 0,
            fuzzy_transpositions: true,
            lenient: None,
            minimum_should_match: None,
            phrase_slop: 0,
            tie_breaker: None,
            kind: MultiMatchType::BestFields,
            time_zone: None,
            max_determinized_states: 10_000,
            rewrite: None,
            split_on_whitespace: false,
            phrases_of_words: false,
            flags: None,
        }
    }
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error("[query_string] must be provided with a [query]");
    let mut fields = cx.options(node, "query_string")?;
    let text = fields.take_string("query")?;
    let absent = text.is_none();
    let mut q = QueryStringQuery::new(text.unwrap_or_default());
    let fields_given = fields.has("fields");
    if let Some(field) = fields.take_string("default_field")? {
        q.fields = vec![(field, 1.0)];
    }
    let named = !q.fields.is_empty();
    common(
        &mut q,
        &mut fields,
        "[query_string] query does not support [fields]",
        cx.dialect.rules.tolerates_value_types,
    )?;
    if named && fields_given && !cx.dialect.rules.tolerates_conflicting_options {
        return Err(words::not_created(
            "Validation Failed: 1: [query_string] cannot use [fields] parameter in conjunction with [default_field];",
        ));
    }
    q.lowercase_expanded = fields
        .take_bool("lowercase_expanded_terms")?
        .unwrap_or(cx.dialect.rules.lowercases_expanded_terms);
    q.quote_analyzer = fields.take_string("quote_analyzer")?;
    q.allow_leading_wildcard = fields.take_bool("allow_leading_wildcard")?.unwrap_or(true);
    q.enable_position_increments = fields.take_bool("enable_position_increments")?.unwrap_or(true);
    q.fuzziness = take_fuzziness(&mut fields)?.unwrap_or(Fuzziness::AUTO);
    q.phrase_slop = at_least_0(fields.take_i64("phrase_slop")?.unwrap_or(0));
    q.tie_breaker = fields.take_f32("tie_breaker")?;
    if let Some(word) = fields.take_string("type")? {
        q.kind = multi_match::kind_of(&word, "query_string")?;
    }
    q.time_zone = fields.take_string("time_zone")?;
    q.max_determinized_states = fields.take_u32("max_determinized_states")?.unwrap_or(super::pattern::STATES);
    q.rewrite = words::take_rewrite(&mut fields, "rewrite", cx.dialect)?;
    // Read, and of no effect on its fuzzy words, as in the reference.
    words::take_rewrite(&mut fields, "fuzzy_rewrite", cx.dialect)?;
    if fields.take_bool("escape")? == Some(true) {
        q.query = escape_operators(&q.query);
    }
    q.split_on_whitespace = cx.dialect.rules.splits_on_whitespace;
    // One word of the text that is several words of the field.
    q.phrases_of_words = fields.take_bool("auto_generate_phrase_queries")? == Some(true) && cx.dialect.rules.splits_on_whitespace;
    for without_effect in ["locale", "split_on_whitespace", "use_dis_max", "all_fields"] {
        fields.take(without_effect);
    }
    let query = cx.finish(fields, "query_string", Clause::QueryString(q))?;
    if absent { Err(missing) } else { Ok(query) }
}

/// The text without operators but words: what would be one stands for itself.
fn escape_operators(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\+-!():^[]\"{}~*?|&/".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A number below 0 is passed over: only some texts would come to use it.
fn at_least_0(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// The options of both query strings; `lone_field`: `fields` may be a text.
pub(super) fn common(q: &mut QueryStringQuery, fields: &mut Fields, no_list: &str, lone_field: bool) -> Result<()> {
    if let Some(node) = fields.take("fields") {
        if !node.is_array() && !lone_field {
            return Err(node.error(no_list));
        }
        q.fields = words::fields_with_boosts(node)?;
    }
    if let Some(node) = fields.take("default_operator") {
        q.default_operator = words::operator(&node, "default_operator")?;
    }
    q.analyzer = fields.take_string("analyzer")?;
    q.quote_field_suffix = fields.take_string("quote_field_suffix")?;
    q.analyze_wildcard = fields.take_bool("analyze_wildcard")?.unwrap_or(false);
    q.auto_generate_synonyms_phrase_query = fields.take_bool("auto_generate_synonyms_phrase_query")?.unwrap_or(true);
    q.lenient = fields.take_bool("lenient")?;
    if let Some(node) = fields.take("minimum_should_match") {
        q.minimum_should_match = words::minimum(&node)?;
    }
    q.fuzzy_max_expansions = at_least_0(fields.take_i64("fuzzy_max_expansions")?.unwrap_or(50));
    q.fuzzy_prefix_length = at_least_0(fields.take_i64("fuzzy_prefix_length")?.unwrap_or(0));
    q.fuzzy_transpositions = fields.take_bool("fuzzy_transpositions")?.unwrap_or(true);
    Ok(())
}

pub(super) fn render(q: &QueryStringQuery) -> Map<String, Value> {
    let plain = QueryStringQuery::new("");
    let mut body = Map::new();
    body.insert("query".into(), q.query.clone().into());
    if !q.fields.is_empty() {
        body.insert("fields".into(), words::render_fields(&q.fields));
    }
    if q.default_operator != Operator::Or {
        body.insert("default_operator".into(), q.default_operator.word().into());
    }
    for (name, value) in [
        ("analyzer", &q.analyzer),
        ("quote_analyzer", &q.quote_analyzer),
        ("quote_field_suffix", &q.quote_field_suffix),
        ("minimum_should_match", &q.minimum_should_match),
        ("time_zone", &q.time_zone),
    ] {
        if let Some(value) = value {
            body.insert(name.into(), value.clone().into());
        }
    }
    if let Some(rewrite) = q.rewrite {
        body.insert("rewrite".into(), rewrite.name().into());
    }
    for (name, value, usual) in [
        ("auto_generate_phrase_queries", q.phrases_of_words, false),
        ("allow_leading_wildcard", q.allow_leading_wildcard, true),
        ("analyze_wildcard", q.analyze_wildcard, false),
        ("lowercase_expanded_terms", q.lowercase_expanded, false),
        (
            "auto_generate_synonyms_phrase_query",
            q.auto_generate_synonyms_phrase_query,
            true,
        ),
        ("enable_position_increments", q.enable_position_increments, true),
        ("fuzzy_transpositions", q.fuzzy_transpositions, true),
    ] {
        if value != usual {
            body.insert(name.into(), value.into());
        }
    }
    for (name, value, usual) in [
        ("fuzzy_max_expansions", q.fuzzy_max_expansions, plain.fuzzy_max_expansions),
        ("fuzzy_prefix_length", q.fuzzy_prefix_length, 0),
        ("phrase_slop", q.phrase_slop, 0),
        (
            "max_determinized_states",
            q.max_determinized_states,
            plain.max_determinized_states,
        ),
    ] {
        if value != usual {
            body.insert(name.into(), value.into());
        }
    }
    if q.fuzziness != Fuzziness::AUTO {
        body.insert("fuzziness".into(), q.fuzziness.render());
    }
    if let Some(lenient) = q.lenient {
        body.insert("lenient".into(), lenient.into());
    }
    if let Some(tie_breaker) = q.tie_breaker {
        body.insert("tie_breaker".into(), number(tie_breaker));
    }
    if q.kind != MultiMatchType::BestFields {
        body.insert("type".into(), q.kind.word().into());
    }
    if let Some(flags) = &q.flags {
        body.insert("flags".into(), flags.join("|").into());
    }
    body
}
