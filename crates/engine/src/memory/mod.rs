//! The smallest engine: documents in ordered maps, answered by linear scan. The model that others are held against.
//!
//! It keeps its promises exactly; anything it cannot do (scores, analysis of queries, scripts in searches,
//! templates) it refuses by name. One mutex is its critical section; a group of writes works on a copy that replaces
//! the state at once or not at all.
//!
//! **Invariants**, asserted in `Store::record`: sequence numbers of an index count from 0 without holes; a
//! document's version never goes back except by an external version that says so; refused writes leave nothing.
//!
//! Not here: durability (it forgets), refreshing by time (searches see what was refreshed and nothing else), a runtime.

mod aggs;
mod catalog;
mod order;
mod query;
mod search;
mod staging;

use crate::clock::{Clock, uuid};
use crate::*;
use catalog::{Catalog, Entry, Moment};
use dsl::search::SearchRequest;
use mapping::{Fields, NestedDoc, ReadOptions, Times, Timing};
use model::{ErrorKind, PrimaryTerm, SeqNo};
use search::Snapshot;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// It never restarts, so this never grows.
const TERM: PrimaryTerm = 1;

/// The memory engine.
#[derive(Debug)]
pub struct MemoryEngine {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Views in which writes are staged.
    stagings: Mutex<BTreeMap<String, staging::StagingView>>,
}

/// A document as it is kept, with what its mapping made of it.
#[derive(Debug)]
struct Stored {
    at: DocAddress,
    stamp: Stamp,
    source: Source,
    routing: Option<String>,
    parent: Option<String>,
    times: Times,
    hidden: Option<Hidden>,
    root: Fields,
    nested: Vec<NestedDoc>,
    ignored: Vec<String>,
}

impl Stored {
    fn is_seen(&self, see: See) -> bool {
        see == See::Everything || self.hidden.as_ref().is_none_or(|mark| mark.visible)
    }
    /// The same document, held by no mark.
    fn unheld(&self) -> Stored {
        Stored {
            at: self.at.clone(),
            source: self.source.clone(),
            routing: self.routing.clone(),
            parent: self.parent.clone(),
            hidden: self.hidden.clone().map(|mark| Hidden { held: false, ..mark }),
            root: self.root.clone(),
            nested: self.nested.clone(),
            ignored: self.ignored.clone(),
            ..*self
        }
    }
    fn document(&self) -> Document {
        Document {
            at: self.at.clone(),
            stamp: self.stamp,
            source: self.source.clone(),
            stored_fields: None,
            routing: self.routing.clone(),
            parent: self.parent.clone(),
            times: self.times,
            tree: None,
            hidden: self.hidden.clone(),
        }
    }
}

/// The newest state of an id. Stamps of deleted documents are never forgotten.
#[derive(Clone, Debug)]
enum Slot {
    Gone(Stamp),
    There(Arc<Stored>),
}

impl Slot {
    /// A document, or the place of one that is deleted; under a mark a deleted one stays.
    fn of(stored: Stored, exists: bool) -> Slot {
        debug_assert!(
            exists || stored.hidden.as_ref().is_none_or(|mark| !mark.visible),
            "a document that is deleted under a mark is not visible"
        );
        match exists || stored.hidden.is_some() {
            true => Slot::There(Arc::new(stored)),
            false => Slot::Gone(stored.stamp),
        }
    }
    fn stamp(&self) -> Stamp {
        match self {
            Slot::Gone(stamp) => *stamp,
            Slot::There(doc) => doc.stamp,
        }
    }
    fn visible(&self, see: See) -> Option<&Arc<Stored>> {
        match self {
            Slot::There(doc) if doc.is_seen(see) => Some(doc),
            _ => None,
        }
    }
}

/// The documents of one index.
#[derive(Clone, Debug, Default)]
struct Store {
    next_seq_no: SeqNo,
    slots: BTreeMap<DocId, Slot>,
    /// Searchable documents, by sequence number.
    searchable: Arc<Vec<Arc<Stored>>>,
    /// Everything committed up to here is searchable; where nothing is pending, everything is.
    refreshed_at: CommitSeq,
    pending: bool,
}

