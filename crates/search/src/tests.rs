//! Searches over a small index in memory: requests and the ids, scores and values they answer with.

use crate::context::{Context, Scripts};
use crate::helpers::Helpers;
use crate::interrupt::Interrupt;
use crate::{run, scan};
use dsl::json::{Reading, read};
use dsl::search::{SearchRequest, SearchResponse};
use engine::breaker::{BreakerLimits, CircuitBreakers};
use mapping::{Mapping, MappingLimits, ReadOptions, Registry};
use model::{Dialect, DocId, IndexName, Stamp, Topic};
use segment::build::{Blocks, build};
use segment::document::{DocumentBlock, Envelope, block};
use segment::schema::IndexSchema;
use segment::searchable::IndexView;
use segment::tokens::tokenizers;
use serde_json::{Value, json};
use std::sync::Arc;

fn view(mapping: &Value, docs: &[Value]) -> IndexView {
    // Two segments: statistics and order must span them.
    let half = docs.len() / 2;
    view_of(mapping, docs, &[half, docs.len() - half], &|_, _| false)
}

/// An index with segments of these sizes. `is_deleted` is asked for each place of each segment.
pub(crate) fn view_of(mapping: &Value, docs: &[Value], sizes: &[usize], is_deleted: &dyn Fn(usize, u32) -> bool) -> IndexView {
    let registry = Registry::default_registry();
    let mapping = Mapping::parse(mapping, &registry, &MappingLimits::default()).unwrap();
    let schema = Arc::new(IndexSchema::of(&mapping));
    let tokens = tokenizers(&schema, &mapping);
    let blocks: Vec<DocumentBlock> = docs
        .iter()
        .enumerate()
        .map(|(n, doc)| {
            let id = DocId::plain(n.to_string());
            let source = doc.to_string();
            let parsed = mapping
                .read(
                    doc,
                    &ReadOptions {
                        id: &id.id,
                        type_name: "",
                        routing: None,
                        ..ReadOptions::default()
                    },
                )
                .unwrap();
            let stamp = Stamp {
                seq_no: n as u64,
                primary_term: 1,
                version: 1,
            };
            let source: Arc<[u8]> = source.as_bytes().into();
            let of = Envelope {
                id: &id,
                uid: &id.id,
                stamp,
                source: &source,
                fields: &[],
                routing: None,
                parent: None,
                hidden: None,
                placed: &[],
            };
            block(&schema, Some(parsed), of)
        })
        .collect();
    let next = std::sync::atomic::AtomicU64::new(1);
    let fresh = || next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut segments = Vec::new();
    let mut rest = blocks.as_slice();
    let mut data = Vec::new();
    for size in sizes {
        let (part, others) = rest.split_at(*size);
        rest = others;
        let of = Blocks {
            count: part.len(),
            bytes: 1 << 20,
            make: &|n| part[n].clone(),
        };
        data.extend(build(&schema, &tokens, of, &fresh).unwrap().segments);
    }
    let account = segment::derived::Budget::new(1 << 24).account();
    let (index, _) = segment::directory::handle(&schema, Some(&tokens), &data).unwrap();
    for (no, one) in data.iter().enumerate() {
        let mut alive = tantivy::BitSet::with_max_value_and_full(one.max_doc);
        (0..one.max_doc)
            .filter(|doc| is_deleted(no, *doc))
            .for_each(|doc| alive.remove(doc));
        let some_deleted = alive.len() < one.max_doc as usize;
        let alive = some_deleted.then(|| {
            let mut bytes = Vec::new();
            tantivy::fastfield::write_alive_bitset(&alive, &mut bytes).unwrap();
            tantivy::fastfield::AliveBitSet::open(tantivy::directory::OwnedBytes::new(bytes))
        });
        segments.push(segment::segment_view::open(&schema, &index, one, alive, None, &account).unwrap());
    }
    IndexView {
        no: 1,
        name: IndexName::new("test"),
        typed: false,
        mapping: mapping.clone(),
        registry,
        settings: Arc::default(),
        schema,
        segments,
        position: 0,
        derived: segment::derived::Derived::new(&account),
        filters: Arc::new(segment::filter_cache::FilterCache::new(1 << 20).of_index()),
        documents: Arc::new(segment::cache::DocumentCache::new(1 << 20)),
        mappings: mapping::Mappings::Plain(mapping.clone()),
        types: Default::default(),
        parents: Vec::new(),
        tree: Default::default(),
        granted: None,
    }
}

