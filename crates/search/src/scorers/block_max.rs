//! Documents that may score more than a threshold, by the bounds of blocks of the lists of terms.
//!
//! A choice of terms is gone through by MaxScore: lists whose bounds together do not exceed the threshold are only looked at for
//! documents that another list has. Required terms are gone through by blocks, too: where the bounds of all of them together do not
//! exceed the threshold, the documents up to the next end of a block are passed over. Sources: H. Turtle, J. Flood: Query evaluation:
//! strategies and optimizations (1995); S. Ding, T. Suel: Faster top-k document retrieval using block-max indexes (SIGIR 2011).
//!
//! Scores are added up in another order than that of the scorers, so sums are bounds and only choose (`sum_bound`, search.md S11).
//!
//! Not here: which clauses these are (`prune`), what is done with the documents (`collect::top`).

use super::similarity::Bm25;
use super::sum_bound::SumBound;
use super::term::norms;
use model::Result;
use segment::impacts::{BLOCK_DOCS, Impact, Impacts, block_postings};
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::{DocId, TERMINATED, Term};

/// Gets a document and the most that it scores; its answer is the threshold from there on, which never falls.
pub(crate) type ShowCandidate<'a> = dyn FnMut(DocId, f32) -> f32 + 'a;

/// The list of a term in one segment, with the bounds of its blocks.
struct BoundedList {
    impacts: Arc<Impacts>,
    /// The bound of each list of pairs.
    bounds: Vec<f32>,
    /// No document of the segment scores more.
    most: f32,
    /// The block that was asked for last.
    block: usize,
    postings: BlockSegmentPostings,
    /// Where it is in the block that is unpacked.
    place: usize,
    norms: FieldNormReader,
    bm25: Bm25,
    /// For each norm the score of a term that is there once, as most are.
    once: Box<[f32; 256]>,
}

/// An entry whose positions are read takes so many times as long as one that scores.
const POSITIONS_TIMES: u64 = 4;

/// So many places of an unpacked block are looked at one by one before the block is searched.
const NEAR: usize = 8;

impl BoundedList {
    fn open(term: &Term, bm25: &Bm25, segment: &SegmentView) -> Result<Option<BoundedList>> {
        let Some(postings) = block_postings(segment, term)? else {
            return Ok(None);
        };
        let norms = norms(segment, term.field())?;
        // Without lengths each counts as 1, which is its own norm.
        let norms = norms.unwrap_or_else(|| FieldNormReader::constant(segment.reader.max_doc(), 1));
        let impacts = Impacts::of(segment, term, &postings, &norms)?;
        let bound = |pairs: &[Impact]| {
            let scores = pairs.iter().map(|pair| bm25.score(pair.freq as f32, pair.norm));
            scores.fold(0.0, f32::max)
        };
        let bounds: Vec<f32> = impacts.lists().iter().map(|pairs| bound(pairs)).collect();
        Ok(Some(BoundedList {
            most: bounds.iter().copied().fold(0.0, f32::max),
            bounds,
            impacts,
            block: 0,
            postings,
            place: 0,
            norms,
            bm25: bm25.clone(),
            once: Box::new(std::array::from_fn(|norm| bm25.score(1.0, norm as u8))),
        }))
    }

    /// No document of the list scores less: a term that is there more often scores more.
    fn least(&self) -> f32 {
        self.once.iter().copied().fold(f32::MAX, f32::min)
    }

    /// The block that would hold a document: its last document, and its bound. Asked for in ascending order.
    /// Behind the last block no document scores anything.
    #[inline]
    fn block_at(&mut self, doc: DocId) -> (DocId, f32) {
        let ends = self.impacts.ends();
        if ends.get(self.block).is_some_and(|end| *end < doc) {
            self.block += 1;
            if ends.get(self.block).is_some_and(|end| *end < doc) {
                self.block += ends[self.block..].partition_point(|end| *end < doc);
            }
        }
        match ends.get(self.block) {
            Some(end) => (*end, self.bounds[self.impacts.places()[self.block] as usize]),
            None => (TERMINATED, 0.0),
        }
    }

