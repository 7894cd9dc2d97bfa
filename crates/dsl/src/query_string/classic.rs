//! Lucene's classic query parser: its tokens and its idea of AND and OR.

use super::{DEPTH_MAX, Occur, Syntax};
use crate::query::Operator;
use model::{Error, ErrorKind, Result};

/// Takes a query string apart. `a AND b OR c` is read as Lucene's classic parser does: AND makes both of its neighbours required.
///
/// # Errors
/// `query_shard_exception`, `Failed to parse query [..]`.
pub fn parse(text: &str, default_operator: Operator) -> Result<Syntax> {
    let mut parser = Parser {
        text,
        pos: 0,
        default_operator,
        depth: 0,
    };
    parser.blank();
    if parser.rest().is_empty() {
        return Ok(Syntax::Bool(Vec::new()));
    }
    let parsed = parser.query(false).filter(|_| parser.rest().is_empty());
    debug_assert!(
        parsed.is_none() || parser.depth == 0,
        "a text that is read to its end left every parenthesis that it entered"
    );
    parsed.ok_or_else(|| {
        let mut shown: String = text.chars().take(1000).collect();
        if shown.len() < text.len() {
            shown.push_str("...");
        }
        Error::new(ErrorKind::QueryShard, format!("Failed to parse query [{shown}]"))
    })
}

struct Parser<'a> {
    text: &'a str,
    pos: usize,
    default_operator: Operator,
    depth: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Conjunction {
    None,
    And,
    Or,
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{3000}')
}

