//! A lease: one lock that a client opened, its targets, how long it lives, and its document in the control index.
//!
//! Not here: who may hold what (`locks`), the table of all of them (`table`).

use super::caller::Caller;
use crate::intents::Token;
use crate::locks::{Claim, LockTarget, Mode};
use crate::schema;
use engine::Source;
use model::text::quote;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The shortest and the longest keep alive.
pub const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// Unless the client says otherwise.
pub const KEEP_ALIVE_DEFAULT: Duration = Duration::from_secs(30);

/// The keep alive of what ends only by a request: lock documents, unless their index says otherwise.
pub(crate) const NEVER: Duration = Duration::from_millis(u64::MAX);

/// The effect of its end on a transaction that runs under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnExpire {
    /// It cannot commit any more.
    #[default]
    Release,
    /// It ends at once.
    Abort,
}

/// Who ends a lease when its time is over. Where one process has the store it always is this one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum TimedBy {
    /// This server.
    #[default]
    Here,
    /// The server of this session: here the lease is over when its end is written.
    Server(Arc<str>),
    /// Every server, since the session of the one that timed it has ended. Nobody renews it.
    Everybody,
}

/// A target in the mode asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The target.
    pub target: LockTarget,
    /// Shared or exclusive.
    pub mode: Mode,
}

/// The lock document that a lease belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockDocument {
    /// Its document.
    pub at: DocAddress,
    /// The index that the document is in: not one of the same name made later.
    pub uuid: String,
    /// Who took it.
    pub caller: Caller,
}

/// One lock of a client.
#[derive(Clone, Debug)]
pub struct Lease {
    /// Names its server.
    pub id: Arc<str>,
    /// A label for people.
    pub owner: String,
    /// The targets that were asked for.
    pub targets: Vec<Wanted>,
    /// The claims of these targets, intentions too.
    pub claims: Vec<Claim>,
    /// Grows with every grant of the store.
    pub token: u64,
    /// How long it lives after its grant, or its last renewal.
    pub keep_alive: Duration,
    /// See there.
    pub on_expire: OnExpire,
    /// It ends with the connection that opened or last renewed it.
    pub on_disconnect_release: bool,
    /// That connection.
    pub connection: Option<u64>,
    /// Monotonic; of this process.
    pub deadline: Duration,
    /// The server that times it.
    pub timed_by: TimedBy,
    /// Its end is being written: it guards nothing and is renewed no more.
    pub(crate) ending: bool,
    /// Its document says that its time is over: a start gives it no fresh keep alive. Its end waits for a change under it
    /// that cannot be finished.
    pub(crate) over_is_written: bool,
    /// For people.
    pub opened_ms: i64,
    /// The lock document that it belongs to, if any.
    pub lock_document: Option<Arc<LockDocument>>,
}

/// How a lease ended, other than by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its time was over.
    Expired,
    /// Somebody broke it.
    Broken,
}

/// When a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedAt {
    /// By the wall clock, for people.
    pub(crate) wall_ms: i64,
    /// By the time of kept outcomes: its document is forgotten a day later, however the wall clock is set.
    pub(crate) kept_ms: i64,
}

