//! One lock: who holds it and who waits for it.

use super::{LockKey, Mode};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Who holds or waits: the id of a change, or of a lock that a client opened.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Arc<str>);

impl Owner {
    /// From an id.
    pub fn new(id: impl Into<Arc<str>>) -> Owner {
        Owner(id.into())
    }
    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Since when somebody has been at it: (primary term, sequence number) of the write that created the first attempt.
/// Kept across retries, so that nobody starves. Smaller is older. No clock is in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Age {
    /// Primary term of the control shard.
    pub term: u64,
    /// Sequence number in it; on the embedded engine the log's position does as well.
    pub seq: u64,
}

/// One holder of a lock.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    /// How it is held.
    pub mode: Mode,
    /// The session or lease that keeps it alive.
    pub session: Arc<str>,
    /// Its age, for those who come to wait.
    pub age: Age,
}

/// One waiter of a lock.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Waiter {
    /// Who.
    pub owner: Owner,
    /// The mode that it wants to hold in the end: for an owner that holds already, the join.
    pub mode: Mode,
    /// The session or lease that keeps it alive.
    pub session: Arc<str>,
    /// Its place in the queue.
    pub age: Age,
}

/// Who holds, by owner, and how many hold in each mode: the whole store is held by everybody by intention, and whether
/// a mode goes with all of them must not take looking at each.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Holders {
    by_owner: BTreeMap<Owner, Holder>,
    /// **Invariant:** what counting `by_owner` would give.
    counts: [usize; Mode::ALL.len()],
}

impl Holders {
    /// Takes the place of what the owner held.
    pub fn insert(&mut self, owner: Owner, holder: Holder) {
        self.counts[holder.mode as usize] += 1;
        if let Some(before) = self.by_owner.insert(owner, holder) {
            self.uncount(before.mode);
        }
    }
    /// The entry of the owner, if there was one.
    pub fn remove(&mut self, owner: &Owner) -> Option<Holder> {
        let gone = self.by_owner.remove(owner)?;
        self.uncount(gone.mode);
        Some(gone)
    }
    fn uncount(&mut self, mode: Mode) {
        let count = &mut self.counts[mode as usize];
        assert!(*count > 0, "T13: more holders in [{}] mode leave than came", mode.word());
        *count -= 1;
    }
    /// Alters all, and keeps some.
    pub fn retain(&mut self, keep: impl FnMut(&Owner, &mut Holder) -> bool) {
        self.by_owner.retain(keep);
        self.counts = Default::default();
        for holder in self.by_owner.values() {
            self.counts[holder.mode as usize] += 1;
        }
    }
    /// Nobody holds.
    pub fn clear(&mut self) {
        *self = Holders::default();
    }
    /// Holders whose mode does not go with this one.
    pub fn against(&self, mode: Mode) -> impl Iterator<Item = (&Owner, &Holder)> {
        let any = Mode::ALL
            .iter()
            .zip(self.counts)
            .any(|(held, count)| count > 0 && !held.is_compatible(mode));
        let all = any.then(|| self.by_owner.iter()).into_iter().flatten();
        all.filter(move |(_, holder)| !holder.mode.is_compatible(mode))
    }
    /// Are they pairwise compatible?
    fn is_sound(&self) -> bool {
        let held = self.counts;
        let go_together = |n: usize, m: usize| match (held[n], held[m]) {
            (0, _) | (_, 0) => true,
            (1, _) if n == m => true,
            _ => Mode::ALL[n].is_compatible(Mode::ALL[m]),
        };
        debug_assert_eq!(held.iter().sum::<usize>(), self.by_owner.len(), "each holder is counted once");
        (0..held.len()).all(|n| (0..=n).all(|m| go_together(n, m)))
    }
}
impl std::ops::Deref for Holders {
    type Target = BTreeMap<Owner, Holder>;
    fn deref(&self) -> &BTreeMap<Owner, Holder> {
        &self.by_owner
    }
}
impl fmt::Debug for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.by_owner.fmt(f)
    }
}
impl FromIterator<(Owner, Holder)> for Holders {
    fn from_iter<T: IntoIterator<Item = (Owner, Holder)>>(all: T) -> Holders {
        let mut out = Holders::default();
        all.into_iter().for_each(|(owner, holder)| out.insert(owner, holder));
        out
    }
}

/// A lock.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lock {
    /// Its target.
    pub key: LockKey,
    /// Owners and how they hold. **Invariant:** pairwise compatible.
    pub holders: Holders,
    /// **Invariant:** oldest first, each owner once.
    pub waiters: Vec<Waiter>,
}

impl Lock {
    /// Held by nobody.
    pub fn new(key: LockKey) -> Lock {
        Lock {
            key,
            holders: Holders::default(),
            waiters: Vec::new(),
        }
    }

    /// Nobody holds it and nobody waits.
    pub fn is_free(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// Owners other than these whose mode does not go with `mode`.
    pub fn against<'a>(&'a self, mode: Mode, own: &'a [Owner]) -> impl Iterator<Item = (&'a Owner, &'a Holder)> {
        self.holders.against(mode).filter(move |(owner, _)| !own.contains(owner))
    }

    /// Do its invariants hold?
    pub fn is_sound(&self) -> bool {
        let mut owners: Vec<&Owner> = self.waiters.iter().map(|waiter| &waiter.owner).collect();
        owners.sort_unstable();
        self.is_orderly() && owners.is_sorted_by(|a, b| a < b)
    }

    /// Do those hold that can be told quickly? Every step asks it. An owner has one age, so that one who stands twice in a
    /// queue would mostly be out of order.
    pub(super) fn is_orderly(&self) -> bool {
        self.holders.is_sound() && self.waiters.is_sorted_by(|a, b| (a.age, &a.owner) < (b.age, &b.owner))
    }
}
