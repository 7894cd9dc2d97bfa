//! One run: changes by the product's own entry point (`Relations::change`), each client on a server of its own, a plain
//! writer, recoverers and a reaper of sessions over one store; then what must hold.
//!
//! Every change has an idempotency key. Some requests are sent a second time, to another server.

use crate::store::{Lies, Planned, SimStore};
use crate::world::{Scheduler, SimClock, SimPause, World};
use engine::memory::MemoryEngine;
use engine::{Alteration, Engine, EngineExt as _, Expect, Hide, Outcome, Refresh, Source, Update, Write, WriteOp};
use futures::FutureExt as _;
use model::{DocAddress, DocId, ErrorKind, IndexName, Stamp};
use relations::Relations;
use relations::intents::{CONTROL_INDEX, Mark, Record, RecordState, Resolved, Room, Runner, Token, session_address};
use relations::locks::Owner;
use relations::sessions::Session;
use relations::transactions::{Change, Condition, Digest, Key, Operation, Verdict};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) changes: usize,
    pub(crate) plain: bool,
    pub(crate) lies: Lies,
    pub(crate) planned: Option<Planned>,
    pub(crate) mutant: Option<Mutant>,
    /// Outcomes of a change that have room in one document of the control index.
    pub(crate) room: usize,
}

/// A store that no protocol could stand: the checks must see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// An acknowledged write of a document is gone.
    ForgetsAcknowledged,
    /// Compare-and-set does not compare.
    IgnoresExpectations,
    /// A committed outcome is applied a second time.
    AppliesTwice,
}

/// What it came to.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) committed: u64,
    pub(crate) struck: bool,
}

const DOCS: [(&str, &str); 4] = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")];
const TURNS_MAX: u64 = 400_000;

fn at(doc: usize) -> DocAddress {
    DocAddress {
        index: IndexName::new(DOCS[doc].0),
        id: DocId::plain(DOCS[doc].1),
    }
}

/// What a change does to a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Op {
    /// By a script, or as a new document.
    Append,
    Create,
    Delete,
}

/// One change as the oracle knows it.
#[derive(Clone, Debug)]
struct Plan {
    name: String,
    ops: Vec<(usize, Op)>,
    /// Must be there.
    present: Option<usize>,
}

