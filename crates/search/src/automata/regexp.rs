//! Patterns over terms: Lucene's regular expressions, wildcards, prefixes, as automata for term dictionaries.

use model::{Error, Result};
use std::sync::Arc;
use tantivy_fst::{Automaton, Regex};

/// An automaton over the bytes of terms.
#[derive(Clone)]
pub(crate) enum Pattern {
    /// A regular expression, and where no beginning rules a term out, a text that each match has in it.
    Regex(Arc<Regex>, Option<Arc<[u8]>>),
    /// Terms that begin so.
    Prefix(Arc<[u8]>),
    /// Both.
    And(Box<Pattern>, Box<Pattern>),
    /// Either.
    Or(Box<Pattern>, Box<Pattern>),
    /// All others.
    Not(Box<Pattern>),
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pattern")
    }
}

/// Where a [`Pattern`] is in a term.
#[derive(Clone)]
pub(crate) enum State {
    /// In a regular expression.
    Regex(<Regex as Automaton>::State),
    /// So many bytes of a prefix; `None` has failed.
    Prefix(Option<usize>),
    /// In two patterns.
    Two(Box<State>, Box<State>),
}

impl Automaton for Pattern {
    type State = State;
    fn start(&self) -> State {
        match self {
            Pattern::Regex(r, _) => State::Regex(r.start()),
            Pattern::Prefix(_) => State::Prefix(Some(0)),
            Pattern::And(a, b) | Pattern::Or(a, b) => State::Two(Box::new(a.start()), Box::new(b.start())),
            Pattern::Not(a) => a.start(),
        }
    }
    fn is_match(&self, state: &State) -> bool {
        match (self, state) {
            (Pattern::Regex(r, _), State::Regex(s)) => r.is_match(s),
            (Pattern::Prefix(p), State::Prefix(Some(at))) => *at >= p.len(),
            (Pattern::And(a, b), State::Two(x, y)) => a.is_match(x) && b.is_match(y),
            (Pattern::Or(a, b), State::Two(x, y)) => a.is_match(x) || b.is_match(y),
            (Pattern::Not(a), s) => !a.is_match(s),
            _ => false,
        }
    }
    fn can_match(&self, state: &State) -> bool {
        match (self, state) {
            (Pattern::Regex(r, _), State::Regex(s)) => r.can_match(s),
            (Pattern::Prefix(_), State::Prefix(at)) => at.is_some(),
            (Pattern::And(a, b), State::Two(x, y)) => a.can_match(x) && b.can_match(y),
            (Pattern::Or(a, b), State::Two(x, y)) => a.can_match(x) || b.can_match(y),
            (Pattern::Not(_), _) => true,
            _ => false,
        }
    }
    fn accept(&self, state: &State, byte: u8) -> State {
        match (self, state) {
            (Pattern::Regex(r, _), State::Regex(s)) => State::Regex(r.accept(s, byte)),
            (Pattern::Prefix(p), State::Prefix(Some(at))) => State::Prefix(match p.get(*at) {
                None => Some(*at),
                Some(wanted) if *wanted == byte => Some(at + 1),
                Some(_) => None,
            }),
            (Pattern::And(a, b) | Pattern::Or(a, b), State::Two(x, y)) => {
                State::Two(Box::new(a.accept(x, byte)), Box::new(b.accept(y, byte)))
            }
            (Pattern::Not(a), s) => a.accept(s, byte),
            (_, s) => s.clone(),
        }
    }
}

/// Longest regular expression (`index.max_regex_length`).
pub(crate) const MAX_REGEX: usize = 1000;

impl Pattern {
    fn compile(regex: &str, ignore_case: bool, original: &str) -> Result<Pattern> {
        let flags = if ignore_case { "(?is)" } else { "(?s)" };
        match Regex::new(&format!("{flags}{regex}")) {
            Ok(regex) => Ok(Pattern::Regex(Arc::new(regex), None)),
            Err(e) => Err(Error::illegal(format!("cannot use the pattern [{original}]: {e}"))),
        }
    }