/// May begin a word.
fn is_start(c: char) -> bool {
    !is_blank(c)
        && !matches!(
            c,
            '+' | '-' | '!' | '(' | ')' | ':' | '^' | '[' | ']' | '"' | '{' | '}' | '~' | '*' | '?' | '\\' | '/'
        )
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn blank(&mut self) {
        while let Some(c) = self.peek().filter(|c| is_blank(*c)) {
            self.pos += c.len_utf8();
        }
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.pos += c.len_utf8();
        }
        found
    }

    /// A word such as AND standing alone.
    fn keyword(&mut self, word: &str) -> bool {
        let Some(after) = self.rest().strip_prefix(word) else {
            return false;
        };
        let alone = !after.starts_with(|c| is_start(c) || matches!(c, '-' | '+' | '*' | '?' | '\\' | ':'));
        if alone {
            self.pos += word.len();
        }
        alone
    }

    fn query(&mut self, in_field: bool) -> Option<Syntax> {
        let mut clauses: Vec<(Occur, Syntax)> = Vec::new();
        let mut alone = true;
        let mut first = true;
        loop {
            self.blank();
            if self.rest().is_empty() || self.peek() == Some(')') {
                break;
            }
            let begin = self.pos;
            let mut conjunction = Conjunction::None;
            if !first {
                conjunction = if self.keyword("AND") || self.symbol("&&") {
                    Conjunction::And
                } else if self.keyword("OR") || self.symbol("||") {
                    Conjunction::Or
                } else {
                    Conjunction::None
                };
                self.blank();
            }
            if conjunction == Conjunction::None
                && let Some(words) = self.words()
            {
                let several = unescape(&words).map(Syntax::Term)?;
                self.add(&mut clauses, conjunction, None, several);
                first = false;
                continue;
            }
            let modifier = self.modifier();
            self.blank();
            let clause = self.clause(in_field)?;
            debug_assert!(
                begin < self.pos,
                "each clause takes a part of the text, so that there is a last one"
            );
            if first && modifier.is_some() {
                alone = false;
            }
            self.add(&mut clauses, conjunction, modifier, clause);
            first = false;
        }
        if clauses.len() == 1 && alone {
            return clauses.pop().map(|(_, clause)| clause);
        }
        if first { None } else { Some(Syntax::Bool(clauses)) }
    }

    /// Two or more words with nothing but blanks between them: one text, which fields analyze as a whole.
    fn words(&mut self) -> Option<String> {
        let start = self.pos;
        let mut found: Vec<&str> = Vec::new();
        let mut end = start;
        loop {
            self.blank();
            let before = self.pos;
            let Some((word, false)) = self.word() else { break };
            let special = matches!(word, "AND" | "OR" | "NOT" | "&&" | "||") || word.starts_with(['<', '>']);
            let behind = self.pos;
            self.blank();
            let next = self.peek();
            // A word that is boosted, fuzzy, a field's name or joined by AND and OR stands alone.
            let alone = matches!(next, Some(':' | '^' | '~'))
                || (next == Some('*') && self.pos == behind)
                || ["AND", "OR", "&&", "||"].iter().any(|k| {
                    let at = self.pos;
                    let is = self.keyword(k);
                    self.pos = at;
                    is
                });
            if special || alone {
                self.pos = before;
                break;
            }
            found.push(word);
            end = behind;
        }
        if found.len() < 2 {
            self.pos = start;
            return None;
        }
        debug_assert!(
            start < end && end <= self.pos,
            "words that are read lie behind where they begin"
        );
        self.pos = end;
        Some(found.join(" "))
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.pos += symbol.len();
        }
        found
    }

    fn modifier(&mut self) -> Option<Occur> {
        if self.eat('+') {
            Some(Occur::Must)
        } else if self.eat('-') || self.eat('!') || self.keyword("NOT") {
            Some(Occur::MustNot)
        } else {
            None
        }
    }

    fn add(&self, clauses: &mut Vec<(Occur, Syntax)>, conjunction: Conjunction, modifier: Option<Occur>, clause: Syntax) {
        let and_default = self.default_operator == Operator::And;
        if let Some((occur, _)) = clauses.last_mut()
            && *occur != Occur::MustNot
        {
            if conjunction == Conjunction::And {
                *occur = Occur::Must;
            } else if and_default && conjunction == Conjunction::Or {
                *occur = Occur::Should;
            }
        }
        let occur = match modifier {
            Some(Occur::MustNot) => Occur::MustNot,
            _ if and_default && conjunction != Conjunction::Or => Occur::Must,
            _ if and_default => Occur::Should,
            Some(occur) => occur,
            None if conjunction == Conjunction::And => Occur::Must,
            None => Occur::Should,
        };
        clauses.push((occur, clause));
    }

    fn clause(&mut self, in_field: bool) -> Option<Syntax> {
        let start = self.pos;
        let field = self.field();
        if field.is_none() {
            self.pos = start;
        }
        self.blank();
        let within = in_field || field.is_some();
        let inner = if self.eat('(') {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return None;
            }
            let inner = self.query(within)?;
            self.depth -= 1;
            if !self.eat(')') {
                return None;
            }
            self.boost(inner)?
        } else {
            self.term(within)?
        };
        let Some(field) = field else {
            return Some(inner);
        };
        Some(match (field.as_str(), inner) {
            ("*", Syntax::Wildcard(w)) if w == "*" => Syntax::All,
            ("_exists_", Syntax::Term(name) | Syntax::Phrase { text: name, .. }) => Syntax::Exists(name),
            ("_exists_", Syntax::Prefix(name)) => Syntax::Exists(format!("{name}*")),
            ("_exists_", Syntax::Wildcard(name)) => Syntax::Exists(name),
            ("_missing_", Syntax::Term(name) | Syntax::Phrase { text: name, .. }) => Syntax::Missing(name),
            (_, inner) => Syntax::Field(field, Box::new(inner)),
        })
    }

    /// `name:`, where the name is a word or `*`.
    fn field(&mut self) -> Option<String> {
        let (name, wild) = self.word()?;
        if wild && name != "*" {
            return None;
        }
        self.blank();
        if !self.eat(':') {
            return None;
        }
        unescape(name)
    }

    /// A word with its escapes, and whether it has wildcards.
    fn word(&mut self) -> Option<(&'a str, bool)> {
        let start = self.pos;
        let mut wild = false;
        while let Some(c) = self.peek() {
            if c == '\\' {
                self.pos += 1;
                let escaped = self.peek()?;
                self.pos += escaped.len_utf8();
                continue;
            }
            let star = matches!(c, '*' | '?');
            let more = is_start(c) || star || (self.pos > start && matches!(c, '-' | '+'));
            if !more {
                break;
            }
            wild |= star;
            self.pos += c.len_utf8();
        }
        if self.pos == start {
            None
        } else {
            Some((&self.text[start..self.pos], wild))
        }
    }

    fn term(&mut self, in_field: bool) -> Option<Syntax> {
        let inner = match self.peek()? {
            '"' => {
                self.pos += 1;
                let text = self.until('"')?;
                let text = unescape(text)?;
                let (slop, boost) = self.suffixes()?;
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
                let slop = slop.flatten().map(|s| s as u32);
                let phrase = Syntax::Phrase { text, slop };
                return Some(boost_syntax(phrase, boost));
            }
            '/' => {
                self.pos += 1;
                let text = self.until('/')?.replace("\\/", "/");
                Syntax::Regex(text)
            }
            '[' | '{' => self.range()?,
            _ => {
                let (word, wild) = self.word()?;
                if matches!(word, "AND" | "OR" | "NOT" | "&&" | "||") {
                    return None;
                }
                let (fuzzy, boost) = self.suffixes()?;
                let made = if let Some(edits) = fuzzy {
                    if edits.is_some_and(|e| e >= 1.0 && e.fract() != 0.0) {
                        return None;
                    }
                    Syntax::Fuzzy {
                        text: unescape(word)?,
                        edits,
                    }
                } else if wild {
                    match word.strip_suffix('*') {
                        Some(stem) if !stem.is_empty() && !has_wild(stem) && !ends_escaped(stem) => {
                            Syntax::Prefix(unescape(stem)?)
                        }
                        _ => Syntax::Wildcard(word.to_owned()),
                    }
                } else {
                    compare(word, in_field)?
                };
                return Some(boost_syntax(made, boost));
            }
        };
        self.boost(inner)
    }

    /// The text up to an unescaped `end`, which is consumed.
    fn until(&mut self, end: char) -> Option<&'a str> {
        let start = self.pos;
        loop {
            let c = self.peek()?;
            if c == end {
                let text = &self.text[start..self.pos];
                self.pos += end.len_utf8();
                return Some(text);
            }
            self.pos += c.len_utf8();
            if c == '\\' {
                self.pos += self.peek()?.len_utf8();
            }
        }
    }

    fn range(&mut self) -> Option<Syntax> {
        debug_assert!(
            self.rest().starts_with(['[', '{']),
            "a range is read from the bracket that begins it"
        );
        let with_low = self.eat('[');
        if !with_low {
            self.pos += 1;
        }
        self.blank();
        let low = self.end_of_range()?;
        self.blank();
        if !self.rest().starts_with("TO") {
            return None;
        }
        self.pos += 2;
        if !self.peek().is_some_and(is_blank) {
            return None;
        }
        self.blank();
        let high = self.end_of_range()?;
        self.blank();
        let with_high = self.eat(']');
        if !with_high && !self.eat('}') {
            return None;
        }
        Some(Syntax::Range {
            low,
            high,
            with_low,
            with_high,
        })
    }

    /// One end of a range; `*` is open.
    fn end_of_range(&mut self) -> Option<Option<String>> {
        if self.eat('"') {
            return self.until('"').and_then(unescape).map(Some);
        }
        let start = self.pos;
        while let Some(c) = self.peek().filter(|c| !is_blank(*c) && !matches!(c, ']' | '}')) {
            self.pos += c.len_utf8();
            if c == '\\' {
                self.pos += self.peek()?.len_utf8();
            }
        }
        match &self.text[start..self.pos] {
            "" => None,
            "*" => Some(None),
            text => unescape(text).map(Some),
        }
    }

    /// `~n` and `^n` in either order.
    #[allow(clippy::option_option, reason = "a tilde without a number differs from none")]
    fn suffixes(&mut self) -> Option<(Option<Option<f32>>, Option<f32>)> {
        let mut fuzzy = None;
        let mut boost = None;
        for _ in 0..2 {
            if fuzzy.is_none() && self.eat('~') {
                fuzzy = Some(self.number());
            } else if boost.is_none() && self.eat('^') {
                boost = Some(self.number()?);
            }
        }
        Some((fuzzy, boost))
    }

    fn boost(&mut self, inner: Syntax) -> Option<Syntax> {
        let boost = if self.eat('^') { Some(self.number()?) } else { None };
        Some(boost_syntax(inner, boost))
    }

    fn number(&mut self) -> Option<f32> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f32 = rest[..end].parse().ok().filter(|n: &f32| n.is_finite())?;
        self.pos += end;
        Some(number)
    }
}

