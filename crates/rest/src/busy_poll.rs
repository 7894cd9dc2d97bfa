//! A client that is alone and asks again at once finds its connection awake.
//!
//! To sleep until a request comes and to be woken by it costs a worker, and the processor under it, more than many a request
//! takes to answer. So a connection that has answered looks for the next request itself for a moment
//! (`http.busy_poll`), if its client is alone ([`ClientActivity`]) and asked about that quickly after the last answer:
//! the polling of sockets that kernels and databases know ("busy polling"), and only where nobody else asks meanwhile. The
//! runtime learns nothing of it, so it wakes no other worker to listen; now and then the connection lets it look itself, for
//! those who come new.
//!
//! Not here: what is read (`serve`), how long a request may take to come (`read_timeout`).

use crate::self_wake::{inside, round};
use crate::socket::Socket;
use engine::client_activity::{ClientActivity, ClientId};
use std::io::{self, IoSlice, Read as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long the runtime does not look whether others came.
const OTHERS_EACH: Duration = Duration::from_micros(100);
/// A request that was slept for counts as quick within so many times of what is looked: being woken takes its time.
const WOKEN_TIMES: u32 = 3;

/// A connection that may look for its next request.
#[derive(Debug)]
pub(crate) struct Awake {
    pub(crate) stream: Socket,
    clients: Arc<ClientActivity>,
    /// How long it looks; zero is never.
    moment: Duration,
    /// The last request came soon after the answer before it.
    quick: bool,
    /// Since when it has answered, and nothing has come.
    answered: Option<Instant>,
    /// Whether something was written since the last request.
    wrote: bool,
    /// Since when requests are found by looking, and the runtime has not looked.
    found_since: Option<Instant>,
    /// The round of the task in which the runtime is given its turn.
    resting: u64,
}

impl Awake {
    /// A connection that looks for so long.
    pub(crate) fn new(stream: Socket, clients: Arc<ClientActivity>, moment: Duration) -> Awake {
        Awake {
            stream,
            clients,
            moment,
            quick: false,
            answered: None,
            wrote: false,
            found_since: None,
            resting: 0,
        }
    }

    /// Is the next request to be looked for? It is the client of this task that asks.
    fn looks(&self) -> bool {
        self.quick && client().is_some_and(|client| self.clients.is_alone(client))
    }

    /// Something was written. Hyper may have looked for the end of the connection while it worked, and would wait to be woken now:
    /// its task is polled again where it is.
    fn after_write(&mut self, cx: &mut Context<'_>) {
        self.wrote = true;
        if !self.looks() {
            return;
        }
        if self.found_since.is_some_and(|since| since.elapsed() >= OTHERS_EACH) {
            // The runtime looks at all sockets, without waiting, and then comes back here.
            self.found_since = None;
            self.resting = round();
            let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
        } else {
            inside(|| cx.waker().wake_by_ref());
        }
    }

    /// Looks for what comes, for a moment. Whether something did, or the connection ended.
    fn look(&self, buf: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        let begun = Instant::now();
        let socket = socket2::SockRef::from(&self.stream);
        let client = client();
        loop {
            match (&*socket).read(buf.initialize_unfilled()) {
                Ok(read) => {
                    buf.advance(read);
                    return Some(Ok(()));
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) => return Some(Err(e)),
            }
            if begun.elapsed() >= self.moment || client.is_none_or(|client| !self.clients.is_last(client)) {
                return None;
            }
            // Whoever has work for this processor goes first.
            std::thread::yield_now();
        }
    }
}

/// The client whose task runs now.
fn client() -> Option<ClientId> {
    tokio::task::try_id().map(ClientId::of)
}

/// Did a request come soon after the answer before it?
fn is_quick(after: Duration, moment: Duration) -> bool {
    after <= moment * WOKEN_TIMES
}

impl AsyncRead for Awake {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let before = buf.filled().len();
        if std::mem::take(&mut me.wrote) {
            me.answered = Some(Instant::now());
        }
        let looks = me.answered.is_some() && me.looks() && me.resting != round();
        let found = if looks { me.look(buf) } else { None };
        if found.is_some() {
            me.found_since.get_or_insert_with(Instant::now);
        } else if looks {
            me.quick = false;
            me.found_since = None;
        }
        let polled = match found {
            Some(read) => Poll::Ready(read),
            None => Pin::new(&mut me.stream).poll_read(cx, buf),
        };
        if buf.filled().len() > before {
            client().into_iter().for_each(|client| me.clients.note(client));
            // Bytes that go on with a request come after no answer.
            if let Some(answered) = me.answered.take() {
                me.quick = is_quick(answered.elapsed(), me.moment);
            }
        }
        polled
    }
}

impl AsyncWrite for Awake {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.after_write(cx);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.after_write(cx);
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::self_wake::again;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const MOMENT: Duration = Duration::from_micros(50);

    #[test]
    fn a_quick_request_comes_soon_after_an_answer() {
        for (after_us, expected) in [(100, true), (150, true), (200, false)] {
            assert_eq!(is_quick(Duration::from_micros(after_us), MOMENT), expected, "{after_us}");
        }
    }

    /// What is sent is read, once and in order, whether it was looked for or slept for, and so is the end; others get their turn.
    #[tokio::test]
    async fn nothing_is_lost_between_looking_and_sleeping() {
        const REQUESTS: usize = 400;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            use std::io::{Read as _, Write as _};
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            for n in 0..REQUESTS {
                if n % 40 == 39 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                stream.write_all(&(n as u32).to_be_bytes()).unwrap();
                let mut answer = [0; 4];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(u32::from_be_bytes(answer), n as u32 + 1);
            }
        });
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let others = Arc::new(AtomicU64::new(0));
        let counted = others.clone();
        tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let serving = again(async move {
            let clients = Arc::new(ClientActivity::alone_after(Duration::ZERO));
            let mut awake = Awake::new(Socket::Tcp(stream), clients, Duration::from_millis(1));
            let (mut found, mut served) = (0, 0);
            let mut request = [0; 4];
            while awake.read_exact(&mut request).await.is_ok() {
                found += usize::from(awake.found_since.is_some());
                served += 1;
                let answer = u32::from_be_bytes(request) + 1;
                awake.write_all(&answer.to_be_bytes()).await.unwrap();
            }
            (found, served)
        });
        let (found, served): (usize, usize) = tokio::spawn(serving).await.unwrap();
        assert!(others.load(Ordering::Relaxed) > 2, "nobody else had a turn");
        assert_eq!(served, REQUESTS);
        assert!(found > 0, "none was found by looking");
        client.join().unwrap();
    }
}
