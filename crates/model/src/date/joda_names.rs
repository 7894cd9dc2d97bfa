//! The named formats of Elasticsearch 2, which read by Joda-Time's rules: `ISODateTimeFormat` of Joda-Time 2.9.5, and the forms
//! that Elasticsearch made of it in which every number has all its digits (`strict_`).
//!
//! `joda_cases.tsv` has answers of Elasticsearch 2.4.6. Not here: reading and writing of items (`joda`), the same names from
//! Elasticsearch 7 on (`pattern`).

use super::joda::{Field, JodaItem, TextParts, ZoneText, literal_of, number};
use super::*;

/// A named format.
#[derive(Clone, Debug)]
pub(super) struct Named {
    reading: Reading,
    pub(super) writes: Vec<JodaItem>,
}

#[derive(Clone, Debug)]
enum Reading {
    Items,
    /// `date_optional_time`
    Optional {
        strict: bool,
    },
    /// A number since 1970 in this many milliseconds, of so many digits at most.
    Epoch {
        unit_ms: i64,
        digits_max: usize,
    },
}

/// Has a form in which every number has all its digits, and whether there is one that has not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forms {
    Both,
    Lax,
}

/// Names and patterns: `y` is a year, `Y` one of weeks, `S` a fraction of a second that is written with three digits, `s3` the
/// three digits themselves, `Z` an offset with a colon, `z` one without.
const NAMES: &[(&str, &str, Forms)] = &[
    ("basic_date", "y M d", Forms::Lax),
    ("basic_date_time", "y M d T H m s . S z", Forms::Lax),
    ("basic_date_time_no_millis", "y M d T H m s z", Forms::Lax),
    ("basic_ordinal_date", "y D", Forms::Lax),
    ("basic_ordinal_date_time", "y D T H m s . S z", Forms::Lax),
    ("basic_ordinal_date_time_no_millis", "y D T H m s z", Forms::Lax),
    ("basic_time", "H m s . S z", Forms::Lax),
    ("basic_time_no_millis", "H m s z", Forms::Lax),
    ("basic_t_time", "T H m s . S z", Forms::Lax),
    ("basic_t_time_no_millis", "T H m s z", Forms::Lax),
    ("basic_week_date", "Y W w e", Forms::Both),
    ("basic_week_date_time", "Y W w e T H m s . S z", Forms::Both),
    ("basic_week_date_time_no_millis", "Y W w e T H m s z", Forms::Both),
    ("date", "y - M - d", Forms::Both),
    ("date_hour", "y - M - d T H", Forms::Both),
    ("date_hour_minute", "y - M - d T H : m", Forms::Both),
    ("date_hour_minute_second", "y - M - d T H : m : s", Forms::Both),
    ("date_hour_minute_second_fraction", "y - M - d T H : m : s . S", Forms::Both),
    ("date_hour_minute_second_millis", "y - M - d T H : m : s . s3", Forms::Both),
    ("date_optional_time", "y - M - d T H : m : s . S Z", Forms::Both),
    ("date_time", "y - M - d T H : m : s . S Z", Forms::Both),
    ("date_time_no_millis", "y - M - d T H : m : s Z", Forms::Both),
    ("hour", "H", Forms::Both),
    ("hour_minute", "H : m", Forms::Both),
    ("hour_minute_second", "H : m : s", Forms::Both),
    ("hour_minute_second_fraction", "H : m : s . S", Forms::Both),
    ("hour_minute_second_millis", "H : m : s . s3", Forms::Both),
    ("ordinal_date", "y - D", Forms::Both),
    ("ordinal_date_time", "y - D T H : m : s . S Z", Forms::Both),
    ("ordinal_date_time_no_millis", "y - D T H : m : s Z", Forms::Both),
    ("time", "H : m : s . S Z", Forms::Both),
    ("time_no_millis", "H : m : s Z", Forms::Both),
    ("t_time", "T H : m : s . S Z", Forms::Both),
    ("t_time_no_millis", "T H : m : s Z", Forms::Both),
    ("week_date", "Y - W w - e", Forms::Both),
    ("week_date_time", "Y - W w - e T H : m : s . S Z", Forms::Both),
    ("week_date_time_no_millis", "Y - W w - e T H : m : s Z", Forms::Both),
    ("weekyear", "Y", Forms::Both),
    ("week_year", "Y", Forms::Lax),
    ("weekyear_week", "Y - W w", Forms::Both),
    ("weekyear_week_day", "Y - W w - e", Forms::Both),
    ("year", "y", Forms::Both),
    ("year_month", "y - M", Forms::Both),
    ("year_month_day", "y - M - d", Forms::Both),
];

