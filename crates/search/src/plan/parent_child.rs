//! Parents and children that are documents of their own: `has_child`, `has_parent`, `parent_id`, along a join
//! field or `_parent` of typed indices.
//!
//! The side that is asked is collected first, by key; the other side is then a set that looks its keys up.
//!
//! Not here: nested documents (`nested`), joins across indices (`terms`, `relations`).

use super::Planner;
use super::boolean::{BoolNode, Shared};
use super::child_score::Totals;
use super::combine::and;
use super::field::query_shard;
use super::live_docs::{LiveDocs, Visible};
use super::node::{ConstantScorer, Node as _};
use super::parent_child_ordinals::{Kin, Relatives, RelativesNode};
use super::term::any_of;
use dsl::query::{HasChildQuery, HasParentQuery, ScoreMode};
use model::{Error, Result};
use rustc_hash::FxHashMap;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::key_columns::{ByKey, Keys};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::schema::Field;
use tantivy::{DocId, TERMINATED, Term};

/// Where parents and children of an index find each other.
#[derive(Clone)]
pub struct Family {
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
    pub fn of(view: &IndexView) -> Option<Family> {
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
    /// Makes of a new segment what searches along the family look into.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn prepare(&self, segment: &SegmentView) -> Result<()> {
        self.ids(segment)?;
        self.parents(segment)?;
        self.pairs
            .iter()
            .try_for_each(|(_, parent)| Kin::of(segment, self, parent).map(drop))
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

/// What is known of the children of a parent that lives in another segment.
struct Afar {
    children: Totals,
    /// A segment and an ordinal there, for the key as a string.
    example: (u32, u64),
}

/// A lookup by string costs about as much as this many looks at a column.
const LOOKUP: u64 = 4000;

/// The parents of matching children in one segment.
#[derive(Default)]
struct Parents {
    docs: Option<DocBits>,
    /// Where more than their being there is asked for.
    known: FxHashMap<DocId, Totals>,
}

impl Parents {
    fn docs_of(&mut self, segment: &SegmentView) -> &mut DocBits {
        self.docs.get_or_insert_with(|| DocBits::new(segment.reader.max_doc()))
    }
}

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
        let hint = model::nearest::hint(name, known.filter(|known| *known != name));
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
        let mut child = match q.score_mode {
            ScoreMode::None => self.filtering(&q.query)?,
            _ => self.whole(&q.query)?,
        };
        // Of one relation all children are; of several they are told apart by their terms.
        if family.children_of(&parent).len() > 1 {
            child = self.of_relation(child, &family, &[&q.child_type]);
        }
        let least = q.min_children.max(1);
        let counted = least > 1 || q.max_children.is_some() || q.score_mode != ScoreMode::None;
        let mut found: Vec<Parents> = Vec::with_capacity(self.view.segments.len());
        // Of parents that live in another segment than their children.
        let mut afar: ByKey<Afar> = ByKey::default();
        for (no, segment) in (0..).zip(&self.view.segments) {
            self.cx.check_cancelled()?;
            let bits = if counted { None } else { child.bits(segment)? };
            let set = match &bits {
                Some(bits) => Box::new(ConstantScorer::new(BitsDocs::new(bits.clone()), 1.0)),
                None => child.scorer(segment)?,
            };
            // What is new is small mostly, and holds none.
            if set.doc() == TERMINATED {
                found.push(Parents::default());
                continue;
            }
            let kin = Kin::of(segment, &family, &parent)?;
            // Parents elsewhere: of the few children that have one there.
            let elsewhere = self.view.segments.len() > 1;
            let sight = LiveDocs::open(segment, &self.view.schema, self.cx.see)?;
            if let Some(bits) = &bits
                && sight.sees_all_roots()
                && let Some(docs) = kin.parents_of(bits)
            {
                let mut strays = kin.orphans().iter().filter(|doc| bits.contains(**doc)).peekable();
                if elsewhere
                    && strays.peek().is_some()
                    && let Some(keys) = family.parents(segment)?
                {
                    for (ord, key) in strays.filter_map(|doc| keys.of(*doc)) {
                        afar.entry(key).or_insert(Afar {
                            children: Totals::NONE,
                            example: (no, ord),
                        });
                    }
                }
                found.push(Parents {
                    docs: Some(docs),
                    known: FxHashMap::default(),
                });
                continue;
            }
            let keys = if elsewhere { family.parents(segment)? } else { None };
            let mut parents = Parents::default();
            let docs = parents.docs_of(segment);
            let mut known: FxHashMap<DocId, Totals> = FxHashMap::default();
            let mut set = Visible::of(set, sight);
            while set.doc() != TERMINATED {
                let doc = set.doc();
                let mut own = || Totals::one(if q.score_mode == ScoreMode::None { 1.0 } else { set.score() });
                match kin.parent(doc).filter(|parent| segment.is_alive(*parent)) {
                    Some(parent) if counted => {
                        let own = own();
                        docs.insert(parent);
                        known.entry(parent).or_insert(Totals::NONE).add(&own);
                    }
                    Some(parent) => docs.insert(parent),
                    None if keys.is_some() && kin.is_child(doc) => {
                        if let Some((ord, key)) = keys.as_ref().and_then(|keys| keys.of(doc)) {
                            let own = own();
                            let of = afar.entry(key).or_insert(Afar {
                                children: Totals::NONE,
                                example: (no, ord),
                            });
                            of.children.add(&own);
                        }
                    }
                    None => {}
                }
                set.advance();
            }
            parents.known = known;
            found.push(parents);
        }
        self.failure.check()?;
        if !afar.is_empty() {
            self.add_afar(&family, &parent, &afar, counted, &mut found)?;
        }
        let enough = |of: &Totals| of.count >= least && q.max_children.is_none_or(|max| of.count <= max);
        let mut by_segment = FxHashMap::default();
        for (segment, parents) in self.view.segments.iter().zip(found) {
            let mut relatives = Relatives::default();
            if counted {
                let mut docs = DocBits::new(segment.reader.max_doc());
                let mut scores = FxHashMap::default();
                for (doc, of) in parents.known.iter().filter(|(_, of)| enough(of)) {
                    docs.insert(*doc);
                    if q.score_mode != ScoreMode::None {
                        scores.insert(*doc, boost * of.score(q.score_mode));
                    }
                }
                relatives.docs = Some(Arc::new(docs));
                relatives.scores = Arc::new(scores);
            } else {
                relatives.docs = parents.docs.map(Arc::new);
            }
            by_segment.insert(segment.id, relatives);
        }
        let node = RelativesNode {
            by_segment,
            score: boost,
        };
        if node.is_none() {
            return Ok(self.nothing("no relatives"));
        }
        Ok(Arc::new(node))
    }

