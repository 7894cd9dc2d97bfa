//! The fields of an object, taken by name; what is left is refused with the nearest right name.

use super::*;
use model::nearest;
use model::{Error, ErrorKind, Result, Topic};
use serde_json::{Map, Value};
use std::collections::VecDeque;

const TEXT: &[&str] = &["VALUE_STRING"];
const NUMBER: &[&str] = &["VALUE_NUMBER", "VALUE_STRING"];
const FLAG: &[&str] = &["VALUE_BOOLEAN", "VALUE_STRING"];

/// Queries whose readers ask for a number whatever follows a name: what is none, the parser refuses.
const WHATEVER_FOLLOWS: &[&str] = &["range", "prefix", "wildcard", "regexp", "term", "span_term"];

/// `[1:2] [owner] failed to parse field [x]`, and why.
pub fn failed_field(owner: &str, key: &str, at: (u32, u32), cause: Error) -> Error {
    let reason = format!("[{}:{}] [{owner}] failed to parse field [{key}]", at.0, at.1);
    let root = cause.clone();
    let outer = Error::new(ErrorKind::XContentParse, reason).with_cause(cause);
    // Any other error with a position of its own is the root; other causes are not looked through.
    if matches!(root.kind(), ErrorKind::XContentParse | ErrorKind::Parsing | ErrorKind::Parse) {
        outer.with_root_cause(root.root().clone())
    } else {
        outer
    }
}

/// `[1:2] [owner] x doesn't support values of type: VALUE_NUMBER`.
pub fn unsupported_value(owner: &str, key: &str, node: &Node) -> Error {
    let kind = node.kind_name();
    let reason = format!(
        "[{}:{}] [{owner}] {key} doesn't support values of type: {kind}",
        node.line, node.col
    );
    Error::new(ErrorKind::XContentParse, reason)
}

/// An object's members while they are being taken; [`Fields::finish`] refuses the rest.
#[derive(Clone, Debug)]
pub struct Fields {
    pub(super) owner: String,
    pub(super) members: VecDeque<(String, Node)>,
    /// The names that were asked for, a line each: only a refusal reads them.
    pub(super) known: String,
    pub(super) lenient: bool,
    pub(super) query: bool,
    pub(super) strict: bool,
    pub(super) object: bool,
}

impl Fields {
    /// Unknown names are ignored and booleans read as in the typed dialect, if `lenient`.
    #[must_use]
    pub fn lenient(mut self, lenient: bool) -> Fields {
        self.lenient = lenient;
        self
    }

    /// Unknown names are refused even if booleans are read as in the typed dialect.
    #[must_use]
    pub fn strict(mut self) -> Fields {
        self.strict = true;
        self
    }

    /// Unknown names are refused as queries refuse them: `[owner] query does not support [x]`.
    #[must_use]
    pub fn of_query(mut self) -> Fields {
        self.query = true;
        self
    }

    /// Values are read as Elasticsearch's object parsers read them, if `object`: one of the wrong kind is refused by its
    /// kind, and what a value is refused for is the cause of `[owner] failed to parse field [x]`.
    #[must_use]
    pub fn of_object(mut self, object: bool) -> Fields {
        self.object = object;
        self
    }

    /// Whether values are read as [`Fields::of_object`] says.
    pub fn is_of_object(&self) -> bool {
        self.object
    }

    /// The member of that name as `read` reads it; `kinds` are those that it may be of where this is so.
    ///
    /// # Errors
    /// Its kind is another, or `read` refuses it.
    pub fn read<T>(&mut self, name: &str, kinds: &[&str], read: impl FnOnce(&Node) -> Result<T>) -> Result<Option<T>> {
        if !self.object {
            let given = self.take_given(name);
            // Most readers by hand know a name only where a value follows it.
            if let Some(node) = &given
                && self.query
                && !WHATEVER_FOLLOWS.contains(&self.owner.as_str())
                && !self.lenient
                && (node.is_object() || node.is_array())
            {
                return Err(node.error(format!("[{}] query does not support [{name}]", self.owner)));
            }
            return given.map(|node| read(&node)).transpose();
        }
        let Some(node) = self.take(name) else {
            return Ok(None);
        };
        if !kinds.contains(&node.kind_name()) {
            return Err(unsupported_value(&self.owner, name, &node));
        }
        let at = (node.line, node.col);
        let owner = &self.owner;
        read(&node).map(Some).map_err(|cause| failed_field(owner, name, at, cause))
    }

    /// The member of that name. Of several the last.
    pub fn take(&mut self, name: &str) -> Option<Node> {
        if self.known.is_empty() {
            self.known.reserve(256);
        }
        self.known.push_str(name);
        self.known.push('\n');
        let at = self.members.iter().rposition(|(n, _)| n == name)?;
        let found = self.members.remove(at).map(|(_, node)| node);
        self.members.retain(|(n, _)| n != name);
        found
    }

    /// The member of any of these names; the first name is the one to suggest.
    pub fn take_any(&mut self, names: &[&str]) -> Option<Node> {
        let mut found = None;
        for name in names {
            let node = self.take(name);
            found = found.or(node);
        }
        found
    }

    /// The member of that name.
    ///
    /// # Errors
    /// It is missing.
    pub fn require(&mut self, name: &str) -> Result<Node> {
        self.take(name).ok_or_else(|| self.missing(name))
    }

