//! The HTTP listener: accepts connections, serves each to its end, and stops gracefully.
//!
//! Not here: what a connection's requests are answered (`exchange`).

use crate::body::Request;
use crate::busy_poll::Awake;
use crate::exchange::{Arrival, one, respond_to};
use crate::home_runtime::{self, HomeRuntime};
use crate::read_timeout::{Arriving, Late, Timeouts, Watched};
use crate::request_line::Escaping;
use crate::self_wake::again;
use crate::socket::Socket;
use crate::transport::{Listener, TlsConfig, Transport};
use crate::{Rest, background, disk_monitor, envelope, http2};
use model::settings::{HTTP_BUSY_POLL, HTTP_MAX_CONNECTIONS, HTTP_READ_TIMEOUT, HTTP_WRITE_TIMEOUT, node_duration};
use model::{Dialect, Error, ErrorKind, Persona};
use relations::leases::Caller;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// How serving ended.
#[derive(Debug)]
pub struct Served {
    /// Connections still open when the time for stopping was over.
    pub cut: usize,
}

/// Accepts connections until `stop` turns true, then finishes what was accepted within `grace`.
pub async fn serve(rest: Arc<Rest>, listeners: Vec<Listener>, mut stop: watch::Receiver<bool>, grace: Duration) -> Served {
    let open = rest.traffic.open.clone();
    let over = Arc::new(AtomicBool::new(false));
    housekeeping(&rest, &over);
    expiring(&rest, &over);
    disk_monitor::watch(&rest, &over);
    rest.go_on();
    let mut accepting = Vec::new();
    for listener in listeners {
        accepting.push(tokio::spawn(accept(rest.clone(), listener, stop.clone(), open.clone())));
    }
    while !*stop.borrow_and_update() {
        if stop.changed().await.is_err() {
            break;
        }
    }
    for task in &accepting {
        task.abort();
    }
    rest.tasks.stop_all();
    rest.stopping.send_replace(true);
    over.store(true, Ordering::Release);
    let deadline = tokio::time::Instant::now() + grace;
    while open.load(Ordering::Acquire) > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Served {
        cut: open.load(Ordering::Acquire),
    }
}

/// Ends leases whose time is over, so that who waits for them is woken; forgets old outcomes. On a thread of its own:
/// requests that keep every other busy do not keep a lock. Without it leases end when somebody asks for what they hold.
fn housekeeping(rest: &Arc<Rest>, over: &Arc<AtomicBool>) {
    const TICK: Duration = Duration::from_millis(50);
    const FORGET_EACH: Duration = Duration::from_secs(3600);
    let rest = rest.clone();
    let mut forgot: Option<std::time::Instant> = None;
    background::repeat("housekeeping", TICK, over, move || {
        // The next tick retries.
        let _ = futures::executor::block_on(rest.relations.sweep());
        if forgot.is_none_or(|at| at.elapsed() > FORGET_EACH) {
            forgot = Some(std::time::Instant::now());
            let _ = futures::executor::block_on(rest.relations.forget_old());
        }
    });
}

/// Deletes documents whose `_ttl` is over, each `indices.ttl.interval`. Not with the housekeeping: a round may take long.
/// Without it expired documents stay until a start.
fn expiring(rest: &Arc<Rest>, over: &Arc<AtomicBool>) {
    const LOOK_EACH: Duration = Duration::from_millis(500);
    let rest = rest.clone();
    let mut begun = std::time::Instant::now();
    background::repeat("expiring", LOOK_EACH, over, move || {
        let interval = futures::executor::block_on(rest.relations.expiry_interval());
        if interval.is_ok_and(|interval| begun.elapsed() >= interval) {
            begun = std::time::Instant::now();
            // The next round retries.
            let _ = futures::executor::block_on(rest.relations.delete_expired());
        }
    });
}

/// Tells a client why it is not served, as far as the socket takes it at once. The caller hangs up.
fn refuse(stream: &Socket, persona: Persona, error: &Error) {
    let dialect = Dialect::of(persona);
    let body = envelope::render(error, dialect).to_string();
    let status =
        hyper::StatusCode::from_u16(envelope::status(error, dialect)).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json; charset=UTF-8\r\nconnection: close");
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // Who does not read it sees the connection closed.
    let _ = stream.try_write(answer.as_bytes());
}