    /// Adds what children know of parents in other segments.
    fn add_afar(&self, family: &Family, parent: &str, afar: &ByKey<Afar>, counted: bool, found: &mut [Parents]) -> Result<()> {
        let relation = family.relation_term(parent);
        let mut parents = 0;
        for segment in &self.view.segments {
            parents += any_of(segment, std::slice::from_ref(&relation))?.cost();
        }
        // Few are looked up by their ids.
        let mut few = Vec::new();
        if afar.len() as u64 * LOOKUP < parents {
            for of in afar.values() {
                if let Some(keys) = family.parents(&self.view.segments[of.example.0 as usize])? {
                    few.push(family.id_term(self.view, parent, &keys.text(of.example.1)?));
                }
            }
        }
        for (segment, parents) in self.view.segments.iter().zip(found) {
            self.cx.check_cancelled()?;
            let Some(keys) = family.ids(segment)? else { continue };
            let mut docs = any_of(segment, std::slice::from_ref(&relation))?;
            if !few.is_empty() {
                docs = and(vec![(any_of(segment, &few)?, false), (docs, false)]);
            }
            while docs.doc() != TERMINATED {
                let doc = docs.doc();
                if let Some(of) = keys.of(doc).and_then(|(_, key)| afar.get(&key))
                    && segment.is_alive(doc)
                    && segment.is_root(doc)
                {
                    parents.docs_of(segment).insert(doc);
                    if counted {
                        parents.known.entry(doc).or_insert(Totals::NONE).add(&of.children);
                    }
                }
                docs.advance();
            }
        }
        Ok(())
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
        let parent = match q.score {
            false => self.filtering(&q.query)?,
            true => self.whole(&q.query)?,
        };
        let parent = self.of_relation(parent, &family, &[&q.parent_type]);
        let mut by_segment = FxHashMap::default();
        // Of parents whose children may live in another segment.
        let mut afar: ByKey<f32> = ByKey::default();
        for segment in &self.view.segments {
            self.cx.check_cancelled()?;
            let kin = Kin::of(segment, &family, &q.parent_type)?;
            let keys = if self.view.segments.len() > 1 {
                family.ids(segment)?
            } else {
                None
            };
            let mut docs = DocBits::new(segment.reader.max_doc());
            let mut scores = FxHashMap::default();
            let sight = LiveDocs::open(segment, &self.view.schema, self.cx.see)?;
            let mut set = Visible::of(parent.scorer(segment)?, sight);
            while set.doc() != TERMINATED {
                let score = if q.score { set.score() * boost } else { boost };
                for child in kin.children(set.doc()) {
                    docs.insert(*child);
                    if q.score {
                        scores.insert(*child, score);
                    }
                }
                if let Some((_, key)) = keys.as_ref().and_then(|keys| keys.of(set.doc())) {
                    afar.insert(key, score);
                }
                set.advance();
            }
            by_segment.insert(segment.id, (docs, scores));
        }
        self.failure.check()?;
        if !afar.is_empty() {
            for segment in &self.view.segments {
                self.cx.check_cancelled()?;
                let (Some(keys), Some((docs, scores))) = (family.parents(segment)?, by_segment.get_mut(&segment.id)) else {
                    continue;
                };
                for child in Kin::of(segment, &family, &q.parent_type)?.lost(segment) {
                    if let Some(score) = keys.of(child).and_then(|(_, key)| afar.get(&key)) {
                        docs.insert(child);
                        if q.score {
                            scores.insert(child, *score);
                        }
                    }
                }
            }
        }
        let by_segment = by_segment.into_iter().map(|(segment, (docs, scores))| {
            let relatives = Relatives {
                docs: Some(Arc::new(docs)),
                scores: Arc::new(scores),
            };
            (segment, relatives)
        });
        let node = RelativesNode {
            by_segment: by_segment.collect(),
            score: boost,
        };
        if node.is_none() {
            return Ok(self.nothing("no relatives"));
        }
        Ok(Arc::new(node))
    }

