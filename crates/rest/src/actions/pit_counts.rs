//! Points in time as statistics count them: how many are open, how many ended, how long those were open.
//!
//! The engine ends a view that is not used for its keep-alive; this table follows by the same rule and clock. Not here: the
//! endpoints (`scroll`).

use engine::IndexStats;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Indices whose points in time are counted; beyond that counting begins anew.
const COUNTED_MAX: usize = 10_000;

/// Every open point in time, and what is counted of those that ended.
#[derive(Debug, Default)]
pub(crate) struct PointsInTime(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    open: HashMap<String, OpenPit>,
    /// By the uuids of indices.
    ended: HashMap<Arc<str>, Ended>,
}

#[derive(Clone, Debug)]
struct OpenPit {
    indices: Vec<Arc<str>>,
    keep_alive: Duration,
    /// On the monotonic clock.
    begun: Duration,
    used: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    count: u64,
    time: Duration,
}

impl PointsInTime {
    fn lock(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One begins over indices with these uuids.
    pub(crate) fn open(&self, id: &str, indices: Vec<Arc<str>>, keep_alive: Duration, now: Duration) {
        let mut counted = self.lock();
        counted.expire(now);
        let pit = OpenPit {
            indices,
            keep_alive,
            begun: now,
            used: now,
        };
        let before = counted.open.insert(id.to_owned(), pit);
        assert!(before.is_none(), "each point in time has an id of its own");
    }

    /// A search uses one; a longer keep-alive stays.
    pub(crate) fn touch(&self, id: &str, keep_alive: Option<Duration>, now: Duration) {
        let mut counted = self.lock();
        counted.expire(now);
        if let Some(pit) = counted.open.get_mut(id) {
            pit.used = now;
            pit.keep_alive = pit.keep_alive.max(keep_alive.unwrap_or_default());
        }
    }

    /// One was closed.
    pub(crate) fn close(&self, id: &str, now: Duration) {
        let mut counted = self.lock();
        counted.expire(now);
        if let Some(pit) = counted.open.remove(id) {
            counted.end(&pit, now);
        }
    }

    /// Puts the figures of an index where they are told.
    pub(crate) fn count_into(&self, uuid: &str, stats: &mut IndexStats, now: Duration) {
        let mut counted = self.lock();
        counted.expire(now);
        let ended = counted.ended.get(uuid).copied().unwrap_or_default();
        let over = |pit: &&OpenPit| pit.indices.iter().any(|index| **index == *uuid);
        stats.pit_current = counted.open.values().filter(over).count() as u64;
        (stats.pit_total, stats.pit_time) = (ended.count, ended.time);
    }
}

impl Counted {
    /// Ends those that nobody used for their keep-alive, each at the moment when it was over.
    fn expire(&mut self, now: Duration) {
        let over = |pit: &OpenPit| now.saturating_sub(pit.used) > pit.keep_alive;
        let gone: Vec<OpenPit> = self.open.extract_if(|_, pit| over(pit)).map(|(_, pit)| pit).collect();
        for pit in gone {
            self.end(&pit, pit.used + pit.keep_alive);
        }
    }

    fn end(&mut self, pit: &OpenPit, at: Duration) {
        if self.ended.len() >= COUNTED_MAX {
            self.ended.clear();
        }
        for index in &pit.indices {
            let ended = self.ended.entry(index.clone()).or_default();
            ended.count += 1;
            ended.time += at.saturating_sub(pit.begun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pits: &PointsInTime, now: u64, index: &str, (current, total, seconds): (u64, u64, u64)) {
        let mut stats = IndexStats::default();
        pits.count_into(index, &mut stats, Duration::from_secs(now));
        let found = (stats.pit_current, stats.pit_total, stats.pit_time.as_secs());
        assert_eq!(found, (current, total, seconds), "{index} at {now}");
    }

    #[test]
    fn those_that_end_are_counted_with_their_time() {
        let (pits, seconds) = (PointsInTime::default(), Duration::from_secs);
        pits.open("one", vec!["a".into(), "b".into()], seconds(10), seconds(100));
        pits.open("two", vec!["a".into()], seconds(10), seconds(104));
        check(&pits, 105, "a", (2, 0, 0));
        check(&pits, 105, "b", (1, 0, 0));
        pits.touch("two", Some(seconds(20)), seconds(110));
        // The first was not used: it was over at 110.
        check(&pits, 112, "b", (0, 1, 10));
        check(&pits, 112, "a", (1, 1, 10));
        pits.touch("two", Some(seconds(1)), seconds(115));
        check(&pits, 134, "a", (1, 1, 10));
        pits.close("two", seconds(135));
        pits.close("two", seconds(136));
        check(&pits, 136, "a", (0, 2, 41));
    }
}
