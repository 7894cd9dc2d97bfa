//! Every lock of the store in memory: who holds what, who waits, until when. Plain state, no IO, no clock.
//!
//! The documents of the leases are what it is rebuilt from. It is altered together with them, inside an exclusive
//! decision of the engine; what rests on it is decided in a shared one, so that no write passes between the check
//! of a lock and its place in the log.
//!
//! Not here: deciding (`acquire`), compatibility (`locks`).

use super::handover::Heir;
use super::lease::{Ending, Lease, TimedBy, Wanted};
use super::{Ask, Told};
use crate::locks::{
    Age, AllAnswer, Blocker, Claim, Holder, Lock, LockKey, LockPath, Mode, Owner, Request, acquire_all, look_all, queue_all,
    write_claims,
};
use engine::Then;
use futures::channel::oneshot;
use model::{DocAddress, Error, ErrorKind, Result};
use serde_json::json;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Leases that ended by themselves or by force are remembered for their owners, the last so many of them.
const ENDED_MAX: usize = 10_000;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    locks: HashMap<LockKey, Lock>,
    leases: BTreeMap<Arc<str>, Lease>,
    /// Bytes of the targets of all leases.
    text_bytes: u64,
    /// No lease is over before.
    soonest: Option<Duration>,
    /// Granted while they waited, and not told yet.
    untold: HashSet<Arc<str>>,
    /// The leases of each lock document, oldest first.
    lock_document: HashMap<DocAddress, Vec<Arc<str>>>,
    waiting: HashMap<Owner, Waiting>,
    ended: HashMap<Arc<str>, (Ending, Option<Duration>)>,
    ended_order: VecDeque<Arc<str>>,
    age: u64,
    /// The last look at the clock; `None`: nobody has looked yet. Whether a lease is over is judged at this time alone.
    looked: Option<Duration>,
    running: BTreeMap<Owner, Running>,
    /// Reads that want one moment of what they claim: no change begins there.
    barriers: BTreeMap<u64, Vec<Claim>>,
    /// Reads that are told of every change that runs in their indices while they look.
    watches: BTreeMap<u64, Watched>,
    /// Numbers of both.
    reads: u64,
    /// The number of the gate that it is a copy at, where several servers have one store; else 0.
    gate: u64,
}

/// The indices that one read watches.
#[derive(Debug)]
struct Watched {
    indices: BTreeSet<String>,
    /// Changes that ran there since it began.
    met: BTreeSet<Owner>,
}

/// A change by the portable path, from the check of its locks until it is decided and finished.
#[derive(Debug)]
pub(crate) struct Running {
    /// The claims of its writes and of its own targets.
    pub(crate) claims: Vec<Claim>,
    /// Its own targets alone.
    pub(crate) own: Vec<Claim>,
    /// The leases that it is made under, and those of lock documents that it writes.
    pub(crate) under: Vec<Arc<str>>,
    /// The alteration of the table once it is committed and finished, whoever finishes it.
    pub(crate) after: Option<LockEffects>,
}

impl Running {
    /// Does it write documents of one of these indices?
    fn writes_in(&self, names: &BTreeSet<String>) -> bool {
        let there = |claim: &Claim| matches!(&claim.key, LockKey::Document { index, .. } if names.contains(index.as_str()));
        self.claims.iter().any(there)
    }
}

/// The effect of a change that writes lock documents on the table of locks.
pub(crate) struct LockEffects {
    /// The first of its lease documents among all that it writes.
    pub(crate) first: usize,
    /// The documents of leases that begin with it.
    pub(crate) begun: Vec<DocAddress>,
    /// Given the stamps of all that it writes, those before the first aside.
    pub(crate) then: Then,
}

impl fmt::Debug for LockEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("After").field("begun", &self.begun).finish_non_exhaustive()
    }
}

/// Bytes of a lease's targets.
pub(crate) fn text_bytes(lease: &Lease) -> u64 {
    lease.targets.iter().map(|wanted| wanted.target.text_bytes()).sum()
}

/// Is no lock claimed twice?
fn claims_each_once(claims: &[Claim]) -> bool {
    let keys: BTreeSet<&LockKey> = claims.iter().map(|claim| &claim.key).collect();
    keys.len() == claims.len()
}

