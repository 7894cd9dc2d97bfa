//! The one reader of JSON: positions, a bounded depth, the typed dialect's leniency, Jackson's sentences.
//!
//! [`read`] makes a tree whose nodes know where they stood; [`check`] runs the same lexer and keeps nothing.
//! [`Fields`] hands out an object's members and refuses, at the end, those that nobody asked for.

use model::nearest::nearest;
use model::{Error, ErrorKind, Result, settings};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

/// No caller may ask for trees deeper than this: dropping and comparing them recurses.
const DEPTH_CAP: usize = 1000;

/// How to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// The typed dialect: unquoted keys, comments, raw newlines in strings, single quotes; what follows the value is not read.
    pub lenient: bool,
    /// Depth of arrays and objects; 0 means the default of `json.max_depth`.
    pub depth_max: usize,
    /// A name may come twice in an object.
    pub duplicates: bool,
}

impl Reading {
    fn depth(self) -> usize {
        match self.depth_max {
            0 => settings::JSON_MAX_DEPTH.default.parse().unwrap_or(128),
            n => n.min(DEPTH_CAP),
        }
    }
}

/// A value and where it began, counted from 1 in lines and bytes. Positions are 0 in nodes made from values.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What was read.
    pub value: Json,
    /// Line of its first byte.
    pub line: u32,
    /// Column of its first byte.
    pub col: u32,
    /// Line and column of the name before it, else its own.
    pub key: (u32, u32),
}

/// A value of JSON; objects keep the order of their members.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number: signed or unsigned 64 bits, or a finite double.
    Number(serde_json::Number),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Node>),
    /// Members in their order.
    Object(Vec<(String, Node)>),
}

/// Reads one value that fills all of `bytes`.
///
/// # Errors
/// `json_parse_exception` and `json_e_o_f_exception` with the position, as Jackson words them.
pub fn read(bytes: &[u8], how: Reading) -> Result<Node> {
    let (node, mut lexer) = read_one(bytes, how)?;
    lexer.finish()?;
    Ok(node)
}

/// Reads one value from the beginning of `bytes` and tells where it ended.
///
/// # Errors
/// As [`read`], except that anything may follow.
pub fn read_prefix(bytes: &[u8], how: Reading) -> Result<(Node, usize)> {
    let (node, lexer) = read_one(bytes, how)?;
    Ok((node, lexer.pos))
}

/// Checks that `bytes` are one value, without building it.
///
/// # Errors
/// As [`read`].
pub fn check(bytes: &[u8], how: Reading) -> Result<()> {
    let mut lexer = Lexer::new(bytes, how)?;
    walk(&mut lexer, &mut Nothing)?;
    lexer.finish()
}

fn read_one(bytes: &[u8], how: Reading) -> Result<(Node, Lexer<'_>)> {
    let mut lexer = Lexer::new(bytes, how)?;
    let mut tree = Tree {
        open: Vec::new(),
        root: None,
    };
    walk(&mut lexer, &mut tree)?;
    let end = lexer.end_of_input(None);
    Ok((tree.root.ok_or(end)?, lexer))
}

/// Where something stood.
#[derive(Clone, Copy)]
struct At {
    line: u32,
    col: u32,
    key: (u32, u32),
}

/// A value without members.
enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(Cow<'a, str>),
}

