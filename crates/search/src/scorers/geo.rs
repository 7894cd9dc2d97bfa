//! Whether a place, or a box of places, lies in an area: circles, boxes, rings, cells, polygons.

use super::overlap::Overlap;
use crate::fields::geo_distance::{Far, GREATEST_RADIUS, LEAST_RADIUS, arc_degrees};
use dsl::query::GeoArea;

/// An area as documents are held against it.
#[derive(Clone)]
pub(crate) enum Area {
    Asked(GeoArea),
    /// Southern, northern, western and eastern end of a cell.
    Cell(f64, f64, f64, f64),
}

/// A box around places, in degrees, its ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceBox {
    south: f64,
    north: f64,
    west: f64,
    east: f64,
}

/// Boxes that are so near to an edge, in degrees, are looked into place by place: formulas round.
const MARGIN: f64 = 1e-9;
/// Corners that are so near to the line of an edge, in degrees times degrees, are on neither side.
const SIDE_MARGIN: f64 = 1e-6;

impl PlaceBox {
    /// The box around nothing.
    pub(crate) const EMPTY: PlaceBox = PlaceBox {
        south: f64::INFINITY,
        north: f64::NEG_INFINITY,
        west: f64::INFINITY,
        east: f64::NEG_INFINITY,
    };

    /// The box around its places and one more.
    pub(crate) fn with(self, (lat, lon): (f64, f64)) -> PlaceBox {
        PlaceBox {
            south: self.south.min(lat),
            north: self.north.max(lat),
            west: self.west.min(lon),
            east: self.east.max(lon),
        }
    }

    fn middle(&self) -> (f64, f64) {
        (f64::midpoint(self.south, self.north), f64::midpoint(self.west, self.east))
    }

    /// How it lies to another one, whose western end is not east of its eastern end.
    fn within(&self, south: f64, north: f64, west: f64, east: f64) -> Overlap {
        if self.north < south || self.south > north || self.east < west || self.west > east {
            return Overlap::None;
        }
        match south <= self.south && self.north <= north && west <= self.west && self.east <= east {
            true => Overlap::All,
            false => Overlap::Some,
        }
    }

    /// Whether an edge from one place to another may meet it: its own box does, and not all corners lie on one side of it.
    fn meets(&self, from: (f64, f64), to: (f64, f64)) -> bool {
        let edge = PlaceBox::EMPTY.with(from).with(to);
        let (south, north) = (edge.south - MARGIN, edge.north + MARGIN);
        if self.within(south, north, edge.west - MARGIN, edge.east + MARGIN) == Overlap::None {
            return false;
        }
        let side = |lat: f64, lon: f64| (lon - from.1) * (to.0 - from.0) - (to.1 - from.1) * (lat - from.0);
        let corners = [
            side(self.south, self.west),
            side(self.south, self.east),
            side(self.north, self.west),
            side(self.north, self.east),
        ];
        !(corners.iter().all(|side| *side > SIDE_MARGIN) || corners.iter().all(|side| *side < -SIDE_MARGIN))
    }

    /// The least and the greatest distance, in metres, of a place in it to another one, and by the formulas for distances along the
    /// earth: the way to its middle, give or take the ways along a meridian and a parallel from there to a corner.
    fn distances(&self, from: (f64, f64)) -> (f64, f64) {
        let to_corner = (self.north - self.south + self.east - self.west) / 2.0 + MARGIN;
        let middle = arc_degrees(from, self.middle());
        let metres = |degrees: f64, radius: f64| degrees.clamp(0.0, 180.0).to_radians() * radius;
        (
            metres(middle - to_corner, LEAST_RADIUS),
            metres(middle + to_corner, GREATEST_RADIUS),
        )
    }
}

/// The overlap of any of several areas: nothing outside all of them, everything inside one.
fn any_of(parts: impl IntoIterator<Item = Overlap>) -> Overlap {
    let mut found = Overlap::None;
    for part in parts {
        match part {
            Overlap::All => return Overlap::All,
            Overlap::Some => found = Overlap::Some,
            Overlap::None => {}
        }
    }
    found
}

