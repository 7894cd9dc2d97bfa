//! Documents that have a key of a join.

use super::constant::NoScorer;
use super::keyed_docs::KeyedDocs;
use super::node::Node;
use super::term_set::any_of;
use crate::child_score::Totals;
use crate::joins::{Joined, JoinedKeys, KeyReader, Place};
use dsl::query::ScoreMode;
use model::Result;
use segment::key_columns::Key;
use segment::keyed_rows::{KeyedRows, NamedColumn};
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED, Term};
/// A lookup by text costs about as much as this many looks at a column.
const LOOKUP: u64 = 2000;

/// Documents with a key.
pub(crate) struct JoinNode {
    pub(crate) place: Place,
    pub(crate) keys: Arc<Joined>,
    pub(crate) mode: ScoreMode,
    pub(crate) boost: f32,
    /// The terms of the field, where there are few keys.
    pub(crate) terms: Option<Vec<Term>>,
}

/// The keys of documents, and the scores that they have by them.
pub(crate) struct KeyScores {
    reader: KeyReader,
    /// The column of the reader, where the documents of its strings may be looked up.
    column: Option<NamedColumn>,
    keys: Arc<Joined>,
    mode: ScoreMode,
    boost: f32,
    /// The score of the document that was found last.
    score: f32,
    /// The keys of one document.
    own: Vec<Key>,
}

impl KeyScores {
    /// The documents of a segment that have one of the keys score by all of theirs.
    pub(crate) fn new(
        (reader, column): (KeyReader, Option<NamedColumn>),
        keys: Arc<Joined>,
        mode: ScoreMode,
        boost: f32,
    ) -> KeyScores {
        KeyScores {
            reader,
            column,
            keys,
            mode,
            boost,
            score: 0.0,
            own: Vec::new(),
        }
    }

    /// Whether a document has a key of the set: then its score is noted.
    pub(crate) fn look(&mut self, doc: DocId) -> bool {
        let mut totals: Option<Totals> = None;
        self.reader.distinct(doc, &mut self.own);
        for key in &self.own {
            if let Some(found) = self.keys.get(*key) {
                match &mut totals {
                    Some(totals) => totals.add(&found),
                    None => totals = Some(found),
                }
            }
        }
        if let Some(totals) = totals {
            self.score = totals.score(self.mode) * self.boost;
        }
        totals.is_some()
    }

    /// The score of the document that was found last.
    pub(crate) fn score(&self) -> f32 {
        self.score
    }

    /// To find the rows of documents that may have a key takes as long as to look for so many keys that stand in a row; `None`: of other
    /// columns than those of strings and whole numbers documents are looked at one by one.
    pub(crate) fn rows_cost(&self) -> Option<usize> {
        match &self.reader {
            KeyReader::Text(keys) => Some(keys.by_ordinal().len() + self.keys.len()),
            KeyReader::Whole(_) | KeyReader::Unsigned(_) => Some(self.keys.len()),
            _ => None,
        }
    }

    /// The rows of documents that may have a key, where [`KeyScores::rows_cost`] says that there are some.
    pub(crate) fn rows(&self) -> Option<KeyedRows> {
        match &self.keys.kind {
            JoinedKeys::Plain(set) => self.reader.rows(set, self.column.as_ref()),
            JoinedKeys::Scored(set) => self.reader.rows(set, self.column.as_ref()),
        }
    }

    /// Notes the score of a document that has a key, where it is the same for all of them.
    pub(crate) fn note_one_score(&mut self) -> bool {
        let is_one = matches!(self.keys.kind, JoinedKeys::Plain(_));
        if is_one {
            self.score = Totals::NONE.score(self.mode) * self.boost;
        }
        is_one
    }
}

/// Documents of lists of terms that have a key.
struct JoinScorer {
    candidates: Box<dyn Scorer>,
    scores: KeyScores,
}

impl JoinScorer {
    fn settle(&mut self) -> DocId {
        let mut doc = self.candidates.doc();
        while doc != TERMINATED && !self.scores.look(doc) {
            doc = self.candidates.advance();
        }
        doc
    }
}

impl DocSet for JoinScorer {
    fn advance(&mut self) -> DocId {
        self.candidates.advance();
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.candidates.doc() < target {
            self.candidates.seek(target);
        }
        self.settle()
    }
    fn doc(&self) -> DocId {
        self.candidates.doc()
    }
    fn size_hint(&self) -> u32 {
        self.candidates.size_hint()
    }
    fn cost(&self) -> u64 {
        // Each look costs more than a step of a list of documents.
        self.candidates.cost().saturating_mul(2)
    }
}

impl Scorer for JoinScorer {
    fn score(&mut self) -> f32 {
        self.scores.score()
    }
}

impl Node for JoinNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let Some(reader) = KeyReader::open(segment, &self.place)? else {
            return Ok(Box::new(NoScorer));
        };
        let max_doc = segment.reader.max_doc();
        let column = self.place.column(segment);
        let scores = KeyScores::new((reader, column), self.keys.clone(), self.mode, self.boost);
        let candidates = match &self.terms {
            Some(terms) if terms.len() as u64 * LOOKUP < u64::from(max_doc) => any_of(segment, terms)?,
            _ => return Ok(Box::new(KeyedDocs::new(scores, max_doc))),
        };
        let mut join = JoinScorer { candidates, scores };
        join.settle();
        Ok(Box::new(join))
    }
}
