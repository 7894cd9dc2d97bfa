//! What a request may see of a segment: root documents, alive, not hidden.

use super::node::broken;
use super::term::DocBits;
use crate::index::schema::{IndexSchema, YES};
use crate::searchable::SegmentView;
use engine::See;
use model::Result;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// What of one segment may be seen.
#[derive(Clone)]
pub struct Sight {
    reader: tantivy::SegmentReader,
    roots: Arc<tantivy::BitSet>,
    hidden: Option<Arc<DocBits>>,
    everything: bool,
}

impl Sight {
    /// Opens the sets of a segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn open(segment: &SegmentView, schema: &IndexSchema, see: See) -> Result<Sight> {
        let roots = segment.core.roots(&segment.reader, schema)?.clone();
        let hidden = if see == See::Everything {
            None
        } else {
            let bits = segment.core.cached("invisible", || {
                let mut bits = DocBits::new(segment.reader.max_doc());
                let term = Term::from_field_text(schema.invisible, YES);
                let index = segment.reader.inverted_index(schema.invisible).map_err(broken)?;
                if let Some(mut docs) = index.read_postings(&term, IndexRecordOption::Basic).map_err(broken)? {
                    while docs.doc() != TERMINATED {
                        bits.insert(docs.doc());
                        docs.advance();
                    }
                }
                Ok(bits)
            })?;
            (!bits.is_empty()).then_some(bits)
        };
        let reader = segment.reader.clone();
        let everything = hidden.is_none() && !reader.has_deletes() && roots.len() == reader.max_doc() as usize;
        Ok(Sight {
            reader,
            roots,
            hidden,
            everything,
        })
    }

    /// Whether a document is a visible root.
    #[inline]
    pub fn sees(&self, doc: DocId) -> bool {
        self.everything
            || self.roots.contains(doc)
                && !self.reader.is_deleted(doc)
                && !self.hidden.as_ref().is_some_and(|hidden| hidden.contains(doc))
    }

    /// All documents of the segment are visible roots.
    pub fn sees_all(&self) -> bool {
        self.everything
    }

    /// How many documents are visible roots.
    pub fn count(&self) -> u64 {
        if self.everything {
            return u64::from(self.reader.max_doc());
        }
        (0..self.reader.max_doc()).filter(|doc| self.sees(*doc)).count() as u64
    }
}

/// Which documents a clause is about: visible roots, or live nested documents of a path. Scripts and functions
/// must not run on others: they lack the fields.
#[derive(Clone)]
pub struct Level {
    /// Where fields lie.
    pub schema: Arc<IndexSchema>,
    /// The nested path.
    pub path: Option<String>,
    /// Hidden ones too?
    pub see: See,
}

impl Level {
    /// The documents of a set that are of this level.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn restrict(&self, segment: &SegmentView, set: Box<dyn Scorer>) -> Result<Box<dyn Scorer>> {
        match &self.path {
            None => Ok(Visible::of(set, Sight::open(segment, &self.schema, self.see)?)),
            Some(path) => {
                let term = Term::from_field_text(self.schema.nested_path, path);
                let nested = super::term::any_of(segment, &[term])?;
                let reader = segment.reader.clone();
                let set = super::combine::and(vec![(set, true), (nested, false)]);
                Ok(super::combine::rescored(set, move |doc, set| {
                    (!reader.is_deleted(doc)).then(|| set.score())
                }))
            }
        }
    }
}

/// A set without what may not be seen.
pub struct Visible {
    set: Box<dyn Scorer>,
    sight: Sight,
}

impl Visible {
    /// The visible roots of `set`.
    pub fn of(set: Box<dyn Scorer>, sight: Sight) -> Box<dyn Scorer> {
        if sight.everything {
            return set;
        }
        let mut visible = Visible { set, sight };
        visible.settle();
        Box::new(visible)
    }
    fn settle(&mut self) -> DocId {
        let mut doc = self.set.doc();
        while doc != TERMINATED && !self.sight.sees(doc) {
            doc = self.set.advance();
        }
        doc
    }
}

impl DocSet for Visible {
    fn advance(&mut self) -> DocId {
        self.set.advance();
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.set.doc() < target {
            self.set.seek(target);
        }
        self.settle()
    }
    fn doc(&self) -> DocId {
        self.set.doc()
    }
    fn size_hint(&self) -> u32 {
        self.set.size_hint()
    }
    fn cost(&self) -> u64 {
        self.set.cost()
    }
}

impl Scorer for Visible {
    fn score(&mut self) -> f32 {
        self.set.score()
    }
}
