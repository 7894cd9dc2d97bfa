//! What changes, locks and jobs promise over failing disks, clocks that jump and many unclean starts.
//!
//! Not here: disks that stop at every step of a change (`crash`), the engine alone (`embedded/tests/write_path`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use async_trait::async_trait;
use disk::{Disk as _, FaultyDisk};
use dsl::query::Query;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{Alteration, Clock, Engine, EngineExt as _, Source, Update, Write, WriteOp, address};
use futures::StreamExt as _;
use model::{DocId, ErrorKind, Target};
use relations::Relations;
use relations::intents::Pause;
use relations::jobs::{Begun, Job, JobAction, JobStep, Order};
use relations::leases::{Ask, Asked, Caller, OnExpire, Wanted};
use relations::locks::{LockTarget, Mode};
use relations::transactions::{Change, Committed, Digest, Key, Operation, Verdict};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

const HOUR_MS: i64 = 60 * 60 * 1000;

/// A machine's clock that somebody sets, and on which hours may pass at once.
#[derive(Debug, Default)]
struct SetClock {
    inner: SystemClock,
    wall_ms: AtomicI64,
    passed_ms: AtomicU64,
}

impl SetClock {
    /// Somebody sets it forward: no time passes.
    fn set_forward(&self, hours: i64) {
        self.wall_ms.fetch_add(hours * HOUR_MS, Ordering::SeqCst);
    }
    /// So much time passes.
    fn pass(&self, hours: i64) {
        self.set_forward(hours);
        self.passed_ms
            .fetch_add(u64::try_from(hours * HOUR_MS).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for SetClock {
    fn monotonic(&self) -> Duration {
        self.inner.monotonic() + Duration::from_millis(self.passed_ms.load(Ordering::SeqCst))
    }
    fn wall_ms(&self) -> i64 {
        self.inner.wall_ms() + self.wall_ms.load(Ordering::SeqCst)
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
}

#[derive(Debug)]
struct Sleep;

#[async_trait]
impl Pause for Sleep {
    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

struct Server {
    engine: Arc<EmbeddedEngine>,
    relations: Relations,
}

async fn start(disk: &FaultyDisk, clock: &Arc<SetClock>, portable: bool) -> Server {
    let limits = Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 1 << 20,
        ..Limits::default()
    };
    let (disk, clock): (_, Arc<dyn Clock>) = (Arc::new(disk.of_one_process()), clock.clone());
    let engine = Arc::new(EmbeddedEngine::open_on(disk, Path::new("/data"), clock.clone(), limits).unwrap());
    let mut relations = Relations::new(engine.clone(), clock, Arc::new(Tasks::new(10)), "n1");
    if portable {
        relations = relations.by_portable_path(Arc::new(Sleep));
    }
    relations.recover().await.unwrap();
    Server { engine, relations }
}

/// The process is killed; the machine goes on.
fn kill(disk: &FaultyDisk, server: Server) {
    disk.stop_after(0);
    drop(server);
    disk.restart();
}

async fn make(engine: &dyn Engine, name: &str) {
    let create = Alteration::CreateIndex {
        name: name.to_owned(),
        settings: serde_json::Map::new(),
        mappings: None,
        aliases: serde_json::Map::new(),
        typed: false,
        if_absent: true,
    };
    engine.alter(create).await.unwrap();
}

fn change(key: Option<&str>, id: &str) -> Change {
    let put = WriteOp::Put(Source::from_value(&json!({ "n": 1 })));
    Change {
        key: key.map(|key| Key::new("", key, Digest::of(&[key.as_bytes()])).unwrap()),
        ..Change::of(vec![Operation {
            label: "index",
            write: Write::new(address("a", DocId::plain(id)), put),
            creates: None,
            wants_source: false,
            error: None,
        }])
    }
}

async fn committed(relations: &Relations, change: &Change) -> Committed {
    match relations.change(change).await.unwrap() {
        Verdict::Committed(committed) => committed,
        other => panic!("{other:?}"),
    }
}

fn ask() -> Ask {
    Ask {
        lock: None,
        owner: String::new(),
        targets: vec![Wanted {
            target: LockTarget::Name("x".into()),
            mode: Mode::Exclusive,
        }],
        keep_alive: None,
        on_expire: OnExpire::Release,
        on_disconnect_release: false,
        connection: None,
        wait: false,
        place: None,
    }
}

async fn grant(relations: &Relations) -> (String, u64) {
    match relations.acquire(&ask()).await.unwrap() {
        Asked::Granted(lease) => (lease.id.to_string(), lease.token),
        other @ Asked::Queued(..) => panic!("{other:?}"),
    }
}

/// A clock that is set forward by two days forgets no key, beside a running server and over restarts; a day that passes does.
#[tokio::test(flavor = "multi_thread")]
async fn keys_grow_old_by_the_time_that_passes() {
    for portable in [false, true] {
        let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
        let mut server = start(&disk, &clock, portable).await;
        make(&*server.engine, "a").await;
        let first = committed(&server.relations, &change(Some("k"), "1")).await;
        assert!(!first.replayed);
        for restart in [false, true, true] {
            clock.set_forward(48);
            if restart {
                kill(&disk, server);
                server = start(&disk, &clock, portable).await;
            }
            server.relations.forget_old().await.unwrap();
            let again = committed(&server.relations, &change(Some("k"), "1")).await;
            assert!(again.replayed, "portable: {portable}, restart: {restart}");
            assert_eq!(again.commit_seq, first.commit_seq);
        }
        clock.pass(25);
        let anew = committed(&server.relations, &change(Some("k"), "1")).await;
        assert!(!anew.replayed, "portable: {portable}: a key is kept for a day");
    }
}

/// A lock that was broken is remembered for a day of the time that passes: a jump of the wall clock, forward or back, neither
/// forgets it nor keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn ended_locks_grow_old_by_the_time_that_passes() {
    for jump in [48, -48] {
        let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
        let mut server = start(&disk, &clock, false).await;
        let (held, _) = grant(&server.relations).await;
        server.relations.break_lock(&held).await.unwrap();
        for restart in [false, true, true] {
            clock.set_forward(jump);
            if restart {
                kill(&disk, server);
                server = start(&disk, &clock, false).await;
            }
            assert_eq!(
                server.relations.forget_old().await.unwrap(),
                0,
                "{jump} hours, restart: {restart}"
            );
            let told = server.relations.lease(&held).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::LockBroken, "{jump} hours, restart: {restart}");
        }
        clock.pass(25);
        assert_eq!(server.relations.forget_old().await.unwrap(), 1, "{jump} hours");
        kill(&disk, server);
        let server = start(&disk, &clock, false).await;
        assert_eq!(
            server.relations.lease(&held).unwrap_err().kind(),
            ErrorKind::LockMissing,
            "{jump} hours"
        );
    }
}

/// However long a job runs, its key leads to it, also after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_running_job_is_not_forgotten() {
    let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
    let mut server = start(&disk, &clock, false).await;
    make(&*server.engine, "a").await;
    committed(&server.relations, &change(None, "1")).await;
    server.engine.refresh(&Target::index("a"), None).await.unwrap();
    let key = Key::new("", "job", Digest::of(&[b"job"])).unwrap();
    let job = Job {
        target: Target::index("a"),
        query: Query::all(),
        action: JobAction::Delete,
        proceed: false,
        max_docs: None,
        batch: 2,
        refresh: false,
        guards: Vec::new(),
        whole: None,
        free: Vec::new(),
        caller: Caller::default(),
    };
    let order = Order {
        request: Value::Null,
        key: Some(key.clone()),
        keep: true,
    };
    let tasks = Tasks::new(10);
    let task = tasks.start("indices:data/write/delete/byquery", String::new(), 0);
    let Begun::Run(_) = server.relations.begin(job, &task, &order).await.unwrap() else {
        panic!("no key leads anywhere yet")
    };
    for restart in [false, true] {
        clock.pass(30);
        if restart {
            kill(&disk, server);
            server = start(&disk, &clock, false).await;
            clock.pass(30);
        }
        server.relations.forget_old().await.unwrap();
        assert_eq!(
            server.relations.task_of(&key).await.unwrap(),
            Some(task.id),
            "restart: {restart}"
        );
    }
    // It has ended: its outcome, and the key that leads there, are kept for a day from here on.
    let found = server.relations.tasks_found().await.unwrap();
    assert_eq!(found.iter().map(|found| found.number).collect::<Vec<_>>(), [task.id]);
    let outcome = Ok(json!({ "deleted": 1 }));
    server.relations.end_job(&task, true, &outcome).await.unwrap();
    clock.set_forward(48);
    clock.pass(23);
    server.relations.forget_old().await.unwrap();
    assert_eq!(server.relations.task_of(&key).await.unwrap(), Some(task.id));
    assert_eq!(server.relations.tasks_found().await.unwrap().len(), 1);
    clock.pass(2);
    server.relations.forget_old().await.unwrap();
    assert_eq!(server.relations.task_of(&key).await.unwrap(), None);
    assert_eq!(server.relations.tasks_found().await.unwrap().len(), 0);
}

/// How many records of finished changes there are.
async fn records(server: &Server) -> usize {
    let target = Target::index(model::system_index::CONTROL_INDEX);
    server.engine.refresh(&target, None).await.unwrap();
    let all = server
        .engine
        .scan(&target, Query::all(), engine::See::Everything, engine::Barrier::None);
    let all: Vec<_> = all.await.unwrap().collect().await;
    let kinds = all
        .into_iter()
        .map(|document| document.unwrap().source.parse().unwrap()["kind"].clone());
    kinds.filter(|kind| kind == "change").count()
}

/// Records of the portable path are forgotten by the time that passes too: what is late meets them until then.
#[tokio::test(flavor = "multi_thread")]
async fn records_of_changes_grow_old_by_the_time_that_passes() {
    let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
    let mut server = start(&disk, &clock, true).await;
    make(&*server.engine, "a").await;
    committed(&server.relations, &change(None, "1")).await;
    for restart in [false, true, true] {
        clock.set_forward(48);
        if restart {
            kill(&disk, server);
            server = start(&disk, &clock, true).await;
        }
        server.relations.forget_old().await.unwrap();
        assert_eq!(records(&server).await, 1, "restart: {restart}");
    }
    clock.pass(25);
    server.relations.forget_old().await.unwrap();
    assert_eq!(records(&server).await, 0);
}

/// Not a byte is free: a job that deletes goes through all of its batches, and its record with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_deletes_on_a_full_disk() {
    let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
    let server = start(&disk, &clock, false).await;
    make(&*server.engine, "a").await;
    for n in 0..9 {
        let source = Source::from_value(&json!({ "n": n }));
        let write = Write::new(address("a", DocId::plain(n.to_string())), WriteOp::Put(source));
        server.engine.write_one(write, engine::Refresh::No).await.unwrap();
    }
    server.engine.refresh(&Target::index("a"), None).await.unwrap();
    // Time for the file that is kept for deletes.
    tokio::time::sleep(Duration::from_millis(300)).await;
    kill(&disk, server);
    for name in disk.list(&Path::new("/data").join("log")).unwrap() {
        if name.starts_with("spare") {
            disk.remove(&Path::new("/data").join("log").join(name)).unwrap();
        }
    }
    disk.set_room(Some(0));
    let server = start(&disk, &clock, false).await;
    let put = || {
        Write::new(
            address("a", DocId::plain("new")),
            WriteOp::Put(Source::from_value(&json!({ "n": 1 }))),
        )
    };
    let Ok(engine::Outcome::Refused(refused)) = server.engine.write_one(put(), engine::Refresh::No).await else {
        panic!("there is no room for a document")
    };
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    let job = Job {
        target: Target::index("a"),
        query: Query::all(),
        action: JobAction::Delete,
        proceed: false,
        max_docs: None,
        batch: 2,
        refresh: false,
        guards: Vec::new(),
        whole: None,
        free: Vec::new(),
        caller: Caller::default(),
    };
    let order = Order {
        request: Value::Null,
        key: None,
        keep: true,
    };
    let tasks = Tasks::new(10);
    let task = tasks.start("indices:data/write/delete/byquery", String::new(), 0);
    let Begun::Run(mut run) = server.relations.begin(job, &task, &order).await.unwrap() else {
        panic!("it is new")
    };
    while !matches!(server.relations.step(&mut run, &task).await.unwrap(), JobStep::Ended) {}
    server.relations.close(&mut run).await.unwrap();
    for n in 0..9 {
        let at = address("a", DocId::plain(n.to_string()));
        assert!(server.engine.read_one(at).await.unwrap().is_none(), "{n}");
    }
}

