//! Locks: `_lock` with `_renew` and `_break`, and what the document APIs ask of them.
//!
//! Waiting is here: `relations` has no runtime. Not here: who may hold what.

use crate::Rest;
use crate::actions::locks::{check_rights, check_rights_on, render_lock, targets, wait_for};
use crate::call::Call;
use crate::metrics::LockWait;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, num};
use async_recursion::async_recursion as boxed;
use model::{Error, Result, units};
use relations::leases::{Ask, Asked, Lease, OnExpire, Told, Turn, millis_of};
use relations::locks::LockTarget;
use security::IndexRights;
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::Instant;

/// `POST /_lock`: opens one, or adds to one.
#[boxed]
pub(crate) async fn open(mut call: Call) -> Result<Answer> {
    let timeout = call.params.take_duration("timeout")?.unwrap_or(Duration::ZERO);
    let content = call.json_needed()?;
    call.params.finish()?;
    let mut fields = content.fields("lock")?;
    let keep_alive = fields.take_string("keep_alive")?;
    let ask = Ask {
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
    check_rights(&call.rest, ask.targets.iter().map(|wanted| &wanted.target), IndexRights::LOCK).await?;
    let status = if ask.lock.is_some() { 200 } else { 201 };
    let lease = acquire(&call.rest, ask, Instant::now() + timeout).await?;
    Ok(Answer {
        status,
        ..Answer::raw(render_lock(&call.rest, &lease))
    })
}

/// Asks for the locks until they are granted, or the time is over.
async fn acquire(rest: &Rest, mut ask: Ask, until: Instant) -> Result<Box<Lease>> {
    // Dropped on every way out but a grant, it gives the place in the queue up; also if the client hangs up.
    let mut turn: Option<Turn> = None;
    let mut waited: Option<LockWait<'_>> = None;
    let lease = loop {
        match rest.relations.acquire(&ask).await? {
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
                waited.get_or_insert_with(|| LockWait::begin(&rest.metrics));
                let next = turn.insert(next);
                match wait_for(rest, next, until).await? {
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
        wait.end_granted();
    }
    Ok(lease)
}

/// The same, and how many wait for it.
fn render_with_waiters(rest: &Rest, lease: &Lease, waiters: usize) -> String {
    let mut out = render_lock(rest, lease);
    out.pop();
    let _ = write!(out, ",\"waiters\":{waiters}}}");
    out
}

/// `POST /_lock/{id}/_renew`
#[boxed]
pub(crate) async fn renew(mut call: Call) -> Result<Answer> {
    let keep_alive = call.params.take_duration("keep_alive")?;
    call.no_body()?;
    call.params.finish()?;
    let id = call.path_part("lock_id")?;
    check_rights_on(&call.rest, &id, IndexRights::LOCK).await?;
    let lease = call.rest.relations.renew(&id, keep_alive, call.caller.connection)?;
    let mut out = json!({ "id": id, "fencing_token": lease.token });
    if !lease.is_endless() {
        out["expires_in_millis"] = millis_of(lease.remaining(call.rest.clock.monotonic())).into();
    }
    Ok(Answer::ok(out))
}

/// `DELETE /_lock/{id}`
#[boxed]
pub(crate) async fn release(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let id = call.path_part("lock_id")?;
    check_rights_on(&call.rest, &id, IndexRights::LOCK).await?;
    call.rest.relations.release(&id).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `POST /_lock/{id}/_break`
#[boxed]
pub(crate) async fn break_lock(call: Call) -> Result<Answer> {
    call.no_body()?;
    call.params.finish()?;
    let id = call.path_part("lock_id")?;
    check_rights_on(&call.rest, &id, IndexRights::BREAK_LOCK).await?;
    let lease = call.rest.relations.break_lock(&id).await?;
    Ok(Answer::ok(
        json!({ "acknowledged": true, "id": &*lease.id, "owner": lease.owner }),
    ))
}

/// `GET /_lock`, `GET /_lock/{id}`
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let index = call.params.take("index");
    call.params.finish()?;
    if let Some(id) = call.arg("lock_id") {
        check_rights_on(&call.rest, id, IndexRights::LOCK).await?;
        let (lease, waiters) = call.rest.relations.lease(id)?;
        call.rest.relations.locks_settled().await?;
        return Ok(Answer::raw(render_with_waiters(&call.rest, &lease, waiters)));
    }
    let about = |lease: &Lease| {
        index
            .as_deref()
            .is_none_or(|index| lease.targets.iter().any(|w| is_about(&w.target, index)))
    };
    call.rest.relations.check_control()?;
    let all = call.rest.relations.leases();
    call.rest.relations.locks_settled().await?;
    let mut locks = Vec::new();
    for (lease, waiters) in all.into_iter().filter(|(lease, _)| about(lease)) {
        let targets = lease.targets.iter().map(|wanted| &wanted.target);
        // Who may not lock there is told of no locks.
        if check_rights(&call.rest, targets, IndexRights::LOCK).await.is_ok() {
            locks.push(render_with_waiters(&call.rest, &lease, waiters));
        }
    }
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
#[boxed]
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
