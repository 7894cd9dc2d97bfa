//! `mapping`: strings become other strings, the longest first.

use super::{CharFilter, Rewrite};
use std::collections::HashMap;

/// Replaces strings.
pub(crate) struct Mapping {
    /// By first character, the longest first.
    rules: HashMap<char, Vec<(String, String)>>,
}

impl Mapping {
    /// Each text and its replacement.
    pub(crate) fn new(rules: impl IntoIterator<Item = (String, String)>) -> Mapping {
        let mut by_first: HashMap<char, Vec<(String, String)>> = HashMap::new();
        for (from, to) in rules {
            if let Some(first) = from.chars().next() {
                by_first.entry(first).or_default().push((from, to));
            }
        }
        for rules in by_first.values_mut() {
            rules.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        }
        Mapping { rules: by_first }
    }
}

impl CharFilter for Mapping {
    fn filter(&self, text: &str, out: &mut Rewrite<'_>) {
        let mut done = 0;
        for (at, c) in text.char_indices() {
            if at < done {
                continue;
            }
            if let Some(rules) = self.rules.get(&c)
                && let Some((from, to)) = rules.iter().find(|(from, _)| text[at..].starts_with(from))
            {
                done = at + from.len();
                out.keep_to(at);
                out.replace_to(done, to);
                if out.is_full() {
                    return;
                }
            }
        }
    }
}
