//! The record of a job in the control index, from which a restarted server goes on.
//!
//! `t:N` says what task N is and was asked; `t:N:at` how far it is, written with each batch; `t:N:stop` that it was
//! cancelled. When it has ended, `t:N` has its outcome for a day, if anybody may ask for it, and the others are gone.
//! Over a key of the client, `k:` leads to the task.

use super::Counts;
use super::run::{Destinations, Progress, Reach};
use crate::atomically::Step;
use crate::schema;
use crate::transactions::Key;
use async_recursion::async_recursion as boxed;
use engine::tasks::Task;
use engine::{Cursor, EngineExt as _, Expect, Hide, Newest, Plan, See, Source, TxnOptions, Write, WriteOp};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// How a job is remembered.
#[derive(Clone, Debug)]
pub struct Order {
    /// The request that it can be built from again.
    pub request: Value,
    /// Under which a repetition leads to the same task.
    pub key: Option<Key>,
    /// Its outcome is kept.
    pub keep: bool,
}

/// A task that a restarted server finds.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its number.
    pub number: u64,
    /// As tasks have it.
    pub action: String,
    /// In words.
    pub description: String,
    /// Milliseconds since 1970.
    pub start_ms: i64,
    /// Where it stands.
    pub state: TaskState,
}

/// Where a task stands.
#[derive(Clone, Debug)]
pub enum TaskState {
    /// It has not ended.
    Unfinished {
        /// See [`Order`].
        request: Value,
        /// See [`Order`].
        keep: bool,
        /// For `Relations::resume`.
        kept: Box<Kept>,
    },
    /// It has.
    Ended {
        /// Milliseconds since 1970.
        ended_ms: i64,
        /// Counts as far as it came.
        status: Value,
        /// Its answer, or why there is none.
        outcome: Result<Value>,
    },
}

/// The record of a job that has not ended.
#[derive(Clone, Debug)]
pub struct Kept {
    pub(super) reaches: Vec<Reach>,
    pub(super) total: u64,
    pub(super) started_ms: i64,
    /// Where copies go, as far as it was known when the job began.
    pub(super) destinations: Destinations,
    /// The stamp and the content of its progress, once there is some.
    pub(super) at: Option<(Stamp, Value)>,
}

/// The documents of a task.
#[derive(Clone, Debug)]
pub(super) struct TaskRecord {
    pub(super) number: u64,
    /// The stamp of its progress.
    pub(super) at: Option<Stamp>,
}

fn at(number: u64, part: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new(schema::CONTROL),
        id: DocId::plain(format!("t:{number}{part}")),
    }
}

impl TaskRecord {
    pub(super) fn new(number: u64) -> TaskRecord {
        TaskRecord { number, at: None }
    }
    fn task(&self) -> DocAddress {
        at(self.number, "")
    }
    pub(super) fn progress_at(&self) -> DocAddress {
        at(self.number, ":at")
    }
    pub(super) fn stop(&self) -> DocAddress {
        at(self.number, ":stop")
    }
    /// Documents that each batch reads or writes.
    pub(super) fn touches(&self) -> Vec<DocAddress> {
        vec![self.progress_at(), self.stop()]
    }
    /// How far the job is after a batch, on condition that nobody else has run one.
    pub(super) fn progress(&self, to: &Progress, counts: &Counts, destinations: &Destinations, ended: bool) -> Write {
        let source = self.progress_source(to, counts, destinations, ended);
        let mut write = Write::new(self.progress_at(), WriteOp::Put(source));
        write.expect = self.at.map_or(Expect::Absent, |stamp| Expect::Unchanged {
            seq_no: stamp.seq_no,
            primary_term: stamp.primary_term,
        });
        write
    }
}

/// How far a job is, as its record says.
pub(super) struct Reached {
    pub(super) at: Progress,
    pub(super) counts: Counts,
    pub(super) destinations: Destinations,
    pub(super) ended: bool,
}

/// Destinations as records keep them: an object of names and uuids.
fn destinations_of(source: &Value) -> Destinations {
    let kept = source["destinations"].as_object();
    let one = |(name, uuid): (&String, &Value)| Some((name.clone(), Arc::from(uuid.as_str()?)));
    kept.into_iter().flatten().filter_map(one).collect()
}

