//! The trait of a compiled clause: it gives a scorer for a segment and explains one document.

use super::block_max::ScoredClauses;
use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::prune::Restriction;
use super::term::TermNode;
use model::Result;
use segment::doc_bits::DocBits;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

/// A compiled clause, shared.
pub(crate) type Shared = Arc<dyn Node>;

/// `seek_danger` by a look at the one document, for sets whose next document may be far: where the set stands then, and whether it has
/// the document.
pub(crate) fn look_at(target: DocId, max_doc: DocId, has: impl FnOnce(DocId) -> bool) -> (DocId, SeekDangerResult) {
    match target {
        target if target >= max_doc => (TERMINATED, SeekDangerResult::SeekLowerBound(TERMINATED)),
        target if has(target) => (target, SeekDangerResult::Found),
        target => (target, SeekDangerResult::SeekLowerBound(target + 1)),
    }
}

/// Moves a set forward to `target`, wherever it is.
pub(crate) fn seek_to(set: &mut dyn Scorer, target: DocId) -> DocId {
    let at = set.doc();
    let found = if at >= target { at } else { set.seek(target) };
    debug_assert!(found >= target, "a seek ends at its target or behind it");
    found
}

/// A compiled clause. Its statistics are worked out; what is left is one segment at a time.
pub trait Node: Send + Sync {
    /// The documents of one segment, deleted and nested ones too, with their scores.
    ///
    /// # Errors
    /// Files that cannot be read, scripts that fail.
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>>;

    /// Why a document has its score, or that it does not match.
    ///
    /// # Errors
    /// As [`Node::scorer`].
    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        Ok(match score_at(self.scorer(segment)?, doc) {
            Some(score) => Explained::new(score, "score of the clause"),
            None => Explained::no_match("no matching clause"),
        })
    }

    /// The clauses that give the score, where pruning by their terms pays. If all are required, a document that has their terms
    /// may be no match and may score less.
    fn scored_clauses(&self) -> Option<ScoredClauses> {
        None
    }

    /// The clauses that a document of [`Node::scored_clauses`] must pass to match: filters and exclusions, which
    /// score nothing. Empty where those decide alone.
    fn restrictions(&self) -> Vec<Restriction> {
        Vec::new()
    }

    /// No document scores more, if that is known.
    fn most_score(&self) -> Option<f32> {
        None
    }

    /// In Lucene's words what the clause asks for, where there are any (`lucene_string.rs`).
    fn says(&self) -> Option<String> {
        None
    }

    /// The square of its part in the norm of a query, in typed indices: of what scores by its boost alone, the boost's.
    fn squares(&self) -> f32 {
        self.most_score().unwrap_or(1.0).powi(2)
    }

    /// The documents of a segment as a set of bits, deleted and nested ones too, where that is at hand. Scores are
    /// another matter.
    ///
    /// # Errors
    /// Unreadable files.
    fn bits(&self, _segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        Ok(None)
    }

    /// Whether a scorer is opened without going through documents, so that opening a second one costs little.
    fn opens_quickly(&self) -> bool {
        false
    }

    /// How many visible documents of a segment match, where that is known without going through them one by one;
    /// beyond `most` any larger number will do.
    ///
    /// # Errors
    /// Unreadable files.
    fn quick_count(&self, _segment: &SegmentView, _sight: &LiveDocs, _most: u64) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The term, if it is one.
    fn as_term(&self) -> Option<&TermNode> {
        None
    }

    /// Made of several clauses, so that it stands in brackets inside others.
    fn is_several(&self) -> bool {
        false
    }

    /// Matches every document.
    fn is_all(&self) -> bool {
        false
    }

    /// Matches no document.
    fn is_none(&self) -> bool {
        false
    }

    /// Stands for words that analysis dropped: the clauses around it are as if it had not been asked.
    fn is_absent(&self) -> bool {
        false
    }
}

/// The score of one document, if it matches.
pub(crate) fn score_at(mut scorer: Box<dyn Scorer>, doc: DocId) -> Option<f32> {
    let mut at = scorer.doc();
    if at < doc {
        at = scorer.seek(doc);
    }
    (at == doc && doc != TERMINATED).then(|| scorer.score())
}
