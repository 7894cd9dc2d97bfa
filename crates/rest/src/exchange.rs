//! One request and its answer, from hyper's types to hyper's types: who asks is checked, the body is read within bounds, and what
//! is sent is counted.
//!
//! Not here: connections (`serve`), which handler answers (`dispatch`).

use crate::authentication::SCHEMES;
use crate::authorize::authenticate;
use crate::blocking::beside_requests;
use crate::body::{Admitted, Request, compatible_with, too_long};
use crate::dispatch::dispatch;
use crate::home_runtime::HomeRuntime;
use crate::metrics::RequestFigures;
use crate::outgoing::Outgoing;
use crate::read_timeout::Arriving;
use crate::respond::{Answer, Body, Style, compress, compress_packed, write};
use crate::self_wake::inside;
use crate::trace_context::TraceParent;
use crate::{Rest, envelope};
use bytes::{Bytes, BytesMut};
use engine::breaker::{Booking, Breaker};
use futures::FutureExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use model::{Dialect, Error, ErrorKind, Persona, Result};
use relations::leases::Caller;
use std::borrow::Cow;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a request came.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// That of the listener.
    pub(crate) persona: Persona,
    /// The other end of the connection.
    pub(crate) caller: Caller,
    /// By a network, where names of hosts mean something; else by a unix socket.
    pub(crate) by_network: bool,
    /// From a proxy whose word about its client is taken.
    pub(crate) proxied: bool,
    /// Where the task of the connection runs; of HTTP/2, whose requests share it, that is where it began.
    pub(crate) home: Option<Arc<HomeRuntime>>,
}

/// One request, from hyper's types to hyper's types.
pub(crate) async fn one(
    rest: Arc<Rest>,
    request: hyper::Request<Incoming>,
    arrival: Arrival,
    arriving: &Arriving,
) -> hyper::Response<Outgoing> {
    let persona = arrival.persona;
    let head = request.method() == hyper::Method::HEAD;
    let (parts, incoming) = request.into_parts();
    let mut request = head_of(&parts, persona, arrival.caller, arrival.home.clone());
    // Before anything of the body is read: the connection ends with the refusal.
    if arrival.proxied {
        match rest.proxies.client(&parts.headers) {
            Ok(client) => request.caller.peer = client.or(request.caller.peer),
            Err(error) => {
                arriving.note_arrival();
                return respond_to(&rest, &request, &error, head);
            }
        }
    }
    let target = parts.uri.authority().map(hyper::http::uri::Authority::as_str);
    match rest.access.check(&parts.headers, target, arrival.by_network) {
        Ok(admitted) => request.admitted = admitted,
        Err(error) => {
            arriving.note_arrival();
            return respond_to(&rest, &request, &error, head);
        }
    }
    if let Some(answer) = rest.access.preflight(&request.admitted, &parts.method, &parts.headers) {
        arriving.note_arrival();
        return respond(&rest, &request, answer, &Style::default(), head);
    }
    if let Err(error) = authenticate(&rest, &parts.headers, &mut request).await {
        arriving.note_arrival();
        return respond_to(&rest, &request, &error, head);
    }
    request.booking = rest.limits.breakers.open(Breaker::InFlightRequests, "<http_request>");
    let home = arrival.home.as_deref();
    let body = read_body(incoming, rest.limits.body_max_bytes, &mut request.booking, home).await;
    arriving.note_arrival();
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
    if let Some(home) = home {
        // A long answer is laid out and compressed where long bodies are read.
        home.prolong(answer.body.text_bytes()).await;
    }
    let response = respond(&rest, &request, answer, &style, head);
    if let Some(home) = home {
        // A long answer is sent where long bodies are read.
        home.choose(response.body().size_hint().lower().max(request.received_bytes as u64))
            .await;
    }
    response
}

