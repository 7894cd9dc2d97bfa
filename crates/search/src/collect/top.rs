//! The best by score alone, without looking at more matches than that takes.
//!
//! For a term or a choice of terms, tantivy's block-max WAND finds the best documents, and a second pass counts: one
//! pass for both would visit every match. A choice may be answered by its rarest term. Where every match has the same
//! score, the first ones are the best. Counting ends at `track_total_hits`.
//!
//! Scores that are shown come from `scorers` in every case: those of pruning only choose (search.md S10 to S13).
//!
//! Not here: every other search (`collect`).

use super::{Best, Collected, Ranked, Source};
use crate::context::Context;
use crate::scorers::live_docs::LiveDocs;
use crate::scorers::node::seek_to;
use crate::scorers::planned::Planned;
use crate::scorers::prune::{self, Checks, Pruning};
use crate::scorers::rare_term_topk::Rarest;
use dsl::search::{SearchRequest, TrackTotal};
use model::Result;
use segment::segment_view::SegmentView;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use tantivy::{DocId, DocSet, TERMINATED};

/// Whether a search asks for nothing but the best by score and how many match.
pub(crate) fn applies(source: &Source<'_>, request: &SearchRequest) -> bool {
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
/// As [`crate::collect::collect`].
pub(crate) fn top(
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
            Some(pruning) => match collect_pruned(pruning, planned, segment, &sight, (source.no, no), best)? {
                Pruned::NothingMatches => {}
                Pruned::Selective => collect_all(planned, segment, &sight, (source.no, no), most, cx, best, found)?,
                Pruned::Done if found.count <= most => {
                    found.count += count_matches(planned, segment, &sight, most - found.count, cx)?;
                }
                Pruned::Done => {}
            },
            None if best.limit() == 0 && found.count > most => {}
            None if best.limit() == 0 => found.count += count_matches(planned, segment, &sight, most - found.count, cx)?,
            None => collect_all(planned, segment, &sight, (source.no, no), most, cx, best, found)?,
        }
        planned.check()?;
    }
    Ok(())
}