impl Store {
    fn lookup(&self, id: &DocId, see: See) -> Found {
        match self.slots.get(id) {
            None => Found::Nothing,
            Some(slot) if slot.visible(see).is_some() => Found::Here(slot.stamp()),
            Some(slot) => Found::Deleted(slot.stamp()),
        }
    }

    fn record(&mut self, id: DocId, slot: Slot) {
        assert_eq!(slot.stamp().seq_no, self.next_seq_no, "sequence numbers have no holes");
        assert!(
            self.slots
                .get(&id)
                .is_none_or(|before| before.stamp().seq_no < slot.stamp().seq_no),
            "a newer operation takes the place of an older one"
        );
        self.next_seq_no += 1;
        self.pending = true;
        self.slots.insert(id, slot);
    }

    /// The documents that are not searchable as they are.
    fn unrefreshed_documents(&self, index: &IndexName) -> Vec<Unrefreshed> {
        let shown: BTreeMap<&DocId, SeqNo> = self.searchable.iter().map(|doc| (&doc.at.id, doc.stamp.seq_no)).collect();
        let is_shown = |(id, slot): &(&DocId, &Slot)| match slot {
            Slot::There(doc) => shown.get(id) == Some(&doc.stamp.seq_no),
            Slot::Gone(_) => !shown.contains_key(id),
        };
        let others = self.slots.iter().filter(|slot| !is_shown(slot));
        let unrefreshed = others.map(|(id, slot)| Unrefreshed {
            at: DocAddress {
                index: index.clone(),
                id: id.clone(),
            },
            source: slot.visible(See::Everything).map(|doc| doc.source.clone()),
        });
        unrefreshed.collect()
    }

    fn refresh(&mut self, now: CommitSeq) {
        if self.pending {
            let mut docs: Vec<_> = self
                .slots
                .values()
                .filter_map(|slot| slot.visible(See::Everything).cloned())
                .collect();
            docs.sort_by_key(|doc| doc.stamp.seq_no);
            debug_assert!(
                docs.windows(2).all(|two| two[0].stamp.seq_no < two[1].stamp.seq_no),
                "a sequence number is that of one document"
            );
            self.searchable = Arc::new(docs);
            self.pending = false;
        }
        self.refreshed_at = now;
    }
}

#[derive(Debug)]
struct OpenView {
    snapshot: Arc<Snapshot>,
    view: View,
    deadline: Duration,
}

#[derive(Clone, Debug, Default)]
struct State {
    catalog: Catalog,
    /// By the uuid of the index.
    stores: BTreeMap<String, Arc<Store>>,
    commit_seq: CommitSeq,
    scripts: BTreeMap<String, Value>,
    views: BTreeMap<String, Arc<OpenView>>,
}

/// The effect of a write, before it is written.
enum Doing {
    Put(Source, Value),
    Delete,
    Noop,
}

impl Doing {
    fn effect(&self, found: Found) -> Effect {
        match (self, found.is_here()) {
            (Doing::Noop, _) => Effect::Noop,
            (Doing::Put(..), true) => Effect::Updated,
            (Doing::Put(..), false) => Effect::Created,
            (Doing::Delete, true) => Effect::Deleted,
            (Doing::Delete, false) => Effect::NotFound,
        }
    }
}

impl Stored {
    /// Reads the fields of a source under the mapping of its index. Gives the index with what the mapping grows by.
    fn read_fields(&mut self, source: &Value, entry: &Entry, judge: Judge) -> Result<Option<Entry>> {
        let id = &self.at.id;
        let options = ReadOptions {
            routing: self.routing.as_deref().or(self.parent.as_deref()),
            times: self.times,
            ..read_options(id, judge)
        };
        let parsed = entry.mapping_for(id)?.read(source, &options)?;
        let grown = parsed.growth.as_ref().map(|growth| entry.grown(id, growth)).transpose()?;
        (self.root, self.nested, self.ignored) = (parsed.root, parsed.nested, parsed.ignored);
        Ok(grown)
    }
}

