//! Patterns of `java.time`'s letters, and the named formats.
//!
//! Not here: Joda's letters (`joda`).

use super::*;
use crate::{Error, Result};

#[derive(Clone, Debug)]
pub(super) enum Form {
    EpochMillis,
    EpochSecond,
    Pattern(Vec<Item>),
    Joda(Vec<joda::JodaItem>),
    JodaNamed(Named),
}

#[derive(Clone, Debug)]
pub(super) enum Item {
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
pub(super) enum Part {
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
pub(super) enum ZoneStyle {
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
pub(super) const NAMED: &[(&str, &str)] = &[
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

pub(super) fn form(name: &str, whole: &str, syntax: PatternSyntax) -> Result<Form> {
    if syntax == PatternSyntax::Joda
        && let Some(named) = find_name(name)
    {
        return Ok(Form::JodaNamed(named));
    }
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
    if syntax == PatternSyntax::Joda && !name.is_empty() {
        return joda::pattern(name).map(Form::Joda).map_err(|letter| match letter {
            Some(letter) => refuse(&format!("Illegal pattern component: {letter}")),
            None => refuse("a letter stands too often"),
        });
    }
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

pub(super) fn unknown_letter(java: &str) -> Option<char> {
    let unquoted = java.split('\'').step_by(2);
    unquoted
        .flat_map(str::chars)
        .find(|c| c.is_ascii_alphabetic() && !"yuYxMLdDEecwaHkhKmsSnAXZzVvO".contains(*c))
}

/// A Java pattern as items. None if a letter is unknown or brackets and quotes do not match.
pub(super) fn pattern(java: &str, lenient: bool) -> Option<Vec<Item>> {
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

/// The item that so many of a letter stand for.
pub(super) fn letter(c: char, count: usize, lenient: bool, digits_follow: bool) -> Option<Item> {
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
    let digits = |part: Part, max: usize| {
        Some(Item::Number {
            part,
            min: 1,
            max,
            width: 1,
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
        ('e' | 'c', 1) => digits(Part::WeekdayNumber, 1),
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
        ('n', 1..=9) => digits(Part::Nano, 9),
        ('A', 1..=9) => digits(Part::MilliOfDay, 9),
        ('x', _) => None,
        ('X' | 'Z' | 'z' | 'V' | 'v' | 'O', _) => zone_style(c, count).map(|style| Item::Zone { style }),
        _ => None,
    }
}

/// The form in which so many of a letter write a zone.
fn zone_style(c: char, count: usize) -> Option<ZoneStyle> {
    Some(match (c, count) {
        ('X', 1) => ZoneStyle::Hours { zulu: true },
        ('X', 2 | 4) => ZoneStyle::Plain { zulu: true },
        ('X', 3 | 5) => ZoneStyle::Colon { zulu: true },
        ('Z', 1) => ZoneStyle::Plain { zulu: false },
        ('Z', 2 | 4) => ZoneStyle::Colon { zulu: false },
        ('Z', 5) => ZoneStyle::Colon { zulu: true },
        ('Z', 3) | ('z', 1..=4) | ('V', 2) | ('v' | 'O', 1 | 4) => ZoneStyle::Name,
        _ => return None,
    })
}
