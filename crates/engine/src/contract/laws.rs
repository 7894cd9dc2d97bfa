//! The laws. Each makes its own index, named after it.

use super::{Bench, create, expect_written, ids, scan_all, write_waiting};
use crate::*;
use futures::StreamExt as _;
use model::{ErrorKind, IndexName};
use script::{Budget, Lang};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEEP: Duration = Duration::from_secs(600);

fn ranked_mapping() -> Value {
    json!({ "rank": { "type": "integer" }, "tag": { "type": "keyword" } })
}

fn by_rank(query: Value) -> Value {
    json!({ "query": query, "sort": ["rank"], "size": 100 })
}

fn all() -> Value {
    by_rank(json!({ "match_all": {} }))
}

fn expecting(expect: Expect, write: Write) -> Write {
    Write { expect, ..write }
}

fn value(document: Option<Document>) -> Value {
    document.map_or(Value::Null, |doc| doc.source.parse().expect("a source is JSON"))
}

fn partial(doc: Value) -> Update {
    Update {
        doc: Some(doc),
        script: None,
        upsert: None,
        doc_as_upsert: false,
        scripted_upsert: false,
        moves: false,
        detect_noop: true,
        lenient_op: false,
        of_2015: false,
        budget: Budget::default(),
        now_ms: 0,
    }
}

/// An acknowledged write is read, unrefreshed, byte by byte as it came.
pub(super) async fn read_your_write(engine: &dyn Engine) {
    let bench = Bench::new(engine, "read_your_write", ranked_mapping()).await;
    assert!(bench.get("a").await.is_none(), "nothing is there before it is written");
    let bytes = br#"{ "rank" : 1.0, "tag":"x" }"#;
    let mut write = Write::new(bench.at("a"), WriteOp::Put(Source(bytes.as_slice().into())));
    write.routing = Some("r".into());
    let done = bench.write(write).await;
    assert_eq!(done.effect, Effect::Created);
    let read = bench.get("a").await.expect("what was written is read");
    assert_eq!(
        (&*read.source.0, read.stamp, read.routing.as_deref()),
        (bytes.as_slice(), done.stamp, Some("r"))
    );
    assert_eq!((read.at, done.at), (bench.at("a"), bench.at("a")));
    assert_eq!(
        bench.write(bench.put("a", json!({ "rank": 2 }))).await.effect,
        Effect::Updated
    );
    assert_eq!(value(bench.get("a").await), json!({ "rank": 2 }), "the last writer wins");
    assert_eq!(bench.write(bench.delete("a")).await.effect, Effect::Deleted);
    assert!(bench.get("a").await.is_none(), "a deleted document is not read");
}

/// Answers stand in the order of what was asked, repeated or missing ones too.
pub(super) async fn answers_in_order(engine: &dyn Engine) {
    let bench = Bench::new(engine, "answers_in_order", ranked_mapping()).await;
    let writes = (0..20)
        .map(|n| bench.put(&format!("d{}", n % 7), json!({ "rank": n })))
        .collect();
    let outcomes = engine.write(writes, Refresh::No).await.expect("writes are answered");
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let done = expect_written(outcome);
        assert_eq!(done.at, bench.at(&format!("d{}", n % 7)), "answer {n} is of write {n}");
        assert_eq!(
            (done.stamp.seq_no, done.stamp.version),
            (n as u64, n as u64 / 7 + 1),
            "writes of one batch happen in order"
        );
    }
    let wanted = ["d3", "none", "d0", "d3"];
    let reads = wanted.iter().map(|id| Read::whole(bench.at(id))).collect();
    let read = engine.read(reads).await.expect("reads are answered");
    let ids: Vec<_> = read
        .iter()
        .map(|doc| doc.as_ref().map_or("none", |doc| &*doc.at.id.id))
        .collect();
    assert_eq!(ids, wanted);
}

/// Each expectation of a document's presence and stamp against nothing, a deleted and a live document: the outcome is
/// that of `Expect::check`. What is known of a deleted document, its version and what a conflict tells, is
/// [`deletions_are_known`].
pub(super) async fn each_expectation(engine: &dyn Engine) {
    expectations(engine, "each_expectation", 0..7, false, |conflict, wanted| {
        let same = (&conflict.at, conflict.expect) == (&wanted.at, wanted.expect);
        same && match wanted.found {
            Found::Deleted(_) => !conflict.found.is_here(),
            found => conflict.found == found,
        }
    })
    .await;
}

/// A deleted document has the version of its deletion; a conflict says that it was deleted, and when.
pub(super) async fn deletions_are_known(engine: &dyn Engine) {
    expectations(engine, "deletions_are_known", 0..7, true, |conflict, wanted| {
        conflict == wanted
    })
    .await;
}

/// The client's versions, compared and taken over.
pub(super) async fn external_versions(engine: &dyn Engine) {
    expectations(engine, "external_versions", 7..9, true, |conflict, wanted| conflict == wanted).await;
    let bench = Bench {
        engine,
        index: "external_versions",
    };
    let newer = Expect::NewerThan {
        version: 40,
        or_equal: false,
    };
    bench.write(bench.put("a", json!({ "rank": 1 }))).await;
    let taken = bench.write(expecting(newer, bench.put("a", json!({ "rank": 1 })))).await;
    let next = bench.write(bench.put("a", json!({ "rank": 1 }))).await;
    assert_eq!(
        (taken.effect, taken.stamp.version, next.stamp.version),
        (Effect::Updated, 40, 41)
    );
}

