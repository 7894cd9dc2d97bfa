//! The bounds of a single term's blocks, exact for the lengths that a segment has.
//!
//! tantivy keeps for each block the pair of length and frequency that scored best when the segment was written, with the mean length
//! of that segment. Scores use the mean length of the index, so another pair of the block may score more. A factor that
//! covers every pair (`prune`) is a little more than 1, and then every block whose best score equals that of the worst hit is read.
//! With short texts these are most blocks: thousands of documents share the best score.
//!
//! Lengths and frequencies are whole numbers, and in a field of short texts few. So all pairs are looked at: those that
//! beat the threshold, then those that may stand for one of them as the best of a block. The least score among the latter
//! is what tantivy compares its bounds with.
//!
//! Not here: choices, conjunctions and long texts (`prune`).

use super::similarity::Bm25;
use mapping::similarity::B;
use tantivy::fieldnorm::FieldNormReader;

/// The longest text whose pairs are looked at, in tokens.
const LENGTH_MAX: u32 = 128;
/// What two orders of the same floating point operations may differ by, relative.
const ROUNDING: f64 = 1e-5;
/// Up to this norm a length is kept exactly; beyond it a norm stands for lengths from its own to that of the next norm.
const EXACT_NORMS: u8 = 39;

/// The pairs of one term in one segment.
pub(crate) struct TermBounds<'a> {
    bm25: &'a Bm25,
    /// The part of the length in scores when the segment was written, by norm, up to a common factor.
    written: Vec<f64>,
    /// By frequency, the norm of a text that is the term so many times and nothing else. None has a higher frequency.
    shortest: Vec<usize>,
    /// The threshold that was looked at last, and what came of it.
    last: Option<(f32, f32)>,
}

