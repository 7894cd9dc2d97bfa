//! What no server of this kind can be faster than: a bare hyper echo, and an HTTP answer after a group fdatasync.
//!
//! A floor is this program started again with `floor KIND ADDRESS`; it ends with who started it.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A floor that runs; killed when dropped.
pub(crate) struct Floor {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
}

impl Floor {
    /// A bare hyper server with a fixed answer.
    pub(crate) fn echo() -> Floor {
        Floor::start("echo")
    }

    /// A thread for each connection; the body of each request is appended to a preallocated file, and the answer
    /// waits for a sync that covers it. `folder` lies on the disk that the server writes to.
    pub(crate) fn durable(folder: &Path) -> Floor {
        Floor::start(&format!("sync:{}", folder.join("floor.log").display()))
    }

    fn start(kind: &str) -> Floor {
        // A port that was free a moment ago.
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("there is a free port")
            .to_string();
        let own = std::env::current_exe().expect("a program has a path");
        let child = Command::new(own)
            .args(["floor", kind, &address])
            .stdin(Stdio::piped())
            .spawn()
            .expect("the floor starts");
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < deadline, "the floor did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Floor { child, address }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of a floor's process.
pub(crate) fn serve(kind: &str, address: &str) {
    // Who started it holds the other end.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    match kind.split_once(':') {
        None => echo(address),
        Some((_, file)) => durable(address, Path::new(file)),
    }
}

const ANSWER_BYTES: usize = 300;

fn echo(address: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads start");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await.expect("the port is free");
        let answer = Bytes::from("x".repeat(ANSWER_BYTES));
        loop {
            let (stream, _) = listener.accept().await.expect("connections are accepted");
            let _ = stream.set_nodelay(true);
            let answer = answer.clone();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let answer = answer.clone();
                    async move {
                        let _ = request.into_body().collect().await;
                        let mut response = hyper::Response::new(Full::new(answer));
                        response
                            .headers_mut()
                            .insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
                        Ok::<_, std::convert::Infallible>(response)
                    }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                    .await;
            });
        }
    });
}

#[derive(Default)]
struct Group {
    waiting: Vec<u8>,
    next: u64,
    done: u64,
    leading: bool,
    offset: u64,
}

const FILE_BYTES: u64 = 64 << 20;

fn durable(address: &str, file: &Path) {
    let file = std::fs::File::create(file).expect("the file can be made");
    let zeros = vec![0u8; 1 << 20];
    for at in 0..FILE_BYTES >> 20 {
        file.write_all_at(&zeros, at << 20).expect("the disk has room");
    }
    file.sync_all().expect("the disk syncs");
    let file = Arc::new(file);
    let shared = Arc::new((Mutex::new(Group::default()), Condvar::new()));
    let listener = TcpListener::bind(address).expect("the port is free");
    for stream in listener.incoming().flatten() {
        let (file, shared) = (file.clone(), shared.clone());
        std::thread::spawn(move || durable_connection(stream, &file, &shared));
    }
}

fn durable_connection(mut stream: TcpStream, file: &std::fs::File, shared: &(Mutex<Group>, Condvar)) {
    let _ = stream.set_nodelay(true);
    let body = "x".repeat(ANSWER_BYTES);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {ANSWER_BYTES}\r\n\r\n{body}");
    let mut buffer = vec![0u8; 1 << 16];
    let mut have = 0;
    loop {
        match stream.read(&mut buffer[have..]) {
            Ok(0) | Err(_) => return,
            Ok(n) => have += n,
        }
        let Some(end) = buffer[..have].windows(4).position(|w| w == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
        let length = head.lines().find_map(|l| l.strip_prefix("content-length:"));
        let length: usize = length.and_then(|v| v.trim().parse().ok()).unwrap_or(0);
        if have < end + 4 + length {
            continue;
        }
        synced(&buffer[end + 4..have], file, shared);
        have = 0;
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Group commit: whoever comes first writes and syncs for all who came meanwhile.
fn synced(bytes: &[u8], file: &std::fs::File, (group, done): &(Mutex<Group>, Condvar)) {
    let lock = || group.lock().unwrap_or_else(PoisonError::into_inner);
    let mut state = lock();
    state.waiting.extend_from_slice(bytes);
    state.waiting.push(b'\n');
    state.next += 1;
    let own = state.next;
    while state.done < own {
        if state.leading {
            state = done.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        state.leading = true;
        let data = std::mem::take(&mut state.waiting);
        let upto = state.next;
        if state.offset + data.len() as u64 > FILE_BYTES {
            state.offset = 0;
        }
        let at = state.offset;
        state.offset += data.len() as u64;
        drop(state);
        file.write_all_at(&data, at).expect("the disk has room");
        file.sync_data().expect("the disk syncs");
        state = lock();
        state.done = upto;
        state.leading = false;
        done.notify_all();
    }
}
