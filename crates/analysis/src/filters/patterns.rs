//! Filters by regular expression: `pattern_replace` and `pattern_capture`.

use super::{All, Each};
use crate::token::Token;
use regex::Regex;

/// Replaces matches in terms.
pub(crate) struct PatternReplace {
    pub(crate) pattern: Regex,
    /// In the syntax of the `regex` crate.
    pub(crate) replacement: String,
    pub(crate) all: bool,
}

impl Each for PatternReplace {
    fn each(&self, token: &mut Token) -> bool {
        let limit = if self.all { 0 } else { 1 };
        if let std::borrow::Cow::Owned(term) = self.pattern.replacen(&token.term, limit, self.replacement.as_str()) {
            token.term = term;
        }
        true
    }
}

/// Adds the captured groups of patterns as tokens at the same position.
pub(crate) struct PatternCapture {
    pub(crate) patterns: Vec<Regex>,
    pub(crate) preserve_original: bool,
}

impl All for PatternCapture {
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let mut out = Vec::with_capacity(tokens.len());
        for token in tokens {
            let mut found: Vec<(usize, usize)> = Vec::new();
            for pattern in &self.patterns {
                for captures in pattern.captures_iter(&token.term) {
                    found.extend(captures.iter().skip(1).flatten().map(|group| (group.start(), group.end())));
                }
            }
            found.retain(|(start, end)| start < end && (!self.preserve_original || *end - *start < token.term.len()));
            found.sort_by_key(|(start, _)| *start);
            if self.preserve_original || found.is_empty() {
                out.push(token.clone());
            }
            out.extend(found.into_iter().map(|(start, end)| token.with_term(&token.term[start..end])));
        }
        out
    }
}