impl<'a> TermBounds<'a> {
    /// `written`: the segment's mean length when it was written. `longest`: the norm of its longest text.
    /// `None`: there are too many pairs.
    pub(crate) fn new(bm25: &'a Bm25, written: f64, longest: u8) -> Option<TermBounds<'a>> {
        let length = FieldNormReader::id_to_fieldnorm;
        let freq_max = match longest {
            0 => return None,
            longest if longest <= EXACT_NORMS => length(longest),
            longest => length(longest.checked_add(1)?) - 1,
        };
        if freq_max > LENGTH_MAX || written <= 0.0 {
            return None;
        }
        let b = f64::from(B);
        let part = |norm: u8| 1.0 - b + b * f64::from(length(norm)) / written;
        Some(TermBounds {
            bm25,
            written: (0..=longest).map(part).collect(),
            shortest: (0..=freq_max).map(shortest_norm).collect(),
            last: None,
        })
    }

    /// What tantivy may compare its bounds with, so that no document above `threshold` is left out (search.md S10).
    pub(crate) fn lower(&mut self, threshold: f32) -> f32 {
        if let Some((known, lowered)) = self.last
            && known.to_bits() == threshold.to_bits()
        {
            return lowered;
        }
        let lowered = self.look(threshold);
        self.last = Some((threshold, lowered));
        lowered
    }

    fn look(&self, threshold: f32) -> f32 {
        let k1 = f64::from(mapping::similarity::K1);
        let ratio = |freq: u32, norm: u8| f64::from(freq) / (f64::from(freq) + k1 * self.written[usize::from(norm)]);
        // Of each frequency the longest text that beats the threshold scored least when it was written.
        let beating = self.longest_of_each(|freq, norm| self.bm25.score(freq as f32, norm) > threshold);
        let least_written = beating.map(|(freq, norm)| ratio(freq, norm)).fold(f64::INFINITY, f64::min);
        if least_written.is_infinite() {
            // No document of the segment beats it.
            return f32::MAX;
        }
        // The pair that is kept of a block scored no less than that when it was written.
        let standing = self.longest_of_each(|freq, norm| ratio(freq, norm) >= least_written * (1.0 - ROUNDING));
        let least = standing.map(|(freq, norm)| f64::from(self.bm25.score(freq as f32, norm)));
        let least = least.fold(f64::INFINITY, f64::min);
        debug_assert!(
            least > 0.0 && least.is_finite(),
            "search.md S10: the pairs that beat a threshold may stand for themselves"
        );
        (least * (1.0 - ROUNDING)) as f32
    }

    /// Of each frequency the longest text for which this holds. It holds for a prefix of the lengths, the shortest first; a text is
    /// no shorter than the frequency of a term in it.
    fn longest_of_each(&self, holds: impl Fn(u32, u8) -> bool) -> impl Iterator<Item = (u32, u8)> {
        let norms = self.written.len();
        (1u32..).zip(&self.shortest[1..]).filter_map(move |(freq, shortest)| {
            let (mut low, mut high) = (*shortest, norms);
            while low < high {
                let middle = low.midpoint(high);
                match u8::try_from(middle).is_ok_and(|norm| holds(freq, norm)) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            let longest = low.checked_sub(1).filter(|longest| longest >= shortest)?;
            Some((freq, u8::try_from(longest).ok()?))
        })
    }
}

/// The norm of a text that is a term so many times and nothing else.
fn shortest_norm(freq: u32) -> usize {
    let mut norm = 0u8;
    while norm < u8::MAX && FieldNormReader::id_to_fieldnorm(norm + 1) <= freq {
        norm += 1;
    }
    usize::from(norm)
}

#[cfg(test)]
mod tests {
    use super::super::similarity::{FieldStatistics, Rarity};
    use super::*;

    fn bm25(mean: f64) -> Bm25 {
        let field = FieldStatistics {
            docs: 1_000_000,
            tokens: (mean * 1e6) as u64,
        };
        let rarity = Rarity {
            term: "a".to_owned(),
            doc_freq: 1000,
        };
        Bm25::new(field, vec![rarity], 1.0, 2.2)
    }

    /// Every block of two documents is read if one of them beats the threshold, and a block of the threshold's own score is
    /// passed by.
    fn check(mean: f64, written: f64, longest: u8) {
        let bm25 = bm25(mean);
        let mut bounds = TermBounds::new(&bm25, written, longest).unwrap();
        let at_writing = |freq: u32, norm: u8| {
            let part = 0.25 + 0.75 * f64::from(FieldNormReader::id_to_fieldnorm(norm)) / written;
            f64::from(freq) / (f64::from(freq) + 1.2 * part)
        };
        let pairs: Vec<(u32, u8)> = (1..bounds.shortest.len() as u32)
            .flat_map(|freq| (0..=longest).map(move |norm| (freq, norm)))
            .filter(|(freq, norm)| usize::from(*norm) >= shortest_norm(*freq))
            .collect();
        for (freq, norm) in &pairs {
            let threshold = bm25.score(*freq as f32, *norm);
            let lowered = bounds.lower(threshold);
            for one in &pairs {
                if bm25.score(one.0 as f32, one.1) <= threshold {
                    continue;
                }
                // Whatever is the best of its block: the bound of the block is above.
                let kept = pairs
                    .iter()
                    .filter(|other| at_writing(other.0, other.1) >= at_writing(one.0, one.1));
                let least = kept.map(|kept| bm25.score(kept.0 as f32, kept.1)).fold(f32::MAX, f32::min);
                assert!(
                    least > lowered,
                    "{one:?} beats {threshold} of {:?}, bound {least}, {lowered}",
                    (freq, norm)
                );
            }
        }
        // Of one length and nearly the same mean: the block of the threshold's own score is left out.
        let threshold = bm25.score(1.0, 3);
        if (mean / written - 1.0).abs() < 0.001 && longest < 10 {
            assert!(bounds.lower(threshold) > threshold, "{threshold} of {mean} and {written}");
        }
    }

    #[test]
    fn no_block_with_a_better_document_is_left_out() {
        for (mean, written) in [
            (5.0, 5.0),
            (5.0, 5.002),
            (5.002, 5.0),
            (5.0, 7.0),
            (7.0, 5.0),
            (2.0, 9.0),
            (9.0, 2.0),
        ] {
            for longest in [1, 3, 9, 12] {
                check(mean, written, longest);
            }
        }
        assert!(
            TermBounds::new(&bm25(5.0), 5.0, 120).is_none(),
            "long texts have too many pairs"
        );
    }
}
