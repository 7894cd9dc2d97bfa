//! `word_delimiter` and `word_delimiter_graph`: terms cut at punctuation, changes of case, and digits.

use super::{All, WordSet};
use crate::token::{Token, increments, positions_from_increments};

/// The sorts of characters a term is cut by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sort {
    Lower,
    Upper,
    /// A letter without case.
    Letter,
    Digit,
    Delimiter,
}

impl Sort {
    fn is_alpha(self) -> bool {
        matches!(self, Sort::Lower | Sort::Upper | Sort::Letter)
    }
}

/// Which parts and joins of parts become tokens.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are Elasticsearch's options")]
pub(crate) struct WordDelimiterOptions {
    pub(crate) generate_word_parts: bool,
    pub(crate) generate_number_parts: bool,
    pub(crate) catenate_words: bool,
    pub(crate) catenate_numbers: bool,
    pub(crate) catenate_all: bool,
    pub(crate) split_on_case_change: bool,
    pub(crate) split_on_numerics: bool,
    pub(crate) preserve_original: bool,
    pub(crate) stem_english_possessive: bool,
    pub(crate) adjust_offsets: bool,
    pub(crate) ignore_keywords: bool,
    pub(crate) protected: WordSet,
    /// The type of a character by its name: `LOWER`, `SUBWORD_DELIM`.
    pub(crate) types: Vec<(char, String)>,
}

/// Cuts terms.
pub(crate) struct WordDelimiter {
    pub(crate) options: WordDelimiterOptions,
    /// With the lengths of positions.
    pub(crate) graph: bool,
}

/// A part of a term: its bytes, and whether it is letters and whether it is digits.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    end: usize,
    alpha: bool,
    digit: bool,
}

/// A token to be: its text, its bytes of the term, its nodes.
struct Made {
    term: String,
    start: usize,
    end: usize,
    from: u32,
    to: u32,
}

/// Parts being joined.
#[derive(Default)]
struct Joined {
    term: String,
    start: usize,
    end: usize,
    from: u32,
    parts: usize,
    alpha: bool,
    digit: bool,
}

impl Joined {
    fn add(&mut self, term: &str, part: Part, position: u32) {
        if self.parts == 0 {
            (self.start, self.from, self.alpha, self.digit) = (part.start, position, part.alpha, part.digit);
        }
        self.term.push_str(&term[part.start..part.end]);
        self.end = part.end;
        self.parts += 1;
    }
    /// All of it as one part.
    fn whole(&self) -> Part {
        Part {
            start: self.start,
            end: self.end,
            alpha: self.alpha,
            digit: self.digit,
        }
    }
}

impl WordDelimiter {
    fn sort(&self, c: char) -> Sort {
        if let Some((_, name)) = self.options.types.iter().find(|(known, _)| *known == c) {
            return match name.as_str() {
                "LOWER" => Sort::Lower,
                "UPPER" => Sort::Upper,
                "ALPHA" | "ALPHANUM" => Sort::Letter,
                "DIGIT" => Sort::Digit,
                _ => Sort::Delimiter,
            };
        }
        match c {
            c if c.is_uppercase() => Sort::Upper,
            c if c.is_lowercase() => Sort::Lower,
            c if c.is_alphabetic() || unicode_normalization::char::is_combining_mark(c) => Sort::Letter,
            c if c.is_numeric() => Sort::Digit,
            '\u{1f000}'..='\u{1faff}' => Sort::Letter,
            _ => Sort::Delimiter,
        }
    }

    fn breaks(&self, last: Sort, next: Sort) -> bool {
        if last == next {
            return false;
        }
        if last.is_alpha() && next.is_alpha() {
            // From lower to upper only: `Xyz` stays whole.
            return self.options.split_on_case_change && last == Sort::Lower && next == Sort::Upper;
        }
        if (last.is_alpha() && next == Sort::Digit) || (last == Sort::Digit && next.is_alpha()) {
            return self.options.split_on_numerics;
        }
        true
    }

    fn parts(&self, term: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut chars = term.char_indices().map(|(at, c)| (at, self.sort(c))).peekable();
        while let Some((start, first)) = chars.next() {
            if first == Sort::Delimiter {
                continue;
            }
            let mut last = first;
            let mut end = term.len();
            while let Some(&(at, sort)) = chars.peek() {
                if self.breaks(last, sort) {
                    end = at;
                    break;
                }
                last = sort;
                chars.next();
            }
            parts.push(Part {
                start,
                end,
                alpha: first.is_alpha(),
                digit: first == Sort::Digit,
            });
            // A possessive: `O'Neil's` has no part `s`.
            if self.options.stem_english_possessive && last.is_alpha() {
                let mut rest = term[end..].chars();
                if rest.next() == Some('\'')
                    && matches!(rest.next(), Some('s' | 'S'))
                    && rest.next().is_none_or(|c| self.sort(c) == Sort::Delimiter)
                {
                    chars.next();
                    chars.next();
                }
            }
        }
        debug_assert!(
            parts.windows(2).all(|two| two[0].end <= two[1].start),
            "the parts of a term lie apart, in their order"
        );
        parts
    }

