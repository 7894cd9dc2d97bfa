//! An update of a field: what may change, today and in 2015.

use super::params_of;
use crate::field::{FieldType, Kind};
use crate::types;
use crate::wording::text_of;
use model::compat::IndexRules;
use model::{Error, Result};
use serde_json::Value;
use std::sync::Arc;

/// An update of a field: the new parameters, with the multi-fields of both.
pub(crate) fn merge(path: &str, old: &FieldType, new: &FieldType, rules: &IndexRules) -> Result<FieldType> {
    if rules.former_merges {
        check_change(path, old, new)?;
    }
    if old.wire() != new.wire() {
        return Err(Error::illegal(format!(
            "mapper [{path}] cannot be changed from type [{}] to [{}]",
            old.wire(),
            new.wire()
        )));
    }
    let mut conflicts = Vec::new();
    for param in params_of(old.kind, rules.takes_former_parameters).filter(|param| !param.3 && !rules.former_merges) {
        let (before, after) = (old.params.get(param.0), new.params.get(param.0));
        if before != after {
            let shown = |value: Option<&Value>| match (value, param.default()) {
                (Some(value), _) | (None, Some(value)) => text_of(value),
                (None, None) if param.0 == "analyzer" => "default".to_owned(),
                (None, None) => "null".to_owned(),
            };
            conflicts.push(format!(
                "Cannot update parameter [{}] from [{}] to [{}]",
                param.0,
                shown(before),
                shown(after)
            ));
        }
    }
    if !conflicts.is_empty() {
        return Err(Error::illegal(format!(
            "Mapper for [{path}] conflicts with existing mapper:\n\t{}",
            conflicts.join("\n\t")
        )));
    }
    if !rules.former_merges && !old.norms && new.norms {
        return Err(Error::illegal(format!(
            "Mapper for [{path}] conflicts with existing mapper:\n\tCannot update parameter [norms] from [false] to [true]"
        )));
    }
    let mut merged = new.clone();
    if rules.former_merges {
        // A parameter that an update does not name stays.
        for key in ["ignore_malformed", "coerce", "include_in_all"] {
            if let (Some(said), None) = (old.params.get(key), new.params.get(key)) {
                merged.params.insert(key.to_owned(), said.clone());
            }
        }
        merged.ignore_malformed = merged
            .params
            .get("ignore_malformed")
            .and_then(Value::as_bool)
            .unwrap_or(new.ignore_malformed);
        merged.coerce = merged.params.get("coerce").and_then(Value::as_bool).unwrap_or(new.coerce);
    }
    if old.kind == Kind::Join {
        merged.relations = types::join::merge(path, &old.relations, &new.relations)?;
    }
    merged.fields = old.fields.clone();
    for (name, field) in &new.fields {
        match merged.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = Arc::new(merge(&format!("{path}.{name}"), known, field, rules)?),
            None => merged.fields.push((name.clone(), field.clone())),
        }
    }
    Ok(merged)
}

/// Refuses what a field of 2015 may not become.
fn check_change(path: &str, old: &FieldType, new: &FieldType) -> Result<()> {
    if old.wire() != new.wire() {
        return Err(Error::illegal(format!(
            "mapper [{path}] of different type, current_type [{}], merged_type [{}]",
            old.wire(),
            new.wire()
        )));
    }
    let given = |field: &FieldType, key: &str| field.params.get(key).cloned();
    let how = |field: &FieldType| match (field.index, field.kind) {
        (false, _) => 0,
        (true, Kind::Text | Kind::MatchOnlyText) => 1,
        (true, _) => 2,
    };
    // Indexed without lengths; numbers have them only for the sake of a boost.
    let lengths = |field: &FieldType| {
        if field.string {
            field.index && field.norms && field.kind.is_text()
        } else {
            (field.boost - 1.0).abs() > f32::EPSILON
        }
    };
    let analyzer = |field: &FieldType| match &field.analyzer {
        Some(analyzer) if field.string => analyzer.name().to_owned(),
        _ => "keyword".to_owned(),
    };
    let mut conflicts = Vec::new();
    let mut differ = |what: &str| conflicts.push(format!("mapper [{path}] has different {what}"));
    if how(old) != how(new) {
        differ("[index] values");
    }
    if old.store != new.store {
        differ("[store] values");
    }
    let columns = |field: &FieldType| field.doc_values && field.params.get("doc_values").is_none_or(|said| *said != false);
    if !columns(old) && columns(new) && (new.index || !new.string) {
        differ("[doc_values] values, cannot change from disabled to enabled");
    }
    if !lengths(old) && lengths(new) {
        differ("[omit_norms] values, cannot change from disable to enabled");
    }
    for (key, what) in [
        ("term_vector", "[store_term_vector] values"),
        ("index_options", "[index_options] values"),
    ] {
        if given(old, key) != given(new, key) {
            differ(what);
        }
    }
    if old.string && new.index && analyzer(old) != analyzer(new) {
        differ("[analyzer]");
    }
    for (key, what) in [
        ("similarity", "[similarity]"),
        ("position_increment_gap", "[position_increment_gap] values"),
    ] {
        if given(old, key) != given(new, key) {
            differ(what);
        }
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "Mapper for [{path}] conflicts with existing mapping in other types:\n[{}]",
        conflicts.join(", ")
    )))
}
