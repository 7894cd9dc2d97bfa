//! The way of a write up to its record (write-path.md 3): what is there, what is expected, what is to be.
//!
//! Not here: stamps and the record (`commit`), waiting for the disk (the async side, `lib`), building (`publish`).

use crate::accepted::{Accepted, Growth, bare_mapping};
use crate::catalog::IndexEntry;
use crate::commit::{PreparedWrite, SideEffects, WaitFor};
use crate::document_key::Key;
use crate::durability::is_of_the_moment;
use crate::get_cache;
use crate::index_state::IndexState;
use crate::lock_order::Mutex;
use crate::pending::{Kind, Put};
use crate::store::Store;
use crate::versions::Newest;
use engine::breaker::CircuitBreakers;
use engine::{
    Alteration, Applied, Document, Effect, Expect, Found, Hidden, Hide, Judge, Outcome, See, Source, Write, WriteOp, Written,
};
use mapping::{Parsed, ReadOptions, Times};
use model::blocks;
use model::routing::lead_together;
use model::{DocAddress, Error, ErrorKind, ID_MAX_BYTES, Result, Stamp, Target};
use segment::hidden_mark::mark_bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The newest state of one document.
pub(crate) struct Here {
    pub(crate) found: Found,
    pub(crate) document: Option<Document>,
    pub(crate) position: u64,
}

impl Here {
    /// Nothing was ever there.
    pub(crate) fn nothing() -> Here {
        Here {
            found: Found::Nothing,
            document: None,
            position: 0,
        }
    }
}

pub(crate) enum Judged {
    PreparedWrite(Box<PreparedWrite>),
    Done(Outcome),
}

impl Store {
    /// The newest state of a document; the caller holds its stripe or only wants to read.
    pub(crate) fn newest(&self, entry: &IndexEntry, at: &DocAddress, uid: &str, key: Key) -> Result<Here> {
        let state = self.state(entry)?;
        match self.versions.get(key) {
            Some(Newest::Put(op)) => {
                let document = match &op.kind {
                    Kind::Put(put) => Some(Document {
                        at: at.clone(),
                        stamp: op.stamp,
                        source: Source(put.source.clone()),
                        stored_fields: None,
                        routing: put.routing.as_deref().map(str::to_owned),
                        parent: put.parent.as_deref().map(str::to_owned),
                        times: put.times,
                        hidden: put.hidden.as_ref().map(|(hidden, _)| hidden.clone()),
                    }),
                    Kind::Delete => None,
                };
                Ok(Here {
                    found: Found::Here(op.stamp),
                    document,
                    position: op.position,
                })
            }
            Some(Newest::Deleted { stamp, position, .. }) => Ok(Here {
                found: Found::Deleted(stamp),
                document: None,
                position,
            }),
            None => {
                let set = state.built.load_full();
                let Some(document) = get_cache::read(self.caches.by_id(), &set, at, uid, key)? else {
                    return Ok(Here::nothing());
                };
                Ok(Here {
                    found: Found::Here(document.stamp),
                    document: Some(document),
                    position: 0,
                })
            }
        }
    }

    /// Each write on its own. Gives outcomes in order and what they wait for; `at_once`: this thread goes on to wait.
    pub(crate) fn write(&self, writes: Vec<Write>, at_once: bool) -> Vec<(Outcome, WaitFor, Option<u32>)> {
        writes
            .into_iter()
            .map(|write| {
                let mut after = WaitFor::default();
                match self.write_one(write, at_once, &mut after) {
                    Ok((outcome, no)) => (outcome, after, no),
                    Err(e) => {
                        // A refusal may rest on what it read, and on the catalog.
                        if !is_of_the_moment(e.kind()) {
                            after.durable = after.durable.max(self.catalog.altered_at());
                        }
                        (Outcome::Refused(self.settle(e)), after, None)
                    }
                }
            })
            .collect()
    }

