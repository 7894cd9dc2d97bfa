//! One pass over the documents that match: counting, keeping the best, telling aggregations.

pub(crate) mod by_rank;
pub(crate) mod collapse;
mod divided_sink;
pub(crate) mod group_members;
pub mod join_keys;
mod match_count;
pub(crate) mod rescore;
mod shared_bound;
mod shown;
mod side_by_side;
pub(crate) mod top;

use crate::collect::by_rank::ByRank;
use crate::collect::collapse::{Group, Groups, Member, Members};
use crate::collect::shown::Waiting;
use crate::collect::top::Smallest;
use crate::context::Context;
use crate::doc_sink::DocSink;
use crate::scorers::node::seek_to;
use crate::scorers::planned::Planned;
use crate::sort::{Key, Plan, Ranks, SortReader, compare, quick_order};
use dsl::search::SearchRequest;
use model::Result;
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::cmp::Ordering;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

/// A document that is among the best.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// Which index.
    pub view: usize,
    /// Which segment of it.
    pub segment: usize,
    /// Which document of it.
    pub doc: DocId,
    /// Its score, if scores were worked out.
    pub score: f32,
    /// Its sort keys; none when sorted by score alone.
    pub keys: Vec<Key>,
    /// The group of a collapsed search.
    pub(crate) group: Option<Group>,
}

/// A document of a search by score alone.
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

/// How documents are ordered: a total order (search.md S9).
#[derive(Default)]
pub struct Order {
    /// Directions of the keys; empty for scores.
    pub ascending: Vec<bool>,
}

impl Order {
    /// Who comes first.
    pub fn compare(&self, a: &Ranked, b: &Ranked) -> Ordering {
        debug_assert!(
            a.keys.len() == self.ascending.len() && b.keys.len() == self.ascending.len(),
            "search.md S9: documents are compared by a key for each sort"
        );
        let by = if self.ascending.is_empty() {
            b.score.total_cmp(&a.score)
        } else {
            let mut pairs = a.keys.iter().zip(&b.keys).zip(&self.ascending);
            pairs
                .find_map(|((x, y), up)| Some(compare(x, y, *up)).filter(|o| o.is_ne()))
                .unwrap_or(Ordering::Equal)
        };
        by.then_with(|| (a.view, a.segment, a.doc).cmp(&(b.view, b.segment, b.doc)))
    }
}

/// The best so many, kept as a heap with the worst on top; of groups the best of each.
pub struct Best<'a> {
    order: &'a Order,
    limit: usize,
    heap: Vec<Ranked>,
    groups: FxHashMap<Group, Ranked>,
    /// So many groups are better that nothing at or behind this can matter.
    floor: Option<Ranked>,
    /// New groups, and groups with a new best document, since the floor was found.
    changes: usize,
}

/// Groups beyond those wanted that are kept before the worst are dropped.
const SPARE: usize = 16;
/// By score the floor is found again when more than this part of the wanted groups has changed: the higher it is, the more blocks
/// are passed over.
const FLOOR_PART: usize = 4;

