//! The same random calls to two engines, every answer compared.
//!
//! Steps are data, made from a seed alone (no clock, no machine randomness): a failure names its seed, and the seed
//! is the reproduction. Answers are compared as JSON without what may differ: uuids, times, the words of refusals
//! (their kinds may not), the order of documents where no sort was asked for.

use super::{create, request};
use crate::*;
use futures::StreamExt;
use serde_json::json;

/// The indices that steps talk about.
pub const INDICES: [&str; 2] = ["random_a", "random_b"];
const ALIAS: &str = "random_alias";
const KEEP: Duration = Duration::from_secs(3600);

/// Ends an engine in order and begins it again on what it kept.
pub type Restart<'a> = &'a (dyn Fn() + Send + Sync);

/// Sends `steps` random calls to a model and to another engine; `restart` restarts the other.
///
/// # Panics
/// Where an answer differs, with the seed, the step and both answers.
pub async fn same_answers(model: &dyn Engine, other: &dyn Engine, seed: u64, steps: usize, restart: Option<Restart<'_>>) {
    let mut random = Random::new(seed);
    let mut sides = [Side::new(model, None), Side::new(other, restart)];
    let mut known = Vec::new();
    let atomic = model.atomic().is_some() && other.atomic().is_some();
    // Both indices first, so that the first calls find something.
    let mut first_steps = INDICES.into_iter().map(Step::Create);
    for number in 0..steps {
        let step = first_steps.next().unwrap_or_else(|| Step::random(&mut random, &known));
        if matches!(step, Step::Decide(_)) && !atomic {
            continue;
        }
        let [first, second] = &mut sides;
        let (wanted, got) = (first.take(&step, &mut known).await, second.take(&step, &mut Vec::new()).await);
        assert!(
            wanted == got,
            "seed {seed}, step {number}: {step:?}\n the model answers {wanted}\n the other     {got}"
        );
    }
}

/// Xorshift: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A row of numbers of its own for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing is less than 0");
        (self.bits() >> 16) % bound
    }
    fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

