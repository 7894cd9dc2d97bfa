//! One session document: what it says, and how it ends.

use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Where a session is. **Invariant T19:** a session leaves `Open` once and never enters it again; ids are never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionState {
    /// Its server runs, as far as anybody knows.
    Open,
    /// A later server declared it dead.
    Expired,
}

/// A session document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Where it is.
    pub state: SessionState,
    /// Rises while its server runs, where several servers have one store. Another one does not beat.
    pub beat: u64,
    /// How long it would live without a beat.
    pub ttl: Duration,
    /// The nonce of the last writer.
    pub nonce: Arc<str>,
    /// Who ended it.
    pub by: Option<Arc<str>>,
}

impl Session {
    /// A new one.
    pub fn open(ttl: Duration, nonce: Arc<str>) -> Session {
        Session {
            state: SessionState::Open,
            beat: 0,
            ttl,
            nonce,
            by: None,
        }
    }

    /// The same session, its server alive.
    #[must_use]
    pub fn beat(&self, nonce: Arc<str>) -> Session {
        debug_assert!(self.state == SessionState::Open, "T19: a session that has ended beats");
        Session {
            beat: self.beat + 1,
            nonce,
            ..self.clone()
        }
    }

    /// The same session, declared dead. One that has ended stays as it is (T19).
    #[must_use]
    pub fn expire(&self, by: Arc<str>, nonce: Arc<str>) -> Session {
        match self.state {
            SessionState::Expired => self.clone(),
            SessionState::Open => Session {
                state: SessionState::Expired,
                nonce,
                by: Some(by),
                ..self.clone()
            },
        }
    }

    /// The document's source. `in` holds nothing.
    pub fn render(&self) -> Value {
        let body = json!({
            "kind": "server",
            "state": match self.state {
                SessionState::Open => "open",
                SessionState::Expired => "expired",
            },
            "beat": self.beat,
            "ttl_ms": u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX),
            "nonce": &*self.nonce,
            "by": self.by.as_deref(),
            "in": [],
        });
        debug_assert!(
            Session::parse(&body).is_ok_and(|read| read == *self),
            "T19: a session is read as it is written: {self:?}"
        );
        body
    }

    /// The inverse of [`Session::render`].
    ///
    /// # Errors
    /// The source is no session document.
    pub fn parse(source: &Value) -> Result<Session> {
        let read = || {
            let state = match source["state"].as_str()? {
                "open" => SessionState::Open,
                "expired" => SessionState::Expired,
                _ => return None,
            };
            (source["kind"] == "server").then_some(Session {
                state,
                beat: source["beat"].as_u64().unwrap_or(0),
                ttl: Duration::from_millis(source["ttl_ms"].as_u64()?),
                nonce: Arc::from(source["nonce"].as_str()?),
                by: source["by"].as_str().map(Arc::from),
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

    /// T19.
    #[test]
    fn nothing_revives_a_session() {
        let open = Session::open(Duration::from_secs(30), nonce());
        let expired = open.expire(Arc::from("n2"), nonce());
        assert_eq!(expired.state, SessionState::Expired);
        assert_eq!(
            expired.expire(Arc::from("n3"), Arc::from("m")),
            expired,
            "the first end stays"
        );
        for session in [open, expired] {
            assert_eq!(Session::parse(&session.render()).expect("a session"), session);
        }
    }

    #[test]
    fn what_is_no_session() {
        let good = Session::open(Duration::from_secs(5), nonce()).render();
        assert!(Session::parse(&good).is_ok());
        for member in ["kind", "state", "ttl_ms", "nonce"] {
            let mut bad = good.clone();
            bad[member] = Value::Null;
            assert!(Session::parse(&bad).is_err(), "{bad}");
        }
    }
}
