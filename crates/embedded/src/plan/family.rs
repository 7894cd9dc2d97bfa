//! Parents and children that are documents of their own: `has_child`, `has_parent`, `parent_id`, along a join
//! field or `_parent` of typed indices.
//!
//! The side that is asked is collected first, by key; the other side is then a set that looks its keys up.
//!
//! Not here: nested documents (`nested`), joins across indices (`terms`, `relations`).

use super::Planner;
use super::boolean::{BoolNode, Shared};
use super::field::query_shard;
use super::keys::{ByKey, KeyScores, Keyed, Keys};
use super::node::{NoScorer, Node};
use super::term::any_of;
use super::visible::{Sight, Visible};
use crate::searchable::{IndexView, SegmentView};
use dsl::query::{HasChildQuery, HasParentQuery, ScoreMode};
use model::{Error, Result};
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::schema::Field;
use tantivy::{DocSet, TERMINATED, Term};

/// Where parents and children of an index find each other.
#[derive(Clone)]
pub(crate) struct Family {
    /// The join field; `None` for `_parent`.
    pub(crate) path: Option<String>,
    /// Terms and column of relations: names of the join field, or types.
    pub(crate) relation: (Field, String),
    /// Terms and column of parents' ids.
    pub(crate) parent: (Field, String),
    /// Child and parent relation, each pair once.
    pairs: Vec<(String, String)>,
    typed: bool,
}

impl Family {
    /// Of an index; `None` if it has no such thing.
    pub(crate) fn of(view: &IndexView) -> Option<Family> {
        if view.typed {
            return (!view.parents.is_empty()).then(|| Family {
                path: None,
                relation: (view.schema.doc_type, "_type".into()),
                parent: (view.schema.parent, "_parent".into()),
                pairs: view.parents.clone(),
                typed: true,
            });
        }
        let (path, kind) = view.mapping.join_field()?;
        let slot = view.schema.slot(path)?;
        let pairs = kind
            .relations
            .iter()
            .flat_map(|(parent, children)| children.iter().map(|child| (child.clone(), parent.clone())));
        Some(Family {
            path: Some(path.to_owned()),
            relation: (slot.field, slot.column.clone()?),
            parent: slot.second.clone()?,
            pairs: pairs.collect(),
            typed: false,
        })
    }
    /// Whether a relation is any.
    pub(crate) fn knows(&self, relation: &str) -> bool {
        self.pairs
            .iter()
            .any(|(child, parent)| child == relation || parent == relation)
    }
    /// The parent's relation.
    pub(crate) fn parent_of(&self, child: &str) -> Option<&str> {
        self.pairs.iter().find(|(c, _)| c == child).map(|(_, parent)| parent.as_str())
    }
    /// The children's relations.
    pub(crate) fn children_of(&self, parent: &str) -> Vec<&str> {
        let own = self.pairs.iter().filter(|(_, p)| p == parent);
        own.map(|(child, _)| child.as_str()).collect()
    }
    /// The term of a relation.
    pub(crate) fn relation_term(&self, name: &str) -> Term {
        Term::from_field_text(self.relation.0, name)
    }
    /// The term that all children of a document have.
    pub(crate) fn parent_term(&self, id: &str) -> Term {
        Term::from_field_text(self.parent.0, id)
    }
    /// The term of a parent's own id.
    pub(crate) fn id_term(&self, view: &IndexView, relation: &str, id: &str) -> Term {
        if self.typed {
            Term::from_field_text(view.schema.id, &format!("{relation}#{id}"))
        } else {
            Term::from_field_text(view.schema.id, id)
        }
    }
    /// The keys of documents' own ids.
    pub(crate) fn ids(&self, segment: &SegmentView) -> Result<Option<Keys>> {
        Keys::open(segment, "_id", self.typed)
    }
    /// The keys of documents' parents.
    pub(crate) fn parents(&self, segment: &SegmentView) -> Result<Option<Keys>> {
        Keys::open(segment, &self.parent.1, false)
    }
    fn named(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "[_parent]".to_owned(), |path| format!("join field [{path}]"))
    }
}

/// What is known of the children of one parent.
#[derive(Clone, Copy)]
struct Children {
    count: u32,
    sum: f64,
    low: f32,
    high: f32,
    /// A segment and an ordinal there, for the key as a string.
    example: (u32, u64),
}