    #[inline]
    fn doc(&self) -> DocId {
        self.postings.doc(self.place)
    }

    /// Moves forward to a document, or to the next one. The next places are looked at first: lists that meet often are near each other.
    #[inline]
    fn seek(&mut self, target: DocId) -> DocId {
        let near = BLOCK_DOCS.min(self.place + NEAR);
        for place in self.place..near {
            let doc = self.postings.doc(place);
            if doc >= target {
                self.place = place;
                return doc;
            }
        }
        self.place = self.postings.seek(target);
        self.doc()
    }

    #[inline]
    fn advance(&mut self) {
        self.place += 1;
        if self.place == BLOCK_DOCS {
            self.postings.advance();
            self.place = 0;
        }
    }

    #[inline]
    fn score(&self) -> f32 {
        self.score_at(self.place)
    }

    #[inline]
    fn score_at(&self, place: usize) -> f32 {
        let norm = self.norms.fieldnorm_id(self.postings.doc(place));
        let score = match self.postings.freq(place) {
            1 => self.once[usize::from(norm)],
            freq => self.bm25.score(freq as f32, norm),
        };
        debug_assert!(
            score <= self.most,
            "search.md S10: a score of {score} is above the bound {}",
            self.most
        );
        score
    }
}

/// The lists of one term, from a document on.
fn for_each_of_one(list: &mut BoundedList, from: DocId, mut threshold: f32, show: &mut ShowCandidate<'_>) {
    let mut doc = from;
    loop {
        let (end, bound) = list.block_at(doc);
        if end == TERMINATED {
            return;
        }
        if bound > threshold {
            list.seek(doc);
            for place in list.place..list.postings.block_len() {
                let score = list.score_at(place);
                debug_assert!(
                    score <= bound,
                    "search.md S10: a score of {score} is above its block's bound {bound}"
                );
                if score > threshold {
                    threshold = show(list.postings.doc(place), score);
                }
            }
        }
        doc = end + 1;
    }
}

/// A choice of terms in one segment. Lists stand by their greatest scores, the least first.
struct TermChoice {
    lists: Vec<BoundedList>,
    /// For each list the sum of the greatest scores of those before it.
    before: Vec<f64>,
    /// Lists from here on have every document that may score more than the threshold.
    essential: usize,
    bounds: SumBound,
}

impl TermChoice {
    fn new(mut lists: Vec<BoundedList>, bounds: SumBound) -> TermChoice {
        lists.sort_by(|a, b| a.most.total_cmp(&b.most));
        let mut sum = 0f64;
        let mut before = vec![0.0];
        before.extend(lists.iter().map(|list| {
            sum += f64::from(list.most);
            sum
        }));
        TermChoice {
            lists,
            before,
            essential: 0,
            bounds,
        }
    }

    /// Lists that cannot exceed a threshold together are essential no longer. `false`: no list is.
    fn raise(&mut self, threshold: f32) -> bool {
        while self.essential < self.lists.len() && self.bounds.of(self.before[self.essential + 1]) <= threshold {
            self.essential += 1;
        }
        self.essential < self.lists.len()
    }

    /// The end of the blocks of the essential lists at a document, and the bound up to there.
    fn window(&mut self, doc: DocId) -> (DocId, f32) {
        let (mut end, mut bound) = (TERMINATED, self.before[self.essential]);
        for list in &mut self.lists[self.essential..] {
            let (block_end, of_block) = list.block_at(doc);
            end = end.min(block_end);
            bound += f64::from(of_block);
        }
        (end, self.bounds.of(bound))
    }

    /// The next document of an essential list.
    fn candidate(&self) -> DocId {
        let essential = self.lists[self.essential..].iter();
        essential.map(BoundedList::doc).min().unwrap_or(TERMINATED)
    }

