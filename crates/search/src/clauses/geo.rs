//! `geo_distance`, `geo_bounding_box`, `geo_polygon` and cells of a grid.

use super::Planner;
use crate::fields::column::Column;
use crate::fields::geo_distance;
use crate::fields::target::{Owned, Target, query_shard};
use crate::scorers::constant::NoScorer;
use crate::scorers::filter::FilterNode;
use crate::scorers::geo::Area;
use crate::scorers::node::Shared;
use crate::scorers::place_blocks::PlaceBlocks;
use crate::scorers::places_in_area::PlacesInArea;
use dsl::query::{GeoArea, GeoQuery, GeoValidation};
use mapping::Kind;
use model::Result;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;

impl Planner<'_> {
    pub(super) fn geo(&self, q: &GeoQuery, boost: f32) -> Result<Shared> {
        let Some(target) = Target::of(self.view, &q.field) else {
            if q.ignore_unmapped {
                return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
            }
            return Err(query_shard(self.view, format!("failed to find geo field [{}]", q.field)));
        };
        if target.kind.kind != Kind::GeoPoint {
            return Err(query_shard(
                self.view,
                format!("field [{}] is of unsupported type [{}]", q.field, target.kind.wire()),
            ));
        }
        let mut area = q.area.clone();
        // Stored places lie on a grid; ends that lie on it too must still hold them.
        if let GeoArea::Box {
            top,
            left,
            bottom,
            right,
        } = &mut area
        {
            (*bottom, *left) = segment::grid::below((*bottom, *left));
            let _ = (&top, &right);
        }
        debug_assert!(q.validation != GeoValidation::Strict || !matches!(area, GeoArea::Polygon(ref r) if r.is_empty()));
        let area = match area {
            GeoArea::Cell { hash, neighbors } => {
                let (south, north, west, east) = GeoArea::cell(&hash, neighbors)?;
                Area::Cell(south, north, west, east)
            }
            area => Area::Asked(area),
        };
        let field = Owned::of(&target);
        let name = target.path.to_owned();
        let level = self.level();
        let far = geo_distance::far(true, self.view.rules());
        Ok(Arc::new(FilterNode {
            boost,
            what: format!("places of {}", q.field),
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let Some(Column::Geo(lat, lon)) = field.open(segment)? else {
                    return Ok(Box::new(NoScorer));
                };
                let blocks = PlaceBlocks::of(segment, &name, &lat, &lon)?;
                let found = PlacesInArea::open((lat, lon), area.clone(), far, blocks);
                level.restrict(segment, found)
            },
        }))
    }
}
