//! The record of a change, the one document that decides it, and the marks that it leaves on others.
//!
//! Not here: what becomes of them (`decide`), reading and writing (`runner`).

use super::chunks::Chunks;
use super::decide::RecordState;
use crate::digest;
use crate::locks::{Age, Owner};
use engine::{Document, Hidden, Source, Write};
use mapping::{Life, Moment, Timing};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// (primary term, sequence number) of the write that committed: the order of all commits of the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    /// Primary term of the control shard.
    pub term: u64,
    /// Sequence number in it.
    pub seq: u64,
}

impl Token {
    /// The token of the write with this stamp.
    pub fn of(stamp: Stamp) -> Token {
        Token {
            term: stamp.primary_term,
            seq: stamp.seq_no,
        }
    }
    /// One integer below 2^53 that rises with the token: sequence numbers go on over terms, and a term adds more than the
    /// writes that a crash can take back, so that none is given twice. 2^32 terms fit beside 2^52 writes.
    ///
    /// Folders of before numbered by term × 2^40: their sequence numbers begin beyond that (`embedded::recovery`).
    pub fn commit_seq(self) -> u64 {
        const TERM_BITS: u32 = 20;
        let seq = self.term.saturating_mul(1 << TERM_BITS).saturating_add(self.seq);
        assert!(seq < 1 << 53, "T5: a commit_seq beyond 2^53: {self:?}");
        seq
    }
}

/// The outcome of one document of a committed change. At most one a document: operations are folded while planning.
#[derive(Clone, PartialEq, Debug)]
pub enum Effects {
    /// It has this source.
    Put {
        source: Source,
        routing: Option<String>,
        parent: Option<String>,
        /// As it was judged when the change was planned.
        timing: Timing,
    },
    /// It is gone.
    Delete,
    /// It stays; the change was computed from it.
    Check,
}

impl Effects {
    /// It has this source, and nothing beside it: a document of the server's own.
    pub(crate) fn bare(source: Source) -> Effects {
        Effects::Put {
            source,
            routing: None,
            parent: None,
            timing: Timing::default(),
        }
    }
}

/// One document of a change.
#[derive(Clone, PartialEq, Debug)]
pub struct Touched {
    /// Which. Named from the first write of the record on.
    pub at: DocAddress,
    /// The index by uuid: a later one of the same name is another.
    pub index_uuid: String,
    /// From the commit on.
    pub effect: Option<Effects>,
}

/// The uuids of the indices of a change, by name. What is written to a document of it is meant for that index alone: one made
/// later under the same name begins its stamps anew, and a comparison with what was read in the other might hold there.
#[derive(Clone, Debug, Default)]
pub(super) struct Uuids(BTreeMap<IndexName, Arc<str>>);

impl Uuids {
    /// The write, refused by any other index than that of the change.
    pub(super) fn address(&self, write: Write) -> Write {
        Write {
            index_uuid: self.0.get(&write.at.index).cloned(),
            ..write
        }
    }
}

impl Record {
    /// The uuids of the indices of all its documents.
    pub(super) fn uuids(&self) -> Uuids {
        let mut all = BTreeMap::new();
        for touched in &self.documents {
            let uuid = || Arc::from(touched.index_uuid.as_str());
            let known: &mut Arc<str> = all.entry(touched.at.index.clone()).or_insert_with(uuid);
            debug_assert_eq!(
                **known, *touched.index_uuid,
                "T11: all documents of an index are in the one that the record names"
            );
        }
        Uuids(all)
    }
}

impl Touched {
    /// Which document it is.
    pub(super) fn to_address(&self) -> Value {
        let mut out = json!({
            "index": self.at.index.as_str(),
            "uuid": self.index_uuid,
            "id": &*self.at.id.id,
        });
        if let Some(doc_type) = &self.at.id.doc_type {
            out["type"] = Value::from(&**doc_type);
        }
        out
    }

