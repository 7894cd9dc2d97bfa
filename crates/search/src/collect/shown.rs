//! Matches for a sink (aggregations), by blocks.
//!
//! Not here: hits (`collect`), what a sink does with documents (`aggs`).

use super::Collected;
use crate::context::Context;
use crate::doc_sink::DocSink;
use crate::scorers::fill::{BLOCK_DOCS, fill, fill_scored};
use crate::scorers::planned::Planned;
use model::Result;
use tantivy::DocId;
use tantivy::query::Scorer;

/// Shows every match of a segment to a sink and counts it, where nobody wants hits. Scores are multiplied by `boost`; `None`: nobody
/// reads them.
///
/// # Errors
/// Scripts that fail, the sink, cancellation.
pub(super) fn show_all(
    set: &mut dyn Scorer,
    boost: Option<f32>,
    planned: &Planned,
    cx: &Context<'_>,
    sink: &mut dyn DocSink,
    found: &mut Collected,
) -> Result<()> {
    let (mut docs, mut scores) = ([0; BLOCK_DOCS], [0.0; BLOCK_DOCS]);
    loop {
        let len = match boost {
            Some(_) => fill_scored(set, &mut docs, &mut scores),
            None => fill(set, &mut docs),
        };
        // A script that failed, or was ended, has given no score to its document.
        planned.check()?;
        if let Some(boost) = boost {
            scores[..len].iter_mut().for_each(|score| *score *= boost);
            found.max_score = scores[..len].iter().copied().chain(found.max_score).reduce(f32::max);
        }
        let scores = if boost.is_some() { &scores[..len] } else { &[] };
        if len > 0 {
            sink.collect_block(&docs[..len], scores)?;
        }
        found.count += len as u64;
        if len < BLOCK_DOCS {
            return Ok(());
        }
        cx.check_cancelled()?;
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
