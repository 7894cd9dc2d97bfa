//! The laws of an engine that the slice covers, against a real OpenSearch; and by name those that it does not.

#![allow(clippy::unwrap_used, reason = "a law that cannot be asked has failed")]

use engine::Engine;
use engine::contract::LAWS;
use remote::{Options, RemoteEngine};
use std::sync::Arc;

#[path = "../../../tests/src/opensearch.rs"]
#[allow(unreachable_pub, reason = "it is a module of the tests' harness as well")]
mod opensearch;

/// Laws of what the slice does not do, and why.
const NOT_COVERED: &[(&str, &str)] = &[
    ("deletions_are_known", "a cluster does not tell of deletions"),
    (
        "external_versions",
        "they go with no other condition, so nothing would notice a mark that comes between",
    ),
    (
        "basis_beside_versions",
        "a cluster compares no sequence number beside an external version",
    ),
    (
        "deleting_nothing_counts",
        "sent without a condition, it could take away a stub that comes between",
    ),
    ("views_stand_still", "no views"),
    (
        "aliases",
        "names of several indices are the cluster's to resolve, after a plain write was composed",
    ),
    ("typed_ids", "no mapping types"),
    ("meant_for_one_index", "a cluster compares no uuid of an index"),
];

#[test]
fn each_law_by_itself() {
    let names: Vec<&str> = LAWS.iter().map(|(name, _)| *name).collect();
    for (name, _) in NOT_COVERED {
        assert!(names.contains(name), "no law is called {name}");
    }
    let Some(cluster) = opensearch::start() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let engine = runtime
        .block_on(RemoteEngine::connect(&cluster.address, Options::default()))
        .unwrap();
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let mut broken = Vec::new();
    for (name, law) in LAWS {
        if let Some((_, why)) = NOT_COVERED.iter().find(|(not, _)| not == name) {
            eprintln!("not covered: {name}: {why}");
            continue;
        }
        let engine = engine.clone();
        let ran = runtime.block_on(runtime.spawn(async move { law(&*engine).await }));
        eprintln!("{}: {name}", if ran.is_ok() { "kept" } else { "BROKEN" });
        if ran.is_err() {
            broken.push(*name);
        }
    }
    assert!(broken.is_empty(), "the remote engine breaks {broken:?}");
}
