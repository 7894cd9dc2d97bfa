//! Parents of matching children, and children of matching parents, found one after the other as far as somebody asks.
//!
//! A search for ten hits that counts up to 10,000 looks at the first families alone. It takes families in rows
//! ([`FamilyRows`]): from a document it is a few bits to its parent, or to the end of its children.
//!
//! Not here: sets of all relatives (`relatives`), families that stand in no rows (`clauses::family_relatives`).

use super::live_docs::{LiveDocs, Visible};
use super::node::{Shared, seek_to};
use super::parent_child_ordinals::FamilyRows;
use model::Result;
use segment::doc_bits::DocBits;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// Children that stand elsewhere than behind their parents are looked at when a walk begins: so many at most.
const STRAYS_MAX: usize = 256;

/// Which relatives are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toward {
    /// Parents of children that match.
    Parents,
    /// Children of parents that match.
    Children,
}

impl Toward {
    /// The one that has to match, and its relative.
    pub(crate) fn sides<T>(self, child: T, parent: T) -> (T, T) {
        match self {
            Toward::Parents => (child, parent),
            Toward::Children => (parent, child),
        }
    }

    /// All relatives of these documents in the same segment, deleted ones too.
    pub(crate) fn relatives_of(self, matching: &DocBits, rows: &FamilyRows) -> DocBits {
        match self {
            Toward::Parents => rows.parents_of(matching),
            Toward::Children => rows.children_of(matching),
        }
    }
}

/// The relatives of a segment's documents that match a clause; each opening is a walk of its own.
pub(crate) struct FamilyWalk {
    rows: Arc<FamilyRows>,
    /// The clause that the other side has to match.
    clause: Shared,
    /// Which documents of the other side count.
    sight: LiveDocs,
    toward: Toward,
    /// Relatives whose other side is in another segment, in order.
    from_afar: Vec<DocId>,
}

impl FamilyWalk {
    /// A walk along these families of a segment; `None` if too many children stand elsewhere.
    pub(crate) fn new(rows: &Arc<FamilyRows>, clause: &Shared, sight: LiveDocs, toward: Toward) -> Option<FamilyWalk> {
        (rows.strays.len() <= STRAYS_MAX).then(|| FamilyWalk {
            rows: rows.clone(),
            clause: clause.clone(),
            sight,
            toward,
            from_afar: Vec::new(),
        })
    }

    /// Adds relatives whose other side is in another segment, in order.
    pub(crate) fn add_from_afar(&mut self, docs: Vec<DocId>) {
        debug_assert!(docs.is_sorted(), "search.md S8: a set of documents rises");
        self.from_afar = docs;
    }

    /// Whether opening it a second time costs little.
    pub(crate) fn opens_quickly(&self) -> bool {
        self.clause.opens_quickly()
    }

    /// All relatives as a set, deleted ones too.
    ///
    /// # Errors
    /// Those of the clause.
    pub(crate) fn all(&self, segment: &SegmentView) -> Result<DocBits> {
        if self.sight.sees_all_roots()
            && let Some(matching) = self.clause.bits(segment)?
        {
            let mut all = self.toward.relatives_of(&matching, &self.rows);
            self.from_afar.iter().for_each(|doc| all.insert(*doc));
            return Ok(all);
        }
        let mut all = DocBits::new(segment.reader.max_doc());
        let mut walk = self.open(segment, 1.0)?;
        while walk.doc() != TERMINATED {
            all.insert(walk.doc());
            walk.advance();
        }
        Ok(all)
    }

    /// The relatives, each once and in order, deleted ones too.
    ///
    /// # Errors
    /// Those of the clause.
    pub(crate) fn open(&self, segment: &SegmentView, score: f32) -> Result<RelativesScorer> {
        let mut strays = match self.rows.strays.is_empty() {
            true => Vec::new(),
            false => strays(&self.rows, self.toward, &mut *self.open_clause(segment)?),
        };
        if !self.from_afar.is_empty() {
            strays.extend(&self.from_afar);
            strays.sort_unstable();
            strays.dedup();
        }
        let matching = self.open_clause(segment)?;
        Ok(RelativesScorer::new(self.rows.clone(), self.toward, matching, strays, score))
    }

    fn open_clause(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Visible::of(self.clause.scorer(segment)?, self.sight.clone()))
    }
}

