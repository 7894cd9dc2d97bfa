//! `has_child`: parents of matching children.

use super::Planner;
use crate::child_score::Totals;
use crate::scorers::conjunction::and;
use crate::scorers::constant::ConstantScorer;
use crate::scorers::family_walk::Toward;
use crate::scorers::live_docs::{LiveDocs, Visible};
use crate::scorers::node::{Node as _, Shared};
use crate::scorers::parent_child::Family;
use crate::scorers::parent_child_ordinals::ParentChildOrdinals;
use crate::scorers::relatives::{Relatives, RelativesNode};
use crate::scorers::split_families::LOOKUP;
use crate::scorers::term_set::any_of;
use dsl::query::{HasChildQuery, ScoreMode};
use model::Result;
use rustc_hash::FxHashMap;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::key_columns::ByKey;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

/// The children of a parent that lives in another segment.
struct Afar {
    children: Totals,
    /// A segment and an ordinal there, for the key as a string.
    example: (u32, u64),
}

impl Afar {
    fn new(segment: u32, ord: u64) -> Afar {
        Afar {
            children: Totals::NONE,
            example: (segment, ord),
        }
    }
}

/// Which parents are looked for, and what is kept of their children.
struct ChildJoin<'a> {
    family: &'a Family,
    /// The relation of the parents.
    parent: &'a str,
    /// Numbers or scores of children decide.
    counted: bool,
    scored: bool,
    /// There are other segments, where parents may live.
    elsewhere: bool,
}

impl ChildJoin<'_> {
    /// Adds the parents of matching children whose parents live in other segments: few mostly.
    fn add_orphans(
        &self,
        kin: &ParentChildOrdinals,
        bits: &DocBits,
        no: u32,
        segment: &SegmentView,
        afar: &mut ByKey<Afar>,
    ) -> Result<()> {
        let mut orphans = kin.orphans().iter().filter(|doc| bits.contains(**doc)).peekable();
        if self.elsewhere
            && orphans.peek().is_some()
            && let Some(keys) = self.family.parents(segment)?
        {
            for (ord, key) in orphans.filter_map(|doc| keys.of(*doc)) {
                afar.entry(key).or_insert(Afar::new(no, ord));
            }
        }
        Ok(())
    }
}

/// The parents of matching children in one segment.
#[derive(Default)]
struct Parents {
    docs: Option<DocBits>,
    /// Where more than their being there is asked for.
    known: FxHashMap<DocId, Totals>,
}

impl Parents {
    fn docs_of(&mut self, segment: &SegmentView) -> &mut DocBits {
        self.docs.get_or_insert_with(|| DocBits::new(segment.reader.max_doc()))
    }

    /// The parents that have enough children, with their scores.
    fn relatives(self, segment: &SegmentView, q: &HasChildQuery, counted: bool, boost: f32) -> Relatives {
        if !counted {
            return Relatives::Found {
                docs: self.docs.map(Arc::new),
                scores: Arc::default(),
            };
        }
        let least = q.min_children.max(1);
        let enough = |of: &Totals| of.count >= least && q.max_children.is_none_or(|max| of.count <= max);
        let mut docs = DocBits::new(segment.reader.max_doc());
        let mut scores = FxHashMap::default();
        for (doc, of) in self.known.iter().filter(|(_, of)| enough(of)) {
            docs.insert(*doc);
            if q.score_mode != ScoreMode::None {
                scores.insert(*doc, boost * of.score(q.score_mode));
            }
        }
        Relatives::Found {
            docs: Some(Arc::new(docs)),
            scores: Arc::new(scores),
        }
    }
}

