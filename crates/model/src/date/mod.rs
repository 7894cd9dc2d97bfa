//! Dates as text: formats both ways, date math, and the rounding of histograms. Milliseconds since 1970, UTC.
//!
//! Pure: `now` comes from the caller. Years beyond 9999 are refused (jiff's range), but
//! by Joda-Time's formats, which know no zones there.
//! Not here: which field has which format (`mapping`).

use crate::{Error, ErrorKind, Result, Topic};
use std::fmt;

mod calendar;
mod joda;
mod joda_names;
mod maths;
mod pattern;
mod read;
mod render;
mod rounding;
#[cfg(test)]
mod tests;

use calendar::*;
pub use calendar::{civil_from_days, days_from_civil, days_in_month};
use joda_names::{Named, find_name};
pub use maths::{parse_math, parse_math_nanos};
use pattern::*;
use read::*;
use render::*;
pub use rounding::{CalendarUnit, Interval, Rounding};

pub use jiff::tz::TimeZone;

/// The format of a date field that names none.
pub const FORMAT_DEFAULT: &str = "strict_date_optional_time||epoch_millis";

const DAY_MS: i64 = 86_400_000;
/// The years that can be read and written, as days since 1970.
const DAYS: std::ops::RangeInclusive<i64> = -4_371_587..=2_932_896;
/// How deep optional sections may be nested in a pattern.
const OPTIONAL_DEPTH_MAX: usize = 12;

/// Reads a zone: `Z`, `UTC`, `+01:00`, `-0330`, `Europe/Berlin`.
pub fn parse_zone(text: &str) -> Result<TimeZone> {
    let mut zone = Cursor { text, at: 0 };
    match zone.zone() {
        Some(Zone::Offset(seconds)) if zone.at == text.len() => {
            if let Ok(offset) = jiff::tz::Offset::from_seconds(seconds) {
                return Ok(TimeZone::fixed(offset));
            }
        }
        Some(Zone::Named(tz)) if zone.at == text.len() => return Ok(tz),
        _ => {}
    }
    Err(Error::illegal(format!("Unknown time-zone ID: {text}")))
}

/// Whose letters a pattern is made of; the names of formats are the same in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PatternSyntax {
    /// `java.time`, from Elasticsearch 7: `YYYY` is the year of the week.
    #[default]
    JavaTime,
    /// Joda-Time, until Elasticsearch 6: `YYYY` is the year of the era, `xxxx` that of the week.
    Joda,
}

impl PatternSyntax {
    /// The syntax by the rule `joda_patterns` of an index.
    pub fn of(joda: bool) -> PatternSyntax {
        if joda { PatternSyntax::Joda } else { PatternSyntax::JavaTime }
    }
}

/// The values of the parts of a moment that a text leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The first that they can be: a date of a document.
    First,
    /// As [`Missing::First`], for an end of a range or the beginning of date math: Joda-Time sets what the text says into
    /// 1970-01-01, so that a year of weeks alone is the Thursday of its first week.
    OfBound,
    /// As [`Missing::OfBound`], but the last of the time of day: an upper bound, or what lies above a lower one.
    OfUpperBound,
}

impl Missing {
    /// An end of a range.
    pub(crate) fn of_bound(round_up: bool) -> Missing {
        if round_up { Missing::OfUpperBound } else { Missing::OfBound }
    }
    /// Is the time of day that the text does not say the last one?
    pub(crate) fn is_last(self) -> bool {
        self == Missing::OfUpperBound
    }
}

/// One or several (`||`) date formats: the first that fits reads, the first writes.
#[derive(Clone)]
pub struct DateFormat {
    text: String,
    syntax: PatternSyntax,
    forms: Vec<Form>,
}

/// A refusal of a text that no format reads, with the refusal of the formats as its cause.
pub fn of_all_parsers(error: Error) -> Error {
    if error.cause().is_some() || !error.is_about(Topic::DateText) {
        return error;
    }
    let cause = Error::new(ErrorKind::DateTimeParse, "Failed to parse with all enclosed parsers");
    error.with_cause(cause)
}

impl DateFormat {
    /// Reads a format: names and patterns of `java.time`, separated by `||`.
    ///
    /// # Errors
    /// As [`DateFormat::parse_pattern_of`].
    pub fn parse_pattern(text: &str) -> Result<DateFormat> {
        DateFormat::parse_pattern_of(text, PatternSyntax::JavaTime)
    }

    /// Reads a format: names, and patterns of these letters, separated by `||`.
    ///
    /// # Errors
    /// An unknown letter, by its name; quotes or brackets that do not match.
    pub fn parse_pattern_of(text: &str, syntax: PatternSyntax) -> Result<DateFormat> {
        let forms = text
            .split("||")
            .map(|part| form(part.trim(), text, syntax))
            .collect::<Result<Vec<_>>>()?;
        Ok(DateFormat {
            text: text.to_owned(),
            syntax,
            forms,
        })
    }

    /// The format of a field that names none.
    pub fn usual(syntax: PatternSyntax) -> DateFormat {
        DateFormat::parse_pattern_of(FORMAT_DEFAULT, syntax).unwrap_or_default()
    }