/// The format of a name, written with `_` or with capitals. `None`: it is none.
pub(super) fn find_name(name: &str) -> Option<Named> {
    let epoch = |unit_ms: i64, digits_max: usize| Named {
        reading: Reading::Epoch { unit_ms, digits_max },
        writes: Vec::new(),
    };
    match name {
        "epoch_millis" => return Some(epoch(1, 13)),
        "epoch_second" => return Some(epoch(1000, 10)),
        _ => {}
    }
    let plain = name.strip_prefix("strict_");
    let capital = name
        .strip_prefix("strict")
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    let strict = plain.is_some() || capital.is_some();
    let fits = |known: &str| match (plain, capital) {
        (Some(rest), _) => rest == known,
        (_, Some(rest)) => capitals(known, true) == rest,
        _ => {
            name == known
                || known != "week_year" && capitals(known, false) == name
                || known == "basic_t_time" && name == "basic_t_Time"
        }
    };
    let (known, pattern, forms) = NAMES.iter().find(|(known, ..)| fits(known))?;
    if strict && *forms == Forms::Lax {
        return None;
    }
    let basic = known.starts_with("basic_");
    Some(Named {
        reading: match *known {
            "date_optional_time" => Reading::Optional { strict },
            _ => Reading::Items,
        },
        writes: pattern.split(' ').filter_map(|word| item(word, strict, basic)).collect(),
    })
}

/// `date_time` as `dateTime`, or `DateTime`.
fn capitals(name: &str, first: bool) -> String {
    let mut upper = first;
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match (c, upper) {
            ('_', _) => upper = true,
            (c, true) => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            (c, false) => out.push(c),
        }
    }
    out
}

/// Basic forms have all digits of every number but the year's.
fn item(word: &str, strict: bool, basic: bool) -> Option<JodaItem> {
    let year = |field: Field| match (strict, basic) {
        (true, _) => JodaItem::Fixed { field, width: 4 },
        (false, true) => JodaItem::Number { field, min: 4, max: 4 },
        (false, false) => JodaItem::Number { field, min: 4, max: 9 },
    };
    let digits = |field: Field, width: usize| match strict || basic {
        true => JodaItem::Fixed { field, width },
        false => JodaItem::Number {
            field,
            min: width,
            max: width,
        },
    };
    Some(match word {
        "y" => year(Field::Year),
        "Y" => year(Field::Weekyear),
        "M" => digits(Field::Month, 2),
        "d" => digits(Field::Day, 2),
        "D" => digits(Field::DayOfYear, 3),
        "w" => digits(Field::WeekOfWeekyear, 2),
        "e" => digits(Field::Weekday, 1),
        "H" => digits(Field::Hour, 2),
        "m" => digits(Field::Minute, 2),
        "s" => digits(Field::Second, 2),
        "S" => JodaItem::Fraction { reads: 9, writes: 3 },
        "s3" => JodaItem::Fraction { reads: 3, writes: 3 },
        "Z" => JodaItem::Zone(ZoneText::Zulu { colon: true }),
        "z" => JodaItem::Zone(ZoneText::Zulu { colon: false }),
        literal => literal_of(literal),
    })
}

impl Named {
    /// Reads a text; see [`joda::read`].
    pub(super) fn read(&self, text: &str, tz: Option<&TimeZone>, missing: Missing) -> Option<i64> {
        match self.reading {
            Reading::Items => joda::read(&self.writes, text, tz, missing),
            Reading::Optional { strict } => {
                let mut said = TextParts::default();
                let rest = date_optional_time(text, strict, &mut said)?;
                rest.is_empty().then(|| said.moment(tz, missing)).flatten()
            }
            Reading::Epoch { unit_ms, digits_max } => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let fits = digits.len() <= digits_max && digits.bytes().all(|b| b.is_ascii_digit());
                let number: i64 = text.parse().ok().filter(|_| fits)?;
                number.checked_mul(unit_ms)
            }
        }
    }

    /// How many milliseconds a unit is of a number since 1970.
    pub(super) fn epoch_unit_ms(&self) -> Option<i64> {
        match self.reading {
            Reading::Epoch { unit_ms, .. } => Some(unit_ms),
            _ => None,
        }
    }
}

