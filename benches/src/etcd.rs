//! An etcd to compare with, by its JSON gateway and by gRPC.
//!
//! gRPC here is what a unary call is on the wire: a POST over HTTP/2 whose body is one message behind five bytes; the
//! few messages that are needed are written by hand (field numbers: etcd's `rpc.proto`, `v3lock.proto`).

use crate::load::{Http, Work, request};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs until it is dropped.
pub(crate) struct Etcd {
    child: Child,
    address: String,
}

impl Etcd {
    /// One member with its data in `folder`; None where the program is not installed.
    pub(crate) fn start(folder: &Path) -> Option<Etcd> {
        let free = || {
            let bound = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
            bound.expect("there is a free port").to_string()
        };
        let (address, peer) = (free(), free());
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.join("etcd"))
            .args(["--listen-client-urls", &format!("http://{address}")])
            .args(["--advertise-client-urls", &format!("http://{address}")])
            .args(["--listen-peer-urls", &format!("http://{peer}")])
            .args(["--initial-advertise-peer-urls", &format!("http://{peer}")])
            .args(["--initial-cluster", &format!("default=http://{peer}")])
            .args(["--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let etcd = Etcd { child, address };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&etcd.address).is_err() {
            assert!(Instant::now() < deadline, "etcd did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(500));
        Some(etcd)
    }

    /// A key is made if it is not there, then deleted, by JSON.
    pub(crate) fn create_delete_json(&self, client: usize) -> Work {
        let mut http = Http::open(&self.address);
        let key = base64(format!("l-{client}").as_bytes());
        let create = json!({
            "compare": [{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }],
            "success": [{ "request_put": { "key": key, "value": base64(b"owner") } }] });
        let (create, delete) = (create.to_string(), json!({ "key": key }).to_string());
        let mut out = Vec::new();
        Box::new(move |_| {
            request(&mut out, "POST", "/v3/kv/txn", &create);
            let answer: Value = serde_json::from_slice(http.send(&out)).expect("JSON");
            assert_eq!(answer["succeeded"], true, "{answer}");
            request(&mut out, "POST", "/v3/kv/deleterange", &delete);
            http.send(&out);
        })
    }

    /// The lock service under a lease of the client, by JSON. `name` of a client.
    pub(crate) fn lock_json(&self, name: &str) -> Work {
        let mut http = Http::open(&self.address);
        let mut out = Vec::new();
        let mut call = move |path: &str, body: Value| -> Value {
            request(&mut out, "POST", path, &body.to_string());
            serde_json::from_slice(http.send(&out)).expect("JSON")
        };
        let lease = call("/v3/lease/grant", json!({ "TTL": 600 }))["ID"].clone();
        let lock = json!({ "name": base64(name.as_bytes()), "lease": lease });
        Box::new(move |_| {
            let held = call("/v3/lock/lock", lock.clone());
            call("/v3/lock/unlock", json!({ "key": held["key"] }));
        })
    }

    /// As [`Etcd::create_delete_json`], by gRPC.
    pub(crate) fn create_delete_grpc(&self, client: usize) -> Work {
        let mut grpc = Grpc::open(&self.address);
        let key = format!("l-{client}");
        // Compare: result EQUAL (0 is left out), target CREATE, key, create_revision 0 as a member of a oneof.
        let compare = [number(2, 1), bytes(3, key.as_bytes()), vec![5 << 3, 0]].concat();
        let put = bytes(2, &[bytes(1, key.as_bytes()), bytes(2, b"owner")].concat());
        let create = [bytes(1, &compare), bytes(2, &put)].concat();
        let delete = bytes(1, key.as_bytes());
        Box::new(move |_| {
            let answer = grpc.call("/etcdserverpb.KV/Txn", &create);
            assert_eq!(field(&answer, 2), Some(Field::Number(1)), "the key was free");
            grpc.call("/etcdserverpb.KV/DeleteRange", &delete);
        })
    }

    /// As [`Etcd::lock_json`], by gRPC.
    pub(crate) fn lock_grpc(&self, name: &str) -> Work {
        let mut grpc = Grpc::open(&self.address);
        let granted = grpc.call("/etcdserverpb.Lease/LeaseGrant", &number(1, 600));
        let Some(Field::Number(lease)) = field(&granted, 2) else {
            panic!("a lease has an id")
        };
        let lock = [bytes(1, name.as_bytes()), number(2, lease)].concat();
        Box::new(move |_| {
            let held = grpc.call("/v3lockpb.Lock/Lock", &lock);
            let Some(Field::Bytes(key)) = field(&held, 2) else {
                panic!("a lock has a key")
            };
            grpc.call("/v3lockpb.Lock/Unlock", &bytes(1, key));
        })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One HTTP/2 connection, and a runtime of this thread alone.
struct Grpc {
    runtime: tokio::runtime::Runtime,
    sender: http2::SendRequest<Full<Bytes>>,
    address: String,
}

impl Grpc {
    fn open(address: &str) -> Grpc {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let sender = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.expect("etcd accepts");
            stream.set_nodelay(true).expect("TCP has no delay");
            let made = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
            let (sender, connection) = made.expect("etcd speaks HTTP/2");
            tokio::spawn(connection);
            sender
        });
        Grpc {
            runtime,
            sender,
            address: address.to_owned(),
        }
    }

    fn call(&mut self, method: &str, message: &[u8]) -> Vec<u8> {
        let mut body = vec![0];
        body.extend_from_slice(&u32::try_from(message.len()).expect("a small message").to_be_bytes());
        body.extend_from_slice(message);
        let request = hyper::Request::post(format!("http://{}{method}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let sender = &mut self.sender;
        let collected = self.runtime.block_on(async {
            let answer = sender.send_request(request).await.expect("etcd answers");
            answer.into_body().collect().await.expect("etcd answers whole")
        });
        let status = collected.trailers().and_then(|t| t.get("grpc-status")).cloned();
        assert_eq!(status.expect("a status").as_bytes(), b"0", "{method}");
        collected.to_bytes().get(5..).unwrap_or_default().to_vec()
    }
}

/// What a field of a message holds.
#[derive(Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn number(field: u8, n: u64) -> Vec<u8> {
    let mut out = vec![field << 3];
    varint(&mut out, n);
    out
}

fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![field << 3 | 2];
    varint(&mut out, content.len() as u64);
    out.extend_from_slice(content);
    out
}

/// The first field of that number.
fn field(message: &[u8], wanted: u8) -> Option<Field<'_>> {
    let mut rest = message;
    let read = |rest: &mut &[u8]| -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let (byte, after) = rest.split_first()?;
            *rest = after;
            n |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(n);
            }
        }
        None
    };
    while !rest.is_empty() {
        let tag = read(&mut rest)?;
        let value = match tag & 7 {
            0 => Field::Number(read(&mut rest)?),
            2 => {
                let length = usize::try_from(read(&mut rest)?).ok()?;
                let (content, after) = rest.split_at_checked(length)?;
                rest = after;
                Field::Bytes(content)
            }
            _ => return None,
        };
        if tag >> 3 == u64::from(wanted) {
            return Some(value);
        }
    }
    None
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let n = part.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - part.len()));
        for at in 0..4 {
            let letter = LETTERS[(n >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= part.len() { char::from(letter) } else { '=' });
        }
    }
    out
}
