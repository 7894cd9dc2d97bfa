//! Planning: the operations of a change, in order, become at most one outcome a document. Pure.
//!
//! Operations on one document see the earlier ones; `if_seq_no` and `version` mean the state before the change, while
//! create and missing mean the state inside it. Scripts run here, on what was read, and only results are committed.
//!
//! Not here: whether what was read is true; marks prove that.

use super::record::Effects;
use engine::{Applied, Conflict, Document, Effect, Expect, Found, Source, Write, WriteOp};
use mapping::{Times, Timing};
use model::{DocAddress, Error, ErrorKind, Result, Stamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// A document before the change, as plain readers see it; the stamp is the one that clients were told.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// What was there.
    pub document: Option<Document>,
    /// Its stamp, or that of its deletion where it is known.
    pub stamp: Option<Stamp>,
    /// The one that it had before marks of changes went over it that left it as it was.
    pub since: Option<Stamp>,
}

/// Why an operation fails.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Its expectation does not hold.
    Conflict(Conflict),
    /// It is not possible.
    Refused(Error),
}

/// What a plan comes to.
#[derive(Debug, Default)]
pub struct Folded {
    /// Per document, what the change makes of it.
    pub outcomes: BTreeMap<DocAddress, Effects>,
    /// Per operation, what it did or why it fails. With one failure nothing is done.
    pub items: Vec<Result<Effect, Failure>>,
    /// The last operation that wrote each document: who is told if that cannot be stored.
    pub writers: BTreeMap<DocAddress, usize>,
}

/// The addresses that operations and conditions touch.
pub fn touched(operations: &[Write], conditions: &[(DocAddress, Expect)]) -> std::collections::BTreeSet<DocAddress> {
    let written = operations.iter().map(|write| write.at.clone());
    written.chain(conditions.iter().map(|(at, _)| at.clone())).collect()
}

/// The first condition that does not hold.
pub fn unmet(conditions: &[(DocAddress, Expect)], before: &BTreeMap<DocAddress, Before>) -> Option<(usize, Conflict)> {
    conditions.iter().enumerate().find_map(|(n, (at, expect))| {
        let checked = match before.get(at) {
            Some(before) => before.check(at, *expect),
            None => expect.check(at, Found::Nothing),
        };
        checked.err().map(|conflict| (n, conflict))
    })
}

/// Folds operations over what was read. Every address must be in `before`; what is read and not written is a check.
pub fn fold(operations: &[Write], before: &BTreeMap<DocAddress, Before>) -> Folded {
    let mut folded = Folded::default();
    let mut inside: BTreeMap<&DocAddress, Inside> = BTreeMap::new();
    for (n, write) in operations.iter().enumerate() {
        let nothing = Before::default();
        let was = before.get(&write.at).unwrap_or(&nothing);
        let now = inside.entry(&write.at).or_insert_with(|| Inside::of(was));
        let item = now.operate(write, was);
        if matches!(item, Ok(Effect::Created | Effect::Updated | Effect::Deleted)) {
            folded.writers.insert(write.at.clone(), n);
        }
        folded.items.push(item);
    }
    for at in before.keys() {
        let effects = match inside.remove(at) {
            Some(Inside {
                written: true,
                source: Some(source),
                routing,
                parent,
                timing,
                ..
            }) => Effects::Put {
                source,
                routing,
                parent,
                timing,
            },
            Some(Inside {
                written: true,
                source: None,
                ..
            }) => Effects::Delete,
            Some(Inside { written: false, .. }) | None => Effects::Check,
        };
        folded.outcomes.insert(at.clone(), effects);
    }
    folded
}

