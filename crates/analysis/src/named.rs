//! A part of a chain under the name that settings give it.

use std::sync::Arc;

/// A named part of a chain.
pub(crate) struct Named<T: ?Sized> {
    pub(crate) name: Arc<str>,
    pub(crate) part: Arc<T>,
}

impl<T> Named<T> {
    pub(crate) fn new(name: &str, part: T) -> Named<T> {
        Named {
            name: name.into(),
            part: Arc::new(part),
        }
    }
}

impl<T: ?Sized> Clone for Named<T> {
    fn clone(&self) -> Self {
        Named {
            name: Arc::clone(&self.name),
            part: Arc::clone(&self.part),
        }
    }
}
