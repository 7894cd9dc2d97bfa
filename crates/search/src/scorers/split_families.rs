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
use segment::key_columns::{ByKey, Keys};
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
            let shared = |side| SharedIds::of(view, (of_child, of_parent), (family, parent), side);
            let mut add = |child: DocId, parent: DocId| {
                if child_sight.sees(child) {
                    split.push(SplitFamily {
                        child: (s, child),
                        parent: (t, parent),
                    });
                }
            };
            if !kin.orphans().is_empty() {
                for (child, parent) in shared(Side::Orphans)?
                    .0
                    .iter()
                    .filter(|(_, parent)| parent_sight.sees(*parent))
                {
                    add(*child, *parent);
                }
            }
            // Where nothing is deleted, parents are where their children look for them.
            if of_child.reader.alive_bitset().is_some() {
                for (old, new) in &shared(Side::Parents)?.0 {
                    if !of_child.is_alive(*old) && parent_sight.sees(*new) {
                        kin.children(*old).iter().for_each(|child| add(*child, *new));
                    }
                }
            }
            if split.len() > SPLIT_MAX {
                return Ok(None);
            }
        }
    }
    Ok(Some(split))
}

/// Which documents of the first segment are compared with the parents of the second.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// Children that have no parent in their segment, by their parents' ids.
    Orphans,
    /// Parents that have children in their segment, by their own ids.
    Parents,
}

/// Documents of one segment, each with the parent in the other one that has the same id; deleted ones too.
struct SharedIds(Vec<(DocId, DocId)>);

impl Footprint for SharedIds {
    fn heap_bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }
}

impl SharedIds {
    fn of(
        view: &IndexView,
        (first, second): (&SegmentView, &SegmentView),
        (family, parent): (&Family, &str),
        side: Side,
    ) -> Result<Arc<SharedIds>> {
        let name = format!("kin {parent} {side:?} {}", second.id);
        first.core.once(&name, || {
            let kin = ParentChildOrdinals::of(first, family, parent)?;
            let join = SharedIdsJoin {
                view,
                first,
                second,
                family,
                parent,
                side,
                relation: family.relation_term(parent),
                kin: &kin,
            };
            join.run().map(SharedIds)
        })
    }
}

/// A debug build finds the shared ids of segments with fewer documents by all three ways.
const COMPARED_MAX: u64 = 100;

/// The making of a [`SharedIds`]: the segment that has few is looked up by strings.
struct SharedIdsJoin<'a> {
    view: &'a IndexView,
    first: &'a SegmentView,
    second: &'a SegmentView,
    family: &'a Family,
    side: Side,
    /// The relation of parents, and its term.
    parent: &'a str,
    relation: Term,
    /// Of the first segment.
    kin: &'a ParentChildOrdinals,
}

impl SharedIdsJoin<'_> {
    fn run(&self) -> Result<Vec<(DocId, DocId)>> {
        let parents = self.parents_of_second()?.cost();
        let asked = match self.side {
            Side::Orphans => self.kin.orphans().len() as u64,
            Side::Parents => u64::from(self.first.reader.max_doc()),
        };
        if cfg!(debug_assertions) && asked + parents < COMPARED_MAX {
            self.assert_that_ways_agree()?;
        }
        match () {
            () if parents == 0 => Ok(Vec::new()),
            () if asked * LOOKUP < parents => self.by_first(),
            () if parents * LOOKUP < asked => self.by_second(),
            () => self.by_keys(),
        }
    }

    fn assert_that_ways_agree(&self) -> Result<()> {
        // Of several versions of one parent one way finds the newest alone.
        let newest = |mut pairs: Vec<(DocId, DocId)>| {
            pairs.sort_unstable_by(|one, other| (one.0, other.1).cmp(&(other.0, one.1)));
            pairs.dedup_by_key(|(first, _)| *first);
            pairs
        };
        let [one, two, three] = [self.by_first()?, self.by_second()?, self.by_keys()?].map(newest);
        assert_eq!(one, two, "search.md S29: lookups from both sides find the same");
        assert_eq!(one, three, "search.md S29: lookups find what keys find");
        Ok(())
    }

    fn parents_of_second(&self) -> Result<Box<dyn Scorer>> {
        any_of(self.second, std::slice::from_ref(&self.relation))
    }

    /// The documents of the first segment that are compared.
    fn docs_of_first(&self) -> Box<dyn Iterator<Item = DocId> + '_> {
        match self.side {
            Side::Orphans => Box::new(self.kin.orphans().iter().copied()),
            Side::Parents => Box::new(self.kin.parents()),
        }
    }

    /// The ids that they are compared by.
    fn ids_of_first(&self) -> Result<Option<Keys>> {
        match self.side {
            Side::Orphans => self.family.parents(self.first),
            Side::Parents => self.family.ids(self.first),
        }
    }

    /// Looks up the id of each document of the first segment in the second.
    fn by_first(&self) -> Result<Vec<(DocId, DocId)>> {
        let mut shared = Vec::new();
        let Some(ids) = self.ids_of_first()? else { return Ok(shared) };
        for doc in self.docs_of_first() {
            let Some((ord, _)) = ids.of(doc) else { continue };
            let text = ids.text(ord)?;
            let id = match self.side {
                Side::Orphans => &text,
                Side::Parents => self.family.bare_id(&text),
            };
            let same = any_of(self.second, &[self.family.id_term(self.view, self.parent, id)])?;
            let found = last_root(self.second, and(vec![(same, false), (self.parents_of_second()?, false)]));
            shared.extend(found.map(|found| (doc, found)));
        }
        Ok(shared)
    }

    /// Looks up the id of each parent of the second segment in the first.
    fn by_second(&self) -> Result<Vec<(DocId, DocId)>> {
        let mut shared = Vec::new();
        let Some(ids) = self.family.ids(self.second)? else {
            return Ok(shared);
        };
        let mut parents = self.parents_of_second()?;
        while parents.doc() != TERMINATED {
            let parent = parents.doc();
            parents.advance();
            let Some((ord, _)) = ids.of(parent).filter(|_| self.second.is_root(parent)) else {
                continue;
            };
            let text = ids.text(ord)?;
            let id = self.family.bare_id(&text);
            match self.side {
                Side::Orphans => {
                    let mut children = any_of(self.first, &[self.family.parent_term(id)])?;
                    while children.doc() != TERMINATED {
                        if self.kin.is_orphan(children.doc()) {
                            shared.push((children.doc(), parent));
                        }
                        children.advance();
                    }
                }
                Side::Parents => {
                    let same = any_of(self.first, &[self.family.id_term(self.view, self.parent, id)])?;
                    let same = last_root(self.first, same).filter(|same| !self.kin.children(*same).is_empty());
                    shared.extend(same.map(|same| (same, parent)));
                }
            }
        }
        Ok(shared)
    }

    /// Compares all keys.
    fn by_keys(&self) -> Result<Vec<(DocId, DocId)>> {
        let (Some(ids), Some(ids_of_second)) = (self.ids_of_first()?, self.family.ids(self.second)?) else {
            return Ok(Vec::new());
        };
        let mut by_key: ByKey<DocId> = ByKey::default();
        let mut parents = self.parents_of_second()?;
        while parents.doc() != TERMINATED {
            if self.second.is_root(parents.doc())
                && let Some((_, key)) = ids_of_second.of(parents.doc())
            {
                // The last of several is the newest.
                by_key.insert(key, parents.doc());
            }
            parents.advance();
        }
        let find = |doc| Some((doc, *by_key.get(&ids.of(doc)?.1)?));
        Ok(self.docs_of_first().filter_map(find).collect())
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
