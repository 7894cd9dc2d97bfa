//! Fields that every document has: `_id`, `_type`, `_index`, `_routing`; the clauses `ids` and `type`.

use super::boolean::{AllNode, Shared};
use super::field::{query_shard, text_of};
use super::node::ConstantScorer;
use super::term::{FilterNode, TermsNode};
use super::{Planner, every};
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::key_columns::{ByKey, Key, Keys};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, Term};

/// So many ids are looked up by their hashes.
const MANY: usize = 256;

/// The number of a write, as a query has it.
fn seq_no(value: &Value) -> Result<i64> {
    let text = text_of(value);
    text.trim().parse().map_err(|_| model::Error::no_number(&text))
}

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

/// The types that any document of the index has.
fn type_names(view: &IndexView) -> Vec<String> {
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
    /// A term of a metadata field; `None` if the field is none.
    ///
    /// # Errors
    /// The field has no terms, or a value is none of its numbers.
    pub(super) fn meta_term(&self, field: &str, values: &[&Value], boost: f32) -> Result<Option<Shared>> {
        if self.view.typed {
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
                let filter = Arc::new(super::boolean::BoolNode {
                    should: any,
                    least: 1,
                    ..super::boolean::BoolNode::default()
                });
                Ok(Some(Arc::new(super::boolean::ConstantNode { filter, boost })))
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
                let column = segment.reader.fast_fields().u64("_seq_no").map_err(super::node::broken)?;
                Ok(super::range::column_range(segment, column, low, high))
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
        if !self.view.typed && field == "_seq_no" {
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
        let unordered = match self.view.typed {
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
            "_source" | "_version" | "_seq_no" | "_field_names" => !self.view.typed,
            "_type" => self.view.typed,
            "_index" => matches!(what, "regexp" | "fuzzy") && !self.view.typed,
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
            "_source" if !self.view.typed => Err(self.not_searchable(field)),
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
                if self.view.typed {
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
        let family = super::parent_child::Family::of(self.view)?;
        let children = family.children_of(relation);
        if family.path.as_deref() != Some(path) || children.is_empty() {
            return None;
        }
        let of_children = self.filter(ids.iter().map(|id| family.parent_term(id)).collect(), 1.0, field.to_owned());
        let own = ids.iter().map(|id| family.id_term(self.view, relation, id)).collect();
        let own = self.filter(own, 1.0, field.to_owned());
        let any = Arc::new(super::boolean::BoolNode {
            should: vec![
                self.of_relation(of_children, &family, &children),
                self.of_relation(own, &family, &[relation]),
            ],
            least: 1,
            ..super::boolean::BoolNode::default()
        });
        Some(Arc::new(super::boolean::ConstantNode { filter: any, boost }))
    }

    /// Documents of these ids, looked up by their hashes: thousands would be slow to find in a dictionary.
    fn many_ids(&self, values: &[&Value], boost: f32) -> Shared {
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
