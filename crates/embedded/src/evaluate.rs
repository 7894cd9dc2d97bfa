//! Evaluates a write on the document that is there: its condition, its update, its new source as the mapping reads it
//! (write-path.md 3, steps 1, 3 and 4).
//!
//! One way for all: `resolved_write`, then [`evaluate`], whose [`PreparedWrite`] lacks only its stamp. Plain writes,
//! decisions, staged writes and rehearsals differ in where they find documents ([`CurrentDocuments`]) and in what they do
//! with the result.
//!
//! Not here: stamps and the record (`commit`), waiting for the disk (the async side, `lib`), building (`publish`).

use crate::accepted::{Accepted, Growth, bare_mapping};
use crate::catalog::IndexEntry;
use crate::current_document::{CurrentDocument, CurrentDocuments, NewestDocuments, NoDocuments};
use crate::document_key::Key;
use crate::environment::Environment;
use crate::index_state::IndexState;
use crate::lock_order::Mutex;
use crate::pending::Put;
use crate::prepared_write::PreparedWrite;
use crate::resolved_write::ResolvedWrite;
use crate::store::Store;
use crate::trees::{PathsOf, ReadBy, Trees};
use crate::wait_for::WaitFor;
use engine::{Applied, Document, Effect, Expect, Found, Hidden, Hide, Judge, Outcome, See, Source, Write, WriteOp, Written};
use mapping::{Parsed, ReadOptions, Times};
use model::routing::lead_together;
use model::{DocAddress, Result, Stamp};
use segment::hidden_mark::mark_bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An evaluated write.
pub(crate) enum Evaluated {
    Write(Box<PreparedWrite>),
    /// Nothing is to be written.
    Done(Outcome),
}

impl Store {
    /// Evaluates a write on the newest document, and notes in `after` what its answer rests on, also if it is refused. The
    /// caller holds the document's stripe. `made`: the state of an index that this very record makes.
    pub(crate) fn prepare_write(
        &self,
        resolved: ResolvedWrite,
        key: Key,
        made: Option<Arc<IndexState>>,
        after: &mut WaitFor,
    ) -> Result<(Arc<IndexState>, Evaluated)> {
        let newest = NewestDocuments::of(self);
        let (state, evaluated) = match made {
            Some(state) => (state, evaluate(resolved, key, &NoDocuments, (&self.env, &self.trees))),
            None => (
                self.state(&resolved.entry)?,
                evaluate(resolved, key, &newest, (&self.env, &self.trees)),
            ),
        };
        after.durable = after.durable.max(newest.position());
        let mut evaluated = evaluated?;
        match &mut evaluated {
            Evaluated::Done(Outcome::Written(written)) if written.effect == Effect::Noop => {
                state.counts().noop.fetch_add(1, Ordering::Relaxed);
            }
            Evaluated::Done(_) => {}
            Evaluated::Write(prepared) => {
                if let (Some(put), Some(parsed)) = (&mut prepared.put, prepared.parsed.take()) {
                    put.parsed = Mutex::leaf(self.write_path.keep_parsed(parsed, self.env.limits().pending_bytes / 2));
                }
            }
        }
        Ok((state, evaluated))
    }
}

