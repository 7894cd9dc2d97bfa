//! Where words and sentences of a text begin, and passages of a bounded length between them.
//!
//! Both are those of Java's break iterators, which the reference's highlighters use. A sentence ends after an exclamation or
//! question mark. It ends after a period that is followed by space and a capital letter, or by two spaces and any letter. The
//! end of a line is a space. Not here: words (`java_words`).

use super::java_words::words;
use super::text::Content;
use regex::Regex;
use std::sync::LazyLock;

/// A predicate: what it says of ASCII, and the class of other characters.
macro_rules! class {
    ($name:ident, $ascii:expr, $others:literal) => {
        fn $name(c: char) -> bool {
            static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($others).ok());
            if c.is_ascii() {
                let ascii: fn(char) -> bool = $ascii;
                return ascii(c);
            }
            CLASS
                .as_ref()
                .is_some_and(|class| class.is_match(c.encode_utf8(&mut [0; 4])))
        }
    };
}
pub(super) use class;
class!(is_letter, |c| c.is_ascii_alphabetic(), r"\p{L}");
class!(is_capital, |c| c.is_ascii_uppercase(), r"[\p{L}--\p{Ll}]");
class!(
    is_space,
    |c| matches!(c, '\t' | '\r' | '\x0c' | '\n' | ' '),
    r"[\p{Zs}\x{2028}]"
);
class!(is_closing, |c| matches!(c, ')' | ']' | '}' | '"' | '\''), r"[\p{Pe}\p{Pf}]");
class!(is_opening, |c| matches!(c, '(' | '[' | '{' | '"' | '\''), r"[\p{Ps}\p{Pi}]");
class!(is_number, |c| c.is_ascii_digit(), r"\p{N}");
class!(is_mark, |_| false, r"[\p{Mn}\p{Me}\p{Cf}]");

fn is_period(c: char) -> bool {
    matches!(c, '.' | '\u{ff0e}')
}
fn is_end(c: char) -> bool {
    matches!(c, '!' | '?' | '\u{3002}' | '\u{ff01}' | '\u{ff1f}')
}
/// Characters that may stand before the first letter of a sentence.
fn is_lead(c: char) -> bool {
    is_opening(c)
        || !(is_letter(c) || is_space(c) || is_closing(c) || is_number(c) || is_end(c) || is_period(c) || is_mark(c))
            && !matches!(c, ',' | '\u{2029}')
}

/// Where each sentence ends, in bytes.
pub(super) fn sentences(text: &str) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    for (at, c) in text.char_indices() {
        if ends.last().is_some_and(|end| at < *end) {
            continue;
        }
        if is_period(c) && is_list_mark(text, at) {
            // Java's machine stops before each period when what it has looked ahead for does not come.
            let periods = skip(text, at, is_period);
            ends.push(at);
            ends.extend(text[at..periods].char_indices().map(|(n, c)| at + n + c.len_utf8()));
            ends.dedup();
            continue;
        }
        let after = at + c.len_utf8();
        let end = match c {
            '\u{2029}' => Some(after),
            '\u{964}' | '\u{965}' => Some(skip(text, after, is_space)),
            c if is_end(c) => {
                let spaces = skip(
                    text,
                    skip(text, after, |c| is_end(c) || is_period(c) || is_closing(c)),
                    is_space,
                );
                Some(skip_one(text, spaces, '\u{2029}'))
            }
            c if is_period(c) => after_period(text, after),
            _ => None,
        };
        ends.extend(end);
    }
    if ends.last().copied().unwrap_or(0) < text.len() {
        ends.push(text.len());
    }
    ends
}

/// Where the sentence ends that a period may end.
fn after_period(text: &str, after: usize) -> Option<usize> {
    let closed = skip(text, after, |c| is_period(c) || is_closing(c));
    let spaces = skip(text, closed, is_space);
    let at = |at: usize| text.get(at..).and_then(|rest| rest.chars().next());
    if spaces > closed && at(spaces).is_some_and(is_capital) {
        return Some(spaces);
    }
    let wide = text.get(closed..spaces).is_some_and(|between| between.chars().count() > 1);
    if wide && at(spaces).is_some_and(is_letter) {
        return Some(spaces);
    }
    let led = |from: usize| {
        let letter = skip(text, from, is_lead);
        letter > from && at(letter).is_some_and(is_letter)
    };
    // A quotation mark closes or opens.
    [spaces, after].into_iter().find(|from| led(*from))
}

/// Whether one mark follows a period and two spaces or more, as that of a list does, and no letter follows the mark.
fn is_list_mark(text: &str, at: usize) -> bool {
    let closed = skip(text, at, |c| is_period(c) || is_closing(c));
    let spaces = skip(text, closed, is_space);
    let lead = skip(text, spaces, is_lead);
    let count = |from: usize, to: usize| text.get(from..to).map_or(0, |part| part.chars().count());
    let next = text.get(lead..).and_then(|rest| rest.chars().next());
    count(spaces, lead) == 1 && count(closed, spaces) > 1 && !next.is_some_and(is_letter)
}

fn skip(text: &str, from: usize, class: impl Fn(char) -> bool) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    rest.find(|c| !class(c)).map_or(text.len(), |length| from + length)
}

