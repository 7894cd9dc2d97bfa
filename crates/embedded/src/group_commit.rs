//! A writer that is alone writes and syncs by itself: handing its record to the log's thread and being woken again
//! costs 30 to 80 µs beside a sync of 100 to 150.
//!
//! On a worker of the runtime that would keep others waiting: the worker that was woken by the network for this request
//! is the only one that listens to it. So another is woken first; it takes what waits in this one's queue, and then
//! listens. `block_in_place` does as much with a thread more and about 10 µs; it is used where there is one worker.
//!
//! Where nobody else has called lately ([`ClientActivity`]) there is nobody to listen for, and the one client's next request is
//! better off with this thread than with another that has to wake. Should somebody come all the same, he waits as long
//! as the sync does; where that is long the log's thread wakes another worker ([`Log::lead_watched`]).
//!
//! Not here: the group itself, and who may lead (`log`).

use crate::log::Log;
use rustc_hash::FxHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Who was the only one to call for so long is alone.
const ALONE_AFTER: Duration = Duration::from_millis(20);

/// Who calls: one task, which is one connection, or several.
#[derive(Debug)]
pub(crate) struct ClientActivity {
    begun: Instant,
    /// The last to call, by a hash of its task's number.
    last: AtomicU64,
    /// When somebody called who was not the one before, in nanoseconds since `begun`.
    changed_ns: AtomicU64,
}

impl Default for ClientActivity {
    fn default() -> ClientActivity {
        ClientActivity {
            begun: Instant::now(),
            last: AtomicU64::new(0),
            changed_ns: AtomicU64::new(0),
        }
    }
}

impl ClientActivity {
    /// The task that runs now calls.
    pub(crate) fn seen(&self) {
        let me = myself();
        if self.last.load(Ordering::Relaxed) != me {
            self.last.store(me, Ordering::Relaxed);
            self.changed_ns.store(self.now_ns(), Ordering::Relaxed);
        }
    }

    /// Nobody but the task that runs now has called lately.
    pub(crate) fn is_alone(&self) -> bool {
        let me = myself();
        let since = self.now_ns().saturating_sub(self.changed_ns.load(Ordering::Relaxed));
        me != 0 && self.last.load(Ordering::Relaxed) == me && u128::from(since) > ALONE_AFTER.as_nanos()
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The task that runs now; 0 outside of any.
fn myself() -> u64 {
    let Some(id) = tokio::task::try_id() else { return 0 };
    let mut hasher = FxHasher::default();
    id.hash(&mut hasher);
    hasher.finish() | 1
}

/// Writes and syncs what is queued, if nobody else does and this thread may block. To be followed by waiting.
pub(crate) fn lead(log: &Log, company: &ClientActivity) {
    if !log.is_quiet() {
        return;
    }
    let Ok(runtime) = Handle::try_current() else {
        return log.lead();
    };
    match (runtime.runtime_flavor(), runtime.metrics().num_workers()) {
        (RuntimeFlavor::MultiThread, 0 | 1) => tokio::task::block_in_place(|| log.lead()),
        (RuntimeFlavor::MultiThread, _) if company.is_alone() => {
            make_room();
            log.lead_watched(Box::new(move || drop(runtime.spawn(async {}))));
        }
        (RuntimeFlavor::MultiThread, _) => {
            make_room();
            make_room();
            log.lead();
        }
        // Nobody else would run its tasks.
        _ => {}
    }
}

/// The task that was spawned last stays with this worker, and the one before it is moved to where others take from, which
/// wakes one of them. So called once this moves what was woken before, if anything was; called twice it wakes another worker.
fn make_room() {
    drop(tokio::spawn(async {}));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Durability, LogOptions, Part, Record};
    use disk::FaultyDisk;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A byte in, a byte out; after `w` once a record is durable.
    async fn connection(mut stream: tokio::net::TcpStream, log: Arc<Log>, company: Arc<ClientActivity>) {
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
            company.seen();
            if byte == *b"w" {
                let record = Record {
                    participants: Vec::new(),
                    parts: vec![Part::Alter {
                        index_no: 1,
                        delta: b"{}".to_vec(),
                    }],
                    idempotency_key: None,
                };
                let mut room = log.reserve(record.log_bytes()).unwrap().waited_for();
                let ticket = log.enqueue(&mut room, record, Durability::Request).unwrap();
                lead(&log, &company);
                assert!(log.durable_position() >= ticket.end, "it led");
            }
            stream.write_all(&byte).await.unwrap();
        }
    }

    /// While a sync takes long, others are answered, on however many workers, whether or not the writer was alone.
    fn check(workers: usize, alone: bool) {
        const LONG: Duration = Duration::from_millis(900);
        let disk = FaultyDisk::new(1);
        let (log, _) = Log::open(Path::new("/log"), Arc::new(disk.clone()), LogOptions::new(7, 0)).unwrap();
        let log = Arc::new(log);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (served, company) = (log.clone(), Arc::<ClientActivity>::default());
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, served.clone(), company.clone()));
            }
        });
        let ask = |stream: &mut TcpStream, byte: u8| {
            stream.write_all(&[byte]).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        };
        let (mut writer, mut reader) = (TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap());
        for _ in 0..3 {
            ask(&mut reader, b'r');
            ask(&mut writer, b'w');
        }
        if alone {
            std::thread::sleep(2 * ALONE_AFTER);
        }
        disk.set_sync_takes(LONG);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ask(&mut writer, b'w');
                assert!(begun.elapsed() >= LONG, "the sync was slow");
            });
            std::thread::sleep(LONG / 9);
            ask(&mut reader, b'r');
            ask(&mut TcpStream::connect(address).unwrap(), b'r');
            assert!(begun.elapsed() < LONG, "{workers} workers: others waited for the sync");
        });
        disk.set_sync_takes(Duration::ZERO);
        runtime.shutdown_background();
    }

    #[test]
    fn others_are_answered_meanwhile() {
        for alone in [false, true] {
            check(1, alone);
            check(2, alone);
            check(4, alone);
        }
    }

    #[tokio::test]
    async fn alone_is_who_is_the_only_one_for_a_while() {
        let company = Arc::<ClientActivity>::default();
        let call = |company: Arc<ClientActivity>| async move {
            company.seen();
            let early = company.is_alone();
            tokio::time::sleep(2 * ALONE_AFTER).await;
            company.seen();
            (early, company.is_alone())
        };
        let one = tokio::spawn(call(company.clone())).await.unwrap();
        assert_eq!(one, (false, true));
        let (one, other) = (tokio::spawn(call(company.clone())), tokio::spawn(call(company.clone())));
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        assert!(!one.1 && !other.1, "two are company");
        company.seen();
        assert!(!company.is_alone(), "who is no task is nobody");
    }
}
