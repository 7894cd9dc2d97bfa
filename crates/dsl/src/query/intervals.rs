//! `intervals`: rules about the order and nearness of words in one field.

use super::{Clause, Fuzziness, Parsing, Query};
use crate::json::{Fields, Node};
use crate::query::script_source::ScriptSource;
use model::{Error, Result};
use serde_json::{Map, Value, json};

/// A rule and its filter.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalRule {
    /// The intervals.
    pub source: IntervalSource,
    /// Which of its intervals count.
    pub filter: Option<Box<IntervalFilter>>,
}

/// How several rules stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalMode {
    Ordered,
    Unordered,
    /// In any order, none inside or over another.
    UnorderedNoOverlap,
}

/// The words or rules that make intervals.
#[derive(Clone, Debug, PartialEq)]
pub enum IntervalSource {
    Match {
        query: String,
        max_gaps: i32,
        mode: IntervalMode,
        analyzer: Option<String>,
        use_field: Option<String>,
    },
    /// Words of a shape.
    Pattern {
        shape: IntervalShape,
        text: String,
        case_insensitive: bool,
        max_expansions: Option<u32>,
        analyzer: Option<String>,
        use_field: Option<String>,
    },
    Fuzzy {
        term: String,
        fuzziness: Fuzziness,
        prefix_length: u32,
        transpositions: bool,
        analyzer: Option<String>,
        use_field: Option<String>,
    },
    AllOf {
        rules: Vec<IntervalRule>,
        max_gaps: i32,
        mode: IntervalMode,
    },
    AnyOf(Vec<IntervalRule>),
}

/// A shape of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalShape {
    Prefix,
    Wildcard,
    Regexp,
}

/// Which intervals of a rule count.
#[derive(Clone, Debug, PartialEq)]
pub enum IntervalFilter {
    /// By where they stand to those of another rule.
    Relation(IntervalRelation, IntervalRule),
    /// By a script over `interval.start`, `.end`, `.gaps`.
    Script(ScriptSource),
}

/// Where one interval stands to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalRelation {
    Containing,
    NotContaining,
    ContainedBy,
    NotContainedBy,
    Overlapping,
    NotOverlapping,
    Before,
    After,
}

model::assert_words_differ!(RELATIONS; 0, "each relation of intervals has one row");

const RELATIONS: &[(&str, IntervalRelation)] = &[
    ("containing", IntervalRelation::Containing),
    ("not_containing", IntervalRelation::NotContaining),
    ("contained_by", IntervalRelation::ContainedBy),
    ("not_contained_by", IntervalRelation::NotContainedBy),
    ("overlapping", IntervalRelation::Overlapping),
    ("not_overlapping", IntervalRelation::NotOverlapping),
    ("before", IntervalRelation::Before),
    ("after", IntervalRelation::After),
];

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, "intervals")?;
    let none = body.error("Missing intervals from interval query definition");
    let mut fields = cx.options(body, "intervals")?;
    let mut query = cx.common(&mut fields, "intervals", Clause::MatchAll)?;
    beside.finish()?;
    let Some((name, node)) = fields.next_field() else {
        return Err(none);
    };
    let rule = source(&name, node, cx)?;
    if let Some((name, node)) = fields.next_field() {
        return Err(node.error(format!("Only one interval rule can be specified, found also [{name}]")));
    }
    query.clause = Clause::Intervals { field, rule };
    Ok(query)
}

/// `{"match": {…}}`.
fn rule(node: Node, cx: &mut Parsing) -> Result<IntervalRule> {
    let wrong = node.error("Expected an object with one interval rule");
    if !node.is_object() {
        return Err(wrong);
    }
    let mut fields = node.fields("intervals")?;
    let Some((name, body)) = fields.next_field() else {
        return Err(wrong);
    };
    if fields.next_field().is_some() {
        return Err(wrong);
    }
    source(&name, body, cx)
}

fn source(name: &str, node: Node, cx: &mut Parsing) -> Result<IntervalRule> {
    cx.deeper(|cx| read_source(name, node, cx))
}

