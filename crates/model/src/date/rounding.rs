//! Buckets of time: calendar and fixed intervals in a time zone.

use super::*;

/// Units of the calendar. A week starts on Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CalendarUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl CalendarUnit {
    /// The unit of a `calendar_interval`: `1d`, `day`, `month`, `1q` ….
    pub fn from_name(name: &str) -> Option<CalendarUnit> {
        Some(match name {
            "second" | "1s" => CalendarUnit::Second,
            "minute" | "1m" => CalendarUnit::Minute,
            "hour" | "1h" => CalendarUnit::Hour,
            "day" | "1d" => CalendarUnit::Day,
            "week" | "1w" => CalendarUnit::Week,
            "month" | "1M" => CalendarUnit::Month,
            "quarter" | "1q" => CalendarUnit::Quarter,
            "year" | "1y" => CalendarUnit::Year,
            _ => return None,
        })
    }

    /// The length of the units that always have the same.
    pub(super) fn fixed_ms(self) -> Option<i64> {
        match self {
            CalendarUnit::Second => Some(1000),
            CalendarUnit::Minute => Some(60_000),
            CalendarUnit::Hour => Some(3_600_000),
            _ => None,
        }
    }

    /// The start of the unit that a moment is in, in `tz`.
    pub fn floor(self, ms: i64, tz: &TimeZone) -> i64 {
        let offset = offset_ms(tz, ms);
        let local = ms + offset;
        if let Some(unit) = self.fixed_ms() {
            return local.div_euclid(unit) * unit - offset;
        }
        let days = local.div_euclid(DAY_MS);
        let first = match self {
            CalendarUnit::Week => days - (days + 3).rem_euclid(7),
            CalendarUnit::Month | CalendarUnit::Quarter | CalendarUnit::Year => {
                let (year, month, _) = civil_from_days(days);
                let month = match self {
                    CalendarUnit::Month => month,
                    CalendarUnit::Quarter => (month - 1) / 3 * 3 + 1,
                    _ => 1,
                };
                days_from_civil(year, month, 1)
            }
            _ => days,
        };
        to_utc(first * DAY_MS, tz)
    }

    /// A moment moved by so many units, at the same local time. None if it leaves all ranges.
    pub fn add(self, ms: i64, count: i64, tz: &TimeZone) -> Option<i64> {
        if let Some(unit) = self.fixed_ms() {
            return ms.checked_add(count.checked_mul(unit)?);
        }
        let local = ms.checked_add(offset_ms(tz, ms))?;
        let (days, of_day) = (local.div_euclid(DAY_MS), local.rem_euclid(DAY_MS));
        let months = match self {
            CalendarUnit::Month => 1,
            CalendarUnit::Quarter => 3,
            CalendarUnit::Year => 12,
            unit => {
                let length = if unit == CalendarUnit::Week { 7 } else { 1 };
                let days = days
                    .checked_add(count.checked_mul(length)?)
                    .filter(|days| DAYS.contains(days))?;
                return Some(to_utc(days * DAY_MS + of_day, tz));
            }
        };
        let (year, month, day) = civil_from_days(days);
        let total = (year * 12 + month - 1).checked_add(count.checked_mul(months)?)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        let days = days_of(year, month, day.min(days_in_month(year, month)))?;
        Some(to_utc(days * DAY_MS + of_day, tz))
    }
}

/// The width of a histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// By the calendar: months differ in length, days too where clocks are changed.
    Calendar(CalendarUnit),
    /// So many milliseconds, above 0.
    Fixed(i64),
}

/// How a date histogram rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounding {
    /// Width of a bucket.
    pub interval: Interval,
    /// Zone in which buckets begin.
    pub tz: TimeZone,
    /// Milliseconds by which all buckets are moved.
    pub offset: i64,
}

impl Rounding {
    /// The start of the bucket of a moment.
    pub fn round(&self, ms: i64) -> i64 {
        let start = self.floor(ms.saturating_sub(self.offset)).saturating_add(self.offset);
        debug_assert!(
            start <= ms || ms.checked_sub(self.offset).is_none(),
            "search.md S25: the bucket of [{ms}] begins at it or before, and not at [{start}]"
        );
        start
    }

    /// The start of the bucket after the one that starts at `ms`.
    pub fn next(&self, ms: i64) -> i64 {
        let start = ms.saturating_sub(self.offset);
        let next = match self.interval {
            Interval::Calendar(unit) => unit.add(start, 1, &self.tz).unwrap_or(i64::MAX),
            Interval::Fixed(length) => {
                let next = start.saturating_add(length.max(1));
                // Where clocks are changed a bucket may be longer or shorter.
                let rounded = self.floor(next);
                if rounded > start { rounded } else { next }
            }
        };
        let next = next.saturating_add(self.offset);
        debug_assert!(
            next > ms || next == i64::MAX,
            "search.md S25: the bucket after [{ms}] begins behind it, and not at [{next}]"
        );
        next
    }

    pub(super) fn floor(&self, ms: i64) -> i64 {
        match self.interval {
            Interval::Calendar(unit) => unit.floor(ms, &self.tz),
            Interval::Fixed(length) => {
                let length = length.max(1);
                let offset = offset_ms(&self.tz, ms);
                let local = ms.saturating_add(offset).div_euclid(length) * length;
                let start = local - offset;
                if offset == 0 || offset_ms(&self.tz, start) == offset {
                    return start;
                }
                to_utc(local, &self.tz).min(ms)
            }
        }
    }
}