    /// The same, and what becomes of it.
    pub(super) fn render(&self) -> Value {
        let mut out = self.to_address();
        match &self.effect {
            None => {}
            Some(Effects::Check) => out["op"] = "check".into(),
            Some(Effects::Delete) => out["op"] = "delete".into(),
            Some(Effects::Put {
                source,
                routing,
                parent,
                timing,
            }) => {
                out["op"] = "index".into();
                out["source"] = Value::from(String::from_utf8_lossy(&source.0).into_owned());
                out["routing"] = routing.as_deref().map_or(Value::Null, Value::from);
                out["parent"] = parent.as_deref().map_or(Value::Null, Value::from);
                if !timing.is_silent() {
                    out["times"] = timing_to_json(timing);
                }
            }
        }
        out
    }

    /// The inverse of both; `None`: it is neither.
    pub(super) fn read(entry: &Value) -> Option<Touched> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let id = entry["id"].as_str()?;
        let effect = match entry["op"].as_str() {
            None => None,
            Some("check") => Some(Effects::Check),
            Some("delete") => Some(Effects::Delete),
            Some("index") => Some(Effects::Put {
                source: Source(entry["source"].as_str()?.as_bytes().into()),
                routing: text(&entry["routing"]),
                parent: text(&entry["parent"]),
                timing: timing_of(&entry["times"])?,
            }),
            Some(_) => return None,
        };
        Some(Touched {
            at: DocAddress {
                index: IndexName::new(entry["index"].as_str()?),
                id: match entry["type"].as_str() {
                    Some(doc_type) => DocId::with_type(doc_type, id),
                    None => DocId::plain(id),
                },
            },
            index_uuid: text(&entry["uuid"])?,
            effect,
        })
    }
}

fn timing_to_json(timing: &Timing) -> Value {
    let mut out = serde_json::Map::new();
    match &timing.timestamp {
        None => {}
        Some(Moment::Said(text)) => drop(out.insert("said".into(), text.as_str().into())),
        Some(Moment::At(at)) => drop(out.insert("at".into(), (*at).into())),
    }
    match timing.life {
        None => {}
        Some(Life::For(life)) => drop(out.insert("for".into(), life.into())),
        Some(Life::Until(end)) => drop(out.insert("until".into(), end.into())),
        Some(Life::Endless) => drop(out.insert("endless".into(), true.into())),
    }
    out.extend(timing.judged_ms.map(|judged| ("judged".to_owned(), judged.into())));
    Value::Object(out)
}

/// The inverse; of null: it says nothing.
fn timing_of(value: &Value) -> Option<Timing> {
    if value.is_null() {
        return Some(Timing::default());
    }
    let members = value.as_object()?;
    let mut timing = Timing::default();
    for (name, value) in members {
        match name.as_str() {
            "said" => timing.timestamp = Some(Moment::Said(value.as_str()?.to_owned())),
            "at" => timing.timestamp = Some(Moment::At(value.as_i64()?)),
            "for" => timing.life = Some(Life::For(value.as_i64()?)),
            "until" => timing.life = Some(Life::Until(value.as_i64()?)),
            "endless" => timing.life = Some(Life::Endless),
            "judged" => timing.judged_ms = Some(value.as_i64()?),
            _ => return None,
        }
    }
    Some(timing)
}

/// A record.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Where the change is.
    pub state: RecordState,
    /// The session of whoever runs it.
    pub session: Arc<str>,
    /// Inherited by retries; of a first attempt unknown until its creation is acknowledged.
    pub age: Option<Age>,
    /// Its documents. Where there are chunks, a record that was read names them without what becomes of them.
    pub documents: Vec<Touched>,
    /// From the commit on, if what becomes of them has no room here.
    pub chunks: Option<Chunks>,
    /// The digest of the request: the same key with another body is refused.
    pub digest: String,
    /// Known once a touch has written it down.
    pub token: Option<Token>,
    /// The nonce of the last writer.
    pub nonce: Arc<str>,
    /// Milliseconds since 1970 by the clock of who opened it: for people.
    pub written_ms: i64,
    /// The same by the time in which servers ran: for when it may be forgotten.
    pub kept_ms: i64,
    /// Leases that clients hold, under which it is made.
    pub under: Vec<Arc<str>>,
    /// Documents that a change which is stuck could not be brought to.
    pub refused: Vec<NotApplied>,
    /// Documents that an operator let it leave as they are.
    pub skipped: Vec<NotApplied>,
}

