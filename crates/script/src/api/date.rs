//! Dates: UTC, in milliseconds. Zones other than UTC and custom formats aren't here.

use crate::runtime::{R, Run};
use crate::value::{Value, iso};
use model::date::{civil_from_days as civil, days_from_civil as days, days_in_month as month_days};

const DAY: i64 = 86_400_000;

/// An ISO date, with or without a time.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let text = text.split('[').next()?.trim_end_matches('Z');
    let (date, time) = text.split_once('T').unwrap_or((text, ""));
    let mut parts = date.splitn(3, '-').map(|p| p.parse::<i64>().ok());
    let (y, m, d) = (
        parts.next()??,
        parts.next().unwrap_or(Some(1))?,
        parts.next().unwrap_or(Some(1))?,
    );
    if !(1..=12).contains(&m) || d < 1 || d > month_days(y, m) || y.abs() > 200_000 {
        return None;
    }
    let mut ms = 0.0;
    let (time, zone) = match time.find(['+', '-']) {
        Some(i) => time.split_at_checked(i)?,
        None => (time, ""),
    };
    let units = [(3_600_000.0, 24.0), (60_000.0, 60.0), (1000.0, 60.0)];
    for (part, (unit, below)) in time.split(':').filter(|p| !p.is_empty()).zip(units) {
        let n = part.parse::<f64>().ok().filter(|n| (0.0..below).contains(n))?;
        ms += n * unit;
    }
    let mut shift = 0;
    if let Some(digits) = zone.get(1..).filter(|z| !z.is_empty()) {
        let (h, min) = digits.split_once(':').unwrap_or((digits, "0"));
        let h = h.parse::<u8>().ok().filter(|h| *h <= 18)?;
        let min = min.parse::<u8>().ok().filter(|min| *min < 60)?;
        shift = (i64::from(h) * 60 + i64::from(min)) * 60_000;
    }
    Some(days(y, m, d) * DAY + ms as i64 - if zone.starts_with('+') { shift } else { -shift })
}

/// `"10d"` in milliseconds.
pub(crate) fn duration(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (n, unit) = text.split_at_checked(split)?;
    let n: f64 = n.trim().parse().ok()?;
    Some(
        n * match unit {
            "" | "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            _ => return None,
        },
    )
}

/// One of Java's units, in milliseconds.
pub(crate) fn unit(name: &str) -> Option<i64> {
    Some(match name {
        "MILLIS" | "Millis" => 1,
        "SECONDS" | "Seconds" => 1000,
        "MINUTES" | "Minutes" => 60_000,
        "HOURS" | "Hours" => 3_600_000,
        "DAYS" | "Days" => DAY,
        "WEEKS" | "Weeks" => 7 * DAY,
        _ => return None,
    })
}

/// Methods of a date.
pub(crate) fn call(run: &mut Run<'_, '_>, ms: i64, name: &str, args: &[Value]) -> R<Option<Value>> {
    let day = ms.div_euclid(DAY);
    let (y, m, d) = civil(day);
    let t = ms.rem_euclid(DAY);
    let int = |n: i64| Value::Int(n as i32);
    let weekday = (day + 3).rem_euclid(7) + 1;
    Ok(Some(match (name, args) {
        ("getYear" | "getWeekyear", []) => int(y),
        ("getMonthValue" | "getMonthOfYear" | "getMonth", []) => int(m),
        ("getDayOfMonth" | "getDate", []) => int(d),
        ("getDayOfYear", []) => int(day - days(y, 1, 1) + 1),
        ("getDayOfWeek" | "getDayOfWeekEnum" | "getDay", []) => int(weekday),
        ("getHour" | "getHourOfDay" | "getHours", []) => int(t / 3_600_000),
        ("getMinute" | "getMinuteOfHour" | "getMinutes", []) => int(t / 60_000 % 60),
        ("getSecond" | "getSecondOfMinute" | "getSeconds", []) => int(t / 1000 % 60),
        ("getMillisOfSecond", []) => int(t % 1000),
        ("getMillisOfDay", []) => int(t),
        ("getNano", []) => int(t % 1000 * 1_000_000),
        ("toEpochMilli" | "getMillis" | "getTime" | "toEpochMillis", []) => Value::Long(ms),
        ("toEpochSecond" | "getEpochSecond", []) => Value::Long(ms.div_euclid(1000)),
        ("toInstant" | "toLocalDate" | "toLocalDateTime" | "toOffsetDateTime" | "toZonedDateTime", [])
        | ("withZoneSameInstant" | "atZone" | "format", [Value::Tag(_)]) => Value::Date(ms),
        ("toString", []) => run.text(iso(ms))?,
        ("isBefore" | "before", [Value::Date(b)]) => Value::Bool(ms < *b),
        ("isAfter" | "after", [Value::Date(b)]) => Value::Bool(ms > *b),
        ("isEqual" | "equals", [Value::Date(b)]) => Value::Bool(ms == *b),
        ("compareTo", [Value::Date(b)]) => int(ms.cmp(b) as i64),
        ("plusMonths" | "minusMonths" | "plusYears" | "minusYears", [n]) => {
            let mut n = n.as_i64().unwrap_or(0).clamp(-1_000_000, 1_000_000);
            if name.starts_with("minus") {
                n = -n;
            }
            if name.ends_with("Years") {
                n *= 12;
            }
            let total = y * 12 + m - 1 + n;
            let (y, m) = (total.div_euclid(12), total.rem_euclid(12) + 1);
            Value::Date(days(y, m, d.min(month_days(y, m))).wrapping_mul(DAY).wrapping_add(t))
        }
        ("truncatedTo", [Value::Tag(u)]) => Value::Date(ms - ms.rem_euclid(unit(u).unwrap_or(1))),
        (_, [n]) => {
            let amount = n.as_i64().unwrap_or(0);
            let signed = match (name.strip_prefix("plus"), name.strip_prefix("minus")) {
                (Some(u), _) => unit(u).map(|u| u.wrapping_mul(amount)),
                (_, Some(u)) => unit(u).map(|u| u.wrapping_mul(amount).wrapping_neg()),
                _ => None,
            };
            match signed {
                Some(by) => Value::Date(ms.wrapping_add(by)),
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    }))
}
