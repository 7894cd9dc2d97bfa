//! The options of a transaction, and a bulk that is one.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::bulk::{Planned, failure_item, settle, text};
use crate::actions::locks::wait_for;
use crate::actions::writes::{conflict_error, creates, dialect_of, head};
use crate::blocking::{Through, aside, is_scripted};
use crate::call::Call;
use crate::envelope;
use crate::respond::Answer;
use dsl::document::TransactionItem;
use dsl::search::SourceSpec;
use engine::{Inspected, Inspection, Outcome, Refresh, Write, WriteOp};
use model::{Error, ErrorKind, Result, settings, units};
use relations::leases::Turn;
use relations::transactions::{Change, Committed, Digest, Key, NotDone, Operation, Verdict};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Parameters of the URL that every change takes.
pub(crate) struct TransactionOptions {
    pub(crate) key: Option<String>,
    pub(crate) timeout: Option<Duration>,
    /// Locks that the client holds.
    pub(crate) locks: Vec<String>,
}

/// Changes of more operations are decided aside.
pub(crate) const INLINE_OPERATIONS: usize = 64;

/// How long a change waits before it is decided, unless it says otherwise.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

impl TransactionOptions {
    pub(crate) fn take(call: &mut Call) -> Result<TransactionOptions> {
        let out = TransactionOptions {
            key: call.params.take("idempotency_key"),
            timeout: call.params.take_duration("timeout")?,
            locks: call.take_locks()?,
        };
        // Here both mean the same: one process decides and applies at once.
        match call.params.take("ack").as_deref() {
            None | Some("applied" | "committed") => Ok(out),
            Some(other) => Err(Error::illegal(format!(
                "[ack] must be one of [applied, committed] but was [{other}]"
            ))),
        }
    }
}

/// Bounds of a change, and whether it may make indices.
pub(crate) struct TransactionLimits {
    operations_max: u64,
    bytes_max: u64,
    pub(crate) auto_create: bool,
}

impl TransactionLimits {
    /// The same for a job that is one change.
    pub(crate) fn whole(&self) -> relations::jobs::Whole {
        relations::jobs::Whole {
            operations_max: self.operations_max,
            bytes_max: self.bytes_max,
            operations_setting: settings::CHANGES_MAX_OPERATIONS.name,
            bytes_setting: settings::CHANGES_MAX_BYTES.name,
        }
    }
    pub(crate) async fn of(call: &Call) -> Result<TransactionLimits> {
        let given = match call.rest.engine.inspect(Inspection::ClusterSettings).await? {
            Inspected::ClusterSettings {
                mut persistent,
                transient,
            } => {
                persistent.extend(transient);
                persistent
            }
            _ => Map::new(),
        };
        let bytes = settings::text(&given, settings::CHANGES_MAX_BYTES);
        Ok(TransactionLimits {
            operations_max: settings::number(&given, settings::CHANGES_MAX_OPERATIONS),
            bytes_max: units::parse_bytes(&bytes, settings::CHANGES_MAX_BYTES.name)?,
            auto_create: settings::text(&given, settings::AUTO_CREATE_INDEX) != "false",
        })
    }
    pub(crate) fn check_bytes(&self, bytes: usize) -> Result<()> {
        if bytes as u64 <= self.bytes_max {
            return Ok(());
        }
        let (max, name) = (self.bytes_max, settings::CHANGES_MAX_BYTES.name);
        let reason = format!("a change of [{bytes}] bytes is too long; the limit of [{max}] is the setting [{name}]");
        Err(Error::new(ErrorKind::ContentTooLong, reason))
    }
    pub(crate) fn check_operations(&self, count: usize) -> Result<()> {
        if count as u64 <= self.operations_max {
            return Ok(());
        }
        let (max, name) = (self.operations_max, settings::CHANGES_MAX_OPERATIONS.name);
        Err(Error::illegal(format!(
            "a change of [{count}] operations is too long; the limit of [{max}] is the setting [{name}]"
        )))
    }
}

