//! Span and interval queries: clauses compiled to a tree of matchers, one per segment, and their scores.
//!
//! Not here: what lists of positions make of each other (`positions`).

use super::Planner;
use super::boolean::Shared;
use super::explain::Explained;
use super::field::{Target, query_shard, text_of};
use super::node::{NoScorer, Node, broken};
use super::positions::{self, Part, Span};
use super::scripts::Failure;
use super::similarity::{Counted, Rarity, Similarity};
use super::term::norms;
use super::{Fuzz, Pattern};
use crate::interrupt::Interrupt;
use dsl::query::script_source::ScriptSource;
use dsl::query::{
    Clause, IntervalFilter, IntervalMode, IntervalRelation, IntervalRule, IntervalShape, IntervalSource, Query, SpanQuery,
};
use model::{Error, ErrorKind, Result};
use segment::segment_view::SegmentView;
use segment::segment_view::postings;
use std::collections::BTreeMap;
use std::sync::Arc;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// What a matcher does with the lists of the matchers below it.
#[derive(Clone, PartialEq)]
enum Op {
    /// Any of these terms; nothing is below.
    Words(Vec<Term>),
    Near {
        slop: i64,
        in_order: bool,
        gaps: Vec<(usize, i64)>,
    },
    Any,
    First(i64),
    Not {
        pre: i64,
        post: i64,
    },
    Containing,
    Within,
    AnyMinimal,
    Block,
    Ordered,
    Unordered,
    Repeated(usize),
    /// So many positions before count as part of it.
    Extended(i64),
    MaxGaps(i64),
    Related(IntervalRelation),
    Script(Arc<IntervalScript>),
}

/// A matcher that is not bound to a segment yet.
#[derive(Clone, PartialEq)]
struct Tree {
    op: Op,
    below: Vec<Tree>,
}

impl Tree {
    fn words(terms: Vec<Term>) -> Tree {
        Tree {
            op: Op::Words(terms),
            below: Vec::new(),
        }
    }
    fn open(&self, segment: &SegmentView) -> Result<Matcher> {
        let mut sets = Vec::new();
        if let Op::Words(terms) = &self.op {
            for term in terms {
                sets.extend(postings(segment, term, IndexRecordOption::WithFreqsAndPositions)?);
            }
        }
        Ok(Matcher {
            op: self.op.clone(),
            below: self.below.iter().map(|t| t.open(segment)).collect::<Result<_>>()?,
            sets,
        })
    }
    /// The fewest positions that a match has.
    fn extent(&self) -> i64 {
        let mut below = self.below.iter().map(Tree::extent);
        match &self.op {
            Op::Words(_) => 1,
            Op::Any | Op::AnyMinimal => below.min().unwrap_or(0),
            Op::Block | Op::Ordered | Op::Unordered | Op::Near { .. } => below.sum(),
            Op::Repeated(times) => below.next().unwrap_or(0) * i64::try_from(*times).unwrap_or(1),
            Op::Extended(before) => below.next().unwrap_or(0) + before,
            _ => below.next().unwrap_or(0),
        }
    }
}

/// A matcher in one segment.
struct Matcher {
    op: Op,
    below: Vec<Matcher>,
    sets: Vec<SegmentPostings>,
}

