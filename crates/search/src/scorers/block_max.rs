//! Documents that may score more than a threshold, by the bounds of blocks of the lists of terms.
//!
//! A choice of terms is gone through by MaxScore: lists whose bounds together do not exceed the threshold are only looked at for
//! documents that another list has. The same is judged again for each window, up to the first end of a block. A list without which the
//! bounds of all others do not exceed the threshold is required like one of a conjunction. Required terms are gone through by blocks,
//! too: where the bounds of all of them together do not exceed the threshold, the documents up to the next end of a block are passed
//! over. Sources: H. Turtle, J. Flood: Query evaluation:
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
    /// The block that is unpacked.
    unpacked: usize,
    /// Where it is in that block; its length: behind it.
    place: usize,
    bm25: Bm25,
    /// For each norm the score of a term that is there once, as most are. It falls with the norm.
    once: Box<[f32; 256]>,
}

/// An entry whose positions are read takes so many times as long as one that scores.
const POSITIONS_TIMES: u64 = 4;

/// So many places of an unpacked block are looked at one by one before the block is searched.
const NEAR: usize = 8;

/// The first of ascending ends, from a place on, that is not before a document. The nearer it is, the fewer steps it takes.
#[inline]
fn first_end(ends: &[DocId], from: usize, doc: DocId) -> usize {
    let (mut low, mut step) = (from, 1);
    while ends.get(low + step - 1).is_some_and(|end| *end < doc) {
        low += step;
        step *= 2;
    }
    let high = ends.len().min(low + step - 1);
    low + ends[low..high].partition_point(|end| *end < doc)
}

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
        let once: [f32; 256] = std::array::from_fn(|norm| bm25.score(1.0, norm as u8));
        debug_assert!(
            once.is_sorted_by(|a, b| a >= b),
            "search.md S10: a longer field scores no more"
        );
        Ok(Some(BoundedList {
            most: bounds.iter().copied().fold(0.0, f32::max),
            bounds,
            impacts,
            block: 0,
            postings,
            unpacked: 0,
            place: 0,
            bm25: bm25.clone(),
            once: Box::new(once),
        }))
    }

    /// Every score of the list is a multiple of the last place of this.
    fn unit(&self) -> f32 {
        self.bm25.unit()
    }

    /// The block that would hold a document: its last document, and its bound. Asked for in ascending order.
    /// Behind the last block no document scores anything.
    #[inline]
    fn block_at(&mut self, doc: DocId) -> (DocId, f32) {
        let ends = self.impacts.ends();
        self.block = first_end(ends, self.block, doc);
        match ends.get(self.block) {
            Some(end) => (*end, self.bounds[self.impacts.places()[self.block] as usize]),
            None => (TERMINATED, 0.0),
        }
    }

    /// The pairs of the block that was asked for last; none behind the last block.
    #[inline]
    fn pairs(&self) -> &[Impact] {
        match self.impacts.places().get(self.block) {
            Some(place) => &self.impacts.lists()[*place as usize],
            None => &[],
        }
    }

    /// The bound of the block that was asked for last, for documents whose norm is no less than this.
    #[inline]
    fn bound_from(&self, norm: u8) -> f32 {
        let score = |pair: &Impact| self.score_of(pair.freq, pair.norm.max(norm));
        self.pairs().iter().map(score).fold(0.0, f32::max)
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
        self.unpacked = first_end(self.impacts.ends(), self.unpacked, target);
        self.doc()
    }

    #[inline]
    fn advance(&mut self) {
        self.place += 1;
        if self.place == BLOCK_DOCS {
            self.postings.advance();
            self.unpacked += 1;
            self.place = 0;
        }
    }

    #[inline]
    fn score(&self) -> f32 {
        let norm = self.impacts.norms_of(self.unpacked)[self.place];
        self.score_of(self.postings.freq(self.place), norm)
    }

    #[inline]
    fn score_of(&self, freq: u32, norm: u8) -> f32 {
        let score = match freq {
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

    /// So many norms, from the least on, give a term that is there once more than a floor.
    #[inline]
    fn norms_above(&self, floor: f32) -> usize {
        self.once.partition_point(|score| *score > floor)
    }

    /// Goes through the documents from here on up to `end` that score more than a floor. `show` gets each with its score; its answer
    /// is the floor from there on. Here and `end`, or the end of the list, are in the unpacked block. Most documents are passed over
    /// by their norm alone.
    #[inline]
    fn each_above(&mut self, end: DocId, mut floor: f32, mut show: impl FnMut(DocId, f32) -> f32) {
        let norms = self.impacts.norms_of(self.unpacked);
        let docs = self.postings.docs();
        debug_assert_eq!(
            norms.len(),
            docs.len(),
            "search.md S10: each document of a block has its norm"
        );
        let rest = docs.get(self.place..).unwrap_or_default();
        let stop = self.place + rest.partition_point(|doc| *doc <= end);
        let freqs = self.postings.freqs();
        let mut norms_above = self.norms_above(floor);
        for (place, (norm, freq)) in norms.iter().zip(freqs).enumerate().take(stop).skip(self.place) {
            if usize::from(*norm) >= norms_above && *freq == 1 {
                continue;
            }
            let score = self.score_of(*freq, *norm);
            if score > floor {
                let raised = show(docs[place], score);
                if raised != floor {
                    (floor, norms_above) = (raised, self.norms_above(raised));
                }
            }
        }
        self.place = stop;
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
            list.each_above(end, threshold, |found, score| {
                debug_assert!(
                    score <= bound,
                    "search.md S10: a score of {score} is above its block's bound {bound}"
                );
                threshold = show(found, score);
                threshold
            });
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
    /// Every document that may score more than the threshold has all lists from here on; at most the last one.
    required: usize,
    bounds: SumBound,
}

/// A part of a choice of terms, up to the first end of a block.
struct ChoiceWindow {
    /// Its last document.
    end: DocId,
    /// Lists from here on have every document in it that may score more than the threshold; none: there is no such document.
    essential: usize,
    /// The most that all lists but the last one give in it.
    others: f64,
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
            before,
            essential: 0,
            required: lists.len() - 1,
            lists,
            bounds,
        }
    }

    /// Lists that cannot exceed a threshold together are essential no longer; a list without which the others cannot is required.
    /// `false`: no list is essential.
    fn raise(&mut self, threshold: f32) -> bool {
        while self.essential < self.lists.len() && self.bounds.of(self.before[self.essential + 1]) <= threshold {
            self.essential += 1;
        }
        let all = self.before[self.lists.len()];
        let without = |list: &BoundedList| all - f64::from(list.most);
        while self.required > 0 && self.bounds.of(without(&self.lists[self.required - 1])) <= threshold {
            self.required -= 1;
        }
        self.essential < self.lists.len()
    }

    /// The window at a document: up to the first end of a block of the lists that are essential or required. Lists whose bounds there
    /// do not exceed the threshold together are not essential in it.
    fn window(&mut self, doc: DocId, threshold: f32) -> ChoiceWindow {
        let (first, last) = (self.essential.min(self.required), self.lists.len() - 1);
        let mut window = ChoiceWindow {
            end: TERMINATED,
            essential: first,
            others: self.before[first],
        };
        for (number, list) in self.lists.iter_mut().enumerate().skip(first) {
            let (end, of_block) = list.block_at(doc);
            window.end = window.end.min(end);
            let sum = window.others + f64::from(of_block);
            if window.essential == number && self.bounds.of(sum) <= threshold {
                window.essential = number + 1;
            }
            if number < last {
                window.others = sum;
            }
        }
        window
    }

    /// The next document of an essential list.
    fn candidate(&self, essential: usize) -> DocId {
        let essential = self.lists[essential..].iter();
        essential.map(BoundedList::doc).min().unwrap_or(TERMINATED)
    }

    /// The score of a candidate, if it may be above the threshold. Essential lists at it go on.
    fn score(&mut self, essential: usize, candidate: DocId, threshold: f32) -> Option<f32> {
        let (others, essential) = self.lists.split_at_mut(essential);
        let mut sum = 0f64;
        for list in essential {
            if list.doc() == candidate {
                sum += f64::from(list.score());
                list.advance();
            }
        }
        score_with_options(others, &self.before, sum, (candidate, threshold), self.bounds)
    }

    /// Shows the documents of a window in which the last list has every candidate; the answer is the threshold behind it.
    fn for_each_of_last(&mut self, from: DocId, window: &ChoiceWindow, mut threshold: f32, show: &mut ShowCandidate<'_>) -> f32 {
        let bounds = self.bounds;
        let Some((lead, others)) = self.lists.split_last_mut() else {
            return threshold;
        };
        let (options, required) = others.split_at_mut(self.required);
        // A document whose lead scores no more than this does not score above the threshold.
        let mut floor = bounds.floor(threshold, window.others);
        lead.seek(from);
        lead.each_above(window.end, floor, |candidate, lead_score| {
            let score = meet(required, candidate)
                .map(|sum| sum + f64::from(lead_score))
                .and_then(|sum| score_with_options(options, &self.before, sum, (candidate, threshold), bounds));
            if let Some(score) = score {
                let raised = show(candidate, score);
                debug_assert!(raised >= threshold, "search.md S10: the threshold never falls");
                if raised > threshold {
                    (threshold, floor) = (raised, bounds.floor(raised, window.others));
                }
            }
            floor
        });
        threshold
    }

    fn for_each(&mut self, from: DocId, mut threshold: f32, show: &mut ShowCandidate<'_>) {
        let mut doc = from;
        while self.raise(threshold) {
            let window = self.window(doc, threshold);
            let (end, essential) = (window.end, window.essential);
            if end == TERMINATED {
                return;
            }
            if essential == self.lists.len() {
                doc = end + 1;
                continue;
            }
            if essential + 1 == self.lists.len() {
                threshold = self.for_each_of_last(doc, &window, threshold, show);
                doc = end + 1;
                continue;
            }
            debug_assert_eq!(
                self.required + 1,
                self.lists.len(),
                "search.md S10: where several lists have candidates, none is required"
            );
            for list in &mut self.lists[essential..] {
                list.seek(doc);
            }
            doc = end + 1;
            loop {
                let candidate = self.candidate(essential);
                if candidate > end {
                    break;
                }
                if let Some(score) = self.score(essential, candidate, threshold) {
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

/// What lists give that a candidate must have; `None` if one of them has not got it.
fn meet(required: &mut [BoundedList], candidate: DocId) -> Option<f64> {
    let mut sum = 0f64;
    for list in required.iter_mut().rev() {
        if list.seek(candidate) != candidate {
            return None;
        }
        sum += f64::from(list.score());
    }
    Some(sum)
}

/// The score of a candidate to which other lists have given `sum`, if it may be above the threshold. Optional lists are read while the
/// sum of what they may give is enough; `before` has for each the most that those before it give.
fn score_with_options(
    options: &mut [BoundedList],
    before: &[f64],
    mut sum: f64,
    (candidate, threshold): (DocId, f32),
    bounds: SumBound,
) -> Option<f32> {
    for (list, before) in options.iter_mut().zip(before).rev() {
        if bounds.of(sum + before + f64::from(list.most)) <= threshold {
            return None;
        }
        let of_block = list.block_at(candidate).1;
        if bounds.of(sum + before + f64::from(of_block)) <= threshold {
            return None;
        }
        if list.seek(candidate) == candidate {
            sum += f64::from(list.score());
        }
    }
    Some(bounds.of(sum)).filter(|score| *score > threshold)
}

/// Required terms in one segment. The terms of one clause stand for a phrase: it is in a document no more often than each of them.
struct Required {
    /// The shortest list leads.
    lead: BoundedList,
    others: Vec<BoundedList>,
    /// For each list of `others` its clause; that of the lead is the first.
    clause_of: Vec<usize>,
    /// For each clause what [`least_of_clauses`] found last.
    least: Vec<f32>,
    /// All lists are of one field, so a document has one norm in all of them.
    share_field: bool,
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
    fn new(mut lists: Vec<(usize, BoundedList)>, clauses: &[ScoredClause], bounds: SumBound) -> Option<Required> {
        let mut fields = clauses.iter().flat_map(|clause| &clause.terms).map(Term::field);
        let share_field = fields.next().is_some_and(|first| fields.all(|field| field == first));
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
            least: vec![0.0; clauses.len()],
            share_field,
            bounds,
        })
    }

    /// `None`: a list has ended.
    fn window(&mut self, doc: DocId) -> Option<Window> {
        let (mut end, lead_bound) = self.lead.block_at(doc);
        let mut is_over = end == TERMINATED;
        let clauses = (self.least.as_mut_slice(), self.clause_of.as_slice());
        let least = least_of_clauses(clauses, f32::MAX, &mut self.others, |list| {
            let (block_end, bound) = list.block_at(doc);
            is_over |= block_end == TERMINATED;
            end = end.min(block_end);
            bound
        });
        let (lead_most, others) = (least[0], least[1..].iter().map(|bound| f64::from(*bound)).sum());
        let bound = self.bounds.of(others + f64::from(lead_bound.min(lead_most)));
        (!is_over).then_some(Window { end, bound, others })
    }

    /// Lowers the bounds of the window that was asked for last: a document in it has one norm, which is no less than the least of each block.
    fn tighten(&mut self, window: &mut Window) {
        let least_norm = |list: &BoundedList| list.pairs().last().map_or(0, |pair| pair.norm);
        let others = self.others.iter().map(least_norm);
        let norm = others.fold(least_norm(&self.lead), u8::max);
        let lead = self.lead.bound_from(norm);
        let clauses = (self.least.as_mut_slice(), self.clause_of.as_slice());
        let least = least_of_clauses(clauses, lead, &mut self.others, |list| list.bound_from(norm));
        let others = least[1..].iter().map(|bound| f64::from(*bound)).sum();
        let bound = self.bounds.of(others + f64::from(least[0]));
        debug_assert!(
            bound <= window.bound && others <= window.others,
            "search.md S10: a longer field scores no more"
        );
        (window.bound, window.others) = (bound, others);
    }

    fn for_each(&mut self, from: DocId, mut threshold: f32, show: &mut ShowCandidate<'_>) {
        let mut next = from;
        while let Some(mut window) = self.window(next) {
            let first = std::mem::replace(&mut next, window.end + 1);
            if window.bound > threshold && self.share_field {
                self.tighten(&mut window);
            }
            if window.bound <= threshold {
                continue;
            }
            // A document whose lead scores no more than this does not score above the threshold.
            let mut floor = self.bounds.floor(threshold, window.others);
            let Required {
                lead,
                others,
                clause_of,
                least,
                bounds,
                ..
            } = self;
            lead.seek(first);
            lead.each_above(window.end, floor, |candidate, lead_score| {
                if others.iter_mut().all(|list| list.seek(candidate) == candidate) {
                    let score = least_of_clauses((&mut *least, clause_of), lead_score, others, |list| list.score());
                    let score = bounds.of(score.iter().map(|score| f64::from(*score)).sum());
                    debug_assert!(score <= window.bound, "search.md S10: a score of {score} is above the bound");
                    if score > threshold {
                        threshold = show(candidate, score);
                        floor = bounds.floor(threshold, window.others);
                    }
                }
                floor
            });
        }
    }
}

/// For each clause the least of what its lists give; the first list of the first one gives `lead`.
fn least_of_clauses<'a>(
    (least, clause_of): (&'a mut [f32], &[usize]),
    lead: f32,
    others: &mut [BoundedList],
    mut of: impl FnMut(&mut BoundedList) -> f32,
) -> &'a [f32] {
    debug_assert_eq!(others.len(), clause_of.len(), "each list is one of a clause");
    least.fill(f32::MAX);
    least[0] = lead;
    for (list, clause) in others.iter_mut().zip(clause_of) {
        least[*clause] = least[*clause].min(of(list));
    }
    least
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

/// The lists of clauses in one segment.
pub struct Candidates<'a> {
    scored: &'a ScoredClauses,
    /// For each its clause.
    lists: Vec<(usize, BoundedList)>,
    bounds: SumBound,
}

impl Candidates<'_> {
    /// Opens them.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn open<'a>(scored: &'a ScoredClauses, segment: &SegmentView) -> Result<Candidates<'a>> {
        let mut lists = Vec::new();
        let terms = scored.clauses.iter().enumerate();
        for (number, clause, term) in
            terms.flat_map(|(number, clause)| clause.terms.iter().map(move |term| (number, clause, term)))
        {
            match BoundedList::open(term, &clause.bm25, segment)? {
                Some(list) => lists.push((number, list)),
                // No document has all terms.
                None if scored.all_required => {
                    lists.clear();
                    break;
                }
                None => {}
            }
        }
        let unit = lists.iter().map(|(_, list)| list.unit()).fold(f32::MAX, f32::min);
        let most = lists.iter().map(|(_, list)| f64::from(list.most)).sum();
        Ok(Candidates {
            scored,
            lists,
            bounds: SumBound::new(scored.roundings, unit, most),
        })
    }

    /// Each document that is shown matches, and its score is the one of the scorers: terms alone, whose sum is the same in any order.
    pub fn scores_are_exact(&self) -> bool {
        self.bounds.is_exact() && self.scored.clauses.iter().all(|clause| clause.terms.len() == 1)
    }

    /// Shows, in their order, at least the documents from `from` on that score more than the threshold: those that have the
    /// terms of all clauses where all are required, else of any. `show` answers the threshold from there on.
    pub fn for_each(mut self, from: DocId, threshold: f32, show: &mut ShowCandidate<'_>) {
        match self.lists.as_mut_slice() {
            [] => {}
            [(_, one)] => for_each_of_one(one, from, threshold, show),
            _ if self.scored.all_required => {
                if let Some(mut required) = Required::new(self.lists, &self.scored.clauses, self.bounds) {
                    required.for_each(from, threshold, show);
                }
            }
            _ => {
                let lists = self.lists.into_iter().map(|(_, list)| list).collect();
                TermChoice::new(lists, self.bounds).for_each(from, threshold, show);
            }
        }
    }
}
