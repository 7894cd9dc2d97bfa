//! The body of `_analyze`.

use crate::json::Node;
use crate::search::shape;
use model::Result;
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
    pub fn parse(node: Node) -> Result<AnalyzeBody> {
        let mut fields = node.fields("analyze_request")?;
        let values = |node: Option<Node>| {
            node.map(Node::items)
                .unwrap_or_default()
                .into_iter()
                .map(Node::into_value)
                .collect()
        };
        let out = AnalyzeBody {
            text: fields.take_strings("text")?.unwrap_or_default(),
            analyzer: fields.take_string("analyzer")?,
            field: fields.take_string("field")?,
            normalizer: fields.take_string("normalizer")?,
            tokenizer: fields.take_value("tokenizer"),
            filter: values(fields.take_any(&["filter", "filters", "token_filters"])),
            char_filter: values(fields.take_any(&["char_filter", "char_filters"])),
            explain: fields.take_bool("explain")?.unwrap_or(false),
            attributes: fields.take_strings("attributes")?.unwrap_or_default(),
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
