//! Slow logs: searches and writes that take longer than an index allows, one line each, by the reference's settings.
//!
//! A line has the severity of the highest threshold that was passed. Targets are `index.search.slowlog.query`,
//! `index.search.slowlog.fetch` and `index.indexing.slowlog.index`. Of a bulk each write counts with an equal part of the time.
//! Not here: where lines go (the server), waits for locks (`metrics`).

use crate::call::Call;
use crate::trace_context::TraceParent;
use dsl::search::SearchResponse;
use engine::WriteOp;
use model::{IndexName, Target, units};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a request that a line shows.
const SOURCE_MOST_BYTES: usize = 10 << 10;
/// Characters of a document that a line shows, unless `index.indexing.slowlog.source` says otherwise.
const SOURCE_CHARS: usize = 1000;

/// Severities, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Warn,
    Info,
    Debug,
    Trace,
}

const SEVERITIES: [(Severity, &str); 4] = [
    (Severity::Warn, "warn"),
    (Severity::Info, "info"),
    (Severity::Debug, "debug"),
    (Severity::Trace, "trace"),
];

const _: () = {
    let mut at = 0;
    while at < SEVERITIES.len() {
        assert!(
            SEVERITIES[at].0 as usize == at,
            "the highest severity comes first: the first threshold that was passed counts"
        );
        at += 1;
    }
};

/// The thresholds of one phase, by severity; `None` logs nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Thresholds([Option<Duration>; SEVERITIES.len()]);

impl Thresholds {
    fn of(settings: &Map<String, Value>, prefix: &str) -> Thresholds {
        Thresholds(SEVERITIES.map(|(_, word)| {
            let name = format!("{prefix}.{word}");
            let text = settings.get(&name).and_then(Value::as_str)?;
            // The catalog took it, so it can be read. -1 switches it off.
            units::parse_duration_or_never(text, &name).ok().flatten()
        }))
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The severity of work that took so long, down to `least`.
    fn severity(&self, took: Duration, least: Severity) -> Option<Severity> {
        let passed = |threshold: &Option<Duration>| threshold.is_some_and(|threshold| took >= threshold);
        let at = self.0.iter().position(passed)?;
        Some(SEVERITIES[at].0).filter(|severity| *severity <= least)
    }
}

/// The thresholds of one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlowLog {
    index: IndexName,
    query: Thresholds,
    fetch: Thresholds,
    write: Thresholds,
    search_least: Severity,
    write_least: Severity,
    source_chars: usize,
}

impl SlowLog {
    /// `None` if the index has no threshold.
    pub(crate) fn of(index: &IndexName, settings: &Map<String, Value>) -> Option<SlowLog> {
        if !settings.keys().any(|name| name.contains(".slowlog.")) {
            return None;
        }
        let least = |name: &str| {
            let text = settings.get(name).and_then(Value::as_str).unwrap_or("trace");
            let known = SEVERITIES.iter().find(|(_, word)| word.eq_ignore_ascii_case(text));
            known.map_or(Severity::Trace, |(severity, _)| *severity)
        };
        let source = settings.get("index.indexing.slowlog.source").and_then(Value::as_str);
        let slow = SlowLog {
            index: index.clone(),
            query: Thresholds::of(settings, "index.search.slowlog.threshold.query"),
            fetch: Thresholds::of(settings, "index.search.slowlog.threshold.fetch"),
            write: Thresholds::of(settings, "index.indexing.slowlog.threshold.index"),
            search_least: least("index.search.slowlog.level"),
            write_least: least("index.indexing.slowlog.level"),
            source_chars: match source {
                None => SOURCE_CHARS,
                Some("true") => usize::MAX,
                Some("false") => 0,
                Some(number) => number.parse().unwrap_or(SOURCE_CHARS),
            },
        };
        let empty = slow.query.is_empty() && slow.fetch.is_empty() && slow.write.is_empty();
        (!empty).then_some(slow)
    }
}

