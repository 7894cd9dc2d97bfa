//! The decisions of recovery for a change that somebody met, apart from the calls that carry them out.
//!
//! **Acknowledge before acting.** Whatever was read is a hint: it may be stale, or a write of an isolated primary that
//! never becomes durable. So every decision here is a *write*, of the version that was read, and only what has been
//! acknowledged is followed by the next step. The models in `tests/models` run these very functions.
//!
//! Not here: reading, writing, waiting (`runner`).

use crate::locks::Age;

/// Where a change is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordState {
    /// Not decided; anybody may abort it.
    Pending,
    /// Decided: its operations happen, whoever applies them.
    Committed,
    /// Decided: nothing happens.
    Aborted,
    /// Committed, and every operation is applied.
    Done,
    /// Committed, but an operation cannot be applied; an operator decides.
    Stuck,
}

impl RecordState {
    /// Every state.
    pub const ALL: [RecordState; 5] = [
        RecordState::Pending,
        RecordState::Committed,
        RecordState::Aborted,
        RecordState::Done,
        RecordState::Stuck,
    ];
    /// Committed, and not known to be applied everywhere.
    pub fn is_unfinished(self) -> bool {
        matches!(self, RecordState::Committed | RecordState::Stuck)
    }
    /// May a record go from here to there? A record leaves `Pending` once, and a decision is never taken back (T6).
    pub fn may_become(self, next: RecordState) -> bool {
        use RecordState::{Aborted, Committed, Done, Pending, Stuck};
        match self {
            Pending => matches!(next, Pending | Committed | Aborted),
            Committed => matches!(next, Committed | Done | Stuck),
            Stuck => matches!(next, Stuck | Committed),
            Aborted | Done => next == self,
        }
    }
    /// As records write it.
    pub fn render(self) -> &'static str {
        match self {
            RecordState::Pending => "pending",
            RecordState::Committed => "committed",
            RecordState::Aborted => "aborted",
            RecordState::Done => "done",
            RecordState::Stuck => "stuck",
        }
    }
    /// The inverse of [`RecordState::render`].
    pub fn parse(text: &str) -> Option<RecordState> {
        RecordState::ALL.into_iter().find(|state| state.render() == text)
    }
}

/// The next write of a resolver to the record, and what may follow once it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ResolverStep {
    /// The state to write over the version that was read; where nothing was read, to create.
    pub write: RecordState,
    /// The next step.
    pub then: Then,
}

/// The step after an acknowledged decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Then {
    /// Apply every operation, then write `done`.
    Apply,
    /// Take the marks off. A finished change has none, but a late one of a process that woke up may be there: it
    /// means nothing, and must not be in anybody's way.
    Purge,
    /// Nothing can be done without an operator.
    Wait,
}

/// Decide → finish → purge, in this order: marks go only after the change is decided, or the next one would run on
/// half of it. Roll back or forward is no judgement: what is pending goes back, what is committed goes forward.
pub fn decide(read: Option<RecordState>) -> ResolverStep {
    let (write, then) = match read {
        // Its negation is created, so that a late creation fails.
        None | Some(RecordState::Pending | RecordState::Aborted) => (RecordState::Aborted, Then::Purge),
        Some(RecordState::Committed) => (RecordState::Committed, Then::Apply),
        Some(RecordState::Done) => (RecordState::Done, Then::Purge),
        Some(RecordState::Stuck) => (RecordState::Stuck, Then::Wait),
    };
    assert!(
        read.is_none_or(|read| read.may_become(write)),
        "T6: a resolver takes a record from {read:?} to {write:?}"
    );
    assert!(
        then != Then::Purge || matches!(write, RecordState::Aborted | RecordState::Done),
        "T9: marks go before the record is decided: {write:?}"
    );
    ResolverStep { write, then }
}

/// How a committed change's operation is brought to its document, given what was read there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Apply {
    /// The change's mark is there: its operation is not applied. Write the outcome over this version, the mark off.
    Write,
    /// It has been applied, or the read is stale. The same content is written over this version: acknowledged, it
    /// proves the first.
    Confirm,
    /// As [`Apply::Confirm`], where nothing is there: a tombstone is created.
    ConfirmAbsence,
}