fn skip_one(text: &str, from: usize, c: char) -> usize {
    let there = text.get(from..).is_some_and(|rest| rest.starts_with(c));
    if there { from + c.len_utf8() } else { from }
}

/// How a text is cut into passages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cut {
    /// A whole value.
    Value,
    /// A word.
    Word,
    /// Sentences, as many as fit; one that is too long is cut between words. 0: one sentence.
    Sentence(usize),
}

/// Finds the passage around a place of one value. Places are asked for in order.
pub(super) struct Scanner {
    cut: Cut,
    /// Boundaries in Java's characters, 0 and the end among them.
    main: Vec<usize>,
    words: Vec<usize>,
    window: (usize, usize),
    inner: (usize, usize),
}

impl Scanner {
    /// For one value.
    pub(super) fn new(content: &Content, cut: Cut) -> Scanner {
        let text = content.text();
        let boundaries = |ends: Vec<usize>| -> Vec<usize> {
            std::iter::once(0)
                .chain(ends.into_iter().map(|end| content.unit(end)))
                .collect()
        };
        let main = match cut {
            Cut::Value => vec![0, content.len()],
            Cut::Word => boundaries(words(text)),
            Cut::Sentence(_) => boundaries(sentences(text)),
        };
        let long = matches!(cut, Cut::Sentence(most) if most > 0 && main.windows(2).any(|pair| pair[1] - pair[0] > most));
        let words = if long { boundaries(words(text)) } else { Vec::new() };
        debug_assert!(main.is_sorted() && words.is_sorted(), "boundaries of a text ascend");
        Scanner {
            cut,
            main,
            words,
            window: (0, 0),
            inner: (0, 0),
        }
    }

    /// Beginning and end of the passage around the character at `start`.
    pub(super) fn passage(&mut self, start: usize) -> (usize, usize) {
        let offset = start + 1;
        let Cut::Sentence(most) = self.cut else {
            return (preceding(&self.main, offset), following(&self.main, start));
        };
        if most == 0 {
            return (preceding(&self.main, offset), following(&self.main, start));
        }
        let (from, mut to);
        let mut begin;
        if self.window.0 < offset && offset < self.window.1 {
            begin = self.inner.1;
            from = self.window.0;
            to = self.window.1;
        } else {
            begin = preceding(&self.main, offset);
            from = begin;
            to = following(&self.main, start);
            while to - begin < most {
                let next = following(&self.main, to);
                if next <= to || next - begin > most {
                    break;
                }
                to = next;
            }
        }
        let mut end = to;
        self.window = (from, to);
        if end.saturating_sub(begin) > most && !self.words.is_empty() {
            if offset > most && offset - most > begin {
                begin = begin.max(preceding(&self.words, offset - most));
            }
            let remaining = (most + begin).saturating_sub(offset);
            if offset + remaining < to {
                end = to.min(following(&self.words, offset + remaining));
            }
        }
        debug_assert!(begin <= end, "a passage begins before it ends: [{begin}], [{end}]");
        self.inner = (begin, end);
        self.inner
    }
}

/// The last boundary before an offset.
fn preceding(boundaries: &[usize], offset: usize) -> usize {
    let count = boundaries.partition_point(|b| *b < offset);
    boundaries.get(count.saturating_sub(1)).copied().unwrap_or(0)
}

/// The first boundary after an offset, or the end.
pub(super) fn following(boundaries: &[usize], offset: usize) -> usize {
    let count = boundaries.partition_point(|b| *b <= offset);
    boundaries.get(count).or(boundaries.last()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cut: fn(&str) -> Vec<usize>, text: &str, expected: &[&str]) {
        let mut parts = Vec::new();
        let mut from = 0;
        for end in cut(text) {
            parts.push(&text[from..end]);
            from = end;
        }
        assert_eq!(parts, expected, "{text}");
    }

    #[test]
    fn pieces() {
        check(words, "don't stop", &["don't", " ", "stop"]);
        check(words, "v2.19: a_b  c", &["v2.19", ":", " ", "a_b", "  ", "c"]);
        check(words, "a/b\r\n#5 100%", &["a", "/", "b", "\r\n", "#5", " ", "100%"]);
        check(words, "東京タワー e\u{301}t", &["東京", "タワー", " ", "e\u{301}t"]);
        check(
            words,
            "one-two--three AB-12",
            &["one-two", "-", "-", "three", " ", "AB", "-", "12"],
        );
        check(words, "$1,000.5 I.B.M.", &["$1,000.5", " ", "I.B.M", "."]);
        check(sentences, "One.  two", &["One.  ", "two"]);
        check(sentences, "One.\ntwo", &["One.\ntwo"]);
        check(sentences, "One.\r\ntwo", &["One.\r\n", "two"]);
        check(sentences, "One.\n\n- two", &["One", ".", "\n\n- two"]);
        check(sentences, "One. Two", &["One. ", "Two"]);
        check(sentences, "One. two", &["One. two"]);
        check(sentences, "One! two? Three", &["One! ", "two? ", "Three"]);
        check(sentences, "It is. (Or not)", &["It is. ", "(Or not)"]);
        check(sentences, "1. 2 v1.0 a", &["1. 2 v1.0 a"]);
        check(sentences, "", &[]);
    }
}
