//! `inner_hits` of a clause or a group: the nested documents, children or members behind a hit.

use super::Page;
use crate::json::Node;
use crate::shape;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// How many inner hits are shown unless the request says.
pub(crate) const SIZE: usize = 3;

/// `inner_hits` of nested, parent/child, join and collapse.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerHits {
    /// Its name in the answer.
    pub name: Option<String>,
    /// The hits that are shown.
    pub page: Page,
    /// No error where the path is not mapped.
    pub ignore_unmapped: bool,
    /// Collapse inside inner hits.
    pub collapse: Option<String>,
}

/// The keys of a search that inner hits have too.
pub(crate) const KEYS: &[&str] = &[
    "name",
    "ignore_unmapped",
    "collapse",
    "from",
    "size",
    "sort",
    "_source",
    "fields",
    "docvalue_fields",
    "fielddata_fields",
    "stored_fields",
    "script_fields",
    "highlight",
    "explain",
    "version",
    "seq_no_primary_term",
    "track_scores",
];

impl InnerHits {
    /// Reads `inner_hits`.
    ///
    /// # Errors
    /// An option that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<InnerHits> {
        let mut out = InnerHits {
            name: None,
            page: Page::new(SIZE, dialect),
            ignore_unmapped: false,
            collapse: None,
        };
        if !node.is_object() && !dialect.rules.tolerates_value_types {
            return Err(node.error(format!("[inner_hits] must be an object but was {}", node.kind_name())));
        }
        // A list was passed over in 2015.
        let node = if node.is_array() && dialect.rules.tolerates_value_types {
            Node::from_value(serde_json::json!({}))
        } else {
            node
        };
        for (key, value) in shape::object(node, "inner_hits")? {
            let at = (value.line, value.col);
            match key.as_str() {
                "name" => out.name = Some(value.string("name")?),
                "ignore_unmapped" => out.ignore_unmapped = value.boolean("ignore_unmapped")?,
                "collapse" => {
                    let mut fields = value.fields("collapse")?;
                    out.collapse = fields.take_string("field")?;
                    fields.finish()?;
                }
                "sort" if !dialect.rules.tolerates_value_types && !value.is_array() && !value.is_object() => {
                    let (line, col) = at;
                    let what = format!(
                        "[{line}:{col}] [inner_hits] sort doesn't support values of type: {}",
                        value.kind_name()
                    );
                    return Err(Error::new(ErrorKind::XContentParse, what));
                }
                "from" | "size" if !dialect.rules.refusals_are_unwrapped => out
                    .page
                    .take_key(&key, value)
                    .map(drop)
                    .map_err(|cause| shape::failed_field("inner_hits", &key, at, cause))?,
                _ if KEYS.contains(&key.as_str()) => drop(out.page.take_key(&key, value)?),
                _ => return Err(shape::unknown_field("inner_hits", &key, &value, KEYS)),
            }
        }
        Ok(out)
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        let mut out = Map::new();
        self.page.render(10, &mut out);
        out.insert("from".into(), self.page.from.into());
        out.insert("size".into(), self.page.size.into());
        if let Some(name) = &self.name {
            out.insert("name".into(), name.as_str().into());
        }
        if self.ignore_unmapped {
            out.insert("ignore_unmapped".into(), true.into());
        }
        if let Some(field) = &self.collapse {
            out.insert("collapse".into(), serde_json::json!({ "field": field }));
        }
        Value::Object(out)
    }
}
