//! The body of `_analyze`.

use crate::json::{Fields, Node};
use crate::shape;
use model::{Dialect, Result};
use serde_json::Value;

/// `_analyze`. Tokenizers and filters are names or definitions.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct AnalyzeBody {
    pub text: Vec<String>,
    pub analyzer: Option<String>,
    pub field: Option<String>,
    pub normalizer: Option<String>,
    pub tokenizer: Option<Value>,
    pub filter: Vec<Value>,
    pub char_filter: Vec<Value>,
    pub explain: bool,
    pub attributes: Vec<String>,
}

impl AnalyzeBody {
    /// Reads the body.
    ///
    /// # Errors
    /// A key that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<AnalyzeBody> {
        let mut fields = node
            .fields("analyze_request")?
            .of_object(!dialect.rules.tolerates_value_types);
        const LIST: &[&str] = &["START_ARRAY", "VALUE_STRING"];
        const PART: &[&str] = &["VALUE_STRING", "START_OBJECT"];
        let texts = |fields: &mut Fields, name: &str| {
            let read = fields.read(name, LIST, |node| {
                node.clone().items().iter().map(|item| item.string(name)).collect()
            });
            read.map(Option::unwrap_or_default)
        };
        let parts = |fields: &mut Fields, names: &[&str]| -> Result<Vec<Value>> {
            let mut all = Vec::new();
            for name in names {
                let read = fields.read(name, &["START_ARRAY", "VALUE_STRING", "START_OBJECT"], |node| {
                    Ok(node.clone().items().into_iter().map(Node::into_value).collect::<Vec<_>>())
                })?;
                all.extend(read.into_iter().flatten());
            }
            Ok(all)
        };
        let out = AnalyzeBody {
            text: texts(&mut fields, "text")?,
            analyzer: fields.take_string("analyzer")?,
            field: fields.take_string("field")?,
            normalizer: fields.take_string("normalizer")?,
            tokenizer: fields.read("tokenizer", PART, |node| Ok(node.to_value()))?,
            filter: parts(&mut fields, &["filter", "filters", "token_filters"])?,
            char_filter: parts(&mut fields, &["char_filter", "char_filters"])?,
            explain: fields.take_bool("explain")?.unwrap_or(false),
            attributes: texts(&mut fields, "attributes")?,
        };
        fields.finish()?;
        Ok(out)
    }
    /// Refuses what cannot be analyzed; after parameters of the URL were merged.
    ///
    /// # Errors
    /// No text, or parts beside a whole.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        if self.text.is_empty() {
            problems.push("text is missing".to_owned());
        }
        if self.analyzer.is_some() && (self.tokenizer.is_some() || !self.filter.is_empty() || !self.char_filter.is_empty()) {
            problems.push("cannot define extra components on a named analyzer".to_owned());
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(shape::validation_failed(&problems))
        }
    }
}
