//! The five modes of multigranularity locking (Gray, Lorie, Putzolu, Traiger 1975), which go together, and their joins.

use std::fmt;

/// How an owner holds a lock. Weakest first; the order of the variants is not the order of strength.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// IS: something below is held shared.
    IntentShared,
    /// IX: something below is held exclusive.
    IntentExclusive,
    /// S: everything below is held shared.
    Shared,
    /// SIX: shared, and something below is held exclusive.
    SharedIntentExclusive,
    /// X: everything below is held exclusive.
    Exclusive,
}

use Mode::{Exclusive, IntentExclusive, IntentShared, Shared, SharedIntentExclusive};

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 5] = [IntentShared, IntentExclusive, Shared, SharedIntentExclusive, Exclusive];

    /// May two different owners hold these at the same time? Symmetric.
    pub fn is_compatible(self, other: Mode) -> bool {
        match (self, other) {
            (Exclusive, _) | (_, Exclusive) => false,
            (IntentShared, _) | (_, IntentShared) => true,
            (IntentExclusive, IntentExclusive) | (Shared, Shared) => true,
            (IntentExclusive | Shared | SharedIntentExclusive, _) => false,
        }
    }

    /// The weakest mode that gives what both give (the least upper bound): what an owner holds after asking for both.
    pub fn join(self, other: Mode) -> Mode {
        match (self, other) {
            (a, b) if a == b => a,
            (Exclusive, _) | (_, Exclusive) => Exclusive,
            (IntentShared, other) | (other, IntentShared) => other,
            // Any two of IX, S and SIX that differ.
            _ => SharedIntentExclusive,
        }
    }

    /// Gives this mode all that `other` gives?
    pub fn covers(self, other: Mode) -> bool {
        self.join(other) == self
    }

    /// The mode that this one needs on everything above: IS for what reads, IX for what writes.
    pub fn intention(self) -> Mode {
        match self {
            IntentShared | Shared => IntentShared,
            IntentExclusive | SharedIntentExclusive | Exclusive => IntentExclusive,
        }
    }

    /// The short name in lock documents: `IS`, `IX`, `S`, `SIX`, `X`.
    pub fn render(self) -> &'static str {
        match self {
            IntentShared => "IS",
            IntentExclusive => "IX",
            Shared => "S",
            SharedIntentExclusive => "SIX",
            Exclusive => "X",
        }
    }

    /// The inverse of [`Mode::render`].
    pub fn parse(text: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.render() == text)
    }

    /// The word for users: intentions look shared, all else that is not S looks exclusive.
    pub fn word(self) -> &'static str {
        match self {
            IntentShared | IntentExclusive | Shared => "shared",
            SharedIntentExclusive | Exclusive => "exclusive",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_compatibility() {
        // Rows and columns in the order of `Mode::ALL`.
        let table = ["11110", "11000", "10100", "10000", "00000"];
        for (held, row) in Mode::ALL.into_iter().zip(table) {
            for (asked, cell) in Mode::ALL.into_iter().zip(row.chars()) {
                assert_eq!(held.is_compatible(asked), cell == '1', "{held} held, {asked} asked");
            }
        }
    }

    /// A join is a least upper bound: idempotent, commutative, associative, an upper bound, and no smaller one exists.
    #[test]
    fn join_is_a_least_upper_bound() {
        for a in Mode::ALL {
            assert_eq!(a.join(a), a);
            for b in Mode::ALL {
                let join = a.join(b);
                assert_eq!(join, b.join(a), "{a} {b}");
                assert!(join.covers(a) && join.covers(b), "{a} {b}");
                for c in Mode::ALL {
                    assert_eq!(join.join(c), a.join(b.join(c)), "{a} {b} {c}");
                    assert!(
                        !(c.covers(a) && c.covers(b)) || c.covers(join),
                        "{c} is a smaller bound of {a} and {b}"
                    );
                }
            }
        }
        assert_eq!(Shared.join(IntentExclusive), SharedIntentExclusive);
    }

    /// The stronger a mode, the less goes with it, and the stronger its intention.
    #[test]
    fn strength_is_monotone() {
        for a in Mode::ALL {
            assert_eq!(Mode::parse(a.render()), Some(a));
            assert!(matches!(a.intention(), IntentShared | IntentExclusive));
            for b in Mode::ALL.into_iter().filter(|b| a.covers(*b)) {
                assert!(a.intention().covers(b.intention()), "{a} covers {b}");
                for c in Mode::ALL.into_iter().filter(|c| a.is_compatible(*c)) {
                    assert!(b.is_compatible(c), "{c} goes with {a} but not with the weaker {b}");
                }
            }
        }
    }
}
