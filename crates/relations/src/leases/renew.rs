//! Looking at leases and renewing them. Nothing is written: a renewal moves a deadline of this process.

use super::lease::{KEEP_ALIVE, Lease, TimedBy};
use model::{Error, ErrorKind, Result};
use std::time::Duration;

impl crate::Relations {
    /// Every lock, by id.
    pub fn leases(&self) -> Vec<(Lease, usize)> {
        let (table, _) = self.locks.now(&self.clock);
        table.leases().map(|lease| (lease.clone(), table.waiters_of(lease))).collect()
    }

    /// One lock that is alive.
    ///
    /// # Errors
    /// `lock_missing_exception`, `lock_expired_exception`, `lock_broken_exception`.
    pub fn lease(&self, id: &str) -> Result<(Lease, usize)> {
        self.check_control()?;
        let (table, _) = self.locks.now(&self.clock);
        let lease = table.alive(id)?;
        Ok((lease.clone(), table.waiters_of(lease)))
    }

    /// Restarts its time; its token stays. Nothing is written.
    ///
    /// # Errors
    /// It is over: a renewal never revives.
    pub fn renew(&self, id: &str, keep_alive: Option<Duration>, connection: Option<u64>) -> Result<Lease> {
        if keep_alive.is_some_and(|wanted| wanted < KEEP_ALIVE.0 || wanted > KEEP_ALIVE.1) {
            return Err(Error::illegal("[keep_alive] must be between [1s] and [1h]"));
        }
        self.check_control()?;
        self.check_session()?;
        let (mut table, now) = self.locks.now(&self.clock);
        let why = match &table.alive(id)?.timed_by {
            TimedBy::Here => None,
            TimedBy::Server(session) => Some(format!("is timed by the server of session [{session}]: renew it there")),
            TimedBy::Everybody => Some("was granted by a server that has stopped, so it cannot be renewed".to_owned()),
        };
        if let Some(why) = why {
            let reason = format!("lock [{id}] {why}; or ask for it once more by its id, which moves it to this server");
            return Err(Error::new(ErrorKind::Unavailable, reason).with("lock", id));
        }
        let lease = table.renew(id, now, keep_alive, connection);
        lease
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::LockMissing, format!("no lock [{id}]")))
    }

    /// Every one of these locks is.
    pub fn are_alive(&self, ids: &[String]) -> bool {
        ids.is_empty() || {
            let (table, _) = self.locks.now(&self.clock);
            ids.iter().all(|id| table.alive(id).is_ok())
        }
    }
}
