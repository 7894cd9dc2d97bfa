//! The weights of a field's completions in a segment, so that the best of many entries are found without reading all of them.
//!
//! Made once a segment, at 4 bytes an entry, when somebody goes through many entries of it.
//!
//! Not here: what is done with the entries (`completions`).

use super::beginnings::{Begins, common};
use mapping::completion;
use model::Result;
use segment::derived::Footprint;
use segment::error::broken;
use segment::segment_view::SegmentView;
use std::ops::Range;
use std::sync::Arc;
use tantivy::InvertedIndexReader;
use tantivy::schema::Field;
use tantivy::termdict::TermOrdinal;
use tantivy_fst::Automaton;

/// Where fewer entries begin alike they are read one by one.
pub(super) const ENTRIES_MIN: usize = if cfg!(test) { 4 } else { 4_096 };
/// More entries than this beyond those wanted may have the least weight that counts: their inputs decide, and are read one by one.
const TIES_MAX: usize = 1_024;
/// A fuzzy match with more ranges of entries reads them one by one.
const RANGES_MAX: usize = 512;

/// The weights of all entries of a field, in the order of its dictionary. An entry that cannot be read has none.
pub(super) struct CompletionWeights(Vec<u32>);

impl Footprint for CompletionWeights {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl CompletionWeights {
    /// Those of a field in a segment, made at first use.
    ///
    /// # Errors
    /// Unreadable files.
    pub(super) fn of(segment: &SegmentView, field: Field, index: &InvertedIndexReader) -> Result<Arc<CompletionWeights>> {
        segment.core.once(&name(field), || {
            let mut weights = Vec::with_capacity(index.terms().num_terms());
            let mut terms = index.terms().stream().map_err(broken)?;
            while terms.advance() {
                let entry = std::str::from_utf8(terms.key()).ok().and_then(completion::entry);
                weights.push(entry.map_or(0, |(_, weight, _)| weight));
            }
            Ok(CompletionWeights(weights))
        })
    }

    /// The same, if they are made.
    pub(super) fn find(segment: &SegmentView, field: Field) -> Option<Arc<CompletionWeights>> {
        segment.core.find(&name(field))
    }

    /// The entries among which the `most` best of several ranges are, with their scores: at least so many if there are, and all of one
    /// score or none. `score` grows with the weight. `None` where that would be too many.
    pub(super) fn heaviest_of(
        &self,
        ranges: &[EntryRange],
        most: usize,
        score: impl Fn(u32, Option<f32>) -> f32,
    ) -> Option<Vec<(f32, TermOrdinal)>> {
        let mut found = Vec::new();
        for range in ranges {
            let heaviest = self.heaviest(range.ordinals.clone(), most)?;
            found.extend(
                heaviest
                    .into_iter()
                    .map(|ord| (score(self.0[ord as usize], range.common), ord)),
            );
        }
        if found.len() > most.max(1) {
            let (_, least, _) = found.select_nth_unstable_by(most.max(1) - 1, |a, b| b.0.total_cmp(&a.0));
            let least = least.0;
            found.retain(|(score, _)| *score >= least);
        }
        (found.len() <= most + TIES_MAX).then_some(found)
    }

