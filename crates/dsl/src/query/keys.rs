//! The keys of a join, in place of the join.

use super::ScoreMode;
use serde_json::Value;
use std::any::Any;
use std::sync::Arc;

/// Documents whose `field` has one of `keys`; they score by the documents that the keys are of.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySet {
    pub field: String,
    pub keys: Keys,
    pub score_mode: ScoreMode,
}

/// The keys of a join as the engine has them that collected them.
pub trait JoinValues: Any + Send + Sync {
    /// The values, for an engine that sends them on as terms, or as a bitmap where all of them are integers. `None`: they are kept
    /// in a form (hashes) in which only their own engine looks for them.
    fn terms(&self) -> Option<Vec<Value>>;
}

/// The keys of a join. Whoever carries them from one call of an engine to the next does not look into them.
#[derive(Clone)]
pub struct Keys(Arc<dyn JoinValues>);

impl Keys {
    /// As their engine has them.
    pub fn new(values: Arc<dyn JoinValues>) -> Keys {
        Keys(values)
    }
    /// In the form of the engine that asks; `None`: another engine collected them.
    pub fn of<T: JoinValues>(&self) -> Option<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self.0.clone();
        any.downcast().ok()
    }
    /// As [`JoinValues::terms`].
    pub fn terms(&self) -> Option<Vec<Value>> {
        self.0.terms()
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
