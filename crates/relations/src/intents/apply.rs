//! W6 and W7: the outcomes of a committed change reach their documents, by the marks.
//!
//! Not here: the commit (`runner`), who else may come to apply it (`resolve`).

use super::attempt::Resolved;
use super::decide::{Apply, RecordState, apply};
use super::intent::{Marked, apply_write, expect_unchanged, rewrite};
use super::record::{Mark, NotApplied, Record, Token, Touched};
use super::runner::Runner;
use crate::locks::Owner;
use async_recursion::async_recursion as boxed;
use engine::{Expect, Outcome, Refresh, Write};
use model::{DocAddress, Error, ErrorKind, Result, Stamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Writes of one batch while applying, where no batch shows its writes all at once.
const BATCH: usize = 1_000;

/// After so many turns in which somebody was in the way, documents are written one by one.
const TOGETHER_TURNS: u32 = 8;

/// May it be possible later? An index that is closed or blocked may be opened again.
pub(crate) fn is_for_now(error: &Error) -> bool {
    error.is_transient() || is_of_an_index(error)
}

/// Is it one index that takes nothing for now, and not the engine?
pub(crate) fn is_of_an_index(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::IndexClosed | ErrorKind::ClusterBlock)
}

/// The result of bringing the outcomes of a change to their documents.
enum Brought {
    /// Each is there.
    All,
    /// Somebody else has come to this.
    Elsewhere(Resolved),
    /// To these it could not be brought.
    Left(Vec<(DocAddress, Error)>),
}

/// The documents of a change that need no further turn.
#[derive(Default)]
struct Deliveries<'r> {
    /// All of them.
    acknowledged: BTreeSet<&'r DocAddress>,
    /// Those among them to which the outcome could not be brought.
    left: Vec<(DocAddress, Error)>,
}

impl<'r> Deliveries<'r> {
    /// The document cannot be written; without an error it is gone with its index.
    fn leave(&mut self, record: &Record, at: &'r DocAddress, error: Option<&Error>) {
        if let Some(error) = error.filter(|_| !record.skips(at)) {
            self.left.push((at.clone(), error.clone()));
        }
        let is_first = self.acknowledged.insert(at);
        debug_assert!(is_first, "T8: a document is brought its outcome or left, once: {at:?}");
    }
}

/// How an outcome that was written over its intent was answered.
enum Acknowledgement {
    /// It is to be tried again.
    None,
    Written(Stamp),
    /// It was refused, and an operator has said that it may be.
    Skipped,
    /// It cannot be written.
    Left(Error),
}

/// # Errors
/// The engine itself takes nothing now.
fn acknowledgement(record: &Record, at: &DocAddress, outcome: Outcome) -> Result<Acknowledgement> {
    Ok(match outcome {
        Outcome::Written(written) => Acknowledgement::Written(written.stamp),
        Outcome::Refused(error) if error.is_transient() && !is_of_an_index(&error) => return Err(error),
        // Its index is gone, as the next turn finds.
        Outcome::Refused(error) if error.kind() == ErrorKind::IndexNotFound => Acknowledgement::None,
        // A mark of what is done is dead: whoever meets it takes it off.
        Outcome::Refused(_) if record.skips(at) => Acknowledgement::Skipped,
        Outcome::Refused(error) => Acknowledgement::Left(error),
        Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => Acknowledgement::None,
    })
}

impl Runner {
    /// W6 and W7: every outcome reaches its document, by the marks. `at_hand` are documents as this process has just
    /// written them; the others, and those that have moved, are read.
    ///
    /// A refused outcome of one document does not keep the others waiting. A change is stuck if one is refused for good.
    ///
    /// # Errors
    /// The engine's; what is refused for now.
    #[boxed]
    pub(super) async fn apply_all(
        &self,
        change: &Owner,
        record: &Record,
        token: Token,
        at_hand: BTreeMap<DocAddress, Marked>,
        stamped: &mut BTreeMap<DocAddress, Stamp>,
    ) -> Result<Resolved> {
        let mut left = match self.bring(change, record, token, at_hand, stamped).await? {
            Brought::All => return self.finish(change, RecordState::Done).await,
            Brought::Elsewhere(resolved) => return Ok(resolved),
            Brought::Left(left) => left,
        };
        match left.iter().all(|(_, error)| is_for_now(error)) {
            // Somebody else goes on, or we do later: it is committed.
            true => Err(left.swap_remove(0).1),
            false => self.stick(change, &left).await,
        }
    }

