//! The format of lock documents, as the book of 2015 writes them: their state, their lock target, their holder.
//!
//! `{}` and `{"lock_type": "exclusive"}` are held by one, `{"lock_type": "shared", "lock_count": n}` by n. The document
//! stays what the client wrote; beside it each holder has a lease, so that it has a name, an age and an end. A lock
//! document claims its own key and nothing above it: who wants the folders above locks them as well.
//!
//! Not here: what a write of one does to the table (`apply`).

use crate::leases::lease::{Lease, LockDocument, NEVER, OnExpire, TimedBy, Wanted};
use crate::locks::{Claim, LockKey, LockPath, LockTarget, Mode};
use engine::{Expect, Source, WriteIndex, WriteOp};
use model::{DocAddress, Error, ErrorKind, Result};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// The state of a lock as its document says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState {
    /// One holds it, alone.
    Exclusive,
    /// So many hold it.
    Shared(u64),
}

impl LockState {
    /// The lock that a client wants it to say.
    ///
    /// # Errors
    /// No `lock_type` of the two; a count that is none.
    pub(super) fn read(source: &Value) -> Result<LockState> {
        let wrong = |what: String| Error::illegal(format!("a lock document {what}"));
        match source.get("lock_type") {
            None | Some(Value::Null) => Ok(LockState::Exclusive),
            Some(Value::String(word)) if word == "exclusive" => Ok(LockState::Exclusive),
            Some(Value::String(word)) if word == "shared" => match source.get("lock_count").and_then(Value::as_u64) {
                Some(count) if count > 0 => Ok(LockState::Shared(count)),
                _ => {
                    let given = source.get("lock_count").unwrap_or(&Value::Null);
                    Err(wrong(format!(
                        "that is [shared] needs [lock_count], how many hold it, but has [{given}]"
                    )))
                }
            },
            Some(other) => Err(wrong(format!(
                "has [lock_type] [exclusive] or [shared], or none, but this has [{other}]"
            ))),
        }
    }

    /// The lock of a document that is there, whoever wrote it: nonsense is exclusive.
    pub(super) fn of_stored(source: &Source) -> Result<LockState> {
        Ok(LockState::read(&source.parse()?).unwrap_or(LockState::Exclusive))
    }

    /// How its holders hold it.
    pub(super) fn mode(self) -> Mode {
        match self {
            LockState::Exclusive => Mode::Exclusive,
            // Shared means: somebody works below. Those go together, and not with who wants all of it.
            LockState::Shared(_) => Mode::IntentExclusive,
        }
    }

    /// How many hold it.
    pub(super) fn holders(self) -> u64 {
        match self {
            LockState::Exclusive => 1,
            LockState::Shared(count) => count,
        }
    }
}

/// `process_id`, as a word.
pub(crate) fn process_id(value: Option<&Value>) -> Option<Arc<str>> {
    match value {
        Some(Value::String(text)) => Some(Arc::from(text.as_str())),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(Arc::from(value.to_string())),
        _ => None,
    }
}

/// The target of a lock document: the path that its id is, else the document itself.
pub(crate) fn target_of(at: &DocAddress) -> LockTarget {
    let id = &*at.id.id;
    match LockPath::parse(id) {
        Ok(path) if !path.is_root() && path.to_string() == id => LockTarget::Path {
            index: at.index.clone(),
            path,
        },
        _ => LockTarget::Document(at.clone()),
    }
}

/// The refusal of a lock document in a transaction that is held open.
pub fn not_staged(at: &DocAddress) -> Error {
    let (index, id) = (&at.index, &at.id.id);
    let reason = format!("lock document [{index}][{id}] is taken and given back at once, not in a transaction that is held open");
    Error::new(ErrorKind::UnsupportedOperation, reason)
        .with("index", index.as_str())
        .with("id", &**id)
}

/// One more holder of a lock document.
pub(super) fn lease(id: Arc<str>, lock_document: LockDocument, mode: Mode, ttl: Option<Duration>, opened_ms: i64) -> Lease {
    let target = target_of(&lock_document.at);
    let own = Claim {
        key: target.key(),
        mode,
        implied: false,
    };
    // Claims above it: only its id without a type, for locks that were taken before the index had types.
    let above = target.claims(mode, &[]).into_iter();
    let above = above.filter(|claim| matches!(claim.key, LockKey::Document { .. }) && claim.implied);
    let claims = std::iter::once(own).chain(above).collect();
    Lease {
        id,
        owner: lock_document.caller.label(),
        targets: vec![Wanted { target, mode }],
        claims,
        token: 0,
        keep_alive: ttl.unwrap_or(NEVER),
        on_expire: OnExpire::Release,
        on_disconnect_release: false,
        connection: lock_document.caller.connection,
        deadline: Duration::ZERO,
        timed_by: TimedBy::Here,
        ending: false,
        over_is_written: false,
        opened_ms,
        lock_document: Some(Arc::new(lock_document)),
    }
}

