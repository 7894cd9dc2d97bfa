//! The writes that policies add to the plan of one decision, inside the critical section.
//!
//! Indices are gone through in the order of the table, sources before targets. A document of a target gets its copies
//! from its sources as they will be. A document of a source that changes brings the documents that refer to it into the plan,
//! and these are gone through in their turn. So chains of policies need no recursion, and one pass is enough.
//!
//! An expansion may end without a plan: documents have to be looked for first, a latch is in the way, or a write is
//! refused. Not here: looking (`carriers`), the loop around it (`atomically`).

use super::Links;
use super::carriers::{self, Carriers};
use super::latches::Latch;
use super::pending::{JobId, job_write};
use super::policy::{Mode, OnDelete, OnMissing, Policy};
use super::references::{Copied, Fate, copied_values, has_key, keys, rewrite};
use super::table::PolicyTable;
use crate::schema;
use engine::{Decision, Document, Engine, Newest, Plan, See, Source, Write, WriteIndex, WriteOp};
use model::settings::{LINKS_MAX_PENDING, LINKS_MAX_SYNC, node_count};
use model::{CommitSeq, DocAddress, Error, ErrorKind, IndexName, Result};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// Documents that a refusal names.
const SAMPLE: usize = 3;

/// A document as it was and will be; read only where an index has locks of paths.
pub(crate) type States<'a> = dyn Fn() -> Result<Vec<Cow<'a, Value>>> + 'a;

/// The states of a document that was read like this and will be like that.
///
/// # Errors
/// A source that is no JSON.
pub(crate) fn states_of<'a>(before: Option<&Document>, now: Option<&'a Value>) -> Result<Vec<Cow<'a, Value>>> {
    let before = before.map(|before| before.source.parse()).transpose()?;
    Ok(before.map(Cow::Owned).into_iter().chain(now.map(Cow::Borrowed)).collect())
}

/// May this document be written, which was and will be like this? Locks of others refuse it.
pub(crate) type LockCheck<'a> = dyn FnMut(&WriteIndex, &DocAddress, &States<'_>) -> Result<()> + 'a;

/// The end of an expansion.
pub(crate) enum ExpansionEnd {
    /// The plan is whole; whence the writes behind the first `own` come, and the sources of those that policies altered.
    Whole {
        own: usize,
        origins: Vec<Origin>,
        altered: Vec<(usize, Source)>,
    },
    /// These are to be looked for: the sources are latched.
    Find(Vec<(Arc<Policy>, Arc<str>)>),
    /// Somebody looks for the references to this source, and one would be added: wait until that is over.
    Wait(DocAddress),
    /// This write of the plan cannot be.
    Refused(usize, Error),
}

/// Whence a write comes that a policy added.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The write of the plan that it follows from.
    pub(crate) cause: usize,
    pub(crate) policy: Arc<str>,
    pub(crate) at: DocAddress,
}

impl Origin {
    /// The refusal of the write that this one follows from.
    pub(crate) fn refusal(&self, cause: Error) -> Error {
        // Room and time say nothing about the copy.
        if cause.is_transient() {
            return cause;
        }
        let reason = format!(
            "the copy of link policy [{}] in [{}][{}] was refused: {}",
            self.policy,
            self.at.index,
            self.at.id.id,
            cause.reason()
        );
        Error::new(ErrorKind::LinkCopy, reason)
            .with("policy", &*self.policy)
            .with("index", self.at.index.as_str())
            .with("id", &*self.at.id.id)
            .with_cause(cause)
    }
}

/// The upkeep of one decision, over its runs.
#[derive(Debug)]
pub(crate) struct Upkeep {
    links: Links,
    table: Arc<PolicyTable>,
    latches: FxHashMap<DocAddress, Latch>,
    carriers: FxHashMap<(String, Arc<str>), Carriers>,
    now_ms: i64,
}

impl Upkeep {
    /// `None`: there are no policies. The table is held either way until the decision has its place.
    pub(crate) fn of(links: &Links, table: &Arc<PolicyTable>, now_ms: i64) -> Option<Upkeep> {
        (!table.is_empty()).then(|| Upkeep {
            links: links.clone(),
            table: table.clone(),
            latches: FxHashMap::default(),
            carriers: FxHashMap::default(),
            now_ms,
        })
    }

