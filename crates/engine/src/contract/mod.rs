//! The contract of an engine as laws that run: one list, the same for every engine.
//!
//! [`check`] runs every law of [`LAWS`] on an engine; [`random::same_answers`] sends the same random calls to two
//! engines and compares every answer. Laws make their own indices, so that all may run on one engine and in any order;
//! they panic where a law is broken. Indices are made with `refresh_interval: -1`: nothing becomes searchable by itself.
//! [`Refresh::WaitFor`] does not refresh such an index either: it waits for whoever does. An engine may refresh
//! sooner than it must, so the memory engine, which has no time, does it at once.
//!
//! Not here: scores and analysis (the memory engine has none), durability across restarts, HTTP.

mod laws;
pub mod random;

use crate::*;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::json;

/// A law: it panics if the engine breaks it.
pub type Law = for<'a> fn(&'a dyn Engine) -> BoxFuture<'a, ()>;

macro_rules! laws {
    ($($name:ident,)*) => {
        /// Every law by name.
        pub const LAWS: &[(&str, Law)] = &[$((stringify!($name), |engine| laws::$name(engine).boxed()),)*];
    };
}

laws! {
    read_your_write,
    answers_in_order,
    each_expectation,
    deletions_are_known,
    external_versions,
    basis_beside_versions,
    sequence_numbers,
    refresh_visibility,
    bulk_partial_failure,
    deleted_then_created,
    deleting_nothing_counts,
    updates,
    conflict_leaves_nothing,
    decide_all_or_nothing,
    views_stand_still,
    mapping_grows,
    rehearsal_changes_nothing,
    aliases,
    missing_indices,
    meant_for_one_index,
    read_together,
    closed_indices,
    typed_ids,
    marks,
    scans_in_index_order,
    unrefreshed_documents_are_named,
    paging,
}

/// Runs every law.
pub async fn check(engine: &dyn Engine) {
    for (_, law) in LAWS {
        law(engine).await;
    }
}

/// One index of an engine, spoken to in short words. Whatever the engine refuses here breaks the law.
pub(crate) struct Bench<'a> {
    pub(crate) engine: &'a dyn Engine,
    pub(crate) index: &'static str,
}

impl<'a> Bench<'a> {
    /// A new index with a mapping of `properties`.
    pub(crate) async fn new(engine: &'a dyn Engine, index: &'static str, properties: Value) -> Bench<'a> {
        create(engine, index, Some(json!({ "properties": properties })), false)
            .await
            .expect("an index can be created");
        Bench { engine, index }
    }

    pub(crate) fn at(&self, id: &str) -> DocAddress {
        address(self.index, DocId::plain(id))
    }

    pub(crate) fn put(&self, id: &str, source: Value) -> Write {
        Write::new(self.at(id), WriteOp::Put(Source::from_value(&source)))
    }

    pub(crate) fn delete(&self, id: &str) -> Write {
        Write::new(self.at(id), WriteOp::Delete)
    }

    /// Writes one document; it must be done.
    pub(crate) async fn write(&self, write: Write) -> Written {
        expect_written(self.engine.write_one(write, Refresh::No).await.expect("a write is answered"))
    }

    pub(crate) async fn outcome(&self, write: Write) -> Outcome {
        self.engine.write_one(write, Refresh::No).await.expect("a write is answered")
    }

    pub(crate) async fn get(&self, id: &str) -> Option<Document> {
        self.engine.read_one(self.at(id)).await.expect("a read is answered")
    }

    pub(crate) async fn refresh(&self) {
        self.engine
            .refresh(&Target::index(self.index), None)
            .await
            .expect("an index can be refreshed");
    }

    /// The ids of a search by `rank`, which the mapping must have.
    pub(crate) async fn ids(&self, body: Value) -> Vec<String> {
        ids(self.engine, &Target::index(self.index), body).await
    }
}

/// Writes with [`Refresh::WaitFor`] while someone refreshes `targets` until the writes have been answered, and once
/// more, so that both kinds of engines have refreshed the same.
pub(crate) async fn write_waiting(engine: &dyn Engine, writes: Vec<Write>, targets: &[Target]) -> Result<Vec<Outcome>> {
    let mut writing = engine.write(writes, Refresh::WaitFor);
    let answer = loop {
        if let std::task::Poll::Ready(answer) = futures::poll!(&mut writing) {
            break answer;
        }
        for target in targets {
            // An alias may name no index to refresh.
            drop(engine.refresh(target, None).await);
        }
    };
    for target in targets {
        drop(engine.refresh(target, None).await);
    }
    answer
}

/// Creates an index that is refreshed only when told.
pub(crate) async fn create(engine: &dyn Engine, index: &str, mappings: Option<Value>, typed: bool) -> Result<Altered> {
    let mut settings = Map::new();
    settings.insert("index.refresh_interval".into(), "-1".into());
    let (name, aliases) = (index.to_owned(), Map::new());
    engine
        .alter(Alteration::CreateIndex {
            name,
            settings,
            mappings,
            aliases,
            typed,
            if_absent: false,
        })
        .await
}

/// A request from its body.
pub(crate) fn request(body: &Value) -> SearchRequest {
    let node = dsl::json::Node::from_value(body.clone());
    SearchRequest::parse(node, model::Dialect::default()).expect("the requests of laws can be read")
}

pub(crate) async fn ids(engine: &dyn Engine, target: &Target, body: Value) -> Vec<String> {
    let answer = engine
        .search(target, request(&body), See::Plain)
        .await
        .expect("a search is answered");
    answer.hits.hits.iter().map(|hit| hit.id.id.to_string()).collect()
}

/// Everything a scan gives.
pub(crate) async fn scan_all(engine: &dyn Engine, target: &Target, query: Query, see: See) -> Vec<Document> {
    let stream = engine
        .scan(target, query, see, Barrier::None)
        .await
        .expect("a scan is answered");
    stream.map(|doc| doc.expect("a scanned document is there")).collect().await
}

pub(crate) fn expect_written(outcome: Outcome) -> Written {
    match outcome {
        Outcome::Written(written) => written,
        other => panic!("a write should have been done: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::memory::MemoryEngine;
    use futures::executor::block_on;

    fn memory() -> MemoryEngine {
        MemoryEngine::new(Arc::new(SystemClock::default()))
    }

    #[test]
    fn each_law_by_itself() {
        for (name, law) in LAWS {
            let ran = std::panic::catch_unwind(|| block_on(law(&memory())));
            assert!(ran.is_ok(), "the memory engine breaks the law [{name}]");
        }
    }

    #[test]
    fn all_laws_on_one_engine() {
        block_on(check(&memory()));
    }

    /// The driver holds two engines together, and itself to the same steps for the same seed.
    #[test]
    fn memory_is_like_memory() {
        for seed in 1..=8 {
            block_on(random::same_answers(&memory(), &memory(), seed, 150, None));
        }
    }

    /// An engine with one document more is told apart.
    #[test]
    #[should_panic(expected = "seed 3")]
    fn a_difference_is_found() {
        let other = memory();
        block_on(async {
            let bench = Bench {
                engine: &other,
                index: random::INDICES[0],
            };
            create(&other, bench.index, None, false)
                .await
                .expect("an index can be created");
            bench.write(bench.put("d1", json!({ "rank": 1 }))).await;
        });
        block_on(random::same_answers(&memory(), &other, 3, 150, None));
    }
}