    /// The refusal where a member is needed: it names the member whose name is nearly that, if there is one.
    fn missing(&self, name: &str) -> Error {
        let owner = &self.owner;
        let near = |(given, _): &&(String, Node)| nearest::nearest(given, [name]).is_some();
        match self.members.iter().find(near) {
            Some((given, node)) => {
                let (line, col) = node.key;
                let reason = format!("[{line}:{col}] [{owner}] unknown field [{given}] did you mean [{name}]?");
                let error = Error::new(ErrorKind::XContentParse, reason);
                error.with("line", line).with("col", col)
            }
            None => Error::illegal(format!("Required [{name}] for [{owner}]")),
        }
    }

    /// Whose members they are, for errors.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The next member, whatever its name.
    pub fn next_field(&mut self) -> Option<(String, Node)> {
        self.members.pop_front()
    }

    /// All that were not taken.
    pub fn remaining(self) -> Vec<(String, Node)> {
        self.members.into()
    }

    /// How many were not taken.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether all were taken.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether a member of that name is there, not taken yet.
    pub fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(n, _)| n == name)
    }

    /// The member of that name, left where it is.
    pub fn member(&self, name: &str) -> Option<&Node> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, node)| node)
    }

    /// The member of that name, left where it is, if it is a list or an object.
    pub fn container(&self, name: &str) -> Option<&Node> {
        self.member(name).filter(|node| node.is_object() || node.is_array())
    }

    /// Text, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not text.
    pub fn take_string(&mut self, name: &str) -> Result<Option<String>> {
        self.read(name, TEXT, |n| n.string(name))
    }

    /// Text or a list of texts.
    ///
    /// # Errors
    /// An item is not text.
    pub fn take_strings(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        self.take_given(name)
            .map(|n| n.items().iter().map(|i| i.string(name)).collect())
            .transpose()
    }

    /// A boolean, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not a boolean.
    pub fn take_bool(&mut self, name: &str) -> Result<Option<bool>> {
        let lenient = self.lenient;
        self.read(name, FLAG, |n| if lenient { n.boolean_typed(name) } else { n.boolean(name) })
    }

    /// A number, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not a number.
    pub fn take_f32(&mut self, name: &str) -> Result<Option<f32>> {
        self.read(name, NUMBER, |n| n.f32(name))
    }

    /// A number, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not a number.
    pub fn take_f64(&mut self, name: &str) -> Result<Option<f64>> {
        self.read(name, NUMBER, |n| n.f64(name))
    }

    /// A whole number from 0 up, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not one.
    pub fn take_u32(&mut self, name: &str) -> Result<Option<u32>> {
        self.read(name, NUMBER, |n| n.u32(name))
    }

    /// A whole number from 0 up, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not one.
    pub fn take_usize(&mut self, name: &str) -> Result<Option<usize>> {
        self.read(name, NUMBER, |n| n.usize(name))
    }

    /// A whole number, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not one.
    pub fn take_i64(&mut self, name: &str) -> Result<Option<i64>> {
        self.read(name, NUMBER, |n| n.i64(name))
    }

    /// A value as it is, or `None` where it is missing.
    pub fn take_value(&mut self, name: &str) -> Option<Value> {
        self.take(name).map(Node::into_value)
    }

    /// An object as it is, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not an object.
    pub fn take_map(&mut self, name: &str) -> Result<Option<Map<String, Value>>> {
        let Some(node) = self.take_given(name) else {
            return Ok(None);
        };
        let error = node.unfit(name, "an object");
        match node.into_value() {
            Value::Object(map) => Ok(Some(map)),
            _ => Err(error),
        }
    }

    /// Adds a member at the end.
    pub fn put(&mut self, name: &str, node: Node) {
        self.members.push_back((name.to_owned(), node));
    }

    /// These, then those of `other` whose names are not here.
    #[must_use]
    pub fn with_missing(mut self, other: Fields) -> Fields {
        for (name, node) in other.members {
            if !self.has(&name) {
                self.members.push_back((name, node));
            }
        }
        self
    }

    pub(super) fn take_given(&mut self, name: &str) -> Option<Node> {
        self.take(name).filter(|n| !n.is_null())
    }

    /// As [`Fields::finish`], in the words of Elasticsearch's object parsers: `[1:5] [owner] unknown field [x]`.
    ///
    /// # Errors
    /// As [`Fields::finish`].
    pub fn finish_as_object(mut self) -> Result<()> {
        self.query = false;
        self.finish()
    }

    /// Refuses the first member that was not taken.
    ///
    /// # Errors
    /// There is one, and this is not lenient.
    pub fn finish(self) -> Result<()> {
        let Some((name, node)) = self.members.front() else {
            return Ok(());
        };
        if self.lenient && !self.strict {
            return Ok(());
        }
        let owner = &self.owner;
        if self.query {
            return Err(node.error(format!("[{owner}] query does not support [{name}]")));
        }
        let (line, col) = node.key;
        let meant = nearest::question(name, self.known.lines());
        let sentence = format!("[{line}:{col}] [{owner}] unknown field [{name}]{meant}");
        Err(Error::new(ErrorKind::XContentParse, sentence)
            .with("line", line)
            .with("col", col)
            .about(Topic::UnknownField { name: name.clone() }))
    }
}
