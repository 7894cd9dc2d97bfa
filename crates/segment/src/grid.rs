//! The grid that Lucene keeps places on: 32 bits for each coordinate.

const LAT: f64 = 180.0 / 4_294_967_296.0;
const LON: f64 = 360.0 / 4_294_967_296.0;

fn cell(value: f64, step: f64, most: f64) -> f64 {
    // The upper end itself has no cell.
    let value = if value >= most { most - step } else { value };
    (value / step).floor().clamp(-2_147_483_648.0, 2_147_483_647.0)
}

/// A place as it is stored: the south-west corner of its cell.
pub(crate) fn on(place: (f64, f64)) -> (f64, f64) {
    (cell(place.0, LAT, 90.0) * LAT, cell(place.1, LON, 180.0) * LON)
}

/// The lower ends of a box, so that a place stored in their cells is still inside.
pub fn below(place: (f64, f64)) -> (f64, f64) {
    on(place)
}

#[cfg(test)]
mod tests {
    #[test]
    fn places() {
        let (lat, lon) = super::on((34.593, -167.281));
        assert_eq!(format!("{lat:?} {lon:?}"), "34.59299997892231 -167.28100005537271");
    }
}