/// A write under an external version notices a write and a mark that came since its document was read.
pub(super) async fn basis_beside_versions(engine: &dyn Engine) {
    let bench = Bench::new(engine, "basis_beside_versions", ranked_mapping()).await;
    let put = |id: &str, version, basis| Write {
        expect: Expect::NewerThan {
            version,
            or_equal: false,
        },
        basis,
        ..bench.put(id, json!({ "rank": 1 }))
    };
    let mark = |id: &str, visible, basis| Write {
        hide: Hide::Set(Hidden {
            body: json!({ "i": "c-1" }),
            visible,
            held: false,
        }),
        basis,
        ..bench.put(id, json!({ "rank": 1 }))
    };
    let first = bench.write(bench.put("a", json!({ "rank": 1 }))).await.stamp;
    let second = bench.write(put("a", 40, Basis::of(Some(first)))).await.stamp;
    assert_eq!(second.version, 40, "the version is taken over");
    let marked = bench.write(mark("a", true, Basis::of(Some(second)))).await.stamp;
    bench.write(put("stub", 5, Basis::of(None))).await;
    let stub = bench.write(mark("hidden", false, Basis::of(None))).await.stamp;
    for (id, version, basis, wanted) in [
        ("a", 50, Basis::of(Some(first)), "moved"),
        ("a", 50, Basis::of(Some(second)), "moved"),
        ("a", 50, Basis::Absent, "moved"),
        ("a", 40, Basis::of(Some(marked)), "old"),
        ("stub", 9, Basis::Absent, "moved"),
        ("hidden", 9, Basis::Absent, "moved"),
        ("nothing", 9, Basis::of(Some(first)), "moved"),
        ("a", 50, Basis::of(Some(marked)), "written"),
        ("hidden", 9, Basis::of(Some(stub)), "written"),
        ("nothing", 9, Basis::Absent, "written"),
    ] {
        let write = put(id, version, basis);
        let expect = write.expect;
        let came = match bench.outcome(write).await {
            Outcome::Written(written) => {
                assert_eq!(written.stamp.version, version, "{id}");
                "written"
            }
            Outcome::Conflict(conflict) if conflict.expect == expect => "old",
            Outcome::Conflict(conflict) => {
                assert_eq!(conflict.expect, basis.expect(), "{id}");
                "moved"
            }
            other => panic!("[{id}] {basis:?} came to {other:?}"),
        };
        assert_eq!(came, wanted, "[{id}] {version} {basis:?}");
    }
}

/// The choice of [`expectations`] that is the document's own version.
const VERSION: i32 = 5;

async fn expectations(
    engine: &dyn Engine,
    index: &'static str,
    choices: std::ops::Range<i32>,
    versions_of_deletions: bool,
    tells: impl Fn(&Conflict, &Conflict) -> bool,
) {
    let bench = Bench::new(engine, index, ranked_mapping()).await;
    let mut row = 0;
    for state in ["nothing", "deleted", "here"] {
        for choice in choices.clone() {
            if choice == VERSION && state == "deleted" && !versions_of_deletions {
                continue;
            }
            row += 1;
            let id = format!("{state}{row}");
            let mut found = Found::Nothing;
            if state != "nothing" {
                found = Found::Here(bench.write(bench.put(&id, json!({ "rank": 1 }))).await.stamp);
            }
            if state == "deleted" {
                found = Found::Deleted(bench.write(bench.delete(&id)).await.stamp);
            }
            let stamp = found.stamp().unwrap_or(Stamp {
                seq_no: 0,
                primary_term: 1,
                version: 1,
            });
            let Stamp {
                seq_no,
                primary_term,
                version,
            } = stamp;
            let expect = match choice {
                0 => Expect::Anything,
                1 => Expect::Absent,
                2 => Expect::Present,
                3 => Expect::Unchanged { seq_no, primary_term },
                4 => Expect::Unchanged {
                    seq_no: seq_no + 1,
                    primary_term,
                },
                VERSION => Expect::Version(version),
                6 => Expect::Version(version + 1),
                7 => Expect::NewerThan { version, or_equal: true },
                _ => Expect::NewerThan {
                    version,
                    or_equal: false,
                },
            };
            let outcome = bench.outcome(expecting(expect, bench.put(&id, json!({ "rank": 2 })))).await;
            match (expect.check(&bench.at(&id), found), outcome) {
                (Ok(()), Outcome::Written(done)) => {
                    assert_eq!(done.stamp.version, found.next_version(expect), "{expect:?} on {found:?}")
                }
                (Err(conflict), Outcome::Conflict(got)) => assert!(tells(&got, &conflict), "{got:?} instead of {conflict:?}"),
                (wanted, got) => panic!("{expect:?} on {found:?} should come to {wanted:?}, and was {got:?}"),
            }
        }
    }
}

/// Every operation takes the next number of its index; what was not done takes none.
pub(super) async fn sequence_numbers(engine: &dyn Engine) {
    let bench = Bench::new(engine, "sequence_numbers", ranked_mapping()).await;
    let absent = |id| expecting(Expect::Absent, bench.put(id, json!({ "rank": 1 })));
    let noop = Write::new(bench.at("a"), WriteOp::Update(Box::new(partial(json!({ "rank": 1 })))));
    let rows = [
        (absent("a"), Some(0)),
        (absent("a"), None),
        (bench.put("b", json!({ "rank": "no number" })), None),
        (noop, None),
        (bench.put("b", json!({ "rank": 2 })), Some(1)),
        (bench.delete("b"), Some(2)),
    ];
    for (write, wanted) in rows {
        let shown = format!("{write:?}");
        let got = match bench.outcome(write).await {
            Outcome::Written(done) if done.effect != Effect::Noop => Some(done.stamp.seq_no),
            _ => None,
        };
        assert_eq!(got, wanted, "{shown}");
    }
}

