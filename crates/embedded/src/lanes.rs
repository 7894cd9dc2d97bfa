//! On which threads a search runs: where it arrives while it is quick, on the workers while it is short, else on threads of
//! lower priority that only long searches use. So a long search delays other long ones, and no short one.
//!
//! How long a search takes is foretold by its shape (`query_latency`). Where that is wrong, the search is stopped when it has used up
//! the time of its lane, and begins again in the next one; the mistake costs that time once a shape.
//!
//! Not here: the threads (`workers`), what a search does (`search`, `joining`).

use crate::environment::Limits;
use crate::query_latency::Pace;
use crate::search_helpers::SearchHelpers;
use crate::thread_priority::LONG_SEARCHES;
use crate::workers::{Pool, Workers};
use engine::breaker::CircuitBreakers;
use model::{Cancellation, Error, ErrorKind, Result};
use search::helpers::Helpers;
use search::interrupt::Interrupt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time of a search where it arrives.
const INLINE_MOST: Duration = Duration::from_millis(10);
/// Its time on a thread that short ones use.
const SHORT_MOST: Duration = Duration::from_millis(100);
/// A search that has not looked at its deadline for so long is answered for, and left alone.
const OVERDUE: Duration = Duration::from_millis(80);

/// The resources that a lane gives a search for one run.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    /// Stops it.
    pub(crate) interrupt: &'a Interrupt,
    /// Threads that may take part in it.
    pub(crate) helpers: Option<&'a dyn Helpers>,
}

impl<'a> From<&'a Interrupt> for Turn<'a> {
    /// Without helpers.
    fn from(interrupt: &'a Interrupt) -> Turn<'a> {
        Turn {
            interrupt,
            helpers: None,
        }
    }
}

/// The measurements of every run of a search.
struct Gauge {
    pace: Pace,
    helpers: SearchHelpers,
}

impl Gauge {
    /// Runs a search on this thread, and notes how long it took.
    fn run<T>(&self, shape: u64, interrupt: &Interrupt, search: impl FnOnce(Turn<'_>) -> T) -> T {
        self.helpers.beside(|| {
            let begun = Instant::now();
            let done = search(Turn {
                interrupt,
                helpers: Some(&self.helpers),
            });
            self.pace.note(shape, begun.elapsed());
            done
        })
    }
}

/// The threads that searches run on, and how long they take.
pub(crate) struct Lanes {
    long: Workers,
    gauge: Arc<Gauge>,
    breakers: Arc<CircuitBreakers>,
}

impl Lanes {
    /// Starts `threads` for long searches, of which as many may run or wait as the limits say.
    pub(crate) fn start(threads: usize, limits: &Limits) -> Result<Lanes> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Lanes {
            long: Workers::start(
                &Pool {
                    name: "long",
                    nice: LONG_SEARCHES,
                    threads,
                    limited_max: limits.concurrent_searches,
                },
                limits,
            )?,
            gauge: Arc::new(Gauge {
                pace: Pace::default(),
                helpers: SearchHelpers::start(processors, limits)?,
            }),
            breakers: limits.breakers.clone(),
        })
    }

    /// The threads for what may take long.
    pub(crate) fn long(&self) -> &Workers {
        &self.long
    }

    fn interrupt(&self, cancellation: Cancellation, most: Option<Duration>) -> Interrupt {
        Interrupt::new(cancellation, most, Some(self.breakers.clone()))
    }

    /// Whether searches of this shape are known to be quick.
    pub(crate) fn is_quick(&self, shape: u64) -> bool {
        self.gauge.pace.is_quick(shape)
    }

    /// Runs a search of a shape: here if `inline`, on `short`, or among the long ones.
    ///
    /// # Errors
    /// The search's; too many run or wait; `search_timeout_exception` if the deadline has passed and it has not answered.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        short: &Workers,
        shape: u64,
        inline: bool,
        cancellation: Cancellation,
        search: impl Fn(Turn<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        if inline {
            let interrupt = self.interrupt(cancellation.clone(), Some(INLINE_MOST));
            let found = short.run_here(|| self.gauge.run(shape, &interrupt, &search));
            if !interrupt.is_overdrawn() {
                return found;
            }
        }
        let deadline = cancellation.deadline();
        let handed_over = self.hand_over(short, shape, cancellation.clone(), Arc::new(search));
        let Some(deadline) = deadline else {
            return handed_over.await;
        };
        let latest = tokio::time::Instant::from_std(deadline + OVERDUE);
        tokio::time::timeout_at(latest, handed_over).await.unwrap_or_else(|_| {
            cancellation.cancel();
            Err(Error::new(ErrorKind::SearchTimeout, "Time exceeded"))
        })
    }

    async fn hand_over<T: Send + 'static>(
        &self,
        short: &Workers,
        shape: u64,
        cancellation: Cancellation,
        search: Arc<impl Fn(Turn<'_>) -> Result<T> + Send + Sync + 'static>,
    ) -> Result<T> {
        if !self.gauge.pace.is_long(shape) {
            let (search, gauge) = (search.clone(), self.gauge.clone());
            let interrupt = {
                let (breakers, cancellation) = (self.breakers.clone(), cancellation.clone());
                move || Interrupt::new(cancellation, Some(SHORT_MOST), Some(breakers))
            };
            let tried = short.run_limited(move || {
                let interrupt = interrupt();
                // A search that waited until nobody wants it any more is not begun.
                interrupt.check()?;
                let found = gauge.run(shape, &interrupt, &*search);
                Ok((!interrupt.is_overdrawn()).then_some(found))
            });
            if let Some(found) = tried.await? {
                return found;
            }
        }
        let (gauge, breakers) = (self.gauge.clone(), self.breakers.clone());
        let last = self.long.run_limited(move || {
            let interrupt = Interrupt::new(cancellation, None, Some(breakers));
            interrupt.check()?;
            gauge.run(shape, &interrupt, &*search)
        });
        last.await
    }
}