/// Do any of them exclude each other?
fn exclude(some: &[Claim], others: &[Claim]) -> bool {
    let meets = |claim: &Claim| others.iter().any(|o| o.key == claim.key && !o.mode.is_compatible(claim.mode));
    some.iter().any(meets)
}

impl Table {
    /// A change begins; false, and it does not, while another's own targets are in its way, or its own in another's.
    pub(crate) fn run(&mut self, change: &Owner, running: Running) -> bool {
        self.running.remove(change);
        debug_assert!(
            running
                .own
                .iter()
                .all(|own| running.claims.iter().any(|claim| claim.key == own.key)),
            "T22: what a transaction locks for itself is among what it claims: {running:?}"
        );
        let free = self
            .running
            .values()
            .all(|other| !exclude(&running.own, &other.claims) && !exclude(&running.claims, &other.own));
        let free = free && self.barriers.values().all(|claims| !exclude(&running.claims, claims));
        if free {
            for watched in self.watches.values_mut() {
                if running.writes_in(&watched.indices) {
                    watched.met.insert(change.clone());
                }
            }
            self.running.insert(change.clone(), running);
        }
        free
    }
    /// It is decided and finished, or did not begin.
    pub(crate) fn stop_running(&mut self, change: &Owner) {
        self.running.remove(change);
    }
    /// It is committed and finished; what is still to be done about it, by who asks first.
    pub(crate) fn conclude(&mut self, change: &Owner) -> Option<LockEffects> {
        self.running.remove(change)?.after
    }
    /// The documents of leases that begin with it, and the first of its lease documents among all that it writes; `None`: it
    /// alters nothing here.
    pub(crate) fn begins(&self, change: &Owner) -> Option<(usize, Vec<DocAddress>)> {
        let after = self.running.get(change)?.after.as_ref()?;
        Some((after.first, after.begun.clone()))
    }
    /// Does one write what these claims would protect?
    pub(crate) fn runs_on(&self, claims: &[Claim]) -> bool {
        self.running.values().any(|running| exclude(&running.claims, claims))
    }
    /// The changes that do.
    pub(crate) fn running_on(&self, claims: &[Claim]) -> Vec<Owner> {
        let there = self.running.iter().filter(|(_, running)| exclude(&running.claims, claims));
        there.map(|(change, _)| change.clone()).collect()
    }
    /// Changes that are made under one of these leases.
    pub(crate) fn runs_under(&self, leases: &[Arc<str>]) -> Vec<Owner> {
        let under = self
            .running
            .iter()
            .filter(|(_, running)| running.under.iter().any(|id| leases.contains(id)));
        under.map(|(change, _)| change.clone()).collect()
    }
    /// Changes that write documents of these indices.
    pub(crate) fn running_in(&self, names: &BTreeSet<String>) -> Vec<Owner> {
        let running = self.running.iter().filter(|(_, running)| running.writes_in(names));
        running.map(|(change, _)| change.clone()).collect()
    }
    /// A read of these indices begins; until `unwatch` with the number.
    pub(crate) fn watch(&mut self, indices: &BTreeSet<String>) -> u64 {
        self.reads += 1;
        let watched = Watched {
            indices: indices.clone(),
            met: self.running_in(indices).into_iter().collect(),
        };
        self.watches.insert(self.reads, watched);
        self.reads
    }
    /// The read has ended: the changes that ran in its indices meanwhile, if only for a part of the time.
    pub(crate) fn unwatch(&mut self, number: u64) -> BTreeSet<Owner> {
        let watched = self.watches.remove(&number);
        debug_assert!(watched.is_some(), "a read that ends was watched from its beginning");
        watched.map(|watched| watched.met).unwrap_or_default()
    }
    /// From here on no change begins on what these claims exclude; until `lift_barrier` with the number.
    pub(crate) fn raise_barrier(&mut self, claims: Vec<Claim>) -> u64 {
        self.reads += 1;
        self.barriers.insert(self.reads, claims);
        self.reads
    }
    /// The read has its moment.
    pub(crate) fn lift_barrier(&mut self, number: u64) {
        let lifted = self.barriers.remove(&number);
        debug_assert!(lifted.is_some(), "T23: a barrier stands until its read has its moment");
    }
    /// Every one.
    pub(crate) fn running(&self) -> Vec<Owner> {
        self.running.keys().cloned().collect()
    }
}