fn read_source(name: &str, node: Node, cx: &mut Parsing) -> Result<IntervalRule> {
    let unknown = node.error(format!(
        "Unknown interval type [{name}], expecting one of [match, any_of, all_of, prefix, wildcard, regexp]"
    ));
    let mut fields = node.fields(name)?.of_object(true);
    let source = match name {
        "match" => IntervalSource::Match {
            query: fields.require("query")?.string("query")?,
            max_gaps: max_gaps(&mut fields)?,
            mode: mode(&mut fields)?,
            analyzer: fields.take_string("analyzer")?,
            use_field: fields.take_string("use_field")?,
        },
        "all_of" => IntervalSource::AllOf {
            rules: rules(&mut fields, cx)?,
            max_gaps: max_gaps(&mut fields)?,
            mode: mode(&mut fields)?,
        },
        "any_of" => IntervalSource::AnyOf(rules(&mut fields, cx)?),
        "prefix" | "wildcard" | "regexp" => {
            let (shape, key) = match name {
                "prefix" => (IntervalShape::Prefix, "prefix"),
                "wildcard" => (IntervalShape::Wildcard, "pattern"),
                _ => (IntervalShape::Regexp, "pattern"),
            };
            let max_expansions = fields.take_u32("max_expansions")?;
            if max_expansions.is_some_and(|n| n == 0 || n > 1024) {
                return Err(Error::illegal(format!(
                    "max_expansions [{}] cannot exceed the maximum number of clauses [1024] or be 0",
                    max_expansions.unwrap_or(0)
                )));
            }
            if name == "regexp"
                && let Some(flags) = fields.take("flags").or_else(|| fields.take("flags_value"))
            {
                return Err(flags.error("[flags] of an interval [regexp] is not supported"));
            }
            IntervalSource::Pattern {
                shape,
                text: fields.require(key)?.string(key)?,
                case_insensitive: fields.take_bool("case_insensitive")?.unwrap_or(false),
                max_expansions,
                analyzer: fields.take_string("analyzer")?,
                use_field: fields.take_string("use_field")?,
            }
        }
        "fuzzy" => IntervalSource::Fuzzy {
            term: fields.require("term")?.string("term")?,
            fuzziness: super::parse::take_fuzziness(&mut fields)?.unwrap_or(Fuzziness::Auto { low: 3, high: 6 }),
            prefix_length: fields.take_u32("prefix_length")?.unwrap_or(0),
            transpositions: fields.take_bool("transpositions")?.unwrap_or(true),
            analyzer: fields.take_string("analyzer")?,
            use_field: fields.take_string("use_field")?,
        },
        _ => return Err(unknown),
    };
    let filter = fields.read("filter", &["START_OBJECT"], |node| filter(node.clone(), cx).map(Box::new))?;
    fields.finish()?;
    Ok(IntervalRule { source, filter })
}

fn rules(fields: &mut Fields, cx: &mut Parsing) -> Result<Vec<IntervalRule>> {
    let rules = fields.read("intervals", &["START_ARRAY", "START_OBJECT"], |node| {
        node.clone()
            .items()
            .into_iter()
            .map(|item| rule(item, cx))
            .collect::<Result<Vec<_>>>()
    })?;
    rules.ok_or_else(|| Error::illegal("Required [intervals]"))
}

fn max_gaps(fields: &mut Fields) -> Result<i32> {
    Ok(fields
        .take_i64("max_gaps")?
        .map_or(-1, |n| i32::try_from(n).unwrap_or(i32::MAX)))
}

