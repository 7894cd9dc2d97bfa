//! Outcomes kept under the client's keys: a document of the control index, written in the record of the change
//! itself, so that there is the outcome if and only if there is the change.
//!
//! Not here: when they are forgotten (`housekeeping` of the control index).

use super::{Committed, Item};
use crate::kept_time::KEPT_MS;
use engine::{Effect, Source, Written};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Map, Value, json};

/// Bytes of a key.
pub(crate) const KEY_MAX_BYTES: usize = 512;

/// A client's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its owner; empty where none is known.
    pub user: String,
    /// As sent.
    pub text: String,
    /// The digest of the path and the body it came with.
    pub digest: Digest,
}

/// Tells requests apart: 128 bits of FNV-1a. Not for secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u128);

impl Digest {
    /// The digest of some parts; where one ends and the next begins counts.
    pub fn of(parts: &[&[u8]]) -> Digest {
        let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        let mut eat = |byte: u8| {
            hash ^= u128::from(byte);
            hash = hash.wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        };
        for part in parts {
            (part.len() as u64).to_le_bytes().into_iter().for_each(&mut eat);
            part.iter().copied().for_each(&mut eat);
        }
        Digest(hash)
    }
    fn render(self) -> String {
        format!("{:032x}", self.0)
    }
}

impl Key {
    /// Checks what the client sent.
    ///
    /// # Errors
    /// An empty key, or one that is too long.
    pub fn new(user: &str, text: &str, digest: Digest) -> Result<Key> {
        if text.is_empty() || text.len() > KEY_MAX_BYTES {
            return Err(Error::illegal(format!(
                "[idempotency_key] must have 1 to {KEY_MAX_BYTES} bytes but has {}",
                text.len()
            )));
        }
        Ok(Key {
            user: user.to_owned(),
            text: text.to_owned(),
            digest,
        })
    }
    /// Where its outcome is kept.
    pub(crate) fn at(&self) -> DocAddress {
        let id = Digest::of(&[self.user.as_bytes(), self.text.as_bytes()]).render();
        DocAddress {
            index: IndexName::new(crate::schema::CONTROL),
            id: DocId::plain(format!("k:{id}")),
        }
    }
    /// Under which the outcome of a transaction that was held open is kept.
    pub(super) fn of_transaction(id: &str) -> Key {
        Key {
            user: "_transaction".to_owned(),
            text: id.to_owned(),
            digest: Digest::of(&[]),
        }
    }
    /// The document that says under which other key its outcome is kept.
    pub(super) fn refer(&self, to: &Key, now_ms: i64) -> Source {
        assert!(
            self.at() != to.at(),
            "T4: an outcome is kept under another key than the one that refers to it"
        );
        Source::from_value(&json!({
            "kind": "key", "at": now_ms, "user": self.user, "key": self.text, "digest": self.digest.render(),
            "as": &*to.at().id.id,
        }))
    }
    /// Where such a document leads.
    ///
    /// # Errors
    /// The source is no JSON.
    pub(super) fn reference_of(kept: &Source) -> Result<Option<DocAddress>> {
        Ok(kept.parse()?["as"].as_str().map(|id| DocAddress {
            index: IndexName::new(crate::schema::CONTROL),
            id: DocId::plain(id),
        }))
    }
    /// The outcome that a document keeps, if it is still kept.
    ///
    /// # Errors
    /// It is not sound.
    pub(super) fn outcome(kept: &Source, now_ms: i64) -> Result<Option<Committed>> {
        let kept = kept.parse()?;
        if is_old(&kept, now_ms) {
            return Ok(None);
        }
        read(&kept["outcome"])
            .map(Some)
            .ok_or_else(|| Error::new(ErrorKind::Corruption, "a kept outcome is not sound"))
    }
    /// The outcome that is kept under it, if it is still.
    ///
    /// # Errors
    /// It is another request's.
    pub(super) fn recall(&self, source: &Source, now_ms: i64) -> Result<Option<Committed>> {
        let Some(kept) = self.kept_value(source, now_ms)? else {
            return Ok(None);
        };
        read(&kept["outcome"])
            .map(Some)
            .ok_or_else(|| Error::new(ErrorKind::Corruption, "a kept outcome is not sound"))
    }
    /// The task that it leads to, if it still does.
    ///
    /// # Errors
    /// It is another request's.
    pub(crate) fn task(&self, source: &Source, now_ms: i64) -> Result<Option<u64>> {
        Ok(self.kept_value(source, now_ms)?.and_then(|kept| kept["task"].as_u64()))
    }
    /// The task that a document leads to, however old it is: a job that runs longer than outcomes are kept is repeated by
    /// its key all the same.
    ///
    /// # Errors
    /// The source is no JSON.
    pub(crate) fn task_named(source: &Source) -> Result<Option<u64>> {
        Ok(source.parse()?["task"].as_u64())
    }
    /// As [`Key::task`], of a task that is known to run.
    ///
    /// # Errors
    /// It is another request's.
    pub(crate) fn running_task(&self, source: &Source) -> Result<Option<u64>> {
        self.task(source, i64::MIN)
    }
    /// The document that leads to a task.
    pub(crate) fn keep_task(&self, number: u64, now_ms: i64) -> Source {
        let kept = Source::from_value(&json!({
            "kind": "key", "at": now_ms, "user": self.user, "key": self.text, "digest": self.digest.render(), "task": number,
        }));
        debug_assert!(
            self.task(&kept, now_ms).is_ok_and(|task| task == Some(number)),
            "T4: who repeats a key is led to its task: {number}"
        );
        kept
    }
    fn kept_value(&self, source: &Source, now_ms: i64) -> Result<Option<Value>> {
        let kept = source.parse()?;
        if is_old(&kept, now_ms) {
            return Ok(None);
        }
        let same = kept["user"] == self.user.as_str()
            && kept["key"] == self.text.as_str()
            && kept["digest"] == self.digest.render().as_str();
        if !same {
            let reason = format!("[idempotency_key] [{}] was used for another request", self.text);
            return Err(Error::new(ErrorKind::IdempotencyKeyReused, reason).with("idempotency_key", self.text.as_str()));
        }
        Ok(Some(kept))
    }
    /// The document that keeps an outcome.
    pub(super) fn keep(&self, outcome: &Committed, now_ms: i64) -> Source {
        let outcome_body = write(outcome);
        debug_assert!(
            read(&outcome_body).is_some_and(|read| read.items.len() == outcome.items.len()),
            "T4: an outcome that is kept can be recalled: {outcome:?}"
        );
        Source::from_value(&json!({
            "kind": "key", "at": now_ms, "user": self.user, "key": self.text, "digest": self.digest.render(),
            "outcome": outcome_body,
        }))
    }
}