impl Area {
    /// Whether a place is in it.
    pub(crate) fn contains(&self, at: (f64, f64), far: Far) -> bool {
        let area = match self {
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

    /// How a box lies to it, by formulas for distances along the earth.
    pub(crate) fn overlap(&self, bounds: &PlaceBox) -> Overlap {
        let area = match self {
            Area::Asked(area) => area,
            Area::Cell(south, north, west, east) => {
                let shifts = [0.0, -360.0, 360.0];
                let parts = shifts.map(|shift| bounds.within(*south, *north, west + shift, east + shift));
                let is_at_end = bounds.north >= *north || shifts.iter().any(|shift| bounds.east == east + shift);
                // The northern and the eastern end are outside.
                return match any_of(parts) {
                    Overlap::All if is_at_end => Overlap::Some,
                    found => found,
                };
            }
        };
        match area {
            GeoArea::Distance { from, metres } => {
                let (least, most) = bounds.distances(*from);
                match () {
                    () if least > *metres => Overlap::None,
                    () if most < *metres => Overlap::All,
                    () => Overlap::Some,
                }
            }
            GeoArea::Ring { from, least, most } => {
                let (nearest, farthest) = bounds.distances(*from);
                let is_outside = most.is_some_and(|b| nearest > b.metres) || least.is_some_and(|b| farthest < b.metres);
                let is_inside = most.is_none_or(|b| farthest < b.metres) && least.is_none_or(|b| nearest > b.metres);
                match () {
                    () if is_outside => Overlap::None,
                    () if is_inside => Overlap::All,
                    () => Overlap::Some,
                }
            }
            GeoArea::Box {
                top,
                left,
                bottom,
                right,
            } if left <= right => bounds.within(*bottom, *top, *left, *right),
            GeoArea::Box {
                top,
                left,
                bottom,
                right,
            } => {
                let parts = [(*left, f64::INFINITY), (f64::NEG_INFINITY, *right)];
                any_of(parts.map(|(west, east)| bounds.within(*bottom, *top, west, east)))
            }
            GeoArea::Cell { .. } => Overlap::None,
            GeoArea::Polygon(ring) => {
                // A box that no edge meets is inside as a whole, or outside.
                let meets = |pair: &[(f64, f64)]| bounds.meets(pair[0], pair[1]);
                match ring.windows(2).any(meets) {
                    true => Overlap::Some,
                    false if self.contains(bounds.middle(), arc_degrees) => Overlap::All,
                    false => Overlap::None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::geo_distance::far;
    use dsl::query::Bound;
    use model::compat::IndexRules;
    use model::random::random;

    /// Boxes of random places, of which an area holds as many as it says.
    fn check(area: &Area, far: Far, random: &mut impl FnMut(u64) -> u64) -> [u32; 3] {
        let mut seen = [0; 3];
        for _ in 0..2_000 {
            let width = [0.01, 0.5, 8.0, 90.0][random(4) as usize];
            let mut degrees = |most: f64| (random(1 << 20) as f64 / f64::from(1 << 20) * 2.0 - 1.0) * most;
            let (lat, lon) = (degrees(90.0), degrees(180.0));
            let places: Vec<(f64, f64)> = (0..8)
                .map(|_| {
                    (
                        (lat + degrees(width)).clamp(-90.0, 90.0),
                        (lon + degrees(width)).clamp(-180.0, 180.0),
                    )
                })
                .collect();
            let bounds = places.iter().copied().fold(PlaceBox::EMPTY, PlaceBox::with);
            let inside = places.iter().filter(|at| area.contains(**at, far)).count();
            let overlap = area.overlap(&bounds);
            let is_right = match overlap {
                Overlap::None => inside == 0,
                Overlap::All => inside == places.len(),
                Overlap::Some => true,
            };
            assert!(is_right, "{overlap:?} of {bounds:?}, {inside} inside");
            seen[overlap as usize] += 1;
        }
        seen
    }

    #[test]
    fn boxes_lie_to_areas_as_their_places_do() {
        let mut random = random(30);
        let bound = |metres: f64| Some(Bound { metres, included: true });
        let from = (48.0, 11.0);
        let areas = [
            Area::Asked(GeoArea::Distance { from, metres: 2e6 }),
            Area::Asked(GeoArea::Distance {
                from: (89.0, 170.0),
                metres: 3e6,
            }),
            Area::Asked(GeoArea::Ring {
                from,
                least: bound(1e6),
                most: bound(6e6),
            }),
            Area::Asked(GeoArea::Box {
                top: 60.0,
                left: -20.0,
                bottom: -10.0,
                right: 70.0,
            }),
            Area::Asked(GeoArea::Box {
                top: 60.0,
                left: 150.0,
                bottom: -10.0,
                right: -100.0,
            }),
            Area::Cell(-10.0, 50.0, 150.0, 210.0),
            Area::Asked(GeoArea::Polygon(vec![
                (-30.0, -60.0),
                (50.0, -80.0),
                (10.0, 20.0),
                (40.0, 90.0),
                (-30.0, -60.0),
            ])),
        ];
        for is_of_2015 in [false, true] {
            let far = far(true, IndexRules::of(is_of_2015));
            for (no, area) in areas.iter().enumerate() {
                let [none, some, all] = check(area, far, &mut random);
                assert!(none > 50 && some > 10 && all > 10, "area {no}: {none}, {some}, {all}");
            }
        }
    }
}