/// `_bulk?atomic=true`.
pub(crate) async fn atomic_bulk(
    call: &Call,
    planned: Vec<Planned>,
    default: &SourceSpec,
    options: TransactionOptions,
    limits: &TransactionLimits,
    refresh: Refresh,
) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    let change = Change {
        guards: guards(&options, planned.iter()),
        key: key(call, &options)?,
        refresh,
        caller: call.caller.clone(),
        ..Change::of(planned.iter().map(|p| operation(call, p, default, limits)).collect())
    };
    let verdict = decide(call, change, &options).await?;
    let took = u64::try_from((call.rest.clock.monotonic() - start).as_millis()).unwrap_or(u64::MAX);
    match verdict {
        Verdict::Waits(..) => Err(timeout_error()),
        Verdict::Committed(done) => {
            let seq = done.commit_seq;
            let mut out = format!("{{\"took\":{took},\"errors\":false,\"atomic\":true,\"commit_seq\":{seq}");
            if done.replayed {
                out.push_str(",\"replayed\":true");
            }
            items_done(call, &planned, default, done, &[], &mut out).await?;
            out.push('}');
            Ok(Answer::raw(out))
        }
        Verdict::Failed(failures) => {
            let (status, error, items) = not_done(call, &planned, &failures.operations).await;
            let mut out = Map::new();
            out.insert("took".into(), took.into());
            out.insert("errors".into(), true.into());
            out.insert("atomic".into(), true.into());
            out.insert("error".into(), error);
            out.insert("items".into(), items);
            out.insert("status".into(), status.into());
            Ok(Answer::of(status, Value::Object(out)))
        }
    }
}

pub(crate) async fn plan(call: &Call, items: &[TransactionItem]) -> Vec<Planned> {
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        out.push(Planned::new(call, item.item(), None).await);
    }
    out
}

pub(crate) fn operation(call: &Call, planned: &Planned, default: &SourceSpec, limits: &TransactionLimits) -> Operation {
    let spec = if planned.spec == SourceSpec::Default {
        default
    } else {
        &planned.spec
    };
    let (write, error) = match &planned.write {
        Ok(write) => (write.clone(), None),
        Err(error) => (Write::new(planned.at.clone(), WriteOp::Delete), Some(error.clone())),
    };
    let makes = limits.auto_create && creates(&write, call.dialect);
    Operation {
        label: planned.label,
        creates: makes.then(|| dialect_of(&write, call.dialect).rules.has_types),
        wants_source: planned.label == "update" && !matches!(spec, SourceSpec::Default | SourceSpec::None),
        write,
        error,
    }
}

pub(crate) fn key(call: &Call, options: &TransactionOptions) -> Result<Option<Key>> {
    call.key(options.key.as_deref(), || {
        Digest::of(&[call.params.path().as_bytes(), &call.body])
    })
}

/// The locks of the URL and the body, and those of the lines.
pub(crate) fn guards<'a>(options: &TransactionOptions, planned: impl Iterator<Item = &'a Planned>) -> Vec<String> {
    let mut ids = options.locks.clone();
    ids.extend(planned.flat_map(|planned| planned.locks.iter().cloned()));
    ids.sort_unstable();
    ids.dedup();
    ids
}

pub(crate) fn timeout_error() -> Error {
    Error::new(
        ErrorKind::LockConflict,
        "the locks of the change were not free in time; nothing was changed",
    )
}

