//! One pass over the bytes with a stack of our own: no recursion on what a user sends.

use super::*;
use model::Result;
use std::borrow::Cow;
use std::collections::HashSet;

/// Where something stood.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) line: u32,
    pub(super) col: u32,
    pub(super) key: (u32, u32),
}

/// A value without members.
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(Cow<'a, str>),
}

/// The receiver of the tokens that the lexer finds.
pub(super) trait Sink {
    fn open(&mut self, object: bool, at: At);
    fn close(&mut self);
    fn name(&mut self, name: &str);
    fn scalar(&mut self, value: Scalar<'_>, at: At);
}

pub(super) struct Nothing;
impl Sink for Nothing {
    fn open(&mut self, _: bool, _: At) {}
    fn close(&mut self) {}
    fn name(&mut self, _: &str) {}
    fn scalar(&mut self, _: Scalar<'_>, _: At) {}
}

pub(super) struct Tree {
    pub(super) open: Vec<(Node, String)>,
    pub(super) root: Option<Node>,
}

impl Tree {
    pub(super) fn put(&mut self, node: Node) {
        let is_top = self.open.len() == 1;
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
            )) => {
                if is_top
                    && name == "timeout"
                    && let Json::String(text) = &node.value
                {
                    crate::interruption::note_timeout(text);
                }
                members.push((std::mem::take(name), node));
            }
            _ => {
                debug_assert!(self.root.is_none(), "a text has one value");
                self.root = Some(node);
            }
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
        let closed = self.open.pop();
        debug_assert!(closed.is_some(), "a list or object that is closed was opened");
        if let Some((node, _)) = closed {
            self.put(node);
        }
    }
    fn name(&mut self, name: &str) {
        debug_assert!(
            self.open.last().is_some_and(|(node, _)| node.is_object()),
            "only a member of an object has a name"
        );
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
pub(super) enum Names<'a> {
    Few(Vec<Cow<'a, str>>),
    Many(HashSet<Cow<'a, str>>),
}

impl<'a> Names<'a> {
    /// False if it was there.
    pub(super) fn add(&mut self, name: Cow<'a, str>) -> bool {
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
pub(super) struct Open<'a> {
    pub(super) object: bool,
    pub(super) at: (u32, u32),
    pub(super) names: Names<'a>,
    pub(super) first: bool,
}

/// Reads the name of a member, and the colon behind it.
fn member_name<'a>(lexer: &mut Lexer<'a>, open: &mut Open<'a>, sink: &mut impl Sink) -> Result<()> {
    let around = (open.object, open.at);
    let name = lexer.name(around)?;
    sink.name(&name);
    if !lexer.how.duplicates {
        let text = name.clone();
        if !open.names.add(name) {
            return Err(lexer.refuse(&format!("duplicate field [{text}]"), lexer.pos));
        }
    }
    lexer.blank(Some(around))?;
    match lexer.peek() {
        Some(b':') => lexer.pos += 1,
        Some(_) => return Err(lexer.unexpected_token("[:] between the name of a field and its value")),
        None => return Err(lexer.end_of_input(Some(around))),
    }
    lexer.blank(Some(around))
}

/// Reads one value without recursion.
pub(super) fn walk<'a>(lexer: &mut Lexer<'a>, sink: &mut impl Sink) -> Result<()> {
    let depth_max = lexer.how.depth();
    let mut stack: Vec<Open<'a>> = Vec::new();
    let mut key = None;
    let mut before: Option<usize> = None;
    loop {
        debug_assert!(
            before.is_none_or(|before| before < lexer.pos),
            "each turn reads a part of the text, so that there is a last one"
        );
        before = Some(lexer.pos);
        crate::interruption::look()?;
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
            if open.object {
                key = Some(lexer.position());
                member_name(lexer, open, sink)?;
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