    /// Is it about these policies?
    pub(crate) fn is_of(&self, table: &Arc<PolicyTable>) -> bool {
        Arc::ptr_eq(&self.table, table)
    }

    /// The documents that were found: they will be read.
    pub(crate) fn touches(&self) -> impl Iterator<Item = DocAddress> {
        let found = self.carriers.values().flat_map(|carriers| &carriers.found);
        found.map(|carrier| carrier.at.clone())
    }

    /// Looks for documents, with everything that was committed up to `position`.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) async fn find(
        &mut self,
        engine: &dyn Engine,
        wanted: Vec<(Arc<Policy>, Arc<str>)>,
        position: CommitSeq,
    ) -> Result<()> {
        let most = node_count(LINKS_MAX_SYNC).saturating_add(1);
        for (policy, key) in wanted {
            debug_assert!(
                self.latches.contains_key(&policy.source_at(&key)),
                "links.md K4: a source is latched before the documents that refer to it are looked for"
            );
            let found = carriers::find(engine, &policy, &key, most, position).await?;
            self.carriers.insert((policy.name.clone(), key), found);
        }
        Ok(())
    }

    /// Adds to a plan what the policies ask for.
    ///
    /// # Errors
    /// An engine that cannot read.
    /// `filling_policy`: the writes of the plan have the copies of this policy already.
    pub(crate) fn expand(
        &mut self,
        newest: &mut dyn Newest,
        plan: &mut Plan,
        filling_policy: Option<&Arc<Policy>>,
        check: &mut LockCheck<'_>,
    ) -> Result<ExpansionEnd> {
        let own = plan.writes.len();
        let mut expansion = Expansion {
            upkeep: self,
            newest,
            filling_policy,
            docs: Vec::new(),
            places: FxHashMap::default(),
            indices: FxHashMap::default(),
            concerns: FxHashMap::default(),
            sources: FxHashMap::default(),
            followed: Vec::new(),
            left: Vec::new(),
            wanted: Vec::new(),
            waits: None,
            added: 0,
        };
        let done = expansion.collect(plan).and_then(|()| expansion.pass());
        match done {
            Ok(()) => {}
            // Documents that are found may alter the refusal.
            Err(Stop::Refused(..)) if !expansion.wanted.is_empty() => {}
            Err(Stop::Refused(cause, error)) => return Ok(ExpansionEnd::Refused(cause, error)),
            Err(Stop::Failed(error)) => return Err(error),
        }
        if let Some(at) = expansion.waits.take() {
            return Ok(ExpansionEnd::Wait(at));
        }
        if !expansion.wanted.is_empty() {
            return Ok(ExpansionEnd::Find(std::mem::take(&mut expansion.wanted)));
        }
        match expansion.complete(plan, check) {
            Ok((origins, altered)) => Ok(ExpansionEnd::Whole { own, origins, altered }),
            Err(Stop::Refused(cause, error)) => Ok(ExpansionEnd::Refused(cause, error)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

/// Why an expansion ends.
enum Stop {
    /// This write of the plan cannot be.
    Refused(usize, Error),
    /// The engine cannot.
    Failed(Error),
}

/// Whether policies add something to the plan's writes to an index.
#[derive(Clone, Copy)]
enum Concern {
    /// Nothing, or nothing is left to do.
    None,
    /// They are for an earlier index of this name.
    MadeAnew,
    Linked,
}

/// A document in the plan, or to be brought into it.
struct PlannedDocument {
    at: DocAddress,
    index: WriteIndex,
    before: Option<Document>,
    /// Its source before, parsed. A document that a policy brought has it only where policies copy out of its index.
    old: Option<Value>,
    now: Option<Value>,
    /// Its write in the plan.
    place: Option<usize>,
    /// The write of the plan that it follows from: its own, if it has one.
    cause: usize,
    /// The policy that brought it.
    policy: Option<Arc<str>>,
    /// A policy altered what it will be.
    altered: bool,
}

struct Expansion<'a> {
    upkeep: &'a mut Upkeep,
    newest: &'a mut dyn Newest,
    filling_policy: Option<&'a Arc<Policy>>,
    docs: Vec<PlannedDocument>,
    places: FxHashMap<DocAddress, usize>,
    indices: FxHashMap<String, Option<WriteIndex>>,
    concerns: FxHashMap<IndexName, Concern>,
    /// The copies of sources, by the name of the policy and the key.
    sources: FxHashMap<String, FxHashMap<String, Option<Copied>>>,
    /// A policy, its source and the documents that refer to it.
    followed: Vec<(Arc<Policy>, usize, Vec<usize>)>,
    /// Sources whose copies follow later.
    left: Vec<(Arc<Policy>, usize)>,
    wanted: Vec<(Arc<Policy>, Arc<str>)>,
    waits: Option<DocAddress>,
    /// Documents that policies brought.
    added: usize,
}

impl Expansion<'_> {
    /// The documents of linked indices among the writes. What the engine will refuse by itself is left to it.
    fn collect(&mut self, plan: &Plan) -> Result<(), Stop> {
        for (n, write) in plan.writes.iter().enumerate() {
            let name = write.at.index.as_str();
            if schema::is_system(name) {
                continue;
            }
            let Some(index) = self.index(name)? else {
                if self.upkeep.table.has(name) {
                    return Err(Stop::Refused(n, made_anew(name)));
                }
                continue;
            };
            match self.concern(&index) {
                Concern::None => continue,
                Concern::MadeAnew => return Err(Stop::Refused(n, made_anew(index.name.as_str()))),
                Concern::Linked => {}
            }
            let mut at = DocAddress {
                index: index.name.clone(),
                id: write.at.id.clone(),
            };
            let Ok(id) = self.newest.identity(&at) else { continue };
            at.id = id;
            let Ok(before) = self.newest.read(&at, See::Plain) else {
                continue;
            };
            let now = match &write.op {
                WriteOp::Delete => None,
                WriteOp::Put(source) => match source.parse() {
                    Ok(value) if value.is_object() => Some(value),
                    _ => continue,
                },
                WriteOp::Update(_) => {
                    let reason = "a decision writes what its updates came to";
                    return Err(Stop::Failed(Error::new(ErrorKind::Internal, reason)));
                }
            };
            let old = parse_source(before.as_ref())?;
            self.places.insert(at.clone(), self.docs.len());
            self.docs.push(PlannedDocument {
                at,
                index,
                before,
                old,
                now,
                place: Some(n),
                cause: n,
                policy: None,
                altered: false,
            });
        }
        Ok(())
    }

    /// Whether policies add something to the plan's writes to an index.
    fn concern(&mut self, index: &WriteIndex) -> Concern {
        if let Some(known) = self.concerns.get(&index.name) {
            return *known;
        }
        let (table, name) = (&self.upkeep.table, index.name.as_str());
        let (from, to) = (table.from(name), table.to(name));
        let own = from.iter().map(|policy| &policy.source.uuid);
        let mut uuids = own.chain(to.iter().map(|policy| &policy.target.uuid));
        let concern = match (from.as_slice(), to.as_slice(), self.filling_policy) {
            _ if uuids.any(|uuid| **uuid != *index.uuid) => Concern::MadeAnew,
            ([], [], _) => Concern::None,
            // Its one policy made these writes.
            ([], [only], Some(policy)) if Arc::ptr_eq(only, policy) => Concern::None,
            _ => Concern::Linked,
        };
        self.concerns.insert(index.name.clone(), concern);
        concern
    }

    fn index(&mut self, name: &str) -> Result<Option<WriteIndex>, Stop> {
        if !self.indices.contains_key(name) {
            let found = match self.newest.index(name) {
                Ok(index) => Some(index),
                Err(e) if e.kind() == ErrorKind::IndexNotFound => None,
                // The engine refuses the write by it.
                Err(_) if !self.upkeep.table.has(name) => None,
                Err(e) => return Err(Stop::Failed(e)),
            };
            self.indices.insert(name.to_owned(), found);
        }
        Ok(self.indices.get(name).cloned().flatten())
    }

    /// Every document once, sources before targets.
    fn pass(&mut self) -> Result<(), Stop> {
        let deepest = self.upkeep.table.deepest();
        for rank in 0..=deepest {
            let at_rank = |doc: &PlannedDocument| self.upkeep.table.rank(doc.at.index.as_str()) == rank;
            let docs: Vec<usize> = (0..self.docs.len()).filter(|d| at_rank(&self.docs[*d])).collect();
            let before = self.docs.len();
            for d in docs {
                self.fill(d)?;
                self.follow(d)?;
            }
            debug_assert!(
                self.docs[before..]
                    .iter()
                    .all(|doc| self.upkeep.table.rank(doc.at.index.as_str()) > rank),
                "links.md K3: a document that joins the plan is gone through in its turn"
            );
        }
        debug_assert_eq!(
            self.places.len(),
            self.docs.len(),
            "links.md K1: a document is in the plan once"
        );
        Ok(())
    }

    /// The copies of a document, from its sources as they will be.
    fn fill(&mut self, d: usize) -> Result<(), Stop> {
        let policies = self.upkeep.table.to(self.docs[d].at.index.as_str());
        let cause = self.docs[d].cause;
        for policy in policies {
            let Some(mut now) = self.docs[d].now.take() else {
                return Ok(());
            };
            let had = match &self.docs[d].old {
                Some(old) => keys(&policy, old).unwrap_or_default(),
                None => Vec::new(),
            };
            // A policy gives no document a key.
            let is_brought = self.docs[d].policy.is_some();
            let mut failed = None;
            let at = self.docs[d].at.clone();
            let changed = rewrite(&policy, &mut now, &mut |key| {
                let is_new = !is_brought && !had.iter().any(|known| known == key);
                self.fate(&policy, key, is_new, &at).map_err(|stop| match stop {
                    Stop::Refused(_, error) => error,
                    Stop::Failed(error) => {
                        failed = Some(error.clone());
                        error
                    }
                })
            });
            if let Some(error) = failed {
                return Err(Stop::Failed(error));
            }
            let changed = changed.map_err(|error| match &self.docs[d].policy {
                // The client did not name it: the refusal does.
                Some(policy) => Stop::Refused(
                    cause,
                    Origin {
                        cause,
                        policy: policy.clone(),
                        at,
                    }
                    .refusal(error),
                ),
                None => Stop::Refused(cause, error),
            });
            self.docs[d].altered |= changed?;
            self.docs[d].now = Some(now);
        }
        Ok(())
    }

    fn fate(&mut self, policy: &Policy, key: &str, is_new: bool, at: &DocAddress) -> Result<Fate, Stop> {
        // Read first: what is read is held to the end.
        let copied = self.source(policy, key)?;
        if is_new {
            let source = policy.source_at(key);
            let own = usize::from(self.upkeep.latches.contains_key(&source));
            if self.upkeep.links.latches.is_held(&source, own) {
                self.waits = Some(source);
                return Ok(Fate::Leave);
            }
        }
        match copied {
            Some(copied) => Ok(Fate::Copy(copied)),
            None if is_new && policy.on_missing == OnMissing::Reject => {
                let (index, id, name) = (&policy.source.index, &at.id.id, &policy.name);
                let reason = format!(
                    "[{}][{id}] refers to [{index}][{key}], which is missing, by link policy [{name}]",
                    at.index
                );
                let error = Error::new(ErrorKind::LinkMissing, reason);
                Err(Stop::Refused(0, error.with("policy", name.as_str()).with("missing", key)))
            }
            None => Ok(Fate::Leave),
        }
    }

    /// The copies of a source as it will be; `None`: there will be none. It is gone through before its targets (links.md K3), so
    /// they are the same for all of these.
    fn source(&mut self, policy: &Policy, key: &str) -> Result<Option<Copied>, Stop> {
        if let Some(known) = self.sources.get(&policy.name).and_then(|of_policy| of_policy.get(key)) {
            return Ok(known.clone());
        }
        let at = policy.source_at(key);
        let found = match self.places.get(&at) {
            Some(d) => self.docs[*d].now.as_ref().map(|now| copied_values(policy, now)),
            None => {
                let found = match self.newest.read(&at, See::Plain) {
                    Err(e) if e.kind() == ErrorKind::IndexNotFound => None,
                    found => found.map_err(Stop::Failed)?,
                };
                parse_source(found.as_ref())?.map(|source| copied_values(policy, &source))
            }
        };
        let of_policy = self.sources.entry(policy.name.clone()).or_default();
        of_policy.insert(key.to_owned(), found.clone());
        Ok(found)
    }

    /// The documents that refer to one that changes or goes.
    fn follow(&mut self, d: usize) -> Result<(), Stop> {
        for policy in self.upkeep.table.from(self.docs[d].at.index.as_str()) {
            let of = |value: &Option<Value>| value.as_ref().map(|value| copied_values(&policy, value));
            let goes = match (of(&self.docs[d].old), of(&self.docs[d].now)) {
                (None, None) => continue,
                (Some(before), Some(after)) if before == after => continue,
                (None, Some(_)) if !policy.may_dangle() => continue,
                (_, Some(_)) => false,
                (Some(_), None) if policy.on_delete == OnDelete::Ignore => continue,
                (Some(_), None) => true,
            };
            let restricts = goes && policy.on_delete == OnDelete::Restrict;
            if policy.mode == Mode::Async && !restricts {
                self.leave(policy, d)?;
                continue;
            }
            let at = self.docs[d].at.clone();
            let key = at.id.id.clone();
            debug_assert_eq!(
                at,
                policy.source_at(&key),
                "links.md K4: who adds a reference looks for the latch where the source is latched"
            );
            let latches = &self.upkeep.links.latches;
            self.upkeep
                .latches
                .entry(at.clone())
                .or_insert_with(|| latches.latch(at.clone()));
            let looked_for = (policy.name.clone(), key.clone());
            let Some(mut carriers) = self.upkeep.carriers.remove(&looked_for) else {
                self.wanted.push((policy, key));
                continue;
            };
            let (linked, more) = (self.collect_linked(&policy, d, &mut carriers, !restricts), carriers.more);
            self.upkeep.carriers.insert(looked_for, carriers);
            let linked = linked?;
            if restricts && !linked.is_empty() {
                return Err(Stop::Refused(
                    self.docs[d].cause,
                    self.restriction_error(&policy, &at, &linked, more),
                ));
            }
            if more && !restricts {
                return Err(Stop::Refused(self.docs[d].cause, too_many(&policy, &at)));
            }
            if goes && !restricts {
                self.let_go(&policy, &key, &linked)?;
            }
            self.followed.push((policy, d, linked));
        }
        Ok(())
    }

    /// Copies that follow later.
    fn leave(&mut self, policy: Arc<Policy>, d: usize) -> Result<(), Stop> {
        let most = node_count(LINKS_MAX_PENDING);
        if self.upkeep.links.pending.count() + self.left.len() >= most {
            let name = LINKS_MAX_PENDING.name;
            let reason = format!("[{most}] changed sources wait for their copies; the limit is the setting [{name}]");
            let error = Error::new(ErrorKind::RejectedExecution, reason).with("setting", name);
            return Err(Stop::Refused(self.docs[d].cause, error));
        }
        self.left.push((policy, d));
        Ok(())
    }

    /// The documents that will refer to a source, unless a policy alters that; all of them are in the plan from here on.
    /// `bounded`: they are written, so `links.max_sync` counts them.
    fn collect_linked(
        &mut self,
        policy: &Arc<Policy>,
        source: usize,
        carriers: &mut Carriers,
        bounded: bool,
    ) -> Result<Vec<usize>, Stop> {
        let key = self.docs[source].at.id.id.clone();
        let cause = self.docs[source].cause;
        let refers = |value: &Option<Value>| value.as_ref().is_some_and(|value| has_key(policy, value, &key));
        // Those of the plan may be new, and no search shows them.
        let mut linked: Vec<usize> = Vec::new();
        for (d, doc) in self.docs.iter().enumerate() {
            if doc.at.index.as_str() == policy.target.index && refers(&doc.now) {
                linked.push(d);
            }
        }
        let is_source = !self.upkeep.table.from(&policy.target.index).is_empty();
        let name: Arc<str> = Arc::from(policy.name.as_str());
        for carrier in &mut carriers.found {
            if self.places.contains_key(&carrier.at) {
                continue;
            }
            let Some(before) = self.newest.read(&carrier.at, See::Plain).map_err(Stop::Failed)? else {
                continue;
            };
            let now = Some(carrier.parse(&before.source).map_err(Stop::Failed)?);
            if !refers(&now) {
                continue;
            }
            let at = &carrier.at;
            let Some(index) = self.index(at.index.as_str())? else {
                continue;
            };
            self.added += 1;
            if bounded && self.added > node_count(LINKS_MAX_SYNC) {
                return Err(Stop::Refused(cause, too_many(policy, &self.docs[source].at)));
            }
            linked.push(self.docs.len());
            self.places.insert(at.clone(), self.docs.len());
            self.docs.push(PlannedDocument {
                at: at.clone(),
                index,
                before: Some(before),
                old: if is_source { now.clone() } else { None },
                now,
                place: None,
                cause,
                policy: Some(name.clone()),
                altered: false,
            });
        }
        debug_assert!(
            linked
                .iter()
                .all(|d| self.upkeep.table.rank(self.docs[*d].at.index.as_str()) > self.upkeep.table.rank(&policy.source.index)),
            "links.md K3: sources stand before their targets"
        );
        Ok(linked)
    }

    /// The source of these goes.
    fn let_go(&mut self, policy: &Policy, key: &str, linked: &[usize]) -> Result<(), Stop> {
        for d in linked {
            let doc = &mut self.docs[*d];
            match policy.on_delete {
                OnDelete::Cascade if doc.place.is_some() => {
                    let (index, id) = (&doc.at.index, &doc.at.id.id);
                    let reason = format!(
                        "[{index}][{id}] is written by the change that deletes [{}][{key}], which it refers to by link policy [{}]",
                        policy.source.index, policy.name
                    );
                    return Err(Stop::Refused(doc.cause, Error::new(ErrorKind::LinkRestrict, reason)));
                }
                OnDelete::Cascade => {
                    doc.now = None;
                    doc.altered = true;
                }
                OnDelete::Unset => {
                    let Some(now) = &mut doc.now else { continue };
                    let fate = &mut |one: &str| Ok(if one == key { Fate::Unset } else { Fate::Leave });
                    let cause = doc.cause;
                    doc.altered |= rewrite(policy, now, fate).map_err(|error| Stop::Refused(cause, error))?;
                }
                OnDelete::Restrict | OnDelete::Ignore => {}
            }
        }
        Ok(())
    }

    fn restriction_error(&self, policy: &Policy, at: &DocAddress, linked: &[usize], more: bool) -> Error {
        let (count, least) = (linked.len(), if more { "at least " } else { "" });
        let noun = if count == 1 { "document" } else { "documents" };
        let reason = format!(
            "[{}][{}] is linked from {least}{count} {noun} by [{}]",
            at.index, at.id.id, policy.name
        );
        let one = |d: &usize| json!({ "_index": self.docs[*d].at.index.as_str(), "_id": &*self.docs[*d].at.id.id });
        let sample: Vec<Value> = linked.iter().take(SAMPLE).map(one).collect();
        Error::new(ErrorKind::LinkRestrict, reason)
            .with("policy", policy.name.as_str())
            .with("sample", sample)
    }

    /// Puts what was altered into the plan. Whence the writes come that are added, and the new sources of those that were there.
    fn complete(mut self, plan: &mut Plan, check: &mut LockCheck<'_>) -> Result<(Vec<Origin>, Vec<(usize, Source)>), Stop> {
        let own = plan.writes.len();
        let (mut origins, mut altered) = (Vec::new(), Vec::new());
        for doc in self.docs.iter_mut().filter(|doc| doc.altered) {
            match (doc.place, &doc.now) {
                (Some(place), Some(now)) => {
                    let source = Source::from_value(now);
                    altered.push((place, source.clone()));
                    plan.writes[place].op = WriteOp::Put(source);
                }
                (Some(_), None) => {}
                (None, now) => {
                    let states = || states_of(doc.before.as_ref(), now.as_ref());
                    check(&doc.index, &doc.at, &states).map_err(|error| Stop::Refused(doc.cause, error))?;
                    let policy = doc.policy.clone().unwrap_or_default();
                    origins.push(Origin {
                        cause: doc.cause,
                        policy,
                        at: doc.at.clone(),
                    });
                    doc.place = Some(plan.writes.len());
                    plan.writes.push(write_of(doc));
                }
            }
        }
        for (policy, d) in &self.left {
            let write = job_write(policy, &self.docs[*d].at.id.id, self.upkeep.now_ms);
            origins.push(Origin {
                cause: self.docs[*d].cause,
                policy: Arc::from(policy.name.as_str()),
                at: write.at.clone(),
            });
            plan.writes.push(write);
        }
        assert_eq!(
            plan.writes.len() - own,
            origins.len(),
            "links.md K1: each write that was added has its origin"
        );
        self.tell(plan, own);
        Ok((origins, altered))
    }

    /// The plan's own steps are told of its own writes alone; the work of the policies is noted.
    fn tell(&mut self, plan: &mut Plan, own: usize) {
        let id = |policy: &Policy, d: usize| -> JobId { (Arc::from(policy.name.as_str()), self.docs[d].at.id.id.clone()) };
        let altered = |linked: &[usize]| linked.iter().filter(|d| self.docs[**d].altered).count() as u64;
        let synced: Vec<(JobId, Option<usize>, u64)> = self
            .followed
            .iter()
            .map(|(policy, d, linked)| (id(policy, *d), self.docs[*d].place, altered(linked)))
            .collect();
        let left: Vec<(JobId, Option<usize>)> = self
            .left
            .iter()
            .map(|(policy, d)| (id(policy, *d), self.docs[*d].place))
            .collect();
        if let Some((place, seal)) = plan.seal.take() {
            let seal = move |decision: &Decision<'_>| {
                seal(&Decision {
                    stamps: &decision.stamps[..own],
                    ..*decision
                })
            };
            plan.seal = Some((place, Box::new(seal)));
        }
        if plan.writes.len() == own && synced.is_empty() {
            return;
        }
        let (then, pending, now_ms) = (plan.then.take(), self.upkeep.links.pending.clone(), self.upkeep.now_ms);
        let (links, table) = (self.upkeep.links.clone(), self.upkeep.table.clone());
        let written = plan.writes.len();
        // Once the record has its place nobody needs to be kept out.
        let latches: Vec<Latch> = self.upkeep.latches.drain().map(|(_, latch)| latch).collect();
        plan.then = Some(Box::new(move |decision: &Decision<'_>| {
            debug_assert!(
                links.is_current(&table),
                "links.md K5: a policy was announced while a decision by the policies before had no place"
            );
            assert_eq!(
                decision.stamps.len(),
                written,
                "links.md K6: a change, its copies and its jobs have their stamps in one record"
            );
            let seq_no = |place: Option<usize>| {
                place
                    .and_then(|place| decision.stamps.get(place))
                    .map_or(0, |stamp| stamp.seq_no)
            };
            for (id, place, updated) in synced {
                pending.note_sync(id, seq_no(place), updated);
            }
            for (id, place) in left {
                pending.add(id, now_ms, seq_no(place));
            }
            if let Some(then) = then {
                then(&Decision {
                    stamps: &decision.stamps[..own],
                    ..*decision
                });
            }
            drop(latches);
        }));
    }
}

