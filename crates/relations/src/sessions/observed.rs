//! One session as another server observes it: a server that has stopped is told from one that is slow.
//!
//! Pure. A wrong suspicion costs a server its session, never anybody's safety: what the server does after that is compared.

use model::Stamp;
use std::time::Duration;

/// So many samples at least make a suspicion.
const SAMPLES_MIN: u32 = 3;

/// The samples of one session, by the observer's monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observed {
    stamp: Stamp,
    /// After the answer that showed the last beat.
    beat: Duration,
    /// After the last answer.
    seen: Duration,
    /// Answers that showed no new beat.
    samples: u32,
}

impl Observed {
    /// The first sample.
    pub fn first(stamp: Stamp, now: Duration) -> Observed {
        Observed {
            stamp,
            beat: now,
            seen: now,
            samples: 0,
        }
    }

    /// One more sample, asked for at `sent` and answered at `now`. True: there was no beat for a time to live, though the
    /// session was looked at all the time. A gap between samples begins anew: the session could not beat then, either.
    pub fn is_suspect(&mut self, stamp: Stamp, sent: Duration, now: Duration, ttl: Duration) -> bool {
        debug_assert!(sent <= now, "a sample is answered after it was asked for");
        debug_assert!(self.beat <= self.seen, "a beat is seen by a sample");
        let has_gap = sent.saturating_sub(self.seen) > ttl / 2;
        // Sweeps overlap, so a sample may come after a later one.
        self.seen = self.seen.max(now);
        if stamp != self.stamp || has_gap {
            *self = Observed::first(stamp, now);
            return false;
        }
        self.samples = self.samples.saturating_add(1);
        self.samples >= SAMPLES_MIN && sent.saturating_sub(self.beat) >= ttl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples at these times, each with the stamp of the beat that it shows; suspected at which.
    fn check(samples: &[(u64, u64)], expected: &[u64]) {
        let ttl = Duration::from_secs(6);
        let at = Duration::from_secs;
        let stamp = |seq_no| Stamp {
            seq_no,
            ..Stamp::default()
        };
        let mut observed = Observed::first(stamp(samples[0].1), at(samples[0].0));
        let mut suspected = Vec::new();
        for (time, beat) in &samples[1..] {
            if observed.is_suspect(stamp(*beat), at(*time), at(*time), ttl) {
                suspected.push(*time);
            }
        }
        assert_eq!(suspected, expected, "{samples:?}");
    }

    #[test]
    fn who_stopped_and_who_is_slow() {
        check(&[(0, 1), (2, 2), (4, 3), (6, 4), (8, 5)], &[]);
        check(&[(0, 1), (2, 1), (4, 1), (6, 1), (8, 1)], &[6, 8]);
        check(&[(0, 1), (2, 1), (4, 1), (5, 2), (7, 2), (9, 2), (11, 2)], &[11]);
        // One comes late.
        check(&[(0, 1), (2, 1), (1, 1), (3, 1), (5, 1), (6, 1)], &[6]);
        // Few samples, or a gap: nobody looked.
        check(&[(0, 1), (3, 1), (6, 1)], &[]);
        check(&[(0, 1), (2, 1), (4, 1), (20, 1), (22, 1), (24, 1)], &[]);
    }
}