/// `ordered`, or OpenSearch's `mode`.
fn mode(fields: &mut Fields) -> Result<IntervalMode> {
    let ordered = fields.take_bool("ordered")?;
    let Some(node) = fields.take("mode") else {
        return Ok(match ordered {
            Some(true) => IntervalMode::Ordered,
            _ => IntervalMode::Unordered,
        });
    };
    if ordered.is_some() {
        return Err(node.error("mode and ordered cannot be given both"));
    }
    match node.string("mode")?.as_str() {
        "ordered" => Ok(IntervalMode::Ordered),
        "unordered" => Ok(IntervalMode::Unordered),
        "unordered_no_overlap" => Ok(IntervalMode::UnorderedNoOverlap),
        other => Err(node.error(format!(
            "Unknown mode [{other}], expected [ordered], [unordered] or [unordered_no_overlap]"
        ))),
    }
}

fn filter(node: Node, cx: &mut Parsing) -> Result<IntervalFilter> {
    let wrong = node.error("Expected [FIELD_NAME] of an interval filter");
    let mut fields = cx.options(node, "filter")?;
    let Some((name, body)) = fields.next_field() else {
        return Err(wrong);
    };
    fields.finish()?;
    if name == "script" {
        return Ok(IntervalFilter::Script(ScriptSource::parse(body, cx.dialect)?));
    }
    match RELATIONS.iter().find(|(word, _)| *word == name) {
        Some((_, relation)) => Ok(IntervalFilter::Relation(*relation, rule(body, cx)?)),
        None => Err(Error::illegal(format!("Unknown filter type [{name}]"))),
    }
}

pub(super) fn render(rule: &IntervalRule) -> Map<String, Value> {
    let mode_of = |mode: &IntervalMode| match mode {
        IntervalMode::Ordered => "ordered",
        IntervalMode::Unordered => "unordered",
        IntervalMode::UnorderedNoOverlap => "unordered_no_overlap",
    };
    let all = |rules: &[IntervalRule]| rules.iter().map(render).map(Value::Object).collect::<Vec<_>>();
    let (name, body) = match &rule.source {
        IntervalSource::Match {
            query,
            max_gaps,
            mode,
            analyzer,
            use_field,
        } => (
            "match",
            json!({ "query": query, "max_gaps": max_gaps, "mode": mode_of(mode), "analyzer": analyzer, "use_field": use_field }),
        ),
        IntervalSource::Pattern {
            shape,
            text,
            case_insensitive,
            max_expansions,
            analyzer,
            use_field,
        } => {
            let (name, key) = match shape {
                IntervalShape::Prefix => ("prefix", "prefix"),
                IntervalShape::Wildcard => ("wildcard", "pattern"),
                IntervalShape::Regexp => ("regexp", "pattern"),
            };
            (
                name,
                json!({ key: text, "case_insensitive": case_insensitive.then_some(true), "max_expansions": max_expansions,
                        "analyzer": analyzer, "use_field": use_field }),
            )
        }
        IntervalSource::Fuzzy {
            term,
            fuzziness,
            prefix_length,
            transpositions,
            analyzer,
            use_field,
        } => (
            "fuzzy",
            json!({ "term": term, "fuzziness": fuzziness.render(), "prefix_length": prefix_length,
                    "transpositions": transpositions, "analyzer": analyzer, "use_field": use_field }),
        ),
        IntervalSource::AllOf { rules, max_gaps, mode } => (
            "all_of",
            json!({ "intervals": all(rules), "max_gaps": max_gaps, "mode": mode_of(mode) }),
        ),
        IntervalSource::AnyOf(rules) => ("any_of", json!({ "intervals": all(rules) })),
    };
    let Value::Object(mut body) = body else { return Map::new() };
    body.retain(|_, value| !value.is_null());
    if let Some(filter) = &rule.filter {
        let filter = match filter.as_ref() {
            IntervalFilter::Script(script) => json!({ "script": script.render() }),
            IntervalFilter::Relation(relation, rule) => {
                let word = RELATIONS
                    .iter()
                    .find(|(_, r)| r == relation)
                    .map_or("containing", |(word, _)| word);
                json!({ word: render(rule) })
            }
        };
        body.insert("filter".into(), filter);
    }
    let mut out = Map::new();
    out.insert(name.to_owned(), Value::Object(body));
    out
}