/// Searches see what was refreshed and nothing else; `Now` and `WaitFor` answer after that. Where nothing is
/// refreshed by itself, `WaitFor` waits for whoever does.
pub(super) async fn refresh_visibility(engine: &dyn Engine) {
    let bench = Bench::new(engine, "refresh_visibility", ranked_mapping()).await;
    bench.write(bench.put("a", json!({ "rank": 1 }))).await;
    assert!(bench.ids(all()).await.is_empty(), "unrefreshed writes are not searched");
    let early = Read {
        searchable_only: true,
        ..Read::whole(bench.at("a"))
    };
    let read = engine.read(vec![early]).await.expect("reads are answered");
    assert!(matches!(read.as_slice(), [None]), "realtime=false reads what searches see");
    bench.refresh().await;
    assert_eq!(bench.ids(all()).await, ["a"]);
    bench.write(bench.delete("a")).await;
    assert_eq!(bench.ids(all()).await, ["a"], "unrefreshed deletes neither");
    for (id, refresh, forced) in [("b", Refresh::Now, true), ("c", Refresh::WaitFor, false)] {
        let writes = vec![bench.put(id, json!({ "rank": 2 }))];
        let outcomes = match refresh {
            Refresh::WaitFor => write_waiting(engine, writes, &[Target::index(bench.index)]).await,
            _ => engine.write(writes, refresh).await,
        };
        let done = expect_written(outcomes.expect("a write is answered").remove(0));
        assert_eq!(done.forced_refresh, forced, "{refresh:?}");
        assert!(
            bench.ids(all()).await.contains(&id.to_owned()),
            "{refresh:?} answers when searches see it"
        );
    }
    assert_eq!(
        bench
            .ids(by_rank(json!({ "ids": { "values": ["a", "b", "c"] } })))
            .await
            .len(),
        2
    );
}