/// One call.
#[derive(Clone, Debug)]
enum Step {
    Create(&'static str),
    Delete(&'static str),
    Writes(Vec<Write>, Refresh),
    Decide(Vec<Write>),
    Rehearse(Vec<Write>),
    Reads(Vec<Read>),
    Refresh(Target),
    Search {
        target: Target,
        body: Value,
        in_view: bool,
        see: See,
    },
    Scan {
        target: Target,
        query: Value,
    },
    OpenView(Target),
    CloseView,
    Alias {
        index: &'static str,
        body: Value,
    },
    Indices,
    /// Everything is refreshed, then merged into one segment.
    Merge,
    /// Everything is refreshed and written to segments, then the engine begins anew.
    Restart,
}

impl Step {
    /// `known` are stamps that the model gave out, for expectations that sometimes hold.
    fn random(random: &mut Random, known: &[Stamp]) -> Step {
        match random.below(100) {
            0 => Step::Delete(random.of(&INDICES)),
            1..=6 => Step::Create(random.of(&INDICES)),
            7..=40 => {
                let count = 1 + random.below(5);
                let refresh = random.of(&[Refresh::No, Refresh::No, Refresh::Now, Refresh::WaitFor]);
                Step::Writes((0..count).map(|_| write(random, known)).collect(), refresh)
            }
            41..=46 => {
                let mut writes: Vec<Write> = (0..1 + random.below(3)).map(|_| write(random, known)).collect();
                // A change writes each document once.
                let mut ids = std::collections::BTreeSet::new();
                writes.retain(|write| ids.insert(write.at.id.id.clone()));
                Step::Decide(writes)
            }
            47..=49 => Step::Rehearse((0..1 + random.below(3)).map(|_| write(random, known)).collect()),
            50..=58 => Step::Reads((0..1 + random.below(4)).map(|_| read(random)).collect()),
            59..=64 => Step::Refresh(target(random)),
            65..=86 => {
                let (target, body) = (target(random), body(random));
                let (in_view, see) = (random.below(4) == 0, random.of(&[See::Plain, See::Plain, See::Everything]));
                Step::Search {
                    target,
                    body,
                    in_view,
                    see,
                }
            }
            87..=90 => Step::Scan {
                target: target(random),
                query: query(random, 2),
            },
            91..=93 => Step::OpenView(target(random)),
            94 => Step::CloseView,
            95..=97 => Step::Alias {
                index: random.of(&INDICES),
                body: random.of(&[
                    json!({}),
                    json!({ "is_write_index": true }),
                    json!({ "filter": { "term": { "tag": "t1" } } }),
                ]),
            },
            98 => random.of(&[Step::Merge, Step::Restart]),
            _ => Step::Indices,
        }
    }
}

fn place(random: &mut Random) -> DocAddress {
    let index = random.of(&[INDICES[0], INDICES[0], INDICES[0], INDICES[1], INDICES[1], ALIAS]);
    address(index, DocId::plain(format!("d{}", random.below(12))))
}

fn write(random: &mut Random, known: &[Stamp]) -> Write {
    let op = match random.below(10) {
        0..=5 => WriteOp::Put(Source::from_value(&source(random))),
        6 => WriteOp::Delete,
        _ => WriteOp::Update(Box::new(Update {
            doc: Some(source(random)),
            script: None,
            upsert: random.of(&[None, Some(json!({ "rank": 0, "key": "up" }))]),
            doc_as_upsert: random.below(3) == 0,
            scripted_upsert: false,
            moves: random.below(2) == 0,
            detect_noop: random.below(4) > 0,
            lenient_op: false,
            of_2015: false,
            budget: script::Budget::default(),
            now_ms: 0,
        })),
    };
    let stamp = if known.is_empty() {
        Stamp::default()
    } else {
        random.of(known)
    };
    let expect = match random.below(16) {
        0 | 1 => Expect::Absent,
        2 => Expect::Present,
        3 | 4 => Expect::Unchanged {
            seq_no: stamp.seq_no,
            primary_term: stamp.primary_term,
        },
        5 => Expect::Version(1 + random.below(3)),
        6 => Expect::NewerThan {
            version: random.below(20),
            or_equal: random.below(2) == 0,
        },
        _ => Expect::Anything,
    };
    let mark = |visible, held| {
        Hide::Set(Hidden {
            body: json!({ "c": 1 }),
            visible,
            held,
        })
    };
    let hide = match random.below(20) {
        0 => mark(false, true),
        1 => mark(true, true),
        2 => mark(true, false),
        3 | 4 => Hide::Drop,
        _ => Hide::Keep,
    };
    Write {
        expect,
        hide,
        ..Write::new(place(random), op)
    }
}

/// Some do not fit the mapping; some make it grow.
fn source(random: &mut Random) -> Value {
    let number = random.below(40);
    let mut out = json!({ "rank": number, "key": format!("k{}", random.below(1000)) });
    if random.below(3) > 0 {
        out["tag"] = random.of(&[json!("t1"), json!("t2"), json!(["t1", "t3"]), Value::Null]);
    }
    if random.below(3) == 0 {
        out["size"] = random.of(&[json!(0.5), json!(2), json!([1.5, -3.25])]);
    }
    if random.below(3) == 0 {
        out["parts"] =
            json!([{ "name": "n1", "count": random.below(4) }, { "name": random.of(&["n1", "n2"]), "count": random.below(4) }]);
    }
    match random.below(12) {
        0 => out["rank"] = json!("no number"),
        1 => out["grown"] = json!(random.below(5)),
        2 => out["grown"] = json!("text"),
        3 => out["day"] = json!("2024-02-29"),
        _ => {}
    }
    out
}

fn read(random: &mut Random) -> Read {
    let see = random.of(&[See::Plain, See::Everything]);
    Read {
        see,
        searchable_only: random.below(4) == 0,
        ..Read::whole(place(random))
    }
}

fn target(random: &mut Random) -> Target {
    Target::of(random.of(&[
        vec![INDICES[0].to_owned()],
        vec![INDICES[1].to_owned()],
        vec![INDICES[0].to_owned(), INDICES[1].to_owned()],
        vec!["random_*".to_owned()],
        vec![ALIAS.to_owned()],
    ]))
}

fn query(random: &mut Random, depth: u32) -> Value {
    let choices = if depth == 0 { 8 } else { 11 };
    match random.below(choices) {
        0 => json!({ "match_all": {} }),
        1 => json!({ "ids": { "values": [format!("d{}", random.below(12)), format!("d{}", random.below(12))] } }),
        2 => json!({ "term": { "tag": random.of(&["t1", "t2", "none"]) } }),
        3 => json!({ "terms": { "rank": [random.below(40), random.below(40), random.below(40)] } }),
        4 => json!({ "range": { "rank": { "gte": random.below(20), "lt": random.below(50) } } }),
        5 => json!({ "range": { "size": { "gt": random.of(&[-4.0, 0.5, 1.0]) } } }),
        6 => json!({ "exists": { "field": random.of(&["tag", "grown", "size", "day"]) } }),
        7 => json!({ "prefix": { "key": format!("k{}", random.below(10)) } }),
        8 => json!({ "nested": { "path": "parts", "query": { "bool": { "filter": [
            { "term": { "parts.name": "n1" } }, { "range": { "parts.count": { "gte": random.below(4) } } } ] } } } }),
        _ => {
            let list = |random: &mut Random| (0..random.below(3)).map(|_| query(random, depth - 1)).collect::<Vec<_>>();
            json!({ "bool": { "filter": list(random), "should": list(random), "must_not": list(random) } })
        }
    }
}

/// Sorted by what was drawn, then by keys that seldom tie.
fn body(random: &mut Random) -> Value {
    let order = random.of(&["asc", "desc"]);
    let first = match random.below(4) {
        0 => json!({ "rank": { "order": order } }),
        1 => json!({ "tag": { "order": order, "missing": random.of(&["_first", "_last"]) } }),
        2 => json!({ "size": { "order": order } }),
        _ => json!({ "key": { "order": order } }),
    };
    let mut out = json!({ "query": query(random, 2), "sort": [first, "rank", "key"], "size": 100, "seq_no_primary_term": true });
    if random.below(3) == 0 {
        let metric = random.of(&["stats", "max"]);
        out["aggs"] = json!({
            "tags": { "terms": { "field": "tag", "size": 1 + random.below(3) }, "aggs": { "ranks": { metric: { "field": "rank" } } } },
            "sizes": { metric: { "field": "size" } },
        });
    }
    out
}

/// One engine, with the view that it has open.
struct Side<'a> {
    engine: &'a dyn Engine,
    restart: Option<Restart<'a>>,
    view: Option<String>,
}

impl<'a> Side<'a> {
    fn new(engine: &'a dyn Engine, restart: Option<Restart<'a>>) -> Side<'a> {
        Side {
            engine,
            restart,
            view: None,
        }
    }

