//! Asking for a lock: targets to claims, the step over all of them, one record for the grant.

use super::handover::asking;
use super::lease::{KEEP_ALIVE, KEEP_ALIVE_DEFAULT, Lease, TimedBy, Wanted, token};
use super::table::{Table, text_bytes};
use super::{Ask, Asked, Place};
use crate::atomically::{Answer, Step};
use crate::locks::{
    AllAnswer, Blocker, Claim, LockKey, LockPath, LockTarget, Owner, PlaceFields, Request, cycle, plan, queue_all, targets_max,
    waiters_max, waits,
};
use crate::schema;
use async_recursion::async_recursion as boxed;
use engine::{Decision, Gate, Newest, Plan, See, TxnOptions, Write, WriteIndex, WriteOp};
use model::lock_index::LockIndex;
use model::{DocAddress, Error, ErrorKind, IndexName, Result, settings};
use serde_json::Value;
use std::sync::Arc;

impl crate::Relations {
    /// Asks for a lock, or for more of one.
    ///
    /// # Errors
    /// Who is in the way, unless it waits; a circle of waits; limits; targets that make no sense.
    #[boxed]
    pub async fn acquire(&self, ask: &Ask) -> Result<Asked> {
        let keep_alive = ask.keep_alive.unwrap_or(KEEP_ALIVE_DEFAULT);
        if keep_alive < KEEP_ALIVE.0 || keep_alive > KEEP_ALIVE.1 {
            return Err(Error::illegal(format!(
                "[keep_alive] must be between [1s] and [1h] but was [{}ms]",
                keep_alive.as_millis()
            )));
        }
        let most = targets_max();
        if ask.targets.is_empty() || ask.targets.len() > most {
            return Err(Error::illegal(format!(
                "a lock needs 1 to [{most}] targets but has [{}]; the limit is the setting [locks.max_targets]",
                ask.targets.len()
            )));
        }
        self.check_control()?;
        self.sweep().await?;
        self.check_session()?;
        let place = match (&ask.place, &ask.lock) {
            (Some(place), _) => place.clone(),
            (None, None) => self.new_place(""),
            (None, Some(id)) => Place {
                owner: Owner::new(id.as_str()),
                age: self.locks.table().next_age(),
            },
        };
        let id: Arc<str> = Arc::from(place.owner.as_str());
        let options = TxnOptions {
            touches: touches(&id, &ask.targets),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let body = |newest: &mut dyn Newest| self.grant_or_queue(ask, &place, &id, newest);
        self.atomically_once(options, body).await
    }

    /// One run inside the section.
    fn grant_or_queue(&self, ask: &Ask, place: &Place, id: &Arc<str>, newest: &mut dyn Newest) -> Result<Step<Asked>> {
        let targets = resolve_targets(newest, &ask.targets)?;
        let control = newest.index(schema::CONTROL);
        let (table, _) = self.locks.now(&self.clock);
        let held = match &ask.lock {
            Some(id) => Some(table.alive(id)?.clone()),
            None => None,
        };
        let lease = join_lease(held.as_ref(), id, ask, targets);
        check_limits(&table, held.as_ref(), &lease)?;
        let running = table.running_on(&lease.claims);
        if !running.is_empty() {
            return self.wait_for_running(&running);
        }
        let request = asking(place.owner.clone(), place.age, ask.wait);
        match table.look(&lease.claims, &request, &[]) {
            AllAnswer::Granted => {
                // Only decisions like this one grant. Making the document of a large lock takes milliseconds.
                drop(table);
                let lease = Lease {
                    opened_ms: self.clock.wall_ms(),
                    ..lease
                };
                let mut plan = Plan::of(vec![Write::new(Lease::at(id), WriteOp::Put(lease.document(None)))]);
                match control {
                    Ok(_) => {}
                    Err(e) if e.kind() == ErrorKind::IndexNotFound => plan.alterations.push(schema::make_control()),
                    Err(e) => return Err(e),
                }
                Ok(Step::CommitWith(plan, self.enter_grant(lease, request)))
            }
            AllAnswer::Queued(_) => {
                if held.is_some() {
                    check_no_circle(&table, &lease.claims, &request)?;
                }
                // Who holds something already asks again: its lock grows, and is not made anew.
                let whole = held.is_none().then(|| Arc::new(ask.clone()));
                let (shared, place, claims) = (self.locks.clone(), place.clone(), lease.claims);
                let queue = move |_: &Decision<'_>| {
                    let told = shared.table().enqueue(&claims, &request, whole);
                    let turn = shared.turn(&place.owner, told);
                    Asked::Queued(turn, place)
                };
                Ok(Step::CommitWith(Plan::revealing_nothing(), Box::new(queue)))
            }
            AllAnswer::Busy(blocked) => Err(in_the_way(&table, &blocked)),
            AllAnswer::Full(key) => Err(full(&key)),
            AllAnswer::Deadlock { with, .. } => Err(deadlock(id, Some(&with))),
        }
    }
}