impl Planner<'_> {
    pub(super) fn has_child(&self, q: &HasChildQuery, boost: f32) -> Result<Shared> {
        let Some(family) = self.family("has_child", q.ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let Some(parent) = family.parent_of(&q.child_type).map(str::to_owned) else {
            if q.ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(self.no_relation(&family, "has_child", &q.child_type, "child"));
        };
        let mut child = match q.score_mode {
            ScoreMode::None => self.filtering(&q.query)?,
            _ => self.whole(&q.query)?,
        };
        // Children of several relations are told apart by their terms.
        if family.children_of(&parent).len() > 1 {
            child = self.of_relation(child, &family, &[&q.child_type]);
        }
        let least = q.min_children.max(1);
        let counted = least > 1 || q.max_children.is_some() || q.score_mode != ScoreMode::None;
        if !counted && let Some(node) = self.relatives(&child, (&family, &parent), Toward::Parents, boost)? {
            return Ok(node);
        }
        let join = ChildJoin {
            family: &family,
            parent: &parent,
            counted,
            scored: q.score_mode != ScoreMode::None,
            // Parents may live in another segment than their children.
            elsewhere: self.view.segments.len() > 1,
        };
        let mut found: Vec<Parents> = Vec::with_capacity(self.view.segments.len());
        let mut afar: ByKey<Afar> = ByKey::default();
        for (no, segment) in (0..).zip(&self.view.segments) {
            self.cx.check_cancelled()?;
            found.push(self.parents_in_segment(&join, &child, no, segment, &mut afar)?);
        }
        self.failure.check()?;
        if !afar.is_empty() {
            self.add_afar(&family, &parent, &afar, counted, &mut found)?;
        }
        let segments = self.view.segments.iter().zip(found);
        let by_segment = segments.map(|(segment, parents)| (segment.id, parents.relatives(segment, q, counted, boost)));
        let by_segment = by_segment.collect();
        let node = RelativesNode {
            by_segment,
            score: boost,
        };
        if node.is_none() {
            return Ok(self.nothing("no relatives"));
        }
        Ok(Arc::new(node))
    }

    /// The parents of a segment's matching children; those of other segments go to `afar`, by key.
    fn parents_in_segment(
        &self,
        join: &ChildJoin<'_>,
        child: &Shared,
        no: u32,
        segment: &SegmentView,
        afar: &mut ByKey<Afar>,
    ) -> Result<Parents> {
        let bits = if join.counted { None } else { child.bits(segment)? };
        let set = match &bits {
            Some(bits) => Box::new(ConstantScorer::new(BitsDocs::new(bits.clone()), 1.0)),
            None => child.scorer(segment)?,
        };
        // New segments are small mostly, and have no match.
        if set.doc() == TERMINATED {
            return Ok(Parents::default());
        }
        let kin = ParentChildOrdinals::of(segment, join.family, join.parent)?;
        let live = LiveDocs::open(segment, &self.view.schema, self.cx.see)?;
        if let Some(bits) = &bits
            && live.sees_all_roots()
            && let Some(rows) = kin.rows()
        {
            join.add_orphans(&kin, bits, no, segment, afar)?;
            return Ok(Parents {
                docs: Some(rows.parents_of(bits)),
                known: FxHashMap::default(),
            });
        }
        let keys = if join.elsewhere { join.family.parents(segment)? } else { None };
        let mut parents = Parents::default();
        let docs = parents.docs_of(segment);
        let mut known: FxHashMap<DocId, Totals> = FxHashMap::default();
        let mut set = Visible::of(set, live);
        while set.doc() != TERMINATED {
            let doc = set.doc();
            let mut own = || Totals::one(if join.scored { set.score() } else { 1.0 });
            match kin.parent(doc).filter(|parent| segment.is_alive(*parent)) {
                Some(parent) if join.counted => {
                    let own = own();
                    docs.insert(parent);
                    known.entry(parent).or_insert(Totals::NONE).add(&own);
                }
                Some(parent) => docs.insert(parent),
                None if keys.is_some() && kin.is_child(doc) => {
                    if let Some((ord, key)) = keys.as_ref().and_then(|keys| keys.of(doc)) {
                        let own = own();
                        afar.entry(key).or_insert(Afar::new(no, ord)).children.add(&own);
                    }
                }
                None => {}
            }
            set.advance();
        }
        parents.known = known;
        Ok(parents)
    }

    /// Adds what children know of parents in other segments.
    fn add_afar(&self, family: &Family, parent: &str, afar: &ByKey<Afar>, counted: bool, found: &mut [Parents]) -> Result<()> {
        let relation = family.relation_term(parent);
        let mut parents = 0;
        for segment in &self.view.segments {
            parents += any_of(segment, std::slice::from_ref(&relation))?.cost();
        }
        // Few are looked up by their ids.
        let mut few = Vec::new();
        if afar.len() as u64 * LOOKUP < parents {
            for of in afar.values() {
                if let Some(keys) = family.parents(&self.view.segments[of.example.0 as usize])? {
                    few.push(family.id_term(self.view, parent, &keys.text(of.example.1)?));
                }
            }
        }
        for (segment, parents) in self.view.segments.iter().zip(found) {
            self.cx.check_cancelled()?;
            let Some(keys) = family.ids(segment)? else { continue };
            let mut docs = any_of(segment, std::slice::from_ref(&relation))?;
            if !few.is_empty() {
                docs = and(vec![(any_of(segment, &few)?, false), (docs, false)]);
            }
            while docs.doc() != TERMINATED {
                let doc = docs.doc();
                if let Some(of) = keys.of(doc).and_then(|(_, key)| afar.get(&key))
                    && segment.is_alive(doc)
                    && segment.is_root(doc)
                {
                    parents.docs_of(segment).insert(doc);
                    if counted {
                        parents.known.entry(doc).or_insert(Totals::NONE).add(&of.children);
                    }
                }
                docs.advance();
            }
        }
        Ok(())
    }
}
