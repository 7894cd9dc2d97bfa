//! Leases over a store without a critical section, which lies, and which two servers have: each grants, renews, ends and hands over,
//! refuses what is late, and takes the leases of the other over when that has stopped. Servers stop and start again, are cut off
//! from the store for a while, and clients go to the one or the other.
//!
//! | | check |
//! |---|---|
//! | S7 | leases in a table go together; when a grant is told, no other lease is in the gate that does not go with it |
//! | S5 | writes under locks lie in a document in the order of their tokens; after a grant was told nobody else's come before its last |
//! | S1, S2 | every acknowledged write is there once, and nothing that nobody sent |
//! | S10 | fencing tokens rise in real time, whichever server grants |
//! | L1, L2 | in the end no lease is left in the gate or in a table, and no mark |

use crate::runs::{engine_with, resolve_all, runner};
use crate::store::{Lies, SimStore};
use crate::world::{Scheduler, SimClock, SimPause, World};
use async_trait::async_trait;
use dsl::query::Query;
use engine::{
    Around, Barrier, Document, Engine, EngineExt as _, Outcome, Read, Refresh, See, Source, Update, ViewPromise, Write, WriteOp,
};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Target};
use relations::Relations;
use relations::intents::{CONTROL_INDEX, Mark, Room, session_address};
use relations::leases::{Ask, Asked, Lease, Told, Wanted};
use relations::locks::{LockTarget, Mode};
use relations::transactions::{Change, Operation, Verdict};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// A change looks at the gate as it was before its record was opened (T28).
    OldGate,
    /// A grant meets no change that was checked before it (T29).
    BlindSearch,
    /// The gate is written whatever it is by then (T27).
    LooseGate,
    /// Clients write under no lock: what is late is not refused.
    Unfenced,
}

const KEEP_ALIVE: Duration = Duration::from_secs(2);
const TURNS_MAX: u64 = 600_000;
const TICK: Duration = Duration::from_millis(200);

fn at(id: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new("a"),
        id: DocId::plain(id),
    }
}

fn gate() -> DocAddress {
    DocAddress {
        index: IndexName::new(CONTROL_INDEX),
        id: DocId::plain("g:locks"),
    }
}

/// The way of one server to the store.
#[derive(Debug)]
struct Link {
    world: Arc<World>,
    store: Arc<SimStore>,
    mistake: Option<Mistake>,
    state: Mutex<LinkState>,
}

#[derive(Debug, Default)]
struct LinkState {
    /// The server has stopped: nothing of it reaches the store any more.
    stopped: bool,
    /// It is cut off until then.
    cut_until: Duration,
    /// The gate as it was seen first.
    old_gate: Option<Option<Document>>,
}

impl Link {
    fn new(world: &Arc<World>, store: &Arc<SimStore>, mistake: Option<Mistake>) -> Arc<Link> {
        Arc::new(Link {
            world: world.clone(),
            store: store.clone(),
            mistake,
            state: Mutex::default(),
        })
    }
    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn stop(&self) {
        self.state().stopped = true;
    }
    fn cut(&self, duration: Duration) {
        let until = self.world.get().now + duration;
        self.state().cut_until = until;
    }
    /// Waits until the store is reached.
    async fn reach(&self) -> Result<()> {
        loop {
            let (stopped, until) = {
                let state = self.state();
                (state.stopped, state.cut_until)
            };
            if stopped {
                return Err(Error::new(ErrorKind::Unavailable, "the server has stopped"));
            }
            let now = self.world.get().now;
            if now >= until {
                return Ok(());
            }
            self.world.sleep(until - now).await;
        }
    }
}

