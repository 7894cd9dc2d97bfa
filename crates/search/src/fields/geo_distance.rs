//! How far two places are from each other: latitude and longitude in degrees, distances in metres.

use model::compat::IndexRules;

/// Metres from one place to another.
pub(crate) type Far = fn((f64, f64), (f64, f64)) -> f64;

/// The mean radius of the earth.
const RADIUS: f64 = 6_371_008.771_4;

/// No formula has a smaller radius of the earth, in metres: two places are at least so far apart as their latitudes are, with it.
pub(crate) const LEAST_RADIUS: f64 = 6_356_000.0;
/// And none a greater one.
pub(crate) const GREATEST_RADIUS: f64 = 6_379_000.0;

/// The formula for distances: along the earth, or on a plane; with the constants of Lucene 5 where the rules say so.
pub(crate) fn far(along: bool, rules: &IndexRules) -> Far {
    match (along, rules.planar_geo_distance) {
        (true, false) => arc,
        (true, true) => arc_2015,
        (false, false) => plane,
        (false, true) => plane_2015,
    }
}

/// Along a sphere, by the haversine.
pub(crate) fn arc(a: (f64, f64), b: (f64, f64)) -> f64 {
    haversine(a, b, RADIUS)
}

/// The angle between two places, seen from the middle of the earth, in degrees.
pub(crate) fn arc_degrees(a: (f64, f64), b: (f64, f64)) -> f64 {
    haversine(a, b, 1.0).to_degrees()
}

/// As Lucene 5 measured it: around the earth as it is at the latitude between the two.
fn arc_2015(a: (f64, f64), b: (f64, f64)) -> f64 {
    const EQUATOR: f64 = 6_378_137.0;
    const POLE: f64 = 6_356_752.314_2;
    let (sin, cos) = f64::midpoint(a.0, b.0).to_radians().sin_cos();
    let (east, north) = (EQUATOR * cos, POLE * sin);
    let radius = ((EQUATOR * east).powi(2) + (POLE * north).powi(2)) / (east.powi(2) + north.powi(2));
    haversine(a, b, radius.sqrt())
}

fn haversine(a: (f64, f64), b: (f64, f64), radius: f64) -> f64 {
    let (la, lb) = (a.0.to_radians(), b.0.to_radians());
    let x = ((lb - la) / 2.0).sin().powi(2) + la.cos() * lb.cos() * ((b.1 - a.1).to_radians() / 2.0).sin().powi(2);
    2.0 * radius * x.sqrt().min(1.0).asin()
}

/// As if the world were flat around the two.
fn plane(a: (f64, f64), b: (f64, f64)) -> f64 {
    let x = (b.1 - a.1).to_radians() * ((a.0 + b.0) / 2.0).to_radians().cos();
    let y = (b.0 - a.0).to_radians();
    x.hypot(y) * RADIUS
}

/// The same with degrees that are as long everywhere.
fn plane_2015(a: (f64, f64), b: (f64, f64)) -> f64 {
    const DEGREE_METRES: f64 = 40_075_016.685_578_49 / 360.0;
    (b.1 - a.1).hypot(b.0 - a.0) * DEGREE_METRES
}
