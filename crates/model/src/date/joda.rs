//! Joda-Time's pattern letters, by which Elasticsearch 2 reads and writes dates.
//!
//! The rules are those of `DateTimeFormat` and `DateTimeParserBucket` of Joda-Time 2.9.5: what a text says is a list of
//! fields, which are set on 1970-01-01 in the order of their units, the largest first. `joda_cases.tsv` has answers of the
//! original. Not here: the letters of `java.time` (`pattern`), the named formats.

use super::read::{MONTHS, WEEKDAYS};
use super::*;
use std::ops::RangeInclusive;

/// The middle of the hundred years that `yy` can mean is 20 years before this one: `45` is 2045, `46` is 1946.
const TWO_DIGIT_PIVOT: i64 = 1996;
/// Fields of a pattern beyond this many digits print no more of them.
const FRACTION_DIGITS_MAX: usize = 18;
/// A repetition of a letter beyond this is no pattern that anybody wrote.
const LETTERS_MAX: usize = 64;
const HOUR_MS: i64 = 3_600_000;
/// Years whose milliseconds since 1970 fit 64 bits.
const YEARS: RangeInclusive<i64> = -292_275_054..=292_278_994;
/// `z` reads these names and no others.
const ZONE_NAMES: &[(&str, &str)] = &[
    ("UTC", "UTC"),
    ("GMT", "UTC"),
    ("UT", "UTC"),
    ("EST", "America/New_York"),
    ("EDT", "America/New_York"),
    ("CST", "America/Chicago"),
    ("CDT", "America/Chicago"),
    ("MST", "America/Denver"),
    ("MDT", "America/Denver"),
    ("PST", "America/Los_Angeles"),
    ("PDT", "America/Los_Angeles"),
];
/// The first is printed; all are read.
const ERAS: [&[&str]; 2] = [&["BC", "BCE"], &["AD", "CE"]];
const HALVES: [&str; 2] = ["AM", "PM"];

/// One part of a pattern.
#[derive(Clone, Debug)]
pub(super) enum JodaItem {
    Literal(String),
    Number {
        field: Field,
        /// Digits that are printed at least.
        min: usize,
        /// Digits that are read at most.
        max: usize,
    },
    /// The last two digits of a year; `lenient` reads other numbers of digits as a whole year.
    TwoDigitYear {
        field: Field,
        lenient: bool,
    },
    /// A number of exactly so many digits, and a sign if it is a year.
    Fixed {
        field: Field,
        width: usize,
    },
    /// Digits of a second: read at most, and written.
    Fraction {
        reads: usize,
        writes: usize,
    },
    Text {
        field: Field,
        full: bool,
    },
    Zone(ZoneText),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ZoneText {
    /// `+0100`, with a colon `+01:00`.
    Offset { colon: bool },
    /// `Z`, `+0100`, with a colon `+01:00`.
    Zulu { colon: bool },
    /// `Europe/Berlin`.
    Id,
    /// `CET`.
    ShortName,
    /// `Coordinated Universal Time`; it cannot be read.
    LongName,
}

/// The meaning of a number or a word of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Era,
    CenturyOfEra,
    YearOfEra,
    Year,
    Weekyear,
    Month,
    DayOfYear,
    WeekOfWeekyear,
    Day,
    Weekday,
    Halfday,
    Hour,
    HourFromOne,
    HourOfHalf,
    HourOfHalfFromOne,
    Minute,
    Second,
    Milli,
    /// A fraction of an hour, and of a minute.
    MilliOfHour,
    MilliOfMinute,
}

impl Field {
    /// The places of its range and of its unit among units from the largest; fields are set in this order.
    fn order(self) -> (u8, u8) {
        match self {
            Field::Era => (0, 0),
            Field::CenturyOfEra => (0, 1),
            Field::YearOfEra | Field::Year | Field::Weekyear => (0, 2),
            Field::Month => (2, 3),
            Field::WeekOfWeekyear => (2, 4),
            Field::DayOfYear => (2, 5),
            Field::Day => (3, 5),
            Field::Weekday => (4, 5),
            Field::Halfday => (5, 6),
            Field::Hour | Field::HourFromOne => (5, 7),
            Field::HourOfHalf | Field::HourOfHalfFromOne => (6, 7),
            Field::Minute => (7, 8),
            Field::Second => (8, 9),
            Field::Milli => (9, 10),
            Field::MilliOfHour => (7, 10),
            Field::MilliOfMinute => (8, 10),
        }
    }