    /// A text that each matching term has in it, where no beginning rules a term out: all terms must be looked at, and most lack it.
    pub(crate) fn text_inside(&self) -> Option<&[u8]> {
        match self {
            Pattern::Regex(_, inside) => inside.as_deref(),
            _ => None,
        }
    }

    /// Says that each match has a text in it.
    fn with_text_inside(self, text: &str) -> Pattern {
        match self {
            Pattern::Regex(regex, _) if !text.is_empty() => Pattern::Regex(regex, Some(text.as_bytes().into())),
            other => other,
        }
    }

    /// Exactly this text.
    ///
    /// # Errors
    /// Texts too long for an automaton.
    pub(crate) fn literal(text: &str, ignore_case: bool) -> Result<Pattern> {
        Pattern::compile(&escape(text), ignore_case, text)
    }

    /// Terms that begin with this text.
    ///
    /// # Errors
    /// As [`Pattern::literal`].
    pub(crate) fn prefix(text: &str, ignore_case: bool) -> Result<Pattern> {
        if !ignore_case {
            return Ok(Pattern::Prefix(text.as_bytes().into()));
        }
        Pattern::compile(&format!("{}.*", escape(text)), true, text)
    }

    /// `*` any characters, `?` one, `\` takes the next as it is.
    ///
    /// # Errors
    /// As [`Pattern::literal`].
    pub(crate) fn wildcard(text: &str, ignore_case: bool) -> Result<Pattern> {
        let mut regex = String::new();
        // Runs without wildcards.
        let mut runs = vec![String::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let plain = match c {
                '*' | '?' => {
                    regex.push_str(if c == '*' { ".*" } else { "." });
                    runs.push(String::new());
                    continue;
                }
                '\\' => chars.next().unwrap_or('\\'),
                c => c,
            };
            regex.push_str(&escape(plain.encode_utf8(&mut [0; 4])));
            runs.last_mut().into_iter().for_each(|run| run.push(plain));
        }
        let pattern = Pattern::compile(&regex, ignore_case, text)?;
        let longest = runs.iter().max_by_key(|run| run.len()).map_or("", String::as_str);
        Ok(match runs[0].is_empty() && !ignore_case {
            true => pattern.with_text_inside(longest),
            false => pattern,
        })
    }

    /// Lucene's regular expressions, with the optional operators that `flags` names (`None` is all).
    ///
    /// # Errors
    /// The text is no pattern, or its automaton would be too large.
    pub(crate) fn regexp(text: &str, flags: Option<&str>, ignore_case: bool) -> Result<Pattern> {
        let named = |flag: &str| match flags {
            None => true,
            Some(flags) => flags
                .split('|')
                .any(|f| f.eq_ignore_ascii_case(flag) || f.eq_ignore_ascii_case("ALL")),
        };
        let mut reader = RegexpParser {
            chars: text.chars().collect(),
            at: 0,
            depth: 0,
            text,
            ignore_case,
            intersection: named("INTERSECTION"),
            complement: named("COMPLEMENT"),
            empty: named("EMPTY"),
            anystring: named("ANYSTRING"),
            interval: named("INTERVAL"),
        };
        if text.is_empty() {
            return Pattern::compile("", ignore_case, text);
        }
        let parsed = reader.union()?;
        if reader.at < reader.chars.len() {
            return Err(reader.refuse("end-of-string expected at position", reader.at));
        }
        let pattern = parsed.pattern(ignore_case, text)?;
        let inside = text.strip_prefix(".*").map(|rest| rest.strip_suffix(".*").unwrap_or(rest));
        let is_plain = |text: &&str| {
            text.chars()
                .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ' | '/'))
        };
        Ok(match inside.filter(is_plain) {
            Some(inside) if !ignore_case => pattern.with_text_inside(inside),
            _ => pattern,
        })
    }

