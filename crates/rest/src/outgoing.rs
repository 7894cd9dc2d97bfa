//! The body of an answer on its way to the client: whole, or piece by piece as the client takes it.
//!
//! Not here: what it says (`respond`), headers (`serve`).

use crate::event_stream::EventStream;
use crate::packed_text::PackedText;
use bytes::Bytes;
use engine::breaker::Booking;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// `None`: nothing, or nothing any more.
    Whole(Option<Bytes>),
    /// The rest of a text, counted until it is sent.
    Pieces { text: PackedText, left: u64, _booking: Booking },
    /// Pieces as they come.
    Events(EventStream),
}

impl Outgoing {
    /// All at once.
    pub(crate) fn whole(bytes: Bytes) -> Outgoing {
        Outgoing::Whole((!bytes.is_empty()).then_some(bytes))
    }

    /// Piece by piece.
    pub(crate) fn pieces(text: PackedText, booking: Booking) -> Outgoing {
        Outgoing::Pieces {
            left: text.bytes() as u64,
            text,
            _booking: booking,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Outgoing::Whole(bytes) => bytes.take(),
            Outgoing::Events(events) => return events.poll_next(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes)))),
            Outgoing::Pieces { text, left, .. } => {
                let piece = text.next_piece();
                let bytes = piece.as_ref().map_or(0, |piece| piece.len() as u64);
                assert!(
                    bytes <= *left && (piece.is_some() || *left == 0),
                    "an answer is as long as its header says: [{bytes}] bytes are sent, [{left}] are left"
                );
                *left -= bytes;
                piece
            }
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Outgoing::Pieces { left, .. } => SizeHint::with_exact(*left),
            Outgoing::Events(_) => SizeHint::default(),
        }
    }
}
