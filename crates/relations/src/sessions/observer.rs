//! Watching one session by samples of its beat and local monotonic time. Pure: time comes in as an argument.

use std::time::Duration;

/// Successful samples without a change that a suspicion needs at least.
const SAMPLES_MIN: u32 = 3;

/// What one read of a session showed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sample {
    /// Raised by the owner.
    pub beat: u64,
    /// Of the document that was read.
    pub seq_no: u64,
    /// Of the document that was read.
    pub primary_term: u64,
}

/// What an observer makes of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It moves, or it is too early to say.
    Alive,
    /// Nothing has moved for a whole time to live: try to expire this very version.
    Suspect,
}

/// One watcher of one session.
#[derive(Clone, Debug)]
pub struct Observer {
    ttl: Duration,
    last: Option<Sample>,
    /// After the answer that showed the latest change, or after a gap.
    since: Duration,
    /// After the latest answer.
    sampled: Duration,
    samples: u32,
}

impl Observer {
    /// Of a session with this time to live.
    pub fn new(ttl: Duration) -> Observer {
        Observer {
            ttl,
            last: None,
            since: Duration::ZERO,
            sampled: Duration::ZERO,
            samples: 0,
        }
    }

    /// Takes one sample; `sent` and `received` are local monotonic times around the read.
    ///
    /// Time counts from the answer that showed the latest change to the *sending* of the request that shows none: the
    /// owner had at least that long. A gap of more than half a time to live between samples starts the count anew:
    /// in an outage of the store, or a pause of our own, the owner could not renew or we could not see it.
    pub fn observe(&mut self, sent: Duration, received: Duration, sample: Sample) -> Verdict {
        let gap = received.saturating_sub(self.sampled) > self.ttl / 2;
        if self.last != Some(sample) || gap {
            self.last = Some(sample);
            self.since = received;
            self.samples = 0;
        }
        self.sampled = received;
        self.samples = self.samples.saturating_add(1);
        if self.samples > SAMPLES_MIN && sent.saturating_sub(self.since) >= self.ttl {
            Verdict::Suspect
        } else {
            Verdict::Alive
        }
    }

    /// The session can be suspected after this long from `now` at the earliest, if nothing moves.
    pub fn earliest(&self, now: Duration) -> Duration {
        (self.since + self.ttl).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(3_000);

    /// Samples `(sent ms, received ms, beat)` and the number of the first that is a suspicion.
    fn check(samples: &[(u64, u64, u64)], suspect: Option<usize>) {
        let mut observer = Observer::new(TTL);
        let found = samples.iter().position(|(sent, received, beat)| {
            let sample = Sample {
                beat: *beat,
                seq_no: *beat,
                primary_term: 1,
            };
            let (sent, received) = (Duration::from_millis(*sent), Duration::from_millis(*received));
            observer.observe(sent, received, sample) == Verdict::Suspect
        });
        assert_eq!(found, suspect, "{samples:?}");
    }

    #[test]
    fn suspicion_needs_a_whole_ttl_of_samples_without_gaps() {
        check(
            &[(0, 1, 7), (1000, 1001, 7), (2000, 2001, 7), (3000, 3001, 7), (3002, 3003, 7)],
            Some(4),
        );
        // The beat moves: it lives.
        check(
            &[
                (0, 1, 7),
                (1000, 1001, 8),
                (2000, 2001, 9),
                (3000, 3001, 10),
                (4000, 4001, 11),
            ],
            None,
        );
        // A pause of our own, or an outage of the store: we start anew.
        check(
            &[
                (0, 1, 7),
                (60_000, 60_001, 7),
                (61_000, 61_001, 7),
                (62_000, 62_001, 7),
                (62_900, 62_901, 7),
            ],
            None,
        );
        check(
            &[
                (0, 1, 7),
                (60_000, 60_001, 7),
                (61_000, 61_001, 7),
                (62_000, 62_001, 7),
                (63_001, 63_002, 7),
            ],
            Some(4),
        );
        // An answer that took too long is a gap too.
        check(
            &[(0, 1, 7), (1000, 3000, 7), (3001, 3002, 7), (3003, 3004, 7), (3005, 3006, 7)],
            None,
        );
        // Two samples are not enough, however far apart the clock says.
        check(&[(0, 1, 7), (3001, 3002, 7)], None);
    }

    #[test]
    fn a_version_that_moved_is_a_change_even_with_the_same_beat() {
        let mut observer = Observer::new(TTL);
        let at = |n: u64| Sample {
            beat: 1,
            seq_no: n,
            primary_term: 1,
        };
        for n in 0..20u64 {
            let now = Duration::from_millis(n * 1_000);
            assert_eq!(observer.observe(now, now, at(n)), Verdict::Alive);
        }
    }

    proptest::proptest! {
        /// L4 and the pause rule in one: whatever an observer's reads and pauses, an owner that renews at least every
        /// third of its time to live, as far as the store lets it, is never suspected.
        #[test]
        fn who_renews_in_time_is_never_suspected(
            steps in proptest::collection::vec((0u64..4_000, 0u64..3_000), 1..200),
            jitter in 0u64..400,
        ) {
            let mut observer = Observer::new(TTL);
            let mut now = 0;
            for (pause, took) in steps {
                let (sent, served) = (now + pause, now + pause + took / 2);
                now = sent + took;
                let beat = served / (600 + jitter);
                let sample = Sample { beat, seq_no: beat, primary_term: 1 };
                let verdict = observer.observe(Duration::from_millis(sent), Duration::from_millis(now), sample);
                proptest::prop_assert_eq!(verdict, Verdict::Alive);
            }
        }
    }
}