/// A write of a lock document, as a plan has found it to come out.
#[derive(Clone, Debug)]
pub(crate) struct LockWrite {
    /// Its document, by the index's own name and the id's own type.
    pub(crate) at: DocAddress,
    pub(crate) uuid: String,
    pub(crate) settings: Arc<Map<String, Value>>,
    pub(crate) before: Option<Source>,
    pub(crate) after: Option<Source>,
    /// Nothing is written: it was asked for and is there.
    pub(crate) noop: bool,
    pub(crate) process_id: Option<Arc<str>>,
    /// The operations that came to this.
    pub(crate) steps: u64,
    /// Its stamp was named, and was right.
    pub(crate) proved: bool,
    /// Locks named for this write alone.
    pub(crate) under: Vec<String>,
    /// The operation that is told what is wrong.
    pub(crate) operation: usize,
}

impl LockWrite {
    /// A write before its first operation; `before`: the document that is there.
    pub(crate) fn new(at: &DocAddress, index: &WriteIndex, before: Option<&Source>) -> LockWrite {
        LockWrite {
            at: at.clone(),
            uuid: index.uuid.to_string(),
            settings: index.settings.clone(),
            before: before.cloned(),
            after: None,
            noop: false,
            process_id: None,
            steps: 0,
            proved: false,
            under: Vec::new(),
            operation: 0,
        }
    }

    /// Does an operation with this expectation know the document's stamp?
    pub(crate) fn is_unchanged(expect: Expect) -> bool {
        matches!(expect, Expect::Unchanged { .. })
    }
    /// The process that an operation says it is of: by the parameters of its script, else by what it writes.
    pub(crate) fn process_of(op: &WriteOp) -> Option<Arc<str>> {
        match op {
            WriteOp::Delete => None,
            WriteOp::Put(source) => process_id(source.parse().ok()?.get("process_id")),
            WriteOp::Update(update) => {
                let of_script = update.script.as_ref().and_then(|(_, params)| params.word("process_id"));
                let written = [&update.doc, &update.upsert];
                let written = written
                    .into_iter()
                    .flatten()
                    .find_map(|source| process_id(source.get("process_id")));
                of_script.map(Arc::from).or(written)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};
    use serde_json::json;

    #[test]
    fn what_documents_say() {
        for (source, says) in [
            (json!({}), Some(LockState::Exclusive)),
            (json!({"process_id": 1}), Some(LockState::Exclusive)),
            (json!({"lock_type": "exclusive"}), Some(LockState::Exclusive)),
            (json!({"lock_type": "shared", "lock_count": 3}), Some(LockState::Shared(3))),
            (json!({"lock_type": "shared"}), None),
            (json!({"lock_type": "shared", "lock_count": 0}), None),
            (json!({"lock_type": "shared", "lock_count": -1}), None),
            (json!({"lock_type": "shared", "lock_count": "1"}), None),
            (json!({"lock_type": "mine"}), None),
            (json!({"lock_type": 1}), None),
        ] {
            assert_eq!(LockState::read(&source).ok(), says, "{source}");
            let found = LockState::of_stored(&Source::from_value(&source)).expect("JSON");
            assert_eq!(found, says.unwrap_or(LockState::Exclusive), "{source}");
        }
    }

    #[test]
    fn where_they_stand() {
        for (id, key) in [
            ("global", "doc:fs/lock#global"),
            ("1", "doc:fs/lock#1"),
            ("/clinton", "path:fs/clinton"),
            ("/clinton/projects", "path:fs/clinton/projects"),
            // Not another's path by another spelling.
            ("/clinton/", "doc:fs/lock#/clinton/"),
            ("//clinton", "doc:fs/lock#//clinton"),
            ("/", "doc:fs/lock#/"),
            ("clinton/a", "doc:fs/lock#clinton/a"),
        ] {
            let at = DocAddress {
                index: IndexName::new("fs"),
                id: DocId::with_type("lock", id),
            };
            assert_eq!(target_of(&at).key().to_string(), key, "{id}");
        }
    }

    #[test]
    fn processes() {
        assert_eq!(process_id(Some(&json!(123))).as_deref(), Some("123"));
        assert_eq!(process_id(Some(&json!("123"))).as_deref(), Some("123"));
        assert_eq!(process_id(Some(&json!(null))), None);
        assert_eq!(process_id(None), None);
    }
}
