//! Clauses over places that only 2015 had: `geo_distance_range`, a ring around a place; `geohash_cell`, the cell of a place.

use super::geo::{Bound, GeoArea, GeoQuery, GeoValidation, geohash_cell, metres, parse_place};
use super::{Clause, Parsing, Query};
use crate::json::{Fields, Json, Node};
use model::{Error, ErrorKind, Result, geohash};

pub(super) fn parse(name: &str, node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx.options(node, name)?;
    let mut query = cx.common(&mut fields, name, Clause::MatchAll)?;
    let (field, area) = match name {
        "geo_distance_range" => ring(&mut fields)?,
        _ => cell(&mut fields)?,
    };
    if let Some((other, node)) = fields.next_field() {
        return Err(node.error(format!("[{name}] query does not support [{other}]")));
    }
    query.clause = Clause::Geo(GeoQuery {
        field,
        area,
        ignore_unmapped: false,
        validation: GeoValidation::Strict,
    });
    Ok(query)
}

fn ring(fields: &mut Fields) -> Result<(String, GeoArea)> {
    let unit = fields.take_string("unit")?.unwrap_or_else(|| "m".into());
    if let Some(how) = fields.take_string("distance_type")?
        && !matches!(how.as_str(), "arc" | "sloppy_arc" | "plane" | "factor")
    {
        return Err(Error::illegal(format!("No geo distance for [{how}]")));
    }
    if let Some(how) = fields.take_string("optimize_bbox")?
        && !matches!(how.as_str(), "memory" | "indexed" | "none")
    {
        return Err(Error::illegal(format!(
            "type [{how}] for bounding box optimization not supported"
        )));
    }
    let lower = fields.take_bool("include_lower")?.unwrap_or(true);
    let upper = fields.take_bool("include_upper")?.unwrap_or(true);
    let mut bound = |names: [(&str, bool); 3]| -> Result<Option<Bound>> {
        let mut found = None;
        for (name, included) in names {
            if let Some(node) = fields.take(name).filter(|node| !node.is_null()) {
                let metres = metres(&node.string(name)?, &unit)?;
                found = Some(Bound { metres, included });
            }
        }
        Ok(found)
    };
    let least = bound([("from", lower), ("gte", true), ("gt", false)])?;
    let most = bound([("to", upper), ("lte", true), ("lt", false)])?;
    let (field, place) = last_field(fields, "geo_distance_range")?;
    let from = parse_place(&place)?;
    Ok((field, GeoArea::Ring { from, least, most }))
}

fn cell(fields: &mut Fields) -> Result<(String, GeoArea)> {
    let neighbors = fields.take_bool("neighbors")?.unwrap_or(false);
    let digits = match fields.take("precision") {
        None => None,
        Some(node) => {
            let text = node.string("precision")?;
            Some(match text.parse::<usize>() {
                Ok(digits) => digits.min(geohash::LENGTH_MAX),
                // Cells of half the size that was asked for, as measured.
                Err(_) => geohash::digits_of(metres(&text, "m")? / 2.0),
            })
        }
    };
    let (field, place) = last_field(fields, "geohash_cell")?;
    let named = match &place.value {
        Json::String(text) if !text.contains(',') => Some(text.clone()),
        Json::Object(members) => match members.iter().find(|(name, _)| name == "geohash") {
            Some((_, hash)) => Some(hash.string("geohash")?),
            None => None,
        },
        _ => None,
    };
    let mut hash = match named {
        Some(hash) => hash,
        None => {
            let (lat, lon) = parse_place(&place)?;
            geohash::text(geohash::code(lat, lon, geohash::LENGTH_MAX), geohash::LENGTH_MAX)
        }
    };
    if let Some(digits) = digits {
        hash.truncate(hash.char_indices().nth(digits).map_or(hash.len(), |(at, _)| at));
    }
    geohash_cell(&hash)?;
    Ok((field, GeoArea::Cell { hash, neighbors }))
}

/// The field and its place: what is left when all options are taken.
fn last_field(fields: &mut Fields, name: &str) -> Result<(String, Node)> {
    let missing = || Error::new(ErrorKind::QueryParsing, format!("[{name}] query needs a field"));
    fields.next_field().ok_or_else(missing)
}