/// Plain writers do not know of marks; those who set or take them see all that is there.
fn sees(write: &Write) -> See {
    match write.hide {
        Hide::Keep => See::Plain,
        _ => See::Everything,
    }
}

fn outcome_of(effect: Effect, at: DocAddress, stamp: Stamp, source: Option<Source>) -> Outcome {
    Outcome::Written(Written {
        effect,
        at,
        stamp,
        source,
        forced_refresh: false,
    })
}

/// A document that could never be written is no conflict.
fn refuse_unreadable(entry: &Entry, id: &DocId, write: &Write) -> Result<()> {
    if let WriteOp::Put(source) = &write.op {
        let options = ReadOptions {
            routing: write.routing.as_deref(),
            ..read_options(id, write.judge)
        };
        entry.mapping_for(id)?.read(&source.parse()?, &options)?;
    }
    Ok(())
}

fn read_options(id: &DocId, judge: Judge) -> ReadOptions<'_> {
    ReadOptions {
        id: &id.id,
        type_name: id.doc_type.as_deref().unwrap_or(""),
        lenient: judge != Judge::Fully,
        ..ReadOptions::default()
    }
}

/// The parent and the routing after a write. `updated` is the document of an update: it keeps both, and unless the update
/// moves it, its routing even against that of the write.
fn parent_and_routing(write: &Write, updated: Option<&Stored>) -> (Option<String>, Option<String>) {
    let parent = write.parent.clone().or_else(|| updated?.parent.clone());
    let stays = matches!(&write.op, WriteOp::Update(update) if !update.moves);
    let given = write.routing.clone().filter(|_| updated.is_none() || !stays);
    let routing = given.or_else(|| updated?.routing.clone()).or_else(|| parent.clone());
    (parent, routing)
}

/// The mark after a write. A document that is deleted under a mark is not visible.
fn hidden_after(hide: &Hide, mark: Option<Hidden>, exists: bool) -> Option<Hidden> {
    match hide {
        Hide::Keep => mark.map(|mark| Hidden { visible: exists, ..mark }),
        Hide::Set(mark) => Some(Hidden {
            visible: mark.visible && exists,
            ..mark.clone()
        }),
        Hide::Drop => None,
    }
}

impl State {
    /// Writes of one document: done, or without a trace.
    fn write(&mut self, write: &Write, now_ms: i64) -> Outcome {
        self.try_write(write, now_ms).unwrap_or_else(Outcome::Refused)
    }

    fn try_write(&mut self, write: &Write, now_ms: i64) -> Result<Outcome> {
        let (entry, at) = self.resolve(write)?;
        let (id, see) = (at.id.clone(), sees(write));
        let store = self.stores.entry(entry.uuid.clone()).or_default();
        let here = store.slots.get(&id).and_then(|slot| slot.visible(See::Everything)).cloned();
        let mark = here.as_ref().and_then(|doc| doc.hidden.clone());
        if let Some(mark) = mark.as_ref().filter(|mark| mark.held && see == See::Plain) {
            return Ok(Outcome::Held(mark.body.clone()));
        }
        let found = store.lookup(&id, see);
        if let Err(conflict) = write.check(&at, found, store.lookup(&id, See::Everything)) {
            refuse_unreadable(&entry, &id, write)?;
            return Ok(Outcome::Conflict(conflict));
        }
        let old = here.filter(|doc| doc.is_seen(see));
        let is_update = matches!(write.op, WriteOp::Update(_));
        let (parent, routing) = parent_and_routing(write, old.as_deref().filter(|_| is_update));
        entry.check_routing(&id, routing.as_deref())?;
        let mut timing = write.timing.clone();
        let doing = match &write.op {
            WriteOp::Put(source) => Doing::Put(source.clone(), source.parse()?),
            WriteOp::Delete => Doing::Delete,
            WriteOp::Update(update) => apply_update(update, &at, old.as_deref(), routing.as_deref(), &mut timing)?,
        };
        let times = match &doing {
            Doing::Put(..) => entry.mapping_for(&id)?.times(&at, &timing, now_ms)?,
            _ => Times::default(),
        };
        let stamp = Stamp {
            seq_no: store.next_seq_no,
            primary_term: TERM,
            version: found.next_version(write.expect),
        };
        let effect = doing.effect(found);
        let (source, value) = match doing {
            Doing::Noop => {
                let source = old.map(|doc| doc.source.clone());
                return Ok(outcome_of(effect, at, found.stamp().unwrap_or_default(), source));
            }
            Doing::Put(source, value) => (source, Some(value)),
            Doing::Delete => (Source((*b"{}").into()), None),
        };
        let mut stored = Stored {
            at: at.clone(),
            stamp,
            source: source.clone(),
            routing: routing.filter(|routing| parent.as_ref() != Some(routing)),
            parent,
            times,
            hidden: hidden_after(&write.hide, mark, value.is_some()),
            root: Fields::default(),
            nested: Vec::new(),
            ignored: Vec::new(),
        };
        let grown = match &value {
            Some(value) => stored.read_fields(value, &entry, write.judge)?,
            None => None,
        };
        // From here on nothing is refused.
        let slot = Slot::of(stored, value.is_some());
        Arc::make_mut(store).record(id, slot);
        if let Some(grown) = grown {
            self.catalog.put(grown);
        }
        let shown = Some(source).filter(|_| is_update && effect != Effect::Deleted);
        Ok(outcome_of(effect, at, stamp, shown))
    }

