//! A script as a request names it: inline or stored, with its parameters.

use crate::json::{Fields, Json, Node, unsupported_value};
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// Where the text comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptText {
    /// `source` (`inline` in 2015).
    Inline(String),
    /// `id`: stored by `_scripts`.
    Stored(String),
}

/// A script with its language and parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptSource {
    /// Inline or stored.
    pub text: ScriptText,
    /// `lang`; absent means the default language.
    pub lang: Option<String>,
    /// `params`.
    pub params: Map<String, Value>,
    /// Groovy, not painless, is the language if none is named.
    pub defaults_to_groovy: bool,
}

/// The keys of a script in 2015.
fn check_of_2015(node: &Node) -> Result<()> {
    let refuse = |reason: String| Err(Error::new(ErrorKind::ScriptParse, reason));
    let Json::Object(members) = &node.value else { return Ok(()) };
    for (name, value) in members {
        match name.as_str() {
            "params" if !value.is_object() => {
                return refuse(format!(
                    "expected an object for field [params], but found [{}]",
                    value.kind_name()
                ));
            }
            "params" | "inline" | "id" | "file" | "lang" | "script" => {}
            other => return refuse(format!("unexpected field [{other}]")),
        }
    }
    Ok(())
}

impl ScriptSource {
    /// A stored script of 2015, by its name beside other options.
    pub(crate) fn from_stored_id(id: String) -> ScriptSource {
        ScriptSource {
            text: ScriptText::Stored(id),
            lang: None,
            params: Map::new(),
            defaults_to_groovy: true,
        }
    }

    /// Reads the value of `script`: its text, or an object with `source` (`inline`), or `id` (`stored`).
    ///
    /// # Errors
    /// It is neither, or names no script.
    pub fn parse(node: Node, dialect: Dialect) -> Result<ScriptSource> {
        let rules = dialect.rules;
        if !node.is_object() {
            let text = ScriptText::Inline(node.string("script")?);
            return Ok(ScriptSource {
                text,
                lang: None,
                params: Map::new(),
                defaults_to_groovy: rules.defaults_to_groovy,
            });
        }
        if rules.script_parse_exceptions {
            check_of_2015(&node)?;
        }
        let mut fields = node.fields("script")?;
        let inline = match fields.take_any(&["source", "inline", "script"]) {
            // A source that is JSON is its text.
            Some(node) if node.is_object() || node.is_array() && rules.tolerates_value_types => {
                Some(node.into_value().to_string())
            }
            Some(node) if !rules.tolerates_value_types && node.as_str().is_none() => {
                return Err(unsupported_value("script", "source", &node));
            }
            Some(node) => Some(node.string("source")?),
            None => None,
        };
        let stored = match fields.take_any(&["id", "stored", "file"]) {
            Some(node) => Some(node.string("id")?),
            None => None,
        };
        let lang = fields.take_string("lang")?;
        if let Some(node) = fields
            .member("params")
            .filter(|node| !rules.tolerates_value_types && !node.is_object())
        {
            return Err(unsupported_value("script", "params", node));
        }
        let params = fields.take_map("params")?.unwrap_or_default();
        fields.take("options");
        fields.lenient(rules.skips_unknown_keys).finish()?;
        let text = match (inline, stored) {
            (Some(_), Some(_)) => {
                return Err(Error::illegal("must use only one of [source, id] for a script"));
            }
            (Some(source), None) => ScriptText::Inline(source),
            (None, Some(id)) => ScriptText::Stored(id),
            (None, None) if rules.script_parse_exceptions => {
                let sentence = "expected one of [inline], [file] or [id] fields, but found none";
                return Err(Error::new(ErrorKind::ScriptParse, sentence));
            }
            (None, None) => {
                return Err(Error::illegal(
                    "must specify either [source] for an inline script or [id] for a stored script",
                ));
            }
        };
        Ok(ScriptSource {
            text,
            lang,
            params,
            defaults_to_groovy: rules.defaults_to_groovy,
        })
    }

    /// Takes `script` from a body; in the typed dialect also `script_id`, `script_file` and the siblings `lang` and `params`,
    /// which count only where `script` is text.
    ///
    /// # Errors
    /// As [`ScriptSource::parse`].
    pub fn take(fields: &mut Fields, dialect: Dialect) -> Result<Option<ScriptSource>> {
        let script = fields.take("script");
        if !dialect.rules.script_options_beside_script {
            return script.map(|node| ScriptSource::parse(node, dialect)).transpose();
        }
        let lang = fields.take_string("lang")?;
        let params = fields.take_map("params")?;
        let stored = match fields.take_any(&["script_id", "id", "script_file", "file"]) {
            Some(node) => Some(node.string("script_id")?),
            None => None,
        };
        match (script, stored) {
            (Some(node), _) if node.is_object() => ScriptSource::parse(node, dialect).map(Some),
            (Some(node), _) => {
                let script = ScriptSource::parse(node, dialect)?;
                Ok(Some(ScriptSource {
                    lang,
                    params: params.unwrap_or_default(),
                    ..script
                }))
            }
            (None, Some(id)) => Ok(Some(ScriptSource {
                text: ScriptText::Stored(id),
                lang,
                params: params.unwrap_or_default(),
                defaults_to_groovy: true,
            })),
            (None, None) => Ok(None),
        }
    }

    /// As a request says it.
    pub fn render(&self) -> Value {
        let mut body = Map::new();
        match &self.text {
            ScriptText::Inline(text) if self.defaults_to_groovy => body.insert("inline".into(), text.clone().into()),
            ScriptText::Inline(text) => body.insert("source".into(), text.clone().into()),
            ScriptText::Stored(id) => body.insert("id".into(), id.clone().into()),
        };
        if let Some(lang) = &self.lang {
            body.insert("lang".into(), lang.clone().into());
        }
        if !self.params.is_empty() {
            body.insert("params".into(), self.params.clone().into());
        }
        body.into()
    }
}
