//! The same searches by tantivy's own collectors in this process, without a server: what the server adds.
//!
//! The flat commits are loaded into the server and into an index of tantivy, and both are merged to one segment. tantivy gives the best
//! ten and the number of matches, as an answer of the server does. The best ten alone are measured beside them: tantivy prunes then, and counts nothing.
//!
//! Not here: answers (`tests/tests/relations.rs` and the golden answers), another server (`size`).

use super::size::{Class, classes, load_copies, send};
use super::{folder, started};
use crate::commits;
use crate::load::{Http, median, run};
use crate::report::{Bar, Report};
use crate::{Options, say};
use serde_json::{Value, json};
use std::ops::Bound;
use std::path::Path;
use std::time::{Duration, Instant};
use tantivy::aggregation::{AggContextParams, AggregationCollector};
use tantivy::collector::{Collector, Count, TopDocs};
use tantivy::query::{AllQuery, BooleanQuery, ConstScoreQuery, Occur, PhraseQuery, Query, RangeQuery, RegexQuery, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, NumericOptions, STRING, Schema, TEXT};
use tantivy::{Index, IndexWriter, Order, Searcher, TantivyDocument, Term};

/// Copies of the commits unless `--copies` says otherwise: 413,280 documents.
const COPIES: usize = 10;
/// The most microseconds that the server may add to a search.
const ADDED_US: f64 = 150.0;

/// The fields of a commit.
struct Fields {
    author_id: Field,
    repo: Field,
    subject: Field,
    date: Field,
    n: Field,
}

/// Loads both, and asks each class.
pub(super) fn in_process(options: &Options, report: &mut Report) {
    let folder = folder();
    let server = started(folder.path());
    let address = server.address("");
    let documents = commits::flat();
    let copies = options.copies.unwrap_or(COPIES);
    let mut http = Http::open(address);
    send(&mut http, "PUT", "/size", &commits::flat_index().to_string());
    load_copies(address, &documents, 0..copies);
    send(&mut http, "POST", "/size/_forcemerge?max_num_segments=1", "");
    let (searcher, fields) = load(&folder.path().join("tantivy"), &documents, copies);
    say(&format!("{} documents in one segment each", copies * documents.len()));
    let repo = documents[documents.len() / 2]["repo"].as_str().unwrap_or_default();
    let wanted = classes(&documents)
        .into_iter()
        .filter(|class| class.name.contains(&options.only));
    for class in wanted {
        let Some(search) = Search::of(class.name, &fields, repo) else {
            continue;
        };
        ask(options, report, address, &class, &search, &searcher);
    }
}

fn ask(options: &Options, report: &mut Report, address: &str, class: &Class, search: &Search, searcher: &Searcher) {
    let by_http = |_: usize, _: u64, out: &mut Vec<u8>| class.search(out);
    let (mut ours, mut theirs, mut top) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        ours.push(run(address, options.load(1), &by_http).p50_us);
        theirs.push(p50_us(options, &|| search.run(searcher, true)));
        if search.is_top() {
            top.push(p50_us(options, &|| search.run(searcher, false)));
        }
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let alone = match top.is_empty() {
        true => String::new(),
        false => format!(", without the count {:.0} µs", median(top)),
    };
    report.row(
        &format!("in process: {}", class.name),
        &format!("p50 {ours:.0} µs"),
        &format!("tantivy {theirs:.0} µs{alone}"),
        ours - theirs,
        "µs",
        Bar::AtMost(ADDED_US),
    );
}