/// Numbers of commits and locks rise over unclean starts, and far below 2^53 however many there are.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_rise_slowly_over_unclean_starts() {
    const STARTS: u64 = 24;
    let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
    let (mut token, mut commit_seq, mut second) = (0, 0, 0);
    for n in 0..STARTS {
        let server = start(&disk, &clock, true).await;
        make(&*server.engine, "a").await;
        let (id, next) = grant(&server.relations).await;
        assert!(next > token, "start {n}: token {next} after {token}");
        token = next;
        server.relations.release(&id).await.unwrap();
        let done = committed(&server.relations, &change(None, "1")).await;
        assert!(
            done.commit_seq > commit_seq,
            "start {n}: {} after {commit_seq}",
            done.commit_seq
        );
        commit_seq = done.commit_seq;
        if n == 1 {
            second = commit_seq.max(token);
        }
        kill(&disk, server);
    }
    let each = (commit_seq.max(token) - second) / (STARTS - 2);
    assert!(each < 1 << 22, "{each} a start");
    assert!(
        token.max(commit_seq) + each * (1 << 30) < 1 << 53,
        "a thousand million starts fit"
    );
}

/// After the log has failed nothing is answered from what it may not have: neither a repetition by its key, nor the locks.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_answered_from_what_a_failed_log_may_not_have() {
    for seed in 0..6 {
        for fails_at_write in [false, true] {
            let (disk, clock) = (FaultyDisk::new(seed), Arc::new(SetClock::default()));
            let server = start(&disk, &clock, false).await;
            let relations = &server.relations;
            make(&*server.engine, "a").await;
            committed(relations, &change(Some("before"), "1")).await;
            let (held, _) = grant(relations).await;
            match fails_at_write {
                true => disk.set_writes_failing(true),
                false => disk.set_syncs_failing(true),
            }
            let lost = relations.change(&change(Some("k"), "2")).await.unwrap_err();
            assert_eq!(lost.kind(), ErrorKind::LogFailed, "{lost}");
            disk.set_writes_failing(false);
            disk.set_syncs_failing(false);
            for _ in 0..2 {
                let again = relations.change(&change(Some("k"), "2")).await.unwrap_err();
                assert_eq!((again.kind(), again.status()), (ErrorKind::LogFailed, 503), "{again}");
            }
            // What was durable before is answered.
            assert!(committed(relations, &change(Some("before"), "1")).await.replayed);
            assert!(relations.lease(&held).is_ok());
            relations.locks_settled().await.unwrap();
            assert!(relations.release(&held).await.is_err());
            kill(&disk, server);
            disk.crash();
            let server = start(&disk, &clock, false).await;
            let found = server
                .engine
                .read_one(address("a", DocId::plain("2")))
                .await
                .unwrap()
                .is_some();
            let again = committed(&server.relations, &change(Some("k"), "2")).await;
            assert_eq!(again.replayed, found, "the outcome is there if and only if the document is");
        }
    }
}