    /// The index of a write, and the address of its document there.
    fn resolve(&self, write: &Write) -> Result<(Arc<Entry>, DocAddress)> {
        let entry = self.catalog.write_index(write.at.index.as_str(), write.require_alias)?;
        entry.must_be(write.index_uuid.as_deref())?;
        entry.must_be_open()?;
        let at = DocAddress {
            index: entry.name.clone(),
            id: entry.identity(&write.at.id)?,
        };
        Ok((entry, at))
    }

    /// Makes a group of writes durable and, if wanted, searchable.
    fn commit(&mut self, outcomes: &mut [Outcome], refresh: Refresh) {
        self.commit_seq += 1;
        if refresh == Refresh::No {
            return;
        }
        for outcome in outcomes {
            let Outcome::Written(written) = outcome else { continue };
            written.forced_refresh = refresh == Refresh::Now && written.effect != Effect::Noop;
            if let Some(entry) = self.catalog.0.get(written.at.index.as_str()).cloned() {
                self.refresh(&entry);
            }
        }
    }

    fn refresh(&mut self, entry: &Entry) {
        let now = self.commit_seq;
        Arc::make_mut(self.stores.entry(entry.uuid.clone()).or_default()).refresh(now);
    }

    fn read(&self, read: &Read) -> Result<Option<Document>> {
        let entry = self.catalog.read_index(read.at.index.as_str())?;
        entry.must_be_open()?;
        let id = entry.identity(&read.at.id)?;
        entry.check_routing(&id, read.routing.as_deref())?;
        let Some(store) = self.stores.get(&entry.uuid) else {
            return Ok(None);
        };
        let found = if read.searchable_only {
            store.searchable.iter().find(|doc| doc.at.id == id)
        } else {
            store.slots.get(&id).and_then(|slot| slot.visible(See::Everything))
        };
        Ok(found.filter(|doc| doc.is_seen(read.see)).map(|doc| doc.document()))
    }

    fn rehearse(&self, write: &Write) -> Result<Option<Alteration>> {
        let (entry, at) = self.resolve(write)?;
        let (id, see) = (&at.id, sees(write));
        let value = match &write.op {
            WriteOp::Delete => return Ok(None),
            WriteOp::Put(source) => source.parse()?,
            WriteOp::Update(update) => {
                let old = self
                    .stores
                    .get(&entry.uuid)
                    .and_then(|store| store.slots.get(id)?.visible(see));
                let mut timing = write.timing.clone();
                match apply_update(update, &at, old.map(|doc| &**doc), write.routing.as_deref(), &mut timing)? {
                    Doing::Put(_, value) => value,
                    Doing::Delete | Doing::Noop => return Ok(None),
                }
            }
        };
        let routing = write.routing.as_deref().or(write.parent.as_deref());
        let options = ReadOptions {
            id: &id.id,
            type_name: id.doc_type.as_deref().unwrap_or(""),
            routing,
            ..ReadOptions::default()
        };
        let growth = entry.mapping_for(id)?.read(&value, &options)?.growth;
        let doc_type = id.doc_type.as_deref().map(str::to_owned);
        Ok(growth.map(|growth| Alteration::PutMapping {
            target: Target::index(entry.name.as_str()),
            doc_type,
            body: growth.render(),
        }))
    }

