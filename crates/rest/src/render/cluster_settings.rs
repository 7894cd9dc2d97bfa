//! Settings of the cluster, as answers show them.
//!
//! Not here: the endpoints that use it (`handlers`).

use serde_json::{Map, Value};

pub(crate) fn shape(settings: Map<String, Value>, flat: bool) -> Value {
    if flat {
        return Value::Object(settings);
    }
    let mut out = Value::Object(Map::new());
    for (name, value) in settings {
        model::path::set(&mut out, &name, value);
    }
    out
}
