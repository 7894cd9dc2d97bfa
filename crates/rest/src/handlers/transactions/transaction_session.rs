//! Transactions that are held open: `_transaction/_begin`, `_commit`, `_abort`, and how they stand.
//!
//! What is read and written in one goes through the document APIs, with `transaction=ID`: see [`stage`], which they send
//! their writes to, and `visibility`, which has their reads.
//!
//! Not here: what a transaction is (`relations::transactions::interactive`), changes of one request (`transaction`).

use crate::actions::transaction_stage::render_commit;
use crate::actions::writes::{conflict_error, head};
use crate::call::Call;
use crate::envelope;
use crate::parameter_table;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, num};
use async_recursion::async_recursion as boxed;
use dsl::document::lock_ids;
use dsl::json::Node;
use model::{Dialect, Error, ErrorKind, Result, Stamp, settings, units};
use relations::intents::{NotApplied, RecordState};
use relations::leases::millis_of;
use relations::transactions::interactive::{Begin, Finished, Moved, ShownTransaction};
use relations::transactions::{Digest, NotDone, Resolution, ShownChange};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How many of the documents that moved an answer names.
const MOVED_SHOWN_MAX: usize = 1000;

/// `POST /_transaction/_begin`
#[boxed]
pub(crate) async fn begin(mut call: Call) -> Result<Answer> {
    let mut asked = SessionOptions {
        keep_alive: call.params.take("keep_alive"),
        locks: call.take_locks()?,
        key: call.params.take("idempotency_key"),
    };
    let content = call.json()?;
    call.params.finish()?;
    if let Some(node) = content {
        asked.over(node)?;
    }
    let given = call.rest.cluster_settings().await?;
    let duration = |setting: settings::Setting| units::parse_duration(&settings::text(&given, setting), setting.name);
    let most = duration(settings::TRANSACTIONS_MAX_KEEP_ALIVE)?;
    let keep_alive = match &asked.keep_alive {
        Some(text) => units::parse_duration(text, "keep_alive")?,
        None => duration(settings::TRANSACTIONS_KEEP_ALIVE)?.min(most),
    };
    if keep_alive < Duration::from_secs(1) || keep_alive > most {
        let (was, most, name) = (
            units::render_duration(keep_alive),
            units::render_duration(most),
            settings::TRANSACTIONS_MAX_KEEP_ALIVE.name,
        );
        let reason = format!("[keep_alive] must be between [1s] and [{most}] but was [{was}]; the limit is the setting [{name}]");
        return Err(Error::illegal(reason));
    }
    // The key stands for the transaction, whatever it comes to.
    let key = call.key(asked.key.as_deref(), || Digest::of(&[b"/_transaction/_commit"]))?;
    let begin = Begin {
        keep_alive,
        locks: asked.locks,
        key,
    };
    let begun = call.rest.relations.begin_held(&begin).await?;
    Ok(Answer::of(
        201,
        json!({ "id": begun.id, "read_seq": begun.read_seq, "expires_in_millis": millis_of(keep_alive) }),
    ))
}

/// The options of a transaction, in the URL or in a body.
struct SessionOptions {
    keep_alive: Option<String>,
    locks: Vec<String>,
    key: Option<String>,
}

impl SessionOptions {
    fn over(&mut self, node: Node) -> Result<()> {
        let mut fields = node.fields("transaction")?;
        self.keep_alive = self.keep_alive.take().or(fields.take_string("keep_alive")?);
        self.key = self.key.take().or(fields.take_string("idempotency_key")?);
        if let Some(node) = fields.take("lock") {
            self.locks.extend(lock_ids(&node)?);
        }
        fields.finish()
    }
}