    /// May a sign stand before it?
    fn is_signed(self) -> bool {
        matches!(self, Field::CenturyOfEra | Field::Year | Field::Weekyear)
    }

    /// Its value on a local clock.
    fn get(self, clock: Clock) -> i64 {
        let hour = clock.of_day / HOUR_MS;
        let (year, month, day) = clock.civil();
        let from_one = |hour: i64, hours: i64| if hour == 0 { hours } else { hour };
        match self {
            Field::Era => i64::from(year > 0),
            // The year before the first is the first before it.
            Field::YearOfEra if year <= 0 => 1 - year,
            Field::YearOfEra => year,
            Field::CenturyOfEra => year.abs() / 100,
            Field::Year => year,
            Field::Weekyear => clock.iso_week().0,
            Field::WeekOfWeekyear => clock.iso_week().1,
            Field::Month => month,
            Field::DayOfYear => clock.days - days_from_civil(year, 1, 1) + 1,
            Field::Day => day,
            Field::Weekday => (clock.days + 3).rem_euclid(7) + 1,
            Field::Halfday => hour / 12,
            Field::Hour => hour,
            Field::HourFromOne => from_one(hour, 24),
            Field::HourOfHalf => hour % 12,
            Field::HourOfHalfFromOne => from_one(hour % 12, 12),
            Field::Minute => clock.of_day / 60_000 % 60,
            Field::Second => clock.of_day / 1000 % 60,
            Field::Milli => clock.of_day % 1000,
            Field::MilliOfHour => clock.of_day % HOUR_MS,
            Field::MilliOfMinute => clock.of_day % 60_000,
        }
    }

    /// The values that it can have on that clock.
    fn bounds(self, clock: Clock) -> RangeInclusive<i64> {
        let (year, month, _) = clock.civil();
        match self {
            Field::Era | Field::Halfday => 0..=1,
            Field::CenturyOfEra => 0..=*YEARS.end() / 100,
            Field::YearOfEra => 1..=*YEARS.end(),
            Field::Year | Field::Weekyear => YEARS,
            Field::Month | Field::HourOfHalfFromOne => 1..=12,
            Field::DayOfYear => 1..=337 + days_in_month(year, 2),
            Field::WeekOfWeekyear => 1..=weeks_in(clock.iso_week().0),
            Field::Day => 1..=days_in_month(year, month),
            Field::Weekday => 1..=7,
            Field::Hour => 0..=23,
            Field::HourFromOne => 1..=24,
            Field::HourOfHalf => 0..=11,
            Field::Minute | Field::Second => 0..=59,
            Field::Milli => 0..=999,
            Field::MilliOfHour => 0..=HOUR_MS - 1,
            Field::MilliOfMinute => 0..=59_999,
        }
    }

    /// The clock with this value; what lies below it is the least it can be, if `floor` says so. None out of bounds.
    fn set(self, clock: Clock, value: i64, floor: bool) -> Option<Clock> {
        if !self.bounds(clock).contains(&value) {
            return None;
        }
        let (year, month, day) = clock.civil();
        let clamped = |year: i64, month: i64| Some((year, month, day.min(days_in_month(year, month))));
        let date = match self {
            Field::Era => clamped(if i64::from(year > 0) == value { year } else { -year }, month),
            Field::CenturyOfEra => clamped(value * 100 + year.abs() % 100, month),
            Field::YearOfEra | Field::Year => clamped(value, month),
            Field::Month => clamped(year, value),
            _ => None,
        };
        let days = match (self, date) {
            (_, Some((year, month, day))) => days_from_civil(year, month, day),
            (Field::Weekyear, _) => {
                let week = clock.iso_week().1.min(weeks_in(value));
                first_day_of_weekyear(value) + (week - 1) * 7 + (clock.days + 3).rem_euclid(7)
            }
            (Field::WeekOfWeekyear, _) => clock.days + (value - self.get(clock)) * 7,
            (Field::DayOfYear | Field::Day | Field::Weekday, _) => clock.days + value - self.get(clock),
            _ => clock.days,
        };
        let hours = |from: i64, to: i64| clock.of_day + (to - from) * HOUR_MS;
        let of_day = match self {
            Field::Halfday => hours(self.get(clock) * 12, value * 12),
            Field::Hour => hours(self.get(clock), value),
            Field::HourFromOne => hours(self.get(clock) % 24, value % 24),
            Field::HourOfHalf => hours(self.get(clock), value),
            Field::HourOfHalfFromOne => hours(self.get(clock) % 12, value % 12),
            Field::Minute => clock.of_day + (value - self.get(clock)) * 60_000,
            Field::Second => clock.of_day + (value - self.get(clock)) * 1000,
            Field::Milli | Field::MilliOfHour | Field::MilliOfMinute => clock.of_day + value - self.get(clock),
            _ => clock.of_day,
        };
        debug_assert!(
            (0..DAY_MS).contains(&of_day),
            "[{self:?}] set to [{value}] is a time of one day: [{of_day}]"
        );
        let set = Clock { days, of_day };
        Some(if floor { self.floor(set) } else { set })
    }