impl crate::Relations {
    /// Transactions that are not finished write what the lock would protect: it is granted after them, or refused with what
    /// holds them up.
    fn wait_for_running(&self, running: &[Owner]) -> Result<Step<Asked>> {
        if let Some(why) = self.why_held_up(running) {
            let error = Error::new(ErrorKind::LockConflict, why.reason());
            let details = why.details().iter();
            return Err(details.fold(error, |error, (name, value)| error.with(name, value.clone())));
        }
        let reason = "a transaction that is not finished writes there";
        Ok(Step::Busy(Error::new(ErrorKind::LockConflict, reason)))
    }

    /// Enters the lease into the table once its record has its place, whose stamp is its token.
    fn enter_grant(&self, mut lease: Lease, request: Request) -> Answer<Asked> {
        let (shared, clock) = (self.locks.clone(), self.clock.clone());
        Box::new(move |decision: &Decision<'_>| {
            lease.token = decision.stamps.first().map_or(0, |stamp| token(*stamp));
            lease.deadline = clock.monotonic() + lease.keep_alive;
            let granted = Box::new(lease.clone());
            let mut table = shared.table();
            // Past a gate what runs is decided before anybody hears of the grant (T29).
            let is_alone = table.gate() == 0;
            debug_assert!(
                !is_alone || !table.runs_on(&lease.claims),
                "T22: a lock is granted over what runs"
            );
            table.grant(lease, &request);
            Asked::Granted(granted)
        })
    }
}

/// Refuses a lock that the table has no room for.
fn check_limits(table: &Table, held: Option<&Lease>, lease: &Lease) -> Result<()> {
    let (id, locks_max, most) = (&lease.id, settings::node_count(settings::LOCKS_MAX), targets_max());
    // Who was granted while it waited, and was not told, holds already.
    if held.is_none() && table.count() >= locks_max && table.lease(id).is_none() {
        let reason = format!("there are [{locks_max}] locks already; the limit is the setting [locks.max]");
        return Err(Error::new(ErrorKind::RejectedExecution, reason));
    }
    if held.is_some_and(|lease| lease.lock_document.is_some()) {
        let reason = format!("lock [{id}] is that of a lock document, which has no other targets; open one of your own");
        return Err(Error::new(ErrorKind::LockTarget, reason).with("lock", &**id));
    }
    if lease.targets.len() > most {
        return Err(Error::illegal(format!(
            "lock [{id}] would have [{}] targets; the limit of [{most}] is the setting [locks.max_targets]",
            lease.targets.len()
        )));
    }
    let texts = (table.text_bytes() + text_bytes(lease)).saturating_sub(held.map_or(0, text_bytes));
    let texts_max = settings::node(settings::LOCKS_MAX_BYTES);
    if texts > texts_max {
        let reason = format!(
            "the targets of all locks would have [{texts}] bytes; the limit of [{texts_max}] is the setting [locks.max_bytes]"
        );
        return Err(Error::new(ErrorKind::RejectedExecution, reason));
    }
    Ok(())
}