impl Matcher {
    /// The first document from `target` on that comes into question.
    fn seek(&mut self, target: DocId) -> DocId {
        match self.op {
            Op::Words(_) => {
                for set in &mut self.sets {
                    if set.doc() < target {
                        set.seek(target);
                    }
                }
                self.sets.iter().map(DocSet::doc).min().unwrap_or(TERMINATED)
            }
            Op::Any | Op::AnyMinimal => self.below.iter_mut().map(|m| m.seek(target)).min().unwrap_or(TERMINATED),
            // What is looked at beside the first one decides nothing about documents.
            Op::Not { .. }
            | Op::Related(
                IntervalRelation::NotContaining | IntervalRelation::NotContainedBy | IntervalRelation::NotOverlapping,
            ) => self.below.first_mut().map_or(TERMINATED, |m| m.seek(target)),
            _ => {
                let mut candidate = target;
                'candidates: loop {
                    if self.below.is_empty() {
                        return TERMINATED;
                    }
                    for matcher in &mut self.below {
                        let at = matcher.seek(candidate);
                        if at == TERMINATED {
                            return TERMINATED;
                        }
                        if at > candidate {
                            candidate = at;
                            continue 'candidates;
                        }
                    }
                    return candidate;
                }
            }
        }
    }

    /// What it finds in a document.
    fn load(&mut self, doc: DocId) -> Result<Vec<Span>> {
        if let Op::Words(_) = self.op {
            let mut all = Vec::new();
            let mut some = Vec::new();
            for set in &mut self.sets {
                if set.doc() < doc {
                    set.seek(doc);
                }
                if set.doc() == doc {
                    set.append_positions_with_offset(0, &mut some);
                    all.extend(some.drain(..).map(Span::word));
                }
            }
            all.sort_by_key(|s| s.start);
            return Ok(all);
        }
        let lists: Vec<Vec<Span>> = self.below.iter_mut().map(|m| m.load(doc)).collect::<Result<_>>()?;
        let empty = Vec::new();
        let first = lists.first().unwrap_or(&empty);
        let second = lists.get(1).unwrap_or(&empty);
        Ok(match &self.op {
            Op::Words(_) => empty,
            Op::Near {
                slop,
                in_order: true,
                gaps,
            } => {
                let mut parts: Vec<Part<'_>> = Vec::new();
                for (i, list) in lists.iter().enumerate() {
                    parts.extend(
                        gaps.iter()
                            .filter(|(before, _)| *before == i)
                            .map(|(_, width)| Part::Gap(*width)),
                    );
                    parts.push(Part::Spans(list));
                }
                let behind = gaps.iter().filter(|(before, _)| *before >= lists.len());
                parts.extend(behind.map(|(_, width)| Part::Gap(*width)));
                positions::near_in_order(&parts, *slop)
            }
            Op::Near { slop, .. } => positions::near_in_any_order(&lists, *slop),
            Op::Any => positions::any(&lists),
            Op::First(end) => first.iter().copied().filter(|s| s.end <= *end).collect(),
            Op::Not { pre, post } => positions::without(first, second, *pre, *post),
            Op::Containing => positions::containing(first, second),
            Op::Within => positions::within(first, second),
            Op::AnyMinimal => positions::any_minimal(&lists),
            Op::Block => positions::block(&lists),
            Op::Ordered => positions::ordered(&lists),
            Op::Unordered => positions::unordered(&lists),
            Op::Repeated(times) => positions::repeated(first, *times),
            Op::Extended(before) => first
                .iter()
                .map(|s| Span {
                    start: (s.start - before).max(0),
                    ..*s
                })
                .collect(),
            Op::MaxGaps(max) => first.iter().copied().filter(|s| s.gaps <= *max).collect(),
            Op::Related(relation) => positions::related(first, second, *relation),
            Op::Script(script) => {
                let mut kept = Vec::new();
                for span in first {
                    if script.accepts(*span)? {
                        kept.push(*span);
                    }
                }
                kept
            }
        })
    }
}

/// A script that chooses intervals.
struct IntervalScript {
    program: script::Program,
    params: script::Params,
    interrupt: Interrupt,
}

impl PartialEq for IntervalScript {
    fn eq(&self, other: &IntervalScript) -> bool {
        std::ptr::eq(self, other)
    }
}

impl IntervalScript {
    fn accepts(&self, span: Span) -> Result<bool> {
        self.interrupt.check_run()?;
        let mut host = AtInterval(span, &self.interrupt);
        let value = self.program.run(&mut script::Env {
            params: &self.params,
            host: &mut host,
            budget: script::Budget::default(),
        })?;
        Ok(matches!(value, script::Value::Bool(true)))
    }
}

/// What a script sees of an interval.
struct AtInterval<'a>(Span, &'a Interrupt);

impl script::Host for AtInterval<'_> {
    fn interrupted(&self) -> Result<()> {
        self.1.check()
    }
    fn variable(&mut self, name: &str) -> Option<script::Value> {
        let Span { start, end, gaps } = self.0;
        (name == "interval")
            .then(|| script::Value::from_json(&serde_json::json!({ "start": start, "end": end - 1, "gaps": gaps })))
    }
}

