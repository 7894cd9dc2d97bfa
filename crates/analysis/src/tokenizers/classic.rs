//! The `classic` tokenizer: Lucene's grammar of old, made for English.

use super::{Piece, Tokenizer};
use crate::token::TokenKind;
use regex::Regex;
use std::sync::OnceLock;

/// Words, acronyms, companies, hosts and addresses.
pub(crate) struct ClassicTokenizer {
    pub(crate) max_token_length: usize,
}

/// The kinds, longest match first; among equals the earlier.
fn rules() -> &'static [(TokenKind, Regex)] {
    static RULES: OnceLock<Vec<(TokenKind, Regex)>> = OnceLock::new();
    RULES.get_or_init(|| {
        let alpha = r"[\p{L}\p{M}]";
        let alnum = r"[\p{L}\p{M}\p{Nd}]";
        let digit = format!(r"(?:{alnum}*\p{{Nd}}{alnum}*)");
        let p = r"[_\-/.,]";
        let number = format!(
            "{alnum}+{p}{digit}(?:{p}{alnum}+{p}{digit})*(?:{p}{alnum}+)?|{digit}{p}{alnum}+(?:{p}{digit}{p}{alnum}+)*(?:{p}{digit})?"
        );
        let rows = [
            (TokenKind::Email, format!(r"{alnum}+(?:[.\-_]{alnum}+)*@{alnum}+(?:[.\-]{alnum}+)+")),
            (TokenKind::Acronym, format!(r"{alpha}\.(?:{alpha}\.)+")),
            (TokenKind::Host, format!(r"{alnum}+(?:\.{alnum}+)+")),
            (TokenKind::Num, number),
            (TokenKind::Apostrophe, format!("{alpha}+(?:'{alpha}+)+")),
            (TokenKind::Company, format!("{alpha}+[&@]{alpha}+")),
            (TokenKind::Alphanum, r"[\p{L}\p{M}\p{Nd}&&[^\p{Han}\p{Hiragana}\p{Katakana}]]+".to_owned()),
            (TokenKind::Cj, r"[\p{Han}\p{Hiragana}\p{Katakana}]".to_owned()),
        ];
        rows.into_iter()
            .filter_map(|(kind, pattern)| Some((kind, Regex::new(&format!("^(?:{pattern})")).ok()?)))
            .collect()
    })
}

impl Tokenizer for ClassicTokenizer {
    fn longest(&self) -> Option<usize> {
        Some(self.max_token_length)
    }
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        let (mut position, mut at) = (0, 0);
        while let Some(c) = text[at..].chars().next() {
            if !c.is_alphanumeric() {
                at += c.len_utf8();
                continue;
            }
            // No rule looks further than the next white space, and none further than this.
            let reach = text.floor_char_boundary(text.len().min(at + 4096));
            let reach = text[at..reach].find(char::is_whitespace).map_or(reach, |n| at + n);
            let mut best: Option<(usize, TokenKind)> = None;
            for (kind, rule) in rules() {
                if let Some(found) = rule.find(&text[at..reach])
                    && best.is_none_or(|(end, _)| found.end() > end)
                {
                    best = Some((found.end(), *kind));
                }
            }
            let (length, kind) = best.unwrap_or((c.len_utf8(), TokenKind::Alphanum));
            // Longer tokens are dropped, not cut; they leave their position.
            if best.is_some() {
                if text[at..at + length].chars().count() <= self.max_token_length {
                    f(Piece::of(text, at, at + length, position, kind));
                }
                position += 1;
            }
            at += length;
        }
    }
}