fn parse_source(document: Option<&Document>) -> Result<Option<Value>, Stop> {
    document
        .map(|document| document.source.parse())
        .transpose()
        .map_err(Stop::Failed)
}

/// The write of a document that a policy brought: on condition that it is as it was read.
fn write_of(doc: &PlannedDocument) -> Write {
    let op = match &doc.now {
        Some(now) => WriteOp::Put(Source::from_value(now)),
        None => WriteOp::Delete,
    };
    Write {
        index_uuid: Some(doc.index.uuid.clone()),
        ..match &doc.before {
            Some(before) => Write::over(before, op),
            None => Write::new(doc.at.clone(), op),
        }
    }
}

fn too_many(policy: &Policy, at: &DocAddress) -> Error {
    let (most, name) = (node_count(LINKS_MAX_SYNC), LINKS_MAX_SYNC.name);
    let reason = format!(
        "more than [{most}] documents would follow [{}][{}] in one change by link policy [{}]; the limit is the setting [{name}]; with \
         [mode] [async] there is none",
        at.index, at.id.id, policy.name
    );
    Error::illegal(reason)
        .with("setting", name)
        .with("policy", policy.name.as_str())
}

fn made_anew(index: &str) -> Error {
    Error::illegal(format!(
        "index [{index}] is not the one that its link policies were put for: delete them, or delete and put them again"
    ))
    .with("index", index)
}
