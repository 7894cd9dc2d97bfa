//! Work that nobody asks for: refreshes in time, builds when much is pending, checkpoints, merges, forgetting.
//!
//! Three threads for the folder, however many indices there are; only dirty indices are looked at.
//!
//! Not here: how any of it is done.

use crate::background_failures::{Work, panic_error, tell};
use crate::publish::PartBytes;
use crate::store::Store;
use crate::thread_priority::{self, BUILDS, MERGES};
use model::units::parse_duration_or_never;
use model::{Error, ErrorKind, Result, settings};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(50);
/// An index without an explicit interval is refreshed by the timer while it was searched so recently.
const SEARCHED_WITHIN_MS: u64 = 30_000;
const BUILD_AT_BYTES: u64 = 16 << 20;
const BUILD_AT_OPS: usize = 20_000;
/// So many waiters force a refresh.
pub(crate) const FORCED_AT_WAITERS: u64 = 1000;
const CHECKPOINT_EACH: Duration = Duration::from_secs(300);

/// When an index is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interval {
    /// Not said: one second, while it is searched.
    Default,
    /// So often.
    Each(Duration),
    /// Only when asked.
    Never,
}

impl Store {
    pub(crate) fn interval(&self, no: u32) -> Interval {
        let catalog = self.catalog.load();
        let Some(entry) = catalog.by_no(no) else {
            return Interval::Never;
        };
        match entry.settings.get(settings::REFRESH_INTERVAL.name).and_then(|v| v.as_str()) {
            None => Interval::Default,
            Some(text) => match parse_duration_or_never(text, settings::REFRESH_INTERVAL.name) {
                Ok(Some(each)) => Interval::Each(each),
                _ => Interval::Never,
            },
        }
    }

    /// Refreshes and builds the indices that are due now.
    pub(crate) fn refresh_due(&self) {
        let dirty: Vec<u32> = self.maintenance.dirty();
        let now = self.env.monotonic();
        let crowded = self.write_path.pending_bytes() * 4 > self.env.limits().pending_bytes * 3;
        let mut publish = Vec::new();
        for no in dirty {
            let Some(state) = self.indices.get(no) else {
                continue;
            };
            if state.check().is_err() || !self.maintenance.failures().due(Work::Refresh, no, now) {
                continue;
            }
            let (age, bytes, ops) = {
                let pending = state.pending();
                let age = pending.oldest().map(|oldest| now.saturating_sub(oldest));
                (age, pending.bytes(), pending.len())
            };
            let Some(age) = age else { continue };
            let searched = state.was_searched_within(self.env.now_ms(), SEARCHED_WITHIN_MS);
            let waited = state.waiters() > 0;
            let due = match self.interval(no) {
                Interval::Never => false,
                Interval::Default => (searched || waited) && age >= Duration::from_secs(1),
                Interval::Each(each) => age >= each,
            };
            if due || state.waiters() >= FORCED_AT_WAITERS {
                publish.push(no);
            } else if bytes > BUILD_AT_BYTES || ops > BUILD_AT_OPS || crowded {
                self.attempt(Work::Refresh, no, || {
                    self.build_to(&state, self.durable_now(), PartBytes::Unhurried)
                });
            }
        }
        if publish.is_empty() {
            return;
        }
        let together = {
            let _running = self.env.limits().long_work.begin();
            catch_unwind(AssertUnwindSafe(|| self.publish(&publish, 0)))
        };
        for no in publish {
            match together {
                Ok(Ok(())) => self.maintenance.failures().record_success(Work::Refresh, no),
                // One of them fails; the others need not.
                _ => drop(self.attempt(Work::Refresh, no, || self.publish(&[no], 0))),
            }
        }
    }

