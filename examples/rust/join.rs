//! A join across indices: posts whose authors live in Ghent. Both sides are read in one moment.
//!
//! `cargo run --example join`

#![expect(clippy::print_stdout, reason = "an example says what it does")]

use dsl::json::Node;
use dsl::search::SearchRequest;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{Alteration, Clock, Engine, Refresh, Source, Write, WriteOp, address};
use model::{Dialect, DocId, Result, Target};
use relations::Relations;
use serde_json::{Map, Value, json};
use std::sync::Arc;

fn main() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder for the data");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = Arc::new(EmbeddedEngine::open(folder.path(), clock.clone(), Limits::default())?);
    let shared: Arc<dyn Engine> = engine.clone();
    let relations = Relations::new(shared, clock, Arc::new(Tasks::new(100)), "n1");
    futures::executor::block_on(async {
        create_index(
            &engine,
            "authors",
            json!({ "name": { "type": "text" }, "city": { "type": "keyword" } }),
        )
        .await?;
        create_index(
            &engine,
            "posts",
            json!({ "title": { "type": "text" }, "author": { "type": "keyword" } }),
        )
        .await?;
        let writes = vec![
            put("authors", "anna", json!({ "name": "Anna", "city": "ghent" })),
            put("authors", "bob", json!({ "name": "Bob", "city": "utrecht" })),
            put("posts", "1", json!({ "title": "Relations", "author": "anna" })),
            put("posts", "2", json!({ "title": "Locks", "author": "bob" })),
        ];
        engine.write(writes, Refresh::Now).await?;
        let from_ghent = json!({ "query": { "join": { "index": "authors", "on": { "author": "_id" },
                                                      "query": { "term": { "city": "ghent" } } } } });
        assert_eq!(ids(&relations, from_ghent.clone()).await?, ["1"]);

        // Bob moves. No post is written again: the join follows the author.
        let moved = put("authors", "bob", json!({ "name": "Bob", "city": "ghent" }));
        engine.write(vec![moved], Refresh::Now).await?;
        let found = ids(&relations, from_ghent).await?;
        println!("posts from Ghent: {found:?}");
        assert_eq!(found, ["1", "2"]);
        engine.close()
    })
}

async fn create_index(engine: &EmbeddedEngine, name: &str, properties: Value) -> Result<()> {
    let index = Alteration::CreateIndex {
        name: name.to_owned(),
        settings: Map::new(),
        mappings: Some(json!({ "properties": properties })),
        aliases: Map::new(),
        typed: false,
        if_absent: false,
    };
    engine.alter(index).await?;
    Ok(())
}

fn put(index: &str, id: &str, source: Value) -> Write {
    Write::new(address(index, DocId::plain(id)), WriteOp::Put(Source::from_value(&source)))
}

/// The ids of the posts that a search body finds, in the order of their writing.
async fn ids(relations: &Relations, body: Value) -> Result<Vec<String>> {
    let request = SearchRequest::parse(Node::from_value(body), Dialect::default())?;
    let response = relations.search(&Target::index("posts"), request).await?;
    Ok(response.hits.hits.iter().map(|hit| hit.id.id.to_string()).collect())
}

#[test]
fn it_runs() {
    main().expect("the example ends well");
}
