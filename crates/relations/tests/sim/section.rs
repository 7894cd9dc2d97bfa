//! Leases and transactions by the default path: one record each, in a critical section whose decisions overlap as they do on
//! the embedded engine, under a seeded scheduler; servers stop anywhere and start again.
//!
//! The section keeps what the engine promises and no more: a decision holds the gate and the documents that it touches from
//! its first read until its record has its place, and others come between wherever they may.
//!
//! | | check |
//! |---|---|
//! | S7 | leases that are alive go together, looked at all the time |
//! | S1 to S6 | each document holds every acknowledged write once, those under leases too: a late one is refused |
//! | S10 | fencing tokens rise in real time, over restarts |
//! | S14 | a request that is repeated under its key has one effect |
//! | L1, L2 | in the end no lease is left, and nobody waits |

use crate::runs::engine_with;
use crate::world::{Scheduler, SimClock, World};
use async_trait::async_trait;
use dsl::query::Query;
use engine::memory::MemoryEngine;
use engine::{
    Around, AtomicWrites, Barrier, Document, Engine, EngineExt as _, Gate, Looker, Newest, Outcome, Plan, Refresh, See, Source,
    Staging, TxnBody, TxnOptions, TxnResult, Update, Write, WriteIndex, WriteOp,
};
use futures::{FutureExt as _, StreamExt as _};
use model::{DocAddress, DocId, ErrorKind, IndexName, Result, Target};
use relations::Relations;
use relations::intents::CONTROL_INDEX;
use relations::leases::{Ask, Asked, Lease, Told, Wanted};
use relations::locks::{LockTarget, Mode};
use relations::transactions::{Change, Digest, Key, Operation, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mistake {
    /// Grants and ends of locks pass between the check of a lock and the record (T16).
    OpenGate,
    /// Documents move between a read of a decision and its record.
    LooseDocuments,
    /// Clients write under no lock: what is late is not refused.
    Unfenced,
    /// A start knows of no lease.
    EmptyStart,
    /// A view in which writes are staged shows the newest documents.
    MovingMoment,
    /// Reads in such a view are not compared at the commit.
    UnnotedReads,
    /// The record of a commit has no outcome.
    LostOutcome,
}

const KEEP_ALIVE: Duration = Duration::from_secs(2);
const CLIENTS: usize = 4;
const TURNS_MAX: u64 = 300_000;

fn at(id: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new("a"),
        id: DocId::plain(id),
    }
}

/// The engine with a section in which decisions overlap.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) world: Arc<World>,
    pub(crate) engine: MemoryEngine,
    pub(crate) mistake: Option<Mistake>,
    inside: Mutex<Inside>,
    records: Mutex<Vec<LogRecord>>,
}

/// One record, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct LogRecord {
    pub(crate) commit_seq: u64,
    pub(crate) writes: Vec<Write>,
}

#[derive(Debug, Default)]
struct Inside {
    shared: usize,
    exclusive: bool,
    documents: BTreeSet<DocAddress>,
}

/// One decision inside. Dropped with a server that stops, it leaves.
struct Held<'a> {
    section: &'a Section,
    gate: Gate,
    documents: BTreeSet<DocAddress>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut inside = self.section.inside();
        match self.gate {
            Gate::None => {}
            Gate::Shared => inside.shared -= 1,
            Gate::Exclusive => inside.exclusive = false,
        }
        for at in &self.documents {
            inside.documents.remove(at);
        }
    }
}

impl Section {
    pub(crate) fn new(world: Arc<World>, engine: MemoryEngine, mistake: Option<Mistake>) -> Section {
        Section {
            world,
            engine,
            mistake,
            inside: Mutex::default(),
            records: Mutex::default(),
        }
    }

    /// Every record of a decision so far, in order.
    pub(crate) fn records(&self) -> Vec<LogRecord> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the decision may begin.
    async fn enter(&self, gate: Gate, documents: &BTreeSet<DocAddress>) -> Held<'_> {
        let gate = if self.mistake == Some(Mistake::OpenGate) {
            Gate::None
        } else {
            gate
        };
        let documents = match self.mistake {
            Some(Mistake::LooseDocuments) => BTreeSet::new(),
            _ => documents.clone(),
        };
        loop {
            {
                let mut inside = self.inside();
                let free = match gate {
                    Gate::None => true,
                    Gate::Shared => !inside.exclusive,
                    Gate::Exclusive => !inside.exclusive && inside.shared == 0,
                };
                if free && documents.is_disjoint(&inside.documents) {
                    match gate {
                        Gate::None => {}
                        Gate::Shared => inside.shared += 1,
                        Gate::Exclusive => inside.exclusive = true,
                    }
                    inside.documents.extend(documents.iter().cloned());
                    return Held {
                        section: self,
                        gate,
                        documents,
                    };
                }
            }
            self.world.turn().await;
        }
    }
}

