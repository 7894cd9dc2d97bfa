//! What a choice gave in 2015 for how much of it matches: the sum of the clauses that do, by their part of all.

use super::boolean::Shared;
use super::combine::seek_to;
use crate::searchable::SegmentView;
use model::Result;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet};

struct Coordinated {
    set: Box<dyn Scorer>,
    clauses: Vec<Box<dyn Scorer>>,
    all: f32,
}

/// The documents of `set`, scored by `clauses`: those that a document has, times their number, by the number of all.
///
/// # Errors
/// Unreadable files.
pub(super) fn coordinated(set: Box<dyn Scorer>, clauses: &[&Shared], segment: &SegmentView) -> Result<Box<dyn Scorer>> {
    let opened = clauses
        .iter()
        .map(|clause| clause.scorer(segment))
        .collect::<Result<Vec<_>>>()?;
    Ok(Box::new(Coordinated {
        set,
        clauses: opened,
        all: clauses.len() as f32,
    }))
}

impl DocSet for Coordinated {
    fn advance(&mut self) -> DocId {
        self.set.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        seek_to(self.set.as_mut(), target)
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

impl Scorer for Coordinated {
    fn score(&mut self) -> f32 {
        let doc = self.set.doc();
        let (mut sum, mut found) = (0f64, 0f32);
        for clause in &mut self.clauses {
            if seek_to(clause.as_mut(), doc) == doc {
                sum += f64::from(clause.score());
                found += 1.0;
            }
        }
        sum as f32 * (found / self.all)
    }
}