/// One number of a date, with all its digits where those are asked for.
fn part<'a>(text: &'a str, field: Field, width: usize, strict: bool, said: &mut TextParts) -> Option<&'a str> {
    let is_year = matches!(field, Field::Year | Field::Weekyear);
    let item = match (strict, is_year) {
        (true, _) => JodaItem::Fixed { field, width },
        (false, true) => JodaItem::Number {
            field,
            min: width,
            max: 9,
        },
        (false, false) => JodaItem::Number {
            field,
            min: width,
            max: width,
        },
    };
    item.read(text, said)
}

/// The state after the part that follows if it can be read, else the state before it.
fn optional<'a>(text: &'a str, said: &mut TextParts, read: impl FnOnce(&'a str, &mut TextParts) -> Option<&'a str>) -> &'a str {
    let before = said.fields.len();
    read(text, said).unwrap_or_else(|| {
        said.fields.truncate(before);
        text
    })
}

/// `dateOptionalTimeParser`: a date of months, of weeks or of days of a year, whichever reads most; then `T`, a time and an
/// offset, each of which may be missing.
fn date_optional_time<'a>(text: &'a str, strict: bool, said: &mut TextParts) -> Option<&'a str> {
    let months = |said: &mut TextParts| {
        let rest = part(text, Field::Year, 4, strict, said)?;
        Some(optional(rest, said, |rest, said| {
            let rest = part(rest.strip_prefix('-')?, Field::Month, 2, strict, said)?;
            Some(optional(rest, said, |rest, said| {
                part(rest.strip_prefix('-')?, Field::Day, 2, strict, said)
            }))
        }))
    };
    let weeks = |said: &mut TextParts| {
        let rest = part(text, Field::Weekyear, 4, strict, said)?;
        let rest = literal_of("-W").read(rest, said)?;
        let rest = part(rest, Field::WeekOfWeekyear, 2, strict, said)?;
        Some(optional(rest, said, |rest, said| {
            part(rest.strip_prefix('-')?, Field::Weekday, 1, strict, said)
        }))
    };
    let days = |said: &mut TextParts| {
        let rest = part(text, Field::Year, 4, strict, said)?;
        part(rest.strip_prefix('-')?, Field::DayOfYear, 3, strict, said)
    };
    let ways: [&dyn Fn(&mut TextParts) -> Option<&'a str>; 3] = [&months, &weeks, &days];
    let mut best: Option<(TextParts, &str)> = None;
    for way in ways {
        let mut own = TextParts::default();
        if let Some(rest) = way(&mut own)
            && best.as_ref().is_none_or(|(_, left)| rest.len() < left.len())
        {
            best = Some((own, rest));
        }
    }
    let (date, rest) = best?;
    *said = date;
    let Some(rest) = rest.strip_prefix(['T', 't']) else {
        return Some(rest);
    };
    let rest = optional(rest, said, |rest, said| time(rest, strict, said));
    Some(match joda::offset(rest) {
        Some((offset, rest)) => {
            said.offset = Some(offset);
            rest
        }
        None => rest,
    })
}

/// Hours, minutes and seconds, the last of which may have a fraction.
fn time<'a>(text: &'a str, strict: bool, said: &mut TextParts) -> Option<&'a str> {
    let mut rest = part(text, Field::Hour, 2, strict, said)?;
    let units = [
        (Field::MilliOfHour, Some(Field::Minute)),
        (Field::MilliOfMinute, Some(Field::Second)),
        (Field::Milli, None),
    ];
    for (fraction, next) in units {
        let further = next.and_then(|next| part(rest.strip_prefix(':')?, next, 2, strict, said));
        match further {
            Some(further) => rest = further,
            None => return Some(optional(rest, said, |rest, said| fraction_of(rest, fraction, said))),
        }
    }
    Some(rest)
}

/// A point or a comma, and up to nine digits of the unit before them.
fn fraction_of<'a>(text: &'a str, field: Field, said: &mut TextParts) -> Option<&'a str> {
    let unit_ms: i64 = match field {
        Field::MilliOfHour => 3_600_000,
        Field::MilliOfMinute => 60_000,
        _ => 1000,
    };
    let text = text.strip_prefix(['.', ','])?;
    let (digits, rest) = number(text, 9, false)?;
    let count = u32::try_from(text.len() - rest.len()).ok()?;
    said.fields.push((field, digits * unit_ms / 10_i64.pow(count)));
    Some(rest)
}
