//! The index that is asked: its documents, their changes, and what is known of them.
//!
//! Not here: what is asked (`checks`).

use crate::Random;
use crate::composed::{Dialect, Found};
use crate::leaves::words;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tests::Server;

/// Documents of an index that keeps its segments: with their nested ones they are too few to be merged when nothing is written.
pub(crate) const DOCS_OF_SEGMENTS: u64 = 1_400;
/// Documents of an index of one segment, whose lists have many blocks.
const DOCS_OF_ONE: u64 = 6_000;

/// A document as far as the checks need it.
#[derive(Clone, Debug)]
pub(crate) struct Doc {
    pub(crate) no: u64,
    pub(crate) group: String,
    pub(crate) tags: BTreeSet<String>,
}

fn document(random: Random<'_>, no: u64) -> (Doc, Value) {
    let group = format!("g{}", random(11));
    let tags: BTreeSet<String> = (0..random(4)).map(|_| format!("t{}", random(7))).collect();
    let parts: Vec<Value> = (0..random(4))
        .map(|_| json!({ "name": format!("p{}", random(7)), "size": random(20), "note": words(random, 4) }))
        .collect();
    let mut source = json!({
        "no": no, "group": group, "tags": tags, "text": words(random, 9), "day": no * 1_000 + random(20_000),
        "parts": parts
    });
    match random(5) {
        0 => {}
        1 => source["n"] = json!([random(1_500), random(1_500)]),
        _ => source["n"] = (no / 3 + random(50)).into(),
    }
    if random(3) > 0 {
        source["price"] = (random(1_900) as f64 / 7.0).into();
    }
    (Doc { no, group, tags }, source)
}

/// A store of documents, and what is known of them.
pub(crate) struct Store<'a> {
    pub(crate) server: &'a Server,
    pub(crate) dialect: Dialect,
    pub(crate) docs: BTreeMap<String, Doc>,
    pub(crate) is_one_segment: bool,
}

