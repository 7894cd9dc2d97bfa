//! Writes that the document APIs share: sending one, creating a missing index, wording conflicts, answering.

use crate::blocking::{aside, is_scripted};
use crate::call::Call;
use crate::respond::Answer;
use crate::slow_log::SlowWrites;
use crate::{Rest, write_shards};
use dsl::query::script_source::{ScriptSource, ScriptText};
use engine::{Conflict, Effect, Expect, Found, Inspected, Inspection, Outcome, Refresh, Write, Written};
use futures::{StreamExt as _, TryStreamExt as _};
use model::text::{push_number, quote};
use model::{Dialect, DocAddress, Error, ErrorKind, Result};
use relations::leases::Caller;
use relations::schema::{forbidden, is_system};
use relations::transactions::{Change, Kind, Operation, Verdict};
use script::{Lang, Params, Program};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// A write and the locks that its client holds for it.
#[derive(Clone, Debug)]
pub(crate) struct Guarded {
    pub(crate) write: Write,
    pub(crate) locks: Vec<String>,
}

/// Sends writes, or stages them in a transaction.
pub(crate) async fn send_in(
    call: &Call,
    transaction: Option<&str>,
    writes: Vec<Guarded>,
    refresh: Refresh,
) -> Result<Vec<WriteOutcome>> {
    match transaction {
        None => {
            let slow = SlowWrites::begin(call, writes.iter().map(|guarded| &guarded.write)).await;
            let sent = send(&Sender::of(call, refresh), writes).await;
            slow.end(call);
            sent
        }
        // Others see it when the commit says; in the transaction it is seen at once.
        Some(id) => crate::actions::transaction_stage::stage(&call.rest, id, writes, call.dialect).await,
    }
}

/// The options that all writes of one request have.
struct Sender<'a> {
    rest: &'a Rest,
    refresh: Refresh,
    dialect: Dialect,
    caller: &'a Caller,
}

impl Sender<'_> {
    fn of(call: &Call, refresh: Refresh) -> Sender<'_> {
        Sender {
            rest: &call.rest,
            refresh,
            dialect: call.dialect,
            caller: &call.caller,
        }
    }
}

/// The outcome of one write, and the warnings about the locks that it passed.
#[derive(Debug)]
pub(crate) struct WriteOutcome {
    pub(crate) outcome: Outcome,
    pub(crate) warnings: Vec<String>,
}

impl From<Outcome> for WriteOutcome {
    fn from(outcome: Outcome) -> WriteOutcome {
        WriteOutcome {
            outcome,
            warnings: Vec::new(),
        }
    }
}

/// Sends writes; those under locks, and those to indices that look at locks or are linked, by way of these.
async fn send(sender: &Sender<'_>, writes: Vec<Guarded>) -> Result<Vec<WriteOutcome>> {
    let mut looked_at = false;
    for guarded in &writes {
        looked_at = looked_at || through_locks(sender.rest, guarded).await;
    }
    if !looked_at {
        let writes = writes.into_iter().map(|guarded| guarded.write).collect();
        return send_plain(sender, writes).await;
    }
    // Each is a decision of its own; many at once share the wait for the disk, but not two of one document.
    let count = writes.len();
    let mut sent = Vec::with_capacity(count);
    for run in engine::runs(writes, |guarded| &guarded.write.at) {
        let run: Vec<_> = run.into_iter().map(|guarded| send_one(sender, guarded)).collect();
        let done: Vec<WriteOutcome> = futures::stream::iter(run).buffered(256).try_collect().await?;
        sent.extend(done);
    }
    assert_eq!(sent.len(), count, "each write of a request has its outcome");
    Ok(sent)
}

async fn through_locks(rest: &Rest, guarded: &Guarded) -> bool {
    if !guarded.locks.is_empty() {
        return true;
    }
    let at = &guarded.write.at;
    let known = rest.index_facts(at.index.as_str()).await;
    let is_linked = |index: &model::IndexName| rest.relations.is_linked(index.as_str());
    known.is_some_and(|known| known.locks || known.is_lock(&at.id) || known.written.iter().chain(&known.read).any(is_linked))
}