/// A request: when it was sent, and what it was answered.
#[derive(Debug)]
struct Asked {
    plan: String,
    began: u64,
    /// `None`: its server stopped.
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Answer {
    ended: u64,
    /// `None`: nothing was changed.
    commit_seq: Option<u64>,
}

/// The request of a plan: the same each time that it is sent.
fn request_of(plan: &Plan) -> Change {
    let operation = |(doc, op): &(usize, Op)| Operation::of("index", write_of(plan, *doc, *op));
    let present = |doc: &usize| Condition {
        at: at(*doc),
        exists: Some(true),
        expect: Expect::Anything,
    };
    let digest = Digest::of(&[plan.name.as_bytes()]);
    Change {
        conditions: plan.present.iter().map(present).collect(),
        key: Some(Key::new("", &plan.name, digest).expect("a short key")),
        ..Change::of(plan.ops.iter().map(operation).collect())
    }
}

fn write_of(plan: &Plan, doc: usize, op: Op) -> Write {
    let entry = &plan.name;
    match op {
        Op::Append => {
            let script = script::compile("ctx._source.l.add(params.v)", script::Lang::Painless).expect("a script");
            let mut params = Map::new();
            params.insert("v".into(), Value::from(entry.as_str()));
            let update = Update {
                doc: None,
                script: Some((script, script::Params::from_json(&params))),
                upsert: Some(json!({"l": [entry]})),
                doc_as_upsert: false,
                scripted_upsert: false,
                moves: false,
                detect_noop: true,
                lenient_op: false,
                of_2015: false,
                budget: script::Budget::default(),
                now_ms: 0,
            };
            Write::new(at(doc), WriteOp::Update(Box::new(update)))
        }
        Op::Create => Write {
            expect: Expect::Absent,
            ..Write::new(at(doc), WriteOp::Put(Source::from_value(&json!({"l": [entry]}))))
        },
        Op::Delete => Write::new(at(doc), WriteOp::Delete),
    }
}

fn plan(world: &World, n: usize) -> Plan {
    let mut ops = Vec::new();
    for doc in 0..DOCS.len() {
        match world.below(8) {
            0..=3 => ops.push((doc, Op::Append)),
            4 => ops.push((doc, Op::Delete)),
            5 => ops.push((doc, Op::Create)),
            _ => {}
        }
    }
    if ops.is_empty() {
        ops.push((world.below(DOCS.len()), Op::Append));
    }
    Plan {
        name: format!("c{n}"),
        ops,
        present: world.once_in(4).then(|| world.below(DOCS.len())),
    }
}

pub(crate) fn session_write(session: &Session, name: &str, expect: Expect) -> Write {
    Write {
        expect,
        ..Write::new(session_address(name), WriteOp::Put(Source::from_value(&session.render())))
    }
}

/// The reference engine with the control index and two others.
pub(crate) fn indices(clock: Arc<SimClock>) -> Result<MemoryEngine, String> {
    engine_with(clock, &[CONTROL_INDEX, "a", "b"])
}

/// The reference engine with these indices.
pub(crate) fn engine_with(clock: Arc<SimClock>, names: &[&str]) -> Result<MemoryEngine, String> {
    let engine = MemoryEngine::new(clock);
    for name in names.iter().copied() {
        let create = Alteration::CreateIndex {
            name: name.to_owned(),
            settings: Map::new(),
            mappings: Some(if name == CONTROL_INDEX {
                json!({"dynamic": false})
            } else {
                json!({})
            }),
            aliases: Map::new(),
            typed: false,
            if_absent: false,
        };
        engine
            .alter(create)
            .now_or_never()
            .expect("no waiting")
            .map_err(|e| e.to_string())?;
    }
    Ok(engine)
}

/// Plays it, and checks it.
///
/// # Errors
/// The promise that was broken.
pub(crate) fn run(scenario: &Scenario) -> Result<Outcomes, String> {
    let world = World::new(scenario.seed);
    let clock = Arc::new(SimClock(world.clone()));
    let engine = indices(clock)?;
    let store = Arc::new(SimStore::new(world.clone(), engine, Lies::default(), scenario.planned));
    let mut scheduler = Scheduler::new(world.clone());
    let plans: Vec<Plan> = (0..scenario.changes).map(|n| plan(&world, n)).collect();

    // Some requests come twice: their clients believe that the first was lost.
    let mut requests: Vec<(String, &Plan, Duration)> = Vec::new();
    for (n, plan) in plans.iter().enumerate() {
        requests.push((format!("n{n}"), plan, Duration::ZERO));
        if world.once_in(3) {
            let later = Duration::from_millis(world.below(40_000) as u64);
            requests.push((format!("m{n}"), plan, later));
        }
    }
    let sessions: Vec<String> = requests.iter().map(|(session, ..)| session.clone()).collect();

    // The beginning is true: two documents and everybody's session.
    {
        let (store, sessions) = (store.clone(), sessions.clone());
        scheduler.spawn(async move {
            let first = (0..2).map(|doc| Write::new(at(doc), WriteOp::Put(Source::from_value(&json!({"l": []})))));
            let open = Session::open(Duration::from_secs(5), Arc::from("n"));
            let opened = sessions.iter().map(|name| session_write(&open, name, Expect::Absent));
            let writes = first.chain(opened).collect();
            let outcomes = store.write(writes, Refresh::No).await.expect("the beginning is written");
            assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_))));
        });
        scheduler.run(TURNS_MAX)?;
    }

    store.begin(scenario.lies, scenario.mutant);
    let mut scheduler = Scheduler::new(world.clone());
    let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
    for (session, plan, later) in &requests {
        let relations = server(&world, &store, session, scenario.room);
        scheduler.spawn(client(world.clone(), relations, (*plan).clone(), *later, asked.clone()));
    }
    // Suspects, rightly or wrongly: everybody's session ends some time.
    for session in sessions {
        scheduler.spawn(reaper(world.clone(), store.clone(), session));
    }
    for n in 0..2 {
        scheduler.spawn(recoverer(world.clone(), store.clone(), n, false));
    }
    if scenario.plain {
        scheduler.spawn(plain_writer(world.clone(), store.clone()));
    }
    scheduler.run(TURNS_MAX).map_err(|why| format!("L3: {why}"))?;

    // L1: recoverers alone finish what is left, on a store that is well again. Twice: late writes have arrived.
    let struck = store.struck();
    store.settle();
    let mut scheduler = Scheduler::new(world.clone());
    scheduler.spawn(recoverer(world.clone(), store.clone(), 9, true));
    scheduler.run(TURNS_MAX).map_err(|why| format!("L1: {why}"))?;

    let asked = std::mem::take(&mut *asked.lock().map_err(|e| e.to_string())?);
    let committed = check(scenario, &plans, &store.truth(), &asked)?;
    Ok(Outcomes { committed, struck })
}

