//! Who is whose parent inside one segment: parents and children by document number, worked out once a segment.
//!
//! Most children are indexed with their parents or merged with them later, so most of a family lies in one segment,
//! and a step along it is a look into an array. Children whose parent is not there, or is dead there (it was written
//! anew and lives elsewhere), are found by their keys, as before.
//!
//! Not here: keys (`segment::key_columns`), clauses (`clauses::has_child`, `clauses::has_parent`).

use super::constant::{ConstantScorer, NoScorer};
use super::live_docs::LiveDocs;
use super::node::Node;
use super::parent_child::Family;
use super::term_set::any_of;
use model::Result;
use rustc_hash::FxHashMap;
use segment::derived::Footprint;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::key_columns::ByKey;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// No parent in this segment.
const NONE: DocId = DocId::MAX;

/// The families of one parent relation in one segment. Deleted documents are in it too.
pub(crate) struct ParentChildOrdinals {
    /// By document: its parent's. Empty where `rows` says it.
    parent_of: Vec<DocId>,
    rows: Option<FamilyRows>,
    /// By document: where its children begin in `children`; one more at the end.
    first: Vec<u32>,
    /// Children, by parent and then in order.
    children: Vec<DocId>,
    /// Children whose parent is not here, in order.
    orphans: Vec<DocId>,
}

/// Families as they are written mostly: each child behind its parent, before the next parent. Then two bits a document say
/// who is whose parent, and are read in order. Where segments with parts of a family were merged, a few children stand elsewhere.
struct FamilyRows {
    parents: DocBits,
    /// Children whose parent is the last one before them.
    children: DocBits,
    /// Children that stand elsewhere in this segment, in order, with their parents.
    strays: Vec<(DocId, DocId)>,
}

/// Of so many children that stand behind their parents, one may stand elsewhere.
const IN_ROWS_FOR_A_STRAY: usize = 32;

impl FamilyRows {
    /// The rows of these parents; `None` if many children stand elsewhere.
    fn of(parents: DocBits, parent_of: &[DocId]) -> Option<FamilyRows> {
        let mut rows = FamilyRows {
            children: DocBits::new(u32::try_from(parent_of.len()).ok()?),
            parents,
            strays: Vec::new(),
        };
        for (doc, parent) in (0..).zip(parent_of).filter(|(_, parent)| **parent != NONE) {
            match rows.parents.before(doc) {
                Some(before) if before == *parent && !rows.parents.contains(doc) => rows.children.insert(doc),
                _ => rows.strays.push((doc, *parent)),
            }
        }
        (rows.strays.len() * IN_ROWS_FOR_A_STRAY <= rows.children.len() as usize).then_some(rows)
    }

    fn parent(&self, doc: DocId) -> Option<DocId> {
        if self.children.contains(doc) {
            return self.parents.before(doc);
        }
        let place = self.strays.binary_search_by_key(&doc, |(child, _)| *child).ok()?;
        self.strays.get(place).map(|(_, parent)| *parent)
    }
}

impl Footprint for ParentChildOrdinals {
    fn heap_bytes(&self) -> usize {
        let kept = [&self.parent_of, &self.first, &self.children, &self.orphans];
        let rows = self.rows.as_ref();
        let rows = rows.map_or(0, |rows| {
            rows.parents.heap_bytes() + rows.children.heap_bytes() + size_of_val(rows.strays.as_slice())
        });
        kept.iter().map(|numbers| numbers.heap_bytes()).sum::<usize>() + rows
    }
}

