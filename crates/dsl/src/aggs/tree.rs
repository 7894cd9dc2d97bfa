//! The tree of aggregations: names, one type each, what is below it, how deep it may go.

use super::table::AggSpec;
use super::{Agg, AggKind, pipeline};
use crate::json::Node;
use crate::shape;
use model::nearest;
use model::{Dialect, Error, ErrorKind, Result, settings};

/// Reads `aggs`: an object of aggregations by name.
///
/// # Errors
/// Elasticsearch refuses it, in its words.
pub fn parse(node: Node, dialect: Dialect) -> Result<Vec<Agg>> {
    let aggs = parse_level(node, dialect, 1);
    let aggs = if dialect.rules.search_parse_exceptions {
        aggs.map_err(super::of_2015::reword)?
    } else {
        aggs?
    };
    pipeline::validate(&aggs, None, dialect.rules.tolerates_missing_options)?;
    Ok(aggs)
}

fn parse_level(node: Node, dialect: Dialect, depth: usize) -> Result<Vec<Agg>> {
    let most = usize::from(dialect.depths.aggs);
    if depth > most {
        return Err(Error::illegal(format!(
            "The aggregations are nested more than [{most}] deep, the limit of [{}]",
            settings::MAX_AGG_DEPTH.name
        )));
    }
    let mut out: Vec<Agg> = Vec::new();
    for (name, definition) in shape::object(node, "aggs")? {
        if name.is_empty() || name.contains(['[', ']', '>']) {
            let rule = "Aggregation names can contain any character except '[', ']', and '>'";
            let rule = if dialect.rules.search_parse_exceptions {
                "Aggregation names must be alpha-numeric and can only contain '_' and '-'"
            } else {
                rule
            };
            return Err(definition.error(format!("Invalid aggregation name [{name}]. {rule}")));
        }
        out.push(parse_one(name, definition, dialect, depth)?);
    }
    Ok(out)
}

fn parse_one(name: String, definition: Node, dialect: Dialect, depth: usize) -> Result<Agg> {
    if !definition.is_object() {
        let found = definition.kind_name();
        return Err(definition.error(format!(
            "Aggregation definition for [{name} starts with a [{found}], expected a [START_OBJECT]."
        )));
    }
    let (line, col) = (definition.line as usize, definition.col as usize);
    let (mut kind, mut subs, mut meta): (Option<(String, AggKind)>, _, _) = (None, Vec::new(), None);
    for (key, value) in shape::object(definition, &name)? {
        match key.as_str() {
            "aggs" | "aggregations" if !value.is_object() && !dialect.rules.tolerates_value_types => {
                let found = value.kind_name();
                return Err(value.error(format!(
                    "Expected [START_OBJECT] under [{key}], but got a [{found}] in [{name}]"
                )));
            }
            "aggs" | "aggregations" => subs = parse_level(value, dialect, depth + 1)?,
            "meta" if !value.is_object() && !dialect.rules.tolerates_value_types => {
                let found = value.kind_name();
                return Err(value.error(format!(
                    "Expected [START_OBJECT] under [meta], but got a [{found}] in [{name}]"
                )));
            }
            "meta" => meta = value.into_value().as_object().cloned(),
            _ => {
                if let Some((first, _)) = &kind {
                    return Err(value.error(format!(
                        "Found two aggregation type definitions in [{name}]: [{first}] and [{key}]"
                    )));
                }
                if !value.is_object() {
                    let found = value.kind_name();
                    let hint = name_hint(&name);
                    return Err(value.error(format!(
                        "Expected [START_OBJECT] under [{key}], but got a [{found}] in [{name}]{hint}"
                    )));
                }
                let parsed = parse_kind(&name, &key, value, dialect)?;
                kind = Some((key, parsed));
            }
        }
    }
    let Some((type_name, kind)) = kind else {
        let reason = format!("Missing definition for aggregation [{name}]{}", name_hint(&name));
        return Err(Error::parsing(reason, line, col));
    };
    if !subs.is_empty() && is_leaf(&kind) {
        let reason = format!("Aggregator [{name}] of type [{type_name}] cannot accept sub-aggregations");
        return Err(Error::new(ErrorKind::AggregationInit, reason));
    }
    Ok(Agg { name, kind, subs, meta })
}

