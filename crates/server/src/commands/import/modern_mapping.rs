//! A mapping of Elasticsearch 1 to 6 in the words of today: `string` becomes `text` or `keyword`, and parameters that nothing
//! stands for any more are left out and named.
//!
//! Pure. Not here: which mapping (`remote`), what the server says to it.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Mappings nest no deeper than a server lets them.
const DEPTH_MAX: usize = 64;
/// Metadata fields of a mapping that no longer exist or that only repeat the default.
const OLD_METADATA: &[&str] = &[
    "_all",
    "_analyzer",
    "_boost",
    "_field_names",
    "_id",
    "_index",
    "_parent",
    "_size",
    "_timestamp",
    "_ttl",
    "_type",
];
/// Parameters of fields that no longer exist. None changes what a document is; some changed how it was indexed.
const OLD_PARAMETERS: &[&str] = &[
    "fielddata",
    "geohash",
    "geohash_precision",
    "geohash_prefix",
    "include_in_all",
    "index_name",
    "lat_lon",
    "normalize",
    "path",
    "postings_format",
    "precision_step",
    "validate",
];

/// A mapping in today's words.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Modern {
    pub(super) mapping: Map<String, Value>,
    /// Names of what was left out.
    pub(super) left_out: BTreeSet<String>,
}

impl Modern {
    /// The mapping of one type.
    ///
    /// # Errors
    /// A mapping that is nested too deeply.
    pub(super) fn of(mapping: &Value) -> Result<Modern, String> {
        let mut modern = Modern::default();
        for (name, value) in mapping.as_object().into_iter().flatten() {
            match name.as_str() {
                old if OLD_METADATA.contains(&old) => modern.left_out(old),
                "properties" => {
                    let fields = modern.fields(value, 0)?;
                    modern.mapping.insert(name.clone(), fields);
                }
                "dynamic_templates" => {
                    let templates = modern.templates(value)?;
                    modern.mapping.insert(name.clone(), templates);
                }
                _ => {
                    modern.mapping.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(modern)
    }

    fn left_out(&mut self, name: &str) {
        self.left_out.insert(name.to_owned());
    }

    fn fields(&mut self, fields: &Value, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("a mapping is nested more than [{DEPTH_MAX}] deep"));
        }
        let all = fields.as_object().into_iter().flatten();
        let converted = all.map(|(name, field)| Ok((name.clone(), self.field(field, depth)?)));
        converted.collect::<Result<Map<String, Value>, String>>().map(Value::Object)
    }

    fn field(&mut self, field: &Value, depth: usize) -> Result<Value, String> {
        let Some(members) = field.as_object() else {
            return Ok(field.clone());
        };
        let is_string = members.get("type").is_some_and(|name| name == "string");
        let is_whole = members
            .get("index")
            .is_some_and(|index| index == "not_analyzed" || index == "no");
        let mut out = Map::new();
        for (name, value) in members {
            match name.as_str() {
                "type" if is_string => drop(out.insert(name.clone(), if is_whole { "keyword" } else { "text" }.into())),
                "properties" | "fields" => drop(out.insert(name.clone(), self.fields(value, depth + 1)?)),
                "index" if value == "no" => drop(out.insert(name.clone(), false.into())),
                "index" if value == "analyzed" || value == "not_analyzed" => {}
                "index_analyzer" => drop(out.insert("analyzer".into(), value.clone())),
                "analyzer" | "search_analyzer" | "search_quote_analyzer" | "position_increment_gap" | "term_vector"
                    if is_string && is_whole =>
                {
                    self.left_out(name)
                }
                "null_value" | "ignore_above" if is_string && !is_whole => self.left_out(name),
                "position_offset_gap" => drop(out.insert("position_increment_gap".into(), value.clone())),
                "norms" if value.is_object() => drop(out.insert(name.clone(), (value["enabled"] != false).into())),
                "omit_norms" => drop(out.insert("norms".into(), (value != true && value != "true").into())),
                "store" if value == "yes" || value == "no" => drop(out.insert(name.clone(), (value == "yes").into())),
                "format" => drop(out.insert(name.clone(), date_format(value))),
                "similarity" if value == "default" => self.left_out(name),
                old if OLD_PARAMETERS.contains(&old) => self.left_out(old),
                _ => drop(out.insert(name.clone(), value.clone())),
            }
        }
        Ok(Value::Object(out))
    }

    fn templates(&mut self, templates: &Value) -> Result<Value, String> {
        let mut out = Vec::new();
        for template in templates.as_array().into_iter().flatten() {
            let mut named = Map::new();
            for (name, body) in template.as_object().into_iter().flatten() {
                let mut body = body.clone();
                if let Some(mapping) = body.get_mut("mapping") {
                    *mapping = self.field(&mapping.clone(), 0)?;
                }
                named.insert(name.clone(), body);
            }
            out.push(Value::Object(named));
        }
        Ok(json!(out))
    }
}

/// Names of date formats as they are written today: `dateOptionalTime` is `date_optional_time`.
fn date_format(format: &Value) -> Value {
    let Some(text) = format.as_str() else { return format.clone() };
    let one = |name: &str| {
        let has_words = name.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
            && name.bytes().all(|byte| byte.is_ascii_alphabetic())
            && name
                .as_bytes()
                .windows(2)
                .all(|two| !two[0].is_ascii_uppercase() || two[1].is_ascii_lowercase())
            && name.bytes().any(|byte| byte.is_ascii_uppercase())
            && !name.starts_with('y');
        if !has_words {
            return name.to_owned();
        }
        name.chars().fold(String::new(), |mut out, letter| {
            if letter.is_ascii_uppercase() {
                out.push('_');
            }
            out.push(letter.to_ascii_lowercase());
            out
        })
    };
    text.split("||").map(one).collect::<Vec<_>>().join("||").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field: Value, expected: Value, left_out: &[&str]) {
        let modern = Modern::of(&json!({ "properties": { "f": field } })).expect("it is not deep");
        assert_eq!(modern.mapping["properties"]["f"], expected, "{field}");
        assert_eq!(
            modern.left_out.iter().map(String::as_str).collect::<Vec<_>>(),
            left_out,
            "{field}"
        );
    }

