//! Threads that repeat one work until the server stops: they end leases, delete expired documents, watch the disk.
//!
//! Not here: the work of a round (`serve`, `disk_monitor`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The pause after a round that panicked.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// Runs `round`, waits for `pause`, and so on until `over`. A round that panics is reported; the thread goes on with the next.
///
/// A thread that cannot be started is left out, so no work that somebody waits for may depend on one.
pub(crate) fn repeat(name: &'static str, pause: Duration, over: &Arc<AtomicBool>, mut round: impl FnMut() + Send + 'static) {
    let over = over.clone();
    let rounds = move || {
        while !over.load(Ordering::Acquire) {
            let ended = catch_unwind(AssertUnwindSafe(&mut round));
            if ended.is_err() {
                tracing::warn!(target: "server", "a round of [{name}] panicked; the next one goes on");
                std::thread::sleep(PAUSE_AFTER_PANIC);
            }
            std::thread::sleep(pause);
        }
    };
    let _ = std::thread::Builder::new().name(name.to_owned()).spawn(rounds);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    #[test]
    fn a_panic_ends_one_round_alone() {
        let (done, rounds) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let mut begun = 0;
        repeat("test", Duration::ZERO, &over, move || {
            begun += 1;
            assert!(begun != 1, "the first round fails");
            // The receiver is gone at the test's end.
            let _ = done.send(begun);
        });
        let minute = Duration::from_secs(60);
        assert_eq!(rounds.recv_timeout(minute), Ok(2));
        assert_eq!(rounds.recv_timeout(minute), Ok(3));
        over.store(true, Ordering::Release);
        // The channel closes when the thread ends. How many rounds end until then is not known: perhaps none.
        let closed = std::iter::repeat_with(|| rounds.recv_timeout(minute)).find_map(Result::err);
        assert_eq!(closed, Some(RecvTimeoutError::Disconnected));
    }
}
