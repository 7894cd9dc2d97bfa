//! The newest changes of the feed, decoded once for all its followers.
//!
//! Followers that wait for changes read the same records. The reader that is furthest ahead decodes them from the log; the
//! others take them from here. The tail is contiguous: it has every change behind [`RecentChanges::from`] up to [`RecentChanges::next`].
//!
//! Not here: decoding (`change_feed`), which positions are retained (`log::follow`).

use crate::lock_order::Mutex;
use engine::changes::{Change, Changes};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of the log that the tail covers at most.
const TAIL_BYTES: u64 = 1 << 20;

pub(crate) struct FeedTail(Mutex<RecentChanges>);

#[derive(Default)]
struct RecentChanges {
    /// Every change behind this position is here, up to `next`.
    from: u64,
    next: u64,
    /// In commit order.
    changes: VecDeque<Arc<Change>>,
}

impl Default for FeedTail {
    fn default() -> FeedTail {
        FeedTail(Mutex::leaf(RecentChanges::default()))
    }
}

impl FeedTail {
    /// Changes behind `since`, about `bytes_max` bytes of the log. `None`: the tail has not what follows `since`.
    pub(crate) fn after(&self, since: u64, bytes_max: u64) -> Option<Changes> {
        let tail = self.0.lock();
        if !(tail.from..tail.next).contains(&since) {
            return None;
        }
        let first = tail.changes.partition_point(|change| change.commit_seq <= since);
        let until = since.saturating_add(bytes_max);
        // A change that begins within the bytes is whole in them or goes beyond.
        let fits = |change: &&Arc<Change>| change.commit_seq < until;
        let changes: Vec<_> = tail.changes.range(first..).take_while(fits).cloned().collect();
        let is_whole = first + changes.len() == tail.changes.len();
        let next = match changes.last() {
            Some(last) if !is_whole => last.commit_seq,
            None if !is_whole => return None,
            _ => tail.next,
        };
        Some(Changes { changes, next })
    }

    /// Takes in what was read of the log behind `since`, if no change lies between it and the tail's end, or if the reader is ahead of
    /// the tail.
    pub(crate) fn extend(&self, since: u64, read: &Changes) {
        let mut tail = self.0.lock();
        if read.next <= tail.next || since < tail.next {
            return;
        }
        if since > tail.next {
            tail.changes.clear();
            tail.from = since;
        }
        tail.changes.extend(read.changes.iter().cloned());
        tail.next = read.next;
        tail.trim();
    }
}

impl RecentChanges {
    /// Gives up the oldest changes beyond [`TAIL_BYTES`].
    fn trim(&mut self) {
        let oldest = self.next.saturating_sub(TAIL_BYTES);
        while self.changes.front().is_some_and(|first| first.commit_seq <= oldest) {
            self.changes.pop_front();
        }
        self.from = self.from.max(oldest);
        assert!(
            self.from <= self.next && self.changes.front().is_none_or(|first| first.commit_seq > self.from),
            "the tail of the feed has what is behind {} up to {}",
            self.from,
            self.next
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(positions: &[u64], next: u64) -> Changes {
        let change = |&commit_seq: &u64| {
            Arc::new(Change {
                commit_seq,
                operations: Vec::new(),
            })
        };
        Changes {
            changes: positions.iter().map(change).collect(),
            next,
        }
    }

    /// `expected`: the positions that a reader behind `since` gets, and where it goes on.
    fn check(tail: &FeedTail, since: u64, bytes_max: u64, expected: Option<(&[u64], u64)>) {
        let found = tail.after(since, bytes_max).map(|found| {
            let positions: Vec<u64> = found.changes.iter().map(|change| change.commit_seq).collect();
            (positions, found.next)
        });
        let expected = expected.map(|(positions, next)| (positions.to_vec(), next));
        assert_eq!(found, expected, "behind {since}, {bytes_max} bytes");
    }

    #[test]
    fn followers_get_what_the_first_of_them_read() {
        let tail = FeedTail::default();
        check(&tail, 0, 100, None);
        tail.extend(10, &read(&[11, 20], 30));
        check(&tail, 9, 100, None);
        check(&tail, 10, 100, Some((&[11, 20], 30)));
        check(&tail, 11, 100, Some((&[20], 30)));
        check(&tail, 20, 100, Some((&[], 30)));
        check(&tail, 30, 100, None);
        check(&tail, 10, 5, Some((&[11], 11)));
    }

    #[test]
    fn the_tail_has_no_gap() {
        let tail = FeedTail::default();
        tail.extend(10, &read(&[11], 20));
        // A reader that is behind reads what the tail has, or what is before it.
        tail.extend(5, &read(&[6], 9));
        tail.extend(15, &read(&[16], 25));
        check(&tail, 10, 100, Some((&[11], 20)));
        tail.extend(20, &read(&[21], 40));
        check(&tail, 10, 100, Some((&[11, 21], 40)));
        // A reader that began further ahead: what is between was never read.
        tail.extend(50, &read(&[51], 60));
        check(&tail, 10, 100, None);
        check(&tail, 40, 100, None);
        check(&tail, 50, 100, Some((&[51], 60)));
    }

    #[test]
    fn the_tail_is_bounded() {
        let tail = FeedTail::default();
        tail.extend(0, &read(&[1, 1000], 2000));
        tail.extend(2000, &read(&[2001], 2000 + TAIL_BYTES));
        check(&tail, 1999, u64::MAX, None);
        let end = 2000 + TAIL_BYTES;
        check(&tail, 2000, u64::MAX, Some((&[2001], end)));
        // A change that is longer than the tail is not kept.
        tail.extend(end, &read(&[end + 1], end + 2 * TAIL_BYTES));
        check(&tail, end, u64::MAX, None);
        check(&tail, end + TAIL_BYTES, u64::MAX, Some((&[], end + 2 * TAIL_BYTES)));
        assert!(tail.0.lock().changes.is_empty());
    }
}