/// Each write of a batch is on its own.
pub(super) async fn bulk_partial_failure(engine: &dyn Engine) {
    let bench = Bench::new(engine, "bulk_partial_failure", ranked_mapping()).await;
    let writes = vec![
        bench.put("a", json!({ "rank": 1 })),
        bench.put("b", json!({ "rank": "no number" })),
        expecting(Expect::Absent, bench.put("a", json!({ "rank": 2 }))),
        Write::new(address("bulk_partial_failure_missing", DocId::plain("x")), WriteOp::Delete),
        bench.put("c", json!({ "rank": 3 })),
    ];
    let outcomes = engine
        .write(writes, Refresh::Now)
        .await
        .expect("one bad write does not spoil the others");
    match outcomes.as_slice() {
        [
            Outcome::Written(a),
            Outcome::Refused(parse),
            Outcome::Conflict(_),
            Outcome::Refused(missing),
            Outcome::Written(c),
        ] => {
            assert_eq!((a.stamp.seq_no, c.stamp.seq_no), (0, 1));
            assert!(
                matches!(parse.kind(), ErrorKind::MapperParsing | ErrorKind::DocumentParsing),
                "{parse}"
            );
            assert_eq!(missing.kind(), ErrorKind::IndexNotFound);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.ids(all()).await, ["a", "c"]);
}

/// Versions survive deletes.
pub(super) async fn deleted_then_created(engine: &dyn Engine) {
    let bench = Bench::new(engine, "deleted_then_created", ranked_mapping()).await;
    let created = expecting(Expect::Absent, bench.put("a", json!({ "rank": 1 })));
    let rows = [
        (bench.put("a", json!({ "rank": 1 })), Effect::Created, 1),
        (bench.delete("a"), Effect::Deleted, 2),
        (created, Effect::Created, 3),
        (bench.put("a", json!({ "rank": 1 })), Effect::Updated, 4),
    ];
    in_order(&bench, rows).await;
    let nothing = bench.write(bench.delete("never")).await;
    assert_eq!(nothing.effect, Effect::NotFound, "to delete nothing is no failure");
}

/// To delete nothing is an operation: it takes a number and a version.
pub(super) async fn deleting_nothing_counts(engine: &dyn Engine) {
    let bench = Bench::new(engine, "deleting_nothing_counts", ranked_mapping()).await;
    let rows = [
        (bench.delete("never"), Effect::NotFound, 1),
        (bench.put("never", json!({ "rank": 1 })), Effect::Created, 2),
        (bench.delete("never"), Effect::Deleted, 3),
        (bench.delete("never"), Effect::NotFound, 4),
    ];
    in_order(&bench, rows).await;
}

async fn in_order<const N: usize>(bench: &Bench<'_>, rows: [(Write, Effect, u64); N]) {
    for (n, (write, effect, version)) in rows.into_iter().enumerate() {
        let done = bench.write(write).await;
        assert_eq!(
            (done.effect, done.stamp.version, done.stamp.seq_no),
            (effect, version, n as u64)
        );
    }
}

/// Updates work on the newest source, inside the engine.
pub(super) async fn updates(engine: &dyn Engine) {
    let bench = Bench::new(engine, "updates", ranked_mapping()).await;
    let script = script::compile(
        "ctx._source.rank += 5; if (ctx._source.rank > 10) { ctx.op = 'delete' }",
        Lang::Painless,
    );
    let add = Update {
        doc: None,
        script: Some((script.expect("the script compiles"), Default::default())),
        ..partial(Value::Null)
    };
    let rows = [
        (
            Update {
                doc_as_upsert: true,
                ..partial(json!({ "rank": 1 }))
            },
            Effect::Created,
            json!({ "rank": 1 }),
        ),
        (
            partial(json!({ "tag": "x" })),
            Effect::Updated,
            json!({ "rank": 1, "tag": "x" }),
        ),
        (partial(json!({ "tag": "x" })), Effect::Noop, json!({ "rank": 1, "tag": "x" })),
        (add.clone(), Effect::Updated, json!({ "rank": 6, "tag": "x" })),
        (add, Effect::Deleted, Value::Null),
    ];
    for (update, effect, source) in rows {
        let done = bench
            .write(Write::new(bench.at("a"), WriteOp::Update(Box::new(update))))
            .await;
        assert_eq!(done.effect, effect);
        assert_eq!(value(bench.get("a").await), source);
        if effect != Effect::Deleted {
            assert_eq!(
                done.source.map(|s| s.parse().expect("a source is JSON")),
                Some(source),
                "updates answer with the source"
            );
        }
    }
    match bench
        .outcome(Write::new(bench.at("a"), WriteOp::Update(Box::new(partial(json!({}))))))
        .await
    {
        Outcome::Refused(error) => assert_eq!(error.kind(), ErrorKind::DocumentMissing),
        other => panic!("{other:?}"),
    }
}

/// A conflict leaves no document, no number, no field behind.
pub(super) async fn conflict_leaves_nothing(engine: &dyn Engine) {
    let bench = Bench::new(engine, "conflict_leaves_nothing", ranked_mapping()).await;
    let before = bench.write(bench.put("a", json!({ "rank": 1 }))).await.stamp;
    let late = Expect::Unchanged {
        seq_no: before.seq_no + 9,
        primary_term: before.primary_term,
    };
    for write in [bench.put("a", json!({ "rank": 2, "conflicting": 1 })), bench.delete("a")] {
        match bench.outcome(expecting(late, write)).await {
            Outcome::Conflict(conflict) => assert_eq!((conflict.expect, conflict.found), (late, Found::Here(before))),
            other => panic!("{other:?}"),
        }
    }
    let read = bench.get("a").await;
    assert_eq!(read.as_ref().map(|doc| doc.stamp), Some(before));
    assert_eq!(value(read), json!({ "rank": 1 }));
    let info = engine
        .indices(&Target::index(bench.index))
        .await
        .expect("an index is known")
        .remove(0);
    assert!(
        info.mapping.field("conflicting").is_none(),
        "a write that was not done adds no field"
    );
    assert_eq!(bench.write(bench.delete("a")).await.stamp.seq_no, before.seq_no + 1);
}

/// `decide`: the plan reads the newest state; all of its writes are done, or none. Engines without it pass.
pub(super) async fn decide_all_or_nothing(engine: &dyn Engine) {
    let Some(atomic) = engine.atomic() else { return };
    let bench = Bench::new(engine, "decide_all_or_nothing", ranked_mapping()).await;
    bench.write(bench.put("a", json!({ "rank": 1 }))).await;
    let runs = AtomicUsize::new(0);
    let mut moving = |newest: &mut dyn Newest| {
        runs.fetch_add(1, Ordering::Relaxed);
        let rank = value(newest.read(&bench.at("a"), See::Plain)?)["rank"].as_i64().unwrap_or(0);
        Ok(Plan::of(vec![bench.put("b", json!({ "rank": rank + 1 })), bench.delete("a")]))
    };
    let decided = atomic
        .decide(&mut moving, Refresh::Now.into())
        .await
        .expect("a plan is decided");
    assert!(runs.load(Ordering::Relaxed) >= 1);
    let effects: Vec<_> = decided
        .outcomes
        .into_iter()
        .map(|outcome| expect_written(outcome).effect)
        .collect();
    assert_eq!(effects, [Effect::Created, Effect::Deleted]);
    assert_eq!(bench.ids(all()).await, ["b"]);
    assert_eq!(value(bench.get("b").await), json!({ "rank": 2 }));
    for bad in [
        expecting(Expect::Absent, bench.put("b", json!({ "rank": 9 }))),
        bench.put("c", json!({ "rank": "no number" })),
    ] {
        let mut failing = |_: &mut dyn Newest| {
            Ok(Plan::of(vec![
                bench.put("d", json!({ "rank": 9, "half": 1 })),
                bad.clone(),
                bench.delete("b"),
            ]))
        };
        let decided = atomic
            .decide(&mut failing, Refresh::Now.into())
            .await
            .expect("a plan is decided");
        assert_eq!(decided.outcomes.len(), 3, "one outcome a write");
        assert!(!matches!(decided.outcomes[1], Outcome::Written(_)));
        assert_eq!(bench.ids(all()).await, ["b"], "nothing was written");
    }
    let mut broken = |_: &mut dyn Newest| Err(Error::illegal("no plan"));
    assert!(atomic.decide(&mut broken, Refresh::No.into()).await.is_err());
    let info = engine
        .indices(&Target::index(bench.index))
        .await
        .expect("an index is known")
        .remove(0);
    assert!(info.mapping.field("half").is_none(), "nor did the mapping grow");
    assert_eq!(bench.write(bench.delete("b")).await.stamp.seq_no, 3, "nor was a number taken");
}

/// Scans and parts of a view give its documents: one in each of two indices.
async fn scans_of_a_view_see_its_moment(engine: &dyn Engine, both: &Target, view: &str) {
    let found = engine.scan_view(both, Query::all(), view).await;
    let found: Vec<Result<Document>> = found.expect("a view is scanned").collect().await;
    let found: Vec<String> = found
        .into_iter()
        .map(|found| found.expect("a document").at.id.id.to_string())
        .collect();
    assert_eq!(found, ["a", "b"], "a scan of the view sees its moment");
    let extents = engine.extents(both, Query::all(), view, model::Cancellation::default()).await;
    for extent in extents.expect("extents of a view") {
        let part = |after| Part {
            index: extent.index.clone(),
            after,
            upto: Some(extent.last.clone()),
            docs_max: 10,
            bytes_max: usize::MAX,
            now_ms: 0,
            cancellation: model::Cancellation::default(),
        };
        let found = engine
            .scan_by_seq_no(both, Query::all(), view, part(None))
            .await
            .expect("a part");
        let [one] = found.as_slice() else {
            panic!("one document matches in {extent:?}: {found:?}")
        };
        assert!(
            one.is_within(&extent.last) && one.cursor.covers(&extent.last),
            "it is the last one"
        );
        assert_eq!(
            Cursor::parse(&one.cursor.render()),
            Some(one.cursor.clone()),
            "records keep cursors"
        );
        let next = engine
            .scan_by_seq_no(both, Query::all(), view, part(Some(one.cursor.clone())))
            .await;
        assert!(next.expect("a part").is_empty(), "nothing is beyond the last one");
    }
}

/// A view shows one moment of all its indices until it is closed.
pub(super) async fn views_stand_still(engine: &dyn Engine) {
    let bench = Bench::new(engine, "views_stand_still_a", ranked_mapping()).await;
    let other = Bench::new(engine, "views_stand_still_b", ranked_mapping()).await;
    bench.write(bench.put("a", json!({ "rank": 1 }))).await;
    other.write(other.put("b", json!({ "rank": 2 }))).await;
    let both = Target::of(vec![bench.index.into(), other.index.into()]);
    engine.refresh(&both, None).await.expect("indices can be refreshed");
    let view = engine
        .open_view(&both, KEEP, ViewPromise::MomentPerShard)
        .await
        .expect("a view can be opened");
    assert_eq!(view.indices.len(), 2);
    let missing = engine
        .open_view(&Target::index("views_stand_still_c"), KEEP, ViewPromise::MomentPerShard)
        .await;
    assert_eq!(missing.err().map(|e| e.kind()), Some(ErrorKind::IndexNotFound));
    bench.write(bench.delete("a")).await;
    other.write(other.put("c", json!({ "rank": 3 }))).await;
    engine.refresh(&both, None).await.expect("indices can be refreshed");
    let through = |target: Target| {
        let request = SearchRequest {
            view: Some(view.id.clone()),
            ..super::request(&all())
        };
        async move {
            let answer = engine.search(&target, request, See::Plain).await?;
            Ok::<_, Error>(answer.hits.hits.iter().map(|hit| hit.id.id.to_string()).collect::<Vec<_>>())
        }
    };
    assert_eq!(through(both.clone()).await.expect("a view is searched"), ["a", "b"]);
    assert_eq!(ids(engine, &both, all()).await, ["b", "c"], "others see what came later");
    scans_of_a_view_see_its_moment(engine, &both, &view.id).await;
    engine.renew_view(&view.id, KEEP).await.expect("a view can be renewed");
    assert_eq!(through(both.clone()).await.expect("a view is searched"), ["a", "b"]);
    assert!(
        engine
            .views()
            .await
            .expect("views are listed")
            .iter()
            .any(|open| open.id == view.id)
    );
    // More than an engine can is refused by name, and what was asked for is promised.
    match engine.open_view(&both, KEEP, ViewPromise::OneMoment).await {
        Ok(whole) => {
            assert_eq!(whole.promise, ViewPromise::OneMoment);
            assert!(engine.close_view(&whole.id).await.expect("a view can be closed"));
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::UnsupportedOperation, "{error}");
            assert_eq!(view.promise, ViewPromise::MomentPerShard, "it opens what it promises");
        }
    }
    assert!(engine.close_view(&view.id).await.expect("a view can be closed"));
    assert!(
        !engine.close_view(&view.id).await.expect("closing is answered"),
        "it can be closed once"
    );
    assert!(
        through(both).await.is_err() && engine.renew_view(&view.id, KEEP).await.is_err(),
        "a closed view is gone"
    );
}

