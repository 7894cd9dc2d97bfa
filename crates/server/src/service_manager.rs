//! Tells systemd how the server is: ready, alive, reloading, stopping (sd_notify(3)).
//!
//! The protocol is one datagram to the socket that `NOTIFY_SOCKET` names. Without that variable nothing is sent. Not here:
//! the unit (`packaging/pleach.service`).

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where the service manager listens.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: UnixDatagram,
    /// Half of the time after which a silent process is killed.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// By the variables of this process; `None` if no service manager asks to be told.
    ///
    /// # Errors
    /// A socket that cannot be reached.
    pub(crate) fn connect() -> io::Result<Option<ServiceManager>> {
        let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
            return Ok(None);
        };
        let address = match path.as_bytes() {
            // An abstract name is written with an at sign in the place of its first byte, which is zero.
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&path)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        let text = |name: &str| std::env::var(name).ok();
        let watchdog = watchdog(
            text("WATCHDOG_USEC").as_deref(),
            text("WATCHDOG_PID").as_deref(),
            std::process::id(),
        );
        Ok(Some(ServiceManager { socket, watchdog }))
    }

    /// How often [`ServiceManager::alive`] is due.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Requests are answered.
    pub(crate) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// The process is not stuck.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Settings are read again; `ready` ends it.
    pub(crate) fn reloading(&self) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is valid for writing one `timespec`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The process is about to end.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// A manager that is gone needs not be told.
    fn tell(&self, state: &str) {
        let _ = self.socket.send(state.as_bytes());
    }
}

/// Half of the watchdog's time, if it is meant for this process.
fn watchdog(micros: Option<&str>, pid: Option<&str>, own_pid: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own_pid)) {
        return None;
    }
    let micros: u64 = micros?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_told_twice_in_its_time() {
        assert_eq!(watchdog(Some("30000000"), None, 7), Some(Duration::from_secs(15)));
        assert_eq!(watchdog(Some("30000000"), Some("7"), 7), Some(Duration::from_secs(15)));
        assert_eq!(watchdog(Some("30000000"), Some("8"), 7), None);
        assert_eq!(watchdog(Some("0"), None, 7), None);
        assert_eq!(watchdog(Some("x"), None, 7), None);
        assert_eq!(watchdog(None, None, 7), None);
    }
}
