//! The engine inside a program: an index, a few documents, a search, and the same data after a restart.
//!
//! `cargo run --example embed`

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use dsl::json::Node;
use dsl::search::SearchRequest;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::{Alteration, Engine, EngineExt as _, Outcome, Refresh, See, Source, Write, WriteOp, address};
use model::{Dialect, DocId, Result, Target};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the data");
    futures::executor::block_on(async {
        let engine = open(folder.path())?;
        create_index(&engine).await?;
        let posts = [
            ("1", "Modelling relations", 12),
            ("2", "Nested objects", 7),
            ("3", "Relations and locks", 30),
        ];
        let writes = posts.map(|(id, title, likes)| {
            let source = Source::from_value(&json!({ "title": title, "likes": likes }));
            Write::new(address("posts", DocId::plain(id)), WriteOp::Put(source))
        });
        // The answer comes when the documents are durable. `Refresh::Now` makes them searchable, too.
        for outcome in engine.write(writes.to_vec(), Refresh::Now).await? {
            assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
        }
        let body = json!({ "query": { "match": { "title": "relations" } }, "sort": [{ "likes": "desc" }] });
        let found = search(&engine, body.clone()).await?;
        println!("found {found:?}");
        assert_eq!(found, ["3", "1"]);
        engine.close()?;
        drop(engine);

        // Another process would do the same: one at a time has a folder.
        let engine = open(folder.path())?;
        assert_eq!(search(&engine, body).await?, found);
        let document = engine.read_one(address("posts", DocId::plain("2"))).await?;
        println!("after a restart: {document:?}");
        assert!(document.is_some_and(|document| document.stamp.version == 1));
        engine.close()
    })
}

fn open(folder: &Path) -> Result<EmbeddedEngine> {
    EmbeddedEngine::open(folder, Arc::new(SystemClock::default()), Limits::default())
}

async fn create_index(engine: &EmbeddedEngine) -> Result<()> {
    let properties = json!({ "title": { "type": "text" }, "likes": { "type": "integer" } });
    let index = Alteration::CreateIndex {
        name: "posts".to_owned(),
        settings: Map::new(),
        mappings: Some(json!({ "properties": properties })),
        aliases: Map::new(),
        typed: false,
        if_absent: false,
    };
    engine.alter(index).await?;
    Ok(())
}

/// The ids of the hits of a search body, as `_search` takes it.
async fn search(engine: &EmbeddedEngine, body: Value) -> Result<Vec<String>> {
    let request = SearchRequest::parse(Node::from_value(body), Dialect::default())?;
    let response = engine.search(&Target::index("posts"), request, See::Plain).await?;
    Ok(response.hits.hits.iter().map(|hit| hit.id.id.to_string()).collect())
}

#[test]
fn it_runs() {
    main().expect("the example ends well");
}
