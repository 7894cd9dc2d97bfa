//! `geo_distance`, `geo_bounding_box`, `geo_polygon`: places by where they are.

use super::{Clause, Parsing, Query};
use crate::json::{Fields, Json, Node};
use model::units::{METRES, metres_of};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// A place: latitude, longitude.
pub type GeoPlace = (f64, f64);

/// The clause.
#[derive(Clone, Debug, PartialEq)]
pub struct GeoQuery {
    pub field: String,
    pub area: GeoArea,
    pub ignore_unmapped: bool,
    /// The treatment of impossible coordinates.
    pub validation: GeoValidation,
}

/// Where places must be.
#[derive(Clone, Debug, PartialEq)]
pub enum GeoArea {
    /// At most so many metres away.
    Distance { from: GeoPlace, metres: f64 },
    /// Between two latitudes and, going east, two longitudes.
    Box { top: f64, left: f64, bottom: f64, right: f64 },
    /// Inside a ring.
    Polygon(Vec<GeoPlace>),
    /// From one distance to another.
    Ring {
        from: GeoPlace,
        least: Option<Bound>,
        most: Option<Bound>,
    },
    /// In a geohash's cell, or also in one of the eight around it.
    Cell { hash: String, neighbors: bool },
}

/// An end of a range of distances.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub metres: f64,
    /// A place that is just as far is in.
    pub included: bool,
}

impl GeoArea {
    /// A cell's southern, northern, western and eastern ends, widened by its own size with its neighbors.
    ///
    /// # Errors
    /// No geohash.
    pub fn cell(hash: &str, neighbors: bool) -> Result<(f64, f64, f64, f64)> {
        let ((south, north), (west, east)) = geohash_cell(hash)?;
        let (height, width) = if neighbors { (north - south, east - west) } else { (0.0, 0.0) };
        Ok((south - height, north + height, west - width, east + width))
    }
}

/// `validation_method`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum GeoValidation {
    /// They are refused.
    #[default]
    Strict,
    /// They are brought back onto the globe.
    Coerce,
    /// They are used as they are.
    IgnoreMalformed,
}

impl GeoValidation {
    fn take(fields: &mut Fields) -> Result<GeoValidation> {
        let Some(node) = fields.take("validation_method") else {
            return Ok(GeoValidation::Strict);
        };
        let text = node.string("validation_method")?;
        match text.to_ascii_uppercase().as_str() {
            "STRICT" => Ok(GeoValidation::Strict),
            "COERCE" => Ok(GeoValidation::Coerce),
            "IGNORE_MALFORMED" => Ok(GeoValidation::IgnoreMalformed),
            _ => Err(Error::illegal(format!(
                "operator needs to be either STRICT, COERCE, or IGNORE_MALFORMED, but not [{text}]"
            ))),
        }
    }
    fn word(self) -> &'static str {
        match self {
            GeoValidation::Strict => "STRICT",
            GeoValidation::Coerce => "COERCE",
            GeoValidation::IgnoreMalformed => "IGNORE_MALFORMED",
        }
    }
    fn place(self, place: GeoPlace, clause: &str) -> Result<GeoPlace> {
        let (lat, lon) = place;
        match self {
            GeoValidation::IgnoreMalformed => Ok(place),
            GeoValidation::Coerce => Ok((lat.clamp(-90.0, 90.0), (lon + 180.0).rem_euclid(360.0) - 180.0)),
            GeoValidation::Strict if !(-90.0..=90.0).contains(&lat) => {
                Err(Error::illegal(format!("illegal latitude value [{lat:?}] for [{clause}]")))
            }
            GeoValidation::Strict if !(-180.0..=180.0).contains(&lon) => {
                Err(Error::illegal(format!("illegal longitude value [{lon:?}] for [{clause}]")))
            }
            GeoValidation::Strict => Ok(place),
        }
    }
}

