//! `plain`: fragments of about equal length, scored by the weights of the terms in them.

use super::terms::{Want, positional};
use super::text::{Content, Marks, Word};
use std::collections::{HashMap, HashSet};

/// Most tokens that are marked as one where they overlap.
const GROUP_MAX: usize = 50;

/// The plain highlighter: which fragments of a field's values are shown.
pub(super) struct Plain<'a> {
    pub(super) marks: &'a Marks,
    /// 0: whole values.
    pub(super) most: usize,
    pub(super) size: usize,
    /// Fragments do not end inside a phrase.
    pub(super) spans: bool,
    pub(super) by_score: bool,
    pub(super) no_match: usize,
}

/// A term that is looked for: its weight, and the spans of positions outside of which it does not count.
#[derive(Default)]
struct Weighted {
    weight: f32,
    spans: Option<Vec<(u32, u32)>>,
}

struct Fragment {
    start: usize,
    end: usize,
    score: f32,
}

impl Plain<'_> {
    /// The fragments of a field with these values; `words` are the tokens of each.
    pub(super) fn fragments(&self, values: &[Content], words: &[Vec<Word>], wants: &[Want]) -> Vec<String> {
        assert_eq!(values.len(), words.len(), "each value has its words");
        let most = self.most.max(1);
        let mut all: Vec<(f32, String)> = Vec::new();
        for (content, words) in values.iter().zip(words) {
            let weighted = weigh(words, wants);
            if !weighted.is_empty() {
                all.extend(self.of_value(content, words, &weighted, most));
            }
        }
        if self.by_score {
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
        }
        if self.most > 0 || values.len() <= 1 {
            all.truncate(most);
        }
        if all.is_empty() && self.no_match > 0 {
            return self.beginning(values, words).into_iter().collect();
        }
        all.into_iter().map(|(_, text)| text).collect()
    }

    fn of_value(&self, content: &Content, words: &[Word], weighted: &HashMap<&str, Weighted>, most: usize) -> Vec<(f32, String)> {
        let mut out = String::new();
        let mut fragments = vec![Fragment {
            start: 0,
            end: 0,
            score: 0.0,
        }];
        let mut found: HashSet<&str> = HashSet::new();
        let mut cutter = Cutter {
            size: self.size,
            number: 1,
            position: -1,
            wait: -1,
            length: content.len(),
        };
        let mut group = TokenGroup::default();
        let mut last = 0;
        let mut before: i64 = -1;
        for word in words {
            let increment = i64::from(word.position) - before;
            before = i64::from(word.position);
            if group.tokens > 0 && word.start >= group.end {
                last = self.flush(&mut out, content, &group, last);
                group = TokenGroup::default();
                if self.most > 0 && cutter.is_new(word, increment, weighted, self.spans) {
                    if let Some(fragment) = fragments.last_mut() {
                        fragment.end = out.len();
                    }
                    fragments.push(Fragment {
                        start: out.len(),
                        end: 0,
                        score: 0.0,
                    });
                    found.clear();
                }
            }
            let score = weighted
                .get(word.term.as_str())
                .filter(|w| w.counts_at(word.position))
                .map_or(0.0, |w| w.weight);
            if score > 0.0
                && found.insert(&word.term)
                && let Some(fragment) = fragments.last_mut()
            {
                fragment.score += score;
            }
            group.add(word, score);
        }
        if group.tokens > 0 {
            last = self.flush(&mut out, content, &group, last);
        }
        self.marks.push(&mut out, content.slice(last, content.len().max(last)));
        if let Some(fragment) = fragments.last_mut() {
            fragment.end = out.len();
        }
        fragments.retain(|f| f.score > 0.0);
        fragments.sort_by(|a, b| b.score.total_cmp(&a.score));
        fragments.truncate(most);
        fragments
            .iter()
            .map(|f| (f.score, out.get(f.start..f.end).unwrap_or_default().to_owned()))
            .collect()
    }

    /// Writes a group of tokens with what stands before it; answers where it ends.
    fn flush(&self, out: &mut String, content: &Content, group: &TokenGroup, last: usize) -> usize {
        let (start, end) = group.shown;
        debug_assert!(start <= end && end <= group.end, "what is shown of a group lies in it");
        if start > last {
            self.marks.push(out, content.slice(last, start));
        }
        let text = content.slice(start, end);
        if group.score > 0.0 {
            self.marks.mark(out, text);
        } else {
            self.marks.push(out, text);
        }
        end.max(last)
    }

    /// The beginning of the first value, up to the end of a word.
    fn beginning(&self, values: &[Content], words: &[Vec<Word>]) -> Option<String> {
        let (content, words) = (values.first()?, words.first()?);
        let end = words.iter().map(|w| w.end).take_while(|end| *end <= self.no_match).last()?;
        Some(content.slice(0, end).to_owned())
    }
}

/// Tokens that overlap.
#[derive(Default)]
struct TokenGroup {
    tokens: usize,
    end: usize,
    shown: (usize, usize),
    score: f32,
}

impl TokenGroup {
    fn add(&mut self, word: &Word, score: f32) {
        if self.tokens >= GROUP_MAX {
            return;
        }
        if self.tokens == 0 || score > 0.0 && self.score == 0.0 {
            self.shown = (word.start, word.end);
        } else if score > 0.0 {
            self.shown = (self.shown.0.min(word.start), self.shown.1.max(word.end));
        }
        self.end = self.end.max(word.end);
        self.score += score;
        self.tokens += 1;
    }
}

/// Says where fragments begin. Its positions lag one token behind, as in Lucene.
struct Cutter {
    size: usize,
    number: usize,
    position: i64,
    wait: i64,
    length: usize,
}

impl Cutter {
    fn is_new(&mut self, word: &Word, increment: i64, weighted: &HashMap<&str, Weighted>, spans: bool) -> bool {
        self.position += increment;
        let full = word.end >= self.size.saturating_mul(self.number);
        if !spans {
            self.number += usize::from(full);
            return full;
        }
        if self.wait <= self.position {
            self.wait = -1;
        } else if self.wait != -1 {
            return false;
        }
        let begun = weighted.get(word.term.as_str()).and_then(|w| w.spans.as_ref());
        if let Some((_, end)) = begun.and_then(|all| all.iter().find(|(start, _)| i64::from(*start) == self.position)) {
            self.wait = i64::from(*end) + 1;
        }
        let new = full && self.length.saturating_sub(word.end) >= self.size / 2;
        self.number += usize::from(new);
        new
    }
}

impl Weighted {
    fn counts_at(&self, position: u32) -> bool {
        self.spans
            .as_ref()
            .is_none_or(|spans| spans.iter().any(|(start, end)| (*start..=*end).contains(&position)))
    }
}

/// The terms of a value that are looked for.
fn weigh<'a>(words: &'a [Word], wants: &[Want]) -> HashMap<&'a str, Weighted> {
    let mut out: HashMap<&str, Weighted> = HashMap::new();
    for phrase in positional(words, wants) {
        for word in phrase.words.iter().filter_map(|at| words.get(*at)) {
            let entry = out.entry(&word.term).or_default();
            entry.weight = entry.weight.max(phrase.boost);
            entry.spans.get_or_insert_default().push(phrase.span);
        }
    }
    for word in words {
        for want in wants.iter().filter(|w| w.is_term(&word.term) || w.shape_matches(&word.term)) {
            let entry = out.entry(&word.term).or_default();
            entry.weight = want.weight_at(&word.term);
            entry.spans = None;
        }
    }
    out
}