#[async_trait]
impl Around for Link {
    fn inner(&self) -> &dyn Engine {
        &*self.store
    }
    fn view_promise(&self) -> ViewPromise {
        ViewPromise::MomentPerShard
    }
    async fn reads(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        self.reach().await?;
        let mut found = self.store.read(reads.clone()).await?;
        self.reach().await?;
        // Those that look at the gate, and do not mark it: of a change, and of the housekeeping.
        let looks = match &reads[..] {
            [one] => one.at == gate(),
            [record, one] => record.at.id.id.starts_with("c-") && one.at == gate(),
            _ => false,
        };
        if self.mistake == Some(Mistake::OldGate) && looks {
            let newest = found.pop().flatten();
            found.push(self.state().old_gate.get_or_insert(newest).clone());
        }
        Ok(found)
    }
    async fn writes(&self, mut writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.reach().await?;
        // Some are slow: between a look at the gate and the marks that follow, locks come and go.
        let slow = if self.mistake == Some(Mistake::BlindSearch) { 4 } else { 25 };
        if self.world.once_in(slow) {
            let millis = self.world.below(2_500) as u64;
            self.world.sleep(Duration::from_millis(millis)).await;
        }
        if self.mistake == Some(Mistake::LooseGate) {
            for write in writes.iter_mut().filter(|write| write.at == gate()) {
                write.expect = engine::Expect::Anything;
            }
        }
        let outcomes = self.store.write(writes, refresh).await?;
        // The answer may be lost on its way.
        self.reach().await?;
        Ok(outcomes)
    }
    async fn scans(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        self.reach().await?;
        let found = self.store.scan(target, query, see, barrier).await?;
        self.reach().await?;
        if self.mistake != Some(Mistake::BlindSearch) {
            return Ok(found);
        }
        // What stopped servers have left is found.
        let truth = self.store.truth();
        let is_open = move |document: &Result<Document>| {
            let source = document.as_ref().expect("a document").source.parse().expect("JSON");
            let session = session_address(source["session"].as_str().unwrap_or_default());
            let session = truth.get(&session).map(|document| document.source.parse().expect("JSON"));
            let lives = session.is_some_and(|session| session["state"] == "open");
            lives && source["kind"] == "change" && (source["state"] == "pending" || source["state"] == "committed")
        };
        let shown: Vec<Result<Document>> = found.collect().await;
        Ok(futures::stream::iter(shown.into_iter().filter(move |document| !is_open(document))).boxed())
    }
}

/// The knowledge of clients.
#[derive(Debug, Default)]
struct Heard {
    sent: BTreeSet<String>,
    /// Names of acknowledged writes.
    written: Vec<String>,
    /// Leases that were told, and not yet seen over.
    told: Vec<Lease>,
    /// How many writes were there when each was told, by token.
    found: BTreeMap<u64, usize>,
    token: u64,
    granted: u64,
    handed_over: u64,
    late: u64,
}

type Log = Arc<Mutex<Heard>>;

fn heard(log: &Log) -> MutexGuard<'_, Heard> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ids of leases in the gate, as it is.
fn in_gate(store: &SimStore) -> BTreeSet<String> {
    let truth = store.truth();
    let Some(document) = truth.get(&gate()) else {
        return BTreeSet::new();
    };
    let source = document.source.parse().expect("JSON");
    let leases = source["leases"].as_array();
    let ids = leases.into_iter().flatten().filter_map(|entry| entry[0].as_str());
    ids.map(str::to_owned).collect()
}

