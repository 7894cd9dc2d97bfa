//! A lock that is given back goes on to who waits for it in the same record: one write and one sync, not two.
//!
//! Heirs are those who wait for a new lock, have nobody in their way but the lease that ends, and want what they wanted:
//! an alias may have moved since, a document may be elsewhere. Everybody else is woken and asks again, as changes with
//! targets of their own and conversions do.
//!
//! A grant is told once its record is durable, by whoever made the record. If nobody tells (the request that released
//! was cut off), who waits asks again, and finds that it holds.
//!
//! Not here: the record of the end itself (`lease_ends`), waiting.

use super::acquire::{join_lease, resolve_targets, touches};
use super::lease::{Ending, Lease};
use super::table::Table;
use super::{Ask, Locks, Told};
use crate::locks::{Age, AllAnswer, LockAction, LockKey, Mode, Owner, Request};
use engine::{Newest, Write, WriteOp};
use futures::channel::oneshot;
use model::{DocAddress, Stamp, settings};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// So many begin in one record; more are woken.
const HEIRS_MAX: usize = 64;

/// Somebody whose lock begins with the end of another.
#[derive(Clone, Debug)]
pub(crate) struct Heir {
    /// Its token and its deadline are not known yet.
    pub(crate) lease: Lease,
    /// As it asked, without waiting.
    pub(crate) request: Request,
}

/// Documents that granting what this lease leaves is expected to touch.
pub(crate) fn expected_touches(table: &Table, ending: &Lease) -> Vec<DocAddress> {
    let asked = candidates(table, ending).filter_map(|(_, owner)| {
        let (ask, _) = table.request_of(&owner)?;
        Some(touches(&Arc::from(owner.as_str()), &ask.targets))
    });
    asked.flatten().collect()
}

/// Who is next at any of the locks of this lease, oldest first.
fn candidates(table: &Table, ending: &Lease) -> impl Iterator<Item = (Age, Owner)> {
    let own = [Owner::new(ending.id.clone())];
    let mut next: BTreeSet<(Age, Owner)> = BTreeSet::new();
    for lock in ending.claims.iter().filter_map(|claim| table.lock(&claim.key)) {
        let ready = lock.ready_but(&own).filter(|waiter| waiter.owner != own[0]);
        next.extend(ready.map(|waiter| (waiter.age, waiter.owner.clone())));
    }
    next.into_iter().take(HEIRS_MAX)
}

/// Whose locks begin with the end of this one.
pub(crate) fn heirs(table: &Table, newest: &mut dyn Newest, ending: &Lease, now_ms: i64) -> Vec<Heir> {
    let own = [Owner::new(ending.id.clone())];
    let room = (settings::node_count(settings::LOCKS_MAX) + 1).saturating_sub(table.count());
    let mut out: Vec<Heir> = Vec::new();
    for (age, owner) in candidates(table, ending) {
        let Some((ask, keys)) = table.request_of(&owner).filter(|_| out.len() < room) else {
            continue;
        };
        let Some(lease) = lease_of(newest, ask, &owner, keys, now_ms) else {
            continue;
        };
        if table.runs_on(&lease.claims) {
            continue;
        }
        let request = asking(owner, age, false);
        // Earlier heirs are older and still in their queues: whom they exclude waits behind them.
        if table.look(&lease.claims, &request, &own) == AllAnswer::Granted {
            out.push(Heir { lease, request });
        }
    }
    out
}

/// The lease that it asked for, if that still means the locks it waits for.
fn lease_of(newest: &mut dyn Newest, ask: &Ask, owner: &Owner, keys: &[LockKey], now_ms: i64) -> Option<Lease> {
    let targets = resolve_targets(newest, &ask.targets).ok()?;
    let mut lease = join_lease(None, &Arc::from(owner.as_str()), ask, targets);
    lease.opened_ms = now_ms;
    let same = lease.claims.iter().map(|claim| &claim.key).eq(keys);
    same.then_some(lease)
}

/// The request for the locks of one lease.
pub(crate) fn asking(owner: Owner, age: Age, wait: bool) -> Request {
    Request {
        session: Arc::from(owner.as_str()),
        owner,
        age,
        action: LockAction::Acquire {
            mode: Mode::Exclusive,
            wait,
        },
    }
}

/// A grant to somebody who waits, to be told once its record is durable. Dropped before, the waiter asks again and finds that
/// it holds.
pub(crate) type Grant = (oneshot::Sender<Told>, Lease);

/// Alters the table once the record has its place: the lease ends, and those of the heirs begin.
pub(crate) fn hand_over(
    locks: &Locks,
    id: &str,
    how: Option<(Ending, Option<Duration>)>,
    now: Duration,
    mut heirs: Vec<Heir>,
    stamps: &[Stamp],
) -> Vec<Grant> {
    assert!(
        heirs.len() <= stamps.len(),
        "T20: the token of an heir is the stamp of its lease: [{}] of them, [{}] stamps",
        heirs.len(),
        stamps.len()
    );
    for (n, heir) in heirs.iter_mut().enumerate() {
        heir.lease.token = super::lease::token_of(stamps.get(n));
        heir.lease.deadline = now + heir.lease.keep_alive;
    }
    locks.table().hand_over(id, how, heirs)
}

/// The record is durable.
pub(crate) fn announce(grants: Vec<Grant>) {
    for (turn, lease) in grants {
        // Who is gone gives its lock up by being dropped.
        drop(turn.send(Told::Granted(Box::new(lease))));
    }
}

/// Lets others go first: those who were told have somebody waiting for an answer.
pub(crate) async fn step_back() {
    let mut stepped = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How the leases of heirs are written.
pub(crate) fn documents(heirs: &[Heir]) -> impl Iterator<Item = Write> {
    heirs
        .iter()
        .map(|heir| Write::new(Lease::at(&heir.lease.id), WriteOp::Put(heir.lease.document(None))))
}
