//! `collapse`: the best hit of each value of a field.

use super::{InnerHits, shape};
use crate::json::Node;
use model::{Dialect, Result};
use serde_json::{Map, Value};

/// `collapse`.
#[derive(Clone, Debug, PartialEq)]
pub struct Collapse {
    /// The field whose values make the groups.
    pub field: String,
    /// What to show of each group beside its best hit.
    pub inner_hits: Vec<InnerHits>,
    /// A hint to other servers.
    pub max_concurrent_group_searches: Option<u32>,
}

impl Collapse {
    /// Reads `collapse`.
    ///
    /// # Errors
    /// No field, or an option that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<Collapse> {
        let mut fields = node.fields("collapse")?;
        let field = fields.take_string("field")?;
        let inner_hits = fields.take("inner_hits").map(Node::items).unwrap_or_default();
        let out = Collapse {
            field: field.ok_or_else(|| shape::required("field"))?,
            inner_hits: inner_hits
                .into_iter()
                .map(|item| InnerHits::parse(item, dialect))
                .collect::<Result<_>>()?,
            max_concurrent_group_searches: fields.take_u32("max_concurrent_group_searches")?,
        };
        fields.finish()?;
        Ok(out)
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        let mut out = Map::new();
        out.insert("field".into(), self.field.as_str().into());
        if !self.inner_hits.is_empty() {
            out.insert("inner_hits".into(), self.inner_hits.iter().map(InnerHits::render).collect());
        }
        if let Some(most) = self.max_concurrent_group_searches {
            out.insert("max_concurrent_group_searches".into(), most.into());
        }
        Value::Object(out)
    }
}
