//! The gate: the document by which servers over one store, whose engine has no critical section, agree on the table of locks.
//!
//! It has a number and, for each lease that has not ended, the number at which the lease was written last. Every grant and every
//! end writes it, as one document of its attempt, with the next number (T27). So all of them have one order, and a server knows by
//! one document whether its table is the newest, and which leases have changed.
//!
//! The number of a grant is the lease's fencing token: it rises with every grant of the store (T20).
//!
//! Not here: reading leases into the table (`gate_table`), the attempt itself (`without_section`).

use crate::intents::{Effects, Record};
use crate::leases::{Ending, Lease};
use crate::locks::{Claim, LockKey, Mode, write_claims};
use crate::schema;
use engine::{Document, Source, Write, WriteOp};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How ids of documents of leases begin.
const LEASE: &str = "s:";

/// Where the gate is.
pub(super) fn gate_address() -> DocAddress {
    DocAddress {
        index: IndexName::new(schema::CONTROL),
        id: DocId::plain("g:locks"),
    }
}

/// The content of the gate. Where there is no such document, nothing was ever locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gate {
    /// Grants and ends so far.
    pub(super) number: u64,
    /// The leases that have not ended, each with the number at which it was written last.
    pub(super) leases: BTreeMap<Arc<str>, u64>,
}

/// The writes of a grant or an end, and what they do.
pub(super) struct Passage {
    /// Those of the plan, each lease with its number, and the gate.
    pub(super) writes: Vec<Write>,
    /// The number.
    pub(super) number: u64,
    /// The session that times what begins.
    pub(super) session: Arc<str>,
    /// Leases that begin, or grow, with their claims.
    pub(super) granted: Vec<(Arc<str>, Vec<Claim>)>,
    /// Leases that end.
    pub(super) ended: Vec<Arc<str>>,
}

impl Gate {
    /// As the document says.
    ///
    /// # Errors
    /// The source is no gate.
    pub(super) fn read(document: Option<&Document>) -> Result<Gate> {
        let Some(document) = document else {
            return Ok(Gate::default());
        };
        let source = document.source.parse()?;
        let read = || {
            let leases = source["leases"].as_array()?.iter();
            let leases = leases.map(|entry| Some((Arc::from(entry[0].as_str()?), entry[1].as_u64()?)));
            Some(Gate {
                number: source["n"].as_u64()?,
                leases: leases.collect::<Option<_>>()?,
            })
        };
        let gate = read().filter(|gate| gate.leases.values().all(|number| *number <= gate.number));
        gate.ok_or_else(|| Error::new(ErrorKind::Corruption, format!("no sound gate of locks: {source}")))
    }

    fn render(&self) -> Source {
        assert!(
            self.leases.values().all(|number| *number <= self.number),
            "T27: no lease is newer than its gate: {self:?}"
        );
        let leases: Vec<Value> = self.leases.iter().map(|(id, number)| json!([&**id, number])).collect();
        Source::from_value(&json!({ "kind": "gate", "n": self.number, "leases": leases }))
    }

    /// The writes of a plan, by a server of this session, with the gate behind them.
    ///
    /// # Errors
    /// A document of a lease that is none.
    pub(super) fn pass(&self, writes: Vec<Write>, session: &str) -> Result<Passage> {
        let number = self.number + 1;
        let mut next = Gate {
            number,
            leases: self.leases.clone(),
        };
        let mut passage = Passage {
            writes: Vec::with_capacity(writes.len() + 1),
            number,
            session: Arc::from(session),
            granted: Vec::new(),
            ended: Vec::new(),
        };
        for mut write in writes {
            let is_control = write.at.index.as_str() == schema::CONTROL;
            let Some(id) = write
                .at
                .id
                .id
                .strip_prefix(LEASE)
                .filter(|_| is_control)
                .map(Arc::<str>::from)
            else {
                return Err(Error::new(ErrorKind::Internal, format!("{:?} is no lease", write.at)));
            };
            let lease = match &write.op {
                WriteOp::Put(source) => Some(Lease::read(source, stamp_at(number), Duration::ZERO)?),
                _ => None,
            };
            match lease {
                Some((lease, None)) => {
                    if let WriteOp::Put(source) = &mut write.op {
                        *source = with_number(source, number, session)?;
                    }
                    next.leases.insert(id.clone(), number);
                    passage.granted.push((id, lease.claims));
                }
                Some((_, Some(Ending::Expired | Ending::Broken))) | None => {
                    next.leases.remove(&id);
                    passage.ended.push(id);
                }
            }
            passage.writes.push(write);
        }
        debug_assert!(
            passage.granted.iter().all(|(id, _)| !passage.ended.contains(id)),
            "T27: a lease is granted or ended by one passage, not both"
        );
        passage.writes.push(Write::new(gate_address(), WriteOp::Put(next.render())));
        Ok(passage)
    }
}

/// The stamp that stands for a number of the gate: the token of a lease with it is the number.
pub(super) fn stamp_at(number: u64) -> Stamp {
    Stamp {
        seq_no: number,
        primary_term: 0,
        version: 1,
    }
}

/// The document of a lease, with its number and the session of the server that times it.
fn with_number(source: &Source, number: u64, session: &str) -> Result<Source> {
    let mut value = source.parse()?;
    value["g"] = number.into();
    value["session"] = session.into();
    Ok(Source::from_value(&value))
}

/// The number of a lease's document and the session of the server that times it; `None`: it has none.
pub(super) fn number_of(source: &Value) -> Option<(u64, Arc<str>)> {
    Some((source["g"].as_u64()?, Arc::from(source["session"].as_str()?)))
}