async fn send_one(sender: &Sender<'_>, guarded: Guarded) -> Result<WriteOutcome> {
    let Sender {
        rest,
        refresh,
        dialect,
        caller,
    } = *sender;
    let mut made = false;
    loop {
        if !through_locks(rest, &guarded).await {
            let sent = Box::pin(send_plain(sender, vec![guarded.write])).await?.pop();
            return Ok(sent.unwrap_or_else(|| Outcome::Unknown.into()));
        }
        let operation = Operation {
            label: "index",
            write: guarded.write.clone(),
            creates: None,
            wants_source: matches!(guarded.write.op, engine::WriteOp::Update(_)),
            error: None,
        };
        let change = Change {
            guards: guarded.locks.clone(),
            kind: Kind::Plain,
            refresh,
            caller: caller.clone(),
            ..Change::of(vec![operation])
        };
        let relations = rest.relations.clone();
        let decided = aside(is_scripted(&guarded.write), async move { relations.change(&change).await });
        let (outcome, warnings) = Verdict::of_plain_write(decided.await);
        match &outcome {
            Outcome::Refused(error) if error.kind() == ErrorKind::IndexNotFound && !made && creates(&guarded.write, dialect) => {
                made = true;
                if let Err(error) = rest
                    .auto_create(&guarded.write.at.index, dialect_of(&guarded.write, dialect))
                    .await
                {
                    return Ok(Outcome::Refused(error).into());
                }
            }
            // One of several writes: the whole answer says nothing of the lock.
            Outcome::Refused(error) if error.kind() == ErrorKind::LockExpired => {
                let untold = crate::actions::locks::write_ends(rest, &guarded.locks).await.err();
                return Ok(untold.map_or(outcome, Outcome::Refused).into());
            }
            _ => return Ok(WriteOutcome { outcome, warnings }),
        }
    }
}

/// A header for people about locks that were passed.
pub(crate) fn with_warnings(answer: Answer, warnings: &[String]) -> Answer {
    warnings.iter().fold(answer, |answer, warning| {
        let text: String = warning.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect();
        answer.header("warning", format!("299 Pleach \"{}\"", text.replace('"', "'")))
    })
}

/// Sends writes; where an index is missing and may be made, makes it and sends those again.
async fn send_plain(sender: &Sender<'_>, writes: Vec<Write>) -> Result<Vec<WriteOutcome>> {
    let Sender {
        rest, refresh, dialect, ..
    } = *sender;
    let mut outcomes: Vec<Option<WriteOutcome>> = writes.iter().map(|_| None).collect();
    let mut ready = Vec::new();
    for (i, mut write) in writes.into_iter().enumerate() {
        // A child lies where its parent lies, unless told otherwise.
        write.routing = write.routing.or_else(|| write.parent.clone());
        if is_system(write.at.index.as_str()) {
            outcomes[i] = Some(Outcome::Refused(forbidden(write.at.index.as_str())).into());
        } else {
            ready.push((i, write));
        }
    }
    let sent: Vec<Write> = ready.iter().map(|(_, w)| w.clone()).collect();
    let done = rest.relations.write(sent, refresh).await?;
    assert_eq!(done.len(), ready.len(), "an engine answers each write, in order");
    let missing = |outcome: &Outcome| matches!(outcome, Outcome::Refused(error) if error.kind() == ErrorKind::IndexNotFound);
    // An index that one write makes is there for the other writes of the request.
    let made: HashSet<_> = ready
        .iter()
        .zip(&done)
        .filter(|((_, write), outcome)| missing(outcome) && creates(write, dialect))
        .map(|((_, write), _)| write.at.index.clone())
        .collect();
    let mut again = Vec::new();
    for ((i, write), outcome) in ready.into_iter().zip(done) {
        if missing(&outcome) && made.contains(&write.at.index) {
            again.push((i, write));
        } else {
            outcomes[i] = Some(outcome.into());
        }
    }
    let mut retry = Vec::new();
    for (i, write) in again {
        match rest.auto_create(&write.at.index, dialect_of(&write, dialect)).await {
            Ok(()) => {
                // A template may have told it to look at locks.
                let guarded = Guarded {
                    write,
                    locks: Vec::new(),
                };
                if through_locks(rest, &guarded).await {
                    outcomes[i] = Some(Box::pin(send_one(sender, guarded)).await?);
                } else {
                    retry.push((i, guarded.write));
                }
            }
            Err(error) => outcomes[i] = Some(Outcome::Refused(error).into()),
        }
    }
    if !retry.is_empty() {
        let sent = retry.iter().map(|(_, w)| w.clone()).collect();
        let done = rest.relations.write(sent, refresh).await?;
        assert_eq!(done.len(), retry.len(), "an engine answers each write, in order");
        for ((i, _), outcome) in retry.into_iter().zip(done) {
            outcomes[i] = Some(outcome.into());
        }
    }
    debug_assert!(
        outcomes.iter().all(Option::is_some),
        "each write of a request has its outcome"
    );
    let unknown = || Outcome::Unknown.into();
    Ok(outcomes.into_iter().map(|sent| sent.unwrap_or_else(unknown)).collect())
}

