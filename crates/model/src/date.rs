//! Dates as text: formats both ways, date math, and the rounding of histograms. Milliseconds since 1970, UTC.
//!
//! Pure: `now` comes from the caller. Years beyond 9999 are refused (jiff's range).
//! Not here: which field has which format (`mapping`).

use crate::{Error, ErrorKind, Result};
use jiff::civil;
use std::fmt;

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

/// One or several (`||`) date formats: the first that fits reads, the first writes.
#[derive(Clone)]
pub struct DateFormat {
    text: String,
    forms: Vec<Form>,
}

#[derive(Clone, Debug)]
enum Form {
    EpochMillis,
    EpochSecond,
    Pattern(Vec<Item>),
}

#[derive(Clone, Debug)]
enum Item {
    Literal(String),
    Number {
        part: Part,
        min: usize,
        max: usize,
        width: usize,
    },
    /// Two digits of a year, from 2000.
    ShortYear,
    /// A fraction of a second; with `separator` it brings its own `.` or `,`.
    Fraction {
        min: usize,
        max: usize,
        separator: bool,
    },
    Month {
        full: bool,
    },
    Weekday {
        full: bool,
    },
    AmPm,
    Zone {
        style: ZoneStyle,
    },
    Optional(Vec<Item>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    Month,
    Day,
    DayOfYear,
    Hour,
    /// 1 to 24.
    HourFromOne,
    Hour12,
    Minute,
    Second,
    WeekYear,
    Week,
    WeekdayNumber,
    Nano,
    MilliOfDay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZoneStyle {
    /// `Z`, `+01:00`.
    Colon {
        zulu: bool,
    },
    /// `Z`, `+0100`.
    Plain {
        zulu: bool,
    },
    /// `+01`.
    Hours {
        zulu: bool,
    },
    Name,
}

/// Named formats (without `strict_`) as Java patterns. `§` is a separator with one to nine digits of a
/// second's fraction; in the forms that are not strict, numbers may be shorter.
const NAMED: &[(&str, &str)] = &[
    ("date_optional_time", "yyyy[-MM[-dd['T'[HH[:mm[:ss[§]]][XXX]]]]]"),
    ("date_optional_time_nanos", "yyyy[-MM[-dd['T'[HH[:mm[:ss[§]]][XXX]]]]]"),
    ("basic_date", "yyyyMMdd"),
    ("basic_date_time", "yyyyMMdd'T'HHmmss.SSSXX"),
    ("basic_date_time_no_millis", "yyyyMMdd'T'HHmmssXX"),
    ("basic_ordinal_date", "yyyyDDD"),
    ("basic_ordinal_date_time", "yyyyDDD'T'HHmmss.SSSXX"),
    ("basic_ordinal_date_time_no_millis", "yyyyDDD'T'HHmmssXX"),
    ("basic_time", "HHmmss.SSSXX"),
    ("basic_time_no_millis", "HHmmssXX"),
    ("basic_t_time", "'T'HHmmss.SSSXX"),
    ("basic_t_time_no_millis", "'T'HHmmssXX"),
    ("basic_week_date", "YYYY'W'wwe"),
    ("basic_week_date_time", "YYYY'W'wwe'T'HHmmss.SSSXX"),
    ("basic_week_date_time_no_millis", "YYYY'W'wwe'T'HHmmssXX"),
    ("date", "yyyy-MM-dd"),
    ("date_hour", "yyyy-MM-dd'T'HH"),
    ("date_hour_minute", "yyyy-MM-dd'T'HH:mm"),
    ("date_hour_minute_second", "yyyy-MM-dd'T'HH:mm:ss"),
    ("date_hour_minute_second_fraction", "yyyy-MM-dd'T'HH:mm:ss§"),
    ("date_hour_minute_second_millis", "yyyy-MM-dd'T'HH:mm:ss.SSS"),
    ("date_time", "yyyy-MM-dd'T'HH:mm:ss§XXX"),
    ("date_time_no_millis", "yyyy-MM-dd'T'HH:mm:ssXXX"),
    ("hour", "HH"),
    ("hour_minute", "HH:mm"),
    ("hour_minute_second", "HH:mm:ss"),
    ("hour_minute_second_fraction", "HH:mm:ss§"),
    ("hour_minute_second_millis", "HH:mm:ss.SSS"),
    ("ordinal_date", "yyyy-DDD"),
    ("ordinal_date_time", "yyyy-DDD'T'HH:mm:ss§XXX"),
    ("ordinal_date_time_no_millis", "yyyy-DDD'T'HH:mm:ssXXX"),
    ("time", "HH:mm:ss§XXX"),
    ("time_no_millis", "HH:mm:ssXXX"),
    ("t_time", "'T'HH:mm:ss§XXX"),
    ("t_time_no_millis", "'T'HH:mm:ssXXX"),
    ("week_date", "YYYY-'W'ww-e"),
    ("week_date_time", "YYYY-'W'ww-e'T'HH:mm:ss§XXX"),
    ("week_date_time_no_millis", "YYYY-'W'ww-e'T'HH:mm:ssXXX"),
    ("weekyear", "YYYY"),
    ("week_year", "YYYY"),
    ("weekyear_week", "YYYY-'W'ww"),
    ("weekyear_week_day", "YYYY-'W'ww-e"),
    ("year", "yyyy"),
    ("year_month", "yyyy-MM"),
    ("year_month_day", "yyyy-MM-dd"),
    ("iso8601", "yyyy[-MM[-dd['T'[HH[:mm[:ss[§]]][XXX]]]]]"),
    ("rfc3339_lenient", "yyyy[-MM[-dd['T'HH:mm[:ss[§]]XXX]]]"),
];

impl DateFormat {
    /// Reads a format: names and Java patterns, separated by `||`.
    pub fn parse_pattern(text: &str) -> Result<DateFormat> {
        let forms = text
            .split("||")
            .map(|part| form(part.trim(), text))
            .collect::<Result<Vec<_>>>()?;
        Ok(DateFormat {
            text: text.to_owned(),
            forms,
        })
    }

    /// The format as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads a date. Missing parts are the first moment; `tz` is for texts that name no zone.
    pub fn parse(&self, text: &str, tz: Option<&TimeZone>) -> Result<i64> {
        self.read(text, tz, false)
    }

    /// As [`DateFormat::parse`], for an upper bound: a missing time is the day's last millisecond.
    /// A missing month or day is still the first one, as in Elasticsearch.
    pub fn parse_round_up(&self, text: &str, tz: Option<&TimeZone>) -> Result<i64> {
        self.read(text, tz, true)
    }

    fn read(&self, text: &str, tz: Option<&TimeZone>, round_up: bool) -> Result<i64> {
        self.forms
            .iter()
            .find_map(|form| form.read(text, tz, round_up))
            .ok_or_else(|| Error::illegal(format!("failed to parse date field [{text}] with format [{}]", self.text)))
    }

    /// Writes a date in the first format. A moment out of range is written as its milliseconds.
    pub fn render(&self, ms: i64, tz: Option<&TimeZone>) -> String {
        match &self.forms[0] {
            Form::EpochMillis => ms.to_string(),
            Form::EpochSecond => match ms % 1000 {
                0 => (ms / 1000).to_string(),
                _ => format!("{}", ms as f64 / 1000.0),
            },
            Form::Pattern(items) => {
                let utc = TimeZone::UTC;
                let tz = tz.unwrap_or(&utc);
                match Moment::of(ms, tz) {
                    Some(moment) => {
                        let mut out = String::new();
                        moment.write(items, &mut out);
                        out
                    }
                    None => ms.to_string(),
                }
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
        self.text == other.text
    }
}

fn form(name: &str, whole: &str) -> Result<Form> {
    let snake: String = name
        .chars()
        .flat_map(|c| {
            if c.is_ascii_uppercase() {
                vec!['_', c.to_ascii_lowercase()]
            } else {
                vec![c]
            }
        })
        .collect();
    let refuse = |why: &str| Error::illegal(format!("Invalid format: [{whole}]: {why}"));
    match snake.as_str() {
        "" => return Err(Error::illegal("No date pattern provided")),
        "epoch_millis" => return Ok(Form::EpochMillis),
        "epoch_second" => return Ok(Form::EpochSecond),
        _ => {}
    }
    let strict = snake.strip_prefix("strict_");
    if let Some((_, java)) = NAMED.iter().find(|(known, _)| *known == strict.unwrap_or(&snake)) {
        let lenient = strict.is_none() && !snake.starts_with("basic_") && snake != "iso8601" && !snake.starts_with("rfc");
        return pattern(java, lenient)
            .map(Form::Pattern)
            .ok_or_else(|| refuse("Unknown pattern"));
    }
    // Elasticsearch 6 marked Java patterns with an 8 in front.
    let java = name.strip_prefix('8').unwrap_or(name);
    pattern(java, false)
        .map(Form::Pattern)
        .ok_or_else(|| match unknown_letter(java) {
            Some(letter) => refuse(&format!("Unknown pattern letter: {letter}")),
            None => refuse("brackets or quotes do not match, or a letter stands too often"),
        })
}

fn unknown_letter(java: &str) -> Option<char> {
    let unquoted = java.split('\'').step_by(2);
    unquoted
        .flat_map(str::chars)
        .find(|c| c.is_ascii_alphabetic() && !"yuYxMLdDEecwaHkhKmsSnAXZzVvO".contains(*c))
}

/// A Java pattern as items. None if a letter is unknown or brackets and quotes do not match.
fn pattern(java: &str, lenient: bool) -> Option<Vec<Item>> {
    let chars: Vec<char> = java.chars().collect();
    let mut open: Vec<Vec<Item>> = Vec::new();
    let mut items: Vec<Item> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        match c {
            '\'' => {
                let mut literal = String::new();
                at += 1;
                if chars.get(at) == Some(&'\'') {
                    literal.push('\'');
                } else {
                    loop {
                        match (chars.get(at)?, chars.get(at + 1)) {
                            ('\'', Some('\'')) => {
                                literal.push('\'');
                                at += 1;
                            }
                            ('\'', _) => break,
                            (c, _) => literal.push(*c),
                        }
                        at += 1;
                    }
                }
                at += 1;
                items.push(Item::Literal(literal));
            }
            '[' => {
                if open.len() >= OPTIONAL_DEPTH_MAX {
                    return None;
                }
                open.push(std::mem::take(&mut items));
                at += 1;
            }
            ']' => {
                let inner = std::mem::replace(&mut items, open.pop()?);
                items.push(Item::Optional(inner));
                at += 1;
            }
            '§' => {
                items.push(Item::Fraction {
                    min: 1,
                    max: 9,
                    separator: true,
                });
                at += 1;
            }
            c if c.is_ascii_alphabetic() => {
                let count = chars[at..].iter().take_while(|other| **other == c).count();
                at += count;
                let digits_follow = chars.get(at).is_some_and(|c| "yuYxMdDHhKkmsSAnNew".contains(*c));
                items.push(letter(c, count, lenient, digits_follow)?);
            }
            '{' | '}' | '#' => return None,
            c => {
                items.push(Item::Literal(c.to_string()));
                at += 1;
            }
        }
    }
    open.is_empty().then_some(items)
}

fn letter(c: char, count: usize, lenient: bool, digits_follow: bool) -> Option<Item> {
    let number = |part: Part| {
        let (min, max) = match (count, lenient) {
            (1, _) if digits_follow => (1, 1),
            (1, _) => (1, if part == Part::DayOfYear { 3 } else { 2 }),
            (_, true) => (1, count),
            _ => (count, count),
        };
        Some(Item::Number {
            part,
            min,
            max,
            width: count,
        })
    };
    let year = |part: Part| match count {
        2 => Some(Item::ShortYear),
        // Without a sign a year has as many digits as letters, or, alone, as many as there are.
        1 => Some(Item::Number {
            part,
            min: 1,
            max: if digits_follow { 4 } else { 9 },
            width: 1,
        }),
        _ if lenient => Some(Item::Number {
            part,
            min: 1,
            max: 5,
            width: count,
        }),
        _ => Some(Item::Number {
            part,
            min: count,
            max: count,
            width: count,
        }),
    };
    match (c, count) {
        ('y' | 'u', 1..=9) => year(Part::Year),
        ('Y' | 'x', 1..=9) => match count {
            2 => None,
            _ => year(Part::WeekYear),
        },
        ('M' | 'L', 1..=2) => number(Part::Month),
        ('M' | 'L', 3..=4) => Some(Item::Month { full: count == 4 }),
        ('d', 1..=2) => number(Part::Day),
        ('D', 1..=3) => number(Part::DayOfYear),
        ('E', 1..=4) => Some(Item::Weekday { full: count == 4 }),
        ('e' | 'c', 1) => Some(Item::Number {
            part: Part::WeekdayNumber,
            min: 1,
            max: 1,
            width: 1,
        }),
        ('w', 1..=2) => number(Part::Week),
        ('a', 1) => Some(Item::AmPm),
        ('H', 1..=2) => number(Part::Hour),
        ('k', 1..=2) => number(Part::HourFromOne),
        ('h' | 'K', 1..=2) => number(Part::Hour12),
        ('m', 1..=2) => number(Part::Minute),
        ('s', 1..=2) => number(Part::Second),
        ('S', 1..=9) => Some(Item::Fraction {
            min: if lenient { 1 } else { count },
            max: count,
            separator: false,
        }),
        ('n', 1..=9) => Some(Item::Number {
            part: Part::Nano,
            min: 1,
            max: 9,
            width: 1,
        }),
        ('A', 1..=9) => Some(Item::Number {
            part: Part::MilliOfDay,
            min: 1,
            max: 9,
            width: 1,
        }),
        ('X', 1) => Some(Item::Zone {
            style: ZoneStyle::Hours { zulu: true },
        }),
        ('X', 2 | 4) => Some(Item::Zone {
            style: ZoneStyle::Plain { zulu: true },
        }),
        ('X', 3 | 5) => Some(Item::Zone {
            style: ZoneStyle::Colon { zulu: true },
        }),
        ('x', _) => None,
        ('Z', 1) => Some(Item::Zone {
            style: ZoneStyle::Plain { zulu: false },
        }),
        ('Z', 2 | 4) => Some(Item::Zone {
            style: ZoneStyle::Colon { zulu: false },
        }),
        ('Z', 3) => Some(Item::Zone { style: ZoneStyle::Name }),
        ('Z', 5) => Some(Item::Zone {
            style: ZoneStyle::Colon { zulu: true },
        }),
        ('z', 1..=4) | ('V', 2) | ('v' | 'O', 1 | 4) => Some(Item::Zone { style: ZoneStyle::Name }),
        _ => None,
    }
}

const MONTHS: [&str; 12] = [
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
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

enum Zone {
    Offset(i32),
    Named(TimeZone),
}

/// What a text has said so far.
#[derive(Clone, Default)]
struct Said {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    week_year: Option<i64>,
    week: Option<i64>,
    weekday: Option<i64>,
    hour: Option<i64>,
    hour12: Option<i64>,
    pm: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    nanos: Option<i64>,
    milli_of_day: Option<i64>,
    offset: Option<i32>,
    zone: Option<TimeZone>,
}

#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }
    fn take(&mut self, literal: &str) -> Option<()> {
        self.rest().starts_with(literal).then(|| self.at += literal.len())
    }
    fn take_word(&mut self, word: &str) -> Option<()> {
        let head = self.rest().get(..word.len())?;
        head.eq_ignore_ascii_case(word).then(|| self.at += word.len())
    }
    fn digits(&mut self, min: usize, max: usize) -> Option<(i64, usize)> {
        let count = self.rest().bytes().take(max).take_while(u8::is_ascii_digit).count();
        if count < min {
            return None;
        }
        let value = self.rest()[..count].parse().ok()?;
        self.at += count;
        Some((value, count))
    }
    fn zone(&mut self) -> Option<Zone> {
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
    fn items(&mut self, items: &[Item], said: &mut Said) -> Option<()> {
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

    fn number(&mut self, part: Part, min: usize, max: usize, said: &mut Said) -> Option<()> {
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
    fn read(&self, text: &str, tz: Option<&TimeZone>, round_up: bool) -> Option<i64> {
        match self {
            Form::EpochMillis => epoch(text, 1, round_up),
            Form::EpochSecond => epoch(text, 1000, round_up),
            Form::Pattern(items) => {
                let mut said = Said::default();
                let mut cursor = Cursor { text, at: 0 };
                cursor.items(items, &mut said)?;
                if cursor.at != text.len() {
                    return None;
                }
                said.moment(tz, round_up)
            }
        }
    }
}

/// A number of units since 1970, with or without a fraction.
fn epoch(text: &str, unit_ms: i64, round_up: bool) -> Option<i64> {
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
    DAYS.contains(&ms.div_euclid(DAY_MS)).then_some(ms)
}

impl Said {
    fn moment(self, tz: Option<&TimeZone>, round_up: bool) -> Option<i64> {
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
        DAYS.contains(&ms.div_euclid(DAY_MS)).then_some(ms)
    }
}

/// Days since 1970 of a day of the Gregorian calendar. None if there is no such day, or out of range.
fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(-9999..=9999).contains(&year) || day > days_in_month(year, month) {
        return None;
    }
    Some(days_from_civil(year, month, day))
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The offset of `tz` at a moment, in milliseconds.
fn offset_ms(tz: &TimeZone, ms: i64) -> i64 {
    if *tz == TimeZone::UTC {
        return 0;
    }
    jiff::Timestamp::from_millisecond(ms).map_or(0, |at| i64::from(tz.to_offset(at).seconds()) * 1000)
}

/// The moment of a local time. In a gap the later one, in an overlap the earlier.
fn to_utc(local: i64, tz: &TimeZone) -> i64 {
    if *tz == TimeZone::UTC {
        return local;
    }
    let guess = local - offset_ms(tz, local);
    // Offsets change by hours, not days: the answers lie at the offsets a day before and after.
    let (before, after) = (offset_ms(tz, guess - DAY_MS), offset_ms(tz, guess + DAY_MS));
    for offset in [before, after] {
        if offset_ms(tz, local - offset) == offset {
            return local - offset;
        }
    }
    match offset_ms(tz, guess) {
        offset if guess + offset == local => guess,
        _ => local - before,
    }
}

/// A moment taken apart for writing.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    days: i64,
    of_day: i64,
    offset: i64,
    zone: String,
}

impl Moment {
    fn of(ms: i64, tz: &TimeZone) -> Option<Moment> {
        // Beyond what zones know of there is no offset.
        let offset = if DAYS.contains(&ms.div_euclid(DAY_MS)) {
            offset_ms(tz, ms)
        } else {
            0
        };
        let local = ms.checked_add(offset)?;
        let days = local.div_euclid(DAY_MS);
        let (year, month, day) = civil_from_days(days);
        let zone = tz.iana_name().map_or_else(String::new, str::to_owned);
        Some(Moment {
            year,
            month,
            day,
            days,
            of_day: local.rem_euclid(DAY_MS),
            offset,
            zone,
        })
    }

    fn number(&self, part: Part) -> i64 {
        let hour = self.of_day / 3_600_000;
        let week_date = || {
            let date = civil::Date::new(self.year as i16, self.month as i8, self.day as i8);
            date.map(civil::Date::iso_week_date)
        };
        match part {
            Part::Year => self.year,
            Part::Month => self.month,
            Part::Day => self.day,
            Part::DayOfYear => self.days - days_from_civil(self.year, 1, 1) + 1,
            Part::Hour => hour,
            Part::HourFromOne => {
                if hour == 0 {
                    24
                } else {
                    hour
                }
            }
            Part::Hour12 => {
                if hour % 12 == 0 {
                    12
                } else {
                    hour % 12
                }
            }
            Part::Minute => self.of_day / 60_000 % 60,
            Part::Second => self.of_day / 1000 % 60,
            Part::Nano => self.of_day % 1000 * 1_000_000,
            Part::MilliOfDay => self.of_day,
            Part::WeekYear => week_date().map_or(self.year, |d| i64::from(d.year())),
            Part::Week => week_date().map_or(1, |d| i64::from(d.week())),
            Part::WeekdayNumber => (self.days + 3).rem_euclid(7) + 1,
        }
    }

    fn write(&self, items: &[Item], out: &mut String) {
        use fmt::Write as _;
        for item in items {
            // Writing to a String cannot fail.
            let _ = match item {
                Item::Literal(literal) => out.write_str(literal),
                Item::Number { part, width, .. } => {
                    let number = self.number(*part);
                    // Years of more digits than their pattern has are signed.
                    let sign = match part {
                        _ if number < 0 => "-",
                        Part::Year if *width >= 4 && number > 9999 => "+",
                        _ => "",
                    };
                    write!(out, "{sign}{:0width$}", number.abs())
                }
                Item::ShortYear => write!(out, "{:02}", self.year.rem_euclid(100)),
                Item::Fraction { max, separator, .. } => {
                    let digits = format!("{:09}", self.of_day % 1000 * 1_000_000);
                    let width = if *separator { 3 } else { (*max).min(9) };
                    write!(out, "{}{}", if *separator { "." } else { "" }, &digits[..width])
                }
                Item::Month { full } => {
                    let name = MONTHS[(self.month - 1) as usize];
                    out.write_str(if *full { name } else { &name[..3] })
                }
                Item::Weekday { full } => {
                    let name = WEEKDAYS[(self.number(Part::WeekdayNumber) - 1) as usize];
                    out.write_str(if *full { name } else { &name[..3] })
                }
                Item::AmPm => out.write_str(if self.of_day >= 43_200_000 { "PM" } else { "AM" }),
                Item::Zone { style } => out.write_str(&self.zone(*style)),
                Item::Optional(inner) => {
                    self.write(inner, out);
                    Ok(())
                }
            };
        }
    }

    fn zone(&self, style: ZoneStyle) -> String {
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.abs() / 60_000);
        let (hours, rest) = (minutes / 60, minutes % 60);
        match style {
            ZoneStyle::Colon { zulu: true } | ZoneStyle::Plain { zulu: true } | ZoneStyle::Hours { zulu: true }
                if self.offset == 0 =>
            {
                "Z".to_owned()
            }
            ZoneStyle::Name if !self.zone.is_empty() => self.zone.clone(),
            ZoneStyle::Hours { .. } if rest == 0 => format!("{sign}{hours:02}"),
            ZoneStyle::Hours { .. } | ZoneStyle::Plain { .. } => {
                format!("{sign}{hours:02}{rest:02}")
            }
            ZoneStyle::Colon { .. } | ZoneStyle::Name => format!("{sign}{hours:02}:{rest:02}"),
        }
    }
}

/// Reads a date with date math: `now-1d/d`, `2014-01-01||+1M/M`. With `round_up` a rounded date is the
/// last millisecond of its unit, and missing parts are filled up.
pub fn parse_math(text: &str, format: &DateFormat, tz: Option<&TimeZone>, now_ms: i64, round_up: bool) -> Result<i64> {
    let wrap = |cause: Error| Error::new(ErrorKind::Parse, format!("{}: [{}]", cause.reason(), cause.reason())).caused_by(cause);
    let (start, math) = match (text.strip_prefix("now"), text.split_once("||")) {
        (Some(math), _) => (now_ms, math),
        (None, Some((date, math))) => (format.parse(date, tz).map_err(wrap)?, math),
        (None, None) => return format.read(text, tz, round_up).map_err(wrap),
    };
    let utc = TimeZone::UTC;
    apply_math(math, tz.unwrap_or(&utc), start, round_up)
}

fn apply_math(math: &str, tz: &TimeZone, start: i64, round_up: bool) -> Result<i64> {
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
    fn fixed_ms(self) -> Option<i64> {
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
        self.floor(ms.saturating_sub(self.offset)).saturating_add(self.offset)
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
        next.saturating_add(self.offset)
    }

    fn floor(&self, ms: i64) -> i64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> DateFormat {
        DateFormat::parse_pattern(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn check_parse(pattern: &str, text: &str, expected: Option<&str>) {
        let iso = format("strict_date_optional_time");
        let got = format(pattern).parse(text, None).ok().map(|ms| iso.render(ms, None));
        assert_eq!(got.as_deref(), expected, "{pattern} {text}");
    }

    #[test]
    fn parses() {
        check_parse(FORMAT_DEFAULT, "2014-01-02", Some("2014-01-02T00:00:00.000Z"));
        check_parse(FORMAT_DEFAULT, "2014", Some("2014-01-01T00:00:00.000Z"));
        check_parse(FORMAT_DEFAULT, "2014-1-2", None);
        check_parse(
            FORMAT_DEFAULT,
            "2014-01-02T03:04:05.678+02:00",
            Some("2014-01-02T01:04:05.678Z"),
        );
        check_parse(FORMAT_DEFAULT, "2014-01-02T03:04:05,6Z", Some("2014-01-02T03:04:05.600Z"));
        check_parse(
            FORMAT_DEFAULT,
            "2014-01-02T03:04:05.123456789Z",
            Some("2014-01-02T03:04:05.123Z"),
        );
        check_parse(FORMAT_DEFAULT, "2014-01-02T", Some("2014-01-02T00:00:00.000Z"));
        check_parse(FORMAT_DEFAULT, "1388631845678", Some("2014-01-02T03:04:05.678Z"));
        check_parse(FORMAT_DEFAULT, "2014-02-30", None);
        check_parse(FORMAT_DEFAULT, "99999999999999999", None);
        check_parse("dateOptionalTime", "2014-1-2", Some("2014-01-02T00:00:00.000Z"));
        check_parse("yyyy-MM-dd HH:mm:ss", "2014-01-02 03:04:05", Some("2014-01-02T03:04:05.000Z"));
        check_parse("dd/MM/yyyy||yyyy", "02/01/2014", Some("2014-01-02T00:00:00.000Z"));
        check_parse("dd/MM/yyyy||yyyy", "2015", Some("2015-01-01T00:00:00.000Z"));
        check_parse(
            "EEE, dd MMM yyyy HH:mm:ss Z",
            "Thu, 02 Jan 2014 03:04:05 +0100",
            Some("2014-01-02T02:04:05.000Z"),
        );
        check_parse("basic_date_time", "20140102T030405.678Z", Some("2014-01-02T03:04:05.678Z"));
        check_parse("epoch_second", "1388631845", Some("2014-01-02T03:04:05.000Z"));
        check_parse("week_date", "2014-W01-4", Some("2014-01-02T00:00:00.000Z"));
        check_parse("ordinal_date", "2014-002", Some("2014-01-02T00:00:00.000Z"));
        check_parse("hh:mm a", "01:30 PM", Some("1970-01-01T13:30:00.000Z"));
        check_parse("uuuu[-MM]", "2014", Some("2014-01-01T00:00:00.000Z"));
        check_parse(
            "yyyy-MM-dd'T'HH:mm:ss.SSSX",
            "2014-01-02T03:04:05.678+01",
            Some("2014-01-02T02:04:05.678Z"),
        );
        check_parse("d.M.yyyy", "2.1.2014", Some("2014-01-02T00:00:00.000Z"));
        assert!(DateFormat::parse_pattern("[[[[yyyy").is_err());
        assert!(DateFormat::parse_pattern("nonsense!").is_err());
    }

    fn check_render(pattern: &str, zone: &str, expected: &str) {
        let tz = parse_zone(zone).unwrap_or(TimeZone::UTC);
        assert_eq!(
            format(pattern).render(1_388_631_845_678, Some(&tz)),
            expected,
            "{pattern} {zone}"
        );
    }

    #[test]
    fn renders() {
        check_render(FORMAT_DEFAULT, "Z", "2014-01-02T03:04:05.678Z");
        check_render(FORMAT_DEFAULT, "+01:00", "2014-01-02T04:04:05.678+01:00");
        check_render("date_optional_time", "UTC", "2014-01-02T03:04:05.678Z");
        check_render("yyyy-MM-dd", "Z", "2014-01-02");
        check_render("d/M/yy", "Z", "2/1/14");
        check_render("MMM EEEE", "Z", "Jan Thursday");
        check_render("epoch_millis", "Z", "1388631845678");
        check_render("epoch_second", "Z", "1388631845.678");
        check_render("yyyy-MM-dd HH:mm Z", "America/New_York", "2014-01-01 22:04 -0500");
        check_render("hh:mm a", "Z", "03:04 AM");
    }

    fn check_math(text: &str, round_up: bool, expected: Option<&str>) {
        let iso = DateFormat::default();
        let got = parse_math(text, &iso, None, 1_388_631_845_678, round_up)
            .ok()
            .map(|ms| iso.render(ms, None));
        assert_eq!(got.as_deref(), expected, "{text} {round_up}");
    }

    #[test]
    fn math() {
        check_math("now", false, Some("2014-01-02T03:04:05.678Z"));
        check_math("now-1d/d", false, Some("2014-01-01T00:00:00.000Z"));
        check_math("now-1d/d", true, Some("2014-01-01T23:59:59.999Z"));
        check_math("2014-01-31||+1M", false, Some("2014-02-28T00:00:00.000Z"));
        check_math("2014-01-15||+1M/M", false, Some("2014-02-01T00:00:00.000Z"));
        check_math("now/w", false, Some("2013-12-30T00:00:00.000Z"));
        check_math("now/y", true, Some("2014-12-31T23:59:59.999Z"));
        check_math("now+3H-2m+1s", false, Some("2014-01-02T06:02:06.678Z"));
        check_math("2014-01-02", true, Some("2014-01-02T23:59:59.999Z"));
        check_math("2014", true, Some("2014-01-01T23:59:59.999Z"));
        check_math("now+", false, None);
        check_math("now/2d", false, None);
        check_math("now+1x", false, None);
        check_math("now+99999999999999999999y", false, None);
    }

    fn check_rounding(interval: Interval, zone: &str, offset: i64, text: &str, start: &str, next: &str) {
        let iso = DateFormat::default();
        let tz = parse_zone(zone).unwrap_or(TimeZone::UTC);
        let rounding = Rounding { interval, tz, offset };
        let ms = iso.parse(text, None).unwrap_or_default();
        let got = rounding.round(ms);
        assert_eq!(iso.render(got, None), start, "{interval:?} {zone} {text}");
        assert_eq!(iso.render(rounding.next(got), None), next, "{interval:?} {zone} {text}");
    }

    #[test]
    fn rounds() {
        use CalendarUnit::*;
        let day = "2014-03-30T12:00:00Z";
        check_rounding(
            Interval::Calendar(Month),
            "Z",
            0,
            day,
            "2014-03-01T00:00:00.000Z",
            "2014-04-01T00:00:00.000Z",
        );
        check_rounding(
            Interval::Calendar(Quarter),
            "Z",
            0,
            day,
            "2014-01-01T00:00:00.000Z",
            "2014-04-01T00:00:00.000Z",
        );
        check_rounding(
            Interval::Calendar(Week),
            "Z",
            0,
            day,
            "2014-03-24T00:00:00.000Z",
            "2014-03-31T00:00:00.000Z",
        );
        // The day on which clocks go forward has 23 hours.
        check_rounding(
            Interval::Calendar(Day),
            "Europe/Berlin",
            0,
            day,
            "2014-03-29T23:00:00.000Z",
            "2014-03-30T22:00:00.000Z",
        );
        check_rounding(
            Interval::Calendar(Day),
            "Z",
            3_600_000,
            day,
            "2014-03-30T01:00:00.000Z",
            "2014-03-31T01:00:00.000Z",
        );
        check_rounding(
            Interval::Calendar(Year),
            "-05:00",
            0,
            day,
            "2014-01-01T05:00:00.000Z",
            "2015-01-01T05:00:00.000Z",
        );
        check_rounding(
            Interval::Fixed(DAY_MS),
            "Europe/Berlin",
            0,
            day,
            "2014-03-29T23:00:00.000Z",
            "2014-03-30T22:00:00.000Z",
        );
        check_rounding(
            Interval::Fixed(5 * 60_000),
            "Z",
            0,
            day,
            "2014-03-30T12:00:00.000Z",
            "2014-03-30T12:05:00.000Z",
        );
    }
}