fn head_of(parts: &hyper::http::request::Parts, persona: Persona, mut caller: Caller, home: Option<Arc<HomeRuntime>>) -> Request {
    let text = |name: HeaderName| parts.headers.get(name).and_then(|v| v.to_str().ok());
    let is_gzip = |encoding: &str| ["gzip", "x-gzip"].iter().any(|known| encoding.eq_ignore_ascii_case(known));
    let encodings = parts.headers.get(hyper::header::CONTENT_ENCODING);
    let encodings = encodings.map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
    let opaque_id = text(HeaderName::from_static("x-opaque-id"));
    caller.opaque_id = opaque_id.filter(|id| !id.is_empty()).map(Arc::from);
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
        home,
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
    assert!(
        whole.len() <= max && (whole.is_empty() || booking.bytes() >= whole.len() as u64),
        "a body that is read is within its bounds, and booked"
    );
    Ok(whole.freeze())
}

/// The refusal of a request that nobody has looked into.
pub(crate) fn respond_to(rest: &Rest, request: &Request, error: &Error, head: bool) -> hyper::Response<Outgoing> {
    rest.metrics.count_error(error.kind());
    let dialect = Dialect::of(request.persona);
    let mut answer = Answer::of(envelope::status(error, dialect), envelope::render(error, dialect));
    if answer.status == 401 {
        answer
            .headers
            .extend(SCHEMES.map(|scheme| ("www-authenticate", scheme.to_owned())));
    }
    respond(rest, request, answer, &Style::default(), head)
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
fn respond(rest: &Rest, request: &Request, answer: Answer, style: &Style, head: bool) -> hyper::Response<Outgoing> {
    let status = answer.status;
    let (response, sent_bytes) = build_response(rest, request, answer, style, head);
    let took = request.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
    log_request(request, status, took);
    rest.metrics.requests.record(RequestFigures {
        api: request.api,
        status,
        took,
        received_bytes: request.received_bytes,
        sent_bytes,
    });
    response
}

fn build_response(
    rest: &Rest,
    request: &Request,
    mut answer: Answer,
    style: &Style,
    head: bool,
) -> (hyper::Response<Outgoing>, usize) {
    let compatible = compatible_with(request.accept.as_deref());
    // A long text is sent piece by piece.
    let packed = match &mut answer.body {
        Body::Packed(text) if !head => Some(std::mem::take(text)),
        _ => None,
    };
    let events = match &answer.body {
        Body::Events(events) if !head => Some(events.clone()),
        _ => None,
    };
    let (mut bytes, media) = write(&answer.body, style, compatible);
    let mut headers = headers_of(rest, request, &answer, media);
    if let Some(events) = events {
        set_header(&mut headers, "cache-control", "no-store");
        return (response_of(answer.status, headers, Outgoing::Events(events)), 0);
    }
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
        set_header(&mut headers, "content-encoding", "gzip");
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
        set_header(&mut headers, "content-length", &length.to_string());
        bytes = Bytes::new();
    }
    (response_of(answer.status, headers, Outgoing::whole(bytes)), length)
}

/// The headers of an answer, but for its length and coding.
fn headers_of(rest: &Rest, request: &Request, answer: &Answer, media: Cow<'static, str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !matches!(answer.body, Body::Empty) {
        let media = match media {
            Cow::Borrowed(media) => Ok(HeaderValue::from_static(media)),
            Cow::Owned(media) => HeaderValue::from_str(&media),
        };
        headers.extend(media.ok().map(|media| (hyper::header::CONTENT_TYPE, media)));
    }
    let mut set = |name: &'static str, value: &str| set_header(&mut headers, name, value);
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
    // One header each, as the reference has it.
    let challenges = answer.headers.iter().filter(|(name, _)| *name == "www-authenticate");
    for value in challenges.filter_map(|(_, value)| HeaderValue::from_str(value).ok()) {
        headers.append(hyper::header::WWW_AUTHENTICATE, value);
    }
    headers
}

/// Sets a header; a value that no header can have is left out.
fn set_header(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

fn response_of(status: u16, headers: HeaderMap, body: Outgoing) -> hyper::Response<Outgoing> {
    debug_assert!((200..600).contains(&status), "an answer has a status: [{status}]");
    let mut response = hyper::Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}
