//! Sockets of TCP and of the machine itself (unix), and who is at their other end.
//!
//! Not here: TLS (`transport`), making and removing them (the server).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A socket that is listened on.
#[derive(Debug)]
pub enum ListeningSocket {
    Tcp(TcpListener),
    /// Of this machine alone: its mode says who may connect, so names of hosts mean nothing there.
    Unix(UnixListener),
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// At this address.
    Address(IpAddr),
    /// A process of this machine, of this user; `None`: the system does not tell.
    Process(Option<u32>),
}

impl Peer {
    /// Its address; `None`: it came by a unix socket.
    pub(crate) fn address(self) -> Option<IpAddr> {
        match self {
            Peer::Address(address) => Some(address),
            Peer::Process(_) => None,
        }
    }
    /// How audits, logs and locks call it.
    pub(crate) fn name(self) -> String {
        match self {
            // One client, whether it came by IPv4 or by IPv4 in IPv6.
            Peer::Address(address) => address.to_canonical().to_string(),
            Peer::Process(Some(user)) => format!("uid:{user}"),
            Peer::Process(None) => "uid:unknown".to_owned(),
        }
    }
}

impl ListeningSocket {
    /// The next connection.
    ///
    /// # Errors
    /// The system's.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            ListeningSocket::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Socket::Tcp(stream), Peer::Address(from.ip())))
            }
            ListeningSocket::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|credentials| credentials.uid());
                Ok((Socket::Unix(stream), Peer::Process(user)))
            }
        }
    }
}

/// The socket of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Answers leave in one piece; waiting for more to send would cost 40 ms a call.
    pub(crate) fn send_at_once(&self) {
        if let Socket::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }
    /// Writes what the socket takes now.
    ///
    /// # Errors
    /// The system's, and that it takes nothing.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_write(bytes),
            Socket::Unix(stream) => stream.try_write(bytes),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Calls the method of the stream that there is.
macro_rules! delegate {
    ($me:expr, $stream:ident => $call:expr) => {
        match $me.get_mut() {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_flush(cx))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }
    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Tcp(stream) => stream.is_write_vectored(),
            Socket::Unix(stream) => stream.is_write_vectored(),
        }
    }
}