/// How found positions become a score.
#[derive(Clone)]
enum Scoring {
    /// The similarity over the frequency; every span counts 1 / (1 + how much it was stretched).
    Spans(Similarity),
    /// Saturation of the frequency; every interval counts by how much longer it is than it need be.
    Intervals { boost: f32, extent: i64 },
}

impl Scoring {
    fn frequency(&self, found: &[Span]) -> f32 {
        let mut freq = 0f32;
        for span in found {
            match self {
                Scoring::Spans(_) => freq += 1.0 / (1.0 + span.gaps as f32),
                Scoring::Intervals { extent, .. } => freq += 1.0 / (span.length() - extent + 1).max(1) as f32,
            }
        }
        freq
    }
    fn score(&self, freq: f32, norm: u8) -> f32 {
        match self {
            Scoring::Spans(similarity) => similarity.score(freq, norm),
            Scoring::Intervals { boost, .. } => boost * (1.0 - 1.0 / (1.0 + freq)),
        }
    }
    fn explain(&self, what: &str, freq: f32, norm: u8) -> Explained {
        match self {
            Scoring::Spans(similarity) => similarity.explain(what, Counted::Phrase, freq, norm),
            Scoring::Intervals { boost, .. } => Explained::new(
                self.score(freq, norm),
                "Saturation function on interval frequency, computed as w * S / (S + k) from:",
            )
            .of(vec![
                Explained::new(*boost, "w, weight of this function"),
                Explained::new(
                    1.0,
                    "k, pivot feature value that would give a score contribution equal to w/2",
                ),
                Explained::new(freq, format!("S, the sloppy frequency of the interval query {what}")),
            ]),
        }
    }
}

struct PositionalNode {
    tree: Tree,
    field: tantivy::schema::Field,
    scoring: Scoring,
    what: String,
    failure: Failure,
}

struct PositionalScorer {
    matcher: Matcher,
    scoring: Scoring,
    norms: Option<FieldNormReader>,
    failure: Failure,
    doc: DocId,
    freq: f32,
}

impl PositionalScorer {
    fn settle(&mut self, mut candidate: DocId) -> DocId {
        loop {
            candidate = self.matcher.seek(candidate);
            if candidate == TERMINATED {
                break;
            }
            match self.matcher.load(candidate) {
                Ok(found) if !found.is_empty() => {
                    self.freq = self.scoring.frequency(&found);
                    break;
                }
                Ok(_) => candidate += 1,
                Err(error) => {
                    self.failure.note(error);
                    candidate = TERMINATED;
                    break;
                }
            }
        }
        self.doc = candidate;
        candidate
    }
    fn norm(&self) -> u8 {
        self.norms.as_ref().map_or(1, |n| n.fieldnorm_id(self.doc))
    }
}

impl DocSet for PositionalScorer {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.settle(self.doc + 1)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target { self.doc } else { self.settle(target) }
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        1
    }
}

impl Scorer for PositionalScorer {
    fn score(&mut self) -> f32 {
        self.scoring.score(self.freq, self.norm())
    }
}

impl PositionalNode {
    fn open(&self, segment: &SegmentView) -> Result<PositionalScorer> {
        let mut scorer = PositionalScorer {
            matcher: self.tree.open(segment)?,
            scoring: self.scoring.clone(),
            norms: norms(segment, self.field)?,
            failure: self.failure.clone(),
            doc: 0,
            freq: 0.0,
        };
        scorer.settle(0);
        Ok(scorer)
    }
}

impl Node for PositionalNode {
    fn squares(&self) -> f32 {
        match &self.scoring {
            Scoring::Spans(similarity) => similarity.squares(),
            Scoring::Intervals { boost, .. } => boost.powi(2),
        }
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let scorer = self.open(segment)?;
        Ok(if scorer.doc == TERMINATED {
            Box::new(NoScorer)
        } else {
            Box::new(scorer)
        })
    }
    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let mut scorer = self.open(segment)?;
        if scorer.doc != TERMINATED && scorer.seek(doc) == doc {
            let what = format!("{} in {doc}", self.what);
            return Ok(self.scoring.explain(&what, scorer.freq, scorer.norm()));
        }
        Ok(Explained::no_match(format!("no matching positions of {}", self.what)))
    }
}

