//! Text to tokens, for all three languages: strings with escapes, GStrings, regex literals,
//! numbers, comments. What a token means is the parser's business.

use crate::Lang;
use crate::value::Lit;
use std::sync::Arc;

/// How deep a GString may hold code that holds a GString.
const GSTRING_DEPTH: u32 = 4;

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    Lit(Lit),
    Id(Arc<str>),
    Op(&'static str),
    /// `"a ${x} b"`: texts and the code between them.
    GString(Vec<Part>),
    /// `/…/` and its flags.
    Regex(Arc<str>, Arc<str>),
    Eof,
}

/// A piece of a GString.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Text(Arc<str>),
    Code(Vec<Token>),
}

/// A token with where it begins (bytes) and whether a line break precedes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) tok: Tok,
    pub(crate) pos: u32,
    pub(crate) line: bool,
}

/// Why a text is no script: a sentence and where.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) pos: u32,
}

pub(crate) fn fail<T>(message: impl Into<String>, pos: u32) -> Result<T, SyntaxError> {
    Err(SyntaxError {
        message: message.into(),
        pos,
    })
}

/// Longest first.
const OPS: &[&str] = &[
    ">>>=", "==~", "===", "!==", "<=>", "<<=", ">>=", ">>>", "..<", "**", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=",
    "-=", "*=", "/=", "%=", "&=", "|=", "^=", "?.", "?:", "->", "=~", "<<", ">>", "..", "::", "*.", "+", "-", "*", "/", "%", "<",
    ">", "=", "!", "(", ")", "{", "}", "[", "]", ",", ";", ":", ".", "?", "&", "|", "^", "~",
];

const _: () = {
    let mut at = 1;
    while at < OPS.len() {
        assert!(
            OPS[at - 1].len() >= OPS[at].len(),
            "longer operators come first, or the beginning of one would be read as another"
        );
        at += 1;
    }
};

model::assert_words_differ!(OPS, "each operator has one row");

/// The tokens of `text`; `base` is added to every position.
pub(crate) fn lex(text: &str, lang: Lang, base: u32, depth: u32) -> Result<Vec<Token>, SyntaxError> {
    Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        lang,
        base,
        depth,
        out: Vec::new(),
        line: false,
    }
    .run()
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    lang: Lang,
    base: u32,
    depth: u32,
    out: Vec<Token>,
    line: bool,
}

