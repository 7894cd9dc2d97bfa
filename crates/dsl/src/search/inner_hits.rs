//! The inner hits that 2015 also had beside the query, tied to no clause.

use super::request::take_key;
use super::{Page, SearchRequest};
use crate::json::Node;
use crate::query::hits::{INNER_HITS_KEYS, INNER_HITS_SIZE as SIZE};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::Value;

/// The documents behind a hit.
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
    /// The inner hits of each of its hits.
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
                request: SearchRequest::from(Page::new(SIZE, dialect)),
                inner: Vec::new(),
            };
            for (key, value) in shape::object(body, "inner_hits")? {
                match key.as_str() {
                    "inner_hits" => one.inner = FreeInnerHits::parse(value, dialect)?,
                    _ if key == "query" || INNER_HITS_KEYS.contains(&key.as_str()) => {
                        take_key(&mut one.request, &key, value)?;
                    }
                    _ => return Err(shape::unknown_field("inner_hits", &key, &value, INNER_HITS_KEYS)),
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