/// A document that a committed change was not brought to.
#[derive(Clone, PartialEq, Debug)]
pub struct NotApplied {
    /// Which.
    pub at: DocAddress,
    /// Why not: an error as answers write it.
    pub why: Value,
}

impl NotApplied {
    /// As records and answers write it.
    pub fn render(&self) -> Value {
        let mut out = json!({ "_index": self.at.index.as_str(), "_id": &*self.at.id.id, "error": self.why });
        if let Some(doc_type) = &self.at.id.doc_type {
            out["_type"] = Value::from(&**doc_type);
        }
        out
    }
    /// In one sentence.
    pub fn reason(&self) -> String {
        let why = self.why["reason"].as_str().unwrap_or_default();
        format!("[{}][{}]: {why}", self.at.index, self.at.id.id)
    }
    fn read(entry: &Value) -> Option<NotApplied> {
        let id = entry["_id"].as_str()?;
        Some(NotApplied {
            at: DocAddress {
                index: IndexName::new(entry["_index"].as_str()?),
                id: match entry["_type"].as_str() {
                    Some(doc_type) => DocId::with_type(doc_type, id),
                    None => DocId::plain(id),
                },
            },
            why: entry["error"].clone(),
        })
    }
    /// A list of them; none where nothing is written.
    fn list(value: &Value) -> Option<Vec<NotApplied>> {
        value.as_array().into_iter().flatten().map(NotApplied::read).collect()
    }
}

/// The index of sessions, records and locks: one primary shard, which orders them all.
pub const CONTROL_INDEX: &str = ".pleach-control";

/// Where the record of a change is.
pub fn record_address(change: &Owner) -> DocAddress {
    DocAddress {
        index: IndexName::new(CONTROL_INDEX),
        id: DocId::plain(change.as_str()),
    }
}

impl Record {
    /// The age, given the stamp of the version that was read: a record without one has not been rewritten.
    pub fn age_at(&self, stamp: Stamp) -> Age {
        self.age.unwrap_or(Age {
            term: stamp.primary_term,
            seq: stamp.seq_no,
        })
    }

    /// The same record, said again at the version with this stamp: an acknowledged write that proves the read. It
    /// fixes what only the stamp told: age of a pending, token of a committed change.
    pub fn touch(&self, stamp: Stamp, state: RecordState, nonce: Arc<str>) -> Record {
        assert!(
            self.state.may_become(state),
            "T6: a record goes from {:?} to {state:?}",
            self.state
        );
        let mut next = self.clone();
        if self.state == RecordState::Pending {
            next.age = Some(self.age_at(stamp));
        }
        if self.state == RecordState::Committed && self.token.is_none() {
            next.token = Some(Token::of(stamp));
        }
        debug_assert!(self.token.is_none() || next.token == self.token, "T12: a token changes");
        next.state = state;
        next.nonce = nonce;
        next
    }

    /// The document's source.
    pub fn render(&self) -> Value {
        let documents: Vec<Value> = self
            .documents
            .iter()
            .map(|touched| match &self.chunks {
                None => touched.render(),
                Some(_) => touched.to_address(),
            })
            .collect();
        let chunks = self
            .chunks
            .as_ref()
            .map(|chunks| json!({ "name": &*chunks.name, "count": chunks.count, "digest": chunks.digest }));
        let body = json!({
            "kind": "change",
            "state": self.state.render(),
            "session": &*self.session,
            "age": self.age.map(|age| [age.term, age.seq]),
            "docs": documents,
            "chunks": chunks,
            "digest": self.digest,
            "t": self.token.map(|token| [token.term, token.seq]),
            "nonce": &*self.nonce,
            "at": self.written_ms,
            "kept": self.kept_ms,
            "under": self.under.iter().map(|lease| &**lease).collect::<Vec<_>>(),
            "refused": self.refused.iter().map(NotApplied::render).collect::<Vec<_>>(),
            "skipped": self.skipped.iter().map(NotApplied::render).collect::<Vec<_>>(),
        });
        debug_assert!(
            self.chunks.is_some() || read(&body).as_ref() == Some(self),
            "T6: a record is read as it is written: {self:?}"
        );
        body
    }

