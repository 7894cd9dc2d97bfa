//! `bool`, `dis_max`, `boosting`, `constant_score` over compiled clauses.

use super::combine::{Sum, and, or, rescored, seek_to, with_option, without};
use super::explain::Explained;
use super::node::{AllScorer, ConstantScorer, NoScorer, Node, score_at};
use crate::searchable::SegmentView;
use model::Result;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::{BooleanQuery, Occur, Scorer};

/// A compiled clause, shared.
pub type Shared = Arc<dyn Node>;

/// Everything, with one score.
pub struct AllNode(pub f32);

impl Node for AllNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(AllScorer::new(segment.reader.max_doc(), self.0)))
    }
    fn explain(&self, _segment: &SegmentView, _doc: DocId) -> Result<Explained> {
        Ok(Explained::new(self.0, "*:*"))
    }
    fn is_all(&self) -> bool {
        true
    }
}

/// Nothing.
pub struct NoneNode(pub String);

impl NoneNode {
    const ABSENT: &str = "no words after analysis";

    /// Words that analysis dropped.
    pub fn absent() -> NoneNode {
        NoneNode(NoneNode::ABSENT.into())
    }
}

impl Node for NoneNode {
    fn scorer(&self, _segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(NoScorer))
    }
    fn explain(&self, _segment: &SegmentView, _doc: DocId) -> Result<Explained> {
        Ok(Explained::no_match(self.0.clone()))
    }
    fn is_none(&self) -> bool {
        true
    }
    fn is_absent(&self) -> bool {
        self.0 == NoneNode::ABSENT
    }
}

/// A conjunction, options, exclusions.
#[derive(Default)]
pub struct BoolNode {
    /// All match, and score.
    pub must: Vec<Shared>,
    /// All match.
    pub filter: Vec<Shared>,
    /// `least` match, all score.
    pub should: Vec<Shared>,
    /// None matches.
    pub must_not: Vec<Shared>,
    /// How many of `should`.
    pub least: usize,
}

impl Node for BoolNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut required: Vec<(Box<dyn Scorer>, bool)> = Vec::new();
        for node in &self.must {
            required.push((node.scorer(segment)?, true));
        }
        for node in &self.filter {
            if !node.is_all() {
                required.push((node.scorer(segment)?, false));
            }
        }
        let mut options = Vec::new();
        for node in &self.should {
            options.push(node.scorer(segment)?);
        }
        let mut set = if self.least > 0 {
            let options = or(options, self.least, Sum::Sum);
            if required.is_empty() {
                options
            } else {
                required.push((options, true));
                and(required)
            }
        } else {
            let required = if required.is_empty() {
                Box::new(AllScorer::new(segment.reader.max_doc(), 0.0))
            } else {
                and(required)
            };
            if options.is_empty() {
                required
            } else {
                with_option(required, or(options, 1, Sum::Sum))
            }
        };
        if !self.must_not.is_empty() {
            let mut excluded = Vec::new();
            for node in &self.must_not {
                excluded.push(node.scorer(segment)?);
            }
            set = without(set, or(excluded, 1, Sum::Sum));
        }
        Ok(set)
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let mut details = Vec::new();
        let mut fails = Vec::new();
        let (mut sum, mut matching) = (0f64, 0usize);
        for node in &self.must {
            let one = node.explain(segment, doc)?;
            if one.matched {
                sum += f64::from(one.value);
                details.push(one);
            } else {
                fails.push(Explained::no_match("no match on required clause").of(vec![one]));
            }
        }
        for node in &self.filter {
            let one = node.explain(segment, doc)?;
            if one.matched {
                let reason = vec![Explained::new(0.0, "# clause"), one];
                details.push(Explained::new(0.0, "match on required clause, product of:").of(reason));
            } else {
                fails.push(Explained::no_match("no match on required clause").of(vec![one]));
            }
        }
        for node in &self.must_not {
            let one = node.explain(segment, doc)?;
            if one.matched {
                fails.push(Explained::no_match("match on prohibited clause").of(vec![one]));
            }
        }
        for node in &self.should {
            let one = node.explain(segment, doc)?;
            if one.matched {
                matching += 1;
                sum += f64::from(one.value);
                details.push(one);
            }
        }
        if !fails.is_empty() {
            return Ok(Explained::no_match("Failure to meet condition(s) of required/prohibited clause(s)").of(fails));
        }
        if matching < self.least {
            let what = format!("Failure to match minimum number of optional clauses: {}", self.least);
            return Ok(Explained::no_match(what));
        }
        Ok(Explained::new(sum as f32, "sum of:").of(details))
    }

    fn prunable(&self) -> Option<Box<dyn tantivy::query::Query>> {
        if !self.filter.is_empty() || !self.must_not.is_empty() {
            return None;
        }
        let (nodes, occur) = match (self.must.as_slice(), self.should.as_slice()) {
            (must, []) if !must.is_empty() => (must, Occur::Must),
            ([], should) if self.least == 1 && !should.is_empty() => (should, Occur::Should),
            _ => return None,
        };
        let clauses = nodes
            .iter()
            .map(|node| node.prunable().map(|q| (occur, q)))
            .collect::<Option<Vec<_>>>()?;
        Some(Box::new(BooleanQuery::new(clauses)))
    }
}

