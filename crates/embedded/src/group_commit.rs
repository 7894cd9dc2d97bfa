//! A writer that is alone writes and syncs by itself: handing its record to the log's thread and being woken again
//! costs 30 to 80 µs beside a sync of 100 to 150.
//!
//! On a worker of the runtime that would keep others waiting: the worker that was woken by the network for this request
//! is the only one that listens to it. So another is woken first; it takes what waits in this one's queue, and then
//! listens. `block_in_place` does as much with a thread more and about 10 µs; it is used where there is one worker.
//!
//! Where no other client has called lately ([`ClientActivity`]) there is nobody to listen for, and the one client's next request is
//! better off with this thread than with another that has to wake. Should somebody come all the same, he waits as long
//! as the sync does; where that is long the log's thread wakes another worker ([`Log::lead_watched`]).
//!
//! Not here: the group itself, and who may lead (`log`).

use crate::log::Log;
use engine::client_activity::{ClientActivity, ClientId};
use tokio::runtime::{Handle, RuntimeFlavor};

/// The client whose task runs now; `None` outside of any task.
pub(crate) fn current_client() -> Option<ClientId> {
    tokio::task::try_id().map(ClientId::of)
}

/// Writes and syncs what is queued, if nobody else does and this thread may block. To be followed by waiting.
pub(crate) fn lead(log: &Log, clients: &ClientActivity) {
    if !log.is_quiet() {
        return;
    }
    let Ok(runtime) = Handle::try_current() else {
        return log.lead();
    };
    match (runtime.runtime_flavor(), runtime.metrics().num_workers()) {
        (RuntimeFlavor::MultiThread, 0 | 1) => tokio::task::block_in_place(|| log.lead()),
        (RuntimeFlavor::MultiThread, _) if current_client().is_some_and(|client| clients.is_alone(client)) => {
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
    use crate::log::{Durability, LogOptions, Part, Record, WriteStart};
    use disk::FaultyDisk;
    use engine::client_activity::ALONE_AFTER;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A byte in, a byte out; after `w` once a record is durable.
    async fn connection(mut stream: tokio::net::TcpStream, log: Arc<Log>, clients: Arc<ClientActivity>, led: Arc<AtomicU32>) {
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
            current_client().into_iter().for_each(|client| clients.note(client));
            if byte == *b"w" {
                let record = Record {
                    participants: Vec::new(),
                    parts: vec![Part::Alter {
                        index_no: 1,
                        delta: b"{}".to_vec(),
                    }],
                    idempotency_key: None,
                };
                let mut room = log.reserve(record.log_bytes()).unwrap().with_start(WriteStart::Waiter);
                let ticket = log.enqueue(&mut room, record, Durability::Request).unwrap();
                lead(&log, &clients);
                // The log's thread, woken for something else, may have been faster.
                if log.durable_position() >= ticket.end {
                    led.fetch_add(1, Ordering::Relaxed);
                }
                log.durable(ticket.end).await.unwrap();
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
        let (served, clients, led) = (log.clone(), Arc::<ClientActivity>::default(), Arc::<AtomicU32>::default());
        let led_by = led.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, served.clone(), clients.clone(), led_by.clone()));
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
        assert!(led.load(Ordering::Relaxed) > 0, "{workers} workers: no writer led");
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
}
