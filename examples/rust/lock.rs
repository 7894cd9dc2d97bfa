//! A lock with a lease: who holds it writes, others wait or are refused, and a holder whose time is over writes no more.
//!
//! `cargo run --example lock`

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{Clock, Engine, EngineExt as _, Source, Write, WriteOp, address};
use model::{DocAddress, DocId, ErrorKind, Result};
use relations::Relations;
use relations::leases::{Ask, Asked, Lease, Wanted};
use relations::locks::{LockTarget, Mode};
use relations::transactions::{Change, Operation, Verdict};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = Arc::new(EmbeddedEngine::open(folder.path(), clock.clone(), Limits::default())?);
    let shared: Arc<dyn Engine> = engine.clone();
    let relations = Relations::new(shared, clock, Arc::new(Tasks::new(100)), "n1");
    let order = address("orders", DocId::plain("17"));
    futures::executor::block_on(async {
        // A start takes up the locks of the process before.
        relations.recover().await?;
        write(&relations, &order, "open", &[]).await?;
        let first = lock(&relations, "the first clerk", &order, Duration::from_secs(1)).await?;
        println!("the first clerk holds {} with fencing token {}", first.id, first.token);
        write(&relations, &order, "packed", &[&first]).await?;

        let refused = lock(&relations, "the second clerk", &order, Duration::from_secs(60)).await;
        assert_eq!(refused.expect_err("it is held").kind(), ErrorKind::LockConflict);

        // The first clerk is late. The program sweeps every 50 ms, as the server does: it then knows that it ran all the
        // time, and that the lease is over.
        for _ in 0..24 {
            std::thread::sleep(Duration::from_millis(50));
            relations.sweep().await?;
        }
        let second = lock(&relations, "the second clerk", &order, Duration::from_secs(60)).await?;
        println!("the second clerk holds {} with fencing token {}", second.id, second.token);
        assert!(second.token > first.token);

        let late = write(&relations, &order, "sent to the wrong town", &[&first]).await;
        let late = late.expect_err("its lease is over").kind();
        assert!(matches!(late, ErrorKind::LockExpired | ErrorKind::LockMissing), "{late:?}");
        write(&relations, &order, "sent", &[&second]).await?;
        relations.release(&second.id).await?;
        let document = engine.read_one(order).await?.expect("the order");
        assert_eq!(document.source.parse()?, json!({ "state": "sent" }));
        engine.close()
    })
}

async fn lock(relations: &Relations, owner: &str, at: &DocAddress, keep_alive: Duration) -> Result<Lease> {
    let target = Wanted {
        target: LockTarget::Document(at.clone()),
        mode: Mode::Exclusive,
    };
    match relations.acquire(&Ask::of(owner, vec![target], keep_alive)).await? {
        Asked::Granted(lease) => Ok(*lease),
        Asked::Queued(..) => unreachable!("it does not wait"),
    }
}

/// Writes the order's state under these locks. The engine checks them with the write, in one step.
async fn write(relations: &Relations, at: &DocAddress, state: &str, locks: &[&Lease]) -> Result<()> {
    let source = Source::from_value(&json!({ "state": state }));
    let operation = Operation {
        creates: Some(false),
        ..Operation::of("index", Write::new(at.clone(), WriteOp::Put(source)))
    };
    let change = Change {
        guards: locks.iter().map(|lease| lease.id.to_string()).collect(),
        ..Change::of(vec![operation])
    };
    match relations.change(&change).await? {
        Verdict::Committed(_) => Ok(()),
        other => panic!("a write without conditions came to {other:?}"),
    }
}

#[test]
fn it_runs() {
    main().expect("the example ends well");
}
