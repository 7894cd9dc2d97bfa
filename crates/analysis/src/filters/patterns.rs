//! Filters by regular expression: `pattern_replace` and `pattern_capture`.

use super::{All, Each};
use crate::token::Token;
use regex::Regex;

/// Beyond it nothing more is replaced.
const TERM_MAX_BYTES: usize = 64 << 10;

/// Replaces matches in terms.
pub(crate) struct PatternReplaceFilter {
    pub(crate) pattern: Regex,
    /// In the syntax of the `regex` crate.
    pub(crate) replacement: String,
    pub(crate) all: bool,
}

impl Each for PatternReplaceFilter {
    fn each(&self, token: &mut Token) -> bool {
        if !self.pattern.is_match(&token.term) {
            return true;
        }
        let (mut out, mut done) = (String::with_capacity(token.term.len()), 0);
        let most = if self.all { usize::MAX } else { 1 };
        for captures in self.pattern.captures_iter(&token.term).take(most) {
            let Some(all) = captures.get(0) else { break };
            out.push_str(&token.term[done..all.start()]);
            captures.expand(&self.replacement, &mut out);
            done = all.end();
            // No index takes a term of that length.
            if out.len() > TERM_MAX_BYTES {
                break;
            }
        }
        out.push_str(&token.term[done..]);
        token.term = out;
        true
    }
}

/// Adds the captured groups of patterns as tokens at the same position.
pub(crate) struct PatternCapture {
    pub(crate) patterns: Vec<Regex>,
    pub(crate) preserve_original: bool,
}

impl All for PatternCapture {
    fn grows(&self) -> u32 {
        1
    }
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
