//! One connection of HTTP/2 (RFC 9113): over TLS where the handshake chose it, else where the client begins with it.
//!
//! Its requests run beside each other, each within the limits of a request over HTTP/1: its body has `http.read_timeout` to come,
//! and a connection that takes nothing of its answers for `http.write_timeout` is cut. Their number, their headers and those
//! that the client takes back are bounded by settings. Not here: HTTP/1.1, what is answered (`serve`).

use crate::outgoing::Outgoing;
use crate::read_timeout::{Arriving, Timeouts};
use crate::self_wake::again;
use crate::socket::Socket;
use crate::transport::Transport;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use model::settings::{HTTP2_MAX_HEADERS, HTTP2_MAX_RESETS, HTTP2_MAX_STREAMS, node, node_count};
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

/// How a connection of HTTP/2 begins; no method of HTTP/1 is called so.
const PREFACE: &[u8] = b"PRI";
/// How long is slept until more of the preface may be there, and how often; then it is HTTP/1.
const PREFACE_PAUSE: Duration = Duration::from_millis(2);
const PREFACE_PAUSES_MAX: usize = 500;
/// Bytes of one body, and of all bodies of a connection, that come before anybody reads them.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes of one answer that wait beside the socket.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Is HTTP/2 spoken at all?
fn is_on() -> bool {
    node(HTTP2_MAX_STREAMS) > 0
}

/// Does the client begin with HTTP/2 without having asked (prior knowledge)? Waits for its first bytes, as reading them would.
pub(crate) async fn begins(socket: &Socket) -> bool {
    let Socket::Tcp(stream) = socket else { return false };
    if !is_on() {
        return false;
    }
    let mut first = [0; PREFACE.len()];
    for _ in 0..PREFACE_PAUSES_MAX {
        match stream.peek(&mut first).await {
            Ok(count) if count == PREFACE.len() => return first == PREFACE,
            Ok(count) if count > 0 && PREFACE.starts_with(&first[..count]) => tokio::time::sleep(PREFACE_PAUSE).await,
            Ok(_) | Err(_) => return false,
        }
    }
    false
}

/// Serves a connection to its end: each request by `answer`.
pub(crate) async fn serve<A, F>(transport: Transport, timeouts: Timeouts, mut stop: watch::Receiver<bool>, answer: A)
where
    A: Fn(hyper::Request<Incoming>) -> F,
    F: Future<Output = hyper::Response<Outgoing>> + Send + 'static,
{
    let unsent = Arc::<Unsent>::default();
    let of_answers = unsent.clone();
    let service = hyper::service::service_fn(move |request| {
        let (answering, unsent) = (answer(request), of_answers.clone());
        async move { Ok::<_, Infallible>(answering.await.map(|body| CountedBody::new(body, unsent))) }
    });
    let header_bytes = u32::try_from(node(HTTP2_MAX_HEADERS)).unwrap_or(u32::MAX);
    let transport = Noted {
        stream: transport,
        unsent: unsent.clone(),
    };
    let connection = hyper::server::conn::http2::Builder::new(Streams)
        .max_concurrent_streams(u32::try_from(node(HTTP2_MAX_STREAMS)).unwrap_or(u32::MAX))
        .max_header_list_size(header_bytes)
        .max_pending_accept_reset_streams(node_count(HTTP2_MAX_RESETS))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .serve_connection(hyper_util::rt::TokioIo::new(transport), service);
    let mut connection = pin!(connection);
    loop {
        tokio::select! {
            // Its end, or answers that are not taken: the connection is dropped.
            _ = unsent.arriving.within(timeouts, connection.as_mut()) => return,
            changed = stop.changed() => {
                if changed.is_err() || *stop.borrow() {
                    connection.as_mut().graceful_shutdown();
                    // Streams that fail are told to their clients.
                    let _ = connection.await;
                    return;
                }
            }
        }
    }
}

/// Runs each request as a task of its own.
#[derive(Clone, Copy, Debug)]
struct Streams;

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Streams {
    fn execute(&self, future: F) {
        tokio::spawn(again(future));
    }
}

/// Answers of a connection that are not all sent.
#[derive(Debug, Default)]
struct Unsent {
    count: Mutex<usize>,
    /// Its clock runs while there is one, and begins anew with each byte that the socket takes.
    arriving: Arriving,
}

impl Unsent {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The socket took something.
    fn note_progress(&self) {
        let count = self.count();
        self.arriving.note_stall(*count > 0);
    }
}

/// Something of an answer that waits for the client.
#[derive(Debug)]
struct UnsentPart(Arc<Unsent>);

impl UnsentPart {
    fn begin(unsent: &Arc<Unsent>) -> Arc<UnsentPart> {
        let mut count = unsent.count();
        *count += 1;
        if *count == 1 {
            unsent.arriving.note_stall(true);
        }
        drop(count);
        Arc::new(UnsentPart(unsent.clone()))
    }
}

impl Drop for UnsentPart {
    fn drop(&mut self) {
        let mut count = self.0.count();
        assert!(*count > 0, "each part of an answer that is unsent was counted");
        *count -= 1;
        if *count == 0 {
            self.0.arriving.note_stall(false);
        }
    }
}

/// The body of an answer, which counts as unsent until its last byte has left.
#[derive(Debug)]
struct CountedBody {
    body: Outgoing,
    unsent: Arc<Unsent>,
    /// `None` while the client waits for us, as for the next event.
    waiting: Option<Arc<UnsentPart>>,
}

impl CountedBody {
    fn new(body: Outgoing, unsent: Arc<Unsent>) -> CountedBody {
        let waiting = (!body.is_end_stream()).then(|| UnsentPart::begin(&unsent));
        CountedBody { body, unsent, waiting }
    }
}

/// Bytes that count as unsent while they are held.
struct Held {
    bytes: Bytes,
    _waiting: Arc<UnsentPart>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let me = self.get_mut();
        let polled = Pin::new(&mut me.body).poll_frame(cx);
        if polled.is_pending() {
            me.waiting = None;
        }
        let Some(Ok(frame)) = ready!(polled) else {
            me.waiting = None;
            return Poll::Ready(None);
        };
        let waiting = me.waiting.get_or_insert_with(|| UnsentPart::begin(&me.unsent)).clone();
        let held = frame.map_data(|bytes| {
            Bytes::from_owner(Held {
                bytes,
                _waiting: waiting,
            })
        });
        Poll::Ready(Some(Ok(held)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A transport that notes what it takes.
#[derive(Debug)]
struct Noted {
    stream: Transport,
    unsent: Arc<Unsent>,
}

impl Noted {
    fn note(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(polled, Poll::Ready(Ok(count)) if count > 0) {
            self.unsent.note_progress();
        }
        polled
    }
}

impl AsyncRead for Noted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Noted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(polled)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note(polled)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