impl<'a> Best<'a> {
    /// At most `limit`.
    pub fn new(order: &'a Order, limit: usize) -> Best<'a> {
        Best {
            order,
            limit,
            heap: Vec::new(),
            groups: FxHashMap::default(),
            floor: None,
            changes: 0,
        }
    }
    /// How many at most.
    pub fn limit(&self) -> usize {
        self.limit
    }
    fn worse(&self, a: usize, b: usize) -> bool {
        self.order.compare(&self.heap[a], &self.heap[b]).is_gt()
    }
    /// The worst that is kept, once there are enough.
    pub fn threshold(&self) -> Option<&Ranked> {
        if self.heap.len() >= self.limit {
            self.heap.first()
        } else {
            None
        }
    }
    /// The hit that a document of a group must come before.
    pub(crate) fn rival(&self, group: &Group) -> Option<&Ranked> {
        self.groups.get(group).or(self.floor.as_ref())
    }
    /// No document with this score or less is the best of its group or brings a group among the best. They come in order.
    pub(crate) fn floor_score(&self) -> f32 {
        self.floor.as_ref().map_or(f32::MIN, |floor| floor.score)
    }
    fn floor_view(&self) -> usize {
        self.floor.as_ref().map_or(0, |floor| floor.view)
    }
    /// Drops the groups that are not among the best: their best document is not, and a better one brings them back.
    fn prune(&mut self) {
        let mut heads: Vec<Ranked> = std::mem::take(&mut self.groups).into_values().collect();
        let order = self.order;
        heads.select_nth_unstable_by(self.limit - 1, |a, b| order.compare(a, b));
        heads.truncate(self.limit);
        self.floor = heads.last().cloned();
        self.changes = 0;
        let named = |head: Ranked| head.group.clone().map(|group| (group, head));
        self.groups = heads.into_iter().filter_map(named).collect();
        debug_assert_eq!(
            self.groups.len(),
            self.limit,
            "search.md S9: of each of the best groups its best document is kept"
        );
    }
    /// Keeps it if it is good enough.
    pub fn push(&mut self, one: Ranked) {
        if self.limit == 0 {
            return;
        }
        if let Some(group) = &one.group {
            match self.groups.get_mut(group) {
                Some(known) if self.order.compare(&one, known).is_ge() => {}
                Some(known) => {
                    *known = one;
                    self.changes += 1;
                }
                None if self
                    .floor
                    .as_ref()
                    .is_some_and(|floor| self.order.compare(&one, floor).is_ge()) => {}
                None => {
                    self.groups.insert(group.clone(), one);
                    self.changes += 1;
                }
            }
            let is_due = match self.order.ascending.is_empty() {
                true => self.groups.len() >= self.limit && self.changes > self.limit / FLOOR_PART,
                // Nothing is passed over by the floor of another order, in which each document may be better than the one before.
                false => self.groups.len() > 2 * self.limit + SPARE,
            };
            if is_due {
                self.prune();
            }
            return;
        }
        if self.heap.len() < self.limit {
            self.heap.push(one);
            let mut at = self.heap.len() - 1;
            while at > 0 && self.worse(at, (at - 1) / 2) {
                self.heap.swap(at, (at - 1) / 2);
                at = (at - 1) / 2;
            }
            return;
        }
        if self.order.compare(&one, &self.heap[0]).is_ge() {
            return;
        }
        self.heap[0] = one;
        let mut at = 0;
        loop {
            let mut worst = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.worse(child, worst) {
                    worst = child;
                }
            }
            if worst == at {
                break;
            }
            self.heap.swap(at, worst);
            at = worst;
        }
        debug_assert!(self.heap.len() <= self.limit, "no more are kept than are wanted");
        debug_assert!(
            (1..self.heap.len().min(3)).all(|child| !self.worse(child, 0)),
            "the worst hit is the first of the heap"
        );
    }
    /// In order.
    pub fn into_sorted(self) -> Vec<Ranked> {
        self.into_sorted_from(0)
    }
    /// In order from place `from` on. The hits before it, which a page does not show, are in no order.
    pub fn into_sorted_from(self, from: usize) -> Vec<Ranked> {
        let Best {
            order,
            mut heap,
            groups,
            limit,
            floor: _,
            changes: _,
        } = self;
        heap.extend(groups.into_values());
        // Only the best groups are sorted.
        if limit > 0 && heap.len() > limit {
            heap.select_nth_unstable_by(limit - 1, |a, b| order.compare(a, b));
            heap.truncate(limit);
        }
        heap.truncate(limit);
        let from = from.min(heap.len());
        if (1..heap.len()).contains(&from) {
            heap.select_nth_unstable_by(from, |a, b| order.compare(a, b));
        }
        // The order is total, so no two hits are equal.
        heap[from..].sort_unstable_by(|a, b| order.compare(a, b));
        debug_assert!(
            heap[from..].is_sorted_by(|a, b| order.compare(a, b).is_lt()),
            "search.md S9: hits have one total order, and each stands in it once"
        );
        debug_assert!(
            heap.iter().all(|hit| hit.keys.len() == heap[0].keys.len()),
            "every hit has a key for each sort"
        );
        heap
    }
}