/// The hint where the name of an aggregation is that of a type: mostly a level is missing.
fn name_hint(name: &str) -> String {
    match AggSpec::find(name).is_some_and(AggSpec::is_read) {
        true => format!(
            "; [{name}] is a type of aggregations and stands where a name is expected: {{\"aggs\":{{\"NAME\":{{\"{name}\":{{...}}}}}}}}"
        ),
        false => String::new(),
    }
}

fn parse_kind(name: &str, kind: &str, body: Node, dialect: Dialect) -> Result<AggKind> {
    match AggSpec::find(kind) {
        Some(spec) => spec.parse(name, body, dialect),
        None if dialect.rules.search_parse_exceptions => Err(Error::new(
            ErrorKind::SearchParse,
            format!("Could not find aggregator type [{kind}] in [{name}]"),
        )),
        None => {
            let hint = nearest::question(kind, AggSpec::names());
            Err(body.error(format!("Unknown aggregation type [{kind}]{hint}")))
        }
    }
}

impl AggKind {
    /// A metric that paths lead to and that has nothing below it.
    pub(super) fn is_metric(&self) -> bool {
        matches!(
            self,
            AggKind::Metric(..)
                | AggKind::ExtendedStats { .. }
                | AggKind::Cardinality { .. }
                | AggKind::Percentiles { .. }
                | AggKind::PercentileRanks { .. }
                | AggKind::WeightedAvg { .. }
                | AggKind::MatrixStats(_)
                | AggKind::GeoCentroid { .. }
                | AggKind::TopHits(_)
        )
    }
}

