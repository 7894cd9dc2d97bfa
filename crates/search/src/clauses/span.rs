//! Span queries as trees of spans.

use super::Planner;
use super::multi_term::Fuzz;
use crate::automata::regexp::Pattern;
use crate::fields::target::{Target, query_shard, text_of};
use crate::scorers::node::Shared;
use crate::scorers::positional::{Op, PositionalNode, Scoring, Tree};
use crate::scorers::similarity::Rarity;
use dsl::query::{Clause, Query, SpanQuery};
use model::{Error, ErrorKind, Result};
use segment::error::broken;
use std::collections::BTreeMap;
use std::sync::Arc;
use tantivy::Term;

/// An operator over what is below it; `None` if one of that can never match.
fn tree_of(op: Op, below: Vec<Option<Tree>>) -> Option<Tree> {
    let below: Option<Vec<Tree>> = below.into_iter().collect();
    below.map(|below| Tree { op, below })
}

impl Planner<'_> {
    pub(super) fn span(&self, q: &SpanQuery, boost: f32) -> Result<Shared> {
        if let Some((one, other)) = q.field_mismatch() {
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

    /// Spans of several clauses near each other, with the gaps between them.
    fn span_near(&self, clauses: &[SpanQuery], slop: i64, in_order: bool, terms: &mut Vec<Term>) -> Result<Option<Tree>> {
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
        Ok(tree_of(Op::Near { slop, in_order, gaps }, below))
    }

    /// A span's matcher; `None` if it can never match.
    fn span_tree(&self, q: &SpanQuery, terms: &mut Vec<Term>) -> Result<Option<Tree>> {
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
            SpanQuery::Near { clauses, slop, in_order } => self.span_near(clauses, i64::from(*slop), *in_order, terms)?,
            SpanQuery::Or(clauses) => {
                self.count_clauses(clauses.len())?;
                let mut below = Vec::new();
                for clause in clauses {
                    below.extend(self.span_tree(clause, terms)?);
                }
                Some(Tree { op: Op::Any, below })
            }
            SpanQuery::First { inner, end } => tree_of(Op::First(i64::from(*end)), vec![self.span_tree(inner, terms)?]),
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
                    Some(exclude) => tree_of(op, vec![include, Some(exclude)]),
                    None => include,
                }
            }
            SpanQuery::Containing { big, little } => tree_of(
                Op::Containing,
                vec![self.span_tree(big, terms)?, self.span_tree(little, terms)?],
            ),
            SpanQuery::Within { big, little } => {
                tree_of(Op::Within, vec![self.span_tree(big, terms)?, self.span_tree(little, terms)?])
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
            return Err(query_shard(self.view, reason.clone()).with_cause(Error::new(ErrorKind::IllegalState, reason)));
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
                    edits: crate::automata::levenshtein::edits(q.fuzziness, &text),
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
    pub(super) fn shaped_terms(&self, target: &Target<'_>, pattern: &Pattern, max: usize) -> Result<Vec<Term>> {
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
    pub(super) fn near_terms(&self, target: &Target<'_>, text: &str, fuzz: Fuzz) -> Result<Vec<Term>> {
        let words = self.near_words(target, text, fuzz)?;
        Ok(self.best_terms(target, words, fuzz.expansions))
    }
}