/// `POST /_transaction/{id}/_commit`
#[boxed]
pub(crate) async fn commit(mut call: Call) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    let refresh = call.params.take_refresh()?;
    call.no_body()?;
    call.params.finish()?;
    let id = call.path_part("transaction_id")?;
    // A lost connection stops nothing that was begun.
    let (relations, of) = (call.rest.relations.clone(), id.clone());
    let done = tokio::spawn(async move { relations.commit_held(&of, refresh).await }).await;
    // It may have made indices that were known to be missing.
    call.rest.forget_known();
    let finished = done.map_err(|cause| {
        let reason = format!("the commit ended by a fault of the server: {cause}");
        Error::new(ErrorKind::Internal, reason)
    })??;
    let took = u64::try_from((call.rest.clock.monotonic() - start).as_millis()).unwrap_or(u64::MAX);
    match finished {
        Finished::Committed(done) => render_commit(&call, &id, done, took).await,
        Finished::Moved(moved) => Ok(conflict(&call, &id, &moved)),
        Finished::Failed(failed) => Ok(not_written(&call, &id, &failed)),
    }
}

/// 409 with what moved.
fn conflict(call: &Call, id: &str, moved: &[Moved]) -> Answer {
    let stamp = |stamp: Option<Stamp>| match stamp {
        Some(stamp) => {
            json!({ "exists": true, "_seq_no": stamp.seq_no, "_primary_term": stamp.primary_term, "_version": stamp.version })
        }
        None => json!({ "exists": false }),
    };
    let named = |moved: &Moved| format!("[{}][{}]", moved.at.index, moved.at.id.id);
    let first = moved.first().map(named).unwrap_or_default();
    let what = match moved.len() {
        1 => format!("{first} is"),
        n => format!("{first} and [{}] more documents are", n - 1),
    };
    let reason = format!("{what} not as transaction [{id}] began with; nothing was changed. Begin another");
    let shown: Vec<Value> = moved
        .iter()
        .take(MOVED_SHOWN_MAX)
        .map(|moved| {
            let mut out = head(&moved.at, call.dialect);
            out.insert("access".into(), if moved.written { "write" } else { "read" }.into());
            out.insert("began_with".into(), stamp(moved.began));
            out.insert("found".into(), stamp(moved.found));
            if moved.index {
                out.insert("reason".into(), "its index is not the one that it was".into());
            }
            Value::Object(out)
        })
        .collect();
    let error = Error::new(ErrorKind::TransactionConflict, reason)
        .with("transaction", id)
        .with("retryable", true)
        .with("moved_total", moved.len() as u64)
        .with("moved", shown);
    let mut body = envelope::render(&error, call.dialect);
    body["committed"] = false.into();
    body["retryable"] = true.into();
    Answer::of(error.status(), body)
}

/// The refusal of writes that were staged and cannot be committed any more.
fn not_written(call: &Call, id: &str, failed: &[(model::DocAddress, NotDone)]) -> Answer {
    let mut first: Option<Error> = None;
    let mut items = Vec::with_capacity(failed.len());
    for (at, why) in failed {
        let error = match why {
            NotDone::Conflict(conflict) => conflict_error(conflict, call.dialect),
            NotDone::Refused(error) => error.clone(),
            NotDone::NotApplied => continue,
        };
        let mut body = head(at, call.dialect);
        body.insert("status".into(), envelope::status(&error, call.dialect).into());
        body.insert("error".into(), Value::Object(envelope::object(&error, call.dialect)));
        items.push(Value::Object(body));
        first.get_or_insert(error);
    }
    let first = first.unwrap_or_else(|| Error::new(ErrorKind::Internal, "a commit failed without a reason"));
    let status = envelope::status(&first, call.dialect);
    let kind = if status == 409 {
        ErrorKind::TransactionConflict
    } else {
        ErrorKind::TransactionFailed
    };
    let reason = format!(
        "[{}] documents of transaction [{id}] cannot be written; nothing was changed, and it is still open",
        failed.len()
    );
    let error = Error::new(kind, reason)
        .status_of(status)
        .with("transaction", id)
        .with_cause(first);
    let mut body = envelope::render(&error, call.dialect);
    body["committed"] = false.into();
    body["items"] = items.into();
    Answer::of(status, body)
}

/// `POST /_transaction/{id}/_abort`
#[boxed]
pub(crate) async fn abort(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let id = call.path_part("transaction_id")?;
    call.rest.relations.abort_held(&id).await?;
    Ok(Answer::ok(json!({ "id": id, "aborted": true })))
}