/// The best of several, with a part of the others.
pub struct DisMaxNode {
    /// Any of them matches.
    pub nodes: Vec<Shared>,
    /// Part of the others.
    pub tie_breaker: f32,
}

impl Node for DisMaxNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let sets = self
            .nodes
            .iter()
            .map(|node| node.scorer(segment))
            .collect::<Result<Vec<_>>>()?;
        Ok(or(sets, 1, Sum::Best(self.tie_breaker)))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let mut details = Vec::new();
        let (mut best, mut sum) = (0f64, 0f64);
        for node in &self.nodes {
            let one = node.explain(segment, doc)?;
            if one.matched {
                best = best.max(f64::from(one.value));
                sum += f64::from(one.value);
                details.push(one);
            }
        }
        if details.is_empty() {
            return Ok(Explained::no_match("No matching clause"));
        }
        let value = (best + (sum - best) * f64::from(self.tie_breaker)) as f32;
        let what = if self.tie_breaker == 0.0 {
            "max of:".to_owned()
        } else {
            format!("max plus {:?} times others of:", self.tie_breaker)
        };
        Ok(Explained::new(value, what).of(details))
    }
}

/// A query whose score is lowered where another one matches.
pub struct BoostingNode {
    /// Decides what matches.
    pub positive: Shared,
    /// Decides what is lowered.
    pub negative: Shared,
    /// By how much.
    pub negative_boost: f32,
}

impl Node for BoostingNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut negative = self.negative.scorer(segment)?;
        let boost = self.negative_boost;
        Ok(rescored(self.positive.scorer(segment)?, move |doc, set| {
            let score = set.score();
            Some(if seek_to(negative.as_mut(), doc) == doc {
                score * boost
            } else {
                score
            })
        }))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let positive = self.positive.explain(segment, doc)?;
        if !positive.matched || !self.negative.explain(segment, doc)?.matched {
            return Ok(positive);
        }
        let value = positive.value * self.negative_boost;
        let boost = Explained::new(self.negative_boost, "boost");
        Ok(Explained::new(value, "math product of:").of(vec![positive, boost]))
    }
}

/// A filter with one score.
pub struct ConstantNode {
    /// The filter.
    pub filter: Shared,
    /// The score.
    pub boost: f32,
}

impl Node for ConstantNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(ConstantScorer::new(self.filter.scorer(segment)?, self.boost)))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        Ok(match score_at(self.filter.scorer(segment)?, doc) {
            Some(_) => Explained::new(self.boost, "ConstantScore"),
            None => Explained::no_match(format!("ConstantScore doesn't match id {doc}")),
        })
    }

    fn is_none(&self) -> bool {
        self.filter.is_none()
    }
}
