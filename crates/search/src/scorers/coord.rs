//! Lucene 5's coordination factor: a sum of scores times the matching part of the clauses.

use super::node::{Shared, seek_to};
use super::rescored::scored_late;
use model::Result;
use segment::segment_view::SegmentView;
use tantivy::query::Scorer;

/// The documents of `set`, scored by `clauses`: those that a document has, times their number, by the number of all.
///
/// # Errors
/// Unreadable files.
pub(crate) fn scale_by_coord(set: Box<dyn Scorer>, clauses: &[&Shared], segment: &SegmentView) -> Result<Box<dyn Scorer>> {
    let mut opened = clauses
        .iter()
        .map(|clause| clause.scorer(segment))
        .collect::<Result<Vec<_>>>()?;
    let all = clauses.len() as f32;
    Ok(scored_late(set, move |doc, _| {
        let (mut sum, mut found) = (0f64, 0f32);
        for clause in &mut opened {
            if seek_to(clause.as_mut(), doc) == doc {
                sum += f64::from(clause.score());
                found += 1.0;
            }
        }
        sum as f32 * (found / all)
    }))
}