    /// `after`: what its answer waits for, also if it is refused.
    fn write_one(&self, write: Write, at_once: bool, after: &mut WaitFor) -> Result<(Outcome, Option<u32>)> {
        match write.op {
            WriteOp::Delete => self.check_deletable()?,
            _ => self.check_writable()?,
        }
        let catalog = self.catalog.now();
        let entry = catalog.write_index(write.at.index.as_str(), write.require_alias, self.env.wall_ms())?;
        let begun = Instant::now();
        let deletes = matches!(write.op, WriteOp::Delete);
        let done = self.write_to(&entry, write, at_once, after);
        if let Ok(state) = self.state(&entry) {
            match &done {
                Ok((Outcome::Written(_), ..)) => state.counts.wrote(deletes, begun.elapsed()),
                _ => drop(state.counts.failed.fetch_add(1, Ordering::Relaxed)),
            }
        }
        done
    }

    /// One write to the index that it is for.
    fn write_to(
        &self,
        entry: &Arc<IndexEntry>,
        mut write: Write,
        at_once: bool,
        after: &mut WaitFor,
    ) -> Result<(Outcome, Option<u32>)> {
        check_write(entry, &write)?;
        write.at.id = entry.identity(&write.at.id)?;
        write.routing = entry.routing_through(write.at.index.as_str(), write.routing)?;
        let routing = write.routing.as_deref().or(write.parent.as_deref());
        entry.check_routing(&write.at.id, routing)?;
        let bytes = 512
            + write.at.id.id.len()
            + match &write.op {
                WriteOp::Put(source) => source.0.len() * 2,
                _ => 0,
            };
        let mut room = match write.op {
            WriteOp::Delete => self.log.reserve_delete(bytes as u64)?,
            _ => self.log.reserve(bytes as u64)?,
        };
        if at_once {
            room = room.waited_for();
        }
        let key = self.versions.key(entry.no, &write.at.id.uid());
        // Nothing that is locked here is changed before the last step that can fail.
        let _stripe = self.write_path.lock_document(key);
        let name = write.at.index.clone();
        let mut ready = match self.judge(entry, key, write, after, None)? {
            Judged::Done(outcome) => {
                after.durable = after.durable.max(self.rests_on([name.as_str()]));
                return Ok((outcome, None));
            }
            Judged::PreparedWrite(ready) => ready,
        };
        let no = entry.no;
        let growing = ready.growth.is_some();
        let _altering = growing.then(|| self.catalog.alter_alone());
        if growing {
            self.settle_growth(&mut ready)?;
        }
        let (mut outcomes, waits, _) = self.commit(vec![*ready], SideEffects::default(), &mut room)?;
        after.also(waits);
        Ok((outcomes.pop().unwrap_or(Outcome::Unknown), Some(no)))
    }

    /// Would the mapping take it, and what would grow? Expectations are not looked at.
    pub(crate) fn rehearse(&self, write: &Write) -> Result<Option<Alteration>> {
        let catalog = self.catalog.now();
        let entry = catalog.write_index(write.at.index.as_str(), write.require_alias, self.env.wall_ms())?;
        check_write(&entry, write)?;
        let at = DocAddress {
            index: entry.name.clone(),
            id: write.at.id.clone(),
        };
        let mut routing = write.routing.clone();
        let source = match &write.op {
            WriteOp::Delete => return Ok(None),
            WriteOp::Put(source) => source.parse()?,
            WriteOp::Update(update) => {
                let uid = at.id.uid();
                let here = self.newest(&entry, &at, &uid, self.versions.key(entry.no, &uid))?;
                let old = here.document.filter(|document| visible(document, sees(&write.hide)));
                if let Some(document) = &old {
                    routing = routing.filter(|_| update.moves).or_else(|| document.routing.clone());
                }
                let value = old
                    .as_ref()
                    .map(|document| document.source.parse_to_update(&at))
                    .transpose()?;
                let newest = value.as_ref().zip(old.as_ref().map(|document| document.stamp));
                match update.apply(&at, newest, routing.as_deref())? {
                    Applied::Put(value) => value,
                    Applied::Delete | Applied::Noop => return Ok(None),
                }
            }
        };
        let doc_type = at.id.doc_type.as_deref();
        let options = ReadOptions {
            id: &at.id.id,
            type_name: doc_type.unwrap_or(""),
            routing: routing.as_deref(),
            ..ReadOptions::default()
        };
        let growth = entry.mapping_for(doc_type)?.read(&source, &options)?.growth;
        Ok(growth.map(|growth| Alteration::PutMapping {
            target: Target::index(entry.name.as_str()),
            doc_type: doc_type.map(str::to_owned),
            body: growth.render(),
        }))
    }