fn render_destinations(destinations: &Destinations) -> Value {
    let one = |(name, uuid): (&String, &Arc<str>)| (name.clone(), Value::from(&**uuid));
    Value::Object(destinations.iter().map(one).collect())
}

impl TaskRecord {
    /// The source of how far the job is.
    pub(super) fn progress_source(&self, to: &Progress, counts: &Counts, destinations: &Destinations, ended: bool) -> Source {
        let body = json!({
            "kind": "task_at", "n": self.number, "reach": to.reach, "after": to.after.as_ref().map(Cursor::render), "ended": ended, "counts": counts.keep(),
            "destinations": render_destinations(destinations),
        });
        debug_assert!(
            Reached::of(&body, 1).is_ok_and(|read| read.at == *to && read.ended == ended),
            "a restarted server reads how far a job is as it was written: {body}"
        );
        Source::from_value(&body)
    }
}

impl Reached {
    /// The inverse.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn of(source: &Value, batch: usize) -> Result<Reached> {
        let of = || {
            Some(Reached {
                at: Progress {
                    reach: usize::try_from(source["reach"].as_u64()?).ok()?,
                    after: match &source["after"] {
                        Value::Null => None,
                        kept => Some(Cursor::parse(kept)?),
                    },
                },
                counts: Counts::recall(&source["counts"], batch)?,
                destinations: destinations_of(source),
                ended: source["ended"] == true,
            })
        };
        of().ok_or_else(|| unsound(source))
    }
}

/// The result of writing a job down.
pub(super) enum Written {
    /// It is.
    New,
    /// Its key led to another task.
    Known(u64),
}