pub(crate) fn runner(world: &Arc<World>, store: &Arc<SimStore>, session: &str) -> Runner {
    let (clock, pause) = (Arc::new(SimClock(world.clone())), Arc::new(SimPause(world.clone())));
    Runner::new(store.clone(), clock, pause, Arc::from(session))
}

/// A server with a session of this name, which changes go through by the portable path.
pub(crate) fn server(world: &Arc<World>, store: &Arc<SimStore>, session: &str, room: usize) -> Relations {
    let (clock, pause) = (Arc::new(SimClock(world.clone())), Arc::new(SimPause(world.clone())));
    let room = Room {
        operations: room,
        ..Room::default()
    };
    Relations::new(store.clone(), clock, Arc::new(engine::tasks::Tasks::new(1)), "n1").by_portable_path_in(
        pause,
        Arc::from(session),
        room,
    )
}

async fn client(world: Arc<World>, relations: Relations, plan: Plan, later: Duration, asked: Arc<Mutex<Vec<Asked>>>) {
    world.sleep(later).await;
    let place = {
        let began = world.get().turns;
        let mut asked = asked.lock().expect("one thread");
        asked.push(Asked {
            plan: plan.name.clone(),
            began,
            answer: None,
        });
        asked.len() - 1
    };
    let commit_seq = match relations.change(&request_of(&plan)).await {
        Ok(Verdict::Committed(committed)) => Some(committed.commit_seq),
        Ok(Verdict::Failed(_)) => None,
        Ok(Verdict::Waits(..)) => unreachable!("it asks for no locks"),
        Err(error) if matches!(error.kind(), ErrorKind::PreconditionFailed | ErrorKind::Timeout) => None,
        Err(error) => panic!("the store lies, but does not fail: {error}"),
    };
    let ended = world.get().turns;
    asked.lock().expect("one thread")[place].answer = Some(Answer { ended, commit_seq });
}

async fn reaper(world: Arc<World>, store: Arc<SimStore>, name: String) {
    let wait = 200 + world.below(60_000) as u64;
    world.sleep(Duration::from_millis(wait)).await;
    for _ in 0..50 {
        let Ok(Some(document)) = store.read_one(session_address(&name)).await else {
            continue;
        };
        let Ok(session) = document.source.parse().and_then(|source| Session::parse(&source)) else {
            return;
        };
        let ended = session.expire(Arc::from("reaper"), Arc::from("r"));
        let Stamp {
            seq_no, primary_term, ..
        } = document.stamp;
        let write = session_write(&ended, &name, Expect::Unchanged { seq_no, primary_term });
        if let Ok(Outcome::Written(_)) = store.write_one(write, Refresh::No).await {
            return;
        }
    }
}

/// Sweeps; `thorough`: until nothing is left, whoever is alive.
async fn recoverer(world: Arc<World>, store: Arc<SimStore>, n: usize, thorough: bool) {
    let runner = runner(&world, &store, &format!("r{n}"));
    if thorough {
        return resolve_all(&runner, &store).await;
    }
    for _ in 0..6 {
        let wait = 500 + world.below(20_000) as u64;
        world.sleep(Duration::from_millis(wait)).await;
        runner.sweep().await.expect("no failure");
    }
}

