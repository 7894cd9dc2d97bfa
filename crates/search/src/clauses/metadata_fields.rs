//! Terms and ranges of fields that every document has: `_id`, `_type`, `_index`, `_routing`, `_seq_no`.

use super::Planner;
use super::doc_type::type_terms;
use super::ids::MANY;
use crate::fields::target::{query_shard, text_of};
use crate::scorers::constant::every;
use crate::scorers::filter::FilterNode;
use crate::scorers::match_all::AllNode;
use crate::scorers::node::Shared;
use crate::scorers::term_set::TermsNode;
use model::Result;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::sync::Arc;
use tantivy::Term;
use tantivy::query::Scorer;

/// The number of a write, as a query has it.
fn seq_no(value: &Value) -> Result<i64> {
    let text = text_of(value);
    text.trim().parse().map_err(|_| model::Error::no_number(&text))
}

impl Planner<'_> {
    /// A term of a metadata field; `None` if the field is none.
    ///
    /// # Errors
    /// The field has no terms, or a value is none of its numbers.
    pub(super) fn meta_term(&self, field: &str, values: &[&Value], boost: f32) -> Result<Option<Shared>> {
        if self.view.rules().metadata_is_searchable {
            return Ok(self.meta_terms(field, values, boost));
        }
        match field {
            "_source" | "_version" => Err(self.not_searchable(field)),
            "_seq_no" => {
                let one = |value: &&Value| -> Result<Shared> {
                    let n = seq_no(value).map_err(|cause| self.failed_to_create(cause))?;
                    Ok(self.seq_nos(n, n, boost))
                };
                let any = values.iter().map(one).collect::<Result<Vec<_>>>()?;
                if let [only] = any.as_slice() {
                    return Ok(Some(only.clone()));
                }
                let filter = Arc::new(crate::scorers::bool::BoolNode {
                    should: any,
                    least: 1,
                    ..crate::scorers::bool::BoolNode::default()
                });
                Ok(Some(Arc::new(crate::scorers::constant_score::ConstantNode { filter, boost })))
            }
            _ => Ok(self.meta_terms(field, values, boost)),
        }
    }

    /// Numbers of writes between two, both included.
    fn seq_nos(&self, low: i64, high: i64, boost: f32) -> Shared {
        let Ok(high) = u64::try_from(high) else {
            return self.nothing("_seq_no");
        };
        let low = u64::try_from(low).unwrap_or(0);
        Arc::new(FilterNode {
            boost,
            what: format!("_seq_no:[{low} TO {high}]"),
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let column = segment.core.seq_no().clone();
                crate::scorers::column_range::column_range(segment, "_seq_no", column, low, high)
            },
        })
    }

    fn not_searchable(&self, field: &str) -> model::Error {
        query_shard(self.view, format!("The {field} field is not searchable"))
    }

    /// A range over a metadata field; `None` if the field is none that a range says anything about.
    ///
    /// # Errors
    /// The field is not in an order, or has no name.
    pub(super) fn meta_range(&self, q: &dsl::query::RangeQuery, boost: f32) -> Result<Option<Shared>> {
        let field = q.field.as_str();
        if !self.view.rules().lacks_seq_no && field == "_seq_no" {
            let end = |bound: &Option<Value>, open: i64, step: i64| -> Result<i64> {
                match bound.as_ref().filter(|value| !value.is_null()) {
                    None => Ok(open),
                    Some(value) => Ok(seq_no(value)
                        .map_err(|cause| self.failed_to_create(cause))?
                        .saturating_add(step)),
                }
            };
            let low = end(&q.gte, i64::MIN, 0)?.max(end(&q.gt, i64::MIN, 1)?);
            let high = end(&q.lte, i64::MAX, 0)?.min(end(&q.lt, i64::MAX, -1)?);
            return Ok(Some(self.seq_nos(low, high, boost)));
        }
        let unordered = match self.view.rules().metadata_is_searchable {
            true => matches!(field, "_id" | "_index"),
            false => matches!(field, "_id" | "_index" | "_source" | "_version" | "_field_names"),
        };
        match unordered {
            true => Err(query_shard(
                self.view,
                format!("Field [{field}] of type [{field}] does not support range queries"),
            )),
            false => Ok(None),
        }
    }

    /// Refuses a pattern over a metadata field that has no strings in an order.
    pub(super) fn refuse_meta_pattern(&self, field: &str, what: &str) -> Result<()> {
        let refused = match field {
            "_id" => true,
            "_source" | "_version" | "_seq_no" | "_field_names" => !self.view.rules().metadata_is_searchable,
            "_type" => self.view.rules().has_type_fields,
            "_index" => matches!(what, "regexp" | "fuzzy") && !self.view.rules().metadata_is_searchable,
            _ => false,
        };
        if !refused {
            return Ok(());
        }
        Err(query_shard(
            self.view,
            format!("Can only use {what} queries on keyword and text fields - not on [{field}] which is of type [{field}]"),
        ))
    }

    /// Refuses `exists` of what every document has and nobody can search.
    pub(super) fn refuse_meta_exists(&self, field: &str) -> Result<()> {
        match field {
            "_source" if !self.view.rules().metadata_is_searchable => Err(self.not_searchable(field)),
            _ => Ok(()),
        }
    }

    fn meta_terms(&self, field: &str, values: &[&Value], boost: f32) -> Option<Shared> {
        if field == "_id" && values.len() >= MANY && !self.view.typed && self.path.is_none() {
            return Some(self.many_ids(values, boost));
        }
        let texts: Vec<String> = values.iter().map(|v| text_of(v)).collect();
        match field {
            "_id" => Some(self.ids(&texts, &[], boost)),
            "_type" => {
                if self.view.rules().has_type_fields {
                    Some(self.filter(type_terms(self.view, &texts), boost, "_type".into()))
                } else if texts.iter().any(|t| t == "_doc") {
                    Some(Arc::new(AllNode(boost)))
                } else {
                    Some(self.nothing("_type"))
                }
            }
            "_index" => {
                let here = self.view.name.as_str();
                let any = texts.iter().any(|t| model::path::matches(t, here));
                Some(if any {
                    Arc::new(AllNode(boost))
                } else {
                    self.nothing("The index matches none of the names")
                })
            }
            "_routing" | "_parent" => {
                let field_is_parent = field == "_parent";
                let field = if field == "_parent" {
                    self.view.schema.parent
                } else {
                    self.view.schema.routing
                };
                // `type#id` names a parent too.
                let bare = |t: &String| match t.split_once('#') {
                    Some((_, id)) if field_is_parent => id.to_owned(),
                    _ => t.clone(),
                };
                Some(self.filter(
                    texts.iter().map(|t| Term::from_field_text(field, &bare(t))).collect(),
                    boost,
                    field_name(field),
                ))
            }
            "_ignored" => Some(
                self.filter(
                    texts
                        .iter()
                        .map(|t| Term::from_field_text(self.view.schema.ignored, t))
                        .collect(),
                    boost,
                    "_ignored".into(),
                ),
            ),
            "_uid" => {
                let field = self.view.schema.id;
                Some(self.filter(
                    texts.iter().map(|t| Term::from_field_text(field, t)).collect(),
                    boost,
                    "_uid".into(),
                ))
            }
            _ => self.parent_term(field, &texts, boost),
        }
    }

    /// `join_field#relation`: the id of the parent of that relation, a parent's own included.
    fn parent_term(&self, field: &str, ids: &[String], boost: f32) -> Option<Shared> {
        let (path, relation) = field.split_once('#')?;
        let family = crate::scorers::parent_child::Family::of(self.view)?;
        let children = family.children_of(relation);
        if family.path.as_deref() != Some(path) || children.is_empty() {
            return None;
        }
        let of_children = self.filter(ids.iter().map(|id| family.parent_term(id)).collect(), 1.0, field.to_owned());
        let own = ids.iter().map(|id| family.id_term(self.view, relation, id)).collect();
        let own = self.filter(own, 1.0, field.to_owned());
        let any = Arc::new(crate::scorers::bool::BoolNode {
            should: vec![
                self.of_relation(of_children, &family, &children),
                self.of_relation(own, &family, &[relation]),
            ],
            least: 1,
            ..crate::scorers::bool::BoolNode::default()
        });
        Some(Arc::new(crate::scorers::constant_score::ConstantNode { filter: any, boost }))
    }

    /// The documents of any of these terms, with one score.
    pub(super) fn filter(&self, terms: Vec<Term>, boost: f32, what: String) -> Shared {
        if terms.is_empty() {
            return self.nothing(what);
        }
        Arc::new(TermsNode {
            terms,
            boost,
            what,
            filters: self.view.filters.clone(),
        })
    }

    /// Every document, with one score.
    pub(super) fn everything(&self, boost: f32, what: String) -> Shared {
        Arc::new(FilterNode {
            boost,
            what,
            docs: |segment: &SegmentView| Ok(every(segment)),
        })
    }
}

fn field_name(field: tantivy::schema::Field) -> String {
    format!("field {}", field.field_id())
}