/// `GET /_transaction/{id}`
#[boxed]
pub(crate) async fn get(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let id = call.path_part("transaction_id")?;
    if let Some(change) = call.rest.relations.one_change(&id).await? {
        return Ok(Answer::ok(Value::Object(change_described(&change, call.dialect))));
    }
    let shown = call.rest.relations.transaction(&id).await?;
    Ok(Answer::ok(Value::Object(describe(&shown))))
}

/// A change by the portable path.
fn change_described(shown: &ShownChange, dialect: Dialect) -> Map<String, Value> {
    let listed = |documents: &[NotApplied]| -> Value {
        let one = |one: &NotApplied| {
            let mut out = head(&one.at, dialect);
            out.insert("error".into(), one.why.clone());
            Value::Object(out)
        };
        documents.iter().map(one).collect()
    };
    let mut out = Map::new();
    out.insert("id".into(), shown.id.as_str().into());
    out.insert("state".into(), shown.state.render().into());
    if let Some(seq) = shown.commit_seq {
        out.insert("commit_seq".into(), seq.into());
    }
    out.extend(shown.reason().map(|reason| ("reason".to_owned(), reason.into())));
    if shown.state == RecordState::Stuck {
        out.insert("refused".into(), listed(&shown.refused));
    }
    if !shown.skipped.is_empty() {
        out.insert("skipped".into(), listed(&shown.skipped));
    }
    out.insert("session".into(), session(&shown.session).into());
    out.insert("finisher".into(), shown.finisher().into());
    out.insert("documents".into(), shown.documents.into());
    out.insert("locks".into(), json!(shown.under.iter().map(|id| &**id).collect::<Vec<_>>()));
    out.insert("begun_in_millis".into(), shown.opened_ms.into());
    out.insert("age_in_millis".into(), millis_of(shown.age).into());
    out
}

fn describe(shown: &ShownTransaction) -> Map<String, Value> {
    use relations::transactions::interactive::TransactionState;
    let mut out = Map::new();
    out.insert("id".into(), shown.id.as_str().into());
    out.insert("state".into(), shown.state.word().into());
    match &shown.state {
        TransactionState::Committed(seq) => drop(out.insert("commit_seq".into(), (*seq).into())),
        TransactionState::Aborted(why) => drop(out.insert("reason".into(), why.as_str().into())),
        TransactionState::Open | TransactionState::Committing => {}
    }
    // Sessions are of servers: a transaction lives in one.
    out.insert("session".into(), session(&shown.id).into());
    out.insert("finisher".into(), shown.state.finisher().into());
    let Some(open) = &shown.open else { return out };
    out.insert("read_seq".into(), open.read_seq.into());
    out.insert("operations".into(), open.operations.into());
    out.insert("documents".into(), open.documents.into());
    out.insert("reads".into(), open.reads.into());
    out.insert("staged_in_bytes".into(), open.bytes.into());
    out.insert("locks".into(), json!(open.locks));
    out.insert("begun_in_millis".into(), open.opened_ms.into());
    out.insert("age_in_millis".into(), millis_of(open.age).into());
    out.insert("keep_alive".into(), units::render_duration(open.keep_alive).into());
    out.insert("expires_in_millis".into(), millis_of(open.remaining).into());
    out
}

fn session(id: &str) -> &str {
    id.split([':', '.']).next().unwrap_or(id)
}

