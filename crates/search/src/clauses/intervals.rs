//! `intervals`: rules as trees of intervals.

use super::Planner;
use super::multi_term::Fuzz;
use crate::automata::levenshtein;
use crate::automata::regexp::Pattern;
use crate::fields::target::Target;
use crate::scorers::interval_script::IntervalScript;
use crate::scorers::node::Shared;
use crate::scorers::positional::{Op, PositionalNode, Scoring, Tree};
use dsl::query::script_source::ScriptSource;
use dsl::query::{IntervalFilter, IntervalMode, IntervalRelation, IntervalRule, IntervalShape, IntervalSource};
use model::{Error, ErrorKind, Result};
use std::sync::Arc;
use tantivy::Term;

impl Planner<'_> {
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
                self.interval_words(&used, analyzer.as_deref(), query, (*max_gaps, *mode))?
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
                combine_trees(parts, *max_gaps, *mode)
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
                let normal = || self.normalize(&used, analyzer.as_deref(), text);
                let pattern = match shape {
                    IntervalShape::Prefix => Pattern::prefix(&normal()?, *case_insensitive)?,
                    IntervalShape::Wildcard => Pattern::wildcard(&normal()?, *case_insensitive)?,
                    IntervalShape::Regexp => Pattern::regexp(text, None, *case_insensitive)?,
                };
                self.interval_expansions(&used, &pattern, text, max_expansions.unwrap_or(128) as usize)
                    .map(Some)?
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
                let text = self.normalize(&used, analyzer.as_deref(), term)?;
                let fuzz = Fuzz {
                    edits: levenshtein::edits(*fuzziness, &text),
                    prefix: *prefix_length,
                    expansions: 128,
                    transpositions: *transpositions,
                    rewrite: None,
                };
                Some(Tree::words(self.near_terms(&used, &text, fuzz)?))
            }
        };
        match (tree, &rule.filter) {
            (Some(tree), Some(filter)) => self.interval_filter(target, tree, filter),
            (tree, _) => Ok(tree),
        }
    }

    /// A text as the terms of the field are written, without being divided.
    fn normalize(&self, target: &Target<'_>, analyzer: Option<&str>, text: &str) -> Result<String> {
        Ok(match self.query_analyzer(target, analyzer, false)? {
            Some(analyzer) => analyzer.normalize(text),
            None => text.to_owned(),
        })
    }

    /// The words of a text: terms of each position, and the gaps that analysis left between them.
    fn interval_words(
        &self,
        target: &Target<'_>,
        analyzer: Option<&str>,
        query: &str,
        (max_gaps, mode): (i32, IntervalMode),
    ) -> Result<Option<Tree>> {
        let Some(analyzer) = self.query_analyzer(target, analyzer, false)? else {
            return Ok(Some(Tree::words(vec![target.text_term(query)])));
        };
        let mut parts = Vec::new();
        let mut before = None;
        for (position, tokens) in self.positions(&analyzer, query)? {
            let terms: Vec<Term> = tokens.iter().map(|t| target.text_term(&t.term)).collect();
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
        Ok(combine_trees(parts, max_gaps, mode))
    }

    /// # Errors
    /// The pattern stands for more than `max` terms.
    fn interval_expansions(&self, target: &Target<'_>, pattern: &Pattern, text: &str, max: usize) -> Result<Tree> {
        let found = self.shaped_terms(target, pattern, max.saturating_add(1))?;
        if found.len() > max {
            return Err(Error::new(
                ErrorKind::IllegalState,
                format!("Automaton [{text}] expanded to too many terms (limit {max})"),
            )
            .status_of(400));
        }
        Ok(Tree::words(found))
    }

    /// The intervals of a rule that its filter lets through.
    fn interval_filter<'b>(&'b self, target: &Target<'b>, tree: Tree, filter: &'b IntervalFilter) -> Result<Option<Tree>> {
        Ok(Some(match filter {
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
            program: self.cx.compile(source)?,
            params: script::Params::from_json(&source.params),
            interrupt: self.cx.interrupt.clone(),
        })
    }
}

/// Several rules as one.
fn combine_trees(mut parts: Vec<Tree>, max_gaps: i32, mode: IntervalMode) -> Option<Tree> {
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
        IntervalMode::Ordered => group_trees(Op::Ordered, parts, true),
        IntervalMode::Unordered => group_trees(Op::Unordered, parts, false),
        IntervalMode::UnorderedNoOverlap => {
            let mut rest = parts.into_iter();
            let first = rest.next()?;
            rest.fold(first, |a, b| Tree {
                op: Op::AnyMinimal,
                below: vec![
                    group_trees(Op::Ordered, vec![a.clone(), b.clone()], true),
                    group_trees(Op::Ordered, vec![b, a], true),
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

/// Parts under an operator; equal parts (next to each other, if order counts) must be found that often. Parts in any order of a part in
/// any order are parts of the whole, as in Lucene.
fn group_trees(op: Op, parts: Vec<Tree>, adjacent: bool) -> Tree {
    let is_unordered = |op: &Op| matches!(op, Op::Unordered);
    let parts = parts
        .into_iter()
        .flat_map(|part| match is_unordered(&op) && is_unordered(&part.op) {
            true => part.below,
            false => vec![part],
        });
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
