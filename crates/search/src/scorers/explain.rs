//! Explanations: trees whose every node follows from its children, in Lucene's words.

use serde_json::{Value, json};

/// One node of an explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The document matches.
    pub matched: bool,
    /// The value of this node.
    pub value: f32,
    /// Written instead, exactly: counts of documents, moments.
    pub whole: Option<i64>,
    /// In words.
    pub description: String,
    /// The nodes that the value is computed from.
    pub details: Vec<Explained>,
}

impl Explained {
    /// A matching leaf.
    pub fn new(value: f32, description: impl Into<String>) -> Explained {
        Explained {
            matched: true,
            value,
            whole: None,
            description: description.into(),
            details: Vec::new(),
        }
    }
    /// A count.
    pub fn count(value: u64, description: impl Into<String>) -> Explained {
        Explained::whole(i64::try_from(value).unwrap_or(i64::MAX), description)
    }
    /// A whole number that a float may not hold.
    pub fn whole(value: i64, description: impl Into<String>) -> Explained {
        Explained {
            whole: Some(value),
            ..Explained::new(value as f32, description)
        }
    }
    /// The document does not match.
    pub fn no_match(description: impl Into<String>) -> Explained {
        Explained {
            matched: false,
            ..Explained::new(0.0, description)
        }
    }
    /// With what it follows from.
    pub fn of(mut self, details: Vec<Explained>) -> Explained {
        self.details = details;
        self
    }
    /// As `_explanation` shows it.
    pub fn to_json(&self) -> Value {
        let value = match self.whole {
            Some(whole) => json!(whole),
            None => self.value.to_string().parse::<f64>().map_or(Value::Null, Value::from),
        };
        let details: Vec<Value> = self.details.iter().map(Explained::to_json).collect();
        json!({ "value": value, "description": self.description, "details": details })
    }
}