    #[test]
    fn strings_are_texts_or_keywords() {
        check(json!({ "type": "string" }), json!({ "type": "text" }), &[]);
        check(
            json!({ "type": "string", "index": "not_analyzed", "ignore_above": 256, "include_in_all": false }),
            json!({ "type": "keyword", "ignore_above": 256 }),
            &["include_in_all"],
        );
        check(
            json!({ "type": "string", "index": "no", "store": "yes" }),
            json!({ "type": "keyword", "index": false, "store": true }),
            &[],
        );
        check(
            json!({ "type": "string", "index_analyzer": "paths", "search_analyzer": "keyword", "norms": { "enabled": false },
                "fields": { "raw": { "type": "string", "index": "not_analyzed", "analyzer": "x" } } }),
            json!({ "type": "text", "analyzer": "paths", "search_analyzer": "keyword", "norms": false,
                "fields": { "raw": { "type": "keyword" } } }),
            &["analyzer"],
        );
        check(
            json!({ "type": "string", "null_value": "x", "omit_norms": "true" }),
            json!({ "type": "text", "norms": false }),
            &["null_value"],
        );
    }

    #[test]
    fn other_fields_lose_what_is_no_more() {
        check(
            json!({ "type": "long", "index": "not_analyzed", "precision_step": 4 }),
            json!({ "type": "long" }),
            &["precision_step"],
        );
        check(
            json!({ "type": "date", "format": "dateOptionalTime||yyyy-MM-dd||yyyyMMdd||strict_date" }),
            json!({ "type": "date", "format": "date_optional_time||yyyy-MM-dd||yyyyMMdd||strict_date" }),
            &[],
        );
        check(
            json!({ "type": "nested", "properties": { "name": { "type": "string", "similarity": "default" } } }),
            json!({ "type": "nested", "properties": { "name": { "type": "text" } } }),
            &["similarity"],
        );
        check(
            json!({ "type": "keyword", "normalizer": "n" }),
            json!({ "type": "keyword", "normalizer": "n" }),
            &[],
        );
    }

    #[test]
    fn metadata_and_templates() {
        let old = json!({
            "_all": { "enabled": false }, "_routing": { "required": true }, "dynamic": "strict",
            "dynamic_templates": [{ "all": { "match": "*", "mapping": { "type": "string", "index": "not_analyzed" } } }],
        });
        let modern = Modern::of(&old).expect("it is not deep");
        let expected = json!({
            "_routing": { "required": true }, "dynamic": "strict",
            "dynamic_templates": [{ "all": { "match": "*", "mapping": { "type": "keyword" } } }],
        });
        assert_eq!(Value::Object(modern.mapping), expected);
        assert_eq!(modern.left_out.into_iter().collect::<Vec<_>>(), ["_all"]);
    }

    #[test]
    fn a_mapping_that_is_too_deep_is_refused() {
        let mut field = json!({ "type": "long" });
        for _ in 0..=DEPTH_MAX {
            field = json!({ "properties": { "f": field } });
        }
        assert!(Modern::of(&json!({ "properties": { "f": field } })).is_err_and(|why| why.contains("deep")));
    }
}