impl Before {
    /// For expectations.
    pub fn found(&self) -> Found {
        match (&self.document, self.stamp) {
            (Some(document), stamp) => Found::Here(stamp.unwrap_or(document.stamp)),
            (None, Some(stamp)) => Found::Deleted(stamp),
            (None, None) => Found::Nothing,
        }
    }
    /// Is it as expected? What only marks have gone over is what it was.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self, at: &DocAddress, expect: Expect) -> Result<(), Conflict> {
        let checked = expect.check(at, self.found());
        match self.since.filter(|_| checked.is_err() && self.document.is_some()) {
            Some(since) if expect.check(at, Found::Here(since)).is_ok() => Ok(()),
            _ => checked,
        }
    }
}

/// A document while its operations are folded.
struct Inside {
    source: Option<Source>,
    routing: Option<String>,
    parent: Option<String>,
    timing: Timing,
    /// Of the document that was there before.
    times: Times,
    written: bool,
}

impl Inside {
    fn of(before: &Before) -> Inside {
        let document = before.document.as_ref();
        Inside {
            source: document.map(|d| d.source.clone()),
            routing: document.and_then(|d| d.routing.clone()),
            parent: document.and_then(|d| d.parent.clone()),
            timing: Timing::default(),
            times: document.map_or_else(Times::default, |d| d.times),
            written: false,
        }
    }

    fn operate(&mut self, write: &Write, before: &Before) -> Result<Effect, Failure> {
        let here = before.stamp.unwrap_or_default();
        let checked = match write.expect {
            Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_) => {
                let kind = ErrorKind::IllegalArgument;
                return Err(Failure::Refused(Error::new(
                    kind,
                    "an atomic change takes no external versions",
                )));
            }
            Expect::Unchanged { .. } | Expect::Version(_) => before.check(&write.at, write.expect),
            Expect::Anything | Expect::Absent | Expect::Present if self.source.is_some() => {
                write.expect.check(&write.at, Found::Here(here))
            }
            Expect::Anything | Expect::Absent | Expect::Present => write.expect.check(&write.at, Found::Nothing),
        };
        checked.map_err(Failure::Conflict)?;
        let was = self.source.is_some();
        let mut timing = write.timing.clone();
        let next = match &write.op {
            WriteOp::Put(source) => Some(source.clone()),
            WriteOp::Delete if was => None,
            WriteOp::Delete => return Ok(Effect::NotFound),
            WriteOp::Update(update) => {
                let value = self
                    .source
                    .as_ref()
                    .map(Source::parse)
                    .transpose()
                    .map_err(Failure::Refused)?;
                let routing = write.routing.as_deref().or(self.routing.as_deref());
                let found = value.as_ref().map(|value| (value, here));
                let applied = update.apply_timed(&write.at, found, routing, self.times, &mut timing);
                match applied.map_err(Failure::Refused)? {
                    Applied::Put(value) => Some(Source::from_value(&value)),
                    Applied::Delete if was => None,
                    Applied::Delete => return Ok(Effect::NotFound),
                    Applied::Noop => return Ok(Effect::Noop),
                }
            }
        };
        let keeps = matches!(write.op, WriteOp::Update(_));
        let kept = |old: Option<String>| old.filter(|_| keeps);
        self.routing = write.routing.clone().or(kept(self.routing.take()));
        self.parent = write.parent.clone().or(kept(self.parent.take()));
        self.timing = timing;
        self.written = true;
        let effect = match (was, &next) {
            (_, None) => Effect::Deleted,
            (true, Some(_)) => Effect::Updated,
            (false, Some(_)) => Effect::Created,
        };
        self.source = next;
        Ok(effect)
    }
}