/// Fields that a document brings are in the mapping afterwards, and hold for the next.
pub(super) async fn mapping_grows(engine: &dyn Engine) {
    let bench = Bench::new(engine, "mapping_grows", ranked_mapping()).await;
    bench
        .write(bench.put("a", json!({ "rank": 1, "new": { "number": 7, "flag": true } })))
        .await;
    let info = engine
        .indices(&Target::index(bench.index))
        .await
        .expect("an index is known")
        .remove(0);
    let kind = |path: &str| info.mapping.field(path).map(|field| field.wire());
    assert_eq!(
        (kind("new.number"), kind("new.flag"), kind("rank")),
        (Some("long"), Some("boolean"), Some("integer"))
    );
    assert_eq!(info.mappings, info.mapping.render(), "what is shown is what is used");
    assert!(matches!(
        bench.outcome(bench.put("b", json!({ "new": { "number": "text" } }))).await,
        Outcome::Refused(_)
    ));
    bench.refresh().await;
    assert_eq!(
        bench
            .ids(by_rank(json!({ "range": { "new.number": { "gte": 7, "lt": 8 } } })))
            .await,
        ["a"]
    );
    let body = json!({ "properties": { "later": { "type": "keyword" } } });
    let put = |body| Alteration::PutMapping {
        target: Target::index(bench.index),
        doc_type: None,
        body,
    };
    engine.alter(put(body)).await.expect("a field can be added");
    let clash = json!({ "properties": { "rank": { "type": "keyword" } } });
    assert!(engine.alter(put(clash)).await.is_err(), "a field keeps its type");
}

/// A rehearsal says what would grow, and nothing happens.
pub(super) async fn rehearsal_changes_nothing(engine: &dyn Engine) {
    let bench = Bench::new(engine, "rehearsal", ranked_mapping()).await;
    let writes = [
        bench.put("a", json!({ "rank": 1 })),
        bench.put("a", json!({ "new": 1 })),
        bench.put("a", json!({ "rank": "no number" })),
    ];
    let answers = engine.rehearse(&writes).await.expect("a rehearsal is answered");
    assert!(
        matches!(
            answers.as_slice(),
            [Ok(None), Ok(Some(Alteration::PutMapping { .. })), Err(_)]
        ),
        "{answers:?}"
    );
    let info = engine
        .indices(&Target::index(bench.index))
        .await
        .expect("an index is known")
        .remove(0);
    assert!(info.mapping.field("new").is_none() && bench.get("a").await.is_none());
}