/// Notes what a body reads.
struct Noting<'a> {
    newest: &'a mut dyn Newest,
    touched: &'a mut BTreeSet<DocAddress>,
}

impl Newest for Noting<'_> {
    fn read(&mut self, at: &DocAddress, see: See) -> Result<Option<Document>> {
        self.touched.insert(at.clone());
        self.newest.read(at, see)
    }
    fn index(&mut self, name: &str) -> Result<WriteIndex> {
        self.newest.index(name)
    }
    fn identity(&mut self, at: &DocAddress) -> Result<DocId> {
        self.newest.identity(at)
    }
    fn rehearse(&mut self, write: &Write) -> Result<()> {
        self.newest.rehearse(write)
    }
}

#[async_trait]
impl Around for Section {
    fn inner(&self) -> &dyn Engine {
        &self.engine
    }
    async fn before(&self) {
        self.world.turn().await;
    }
    fn section(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
    fn inner_staging(&self) -> Option<&dyn Staging> {
        Some(self)
    }
}

#[async_trait]
impl AtomicWrites for Section {
    async fn look(&self, look: &mut Looker<'_>) {
        AtomicWrites::look(&self.engine, look).await;
    }

    async fn decide(&self, body: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        let mut wanted: BTreeSet<DocAddress> = how.touches.iter().cloned().collect();
        loop {
            let held = self.enter(how.gate, &wanted).await;
            let mut touched = BTreeSet::new();
            let mut planned: Option<Result<Plan>> = None;
            let mut run = |newest: &mut dyn Newest| {
                let mut noting = Noting {
                    newest,
                    touched: &mut touched,
                };
                planned = Some(body(&mut noting));
            };
            AtomicWrites::look(&self.engine, &mut run).await;
            let mut plan = Some(planned.expect("it looked")?);
            touched.extend(plan.iter().flat_map(|plan| &plan.writes).map(|write| write.at.clone()));
            if self.mistake != Some(Mistake::LooseDocuments) && !touched.is_subset(&wanted) {
                wanted.extend(touched);
                continue;
            }
            // Others run between the plan and its record, as far as the gate and the documents let them.
            for _ in 0..1 + self.world.below(4) {
                self.world.turn().await;
            }
            if let (Some(Mistake::LostOutcome), Some(plan)) = (self.mistake, &mut plan)
                && let Some((place, _)) = plan.seal.take()
            {
                plan.writes.remove(place);
            }
            let writes = plan.as_ref().map(|plan| plan.writes.clone()).unwrap_or_default();
            let mut given = |_: &mut dyn Newest| Ok(plan.take().unwrap_or_default());
            let result = AtomicWrites::decide(&self.engine, &mut given, how).await;
            if let Ok(result) = &result
                && !writes.is_empty()
                && result.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_)))
            {
                let commit_seq = result.commit_seq;
                let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
                records.push(LogRecord { commit_seq, writes });
            }
            drop(held);
            self.world.turn().await;
            return result;
        }
    }
}

/// What clients know.
#[derive(Debug, Default)]
struct Heard {
    /// Names of acknowledged writes, by document.
    written: Vec<(&'static str, String)>,
    /// Names of writes that were sent.
    sent: BTreeSet<String>,
    /// The greatest token that was told.
    token: u64,
    late: u64,
    granted: u64,
}

type Log = Arc<Mutex<Heard>>;

fn heard(log: &Log) -> MutexGuard<'_, Heard> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Client {
    world: Arc<World>,
    relations: Relations,
    store: Arc<Section>,
    log: Log,
    name: String,
}

impl Client {
    fn target(&self) -> Wanted {
        let index = IndexName::new("a");
        let target = match self.world.below(4) {
            0 => LockTarget::Index(index),
            _ => LockTarget::Document(at("1")),
        };
        Wanted {
            target,
            mode: Mode::Exclusive,
        }
    }

    /// Waits for a lock, asks again where that is worth it, or gives up. `None`: it was not granted.
    async fn lock(&self) -> Option<Lease> {
        let before = heard(&self.log).token;
        let mut ask = Ask {
            wait: true,
            ..Ask::of(&self.name, vec![self.target()], KEEP_ALIVE)
        };
        let lease = loop {
            match self.relations.acquire(&ask).await.expect("it waits") {
                Asked::Granted(lease) => break *lease,
                Asked::Queued(mut turn, place) => {
                    let patience = 1 + self.world.below(400);
                    let mut told = None;
                    for _ in 0..patience {
                        told = (&mut turn).now_or_never();
                        if told.is_some() {
                            break;
                        }
                        self.world.sleep(Duration::from_millis(25)).await;
                    }
                    match told {
                        None => return None,
                        Some(Told::Granted(lease)) => {
                            turn.keep();
                            break *lease;
                        }
                        Some(Told::Again) => {
                            turn.keep();
                            ask.place = Some(place);
                        }
                    }
                }
            }
        };
        let mut log = heard(&self.log);
        assert!(lease.token > before, "S10: token {} was granted after {before}", lease.token);
        log.token = log.token.max(lease.token);
        log.granted += 1;
        Some(lease)
    }