    /// The score of a candidate, if it may be above the threshold. Essential lists at it go on.
    fn score(&mut self, candidate: DocId, threshold: f32) -> Option<f32> {
        let (others, essential) = self.lists.split_at_mut(self.essential);
        let mut sum = 0f64;
        for list in essential {
            if list.doc() == candidate {
                sum += f64::from(list.score());
                list.advance();
            }
        }
        // The others are read while the sum of what they may give is enough.
        let mut open: f64 = others.iter_mut().map(|list| f64::from(list.block_at(candidate).1)).sum();
        for list in others.iter_mut().rev() {
            if self.bounds.of(sum + open) <= threshold {
                return None;
            }
            open -= f64::from(list.block_at(candidate).1);
            if list.seek(candidate) == candidate {
                sum += f64::from(list.score());
            }
        }
        Some(self.bounds.of(sum)).filter(|score| *score > threshold)
    }

    fn for_each(&mut self, from: DocId, mut threshold: f32, show: &mut ShowCandidate<'_>) {
        let mut doc = from;
        while self.raise(threshold) {
            let (end, bound) = self.window(doc);
            if end == TERMINATED {
                return;
            }
            if bound <= threshold {
                doc = end + 1;
                continue;
            }
            for list in &mut self.lists[self.essential..] {
                list.seek(doc);
            }
            doc = end + 1;
            loop {
                let candidate = self.candidate();
                if candidate > end {
                    break;
                }
                if let Some(score) = self.score(candidate, threshold) {
                    let raised = show(candidate, score);
                    debug_assert!(raised >= threshold, "search.md S10: the threshold never falls");
                    if raised > threshold {
                        // Fewer lists may be essential now, and the bound may no longer suffice.
                        (threshold, doc) = (raised, candidate + 1);
                        break;
                    }
                }
            }
        }
    }
}

/// Required terms in one segment. The terms of one clause stand for a phrase: it is in a document no more often than each of them.
struct Required {
    /// The shortest list leads.
    lead: BoundedList,
    others: Vec<BoundedList>,
    /// For each list of `others` its clause; that of the lead is the first.
    clause_of: Vec<usize>,
    /// For each clause what [`Required::least`] found last.
    least: Vec<f32>,
    bounds: SumBound,
}

/// The blocks of all required lists at a document.
struct Window {
    /// The first end of a block.
    end: DocId,
    /// No document up to the end scores more.
    bound: f32,
    /// The most that all other clauses give.
    others: f64,
}

impl Required {
    /// `lists`: for each its clause.
    fn new(mut lists: Vec<(usize, BoundedList)>, clauses: usize, bounds: SumBound) -> Option<Required> {
        let at = (0..lists.len()).min_by_key(|at| lists[*at].1.postings.doc_freq())?;
        let (lead_clause, lead) = lists.swap_remove(at);
        // The lead's clause comes first.
        let place = |clause: usize| match clause {
            _ if clause == lead_clause => 0,
            _ if clause < lead_clause => clause + 1,
            _ => clause,
        };
        let (clause_of, others) = lists.into_iter().map(|(clause, list)| (place(clause), list)).unzip();
        Some(Required {
            lead,
            others,
            clause_of,
            least: vec![0.0; clauses],
            bounds,
        })
    }

    /// For each clause the least of what its lists give; the lead gives `lead`.
    fn least(&mut self, lead: f32, mut of: impl FnMut(&mut BoundedList) -> f32) -> &[f32] {
        self.least.fill(f32::MAX);
        self.least[0] = lead;
        for (list, clause) in self.others.iter_mut().zip(&self.clause_of) {
            self.least[*clause] = self.least[*clause].min(of(list));
        }
        &self.least
    }

    /// `None`: a list has ended.
    fn window(&mut self, doc: DocId) -> Option<Window> {
        let (mut end, lead_bound) = self.lead.block_at(doc);
        let mut is_over = end == TERMINATED;
        let least = self.least(f32::MAX, |list| {
            let (block_end, bound) = list.block_at(doc);
            is_over |= block_end == TERMINATED;
            end = end.min(block_end);
            bound
        });
        let (lead_most, others) = (least[0], least[1..].iter().map(|bound| f64::from(*bound)).sum());
        let bound = self.bounds.of(others + f64::from(lead_bound.min(lead_most)));
        (!is_over).then_some(Window { end, bound, others })
    }