fn texts() -> IndexView {
    let mapping = json!({"properties": {
        "title": {"type": "text"}, "tag": {"type": "keyword"}, "n": {"type": "integer"}, "price": {"type": "double"},
        "day": {"type": "date"}, "on": {"type": "boolean"}, "ip": {"type": "ip"},
        "parts": {"type": "nested", "properties": {"name": {"type": "text"}, "size": {"type": "integer"}}}
    }});
    view(
        &mapping,
        &[
            json!({"title": "quick brown fox", "tag": "a", "n": 1, "price": 1.5, "day": "2020-01-01", "on": true, "ip": "10.0.0.1",
                   "parts": [{"name": "left ear", "size": 1}, {"name": "tail", "size": 5}]}),
            json!({"title": "quick fox jumps", "tag": "b", "n": 2, "day": "2020-01-02", "on": false, "ip": "10.1.0.1"}),
            json!({"title": "lazy dog", "tag": ["a", "c"], "n": 3, "price": 0.5, "parts": {"name": "left paw", "size": 2}}),
            json!({"title": "the fox and the brown dog", "n": [7, 5], "day": "2020-02-01"}),
        ],
    )
}

fn search(view: IndexView, body: &Value) -> model::Result<SearchResponse> {
    search_again(&Arc::new(view), body)
}

pub(crate) fn search_again(view: &Arc<IndexView>, body: &Value) -> model::Result<SearchResponse> {
    search_with(view, body, None)
}

/// The same on several threads.
pub(crate) fn search_side_by_side(view: &Arc<IndexView>, body: &Value) -> model::Result<SearchResponse> {
    search_with(view, body, Some(&ThreadEach))
}

/// A thread for all that is offered.
struct ThreadEach;

impl Helpers for ThreadEach {
    fn offer(&self, work: Box<dyn FnOnce() + Send>) -> bool {
        std::thread::spawn(work);
        true
    }
}

fn search_with(view: &Arc<IndexView>, body: &Value, helpers: Option<&dyn Helpers>) -> model::Result<SearchResponse> {
    let node = read(body.to_string().as_bytes(), Reading::default())?;
    let request = SearchRequest::parse(node, Dialect::default())?;
    let scripts: Scripts = Arc::new(|s: &dsl::query::script_source::ScriptSource| match &s.text {
        dsl::query::script_source::ScriptText::Inline(text) => script::compile(text, script::Lang::Painless),
        dsl::query::script_source::ScriptText::Stored(id) => Err(model::Error::illegal(id.clone())),
    });
    let cx = Context {
        helpers,
        ..context(scripts)
    };
    run(&[(view.clone(), None)], &request, &cx)
}

fn context<'a>(scripts: Scripts) -> Context<'a> {
    Context {
        phases: Default::default(),
        now_ms: 1_580_000_000_000,
        max_clause_count: 1024,
        max_buckets: 65_535,
        max_phrase_ways: 1_000_000,
        scripts,
        see: engine::See::Plain,
        interrupt: breaking(),
        helpers: None,
        bm25_factor: 2.2,
        opensearch: false,
        lost_sorts: false,
        profile: false.into(),
        filters_score: true.into(),
        expensive: true,
        types: Vec::new(),
    }
}

/// Interrupts nothing, and books what tables take.
fn breaking() -> Interrupt {
    let limits = BreakerLimits {
        total: u64::MAX,
        request: u64::MAX,
        in_flight_requests: 0,
    };
    let breakers = CircuitBreakers::new(limits, Arc::new(|| 0));
    Interrupt::new(model::Cancellation::default(), None, Some(breakers))
}

fn check(body: Value, ids: &[&str]) {
    let answer = search(texts(), &body).unwrap_or_else(|e| panic!("{body}: {e}"));
    let got: Vec<&str> = answer.hits.hits.iter().map(|h| &*h.id.id).collect();
    assert_eq!(got, ids, "{body}");
    assert_eq!(answer.hits.total.unwrap().value, ids.len() as u64, "{body}");
}

fn refused(body: Value, reason: &str) {
    let error = search(texts(), &body).unwrap_err();
    assert!(error.reason().contains(reason), "{body}: {error}");
}

