//! Blocks and families: `nested` by block join, and the join field's `has_child`, `has_parent`, `parent_id`.

use super::Planner;
use super::boolean::{BoolNode, Shared};
use super::explain::Explained;
use super::field::{Target, query_shard};
use super::node::{ConstantScorer, NoScorer, Node, score_at};
use super::term::{BitsDocs, DocBits, any_of};
use crate::index::schema::IndexSchema;
use crate::searchable::SegmentView;
use dsl::query::{HasChildQuery, HasParentQuery, NestedQuery, ScoreMode};
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The documents that enclose others: of a nested path, or roots.
fn enclosing(segment: &SegmentView, schema: &IndexSchema, path: Option<&str>) -> Result<Arc<DocBits>> {
    let (name, term) = match path {
        Some(path) => (format!("nested {path}"), Term::from_field_text(schema.nested_path, path)),
        None => (
            "roots".to_owned(),
            Term::from_field_text(schema.root, crate::index::schema::YES),
        ),
    };
    segment.core.cached(&name, || {
        let mut docs = any_of(segment, &[term])?;
        Ok(DocBits::of(segment.reader.max_doc(), docs.as_mut()))
    })
}

struct NestedNode {
    child: Shared,
    schema: Arc<IndexSchema>,
    parent_path: Option<String>,
    mode: ScoreMode,
    boost: f32,
}

struct ToParent {
    child: Box<dyn Scorer>,
    parents: Arc<DocBits>,
    doc: DocId,
    score: f32,
    mode: ScoreMode,
    boost: f32,
}

impl ToParent {
    fn settle(&mut self) -> DocId {
        let child = self.child.doc();
        if child == TERMINATED {
            self.doc = TERMINATED;
            return TERMINATED;
        }
        self.doc = self.parents.next(child);
        let (mut count, mut sum) = (0u32, 0f64);
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        while self.child.doc() < self.doc {
            if self.mode != ScoreMode::None {
                let score = self.child.score();
                count += 1;
                sum += f64::from(score);
                low = low.min(score);
                high = high.max(score);
            }
            self.child.advance();
        }
        self.score = match self.mode {
            ScoreMode::None => 0.0,
            ScoreMode::Sum => sum as f32,
            ScoreMode::Max => high,
            ScoreMode::Min => low,
            _ => (sum / f64::from(count.max(1))) as f32,
        } * self.boost;
        self.doc
    }
}

impl DocSet for ToParent {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED { TERMINATED } else { self.settle() }
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        // The first child of the block that ends at the first parent from `target` on.
        let first = self.parents.before(target).map_or(0, |before| before + 1);
        if self.child.doc() < first {
            self.child.seek(first);
        }
        self.settle()
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.child.size_hint()
    }
    fn cost(&self) -> u64 {
        self.child.cost().saturating_mul(2)
    }
}

impl Scorer for ToParent {
    fn score(&mut self) -> f32 {
        self.score
    }
}

impl Node for NestedNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let child = self.child.scorer(segment)?;
        if child.doc() == TERMINATED {
            return Ok(Box::new(NoScorer));
        }
        let parents = enclosing(segment, &self.schema, self.parent_path.as_deref())?;
        let mut join = ToParent {
            child,
            parents,
            doc: 0,
            score: 0.0,
            mode: self.mode,
            boost: self.boost,
        };
        join.settle();
        Ok(Box::new(join))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let Some(score) = score_at(self.scorer(segment)?, doc) else {
            return Ok(Explained::no_match("Not a match"));
        };
        let parents = enclosing(segment, &self.schema, self.parent_path.as_deref())?;
        let first = parents.before(doc).map_or(0, |before| before + 1);
        let mut details = Vec::new();
        for child in first..doc {
            let one = self.child.explain(segment, child)?;
            if one.matched {
                details.push(one);
            }
        }
        let what = format!(
            "Score based on {} child docs in range from {first} to {}, using score mode {}",
            details.len(),
            doc.saturating_sub(1),
            self.mode.word()
        );
        Ok(Explained::new(score, what).of(details))
    }
}