impl crate::Relations {
    /// The task that a key leads to.
    ///
    /// # Errors
    /// It was used for another request.
    #[boxed]
    pub async fn task_of(&self, key: &Key) -> Result<Option<u64>> {
        // By intents a stub stands there before its change is decided, and a tombstone after a deletion: neither is an outcome.
        match self.engine.read(vec![engine::Read::whole(key.at())]).await {
            Ok(found) => match found.into_iter().next().flatten() {
                Some(document) => match Key::task_named(&document.source)? {
                    Some(number) if self.is_written_down(number).await? => key.running_task(&document.source),
                    _ => key.task(&document.source, self.kept_now()),
                },
                None => Ok(None),
            },
            Err(e) if e.kind() == ErrorKind::IndexNotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Is there a record of this task? There is while it runs, and of one that is kept for a day after its end.
    async fn is_written_down(&self, number: u64) -> Result<bool> {
        Ok(self.engine.read_one(TaskRecord::new(number).task()).await?.is_some())
    }

    /// Writes a job down before its first batch. `deletes`: that is all it does.
    pub(super) async fn write_down(
        &self,
        task: &Task,
        order: &Order,
        deletes: bool,
        reaches: &[Reach],
        destinations: &Destinations,
        total: u64,
    ) -> Result<Written> {
        let record = TaskRecord::new(task.id);
        let (now_ms, kept_now) = (self.clock.wall_ms(), self.kept_now());
        let source = Source::from_value(&json!({
            "kind": "task", "at": now_ms, "n": task.id, "action": task.action, "description": task.description,
            "start": task.start_ms, "request": order.request, "keep": order.keep, "total": total,
            "reaches": reaches.iter().map(Reach::render).collect::<Vec<_>>(),
            "destinations": render_destinations(destinations),
        }));
        let body = |newest: &mut dyn Newest| {
            let mut plan = Plan::default();
            let mut missing = false;
            if let Some(key) = &order.key {
                match newest.read(&key.at(), See::Everything) {
                    Ok(Some(document)) => {
                        let there = match Key::task_named(&document.source)? {
                            Some(number) => newest.read(&TaskRecord::new(number).task(), See::Everything)?.is_some(),
                            None => false,
                        };
                        let known = match there {
                            true => key.running_task(&document.source)?,
                            false => key.task(&document.source, kept_now)?,
                        };
                        if let Some(number) = known {
                            return Ok(Step::Reply(Written::Known(number)));
                        }
                    }
                    Ok(None) => {}
                    Err(e) if e.kind() == ErrorKind::IndexNotFound => missing = true,
                    Err(e) => return Err(e),
                }
                let write = Write::new(key.at(), WriteOp::Put(key.keep_task(task.id, kept_now)));
                plan.writes.push(write);
            }
            if missing || matches!(newest.index(schema::CONTROL), Err(e) if e.kind() == ErrorKind::IndexNotFound) {
                plan.alterations.push(schema::make_control());
            }
            plan.writes.push(Write::new(record.task(), WriteOp::Put(source.clone())));
            Ok(Step::Commit(plan, Written::New))
        };
        let how = TxnOptions {
            touches: order.key.iter().map(Key::at).chain([record.task()]).collect(),
            makes_room: deletes,
            ..TxnOptions::default()
        };
        self.atomically_once(how, body).await
    }

    /// Tells a job to stop before its next batch, for good. False if it is not written down.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn stop(&self, number: u64) -> Result<bool> {
        let record = TaskRecord::new(number);
        let now_ms = self.clock.wall_ms();
        let body = |newest: &mut dyn Newest| {
            let found = match newest.read(&record.task(), See::Everything) {
                Ok(Some(document)) => document.source.parse()?["kind"] == "task",
                Ok(None) => false,
                Err(e) if e.kind() == ErrorKind::IndexNotFound => false,
                Err(e) => return Err(e),
            };
            if !found {
                return Ok(Step::Reply(false));
            }
            let source = Source::from_value(&json!({ "kind": "task_stop", "at": now_ms, "n": number }));
            let stop = Write::new(record.stop(), WriteOp::Put(source));
            Ok(Step::Commit(Plan::of(vec![stop]), true))
        };
        let how = TxnOptions {
            touches: vec![record.task(), record.stop()],
            // It ends a job, and with it what the job keeps.
            makes_room: true,
            ..TxnOptions::default()
        };
        self.atomically_once(how, body).await
    }

    /// A job that is written down has ended.
    ///
    /// # Errors
    /// The engine's; then a restarted server ends it.
    #[boxed]
    pub async fn end_job(&self, task: &Task, keep: bool, outcome: &Result<Value>) -> Result<()> {
        let record = TaskRecord::new(task.id);
        let now_ms = self.clock.wall_ms();
        let (name, content) = match outcome {
            Ok(value) => ("response", value.clone()),
            Err(error) => {
                let mut members = error.to_json();
                members.insert("status".into(), error.status().into());
                ("error", Value::Object(members))
            }
        };
        let source = Source::from_value(&json!({
            "kind": "task_done", "at": now_ms, "kept": self.kept_now(), "n": task.id, "action": task.action, "description": task.description,
            "start": task.start_ms, "status": task.status(), name: content,
        }));
        let body = |newest: &mut dyn Newest| {
            let mut writes = Vec::new();
            let mut known = false;
            for (n, at) in [record.task(), record.progress_at(), record.stop()].into_iter().enumerate() {
                let there = match newest.read(&at, See::Everything) {
                    Ok(found) => found.is_some(),
                    Err(e) if e.kind() == ErrorKind::IndexNotFound => false,
                    Err(e) => return Err(e),
                };
                known |= n == 0 && there;
                match (there, n == 0 && keep && known) {
                    (true, true) => writes.push(Write::new(at, WriteOp::Put(source.clone()))),
                    // No mark of a batch is kept: all of them are finished.
                    (true, false) => writes.push(Write {
                        hide: Hide::Drop,
                        ..Write::new(at, WriteOp::Delete)
                    }),
                    (false, _) => {}
                }
            }
            Ok(Step::Commit(Plan::of(writes), ()))
        };
        let how = TxnOptions {
            touches: vec![record.task(), record.progress_at(), record.stop()],
            // It ends a job, and with it what the job keeps.
            makes_room: true,
            ..TxnOptions::default()
        };
        self.atomically_once(how, body).await
    }

    /// After a start: every task that is written down, by number.
    ///
    /// # Errors
    /// A control index that cannot be read.
    #[boxed]
    pub async fn tasks_found(&self) -> Result<Vec<Found>> {
        let Some(documents) = self.control_documents(&["task", "task_at", "task_done"]).await? else {
            return Ok(Vec::new());
        };
        let mut reached: std::collections::HashMap<u64, (Stamp, Value)> = std::collections::HashMap::new();
        let mut tasks = Vec::new();
        for document in documents {
            let source = document.source.parse()?;
            match (source["kind"].as_str(), source["n"].as_u64()) {
                (Some("task_at"), Some(number)) => drop(reached.insert(number, (document.stamp, source))),
                (Some(_), Some(number)) => tasks.push((number, source)),
                _ => return Err(unsound(&source)),
            }
        }
        tasks.sort_by_key(|(number, _)| *number);
        tasks
            .into_iter()
            .map(|(number, source)| parse_found(number, &source, reached.remove(&number)).ok_or_else(|| unsound(&source)))
            .collect()
    }
}

/// Can a start read this record of a task, or of how far one came?
pub(crate) fn is_sound(source: &Value) -> bool {
    let Some(number) = source["n"].as_u64() else { return false };
    match source["kind"].as_str() {
        Some("task" | "task_done") => parse_found(number, source, None).is_some(),
        _ => true,
    }
}

fn unsound(source: &Value) -> Error {
    Error::new(ErrorKind::Corruption, format!("no sound record of a task: {source}"))
}

fn parse_found(number: u64, source: &Value, at: Option<(Stamp, Value)>) -> Option<Found> {
    let text = |name: &str| source[name].as_str().map(str::to_owned);
    let start_ms = source["start"].as_i64()?;
    let state = if source["kind"] == "task" {
        TaskState::Unfinished {
            request: source["request"].clone(),
            keep: source["keep"].as_bool()?,
            kept: Box::new(Kept {
                reaches: source["reaches"]
                    .as_array()?
                    .iter()
                    .map(Reach::parse)
                    .collect::<Option<_>>()?,
                total: source["total"].as_u64()?,
                started_ms: source["at"].as_i64()?,
                destinations: destinations_of(source),
                at,
            }),
        }
    } else {
        let outcome = match source.get("error").and_then(Value::as_object) {
            Some(members) => Err(error_of(members, 0)),
            None => Ok(source["response"].clone()),
        };
        TaskState::Ended {
            ended_ms: source["at"].as_i64()?,
            status: source["status"].clone(),
            outcome,
        }
    };
    Some(Found {
        number,
        action: text("action")?,
        description: text("description")?,
        start_ms,
        state,
    })
}

/// An error as it was kept.
fn error_of(members: &Map<String, Value>, depth: usize) -> Error {
    let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
    let kind = ErrorKind::ALL.iter().find(|kind| kind.wire() == text("type")).copied();
    let mut error = Error::new(kind.unwrap_or(ErrorKind::Internal), text("reason"));
    if let Some(status) = members.get("status").and_then(Value::as_u64) {
        error = error.status_of(u16::try_from(status).unwrap_or(500));
    }
    for (name, value) in members {
        if !["type", "reason", "status", "caused_by"].contains(&name.as_str()) {
            error = error.with(name, value.clone());
        }
    }
    match members.get("caused_by").and_then(Value::as_object) {
        Some(cause) if depth < 20 => error.with_cause(error_of(cause, depth + 1)),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of one shard have numbers, as they always had; those of several shards have lists.
    #[test]
    fn places_are_recalled() {
        for (last, after) in [
            (json!(41), json!(7)),
            (json!([41, 3]), json!([7, null])),
            (json!(41), Value::Null),
        ] {
            let reach = json!(["a", "uuid", last]);
            assert_eq!(Reach::parse(&reach).map(|reach| reach.render()), Some(reach));
            let counts = Counts::default();
            let kept = json!({ "reach": 2, "after": after, "counts": counts.keep(), "ended": false });
            let reached = Reached::of(&kept, 10).expect("a sound record");
            let again = TaskRecord::new(1).progress_source(&reached.at, &counts, &reached.destinations, false);
            assert_eq!(again.parse().expect("JSON")["after"], after);
            assert_eq!(reached.at.reach, 2);
        }
        for unsound in [json!("7"), json!(-1), json!({})] {
            let kept = json!({ "reach": 0, "after": unsound, "counts": Counts::default().keep() });
            assert!(Reached::of(&kept, 10).is_err(), "{unsound}");
        }
    }

    #[test]
    fn an_error_is_recalled() {
        let error = Error::new(ErrorKind::LockExpired, "over")
            .with("lock", "n1:1")
            .with_cause(Error::illegal("why"));
        let mut kept = error.to_json();
        kept.insert("status".into(), 409.into());
        assert_eq!(error_of(&kept, 0).to_json(), error.to_json());
        assert_eq!(error_of(&kept, 0).status(), 409);
    }
}
