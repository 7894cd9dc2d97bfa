//! Days and offsets: civil dates to days since 1970 and back.

use super::*;

/// Days since 1970 of a day of the Gregorian calendar. None if there is no such day, or out of range.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(-9999..=9999).contains(&year) || day > days_in_month(year, month) {
        return None;
    }
    Some(days_from_civil(year, month, day))
}

/// Year, month and day to days since 1970 (Hinnant's `days_from_civil`).
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    debug_assert!((1..=12).contains(&month), "a month is one of twelve: [{month}]");
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// Days since 1970 to year, month and day of the proleptic Gregorian calendar (Hinnant's `civil_from_days`).
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let (year, day) = (yoe + era * 400 + i64::from(month <= 2), doy - (153 * mp + 2) / 5 + 1);
    debug_assert_eq!(
        days_from_civil(year, month, day),
        days,
        "days of the calendar and days since 1970 are the same days"
    );
    (year, month, day)
}

/// 28 to 31; `month` from 1 to 12.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    debug_assert!((1..=12).contains(&month), "a month is one of twelve: [{month}]");
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The offset of `tz` at a moment, in milliseconds.
pub(super) fn offset_ms(tz: &TimeZone, ms: i64) -> i64 {
    if *tz == TimeZone::UTC {
        return 0;
    }
    jiff::Timestamp::from_millisecond(ms).map_or(0, |at| i64::from(tz.to_offset(at).seconds()) * 1000)
}

/// The moment of a local time. In a gap the later one, in an overlap the earlier.
pub(super) fn to_utc(local: i64, tz: &TimeZone) -> i64 {
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
