//! How long a request may take to come, from its first byte to the end of its body, and how long an answer may wait for a
//! client that takes none of its bytes. A connection between requests may stay as long as it likes, and what a request
//! takes to be answered does not count.
//!
//! A request that is there at once, and an answer that the socket takes at once, as most are, cost no timer.
//!
//! Not here: what is read (`serve`), how much of it (`body`).

use crate::transport::Transport;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Where a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Between requests.
    #[default]
    Idle,
    /// A request has begun to come.
    Arriving(Instant),
    /// It is there, and not answered yet.
    Working,
    /// The same, and something of the next one is there.
    WorkingAhead,
}

/// The request of a connection that comes now, if one does, and the answer that its client does not take.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    state: Mutex<State>,
    /// Since when the socket has taken nothing of what is to be sent.
    stalled: Mutex<Option<Instant>>,
}

/// The step that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// A request did not come to its end.
    Request,
    /// A client did not take an answer.
    Answer,
}

/// How long what may take; zero is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// `http.read_timeout`.
    pub(crate) read: Duration,
    /// `http.write_timeout`.
    pub(crate) write: Duration,
}

impl Arriving {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_stall(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an answer waits for its client: if so, its time begins now.
    pub(crate) fn note_stall(&self, stalled: bool) {
        *self.lock_stall() = stalled.then(Instant::now);
    }

    /// Bytes have come.
    pub(crate) fn read(&self) {
        let mut state = self.state();
        *state = match *state {
            State::Idle => State::Arriving(Instant::now()),
            State::Working => State::WorkingAhead,
            as_it_was => as_it_was,
        };
    }

    /// The request is there, to its end or to where it is refused.
    pub(crate) fn note_arrival(&self) {
        *self.state() = State::Working;
    }

    /// Its answer is on its way; what is there of the next one begins now.
    pub(crate) fn note_answer(&self) {
        let mut state = self.state();
        debug_assert!(
            matches!(*state, State::Working | State::WorkingAhead),
            "an answer is that of a request that is there: {state:?}"
        );
        *state = match *state {
            State::WorkingAhead => State::Arriving(Instant::now()),
            _ => State::Idle,
        };
    }

    /// The next end and its time: of the request that comes, or of the answer that is not taken.
    fn deadline(&self, timeouts: Timeouts) -> Option<(Instant, Late)> {
        let request = match *self.state() {
            State::Arriving(since) => Some(since),
            _ => None,
        };
        let end = |since: Option<Instant>, limit: Duration, late| Some((since? + limit, late)).filter(|_| !limit.is_zero());
        let request = end(request, timeouts.read, Late::Request);
        let answer = end(*self.lock_stall(), timeouts.write, Late::Answer);
        request.into_iter().chain(answer).min_by_key(|(at, _)| *at)
    }

    /// Serves the connection, as long as each of its requests is there, and each of its answers taken, in time.
    ///
    /// # Errors
    /// One is not.
    pub(crate) async fn within<F: Future>(&self, timeouts: Timeouts, serving: F) -> Result<F::Output, Late> {
        let mut serving = pin!(serving);
        let mut timer: Option<(Instant, Pin<Box<Sleep>>)> = None;
        poll_fn(|cx| {
            if let Poll::Ready(done) = serving.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            let Some((at, late)) = self.deadline(timeouts) else {
                timer = None;
                return Poll::Pending;
            };
            let own = timer.take().filter(|(set_to, _)| *set_to == at);
            let (_, sleep) = timer.insert(own.unwrap_or_else(|| (at, Box::pin(tokio::time::sleep_until(at)))));
            sleep.as_mut().poll(cx).map(|()| Err(late))
        })
        .await
    }
}

/// A connection whose requests are seen to begin, and whose answers are seen to wait.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) stream: Transport,
    arriving: Arc<Arriving>,
    /// The socket took nothing the last time.
    is_stalled: bool,
}

impl Watched {
    pub(crate) fn new(stream: Transport, arriving: Arc<Arriving>) -> Watched {
        Watched {
            stream,
            arriving,
            is_stalled: false,
        }
    }
}

impl Watched {
    /// Notes whether the socket took something.
    fn note_write<T>(&mut self, polled: &Poll<io::Result<T>>) {
        match polled {
            Poll::Pending if !self.is_stalled => {
                self.is_stalled = true;
                *self.arriving.lock_stall() = Some(Instant::now());
            }
            Poll::Ready(_) if self.is_stalled => {
                self.is_stalled = false;
                *self.arriving.lock_stall() = None;
            }
            _ => {}
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.arriving.read();
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_write(&polled);
        polled
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS keeps what the socket did not take.
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.note_write(&polled);
        polled
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note_write(&polled);
        polled
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);
    const BOTH: Timeouts = Timeouts {
        read: LIMIT,
        write: LIMIT,
    };

    /// Steps of a connection, 60 ms apart, and whether it is cut 200 ms after the last.
    async fn check(steps: &[fn(&Arriving)], expected: bool) {
        let arriving = Arriving::default();
        let serving = async {
            for step in steps {
                step(&arriving);
                tokio::time::sleep(Duration::from_millis(60)).await;
            }
            tokio::time::sleep(Duration::from_millis(140)).await;
        };
        let late = arriving.within(BOTH, serving).await.is_err();
        assert_eq!(late, expected, "{arriving:?}");
    }

    #[tokio::test]
    async fn a_request_is_there_in_time_or_late() {
        check(&[], false).await;
        check(&[Arriving::read], true).await;
        check(&[Arriving::read, Arriving::read, Arriving::read], true).await;
        check(&[Arriving::read, Arriving::note_arrival], false).await;
        check(&[Arriving::read, Arriving::note_arrival, Arriving::note_answer], false).await;
        check(
            &[Arriving::read, Arriving::note_arrival, Arriving::note_answer, Arriving::read],
            true,
        )
        .await;
        // The next one's time begins when its turn comes.
        check(&[Arriving::read, Arriving::note_arrival, Arriving::read], false).await;
        check(
            &[Arriving::read, Arriving::note_arrival, Arriving::read, Arriving::note_answer],
            true,
        )
        .await;
        check(
            &[
                Arriving::read,
                Arriving::note_arrival,
                Arriving::read,
                Arriving::note_answer,
                Arriving::note_arrival,
            ],
            false,
        )
        .await;
    }

    #[tokio::test]
    async fn no_limit_is_none() {
        let arriving = Arriving::default();
        arriving.read();
        let none = Timeouts {
            read: Duration::ZERO,
            write: Duration::ZERO,
        };
        let waited = arriving.within(none, tokio::time::sleep(LIMIT)).await;
        assert!(waited.is_ok());
    }

    #[tokio::test]
    async fn an_answer_is_taken_in_time_or_late() {
        let arriving = Arriving::default();
        arriving.note_arrival();
        *arriving.lock_stall() = Some(Instant::now());
        let taken_late = arriving.within(BOTH, tokio::time::sleep(3 * LIMIT)).await;
        assert_eq!(taken_late.err(), Some(Late::Answer));
        *arriving.lock_stall() = Some(Instant::now());
        let taken = async {
            tokio::time::sleep(LIMIT / 2).await;
            *arriving.lock_stall() = None;
            tokio::time::sleep(LIMIT).await;
        };
        assert!(arriving.within(BOTH, taken).await.is_ok());
    }
}