macro_rules! line {
    ($severity:expr, $target:literal, $($field:tt)*) => {
        match $severity {
            Severity::Warn => tracing::warn!(target: $target, $($field)*),
            Severity::Info => tracing::info!(target: $target, $($field)*),
            Severity::Debug => tracing::debug!(target: $target, $($field)*),
            Severity::Trace => tracing::trace!(target: $target, $($field)*),
        }
    };
}

/// Logs a search that took so long, hits included, if an index of the target has a threshold for it.
pub(crate) async fn search(call: &Call, target: &Target, response: &SearchResponse, took: Duration) {
    for slow in logs_of(call, &target.expressions).await {
        let parts = [
            (
                slow.query.severity(took.saturating_sub(response.fetch), slow.search_least),
                took.saturating_sub(response.fetch),
                true,
            ),
            (slow.fetch.severity(response.fetch, slow.search_least), response.fetch, false),
        ];
        for (severity, took, is_query) in parts {
            let Some(severity) = severity else { continue };
            let hits = response.hits.total.as_ref();
            let total = hits.map_or_else(
                || "-1".to_owned(),
                |total| format!("{}{} hits", total.value, if total.exact { "" } else { "+" }),
            );
            let (message, shown) = (format!("[{}][0]", slow.index), units::render_duration(took));
            let (millis, shards) = (millis(took), response.shards);
            let source = one_line(&call.body, SOURCE_MOST_BYTES);
            let (id, trace) = (
                call.caller.opaque_id.as_deref(),
                call.trace.as_ref().map(TraceParent::trace_id),
            );
            if is_query {
                line!(
                    severity,
                    "index.search.slowlog.query",
                    took = shown,
                    took_millis = millis,
                    total_hits = total,
                    search_type = "QUERY_THEN_FETCH",
                    total_shards = shards,
                    source,
                    id,
                    trace.id = trace,
                    "{message}"
                );
            } else {
                line!(
                    severity,
                    "index.search.slowlog.fetch",
                    took = shown,
                    took_millis = millis,
                    total_hits = total,
                    search_type = "QUERY_THEN_FETCH",
                    total_shards = shards,
                    source,
                    id,
                    trace.id = trace,
                    "{message}"
                );
            }
        }
    }
}

/// Writes of one request to indices that have thresholds for them, until they are done.
pub(crate) struct SlowWrites {
    begun: Instant,
    /// The time of the whole request.
    count: u32,
    /// Each with its id and its document.
    watched: Vec<(Arc<SlowLog>, String, Option<String>, &'static str)>,
}

impl SlowWrites {
    /// Takes down what a line will need. Empty where no index has a threshold, as is usual.
    pub(crate) async fn begin(call: &Call, writes: impl Iterator<Item = &engine::Write> + Clone + Send) -> SlowWrites {
        let mut slow = SlowWrites {
            begun: Instant::now(),
            count: u32::try_from(writes.clone().count()).unwrap_or(u32::MAX),
            watched: Vec::new(),
        };
        let mut last: Option<(IndexName, Option<Arc<SlowLog>>)> = None;
        for write in writes {
            if last.as_ref().is_none_or(|(index, _)| *index != write.at.index) {
                let found = logs_of(call, &[write.at.index.as_str().to_owned()]).await;
                let found = found.into_iter().find(|slow| !slow.write.is_empty()).map(Arc::new);
                last = Some((write.at.index.clone(), found));
            }
            let Some((_, Some(log))) = &last else { continue };
            let (kind, source) = match &write.op {
                WriteOp::Put(source) => ("index", Some(shorten(&source.0, log.source_chars))),
                WriteOp::Update(_) => ("update", None),
                WriteOp::Delete => continue,
            };
            slow.watched.push((log.clone(), write.at.id.id.to_string(), source, kind));
        }
        debug_assert!(
            slow.watched.len() <= slow.count as usize,
            "the time of a request is parted among no fewer writes than are told of"
        );
        slow
    }