    #[boxed]
    async fn bring(
        &self,
        change: &Owner,
        record: &Record,
        token: Token,
        mut at_hand: BTreeMap<DocAddress, Marked>,
        stamped: &mut BTreeMap<DocAddress, Stamp>,
    ) -> Result<Brought> {
        assert!(
            !matches!(record.state, RecordState::Pending | RecordState::Aborted),
            "T9: outcomes reach documents only after the record is committed"
        );
        let mut open: Vec<&Touched> = record.documents.iter().collect();
        let mut settled = Deliveries::default();
        let mut turn = 0;
        let uuids = record.uuids();
        while !open.is_empty() {
            // Where the engine can, readers see all of it or nothing.
            let together = self.engine.writes_show_together() && turn < TOGETHER_TURNS;
            let most = if together { usize::MAX } else { BATCH };
            let batch: Vec<&Touched> = open.iter().copied().take(most).collect();
            let here = self.reachable(record, batch, &mut at_hand, &mut settled).await?;
            // The second guard: what was read before this is not written after somebody else has finished.
            if turn > 0 {
                match self.touch_again(change).await? {
                    RecordState::Committed => {}
                    RecordState::Stuck => return Ok(Brought::Elsewhere(Resolved::Stuck)),
                    _ => return Ok(Brought::Elsewhere(Resolved::Done)),
                }
            }
            let mut writes = Vec::new();
            let mut written = Vec::new();
            for touched in here {
                let at = &touched.at;
                if let Some(marked) = at_hand.remove(at) {
                    writes.push(uuids.address(write_of(change, record, touched, &marked, token)));
                    written.push(at);
                }
            }
            let outcomes = match together {
                true => self.engine.write_together(writes, Refresh::No).await?,
                false => self.engine.write(writes, Refresh::No).await?,
            };
            debug_assert_eq!(outcomes.len(), written.len(), "an engine answers each write, in order");
            for (at, outcome) in written.into_iter().zip(outcomes) {
                match acknowledgement(record, at, outcome)? {
                    Acknowledgement::None => continue,
                    Acknowledgement::Written(stamp) => drop(stamped.insert(at.clone(), stamp)),
                    Acknowledgement::Skipped => {}
                    Acknowledgement::Left(error) => settled.left.push((at.clone(), error)),
                }
                settled.acknowledged.insert(at);
            }
            open.retain(|touched| !settled.acknowledged.contains(&touched.at));
            turn += 1;
            if !open.is_empty() {
                self.rest(turn).await;
            }
        }
        Ok(match settled.left.is_empty() {
            true => Brought::All,
            false => Brought::Left(settled.left),
        })
    }