/// Metrics and pipelines have nothing below them.
fn is_leaf(kind: &AggKind) -> bool {
    let other = matches!(
        kind,
        AggKind::TopMetrics { .. } | AggKind::ScriptedMetric(_) | AggKind::Pipeline { .. }
    );
    other || kind.is_metric()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Reading, read};
    use model::Persona;

    fn read_aggs(text: &str, persona: Persona) -> Result<Vec<Agg>> {
        let dialect = Dialect::of(persona);
        parse(read(text.as_bytes(), Reading::default())?, dialect)
    }

    /// The aggregations render to what they were, or are refused with a sentence that says so.
    fn check(text: &str, expected: &str) {
        check_as(Persona::Opensearch2, text, expected);
    }

    fn check_as(persona: Persona, text: &str, expected: &str) {
        match read_aggs(text, persona) {
            Ok(aggs) => assert_eq!(super::super::render(&aggs).to_string(), expected, "{text}"),
            Err(error) => {
                assert!(
                    error.to_string().contains(expected) || error.root().reason().contains(expected),
                    "{text}: {error}"
                )
            }
        }
    }

    #[test]
    fn names_and_types() {
        check(
            r#"{"x":5}"#,
            "Aggregation definition for [x starts with a [VALUE_NUMBER], expected a [START_OBJECT].",
        );
        check(r#"{"x":{}}"#, "Missing definition for aggregation [x]");
        check(
            r#"{"a[b]":{"max":{"field":"s"}}}"#,
            "Invalid aggregation name [a[b]]. Aggregation names can contain any character except '[', ']', and '>'",
        );
        check(
            r#"{"x":{"sum":{"field":"n"},"max":{"field":"n"}}}"#,
            "Found two aggregation type definitions in [x]: [sum] and [max]",
        );
        check(
            r#"{"x":{"term":{"field":"n"}}}"#,
            "Unknown aggregation type [term] did you mean [terms]?",
        );
        check(
            r#"{"x":{"max":{"field":"n"},"aggs":{"y":{"max":{"field":"n"}}}}}"#,
            "Aggregator [x] of type [max] cannot accept sub-aggregations",
        );
        check_as(
            Persona::Es2,
            r#"{"x":{"term":{"field":"n"}}}"#,
            "Could not find aggregator type [term] in [x]",
        );
    }

    #[test]
    fn refusals() {
        check(
            r#"{"x":{"terms":{"field":"s","size":0}}}"#,
            "[terms] failed to parse field [size]",
        );
        check(
            r#"{"x":{"terms":{"field":"s","order":{"_count":"up"}}}}"#,
            "[terms] failed to parse field [order]",
        );
        check(
            r#"{"x":{"terms":{"field":"s","collect_mode":"x"}}}"#,
            "[terms] failed to parse field [collect_mode]",
        );
        check(
            r#"{"x":{"histogram":{"field":"n","interval":"x"}}}"#,
            "[histogram] failed to parse field [interval]",
        );
        check(
            r#"{"x":{"date_histogram":{"field":"d","calendar_interval":"2d"}}}"#,
            "[date_histogram] failed to parse field [calendar_interval]",
        );
        check(
            r#"{"x":{"date_histogram":{"field":"d","fixed_interval":"month"}}}"#,
            "[date_histogram] failed to parse field [fixed_interval]",
        );
        check(r#"{"x":{"filters":{}}}"#, "[filters] cannot be empty.");
        check(r#"{"x":{"nested":{}}}"#, "Missing [path] field for nested aggregation [x]");
        check(
            r#"{"x":{"cardinality":{}}}"#,
            "Required one of fields [field, script], but none were specified.",
        );
        check(
            r#"{"x":{"percentiles":{"field":"n","percents":"x"}}}"#,
            "[percentiles] failed to parse field [percents]",
        );
        check(r#"{"x":{"composite":{}}}"#, "Required [sources]");
        check(
            r#"{"x":{"max_bucket":{}}}"#,
            "Missing required field [buckets_path] for aggregation [x]",
        );
        check(
            r#"{"x":{"range":{"field":"n"}}}"#,
            "No [ranges] specified for the [x] aggregation",
        );
        check(
            r#"{"x":{"weighted_avg":{"value":{"field":"s"}}}}"#,
            "Could not find field name [weight] in multiValuesSource",
        );
        check(
            r#"{"x":{"terms":{"field":"s"},"aggs":{"d":{"derivative":{"buckets_path":"_count"}}}}}"#,
            "Validation Failed: 1: derivative aggregation [d] must have a histogram, date_histogram or auto_date_histogram as parent;",
        );
    }

    #[test]
    fn rendered() {
        check(r#"{"m":{"max":{"field":"n"}}}"#, r#"{"m":{"max":{"field":"n"}}}"#);
        check(
            r#"{"t":{"terms":{"field":"s","order":[{"_term":"asc"}]},"meta":{"a":1},"aggs":{"g":{"global":{}}}}}"#,
            r#"{"t":{"terms":{"field":"s","size":10,"min_doc_count":1,"order":[{"_key":"asc"}]},"aggs":{"g":{"global":{}}},"meta":{"a":1}}}"#,
        );
        check(
            r#"{"d":{"date_histogram":{"field":"d","interval":"month"}}}"#,
            r#"{"d":{"date_histogram":{"field":"d","calendar_interval":"month","min_doc_count":0,"order":[{"_key":"asc"}]}}}"#,
        );
    }

    #[test]
    fn deep() {
        let mut text = r#"{"m":{"max":{"field":"n"}}}"#.to_owned();
        for _ in 0..32 {
            text = format!(r#"{{"g":{{"global":{{}},"aggs":{text}}}}}"#);
        }
        check(&text, "The aggregations are nested more than [32] deep");
    }
}