    /// The first moment at which it has the value that it has.
    fn floor(self, clock: Clock) -> Clock {
        let (year, month, _) = clock.civil();
        let days = match self {
            Field::Era => return clock,
            Field::CenturyOfEra => days_from_civil(self.get(clock) * 100, 1, 1),
            Field::YearOfEra | Field::Year => days_from_civil(year, 1, 1),
            Field::Weekyear => first_day_of_weekyear(clock.iso_week().0),
            Field::Month => days_from_civil(year, month, 1),
            Field::WeekOfWeekyear => clock.days - (clock.days + 3).rem_euclid(7),
            _ => clock.days,
        };
        let unit = match self {
            Field::Halfday => 12 * HOUR_MS,
            Field::Hour | Field::HourFromOne | Field::HourOfHalf | Field::HourOfHalfFromOne => HOUR_MS,
            Field::Minute => 60_000,
            Field::Second => 1000,
            Field::Milli | Field::MilliOfHour | Field::MilliOfMinute => 1,
            _ => DAY_MS,
        };
        Clock {
            days,
            of_day: clock.of_day - clock.of_day % unit,
        }
    }

    /// Each word that it is written with, and its value.
    fn words(self) -> Vec<(&'static str, i64)> {
        let with_short = |names: &'static [&'static str]| {
            let both = names
                .iter()
                .zip(1..)
                .flat_map(|(name, value)| [(*name, value), (&name[..3], value)]);
            both.collect()
        };
        match self {
            Field::Month => with_short(&MONTHS),
            Field::Weekday => with_short(&WEEKDAYS),
            Field::Halfday => HALVES.into_iter().zip(0..).collect(),
            Field::Era => {
                let eras = ERAS.iter().zip(0..);
                eras.flat_map(|(names, value)| names.iter().map(move |name| (*name, value)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The Monday of the first week that has its Thursday in a year.
fn first_day_of_weekyear(year: i64) -> i64 {
    let fourth = days_from_civil(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7)
}

fn weeks_in(weekyear: i64) -> i64 {
    (first_day_of_weekyear(weekyear + 1) - first_day_of_weekyear(weekyear)) / 7
}

/// A local date and time of day.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Since 1970.
    days: i64,
    /// Milliseconds.
    of_day: i64,
}

impl Clock {
    fn civil(self) -> (i64, i64, i64) {
        civil_from_days(self.days)
    }
    /// Weekyear and week.
    fn iso_week(self) -> (i64, i64) {
        let (year, _, _) = self.civil();
        let weekyear = (year - 1..=year + 1)
            .rev()
            .find(|year| first_day_of_weekyear(*year) <= self.days)
            .unwrap_or(year);
        (weekyear, (self.days - first_day_of_weekyear(weekyear)) / 7 + 1)
    }
}

/// A pattern of Joda's letters as items; otherwise the letter that is none, or nothing where a quote does not end.
pub(super) fn pattern(text: &str) -> Result<Vec<JodaItem>, Option<char>> {
    let chars: Vec<char> = text.chars().collect();
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        if c.is_ascii_alphabetic() {
            let count = chars[at..].iter().take_while(|other| **other == c).count();
            at += count;
            if count > LETTERS_MAX {
                return Err(None);
            }
            let number_follows = chars.get(at).is_some_and(|next| is_number(*next, &chars[at..]));
            items.push(item(c, count, number_follows).ok_or(Some(c))?);
        } else {
            let (literal, length) = literal(&chars[at..]);
            at += length;
            items.push(JodaItem::Literal(literal));
        }
    }
    Ok(items)
}

/// The literal text that a pattern begins with, and how many characters of the pattern it takes.
fn literal(chars: &[char]) -> (String, usize) {
    let mut out = String::new();
    let (mut at, mut quoted) = (0, false);
    while let Some(&c) = chars.get(at) {
        match c {
            '\'' if chars.get(at + 1) == Some(&'\'') => {
                out.push('\'');
                at += 1;
            }
            '\'' => quoted = !quoted,
            c if c.is_ascii_alphabetic() && !quoted => break,
            c => out.push(c),
        }
        at += 1;
    }
    (out, at)
}

/// Does a pattern begin with a letter that stands for digits?
fn is_number(letter: char, rest: &[char]) -> bool {
    match letter {
        'M' => rest.iter().take_while(|c| **c == 'M').count() <= 2,
        letter => "cCxyYdhHmsSeDFwWkK".contains(letter),
    }
}

fn item(letter: char, count: usize, number_follows: bool) -> Option<JodaItem> {
    let number = |field: Field, max: usize| JodaItem::Number {
        field,
        min: count,
        max: max.max(count),
    };
    let text = |field: Field| JodaItem::Text { field, full: count >= 4 };
    Some(match (letter, count) {
        ('x' | 'y' | 'Y', 2) => JodaItem::TwoDigitYear {
            field: if letter == 'x' { Field::Weekyear } else { Field::Year },
            lenient: !number_follows,
        },
        ('x' | 'y' | 'Y', _) => {
            let field = match letter {
                'x' => Field::Weekyear,
                'y' => Field::Year,
                _ => Field::YearOfEra,
            };
            number(field, if number_follows { count } else { 9 })
        }
        ('C', _) => number(Field::CenturyOfEra, count),
        ('G', _) => text(Field::Era),
        ('M', 3..) => text(Field::Month),
        ('M', _) => number(Field::Month, 2),
        ('d', _) => number(Field::Day, 2),
        ('D', _) => number(Field::DayOfYear, 3),
        ('w', _) => number(Field::WeekOfWeekyear, 2),
        ('e', _) => number(Field::Weekday, 1),
        ('E', _) => text(Field::Weekday),
        ('a', _) => text(Field::Halfday),
        ('H', _) => number(Field::Hour, 2),
        ('k', _) => number(Field::HourFromOne, 2),
        ('K', _) => number(Field::HourOfHalf, 2),
        ('h', _) => number(Field::HourOfHalfFromOne, 2),
        ('m', _) => number(Field::Minute, 2),
        ('s', _) => number(Field::Second, 2),
        ('S', _) => JodaItem::Fraction {
            reads: count,
            writes: count,
        },
        ('Z', 1 | 2) => JodaItem::Zone(ZoneText::Offset { colon: count == 2 }),
        ('Z', _) => JodaItem::Zone(ZoneText::Id),
        ('z', 4..) => JodaItem::Zone(ZoneText::LongName),
        ('z', _) => JodaItem::Zone(ZoneText::ShortName),
        _ => return None,
    })
}

/// The parts of a text, in the order in which they stand.
#[derive(Default)]
pub(super) struct TextParts {
    pub(super) fields: Vec<(Field, i64)>,
    /// Milliseconds.
    pub(super) offset: Option<i64>,
    zone: Option<TimeZone>,
}

/// Reads a text to milliseconds since 1970.
pub(super) fn read(items: &[JodaItem], text: &str, tz: Option<&TimeZone>, missing: Missing) -> Option<i64> {
    let mut said = TextParts::default();
    let mut rest = text;
    for item in items {
        rest = item.read(rest, &mut said)?;
    }
    if !rest.is_empty() {
        return None;
    }
    said.moment(tz, missing)
}

impl TextParts {
    /// The moment that it says; see [`read`]. A date of a document begins with the least that each field can be; an end of
    /// a range is set into the first day of 1970 as it is (`parseMillis` and `parseInto` of Joda-Time).
    pub(super) fn moment(mut self, tz: Option<&TimeZone>, missing: Missing) -> Option<i64> {
        let said = &mut self;
        said.fields.sort_by_key(|(field, _)| field.order());
        let mut clock = Clock {
            days: 0,
            of_day: if missing.is_last() { DAY_MS - 1 } else { 0 },
        };
        for (field, value) in &said.fields {
            clock = field.set(clock, *value, missing == Missing::First)?;
        }
        if missing == Missing::First {
            // Once more: what came later may have moved what was set first.
            let last = said.fields.len().saturating_sub(1);
            for (at, (field, value)) in said.fields.iter().enumerate() {
                clock = field.set(clock, *value, at == last)?;
            }
        }
        let local = clock.days.checked_mul(DAY_MS)?.checked_add(clock.of_day)?;
        match (said.offset, said.zone.as_ref().or(tz)) {
            (Some(offset), _) => local.checked_sub(offset),
            // Beyond what zones know of there is no offset.
            (None, Some(zone)) if DAYS.contains(&clock.days) => Some(to_utc(local, zone)),
            (None, _) => Some(local),
        }
    }
}

/// A literal text of a format.
pub(super) fn literal_of(text: &str) -> JodaItem {
    JodaItem::Literal(text.to_owned())
}

/// The first characters of a text, if it has so many and they are whole.
fn head(text: &str, length: usize) -> Option<(&str, &str)> {
    text.is_char_boundary(length.min(text.len()))
        .then(|| text.split_at_checked(length))
        .flatten()
}

/// Digits at the beginning, at most so many; a sign before them does not count.
pub(super) fn number(text: &str, max: usize, signed: bool) -> Option<(i64, &str)> {
    let sign = text.bytes().next().filter(|b| signed && matches!(b, b'-' | b'+'));
    let digits = &text[usize::from(sign.is_some())..];
    let count = digits.bytes().take(max).take_while(u8::is_ascii_digit).count();
    let value: i64 = digits[..count].parse().ok()?;
    Some((if sign == Some(b'-') { -value } else { value }, &digits[count..]))
}

/// The longest name that a text begins with, as it is or in letters of one case.
fn word<'a, T: Copy>(text: &'a str, words: &[(&str, T)]) -> Option<(T, &'a str)> {
    let fits = |word: &str| {
        head(text, word.len()).filter(|(head, _)| *head == word || *head == word.to_lowercase() || *head == word.to_uppercase())
    };
    let found = words
        .iter()
        .filter_map(|(word, value)| Some((word.len(), *value, fits(word)?.1)));
    found.max_by_key(|(length, ..)| *length).map(|(_, value, rest)| (value, rest))
}

impl JodaItem {
    /// Reads what it stands for from the beginning of a text, and gives what is left.
    pub(super) fn read<'a>(&self, text: &'a str, said: &mut TextParts) -> Option<&'a str> {
        match self {
            JodaItem::Literal(literal) => {
                let (head, rest) = head(text, literal.len())?;
                head.eq_ignore_ascii_case(literal).then_some(rest)
            }
            JodaItem::Number { field, max, .. } => {
                let (value, rest) = number(text, *max, field.is_signed())?;
                said.fields.push((*field, value));
                Some(rest)
            }
            JodaItem::TwoDigitYear { field, lenient } => {
                let (year, rest) = two_digit_year(text, *lenient)?;
                said.fields.push((*field, year));
                Some(rest)
            }
            JodaItem::Fixed { field, width } => {
                let (value, rest) = number(text, *width, field.is_signed())?;
                let sign = usize::from(field.is_signed() && text.starts_with(['-', '+']));
                said.fields.push((*field, value));
                (text.len() - rest.len() == width + sign).then_some(rest)
            }
            JodaItem::Fraction { reads, .. } => {
                let count = text.bytes().take(*reads).take_while(u8::is_ascii_digit).count();
                if count == 0 {
                    return None;
                }
                let thousandths = format!("{:0<3}", &text[..count.min(3)]);
                said.fields.push((Field::Milli, thousandths.parse().ok()?));
                Some(&text[count..])
            }
            JodaItem::Text { field, .. } => {
                let (value, rest) = word(text, &field.words())?;
                said.fields.push((*field, value));
                Some(rest)
            }
            JodaItem::Zone(ZoneText::Offset { .. } | ZoneText::Zulu { .. }) => {
                let (offset, rest) = offset(text)?;
                said.offset = Some(offset);
                Some(rest)
            }
            JodaItem::Zone(ZoneText::ShortName) => {
                let (zone, rest) = word(text, ZONE_NAMES)?;
                said.zone = Some(TimeZone::get(zone).ok()?);
                Some(rest)
            }
            JodaItem::Zone(ZoneText::Id) => {
                let length = text
                    .bytes()
                    .take_while(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(b))
                    .count();
                said.zone = Some(TimeZone::get(&text[..length]).ok()?);
                Some(&text[length..])
            }
            JodaItem::Zone(ZoneText::LongName) => None,
        }
    }
}

