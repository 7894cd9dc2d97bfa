//! Dynamic templates and date formats at the root of a mapping: how they are written, and their checks.

use crate::mapping::Root;
use crate::wording::{java, mapper_parsing, text_of};
use model::compat::IndexRules;
use model::date::{DateFormat, PatternSyntax};
use model::{Error, Result};
use serde_json::{Map, Value};

/// The keys of a dynamic template today.
const TEMPLATE_KEYS: &[&str] = &[
    "match",
    "path_match",
    "unmatch",
    "path_unmatch",
    "match_mapping_type",
    "match_pattern",
    "mapping",
];

/// Checks what stands at the root of a mapping and matters here.
pub(crate) fn check(top: &Root, rules: &IndexRules) -> Result<()> {
    if let Some(templates) = top.get("dynamic_templates") {
        let Value::Array(templates) = templates else {
            return Err(mapper_parsing(
                "Dynamic template syntax error. An array of named objects is expected.",
            ));
        };
        for template in templates {
            let alone = rules.tolerates_mapping_mistakes || template.as_object().is_some_and(|template| template.len() == 1);
            let Some((name, body)) = name_and_body(template).filter(|_| alone) else {
                return Err(mapper_parsing("A dynamic template must be defined with a name"));
            };
            if let Some(unknown) = body
                .keys()
                .find(|key| !rules.tolerates_mapping_mistakes && !TEMPLATE_KEYS.contains(&key.as_str()))
            {
                return Err(Error::illegal(format!("Illegal dynamic template parameter: [{unknown}]")));
            }
            if !body.get("mapping").is_some_and(Value::is_object) {
                return Err(mapper_parsing(if rules.mapping_refusal_words {
                    "template must have mapping set".to_owned()
                } else {
                    format!("template [{name}] must have a mapping set")
                }));
            }
            if !rules.tolerates_mapping_mistakes
                && !["match", "path_match", "match_mapping_type"]
                    .iter()
                    .any(|key| body.contains_key(*key))
            {
                return Err(mapper_parsing(format!(
                    "template must have match, path_match or match_mapping_type set {}",
                    java(&Value::Object(body.clone()))
                )));
            }
            if let Some(kind) = body.get("match_mapping_type").map(text_of)
                && !rules.tolerates_mapping_mistakes
                && !["*", "object", "string", "long", "double", "boolean", "date", "binary"].contains(&kind.as_str())
            {
                return Err(Error::illegal(format!(
                    "No field type matched on [{kind}], possible values are [object, string, long, double, boolean, date, binary]"
                )));
            }
            match body.get("match_pattern").map(text_of).as_deref() {
                None | Some("simple") => {}
                Some("regex") => {
                    for key in ["match", "unmatch"] {
                        for pattern in patterns(body, key) {
                            regex(&pattern).map_err(|e| {
                                Error::illegal(format!("Pattern [{pattern}] of template [{name}] is invalid: {e}"))
                            })?;
                        }
                    }
                }
                Some(other) => {
                    return Err(Error::illegal(format!("No matching pattern matched on [{other}]")));
                }
            }
        }
    }
    for format in date_formats(top).unwrap_or_default() {
        DateFormat::parse_pattern_of(&format, PatternSyntax::of(rules.joda_patterns))?;
    }
    Ok(())
}

/// The name and the body of a template.
pub(crate) fn name_and_body(template: &Value) -> Option<(&String, &Map<String, Value>)> {
    let (name, body) = template.as_object()?.iter().next()?;
    Some((name, body.as_object()?))
}

/// The patterns under a key of a template.
pub(crate) fn patterns(template: &Map<String, Value>, key: &str) -> Vec<String> {
    match template.get(key) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items.iter().map(text_of).collect(),
        Some(one) => vec![text_of(one)],
    }
}

/// A pattern that matches whole names.
pub(crate) fn regex(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(1 << 20)
        .build()
}

/// The formats in which texts are dates.
pub(crate) fn date_formats(top: &Root) -> Option<Vec<String>> {
    match top.get("dynamic_date_formats").or_else(|| top.get("date_formats"))? {
        Value::Array(items) => Some(items.iter().map(text_of).collect()),
        one => Some(vec![text_of(one)]),
    }
}
