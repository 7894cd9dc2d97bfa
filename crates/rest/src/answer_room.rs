//! How much one request that asks for many things is answered: each part counts, and those that find no room are refused
//! one by one.
//!
//! Not here: how a part is refused (`handlers`).

use crate::Rest;
use engine::breaker::{Booking, Breaker};
use model::settings::{HTTP_MAX_ANSWER, node_count};
use model::{Error, ErrorKind, Result};

/// Bytes of an answer that is being made, out of `http.max_answer_bytes` and of the memory of all requests.
#[derive(Debug)]
pub(crate) struct AnswerRoom {
    taken: usize,
    booking: Booking,
    refusal: Option<Error>,
}

/// The parts of an answer lie beside the whole when it is put together.
const COPIES: u64 = 2;

impl AnswerRoom {
    /// Nothing is taken yet.
    pub(crate) fn new(rest: &Rest) -> AnswerRoom {
        AnswerRoom {
            taken: 0,
            booking: rest.limits.breakers.open(Breaker::Request, "<http_response>"),
            refusal: None,
        }
    }

    /// Counts a part that was made. One that finds no memory is held, and the last: its bytes are booked nowhere.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_add(bytes);
        if self.refusal.is_none() {
            self.refusal = self.booking.grow(bytes as u64 * COPIES).err();
        }
    }

    /// Whether another part may be made: the last one may pass the limit, none comes after it.
    ///
    /// # Errors
    /// 429 with the setting's name.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
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