/// Everything about one write that may fail and rests on documents.
///
/// # Errors
/// An update that cannot be made, a document that the mapping refuses, limits of memory.
pub(crate) fn evaluate(
    resolved: ResolvedWrite,
    key: Key,
    documents: &dyn CurrentDocuments,
    (env, trees): (&Environment, &Trees),
) -> Result<Evaluated> {
    let ResolvedWrite { entry, at, uid, write } = resolved;
    let current = documents.current(&entry, &at, &uid, key)?;
    let fresh = matches!(current.found, Found::Nothing);
    let mark = current.document.as_ref().and_then(|document| document.hidden.clone());
    if let (Some(mark), Hide::Keep) = (&mark, &write.hide)
        && mark.held
    {
        return Ok(Evaluated::Done(Outcome::Held(mark.body.clone())));
    }
    // The paths of the new source are those of the tree that the old one was shown by (trees.md D5).
    let read_by = match (&write.tree, &current.tree, &write.op) {
        (Some(tree), _, _) => ReadBy::Tree(tree.clone()),
        (None, Some(tree), WriteOp::Update(_)) => ReadBy::Tree(tree.clone()),
        (None, tree, _) => ReadBy::Moves(tree.as_ref().map_or(0, |tree| tree.last_move_seq())),
    };
    let basis = Basis::of(current, &write);
    if let (true, WriteOp::Delete) = (basis.elsewhere, &write.op) {
        return Ok(Evaluated::Done(absent_elsewhere(at, basis.found)));
    }
    if let Some(conflict) = basis.conflict(&write, &at) {
        check_source(&entry, &at, &write)?;
        return Ok(Evaluated::Done(Outcome::Conflict(conflict)));
    }
    let (judge, version, found) = (write.judge, basis.found.next_version(write.expect), basis.found);
    let hidden = match &write.hide {
        // A document that was deleted under its mark and is written again is seen again.
        Hide::Keep => mark.map(|mark| Hidden { visible: true, ..mark }),
        Hide::Set(hidden) => Some(hidden.clone()),
        Hide::Drop => None,
    };
    let next = match apply(write, &at, basis)? {
        AppliedWrite::Noop(noop) => return Ok(Evaluated::Done(Outcome::Written(noop))),
        AppliedWrite::Document(next) => next,
    };
    let effect = match (&next.source, found.is_here()) {
        (Some(_), true) => Effect::Updated,
        (Some(_), false) => Effect::Created,
        (None, true) => Effect::Deleted,
        (None, false) => Effect::NotFound,
    };
    let show = next.show.clone();
    let Read {
        mut put,
        parsed,
        growth,
        paths,
    } = read(&entry, &at, next, hidden, judge, documents, env)?;
    if let Some(put) = &mut put {
        put.placed = trees.place(&entry, &paths, &read_by)?;
        debug_assert!(
            put.placed.len() == paths.len()
                && put
                    .placed
                    .iter()
                    .zip(&paths)
                    .all(|(placed, paths)| placed.field == paths.field && placed.dirs.len() == paths.texts.len()),
            "trees.md D6: each value of each field has its number, in order: {:?}",
            put.placed
        );
    }
    Ok(Evaluated::Write(Box::new(PreparedWrite {
        entry,
        at,
        uid,
        key,
        version,
        effect,
        fresh,
        put,
        parsed,
        show,
        growth,
    })))
}

/// The document that a write begins from, as its writer sees it.
struct Basis {
    document: Option<Document>,
    found: Found,
    /// The same with what marks hide.
    stored: Found,
    began: Option<Found>,
    /// The document lies where the routing of a deletion or update does not lead.
    elsewhere: bool,
}

impl Basis {
    fn of(current: CurrentDocument, write: &Write) -> Basis {
        // Plain writers do not know of marks: to them what a mark hides is deleted.
        let see = sees(&write.hide);
        let document = current.document.filter(|document| visible(document, see));
        let found = match current.found {
            Found::Here(stamp) if document.is_none() => Found::Deleted(stamp),
            found => found,
        };
        debug_assert_eq!(
            found.is_here(),
            document.is_some(),
            "1.5: a document that is found is read, and no other"
        );
        Basis {
            elsewhere: document.as_ref().is_some_and(|document| is_elsewhere(write, document)),
            began: current.began,
            document,
            found,
            stored: current.found,
        }
    }

    fn conflict(&self, write: &Write, at: &DocAddress) -> Option<engine::Conflict> {
        let conflict = write.check(at, self.found, self.stored).err()?;
        let is_moved = conflict.expect != write.expect;
        let stamped = !is_moved && matches!(write.expect, Expect::Unchanged { .. } | Expect::Version(_));
        // A staged document has no stamp: it is compared with the one that its view began with.
        match self.began.filter(|_| stamped) {
            Some(began) => write.expect.check(at, began).err(),
            None => Some(conflict),
        }
    }
}

/// Would the routing of this deletion or update look for the document in another shard than its own leads to? A write that has
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

/// The outcome of a deletion whose routing does not lead to the document.
fn absent_elsewhere(at: DocAddress, found: Found) -> Outcome {
    let stamp = Stamp {
        version: 1,
        ..found.stamp().unwrap_or_default()
    };
    Outcome::Written(Written {
        effect: Effect::NotFound,
        at,
        stamp,
        source: None,
        forced_refresh: false,
    })
}

/// A document that could never be written is no conflict: its source is read before it is compared.
fn check_source(entry: &IndexEntry, at: &DocAddress, write: &Write) -> Result<()> {
    let WriteOp::Put(source) = &write.op else { return Ok(()) };
    let options = ReadOptions {
        id: &at.id.id,
        type_name: at.id.doc_type.as_deref().unwrap_or(""),
        routing: write.routing.as_deref(),
        lenient: write.judge != Judge::Fully,
        ..ReadOptions::default()
    };
    let mapping = entry.mapping_for(at.id.doc_type.as_deref())?;
    mapping.read(&source.parse()?, &options).map(drop)
}

