//! The one reader of JSON: positions, a bounded depth, the typed dialect's leniency.
//!
//! [`read`] makes a tree whose nodes know where they stood; [`check`] runs the same lexer and keeps nothing.
//! [`Fields`] hands out an object's members and refuses, at the end, those that were not taken.

use model::{Result, settings};

mod fields;
mod lexer;
mod node;
mod reader;
mod top_level;

pub use fields::{Fields, failed_field, unsupported_value};
use lexer::Lexer;
use reader::{Nothing, Tree, walk};
pub use top_level::top_level_string;

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
    /// The value.
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

/// Bytes of an object: places for four members and its own.
const OBJECT_BYTES: usize = 320;
/// Bytes of a list: places for four values and its own.
const LIST_BYTES: usize = 240;
/// Bytes of another value in one that grows by doubling, while the old places lie beside the new ones.
const VALUE_BYTES: usize = 144;
/// Bytes of a name on the heap.
const NAME_BYTES: usize = 32;

/// Bytes of a text whose signs are counted before the next ones are.
const COUNTED_AT_ONCE_BYTES: usize = 16 << 10;

/// About how much memory the tree of a text takes at most while it is read: it depends on how many values there are. Signs
/// inside of strings count as well; only a tree would show which they are.
pub fn tree_bytes(text: &[u8]) -> usize {
    let signs = [
        (b':', NAME_BYTES),
        (b'{', OBJECT_BYTES),
        (b'[', LIST_BYTES),
        (b',', VALUE_BYTES),
    ];
    // Counting one sign reads 32 bytes at a time; a part stays in the processor's cache for the four.
    text.chunks(COUNTED_AT_ONCE_BYTES).fold(text.len(), |sum, part| {
        let of_sign = |(sign, each): (u8, usize)| memchr::memchr_iter(sign, part).count().saturating_mul(each);
        signs.map(of_sign).into_iter().fold(sum, usize::saturating_add)
    })
}

/// About how much memory what is parsed of a text takes at most, with the tree that it is parsed from: a value of a tree
/// becomes another of a query, which is copied once for its plan.
pub fn parsed_bytes(text: &[u8]) -> usize {
    let values = memchr::memchr_iter(b',', text).count();
    tree_bytes(text).saturating_add(values.saturating_mul(2 * size_of::<serde_json::Value>()))
}

fn read_one(bytes: &[u8], how: Reading) -> Result<(Node, Lexer<'_>)> {
    let mut lexer = Lexer::new(bytes, how)?;
    let mut tree = Tree {
        open: Vec::new(),
        root: None,
    };
    walk(&mut lexer, &mut tree)?;
    debug_assert!(
        tree.root.is_none() || tree.open.is_empty(),
        "a value that was read to its end leaves no list or object open"
    );
    debug_assert!(lexer.pos <= bytes.len(), "a lexer stays within its text");
    let root = tree.root.ok_or_else(|| lexer.end_of_input(None))?;
    Ok((root, lexer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a tree on the heap; capacities count.
    fn held(node: &Node) -> usize {
        match &node.value {
            Json::String(text) => text.capacity(),
            Json::Array(items) => items.capacity() * size_of::<Node>() + items.iter().map(held).sum::<usize>(),
            Json::Object(members) => {
                let inside: usize = members.iter().map(|(name, node)| name.capacity() + held(node)).sum();
                members.capacity() * size_of::<(String, Node)>() + inside
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        }
    }

    #[test]
    fn a_tree_takes_no_more_than_it_is_said_to() {
        // Several lengths: a list that grows by doubling is at its worst right after it has grown.
        for count in [1, 2, 3, 5, 100, 1025, 5000] {
            for part in [
                "1",
                "[]",
                "{}",
                "[1]",
                "{\"a\":1}",
                "{\"term\":{\"f\":\"w\"}}",
                "\"text of some length\"",
                "[[[[{}]]]]",
            ] {
                let text = format!("[{}]", vec![part; count].join(","));
                let tree = read(text.as_bytes(), Reading::default()).expect("it is JSON");
                let (said, held) = (tree_bytes(text.as_bytes()), held(&tree));
                assert!(held <= said, "{count} of {part}: {held} bytes, {said} at most");
                assert!(
                    said <= 8 * (held + text.len()),
                    "{count} of {part}: {held} bytes are far from {said}"
                );
            }
        }
        // Text is no structure.
        let text = format!("\"{}\"", "x".repeat(100_000));
        assert!(tree_bytes(text.as_bytes()) < 101_000);
    }
}
