//! The matches of a segment, shown to a sink: by several threads where there are many of them.
//!
//! Each thread takes ranges of documents and has a sink of its own. At the end the sink of the search takes over what the others have
//! collected (search.md S28).
//!
//! Not here: how the parts of two sinks become one (`aggs`), the threads (`side_by_side`).

use super::shown::Matches;
use super::side_by_side::{self, DividedWork, Units};
use super::{Collected, Source};
use crate::context::Context;
use crate::doc_sink::{DocSink, SinkFork, SinkPart};
use crate::interrupt::Interrupt;
use crate::scorers::planned::Planned;
use dsl::search::SearchRequest;
use model::Result;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::ops::Range;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

/// Fewer matches are shown in less time than a second thread needs to begin.
const MANY: u64 = if cfg!(test) { 1 } else { 1 << 16 };
/// Ranges that a segment is divided into: some for each thread, as matches lie more densely in some.
const RANGES: u32 = 16;

/// Shows every match of a segment to a sink and counts it, where nobody wants hits. `set` has the matches.
///
/// # Errors
/// Scripts that fail, the sink, cancellation.
#[expect(clippy::too_many_arguments, reason = "the state of one pass")]
pub(super) fn show_all(
    source: &Source<'_>,
    segment: &Arc<SegmentView>,
    set: &mut dyn Scorer,
    scored: bool,
    request: &SearchRequest,
    cx: &Context<'_>,
    sink: &mut dyn DocSink,
    found: &mut Collected,
) -> Result<()> {
    let boost = scored.then_some(source.boost);
    // At a deadline the parts of helpers would be missing.
    let is_worth_it = set.cost() >= MANY && request.timeout.is_none();
    let division = cx
        .helpers
        .filter(|_| is_worth_it)
        .and_then(|helpers| Some((helpers, sink.fork()?)));
    let mut matches = Matches::new(set, source.planned, boost, &cx.interrupt);
    let Some((helpers, fork)) = division else {
        return matches.show(0..TERMINATED, sink, found);
    };
    let work = SegmentMatches {
        planned: source.planned.clone(),
        view: source.view.clone(),
        segment: segment.clone(),
        boost,
        fork,
        interrupt: cx.interrupt.clone(),
    };
    let (own, parts) = side_by_side::run(work, helpers, |work, mut ranges| {
        work.show(&mut matches, &mut ranges, sink, found)
    });
    for part in parts {
        let part = part?;
        sink.absorb(part.collected)?;
        found.count += part.found.count;
        found.max_score = part.found.max_score.into_iter().chain(found.max_score).reduce(f32::max);
    }
    own
}

/// The matches of one segment that threads take ranges of.
struct SegmentMatches {
    planned: Arc<Planned>,
    view: Arc<IndexView>,
    segment: Arc<SegmentView>,
    boost: Option<f32>,
    fork: Box<dyn SinkFork>,
    interrupt: Interrupt,
}

impl SegmentMatches {
    /// The documents of a range by its number.
    fn range(&self, no: usize) -> Range<DocId> {
        let max_doc = self.segment.reader.max_doc();
        let bound = |no: u32| (u64::from(max_doc) * u64::from(no) / u64::from(RANGES)) as DocId;
        let no = no as u32;
        debug_assert!(no < RANGES, "range [{no}] is one of [{RANGES}]");
        bound(no)..bound(no + 1)
    }

    fn show(
        &self,
        matches: &mut Matches<'_>,
        ranges: &mut Units<'_>,
        sink: &mut dyn DocSink,
        found: &mut Collected,
    ) -> Result<()> {
        ranges.try_for_each(|no| matches.show(self.range(no), sink, found))
    }
}

/// The part of a helper: its sink's, its count and its best score.
struct SinkShare {
    collected: SinkPart,
    found: Collected,
}

impl DividedWork for SegmentMatches {
    type Part = SinkShare;

    fn units(&self) -> usize {
        RANGES as usize
    }

    fn help(&self, mut ranges: Units<'_>) -> Result<SinkShare> {
        let mut set = self.planned.scorer(&self.segment)?;
        let mut matches = Matches::new(set.as_mut(), &self.planned, self.boost, &self.interrupt);
        let mut found = Collected::default();
        let collected = self.fork.collect(&mut |sink| {
            sink.segment(&self.view, &self.segment)?;
            self.show(&mut matches, &mut ranges, sink, &mut found)
        })?;
        Ok(SinkShare { collected, found })
    }
}