/// The names of all writes, as they lie in the document.
fn names_in(store: &SimStore) -> Vec<String> {
    let source = store.truth()[&at("1")].source.parse().expect("JSON");
    let names = source["l"].as_array().expect("a list").iter().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// Servers as clients reach them: by name, each start in the place of the one before.
type Servers = Arc<Mutex<Vec<(Relations, Arc<Link>)>>>;

struct Client {
    world: Arc<World>,
    store: Arc<SimStore>,
    servers: Servers,
    log: Log,
    name: String,
    mistake: Option<Mistake>,
}

/// The server does not do it now.
fn is_refused_for_now(error: &Error) -> bool {
    let kinds = [ErrorKind::Unavailable, ErrorKind::Timeout, ErrorKind::LockConflict];
    kinds.contains(&error.kind()) || error.status() == 503
}

fn is_over(error: &Error) -> bool {
    let kinds = [ErrorKind::LockExpired, ErrorKind::LockMissing, ErrorKind::LockBroken];
    kinds.contains(&error.kind())
}

impl Client {
    fn any_server(&self) -> Relations {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let n = self.world.below(servers.len());
        servers[n].0.clone()
    }

    async fn dawdle(&self, millis: usize) {
        let millis = self.world.below(millis) as u64;
        self.world.sleep(Duration::from_millis(millis)).await;
    }

    fn target(&self) -> Wanted {
        let target = match self.world.below(4) {
            0 => LockTarget::Index(IndexName::new("a")),
            _ => LockTarget::Document(at("1")),
        };
        Wanted {
            target,
            mode: Mode::Exclusive,
        }
    }

    /// Waits for a lock, asks again where that is worth it, or gives up. With the server that granted it.
    async fn lock(&self) -> Option<(Lease, Relations)> {
        let before = heard(&self.log).token;
        let relations = self.any_server();
        let mut ask = Ask {
            wait: true,
            ..Ask::of(&self.name, vec![self.target()], KEEP_ALIVE)
        };
        for _ in 0..12 {
            let asked = match relations.acquire(&ask).await {
                Ok(asked) => asked,
                Err(error) => {
                    assert!(is_refused_for_now(&error), "a lock is refused by {error}");
                    return None;
                }
            };
            let (mut turn, place) = match asked {
                Asked::Granted(lease) => return Some((self.granted(*lease, before), relations)),
                Asked::Queued(turn, place) => (turn, place),
            };
            let mut told = None;
            for _ in 0..1 + self.world.below(100) {
                self.world.sleep(Duration::from_millis(50)).await;
                told = (&mut turn).now_or_never();
                if told.is_some() {
                    break;
                }
            }
            match told? {
                Told::Granted(lease) => {
                    turn.keep();
                    heard(&self.log).handed_over += 1;
                    return Some((self.granted(*lease, before), relations));
                }
                Told::Again => {
                    turn.keep();
                    ask.place = Some(place);
                }
            }
        }
        None
    }

    fn granted(&self, lease: Lease, before: u64) -> Lease {
        let there = in_gate(&self.store);
        let mut log = heard(&self.log);
        assert!(lease.token > before, "S10: token {} was granted after {before}", lease.token);
        log.told.retain(|other| there.contains(&*other.id));
        for other in log.told.iter().filter(|other| other.id != lease.id) {
            let excludes = |claim: &relations::locks::Claim| {
                let meets = other.claims.iter().find(|theirs| theirs.key == claim.key);
                meets.is_some_and(|theirs| !theirs.mode.is_compatible(claim.mode))
            };
            assert!(
                !lease.claims.iter().any(excludes),
                "S7: {lease:?} was granted beside {other:?}"
            );
        }
        log.found.insert(lease.token, names_in(&self.store).len());
        log.token = log.token.max(lease.token);
        log.granted += 1;
        log.told.push(lease.clone());
        lease
    }

    fn append(name: &str) -> Write {
        let script = script::compile("ctx._source.l.add(params.v)", script::Lang::Painless).expect("a script");
        let mut params = Map::new();
        params.insert("v".into(), Value::from(name));
        let mut update = Update::of_script((script, script::Params::from_json(&params)), false, 0);
        update.upsert = Some(json!({"l": [name]}));
        Write::new(at("1"), WriteOp::Update(Box::new(update)))
    }

    /// One write under a lock, by either server. False: it is too late.
    async fn write_under(&self, lease: &Lease, n: usize) -> bool {
        let name = format!("{}:{}.{n}", lease.token, self.name);
        heard(&self.log).sent.insert(name.clone());
        if self.mistake == Some(Mistake::Unfenced) {
            let found = self.store.read_one(at("1")).await.expect("a read");
            let mut source = found.map_or_else(|| json!({"l": []}), |found| found.source.parse().expect("JSON"));
            source["l"].as_array_mut().expect("a list").push(name.as_str().into());
            let write = Write::new(at("1"), WriteOp::Put(Source::from_value(&source)));
            return self.any_server().write(vec![write], Refresh::No).await.is_ok();
        }
        let change = Change {
            guards: vec![lease.id.to_string()],
            ..Change::of(vec![Operation::of("index", Client::append(&name))])
        };
        match self.any_server().change(&change).await {
            Ok(Verdict::Committed(_)) => heard(&self.log).written.push(name),
            Err(error) if is_over(&error) => {
                heard(&self.log).late += 1;
                return false;
            }
            // Nobody knows, or the mark of another stays for too long.
            Err(error) if is_refused_for_now(&error) => {}
            other => panic!("a write under a lock came to {other:?}"),
        }
        true
    }

    async fn write_under_lock(&self, round: usize) {
        let Some((lease, granter)) = self.lock().await else { return };
        for n in 0..1 + self.world.below(3) {
            self.dawdle(1_500).await;
            if !self.write_under(&lease, 10 * round + n).await {
                return;
            }
            if self.world.once_in(2)
                && let Err(error) = granter.renew(&lease.id, None, None)
            {
                assert!(is_over(&error) || is_refused_for_now(&error), "a renewal fails by {error}");
            }
        }
        match self.world.below(5) {
            // It goes, and its lock stays until its time is over.
            0 => {}
            // Somebody else ends it, by any server.
            1 => drop(self.any_server().break_lock(&lease.id).await),
            _ => drop(self.any_server().release(&lease.id).await),
        }
    }

    /// A change without a lock, which respects those of others.
    async fn write_without_lock(&self, n: usize) {
        let name = format!("f:{}.{n}", self.name);
        heard(&self.log).sent.insert(name.clone());
        let change = Change::of(vec![Operation::of("index", Client::append(&name))]);
        match self.any_server().change(&change).await {
            Ok(Verdict::Committed(_)) => heard(&self.log).written.push(name),
            Ok(Verdict::Failed(_)) => {}
            Err(error) if is_refused_for_now(&error) => {}
            other => panic!("a change came to {other:?}"),
        }
    }
}

/// S7.
fn check_table(relations: &Relations) {
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

/// Starts a server; `None`: it stopped before it had.
async fn start(world: &Arc<World>, link: &Arc<Link>, server: &str, incarnation: usize) -> Option<Relations> {
    let (clock, pause) = (Arc::new(SimClock(world.clone())), Arc::new(SimPause(world.clone())));
    for attempt in 0..20 {
        let tasks = Arc::new(engine::tasks::Tasks::new(1));
        let session = Arc::from(format!("{server}.{incarnation}-{attempt}"));
        let relations = Relations::new(link.clone(), clock.clone(), tasks, server);
        let relations = relations.by_portable_path_in(pause.clone(), session, Room::default());
        match relations.recover().await {
            Ok(()) => return Some(relations),
            // A session whose acknowledgement was lost is in the way of itself: the process starts again.
            Err(error) if error.kind() == ErrorKind::IllegalState => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "a start fails by {error}");
                return None;
            }
        }
    }
    panic!("a server does not start");
}