    /// They are done.
    pub(crate) fn end(self, call: &Call) {
        if self.watched.is_empty() {
            return;
        }
        let took = self.begun.elapsed() / self.count.max(1);
        let (shown, millis) = (units::render_duration(took), millis(took));
        let (request, trace) = (
            call.caller.opaque_id.as_deref(),
            call.trace.as_ref().map(TraceParent::trace_id),
        );
        for (log, id, source, operation) in &self.watched {
            let Some(severity) = log.write.severity(took, log.write_least) else {
                continue;
            };
            let message = format!("[{}][0]", log.index);
            line!(
                severity,
                "index.indexing.slowlog.index",
                took = shown,
                took_millis = millis,
                operation,
                document = id,
                source = source.as_deref(),
                id = request,
                trace.id = trace,
                "{message}"
            );
        }
    }
}

/// The slow logs of the indices behind names.
async fn logs_of(call: &Call, names: &[String]) -> Vec<SlowLog> {
    let all = ["_all".to_owned()];
    let names = if names.is_empty() { &all[..] } else { names };
    let mut found = Vec::new();
    for name in names.iter().filter(|name| !name.starts_with('-')) {
        if let Some(known) = call.rest.index_facts(name).await {
            found.extend(known.slow.iter().flat_map(|slow| slow.iter().cloned()));
        }
    }
    // Two names may lead to one index.
    found.sort_by(|a, b| a.index.as_str().cmp(b.index.as_str()));
    found.dedup_by(|a, b| a.index == b.index);
    found
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The begin of a text on one line: a line of a log ends where it ends.
fn one_line(text: &[u8], most_bytes: usize) -> String {
    let shown = String::from_utf8_lossy(&text[..text.len().min(most_bytes)]);
    shown.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// So many characters of a document.
fn shorten(source: &[u8], most_chars: usize) -> String {
    let line = one_line(source, most_chars.saturating_mul(4));
    match line.char_indices().nth(most_chars) {
        Some((end, _)) => line[..end].to_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn log(settings: &Value) -> Option<SlowLog> {
        let settings = settings.as_object().cloned().unwrap_or_default();
        SlowLog::of(&IndexName::new("i"), &settings)
    }

    fn check(settings: &Value, took_ms: u64, expected: Option<Severity>) {
        let found = log(settings).and_then(|log| log.query.severity(Duration::from_millis(took_ms), log.search_least));
        assert_eq!(found, expected, "{took_ms} ms of {settings}");
    }

    #[test]
    fn the_highest_threshold_that_is_passed_counts() {
        let both =
            json!({ "index.search.slowlog.threshold.query.warn": "10ms", "index.search.slowlog.threshold.query.debug": "2ms" });
        check(&both, 1, None);
        check(&both, 2, Some(Severity::Debug));
        check(&both, 10, Some(Severity::Warn));
        let off = json!({ "index.search.slowlog.threshold.query.warn": "-1" });
        check(&off, 1_000_000, None);
        let zero = json!({ "index.search.slowlog.threshold.query.trace": "0ms" });
        check(&zero, 0, Some(Severity::Trace));
        let cut = json!({ "index.search.slowlog.threshold.query.trace": "0ms", "index.search.slowlog.level": "INFO" });
        check(&cut, 5, None);
        check(&json!({ "index.search.slowlog.threshold.fetch.warn": "0ms" }), 5, None);
    }

    #[test]
    fn an_index_without_thresholds_has_no_log() {
        assert_eq!(log(&json!({ "index.number_of_replicas": "1" })), None);
        assert_eq!(log(&json!({ "index.search.slowlog.level": "info" })), None);
        assert!(log(&json!({ "index.indexing.slowlog.threshold.index.info": "1s" })).is_some());
    }

    #[test]
    fn sources_are_short_and_on_one_line() {
        assert_eq!(shorten("{\n\t\"ä\": 1 }".as_bytes(), 100), "{  \"ä\": 1 }");
        assert_eq!(shorten("äöü".as_bytes(), 2), "äö");
        assert_eq!(shorten(b"abc", 0), "");
        assert_eq!(one_line("äö".as_bytes(), 3), "ä\u{fffd}");
    }
}
