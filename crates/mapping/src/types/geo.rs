//! `geo_point`: an object, `"lat,lon"`, `[lon, lat]`, a geohash, WKT, or a GeoJSON point.

use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use crate::wording::mapper_parsing;
use crate::wording::text_of;
use model::{Error, ErrorKind, Result, geohash};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("doc_values", Bool, "true", false),
    Param("ignore_malformed", Bool, "", true),
    Param("ignore_z_value", Bool, "true", true),
    Param("index", Any, "true", false),
    Param("null_value", Any, "", false),
    Param("store", Bool, "false", false),
];

/// A point.
pub(crate) fn read(value: &Value) -> Result<FieldValue> {
    let unreadable = |reason: &str| Error::new(ErrorKind::Parse, reason.to_owned());
    let number = |value: &Value, name: &str| {
        text_of(value)
            .parse::<f64>()
            .map_err(|_| unreadable(&format!("[{name}] must be a valid double value")))
    };
    let (lat, lon) = match value {
        Value::Object(object) => match (object.get("lat"), object.get("lon"), object.get("coordinates")) {
            (Some(lat), Some(lon), _) => (number(lat, "latitude")?, number(lon, "longitude")?),
            (_, _, Some(coordinates)) if coordinates.is_array() => return read(coordinates),
            (None, Some(_), _) => return Err(unreadable("field [lat] missing")),
            (Some(_), None, _) => return Err(unreadable("field [lon] missing")),
            _ => return Err(unreadable("field must be either [lat], [lon] or [geohash]")),
        },
        Value::Array(items) if (2..=3).contains(&items.len()) && items.iter().all(Value::is_number) => {
            (number(&items[1], "latitude")?, number(&items[0], "longitude")?)
        }
        Value::String(text) => point(text)?,
        _ => return Err(unreadable("geo_point expected")),
    };
    if !(-90.0..=90.0).contains(&lat) {
        return Err(Error::illegal(format!(
            "illegal latitude value [{lat}] for {}",
            text_of(value)
        )));
    }
    if !(-180.0..=180.0).contains(&lon) {
        return Err(Error::illegal(format!(
            "illegal longitude value [{lon}] for {}",
            text_of(value)
        )));
    }
    Ok(FieldValue::Geo { lat, lon })
}

fn point(text: &str) -> Result<(f64, f64)> {
    let refuse = || mapper_parsing(format!("unsupported symbol in geohash or point [{text}]"));
    if let Some((lat, lon)) = text.split_once(',') {
        let lon = lon.split(',').next().unwrap_or(lon);
        return match (lat.trim().parse(), lon.trim().parse()) {
            (Ok(lat), Ok(lon)) => Ok((lat, lon)),
            _ => Err(refuse()),
        };
    }
    if text.get(..5).is_some_and(|head| head.eq_ignore_ascii_case("point")) {
        let inner = text[5..]
            .trim()
            .strip_prefix('(')
            .and_then(|t| t.strip_suffix(')'))
            .ok_or_else(refuse)?;
        let mut numbers = inner.split_whitespace().map(str::parse::<f64>);
        return match (numbers.next(), numbers.next()) {
            (Some(Ok(lon)), Some(Ok(lat))) => Ok((lat, lon)),
            _ => Err(refuse()),
        };
    }
    geohash::centre(text).ok_or_else(refuse)
}
