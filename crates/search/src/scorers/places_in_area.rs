//! The documents with a place in an area. A clause beside them that finds few documents has each looked at by itself; who goes
//! through them gets the set of all, found by blocks of near places.
//!
//! Not here: which places lie in an area (`geo`), the blocks (`place_blocks`).

use super::constant::{ConstantScorer, NoScorer};
use super::geo::Area;
use super::node::look_at;
use super::overlap::Overlap;
use super::place_blocks::PlaceBlocks;
use crate::fields::geo_distance::Far;
use segment::doc_bits::DocBits;
use std::sync::Arc;
use tantivy::columnar::Column;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

/// Documents that are looked at one by one before the set of all is found.
const LOOKS_MAX: u32 = if cfg!(test) { 3 } else { 256 };

/// The documents of a segment with a place in an area.
pub(crate) struct PlacesInArea {
    lat: Column<f64>,
    lon: Column<f64>,
    area: Area,
    far: Far,
    blocks: Option<Arc<PlaceBlocks>>,
    /// All documents in the area, once somebody goes through them.
    found: Option<DocBits>,
    doc: DocId,
    max_doc: DocId,
    /// Documents that may still be looked at one by one.
    looks: u32,
    cost: u64,
}

impl PlacesInArea {
    /// Those with latitudes and longitudes in two columns. `blocks` are those of the columns.
    pub(crate) fn open(
        (lat, lon): (Column<f64>, Column<f64>),
        area: Area,
        far: Far,
        blocks: Option<Arc<PlaceBlocks>>,
    ) -> Box<dyn Scorer> {
        let max_doc = lat.num_docs();
        let may_match = |blocks: &PlaceBlocks| {
            let meeting = blocks.blocks().filter(|(bounds, _)| area.overlap(bounds) != Overlap::None);
            meeting.map(|(_, docs)| docs.len() as u64).sum()
        };
        let cost = blocks.as_deref().map_or(u64::from(max_doc), may_match);
        if cost == 0 {
            return Box::new(NoScorer);
        }
        let mut places = PlacesInArea {
            lat,
            lon,
            area,
            far,
            blocks,
            found: None,
            doc: 0,
            max_doc,
            looks: LOOKS_MAX,
            cost,
        };
        places.settle(0);
        Box::new(ConstantScorer::new(places, 1.0))
    }

    fn has(&self, doc: DocId) -> bool {
        let mut places = self.lat.values_for_doc(doc).zip(self.lon.values_for_doc(doc));
        places.any(|at| self.area.contains(at, self.far))
    }

    /// The set of all, found at first use.
    fn matching_docs(&mut self) -> &DocBits {
        if self.found.is_none() {
            self.found = Some(self.find());
        }
        self.found.get_or_insert_with(|| DocBits::new(0))
    }

    fn find(&self) -> DocBits {
        let mut bits = DocBits::new(self.max_doc);
        let Some(blocks) = &self.blocks else {
            (0..self.max_doc)
                .filter(|doc| self.has(*doc))
                .for_each(|doc| bits.insert(doc));
            return bits;
        };
        for (bounds, docs) in blocks.blocks() {
            match self.area.overlap(bounds) {
                Overlap::None => {}
                Overlap::All => docs.iter().for_each(|doc| bits.insert(*doc)),
                Overlap::Some => docs.iter().filter(|doc| self.has(**doc)).for_each(|doc| bits.insert(*doc)),
            }
        }
        bits
    }

    /// Goes on to the first document from `target` on.
    fn settle(&mut self, target: DocId) -> DocId {
        let mut doc = target;
        while self.found.is_none() && self.looks > 0 && doc < self.max_doc {
            self.looks -= 1;
            if self.has(doc) {
                self.doc = doc;
                return doc;
            }
            doc += 1;
        }
        self.doc = if doc < self.max_doc {
            self.matching_docs().next(doc)
        } else {
            TERMINATED
        };
        debug_assert!(
            self.doc == TERMINATED || self.has(self.doc),
            "search.md S30: documents of the set have a place in the area"
        );
        self.doc
    }
}

