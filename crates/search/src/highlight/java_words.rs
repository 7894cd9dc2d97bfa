//! Where words end, as Java's word break iterator of no language has it.
//!
//! A word is letters with single dashes, underscores, apostrophes, quotation marks and periods between them; a number is
//! digits with single commas, periods and quotation marks, with a sign of currency before it or of percent after it.
//! Runs of one of the Japanese scripts and of Chinese characters are pieces, a run of spaces with the end of its line is
//! one, and so is every other character. Not here: Thai, which needs a dictionary; sentences (`breaks`).

use super::breaks::class;
use regex::Regex;
use std::sync::LazyLock;

/// The class of a character in the rules.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Letter,
    Digit,
    /// Within words: dashes, underscores.
    InWord,
    /// Within words and numbers: quotation marks, apostrophes.
    Quote,
    /// The same, and before numbers.
    Period,
    /// Within numbers.
    Comma,
    /// Before numbers: signs of currency, the number sign.
    Before,
    /// After numbers.
    After,
    /// Ends a sentence of Hindi, and may end a word.
    Danda,
    Kanji,
    Katakana,
    Hiragana,
    /// Marks of both kinds of kana.
    Kana,
    Space,
    Return,
    Line,
    Mark,
    Other,
}

class!(is_letter, |c| c.is_ascii_alphabetic(), r"[\p{L}\p{Mc}]");
class!(is_digit, |c| c.is_ascii_digit(), r"\p{N}");
class!(is_mark, |_| false, r"[\p{Mn}\p{Me}\p{Cf}]");
class!(is_joiner, |c| matches!(c, '-' | '_'), r"[\p{Pd}\p{Pc}\x{ad}\x{2027}]");
class!(is_currency, |c| c == '$', r"\p{Sc}");
class!(is_space, |c| matches!(c, ' ' | '\t'), r"\p{Zs}");

fn kind(c: char) -> Kind {
    match c {
        '\u{964}' | '\u{965}' => Kind::Danda,
        '\u{3005}' | '\u{4e00}'..='\u{9fa5}' | '\u{f900}'..='\u{fa2d}' => Kind::Kanji,
        '\u{30a1}'..='\u{30fa}' | '\u{30fd}' | '\u{30fe}' => Kind::Katakana,
        '\u{3041}'..='\u{3094}' | '\u{309d}' | '\u{309e}' => Kind::Hiragana,
        '\u{3099}'..='\u{309c}' | '\u{30fb}' | '\u{30fc}' => Kind::Kana,
        '"' | '\'' => Kind::Quote,
        '.' => Kind::Period,
        ',' | '\u{66b}' => Kind::Comma,
        '%' | '&' | '\u{2030}' | '\u{66a}' | '\u{a2}' => Kind::After,
        '#' => Kind::Before,
        '\n' | '\x0c' | '\u{2028}' | '\u{2029}' => Kind::Line,
        '\r' => Kind::Return,
        c if is_joiner(c) => Kind::InWord,
        c if is_letter(c) => Kind::Letter,
        c if is_digit(c) => Kind::Digit,
        c if is_mark(c) => Kind::Mark,
        c if is_currency(c) => Kind::Before,
        c if is_space(c) => Kind::Space,
        _ => Kind::Other,
    }
}

/// A character with the marks that follow it.
struct Unit {
    kind: Kind,
    marked: bool,
    end: usize,
}

/// Where each word, or what stands between two, ends, in bytes.
pub(super) fn words(text: &str) -> Vec<usize> {
    let mut units: Vec<Unit> = Vec::new();
    for (at, c) in text.char_indices() {
        let (kind, end) = (kind(c), at + c.len_utf8());
        match units.last_mut() {
            Some(last) if kind == Kind::Mark && !matches!(last.kind, Kind::Line | Kind::Return) => {
                last.marked = true;
                last.end = end;
            }
            _ => units.push(Unit {
                kind,
                marked: false,
                end,
            }),
        }
    }
    let (mut ends, mut at) = (Vec::new(), 0);
    while at < units.len() {
        at = piece(&units, at);
        ends.push(units[at - 1].end);
    }
    ends
}

/// Where the longest piece ends that begins at a unit.
fn piece(units: &[Unit], at: usize) -> usize {
    let is = |at: usize, kind: Kind| units.get(at).is_some_and(|unit| unit.kind == kind);
    let mixed = numbers(units, word(units, at).unwrap_or(at));
    let led = match units[at].kind {
        Kind::Before | Kind::Period => numbers(units, at + 1),
        _ => at,
    };
    let mut spaces = run(units, at, |kind| kind == Kind::Space);
    spaces += usize::from(is(spaces, Kind::Return));
    spaces += usize::from(is(spaces, Kind::Line));
    let katakana = run(units, at, |kind| matches!(kind, Kind::Katakana | Kind::Kana));
    let hiragana = run(units, at, |kind| matches!(kind, Kind::Hiragana | Kind::Kana));
    let kanji = run(units, at, |kind| kind == Kind::Kanji);
    [mixed, led, spaces, katakana, hiragana, kanji]
        .into_iter()
        .fold(at + 1, usize::max)
}

/// Where a run of units ends; one with marks is its last.
fn run(units: &[Unit], from: usize, of: impl Fn(Kind) -> bool) -> usize {
    let mut at = from;
    while let Some(unit) = units.get(at).filter(|unit| of(unit.kind)) {
        at += 1;
        if unit.marked {
            break;
        }
    }
    at
}

/// Numbers and words in turn, the last number with the sign after it.
fn numbers(units: &[Unit], from: usize) -> usize {
    let mut at = from;
    while let Some(number) = end_of_run(units, at, Kind::Digit, |kind| {
        matches!(kind, Kind::Quote | Kind::Period | Kind::Comma)
    }) {
        match word(units, number) {
            Some(word) => at = word,
            None => {
                let sign = units.get(number).is_some_and(|unit| unit.kind == Kind::After);
                return number + usize::from(sign);
            }
        }
    }
    at
}

fn word(units: &[Unit], from: usize) -> Option<usize> {
    let end = end_of_run(units, from, Kind::Letter, |kind| {
        matches!(kind, Kind::InWord | Kind::Quote | Kind::Period)
    })?;
    let danda = units.get(end).is_some_and(|unit| unit.kind == Kind::Danda);
    Some(end + usize::from(danda))
}

/// Runs of one kind with single joiners between them.
fn end_of_run(units: &[Unit], from: usize, of: Kind, joins: impl Fn(Kind) -> bool) -> Option<usize> {
    let is = |at: usize| units.get(at).is_some_and(|unit| unit.kind == of);
    let mut at = from;
    while is(at) || at > from && units.get(at).is_some_and(|unit| joins(unit.kind)) && is(at + 1) {
        at += 1;
    }
    (at > from).then_some(at)
}