/// Aliases read from all their indices, filtered, and write to one.
pub(super) async fn aliases(engine: &dyn Engine) {
    let first = Bench::new(engine, "aliases_a", ranked_mapping()).await;
    let second = Bench::new(engine, "aliases_b", ranked_mapping()).await;
    let add = |index: &str, alias: &str, body: Value| {
        let body = body.as_object().cloned().unwrap_or_default();
        AliasAction::Add {
            target: Target::index(index),
            alias: alias.into(),
            body,
        }
    };
    let alter = |actions| engine.alter(Alteration::UpdateAliases(actions));
    alter(vec![
        add("aliases_a", "aliases_both", json!({})),
        add("aliases_b", "aliases_both", json!({})),
    ])
    .await
    .expect("aliases can be added");
    let both = |id: &str| {
        Write::new(
            address("aliases_both", DocId::plain(id)),
            WriteOp::Put(Source::from_value(&json!({ "rank": 1 }))),
        )
    };
    assert!(
        matches!(first.outcome(both("x")).await, Outcome::Refused(_)),
        "no index is the one to write to"
    );
    assert!(engine.read_one(both("x").at).await.is_err(), "nor to read from");
    let writer = json!({ "is_write_index": true });
    alter(vec![add("aliases_b", "aliases_both", writer.clone())])
        .await
        .expect("an alias can be changed");
    let done = first
        .write(Write {
            require_alias: true,
            ..both("x")
        })
        .await;
    assert_eq!(done.at, second.at("x"), "the answer names the index");
    assert!(matches!(
        first
            .outcome(Write {
                require_alias: true,
                ..first.put("y", json!({}))
            })
            .await,
        Outcome::Refused(_)
    ));
    assert!(
        alter(vec![add("aliases_a", "aliases_both", writer)]).await.is_err(),
        "one index is written to"
    );
    first.write(first.put("low", json!({ "rank": 0, "tag": "t" }))).await;
    alter(vec![add(
        "aliases_a",
        "aliases_some",
        json!({ "filter": { "term": { "tag": "t" } } }),
    )])
    .await
    .expect("aliases can be added");
    first.write(first.put("mid", json!({ "rank": 5, "tag": "u" }))).await;
    let targets = Target::of(vec!["aliases_both".into()]);
    engine.refresh(&targets, None).await.expect("an alias can be refreshed");
    assert_eq!(ids(engine, &targets, all()).await, ["low", "x", "mid"]);
    assert_eq!(
        ids(engine, &Target::index("aliases_some"), all()).await,
        ["low"],
        "its filter holds"
    );
    assert_eq!(
        ids(engine, &Target::of(vec!["aliases_some".into(), "aliases_a".into()]), all()).await,
        ["low", "mid"]
    );
    let remove = |must_exist| AliasAction::Remove {
        target: Target::index("aliases_a"),
        alias: "aliases_some".into(),
        must_exist,
    };
    alter(vec![remove(true)]).await.expect("an alias can be removed");
    match alter(vec![add("aliases_a", "aliases_half", json!({})), remove(true)]).await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::AliasesNotFound),
        Ok(altered) => panic!("{altered:?}"),
    }
    assert!(
        engine.indices(&Target::index("aliases_half")).await.is_err(),
        "actions are done together or not at all"
    );
}

/// Who names an index that is not there is told so, by kind.
pub(super) async fn missing_indices(engine: &dyn Engine) {
    let bench = Bench {
        engine,
        index: "missing_indices",
    };
    let target = Target::index(bench.index);
    let search = super::request(&all());
    let kinds = [
        engine.read_one(bench.at("a")).await.err(),
        engine.refresh(&target, None).await.err(),
        engine.search(&target, search.clone(), See::Plain).await.err(),
        engine.scan(&target, Query::all(), See::Plain, Barrier::None).await.err(),
        engine.alter(Alteration::DeleteIndices(target.clone())).await.err(),
        engine.indices(&target).await.err(),
        match bench.outcome(bench.put("a", json!({}))).await {
            Outcome::Refused(error) => Some(error),
            _ => None,
        },
    ];
    for (n, error) in kinds.into_iter().enumerate() {
        assert_eq!(error.map(|e| e.kind()), Some(ErrorKind::IndexNotFound), "call {n}");
    }
    let lenient = Target {
        ignore_unavailable: true,
        ..target
    };
    assert!(ids(engine, &lenient, all()).await.is_empty());
    assert!(ids(engine, &Target::index("missing_indices*"), all()).await.is_empty());
    let strict = Target {
        allow_no_indices: false,
        ..Target::index("missing_indices*")
    };
    assert!(engine.search(&strict, search, See::Plain).await.is_err());
    create(engine, bench.index, None, false)
        .await
        .expect("an index can be created");
    let again = create(engine, bench.index, None, false)
        .await
        .expect_err("an index is created once");
    assert_eq!(again.kind(), ErrorKind::IndexAlreadyExists);
    bench.write(bench.put("a", json!({ "rank": 1 }))).await;
    engine
        .alter(Alteration::DeleteIndices(Target::index(bench.index)))
        .await
        .expect("an index can be deleted");
    create(engine, bench.index, None, false)
        .await
        .expect("its name is free again");
    assert!(bench.get("a").await.is_none(), "a new index is empty");
    assert_eq!(bench.write(bench.put("a", json!({ "rank": 1 }))).await.stamp.seq_no, 0);
}