/// Opens a connection within the time that a request may take to come; zero is no limit.
async fn handshake(opening: impl Future<Output = io::Result<Transport>>, most: Duration) -> io::Result<Transport> {
    if most.is_zero() {
        return opening.await;
    }
    match tokio::time::timeout(most, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Numbers connections; locks may be tied to one.
static CONNECTIONS: AtomicU64 = AtomicU64::new(1);

async fn accept(rest: Arc<Rest>, listener: Listener, stop: watch::Receiver<bool>, open: Arc<AtomicUsize>) {
    let Listener { socket, persona, tls } = listener;
    loop {
        let Ok((stream, from)) = socket.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if open.load(Ordering::Acquire) >= model::settings::node_count(HTTP_MAX_CONNECTIONS) {
            let reason = format!("there are as many connections as [{}] says", HTTP_MAX_CONNECTIONS.name);
            // Who waits for a handshake could not read it.
            if tls.is_none() {
                let error = Error::new(ErrorKind::CircuitBreaking, reason).status_of(503);
                refuse(&stream, persona, &error);
            }
            continue;
        }
        stream.send_at_once();
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        open.fetch_add(1, Ordering::AcqRel);
        rest.traffic.opened.fetch_add(1, Ordering::Relaxed);
        let arrival = Arrival {
            persona,
            caller: Caller {
                peer: Some(Arc::from(from.name())),
                connection: Some(number),
                ..Caller::default()
            },
            by_network: from.address().is_some(),
            proxied: rest.proxies.trusts_peer(from.address()),
            home: None,
        };
        let (rest, stop, open, tls) = (rest.clone(), stop.clone(), open.clone(), tls.clone());
        let (home, long_requests) = (Arc::<HomeRuntime>::default(), rest.long_requests.clone());
        let chosen = home.clone();
        let task = again(async move {
            connection(&rest, stream, tls, arrival, chosen, stop).await;
            let before = open.fetch_sub(1, Ordering::AcqRel);
            debug_assert!(before > 0, "a connection ends once");
            if !rest.relations.may_release_on_disconnect() {
                return;
            }
            // Whoever grants a large lock holds the table of locks for milliseconds: no thread of short requests waits for it.
            let ended = rest.clone();
            rest.long_requests.spawn(async move {
                // The next sweep retries.
                let _ = ended.relations.release_on_disconnect(number).await;
            });
        });
        home_runtime::spawn(Box::pin(task), home, &long_requests);
    }
}

/// A connection, to its end.
async fn connection(
    rest: &Arc<Rest>,
    socket: Socket,
    tls: Option<TlsConfig>,
    arrival: Arrival,
    home: Arc<HomeRuntime>,
    mut stop: watch::Receiver<bool>,
) {
    let timeouts = Timeouts {
        read: node_duration(HTTP_READ_TIMEOUT),
        write: node_duration(HTTP_WRITE_TIMEOUT),
    };
    let prior_knowledge = match tls {
        Some(_) => false,
        None => tokio::select! {
            begins = http2::begins(&socket) => begins,
            // Nothing has come, so nothing is cut.
            _ = stop.wait_for(|stop| *stop) => return,
        },
    };
    let awake = Awake::new(socket, rest.clients.clone(), node_duration(HTTP_BUSY_POLL));
    let transport = match handshake(Transport::open(awake, tls.as_ref()), timeouts.read).await {
        Ok(transport) => transport,
        Err(cause) => {
            tracing::debug!(target: "http", peer = arrival.caller.peer.as_deref(), "the handshake failed: {cause}");
            return;
        }
    };
    if !prior_knowledge && !transport.chose_http2() {
        let arrival = Arrival {
            home: Some(home),
            ..arrival
        };
        return over_http1(rest, transport, arrival, timeouts, stop).await;
    }
    let rest = rest.clone();
    let answer = move |request| {
        let (rest, arrival) = (rest.clone(), arrival.clone());
        async move {
            // Each request has its own time to come: its head is there.
            let arriving = Arriving::default();
            arriving.read();
            let most = Timeouts {
                write: Duration::ZERO,
                ..timeouts
            };
            let persona = arrival.persona;
            match arriving.within(most, one(rest.clone(), request, arrival, &arriving)).await {
                Ok(answer) => answer,
                Err(_) => {
                    let request = Request {
                        persona,
                        ..Request::default()
                    };
                    respond_to(&rest, &request, &too_late(timeouts.read), false)
                }
            }
        }
    };
    http2::serve(transport, timeouts, stop, answer).await;
}

/// A connection of HTTP/1.1, to its end.
async fn over_http1(
    rest: &Arc<Rest>,
    transport: Transport,
    arrival: Arrival,
    timeouts: Timeouts,
    mut stop: watch::Receiver<bool>,
) {
    let arriving = Arc::<Arriving>::default();
    let (rest, coming, persona) = (rest.clone(), arriving.clone(), arrival.persona);
    let service = hyper::service::service_fn(move |request| {
        let (rest, arrival, coming) = (rest.clone(), arrival.clone(), coming.clone());
        async move {
            let answer = one(rest, request, arrival, &coming).await;
            coming.note_answer();
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let watched = Escaping::new(Watched::new(transport, arriving.clone()));
    let mut connection = hyper::server::conn::http1::Builder::new()
        .max_buf_size(64 * 1024)
        .serve_connection(hyper_util::rt::TokioIo::new(watched), service);
    let late = loop {
        tokio::select! {
            served = arriving.within(timeouts, &mut connection) => break served.err(),
            changed = stop.changed() => {
                if changed.is_err() || *stop.borrow() {
                    Pin::new(&mut connection).graceful_shutdown();
                    let _ = (&mut connection).await;
                    break None;
                }
            }
        }
    };
    // Who does not take an answer would not take a refusal either.
    if late == Some(Late::Request) {
        let transport = connection.into_parts().io.into_inner().into_inner().stream;
        // Who does not end its request over TLS sees the connection closed.
        if let Transport::Plain(awake) = &transport {
            refuse(&awake.stream, persona, &too_late(timeouts.read));
        }
    }
}

/// 408: a request that did not come to its end in time.
fn too_late(limit: Duration) -> Error {
    let time = model::units::render_duration(limit);
    let reason = format!(
        "the request was not there within [{time}], the limit of [{}]",
        HTTP_READ_TIMEOUT.name
    );
    Error::new(ErrorKind::ReceiveTimeout, reason)
}