    /// The documents of a batch that can be written now; `at_hand` gets those that have to be read. An index that is gone has
    /// nothing to be brought to; one that is closed, blocked or cannot be read keeps its documents from their outcomes.
    async fn reachable<'r>(
        &self,
        record: &Record,
        batch: Vec<&'r Touched>,
        at_hand: &mut BTreeMap<DocAddress, Marked>,
        settled: &mut Deliveries<'r>,
    ) -> Result<Vec<&'r Touched>> {
        let places = self.places(&batch).await?;
        let (mut here, elsewhere): (Vec<&Touched>, Vec<&Touched>) = batch
            .into_iter()
            .partition(|touched| places.is_open(touched.at.index.as_str()));
        for touched in elsewhere {
            settled.leave(record, &touched.at, places.shut.get(touched.at.index.as_str()));
        }
        let addresses = here.iter().map(|touched| &touched.at);
        let missing: BTreeSet<DocAddress> = addresses.filter(|at| !at_hand.contains_key(at)).cloned().collect();
        let (read, unreadable) = self.read_each(missing).await?;
        at_hand.extend(read);
        here.retain(|touched| {
            let error = unreadable.get(&touched.at);
            if error.is_some() {
                settled.leave(record, &touched.at, error);
            }
            error.is_none()
        });
        Ok(here)
    }

    /// As [`Runner::read_marked`]; one index that cannot be read keeps the others from nothing.
    async fn read_each(
        &self,
        addresses: BTreeSet<DocAddress>,
    ) -> Result<(BTreeMap<DocAddress, Marked>, BTreeMap<DocAddress, Error>)> {
        let (mut read, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
        match self.read_marked(&addresses).await {
            Err(error) if is_of_an_index(&error) => {}
            all => return Ok((all?, unreadable)),
        }
        for at in addresses {
            match self.read_marked(&BTreeSet::from([at.clone()])).await {
                Ok(one) => read.extend(one),
                Err(error) if is_of_an_index(&error) => drop(unreadable.insert(at, error)),
                Err(error) => return Err(error),
            }
        }
        Ok((read, unreadable))
    }

    /// W7, and the end of any resolution: writes the state over a committed record, or confirms it.
    pub(super) async fn finish(&self, change: &Owner, state: RecordState) -> Result<Resolved> {
        let mut turn = 1;
        loop {
            let Some((found, stamp)) = self.read_record(change).await? else {
                // Collected, or a stale read; it was committed, so it cannot be absent otherwise.
                return Ok(Resolved::Done);
            };
            if matches!(found.state, RecordState::Committed | RecordState::Done) {
                let next = found.touch(stamp, state.max(found.state), self.nonce());
                if self.write_record(change, &next, expect_unchanged(stamp)).await?.is_some() {
                    return Ok(Resolved::Done);
                }
            } else if found.state == RecordState::Stuck {
                return Ok(Resolved::Stuck);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// Outcomes that cannot be applied, as far as anybody but an operator can tell: it is written down which, and why.
    async fn stick(&self, change: &Owner, left: &[(DocAddress, Error)]) -> Result<Resolved> {
        let mut turn = 1;
        loop {
            let Some((found, stamp)) = self.read_record(change).await? else {
                return Ok(Resolved::Done);
            };
            match found.state {
                RecordState::Committed => {}
                RecordState::Stuck => return Ok(Resolved::Stuck),
                _ => return Ok(Resolved::Done),
            }
            let mut next = found.touch(stamp, RecordState::Stuck, self.nonce());
            next.refused = not_applied(left);
            if self.write_record(change, &next, expect_unchanged(stamp)).await?.is_some() {
                return Ok(Resolved::Stuck);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// An operator: what is stuck is tried again. What it has come to.
    ///
    /// # Errors
    /// The engine's; what is refused for now.
    #[boxed]
    pub async fn retry(&self, change: &Owner) -> Result<Resolved> {
        self.unstuck(change, None).await?;
        self.resolve(change).await
    }

    /// An operator: what cannot be applied, for good or for now, is left as it is, and listed.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn skip(&self, change: &Owner) -> Result<Resolved> {
        // Outcomes that can be applied by now are, so that no more is skipped than must be.
        self.unstuck(change, None).await?;
        match self.resolve(change).await {
            Ok(Resolved::Stuck) => {
                self.unstuck(change, Some(Vec::new())).await?;
                self.resolve(change).await
            }
            Err(error) if is_of_an_index(&error) => {
                let Some((record, stamp)) = self.read_record(change).await? else {
                    return Err(error);
                };
                let token = record.token.unwrap_or(Token::of(stamp));
                let Some(whole) = self.whole(change, record).await? else {
                    return Ok(Resolved::Done);
                };
                let brought = self
                    .bring(change, &whole, token, BTreeMap::new(), &mut BTreeMap::new())
                    .await?;
                if let Brought::Left(left) = brought {
                    self.unstuck(change, Some(not_applied(&left))).await?;
                }
                self.resolve(change).await
            }
            resolved => resolved,
        }
    }

    /// A change that is stuck is one that is committed again, and skips what it is given, and what it was refused if it
    /// is given anything.
    async fn unstuck(&self, change: &Owner, skips: Option<Vec<NotApplied>>) -> Result<()> {
        let mut turn = 1;
        loop {
            let Some((found, stamp)) = self.read_record(change).await? else {
                return Ok(());
            };
            let is_open = match found.state {
                RecordState::Stuck => true,
                RecordState::Committed => skips.is_some(),
                _ => false,
            };
            if !is_open {
                return Ok(());
            }
            let mut next = found.touch(stamp, RecordState::Committed, self.nonce());
            let refused = std::mem::take(&mut next.refused);
            if let Some(skips) = &skips {
                for one in refused.into_iter().chain(skips.iter().cloned()) {
                    if !next.skips(&one.at) {
                        next.skipped.push(one);
                    }
                }
            }
            if self.write_record(change, &next, expect_unchanged(stamp)).await?.is_some() {
                return Ok(());
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// The refusal of whoever waits for a change that is stuck.
    #[boxed]
    pub(super) async fn why_stuck(&self, change: &Owner) -> Result<Error> {
        let refused = match self.read_record(change).await? {
            Some((record, _)) => record.refused,
            None => Vec::new(),
        };
        let why = refused.first().map_or_else(String::new, |one| format!(": {}", one.reason()));
        let reason = format!(
            "change [{change}] is committed and stuck, for the engine refused what it comes to{why}; \
             see GET /_transaction/{change}, and POST /_transaction/{change}/_resolve"
        );
        Ok(Error::new(ErrorKind::IllegalState, reason).with("transaction", change.as_str()))
    }

    /// Touches the record: acknowledged, it is still committed.
    pub(super) async fn still_committed(&self, change: &Owner) -> Result<bool> {
        Ok(self.touch_again(change).await? == RecordState::Committed)
    }

    /// The state of the record, acknowledged. Where there is none it may be collected, or an isolated primary
    /// has none yet: that nothing was there is acknowledged as well, by what is put there.
    #[boxed]
    async fn touch_again(&self, change: &Owner) -> Result<RecordState> {
        let mut turn = 1;
        loop {
            let (state, next, expect) = match self.read_record(change).await? {
                Some((found, stamp)) => (
                    found.state,
                    found.touch(stamp, found.state, self.nonce()),
                    expect_unchanged(stamp),
                ),
                None => (RecordState::Aborted, self.negation(), Expect::Absent),
            };
            if self.write_record(change, &next, expect).await?.is_some() {
                return Ok(state);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }
}

fn not_applied(left: &[(DocAddress, Error)]) -> Vec<NotApplied> {
    let one = |(at, error): &(DocAddress, Error)| NotApplied {
        at: at.clone(),
        why: Value::Object(error.to_json()),
    };
    left.iter().map(one).collect()
}

/// The write that brings a document of a committed change to what the record says.
fn write_of(change: &Owner, record: &Record, touched: &Touched, marked: &Marked, token: Token) -> Write {
    let at = &touched.at;
    let found = marked.document.as_ref().map(|_| marked.mark.intent.as_ref());
    match apply(found, change) {
        Apply::Write => apply_write(at, marked, record.effect_on(touched), token),
        Apply::Confirm => rewrite(at, marked, &marked.mark),
        Apply::ConfirmAbsence => {
            let confirm = Mark {
                tombstone: true,
                token: Some(token),
                ..Mark::default()
            };
            rewrite(at, marked, &confirm)
        }
    }
}
