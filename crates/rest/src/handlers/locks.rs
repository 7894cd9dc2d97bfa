//! Locks: `_lock` with `_renew` and `_break`, and what the document APIs ask of them.
//!
//! Waiting is here: `relations` has no runtime. Not here: who may hold what.

use crate::Rest;
use crate::call::Call;
use crate::metrics::LockWait;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, num};
use dsl::json::Node;
use engine::{Document, EngineExt as _};
use model::date::DateFormat;
use model::text::quote;
use model::{DocAddress, Error, ErrorKind, IndexName, Result, Target, path, units};
use relations::leases::{Ask, Asked, Lease, OnExpire, Told, Turn, Wanted, millis_of};
use relations::locks::{LockTarget, Mode};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;

/// `POST /_lock`: opens one, or adds to one.
pub(crate) async fn open(mut call: Call) -> Result<Answer> {
    let timeout = call.params.take_duration("timeout")?.unwrap_or(Duration::ZERO);
    let content = call.json_needed()?;
    call.params.finish()?;
    let mut fields = content.fields("lock")?;
    let keep_alive = fields.take_string("keep_alive")?;
    let mut ask = Ask {
        lock: fields.take_string("lock")?,
        owner: fields.take_string("owner")?.unwrap_or_default(),
        targets: targets(fields.require("targets")?)?,
        keep_alive: keep_alive
            .map(|text| units::parse_duration(&text, "keep_alive"))
            .transpose()?,
        on_expire: match fields.take_string("on_expire")?.as_deref() {
            None | Some("release") => OnExpire::Release,
            Some("abort") => OnExpire::Abort,
            Some(other) => {
                return Err(Error::illegal(format!(
                    "[on_expire] must be one of [release, abort] but was [{other}]"
                )));
            }
        },
        on_disconnect_release: match fields.take_string("on_disconnect")?.as_deref() {
            None | Some("keep") => false,
            Some("release") => true,
            Some(other) => {
                return Err(Error::illegal(format!(
                    "[on_disconnect] must be one of [keep, release] but was [{other}]"
                )));
            }
        },
        connection: call.caller.connection,
        wait: !timeout.is_zero(),
        place: None,
    };
    fields.finish()?;
    relations::locks::check_text("[owner]", &ask.owner)?;
    let status = if ask.lock.is_some() { 200 } else { 201 };
    let until = Instant::now() + timeout;
    // Dropped on every way out but a grant, it gives the place in the queue up; also if the client hangs up.
    let mut turn: Option<Turn> = None;
    let mut waited: Option<LockWait<'_>> = None;
    let lease = loop {
        match call.rest.relations.acquire(&ask).await? {
            Asked::Granted(lease) => {
                if let Some(turn) = turn {
                    turn.keep();
                }
                break lease;
            }
            Asked::Queued(next, place) => {
                if let Some(turn) = turn.take() {
                    turn.keep();
                }
                ask.place = Some(place);
                waited.get_or_insert_with(|| LockWait::begin(&call.rest.metrics));
                let next = turn.insert(next);
                match wait_for(&call.rest, next, until).await? {
                    Some(Told::Granted(lease)) => {
                        if let Some(turn) = turn {
                            turn.keep();
                        }
                        break lease;
                    }
                    Some(Told::Again) => {}
                    // Too late: a last attempt, which is refused with the names of those in the way.
                    None => ask.wait = false,
                }
            }
        }
    };
    if let Some(wait) = waited {
        wait.granted();
    }
    Ok(Answer {
        status,
        ..Answer::raw(written(&call.rest, &lease))
    })
}

/// A lock as answers show it, as text: most answers are this and no more.
fn written(rest: &Rest, lease: &Lease) -> String {
    let mut out = String::with_capacity(256);
    out.push_str("{\"id\":");
    quote(&mut out, &lease.id);
    out.push_str(",\"owner\":");
    quote(&mut out, &lease.owner);
    let _ = write!(out, ",\"fencing_token\":{}", lease.token);
    if !lease.is_endless() {
        let remaining = millis_of(lease.remaining(rest.clock.monotonic()));
        let at = rest.clock.wall_ms().saturating_add(i64::try_from(remaining).unwrap_or(0));
        let _ = write!(out, ",\"expires_in_millis\":{remaining},\"expires_at\":");
        quote(&mut out, &iso(at));
        out.push_str(",\"keep_alive\":");
        quote(&mut out, &units::render_duration(lease.keep_alive));
    }
    out.push_str(",\"targets\":");
    lease.write_targets(&mut out);
    if let Some(lock_document) = &lease.lock_document {
        out.push_str(",\"document\":{\"_index\":");
        quote(&mut out, lock_document.at.index.as_str());
        if let Some(doc_type) = &lock_document.at.id.doc_type {
            out.push_str(",\"_type\":");
            quote(&mut out, doc_type);
        }
        out.push_str(",\"_id\":");
        quote(&mut out, &lock_document.at.id.id);
        let caller = Value::Object(lock_document.caller.to_json());
        let age = (rest.clock.wall_ms() - lease.opened_ms).max(0);
        let connected = lease.connection.is_some();
        let _ = write!(
            out,
            "}},\"caller\":{caller},\"age_in_millis\":{age},\"connected\":{connected}"
        );
    }
    out.push('}');
    out
}

