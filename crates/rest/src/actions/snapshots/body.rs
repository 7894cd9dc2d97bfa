//! The bodies of requests about snapshots: their fields with the refusals of the reference.

use model::{Error, Result, Target};
use serde_json::{Map, Value};

/// The fields of a body that are not taken yet.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// # Errors
    /// A body that is no object.
    pub(crate) fn of(body: Option<Value>) -> Result<Fields> {
        match body {
            None => Ok(Fields(Map::new())),
            Some(Value::Object(map)) => Ok(Fields(map)),
            Some(_) => Err(Error::illegal("the request body must be an object")),
        }
    }
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }
    /// Names, as an array or in one text.
    pub(crate) fn names(&mut self, name: &str) -> Result<Vec<String>> {
        let malformed = || Error::illegal(format!("malformed {name} section, should be an array of strings"));
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(crate::query_params::split_list(&text)),
            Some(Value::Array(list)) => list
                .iter()
                .map(|one| one.as_str().map(str::to_owned).ok_or_else(malformed))
                .collect(),
            Some(_) => Err(malformed()),
        }
    }
    pub(crate) fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.take(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            Some(other) => {
                let text = other.as_str().map_or_else(|| other.to_string(), str::to_owned);
                Err(Error::no_boolean(&text))
            }
        }
    }
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Error::illegal(format!("malformed {name}"))),
        }
    }
    pub(crate) fn object(&mut self, name: &str, malformed: &str) -> Result<Option<Map<String, Value>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(Error::illegal(malformed)),
        }
    }
    /// The indices of a snapshot to take: all, with closed and hidden ones, unless the body says otherwise.
    pub(crate) fn target(&mut self) -> Result<Target> {
        let mut target = Target {
            expand_closed: true,
            expand_hidden: true,
            forbid_closed: false,
            ..Target::of(self.names("indices")?)
        };
        target.ignore_unavailable = self.flag("ignore_unavailable", false)?;
        target.allow_no_indices = self.flag("allow_no_indices", true)?;
        let words = self.names("expand_wildcards")?;
        if !words.is_empty() {
            (target.expand_open, target.expand_closed, target.expand_hidden) = (false, false, false);
        }
        for word in &words {
            match word.as_str() {
                "open" => target.expand_open = true,
                "closed" => target.expand_closed = true,
                "hidden" => target.expand_hidden = true,
                "all" => (target.expand_open, target.expand_closed, target.expand_hidden) = (true, true, true),
                "none" => (target.expand_open, target.expand_closed, target.expand_hidden) = (false, false, false),
                other => {
                    return Err(Error::illegal(format!("No valid expand wildcard value [{other}]")));
                }
            }
        }
        Ok(target)
    }
    /// Features with state of their own are none of this server's.
    ///
    /// # Errors
    /// One is asked for: `why` it is not there.
    pub(crate) fn no_features(&mut self, why: &str) -> Result<()> {
        let features = self.names("feature_states")?;
        match features.iter().find(|name| *name != "none") {
            None => Ok(()),
            Some(name) => Err(Error::illegal(format!("requested feature [{name}] is not supported: {why}"))),
        }
    }
    /// # Errors
    /// A field that nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.0.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => Err(Error::illegal(format!("Unknown parameter {name}"))),
        }
    }
}
