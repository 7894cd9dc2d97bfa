//! Running tasks: status, progress, cancel.

use model::Cancellation;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One task, running or finished.
#[derive(Debug)]
pub struct Task {
    /// Number in this process.
    pub id: u64,
    /// `indices:data/write/reindex` and the like.
    pub action: String,
    /// In words.
    pub description: String,
    /// Milliseconds since 1970.
    pub start_ms: i64,
    /// The ids that its client gave the request, by header.
    pub headers: Vec<(&'static str, String)>,
    cancellation: Cancellation,
    status: Mutex<Value>,
    outcome: Mutex<Option<Result<Value, model::Error>>>,
    finished_ms: AtomicU64,
}

impl Task {
    /// Asked to stop?
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }
    /// Done?
    pub fn is_over(&self) -> bool {
        self.finished_ms.load(Ordering::Acquire) != 0
    }
    /// Asks it to stop.
    pub fn cancel(&self) {
        self.cancellation.cancel();
    }
    /// The flag that its work looks at.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }
    /// Tells how far it is.
    pub fn progress(&self, status: Value) {
        *self.status.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = status;
    }
    /// How far it is.
    pub fn status(&self) -> Value {
        self.status.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
    /// Its end, if it has ended.
    pub fn outcome(&self) -> Option<Result<Value, model::Error>> {
        self.outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
    /// Running time in milliseconds up to its end or `now_ms`.
    pub fn running_ms(&self, now_ms: i64) -> i64 {
        match self.finished_ms.load(Ordering::Acquire) {
            0 => now_ms - self.start_ms,
            end => i64::try_from(end).unwrap_or(now_ms) - self.start_ms,
        }
    }
}

/// Every task of the process. Finished ones are kept up to a bound, oldest forgotten first.
#[derive(Debug)]
pub struct Tasks {
    kept_max: usize,
    next: AtomicU64,
    all: Mutex<BTreeMap<u64, Arc<Task>>>,
    stopping: AtomicBool,
}

impl Tasks {
    /// Remembers up to `kept_max` finished tasks (`tasks.max_kept`).
    pub fn new(kept_max: usize) -> Tasks {
        Tasks {
            kept_max,
            next: AtomicU64::new(1),
            all: Mutex::new(BTreeMap::new()),
            stopping: AtomicBool::new(false),
        }
    }
    /// The process is about to end: what goes on after a restart stops where it is.
    pub fn stop_all(&self) {
        self.stopping.store(true, Ordering::Release);
    }
    /// See [`Tasks::stop_all`].
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
    /// A task of an earlier process, under its number; later ones get greater numbers.
    pub fn restore(&self, id: u64, action: &str, description: String, start_ms: i64) -> Arc<Task> {
        self.next.fetch_max(id + 1, Ordering::Relaxed);
        self.enter(id, action, description, Vec::new(), start_ms)
    }
    /// Registers a task.
    pub fn start(&self, action: &str, description: String, now_ms: i64) -> Arc<Task> {
        self.start_for(action, description, Vec::new(), now_ms)
    }
    /// Registers a task of a request with these headers.
    pub fn start_for(&self, action: &str, description: String, headers: Vec<(&'static str, String)>, now_ms: i64) -> Arc<Task> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.enter(id, action, description, headers, now_ms)
    }
    fn enter(
        &self,
        id: u64,
        action: &str,
        description: String,
        headers: Vec<(&'static str, String)>,
        start_ms: i64,
    ) -> Arc<Task> {
        let task = Arc::new(Task {
            id,
            action: action.to_owned(),
            description,
            start_ms,
            headers,
            cancellation: Cancellation::default(),
            status: Mutex::new(Value::Null),
            outcome: Mutex::new(None),
            finished_ms: AtomicU64::new(0),
        });
        let known = self.lock().insert(id, task.clone());
        debug_assert!(known.is_none(), "the number of a task is given once: [{id}]");
        task
    }
    /// Forgets a task that nobody asks for when it is over.
    pub fn remove(&self, id: u64) {
        self.lock().remove(&id);
    }
    /// Ends a task; `keep` its result for `GET _tasks/id`.
    pub fn finish(&self, task: &Task, outcome: Result<Value, model::Error>, keep: bool, now_ms: i64) {
        let before = task
            .outcome
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .replace(outcome);
        debug_assert!(before.is_none(), "task [{}] ends once", task.id);
        task.finished_ms
            .store(u64::try_from(now_ms.max(1)).unwrap_or(1), Ordering::Release);
        let mut all = self.lock();
        if !keep {
            all.remove(&task.id);
        }
        let finished: Vec<u64> = all.iter().filter(|(_, t)| t.outcome().is_some()).map(|(id, _)| *id).collect();
        for id in finished.iter().take(finished.len().saturating_sub(self.kept_max)) {
            all.remove(id);
        }
    }
    /// The task of that number.
    pub fn get(&self, id: u64) -> Option<Arc<Task>> {
        self.lock().get(&id).cloned()
    }
    /// All, oldest first.
    pub fn list(&self) -> Vec<Arc<Task>> {
        self.lock().values().cloned().collect()
    }
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Task>>> {
        self.all.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