/// Refuses a request whose waiting would close a circle.
fn check_no_circle(table: &Table, claims: &[Claim], request: &Request) -> Result<()> {
    let asked = table.locks_of(claims).into_iter();
    let locks = queue_all(asked.map(|(lock, mode)| (lock.into_owned(), mode)).collect(), request);
    let now_waiting: Vec<&LockKey> = locks.iter().map(|lock| &lock.key).collect();
    let others = table.waited_for().filter(|lock| !now_waiting.contains(&&lock.key));
    match cycle(&waits(locks.iter().chain(others)), &request.owner) {
        Some(_) => Err(deadlock(request.owner.as_str(), None)),
        None => Ok(()),
    }
}

/// The refusal for the first that is in the way.
pub(crate) fn in_the_way(table: &Table, blocked: &[(LockKey, Vec<Blocker>)]) -> Error {
    let first = blocked
        .iter()
        .flat_map(|(key, blockers)| blockers.iter().map(move |blocker| (key, blocker)))
        .min_by_key(|(_, blocker)| blocker.waiting);
    match first {
        Some((key, blocker)) => table.conflict(key, blocker),
        None => Error::new(ErrorKind::LockConflict, "the lock is not free"),
    }
}

/// The refusal of a full queue.
pub(crate) fn full(key: &LockKey) -> Error {
    let reason = format!(
        "[{}] wait for [{key}] already; the limit is the setting [locks.max_waiters]",
        waiters_max()
    );
    Error::new(ErrorKind::RejectedExecution, reason)
}

fn deadlock(id: &str, with: Option<&Owner>) -> Error {
    let reason = match with {
        Some(other) => format!("lock [{id}] and lock [{other}] would wait for each other; release one of them"),
        None => format!("lock [{id}] would wait for itself through others; release it or one of them"),
    };
    let error = Error::new(ErrorKind::LockDeadlock, reason).with("lock", id);
    match with {
        Some(other) => error.with("with", other.as_str()),
        None => error,
    }
}

pub(crate) fn touches(id: &str, targets: &[Wanted]) -> Vec<DocAddress> {
    let documents = targets.iter().filter_map(|wanted| match &wanted.target {
        LockTarget::Document(at) => Some(at.clone()),
        _ => None,
    });
    documents.chain([Lease::at(id)]).collect()
}

/// Targets by the identity that their index gives them: aliases by the index they mean now, documents by their type and
/// with the places where they are.
///
/// # Errors
/// A path in an index that does not say where its documents are; a document without a type where there are several.
pub(crate) fn resolve_targets(newest: &mut dyn Newest, targets: &[Wanted]) -> Result<Vec<(Wanted, Vec<LockPath>)>> {
    targets.iter().map(|wanted| resolve_target(newest, wanted)).collect()
}

fn resolve_target(newest: &mut dyn Newest, wanted: &Wanted) -> Result<(Wanted, Vec<LockPath>)> {
    let mode = wanted.mode;
    let name = match &wanted.target {
        LockTarget::All | LockTarget::Name(_) => return Ok((wanted.clone(), Vec::new())),
        LockTarget::Index(index) | LockTarget::Path { index, .. } => index,
        LockTarget::Document(at) => &at.index,
    };
    let found = write_index_of(newest, name.as_str())?;
    if let LockTarget::Path { index, path } = &wanted.target
        && !path.is_root()
    {
        check_says_where(newest, index, found.as_ref())?;
    }
    let Some(found) = found else {
        let target = wanted.target.clone().of_missing_index();
        return Ok((Wanted { target, mode }, Vec::new()));
    };
    let mut places = Vec::new();
    let index = found.name.clone();
    let target = match wanted.target.clone() {
        LockTarget::Index(_) => LockTarget::Index(index),
        LockTarget::Path { path, .. } => LockTarget::Path { index, path },
        LockTarget::Document(at) => {
            let mut at = DocAddress { index, id: at.id };
            at.id = newest.identity(&at).map_err(|_| type_missing(&at))?;
            let fields = fields_of(&found.settings)?;
            if !fields.is_unset()
                && let Some(document) = newest.read(&at, See::Plain)?
            {
                places.extend(fields.places(&document.source.parse()?)?);
            }
            LockTarget::Document(at)
        }
        other => other,
    };
    Ok((Wanted { target, mode }, places))
}