    fn generates(&self, part: Part) -> bool {
        (self.options.generate_word_parts && part.alpha) || (self.options.generate_number_parts && part.digit)
    }

    /// The token of joined parts, which takes at least one position. A single part that is a token already makes none.
    fn join(&self, joined: Joined, position: &mut u32) -> Option<Made> {
        debug_assert!(joined.from <= *position, "joined parts began at a position that was reached");
        if *position == joined.from {
            *position += 1;
        }
        if joined.parts == 1 && self.generates(joined.whole()) {
            return None;
        }
        Some(Made {
            term: joined.term,
            start: joined.start,
            end: joined.end,
            from: joined.from,
            to: *position,
        })
    }

    /// The tokens of a term and how many positions they take; `None` leaves it as it is.
    fn cut(&self, term: &str) -> Option<(Vec<Made>, u32)> {
        let options = &self.options;
        let parts = self.parts(term);
        if parts.len() == 1 && parts[0].start == 0 && parts[0].end == term.len() {
            return None;
        }
        if parts.is_empty() && !options.preserve_original {
            return Some((Vec::new(), 0));
        }
        let mut made: Vec<Made> = Vec::new();
        let mut position = 0_u32;
        let (mut some, mut all) = (Joined::default(), Joined::default());
        let mut last_count = 0;
        for &part in &parts {
            if some.parts > 0 && (some.alpha, some.digit) != (part.alpha, part.digit) {
                last_count = some.parts;
                made.extend(self.join(std::mem::take(&mut some), &mut position));
            }
            if (options.catenate_words && part.alpha) || (options.catenate_numbers && part.digit) {
                some.add(term, part, position);
            }
            if options.catenate_all {
                all.add(term, part, position);
            }
            if self.generates(part) {
                made.push(Made {
                    term: term[part.start..part.end].to_owned(),
                    start: part.start,
                    end: part.end,
                    from: position,
                    to: position + 1,
                });
                position += 1;
            }
        }
        if some.parts > 0 {
            last_count = some.parts;
            made.extend(self.join(some, &mut position));
        }
        if all.parts > last_count {
            made.extend(self.join(all, &mut position));
        }
        if options.preserve_original {
            position = position.max(1);
            made.push(Made {
                term: term.to_owned(),
                start: 0,
                end: term.len(),
                from: 0,
                to: position,
            });
        }
        // Tokens come by their beginning; among equal beginnings the longer comes first.
        let order = |one: &Made| (one.from, u32::MAX - one.to, one.start);
        made.sort_by_key(order);
        if options.preserve_original
            && let Some(at) = made.iter().rposition(|one| one.term == term && one.from == 0)
        {
            made[..=at].rotate_right(1);
        }
        Some((made, position))
    }
}

impl All for WordDelimiter {
    fn grows(&self) -> u32 {
        1
    }
    fn keywords(&self) -> bool {
        true
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let steps = increments(&tokens);
        let (mut out, mut out_steps): (Vec<Token>, Vec<u32>) = (Vec::new(), Vec::new());
        // Positions owed by tokens that vanished or that spanned several.
        let mut owed = 0;
        for (token, step) in tokens.into_iter().zip(steps) {
            let skipped = self.options.protected.has(&token.term) || (self.options.ignore_keywords && token.keyword);
            let cut = if skipped { None } else { self.cut(&token.term) };
            let Some((made, positions)) = cut else {
                out.push(token);
                out_steps.push(step + owed);
                owed = 0;
                continue;
            };
            let untouched = token.end - token.start == token.term.len();
            let adjust = self.options.adjust_offsets && untouched;
            let mut at: i64 = -1;
            for one in &made {
                let base = if at < 0 { step + owed } else { 0 };
                let forward = i64::from(one.from) - at.max(0);
                out_steps.push(base + u32::try_from(forward.max(0)).unwrap_or(0));
                at = i64::from(one.from);
                out.push(Token {
                    term: one.term.clone(),
                    start: if adjust { token.start + one.start } else { token.start },
                    end: if adjust { token.start + one.end } else { token.end },
                    position_length: if self.graph { one.to - one.from } else { 1 },
                    ..token
                });
            }
            owed = if made.is_empty() {
                owed + step
            } else {
                positions.saturating_sub(1).saturating_sub(u32::try_from(at).unwrap_or(0))
            };
        }
        positions_from_increments(&mut out, &out_steps);
        out
    }
}
