//! The documents and fields that a request may see, told of each index as names become indices.
//!
//! Not here: whose they are (`security`), how a reader is kept to them (`embedded::restricted_views`).

use crate::FieldRights;
use std::fmt;
use std::sync::Arc;

/// The documents and fields of an index that somebody sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DocumentRights {
    /// A document must match one query of each list, given as JSON.
    pub queries: Vec<Vec<Arc<str>>>,
    /// The fields that are granted.
    pub fields: FieldRights,
}

impl DocumentRights {
    /// Nothing is withheld.
    pub fn is_all(&self) -> bool {
        self.queries.is_empty() && self.fields.is_all()
    }
}

type OfIndex = dyn Fn(&[&str]) -> DocumentRights + Send + Sync;

/// The documents and fields of each index that a request sees.
#[derive(Clone)]
pub struct Visibility(Arc<OfIndex>);

impl Visibility {
    /// The rights on an index that is reached by one of these names: its own, or an alias.
    pub fn new(of: impl Fn(&[&str]) -> DocumentRights + Send + Sync + 'static) -> Visibility {
        Visibility(Arc::new(of))
    }
    /// The part of an index that is seen by whoever reaches it by one of these names.
    pub fn of(&self, names: &[&str]) -> DocumentRights {
        (self.0)(names)
    }
}

impl fmt::Debug for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visibility")
    }
}

impl PartialEq for Visibility {
    fn eq(&self, other: &Visibility) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Visibility {}
