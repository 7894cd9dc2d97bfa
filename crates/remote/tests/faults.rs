//! What a write comes to when its answer does not: nothing that may have been done is called undone, nor done.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use engine::{EngineExt as _, Expect, Hide, Outcome, Refresh, Source, Write, WriteOp, address};
use model::{DocId, ErrorKind};
use remote::{Options, RemoteEngine};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What the other side does with a bulk request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Takes it and closes.
    CutAfter,
    /// Takes it and says nothing.
    Silent,
    /// Answers half.
    Half,
    Answers(u16, &'static str),
}

const ABOUT: &str =
    r#"{"version":{"number":"2.19.5","distribution":"opensearch"},"defaults":{"action.auto_create_index":"false"}}"#;
const DONE: &str = r#"{"items":[{"create":{"_index":"i","_id":"1","status":201,"result":"created","_version":1,"_seq_no":0,"_primary_term":1}}]}"#;
const REJECTED: &str = r#"{"items":[{"create":{"_index":"i","_id":"1","status":429,"error":{"type":"rejected_execution_exception","reason":"full"}}}]}"#;
const SHARD_GONE: &str = r#"{"items":[{"create":{"_index":"i","_id":"1","status":503,"error":{"type":"unavailable_shards_exception","reason":"primary"}}}]}"#;

/// A server that answers everything but bulks soundly; stops listening when told.
fn server(fault: Fault, stop: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (stream, stop) = (stream.unwrap(), stop.clone());
            std::thread::spawn(move || serve(stream, fault, &stop));
        }
    });
    address
}

fn serve(mut stream: TcpStream, fault: Fault, stop: &AtomicBool) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let head = seen.windows(4).position(|w| w == b"\r\n\r\n");
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        let length = text
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split('\r').next()?.parse::<usize>().ok());
        if let Some(head) = head.filter(|head| seen.len() >= head + 4 + length.unwrap_or(0)) {
            let is_bulk = text.contains("/_bulk");
            seen.drain(..head + 4 + length.unwrap_or(0));
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (status, body) = match fault {
                _ if !is_bulk => (200, ABOUT),
                Fault::CutAfter => return,
                Fault::Silent => {
                    std::thread::sleep(Duration::from_secs(5));
                    return;
                }
                Fault::Half => (200, &DONE[..20]),
                Fault::Answers(status, body) => (status, body),
            };
            let claimed = if is_bulk && fault == Fault::Half {
                DONE.len()
            } else {
                body.len()
            };
            let answer =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {claimed}\r\ncontent-type: application/json\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).is_err() || is_bulk && fault == Fault::Half {
                return;
            }
            continue;
        }
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => seen.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
}

fn write() -> Write {
    Write {
        expect: Expect::Absent,
        hide: Hide::Drop,
        ..Write::new(address("i", DocId::plain("1")), WriteOp::Put(Source(b"{}".as_slice().into())))
    }
}

async fn outcome(fault: Fault) -> Outcome {
    let options = Options {
        timeout: Duration::from_millis(400),
        ..Options::default()
    };
    let address = server(fault, Arc::default());
    let engine = RemoteEngine::connect(&address, options).await.unwrap();
    engine.write_one(write(), Refresh::No).await.unwrap()
}

#[tokio::test]
async fn what_was_sent_and_not_answered_is_unknown() {
    for fault in [
        Fault::CutAfter,
        Fault::Silent,
        Fault::Half,
        Fault::Answers(200, "not JSON"),
        Fault::Answers(200, r#"{"items":[]}"#),
        Fault::Answers(503, "{}"),
        Fault::Answers(200, SHARD_GONE),
    ] {
        let got = outcome(fault).await;
        assert!(matches!(got, Outcome::Unknown), "{fault:?}: {got:?}");
    }
    let got = outcome(Fault::Answers(200, DONE)).await;
    assert!(matches!(got, Outcome::Written(_)), "{got:?}");
}

#[tokio::test]
async fn what_was_refused_or_never_sent_is_refused() {
    for (fault, kind) in [
        (Fault::Answers(200, REJECTED), ErrorKind::RejectedExecution),
        (Fault::Answers(429, "{}"), ErrorKind::RejectedExecution),
    ] {
        match outcome(fault).await {
            Outcome::Refused(error) => assert!(error.kind() == kind && error.is_transient(), "{fault:?}: {error}"),
            other => panic!("{fault:?}: {other:?}"),
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let address = server(Fault::CutAfter, stop.clone());
    let engine = RemoteEngine::connect(&address, Options::default()).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    // The idle connection is closed, then the listener: nobody is there.
    assert!(engine.read_one(address_of()).await.is_err());
    drop(TcpStream::connect(&address));
    tokio::time::sleep(Duration::from_millis(100)).await;
    match engine.write_one(write(), Refresh::No).await.unwrap() {
        Outcome::Refused(error) => assert!(error.kind() == ErrorKind::Unavailable && error.is_transient(), "{error}"),
        other => panic!("{other:?}"),
    }
}

fn address_of() -> model::DocAddress {
    address("i", DocId::plain("1"))
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let options = Options {
        response_max_bytes: 10,
        ..Options::default()
    };
    let address = server(Fault::CutAfter, Arc::default());
    let error = RemoteEngine::connect(&address, options).await.expect_err("too large");
    assert!(error.reason().contains("response_max_bytes"), "{error}");
}

#[tokio::test]
async fn a_cluster_that_makes_indices_by_itself_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 2048];
            while stream.read(&mut buffer).unwrap_or(0) > 0 {
                let body = r#"{"version":{},"defaults":{"action.auto_create_index":"true"}}"#;
                let answer = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                drop(stream.write_all(answer.as_bytes()));
            }
        }
    });
    let error = RemoteEngine::connect(&address, Options::default())
        .await
        .expect_err("refused");
    assert!(error.reason().contains("action.auto_create_index"), "{error}");
}

#[tokio::test]
async fn the_user_of_the_address_is_sent_with_every_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 2048];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
                    let known = text.to_lowercase().contains("authorization: basic ") && text.contains("YWRtaW46cGFzcw==");
                    let (status, body) = if known { (200, ABOUT) } else { (401, "{}") };
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    drop(stream.write_all(answer.as_bytes()));
                }
            });
        }
    });
    let connect = |url: String| async move { RemoteEngine::connect(&url, Options::default()).await };
    connect(format!("http://admin:pass@{address}")).await.expect("known");
    let refused = connect(address.clone()).await.expect_err("nobody");
    let other = connect(format!("http://admin:secret@{address}")).await.expect_err("another");
    for error in [refused, other] {
        assert_eq!(error.status(), 401, "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let error = connect(format!("https://admin:secret@{address}")).await.expect_err("no TLS");
    assert!(error.reason().contains("TLS"), "{error}");
}