    /// Reads, dawdles, and writes what it read and its name: under its lock, or too late.
    async fn append_under_lock(&self, n: usize, fencing: bool) {
        let Some(lease) = self.lock().await else { return };
        let found = self.store.read_one(at("1")).await.expect("a read");
        let mut source = found.map_or_else(|| json!({"l": []}), |document| document.source.parse().expect("JSON"));
        self.dawdle().await;
        if self.world.once_in(3) {
            let _ = self.relations.renew(&lease.id, None, None);
            self.dawdle().await;
        }
        let name = format!("{}.{n}", self.name);
        source["l"].as_array_mut().expect("a list").push(name.as_str().into());
        heard(&self.log).sent.insert(name.clone());
        let write = Write::new(at("1"), WriteOp::Put(Source::from_value(&source)));
        let change = Change {
            guards: if fencing { vec![lease.id.to_string()] } else { Vec::new() },
            ..Change::of(vec![Operation::of("index", write)])
        };
        if !fencing {
            let done = self.store.write(vec![change.operations[0].write.clone()], Refresh::No).await;
            done.expect("a write");
            heard(&self.log).written.push(("1", name));
            return;
        }
        match self.relations.change(&change).await {
            Ok(Verdict::Committed(_)) => heard(&self.log).written.push(("1", name)),
            Err(error) if matches!(error.kind(), ErrorKind::LockExpired | ErrorKind::LockMissing) => heard(&self.log).late += 1,
            other => panic!("a write under a lock came to {other:?}"),
        }
        if !self.world.once_in(4) {
            let _ = self.relations.release(&lease.id).await;
        }
    }

    /// Appends by a script, without a lock; sometimes the request is sent twice.
    async fn append_by_script(&self, n: usize) {
        let name = format!("{}.s{n}", self.name);
        let script = script::compile("ctx._source.l.add(params.v)", script::Lang::Painless).expect("a script");
        let mut params = Map::new();
        params.insert("v".into(), Value::from(name.as_str()));
        let mut update = Update::of_script((script, script::Params::from_json(&params)), false, 0);
        update.upsert = Some(json!({"l": [name]}));
        heard(&self.log).sent.insert(name.clone());
        let change = Change {
            key: Some(Key::new("", &name, Digest::of(&[])).expect("a short key")),
            ..Change::of(vec![Operation::of(
                "index",
                Write::new(at("2"), WriteOp::Update(Box::new(update))),
            )])
        };
        let mut first = None;
        for _ in 0..1 + self.world.below(2) {
            match self.relations.change(&change).await {
                Ok(Verdict::Committed(done)) => {
                    let known = *first.get_or_insert(done.commit_seq);
                    assert_eq!(known, done.commit_seq, "S14: a repetition has the first commit");
                }
                // Somebody's lock on the index.
                Ok(Verdict::Failed(_)) => return,
                other => panic!("a script came to {other:?}"),
            }
        }
        heard(&self.log).written.push(("2", name));
    }

    async fn dawdle(&self) {
        let millis = self.world.below(2_600) as u64;
        self.world.sleep(Duration::from_millis(millis)).await;
    }
}

/// S7: leases that are alive go together.
fn check_leases(relations: &Relations) {
    let leases = relations.leases();
    for (n, (one, _)) in leases.iter().enumerate() {
        for (other, _) in &leases[..n] {
            for claim in &one.claims {
                let meets = other.claims.iter().find(|o| o.key == claim.key);
                assert!(
                    meets.is_none_or(|o| o.mode.is_compatible(claim.mode)),
                    "S7: {one:?} beside {other:?}"
                );
            }
        }
    }
}

/// Documents of leases that have not ended.
fn open_leases(engine: &MemoryEngine) -> usize {
    let target = Target::index(CONTROL_INDEX);
    let found = async {
        if engine.refresh(&target, None).await.is_err() {
            // Nobody was granted a lock.
            return Vec::new();
        }
        let found = engine.scan(&target, Query::all(), See::Everything, Barrier::None).await;
        found.expect("a scan").collect::<Vec<Result<Document>>>().await
    };
    let found = found.now_or_never().expect("no waiting");
    let kinds = found
        .into_iter()
        .map(|document| document.expect("a document").source.parse().expect("JSON"));
    kinds.filter(|source| source["kind"] == "lease").count()
}

