//! The type of 2015 whose documents are queries, `.percolator`: its mapping.

use relations::percolation::TYPE;
use serde_json::{Value, json};

/// The mapping of what keeps a query: the query itself is no field.
pub(crate) fn kept_mapping() -> Value {
    json!({ "properties": { "query": { "type": "object", "enabled": false } } })
}

/// The mapping of the type in the mappings of a new index, completed.
pub(crate) fn complete(mappings: &mut Value) {
    if let Some(own) = mappings.get_mut(TYPE).filter(|own| own.is_object())
        && own.pointer("/properties/query").is_none()
    {
        engine::merge(own, &kept_mapping(), 0);
    }
}
