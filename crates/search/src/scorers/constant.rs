//! Scorers whose documents all have one score: none, all, those of a set.

use segment::segment_view::SegmentView;
use tantivy::query::Scorer;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, SeekDangerResult, TERMINATED};

/// Every document of a segment.
pub(crate) fn every(segment: &SegmentView) -> Box<dyn Scorer> {
    Box::new(AllScorer::new(segment.reader.max_doc(), 1.0))
}

/// The scorer, or one of no documents.
pub(crate) fn or_none<S: Scorer>(scorer: Option<S>) -> Box<dyn Scorer> {
    match scorer {
        Some(scorer) => Box::new(scorer),
        None => Box::new(NoScorer),
    }
}

/// No documents.
#[derive(Debug, Default)]
pub(crate) struct NoScorer;

impl DocSet for NoScorer {
    fn advance(&mut self) -> DocId {
        TERMINATED
    }
    fn seek(&mut self, _target: DocId) -> DocId {
        TERMINATED
    }
    fn doc(&self) -> DocId {
        TERMINATED
    }
    fn size_hint(&self) -> u32 {
        0
    }
}

impl Scorer for NoScorer {
    fn score(&mut self) -> f32 {
        0.0
    }
}

/// Every document up to a limit, with one score.
#[derive(Debug)]
pub(crate) struct AllScorer {
    doc: DocId,
    max_doc: DocId,
    score: f32,
}

impl AllScorer {
    /// The documents below `max_doc`.
    pub(crate) fn new(max_doc: DocId, score: f32) -> AllScorer {
        AllScorer {
            doc: if max_doc == 0 { TERMINATED } else { 0 },
            max_doc,
            score,
        }
    }
}

impl DocSet for AllScorer {
    fn advance(&mut self) -> DocId {
        if self.doc != TERMINATED {
            self.doc += 1;
            if self.doc >= self.max_doc {
                self.doc = TERMINATED;
            }
        }
        self.doc
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.doc = if target >= self.max_doc { TERMINATED } else { target };
        }
        self.doc
    }
    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        if self.doc == TERMINATED {
            return 0;
        }
        debug_assert!(self.doc < self.max_doc, "a document is below the limit, or there are no more");
        let left = (self.max_doc - self.doc) as usize;
        let len = left.min(buffer.len());
        (self.doc..).zip(&mut buffer[..len]).for_each(|(doc, place)| *place = doc);
        self.doc = if left <= buffer.len() {
            TERMINATED
        } else {
            self.doc + len as DocId
        };
        len
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.max_doc
    }
}

impl Scorer for AllScorer {
    fn score(&mut self) -> f32 {
        self.score
    }
}

/// Another set of documents with one score.
pub(crate) struct ConstantScorer<D> {
    docs: D,
    score: f32,
}

impl<D: DocSet> ConstantScorer<D> {
    /// `docs` with `score`.
    pub(crate) fn new(docs: D, score: f32) -> ConstantScorer<D> {
        ConstantScorer { docs, score }
    }
}

impl<D: DocSet> DocSet for ConstantScorer<D> {
    fn advance(&mut self) -> DocId {
        self.docs.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.docs.doc() >= target {
            self.docs.doc()
        } else {
            self.docs.seek(target)
        }
    }
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        self.docs.seek_danger(target)
    }
    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        self.docs.fill_buffer(buffer)
    }
    fn doc(&self) -> DocId {
        self.docs.doc()
    }
    fn size_hint(&self) -> u32 {
        self.docs.size_hint()
    }
    fn cost(&self) -> u64 {
        self.docs.cost()
    }
}

impl<D: DocSet + 'static> Scorer for ConstantScorer<D> {
    fn score(&mut self) -> f32 {
        self.score
    }
}