/// The life of one server: starts, keeps house, is cut off, stops, starts again.
async fn live(world: Arc<World>, store: Arc<SimStore>, servers: Servers, n: usize, mistake: Option<Mistake>, until: Duration) {
    let name = format!("s{n}");
    for incarnation in 0.. {
        let link = Link::new(&world, &store, mistake);
        let Some(relations) = start(&world, &link, &name, incarnation).await else {
            return;
        };
        servers.lock().unwrap_or_else(PoisonError::into_inner)[n] = (relations.clone(), link.clone());
        let life = Duration::from_millis(2_000 + world.below(60_000) as u64);
        let stops = world.get().now + life;
        while world.get().now < stops.min(until) {
            world.sleep(TICK).await;
            if world.once_in(60) {
                link.cut(Duration::from_millis(world.below(9_000) as u64));
            }
            if let Err(error) = relations.sweep().await {
                assert!(is_refused_for_now(&error), "leases end: {error}");
            }
            check_table(&relations);
        }
        if world.get().now >= until {
            return;
        }
        link.stop();
        world.sleep(Duration::from_millis(world.below(12_000) as u64)).await;
    }
}

fn run(seed: u64, lies: Lies, mistake: Option<Mistake>) -> Came {
    let world = World::new(seed);
    let clock = Arc::new(SimClock(world.clone()));
    // The product makes its control index itself.
    let engine = engine_with(clock, &["a"]).expect("an index");
    let store = Arc::new(SimStore::new(world.clone(), engine, Lies::default(), None));
    let (log, servers): (Log, Servers) = (Log::default(), Servers::default());
    let mut scheduler = Scheduler::new(world.clone());
    let (first, all, of) = (store.clone(), servers.clone(), world.clone());
    scheduler.spawn(async move {
        let begin = Write::new(at("1"), WriteOp::Put(Source::from_value(&json!({"l": []}))));
        let outcomes = first.write(vec![begin], Refresh::No).await.expect("the beginning is written");
        assert!(matches!(outcomes[..], [Outcome::Written(_)]));
        for n in 0..2 {
            let link = Link::new(&of, &first, mistake);
            let started = start(&of, &link, &format!("s{n}"), 1_000).await.expect("nothing stops it");
            // Until its own life begins.
            all.lock().unwrap_or_else(PoisonError::into_inner).push((started, link));
        }
    });
    scheduler.run(TURNS_MAX).expect("L3: it begins");

    store.begin(lies, None);
    let mut scheduler = Scheduler::new(world.clone());
    let until = world.get().now + Duration::from_secs(90);
    for n in 0..2 {
        scheduler.spawn(live(world.clone(), store.clone(), servers.clone(), n, mistake, until));
    }
    for n in 0..6 {
        let client = Client {
            world: world.clone(),
            store: store.clone(),
            servers: servers.clone(),
            log: log.clone(),
            name: format!("{n}"),
            mistake,
        };
        scheduler.spawn(async move {
            client.dawdle(3_000).await;
            for round in 0..4 {
                match n < 4 {
                    true => client.write_under_lock(round).await,
                    false => client.write_without_lock(round).await,
                }
                client.dawdle(4_000).await;
            }
        });
    }
    scheduler.run(TURNS_MAX).expect("L3: it ends");

    // Everything else has stopped: the last server takes over what is left, on a store that is well again.
    store.settle();
    let mut scheduler = Scheduler::new(world.clone());
    let (last, of) = (store.clone(), world.clone());
    scheduler.spawn(async move {
        let link = Link::new(&of, &last, None);
        let relations = start(&of, &link, "last", 0).await.expect("a start on a store that is well");
        for _ in 0..150 {
            of.sleep(TICK).await;
            relations.sweep().await.expect("leases end");
        }
        resolve_all(&runner(&of, &last, "recoverer"), &last).await;
        assert!(relations.leases().is_empty(), "L1: leases are left: {:?}", relations.leases());
    });
    scheduler.run(TURNS_MAX).expect("L1: the last server ends");
    check(&store, &heard(&log))
}

