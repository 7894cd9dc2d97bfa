//! `unified`: passages of sentences, scored as if each were a small document.

use super::breaks::{Cut, Scanner, following};
use super::java_words::words;
use super::terms::{PhraseMatch, Want, positional};
use super::text::{Content, Marks, Word};
use std::collections::HashMap;

/// The unified highlighter: which fragments of a field's values are shown.
pub(super) struct Unified<'a> {
    pub(super) marks: &'a Marks,
    pub(super) cut: Cut,
    /// How many passages at most.
    pub(super) most: usize,
    pub(super) by_score: bool,
    pub(super) no_match: usize,
}

/// A word to highlight: its place, and the number of the term it counts for.
struct Match {
    value: usize,
    start: usize,
    end: usize,
    term: usize,
}

struct Passage {
    value: usize,
    start: usize,
    end: usize,
    score: f32,
    matches: Vec<Match>,
}

impl Unified<'_> {
    /// The fragments of a field with these values; `words` are the tokens of each.
    pub(super) fn fragments(&self, values: &[Content], words: &[Vec<Word>], wants: &[Want]) -> Vec<String> {
        assert_eq!(values.len(), words.len(), "each value has its words");
        let (matches, counts) = self.matches(words, wants);
        if matches.is_empty() {
            return self.beginning(values).into_iter().filter(|t| !t.trim().is_empty()).collect();
        }
        let mut passages = self.passages(values, matches, &counts);
        passages.sort_by_key(|p| (p.value, p.start));
        if self.by_score {
            passages.sort_by(|a, b| b.score.total_cmp(&a.score));
        }
        let shown = passages.iter().filter_map(|p| Some(self.show(values.get(p.value)?, p)));
        shown.filter(|text| !text.is_empty()).collect()
    }

    /// All matches in order, and how often each term has any.
    fn matches(&self, words: &[Vec<Word>], wants: &[Want]) -> (Vec<Match>, Vec<usize>) {
        let mut terms: HashMap<&str, usize> = HashMap::new();
        let mut counts: Vec<usize> = Vec::new();
        let mut out = Vec::new();
        let found: Vec<Vec<PhraseMatch>> = words.iter().map(|words| positional(words, wants)).collect();
        let shapes: Vec<&Want> = wants.iter().filter(|w| w.is_shape()).collect();
        let first_shape = counts.len();
        counts.resize(shapes.len(), 0);
        for (value, words) in words.iter().enumerate() {
            for (at, word) in words.iter().enumerate() {
                let exact = wants.iter().any(|w| w.is_term(&word.term))
                    || found.get(value).is_some_and(|all| all.iter().any(|f| f.words.contains(&at)));
                let mut hit = |term: usize, counts: &mut Vec<usize>| {
                    counts[term] += 1;
                    out.push(Match {
                        value,
                        start: word.start,
                        end: word.end,
                        term,
                    });
                };
                if exact {
                    let term = *terms.entry(&word.term).or_insert_with(|| {
                        counts.push(0);
                        counts.len() - 1
                    });
                    hit(term, &mut counts);
                }
                for (n, shape) in shapes.iter().enumerate() {
                    if shape.shape_matches(&word.term) {
                        hit(first_shape + n, &mut counts);
                    }
                }
            }
        }
        out.sort_by_key(|m| (m.value, m.start, m.end));
        (out, counts)
    }

    fn passages(&self, values: &[Content], matches: Vec<Match>, counts: &[usize]) -> Vec<Passage> {
        // Values stand behind each other with one character between them.
        let mut starts = Vec::with_capacity(values.len());
        let mut length = 0;
        for value in values {
            starts.push(length);
            length += value.len() + 1;
        }
        let length = length.saturating_sub(1);
        debug_assert!(
            matches.is_sorted_by_key(|found| (found.value, found.start, found.end)),
            "a scanner is asked for places in order"
        );
        let mut best: Vec<Passage> = Vec::new();
        let mut current: Option<Passage> = None;
        let mut scanner: Option<(usize, Scanner)> = None;
        let finish = |passage: Option<Passage>, best: &mut Vec<Passage>| {
            let Some(mut passage) = passage else { return };
            let offset = starts.get(passage.value).copied().unwrap_or(0);
            passage.score = score(&passage, offset, length, counts);
            best.push(passage);
            if best.len() > self.most {
                let worst = best
                    .iter()
                    .enumerate()
                    .min_by(|(_, a), (_, b)| a.score.total_cmp(&b.score).then((a.value, a.start).cmp(&(b.value, b.start))));
                if let Some((at, _)) = worst {
                    best.remove(at);
                }
            }
        };
        for found in matches {
            let Some(content) = values.get(found.value) else { continue };
            let inside = current
                .as_ref()
                .is_some_and(|p| p.value == found.value && found.start < p.end);
            if !inside {
                finish(current.take(), &mut best);
                if scanner.as_ref().is_none_or(|(value, _)| *value != found.value) {
                    scanner = Some((found.value, Scanner::new(content, self.cut)));
                }
                let (start, end) = scanner.as_mut().map_or((0, content.len()), |(_, s)| s.passage(found.start));
                let value = found.value;
                current = Some(Passage {
                    value,
                    start,
                    end,
                    score: 0.0,
                    matches: Vec::new(),
                });
            }
            if let Some(passage) = &mut current {
                passage.matches.push(found);
            }
        }
        finish(current.take(), &mut best);
        debug_assert!(best.len() <= self.most, "no more passages are kept than are shown");
        best
    }

    fn show(&self, content: &Content, passage: &Passage) -> String {
        let mut out = String::new();
        let mut at = passage.start;
        for found in &passage.matches {
            if found.start > at {
                self.marks.push(&mut out, content.slice(at, found.start));
            }
            if found.end > at {
                self.marks.mark(&mut out, content.slice(at.max(found.start), found.end));
                at = found.end;
            }
        }
        self.marks.push(&mut out, content.slice(at, at.max(passage.end)));
        trim(&out)
    }

    /// The beginning of the first value that is not empty.
    fn beginning(&self, values: &[Content]) -> Option<String> {
        if self.no_match == 0 {
            return None;
        }
        let content = values.iter().find(|v| v.len() > 0)?;
        let mut end = content.len();
        if self.no_match < end {
            let ends: Vec<usize> = words(content.text()).into_iter().map(|e| content.unit(e)).collect();
            end = following(&ends, self.no_match);
        }
        let mut out = String::new();
        self.marks.push(&mut out, content.slice(0, end));
        Some(trim(&out))
    }
}