/// The end of a lock that may not be durable is not told either.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lock_is_told_once_it_is_durable() {
    let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
    let server = start(&disk, &clock, false).await;
    let (held, _) = grant(&server.relations).await;
    disk.set_syncs_failing(true);
    server.relations.release(&held).await.unwrap_err();
    // In memory it has ended; whether it has for good nobody knows.
    assert_eq!(server.relations.lease(&held).unwrap_err().kind(), ErrorKind::LockMissing);
    let unknown = server.relations.locks_settled().await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::LogFailed);
    let refused = server.relations.acquire(&ask()).await.unwrap_err();
    assert_eq!(refused.status(), 503, "{refused}");
}

/// That the time of a lock is over is told once its end is durable: nobody is told while it cannot be written, and a start
/// after the answer finds the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_over_once_its_end_is_durable() {
    for fails in [false, true] {
        let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
        let server = start(&disk, &clock, false).await;
        let (held, _) = grant(&server.relations).await;
        let ids = [held.clone()];
        assert!(server.relations.are_alive(&ids));
        assert_eq!(server.relations.unwritten_ends(&ids).await.unwrap(), Vec::<String>::new());
        // Several steps: a pause is no reason for a lease to go on.
        for _ in 0..100 {
            clock.passed_ms.fetch_add(400, Ordering::SeqCst);
            server.relations.leases();
        }
        assert!(!server.relations.are_alive(&ids));
        if fails {
            disk.set_syncs_failing(true);
            assert_eq!(
                server.relations.unwritten_ends(&ids).await.unwrap_err().kind(),
                ErrorKind::LogFailed
            );
            continue;
        }
        assert_eq!(server.relations.unwritten_ends(&ids).await.unwrap(), Vec::<String>::new());
        server.relations.locks_settled().await.unwrap();
        kill(&disk, server);
        disk.crash();
        let server = start(&disk, &clock, false).await;
        assert_eq!(server.relations.lease(&held).unwrap_err().kind(), ErrorKind::LockExpired);
    }
}