/// One run: servers one after the other, each stopped anywhere; the last one runs to its end.
fn run(seed: u64, mistake: Option<Mistake>) -> (u64, u64) {
    let world = World::new(seed);
    let clock = Arc::new(SimClock(world.clone()));
    // The product makes its control index itself.
    let engine = engine_with(clock.clone(), &["a"]).expect("an index");
    let store = Arc::new(Section::new(world.clone(), engine, mistake));
    let log = Log::default();
    let servers = 1 + world.below(3);
    for server in 0..=servers {
        let relations = Relations::new(store.clone(), clock.clone(), Arc::new(engine::tasks::Tasks::new(1)), "n1");
        let mut scheduler = Scheduler::new(world.clone());
        if mistake != Some(Mistake::EmptyStart) {
            let relations = relations.clone();
            scheduler.spawn(async move { relations.recover().await.expect("a sound control index") });
            scheduler.run(TURNS_MAX).expect("a start ends");
        }
        let mut scheduler = Scheduler::new(world.clone());
        let is_last = server == servers;
        if !is_last {
            for n in 0..2 * CLIENTS {
                let client = Client {
                    world: world.clone(),
                    relations: relations.clone(),
                    store: store.clone(),
                    log: log.clone(),
                    name: format!("{server}.{n}"),
                };
                let (locks, fencing) = (n < CLIENTS, mistake != Some(Mistake::Unfenced));
                scheduler.spawn(async move {
                    for n in 0..3 {
                        match locks {
                            true => client.append_under_lock(n, fencing).await,
                            // All of them at once.
                            false => client.world.sleep(Duration::from_millis(500)).await,
                        }
                        client.append_by_script(n).await;
                    }
                });
            }
        }
        // The housekeeping, and somebody who looks at the locks.
        let (keeper, tick) = (relations.clone(), world.clone());
        let ticks = if is_last { 200 } else { 1_200 };
        scheduler.spawn(async move {
            for _ in 0..ticks {
                tick.sleep(Duration::from_millis(50)).await;
                keeper.sweep().await.expect("leases end");
                check_leases(&keeper);
            }
        });
        if is_last {
            scheduler.run(TURNS_MAX).expect("L3: it ends");
            assert!(relations.leases().is_empty(), "L1: leases are left: {:?}", relations.leases());
        } else {
            // Every server but the last stops somewhere, all of its clients with it.
            let turns = 200 + world.below(30_000) as u64;
            drop(scheduler.run(turns));
        }
    }
    assert_eq!(open_leases(&store.engine), 0, "L2: leases are left in the control index");
    let log = heard(&log);
    for document in ["1", "2"] {
        let found = store
            .engine
            .read_one(at(document))
            .now_or_never()
            .expect("no waiting")
            .expect("a read");
        let source = found.map_or_else(|| json!({"l": []}), |found| found.source.parse().expect("JSON"));
        let names: Vec<&str> = source["l"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        for (_, name) in log.written.iter().filter(|(written, _)| *written == document) {
            let times = names.iter().filter(|there| *there == name).count();
            assert_eq!(
                times, 1,
                "S1, S2: [{document}] has the acknowledged {name} {times} times: {names:?}"
            );
        }
        for name in &names {
            assert!(log.sent.contains(*name), "S1: nobody sent {name}");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "S2: {name} twice");
        }
    }
    (log.granted, log.late)
}

#[test]
fn leases_and_transactions_hold() {
    let runs = crate::from_environment("PLEACH_SIM_SECTION_RUNS", 200);
    let (mut granted, mut late) = (0, 0);
    for seed in 0..runs {
        let outcome = std::panic::catch_unwind(|| run(seed, None));
        let (more, also) = outcome.unwrap_or_else(|why| panic!("seed {seed}: {why:?}"));
        granted += more;
        late += also;
    }
    println!("{runs} runs, {granted} locks granted, {late} writes under a lock too late");
    assert!(
        granted > 2 * runs && late > runs / 10,
        "{granted} granted, {late} late in {runs} runs"
    );
}

#[test]
fn seeded_mistakes_of_the_section_are_found() {
    for mistake in [
        Mistake::OpenGate,
        Mistake::LooseDocuments,
        Mistake::Unfenced,
        Mistake::EmptyStart,
    ] {
        let found = (0..300).find(|seed| std::panic::catch_unwind(|| run(*seed, Some(mistake))).is_err());
        println!("{mistake:?}: seed {found:?}");
        assert!(found.is_some(), "{mistake:?} goes unseen");
    }
}
