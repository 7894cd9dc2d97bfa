//! Where a document is: index and id. Routing leads to a document, but is no part of its identity.

use crate::Visibility;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The longest id, in bytes: a longer token would never be indexed.
pub const ID_MAX_BYTES: usize = 512;

/// The name of one concrete index, already resolved and valid.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexName(Arc<str>);

impl IndexName {
    /// Takes a name that has been checked by the catalog.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        IndexName(name.into())
    }
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The identity of a document inside its index. In a typed index of 2015 it is type and id together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DocId {
    /// The mapping type, in typed indices only.
    pub doc_type: Option<Arc<str>>,
    /// The id as the client gave it.
    pub id: Arc<str>,
}

impl DocId {
    /// A typeless id.
    pub fn plain(id: impl Into<Arc<str>>) -> Self {
        DocId {
            doc_type: None,
            id: id.into(),
        }
    }
    /// An id of a typed index.
    pub fn with_type(doc_type: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Self {
        DocId {
            doc_type: Some(doc_type.into()),
            id: id.into(),
        }
    }
    /// The stored form: `id`, or `type#id`.
    pub fn uid(&self) -> Cow<'_, str> {
        match &self.doc_type {
            Some(doc_type) => Cow::Owned(format!("{doc_type}#{}", self.id)),
            None => Cow::Borrowed(&self.id),
        }
    }
    /// [`DocId::uid`] to keep: without a type it is the id itself, shared.
    pub fn shared_uid(&self) -> Arc<str> {
        match &self.doc_type {
            Some(_) => self.uid().into(),
            None => self.id.clone(),
        }
    }
    /// The inverse of [`DocId::uid`]; type names cannot contain `#`.
    pub fn from_uid(uid: &str, typed: bool) -> Self {
        match uid.split_once('#') {
            Some((doc_type, id)) if typed => DocId::with_type(doc_type, id),
            _ => DocId::plain(uid),
        }
    }
}

/// Where a document is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DocAddress {
    /// The concrete index, or an alias that leads to exactly one.
    pub index: IndexName,
    /// The identity in it.
    pub id: DocId,
}

/// Which indices a request names, unresolved: names, aliases, wildcards, exclusions, and what to do with the missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Expressions as written, split at commas. Empty means all.
    pub expressions: Vec<String>,
    /// Missing and closed indices are skipped.
    pub ignore_unavailable: bool,
    /// A wildcard that matches nothing is no error.
    pub allow_no_indices: bool,
    /// Wildcards match open indices.
    pub expand_open: bool,
    /// Wildcards match closed indices.
    pub expand_closed: bool,
    /// Wildcards match hidden indices.
    pub expand_hidden: bool,
    /// A closed index named outright is an error.
    pub forbid_closed: bool,
    /// Types of the typed dialect, wildcards allowed. Empty means all.
    pub types: Vec<String>,
    /// The server asks for itself: the index of users and keys is readable.
    pub internal: bool,
    /// The documents of each index that are seen; `None`: all.
    pub visibility: Option<Visibility>,
}

impl Target {
    /// The usual options of a search over `expressions`.
    pub fn of(expressions: Vec<String>) -> Self {
        Target {
            expressions,
            ignore_unavailable: false,
            allow_no_indices: true,
            expand_open: true,
            expand_closed: false,
            expand_hidden: false,
            forbid_closed: true,
            types: Vec::new(),
            internal: false,
            visibility: None,
        }
    }
    /// One concrete index.
    pub fn index(name: &str) -> Self {
        Target::of(vec![name.to_owned()])
    }
}