/// Visible matches of a segment; beyond `most` any larger number will do.
fn count_matches(planned: &Planned, segment: &SegmentView, sight: &LiveDocs, most: u64, cx: &Context<'_>) -> Result<u64> {
    if let Some(count) = planned.quick_count(segment, sight, most)? {
        return Ok(count);
    }
    let mut set = planned.scorer(segment)?;
    let mut count = 0;
    while set.doc() != TERMINATED && count <= most {
        count += 1;
        if count.is_multiple_of(1 << 14) {
            cx.check_cancelled()?;
        }
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

/// The result of pruning in a segment.
enum Pruned {
    /// The best are found.
    Done,
    /// No document passes the restrictions.
    NothingMatches,
    /// A restriction passes so few documents that a scan costs less. Nothing was done.
    Selective,
}

/// The best of one segment, if they all have the rarest term of a choice; otherwise nothing is done.
fn by_rarest(
    rarest: &Rarest<'_>,
    segment: &SegmentView,
    (sight, checks): (&LiveDocs, &mut Checks),
    (view, no): (usize, usize),
    best: &mut Best<'_>,
) -> Result<bool> {
    let mut nearest = Nearest::above(best);
    rarest.for_each(segment, &mut |doc, score| {
        if score > nearest.threshold && sight.sees(doc) && checks.pass(doc) {
            nearest.push(score, doc);
        }
    })?;
    if nearest.threshold <= rarest.bound_of_others() {
        return Ok(false);
    }
    for Candidate(score, doc) in nearest.heap {
        best.push(ranked_by_score(view, no, doc, score));
    }
    Ok(true)
}

/// The best candidates of a segment, as many as are wanted, that beat what is known.
struct Nearest {
    heap: BinaryHeap<Candidate>,
    limit: usize,
    floor: f32,
    /// The score that the next hit must beat.
    threshold: f32,
}

impl Nearest {
    fn above(best: &Best<'_>) -> Nearest {
        let floor = best.threshold().map_or(f32::MIN, |worst| worst.score);
        Nearest {
            heap: BinaryHeap::with_capacity(best.limit().min(1024) + 1),
            limit: best.limit(),
            floor,
            threshold: floor,
        }
    }

    /// Documents come in order: among equals the first ones stay.
    fn push(&mut self, score: f32, doc: DocId) {
        self.heap.push(Candidate(score, doc));
        if self.heap.len() > self.limit {
            self.heap.pop();
        }
        debug_assert!(
            self.heap.len() <= self.limit,
            "search.md S10: no more than the best k are kept"
        );
        if self.heap.len() == self.limit
            && let Some(worst) = self.heap.peek()
        {
            self.threshold = worst.0.max(self.floor);
        }
    }
}

/// The best of one segment by pruning.
fn collect_pruned(
    pruning: &Pruning,
    planned: &Planned,
    segment: &SegmentView,
    sight: &LiveDocs,
    (view, no): (usize, usize),
    best: &mut Best<'_>,
) -> Result<Pruned> {
    let Some(mut checks) = pruning.checks(segment)? else {
        return Ok(Pruned::NothingMatches);
    };
    if pruning.is_selective(&checks) {
        return Ok(Pruned::Selective);
    }
    if let Some(rarest) = Rarest::of(planned.node().as_ref()) {
        if by_rarest(&rarest, segment, (sight, &mut checks), (view, no), best)? {
            return Ok(Pruned::Done);
        }
        // The checks stand behind the last candidate of the rarest term, and go forward only.
        let Some(again) = pruning.checks(segment)? else {
            return Ok(Pruned::NothingMatches);
        };
        checks = again;
    }
    let mut nearest = Nearest::above(best);
    // Pruning adds scores up in another order. It only chooses: who is near the threshold gets the score that is shown.
    let mut scorer = planned.node().scorer(segment)?;
    pruning.for_each(segment, nearest.floor, &mut |doc, score| {
        if score > prune::rounded_down(nearest.threshold) && sight.sees(doc) && checks.pass(doc) {
            let at = seek_to(scorer.as_mut(), doc);
            debug_assert_eq!(at, doc, "search.md S11: the scorer finds the documents that pruning chooses");
            if at == doc {
                let score = scorer.score();
                if score > nearest.threshold {
                    nearest.push(score, doc);
                }
            }
        }
        nearest.threshold
    })?;
    for Candidate(score, doc) in nearest.heap {
        best.push(ranked_by_score(view, no, doc, score));
    }
    Ok(Pruned::Done)
}

fn ranked_by_score(view: usize, segment: usize, doc: DocId, score: f32) -> Ranked {
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
fn collect_all(
    planned: &Planned,
    segment: &SegmentView,
    sight: &LiveDocs,
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
            found.count += count_matches(planned, segment, sight, most - found.count, cx)?;
        }
        return Ok(());
    }
    let mut set = planned.scorer(segment)?;
    let before = found.count;
    let (mut full, mut seen) = (false, 0u64);
    let mut doc = set.doc();
    while doc != TERMINATED {
        found.count += 1;
        if full {
            if found.count > most {
                break;
            }
        } else {
            let score = set.score();
            debug_assert!(
                bound.is_none_or(|bound| score <= bound),
                "search.md S12: a score of {score} is above the bound {bound:?}"
            );
            if best.threshold().is_none_or(|worst| score > worst.score) {
                best.push(ranked_by_score(view, no, doc, score));
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
        doc = set.advance();
    }
    Ok(())
}

/// Keeps the smallest of a stream by key, for callers that order by something cheap to compare.
pub(crate) struct Smallest<K> {
    heap: BinaryHeap<(K, DocId)>,
    limit: usize,
}

impl<K: Ord + Copy> Smallest<K> {
    /// At most `limit`.
    pub(crate) fn new(limit: usize) -> Smallest<K> {
        Smallest {
            heap: BinaryHeap::new(),
            limit,
        }
    }
    /// Documents come in order: among equals the first ones stay.
    pub(crate) fn push(&mut self, key: K, doc: DocId) {
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
        debug_assert!(self.heap.len() <= self.limit, "no more are kept than are wanted");
    }
    /// The worst that is kept, once there are enough.
    pub(crate) fn worst(&self) -> Option<&K> {
        let worst = self.heap.peek().filter(|_| self.heap.len() >= self.limit);
        worst.map(|(key, _)| key)
    }
    /// The documents, ascending.
    pub(crate) fn docs(self) -> Vec<DocId> {
        let mut docs: Vec<DocId> = self.heap.into_iter().map(|(_, doc)| doc).collect();
        docs.sort_unstable();
        docs
    }
}
