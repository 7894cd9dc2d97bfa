//! The table row of a parameter: its name, its shape, its default, and whether it may change.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::OnceLock;

/// How a parameter's value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Bool,
    Int,
    Text,
    Any,
}

/// One parameter: name, shape, default as JSON text (empty: none), whether it may change.
pub(crate) struct Param(
    pub(crate) &'static str,
    pub(crate) Shape,
    pub(crate) &'static str,
    pub(crate) bool,
);

impl Param {
    /// The default as a value, if it has one.
    pub(crate) fn default(&self) -> Option<&'static Value> {
        static DEFAULTS: OnceLock<HashMap<&'static str, Value>> = OnceLock::new();
        let texts = [
            "true",
            "false",
            "1.0",
            "[]",
            "{}",
            "\"positions\"",
            "\"docs\"",
            "\"no\"",
            "100",
            "\"/\"",
            "\"sensitive\"",
        ];
        DEFAULTS
            .get_or_init(|| {
                texts
                    .iter()
                    .filter_map(|t| Some((*t, serde_json::from_str(t).ok()?)))
                    .collect()
            })
            .get(self.2)
    }
}
