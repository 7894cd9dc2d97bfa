//! The order of hits: sort keys, what stands in for missing values, `search_after`.
//!
//! Not here: scores, scripts, distances, nested sorts; they are refused. Ties are left to the order of the indices.

use super::Stored;
use super::catalog::Entry;
use super::query::Scalar;
use dsl::query::MultiValueMode;
use dsl::search::{FieldSort, Sort, SortBy};
use mapping::{FieldType, Kind};
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::cmp::Ordering;

/// The sort values of a hit: one for each key; texts may be missing.
pub(super) type Keys = Vec<Option<Scalar>>;

/// Refuses what this engine does not order by.
pub(super) fn check(sorts: &[Sort]) -> Result<()> {
    for sort in sorts {
        let answered = match &sort.by {
            SortBy::Doc | SortBy::ShardDoc => true,
            SortBy::Field(f) => {
                let modes = matches!(f.mode, None | Some(MultiValueMode::Min | MultiValueMode::Max));
                modes && f.nested.is_none() && f.numeric_type.is_none() && f.format.is_none()
            }
            SortBy::Score | SortBy::Script { .. } | SortBy::GeoDistance { .. } => false,
        };
        if !answered {
            return Err(super::unsupported_request(format!(
                "the memory engine does not sort by {}",
                sort.render()
            )));
        }
    }
    Ok(())
}

/// The keys of one document, `position` being its place among all that are searched.
pub(super) fn keys(sorts: &[Sort], entry: &Entry, doc: &Stored, position: usize) -> Result<Keys> {
    let key = |sort: &Sort| match &sort.by {
        SortBy::Field(field) => field_key(field, sort.ascending, entry, doc),
        _ => Ok(Some(Scalar::Whole(i128::try_from(position).unwrap_or(i128::MAX)))),
    };
    sorts.iter().map(key).collect()
}

