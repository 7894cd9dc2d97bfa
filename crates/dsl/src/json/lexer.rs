//! Bytes to names, strings, numbers and words, with the position and the sentence of what is wrong.

use super::reader::{Open, Scalar};
use super::*;
use model::{Error, ErrorKind, Result};
use std::borrow::Cow;

pub(super) struct Lexer<'a> {
    pub(super) text: &'a str,
    pub(super) pos: usize,
    pub(super) line: u32,
    pub(super) line_start: usize,
    pub(super) how: Reading,
}

/// The kind and place of the container that input ended in.
pub(super) type Around = Option<(bool, (u32, u32))>;

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8], how: Reading) -> Result<Lexer<'a>> {
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let before = &bytes[..e.valid_up_to()];
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
            let byte = bytes.get(e.valid_up_to()).copied().unwrap_or(0);
            let sentence = format!("the byte 0x{byte:x} is no UTF-8");
            error_at(ErrorKind::JsonParse, &sentence, line, e.valid_up_to() - start + 1)
        })?;
        let pos = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Ok(Lexer {
            text,
            pos,
            line: 1,
            line_start: pos,
            how,
        })
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    pub(super) fn position(&self) -> (u32, u32) {
        debug_assert!(
            self.line_start <= self.pos && self.pos <= self.text.len(),
            "a place lies in its line, and in the text"
        );
        (self.line, u32::try_from(self.pos - self.line_start + 1).unwrap_or(u32::MAX))
    }

    /// A refusal naming the byte at `pos` of the current line.
    pub(super) fn refuse(&self, sentence: &str, pos: usize) -> Error {
        debug_assert!(
            self.line_start <= pos && pos <= self.text.len(),
            "a refusal names a place of the line that is read"
        );
        error_at(
            ErrorKind::JsonParse,
            sentence,
            self.line as usize,
            pos.saturating_sub(self.line_start) + 1,
        )
    }

    pub(super) fn unexpected_token(&self, expecting: &str) -> Error {
        let Some(c) = self.text[self.pos..].chars().next() else {
            return self.end_of_input(None);
        };
        let code = c as u32;
        if code < 32 {
            return self.control();
        }
        self.refuse(&format!("unexpected [{c}], expected {expecting}"), self.pos)
    }

    pub(super) fn control(&self) -> Error {
        let code = self.peek().unwrap_or(0);
        let sentence = format!("unexpected control character [{code}], expected white space (\\r, \\n, \\t) or a value");
        self.refuse(&sentence, self.pos + 1)
    }

    pub(super) fn end_of_input(&self, around: Around) -> Error {
        let col = self.text.len().saturating_sub(self.line_start) + 1;
        let sentence = match around {
            None => "unexpected end of the body".to_owned(),
            Some((object, (line, col))) => {
                let (kind, close) = if object { ("object", '}') } else { ("array", ']') };
                format!("unexpected end of the body, expected [{close}] of the {kind} that begins at [{line}:{col}]")
            }
        };
        error_at(ErrorKind::JsonEof, &sentence, self.line as usize, col)
    }

    pub(super) fn newline(&mut self) {
        debug_assert!(
            self.text
                .as_bytes()
                .get(..self.pos)
                .is_some_and(|before| before.ends_with(b"\n")),
            "a line begins behind the end of the one before it"
        );
        self.line += 1;
        self.line_start = self.pos;
    }

    /// Skips white space, and comments where they are allowed.
    pub(super) fn blank(&mut self, around: Around) -> Result<()> {
        while let Some(c) = self.peek() {
            match c {
                b' ' | b'\t' | b'\r' => self.pos += 1,
                b'\n' => {
                    self.pos += 1;
                    self.newline();
                }
                b'#' if self.how.lenient => self.skip_line(),
                b'/' if self.how.lenient && self.text[self.pos..].starts_with("//") => self.skip_line(),
                b'/' if self.how.lenient && self.text[self.pos..].starts_with("/*") => {
                    let Some(end) = self.text[self.pos + 2..].find("*/") else {
                        return Err(self.end_of_input(around));
                    };
                    let end = self.pos + 2 + end + 2;
                    while self.pos < end {
                        let newline = self.peek() == Some(b'\n');
                        self.pos += 1;
                        if newline {
                            self.newline();
                        }
                    }
                }
                0..=31 => return Err(self.control()),
                _ => break,
            }
        }
        Ok(())
    }

    pub(super) fn skip_line(&mut self) {
        let rest = &self.text[self.pos..];
        self.pos += rest.find('\n').unwrap_or(rest.len());
    }

    /// The comma before a member or item, or the end of the container (true).
    pub(super) fn separator(&mut self, open: &mut Open<'_>, close: u8) -> Result<bool> {
        let around = Some((open.object, open.at));
        match self.peek() {
            None => return Err(self.end_of_input(around)),
            Some(c) if c == close => {
                self.pos += 1;
                return Ok(true);
            }
            _ if open.first => open.first = false,
            Some(b',') => {
                self.pos += 1;
                self.blank(around)?;
                if self.peek().is_none() {
                    return Err(self.end_of_input(around));
                }
            }
            Some(_) => {
                let kind = if open.object { "object" } else { "array" };
                return Err(self.unexpected_token(&format!("[,] or the end of the {kind}")));
            }
        }
        Ok(false)
    }

    pub(super) fn name(&mut self, around: (bool, (u32, u32))) -> Result<Cow<'a, str>> {
        match self.peek() {
            None => Err(self.end_of_input(Some(around))),
            Some(b'"') => self.string(b'"'),
            Some(b'\'') if self.how.lenient => self.string(b'\''),
            Some(_) if self.how.lenient => {
                let rest = &self.text[self.pos..];
                let end = rest
                    .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '-' | '*' | '@')))
                    .unwrap_or(rest.len());
                if end == 0 {
                    return Err(self.unexpected_token("the name of a field"));
                }
                self.pos += end;
                Ok(Cow::Borrowed(&rest[..end]))
            }
            Some(_) => Err(self.unexpected_token("[\"], which begins the name of a field")),
        }
    }

    /// A string from its opening quote to its closing one.
    pub(super) fn string(&mut self, quote: u8) -> Result<Cow<'a, str>> {
        debug_assert_eq!(self.peek(), Some(quote), "a string is read from its opening quote");
        self.pos += 1;
        let text = self.text;
        let bytes = text.as_bytes();
        let mut start = self.pos;
        let mut own: Option<String> = None;
        loop {
            self.pos += plain(&bytes[self.pos..], quote);
            let Some(&c) = bytes.get(self.pos) else {
                return Err(error_at(
                    ErrorKind::JsonEof,
                    "unexpected end of the body inside a string, expected [\"]",
                    self.line as usize,
                    self.pos.saturating_sub(self.line_start) + 1,
                ));
            };
            match c {
                _ if c == quote => {
                    let last = &text[start..self.pos];
                    self.pos += 1;
                    return Ok(match own {
                        None => Cow::Borrowed(last),
                        Some(mut s) => {
                            s.push_str(last);
                            Cow::Owned(s)
                        }
                    });
                }
                b'\\' => {
                    let s = own.get_or_insert_with(String::new);
                    s.push_str(&text[start..self.pos]);
                    self.pos += 1;
                    let c = self.escape(quote)?;
                    s.push(c);
                    start = self.pos;
                }
                0..=31 if self.how.lenient => {
                    self.pos += 1;
                    if c == b'\n' {
                        self.newline();
                    }
                }
                0..=31 => {
                    let sentence =
                        format!("unexpected control character [{c}] inside a string, expected it escaped as [\\u{c:04x}]");
                    return Err(self.refuse(&sentence, self.pos + 1));
                }
                _ => self.pos += 1,
            }
        }
    }

    /// The character after a backslash.
    pub(super) fn escape(&mut self, quote: u8) -> Result<char> {
        let Some(c) = self.text[self.pos..].chars().next() else {
            return Err(self.end_of_input(None));
        };
        let plain = match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                self.pos += 1;
                return self.unicode();
            }
            '\'' if quote == b'\'' || self.how.lenient => c,
            _ => {
                let sentence = format!("unexpected escape [\\{c}], expected one of [\", \\, /, b, f, n, r, t, u]");
                return Err(self.refuse(&sentence, self.pos));
            }
        };
        self.pos += c.len_utf8();
        Ok(plain)
    }

    pub(super) fn unicode(&mut self) -> Result<char> {
        let high = self.hex()?;
        if !(0xd800..0xe000).contains(&high) {
            return Ok(char::from_u32(high).unwrap_or('\u{fffd}'));
        }
        // A lone surrogate has no place in UTF-8 text.
        if high < 0xdc00 && self.text[self.pos..].starts_with("\\u") {
            let back = self.pos;
            self.pos += 2;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            self.pos = back;
        }
        Ok('\u{fffd}')
    }

    pub(super) fn hex(&mut self) -> Result<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(c) = self.text[self.pos..].chars().next() else {
                return Err(self.end_of_input(None));
            };
            let Some(digit) = c.to_digit(16) else {
                return Err(self.unexpected_token("a hexadecimal digit of an escaped character"));
            };
            code = code * 16 + digit;
            self.pos += 1;
        }
        Ok(code)
    }

    pub(super) fn scalar(&mut self, around: Around) -> Result<Scalar<'a>> {
        match self.peek() {
            None => Err(self.end_of_input(around)),
            Some(b'"') => self.string(b'"').map(Scalar::String),
            Some(b'\'') if self.how.lenient => self.string(b'\'').map(Scalar::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Scalar::Number),
            Some(_) => self.word(),
        }
    }

    pub(super) fn word(&mut self) -> Result<Scalar<'a>> {
        let rest = &self.text[self.pos..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$')))
            .unwrap_or(rest.len());
        let scalar = match &rest[..end] {
            "null" => Scalar::Null,
            "true" => Scalar::Bool(true),
            "false" => Scalar::Bool(false),
            "" => return Err(self.unexpected_token(VALUE)),
            token => {
                let short: String = token.chars().take(256).collect();
                return Err(self.refuse(&format!("unexpected word [{short}], expected {VALUE}"), self.pos));
            }
        };
        self.pos += end;
        Ok(scalar)
    }

    pub(super) fn number(&mut self) -> Result<serde_json::Number> {
        let bytes = self.text.as_bytes();
        let start = self.pos;
        let mut whole = true;
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        let digits = self.digits("a digit of a number")?;
        if digits > 1 && bytes[self.pos - digits] == b'0' {
            return Err(self.refuse("unexpected zero at the beginning of a number", self.pos - digits + 1));
        }
        if self.peek() == Some(b'.') {
            whole = false;
            self.pos += 1;
            self.digits("a digit behind the point of a number")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.pos += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digits("a digit of an exponent")?;
        }
        if let Some(c) = self.peek()
            && (c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'.'))
        {
            return Err(self.unexpected_token("the end of the number"));
        }
        let text = &self.text[start..self.pos];
        if whole && text != "-0" {
            if let Ok(n) = text.parse::<i64>() {
                return Ok(n.into());
            }
            if let Ok(n) = text.parse::<u64>() {
                return Ok(n.into());
            }
        }
        let double = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
        double.ok_or_else(|| self.refuse("the number is out of the range of a double", start))
    }

    pub(super) fn digits(&mut self, expecting: &str) -> Result<usize> {
        let start = self.pos;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.pos += 1;
        }
        match self.pos - start {
            0 if self.peek().is_none() => Err(self.end_of_input(None)),
            0 => Err(self.unexpected_token(expecting)),
            n => Ok(n),
        }
    }

    /// Nothing but white space may follow.
    pub(super) fn finish(&mut self) -> Result<()> {
        // Servers of 2015 stopped reading there.
        if self.how.lenient {
            return Ok(());
        }
        self.blank(None)?;
        let (line, col) = self.position();
        let token = match self.peek() {
            None => return Ok(()),
            Some(b'{') => "START_OBJECT",
            Some(b'[') => "START_ARRAY",
            Some(b'"') => "VALUE_STRING",
            Some(b'-' | b'0'..=b'9') => "VALUE_NUMBER",
            Some(b'}' | b']') => {
                let c = self.peek().map_or('}', char::from);
                return Err(self.refuse(&format!("unexpected [{c}], expected the end of the body"), self.pos));
            }
            Some(_) => {
                self.word()?;
                "VALUE"
            }
        };
        Err(Error::parsing(
            format!("Unexpected token [{token}] found after the main object."),
            line as usize,
            col as usize,
        ))
    }
}

