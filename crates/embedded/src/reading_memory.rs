//! The memory that reading documents takes beside their sources: the tree of the JSON, the values of the fields, what the
//! segment writer gathers of them. It depends on how many values there are, and not on the length.
//!
//! Not here: bodies of requests (`rest` books them), what waits for a segment (`pending`).

use engine::breaker::{Booking, Breaker, CircuitBreakers};
use model::Result;
use std::sync::Arc;
use std::time::Duration;

/// Shorter sources are not counted: a thread reads one at a time.
const COUNTED_FROM_BYTES: usize = 32 << 10;
/// Bytes of a value as the mapping reads it, in a list that grows by doubling, beyond what is counted for its place in a
/// tree: that tree is another than the one which requests are parsed to, and its places are smaller.
const FIELD_BYTES: usize = 16;
/// The same for the value of a name.
const NAMED_FIELD_BYTES: usize = 96;
/// Bytes of a value while a segment is written: its place among those of its document, in its column and in its list.
const WRITTEN_BYTES: usize = 96;
/// A build that finds no room goes on after so long: what is logged cannot be refused.
const BUILD_WAITS: Duration = Duration::from_secs(1);

/// About how much reading a source through its mapping takes at most.
fn bytes_to_read(source: &[u8]) -> usize {
    if source.len() < COUNTED_FROM_BYTES {
        return 0;
    }
    let (listed, named) = values(source);
    let fields = listed.saturating_mul(FIELD_BYTES) + named.saturating_mul(NAMED_FIELD_BYTES);
    dsl::json::tree_bytes(source).saturating_add(fields)
}

/// How many values there are at most, but for the first of lists: those that follow another, and those that have names.
fn values(source: &[u8]) -> (usize, usize) {
    memchr::memchr2_iter(b',', b':', source).fold((0, 0), |(listed, named), at| match source[at] {
        b',' => (listed + 1, named),
        _ => (listed, named + 1),
    })
}

/// Books what reading a source through its mapping takes.
///
/// # Errors
/// 429 `circuit_breaking_exception`.
pub(crate) fn book(breakers: &Arc<CircuitBreakers>, source: &[u8]) -> Result<Booking> {
    match bytes_to_read(source) {
        0 => Ok(Booking::none()),
        bytes => breakers.book(Breaker::Request, "reading a document", bytes as u64),
    }
}

/// Books what building segments of these sources takes beside the segments. Waits for room, but not for long.
pub(crate) fn book_build<'a>(breakers: &Arc<CircuitBreakers>, sources: impl Iterator<Item = &'a [u8]>) -> Booking {
    let (mut largest, mut written) = (0, 0_usize);
    for source in sources.filter(|source| source.len() >= COUNTED_FROM_BYTES) {
        largest = largest.max(bytes_to_read(source));
        let (listed, named) = values(source);
        written = written.saturating_add((listed + named).saturating_mul(WRITTEN_BYTES));
    }
    let mut booking = breakers.open(Breaker::Request, "building segments");
    // The documents of a build are read one after the other.
    booking.wait_to(largest.saturating_add(written) as u64, BUILD_WAITS);
    booking
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::breaker::BreakerLimits;

    #[test]
    fn many_values_are_booked_and_few_are_not() {
        let limits = BreakerLimits {
            total: 48 << 20,
            request: 48 << 20,
            in_flight_requests: 48 << 20,
        };
        let breakers = CircuitBreakers::new(limits, Arc::new(|| 0));
        let numbers = |count: usize| format!("{{\"n\":[{}1]}}", "1,".repeat(count)).into_bytes();
        let text = format!("{{\"text\":\"{}\"}}", "word ".repeat(200_000)).into_bytes();
        let short = book(&breakers, &numbers(1000)).unwrap();
        assert_eq!(short.bytes(), 0, "short documents are not counted");
        let words = book(&breakers, &text).unwrap();
        assert!(
            words.bytes() < 2 * text.len() as u64,
            "a text is one value: {}",
            words.bytes()
        );
        let dense = book(&breakers, &numbers(200_000)).unwrap();
        assert!(dense.bytes() > 150 * 200_000, "each value is counted: {}", dense.bytes());
        let refused = book(&breakers, &numbers(200_000)).unwrap_err();
        assert!(refused.reason().contains("reading a document"), "{refused}");
        drop((words, dense));
        assert_eq!(breakers.usage(Breaker::Request).used, 0);
        // A build is booked as well, and is not refused.
        let sources = [numbers(200_000), numbers(300_000)];
        let building = book_build(&breakers, sources.iter().map(Vec::as_slice));
        assert!(building.bytes() > 300 * 300_000, "{}", building.bytes());
    }
}
