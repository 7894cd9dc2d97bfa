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
use crate::workers::Workers;
use engine::breaker::CircuitBreakers;
use model::{Cancellation, Error, ErrorKind, Result};
use search::interrupt::Interrupt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time of a search where it arrives.
const INLINE_MOST: Duration = Duration::from_millis(10);
/// Its time on a thread that short ones use.
const SHORT_MOST: Duration = Duration::from_millis(100);
/// A search that has not looked at its deadline for so long is answered for, and left alone.
const OVERDUE: Duration = Duration::from_millis(80);

/// The threads that searches run on, and how long they take.
pub(crate) struct Lanes {
    long: Workers,
    pace: Arc<Pace>,
    helpers: Arc<SearchHelpers>,
    breakers: Arc<CircuitBreakers>,
}

impl Lanes {
    /// Starts `threads` for long searches, of which as many may run or wait as the limits say.
    pub(crate) fn start(threads: usize, limits: &Limits) -> Result<Lanes> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Lanes {
            long: Workers::start("long", threads, limits.concurrent_searches, limits.at_rest)?,
            pace: Arc::default(),
            helpers: Arc::new(SearchHelpers::start(processors, limits)?),
            breakers: limits.breakers.clone(),
        })
    }

    /// The threads for what may take long.
    pub(crate) fn long(&self) -> &Workers {
        &self.long
    }

    /// Threads that take part in long searches.
    pub(crate) fn helpers(&self) -> &Arc<SearchHelpers> {
        &self.helpers
    }

    fn interrupt(&self, cancellation: Cancellation, most: Option<Duration>) -> Interrupt {
        Interrupt::new(cancellation, most, Some(self.breakers.clone()))
    }

    /// Whether searches of this shape are known to be quick.
    pub(crate) fn is_quick(&self, shape: u64) -> bool {
        self.pace.is_quick(shape)
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
        search: impl Fn(&Interrupt) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        if inline {
            let interrupt = self.interrupt(cancellation.clone(), Some(INLINE_MOST));
            let found = short.run_here(|| self.helpers.beside(|| time(&self.pace, shape, || search(&interrupt))));
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
        search: Arc<impl Fn(&Interrupt) -> Result<T> + Send + Sync + 'static>,
    ) -> Result<T> {
        if !self.pace.is_long(shape) {
            let (search, pace, helpers) = (search.clone(), self.pace.clone(), self.helpers.clone());
            let interrupt = {
                let (breakers, cancellation) = (self.breakers.clone(), cancellation.clone());
                move || Interrupt::new(cancellation, Some(SHORT_MOST), Some(breakers))
            };
            let tried = short.run_limited(move || {
                let interrupt = interrupt();
                // A search that waited until nobody wants it any more is not begun.
                interrupt.check()?;
                let found = helpers.beside(|| time(&pace, shape, || search(&interrupt)));
                Ok((!interrupt.is_overdrawn()).then_some(found))
            });
            if let Some(found) = tried.await? {
                return found;
            }
        }
        let (pace, helpers, breakers) = (self.pace.clone(), self.helpers.clone(), self.breakers.clone());
        let last = self.long.run_limited(move || {
            let interrupt = Interrupt::new(cancellation, None, Some(breakers));
            interrupt.check()?;
            helpers.beside(|| time(&pace, shape, || search(&interrupt)))
        });
        last.await
    }
}

/// Runs and notes how long it took.
fn time<T>(pace: &Pace, shape: u64, run: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = run();
    pace.note(shape, begun.elapsed());
    done
}
