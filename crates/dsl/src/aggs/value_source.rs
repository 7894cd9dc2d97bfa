//! Where an aggregation's values come from: a field or a script, and what stands in where there is none.

use super::{AggKind, ValueSource};
use crate::json::{Fields, Node};
use crate::query::hits::ScriptSiblings;
use crate::query::script_source::ScriptSource;
use model::{Dialect, Error, Result, Topic};
use serde_json::{Map, Value};

impl ValueSource {
    /// Takes `field`, `script`, `missing` and `format` out of an aggregation's body.
    ///
    /// # Errors
    /// One of them is of the wrong kind.
    pub(crate) fn take(fields: &mut Fields, dialect: Dialect) -> Result<ValueSource> {
        let script_kinds = ["VALUE_STRING", "START_OBJECT"];
        let mut script = fields.read("script", &script_kinds, |node| ScriptSource::parse(node.clone(), dialect))?;
        if let (true, Some(script)) = (dialect.rules.script_options_beside_script, &mut script) {
            let mut siblings = ScriptSiblings::default();
            for key in ["params", "lang"] {
                if let Some(value) = fields.take(key) {
                    siblings.take(key, &value, dialect)?;
                }
            }
            siblings.apply(script);
        }
        Ok(ValueSource {
            field: fields.take_string("field")?,
            script,
            missing: match fields.take("missing") {
                Some(node) if node.is_null() && !dialect.rules.tolerates_value_types => {
                    return Err(crate::shape::failed_field(
                        fields.owner(),
                        "missing",
                        (node.line, node.col),
                        Error::illegal("[missing] must not be null"),
                    ));
                }
                node => node.map(Node::into_value).filter(|value| !value.is_null()),
            },
            format: fields.take_string("format")?,
        })
    }
    /// Adds what it says to an aggregation's body.
    pub(crate) fn render_into(&self, out: &mut Map<String, Value>) {
        if let Some(field) = &self.field {
            out.insert("field".into(), field.as_str().into());
        }
        if let Some(script) = &self.script {
            out.insert("script".into(), script.render());
        }
        if let Some(missing) = &self.missing {
            out.insert("missing".into(), missing.clone());
        }
        if let Some(format) = &self.format {
            out.insert("format".into(), format.as_str().into());
        }
    }
}

/// Today's values come from a field or from a script; a missing source is refused after an unknown option.
pub(super) fn check_source(kind: &AggKind, dialect: Dialect) -> Result<()> {
    match kind.source() {
        Some(source) if source.field.is_none() && source.script.is_none() && !dialect.rules.tolerates_missing_options => {
            Err(no_value_source("[field, script]"))
        }
        _ => Ok(()),
    }
}

/// The refusal of an aggregation that has none of the options that say where its values come from.
pub fn no_value_source(options: &str) -> Error {
    Error::illegal(format!("Required one of fields {options}, but none were specified. ")).about(Topic::ValueSource)
}

/// Takes an option and reads it with `read`; a failure names the aggregation and the option.
pub(crate) fn option<T>(
    fields: &mut Fields,
    owner: &str,
    name: &str,
    read: impl FnOnce(&Node) -> Result<T>,
) -> Result<Option<T>> {
    let Some(node) = fields.take(name) else {
        return Ok(None);
    };
    if node.is_null() {
        return match fields.is_of_object() {
            true => Err(crate::json::unsupported_value(owner, name, &node)),
            false => Ok(None),
        };
    }
    let at = (node.line, node.col);
    read(&node)
        .map(Some)
        .map_err(|cause| crate::shape::failed_field(owner, name, at, cause))
}
