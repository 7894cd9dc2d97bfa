//! The body of an update: a partial document or a script, and what to do where there is no document yet.

use super::reading;
use crate::json;
use crate::query::hits::{ScriptSiblings, SourceSpec};
use crate::query::script_source::ScriptSource;
use crate::shape;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::Value;

/// `_update`.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateBody {
    pub doc: Option<Value>,
    pub doc_as_upsert: bool,
    pub script: Option<ScriptSource>,
    pub upsert: Option<Value>,
    pub scripted_upsert: bool,
    pub detect_noop: bool,
    /// The part of the new source that the answer carries.
    pub source: SourceSpec,
    /// `fields` of 2015: what of the new source the answer shows beside it.
    pub fields: Option<Vec<String>>,
    pub if_seq_no: Option<i64>,
    pub if_primary_term: Option<i64>,
}

const KEYS: &[&str] = &[
    "doc",
    "doc_as_upsert",
    "script",
    "upsert",
    "scripted_upsert",
    "detect_noop",
    "_source",
    "if_seq_no",
    "if_primary_term",
];

/// Why a member is not taken.
enum Refused {
    /// There is none of that name.
    Unknown(Error),
    /// Its value says nothing.
    Value(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Value(error)
    }
}

/// May a member have a value of that kind? Of those that there are not anything may be said.
fn takes(key: &str, value: &json::Node) -> bool {
    let is_scalar = !value.is_null() && !value.is_object() && !value.is_array();
    match key {
        "doc" | "upsert" => value.is_object(),
        "script" => value.is_object() || value.as_str().is_some(),
        "_source" => !value.is_null() && !matches!(value.value, json::Json::Number(_)),
        _ if KEYS.contains(&key) => is_scalar,
        _ => true,
    }
}

impl UpdateBody {
    /// Reads the body of an update.
    ///
    /// # Errors
    /// Neither or both of `doc` and `script`; a field that does not exist.
    pub fn parse(bytes: &[u8], dialect: Dialect) -> Result<UpdateBody> {
        UpdateBody::parse_unvalidated(bytes, dialect)?.validate()
    }
    /// The same, for a URL that may add what is missing; [`UpdateBody::validate`] comes after.
    ///
    /// # Errors
    /// A field that does not exist or is malformed.
    pub fn parse_unvalidated(bytes: &[u8], dialect: Dialect) -> Result<UpdateBody> {
        let mut out = UpdateBody {
            doc: None,
            doc_as_upsert: false,
            script: None,
            upsert: None,
            scripted_upsert: false,
            detect_noop: true,
            source: SourceSpec::Default,
            fields: None,
            if_seq_no: None,
            if_primary_term: None,
        };
        if bytes.trim_ascii().is_empty() {
            return Ok(out);
        }
        let node = json::read(bytes, reading(dialect))?;
        if dialect.rules.fails_to_derive_content && !node.is_object() {
            return Err(Error::new(ErrorKind::Parse, "Failed to derive xcontent"));
        }
        let mut siblings = ScriptSiblings::default();
        let mut object_form = false;
        for (key, value) in shape::object(node, "UpdateRequest")? {
            let at = (value.line, value.col);
            if !dialect.rules.tolerates_value_types && !takes(&key, &value) {
                return Err(json::unsupported_value("UpdateRequest", &key, &value));
            }
            if key == "script" {
                object_form = value.is_object();
            }
            match out.take(&key, value, &mut siblings, dialect) {
                Err(Refused::Unknown(error)) => return Err(error),
                Err(Refused::Value(error)) if dialect.rules.refusals_are_unwrapped => return Err(error),
                Err(Refused::Value(error)) => return Err(shape::failed_field("UpdateRequest", &key, at, error)),
                Ok(()) => {}
            }
        }
        // Beside a script that is an object, 2015 passed over `params`.
        if let Some(script) = out
            .script
            .as_mut()
            .filter(|_| !(object_form && dialect.rules.script_options_beside_script))
        {
            siblings.apply(script);
        }
        Ok(out)
    }
    fn take(
        &mut self,
        key: &str,
        value: json::Node,
        siblings: &mut ScriptSiblings,
        dialect: Dialect,
    ) -> std::result::Result<(), Refused> {
        let not_read = |value: &json::Node| dialect.rules.tolerates_value_types && !value.is_object();
        match key {
            "doc" if not_read(&value) => {
                let reason = "Compressor detection can only be called on some xcontent bytes or compressed xcontent bytes";
                let error = Error::new(ErrorKind::NotXContent, reason);
                return Err(Refused::Value(error.with_root_cause(Error::new(
                    ErrorKind::RemoteTransport,
                    "[indices:data/write/update[s]]",
                ))));
            }
            "doc" => self.doc = Some(value.into_value()),
            // A document that is made is parsed where it lands.
            "upsert" if not_read(&value) => {
                return Err(Refused::Value(Error::new(ErrorKind::MapperParsing, "failed to parse")));
            }
            "upsert" => self.upsert = Some(value.into_value()),
            "script" if not_read(&value) && value.as_str().is_none() => {}
            "_source"
                if dialect.rules.tolerates_value_types && (value.is_null() || matches!(value.value, json::Json::Number(_))) => {}
            "script" => self.script = Some(ScriptSource::parse(value, dialect)?),
            "script_id" | "script_file" if dialect.rules.takes_former_options => {
                self.script = Some(ScriptSource {
                    text: crate::query::script_source::ScriptText::Stored(value.string(key)?),
                    lang: None,
                    params: serde_json::Map::new(),
                    defaults_to_groovy: true,
                });
            }
            "doc_as_upsert" | "scripted_upsert" | "detect_noop" => {
                let set = match dialect.rules.reads_boolean_words {
                    true => value.boolean_typed(key)?,
                    false => value.boolean(key)?,
                };
                match key {
                    "doc_as_upsert" => self.doc_as_upsert = set,
                    "scripted_upsert" => self.scripted_upsert = set,
                    _ => self.detect_noop = set,
                }
            }
            "fields" if dialect.rules.takes_former_options => self.fields = Some(fields_of_2015(&value)),
            "_source" => self.source = SourceSpec::parse(value)?,
            "if_seq_no" | "if_primary_term" => {
                let number = value.i64(key).map_err(|error| Error::illegal(error.reason()))?;
                match key {
                    "if_seq_no" => self.if_seq_no = Some(number),
                    _ => self.if_primary_term = Some(number),
                }
            }
            _ if siblings.take(key, &value, dialect)? => {}
            _ if dialect.rules.skips_unknown_keys => {}
            _ => return Err(Refused::Unknown(shape::unknown_field("UpdateRequest", key, &value, KEYS))),
        }
        Ok(())
    }