/// Applying goes by the mark alone. The commit came after every mark was acknowledged, so a document without it has
/// lost it to an earlier application.
///
/// `found` is the document's mark, inside the document, if there is one.
pub fn apply<C: PartialEq + ?Sized>(found: Option<Option<&C>>, change: &C) -> Apply {
    match found {
        Some(Some(mark)) if mark == change => Apply::Write,
        Some(_) => Apply::Confirm,
        None => Apply::ConfirmAbsence,
    }
}

/// How an aborted change's mark goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purge {
    /// A stub: the document was never there.
    Remove,
    /// An intent: the document stays as it is.
    TakeOff,
    /// No mark of this change.
    Leave,
}

/// `mark` is the document's, `stub` tells whether the document is only that.
pub fn purge<C: PartialEq + ?Sized>(mark: Option<&C>, stub: bool, change: &C) -> Purge {
    match mark {
        Some(mark) if mark == change && stub => Purge::Remove,
        Some(mark) if mark == change => Purge::TakeOff,
        _ => Purge::Leave,
    }
}

/// The reaction to another's mark or lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Meet {
    /// Resolve it: abort what is pending, finish what is committed.
    Resolve,
    /// Let it go on, and look again.
    Wait,
}

/// Wound-wait by age: an older asker aborts a younger change, a younger asker waits, so waits lead only from younger
/// to older and never in a circle. What is decided, or dead, is helped along by anybody. `asker` is `None` for plain
/// writes, which are the youngest of all.
pub fn meet(asker: Option<Age>, other: Age, state: Option<RecordState>, other_is_dead: bool) -> Meet {
    match state {
        Some(RecordState::Pending) if !other_is_dead && asker.is_none_or(|asker| asker >= other) => Meet::Wait,
        // Until an operator has come.
        Some(RecordState::Stuck) => Meet::Wait,
        _ => Meet::Resolve,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_final() {
        for state in RecordState::ALL {
            assert_eq!(RecordState::parse(state.render()), Some(state));
            let next = decide(Some(state));
            assert!(state.may_become(next.write), "T6: {state:?}");
            assert_eq!(
                next.write == state,
                state != RecordState::Pending,
                "only pending is open: {state:?}"
            );
            assert_eq!(
                decide(Some(next.write)).then,
                next.then,
                "who comes second does the same: {state:?}"
            );
        }
        assert_eq!(decide(None), decide(Some(RecordState::Aborted)));
    }

    #[test]
    fn applying_and_purging_touch_ones_own_marks_only() {
        assert_eq!(apply(Some(Some("c")), "c"), Apply::Write);
        assert_eq!(apply(Some(Some("d")), "c"), Apply::Confirm);
        assert_eq!(apply(Some(None), "c"), Apply::Confirm);
        assert_eq!(apply(None, "c"), Apply::ConfirmAbsence);
        assert_eq!(purge(Some("c"), true, "c"), Purge::Remove);
        assert_eq!(purge(Some("c"), false, "c"), Purge::TakeOff);
        assert_eq!(purge(Some("d"), true, "c"), Purge::Leave);
        assert_eq!(purge(None, false, "c"), Purge::Leave);
    }

    #[test]
    fn waits_lead_to_the_older() {
        let age = |seq| Age { term: 1, seq };
        for (asker, other, state, dead, expected) in [
            (Some(1), 2, Some(RecordState::Pending), false, Meet::Resolve),
            (Some(2), 1, Some(RecordState::Pending), false, Meet::Wait),
            (Some(2), 1, Some(RecordState::Pending), true, Meet::Resolve),
            (None, 1, Some(RecordState::Pending), false, Meet::Wait),
            (None, 1, Some(RecordState::Committed), false, Meet::Resolve),
            (Some(2), 1, None, false, Meet::Resolve),
            (Some(1), 2, Some(RecordState::Stuck), true, Meet::Wait),
        ] {
            assert_eq!(
                meet(asker.map(age), age(other), state, dead),
                expected,
                "{asker:?} meets {other} {state:?}"
            );
        }
    }
}