/// A write that is meant for an index is refused by one that was made later under its name, whatever stamps are there.
pub(super) async fn meant_for_one_index(engine: &dyn Engine) {
    let bench = Bench::new(engine, "meant", ranked_mapping()).await;
    let uuid_now = async || {
        let infos = engine.indices(&Target::index(bench.index)).await.expect("it is there");
        Arc::<str>::from(infos[0].uuid.as_str())
    };
    let first = bench.write(bench.put("1", json!({ "rank": 1 }))).await;
    let uuid = uuid_now().await;
    let unchanged = Expect::Unchanged {
        seq_no: first.stamp.seq_no,
        primary_term: first.stamp.primary_term,
    };
    let meant = |write: Write| Write {
        index_uuid: Some(uuid.clone()),
        ..expecting(unchanged, write)
    };
    let target = Target::index(bench.index);
    engine
        .alter(Alteration::DeleteIndices(target))
        .await
        .expect("an index can be deleted");
    create(engine, bench.index, None, false).await.expect("and made again");
    let second = bench.write(bench.put("1", json!({ "rank": 2 }))).await;
    assert_eq!(second.stamp, first.stamp, "stamps begin anew");
    for write in [meant(bench.put("1", json!({ "rank": 3 }))), meant(bench.delete("1"))] {
        match bench.outcome(write).await {
            Outcome::Refused(error) => assert_eq!(error.kind(), ErrorKind::IndexNotFound, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(value(bench.get("1").await), json!({ "rank": 2 }));
    let for_it = Write {
        index_uuid: Some(uuid_now().await),
        ..expecting(unchanged, bench.put("1", json!({ "rank": 3 })))
    };
    assert_eq!(bench.write(for_it).await.effect, Effect::Updated);
}

/// Several documents are read in order, each with its own refusal, up to a bound of bytes.
pub(super) async fn read_together(engine: &dyn Engine) {
    let bench = Bench::new(engine, "together", ranked_mapping()).await;
    for id in ["1", "2"] {
        bench.write(bench.put(id, json!({ "rank": id }))).await;
    }
    let elsewhere = address("together_missing", DocId::plain("1"));
    let all = || vec![bench.at("2"), bench.at("none"), elsewhere.clone(), bench.at("1")];
    let reads = |all: Vec<DocAddress>| all.into_iter().map(Read::whole).collect::<Vec<_>>();
    let found = engine
        .read_together(reads(all()), usize::MAX)
        .await
        .expect("reads are answered");
    assert_eq!(found.len(), 4);
    let ranks: Vec<Value> = found.iter().map(|one| one.clone().map_or(json!("refused"), value)).collect();
    assert_eq!(
        ranks,
        [json!({ "rank": "2" }), Value::Null, json!("refused"), json!({ "rank": "1" })]
    );
    assert_eq!(found[2].as_ref().err().map(Error::kind), Some(ErrorKind::IndexNotFound));
    let few = engine.read_together(reads(all()), 0).await.expect("reads are answered");
    assert_eq!(few.len(), 1, "the last one may pass the bound, none comes after it");
}

/// A closed index refuses; opened again it has what it had.
pub(super) async fn closed_indices(engine: &dyn Engine) {
    let bench = Bench::new(engine, "closed_indices", ranked_mapping()).await;
    let stamp = bench.write(bench.put("a", json!({ "rank": 1 }))).await.stamp;
    let target = Target::index(bench.index);
    bench.refresh().await;
    engine
        .alter(Alteration::CloseIndices(target.clone()))
        .await
        .expect("an index can be closed");
    assert!(engine.search(&target, super::request(&all()), See::Plain).await.is_err());
    assert!(engine.read_one(bench.at("a")).await.is_err());
    assert!(matches!(
        bench.outcome(bench.put("a", json!({ "rank": 2 }))).await,
        Outcome::Refused(_)
    ));
    engine
        .alter(Alteration::OpenIndices(target))
        .await
        .expect("an index can be opened");
    assert_eq!(bench.get("a").await.map(|doc| doc.stamp), Some(stamp));
    assert_eq!(bench.ids(all()).await, ["a"]);
}

/// In a typed index the type is part of who a document is.
pub(super) async fn typed_ids(engine: &dyn Engine) {
    let mapping = json!({ "post": { "properties": ranked_mapping() }, "user": { "properties": ranked_mapping() } });
    create(engine, "typed_ids", Some(mapping), true)
        .await
        .expect("a typed index can be created");
    let at = |doc_type: &str| address("typed_ids", DocId::with_type(doc_type, "1"));
    for (doc_type, rank) in [("post", 1), ("user", 2)] {
        let write = Write::new(at(doc_type), WriteOp::Put(Source::from_value(&json!({ "rank": rank }))));
        let done = expect_written(engine.write_one(write, Refresh::Now).await.expect("a write is answered"));
        assert_eq!((done.effect, done.stamp.version, done.at), (Effect::Created, 1, at(doc_type)));
    }
    assert_eq!(
        value(engine.read_one(at("post")).await.expect("a read is answered")),
        json!({ "rank": 1 })
    );
    assert!(engine.read_one(at("page")).await.expect("a read is answered").is_none());
    let of = |types: Vec<String>| Target {
        types,
        ..Target::index("typed_ids")
    };
    assert_eq!(ids(engine, &of(vec![]), all()).await.len(), 2);
    assert_eq!(ids(engine, &of(vec!["user".into()]), all()).await.len(), 1);
    let gone = expect_written(
        engine
            .write_one(Write::new(at("post"), WriteOp::Delete), Refresh::Now)
            .await
            .expect("a write is answered"),
    );
    assert_eq!(gone.effect, Effect::Deleted);
    assert!(
        engine.read_one(at("user")).await.expect("a read is answered").is_some(),
        "the other type's document stays"
    );
}

/// Marks hide documents from plain readers and hold plain writers; only who asks sees or changes them.
pub(super) async fn marks(engine: &dyn Engine) {
    let bench = Bench::new(engine, "marks", ranked_mapping()).await;
    let mark = |visible, held| {
        Hide::Set(Hidden {
            body: json!({ "change": 7 }),
            visible,
            held,
        })
    };
    let hiding = |hide, write: Write| Write { hide, ..write };
    let source = json!({ "rank": 1 });
    bench
        .write(hiding(mark(false, true), bench.put("stub", source.clone())))
        .await;
    bench
        .write(hiding(mark(true, true), bench.put("intent", source.clone())))
        .await;
    bench
        .write(hiding(mark(true, false), bench.put("marked", source.clone())))
        .await;
    bench.refresh().await;
    let target = Target::index(bench.index);
    let mut seen = bench.ids(all()).await;
    seen.sort();
    assert_eq!(seen, ["intent", "marked"]);
    assert_eq!(scan_all(engine, &target, Query::all(), See::Everything).await.len(), 3);
    assert!(bench.get("stub").await.is_none());
    let all_seen = Read {
        see: See::Everything,
        ..Read::whole(bench.at("stub"))
    };
    let stub = engine
        .read(vec![all_seen])
        .await
        .expect("reads are answered")
        .remove(0)
        .expect("the stub is there");
    assert_eq!(stub.hidden.map(|hidden| hidden.body), Some(json!({ "change": 7 })));
    for held in ["stub", "intent"] {
        match bench.outcome(bench.put(held, source.clone())).await {
            Outcome::Held(body) => assert_eq!(body, json!({ "change": 7 })),
            other => panic!("{other:?}"),
        }
    }
    let again = hiding(
        mark(false, true),
        expecting(Expect::Absent, bench.put("stub", source.clone())),
    );
    assert!(
        matches!(bench.outcome(again).await, Outcome::Conflict(_)),
        "who sees marks finds the stub"
    );
    assert_eq!(bench.write(bench.put("marked", source.clone())).await.effect, Effect::Updated);
    assert!(
        bench.get("marked").await.is_some_and(|doc| doc.hidden.is_some()),
        "a plain write keeps the mark"
    );
    assert_eq!(bench.write(bench.delete("marked")).await.effect, Effect::Deleted);
    assert!(bench.get("marked").await.is_none());
    let tombstone = Read {
        see: See::Everything,
        ..Read::whole(bench.at("marked"))
    };
    let left = engine.read(vec![tombstone]).await.expect("reads are answered").remove(0);
    assert!(
        left.is_some_and(|doc| doc.hidden.is_some_and(|mark| !mark.visible)),
        "a plain delete leaves a tombstone"
    );
    bench.write(hiding(Hide::Drop, bench.put("intent", source))).await;
    assert!(bench.get("intent").await.is_some_and(|doc| doc.hidden.is_none()));
}

/// A scan gives what matches, every document once, index after index.
pub(super) async fn scans_in_index_order(engine: &dyn Engine) {
    let bench = Bench::new(engine, "scans_a", ranked_mapping()).await;
    let other = Bench::new(engine, "scans_b", ranked_mapping()).await;
    for n in 0..30 {
        let to = if n % 2 == 0 { &bench } else { &other };
        to.write(to.put(&format!("d{:02}", n % 20), json!({ "rank": n }))).await;
    }
    let target = Target::of(vec!["scans_*".into()]);
    engine.refresh(&target, None).await.expect("indices can be refreshed");
    let found = scan_all(engine, &target, Query::all(), See::Plain).await;
    assert_eq!(found.len(), 20);
    let indices: Vec<_> = found.iter().map(|doc| doc.at.index.as_str()).collect();
    assert!(indices.is_sorted(), "{indices:?}");
    let mut ids: Vec<_> = found.iter().map(|doc| doc.at.id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20, "each document once");
    let range = dsl::query::RangeQuery {
        field: "rank".into(),
        gte: Some(20.into()),
        ..Default::default()
    };
    assert_eq!(
        scan_all(engine, &target, dsl::query::Clause::Range(range).into(), See::Plain)
            .await
            .len(),
        10
    );
}

/// A search and the documents that are not refreshed give, together, the newest state of every document.
pub(super) async fn unrefreshed_documents_are_named(engine: &dyn Engine) {
    let Some(atomic) = engine.atomic() else { return };
    let bench = Bench::new(engine, "unrefreshed", ranked_mapping()).await;
    let index = bench.at("a").index;
    // Acknowledged writes are durable, so there is no position to wait for.
    let named = |most: usize| {
        let index = index.clone();
        async move {
            let found = atomic.unrefreshed_documents(&index, 0, most).await;
            found.expect("an index says what is not refreshed")
        }
    };
    for id in ["a", "b", "c"] {
        bench.write(bench.put(id, json!({ "rank": 1 }))).await;
    }
    bench.refresh().await;
    if named(10).await.is_none() {
        return;
    }
    bench.write(bench.put("b", json!({ "rank": 2 }))).await;
    bench.write(bench.put("d", json!({ "rank": 3 }))).await;
    bench.write(bench.delete("c")).await;
    bench.write(bench.put("d", json!({ "rank": 4 }))).await;
    assert!(named(1).await.is_none(), "more than are wanted are not named");
    let mut newest: BTreeMap<String, Option<Value>> = BTreeMap::new();
    for one in named(10).await.unwrap_or_default() {
        let source = one.source.map(|source| source.parse().expect("a source is JSON"));
        let before = newest.insert(one.at.id.id.to_string(), source);
        assert!(before.is_none(), "each document once");
    }
    for document in scan_all(engine, &Target::index(bench.index), Query::all(), See::Plain).await {
        let source = document.source.parse().expect("a source is JSON");
        newest.entry(document.at.id.id.to_string()).or_insert(Some(source));
    }
    let rank = |n: u64| Some(json!({ "rank": n }));
    let expected = [("a", rank(1)), ("b", rank(2)), ("c", None), ("d", rank(4))];
    assert_eq!(newest, expected.map(|(id, source)| (id.to_owned(), source)).into());
    let missing = IndexName::new("unrefreshed_missing");
    let refused = atomic.unrefreshed_documents(&missing, 0, 10).await.err();
    assert_eq!(refused.map(|e| e.kind()), Some(ErrorKind::IndexNotFound));
}

/// Pages, taken by `from` or by `search_after`, are the whole, in order and without repetition.
pub(super) async fn paging(engine: &dyn Engine) {
    let bench = Bench::new(engine, "paging", ranked_mapping()).await;
    let writes = (0..25)
        .map(|n| bench.put(&format!("d{n}"), json!({ "rank": n * 7 % 25, "tag": format!("t{}", n % 3) })))
        .collect();
    engine.write(writes, Refresh::Now).await.expect("writes are answered");
    let whole = bench.ids(all()).await;
    assert_eq!(whole.len(), 25);
    let (mut paged, mut walked, mut after) = (Vec::new(), Vec::new(), Value::Null);
    for page in 0..7 {
        paged.extend(bench.ids(json!({ "sort": ["rank"], "from": page * 4, "size": 4 })).await);
        let mut body = json!({ "sort": ["rank"], "size": 4 });
        if !after.is_null() {
            body["search_after"] = after.clone();
        }
        let answer = engine
            .search(&Target::index(bench.index), super::request(&body), See::Plain)
            .await
            .expect("a search is answered");
        walked.extend(answer.hits.hits.iter().map(|hit| hit.id.id.to_string()));
        if let Some(last) = answer.hits.hits.last() {
            after = json!(last.sort);
        }
    }
    assert_eq!(paged, whole);
    assert_eq!(walked, whole);
}