impl Planner<'_> {
    pub(super) fn span(&self, q: &SpanQuery, boost: f32) -> Result<Shared> {
        if let Some((one, other)) = q.divided() {
            let reason = format!("Clauses must have same field: [{one}] and [{other}]");
            return Err(self.failed_to_create(Error::illegal(reason)));
        }
        let Some(target) = Target::of(self.view, q.field()) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field())));
        };
        let mut terms = Vec::new();
        let Some(tree) = self.span_tree(q, &mut terms)? else {
            return Ok(self.nothing(format!("no span in [{}]", q.field())));
        };
        terms.sort_unstable();
        terms.dedup();
        let mut rarities = Vec::new();
        for term in &terms {
            let rarity: Rarity = self.statistics.rarity(term, term.value().as_str().unwrap_or_default())?;
            if rarity.doc_freq > 0 {
                rarities.push(rarity);
            }
        }
        if rarities.is_empty() {
            return Ok(self.nothing("no matching term"));
        }
        let field = self.statistics.field(&target)?;
        Ok(Arc::new(PositionalNode {
            tree,
            field: target.slot.field,
            scoring: Scoring::Spans(self.similarity(&target, field, rarities, boost * self.boost_of_several(&target))),
            what: format!("spans of {}", q.field()),
            failure: self.failure(),
        }))
    }

    /// A span's matcher; `None` if it can never match.
    fn span_tree(&self, q: &SpanQuery, terms: &mut Vec<Term>) -> Result<Option<Tree>> {
        let of = |op: Op, below: Vec<Option<Tree>>| {
            below
                .into_iter()
                .collect::<Option<Vec<Tree>>>()
                .map(|below| Tree { op, below })
        };
        Ok(match q {
            SpanQuery::Term { field, value } => {
                let Some(target) = self.positions_of(field)? else {
                    return Ok(None);
                };
                let term = target.text_term(&self.query_text(&target, &text_of(value)));
                terms.push(term.clone());
                Some(Tree::words(vec![term]))
            }
            SpanQuery::Multi(query) => {
                let found = self.span_terms(query)?;
                self.count_clauses(found.len())?;
                terms.extend(found.iter().cloned());
                Some(Tree::words(found))
            }
            SpanQuery::Gap { .. } => None,
            SpanQuery::Near { clauses, slop, in_order } => {
                let (mut below, mut gaps) = (Vec::new(), Vec::new());
                for clause in clauses {
                    match clause {
                        SpanQuery::Gap { width, .. } => gaps.push((below.len(), i64::from(*width))),
                        clause => below.push(self.span_tree(clause, terms)?),
                    }
                }
                self.count_clauses(below.len())?;
                if below.len() == 1 && gaps.is_empty() {
                    return Ok(below.remove(0));
                }
                of(
                    Op::Near {
                        slop: i64::from(*slop),
                        in_order: *in_order,
                        gaps,
                    },
                    below,
                )
            }
            SpanQuery::Or(clauses) => {
                self.count_clauses(clauses.len())?;
                let mut below = Vec::new();
                for clause in clauses {
                    below.extend(self.span_tree(clause, terms)?);
                }
                Some(Tree { op: Op::Any, below })
            }
            SpanQuery::First { inner, end } => of(Op::First(i64::from(*end)), vec![self.span_tree(inner, terms)?]),
            SpanQuery::Not {
                include,
                exclude,
                pre,
                post,
            } => {
                let op = Op::Not {
                    pre: i64::from(*pre),
                    post: i64::from(*post),
                };
                // Words of what is excluded do not score.
                let include = self.span_tree(include, terms)?;
                let exclude = self.span_tree(exclude, &mut Vec::new())?;
                match exclude {
                    Some(exclude) => of(op, vec![include, Some(exclude)]),
                    None => include,
                }
            }
            SpanQuery::Containing { big, little } => of(
                Op::Containing,
                vec![self.span_tree(big, terms)?, self.span_tree(little, terms)?],
            ),
            SpanQuery::Within { big, little } => {
                of(Op::Within, vec![self.span_tree(big, terms)?, self.span_tree(little, terms)?])
            }
            SpanQuery::Masking { inner, .. } => self.span_tree(inner, terms)?,
        })
    }

    fn positions_of<'b>(&'b self, field: &'b str) -> Result<Option<Target<'b>>> {
        let Some(target) = Target::of(self.view, field) else {
            return Ok(None);
        };
        if !target.slot.shape.positions || !target.has_string_terms() {
            let reason = format!("field \"{field}\" was indexed without position data; cannot run SpanTermQuery");
            return Err(query_shard(self.view, reason.clone()).caused_by(Error::new(ErrorKind::IllegalState, reason)));
        }
        self.check_terms(&target)?;
        Ok(Some(target))
    }

    /// The terms that a query of many terms stands for.
    fn span_terms(&self, query: &Query) -> Result<Vec<Term>> {
        let field = match &query.clause {
            Clause::Prefix(q) | Clause::Wildcard(q) | Clause::Regexp(q) => &q.field,
            Clause::Fuzzy(q) => &q.field,
            Clause::Range(q) => &q.field,
            _ => return Err(Error::illegal("[span_multi] [match] must be of type multi term query")),
        };
        let Some(target) = self.positions_of(field)? else {
            return Ok(Vec::new());
        };
        match &query.clause {
            Clause::Prefix(q) => self.shaped_terms(&target, &Pattern::prefix(&q.value, q.case_insensitive)?, usize::MAX),
            Clause::Wildcard(q) => self.shaped_terms(&target, &Pattern::wildcard(&q.value, q.case_insensitive)?, usize::MAX),
            Clause::Regexp(q) => self.shaped_terms(
                &target,
                &Pattern::regexp(&q.value, q.flags.as_deref(), q.case_insensitive)?,
                usize::MAX,
            ),
            Clause::Fuzzy(q) => {
                let text = text_of(&q.value);
                let fuzz = Fuzz {
                    edits: super::levenshtein::edits(q.fuzziness, &text),
                    prefix: q.prefix_length,
                    expansions: q.max_expansions,
                    transpositions: q.transpositions,
                    rewrite: None,
                };
                self.near_terms(&target, &text, fuzz)
            }
            Clause::Range(q) => {
                let mut found = BTreeMap::new();
                let text = |value: &Option<serde_json::Value>| value.as_ref().map(text_of);
                let (gt, gte, lt, lte) = (text(&q.gt), text(&q.gte), text(&q.lt), text(&q.lte));
                for segment in &self.view.segments {
                    let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
                    let mut range = index.terms().range();
                    if let Some(low) = gte.as_deref().or(gt.as_deref()) {
                        range = range.ge(low.as_bytes());
                    }
                    if let Some(high) = lte.as_deref().or(lt.as_deref()) {
                        range = range.le(high.as_bytes());
                    }
                    let mut stream = range.into_stream().map_err(broken)?;
                    while stream.advance() {
                        let Ok(term) = std::str::from_utf8(stream.key()) else {
                            continue;
                        };
                        if gt.as_deref() != Some(term) && lt.as_deref() != Some(term) {
                            found.insert(term.to_owned(), ());
                        }
                        if found.len() > self.cx.max_clause_count {
                            self.count_clauses(found.len())?;
                        }
                    }
                }
                Ok(found.keys().map(|term| target.text_term(term)).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The terms of a field that a pattern matches, in order.
    fn shaped_terms(&self, target: &Target<'_>, pattern: &Pattern, max: usize) -> Result<Vec<Term>> {
        let mut found = std::collections::BTreeSet::new();
        for segment in &self.view.segments {
            let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
            let mut stream = index.terms().search(pattern).into_stream().map_err(broken)?;
            while stream.advance() {
                if let Ok(term) = std::str::from_utf8(stream.key()) {
                    found.insert(term.to_owned());
                }
                if found.len() > self.cx.max_clause_count.min(max) {
                    self.count_clauses(found.len())?;
                    if found.len() > max {
                        break;
                    }
                }
            }
        }
        Ok(found.iter().take(max).map(|term| target.text_term(term)).collect())
    }

    /// The nearest terms of a text.
    fn near_terms(&self, target: &Target<'_>, text: &str, fuzz: Fuzz) -> Result<Vec<Term>> {
        let words = self.near_words(target, text, fuzz)?;
        Ok(self.best_terms(target, words, fuzz.expansions))
    }

    pub(super) fn intervals(&self, field: &str, rule: &IntervalRule, boost: f32) -> Result<Shared> {
        let Some(target) = Target::of(self.view, field) else {
            return Ok(self.nothing(format!("unmapped field [{field}]")));
        };
        let Some(tree) = self.interval_tree(&target, rule)? else {
            return Ok(self.nothing("no intervals"));
        };
        let extent = tree.extent();
        Ok(Arc::new(PositionalNode {
            tree,
            field: target.slot.field,
            scoring: Scoring::Intervals { boost, extent },
            what: format!("intervals of {field}"),
            failure: self.failure(),
        }))
    }

    fn interval_field<'b>(&'b self, target: &Target<'b>, other: Option<&'b str>) -> Result<Target<'b>> {
        let used = match other {
            None => *target,
            Some(name) => Target::of(self.view, name)
                .ok_or_else(|| Error::illegal(format!("Cannot create IntervalQuery over field [{name}]: no such field")))?,
        };
        if !used.kind.kind.is_text() {
            return Err(self.failed_to_create(Error::illegal(format!(
                "Can only use interval queries on text fields - not on [{}] which is of type [{}]",
                used.path,
                used.kind.wire()
            ))));
        }
        if !used.slot.shape.positions {
            return Err(self.failed_to_create(Error::illegal(format!(
                "Cannot create intervals over field [{}] with no positions indexed",
                used.path
            ))));
        }
        Ok(used)
    }

    fn interval_tree<'b>(&'b self, target: &Target<'b>, rule: &'b IntervalRule) -> Result<Option<Tree>> {
        let tree = match &rule.source {
            IntervalSource::Match {
                query,
                max_gaps,
                mode,
                analyzer,
                use_field,
            } => {
                let used = self.interval_field(target, use_field.as_deref())?;
                let Some(analyzer) = self.query_analyzer(&used, analyzer.as_deref(), false)? else {
                    return Ok(Some(Tree::words(vec![used.text_term(query)])));
                };
                let mut parts = Vec::new();
                let mut before = None;
                for (position, tokens) in self.positions(&analyzer, query)? {
                    let terms: Vec<Term> = tokens.iter().map(|t| used.text_term(&t.term)).collect();
                    let words = Tree::words(terms);
                    let spaces = match before {
                        None => i64::from(position),
                        Some(before) => i64::from(position) - before - 1,
                    };
                    before = Some(i64::from(position));
                    parts.push(if spaces > 0 {
                        Tree {
                            op: Op::Extended(spaces),
                            below: vec![words],
                        }
                    } else {
                        words
                    });
                }
                self.count_clauses(parts.len())?;
                combined(parts, *max_gaps, *mode)
            }
            IntervalSource::AllOf { rules, max_gaps, mode } => {
                self.count_clauses(rules.len())?;
                let mut parts = Vec::new();
                for rule in rules {
                    match self.interval_tree(target, rule)? {
                        Some(tree) => parts.push(tree),
                        None => return Ok(None),
                    }
                }
                combined(parts, *max_gaps, *mode)
            }
            IntervalSource::AnyOf(rules) => {
                self.count_clauses(rules.len())?;
                let mut below = Vec::new();
                for rule in rules {
                    below.extend(self.interval_tree(target, rule)?);
                }
                (!below.is_empty()).then_some(Tree {
                    op: Op::AnyMinimal,
                    below,
                })
            }
            IntervalSource::Pattern {
                shape,
                text,
                case_insensitive,
                max_expansions,
                analyzer,
                use_field,
            } => {
                let used = self.interval_field(target, use_field.as_deref())?;
                let normal = |text: &str| -> Result<String> {
                    Ok(match self.query_analyzer(&used, analyzer.as_deref(), false)? {
                        Some(analyzer) => analyzer.normalize(text),
                        None => text.to_owned(),
                    })
                };
                let pattern = match shape {
                    IntervalShape::Prefix => Pattern::prefix(&normal(text)?, *case_insensitive)?,
                    IntervalShape::Wildcard => Pattern::wildcard(&normal(text)?, *case_insensitive)?,
                    IntervalShape::Regexp => Pattern::regexp(text, None, *case_insensitive)?,
                };
                let max = max_expansions.unwrap_or(128) as usize;
                let found = self.shaped_terms(&used, &pattern, max.saturating_add(1))?;
                if found.len() > max {
                    return Err(Error::new(
                        ErrorKind::IllegalState,
                        format!("Automaton [{text}] expanded to too many terms (limit {max})"),
                    )
                    .status_of(400));
                }
                Some(Tree::words(found))
            }
            IntervalSource::Fuzzy {
                term,
                fuzziness,
                prefix_length,
                transpositions,
                analyzer,
                use_field,
            } => {
                let used = self.interval_field(target, use_field.as_deref())?;
                let text = match self.query_analyzer(&used, analyzer.as_deref(), false)? {
                    Some(analyzer) => analyzer.normalize(term),
                    None => term.clone(),
                };
                let fuzz = Fuzz {
                    edits: super::levenshtein::edits(*fuzziness, &text),
                    prefix: *prefix_length,
                    expansions: 128,
                    transpositions: *transpositions,
                    rewrite: None,
                };
                Some(Tree::words(self.near_terms(&used, &text, fuzz)?))
            }
        };
        let (Some(tree), Some(filter)) = (tree.clone(), &rule.filter) else {
            return Ok(tree);
        };
        Ok(Some(match filter.as_ref() {
            IntervalFilter::Script(source) => Tree {
                op: Op::Script(Arc::new(self.interval_script(source)?)),
                below: vec![tree],
            },
            IntervalFilter::Relation(relation, other) => {
                let Some(other) = self.interval_tree(target, other)? else {
                    let negated = matches!(
                        relation,
                        IntervalRelation::NotContaining | IntervalRelation::NotContainedBy | IntervalRelation::NotOverlapping
                    );
                    return Ok(negated.then_some(tree));
                };
                Tree {
                    op: Op::Related(*relation),
                    below: vec![tree, other],
                }
            }
        }))
    }

    fn interval_script(&self, source: &ScriptSource) -> Result<IntervalScript> {
        Ok(IntervalScript {
            program: (self.cx.scripts)(source)?,
            params: script::Params::from_json(&source.params),
            interrupt: self.cx.interrupt.clone(),
        })
    }
}

