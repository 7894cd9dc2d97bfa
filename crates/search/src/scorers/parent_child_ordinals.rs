//! Who is whose parent inside one segment: parents and children by document number, worked out once a segment.
//!
//! Most children are indexed with their parents or merged with them later, so most of a family lies in one segment,
//! and a step along it is a look into an array. Children whose parent is not there, or is dead there (it was written
//! anew and lives elsewhere), are found by their keys, as before.
//!
//! Not here: keys (`segment::key_columns`), clauses (`clauses::has_child`, `clauses::has_parent`).

use super::parent_child::Family;
use super::term_set::any_of;
use model::Result;
use segment::derived::Footprint;
use segment::doc_bits::DocBits;
use segment::key_columns::ByKey;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::{DocId, DocSet, TERMINATED};

/// No parent in this segment.
const NONE: DocId = DocId::MAX;

/// The families of one parent relation in one segment. Deleted documents are in it too.
pub(crate) struct ParentChildOrdinals {
    /// By document: its parent's. Empty where `rows` says it.
    parent_of: Vec<DocId>,
    rows: Option<Arc<FamilyRows>>,
    /// By document: where its children begin in `children`; one more at the end.
    first: Vec<u32>,
    /// Children, by parent and then in order.
    children: Vec<DocId>,
    /// Children whose parent is not here, in order.
    orphans: Vec<DocId>,
}

/// Families as they are written mostly: each child behind its parent, before the next parent. Then two bits a document say
/// who is whose parent, and are read in order. Where segments with parts of a family were merged, a few children stand elsewhere.
pub(crate) struct FamilyRows {
    /// All parents of the relation that are no nested documents.
    pub(super) parents: DocBits,
    /// Children whose parent is the last one before them.
    pub(super) children: DocBits,
    /// Children that stand elsewhere in this segment, in order, with their parents.
    pub(super) strays: Vec<(DocId, DocId)>,
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

impl FamilyRows {
    /// The parents of these documents, deleted ones too.
    pub(crate) fn parents_of(&self, docs: &DocBits) -> DocBits {
        let mut parents = self.parents.ahead_of(docs, &self.children);
        let strays = self.strays.iter().filter(|(child, _)| docs.contains(*child));
        strays.for_each(|(_, parent)| parents.insert(*parent));
        parents
    }

    /// The children of these parents, deleted ones too.
    pub(crate) fn children_of(&self, parents: &DocBits) -> DocBits {
        let mut children = self.parents.behind(parents, &self.children);
        let strays = self.strays.iter().filter(|(_, parent)| parents.contains(*parent));
        strays.for_each(|(child, _)| children.insert(*child));
        children
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
        kin.rows = FamilyRows::of(heads, &kin.parent_of).map(Arc::new);
        if kin.rows.is_some() {
            kin.parent_of = Vec::new();
        }
        Ok(kin)
    }

    /// The families as they stand in this segment; `None` if many children stand elsewhere than behind their parents.
    pub(crate) fn rows(&self) -> Option<&Arc<FamilyRows>> {
        self.rows.as_ref()
    }

    /// How many children there are, those without a parent here too.
    pub(crate) fn child_count(&self) -> usize {
        self.children.len() + self.orphans.len()
    }

    /// The parents that have children here, in order.
    pub(crate) fn parents(&self) -> impl Iterator<Item = DocId> {
        let has_children = |range: &&[u32]| range.first() < range.last();
        let ranges = (0..).zip(self.first.windows(2));
        ranges.filter(move |(_, range)| has_children(range)).map(|(doc, _)| doc)
    }

    /// Whether a document is a child whose parent is in another segment.
    pub(crate) fn is_orphan(&self, doc: DocId) -> bool {
        self.orphans.binary_search(&doc).is_ok()
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
        self.parent(doc).is_some() || self.is_orphan(doc)
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
            assert_eq!(rows.parents_of(&some), parents);
            assert_eq!(rows.children_of(&some), children);
        }
    }

    #[test]
    fn rows_know_parents_and_children() {
        check(u64::MAX, true);
        check(60, false);
        check(3, false);
    }
}