    /// Everything about one write that may fail. `key`: of its document; `made`: the state of an index that this very record makes.
    pub(crate) fn judge(
        &self,
        entry: &Arc<IndexEntry>,
        key: Key,
        write: Write,
        after: &mut WaitFor,
        made: Option<Arc<IndexState>>,
    ) -> Result<Judged> {
        let at = DocAddress {
            index: entry.name.clone(),
            id: write.at.id.clone(),
        };
        let uid: Box<str> = at.id.uid().into();
        let (state, here) = match made {
            Some(state) => (state, Here::nothing()),
            None => (self.state(entry)?, self.newest(entry, &at, &uid, key)?),
        };
        after.durable = after.durable.max(here.position);
        let fresh = matches!(here.found, Found::Nothing);
        let family = |at: &DocAddress| {
            let uid = at.id.uid();
            let key = self.versions.key(entry.no, &uid);
            self.newest(entry, at, &uid, key).map(|here| here.document)
        };
        let sent = match &write.op {
            WriteOp::Put(source) if write.is_conditional() => {
                let routing = write.routing.clone();
                Some((source.clone(), write.at.id.doc_type.clone(), routing, write.judge))
            }
            _ => None,
        };
        match evaluate(entry, write, here, None, self.env.wall_ms(), &family, self.env.breakers())? {
            Evaluated::Done(outcome) => {
                // A document that could never be written is no conflict: its source is read before it is compared.
                if let (Outcome::Conflict(_), Some((source, doc_type, routing, judge))) = (&outcome, sent) {
                    let options = ReadOptions {
                        id: &at.id.id,
                        type_name: doc_type.as_deref().unwrap_or(""),
                        routing: routing.as_deref(),
                        lenient: judge != Judge::Fully,
                        ..ReadOptions::default()
                    };
                    entry.mapping_for(doc_type.as_deref())?.read(&source.parse()?, &options)?;
                }
                if matches!(&outcome, Outcome::Written(written) if written.effect == Effect::Noop) {
                    state.counts.noop.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Judged::Done(outcome))
            }
            Evaluated::Out(mut worked) => {
                if let (Some(put), Some(parsed)) = (&mut worked.put, worked.parsed) {
                    put.parsed = Mutex::leaf(self.write_path.keep_parsed(parsed, self.env.limits().pending_bytes / 2));
                }
                Ok(Judged::PreparedWrite(Box::new(PreparedWrite {
                    entry: entry.clone(),
                    state,
                    at: worked.at,
                    uid,
                    key,
                    version: worked.version,
                    effect: worked.effect,
                    fresh,
                    put: worked.put,
                    show: worked.show,
                    growth: worked.growth,
                })))
            }
        }
    }
}

/// A write that has been worked out on what is there.
pub(crate) struct Worked {
    pub(crate) at: DocAddress,
    pub(crate) version: u64,
    pub(crate) effect: Effect,
    /// `None`: the document goes.
    pub(crate) put: Option<Put>,
    /// What was read of its source, if it is to be indexed under the mapping that there is.
    pub(crate) parsed: Option<Parsed>,
    pub(crate) show: Option<Source>,
    pub(crate) growth: Option<Growth>,
}

/// What a write comes to.
pub(crate) enum Evaluated {
    Out(Box<Worked>),
    /// Nothing is to be written.
    Done(Outcome),
}

/// Would the routing of this deletion or update look for the document in another shard than its own leads to? What has
/// a document to write all the same, or a condition, goes by the id alone: an id is there once.
fn is_elsewhere(write: &Write, document: &Document) -> bool {
    let plain = match &write.op {
        WriteOp::Put(_) => false,
        WriteOp::Delete => true,
        WriteOp::Update(update) => update.upsert.is_none() && !update.doc_as_upsert,
    };
    let wanted = write.routing.as_deref().or(write.parent.as_deref());
    plain
        && write.expect == Expect::Anything
        && !lead_together(&write.at.id.id, wanted, document.routing.as_deref(), write.routed_among)
}