/// Several rules as one.
fn combined(mut parts: Vec<Tree>, max_gaps: i32, mode: IntervalMode) -> Option<Tree> {
    if parts.len() <= 1 {
        return parts.pop();
    }
    if max_gaps == 0 && mode == IntervalMode::Ordered {
        return Some(Tree {
            op: Op::Block,
            below: parts,
        });
    }
    let inner = match mode {
        IntervalMode::Ordered => grouped(Op::Ordered, parts, true),
        IntervalMode::Unordered => grouped(Op::Unordered, parts, false),
        IntervalMode::UnorderedNoOverlap => {
            let mut rest = parts.into_iter();
            let first = rest.next()?;
            rest.fold(first, |a, b| Tree {
                op: Op::AnyMinimal,
                below: vec![
                    grouped(Op::Ordered, vec![a.clone(), b.clone()], true),
                    grouped(Op::Ordered, vec![b, a], true),
                ],
            })
        }
    };
    Some(if max_gaps < 0 {
        inner
    } else {
        Tree {
            op: Op::MaxGaps(i64::from(max_gaps)),
            below: vec![inner],
        }
    })
}

/// Parts under an operator; equal parts (next to each other, if order counts) must be found that often.
fn grouped(op: Op, parts: Vec<Tree>, adjacent: bool) -> Tree {
    let mut groups: Vec<(Tree, usize)> = Vec::new();
    for part in parts {
        let known = if adjacent {
            groups.last_mut().filter(|(tree, _)| *tree == part)
        } else {
            groups.iter_mut().find(|(tree, _)| *tree == part)
        };
        match known {
            Some((_, times)) => *times += 1,
            None => groups.push((part, 1)),
        }
    }
    let mut below: Vec<Tree> = groups
        .into_iter()
        .map(|(tree, times)| match times {
            1 => tree,
            times => Tree {
                op: Op::Repeated(times),
                below: vec![tree],
            },
        })
        .collect();
    match below.len() {
        1 => below.remove(0),
        _ => Tree { op, below },
    }
}