/// Who is told what the lexer finds.
trait Sink {
    fn open(&mut self, object: bool, at: At);
    fn close(&mut self);
    fn name(&mut self, name: &str);
    fn scalar(&mut self, value: Scalar<'_>, at: At);
}

struct Nothing;
impl Sink for Nothing {
    fn open(&mut self, _: bool, _: At) {}
    fn close(&mut self) {}
    fn name(&mut self, _: &str) {}
    fn scalar(&mut self, _: Scalar<'_>, _: At) {}
}

struct Tree {
    open: Vec<(Node, String)>,
    root: Option<Node>,
}

impl Tree {
    fn put(&mut self, node: Node) {
        match self.open.last_mut() {
            Some((
                Node {
                    value: Json::Array(items),
                    ..
                },
                _,
            )) => items.push(node),
            Some((
                Node {
                    value: Json::Object(members),
                    ..
                },
                name,
            )) => members.push((std::mem::take(name), node)),
            _ => self.root = Some(node),
        }
    }
}

impl Sink for Tree {
    fn open(&mut self, object: bool, at: At) {
        let value = if object {
            Json::Object(Vec::new())
        } else {
            Json::Array(Vec::new())
        };
        self.open.push((
            Node {
                value,
                line: at.line,
                col: at.col,
                key: at.key,
            },
            String::new(),
        ));
    }
    fn close(&mut self) {
        if let Some((node, _)) = self.open.pop() {
            self.put(node);
        }
    }
    fn name(&mut self, name: &str) {
        if let Some((_, pending)) = self.open.last_mut() {
            name.clone_into(pending);
        }
    }
    fn scalar(&mut self, value: Scalar<'_>, at: At) {
        let value = match value {
            Scalar::Null => Json::Null,
            Scalar::Bool(b) => Json::Bool(b),
            Scalar::Number(n) => Json::Number(n),
            Scalar::String(s) => Json::String(s.into_owned()),
        };
        self.put(Node {
            value,
            line: at.line,
            col: at.col,
            key: at.key,
        });
    }
}

/// The names already seen in an object: a list while they are few.
enum Names<'a> {
    Few(Vec<Cow<'a, str>>),
    Many(HashSet<Cow<'a, str>>),
}

impl<'a> Names<'a> {
    /// False if it was there.
    fn add(&mut self, name: Cow<'a, str>) -> bool {
        match self {
            Names::Few(list) if list.contains(&name) => false,
            Names::Few(list) if list.len() < 16 => {
                list.push(name);
                true
            }
            Names::Few(list) => {
                let mut set: HashSet<_> = list.drain(..).collect();
                let new = set.insert(name);
                *self = Names::Many(set);
                new
            }
            Names::Many(set) => set.insert(name),
        }
    }
}

/// An array or object being read.
struct Open<'a> {
    object: bool,
    at: (u32, u32),
    names: Names<'a>,
    first: bool,
}

/// Reads one value without recursion.
fn walk(lexer: &mut Lexer<'_>, sink: &mut impl Sink) -> Result<()> {
    let depth_max = lexer.how.depth();
    let mut stack: Vec<Open<'_>> = Vec::new();
    let mut key = None;
    loop {
        lexer.blank(stack.last().map(|o| (o.object, o.at)))?;
        if let Some(open) = stack.last_mut() {
            let close = if open.object { b'}' } else { b']' };
            let ended = lexer.separator(open, close)?;
            if ended {
                stack.pop();
                sink.close();
                if stack.is_empty() {
                    return Ok(());
                }
                continue;
            }
            let around = (open.object, open.at);
            if open.object {
                let at = lexer.position();
                let name = lexer.name(around)?;
                if !lexer.how.duplicates {
                    sink.name(&name);
                    let text = name.clone();
                    if !open.names.add(name) {
                        return Err(lexer.refuse(&format!("Duplicate field '{text}'"), lexer.pos));
                    }
                } else {
                    sink.name(&name);
                }
                lexer.blank(Some(around))?;
                match lexer.peek() {
                    Some(b':') => lexer.pos += 1,
                    Some(_) => {
                        return Err(lexer.unexpected("was expecting a colon to separate field name and value"));
                    }
                    None => return Err(lexer.end_of_input(Some(around))),
                }
                lexer.blank(Some(around))?;
                key = Some(at);
            }
        }
        let around = stack.last().map(|o| (o.object, o.at));
        let here = lexer.position();
        let at = At {
            line: here.0,
            col: here.1,
            key: key.take().unwrap_or(here),
        };
        match lexer.peek() {
            None => return Err(lexer.end_of_input(around)),
            Some(c @ (b'{' | b'[')) => {
                if stack.len() >= depth_max {
                    let sentence = format!(
                        "Document nesting depth ({}) exceeds the maximum allowed ({depth_max}), the limit of [json.max_depth]",
                        stack.len() + 1
                    );
                    return Err(lexer.refuse(&sentence, lexer.pos));
                }
                lexer.pos += 1;
                stack.push(Open {
                    object: c == b'{',
                    at: here,
                    names: Names::Few(Vec::new()),
                    first: true,
                });
                sink.open(c == b'{', at);
                continue;
            }
            Some(_) => sink.scalar(lexer.scalar(around)?, at),
        }
        if stack.is_empty() {
            return Ok(());
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    pos: usize,
    line: u32,
    line_start: usize,
    how: Reading,
}

/// The kind and place of the container that input ended in.
type Around = Option<(bool, (u32, u32))>;

const SOURCE: &str = "[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: ";

impl<'a> Lexer<'a> {
    fn new(bytes: &'a [u8], how: Reading) -> Result<Lexer<'a>> {
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let before = &bytes[..e.valid_up_to()];
            let line = 1 + before.iter().filter(|b| **b == b'\n').count();
            let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
            let byte = bytes.get(e.valid_up_to()).copied().unwrap_or(0);
            let sentence = format!("Invalid UTF-8 start byte 0x{byte:x}");
            placed(ErrorKind::JsonParse, &sentence, line, e.valid_up_to() - start + 1)
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

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn position(&self) -> (u32, u32) {
        (self.line, u32::try_from(self.pos - self.line_start + 1).unwrap_or(u32::MAX))
    }

    /// A refusal naming the byte at `pos` of the current line.
    fn refuse(&self, sentence: &str, pos: usize) -> Error {
        placed(
            ErrorKind::JsonParse,
            sentence,
            self.line as usize,
            pos.saturating_sub(self.line_start) + 1,
        )
    }

    fn unexpected(&self, expecting: &str) -> Error {
        let Some(c) = self.text[self.pos..].chars().next() else {
            return self.end_of_input(None);
        };
        let code = c as u32;
        if code < 32 {
            return self.control();
        }
        self.refuse(&format!("Unexpected character ('{c}' (code {code})): {expecting}"), self.pos)
    }

    fn control(&self) -> Error {
        let code = self.peek().unwrap_or(0);
        let sentence = format!(
            "Illegal character ((CTRL-CHAR, code {code})): only regular white space (\\r, \\n, \\t) is allowed between tokens"
        );
        self.refuse(&sentence, self.pos + 1)
    }

    fn end_of_input(&self, around: Around) -> Error {
        let col = self.text.len().saturating_sub(self.line_start) + 1;
        let sentence = match around {
            None => "Unexpected end-of-input".to_owned(),
            Some((object, (line, col))) => {
                let kind = if object { "Object" } else { "Array" };
                format!(
                    "Unexpected end-of-input: expected close marker for {kind} (start marker at {SOURCE}{line}, column: {col}])"
                )
            }
        };
        placed(ErrorKind::JsonEof, &sentence, self.line as usize, col)
    }

    fn newline(&mut self) {
        self.line += 1;
        self.line_start = self.pos;
    }

    /// Skips white space, and comments where they are allowed.
    fn blank(&mut self, around: Around) -> Result<()> {
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

    fn skip_line(&mut self) {
        let rest = &self.text[self.pos..];
        self.pos += rest.find('\n').unwrap_or(rest.len());
    }

    /// The comma before a member or item, or the end of the container (true).
    fn separator(&mut self, open: &mut Open<'_>, close: u8) -> Result<bool> {
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
                let kind = if open.object { "Object" } else { "Array" };
                return Err(self.unexpected(&format!("was expecting comma to separate {kind} entries")));
            }
        }
        Ok(false)
    }

    fn name(&mut self, around: (bool, (u32, u32))) -> Result<Cow<'a, str>> {
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
                    return Err(self.unexpected(
                        "was expecting either valid name character (for unquoted name) or double-quote (for quoted) to start field name",
                    ));
                }
                self.pos += end;
                Ok(Cow::Borrowed(&rest[..end]))
            }
            Some(_) => Err(self.unexpected("was expecting double-quote to start field name")),
        }
    }