/// Resolves all changes once more: what is decided may have left late marks.
pub(crate) async fn resolve_all(runner: &Runner, store: &SimStore) {
    let records: Vec<Owner> = records(&store.truth()).into_keys().collect();
    for change in records {
        let resolved = runner.resolve(&change).await.expect("no failure");
        assert_ne!(resolved, Resolved::Stuck, "every outcome was rehearsed");
    }
}

/// Appends by read and compare-and-set, as any client does.
async fn plain_writer(world: Arc<World>, store: Arc<SimStore>) {
    let relations = server(&world, &store, "plain", 1_000);
    for n in 0..6 {
        let doc = world.below(DOCS.len());
        let Ok(Some(document)) = store.read_one(at(doc)).await else {
            continue;
        };
        let mut source = document.source.parse().expect("JSON");
        if let Some(list) = source["l"].as_array_mut() {
            list.push(Value::from(format!("p{n}")));
        }
        let Stamp {
            seq_no, primary_term, ..
        } = document.stamp;
        let write = if world.once_in(5) {
            Write::new(at(doc), WriteOp::Delete)
        } else {
            Write {
                expect: Expect::Unchanged { seq_no, primary_term },
                hide: Hide::Keep,
                ..Write::new(at(doc), WriteOp::Put(Source::from_value(&source)))
            }
        };
        // A conflict, a held document for too long: the next one then.
        let _ = relations.write(vec![write], Refresh::No).await;
    }
}

fn records(truth: &BTreeMap<DocAddress, engine::Document>) -> BTreeMap<Owner, (Record, Stamp)> {
    let control = truth
        .iter()
        .filter(|(at, _)| at.index.as_str() == CONTROL_INDEX && at.id.id.starts_with("c-"));
    control
        .map(|(at, document)| {
            let record = Record::parse(&document.source.parse().expect("JSON")).expect("a record");
            (Owner::new(at.id.id.clone()), (record, document.stamp))
        })
        .collect()
}

/// The plan of a record, by the document that keeps the outcome under the key of the request.
fn plan_of<'p>(plans: &'p [Plan], record: &Record, truth: &BTreeMap<DocAddress, engine::Document>) -> Option<&'p Plan> {
    let kept = record.documents.iter().find(|touched| touched.at.id.id.starts_with("k:"))?;
    let kept = truth.get(&kept.at)?.source.parse().ok()?;
    plans.iter().find(|plan| kept["key"] == plan.name.as_str())
}