impl Planner<'_> {
    pub(super) fn nested(&self, q: &NestedQuery, boost: f32) -> Result<Shared> {
        if !self.view.mapping.is_nested(&q.path) {
            if q.ignore_unmapped {
                return Ok(self.nothing(format!("unmapped nested path [{}]", q.path)));
            }
            let why = if self.view.mapping.is_object(&q.path) {
                format!("[nested] nested object under path [{}] is not of nested type", q.path)
            } else {
                format!("[nested] failed to find nested object under path [{}]", q.path)
            };
            let cause = Error::new(ErrorKind::IllegalState, why.clone());
            return Err(query_shard(self.view, format!("failed to create query: {why}")).caused_by(cause));
        }
        let child = self.inside(&q.path, |planner| {
            let node = planner.compile(&q.query, 1.0)?;
            Ok((node, planner.named.borrow().clone()))
        })?;
        let (child, _names) = child;
        let path = Term::from_field_text(self.view.schema.nested_path, &q.path);
        let filter = self.filter(vec![path], 1.0, format!("_nested_path:{}", q.path));
        let child: Shared = Arc::new(BoolNode {
            must: vec![child],
            filter: vec![filter],
            ..BoolNode::default()
        });
        Ok(Arc::new(NestedNode {
            child,
            schema: self.view.schema.clone(),
            parent_path: self.path.clone(),
            mode: q.score_mode,
            boost,
        }))
    }

    fn join_target(
        &self,
        what: &str,
        ignore_unmapped: bool,
    ) -> Result<Option<(String, crate::index::schema::Slot, mapping::FieldType)>> {
        let found = self
            .view
            .mapping
            .join_field()
            .and_then(|(path, _)| Target::of(self.view, path));
        match found {
            Some(t) => Ok(Some((t.path.to_owned(), t.slot.clone(), t.kind.clone()))),
            None if ignore_unmapped => Ok(None),
            None => Err(query_shard(self.view, format!("[{what}] no join field has been configured"))),
        }
    }

    pub(super) fn has_child(&self, q: &HasChildQuery, boost: f32) -> Result<Shared> {
        let Some((_, slot, kind)) = self.join_target("has_child", q.ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let Some(parent_name) = kind.parent_of(&q.child_type).map(str::to_owned) else {
            if q.ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(query_shard(
                self.view,
                format!(
                    "[has_child] join field [{}] doesn't hold [{}] as a child",
                    self.view.mapping.join_field().map_or("", |f| f.0),
                    q.child_type
                ),
            ));
        };
        let child = self.compile(&q.query, 1.0)?;
        let of_type = self.filter(
            vec![Term::from_field_text(slot.field, &q.child_type)],
            1.0,
            q.child_type.clone(),
        );
        let child: Shared = Arc::new(BoolNode {
            must: vec![child],
            filter: vec![of_type],
            ..BoolNode::default()
        });
        // By parent id: how many children, their scores.
        let mut families: FxHashMap<String, (u32, f64, f32, f32)> = FxHashMap::default();
        let Some((_, parent_column)) = &slot.second else {
            return Ok(self.nothing("no join field"));
        };
        for segment in &self.view.segments {
            let mut set = super::visible::Visible::of(
                child.scorer(segment)?,
                super::visible::Sight::open(segment, &self.view.schema, self.cx.see)?,
            );
            let Some(column) = segment.reader.fast_fields().str(parent_column).map_err(super::node::broken)? else {
                continue;
            };
            let mut by_ord: FxHashMap<u64, (u32, f64, f32, f32)> = FxHashMap::default();
            while set.doc() != TERMINATED {
                if let Some(ord) = column.term_ords(set.doc()).next() {
                    let score = if q.score_mode == ScoreMode::None { 1.0 } else { set.score() };
                    let entry = by_ord.entry(ord).or_insert((0, 0.0, f32::INFINITY, f32::NEG_INFINITY));
                    *entry = (
                        entry.0 + 1,
                        entry.1 + f64::from(score),
                        entry.2.min(score),
                        entry.3.max(score),
                    );
                }
                set.advance();
            }
            for (ord, (n, sum, low, high)) in by_ord {
                let mut id = String::new();
                column.ord_to_str(ord, &mut id).map_err(super::node::broken)?;
                let entry = families.entry(id).or_insert((0, 0.0, f32::INFINITY, f32::NEG_INFINITY));
                *entry = (entry.0 + n, entry.1 + sum, entry.2.min(low), entry.3.max(high));
            }
        }
        self.failure.check()?;
        let least = q.min_children.max(1);
        let keep = families
            .into_iter()
            .filter(|(_, f)| f.0 >= least && q.max_children.is_none_or(|max| f.0 <= max));
        let scored = keep.map(|(id, (n, sum, low, high))| {
            let score = match q.score_mode {
                ScoreMode::None => 1.0,
                ScoreMode::Sum => sum as f32,
                ScoreMode::Min => low,
                ScoreMode::Max => high,
                _ => (sum / f64::from(n)) as f32,
            };
            (id, score * boost)
        });
        Ok(self.relatives(scored.collect(), &slot, &parent_name))
    }

    /// Root documents by id, with scores, of one relation.
    fn relatives(&self, scores: FxHashMap<String, f32>, slot: &crate::index::schema::Slot, relation: &str) -> Shared {
        if scores.is_empty() {
            return self.nothing("no relatives");
        }
        let id = self.view.schema.id;
        let keyed = scores
            .into_iter()
            .map(|(key, score)| (Term::from_field_text(id, &key), score))
            .collect();
        let by_id: Shared = Arc::new(KeyScores { keyed });
        let of_type = self.filter(vec![Term::from_field_text(slot.field, relation)], 1.0, relation.to_owned());
        Arc::new(BoolNode {
            must: vec![by_id],
            filter: vec![of_type],
            ..BoolNode::default()
        })
    }

    pub(super) fn has_parent(&self, q: &HasParentQuery, boost: f32) -> Result<Shared> {
        let Some((_, slot, kind)) = self.join_target("has_parent", q.ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let Some(children) = kind.children_of(&q.parent_type) else {
            if q.ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(query_shard(
                self.view,
                format!(
                    "[has_parent] join field [{}] doesn't hold [{}] as a parent",
                    self.view.mapping.join_field().map_or("", |f| f.0),
                    q.parent_type
                ),
            ));
        };
        let parent = self.compile(&q.query, 1.0)?;
        let of_type = self.filter(
            vec![Term::from_field_text(slot.field, &q.parent_type)],
            1.0,
            q.parent_type.clone(),
        );
        let parent: Shared = Arc::new(BoolNode {
            must: vec![parent],
            filter: vec![of_type],
            ..BoolNode::default()
        });
        let Some((parent_field, _)) = &slot.second else {
            return Ok(self.nothing("no join field"));
        };
        let mut keyed: Vec<(Term, f32)> = Vec::new();
        for segment in &self.view.segments {
            let mut set = super::visible::Visible::of(
                parent.scorer(segment)?,
                super::visible::Sight::open(segment, &self.view.schema, self.cx.see)?,
            );
            let Some(ids) = segment.reader.fast_fields().str("_id").map_err(super::node::broken)? else {
                continue;
            };
            let mut id = String::new();
            while set.doc() != TERMINATED {
                if let Some(ord) = ids.term_ords(set.doc()).next() {
                    id.clear();
                    ids.ord_to_str(ord, &mut id).map_err(super::node::broken)?;
                    let score = if q.score { set.score() } else { 1.0 };
                    keyed.push((Term::from_field_text(*parent_field, &id), score * boost));
                }
                set.advance();
            }
        }
        self.failure.check()?;
        if keyed.is_empty() {
            return Ok(self.nothing("no relatives"));
        }
        let by_parent: Shared = Arc::new(KeyScores { keyed });
        let types = children.iter().map(|c| Term::from_field_text(slot.field, c)).collect();
        let of_type = self.filter(types, 1.0, "children".into());
        Ok(Arc::new(BoolNode {
            must: vec![by_parent],
            filter: vec![of_type],
            ..BoolNode::default()
        }))
    }

    pub(super) fn parent_id(&self, child_type: &str, id: &str, ignore_unmapped: bool, boost: f32) -> Result<Shared> {
        let Some((_, slot, kind)) = self.join_target("parent_id", ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        if kind.parent_of(child_type).is_none() {
            if ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(query_shard(
                self.view,
                format!("[parent_id] no relation found for child [{child_type}]"),
            ));
        }
        let Some((parent_field, _)) = slot.second else {
            return Ok(self.nothing("no join field"));
        };
        let term = Term::from_field_text(parent_field, id);
        let doc_freq = self.statistics.doc_freq(&term)?;
        let mut docs = 0;
        for segment in &self.view.segments {
            docs += segment.core.doc_count(&segment.reader, parent_field)?;
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
            bm25: super::similarity::Bm25::new(field, vec![rarity], boost, self.cx.bm25_factor),
            term,
            norms: false,
            what: format!("parent:{id}"),
            boost: None,
        });
        let of_type = self.filter(
            vec![Term::from_field_text(slot.field, child_type)],
            1.0,
            child_type.to_owned(),
        );
        Ok(Arc::new(BoolNode {
            must: vec![by_parent],
            filter: vec![of_type],
            ..BoolNode::default()
        }))
    }
}

/// Terms with a score each; a document with several has the best.
pub(super) struct KeyScores {
    pub(super) keyed: Vec<(Term, f32)>,
}

impl Node for KeyScores {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut bits = DocBits::new(segment.reader.max_doc());
        let mut scores: FxHashMap<DocId, f32> = FxHashMap::default();
        for (term, score) in &self.keyed {
            let found = super::term::postings(segment, term, tantivy::schema::IndexRecordOption::Basic)?;
            let Some(mut docs) = found else { continue };
            while docs.doc() != TERMINATED {
                bits.insert(docs.doc());
                let best = scores.entry(docs.doc()).or_insert(*score);
                *best = best.max(*score);
                docs.advance();
            }
        }
        let set = Box::new(ConstantScorer::new(BitsDocs::new(Arc::new(bits)), 1.0));
        Ok(super::combine::rescored(set, move |doc, _| scores.get(&doc).copied()))
    }
}