/// Everything about one write that may fail and rests on the document alone. `began`: what conditions on stamps mean, if
/// that is not what is here. `family` finds a parent.
pub(crate) fn evaluate(
    entry: &IndexEntry,
    write: Write,
    here: Here,
    began: Option<Found>,
    now_ms: i64,
    family: &dyn Fn(&DocAddress) -> Result<Option<Document>>,
    breakers: &Arc<CircuitBreakers>,
) -> Result<Evaluated> {
    let at = DocAddress {
        index: entry.name.clone(),
        id: write.at.id.clone(),
    };
    let mark = here.document.as_ref().and_then(|document| document.hidden.clone());
    if let (Some(mark), Hide::Keep) = (&mark, &write.hide)
        && mark.held
    {
        return Ok(Evaluated::Done(Outcome::Held(mark.body.clone())));
    }
    // Plain writers do not know of marks: to them what a mark hides is deleted.
    let see = sees(&write.hide);
    let before_document = here.document.filter(|document| visible(document, see));
    let found = match here.found {
        Found::Here(stamp) if before_document.is_none() => Found::Deleted(stamp),
        found => found,
    };
    let elsewhere = before_document
        .as_ref()
        .is_some_and(|document| is_elsewhere(&write, document));
    if let (true, WriteOp::Delete) = (elsewhere, &write.op) {
        let stamp = Stamp {
            version: 1,
            ..found.stamp().unwrap_or_default()
        };
        return Ok(Evaluated::Done(Outcome::Written(Written {
            effect: Effect::NotFound,
            at,
            stamp,
            source: None,
            forced_refresh: false,
        })));
    }
    if let Err(conflict) = write.check(&at, found, here.found) {
        let is_moved = conflict.expect != write.expect;
        let stamped = !is_moved && matches!(write.expect, Expect::Unchanged { .. } | Expect::Version(_));
        // What is staged has no stamp: it is compared with what there was, and told so.
        match began.filter(|_| stamped).map(|began| write.expect.check(&at, began)) {
            Some(Ok(())) => {}
            Some(Err(conflict)) => return Ok(Evaluated::Done(Outcome::Conflict(conflict))),
            None => return Ok(Evaluated::Done(Outcome::Conflict(conflict))),
        }
    }
    let judge = write.judge;
    let hidden = match write.hide {
        // What was deleted under its mark and is written again is seen again.
        Hide::Keep => mark.map(|mark| Hidden { visible: true, ..mark }),
        Hide::Set(hidden) => Some(hidden),
        Hide::Drop => None,
    };
    let version = found.next_version(write.expect);
    let mut routing = write.routing;
    let mut parent = write.parent;
    let mut timing = write.timing;
    let (source, show) = match write.op {
        WriteOp::Put(source) => (Some(source), None),
        WriteOp::Delete => (None, None),
        WriteOp::Update(update) => {
            let kept = before_document.as_ref();
            let value = kept.map(|document| document.source.parse_to_update(&at)).transpose()?;
            let newest = value.as_ref().zip(found.stamp().filter(|_| found.is_here() && !elsewhere));
            if let Some(document) = before_document.as_ref().filter(|_| !elsewhere) {
                // An update keeps what only a whole write could change.
                routing = routing.filter(|_| update.moves).or_else(|| document.routing.clone());
                parent = parent.or_else(|| document.parent.clone());
            }
            let times = kept
                .filter(|_| !elsewhere)
                .map_or_else(Times::default, |document| document.times);
            match update.apply_timed(&at, newest, routing.as_deref(), times, &mut timing)? {
                Applied::Put(value) => {
                    let source = Source::from_value(&value);
                    (Some(source.clone()), Some(source))
                }
                Applied::Delete => (None, None),
                Applied::Noop => {
                    let stamp = found.stamp().unwrap_or_default();
                    let source = before_document.map(|document| document.source);
                    let written = Written {
                        effect: Effect::Noop,
                        at,
                        stamp,
                        source,
                        forced_refresh: false,
                    };
                    return Ok(Evaluated::Done(Outcome::Written(written)));
                }
            }
        }
    };
    let effect = match (&source, found.is_here()) {
        (Some(_), true) => Effect::Updated,
        (Some(_), false) => Effect::Created,
        (None, true) => Effect::Deleted,
        (None, false) => Effect::NotFound,
    };
    let (put, parsed, growth) = match source {
        Some(source) => {
            let times = entry.mapping_for(at.id.doc_type.as_deref())?.times(&at, &timing, now_ms)?;
            let _reading = crate::reading_memory::book(breakers, &source.0)?;
            let read = Accepted::read(entry, &at, &source, &mut routing, times, judge, family)?;
            let put = Put {
                mapping: read.mapping,
                source: source.0,
                routing: routing.map(Into::into),
                parent: parent.map(Into::into),
                times,
                hidden: hidden.map(with_bytes),
                parsed: Mutex::default(),
            };
            (Some(put), read.parsed, read.growth)
        }
        // The mark outlives the document, hidden.
        None => {
            let bare = |mark| Put {
                mapping: bare_mapping(entry),
                source: (*b"{}").into(),
                routing: routing.map(Into::into),
                parent: parent.map(Into::into),
                times: Times::default(),
                hidden: Some(with_bytes(Hidden { visible: false, ..mark })),
                parsed: Mutex::default(),
            };
            (hidden.map(bare), None, None)
        }
    };
    Ok(Evaluated::Out(Box::new(Worked {
        at,
        version,
        effect,
        put,
        parsed,
        show,
        growth,
    })))
}