impl Lexer<'_> {
    fn pos(&self, at: usize) -> u32 {
        self.base + at as u32
    }
    fn push(&mut self, tok: Tok, start: usize) {
        let pos = self.pos(start);
        debug_assert!(
            self.out.last().is_none_or(|last| last.pos < pos),
            "tokens stand in the order of the text, each behind the one before it"
        );
        self.out.push(Token {
            tok,
            pos,
            line: std::mem::take(&mut self.line),
        });
    }
    fn peek(&self, n: usize) -> u8 {
        self.bytes.get(self.at + n).copied().unwrap_or(0)
    }
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }
    fn slice(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or("")
    }

    fn run(mut self) -> Result<Vec<Token>, SyntaxError> {
        while let Some(&c) = self.bytes.get(self.at) {
            let start = self.at;
            match c {
                b'\n' | b'\r' => {
                    self.line = true;
                    self.at += 1;
                }
                _ if c.is_ascii_whitespace() => self.at += 1,
                b'/' if self.peek(1) == b'/' => {
                    while self.at < self.bytes.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                b'/' if self.peek(1) == b'*' => match self.text.get(start + 2..).and_then(|t| t.find("*/")) {
                    Some(n) => {
                        self.line |= self.slice(start, start + 2 + n).contains('\n');
                        self.at = start + n + 4;
                    }
                    None => return fail("unclosed comment", self.pos(start)),
                },
                b'0'..=b'9' => self.number()?,
                b'.' if self.peek(1).is_ascii_digit() && !self.after_operand() => self.number()?,
                b'\'' | b'"' => self.string()?,
                b'/' if !self.after_operand() => self.regex()?,
                _ if c.is_ascii_alphabetic() || c == b'_' || c == b'$' => {
                    while matches!(self.peek(0), b'_' | b'$') || self.peek(0).is_ascii_alphanumeric() {
                        self.at += 1;
                    }
                    let id = Arc::from(self.slice(start, self.at));
                    self.push(Tok::Id(id), start);
                }
                _ if c < 0x80 => match OPS.iter().find(|op| self.rest().starts_with(op.as_bytes())) {
                    Some(op) => {
                        self.at += op.len();
                        self.push(Tok::Op(op), start);
                    }
                    None => {
                        return fail(format!("unexpected character [{}].", c as char), self.pos(start));
                    }
                },
                _ => self.typographic(start)?,
            }
        }
        let end = self.at;
        self.line = true;
        self.push(Tok::Eof, end);
        Ok(self.out)
    }

    /// The characters that word processors put into printed scripts: curly quotes, a dash for `--`, hard spaces.
    fn typographic(&mut self, start: usize) -> Result<(), SyntaxError> {
        let c = self.text.get(start..).and_then(|t| t.chars().next()).unwrap_or(' ');
        match c {
            '\u{a0}' | '\u{feff}' | '\u{200b}' => self.at += c.len_utf8(),
            '\u{2013}' | '\u{2014}' => {
                self.at += c.len_utf8();
                self.push(Tok::Op("--"), start);
            }
            '\u{2018}' | '\u{2019}' => {
                let from = start + c.len_utf8();
                let Some(n) = self.text.get(from..).and_then(|t| t.find(['\u{2018}', '\u{2019}'])) else {
                    return fail("unclosed string", self.pos(start));
                };
                let text = Arc::from(self.slice(from, from + n));
                self.at = from + n + c.len_utf8();
                self.push(Tok::Lit(Lit::Str(text)), start);
            }
            _ => return fail(format!("unexpected character [{c}]."), self.pos(start)),
        }
        Ok(())
    }

    /// Does the last token end an operand (so that `/` divides)?
    fn after_operand(&self) -> bool {
        match self.out.last().map(|t| &t.tok) {
            Some(Tok::Id(word)) => !matches!(&**word, "return" | "in" | "case" | "assert" | "throw" | "instanceof"),
            Some(Tok::Lit(_) | Tok::GString(_) | Tok::Regex(..)) => true,
            Some(Tok::Op(op)) => matches!(*op, ")" | "]" | "}" | "++" | "--"),
            _ => false,
        }
    }

    fn bad_number(&self, start: usize) -> Result<(), SyntaxError> {
        fail(format!("Invalid number [{}].", self.slice(start, self.at)), self.pos(start))
    }

    /// `0xff`, `0xffL`.
    fn hexadecimal(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 2;
        let digits = self.at;
        while self.peek(0).is_ascii_hexdigit() {
            self.at += 1;
        }
        let Ok(n) = u64::from_str_radix(self.slice(digits, self.at), 16) else {
            return self.bad_number(start);
        };
        let lit = if matches!(self.peek(0), b'L' | b'l') {
            self.at += 1;
            Lit::Long(n as i64)
        } else if let Ok(n) = u32::try_from(n) {
            Lit::Int(n as i32)
        } else {
            return self.bad_number(start);
        };
        self.push(Tok::Lit(lit), start);
        Ok(())
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek(0) == b'0' && matches!(self.peek(1), b'x' | b'X') {
            return self.hexadecimal();
        }
        let start = self.at;
        let bad = |lexer: &Self| lexer.bad_number(start);
        let mut fraction = false;
        loop {
            match self.peek(0) {
                b'0'..=b'9' => {}
                b'_' if self.peek(1).is_ascii_digit() => {}
                b'.' if !fraction && self.peek(1).is_ascii_digit() => fraction = true,
                b'e' | b'E'
                    if self.peek(1).is_ascii_digit()
                        || (matches!(self.peek(1), b'+' | b'-') && self.peek(2).is_ascii_digit()) =>
                {
                    fraction = true;
                    self.at += 1;
                }
                _ => break,
            }
            self.at += 1;
        }
        let text = self.slice(start, self.at).replace('_', "");
        let suffix = self.peek(0).to_ascii_lowercase();
        let plain = !self.peek(1).is_ascii_alphanumeric();
        let lit = match suffix {
            b'f' if plain && self.lang != Lang::Expression => text.parse().ok().map(Lit::Float),
            b'd' | b'g' if plain && (fraction || suffix == b'd') => text.parse().ok().map(Lit::Double),
            b'l' | b'g' if plain => text.parse().ok().map(Lit::Long),
            _ if fraction || self.lang == Lang::Expression => {
                let lit = text.parse().ok().map(Lit::Double);
                match lit {
                    Some(lit) => self.push(Tok::Lit(lit), start),
                    None => return bad(self),
                }
                return Ok(());
            }
            _ => {
                let lit = match text.parse::<i32>() {
                    Ok(n) => Lit::Int(n),
                    // Groovy widens by itself; Painless has one such number, the smallest int after `-`.
                    Err(_) if self.lang == Lang::Groovy || text == "2147483648" => match text.parse() {
                        Ok(n) => Lit::Long(n),
                        Err(_) => return bad(self),
                    },
                    Err(_) => return bad(self),
                };
                self.push(Tok::Lit(lit), start);
                return Ok(());
            }
        };
        self.at += 1;
        match lit {
            Some(lit) => self.push(Tok::Lit(lit), start),
            None => return bad(self),
        }
        Ok(())
    }

    fn regex(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.text.get(self.at..).and_then(|t| t.chars().next()) else {
                return fail("unclosed regex", self.pos(start));
            };
            self.at += c.len_utf8();
            match c {
                '/' => break,
                '\n' => return fail("unclosed regex", self.pos(start)),
                '\\' if self.peek(0) == b'/' => {
                    text.push('/');
                    self.at += 1;
                }
                '\\' => {
                    text.push('\\');
                    if let Some(next) = self.text.get(self.at..).and_then(|t| t.chars().next()) {
                        text.push(next);
                        self.at += next.len_utf8();
                    }
                }
                c => text.push(c),
            }
        }
        let flags = self.at;
        while self.lang == Lang::Painless && matches!(self.peek(0), b'i' | b'm' | b's' | b'u' | b'x' | b'c' | b'l' | b'U') {
            self.at += 1;
        }
        let flags = Arc::from(self.slice(flags, self.at));
        self.push(Tok::Regex(text.into(), flags), start);
        Ok(())
    }

    fn string(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let quote = self.peek(0);
        let triple = self.lang == Lang::Groovy && self.peek(1) == quote && self.peek(2) == quote;
        let width = if triple { 3 } else { 1 };
        self.at += width;
        let dollars = self.lang == Lang::Groovy && quote == b'"';
        let mut text = String::new();
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let Some(c) = self.text.get(self.at..).and_then(|t| t.chars().next()) else {
                let message = match self.lang {
                    Lang::Groovy => format!("expecting '{}', found '<EOF>'", quote as char),
                    _ => format!("unexpected character [{}].", self.slice(start, self.at)),
                };
                return fail(message, self.pos(start));
            };
            if c as u32 == u32::from(quote) && (!triple || (self.peek(1) == quote && self.peek(2) == quote)) {
                self.at += width;
                break;
            }
            self.at += c.len_utf8();
            match c {
                '\\' => self.escape(&mut text, start)?,
                '$' if dollars && (self.peek(0) == b'{' || self.peek(0).is_ascii_alphabetic() || self.peek(0) == b'_') => {
                    if self.depth >= GSTRING_DEPTH {
                        return fail("strings nested too deeply", self.pos(start));
                    }
                    let (from, to) = self.code_range(start)?;
                    let code = lex(
                        self.text.get(from..to).unwrap_or(""),
                        self.lang,
                        self.pos(from),
                        self.depth + 1,
                    )?;
                    parts.push(Part::Text(std::mem::take(&mut text).into()));
                    parts.push(Part::Code(code));
                }
                c => text.push(c),
            }
        }
        if parts.is_empty() {
            self.push(Tok::Lit(Lit::Str(text.into())), start);
        } else {
            parts.push(Part::Text(text.into()));
            self.push(Tok::GString(parts), start);
        }
        Ok(())
    }

    /// After a `$`: the range of the code, leaving the lexer behind it.
    fn code_range(&mut self, start: usize) -> Result<(usize, usize), SyntaxError> {
        let from = self.at;
        if self.peek(0) != b'{' {
            loop {
                while matches!(self.peek(0), b'_') || self.peek(0).is_ascii_alphanumeric() {
                    self.at += 1;
                }
                if self.peek(0) == b'.' && (self.peek(1).is_ascii_alphabetic() || self.peek(1) == b'_') {
                    self.at += 1;
                } else {
                    return Ok((from, self.at));
                }
            }
        }
        let mut open = 0usize;
        let mut quote = 0u8;
        while let Some(&c) = self.bytes.get(self.at) {
            match c {
                _ if quote != 0 && c == b'\\' => self.at += 1,
                _ if quote != 0 && c == quote => {
                    quote = 0;
                }
                b'\'' | b'"' => quote = c,
                b'{' => open += 1,
                b'}' if open == 1 => {
                    self.at += 1;
                    return Ok((from + 1, self.at - 1));
                }
                b'}' => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
        fail("expecting '}', found '<EOF>'", self.pos(start))
    }

    fn escape(&mut self, text: &mut String, start: usize) -> Result<(), SyntaxError> {
        let Some(c) = self.text.get(self.at..).and_then(|t| t.chars().next()) else {
            return fail("unclosed string", self.pos(start));
        };
        self.at += c.len_utf8();
        match c {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            '\\' | '\'' | '"' | '$' | '/' => text.push(c),
            '\n' => {}
            'u' => {
                let code = self
                    .text
                    .get(self.at..self.at + 4)
                    .and_then(|h| u32::from_str_radix(h, 16).ok());
                let Some(code) = code else {
                    return fail("invalid escape sequence", self.pos(self.at));
                };
                self.at += 4;
                text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            c if self.lang == Lang::Painless => {
                return fail(
                    format!(
                        "unexpected character [{}\\{c}]. The only valid escape sequences in strings starting with ['] are [\\\\] and [\\'].",
                        "'"
                    ),
                    self.pos(start),
                );
            }
            c => {
                text.push('\\');
                text.push(c);
            }
        }
        Ok(())
    }
}
