//! A query of several clauses finds what the sets of its clauses say, with the scores that they say.
//!
//! Each clause is asked alone for all of its documents. Random queries of these clauses are then worked out as sets, and asked in every
//! way that a search can go: pruned and in whole, sorted, paged, counted, as a filter, as an exclusion, in aggregations, collapsed,
//! explained. Documents change between the rounds. `PLEACH_COMPOSED_CASES` says how many queries are asked, `PLEACH_TEST_SEED` which.
//!
//! Not here: what one clause finds (`golden`, `scenarios`, `document_rights`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

mod checks;
mod composed;
mod leaves;
mod store;

use checks::{check_aggregated, check_collapsed, check_counted, check_explained, check_pruned, check_sorted, check_whole};
use composed::{Dialect, Leaf, Within, any_query};
use leaves::leaf;
use serde_json::Value;
use std::collections::BTreeMap;
use store::Store;
use tests::Server;

const CASES: usize = 300;
/// Queries between two changes of the documents.
const CASES_OF_A_ROUND: usize = 150;
/// Changes of an index before a new one is made.
const ROUNDS_OF_AN_INDEX: usize = 6;
const LEAVES: usize = 40;

/// A bound for the next random number, and that number.
type Random<'a> = &'a mut dyn FnMut(u64) -> u64;

fn check_dialect(dialect: Dialect, persona: &str) {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = given("PLEACH_COMPOSED_CASES").map_or(CASES, |cases| cases as usize);
    let mut random = model::random::random(given("PLEACH_TEST_SEED").unwrap_or(35));
    let random: Random<'_> = &mut random;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[persona]);
    let mut store = Store {
        server: &server,
        dialect,
        docs: BTreeMap::new(),
        is_one_segment: false,
    };
    let mut leaves = Vec::new();
    for case in 0..cases {
        if case % CASES_OF_A_ROUND == 0 {
            if case % (CASES_OF_A_ROUND * ROUNDS_OF_AN_INDEX) == 0 {
                store.begin(random);
            }
            store.change(random);
            let queries: Vec<Value> = (0..LEAVES).map(|_| leaf(random, dialect)).collect();
            leaves = queries
                .into_iter()
                .map(|query| Leaf {
                    found: store.whole(&query).0,
                    query,
                })
                .collect();
        }
        let depth = 1 + random(3) as u32;
        let composed = any_query(random, depth);
        let query = composed.query(&leaves, dialect);
        let within = Within {
            leaves: &leaves,
            docs: &store.docs,
            dialect,
            is_filter: false,
        };
        let (expected, filtered) = (composed.evaluate(&within), composed.evaluate(&within.filter()));
        if random(3) == 0 {
            check_whole(&store, &query, &expected);
        }
        if dialect == Dialect::Todays {
            check_pruned(&store, &query, &expected, random);
        }
        check_sorted(&store, &query, &expected, &filtered, random);
        match random(4) {
            0 => check_counted(&store, &query, &expected, &filtered),
            1 => check_aggregated(&store, &query, &expected, &filtered),
            2 if dialect == Dialect::Todays => check_collapsed(&store, &query, &expected),
            _ => check_explained(&store, &query, &expected, random),
        }
    }
}

#[test]
fn composed_queries_find_what_their_clauses_say() {
    check_dialect(Dialect::Todays, "opensearch2");
}

#[test]
fn composed_queries_of_2015_find_what_their_clauses_say() {
    check_dialect(Dialect::Of2015, "es2");
}
