//! `exists`: documents that have a value at a path, or anywhere under an object.

use super::Planner;
use crate::fields::target::Target;
use crate::scorers::filter::FilterNode;
use crate::scorers::match_all::AllNode;
use crate::scorers::node::Shared;
use crate::scorers::term_set::any_of;
use mapping::tree::TreePart;
use model::Result;
use segment::error::broken;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::Term;

impl Planner<'_> {
    pub(super) fn exists(&self, field: &str, boost: f32) -> Result<Shared> {
        self.refuse_meta_exists(field)?;
        let of_all = self.view.rules().metadata_is_searchable && matches!(field, "_source" | "_type" | "_primary_term");
        if of_all || matches!(field, "_id" | "_index" | "_seq_no" | "_version") {
            return Ok(Arc::new(AllNode(boost)));
        }
        if field == "_ignored" {
            let ignored = self.view.schema.ignored;
            return Ok(Arc::new(FilterNode {
                boost,
                what: "ConstantScore(FieldExistsQuery [field=_ignored])".into(),
                docs: move |segment: &SegmentView| {
                    let index = segment.reader.inverted_index(ignored).map_err(broken)?;
                    let mut terms = index.terms().stream().map_err(broken)?;
                    let mut found = Vec::new();
                    while terms.advance() {
                        found.push(Term::from_field_text(ignored, &String::from_utf8_lossy(terms.key())));
                    }
                    any_of(segment, &found)
                },
            }));
        }
        if let Some(target) = Target::of(self.view, field)
            && let Some(part) = target.kind.tree.filter(|tree| tree.part != TreePart::Path)
        {
            // Only the root lacks some of them.
            let what = format!("ConstantScore(FieldExistsQuery [field={field}])");
            return Ok(self.in_directories(&target, part, &|_| true, boost, what));
        }
        let names = self.view.schema.field_names;
        let mut paths: Vec<String> = if field.contains('*') {
            self.view.mapping.expand(field)
        } else {
            vec![self.view.mapping.resolve(field).map_or(field, |(path, _)| path).to_owned()]
        };
        // An object exists where a field below it exists: a segment may know only those.
        if self.view.mapping.is_object(field) {
            let prefix = format!("{field}.");
            let below = self
                .view
                .mapping
                .fields()
                .map(|(path, _)| path)
                .filter(|path| path.starts_with(&prefix));
            paths.extend(below.map(str::to_owned));
        }
        paths.retain(|path| self.view.mapping.resolve(path).is_some() || self.view.mapping.is_object(path));
        // Elasticsearch 2 does not find fields that it did not index.
        if self.view.rules().ignores_columns {
            paths.retain(|path| {
                let found = |field: &mapping::FieldType| field.index || field.tree.is_some();
                self.view.mapping.field(path).is_none_or(found)
            });
        }
        let terms = paths.iter().map(|path| Term::from_field_text(names, path)).collect();
        Ok(self.filter(terms, boost, format!("ConstantScore(FieldExistsQuery [field={field}])")))
    }
}
