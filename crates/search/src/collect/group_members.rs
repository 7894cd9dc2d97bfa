//! The members of a page's groups, ordered by score alone: how many each group has, and the best of them.
//!
//! A block of matches is told apart by the ordinals of its documents; only members of the page's groups are scored. Threads that have
//! nothing to do take ranges of a segment, as for aggregations (search.md S28).
//!
//! Not here: members in another order, and those that the first pass kept (`fetch::collapse`).

use super::collapse::{Group, Groups};
use super::divided_sink::show_all;
use super::shown::Matches;
use super::{Best, Collected, Order, Source, ranked_by_score};
use crate::context::Context;
use crate::doc_sink::{DocSink, SinkFork, SinkPart};
use crate::fields::column::{is_run, read_rows};
use crate::scorers::conjunction::and;
use crate::scorers::node::seek_to;
use crate::scorers::planned::Planned;
use crate::scorers::term_set::any_of;
use crate::sort::{Key, Plan};
use dsl::search::SearchRequest;
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::columnar::{ColumnIndex, StrColumn};
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED, Term};

/// The groups of a page, and what is asked of their members.
pub(crate) struct PageGroups<'a> {
    /// The place of each group on the page.
    pub(crate) slots: FxHashMap<&'a Group, usize>,
    /// The value of each group, by place.
    pub(crate) keys: &'a [Key],
    /// The field that tells them apart.
    pub(crate) field: &'a Plan,
    /// The terms of all groups, where the index has some.
    pub(crate) terms: Option<Vec<Term>>,
    /// So many of the best of each are wanted.
    pub(crate) limit: usize,
    /// Scores are shown or compared.
    pub(crate) scored: bool,
}

/// The members of one group.
pub(crate) struct FoundMembers {
    pub(crate) count: u64,
    pub(crate) max_score: Option<f32>,
    pub(crate) best: Best<'static>,
    /// The score that the next one must beat to be among the best.
    threshold: f32,
}

static BY_SCORE: Order = Order { ascending: Vec::new() };

impl FoundMembers {
    pub(crate) fn new(limit: usize) -> FoundMembers {
        FoundMembers {
            count: 0,
            max_score: None,
            best: Best::new(&BY_SCORE, limit),
            threshold: if limit == 0 { f32::INFINITY } else { f32::NEG_INFINITY },
        }
    }

    /// As many as are wanted are kept.
    fn is_full(&self) -> bool {
        self.threshold > f32::NEG_INFINITY
    }

    fn absorb(&mut self, other: FoundMembers) {
        self.count += other.count;
        self.max_score = other.max_score.into_iter().chain(self.max_score).reduce(f32::max);
        other.best.into_sorted().into_iter().for_each(|one| self.best.push(one));
    }
}

/// Adds the members that a segment has to those of each group of the page.
///
/// # Errors
/// Unreadable files, scripts that fail, cancellation.
pub(crate) fn collect_members(
    page: &PageGroups<'_>,
    source: &Source<'_>,
    segment_no: usize,
    request: &SearchRequest,
    cx: &Context<'_>,
    members: &mut Vec<FoundMembers>,
) -> Result<()> {
    debug_assert!(
        source.post_filter.is_none() && request.min_score.is_none(),
        "all matches of the query are members of their groups"
    );
    let segment = &source.view.segments[segment_no];
    let search = MemberSearch {
        planned: source.planned.clone(),
        segment: segment.clone(),
        at: (source.no, segment_no),
        boost: page.scored.then_some(source.boost),
        one_score: source.planned.node().most_score().is_some(),
        limit: page.limit,
        groups: members.len(),
    };
    let slots = slots_of(page, source.view, segment)?;
    let mut sink = search.sink(slots, std::mem::take(members))?;
    let mut found = Collected::default();
    let mut set = source.planned.scorer(segment)?;
    match few_members(page, segment, set.cost())? {
        Some(of_groups) => {
            let mut set = and(vec![(set, false), (of_groups, false)]);
            Matches::new(set.as_mut(), source.planned, None, &cx.interrupt).show(0..TERMINATED, &mut sink, &mut found)?;
        }
        None => show_all(source, segment, set.as_mut(), false, request, cx, &mut sink, &mut found)?,
    }
    *members = sink.members;
    Ok(())
}

