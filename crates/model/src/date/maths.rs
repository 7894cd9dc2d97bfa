//! Date math: `now-1d/d`, `2020-01-01||+1M`.

use super::*;
use crate::{Error, ErrorKind, Result};

/// Reads a date with date math: `now-1d/d`, `2014-01-01||+1M/M`. With `round_up` a rounded date is the
/// last millisecond of its unit, and missing parts are filled up.
pub fn parse_math(text: &str, format: &DateFormat, tz: Option<&TimeZone>, now_ms: i64, round_up: bool) -> Result<i64> {
    let wrap = |cause: Error| Error::new(ErrorKind::Parse, format!("{}: [{}]", cause.reason(), cause.reason())).with_cause(cause);
    let (start, math) = match (text.strip_prefix("now"), text.split_once("||")) {
        (Some(math), _) => (now_ms, math),
        (None, Some((date, math))) => (format.parse_bound(date, tz, false).map_err(wrap)?, math),
        (None, None) => return format.parse_bound(text, tz, round_up).map_err(wrap),
    };
    let utc = TimeZone::UTC;
    apply_math(math, tz.unwrap_or(&utc), start, round_up)
}

/// As [`parse_math`] in nanoseconds, of which only a date itself has any.
pub fn parse_math_nanos(text: &str, format: &DateFormat, tz: Option<&TimeZone>, now_ms: i64, round_up: bool) -> Result<i64> {
    let exact = !text.starts_with("now") && !text.contains("||");
    let found = if exact {
        format.read_nanos(text, tz, Missing::of_bound(round_up)).ok()
    } else {
        None
    };
    let (ms, nanos) = match found {
        Some(found) => found,
        None => {
            let ms = parse_math(text, format, tz, now_ms, round_up)?;
            (ms, if round_up { 999_999 } else { 0 })
        }
    };
    Ok(ms.saturating_mul(1_000_000).saturating_add(nanos))
}

pub(super) fn apply_math(math: &str, tz: &TimeZone, start: i64, round_up: bool) -> Result<i64> {
    let refuse = |reason: String| Err(Error::new(ErrorKind::Parse, reason));
    let mut ms = start;
    let mut chars = math.chars().peekable();
    while let Some(operator) = chars.next() {
        let sign = match operator {
            '/' | '+' => 1,
            '-' => -1,
            _ => return refuse(format!("operator not supported for date math [{math}]")),
        };
        if chars.peek().is_none() {
            return refuse(format!("truncated date math [{math}]"));
        }
        let mut count: Option<i64> = None;
        while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
            count = Some(count.unwrap_or(0).saturating_mul(10).saturating_add(i64::from(digit)));
            chars.next();
        }
        let Some(unit) = chars.next() else {
            return refuse(format!("truncated date math [{math}]"));
        };
        if operator == '/' && count.is_some_and(|count| count != 1) {
            return refuse(format!("rounding `/` can only be used on single unit types [{math}]"));
        }
        let unit = match unit {
            'y' => CalendarUnit::Year,
            'M' => CalendarUnit::Month,
            'w' => CalendarUnit::Week,
            'd' => CalendarUnit::Day,
            'h' | 'H' => CalendarUnit::Hour,
            'm' => CalendarUnit::Minute,
            's' => CalendarUnit::Second,
            unit => {
                return refuse(format!("unit [{unit}] not supported for date math [{math}]"));
            }
        };
        let moved = if operator == '/' {
            let floor = unit.floor(ms, tz);
            if round_up {
                unit.add(floor, 1, tz).map(|next| next - 1)
            } else {
                Some(floor)
            }
        } else {
            unit.add(ms, sign * count.unwrap_or(1), tz)
        };
        ms = match moved.filter(|ms| DAYS.contains(&ms.div_euclid(DAY_MS))) {
            Some(ms) => ms,
            None => return refuse(format!("date math [{math}] leaves the range of dates")),
        };
    }
    Ok(ms)
}
