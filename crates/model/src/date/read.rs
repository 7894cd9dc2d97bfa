//! A text by a pattern, to milliseconds.

use super::*;
use jiff::civil;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

pub(super) enum Zone {
    Offset(i32),
    Named(TimeZone),
}

/// The parts of a moment that were read so far.
#[derive(Clone, Default)]
pub(super) struct Said {
    pub(super) year: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) day: Option<i64>,
    pub(super) day_of_year: Option<i64>,
    pub(super) week_year: Option<i64>,
    pub(super) week: Option<i64>,
    pub(super) weekday: Option<i64>,
    pub(super) hour: Option<i64>,
    pub(super) hour12: Option<i64>,
    pub(super) pm: Option<bool>,
    pub(super) minute: Option<i64>,
    pub(super) second: Option<i64>,
    pub(super) nanos: Option<i64>,
    pub(super) milli_of_day: Option<i64>,
    pub(super) offset: Option<i32>,
    pub(super) zone: Option<TimeZone>,
}

#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl Cursor<'_> {
    pub(super) fn rest(&self) -> &str {
        &self.text[self.at..]
    }
    pub(super) fn take(&mut self, literal: &str) -> Option<()> {
        self.rest().starts_with(literal).then(|| self.at += literal.len())
    }
    pub(super) fn take_word(&mut self, word: &str) -> Option<()> {
        let head = self.rest().get(..word.len())?;
        head.eq_ignore_ascii_case(word).then(|| self.at += word.len())
    }
    pub(super) fn digits(&mut self, min: usize, max: usize) -> Option<(i64, usize)> {
        let count = self.rest().bytes().take(max).take_while(u8::is_ascii_digit).count();
        if count < min {
            return None;
        }
        let value = self.rest()[..count].parse().ok()?;
        self.at += count;
        Some((value, count))
    }
    pub(super) fn zone(&mut self) -> Option<Zone> {
        let sign = match self.rest().bytes().next()? {
            b'Z' | b'z' if !self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_alphabetic) => {
                self.at += 1;
                return Some(Zone::Offset(0));
            }
            b'+' => 1,
            b'-' => -1,
            _ => {
                let word = self
                    .rest()
                    .bytes()
                    .take_while(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(b))
                    .count();
                let name = &self.rest()[..word];
                let tz = match name {
                    "UTC" | "GMT" | "UT" => TimeZone::UTC,
                    _ => TimeZone::get(name).ok()?,
                };
                self.at += word;
                return Some(Zone::Named(tz));
            }
        };
        self.at += 1;
        let (hours, count) = self.digits(1, 2)?;
        let mut seconds = hours * 3600;
        if count == 2 {
            let mut unit = 60;
            for _ in 0..2 {
                let before = *self;
                let _ = self.take(":");
                match self.digits(2, 2) {
                    Some((value, _)) if value < 60 => seconds += value * unit,
                    _ => {
                        *self = before;
                        break;
                    }
                }
                unit /= 60;
            }
        }
        (hours <= 18).then_some(Zone::Offset(sign * seconds as i32))
    }

    /// Reads items as far as they fit; an optional section that does not fit is passed over.
    pub(super) fn items(&mut self, items: &[Item], said: &mut Said) -> Option<()> {
        for item in items {
            match item {
                Item::Literal(literal) => self.take(literal)?,
                Item::Number { part, min, max, .. } => self.number(*part, *min, *max, said)?,
                Item::ShortYear => said.year = Some(2000 + self.digits(2, 2)?.0),
                Item::Fraction { min, max, separator } => {
                    if *separator {
                        self.take(".").or_else(|| self.take(","))?;
                    }
                    let (value, count) = self.digits(*min, *max)?;
                    said.nanos = Some(value * 10_i64.pow(9 - count.min(9) as u32));
                }
                Item::Month { .. } => {
                    let found = (0..12).find(|i| {
                        self.take_word(MONTHS[*i])
                            .or_else(|| self.take_word(&MONTHS[*i][..3]))
                            .is_some()
                    })?;
                    said.month = Some(found as i64 + 1);
                }
                Item::Weekday { .. } => {
                    (0..7).find(|i| {
                        self.take_word(WEEKDAYS[*i])
                            .or_else(|| self.take_word(&WEEKDAYS[*i][..3]))
                            .is_some()
                    })?;
                }
                Item::AmPm => {
                    said.pm = Some(
                        self.take_word("pm")
                            .map(|()| true)
                            .or_else(|| self.take_word("am").map(|()| false))?,
                    );
                }
                Item::Zone { .. } => match self.zone()? {
                    Zone::Offset(seconds) => said.offset = Some(seconds),
                    Zone::Named(tz) => said.zone = Some(tz),
                },
                Item::Optional(inner) => {
                    let (mut cursor, mut inner_said) = (*self, said.clone());
                    if cursor.items(inner, &mut inner_said).is_some() {
                        (*self, *said) = (cursor, inner_said);
                    }
                }
            }
        }
        Some(())
    }

    pub(super) fn number(&mut self, part: Part, min: usize, max: usize, said: &mut Said) -> Option<()> {
        let mut sign = 1;
        let mut max = max;
        if matches!(part, Part::Year | Part::WeekYear) {
            if self.take("-").is_some() {
                sign = -1;
            } else if self.take("+").is_some() {
                max = max.max(9);
            }
        }
        let value = sign * self.digits(min, max)?.0;
        let (slot, range) = match part {
            Part::Year => (&mut said.year, -999_999_999..=999_999_999),
            Part::WeekYear => (&mut said.week_year, -999_999_999..=999_999_999),
            Part::Month => (&mut said.month, 1..=12),
            Part::Day => (&mut said.day, 1..=31),
            Part::DayOfYear => (&mut said.day_of_year, 1..=366),
            Part::Hour => (&mut said.hour, 0..=24),
            Part::HourFromOne => (&mut said.hour, 1..=24),
            Part::Hour12 => (&mut said.hour12, 0..=12),
            Part::Minute => (&mut said.minute, 0..=59),
            Part::Second => (&mut said.second, 0..=59),
            Part::Week => (&mut said.week, 1..=53),
            Part::WeekdayNumber => (&mut said.weekday, 1..=7),
            Part::Nano => (&mut said.nanos, 0..=999_999_999),
            Part::MilliOfDay => (&mut said.milli_of_day, 0..=86_399_999),
        };
        if !range.contains(&value) {
            return None;
        }
        *slot = Some(if part == Part::HourFromOne && value == 24 { 0 } else { value });
        Some(())
    }
}