/// How often each of these came.
#[derive(Clone, Copy, Default, Debug)]
struct Came {
    granted: u64,
    handed_over: u64,
    late: u64,
    written: u64,
}

fn check(store: &SimStore, log: &Heard) -> Came {
    assert_eq!(in_gate(store), BTreeSet::new(), "L1: leases are left in the gate");
    let truth = store.truth();
    for (at, document) in &truth {
        let mark = Mark::of(document.hidden.as_ref()).expect("a mark");
        assert!(mark.intent.is_none() && !mark.stub, "L2: {at:?} still carries {mark:?}");
    }
    let names = names_in(store);
    for name in &log.written {
        let times = names.iter().filter(|there| *there == name).count();
        assert_eq!(times, 1, "S1, S2: the acknowledged {name} is there {times} times: {names:?}");
    }
    for name in &names {
        assert!(log.sent.contains(name), "S1: nobody sent {name}");
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "S2: {name} twice");
    }
    let token = |name: &str| name.split_once(':').and_then(|(token, _)| token.parse::<u64>().ok());
    let tokens: Vec<u64> = names.iter().filter_map(|name| token(name)).collect();
    assert!(
        tokens.is_sorted(),
        "S5: writes under locks are not in the order of their tokens: {names:?}"
    );
    for (own, found) in &log.found {
        let Some(last) = names.iter().rposition(|name| token(name) == Some(*own)) else {
            continue;
        };
        let foreign = names[..=last].iter().skip(*found).find(|name| token(name) != Some(*own));
        assert!(
            foreign.is_none(),
            "S5: {foreign:?} was written while lock [{own}] was held: {names:?}"
        );
    }
    Came {
        granted: log.granted,
        handed_over: log.handed_over,
        late: log.late,
        written: log.written.len() as u64,
    }
}

fn lies(seed: u64) -> Lies {
    match seed % 5 {
        0 => Lies::default(),
        1 => Lies {
            stale: 4,
            ..Lies::default()
        },
        2 => Lies {
            lost: 12,
            duplicated: 12,
            ..Lies::default()
        },
        3 => Lies {
            isolated: 16,
            stale: 6,
            ..Lies::default()
        },
        _ => crate::NASTY,
    }
}

#[test]
fn leases_of_two_servers_hold() {
    let runs = crate::from_environment("PLEACH_SIM_GATE_RUNS", 60);
    let mut all = Came::default();
    for seed in 0..runs {
        let outcome = std::panic::catch_unwind(|| run(seed, lies(seed), None));
        let came = outcome.unwrap_or_else(|_| panic!("seed {seed}"));
        all.granted += came.granted;
        all.handed_over += came.handed_over;
        all.late += came.late;
        all.written += came.written;
    }
    println!("{runs} runs: {all:?}");
    assert!(
        all.granted > 4 * runs && all.handed_over > runs / 10 && all.late > runs / 10 && all.written > 4 * runs,
        "the runs show little: {all:?}"
    );
}

#[test]
fn seeded_mistakes_of_the_gate_are_found() {
    for mistake in [Mistake::OldGate, Mistake::BlindSearch, Mistake::LooseGate, Mistake::Unfenced] {
        let found = (0..300).find(|seed| std::panic::catch_unwind(|| run(*seed, lies(*seed), Some(mistake))).is_err());
        println!("{mistake:?}: seed {found:?}");
        assert!(found.is_some(), "{mistake:?} goes unseen");
    }
}

#[test]
#[ignore = "plays one seed again"]
fn one_gate() {
    let seed = crate::from_environment("PLEACH_SIM_SEED", 0);
    println!("{:?}", run(seed, lies(seed), None));
}
