//! `_source`: the part of a document's source that an answer carries.

use crate::json::{Json, Node};
use crate::shape;
use model::Result;
use serde_json::{Map, Value, json};

/// The part of `_source` that a hit carries.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum SourceSpec {
    /// Nothing was said: the source, unless stored fields were asked for.
    #[default]
    Default,
    /// All of it.
    All,
    /// Nothing of it.
    None,
    /// The fields that match an include (all, if there is none) and no exclude.
    Filtered {
        /// Patterns to keep.
        includes: Vec<String>,
        /// Patterns to leave out.
        excludes: Vec<String>,
    },
}

impl SourceSpec {
    /// Reads a boolean, a pattern, a list of patterns, or an object of `includes` and `excludes`.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(node: Node) -> Result<SourceSpec> {
        match &node.value {
            Json::Bool(true) => Ok(SourceSpec::All),
            Json::Bool(false) => Ok(SourceSpec::None),
            Json::String(_) | Json::Array(_) => Ok(filter(shape::strings(node, "_source")?, Vec::new())),
            Json::Object(_) => {
                let (mut includes, mut excludes) = (Vec::new(), Vec::new());
                for (key, value) in shape::object(node, "_source")? {
                    match key.as_str() {
                        "includes" | "include" => includes = shape::texts(value, &key)?,
                        "excludes" | "exclude" => excludes = shape::texts(value, &key)?,
                        // No field holds vectors, so there are none to leave out.
                        "exclude_vectors" => drop(value.boolean(&key)?),
                        _ => return Err(shape::unknown_key(&key, &value, &["includes", "excludes"])),
                    }
                }
                Ok(filter(includes, excludes))
            }
            Json::Null | Json::Number(_) => {
                let reason = format!(
                    "Expected one of [VALUE_BOOLEAN, START_OBJECT] but found [{}]",
                    node.kind_name()
                );
                Err(node.error(reason))
            }
        }
    }
    /// From the parameters `_source`, `_source_includes` and `_source_excludes`; `None` if none is given.
    pub fn from_params(source: Option<&str>, includes: Option<&str>, excludes: Option<&str>) -> Option<SourceSpec> {
        let mut kept = includes.map(patterns).unwrap_or_default();
        let left_out = excludes.map(patterns).unwrap_or_default();
        match source {
            Some("false") => return Some(SourceSpec::None),
            None | Some("true" | "") => {}
            Some(text) => {
                let mut all = patterns(text);
                all.append(&mut kept);
                kept = all;
            }
        }
        match (source, kept.is_empty() && left_out.is_empty()) {
            (None, true) => None,
            _ => Some(filter(kept, left_out)),
        }
    }
    /// As in a request; `None` where nothing need be said.
    pub fn render(&self) -> Option<Value> {
        match self {
            SourceSpec::Default => None,
            SourceSpec::All => Some(true.into()),
            SourceSpec::None => Some(false.into()),
            SourceSpec::Filtered { includes, excludes } => {
                let mut out = Map::new();
                for (name, list) in [("includes", includes), ("excludes", excludes)] {
                    if !list.is_empty() {
                        out.insert(name.into(), json!(list));
                    }
                }
                Some(Value::Object(out))
            }
        }
    }
}

fn filter(includes: Vec<String>, excludes: Vec<String>) -> SourceSpec {
    if includes.is_empty() && excludes.is_empty() {
        SourceSpec::All
    } else {
        SourceSpec::Filtered { includes, excludes }
    }
}

/// A comma-separated list.
fn patterns(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .map(str::to_owned)
        .collect()
}