/// Decides a change: a lost connection stops nothing that was begun.
pub(crate) async fn decide(call: &Call, mut change: Change, options: &TransactionOptions) -> Result<Verdict> {
    let relations = call.rest.relations.clone();
    let makes = {
        let mut all = change.operations.iter().chain(&change.otherwise);
        all.any(|o| o.creates.is_some() && !call.rest.knows(o.write.at.index.as_str()))
    };
    let scripted = |o: &Operation| is_scripted(&o.write);
    let long = change.operations.len() > INLINE_OPERATIONS || change.operations.iter().chain(&change.otherwise).any(scripted);
    let timeout = options.timeout.unwrap_or(TIMEOUT);
    let until = tokio::time::Instant::now() + timeout;
    change.wait = !timeout.is_zero();
    let mut change = Arc::new(change);
    let rest = call.rest.clone();
    let done = Through::new(async move {
        // Dropped on every way out, it gives the place in the queue up.
        let mut turn: Option<Turn> = None;
        loop {
            let (relations, attempt) = (relations.clone(), change.clone());
            // Boxed where it is made: it is large, and each step on its way would copy it.
            let deciding = Box::pin(async move { relations.change(&attempt).await });
            let verdict = aside(long, deciding).await?;
            let Verdict::Waits(next, place) = verdict else {
                return Ok(verdict);
            };
            if let Some(turn) = turn.take() {
                turn.keep();
            }
            let wait = wait_for(&rest, turn.insert(next), until).await?.is_some();
            let change = Arc::make_mut(&mut change);
            (change.place, change.wait) = (Some(place), wait);
        }
    })
    .await;
    if makes {
        // It may have made an index that was known to be missing.
        call.rest.forget_known();
    }
    done
}

/// Adds the items of a change that is done to its answer: most are what a bulk says of a write, as text. `more` stand behind them.
pub(crate) async fn items_done(
    call: &Call,
    planned: &[Planned],
    default: &SourceSpec,
    done: Committed,
    more: &[Value],
    out: &mut String,
) -> Result<()> {
    assert_eq!(
        planned.len(),
        done.items.len(),
        "each operation of a change that is done has its item"
    );
    out.push_str(",\"items\":[");
    out.reserve(done.items.len() * 200);
    for (n, (planned, item)) in planned.iter().zip(done.items).enumerate() {
        if n > 0 {
            out.push(',');
        }
        if planned.says_no_more(call, &item.written, default)? {
            text(out, &call.rest, planned.label, &item.written, call.dialect).await;
        } else {
            let (body, _) = settle(planned, Outcome::Written(item.written), default, call).await?;
            out.push_str(&json!({ planned.label: body }).to_string());
        }
    }
    for (n, item) in more.iter().enumerate() {
        if n > 0 || !planned.is_empty() {
            out.push(',');
        }
        out.push_str(&item.to_string());
    }
    out.push(']');
    Ok(())
}

/// Status, error and items of a change that failed.
pub(crate) async fn not_done(call: &Call, planned: &[Planned], failures: &[NotDone]) -> (u16, Value, Value) {
    assert_eq!(
        planned.len(),
        failures.len(),
        "each operation of a change that failed has its reason"
    );
    let mut items = Vec::with_capacity(failures.len());
    let mut first: Option<Error> = None;
    let mut count = 0;
    for (planned, failure) in planned.iter().zip(failures) {
        let error = match failure {
            NotDone::NotApplied => {
                let mut body = head(&planned.at, call.dialect);
                body.insert("result".into(), "not_applied".into());
                body.insert("status".into(), 424.into());
                items.push(json!({ planned.label: body }));
                continue;
            }
            NotDone::Conflict(conflict) => conflict_error(conflict, call.dialect),
            NotDone::Refused(error) => error.clone(),
        };
        count += 1;
        items.push(json!({ planned.label: failure_item(planned, error.clone(), call).await }));
        first.get_or_insert(error);
    }
    let first = first.unwrap_or_else(|| Error::new(ErrorKind::Internal, "a change failed without a reason"));
    let status = envelope::status(&first, call.dialect);
    let kind = if status == 409 {
        ErrorKind::TransactionConflict
    } else {
        ErrorKind::TransactionFailed
    };
    let reason = format!("{count} of {} operations failed; nothing was changed", failures.len());
    let error = Error::new(kind, reason).status_of(status).with_cause(first);
    (
        status,
        envelope::render(&error, call.dialect)["error"].clone(),
        Value::Array(items),
    )
}
