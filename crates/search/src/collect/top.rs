//! The best by score alone, without looking at more matches than that takes.
//!
//! For a term or a choice of terms, the bounds of blocks find the best documents (`scorers::block_max`), and a second pass counts: one
//! pass for both would visit every match. Matches of a conjunction or a phrase are
//! scanned until enough are counted, and only the rest is pruned. Where every match has the same score, the first ones are the
//! best. Counting ends at `track_total_hits`.
//!
//! Scores that are shown are those of `scorers`: those of pruning choose, and are shown where their sum is exact (search.md S10 to S13).
//!
//! Not here: every other search (`collect`).

use super::collapse::Groups;
use super::match_count::MatchCount;
use super::shared_bound::SharedBound;
use super::side_by_side::{self, DividedWork, Units};
use super::{Best, Collected, Order, Ranked, Source, ranked_by_score};
use crate::context::Context;
use crate::interrupt::Interrupt;
use crate::scorers::block_max::Candidates;
use crate::scorers::fill::each_length;
use crate::scorers::live_docs::LiveDocs;
use crate::scorers::planned::Planned;
use crate::scorers::prune::{Checks, Pruning};
use crate::sort::Plan;
use dsl::search::{SearchRequest, TrackTotal};
use model::Result;
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

/// Whether a search asks for nothing but the best by score and how many match.
pub(crate) fn applies(source: &Source<'_>, request: &SearchRequest, found: &Collected) -> bool {
    source.sort.is_empty()
        && source.post_filter.is_none()
        && found.members.is_none()
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
    let pruning = if best.limit() > 0 { planned.pruning() } else { None };
    let most = match request.track_total_hits {
        TrackTotal::Exact => u64::MAX,
        TrackTotal::UpTo(most) => most as u64,
        TrackTotal::No => 0,
    };
    if let Some(plan) = source.collapse {
        return match &pruning {
            Some(pruning) if prunes_groups(pruning, source)? => collect_groups(source, plan, pruning, most, cx, best, found),
            _ => super::collect(source, request, cx, best, &mut None, found),
        };
    }
    let pass = Pass {
        planned: planned.clone(),
        view: source.view.clone(),
        view_no: source.no,
        pruning,
        most,
        limit: best.limit(),
        bound: SharedBound::default(),
        counted: AtomicU64::new(found.count),
        interrupt: cx.interrupt.clone(),
    };
    let Some(helpers) = cx.helpers.filter(|_| pass.is_long()) else {
        return (0..pass.units()).try_for_each(|no| pass.segment(no, best, &mut found.count));
    };
    let (own, parts) = side_by_side::run(pass, helpers, |pass, mut segments| {
        segments.try_for_each(|no| pass.segment(no, best, &mut found.count))
    });
    for part in parts {
        let part = part?;
        debug_assert!(
            part.hits.len() <= best.limit(),
            "search.md S26: a helper keeps no more than the best k"
        );
        found.count += part.count;
        part.hits.into_iter().for_each(|hit| best.push(hit));
    }
    own
}

/// A pass that looks at fewer entries of lists, or documents, takes less time than a second thread needs to begin.
const LONG: u64 = if cfg!(test) { 1 } else { 200_000 };

/// One index of a search for the best by score.
struct Pass {
    planned: Arc<Planned>,
    view: Arc<IndexView>,
    /// The number of the index.
    view_no: usize,
    pruning: Option<Pruning>,
    /// Counting ends here.
    most: u64,
    limit: usize,
    bound: SharedBound,
    /// Matches that all threads have counted, those of the indices before too.
    counted: AtomicU64,
    interrupt: Interrupt,
}

impl Pass {
    /// Whether it is worth a second thread.
    fn is_long(&self) -> bool {
        let entries = match &self.pruning {
            Some(pruning) => pruning.work(),
            // The first matches are the best where all have one score.
            None if self.limit == 0 || self.planned.node().most_score().is_some() => 0,
            None => {
                let segments = self.view.segments.iter();
                segments.map(|segment| u64::from(segment.reader.max_doc())).sum()
            }
        };
        entries >= LONG
    }
}

/// The hits of a helper, and its count.
struct SegmentsPart {
    hits: Vec<Ranked>,
    count: u64,
}

impl DividedWork for Pass {
    type Part = SegmentsPart;

    fn units(&self) -> usize {
        self.view.segments.len()
    }

    fn help(&self, mut segments: Units<'_>) -> Result<SegmentsPart> {
        let (order, mut count) = (Order::default(), 0);
        let mut best = Best::new(&order, self.limit);
        segments.try_for_each(|no| self.segment(no, &mut best, &mut count))?;
        Ok(SegmentsPart {
            hits: best.into_sorted(),
            count,
        })
    }
}