    /// The documents that searches of a target see now.
    fn snapshot(&self, target: &Target) -> Result<Snapshot> {
        let mut out = Snapshot::default();
        for found in self.catalog.resolve(target)? {
            let name = found.entry.name.as_str().to_owned();
            let docs = self
                .stores
                .get(&found.entry.uuid)
                .map(|store| store.searchable.clone())
                .unwrap_or_default();
            out.docs.insert(name.clone(), docs);
            out.filters.insert(name.clone(), found.filters);
            out.catalog.0.insert(name, found.entry);
        }
        Ok(out)
    }

    /// A view's moment; to use it prolongs it.
    fn view(&mut self, id: &str, now: Duration) -> Result<Arc<OpenView>> {
        self.views.retain(|_, open| open.deadline > now);
        let missing = || {
            Error::new(
                ErrorKind::SearchContextMissing,
                format!("No search context found for id [{id}]"),
            )
        };
        let open = self.views.get_mut(id).ok_or_else(missing)?;
        let deadline = now.saturating_add(open.view.keep_alive).max(open.deadline);
        *open = Arc::new(OpenView {
            snapshot: open.snapshot.clone(),
            view: open.view.clone(),
            deadline,
        });
        Ok(open.clone())
    }
}

fn apply_update(
    update: &Update,
    at: &DocAddress,
    old: Option<&Stored>,
    routing: Option<&str>,
    timing: &mut Timing,
) -> Result<Doing> {
    let value = old.map(|doc| doc.source.parse()).transpose()?;
    let found = value.as_ref().zip(old.map(|doc| doc.stamp));
    let times = old.map_or_else(Times::default, |doc| doc.times);
    Ok(match update.apply_timed(at, found, routing, times, timing)? {
        Applied::Put(value) => Doing::Put(Source::from_value(&value), value),
        Applied::Delete => Doing::Delete,
        Applied::Noop => Doing::Noop,
    })
}

/// The refusal of a request that this engine does not know.
fn unsupported_request(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::UnsupportedOperation, reason)
}

fn without_trees() -> Error {
    Error::new(
        ErrorKind::UnsupportedOperation,
        "the memory engine has no trees of directories",
    )
}

