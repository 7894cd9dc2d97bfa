//! Templates of equal priority whose patterns overlap.
//!
//! Not here: the endpoints that use it (`handlers`).

use model::{Error, Result};
use serde_json::Value;

/// Longer patterns are the name of no index.
pub(crate) const PATTERN_MAX: usize = 255;

/// Refuses a template of the same priority as another that is for some of the same indices: which one counts could not be told.
/// A template for system indices is left to the engine, which refuses it whatever its priority.
pub(crate) fn refuse_equals(name: &str, body: &Value, others: &[(String, Value)]) -> Result<()> {
    if patterns(body).any(model::system_index::is_system) {
        return Ok(());
    }
    let priority = |body: &Value| body["priority"].as_i64().unwrap_or(0);
    let equals: Vec<&(String, Value)> = others
        .iter()
        .filter(|(known, other)| known != name && priority(other) == priority(body) && overlap(body, other))
        .collect();
    if equals.is_empty() {
        return Ok(());
    }
    let shown = |body: &Value| format!("[{}]", patterns(body).collect::<Vec<_>>().join(", "));
    let names: Vec<&str> = equals.iter().map(|(name, _)| name.as_str()).collect();
    let pairs: Vec<String> = equals
        .iter()
        .map(|(name, body)| format!("{name} => {}", shown(body)))
        .collect();
    Err(Error::illegal(format!(
        "index template [{name}] has index patterns {} matching patterns from existing templates [{}] with patterns ({}) that have the same \
         priority [{}], multiple index templates may not match during index creation, please use a different priority",
        shown(body),
        names.join(","),
        pairs.join(","),
        priority(body)
    )))
}

pub(crate) fn patterns(body: &Value) -> impl Iterator<Item = &str> {
    body["index_patterns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Is there a name that both are for?
pub(crate) fn overlap(one: &Value, other: &Value) -> bool {
    patterns(one).any(|a| patterns(other).any(|b| meet(a, b)))
}

/// Is there a name that both patterns match? From the end, place by place of both.
pub(crate) fn meet(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len() > PATTERN_MAX || other.len() > PATTERN_MAX {
        return false;
    }
    let mut below = vec![false; other.len() + 1];
    for i in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 1];
        for j in (0..=other.len()).rev() {
            row[j] = match (one.get(i), other.get(j)) {
                (None, None) => true,
                (Some('*'), right) => below[j] || right.is_some() && row[j + 1],
                (left, Some('*')) => row[j + 1] || left.is_some() && below[j],
                (left, right) => left == right && below[j + 1],
            };
        }
        below = row;
    }
    below[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(one: &str, other: &str, expected: bool) {
        assert_eq!(meet(one, other), expected, "{one} and {other}");
        assert_eq!(meet(other, one), expected, "{other} and {one}");
    }

    #[test]
    fn patterns_meet() {
        check("a", "a", true);
        check("a", "b", false);
        check("a*", "ab*", true);
        check("a*", "*b", true);
        check("a*", "b*", false);
        check("*", "", true);
        check("t*", "te*", true);
        check("*x*", "ax", true);
        check("a*c", "ab", false);
        check("a**", "a", true);
    }
}
