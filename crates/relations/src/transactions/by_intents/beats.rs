//! Sessions of servers over one store: each beats by writing its own, and ends those of others that beat no more.
//!
//! **Invariant T30**: a lease is timed by the server whose session its document names, and by others only once that session has
//! ended; then each of them gives it one fresh keep-alive. **Invariant T31**: a server renews nothing, and is granted nothing, unless
//! it sent its last acknowledged beat less than a time to live ago: nobody can have ended its session since.
//!
//! Time decides who is suspected and nothing else: a session ends by a compared write, and every end of a lease passes the gate.
//!
//! Not here: what a sample says (`sessions::Observed`), the gate (`gate`).

use super::{Portable, SESSION_TTL, expect_unchanged, nonce};
use crate::Relations;
use crate::intents::session_address;
use crate::leases::TimedBy;
use crate::sessions::{Observed, Session, SessionState};
use async_recursion::async_recursion as boxed;
use engine::{Document, EngineExt as _, Expect, Hide, Outcome, Refresh, Source, Write, WriteOp};
use model::{Error, ErrorKind, Result, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// So much is between two beats.
fn beat_every() -> Duration {
    SESSION_TTL / 3
}

/// The sessions as this server knows them.
#[derive(Debug, Default)]
pub(super) struct Beats {
    /// When the last beat was sent that was acknowledged; opening is the first. `None`: this server has opened none.
    acknowledged: Option<Duration>,
    /// The next beat is sent then.
    next: Duration,
    /// Another server has ended the own one.
    is_lost: bool,
    observed: BTreeMap<Arc<str>, Observed>,
    ended: BTreeSet<Arc<str>>,
}

impl Beats {
    /// The own session was opened by a write that was sent then, and these had ended.
    pub(super) fn note_opening(&mut self, sent: Duration, ended: Vec<Arc<str>>) {
        self.acknowledged = Some(sent);
        self.next = sent + beat_every();
        self.ended.extend(ended);
    }
    /// Who times the leases of this session (T30).
    pub(super) fn times(&self, session: Arc<str>, own: &str) -> TimedBy {
        debug_assert!(
            !self.ended.contains(own),
            "T30: a server whose session was ended has begun another one"
        );
        match self.ended.contains(&session) {
            true => TimedBy::Everybody,
            false if *session == *own => TimedBy::Here,
            false => TimedBy::Server(session),
        }
    }
    /// T31.
    ///
    /// # Errors
    /// Somebody may have ended the session.
    pub(super) fn check(&self, own: &str, now: Duration) -> Result<()> {
        debug_assert!(
            self.acknowledged.is_none_or(|sent| sent <= now),
            "T31: a beat counts from when it was sent, {:?}, and it is {now:?}",
            self.acknowledged
        );
        let reason = match self.acknowledged {
            _ if self.is_lost => format!("the session [{own}] of this server was ended by another one"),
            Some(sent) if now < sent + SESSION_TTL => return Ok(()),
            Some(_) => format!("the session [{own}] of this server could not be renewed for [{SESSION_TTL:?}]"),
            None => format!("the session [{own}] of this server is not open"),
        };
        let reason = format!("{reason}; until then locks are neither granted nor renewed here");
        Err(Error::new(ErrorKind::Unavailable, reason))
    }
    /// Is it time? Then the next time is a while later.
    fn begin(&mut self, now: Duration) -> bool {
        let is_due = self.acknowledged.is_some() && now >= self.next;
        if is_due {
            self.next = now + beat_every();
        }
        is_due
    }
}

/// A session document that was found.
struct SessionDocument {
    name: Arc<str>,
    session: Session,
    stamp: Stamp,
}

impl SessionDocument {
    fn of(document: &Document) -> Result<Option<SessionDocument>> {
        let Some(name) = document.at.id.id.strip_prefix("s:") else {
            return Ok(None);
        };
        Ok(Some(SessionDocument {
            name: Arc::from(name),
            session: Session::parse(&document.source.parse()?)?,
            stamp: document.stamp,
        }))
    }
}

impl Relations {
    /// Beats, and looks at the sessions of others, each time a third of their time to live has passed.
    ///
    /// # Errors
    /// The engine's: then this server did not look, and suspects nobody.
    #[boxed]
    pub(crate) async fn keep_session(&self, portable: &Portable) -> Result<()> {
        let sent = self.clock.monotonic();
        if !portable.beats().begin(sent) {
            return Ok(());
        }
        let own = portable.session.get();
        let documents = self.control_documents(&["server"]).await?.unwrap_or_default();
        let now = self.clock.monotonic();
        let mut ended = Vec::new();
        for document in &documents {
            let Some(found) = SessionDocument::of(document)? else {
                continue;
            };
            if found.name == own {
                self.beat(portable, &found, sent).await?;
            } else if self.has_ended(portable, &found, sent, now).await? {
                ended.push(found.name);
            }
        }
        self.adopt_sessions(portable, ended).await
    }

    async fn beat(&self, portable: &Portable, found: &SessionDocument, sent: Duration) -> Result<()> {
        if found.session.state != SessionState::Open {
            portable.beats().is_lost = true;
            return self.open_another(portable, sent).await;
        }
        let next = found.session.beat(nonce(&*self.clock));
        let is_acknowledged = self.write_session(&found.name, &next, found.stamp).await?;
        let mut beats = portable.beats();
        debug_assert!(
            next.beat > found.session.beat && next.ttl == SESSION_TTL,
            "T31: others see a beat by its number, and end the session after the time that this server keeps"
        );
        match is_acknowledged {
            true => beats.acknowledged = Some(sent),
            // Its own touch, or a lost answer: at once again.
            false => beats.next = sent,
        }
        Ok(())
    }

    /// The own session was ended by another server, which takes it for stopped: its leases are timed by everybody now, its changes
    /// are aborted. Another one begins.
    async fn open_another(&self, portable: &Portable, sent: Duration) -> Result<()> {
        let name: Arc<str> = Arc::from(format!("{}.{:013x}", self.server, self.clock.random() >> 12));
        let open = Session::open(SESSION_TTL, nonce(&*self.clock));
        let write = Write {
            expect: Expect::Absent,
            hide: Hide::Drop,
            ..Write::new(session_address(&name), WriteOp::Put(Source::from_value(&open.render())))
        };
        if !matches!(self.engine.write_one(write, Refresh::No).await?, Outcome::Written(_)) {
            // With another name at once.
            portable.beats().next = sent;
            return Ok(());
        }
        let before = portable.session.get();
        portable.session.replace(name);
        {
            let mut beats = portable.beats();
            beats.note_opening(sent, vec![before]);
            beats.is_lost = false;
        }
        let (mut table, now) = self.locks.now(&self.clock);
        table.adopt(&TimedBy::Here, now);
        Ok(())
    }

    /// Has this session ended, and is that news here? One that beats no more is ended.
    async fn has_ended(&self, portable: &Portable, found: &SessionDocument, sent: Duration, now: Duration) -> Result<bool> {
        if found.session.state != SessionState::Open {
            return Ok(!portable.beats().ended.contains(&found.name));
        }
        let is_suspect = {
            let mut beats = portable.beats();
            let observed = beats.observed.entry(found.name.clone());
            let observed = observed.or_insert_with(|| Observed::first(found.stamp, now));
            observed.is_suspect(found.stamp, sent, now, found.session.ttl)
        };
        let ended = || found.session.expire(portable.session.get(), nonce(&*self.clock));
        // Who has beaten meanwhile lives.
        Ok(is_suspect && self.write_session(&found.name, &ended(), found.stamp).await?)
    }

    /// Sessions have ended: their changes are decided, and their leases are timed here too.
    async fn adopt_sessions(&self, portable: &Portable, ended: Vec<Arc<str>>) -> Result<()> {
        if ended.is_empty() {
            return Ok(());
        }
        portable.runner.sweep().await?;
        for name in ended {
            {
                let mut beats = portable.beats();
                beats.observed.remove(&name);
                beats.ended.insert(name.clone());
            }
            let (mut table, now) = self.locks.now(&self.clock);
            table.adopt(&TimedBy::Server(name), now);
        }
        Ok(())
    }

    /// True if it was acknowledged.
    async fn write_session(&self, name: &str, session: &Session, expected: Stamp) -> Result<bool> {
        let write = Write {
            expect: expect_unchanged(expected),
            hide: Hide::Drop,
            ..Write::new(session_address(name), WriteOp::Put(Source::from_value(&session.render())))
        };
        match self.engine.write_one(write, Refresh::No).await? {
            Outcome::Written(_) => Ok(true),
            Outcome::Refused(error) => Err(error),
            Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => Ok(false),
        }
    }
}
