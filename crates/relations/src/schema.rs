//! Names of the indices that we keep ourselves. Clients may not write to them.

use engine::Alteration;
use serde_json::{Map, json};

/// Sessions, kept outcomes and the like.
pub const CONTROL: &str = ".pleach-control";

/// Makes the control index. What is not searched for is kept and not looked into.
pub(crate) fn make_control() -> Alteration {
    let settings = json!({ "index.hidden": "true", "index.number_of_replicas": "0", "index.refresh_interval": "-1" });
    Alteration::CreateIndex {
        name: CONTROL.to_owned(),
        settings: settings.as_object().cloned().unwrap_or_default(),
        mappings: Some(json!({ "dynamic": false, "properties": { "kind": { "type": "keyword" }, "at": { "type": "long" } } })),
        aliases: Map::new(),
        typed: false,
        if_absent: true,
    }
}

/// The prefix of every system index.
pub const SYSTEM_PREFIX: &str = ".pleach-";

/// Is this one of ours?
pub fn is_system(index: &str) -> bool {
    index.starts_with(SYSTEM_PREFIX)
}
