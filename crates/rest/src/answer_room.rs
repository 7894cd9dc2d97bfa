//! How much one request that asks for many things is answered: each part counts, and those that find no room are refused
//! one by one.
//!
//! Not here: how a part is refused (`handlers`).

use model::settings::{HTTP_MAX_ANSWER, node_count};
use model::{Error, ErrorKind, Result};

/// Bytes of an answer that is being made, out of `http.max_answer_bytes`.
#[derive(Debug, Default)]
pub(crate) struct AnswerRoom {
    taken: usize,
}

impl AnswerRoom {
    /// Nothing is taken yet.
    pub(crate) fn new() -> AnswerRoom {
        AnswerRoom::default()
    }

    /// Counts a part that was made.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_add(bytes);
    }

    /// Whether another part may be made: the last one may pass the limit, none comes after it.
    ///
    /// # Errors
    /// 429 with the setting's name.
    pub(crate) fn check(&self) -> Result<()> {
        match self.taken <= node_count(HTTP_MAX_ANSWER) {
            true => Ok(()),
            false => Err(AnswerRoom::none()),
        }
    }

    /// Bytes that may still be taken.
    pub(crate) fn left(&self) -> usize {
        node_count(HTTP_MAX_ANSWER).saturating_sub(self.taken)
    }

    /// The refusal of a part that finds no room.
    pub(crate) fn none() -> Error {
        let max = node_count(HTTP_MAX_ANSWER);
        let reason = format!(
            "the answer is larger than [{max}] bytes, the limit of [{}]",
            HTTP_MAX_ANSWER.name
        );
        Error::new(ErrorKind::CircuitBreaking, reason)
    }
}