    /// A string from its opening quote to its closing one.
    fn string(&mut self, quote: u8) -> Result<Cow<'a, str>> {
        self.pos += 1;
        let text = self.text;
        let bytes = text.as_bytes();
        let mut start = self.pos;
        let mut own: Option<String> = None;
        loop {
            let Some(&c) = bytes.get(self.pos) else {
                return Err(placed(
                    ErrorKind::JsonEof,
                    "Unexpected end-of-input in VALUE_STRING",
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
                    let sentence = format!(
                        "Illegal unquoted character ((CTRL-CHAR, code {c})): has to be escaped using backslash to be included in string value"
                    );
                    return Err(self.refuse(&sentence, self.pos + 1));
                }
                _ => self.pos += 1,
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, quote: u8) -> Result<char> {
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
                let sentence = format!("Unrecognized character escape '{c}' (code {})", c as u32);
                return Err(self.refuse(&sentence, self.pos));
            }
        };
        self.pos += c.len_utf8();
        Ok(plain)
    }

    fn unicode(&mut self) -> Result<char> {
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

    fn hex(&mut self) -> Result<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(c) = self.text[self.pos..].chars().next() else {
                return Err(self.end_of_input(None));
            };
            let Some(digit) = c.to_digit(16) else {
                return Err(self.unexpected("expected a hex-digit for character escape sequence"));
            };
            code = code * 16 + digit;
            self.pos += 1;
        }
        Ok(code)
    }

