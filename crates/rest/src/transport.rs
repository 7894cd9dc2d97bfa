//! The transport of requests: a socket, plain or with TLS.
//!
//! Not here: kinds of sockets (`socket`), which certificates (the server gives a [`TlsConfig`]), requests (`serve`).

use crate::busy_poll::Awake;
use crate::socket::ListeningSocket;
use arc_swap::ArcSwap;
use model::Persona;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

/// Certificates, keys and what is asked of clients. It may be exchanged while connections are accepted: handshakes that begin
/// later use the new one.
pub type TlsConfig = Arc<ArcSwap<ServerConfig>>;

/// How the handshake of TLS calls HTTP/2 (ALPN).
pub const ALPN_HTTP2: &[u8] = b"h2";

/// Where connections are accepted.
#[derive(Debug)]
pub struct Listener {
    pub socket: ListeningSocket,
    /// As which its requests are answered.
    pub persona: Persona,
    /// `None`: HTTP without TLS.
    pub tls: Option<TlsConfig>,
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(Awake),
    Tls(Box<TlsStream<Awake>>),
}

impl Transport {
    /// Shakes hands, if TLS is asked for.
    ///
    /// # Errors
    /// The client speaks no TLS, none that we speak, or does not prove who it is.
    pub(crate) async fn open(stream: Awake, tls: Option<&TlsConfig>) -> io::Result<Transport> {
        match tls {
            None => Ok(Transport::Plain(stream)),
            Some(tls) => {
                let accepted = TlsAcceptor::from(tls.load_full()).accept(stream).await?;
                Ok(Transport::Tls(Box::new(accepted)))
            }
        }
    }

    /// Did the handshake choose HTTP/2 (ALPN)?
    pub(crate) fn chose_http2(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Transport::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }
    fn is_write_vectored(&self) -> bool {
        match self {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