    /// The answer, in the form that is compared. Stamps that were given out are added to `known`.
    async fn take(&mut self, step: &Step, known: &mut Vec<Stamp>) -> Value {
        self.answer(step, known).await.unwrap_or_else(|error| refusal(&error))
    }

    async fn answer(&mut self, step: &Step, known: &mut Vec<Stamp>) -> Result<Value> {
        let engine = self.engine;
        Ok(match step {
            Step::Create(index) => {
                let mappings = json!({ "properties": {
                    "rank": { "type": "integer" }, "tag": { "type": "keyword" }, "key": { "type": "keyword" }, "size": { "type": "double" },
                    "parts": { "type": "nested", "properties": { "name": { "type": "keyword" }, "count": { "type": "integer" } } } } });
                json!(create(engine, index, Some(mappings), false).await?.changed)
            }
            Step::Delete(index) => json!(engine.alter(Alteration::DeleteIndices(Target::index(index))).await?.changed),
            Step::Writes(writes, Refresh::WaitFor) => {
                let mut names: Vec<_> = writes.iter().map(|write| write.at.index.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                let targets: Vec<_> = names.into_iter().map(Target::index).collect();
                outcomes(&super::write_waiting(engine, writes.clone(), &targets).await?, known)
            }
            Step::Writes(writes, refresh) => outcomes(&engine.write(writes.clone(), *refresh).await?, known),
            Step::Decide(writes) => decide(engine, writes, known).await?,
            Step::Rehearse(writes) => {
                let answers = engine.rehearse(writes).await?;
                answers
                    .iter()
                    .map(|answer| answer.as_ref().map_or_else(refusal, |grows| json!(grows.is_some())))
                    .collect()
            }
            Step::Reads(reads) => engine
                .read(reads.clone())
                .await?
                .iter()
                .map(|doc| doc.as_ref().map_or(Value::Null, document))
                .collect(),
            Step::Refresh(target) => json!(engine.refresh(target, None).await?),
            Step::Search {
                target,
                body,
                in_view,
                see,
            } => {
                let view = self.view.as_ref().filter(|_| *in_view);
                search(engine, target, body, view, *see).await?
            }
            Step::Scan { target, query } => scan(engine, target, query).await?,
            Step::OpenView(target) => self.open_view(target).await?,
            Step::CloseView => match self.view.take() {
                Some(view) => json!(engine.close_view(&view).await?),
                None => Value::Null,
            },
            Step::Alias { index, body } => {
                let body = body.as_object().cloned().unwrap_or_default();
                let add = AliasAction::Add {
                    target: Target::index(index),
                    alias: ALIAS.into(),
                    body,
                };
                json!(engine.alter(Alteration::UpdateAliases(vec![add])).await?.changed)
            }
            Step::Merge => {
                let refreshed = engine.refresh(&everything(), None).await?;
                let merge = Alteration::ForceMerge {
                    target: everything(),
                    max_num_segments: 1,
                    only_expunge_deletes: false,
                };
                engine.alter(merge).await?;
                json!(refreshed)
            }
            Step::Restart => self.start_again().await?,
            Step::Indices => {
                let infos = engine.indices(&everything()).await?;
                let row = |info: &IndexInfo| {
                    (
                        info.name.as_str().to_owned(),
                        json!({ "mappings": info.mappings, "aliases": info.aliases }),
                    )
                };
                Value::Object(infos.iter().map(row).collect())
            }
        })
    }

    /// Opens a view in place of the one that is open. Answers its indices.
    async fn open_view(&mut self, target: &Target) -> Result<Value> {
        if let Some(old) = self.view.take() {
            self.engine.close_view(&old).await?;
        }
        let view = self.engine.open_view(target, KEEP, ViewPromise::MomentPerShard).await?;
        let mut indices: Vec<_> = view.indices.iter().map(|name| name.as_str().to_owned()).collect();
        indices.sort();
        self.view = Some(view.id);
        Ok(json!(indices))
    }

    /// Restarts the engine, where it can. After a start searches see all that is durable, and views are gone.
    async fn start_again(&mut self) -> Result<Value> {
        let refreshed = self.engine.refresh(&everything(), None).await?;
        if let Some(view) = self.view.take() {
            self.engine.close_view(&view).await?;
        }
        if let Some(restart) = self.restart {
            restart();
        }
        Ok(json!(refreshed))
    }
}

/// All indices of the driver.
fn everything() -> Target {
    Target::of(vec!["random_*".into()])
}

/// One decision. Where one write is not done, none is, and what the others would have come to is nobody's promise.
async fn decide(engine: &dyn Engine, writes: &[Write], known: &mut Vec<Stamp>) -> Result<Value> {
    let Some(atomic) = engine.atomic() else {
        return Ok(Value::Null);
    };
    let mut plan = |_: &mut dyn Newest| Ok(Plan::of(writes.to_vec()));
    let decided = atomic.decide(&mut plan, Refresh::No.into()).await?;
    if !decided.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_))) {
        return Ok(json!("nothing was written"));
    }
    // Whoever refreshes one index of a change may have to show the others too: all are.
    engine.refresh(&everything(), None).await?;
    Ok(outcomes(&decided.outcomes, known))
}