    fn scalar(&mut self, around: Around) -> Result<Scalar<'a>> {
        match self.peek() {
            None => Err(self.end_of_input(around)),
            Some(b'"') => self.string(b'"').map(Scalar::String),
            Some(b'\'') if self.how.lenient => self.string(b'\'').map(Scalar::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Scalar::Number),
            Some(_) => self.word(around),
        }
    }

    fn word(&mut self, around: Around) -> Result<Scalar<'a>> {
        let rest = &self.text[self.pos..];
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$')))
            .unwrap_or(rest.len());
        let scalar = match &rest[..end] {
            "null" => Scalar::Null,
            "true" => Scalar::Bool(true),
            "false" => Scalar::Bool(false),
            "" if around.is_some() => {
                return Err(self.unexpected(
                    "expected a valid value (JSON String, Number, Array, Object or token 'null', 'true' or 'false')",
                ));
            }
            "" => {
                return Err(self.unexpected("expected a valid value (JSON String, Number (or 'NaN'/'+INF'/'-INF'), Array, Object or token 'null', 'true' or 'false')"));
            }
            token => {
                let short: String = token.chars().take(256).collect();
                let sentence = format!(
                    "Unrecognized token '{short}': was expecting (JSON String, Number, Array, Object or token 'null', 'true' or 'false')"
                );
                let past = usize::from(end < rest.len());
                return Err(self.refuse(&sentence, self.pos + end + past));
            }
        };
        self.pos += end;
        Ok(scalar)
    }

    fn number(&mut self) -> Result<serde_json::Number> {
        let bytes = self.text.as_bytes();
        let start = self.pos;
        let mut whole = true;
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        let digits = self.digits("expected digit (0-9) to follow minus sign, for valid numeric value")?;
        if digits > 1 && bytes[self.pos - digits] == b'0' {
            return Err(self.refuse("Invalid numeric value: Leading zeroes not allowed", self.pos - digits + 1));
        }
        if self.peek() == Some(b'.') {
            whole = false;
            self.pos += 1;
            self.digits("Decimal point not followed by a digit")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            whole = false;
            self.pos += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digits("Exponent indicator not followed by a digit")?;
        }
        if let Some(c) = self.peek()
            && (c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'.'))
        {
            return Err(self.unexpected("Expected space separating root-level values"));
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
        double.ok_or_else(|| self.refuse("Numeric value out of range of a double", start))
    }

    fn digits(&mut self, expecting: &str) -> Result<usize> {
        let start = self.pos;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.pos += 1;
        }
        match self.pos - start {
            0 if self.peek().is_none() => Err(self.end_of_input(None)),
            0 => Err(self.unexpected(expecting)),
            n => Ok(n),
        }
    }

    /// Nothing but white space may follow.
    fn finish(&mut self) -> Result<()> {
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
                let kind = if c == '}' { "Object" } else { "Array" };
                let sentence =
                    format!("Unexpected close marker '{c}': expected ']' (for root starting at {SOURCE}1, column: 0])");
                return Err(self.refuse(&sentence, self.pos).with("expected", kind));
            }
            Some(_) => {
                self.word(None)?;
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

/// A refusal in Jackson's form.
fn placed(kind: ErrorKind, sentence: &str, line: usize, col: usize) -> Error {
    Error::new(kind, format!("{sentence}\n at {SOURCE}{line}, column: {col}]"))
}

impl Node {
    /// A node without a position.
    pub fn from_value(value: Value) -> Node {
        let value = match value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(b),
            Value::Number(n) => Json::Number(n),
            Value::String(s) => Json::String(s),
            Value::Array(items) => Json::Array(items.into_iter().map(Node::from_value).collect()),
            Value::Object(map) => Json::Object(map.into_iter().map(|(k, v)| (k, Node::from_value(v))).collect()),
        };
        Node {
            value,
            line: 0,
            col: 0,
            key: (0, 0),
        }
    }

    /// The value without positions. Of two members with one name the last stays.
    pub fn to_value(&self) -> Value {
        match &self.value {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => Value::Number(n.clone()),
            Json::String(s) => Value::String(s.clone()),
            Json::Array(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Json::Object(members) => Value::Object(members.iter().map(|(k, v)| (k.clone(), v.to_value())).collect()),
        }
    }

    /// [`Node::to_value`] without copying.
    pub fn into_value(self) -> Value {
        match self.value {
            Json::Null => Value::Null,
            Json::Bool(b) => Value::Bool(b),
            Json::Number(n) => Value::Number(n),
            Json::String(s) => Value::String(s),
            Json::Array(items) => Value::Array(items.into_iter().map(Node::into_value).collect()),
            Json::Object(members) => Value::Object(members.into_iter().map(|(k, v)| (k, v.into_value())).collect()),
        }
    }

    /// The members of an object, to be taken one by one; `owner` is who refuses the rest.
    ///
    /// # Errors
    /// It is no object.
    pub fn fields(self, owner: &str) -> Result<Fields> {
        let (line, col, kind) = (self.line, self.col, self.kind_name());
        let Json::Object(members) = self.value else {
            let sentence = format!("[{line}:{col}] [{owner}] Expected START_OBJECT but was: {kind}");
            return Err(Error::new(ErrorKind::XContentParse, sentence));
        };
        Ok(Fields {
            owner: owner.to_owned(),
            members: members.into(),
            known: Vec::new(),
            lenient: false,
            query: false,
        })
    }

    /// The items of an array; anything else is its own only item.
    pub fn items(self) -> Vec<Node> {
        match self.value {
            Json::Array(items) => items,
            value => vec![Node { value, ..self }],
        }
    }

    /// Text; numbers and booleans count as their text.
    ///
    /// # Errors
    /// It is null, a list or an object.
    pub fn string(&self, name: &str) -> Result<String> {
        match &self.value {
            Json::String(s) => Ok(s.clone()),
            Json::Number(n) => Ok(n.to_string()),
            Json::Bool(b) => Ok(b.to_string()),
            _ => Err(self.unfit(name, "a string")),
        }
    }

    /// `true`, `false` or these words as text.
    ///
    /// # Errors
    /// It is anything else.
    pub fn boolean(&self, name: &str) -> Result<bool> {
        match &self.value {
            Json::Bool(b) => Ok(*b),
            Json::String(s) if s == "true" => Ok(true),
            Json::String(s) if s == "false" => Ok(false),
            Json::Object(_) | Json::Array(_) => Err(self.unfit(name, "a boolean")),
            _ => {
                let text = self.to_text();
                Err(Error::illegal(format!(
                    "Failed to parse value [{text}] as only [true] or [false] are allowed."
                )))
            }
        }
    }

    /// As the typed dialect reads it: false, 0, "no", "off" and nothing are false, the rest is true.
    ///
    /// # Errors
    /// It is a list or an object.
    pub fn boolean_typed(&self, name: &str) -> Result<bool> {
        match &self.value {
            Json::Null => Ok(false),
            Json::Bool(b) => Ok(*b),
            Json::Number(n) => Ok(n.as_f64() != Some(0.0)),
            Json::String(s) => Ok(!matches!(s.as_str(), "" | "false" | "0" | "no" | "off")),
            _ => Err(self.unfit(name, "a boolean")),
        }
    }

    /// A number or its text.
    ///
    /// # Errors
    /// It is anything else.
    pub fn f64(&self, name: &str) -> Result<f64> {
        match &self.value {
            Json::Number(n) => n.as_f64().ok_or_else(|| self.unfit(name, "a number")),
            Json::String(s) => s
                .trim()
                .parse()
                .ok()
                .filter(|n: &f64| n.is_finite())
                .ok_or_else(|| not_a_number(s)),
            _ => Err(self.unfit(name, "a number")),
        }
    }

    /// A number or its text.
    ///
    /// # Errors
    /// It is anything else or too large.
    pub fn f32(&self, name: &str) -> Result<f32> {
        let text = self.f64(name)?.to_string();
        text.parse()
            .ok()
            .filter(|n: &f32| n.is_finite())
            .ok_or_else(|| not_a_number(&text))
    }

    /// A whole number or its text; fractions are cut.
    ///
    /// # Errors
    /// It is anything else or too large.
    #[allow(clippy::cast_possible_truncation, reason = "checked against the range")]
    pub fn i64(&self, name: &str) -> Result<i64> {
        let of_double = |n: f64| (n.is_finite() && n.abs() < 9.3e18).then_some(n as i64);
        match &self.value {
            Json::Number(n) => n
                .as_i64()
                .or_else(|| n.as_f64().and_then(of_double))
                .ok_or_else(|| self.unfit(name, "a whole number")),
            Json::String(s) => {
                let s = s.trim();
                s.parse()
                    .ok()
                    .or_else(|| s.parse().ok().and_then(of_double))
                    .ok_or_else(|| not_a_number(s))
            }
            _ => Err(self.unfit(name, "a whole number")),
        }
    }

    /// A whole number from 0 up, or its text.
    ///
    /// # Errors
    /// It is anything else or too large.
    pub fn u32(&self, name: &str) -> Result<u32> {
        let n = self.i64(name)?;
        u32::try_from(n).map_err(|_| Error::illegal(format!("[{name}] must be between 0 and {}, was [{n}]", u32::MAX)))
    }

    /// A whole number from 0 up, or its text.
    ///
    /// # Errors
    /// It is anything else.
    pub fn usize(&self, name: &str) -> Result<usize> {
        let n = self.i64(name)?;
        usize::try_from(n).map_err(|_| Error::illegal(format!("[{name}] must be at least 0, was [{n}]")))
    }

    /// `null`.
    pub fn is_null(&self) -> bool {
        self.value == Json::Null
    }

    /// An object.
    pub fn is_object(&self) -> bool {
        matches!(self.value, Json::Object(_))
    }

    /// A list.
    pub fn is_array(&self) -> bool {
        matches!(self.value, Json::Array(_))
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Json::String(s) => Some(s),
            _ => None,
        }
    }

    /// What Elasticsearch calls the token it begins with.
    pub fn kind_name(&self) -> &'static str {
        match &self.value {
            Json::Null => "VALUE_NULL",
            Json::Bool(_) => "VALUE_BOOLEAN",
            Json::Number(_) => "VALUE_NUMBER",
            Json::String(_) => "VALUE_STRING",
            Json::Array(_) => "START_ARRAY",
            Json::Object(_) => "START_OBJECT",
        }
    }

    /// `parsing_exception` at this node.
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::parsing(reason, self.line as usize, self.col as usize)
    }

    /// `x_content_parse_exception` at this node, its position in front as Elasticsearch's object parsers have it.
    pub fn field_error(&self, owner: &str, field: &str) -> Error {
        let sentence = format!("[{}:{}] [{owner}] failed to parse field [{field}]", self.line, self.col);
        Error::new(ErrorKind::XContentParse, sentence)
    }

    fn unfit(&self, name: &str, wanted: &str) -> Error {
        self.error(format!("[{name}] must be {wanted} but was {}", self.kind_name()))
    }

    fn to_text(&self) -> String {
        match &self.value {
            Json::String(s) => s.clone(),
            _ => self.to_value().to_string(),
        }
    }
}

