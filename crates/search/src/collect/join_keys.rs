//! Collects the keys of one side of a join.

use crate::context::Context;
use crate::joins::{Budget, FEW, Joined, JoinedKeys, KeyLimits, KeyReader, Place};
use model::Result;
use segment::key_columns::{ByKey, Key};
use segment::searchable::IndexView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// Collects the keys of what a query finds.
pub struct JoinKeyCollector<'a> {
    pub(crate) field: &'a str,
    pub(crate) limits: KeyLimits,
    pub(crate) found: Joined,
    /// Where the first few keys were seen: index, segment, document.
    seen: Vec<(usize, usize, DocId)>,
    /// The keys of one document.
    own: Vec<Key>,
}

impl<'a> JoinKeyCollector<'a> {
    pub fn new(field: &'a str, scored: bool, limits: KeyLimits, budget: Arc<Budget>) -> JoinKeyCollector<'a> {
        JoinKeyCollector {
            field,
            limits,
            found: Joined {
                kind: if scored {
                    JoinedKeys::Scored(ByKey::default())
                } else {
                    JoinedKeys::Plain(ByKey::default())
                },
                texts: None,
                budget,
                reserved: 0,
            },
            seen: Vec::new(),
            own: Vec::new(),
        }
    }

    /// One document with a score.
    fn add(&mut self, reader: &KeyReader, at: (usize, usize, DocId), score: f32) -> Result<()> {
        let mut fresh = false;
        let mut own = std::mem::take(&mut self.own);
        reader.distinct(at.2, &mut own);
        for key in &own {
            fresh |= self.found.add(*key, score, &self.limits, self.field)?;
        }
        self.own = own;
        if fresh && self.seen.len() <= FEW {
            self.seen.push(at);
        }
        Ok(())
    }

    /// Everything that matches in an index.
    ///
    /// # Errors
    /// Too many keys, no memory for them, unreadable files, scripts that fail.
    pub fn collect(
        &mut self,
        no: usize,
        view: &IndexView,
        place: &Place,
        planned: &crate::scorers::planned::Planned,
        cx: &Context<'_>,
    ) -> Result<()> {
        let scored = matches!(self.found.kind, JoinedKeys::Scored(_));
        for (segment_no, segment) in view.segments.iter().enumerate() {
            cx.check_cancelled()?;
            let Some(reader) = KeyReader::open(segment, place)? else {
                continue;
            };
            let mut set = planned.scorer(segment)?;
            while set.doc() != TERMINATED {
                let score = if scored { set.score() } else { 1.0 };
                self.add(&reader, (no, segment_no, set.doc()), score)?;
                set.advance();
            }
        }
        planned.check()
    }

    /// The keys.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn finish(mut self, views: &[(&IndexView, Option<Place>)]) -> Result<Joined> {
        if self.found.len() > FEW {
            return Ok(self.found);
        }
        let mut texts = Vec::new();
        for (no, segment, doc) in &self.seen {
            let (view, Some(place)) = &views[*no] else { continue };
            let Some(reader) = KeyReader::open(&view.segments[*segment], place)? else {
                continue;
            };
            if !reader.texts(*doc, matches!(place, Place::Id { typed: true }), &mut texts)? {
                return Ok(self.found);
            }
        }
        texts.sort_unstable();
        texts.dedup();
        self.found.texts = Some(texts);
        Ok(self.found)
    }
}
