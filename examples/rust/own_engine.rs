//! An own engine behind the contract: one that counts its calls and passes them to another. The laws of the contract hold for
//! it, so relations run on it unchanged.
//!
//! An engine that stores documents by itself implements [`engine::Engine`] in the same way; `engine::memory` is the smallest.
//!
//! `cargo run --example own_engine`

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use async_trait::async_trait;
use engine::clock::SystemClock;
use engine::memory::MemoryEngine;
use engine::tasks::Tasks;
use engine::{Around, AtomicWrites, Clock, Document, Engine, Outcome, Read, Refresh, Source, Staging, Write, WriteOp, address};
use model::{DocId, Result};
use relations::Relations;
use relations::transactions::{Change, Operation, Verdict};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts documents on their way to the engine inside.
#[derive(Debug)]
struct CountingEngine {
    inner: MemoryEngine,
    reads: AtomicU64,
    writes: AtomicU64,
}

#[async_trait]
impl Around for CountingEngine {
    fn inner(&self) -> &dyn Engine {
        &self.inner
    }
    async fn reads(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        self.reads.fetch_add(reads.len() as u64, Ordering::Relaxed);
        Engine::read(&self.inner, reads).await
    }
    async fn writes(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.writes.fetch_add(writes.len() as u64, Ordering::Relaxed);
        self.inner.write(writes, refresh).await
    }
    // The critical section of the engine inside: without one, changes need `Relations::by_portable_path`.
    fn section(&self) -> Option<&dyn AtomicWrites> {
        self.inner.atomic()
    }
    fn inner_staging(&self) -> Option<&dyn Staging> {
        self.inner.staging()
    }
}

fn main() -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let counting = Arc::new(CountingEngine {
        inner: MemoryEngine::new(clock.clone()),
        reads: AtomicU64::new(0),
        writes: AtomicU64::new(0),
    });
    futures::executor::block_on(async {
        // Every law of the contract, as for the engines of this repository. One that is broken panics.
        engine::contract::check(counting.as_ref()).await;
        let counts = [&counting.reads, &counting.writes].map(|count| count.load(Ordering::Relaxed));
        println!("the laws hold; they read {} documents and wrote {}", counts[0], counts[1]);
        assert!(counts[0] > 0 && counts[1] > 0);

        let shared: Arc<dyn Engine> = counting.clone();
        let relations = Relations::new(shared, clock, Arc::new(Tasks::new(100)), "n1");
        relations.recover().await?;
        let write = |id: &str| {
            let source = Source::from_value(&json!({ "written": "together" }));
            Operation {
                creates: Some(false),
                ..Operation::of("index", Write::new(address("pairs", DocId::plain(id)), WriteOp::Put(source)))
            }
        };
        let verdict = relations.change(&Change::of(vec![write("1"), write("2")])).await?;
        assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
        Ok(())
    })
}

#[test]
fn it_runs() {
    main().expect("the example ends well");
}
