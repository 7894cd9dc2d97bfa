//! `profile` of queries: what each clause took at what, and how often.
//!
//! A [`ProfiledNode`] stands before a compiled clause, and its scorers before those of the clause; they look at the clock
//! around each call. A clause's times have those of the clauses below it in them. It hides what would let the clauses
//! above pass its scorer by (bits, pruning, counts), so that a profiled search takes the long way. Names of clauses are
//! those that readers of such profiles know; ours stands where there is none. Not here: aggregations (`aggs::profile`).

use super::explain::Explained;
use super::node::{Node, Shared};
use dsl::query::{Clause, Query};
use model::Result;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet};

/// One sort of call: its time in nanoseconds, and how often.
#[derive(Default)]
struct CallTimer {
    nanos: AtomicU64,
    count: AtomicU64,
}

impl CallTimer {
    fn time<T>(&self, f: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let out = f();
        self.add(started.elapsed());
        out
    }
    fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Clocks {
    create_weight: CallTimer,
    build_scorer: CallTimer,
    next_doc: CallTimer,
    advance: CallTimer,
    score: CallTimer,
    /// Steps that other engines time and this one does not take.
    none: CallTimer,
}

impl Clocks {
    fn all(&self) -> [(&'static str, &CallTimer); 10] {
        [
            ("set_min_competitive_score", &self.none),
            ("match", &self.none),
            ("shallow_advance", &self.none),
            ("next_doc", &self.next_doc),
            ("compute_max_score", &self.none),
            ("advance", &self.advance),
            ("score", &self.score),
            ("build_scorer", &self.build_scorer),
            ("create_weight", &self.create_weight),
            ("count_weight", &self.none),
        ]
    }
}

/// A clause between two looks at the clock.
pub(crate) struct ProfiledNode {
    inner: Shared,
    kind: &'static str,
    what: String,
    clocks: Arc<Clocks>,
    below: Vec<Arc<ProfiledNode>>,
}

impl ProfiledNode {
    /// `took`: its compilation.
    pub(crate) fn new(query: &Query, inner: Shared, below: Vec<Arc<ProfiledNode>>, took: Duration) -> Arc<ProfiledNode> {
        let (kind, what) = describe(&query.clause, &inner, &below);
        ProfiledNode::with_names(kind, what, inner, below, took)
    }
    /// One term of a text.
    pub(crate) fn of_term(inner: Shared) -> Arc<ProfiledNode> {
        let what = inner.as_term().map(|term| term.what.clone()).unwrap_or_default();
        ProfiledNode::with_names("TermQuery", what, inner, Vec::new(), Duration::ZERO)
    }
    fn with_names(
        kind: &'static str,
        what: String,
        inner: Shared,
        below: Vec<Arc<ProfiledNode>>,
        took: Duration,
    ) -> Arc<ProfiledNode> {
        let clocks = Arc::new(Clocks::default());
        clocks.create_weight.add(took);
        Arc::new(ProfiledNode {
            inner,
            kind,
            what,
            clocks,
            below,
        })
    }
    /// As in an answer.
    pub(crate) fn render(&self) -> Value {
        let mut breakdown = Map::new();
        let mut all = 0;
        for (name, clock) in self.clocks.all() {
            let nanos = clock.nanos.load(Ordering::Relaxed);
            breakdown.insert(name.to_owned(), nanos.into());
            breakdown.insert(format!("{name}_count"), clock.count.load(Ordering::Relaxed).into());
            all += nanos;
        }
        let mut out = json!({ "type": self.kind, "description": self.what, "time_in_nanos": all, "breakdown": breakdown });
        if !self.below.is_empty() {
            out["children"] = self.below.iter().map(|node| node.render()).collect();
        }
        out
    }
}

impl Node for ProfiledNode {
    fn says(&self) -> Option<String> {
        self.inner.says()
    }
    fn is_several(&self) -> bool {
        self.inner.is_several()
    }
    fn squares(&self) -> f32 {
        self.inner.squares()
    }
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let inner = self.clocks.build_scorer.time(|| self.inner.scorer(segment))?;
        Ok(Box::new(ProfiledScorer {
            inner,
            clocks: self.clocks.clone(),
        }))
    }
    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        self.inner.explain(segment, doc)
    }
    fn most_score(&self) -> Option<f32> {
        self.inner.most_score()
    }
    fn is_none(&self) -> bool {
        self.inner.is_none()
    }
    fn is_absent(&self) -> bool {
        self.inner.is_absent()
    }
}

