//! Locks with a rank. In debug builds each thread asserts that it takes them in rising order; in release builds a rank
//! has no size and a check no code.
//!
//! The ranks are the lock order of write-path.md 1. Guards are not `Send`, so the compiler refuses a future of the engine
//! that holds one over an await.
//!
//! Not here: the id stripes' number of a document (`write_path`), the locks of other crates.

use parking_lot as pl;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// The order in which a thread takes locks. The derived order of the variants is the lock order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockRank {
    /// One change of a repository of snapshots at a time.
    Repository,
    /// One checkpoint at a time.
    Checkpoint,
    /// One merge of an index at a time.
    Merge,
    /// The contents of a view with staged writes.
    Staging,
    /// Exclusive decisions against shared ones.
    Gate,
    /// Documents, by the number of their stripe.
    Stripe,
    /// Alterations of the catalog.
    Catalog,
    /// Stamps and places in the log.
    Sequencer,
    /// Builds of an index.
    Build,
    /// The flip of the published sets.
    Publish,
    /// The table of indices.
    Indices,
    /// Pending operations of an index.
    Queue,
    /// The files of the manifest; held over their IO.
    Manifest,
    /// The current file of the log; held over its IO by whoever has the turn to write.
    Committer,
    /// The tree of directories of an index.
    Tree,
    /// Data that is read or changed in place: no lock is taken under it.
    Leaf,
}

#[cfg(debug_assertions)]
mod order {
    use super::LockRank;
    use std::cell::RefCell;

    /// A lock's place in the order: locks of one rank are taken by rising number.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Place(LockRank, usize);

    impl Place {
        pub(super) const fn new(rank: LockRank, number: usize) -> Place {
            Place(rank, number)
        }
    }

    thread_local! {
        /// The places of the locks that this thread holds; they rise.
        static HELD: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
    }

    /// A place that this thread holds until the token is dropped.
    #[derive(Debug)]
    pub(super) struct Token(Place);

    impl Token {
        /// Asserts that `place` is above every place that this thread holds.
        pub(super) fn take(place: Place) -> Token {
            HELD.with_borrow_mut(|held| {
                // A guard that is dropped out of order leaves the rest in order, so the last is the highest.
                if let Some(highest) = held.last() {
                    assert!(
                        *highest < place,
                        "write-path.md 1, lock order: {place:?} is taken while {highest:?} is held"
                    );
                }
                held.push(place);
            });
            Token(place)
        }
    }

    /// Does this thread hold a lock of this rank?
    pub(crate) fn is_held(rank: LockRank) -> bool {
        HELD.with_borrow(|held| held.iter().any(|place| place.0 == rank))
    }

    /// Does this thread hold the lock of this rank with this number?
    pub(crate) fn is_held_at(rank: LockRank, number: usize) -> bool {
        HELD.with_borrow(|held| held.contains(&Place(rank, number)))
    }

    impl Drop for Token {
        fn drop(&mut self) {
            // At the end of a thread its locals may be gone before its guards.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(at) = held.iter().rposition(|place| *place == self.0) {
                    held.remove(at);
                }
            });
        }
    }
}

#[cfg(not(debug_assertions))]
mod order {
    use super::LockRank;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Place;

    impl Place {
        #[inline(always)]
        pub(super) const fn new(_: LockRank, _: usize) -> Place {
            Place
        }
    }

    #[derive(Debug)]
    pub(super) struct Token;

    impl Token {
        #[inline(always)]
        pub(super) fn take(_: Place) -> Token {
            Token
        }
    }

    /// Unknown without the order: for debug assertions alone.
    #[inline(always)]
    pub(crate) fn is_held(_: LockRank) -> bool {
        true
    }

    /// As [`is_held`].
    #[inline(always)]
    pub(crate) fn is_held_at(_: LockRank, _: usize) -> bool {
        true
    }
}

use order::{Place, Token};
pub(crate) use order::{is_held, is_held_at};

/// A mutex with a rank.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    place: Place,
    inner: pl::Mutex<T>,
}

/// A held mutex. The lock is released before its place is.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    guard: pl::MutexGuard<'a, T>,
    _token: Token,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(rank: LockRank, value: T) -> Mutex<T> {
        Mutex::with_number(rank, 0, value)
    }
    /// One of several locks of a rank: a thread takes them by rising number.
    pub(crate) const fn with_number(rank: LockRank, number: usize, value: T) -> Mutex<T> {
        Mutex {
            place: Place::new(rank, number),
            inner: pl::Mutex::new(value),
        }
    }
    /// A mutex under which no lock is taken.
    pub(crate) const fn leaf(value: T) -> Mutex<T> {
        Mutex::new(LockRank::Leaf, value)
    }
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        // Checked before it blocks: a wrong order panics also where it would hang.
        let token = Token::take(self.place);
        MutexGuard {
            guard: self.inner.lock(),
            _token: token,
        }
    }
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let token = Token::take(self.place);
        let guard = self.inner.try_lock()?;
        Some(MutexGuard { guard, _token: token })
    }
    #[inline]
    pub(crate) fn try_lock_for(&self, patience: Duration) -> Option<MutexGuard<'_, T>> {
        let token = Token::take(self.place);
        let guard = self.inner.try_lock_for(patience)?;
        Some(MutexGuard { guard, _token: token })
    }
}

impl<T> MutexGuard<'_, T> {
    /// Gives the lock away while `f` runs, which takes no lock with a rank: the thread keeps its place.
    pub(crate) fn run_unlocked(&mut self, f: impl FnOnce()) {
        pl::MutexGuard::unlocked(&mut self.guard, f);
    }
}

