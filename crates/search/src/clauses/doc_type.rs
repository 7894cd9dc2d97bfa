//! `type`, and the terms of types.

use super::Planner;
use crate::scorers::match_all::AllNode;
use crate::scorers::node::Shared;
use segment::searchable::IndexView;
use std::sync::Arc;
use tantivy::Term;

/// The types that any document of the index has.
pub(super) fn type_names(view: &IndexView) -> Vec<String> {
    let mut names = std::collections::BTreeSet::new();
    for segment in &view.segments {
        let Ok(index) = segment.reader.inverted_index(view.schema.doc_type) else {
            continue;
        };
        let Ok(mut stream) = index.terms().stream() else { continue };
        while stream.advance() {
            names.insert(String::from_utf8_lossy(stream.key()).into_owned());
        }
    }
    names.into_iter().collect()
}

/// The terms of types.
pub(super) fn type_terms(view: &IndexView, types: &[String]) -> Vec<Term> {
    types.iter().map(|t| Term::from_field_text(view.schema.doc_type, t)).collect()
}

impl Planner<'_> {
    /// The documents of a type.
    pub(super) fn doc_type(&self, value: &str, boost: f32) -> Shared {
        if !self.view.typed {
            return if value == "_doc" {
                Arc::new(AllNode(boost))
            } else {
                self.nothing("_type")
            };
        }
        self.filter(type_terms(self.view, &[value.to_owned()]), boost, format!("_type:{value}"))
    }
}
