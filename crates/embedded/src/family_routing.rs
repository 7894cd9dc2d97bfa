//! The routing of children in a join field, worked out where the caller did not pass it.
//!
//! A family lies where its root lies: a child of a root is routed by the root's routing or id, one further down
//! as its parent is. Not here: whether a document needs a routing (`mapping`).

use crate::catalog::IndexEntry;
use engine::Document;
use mapping::Mapping;
use model::{DocAddress, DocId, Error, ErrorKind, Result, path};
use serde_json::Value;

/// The routing of a document that names none; `None` if it needs none, or if what it says of its family is
/// wrong, which reading it will tell. `document` finds the parent.
///
/// # Errors
/// The parent is not there and is no root: then only the caller can know.
pub(crate) fn routing_of_family(
    entry: &IndexEntry,
    mapping: &Mapping,
    source: &Value,
    document: &dyn Fn(&DocAddress) -> Result<Option<Document>>,
) -> Result<Option<String>> {
    if entry.has_types() {
        return Ok(None);
    }
    let Some((field, kind)) = mapping.join_field() else {
        return Ok(None);
    };
    let found = path::read(source, field);
    let Some(member) = found.first() else { return Ok(None) };
    let text = |name: &str| match member.get(name) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(n)) => Some(n.to_string()),
        _ => None,
    };
    let (Some(name), Some(parent)) = (text("name"), text("parent")) else {
        return Ok(None);
    };
    let Some(above) = kind.parent_of(&name) else { return Ok(None) };
    let at = DocAddress {
        index: entry.name.clone(),
        id: DocId::plain(parent.as_str()),
    };
    if let Some(document) = document(&at)? {
        return Ok(Some(document.routing.unwrap_or(parent)));
    }
    let Some(further) = kind.parent_of(above) else {
        return Ok(Some(parent));
    };
    let reason = format!(
        "[routing] is missing for join field [{field}]: the parent [{parent}] is not there to tell it; \
         pass routing=ID, the id (or routing) of the [{further}] that the [{above}] [{parent}] belongs to"
    );
    Err(Error::new(ErrorKind::MapperParsing, "failed to parse").with_cause(Error::illegal(reason)))
}