/// A write with a type makes a typed index.
pub(crate) fn dialect_of(write: &Write, dialect: Dialect) -> Dialect {
    dialect.with_types(write.at.id.doc_type.is_some())
}

/// Does this write make a missing index?
pub(crate) fn creates(write: &Write, dialect: Dialect) -> bool {
    if write.require_alias {
        return false;
    }
    match write.op {
        engine::WriteOp::Delete => dialect.rules.deletions_create_indices || matches!(write.expect, Expect::NewerThan { .. }),
        _ => true,
    }
}

/// The one outcome of one write, or its refusal.
pub(crate) fn single_outcome(outcome: Outcome, dialect: Dialect) -> Result<Written> {
    match outcome {
        Outcome::Written(written) => Ok(written),
        Outcome::Conflict(conflict) => Err(conflict_error(&conflict, dialect)),
        Outcome::Refused(error) => Err(error),
        Outcome::Held(_) => Err(Error::new(
            ErrorKind::VersionConflict,
            "the document is held by a change that is not finished",
        )),
        Outcome::Unknown => Err(Error::new(
            ErrorKind::LogFailed,
            "the outcome of the write is unknown: the log failed",
        )),
    }
}

/// A conflict in the words of each dialect.
pub(crate) fn conflict_error(conflict: &Conflict, dialect: Dialect) -> Error {
    let id = &conflict.at.id.id;
    let stamp = conflict.found.stamp();
    let version = stamp.map_or(-1, |s| i64::try_from(s.version).unwrap_or(i64::MAX));
    if dialect.rules.former_document_answers {
        let name = format!("[{}][{id}]", conflict.at.id.doc_type.as_deref().unwrap_or("_doc"));
        let exists = match conflict.expect {
            Expect::AbsentAt { version, compare } => compare.holds(version, conflict.found),
            other => other == Expect::Absent,
        };
        let error = match conflict.expect {
            _ if exists => Error::new(ErrorKind::DocumentAlreadyExists, format!("{name}: document already exists")),
            Expect::Version(v)
            | Expect::Forced(v)
            | Expect::NewerThan { version: v, .. }
            | Expect::AbsentAt { version: v, .. } => {
                let current = match (conflict.expect, conflict.found) {
                    (Expect::Version(_) | Expect::AbsentAt { .. }, Found::Nothing) => -1,
                    _ => version,
                };
                Error::new(
                    ErrorKind::VersionConflict,
                    format!("{name}: version conflict, current [{current}], provided [{v}]"),
                )
            }
            _ => Error::new(
                ErrorKind::VersionConflict,
                format!("{name}: version conflict, current [{version}]"),
            ),
        };
        return error.with("index", conflict.at.index.as_str()).with("shard", "0");
    }
    let reason = match (conflict.expect, conflict.found) {
        (Expect::Absent, _) => format!("[{id}]: version conflict, document already exists (current version [{version}])"),
        (Expect::Unchanged { seq_no, primary_term }, Found::Here(s)) => format!(
            "[{id}]: version conflict, required seqNo [{seq_no}], primary term [{primary_term}]. current document has seqNo [{}] and primary term [{}]",
            s.seq_no, s.primary_term
        ),
        (Expect::Unchanged { seq_no, primary_term }, _) => {
            format!(
                "[{id}]: version conflict, required seqNo [{seq_no}], primary term [{primary_term}]. but no document was found"
            )
        }
        (
            Expect::NewerThan {
                version: v,
                or_equal: false,
            },
            _,
        ) => {
            format!("[{id}]: version conflict, current version [{version}] is higher or equal to the one provided [{v}]")
        }
        (
            Expect::NewerThan {
                version: v,
                or_equal: true,
            },
            _,
        ) => {
            format!("[{id}]: version conflict, current version [{version}] is higher than the one provided [{v}]")
        }
        (Expect::Version(v), _) => {
            format!("[{id}]: version conflict, current version [{version}] is different than the one provided [{v}]")
        }
        _ => format!("[{id}]: version conflict, current version [{version}]"),
    };
    Error::new(ErrorKind::VersionConflict, reason)
        .with("index", conflict.at.index.as_str())
        .with("shard", "0")
}