impl Form {
    /// Milliseconds since 1970, and nanoseconds of the last.
    pub(super) fn read(&self, text: &str, tz: Option<&TimeZone>, missing: Missing) -> Option<(i64, i64)> {
        let round_up = missing.is_last();
        match self {
            Form::EpochMillis => Some((epoch(text, 1, round_up)?, if round_up { 999_999 } else { below(text, 6, 0) })),
            Form::EpochSecond => Some((
                epoch(text, 1000, round_up)?,
                if round_up { 999_999 } else { below(text, 9, 3) },
            )),
            Form::Pattern(items) => {
                let mut said = Said::default();
                let mut cursor = Cursor { text, at: 0 };
                cursor.items(items, &mut said)?;
                if cursor.at != text.len() {
                    return None;
                }
                said.moment(tz, round_up)
            }
            Form::Joda(items) => Some((joda::read(items, text, tz, missing)?, if round_up { 999_999 } else { 0 })),
            Form::JodaNamed(named) => Some((named.read(text, tz, missing)?, if round_up { 999_999 } else { 0 })),
        }
    }
}

/// The nanoseconds of the last millisecond in a number with a fraction of so many digits, the first ones left out.
fn below(text: &str, digits: usize, skip: usize) -> i64 {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let all = format!("{fraction:0<digits$}");
    all.get(skip..digits).and_then(|part| part.parse().ok()).unwrap_or(0)
}

/// A number of units since 1970, with or without a fraction.
pub(super) fn epoch(text: &str, unit_ms: i64, round_up: bool) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let ms = match text.parse::<i64>() {
        Ok(value) => value
            .checked_mul(unit_ms)?
            .checked_add(if round_up { unit_ms - 1 } else { 0 })?,
        Err(_) => {
            let value = text.parse::<f64>().ok()? * unit_ms as f64;
            (value.abs() < 9e17).then(|| value.floor() as i64)?
        }
    };
    EPOCH_MS.contains(&ms).then_some(ms)
}

/// A count from 1970 may lie beyond the years that are written with four digits: a hundred million days.
const EPOCH_MS: std::ops::RangeInclusive<i64> = -8_640_000_000_000_000..=8_640_000_000_000_000;

impl Said {
    pub(super) fn moment(self, tz: Option<&TimeZone>, round_up: bool) -> Option<(i64, i64)> {
        let days = match (self.week_year, self.day_of_year) {
            (Some(year), _) => {
                let year = i16::try_from(year).ok()?;
                let week = i8::try_from(self.week.unwrap_or(1)).ok()?;
                let weekday = civil::Weekday::from_monday_one_offset(i8::try_from(self.weekday.unwrap_or(1)).ok()?).ok()?;
                let date = civil::ISOWeekDate::new(year, week, weekday).ok()?.date();
                days_of(i64::from(date.year()), i64::from(date.month()), i64::from(date.day()))?
            }
            (None, Some(day)) => {
                let year = self.year.unwrap_or(1970);
                let first = days_of(year, 1, 1)?;
                if day == 366 && days_in_month(year, 2) == 28 {
                    return None;
                }
                first + day - 1
            }
            (None, None) => days_of(self.year.unwrap_or(1970), self.month.unwrap_or(1), self.day.unwrap_or(1))?,
        };
        let filled = |part: Option<i64>, last: i64| part.unwrap_or(if round_up { last } else { 0 });
        let hour = match (self.hour, self.hour12) {
            (None, Some(hour)) => Some(hour % 12 + if self.pm == Some(true) { 12 } else { 0 }),
            (hour, _) => hour,
        };
        let (minute, second, nanos) = (
            filled(self.minute, 59),
            filled(self.second, 59),
            filled(self.nanos, 999_999_999),
        );
        let hour = filled(hour, 23);
        if hour == 24 && (minute, second, nanos) != (0, 0, 0) {
            return None;
        }
        let of_day = self
            .milli_of_day
            .unwrap_or(((hour * 60 + minute) * 60 + second) * 1000 + nanos / 1_000_000);
        let local = days * DAY_MS + of_day;
        let ms = match (self.offset, self.zone.as_ref().or(tz)) {
            (Some(seconds), _) => local - i64::from(seconds) * 1000,
            (None, Some(zone)) => to_utc(local, zone),
            (None, None) => local,
        };
        let nanos = if self.milli_of_day.is_some() { 0 } else { nanos % 1_000_000 };
        DAYS.contains(&ms.div_euclid(DAY_MS)).then_some((ms, nanos))
    }
}
