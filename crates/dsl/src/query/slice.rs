//! `slice`: one of several equal parts of the documents that a scroll or a point in time reads.

use crate::json::Node;
use crate::shape;
use model::{Error, Result};
use serde_json::{Value, json};

/// `slice`: one of several equal parts of a scroll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which one, from 0.
    pub id: u32,
    /// How many there are.
    pub max: u32,
    /// The field by which documents are divided; `_id` by default.
    pub field: Option<String>,
}

impl Slice {
    /// Reads `slice`.
    pub(crate) fn parse(node: Node) -> Result<Slice> {
        let (line, col) = (node.line, node.col);
        let mut fields = node.fields("slice")?.of_object(true);
        let id = fields.take_i64("id")?;
        let max = fields.take_i64("max")?;
        let field = fields.take_string("field")?;
        fields.finish()?;
        let refuse = |key: &str, reason: &str| Err(shape::failed_field("slice", key, (line, col), Error::illegal(reason)));
        match (id.map(u32::try_from), max.map(u32::try_from)) {
            (Some(Err(_)), _) => refuse("id", "id must be greater than or equal to 0"),
            (_, Some(Err(_) | Ok(0 | 1))) => refuse("max", "max must be greater than 1"),
            (Some(Ok(id)), Some(Ok(max))) if id >= max => refuse("max", "max must be greater than id"),
            (Some(Ok(id)), Some(Ok(max))) => Ok(Slice { id, max, field }),
            (None, _) => Err(Error::illegal("id must be greater than or equal to 0")),
            (_, None) => Err(Error::illegal("max must be greater than 1")),
        }
    }
    /// As in a request.
    pub(crate) fn render(&self) -> Value {
        let mut out = json!({ "id": self.id, "max": self.max });
        if let (Some(field), Some(map)) = (&self.field, out.as_object_mut()) {
            map.insert("field".into(), field.as_str().into());
        }
        out
    }
}