/// Status of a write.
pub(crate) fn status(written: &Written) -> u16 {
    match written.effect {
        Effect::Created => 201,
        Effect::NotFound => 404,
        _ => 200,
    }
}

/// Metadata that every write answer begins with.
pub(crate) fn head(at: &DocAddress, dialect: Dialect) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("_index".into(), at.index.as_str().into());
    if let Some(doc_type) = &at.id.doc_type {
        out.insert("_type".into(), (&**doc_type).into());
    } else if dialect.rules.shows_doc_type {
        out.insert("_type".into(), "_doc".into());
    }
    out.insert("_id".into(), (&*at.id.id).into());
    out
}

/// The answer of a write. `op` is `index`, `create`, `update` or `delete`.
pub(crate) async fn answer(rest: &Rest, written: &Written, op: &str, dialect: Dialect) -> Map<String, Value> {
    let replicas = rest.index_facts(written.at.index.as_str()).await.map_or(1, |k| k.replicas);
    let mut out = head(&written.at, dialect);
    // A bulk tells of copies even where nothing was written.
    let noop = written.effect == Effect::Noop;
    let nowhere = noop && op != "update in bulk";
    let shards = if nowhere {
        json!({ "total": 0, "successful": 0, "failed": 0 })
    } else {
        write_shards(replicas)
    };
    out.insert("_version".into(), written.stamp.version.into());
    if dialect.rules.former_document_answers {
        out.insert("_shards".into(), shards);
        // Nothing came of an upsert: there is no version.
        if noop && written.stamp.version == 0 {
            out.insert("_version".into(), (-1).into());
            out.insert("get".into(), json!({ "found": false }));
        }
        return out;
    }
    out.insert("result".into(), result(written.effect).into());
    if written.forced_refresh && !noop {
        out.insert("forced_refresh".into(), true.into());
    }
    out.insert("_shards".into(), shards);
    // Nothing came of an upsert: there is no version.
    if noop && written.stamp.version == 0 && !written.stamp.is_staged() {
        out.insert("_version".into(), (-1).into());
        out.insert("get".into(), json!({ "found": false }));
    } else if !written.stamp.is_staged() {
        out.insert("_seq_no".into(), written.stamp.seq_no.into());
        out.insert("_primary_term".into(), written.stamp.primary_term.into());
    }
    out
}

/// Is [`write_members`] what [`answer`] says of it?
pub(crate) fn is_members(written: &Written, dialect: Dialect) -> bool {
    !dialect.rules.former_document_answers && written.effect != Effect::Noop && !written.stamp.is_staged()
}

