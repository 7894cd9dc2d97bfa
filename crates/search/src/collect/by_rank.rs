//! The best of a segment by sort keys that have ranks, without looking at more documents than that takes.
//!
//! Once as many documents are counted as the request wants to know of, blocks whose bounds cannot compete are passed over.
//! So that the bound is good from the start, the blocks with the best bounds are looked at first: in a log that is sorted
//! by its time, newest first, these are the last ones. Blocks are compared by the first two keys: where few values of the first
//! have many documents, the second key tells blocks apart.
//!
//! Not here: keys that only a reader can compare (`collect`), scores (`top`).

use crate::collect::top::Smallest;
use crate::collect::{Best, Collected, LOOK, Ranked, Source};
use crate::context::Context;
use crate::scorers::fill::each_length;
use crate::scorers::node::seek_to;
use crate::sort::{Key, KeyRank, Ranks, SortReader};
use dsl::search::{SearchRequest, TrackTotal};
use model::Result;
use segment::column_bounds::ColumnBounds;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet as _, TERMINATED};

/// Sorts by more keys read them.
const KEYS_MAX: usize = 3;
/// A first look at the best blocks takes so many, and again so many times as many while it finds too few documents.
const FIRST_BLOCKS: usize = if cfg!(test) { 2 } else { 4 };
/// A first look takes at most this part of the blocks.
const FIRST_PART: usize = if cfg!(test) { 4 } else { 16 };

/// The ranks of all keys of a document, the first key first. Keys that are not used are 0.
type Rank = [u64; KEYS_MAX];

/// The ranks of the first two keys of a document. Without a second key its rank is 0.
type FirstRanks = [u64; 2];

/// One segment of a search that is sorted by ranks.
pub(crate) struct ByRank<'a> {
    source: &'a Source<'a>,
    segment: &'a SegmentView,
    segment_no: usize,
    readers: &'a [SortReader],
    ranks: Vec<Ranks>,
    bounds: Option<Arc<ColumnBounds>>,
    /// The bounds of the second key.
    second_bounds: Option<Arc<ColumnBounds>>,
    /// The keys of `search_after`; none if hits begin with the first.
    after: Vec<KeyRank>,
}

/// Whether a search asks for nothing but the best by its sort and how many match.
pub(crate) fn applies(source: &Source<'_>, request: &SearchRequest) -> bool {
    !source.sort.is_empty()
        && source.sort.len() <= KEYS_MAX
        && source.post_filter.is_none()
        && source.collapse.is_none()
        && request.min_score.is_none()
        && request.terminate_after == 0
        && !request.track_scores
        && !source.sort.iter().any(crate::sort::Plan::needs_scores)
}

