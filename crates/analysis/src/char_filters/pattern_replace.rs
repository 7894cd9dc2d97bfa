//! `pattern_replace`: matches of a regular expression become something else.

use super::{CharFilter, Rewrite};
use regex::Regex;

/// Replaces matches.
pub(crate) struct PatternReplaceCharFilter {
    pub(crate) pattern: Regex,
    /// A part of the pattern that must follow a match without being part of it.
    pub(crate) followed_by: Option<Regex>,
    /// In the syntax of the `regex` crate.
    pub(crate) replacement: String,
}

impl CharFilter for PatternReplaceCharFilter {
    fn filter(&self, text: &str, out: &mut Rewrite<'_>) {
        let mut with = String::new();
        let mut from = 0;
        while from <= text.len() {
            let Some(captures) = self.pattern.captures_at(text, from) else {
                break;
            };
            let Some(all) = captures.get(0) else { break };
            let step = |at: usize| text[at..].chars().next().map_or(at + 1, |c| at + c.len_utf8());
            if self
                .followed_by
                .as_ref()
                .is_some_and(|next| !next.is_match(&text[all.end()..]))
            {
                from = step(all.start());
                continue;
            }
            with.clear();
            captures.expand(&self.replacement, &mut with);
            out.keep_to(all.start());
            out.replace_to(all.end(), &with);
            if out.is_full() {
                return;
            }
            from = if all.is_empty() { step(all.end()) } else { all.end() };
        }
    }
}
