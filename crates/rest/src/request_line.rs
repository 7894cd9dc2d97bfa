//! Request lines that clients of 2015 send: `GET /<logs-{now/d}>/_search`, with bytes that a URL may not hold as they are.
//!
//! The servers of that time took them, the HTTP library refuses them before anybody here is asked. So the first line that is
//! read after something was written, or first of all, has them escaped. What looks like no request line, or comes in
//! several pieces, goes on as it is.
//!
//! Not here: what a path means once it is read (`routes`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The printable bytes that the library refuses in a path or query.
const REFUSED: &[u8] = b"<>`\"";

/// A stream whose request lines are escaped where they have to be.
#[derive(Debug)]
pub(crate) struct Escaping<S> {
    stream: S,
    /// The next byte may begin a request.
    between: bool,
    /// Bytes that were read and are too many to be given at once.
    left: Vec<u8>,
}

impl<S> Escaping<S> {
    pub(crate) fn new(stream: S) -> Escaping<S> {
        Escaping {
            stream,
            between: true,
            left: Vec::new(),
        }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

/// The bytes with their request line escaped, if it needs that.
fn escape_line(read: &[u8]) -> Option<Vec<u8>> {
    let line = &read[..read.iter().position(|byte| *byte == b'\r')?];
    if !line.iter().any(|byte| REFUSED.contains(byte)) {
        return None;
    }
    let start = line.iter().position(|byte| *byte == b' ')? + 1;
    let end = line.iter().rposition(|byte| *byte == b' ')?;
    let (method, target) = (&line[..start - 1], line.get(start..end)?);
    let is_request = !method.is_empty()
        && method.iter().all(u8::is_ascii_uppercase)
        && target.starts_with(b"/")
        && !target.contains(&b' ')
        && line[end..].starts_with(b" HTTP/1.");
    if !is_request {
        return None;
    }
    let mut out = Vec::with_capacity(read.len() + 2 * target.len());
    out.extend_from_slice(&read[..start]);
    for byte in target {
        if REFUSED.contains(byte) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out.extend_from_slice(&read[end..]);
    debug_assert!(
        out.len() > read.len() || !target.iter().any(|byte| REFUSED.contains(byte)),
        "an escape is longer than what it stands for"
    );
    Some(out)
}

impl<S: AsyncRead + Unpin> AsyncRead for Escaping<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left.is_empty() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            if !std::mem::take(&mut self.between) {
                return Poll::Ready(Ok(()));
            }
            let Some(escaped) = escape_line(&buf.filled()[before..]) else {
                return Poll::Ready(Ok(()));
            };
            buf.set_filled(before);
            self.left = escaped;
        }
        let fits = self.left.len().min(buf.remaining());
        buf.put_slice(&self.left[..fits]);
        self.left.drain(..fits);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Escaping<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.between = true;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.between = true;
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn lines() {
        let check = |read: &str, expected: Option<&str>| {
            let found = escape_line(read.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{read}");
        };
        check(
            "GET /<l-{now}>/_search?q=a:>1 HTTP/1.1\r\nx: <y>\r\n\r\n<z>",
            Some("GET /%3Cl-{now}%3E/_search?q=a:%3E1 HTTP/1.1\r\nx: <y>\r\n\r\n<z>"),
        );
        check(
            "GET /a?q=\"b`\" HTTP/1.0\r\n\r\n",
            Some("GET /a?q=%22b%60%22 HTTP/1.0\r\n\r\n"),
        );
        check("GET /a HTTP/1.1\r\nx: <y>\r\n\r\n", None);
        check("GET /<a HTTP/1.1", None);
        check("{\"get\": \"/<a> HTTP/1.1\"}\r\n", None);
        check("get /<a> HTTP/1.1\r\n", None);
        check("GET /<a> b HTTP/1.1\r\n", None);
        check("GET /<a> FTP/1.1\r\n", None);
        check("<\r\n", None);
        check("", None);
    }

    #[tokio::test]
    async fn what_has_grown_comes_in_parts_and_bodies_stay() {
        let (mut client, server) = tokio::io::duplex(256);
        let mut server = Escaping::new(server);
        let mut room = [0; 24];
        client.write_all(b"GET /<<<> HTTP/1.1\r\n\r\n").await.unwrap();
        let mut found = Vec::new();
        while found.len() < 30 {
            let count = server.read(&mut room).await.unwrap();
            found.extend_from_slice(&room[..count]);
        }
        assert_eq!(found, b"GET /%3C%3C%3C%3E HTTP/1.1\r\n\r\n");
        let line = b"GET /<b> HTTP/1.1\r\n";
        for (answered, expected) in [(false, line.as_slice()), (true, b"GET /%3Cb%3E HTTP/1.1\r\n")] {
            if answered {
                server.write_all(b"ok").await.unwrap();
            }
            client.write_all(line).await.unwrap();
            let mut found = vec![0; expected.len()];
            server.read_exact(&mut found).await.unwrap();
            assert_eq!(found, expected);
        }
    }
}