/// How many bytes come before one that ends a string or means something else in it, as far as whole words of eight bytes tell.
fn plain(bytes: &[u8], quote: u8) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    // The highest bit of each byte that is less; above the first such byte others may have it too.
    let less = |word: u64, than: u8| word.wrapping_sub(ONES * u64::from(than)) & !word & HIGHS;
    let is = |word: u64, byte: u8| less(word ^ (ONES * u64::from(byte)), 1);
    let mut at = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        let found = less(word, b' ') | is(word, quote) | is(word, b'\\');
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// The tokens that may begin a value.
const VALUE: &str = "a string, a number, an object, an array, true, false or null";

/// A refusal that says where.
pub(super) fn error_at(kind: ErrorKind, sentence: &str, line: usize, col: usize) -> Error {
    Error::new(kind, format!("[{line}:{col}] {sentence}"))
        .with("line", line)
        .with("col", col)
}

#[cfg(test)]
mod tests {
    use super::plain;

    /// Nothing is passed over, and at most seven bytes are left.
    #[test]
    fn plain_bytes() {
        let check = |bytes: &[u8], quote: u8| {
            let ends = |b: &u8| *b < b' ' || *b == quote || *b == b'\\';
            let first = bytes.iter().position(ends);
            let found = plain(bytes, quote);
            match first {
                Some(first) if first < bytes.len() / 8 * 8 => assert_eq!(found, first, "{bytes:?}"),
                _ => assert_eq!(found, bytes.len() / 8 * 8, "{bytes:?}"),
            }
        };
        for byte in 0..=u8::MAX {
            for at in 0..20 {
                for around in [b'a', b'!', 0x7f, 0x80, 0xc3, 0xff] {
                    let mut bytes = [around; 20];
                    bytes[at] = byte;
                    check(&bytes, b'"');
                    check(&bytes, b'\'');
                    bytes[19 - at] = b'"';
                    check(&bytes, b'"');
                }
            }
        }
        check(b"", b'"');
    }
}
