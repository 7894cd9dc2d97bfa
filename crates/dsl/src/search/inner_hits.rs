//! `inner_hits`: the nested documents, children or group members behind a hit. 2015 also had them beside the query,
//! tied to no clause: [`FreeInnerHits`].

use super::request::take_key;
use super::{SearchRequest, TrackTotal, shape};
use crate::json::Node;
use model::{Dialect, Error, ErrorKind, Result};
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
        if !node.is_object() && !dialect.typed {
            return Err(node.error(format!("[inner_hits] must be an object but was {}", node.kind_name())));
        }
        // A list was passed over in 2015.
        let node = if node.is_array() && dialect.typed {
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
                "sort" if !dialect.typed && !value.is_array() && !value.is_object() => {
                    let (line, col) = at;
                    let what = format!(
                        "[{line}:{col}] [inner_hits] sort doesn't support values of type: {}",
                        value.kind_name()
                    );
                    return Err(Error::new(ErrorKind::XContentParse, what));
                }
                "from" | "size" if !dialect.typed => {
                    take_key(&mut out.request, &key, value).map_err(|cause| shape::failed_field("inner_hits", &key, at, cause))?
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

/// What the inner hits beside a query are of.
#[derive(Clone, Debug, PartialEq)]
pub enum FreeOf {
    /// Nested documents of a path.
    Path(String),
    /// Children or parents of a type.
    Type(String),
}

/// `inner_hits` beside the query, as 2015 had them: every hit shows them, whatever it was found by.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeInnerHits {
    /// Its name in the answer.
    pub name: String,
    pub of: FreeOf,
    /// The page; its query says which count, none is all.
    pub request: SearchRequest,
    /// Those of each of its hits.
    pub inner: Vec<FreeInnerHits>,
}

impl FreeInnerHits {
    /// Reads `{name: {path: {a path: {…}}}}` and `{name: {type: {a type: {…}}}}`; JSON is bounded in depth.
    ///
    /// # Errors
    /// Neither a path nor a type; an option that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<Vec<FreeInnerHits>> {
        let mut out = Vec::new();
        if node.is_array() {
            return Err(Error::illegal(
                "Unexpected token END_ARRAY in [inner_hits]: inner_hit definitions must start with the name of the inner_hit.",
            ));
        }
        for (name, node) in shape::object(node, "inner_hits")? {
            if !node.is_object() {
                return Err(Error::illegal(format!(
                    "Inner hit definition for [{name} starts with a [{}], expected a [START_OBJECT].",
                    node.kind_name()
                )));
            }
            let lacking =
                Error::illegal("Unexpected token END_OBJECT inside inner hit definition. Either specify [path] or [type] object");
            let mut kinds = shape::object(node, "inner_hits")?.into_iter();
            let (kind, named) = kinds.next().ok_or_else(|| lacking.clone())?;
            let mut members = shape::object(named, &kind)?.into_iter();
            let (key, body) = members.next().ok_or_else(|| lacking.clone())?;
            let of = match kind.as_str() {
                "path" => FreeOf::Path(key),
                "type" => FreeOf::Type(key),
                _ => return Err(lacking),
            };
            if kinds.next().is_some() || members.next().is_some() {
                return Err(lacking);
            }
            let mut one = FreeInnerHits {
                name,
                of,
                request: SearchRequest {
                    size: 3,
                    track_total_hits: TrackTotal::Exact,
                    dialect,
                    ..SearchRequest::default()
                },
                inner: Vec::new(),
            };
            for (key, value) in shape::object(body, "inner_hits")? {
                match key.as_str() {
                    "inner_hits" => one.inner = FreeInnerHits::parse(value, dialect)?,
                    "query" => take_key(&mut one.request, &key, value)?,
                    _ if KEYS.contains(&key.as_str()) => take_key(&mut one.request, &key, value)?,
                    _ => return Err(shape::unknown_field("inner_hits", &key, &value, KEYS)),
                }
            }
            out.push(one);
        }
        Ok(out)
    }
    /// As in a request.
    pub(crate) fn render(list: &[FreeInnerHits]) -> Value {
        let one = |one: &FreeInnerHits| {
            let mut body = one.request.render();
            if let Some(body) = body.as_object_mut() {
                body.remove("track_total_hits");
                body.insert("size".into(), one.request.size.into());
                if !one.inner.is_empty() {
                    body.insert("inner_hits".into(), FreeInnerHits::render(&one.inner));
                }
            }
            let of = match &one.of {
                FreeOf::Path(path) => serde_json::json!({ "path": { path.as_str(): body } }),
                FreeOf::Type(name) => serde_json::json!({ "type": { name.as_str(): body } }),
            };
            (one.name.clone(), of)
        };
        Value::Object(list.iter().map(one).collect())
    }
}
