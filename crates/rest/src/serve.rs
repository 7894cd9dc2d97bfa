//! The HTTP listener: reads requests within bounds, dispatches them, writes answers; stops gracefully.

use crate::actions::locks::{is_about_locks, told};
use crate::authentication::{SCHEMES, claimed_user};
use crate::authorize::{audit, authenticate, authorize};
use crate::blocking::{beside_requests, is_carried_through};
use crate::body::{Admitted, Request, check_encoding, check_media_type, compatible_with, inflate, too_long};
use crate::busy_poll::Awake;
use crate::call::{Call, Wanted};
use crate::handlers::es2::{apis, cat};
use crate::handlers::transactions::transaction_session;
use crate::home_runtime::{self, HomeRuntime};
use crate::metrics::Answered;
use crate::outgoing::Outgoing;
use crate::path_args::PathArgs;
use crate::query_params::{Params, split_list};
use crate::read_timeout::{Arriving, Late, Timeouts, Watched};
use crate::request_line::Escaping;
use crate::respond::{Answer, Body, Style, compress, compress_packed, write};
use crate::routes::{Matched, find};
use crate::self_wake::{again, inside};
use crate::socket::Socket;
use crate::trace_context::TraceParent;
use crate::transport::{Listener, TlsConfig, Transport};
use crate::{Rest, dialect, disk_monitor, envelope, first_type, http2};
use bytes::{Bytes, BytesMut};
use engine::breaker::{Booking, Breaker};
use futures::FutureExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use model::settings::{HTTP_BUSY_POLL, HTTP_MAX_CONNECTIONS, HTTP_READ_TIMEOUT, HTTP_WRITE_TIMEOUT, node_duration};
use model::{Cancellation, Dialect, Error, ErrorKind, Persona, Result};
use relations::leases::Caller;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::future::poll_fn;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
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
    housekeeping(&rest, over.clone());
    expiring(&rest, over.clone());
    disk_monitor::watch(&rest, over.clone());
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
/// requests that keep every other busy do not keep a lock.
fn housekeeping(rest: &Arc<Rest>, over: Arc<AtomicBool>) {
    const TICK: Duration = Duration::from_millis(50);
    const FORGET_EACH: Duration = Duration::from_secs(3600);
    let rest = rest.clone();
    let keep = move || {
        let mut forgot: Option<std::time::Instant> = None;
        while !over.load(Ordering::Acquire) {
            std::thread::sleep(TICK);
            // The next tick retries.
            let _ = futures::executor::block_on(rest.relations.sweep());
            if forgot.is_none_or(|at| at.elapsed() > FORGET_EACH) {
                forgot = Some(std::time::Instant::now());
                let _ = futures::executor::block_on(rest.relations.forget_old());
            }
        }
    };
    // Without it leases still end, when somebody asks for what they hold.
    let _ = std::thread::Builder::new().name("housekeeping".into()).spawn(keep);
}

/// Deletes documents whose `_ttl` is over, each `indices.ttl.interval`. Not with the housekeeping: a round may take long.
fn expiring(rest: &Arc<Rest>, over: Arc<AtomicBool>) {
    const LOOK_EACH: Duration = Duration::from_millis(500);
    let rest = rest.clone();
    let look = move || {
        let mut begun = std::time::Instant::now();
        while !over.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_EACH);
            let interval = futures::executor::block_on(rest.relations.expiry_interval());
            if interval.is_ok_and(|interval| begun.elapsed() >= interval) {
                begun = std::time::Instant::now();
                // The next round retries.
                let _ = futures::executor::block_on(rest.relations.delete_expired());
            }
        }
    };
    // Without it what is over stays until a start.
    let _ = std::thread::Builder::new().name("expiring".into()).spawn(look);
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

/// How a request came.
#[derive(Clone, Debug)]
struct Arrival {
    /// That of the listener.
    persona: Persona,
    /// The other end of the connection.
    caller: Caller,
    /// By a network, where names of hosts mean something; else by a unix socket.
    by_network: bool,
    /// From a proxy whose word about its client is taken.
    proxied: bool,
    /// Where the task of the connection runs; of HTTP/2, whose requests share it, that is where it began.
    home: Option<Arc<HomeRuntime>>,
}

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
            open.fetch_sub(1, Ordering::AcqRel);
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
            coming.answered();
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