fn not_a_number(text: &str) -> Error {
    if text.trim().is_empty() {
        return Error::new(ErrorKind::NumberFormat, "empty String");
    }
    Error::new(ErrorKind::NumberFormat, format!("For input string: \"{text}\""))
}

/// An object's members while they are being taken; [`Fields::finish`] refuses what nobody took.
#[derive(Clone, Debug)]
pub struct Fields {
    owner: String,
    members: VecDeque<(String, Node)>,
    known: Vec<String>,
    lenient: bool,
    query: bool,
}

impl Fields {
    /// Unknown names are ignored and booleans read as in the typed dialect, if `lenient`.
    #[must_use]
    pub fn lenient(mut self, lenient: bool) -> Fields {
        self.lenient = lenient;
        self
    }

    /// Unknown names are refused as queries refuse them: `[owner] query does not support [x]`.
    #[must_use]
    pub fn of_query(mut self) -> Fields {
        self.query = true;
        self
    }

    /// The member of that name. Of several the last.
    pub fn take(&mut self, name: &str) -> Option<Node> {
        if !self.known.iter().any(|k| k == name) {
            self.known.push(name.to_owned());
        }
        let at = self.members.iter().rposition(|(n, _)| n == name)?;
        let found = self.members.remove(at).map(|(_, node)| node);
        self.members.retain(|(n, _)| n != name);
        found
    }

