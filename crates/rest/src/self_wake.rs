//! A task that wakes itself by reading a body is polled again where it is.
//!
//! Hyper wakes a connection's task whenever somebody begins to read a body, and that is the task itself. The runtime would
//! put it at the end of its queue for that and wake another worker to take it from there: a call of the system for each
//! request with a body, for nothing, since what it was woken for is done in the same poll. Whoever wakes himself for another
//! reason, to let others go first, is left alone: only what is woken [`inside`] counts.
//!
//! Not here: what is polled (`serve`).

use futures::task::AtomicWaker;
use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// So often at once; then others come first.
const POLLS_MAX: usize = 20;

/// Nobody polls.
const IDLE: u8 = 0;
/// Somebody polls.
const POLLING: u8 = 1;
/// Somebody polls, and woke it [`inside`] since he began.
const WOKEN: u8 = 2;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static ROUND: Cell<u64> = const { Cell::new(0) };
}

/// How often the runtime has polled the task that asks; what is polled again where it is counts once.
pub(crate) fn round() -> u64 {
    ROUND.get()
}

/// Calls what may wake the task that it runs in, which is polled again in any case.
pub(crate) fn inside<T>(f: impl FnOnce() -> T) -> T {
    struct OnLeave;
    impl Drop for OnLeave {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }
    debug_assert!(!INSIDE.get(), "the inner call would end what the outer one is for");
    INSIDE.set(true);
    let _left = OnLeave;
    f()
}

#[derive(Debug, Default)]
struct Bell {
    state: AtomicU8,
    rounds: AtomicU64,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let again = || {
            let polled = |state| (state != IDLE).then_some(WOKEN);
            self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, polled).is_ok()
        };
        if !(INSIDE.get() && again()) {
            self.task.wake();
        }
    }
}

/// Runs a future to its end, polling it again at once where it woke itself [`inside`].
pub(crate) async fn again<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let bell = Arc::<Bell>::default();
    let waker = Waker::from(bell.clone());
    std::future::poll_fn(move |cx| poll(&bell, &waker, future.as_mut(), cx)).await
}

fn poll<F: Future>(bell: &Bell, waker: &Waker, mut future: Pin<&mut F>, cx: &Context<'_>) -> Poll<F::Output> {
    // Before the first poll: whoever wakes from then on finds it.
    bell.task.register(cx.waker());
    ROUND.set(bell.rounds.fetch_add(1, Ordering::Relaxed) + 1);
    for _ in 0..POLLS_MAX {
        bell.state.store(POLLING, Ordering::SeqCst);
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(waker)) {
            return Poll::Ready(done);
        }
        let idle = bell.state.compare_exchange(POLLING, IDLE, Ordering::SeqCst, Ordering::SeqCst);
        if idle.is_ok() {
            return Poll::Pending;
        }
    }
    bell.state.store(IDLE, Ordering::SeqCst);
    cx.waker().wake_by_ref();
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    /// Counts how often the task is woken.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A future that wakes itself in its first polls: how often the task is polled and woken before it rests.
    fn check(times: usize, within: bool, expected_polls: usize, expected_wakes: usize) {
        let counted = Arc::<Counted>::default();
        let waker = Waker::from(counted.clone());
        let polls = Arc::new(AtomicUsize::new(0));
        let seen = polls.clone();
        let mut future = Box::pin(again(std::future::poll_fn(move |cx| {
            match seen.fetch_add(1, Ordering::SeqCst) < times {
                true if within => inside(|| cx.waker().wake_by_ref()),
                true => cx.waker().wake_by_ref(),
                false => {}
            }
            Poll::<()>::Pending
        })));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let found = (polls.load(Ordering::SeqCst), counted.0.load(Ordering::SeqCst));
        assert_eq!(found, (expected_polls, expected_wakes), "woken by itself {times} times");
    }

    #[test]
    fn it_is_polled_again_where_it_is() {
        check(0, true, 1, 0);
        check(1, true, 2, 0);
        check(19, true, 20, 0);
        // Others come first.
        check(20, true, 20, 1);
        check(100, true, 20, 1);
    }

    #[test]
    fn what_is_polled_where_it_is_is_one_round() {
        let (send, seen) = mpsc::channel();
        let mut future = Box::pin(again(std::future::poll_fn(move |cx| {
            let _ = send.send(round());
            inside(|| cx.waker().wake_by_ref());
            Poll::<()>::Pending
        })));
        let waker = Waker::from(Arc::<Counted>::default());
        for expected in 1..=3 {
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            let rounds: Vec<u64> = seen.try_iter().collect();
            assert_eq!(rounds, [expected; POLLS_MAX]);
        }
    }

    #[test]
    fn who_lets_others_go_first_is_left_alone() {
        check(1, false, 1, 1);
        check(3, false, 1, 1);
    }

    #[test]
    fn who_wakes_it_from_elsewhere_wakes_the_task() {
        let counted = Arc::<Counted>::default();
        let task = Waker::from(counted.clone());
        let (send, inner) = mpsc::channel();
        let mut future = Box::pin(again(std::future::poll_fn(move |cx| {
            let _ = send.send(cx.waker().clone());
            Poll::<()>::Pending
        })));
        for round in 1..4 {
            assert!(future.as_mut().poll(&mut Context::from_waker(&task)).is_pending());
            let waker = inner.recv().expect("it was polled");
            waker.wake_by_ref();
            waker.wake();
            assert_eq!(counted.0.load(Ordering::SeqCst), round, "woken twice, polled once");
        }
    }

    #[test]
    fn no_wake_is_lost_between_threads() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(3)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (mut forth, mut back) = (Vec::new(), Vec::new());
            for _ in 0..4 {
                let (to, mut from) = tokio::sync::mpsc::channel::<u32>(1);
                let (answer, answered) = tokio::sync::mpsc::channel::<u32>(1);
                forth.push(tokio::spawn(again(async move {
                    while let Some(n) = from.recv().await {
                        answer.send(n).await.expect("somebody listens");
                    }
                })));
                back.push(tokio::spawn(again(async move {
                    let mut answered = answered;
                    for n in 0..20_000 {
                        to.send(n).await.expect("somebody listens");
                        assert_eq!(answered.recv().await, Some(n));
                    }
                })));
            }
            for task in back.into_iter().chain(forth) {
                let ended = tokio::time::timeout(std::time::Duration::from_secs(60), task).await;
                ended.expect("no wake was lost").expect("no panic");
            }
        });
    }
}
