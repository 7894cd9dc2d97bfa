//! A sort by a field: what its mapping makes of it, and what stands for a missing value.

use super::*;
use crate::fields::field_data::{fielddata_disabled, refuse_without_values};
use mapping::Kind;
use model::Topic;
use model::date::{DateFormat, PatternSyntax};

pub(super) fn extreme(first: bool, ascending: bool) -> i64 {
    if first == ascending { i64::MIN } else { i64::MAX }
}

pub(super) fn unit_metres(unit: &str) -> f64 {
    dsl::query::metres(&format!("1{unit}"), "m").unwrap_or(1.0)
}

/// Where documents without a value go: to one end of all.
pub(super) fn is_end(missing: &Value) -> bool {
    missing.is_null() || matches!(missing.as_str(), Some("_first" | "_last"))
}

/// The key that stands for a missing value.
pub(super) fn missing_key(value: &Value, key: &FieldKey, text: bool, float: bool) -> Result<Key> {
    let shown = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text {
        return Ok(Key::Text(shown.into()));
    }
    if key.unsigned && !float {
        let refuse = |_| Error::no_number(&shown);
        return shown.parse().map(Key::Unsigned).map_err(refuse);
    }
    if let Ok(n) = shown.parse::<i64>()
        && !float
    {
        // A number above 32 bits loses its upper bits, as it does there.
        return Ok(Key::Int(if key.narrow { i64::from(n as i32) } else { n }));
    }
    if let Some(format) = &key.format
        && let Ok(ms) = format.parse(&shown, None)
    {
        return Ok(Key::Int(ms));
    }
    match shown.parse::<f64>() {
        Ok(n) if float => Ok(Key::Float(n)),
        Ok(n) => Ok(Key::Int(n as i64)),
        Err(_) => Err(Error::no_number(&shown)),
    }
}

/// An address as it is written.
pub(super) fn address(text: &str) -> Result<Ipv6Addr> {
    let refuse = |_| Error::illegal(format!("'{text}' is not an IP string literal."));
    let address: IpAddr = text.parse().map_err(refuse)?;
    Ok(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    })
}

/// Strings and addresses have a least and a greatest, and no sum.
pub(super) fn check_mode(view: &IndexView, field: &FieldSort) -> Result<()> {
    use MultiValueMode::{Avg, Median, Sum};
    // 2015 took the least or the greatest instead.
    if view.rules().tolerates_sort_options || !matches!(field.mode, Some(Sum | Avg | Median)) {
        return Ok(());
    }
    let reason = "we only support AVG, MEDIAN and SUM on number based fields";
    Err(Error::new(ErrorKind::QueryShard, reason).with("index", view.name.as_str()))
}

pub(super) fn field_key(
    view: &IndexView,
    field: &FieldSort,
    ascending: bool,
    cx: &Context<'_>,
    scope: Option<&str>,
) -> Result<By> {
    let mode = field
        .mode
        .unwrap_or(if ascending { MultiValueMode::Min } else { MultiValueMode::Max });
    let mut key = FieldKey {
        path: field.field.clone(),
        mode,
        missing: field.missing.clone(),
        as_float: field.numeric_type.as_deref() == Some("double"),
        as_date: matches!(field.numeric_type.as_deref(), Some("date" | "long" | "date_nanos")),
        narrow: false,
        unsigned: false,
        to_nanos: false,
        bare: false,
        format: field
            .format
            .as_deref()
            .map(|text| DateFormat::parse_pattern_of(text, PatternSyntax::of(view.rules().joda_patterns)))
            .transpose()?,
        nested: None,
    };
    if field.field == "_id" || field.field == "_uid" && view.rules().has_type_fields {
        check_mode(view, field)?;
        return Ok(By::Field(Box::new(key)));
    }
    let Some(target) = Target::with_values(view, &field.field) else {
        refuse_without_values(view, &field.field)?;
        return unmapped_key(view, field, key, ascending, cx);
    };
    check_sortable(view, field, &target)?;
    key.nested = Levels::of(view, field, target.path, scope, cx)?;
    let text = target.kind.kind.is_keyword() || target.kind.kind.is_text() || target.kind.kind == Kind::Ip;
    if text {
        check_mode(view, field)?;
    }
    if key.nested.is_some() && field.mode == Some(MultiValueMode::Median) && !view.rules().tolerates_sort_options {
        return Err(Error::illegal("Unsupported sort mode: MEDIAN"));
    }
    key.unsigned = target.kind.kind == Kind::UnsignedLong && !key.as_float;
    key.narrow = narrow(target.kind.kind, field, cx);
    key.to_nanos = field.numeric_type.as_deref() == Some("date_nanos") && target.kind.kind == Kind::Date;
    key.path = target.path.to_owned();
    // Whether it can stand for a value does not hang on there being a hit.
    if let Some(value) = field.missing.as_ref().filter(|value| !is_end(value)) {
        missing_key(value, &key, text, key.as_float || target.kind.kind.is_float())?;
    }
    Ok(By::Field(Box::new(key)))
}

