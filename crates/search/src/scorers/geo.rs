//! Whether a place lies in an area: circles, boxes, rings, cells, polygons.

use crate::fields::geo_distance::Far;
use dsl::query::GeoArea;

/// An area as documents are held against it.
#[derive(Clone)]
pub(crate) enum Area {
    Asked(GeoArea),
    /// Southern, northern, western and eastern end of a cell.
    Cell(f64, f64, f64, f64),
}

/// Whether a place is in an area.
pub(crate) fn inside(area: &Area, at: (f64, f64), far: Far) -> bool {
    let area = match area {
        Area::Asked(area) => area,
        Area::Cell(south, north, west, east) => {
            // The map goes on at its edge.
            let (lat, lon) = at;
            let along = [lon, lon - 360.0, lon + 360.0];
            return *south <= lat && lat < *north && along.iter().any(|lon| west <= lon && lon < east);
        }
    };
    match area {
        GeoArea::Distance { from, metres } => far(*from, at) <= *metres,
        GeoArea::Box {
            top,
            left,
            bottom,
            right,
        } => {
            let (lat, lon) = at;
            let east = if left <= right {
                *left <= lon && lon <= *right
            } else {
                lon >= *left || lon <= *right
            };
            *bottom <= lat && lat <= *top && east
        }
        GeoArea::Ring { from, least, most } => {
            let far = far(*from, at);
            least.is_none_or(|b| far > b.metres || b.included && far == b.metres)
                && most.is_none_or(|b| far < b.metres || b.included && far == b.metres)
        }
        // Worked out before the first document.
        GeoArea::Cell { .. } => false,
        GeoArea::Polygon(ring) => {
            let mut odd = false;
            for pair in ring.windows(2) {
                let ((a, x), (b, y)) = (pair[0], pair[1]);
                if (a > at.0) != (b > at.0) && at.1 < (y - x) * (at.0 - a) / (b - a) + x {
                    odd = !odd;
                }
            }
            odd
        }
    }
}