/// A year of two digits is one of the hundred years around the pivot.
fn two_digit_year(text: &str, lenient: bool) -> Option<(i64, &str)> {
    let unsigned = text.trim_start_matches(['-', '+']);
    let count = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if lenient && (unsigned.len() < text.len() || count != 2) {
        return number(text, 9, true);
    }
    let (two, rest) = head(text, 2)?;
    if !two.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (first, year) = (TWO_DIGIT_PIVOT - 50, two.parse::<i64>().ok()?);
    Some((first + (year - first).rem_euclid(100), rest))
}

/// `Z`, `+01`, `+0100`, `+01:00`, each with seconds and their thousandths; milliseconds.
pub(super) fn offset(text: &str) -> Option<(i64, &str)> {
    if text.starts_with(['Z', 'z']) {
        return Some((0, &text[1..]));
    }
    let sign = match text.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let two = |text: &str, most: i64| -> Option<(i64, usize)> {
        let digits = text.get(..2).filter(|two| two.bytes().all(|b| b.is_ascii_digit()))?;
        digits.parse().ok().filter(|value| *value <= most).map(|value| (value, 2))
    };
    let (hours, _) = two(&text[1..], 23)?;
    let (mut ms, mut rest) = (hours * HOUR_MS, &text[3..]);
    let colon = rest.starts_with(':');
    for unit in [60_000, 1000] {
        let digits = match (colon, rest.strip_prefix(':')) {
            (true, Some(digits)) => digits,
            (true, None) => break,
            (false, _) => rest,
        };
        match two(digits, 59) {
            Some((value, length)) => {
                ms += value * unit;
                rest = &digits[length..];
            }
            None => break,
        }
    }
    Some((sign * ms, rest))
}