/// Writes what [`answer`] says of a write that was done as the members of a JSON object, without a tree in between.
pub(crate) async fn write_members(out: &mut String, rest: &Rest, written: &Written, dialect: Dialect) {
    let replicas = rest.index_facts(written.at.index.as_str()).await.map_or(1, |k| k.replicas);
    out.push_str("\"_index\":");
    quote(out, written.at.index.as_str());
    if let Some(doc_type) = &written.at.id.doc_type {
        out.push_str(",\"_type\":");
        quote(out, doc_type);
    } else if dialect.rules.shows_doc_type {
        out.push_str(",\"_type\":\"_doc\"");
    }
    out.push_str(",\"_id\":");
    quote(out, &written.at.id.id);
    let stamp = written.stamp;
    out.push_str(",\"_version\":");
    push_number(out, stamp.version);
    out.push_str(",\"result\":\"");
    out.push_str(result(written.effect));
    out.push('"');
    if written.forced_refresh {
        out.push_str(",\"forced_refresh\":true");
    }
    out.push_str(",\"_shards\":{\"total\":");
    push_number(out, 1 + replicas);
    out.push_str(",\"successful\":1,\"failed\":0},\"_seq_no\":");
    push_number(out, stamp.seq_no);
    out.push_str(",\"_primary_term\":");
    push_number(out, stamp.primary_term);
}

/// A conflict or a missing document with the number of its shard, as 2015 told it.
pub(crate) async fn with_shard(rest: &Rest, error: Error, write: &Write) -> Error {
    let named = matches!(
        error.kind(),
        ErrorKind::VersionConflict
            | ErrorKind::DocumentAlreadyExists
            | ErrorKind::DocumentMissing
            | ErrorKind::DocumentSourceMissing
    );
    if !named || !error.details().contains_key("shard") {
        return error;
    }
    let shards = rest.index_facts(write.at.index.as_str()).await.map_or(1, |k| k.shards);
    let routing = write.routing.as_deref().or(write.parent.as_deref());
    let shard = model::routing::shard_of(routing.unwrap_or(&write.at.id.id), shards);
    error.with("shard", shard.to_string())
}

/// The word for what happened.
pub(crate) fn result(effect: Effect) -> &'static str {
    match effect {
        Effect::Created => "created",
        Effect::Updated => "updated",
        Effect::Deleted => "deleted",
        Effect::NotFound => "not_found",
        Effect::Noop => "noop",
    }
}

/// The `pipeline` of a write: there are none, and in 2015 nobody knew the name. What a write waits for is always there; a
/// value that is none is refused all the same.
pub(crate) fn refuse_pipeline(call: &mut Call) -> Result<()> {
    if let Some(level) = call.params.take_2015("consistency")
        && !["one", "quorum", "all", "default"].contains(&level.as_str())
    {
        return Err(Error::illegal(format!("No write consistency match [{level}]")));
    }
    call.params.check_duration("timeout")?;
    if call.dialect.rules.ignores_active_shards {
        return Ok(());
    }
    if let Some(given) = call.params.peek("wait_for_active_shards").filter(|given| *given != "all") {
        match given.parse::<i32>() {
            Ok(..0) => return Err(Error::illegal("shard count cannot be a negative value")),
            Ok(_) => {}
            Err(_) => {
                let cause = Error::no_number(given);
                return Err(Error::illegal(format!("cannot parse ActiveShardCount[{given}]")).with_cause(cause));
            }
        }
    }
    match call.params.take("pipeline").as_deref() {
        None | Some("_none") => Ok(()),
        Some(name) => Err(Error::illegal(format!(
            "pipeline with id [{name}] does not exist: ingest pipelines are not supported yet"
        ))),
    }
}

/// A script of a request, compiled, with its parameters.
pub(crate) async fn compile(rest: &Rest, source: &ScriptSource) -> Result<(Program, Params)> {
    let default = if source.defaults_to_groovy { "groovy" } else { "painless" };
    let (text, lang) = match &source.text {
        ScriptText::Inline(text) => (text.clone(), source.lang.clone().unwrap_or_else(|| default.to_owned())),
        ScriptText::Stored(id) => match rest.engine.inspect(Inspection::Script(id.clone())).await? {
            Inspected::Script(Some(body)) => {
                let field = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
                (
                    field("source").unwrap_or_default(),
                    field("lang").unwrap_or_else(|| default.to_owned()),
                )
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::ScriptMissing,
                    format!("unable to find script [{id}] in cluster state"),
                ));
            }
        },
    };
    let lang = Lang::parse(&lang)?;
    Ok((rest.compile_script(&text, lang)?, Params::from_json(&source.params)))
}