#[test]
fn refusals_have_topics() {
    let terms = |body: Value| json!({"size": 0, "aggs": {"a": {"terms": body, "aggs": {"s": {"stats": {"field": "n"}}}}}});
    let field = "title".to_owned();
    for (body, topic) in [
        (json!({"sort": ["nowhere"]}), Topic::UnmappedSort),
        (json!({"sort": ["title"]}), Topic::FielddataDisabled { field: field.clone() }),
        (
            json!({"docvalue_fields": ["title"]}),
            Topic::FielddataDisabled { field: field.clone() },
        ),
        (terms(json!({"field": "title"})), Topic::FielddataDisabled { field }),
        (terms(json!({"field": "n", "order": {"s": "asc"}})), Topic::UnnamedMetric),
        (json!({"from": 9999, "size": 2}), Topic::ResultWindow),
    ] {
        let error = search(texts(), &body).unwrap_err();
        assert_eq!(error.topic(), Some(&topic), "{body}: {error}");
    }
}

#[test]
fn clauses() {
    let q = |q: Value| json!({"query": q, "sort": "_doc"});
    check(q(json!({"match_all": {}})), &["0", "1", "2", "3"]);
    check(q(json!({"match": {"title": "fox"}})), &["0", "1", "3"]);
    check(q(json!({"match": {"title": {"query": "quick dog", "operator": "and"}}})), &[]);
    check(
        q(json!({"match": {"title": {"query": "quick brown fox", "minimum_should_match": "2"}}})),
        &["0", "1", "3"],
    );
    check(q(json!({"match_phrase": {"title": "quick fox"}})), &["1"]);
    check(
        q(json!({"match_phrase": {"title": {"query": "quick fox", "slop": 1}}})),
        &["0", "1"],
    );
    check(q(json!({"match_phrase_prefix": {"title": "quick f"}})), &["1"]);
    check(q(json!({"match_bool_prefix": {"title": "lazy d"}})), &["2", "3"]);
    check(q(json!({"match": {"title": {"query": "qick", "fuzziness": 1}}})), &["0", "1"]);
    check(q(json!({"fuzzy": {"title": "lazu"}})), &["2"]);
    check(q(json!({"term": {"tag": "a"}})), &["0", "2"]);
    check(q(json!({"terms": {"n": [1, 5]}})), &["0", "3"]);
    check(q(json!({"term": {"n": 2.5}})), &[]);
    check(q(json!({"term": {"on": true}})), &["0"]);
    check(q(json!({"term": {"ip": "10.0.0.0/16"}})), &["0"]);
    check(q(json!({"ids": {"values": ["3", "1"]}})), &["1", "3"]);
    check(q(json!({"prefix": {"title": "qu"}})), &["0", "1"]);
    check(q(json!({"wildcard": {"title": "?og*"}})), &["2", "3"]);
    check(q(json!({"regexp": {"title": "(d|f)o[a-z]"}})), &["0", "1", "2", "3"]);
    check(q(json!({"exists": {"field": "price"}})), &["0", "2"]);
    check(q(json!({"range": {"n": {"gt": 1, "lte": 5}}})), &["1", "2", "3"]);
    check(q(json!({"range": {"price": {"lt": 1.5}}})), &["2"]);
    check(
        q(json!({"range": {"day": {"gte": "2020-01-02", "lt": "2020-01-02||+1M/M"}}})),
        &["1"],
    );
    check(q(json!({"range": {"tag": {"gt": "a"}}})), &["1", "2"]);
    check(q(json!({"bool": {"must_not": {"term": {"tag": "a"}}}})), &["1", "3"]);
    check(
        q(json!({"bool": {"must": {"match": {"title": "fox"}}, "filter": {"range": {"n": {"gte": 2}}}}})),
        &["1", "3"],
    );
    check(
        q(json!({"nested": {"path": "parts", "query": {"match": {"parts.name": "left"}}}})),
        &["0", "2"],
    );
    check(
        q(json!({"nested": {"path": "parts", "query": {"bool": {"must": [
            {"match": {"parts.name": "left"}}, {"range": {"parts.size": {"gt": 1}}}]}}}})),
        &["2"],
    );
    check(
        q(json!({"nested": {"path": "parts", "query": {"match_all": {}}}})),
        &["0", "2"],
    );
    check(q(json!({"script": {"script": "doc['n'].value > 2"}})), &["2", "3"]);
    check(q(json!({"query_string": {"query": "title:(fox -quick)"}})), &["3"]);
    check(
        q(json!({"simple_query_string": {"query": "brown +dog", "fields": ["title"]}})),
        &["3"],
    );
    check(
        q(json!({"multi_match": {"query": "lazy b", "fields": ["title", "tag"]}})),
        &["2"],
    );
    check(q(json!({"term": {"nowhere": 1}})), &[]);
}

