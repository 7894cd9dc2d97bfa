//! Engines on a disk that stops, for tests that stop it at every step.

use disk::FaultyDisk;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::{Alteration, Engine};
use model::Result;
use serde_json::{Map, Value, json};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How many seeds a test plays.
pub(crate) fn seeds() -> u64 {
    let given = std::env::var("PLEACH_TEST_CELL").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// An engine with small files, so that few steps fill one.
pub(crate) fn engine_on(disk: &FaultyDisk) -> Result<Arc<EmbeddedEngine>> {
    let limits = Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 1 << 20,
        ..Limits::default()
    };
    let clock = Arc::new(SystemClock::default());
    EmbeddedEngine::open_on(Arc::new(disk.of_one_process()), Path::new("/data"), clock, limits).map(Arc::new)
}

/// Makes an index with these fields.
pub(crate) async fn create_index(engine: &dyn Engine, name: &str, properties: Value) {
    let create = Alteration::CreateIndex {
        name: name.to_owned(),
        settings: Map::new(),
        mappings: Some(json!({ "properties": properties })),
        aliases: Map::new(),
        typed: false,
        if_absent: true,
    };
    engine.alter(create).await.unwrap();
}

/// Runs a test on so many threads, for so many seconds at most. Decisions wait for each other on the threads that ask.
pub(crate) fn in_time<T>(threads: usize, seconds: u64, work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(seconds), work).await.unwrap() })
}