impl MemoryEngine {
    /// An empty one.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryEngine {
        MemoryEngine {
            clock,
            state: Mutex::default(),
            stagings: Mutex::default(),
        }
    }

    /// A panic inside leaves a sound state: what is fallible comes before what changes it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Engine for MemoryEngine {
    async fn read(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        let state = self.state();
        reads.iter().map(|read| state.read(read)).collect()
    }

    async fn read_together(&self, reads: Vec<Read>, bytes_max: usize) -> Result<Vec<Result<Option<Document>>>> {
        let state = self.state();
        let (mut out, mut bytes) = (Vec::with_capacity(reads.len()), 0);
        for read in &reads {
            if bytes > bytes_max {
                break;
            }
            let found = state.read(read);
            bytes += found
                .as_ref()
                .map_or(0, |found| found.as_ref().map_or(0, |d| d.source.0.len()));
            out.push(found);
        }
        Ok(out)
    }

    async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        let mut state = self.state();
        let mut outcomes: Vec<Outcome> = {
            let now_ms = self.clock.wall_ms();
            writes.iter().map(|write| state.write(write, now_ms)).collect()
        };
        state.commit(&mut outcomes, refresh);
        Ok(outcomes)
    }

    async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>> {
        let state = self.state();
        Ok(writes.iter().map(|write| state.rehearse(write)).collect())
    }

    async fn refresh(&self, target: &Target, at_least: Option<CommitSeq>) -> Result<u32> {
        let mut state = self.state();
        if let Some(ahead) = at_least.filter(|seq| *seq > state.commit_seq) {
            return Err(Error::illegal(format!(
                "commit [{ahead}] is still to come, the last one is [{}]",
                state.commit_seq
            )));
        }
        let found = state.catalog.resolve(target)?;
        for resolved in &found {
            state.refresh(&resolved.entry);
        }
        Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
    }

    async fn open_view(&self, target: &Target, keep_alive: Duration, _promise: ViewPromise) -> Result<View> {
        let mut state = self.state();
        let snapshot = state.snapshot(target)?;
        let stores = snapshot.catalog.0.values().filter_map(|entry| state.stores.get(&entry.uuid));
        let as_of = stores
            .filter(|store| store.pending)
            .map(|store| store.refreshed_at)
            .min()
            .unwrap_or(state.commit_seq);
        let indices = snapshot.catalog.0.values().map(|entry| entry.name.clone()).collect();
        let view = View {
            id: uuid(&*self.clock),
            as_of: Some(as_of),
            indices,
            promise: ViewPromise::OneMoment,
            created_ms: self.clock.wall_ms(),
            keep_alive,
        };
        let deadline = self.clock.monotonic().saturating_add(keep_alive);
        let open = OpenView {
            snapshot: Arc::new(snapshot),
            view: view.clone(),
            deadline,
        };
        state.views.insert(view.id.clone(), Arc::new(open));
        Ok(view)
    }

    async fn renew_view(&self, view: &str, keep_alive: Duration) -> Result<()> {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let open = state.view(view, now)?;
        let renewed = View {
            keep_alive,
            ..open.view.clone()
        };
        let deadline = now.saturating_add(keep_alive);
        state.views.insert(
            view.to_owned(),
            Arc::new(OpenView {
                snapshot: open.snapshot.clone(),
                view: renewed,
                deadline,
            }),
        );
        Ok(())
    }

    async fn close_view(&self, view: &str) -> Result<bool> {
        if is_staging(view) {
            return Ok(self.end_staging(view));
        }
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.views.retain(|_, open| open.deadline > now);
        Ok(state.views.remove(view).is_some())
    }

    async fn views(&self) -> Result<Vec<View>> {
        let now = self.clock.monotonic();
        let mut state = self.state();
        state.views.retain(|_, open| open.deadline > now);
        Ok(state.views.values().map(|open| open.view.clone()).collect())
    }

    async fn search(&self, target: &Target, request: SearchRequest, see: See) -> Result<SearchResponse> {
        let Some(id) = request.view.as_ref().or(request.pit.as_ref().map(|pit| &pit.id)) else {
            let snapshot = self.state().snapshot(target)?;
            return snapshot.search(target, &request, see, self.clock.wall_ms());
        };
        if let Some(snapshot) = self.in_staging(id, |staging| staging.snapshot(target)) {
            return snapshot?.search(target, &request, see, self.clock.wall_ms());
        }
        let snapshot = self.state().view(id, self.clock.monotonic())?.snapshot.clone();
        let inside = inside_view(target);
        snapshot.search(&inside, &request, see, self.clock.wall_ms())
    }

    async fn scan(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        if matches!(barrier, Barrier::Proof { .. }) {
            self.refresh(target, None).await?;
        }
        let snapshot = self.state().snapshot(target)?;
        let (_, found) = snapshot.matching(target, Some(&query), &[], see, self.clock.wall_ms())?;
        Ok(Box::pin(futures::stream::iter(
            found.into_iter().map(|(_, doc)| Ok(doc.document())),
        )))
    }

    async fn scan_view(&self, target: &Target, query: Query, view: &str) -> Result<BoxStream<'static, Result<Document>>> {
        let (snapshot, target) = match self.in_staging(view, |staging| staging.snapshot(target)) {
            Some(snapshot) => (Arc::new(snapshot?), target.clone()),
            None => {
                let open = self.state().view(view, self.clock.monotonic())?;
                (open.snapshot.clone(), inside_view(target))
            }
        };
        let (_, found) = snapshot.matching(&target, Some(&query), &[], See::Plain, self.clock.wall_ms())?;
        let found = found.into_iter().map(|(_, doc)| Ok(doc.document()));
        Ok(Box::pin(futures::stream::iter(found)))
    }

    async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        let moment = Moment {
            now_ms: self.clock.wall_ms(),
            uuid: uuid(&*self.clock),
        };
        let mut state = self.state();
        let altered = Altered {
            indices: Vec::new(),
            changed: true,
        };
        match &alteration {
            Alteration::PutScript { id, body } => drop(state.scripts.insert(id.clone(), body.clone())),
            Alteration::DeleteScript { id } => {
                let missing = || {
                    Error::new(
                        ErrorKind::ScriptMissing,
                        format!("stored script [{id}] does not exist and cannot be deleted"),
                    )
                };
                state.scripts.remove(id).map(drop).ok_or_else(missing)?;
            }
            _ => {
                let (catalog, altered) = state.catalog.apply(&alteration, moment)?;
                state.catalog = catalog;
                let alive: Vec<String> = state.catalog.0.values().map(|entry| entry.uuid.clone()).collect();
                state.stores.retain(|uuid, _| alive.contains(uuid));
                state.commit_seq += 1;
                return Ok(altered);
            }
        }
        state.commit_seq += 1;
        Ok(altered)
    }

    async fn inspect(&self, inspection: Inspection) -> Result<Inspected> {
        let state = self.state();
        Ok(match inspection {
            Inspection::Indices(target) => {
                Inspected::Indices(state.catalog.resolve(&target)?.iter().map(|r| r.entry.info()).collect())
            }
            Inspection::Stats(target) => {
                let found = state.catalog.resolve(&target)?;
                Inspected::Stats(
                    found
                        .iter()
                        .map(|r| (r.entry.info(), stats(&r.entry, state.stores.get(&r.entry.uuid))))
                        .collect(),
                )
            }
            Inspection::Templates(_) => Inspected::Templates(Vec::new()),
            Inspection::Script(id) => Inspected::Script(state.scripts.get(&id).cloned()),
            Inspection::ClusterSettings => Inspected::ClusterSettings {
                persistent: Map::new(),
                transient: Map::new(),
            },
            Inspection::Validate { target, query } => {
                let explain = || query::check(&query).map(|()| query.render().to_string());
                Inspected::Validated(
                    state
                        .catalog
                        .resolve(&target)?
                        .iter()
                        .map(|r| (r.entry.name.clone(), explain()))
                        .collect(),
                )
            }
            Inspection::Directories(_) => return Err(without_trees()),
            Inspection::TermVectors(_) => return Err(Error::illegal("[term vectors] are not supported by this engine")),
            Inspection::Node => Inspected::Node(Box::new(NodeStats {
                open_views: state.views.len() as u64,
                ..NodeStats::default()
            })),
        })
    }

    fn atomic(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }

    fn staging(&self) -> Option<&dyn Staging> {
        Some(self)
    }
}

