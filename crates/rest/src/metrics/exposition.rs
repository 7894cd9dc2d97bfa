//! Prometheus' text format, version 0.0.4.
//!
//! Invariant, asserted: a family is written once. Not here: which families there are (`handlers::prometheus`).

use engine::histogram::{BUCKETS_SECONDS, Observed};
use std::collections::HashSet;
use std::fmt::Write as _;

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A label and its value.
pub(crate) type Label<'a> = (&'static str, &'a str);

/// A text that grows family by family.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    text: String,
    names: HashSet<&'static str>,
    /// The family that samples belong to.
    family: &'static str,
}

impl Exposition {
    /// Begins a family of counters. The name ends in `_total`.
    pub(crate) fn counters(&mut self, name: &'static str, help: &str) {
        assert!(name.ends_with("_total"), "a counter without its suffix: {name}");
        self.begin(name, help, "counter");
    }

    /// Begins a family of gauges.
    pub(crate) fn gauges(&mut self, name: &'static str, help: &str) {
        assert!(
            !name.ends_with("_total") && !name.ends_with("_count"),
            "a gauge with the suffix of a counter or of a histogram: {name}"
        );
        self.begin(name, help, "gauge");
    }

    /// Begins a family of histograms over seconds.
    pub(crate) fn histograms(&mut self, name: &'static str, help: &str) {
        assert!(name.ends_with("_seconds"), "a histogram without its unit: {name}");
        self.begin(name, help, "histogram");
    }

    /// A counter alone in its family.
    pub(crate) fn counter(&mut self, name: &'static str, help: &str, value: impl Into<Number>) {
        self.counters(name, help);
        self.sample(&[], value);
    }

    /// A gauge alone in its family.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &str, value: impl Into<Number>) {
        self.gauges(name, help);
        self.sample(&[], value);
    }

    /// A sample of the family that was begun last.
    pub(crate) fn sample(&mut self, labels: &[Label<'_>], value: impl Into<Number>) {
        self.line("", labels, None, value.into());
    }

    /// A histogram of the family that was begun last.
    pub(crate) fn histogram(&mut self, labels: &[Label<'_>], observed: &Observed) {
        let mut count = 0;
        for (at, in_bucket) in observed.buckets.iter().enumerate() {
            count += in_bucket;
            let bound = BUCKETS_SECONDS.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            self.line("_bucket", labels, Some(&bound), count.into());
        }
        debug_assert_eq!(count, observed.count(), "the last bucket has what all buckets have");
        self.line("_sum", labels, None, observed.sum_seconds.into());
        self.line("_count", labels, None, count.into());
    }

    /// The whole text.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    fn begin(&mut self, name: &'static str, help: &str, kind: &str) {
        assert!(self.names.insert(name), "the family {name} is written twice");
        debug_assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
            "a name that Prometheus takes: {name}"
        );
        self.family = name;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, suffix: &str, labels: &[Label<'_>], bound: Option<&str>, value: Number) {
        debug_assert!(!self.family.is_empty(), "a sample belongs to a family that was begun");
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        let bound = bound.map(|bound| ("le", bound));
        let mut between = '{';
        for (name, value) in labels.iter().copied().chain(bound) {
            self.text.push(between);
            self.text.push_str(name);
            self.text.push_str("=\"");
            for character in value.chars() {
                match character {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            between = ',';
        }
        if between == ',' {
            self.text.push('}');
        }
        let _ = match value {
            Number::Whole(value) => writeln!(self.text, " {value}"),
            Number::Real(value) => writeln!(self.text, " {value}"),
        };
    }
}

/// A sample's value. Whole numbers are written exactly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Number {
    fn from(value: u64) -> Number {
        Number::Whole(value)
    }
}
impl From<usize> for Number {
    fn from(value: usize) -> Number {
        Number::Whole(value as u64)
    }
}
impl From<f64> for Number {
    fn from(value: f64) -> Number {
        Number::Real(value)
    }
}
impl From<bool> for Number {
    fn from(value: bool) -> Number {
        Number::Whole(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::histogram::Histogram;
    use std::time::Duration;

    #[test]
    fn families_have_the_form_of_the_format() {
        let mut out = Exposition::default();
        out.counter("a_total", "Ends.\nTwice \\.", 3_u64);
        out.gauges("b", "Of c.");
        out.sample(&[("c", "x\"y\\z\n"), ("d", "")], 0.5);
        let expected = "# HELP a_total Ends.\\nTwice \\\\.\n# TYPE a_total counter\na_total 3\n\
                        # HELP b Of c.\n# TYPE b gauge\nb{c=\"x\\\"y\\\\z\\n\",d=\"\"} 0.5\n";
        assert_eq!(out.finish(), expected);
    }

    #[test]
    fn buckets_are_cumulative() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(300));
        histogram.record(Duration::from_secs(60));
        let mut out = Exposition::default();
        out.histograms("h_seconds", "Of something.");
        out.histogram(&[("e", "search")], &histogram.observe());
        let text = out.finish();
        for line in [
            "h_seconds_bucket{e=\"search\",le=\"0.0001\"} 0",
            "h_seconds_bucket{e=\"search\",le=\"0.0005\"} 1",
            "h_seconds_bucket{e=\"search\",le=\"10\"} 1",
            "h_seconds_bucket{e=\"search\",le=\"+Inf\"} 2",
            "h_seconds_sum{e=\"search\"} 60.0003",
            "h_seconds_count{e=\"search\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "no [{line}] in\n{text}");
        }
    }

    #[test]
    #[should_panic(expected = "written twice")]
    fn a_family_is_written_once() {
        let mut out = Exposition::default();
        out.gauge("a", "A.", 1_u64);
        out.gauge("a", "A.", 1_u64);
    }
}
