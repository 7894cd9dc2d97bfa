//! The best by score alone, without looking at more matches than that takes.
//!
//! Where a query is a term or a choice of terms, tantivy's block-max WAND finds the best documents and a second
//! pass counts (engine.md 1.1: one pass for both would see every match). Where every match has one score, the
//! first ones are the best. Counting ends where `track_total_hits` ends.
//!
//! Scores that are shown come from the scorers of `plan` in every case: those of pruning only choose.
//!
//! Not here: every other search (`collect`).

use super::collect::{Best, Collected, Ranked, Source};
use crate::plan::prune::Pruning;
use crate::plan::visible::Sight;
use crate::plan::{Context, Planned};
use crate::searchable::SegmentView;
use dsl::search::{SearchRequest, TrackTotal};
use model::Result;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use tantivy::{DocId, DocSet, TERMINATED};

/// Whether a search asks for nothing but the best by score and how many match.
pub(super) fn applies(source: &Source<'_>, request: &SearchRequest) -> bool {
    source.sort.is_empty()
        && source.post_filter.is_none()
        && source.collapse.is_none()
        && source.after.is_none()
        && source.boost == 1.0
        && request.min_score.is_none()
        && request.terminate_after == 0
        && request.slice.is_none()
        && request.timeout.is_none()
        && !request.track_scores
}

/// Runs over one index.
///
/// # Errors
/// As [`super::collect::collect`].
pub(super) fn top(
    source: &Source<'_>,
    request: &SearchRequest,
    cx: &Context<'_>,
    best: &mut Best<'_>,
    found: &mut Collected,
) -> Result<()> {
    let planned = source.planned;
    if planned.is_none() {
        return Ok(());
    }
    let pruning = if best.limit() > 0 { planned.pruning()? } else { None };
    let most = match request.track_total_hits {
        TrackTotal::Exact => u64::MAX,
        TrackTotal::UpTo(most) => most as u64,
        TrackTotal::No => 0,
    };
    for (no, segment) in source.view.segments.iter().enumerate() {
        cx.check_cancelled()?;
        let sight = planned.sight(segment)?;
        match &pruning {
            Some(pruning) => {
                pruned(pruning, planned, segment, &sight, (source.no, no), best)?;
                if found.count <= most {
                    found.count += counted(planned, segment, &sight, most - found.count)?;
                }
            }
            None if best.limit() == 0 && found.count > most => {}
            None if best.limit() == 0 => found.count += counted(planned, segment, &sight, most - found.count)?,
            None => scanned(planned, segment, &sight, (source.no, no), most, cx, best, found)?,
        }
        planned.check()?;
    }
    Ok(())
}

/// Visible matches of a segment; beyond `most` any larger number will do.
fn counted(planned: &Planned, segment: &SegmentView, sight: &Sight, most: u64) -> Result<u64> {
    if let Some(count) = planned.quick_count(segment, sight, most)? {
        return Ok(count);
    }
    let mut set = planned.scorer(segment)?;
    let mut count = 0;
    while set.doc() != TERMINATED && count <= most {
        count += 1;
        set.advance();
    }
    Ok(count)
}

/// A candidate; the greatest is the worst, which is the one to drop.
#[derive(PartialEq)]
struct Candidate(f32, DocId);

impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        other.0.total_cmp(&self.0).then_with(|| self.1.cmp(&other.1))
    }
}

/// The best of one segment by pruning.
fn pruned(
    pruning: &Pruning,
    planned: &Planned,
    segment: &SegmentView,
    sight: &Sight,
    (view, no): (usize, usize),
    best: &mut Best<'_>,
) -> Result<()> {
    let limit = best.limit();
    let floor = best.threshold().map_or(f32::MIN, |worst| worst.score);
    let mut heap: BinaryHeap<Candidate> = BinaryHeap::with_capacity(limit.min(1024) + 1);
    let mut threshold = floor;
    pruning.for_each(segment, floor, &mut |doc, score| {
        if score > threshold && sight.sees(doc) {
            heap.push(Candidate(score, doc));
            if heap.len() > limit {
                heap.pop();
            }
            if heap.len() == limit
                && let Some(worst) = heap.peek()
            {
                threshold = worst.0.max(floor);
            }
        }
        threshold
    })?;
    let mut docs: Vec<DocId> = heap.into_iter().map(|candidate| candidate.1).collect();
    docs.sort_unstable();
    if docs.is_empty() {
        return Ok(());
    }
    let mut scorer = planned.node().scorer(segment)?;
    for doc in docs {
        if scorer.doc() < doc {
            scorer.seek(doc);
        }
        debug_assert_eq!(scorer.doc(), doc, "what pruning finds, the scorer finds");
        if scorer.doc() == doc {
            let score = scorer.score();
            best.push(ranked(view, no, doc, score));
        }
    }
    Ok(())
}

fn ranked(view: usize, segment: usize, doc: DocId, score: f32) -> Ranked {
    Ranked {
        view,
        segment,
        doc,
        score,
        keys: Vec::new(),
        group: None,
    }
}

/// Every match of one segment, until no further one can matter.
#[allow(clippy::too_many_arguments, reason = "the state of one pass")]
fn scanned(
    planned: &Planned,
    segment: &SegmentView,
    sight: &Sight,
    (view, no): (usize, usize),
    most: u64,
    cx: &Context<'_>,
    best: &mut Best<'_>,
    found: &mut Collected,
) -> Result<()> {
    let bound = planned.node().most_score();
    let done = |best: &Best<'_>| match (best.threshold(), bound) {
        (Some(worst), Some(bound)) => worst.score >= bound,
        _ => false,
    };
    if done(best) {
        if found.count <= most {
            found.count += counted(planned, segment, sight, most - found.count)?;
        }
        return Ok(());
    }
    let mut set = planned.scorer(segment)?;
    let before = found.count;
    let (mut full, mut seen) = (false, 0u64);
    while set.doc() != TERMINATED {
        found.count += 1;
        if full {
            if found.count > most {
                break;
            }
        } else {
            let score = set.score();
            if best.threshold().is_none_or(|worst| score > worst.score) {
                best.push(ranked(view, no, set.doc(), score));
                full = done(best);
                if full && let Some(all) = planned.quick_count(segment, sight, most.saturating_sub(before))? {
                    found.count = before + all;
                    break;
                }
            }
        }
        seen += 1;
        if seen.is_multiple_of(1024) {
            cx.check_cancelled()?;
            planned.check()?;
        }
        set.advance();
    }
    Ok(())
}

/// Keeps the smallest of a stream by key, for callers that order by something cheap to compare.
pub(super) struct Smallest<K> {
    heap: BinaryHeap<(K, DocId)>,
    limit: usize,
}

impl<K: Ord + Copy> Smallest<K> {
    /// At most `limit`.
    pub(super) fn new(limit: usize) -> Smallest<K> {
        Smallest {
            heap: BinaryHeap::new(),
            limit,
        }
    }
    /// Documents come in order: among equals the first ones stay.
    pub(super) fn push(&mut self, key: K, doc: DocId) {
        if self.limit == 0 {
            return;
        }
        if self.heap.len() < self.limit {
            self.heap.push((key, doc));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && key < worst.0
        {
            *worst = (key, doc);
        }
    }
    /// The documents, ascending.
    pub(super) fn docs(self) -> Vec<DocId> {
        let mut docs: Vec<DocId> = self.heap.into_iter().map(|(_, doc)| doc).collect();
        docs.sort_unstable();
        docs
    }
}
