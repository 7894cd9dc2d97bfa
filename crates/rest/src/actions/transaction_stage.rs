//! Writes that are staged in a transaction which is held open.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::Rest;
use crate::actions::transaction::TransactionOptions;
use crate::actions::writes::{Guarded, WriteOutcome, answer, creates, dialect_of, status};
use crate::call::Call;
use crate::envelope;
use crate::respond::Answer;
use dsl::query::Query;
use engine::{Expect, Outcome, WriteOp};
use model::{Dialect, Error, ErrorKind, Result, Target, settings};
use relations::lock_documents::not_staged;
use relations::transactions::Committed;
use relations::transactions::interactive::{ByQuery, HeldWrite};
use serde_json::{Map, Value, json};

pub(crate) async fn render_commit(call: &Call, id: &str, done: Committed, took: u64) -> Result<Answer> {
    let mut out = Map::new();
    out.insert("took".into(), took.into());
    out.insert("id".into(), id.into());
    out.insert("committed".into(), true.into());
    out.insert("commit_seq".into(), done.commit_seq.into());
    if done.replayed {
        out.insert("replayed".into(), true.into());
    }
    let mut items = Vec::with_capacity(done.items.len());
    for item in done.items {
        let mut body = answer(&call.rest, &item.written, item.label, call.dialect).await;
        body.insert("status".into(), status(&item.written).into());
        items.push(json!({ item.label: body }));
    }
    out.insert("items".into(), items.into());
    Ok(Answer::ok(Value::Object(out)))
}

/// Stages writes in a transaction.
pub(crate) async fn stage(rest: &Rest, id: &str, writes: Vec<Guarded>, dialect: Dialect) -> Result<Vec<WriteOutcome>> {
    let auto_create = settings::text(&rest.cluster_settings().await?, settings::AUTO_CREATE_INDEX) != "false";
    let mut sent: Vec<Option<WriteOutcome>> = Vec::with_capacity(writes.len());
    let mut staged = Vec::with_capacity(writes.len());
    for guarded in writes {
        let at = &guarded.write.at;
        let known = rest.index_facts(at.index.as_str()).await;
        if known.is_some_and(|known| known.is_lock(&at.id)) {
            sent.push(Some(Outcome::Refused(not_staged(at)).into()));
        } else {
            sent.push(None);
            staged.push(guarded);
        }
    }
    let held = staged.into_iter().map(|guarded| HeldWrite {
        label: match (&guarded.write.op, guarded.write.expect) {
            (WriteOp::Put(_), Expect::Absent) => "create",
            (WriteOp::Put(_), _) => "index",
            (WriteOp::Update(_), _) => "update",
            (WriteOp::Delete, _) => "delete",
        },
        creates: (auto_create && creates(&guarded.write, dialect)).then(|| dialect_of(&guarded.write, dialect).rules.has_types),
        write: guarded.write,
        locks: guarded.locks,
    });
    let (relations, id) = (rest.relations.clone(), id.to_owned());
    let held: Vec<HeldWrite> = held.collect();
    let count = held.len();
    // A lost connection stops nothing that was begun.
    let done = tokio::spawn(async move { relations.stage_held(&id, held).await }).await;
    let outcomes: Vec<Outcome> = done.map_err(|cause| {
        let reason = format!("staging ended by a fault of the server: {cause}");
        Error::new(ErrorKind::Internal, reason)
    })??;
    assert_eq!(outcomes.len(), count, "each write that was staged has its outcome");
    let mut outcomes = outcomes.into_iter().map(WriteOutcome::from);
    let next = |sent: Option<WriteOutcome>| sent.or_else(|| outcomes.next()).unwrap_or_else(|| Outcome::Unknown.into());
    Ok(sent.into_iter().map(next).collect())
}

/// `_delete_by_query` and `_update_by_query` in a transaction: staged in one step.
pub(crate) async fn by_query(
    call: &Call,
    id: String,
    (target, query): (Target, Query),
    what: ByQuery,
    (max_docs, wait): (Option<u64>, bool),
) -> Result<Answer> {
    if !wait {
        let reason = "[wait_for_completion=false] has no place in a transaction: what is found is staged before the answer";
        return Err(Error::illegal(reason));
    }
    let start = call.rest.clock.monotonic();
    let deletes = matches!(what, ByQuery::Delete) && !call.dialect.rules.deletions_count_updates;
    let (relations, of) = (call.rest.relations.clone(), id.clone());
    // A lost connection stops nothing that was begun.
    let done = tokio::spawn(async move { relations.stage_by_query(&of, &target, query, &what, max_docs).await }).await;
    let counts = done.map_err(|cause| {
        let reason = format!("staging ended by a fault of the server: {cause}");
        Error::new(ErrorKind::Internal, reason)
    })??;
    let took = u64::try_from((call.rest.clock.monotonic() - start).as_millis()).unwrap_or(u64::MAX);
    let mut status = 200;
    let mut failures = Vec::with_capacity(counts.failures.len());
    for (at, error) in &counts.failures {
        status = status.max(envelope::status(error, call.dialect));
        failures.push(json!({
            "index": at.index.as_str(), "id": &*at.id.id, "cause": error.to_json(), "status": envelope::status(error, call.dialect),
        }));
    }
    let mut out = json!({
        "took": took, "timed_out": false, "total": counts.total, "updated": counts.updated, "deleted": counts.deleted,
        "batches": u64::from(counts.total > 0), "version_conflicts": 0, "noops": counts.noops, "retries": { "bulk": 0, "search": 0 },
        "throttled_millis": 0, "requests_per_second": -1.0, "throttled_until_millis": 0, "failures": failures, "transaction": id,
    });
    if let (true, Some(members)) = (deletes, out.as_object_mut()) {
        members.remove("updated");
    }
    Ok(Answer::of(status, out))
}

/// Options of a change that a transaction has by itself.
pub(crate) fn refuse_atomic(options: Option<&TransactionOptions>, transaction: Option<&str>) -> Result<()> {
    if options.is_some() && transaction.is_some() {
        let reason = "[atomic] and [transaction] exclude each other: what is staged in a transaction is committed as one change";
        return Err(Error::illegal(reason));
    }
    Ok(())
}