/// A change of which every operation is a noop has a number that no other has, and that can be waited for, by both paths.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_noops_has_a_number_of_its_own() {
    for portable in [false, true] {
        let (disk, clock) = (FaultyDisk::new(1), Arc::new(SetClock::default()));
        let server = start(&disk, &clock, portable).await;
        make(&*server.engine, "a").await;
        let mut last = committed(&server.relations, &change(None, "1")).await.commit_seq;
        for n in 0..6 {
            let update = Update {
                doc: Some(json!({ "n": 1 })),
                script: None,
                upsert: None,
                doc_as_upsert: false,
                scripted_upsert: false,
                moves: false,
                detect_noop: true,
                lenient_op: false,
                of_2015: false,
                budget: script::Budget::default(),
                now_ms: 0,
            };
            let noop = Change::of(vec![Operation {
                label: "update",
                write: Write::new(address("a", DocId::plain("1")), WriteOp::Update(Box::new(update))),
                creates: None,
                wants_source: false,
                error: None,
            }]);
            let one = match n % 3 {
                2 => change(None, "2"),
                _ => noop,
            };
            let next = committed(&server.relations, &one).await.commit_seq;
            assert!(next > last, "portable: {portable}, {n}: {next} after {last}");
            server.relations.reach(&Target::index("a"), next).await.unwrap();
            last = next;
        }
    }
}