/// The document that a write leaves, before the mapping has read it.
struct NextDocument {
    /// `None`: it goes.
    source: Option<Source>,
    show: Option<Source>,
    routing: Option<String>,
    parent: Option<String>,
    timing: mapping::Timing,
}

enum AppliedWrite {
    Document(NextDocument),
    /// An update that changes nothing.
    Noop(Written),
}

/// Applies the operation of a write to the document.
fn apply(write: Write, at: &DocAddress, basis: Basis) -> Result<AppliedWrite> {
    let mut next = NextDocument {
        source: None,
        show: None,
        routing: write.routing,
        parent: write.parent,
        timing: write.timing,
    };
    let update = match write.op {
        WriteOp::Delete => return Ok(AppliedWrite::Document(next)),
        WriteOp::Put(source) => {
            next.source = Some(source);
            return Ok(AppliedWrite::Document(next));
        }
        WriteOp::Update(update) => update,
    };
    let Basis {
        document,
        found,
        elsewhere,
        ..
    } = basis;
    let value = document
        .as_ref()
        .map(|document| document.source.parse_to_update(at))
        .transpose()?;
    let own = document.as_ref().filter(|_| !elsewhere);
    let newest = value.as_ref().zip(found.stamp().filter(|_| found.is_here() && !elsewhere));
    if let Some(document) = own {
        // An update keeps what only a whole write could change.
        next.routing = next.routing.filter(|_| update.moves).or_else(|| document.routing.clone());
        next.parent = next.parent.or_else(|| document.parent.clone());
    }
    let times = own.map_or_else(Times::default, |document| document.times);
    match update.apply_timed(at, newest, next.routing.as_deref(), times, &mut next.timing)? {
        Applied::Put(value) => {
            let source = Source::from_value(&value);
            next.show = Some(source.clone());
            next.source = Some(source);
        }
        Applied::Delete => {}
        Applied::Noop => {
            return Ok(AppliedWrite::Noop(Written {
                effect: Effect::Noop,
                at: at.clone(),
                stamp: found.stamp().unwrap_or_default(),
                source: document.map(|document| document.source),
                forced_refresh: false,
            }));
        }
    }
    Ok(AppliedWrite::Document(next))
}

/// A document that the mapping of its index has read.
struct Read {
    put: Option<Put>,
    parsed: Option<Parsed>,
    growth: Option<Growth>,
    paths: Vec<PathsOf>,
}

fn read(
    entry: &IndexEntry,
    at: &DocAddress,
    next: NextDocument,
    hidden: Option<Hidden>,
    judge: Judge,
    documents: &dyn CurrentDocuments,
    env: &Environment,
) -> Result<Read> {
    let NextDocument {
        source,
        mut routing,
        parent,
        timing,
        ..
    } = next;
    let parent = parent.map(Into::into);
    let Some(source) = source else {
        // The mark outlives the document, hidden.
        let put = hidden.map(|mark| Put {
            mapping: bare_mapping(entry),
            source: (*b"{}").into(),
            routing: routing.map(Into::into),
            parent,
            times: Times::default(),
            placed: Box::default(),
            hidden: Some(with_bytes(Hidden { visible: false, ..mark })),
            parsed: Mutex::default(),
        });
        return Ok(Read {
            put,
            parsed: None,
            growth: None,
            paths: Vec::new(),
        });
    };
    let times = entry
        .mapping_for(at.id.doc_type.as_deref())?
        .times(at, &timing, env.wall_ms())?;
    let _reading = crate::reading_memory::book(env.breakers(), &source.0)?;
    let parents = |at: &DocAddress| documents.parent(entry, at);
    let accepted = Accepted::read(entry, at, &source, &mut routing, times, judge, &parents)?;
    let put = Put {
        mapping: accepted.mapping,
        source: source.0,
        routing: routing.map(Into::into),
        parent,
        times,
        placed: Box::default(),
        hidden: hidden.map(with_bytes),
        parsed: Mutex::default(),
    };
    Ok(Read {
        put: Some(put),
        parsed: accepted.parsed,
        growth: accepted.growth,
        paths: accepted.paths,
    })
}

/// A mark, and its stored form.
fn with_bytes(mark: Hidden) -> (Hidden, Vec<u8>) {
    let bytes = mark_bytes(&mark);
    (mark, bytes)
}

/// The marks that a writer knows of: those who set or take marks see all that is there.
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