/// One request, from hyper's types to hyper's types.
async fn one(
    rest: Arc<Rest>,
    request: hyper::Request<Incoming>,
    arrival: Arrival,
    arriving: &Arriving,
) -> hyper::Response<Outgoing> {
    let persona = arrival.persona;
    let head = request.method() == hyper::Method::HEAD;
    let (parts, incoming) = request.into_parts();
    let mut request = head_of(&parts, persona, arrival.caller);
    // Before anything of the body is read: the connection ends with the refusal.
    if arrival.proxied {
        match rest.proxies.client(&parts.headers) {
            Ok(client) => request.caller.peer = client.or(request.caller.peer),
            Err(error) => {
                arriving.arrived();
                return respond_to(&rest, &request, &error, head);
            }
        }
    }
    let target = parts.uri.authority().map(hyper::http::uri::Authority::as_str);
    match rest.access.check(&parts.headers, target, arrival.by_network) {
        Ok(admitted) => request.admitted = admitted,
        Err(error) => {
            arriving.arrived();
            return respond_to(&rest, &request, &error, head);
        }
    }
    if let Some(answer) = rest.access.preflight(&request.admitted, &parts.method, &parts.headers) {
        arriving.arrived();
        return answered(&rest, &request, answer, &Style::default(), head);
    }
    if let Err(error) = authenticate(&rest, &parts.headers, &mut request).await {
        arriving.arrived();
        return respond_to(&rest, &request, &error, head);
    }
    request.booking = rest.limits.breakers.open(Breaker::InFlightRequests, "<http_request>");
    let home = arrival.home.as_deref();
    let body = read_body(incoming, rest.limits.body_max_bytes, &mut request.booking, home).await;
    arriving.arrived();
    request.begun = Some(Instant::now());
    request.body = match body {
        Ok(bytes) => bytes,
        Err(error) => return respond_to(&rest, &request, &error, head),
    };
    request.received_bytes = request.body.len();
    let style = Style::default();
    let (answer, style) = match AssertUnwindSafe(dispatch(&rest, &mut request)).catch_unwind().await {
        Ok(done) => done,
        Err(_) => {
            let error = Error::new(
                ErrorKind::Internal,
                "the request failed by a fault of the server; it changed nothing that it did not acknowledge",
            );
            (Answer::of(500, envelope::render(&error, Dialect::of(persona))), style)
        }
    };
    let response = answered(&rest, &request, answer, &style, head);
    if let Some(home) = home {
        // A long answer is sent where long bodies are read.
        home.choose(response.body().size_hint().lower().max(request.received_bytes as u64))
            .await;
    }
    response
}