impl ParentChildOrdinals {
    /// The parents and children of a segment, made once.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn of(segment: &SegmentView, family: &Family, parent: &str) -> Result<Arc<ParentChildOrdinals>> {
        segment.core.once(&format!("kin {parent}"), || {
            ParentChildOrdinals::build(segment, family, parent)
        })
    }

    fn build(segment: &SegmentView, family: &Family, parent: &str) -> Result<ParentChildOrdinals> {
        let max_doc = segment.reader.max_doc() as usize;
        let mut kin = ParentChildOrdinals {
            parent_of: vec![NONE; max_doc],
            rows: None,
            first: vec![0; max_doc + 1],
            children: Vec::new(),
            orphans: Vec::new(),
        };
        let (Some(ids), Some(parents)) = (family.ids(segment)?, family.parents(segment)?) else {
            // Without a column of parents there are no children.
            return Ok(kin);
        };
        let mut by_key: ByKey<DocId> = ByKey::default();
        let mut heads = DocBits::new(segment.reader.max_doc());
        let mut docs = any_of(segment, &[family.relation_term(parent)])?;
        while docs.doc() != TERMINATED {
            if segment.is_root(docs.doc())
                && let Some((_, key)) = ids.of(docs.doc())
            {
                by_key.insert(key, docs.doc());
                heads.insert(docs.doc());
            }
            docs.advance();
        }
        let terms: Vec<_> = family
            .children_of(parent)
            .iter()
            .map(|child| family.relation_term(child))
            .collect();
        let mut docs = any_of(segment, &terms)?;
        while docs.doc() != TERMINATED {
            let doc = docs.doc();
            match parents.of(doc).and_then(|(_, key)| by_key.get(&key)) {
                _ if !segment.is_root(doc) => {}
                Some(parent) => {
                    kin.parent_of[doc as usize] = *parent;
                    kin.first[*parent as usize + 1] += 1;
                }
                None => kin.orphans.push(doc),
            }
            docs.advance();
        }
        for at in 0..max_doc {
            kin.first[at + 1] += kin.first[at];
        }
        assert!(
            kin.first.is_sorted(),
            "the children of a parent lie behind those of the one before"
        );
        let mut next = kin.first.clone();
        kin.children = vec![0; kin.first[max_doc] as usize];
        for (doc, parent) in (0..).zip(&kin.parent_of).filter(|(_, parent)| **parent != NONE) {
            let place = &mut next[*parent as usize];
            kin.children[*place as usize] = doc;
            *place += 1;
        }
        debug_assert!(kin.orphans.is_sorted(), "orphans come in ascending order");
        debug_assert_eq!(
            kin.parent_of.iter().filter(|parent| **parent != NONE).count(),
            kin.children.len(),
            "each child of this segment has one parent"
        );
        debug_assert!(
            (0..max_doc).all(|doc| kin.children(doc as DocId).is_sorted()),
            "children of one parent come in ascending order"
        );
        kin.rows = FamilyRows::of(heads, &kin.parent_of);
        if kin.rows.is_some() {
            kin.parent_of = Vec::new();
        }
        Ok(kin)
    }

    /// The parents in this segment of these documents, deleted ones too; `None` if that is not known of all at once.
    pub(crate) fn parents_of(&self, docs: &DocBits) -> Option<DocBits> {
        let rows = self.rows.as_ref()?;
        let mut parents = rows.parents.ahead_of(docs, &rows.children);
        let strays = rows.strays.iter().filter(|(child, _)| docs.contains(*child));
        strays.for_each(|(_, parent)| parents.insert(*parent));
        Some(parents)
    }

    /// The children in this segment of these parents, deleted ones too; `None` if that is not known of all at once.
    pub(crate) fn children_of(&self, parents: &DocBits) -> Option<DocBits> {
        let rows = self.rows.as_ref()?;
        let mut children = rows.parents.behind(parents, &rows.children);
        let strays = rows.strays.iter().filter(|(_, parent)| parents.contains(*parent));
        strays.for_each(|(child, _)| children.insert(*child));
        Some(children)
    }

    /// Children whose parent is in another segment, in order.
    pub(crate) fn orphans(&self) -> &[DocId] {
        &self.orphans
    }

    /// The parent of a document in this segment.
    #[inline]
    pub(crate) fn parent(&self, doc: DocId) -> Option<DocId> {
        if let Some(rows) = &self.rows {
            return rows.parent(doc);
        }
        self.parent_of.get(doc as usize).copied().filter(|parent| *parent != NONE)
    }

    /// Whether a document is a child, wherever its parent is.
    pub(crate) fn is_child(&self, doc: DocId) -> bool {
        self.parent(doc).is_some() || self.orphans.binary_search(&doc).is_ok()
    }

    /// The children of a document in this segment, in order.
    pub(crate) fn children(&self, doc: DocId) -> &[DocId] {
        let at = doc as usize;
        match (self.first.get(at), self.first.get(at + 1)) {
            (Some(from), Some(to)) => &self.children[*from as usize..*to as usize],
            _ => &[],
        }
    }

    /// Children whose parent is not alive in this segment, in order.
    pub(crate) fn orphans_of(&self, segment: &SegmentView) -> Vec<DocId> {
        if segment.reader.alive_bitset().is_none() {
            return self.orphans.clone();
        }
        let dead = |doc: &DocId| self.parent(*doc).is_some_and(|parent| !segment.is_alive(parent));
        let mut lost: Vec<DocId> = self.children.iter().copied().filter(dead).collect();
        lost.extend(&self.orphans);
        lost.sort_unstable();
        lost
    }
}

