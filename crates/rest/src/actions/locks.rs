//! Locks of a request: read, checked before it acts, and waited for.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::Rest;
use crate::call::Call;
use dsl::json::Node;
use engine::{Document, EngineExt as _};
use model::date::DateFormat;
use model::text::quote;
use model::{DocAddress, Error, ErrorKind, IndexName, Result, Target, path, units};
use relations::leases::{Lease, Told, Turn, Wanted, millis_of};
use relations::locks::{LockTarget, Mode};
use security::IndexRights;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;

/// A lock as answers show it, as text: most answers are this and no more.
pub(crate) fn render_lock(rest: &Rest, lease: &Lease) -> String {
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

pub(crate) fn iso(ms: i64) -> String {
    static FORMAT: LazyLock<Option<DateFormat>> = LazyLock::new(|| DateFormat::parse_pattern("strict_date_optional_time").ok());
    FORMAT
        .as_ref()
        .map_or_else(|| ms.to_string(), |format| format.render(ms, None))
}

/// `[{"index": .., "id": .., "mode": "shared"}]`
pub(crate) fn targets(node: Node) -> Result<Vec<Wanted>> {
    if !node.is_array() {
        return Err(node.error("[targets] must be an array"));
    }
    node.items().into_iter().map(|node| parse_target(node.into_value())).collect()
}

/// One target with its mode.
pub(crate) fn parse_target(value: Value) -> Result<Wanted> {
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

/// Who locks something, or looks at such a lock, has one of these rights on its index.
///
/// # Errors
/// `security_exception`: without it.
pub(crate) async fn check_rights<'a>(
    rest: &Rest,
    targets: impl Iterator<Item = &'a LockTarget> + Send,
    any_of: IndexRights,
) -> Result<()> {
    let Some(scope) = &rest.scope else { return Ok(()) };
    let rights = &scope.principal.rights;
    for target in targets {
        match target {
            LockTarget::Index(index) | LockTarget::Path { index, .. } => scope.check(index.as_str(), any_of).await?,
            LockTarget::Document(at) => scope.check(at.index.as_str(), any_of).await?,
            LockTarget::All
                if IndexRights::EACH
                    .iter()
                    .any(|one| any_of.shares(*one) && rights.has_everywhere(*one)) => {}
            // A plain mutex is in no index.
            LockTarget::Name(_) if rights.has_somewhere(any_of) => {}
            LockTarget::All | LockTarget::Name(_) => return Err(scope.refusal(any_of, &["_all"])),
        }
    }
    Ok(())
}

/// The same of a lock that is there; of another one the refusal comes later.
///
/// # Errors
/// `security_exception`: without it.
pub(crate) async fn check_rights_on(rest: &Rest, id: &str, any_of: IndexRights) -> Result<()> {
    if rest.scope.is_none() {
        return Ok(());
    }
    match rest.relations.lease(id) {
        Ok((lease, _)) => check_rights(rest, lease.targets.iter().map(|wanted| &wanted.target), any_of).await,
        Err(_) => Ok(()),
    }
}

/// A read of this document under locks: alive, in any mode, and one of them covers it.
///
/// # Errors
/// As for writes.
pub(crate) async fn check_read(call: &Call, locks: &[String], at: &DocAddress, found: Option<&Document>) -> Result<()> {
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
pub(crate) async fn write_ends(rest: &Rest, ids: &[String]) -> Result<()> {
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
pub(crate) fn check_alive(call: &Call, locks: &[String]) -> Result<()> {
    locks.iter().try_for_each(|id| call.rest.relations.lease(id).map(|_| ()))
}

/// Checks that a request which deletes, closes or renames indices with locks holds a lock there, if others hold any.
///
/// # Errors
/// Others do.
pub(crate) async fn check_alter(rest: &Rest, target: &Target, locks: &[String]) -> Result<()> {
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
pub(crate) async fn wait_for(rest: &Rest, turn: &mut Turn, until: Instant) -> Result<Option<Told>> {
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
pub(crate) async fn check_settings(
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
    let given = crate::render::settings::flatten(given);
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
