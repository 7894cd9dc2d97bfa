//! Documents of a set with scores that a function gives, at once or when they are read.

use super::node::seek_to;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// A set with its score changed by a function of the document and the score; `None` drops the document.
pub(crate) struct Rescored<F> {
    set: Box<dyn Scorer>,
    f: F,
    score: f32,
}

/// `set` with scores changed by `f`, worked out when a document is reached.
pub(crate) fn rescore<F>(set: Box<dyn Scorer>, f: F) -> Box<dyn Scorer>
where
    F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static,
{
    let mut rescored = Rescored { set, f, score: 0.0 };
    rescored.settle();
    Box::new(rescored)
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static> Rescored<F> {
    fn settle(&mut self) -> DocId {
        loop {
            let doc = self.set.doc();
            if doc == TERMINATED {
                return doc;
            }
            if let Some(score) = (self.f)(doc, self.set.as_mut()) {
                self.score = score;
                return doc;
            }
            self.set.advance();
        }
    }
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static> DocSet for Rescored<F> {
    fn advance(&mut self) -> DocId {
        self.set.advance();
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.set.doc() < target {
            self.set.seek(target);
            return self.settle();
        }
        self.set.doc()
    }
    fn doc(&self) -> DocId {
        self.set.doc()
    }
    fn size_hint(&self) -> u32 {
        self.set.size_hint()
    }
    fn cost(&self) -> u64 {
        self.set.cost().saturating_mul(4)
    }
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static> Scorer for Rescored<F> {
    fn score(&mut self) -> f32 {
        self.score
    }
}

struct Lazy<F> {
    set: Box<dyn Scorer>,
    f: F,
    /// The document that was scored last, and its score.
    known: (DocId, f32),
}

/// `set` with scores changed by `f`, worked out only where somebody asks for one: what is filtered away around it costs
/// nothing, and fails at nothing.
pub(crate) fn scored_late<F>(set: Box<dyn Scorer>, f: F) -> Box<dyn Scorer>
where
    F: FnMut(DocId, &mut dyn Scorer) -> f32 + Send + 'static,
{
    let known = (TERMINATED, 0.0);
    Box::new(Lazy { set, f, known })
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> f32 + Send + 'static> DocSet for Lazy<F> {
    fn advance(&mut self) -> DocId {
        self.set.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        seek_to(self.set.as_mut(), target)
    }
    fn doc(&self) -> DocId {
        self.set.doc()
    }
    fn size_hint(&self) -> u32 {
        self.set.size_hint()
    }
    fn cost(&self) -> u64 {
        self.set.cost()
    }
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> f32 + Send + 'static> Scorer for Lazy<F> {
    fn score(&mut self) -> f32 {
        let doc = self.set.doc();
        if self.known.0 != doc {
            self.known = (doc, (self.f)(doc, self.set.as_mut()));
        }
        self.known.1
    }
}

/// `set` with the scores that `value` gives; documents below `min_score` go.
pub(crate) fn from_least<F>(set: Box<dyn Scorer>, min_score: Option<f32>, mut value: F) -> Box<dyn Scorer>
where
    F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static,
{
    match min_score {
        Some(min) => rescore(set, move |doc, set| value(doc, set).filter(|score| *score >= min)),
        None => scored_late(set, move |doc, set| value(doc, set).unwrap_or_default()),
    }
}
