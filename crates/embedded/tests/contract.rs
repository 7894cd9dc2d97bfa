//! The laws of an engine, and the memory engine beside it, held against the embedded engine.
//!
//! Runs with the feature `contract` of this crate, which stands for `engine/contract`. Not here: what the embedded
//! engine promises beyond the contract (`laws.rs`).

#![cfg(feature = "contract")]
#![allow(unexpected_cfgs, reason = "the feature may not be declared yet")]

use embedded::disk::FaultyDisk;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::contract::{LAWS, check, random};
use engine::memory::MemoryEngine;
use std::path::Path;
use std::sync::Arc;

fn embedded() -> EmbeddedEngine {
    let limits = Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 2 << 20,
        checkpoint_bytes: 1 << 20,
        ..Limits::default()
    };
    EmbeddedEngine::open_on(
        Arc::new(FaultyDisk::new(1)),
        Path::new("/data"),
        Arc::new(SystemClock::default()),
        limits,
    )
    .expect("an empty disk can be opened")
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

#[tokio::test(flavor = "multi_thread")]
async fn like_memory() {
    for seed in 1..=8 {
        let memory = MemoryEngine::new(Arc::new(SystemClock::default()));
        random::same_answers(&memory, &embedded(), seed, 150).await;
    }
}