#[test]
fn orders() {
    check(json!({"sort": [{"n": "desc"}]}), &["3", "2", "1", "0"]);
    check(
        json!({"sort": [{"n": {"order": "asc", "mode": "max"}}]}),
        &["0", "1", "2", "3"],
    );
    check(json!({"sort": [{"price": "asc"}, {"n": "desc"}]}), &["2", "0", "3", "1"]);
    check(
        json!({"sort": [{"tag": {"order": "desc", "missing": "_first"}}, "_doc"]}),
        &["3", "2", "1", "0"],
    );
    check(
        json!({"sort": [{"parts.size": {"order": "desc", "nested": {"path": "parts"}}}, {"n": "asc"}]}),
        &["0", "2", "1", "3"],
    );
    check(
        json!({"sort": [{"_script": {"type": "number", "script": "-doc['n'].value", "order": "asc"}}]}),
        &["3", "2", "1", "0"],
    );
    refused(
        json!({"sort": ["nowhere"]}),
        "No mapping found for [nowhere] in order to sort on",
    );
    refused(json!({"from": 9999, "size": 2}), "Result window is too large");
    let after = search(texts(), &json!({"sort": [{"n": "asc"}], "search_after": [2]})).unwrap();
    assert_eq!(
        after.hits.hits.iter().map(|h| h.sort[0].clone()).collect::<Vec<_>>(),
        [json!(3), json!(5)]
    );
}

#[test]
fn scores() {
    let score = |body: Value, expected: &[f32]| {
        let answer = search(texts(), &json!({"query": body, "explain": true})).unwrap();
        let got: Vec<f32> = answer.hits.hits.iter().map(|h| h.score.unwrap()).collect();
        assert_eq!(got.len(), expected.len(), "{body}");
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() <= 1e-5 * expected.abs(), "{body}: {got} {expected}");
        }
        for hit in &answer.hits.hits {
            let explained = hit.explanation.as_ref().unwrap()["value"].as_f64().unwrap() as f32;
            assert!((explained - hit.score.unwrap()).abs() < 1e-5, "{body}");
        }
    };
    score(json!({"match_all": {}}), &[1.0; 4]);
    score(json!({"bool": {"filter": {"term": {"n": 1}}}}), &[0.0]);
    score(
        json!({"constant_score": {"filter": {"term": {"tag": "a"}}, "boost": 3}}),
        &[3.0, 3.0],
    );
    score(json!({"bool": {"must": [{"match_all": {}}, {"term": {"n": 1}}]}}), &[2.0]);
    // ln(1 + 3.5/1.5) * 2.2 * 1/(1 + 1.2 * (0.25 + 0.75 * 2/3.5))
    score(json!({"match": {"title": "lazy"}}), &[1.459_935_5]);
    score(
        json!({"function_score": {"query": {"match_all": {}}, "field_value_factor": {"field": "n", "factor": 2}, "boost_mode": "sum"}}),
        &[11.0, 7.0, 5.0, 3.0],
    );
    score(
        json!({"script_score": {"query": {"term": {"n": 3}}, "script": {"source": "doc['n'].value * 2 + _score"}}}),
        &[7.0],
    );
}