#[allow(clippy::float_cmp, reason = "exactly one changes nothing")]
fn boost_syntax(inner: Syntax, boost: Option<f32>) -> Syntax {
    match boost {
        Some(boost) if boost != 1.0 => Syntax::Boost(Box::new(inner), boost),
        _ => inner,
    }
}

/// A word, or behind a field `>`, `>=`, `<`, `<=` and a word.
fn compare(word: &str, in_field: bool) -> Option<Syntax> {
    if in_field && word.len() > 1 {
        for (sign, low, with) in [
            (">=", true, true),
            ("<=", false, true),
            (">", true, false),
            ("<", false, false),
        ] {
            if let Some(value) = word.strip_prefix(sign).filter(|v| !v.is_empty()) {
                let value = Some(unescape(value)?);
                return Some(if low {
                    Syntax::Range {
                        low: value,
                        high: None,
                        with_low: with,
                        with_high: true,
                    }
                } else {
                    Syntax::Range {
                        low: None,
                        high: value,
                        with_low: true,
                        with_high: with,
                    }
                });
            }
        }
    }
    unescape(word).map(Syntax::Term)
}

fn has_wild(text: &str) -> bool {
    let mut escaped = false;
    for c in text.chars() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if matches!(c, '*' | '?') {
            return true;
        }
    }
    false
}

fn ends_escaped(text: &str) -> bool {
    text.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1
}

/// Resolves `\x` and `\u0041`.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'u' => {
                let hex = chars.as_str().get(..4)?;
                out.push(u32::from_str_radix(hex, 16).ok().and_then(char::from_u32)?);
                chars = chars.as_str()[4..].chars();
            }
            other => out.push(other),
        }
    }
    Some(out)
}