/// The relatives that stand elsewhere, in order.
fn strays(rows: &FamilyRows, toward: Toward, matching: &mut dyn Scorer) -> Vec<DocId> {
    let strays = rows.strays.iter();
    let mut pairs: Vec<(DocId, DocId)> = strays.map(|(child, parent)| toward.sides(*child, *parent)).collect();
    pairs.sort_unstable();
    pairs.retain(|(asked, _)| seek_to(matching, *asked) == *asked);
    let mut found: Vec<DocId> = pairs.into_iter().map(|(_, relative)| relative).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The relatives of one segment, in order.
pub(crate) struct RelativesScorer {
    /// The documents of the other side.
    matching: Box<dyn Scorer>,
    rows: Arc<FamilyRows>,
    toward: Toward,
    doc: DocId,
    /// The next relative in the rows, from `doc` on.
    in_rows: DocId,
    /// Children before it are of the parent where `matching` is; a child before it has a parent that was shown.
    run_end: DocId,
    strays: Vec<DocId>,
    next_stray: usize,
    score: f32,
}

impl RelativesScorer {
    fn new(rows: Arc<FamilyRows>, toward: Toward, matching: Box<dyn Scorer>, strays: Vec<DocId>, score: f32) -> RelativesScorer {
        let mut walk = RelativesScorer {
            matching,
            rows,
            toward,
            doc: 0,
            in_rows: 0,
            run_end: 0,
            strays,
            next_stray: 0,
            score,
        };
        walk.in_rows = walk.next_in_rows(0);
        walk.settle();
        walk
    }

    /// The first relative in the rows from `target` on.
    fn next_in_rows(&mut self, target: DocId) -> DocId {
        match self.toward {
            Toward::Parents => self.next_parent(target),
            Toward::Children => self.next_child(target),
        }
    }

    fn next_parent(&mut self, target: DocId) -> DocId {
        // The children of a parent stand behind it.
        let mut child = seek_to(&mut *self.matching, target.max(self.run_end));
        while child != TERMINATED {
            if !self.rows.children.contains(child) {
                child = self.matching.advance();
                continue;
            }
            let parent = self.rows.parents.before(child);
            assert!(parent.is_some(), "a child in rows stands behind a parent");
            self.run_end = self.rows.parents.next(child);
            match parent.filter(|parent| *parent >= target) {
                Some(parent) => return parent,
                None => child = seek_to(&mut *self.matching, self.run_end),
            }
        }
        TERMINATED
    }

    fn next_child(&mut self, target: DocId) -> DocId {
        if target >= self.run_end {
            // The parent of what comes first may stand before it.
            let first = self.rows.parents.before(target).unwrap_or(0);
            seek_to(&mut *self.matching, first);
        }
        loop {
            let parent = self.matching.doc();
            if parent == TERMINATED {
                return TERMINATED;
            }
            if self.rows.parents.contains(parent) {
                self.run_end = self.rows.parents.next(parent + 1);
                let child = self.rows.children.next(target.max(parent + 1));
                if child < self.run_end {
                    return child;
                }
            }
            self.matching.advance();
        }
    }

    /// The nearer one of the rows and of what stands elsewhere.
    fn settle(&mut self) -> DocId {
        let stray = self.strays.get(self.next_stray).copied().unwrap_or(TERMINATED);
        self.doc = stray.min(self.in_rows);
        self.doc
    }

    /// How many visible ones there are from here on; beyond `most` any larger number.
    pub(crate) fn count(mut self, sight: &LiveDocs, most: u64) -> u64 {
        let mut count = 0;
        while self.doc != TERMINATED && count <= most {
            count += u64::from(sight.sees(self.doc));
            self.advance();
        }
        count
    }
}

impl DocSet for RelativesScorer {
    fn advance(&mut self) -> DocId {
        match self.doc {
            TERMINATED => TERMINATED,
            doc => self.seek(doc + 1),
        }
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        if self.in_rows < target {
            self.in_rows = self.next_in_rows(target);
        }
        while self.strays.get(self.next_stray).is_some_and(|stray| *stray < target) {
            self.next_stray += 1;
        }
        let found = self.settle();
        debug_assert!(found >= target, "search.md S8: a seek ends at its target or behind it");
        found
    }

    fn doc(&self) -> DocId {
        self.doc
    }

    fn size_hint(&self) -> u32 {
        self.matching.size_hint()
    }

    fn cost(&self) -> u64 {
        self.matching.cost().saturating_mul(2)
    }
}

impl Scorer for RelativesScorer {
    fn score(&mut self) -> f32 {
        self.score
    }
}

#[cfg(test)]
mod tests {
    use super::super::constant::ConstantScorer;
    use super::*;
    use model::random::random;
    use segment::doc_bits::BitsDocs;

    /// Families in rows, some children elsewhere, and some documents that match: walks beside the sets of all relatives.
    fn check(seed: u64) {
        let mut random = random(seed);
        let max_doc = 1 + random(600) as DocId;
        let mut rows = FamilyRows {
            parents: DocBits::new(max_doc),
            children: DocBits::new(max_doc),
            strays: Vec::new(),
        };
        let mut heads = Vec::new();
        let kinds = 3 + random(30);
        for doc in 0..max_doc {
            match random(kinds) {
                0 => {
                    rows.parents.insert(doc);
                    heads.push(doc);
                }
                1 => {}
                2 if !heads.is_empty() => rows.strays.push((doc, heads[random(heads.len() as u64) as usize])),
                _ if heads.is_empty() => {}
                _ => rows.children.insert(doc),
            }
        }
        let rows = Arc::new(rows);
        let one_in = 1 + random(20);
        let mut matching = DocBits::new(max_doc);
        (0..max_doc)
            .filter(|_| random(one_in) == 0)
            .for_each(|doc| matching.insert(doc));
        let matching = Arc::new(matching);
        for (toward, expected) in [
            (Toward::Parents, rows.parents_of(&matching)),
            (Toward::Children, rows.children_of(&matching)),
        ] {
            let scorer = || -> Box<dyn Scorer> { Box::new(ConstantScorer::new(BitsDocs::new(matching.clone()), 1.0)) };
            let strays = strays(&rows, toward, &mut *scorer());
            let open = || RelativesScorer::new(rows.clone(), toward, scorer(), strays.clone(), 1.0);
            let (mut walk, mut expected) = (open(), BitsDocs::new(Arc::new(expected)));
            while expected.doc() != TERMINATED {
                assert_eq!(walk.doc(), expected.doc(), "seed {seed}, {toward:?}");
                if random(3) == 0 {
                    let target = expected.doc() + random(40) as DocId;
                    walk.seek(target);
                    expected.seek(target);
                } else {
                    walk.advance();
                    expected.advance();
                }
            }
            assert_eq!(walk.doc(), TERMINATED, "seed {seed}, {toward:?}");
        }
    }

    #[test]
    fn walks_find_the_relatives_of_the_sets() {
        (0..2_000).for_each(check);
    }
}