impl Lease {
    /// The owner's label, else the id.
    pub fn name(&self) -> &str {
        if self.owner.is_empty() { &self.id } else { &self.owner }
    }
    /// It does not end by itself.
    pub fn is_endless(&self) -> bool {
        self.keep_alive == NEVER
    }
    /// The time that it has left.
    pub fn remaining(&self, now: Duration) -> Duration {
        match &self.timed_by {
            TimedBy::Here | TimedBy::Everybody => self.deadline.saturating_sub(now),
            TimedBy::Server(_) => self.keep_alive,
        }
    }
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        let is_timed = !matches!(self.timed_by, TimedBy::Server(_));
        self.ending || is_timed && now >= self.deadline
    }
    /// Its targets as answers show them, as the text of JSON: those asked for, then the paths above them that it holds
    /// by intention.
    pub fn write_targets(&self, out: &mut String) {
        out.push('[');
        for (n, wanted) in self.targets.iter().enumerate() {
            out.push_str(if n == 0 { "{" } else { ",{" });
            wanted.target.write_members(out);
            let _ = write!(out, ",\"mode\":\"{}\"}}", wanted.mode.word());
        }
        for claim in self.claims.iter().rev().filter(|claim| claim.implied) {
            if let crate::locks::LockKey::Path { index, path } = &claim.key {
                out.push_str(",{\"index\":");
                quote(out, index.as_str());
                out.push_str(",\"path\":");
                quote(out, &path.to_string());
                out.push_str(",\"mode\":\"shared\",\"implied\":true}");
            }
        }
        out.push(']');
    }

    /// Where its document is.
    pub(crate) fn at(id: &str) -> DocAddress {
        DocAddress {
            index: IndexName::new(schema::CONTROL),
            id: DocId::plain(format!("{}{id}", schema::LEASE)),
        }
    }

    /// Its document; `ended` says how and when it ended.
    pub(crate) fn document(&self, ended: Option<(Ending, EndedAt)>) -> Source {
        let (kind, at) = match ended {
            None => ("lease", self.opened_ms),
            Some((Ending::Expired, at)) => ("lease_expired", at.wall_ms),
            Some((Ending::Broken, at)) => ("lease_broken", at.wall_ms),
        };
        let (opened, keep_alive) = (self.opened_ms, self.keep_alive.as_millis() as u64);
        let (abort, release) = (self.on_expire == OnExpire::Abort, self.on_disconnect_release);
        // Two writes a lock: it is written as text, not as a tree.
        let mut out = String::with_capacity(192 + 64 * (self.targets.len() + self.claims.len()));
        let _ = write!(out, "{{\"kind\":\"{kind}\",\"at\":{at}");
        if let Some((_, at)) = ended {
            let _ = write!(out, ",\"kept\":{}", at.kept_ms);
        }
        out.push_str(",\"id\":");
        quote(&mut out, &self.id);
        out.push_str(",\"owner\":");
        quote(&mut out, &self.owner);
        let _ = write!(
            out,
            ",\"opened\":{opened},\"keep_alive_ms\":{keep_alive},\"abort\":{abort},\"release\":{release},\"targets\":["
        );
        for (n, wanted) in self.targets.iter().enumerate() {
            out.push_str(if n == 0 { "{" } else { ",{" });
            wanted.target.write_members(&mut out);
            let _ = write!(out, ",\"mode\":\"{}\"}}", wanted.mode.render());
        }
        out.push_str("],\"claims\":[");
        let mut key = String::new();
        for (n, claim) in self.claims.iter().enumerate() {
            key.clear();
            let _ = write!(key, "{}", claim.key);
            out.push_str(if n == 0 { "[" } else { ",[" });
            quote(&mut out, &key);
            let _ = write!(out, ",\"{}\",{}]", claim.mode.render(), claim.implied);
        }
        out.push(']');
        if self.over_is_written {
            out.push_str(",\"over\":true");
        }
        if let Some(lock_document) = &self.lock_document {
            let lock_document = json!({
                "index": lock_document.at.index.as_str(), "type": lock_document.at.id.doc_type.as_deref(), "id": &*lock_document.at.id.id,
                "uuid": lock_document.uuid, "caller": lock_document.caller.to_json(),
            });
            let _ = write!(out, ",\"literal\":{lock_document}");
        }
        out.push('}');
        let source = Source(Arc::from(out.into_bytes()));
        debug_assert!(
            Lease::read(&source, Stamp::default(), Duration::ZERO)
                .is_ok_and(|(read, _)| (&read.id, &read.claims, &read.targets) == (&self.id, &self.claims, &self.targets)),
            "T18: a start reads a lease as it was written: {self:?}"
        );
        source
    }
    /// From its document, with a fresh keep alive; the ending if it has ended.
    ///
    /// # Errors
    /// The source is no such document.
    pub(crate) fn read(source: &Source, stamp: Stamp, now: Duration) -> Result<(Lease, Option<Ending>)> {
        let value = source.parse()?;
        let corrupt = || Error::new(ErrorKind::Corruption, format!("no sound lease: {value}"));
        let text = |name: &str| value[name].as_str().ok_or_else(corrupt);
        let list = |name: &str| value[name].as_array().ok_or_else(corrupt);
        let ending = match text("kind")? {
            "lease" => None,
            "lease_expired" => Some(Ending::Expired),
            "lease_broken" => Some(Ending::Broken),
            _ => return Err(corrupt()),
        };
        let mut targets = Vec::new();
        for target in list("targets")? {
            let members: &Map<String, Value> = target.as_object().ok_or_else(corrupt)?;
            targets.push(Wanted {
                target: LockTarget::parse(members)?,
                mode: members["mode"].as_str().and_then(Mode::parse).ok_or_else(corrupt)?,
            });
        }
        let mut claims = Vec::new();
        for claim in list("claims")? {
            claims.push(Claim {
                key: claim[0].as_str().and_then(crate::locks::LockKey::parse).ok_or_else(corrupt)?,
                mode: claim[1].as_str().and_then(Mode::parse).ok_or_else(corrupt)?,
                implied: claim[2].as_bool().ok_or_else(corrupt)?,
            });
        }
        let lock_document = match &value["literal"] {
            Value::Null => None,
            lock_document => {
                let word = |name: &str| lock_document[name].as_str().ok_or_else(corrupt);
                let id = word("id")?;
                Some(Arc::new(LockDocument {
                    at: DocAddress {
                        index: IndexName::new(word("index")?),
                        id: match lock_document["type"].as_str() {
                            Some(doc_type) => DocId::with_type(doc_type, id),
                            None => DocId::plain(id),
                        },
                    },
                    uuid: word("uuid")?.to_owned(),
                    caller: Caller::from_json(&lock_document["caller"]),
                }))
            }
        };
        let over_is_written = value["over"] == true;
        let keep_alive = Duration::from_millis(value["keep_alive_ms"].as_u64().ok_or_else(corrupt)?);
        let lease = Lease {
            id: Arc::from(text("id")?),
            owner: text("owner")?.to_owned(),
            targets,
            claims,
            token: token(stamp),
            keep_alive,
            on_expire: if value["abort"] == true {
                OnExpire::Abort
            } else {
                OnExpire::Release
            },
            on_disconnect_release: value["release"] == true,
            connection: None,
            deadline: if over_is_written { now } else { now + keep_alive },
            timed_by: TimedBy::Here,
            ending: false,
            over_is_written,
            opened_ms: value["opened"].as_i64().unwrap_or(0),
            lock_document,
        };
        Ok((lease, ending))
    }
}