impl Passage {
    /// May this change have been checked before the grant or the end, so that it must be decided before anybody hears of that?
    /// A record does not name the paths of its documents, so any document of an index may lie below a path in it.
    pub(super) fn concerns(&self, record: &Record) -> bool {
        if record.under.iter().any(|lease| self.ended.contains(lease)) {
            return true;
        }
        let granted = self.granted.iter().filter(|(lease, _)| !record.under.contains(lease));
        let claims: Vec<&Claim> = granted.flat_map(|(_, claims)| claims).collect();
        let mut written = record.documents.iter().filter(|touched| {
            let is_check = matches!(touched.effect, Some(Effects::Check));
            !is_check && !schema::is_system(touched.at.index.as_str())
        });
        written.any(|touched| {
            let of_write = write_claims(&touched.at, &[]);
            claims.iter().any(|claim| {
                let meets = |own: &Claim| own.key == claim.key && !own.mode.is_compatible(claim.mode);
                let is_whole = matches!(claim.mode, Mode::Shared | Mode::SharedIntentExclusive | Mode::Exclusive);
                let is_around = matches!(&claim.key, LockKey::Path { index, .. } if *index == touched.at.index && is_whole);
                is_around || of_write.iter().any(meets)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intents::{RecordState, Touched};
    use crate::locks::{LockPath, LockTarget};

    fn at(index: &str, id: &str) -> DocAddress {
        DocAddress {
            index: IndexName::new(index),
            id: DocId::plain(id),
        }
    }

    fn grant(gate: &Gate, id: &str, target: LockTarget) -> Passage {
        let claims = target.claims(Mode::Exclusive, &[]);
        let claims = claims.iter().map(|c| json!([c.key.to_string(), c.mode.render(), c.implied]));
        let lease = json!({
            "kind": "lease", "id": id, "owner": "", "keep_alive_ms": 1000, "targets": [],
            "claims": claims.collect::<Vec<Value>>(),
        });
        let write = Write::new(Lease::at(id), WriteOp::Put(Source::from_value(&lease)));
        gate.pass(vec![write], "n1.s").expect("a lease")
    }

    fn after(passage: &Passage) -> Gate {
        let Some(WriteOp::Put(source)) = passage.writes.last().map(|write| &write.op) else {
            panic!("the gate is written last")
        };
        let document = Document {
            at: gate_address(),
            stamp: Stamp::default(),
            source: source.clone(),
            stored_fields: None,
            routing: None,
            parent: None,
            times: mapping::Times::default(),
            tree: None,
            hidden: None,
        };
        Gate::read(Some(&document)).expect("a gate")
    }

    #[test]
    fn grants_and_ends_are_numbered() {
        let one = after(&grant(&Gate::default(), "n1:1", LockTarget::Name("x".into())));
        let two = after(&grant(&one, "n1:2", LockTarget::Name("y".into())));
        assert_eq!(two.leases, BTreeMap::from([(Arc::from("n1:1"), 1), (Arc::from("n1:2"), 2)]));
        let end = two
            .pass(vec![Write::new(Lease::at("n1:1"), WriteOp::Delete)], "n1.s")
            .expect("an end");
        assert_eq!((end.number, end.ended.len(), end.granted.len()), (3, 1, 0));
        assert_eq!(after(&end).leases, BTreeMap::from([(Arc::from("n1:2"), 2)]));
        let other = Write::new(at("a", "1"), WriteOp::Delete);
        assert!(two.pass(vec![other], "n1.s").is_err(), "nothing but leases passes");
    }

    #[test]
    fn changes_that_a_grant_concerns() {
        let record = |touched: DocAddress, under: &[&str], effect: Option<Effects>| Record {
            state: RecordState::Pending,
            session: Arc::from("s"),
            age: None,
            documents: vec![Touched {
                at: touched,
                index_uuid: "u".into(),
                effect,
            }],
            chunks: None,
            digest: String::new(),
            token: None,
            nonce: Arc::from("n"),
            written_ms: 0,
            kept_ms: 0,
            under: under.iter().map(|lease| Arc::from(*lease)).collect(),
            refused: Vec::new(),
            skipped: Vec::new(),
        };
        let path = LockPath::parse("/x").expect("a path");
        let index = IndexName::new("a");
        for (target, touched, under, effect, expected) in [
            (LockTarget::Document(at("a", "1")), at("a", "1"), &[][..], None, true),
            (LockTarget::Document(at("a", "1")), at("a", "1"), &["L"][..], None, false),
            (
                LockTarget::Document(at("a", "1")),
                at("a", "1"),
                &[][..],
                Some(Effects::Check),
                false,
            ),
            (LockTarget::Document(at("a", "1")), at("a", "2"), &[][..], None, false),
            (LockTarget::Index(index.clone()), at("a", "2"), &[][..], None, true),
            (LockTarget::Index(index.clone()), at("b", "2"), &[][..], None, false),
            (LockTarget::Path { index, path }, at("a", "2"), &[][..], None, true),
            (LockTarget::All, at("b", "2"), &[][..], None, true),
            (LockTarget::Name("x".into()), at("a", "1"), &[][..], None, false),
            (LockTarget::Name("x".into()), at(schema::CONTROL, "k:1"), &[][..], None, false),
        ] {
            let passage = grant(&Gate::default(), "L", target.clone());
            let record = record(touched, under, effect);
            assert_eq!(passage.concerns(&record), expected, "{target:?} {record:?}");
        }
        let end = Gate::default()
            .pass(vec![Write::new(Lease::at("L"), WriteOp::Delete)], "s")
            .expect("an end");
        assert!(
            end.concerns(&record(at("a", "1"), &["L"], None)),
            "it is made under what ends"
        );
        assert!(!end.concerns(&record(at("a", "1"), &["M"], None)));
    }
}