/// Reads a place: `{lat, lon}`, `[lon, lat]`, `"lat,lon"`, `"POINT (lon lat)"` or a geohash.
///
/// # Errors
/// It is none of these.
pub fn parse_place(node: &Node) -> Result<GeoPlace> {
    let refuse = |what: String| Error::new(ErrorKind::Parse, what);
    match &node.value {
        Json::Object(members) => {
            let number = |name: &str| -> Result<f64> {
                let found = members.iter().find(|(n, _)| n == name);
                found.map_or_else(|| Err(refuse(format!("field [{name}] missing"))), |(_, node)| node.f64(name))
            };
            if let Some((_, hash)) = members.iter().find(|(n, _)| n == "geohash") {
                return geohash(&hash.string("geohash")?);
            }
            if let Some((other, _)) = members.iter().find(|(n, _)| n != "lat" && n != "lon") {
                return Err(refuse(format!(
                    "field must be either [lat], [lon] or [geohash], not [{other}]"
                )));
            }
            Ok((number("lat")?, number("lon")?))
        }
        Json::Array(items) => match items.as_slice() {
            [lon, lat] | [lon, lat, _] => Ok((lat.f64("lat")?, lon.f64("lon")?)),
            _ => Err(refuse("[geo_point] field type does not accept so many values".into())),
        },
        Json::String(text) => text_place(text),
        _ => Err(refuse("geo_point expected".into())),
    }
}

fn text_place(text: &str) -> Result<GeoPlace> {
    let refuse = || Error::new(ErrorKind::Parse, format!("failed to parse geo point [{text}]"));
    let trimmed = text.trim();
    if trimmed.get(..5).is_some_and(|t| t.eq_ignore_ascii_case("point")) {
        let inner = trimmed[5..]
            .trim()
            .strip_prefix('(')
            .and_then(|t| t.strip_suffix(')'))
            .ok_or_else(refuse)?;
        let mut parts = inner.split_whitespace().map(str::parse::<f64>);
        return match (parts.next(), parts.next()) {
            (Some(Ok(lon)), Some(Ok(lat))) => Ok((lat, lon)),
            _ => Err(refuse()),
        };
    }
    match trimmed.split_once(',') {
        Some((lat, lon)) => {
            let number = |text: &str, what: &str| {
                text.trim()
                    .parse::<f64>()
                    .map_err(|_| Error::new(ErrorKind::Parse, format!("{what} must be a number")))
            };
            Ok((number(lat, "latitude")?, number(lon, "longitude")?))
        }
        None => geohash(trimmed),
    }
}

/// The middle of a geohash's cell.
fn geohash(text: &str) -> Result<GeoPlace> {
    let (lat, lon) = geohash_cell(text)?;
    Ok(((lat.0 + lat.1) / 2.0, (lon.0 + lon.1) / 2.0))
}

/// A geohash's cell: its latitudes and longitudes, each from and to.
pub(crate) fn geohash_cell(text: &str) -> Result<((f64, f64), (f64, f64))> {
    const DIGITS: &[u8] = b"0123456789bcdefghjkmnpqrstuvwxyz";
    let (mut lat, mut lon) = ((-90.0, 90.0), (-180.0, 180.0));
    let mut east = true;
    for c in text.bytes() {
        let Some(value) = DIGITS.iter().position(|d| *d == c.to_ascii_lowercase()) else {
            return Err(Error::new(
                ErrorKind::Parse,
                format!("unsupported symbol [{}] in geohash [{text}]", c as char),
            ));
        };
        for bit in (0..5).rev() {
            let range = if east { &mut lon } else { &mut lat };
            let middle = (range.0 + range.1) / 2.0;
            if value >> bit & 1 == 1 {
                range.0 = middle;
            } else {
                range.1 = middle;
            }
            east = !east;
        }
    }
    if text.is_empty() {
        return Err(Error::new(ErrorKind::Parse, "a geohash must not be empty"));
    }
    Ok((lat, lon))
}

/// `10km` and the like in metres.
///
/// # Errors
/// No number.
pub fn metres(text: &str, unit: &str) -> Result<f64> {
    let text = text.trim();
    let found = METRES
        .iter()
        .filter_map(|(word, factor)| text.strip_suffix(word).map(|n| (n.trim(), *factor)))
        .find(|(number, _)| number.parse::<f64>().is_ok());
    let (number, factor) = match found {
        Some(found) => found,
        None => (
            text,
            metres_of(unit).ok_or_else(|| Error::illegal(format!("No distance unit match [{unit}]")))?,
        ),
    };
    let number: f64 = number.parse().map_err(|_| Error::no_number(number))?;
    Ok(number * factor)
}