    /// The format as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads a date. Missing parts are the first moment; `tz` is for texts that name no zone.
    pub fn parse(&self, text: &str, tz: Option<&TimeZone>) -> Result<i64> {
        self.read(text, tz, Missing::First)
    }

    /// As [`DateFormat::parse`], for an end of a range. With `round_up` a missing time is the day's last millisecond; a
    /// missing month or day is still the first one, as in Elasticsearch.
    pub fn parse_bound(&self, text: &str, tz: Option<&TimeZone>, round_up: bool) -> Result<i64> {
        self.read(text, tz, Missing::of_bound(round_up))
    }

    /// As [`DateFormat::parse`], with the nanoseconds of the millisecond.
    pub fn parse_nanos(&self, text: &str, tz: Option<&TimeZone>) -> Result<(i64, i64)> {
        self.read_nanos(text, tz, Missing::First)
    }

    /// A number since 1970 as if its clock stood in `tz`: what Java makes of such a date beside a zone. `None` where the
    /// text is read as anything else.
    pub fn epoch_in(&self, text: &str, tz: &TimeZone, round_up: bool) -> Option<i64> {
        let missing = Missing::of_bound(round_up);
        let form = self.forms.iter().find(|form| form.read(text, Some(tz), missing).is_some())?;
        let is_epoch = match form {
            Form::EpochMillis | Form::EpochSecond => true,
            Form::JodaNamed(named) => named.epoch_unit_ms().is_some(),
            _ => false,
        };
        if !is_epoch {
            return None;
        }
        let (ms, _) = form.read(text, None, missing)?;
        let clock = TimeZone::UTC.to_datetime(jiff::Timestamp::from_millisecond(ms).ok()?);
        let there = tz.to_ambiguous_zoned(clock).compatible().ok()?;
        Some(there.timestamp().as_millisecond())
    }

    fn read(&self, text: &str, tz: Option<&TimeZone>, missing: Missing) -> Result<i64> {
        self.read_nanos(text, tz, missing).map(|(ms, _)| ms)
    }

    fn read_nanos(&self, text: &str, tz: Option<&TimeZone>, missing: Missing) -> Result<(i64, i64)> {
        self.forms
            .iter()
            .find_map(|form| form.read(text, tz, missing))
            .ok_or_else(|| self.no_date(text))
    }

    /// The refusal of a text that is no date of this format.
    pub fn no_date(&self, text: &str) -> Error {
        Error::illegal(format!("failed to parse date field [{text}] with format [{}]", self.text)).about(Topic::DateText)
    }

    /// Writes a date in the first format. A moment out of range is written as its milliseconds.
    pub fn render(&self, ms: i64, tz: Option<&TimeZone>) -> String {
        self.write(ms, 0, tz)
    }

    /// As [`DateFormat::render`] with nanoseconds since 1970, as many of them as the format has digits for.
    pub fn render_nanos(&self, nanos: i64, tz: Option<&TimeZone>) -> String {
        self.write(nanos.div_euclid(1_000_000), nanos.rem_euclid(1_000_000), tz)
    }

    fn write(&self, ms: i64, nanos: i64, tz: Option<&TimeZone>) -> String {
        let exact = |whole: i64, rest: i64, width: usize| match rest {
            0 => whole.to_string(),
            rest => format!("{whole}.{rest:0width$}").trim_end_matches('0').to_owned(),
        };
        match &self.forms[0] {
            Form::EpochMillis => exact(ms, nanos, 6),
            Form::EpochSecond if nanos > 0 && ms >= 0 => exact(ms / 1000, ms % 1000 * 1_000_000 + nanos, 9),
            Form::EpochSecond => match ms % 1000 {
                0 => (ms / 1000).to_string(),
                _ => format!("{}", ms as f64 / 1000.0),
            },
            Form::Pattern(items) => {
                let utc = TimeZone::UTC;
                let tz = tz.unwrap_or(&utc);
                match Moment::of(ms, tz) {
                    Some(mut moment) => {
                        let mut out = String::with_capacity(self.text.len().max(24));
                        moment.nanos = nanos;
                        moment.all_nanos = self.text.contains("_nanos");
                        moment.write(items, &mut out);
                        out
                    }
                    None => ms.to_string(),
                }
            }
            Form::JodaNamed(named) if named.epoch_unit_ms().is_some() => (ms / named.epoch_unit_ms().unwrap_or(1)).to_string(),
            Form::JodaNamed(Named { writes: items, .. }) | Form::Joda(items) => {
                let mut out = String::with_capacity(self.text.len().max(24));
                joda::write(items, ms, tz.unwrap_or(&TimeZone::UTC), &mut out);
                out
            }
        }
    }
}

impl Default for DateFormat {
    fn default() -> Self {
        let named = NAMED[0].1;
        let items = pattern(named, false).unwrap_or_default();
        DateFormat {
            text: FORMAT_DEFAULT.into(),
            syntax: PatternSyntax::JavaTime,
            forms: vec![Form::Pattern(items), Form::EpochMillis],
        }
    }
}
impl fmt::Debug for DateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DateFormat({})", self.text)
    }
}
impl PartialEq for DateFormat {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.syntax == other.syntax
    }
}
