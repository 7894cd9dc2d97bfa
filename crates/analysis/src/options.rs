//! The options of one definition: values that may be strings, numbers or lists, as settings have them.

use crate::java_regex;
use crate::languages::{languages, stop_words};
use model::{Error, Result, Topic, nearest::nearest};
use serde_json::{Map, Value};

/// The options of the definition called `name`.
pub(crate) struct Options<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: &'a Map<String, Value>,
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Options<'_> {
    /// A string; `null` is as good as absent.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.values.get(key).filter(|value| !value.is_null()).map(plain)
    }

    /// A string that must be there.
    pub(crate) fn require(&self, key: &str) -> Result<String> {
        self.text(key)
            .ok_or_else(|| Error::illegal(format!("{key} is missing for [{}]", self.name)))
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.text(key).as_deref() {
            None => Ok(default),
            // Old settings say yes and no in more ways.
            Some("true" | "1" | "on" | "yes") => Ok(true),
            Some("false" | "0" | "off" | "no") => Ok(false),
            Some(other) => Err(Error::no_boolean(other)),
        }
    }

    /// A number.
    pub(crate) fn number(&self, key: &str, default: usize) -> Result<usize> {
        match self.text(key) {
            None => Ok(default),
            Some(text) => text.trim().parse().map_err(|_| {
                let reason = format!("Failed to parse value [{text}] for setting [{key}] of [{}]", self.name);
                Error::illegal(reason).about(Topic::SettingValue {
                    name: key.to_owned(),
                    value: text.clone(),
                })
            }),
        }
    }

    /// A list, or a string with commas.
    pub(crate) fn list(&self, key: &str) -> Option<Vec<String>> {
        match self.values.get(key)? {
            Value::Null => None,
            Value::Array(values) => Some(values.iter().map(plain).collect()),
            other => {
                let text = plain(other);
                Some(
                    text.split(',')
                        .map(str::trim)
                        .filter(|word| !word.is_empty())
                        .map(str::to_owned)
                        .collect(),
                )
            }
        }
    }

    /// One character.
    pub(crate) fn character(&self, key: &str, default: char) -> Result<char> {
        let Some(text) = self.text(key) else {
            return Ok(default);
        };
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => Ok(c),
            (None, _) => Ok(default),
            _ => Err(Error::illegal(format!("{key} must be a one char value"))),
        }
    }

    /// Files are not read: says so if the option names one.
    pub(crate) fn no_file(&self, key: &str) -> Result<()> {
        match self.text(key) {
            None => Ok(()),
            Some(file) => Err(Error::illegal(format!(
                "[{key}] of [{}] names [{file}]: files are not supported, put the words in the definition",
                self.name
            ))),
        }
    }

    /// The stop words of `key`, where `_english_` stands for a list; `default` is such a name or empty.
    pub(crate) fn words(&self, key: &str, default: &str) -> Result<Vec<String>> {
        self.no_file(&format!("{key}_path"))?;
        let given = self.list(key).unwrap_or_else(|| vec![default.to_owned()]);
        let mut words = Vec::new();
        for word in given {
            match word.strip_prefix('_').and_then(|word| word.strip_suffix('_')) {
                Some("none") => {}
                Some(language) => match stop_words(language) {
                    Some(list) => words.extend(list.map(str::to_owned)),
                    None => {
                        let hint = nearest(language, languages()).map(|near| format!(", did you mean [_{near}_]?"));
                        return Err(Error::illegal(format!(
                            "no stop words for [{word}] of [{}]{}",
                            self.name,
                            hint.unwrap_or_default()
                        )));
                    }
                },
                None if word.is_empty() => {}
                None => words.push(word),
            }
        }
        Ok(words)
    }

    /// A regular expression.
    pub(crate) fn pattern(&self, key: &str, default: Option<&str>) -> Result<regex::Regex> {
        let pattern = match (self.text(key), default) {
            (Some(pattern), _) => pattern,
            (None, Some(default)) => default.to_owned(),
            (None, None) => {
                return self.require(key).and_then(|pattern| java_regex::compile(&pattern, ""));
            }
        };
        java_regex::compile(&pattern, &self.text("flags").unwrap_or_default())
    }
}