/// A mark, and its stored form.
fn with_bytes(mark: Hidden) -> (Hidden, Vec<u8>) {
    let bytes = mark_bytes(&mark);
    (mark, bytes)
}

/// What a writer knows of: those who set or take marks see all that is there.
fn sees(hide: &Hide) -> See {
    match hide {
        Hide::Keep => See::Plain,
        _ => See::Everything,
    }
}

/// May this reader see it?
pub(crate) fn visible(document: &Document, see: See) -> bool {
    see == See::Everything || document.hidden.as_ref().is_none_or(|hidden| hidden.visible)
}

/// Limits that do not need the document's state.
pub(crate) fn check_write(entry: &IndexEntry, write: &Write) -> Result<()> {
    if let Some(uuid) = write.index_uuid.as_deref().filter(|uuid| *uuid != entry.uuid) {
        return Err(engine::catalog::replaced(entry.name.as_str(), uuid));
    }
    if !entry.open {
        return Err(engine::catalog::closed(&entry.name, &entry.uuid));
    }
    let id = &write.at.id.id;
    if id.is_empty() {
        return Err(Error::illegal("if _id is specified it must not be empty"));
    }
    if id.len() > ID_MAX_BYTES {
        let reason = format!(
            "id [{id}] is too long, must be no longer than {ID_MAX_BYTES} bytes but was: {}",
            id.len()
        );
        let reason = format!("Validation Failed: 1: {reason};");
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    if id.len() + 1 + write.at.id.doc_type.as_ref().map_or(0, |t| t.len()) > 2 * ID_MAX_BYTES {
        return Err(Error::illegal("type and id are too long together"));
    }
    if write.judge != Judge::Unseen {
        blocks::check(&entry.settings, entry.name.as_str(), blocks::Level::Write)?;
    }
    if let (WriteOp::Put(_), Some(_), true) = (&write.op, &write.parent, entry.typed())
        && entry.mapping_for(write.at.id.doc_type.as_deref())?.parent_type().is_none()
    {
        return Err(Error::illegal("Can't specify parent if no parent field has been configured"));
    }
    if let Expect::Version(0) = write.expect {
        return Err(Error::illegal("illegal version value [0] for version type [INTERNAL]"));
    }
    // A deletion too: replay asks for the mapping of its type.
    entry.mapping_for(write.at.id.doc_type.as_deref()).map(drop)
}