/// Writes milliseconds since 1970.
pub(super) fn write(items: &[JodaItem], ms: i64, tz: &TimeZone, out: &mut String) {
    let offset = if DAYS.contains(&ms.div_euclid(DAY_MS)) {
        offset_ms(tz, ms)
    } else {
        0
    };
    let local = ms.saturating_add(offset);
    let clock = Clock {
        days: local.div_euclid(DAY_MS),
        of_day: local.rem_euclid(DAY_MS),
    };
    for item in items {
        match item {
            JodaItem::Literal(literal) => out.push_str(literal),
            JodaItem::Number { field, min, .. } | JodaItem::Fixed { field, width: min } => {
                let value = field.get(clock);
                out.push_str(if value < 0 { "-" } else { "" });
                crate::text::push_digits(out, value.unsigned_abs(), *min);
            }
            JodaItem::TwoDigitYear { field, .. } => {
                crate::text::push_digits(out, (field.get(clock).abs() % 100).unsigned_abs(), 2)
            }
            JodaItem::Fraction { writes, .. } => {
                let width = (*writes).min(FRACTION_DIGITS_MAX);
                let thousandths = format!("{:03}", Field::Milli.get(clock));
                out.extend(thousandths.chars().chain(std::iter::repeat('0')).take(width));
            }
            JodaItem::Text { field, full } => {
                let value = field.get(clock);
                let word = match field {
                    Field::Month => MONTHS[(value - 1) as usize],
                    Field::Weekday => WEEKDAYS[(value - 1) as usize],
                    Field::Era => ERAS[value as usize][0],
                    _ => HALVES[value as usize],
                };
                let short = *full || word.len() < 3;
                out.push_str(if short { word } else { &word[..3] });
            }
            JodaItem::Zone(style) => out.push_str(&zone(*style, tz, ms, offset)),
        }
    }
}

fn zone(style: ZoneText, tz: &TimeZone, ms: i64, offset: i64) -> String {
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60_000);
    if matches!(style, ZoneText::Zulu { .. }) && offset == 0 {
        return "Z".to_owned();
    }
    let colon = !matches!(style, ZoneText::Offset { colon: false } | ZoneText::Zulu { colon: false });
    let offset = format!("{sign}{:02}{}{:02}", minutes / 60, if colon { ":" } else { "" }, minutes % 60);
    let Some(id) = tz
        .iana_name()
        .filter(|_| !matches!(style, ZoneText::Offset { .. } | ZoneText::Zulu { .. }))
    else {
        return offset;
    };
    match style {
        ZoneText::LongName if id == "UTC" => "Coordinated Universal Time".to_owned(),
        ZoneText::ShortName => match jiff::Timestamp::from_millisecond(ms) {
            Ok(moment) => tz.to_offset_info(moment).abbreviation().to_owned(),
            Err(_) => id.to_owned(),
        },
        _ => id.to_owned(),
    }
}