fn head_of(parts: &hyper::http::request::Parts, persona: Persona, mut caller: Caller) -> Request {
    let text = |name: HeaderName| parts.headers.get(name).and_then(|v| v.to_str().ok());
    let is_gzip = |encoding: &str| ["gzip", "x-gzip"].iter().any(|known| encoding.eq_ignore_ascii_case(known));
    let encodings = parts.headers.get(hyper::header::CONTENT_ENCODING);
    let encodings = encodings.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
    let opaque_id = text(HeaderName::from_static("x-opaque-id"));
    caller.opaque_id = opaque_id.filter(|id| !id.is_empty()).map(Arc::from);
    caller.user = text(hyper::header::AUTHORIZATION).and_then(claimed_user).map(Arc::from);
    Request {
        method: parts.method.clone(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        content_type: text(hyper::header::CONTENT_TYPE).map(str::to_lowercase),
        accept: text(hyper::header::ACCEPT).map(str::to_lowercase),
        gzipped: text(hyper::header::CONTENT_ENCODING).is_some_and(is_gzip),
        foreign_encoding: encodings.filter(|e| !is_gzip(e) && !e.is_empty() && !e.eq_ignore_ascii_case("identity")),
        admitted: Admitted::default(),
        accepts_gzip: text(hyper::header::ACCEPT_ENCODING).is_some_and(|e| e.contains("gzip")),
        opaque_id: opaque_id.map(str::to_owned),
        trace: text(HeaderName::from_static("traceparent")).and_then(TraceParent::parse),
        last_event_id: text(HeaderName::from_static("last-event-id")).map(str::to_owned),
        body: Bytes::new(),
        received_bytes: 0,
        booking: Booking::none(),
        persona,
        caller,
        principal: None,
        begun: None,
        api: None,
    }
}

/// Room for a body that is made before it comes.
const BODY_AT_ONCE_BYTES: usize = 1 << 20;
/// So much of a body is read, then other requests of the thread come: the kernel's copy and ours take some 100 µs.
const BODY_TURN_BYTES: usize = 256 << 10;

/// Reads a body within the bounds.
async fn read_body(mut incoming: Incoming, max: usize, booking: &mut Booking, home: Option<&HomeRuntime>) -> Result<Bytes> {
    // An announced length is believed up to a bound; the rest is booked when it comes.
    let announced = incoming.size_hint().lower();
    if let Some(home) = home {
        home.choose(announced).await;
    }
    let mut whole = BytesMut::with_capacity(usize::try_from(announced).unwrap_or(0).min(BODY_AT_ONCE_BYTES).min(max));
    // To free a long part takes milliseconds, as copying it does.
    let refuse = |whole: BytesMut, error| {
        beside_requests(|| drop(whole));
        Err(error)
    };
    let mut read_this_turn = 0;
    while let Some(frame) = poll_fn(|cx| inside(|| Pin::new(&mut incoming).poll_frame(cx))).await {
        let Ok(frame) = frame else {
            return refuse(whole, Error::illegal("the connection ended inside the request body"));
        };
        let Some(data) = frame.data_ref() else { continue };
        if whole.len() + data.len() > max {
            return refuse(whole, too_long(max));
        }
        if let Err(error) = booking.grow(data.len() as u64) {
            return refuse(whole, error);
        }
        if whole.len() + data.len() > whole.capacity() {
            // The old bytes lie beside the new room for a moment: a quarter of it, not half.
            let announced = usize::try_from(announced).unwrap_or(usize::MAX);
            let room = whole.capacity().saturating_mul(4).min(announced).min(max);
            let more = room.saturating_sub(whole.len()).max(data.len());
            // Copying a long body takes milliseconds.
            match whole.len() > BODY_AT_ONCE_BYTES {
                true => beside_requests(|| whole.reserve(more)),
                false => whole.reserve(more),
            }
        }
        whole.extend_from_slice(data);
        read_this_turn += data.len();
        if read_this_turn >= BODY_TURN_BYTES {
            read_this_turn = 0;
            if let Some(home) = home {
                // Its length was not announced.
                home.choose(whole.len() as u64).await;
            }
            tokio::task::yield_now().await;
        }
    }
    Ok(whole.freeze())
}

/// From a request to an answer. Every refusal is already an envelope.
pub(crate) async fn dispatch(rest: &Arc<Rest>, request: &mut Request) -> (Answer, Style) {
    let mut style = Style::default();
    let mut dialect = Dialect::of(request.persona);
    let routed = route(rest, request, &mut style, &mut dialect).await;
    if let (Some(security), Some(principal)) = (&rest.security, &request.principal) {
        audit(rest, security, request, principal, routed.as_ref().err());
    }
    match routed {
        Ok(mut answer) => {
            if let (Body::Json(body), true) = (&mut answer.body, answer.status >= 400)
                && let Some(error) = body.get_mut("error")
            {
                envelope::with_uuids(rest, error, dialect).await;
            }
            (answer, style)
        }
        Err(error) => {
            rest.metrics.count_error(error.kind());
            // A refusal is told whole.
            style.filter_path.clear();
            let mut body = envelope::render(&error, dialect);
            envelope::with_uuids(rest, &mut body["error"], dialect).await;
            if style.trace {
                body["error"]["stack_trace"] = envelope::trace(&error).into();
            }
            (Answer::of(envelope::status(&error, dialect), body), style)
        }
    }
}

/// Takes the parameters that say how the answer is written.
fn take_style(style: &mut Style, request: &Request, params: &mut Params, dialect: Dialect) -> Result<()> {
    style.pretty = if dialect.rules.reads_boolean_words {
        params.take("pretty").is_some_and(|v| v != "false")
    } else {
        params.flag("pretty")?
    };
    style.filter_path = params.take_list("filter_path").unwrap_or_default();
    style.human = params.flag("human")?;
    style.trace = params.flag("error_trace")?;
    let accepts_yaml = request.accept.as_deref().is_some_and(|a| a.contains("application/yaml"));
    // In 2015 an answer was of the type that the request said it was of.
    let sent_yaml = dialect.rules.answers_in_request_format
        && request
            .content_type
            .as_deref()
            .is_some_and(|t| t.starts_with("application/yaml"));
    style.yaml = params.peek("format") == Some("yaml") || accepts_yaml || sent_yaml;
    Ok(())
}

/// `GET /i/_settings,_mappings` and the like, which only Elasticsearch 2 has.
async fn feature_of_index(
    rest: &Arc<Rest>,
    request: &Request,
    style: &Style,
    mut params: Params,
    dialect: Dialect,
    (index, feature): (&str, &str),
) -> Result<Answer> {
    let mut args = PathArgs::default();
    args.insert("index", crate::query_params::decode(index, false)?);
    let feature = crate::query_params::decode(feature, false)?;
    params.set_lenient(true);
    params.set_api("indices.get");
    let rest = &authorize(rest, request, ("indices.get", crate::right::VIEW_METADATA), &args, &params).await?;
    let call = call_of(rest, request, style, args, params, dialect);
    apis::feature(call, &feature).boxed().await
}

async fn route(rest: &Arc<Rest>, request: &mut Request, style: &mut Style, dialect: &mut Dialect) -> Result<Answer> {
    let mut params = Params::parse(&request.path, &request.query)?;
    take_style(style, request, &mut params, *dialect)?;
    check_encoding(request)?;
    check_media_type(request)?;
    if request.gzipped {
        // A short one may be a thousand times as long inside.
        let most = rest.limits.body_max_bytes;
        request.body = beside_requests(|| inflate(&request.body, most, &mut request.booking))?;
    }
    if dialect.rules.checks_escapes {
        crate::query_params::check_escapes(&request.path)?;
    }
    if dialect.rules.former_cat_tables
        && let Some(path) = request.path.strip_prefix("/_cat")
        && request.method == "GET"
    {
        request.api = Some("cat.indices");
        let none = PathArgs::default();
        let rest = &authorize(rest, request, ("cat.indices", crate::right::SEE_INDICES), &none, &params).await?;
        return cat_of_2015(rest, request, style, params, path).boxed().await;
    }
    let (endpoint, args) = match find(request.method.as_str(), &request.path, dialect.persona) {
        Matched::Found(endpoint, args) => (endpoint, args),
        other => {
            let mut segments = request.path.trim_matches('/').split('/');
            return match (segments.next(), segments.next(), segments.next()) {
                (Some(index), Some(feature), None)
                    if dialect.rules.has_index_features && request.method == "GET" && !index.starts_with('_') =>
                {
                    feature_of_index(rest, request, style, params, *dialect, (index, feature)).await
                }
                _ => Ok(no_route(request, other, *dialect)),
            };
        }
    };
    params.set_api(endpoint.api);
    request.api = Some(endpoint.api);
    let acting = match rest.security.is_some() {
        true => authorize(rest, request, (endpoint.api, endpoint.right), &args, &params).await?,
        false => rest.clone(),
    };
    let rest = &acting;
    *dialect = dialect::choose(rest, request, &args).await;
    dialect.clauses_max = dialect::clauses_max(rest, request.body.len()).await;
    let mut has_flag = |name: &'static str| Result::Ok(params.is_given(name) && params.has_row(name) && params.flag(name)?);
    dialect.total_as_int = has_flag("rest_total_hits_as_int")?;
    dialect.typed_keys = has_flag("typed_keys")?;
    params.set_lenient(dialect.rules.skips_unknown_parameters);
    transaction_session::check_api(endpoint.api, &params)?;
    let table = request.path.starts_with("/_cat");
    if !table {
        match params.take("format").as_deref() {
            None | Some("json" | "yaml") => {}
            Some(_) if dialect.rules.tolerates_unknown_words => {}
            Some(other) => return Err(Error::illegal(format!("format [{other}] is not supported: use json or yaml"))),
        }
    }
    if let (Some(index), Some(doc_type), true) = (args.get("index"), args.get("type"), dialect.rules.has_types)
        && matches!(endpoint.api, "index" | "create" | "update")
        && first_type::applies(request.persona)
    {
        first_type::adopt(rest, index, doc_type).boxed().await?;
    }
    let mut locks: Vec<String> = params.peek("lock").map(split_list).unwrap_or_default();
    let bytes = request.body.len();
    let call = call_of(rest, request, style, args, params, *dialect);
    // The call alone holds the body: to free a long one takes milliseconds, and its handler runs beside short requests.
    request.body = Bytes::new();
    let client_gone = call.client_gone.clone();
    let carried = is_carried_through(endpoint.api);
    let answered = (endpoint.handler)(call);
    let answer = rest.long_requests.run(bytes, carried, &client_gone, answered).await;
    let refusal = answer.as_ref().err().filter(|error| is_about_locks(error.kind()));
    if let Some(error) = refusal {
        locks.extend(error.details().get("lock").and_then(Value::as_str).map(str::to_owned));
    }
    // Parts of an answer may be refused as well.
    if refusal.is_some() || !rest.relations.are_alive(&locks) {
        told(rest, &locks).await?;
    }
    answer
}

fn call_of(rest: &Arc<Rest>, request: &Request, style: &Style, args: PathArgs, params: Params, dialect: Dialect) -> Call {
    let accepts = |part: &str| request.accept.as_deref().is_some_and(|a| a.contains(part));
    let json = ["application/json", "application/vnd.elasticsearch+json", "application/yaml"];
    Call {
        rest: rest.clone(),
        method: request.method.clone(),
        args,
        params,
        body: request.body.clone(),
        dialect,
        listener: request.persona,
        plain: style.is_plain(),
        style: style.clone(),
        wants_json: json.into_iter().any(accepts),
        wanted: Wanted::of(request.accept.as_deref()),
        last_event_id: request.last_event_id.clone(),
        caller: request.caller.clone(),
        trace: request.trace.clone(),
        booking: Mutex::new(rest.limits.breakers.open(Breaker::Request, "<http_request>")),
        begun: request.begun.unwrap_or_else(Instant::now),
        client_gone: Cancellation::default(),
        running: None,
    }
}

/// `_cat` of 2015 has tables of its own.
async fn cat_of_2015(rest: &Arc<Rest>, request: &Request, style: &Style, mut params: Params, path: &str) -> Result<Answer> {
    let mut parts = path.trim_matches('/').split('/');
    let (name, rest_of_path) = (parts.next().unwrap_or_default(), parts.next());
    if name.is_empty() {
        return Ok(cat::help());
    }
    let argument = match name {
        "aliases" => "name",
        "allocation" => "node_id",
        "fielddata" => "fields",
        _ => "index",
    };
    let mut args = PathArgs::default();
    if let Some(value) = rest_of_path {
        args.insert(argument, crate::query_params::decode(value, false)?);
    }
    params.set_lenient(true);
    params.set_api("cat.indices");
    let call = call_of(rest, request, style, args, params, Dialect::of(request.persona));
    cat::table(call, name).await
}

/// Paths and methods that no row has, in the words of each dialect.
fn no_route(request: &Request, matched: Matched, dialect: Dialect) -> Answer {
    let uri = if request.query.is_empty() {
        request.path.clone()
    } else {
        format!("{}?{}", request.path, request.query)
    };
    match matched {
        Matched::Method(allowed) if request.method == "OPTIONS" => {
            let answer = if dialect.rules.former_unknown_paths {
                Answer::text(String::new())
            } else {
                Answer::empty(200)
            };
            answer.header("allow", allowed.join(","))
        }
        _ if dialect.rules.former_unknown_paths => {
            let last = request.path.rsplit('/').next().unwrap_or_default();
            let segments = request.path.split('/').filter(|s| !s.is_empty()).count();
            let name = request.path.trim_matches('/');
            if segments == 1 && matches!(request.method.as_str(), "PUT" | "POST") {
                let reason = format!("Invalid index name [{name}], must not start with '_'");
                let error = Error::new(ErrorKind::InvalidIndexName, reason).with("index", name);
                Answer::of(400, envelope::render(&error, dialect))
            } else if segments == 1 && request.method == "DELETE" {
                let error = crate::missing_index(name);
                Answer::of(404, envelope::render(&error, dialect))
            } else if request.method == "HEAD" {
                Answer::empty(404)
            } else if request.method == "GET" && (segments == 1 || segments == 2 && name.starts_with('_')) {
                let error = Error::illegal(format!("No feature for name [{last}]"));
                Answer::of(400, envelope::render(&error, dialect))
            } else {
                let mut answer = Answer::text(format!("No handler found for uri [{uri}] and method [{}]", request.method));
                answer.status = 400;
                answer
            }
        }
        Matched::Method(allowed) => {
            let methods = allowed.join(", ");
            let reason = format!(
                "Incorrect HTTP method for uri [{uri}] and method [{}], allowed: [{methods}]",
                request.method
            );
            Answer::of(405, json!({ "error": reason, "status": 405 })).header("allow", allowed.join(","))
        }
        Matched::Nothing if request.path.starts_with("/_") => named_so(request, &uri, dialect),
        _ => no_handler(request, &uri),
    }
}

fn no_handler(request: &Request, uri: &str) -> Answer {
    let hint = meant_api(&request.path);
    Answer::of(
        400,
        json!({ "error": format!("no handler found for uri [{uri}] and method [{}]{hint}", request.method) }),
    )
}

/// ` did you mean [_search]?` for the first part of a path that begins as the name of an API does, and is none.
fn meant_api(path: &str) -> String {
    let known = crate::routes::literals();
    let unknown = path
        .split('/')
        .find(|part| part.starts_with('_') && !known.contains(*part))
        .unwrap_or_default();
    model::nearest::question(unknown, known.iter().copied())
}

/// A path that begins with an underscore and is none of ours: where an index of that name would have it, the name is refused.
fn named_so(request: &Request, uri: &str, dialect: Dialect) -> Answer {
    let name = request.path.split('/').nth(1).unwrap_or_default();
    let rest = request.path.get(name.len() + 1..).unwrap_or_default().trim_end_matches('/');
    if !rest.is_empty() && !rest.starts_with("/_") {
        return no_handler(request, uri);
    }
    match find(request.method.as_str(), &format!("/i{rest}"), Persona::Es2) {
        Matched::Found(..) => {
            let hint = meant_api(&request.path);
            let reason = format!("Invalid index name [{name}], must not start with '_'.{hint}");
            let error = Error::new(ErrorKind::InvalidIndexName, reason).with("index", name);
            Answer::of(400, envelope::render(&error, dialect))
        }
        Matched::Method(allowed) => no_route(request, Matched::Method(allowed), dialect),
        Matched::Nothing => no_handler(request, uri),
    }
}

/// The refusal of a request that nobody has looked into.
fn respond_to(rest: &Rest, request: &Request, error: &Error, head: bool) -> hyper::Response<Outgoing> {
    rest.metrics.count_error(error.kind());
    let dialect = Dialect::of(request.persona);
    let mut answer = Answer::of(envelope::status(error, dialect), envelope::render(error, dialect));
    if answer.status == 401 {
        answer
            .headers
            .extend(SCHEMES.map(|scheme| ("www-authenticate", scheme.to_owned())));
    }
    answered(rest, request, answer, &Style::default(), head)
}

/// The bytes of an answer, booked until they are dropped.
struct BookedAnswer {
    bytes: Bytes,
    _booking: Booking,
}

impl AsRef<[u8]> for BookedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A line for each request at `debug`, for each that the server failed at `warn`.
fn log_request(request: &Request, status: u16, took: Duration) {
    let (method, path, api) = (request.method.as_str(), request.path.as_str(), request.api);
    let took_millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let (peer, id) = (request.caller.peer.as_deref(), request.opaque_id.as_deref());
    let trace = request.trace.as_ref().map(TraceParent::trace_id);
    if status >= 500 {
        tracing::warn!(target: "http", method, path, status, took_millis, endpoint = api, peer, id, trace.id = trace, "request failed");
    } else {
        tracing::debug!(target: "http", method, path, status, took_millis, endpoint = api, peer, id, trace.id = trace, "request");
    }
}

/// An answer as hyper's, counted.
fn answered(rest: &Rest, request: &Request, answer: Answer, style: &Style, head: bool) -> hyper::Response<Outgoing> {
    let status = answer.status;
    let (response, sent_bytes) = respond(rest, request, answer, style, head);
    let took = request.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
    log_request(request, status, took);
    rest.metrics.requests.record(Answered {
        api: request.api,
        status,
        took,
        received_bytes: request.received_bytes,
        sent_bytes,
    });
    response
}

fn respond(rest: &Rest, request: &Request, mut answer: Answer, style: &Style, head: bool) -> (hyper::Response<Outgoing>, usize) {
    let compatible = compatible_with(request.accept.as_deref());
    // A long text is sent piece by piece.
    let packed = match &mut answer.body {
        Body::Packed(text) if !style.yaml && !head => Some(std::mem::take(text)),
        _ => None,
    };
    let events = match &answer.body {
        Body::Events(events) if !head => Some(events.clone()),
        _ => None,
    };
    let (mut bytes, media) = write(&answer.body, style, compatible);
    let mut headers = HeaderMap::new();
    if !matches!(answer.body, Body::Empty) {
        let media = match &media {
            Cow::Borrowed(media) => Ok(HeaderValue::from_static(media)),
            Cow::Owned(media) => HeaderValue::from_str(media),
        };
        headers.extend(media.ok().map(|media| (hyper::header::CONTENT_TYPE, media)));
    }
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    if rest.names.product_header {
        set("x-elastic-product", "Elasticsearch");
    }
    if let Some(id) = &request.opaque_id {
        set("x-opaque-id", id);
    }
    if let Some(trace) = &request.trace {
        set("traceparent", trace.as_str());
    }
    for (name, value) in rest.access.headers(&request.admitted) {
        set(name, value);
    }
    for (name, value) in answer.headers.iter().filter(|(name, _)| *name != "www-authenticate") {
        set(name, value);
    }
    if answer.status == 429 {
        set("retry-after", "1");
    }
    if let Some(events) = events {
        set("cache-control", "no-store");
        return (response_of(answer.status, headers, Outgoing::Events(events)), 0);
    }
    // One header each, as the reference has it.
    let challenges = answer.headers.iter().filter(|(name, _)| *name == "www-authenticate");
    for value in challenges.filter_map(|(_, value)| HeaderValue::from_str(value).ok()) {
        headers.append(hyper::header::WWW_AUTHENTICATE, value);
    }
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let mut pieces = None;
    let smaller = match packed {
        Some(mut text) => {
            let smaller = compress_packed(&mut text, request);
            pieces = smaller.is_none().then_some(text);
            smaller
        }
        None => compress(&bytes, request),
    };
    if let Some(smaller) = smaller {
        bytes = smaller;
        set("content-encoding", "gzip");
    }
    // The answer stays booked until the client has taken it.
    let mut booking = rest.limits.breakers.open(Breaker::Request, "<http_response>");
    if let Some(text) = pieces {
        let length = text.bytes();
        booking.force_to(text.held_bytes() as u64);
        return (response_of(answer.status, headers, Outgoing::pieces(text, booking)), length);
    }
    let length = bytes.len();
    booking.force_to(length as u64);
    let mut bytes = Bytes::from_owner(BookedAnswer {
        bytes,
        _booking: booking,
    });
    if head {
        set("content-length", &length.to_string());
        bytes = Bytes::new();
    }
    (response_of(answer.status, headers, Outgoing::whole(bytes)), length)
}

fn response_of(status: u16, headers: HeaderMap, body: Outgoing) -> hyper::Response<Outgoing> {
    let mut response = hyper::Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}
