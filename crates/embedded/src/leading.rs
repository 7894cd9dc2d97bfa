//! A writer that is alone writes and syncs by itself: handing its record to the log's thread and being woken again
//! costs 30 to 80 µs beside a sync of 100 to 150.
//!
//! On a worker of the runtime that would keep others waiting: the worker that was woken by the network for this request
//! is the only one that listens to it. So another is woken first; it takes what waits in this one's queue, and then
//! listens. `block_in_place` does as much with a thread more and about 10 µs; it is used where there is one worker.
//!
//! Not here: the group itself, and who may lead (`log`).

use crate::log::Log;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Writes and syncs what is queued, if nobody else does and this thread may block. To be followed by waiting.
pub(crate) fn lead(log: &Log) {
    if !log.is_quiet() {
        return;
    }
    let Ok(runtime) = Handle::try_current() else {
        return log.lead();
    };
    match (runtime.runtime_flavor(), runtime.metrics().num_workers()) {
        (RuntimeFlavor::MultiThread, 0 | 1) => tokio::task::block_in_place(|| log.lead()),
        (RuntimeFlavor::MultiThread, _) => {
            wake_another();
            log.lead();
        }
        // Nobody else would run its tasks.
        _ => {}
    }
}

/// Wakes another worker, if one sleeps. The task that was spawned last stays with this worker and makes room by moving
/// the one before it, and whatever was woken before that, to where others take from; that is what wakes one of them.
fn wake_another() {
    for _ in 0..2 {
        drop(tokio::spawn(async {}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FaultyDisk;
    use crate::log::{Durability, LogOptions, Part, Record};
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A byte in, a byte out; after `w` once a record is durable.
    async fn connection(mut stream: tokio::net::TcpStream, log: Arc<Log>) {
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
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
                lead(&log);
                assert!(log.durable_position() >= ticket.end, "it led");
            }
            stream.write_all(&byte).await.unwrap();
        }
    }

    /// While a sync takes long, others are answered, on however many workers.
    fn check(workers: usize) {
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
        let served = log.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, served.clone()));
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
        check(1);
        check(2);
        check(4);
    }
}
