//! The best hits of a disjunction of terms, by its rarest term.
//!
//! Every document of the rarest term is scored whole. If the worst of the best of them beats all that the other terms together
//! could give, their long lists are never read.
//!
//! Not here: pruning where that does not suffice (`prune`), counting (`collect::top`).

use super::node::{Node, seek_to};
use super::term::{TermNode, TermScorer};
use model::Result;
use segment::doc_bits::DocBits;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// Choices of more terms have no term that decides.
const TERMS_MAX: usize = 8;
/// The others have at least so many times the documents of the rarest.
const OTHERS_LEAST: u64 = 4;

/// A choice of terms, one of which is rare.
pub(crate) struct Rarest<'a> {
    terms: Vec<&'a TermNode>,
    rare: usize,
}

/// One of the others in a segment: where it is, and whether it is at a document, where that is known more quickly.
struct Other {
    scorer: TermScorer,
    bits: Option<Arc<DocBits>>,
}

impl<'a> Rarest<'a> {
    /// A clause as such a choice, if it is one.
    pub(crate) fn of(node: &'a dyn Node) -> Option<Rarest<'a>> {
        let terms = node.choice()?;
        if terms.len() < 2 || terms.len() > TERMS_MAX {
            return None;
        }
        let docs = terms
            .iter()
            .map(|term| term.similarity.doc_freq())
            .collect::<Option<Vec<u64>>>()?;
        let rare = (0..terms.len()).max_by(|a, b| terms[*a].similarity.bound().total_cmp(&terms[*b].similarity.bound()))?;
        let others = docs.iter().sum::<u64>() - docs[rare];
        (docs[rare].saturating_mul(OTHERS_LEAST) <= others).then_some(Rarest { terms, rare })
    }

    /// No document without the rare term scores more.
    pub(crate) fn bound_of_others(&self) -> f32 {
        let others = self.terms.iter().enumerate().filter(|(at, _)| *at != self.rare);
        others.map(|(_, term)| f64::from(term.similarity.bound())).sum::<f64>() as f32
    }

    /// Shows every document of the rare term in a segment, deleted ones too, with its score as the choice scores it.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn for_each(&self, segment: &SegmentView, f: &mut dyn FnMut(DocId, f32)) -> Result<()> {
        let Some(mut rare) = self.terms[self.rare].open(segment)? else {
            return Ok(());
        };
        // The terms before and after the rare one: scores are summed in the order of the clauses.
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (at, term) in self.terms.iter().enumerate().filter(|(at, _)| *at != self.rare) {
            let list = if at < self.rare { &mut before } else { &mut after };
            if let Some(scorer) = term.open(segment)? {
                let bits = term.bits(segment)?;
                list.push(Other { scorer, bits });
            }
        }
        let mut doc = rare.doc();
        while doc != TERMINATED {
            let mut sum = 0f64;
            before.iter_mut().for_each(|other| sum += other.score_at(doc));
            sum += f64::from(rare.score());
            after.iter_mut().for_each(|other| sum += other.score_at(doc));
            f(doc, sum as f32);
            doc = rare.advance();
        }
        Ok(())
    }
}

impl Other {
    fn score_at(&mut self, doc: DocId) -> f64 {
        if self.bits.as_ref().is_some_and(|bits| !bits.contains(doc)) || seek_to(&mut self.scorer, doc) != doc {
            return 0.0;
        }
        f64::from(self.scorer.score())
    }
}
