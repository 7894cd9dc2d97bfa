//! Durations and sizes as Elasticsearch writes them: `10s`, `500ms`, `5gb`.
//!
//! Not here: dates and date math (`date`), and percentages of a disk or a heap.

use crate::{Error, ErrorKind, Result, Topic};
use std::time::Duration;

/// Units of length and their metres, longer words before those that they end with.
pub const METRES: &[(&str, f64)] = &[
    ("nauticalmiles", 1852.0),
    ("NM", 1852.0),
    ("nmi", 1852.0),
    ("kilometers", 1000.0),
    ("km", 1000.0),
    ("miles", 1609.344),
    ("mi", 1609.344),
    ("yards", 0.9144),
    ("yd", 0.9144),
    ("feet", 0.3048),
    ("ft", 0.3048),
    ("inch", 0.0254),
    ("in", 0.0254),
    ("centimeters", 0.01),
    ("cm", 0.01),
    ("millimeters", 0.001),
    ("mm", 0.001),
    ("meters", 1.0),
    ("m", 1.0),
];

/// The metres of a unit of length.
pub fn metres_of(unit: &str) -> Option<f64> {
    METRES.iter().find(|(word, _)| *word == unit).map(|(_, metres)| *metres)
}

/// Units of time, longest suffix first where one ends in another, with their nanoseconds.
const TIME_UNITS: &[(&str, u128)] = &[
    ("nanos", 1),
    ("micros", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Units of size with their bytes; the short forms `k`, `m`, … are accepted as Elasticsearch does.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("tb", 1 << 40),
    ("pb", 1 << 50),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("p", 1 << 50),
    ("b", 1),
];

/// Reads a duration such as `10s`. `name` is the setting or parameter that the error names.
pub fn parse_duration(text: &str, name: &str) -> Result<Duration> {
    read_finite_duration(text).map_err(|problem| problem.error(text, name))
}

/// As [`parse_duration`], with the refusal of Elasticsearch 2: another kind, and a capital letter.
pub fn parse_duration_of_2015(text: &str, name: &str) -> Result<Duration> {
    read_finite_duration(text).map_err(|problem| Error::new(ErrorKind::Parse, format!("Failed {}", problem.rest(text, name))))
}

/// As [`parse_duration`], with `-1` as "never": `None`.
pub fn parse_duration_or_never(text: &str, name: &str) -> Result<Option<Duration>> {
    read_duration(text).map_err(|problem| problem.error(text, name))
}

/// Why a text is no duration.
enum NoDuration {
    /// It is no time value.
    TimeValue(&'static str),
    /// It has a unit, and a fraction before it.
    Fraction,
    /// It has a unit, and no number before it.
    Number,
}

const NEGATIVE: NoDuration = NoDuration::TimeValue("negative durations are not supported");

impl NoDuration {
    /// The reason, behind its first word.
    fn rest(&self, text: &str, name: &str) -> String {
        match self {
            NoDuration::TimeValue(problem) => {
                format!("to parse setting [{name}] with value [{text}] as a time value: {problem}")
            }
            NoDuration::Fraction => format!("to parse [{text}], fractional time values are not supported"),
            NoDuration::Number => format!("to parse [{text}]"),
        }
    }
    fn error(&self, text: &str, name: &str) -> Error {
        let error = Error::illegal(format!("failed {}", self.rest(text, name)));
        match self {
            NoDuration::TimeValue(problem) => error.about(Topic::Duration {
                name: name.to_owned(),
                value: text.to_owned(),
                problem,
            }),
            NoDuration::Fraction | NoDuration::Number => error,
        }
    }
}

fn read_finite_duration(text: &str) -> Result<Duration, NoDuration> {
    read_duration(text)?.ok_or(NEGATIVE)
}

fn read_duration(text: &str) -> Result<Option<Duration>, NoDuration> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "-1" => return Ok(None),
        "0" => return Ok(Some(Duration::ZERO)),
        _ => {}
    }
    let Some((number, nanos)) = TIME_UNITS
        .iter()
        .find_map(|(suffix, nanos)| lower.strip_suffix(suffix).map(|number| (number.trim(), *nanos)))
    else {
        return Err(NoDuration::TimeValue("unit is missing or unrecognized"));
    };
    let value = match number.parse::<i64>() {
        Ok(value) => value,
        Err(_) if number.parse::<f64>().is_ok_and(f64::is_finite) => {
            return Err(NoDuration::Fraction);
        }
        Err(_) => return Err(NoDuration::Number),
    };
    if value == -1 {
        return Ok(None);
    }
    let Ok(value) = u64::try_from(value) else {
        return Err(NEGATIVE);
    };
    let total = u128::from(value) * nanos;
    let (seconds, rest) = (total / 1_000_000_000, total % 1_000_000_000);
    match (u64::try_from(seconds), u32::try_from(rest)) {
        (Ok(seconds), Ok(rest)) if seconds <= i64::MAX as u64 / 1_000 => Ok(Some(Duration::new(seconds, rest))),
        _ => Err(NoDuration::TimeValue("too long")),
    }
}