/// The result of one pass, beside its hits.
#[derive(Default)]
pub struct Collected {
    /// How many match.
    pub count: u64,
    /// The best score.
    pub max_score: Option<f32>,
    /// It ended before everything was seen.
    pub timed_out: bool,
    /// The time of each index, in order.
    pub took: Vec<std::time::Duration>,
    /// `terminate_after` was reached.
    pub terminated: bool,
    /// The matching documents, for a search that shows members of groups.
    pub(crate) members: Option<Members>,
}

/// How many documents are seen between looks at the clock.
const LOOK: u64 = 1024;

/// One index of a pass.
pub struct Source<'a> {
    /// Its number in the answer.
    pub no: usize,
    /// The index.
    pub view: &'a Arc<IndexView>,
    /// The query.
    pub planned: &'a Arc<Planned>,
    /// A filter that hits must pass, and aggregations need not.
    pub post_filter: Option<&'a Planned>,
    /// Sort keys; empty for scores.
    pub sort: &'a [Plan],
    /// Documents at or before these keys are not hits.
    pub after: Option<&'a [Key]>,
    /// The value that hits are collapsed by.
    pub collapse: Option<&'a Plan>,
    /// Multiplies scores.
    pub boost: f32,
}

impl Source<'_> {
    /// Whether hits need their scores: for their order, or because the request shows or compares them.
    fn needs_scores(&self, request: &SearchRequest, best: &Best<'_>) -> bool {
        self.sort.is_empty() && best.limit > 0
            || self.sort.iter().any(Plan::needs_scores)
            || request.track_scores
            || request.min_score.is_some()
    }
}

/// How far a pass has come, and when it ends.
struct Progress {
    /// Scores are worked out.
    scores: bool,
    /// Hits end when so many are counted.
    most: Option<u64>,
    /// They have ended; aggregations see the rest.
    spent: bool,
    /// Documents that were looked at.
    seen: u64,
}

/// Runs over one index.
///
/// # Errors
/// Whatever fails below: scripts, files, sinks, cancellation.
pub fn collect(
    source: &Source<'_>,
    request: &SearchRequest,
    cx: &Context<'_>,
    best: &mut Best<'_>,
    sink: &mut Option<&mut dyn DocSink>,
    found: &mut Collected,
) -> Result<()> {
    let scores = source.needs_scores(request, best) || sink.as_ref().is_some_and(|s| s.wants_scores());
    if let Some(members) = &mut found.members {
        members.come_with(scores);
    }
    let only_best = sink.is_none() && found.members.is_none() && !scores && by_rank::applies(source, request);
    let only_sink = best.limit == 0
        && found.members.is_none()
        && source.post_filter.is_none()
        && request.min_score.is_none()
        && request.terminate_after == 0;
    let mut base = 0u64;
    // Each index by itself ends after so many; in 2015 the whole search did.
    let before = if request.dialect.rules.terminates_across_indices {
        0
    } else {
        found.count
    };
    let mut progress = Progress {
        scores,
        most: (request.terminate_after > 0).then(|| before + request.terminate_after as u64),
        spent: false,
        seen: 0,
    };
    for (segment_no, segment) in source.view.segments.iter().enumerate() {
        let first = base;
        base += u64::from(segment.reader.max_doc());
        if progress.most.is_some_and(|most| found.count >= most) {
            found.terminated = true;
            progress.spent = true;
        }
        if progress.spent && sink.is_none() {
            return Ok(());
        }
        let mut set = source.planned.scorer(segment)?;
        if set.doc() == TERMINATED && !sink.as_ref().is_some_and(|sink| sink.enters_all()) {
            continue;
        }
        if let Some(sink) = sink {
            sink.segment(source.view, segment)?;
            if only_sink {
                divided_sink::show_all(source, segment, set.as_mut(), scores, request, cx, *sink, found)?;
                continue;
            }
        }
        let readers = source
            .sort
            .iter()
            .map(|p| p.open(source.view, segment, p.base(source.no, first)))
            .collect::<Result<Vec<SortReader>>>()?;
        if only_best && let Some(by_rank) = ByRank::open(source, (segment_no, segment), &readers)? {
            by_rank.collect(set, request, cx, best, found)?;
            continue;
        }
        let mut hits = SegmentHits::open(source, (segment_no, segment), readers, request, best.limit, scores)?;
        let mut waiting = Waiting::new();
        let walked = hits.walk(set.as_mut(), request, cx, &mut progress, best, (sink, &mut waiting), found);
        // Documents that were counted before a deadline are aggregated.
        if let Some(sink) = sink {
            waiting.show(*sink)?;
        }
        if walked? == Walked::Over {
            return Ok(());
        }
        hits.finish(best)?;
        source.planned.check()?;
    }
    Ok(())
}