impl<'a> ByRank<'a> {
    /// Where every key has ranks in the segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn open(
        source: &'a Source<'a>,
        (segment_no, segment): (usize, &'a SegmentView),
        readers: &'a [SortReader],
    ) -> Result<Option<ByRank<'a>>> {
        let Some(ranks) = readers.iter().map(Ranks::of).collect::<Option<Vec<Ranks>>>() else {
            return Ok(None);
        };
        let Some(first) = ranks.first() else { return Ok(None) };
        debug_assert!(
            ranks.len() == source.sort.len() && source.after.is_none_or(|after| after.len() == ranks.len()),
            "search.md S9: each sort has its ranks, and its key to begin behind"
        );
        let mut after = Vec::new();
        for (key, ranks) in source.after.unwrap_or_default().iter().zip(&ranks) {
            let Some(rank) = ranks.rank_of(key)? else { return Ok(None) };
            after.push(rank);
        }
        let bounds = first.bounds(segment)?;
        let second_bounds = match ranks.get(1) {
            Some(second) => second.bounds(segment)?,
            None => None,
        };
        debug_assert!(
            bounds
                .iter()
                .zip(&second_bounds)
                .all(|(first, second)| first.blocks().len() == second.blocks().len()),
            "search.md S10: all columns of a segment have the same blocks"
        );
        Ok(Some(ByRank {
            source,
            segment,
            segment_no,
            readers,
            ranks,
            bounds,
            second_bounds,
            after,
        }))
    }

    /// Adds the segment's best and its count; `set` has the matches.
    ///
    /// # Errors
    /// Unreadable files, scripts that fail, cancellation. What was found before is kept.
    pub(crate) fn collect(
        &self,
        set: Box<dyn Scorer>,
        request: &SearchRequest,
        cx: &Context<'_>,
        best: &mut Best<'_>,
        found: &mut Collected,
    ) -> Result<()> {
        let most = match request.track_total_hits {
            TrackTotal::Exact => u64::MAX,
            TrackTotal::UpTo(most) => most as u64,
            TrackTotal::No => 0,
        };
        let known = if found.count > most {
            Some(0)
        } else {
            self.source.planned.count_at_hand(self.segment)?
        };
        found.count += known.unwrap_or(0);
        let Some(mut reach) = self.reach(best)? else {
            // Nothing here is among the best.
            if known.is_none() {
                found.count += self.count(set, most - found.count, cx)?;
            }
            return Ok(());
        };
        // A first look opens the matches once more, which must cost little, and pays where the rest can be passed over.
        let skips = known.is_some() || most < u64::MAX;
        if skips
            && self.source.planned.node().opens_quickly()
            && let Some(bounds) = &self.bounds
        {
            reach = reach.min(self.first_look(bounds, best.limit(), reach, cx)?);
        }
        let mut nearest = Smallest::new(best.limit());
        let walked = self.walk(set, (known.is_none(), most), reach, cx, &mut nearest, found);
        for doc in nearest.docs() {
            let keys = self.readers.iter().map(|r| r.read(doc, 0.0)).collect::<Result<Vec<Key>>>()?;
            best.push(Ranked {
                view: self.source.no,
                segment: self.segment_no,
                doc,
                score: 0.0,
                keys,
                group: None,
            });
        }
        walked
    }

    /// The greatest first ranks that may be among the best; `None` if none are.
    fn reach(&self, best: &Best<'_>) -> Result<Option<FirstRanks>> {
        let everything = [u64::MAX; 2];
        if best.limit() == 0 {
            return Ok(None);
        }
        let worst = best.threshold().map(|worst| worst.keys.as_slice());
        let Some([first, others @ ..]) = worst else {
            return Ok(Some(everything));
        };
        let Some(first) = self.ranks[0].rank_of(first)? else {
            return Ok(Some(everything));
        };
        let second = match (self.ranks.get(1), others.first()) {
            (Some(ranks), Some(key)) => ranks.rank_of(key)?,
            _ => Some(KeyRank { rank: 0, exact: true }),
        };
        Ok(match second {
            Some(second) => self.reach_before(first, second),
            // The second key is of another kind there.
            None => Some([first.rank, u64::MAX]),
        })
    }

    /// The greatest first ranks that come before those of a hit, or are equal to them where a third key tells documents apart:
    /// without one the first of equal documents wins, and they come in order. `None`: no ranks do.
    fn reach_before(&self, first: KeyRank, second: KeyRank) -> Option<FirstRanks> {
        if !first.exact {
            return Some([first.rank, u64::MAX]);
        }
        match second.reach(self.ranks.len() > 2) {
            Some(second) => Some([first.rank, second]),
            None => Some([first.rank.checked_sub(1)?, u64::MAX]),
        }
    }

    /// No document of a block that `search_after` leaves has less first ranks; `None` if it leaves none.
    fn least_in(&self, bounds: &ColumnBounds, at: usize) -> Option<FirstRanks> {
        let (least, greatest) = self.ranks[0].range_in(bounds.blocks().get(at)?)?;
        let second = self.ranks.get(1).zip(self.second_bounds.as_ref());
        let second = second.and_then(|(ranks, bounds)| ranks.range_in(bounds.blocks().get(at)?));
        self.may_be_after(greatest).then(|| {
            let first = self.after.first().map_or(least, |after| least.max(after.rank));
            [first, second.map_or(0, |(least, _)| least)]
        })
    }

    /// Whether documents of a first rank may come after the keys of `search_after`.
    fn may_be_after(&self, first: u64) -> bool {
        let after = self.after.first();
        after.is_none_or(|after| first > after.rank || after.exact && first == after.rank)
    }

    fn is_after(&self, rank: &Rank) -> bool {
        for (rank, after) in rank.iter().zip(&self.after) {
            if *rank != after.rank || !after.exact {
                return *rank > after.rank;
            }
        }
        self.after.is_empty()
    }

    /// The ranks of a document, the first two of which are known.
    fn rank(&self, [first, second]: FirstRanks, doc: DocId) -> Rank {
        let third = self.ranks.get(2).map_or(0, |ranks| ranks.rank(doc));
        [first, second, third]
    }

    /// Goes through the matches by blocks and keeps the best; counts them, if asked to, up to the most that anyone wants to know.
    fn walk(
        &self,
        mut set: Box<dyn Scorer>,
        (mut counts, most): (bool, u64),
        mut reach: FirstRanks,
        cx: &Context<'_>,
        nearest: &mut Smallest<Rank>,
        found: &mut Collected,
    ) -> Result<()> {
        let planned = self.source.planned;
        let mut docs = [0; COLLECT_BLOCK_BUFFER_LEN];
        let (mut firsts, mut seconds) = ([0; COLLECT_BLOCK_BUFFER_LEN], [0; COLLECT_BLOCK_BUFFER_LEN]);
        let mut seen = 0u64;
        while set.doc() != TERMINATED {
            if !counts && !self.pass_over(set.as_mut(), reach) {
                break;
            }
            let len = set.fill_buffer(&mut docs);
            if counts {
                found.count += len as u64;
                counts = found.count <= most;
            }
            let kept = self.keep_within(reach[0], &mut docs[..len], &mut firsts);
            let (docs, firsts) = (&docs[..kept], &firsts[..kept]);
            self.read_seconds(docs, &mut seconds[..kept]);
            for (at, doc) in docs.iter().enumerate() {
                if [firsts[at], seconds[at]] > reach {
                    continue;
                }
                let rank = self.rank([firsts[at], seconds[at]], *doc);
                if self.is_after(&rank) {
                    nearest.push(rank, *doc);
                }
                let Some(worst) = nearest.worst() else { continue };
                let [first, second] = [worst[0], worst[1]].map(|rank| KeyRank { rank, exact: true });
                match self.reach_before(first, second) {
                    Some(next) => reach = reach.min(next),
                    // All that are kept are first by rank: nothing comes before them.
                    None if counts => reach = [0; 2],
                    None => return planned.check(),
                }
            }
            // A script may have failed at the next document. The documents before it are kept, and are in the answer.
            planned.check()?;
            seen += len as u64;
            if seen >= LOOK {
                seen = 0;
                cx.check_cancelled()?;
            }
        }
        planned.check()
    }

    /// Keeps the documents whose first rank is within reach, and gives these ranks; how many are kept.
    fn keep_within(&self, reach: u64, docs: &mut [DocId], firsts: &mut [u64; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        self.ranks[0].read(docs, &mut firsts[..docs.len()]);
        let mut kept = 0;
        for at in 0..docs.len() {
            let (doc, first) = (docs[at], firsts[at]);
            debug_assert!(
                self.is_within_bounds(doc, first),
                "search.md S10: the rank of document [{doc}] is within the bounds of its block"
            );
            (docs[kept], firsts[kept]) = (doc, first);
            kept += usize::from(first <= reach && self.may_be_after(first));
        }
        kept
    }

    /// The second ranks of documents; without a second key they are 0.
    fn read_seconds(&self, docs: &[DocId], seconds: &mut [u64]) {
        match self.ranks.get(1) {
            Some(ranks) => ranks.read(docs, seconds),
            None => seconds.fill(0),
        }
    }

    /// Moves the set over blocks in which no rank is within reach; `false` if none is left.
    fn pass_over(&self, set: &mut dyn Scorer, reach: FirstRanks) -> bool {
        let Some(bounds) = &self.bounds else { return true };
        while set.doc() != TERMINATED {
            let at = ColumnBounds::block_of(set.doc());
            match self.next_block(bounds, at, reach) {
                None => return false,
                Some(block) if block == at => return true,
                Some(block) => set.seek(ColumnBounds::first_doc(block)),
            };
        }
        false
    }

    fn is_within_bounds(&self, doc: DocId, first: u64) -> bool {
        self.bounds.as_ref().is_none_or(|bounds| {
            let block = bounds.blocks().get(ColumnBounds::block_of(doc));
            let range = block.and_then(|block| self.ranks[0].range_in(block));
            range.is_some_and(|(least, greatest)| (least..=greatest).contains(&first))
        })
    }

    /// The first block from one on with ranks within reach.
    fn next_block(&self, bounds: &ColumnBounds, from: usize, reach: FirstRanks) -> Option<usize> {
        (from..bounds.blocks().len()).find(|at| self.least_in(bounds, *at).is_some_and(|least| least <= reach))
    }

    /// Looks at the blocks with the best bounds for as many documents as are wanted. The answer has the first ranks of the
    /// last of them: no greater ones are among the best.
    fn first_look(&self, bounds: &ColumnBounds, wanted: usize, reach: FirstRanks, cx: &Context<'_>) -> Result<FirstRanks> {
        let all = bounds.blocks();
        let blocks_max = all.len() / FIRST_PART;
        let mut blocks = FIRST_BLOCKS;
        while blocks <= blocks_max {
            cx.check_cancelled()?;
            let mut order: Vec<(FirstRanks, usize)> = (0..all.len())
                .filter_map(|at| Some((self.least_in(bounds, at)?, at)))
                .collect();
            if order.len() > blocks {
                order.select_nth_unstable(blocks - 1);
                order.truncate(blocks);
            }
            let mut chosen: Vec<usize> = order.into_iter().map(|(_, at)| at).collect();
            chosen.sort_unstable();
            let mut ranks = Vec::new();
            let mut set = self.source.planned.scorer(self.segment)?;
            for block in chosen {
                self.ranks_in(block, set.as_mut(), &mut ranks);
            }
            self.source.planned.check()?;
            if ranks.len() >= wanted {
                ranks.select_nth_unstable(wanted - 1);
                return Ok(ranks[wanted - 1]);
            }
            blocks *= FIRST_BLOCKS;
        }
        Ok(reach)
    }

    /// The first ranks of the matches in a block.
    fn ranks_in(&self, block: usize, set: &mut dyn Scorer, ranks: &mut Vec<FirstRanks>) {
        let end = ColumnBounds::first_doc(block + 1);
        let mut doc = seek_to(set, ColumnBounds::first_doc(block));
        while doc < end {
            let rank = self.ranks[0].rank(doc);
            if self.after.first().is_none_or(|after| rank > after.rank) {
                ranks.push([rank, self.ranks.get(1).map_or(0, |second| second.rank(doc))]);
            }
            doc = set.advance();
        }
    }

    /// How many match; beyond `most` any larger number will do.
    fn count(&self, mut set: Box<dyn Scorer>, most: u64, cx: &Context<'_>) -> Result<u64> {
        let mut count = 0u64;
        each_length(&mut *set, &mut |len| {
            count += len;
            cx.check_cancelled()?;
            Ok(count <= most)
        })?;
        self.source.planned.check()?;
        Ok(count)
    }
}