impl Pass {
    /// Adds the hits and the count of one segment.
    ///
    /// # Errors
    /// Unreadable files, scripts, cancellation.
    fn segment(&self, no: usize, best: &mut Best<'_>, count: &mut u64) -> Result<()> {
        self.interrupt.check()?;
        let (planned, most) = (&*self.planned, self.most);
        let mut count = MatchCount::new(count, &self.counted);
        let segment = &self.view.segments[no];
        let sight = planned.sight(segment)?;
        let at = SegmentQuery {
            planned,
            segment,
            sight: &sight,
            view: self.view_no,
            no,
            bound: &self.bound,
            interrupt: &self.interrupt,
        };
        match &self.pruning {
            Some(pruning) if pruning.is_conjunction() => collect_conjunction(pruning, &at, most, best, &mut count)?,
            Some(pruning) => match collect_pruned(pruning, &at, best)? {
                Pruned::NothingMatches => {}
                Pruned::Selective => collect_all(&at, most, best, &mut count)?,
                Pruned::Done => at.count_matches(most, &mut count)?,
            },
            None if best.limit() == 0 => at.count_matches(most, &mut count)?,
            None => collect_all(&at, most, best, &mut count)?,
        }
        planned.check()
    }
}

/// A query in one segment.
struct SegmentQuery<'a> {
    planned: &'a Planned,
    segment: &'a SegmentView,
    sight: &'a LiveDocs,
    /// The numbers of the index and the segment.
    view: usize,
    no: usize,
    bound: &'a SharedBound,
    interrupt: &'a Interrupt,
}

impl SegmentQuery<'_> {
    fn rank(&self, doc: DocId, score: f32) -> Ranked {
        ranked_by_score(self.view, self.no, doc, score)
    }

    /// Adds the matches of the segment, unless enough are counted.
    fn count_matches(&self, most: u64, count: &mut MatchCount<'_>) -> Result<()> {
        if let Some(left) = most.checked_sub(count.total()) {
            count.add(count_matches(self.planned, self.segment, self.sight, left, self.interrupt)?);
        }
        Ok(())
    }
}

/// Visible matches of a segment; beyond `most` any larger number will do.
fn count_matches(planned: &Planned, segment: &SegmentView, sight: &LiveDocs, most: u64, interrupt: &Interrupt) -> Result<u64> {
    if let Some(count) = planned.quick_count(segment, sight, most)? {
        return Ok(count);
    }
    let mut count = 0;
    each_length(&mut *planned.scorer(segment)?, &mut |len| {
        count += len;
        interrupt.check()?;
        Ok(count <= most)
    })?;
    Ok(count)
}

/// A candidate; the greatest is the worst, which is the one to drop.
#[derive(PartialEq)]
struct HitCandidate(f32, DocId);

