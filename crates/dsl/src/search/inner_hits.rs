//! `inner_hits`: the nested documents, children or group members behind a hit.

use super::request::take_key;
use super::{SearchRequest, TrackTotal, shape};
use crate::json::Node;
use crate::query::Parsing;
use model::{Dialect, Result};
use serde_json::Value;

/// `inner_hits` of nested, parent/child, join and collapse.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerHits {
    /// Its name in the answer.
    pub name: Option<String>,
    /// The page, its order and what each hit carries.
    pub request: SearchRequest,
    /// No error where the path is not mapped.
    pub ignore_unmapped: bool,
    /// Collapse inside inner hits.
    pub collapse: Option<String>,
}

/// Reads queries whose inner hits are read as wholes.
pub fn parsing(dialect: Dialect) -> Parsing {
    Parsing {
        inner_hits: |node, cx| InnerHits::parse(node, cx.dialect),
        ..Parsing::new(dialect)
    }
}

/// The keys of a search that inner hits have too.
const KEYS: &[&str] = &[
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
        let request = SearchRequest {
            size: 3,
            track_total_hits: TrackTotal::Exact,
            dialect,
            ..SearchRequest::default()
        };
        let mut out = InnerHits {
            name: None,
            request,
            ignore_unmapped: false,
            collapse: None,
        };
        for (key, value) in shape::object(node, "inner_hits")? {
            match key.as_str() {
                "name" => out.name = Some(value.string("name")?),
                "ignore_unmapped" => out.ignore_unmapped = value.boolean("ignore_unmapped")?,
                "collapse" => {
                    let mut fields = value.fields("collapse")?;
                    out.collapse = fields.take_string("field")?;
                    fields.finish()?;
                }
                _ if KEYS.contains(&key.as_str()) => take_key(&mut out.request, &key, value)?,
                _ => return Err(shape::unknown_field("inner_hits", &key, &value, KEYS)),
            }
        }
        Ok(out)
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        let mut out = self.request.render();
        if let Some(body) = out.as_object_mut() {
            body.remove("track_total_hits");
            body.insert("from".into(), self.request.from.into());
            body.insert("size".into(), self.request.size.into());
            if let Some(name) = &self.name {
                body.insert("name".into(), name.as_str().into());
            }
            if self.ignore_unmapped {
                body.insert("ignore_unmapped".into(), true.into());
            }
            if let Some(field) = &self.collapse {
                body.insert("collapse".into(), serde_json::json!({ "field": field }));
            }
        }
        out
    }
}
