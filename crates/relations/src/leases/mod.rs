//! Locks of clients: leases that are opened, renewed, broken and expire, in the critical section of the engine.
//!
//! A grant and an end are one record each, or one together (`handover`); a renewal is none. A lease is timed by this process's monotonic clock
//! alone. Waiting is the caller's, who has a runtime: [`Asked::Queued`] is a turn to wait for, then to ask again.
//!
//! Not here: who may hold what (`locks`), checking writes (`guard`), HTTP.

mod acquire;
pub(crate) mod caller;
pub(crate) mod guard;
pub(crate) mod handover;
pub(crate) mod lease;
mod renew;
pub(crate) mod table;

pub(crate) use acquire::{claims_of, fields_of as place_fields, full, in_the_way, resolve_targets, respects_locks};
pub use caller::Caller;
pub(crate) use handover::asking;
pub(crate) use lease::EndedAt;
pub use lease::{Ending, KEEP_ALIVE, KEEP_ALIVE_DEFAULT, Lease, LockDocument, OnExpire, TimedBy, Wanted};
pub use table::millis_of;

use crate::locks::{Age, Owner};
use engine::Clock;
use futures::channel::oneshot;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use table::Table;

/// A lock that is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// A lock that is held already: its targets are added to or raised.
    pub lock: Option<String>,
    /// A label for people.
    pub owner: String,
    /// The targets.
    pub targets: Vec<Wanted>,
    /// How long it lives after the grant.
    pub keep_alive: Option<Duration>,
    /// The effect of its end on a transaction under it.
    pub on_expire: OnExpire,
    /// It ends with its connection.
    pub on_disconnect_release: bool,
    /// The connection that asks.
    pub connection: Option<u64>,
    /// Stay in the queue if it is not free.
    pub wait: bool,
    /// Given by the first attempt, kept by the next ones.
    pub place: Option<Place>,
}

impl Ask {
    /// A lock of these targets for `owner` that is released when its time is over. It does not wait.
    pub fn of(owner: &str, targets: Vec<Wanted>, keep_alive: Duration) -> Ask {
        Ask {
            lock: None,
            owner: owner.to_owned(),
            targets,
            keep_alive: Some(keep_alive),
            on_expire: OnExpire::Release,
            on_disconnect_release: false,
            connection: None,
            wait: false,
            place: None,
        }
    }
}

/// An id and a place in the queue.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) owner: Owner,
    pub(crate) age: Age,
}

/// The result of asking.
#[derive(Debug)]
pub enum Asked {
    /// It is held.
    Granted(Box<Lease>),
    /// It is waited for.
    Queued(Turn, Place),
}

/// News for somebody who waits.
#[derive(Debug)]
pub enum Told {
    /// It is worth asking again.
    Again,
    /// The lock is held.
    Granted(Box<Lease>),
}

/// A place in a queue. Resolves when there is news; dropped, it is given up.
#[derive(Debug)]
pub struct Turn {
    table: Arc<Mutex<Table>>,
    owner: Owner,
    told: oneshot::Receiver<Told>,
    kept: bool,
}

impl Turn {
    /// The place is kept for the next attempt, which gives it up if it fails; or what was granted is taken.
    pub fn keep(mut self) {
        self.kept = true;
        lock(&self.table).note_told(&self.owner);
    }
}
impl Future for Turn {
    type Output = Told;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Told> {
        // A sender that is gone is news as well.
        Pin::new(&mut self.told).poll(cx).map(|told| told.unwrap_or(Told::Again))
    }
}
impl Drop for Turn {
    fn drop(&mut self) {
        if !self.kept {
            lock(&self.table).withdraw(&self.owner);
        }
    }
}

/// Every lock, shared by all who ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks {
    pub(crate) table: Arc<Mutex<Table>>,
    /// Where several servers have one store: one at a time alters the table, or brings it up to the gate.
    gate_turn: Arc<futures::lock::Mutex<()>>,
}

impl Locks {
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
    /// Whether there may be leases: it does not wait for whoever has the table.
    pub(crate) fn may_have_leases(&self) -> bool {
        match self.table.try_lock() {
            Ok(table) => !table.is_idle(),
            Err(_) => true,
        }
    }
    /// The table, and the time at which everything in it is judged until it is given back.
    pub(crate) fn now(&self, clock: &Arc<dyn Clock>) -> (MutexGuard<'_, Table>, Duration) {
        let mut table = self.table();
        let now = table.look_at_clock(clock.monotonic());
        (table, now)
    }
    /// To be locked by whoever alters the table as the gate says.
    pub(crate) fn gate_turn(&self) -> Arc<futures::lock::Mutex<()>> {
        self.gate_turn.clone()
    }
    pub(crate) fn turn(&self, owner: &Owner, told: oneshot::Receiver<Told>) -> Turn {
        Turn {
            table: self.table.clone(),
            owner: owner.clone(),
            told,
            kept: false,
        }
    }
}

/// A panic elsewhere leaves the table sound: what is fallible comes before what changes it.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