    /// Whether the pattern matches all of a text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.matches_bytes(text.as_bytes())
    }

    /// The same of a term as a dictionary has it.
    pub(crate) fn matches_bytes(&self, text: &[u8]) -> bool {
        let mut state = self.start();
        for byte in text {
            if !self.can_match(&state) {
                return false;
            }
            state = self.accept(&state, *byte);
        }
        self.is_match(&state)
    }
}

/// The pattern so far: text for the regex compiler, or a combination of automata.
enum Parsed {
    Text(String),
    Automaton(Pattern),
}

impl Parsed {
    fn pattern(self, ignore_case: bool, original: &str) -> Result<Pattern> {
        match self {
            Parsed::Text(text) => Pattern::compile(&text, ignore_case, original),
            Parsed::Automaton(pattern) => Ok(pattern),
        }
    }
}

struct RegexpParser<'a> {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    text: &'a str,
    ignore_case: bool,
    intersection: bool,
    complement: bool,
    empty: bool,
    anystring: bool,
    interval: bool,
}

/// How deep groups may be nested.
const DEPTH_MAX: usize = 50;

impl RegexpParser<'_> {
    fn refuse(&self, why: &str, at: usize) -> Error {
        Error::illegal(format!("{why} {at} in regular expression [{}]", self.text))
    }
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }
    fn take(&mut self, c: char) -> bool {
        let is = self.peek() == Some(c);
        self.at += usize::from(is);
        is
    }

    fn union(&mut self) -> Result<Parsed> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::illegal(format!(
                "regular expression [{}] is nested too deeply",
                self.text
            )));
        }
        let mut left = self.intersection_of()?;
        while self.take('|') {
            let right = self.intersection_of()?;
            left = match (left, right) {
                (Parsed::Text(a), Parsed::Text(b)) => Parsed::Text(format!("{a}|{b}")),
                (a, b) => Parsed::Automaton(Pattern::Or(
                    Box::new(a.pattern(self.ignore_case, self.text)?),
                    Box::new(b.pattern(self.ignore_case, self.text)?),
                )),
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    fn intersection_of(&mut self) -> Result<Parsed> {
        let mut left = self.concatenation()?;
        while self.intersection && self.take('&') {
            let right = self.concatenation()?;
            left = Parsed::Automaton(Pattern::And(
                Box::new(left.pattern(self.ignore_case, self.text)?),
                Box::new(right.pattern(self.ignore_case, self.text)?),
            ));
        }
        Ok(left)
    }

    fn concatenation(&mut self) -> Result<Parsed> {
        let mut whole: Option<Parsed> = None;
        while let Some(c) = self.peek() {
            if matches!(c, ')' | '|') || c == '&' && self.intersection {
                break;
            }
            let next = self.repetition()?;
            whole = Some(match (whole, next) {
                (None, next) => next,
                (Some(Parsed::Text(a)), Parsed::Text(b)) => Parsed::Text(a + &b),
                _ => {
                    return Err(Error::illegal(format!(
                        "[~] and [&] are supported only for whole alternatives of a regular expression, in [{}]",
                        self.text
                    )));
                }
            });
        }
        Ok(whole.unwrap_or_else(|| Parsed::Text(String::new())))
    }

    fn repetition(&mut self) -> Result<Parsed> {
        let mut item = self.complement_of()?;
        loop {
            let suffix = if self.take('?') {
                "?".to_owned()
            } else if self.take('*') {
                "*".to_owned()
            } else if self.take('+') {
                "+".to_owned()
            } else if self.peek() == Some('{') {
                let from = self.at;
                let Some(length) = self.chars[from..].iter().position(|c| *c == '}') else {
                    return Err(self.refuse("expected '}' at position", self.chars.len()));
                };
                self.at = from + length + 1;
                let inside: String = self.chars[from + 1..from + length].iter().collect();
                let (low, high) = inside.split_once(',').unwrap_or((&inside, &inside));
                let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n <= 1000);
                if number(low).is_none() || !high.is_empty() && number(high).is_none() {
                    return Err(self.refuse("integer expected at position", from + 1));
                }
                format!("{{{inside}}}")
            } else {
                return Ok(item);
            };
            item = match item {
                Parsed::Text(text) => Parsed::Text(format!("(?:{text}){suffix}")),
                Parsed::Automaton(_) => {
                    return Err(Error::illegal(format!("[~] cannot be repeated, in [{}]", self.text)));
                }
            };
        }
    }

    fn complement_of(&mut self) -> Result<Parsed> {
        if self.complement && self.take('~') {
            let inner = self.complement_of()?.pattern(self.ignore_case, self.text)?;
            return Ok(Parsed::Automaton(Pattern::Not(Box::new(inner))));
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Parsed> {
        let at = self.at;
        let Some(c) = self.peek() else {
            return Err(self.refuse("unexpected end-of-string at position", at));
        };
        self.at += 1;
        Ok(Parsed::Text(match c {
            '(' => {
                if self.take(')') {
                    return Ok(Parsed::Text(String::new()));
                }
                let inner = self.union()?;
                if !self.take(')') {
                    return Err(self.refuse("expected ')' at position", self.at));
                }
                match inner {
                    Parsed::Text(text) => format!("(?:{text})"),
                    automaton @ Parsed::Automaton(_) => return Ok(automaton),
                }
            }
            '.' => ".".into(),
            '#' if self.empty => "[^\\x{0}-\\x{10FFFF}]".into(),
            '@' if self.anystring => ".*".into(),
            '"' => {
                let Some(length) = self.chars[self.at..].iter().position(|c| *c == '"') else {
                    return Err(self.refuse("expected '\"' at position", self.chars.len()));
                };
                let text: String = self.chars[self.at..self.at + length].iter().collect();
                self.at += length + 1;
                format!("(?:{})", escape(&text))
            }
            '<' if self.interval => {
                let Some(length) = self.chars[self.at..].iter().position(|c| *c == '>') else {
                    return Err(self.refuse("expected '>' at position", self.chars.len()));
                };
                let text: String = self.chars[self.at..self.at + length].iter().collect();
                self.at += length + 1;
                interval(&text).ok_or_else(|| self.refuse("interval syntax error at position", self.at - 1))?
            }
            '[' => self.class()?,
            '\\' => {
                let Some(next) = self.peek() else {
                    return Err(self.refuse("unexpected end-of-string at position", at));
                };
                self.at += 1;
                match next {
                    'd' | 'D' | 's' | 'S' | 'w' | 'W' => format!("(?-u:\\{next})")
                        .replace("(?-u:\\D)", "[^0-9]")
                        .replace("(?-u:\\S)", "[^\\t\\n\\r\\x{c} ]")
                        .replace("(?-u:\\W)", "[^0-9A-Za-z_]"),
                    next => escape(next.encode_utf8(&mut [0; 4])),
                }
            }
            '*' | '+' | '?' | '{' => return Err(self.refuse("unexpected repetition at position", at)),
            c => escape(c.encode_utf8(&mut [0; 4])),
        }))
    }

    fn class(&mut self) -> Result<String> {
        let mut out = String::from("[");
        if self.take('^') {
            out.push('^');
        }
        let mut empty = true;
        loop {
            let Some(c) = self.peek() else {
                return Err(self.refuse("expected ']' at position", self.at));
            };
            self.at += 1;
            match c {
                ']' if !empty => break,
                '\\' => {
                    let Some(next) = self.peek() else {
                        return Err(self.refuse("expected ']' at position", self.at));
                    };
                    self.at += 1;
                    if matches!(next, 'd' | 'w' | 's') {
                        out.push('\\');
                        out.push(next);
                    } else {
                        out.push_str(&escape_in_class(next));
                    }
                }
                '-' if !empty && self.peek() != Some(']') => out.push('-'),
                c => out.push_str(&escape_in_class(c)),
            }
            empty = false;
        }
        out.push(']');
        Ok(out)
    }
}

fn escape_in_class(c: char) -> String {
    format!("\\x{{{:X}}}", u32::from(c))
}

/// Text without special characters. Classes of one character do for all of them.
fn escape(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_alphanumeric() {
                c.to_string()
            } else {
                escape_in_class(c)
            }
        })
        .collect()
}

