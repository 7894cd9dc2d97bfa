//! Lock documents as the chapter of 2015 writes them: what one says, where it stands among the locks, whose it is.
//!
//! `{}` and `{"lock_type": "exclusive"}` are held by one, `{"lock_type": "shared", "lock_count": n}` by n. The document
//! stays what the client wrote; beside it each holder has a lease, so that it has a name, an age and an end. A literal
//! lock claims its own key and nothing above it: who wants the folders above locks them as well.
//!
//! Not here: what a write of one does to the table (`ledger`).

use super::caller::Caller;
use super::lease::{Lease, NEVER, OnExpire, Wanted};
use crate::locks::{Claim, LockKey, LockPath, LockTarget, Mode};
use engine::{Document, Expect, Newest, See, Source, Write, WriteOp};
use model::{DocAddress, Error, ErrorKind, Result, Stamp};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a lease of a lock document has besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Its document.
    pub at: DocAddress,
    /// The index that the document is in: not one of the same name made later.
    pub uuid: String,
    /// Who took it.
    pub caller: Caller,
}

/// What a lock document says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// One holds it, alone.
    Exclusive,
    /// So many hold it.
    Shared(u64),
}

impl Says {
    /// What a client wants it to say.
    ///
    /// # Errors
    /// No `lock_type` of the two; a count that is none.
    pub(super) fn read(source: &Value) -> Result<Says> {
        let wrong = |what: String| Error::illegal(format!("a lock document {what}"));
        match source.get("lock_type") {
            None | Some(Value::Null) => Ok(Says::Exclusive),
            Some(Value::String(word)) if word == "exclusive" => Ok(Says::Exclusive),
            Some(Value::String(word)) if word == "shared" => match source.get("lock_count").and_then(Value::as_u64) {
                Some(count) if count > 0 => Ok(Says::Shared(count)),
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

    /// What one says that is there, whoever wrote it: nonsense is exclusive.
    pub(super) fn found(source: &Source) -> Result<Says> {
        Ok(Says::read(&source.parse()?).unwrap_or(Says::Exclusive))
    }

    /// How its holders hold it.
    pub(super) fn mode(self) -> Mode {
        match self {
            Says::Exclusive => Mode::Exclusive,
            // Shared means: somebody works below. Those go together, and not with who wants all of it.
            Says::Shared(_) => Mode::IntentExclusive,
        }
    }

    /// How many hold it.
    pub(super) fn holders(self) -> u64 {
        match self {
            Says::Exclusive => 1,
            Says::Shared(count) => count,
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

/// What a lock document locks: the path that its id is, else the document itself.
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
pub(super) fn lease(id: Arc<str>, literal: Literal, mode: Mode, ttl: Option<Duration>, opened_ms: i64) -> Lease {
    let target = target_of(&literal.at);
    let own = Claim {
        key: target.key(),
        mode,
        implied: false,
    };
    // Of what lies above only its id without a type, for locks that were taken before the index had types.
    let above = target.claims(mode, &[]).into_iter();
    let above = above.filter(|claim| matches!(claim.key, LockKey::Document { .. }) && claim.implied);
    let claims = std::iter::once(own).chain(above).collect();
    Lease {
        id,
        owner: literal.caller.label(),
        targets: vec![Wanted { target, mode }],
        claims,
        token: 0,
        keep_alive: ttl.unwrap_or(NEVER),
        on_expire: OnExpire::Release,
        on_disconnect_release: false,
        connection: literal.caller.connection,
        deadline: Duration::ZERO,
        ending: false,
        over_is_written: false,
        opened_ms,
        literal: Some(Arc::new(literal)),
    }
}

/// What becomes of their documents when these leases end other than by a write of the document.
///
/// # Errors
/// An index that cannot be read or written now.
pub(super) fn released(newest: &mut dyn Newest, leases: &[Lease]) -> Result<Vec<Write>> {
    let mut documents: BTreeMap<&DocAddress, (&Literal, u64)> = BTreeMap::new();
    for literal in leases.iter().filter_map(|lease| lease.literal.as_deref()) {
        documents.entry(&literal.at).or_insert((literal, 0)).1 += 1;
    }
    let mut writes = Vec::with_capacity(documents.len());
    for (at, (literal, ended)) in documents {
        let index = match newest.index(at.index.as_str()) {
            Ok(index) => index,
            Err(e) if e.kind() == ErrorKind::IndexNotFound => continue,
            Err(e) => return Err(e),
        };
        if index.uuid != literal.uuid || index.name != at.index {
            continue;
        }
        let Some(document) = newest.read(at, See::Plain)? else {
            continue;
        };
        let Document { routing, parent, .. } = document;
        let op = match Says::found(&document.source)? {
            Says::Shared(count) if count > ended => {
                let mut source = document.source.parse()?;
                source["lock_count"] = (count - ended).into();
                WriteOp::Put(Source::from_value(&source))
            }
            Says::Shared(_) | Says::Exclusive => WriteOp::Delete,
        };
        let mut write = Write::new(at.clone(), op);
        (write.routing, write.parent) = (routing, parent);
        writes.push(write);
    }
    Ok(writes)
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

/// The token of the lease that was written with this stamp.
pub(super) fn token_of(stamp: Option<&Stamp>) -> u64 {
    stamp.map_or(0, |stamp| super::lease::token(*stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};
    use serde_json::json;

    #[test]
    fn what_documents_say() {
        for (source, says) in [
            (json!({}), Some(Says::Exclusive)),
            (json!({"process_id": 1}), Some(Says::Exclusive)),
            (json!({"lock_type": "exclusive"}), Some(Says::Exclusive)),
            (json!({"lock_type": "shared", "lock_count": 3}), Some(Says::Shared(3))),
            (json!({"lock_type": "shared"}), None),
            (json!({"lock_type": "shared", "lock_count": 0}), None),
            (json!({"lock_type": "shared", "lock_count": -1}), None),
            (json!({"lock_type": "shared", "lock_count": "1"}), None),
            (json!({"lock_type": "mine"}), None),
            (json!({"lock_type": 1}), None),
        ] {
            assert_eq!(Says::read(&source).ok(), says, "{source}");
            let found = Says::found(&Source::from_value(&source)).expect("JSON");
            assert_eq!(found, says.unwrap_or(Says::Exclusive), "{source}");
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
                id: DocId::typed("lock", id),
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