/// Whether the next segment follows.
#[derive(PartialEq)]
enum Walked {
    Through,
    Over,
}

/// The hits of one segment: decides which documents are worth their keys.
struct SegmentHits<'a> {
    source: &'a Source<'a>,
    segment: &'a SegmentView,
    segment_no: usize,
    readers: Vec<SortReader>,
    groups: Option<Groups>,
    /// Values of one segment are compared by their places; only the best become keys.
    ranked: Option<(Ranks, Smallest<u64>)>,
}

impl<'a> SegmentHits<'a> {
    fn open(
        source: &'a Source<'a>,
        (segment_no, segment): (usize, &'a SegmentView),
        readers: Vec<SortReader>,
        request: &SearchRequest,
        limit: usize,
        scores: bool,
    ) -> Result<SegmentHits<'a>> {
        let groups = source.collapse.map(|p| Groups::open(p, source.view, segment)).transpose()?;
        let by_rank = readers.len() == 1
            && source.after.is_none()
            && groups.is_none()
            && !scores
            && request.timeout.is_none()
            && request.terminate_after == 0;
        let ranks = if by_rank { Ranks::of(&readers[0]) } else { None };
        Ok(SegmentHits {
            source,
            segment,
            segment_no,
            readers,
            groups,
            ranked: ranks.map(|ranks| (ranks, Smallest::new(limit))),
        })
    }

    /// Goes through the matches of the segment one by one.
    #[allow(clippy::too_many_arguments, reason = "the state of one pass")]
    fn walk(
        &mut self,
        set: &mut dyn Scorer,
        request: &SearchRequest,
        cx: &Context<'_>,
        progress: &mut Progress,
        best: &mut Best<'_>,
        (sink, waiting): (&mut Option<&mut dyn DocSink>, &mut Waiting),
        found: &mut Collected,
    ) -> Result<Walked> {
        let source = self.source;
        let mut filter = source.post_filter.map(|p| p.scorer(self.segment)).transpose()?;
        while set.doc() != TERMINATED {
            let doc = set.doc();
            debug_assert!(doc < self.segment.reader.max_doc(), "documents are those of the segment");
            progress.seen += 1;
            if progress.seen.is_multiple_of(LOOK) {
                cx.check_cancelled()?;
            }
            let score = if progress.scores { set.score() * source.boost } else { 0.0 };
            // A script that failed, or was ended, has given no score to this document.
            source.planned.check()?;
            if request.min_score.is_some_and(|min| score < min) {
                set.advance();
                continue;
            }
            if let Some(sink) = sink {
                waiting.push(doc, score, *sink)?;
            }
            let passes = !progress.spent
                && match &mut filter {
                    Some(filter) => seek_to(filter.as_mut(), doc) == doc,
                    None => true,
                };
            if passes && progress.most.is_some_and(|most| found.count >= most) {
                // One more than was wanted: hits are over, aggregations see the rest.
                found.terminated = true;
                progress.spent = true;
                if sink.is_none() {
                    return Ok(Walked::Over);
                }
            } else if passes {
                found.count += 1;
                if progress.scores {
                    found.max_score = Some(found.max_score.map_or(score, |max| max.max(score)));
                }
                self.offer(doc, score, best, &mut found.members)?;
                let across = request.dialect.rules.terminates_across_indices;
                if across && progress.most.is_some_and(|most| found.count >= most) {
                    found.terminated = true;
                    return Ok(Walked::Over);
                }
            }
            let next = set.advance();
            debug_assert!(next > doc, "documents come in ascending order");
        }
        Ok(Walked::Through)
    }

