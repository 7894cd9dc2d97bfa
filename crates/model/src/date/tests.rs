//! Patterns, math and buckets as data.

use super::*;

/// Answers of Joda-Time 2.9.5 as Elasticsearch 2.4.6 uses it: what is done, pattern, input, zone, answer.
const JODA_CASES: &str = include_str!("joda_cases.tsv");
const JODA_NAMED_CASES: &str = include_str!("joda_named_cases.tsv");

#[test]
fn joda_patterns_read_and_write_as_the_original() {
    let wrong = joda_differences(JODA_CASES);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Answers of Elasticsearch 2.4.6: what its documents and the ends of its ranges read, and what its aggregations write.
#[test]
fn named_formats_of_2015_read_and_write_as_the_original() {
    let wrong = joda_differences(JODA_NAMED_CASES);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rows of five columns: what is done, the format, what is read or printed, a zone, and what the original says.
fn joda_differences(cases: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let [what, pattern, input, zone, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not five columns: {line}");
        };
        let format = DateFormat::parse_pattern_of(pattern, PatternSyntax::Joda);
        let got = match (what, format) {
            (_, Err(_)) => "bad".to_owned(),
            ("print", Ok(format)) => {
                let zone = parse_zone(if zone.is_empty() { "UTC" } else { zone }).expect("zone");
                format.render(input.parse().expect("number"), Some(&zone))
            }
            ("parse", Ok(format)) => format.parse(input, None).map_or("refused".into(), |ms| ms.to_string()),
            ("up" | "low", Ok(format)) => format
                .parse_bound(input, None, what == "up")
                .map_or("refused".into(), |ms| ms.to_string()),
            (_, Ok(_)) => "pattern".to_owned(),
        };
        if got != expected {
            wrong.push(format!("{line}, not {got}"));
        }
    }
    wrong
}

#[test]
fn letters_of_a_pattern_are_of_its_syntax() {
    // The year of the week in `java.time`, that of the era in Joda-Time.
    let ms = format("yyyy-MM-dd").parse("2014-12-31", None).expect("a date");
    let joda = DateFormat::parse_pattern_of("YYYY-MM-dd", PatternSyntax::Joda).expect("a pattern");
    assert_eq!(
        (joda.render(ms, None), format("YYYY-MM-dd").render(ms, None)),
        ("2014-12-31".into(), "2015-12-31".into())
    );
    let unknown = DateFormat::parse_pattern_of("YYYY-bb", PatternSyntax::Joda).expect_err("no such letter");
    assert_eq!(unknown.reason(), "Invalid format: [YYYY-bb]: Illegal pattern component: b");
}

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