pub(super) fn parse(name: &str, node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error(format!("[{name}] query needs a field"));
    let mut fields = cx.options(node, name)?;
    let mut query = cx.common(&mut fields, name, Clause::MatchAll)?;
    let validation = GeoValidation::take(&mut fields)?;
    let ignore_unmapped = fields.take_bool("ignore_unmapped")?.unwrap_or(false);
    let take_field = |fields: &mut Fields| -> Result<(String, Node)> {
        let (field, body) = fields.next_field().ok_or_else(|| missing.clone())?;
        if let Some((other, node)) = fields.next_field() {
            return Err(node.error(format!(
                "[{name}] query doesn't support multiple fields, found [{field}] and [{other}]"
            )));
        }
        Ok((field, body))
    };
    let (field, area) = match name {
        "geo_distance" => {
            let distance = fields.take("distance").map(|n| n.string("distance")).transpose()?;
            let unit = fields.take_string("unit")?.unwrap_or_else(|| "m".into());
            let how = fields.take_string("distance_type")?;
            if let Some(how) = how.filter(|how| how != "arc" && how != "plane") {
                return Err(Error::illegal(format!("No geo distance for [{how}]")));
            }
            let (field, body) = take_field(&mut fields)?;
            (field, distance_from(&body, distance.as_deref(), &unit, validation)?)
        }
        "geo_bounding_box" | "geo_bbox" => {
            let how = fields.take_string("type")?;
            if let Some(how) = how.filter(|how| how != "indexed" && how != "memory") {
                return Err(Error::illegal(format!(
                    "cannot parse type [{how}] for geo bounding box query"
                )));
            }
            let (field, body) = take_field(&mut fields)?;
            (field, bounding_box(body, validation)?)
        }
        _ => {
            let (field, body) = take_field(&mut fields)?;
            (field, polygon(body, validation)?)
        }
    };
    query.clause = Clause::Geo(GeoQuery {
        field,
        area,
        ignore_unmapped,
        validation,
    });
    Ok(query)
}

/// The circle of `geo_distance` around a place.
fn distance_from(place: &Node, distance: Option<&str>, unit: &str, validation: GeoValidation) -> Result<GeoArea> {
    let Some(distance) = distance else {
        return Err(Error::illegal("geo_distance requires 'distance' to be specified"));
    };
    let metres = metres(distance, unit)?;
    if metres <= 0.0 {
        return Err(Error::illegal("distance must be greater than zero"));
    }
    let from = validation.place(parse_place(place)?, "geo_distance")?;
    Ok(GeoArea::Distance { from, metres })
}

/// The ring of `geo_polygon`, closed.
fn polygon(body: Node, validation: GeoValidation) -> Result<GeoArea> {
    let mut fields = body.fields("geo_polygon")?;
    let points = fields.require("points")?.items();
    fields.finish()?;
    let mut ring = Vec::new();
    for point in &points {
        ring.push(validation.place(parse_place(point)?, "geo_polygon")?);
    }
    if ring.first() != ring.last() {
        ring.extend(ring.first().copied());
    }
    if ring.len() < 4 {
        return Err(Error::illegal("too few points defined for geo_polygon query"));
    }
    Ok(GeoArea::Polygon(ring))
}

/// Left, right, top and bottom of `BBOX (..)` or `ENVELOPE (..)`.
fn well_known_box(text: &str) -> Result<(f64, f64, f64, f64)> {
    let inner = text.trim().to_ascii_uppercase();
    let numbers: Option<Vec<f64>> = inner
        .strip_prefix("BBOX")
        .or_else(|| inner.strip_prefix("ENVELOPE"))
        .map(str::trim)
        .and_then(|t| t.strip_prefix('(').and_then(|t| t.strip_suffix(')')))
        .and_then(|t| t.split(',').map(|n| n.trim().parse().ok()).collect());
    match numbers.as_deref() {
        Some(&[left, right, top, bottom]) => Ok((left, right, top, bottom)),
        _ => Err(Error::new(ErrorKind::Parse, "failed to parse WKT bounding box")),
    }
}

