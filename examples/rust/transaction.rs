//! A transaction: two accounts in two indices change together, under a condition, or not at all.
//!
//! `cargo run --example transaction`

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{Clock, Engine, EngineExt as _, Expect, Source, Write, WriteOp, address};
use model::{DocAddress, DocId, ErrorKind, Result};
use relations::Relations;
use relations::transactions::{Change, Condition, Operation, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = Arc::new(EmbeddedEngine::open(folder.path(), clock.clone(), Limits::default())?);
    let shared: Arc<dyn Engine> = engine.clone();
    let relations = Relations::new(shared, clock, Arc::new(Tasks::new(100)), "n1");
    let (anna, bob) = (account("savings", "anna"), account("current", "bob"));
    futures::executor::block_on(async {
        relations.recover().await?;
        let opening = Change::of(vec![put(&anna, 100), put(&bob, 10)]);
        let Verdict::Committed(opened) = relations.change(&opening).await? else {
            panic!("nothing is in the way");
        };
        println!("both accounts are open since commit {:?}", opened.commit_seq);

        // 30 go from Anna to Bob, if Anna's account is still as it was read here.
        let read = engine.read_one(anna.clone()).await?.expect("Anna's account");
        let transfer = Change {
            conditions: vec![Condition {
                at: anna.clone(),
                exists: Some(true),
                expect: Expect::Unchanged {
                    seq_no: read.stamp.seq_no,
                    primary_term: read.stamp.primary_term,
                },
            }],
            ..Change::of(vec![put(&anna, 70), put(&bob, 40)])
        };
        let verdict = relations.change(&transfer).await?;
        assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");

        // The same once more: Anna's account has changed since it was read, so Bob's stays as it is, too.
        let refused = relations.change(&transfer).await.expect_err("the condition does not hold");
        println!("refused: {refused}");
        assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
        let balances = [balance(&engine, &anna).await?, balance(&engine, &bob).await?];
        println!("Anna has {}, Bob has {}", balances[0], balances[1]);
        assert_eq!(balances, [70, 40]);
        engine.close()
    })
}

fn account(index: &str, owner: &str) -> DocAddress {
    address(index, DocId::plain(owner))
}

/// Writes an account, and makes its index if there is none.
fn put(at: &DocAddress, balance: i64) -> Operation {
    let source = Source::from_value(&json!({ "balance": balance }));
    Operation {
        creates: Some(false),
        ..Operation::of("index", Write::new(at.clone(), WriteOp::Put(source)))
    }
}

async fn balance(engine: &EmbeddedEngine, at: &DocAddress) -> Result<i64> {
    let source = match engine.read_one(at.clone()).await? {
        Some(document) => document.source.parse()?,
        None => Value::Null,
    };
    Ok(source["balance"].as_i64().unwrap_or(0))
}

#[test]
fn it_runs() {
    main().expect("the example ends well");
}