fn is_old(kept: &Value, now_ms: i64) -> bool {
    now_ms.saturating_sub(kept["at"].as_i64().unwrap_or(0)) > KEPT_MS
}

const LABELS: [&str; 4] = ["index", "create", "update", "delete"];
const EFFECTS: [(&str, Effect); 5] = [
    ("created", Effect::Created),
    ("updated", Effect::Updated),
    ("deleted", Effect::Deleted),
    ("not_found", Effect::NotFound),
    ("noop", Effect::Noop),
];

fn write(outcome: &Committed) -> Value {
    let items: Vec<Value> = outcome
        .items
        .iter()
        .map(|item| {
            let written = &item.written;
            let effect = EFFECTS
                .iter()
                .find(|(_, effect)| *effect == written.effect)
                .map(|(name, _)| *name);
            let mut out = Map::new();
            out.insert("op".into(), item.label.into());
            out.insert("effect".into(), effect.into());
            out.insert("index".into(), written.at.index.as_str().into());
            if let Some(doc_type) = &written.at.id.doc_type {
                out.insert("type".into(), (&**doc_type).into());
            }
            out.insert("id".into(), (&*written.at.id.id).into());
            let Stamp {
                seq_no,
                primary_term,
                version,
            } = written.stamp;
            out.insert("stamp".into(), json!([seq_no, primary_term, version]));
            if let Some(source) = written.source.as_ref().and_then(|source| source.parse().ok()) {
                out.insert("source".into(), source);
            }
            Value::Object(out)
        })
        .collect();
    json!({ "commit_seq": outcome.commit_seq, "else": outcome.otherwise, "items": items })
}

fn read(value: &Value) -> Option<Committed> {
    let items = value["items"].as_array()?.iter().map(|item| {
        let text = |name: &str| item[name].as_str();
        let number = |n: usize| item["stamp"][n].as_u64();
        let id = match text("type") {
            Some(doc_type) => DocId::with_type(doc_type, text("id")?),
            None => DocId::plain(text("id")?),
        };
        Some(Item {
            label: LABELS.into_iter().find(|label| text("op") == Some(label))?,
            written: Written {
                effect: EFFECTS.iter().find(|(name, _)| text("effect") == Some(name))?.1,
                at: DocAddress {
                    index: IndexName::new(text("index")?),
                    id,
                },
                stamp: Stamp {
                    seq_no: number(0)?,
                    primary_term: number(1)?,
                    version: number(2)?,
                },
                source: item.get("source").map(Source::from_value),
                forced_refresh: false,
            },
        })
    });
    Some(Committed {
        commit_seq: value["commit_seq"].as_u64()?,
        otherwise: value["else"].as_bool()?,
        moved: Vec::new(),
        items: items.collect::<Option<_>>()?,
        replayed: true,
        warnings: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_recalled() {
        let key = Key::new("", "k", Digest::of(&[b"/_bulk", b"{}"])).expect("a good key");
        let outcome = Committed {
            commit_seq: 7,
            otherwise: true,
            moved: Vec::new(),
            items: vec![Item {
                label: "update",
                written: Written {
                    effect: Effect::Updated,
                    at: DocAddress {
                        index: IndexName::new("i"),
                        id: DocId::with_type("t", "1"),
                    },
                    stamp: Stamp {
                        seq_no: 1,
                        primary_term: 2,
                        version: 3,
                    },
                    source: Some(Source::from_value(&json!({ "a": 1 }))),
                    forced_refresh: false,
                },
            }],
            replayed: true,
            warnings: Vec::new(),
        };
        let kept = key.keep(&outcome, 1000);
        assert_eq!(key.recall(&kept, 2000).expect("ours"), Some(outcome));
        assert_eq!(key.recall(&kept, 1001 + KEPT_MS).expect("ours"), None, "forgotten in time");
        let other = Key::new("", "k", Digest::of(&[b"/_bulk", b"{ }"])).expect("a good key");
        let error = other.recall(&kept, 2000).expect_err("another request");
        assert_eq!(error.kind(), ErrorKind::IdempotencyKeyReused);
        assert!(Key::new("", "", Digest::of(&[])).is_err());
        assert!(Key::new("", &"k".repeat(513), Digest::of(&[])).is_err());
        assert_ne!(Digest::of(&[b"ab", b"c"]), Digest::of(&[b"a", b"bc"]));
    }
}
