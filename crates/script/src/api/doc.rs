//! `doc`, `doc['f']` and points.

use crate::Lang;
use crate::runtime::{R, Run, bounds, illegal};
use crate::value::Value;

const EARTH_METERS: f64 = 6_371_008.771_415_059;

/// All values of a field.
pub(crate) fn all(run: &mut Run<'_, '_>, slot: u32) -> R<Vec<Value>> {
    let groovy = run.lang == Lang::Groovy;
    let values = run.doc(slot)?;
    let shown = |value| match value {
        Value::Date(ms) if groovy => Value::Long(ms),
        Value::Bool(flag) if groovy => Value::Long(flag.into()),
        value => value,
    };
    let all: Vec<Value> = (0..values.len()).filter_map(|i| values.get(i)).map(shown).collect();
    run.step(all.len() as u64)?;
    Ok(all)
}

/// `doc['f'][i]`
pub(crate) fn at(run: &mut Run<'_, '_>, slot: u32, i: i64) -> R {
    let values = run.doc(slot)?;
    match usize::try_from(i).ok().and_then(|i| values.get(i)) {
        Some(v) => Ok(v),
        None => bounds(i, values.len()),
    }
}

/// Properties of `doc['f']`.
pub(crate) fn get(run: &mut Run<'_, '_>, slot: u32, name: &str) -> R {
    match name {
        // In 2015 a date that is not there is the first of all.
        "date" if run.lang == Lang::Groovy && run.doc(slot)?.is_empty() => Ok(Value::Date(0)),
        "values" => {
            let all = all(run, slot)?;
            run.list(all)
        }
        "length" | "size" => Ok(Value::Int(run.doc(slot)?.len() as i32)),
        "empty" => Ok(Value::Bool(run.doc(slot)?.is_empty())),
        _ => match run.doc(slot)?.get(0) {
            // `doc['place'].lat`, `doc['day'].date.year`
            Some(Value::Geo(lat, _)) if name == "lat" => Ok(Value::Double(lat)),
            Some(Value::Geo(_, lon)) if name == "lon" => Ok(Value::Double(lon)),
            Some(v @ Value::Date(_)) if name == "date" => Ok(v),
            _ => illegal(format!(
                "dynamic getter [org.elasticsearch.index.fielddata.ScriptDocValues, {name}] not found"
            )),
        },
    }
}

/// Methods of `doc['f']`.
pub(crate) fn call(run: &mut Run<'_, '_>, slot: u32, name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(Some(match (name, args) {
        ("size" | "count", []) => Value::Int(run.doc(slot)?.len() as i32),
        ("isEmpty", []) => Value::Bool(run.doc(slot)?.is_empty()),
        ("get", [i]) => at(run, slot, i.as_i64().unwrap_or(-1))?,
        ("getValues", []) => {
            let all = all(run, slot)?;
            run.list(all)?
        }
        ("avg" | "median" | "sum" | "min" | "max", []) if run.lang == Lang::Expression => {
            let mut n: Vec<f64> = all(run, slot)?.iter().filter_map(Value::as_f64).collect();
            n.sort_by(f64::total_cmp);
            let sum: f64 = n.iter().sum();
            Value::Double(match name {
                "sum" => sum,
                "avg" => sum / n.len().max(1) as f64,
                "min" => n.first().copied().unwrap_or(0.0),
                "max" => n.last().copied().unwrap_or(0.0),
                _ => n.get(n.len() / 2).copied().unwrap_or(0.0),
            })
        }
        (
            "arcDistance"
            | "planeDistance"
            | "arcDistanceInKm"
            | "arcDistanceWithDefault"
            | "distance"
            | "distanceInKm"
            | "getLat"
            | "getLon"
            | "geohashDistance",
            _,
        ) => match run.doc(slot)?.get(0) {
            Some(Value::Geo(lat, lon)) => return Ok(call_geo((lat, lon), name, args)),
            _ => match args {
                [_, _, default] => default.clone(),
                _ => {
                    return illegal(
                        "A document doesn't have a value for a field! Use doc[<field>].size()==0 to check if a document is missing a field!",
                    );
                }
            },
        },
        _ => {
            let all = all(run, slot)?;
            return super::sequence::call(run, all, name, args);
        }
    }))
}

/// Methods of `doc`.
pub(crate) fn call_all(run: &mut Run<'_, '_>, name: &str, args: &[Value]) -> R<Option<Value>> {
    Ok(match (name, args) {
        ("containsKey", [Value::Str(field)]) => {
            let slot = run.doc_slot(field)?;
            Some(Value::Bool(run.load(slot)?))
        }
        ("get", [field @ Value::Str(_)]) => Some(super::index(run, &Value::DocAll, field)?),
        _ => None,
    })
}

/// Methods of a point.
pub(crate) fn call_geo(at: (f64, f64), name: &str, args: &[Value]) -> Option<Value> {
    let to = || Some((args.first()?.as_f64()?, args.get(1)?.as_f64()?));
    Some(match name {
        "getLat" | "lat" => Value::Double(at.0),
        "getLon" | "lon" => Value::Double(at.1),
        "arcDistance" | "arcDistanceWithDefault" | "distance" => Value::Double(meters(at, to()?)),
        "arcDistanceInKm" | "distanceInKm" => Value::Double(meters(at, to()?) / 1000.0),
        "planeDistance" => {
            let to = to()?;
            let x = (to.1 - at.1).to_radians() * ((at.0 + to.0) / 2.0).to_radians().cos();
            Value::Double(x.hypot((to.0 - at.0).to_radians()) * EARTH_METERS)
        }
        _ => return None,
    })
}

/// The distance between two points, by haversine.
pub(crate) fn meters(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (lat1, lat2) = (a.0.to_radians(), b.0.to_radians());
    let h = ((lat2 - lat1) / 2.0).sin().powi(2) + lat1.cos() * lat2.cos() * ((b.1 - a.1).to_radians() / 2.0).sin().powi(2);
    2.0 * EARTH_METERS * h.sqrt().min(1.0).asin()
}

/// `"5km"` in meters.
pub(crate) fn distance(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (n, unit) = text.split_at_checked(split)?;
    let n: f64 = n.trim().parse().ok()?;
    Some(
        n * match unit {
            "" | "m" => 1.0,
            "km" => 1000.0,
            "cm" => 0.01,
            "mm" => 0.001,
            "mi" | "miles" => 1609.344,
            "yd" => 0.9144,
            "ft" => 0.3048,
            _ => return None,
        },
    )
}

/// `"lat,lon"`
pub(crate) fn point(text: &str) -> Option<(f64, f64)> {
    let (lat, lon) = text.split_once(',')?;
    Some((lat.trim().parse().ok()?, lon.trim().parse().ok()?))
}