/// As Java trims: everything up to the space.
fn trim(text: &str) -> String {
    text.trim_matches(|c: char| c <= ' ').to_owned()
}

/// The score of a passage in a text of so many characters; `counts`: how often a term is in the text.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a score")]
fn score(passage: &Passage, offset: usize, length: usize, counts: &[usize]) -> f32 {
    const K1: f32 = 1.2;
    const B: f32 = 0.75;
    const PIVOT: f32 = 87.0;
    let mut here: Vec<(usize, usize)> = Vec::new();
    for found in &passage.matches {
        match here.iter_mut().find(|(term, _)| *term == found.term) {
            Some((_, count)) => *count += 1,
            None => here.push((found.term, 1)),
        }
    }
    let norm = K1 * ((1.0 - B) + B * ((passage.end - passage.start) as f32 / PIVOT));
    let documents = 1.0 + length as f32 / PIVOT;
    let mut score = 0.0_f64;
    for (term, count) in here {
        let all = counts.get(term).copied().unwrap_or(0);
        let rarity = (1.0 + (f64::from(documents) + 0.5) / (all as f64 + 0.5)).ln() as f32;
        score += f64::from(count as f32 / (count as f32 + norm) * (K1 + 1.0) * rarity);
    }
    let place = 1.0 + 1.0 / (f64::from(PIVOT + (offset + passage.start) as f32)).ln() as f32;
    (score * f64::from(place)) as f32
}
