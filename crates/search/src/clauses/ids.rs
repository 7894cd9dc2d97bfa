//! `ids`, and terms of `_id`.

use super::Planner;
use super::doc_type::type_names;
use crate::fields::target::text_of;
use crate::scorers::constant::ConstantScorer;
use crate::scorers::filter::FilterNode;
use crate::scorers::node::Shared;
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::key_columns::{ByKey, Key, Keys};
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, Term};

/// So many ids are looked up by their hashes.
pub(super) const MANY: usize = 256;

/// The root documents of a segment by the hash of their id; of two with one id the later, for the other is dead.
fn roots_by_id(segment: &SegmentView) -> Result<Arc<ByKey<DocId>>> {
    segment.core.once("roots by id", || {
        let mut by_id = ByKey::default();
        if let Some(ids) = Keys::open(segment, "_id", false)? {
            for doc in (0..segment.reader.max_doc()).filter(|doc| segment.is_root(*doc)) {
                if let Some((_, id)) = ids.of(doc) {
                    by_id.insert(id, doc);
                }
            }
        }
        Ok(by_id)
    })
}

impl Planner<'_> {
    /// Documents of these ids, looked up by their hashes: thousands would be slow to find in a dictionary.
    pub(super) fn many_ids(&self, values: &[&Value], boost: f32) -> Shared {
        let hashed = |value: &&Value| match value {
            Value::String(text) => Key::of(text.as_bytes()),
            other => Key::of(text_of(other).as_bytes()),
        };
        let wanted: Vec<Key> = values.iter().map(hashed).collect();
        Arc::new(FilterNode {
            boost,
            what: format!("_id:({} ids)", wanted.len()),
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let by_id = roots_by_id(segment)?;
                let mut bits = DocBits::new(segment.reader.max_doc());
                wanted.iter().filter_map(|id| by_id.get(id)).for_each(|doc| bits.insert(*doc));
                Ok(Box::new(ConstantScorer::new(BitsDocs::new(Arc::new(bits)), 1.0)))
            },
        })
    }

    /// Documents of these ids, of any type unless types are given.
    pub(super) fn ids(&self, values: &[String], types: &[String], boost: f32) -> Shared {
        let field = self.view.schema.id;
        let mut terms: Vec<Term> = Vec::new();
        if self.view.typed {
            let known: Vec<String> = if types.is_empty() {
                type_names(self.view)
            } else {
                types.to_vec()
            };
            for id in values {
                terms.extend(known.iter().map(|t| Term::from_field_text(field, &format!("{t}#{id}"))));
            }
        } else {
            terms.extend(values.iter().map(|id| Term::from_field_text(field, id)));
        }
        self.filter(terms, boost, format!("_id:({})", values.join(" ")))
    }
}