    /// Takes a matching document, in the order of documents.
    #[inline]
    fn offer(&mut self, doc: DocId, score: f32, best: &mut Best<'_>, members: &mut Option<Members>) -> Result<()> {
        let by_score = self.source.sort.is_empty() && self.source.no >= best.floor_view();
        if self.groups.is_some() && members.is_none() && by_score && score <= best.floor_score() {
            return Ok(());
        }
        let group = match &self.groups {
            Some(groups) if best.limit > 0 => Some(groups.of(doc)?),
            _ => None,
        };
        let worth = self.is_competitive(doc, score, group.as_ref(), best);
        if let (Some(members), Some(group)) = (members, &group) {
            members.add(Member {
                view: self.source.no,
                segment: self.segment_no,
                doc,
                score,
                group: group.clone(),
            });
        }
        if let Some((ranks, ranked)) = &mut self.ranked {
            ranked.push(ranks.rank(doc), doc);
        } else if worth {
            let keys = self.keys(doc, score)?;
            let after = self.source.after;
            if after.is_none_or(|after| is_after(&keys, after, &self.readers, score)) {
                best.push(self.hit(doc, score, keys, group));
            }
        }
        Ok(())
    }

    /// Whether a document may come before the worst hit that it would displace, by what is cheap to know of it.
    #[inline]
    fn is_competitive(&self, doc: DocId, score: f32, group: Option<&Group>, best: &Best<'_>) -> bool {
        let source = self.source;
        let rival = match group {
            Some(group) => best.rival(group),
            None => best.threshold(),
        };
        match rival {
            Some(worst) if source.sort.is_empty() => score > worst.score || source.no < worst.view,
            Some(worst) => match quick_order(&self.readers, &worst.keys, doc, score) {
                // Documents come in order: an equal one comes after.
                Some(Ordering::Equal) => source.no < worst.view,
                Some(order) => order.is_lt(),
                None => true,
            },
            None => best.limit > 0,
        }
    }

    fn keys(&self, doc: DocId, score: f32) -> Result<Vec<Key>> {
        self.readers.iter().map(|r| r.read(doc, score)).collect()
    }

    fn hit(&self, doc: DocId, score: f32, keys: Vec<Key>, group: Option<Group>) -> Ranked {
        Ranked {
            view: self.source.no,
            segment: self.segment_no,
            doc,
            score,
            keys,
            group,
        }
    }

    /// Reads the keys of the documents that were compared by their places.
    fn finish(mut self, best: &mut Best<'_>) -> Result<()> {
        for doc in self.ranked.take().map(|(_, ranked)| ranked.docs()).unwrap_or_default() {
            best.push(self.hit(doc, 0.0, self.keys(doc, 0.0)?, None));
        }
        Ok(())
    }
}

/// Whether keys come after those of `search_after`.
fn is_after(keys: &[Key], after: &[Key], readers: &[SortReader], score: f32) -> bool {
    if readers.is_empty() {
        return after
            .first()
            .is_none_or(|key| compare(&Key::Score(score), key, false).is_gt());
    }
    let mut pairs = keys.iter().zip(after).zip(readers);
    pairs
        .find_map(|((x, y), r)| Some(compare(x, y, r.ascending())).filter(|o| o.is_ne()))
        .is_some_and(Ordering::is_gt)
}

/// The boost of an index.
pub(crate) fn index_boost(request: &SearchRequest, view: &IndexView) -> f32 {
    let mut boosts = request.indices_boost.iter();
    boosts
        .find(|(name, _)| model::path::matches(name, view.name.as_str()))
        .map_or(1.0, |(_, boost)| *boost)
}
