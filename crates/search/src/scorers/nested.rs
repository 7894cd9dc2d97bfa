//! Block join: nested documents come before the document that they are in, in one block.
//!
//! Not here: parents and children that are documents of their own (`parent_child`).

use super::constant::{ConstantScorer, NoScorer};
use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::node::{Node, Shared, score_at};
use super::term_set::any_of;
use dsl::query::ScoreMode;
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::schema::IndexSchema;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, TERMINATED, Term};

/// The documents that enclose others: of a nested path, or roots.
pub(crate) fn enclosing(segment: &SegmentView, schema: &IndexSchema, path: Option<&str>) -> Result<Arc<DocBits>> {
    let (name, term) = match path {
        Some(path) => (format!("nested {path}"), Term::from_field_text(schema.nested_path, path)),
        None => ("roots".to_owned(), Term::from_field_text(schema.root, segment::schema::YES)),
    };
    segment.core.once(&name, || {
        let mut docs = any_of(segment, &[term])?;
        Ok(DocBits::of(segment.reader.max_doc(), docs.as_mut()))
    })
}

/// More documents are counted one by one, between looks at the clock.
const COUNTED_AT_ONCE_MAX: u64 = 1_000_000;

/// Fewer nested documents of the segment match: their parents are looked up one by one. A set of bits for them goes over all words of
/// the segment.
const DOCS_PER_CHILD_OF_BITS_MAX: u32 = 128;

pub(crate) struct NestedNode {
    pub(crate) child: Shared,
    pub(crate) schema: Arc<IndexSchema>,
    pub(crate) parent_path: Option<String>,
    pub(crate) mode: ScoreMode,
}

struct ToParent {
    child: Box<dyn Scorer>,
    parents: Arc<DocBits>,
    doc: DocId,
    score: f32,
    mode: ScoreMode,
}

impl ToParent {
    fn settle(&mut self) -> DocId {
        let child = self.child.doc();
        if child == TERMINATED {
            self.doc = TERMINATED;
            return TERMINATED;
        }
        self.doc = self.parents.next(child);
        // A child that is no object inside would be its own parent for ever.
        assert!(self.doc > child, "search.md S6: a nested document stands before its parent");
        debug_assert!(
            self.parents.before(self.doc).is_none_or(|before| before < child),
            "search.md S6: a nested document stands in its parent's block"
        );
        let (mut count, mut sum) = (0u32, 0f64);
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        // A child is never its own parent: a query inside itself is taken as one (see `nested`).
        let mut child = child;
        while child <= self.doc && child != TERMINATED {
            if self.mode != ScoreMode::None {
                let score = self.child.score();
                count += 1;
                sum += f64::from(score);
                low = low.min(score);
                high = high.max(score);
            }
            let next = self.child.advance();
            debug_assert!(next > child, "documents come in ascending order");
            child = next;
        }
        self.score = match self.mode {
            ScoreMode::None => 0.0,
            ScoreMode::Sum => sum as f32,
            ScoreMode::Max => high,
            ScoreMode::Min => low,
            _ => (sum / f64::from(count.max(1))) as f32,
        };
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
        let next = self.settle();
        debug_assert!(next >= target, "search.md S8: a seek ends at its target or behind it");
        next
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
    fn says(&self) -> Option<String> {
        Some(format!("ToParentBlockJoinQuery ({})", self.child.says()?))
    }
    fn squares(&self) -> f32 {
        self.child.squares()
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        let Some(children) = self.child.bits(segment)? else {
            return Ok(None);
        };
        let parents = enclosing(segment, &self.schema, self.parent_path.as_deref())?;
        debug_assert!(
            parents.is_sized_for(segment.reader.max_doc()) && children.is_sized_for(segment.reader.max_doc()),
            "search.md S6: nested documents and their parents are of one segment"
        );
        Ok(Some(Arc::new(parents.around(&children))))
    }

    /// Counts roots by blocks of their nested documents: no score is needed for it.
    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, most: u64) -> Result<Option<u64>> {
        if self.parent_path.is_some() || most > COUNTED_AT_ONCE_MAX || !self.child.opens_quickly() {
            return Ok(None);
        }
        let parents = enclosing(segment, &self.schema, None)?;
        let mut children = self.child.scorer(segment)?;
        let mut docs = [0; COLLECT_BLOCK_BUFFER_LEN];
        let (mut count, mut first_uncounted) = (0, 0);
        loop {
            let len = children.fill_buffer(&mut docs);
            for child in &docs[..len] {
                if *child >= first_uncounted {
                    let parent = parents.next(*child);
                    assert!(parent > *child, "search.md S6: a nested document stands before its parent");
                    count += u64::from(sight.sees(parent));
                    first_uncounted = parent + 1;
                }
            }
            if len < docs.len() || count > most {
                return Ok(Some(count));
            }
        }
    }

    fn most_score(&self) -> Option<f32> {
        match self.mode {
            ScoreMode::None => Some(0.0),
            // No single score and no mean is above the maximum.
            ScoreMode::Avg | ScoreMode::Max | ScoreMode::Min => self.child.most_score(),
            _ => self.child.most_score().filter(|most| *most == 0.0),
        }
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let child = self.child.scorer(segment)?;
        if child.doc() == TERMINATED {
            return Ok(Box::new(NoScorer));
        }
        if self.most_score() == Some(0.0)
            && child.size_hint() > segment.reader.max_doc() / DOCS_PER_CHILD_OF_BITS_MAX
            && let Some(bits) = self.bits(segment)?
        {
            return Ok(Box::new(ConstantScorer::new(BitsDocs::new(bits), 0.0)));
        }
        let parents = enclosing(segment, &self.schema, self.parent_path.as_deref())?;
        let mut join = ToParent {
            child,
            parents,
            doc: 0,
            score: 0.0,
            mode: self.mode,
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
        // Only children that match are explained: a block may have thousands, and each explanation opens the query.
        let mut children = self.child.scorer(segment)?;
        let mut child = children.doc();
        if child < first {
            child = children.seek(first);
        }
        while child < doc {
            let one = self.child.explain(segment, child)?;
            if one.matched {
                details.push(one);
            }
            child = children.advance();
        }
        let what = format!(
            "Score based on {} child docs in range from {} to {}, using score mode {}",
            details.len(),
            segment.shown_number(first),
            segment.shown_number(doc).saturating_sub(1),
            match self.mode {
                ScoreMode::None => "None",
                ScoreMode::Sum => "Total",
                ScoreMode::Max => "Max",
                ScoreMode::Min => "Min",
                _ => "Avg",
            }
        );
        Ok(Explained::new(score, what).of(details))
    }
}