/// The key of a field that the index does not have: the same for each document, by `unmapped_type`.
fn unmapped_key(view: &IndexView, field: &FieldSort, mut key: FieldKey, ascending: bool, cx: &Context<'_>) -> Result<By> {
    let Some(name) = field.unmapped_type.as_deref() else {
        let reason = format!("No mapping found for [{}] in order to sort on", field.field);
        return Err(Error::new(ErrorKind::QueryShard, reason)
            .with("index", view.name.as_str())
            .about(Topic::UnmappedSort));
    };
    let kind = match name {
        "string" => Kind::Keyword,
        name => Kind::from_name(name).ok_or_else(|| Error::illegal(format!("No mapper found for type [{name}]")))?,
    };
    let text = kind.is_keyword() || kind.is_text() || kind == Kind::Ip;
    if text {
        check_mode(view, field)?;
    }
    if let Some(value) = field.missing.as_ref().filter(|value| !text && !is_end(value))
        && !view.rules().tolerates_sort_options
    {
        key.unsigned = kind == Kind::UnsignedLong;
        return Ok(By::Constant(missing_key(
            value,
            &key,
            false,
            key.as_float || kind.is_float(),
        )?));
    }
    let first = is_first(field);
    let low = first == ascending;
    Ok(By::Constant(if text {
        Key::None { first }
    } else if kind.is_float() {
        Key::Float(if extreme(first, ascending) > 0 {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        })
    } else if kind == Kind::UnsignedLong {
        Key::Unsigned(if low { 0 } else { u64::MAX })
    } else {
        Key::Int(match (narrow(kind, field, cx), low) {
            (true, true) => i64::from(i32::MIN),
            (true, false) => i64::from(i32::MAX),
            (false, _) => extreme(first, ascending),
        })
    }))
}

fn is_first(field: &FieldSort) -> bool {
    field.missing.as_ref().and_then(Value::as_str) == Some("_first")
}

/// # Errors
/// The field has no order, no values by document, or not those that `numeric_type` converts.
fn check_sortable(view: &IndexView, field: &FieldSort, target: &Target<'_>) -> Result<()> {
    if target.kind.kind == Kind::GeoPoint && !view.rules().tolerates_sort_options {
        return Err(Error::illegal(
            "can't sort on geo_point field without using specific sorting feature, like geo_distance",
        ));
    }
    if let (Some(_), true) = (
        &field.numeric_type,
        !target.kind.kind.is_numeric() && !target.kind.kind.is_date() && target.kind.kind != Kind::Boolean,
    ) {
        let reason = format!(
            "[numeric_type] option cannot be set on a non-numeric field, got {}",
            target.kind.wire()
        );
        return Err(Error::new(ErrorKind::QueryShard, reason).with("index", view.name.as_str()));
    }
    if field.numeric_type.as_deref() == Some("date_nanos") && !target.kind.kind.is_date() {
        return Err(Error::illegal(
            "trying to convert a known date time formatter to a nanosecond one, wrong field used?",
        ));
    }
    if (target.kind.kind.is_text() || target.slot.column.is_none()) && !target.kind.fielddata {
        if target.kind.kind.is_text() {
            return Err(fielddata_disabled(&field.field));
        }
        return Err(Error::illegal(format!(
            "Can't load fielddata on [{}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
            field.field,
            target.kind.wire()
        )));
    }
    Ok(())
}

/// Whether missing values of a field are sorted to the ends of 32 bits.
pub(super) fn narrow(kind: mapping::Kind, field: &FieldSort, cx: &Context<'_>) -> bool {
    use mapping::Kind;
    cx.opensearch && field.numeric_type.is_none() && matches!(kind, Kind::Integer | Kind::Short | Kind::Byte | Kind::Boolean)
}
