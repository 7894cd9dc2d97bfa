//! What comes in: one request with its headers read, its body decompressed, its media type understood.

use crate::access::Admitted;
use bytes::Bytes;
use engine::breaker::Booking;
use model::{Error, ErrorKind, Persona, Result};
use relations::leases::Caller;
use std::io::Read as _;

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
    /// As sent.
    pub(crate) body: Bytes,
    /// The bytes of its body, booked with `in_flight_requests`.
    pub(crate) booking: Booking,
    /// Of the listener.
    pub(crate) persona: Persona,
    /// The connection it came by, and who says to be there.
    pub(crate) caller: Caller,
}

/// Bytes that are decompressed at once.
const INFLATED_AT_ONCE_BYTES: u64 = 256 << 10;

/// Decompresses a body within the limits: `max` bytes, and what `booking` is given for decompressed bytes.
///
/// # Errors
/// Broken gzip; more than `max` bytes; 429 where there is no memory for it.
pub(crate) fn inflate(body: &Bytes, max: usize, booking: &mut Booking) -> Result<Bytes> {
    let mut out = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(&body[..]);
    loop {
        booking.grow_to((body.len() + out.len()) as u64 + INFLATED_AT_ONCE_BYTES)?;
        let more = (&mut decoder)
            .take(INFLATED_AT_ONCE_BYTES)
            .read_to_end(&mut out)
            .map_err(|e| Error::illegal(format!("request body is not valid gzip: {e}")))?;
        if more == 0 {
            booking.shrink_to((body.len() + out.len()) as u64);
            return Ok(out.into());
        }
        if out.len() > max {
            return Err(too_long(max));
        }
    }
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
