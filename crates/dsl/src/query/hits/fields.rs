//! `fields`, `docvalue_fields`, `stored_fields` and `script_fields`: values beside the source.

use crate::json::{Json, Node, unsupported_value};
use crate::query::script_source::ScriptSource;
use crate::shape;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// A field or pattern with an optional format.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldAndFormat {
    /// The field or pattern.
    pub field: String,
    /// The format of dates and numbers.
    pub format: Option<String>,
    /// Fields without mapping are read from the source too.
    pub include_unmapped: bool,
}

impl FieldAndFormat {
    /// Reads one entry: a name, or an object.
    ///
    /// # Errors
    /// No name, or an option that does not exist.
    pub fn parse(node: Node, dialect: Dialect) -> Result<FieldAndFormat> {
        let strict = !dialect.rules.tolerates_value_types;
        let text = |value: &Node, or_null: bool| value.as_str().is_some() || or_null && value.is_null();
        let mut out = FieldAndFormat {
            field: String::new(),
            format: None,
            include_unmapped: false,
        };
        if !matches!(node.value, Json::Object(_)) {
            if let (Json::Array(_) | Json::Null, true) = (&node.value, strict) {
                let (line, col, found) = (node.line, node.col, node.kind_name());
                let what = format!("[{line}:{col}] [docvalues_field] Expected START_OBJECT but was: {found}");
                return Err(Error::new(ErrorKind::XContentParse, what));
            }
            out.field = node.string("field")?;
            return Ok(out);
        }
        let mut named = false;
        for (key, value) in shape::object(node, "field_and_format")? {
            match key.as_str() {
                "field" | "format" if strict && !text(&value, key == "format") => {
                    return Err(unsupported_value("docvalues_field", &key, &value));
                }
                "field" => {
                    out.field = value.string("field")?;
                    named = true;
                }
                "format" => {
                    out.format = if value.is_null() {
                        None
                    } else {
                        Some(value.string("format")?)
                    }
                }
                "include_unmapped" => out.include_unmapped = value.boolean("include_unmapped")?,
                _ => {
                    return Err(shape::unknown_field(
                        "field_and_format",
                        &key,
                        &value,
                        &["field", "format", "include_unmapped"],
                    ));
                }
            }
        }
        if named {
            Ok(out)
        } else {
            Err(shape::missing_required("field"))
        }
    }
    /// Reads a list of entries; `name` is the key that holds it.
    ///
    /// # Errors
    /// Not a list, or an entry that is refused.
    pub fn parse_list(node: Node, name: &str, dialect: Dialect) -> Result<Vec<FieldAndFormat>> {
        match node.value {
            Json::Array(items) => items.into_iter().map(|item| FieldAndFormat::parse(item, dialect)).collect(),
            Json::String(_) if dialect.rules.tolerates_value_types => Ok(vec![FieldAndFormat::parse(node, dialect)?]),
            _ => Err(shape::unknown_key(name, &node, &[])),
        }
    }
    /// As in a request.
    pub fn render(&self) -> Value {
        let mut out = Map::new();
        out.insert("field".into(), self.field.as_str().into());
        if let Some(format) = &self.format {
            out.insert("format".into(), format.as_str().into());
        }
        if self.include_unmapped {
            out.insert("include_unmapped".into(), true.into());
        }
        Value::Object(out)
    }
}

/// One of `script_fields`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptField {
    /// Its name in hits.
    pub name: String,
    /// The script that computes it.
    pub script: ScriptSource,
    /// A script that fails leaves the field out of the hit.
    pub ignore_failure: bool,
}

impl ScriptField {
    /// As in a request: by its name.
    pub fn render(&self) -> (String, Value) {
        let mut out = Map::from_iter([("script".to_owned(), self.script.render())]);
        if self.ignore_failure {
            out.insert("ignore_failure".into(), true.into());
        }
        (self.name.clone(), Value::Object(out))
    }
}

/// Reads `script_fields`: an object of scripts by name.
pub(crate) fn parse_script_fields(node: Node, dialect: Dialect) -> Result<Vec<ScriptField>> {
    shape::object(node, "script_fields")?
        .into_iter()
        .map(|(name, definition)| {
            let missing = definition.error(format!("script is required for [{name}]"));
            let (mut script, mut siblings, mut ignore_failure) = (None, ScriptSiblings::default(), false);
            for (key, value) in shape::object(definition, "script_fields")? {
                match key.as_str() {
                    "script" => script = Some(ScriptSource::parse(value, dialect)?),
                    "ignore_failure" => ignore_failure = value.boolean("ignore_failure")?,
                    "script_id" | "script_file" if dialect.rules.takes_former_options => {
                        script = Some(ScriptSource::from_stored_id(value.string(&key)?))
                    }
                    _ if siblings.take(&key, &value, dialect)? => {}
                    // 2015 passed over what it did not know here.
                    _ if dialect.rules.skips_unknown_keys => {}
                    _ => return Err(shape::unknown_key(&key, &value, &["script", "ignore_failure"])),
                }
            }
            let mut script = script.ok_or(missing)?;
            siblings.apply(&mut script);
            Ok(ScriptField {
                name,
                script,
                ignore_failure,
            })
        })
        .collect()
}

/// `params` and `lang` beside `script`, as 2015 wrote them.
#[derive(Default)]
pub(crate) struct ScriptSiblings {
    params: Option<Map<String, Value>>,
    lang: Option<String>,
}

impl ScriptSiblings {
    /// Takes a key that belongs to the script, in the typed dialect.
    pub(crate) fn take(&mut self, key: &str, value: &Node, dialect: Dialect) -> Result<bool> {
        match key {
            "params" if dialect.rules.script_options_beside_script => {
                self.params = match value.to_value() {
                    Value::Object(params) => Some(params),
                    _ => None,
                }
            }
            "lang" if dialect.rules.script_options_beside_script => self.lang = Some(value.string("lang")?),
            _ => return Ok(false),
        }
        Ok(true)
    }
    /// Puts them into the script, where it has none of its own.
    pub(crate) fn apply(self, script: &mut ScriptSource) {
        if let (true, Some(params)) = (script.params.is_empty(), self.params) {
            script.params = params;
        }
        if script.lang.is_none() {
            script.lang = self.lang;
        }
    }
}