    /// The member of any of these names; the first name is the one to suggest.
    pub fn take_any(&mut self, names: &[&str]) -> Option<Node> {
        let mut found = None;
        for name in names {
            let node = self.take(name);
            found = found.or(node);
        }
        found
    }

    /// The member of that name.
    ///
    /// # Errors
    /// It is missing.
    pub fn require(&mut self, name: &str) -> Result<Node> {
        let owner = self.owner.clone();
        self.take(name)
            .ok_or_else(|| Error::illegal(format!("Required [{name}] for [{owner}]")))
    }

    /// The next member, whatever its name.
    pub fn next_field(&mut self) -> Option<(String, Node)> {
        self.members.pop_front()
    }

    /// All that were not taken.
    pub fn remaining(self) -> Vec<(String, Node)> {
        self.members.into()
    }

    /// How many were not taken.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether all were taken.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether a member of that name is there, not taken yet.
    pub fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(n, _)| n == name)
    }

    /// Text, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not text.
    pub fn take_string(&mut self, name: &str) -> Result<Option<String>> {
        self.given(name).map(|n| n.string(name)).transpose()
    }

    /// Text or a list of texts.
    ///
    /// # Errors
    /// An item is not text.
    pub fn take_strings(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        self.given(name)
            .map(|n| n.items().iter().map(|i| i.string(name)).collect())
            .transpose()
    }

    /// A boolean, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not a boolean.
    pub fn take_bool(&mut self, name: &str) -> Result<Option<bool>> {
        let lenient = self.lenient;
        self.given(name)
            .map(|n| if lenient { n.boolean_typed(name) } else { n.boolean(name) })
            .transpose()
    }

    /// A number, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not a number.
    pub fn take_f32(&mut self, name: &str) -> Result<Option<f32>> {
        self.given(name).map(|n| n.f32(name)).transpose()
    }

    /// A number, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not a number.
    pub fn take_f64(&mut self, name: &str) -> Result<Option<f64>> {
        self.given(name).map(|n| n.f64(name)).transpose()
    }

    /// A whole number from 0 up, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not one.
    pub fn take_u32(&mut self, name: &str) -> Result<Option<u32>> {
        self.given(name).map(|n| n.u32(name)).transpose()
    }

    /// A whole number from 0 up, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not one.
    pub fn take_usize(&mut self, name: &str) -> Result<Option<usize>> {
        self.given(name).map(|n| n.usize(name)).transpose()
    }

    /// A whole number, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not one.
    pub fn take_i64(&mut self, name: &str) -> Result<Option<i64>> {
        self.given(name).map(|n| n.i64(name)).transpose()
    }

    /// A value as it is, or `None` where it is missing.
    pub fn take_value(&mut self, name: &str) -> Option<Value> {
        self.take(name).map(Node::into_value)
    }

    /// An object as it is, or `None` where it is missing or null.
    ///
    /// # Errors
    /// It is not an object.
    pub fn take_map(&mut self, name: &str) -> Result<Option<Map<String, Value>>> {
        let Some(node) = self.given(name) else {
            return Ok(None);
        };
        let error = node.unfit(name, "an object");
        match node.into_value() {
            Value::Object(map) => Ok(Some(map)),
            _ => Err(error),
        }
    }

    /// Adds a member at the end.
    pub fn put(&mut self, name: &str, node: Node) {
        self.members.push_back((name.to_owned(), node));
    }

    /// These, then those of `other` whose names are not here.
    #[must_use]
    pub fn joined(mut self, other: Fields) -> Fields {
        for (name, node) in other.members {
            if !self.has(&name) {
                self.members.push_back((name, node));
            }
        }
        self
    }

    fn given(&mut self, name: &str) -> Option<Node> {
        self.take(name).filter(|n| !n.is_null())
    }

    /// As [`Fields::finish`], in the words of Elasticsearch's object parsers: `[1:5] [owner] unknown field [x]`.
    ///
    /// # Errors
    /// As [`Fields::finish`].
    pub fn finish_as_object(mut self) -> Result<()> {
        self.query = false;
        self.finish()
    }

    /// Refuses the first member that was not taken.
    ///
    /// # Errors
    /// There is one, and this is not lenient.
    pub fn finish(self) -> Result<()> {
        let Some((name, node)) = self.members.front() else {
            return Ok(());
        };
        if self.lenient {
            return Ok(());
        }
        let owner = &self.owner;
        if self.query {
            return Err(node.error(format!("[{owner}] query does not support [{name}]")));
        }
        let (line, col) = node.key;
        let meant = nearest(name, self.known.iter().map(String::as_str))
            .map(|k| format!(" did you mean [{k}]?"))
            .unwrap_or_default();
        let sentence = format!("[{line}:{col}] [{owner}] unknown field [{name}]{meant}");
        Err(Error::new(ErrorKind::XContentParse, sentence)
            .with("line", line)
            .with("col", col))
    }
}