/// Documents of some relations whose key is among those found.
struct Relatives {
    family: Family,
    relations: Vec<Term>,
    /// Their own ids are looked up, else their parents'.
    own_ids: bool,
    scores: Arc<ByKey<f32>>,
}

impl Node for Relatives {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let keys = if self.own_ids {
            self.family.ids(segment)?
        } else {
            self.family.parents(segment)?
        };
        let Some(keys) = keys else {
            return Ok(Box::new(NoScorer));
        };
        let of_relation = any_of(segment, &self.relations)?;
        Ok(Box::new(Keyed::of(of_relation, keys, self.scores.clone())))
    }
}

/// A lookup by string costs about as much as this many looks at a column.
const LOOKUP: u64 = 4000;

impl Planner<'_> {
    fn family(&self, what: &str, ignore_unmapped: bool) -> Result<Option<Family>> {
        match Family::of(self.view) {
            Some(family) => Ok(Some(family)),
            None if ignore_unmapped => Ok(None),
            None => Err(query_shard(self.view, format!("[{what}] no join field has been configured"))),
        }
    }

    fn no_relation(&self, family: &Family, what: &str, name: &str, role: &str) -> Error {
        let known = family
            .pairs
            .iter()
            .flat_map(|(child, parent)| [child.as_str(), parent.as_str()]);
        let near = model::nearest::nearest(name, known).filter(|near| *near != name);
        let hint = near.map_or_else(String::new, |near| format!(", did you mean [{near}]?"));
        query_shard(
            self.view,
            format!("[{what}] {} doesn't hold [{name}] as a {role}{hint}", family.named()),
        )
    }

    /// A clause restricted to the documents of a relation.
    pub(super) fn of_relation(&self, node: Shared, family: &Family, relations: &[&str]) -> Shared {
        let terms = relations.iter().map(|name| family.relation_term(name)).collect();
        let filter = self.filter(terms, 1.0, relations.join(","));
        Arc::new(BoolNode {
            must: vec![node],
            filter: vec![filter],
            ..BoolNode::default()
        })
    }

    pub(super) fn has_child(&self, q: &HasChildQuery, boost: f32) -> Result<Shared> {
        let Some(family) = self.family("has_child", q.ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let Some(parent) = family.parent_of(&q.child_type).map(str::to_owned) else {
            if q.ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(self.no_relation(&family, "has_child", &q.child_type, "child"));
        };
        let child = self.compile(&q.query, 1.0)?;
        let child = self.of_relation(child, &family, &[&q.child_type]);
        let mut found: ByKey<Children> = ByKey::default();
        for (no, segment) in self.view.segments.iter().enumerate() {
            self.cx.check_cancelled()?;
            let Some(keys) = family.parents(segment)? else { continue };
            let sight = Sight::open(segment, &self.view.schema, self.cx.see)?;
            let mut set = Visible::of(child.scorer(segment)?, sight);
            while set.doc() != TERMINATED {
                if let Some((ord, hash)) = keys.of(set.doc()) {
                    let score = if q.score_mode == ScoreMode::None { 1.0 } else { set.score() };
                    let of = found.entry(hash).or_insert(Children {
                        count: 0,
                        sum: 0.0,
                        low: f32::INFINITY,
                        high: f32::NEG_INFINITY,
                        example: (u32::try_from(no).unwrap_or(u32::MAX), ord),
                    });
                    of.count += 1;
                    of.sum += f64::from(score);
                    of.low = of.low.min(score);
                    of.high = of.high.max(score);
                }
                set.advance();
            }
        }
        self.failure.check()?;
        let least = q.min_children.max(1);
        found.retain(|_, of| of.count >= least && q.max_children.is_none_or(|max| of.count <= max));
        let score = |of: &Children| {
            boost
                * match q.score_mode {
                    ScoreMode::None => 1.0,
                    ScoreMode::Sum => of.sum as f32,
                    ScoreMode::Min => of.low,
                    ScoreMode::Max => of.high,
                    _ => (of.sum / f64::from(of.count)) as f32,
                }
        };
        if found.is_empty() {
            return Ok(self.nothing("no relatives"));
        }
        let mut parents = 0;
        for segment in &self.view.segments {
            parents += any_of(segment, &[family.relation_term(&parent)])?.cost();
        }
        if found.len() as u64 * LOOKUP < parents {
            let mut keyed = Vec::with_capacity(found.len());
            for of in found.values() {
                let keys = family.parents(&self.view.segments[of.example.0 as usize])?;
                if let Some(keys) = keys {
                    let id = keys.text(of.example.1)?;
                    keyed.push((family.id_term(self.view, &parent, &id), score(of)));
                }
            }
            return Ok(self.of_relation(Arc::new(KeyScores { keyed }), &family, &[&parent]));
        }
        let scores = found.iter().map(|(key, of)| (*key, score(of))).collect();
        Ok(Arc::new(Relatives {
            relations: vec![family.relation_term(&parent)],
            family,
            own_ids: true,
            scores: Arc::new(scores),
        }))
    }

    pub(super) fn has_parent(&self, q: &HasParentQuery, boost: f32) -> Result<Shared> {
        let Some(family) = self.family("has_parent", q.ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let children = family.children_of(&q.parent_type);
        if children.is_empty() {
            if q.ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(self.no_relation(&family, "has_parent", &q.parent_type, "parent"));
        }
        let parent = self.compile(&q.query, 1.0)?;
        let parent = self.of_relation(parent, &family, &[&q.parent_type]);
        let mut scores: ByKey<f32> = ByKey::default();
        let mut examples: Vec<(u32, u64, u64)> = Vec::new();
        for (no, segment) in self.view.segments.iter().enumerate() {
            self.cx.check_cancelled()?;
            let Some(keys) = family.ids(segment)? else { continue };
            let sight = Sight::open(segment, &self.view.schema, self.cx.see)?;
            let mut set = Visible::of(parent.scorer(segment)?, sight);
            while set.doc() != TERMINATED {
                if let Some((ord, hash)) = keys.of(set.doc()) {
                    let score = if q.score { set.score() } else { 1.0 };
                    scores.insert(hash, score * boost);
                    examples.push((u32::try_from(no).unwrap_or(u32::MAX), ord, hash));
                }
                set.advance();
            }
        }
        self.failure.check()?;
        if scores.is_empty() {
            return Ok(self.nothing("no relatives"));
        }
        let terms: Vec<Term> = children.iter().map(|c| family.relation_term(c)).collect();
        let mut candidates = 0;
        for segment in &self.view.segments {
            candidates += any_of(segment, &terms)?.cost();
        }
        if examples.len() as u64 * LOOKUP < candidates {
            let mut keyed = Vec::with_capacity(examples.len());
            for (no, ord, hash) in examples {
                let Some(keys) = family.ids(&self.view.segments[no as usize])? else {
                    continue;
                };
                let uid = keys.text(ord)?;
                let id = if family.typed {
                    uid.split_once('#').map_or(uid.as_str(), |(_, id)| id)
                } else {
                    &uid
                };
                keyed.push((family.parent_term(id), scores.get(&hash).copied().unwrap_or(boost)));
            }
            return Ok(self.of_relation(Arc::new(KeyScores { keyed }), &family, &children));
        }
        Ok(Arc::new(Relatives {
            relations: terms,
            family,
            own_ids: false,
            scores: Arc::new(scores),
        }))
    }

    pub(super) fn parent_id(&self, child_type: &str, id: &str, ignore_unmapped: bool, boost: f32) -> Result<Shared> {
        let Some(family) = self.family("parent_id", ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        if family.parent_of(child_type).is_none() {
            if ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(query_shard(
                self.view,
                format!("[parent_id] no relation found for child [{child_type}]"),
            ));
        }
        let term = family.parent_term(id);
        let doc_freq = self.statistics.doc_freq(&term)?;
        let mut docs = 0;
        for segment in &self.view.segments {
            docs += segment.core.doc_count(&segment.reader, family.parent.0)?;
        }
        if doc_freq == 0 {
            return Ok(self.nothing("no such parent"));
        }
        let field = super::similarity::FieldStatistics { docs, tokens: docs };
        let rarity = super::similarity::Rarity {
            term: id.to_owned(),
            doc_freq,
        };
        let by_parent: Shared = Arc::new(super::term::TermNode {
            bm25: super::similarity::Bm25::new(field, vec![rarity], boost, self.bm25_factor()),
            term,
            norms: false,
            what: format!("parent:{id}"),
            boost: None,
            of_roots: true,
        });
        Ok(self.of_relation(by_parent, &family, &[child_type]))
    }
}