    /// The outcome of this document of it: one that is skipped stays as it is.
    pub(super) fn effect_on<'r>(&'r self, touched: &'r Touched) -> &'r Effects {
        debug_assert!(
            touched.effect.is_some(),
            "a whole record says what becomes of {:?}",
            touched.at
        );
        match &touched.effect {
            Some(effect) if !self.skips(&touched.at) => effect,
            _ => &Effects::Check,
        }
    }
    /// Was it let be left as it is?
    pub(super) fn skips(&self, at: &DocAddress) -> bool {
        self.skipped.iter().any(|skipped| skipped.at == *at)
    }

    /// The inverse of [`Record::render`].
    ///
    /// # Errors
    /// The source is no record.
    pub fn parse(source: &Value) -> Result<Record> {
        read(source).ok_or_else(|| Error::new(ErrorKind::Corruption, format!("no record of a change: {source}")))
    }
}

fn pair(value: &Value) -> Option<(u64, u64)> {
    match value.as_array()?.as_slice() {
        [a, b] => Some((a.as_u64()?, b.as_u64()?)),
        _ => None,
    }
}

fn read(source: &Value) -> Option<Record> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let documents = source["docs"].as_array()?.iter().map(Touched::read);
    let chunks = match &source["chunks"] {
        Value::Null => None,
        chunks => Some(Chunks {
            name: Arc::from(chunks["name"].as_str()?),
            count: chunks["count"].as_u64()?,
            digest: text(&chunks["digest"])?,
        }),
    };
    Some(Record {
        state: RecordState::parse(source["state"].as_str()?)?,
        session: Arc::from(source["session"].as_str()?),
        age: pair(&source["age"]).map(|(term, seq)| Age { term, seq }),
        documents: documents.collect::<Option<_>>()?,
        chunks,
        digest: text(&source["digest"])?,
        token: pair(&source["t"]).map(|(term, seq)| Token { term, seq }),
        nonce: Arc::from(source["nonce"].as_str()?),
        written_ms: source["at"].as_i64()?,
        // Records of before had one time.
        kept_ms: source["kept"].as_i64().or(source["at"].as_i64())?,
        under: source["under"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(Arc::from)
            .collect(),
        refused: NotApplied::list(&source["refused"])?,
        skipped: NotApplied::list(&source["skipped"])?,
    })
}

/// The mark of a change on a document, kept beside the source by the engine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Mark {
    /// The change that has its intent or stub here.
    pub intent: Option<Owner>,
    /// The document is only the stub of a creation.
    pub stub: bool,
    /// The document is deleted, and not yet forgotten.
    pub tombstone: bool,
    /// The token of the last change that was applied here.
    pub token: Option<Token>,
    /// The stamp before the intent, which clients are answered and compare with: an intent raises it even if its
    /// change aborts.
    pub before: Option<Stamp>,
    /// Since when the document has been what it is, though marks have gone over it.
    pub since: Option<Since>,
}

/// A document that only marks have gone over is what it was. They raise its stamp all the same; here is the one that it had
/// before the first of them, which those who found it then may still expect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Since {
    /// The stamp.
    pub stamp: Stamp,
    /// It holds at this version of the document alone: plain writes keep marks as they are.
    pub version: u64,
    /// And for this source alone: a version can be forced.
    pub digest: Arc<str>,
}

impl Since {
    /// The state of a document that is written again as it is.
    pub fn rewrite_of(stamp: Stamp, document: &Document) -> Since {
        Since {
            stamp,
            version: document.stamp.version + 1,
            digest: Since::digest(document),
        }
    }
    /// Does it hold for the document as it was read?
    pub fn holds(&self, document: &Document) -> bool {
        self.version == document.stamp.version && self.digest == Since::digest(document)
    }
    fn digest(document: &Document) -> Arc<str> {
        Arc::from(digest::short(&blake3::hash(&document.source.0)))
    }
}