/// Writes a duration with its largest unit and at most one decimal: `1.5s`, `2m`.
pub fn render_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let (suffix, unit) = TIME_UNITS
        .iter()
        .rev()
        .find(|(_, unit)| nanos >= *unit)
        .copied()
        .unwrap_or(("s", 1_000_000_000));
    one_decimal(nanos, unit, suffix)
}

/// Reads a size such as `10mb`. `name` is the setting or parameter that the error names.
pub fn parse_bytes(text: &str, name: &str) -> Result<u64> {
    let lower = text.trim().to_ascii_lowercase();
    if lower == "0" {
        return Ok(0);
    }
    let refuse = |why: &str| {
        let sentence = format!("failed to parse setting [{name}] with value [{text}] as a size in bytes");
        Err(Error::new(ErrorKind::Parse, format!("{sentence}{why}")))
    };
    let Some((number, unit)) = SIZE_UNITS
        .iter()
        .find_map(|(suffix, unit)| lower.strip_suffix(suffix).map(|number| (number.trim(), *unit)))
    else {
        return refuse(": unit is missing or unrecognized");
    };
    if let Ok(value) = number.parse::<u64>() {
        return value.checked_mul(unit).map_or_else(|| refuse(": too large"), Ok);
    }
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 && value * (unit as f64) < 9e18 => Ok((value * unit as f64) as u64),
        _ => refuse(""),
    }
}

/// Writes a size with its largest unit and at most one decimal: `1.2kb`.
pub fn render_bytes(bytes: u64) -> String {
    let (suffix, unit) = SIZE_UNITS[..5]
        .iter()
        .rev()
        .find(|(_, unit)| bytes >= *unit)
        .copied()
        .unwrap_or(("b", 1));
    one_decimal(u128::from(bytes), u128::from(unit), suffix)
}

/// Cuts after the first decimal, as Elasticsearch does; a decimal of 0 is not written.
fn one_decimal(value: u128, unit: u128, suffix: &str) -> String {
    match value % unit * 10 / unit {
        0 => format!("{}{suffix}", value / unit),
        tenth => format!("{}.{tenth}{suffix}", value / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_duration(text: &str, expected: Result<Option<u128>, &str>) {
        let got = parse_duration_or_never(text, "x").map(|d| d.map(|d| d.as_nanos()));
        assert_eq!(
            got.as_ref().map_err(|e| e.reason()),
            expected.as_ref().map_err(|e| *e),
            "{text}"
        );
    }

    #[test]
    fn durations() {
        check_duration("10s", Ok(Some(10_000_000_000)));
        check_duration("500ms", Ok(Some(500_000_000)));
        check_duration("1m", Ok(Some(60_000_000_000)));
        check_duration("1d", Ok(Some(86_400_000_000_000)));
        check_duration("1micros", Ok(Some(1_000)));
        check_duration("1nanos", Ok(Some(1)));
        check_duration("0", Ok(Some(0)));
        check_duration("-1", Ok(None));
        check_duration(
            "10",
            Err("failed to parse setting [x] with value [10] as a time value: unit is missing or unrecognized"),
        );
        check_duration(
            "1.5s",
            Err("failed to parse [1.5s], fractional time values are not supported"),
        );
        check_duration(
            "99999999999999999d",
            Err("failed to parse setting [x] with value [99999999999999999d] as a time value: too long"),
        );
        assert!(parse_duration("-1", "x").is_err());
    }

    fn check_2015(text: &str, expected: &str) {
        let refused = parse_duration_of_2015(text, "x").expect_err(text);
        assert_eq!((refused.kind(), refused.reason()), (ErrorKind::Parse, expected));
    }

    #[test]
    fn durations_of_2015() {
        check_2015("1.5s", "Failed to parse [1.5s], fractional time values are not supported");
        check_2015("as", "Failed to parse [as]");
        check_2015(
            "-1",
            "Failed to parse setting [x] with value [-1] as a time value: negative durations are not supported",
        );
        assert_eq!(parse_duration_of_2015("2s", "x"), Ok(Duration::from_secs(2)));
    }

    fn check_bytes(text: &str, expected: Option<u64>) {
        assert_eq!(parse_bytes(text, "x").ok(), expected, "{text}");
    }

    #[test]
    fn sizes() {
        check_bytes("10mb", Some(10 << 20));
        check_bytes("5gb", Some(5 << 30));
        check_bytes("1b", Some(1));
        check_bytes("1.5kb", Some(1536));
        check_bytes("10%", None);
        check_bytes("10", None);
        check_bytes("-1b", None);
        check_bytes("99999999pb", None);
        assert_eq!(render_bytes(1234), "1.2kb");
        assert_eq!(render_bytes(1024), "1kb");
        assert_eq!(render_bytes(12), "12b");
        assert_eq!(render_duration(Duration::from_millis(1500)), "1.5s");
        assert_eq!(render_duration(Duration::from_secs(60)), "1m");
        assert_eq!(render_duration(Duration::ZERO), "0s");
    }
}