/// The box of a bounding box.
///
/// # Errors
/// Corners that are missing or no places.
pub fn bounding_box(body: Node, validation: GeoValidation) -> Result<GeoArea> {
    let mut fields = body.fields("geo_bounding_box")?;
    let (mut top, mut left, mut bottom, mut right) = (f64::NAN, f64::NAN, f64::NAN, f64::NAN);
    if let Some(text) = fields.take_string("wkt")? {
        (left, right, top, bottom) = well_known_box(&text)?;
    }
    for (name, slot) in [
        ("top", &mut top),
        ("left", &mut left),
        ("bottom", &mut bottom),
        ("right", &mut right),
    ] {
        if let Some(n) = fields.take_f64(name)? {
            *slot = n;
        }
    }
    let mut corner = |names: &[&str]| fields.take_any(names).map(|node| parse_place(&node)).transpose();
    if let Some((lat, lon)) = corner(&["top_left", "topLeft"])? {
        (top, left) = (lat, lon);
    }
    if let Some((lat, lon)) = corner(&["bottom_right", "bottomRight"])? {
        (bottom, right) = (lat, lon);
    }
    if let Some((lat, lon)) = corner(&["top_right", "topRight"])? {
        (top, right) = (lat, lon);
    }
    if let Some((lat, lon)) = corner(&["bottom_left", "bottomLeft"])? {
        (bottom, left) = (lat, lon);
    }
    if let Some((other, _)) = fields.next_field() {
        return Err(Error::new(
            ErrorKind::Parse,
            format!("failed to parse bounding box. unexpected field [{other}]"),
        ));
    }
    for (name, value, most) in [
        ("top latitude", top, 90.0),
        ("bottom latitude", bottom, 90.0),
        ("left longitude", left, 180.0),
        ("right longitude", right, 180.0),
    ] {
        let out = value.abs() > most && validation == GeoValidation::Strict;
        if value.is_nan() || out {
            let shown = if value.is_nan() {
                "NaN".to_owned()
            } else {
                format!("{value:?}")
            };
            return Err(Error::illegal(format!("{name} is invalid: {shown}")));
        }
    }
    if validation == GeoValidation::Coerce {
        (left, right) = if right - left >= 360.0 {
            (-180.0, 180.0)
        } else {
            (around(left), around(right))
        };
        (top, bottom) = (top.clamp(-90.0, 90.0), bottom.clamp(-90.0, 90.0));
    }
    if bottom > top {
        return Err(Error::illegal(format!("top is below bottom corner: {top:?} vs. {bottom:?}")));
    }
    Ok(GeoArea::Box {
        top,
        left,
        bottom,
        right,
    })
}

/// A longitude, brought between -180 and 180 degrees.
fn around(lon: f64) -> f64 {
    if lon.abs() > 180.0 {
        (lon + 180.0).rem_euclid(360.0) - 180.0
    } else {
        lon
    }
}

/// As in a request: the name of the clause and its body.
pub(super) fn render(q: &GeoQuery) -> (&'static str, Map<String, Value>) {
    let place = |(lat, lon): &GeoPlace| json!({ "lat": lat, "lon": lon });
    let mut body = Map::new();
    let name = match &q.area {
        GeoArea::Distance { from, metres } => {
            body.insert("distance".into(), format!("{metres}m").into());
            body.insert(q.field.clone(), place(from));
            "geo_distance"
        }
        GeoArea::Box {
            top,
            left,
            bottom,
            right,
        } => {
            body.insert(
                q.field.clone(),
                json!({ "top": top, "left": left, "bottom": bottom, "right": right }),
            );
            "geo_bounding_box"
        }
        GeoArea::Ring { from, least, most } => {
            let mut end = |bound: &Option<Bound>, included: &str, excluded: &str| {
                if let Some(bound) = bound {
                    let name = if bound.included { included } else { excluded };
                    body.insert(name.to_owned(), format!("{}m", bound.metres).into());
                }
            };
            end(least, "gte", "gt");
            end(most, "lte", "lt");
            body.insert(q.field.clone(), place(from));
            "geo_distance_range"
        }
        GeoArea::Cell { hash, neighbors } => {
            body.insert(q.field.clone(), json!({ "geohash": hash }));
            body.insert("neighbors".into(), (*neighbors).into());
            "geohash_cell"
        }
        GeoArea::Polygon(ring) => {
            body.insert(
                q.field.clone(),
                json!({ "points": ring.iter().map(place).collect::<Vec<_>>() }),
            );
            "geo_polygon"
        }
    };
    if q.validation != GeoValidation::Strict {
        body.insert("validation_method".into(), q.validation.word().into());
    }
    if q.ignore_unmapped {
        body.insert("ignore_unmapped".into(), true.into());
    }
    (name, body)
}
