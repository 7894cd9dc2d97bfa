//! The limits and the analyzers of a mapping, from the flat settings of its index.

use crate::{MappingLimits, Registry};
use model::{Result, settings};
use serde_json::{Map, Value};

/// The analyzers that the settings define.
///
/// # Errors
/// The section `analysis`.
pub fn registry(flat: &Map<String, Value>) -> Result<Registry> {
    let mut tree = Value::Object(Map::new());
    let mut any = false;
    for (name, value) in flat.iter().filter(|(name, _)| name.starts_with("index.analysis.")) {
        let parts: Vec<&str> = name.splitn(5, '.').collect();
        // index.analysis.<part>.<name>.<option>: names may not have dots, options may.
        let mut at = &mut tree;
        for part in &parts[2..] {
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[*part];
        }
        *at = value.clone();
        any = true;
    }
    if any {
        let number = |setting| usize::try_from(settings::number(flat, setting)).unwrap_or(usize::MAX);
        let limits = analysis::Limits {
            max_ngram_diff: number(settings::MAX_NGRAM_DIFF),
            max_shingle_diff: number(settings::MAX_SHINGLE_DIFF),
        };
        Registry::from_settings_within(&tree, limits)
    } else {
        Ok(Registry::default_registry())
    }
}

/// Limits of mappings.
pub fn limits(flat: &Map<String, Value>) -> MappingLimits {
    let number = |setting| usize::try_from(settings::number(flat, setting)).unwrap_or(usize::MAX);
    let flag = |name: &str, default: bool| flat.get(name).and_then(Value::as_str).map_or(default, |v| v == "true");
    MappingLimits {
        total_fields: number(settings::MAPPING_TOTAL_FIELDS),
        depth: number(settings::MAPPING_DEPTH),
        nested_fields: number(settings::MAPPING_NESTED_FIELDS),
        nested_objects: number(settings::MAPPING_NESTED_OBJECTS),
        field_name_length: number(settings::MAPPING_FIELD_NAME),
        ignore_malformed: flag("index.mapping.ignore_malformed", false),
        coerce: flag("index.mapping.coerce", true),
        similarities: Some(crate::similarity::names(flat)),
    }
}
