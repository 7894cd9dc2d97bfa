//! Chinese, Japanese and Korean: `cjk_bigram` and `cjk_width`.

use super::{All, Each};
use crate::token::{Token, TokenKind};
use crate::word_break::{is_han, is_hangul, is_hiragana, is_katakana};
use unicode_normalization::UnicodeNormalization;

/// Pairs of neighbouring characters.
#[allow(clippy::struct_excessive_bools, reason = "they are Elasticsearch's options")]
pub(crate) struct CjkBigram {
    pub(crate) han: bool,
    pub(crate) hiragana: bool,
    pub(crate) katakana: bool,
    pub(crate) hangul: bool,
    /// Single characters too.
    pub(crate) unigrams: bool,
}

impl CjkBigram {
    fn takes(&self, token: &Token) -> bool {
        let Some(first) = token.term.chars().next() else {
            return false;
        };
        match token.kind {
            TokenKind::Ideographic => self.han && is_han(first),
            TokenKind::Hiragana => self.hiragana && is_hiragana(first),
            TokenKind::Katakana => self.katakana && is_katakana(first),
            TokenKind::Hangul => self.hangul && is_hangul(first),
            _ => false,
        }
    }
}

impl All for CjkBigram {
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let mut out = Vec::new();
        let mut run: Vec<(char, usize, usize)> = Vec::new();
        let mut position = 0;
        // How far the tokens' own positions are ahead of those given out.
        let mut expected = 0;
        for token in tokens {
            let hole = token.position.saturating_sub(expected);
            expected = token.position + 1;
            let takes = self.takes(&token);
            if !takes || run.last().is_some_and(|last| last.2 != token.start) {
                self.flush(&mut run, &mut position, &mut out);
            }
            position += hole;
            if takes {
                let whole = token.end - token.start == token.term.len();
                run.extend(token.term.char_indices().map(|(at, c)| {
                    if whole {
                        (c, token.start + at, token.start + at + c.len_utf8())
                    } else {
                        (c, token.start, token.end)
                    }
                }));
            } else {
                out.push(Token { position, ..token });
                position += 1;
            }
        }
        self.flush(&mut run, &mut position, &mut out);
        out
    }
}

impl CjkBigram {
    fn flush(&self, run: &mut Vec<(char, usize, usize)>, position: &mut u32, out: &mut Vec<Token>) {
        let run = std::mem::take(run);
        let single = |&(c, start, end): &(char, usize, usize), position: u32| Token {
            term: c.to_string(),
            start,
            end,
            position,
            kind: TokenKind::Single,
            ..Token::empty()
        };
        for (i, one) in run.iter().enumerate() {
            let pair = run.get(i + 1);
            if self.unigrams || run.len() == 1 {
                out.push(single(one, *position));
            }
            if let Some(next) = pair {
                out.push(Token {
                    term: [one.0, next.0].iter().collect(),
                    start: one.1,
                    end: next.2,
                    position: *position,
                    position_length: if self.unigrams { 2 } else { 1 },
                    kind: TokenKind::Double,
                    keyword: false,
                });
            }
            if pair.is_some() || self.unigrams || run.len() == 1 {
                *position += 1;
            }
        }
    }
}

/// Full-width Latin becomes narrow, half-width Katakana wide.
pub(crate) struct CjkWidth;

impl Each for CjkWidth {
    fn each(&self, token: &mut Token) -> bool {
        if token.term.chars().any(|c| ('\u{ff00}'..='\u{ff9f}').contains(&c)) {
            let widened: String = token
                .term
                .chars()
                .flat_map(|c| {
                    if ('\u{ff00}'..='\u{ff9f}').contains(&c) {
                        c.nfkc().collect::<Vec<_>>()
                    } else {
                        vec![c]
                    }
                })
                .collect();
            token.term = widened.nfc().collect();
        }
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}
