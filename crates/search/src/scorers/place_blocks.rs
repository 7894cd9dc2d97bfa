//! The places of a segment in blocks of near ones, so that an area is found without a look at all places.
//!
//! As the leaves of Lucene's BKD trees: places are ordered along a curve that keeps near ones together (Morton, 1966), and each
//! block of 512 has the box around its own. They are made at the first search of a segment by places, at 4 bytes a place.
//!
//! Not here: what lies in an area (`geo`), the set of its documents (`places_in_area`).

use super::geo::PlaceBox;
use model::Result;
use segment::derived::Footprint;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::columnar::Column;

/// Places of a block.
const BLOCK_PLACES: usize = if cfg!(test) { 4 } else { 512 };
/// Places of a segment with fewer are looked at one by one.
const PLACES_MIN: u32 = if cfg!(test) { 8 } else { 4_096 };

/// The documents with a place, once for each, in blocks of near ones.
pub(crate) struct PlaceBlocks {
    docs: Vec<DocId>,
    boxes: Vec<PlaceBox>,
}

impl Footprint for PlaceBlocks {
    fn heap_bytes(&self) -> usize {
        self.docs.capacity() * size_of::<DocId>() + self.boxes.capacity() * size_of::<PlaceBox>()
    }
}

impl PlaceBlocks {
    /// The blocks of a field in a segment, made at first use; `None` for a segment with few places.
    ///
    /// # Errors
    /// None now; the signature is that of what is derived from a segment.
    pub(crate) fn of(
        segment: &SegmentView,
        name: &str,
        lat: &Column<f64>,
        lon: &Column<f64>,
    ) -> Result<Option<Arc<PlaceBlocks>>> {
        if lat.values.num_vals() < PLACES_MIN {
            return Ok(None);
        }
        let made = segment
            .core
            .once(&format!("places of {name}"), || Ok(PlaceBlocks::build(lat, lon)))?;
        Ok(Some(made))
    }

    pub(super) fn build(lat: &Column<f64>, lon: &Column<f64>) -> PlaceBlocks {
        let mut places: Vec<(u64, DocId)> = Vec::with_capacity(lat.values.num_vals() as usize);
        for doc in 0..lat.num_docs() {
            let of_doc = lat.values_for_doc(doc).zip(lon.values_for_doc(doc));
            places.extend(of_doc.map(|at| (morton_code(at), doc)));
        }
        places.sort_unstable();
        let docs: Vec<DocId> = places.into_iter().map(|(_, doc)| doc).collect();
        let box_of = |docs: &[DocId]| {
            let places = docs
                .iter()
                .flat_map(|doc| lat.values_for_doc(*doc).zip(lon.values_for_doc(*doc)));
            places.fold(PlaceBox::EMPTY, PlaceBox::with)
        };
        let boxes: Vec<PlaceBox> = docs.chunks(BLOCK_PLACES).map(box_of).collect();
        debug_assert_eq!(
            boxes.len(),
            docs.len().div_ceil(BLOCK_PLACES),
            "search.md S30: each block of places has its box"
        );
        PlaceBlocks { docs, boxes }
    }

    /// The blocks: the box of each, and the documents whose places lie in it. A document with several places may stand in several
    /// blocks, and its box holds all of its places.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (&PlaceBox, &[DocId])> {
        self.boxes.iter().zip(self.docs.chunks(BLOCK_PLACES))
    }
}

/// Where a place lies on the curve: the bits of its latitude and of its longitude by turns.
fn morton_code((lat, lon): (f64, f64)) -> u64 {
    let part = |degrees: f64, most: f64| ((degrees + most) / (2.0 * most) * f64::from(u32::MAX)) as u32;
    spread(part(lat, 90.0)) << 1 | spread(part(lon, 180.0))
}

/// 32 bits on the even places of 64.
fn spread(bits: u32) -> u64 {
    let mut bits = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}
