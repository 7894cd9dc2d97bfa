//! The language of `query_string` (Lucene's classic syntax), as a tree and as queries.
//!
//! [`parse`] knows nothing of mappings; [`expand`] turns the tree into clauses over fields that the engine has resolved.

mod classic;
mod expand;
pub mod simple;
#[cfg(test)]
mod tests;

pub use classic::parse;
pub use expand::{expand, expand_with};

/// Parentheses inside each other.
pub const DEPTH_MAX: usize = 100;

/// Whether a clause must, may or must not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occur {
    /// `+`, `AND`
    Must,
    /// Neither.
    Should,
    /// `-`, `NOT`, `!`
    MustNot,
}

/// A query string taken apart.
#[derive(Clone, Debug, PartialEq)]
pub enum Syntax {
    /// `*:*`
    All,
    /// One word, its escapes resolved.
    Term(String),
    /// Words in quotes, with `~slop`.
    Phrase {
        /// Between the quotes.
        text: String,
        /// How far they may be apart, if it was said.
        slop: Option<u32>,
    },
    /// `word~` with the edits, if they were said.
    Fuzzy {
        /// The word.
        text: String,
        /// Edits, or a similarity below 1 as of old.
        edits: Option<f32>,
    },
    /// `word*` without the star.
    Prefix(String),
    /// A word with `*` and `?`; escapes are kept.
    Wildcard(String),
    /// Between slashes.
    Regex(String),
    /// `[a TO b}` and `>=a`.
    Range {
        /// Lower end.
        low: Option<String>,
        /// Upper end.
        high: Option<String>,
        /// The lower end belongs to it.
        with_low: bool,
        /// The upper end belongs to it.
        with_high: bool,
    },
    /// `_exists_:field`
    Exists(String),
    /// `_missing_:field`, of 2015.
    Missing(String),
    /// `field:…`; the name may be a pattern.
    Field(String, Box<Syntax>),
    /// `…^2`
    Boost(Box<Syntax>, f32),
    /// Several clauses.
    Bool(Vec<(Occur, Syntax)>),
}

impl Syntax {
    /// A pattern somewhere in it begins with `*` or `?` (a star alone stands for every value).
    pub fn leads_with_wildcard(&self) -> bool {
        match self {
            Syntax::Wildcard(text) => text != "*" && text.starts_with(['*', '?']),
            Syntax::Prefix(text) => text.starts_with(['*', '?']),
            Syntax::Field(_, inner) | Syntax::Boost(inner, _) => inner.leads_with_wildcard(),
            Syntax::Bool(clauses) => clauses.iter().any(|(_, c)| c.leads_with_wildcard()),
            _ => false,
        }
    }

    /// Calls `f` with every field name or pattern that the text names.
    pub fn fields(&self, f: &mut dyn FnMut(&str)) {
        match self {
            Syntax::Field(name, inner) => {
                f(name);
                inner.fields(f);
            }
            Syntax::Boost(inner, _) => inner.fields(f),
            Syntax::Bool(clauses) => clauses.iter().for_each(|(_, c)| c.fields(f)),
            _ => {}
        }
    }
}