#[test]
fn hits_show_what_was_asked() {
    let body = json!({"query": {"ids": {"values": ["0"]}}, "_source": ["title", "n"], "fields": ["day"],
        "docvalue_fields": ["tag", {"field": "day", "format": "yyyy"}], "script_fields": {"twice": {"script": "doc['n'].value * 2"}}});
    let answer = search(texts(), &body).unwrap();
    let hit = &answer.hits.hits[0];
    assert_eq!(hit.source.as_deref().unwrap(), r#"{"title":"quick brown fox","n":1}"#);
    assert_eq!(hit.fields["tag"], json!(["a"]));
    assert_eq!(hit.fields["twice"], json!([2]));
    let answer = search(texts(), &json!({"collapse": {"field": "tag"}, "sort": [{"n": "asc"}]})).unwrap();
    assert_eq!(answer.hits.hits.len(), 3);
    let mut seen = Vec::new();
    let none = |_: &dsl::query::script_source::ScriptSource| Err(model::Error::illegal("none"));
    scan(&texts(), None, None, &context(Arc::new(none)), (0, 0), &mut |segment, doc| {
        seen.push((segment, doc));
        Ok(true)
    })
    .unwrap();
    assert_eq!(seen.len(), 4);
}

/// The best by pruning are the best of all: many blocks, documents without the field, lengths and frequencies that
/// make another document the best than with the mean length that tantivy wrote the blocks with.
#[test]
fn pruning_loses_nothing() {
    let mut below = model::random::random(7);
    // One in ten has the field, as beside nested objects: tantivy's mean is a tenth of ours.
    let docs: Vec<Value> = (0..30_000)
        .map(|n| match n % 10 {
            0 => {
                let words = (0..3 + below(9)).map(|_| match below(300) {
                    0 => "rare",
                    n => ["a", "b", "x", "y", "z", "u", "v", "w"][n as usize % 8],
                });
                json!({ "t": words.collect::<Vec<_>>().join(" ") })
            }
            _ => json!({ "n": 1 }),
        })
        .collect();
    let mapping = json!({ "properties": { "t": { "type": "text" }, "n": { "type": "long" } } });
    let view = Arc::new(view(&mapping, &docs));
    for text in [
        "a",
        "b",
        "a b",
        "x y z",
        "u v w a",
        "rare a",
        "b rare",
        "x rare y a",
        "rare rare a",
    ] {
        for size in [1, 3, 10, 50] {
            let asked = json!({ "size": size, "query": { "match": { "t": text } } });
            // To keep scores beside a minimum means to look at every match.
            let mut whole = asked.clone();
            whole["min_score"] = json!(0.0);
            let of = |body: &Value| -> Vec<(String, f32)> {
                let hits = search_again(&view, body).unwrap().hits.hits;
                hits.iter()
                    .map(|hit| (hit.id.id.to_string(), hit.score.unwrap_or_default()))
                    .collect()
            };
            assert_eq!(of(&asked), of(&whole), "{text}, the best {size}");
        }
    }
}

#[test]
fn the_background_of_words_has_deleted_documents_too() {
    let mapping = json!({"properties": {"title": {"type": "text"}}});
    let docs: Vec<Value> = (0..8).map(|_| json!({"title": "quick fox"})).collect();
    let view = Arc::new(view_of(&mapping, &docs, &[8], &|_, doc| doc > 1));
    for measure in ["jlh", "gnd", "chi_square", "mutual_information", "percentage"] {
        let body = json!({"aggs": {"words": {"significant_text": {"field": "title", "min_doc_count": 1, measure: {}}}}});
        let answer = search_again(&view, &body).unwrap_or_else(|e| panic!("{body}: {e}"));
        let shown = answer.render(Dialect::default());
        let found = &shown["aggregations"]["words"];
        assert_eq!((&found["doc_count"], &found["bg_count"]), (&json!(2), &json!(8)), "{body}");
    }
}

/// Groups of a number modulo 7 and their members, by a fold and by searches that keep what they find or ask again.
#[test]
fn members_of_groups() {
    let mapping = json!({"properties": {"n": {"type": "integer"}, "of": {"type": "keyword"}, "by": {"type": "integer"}}});
    let docs: Vec<Value> = (0..400)
        .map(|n| json!({"n": n, "of": format!("g{}", n * 5 % 7), "by": n * 5 % 7}))
        .collect();
    let view = Arc::new(view(&mapping, &docs));
    let check = |below: u64, field: &str, extra: &Value| {
        let mut body = json!({
            "size": 20, "query": {"range": {"n": {"lt": below}}}, "sort": [{"n": "desc"}],
            "collapse": {"field": field, "inner_hits": [
                {"name": "least", "size": 3, "sort": [{"n": "asc"}]},
                {"name": "most", "size": 2, "from": 1, "sort": [{"n": "desc"}]}]},
        });
        let filtered = extra.get("post_filter").is_some();
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer = search_again(&view, &body).unwrap();
        let all = (0..below).filter(|n| !filtered || n % 2 == 0);
        let mut groups: Vec<Vec<u64>> = vec![Vec::new(); 7];
        all.for_each(|n| groups[(n * 5 % 7) as usize].push(n));
        groups.retain(|group| !group.is_empty());
        groups.sort_by_key(|group| std::cmp::Reverse(group.last().copied()));
        let ids = |hits: &dsl::search::Hits| -> Vec<u64> { hits.hits.iter().map(|hit| hit.id.id.parse().unwrap()).collect() };
        assert_eq!(answer.hits.hits.len(), groups.len(), "{body}");
        for (hit, group) in answer.hits.hits.iter().zip(&groups) {
            let [(_, least), (_, most)] = hit.inner_hits.as_slice() else {
                panic!("two: {body}")
            };
            assert_eq!(least.total.unwrap().value, group.len() as u64, "{body}");
            assert_eq!(ids(least), group[..group.len().min(3)], "{body}");
            let from_the_end: Vec<u64> = group.iter().rev().skip(1).take(2).copied().collect();
            assert_eq!(ids(most), from_the_end, "{body}");
        }
    };
    for below in [0, 1, 9, 63, 64, 65, 66, 300, 400] {
        for field in ["of", "by"] {
            check(below, field, &json!({}));
            check(below, field, &json!({"track_scores": true, "min_score": 0.5}));
            check(
                below,
                field,
                &json!({"post_filter": {"script": {"script": "doc['n'].value % 2 == 0"}}}),
            );
        }
    }
    // A search that ends early still shows members.
    let early = json!({"terminate_after": 2, "query": {"range": {"n": {"lt": 30}}},
        "collapse": {"field": "by", "inner_hits": {"name": "all", "size": 9}}});
    let answer = search_again(&view, &early).unwrap();
    for hit in &answer.hits.hits {
        let group = hit.id.id.parse::<u64>().unwrap() * 5 % 7;
        let members = (0..30u64).filter(|n| n * 5 % 7 == group).count() as u64;
        assert_eq!(hit.inner_hits[0].1.total.unwrap().value, members);
    }
}

/// The best groups by score are found by bounds, and their members by a search of their own.
#[test]
fn members_of_groups_that_bounds_find() {
    let mapping = json!({"properties": {"n": {"type": "integer"}, "of": {"type": "keyword"}, "title": {"type": "text"}}});
    let title = |n: u64| if n % 7 == 3 { "word word" } else { "word and others" };
    let docs: Vec<Value> = (0..600)
        .map(|n| json!({"n": n, "of": format!("g{}", n % 7), "title": title(n)}))
        .collect();
    let view = Arc::new(view(&mapping, &docs));
    let body = json!({"size": 3, "query": {"match": {"title": "word"}},
        "collapse": {"field": "of", "inner_hits": {"name": "last", "size": 2, "sort": [{"n": "desc"}]}}});
    let answer = search_again(&view, &body).unwrap();
    let groups: Vec<u64> = answer
        .hits
        .hits
        .iter()
        .map(|hit| hit.id.id.parse::<u64>().unwrap() % 7)
        .collect();
    assert_eq!(groups, [3, 0, 1], "the best group, then the first ones of equal ones");
    assert_eq!(answer.hits.total.unwrap().value, 600);
    for (hit, group) in answer.hits.hits.iter().zip(groups) {
        let own: Vec<u64> = (0..600).filter(|n| n % 7 == group).collect();
        let (_, inner) = &hit.inner_hits[0];
        assert_eq!(inner.total.unwrap().value, own.len() as u64);
        let ids: Vec<u64> = inner.hits.iter().map(|hit| hit.id.id.parse().unwrap()).collect();
        assert_eq!(ids, own.iter().rev().take(2).copied().collect::<Vec<_>>());
    }
}

#[test]
fn a_document_that_its_files_lack_is_corruption() {
    let view = texts();
    let compile = |_: &dsl::query::script_source::ScriptSource| script::compile("params._source.n", script::Lang::Painless);
    let source = dsl::query::script_source::ScriptSource {
        text: dsl::query::script_source::ScriptText::Inline("params._source.n".to_owned()),
        lang: None,
        params: serde_json::Map::new(),
        defaults_to_groovy: false,
    };
    let script = crate::scripts::Script::new(&view, &source, &context(Arc::new(compile))).unwrap();
    let bound = script.open(&view.segments[0]).unwrap();
    let past_the_end = view.segments[0].reader.max_doc();
    let refusal = bound.value(past_the_end, 0.0, None).unwrap_err();
    assert_eq!(refusal.kind(), model::ErrorKind::Corruption, "{refusal}");
}