impl<T: Default> Default for Mutex<T> {
    /// A leaf.
    fn default() -> Mutex<T> {
        Mutex::leaf(T::default())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A condition of what a [`Mutex`] guards. A thread that waits keeps its place: it takes nothing meanwhile, and the lock is
/// its own again when it goes on.
#[derive(Debug, Default)]
pub(crate) struct Condvar(pl::Condvar);

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(&mut guard.guard);
    }
    /// Waits for so long at most; true if nobody woke the thread until then.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, patience: Duration) -> bool {
        self.0.wait_for(&mut guard.guard, patience).timed_out()
    }
    /// Waits until then at most; true if nobody woke the thread before.
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> bool {
        self.0.wait_until(&mut guard.guard, until).timed_out()
    }
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock of many readers or one writer, with a rank.
#[derive(Debug)]
pub(crate) struct RwLock<T> {
    place: Place,
    inner: pl::RwLock<T>,
}

/// A lock held for reading.
#[derive(Debug)]
pub(crate) struct ReadGuard<'a, T> {
    guard: pl::RwLockReadGuard<'a, T>,
    _token: Token,
}

/// A lock held for writing.
#[derive(Debug)]
pub(crate) struct WriteGuard<'a, T> {
    guard: pl::RwLockWriteGuard<'a, T>,
    _token: Token,
}

impl<T> RwLock<T> {
    pub(crate) const fn new(rank: LockRank, value: T) -> RwLock<T> {
        RwLock {
            place: Place::new(rank, 0),
            inner: pl::RwLock::new(value),
        }
    }
    /// A thread that reads does not read again: a writer between the two would wait for it, and it for the writer.
    #[inline]
    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        let token = Token::take(self.place);
        ReadGuard {
            guard: self.inner.read(),
            _token: token,
        }
    }
    #[inline]
    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        let token = Token::take(self.place);
        WriteGuard {
            guard: self.inner.write(),
            _token: token,
        }
    }
    #[inline]
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        let token = Token::take(self.place);
        let guard = self.inner.try_read()?;
        Some(ReadGuard { guard, _token: token })
    }
    #[inline]
    pub(crate) fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        let token = Token::take(self.place);
        let guard = self.inner.try_write()?;
        Some(WriteGuard { guard, _token: token })
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    /// Takes locks of these ranks and numbers one after the other and holds them all; true if no assertion fails.
    fn is_in_order(places: &[(LockRank, usize)]) -> bool {
        let locks: Vec<Mutex<()>> = places.iter().map(|(rank, n)| Mutex::with_number(*rank, *n, ())).collect();
        catch_unwind(AssertUnwindSafe(|| {
            let _held: Vec<_> = locks.iter().map(Mutex::lock).collect();
        }))
        .is_ok()
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_wrong_order_panics() {
        use LockRank::{Build, Catalog, Checkpoint, Committer, Gate, Leaf, Manifest, Publish, Queue, Sequencer, Stripe};
        let cases: &[(&[(LockRank, usize)], bool)] = &[
            (&[(Gate, 0), (Stripe, 1), (Stripe, 9), (Catalog, 0), (Sequencer, 0)], true),
            (&[(Build, 0), (Publish, 0), (Queue, 0), (Leaf, 0)], true),
            (&[(Checkpoint, 0), (Manifest, 0)], true),
            (&[(Committer, 0), (Leaf, 0)], true),
            (&[(Leaf, 0), (Committer, 0)], false),
            (&[(Stripe, 9), (Stripe, 1)], false),
            (&[(Stripe, 1), (Stripe, 1)], false),
            (&[(Sequencer, 0), (Catalog, 0)], false),
            (&[(Stripe, 3), (Gate, 0)], false),
            (&[(Publish, 0), (Build, 0)], false),
            (&[(Leaf, 0), (Leaf, 0)], false),
        ];
        for (places, expected) in cases {
            assert_eq!(is_in_order(places), *expected, "{places:?}");
            // A lock that a panic unwound is not held any more.
            assert!(is_in_order(&[(LockRank::Checkpoint, 0)]), "after {places:?}");
        }
    }

    #[test]
    fn guards_are_dropped_in_any_order() {
        let (gate, build, leaf) = (
            Mutex::new(LockRank::Gate, ()),
            Mutex::new(LockRank::Build, ()),
            Mutex::leaf(()),
        );
        let first = gate.lock();
        let second = build.lock();
        drop(first);
        let third = leaf.lock();
        drop(second);
        drop(third);
        drop(gate.lock());
        assert!(is_in_order(&[(LockRank::Checkpoint, 0), (LockRank::Leaf, 0)]));
    }

    #[test]
    fn a_lock_that_was_not_free_leaves_nothing_behind() {
        let lock = Arc::new(Mutex::new(LockRank::Publish, ()));
        let table = Arc::new(RwLock::new(LockRank::Publish, ()));
        let _held = lock.lock();
        let (other, shelf) = (lock.clone(), table.clone());
        let elsewhere = std::thread::spawn(move || {
            assert!(other.try_lock().is_none() && other.try_lock_for(Duration::ZERO).is_none());
            drop(shelf.try_write().expect("free"));
            drop(shelf.try_read().expect("free"));
            is_in_order(&[(LockRank::Build, 0), (LockRank::Publish, 0)])
        });
        assert!(elsewhere.join().expect("no panic"));
    }

    #[test]
    fn a_wait_keeps_the_place_and_gives_the_lock_away() {
        let shared = Arc::new((Mutex::leaf(false), Condvar::default()));
        let mut woken = shared.0.lock();
        let other = shared.clone();
        let waker = std::thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_all();
        });
        while !*woken {
            shared.1.wait_for(&mut woken, Duration::from_secs(5));
        }
        drop(woken);
        waker.join().expect("no panic");
        assert!(is_in_order(&[(LockRank::Checkpoint, 0), (LockRank::Leaf, 0)]));
    }
}