    /// The body, if it asks for exactly one thing.
    ///
    /// # Errors
    /// Neither or both of `doc` and `script`.
    pub fn validate(self) -> Result<UpdateBody> {
        let mut problems = Vec::new();
        match (&self.doc, &self.script) {
            (None, None) => problems.push("script or doc is missing".to_owned()),
            (Some(_), Some(_)) => problems.push("can't provide both script and doc".to_owned()),
            _ => {}
        }
        if self.doc_as_upsert && self.doc.is_none() {
            problems.push("doc must be specified if doc_as_upsert is enabled".to_owned());
        }
        if problems.is_empty() {
            Ok(self)
        } else {
            Err(shape::validation_failed(&problems))
        }
    }
}

/// A name or a list of names; anything else names nothing.
pub(super) fn fields_of_2015(node: &json::Node) -> Vec<String> {
    let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    match &node.value {
        json::Json::String(text) => names(text),
        json::Json::Array(items) => items.iter().filter_map(json::Node::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Persona;

    fn check(persona: Persona, body: &str, expected: &str) {
        match UpdateBody::parse(body.as_bytes(), Dialect::of(persona)) {
            Ok(_) => assert_eq!("ok", expected, "{body}"),
            Err(error) => assert_eq!(error.reason(), expected, "{body}"),
        }
    }

    #[test]
    fn bodies() {
        let (new, old) = (Persona::Es8, Persona::Es2);
        let neither = "Validation Failed: 1: script or doc is missing;";
        check(new, r#"{"doc":{"a":1}}"#, "ok");
        check(new, r#"{"oops":1}"#, "[1:2] [UpdateRequest] unknown field [oops]");
        check(new, "{}", neither);
        check(
            new,
            r#"{"doc":{},"script":{"source":"1"}}"#,
            "Validation Failed: 1: can't provide both script and doc;",
        );
        check(old, r#"{"script":"x","params":{"a":1}}"#, "ok");
        check(old, r#"{"bogus":true}"#, neither);
        check(old, r#"{"script":5}"#, neither);
        check(old, "", neither);
        check(
            old,
            r#"{"doc_as_upsert":true}"#,
            "Validation Failed: 1: script or doc is missing;2: doc must be specified if doc_as_upsert is enabled;",
        );
    }
}