struct ProfiledScorer {
    inner: Box<dyn Scorer>,
    clocks: Arc<Clocks>,
}

impl DocSet for ProfiledScorer {
    fn advance(&mut self) -> DocId {
        self.clocks.next_doc.time(|| self.inner.advance())
    }
    fn seek(&mut self, target: DocId) -> DocId {
        self.clocks.advance.time(|| self.inner.seek(target))
    }
    fn doc(&self) -> DocId {
        self.inner.doc()
    }
    fn size_hint(&self) -> u32 {
        self.inner.size_hint()
    }
    fn cost(&self) -> u64 {
        self.inner.cost()
    }
}

impl Scorer for ProfiledScorer {
    fn score(&mut self) -> f32 {
        self.clocks.score.time(|| self.inner.score())
    }
}

/// The name of a clause's sort, and the clause in words.
fn describe(clause: &Clause, node: &Shared, below: &[Arc<ProfiledNode>]) -> (&'static str, String) {
    let list = |between: &str| below.iter().map(|node| node.what.as_str()).collect::<Vec<_>>().join(between);
    let first = || below.first().map(|node| node.what.clone()).unwrap_or_default();
    if node.is_none() {
        return ("MatchNoDocsQuery", "MatchNoDocsQuery".to_owned());
    }
    match clause {
        Clause::MatchAll => ("MatchAllDocsQuery", "*:*".to_owned()),
        _ if node.as_term().is_some() => {
            let what = node.as_term().map(|term| term.what.clone());
            ("TermQuery", what.unwrap_or_default())
        }
        Clause::Match(_) | Clause::MatchBoolPrefix(_) | Clause::QueryString(_) | Clause::SimpleQueryString(_)
            if !below.is_empty() =>
        {
            ("BooleanQuery", list(" "))
        }
        Clause::Bool(q) => {
            let marks = [
                ("+", q.must.len()),
                ("#", q.filter.len()),
                ("", q.should.len()),
                ("-", q.must_not.len()),
            ];
            let marks = marks.into_iter().flat_map(|(mark, count)| std::iter::repeat_n(mark, count));
            let parts = marks.zip(below).map(|(mark, node)| format!("{mark}{}", node.what));
            ("BooleanQuery", parts.collect::<Vec<_>>().join(" "))
        }
        Clause::DisMax { .. } | Clause::MultiMatch(_) if !below.is_empty() => {
            ("DisjunctionMaxQuery", format!("({})", list(" | ")))
        }
        Clause::ConstantScore { .. } => ("ConstantScoreQuery", format!("ConstantScore({})", first())),
        Clause::Boosting { .. } => ("BoostingQuery", list(" ~ ")),
        clause => {
            let what = Query::from(clause.clone()).render().to_string();
            (plain(clause), what)
        }
    }
}

/// The query class of a clause that is described by its own JSON.
fn plain(clause: &Clause) -> &'static str {
    match clause {
        Clause::Term(_) | Clause::Match(_) | Clause::Range(_) => "IndexOrDocValuesQuery",
        Clause::Terms(_) | Clause::KeySet(_) => "TermInSetQuery",
        Clause::NullValue { .. } => "TermQuery",
        Clause::Exists { .. } => "DocValuesFieldExistsQuery",
        Clause::Prefix(_) | Clause::Wildcard(_) | Clause::Regexp(_) | Clause::Fuzzy(_) => "MultiTermQueryConstantScoreWrapper",
        Clause::Ids { .. } => "MultiTermQueryConstantScoreBlendedWrapper",
        Clause::MatchPhrase(_) => "PhraseQuery",
        Clause::MatchPhrasePrefix(_) => "MultiPhraseQuery",
        Clause::MultiMatch(_) => "DisjunctionMaxQuery",
        Clause::FunctionScore(_) => "FunctionScoreQuery",
        Clause::ScriptScore { .. } => "ScriptScoreQuery",
        Clause::Script { .. } => "ScriptQuery",
        Clause::Nested(_) => "ToParentBlockJoinQuery",
        Clause::HasChild(_) | Clause::HasParent(_) => "GlobalOrdinalsQuery",
        Clause::Span(_) => "SpanQuery",
        Clause::Intervals { .. } => "IntervalQuery",
        Clause::TermsSet(_) => "CoveringQuery",
        Clause::MoreLikeThis(_) => "MoreLikeThisQuery",
        Clause::Geo(_) => "IndexOrDocValuesQuery",
        Clause::DistanceFeature(_) => "LongDistanceFeatureQuery",
        _ => "BooleanQuery",
    }
}