/// A search of a target, or of a view as a whole: it may have been opened on other indices.
async fn search(engine: &dyn Engine, target: &Target, body: &Value, view: Option<&String>, see: See) -> Result<Value> {
    let mut request = request(body);
    let mut target = target.clone();
    if let Some(view) = view {
        request.view = Some(view.clone());
        target = Target::of(Vec::new());
    }
    let answer = engine.search(&target, request, see).await?;
    let mut hits: Vec<Value> = answer.hits.hits.iter().map(hit).collect();
    settle_ties(&mut hits);
    let total = answer.hits.total.map(|t| (t.value, t.exact));
    let aggs = answer.aggregations.map(|aggs| aggs.tree());
    Ok(json!({ "total": total, "hits": hits, "aggs": aggs, "shards": answer.shards }))
}

/// The documents of a scan in the order of their text: a scan promises none.
async fn scan(engine: &dyn Engine, target: &Target, query: &Value) -> Result<Value> {
    let query = dsl::query::parse_query_bytes(query.to_string().as_bytes(), model::Dialect::default())?;
    let docs: Vec<_> = engine.scan(target, query, See::Plain, Barrier::None).await?.collect().await;
    let rows = docs.iter().map(|doc| doc.as_ref().map_or_else(refusal, document));
    let mut rows: Vec<Value> = rows.collect();
    rows.sort_by_key(Value::to_string);
    Ok(Value::Array(rows))
}

