//! Milliseconds to a text by a pattern.

use super::*;
use crate::text::push_digits;
use jiff::civil;
use std::fmt;

/// A moment taken apart for writing.
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) days: i64,
    pub(super) of_day: i64,
    /// Nanoseconds of the last millisecond.
    pub(super) nanos: i64,
    /// Fractions of any length show them.
    pub(super) all_nanos: bool,
    pub(super) offset: i64,
    pub(super) zone: String,
}

impl Moment {
    pub(super) fn of(ms: i64, tz: &TimeZone) -> Option<Moment> {
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
            nanos: 0,
            all_nanos: false,
            offset,
            zone,
        })
    }

    pub(super) fn number(&self, part: Part) -> i64 {
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
            Part::Nano => self.of_day % 1000 * 1_000_000 + self.nanos,
            Part::MilliOfDay => self.of_day,
            Part::WeekYear => week_date().map_or(self.year, |d| i64::from(d.year())),
            Part::Week => week_date().map_or(1, |d| i64::from(d.week())),
            Part::WeekdayNumber => (self.days + 3).rem_euclid(7) + 1,
        }
    }

    pub(super) fn write(&self, items: &[Item], out: &mut String) {
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
                    out.push_str(sign);
                    push_digits(out, number.unsigned_abs(), *width);
                    Ok(())
                }
                Item::ShortYear => write!(out, "{:02}", self.year.rem_euclid(100)),
                Item::Fraction { max, separator, .. } => {
                    let mut digits = String::with_capacity(9);
                    push_digits(&mut digits, self.number(Part::Nano).unsigned_abs(), 9);
                    let width = match *separator {
                        true if self.all_nanos => digits.trim_end_matches('0').len().max(3),
                        true => 3,
                        false => (*max).min(9),
                    };
                    out.push_str(if *separator { "." } else { "" });
                    out.push_str(&digits[..width]);
                    Ok(())
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

    pub(super) fn zone(&self, style: ZoneStyle) -> String {
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