/// The same, and how many wait for it.
fn shown(rest: &Rest, lease: &Lease, waiters: usize) -> String {
    let mut out = written(rest, lease);
    out.pop();
    let _ = write!(out, ",\"waiters\":{waiters}}}");
    out
}

pub(super) fn iso(ms: i64) -> String {
    static FORMAT: LazyLock<Option<DateFormat>> = LazyLock::new(|| DateFormat::parse_pattern("strict_date_optional_time").ok());
    FORMAT
        .as_ref()
        .map_or_else(|| ms.to_string(), |format| format.render(ms, None))
}

/// `[{"index": .., "id": .., "mode": "shared"}]`
fn targets(node: Node) -> Result<Vec<Wanted>> {
    if !node.is_array() {
        return Err(node.error("[targets] must be an array"));
    }
    node.items().into_iter().map(|node| wanted(node.into_value())).collect()
}

/// One target with its mode.
pub(super) fn wanted(value: Value) -> Result<Wanted> {
    const KNOWN: [&str; 6] = ["name", "index", "type", "id", "path", "mode"];
    let Value::Object(members) = value else {
        return Err(Error::illegal(format!("a lock target must be an object but is [{value}]")));
    };
    if let Some(name) = members.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        let hint = model::nearest::question(name, KNOWN);
        return Err(Error::illegal(format!("unknown field [{name}] in a lock target{hint}")));
    }
    let mode = match members.get("mode").map(Value::as_str) {
        None | Some(Some("exclusive")) => Mode::Exclusive,
        Some(Some("shared")) => Mode::Shared,
        _ => {
            let given = &members["mode"];
            return Err(Error::illegal(format!(
                "[mode] must be one of [exclusive, shared] but was [{given}]"
            )));
        }
    };
    Ok(Wanted {
        target: LockTarget::parse(&members)?,
        mode,
    })
}

/// `POST /_lock/{id}/_renew`
pub(crate) async fn renew(mut call: Call) -> Result<Answer> {
    let keep_alive = call.params.take_duration("keep_alive")?;
    call.no_body()?;
    call.params.finish()?;
    let id = call.needed("lock_id")?;
    let lease = call.rest.relations.renew(&id, keep_alive, call.caller.connection)?;
    let mut out = json!({ "id": id, "fencing_token": lease.token });
    if !lease.is_endless() {
        out["expires_in_millis"] = millis_of(lease.remaining(call.rest.clock.monotonic())).into();
    }
    Ok(Answer::ok(out))
}

/// `DELETE /_lock/{id}`
pub(crate) async fn release(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    call.rest.relations.release(&call.needed("lock_id")?).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `POST /_lock/{id}/_break`
pub(crate) async fn break_lock(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let lease = call.rest.relations.break_lock(&call.needed("lock_id")?).await?;
    Ok(Answer::ok(
        json!({ "acknowledged": true, "id": &*lease.id, "owner": lease.owner }),
    ))
}

/// `GET /_lock`, `GET /_lock/{id}`
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let index = call.params.take("index");
    call.params.finish()?;
    if let Some(id) = call.arg("lock_id") {
        let (lease, waiters) = call.rest.relations.lease(id)?;
        call.rest.relations.locks_settled().await?;
        return Ok(Answer::raw(shown(&call.rest, &lease, waiters)));
    }
    let about = |lease: &Lease| {
        index
            .as_deref()
            .is_none_or(|index| lease.targets.iter().any(|w| is_about(&w.target, index)))
    };
    call.rest.relations.check_control()?;
    let all = call.rest.relations.leases();
    call.rest.relations.locks_settled().await?;
    let leases = all.into_iter().filter(|(lease, _)| about(lease));
    let locks: Vec<String> = leases.map(|(lease, waiters)| shown(&call.rest, &lease, waiters)).collect();
    Ok(Answer::raw(format!("{{\"locks\":[{}]}}", locks.join(","))))
}

fn is_about(target: &LockTarget, index: &str) -> bool {
    match target {
        LockTarget::Index(own) => own.as_str() == index,
        LockTarget::Path { index: own, .. } => own.as_str() == index,
        LockTarget::Document(at) => at.index.as_str() == index,
        LockTarget::All | LockTarget::Name(_) => false,
    }
}

const COLUMNS: &[Column] = &[
    col("id", &[], "lock id"),
    col("owner", &["o"], "label of the owner"),
    col("target", &["t"], "what is locked"),
    col("mode", &["m"], "shared or exclusive"),
    num("token", &["fencing_token"], "fencing token"),
    num("expires_in", &["e"], "time left"),
    num("waiters", &["w"], "how many wait for it"),
];

