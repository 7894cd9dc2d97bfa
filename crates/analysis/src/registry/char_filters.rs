//! Char filters by name, with their options.

use super::*;
use crate::char_filters::{self, CharFilter, HtmlStrip, Mapping};
use crate::java_regex;
use crate::named::Named;
use crate::options::Options;
use model::{Error, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

impl Definitions {
    pub(super) fn char_filter(&self, name: &str) -> Result<Option<Named<dyn CharFilter>>> {
        if let Some((kind, values)) = self.definition("char_filter", name)? {
            let made = self.char_filter_of(&kind, &Options { name, values })?;
            let made = made.ok_or_else(|| Self::unknown("char_filter", &kind, name, CHAR_FILTERS))?;
            return Ok(Some(Named {
                name: name.into(),
                part: made.part,
            }));
        }
        match name {
            "html_strip" | "htmlStrip" => self.char_filter_of(
                name,
                &Options {
                    name,
                    values: &Map::new(),
                },
            ),
            _ => Ok(None),
        }
    }

    pub(super) fn char_filter_of(&self, kind: &str, o: &Options<'_>) -> Result<Option<Named<dyn CharFilter>>> {
        let part: Arc<dyn CharFilter> = match kind {
            "html_strip" | "htmlStrip" => {
                let tags = o.list("escaped_tags").unwrap_or_default();
                Arc::new(HtmlStrip {
                    escaped_tags: tags.iter().map(|tag| tag.to_lowercase()).collect(),
                })
            }
            "mapping" => {
                o.no_file("mappings_path")?;
                let Some(Value::Array(rules)) = o.values.get("mappings") else {
                    return Err(Error::illegal(
                        "mapping requires either `mappings` or `mappings_path` to be configured",
                    ));
                };
                let mut read = Vec::new();
                for rule in rules.iter().map(plain) {
                    let Some((from, to)) = rule.split_once("=>") else {
                        return Err(Error::illegal(format!("Invalid Mapping Rule : [{rule}]")));
                    };
                    let (from, to) = (unescape(from.trim()), unescape(to.trim()));
                    if from.is_empty() {
                        return Err(Error::illegal(format!(
                            "Invalid Mapping Rule : [{rule}]. The match must not be empty"
                        )));
                    }
                    read.push((from, to));
                }
                Arc::new(Mapping::new(read))
            }
            "pattern_replace" => {
                let flags = o.text("flags").unwrap_or_default();
                let (pattern, followed_by) = java_regex::compile_with_lookahead(&o.require("pattern")?, &flags)?;
                let replacement = java_regex::replacement(&o.text("replacement").unwrap_or_default(), pattern.captures_len());
                Arc::new(char_filters::PatternReplaceCharFilter {
                    pattern,
                    followed_by,
                    replacement,
                })
            }
            _ => return Ok(None),
        };
        Ok(Some(Named { name: kind.into(), part }))
    }
}