/// The median time of a search that is run again and again, in microseconds.
fn p50_us(options: &Options, search: &dyn Fn()) -> f64 {
    search();
    let end = Instant::now() + Duration::from_secs_f64(options.secs);
    let mut times = Vec::new();
    while times.is_empty() || Instant::now() < end {
        let begun = Instant::now();
        search();
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    median(times)
}

/// The documents in one segment of tantivy.
fn load(folder: &Path, documents: &[Value], copies: usize) -> (Searcher, Fields) {
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let mut schema = Schema::builder();
    let number = || NumericOptions::default().set_fast().set_indexed();
    let fields = Fields {
        author_id: schema.add_text_field("author_id", STRING.set_fast("raw")),
        repo: schema.add_text_field("repo", STRING.set_fast("raw")),
        subject: schema.add_text_field("subject", TEXT),
        date: schema.add_i64_field("date", number()),
        n: schema.add_i64_field("n", number()),
    };
    let index = Index::create_in_dir(folder, schema.build()).expect("the index can be made");
    let mut writer: IndexWriter = index.writer_with_num_threads(1, 256 << 20).expect("it can be written");
    for copy in 0..copies {
        for document in documents {
            writer.add_document(fields.document(document, copy)).expect("it is taken");
        }
    }
    writer.commit().expect("it is written");
    let segments = index.searchable_segment_ids().expect("it has segments");
    if segments.len() > 1 {
        writer.merge(&segments).wait().expect("they are merged");
    }
    writer.wait_merging_threads().expect("merges end");
    let searcher = index.reader().expect("it can be read").searcher();
    assert_eq!(searcher.segment_readers().len(), 1, "both have one segment");
    assert_eq!(searcher.num_docs(), (copies * documents.len()) as u64);
    (searcher, fields)
}

impl Fields {
    fn document(&self, of: &Value, copy: usize) -> TantivyDocument {
        let text = |name: &str| of[name].as_str().unwrap_or_default();
        let mut out = TantivyDocument::new();
        out.add_text(self.author_id, text("author_id"));
        out.add_text(self.repo, text("repo"));
        out.add_text(self.subject, text("subject"));
        out.add_i64(self.date, of["date"].as_i64().unwrap_or_default() + copy as i64);
        out.add_i64(self.n, of["n"].as_i64().unwrap_or_default());
        out
    }
}

/// How the best are chosen, or what is made of all matches.
enum Collect {
    /// The best ten by score, from this one on.
    Best(usize),
    /// The newest ten.
    Newest,
    Aggregations(Value),
}

/// A class as tantivy runs it.
struct Search {
    query: Box<dyn Query>,
    collect: Collect,
}

impl Search {
    /// `None`: tantivy has no collector for the class.
    fn of(name: &str, fields: &Fields, repo: &str) -> Option<Search> {
        let term = |field: Field, text: &str| Term::from_field_text(field, text);
        let word = |text: &str| -> Box<dyn Query> {
            let option = IndexRecordOption::WithFreqs;
            Box::new(TermQuery::new(term(fields.subject, text), option))
        };
        let all = |occur: Occur, words: &[&str]| -> Box<dyn Query> {
            Box::new(BooleanQuery::new(words.iter().map(|text| (occur, word(text))).collect()))
        };
        let phrase = |words: &[&str]| -> Box<dyn Query> {
            Box::new(PhraseQuery::new(
                words.iter().map(|text| term(fields.subject, text)).collect(),
            ))
        };
        let filtered = |text: &str, filter: Box<dyn Query>| -> Box<dyn Query> {
            let filter = Box::new(ConstScoreQuery::new(filter, 0.0));
            Box::new(BooleanQuery::new(vec![(Occur::Must, word(text)), (Occur::Must, filter)]))
        };
        let date = |at: i64| Term::from_field_i64(fields.date, at);
        let years = RangeQuery::new(Bound::Included(date(1_500_000_000)), Bound::Excluded(date(1_600_000_000)));
        let by_repo = Box::new(TermQuery::new(term(fields.repo, repo), IndexRecordOption::Basic));
        let agg = |agg: Value| Collect::Aggregations(json!({ "a": agg }));
        let by_author = json!({ "terms": { "field": "author_id" } });
        let mean = json!({ "terms": { "field": "repo" }, "aggs": { "s": { "avg": { "field": "n" } } } });
        let (query, collect): (Box<dyn Query>, Collect) = match name {
            "term" | "all hits counted" => (word("fix"), Collect::Best(0)),
            "and" => (all(Occur::Must, &["add", "test"]), Collect::Best(0)),
            "or" => (all(Occur::Should, &["merge", "branch", "release"]), Collect::Best(0)),
            "phrase" => (phrase(&["pull", "request"]), Collect::Best(0)),
            "phrase, rare" => (phrase(&["race", "condition"]), Collect::Best(0)),
            "sort by date" => (word("update"), Collect::Newest),
            "sort all by date" => (Box::new(AllQuery), Collect::Newest),
            "filter" => (filtered("test", by_repo), Collect::Best(0)),
            "range filter" => (filtered("add", Box::new(years)), Collect::Best(0)),
            "prefix" => (
                Box::new(RegexQuery::from_pattern("a.*", fields.author_id).expect("it is a pattern")),
                Collect::Best(0),
            ),
            "page 100" => (word("fix"), Collect::Best(1000)),
            "terms agg" => (word("add"), agg(by_author)),
            "terms agg with avg, all" => (Box::new(AllQuery), agg(mean)),
            "cardinality" => (word("add"), agg(json!({ "cardinality": { "field": "author_id" } }))),
            _ => return None,
        };
        Some(Search { query, collect })
    }

    /// Does it choose the best?
    fn is_top(&self) -> bool {
        !matches!(self.collect, Collect::Aggregations(_))
    }

    /// Runs it. `counts`: all matches are counted, too.
    fn run(&self, searcher: &Searcher, counts: bool) {
        let found = match &self.collect {
            Collect::Best(from) => self.top(searcher, TopDocs::with_limit(10).and_offset(*from).order_by_score(), counts),
            Collect::Newest => {
                let newest = TopDocs::with_limit(10).order_by_fast_field::<i64>("date", Order::Desc);
                self.top(searcher, newest, counts)
            }
            Collect::Aggregations(aggs) => {
                let aggs = serde_json::from_value(aggs.clone()).expect("they are aggregations of tantivy");
                let collector = AggregationCollector::from_aggs(aggs, AggContextParams::default());
                searcher.search(&self.query, &collector).map(|results| results.0.len())
            }
        };
        assert!(found.expect("tantivy answers") > 0, "a class finds something");
    }
    /// How many of the best were found.
    fn top<T: Send + 'static>(
        &self,
        searcher: &Searcher,
        best: impl Collector<Fruit = Vec<T>>,
        counts: bool,
    ) -> tantivy::Result<usize> {
        match counts {
            true => searcher
                .search(&self.query, &(Count, best))
                .map(|(count, best)| count.min(best.len())),
            false => searcher.search(&self.query, &best).map(|best| best.len()),
        }
    }
}