/// `<1-100>`: numbers, with as many digits as the bounds have if those have equally many.
fn interval(text: &str) -> Option<String> {
    let (a, b) = text.split_once('-')?;
    let (low, high): (u64, u64) = (a.parse().ok()?, b.parse().ok()?);
    let (low, high) = (low.min(high), low.max(high));
    if high - low > 10_000 {
        return None;
    }
    let width = if a.len() == b.len() { a.len() } else { 0 };
    let numbers: Vec<String> = (low..=high).map(|n| format!("{n:0width$}")).collect();
    Some(format!(
        "(?:{}{})",
        if width == 0 { "0*" } else { "" },
        format_args!("(?:{})", numbers.join("|"))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(regexp: &str, yes: &[&str], no: &[&str]) {
        let pattern = Pattern::regexp(regexp, None, false).unwrap();
        for text in yes {
            assert!(pattern.matches(text), "{regexp} matches {text}");
        }
        for text in no {
            assert!(!pattern.matches(text), "{regexp} does not match {text}");
        }
    }

    #[test]
    fn lucene_syntax() {
        check("ab.*", &["ab", "abc", "ab\n"], &["a", "xab"]);
        check("a|bc", &["a", "bc"], &["ac"]);
        check("x{2,3}", &["xx", "xxx"], &["x", "xxxx"]);
        check("[^a-c]d", &["xd"], &["ad", "d"]);
        check("a<1-12>", &["a1", "a12", "a012"], &["a13", "a"]);
        check("~(abc)", &["ab", "abcd", ""], &["abc"]);
        check("aaa.+&.+bbb", &["aaabbb"], &["aaa", "bbb"]);
        check("\"a.b\"c", &["a.bc"], &["axbc"]);
        check("a@", &["a", "abc"], &["b"]);
        check("a\\.b", &["a.b"], &["axb"]);
        check("^a$", &["^a$"], &["a"]);
        assert!(Pattern::regexp("(ab", None, false).is_err());
        assert!(Pattern::wildcard("a*?c", false).unwrap().matches("axxc"));
        assert!(Pattern::prefix("PRO", true).unwrap().matches("progress"));
    }

    #[test]
    fn matches_have_the_text_inside() {
        let inside = |pattern: Result<Pattern>| {
            let pattern = pattern.unwrap();
            pattern.text_inside().map(|text| String::from_utf8(text.to_vec()).unwrap())
        };
        let of_wildcard = |text: &str| inside(Pattern::wildcard(text, false));
        assert_eq!(of_wildcard("*ab*cde?f").as_deref(), Some("cde"));
        assert_eq!(of_wildcard("?\\*b*").as_deref(), Some("*b"));
        assert_eq!(
            (of_wildcard("a*bcd"), of_wildcard("*"), of_wildcard("??")),
            (None, None, None)
        );
        assert_eq!(inside(Pattern::wildcard("*ab", true)), None);
        let of_regexp = |text: &str| inside(Pattern::regexp(text, None, false));
        assert_eq!(of_regexp(".*ab/c.*").as_deref(), Some("ab/c"));
        assert_eq!(of_regexp(".*abc").as_deref(), Some("abc"));
        assert_eq!(
            (of_regexp(".*a.c.*"), of_regexp("a.*b"), of_regexp(".*a@")),
            (None, None, None)
        );
    }
}