/// The stamp under which a document came to be what it is, as far as its mark tells.
///
/// # Errors
/// A mark that we did not write.
pub fn origin(document: &Document) -> Result<Stamp> {
    let mark = Mark::of(document.hidden.as_ref())?;
    let since = mark.since.filter(|since| since.holds(document)).map(|since| since.stamp);
    Ok(since.or(mark.before).unwrap_or(document.stamp))
}

impl Mark {
    /// The mark of a document as it was read.
    ///
    /// # Errors
    /// A mark that we did not write.
    pub fn of(hidden: Option<&Hidden>) -> Result<Mark> {
        let Some(hidden) = hidden else { return Ok(Mark::default()) };
        let body = &hidden.body;
        let unsound = || Error::new(ErrorKind::Corruption, format!("no mark of a change: {body}"));
        let stamp = |value: &Value| -> Option<Stamp> {
            Some(Stamp {
                primary_term: value[0].as_u64()?,
                seq_no: value[1].as_u64()?,
                version: value[2].as_u64()?,
            })
        };
        let before = match &body["before"] {
            Value::Null => None,
            value => Some(stamp(value).ok_or_else(unsound)?),
        };
        let since = |value: &Value| -> Option<Since> {
            Some(Since {
                stamp: stamp(&value[0])?,
                version: value[1].as_u64()?,
                digest: Arc::from(value[2].as_str()?),
            })
        };
        let since = match &body["since"] {
            Value::Null => None,
            value => Some(since(value).ok_or_else(unsound)?),
        };
        let stub = body["stub"] == true;
        Ok(Mark {
            intent: body["i"].as_str().map(Owner::new),
            stub,
            // A plain delete hides a marked document and leaves the mark's body as it was.
            tombstone: !hidden.visible && !stub,
            token: pair(&body["t"]).map(|(term, seq)| Token { term, seq }),
            before,
            since,
        })
    }

    /// As the engine keeps it.
    pub fn to_hidden(&self) -> Hidden {
        let mut body = serde_json::Map::new();
        if let Some(change) = &self.intent {
            body.insert("i".into(), change.as_str().into());
        }
        if self.stub {
            body.insert("stub".into(), true.into());
        }
        if let Some(token) = self.token {
            body.insert("t".into(), json!([token.term, token.seq]));
        }
        if let Some(stamp) = self.before {
            body.insert("before".into(), json!([stamp.primary_term, stamp.seq_no, stamp.version]));
        }
        if let Some(Since { stamp, version, digest }) = &self.since {
            let stamp = [stamp.primary_term, stamp.seq_no, stamp.version];
            body.insert("since".into(), json!([stamp, version, &**digest]));
        }
        let hidden = Hidden {
            body: Value::Object(body),
            visible: !self.stub && !self.tombstone,
            held: self.intent.is_some(),
        };
        debug_assert!(
            Mark::of(Some(&hidden)).is_ok_and(|read| read == *self),
            "T8: whoever meets a mark reads it as it was put: {self:?}"
        );
        hidden
    }

