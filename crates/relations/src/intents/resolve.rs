//! Resolves a change that somebody met: decides it, finishes it, takes its marks off (T9). Plain writes that meet one.
//!
//! Not here: what is to be done (`decide`), finding changes that nobody meets (`sweep`).

use super::apply::is_of_an_index;
use super::attempt::Resolved;
use super::decide::{Meet, Purge, RecordState, Then, decide, meet, purge};
use super::intent::{expect_unchanged, rewrite};
use super::record::{Mark, Record, Token, Touched, Uuids};
use super::runner::{Runner, session_address};
use crate::locks::{Age, Owner};
use crate::sessions::{Session, SessionState};
use async_recursion::async_recursion as boxed;
use engine::{EngineExt as _, Expect, Hide, Judge, Outcome, Refresh, Write, WriteOp};
use model::{DocAddress, Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Runner {
    /// Decides, finishes and cleans up any change, whoever's it is: idempotent, any number of callers at once.
    ///
    /// # Errors
    /// The engine's; another call goes on where this one stopped.
    #[boxed]
    pub async fn resolve(&self, change: &Owner) -> Result<Resolved> {
        let mut turn = 1;
        loop {
            let read = self.read_record(change).await?;
            let decided = decide(read.as_ref().map(|(record, _)| record.state));
            let (next, expect) = match read {
                Some((record, stamp)) => (record.touch(stamp, decided.write, self.nonce()), expect_unchanged(stamp)),
                None => (self.negation(), Expect::Absent),
            };
            if let Some(stamp) = self.write_record(change, &next, expect).await? {
                return match decided.then {
                    Then::Apply => {
                        let token = next.token.unwrap_or(Token::of(stamp));
                        let Some(whole) = self.whole(change, next).await? else {
                            return Ok(Resolved::Done);
                        };
                        self.apply_all(change, &whole, token, BTreeMap::new(), &mut BTreeMap::new())
                            .await
                    }
                    Then::Purge => {
                        self.purge_all(change, &next).await?;
                        Ok(if next.state == RecordState::Done {
                            Resolved::Done
                        } else {
                            Resolved::Aborted
                        })
                    }
                    Then::Wait => Ok(Resolved::Stuck),
                };
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// A1 to A3 of one's own change, or what has become of it.
    pub(super) async fn abort(&self, change: &Owner) -> Result<Resolved> {
        self.resolve(change).await
    }

    /// The marks of an aborted change go, and late ones of a finished one. What a stale read hides is swept later: nobody minds a dead mark.
    pub(super) async fn purge_all(&self, change: &Owner, record: &Record) -> Result<()> {
        debug_assert!(
            matches!(record.state, RecordState::Aborted | RecordState::Done),
            "T9: intents go before the record is decided: {:?}",
            record.state
        );
        let mut open: BTreeSet<DocAddress> = record.documents.iter().map(|touched| touched.at.clone()).collect();
        let touched: Vec<&Touched> = record.documents.iter().collect();
        let gone = self.replaced_indices(&touched).await?;
        open.retain(|at| !gone.contains(at.index.as_str()));
        match self.take_off(change, open, &record.uuids()).await {
            // A dead mark in an index that is closed is taken off by whoever meets it.
            Err(error) if error.kind() == ErrorKind::IndexClosed => Ok(()),
            other => other,
        }
    }

    /// Takes a decided change's marks off these documents, in these indices as far as they are known.
    #[boxed]
    pub(super) async fn take_off(&self, change: &Owner, mut open: BTreeSet<DocAddress>, uuids: &Uuids) -> Result<()> {
        let mut turn = 1;
        while !open.is_empty() {
            let mut writes = Vec::new();
            for (at, marked) in self.read_marked(&open).await? {
                let clean = Mark {
                    intent: None,
                    before: None,
                    ..marked.mark.clone()
                };
                match purge(marked.mark.intent.as_ref(), marked.mark.stub, change) {
                    Purge::Leave => {
                        open.remove(&at);
                    }
                    Purge::TakeOff => writes.push(uuids.address(rewrite(&at, &marked, &clean))),
                    Purge::Remove => writes.push(uuids.address(Write {
                        expect: marked.expect(),
                        hide: Hide::Drop,
                        judge: Judge::Unseen,
                        ..Write::new(at, WriteOp::Delete)
                    })),
                }
            }
            let addresses: Vec<DocAddress> = writes.iter().map(|write| write.at.clone()).collect();
            let outcomes = self.engine.write(writes, Refresh::No).await?;
            assert_eq!(outcomes.len(), addresses.len(), "T7: an engine answers each write, in order");
            for (at, outcome) in addresses.into_iter().zip(outcomes) {
                match outcome {
                    Outcome::Refused(error) if error.is_transient() => return Err(error),
                    Outcome::Written(_) | Outcome::Refused(_) => drop(open.remove(&at)),
                    Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => {}
                }
            }
            if !open.is_empty() {
                self.rest(turn).await;
                turn += 1;
            }
        }
        Ok(())
    }

    /// Another's mark is in the way; true if it no longer is.
    #[boxed]
    pub(crate) async fn meet(&self, age: Option<Age>, other: &Owner, at: &BTreeSet<DocAddress>) -> Result<bool> {
        let read = self.read_record(other).await?;
        let (state, other_age, dead) = match &read {
            None => (None, Age::default(), true),
            Some((record, stamp)) => (
                Some(record.state),
                record.age_at(*stamp),
                self.is_dead(&record.session).await?,
            ),
        };
        match meet(age, other_age, state, dead) {
            Meet::Wait => Ok(false),
            Meet::Resolve => {
                match self.resolve(other).await {
                    Ok(Resolved::Stuck) => return Ok(false),
                    // It waits for another index than this one's, perhaps: what could be applied was, so it is looked at again.
                    Err(error) if is_of_an_index(&error) => return Ok(false),
                    resolved => drop(resolved?),
                }
                // A mark that came so late that its record has been collected is named by nobody but itself.
                if read.is_none() {
                    self.take_off(other, at.clone(), &Uuids::default()).await?;
                }
                Ok(true)
            }
        }
    }

    /// The refusal of whoever waited too long for another change.
    pub(super) async fn wait_timeout(&self, other: &Owner, what: String) -> Result<Error> {
        let stuck = matches!(self.read_record(other).await?, Some((record, _)) if record.state == RecordState::Stuck);
        Ok(match stuck {
            false => Error::new(ErrorKind::Timeout, what),
            true => {
                let why = self.why_stuck(other).await?;
                Error::new(ErrorKind::Timeout, format!("{what}; {}", why.reason())).with("transaction", other.as_str())
            }
        })
    }

    /// A session that is not open any more. No safety hangs on this: what is pending is aborted by comparing.
    pub(super) async fn is_dead(&self, session: &str) -> Result<bool> {
        let Some(document) = self.engine.read_one(session_address(session)).await? else {
            return Ok(false);
        };
        Ok(Session::parse(&document.source.parse()?)?.state != SessionState::Open)
    }

    /// A plain write of one document, beside changes: it keeps marks, and waits for pending intents as the youngest.
    ///
    /// # Errors
    /// The engine's; a mark that did not go before the deadline.
    #[boxed]
    pub async fn write(&self, write: Write, refresh: Refresh, deadline: Duration) -> Result<Outcome> {
        let mut turn = 1;
        let at = BTreeSet::from([write.at.clone()]);
        loop {
            let held = match self.engine.write_one(write.clone(), refresh).await? {
                Outcome::Held(body) => body,
                outcome => return Ok(outcome),
            };
            let Some(other) = held["i"].as_str().map(Owner::new) else {
                return Err(Error::new(ErrorKind::Corruption, format!("held by no change: {held}")));
            };
            let is_gone = self.meet(None, &other, &at).await?;
            if self.clock.monotonic() > deadline {
                let what = format!("[{}][{}] is held by change [{other}]", write.at.index, write.at.id.id);
                return Err(self.wait_timeout(&other, what).await?);
            }
            // Who takes a mark off may be refused: it is there again then.
            if !is_gone || turn > 1 {
                self.rest(turn).await;
            }
            turn += 1;
        }
    }
}
