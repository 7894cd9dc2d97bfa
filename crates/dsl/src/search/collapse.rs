//! `collapse`: the best hit of each value of a field.

use super::InnerHits;
use crate::json::{Node, unsupported_value};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value};

/// `collapse`.
#[derive(Clone, Debug, PartialEq)]
pub struct Collapse {
    /// The field whose values make the groups.
    pub field: String,
    /// The hits to show of each group beside its best one.
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
        if !node.is_object() && !dialect.rules.tolerates_value_types {
            return Err(node.error(format!("[collapse] must be an object but was {}", node.kind_name())));
        }
        let mut fields = node.fields("collapse")?;
        let field = match fields.take("field") {
            Some(node) if node.is_array() || node.is_object() || node.is_null() && !dialect.rules.tolerates_value_types => {
                return Err(unsupported_value("collapse", "field", &node));
            }
            node => node.map(|node| node.string("field")).transpose()?,
        };
        let inner_hits = fields.take("inner_hits");
        if let Some(node) = inner_hits
            .as_ref()
            .filter(|node| !dialect.rules.tolerates_value_types && !node.is_object() && !node.is_array())
        {
            return Err(unsupported_value("collapse", "inner_hits", node));
        }
        let inner_hits = inner_hits.map(Node::items).unwrap_or_default();
        let most = fields.take("max_concurrent_group_searches");
        let most = most
            .map(|node| {
                let at = (node.line, node.col);
                let refuse = |cause| shape::failed_field("collapse", "max_concurrent_group_searches", at, cause);
                match node.u32("max_concurrent_group_searches").map_err(refuse)? {
                    0 => Err(refuse(Error::illegal("[maxConcurrentGroupRequests] must be positive"))),
                    most => Ok(most),
                }
            })
            .transpose()?;
        let read = |item: Node| {
            let at = (item.line, item.col);
            let read = InnerHits::parse(item, dialect);
            read.map_err(|cause| match dialect.rules.refusals_are_unwrapped {
                true => cause,
                false => shape::failed_field("collapse", "inner_hits", at, cause),
            })
        };
        let inner_hits = inner_hits.into_iter().map(read).collect::<Result<_>>()?;
        fields.finish()?;
        let out = Collapse {
            field: field.ok_or_else(|| shape::missing_required("field"))?,
            inner_hits,
            max_concurrent_group_searches: most,
        };
        // Groups have no path or type that could name what is shown of them.
        if !dialect.rules.tolerates_missing_options
            && out.inner_hits.iter().any(|one| one.name.as_deref().is_none_or(str::is_empty))
        {
            return Err(Error::illegal(
                "Field name cannot be null: [collapse] needs a [name] for each of its [inner_hits]",
            ));
        }
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