fn check(
    scenario: &Scenario,
    plans: &[Plan],
    truth: &BTreeMap<DocAddress, engine::Document>,
    asked: &[Asked],
) -> Result<u64, String> {
    let records = records(truth);
    let mut done: Vec<(Token, &Plan)> = Vec::new();
    for (change, (record, _)) in &records {
        match record.state {
            RecordState::Aborted => {}
            RecordState::Done => {
                let token = record.token.ok_or(format!("{change} is done without a token"))?;
                let plan = plan_of(plans, record, truth).ok_or(format!("S14: {change} is done and kept no outcome"))?;
                done.push((token, plan));
            }
            other => return Err(format!("L1: {change} is {other:?}")),
        }
    }
    done.sort_by_key(|(token, _)| *token);
    for pair in done.windows(2) {
        if pair[0].0 == pair[1].0 {
            return Err(format!("S10: a token twice: {pair:?}"));
        }
    }
    for (n, (_, plan)) in done.iter().enumerate() {
        if done[..n].iter().any(|(_, other)| other.name == plan.name) {
            return Err(format!("S14: two attempts of one change committed: {done:?}"));
        }
    }

    // What clients were told is what happened, in its order in real time.
    let mut acknowledged: Vec<(&Plan, u64, Token)> = Vec::new();
    for plan in plans {
        let token = done
            .iter()
            .find(|(_, other)| other.name == plan.name)
            .map(|(token, _)| *token);
        let all = || asked.iter().filter(|asked| asked.plan == plan.name);
        for answer in all().filter_map(|asked| asked.answer.as_ref()) {
            match (answer.commit_seq, token) {
                (Some(seq), Some(token)) if seq == token.commit_seq() => acknowledged.push((plan, answer.ended, token)),
                (None, _) => {}
                other => return Err(format!("S14: {} was told and happened: {other:?}", plan.name)),
            }
        }
        let refused = |asked: &Asked| asked.answer.as_ref().is_some_and(|answer| answer.commit_seq.is_none());
        if all().all(refused) && token.is_some() {
            return Err(format!("{} happened, but was told otherwise", plan.name));
        }
    }
    let began = |plan: &Plan| {
        asked
            .iter()
            .filter(|asked| asked.plan == plan.name)
            .map(|asked| asked.began)
            .min()
    };
    for (first, ended, token) in &acknowledged {
        for (other, later) in done.iter().map(|(token, plan)| (*plan, token)) {
            if first.name != other.name && began(other).is_some_and(|began| began > *ended) && token >= later {
                return Err(format!(
                    "S10: {} was answered before {} began, but has the later token",
                    first.name, other.name
                ));
            }
        }
    }

    // L2: no mark is left.
    let list = |doc: usize| -> Option<Vec<String>> {
        let document = truth.get(&at(doc))?;
        let mark = Mark::of(document.hidden.as_ref()).expect("a mark");
        if mark.stub || mark.tombstone {
            return None;
        }
        let source = document.source.parse().expect("JSON");
        Some(
            source["l"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|v| v.as_str().expect("text").to_owned())
                .collect(),
        )
    };
    for (at, document) in truth {
        let mark = Mark::of(document.hidden.as_ref()).map_err(|e| e.to_string())?;
        if mark.intent.is_some() || mark.stub {
            return Err(format!("L2: {at:?} still carries {mark:?}"));
        }
    }

    if scenario.plain {
        return in_order(&done, &(0..DOCS.len()).map(list).collect::<Vec<_>>());
    }
    // S1, S2, S3, S4, S8: the state is that of the committed changes, one after the other in the order of their tokens.
    let mut serial: Vec<Option<Vec<String>>> = vec![Some(Vec::new()), Some(Vec::new()), None, None];
    for (token, plan) in &done {
        if plan.present.is_some_and(|doc| serial[doc].is_none()) {
            return Err(format!(
                "S4: {} committed at {token:?} although its condition did not hold",
                plan.name
            ));
        }
        for (doc, op) in &plan.ops {
            match op {
                Op::Append => serial[*doc].get_or_insert_default().push(plan.name.clone()),
                Op::Create if serial[*doc].is_some() => return Err(format!("S4: {} created what was there", plan.name)),
                Op::Create => serial[*doc] = Some(vec![plan.name.clone()]),
                Op::Delete => serial[*doc] = None,
            }
        }
    }
    for (doc, expected) in serial.iter().enumerate() {
        if list(doc) != *expected {
            return Err(format!(
                "S1-S4: {:?} is {:?}, serial order says {expected:?}; {done:?}",
                at(doc),
                list(doc)
            ));
        }
    }
    Ok(done.len() as u64)
}

/// Beside plain writers only this much can be said: no effect of what did not happen, none twice, all in order.
fn in_order(done: &[(Token, &Plan)], lists: &[Option<Vec<String>>]) -> Result<u64, String> {
    for list in lists.iter().flatten() {
        let places: Vec<usize> = list
            .iter()
            .filter(|entry| entry.starts_with('c'))
            .map(|entry| {
                done.iter()
                    .position(|(_, plan)| plan.name == *entry)
                    .ok_or(format!("S1: effect of {entry}, which did not happen"))
            })
            .collect::<Result<_, _>>()?;
        if !places.is_sorted_by(|a, b| a < b) {
            return Err(format!("S2, S3: {list:?}"));
        }
    }
    Ok(done.len() as u64)
}
