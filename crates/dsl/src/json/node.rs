//! A value with its position: as one of ours or refused by its name.

use super::*;
use model::{Error, ErrorKind, Result};
use serde_json::Value;

impl Node {
    /// A node without a position.
    pub fn from_value(value: Value) -> Node {
        let value = match value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(b),
            Value::Number(n) => Json::Number(n),
            Value::String(s) => Json::String(s),
            Value::Array(items) => Json::Array(items.into_iter().map(Node::from_value).collect()),
            Value::Object(map) => Json::Object(map.into_iter().map(|(k, v)| (k, Node::from_value(v))).collect()),
        };
        Node {
            value,
            line: 0,
            col: 0,
            key: (0, 0),
        }
    }

    /// The value without positions. Of two members with one name the last stays.
    pub fn to_value(&self) -> Value {
        match &self.value {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => Value::Number(n.clone()),
            Json::String(s) => Value::String(s.clone()),
            Json::Array(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Json::Object(members) => Value::Object(members.iter().map(|(k, v)| (k.clone(), v.to_value())).collect()),
        }
    }

    /// [`Node::to_value`] without copying.
    pub fn into_value(self) -> Value {
        match self.value {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(b),
            Json::Number(n) => Value::Number(n),
            Json::String(s) => Value::String(s),
            Json::Array(items) => Value::Array(items.into_iter().map(Node::into_value).collect()),
            Json::Object(members) => Value::Object(members.into_iter().map(|(k, v)| (k, v.into_value())).collect()),
        }
    }

    /// The members of an object, to be taken one by one; `owner` is who refuses the rest.
    ///
    /// # Errors
    /// It is no object, or parsing was interrupted.
    pub fn fields(self, owner: &str) -> Result<Fields> {
        crate::interruption::look()?;
        let (line, col, kind) = (self.line, self.col, self.kind_name());
        let Json::Object(members) = self.value else {
            let sentence = format!("[{line}:{col}] [{owner}] Expected START_OBJECT but was: {kind}");
            return Err(Error::new(ErrorKind::XContentParse, sentence));
        };
        Ok(Fields {
            owner: owner.to_owned(),
            members: members.into(),
            known: String::new(),
            lenient: false,
            query: false,
            strict: false,
            object: false,
        })
    }

    /// Is it an object with a member of this name?
    pub fn has_member(&self, name: &str) -> bool {
        matches!(&self.value, Json::Object(members) if members.iter().any(|(known, _)| known == name))
    }

    /// The items of an array; anything else is its own only item.
    pub fn items(self) -> Vec<Node> {
        match self.value {
            Json::Array(items) => items,
            value => vec![Node { value, ..self }],
        }
    }

    /// Text; numbers and booleans count as their text.
    ///
    /// # Errors
    /// It is null, a list or an object, or parsing was interrupted.
    pub fn string(&self, name: &str) -> Result<String> {
        crate::interruption::look()?;
        match &self.value {
            Json::String(s) => Ok(s.clone()),
            Json::Number(n) => Ok(n.to_string()),
            Json::Bool(b) => Ok(b.to_string()),
            _ => Err(self.unfit(name, "a string")),
        }
    }

    /// `true`, `false` or these words as text.
    ///
    /// # Errors
    /// It is anything else.
    pub fn boolean(&self, name: &str) -> Result<bool> {
        match &self.value {
            Json::Bool(b) => Ok(*b),
            Json::String(s) if s == "true" => Ok(true),
            Json::String(s) if s == "false" => Ok(false),
            Json::Object(_) | Json::Array(_) => Err(self.misread(name, "a boolean")),
            _ => {
                let text = self.to_text();
                Err(Error::illegal(format!(
                    "Failed to parse value [{text}] as only [true] or [false] are allowed."
                )))
            }
        }
    }

    /// As the typed dialect reads it: false, 0, "no", "off" and nothing are false, the rest is true.
    ///
    /// # Errors
    /// It is a list or an object.
    pub fn boolean_typed(&self, name: &str) -> Result<bool> {
        match &self.value {
            Json::Null => Ok(false),
            Json::Bool(b) => Ok(*b),
            Json::Number(n) => Ok(n.as_f64() != Some(0.0)),
            Json::String(s) => Ok(!matches!(s.as_str(), "" | "false" | "0" | "no" | "off")),
            _ => Err(self.unfit(name, "a boolean")),
        }
    }

    /// A number or its text.
    ///
    /// # Errors
    /// It is anything else.
    pub fn f64(&self, name: &str) -> Result<f64> {
        match &self.value {
            Json::Number(n) => n.as_f64().ok_or_else(|| self.unfit(name, "a number")),
            Json::String(s) => s
                .trim()
                .parse()
                .ok()
                .filter(|n: &f64| n.is_finite())
                .ok_or_else(|| self.not_a_number(name, s)),
            _ => Err(self.misread(name, "a number")),
        }
    }

    /// A number or its text.
    ///
    /// # Errors
    /// It is anything else or too large.
    pub fn f32(&self, name: &str) -> Result<f32> {
        let text = self.f64(name)?.to_string();
        text.parse()
            .ok()
            .filter(|n: &f32| n.is_finite())
            .ok_or_else(|| self.not_a_number(name, &text))
    }

    /// A whole number or its text; fractions are cut.
    ///
    /// # Errors
    /// It is anything else or too large.
    #[allow(clippy::cast_possible_truncation, reason = "checked against the range")]
    pub fn i64(&self, name: &str) -> Result<i64> {
        let of_double = |n: f64| (n.is_finite() && n.abs() < 9.3e18).then_some(n as i64);
        match &self.value {
            Json::Number(n) => n
                .as_i64()
                .or_else(|| n.as_f64().and_then(of_double))
                .ok_or_else(|| self.unfit(name, "a whole number")),
            Json::String(s) => {
                let s = s.trim();
                s.parse()
                    .ok()
                    .or_else(|| s.parse().ok().and_then(of_double))
                    .ok_or_else(|| self.not_a_number(name, s))
            }
            _ => Err(self.misread(name, "a whole number")),
        }
    }

    /// A whole number from 0 up, or its text.
    ///
    /// # Errors
    /// It is anything else or too large.
    pub fn u32(&self, name: &str) -> Result<u32> {
        let n = self.i64(name)?;
        u32::try_from(n).map_err(|_| Error::illegal(format!("[{name}] must be between 0 and {}, was [{n}]", u32::MAX)))
    }

    /// A whole number from 0 up, or its text.
    ///
    /// # Errors
    /// It is anything else.
    pub fn usize(&self, name: &str) -> Result<usize> {
        let n = self.i64(name)?;
        usize::try_from(n).map_err(|_| Error::illegal(format!("[{name}] must be at least 0, was [{n}]")))
    }

    /// `null`.
    pub fn is_null(&self) -> bool {
        self.value == Json::Null
    }

    /// An object.
    pub fn is_object(&self) -> bool {
        matches!(self.value, Json::Object(_))
    }

    /// `{}`.
    pub fn is_empty_object(&self) -> bool {
        matches!(&self.value, Json::Object(members) if members.is_empty())
    }

    /// A list.
    pub fn is_array(&self) -> bool {
        matches!(self.value, Json::Array(_))
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Json::String(s) => Some(s),
            _ => None,
        }
    }

    /// Elasticsearch's name of its first token.
    pub fn kind_name(&self) -> &'static str {
        match &self.value {
            Json::Null => "VALUE_NULL",
            Json::Bool(_) => "VALUE_BOOLEAN",
            Json::Number(_) => "VALUE_NUMBER",
            Json::String(_) => "VALUE_STRING",
            Json::Array(_) => "START_ARRAY",
            Json::Object(_) => "START_OBJECT",
        }
    }

    /// `parsing_exception` at this node.
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::parsing(reason, self.line as usize, self.col as usize)
    }

    /// `x_content_parse_exception` at this node, its position in front as Elasticsearch's object parsers have it.
    pub fn field_error(&self, owner: &str, field: &str) -> Error {
        let sentence = format!("[{}:{}] [{owner}] failed to parse field [{field}]", self.line, self.col);
        Error::new(ErrorKind::XContentParse, sentence)
    }

    pub(super) fn unfit(&self, name: &str, wanted: &str) -> Error {
        self.error(format!("[{name}] must be {wanted} but was {}", self.kind_name()))
    }

    /// A token that cannot be a number or a boolean at all: the parser refuses it, not who asked for one.
    fn misread(&self, name: &str, wanted: &str) -> Error {
        if self.is_null() {
            return self.unfit(name, wanted);
        }
        let unfit = self.unfit(name, wanted);
        Error::new(ErrorKind::JsonParse, unfit.reason().to_owned())
    }

    pub(super) fn to_text(&self) -> String {
        match &self.value {
            Json::String(s) => s.clone(),
            _ => self.to_value().to_string(),
        }
    }
}

impl Node {
    /// The refusal of a text that is to be the number of a member.
    fn not_a_number(&self, name: &str, text: &str) -> Error {
        let said = match text.trim().is_empty() {
            true => "empty String".to_owned(),
            false => Error::no_number(text).reason().to_owned(),
        };
        let (line, col) = (self.line, self.col);
        Error::new(ErrorKind::NumberFormat, format!("{said} in [{name}] at [{line}:{col}]"))
    }
}
