//! Children whose parents live in other segments of an index, by document number.
//!
//! Which documents of two segments have the same ids does not change, so it is found once for two segments. Which of them are
//! alive is looked at by each search: a parent that was written anew is dead where its children may still be.
//!
//! Not here: families inside one segment (`parent_child_ordinals`), clauses (`clauses::family_relatives`).

use super::conjunction::and;
use super::live_docs::LiveDocs;
use super::parent_child::Family;
use super::parent_child_ordinals::ParentChildOrdinals;
use super::term_set::any_of;
use model::Result;
use segment::derived::Footprint;
use segment::key_columns::ByKey;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet as _, TERMINATED, Term};

/// A lookup by string costs about as much as this many looks at a column.
pub(crate) const LOOKUP: u64 = 4000;

/// Families that a search looks at one by one, at most.
const SPLIT_MAX: usize = 100_000;

/// A child and its parent in two segments, each a number of the segment and a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitFamily {
    pub(crate) child: (usize, DocId),
    pub(crate) parent: (usize, DocId),
}

/// The split families of all segments, visible ones; `None` if there are more than [`SPLIT_MAX`]. `sights`: by segment.
///
/// # Errors
/// Unreadable files.
pub(crate) fn split_families(
    view: &IndexView,
    family: &Family,
    parent: &str,
    sights: &[LiveDocs],
) -> Result<Option<Vec<SplitFamily>>> {
    let mut split = Vec::new();
    if view.segments.len() < 2 {
        return Ok(Some(split));
    }
    let segments = || view.segments.iter().zip(sights).enumerate();
    for (s, (of_child, child_sight)) in segments() {
        let kin = ParentChildOrdinals::of(of_child, family, parent)?;
        if kin.child_count() == 0 {
            continue;
        }
        for (t, (of_parent, parent_sight)) in segments().filter(|(t, _)| *t != s) {
            let shared = SharedIds::of(view, (of_child, of_parent), family, parent)?;
            let mut add = |child: DocId, parent: DocId| {
                if child_sight.sees(child) {
                    split.push(SplitFamily {
                        child: (s, child),
                        parent: (t, parent),
                    });
                }
            };
            for (child, parent) in shared.orphans.iter().filter(|(_, parent)| parent_sight.sees(*parent)) {
                add(*child, *parent);
            }
            for (old, new) in &shared.parents {
                if !of_child.is_alive(*old) && parent_sight.sees(*new) {
                    kin.children(*old).iter().for_each(|child| add(*child, *new));
                }
            }
            if split.len() > SPLIT_MAX {
                return Ok(None);
            }
        }
    }
    Ok(Some(split))
}

/// What two segments have in common, deleted documents too.
#[derive(Default)]
struct SharedIds {
    /// Children of the first segment that have no parent there, with their parents in the second.
    orphans: Vec<(DocId, DocId)>,
    /// Parents with children in the first segment, and the document of the second that has their id.
    parents: Vec<(DocId, DocId)>,
}

impl Footprint for SharedIds {
    fn heap_bytes(&self) -> usize {
        size_of_val(self.orphans.as_slice()) + size_of_val(self.parents.as_slice())
    }
}

impl SharedIds {
    fn of(
        view: &IndexView,
        (first, second): (&SegmentView, &SegmentView),
        family: &Family,
        parent: &str,
    ) -> Result<Arc<SharedIds>> {
        let name = format!("kin {parent} beside {}", second.id);
        first
            .core
            .once(&name, || SharedIds::build(view, (first, second), family, parent))
    }

    fn build(
        view: &IndexView,
        (first, second): (&SegmentView, &SegmentView),
        family: &Family,
        parent: &str,
    ) -> Result<SharedIds> {
        let relation = family.relation_term(parent);
        let kin = ParentChildOrdinals::of(first, family, parent)?;
        let parents = any_of(second, std::slice::from_ref(&relation))?.cost();
        let join = SharedIdsJoin {
            view,
            first,
            second,
            family,
            parent,
            relation,
            kin: &kin,
        };
        let children = kin.child_count() as u64;
        if cfg!(debug_assertions) && children + parents < COMPARED_MAX {
            join.assert_that_ways_agree()?;
        }
        match () {
            () if parents == 0 => Ok(SharedIds::default()),
            () if children * LOOKUP < parents => join.by_children(),
            () if parents * LOOKUP < children => join.by_parents(),
            () => join.by_keys(),
        }
    }
}

/// A debug build finds the shared ids of segments with fewer documents by all three ways.
const COMPARED_MAX: u64 = 100;

/// The making of a [`SharedIds`]: the side that has few is looked up by strings.
struct SharedIdsJoin<'a> {
    view: &'a IndexView,
    first: &'a SegmentView,
    second: &'a SegmentView,
    family: &'a Family,
    /// The relation of parents, and its term.
    parent: &'a str,
    relation: Term,
    /// Of the first segment.
    kin: &'a ParentChildOrdinals,
}

