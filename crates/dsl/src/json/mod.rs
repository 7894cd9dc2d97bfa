//! The one reader of JSON: positions, a bounded depth, the typed dialect's leniency.
//!
//! [`read`] makes a tree whose nodes know where they stood; [`check`] runs the same lexer and keeps nothing.
//! [`Fields`] hands out an object's members and refuses, at the end, those that nobody asked for.

use model::{Result, settings};

mod fields;
mod lexer;
mod node;
mod reader;

pub use fields::{Fields, failed_field, unsupported};
use lexer::Lexer;
use reader::{Nothing, Tree, walk};

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
/// `json_parse_exception` and `json_e_o_f_exception` with the position, what stands there, and what was expected.
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
    let root = tree.root.ok_or_else(|| lexer.end_of_input(None))?;
    Ok((root, lexer))
}
