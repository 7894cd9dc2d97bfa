//! How much analysis may make of one text: parts that make more of it than it has count what they give out, and stop.
//!
//! Not here: who is refused for it ([`crate::Analyzer::check`]).

use crate::token::Token;
use model::settings::{ANALYSIS_MAX_TOKEN_BYTES, node_count};
use model::{Error, Result};

/// Bytes of a token beside its term.
const TOKEN_BYTES: usize = 64;
/// Bytes for each byte that a character filter inserts: it remembers the origin of each.
const CHARACTER_BYTES: usize = 16;

/// Bytes that are left.
pub(crate) struct Room(usize);

impl Room {
    /// The memory of one text.
    pub(crate) fn new() -> Room {
        Room(node_count(ANALYSIS_MAX_TOKEN_BYTES))
    }

    /// Takes a term of so many bytes; false: there is no more room.
    #[must_use]
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes.saturating_add(TOKEN_BYTES));
        self.0 = left.unwrap_or(0);
        left.is_some()
    }

    /// Whether all of these have a place in a new room.
    pub(crate) fn holds(tokens: &[Token]) -> bool {
        let mut room = Room::new();
        tokens.iter().all(|token| room.take(token.term.len()))
    }

    /// The longest text that character filters may make.
    pub(crate) fn text_bytes() -> usize {
        node_count(ANALYSIS_MAX_TOKEN_BYTES) / CHARACTER_BYTES
    }

    /// A text of at most so many bytes fits whatever one part makes of it, if the room is as large as it is by default.
    pub(crate) fn holds_any(text: &str) -> bool {
        const SHORT_BYTES: usize = 256;
        // All substrings of the text, each with its cost.
        const WORST_BYTES: usize = SHORT_BYTES * SHORT_BYTES / 2 * (SHORT_BYTES + TOKEN_BYTES);
        text.len() <= SHORT_BYTES && node_count(ANALYSIS_MAX_TOKEN_BYTES) >= WORST_BYTES
    }

    /// The part that did not fit, in words.
    pub(crate) fn refusal(what: &str) -> Error {
        let max = node_count(ANALYSIS_MAX_TOKEN_BYTES);
        Error::illegal(format!(
            "{what} makes more than [{max}] bytes of terms, the limit of [{}]",
            ANALYSIS_MAX_TOKEN_BYTES.name
        ))
        .with("setting", ANALYSIS_MAX_TOKEN_BYTES.name)
    }

    /// As a result.
    pub(crate) fn or_refuse(fits: bool, what: &str) -> Result<()> {
        if fits { Ok(()) } else { Err(Room::refusal(what)) }
    }
}
