//! Words that a pattern or a fuzzy word stands for, as one clause: all with one score, or each with its own.
//!
//! After Lucene's `MultiTermQuery.RewriteMethod`. Not here: which words those are, which automata tell.

use super::Planner;
use crate::fields::target::Target;
use crate::scorers::bool::BoolNode;
use crate::scorers::constant_score::ConstantNode;
use crate::scorers::node::Shared;
use crate::scorers::similarity::Rarity;
use crate::scorers::term::TermNode;
use crate::seen;
use dsl::query::Rewrite;
use model::Result;
use segment::error::broken;
use std::collections::BTreeMap;
use std::sync::Arc;
use tantivy::Term;
use tantivy_fst::Automaton;

/// A word of a field.
#[derive(Debug)]
pub(super) struct DictionaryWord {
    term: String,
    /// How near it is to what was asked for: 1 is the same.
    nearness: f32,
    /// Documents that have it.
    doc_freq: u64,
}

impl Planner<'_> {
    /// The words of a field that an automaton accepts, in the order of their bytes; of each segment the first so many.
    pub(super) fn accepted_words<A>(
        &self,
        target: &Target<'_>,
        automaton: &A,
        most: usize,
        nearness: impl Fn(&str) -> Option<f32>,
    ) -> Result<Vec<DictionaryWord>>
    where
        A: Automaton,
        A::State: Clone,
    {
        let mut found: BTreeMap<String, (f32, u64)> = BTreeMap::new();
        for segment in &self.view.segments {
            let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
            let mut stream = index.terms().search(automaton).into_stream().map_err(broken)?;
            let mut here = 0;
            while here < most && stream.advance() {
                let Ok(term) = std::str::from_utf8(stream.key()) else {
                    continue;
                };
                let Some(nearness) = nearness(term) else { continue };
                let docs = seen::docs_with(self.view, segment, &index, stream.value())?;
                if docs == 0 {
                    // A word of documents that are withheld alone is none (security.md S6).
                    continue;
                }
                let entry = found.entry(term.to_owned()).or_insert((nearness, 0));
                entry.1 += docs;
                here += 1;
            }
        }
        let word = |(term, (nearness, doc_freq))| DictionaryWord {
            term,
            nearness,
            doc_freq,
        };
        Ok(found.into_iter().map(word).collect())
    }

    /// How many words of a segment a method looks at, where all are equally near.
    pub(super) fn words_most(&self, how: Rewrite) -> usize {
        match how {
            Rewrite::ConstantScore(_) => usize::MAX,
            // One more than there may be, so that it is told.
            Rewrite::ConstantScoreBoolean | Rewrite::ScoringBoolean => self.cx.max_clause_count + 1,
            Rewrite::TopTerms(most) | Rewrite::TopTermsBoost(most) | Rewrite::TopTermsBlendedFreqs(most) => self.best_most(most),
        }
    }

    fn best_most(&self, most: u32) -> usize {
        (most as usize).min(self.cx.max_clause_count)
    }

    /// The words as one clause.
    ///
    /// # Errors
    /// More words than a `bool` may have clauses, where they become such.
    pub(super) fn rewritten(
        &self,
        target: &Target<'_>,
        words: Vec<DictionaryWord>,
        how: Rewrite,
        boost: f32,
        what: &str,
    ) -> Result<Shared> {
        let clauses = match how {
            Rewrite::ConstantScore(_) => return Ok(self.one_score(target, &words, boost, what)),
            Rewrite::ConstantScoreBoolean => {
                self.count_clauses(words.len())?;
                return Ok(self.one_score(target, &words, boost, what));
            }
            Rewrite::ScoringBoolean => {
                self.count_clauses(words.len())?;
                self.each_scored(target, &words, boost)?
            }
            Rewrite::TopTerms(most) => self.each_scored(target, &best(words, self.best_most(most)), boost)?,
            Rewrite::TopTermsBoost(most) => {
                let words = best(words, self.best_most(most));
                let each = words.iter().map(|word| -> Shared {
                    let filter = self.one_score(target, std::slice::from_ref(word), 1.0, what);
                    let boost = boost * word.nearness.max(0.0);
                    Arc::new(ConstantNode { filter, boost })
                });
                each.collect()
            }
            Rewrite::TopTermsBlendedFreqs(most) => self.as_the_commonest(target, &best(words, self.best_most(most)), boost)?,
        };
        if clauses.is_empty() {
            return Ok(self.nothing(format!("no matching term [{what}]")));
        }
        Ok(Arc::new(BoolNode {
            should: clauses,
            least: 1,
            ..BoolNode::default()
        }))
    }

    fn one_score(&self, target: &Target<'_>, words: &[DictionaryWord], boost: f32, what: &str) -> Shared {
        let mut terms: Vec<Term> = words.iter().map(|word| target.text_term(&word.term)).collect();
        terms.sort_unstable();
        self.filter(terms, boost, what.to_owned())
    }

    fn each_scored(&self, target: &Target<'_>, words: &[DictionaryWord], boost: f32) -> Result<Vec<Shared>> {
        let each = words.iter().map(|word| {
            let term = target.text_term(&word.term);
            // A word with more edits than letters is found, and adds nothing.
            self.scored_term(target, term, &word.term, boost * word.nearness.max(0.0))
        });
        each.collect()
    }

    /// Each word scored as if it were as frequent as the commonest of them.
    fn as_the_commonest(&self, target: &Target<'_>, words: &[DictionaryWord], boost: f32) -> Result<Vec<Shared>> {
        let doc_freq = words.iter().map(|word| word.doc_freq).max().unwrap_or(0);
        let field = self.statistics.field(target)?;
        let each = words.iter().map(|word| -> Shared {
            let boost = boost * self.boost_of_several(target) * word.nearness.max(0.0);
            let rarity = Rarity {
                term: word.term.clone(),
                doc_freq,
            };
            Arc::new(TermNode {
                filters: self.view.filters.clone(),
                similarity: self.similarity(target, field, vec![rarity], boost),
                term: Term::from_field_text(target.slot.field, &word.term),
                norms: target.kind.kind.is_text(),
                what: format!("{}:{}", target.path, word.term),
                of_roots: self.view.mapping.nested_path_of(target.path).is_none(),
            })
        });
        Ok(each.collect())
    }

    /// The terms of the nearest words.
    pub(super) fn best_terms(&self, target: &Target<'_>, words: Vec<DictionaryWord>, most: u32) -> Vec<Term> {
        let words = best(words, self.best_most(most));
        words.iter().map(|word| target.text_term(&word.term)).collect()
    }
}

/// The nearest words, of equally near ones the first.
fn best(mut words: Vec<DictionaryWord>, most: usize) -> Vec<DictionaryWord> {
    words.sort_by(|a, b| b.nearness.total_cmp(&a.nearness).then_with(|| a.term.cmp(&b.term)));
    words.truncate(most);
    words
}
