//! The mark that hides a document while a change is under way, as segments and the log store it.

use engine::Hidden;
use serde_json::{Value, json};

/// A mark in its stored form.
pub fn mark_bytes(hidden: &Hidden) -> Vec<u8> {
    json!({ "body": hidden.body, "visible": hidden.visible, "held": hidden.held })
        .to_string()
        .into_bytes()
}

/// A mark from its stored form.
pub fn read_mark(bytes: &[u8]) -> Option<Hidden> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    Some(Hidden {
        visible: value["visible"] == true,
        held: value["held"] == true,
        body: value["body"].clone(),
    })
}
