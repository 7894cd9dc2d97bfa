//! The laws of an engine, and the memory engine beside it, held against the embedded engine.
//!
//! `PLEACH_CONTRACT_SEEDS` and `PLEACH_CONTRACT_STEPS` make the comparison larger, `PLEACH_CONTRACT_SEED` begins it
//! elsewhere. Not here: what the embedded engine promises beyond the contract (`laws.rs`).

#![allow(clippy::unwrap_used, reason = "a law that cannot be asked has failed")]

use async_trait::async_trait;
use disk::FaultyDisk;
use dsl::query::Query;
use dsl::search::{SearchRequest, SearchResponse};
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::contract::{LAWS, check, random};
use engine::memory::MemoryEngine;
use engine::{
    Alteration, Altered, AtomicWrites, Barrier, Document, Engine, Inspected, Inspection, Looker, Outcome, Read, Refresh, See,
    TxnBody, TxnOptions, TxnResult, Unrefreshed, View, ViewPromise, Write,
};
use futures::stream::BoxStream;
use model::{CommitSeq, IndexName, Result, Target};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn embedded() -> EmbeddedEngine {
    embedded_on(&FaultyDisk::new(1))
}

fn embedded_on(disk: &FaultyDisk) -> EmbeddedEngine {
    let limits = Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 2 << 20,
        checkpoint_bytes: 1 << 20,
        ..Limits::default()
    };
    EmbeddedEngine::open_on(
        Arc::new(disk.of_one_process()),
        Path::new("/data"),
        Arc::new(SystemClock::default()),
        limits,
    )
    .expect("an empty disk can be opened")
}

/// An engine that can be restarted between calls.
struct Restarting {
    disk: FaultyDisk,
    engine: Mutex<Arc<EmbeddedEngine>>,
}

impl std::fmt::Debug for Restarting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.now().fmt(f)
    }
}

impl Restarting {
    fn open(seed: u64) -> Restarting {
        let disk = FaultyDisk::new(seed);
        let engine = Mutex::new(Arc::new(embedded_on(&disk)));
        Restarting { disk, engine }
    }
    fn now(&self) -> Arc<EmbeddedEngine> {
        self.engine.lock().unwrap().clone()
    }
    fn restart(&self) {
        let mut engine = self.engine.lock().unwrap();
        engine.close().unwrap();
        *engine = Arc::new(embedded_on(&self.disk));
    }
}

#[async_trait]
impl Engine for Restarting {
    async fn read(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        self.now().read(reads).await
    }
    async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.now().write(writes, refresh).await
    }
    async fn rehearse(&self, writes: &[Write]) -> Result<Vec<Result<Option<Alteration>>>> {
        self.now().rehearse(writes).await
    }
    async fn refresh(&self, target: &Target, at_least: Option<CommitSeq>) -> Result<u32> {
        self.now().refresh(target, at_least).await
    }
    async fn open_view(&self, target: &Target, keep_alive: Duration, promise: ViewPromise) -> Result<View> {
        self.now().open_view(target, keep_alive, promise).await
    }
    async fn renew_view(&self, view: &str, keep_alive: Duration) -> Result<()> {
        self.now().renew_view(view, keep_alive).await
    }
    async fn close_view(&self, view: &str) -> Result<bool> {
        self.now().close_view(view).await
    }
    async fn views(&self) -> Result<Vec<View>> {
        self.now().views().await
    }
    async fn search(&self, target: &Target, request: SearchRequest, see: See) -> Result<SearchResponse> {
        self.now().search(target, request, see).await
    }
    async fn scan(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        self.now().scan(target, query, see, barrier).await
    }
    async fn scan_view(&self, target: &Target, query: Query, view: &str) -> Result<BoxStream<'static, Result<Document>>> {
        self.now().scan_view(target, query, view).await
    }
    async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        self.now().alter(alteration).await
    }
    async fn inspect(&self, inspection: Inspection) -> Result<Inspected> {
        self.now().inspect(inspection).await
    }
    fn atomic(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}

#[async_trait]
impl AtomicWrites for Restarting {
    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        let now = self.now();
        let Some(atomic) = now.atomic() else {
            panic!("the embedded engine decides");
        };
        atomic.decide(plan, how).await
    }
    async fn unrefreshed_documents(
        &self,
        index: &IndexName,
        position: CommitSeq,
        most: usize,
    ) -> Result<Option<Vec<Unrefreshed>>> {
        let now = self.now();
        let Some(atomic) = now.atomic() else {
            panic!("the embedded engine decides");
        };
        atomic.unrefreshed_documents(index, position, most).await
    }
    async fn look(&self, look: &mut Looker<'_>) {
        let now = self.now();
        let Some(atomic) = now.atomic() else {
            panic!("the embedded engine decides");
        };
        atomic.look(look).await;
    }
}

/// Each on an engine of its own; all that break are named.
#[tokio::test(flavor = "multi_thread")]
async fn each_law_by_itself() {
    let mut broken = Vec::new();
    for (name, law) in LAWS {
        let run = tokio::spawn(async move { law(&embedded()).await });
        if run.await.is_err() {
            broken.push(*name);
        }
    }
    assert!(broken.is_empty(), "the embedded engine breaks {broken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_laws_on_one_engine() {
    check(&embedded()).await;
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread")]
async fn like_memory() {
    let first = from_env("PLEACH_CONTRACT_SEED", 1);
    let steps = usize::try_from(from_env("PLEACH_CONTRACT_STEPS", 200)).unwrap();
    for seed in first..first + from_env("PLEACH_CONTRACT_SEEDS", 12) {
        eprintln!("seed {seed}, {steps} steps");
        let memory = MemoryEngine::new(Arc::new(SystemClock::default()));
        let restarting = Restarting::open(seed);
        random::same_answers(&memory, &restarting, seed, steps, Some(&|| restarting.restart())).await;
    }
}
