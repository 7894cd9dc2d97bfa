//! A request: its headers read, its body decompressed, its media type understood.

use crate::home_runtime::HomeRuntime;
use crate::trace_context::TraceParent;
use bytes::Bytes;
use engine::breaker::Booking;
use model::{Error, ErrorKind, Persona, Result};
use relations::leases::Caller;
use std::io::Read as _;
use std::time::Instant;

/// A request that may be answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The page's origin, if a page asks.
    pub(crate) origin: Option<String>,
}

/// One HTTP request, read whole.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// Upper case.
    pub(crate) method: hyper::Method,
    /// Still percent-encoded.
    pub(crate) path: String,
    /// Without the question mark.
    pub(crate) query: String,
    /// `Content-Type`, lower case, if any.
    pub(crate) content_type: Option<String>,
    /// `Accept`, lower case, if any.
    pub(crate) accept: Option<String>,
    /// `Content-Encoding: gzip`.
    pub(crate) gzipped: bool,
    /// A `Content-Encoding` that we do not decode.
    pub(crate) foreign_encoding: Option<String>,
    /// Whether a page asks, of which origin.
    pub(crate) admitted: Admitted,
    /// `Accept-Encoding` has gzip.
    pub(crate) accepts_gzip: bool,
    /// `X-Opaque-Id`, returned as it came.
    pub(crate) opaque_id: Option<String>,
    /// `traceparent`, returned as it came if it is of its form.
    pub(crate) trace: Option<TraceParent>,
    /// `Last-Event-ID`.
    pub(crate) last_event_id: Option<String>,
    /// As sent, then decompressed; empty once a [`Call`](crate::call::Call) has it.
    pub(crate) body: Bytes,
    /// Bytes of its body as sent.
    pub(crate) received_bytes: usize,
    /// The bytes of its body, booked with `in_flight_requests`.
    pub(crate) booking: Booking,
    /// The listener's persona.
    pub(crate) persona: Persona,
    /// The connection it came by, and who says to be there.
    pub(crate) caller: Caller,
    /// Who asks, where security is on.
    pub(crate) principal: Option<std::sync::Arc<security::Principal>>,
    /// When its body was there, or its head if it has none yet.
    pub(crate) begun: Option<Instant>,
    /// The endpoint that answers it, as `ENDPOINTS` names it.
    pub(crate) api: Option<&'static str>,
    /// Where the task of its connection runs.
    pub(crate) home: Option<std::sync::Arc<HomeRuntime>>,
}

/// Room that is made for decompressed bytes at least.
const INFLATED_AT_LEAST_BYTES: usize = 32 << 10;
/// Compressed JSON becomes about so many times as many bytes.
const INFLATED_USUAL_TIMES: usize = 16;
/// No deflated bytes become more than so many times as many (zlib's technical details).
const INFLATED_MOST_TIMES: usize = 1032;

/// Decompresses a body within the limits: `max` bytes, and what `booking` is given for decompressed bytes.
///
/// # Errors
/// Broken gzip; more than `max` bytes; 429 where there is no memory for it.
pub(crate) fn inflate(body: &Bytes, max: usize, booking: &mut Booking) -> Result<Bytes> {
    let mut out = Vec::new();
    // One byte more than is said shows that nothing follows.
    let mut room = said_length(body).min(max).saturating_add(1).max(INFLATED_AT_LEAST_BYTES);
    let mut decoder = flate2::read::MultiGzDecoder::new(&body[..]);
    loop {
        // While the room grows, the old one lies beside the new one.
        booking.grow_to((body.len() + out.capacity() + room) as u64)?;
        out.reserve_exact(room - out.len());
        booking.shrink_to((body.len() + out.capacity()) as u64);
        let free = out.capacity() - out.len();
        let more = (&mut decoder).take(free as u64).read_to_end(&mut out);
        let more = more.map_err(|e| Error::illegal(format!("request body is not valid gzip: {e}")))?;
        assert!(more <= free, "no more is decompressed than there is room for");
        debug_assert!(booking.bytes() >= out.len() as u64, "what is decompressed is booked");
        if out.len() > max {
            return Err(too_long(max));
        }
        if more < free {
            return Ok(out.into());
        }
        room = out.capacity() + (out.capacity() / 2).min(max);
    }
}

/// The length that a gzip file says at its end (RFC 1952, `ISIZE`) as far as its bytes can become so many; of a file of
/// several members that of the last.
fn said_length(body: &[u8]) -> usize {
    let said = body.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    said.min(body.len().saturating_mul(INFLATED_MOST_TIMES))
}

/// About how long a compressed body is inside: what it says, and at least what short text usually becomes.
pub(crate) fn inflated_bytes(body: &[u8]) -> usize {
    said_length(body).max(body.len().saturating_mul(INFLATED_USUAL_TIMES))
}