/// A target inside a view. Who names no index means all that the view has.
fn inside_view(target: &Target) -> Target {
    let all = target.expressions.iter().all(String::is_empty);
    Target {
        expand_hidden: target.expand_hidden || all,
        expand_closed: all,
        ..target.clone()
    }
}

fn stats(entry: &Entry, store: Option<&Arc<Store>>) -> IndexStats {
    let Some(store) = store else { return IndexStats::default() };
    let visible: Vec<_> = store.searchable.iter().filter(|doc| doc.is_seen(See::Plain)).collect();
    let mut by_type: BTreeMap<String, u64> = BTreeMap::new();
    for doc_type in visible.iter().filter_map(|doc| doc.at.id.doc_type.as_deref()) {
        *by_type.entry(doc_type.to_owned()).or_default() += 1;
    }
    debug_assert!(entry.has_types() || by_type.is_empty(), "only typed indices have types");
    IndexStats {
        docs: visible.len() as u64,
        docs_by_type: by_type.into_iter().collect(),
        lucene_docs: visible.iter().map(|doc| 1 + doc.nested.len() as u64).sum(),
        size_bytes: visible.iter().map(|doc| doc.source.0.len() as u64).sum(),
        segments: u64::from(!store.searchable.is_empty()),
        max_seq_no: store.next_seq_no.checked_sub(1),
        ..IndexStats::default()
    }
}

