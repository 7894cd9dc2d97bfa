//! The mapping of one field, as `_mapping` shows it.

use crate::field::{FieldType, Kind};
use serde_json::{Map, Value};

impl FieldType {
    /// The mapping of this field alone, as `_mapping` renders it.
    pub fn render(&self) -> Value {
        render(self)
    }
}

fn render(field: &FieldType) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), field.wire().into());
    for (key, value) in &field.params {
        match key.as_str() {
            "copy_to" if value.is_string() => out.insert(key.clone(), Value::Array(vec![value.clone()])),
            "omit_norms" => out.insert("norms".into(), serde_json::json!({ "enabled": value != &Value::Bool(true) })),
            "search_analyzer" if field.string && Some(value) == field.params.get("analyzer") => None,
            _ => out.insert(key.clone(), value.clone()),
        };
    }
    if field.kind == Kind::Completion {
        for (key, value) in [
            ("analyzer", Value::from("simple")),
            ("preserve_separators", true.into()),
            ("preserve_position_increments", true.into()),
            ("max_input_length", 50.into()),
        ] {
            out.entry(key).or_insert(value);
        }
    }
    if field.kind.is_text() && !field.string && out.contains_key("search_analyzer") {
        out.entry("analyzer").or_insert("default".into());
    }
    if field.kind == Kind::Join {
        out.insert("eager_global_ordinals".into(), field.eager_global_ordinals.into());
    }
    if !field.fields.is_empty() {
        let mut names: Vec<_> = field.fields.iter().collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let fields = names.into_iter().map(|(name, field)| (name.clone(), render(field))).collect();
        out.insert("fields".into(), Value::Object(fields));
    }
    Value::Object(out)
}
