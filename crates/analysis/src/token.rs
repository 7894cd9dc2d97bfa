//! One token: a term, where it stands in the text, and what kind of thing it is.

use std::fmt;

/// The type of a token, with Lucene's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// `<ALPHANUM>`: letters and digits.
    Alphanum,
    /// `<NUM>`: digits.
    Num,
    /// `<SOUTHEAST_ASIAN>`: a run of Thai, Lao, Khmer or Burmese.
    SoutheastAsian,
    /// `<CJ>`: one character of Chinese or Japanese, as the `classic` tokenizer calls it.
    Cj,
    /// `<IDEOGRAPHIC>`: one Han character.
    Ideographic,
    /// `<HIRAGANA>`: one character of Hiragana.
    Hiragana,
    /// `<KATAKANA>`: a run of Katakana.
    Katakana,
    /// `<HANGUL>`: a run of Hangul.
    Hangul,
    /// `<EMOJI>`: one emoji, with what modifies it.
    Emoji,
    /// `<URL>`, of the `uax_url_email` tokenizer.
    Url,
    /// `<EMAIL>`, of the `uax_url_email` tokenizer.
    Email,
    /// `<APOSTROPHE>`, of the `classic` tokenizer.
    Apostrophe,
    /// `<ACRONYM>`, of the `classic` tokenizer.
    Acronym,
    /// `<COMPANY>`, of the `classic` tokenizer.
    Company,
    /// `<HOST>`, of the `classic` tokenizer.
    Host,
    /// `word`: what tokenizers without kinds produce.
    Word,
    /// `SYNONYM`: put in by a synonym rule.
    Synonym,
    /// `shingle`: several tokens in one.
    Shingle,
    /// `gram`: a common word with its neighbour.
    Gram,
    /// `<SINGLE>`: a CJK character without a neighbour.
    Single,
    /// `<DOUBLE>`: two CJK characters.
    Double,
    /// `fingerprint`: all tokens in one.
    Fingerprint,
}

impl TokenKind {
    /// Lucene's name.
    pub fn as_str(&self) -> &str {
        match self {
            TokenKind::Alphanum => "<ALPHANUM>",
            TokenKind::Num => "<NUM>",
            TokenKind::SoutheastAsian => "<SOUTHEAST_ASIAN>",
            TokenKind::Ideographic => "<IDEOGRAPHIC>",
            TokenKind::Cj => "<CJ>",
            TokenKind::Hiragana => "<HIRAGANA>",
            TokenKind::Katakana => "<KATAKANA>",
            TokenKind::Hangul => "<HANGUL>",
            TokenKind::Emoji => "<EMOJI>",
            TokenKind::Url => "<URL>",
            TokenKind::Email => "<EMAIL>",
            TokenKind::Apostrophe => "<APOSTROPHE>",
            TokenKind::Acronym => "<ACRONYM>",
            TokenKind::Company => "<COMPANY>",
            TokenKind::Host => "<HOST>",
            TokenKind::Word => "word",
            TokenKind::Synonym => "SYNONYM",
            TokenKind::Shingle => "shingle",
            TokenKind::Gram => "gram",
            TokenKind::Single => "<SINGLE>",
            TokenKind::Double => "<DOUBLE>",
            TokenKind::Fingerprint => "fingerprint",
        }
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A term and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The term itself.
    pub term: String,
    /// Where it begins in the original text, in bytes.
    pub start: usize,
    /// Where it ends in the original text, in bytes.
    pub end: usize,
    /// Its position, counted from 0 within this text; holes are left where tokens were dropped.
    pub position: u32,
    /// How many positions it spans; more than 1 only in graphs and shingles.
    pub position_length: u32,
    /// The type of the token.
    pub kind: TokenKind,
    /// Stemmers leave it alone.
    pub keyword: bool,
}

impl Token {
    pub(crate) fn empty() -> Token {
        Token {
            term: String::new(),
            start: 0,
            end: 0,
            position: 0,
            position_length: 1,
            kind: TokenKind::Word,
            keyword: false,
        }
    }

    /// The same token under another term.
    pub(crate) fn with_term(&self, term: impl Into<String>) -> Token {
        Token {
            term: term.into(),
            ..Token {
                term: String::new(),
                ..*self
            }
        }
    }
}

/// Applies a change of lengths to positions: the increments of `of` are kept, a first token starts where it did.
/// Filters that put tokens in at positions of their own write increments and call this to make them absolute.
pub(crate) fn positions_from_increments(tokens: &mut [Token], increments: &[u32]) {
    debug_assert_eq!(tokens.len(), increments.len(), "each token has its increment");
    let mut at: i64 = -1;
    for (token, increment) in tokens.iter_mut().zip(increments) {
        at += i64::from(*increment);
        token.position = u32::try_from(at.max(0)).unwrap_or(0);
    }
}

/// The increment of each token's position over the one before it, as Lucene counts.
pub(crate) fn increments(tokens: &[Token]) -> Vec<u32> {
    let mut before: i64 = -1;
    tokens
        .iter()
        .map(|token| {
            let increment = (i64::from(token.position) - before).max(0);
            before = i64::from(token.position);
            u32::try_from(increment).unwrap_or(0)
        })
        .collect()
}