/// The state under the lock, for planners.
struct Reading<'a>(&'a State);

impl Newest for Reading<'_> {
    fn read(&mut self, at: &DocAddress, see: See) -> Result<Option<Document>> {
        self.0.read(&Read {
            see,
            ..Read::whole(at.clone())
        })
    }
    fn index(&mut self, name: &str) -> Result<WriteIndex> {
        let entry = self.0.catalog.write_index(name, false)?;
        Ok(WriteIndex {
            name: entry.name.clone(),
            uuid: entry.uuid.as_str().into(),
            typed: entry.has_types(),
            settings: Arc::new(entry.settings.clone()),
        })
    }
    fn rehearse(&mut self, write: &Write) -> Result<()> {
        self.0.rehearse(write).map(|_| ())
    }
}

#[async_trait]
impl AtomicWrites for MemoryEngine {
    async fn unrefreshed_documents(
        &self,
        index: &IndexName,
        _position: CommitSeq,
        most: usize,
    ) -> Result<Option<Vec<Unrefreshed>>> {
        let state = self.state();
        let mut found = Vec::new();
        for resolved in state.catalog.resolve(&Target::index(index.as_str()))? {
            if let Some(store) = state.stores.get(&resolved.entry.uuid) {
                found.extend(store.unrefreshed_documents(&resolved.entry.name));
            }
        }
        Ok(Some(found).filter(|found| found.len() <= most))
    }

    async fn look(&self, look: &mut crate::Looker<'_>) {
        let state = self.state().clone();
        look(&mut Reading(&state));
    }

    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        // One lock for everything: gates and documents need none of their own.
        let mut state = self.state();
        let now_ms = self.clock.wall_ms();
        let plan = plan(&mut Reading(&state))?;
        // A copy is written to. It replaces the state if every write was done; a panic loses the copy alone.
        let mut next = state.clone();
        if !plan.moves.is_empty() {
            return Err(without_trees());
        }
        for alteration in &plan.alterations {
            if !matches!(alteration, Alteration::CreateIndex { .. }) {
                return Err(unsupported_request("a decision may make indices and alter nothing else"));
            }
            let moment = Moment {
                now_ms: self.clock.wall_ms(),
                uuid: uuid(&*self.clock),
            };
            next.catalog = next.catalog.apply(alteration, moment)?.0;
        }
        let (sealed, seal) = plan.seal.map_or((None, None), |(place, seal)| (Some(place), Some(seal)));
        let mut outcomes: Vec<Outcome> = plan.writes.iter().map(|write| next.write(write, now_ms)).collect();
        if outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_))) {
            let stamps: Vec<Stamp> = outcomes
                .iter()
                .map(|outcome| match outcome {
                    Outcome::Written(written) => written.stamp,
                    _ => Stamp::default(),
                })
                .collect();
            let decision = Decision {
                moves: &[],
                commit_seq: state.commit_seq + 1,
                stamps: &stamps,
            };
            if let (Some(place), Some(seal)) = (sealed, seal) {
                // Written once more, with the stamp it has.
                let mut again = plan.writes[place].clone();
                again.op = crate::WriteOp::Put(seal(&decision));
                let mut fresh = state.clone();
                fresh.catalog = next.catalog.clone();
                let mut writes = plan.writes.clone();
                writes[place] = again;
                outcomes = writes.iter().map(|write| fresh.write(write, now_ms)).collect();
                next = fresh;
            }
            if !outcomes.is_empty() {
                next.commit(&mut outcomes, how.refresh);
            } else if plan.numbered {
                next.commit_seq += 1;
            }
            if let Some(then) = plan.then {
                then(&decision);
            }
            *state = next;
        }
        Ok(TxnResult {
            commit_seq: state.commit_seq,
            outcomes,
        })
    }
}