/// `POST /_transaction/{id}/_resolve`: for what is committed and cannot be finished. A change by one record of the log is never:
/// that has all of it, or there is none of it.
#[boxed]
pub(crate) async fn resolve(mut call: Call) -> Result<Answer> {
    let content = call.json_needed()?;
    call.params.finish()?;
    let mut fields = content.fields("transaction")?;
    let action = fields.take_string("action")?;
    fields.finish()?;
    let action = match action.as_deref() {
        Some("retry") => Resolution::Retry,
        Some("skip") => Resolution::Skip,
        Some(other) => {
            return Err(Error::illegal(format!(
                "[action] must be one of [retry, skip] but was [{other}]"
            )));
        }
        None => return Err(Error::illegal("[action] is missing: one of [retry, skip]")),
    };
    let word = match action {
        Resolution::Retry => "retry",
        Resolution::Skip => "skip",
    };
    let id = call.path_part("transaction_id")?;
    // A lost connection stops nothing that was begun.
    let (relations, of) = (call.rest.relations.clone(), id.clone());
    let done = tokio::spawn(async move { relations.resolve_change(&of, action).await }).await;
    let done = done.map_err(|cause| {
        let reason = format!("the resolution ended by a fault of the server: {cause}");
        Error::new(ErrorKind::Internal, reason)
    })??;
    if let Some((change, resolved)) = done {
        let mut out = change_described(&change, call.dialect);
        out.insert("action".into(), word.into());
        out.insert("stuck".into(), (change.state == RecordState::Stuck).into());
        out.insert("resolved".into(), resolved.into());
        return Ok(Answer::ok(Value::Object(out)));
    }
    let shown = call.rest.relations.transaction(&id).await?;
    let mut out = describe(&shown);
    out.insert("action".into(), word.into());
    out.insert("stuck".into(), false.into());
    out.insert("resolved".into(), false.into());
    out.entry("reason").or_insert_with(|| {
        let why = "nothing is stuck: a change is one record of the log, done whole or not at all";
        why.into()
    });
    Ok(Answer::ok(Value::Object(out)))
}

const COLUMNS: &[Column] = &[
    col("id", &[], "transaction id"),
    col("state", &["s"], "open or committing; of a change pending, committed or stuck"),
    num("age", &["a"], "since it began"),
    col("session", &[], "the server that holds it"),
    num("operations", &["ops", "o"], "staged writes; of a change its documents"),
    num("bytes", &["b"], "bytes of them"),
    num("reads", &["r"], "documents read by id"),
    num("read_seq", &[], "what it reads"),
    num("expires_in", &["e"], "time left"),
    col("locks", &["l"], "locks that it runs under"),
    col("finisher", &["f"], "who brings it to its end"),
    col("reason", &["why"], "why a change that is committed is not finished"),
];

/// `GET /_cat/transactions`
#[boxed]
pub(crate) async fn cat(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    call.params.finish()?;
    let mut rows = Vec::new();
    for shown in call.rest.relations.transactions().await? {
        let Some(open) = &shown.open else { continue };
        rows.push(vec![
            Cell::of(&shown.id),
            Cell::of(shown.state.word()),
            Cell::Millis(millis_of(open.age)),
            Cell::of(session(&shown.id)),
            Cell::of(open.operations),
            Cell::Bytes(open.bytes),
            Cell::of(open.reads),
            Cell::of(open.read_seq),
            Cell::Millis(millis_of(open.remaining)),
            Cell::of(open.locks.join(",")),
            Cell::of(shown.state.finisher()),
            Cell::Nothing,
        ]);
    }
    for change in call.rest.relations.unfinished_changes().await? {
        rows.push(vec![
            Cell::of(&change.id),
            Cell::of(change.state.render()),
            Cell::Millis(millis_of(change.age)),
            Cell::of(session(&change.session)),
            Cell::of(change.documents),
            Cell::Nothing,
            Cell::Nothing,
            Cell::Nothing,
            Cell::Nothing,
            Cell::of(change.under.join(",")),
            Cell::of(change.finisher()),
            Cell::if_any(change.reason()),
        ]);
    }
    layout.write(COLUMNS, rows)
}

/// Refuses by name, in every dialect, an API that has no place in a transaction.
///
/// # Errors
/// The API takes no `transaction`.
pub(crate) fn check_api(api: &str, params: &crate::query_params::Params) -> Result<()> {
    // A template becomes a search.
    let api = if api == "search_template" { "search" } else { api };
    if !params.is_given("transaction") || parameter_table::of(api).any(|p| p.name == "transaction") {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "[{api}] is no part of a transaction: documents are read, searched and written in one; \
         aliases, mappings, settings and whole indices are not"
    )))
}
