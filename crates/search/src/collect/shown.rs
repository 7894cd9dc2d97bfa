//! Matches for a sink (aggregations), by blocks.
//!
//! Not here: hits (`collect`), which thread shows which documents (`divided_sink`), what a sink does with them (`aggs`).

use super::Collected;
use crate::doc_sink::DocSink;
use crate::interrupt::Interrupt;
use crate::scorers::fill::{BLOCK_DOCS, fill, fill_scored};
use crate::scorers::node::seek_to;
use crate::scorers::planned::Planned;
use model::Result;
use std::ops::Range;
use tantivy::DocId;
use tantivy::query::Scorer;

/// The matches of a segment, where nobody wants hits.
pub(super) struct Matches<'a> {
    set: &'a mut dyn Scorer,
    planned: &'a Planned,
    /// Scores are multiplied by it; `None`: nobody reads them.
    boost: Option<f32>,
    interrupt: &'a Interrupt,
    docs: [DocId; BLOCK_DOCS],
    scores: [f32; BLOCK_DOCS],
    /// The places of the matches that were read and not shown.
    waiting: Range<usize>,
}

impl<'a> Matches<'a> {
    /// The matches in `set`, which is one of `planned`.
    pub(super) fn new(
        set: &'a mut dyn Scorer,
        planned: &'a Planned,
        boost: Option<f32>,
        interrupt: &'a Interrupt,
    ) -> Matches<'a> {
        Matches {
            set,
            planned,
            boost,
            interrupt,
            docs: [0; BLOCK_DOCS],
            scores: [0.0; BLOCK_DOCS],
            waiting: 0..0,
        }
    }

    /// Shows the matches of a range of documents to a sink and counts them. Ranges come in ascending order.
    ///
    /// # Errors
    /// Scripts that fail, the sink, cancellation.
    pub(super) fn show(&mut self, range: Range<DocId>, sink: &mut dyn DocSink, found: &mut Collected) -> Result<()> {
        self.waiting.start += self.docs[self.waiting.clone()].partition_point(|doc| *doc < range.start);
        if self.waiting.is_empty() {
            seek_to(self.set, range.start);
        }
        while !self.waiting.is_empty() || self.read()? {
            let from = self.waiting.start;
            let to = from + self.docs[self.waiting.clone()].partition_point(|doc| *doc < range.end);
            let scores = if self.boost.is_some() { &self.scores[from..to] } else { &[] };
            found.max_score = scores.iter().copied().chain(found.max_score).reduce(f32::max);
            if from < to {
                sink.collect_block(&self.docs[from..to], scores)?;
            }
            found.count += (to - from) as u64;
            self.waiting.start = to;
            if !self.waiting.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next matches; `false` if there are none.
    fn read(&mut self) -> Result<bool> {
        self.interrupt.check()?;
        let len = match self.boost {
            Some(_) => fill_scored(self.set, &mut self.docs, &mut self.scores),
            None => fill(self.set, &mut self.docs),
        };
        // A script that failed, or was ended, has given no score to its document.
        self.planned.check()?;
        if let Some(boost) = self.boost {
            self.scores[..len].iter_mut().for_each(|score| *score *= boost);
        }
        self.waiting = 0..len;
        Ok(len > 0)
    }
}

/// Matches that a sink has not seen yet.
pub(super) struct Waiting {
    docs: Vec<DocId>,
    scores: Vec<f32>,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        Waiting {
            docs: Vec::with_capacity(BLOCK_DOCS),
            scores: Vec::with_capacity(BLOCK_DOCS),
        }
    }

    /// One more match.
    ///
    /// # Errors
    /// The sink's.
    #[inline]
    pub(super) fn push(&mut self, doc: DocId, score: f32, sink: &mut dyn DocSink) -> Result<()> {
        self.docs.push(doc);
        self.scores.push(score);
        if self.docs.len() == BLOCK_DOCS {
            return self.show(sink);
        }
        Ok(())
    }

    /// Shows all of them.
    ///
    /// # Errors
    /// The sink's.
    pub(super) fn show(&mut self, sink: &mut dyn DocSink) -> Result<()> {
        if !self.docs.is_empty() {
            sink.collect_block(&self.docs, &self.scores)?;
        }
        self.docs.clear();
        self.scores.clear();
        Ok(())
    }
}
