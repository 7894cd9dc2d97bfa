//! The keys of a join, in place of the join.

use super::ScoreMode;

/// Documents whose `field` has one of `keys`; they score by the documents that the keys are of.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySet {
    pub field: String,
    pub keys: Keys,
    pub score_mode: ScoreMode,
}

/// The keys of a join, in a form that only the engine reads that made them.
#[derive(Clone)]
pub struct Keys(pub std::sync::Arc<dyn std::any::Any + Send + Sync>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}
