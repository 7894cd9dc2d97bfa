//! Time, chance and who runs next, all from one seed. Nothing here sleeps: time is a number that moves on when
//! everybody waits.

use async_trait::async_trait;
use engine::Clock;
use relations::intents::Pause;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What everybody shares. One thread runs it; the lock is for the traits' sake.
#[derive(Debug)]
pub(crate) struct World(Mutex<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    random: u64,
    pub(crate) now: Duration,
    /// Of the task that runs.
    sleeps_until: Option<Duration>,
    /// It lets others run, and goes on whatever they do.
    turned: bool,
    dies: bool,
    pub(crate) task: usize,
    /// Polls so far: real time, for what must be in its order.
    pub(crate) turns: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Arc<World> {
        Arc::new(World(Mutex::new(Inner {
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03,
            now: Duration::from_secs(1_000),
            sleeps_until: None,
            turned: false,
            dies: false,
            task: 0,
            turns: 0,
        })))
    }
    pub(crate) fn get(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// splitmix64.
    pub(crate) fn chance(&self) -> u64 {
        let mut inner = self.get();
        inner.random = inner.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = inner.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&self, bound: usize) -> usize {
        (self.chance() % bound.max(1) as u64) as usize
    }
    /// Once in so many times; never for 0.
    pub(crate) fn once_in(&self, times: u32) -> bool {
        times > 0 && self.chance().is_multiple_of(u64::from(times))
    }
    /// Lets others run.
    pub(crate) fn turn(&self) -> impl Future<Output = ()> + Send {
        let mut passed = false;
        std::future::poll_fn(move |_| {
            if std::mem::replace(&mut passed, true) {
                Poll::Ready(())
            } else {
                self.get().turned = true;
                Poll::Pending
            }
        })
    }
    /// Waits in this world's time.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let until = self.get().now + duration;
        while self.get().now < until {
            self.get().sleeps_until = Some(until);
            self.turn().await;
        }
    }
    /// The task that calls this never comes back.
    pub(crate) async fn die(&self) {
        self.get().dies = true;
        std::future::pending::<()>().await;
    }
}

#[derive(Debug)]
pub(crate) struct SimClock(pub Arc<World>);

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        self.0.get().now
    }
    /// It jumps by up to twelve hours, on purpose: no more, since kept outcomes are forgotten after a day.
    fn wall_ms(&self) -> i64 {
        1_700_000_000_000 + self.0.below(12 * 3_600_000) as i64
    }
    fn random(&self) -> u64 {
        self.0.chance()
    }
}

#[derive(Debug)]
pub(crate) struct SimPause(pub Arc<World>);

#[async_trait]
impl Pause for SimPause {
    async fn pause(&self, duration: Duration) {
        self.0.sleep(duration).await;
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks in an order that the seed decides.
pub(crate) struct Scheduler {
    world: Arc<World>,
    /// Each with the time until which it sleeps.
    tasks: Vec<(Option<Task>, Duration)>,
    /// Those that wait for another one: a turn of theirs changes nothing until that has had one.
    waits: Vec<bool>,
    pub(crate) died: Vec<bool>,
}

impl Scheduler {
    pub(crate) fn new(world: Arc<World>) -> Scheduler {
        Scheduler {
            world,
            tasks: Vec::new(),
            waits: Vec::new(),
            died: Vec::new(),
        }
    }
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push((Some(Box::pin(task)), Duration::ZERO));
        self.waits.push(false);
        self.died.push(false);
    }
    /// Until everybody is through or dead.
    ///
    /// # Errors
    /// Somebody is not through after so many turns.
    pub(crate) fn run(&mut self, turns_max: u64) -> Result<(), String> {
        let mut context = Context::from_waker(Waker::noop());
        // Turns since somebody came on.
        let mut idle = 0;
        for _ in 0..turns_max {
            let now = self.world.get().now;
            let alive = || (0..self.tasks.len()).filter(|n| self.tasks[*n].0.is_some());
            let ready: Vec<usize> = alive().filter(|n| self.tasks[*n].1 <= now).collect();
            // Where all wait for one another each has a few turns, to find out, before time goes on.
            let all_wait = ready.iter().all(|n| self.waits[*n]);
            if all_wait && idle >= 4 * ready.len() {
                let Some(next) = alive().map(|n| self.tasks[n].1).filter(|wakes| *wakes > now).min() else {
                    break;
                };
                self.world.get().now = next;
                idle = 0;
                continue;
            }
            let n = match all_wait {
                true => ready[idle % ready.len()],
                false => ready[self.world.below(ready.len())],
            };
            idle = if all_wait { idle + 1 } else { 0 };
            {
                let mut inner = self.world.get();
                inner.task = n;
                inner.turns += 1;
                (inner.sleeps_until, inner.turned, inner.dies) = (None, false, false);
            }
            let (task, wakes) = &mut self.tasks[n];
            let through = task.as_mut().is_some_and(|task| task.as_mut().poll(&mut context).is_ready());
            let mut inner = self.world.get();
            self.waits[n] = inner.sleeps_until.is_none() && !inner.turned;
            *wakes = inner.sleeps_until.take().unwrap_or(Duration::ZERO);
            if through || inner.dies {
                self.died[n] = inner.dies;
                // A future that is dropped mid-way is a process that stopped there.
                drop(inner);
                *task = None;
            }
        }
        let stuck: Vec<usize> = (0..self.tasks.len()).filter(|n| self.tasks[*n].0.is_some()).collect();
        if stuck.is_empty() {
            return Ok(());
        }
        Err(format!("tasks {stuck:?} are not through after {turns_max} turns"))
    }
}