/// One number below 2^53 from the stamp of a grant: terms and sequence numbers of the control index only grow.
pub(crate) fn token(stamp: Stamp) -> u64 {
    Token::of(stamp).commit_seq()
}

/// The token of the lease that was written with this stamp.
pub(crate) fn token_of(stamp: Option<&Stamp>) -> u64 {
    stamp.map_or(0, |stamp| token(*stamp))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::{LockPath, plan};

    /// A written lease is the one that is read and shown.
    #[test]
    fn text_and_tree() {
        let wanted = |target: LockTarget, mode| Wanted { target, mode };
        let fs = IndexName::new("fs");
        let path = LockPath::parse("/a/\"b\"/c").expect("a path");
        let targets = vec![
            wanted(LockTarget::Name("x\n".into()), Mode::Exclusive),
            wanted(LockTarget::Path { index: fs, path }, Mode::Shared),
        ];
        let claims = plan(targets.iter().flat_map(|w| w.target.claims(w.mode, &[])));
        let lease = Lease {
            id: Arc::from("n1:1"),
            owner: "somebody \\ else".into(),
            targets,
            claims,
            token: (7 << 20) + 3,
            keep_alive: Duration::from_secs(60),
            on_expire: OnExpire::Abort,
            on_disconnect_release: true,
            connection: None,
            deadline: Duration::from_secs(61),
            timed_by: TimedBy::Here,
            ending: false,
            over_is_written: false,
            opened_ms: 12,
            lock_document: None,
        };
        let stamp = Stamp {
            seq_no: 3,
            primary_term: 7,
            version: 1,
        };
        let at = EndedAt {
            wall_ms: 99,
            kept_ms: 77,
        };
        for ended in [None, Some((Ending::Broken, at))] {
            let document = lease.document(ended);
            let (read, ending) = Lease::read(&document, stamp, Duration::from_secs(1)).expect("a lease");
            assert_eq!(ending, ended.map(|(how, _)| how));
            assert_eq!(format!("{read:?}"), format!("{lease:?}"));
            assert_eq!(
                Source::from_value(&document.parse().expect("JSON")).0,
                document.0,
                "nothing is written twice"
            );
        }
        let mut out = String::new();
        lease.write_targets(&mut out);
        let expected = r#"[{"name":"x\n","mode":"exclusive"},{"index":"fs","path":"/a/\"b\"/c","mode":"shared"},
            {"index":"fs","path":"/a/\"b\"","mode":"shared","implied":true},{"index":"fs","path":"/a","mode":"shared","implied":true}]"#;
        assert_eq!(out, expected.replace("\n            ", ""));
    }
}
