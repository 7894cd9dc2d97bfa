//! Session documents: what they say, and what may become of them.

use crate::locks::Owner;
use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionKind {
    /// A server's: it beats by itself.
    Server,
    /// A client's, opened with a lock: its beat is `_renew`, its time to live is `keep_alive`.
    Client,
}

/// Where a session is. **Invariant:** open is left once and never entered again; ids are never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionState {
    Open,
    /// Declared dead by somebody else.
    Expired,
    /// Ended by its owner.
    Closed,
    /// Ended by `_break`.
    Broken,
}

/// Why something can no longer be done under a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ended(pub SessionState);

/// A session document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Whose.
    pub kind: SessionKind,
    /// Where it is.
    pub state: SessionState,
    /// Raised by the owner to show that it lives.
    pub beat: u64,
    /// How long it lives without a beat.
    pub ttl: Duration,
    /// Of the last writer.
    pub nonce: Arc<str>,
    /// Who ended it, if another did.
    pub by: Option<Arc<str>>,
    /// Changes made under this lease and not yet known to be finished: who ends the lease resolves them first.
    pub guards: Vec<Owner>,
}

impl Session {
    /// A new one.
    pub fn open(kind: SessionKind, ttl: Duration, nonce: Arc<str>) -> Session {
        Session {
            kind,
            state: SessionState::Open,
            beat: 0,
            ttl,
            nonce,
            by: None,
            guards: Vec::new(),
        }
    }

    fn while_open(&self, change: impl FnOnce(&mut Session)) -> Result<Session, Ended> {
        if self.state != SessionState::Open {
            return Err(Ended(self.state));
        }
        let mut next = self.clone();
        change(&mut next);
        Ok(next)
    }

    /// One beat more; a lease may be given another time to live by it.
    ///
    /// # Errors
    /// It has ended: nothing revives it.
    pub fn renewed(&self, ttl: Option<Duration>, nonce: Arc<str>) -> Result<Session, Ended> {
        self.while_open(|next| {
            next.beat += 1;
            next.ttl = ttl.unwrap_or(next.ttl);
            next.nonce = nonce;
        })
    }

    /// Names a change that is about to be made under this lease. It must be written before the change leaves a mark.
    ///
    /// # Errors
    /// The lease has ended: the change must not be made.
    pub fn guarding(&self, change: &Owner, nonce: Arc<str>) -> Result<Session, Ended> {
        self.while_open(|next| {
            if !next.guards.contains(change) {
                next.guards.push(change.clone());
            }
            next.nonce = nonce;
        })
    }

    /// Forgets changes that are known to be finished.
    pub fn without(&self, finished: &[Owner], nonce: Arc<str>) -> Session {
        let mut next = self.clone();
        next.guards.retain(|change| !finished.contains(change));
        next.nonce = nonce;
        next
    }

    /// Ends it. What ended first stays.
    pub fn ended(&self, state: SessionState, by: Option<Arc<str>>, nonce: Arc<str>) -> Session {
        assert!(state != SessionState::Open, "a session does not end by being open");
        self.while_open(|next| {
            next.state = state;
            next.by = by;
            next.nonce = nonce;
        })
        .unwrap_or_else(|_| self.clone())
    }

    /// The document's source.
    pub fn render(&self) -> Value {
        let guards: Vec<&str> = self.guards.iter().map(Owner::as_str).collect();
        json!({
            "kind": match self.kind { SessionKind::Server => "server", SessionKind::Client => "client" },
            "state": match self.state {
                SessionState::Open => "open",
                SessionState::Expired => "expired",
                SessionState::Closed => "closed",
                SessionState::Broken => "broken",
            },
            "beat": self.beat,
            "ttl_ms": u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX),
            "nonce": &*self.nonce,
            "by": self.by.as_deref(),
            "in": guards,
        })
    }

    /// The inverse of [`Session::render`].
    ///
    /// # Errors
    /// What is no session document.
    pub fn parse(source: &Value) -> Result<Session> {
        let read = || {
            Some(Session {
                kind: match source["kind"].as_str()? {
                    "server" => SessionKind::Server,
                    "client" => SessionKind::Client,
                    _ => return None,
                },
                state: match source["state"].as_str()? {
                    "open" => SessionState::Open,
                    "expired" => SessionState::Expired,
                    "closed" => SessionState::Closed,
                    "broken" => SessionState::Broken,
                    _ => return None,
                },
                beat: source["beat"].as_u64()?,
                ttl: Duration::from_millis(source["ttl_ms"].as_u64()?),
                nonce: Arc::from(source["nonce"].as_str()?),
                by: source["by"].as_str().map(Arc::from),
                guards: source["in"]
                    .as_array()?
                    .iter()
                    .map(|change| change.as_str().map(Owner::new))
                    .collect::<Option<_>>()?,
            })
        };
        read().ok_or_else(|| Error::new(ErrorKind::Corruption, format!("no session document: {source}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce() -> Arc<str> {
        Arc::from("n")
    }

    #[test]
    fn nothing_revives_a_session() {
        let change = Owner::new("c-1");
        let open = Session::open(SessionKind::Client, Duration::from_secs(30), nonce());
        let open = open.renewed(Some(Duration::from_secs(60)), nonce()).expect("open");
        let open = open
            .guarding(&change, nonce())
            .expect("open")
            .guarding(&change, nonce())
            .expect("open");
        assert_eq!((open.beat, open.ttl.as_secs(), open.guards.len()), (1, 60, 1));
        for state in [SessionState::Expired, SessionState::Closed, SessionState::Broken] {
            let ended = open.ended(state, Some(Arc::from("n2")), nonce());
            assert_eq!(Session::parse(&ended.render()).expect("a session"), ended);
            assert_eq!(ended.renewed(None, nonce()), Err(Ended(state)));
            assert_eq!(ended.guarding(&Owner::new("c-2"), nonce()), Err(Ended(state)));
            assert_eq!(
                ended.ended(SessionState::Closed, None, nonce()),
                ended,
                "what ended first stays"
            );
            assert_eq!(
                ended.guards,
                std::slice::from_ref(&change),
                "who ends it is told what to resolve"
            );
            assert!(ended.without(std::slice::from_ref(&change), nonce()).guards.is_empty());
        }
    }

    #[test]
    fn what_is_no_session() {
        let good = Session::open(SessionKind::Server, Duration::from_secs(5), nonce()).render();
        assert!(Session::parse(&good).is_ok());
        for member in ["kind", "state", "beat", "ttl_ms", "nonce", "in"] {
            let mut bad = good.clone();
            bad[member] = Value::Null;
            assert!(Session::parse(&bad).is_err(), "{bad}");
        }
    }
}