impl Eq for HitCandidate {}
impl PartialOrd for HitCandidate {
    fn partial_cmp(&self, other: &HitCandidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for HitCandidate {
    fn cmp(&self, other: &HitCandidate) -> Ordering {
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

/// The best candidates of a segment, as many as are wanted, that beat what is known.
struct Nearest<'a> {
    heap: BinaryHeap<HitCandidate>,
    limit: usize,
    floor: f32,
    /// The score that the next hit must beat, as this thread knows.
    own_threshold: f32,
    bound: &'a SharedBound,
}

impl<'a> Nearest<'a> {
    fn above(best: &Best<'_>, bound: &'a SharedBound) -> Nearest<'a> {
        let floor = best.threshold().map_or(f32::MIN, |worst| worst.score);
        Nearest {
            heap: BinaryHeap::with_capacity(best.limit().min(1024) + 1),
            limit: best.limit(),
            floor,
            own_threshold: floor,
            bound,
        }
    }

    /// The score that the next hit must beat.
    fn threshold(&self) -> f32 {
        self.own_threshold.max(self.bound.floor())
    }

    /// Documents come in order: among equals the first ones stay.
    fn push(&mut self, score: f32, doc: DocId) {
        let candidate = HitCandidate(score, doc);
        match self.heap.len() < self.limit {
            true => self.heap.push(candidate),
            // One walk down the heap in place of one up and one down.
            false => {
                if let Some(mut worst) = self.heap.peek_mut()
                    && candidate < *worst
                {
                    *worst = candidate;
                }
            }
        }
        debug_assert!(
            self.heap.len() <= self.limit,
            "search.md S10: no more than the best k are kept"
        );
        if self.heap.len() == self.limit
            && let Some(worst) = self.heap.peek()
        {
            self.own_threshold = worst.0.max(self.floor);
            self.bound.raise(self.own_threshold);
        }
    }
}

/// The best of one segment by pruning.
fn collect_pruned(pruning: &Pruning, at: &SegmentQuery<'_>, best: &mut Best<'_>) -> Result<Pruned> {
    let Some(checks) = pruning.checks(at.segment)? else {
        return Ok(Pruned::NothingMatches);
    };
    if pruning.is_selective(&checks) {
        return Ok(Pruned::Selective);
    }
    prune_from(0, pruning, at, checks, best)?;
    Ok(Pruned::Done)
}

/// The best of a conjunction in one segment. No list says how many documents match, so they are scanned until enough are counted;
/// from there on the bounds choose.
fn collect_conjunction(
    pruning: &Pruning,
    at: &SegmentQuery<'_>,
    most: u64,
    best: &mut Best<'_>,
    count: &mut MatchCount<'_>,
) -> Result<()> {
    let Some(checks) = pruning.checks(at.segment)? else {
        return Ok(());
    };
    if pruning.is_selective(&checks) {
        return collect_all(at, most, best, count);
    }
    let counted = |best: &Best<'_>, count: &MatchCount<'_>| best.threshold().is_some() && count.exceeds(most);
    if let Some(left) = most.checked_sub(count.total())
        && let Some(all) = at.planned.quick_count(at.segment, at.sight, left)?
    {
        count.add(all);
        return prune_from(0, pruning, at, checks, best);
    }
    let mut from = 0;
    if !counted(best, count) {
        let mut set = at.planned.scorer(at.segment)?;
        let mut seen = 0u64;
        while set.doc() != TERMINATED && !counted(best, count) {
            count.add(1);
            let score = set.score();
            if best.threshold().is_none_or(|worst| score > worst.score) {
                best.push(at.rank(set.doc(), score));
            }
            seen += 1;
            if seen.is_multiple_of(1024) {
                at.interrupt.check()?;
                at.planned.check()?;
            }
            set.advance();
        }
        from = set.doc();
    }
    if from == TERMINATED {
        return Ok(());
    }
    prune_from(from, pruning, at, checks, best)
}

/// The best of one segment from a document on, by pruning.
fn prune_from(from: DocId, pruning: &Pruning, at: &SegmentQuery<'_>, mut checks: Checks, best: &mut Best<'_>) -> Result<()> {
    let mut nearest = Nearest::above(best, at.bound);
    let candidates = pruning.open(at.segment)?;
    let mut shown = ShownScore::open(&candidates, pruning, at)?;
    candidates.for_each(from, nearest.threshold(), &mut |doc, score| {
        debug_assert!(doc >= from, "search.md S10: documents before [{from}] have been looked at");
        if score > nearest.threshold() && at.sight.sees(doc) && checks.pass(doc) {
            let found = shown.score(doc, score);
            if let Some(found) = found.filter(|found| *found > nearest.threshold()) {
                nearest.push(found, doc);
            }
        }
        nearest.threshold()
    });
    for HitCandidate(score, doc) in nearest.heap {
        best.push(at.rank(doc, score));
    }
    Ok(())
}

/// The score that is shown of a document that pruning chose, in which scores may be added up in another order. Where the
/// sum is exact the scorer is not asked, but by assertions.
struct ShownScore {
    scorer: Option<Box<dyn Scorer>>,
    is_exact: bool,
    /// Documents with all terms may be no matches: a phrase also asks for their places.
    may_miss: bool,
}

impl ShownScore {
    fn open(candidates: &Candidates<'_>, pruning: &Pruning, at: &SegmentQuery<'_>) -> Result<ShownScore> {
        let is_exact = candidates.scores_are_exact();
        let scorer = match is_exact && !cfg!(debug_assertions) {
            true => None,
            false => Some(at.planned.node().scorer(at.segment)?),
        };
        Ok(ShownScore {
            scorer,
            is_exact,
            may_miss: pruning.is_conjunction(),
        })
    }

    /// `None`: it is no match. Documents are asked for in ascending order. `most`: the sum by pruning.
    fn score(&mut self, doc: DocId, most: f32) -> Option<f32> {
        let Some(scorer) = &mut self.scorer else {
            return Some(most);
        };
        let matches = matches!(scorer.seek_danger(doc), SeekDangerResult::Found);
        debug_assert!(
            matches || self.may_miss && !self.is_exact,
            "search.md S11: the scorer finds the documents that pruning chooses"
        );
        let found = matches.then(|| scorer.score());
        debug_assert!(
            found.is_none_or(|found| found <= most),
            "search.md S11: a match scores {found:?}, its terms together [{most}]"
        );
        debug_assert!(
            !self.is_exact || found == Some(most),
            "search.md S11: a match scores {found:?} where the exact sum is [{most}]"
        );
        found
    }
}

/// Whether groups are found by pruning: a conjunction and a selective filter are scanned.
fn prunes_groups(pruning: &Pruning, source: &Source<'_>) -> Result<bool> {
    for segment in &source.view.segments {
        if pruning.checks(segment)?.is_some_and(|checks| pruning.is_selective(&checks)) {
            return Ok(false);
        }
    }
    Ok(!pruning.is_conjunction())
}

/// The best of each of the best groups. A document that is no better than the last of so many groups' best is in none of them.
fn collect_groups(
    source: &Source<'_>,
    plan: &Plan,
    pruning: &Pruning,
    most: u64,
    cx: &Context<'_>,
    best: &mut Best<'_>,
    found: &mut Collected,
) -> Result<()> {
    let planned = source.planned;
    for (no, segment) in source.view.segments.iter().enumerate() {
        cx.check_cancelled()?;
        let sight = planned.sight(segment)?;
        let Some(mut checks) = pruning.checks(segment)? else {
            continue;
        };
        let groups = Groups::open(plan, source.view, segment)?;
        let mut scorer = planned.node().scorer(segment)?;
        let candidates = pruning.open(segment)?;
        let mut failed = None;
        // The best score of each group that the segment has shown, by ordinal.
        let mut best_scores: FxHashMap<u64, f32> = FxHashMap::default();
        candidates.for_each(0, best.floor_score(), &mut |doc, score| {
            let floor = best.floor_score();
            let competes = score > floor && sight.sees(doc) && checks.pass(doc);
            let ordinal = if competes { groups.ordinal(doc) } else { None };
            // Documents come in order: no bound that is not above the group's best leads to a better one.
            let is_behind = ordinal.is_some_and(|ordinal| best_scores.get(&ordinal).is_some_and(|best| score <= *best));
            if !competes || is_behind {
                return floor;
            }
            match groups.of(doc) {
                Ok(group) if best.rival(&group).is_none_or(|rival| score > rival.score) => {
                    if matches!(scorer.seek_danger(doc), SeekDangerResult::Found) {
                        let score = scorer.score();
                        if let Some(ordinal) = ordinal {
                            let best = best_scores.entry(ordinal).or_insert(score);
                            *best = best.max(score);
                        }
                        best.push(Ranked {
                            group: Some(group),
                            ..ranked_by_score(source.no, no, doc, score)
                        });
                    }
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
            best.floor_score()
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if found.count <= most {
            found.count += count_matches(planned, segment, &sight, most - found.count, &cx.interrupt)?;
        }
        planned.check()?;
    }
    Ok(())
}

/// Every match of one segment, until no further one can matter.
fn collect_all(at: &SegmentQuery<'_>, most: u64, best: &mut Best<'_>, count: &mut MatchCount<'_>) -> Result<()> {
    let SegmentQuery {
        planned,
        segment,
        sight,
        interrupt,
        ..
    } = at;
    let bound = planned.node().most_score();
    let done = |best: &Best<'_>| match (best.threshold(), bound) {
        (Some(worst), Some(bound)) => worst.score >= bound,
        _ => false,
    };
    if done(best) {
        return at.count_matches(most, count);
    }
    let mut set = planned.scorer(segment)?;
    let left = most.saturating_sub(count.total());
    let mut seen = 0u64;
    let mut doc = set.doc();
    while doc != TERMINATED {
        count.add(1);
        seen += 1;
        let score = set.score();
        debug_assert!(
            bound.is_none_or(|bound| score <= bound),
            "search.md S12: a score of {score} is above the bound {bound:?}"
        );
        if best.threshold().is_none_or(|worst| score > worst.score) {
            best.push(at.rank(doc, score));
            if done(best) {
                if let Some(all) = planned.quick_count(segment, sight, left)? {
                    count.add(all.saturating_sub(seen));
                    return Ok(());
                }
                if count.exceeds(most) {
                    return Ok(());
                }
                // The others are only counted, many at once.
                set.advance();
                return each_length(&mut *set, &mut |len| {
                    count.add(len);
                    interrupt.check()?;
                    planned.check()?;
                    Ok(!count.exceeds(most))
                });
            }
        }
        if seen.is_multiple_of(1024) {
            interrupt.check()?;
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