impl Store<'_> {
    /// Makes the index anew. No segments are merged while it is asked: what was deleted would leave the statistics of scores.
    pub(crate) fn begin(&mut self, random: Random<'_>) {
        self.docs.clear();
        self.is_one_segment = random(2) == 0;
        self.server.call("DELETE", "/docs", &json!({}));
        let settings = json!({
            "number_of_replicas": 0, "merge.policy.segments_per_tier": 100, "merge.policy.deletes_pct_allowed": 50
        });
        let body = json!({ "settings": settings, "mappings": self.mappings() });
        self.server.ok("PUT", "/docs", &body);
        let docs = if self.is_one_segment { DOCS_OF_ONE } else { DOCS_OF_SEGMENTS };
        self.write(random, &(0..docs).collect::<Vec<_>>());
        if self.is_one_segment {
            self.server.ok("POST", "/docs/_forcemerge?max_num_segments=1", &json!({}));
        }
    }

    /// Deletes some documents, or writes some of them again, fewer than half of a segment in all rounds.
    pub(crate) fn change(&mut self, random: Random<'_>) {
        let some: Vec<u64> = (0..60 * random(3)).map(|_| random(DOCS_OF_SEGMENTS)).collect();
        if !self.is_one_segment {
            return self.write(random, &some);
        }
        let mut lines = String::new();
        for id in some.iter().map(u64::to_string) {
            lines.push_str(&format!("{}\n", json!({ "delete": { "_id": id } })));
            self.docs.remove(&id);
        }
        self.bulk(&lines);
    }

    fn bulk(&self, lines: &str) {
        if !lines.is_empty() {
            let answer = self.server.send("POST", &self.path("_bulk?refresh=true"), lines).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert_eq!(answer.body["errors"], false, "{}", answer.body);
        }
        let count = self.server.ok("GET", "/docs/_count", &json!({}));
        assert_eq!(count["count"].as_u64(), Some(self.docs.len() as u64), "{count}");
    }

    pub(crate) fn path(&self, api: &str) -> String {
        let doc_type = if self.dialect == Dialect::Of2015 { "/entry" } else { "" };
        format!("/docs{doc_type}/{api}")
    }

    pub(crate) fn search(&self, body: &Value) -> Value {
        let path = match self.dialect {
            Dialect::Todays => self.path("_search?request_cache=false"),
            Dialect::Of2015 => self.path("_search"),
        };
        self.server.ok("POST", &path, body)
    }

    fn mappings(&self) -> Value {
        let properties = |keyword: Value, text: Value| {
            json!({
                "no": { "type": "integer" }, "group": keyword, "tags": keyword, "text": text, "said": text, "n": { "type": "integer" },
                "price": { "type": "double" }, "day": { "type": "date", "format": "epoch_second" },
                "parts": { "type": "nested", "properties": { "name": keyword, "size": { "type": "integer" }, "note": text } }
            })
        };
        match self.dialect {
            Dialect::Todays => {
                let mut properties = properties(json!({ "type": "keyword" }), json!({ "type": "text" }));
                properties["kind"] = json!({ "type": "join", "relations": { "entry": "remark" } });
                json!({ "properties": properties })
            }
            Dialect::Of2015 => {
                let properties = properties(
                    json!({ "type": "string", "index": "not_analyzed" }),
                    json!({ "type": "string" }),
                );
                json!({ "entry": { "properties": properties } })
            }
        }
    }

    /// Writes or deletes the documents of these numbers, in several refreshes. A tenth are remarks on those before them.
    fn write(&mut self, random: Random<'_>, numbers: &[u64]) {
        for part in numbers.chunks((numbers.len() / 3).max(1)) {
            let mut lines = String::new();
            for no in part.iter().copied() {
                let id = no.to_string();
                if no % 10 == 9 && self.dialect == Dialect::Todays {
                    // The parent lies in the same shard by its routing; it may be gone.
                    let parent = (no - 1 - random(8)).to_string();
                    let action = json!({ "index": { "_id": id, "routing": parent } });
                    let source = json!({ "no": no, "group": "g0", "said": words(random, 4), "kind": { "name": "remark", "parent": parent } });
                    lines.push_str(&format!("{action}\n{source}\n"));
                    let (group, tags) = ("g0".to_owned(), BTreeSet::new());
                    self.docs.insert(id, Doc { no, group, tags });
                } else if random(6) == 0 {
                    lines.push_str(&format!("{}\n", json!({ "delete": { "_id": id } })));
                    self.docs.remove(&id);
                } else {
                    let (doc, mut source) = document(random, no);
                    if self.dialect == Dialect::Todays {
                        source["kind"] = "entry".into();
                    }
                    lines.push_str(&format!("{}\n{source}\n", json!({ "index": { "_id": id } })));
                    self.docs.insert(id, doc);
                }
            }
            self.bulk(&lines);
        }
    }

    /// All that a query finds, with scores, by a page that is larger than the store.
    pub(crate) fn whole(&self, query: &Value) -> (Found, Vec<String>) {
        let answer = self.search(&json!({ "query": query, "size": 10_000, "_source": false }));
        let hits = answer["hits"]["hits"].as_array().unwrap();
        let order = hits.iter().map(id_of).collect();
        let found: Found = hits.iter().map(|hit| (id_of(hit), hit["_score"].as_f64().unwrap())).collect();
        assert_eq!(found.len(), hits.len(), "{query}: a document is found once");
        (found, order)
    }

    pub(crate) fn by_number<'f>(&self, found: &'f Found) -> Vec<&'f String> {
        let mut ids: Vec<&String> = found.keys().collect();
        ids.sort_by_key(|id| self.docs[*id].no);
        ids
    }
}

pub(crate) fn id_of(hit: &Value) -> String {
    hit["_id"].as_str().unwrap().to_owned()
}