/// A path is locked only where documents say in which path they are; or where each document is a lock, which stands at the
/// path that is its id. Of an index that is only to be made its templates must say so.
fn check_says_where(newest: &mut dyn Newest, name: &IndexName, found: Option<&WriteIndex>) -> Result<()> {
    let (settings, there) = match found {
        Some(found) => (found.settings.clone(), true),
        None => (newest.template_settings(name.as_str())?, false),
    };
    if LockIndex::of(&settings)? == LockIndex::All || !fields_of(&settings)?.is_unset() {
        return Ok(());
    }
    let setting = settings::PLEACH_LOCK_PATH.name;
    let reason = if there {
        format!("index [{name}] does not say where its documents are, so a path in it cannot be locked: set [{setting}]")
    } else {
        format!("index [{name}] does not exist, and no template says where its documents will be: make it with [{setting}] first")
    };
    Err(Error::new(ErrorKind::LockTarget, reason)
        .with("index", name.as_str())
        .with("setting", setting))
}

fn type_missing(at: &DocAddress) -> Error {
    let (index, id) = (&at.index, &at.id.id);
    let reason = format!("documents of index [{index}] have types: a lock target names [type] beside [id] [{id}]");
    Error::new(ErrorKind::LockTarget, reason).with("index", index.as_str())
}

/// The claims of those targets.
pub(crate) fn claims_of(targets: &[(Wanted, Vec<LockPath>)]) -> Vec<Claim> {
    let each = targets
        .iter()
        .flat_map(|(wanted, places)| wanted.target.claims(wanted.mode, places));
    plan(each)
}

/// `index.pleach.locks`, the least respect first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Respect {
    Off,
    Advisory,
    Enforced,
}

pub(crate) fn mode_of(settings: &serde_json::Map<String, Value>) -> Respect {
    match settings.get("index.pleach.locks").and_then(Value::as_str) {
        Some("advisory") => Respect::Advisory,
        Some("enforced") => Respect::Enforced,
        _ => Respect::Off,
    }
}

/// Do writes of the index look at locks, whatever they are written under?
pub(crate) fn respects_locks(settings: &serde_json::Map<String, Value>) -> bool {
    mode_of(settings) != Respect::Off
}

pub(crate) fn fields_of(settings: &serde_json::Map<String, Value>) -> Result<PlaceFields> {
    PlaceFields::parse(settings.get("index.pleach.lock_path").unwrap_or(&Value::Null))
}

fn write_index_of(newest: &mut dyn Newest, name: &str) -> Result<Option<WriteIndex>> {
    match newest.index(name) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == ErrorKind::IndexNotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The lease as it will be: what is held joined with what is asked.
pub(crate) fn join_lease(held: Option<&Lease>, id: &Arc<str>, ask: &Ask, targets: Vec<(Wanted, Vec<LockPath>)>) -> Lease {
    let new = claims_of(&targets);
    let mut wanted: Vec<Wanted> = held.map(|lease| lease.targets.clone()).unwrap_or_default();
    for (target, _) in targets {
        match wanted.iter_mut().find(|known| known.target == target.target) {
            Some(known) => known.mode = known.mode.join(target.mode),
            None => wanted.push(target),
        }
    }
    let before = held.map(|lease| lease.claims.clone()).unwrap_or_default();
    let keep_alive = ask
        .keep_alive
        .or(held.map(|lease| lease.keep_alive))
        .unwrap_or(KEEP_ALIVE_DEFAULT);
    Lease {
        id: id.clone(),
        owner: match held {
            Some(lease) if ask.owner.is_empty() => lease.owner.clone(),
            _ => ask.owner.clone(),
        },
        targets: wanted,
        claims: plan(before.into_iter().chain(new)),
        token: 0,
        keep_alive,
        on_expire: held.map_or(ask.on_expire, |lease| lease.on_expire),
        on_disconnect_release: held.map_or(ask.on_disconnect_release, |lease| lease.on_disconnect_release),
        connection: ask.connection,
        deadline: std::time::Duration::ZERO,
        timed_by: TimedBy::Here,
        ending: false,
        over_is_written: false,
        opened_ms: 0,
        lock_document: None,
    }
}
