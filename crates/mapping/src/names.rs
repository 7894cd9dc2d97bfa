//! Names with a meaning of their own: hidden fields, and the envelope of a document.

/// The name of the field that has the text of all others.
pub const ALL: &str = "_all";

/// The hidden field that has the moment.
pub const TIMESTAMP: &str = "_timestamp";
/// The hidden field that has the end.
pub const TTL: &str = "_ttl";

/// Is it a field that no list of properties names?
pub(crate) fn is_hidden(path: &str) -> bool {
    [ALL, TIMESTAMP, TTL].contains(&path)
}

/// Fields that belong to the document's envelope.
pub(crate) const METADATA: &[&str] = &[
    "_id",
    "_index",
    "_type",
    "_routing",
    "_source",
    "_seq_no",
    "_version",
    "_field_names",
    "_ignored",
    "_primary_term",
    "_nested_path",
    "_doc_count",
    "_tier",
    "_parent",
    "_uid",
    "_all",
    "_ttl",
    "_timestamp",
];