/// Documents of the groups are looked for one by one where so many times fewer of them are there than matches.
const FEWER: u64 = 4;

/// The documents of all groups of the page, where they are much fewer than `matches`.
fn few_members(page: &PageGroups<'_>, segment: &SegmentView, matches: u64) -> Result<Option<Box<dyn Scorer>>> {
    let Some(terms) = &page.terms else { return Ok(None) };
    let mut docs = 0;
    for term in terms {
        let index = segment.reader.inverted_index(term.field()).map_err(broken)?;
        docs += u64::from(index.doc_freq(term).map_err(broken)?);
        if docs.saturating_mul(FEWER) > matches {
            return Ok(None);
        }
    }
    any_of(segment, terms).map(Some)
}

/// Says which group of the page a document is in.
enum Slots {
    Ordinals(Arc<OrdinalSlots>),
    Groups(Box<GroupSlots>),
}

/// Groups by values that have no ordinals.
struct GroupSlots {
    groups: Groups,
    by_group: FxHashMap<Group, usize>,
}

/// Groups by strings, by the ordinals of a segment.
struct OrdinalSlots {
    column: StrColumn,
    by_ordinal: FxHashMap<u64, usize>,
    /// The group of documents without a value.
    without: Option<usize>,
}

fn slots_of(page: &PageGroups<'_>, view: &IndexView, segment: &SegmentView) -> Result<Slots> {
    let groups = Groups::open(page.field, view, segment)?;
    let Groups::Keyed(Some(keys)) = &groups else {
        let slots = page.slots.iter().map(|(group, slot)| ((*group).clone(), *slot));
        let by_group = slots.collect();
        return Ok(Slots::Groups(Box::new(GroupSlots { groups, by_group })));
    };
    let mut by_ordinal = FxHashMap::default();
    for (group, slot) in &page.slots {
        if let (Group::Keyed(key), Key::Text(text)) = (group, &page.keys[*slot])
            && let Some(ordinal) = keys.ordinal(text)?
        {
            debug_assert_eq!(
                keys.by_ordinal().get(ordinal as usize),
                Some(key),
                "the string [{text}] of a group has the key that the group has"
            );
            by_ordinal.insert(ordinal, *slot);
        }
    }
    Ok(Slots::Ordinals(Arc::new(OrdinalSlots {
        column: keys.column().clone(),
        by_ordinal,
        without: page.slots.get(&Group::None).copied(),
    })))
}

impl OrdinalSlots {
    /// Shows each document of a block that is in a group of the page, with the group's place.
    fn each(&self, docs: &[DocId], ordinals: &mut Vec<u64>, mut show: impl FnMut(DocId, usize)) {
        let column = self.column.ords();
        if !matches!(column.index, ColumnIndex::Full) {
            for doc in docs {
                let slot = match self.column.term_ords(*doc).min() {
                    Some(ordinal) => self.by_ordinal.get(&ordinal),
                    None => self.without.as_ref(),
                };
                slot.into_iter().for_each(|slot| show(*doc, *slot));
            }
            return;
        }
        ordinals.clear();
        ordinals.resize(docs.len(), 0);
        read_rows(column.values.as_ref(), docs, is_run(docs), ordinals);
        for (doc, ordinal) in docs.iter().zip(&*ordinals) {
            if let Some(slot) = self.by_ordinal.get(ordinal) {
                show(*doc, *slot);
            }
        }
    }
}

/// The search for members in one segment; threads that divide the segment have a clone each.
#[derive(Clone)]
struct MemberSearch {
    planned: Arc<Planned>,
    segment: Arc<SegmentView>,
    /// The numbers of the index and the segment.
    at: (usize, usize),
    /// Scores are multiplied by it; `None`: there are none.
    boost: Option<f32>,
    /// All matches have one score: the first members are the best.
    one_score: bool,
    limit: usize,
    groups: usize,
}