fn refusal(error: &Error) -> Value {
    json!({ "refused": error.kind().wire() })
}

fn stamp(stamp: Stamp) -> Value {
    json!([stamp.seq_no, stamp.primary_term, stamp.version])
}

fn outcomes(outcomes: &[Outcome], known: &mut Vec<Stamp>) -> Value {
    let row = |outcome: &Outcome| match outcome {
        Outcome::Written(done) => {
            known.push(done.stamp);
            let source = done.source.as_ref().map(|source| source.parse().unwrap_or(Value::Null));
            json!([
                format!("{:?}", done.effect),
                done.at.index.as_str(),
                &*done.at.id.id,
                stamp(done.stamp),
                source,
                done.forced_refresh
            ])
        }
        Outcome::Conflict(conflict) => json!({ "conflict": format!("{conflict:?}") }),
        Outcome::Refused(error) => refusal(error),
        Outcome::Held(body) => json!({ "held": body }),
        Outcome::Unknown => json!("unknown"),
    };
    outcomes.iter().map(row).collect()
}

fn document(doc: &Document) -> Value {
    let source = doc.source.parse().unwrap_or(Value::Null);
    let mark = doc.hidden.as_ref().map(|mark| json!([mark.body, mark.visible, mark.held]));
    // The source under a tombstone is nobody's.
    let source = if doc.hidden.as_ref().is_some_and(|mark| !mark.visible) {
        Value::Null
    } else {
        source
    };
    json!([
        doc.at.index.as_str(),
        &*doc.at.id.id,
        stamp(doc.stamp),
        source,
        doc.routing,
        mark
    ])
}

/// The type decides the sort key of a missing number: the largest or smallest of 32 or 64
/// bits.
fn sort_key(key: &Value) -> Value {
    match key.as_i64() {
        Some(n) if [i64::MAX, i64::MIN, i64::from(i32::MAX), i64::from(i32::MIN)].contains(&n) => json!("missing"),
        _ => key.clone(),
    }
}

fn hit(hit: &dsl::search::Hit) -> Value {
    let sort: Vec<Value> = hit.sort.iter().map(sort_key).collect();
    json!([sort, hit.index.as_str(), &*hit.id.id, hit.stamp.map(stamp)])
}

/// Hits that no key tells apart may stand in any order.
fn settle_ties(hits: &mut [Value]) {
    let keys: Vec<String> = hits.iter().map(|hit| hit[0].to_string()).collect();
    let mut start = 0;
    while start < hits.len() {
        let end = (start..hits.len()).find(|at| keys[*at] != keys[start]).unwrap_or(hits.len());
        hits[start..end].sort_by_key(Value::to_string);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_reproduction() {
        let steps = |seed| {
            let mut random = Random::new(seed);
            (0..40)
                .map(|_| format!("{:?}", Step::random(&mut random, &[])))
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }
}