    /// Nothing needs to be kept.
    pub fn is_empty(&self) -> bool {
        self.intent.is_none() && self.token.is_none() && !self.tombstone && self.since.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written() {
        let at = |id: DocId| DocAddress {
            index: IndexName::new("i"),
            id,
        };
        let effect = |effect| Touched {
            at: at(DocId::with_type("t", "1")),
            index_uuid: "u".into(),
            effect,
        };
        let put = Effects::Put {
            source: Source::from_value(&json!({"a": 1})),
            routing: Some("r".into()),
            parent: None,
            timing: Timing::default(),
        };
        let timed = |timestamp, life| Effects::Put {
            source: Source::from_value(&json!({})),
            routing: None,
            parent: None,
            timing: Timing {
                timestamp: Some(timestamp),
                life: Some(life),
                judged_ms: Some(5),
            },
        };
        let mut record = Record {
            state: RecordState::Pending,
            session: Arc::from("n1.7"),
            age: None,
            documents: vec![
                effect(None),
                effect(Some(put)),
                effect(Some(timed(Moment::At(-3), Life::Until(8)))),
                effect(Some(timed(Moment::Said("2015".into()), Life::For(8)))),
                effect(Some(timed(Moment::At(3), Life::Endless))),
                effect(Some(Effects::Delete)),
                effect(Some(Effects::Check)),
            ],
            chunks: None,
            digest: "d".into(),
            token: None,
            nonce: Arc::from("n"),
            written_ms: 5,
            kept_ms: 4,
            under: vec![Arc::from("n1:4")],
            refused: vec![NotApplied {
                at: record_address(&Owner::new("x")),
                why: json!({"type": "t"}),
            }],
            skipped: vec![NotApplied {
                at: DocAddress {
                    id: DocId::with_type("t", "1"),
                    ..record_address(&Owner::new("x"))
                },
                why: Value::Null,
            }],
        };
        assert_eq!(Record::parse(&record.render()).expect("a record"), record);
        let stamp = Stamp {
            seq_no: 7,
            primary_term: 2,
            version: 1,
        };
        let touched = record.touch(stamp, RecordState::Aborted, Arc::from("m"));
        assert_eq!((touched.age, touched.token), (Some(Age { term: 2, seq: 7 }), None));
        record.state = RecordState::Committed;
        let touched = record.touch(stamp, RecordState::Committed, Arc::from("m"));
        assert_eq!(touched.token, Some(Token { term: 2, seq: 7 }));
        let later = Stamp { seq_no: 9, ..stamp };
        let again = touched.touch(later, RecordState::Done, Arc::from("m"));
        assert_eq!(again.token, touched.token, "a token never changes");
        assert_eq!(Record::parse(&again.render()).expect("a record"), again);
        let chunks = Chunks {
            name: Arc::from("n"),
            count: 2,
            digest: "e".into(),
        };
        let cut = Record {
            chunks: Some(chunks.clone()),
            ..again.clone()
        };
        let read = Record::parse(&cut.render()).expect("a record");
        assert_eq!(read.chunks, Some(chunks));
        assert!(
            read.documents.iter().all(|touched| touched.effect.is_none()),
            "they are elsewhere"
        );
        assert!(Record::parse(&json!({"state": "what"})).is_err());
    }

    #[test]
    fn marks() {
        let before = Stamp {
            seq_no: 3,
            primary_term: 1,
            version: 4,
        };
        for (mark, visible, held) in [
            (
                Mark {
                    intent: Some(Owner::new("c")),
                    before: Some(before),
                    since: Some(Since {
                        stamp: before,
                        version: 5,
                        digest: Arc::from("d"),
                    }),
                    ..Mark::default()
                },
                true,
                true,
            ),
            (
                Mark {
                    intent: Some(Owner::new("c")),
                    stub: true,
                    ..Mark::default()
                },
                false,
                true,
            ),
            (
                Mark {
                    tombstone: true,
                    token: Some(Token { term: 1, seq: 2 }),
                    ..Mark::default()
                },
                false,
                false,
            ),
            (
                Mark {
                    token: Some(Token { term: 1, seq: 2 }),
                    ..Mark::default()
                },
                true,
                false,
            ),
        ] {
            let hidden = mark.to_hidden();
            assert_eq!((hidden.visible, hidden.held), (visible, held), "{mark:?}");
            assert_eq!(Mark::of(Some(&hidden)).expect("a mark"), mark);
            assert!(!mark.is_empty());
        }
        assert!(Mark::of(None).expect("no mark").is_empty());
        // A crash takes back fewer than 2^20 writes; the next term begins where they began.
        let lost = Token {
            term: 1,
            seq: 7 + (1 << 20) - 1,
        };
        assert!(Token { term: 2, seq: 7 }.commit_seq() > lost.commit_seq());
    }
}