/// A digest of a request, by which a repeated key with another body is told.
pub fn digest(request: &Value) -> String {
    crate::digest::short(&blake3::hash(request.to_string().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocId, IndexName};
    use serde_json::json;

    fn at(id: &str) -> DocAddress {
        DocAddress {
            index: IndexName::new("i"),
            id: DocId::plain(id),
        }
    }
    fn put(id: &str, n: u64, expect: Expect) -> Write {
        Write {
            expect,
            ..Write::new(at(id), WriteOp::Put(Source::from_value(&json!({"n": n}))))
        }
    }
    fn delete(id: &str) -> Write {
        Write::new(at(id), WriteOp::Delete)
    }
    fn unchanged(seq_no: u64) -> Expect {
        Expect::Unchanged { seq_no, primary_term: 1 }
    }

    /// Document `a` is there with sequence number 5, `b` is not.
    fn check(operations: &[Write], items: &[&str], a: &str, b: &str) {
        let stamp = Stamp {
            seq_no: 5,
            primary_term: 1,
            version: 2,
        };
        let document = Document {
            at: at("a"),
            stamp,
            source: Source::from_value(&json!({"n": 0})),
            stored_fields: None,
            routing: None,
            parent: None,
            times: mapping::Times::default(),
            hidden: None,
        };
        let here = Before {
            document: Some(document),
            stamp: Some(stamp),
            since: Some(Stamp {
                seq_no: 3,
                version: 1,
                ..stamp
            }),
        };
        let before = BTreeMap::from([(at("a"), here), (at("b"), Before::default())]);
        let folded = fold(operations, &before);
        let found: Vec<String> = folded
            .items
            .iter()
            .map(|item| match item {
                Ok(effect) => format!("{effect:?}"),
                Err(Failure::Conflict(_)) => "Conflict".to_owned(),
                Err(Failure::Refused(_)) => "Refused".to_owned(),
            })
            .collect();
        assert_eq!(found, items);
        let outcome = |id| match &folded.outcomes[&at(id)] {
            Effects::Put { source, .. } => String::from_utf8_lossy(&source.0).into_owned(),
            Effects::Delete => "deleted".to_owned(),
            Effects::Check => "checked".to_owned(),
        };
        assert_eq!((outcome("a").as_str(), outcome("b").as_str()), (a, b));
    }

    #[test]
    fn operations_fold_into_one_outcome_a_document() {
        let any = Expect::Anything;
        check(&[], &[], "checked", "checked");
        check(
            &[put("a", 1, any), put("a", 2, any)],
            &["Updated", "Updated"],
            r#"{"n":2}"#,
            "checked",
        );
        // The state before the change, however often it is written in it.
        check(
            &[put("a", 1, unchanged(5)), put("a", 2, unchanged(5))],
            &["Updated", "Updated"],
            r#"{"n":2}"#,
            "checked",
        );
        check(&[put("a", 1, unchanged(4))], &["Conflict"], "checked", "checked");
        // Marks alone have gone over it since it had this number.
        check(&[put("a", 1, unchanged(3))], &["Updated"], r#"{"n":1}"#, "checked");
        // The state inside.
        check(
            &[put("b", 1, Expect::Absent), put("b", 2, Expect::Absent)],
            &["Created", "Conflict"],
            "checked",
            r#"{"n":1}"#,
        );
        check(
            &[delete("a"), put("a", 1, Expect::Absent)],
            &["Deleted", "Created"],
            r#"{"n":1}"#,
            "checked",
        );
        check(
            &[put("b", 1, any), delete("b"), delete("b")],
            &["Created", "Deleted", "NotFound"],
            "checked",
            "deleted",
        );
        check(&[delete("b")], &["NotFound"], "checked", "checked");
        let external = Expect::NewerThan {
            version: 9,
            or_equal: false,
        };
        check(&[put("a", 1, external)], &["Refused"], "checked", "checked");
    }

    #[test]
    fn conditions() {
        let before = BTreeMap::from([(at("b"), Before::default())]);
        assert!(unmet(&[(at("b"), Expect::Absent)], &before).is_none());
        let (n, _) = unmet(&[(at("b"), Expect::Absent), (at("b"), Expect::Present)], &before).expect("unmet");
        assert_eq!(n, 1);
        assert_ne!(digest(&json!({"a": 1})), digest(&json!({"a": 2})));
    }
}
