//! Who sends a request, as far as it says; and whether a lock document is theirs.
//!
//! Not here: where these words come from (HTTP).

use serde_json::{Map, Value};
use std::sync::Arc;

/// The sender of a request, as far as it is known. Nothing of it is proved: it tells clients of good will apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// `process_id`, of the lock document or among the parameters of its script.
    pub process_id: Option<Arc<str>>,
    /// `X-Opaque-Id`.
    pub opaque_id: Option<Arc<str>>,
    /// The name of `Authorization: Basic`.
    pub user: Option<Arc<str>>,
    /// The client's address without its port, as a trusted proxy tells it where there is one; of a unix socket `uid:` and a number.
    pub peer: Option<Arc<str>>,
    /// The connection.
    pub connection: Option<u64>,
}

/// An identity that both sides know and that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallerDifference {
    pub(crate) name: &'static str,
    pub(crate) caller: Arc<str>,
    pub(crate) owner: Arc<str>,
}

const NAMES: [&str; 4] = ["process_id", "x_opaque_id", "user", "peer"];

impl Caller {
    fn words(&self) -> [Option<&Arc<str>>; 4] {
        [
            self.process_id.as_ref(),
            self.opaque_id.as_ref(),
            self.user.as_ref(),
            self.peer.as_ref(),
        ]
    }

    /// The difference from the owner. None: it is the owner.
    pub(crate) fn differs(&self, owner: &Caller) -> Option<CallerDifference> {
        let pairs = NAMES.into_iter().zip(self.words().into_iter().zip(owner.words()));
        let known = pairs.filter_map(|(name, (caller, owner))| Some((name, caller?, owner?)));
        known
            .into_iter()
            .find(|(_, caller, owner)| caller != owner)
            .map(|(name, caller, owner)| CallerDifference {
                name,
                caller: caller.clone(),
                owner: owner.clone(),
            })
    }

    /// How much speaks for the owner being this caller.
    pub(crate) fn agreements(&self, owner: &Caller) -> usize {
        let pairs = self.words().into_iter().zip(owner.words());
        pairs.filter(|(caller, owner)| caller.is_some() && caller == owner).count()
    }

    /// The same, saying so of a process.
    #[must_use]
    pub(crate) fn as_process(&self, process_id: Option<Arc<str>>) -> Caller {
        Caller {
            process_id: process_id.or_else(|| self.process_id.clone()),
            ..self.clone()
        }
    }

    /// The best word for people.
    pub(crate) fn label(&self) -> String {
        let known = NAMES
            .into_iter()
            .zip(self.words())
            .find_map(|(name, word)| Some((name, word?)));
        known.map_or_else(|| "somebody".to_owned(), |(name, word)| format!("{name} {word}"))
    }

    /// Known members, by name.
    pub fn to_json(&self) -> Map<String, Value> {
        let known = NAMES.into_iter().zip(self.words());
        known
            .filter_map(|(name, word)| Some((name.to_owned(), Value::from(&**word?))))
            .collect()
    }

    /// The inverse of [`Caller::to_json`]; a connection does not outlive its process.
    pub fn from_json(value: &Value) -> Caller {
        let word = |name: &str| value[name].as_str().map(Arc::from);
        Caller {
            process_id: word(NAMES[0]),
            opaque_id: word(NAMES[1]),
            user: word(NAMES[2]),
            peer: word(NAMES[3]),
            connection: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn owners_and_strangers() {
        for (caller, owner, differs, agreements) in [
            (json!({}), json!({}), None, 0),
            (json!({"peer": "a"}), json!({"peer": "a"}), None, 1),
            (json!({"peer": "a"}), json!({"peer": "b"}), Some("peer"), 0),
            (json!({"peer": "a"}), json!({"peer": "a", "process_id": "1"}), None, 1),
            (
                json!({"peer": "a", "process_id": "2"}),
                json!({"peer": "a", "process_id": "1"}),
                Some("process_id"),
                1,
            ),
            (json!({"x_opaque_id": "x"}), json!({"user": "u"}), None, 0),
            (
                json!({"x_opaque_id": "x", "user": "u"}),
                json!({"user": "v", "x_opaque_id": "x"}),
                Some("user"),
                1,
            ),
        ] {
            let (one, other) = (Caller::from_json(&caller), Caller::from_json(&owner));
            assert_eq!(one.differs(&other).map(|d| d.name), differs, "{caller} {owner}");
            assert_eq!(one.agreements(&other), agreements, "{caller} {owner}");
            assert_eq!(Value::Object(one.to_json()), caller);
        }
    }
}
