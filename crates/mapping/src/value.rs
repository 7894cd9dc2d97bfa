//! The typed values of a document, under field paths.

use std::sync::Arc;

/// A value as its field type has it.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// To be analyzed.
    Text(String),
    /// One term, already normalized.
    Keyword(String),
    /// `long`, `integer`, `short`, `byte`, `token_count`.
    Long(i64),
    /// `unsigned_long`.
    UnsignedLong(u64),
    /// All floating-point types; `half_float` and `float` are rounded to theirs, `scaled_float` to its scale.
    Double(f64),
    /// `boolean`.
    Bool(bool),
    /// Milliseconds since 1970, UTC.
    Date(i64),
    /// Nanoseconds since 1970, UTC.
    DateNanos(i64),
    /// 16 bytes, most significant first; IPv4 mapped to `::ffff:a.b.c.d`.
    Ip([u8; 16]),
    /// `geo_point`, in degrees.
    Geo {
        /// −90 to 90.
        lat: f64,
        /// −180 to 180.
        lon: f64,
    },
    /// A range, as keys in the order of its ends' values; both ends are in it.
    Range {
        /// Its least value.
        low: u128,
        /// Its greatest value.
        high: u128,
    },
    /// `completion`: an entry for each input, as [`crate::completion`] writes it.
    Completion(Vec<String>),
    /// Decoded bytes.
    Binary(Vec<u8>),
    /// `join`: the relation's name and, in a child, the parent's id.
    Join {
        /// Name of the relation this document is in.
        name: String,
        /// Id of its parent.
        parent: Option<String>,
    },
}

/// Fields in document order; a field with several values has several entries.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Fields(pub Vec<(Arc<str>, FieldValue)>);

impl Fields {
    /// The values of one field, in document order.
    pub fn values<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a FieldValue> {
        self.0.iter().filter(move |(p, _)| &**p == path).map(|(_, value)| value)
    }
}

/// A nested object, which becomes a document of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct NestedDoc {
    /// Path of the nested field.
    pub path: String,
    /// Position of the enclosing nested object in [`crate::Parsed::nested`]; `None` is the root.
    pub parent: Option<usize>,
    /// Its own fields.
    pub fields: Fields,
    /// Its position among its siblings of the same path, in the source.
    pub offset: u32,
}

impl FieldValue {
    /// The bytes of memory that it takes beside itself.
    pub(crate) fn weight(&self) -> usize {
        match self {
            FieldValue::Text(text) | FieldValue::Keyword(text) => text.len(),
            FieldValue::Completion(entries) => entries.iter().map(|entry| size_of::<String>() + entry.len()).sum(),
            FieldValue::Binary(bytes) => bytes.len(),
            FieldValue::Join { name, parent } => name.len() + parent.as_ref().map_or(0, String::len),
            _ => 0,
        }
    }
}
