//! The definition of an index that one server gives and another takes: which settings travel, what is a mapping with types.
//!
//! Not here: requests (`commands`), mappings of older servers in today's words (`commands/import/modern_mapping`).

use serde_json::{Map, Value};

/// Settings that another server may take, and that change what is found or how.
pub(crate) const PORTABLE_SETTINGS: &[&str] = &[
    "index.number_of_shards",
    "index.analysis.",
    "index.mapping.",
    "index.max_",
    "index.similarity.",
    "index.sort.",
];

/// The settings of these whose names begin with one of `names`.
pub(crate) fn settings_that<'a>(settings: &'a Value, is_taken: &'a dyn Fn(&str) -> bool) -> Map<String, Value> {
    let all = settings.as_object().into_iter().flatten();
    let taken = all.filter(|(name, value)| is_taken(name) && !value.is_null());
    taken.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The mappings of an index with types, one for each; `None`: it has one mapping, or none.
pub(crate) fn types_of(mappings: &Value) -> Option<&Map<String, Value>> {
    let members = mappings.as_object().filter(|members| !members.is_empty())?;
    let is_type = |(name, body): (&String, &Value)| {
        let is_of_mapping =
            name == "properties" || name.starts_with("dynamic") || name.starts_with('_') && name != "_default_" && name != "_doc";
        !is_of_mapping && body.is_object()
    };
    members.iter().all(is_type).then_some(members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mappings_with_and_without_types() {
        let check = |mappings: Value, expected: Option<usize>| {
            assert_eq!(types_of(&mappings).map(Map::len), expected, "{mappings}");
        };
        check(json!({ "post": { "properties": {} }, "user": {} }), Some(2));
        check(json!({ "_doc": { "properties": {} } }), Some(1));
        check(json!({ "_default_": {}, "post": {} }), Some(2));
        check(json!({ "properties": { "a": { "type": "long" } } }), None);
        check(json!({ "dynamic": "strict", "_routing": { "required": true } }), None);
        check(json!({}), None);
        check(Value::Null, None);
    }
}