    /// Makes a checkpoint if one is due.
    pub(crate) fn checkpoint_due(&self) {
        let now = self.env.monotonic();
        let (bytes, ops) = (
            self.maintenance.unflushed_log().bytes(),
            self.maintenance.unflushed_log().ops(),
        );
        let much = bytes >= self.env.limits().checkpoint_bytes.min(self.env.limits().log_max_bytes / 2)
            || ops >= self.env.limits().checkpoint_ops;
        let old = self.maintenance.unflushed_log().age(now) > CHECKPOINT_EACH;
        // Views may hold on to memory that a checkpoint has moved: it is not tried again at once.
        let full = || {
            self.segments.ram_bytes() * 4 > self.env.limits().ram_segment_bytes * 3
                && now.saturating_sub(self.maintenance.lock_checkpoint().at()) > Duration::from_secs(1)
        };
        // A small or full disk has no room for a log of the usual length: a checkpoint gives back what it covers.
        let tight = || {
            bytes > 0
                && bytes >= self.env.disk().free_bytes(self.env.dir()).unwrap_or(u64::MAX) / 3
                && now.saturating_sub(self.maintenance.lock_checkpoint().at()) > Duration::from_secs(1)
        };
        let replayed = self.maintenance.has_replayed();
        if (much || old || replayed || full() || tight()) && self.maintenance.failures().due(Work::Checkpoint, 0, now) {
            self.attempt(Work::Checkpoint, 0, || self.checkpoint(false));
        }
    }

    /// One round of merges; true if there was any.
    pub(crate) fn merge_due(&self) -> bool {
        let mut states = self.indices.all();
        states.retain(|state| state.load_built().segments.len() > 1 && !state.is_stopped());
        let mut any = false;
        for state in states {
            if self.maintenance.is_stopping() {
                return false;
            }
            if self.maintenance.failures().due(Work::Merge, state.no(), self.env.monotonic()) {
                // A merge that the stop interrupts has not failed.
                let merge = || match self.merge_once(&state) {
                    Err(_) if self.maintenance.is_stopping() => Ok(false),
                    done => done,
                };
                any |= self.attempt(Work::Merge, state.no(), merge).unwrap_or(false);
            }
        }
        any
    }

    /// Does work that nobody waits for. What fails, by a panic too, is kept and tried again later.
    fn attempt<T>(&self, work: Work, no: u32, run: impl FnOnce() -> Result<T>) -> Option<T> {
        let _running = self.env.limits().long_work.begin();
        let done = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(panic_error("it")));
        match done {
            Ok(done) => {
                self.maintenance.failures().record_success(work, no);
                Some(done)
            }
            Err(error) => {
                self.trouble(work, no, error);
                None
            }
        }
    }

    pub(crate) fn forget_tombstones(&self) {
        let catalog = self.catalog.now();
        let keep = |no: u32| {
            let text = catalog.by_no(no).map_or_else(
                || "60s".to_owned(),
                |entry| settings::text(&entry.settings, settings::GC_DELETES),
            );
            let kept = parse_duration_or_never(&text, settings::GC_DELETES.name).ok().flatten();
            kept.map_or(60_000, |kept| u64::try_from(kept.as_millis()).unwrap_or(u64::MAX))
        };
        self.versions.forget(self.env.now_ms(), keep);
    }
}

/// The threads.
pub(crate) struct Upkeep(Vec<JoinHandle<()>>);

impl Upkeep {
    pub(crate) fn start(store: &Arc<Store>) -> Result<Upkeep> {
        let refresh = |store: &Store, round: u64| {
            store.refresh_due();
            if round.is_multiple_of(100) {
                store.forget_tombstones();
                store.expire_views();
                // Damage that a search came across and could not tell of.
                drop(store.find_damage());
            }
        };
        let checkpoint = |store: &Store, _: u64| store.checkpoint_due();
        let merge = |store: &Store, _: u64| while store.merge_due() {};
        Ok(Upkeep(vec![
            spawn("pleach-refresh", BUILDS, store.clone(), refresh)?,
            spawn("pleach-checkpoint", BUILDS, store.clone(), checkpoint)?,
            spawn("pleach-merge", MERGES, store.clone(), merge)?,
        ]))
    }
    /// Waits for the threads; `Store::stopping` is set.
    pub(crate) fn join(self) {
        for thread in self.0 {
            drop(thread.join());
        }
    }
}

fn spawn(name: &str, nice: i32, store: Arc<Store>, each: impl Fn(&Store, u64) + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = name.to_owned();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            thread_priority::lower(nice);
            let mut round = 0;
            while !store.maintenance.is_stopping() {
                if catch_unwind(AssertUnwindSafe(|| each(&store, round))).is_err() {
                    tell(&format!("a round of [{thread}] panicked; the next goes on"));
                    std::thread::sleep(Duration::from_secs(1));
                }
                round += 1;
                store.maintenance.wait_for_work(TICK);
            }
        })
        .map_err(|e| Error::new(ErrorKind::Internal, format!("starting a thread failed: {e}")))
}
