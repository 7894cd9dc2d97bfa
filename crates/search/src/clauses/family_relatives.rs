//! `has_child` and `has_parent` where nothing is asked of the other side but that it matches: no score, no number of children.
//!
//! Relatives in the same segment are walked along as far as somebody asks, those in other segments are looked at one by one.
//! Not here: joins that need scores or numbers (`has_child`, `has_parent`).

use super::Planner;
use crate::scorers::family_walk::{FamilyWalk, Toward};
use crate::scorers::live_docs::{LiveDocs, Visible};
use crate::scorers::node::{Node as _, Shared, seek_to};
use crate::scorers::parent_child::Family;
use crate::scorers::parent_child_ordinals::ParentChildOrdinals;
use crate::scorers::relatives::{Relatives, RelativesNode};
use crate::scorers::split_families::{SplitFamily, split_families};
use model::Result;
use rustc_hash::FxHashMap;
use segment::doc_bits::DocBits;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

impl Planner<'_> {
    /// The relatives of documents that match a clause; `None` if too many families lie in several segments.
    pub(super) fn relatives(
        &self,
        clause: &Shared,
        (family, parent): (&Family, &str),
        toward: Toward,
        score: f32,
    ) -> Result<Option<Shared>> {
        let segments = &self.view.segments;
        let sights = self.sights()?;
        let Some(split) = split_families(self.view, family, parent, &sights)? else {
            return Ok(None);
        };
        let mut from_afar = self.relatives_from_afar(clause, split, toward, &sights)?;
        let mut by_segment = FxHashMap::default();
        for (no, (segment, sight)) in segments.iter().zip(sights).enumerate() {
            self.cx.check_cancelled()?;
            let from_afar = from_afar.remove(&no).unwrap_or_default();
            let kin = ParentChildOrdinals::of(segment, family, parent)?;
            let walk = kin
                .rows()
                .and_then(|rows| FamilyWalk::new(rows, clause, sight.clone(), toward));
            let relatives = match walk {
                Some(mut walk) => {
                    walk.add_from_afar(from_afar);
                    Relatives::along(walk)
                }
                None => {
                    let mut docs = relatives_in_segment(clause, segment, &kin, sight, toward)?;
                    from_afar.iter().for_each(|doc| docs.insert(*doc));
                    Relatives::of_docs(docs)
                }
            };
            by_segment.insert(segment.id, relatives);
        }
        self.failure.check()?;
        let node = RelativesNode { by_segment, score };
        if node.is_none() {
            return Ok(Some(self.nothing("no relatives")));
        }
        Ok(Some(Arc::new(node)))
    }

    /// The visible documents of each segment.
    pub(super) fn sights(&self) -> Result<Vec<LiveDocs>> {
        let open = |segment: &Arc<SegmentView>| LiveDocs::open(segment, &self.view.schema, self.cx.see);
        self.view.segments.iter().map(open).collect()
    }

    /// The relatives whose other side is in another segment, by the number of their segment and in order.
    fn relatives_from_afar(
        &self,
        clause: &Shared,
        split: Vec<SplitFamily>,
        toward: Toward,
        sights: &[LiveDocs],
    ) -> Result<FxHashMap<usize, Vec<DocId>>> {
        let mut found: FxHashMap<usize, Vec<DocId>> = FxHashMap::default();
        self.each_from_afar(clause, split, toward, sights, &mut |(no, relative), _| {
            found.entry(no).or_default().push(relative);
        })?;
        for docs in found.values_mut() {
            docs.sort_unstable();
            docs.dedup();
        }
        Ok(found)
    }

    /// Shows each relative whose other side matches in another segment: the number of its segment, the document, and the set where the
    /// other side is.
    pub(super) fn each_from_afar(
        &self,
        clause: &Shared,
        split: Vec<SplitFamily>,
        toward: Toward,
        sights: &[LiveDocs],
        show: &mut dyn FnMut((usize, DocId), &mut dyn Scorer),
    ) -> Result<()> {
        let mut pairs: Vec<_> = split.into_iter().map(|of| toward.sides(of.child, of.parent)).collect();
        pairs.sort_unstable();
        for of_segment in pairs.chunk_by(|(one, _), (other, _)| one.0 == other.0) {
            self.cx.check_cancelled()?;
            let Some(((no, _), _)) = of_segment.first() else { continue };
            let mut matching = Visible::of(clause.scorer(&self.view.segments[*no])?, sights[*no].clone());
            for ((_, asked), relative) in of_segment {
                if seek_to(&mut *matching, *asked) == *asked {
                    show(*relative, &mut *matching);
                }
            }
        }
        Ok(())
    }
}

/// The relatives inside one segment whose families stand in no rows.
fn relatives_in_segment(
    clause: &Shared,
    segment: &SegmentView,
    kin: &ParentChildOrdinals,
    sight: LiveDocs,
    toward: Toward,
) -> Result<DocBits> {
    if sight.sees_all_roots()
        && let Some(rows) = kin.rows()
        && let Some(matching) = clause.bits(segment)?
    {
        return Ok(toward.relatives_of(&matching, rows));
    }
    let mut docs = DocBits::new(segment.reader.max_doc());
    let mut matching = Visible::of(clause.scorer(segment)?, sight);
    while matching.doc() != TERMINATED {
        match toward {
            Toward::Parents => kin.parent(matching.doc()).into_iter().for_each(|doc| docs.insert(doc)),
            Toward::Children => kin.children(matching.doc()).iter().for_each(|doc| docs.insert(*doc)),
        }
        matching.advance();
    }
    Ok(docs)
}