    /// Moves the other lists to a document; `false` if one of them has not got it.
    fn meet(&mut self, candidate: DocId) -> bool {
        self.others.iter_mut().all(|list| list.seek(candidate) == candidate)
    }

    fn for_each(&mut self, from: DocId, mut threshold: f32, show: &mut ShowCandidate<'_>) {
        let mut next = from;
        while let Some(window) = self.window(next) {
            let first = std::mem::replace(&mut next, window.end + 1);
            if window.bound <= threshold {
                continue;
            }
            // A document whose lead scores no more than this does not score above the threshold.
            let mut floor = self.bounds.floor(threshold, window.others);
            let mut candidate = self.lead.seek(first);
            while candidate <= window.end {
                let lead_score = self.lead.score();
                if lead_score > floor && self.meet(candidate) {
                    let score = self
                        .least(lead_score, |list| list.score())
                        .iter()
                        .map(|score| f64::from(*score))
                        .sum();
                    let score = self.bounds.of(score);
                    debug_assert!(score <= window.bound, "search.md S10: a score of {score} is above the bound");
                    if score > threshold {
                        threshold = show(candidate, score);
                        floor = self.bounds.floor(threshold, window.others);
                    }
                }
                self.lead.advance();
                candidate = self.lead.doc();
            }
        }
    }
}

/// A clause that scores: a term, or the terms of a phrase.
pub(crate) struct ScoredClause {
    /// Its terms.
    pub(crate) terms: Vec<Term>,
    /// Its scoring.
    pub(crate) bm25: Bm25,
}

/// The clauses that give the score of a query.
pub struct ScoredClauses {
    pub(crate) clauses: Vec<ScoredClause>,
    /// A match has all of them, else any.
    pub(crate) all_required: bool,
    /// How deep sums are inside of sums, each rounded by itself.
    pub(crate) roundings: u32,
}

impl ScoredClauses {
    /// How many documents the lists of all terms have.
    pub(crate) fn docs(&self) -> u64 {
        let freqs = self.clauses.iter().flat_map(|clause| clause.bm25.doc_freqs());
        freqs.sum()
    }

    /// How much there is to do, in entries of lists that score. For an entry of a phrase positions are read.
    pub(crate) fn work(&self) -> u64 {
        let of_clause = |clause: &ScoredClause| {
            let docs: u64 = clause.bm25.doc_freqs().sum();
            docs * if clause.terms.len() > 1 { POSITIONS_TIMES } else { 1 }
        };
        self.clauses.iter().map(of_clause).sum()
    }
}

/// Shows, in their order, at least the documents of a segment from `from` on that score more than the threshold: those that have the
/// terms of all clauses where all are required, else of any.
///
/// # Errors
/// Unreadable files.
pub(crate) fn for_each(
    scored: &ScoredClauses,
    segment: &SegmentView,
    (from, threshold): (DocId, f32),
    show: &mut ShowCandidate<'_>,
) -> Result<()> {
    let ScoredClauses {
        clauses,
        all_required,
        roundings,
    } = scored;
    let mut lists = Vec::new();
    for (number, clause) in clauses.iter().enumerate() {
        for term in &clause.terms {
            match BoundedList::open(term, &clause.bm25, segment)? {
                Some(list) => lists.push((number, list)),
                None if *all_required => return Ok(()),
                None => {}
            }
        }
    }
    let least = lists.iter().map(|(_, list)| list.least()).fold(f32::MAX, f32::min);
    let most = lists.iter().map(|(_, list)| f64::from(list.most)).sum();
    let bounds = SumBound::new(*roundings, least, most);
    match lists.as_mut_slice() {
        [] => {}
        [(_, one)] => for_each_of_one(one, from, threshold, show),
        _ if *all_required => {
            if let Some(mut required) = Required::new(lists, clauses.len(), bounds) {
                required.for_each(from, threshold, show);
            }
        }
        _ => TermChoice::new(lists.into_iter().map(|(_, list)| list).collect(), bounds).for_each(from, threshold, show),
    }
    Ok(())
}