/// Counts members and keeps the best.
struct MemberSink {
    search: MemberSearch,
    slots: Slots,
    scorer: Option<Box<dyn Scorer>>,
    members: Vec<FoundMembers>,
    ordinals: Vec<u64>,
}

impl MemberSearch {
    /// A sink that adds to `members`.
    fn sink(self, slots: Slots, members: Vec<FoundMembers>) -> Result<MemberSink> {
        let scorer = match self.boost {
            Some(_) => Some(self.planned.node().scorer(&self.segment)?),
            None => None,
        };
        Ok(MemberSink {
            search: self,
            slots,
            scorer,
            members,
            ordinals: Vec::new(),
        })
    }

    /// Counts a member, and keeps it if it is among the best of its group. Members of a thread come in order.
    #[inline]
    fn take(&self, doc: DocId, scorer: Option<&mut (dyn Scorer + 'static)>, of: &mut FoundMembers) {
        of.count += 1;
        if self.one_score && of.is_full() && of.max_score.is_some() {
            return;
        }
        let mut score = 0.0;
        if let (Some(scorer), Some(boost)) = (scorer, self.boost) {
            let at = seek_to(scorer, doc);
            debug_assert_eq!(at, doc, "a member of a group matches");
            score = scorer.score() * boost;
        }
        of.max_score = Some(of.max_score.map_or(score, |max| max.max(score)));
        if score > of.threshold {
            of.best.push(ranked_by_score(self.at.0, self.at.1, doc, score));
            of.threshold = of.best.threshold().map_or(f32::NEG_INFINITY, |worst| worst.score);
        }
    }
}

impl DocSink for MemberSink {
    fn segment(&mut self, _view: &IndexView, _segment: &SegmentView) -> Result<()> {
        Ok(())
    }

    fn collect_block(&mut self, docs: &[DocId], _scores: &[f32]) -> Result<()> {
        let MemberSink {
            search,
            slots,
            scorer,
            members,
            ordinals,
        } = self;
        match slots {
            Slots::Ordinals(slots) => slots.each(docs, ordinals, |doc, slot| {
                search.take(doc, scorer.as_deref_mut(), &mut members[slot]);
            }),
            Slots::Groups(slots) => {
                for doc in docs {
                    if let Some(slot) = slots.by_group.get(&slots.groups.of(*doc)?) {
                        search.take(*doc, scorer.as_deref_mut(), &mut members[*slot]);
                    }
                }
            }
        }
        // A script that failed has given no score to its document.
        search.planned.check()
    }

    fn wants_scores(&self) -> bool {
        false
    }

    fn fork(&self) -> Option<Box<dyn SinkFork>> {
        let Slots::Ordinals(slots) = &self.slots else { return None };
        Some(Box::new(MemberFork {
            search: self.search.clone(),
            slots: slots.clone(),
        }))
    }

    fn absorb(&mut self, part: SinkPart) -> Result<()> {
        let part = part.downcast::<Vec<FoundMembers>>();
        let part = part.map_err(|_| Error::new(ErrorKind::Internal, "a part of a page's groups has their members"))?;
        debug_assert_eq!(
            part.len(),
            self.members.len(),
            "search.md S28: all threads look at the groups of one page"
        );
        let pairs = self.members.iter_mut().zip(*part);
        pairs.for_each(|(own, other)| own.absorb(other));
        Ok(())
    }
}

/// Makes the sinks of other threads.
struct MemberFork {
    search: MemberSearch,
    slots: Arc<OrdinalSlots>,
}

impl SinkFork for MemberFork {
    fn collect(&self, feed: &mut dyn FnMut(&mut dyn DocSink) -> Result<()>) -> Result<SinkPart> {
        let MemberSearch { groups, limit, .. } = self.search;
        let members = (0..groups).map(|_| FoundMembers::new(limit)).collect();
        let mut sink = self.search.clone().sink(Slots::Ordinals(self.slots.clone()), members)?;
        feed(&mut sink)?;
        Ok(Box::new(sink.members))
    }
}
