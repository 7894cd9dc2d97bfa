//! Tokenizers that keep runs of one sort of character: `letter`, `lowercase`, `whitespace`, `char_group`.

use super::{Piece, Tokenizer};
use crate::characters::{after_units, digit_value, lowercase};
use crate::token::TokenKind;

/// A sort of characters, under the names of `token_chars` and `tokenize_on_chars`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CharClass {
    Letter,
    Digit,
    Whitespace,
    Punctuation,
    Symbol,
    /// These characters.
    These(Vec<char>),
}

impl CharClass {
    /// Whether the character is of this sort.
    pub(crate) fn has(&self, c: char) -> bool {
        match self {
            CharClass::Letter => is_letter(c),
            CharClass::Digit => c.is_ascii_digit() || (!c.is_ascii() && digit_value(c).is_some()),
            CharClass::Whitespace => is_java_whitespace(c),
            CharClass::Punctuation => is_punctuation(c),
            CharClass::Symbol => is_symbol(c),
            CharClass::These(chars) => chars.contains(&c),
        }
    }
}

/// Java's `Character.isLetter`: alphabetic, but neither a mark nor a number.
pub(crate) fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    c.is_alphabetic()
        && !unicode_normalization::char::is_combining_mark(c)
        && !matches!(c, '\u{24b6}'..='\u{24e9}' | '\u{2160}'..='\u{2188}' | '\u{16ee}'..='\u{16f0}' | '\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3038}'..='\u{303a}' | '\u{1f130}'..='\u{1f189}')
}

/// Java's `Character.isWhitespace`: no no-break spaces.
pub(crate) fn is_java_whitespace(c: char) -> bool {
    match c {
        '\u{1c}'..='\u{1f}' => true,
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        c => c.is_whitespace(),
    }
}

fn is_punctuation(c: char) -> bool {
    match c {
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => false,
        c if c.is_ascii() => c.is_ascii_punctuation(),
        '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' => true,
        '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' => !matches!(c, '\u{2044}' | '\u{2052}'),
        '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '\u{30fb}' => true,
        '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff3f}' | '\u{ff5b}'..='\u{ff65}' => {
            !matches!(c, '＄' | '＋' | '＜' | '＝' | '＞' | '＾' | '｀' | '｜' | '～')
        }
        _ => false,
    }
}

fn is_symbol(c: char) -> bool {
    match c {
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => true,
        c if c.is_ascii() => false,
        '¢'..='©' | '¬' | '®'..='±' | '´' | '¸' | '×' | '÷' => c != '§',
        '\u{20a0}'..='\u{20c0}' | '\u{2190}'..='\u{23ff}' | '\u{2500}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}' => true,
        '\u{2044}' | '\u{2052}' | '\u{1f300}'..='\u{1faff}' => true,
        _ => false,
    }
}

/// Runs of characters that are, or are not, of the given sorts.
pub(crate) struct ByClass {
    pub(crate) classes: Vec<CharClass>,
    /// Whether the characters of these sorts make tokens, or separate them.
    pub(crate) keep: bool,
    pub(crate) lowercase: bool,
    pub(crate) max_token_length: usize,
}

impl ByClass {
    fn belongs(&self, c: char) -> bool {
        self.classes.iter().any(|class| class.has(c)) == self.keep
    }
}

impl Tokenizer for ByClass {
    fn longest(&self) -> Option<usize> {
        Some(self.max_token_length)
    }
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        let mut position = 0;
        let mut lower = String::new();
        let mut start = None;
        for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
            let inside = at < text.len() && self.belongs(c);
            match start {
                None if inside => start = Some(at),
                Some(mut from) if !inside => {
                    start = None;
                    while from < at {
                        let end = if at - from <= self.max_token_length {
                            at
                        } else {
                            after_units(&text[..at], from, self.max_token_length)
                        };
                        debug_assert!(end > from, "a long run is divided into pieces of a character at least");
                        let mut piece = Piece::of(text, from, end, position, TokenKind::Word);
                        if self.lowercase {
                            lower.clear();
                            lower.push_str(piece.term);
                            lowercase(&mut lower);
                            piece.term = &lower;
                        }
                        f(piece);
                        position += 1;
                        from = end;
                    }
                }
                _ => {}
            }
        }
    }

    fn normalize(&self, term: &mut String) {
        if self.lowercase {
            lowercase(term);
        }
    }
}