/// 413 with the setting's name.
pub(crate) fn too_long(max: usize) -> Error {
    Error::new(
        ErrorKind::ContentTooLong,
        format!("request body exceeds [{max}] bytes, the limit of [http.max_content_length]"),
    )
}

/// The media types that a body may have. `None` (no header) is what clients of 2015 send, and no page: with a body its
/// browser sends an origin at the least.
///
/// Plain text and forms are what any page may send anywhere unasked. Today's servers refuse them; those of 2015 took them,
/// and ours does from who is no page.
///
/// # Errors
/// 406 for a media type that is none of ours.
pub(crate) fn check_media_type(request: &Request) -> Result<()> {
    let Some(given) = request.content_type.as_deref().filter(|_| !request.body.is_empty()) else {
        return Ok(());
    };
    let media = given.split(';').next().unwrap_or_default().trim();
    let known = [
        "application/json",
        "application/x-ndjson",
        "application/x-json",
        "application/vnd.elasticsearch+json",
        "application/vnd.elasticsearch+x-ndjson",
        "application/yaml",
        "text/json",
    ];
    let of_2015 = request.persona == Persona::Es2 && request.admitted.origin.is_none();
    let simple = ["text/plain", "application/x-www-form-urlencoded"];
    if known.contains(&media) || of_2015 && simple.contains(&media) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotAcceptable,
        format!("Content-Type header [{given}] is not supported"),
    ))
}

/// Refuses a body in an encoding that is not decoded.
///
/// # Errors
/// 415 that names the encoding.
pub(crate) fn check_encoding(request: &Request) -> Result<()> {
    match request.foreign_encoding.as_deref().filter(|_| !request.body.is_empty()) {
        None => Ok(()),
        Some(given) => Err(Error::new(
            ErrorKind::UnsupportedMediaType,
            format!("Content-Encoding header [{given}] is not supported: send the body as it is, or with [gzip]"),
        )
        .status_of(415)),
    }
}

/// `compatible-with=N` of a media type.
pub(crate) fn compatible_with(media: Option<&str>) -> Option<u8> {
    let media = media?;
    if !media.contains("vnd.elasticsearch+") {
        return None;
    }
    let (_, after) = media.split_once("compatible-with=")?;
    after
        .chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::breaker::{Breaker, BreakerLimits, CircuitBreakers};
    use std::io::Write as _;
    use std::sync::Arc;

    fn gzipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).expect("memory takes it");
        encoder.finish().expect("memory takes it")
    }

    /// Decompresses with so much memory for it, up to a megabyte; the status of a refusal.
    fn check(body: Vec<u8>, memory: u64, expected: std::result::Result<&[u8], u16>) {
        let limits = BreakerLimits {
            total: u64::MAX,
            request: u64::MAX,
            in_flight_requests: memory,
        };
        let breakers = CircuitBreakers::new(limits, Arc::new(|| 0));
        let mut booking = breakers.open(Breaker::InFlightRequests, "test");
        let body = Bytes::from(body);
        let done = inflate(&body, 1 << 20, &mut booking);
        match (&done, expected) {
            (Ok(bytes), Ok(expected)) => assert!(bytes == expected, "{} bytes", bytes.len()),
            (Err(error), Err(status)) => assert_eq!(error.status(), status, "{error}"),
            (done, expected) => panic!("{done:.100?} is not {expected:.100?}"),
        }
        let held = done.map_or(0, |bytes| bytes.len() as u64);
        assert!(booking.bytes() >= held, "what is held is booked");
    }

    #[test]
    fn a_compressed_body_is_expected_to_be_as_long_as_it_says() {
        assert_eq!(inflated_bytes(&gzipped(&[b'x'; 100_000])), 100_000);
        let several = [gzipped(&[b'x'; 100_000]), gzipped(b"")].concat();
        assert_eq!(inflated_bytes(&several), several.len() * INFLATED_USUAL_TIMES);
        assert_eq!(inflated_bytes(b""), 0);
    }

    #[test]
    fn bodies_are_decompressed_within_what_is_booked() {
        let long = vec![b'x'; 900_000];
        let several = [gzipped(&long), gzipped(b"and more")].concat();
        let whole = [&long[..], b"and more"].concat();
        check(gzipped(b""), 1 << 20, Ok(b""));
        check(gzipped(b"{}"), 1 << 20, Ok(b"{}"));
        check(gzipped(&long), 2 << 20, Ok(&long));
        // A body with a length needs no room to grow.
        check(gzipped(&long), 1 << 20, Ok(&long));
        check(gzipped(&long), 800_000, Err(429));
        // The last of several members does not say the length of all.
        check(several.clone(), 4 << 20, Ok(&whole));
        check(several, 1 << 20, Err(429));
        check(gzipped(&vec![b'x'; 2 << 20]), 8 << 20, Err(413));
        check(b"no gzip at all".to_vec(), 1 << 20, Err(400));
    }
}