/// First by the first key, and so on.
pub(super) fn compare(sorts: &[Sort], a: &Keys, b: &Keys) -> Ordering {
    assert!(sorts.len() == a.len() && a.len() == b.len(), "there is one key for each sort");
    let each = sorts.iter().zip(a.iter().zip(b)).map(|(sort, (a, b))| match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => {
            if missing_first(sort) {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (Some(_), None) => {
            if missing_first(sort) {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (Some(a), Some(b)) => {
            let order = a.compare(b).unwrap_or(Ordering::Equal);
            if sort.ascending { order } else { order.reverse() }
        }
    });
    each.fold(Ordering::Equal, Ordering::then)
}

/// The keys that `search_after` names.
pub(super) fn after(sorts: &[Sort], given: &[Value], entry: &Entry) -> Result<Keys> {
    if sorts.is_empty() {
        return Err(Error::illegal("Sort must contain at least one field."));
    }
    if sorts.len() != given.len() {
        return Err(Error::illegal(format!(
            "search_after has {} value(s) but sort has {}.",
            given.len(),
            sorts.len()
        )));
    }
    let key = |(sort, value): (&Sort, &Value)| match &sort.by {
        SortBy::Field(sort) => match entry.mapping.resolve(&sort.field) {
            _ if value.is_null() => Ok(None),
            Some((_, kind)) => given_key(kind, value).map(Some),
            None if value.is_string() => Ok(value.as_str().map(|text| Scalar::Text(text.to_owned()))),
            None => Scalar::number(value).map(Some),
        },
        _ => Scalar::number(value).map(Some),
    };
    sorts.iter().zip(given).map(key).collect()
}

/// A key as a hit shows it.
pub(super) fn render(key: &Option<Scalar>) -> Value {
    match key {
        None => Value::Null,
        Some(Scalar::Whole(n)) => i64::try_from(*n)
            .map(Value::from)
            .or_else(|_| u64::try_from(*n).map(Value::from))
            .unwrap_or(Value::Null),
        Some(Scalar::Fraction(f)) if f.is_infinite() => if *f > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        Some(Scalar::Fraction(f)) => (*f).into(),
        Some(Scalar::Text(text)) => text.as_str().into(),
        Some(Scalar::Bytes(bytes)) => std::net::Ipv6Addr::from(*bytes).to_canonical().to_string().into(),
    }
}

fn field_key(sort: &FieldSort, ascending: bool, entry: &Entry, doc: &Stored) -> Result<Option<Scalar>> {
    if sort.field == "_id" {
        return Ok(Some(Scalar::Text(doc.at.id.id.to_string())));
    }
    let Some((path, kind)) = entry.mapping.resolve(&sort.field) else {
        let Some(name) = &sort.unmapped_type else {
            let reason = format!("No mapping found for [{}] in order to sort on", sort.field);
            return Err(Error::new(ErrorKind::QueryShard, reason).with("index", entry.name.as_str()));
        };
        return Ok(Kind::from_name(name).and_then(|kind| stand_in(kind, at_start(sort) == ascending)));
    };
    columns(path, kind)?;
    let largest = sort.mode.map_or(!ascending, |mode| mode == MultiValueMode::Max);
    let by_order = |a: &Scalar, b: &Scalar| a.compare(b).unwrap_or(Ordering::Equal);
    let values = doc.root.values(path).filter_map(Scalar::of);
    let found = if largest {
        values.max_by(by_order)
    } else {
        values.min_by(by_order)
    };
    match (found, &sort.missing) {
        (Some(found), _) => Ok(Some(found)),
        (None, Some(given)) if given != "_first" && given != "_last" => given_key(kind, given).map(Some),
        (None, _) => Ok(stand_in(kind.kind, at_start(sort) == ascending)),
    }
}

/// Sorting and counting need columns.
pub(super) fn columns(path: &str, kind: &FieldType) -> Result<()> {
    if kind.kind.is_text() && !kind.fielddata {
        return Err(Error::illegal(format!(
            "Text fields are not optimised for operations that require per-document field data like aggregations and sorting, \
             so these operations are disabled by default. Please use a keyword field instead. Alternatively, set fielddata=true \
             on [{path}] in order to load field data by uninverting the inverted index. Note that this can use significant memory."
        )));
    }
    if !kind.doc_values && !kind.kind.is_text() {
        return Err(Error::illegal(format!(
            "Can't load fielddata on [{path}] because fielddata is unsupported on fields of type [{}]. Use doc values instead.",
            kind.wire()
        )));
    }
    Ok(())
}

/// Missing numbers are the smallest or the largest there are; missing texts are nothing.
fn stand_in(kind: Kind, smallest: bool) -> Option<Scalar> {
    if kind.is_float() {
        return Some(Scalar::Fraction(if smallest { f64::NEG_INFINITY } else { f64::INFINITY }));
    }
    let whole = kind.is_integer() || kind.is_date() || kind == Kind::Boolean;
    whole.then_some(Scalar::Whole(if smallest { i64::MIN } else { i64::MAX }.into()))
}

fn given_key(kind: &FieldType, value: &Value) -> Result<Scalar> {
    match value {
        Value::Number(_) => Scalar::number(value),
        Value::String(text) if kind.kind.is_float() && text.ends_with("Infinity") => {
            Ok(Scalar::Fraction(if text.starts_with('-') {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }))
        }
        _ => {
            let refuse = || {
                Error::illegal(format!(
                    "Failed to parse search_after value [{value}] for field of type [{}]",
                    kind.wire()
                ))
            };
            kind.parse_term(value)?.as_ref().and_then(Scalar::of).ok_or_else(refuse)
        }
    }
}

fn at_start(sort: &FieldSort) -> bool {
    sort.missing.as_ref().is_some_and(|missing| missing == "_first")
}

fn missing_first(sort: &Sort) -> bool {
    matches!(&sort.by, SortBy::Field(field) if at_start(field))
}
