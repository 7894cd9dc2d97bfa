//! The `standard` tokenizer: the word boundaries of UAX #29 as Lucene's grammar has them.
//!
//! The rules are walked over classes of characters: ASCII from a table of 128 bytes, the rest from ranges.
//! As in Lucene: `:` joins letters, a Han or Hiragana character is a token of its own, runs of Thai, Lao,
//! Khmer and Burmese stay whole, emoji are tokens.
//! Not here: dictionaries, URLs (`uax_url_email.rs`).

use super::{Piece, Tokenizer};
use crate::characters::after_units;
use crate::token::TokenKind;
use crate::word_break::Class::{self, *};
use crate::word_break::{ASCII, class_of};

/// Cuts at word boundaries.
pub(crate) struct Standard {
    pub(crate) max_token_length: usize,
}

impl Default for Standard {
    fn default() -> Standard {
        Standard { max_token_length: 255 }
    }
}

impl Tokenizer for Standard {
    fn longest(&self) -> Option<usize> {
        Some(self.max_token_length)
    }
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        let mut position = 0;
        self.between(text, 0, text.len(), &mut position, f);
    }
}

impl Standard {
    /// The tokens of a part of a text, from `position` on.
    pub(super) fn between(&self, text: &str, from: usize, to: usize, position: &mut u32, f: &mut dyn FnMut(Piece<'_>)) {
        let (whole, text) = (text, &text[..to]);
        let bytes = text.as_bytes();
        let mut at = from;
        while at < bytes.len() {
            let byte = bytes[at];
            if byte < 0x80 && !ASCII[byte as usize].is_wordly() && !matches!(byte, b'#' | b'*') {
                at += 1;
                continue;
            }
            let window = token_window(text, at, self.max_token_length);
            let (mut end, mut kind) = next(window, at);
            if end - at > self.max_token_length {
                let limit = after_units(window, at, self.max_token_length);
                if limit < end {
                    (end, kind) = next(&text[..limit], at);
                }
            }
            if let Some(kind) = kind {
                f(Piece::of(whole, at, end, *position, kind));
                *position += 1;
            }
            at = end;
        }
    }
}

/// As much of the text as a token of `max` UTF-16 units that begins at `from` can need, and what follows it.
fn token_window(text: &str, from: usize, max: usize) -> &str {
    let end = from.saturating_add(max.saturating_mul(3)).saturating_add(64);
    if end >= text.len() {
        text
    } else {
        &text[..text.floor_char_boundary(end)]
    }
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}

/// The class of the character at `at` and where it ends.
fn class_at(text: &str, at: usize) -> Option<(Class, usize)> {
    let byte = *text.as_bytes().get(at)?;
    if byte < 0x80 {
        return Some((ASCII[byte as usize], at + 1));
    }
    let c = char_at(text, at)?;
    Some((class_of(c), at + c.len_utf8()))
}

/// The end of what extends the character before `at`.
fn past_extend(text: &str, mut at: usize) -> usize {
    while let Some((Extend, end)) = class_at(text, at) {
        at = end;
    }
    at
}

/// The end of the stretch that begins at `at`, which is inside the text, and what kind of token it is, if it is one.
fn next(text: &str, at: usize) -> (usize, Option<TokenKind>) {
    let Some((class, end)) = class_at(text, at) else {
        return (text.len(), None);
    };
    if let Some(end) = keycap(text, at) {
        return (end, Some(TokenKind::Emoji));
    }
    match class {
        Letter | HebrewLetter | Hangul | Katakana | Digit | Underscore => word(text, class, end),
        Han => (past_extend(text, end), Some(TokenKind::Ideographic)),
        Hiragana => (past_extend(text, end), Some(TokenKind::Hiragana)),
        SouthEastAsian => {
            let mut end = end;
            while let Some((SouthEastAsian | Extend, next)) = class_at(text, end) {
                end = next;
            }
            (end, Some(TokenKind::SoutheastAsian))
        }
        RegionalIndicator => match class_at(text, past_extend(text, end)) {
            Some((RegionalIndicator, end)) => (past_extend(text, end), Some(TokenKind::Emoji)),
            _ => (end, None),
        },
        Emoji => (emoji(text, end), Some(TokenKind::Emoji)),
        _ => (end, None),
    }
}

/// A digit, `#` or `*` in a key: `1️⃣`.
fn keycap(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    if *bytes.get(at + 1)? < 0x80 || !matches!(bytes[at], b'0'..=b'9' | b'#' | b'*') {
        return None;
    }
    let mut rest = text[at + 1..].chars();
    (rest.next() == Some('\u{fe0f}') && rest.next() == Some('\u{20e3}'))
        .then(|| past_extend(text, text.len() - rest.as_str().len()))
}

/// The end of an emoji: modifiers, and further ones joined on.
fn emoji(text: &str, mut end: usize) -> usize {
    loop {
        let extended = past_extend(text, end);
        let joined = text[end..extended].ends_with('\u{200d}');
        match class_at(text, extended) {
            Some((Emoji | Pictograph, next)) if joined => end = next,
            _ => return extended,
        }
    }
}

/// The end of a word whose first character, of class `first`, ends at `end`.
fn word(text: &str, first: Class, mut end: usize) -> (usize, Option<TokenKind>) {
    let bytes = text.as_bytes();
    let mut last = first;
    let mut seen = first.bit();
    loop {
        // Most of most texts: ASCII letters, digits and underscores join each other freely.
        if last != Katakana {
            while end < bytes.len() && bytes[end] < 0x80 && ASCII[bytes[end] as usize].is_wordly() {
                last = ASCII[bytes[end] as usize];
                seen |= last.bit();
                end += 1;
            }
        }
        let Some((class, next)) = class_at(text, end) else {
            break;
        };
        let joins = match class {
            Extend => {
                end = next;
                continue;
            }
            Underscore => true,
            Katakana => matches!(last, Katakana | Underscore),
            class if class.is_wordly() => last != Katakana,
            SingleQuote if last == HebrewLetter => {
                end = next;
                match class_at(text, past_extend(text, next)) {
                    Some((class, _)) if class.is_letter() => continue,
                    _ => break,
                }
            }
            MidLetter | MidNum | MidNumLet | SingleQuote | DoubleQuote => {
                let after = past_extend(text, next);
                let Some((follower, follower_end)) = class_at(text, after) else {
                    break;
                };
                let letters = matches!(class, MidLetter | MidNumLet | SingleQuote) && last.is_letter() && follower.is_letter();
                let digits = matches!(class, MidNum | MidNumLet | SingleQuote) && last == Digit && follower == Digit;
                let hebrew = class == DoubleQuote && last == HebrewLetter && follower == HebrewLetter;
                if letters || digits || hebrew {
                    last = follower;
                    seen |= follower.bit();
                    end = follower_end;
                    continue;
                }
                false
            }
            _ => false,
        };
        if !joins {
            break;
        }
        last = class;
        seen |= class.bit();
        end = next;
    }
    let core = seen & !Underscore.bit();
    let kind = if core == 0 {
        None
    } else if seen == Hangul.bit() {
        Some(TokenKind::Hangul)
    } else if core == Katakana.bit() {
        Some(TokenKind::Katakana)
    } else if core == Digit.bit() {
        Some(TokenKind::Num)
    } else {
        Some(TokenKind::Alphanum)
    };
    (end, kind)
}