impl SharedIdsJoin<'_> {
    fn assert_that_ways_agree(&self) -> Result<()> {
        // Of several versions of one parent one way finds the newest alone.
        let newest = |mut pairs: Vec<(DocId, DocId)>| {
            pairs.sort_unstable_by(|one, other| (one.0, other.1).cmp(&(other.0, one.1)));
            pairs.dedup_by_key(|(child, _)| *child);
            pairs
        };
        let ways = [self.by_children()?, self.by_parents()?, self.by_keys()?];
        let [one, two, three] = ways.map(|shared| (newest(shared.orphans), newest(shared.parents)));
        assert_eq!(one, two, "lookups from both sides find the same");
        assert_eq!(one, three, "lookups find what keys find");
        Ok(())
    }

    /// Looks up the parent of each child of the first segment.
    fn by_children(&self) -> Result<SharedIds> {
        let mut shared = SharedIds::default();
        let (Some(ids), Some(parents)) = (self.family.ids(self.first)?, self.family.parents(self.first)?) else {
            return Ok(shared);
        };
        let find = |id: &str| -> Result<Option<DocId>> {
            let same = any_of(self.second, &[self.family.id_term(self.view, self.parent, id)])?;
            let parents = any_of(self.second, std::slice::from_ref(&self.relation))?;
            Ok(last_root(self.second, and(vec![(same, false), (parents, false)])))
        };
        for orphan in self.kin.orphans() {
            if let Some((ord, _)) = parents.of(*orphan)
                && let Some(found) = find(&parents.text(ord)?)?
            {
                shared.orphans.push((*orphan, found));
            }
        }
        for head in self.kin.parents() {
            if let Some((ord, _)) = ids.of(head)
                && let Some(found) = find(self.family.bare_id(&ids.text(ord)?))?
            {
                shared.parents.push((head, found));
            }
        }
        Ok(shared)
    }

    /// Looks up the children of each parent of the second segment.
    fn by_parents(&self) -> Result<SharedIds> {
        let mut shared = SharedIds::default();
        let Some(ids) = self.family.ids(self.second)? else {
            return Ok(shared);
        };
        let mut parents = any_of(self.second, std::slice::from_ref(&self.relation))?;
        while parents.doc() != TERMINATED {
            let doc = parents.doc();
            parents.advance();
            let Some((ord, _)) = ids.of(doc).filter(|_| self.second.is_root(doc)) else {
                continue;
            };
            let text = ids.text(ord)?;
            let id = self.family.bare_id(&text);
            let mut children = any_of(self.first, &[self.family.parent_term(id)])?;
            while children.doc() != TERMINATED {
                if self.kin.is_orphan(children.doc()) {
                    shared.orphans.push((children.doc(), doc));
                }
                children.advance();
            }
            let same = any_of(self.first, &[self.family.id_term(self.view, self.parent, id)])?;
            let same = last_root(self.first, same).filter(|same| !self.kin.children(*same).is_empty());
            shared.parents.extend(same.map(|same| (same, doc)));
        }
        Ok(shared)
    }

    /// Compares all keys.
    fn by_keys(&self) -> Result<SharedIds> {
        let of_first = (self.family.ids(self.first)?, self.family.parents(self.first)?);
        let ((Some(ids), Some(parents)), Some(ids_of_second)) = (of_first, self.family.ids(self.second)?) else {
            return Ok(SharedIds::default());
        };
        let mut by_key: ByKey<DocId> = ByKey::default();
        let mut docs = any_of(self.second, std::slice::from_ref(&self.relation))?;
        while docs.doc() != TERMINATED {
            if self.second.is_root(docs.doc())
                && let Some((_, key)) = ids_of_second.of(docs.doc())
            {
                // The last of several is the newest.
                by_key.insert(key, docs.doc());
            }
            docs.advance();
        }
        let find = |(_, key)| by_key.get(&key).copied();
        let orphans = self.kin.orphans().iter();
        let heads = self.kin.parents();
        Ok(SharedIds {
            orphans: orphans
                .filter_map(|doc| Some((*doc, parents.of(*doc).and_then(find)?)))
                .collect(),
            parents: heads.filter_map(|doc| Some((doc, ids.of(doc).and_then(find)?))).collect(),
        })
    }
}

/// The last root document of a set: of several versions the newest.
fn last_root(segment: &SegmentView, mut docs: Box<dyn Scorer>) -> Option<DocId> {
    let mut last = None;
    while docs.doc() != TERMINATED {
        last = Some(docs.doc()).filter(|doc| segment.is_root(*doc)).or(last);
        docs.advance();
    }
    last
}