/// Documents of one segment, with a score each where they differ.
#[derive(Default)]
pub(crate) struct Relatives {
    /// Which.
    pub(crate) docs: Option<Arc<DocBits>>,
    /// Their scores; those without have the one of all.
    pub(crate) scores: Arc<FxHashMap<DocId, f32>>,
}

/// The relatives that were found, segment by segment.
pub(crate) struct RelativesNode {
    /// By segment.
    pub(crate) by_segment: FxHashMap<u64, Relatives>,
    /// The score of those without their own.
    pub(crate) score: f32,
}

impl RelativesNode {
    fn all_alike(&self) -> bool {
        self.by_segment.values().all(|relatives| relatives.scores.is_empty())
    }
}

impl Node for RelativesNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let Some(relatives) = self.by_segment.get(&segment.id) else {
            return Ok(Box::new(NoScorer));
        };
        let Some(docs) = relatives.docs.clone().filter(|docs| !docs.is_empty()) else {
            return Ok(Box::new(NoScorer));
        };
        let set = Box::new(ConstantScorer::new(BitsDocs::new(docs), self.score));
        if relatives.scores.is_empty() {
            return Ok(set);
        }
        let (scores, common) = (relatives.scores.clone(), self.score);
        Ok(crate::scorers::rescored::rescore(set, move |doc, _| {
            Some(scores.get(&doc).copied().unwrap_or(common))
        }))
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        Ok(self.by_segment.get(&segment.id).and_then(|relatives| relatives.docs.clone()))
    }

    fn most_score(&self) -> Option<f32> {
        self.all_alike().then_some(self.score)
    }

    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, _most: u64) -> Result<Option<u64>> {
        if !sight.sees_all_roots() {
            return Ok(None);
        }
        let docs = self.by_segment.get(&segment.id).and_then(|relatives| relatives.docs.as_ref());
        Ok(Some(docs.map_or(0, |docs| u64::from(docs.len()))))
    }

    fn is_none(&self) -> bool {
        let none = |relatives: &Relatives| relatives.docs.as_ref().is_none_or(|docs| docs.is_empty());
        self.by_segment.values().all(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::random::random;

    /// Families in rows, of whose children one in so many stands behind another parent.
    fn check(one_in: u64, is_in_rows: bool) {
        let mut random = random(one_in);
        for _ in 0..50 {
            let max_doc = 1 + random(400) as DocId;
            let mut heads = DocBits::new(max_doc);
            let mut parent_of = vec![NONE; max_doc as usize];
            let mut all = Vec::new();
            for doc in 0..max_doc {
                match random(5) {
                    0 => {
                        heads.insert(doc);
                        all.push(doc);
                    }
                    1 => {}
                    _ if all.is_empty() => {}
                    _ => {
                        let place = if random(one_in) == 0 {
                            random(all.len() as u64) as usize
                        } else {
                            all.len() - 1
                        };
                        parent_of[doc as usize] = all[place];
                    }
                }
            }
            let Some(rows) = FamilyRows::of(heads, &parent_of) else {
                assert!(!is_in_rows, "few stand elsewhere");
                continue;
            };
            for (doc, parent) in (0..).zip(&parent_of) {
                assert_eq!(rows.parent(doc), Some(*parent).filter(|parent| *parent != NONE), "{doc}");
            }
            let kin = ParentChildOrdinals {
                parent_of: Vec::new(),
                rows: Some(rows),
                first: Vec::new(),
                children: Vec::new(),
                orphans: Vec::new(),
            };
            let mut some = DocBits::new(max_doc);
            (0..max_doc).filter(|_| random(3) == 0).for_each(|doc| some.insert(doc));
            let (mut parents, mut children) = (DocBits::new(max_doc), DocBits::new(max_doc));
            for (doc, parent) in (0..).zip(&parent_of).filter(|(_, parent)| **parent != NONE) {
                if some.contains(doc) {
                    parents.insert(*parent);
                }
                if some.contains(*parent) {
                    children.insert(doc);
                }
            }
            assert_eq!(kin.parents_of(&some), Some(parents));
            assert_eq!(kin.children_of(&some), Some(children));
        }
    }

    #[test]
    fn rows_know_parents_and_children() {
        check(u64::MAX, true);
        check(60, false);
        check(3, false);
    }
}
