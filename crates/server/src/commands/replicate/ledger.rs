//! What was sent to the target and is not acknowledged yet, and so the position that may be noted.
//!
//! Invariants (docs/internals/replication.md): R1 the position that is noted never passes an operation that the target has not
//! acknowledged; R2 it never falls; R3 an operation is acknowledged once.
//!
//! Pure. Not here: sending (`lanes`), noting (`replicate`).

use std::collections::BTreeMap;

/// Operations on their way, by their `commit_seq`.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// How many of each `commit_seq` are not acknowledged.
    unacknowledged: BTreeMap<u64, u64>,
    /// Every operation up to here was put.
    read: u64,
    /// The position that the source was told last.
    noted: u64,
}

impl Ledger {
    /// Everything up to `position` was done before.
    pub(super) fn begin_at(&mut self, position: u64) {
        assert!(
            self.unacknowledged.is_empty(),
            "R1: {position} is begun at with operations on their way"
        );
        (self.read, self.noted) = (position, position);
    }

    /// An operation is about to be sent.
    pub(super) fn put(&mut self, commit_seq: u64) {
        assert!(commit_seq > self.noted, "R1: {commit_seq} is put behind {}", self.noted);
        *self.unacknowledged.entry(commit_seq).or_default() += 1;
    }

    /// The target has so many operations of a `commit_seq`, durably.
    pub(super) fn acknowledge(&mut self, commit_seq: u64, count: u64) {
        assert!(
            commit_seq > self.noted,
            "R1: {} was noted, and {commit_seq} was on its way",
            self.noted
        );
        let left = self.unacknowledged.get_mut(&commit_seq);
        let left = left.filter(|left| **left >= count);
        let left = left.unwrap_or_else(|| panic!("R3: {count} operations of {commit_seq} were not on their way"));
        *left -= count;
        if *left == 0 {
            self.unacknowledged.remove(&commit_seq);
        }
    }

    /// Every operation up to `position` was put.
    pub(super) fn advance(&mut self, position: u64) {
        assert!(
            position >= self.read,
            "R2: the reader went back from {} to {position}",
            self.read
        );
        self.read = position;
    }

    /// Every operation up to here was put.
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// The highest position that may be noted; `None`: it was noted before.
    pub(super) fn notable(&self) -> Option<u64> {
        let first = self.unacknowledged.first_key_value();
        let durable = first.map_or(self.read, |(first, _)| self.read.min(first - 1));
        (durable > self.noted).then_some(durable)
    }

    /// The source is about to be told this position.
    pub(super) fn note(&mut self, position: u64) {
        assert!(position > self.noted, "R2: {position} is noted behind {}", self.noted);
        let first = self.unacknowledged.first_key_value().map(|(first, _)| *first);
        assert!(
            first.is_none_or(|first| position < first) && position <= self.read,
            "R1: {position} is noted, {first:?} is not acknowledged, and {} was read",
            self.read
        );
        self.noted = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step, and what may be noted then.
    enum Step {
        Put(u64),
        Acknowledge(u64),
        Advance(u64),
        Note(u64),
    }
    use Step::{Acknowledge, Advance, Note, Put};

    fn check(steps: &[(Step, Option<u64>)]) {
        let mut ledger = Ledger::default();
        ledger.begin_at(10);
        for (number, (step, expected)) in steps.iter().enumerate() {
            match step {
                Put(commit_seq) => ledger.put(*commit_seq),
                Acknowledge(commit_seq) => ledger.acknowledge(*commit_seq, 1),
                Advance(position) => ledger.advance(*position),
                Note(position) => ledger.note(*position),
            }
            assert_eq!(ledger.notable(), *expected, "step {number}");
        }
    }

    #[test]
    fn the_oldest_operation_on_its_way_holds_the_position() {
        check(&[
            (Put(20), None),
            (Put(20), None),
            (Advance(20), Some(19)),
            (Put(30), Some(19)),
            (Advance(35), Some(19)),
            (Acknowledge(30), Some(19)),
            (Acknowledge(20), Some(19)),
            (Note(19), None),
            (Acknowledge(20), Some(35)),
            (Note(35), None),
            (Put(36), None),
            (Acknowledge(36), None),
            (Advance(36), Some(36)),
        ]);
    }

    #[test]
    fn an_operation_that_is_not_read_whole_is_not_passed() {
        check(&[
            (Put(20), None),
            (Acknowledge(20), None),
            (Put(20), None),
            (Advance(20), Some(19)),
        ]);
    }

    #[test]
    #[should_panic(expected = "R1: 20 is noted, Some(20) is not acknowledged")]
    fn a_position_beyond_the_first_unacknowledged_operation_is_no_position() {
        check(&[(Put(20), None), (Advance(20), Some(19)), (Note(20), None)]);
    }

    #[test]
    #[should_panic(expected = "R3: 1 operations of 20 were not on their way")]
    fn what_was_not_sent_is_not_acknowledged() {
        check(&[(Put(21), None), (Acknowledge(20), None)]);
    }
}
