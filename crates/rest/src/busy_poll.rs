//! A client that is alone and asks again at once finds its connection awake.
//!
//! To sleep until a request comes and to be woken by it costs a worker, and the processor under it, more than many a request
//! takes to answer. So a connection that has answered looks for the next request itself for a moment
//! (`http.busy_poll`), if the last requests of the whole process were its own and came about that quickly after their answers:
//! the polling of sockets that kernels and databases know ("busy polling"), and only where nobody else asks meanwhile. The
//! runtime learns nothing of it, so it wakes no other worker to listen; now and then the connection lets it look itself, for
//! those who come new.
//!
//! Not here: what is read (`serve`), how long a request may take to come (`read_timeout`).

use crate::self_wake::{inside, round};
use std::io::{self, IoSlice, Read as _};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// So many requests in a row came by one connection before it is thought to be alone.
const ALONE: u32 = 4;
/// How long the runtime does not look whether others came.
const OTHERS_EACH: Duration = Duration::from_micros(100);
/// A request that was slept for counts as quick within so many times of what is looked: being woken takes its time.
const WOKEN_TIMES: u32 = 3;

/// The connection by which the last request came.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The rhythm of a connection's client.
#[derive(Debug, Default)]
struct Habit {
    /// Requests in a row that nobody else's came between.
    alone: u32,
    /// Whether the last one came soon after the answer before it.
    quick: bool,
}

impl Habit {
    /// A request has come, so long after the answer before it.
    fn came(&mut self, mine: bool, after: Option<Duration>, moment: Duration) {
        self.alone = if mine { self.alone.saturating_add(1) } else { 0 };
        self.quick = after.is_some_and(|after| after <= moment * WOKEN_TIMES);
    }

    /// Whether to look for the next one.
    fn looks(&self) -> bool {
        self.quick && self.alone >= ALONE
    }
}

/// A connection that may look for its next request.
#[derive(Debug)]
pub(crate) struct Awake {
    pub(crate) stream: TcpStream,
    number: u64,
    /// How long it looks; zero is never.
    moment: Duration,
    habit: Habit,
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
    /// The connection of that number, which looks for so long.
    pub(crate) fn new(stream: TcpStream, number: u64, moment: Duration) -> Awake {
        Awake {
            stream,
            number,
            moment,
            habit: Habit::default(),
            answered: None,
            wrote: false,
            found_since: None,
            resting: 0,
        }
    }

    /// Something was written. Hyper may have looked for the end of the connection while it worked, and would wait to be woken now:
    /// its task is polled again where it is.
    fn written(&mut self, cx: &mut Context<'_>) {
        self.wrote = true;
        if !self.habit.looks() {
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
        loop {
            match (&*socket).read(buf.initialize_unfilled()) {
                Ok(read) => {
                    buf.advance(read);
                    return Some(Ok(()));
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) => return Some(Err(e)),
            }
            if begun.elapsed() >= self.moment || LAST.load(Ordering::Relaxed) != self.number {
                return None;
            }
            // Whoever has work for this processor goes first.
            std::thread::yield_now();
        }
    }
}

impl AsyncRead for Awake {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let before = buf.filled().len();
        if std::mem::take(&mut me.wrote) {
            me.answered = Some(Instant::now());
        }
        let looks = me.answered.is_some() && me.habit.looks() && me.resting != round();
        let found = if looks { me.look(buf) } else { None };
        if found.is_some() {
            me.found_since.get_or_insert_with(Instant::now);
        } else if looks {
            me.habit.quick = false;
            me.found_since = None;
        }
        let polled = match found {
            Some(read) => Poll::Ready(read),
            None => Pin::new(&mut me.stream).poll_read(cx, buf),
        };
        if buf.filled().len() > before && (me.answered.is_some() || me.habit.alone == 0) {
            let mine = LAST.swap(me.number, Ordering::Relaxed) == me.number;
            let after = me.answered.take().map(|at| at.elapsed());
            me.habit.came(mine, after, me.moment);
        }
        polled
    }
}

impl AsyncWrite for Awake {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written(cx);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.written(cx);
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
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    const MOMENT: Duration = Duration::from_micros(50);

    /// One request: whether the one before it was of the same connection, how long it came after its answer in
    /// microseconds.
    type Came = (bool, Option<u64>);

    /// Whether a connection looks for the next request after these.
    fn check(requests: &[Came], expected: bool) {
        let mut habit = Habit::default();
        for (mine, after) in requests {
            habit.came(*mine, after.map(Duration::from_micros), MOMENT);
        }
        assert_eq!(habit.looks(), expected, "{requests:?}: {habit:?}");
    }

    #[test]
    fn who_is_alone_and_quick_is_looked_for() {
        let quick: Came = (true, Some(100));
        check(&[], false);
        check(&[(false, None), quick, quick, quick], false);
        check(&[(false, None), quick, quick, quick, quick], true);
        check(&[quick, quick, quick, (true, Some(200))], false);
        // Somebody else's request came between.
        check(&[quick, quick, quick, quick, (false, Some(100))], false);
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
            let mut awake = Awake::new(stream, u64::MAX, Duration::from_millis(1));
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
        let (found, served): (usize, usize) = serving.await;
        assert!(others.load(Ordering::Relaxed) > 2, "nobody else had a turn");
        assert_eq!(served, REQUESTS);
        assert!(found > 0, "none was found by looking");
        client.join().unwrap();
    }
}
