//! The pending operations of one index, in the order of the log, and the sequence number that the next one gets
//! (write-path.md 1.1).
//!
//! Not here: who gives numbers (`commit`), who builds (`publish`).

use crate::pending::PendingOp;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Operations that no segment has.
#[derive(Debug, Default)]
pub(crate) struct PendingQueue {
    next_seq_no: u64,
    ops: VecDeque<Arc<PendingOp>>,
    bytes: u64,
    /// When the oldest that is not published was acknowledged (monotonic).
    oldest: Option<Duration>,
    /// A start replayed operations: they were acknowledged long ago, so the first search publishes them, whatever the
    /// interval.
    overdue: bool,
    /// The end of the newest record of the index.
    last: u64,
}

impl PendingQueue {
    pub(crate) fn next_seq_no(&self) -> u64 {
        self.next_seq_no
    }
    /// Sequence numbers go on here: at a start, or in a new index.
    pub(crate) fn begin_at(&mut self, next_seq_no: u64) {
        assert!(
            next_seq_no >= self.next_seq_no,
            "1.1: sequence numbers go back from {} to {next_seq_no}",
            self.next_seq_no
        );
        self.next_seq_no = next_seq_no;
    }
    /// A record that ends at `end` has taken the sequence numbers below `next_seq_no`.
    pub(crate) fn take_numbers(&mut self, next_seq_no: u64, end: u64, now: Duration) {
        assert!(
            next_seq_no >= self.next_seq_no && end > self.last,
            "1.1: a record that ends at {end} with numbers below {next_seq_no} comes after one that ends at {} with numbers \
             below {}",
            self.last,
            self.next_seq_no
        );
        self.next_seq_no = next_seq_no;
        self.last = end;
        self.oldest.get_or_insert(now);
    }
    /// Adds an operation whose numbers were taken.
    pub(crate) fn push(&mut self, op: Arc<PendingOp>) {
        if let Some(last) = self.ops.back() {
            assert!(
                last.position <= op.position && last.stamp.seq_no < op.stamp.seq_no,
                "1.1: pending operation {} at {} is queued behind {} at {}",
                op.stamp.seq_no,
                op.position,
                last.stamp.seq_no,
                last.position
            );
        }
        assert!(
            op.stamp.seq_no < self.next_seq_no && op.position <= self.last,
            "1.1: operation {} at {} is queued before its number is taken",
            op.stamp.seq_no,
            op.position
        );
        self.bytes += op.bytes();
        self.ops.push_back(op);
    }
    /// Adds an operation that a start replays, in the order of the log. Damage may leave holes in the numbers.
    pub(crate) fn replay(&mut self, op: Arc<PendingOp>) {
        assert!(
            self.ops.back().is_none_or(|last| last.position <= op.position),
            "1.1: operation {} at {} is replayed behind one at {}: a build takes a prefix of the queue",
            op.stamp.seq_no,
            op.position,
            self.last
        );
        debug_assert!(
            self.ops.back().is_none_or(|last| last.stamp.seq_no < op.stamp.seq_no),
            "1.1: operation {} is replayed behind a later one",
            op.stamp.seq_no
        );
        self.next_seq_no = self.next_seq_no.max(op.stamp.seq_no + 1);
        self.last = op.position;
        self.oldest = Some(Duration::ZERO);
        self.overdue = true;
        self.bytes += op.bytes();
        self.ops.push_back(op);
    }
    /// The operations up to `limit`: a prefix of the log.
    pub(crate) fn up_to(&self, limit: u64) -> Vec<Arc<PendingOp>> {
        self.ops.iter().take_while(|op| op.position <= limit).cloned().collect()
    }
    /// All operations; `None`: they are more than `most`.
    pub(crate) fn all_up_to(&self, most: usize) -> Option<Vec<Arc<PendingOp>>> {
        (self.ops.len() <= most).then(|| self.ops.iter().cloned().collect())
    }
    /// Takes the operations that a build has read with [`PendingQueue::up_to`]; gives their bytes.
    pub(crate) fn take_built(&mut self, limit: u64, built: usize) -> u64 {
        let there = self.ops.iter().take_while(|op| op.position <= limit).count();
        // An index that was deleted or stopped meanwhile has nothing pending any more.
        assert!(
            there == built || there == 0,
            "1.4: a build of {built} operations up to {limit} finds {there}: somebody else took or added some"
        );
        let freed: u64 = self.ops.drain(..there).map(|op| op.bytes()).sum();
        assert!(
            freed <= self.bytes,
            "3: {freed} pending bytes leave a queue of {}",
            self.bytes
        );
        self.bytes -= freed;
        debug_assert!(
            !self.ops.is_empty() || self.bytes == 0,
            "3: an empty queue counts [{}] bytes",
            self.bytes
        );
        debug_assert!(
            self.first_position().is_none_or(|first| first > limit),
            "1.4: an operation at or below {limit} is built and still pending"
        );
        freed
    }
    /// Everything up to `position` is published; true if that is all.
    pub(crate) fn publish_to(&mut self, position: u64, now: Duration) -> bool {
        self.overdue = false;
        let is_all = self.last <= position;
        self.oldest = (!is_all).then_some(now);
        is_all
    }
    /// Forgets all operations; gives their bytes. The numbers stay.
    pub(crate) fn clear(&mut self) -> u64 {
        debug_assert_eq!(
            self.bytes,
            self.ops.iter().map(|op| op.bytes()).sum::<u64>(),
            "3: a queue counts the bytes of its operations"
        );
        self.ops.clear();
        self.oldest = None;
        self.overdue = false;
        std::mem::take(&mut self.bytes)
    }
    /// The sequence number of the first operation behind `position`, or the next one to be given: where a start that has
    /// everything up to there goes on counting.
    pub(crate) fn next_seq_no_behind(&self, position: u64) -> u64 {
        let first = self.ops.iter().find(|op| op.position > position);
        let next = first.map_or(self.next_seq_no, |op| op.stamp.seq_no);
        assert!(
            next <= self.next_seq_no,
            "1.1: operation {next} is pending and {} is the next number",
            self.next_seq_no
        );
        next
    }
    /// The position of the first pending operation.
    pub(crate) fn first_position(&self) -> Option<u64> {
        self.ops.front().map(|op| op.position)
    }
    /// The position of the first pending operation behind `position`.
    pub(crate) fn first_behind(&self, position: u64) -> Option<u64> {
        self.ops.iter().map(|op| op.position).find(|first| *first > position)
    }
    pub(crate) fn last(&self) -> u64 {
        self.last
    }
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.oldest
    }
    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }
}