    /// The entries among which the `most` heaviest of a range are: at least so many if there are, and all of one weight or none.
    /// `None` where that would be too many.
    fn heaviest(&self, range: Range<TermOrdinal>, most: usize) -> Option<Vec<TermOrdinal>> {
        debug_assert!(range.end <= self.0.len() as u64, "search.md S31: each entry has its weight");
        let weights = self.0.get(range.start as usize..range.end as usize)?;
        let least = match weights.len() > most {
            true => {
                let place = weights.len() - most.max(1);
                *weights.to_vec().select_nth_unstable(place).1
            }
            false => 0,
        };
        // A weight of 0 may score as one of 1 does.
        let least = if least == 1 { 0 } else { least };
        let heavy = (range.start..).zip(weights).filter(|(_, weight)| **weight >= least);
        let found: Vec<TermOrdinal> = heavy.map(|(ord, _)| ord).take(most + TIES_MAX + 1).collect();
        (found.len() <= most + TIES_MAX).then_some(found)
    }
}

/// Entries that stand together and have one number of characters in common with what is looked for.
#[derive(Clone, Debug)]
pub(super) struct EntryRange {
    pub(super) ordinals: Range<TermOrdinal>,
    /// That number, where a match may be fuzzy.
    pub(super) common: Option<f32>,
}

/// The ranges of entries of which an automaton accepts some beginning; `None` if they are too many.
///
/// Each entry that it accepts has a shortest beginning that it accepts, and all entries with that beginning stand together.
///
/// # Errors
/// Unreadable files.
pub(super) fn ranges_within(index: &InvertedIndexReader, key: &str, automaton: &Begins) -> Result<Option<Vec<EntryRange>>> {
    let mut ranges = Vec::new();
    let mut from = Vec::new();
    loop {
        let mut stream = index.terms().search(automaton).ge(&from).into_stream().map_err(broken)?;
        if !stream.advance() {
            return Ok(Some(ranges));
        }
        let mut state = automaton.start();
        let accepts = |byte: &u8| {
            state = automaton.accept(&state, *byte);
            automaton.is_match(&state)
        };
        let length = stream.key().iter().position(accepts).map_or(0, |at| at + 1);
        let beginning = stream.key().get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let Some(beginning) = beginning.filter(|beginning| !beginning.is_empty()) else {
            return Ok(None);
        };
        add_ranges(index, key, beginning, &mut ranges)?;
        if ranges.len() > RANGES_MAX {
            return Ok(None);
        }
        from = behind(beginning);
    }
}

/// Adds the entries with a beginning. Where it is a beginning of the key, too, they are told apart by how far they go on as the key does.
fn add_ranges(index: &InvertedIndexReader, key: &str, beginning: &str, ranges: &mut Vec<EntryRange>) -> Result<()> {
    let mut add = |ordinals: Range<TermOrdinal>, common: f32| {
        if !ordinals.is_empty() {
            let common = Some(common);
            ranges.push(EntryRange { ordinals, common });
        }
    };
    let mut within = ordinals_of(index, beginning)?;
    if key.starts_with(beginning) {
        for (at, c) in key.char_indices().filter(|(at, _)| *at >= beginning.len()) {
            let longer = ordinals_of(index, &key[..at + c.len_utf8()])?;
            let in_common = key[..at].chars().count() as f32;
            if longer.is_empty() {
                add(within, in_common);
                return Ok(());
            }
            add(within.start..longer.start, in_common);
            add(longer.end..within.end, in_common);
            within = longer;
        }
    }
    let in_common = match key.starts_with(beginning) {
        true => key.chars().count() as f32,
        false => common(beginning, key),
    };
    add(within, in_common);
    Ok(())
}

/// What stands behind all texts with a beginning.
fn behind(beginning: &str) -> Vec<u8> {
    let mut behind = beginning.as_bytes().to_vec();
    // No byte of a text is 255.
    if let Some(last) = behind.last_mut() {
        *last += 1;
    }
    behind
}

fn name(field: Field) -> String {
    format!("completion weights {}", field.field_id())
}

/// The ordinals of the terms that begin with a text.
///
/// # Errors
/// Unreadable files.
pub(super) fn ordinals_of(index: &InvertedIndexReader, beginning: &str) -> Result<Range<TermOrdinal>> {
    let first_from = |bytes: &[u8]| -> Result<TermOrdinal> {
        let mut terms = index.terms().range().ge(bytes).into_stream().map_err(broken)?;
        Ok(match terms.advance() {
            true => terms.term_ord(),
            false => index.terms().num_terms() as u64,
        })
    };
    Ok(first_from(beginning.as_bytes())?..first_from(&behind(beginning))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::random::random;

    #[test]
    fn the_heaviest_are_all_of_their_weights() {
        let mut random = random(31);
        for _ in 0..500 {
            let count = 1 + random(60);
            let weights = CompletionWeights((0..count).map(|_| random(8) as u32).collect());
            let from = random(count);
            let range = from..from + random(count - from + 1);
            let most = 1 + random(20) as usize;
            let found = weights.heaviest(range.clone(), most).unwrap();
            let weight = |ord: &TermOrdinal| weights.0[*ord as usize];
            let least = found.iter().map(weight).min().unwrap_or(0);
            assert!(found.len() >= most.min((range.end - range.start) as usize));
            let left_out = range.filter(|ord| !found.contains(ord)).map(|ord| weight(&ord)).max();
            assert!(
                left_out.is_none_or(|heaviest| heaviest < least),
                "{left_out:?} beside {least}"
            );
        }
        let same = CompletionWeights(vec![1; 5_000]);
        assert!(same.heaviest(0..5_000, 10).is_none());
        assert!(same.heaviest(10..1_000, 10).is_some());
    }
}