    pub(super) fn parent_id(&self, child_type: &str, id: &str, ignore_unmapped: bool, boost: f32) -> Result<Shared> {
        let Some(family) = self.family("parent_id", ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let Some(parent_type) = family.parent_of(child_type).map(str::to_owned) else {
            if ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            let children = family.pairs.iter().map(|(child, _)| child.as_str());
            let hint = model::nearest::hint(child_type, children);
            return Err(query_shard(
                self.view,
                format!("[parent_id] no relation found for child [{child_type}]{hint}"),
            ));
        };
        let term = family.parent_term(id);
        let mut doc_freq = self.statistics.doc_freq(&term)?;
        let mut docs = 0;
        if family.typed {
            for segment in &self.view.segments {
                docs += segment.core.doc_count(&segment.reader, family.parent.0)?;
            }
        } else if doc_freq > 0 {
            // The field of a relation's ids is the parents' as well: each has its own.
            let relations = family.children_of(&parent_type);
            for name in relations.into_iter().chain([parent_type.as_str()]) {
                docs += self.statistics.doc_freq(&family.relation_term(name))?;
            }
            doc_freq += self.statistics.doc_freq(&family.id_term(self.view, &parent_type, id))?.min(1);
            docs = docs.max(doc_freq);
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
            filters: self.view.filters.clone(),
            similarity: self.similarity_of(None, field, vec![rarity], boost),
            term,
            norms: false,
            what: format!("parent:{id}"),
            boost: None,
            of_roots: true,
        });
        Ok(self.of_relation(by_parent, &family, &[child_type]))
    }
}