/// Somebody who waits.
#[derive(Debug)]
struct Waiting {
    keys: Vec<LockKey>,
    turn: Option<oneshot::Sender<Told>>,
    /// The request, if it may be granted beside the asking: a new lock.
    ask: Option<Arc<Ask>>,
}

impl Table {
    /// Nothing is locked.
    pub(crate) fn is_idle(&self) -> bool {
        self.leases.is_empty()
    }
    /// A place in the queue, after everybody's.
    pub(crate) fn next_age(&mut self) -> Age {
        self.age += 1;
        Age { term: 0, seq: self.age }
    }
    pub(crate) fn count(&self) -> usize {
        self.leases.len()
    }
    pub(crate) fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }
    /// The leases of a lock document.
    pub(crate) fn leases_of_document(&self, at: &DocAddress) -> impl Iterator<Item = &Lease> {
        let ids = self.lock_document.get(at).map_or(&[][..], Vec::as_slice);
        debug_assert!(
            ids.iter().all(|id| {
                let document = self.leases.get(id).and_then(|lease| lease.lock_document.as_ref());
                document.is_some_and(|document| document.at == *at)
            }),
            "T21: what is found by a lock document is a lease of it: {at:?}"
        );
        ids.iter().filter_map(|id| self.leases.get(id))
    }
    pub(crate) fn lease(&self, id: &str) -> Option<&Lease> {
        self.leases.get(id)
    }
    /// A connection is closed; what was taken by it stays.
    pub(crate) fn hung_up(&mut self, connection: u64) {
        let lock_document = self.leases.values_mut().filter(|lease| lease.lock_document.is_some());
        for lease in lock_document.filter(|lease| lease.connection == Some(connection)) {
            lease.connection = None;
        }
    }
    /// Any lock document has leases.
    pub(crate) fn has_lock_documents(&self) -> bool {
        !self.lock_document.is_empty()
    }
    /// A lease that nothing is in the way of holds what it claims.
    pub(crate) fn hold(&mut self, lease: Lease, age: Age) {
        debug_assert!(claims_each_once(&lease.claims), "T13: a lease claims a lock once: {lease:?}");
        for claim in &lease.claims {
            let lock = self
                .locks
                .entry(claim.key.clone())
                .or_insert_with(|| Lock::new(claim.key.clone()));
            let holder = Holder {
                mode: claim.mode,
                session: lease.id.clone(),
                age,
            };
            lock.holders.insert(Owner::new(lease.id.clone()), holder);
            assert!(lock.is_sound(), "T13: a lock was granted beside what excludes it: {lock:?}");
        }
        self.insert(lease);
    }
    /// Is nothing in the way of what it claims, but what it holds already?
    pub(crate) fn could_hold(&self, lease: &Lease) -> bool {
        let own = [Owner::new(lease.id.clone())];
        let lock = |claim: &Claim| {
            self.locks
                .get(&claim.key)
                .map(|lock| lock.against(claim.mode, &own).next().is_none())
        };
        lease.claims.iter().all(|claim| lock(claim) != Some(false))
    }
    /// The number of the gate that it is a copy at.
    pub(crate) fn gate(&self) -> u64 {
        self.gate
    }
    /// It is as the gate says at this number.
    pub(crate) fn stand_at(&mut self, number: u64) {
        assert!(number > self.gate, "T27: the gate goes from {} to {number}", self.gate);
        self.gate = number;
    }
    /// The session that timed some of the leases has ended: everybody times each from now on, for one fresh keep alive.
    pub(crate) fn adopt(&mut self, of: &TimedBy, now: Duration) {
        for lease in self.leases.values_mut().filter(|lease| lease.timed_by == *of) {
            (lease.timed_by, lease.deadline) = (TimedBy::Everybody, now + lease.keep_alive);
            let deadline = lease.deadline;
            self.soonest = Some(self.soonest.map_or(deadline, |soonest| soonest.min(deadline)));
        }
    }
    /// It was asked for again: its time begins anew.
    pub(crate) fn again(&mut self, id: &str, now: Duration, connection: Option<u64>) {
        if let Some(lease) = self.leases.get_mut(id) {
            lease.deadline = now + lease.keep_alive;
            lease.connection = connection.or(lease.connection);
            lease.ending = false;
            let deadline = lease.deadline;
            self.due(deadline);
        }
    }
    /// Its end is being written.
    pub(crate) fn is_ending(&self, id: &str) -> bool {
        self.leases.get(id).is_some_and(|lease| lease.ending)
    }
    /// The documents of these say that their time is over.
    pub(crate) fn over_is_written(&mut self, ids: &[Arc<str>]) {
        for id in ids {
            if let Some(lease) = self.leases.get_mut(id) {
                lease.over_is_written = true;
            }
        }
    }
    /// Its end is tried again later.
    pub(crate) fn put_off(&mut self, id: &str, until: Duration) {
        if let Some(lease) = self.leases.get_mut(id) {
            lease.deadline = until;
            lease.ending = false;
            self.due(until);
        }
    }
    /// A lease may be over then.
    fn due(&mut self, deadline: Duration) {
        self.soonest = Some(self.soonest.map_or(deadline, |soonest| soonest.min(deadline)));
    }
    fn insert(&mut self, lease: Lease) {
        let known = self.leases.contains_key(&lease.id);
        if let (Some(lock_document), false) = (&lease.lock_document, known) {
            self.lock_document
                .entry(lock_document.at.clone())
                .or_default()
                .push(lease.id.clone());
        }
        self.due(lease.deadline);
        self.text_bytes += text_bytes(&lease);
        if let Some(before) = self.leases.insert(lease.id.clone(), lease) {
            self.text_bytes -= text_bytes(&before);
        }
    }
    /// Bytes of the targets of all leases.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }
    /// Its time begins anew.
    pub(crate) fn renew(
        &mut self,
        id: &str,
        now: Duration,
        keep_alive: Option<Duration>,
        connection: Option<u64>,
    ) -> Option<&Lease> {
        let lease = self.leases.get_mut(id)?;
        debug_assert!(!lease.ending, "T17: a lease that is over is renewed");
        debug_assert_eq!(
            lease.timed_by,
            TimedBy::Here,
            "T31: only the server whose session times a lease renews it"
        );
        lease.keep_alive = keep_alive.unwrap_or(lease.keep_alive);
        lease.deadline = now + lease.keep_alive;
        lease.connection = connection.or(lease.connection);
        let deadline = lease.deadline;
        self.due(deadline);
        self.leases.get(id)
    }
    /// It is over by then at the latest.
    pub(crate) fn cut(&mut self, id: &str, by: Duration) {
        if let Some(lease) = self.leases.get_mut(id) {
            lease.deadline = lease.deadline.min(by);
            self.due(by);
        }
    }
    /// How many wait for something that this lease holds.
    pub(crate) fn waiters_of(&self, lease: &Lease) -> usize {
        let owner = Owner::new(lease.id.clone());
        let behind = |key: &LockKey| self.locks.get(key).map_or(&[][..], |lock| &lock.waiters);
        let mut all: Vec<&Owner> = lease
            .claims
            .iter()
            .filter(|claim| !claim.implied)
            .flat_map(|claim| behind(&claim.key))
            .map(|waiter| &waiter.owner)
            .filter(|waiter| **waiter != owner)
            .collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    /// The time of everything that is judged from here on: never earlier than before.
    ///
    /// A server that was stopped or cut off for more than half of a keep alive gives its lease all of it again, since its owner
    /// could not renew either. That is noticed here, by the time since the last look, so that nothing is judged between the
    /// pause and the decision about it. What was over before the pause stays over: somebody may have heard of it.
    pub(crate) fn look_at_clock(&mut self, clock: Duration) -> Duration {
        /// Less is a busy machine: the housekeeping looks each 50 ms.
        const PAUSE_MIN: Duration = Duration::from_millis(500);
        let before = self.looked.unwrap_or(clock);
        let now = clock.max(before);
        self.looked = Some(now);
        let pause = now - before;
        if pause >= PAUSE_MIN {
            let stopped = |lease: &&mut Lease| !lease.is_over(before) && pause > lease.keep_alive / 2;
            for lease in self.leases.values_mut().filter(stopped) {
                lease.deadline = now + lease.keep_alive;
            }
        }
        now
    }
    /// The time of the last look.
    fn now(&self) -> Duration {
        self.looked.unwrap_or_default()
    }

    /// A lease that is alive.
    pub(crate) fn alive(&self, id: &str) -> Result<&Lease> {
        let now = self.now();
        match self.leases.get(id) {
            Some(lease) if !lease.is_over(now) => Ok(lease),
            Some(lease) => Err(expiry_error(id, Some(now.saturating_sub(lease.deadline)))),
            None => match self.ended.get(id) {
                Some((Ending::Expired, at)) => Err(expiry_error(id, at.map(|at| now.saturating_sub(at)))),
                Some((Ending::Broken, _)) => {
                    Err(Error::new(ErrorKind::LockBroken, format!("lock [{id}] was broken")).with("lock", id))
                }
                None => Err(Error::new(ErrorKind::LockMissing, format!("no lock [{id}]")).with("lock", id)),
            },
        }
    }

    /// Leases whose time is over; from here on they are ending.
    pub(crate) fn take_overdue(&mut self) -> Vec<Lease> {
        let now = self.now();
        if self.soonest.is_none_or(|soonest| now < soonest) {
            debug_assert!(
                self.leases.values().all(|lease| lease.ending || !lease.is_over(now)),
                "T17: a lease is over before the time at which one is looked for, {:?}",
                self.soonest
            );
            return Vec::new();
        }
        let mut overdue = Vec::new();
        for lease in self.leases.values_mut().filter(|lease| lease.is_over(now) && !lease.ending) {
            lease.ending = true;
            overdue.push(lease.clone());
        }
        let others = self
            .leases
            .values()
            .filter(|lease| !lease.ending && !matches!(lease.timed_by, TimedBy::Server(_)));
        self.soonest = others.map(|lease| lease.deadline).min();
        overdue
    }
    /// Their end could not be written.
    pub(crate) fn not_ended(&mut self, ids: &[Arc<str>]) {
        for id in ids {
            if let Some(lease) = self.leases.get_mut(id) {
                lease.ending = false;
                let deadline = lease.deadline;
                self.due(deadline);
            }
        }
    }

    /// The answer that these claims would get. Locks of the owners of `own` are in nobody's way.
    pub(crate) fn look(&self, claims: &[Claim], request: &Request, own: &[Owner]) -> AllAnswer {
        let asked = self.locks_of(claims);
        look_all(asked.iter().map(|(lock, mode)| (&**lock, *mode)), request, own)
    }
    /// The locks of some claims; those that nobody holds are free.
    pub(crate) fn locks_of<'a>(&'a self, claims: &[Claim]) -> Vec<(Cow<'a, Lock>, Mode)> {
        let lock = |key: &LockKey| match self.locks.get(key) {
            Some(lock) => Cow::Borrowed(lock),
            None => Cow::Owned(Lock::new(key.clone())),
        };
        claims.iter().map(|claim| (lock(&claim.key), claim.mode)).collect()
    }
    /// The same, to be altered and put back.
    fn take_locks(&mut self, claims: &[Claim]) -> Vec<(Lock, Mode)> {
        debug_assert!(claims_each_once(claims), "T13: a lock is taken once: {claims:?}");
        let mut taken = |key: &LockKey| self.locks.remove(key).unwrap_or_else(|| Lock::new(key.clone()));
        claims.iter().map(|claim| (taken(&claim.key), claim.mode)).collect()
    }
    fn put_back(&mut self, locks: Vec<Lock>) {
        for lock in locks.into_iter().filter(|lock| !lock.is_free()) {
            let there = self.locks.insert(lock.key.clone(), lock);
            debug_assert!(
                there.is_none(),
                "T13: a lock that is taken for a step is nowhere else: {there:?}"
            );
        }
    }
    /// Grants a lease its claims, as a look has found them free. Who waits may have left since.
    pub(crate) fn grant(&mut self, lease: Lease, request: &Request) {
        self.waiting.remove(&request.owner);
        let (locks, answer) = acquire_all(self.take_locks(&lease.claims), request);
        self.put_back(locks);
        assert!(
            answer == AllAnswer::Granted,
            "T16: a lock was found free and is not: {answer:?}"
        );
        self.insert(lease);
    }
    /// They are waited for; `ask`: for a new lock, which is granted with the end of another if nothing else is in the
    /// way. The receiver is told when it may be worth asking again.
    pub(crate) fn enqueue(&mut self, claims: &[Claim], request: &Request, ask: Option<Arc<Ask>>) -> oneshot::Receiver<Told> {
        let (turn, told) = oneshot::channel();
        let locks = queue_all(self.take_locks(claims), request);
        self.put_back(locks);
        let waiting = Waiting {
            keys: claims.iter().map(|claim| claim.key.clone()).collect(),
            turn: Some(turn),
            ask,
        };
        self.waiting.insert(request.owner.clone(), waiting);
        debug_assert!(
            claims.iter().all(|claim| {
                let lock = self.locks.get(&claim.key);
                lock.is_some_and(|lock| lock.waiters.iter().any(|waiter| waiter.owner == request.owner))
            }),
            "T14: who waits stands in the queue of each lock that it claims: {claims:?}"
        );
        // Who was in the way may have left since the look.
        self.wake_one(&request.owner);
        told
    }
    /// The request of somebody in the queue of these keys, if it may be granted beside the asking.
    pub(crate) fn request_of(&self, owner: &Owner) -> Option<(&Ask, &[LockKey])> {
        let waiting = self.waiting.get(owner)?;
        waiting.turn.as_ref()?;
        Some((waiting.ask.as_deref()?, &waiting.keys))
    }
    /// A lease ends and those after it begin, in one record. Gives what is to be told once that is durable.
    pub(crate) fn hand_over(
        &mut self,
        id: &str,
        how: Option<(Ending, Option<Duration>)>,
        heirs: Vec<Heir>,
    ) -> Vec<(oneshot::Sender<Told>, Lease)> {
        let under = [Arc::from(id)];
        debug_assert!(
            self.gate > 0 || self.runs_under(&under).is_empty(),
            "T18: a lease ends before what runs under it"
        );
        debug_assert!(
            heirs.is_sorted_by(|a, b| (a.request.age, &a.request.owner) < (b.request.age, &b.request.owner)),
            "T14: heirs stand by age, each once"
        );
        // They stay in their queues meanwhile, so that nobody is woken who would have to wait for them.
        let turns: Vec<_> = heirs.iter().map(|heir| self.waiting.remove(&heir.request.owner)).collect();
        self.end(id, how);
        let mut out = Vec::with_capacity(heirs.len());
        for (heir, waiting) in heirs.into_iter().zip(turns) {
            let Heir { mut lease, request } = heir;
            match waiting.and_then(|waiting| waiting.turn) {
                Some(turn) => {
                    self.untold.insert(lease.id.clone());
                    out.push((turn, lease.clone()));
                }
                // It left while the record was on its way: the next sweep ends it.
                None => lease.deadline = Duration::ZERO,
            }
            self.grant(lease, &request);
        }
        debug_assert!(
            self.untold.iter().all(|id| self.leases.contains_key(id)),
            "T16: who is still to hear of a grant has its lease: {:?}",
            self.untold
        );
        out
    }
    /// Somebody has heard of the grant.
    pub(crate) fn note_told(&mut self, owner: &Owner) {
        self.untold.remove(owner.as_str());
    }
    /// Somebody waits no more.
    pub(crate) fn withdraw(&mut self, owner: &Owner) {
        if self.untold.remove(owner.as_str()) {
            // It was granted, and nobody will ever hear of it.
            self.cut(owner.as_str(), Duration::ZERO);
        }
        let Some(waiting) = self.waiting.remove(owner) else { return };
        for key in &waiting.keys {
            if let Some(lock) = self.locks.get_mut(key) {
                lock.waiters.retain(|waiter| waiter.owner != *owner);
            }
        }
        self.tidy(&waiting.keys);
        self.wake(&waiting.keys);
    }
    /// Every lock that somebody waits for.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = &Lock> {
        self.locks.values().filter(|lock| !lock.waiters.is_empty())
    }
    pub(crate) fn lock(&self, key: &LockKey) -> Option<&Lock> {
        self.locks.get(key)
    }

    /// A lease is over. `how` is remembered for its owner, who did not end it himself.
    pub(crate) fn end(&mut self, id: &str, how: Option<(Ending, Option<Duration>)>) {
        let Some(lease) = self.leases.remove(id) else { return };
        let bytes = text_bytes(&lease);
        assert!(
            self.text_bytes >= bytes,
            "[{bytes}] bytes of targets leave, [{}] were counted",
            self.text_bytes
        );
        self.text_bytes -= bytes;
        self.untold.remove(id);
        debug_assert!(
            lease.lock_document.as_ref().is_none_or(|lock_document| {
                let ids = self.lock_document.get(&lock_document.at);
                ids.is_some_and(|ids| ids.iter().any(|known| **known == *id))
            }),
            "T21: the leases of a lock document are found by it"
        );
        if let Some(lock_document) = &lease.lock_document
            && let Some(ids) = self.lock_document.get_mut(&lock_document.at)
        {
            ids.retain(|known| **known != *id);
            if ids.is_empty() {
                self.lock_document.remove(&lock_document.at);
            }
        }
        if let Some(how) = how {
            self.remember(lease.id.clone(), how);
        }
        let owner = Owner::new(lease.id.clone());
        if let Some(waiting) = self.waiting.remove(&owner) {
            // It waited for more; who waits asks again and hears that it is over.
            for key in &waiting.keys {
                if let Some(lock) = self.locks.get_mut(key) {
                    lock.waiters.retain(|waiter| waiter.owner != owner);
                }
            }
            self.tidy(&waiting.keys);
            // Who is gone withdraws by being dropped.
            let _ = waiting.turn.map(|turn| turn.send(Told::Again));
            self.wake(&waiting.keys);
        }
        let keys: Vec<LockKey> = lease.claims.into_iter().map(|claim| claim.key).collect();
        for key in &keys {
            let held = self.locks.get_mut(key).and_then(|lock| lock.holders.remove(&owner));
            debug_assert!(held.is_some(), "T13: a lease holds each of its locks until it ends: {key:?}");
        }
        self.tidy(&keys);
        self.wake(&keys);
        debug_assert!(
            !self.leases.is_empty() || self.text_bytes == 0 && self.lock_document.is_empty(),
            "without leases no bytes of targets and no lock documents are left: [{}] bytes",
            self.text_bytes
        );
    }
    /// Forgets the oldest beyond a bound.
    pub(crate) fn remember(&mut self, id: Arc<str>, how: (Ending, Option<Duration>)) {
        if self.ended.insert(id.clone(), how).is_none() {
            self.ended_order.push_back(id);
        }
        while self.ended_order.len() > ENDED_MAX {
            if let Some(oldest) = self.ended_order.pop_front() {
                self.ended.remove(&oldest);
            }
        }
        debug_assert_eq!(
            self.ended.len(),
            self.ended_order.len(),
            "each end that is remembered is forgotten in its turn"
        );
    }

    /// Whose lock a write of this document meets, other than `own` and leases that `is_own` says are.
    pub(crate) fn foreign(
        &self,
        at: &DocAddress,
        places: &[LockPath],
        own: &[Owner],
        is_own: impl Fn(&Lease) -> bool,
    ) -> Option<(LockKey, Blocker)> {
        if self.is_idle() {
            return None;
        }
        for claim in write_claims(at, places) {
            let Some(lock) = self.locks.get(&claim.key) else { continue };
            let foreign = |owner: &Owner| !self.leases.get(owner.as_str()).is_some_and(&is_own);
            if let Some((owner, holder)) = lock.against(claim.mode, own).find(|(owner, _)| foreign(owner)) {
                let blocker = Blocker {
                    owner: owner.clone(),
                    mode: holder.mode,
                    session: holder.session.clone(),
                    age: holder.age,
                    waiting: false,
                };
                return Some((claim.key, blocker));
            }
        }
        None
    }

    /// The refusal that names who is in the way, and by which lock: of an intention the one below that it is for.
    pub(crate) fn conflict(&self, key: &LockKey, blocker: &Blocker) -> Error {
        let below = self.requested_below(key, blocker);
        let (key, mode) = below.as_ref().map_or((key, blocker.mode), |(key, mode)| (key, *mode));
        let (place, facts) = match key {
            LockKey::All => ("[_all]".to_owned(), json!({ "name": "_all" })),
            LockKey::Name(name) => (format!("[{name}]"), json!({ "name": &**name })),
            LockKey::Index(index) => (format!("[{index}]"), json!({ "index": index.as_str() })),
            LockKey::Path { index, path } => {
                let facts = json!({ "index": index.as_str(), "path": path.to_string() });
                (format!("[{index}][{path}]"), facts)
            }
            LockKey::Document { index, uid } => (format!("[{index}][{uid}]"), json!({ "index": index.as_str(), "id": &**uid })),
        };
        let lease = self.leases.get(blocker.session.as_ref());
        let name = lease.map_or(blocker.owner.as_str(), |lease| lease.name());
        let how = if blocker.waiting { "waited for" } else { "held" };
        let reason = format!("{place} is {how} in [{}] mode by [{name}]", mode.word());
        let mut error = Error::new(ErrorKind::LockConflict, reason);
        for (name, value) in facts.as_object().into_iter().flatten() {
            error = error.with(name, value.clone());
        }
        let mut holder = json!({ "lock": blocker.owner.as_str(), "mode": mode.word() });
        if let Some(lease) = lease {
            holder["owner"] = lease.owner.as_str().into();
            if !lease.is_endless() {
                holder["expires_in_millis"] = millis_of(lease.remaining(self.now())).into();
            }
        }
        error.with("holder", holder)
    }

    /// The target of a blocker that is in the way of `key` by implication only: the nearest one below it. The table does not know
    /// the path of a document, so below a path it gives a document of the index.
    fn requested_below(&self, key: &LockKey, blocker: &Blocker) -> Option<(LockKey, Mode)> {
        let own = |wanted: &Wanted| (wanted.target.key(), wanted.mode);
        let targets: Vec<(LockKey, Mode)> = match self.leases.get(blocker.session.as_ref()) {
            Some(lease) if lease.claims.iter().any(|claim| claim.key == *key && claim.implied) => {
                lease.targets.iter().map(own).collect()
            }
            Some(_) => return None,
            None => self
                .waiting
                .get(&blocker.owner)?
                .ask
                .as_ref()?
                .targets
                .iter()
                .map(own)
                .collect(),
        };
        if targets.iter().any(|(target, _)| target == key) {
            return None;
        }
        let index_of = |key: &LockKey| match key {
            LockKey::Path { index, .. } | LockKey::Document { index, .. } => Some(index.clone()),
            _ => None,
        };
        let same_index = |target: &LockKey| index_of(target).is_some() && index_of(target) == index_of(key);
        // A shared target intends to nothing that is in the way of who only reads or intends.
        let strongest = |some: Vec<&(LockKey, Mode)>| some.into_iter().max_by_key(|(_, mode)| *mode == Mode::Exclusive).cloned();
        let below = targets.iter().filter(|(target, _)| target.is_below(key)).collect();
        let documents = || {
            let all = targets
                .iter()
                .filter(|(target, _)| matches!(target, LockKey::Document { .. }));
            all.filter(|(target, _)| same_index(target)).collect()
        };
        strongest(below).or_else(|| strongest(documents()))
    }

    fn tidy(&mut self, keys: &[LockKey]) {
        for key in keys {
            if self.locks.get(key).is_some_and(Lock::is_free) {
                self.locks.remove(key);
            }
        }
    }
    /// Wakes who is in the queue of these locks and has nobody in the way any more, anywhere.
    fn wake(&mut self, keys: &[LockKey]) {
        let mut ready: Vec<Owner> = Vec::new();
        for lock in keys.iter().filter_map(|key| self.locks.get(key)) {
            ready.extend(lock.ready().map(|waiter| waiter.owner.clone()));
        }
        ready.sort_unstable();
        ready.dedup();
        ready.iter().for_each(|owner| self.wake_one(owner));
    }
    fn wake_one(&mut self, owner: &Owner) {
        let Some(waiting) = self.waiting.get(owner) else { return };
        let free = |key: &LockKey| {
            let lock = self.locks.get(key);
            let entry = lock.and_then(|lock| lock.waiters.iter().find(|waiter| waiter.owner == *owner));
            debug_assert!(
                entry.is_some(),
                "T14: who waits stands in the queue of each of its locks: {owner:?}, {key:?}"
            );
            lock.zip(entry)
                .is_none_or(|(lock, entry)| lock.is_open_to(owner, entry.mode, entry.age))
        };
        if waiting.keys.iter().all(free)
            && let Some(turn) = self.waiting.get_mut(owner).and_then(|waiting| waiting.turn.take())
        {
            // Who is gone withdraws by being dropped.
            let _ = turn.send(Told::Again);
        }
    }
}

fn expiry_error(id: &str, ago: Option<Duration>) -> Error {
    let ago = ago.map(|ago| format!(" {:.1}s ago", ago.as_secs_f64())).unwrap_or_default();
    Error::new(ErrorKind::LockExpired, format!("lock [{id}] expired{ago}")).with("lock", id)
}

/// Whole milliseconds.
pub fn millis_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
