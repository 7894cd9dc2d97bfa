//! `_termvectors` of the newest mapping: the view of a document whose fields no segment has yet.
//!
//! Not here: the vectors (`search::term_vectors`).

use crate::store::Store;
use engine::VectorsOf;
use model::{Result, Target};
use search::term_vectors::vectors;
use segment::searchable::IndexView;
use serde_json::{Map, Value};
use std::sync::Arc;

impl Store {
    /// The vectors of a document, by field.
    pub(crate) fn term_vectors(&self, of: &VectorsOf) -> Result<Map<String, Value>> {
        let target = Target {
            visibility: of.visibility.clone(),
            ..Target::index(of.index.as_str())
        };
        let views = self.views_of(&target, None)?;
        let Some((view, _)) = views.first() else {
            return Ok(Map::new());
        };
        // A document that is not searchable yet has fields that no segment knows.
        let catalog = self.catalog.now();
        match catalog
            .by_no(view.no)
            .filter(|entry| !Arc::ptr_eq(&entry.schema, &view.schema))
        {
            Some(entry) => {
                let newest = IndexView {
                    schema: view.schema.clone(),
                    segments: view.segments.clone(),
                    ..self.blank_view(entry, view.position)
                };
                match &view.granted {
                    Some(granted) => vectors(&newest.restrict_to(view.segments.clone(), granted)?, of),
                    None => vectors(&newest, of),
                }
            }
            None => vectors(view, of),
        }
    }
}