impl DocSet for PlacesInArea {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.doc = match self.doc + 1 {
            next if next < self.max_doc => self.matching_docs().next(next),
            _ => TERMINATED,
        };
        self.doc
    }
    fn seek(&mut self, target: DocId) -> DocId {
        match self.doc >= target {
            true => self.doc,
            false => self.settle(target),
        }
    }
    /// Looks at the one document: the next one of the area may be far.
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target >= self.max_doc || self.found.is_none() && self.looks > 0 {
            self.looks = self.looks.saturating_sub(1);
            let (at, found) = look_at(target, self.max_doc, |doc| self.has(doc));
            self.doc = at;
            return found;
        }
        let next = self.matching_docs().next(target);
        self.doc = next;
        match next == target {
            true => SeekDangerResult::Found,
            false => SeekDangerResult::SeekLowerBound(next),
        }
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        u32::try_from(self.cost).unwrap_or(self.max_doc)
    }
    fn cost(&self) -> u64 {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::seek_to;
    use super::super::tests::{all_of, columns_of};
    use super::*;
    use crate::fields::geo_distance::far;
    use dsl::query::GeoArea;
    use model::compat::IndexRules;
    use model::random::random;

    /// Documents with a place in an area, walked, sought and looked at one by one, beside a look at each document.
    fn check(seed: u64) {
        let mut random = random(seed);
        let max_doc = 1 + random(300) as DocId;
        let (several, one_in) = (random(3) == 0, 1 + random(4));
        let mut degrees = |most: f64| (random(2_001) as f64 / 1_000.0 - 1.0) * most;
        let mut at = || (degrees(90.0), degrees(180.0));
        let places: Vec<Vec<(f64, f64)>> = (0..max_doc).map(|_| (0..3).map(|_| at()).collect()).collect();
        let (corner, other, metres) = (at(), at(), at().0.abs() * 100_000.0);
        let counts: Vec<usize> = (0..max_doc)
            .map(|doc| match random(one_in) {
                _ if doc == 0 => 1,
                0 => 0,
                _ if several => 1 + random(3) as usize,
                _ => 1,
            })
            .collect();
        let of = |doc: DocId| &places[doc as usize][..counts[doc as usize]];
        let [lat, lon] = columns_of(max_doc, |doc| {
            [
                of(doc).iter().map(|at| at.0).collect(),
                of(doc).iter().map(|at| at.1).collect(),
            ]
        });
        let area = Area::Asked(match random(2) {
            0 => GeoArea::Distance { from: corner, metres },
            _ => GeoArea::Box {
                top: corner.0.max(other.0),
                bottom: corner.0.min(other.0),
                left: corner.1,
                right: other.1,
            },
        });
        let far = far(true, IndexRules::of(random(2) == 0));
        let is_in = |doc: &DocId| of(*doc).iter().any(|at| area.contains(*at, far));
        let expected: Vec<DocId> = (0..max_doc).filter(is_in).collect();
        for blocks in [None, Some(Arc::new(PlaceBlocks::build(&lat, &lon)))] {
            let open = || PlacesInArea::open((lat.clone(), lon.clone()), area.clone(), far, blocks.clone());
            assert_eq!(all_of(&mut *open()), expected, "seed {seed}");
            let mut sought = open();
            let targets: Vec<DocId> = (0..max_doc).filter(|_| random(3) == 0).collect();
            for target in &targets {
                let next = expected.iter().copied().find(|doc| doc >= target).unwrap_or(TERMINATED);
                assert_eq!(seek_to(&mut *sought, *target), next, "seed {seed}");
            }
            let mut looked_at = open();
            for target in targets {
                let is_found = matches!(looked_at.seek_danger(target), SeekDangerResult::Found);
                assert_eq!(is_found, expected.contains(&target), "seed {seed}: document {target}");
            }
        }
    }

    #[test]
    fn areas_are_found_by_blocks_as_one_by_one() {
        (0..1_000).for_each(check);
    }
}