/// `GET /_cat/locks`
pub(crate) async fn cat(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    call.params.finish()?;
    call.rest.relations.check_control()?;
    let now = call.rest.clock.monotonic();
    let mut rows = Vec::new();
    let all = call.rest.relations.leases();
    call.rest.relations.locks_settled().await?;
    for (lease, waiters) in all {
        for wanted in &lease.targets {
            rows.push(vec![
                Cell::of(&lease.id),
                Cell::of(&lease.owner),
                Cell::of(&wanted.target),
                Cell::of(wanted.mode.word()),
                Cell::of(lease.token),
                if lease.is_endless() {
                    Cell::Nothing
                } else {
                    Cell::Millis(millis_of(lease.remaining(now)))
                },
                Cell::of(waiters),
            ]);
        }
    }
    layout.write(COLUMNS, rows)
}

/// A read of this document under locks: alive, in any mode, and one of them covers it.
///
/// # Errors
/// As for writes.
pub(super) async fn check_read(call: &Call, locks: &[String], at: &DocAddress, found: Option<&Document>) -> Result<()> {
    if locks.is_empty() {
        return Ok(());
    }
    let info = call.rest.engine.indices(&Target::index(at.index.as_str())).await;
    let (name, settings) = match info.ok().and_then(|mut infos| infos.pop()) {
        Some(info) => (info.name, info.settings),
        None => (at.index.clone(), Map::new()),
    };
    let at = DocAddress {
        index: IndexName::new(name.as_str()),
        id: at.id.clone(),
    };
    call.rest
        .relations
        .check_read(locks, &at, &settings, found.map(|document| &document.source))
}

/// Does a refusal say who holds a lock, or that nobody does?
pub(crate) fn is_about_locks(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::LockMissing
            | ErrorKind::LockExpired
            | ErrorKind::LockBroken
            | ErrorKind::LockConflict
            | ErrorKind::LockDeadlock
            | ErrorKind::LockNotOwned
    )
}

/// Before a refusal that may say of these locks that they are over: it comes out of the table in memory, which is ahead of the
/// log, and after a restart it has to be the same.
///
/// # Errors
/// The end of a lock cannot be written; the log has failed.
pub(crate) async fn told(rest: &Rest, ids: &[String]) -> Result<()> {
    /// A change under the lock is finished before it ends.
    const LONGEST: Duration = Duration::from_secs(10);
    let until = Instant::now() + LONGEST;
    loop {
        let open = rest.relations.unwritten_ends(ids).await?;
        let Some(id) = open.first() else { break };
        if Instant::now() >= until {
            let reason = format!("the time of lock [{id}] is over, and a change under it is not finished");
            return Err(Error::new(ErrorKind::Unavailable, reason).with("lock", id.as_str()));
        }
        // Somebody else writes it.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    rest.relations.locks_settled().await
}

/// Searches under locks: they must be alive.
///
/// # Errors
/// One is not.
pub(super) fn check_alive(call: &Call, locks: &[String]) -> Result<()> {
    locks.iter().try_for_each(|id| call.rest.relations.lease(id).map(|_| ()))
}

/// What deletes, closes or renames indices that enforce locks needs a lock on them, if others hold any there.
///
/// # Errors
/// Others do.
pub(super) async fn check_alter(rest: &Rest, target: &Target, locks: &[String]) -> Result<()> {
    let all = Target {
        ignore_unavailable: true,
        forbid_closed: false,
        expand_closed: true,
        allow_no_indices: true,
        ..target.clone()
    };
    for info in rest.engine.indices(&all).await? {
        rest.relations.check_alter(&info.name, &info.settings, locks)?;
    }
    Ok(())
}

/// Waits for a turn until then; nothing if it did not come.
///
/// # Errors
/// The server stops: what was waited for is not held, and may be asked for again.
pub(super) async fn wait_for(rest: &Rest, turn: &mut Turn, until: Instant) -> Result<Option<Told>> {
    let mut stopping = rest.stopping.subscribe();
    tokio::select! {
        biased;
        told = turn => Ok(Some(told)),
        _ = stopping.wait_for(|stopping| *stopping) => {
            let reason = "the server stops; the lock that was waited for is not held, and may be asked for again";
            Err(Error::new(ErrorKind::Unavailable, reason))
        }
        () = tokio::time::sleep_until(until) => Ok(None),
    }
}

/// New settings of indices in which others hold locks need one of those, if they make the locks protect less.
///
/// # Errors
/// Others hold locks there.
pub(super) async fn check_settings(
    rest: &Rest,
    target: &Target,
    (given, preserve_existing): (&Map<String, Value>, bool),
    locks: &[String],
) -> Result<()> {
    let all = Target {
        ignore_unavailable: true,
        forbid_closed: false,
        expand_closed: true,
        allow_no_indices: true,
        ..target.clone()
    };
    let given = super::settings::flatten(given);
    let about_locks = |name: &String| name.contains('*') || name.starts_with("index.pleach.");
    if locks.is_empty() && !given.keys().any(about_locks) {
        return Ok(());
    }
    for info in rest.engine.indices(&all).await? {
        let mut after = info.settings.clone();
        for (name, value) in &given {
            if value.is_null() {
                after.retain(|known, _| !path::matches(name, known));
            } else if !preserve_existing || !after.contains_key(name) {
                after.insert(name.clone(), (*value).clone());
            }
        }
        rest.relations.check_settings(&info.name, &info.settings, &after, locks)?;
    }
    Ok(())
}
